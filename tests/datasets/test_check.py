from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from xlsa17_files import features, splits, write_data_set, write_standard_split
from zslearn.datasets import check_data, load_xlsa17


def test_what_is_there(tmp_path):
    write_data_set(tmp_path / "xlsa17" / "data")
    home = write_data_set(tmp_path / "xlsa17" / "data", "AWA1")
    (home / "res101.mat").unlink()
    write_standard_split(tmp_path, "AWA1")
    report = check_data(tmp_path)
    # A standard split comes without attributes.
    assert report.problems == []
    assert report.table.index.tolist() == [
        "standard_split/AWA1",
        "xlsa17/data/AWA1",
        "xlsa17/data/CUB res101.mat",
    ]
    row = report.table.loc["xlsa17/data/CUB res101.mat"]
    assert row.to_dict() == {
        "version": "unknown",
        "samples": "40",
        "train": "16",
        "test seen": "4",
        "test unseen": "20",
        "classes": "4",
        "seen": "2",
        "unseen": "2",
        "attributes": "3",
        "features": "5",
        "NaN": "0",
    }
    assert report.table.loc["xlsa17/data/AWA1", "seen"] == "-"
    assert any("AWA1: there is no file of features" in note for note in report.notes)
    assert report.table.loc["standard_split/AWA1", "version"] == "SS"
    assert any("the published ones are (7057, 1764, 2967)" in note for note in report.notes)


def test_a_folder_that_is_a_data_set(tmp_path):
    write_data_set(tmp_path)
    assert check_data(tmp_path / "CUB").table.index.tolist() == ["CUB res101.mat"]


def test_first_version_and_its_leak(tmp_path):
    write_data_set(tmp_path, train_loc=np.arange(1, 11), val_loc=np.arange(11, 21))
    report = check_data(tmp_path)
    assert report.table["version"].tolist() == ["PS1"]
    assert report.problems == []
    assert any("contain 4 samples of test_seen_loc" in note for note in report.notes)


def test_values_that_are_not_finite_are_counted(tmp_path):
    X = features()["features"].copy()
    X[0, :3] = np.nan
    X[1, 0] = np.inf
    write_data_set(tmp_path, features=X)
    report = check_data(tmp_path)
    assert report.table["NaN"].tolist() == ["4"]
    assert report.problems == []


def column(*values):
    return np.array(values)[:, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_seen_loc": column(9, 35)}, "test_unseen_loc share 1 samples"),
        ({"features": None, "labels": None}, "no variables 'features' and 'labels'"),
        ({"trainval_loc": {"a": 1}}, "'trainval_loc' is or contains a struct"),
        ({"test_unseen_loc": column(21, 31, 9)}, "share 1 samples"),
        ({"trainval_loc": column(1, 2)}, "not listed in"),
    ],
)
def test_problems(tmp_path, changes, message):
    """Further ones than those of `test_refused` in test_xlsa17.py."""
    write_data_set(tmp_path, **changes)
    report = check_data(tmp_path)
    assert any(message in problem for problem in report.problems), report.problems
    assert len(report.table) == 1


@pytest.mark.parametrize("variable", [*splits(), *features(), "train_loc", "val_loc"])
def test_what_loading_refuses_is_a_problem(tmp_path, variable):
    """Each variable is left out in turn."""
    changes = {"train_loc": np.arange(1, 11), "val_loc": np.arange(11, 21), variable: None}
    if variable in ("train_loc", "val_loc"):
        del changes[variable]  # which the small data set does not have anyway
    write_data_set(tmp_path, **changes)
    try:
        data = load_xlsa17("CUB", folder=tmp_path)
    except ValueError as error:
        data, refusal = None, str(error)
    report = check_data(tmp_path)
    assert bool(report.problems) == (data is None)
    if data is None:
        assert variable in " ".join(report.problems)
        assert variable in refusal
    else:
        assert variable in ("att", "allclasses_names", "train_loc", "val_loc")


def test_the_other_splits_are_checked_against_the_labels(tmp_path):
    write_data_set(tmp_path / "xlsa17", "AWA1")
    path = write_standard_split(tmp_path, "AWA1")
    assert check_data(tmp_path).problems == []
    savemat(path, {"trainval_loc": column(1, 11, 31), "test_unseen_loc": column(32, 33)})
    assert any("'dog'" in problem for problem in check_data(tmp_path).problems)
    home = write_data_set(tmp_path / "b", "CUB")
    (home / "class_splits.json").write_text('{"ss-1": ["emu"], "ss-2": ["ant"]}')
    (problem,) = check_data(tmp_path / "b").problems  # there need not be a list for every split
    assert "class split 'ss-1': there is no class 'emu'" in problem


def test_damaged_files_are_problems(tmp_path):
    home = write_data_set(tmp_path)
    path = home / "att_splits.mat"
    path.write_bytes(path.read_bytes()[:300])
    report = check_data(tmp_path)
    assert report.problems
    assert "damaged" in report.problems[0]
    assert "NaN" in report.table
    other = write_data_set(tmp_path / "b")
    (other / "res101.mat").write_bytes(b"not found")
    assert any("res101.mat" in problem for problem in check_data(tmp_path / "b").problems)


def test_attributes_of_flowers(tmp_path):
    write_data_set(tmp_path, "FLO", original_att=None, att=np.eye(7, 4))
    report = check_data(tmp_path)
    assert report.problems == []
    assert report.table["attributes"].tolist() == ["7"]


def test_other_files_are_no_features(tmp_path):
    home = write_data_set(tmp_path)
    savemat(home / "sent_splits.mat", {"att": np.eye(4)})
    report = check_data(tmp_path)
    assert report.problems == []
    assert report.table.index.tolist() == ["CUB res101.mat"]
    assert any("no variables 'features' and 'labels'" in note for note in report.notes)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no data set"):
        check_data(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder"):
        check_data(tmp_path / "nowhere")


@pytest.mark.slow
def test_real_data(data_folder):
    report = check_data(data_folder / "xlsa17")
    assert report.problems == []
    # Sentence embeddings lie beside the features; they are no features.
    without = "there is no file of features"
    assert all("sent_splits.mat" in note or without in note for note in report.notes)
    assert set(report.table.filter(like="CUB", axis=0)["version"]) <= {"PS1"}
    assert {name.split()[0] for name in report.table.index} <= {"APY", "AWA1", "AWA2", "CUB", "SUN"}
