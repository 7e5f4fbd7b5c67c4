"""How well predicted exemplars tell which classes look alike (section 4.5, appendix E).

Distances between unseen classes are taken from signatures, from predicted exemplars and from real
ones, the means of the images. Two measures say how near the first two come to the last: the
correlation of the distance matrices, and the share of common k nearest classes. Real exemplars are
used to measure only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr, spearmanr
from sklearn.manifold import TSNE

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._optional import import_optional
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments._methods import find_method
from zslearn.experiments._records import read_record
from zslearn.experiments._tuning import TuningOptions, tune_without
from zslearn.experiments.analyses._classes import class_distances, of_classes, signature_distances
from zslearn.experiments.analyses._display import AnalysisDisplay, mean_and_spread, plain_legend
from zslearn.experiments.analyses._pieces import Piece, PieceRunner, RunOptions, chosen_seeds
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.synthesis._exem import ideal_signatures
from zslearn.synthesis._exemplar_mlp import ExemplarMLP

# What predicts exemplars, and in how many dimensions (appendix E).

#: Regressors of EXEM and the rows of the paper's table; ours beside them.
REGRESSORS = {
    "svr": "EXEM (1NN)",
    "mlp": "EXEM (1NN, MLP)",
    "krr": "EXEM (1NN, kernel ridge)",
    "gp": "EXEM (1NN, Gaussian process)",
}
#: Hyper-parameters that a regressor does not have.
_LACKS: dict[str, tuple[str, ...]] = {
    "svr": (),
    "krr": ("nu",),
    "gp": ("nu", "C"),
}
_MLP_GRID = {"regressor__alpha": [1e-5, 1e-4, 1e-3]}
#: Dimensions of the paper's table; None is without a projection.
DIMENSIONS: tuple[int | None, ...] = (10, 50, 100, 200, 500, 1024, None)
_COLORS_REGRESSORS = {"svr": "#56b4e9", "mlp": "#d55e00", "krr": "#009e73", "gp": "#cc79a7"}
_MARKERS = {"svr": "o", "mlp": "s", "krr": "^", "gp": "D"}


def analyze_regressors(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = ("svr", "krr", "gp"),
    seeds: int | Sequence[int] = (0,),
    dimensions: Sequence[int | None] = (10, 50, 200, 500, None),
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure EXEM (1NN) with several regressors and numbers of principal components.

    Its records fill the paper's tables "regressor" and "pca". Each is tuned for itself by leaving
    out seen classes: the ν-SVR (C, ν, σ), the perceptron (λ; needs the `torch` extra), kernel ridge
    (C, σ) and the Gaussian process (the σ it begins with).
    """
    names = [methods] if isinstance(methods, str) else list(methods)
    unknown = [name for name in names if name not in REGRESSORS]
    if unknown or not names:
        raise ValueError(f"There is no regressor {unknown}; there are: {', '.join(REGRESSORS)}.")
    runner = PieceRunner("regressors", data, out, **options)
    most = min(data.X_train.shape)
    kept = [number for number in dict.fromkeys(dimensions) if number is None or number <= most]
    if not kept:
        raise ValueError(f"{data.name} has {most} components at most; every dimension is larger.")

    def compute(name: str, number: int | None, seed: int) -> dict[str, Any]:
        method = find_method("EXEM (1NN)")
        method = replace(
            method,
            make=partial(_made, method.make, name, number),
            tune=_tune_mlp if name == "mlp" else tune_without("n_components", *_LACKS[name]),
        )
        search = runner.tune(method, seed)
        return {
            "metrics": measure_conventional(search.estimator_, data),
            "hyper_parameters": dict(search.best_params_),
            "edges": dict(search.edges_),
        }

    frame = runner.run(
        Piece(
            REGRESSORS[name], seed, partial(compute, name, number, seed), {"n_components": number}
        )
        for seed in chosen_seeds(seeds)
        for name in names
        for number in kept
    )
    by_row = {row: name for name, row in REGRESSORS.items()}
    return frame.assign(regressor=frame["method"].map(by_row))


def _made(make: Any, name: str, number: int | None) -> Any:
    regressor = ExemplarMLP() if name == "mlp" else name
    return make().set_params(regressor=regressor, n_components=number)


def _tune_mlp(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
    """Search the perceptron's own hyper-parameter, λ."""
    search = options.search(estimator, _MLP_GRID)
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


class RegressorsDisplay(AnalysisDisplay):
    """Picture of accuracy against the number of principal components, a line per regressor."""

    columns = ("method", "regressor", "n_components", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        frame = frame.assign(n_components=frame["n_components"].astype(object))
        known = sorted({int(n) for n in frame["n_components"] if not pd.isna(n)})
        places: list[int | None] = (
            [*known, None] if frame["n_components"].isna().any() else [*known]
        )
        stats = mean_and_spread(frame, ["method", "regressor", "n_components"])
        for key, part in stats.groupby(["method", "regressor"], sort=False):
            method, name = map(str, key)
            where = [
                places.index(None if pd.isna(n) else int(n)) for n in part["n_components"].tolist()
            ]
            part = part.assign(where=where).sort_values("where")
            spread = None if part["spread"].isna().all() else 100 * part["spread"].fillna(0.0)
            ax.errorbar(
                part["where"],
                100 * part["mean"],
                yerr=spread,
                marker=_MARKERS[name],
                color=_COLORS_REGRESSORS[name],
                linestyle="--",
                capsize=2,
                label=method,
            )
        names = ["none" if place is None else str(place) for place in places]
        ax.set_xticks(range(len(places)), names)
        ax.set(xlabel="principal components", ylabel="accuracy per class (%)")
        plain_legend(ax)


SIGNATURES = "Semantic representations"
PREDICTED = "Predicted exemplars"
#: Not of methods, so that no method's colour is taken.
COLORS = {SIGNATURES: "#0072b2", PREDICTED: "#d55e00"}
_FURTHER = ("#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def distance_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Correlation of two matrices of distances, their rows taken as data points.

    For each class the Pearson correlation of its distances to all classes, itself among them, as in
    the paper; then the mean over the classes.
    """
    a, b = _square(first), _square(second)
    _check_alike(a, b)
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if (norms == 0).any():
        raise ValueError("A class is equally far from all others: it has no correlation.")
    return float(((a * b).sum(axis=1) / norms).mean())


def knn_overlap(first: ArrayLike, second: ArrayLike, k: int) -> float:
    """Share of the k nearest classes that two matrices of distances have in common."""
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
    """Predicted and real exemplars of the unseen classes, in the space of a fitted EXEM."""
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


# Images of unseen classes with their predicted and real exemplars in one plane (appendix E).

#: Told apart by any colour vision; beside the colour a class has its number.
_COLORS = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"),
    *("#d55e00", "#4b5a68", "#7456e0", "#882255", "#999933"),
)


def analyze_exemplar_map(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = ("EXEM (1NN)",),
    seeds: int | Sequence[int] = (0,),
    n_classes: int = 10,
    n_images: int = 30,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Place images, predicted and real exemplars of unseen classes in a plane by t-SNE."""
    if [methods] != ["EXEM (1NN)"] and list(methods) != ["EXEM (1NN)"]:
        raise ValueError("Exemplars are those of EXEM (1NN); other methods predict none.")
    if n_classes < 2 or n_images < 1:
        raise ValueError(f"A map needs two classes and an image; got {n_classes} and {n_images}.")
    runner = PieceRunner("exemplar-map", data, out, **options)
    depends = (n_classes, n_images)
    pieces = [
        Piece(
            "EXEM (1NN)", seed, partial(_place, runner, seed, *depends), {"of": "points"}, depends
        )
        for seed in chosen_seeds(seeds)
    ]
    runner.run(pieces)
    rows = []
    for piece in pieces:
        record = read_record(runner.path(piece))
        columns = ("class", "kind", "x", "y")
        rows += [
            {"seed": piece.seed, **dict(zip(columns, point, strict=True))}
            for point in record.get("points", ())
        ]
    return pd.DataFrame(rows)


def _place(runner: PieceRunner, seed: int, n_classes: int, n_images: int) -> dict[str, Any]:
    """Points of one seed, for a record."""
    data = runner.data
    model = runner.tune("EXEM (1NN)", seed).estimator_
    predicted, real = unseen_exemplars(model, data)
    rng = np.random.RandomState(seed)
    unseen, y = data.unseen_classes, data.y_test_unseen
    chosen = np.sort(rng.permutation(len(unseen))[:n_classes])
    rows = [rng.permutation(np.flatnonzero(y == unseen[i]))[:n_images] for i in chosen]
    images = to_numpy(model.class_scorer_.embedding(data.X_test_unseen[np.concatenate(rows)]))
    points = np.concatenate([images, predicted[chosen], real[chosen]])
    names = [str(unseen[i]) for i in chosen]
    labels = [n for n, of_class in zip(names, rows, strict=True) for _ in of_class]
    kinds = ["image"] * len(labels) + ["predicted"] * len(names) + ["real"] * len(names)
    perplexity = min(30.0, (len(points) - 1) / 3)
    place = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit(points)
    xy = np.round(place.embedding_.astype(np.float64), 3).tolist()
    found = [
        [label, kind, x, y_]
        for label, kind, (x, y_) in zip([*labels, *names, *names], kinds, xy, strict=True)
    ]
    return {"metrics": {"tsne_divergence": float(place.kl_divergence_)}, "points": found}


class ExemplarMapDisplay(AnalysisDisplay):
    """Picture of images (dots), predicted (circles) and real exemplars (crosses) by t-SNE.

    A line joins the two exemplars of a class: the shorter, the better the prediction.
    """

    columns = ("seed", "class", "kind", "x", "y")
    size = (7.4, 5.4)

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["seed"] == self.frame["seed"].iloc[0]]
        effects = import_optional("matplotlib.patheffects", type(self).__name__)
        rim = effects.withStroke(linewidth=2.5, foreground="white")
        middle = (frame["x"].min() + frame["x"].max()) / 2
        for i, (label, part) in enumerate(frame.groupby("class", sort=False)):
            color = _COLORS[i % len(_COLORS)]
            kinds: dict[Any, pd.DataFrame] = dict(list(part.groupby("kind")))
            ax.scatter(
                kinds["image"].x, kinds["image"].y, s=9, color=color, alpha=0.55, linewidths=0
            )
            ends = pd.concat([kinds["predicted"], kinds["real"]])
            ax.plot(ends.x, ends.y, color=color, linewidth=1)
            big = {"zorder": 3, "linewidths": 1.8}
            predicted, real = kinds["predicted"].iloc[0], kinds["real"].iloc[0]
            ax.scatter(
                predicted.x,
                predicted.y,
                s=75,
                marker="o",
                facecolor="white",
                edgecolor=color,
                **big,
            )
            ax.scatter(real.x, real.y, s=55, marker="x", color=color, **big)
            # Names lie over dots: a white rim keeps them legible. Those on the right end there.
            on_right = real.x > middle
            ax.annotate(
                str(label)[:28],
                (real.x, real.y),
                xytext=(-6 if on_right else 6, 6),
                textcoords="offset points",
                ha="right" if on_right else "left",
                fontsize=8,
                zorder=4,
                parse_math=False,
                path_effects=[rim],
            )
        ax.set(xticks=[], yticks=[], xlabel="dots: images; circle: predicted exemplar; cross: real")
