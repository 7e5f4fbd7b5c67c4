"""How well predicted exemplars tell which classes look alike (section 4.5, appendix E).

Distances between unseen classes are taken from signatures, from predicted exemplars and from real
ones, the means of the images. Two measures say how near the first two come to the last: the
correlation of the distance matrices, and the share of common k nearest classes. Real exemplars are
used to measure only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr, spearmanr

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._records import read_record
from zslearn.experiments.analyses._classes import class_distances, of_classes, signature_distances
from zslearn.experiments.analyses._display import AnalysisDisplay, mean_and_spread, plain_legend
from zslearn.experiments.analyses._pieces import Piece, PieceRunner, RunOptions, chosen_seeds
from zslearn.synthesis import ideal_signatures
from zslearn.utils import Floats, to_numpy

SIGNATURES = "Semantic representations"
PREDICTED = "Predicted exemplars"
#: Not of methods, so that no method's colour is taken.
COLORS = {SIGNATURES: "#0072b2", PREDICTED: "#d55e00"}
_FURTHER = ("#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def distance_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Correlation of two matrices of distances, their rows taken as data points.

    For each class the Pearson correlation of its distances to all classes, itself among them, as in
    the paper; then the mean over the classes.

    Parameters
    ----------
    first, second : array-like of shape (n_classes, n_classes)
        Distances.

    Returns
    -------
    float
        Between −1 and 1.

    Examples
    --------
    >>> from zslearn.experiments.analyses import distance_correlation
    >>> distances = [[0.0, 1.0, 2.0], [1.0, 0.0, 4.0], [2.0, 4.0, 0.0]]
    >>> round(distance_correlation(distances, distances), 6)
    1.0
    """
    a, b = _square(first), _square(second)
    _check_alike(a, b)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if (norms == 0).any():
        raise ValueError("A class is equally far from all others: it has no correlation.")
    return float(((a * b).sum(axis=1) / norms).mean())


def knn_overlap(first: ArrayLike, second: ArrayLike, k: int) -> float:
    """Share of the k nearest classes that two matrices of distances have in common.

    Parameters
    ----------
    first, second : array-like of shape (n_classes, n_classes)
        Distances. A class is not its own neighbour; of equal distances the first counts.
    k : int
        How many neighbours, from 1 to n_classes − 1.

    Returns
    -------
    float
        Mean over the classes, between 0 and 1.

    Examples
    --------
    >>> from zslearn.experiments.analyses import knn_overlap
    >>> first = [[0.0, 1.0, 2.0], [1.0, 0.0, 4.0], [2.0, 4.0, 0.0]]
    >>> second = [[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 0.0]]
    >>> round(knn_overlap(first, second, 1), 3)
    0.667
    """
    overlaps = _overlaps(_square(first), _square(second))
    if not 1 <= k <= len(overlaps):
        raise ValueError(f"k lies between 1 and {len(overlaps)}, one less than classes; got {k}.")
    return float(overlaps[k - 1])


def _overlaps(first: Floats, second: Floats) -> Floats:
    """The shares of common neighbours for every k, from 1 to one less than there are classes."""
    _check_alike(first, second)
    n = len(first)
    ranks = [_neighbour_ranks(distances) for distances in (first, second)]
    # A class is among the k nearest of both from the larger of its two ranks on.
    both = np.maximum(*ranks)
    both = both[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    counts = np.stack([np.bincount(row, minlength=n)[1:] for row in both])
    return (np.cumsum(counts, axis=1) / np.arange(1, n)).mean(axis=0)


def _neighbour_ranks(distances: Floats) -> NDArray[np.intp]:
    """Which neighbour of the row's class a column is, from 1; 0 is the class itself."""
    own = distances.copy()
    np.fill_diagonal(own, -np.inf)
    order = np.argsort(own, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(own))[None, :], axis=1)
    return ranks


def _square(distances: ArrayLike) -> Floats:
    found = np.asarray(distances, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or len(found) < 3:
        raise ValueError(f"Distances of 3 or more classes are a square; got {found.shape}.")
    if not np.isfinite(found).all():
        raise ValueError("Distances hold NaN or infinity.")
    return found


def _check_alike(first: Floats, second: Floats) -> None:
    if first.shape != second.shape:
        raise ValueError(f"Distances are of other classes: {first.shape} and {second.shape}.")


def compare_distances(found: Floats, real: Floats) -> dict[str, Any]:
    """Every measure of how near distances come to real ones, for a record."""
    upper = np.triu_indices(len(real), 1)
    overlaps = _overlaps(found, real)
    k = max(1, round(0.4 * len(real)))
    return {
        "metrics": {
            "distance_correlation": distance_correlation(found, real),
            "pearson_of_pairs": float(pearsonr(found[upper], real[upper])[0]),
            "spearman_of_pairs": float(spearmanr(found[upper], real[upper])[0]),
            "knn_overlap": float(overlaps[k - 1]),
        },
        "overlaps": overlaps.round(6).tolist(),
    }


def analyze_exemplars(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = ("EXEM (1NN)",),
    seeds: int | Sequence[int] = (0,),
    others: Mapping[str, pd.DataFrame] | None = None,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure how well signatures and predicted exemplars order the unseen classes.

    Its records fill the paper's tables "correlation" and "knn_overlap".

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of str
        "EXEM (1NN)", whose exemplars are predicted; it is tuned by leaving out seen classes.
    seeds : int or sequence of int
        Each decides folds.
    others : mapping of str to DataFrame, optional
        Further kinds of signatures by name, which are measured beside those of the data set.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per number, with the column `k`: "knn_overlap" is at 40 % of the unseen classes, and
        "knn_overlap_at_k" for every k. "distance_correlation" goes by rows of the matrices, see
        :func:`distance_correlation`; "pearson_of_pairs" and "spearman_of_pairs" go by pairs of
        different classes.
    """
    if [methods] != ["EXEM (1NN)"] and list(methods) != ["EXEM (1NN)"]:
        raise ValueError("Exemplars are those of EXEM (1NN); other methods predict none.")
    classes = data.unseen_classes.tolist()
    if len(classes) < 4:
        raise ValueError(f"{data.name} has {len(classes)} unseen classes; four or more are needed.")
    runner = PieceRunner("exemplars", data, out, **options)
    k = max(1, round(0.4 * len(classes)))
    kinds = {SIGNATURES: data.signatures, **(others or {})}

    def of_signatures(kind: str) -> dict[str, Any]:
        # Without a projection: what an image is does not depend on a model.
        real = ideal_signatures(data.X_test_unseen, data.y_test_unseen).loc[classes]
        return compare_distances(
            signature_distances(kinds[kind], classes), class_distances(real.to_numpy())
        )

    def of_exemplars(seed: int) -> dict[str, Any]:
        model = runner.tune("EXEM (1NN)", seed).estimator_
        predicted, real = unseen_exemplars(model, data)
        found = compare_distances(class_distances(predicted), class_distances(real))
        nearest = cdist(predicted, real).argmin(axis=1) == np.arange(len(real))
        found["metrics"]["own_is_nearest"] = float(nearest.mean())
        return found

    pieces = []
    for seed in chosen_seeds(seeds):
        for kind in kinds:
            depends = (kinds[kind],) if kind != SIGNATURES else ()
            pieces.append(Piece(kind, seed, partial(of_signatures, kind), {"k": k}, depends))
        pieces.append(Piece(PREDICTED, seed, partial(of_exemplars, seed), {"k": k}))
    frame = runner.run(pieces)
    overlaps = _overlap_rows([runner.path(piece) for piece in pieces])
    return pd.concat([frame, overlaps], ignore_index=True)


def _overlap_rows(paths: Sequence[Path]) -> pd.DataFrame:
    """The share of common neighbours for each k, from the records."""
    rows = []
    for record in map(read_record, paths):
        origin = {name: record.get(name, "") for name in ("dataset", "split", "semantic", "method")}
        for i, value in enumerate(record.get("overlaps", ())):
            at = {"k": i + 1, "seed": record["seed"], "metric": "knn_overlap_at_k", "value": value}
            rows.append({**origin, **at})
    return pd.DataFrame(rows)


def unseen_exemplars(model: Any, data: ZeroShotDataset) -> tuple[Floats, Floats]:
    """Predicted and real exemplars of the unseen classes, in the space of a fitted EXEM.

    Parameters
    ----------
    model : EXEM
        Fitted, without an inner method.
    data : ZeroShotDataset
        The real ones are means of its test images, which are used to measure only.

    Returns
    -------
    predicted, real : ndarray of shape (n_unseen, n_dims)
        Rows follow `data.unseen_classes`.
    """
    classes = data.unseen_classes
    predicted = model.predict_exemplars(of_classes(data.signatures, classes.tolist()))
    points = to_numpy(model.class_scorer_.embedding(data.X_test_unseen))
    real = np.stack([points[data.y_test_unseen == label].mean(axis=0) for label in classes])
    return np.asarray(predicted, dtype=np.float64), real


class ExemplarsDisplay(AnalysisDisplay):
    """Picture of the quality of predicted exemplars.

    The picture "overlap" has the share of common k nearest classes against k; "correlation" the
    correlation of distance matrices; "difference" how much more neighbours each kind of signatures
    has in common with real exemplars than the first kind.
    """

    panels = ("overlap", "correlation", "difference")
    columns = ("method", "k", "seed", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        names = list(dict.fromkeys(self.frame["method"]))
        further = iter(_FURTHER * len(names))
        colors = {name: COLORS.get(name) or next(further) for name in names}
        if panel == "correlation":
            self._bars(ax, names, colors)
            return
        overlaps = self.frame[self.frame["metric"] == "knn_overlap_at_k"]
        stats = mean_and_spread(overlaps, ["method", "k"])
        by_method = {name: part.set_index("k") for name, part in stats.groupby("method")}
        base = by_method[names[0]]["mean"]
        n_classes = int(overlaps["k"].max()) + 1
        for name in names:
            part = by_method[name].sort_index()
            line = "--" if name == PREDICTED else "-"
            shown = (
                part["mean"] - base.reindex(part.index) if panel == "difference" else part["mean"]
            )
            if panel == "difference" and name == names[0]:
                continue
            ax.plot(part.index, 100 * shown, line, color=colors[name], label=name)
            if part["spread"].notna().any() and panel == "overlap":
                low, high = part["mean"] - part["spread"], part["mean"] + part["spread"]
                ax.fill_between(part.index, 100 * low, 100 * high, color=colors[name], alpha=0.2)
        ax.axvline(round(0.4 * n_classes), color="0.6", linestyle=":", linewidth=1)
        ax.set_xlabel("k (dotted: 40 % of the unseen classes)")
        if panel == "overlap":
            ax.set_ylabel("common k nearest classes with real exemplars (%)")
        else:
            ax.axhline(0, color="0.6", linewidth=0.8)
            ax.set_ylabel(f"more than {names[0].lower()} (points)")
        plain_legend(ax)

    def _bars(self, ax: Any, names: list[str], colors: dict[str, str]) -> None:
        frame = self.frame[self.frame["metric"] == "distance_correlation"]
        stats = mean_and_spread(frame, ["method"]).set_index("method").reindex(names)
        spread = None if stats["spread"].isna().all() else stats["spread"].fillna(0.0)
        ax.barh(names, stats["mean"], xerr=spread, color=[colors[name] for name in names])
        for i, value in enumerate(stats["mean"]):
            ax.text(value, i, f" {value:.3f}", va="center", fontsize=8)
        ax.set(xlabel="correlation with distances of real exemplars", xlim=(0, 1.1))
        ax.invert_yaxis()
