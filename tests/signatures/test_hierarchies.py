"""Trees and graphs of classes, signatures from them, and taxonomies as tables of ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import pdist

from zslearn import load, save
from zslearn.baselines import ESZSL
from zslearn.calibration import RankPredictor
from zslearn.datasets import make_zero_shot
from zslearn.metrics import per_class_accuracy, rank_accuracy
from zslearn.signatures import (
    ClassGraph,
    WordNet,
    classes_below,
    classes_by_node,
    cluster_hierarchy,
    hierarchy_distances,
    hierarchy_signatures,
    taxonomy_hierarchy,
    taxonomy_signatures,
)

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
