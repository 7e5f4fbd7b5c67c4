from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn.signatures import cluster_hierarchy
from zslearn.signatures._class_graph import ClassTree, cluster_levels


def test_ancestors():
    tree = ClassTree({"cat": "mammal", "mammal": "animal", "oak": "plant", "animal": None})
    assert tree.ancestors("cat") == ["mammal", "animal"]
    assert tree.ancestors("animal") == []
    assert "plant" in tree
    assert "stone" not in tree


def test_numbers_of_numpy_are_numbers():
    frame = pd.DataFrame({"child": np.arange(3), "parent": [7, 7, 8]})
    assert ClassTree(frame).parents == {0: 7, 1: 7, 2: 8}
    assert ClassTree([(np.int64(0), np.int64(7))]).ancestors(0) == [7]


def test_missing_parents_are_roots():
    frame = pd.DataFrame({"child": ["a", "b"], "parent": ["b", np.nan]})
    assert ClassTree(frame).parents == {"a": "b"}


def test_missing_parents_of_pandas_are_roots():
    parents = pd.array(["b", pd.NA], dtype="string")
    assert ClassTree(pd.DataFrame({"child": ["a", "b"], "parent": parents})).parents == {"a": "b"}


def test_a_root_of_its_own_is_in_the_tree():
    tree = ClassTree({"a": "b", "c": None})
    assert "c" in tree
    assert tree.ancestors("c") == []


def test_the_same_pair_twice_is_one():
    assert ClassTree([("a", "b"), ("a", "b")]).parents == {"a": "b"}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({}, "is empty"),
        ({"a": None}, "is empty"),
        ({"a": "a"}, "cycle through 'a'"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "cycle"),
        ([("a", "b"), ("a", "c"), ("d", "b"), ("d", "c")], "one parent to 'a', 'd'"),
        (["ab"], "'ab' is not a pair"),
        ([1, 2], "1 is not a pair"),
        ([(None, "a")], "does not name two classes"),
        ([(["a"], "b")], "does not name two classes"),
        ("ab", "must be a mapping"),
        (3, "must be a mapping"),
        (pd.DataFrame({"a": [1], "b": [2], "c": [3]}), "'child' and 'parent'"),
    ],
)
def test_bad_pairs(pairs, message):
    with pytest.raises(ValueError, match=message):
        ClassTree(pairs)


def test_a_long_chain_is_read_fast():
    n = 20_000
    tree = ClassTree({i: i + 1 for i in range(n)})
    assert len(tree.ancestors(0)) == n


def test_clusters_are_found():
    rng = np.random.default_rng(0)
    centers = np.eye(3)[np.repeat(np.arange(3), 3)]
    rows = centers + 0.05 * rng.standard_normal((9, 3))
    order = rng.permutation(9)
    root, clusters = cluster_levels(rows[order], 2)
    assert not root.any()
    same = clusters[:, None] == clusters[None, :]
    np.testing.assert_array_equal(same, (order // 3)[:, None] == (order // 3)[None, :])
    assert clusters[0] == 0  # numbered by their first class


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_levels_are_nested(n_classes, n_levels, seed, alike):
    rng = np.random.default_rng(seed)
    rows = np.eye(n_classes) if alike else rng.standard_normal((n_classes, 4))
    levels = cluster_levels(rows, n_levels)
    assert 1 <= len(levels) <= n_levels
    for upper, lower in itertools.pairwise(levels):
        assert len(np.unique(upper)) < len(np.unique(lower)) < n_classes
        for cluster in np.unique(lower):
            assert len(np.unique(upper[lower == cluster])) == 1


def test_the_hierarchy_is_a_tree_over_all_classes():
    rng = np.random.default_rng(0)
    signatures = pd.DataFrame(rng.standard_normal((30, 5)), index=np.arange(30) * 2)
    pairs = cluster_hierarchy(signatures, n_levels=3)
    tree = ClassTree(pairs)
    assert all(tree.ancestors(label)[-1] == "root" for label in signatures.index.tolist())
    assert {len(tree.ancestors(label)) for label in signatures.index.tolist()} == {3}
    # The length of a signature does not count.
    longer = signatures * rng.uniform(0.1, 10, size=(30, 1))
    pd.testing.assert_frame_equal(cluster_hierarchy(longer, n_levels=3), pairs)


@pytest.mark.parametrize("name", ["a", "root", "cluster 1.1"])
def test_names_that_two_nodes_would_have(name):
    rows = pd.DataFrame([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], index=["a", name, "c", "d"])
    with pytest.raises(ValueError, match=f"would be named '{name}'"):
        cluster_hierarchy(rows, n_levels=2)


@pytest.mark.parametrize("n_levels", [0, 1.5, "2"])
def test_bad_levels(n_levels):
    with pytest.raises(ValueError, match="n_levels"):
        cluster_hierarchy({"a": [0, 1], "b": [1, 0]}, n_levels=n_levels)
