"""Analyses of predicted exemplars (Section 4.5 and Appendix E of the paper).

`exemplars` compares distances between unseen classes from signatures and from predicted exemplars
with those from real exemplars (class means of the images), by the correlation of distances and by
the share of common k nearest classes. It supports several kinds of signatures (Section 4.5.1) and,
from the records of ``zslearn bench imagenet``, each test set of ImageNet. `exemplar-map` embeds
images of unseen classes and their predicted and real exemplars in a plane. `regressors` varies the
regressor of exemplars and the number of dimensions. Real exemplars are only used for evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.manifold import TSNE
from sklearn.metrics.pairwise import euclidean_distances

from zslearn._utils._array import Floats, row_blocks, to_numpy
from zslearn._utils._optional import import_optional
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments.analyses._classes import of_classes, signature_rows
from zslearn.experiments.analyses._drawing import (
    ACCURACY,
    draw_lines,
    mean_and_deviation,
    plain_legend,
)
from zslearn.experiments.analyses._jobs import (
    Job,
    JobRunner,
    numbers_frame,
    read_variant,
    record_origin,
)
from zslearn.experiments.analyses._records import kind_order
from zslearn.model_selection import TuningOptions, ZeroShotSearchCV, find_method
from zslearn.synthesis import ExemplarMLP, ideal_signatures

EXEM_1NN = "EXEM (1NN)"

# Regressors of exemplars, by number of dimensions.

#: Regressor of EXEM → row of the paper's table, or one of our own.
REGRESSORS = {
    "svr": EXEM_1NN,
    "mlp": "EXEM (1NN, MLP)",
    "krr": "EXEM (1NN, kernel ridge)",
    "gp": "EXEM (1NN, Gaussian process)",
}
_BY_ROW = {row: name for name, row in REGRESSORS.items()}
#: Hyper-parameters that a regressor lacks; the network has its own.
_LACKS: dict[str, tuple[str, ...]] = {"krr": ("nu",), "gp": ("nu", "C")}
#: Colours and markers of regressors.
_STYLES = {
    "svr": {"color": "#56b4e9", "marker": "o"},
    "mlp": {"color": "#d55e00", "marker": "s"},
    "krr": {"color": "#009e73", "marker": "^"},
    "gp": {"color": "#cc79a7", "marker": "D"},
}


def compare_regressors(
    runner: JobRunner, *, dimensions: Sequence[int | None] = (10, 50, 200, 500, None)
) -> pd.DataFrame:
    """Measure EXEM (1NN) with several regressors and numbers of principal components.

    The records fill the paper's tables "regressor" and "pca"; None stands for no projection. Each
    regressor is tuned on held-out seen classes: ν-SVR (C, ν, σ), perceptron (λ; needs the `torch`
    extra), kernel ridge (C, σ) and Gaussian process (initial σ).
    """
    most = min(runner.data.X_train.shape)
    kept = [number for number in dict.fromkeys(dimensions) if number is None or number <= most]
    if not kept:
        raise ValueError(
            f"{runner.data.name} has at most {most} components; all dimensions are larger."
        )

    def compute(row: str, seed: int, n_components: int | None) -> dict[str, Any]:
        name, exem = _BY_ROW[row], find_method(EXEM_1NN)
        fixed = {"regressor": name, "n_components": n_components}
        if name == "mlp":
            exem, fixed["regressor"] = replace(exem, tune=_tune_mlp), ExemplarMLP()
        defaults = exem.make().get_params()
        fixed |= {lacked: defaults[lacked] for lacked in _LACKS.get(name, ())}
        return runner.results_of(runner.tune(exem, seed, fixed=fixed))

    settings = [{"n_components": number} for number in kept]
    frame = runner.run(runner.jobs(compute, settings))
    return frame.assign(regressor=frame["method"].map(_BY_ROW))


def _tune_mlp(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
    """Search the perceptron's own hyper-parameter, λ."""
    search = options.search(estimator, {"regressor__alpha": [1e-5, 1e-4, 1e-3]})
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def draw_regressors(ax: Any, frame: pd.DataFrame) -> None:
    """Draw accuracy against the number of principal components, a line per regressor."""
    frame = frame[frame["metric"] == ACCURACY]
    frame = frame.assign(n_components=frame["n_components"].astype(object))
    places: list[int | None] = [*sorted({int(n) for n in frame["n_components"] if not pd.isna(n)})]
    places += [None] if frame["n_components"].isna().any() else []
    where = [places.index(None if pd.isna(n) else int(n)) for n in frame["n_components"]]
    draw_lines(
        ax,
        frame.assign(where=where),
        x="where",
        xlabel="principal components",
        style=lambda row: {**_STYLES[_BY_ROW[row]], "markersize": 6, "linestyle": "--"},
    )
    names = ["none" if place is None else str(place) for place in places]
    ax.set_xticks(range(len(places)), names)


# Agreement of signatures and predicted exemplars with real exemplars.

SIGNATURES = "Semantic representations"
PREDICTED = "Predicted exemplars"
#: Colours of kinds of distances, which are not methods.
COLORS = {SIGNATURES: "#0072b2", PREDICTED: "#d55e00"}
_FURTHER = ("#009e73", "#cc79a7", "#56b4e9", "#e69f00")
#: As in the paper.
_MOST_NEIGHBOURS = 500


def compare_distances(found: Floats, real: Floats) -> dict[str, Any]:
    """Compare distances between rows, one per class, with those between real exemplars.

    Returns the mean over classes of the correlation of their distances to all classes, including
    themselves as in the paper; the correlation over pairs of different classes; and the share of
    common k nearest classes for every k. Distances are computed in blocks.
    """
    n = len(real)
    n_pairs, k = n * (n - 1), n_neighbours(n)
    common, sums = np.zeros(n - 1), np.zeros(5)
    correlations = []
    for rows in row_blocks(n, 8 * 8 * n):
        own = np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)
        # Rounded, so that equal distances stay equal despite rounding errors.
        a, b = (euclidean_distances(points[rows], points).round(7) for points in (found, real))
        a[own] = b[own] = 0
        sums += [x.sum() for x in (a, b, a * a, b * b, a * b)]
        correlations.append(_row_correlations(a, b))
        a[own] = b[own] = -np.inf
        # A class is a common neighbour from the larger of its two ranks on; rank 1 is itself.
        ranks = np.maximum(*(rankdata(rows, method="ordinal", axis=1) for rows in (a, b)))
        common += np.cumsum(np.bincount(ranks.ravel(), minlength=n + 1)[2:])
    overlaps = common / (n * np.arange(1, n))
    mean_a, mean_b, square_a, square_b, product = sums / n_pairs
    spread = np.sqrt((square_a - mean_a**2) * (square_b - mean_b**2))
    metrics = {
        "distance_correlation": float(np.nanmean(np.concatenate(correlations))),
        "pearson_of_pairs": float((product - mean_a * mean_b) / spread),
        "knn_overlap": float(overlaps[k - 1]),
    }
    return {"metrics": metrics, "overlaps": overlaps[:_MOST_NEIGHBOURS].round(6).tolist()}


def _row_correlations(first: Floats, second: Floats) -> Floats:
    """Correlation of each pair of rows; NaN if one is constant."""
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (first, second))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.divide((a * b).sum(axis=1), norms, out=np.full(len(a), np.nan), where=norms > 0)


def n_neighbours(n_classes: int) -> int:
    """Number of neighbours: 40 % of the classes, as in the paper."""
    return max(1, round(0.4 * n_classes))


def compare_exemplars(runner: JobRunner) -> pd.DataFrame:
    """Compare signatures and predicted exemplars with real exemplars of the unseen classes.

    Several kinds of signatures are measured separately and combined. The records fill the paper's
    tables "correlation" and "knn_overlap".
    """
    data = runner.data
    classes = data.unseen_classes.tolist()
    if len(classes) < 4:
        raise ValueError(f"{data.name} has {len(classes)} unseen classes; at least 4 are needed.")
    kinds = {**getattr(data.signatures, "views", {}), SIGNATURES: data.signatures}

    def of_signatures(kind: str) -> dict[str, Any]:
        # Real exemplars without a projection, which would depend on a model.
        real = ideal_signatures(data.X_test_unseen, data.y_test_unseen).loc[classes]
        return compare_distances(signature_rows(kinds[kind], classes), real.to_numpy())

    def of_exemplars(method: str, seed: int) -> dict[str, Any]:
        model = runner.tune(method, seed).estimator_
        predicted, real = unseen_exemplars(model, data)
        found = compare_distances(predicted, real)
        nearest = cdist(predicted, real).argmin(axis=1) == np.arange(len(real))
        found["metrics"]["own_is_nearest"] = float(nearest.mean())
        return found

    setting = {"k": n_neighbours(len(classes))}
    jobs = []
    for seed in runner.seeds:
        jobs += [Job(kind, seed, partial(of_signatures, kind), setting) for kind in kinds]
        for method in runner.methods:
            name = PREDICTED
            if method != EXEM_1NN:
                name += f", {find_method(method).name}"
            jobs.append(Job(name, seed, partial(of_exemplars, method, seed), setting, (method,)))
    return _exemplar_table(runner.records(jobs))


def read_exemplars(runner: JobRunner) -> pd.DataFrame:
    """Read the same from records, including those of ``zslearn bench imagenet``."""
    records = [r for r in runner.read(("zsl",)) if r.get("analysis") == "exemplars"]
    if not records:
        raise ValueError(
            f"{runner.runs} has no records of exemplars; zslearn bench imagenet and zslearn "
            "analyze exemplars write them."
        )
    order = runner.methods or sorted({r["method"] for r in records}, key=kind_order)
    by_size = sorted(records, key=lambda r: int(read_variant(r.get("variant", "")).get("k", 0)))
    return _exemplar_table(sorted(by_size, key=lambda r: order.index(r["method"])))


def _exemplar_table(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The metrics of records, and the share of common neighbours for each k."""
    rows = [
        record_origin(record)
        | {"k": k, "seed": record["seed"], "metric": "knn_overlap_at_k", "value": value}
        for record in records
        for k, value in enumerate(record.get("overlaps", ()), start=1)
    ]
    return pd.concat([numbers_frame(records), pd.DataFrame(rows)], ignore_index=True)


def unseen_exemplars(model: Any, data: ZeroShotDataset) -> tuple[Floats, Floats]:
    """Predicted and real exemplars of the unseen classes in the space of a fitted EXEM."""
    classes = data.unseen_classes
    predicted = model.predict_exemplars(of_classes(data.signatures, classes.tolist()))
    points = to_numpy(model.class_scorer_.embedding(data.X_test_unseen))
    real = np.stack([points[data.y_test_unseen == label].mean(axis=0) for label in classes])
    return np.asarray(predicted, dtype=np.float64), real


def _kind_colors(frame: pd.DataFrame) -> dict[str, str]:
    """Colours of the kinds of distances, in the order of the table."""
    names = list(dict.fromkeys(frame["method"]))
    further = iter(_FURTHER * len(names))
    return {name: COLORS.get(name) or next(further) for name in names}


def draw_overlaps(ax: Any, frame: pd.DataFrame) -> None:
    """Draw the share of common k nearest classes against k, for the largest set of classes."""
    sets, colors = _overlaps(frame)
    largest = list(sets)[-1]
    for name, color in colors.items():
        part = sets[largest].xs(name)
        mean, deviation = 100 * part["mean"], 100 * part["deviation"].fillna(0)
        ax.plot(mean, "--" if name.startswith(PREDICTED) else "-", color=color, label=name)
        ax.fill_between(mean.index, mean - deviation, mean + deviation, color=color, alpha=0.2)
    if not largest:
        ax.axvline(round(0.4 * (len(mean) + 1)), color="0.6", linestyle=":", linewidth=1)
    ax.set_xlabel("k" if largest else "k (dotted: 40 % of the unseen classes)")
    ax.set_ylabel("common k nearest classes with real exemplars (%)")
    plain_legend(ax)


def draw_overlap_differences(ax: Any, frame: pd.DataFrame) -> None:
    """Draw the difference in common nearest classes between each kind and the first, by set."""
    sets, colors = _overlaps(frame)
    first, *others = colors
    for (subset, part), of_set in zip(sets.items(), _CLASS_COLORS * len(sets), strict=False):
        for name, line in zip(others, ("-", "--", ":", "-.") * len(others), strict=False):
            more = 100 * (part["mean"].xs(name) - part["mean"].xs(first))
            label = f"{name}, {subset}" if subset else name
            # Sets of classes differ in colour, kinds in line style.
            ax.plot(more, line, color=of_set if subset else colors[name], label=label)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xlabel="k", ylabel=f"more than {first[0].lower()}{first[1:]} (points)")
    if others:
        plain_legend(ax)


def _overlaps(frame: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Set of classes → mean share by kind and k, smallest set first; also colours of the kinds."""
    found = frame[frame["metric"] == "knn_overlap_at_k"].fillna({"subset": ""})
    stats = mean_and_deviation(found, ["subset", "method", "k"]).set_index(["method", "k"])
    sets = {str(name): part for name, part in stats.groupby("subset", sort=False)}
    return sets, _kind_colors(frame)


# Map of images of unseen classes with their predicted and real exemplars.

#: Distinct with any colour vision; classes are labelled as well.
_CLASS_COLORS = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"),
    *("#d55e00", "#4b5a68", "#7456e0", "#882255", "#999933"),
)


def map_exemplars(runner: JobRunner, *, n_classes: int = 10, n_images: int = 30) -> pd.DataFrame:
    """Embed images, predicted and real exemplars of unseen classes in a plane by t-SNE."""
    if n_classes < 2 or n_images < 1:
        raise ValueError(
            f"n_classes must be at least 2 and n_images at least 1; got {n_classes}, {n_images}."
        )

    def compute(method: str, seed: int, of: str) -> dict[str, Any]:
        data, model = runner.data, runner.tune(method, seed).estimator_
        predicted, real = unseen_exemplars(model, data)
        rng = np.random.RandomState(seed)
        unseen, y = data.unseen_classes, data.y_test_unseen
        chosen = np.sort(rng.permutation(len(unseen))[:n_classes])
        rows = [rng.permutation(np.flatnonzero(y == unseen[i]))[:n_images] for i in chosen]
        images = to_numpy(model.class_scorer_.embedding(data.X_test_unseen[np.concatenate(rows)]))
        points = np.concatenate([images, predicted[chosen], real[chosen]])
        names = [str(unseen[i]) for i in chosen]
        labels = [name for name, of_class in zip(names, rows, strict=True) for _ in of_class]
        kinds = ["image"] * len(labels) + ["predicted"] * len(names) + ["real"] * len(names)
        perplexity = min(30.0, (len(points) - 1) / 3)
        place = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit(points)
        xy = np.round(place.embedding_.astype(np.float64), 3).tolist()
        found = [
            [label, kind, *at]
            for label, kind, at in zip([*labels, *names, *names], kinds, xy, strict=True)
        ]
        return {"metrics": {"tsne_divergence": float(place.kl_divergence_)}, "points": found}

    jobs = runner.jobs(compute, [{"of": "points"}], n_classes, n_images)
    rows = [
        {"seed": record["seed"]} | dict(zip(("class", "kind", "x", "y"), point, strict=True))
        for record in runner.records(jobs)
        for point in record["points"]
    ]
    return pd.DataFrame(rows)


def draw_map(ax: Any, frame: pd.DataFrame) -> None:
    """Draw images (dots), predicted (circles) and real exemplars (crosses) for the first seed.

    A line joins the exemplars of a class: the shorter, the better the prediction.
    """
    frame = frame[frame["seed"] == frame["seed"].iloc[0]]
    effects = import_optional("matplotlib.patheffects", "AnalysisDisplay")
    rim = effects.withStroke(linewidth=2.5, foreground="white")
    middle = (frame["x"].min() + frame["x"].max()) / 2
    big = {"zorder": 3, "linewidths": 1.8}
    for i, (label, part) in enumerate(frame.groupby("class", sort=False)):
        color = _CLASS_COLORS[i % len(_CLASS_COLORS)]
        kinds: dict[Any, pd.DataFrame] = dict(list(part.groupby("kind")))
        images, ends = kinds["image"], pd.concat([kinds["predicted"], kinds["real"]])
        ax.scatter(images.x, images.y, s=9, color=color, alpha=0.55, linewidths=0)
        ax.plot(ends.x, ends.y, color=color, linewidth=1)
        predicted, real = kinds["predicted"].iloc[0], kinds["real"].iloc[0]
        hollow = {"facecolor": "white", "edgecolor": color}
        ax.scatter(predicted.x, predicted.y, s=75, marker="o", **hollow, **big)
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
