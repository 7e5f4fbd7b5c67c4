from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zslearn.signatures import binarize_signatures
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
        ({"classes": ["dog", "cat"]}, "cat"),
        ({"classes": []}, "classes is empty"),
    ],
)
def test_bad_options(given, message):
    with pytest.raises(ValueError, match=message):
        binarize_signatures(TABLE, **given)


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((0, 3)), np.full((2, 2), np.nan), {}])
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
