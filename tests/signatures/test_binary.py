from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zslearn.signatures import MultiSignatures, binarize_signatures
from zslearn.signatures._binary import binary_kind, binary_rows

TABLE = pd.DataFrame(
    {"stripes": [80.0, 5.0, 10.0], "tail": [60.0, 70.0, 0.0]}, index=["zebra", "dog", "seal"]
)


def test_labels_and_names_stay():
    binary = binarize_signatures(TABLE)
    assert list(binary.index) == list(TABLE.index)
    assert list(binary.columns) == list(TABLE.columns)
    np.testing.assert_array_equal(binary, [[1, 1], [0, 1], [0, 0]])
    assert set(binary.dtypes) == {np.dtype(np.int8)}


def test_arrays_and_mappings():
    expected = binarize_signatures(TABLE).to_numpy()
    np.testing.assert_array_equal(binarize_signatures(TABLE.to_numpy()), expected)
    mapping = {label: row.to_numpy() for label, row in TABLE.iterrows()}
    found = binarize_signatures(mapping)
    assert list(found) == list(TABLE.index)
    np.testing.assert_array_equal(np.stack(list(found.values())), expected)


def test_series_are_read_by_name():
    names = ["tail", "stripes"]
    mapping = {"zebra": TABLE.loc["zebra"], "dog": TABLE.loc["dog", names]}
    mapping["seal"] = TABLE.loc["seal", names]
    found = binarize_signatures(mapping, classes=["zebra", "dog", "seal"])
    expected = binarize_signatures(TABLE)
    for label, row in found.items():
        assert row.to_dict() == expected.loc[label].to_dict()


def test_labels_of_a_polars_frame_are_no_attribute():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"stripes": TABLE["stripes"].to_numpy(), "class": [7, 8, 9], "tail": [60.0, 70.0, 0.0]}
    )
    found = binarize_signatures(frame)
    assert found.to_dict(as_series=False) == {
        "stripes": [1, 0, 0],
        "class": [7, 8, 9],
        "tail": [1, 1, 0],
    }
    np.testing.assert_array_equal(binarize_signatures(frame, classes=[8, 9])["stripes"], [1, 0, 1])
    with pytest.raises(ValueError, match="'class'"):
        binarize_signatures(frame.drop("class"))


def test_views_are_binarised_each_on_its_own():
    views = MultiSignatures({"a": TABLE, "b": 1 - binarize_signatures(TABLE)}, weights=[3, 1])
    found = binarize_signatures(views)
    assert found.weights == {"a": 0.75, "b": 0.25}
    pd.testing.assert_frame_equal(found.views["a"], binarize_signatures(TABLE))
    pd.testing.assert_frame_equal(found.views["b"], views.views["b"])


def test_rounding_lifts_nothing_above_the_mean():
    column = np.array([0.8, 0.9, 0.8, 0.9, (0.8 + 0.9) / 2])  # the last is the mean, but for a bit
    assert (column > column.mean()).sum() == 3
    np.testing.assert_array_equal(binarize_signatures(column[:, None])[:, 0], [0, 1, 0, 1, 0])


def test_the_mean_may_be_that_of_some_classes():
    found = binarize_signatures(TABLE, classes=["dog", "seal"])
    np.testing.assert_array_equal(found, [[1, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(binarize_signatures(TABLE.to_numpy(), classes=[1, 2]), found)


def test_thresholds_may_be_given():
    np.testing.assert_array_equal(
        binarize_signatures(TABLE, threshold=5.0), [[1, 1], [0, 1], [1, 0]]
    )
    np.testing.assert_array_equal(
        binarize_signatures(TABLE, threshold=[7, 65]), [[1, 0], [0, 1], [1, 0]]
    )
    by_name = pd.Series({"tail": 65, "stripes": 7})
    np.testing.assert_array_equal(
        binarize_signatures(TABLE, threshold=by_name), [[1, 0], [0, 1], [1, 0]]
    )


def test_binary_signatures_stay_as_they_are():
    binary = np.array([[1, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(binarize_signatures(binary), binary)
    np.testing.assert_array_equal(binarize_signatures(binary == 1), binary)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold": "median"}, 'threshold must be "mean"'),
        ({"threshold": [1.0, 2.0, 3.0]}, "2 attributes"),
        ({"threshold": np.nan}, "finite"),
        ({"threshold": pd.Series({"stripes": 1.0, "wings": 1.0})}, "lacks 'tail'"),
        ({"threshold": pd.Series({"stripes": 1.0, "tail": 1.0, "wings": 1.0})}, "3 entries"),
        ({"classes": ["dog", "cat"]}, "cat"),
        ({"classes": []}, "classes is empty"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(ValueError, match=message):
        binarize_signatures(TABLE, **given)


@pytest.mark.parametrize(
    "bad",
    [np.ones(3), np.ones((0, 3)), np.full((2, 2), np.nan), {}, {"a": [1.0, 2.0], "b": [3.0]}],
)
def test_bad_signatures(bad):
    with pytest.raises(ValueError, match="signatures"):
        binarize_signatures(bad)


@given(
    binary=hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 6))),
    seed=st.integers(0, 1000),
)
def test_binary_rows_are_known_whatever_they_were_divided_by(binary, seed):
    factor = np.random.default_rng(seed).uniform(0.1, 10, size=(len(binary), 1))
    assert binary_kind(binary / factor) == "zero-one"
    signs = np.where(binary, 1.0, -1.0) / factor
    assert binary_rows(signs, "signs").all()
    assert binary_kind(signs) in ("signs", "zero-one")
    np.testing.assert_array_equal(signs > 0, binary)


def test_other_rows_are_not_binary():
    assert binary_kind(np.array([[1.0, 0.5], [0.0, 1.0]])) is None
    assert binary_kind(np.array([[-1.0], [0.0], [1.0]])) is None
    np.testing.assert_array_equal(
        binary_rows(np.array([[0.5, 0.0], [0.1, 0.2], [0.0, 0.0]]), "zero-one"),
        [True, False, True],
    )
