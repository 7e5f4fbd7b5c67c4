from __future__ import annotations

import argparse

import numpy as np
import pytest

from xlsa17_files import write_data_set
from zslearn.cli import _data, main
from zslearn.cli._output import add_options
from zslearn.datasets import ZeroShotDataset, make_zero_shot


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    return tmp_path


def test_list_shows_which_data_sets_are_available(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    (write_data_set(home / "xlsa17", "SUN") / "res101.mat").unlink()
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["glyphs"].endswith("yes")
    assert lines["CUB"].endswith("yes")
    assert lines["SUN"].endswith("without features")
    assert lines["AWA1"].endswith("no")


def test_table_of_data_sets(home, capsys):
    assert main(["data", "table"]) == 0
    out = capsys.readouterr().out
    assert "ImageNet ss  14,197,122      1  1,000  20,842" in out
    write_data_set(home / "xlsa17", "CUB")
    assert main(["data", "table", "CUB"]) == 0
    assert "CUB ns, here" in capsys.readouterr().out


def test_features_of_imagenet_by_class(home, monkeypatch):
    wnids = ["n01440764", "n01443537", "n02084071"]
    for wnid in wnids:
        np.save(home / f"{wnid}.npy", np.ones((3, 4), dtype=np.float32))
    monkeypatch.setattr("zslearn.datasets._class_shards.imagenet_classes", lambda _: wnids[:2])
    (home / "words.csv").write_text("".join(f"{w},1,{i}\n" for i, w in enumerate(["wnid", *wnids])))
    words = [str(home), "--signatures", str(home / "words.csv")]
    data = _data.load_named(arguments_of(*words))
    assert (data.name, data.unseen_classes.tolist()) == ("ImageNet", wnids[2:])
    for wrong in (words[:1], [*words, "--drop", "x"]):
        with pytest.raises(ValueError, match="give only --signatures"):
            _data.load_named(arguments_of(*wrong))


def arguments_of(*words):
    """Parse the arguments of `zslearn data show`."""
    parser = argparse.ArgumentParser()
    add_options(parser, *_data.DATA_OPTIONS)
    return parser.parse_args(words)


def test_several_splits(home):
    write_data_set(home / "xlsa17", "CUB")
    options = ["--class-splits", "random", "--hold-out", "0.2"]
    data = _data.load_named(arguments_of("CUB", "--split", "ns", "ss", *options))
    assert list(data.splits) == ["ns", "ss-1", "ss-2", "ss-3", "ss-4"]
    assert data.split == "ns"
    assert data.splits["ss-3"].version.startswith("xlsa17/ss-3/random-seed0/hold-out 0.2/")
    assert all(split.test_seen.size for split in data.splits.values())
    # Without --hold-out there are no test images of seen classes.
    data = _data.load_named(arguments_of("CUB", "--split", "ss-2", "--class-splits", "random"))
    assert list(data.splits) == ["ss-2"]
    assert data.X_test_seen.shape == (0, 5)


def test_version(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    assert main(["data", "show", "CUB", "--version", "PS2"]) == 0
    assert "version xlsa17/ns/PS2/" in capsys.readouterr().out
    write_data_set(home / "xlsa17", "CUB", train_loc=np.arange(1, 11), val_loc=np.arange(11, 21))
    assert main(["data", "show", "CUB", "--version", "PS2"]) == 1
    # The error is raised before features are read.
    (home / "xlsa17" / "CUB" / "res101.mat").unlink()
    assert main(["data", "show", "CUB", "--version", "PS2"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == errors[1]
    assert "--version PS2 was given, but this is PS1" in errors[0]
    with pytest.raises(SystemExit):
        main(["data", "show", "CUB", "--version", "PS3"])
    assert "PS3" in capsys.readouterr().err


def test_glyphs_have_class_splits(monkeypatch):
    small = make_zero_shot(n_seen=4, n_unseen=2, random_state=0)
    names = ("ns", "ss-1", "ss-2")
    data = ZeroShotDataset(
        small.X, small.y, small.signatures, dict.fromkeys(names, small.active_split), "ns",
        "glyphs", "pixels",
    )  # fmt: skip
    monkeypatch.setattr("zslearn.datasets.load_glyphs", lambda progress: data)
    for words, expected in (
        ([], ["ns"]),
        (["--split", "ss"], ["ss-1", "ss-2"]),
        (["--split", "ss-2", "ns"], ["ss-2", "ns"]),
    ):
        loaded = _data.load_named(arguments_of("glyphs", *words))
        assert list(loaded.splits) == expected
        assert loaded.split == expected[0]
    for words in (["--hold-out", "0.2"], ["--version", "PS1"], ["--features", "x.mat"]):
        with pytest.raises(ValueError, match=f"{words[0]} cannot be used with glyphs"):
            _data.load_named(arguments_of("glyphs", *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "ns", "CUB"], "CUB was read as a split"),
        (["CUB", "--split", "ss"], "pass --class-splits "),
        (["CUB", "--split", "ss"], "--class-splits random draws"),
        (["CUB", "--hold-out", "0.2"], "--hold-out is for splits without"),
        (["CUB", "--split", "ss0", "--hold-out", "2"], "--hold-out 2.0; give a share"),
        (["CUB", "--split", "ss-1", "--class-splits", "x.json"], "x.json"),
        (["CUB", "--split", "ss0", "--hold-out", "x.mat"], "standard_split"),
        (["CUB", "--split", "ss-1", "--class-splits", "random", "--hold-out", "x.mat"], "x.mat"),
        (["CUB", "--unseen", "cat"], "--unseen is for your own data, not for CUB"),
        (["--version", "PS1"], "--version is for data sets known by name"),
        ([".", "--class-splits", "random"], "--class-splits is for data sets known by name"),
        ([".", "--hold-out", "x.mat"], "--hold-out x.mat: for your own data, give a share"),
    ],
)
def test_options_that_do_not_fit_the_data_set(home, capsys, words, message):
    write_data_set(home / "xlsa17", "CUB")
    assert main(["data", "show", *words]) == 1
    assert message in capsys.readouterr().err


def test_check(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    for words in (["data", "check"], ["data", "check", str(home / "xlsa17")]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "CUB res101.mat" in out
        assert "unknown" in out
        assert out.endswith("0 problems found\n")


def test_check_fails_if_there_are_problems(home, capsys):
    write_data_set(home, "CUB", trainval_loc=np.array([[1, 11, 30]]))
    assert main(["data", "check", str(home)]) == 1
    out = capsys.readouterr().out
    assert "problem: CUB" in out
    assert "share 1 samples" in out
    assert main(["data", "check", str(home / "nowhere")]) == 1
    assert "zslearn: error: There is no folder" in capsys.readouterr().err


def test_fetch_an_available_data_set(home, capsys):
    write_data_set(home / "xlsa17", "CUB")
    assert main(["data", "fetch", "CUB"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{home / 'xlsa17'}\n"
    assert "already there" in printed.err
