"""What the last layers of networks are predicted from and by: signatures, methods, a baseline."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.baselines import ESZSL
from zslearn.datasets import load_glove
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.networks import DGP, GCNZ, SGCN
from zslearn.signatures import (
    ClassGraph,
    MultiSignatures,
    WordNet,
    encode_text,
    hierarchy_distances,
    hierarchy_signatures,
    word_signatures,
)
from zslearn.synthesis import EXEM, SynC
from zslearn.utils import Floats, unit_rows

#: Kinds of signatures, and what they are combined of.
KINDS: dict[str, tuple[str, ...]] = {
    "words": ("words",),
    "text": ("text",),
    "hie": ("hie",),
    "words + hie": ("words", "hie"),
    "words + text + hie": ("words", "text", "hie"),
}
#: Width of the hierarchy's vectors.
_HIE_WIDTH = 200


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
    table = word_signatures(_without_strangers(names, vectors), vectors).table
    rows = {
        wnid: table.loc[next(name for name in path if name in table.index)].to_numpy()
        for wnid, path in above.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def _without_strangers(
    names: Mapping[str, Sequence[str]], vectors: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Classes of which a word is known, so that the others need no warning."""

    def known(name: str) -> bool:
        lower = name.lower()
        parts = lower.replace("_", " ").replace("-", " ").split()
        return lower in vectors or any(part in vectors for part in parts)

    return {
        wnid: list(synonyms)
        for wnid, synonyms in names.items()
        if any(known(name) for name in synonyms)
    }


def last_layer_signatures(
    wordnet: WordNet,
    graph: ClassGraph,
    wnids: Sequence[str],
    kinds: Sequence[str],
    *,
    packages: str | os.PathLike[str] | None = None,
    fetch: bool = False,
) -> dict[str, pd.DataFrame | MultiSignatures]:
    """Signatures of ImageNet's classes, alone and together.

    Parameters
    ----------
    wordnet : WordNet
        Names and glosses.
    graph : ClassGraph
        The classes and what lies above them.
    wnids : sequence of str
        Classes.
    kinds : sequence of str
        Keys of `KINDS`.
    packages, fetch : object
        See :func:`words_of_classes`.

    Returns
    -------
    dict
        Kind → signatures of all classes.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"There are no signatures {unknown[0]!r}; there are {', '.join(KINDS)}.")
    make: dict[str, Callable[[], pd.DataFrame]] = {
        "words": partial(words_of_classes, wordnet, wnids, packages=packages, fetch=fetch),
        "text": lambda: pd.DataFrame(
            encode_text([wordnet.description(wnid) for wnid in wnids]), index=list(wnids)
        ),
        "hie": lambda: hierarchy_signatures(graph, wnids, n_components=_HIE_WIDTH),
    }
    needed = dict.fromkeys(part for kind in kinds for part in KINDS[kind])
    single = {part: make[part]() for part in needed}
    return {
        kind: single[KINDS[kind][0]]
        if len(KINDS[kind]) == 1
        else MultiSignatures({part: single[part] for part in KINDS[kind]})
        for kind in kinds
    }


class MeanOfNeighbours:
    """The baseline: a class's row is the mean over the seen classes the fewest links away.

    Parameters
    ----------
    graph : ClassGraph
        The hierarchy.
    """

    def __init__(self, graph: ClassGraph) -> None:
        self.graph = graph

    def predict_rows(self, X: Floats, seen: NDArray[Any], unseen: NDArray[Any]) -> Floats:
        """Make rows of unseen classes.

        Parameters
        ----------
        X : ndarray of shape (n_seen, n_features)
            Rows of the seen classes.
        seen, unseen : ndarray of str
            Labels.

        Returns
        -------
        ndarray of shape (n_unseen, n_features)
            Rows of unit norm.
        """
        links = np.asarray(hierarchy_distances(self.graph, unseen.tolist(), seen.tolist()))
        nearest = links == links.min(axis=1, keepdims=True)
        return unit_rows(nearest @ unit_rows(X) / nearest.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class TrackMethod:
    """A method and the values that are searched.

    Parameters
    ----------
    make : callable
        Takes the class graph and gives the method.
    grid : mapping
        Hyper-parameters with their values; empty where it is as published.
    """

    make: Callable[[ClassGraph], Any]
    grid: Mapping[str, Sequence[Any]]

    def fit(self, graph: ClassGraph, X: Floats, y: NDArray[Any], signatures: Any) -> Any:
        """Tune on seen classes alone, then fit on all of them."""
        estimator = self.make(graph)
        if not self.grid:
            # A network, which single precision does for.
            return estimator.fit(X.astype(np.float32), y, signatures=signatures)
        search = ZeroShotSearchCV(estimator, self.grid, cv=3)
        return search.fit(X, y, signatures=signatures)


def _graph_method(kind: type[Any], graph: ClassGraph, **settings: Any) -> Any:
    # Rows are what is given as samples: their means are the targets.
    return kind(graph, "mean", graph="all", **settings)


#: Methods of the track. Graph methods are narrower and trained for fewer epochs than published.
TRACK_METHODS: dict[str, TrackMethod] = {
    "ESZSL": TrackMethod(
        lambda graph: ESZSL(),
        {"alpha_features": [1.0, 10.0, 100.0], "alpha_signatures": [0.01, 0.1, 1.0]},
    ),
    "SynC o-vs-o": TrackMethod(
        lambda graph: SynC(tol=1e-2),
        {"alpha": [2.0**k for k in (-12, -8, -4)], "gamma": [2.0**k for k in range(-3, 3)]},
    ),
    "EXEM (1NN)": TrackMethod(
        lambda graph: EXEM(n_components=200, tol=1e-2),
        {"C": [1.0, 8.0], "nu": [0.5], "gamma": [2.0**k for k in range(-3, 1)]},
    ),
    "GCNZ": TrackMethod(
        lambda graph: _graph_method(GCNZ, graph, hidden_sizes=(512, 256), max_iter=60), {}
    ),
    "SGCN": TrackMethod(
        lambda graph: _graph_method(SGCN, graph, hidden_size=512, max_iter=100), {}
    ),
    "DGP": TrackMethod(lambda graph: _graph_method(DGP, graph, hidden_size=512, max_iter=100), {}),
}
