"""Trees and graphs of classes, signatures from them, and taxonomies as tables of ranks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations, groupby, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import pdist
from sklearn.base import clone

from zslearn import load, save
from zslearn.baselines import ESZSL, ConSE
from zslearn.calibration import CalibratedStacking, RankPredictor
from zslearn.datasets import make_zero_shot
from zslearn.metrics import per_class_accuracy, rank_accuracy
from zslearn.signatures import (
    ClassGraph,
    MultiSignatures,
    WordNet,
    classes_below,
    classes_by_node,
    cluster_hierarchy,
    filled_ranks,
    hierarchy_distances,
    hierarchy_signatures,
    taxonomy_hierarchy,
    taxonomy_signatures,
)
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

# Child–parent pairs.


@pytest.mark.parametrize(
    ("pairs", "below"),
    [
        ({"cat": "mammal", "dog": "mammal", "oak": None}, ["cat", "dog"]),
        ([("cat", "mammal"), ("cat", "mammal")], ["cat"]),
        (pd.DataFrame({"child": ["cat", "dog"], "parent": ["mammal", np.nan]}), ["cat"]),
        (
            pd.DataFrame({"parent": pd.array(["mammal", pd.NA], "string"), "child": ["cat", "x"]}),
            ["cat"],
        ),
        (pd.DataFrame({"child": np.arange(2), "parent": ["mammal", "fish"]}), [0]),
    ],
)
def test_pairs_come_in_many_forms(pairs, below):
    assert classes_below(pairs, "mammal") == below


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
        classes_by_node(pairs)


def test_a_graph_may_have_two_parents_but_no_node_twice():
    graph = ClassGraph.from_tree([("x", "a"), ("x", "b"), ("x", "a")])
    assert graph.nodes == ["x", "a", "b"]
    assert graph.edges.tolist() == [[0, 1], [0, 2]]
    with pytest.raises(ValueError, match="'x' more than once"):
        ClassGraph(["x", "x"], np.empty((0, 2)))
    with pytest.raises(ValueError, match="an edge to another node"):
        ClassGraph(["x"], np.array([[0, 1]]))
    with pytest.raises(ValueError, match="1 of 2 are not in the hierarchy: 'y'"):
        graph.find(["x", "y"])
    with pytest.raises(ValueError, match="empty"):
        ClassGraph.from_tree([])


def test_clusters_are_found_and_nested():
    rng = np.random.default_rng(0)
    centers = np.eye(3)[np.arange(9) % 3]
    rows = pd.DataFrame(centers + 0.05 * rng.standard_normal((9, 3)), index=list("abcdefghi"))
    pairs = cluster_hierarchy(rows, n_levels=2)
    below = classes_by_node(pairs)
    assert below["root"] == list("abcdefghi")
    assert below["cluster 1.0"] == ["a", "d", "g"]  # numbered by their first class
    # The length of a signature does not count.
    longer = rows.mul(rng.uniform(0.1, 10, 9), axis=0)
    pd.testing.assert_frame_equal(cluster_hierarchy(longer, n_levels=2), pairs)
    many = cluster_hierarchy(pd.DataFrame(rng.standard_normal((30, 5))), n_levels=3)
    graph = ClassGraph.from_tree(many)
    depths = hierarchy_distances(graph, range(30), ["root"])
    assert np.unique(depths).tolist() == [3]


@pytest.mark.parametrize("name", ["a", "root", "cluster 1.1"])
def test_names_that_two_nodes_would_have(name):
    rows = pd.DataFrame([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], index=["a", name, "c", "d"])
    with pytest.raises(ValueError, match=f"would be called '{name}'"):
        cluster_hierarchy(rows, n_levels=2)
    with pytest.raises(ValueError, match="n_levels"):
        cluster_hierarchy(rows, n_levels=1.5)


# Scaled distances.


def random_graph(n_nodes, seed, n_more=0):
    """A tree, with some links more, by which nodes have several parents."""
    rng = np.random.default_rng(seed)
    pairs = [(i, int(rng.integers(max(0, i - 12), i))) for i in range(1, n_nodes)]
    more = [tuple(sorted(map(int, rng.choice(n_nodes, 2, replace=False)))) for _ in range(n_more)]
    return ClassGraph.from_tree([*pairs, *((b, a) for a, b in more)])


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_shortest_ways(seed):
    graph = random_graph(150, seed, n_more=40)
    links = np.zeros((len(graph), len(graph)))
    links[tuple(graph.edges.T)] = 1
    expected = shortest_path(links, method="FW", directed=False)
    assert np.array_equal(hierarchy_distances(graph, graph.nodes), expected)
    some, others = graph.nodes[5:30], graph.nodes[40:]
    assert np.array_equal(hierarchy_distances(graph, some, others), expected[5:30, 40:])


def test_vectors_repeat_distances_that_are_euclidean():
    # The ends of a star are at equal distances: a simplex.
    star = [(f"leaf {i}", "middle") for i in range(6)]
    found = hierarchy_signatures(star, [f"leaf {i}" for i in range(6)])
    assert found.shape == (6, 5)
    assert np.allclose(pdist(found), 2)
    # A way without branches is a line.
    line = [(i, i + 1) for i in range(9)]
    assert hierarchy_signatures(line, range(10)).shape == (10, 1)


def test_classical_scaling_by_its_definition():
    graph = random_graph(50, 1)
    labels = graph.nodes[10:40]
    squares = hierarchy_distances(graph, labels).astype(float) ** 2
    center = np.eye(30) - 1 / 30
    values = np.linalg.eigvalsh(-center @ squares @ center / 2)[::-1]
    found = hierarchy_signatures(graph, labels, n_components=8).to_numpy()
    assert np.allclose(found.T @ found, np.diag(values[:8]))
    assert np.allclose(found.mean(axis=0), 0)


def test_landmarks_agree_with_exact_scaling():
    graph = random_graph(900, 3)
    labels = graph.nodes[300:]
    exact, placed, again, other = (
        hierarchy_signatures(graph, labels, n_components=40, n_landmarks=number, random_state=seed)
        for number, seed in ((None, 0), (200, 0), (200, 0), (200, 1))
    )
    assert np.corrcoef(pdist(exact), pdist(placed))[0, 1] > 0.98
    assert placed.index.tolist() == labels
    assert placed.columns[0] == "hie 0"
    assert again.equals(placed)
    assert not other.equals(placed)


@pytest.mark.slow
def test_landmarks_are_taken_where_there_are_many_classes():
    graph = random_graph(3001, 4)
    many = hierarchy_signatures(graph, graph.nodes, n_components=3)
    assert many.equals(hierarchy_signatures(graph, graph.nodes, n_components=3, n_landmarks=2000))


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "x"], {}, "no path from 'a' to 'x'"),
        (["a", "z"], {}, "1 of 2 are not in the hierarchy: 'z'"),
        (["a"], {}, "at least two classes; got 1"),
        (["a", "c", "a"], {}, "names 'a' more than once"),
        (["a", "c"], {"n_components": 0}, "n_components=0"),
        (["a", "c"], {"n_landmarks": 1}, "n_landmarks=1 must be an integer of at least 2"),
        (["a", "b", "c"], {"n_components": 2}, "have 1 positive eigenvalues"),
    ],
)
def test_wrong_input(labels, options, message):
    with pytest.raises(ValueError, match=message):
        hierarchy_signatures([("a", "b"), ("c", "b"), ("x", "y")], labels, **options)


@pytest.fixture
def wordnet():
    try:
        return WordNet()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_real_wordnet(wordnet, data_folder):
    seen = (data_folder / "imagenet" / "seen.txt").read_text().split()
    found = hierarchy_signatures(wordnet, seen, n_components=200)
    assert found.shape == (1000, 200)
    # Kinds of dogs are near each other, and far from a ship.
    beagle, bluetick, liner = "n02088364", "n02088632", "n03673027"
    near = {
        pair: float(np.linalg.norm(found.loc[pair[0]] - found.loc[pair[1]]))
        for pair in combinations((beagle, bluetick, liner), 2)
    }
    assert near[beagle, bluetick] < near[beagle, liner] / 3


SIZE_OF_IMAGENET = """
import json, resource, sys
from pathlib import Path
from zslearn.signatures import WordNet, hierarchy_signatures

folder = Path(sys.argv[1])
lists = [(folder / f"{name}.txt").read_text().split() for name in ("seen", "all-unseen")]
found = hierarchy_signatures(WordNet(), lists[0] + lists[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([*found.shape, peak, bool(found.notna().all(axis=None))]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in the units of Linux")
def test_all_classes_of_imagenet(wordnet, data_folder):
    """All 21,842 listed classes under 4 GiB; about ten seconds of one core and 0.6 GiB."""
    command = [sys.executable, "-c", SIZE_OF_IMAGENET, str(data_folder / "imagenet")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    n_classes, width, peak, whole = json.loads(run.stdout)
    assert (n_classes, width, whole) == (21_842, 500, True)
    assert peak < 4 * 2**30


# Tables of ranks.

BIRDS = pd.DataFrame(
    {
        "order": ["Charadriiformes", None, "Charadriiformes", "Passeriformes", None],
        "family": ["Laridae", None, "Alcidae", " ", "Icteridae"],
        "genus": ["Larus", "Larus ", "Aethia", None, "Icterus"],
    },
    index=["herring gull", "ring-billed gull", "auklet", "some songbird", "oriole"],
)


def test_missing_ranks_are_filled_in_or_skipped():
    pairs = set(taxonomy_hierarchy(BIRDS).itertuples(index=False, name=None))
    assert ("ring-billed gull", "Larus") in pairs
    assert ("Laridae", "Charadriiformes") in pairs
    assert ("some songbird", "Passeriformes") in pairs
    assert not any(child == "Icteridae" for child, _ in pairs)


def test_rows_say_which_taxon():
    views = taxonomy_signatures(BIRDS).views
    assert list(views) == ["order", "family", "genus"]
    assert views["genus"].loc["ring-billed gull", "Larus"] == 1
    assert views["order"].loc["ring-billed gull", "Charadriiformes"] == 1
    assert not views["genus"].loc["some songbird"].any()
    # The order of rows does not matter.
    backwards = taxonomy_signatures(BIRDS.iloc[::-1]).views
    for rank, view in views.items():
        pd.testing.assert_frame_equal(backwards[rank].loc[view.index, view.columns], view)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (BIRDS.assign(order=["a", "b", "c", "d", "e"]), "'Larus' is in more than one order"),
        (pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"]}, index=[1, 2]), "cycle"),
        (pd.DataFrame({"a": ["x", None]}, index=["p", "q"]), "no rank of 'q'"),
        (pd.DataFrame({"a": ["x", "x"]}, index=["p", "p"]), "more than one row of 'p'"),
        (pd.DataFrame([["x", "y"]], ["p"], ["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame(index=["p"]), "one column per rank"),
        ({"p": "x"}, "one column per rank"),
    ],
)
@pytest.mark.parametrize("make", [taxonomy_hierarchy, taxonomy_signatures])
def test_bad_taxonomies_are_named(make, table, message):
    with pytest.raises(ValueError, match=message):
        make(table)


def test_name_of_two_ranks_is_one_node():
    table = pd.DataFrame({"genus": ["Larus", "Larus"], "subgenus": ["Larus", "Ichthyaetus"]})
    pairs = taxonomy_hierarchy(table)
    assert pairs.to_numpy().tolist() == [[0, "Larus"], ["Ichthyaetus", "Larus"], [1, "Ichthyaetus"]]
    assert list(taxonomy_signatures(table).views) == ["genus", "subgenus"]


def test_classes_below_taxa():
    pairs = taxonomy_hierarchy(BIRDS)
    gulls = ["herring gull", "ring-billed gull"]
    assert classes_below(pairs, "Laridae") == gulls
    assert set(classes_below(pairs, "Charadriiformes")) == {*gulls, "auklet"}
    assert classes_below(pairs, ["Icterus", "auklet"]) == ["oriole", "auklet"]
    with pytest.raises(ValueError, match="no 'Larid'.*Laridae"):
        classes_below(pairs, "Larid")


def test_a_class_that_is_also_a_taxon(tmp_path):
    labels = ["felidae", "lion", "lynx", "canidae"]
    pairs = taxonomy_hierarchy(pd.DataFrame({"family": ["felidae"] * 3 + ["canidae"]}, labels))
    assert pairs.dropna().to_numpy().tolist() == [["lion", "felidae"], ["lynx", "felidae"]]
    assert pairs[pairs["parent"].isna()]["child"].tolist() == ["canidae"]
    assert sorted(classes_below(pairs, "felidae", classes=labels)) == labels[:3]
    assert classes_below(pairs, "canidae") == ["canidae"]
    # Answers at ranks: one family of all classes but one, and a family of the other.
    data = make_zero_shot(
        n_seen=8, n_unseen=4, n_features=16, n_attributes=6, samples_per_class=8, random_state=0
    )
    labels = data.signatures.index
    family = pd.Series([labels[0]] * (len(labels) - 1) + [labels[-1]], index=labels)
    hierarchy = taxonomy_hierarchy(pd.DataFrame({"family": family}))
    model = RankPredictor(ESZSL(), hierarchy, confidence=0.5, cv=3)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "m.zsl")
    for fitted in (model, load(tmp_path / "m.zsl")):
        nodes, depths, _ = fitted.predict_rank(data.X_test_unseen, confidence=0.999)
        # The root is above both families.
        assert set(nodes[depths == 0]) == {"(all classes)"}
        two = labels[[-2, -1]]
        nodes, depths, _ = fitted.predict_rank(data.X_test_unseen, classes=two, confidence=0.001)
        assert set(depths[nodes == two[0]]) == {2}
        assert set(depths[nodes == two[1]]) == {1}


def test_rank_accuracy_counts_the_right_taxon():
    true = ["herring gull", "herring gull", "auklet", "oriole"]
    predicted = ["ring-billed gull", "herring gull", "herring gull", "oriole"]
    ranks = BIRDS.copy()
    ranks.loc["ring-billed gull"] = ranks.loc["herring gull"]
    found = rank_accuracy(true, predicted, ranks)
    assert found["class"] == pytest.approx(per_class_accuracy(true, predicted))
    # The oriole has no order: it counts nowhere there.
    assert found.round(4).to_dict() == {
        "order": 1.0, "family": 0.6667, "genus": 0.6667, "class": 0.5,
    }  # fmt: skip
    with pytest.raises(ValueError, match="no row for 'emu'"):
        rank_accuracy(["emu"], ["oriole"], BIRDS)
    for name in ("order", "class"):
        with pytest.raises(ValueError, match=f"more than one column '{name}'"):
            rank_accuracy(true, predicted, ranks.rename(columns={"family": name}))


# Many classes.

_RANKS = ("order", "family", "genus")


@st.composite
def tables(draw):
    """Small tables of ranks, of which some are missing and some are inconsistent."""
    n_classes = draw(st.integers(1, 12))
    numbers = draw(st.lists(st.integers(0, 7), min_size=n_classes, max_size=n_classes))
    kept = draw(st.lists(st.booleans(), min_size=3 * n_classes, max_size=3 * n_classes))
    names = draw(st.sampled_from(["ofg", "off", "ofo"]))  # ranks may share names
    cells = [
        f"{name}{number // size}" if keep else draw(st.sampled_from([None, " "]))
        for keep, (number, (name, size)) in zip(
            kept, product(numbers, zip(names, (4, 2, 1), strict=True)), strict=True
        )
    ]
    labels = [f"{draw(st.sampled_from('xf'))}{i}" for i in range(n_classes)]
    return pd.DataFrame(np.reshape(cells, (n_classes, 3)), index=labels, columns=_RANKS)


def _pairs_by_hand(table):
    """Pairs of `taxonomy_hierarchy`, one class after the other."""
    filled = filled_ranks(table)
    paths = [
        [name for name, _ in groupby([*(taxon for taxon in ranks if pd.notna(taxon)), label])]
        for label, *ranks in filled.itertuples()
    ]
    pairs = {}
    for depth in range(1, 4):
        pairs |= {(path[depth], path[depth - 1]): None for path in paths if depth < len(path)}
    linked = {node for pair in pairs for node in pair}
    return [*pairs, *((path[0], None) for path in paths if path[0] not in linked)]


@settings(max_examples=300)
@given(tables())
def test_pairs_are_those_of_one_class_after_the_other(table):
    try:
        pairs = taxonomy_hierarchy(table).astype(object)
    except ValueError as error:
        if re.search("cycle|more than one|no rank", str(error)):
            return
        raise
    pairs = pairs.where(pairs.notna(), None)
    expected = _pairs_by_hand(table)
    assert list(pairs.itertuples(index=False, name=None)) == expected
    filled = filled_ranks(table)
    for rank, view in taxonomy_signatures(table).views.items():
        assert list(view.columns) == list(filled[rank].dropna().unique())
        for taxon in view.columns:
            np.testing.assert_array_equal(view[taxon], filled[rank] == taxon)
    parents = dict(expected)
    below = classes_by_node(pairs, table.index)
    assert list(below) == list(dict.fromkeys([*parents, *filter(None, parents.values())]))
    for node, labels in below.items():
        expected_below = []
        for label in below:
            above = label
            while above != node and above is not None:
                above = parents.get(above)
            if above == node and label in table.index:
                expected_below.append(label)
        assert labels == expected_below


def _species(n_genera=30, per_genus=4, seed=0):
    """Ranks of species, and images of some of them."""
    rng = np.random.default_rng(seed)
    genus = np.repeat(np.arange(n_genera), per_genus)
    ranks = pd.DataFrame(
        {"family": genus // 4, "genus": genus}, index=[f"s{i:03d}" for i in range(len(genus))]
    )
    ranks = "taxon " + ranks.astype(str).apply(lambda rank: rank.name + " " + rank)
    ranks.iloc[5, 1] = None
    means = sum(
        rng.standard_normal((30, 12))[pd.factorize(ranks[rank])[0]] for rank in ranks.columns
    )
    y = np.repeat(rng.permutation(len(genus))[:25], 6)
    X = means[y] + 0.3 * rng.standard_normal((len(y), 12))
    return ranks, X, ranks.index.to_numpy()[y], means


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
@pytest.mark.parametrize(
    "method",
    [ESZSL(), SynC(), EXEM(), GaussianEXEM(), ConSE(), CalibratedStacking(ESZSL(), bias=0.1)],
    ids=lambda method: type(method).__name__,
)
def test_categories_predict_what_columns_predict(method, tmp_path):
    ranks, X, y, means = _species()
    by_column, by_category = (taxonomy_signatures(ranks, categorical=c) for c in (False, True))
    expected = clone(method).fit(X, y, signatures=by_column).decision_function(means)
    model = clone(method).fit(X, y, signatures=by_category)
    tolerance = 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(model.decision_function(means), expected, rtol=0, atol=tolerance)
    some = ranks.index[::3]
    np.testing.assert_allclose(
        model.decision_function(means, classes=some), expected[:, ::3], rtol=0, atol=tolerance
    )
    save(model, tmp_path / "m.zsl")
    loaded = load(tmp_path / "m.zsl")
    before = model.decision_function(means)
    np.testing.assert_allclose(loaded.decision_function(means), before, rtol=0, atol=tolerance)
    # New classes are known by the names of their taxa, whatever else their table describes.
    (unseen,) = np.nonzero(~np.isin(ranks.index, y))
    new = ranks.iloc[unseen[:3]].set_axis(["new 0", "new 1", "new 2"])
    for fitted in (model, loaded):
        fitted.add_classes(taxonomy_signatures(new, categorical=True))
        scores = fitted.decision_function(means, classes=new.index)
        np.testing.assert_allclose(scores, expected[:, unseen[:3]], rtol=0, atol=tolerance)
        fitted.remove_classes(["new 1"])
        scores = fitted.decision_function(means, classes=ranks.index)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance)
        # A rank that none of the new classes has is missing from their views.
        family = new.iloc[:1].assign(genus=None).set_axis(["family alone"])
        fitted.add_classes(taxonomy_signatures(family, categorical=True))
        assert "family alone" in fitted.classes_


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
def test_classes_of_equal_ranks_share_parameters():
    ranks, X, y, means = _species()
    views = taxonomy_signatures(ranks, categorical=True)
    model = CalibratedStacking(ESZSL(), temperature="cv", cv=3).fit(X, y, signatures=views)
    dense = CalibratedStacking(ESZSL(), temperature="cv", cv=3)
    dense.fit(X, y, signatures=taxonomy_signatures(ranks, categorical=False))
    held = model.class_scorer_.parameters.nbytes
    assert held < 0.7 * dense.class_scorer_.parameters.nbytes
    # Odds may differ between classes of equal parameters.
    odds = {label: 1.0 + i for i, label in enumerate(ranks.index[:60])}
    for prior in (None, odds):
        np.testing.assert_allclose(
            model.predict_proba(means, prior=prior),
            dense.predict_proba(means, prior=prior),
            rtol=0,
            atol=1e-9,
        )
    # A view of numbers beside the ranks tells classes apart.
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.standard_normal((len(ranks), 4)), index=ranks.index)
    scores = [
        ESZSL()
        .fit(X, y, signatures=MultiSignatures({**v.views, "n": numbers}))
        .decision_function(X)
        for v in (views, taxonomy_signatures(ranks, categorical=False))
    ]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-9 * np.abs(scores[1]).max())


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
def test_added_classes_of_equal_ranks_share_parameters():
    ranks, X, y, means = _species()
    model = ESZSL().fit(X, y, signatures=taxonomy_signatures(ranks, categorical=True))
    before = model.class_scorer_.parameters
    new = ranks.loc[np.repeat(np.setdiff1d(ranks.index, y)[:2], 10)]
    new.index = [f"new {i:02}" for i in range(20)]
    model.add_classes(taxonomy_signatures(new, categorical=True))
    after = model.class_scorer_.parameters
    assert len(after) == len(before) + 20
    assert after.nbytes <= before.nbytes + 2 * before.stored[:1].nbytes
    scores = model.decision_function(means, classes=new.index)
    np.testing.assert_array_equal(scores, np.repeat(scores[:, ::10], 10, axis=1))


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
def test_categories_of_added_classes_are_given_by_name():
    ranks, X, y, _ = _species()
    views = taxonomy_signatures(ranks, categorical=True)
    model = ESZSL().fit(X, y, signatures=views)
    first, second = ranks.index[[0, 20]]
    genus = {"genus: genus": ranks.loc[second, "genus"]}
    model.add_classes({"a": {**genus, "family: family": ranks.loc[second, "family"]}})
    model.add_classes({"b": genus}, like=first)
    found = model.signature_table_.as_user().views
    assert found["family"].loc["a"].equals(found["family"].loc[second])
    assert found["genus"].loc["a"].equals(found["genus"].loc[second])
    assert found["family"].loc["b"].equals(found["family"].loc[first])
    assert found["genus"].loc["b"].equals(found["genus"].loc[second])


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
def test_categories_and_numbers_are_not_mixed():
    ranks, X, y, _ = _species()
    categories = taxonomy_signatures(ranks, categorical=True).views["genus"]
    numbers = pd.DataFrame({"genus": np.arange(1.0, len(ranks) + 1)}, ranks.index)
    for known, new, kinds in [
        (categories, numbers, "has numbers; .* have categories"),
        (numbers, categories, "has categories; .* have numbers"),
    ]:
        model = ESZSL().fit(X, y, signatures=known)
        with pytest.raises(ValueError, match=kinds):
            model.add_classes(new.iloc[:1].set_axis(["new"]))


def test_many_cells_become_categories(monkeypatch):
    assert taxonomy_signatures(BIRDS).views["genus"].shape == (5, 3)
    monkeypatch.setattr("zslearn.signatures._hierarchy._MAX_COLUMN_CELLS", 10)
    view = taxonomy_signatures(BIRDS).views["genus"]
    assert view["genus"].astype(object).where(view["genus"].notna(), None).tolist() == [
        "Larus", "Larus", "Aethia", None, "Icterus",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished|.*all zeros")
def test_a_file_whose_groups_do_not_exist_is_refused():
    ranks, X, y, _ = _species()
    model = ESZSL().fit(X, y, signatures=taxonomy_signatures(ranks, categorical=True))
    state = model._described.__getstate__()
    assert state["parameters"].shape[0] <= state["group"].max() + 1 < len(ranks)
    state["group"] = state["group"] + 1
    with pytest.raises(ValueError, match="not stored"):
        model._described.__setstate__(state)
