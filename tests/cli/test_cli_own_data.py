"""Commands on the user's own data."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from zslearn.cli import main
from zslearn.datasets import make_zero_shot


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of a user."""
    made = make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
    )
    table = pd.DataFrame(made.X, columns=list("abcdef")).assign(species=made.y)
    folder = tmp_path / "beasts"
    folder.mkdir()
    table.to_csv(tmp_path / "table.csv", index=False)
    table.drop(columns="species").to_csv(folder / "features.csv", index=False)
    table[["species"]].to_csv(folder / "labels.csv", index=False)
    made.signatures.to_csv(folder / "signatures.csv", index_label="species")
    (folder / "unseen.txt").write_text("\n".join(made.unseen_classes))
    monkeypatch.chdir(tmp_path)
    return folder


BENCH = ["--methods", "eszsl", "--setting", "zsl", "--jobs", "1"]
SIGNATURES = ["--signatures", "beasts/signatures.csv"]
UNSEEN = ["--unseen", "class 00", "class 03", "class 07"]


def test_show_a_folder(folder, capsys):
    assert main(["data", "show", "beasts"]) == 0
    out = capsys.readouterr().out
    assert "<ZeroShotDataset beasts, split own, version beasts/hold-out 0.2>" in out
    assert "unseen classes  class 00 class 03 class 07" in out


FILES = ["--features-file", "beasts/features.csv", "--labels-file", "beasts/labels.csv"]


@pytest.mark.parametrize(
    "words",
    [
        ["beasts"],
        ["table.csv", "--label", "species", *SIGNATURES, "--unseen", "beasts/unseen.txt"],
        pytest.param([*FILES, *SIGNATURES, *UNSEEN], marks=pytest.mark.slow),
    ],
)
def test_bench_and_table(folder, words, capsys):
    assert main(["bench", *words, *BENCH]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Results on ")
    row = next(line for line in printed.out.splitlines() if line.startswith("ESZSL"))
    record = json.loads(next(folder.parent.joinpath("runs").glob("*.json")).read_text())
    assert row.split()[1] == f"{record['metrics']['per_class_accuracy']:.3f}"
    assert record["split"] == "own"
    assert "runs" in printed.err
    assert main(["table", "runs"]) == 0
    table = capsys.readouterr().out
    assert "ESZSL" in table
    assert "aper" not in table
    assert max(map(len, table.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table.csv", "--label-column", "species", *UNSEEN], "signatures is missing"),
        (["table.csv", *SIGNATURES, *UNSEEN], "there is no column 'label'"),
        (["beasts", "--split", "ns"], "--split is for data sets known by name, not for beasts"),
        (["glyphs", "--unseen", "a"], "--unseen is for your own data, not for glyphs"),
        ([], "No data"),
        (["beasts", "--features-file", "table.csv"], "not both"),
    ],
)
def test_errors_are_one_line(folder, words, message, capsys):
    assert main(["data", "show", *words]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [["bench"], ["data", "show"], ["data", "fetch"]])
def test_an_unknown_name_suggests_the_nearest_one(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*command, "CUBS"])
    assert exit_.value.code == 2
    err = capsys.readouterr().err
    assert "There is no data set 'CUBS'. Did you mean 'CUB'?" in err
    assert err.count("\n") == 1


def test_names_ignore_case_unless_there_is_such_a_folder(folder, monkeypatch, capsys):
    monkeypatch.setenv("ZSLEARN_DATA", str(folder.parent))
    assert main(["data", "show", "cub"]) == 1
    assert "There is no CUB/att_splits.mat" in capsys.readouterr().err
    folder.rename("cub")
    assert main(["data", "show", "cub"]) == 0
    assert "<ZeroShotDataset cub, split own" in capsys.readouterr().out


def test_a_table_without_records(tmp_path, capsys):
    for words in ([], ["--all"], ["--format", "csv"]):
        assert main(["table", str(tmp_path), *words]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == (
            f"zslearn: error: There are no records in {tmp_path}; zslearn bench writes them.\n"
        )
    assert main(["table", str(tmp_path / "nowhere")]) == 1
    assert "There is no folder" in capsys.readouterr().err
