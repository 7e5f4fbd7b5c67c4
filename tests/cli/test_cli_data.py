from __future__ import annotations

import hashlib
import zipfile

import numpy as np
import pytest

from xlsa17_files import write_data_set
from zslearn.cli import main
from zslearn.datasets import _fetch


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    return tmp_path


def test_list_says_what_is_here(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    (write_data_set(home / "xlsa17", "SUN") / "res101.mat").unlink()
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["glyphs"].endswith("yes")
    assert lines["CUB"].endswith("yes")
    assert lines["SUN"].endswith("without features")
    assert lines["AWA1"].endswith("no")


def test_show(home, capsys):
    write_data_set(home / "xlsa17", "CUB", features_file="mine.mat")
    assert main(["data", "show", "CUB", "--features", "mine.mat", "--signatures", "att"]) == 0
    out = capsys.readouterr().out
    assert "CUB, split ns, version xlsa17/ns/unknown/" in out
    assert "unseen classes  cat dog" in out
    assert main(["data", "show", "CUB"]) == 1
    err = capsys.readouterr().err
    assert "mine.mat" in err
    assert err.count("\n") == 1


def test_check(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    for words in (["data", "check"], ["data", "check", str(home / "xlsa17")]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "CUB res101.mat" in out
        assert "unknown" in out
        assert out.endswith("nothing is wrong\n")


def test_check_fails_when_something_is_wrong(home, capsys):
    write_data_set(home, "CUB", trainval_loc=np.array([[1, 11, 30]]))
    assert main(["data", "check", str(home)]) == 1
    out = capsys.readouterr().out
    assert "problem: CUB res101.mat: unseen classes in training: 1 ('cat')" in out
    assert main(["data", "check", str(home / "nowhere")]) == 1
    assert "zslearn: error: There is no folder" in capsys.readouterr().err


def test_fetch_what_is_there(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    assert main(["data", "fetch", "CUB"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{home / 'xlsa17'}\n"
    assert "already there" in printed.err


def test_fetch_an_archive_that_lies_there(home, capsys, monkeypatch):
    """No checksum is known: the computed one is printed, with a warning."""

    assert _fetch.archives()["standard_split"].sha256 is None
    path = home / "standard_split.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("standard_split/CUB/att_splits.mat", b"x")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert main(["data", "fetch", "standard_split"]) == 0
    printed = capsys.readouterr()
    assert "zslearn: warning: No checksum of standard_split.zip is known" in printed.err
    assert digest in printed.err
    assert (home / "standard_split" / "CUB" / "att_splits.mat").read_bytes() == b"x"


def test_fetch_what_nobody_has(home, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["data", "fetch", "MNIST"])
    assert exit_.value.code == 2
