"""The bar that shows how far long work is."""

from __future__ import annotations

import io

import pytest

from zslearn._utils._progress import _clock, progress_bar


class Handle:
    def __init__(self, shown):
        self.shown = shown

    def update(self, line, raw):
        assert raw
        self.shown.append(line)


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would draw, one after another."""
    lines = []

    def display(line, display_id, raw):
        assert display_id
        assert raw
        lines.append(line)
        return Handle(lines)

    monkeypatch.setattr("zslearn._utils._progress._notebook_display", lambda: display)
    return lines


def test_a_notebook_has_one_line_that_changes(shown, capsys):
    with progress_bar(True, 4, "settings × <folds>") as advance:
        advance(1)
        advance(3)
    texts = [line["text/plain"] for line in shown]
    assert texts[0] == "settings × <folds>: 0 of 4, 0:00:00"
    assert texts[1].startswith("settings × <folds>: 1 of 4, 0:00:00, left 0:00:0")
    assert texts[-1] == "settings × <folds>: 4 of 4, 0:00:00"
    page = shown[1]["text/html"]
    assert '<progress value="1" max="4">' in page
    assert "settings × &lt;folds&gt;" in page
    assert capsys.readouterr() == ("", "")


def test_a_notebook_is_not_drawn_in_at_every_step(shown):
    with progress_bar(True, 1000, "steps") as advance:
        for _ in range(1000):
            advance(1)
    assert len(shown) < 100


def test_an_error_leaves_how_far_it_came(shown):
    def work():
        with progress_bar(True, 4, "steps") as advance:
            advance(2)
            raise KeyError("no")

    with pytest.raises(KeyError):
        work()
    assert shown[-1]["text/plain"].startswith("steps: 2 of 4")


def test_a_terminal_is_drawn_in_and_a_file_is_not(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with progress_bar(True, 2, "folds") as advance:
            advance(2)
        assert ("folds" in stream.getvalue()) == drawn


def test_nothing_is_shown_unless_asked_for(shown):
    with progress_bar(False, 2, "steps") as advance:
        advance(1)
    assert not shown


def test_outside_of_a_notebook_there_is_no_display():
    from zslearn._utils._progress import _notebook_display

    assert _notebook_display() is None


def test_clock():
    assert _clock(59.6) == "0:01:00"
    assert _clock(3 * 3600 + 62) == "3:01:02"
