"""Signatures from attributes, and files of signatures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._messages import InputWarning
from zslearn.datasets import load_table, read_signature_table, save_signature_table
from zslearn.signatures import attribute_report, attribute_signatures

TABLE = pd.DataFrame(
    {
        "stripes": [True, False, None],
        "legs": [4, 4, 4],
        "size": [0.5, np.nan, 1.5],
        "lost": [np.nan] * 3,
        "hooves": [1, 0, 1],
    },
    index=["zebra", "tiger", "okapi"],
)


def test_report():
    report = attribute_report(TABLE)
    assert (report.n_classes, report.n_attributes, report.kind) == (3, 5, "mixed")
    assert report.constant == ["legs"]
    assert report.empty == ["lost"]
    assert report.missing == {"stripes": 1, "size": 1, "lost": 3}
    text = str(report)
    assert "constant: 1, 'legs'" in text
    assert "lost (3)" in text


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 1], "binary"), ([-1, 1], "binary"), ([0, 0.5], "continuous"), ([3, 3], "constant")],
)
def test_kinds(values, kind):
    assert attribute_report(pd.DataFrame({"x": values})).kind == kind


def test_missing_values():
    with pytest.raises(ValueError, match="in 3 of 5 columns: 'stripes', 'size', 'lost'"):
        attribute_signatures(TABLE)
    with pytest.warns(InputWarning, match="same for all classes: 'legs'"):
        filled = attribute_signatures(TABLE, missing="mean")
    assert filled.columns.tolist() == ["stripes", "legs", "size", "hooves"]
    assert filled.loc["okapi", "stripes"] == 0.5
    assert filled.loc["tiger", "size"] == 1.0
    dropped = attribute_signatures(TABLE, missing="drop", drop_constant=True)
    assert dropped.to_dict("list") == {"hooves": [1, 0, 1]}
    assert dropped.index.tolist() == ["zebra", "tiger", "okapi"]


def test_yes_and_no_are_said_once():
    with pytest.warns(InputWarning, match="yes and no count as 1 and 0") as said:
        found = attribute_signatures(pd.DataFrame({"x": ["yes", "no"]}, index=["a", "b"]))
    assert len(said) == 1
    assert found["x"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (pd.DataFrame(), {}, "is empty"),
        ({"a": [1]}, {}, "must be a DataFrame"),
        (pd.DataFrame({"x": [1, 2]}, index=["a", "a"]), {}, "'a' more than once"),
        (pd.DataFrame({"x": ["yes", "maybe"]}), {}, "'x' are not numbers"),
        (pd.DataFrame({"x": [1, np.inf]}, index=["a", "b"]), {}, "'x' of 'b' is infinite"),
        (pd.DataFrame({"x": [1, 1]}), {"drop_constant": True}, "No attribute is left"),
        (pd.DataFrame({"x": [1, 2]}), {"missing": "zero"}, "missing='zero'"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), {}, "one name"),
    ],
)
def test_wrong_tables(table, options, message):
    with pytest.raises(ValueError, match=message):
        attribute_signatures(table, **options)


# -------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("labels", [["a", "b", "NA"], [3, 1, 2]])
def test_a_table_comes_back(tmp_path, ending, labels):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 4)), index=labels)
    path = save_signature_table(table, tmp_path / f"s{ending}")
    found = read_signature_table(path)
    assert found.index.tolist() == labels
    assert found.index.name == "class"
    assert np.array_equal(found, table)
    assert [path.name for path in tmp_path.iterdir()] == [f"s{ending}"]


def test_files_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="written as .csv or .parquet"):
        save_signature_table(pd.DataFrame({"x": [1]}), tmp_path / "s.xlsx")
    path = tmp_path / "s.csv"
    path.write_text("class,x\na,1\na,2\n")
    with pytest.raises(ValueError, match=r"s\.csv: 'a' are described more than once"):
        read_signature_table(path)


def test_an_attribute_may_have_the_name_of_the_labels(tmp_path):
    table = pd.DataFrame({"class": [1.0, 2.0]}, index=["a", "b"])
    found = read_signature_table(save_signature_table(table, tmp_path / "s.csv"))
    assert found["class"].tolist() == [1, 2]
    assert found.index.tolist() == ["a", "b"]


def test_load_table_reads_it(tmp_path):
    table = pd.DataFrame({"x": [0.1, 0.9, 0.5], "y": [1.0, 0.0, 0.5]}, index=["a", "b", "c"])
    path = save_signature_table(table, tmp_path / "s.csv")
    X = np.random.default_rng(0).normal(size=(30, 3))
    data = load_table(X, np.repeat(["a", "b", "c"], 10), path, unseen_classes="c")
    assert data.signatures.equals(table.rename_axis("class"))
