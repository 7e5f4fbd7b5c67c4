"""Text from elsewhere never steers the terminal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._messages import plain
from zslearn.cli import main
from zslearn.experiments import read_records

ESCAPE = "\x1b[31mred\x07"


def test_plain():
    assert plain(ESCAPE) == r"\x1b[31mred\x07"
    assert plain("é ≈ 漢") == "é ≈ 漢"
    assert plain("a\nb\tc") == r"a\nb\tc"
    assert plain("a\nb\x1b", lines=True) == "a\nb\\x1b"


@pytest.fixture
def own_data(tmp_path):
    """A folder of one's own data with a class that would colour the terminal."""
    names = [ESCAPE, "b", "c", "d", "[bold]e[/bold]"]
    rng = np.random.default_rng(0)
    signatures = pd.DataFrame(rng.random((5, 3)), index=names, columns=["x", "y", "z"])
    labels = np.repeat(names[:4], 6)
    features = pd.DataFrame(rng.random((24, 4)), columns=list("abcd"))
    signatures.to_csv(tmp_path / "signatures.csv", index_label="class")
    features.to_csv(tmp_path / "features.csv", index=False)
    pd.DataFrame({"label": labels}).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path


def test_names_of_classes(own_data, capsys):
    main(["data", "show", str(own_data)])
    shown = "".join(capsys.readouterr())
    assert "\x1b[31m" not in shown
    assert "\x07" not in shown


def test_names_of_files(tmp_path):
    (tmp_path / f"{ESCAPE}.json").write_text("{}")
    with pytest.warns(UserWarning, match="Skipped") as caught:
        assert read_records(tmp_path).empty
    assert all("\x1b" not in str(warning.message) for warning in caught)
