import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from zslearn.metrics import hierarchical_correct_set, hierarchical_precision_at_k

TREE = [
    ("cat", "mammal"),
    ("dog", "mammal"),
    ("fox", "mammal"),
    ("owl", "bird"),
    ("emu", "bird"),
    ("mammal", "animal"),
    ("bird", "animal"),
]
ANIMALS = ["cat", "dog", "fox", "owl", "emu"]


def all_distances(pairs, n_nodes):
    """Hop distances between all nodes by Floyd and Warshall's algorithm."""
    distance = np.full((n_nodes, n_nodes), np.inf)
    np.fill_diagonal(distance, 0)
    for a, b in pairs:
        if a != b:
            distance[a, b] = distance[b, a] = 1
    for via in range(n_nodes):
        distance = np.minimum(distance, distance[:, [via]] + distance[[via], :])
    return distance


def algorithm_1(k, c, distance, valid):
    """The paper's algorithm, line by line. None where it would not end."""
    h_correct_set = set()
    radius = 0
    while len(h_correct_set) < k:
        if radius > len(distance):
            return None
        radius_set = set(np.flatnonzero(distance[c] == radius).tolist())
        valid_radius_set = radius_set & valid
        h_correct_set = h_correct_set | valid_radius_set
        radius = radius + 1
    return h_correct_set


@st.composite
def graphs(draw):
    """A random graph, with cycles and several components, and a label space in it."""
    n_nodes = draw(st.integers(2, 12))
    node = st.integers(0, n_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), min_size=1, max_size=24))
    used = sorted({v for pair in pairs for v in pair})
    valid = draw(st.lists(st.sampled_from(used), min_size=1, unique=True))
    return pairs, used, valid, all_distances(pairs, n_nodes)


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), data=st.data())
@pytest.mark.slow
def test_correct_set_is_algorithm_1(graph, data):
    pairs, used, valid, distance = graph
    c, k = data.draw(st.sampled_from(used)), data.draw(st.integers(1, 6))
    expected = algorithm_1(k, c, distance, set(valid))
    if expected is None:
        reachable = sum(np.isfinite(distance[c, v]) for v in valid)
        message = f"k={k} is too large for the class {c}: .* only {reachable} "
        with pytest.raises(ValueError, match=message):
            hierarchical_correct_set(c, k, hierarchy=pairs, classes=valid)
        return
    got = hierarchical_correct_set(c, k, hierarchy=pairs, classes=valid).tolist()
    assert len(got) == len(set(got))
    assert set(got) == expected
    order = [(distance[c, v], valid.index(v)) for v in got]
    assert order == sorted(order)


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), data=st.data())
@pytest.mark.slow
def test_precision_by_definition(graph, data):
    pairs, used, valid, distance = graph
    width = data.draw(st.integers(1, len(valid)))
    ks = data.draw(st.lists(st.integers(1, width), min_size=1, max_size=3))
    able = [c for c in used if algorithm_1(max(ks), c, distance, set(valid)) is not None]
    assume(able)
    y_true = data.draw(st.lists(st.sampled_from(able), min_size=1, max_size=6))
    y_top = [data.draw(st.permutations(valid))[:width] for _ in y_true]

    expected = []
    for k in ks:
        overlaps = [
            len(set(top[:k]) & algorithm_1(k, c, distance, set(valid))) / k
            for c, top in zip(y_true, y_top, strict=True)
        ]
        expected.append(np.mean(overlaps))
    got = hierarchical_precision_at_k(y_true, y_top, ks, hierarchy=pairs, classes=valid)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    one = hierarchical_precision_at_k(y_true, y_top, ks[0], hierarchy=pairs, classes=valid)
    assert isinstance(one, float)
    assert one == got[0]


def test_set_may_be_larger_than_k_and_depends_on_the_label_space():
    def near(k, classes):
        return hierarchical_correct_set("cat", k, hierarchy=TREE, classes=classes).tolist()

    assert near(1, ANIMALS) == ["cat"]
    assert near(2, ANIMALS) == ["cat", "dog", "fox"]
    assert near(2, ["emu", "owl", "fox", "cat"]) == ["cat", "fox"]
    assert near(2, ["emu", "owl", "fox"]) == ["fox", "emu", "owl"]
    assert near(2, [*ANIMALS, "mammal"]) == ["cat", "mammal"]


@pytest.mark.parametrize(
    "form",
    [
        lambda pairs: iter(pairs),
        lambda pairs: [list(pair) for pair in pairs],
        lambda pairs: pd.DataFrame(pairs, columns=["child", "parent"]),
        lambda pairs: np.array(pairs),
        lambda pairs: [(parent, child) for child, parent in reversed(pairs)],
        lambda pairs: [*pairs, *pairs, ("cat", "cat")],
        lambda pairs: dict(pairs),
        lambda pairs: [*pairs, ("animal", None)],
    ],
)
def test_forms_of_the_hierarchy(form):
    y_true, y_top = ["cat", "emu"], [["fox", "owl"], ["owl", "cat"]]
    got = hierarchical_precision_at_k(y_true, y_top, [1, 2], hierarchy=form(TREE), classes=ANIMALS)
    np.testing.assert_array_equal(got, [0, 0.5])


def test_any_hashable_labels():
    pairs = [(("n", 1), "root"), (2, "root"), (True, "other"), (3.5, "root")]
    near = hierarchical_correct_set(("n", 1), 2, hierarchy=pairs, classes=[2, 3.5])
    assert near.tolist() == [2, 3.5]
    y_true = np.array([2, 2])
    got = hierarchical_precision_at_k(y_true, [[3.5], [2]], 1, hierarchy=pairs, classes=[3.5, 2])
    assert got == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hierarchy": []}, "hierarchy is empty"),
        ({"hierarchy": ["ab", "cd"]}, "'ab' is not a pair"),
        ({"hierarchy": [("a", "b", "c")]}, "('a', 'b', 'c') is not a pair"),
        ({"classes": [*ANIMALS, "yak"]}, "not in the hierarchy: 'yak'"),
        ({"classes": [*ANIMALS, "cat"]}, "duplicate labels: 'cat'."),
        ({"y_true": ["cat", "yak"]}, "y_true: 1 of 2 are not in the hierarchy: 'yak'"),
        ({"y_true": ["cat"]}, "one entry per sample"),
        ({"y_top": [["cat", "bird"], ["emu", "owl"]]}, "not in classes: 'bird'."),
        ({"y_top": [["cat", "dog"], ["emu", "emu"]]}, "row 1 contains one of them twice"),
        ({"k": 3}, "k=3 needs as many columns"),
        ({"k": 0}, "k must be at least 1"),
        (
            {
                "hierarchy": [p for p in TREE if p != ("bird", "animal")],
                "classes": ["emu", *ANIMALS[:3]],
                "y_top": [["cat", "dog"], ["emu", "cat"]],
            },
            "k=2 is too large for the class 'emu'",
        ),
    ],
)
def test_errors(change, message):
    good = {
        "y_true": np.array(["cat", "emu"]),
        "y_top": [["cat", "dog"], ["emu", "owl"]],
        "k": 2,
        "hierarchy": TREE,
        "classes": ANIMALS,
    }
    assert hierarchical_precision_at_k(**good) == 1.0
    with pytest.raises(ValueError, match=re.escape(message)):
        hierarchical_precision_at_k(**(good | change))


@pytest.mark.parametrize(
    ("label", "k", "message"),
    [
        ("yak", 1, "not in the hierarchy: 'yak'."),
        ("cat", [1, 2], "k must be an integer, got [1, 2]."),
        ("cat", 6, "k=6 is too large for the class 'cat'"),
    ],
)
def test_errors_of_correct_set(label, k, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        hierarchical_correct_set(label, k, hierarchy=TREE, classes=ANIMALS)


@pytest.mark.slow
def test_size_of_imagenet():
    rng = np.random.default_rng(0)
    n_nodes = 21_841
    parent = (rng.random(n_nodes - 1) * np.arange(1, n_nodes)).astype(int)
    pairs = np.column_stack([np.arange(1, n_nodes), parent])
    classes = rng.permutation(n_nodes)[:20_000]
    y_true = np.concatenate([classes[:600]] * 3)
    y_top = classes[(np.arange(len(y_true))[:, None] + np.arange(20)) % 20_000]
    y_top[:600, 0] = y_true[:600]
    arguments = {"hierarchy": pairs, "classes": classes}
    got = hierarchical_precision_at_k(y_true, y_top[:, :1], 1, **arguments)
    assert got >= 1 / 3
    # Many classes are processed in blocks, a few at once.
    chosen = [0, 700, 1799]
    alone = [hierarchical_precision_at_k(y_true[[i]], y_top[[i]], 20, **arguments) for i in chosen]
    sets = [hierarchical_correct_set(y_true[i], 20, **arguments) for i in chosen]
    assert alone == [np.isin(y_top[i], near).mean() for i, near in zip(chosen, sets, strict=True)]
