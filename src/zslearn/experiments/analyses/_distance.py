"""Which unseen classes a method owes its accuracy to, by their distance from the seen ones.

The paper (section 4.5) splits ImageNet's unseen classes into those within two hops of the seen
ones, at exactly three, and farther. Here the distance is any number per class: hops where there is
a hierarchy, else the distance from a signature to the nearest one of a seen class. Candidates are
always all unseen classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._measure import by_class
from zslearn.experiments.analyses._classes import nearest_seen
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_bars
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)
from zslearn.utils import name_some

METHODS = ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
#: Groups where there are no hops, the nearest first.
THIRDS = ("near third", "middle third", "far third")


def distance_groups(
    distances: Mapping[Any, float], *, edges: Sequence[float] | None = None
) -> dict[Any, str]:
    """Put classes into groups by their distance.

    Parameters
    ----------
    distances : mapping of class to float
        Of each class its distance from the seen ones.
    edges : sequence of float, optional
        Largest distance of each group but the last; by default thirds of the classes, the nearest
        first; those at the same distance stay together. For hops ``[2, 3]`` gives the paper's
        groups.

    Returns
    -------
    dict of class to str
        Names of groups.

    Examples
    --------
    >>> from zslearn.experiments.analyses import distance_groups
    >>> distance_groups({"ox": 2, "owl": 3, "whale": 5}, edges=[2, 3])
    {'ox': 'up to 2', 'owl': 'above 2, up to 3', 'whale': 'above 3'}
    """
    values = np.array([float(value) for value in distances.values()])
    if not len(values) or not np.isfinite(values).all():
        raise ValueError("Distances are finite numbers, one for each unseen class.")
    if edges is None:
        # Classes at the same distance share their rank, and so their third.
        ranks = rankdata(np.round(values, 9))
        places = (3 * (ranks - 0.5) / len(values)).astype(int)
        return {label: THIRDS[place] for label, place in zip(distances, places, strict=True)}
    bounds = [float(edge) for edge in edges]
    if not bounds or bounds != sorted(set(bounds)):
        raise ValueError(f"edges ascend; got {list(edges)}.")
    names = [f"up to {bounds[0]:g}"]
    names += [f"above {a:g}, up to {b:g}" for a, b in pairwise(bounds)]
    names += [f"above {bounds[-1]:g}"]
    places = np.searchsorted(bounds, values, side="left")
    return {label: names[place] for label, place in zip(distances, places, strict=True)}


def analyze_distance(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    distances: Mapping[Any, float] | None = None,
    edges: Sequence[float] | None = None,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure methods on groups of unseen classes, by their distance from the seen ones.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of str
        Names of methods; each is tuned by leaving out seen classes.
    seeds : int or sequence of int
        Each decides folds.
    distances : mapping of class to float, optional
        Such as hops in a hierarchy; by default from a signature to the nearest of a seen class.
    edges : sequence of float, optional
        See :func:`distance_groups`.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per number, with the column `group`. "per_class_accuracy" is the mean over the
        classes of the group, "contribution" what the group adds to the mean over all classes.
    """
    runner = PieceRunner("distance", data, out, **options)
    if distances is None:
        distances = nearest_seen(data)["distance"].to_dict()
    absent = [label for label in data.unseen_classes.tolist() if label not in distances]
    if absent:
        raise ValueError(f"These unseen classes have no distance: {name_some(absent)}.")
    unseen = data.unseen_classes.tolist()
    groups = distance_groups({label: distances[label] for label in unseen}, edges=edges)
    order = sorted(set(groups.values()), key=lambda name: _nearest(name, groups, distances))

    def compute(method: str, group: str, seed: int) -> dict[str, Any]:
        model = runner.tune(method, seed).estimator_
        predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
        found = by_class(data.y_test_unseen, predicted, data.unseen_classes)["per_class"]
        kept = [
            found[str(label)] for label in unseen if groups[label] == group and str(label) in found
        ]
        if not kept:
            raise ValueError(f"No class of the group {group!r} has a test image.")
        share = len(kept) / len(found)
        accuracy = float(np.mean(kept))
        metrics = {"per_class_accuracy": accuracy, "contribution": share * accuracy}
        return {"metrics": metrics, "n_classes": len(kept)}

    depends = (tuple(groups.items()),)
    return runner.run(
        Piece(method, seed, partial(compute, method, group, seed), {"group": group}, depends)
        for seed in chosen_seeds(seeds)
        for method in chosen_methods(methods)
        for group in order
    )


def _nearest(name: str, groups: Mapping[Any, str], distances: Mapping[Any, float]) -> float:
    return min(float(distances[label]) for label, group in groups.items() if group == name)


class DistanceDisplay(AnalysisDisplay):
    """Picture of accuracy on groups of unseen classes, a bar per method."""

    columns = ("method", "group", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        draw_bars(ax, frame, "group", "method", ylabel="accuracy per class (%)", factor=100)
        ax.set_xlabel("unseen classes, by distance from the seen ones")
