"""Promises to scripts: one JSON document, silence, exit statuses, file modes, completion."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pandas as pd
import pytest

from zslearn.cli import main
from zslearn.datasets import make_zero_shot
from zslearn.experiments import write_record
from zslearn.persistence import read_model

UNSEEN = ["class 00", "class 03", "class 07"]
FIT = ["fit", "seen.csv", "--signatures", "classes.csv", "--method", "eszsl", "--tune", "none"]
BENCH = ["bench", "all.csv", "--signatures", "classes.csv", "--unseen", *UNSEEN, "--jobs", "1"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Tables of samples and classes, in the working folder."""
    monkeypatch.chdir(tmp_path)
    data = make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=8, random_state=1
    )
    table = pd.DataFrame(data.X, columns=list("abcdef")).assign(label=data.y)
    table.to_csv("all.csv", index=False)
    table[table["label"].isin(data.seen_classes)].to_csv("seen.csv", index=False)
    table[table["label"].isin(data.unseen_classes)].to_csv("new.csv", index=False)
    data.signatures.to_csv("classes.csv", index_label="class")
    assert data.unseen_classes.tolist() == UNSEEN
    return tmp_path


@pytest.fixture
def model(files, capsys):
    assert main([*FIT, "--jobs", "1", "--out", "m.zsl"]) == 0
    capsys.readouterr()
    return files / "m.zsl"


@pytest.fixture
def document(capsys):
    """Run a command with --json, and return its document."""

    def run(*words, status=0):
        assert main([*words, "--json"]) == status
        found = json.loads(capsys.readouterr().out)
        assert found["status"] == status
        assert found["command"] == " ".join(words[: 1 + (words[0] in ("data", "signatures"))])
        return found

    return run


def test_documents_of_commands_on_model_files(model, document):
    found = document(*FIT, "--jobs", "1", "--out", "other.zsl")
    assert found["method"] == "ESZSL"
    assert found["unseen_classes"] == UNSEEN
    assert found["files"] == ["other.zsl"]
    predicted = document("predict", "m.zsl", "new.csv")["predictions"]
    assert len(predicted) == 24
    assert {row["known_by"] for row in predicted} <= {"seen", "described only"}
    assert all(0 <= row["probability"] <= 1 for row in predicted)
    found = document("evaluate", "m.zsl", "all.csv", "--per-class")
    by_group = {row["of"]: row for row in found["accuracies"]}
    assert by_group["harmonic mean of the first two"]["F@5"] is None
    accuracy = by_group["unseen classes, among all"]["accuracy"]
    own = [row["accuracy"] for row in found["classes"] if row["known_by"] == "described only"]
    assert sum(own) / len(own) == pytest.approx(accuracy)
    assert "were trained on" in found["warnings"][0]
    seen = read_model(model).model.seen_classes_.tolist()
    assert document("info", "m.zsl")["seen_classes"] == seen


def test_documents_of_data_and_records(files, document):
    named = {row["name"]: row["available"] for row in document("data", "list")["data_sets"]}
    assert named["glyphs"] == "yes"
    words = ["all.csv", "--signatures", "classes.csv", "--unseen", *UNSEEN]
    (split,) = document("data", "show", *words)["splits"]
    assert split["unseen_classes"] == UNSEEN
    found = document(*BENCH, "--methods", "eszsl", "--setting", "zsl")
    (row,) = found["results"]
    (record,) = found["records"]
    with open(record, encoding="utf-8") as file:
        assert row["accuracy"] == json.load(file)["metrics"]["per_class_accuracy"]
    (cell,) = document("table", "runs", "--like", "zsl")["cells"]
    assert (cell["row"], cell["ours"]) == ("ESZSL", round(100 * row["accuracy"], 1))
    assert document("report", "runs")["files"] == ["report.html"]
    found = document("signatures", "attributes", "classes.csv", "-o", "s.csv")
    assert (found["n_classes"], found["n_columns"]) == (11, 5)


def test_an_error_is_in_the_document_and_on_standard_error(files, capsys):
    assert main(["--json", "predict", "none.zsl", "new.csv"]) == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found == {"command": "predict", "status": 1, "error": "There is no file none.zsl."}
    assert printed.err == "zslearn: error: There is no file none.zsl.\n"


def test_quiet_prints_results_warnings_and_errors_only(model, capsys):
    assert main([*FIT, "--jobs", "1", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["evaluate", "m.zsl", "all.csv", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "unseen classes, among all" in printed.out
    assert "F@5: " not in printed.out
    assert printed.err.startswith("zslearn: warning: 64 of 88 samples were trained on")
    assert printed.err.count("\n") == 1
    assert main(["--quiet", *BENCH, "--methods", "eszsl", "--setting", "zsl"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Results on all")
    assert printed.err == ""


def test_info_describes_a_model_file(model, capsys):
    assert main(["info", "m.zsl"]) == 0
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == [
        "method", "seen", "unseen", "columns", "described", "scaling", "fitted", "version",
    ]  # fmt: skip
    assert lines["method"].strip() == "ESZSL in CalibratedStacking in TableClassifier"
    assert lines["unseen"].strip() == "3: 'class 00', 'class 03', 'class 07'"
    assert "'a', 'b', 'c'" in lines["columns"]
    assert "features standard; rows" in lines["scaling"]
    assert re.match(r" +20\d\d-\d\d-\d\dT", lines["fitted"])


def test_scaling_of_a_model_file(files, document):
    table = pd.read_csv("seen.csv")
    table.assign(a=1e5 + 1e4 * table["a"]).to_csv("seen.csv", index=False)
    for chosen in ("standard", "none"):
        document(*FIT, "--jobs", "1", "--feature-scaling", chosen, "--out", "m.zsl")
        scaling = document("info", "m.zsl")["scaling"]
        assert scaling["features"] == ([] if chosen == "none" else [chosen])
        assert not scaling["signatures"]


def test_remove_class(model, capsys):
    assert main(["remove-class", "m.zsl", "class 03", "--out", "less.zsl"]) == 0
    printed = capsys.readouterr().out
    assert printed == "removed 'class 03'; 10 classes left\nwrote less.zsl\n"
    assert "class 03" in read_model(model).model.classes_
    less = read_model("less.zsl").model
    assert set(less.unseen_classes_) == {"class 00", "class 07"}
    before = model.read_bytes()
    for name, message in (("class 01", "class 01"), ("klass 03", "Did you mean 'class 03'")):
        assert main(["remove-class", "m.zsl", name]) == 1
        assert message in capsys.readouterr().err
    assert model.read_bytes() == before


def test_accuracies_of_classes_as_a_table(model, capsys):
    assert main(["evaluate", "m.zsl", "new.csv", "--per-class", "--out", "classes-of.csv"]) == 0
    printed = capsys.readouterr().out
    assert "F@5: share of samples whose class is among the best 5 predictions." in printed
    assert printed.endswith("wrote classes-of.csv\n")
    table = pd.read_csv("classes-of.csv", index_col="class")
    assert list(table.columns) == ["known_by", "samples", "accuracy", "taken_for", "share"]
    assert main(["predict", "m.zsl", "new.csv", "--out", "p.csv"]) == 0
    predicted, truth = pd.read_csv("p.csv")["class"], pd.read_csv("new.csv")["label"]
    right = (predicted == truth).groupby(truth).mean()
    assert table["accuracy"].tolist() == pytest.approx(right.tolist(), abs=1e-5)
    wrong = predicted[(truth == "class 00") & (predicted != truth)]
    assert table.loc["class 00", "taken_for"] in set(wrong.mode())
    assert main(["evaluate", "m.zsl", "new.csv", "--out", "groups.csv"]) == 0
    assert pd.read_csv("groups.csv")["samples"].tolist() == [24, 24]


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_model_files_have_the_mode_that_the_umask_says(model, mask):
    before = os.umask(mask)
    try:
        assert main(["remove-class", "m.zsl", "class 03", "--out", "less.zsl"]) == 0
    finally:
        os.umask(before)
    assert (model.parent / "less.zsl").stat().st_mode & 0o777 == 0o666 & ~mask


def test_tables_and_reports_of_several_grids(files, capsys, document):
    words = ["--methods", "eszsl", "--setting", "zsl", "--grid"]
    fast = document(*BENCH, *words, "fast")["results"][0]["accuracy"]
    assert main([*BENCH, *words, "quick"]) == 0
    assert main(["report", "runs"]) == 0
    capsys.readouterr()
    assert main(["table", "runs", "--like", "zsl"]) == 0
    out = capsys.readouterr().out
    assert "Several grids (fast, quick) – ESZSL: the table shows fast." in out
    assert f"{100 * fast:.1f}**" in out
    assert main(["table", "runs", "--like", "zsl", "--grid", "quick"]) == 0
    assert "Several grids" not in capsys.readouterr().out


def test_a_table_of_signatures_for_a_data_set_known_by_name(files, monkeypatch, document):
    data = make_zero_shot(n_seen=4, n_unseen=2, random_state=0)
    monkeypatch.setattr("zslearn.datasets.load_glyphs", lambda progress: data)
    data.signatures.iloc[::-1, :3].to_csv("three.csv", index_label="class")
    words = ["bench", "glyphs", "--signatures", "three.csv", "--methods", "eszsl", "--jobs", "1"]
    (record,) = document(*words, "--setting", "zsl")["records"]
    with open(record, encoding="utf-8") as file:
        assert json.load(file)["semantic"] == "three"
    data.signatures.iloc[1:, :3].to_csv("two.csv", index_label="class")
    found = document("data", "show", "glyphs", "--signatures", "two.csv", status=1)
    assert re.search(r"two\.csv has no row for 'class \d+' of make_zero_shot", found["error"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table", "runs"], "choose one with --protocol."),
        ([*FIT, "--label", "color", "--drop", "size"], "--drop: neither table has"),
        ([*BENCH, "--subset", "cats"], "--subset names taxa of a taxonomy; pass --taxonomy as"),
    ],
)
def test_errors_speak_of_options(files, words, message, capsys):
    record = {"split": "own", "split_version": "1", "features": "f", "metrics": {"ausuc": 0.5}}
    for protocol in ("default", "other"):
        origin = {"schema": 1, "dataset": "d", "method": "ESZSL", "setting": "gzsl", "seed": 0}
        write_record({**origin, **record, "protocol": protocol}, f"runs/{protocol}.json")
    table = pd.read_csv("all.csv")
    table.assign(a="much").to_csv("text.csv", index=False)
    table.assign(color=table["label"], label="x").to_csv("seen.csv", index=False)
    assert main(words) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert not re.search(r"\w=|astype", error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zslearn ev", {"evaluate "}),
        ("zslearn bench CUB --grid q", {"quick "}),
        ("zslearn data ", {"list", "show", "fetch"}),
        ("zslearn predict m.zsl --qu", {"--quiet "}),
    ],
)
def test_completion(line, expected, tmp_path):
    pytest.importorskip("argcomplete")
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        **{
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        },
        **{"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"},
    }
    subprocess.run([sys.executable, "-m", "zslearn"], env=environment, timeout=60)
    assert expected <= set(answer.read_text().split("\n"))
