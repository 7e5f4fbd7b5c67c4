"""Signatures from attributes, binary ones, and files of signatures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn.base import InputWarning
from zslearn.baselines import DAP
from zslearn.datasets import (
    make_zero_shot,
    read_signature_table,
    save_signature_table,
)
from zslearn.signatures import (
    MultiSignatures,
    attribute_report,
    attribute_signatures,
    binarize_signatures,
)

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


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (pd.DataFrame(), {}, "is empty"),
        ({"a": [1]}, {}, "must be a DataFrame"),
        (pd.DataFrame({"x": [1, 2]}, index=["a", "a"]), {}, "'a' more than once"),
        (pd.DataFrame({"x": ["yes", "maybe"]}), {}, "'x' are not numeric"),
        (pd.DataFrame({"x": [1, np.inf]}, index=["a", "b"]), {}, "'x' of 'b' is infinite"),
        (pd.DataFrame({"x": [1, 1]}), {"drop_constant": True}, "All attributes were dropped"),
        (pd.DataFrame({"x": [1, 2]}), {"missing": "zero"}, "missing='zero'"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), {}, "the same name"),
    ],
)
def test_wrong_tables(table, options, message):
    with pytest.raises(ValueError, match=message):
        attribute_signatures(table, **options)


STRENGTHS = pd.DataFrame(
    {"stripes": [80.0, 5.0, 10.0], "tail": [60.0, 70.0, 0.0]}, index=["zebra", "dog", "seal"]
)


def test_labels_and_names_stay():
    binary = binarize_signatures(STRENGTHS)
    assert list(binary.index) == list(STRENGTHS.index)
    assert list(binary.columns) == list(STRENGTHS.columns)
    np.testing.assert_array_equal(binary, [[1, 1], [0, 1], [0, 0]])
    assert set(binary.dtypes) == {np.dtype(np.int8)}


def test_arrays_mappings_and_frames_of_polars():
    expected = binarize_signatures(STRENGTHS)
    np.testing.assert_array_equal(binarize_signatures(STRENGTHS.to_numpy()), expected)
    vectors = {label: row.to_numpy() for label, row in STRENGTHS.iterrows()}
    np.testing.assert_array_equal(binarize_signatures(vectors), expected)
    # Series are read by name.
    series = {label: row[["tail", "stripes"]] for label, row in STRENGTHS.iterrows()}
    series["zebra"] = STRENGTHS.loc["zebra"]
    found = binarize_signatures(series, classes=["zebra", "dog", "seal"])
    np.testing.assert_array_equal(found[expected.columns], expected)
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(STRENGTHS.to_dict("list") | {"class": list(STRENGTHS.index)})
    assert binarize_signatures(frame).to_dict() == expected.to_dict()
    with pytest.raises(ValueError, match="'class'"):
        binarize_signatures(frame.drop("class"))


def test_views_are_binarised_each_on_its_own():
    views = MultiSignatures(
        {"a": STRENGTHS, "b": 1 - binarize_signatures(STRENGTHS)}, weights=[3, 1]
    )
    found = binarize_signatures(views)
    assert found.weights == {"a": 0.75, "b": 0.25}
    pd.testing.assert_frame_equal(found.views["a"], binarize_signatures(STRENGTHS))
    pd.testing.assert_frame_equal(found.views["b"], views.views["b"])


def test_rounding_lifts_nothing_above_the_mean():
    column = np.array([0.8, 0.9, 0.8, 0.9, (0.8 + 0.9) / 2])  # the last is the mean, but for a bit
    assert (column > column.mean()).sum() == 3
    np.testing.assert_array_equal(binarize_signatures(column[:, None])[:, 0], [0, 1, 0, 1, 0])


def test_the_mean_may_be_that_of_some_classes():
    found = binarize_signatures(STRENGTHS, classes=["dog", "seal"])
    np.testing.assert_array_equal(found, [[1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(binarize_signatures(STRENGTHS.to_numpy(), classes=[1, 2]), found)


def test_thresholds_may_be_given():
    np.testing.assert_array_equal(
        binarize_signatures(STRENGTHS, threshold=5.0), [[1, 1], [0, 1], [1, 0]]
    )


def test_binary_signatures_stay_as_they_are():
    binary = np.array([[1, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(binarize_signatures(binary), binary)
    np.testing.assert_array_equal(binarize_signatures(binary == 1), binary)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": "median"}, 'threshold must be "mean"'),
        ({"threshold": np.nan}, "finite"),
        ({"classes": ["dog", "cat"]}, "cat"),
        ({"classes": []}, "classes is empty"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(ValueError, match=message):
        binarize_signatures(STRENGTHS, **given)


@pytest.mark.parametrize(
    "bad",
    [np.ones(3), np.ones((0, 3)), np.full((2, 2), np.nan), {}, {"a": [1.0, 2.0], "b": [3.0]}],
)
def test_bad_signatures(bad):
    with pytest.raises(ValueError, match="signatures"):
        binarize_signatures(bad)


@pytest.mark.parametrize("signs", [False, True])
def test_what_is_binary_is_known_whatever_its_rows_were_divided_by(signs):
    """DAP takes its thresholds from binary signatures, and refuses others beside them."""
    data = make_zero_shot(random_state=0, signature_kind="binary")
    table = data.signatures * 2 - 1 if signs else data.signatures
    rng = np.random.default_rng(0)
    scaled = table.mul(rng.uniform(0.1, 10, len(table)), axis=0)
    fitted = [DAP().fit(data.X_train, data.y_train, signatures=some) for some in (table, scaled)]
    X = data.X_test_unseen
    np.testing.assert_allclose(
        fitted[0].decision_function(X), fitted[1].decision_function(X), rtol=1e-9
    )
    scaled.loc[data.unseen_classes[0]] = rng.uniform(0, 1, table.shape[1])
    with pytest.raises(ValueError, match="needs either all or none"):
        DAP().fit(data.X_train, data.y_train, signatures=scaled)


# -------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("labels", [["a", "b", "NA"], [3, 1, 2]])
def test_a_table_comes_back(tmp_path, ending, labels):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    rows = np.random.default_rng(0).normal(size=(3, 2))
    for second, name in (("y", "class"), ("class", "class label")):
        table = pd.DataFrame(rows, index=labels, columns=["x", second])
        found = read_signature_table(save_signature_table(table, tmp_path / f"s{ending}"))
        assert found.index.tolist() == labels
        assert found.index.name == name
        assert np.array_equal(found, table)


def test_files_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="must end in .csv or .parquet"):
        save_signature_table(pd.DataFrame({"x": [1]}), tmp_path / "s.xlsx")
    path = tmp_path / "s.csv"
    path.write_text("class,x\na,1\na,2\n")
    with pytest.raises(ValueError, match=r"s\.csv: 'a' is described more than once"):
        read_signature_table(path)
