"""What the last layers of networks are predicted by: methods and a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn.baselines import ESZSL
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.networks import DGP, GCNZ, SGCN
from zslearn.pipeline import WeightedViews
from zslearn.signatures import ClassGraph, MultiSignatures, hierarchy_distances
from zslearn.synthesis import EXEM, SynC
from zslearn.utils import Floats, unit_rows


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
    kind : type
        The method.
    settings : mapping
        Hyper-parameters that are not searched; of a graph method those of the recipe "short",
        where its own defaults are the published ones.
    grid : mapping
        Hyper-parameters with their values; of a graph method those of the recipe "tuned".
    """

    kind: type[Any]
    settings: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]

    @property
    def over_graph(self) -> bool:
        """Whether it is a graph method."""
        return issubclass(self.kind, (GCNZ, SGCN, DGP))

    def make(self, graph: ClassGraph, recipe: str = "short") -> Any:
        """The method before it is fitted."""
        if not self.over_graph:
            return self.kind(**self.settings)
        settings = self.settings if recipe == "short" else {}
        # Rows are what is given as samples: their means are the targets.
        return self.kind(graph, "mean", graph="all", **settings)

    def fit(
        self,
        graph: ClassGraph,
        X: Floats,
        y: NDArray[Any],
        signatures: pd.DataFrame | MultiSignatures,
        recipe: str = "short",
    ) -> Any:
        """Tune on seen classes alone, then fit on all of them."""
        estimator = self.make(graph, recipe)
        if self.over_graph:
            # Networks, which single precision does for.
            X = X.astype(np.float32)
            if recipe != "tuned":
                return estimator.fit(X, y, signatures=signatures)
        search = ZeroShotSearchCV(estimator, self.grid, cv=3)
        search.fit(X, y, signatures=signatures)
        if not isinstance(signatures, MultiSignatures):
            return search
        chosen = WeightedViews(clone(estimator).set_params(**search.best_params_))
        weighed = ZeroShotSearchCV(chosen, {"weights": _weights(len(signatures.views))}, cv=3)
        weighed.fit(X, y, signatures=signatures)
        weighed.best_params_ = {**search.best_params_, **weighed.best_params_}
        return weighed


def _weights(n_views: int) -> list[tuple[float, ...]]:
    """Weights of several kinds that are tried: equal ones, or 1/2 or 3/4 for one kind."""
    tried = {(1 / n_views,) * n_views: None}
    for share in (0.5, 0.75):
        for heavy in range(n_views):
            rest = (1 - share) / (n_views - 1)
            tried[tuple(share if i == heavy else rest for i in range(n_views))] = None
    return list(tried)


#: How graph methods are trained: for minutes on a CPU; as published; or with the published widths
#: and rates, where the epochs and the weights of combined signatures are chosen like other
#: hyper-parameters.
RECIPES = ("short", "published", "tuned")
_EPOCHS = {"max_iter": [30, 100, 300]}
#: Methods of the track.
TRACK_METHODS: dict[str, TrackMethod] = {
    "ESZSL": TrackMethod(
        ESZSL,
        {},
        {
            "alpha_features": [10.0**k for k in range(-1, 3)],
            "alpha_signatures": [10.0**k for k in range(-2, 2)],
        },
    ),
    "SynC o-vs-o": TrackMethod(
        SynC,
        {"tol": 1e-2},
        {
            "alpha": [2.0**k for k in (-12, -8, -4)],
            "gamma": [2.0**k for k in range(-3, 3)],
            "ridge": [0.0, 1e-8, 1e-6, 1e-4],
        },
    ),
    "EXEM (1NN)": TrackMethod(
        EXEM,
        {"n_components": 200, "tol": 1e-2},
        {"C": [0.125, 1.0, 8.0], "nu": [0.5], "gamma": [2.0**k for k in range(-5, 4, 2)]},
    ),
    "GCNZ": TrackMethod(GCNZ, {"hidden_sizes": (512, 256), "max_iter": 60}, _EPOCHS),
    "SGCN": TrackMethod(SGCN, {"hidden_size": 512, "max_iter": 100}, _EPOCHS),
    "DGP": TrackMethod(DGP, {"hidden_size": 512, "max_iter": 100}, _EPOCHS),
}
