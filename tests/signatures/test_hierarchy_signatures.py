"""Signatures from hierarchies: distances, exact scaling and landmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from zslearn.signatures import (
    ClassGraph,
    WordNet,
    hierarchy_distances,
    hierarchy_signatures,
)


def random_graph(n_nodes, seed, n_more=0):
    """A tree, with some links more, by which nodes have several parents."""
    rng = np.random.default_rng(seed)
    pairs = [(i, int(rng.integers(max(0, i - 12), i))) for i in range(1, n_nodes)]
    more = [tuple(sorted(map(int, rng.choice(n_nodes, 2, replace=False)))) for _ in range(n_more)]
    return ClassGraph.from_tree([*pairs, *((b, a) for a, b in more)])


def floyd_warshall(graph):
    distance = np.full((len(graph), len(graph)), np.inf)
    np.fill_diagonal(distance, 0)
    for a, b in graph.edges:
        distance[a, b] = distance[b, a] = 1
    for via in range(len(graph)):
        distance = np.minimum(distance, distance[:, [via]] + distance[via])
    return distance


@pytest.mark.parametrize("seed", range(3))
def test_distances_are_shortest_ways(seed):
    graph = random_graph(150, seed, n_more=40)
    expected = floyd_warshall(graph)
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


def test_all_classes_as_landmarks_are_exact():
    graph = random_graph(80, 2, n_more=10)
    labels = graph.nodes[20:]
    exact = hierarchy_signatures(graph, labels, n_components=10)
    placed = hierarchy_signatures(graph, labels, n_components=10, n_landmarks=len(labels))
    assert np.allclose(placed, exact)
    assert placed.index.tolist() == labels
    assert placed.columns[0] == "hie 0"


def test_landmarks_agree_with_exact_scaling():
    graph = random_graph(900, 3)
    labels = graph.nodes[300:]
    exact, placed = (
        hierarchy_signatures(graph, labels, n_components=40, n_landmarks=number)
        for number in (None, 200)
    )
    assert np.corrcoef(pdist(exact), pdist(placed))[0, 1] > 0.98
    again = hierarchy_signatures(graph, labels, n_components=40, n_landmarks=200, random_state=0)
    assert again.equals(placed)
    other = hierarchy_signatures(graph, labels, n_components=40, n_landmarks=200, random_state=1)
    assert not other.equals(placed)


@pytest.mark.slow
def test_landmarks_are_taken_where_there_are_many_classes():
    graph = random_graph(3001, 4)
    many = hierarchy_signatures(graph, graph.nodes, n_components=3)
    assert many.equals(hierarchy_signatures(graph, graph.nodes, n_components=3, n_landmarks=2000))


PARTS = [("a", "b"), ("c", "b"), ("x", "y")]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "x"], {}, "Nothing in the hierarchy leads from 'a' to 'x'"),
        (["a", "z"], {}, "1 of 2 are not in the hierarchy: 'z'"),
        (["a"], {}, "holds 1 classes"),
        ([], {}, "holds 0 classes"),
        (["a", "c", "a"], {}, "names 'a' more than once"),
        (["a", "c"], {"n_components": 2}, "at most 1 dimensions"),
        (["a", "c"], {"n_components": 0}, "n_components=0"),
        (["a", "c"], {"n_landmarks": 1}, "n_landmarks=1 must be an integer of at least 2"),
        (["a", "b", "c"], {"n_components": 2}, "have 1 positive eigenvalues"),
    ],
)
def test_wrong_input(labels, options, message):
    with pytest.raises(ValueError, match=message):
        hierarchy_signatures(PARTS, labels, **options)


@pytest.mark.slow
def test_real_wordnet(data_folder):
    try:
        wordnet = WordNet()
    except FileNotFoundError as error:
        pytest.skip(str(error))
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
    with pytest.raises(ValueError, match="do not resolve"):
        hierarchy_signatures(wordnet, ["n02088364", "n99999999"])


SIZE_OF_IMAGENET = """
import json, resource, sys, time
from pathlib import Path
from zslearn.signatures import WordNet, hierarchy_signatures

folder = Path(sys.argv[1])
lists = [(folder / f"{name}.txt").read_text().split() for name in ("seen", "all-unseen")]
start = time.process_time()
found = hierarchy_signatures(WordNet(), lists[0] + lists[1])
seconds = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([*found.shape, seconds, peak, bool(found.notna().all(axis=None))]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in the units of Linux")
def test_all_classes_of_imagenet(data_folder):
    """All 21,842 listed classes under 4 GiB; about ten seconds of one core and 0.6 GiB."""
    try:
        WordNet()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-c", SIZE_OF_IMAGENET, str(data_folder / "imagenet")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    n_classes, width, seconds, peak, whole = json.loads(run.stdout)
    assert (n_classes, width, whole) == (21_842, 500, True)
    assert peak < 4 * 2**30
    assert seconds < 120
