"""The bar that shows how far long work is."""

from __future__ import annotations

import io

import pytest

from zslearn._utils._progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "shown", "drawn"),
    [(Terminal, True, True), (io.StringIO, True, False), (Terminal, False, False)],
)
def test_a_terminal_is_drawn_in_where_asked_for(monkeypatch, stream, shown, drawn):
    """The output of the work itself stays clean, and so does a log file."""
    monkeypatch.setenv("TERM", "xterm")
    drawn_in = stream()
    monkeypatch.setattr("sys.stderr", drawn_in)
    with progress_bar(shown, 4, "settings × <folds>", unit="folds") as advance:
        advance(1)
        advance(3)
    text = drawn_in.getvalue()
    assert ("settings × <folds>" in text) == drawn
    assert ("4/4" in text) == drawn
    assert text.endswith("\x1b[2K") == drawn  # the line is cleared at the end
