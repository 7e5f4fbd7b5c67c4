"""Signatures of some classes, and distances between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._messages import name_some
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments._measure import by_class
from zslearn.experiments._records import read_record
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_bars, draw_lines
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)
from zslearn.metrics._plot_confusion import UnseenConfusionDisplay
from zslearn.metrics._plot_distance import ClassDistanceDisplay


def of_classes(signatures: Any, classes: Sequence[Any]) -> Any:
    """Signatures of some classes, of one kind or of several."""
    views = getattr(signatures, "views", None)
    if views is None:
        return signatures.loc[list(classes)]
    kept = {name: view.loc[list(classes)] for name, view in views.items()}
    return type(signatures)(kept, signatures.weights, signatures.gamma_factors)


def class_distances(rows: ArrayLike) -> Floats:
    """Euclidean distances between rows, one per class."""
    found = np.asarray(rows, dtype=np.float64)
    return cdist(found, found)


def signature_distances(
    signatures: Any, classes: Sequence[Any], others: Sequence[Any] | None = None
) -> Floats:
    """Distances between signatures of unit norm."""
    others = classes if others is None else others
    views = getattr(signatures, "views", None)
    if views is None:
        sides = [
            unit_rows(signatures.loc[list(side)].to_numpy(dtype=np.float64))
            for side in (classes, others)
        ]
        return np.asarray(cdist(*sides), dtype=np.float64)
    squares = [
        signatures.weights[name] * signature_distances(view, classes, others) ** 2
        for name, view in views.items()
    ]
    return np.sqrt(np.sum(squares, axis=0))


def nearest_seen(data: ZeroShotDataset) -> pd.DataFrame:
    """Of each unseen class the nearest seen one by signatures, and its distance."""
    unseen, seen = data.unseen_classes.tolist(), data.seen_classes.tolist()
    distances = signature_distances(data.signatures, unseen, seen)
    nearest = distances.argmin(axis=1)
    return pd.DataFrame(
        {
            "distance": distances[np.arange(len(unseen)), nearest],
            "nearest": [seen[i] for i in nearest],
        },
        index=pd.Index(unseen, dtype=object),
    )


# Single unseen classes: what they are taken for, what tells the two apart, and how far they are.
#
# Beside the accuracy of each class stand the class that it is most often taken for and the
# attributes
# in which the two differ most, in units of the attributes' standard deviation over all classes.

METHODS = ("EXEM (1NN)",)


def analyze_per_class(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    n_attributes: int = 3,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Look at each unseen class: its accuracy, its worst confusion, its distance."""
    runner = PieceRunner("per-class", data, out, **options)
    classes = [str(label) for label in data.unseen_classes.tolist()]

    def compute(method: str, seed: int) -> dict[str, Any]:
        model = runner.tune(method, seed).estimator_
        predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
        found = by_class(data.y_test_unseen, predicted, data.unseen_classes)
        accuracy = float(np.mean(list(found["per_class"].values())))
        names = [str(label) for label in predicted.tolist()]
        return {"metrics": {"per_class_accuracy": accuracy}, **found, "predicted": names}

    pieces = [
        Piece(method, seed, partial(compute, method, seed), {"of": "classes"})
        for seed in chosen_seeds(seeds)
        for method in chosen_methods(methods)
    ]
    runner.run(pieces)
    distances = nearest_seen(data)
    distances.index = pd.Index([str(label) for label in distances.index])
    rows: list[dict[str, Any]] = []
    predictions: dict[str, list[str]] = {}
    truth = [str(label) for label in data.y_test_unseen.tolist()]
    for piece in pieces:
        record = read_record(runner.path(piece))
        if "failed" in record:
            continue
        predictions.setdefault(piece.method, record["predicted"])
        answers = pd.crosstab(pd.Series(truth), pd.Series(record["predicted"]))
        for label in classes:
            worst, share = record["confused_with"].get(label, [[None, 0.0]])[0]
            rows.append(
                {
                    "method": piece.method,
                    "seed": piece.seed,
                    "class": label,
                    "accuracy": record["per_class"].get(label, np.nan),
                    "distance": distances.loc[label, "distance"],
                    "nearest": str(distances.loc[label, "nearest"]),
                    "taken_for": worst,
                    "share": share,
                    "differ_in": differing_attributes(data, label, worst, n_attributes),
                    "confusion": _counts(answers, label),
                }
            )
    frame = pd.DataFrame(rows)
    # For pictures with example images: pandas keeps `attrs` beside the table.
    frame.attrs["predictions"] = predictions
    return frame


def _counts(answers: pd.DataFrame, label: str) -> dict[str, int]:
    """How often images of a class got each answer; empty for a class without an image."""
    if label not in answers.index:
        return {}
    counts = answers.loc[label].to_dict()
    return {str(name): int(count) for name, count in counts.items() if count}


def differing_attributes(
    data: ZeroShotDataset, first: str, second: str | None, number: int = 3
) -> str:
    """Name the attributes in which two classes differ most."""
    if second is None or not isinstance(data.signatures, pd.DataFrame):
        return ""
    labels = [str(label) for label in data.signatures.index]
    values = data.signatures.to_numpy(dtype=float)
    spread = values.std(axis=0)
    apart = values[labels.index(first)] - values[labels.index(second)]
    apart = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    order = np.argsort(-np.abs(apart), kind="stable")[:number]
    names = data.signatures.columns
    named = [f"{names[i]} {'+' if apart[i] > 0 else '−'}" for i in order if apart[i]]
    return ", ".join(named)


class PerClassDisplay(AnalysisDisplay):
    """Pictures of single unseen classes, of the first method of the table.

    "distance" has the accuracy of each class against the distance to the nearest seen one,
    "confusion" which classes are taken for which.
    """

    columns = ("method", "seed", "class", "accuracy", "distance", "confusion")
    panels = ("distance", "confusion")
    size = (7.4, 5.8)

    def _draw(self, ax: Any, panel: str) -> None:
        method = str(self.frame["method"].iloc[0])
        first = self.frame[self.frame["method"] == method]
        if panel == "distance":
            mean = first.groupby("class", sort=False)[["accuracy", "distance"]].mean()
            ClassDistanceDisplay(
                distance=mean["distance"].to_numpy(),
                accuracy=mean["accuracy"].to_numpy(),
                classes=mean.index.to_numpy(dtype=str),
                estimator_name=method,
            ).plot(ax=ax)
            return
        of_seed = first[first["seed"] == first["seed"].iloc[0]]
        labels = of_seed["class"].tolist()
        counts = [[row.get(label, 0) for label in labels] for row in of_seed["confusion"]]
        display = UnseenConfusionDisplay(
            counts=np.array(counts), classes=np.array(labels), estimator_name=method
        )
        display.plot(ax=ax)

    def plot_pairs(
        self, data: ZeroShotDataset, *, n_pairs: int = 4, n_examples: int = 5
    ) -> UnseenConfusionDisplay:
        """Draw the confusion with images of the worst pairs, in a figure of its own."""
        method = str(self.frame["method"].iloc[0])
        if data.images is None:
            raise ValueError(f"{data.name} has no images to show.")
        predictions = self.frame.attrs.get("predictions", {})
        if method not in predictions:
            raise ValueError(
                "Examples are drawn from the table as analyze_per_class returned it; this one lost "
                "its predictions."
            )
        return UnseenConfusionDisplay.from_predictions(
            _texts(data.y_test_unseen),
            np.array(predictions[method]),
            classes=_texts(data.unseen_classes),
            images=data.images_test_unseen,
            n_pairs=n_pairs,
            n_examples=n_examples,
            name=method,
            image_kwargs={"cmap": "gray_r"} if np.ndim(data.images) == 3 else None,
        )


def _texts(labels: Any) -> NDArray[Any]:
    return np.array([str(label) for label in np.asarray(labels).tolist()])


# Which unseen classes a method owes its accuracy to, by their distance from the seen ones.
#
# The paper (section 4.5) splits ImageNet's unseen classes into those within two hops of the seen
# ones, at exactly three, and farther. Here the distance is any number per class: hops where
# there is
# a hierarchy, else the distance from a signature to the nearest one of a seen class. Candidates
# are
# always all unseen classes.

METHODS_DISTANCE = ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
#: Groups where there are no hops, the nearest first.
THIRDS = ("near third", "middle third", "far third")


def distance_groups(
    distances: Mapping[Any, float], *, edges: Sequence[float] | None = None
) -> dict[Any, str]:
    """Put classes into groups by their distance."""
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
    methods: str | Sequence[str] = METHODS_DISTANCE,
    seeds: int | Sequence[int] = (0,),
    distances: Mapping[Any, float] | None = None,
    edges: Sequence[float] | None = None,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure methods on groups of unseen classes, by their distance from the seen ones."""
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


# Accuracy against the number of seen classes (section 4.2 of the paper).
#
# Subsets of the seen classes are drawn uniformly at random; a larger one holds every smaller one
# of
# the same seed. The unseen classes stay as they are.

#: Methods where none are named.
METHODS_CLASSES = ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
#: Shares of the seen classes.
SHARES = (0.25, 0.5, 0.75, 1.0)
_FEWEST = 4


def with_fewer_seen(data: ZeroShotDataset, n_seen: int, seed: int) -> ZeroShotDataset:
    """The same data set with some of its seen classes only."""
    split = data.active_split
    seen = np.sort(split.seen_classes)
    if not _FEWEST <= n_seen <= len(seen):
        raise ValueError(
            f"{data.name} has {len(seen)} seen classes; a subset has {_FEWEST} to {len(seen)}, "
            f"not {n_seen}."
        )
    kept = np.random.RandomState(seed).permutation(len(seen))[:n_seen]
    classes = seen[np.sort(kept)]
    train, test_seen = (
        part[np.isin(data.y[part], classes)] for part in (split.train, split.test_seen)
    )
    described = [*classes.tolist(), *split.unseen_classes.tolist()]
    rows = np.concatenate([train, test_seen, split.test_unseen])
    ends = [len(train), len(train) + len(test_seen)]
    places = np.split(np.arange(len(rows)), ends)
    fewer = ClassSplit(
        train=places[0],
        test_seen=places[1],
        test_unseen=places[2],
        seen_classes=classes,
        unseen_classes=split.unseen_classes,
        version=f"{split.version}, {n_seen} seen classes of seed {seed}",
    )
    return ZeroShotDataset(
        X=data.X[rows],
        y=data.y[rows],
        signatures=of_classes(data.signatures, described),
        splits={data.split: fewer},
        split=data.split,
        name=data.name,
        features=data.features,
        images=None if data.images is None else data.images[rows],
        semantic=data.semantic,
    )


def analyze_seen_classes(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS_CLASSES,
    seeds: int | Sequence[int] = (0,),
    shares: Sequence[float] = SHARES,
    retune: bool = False,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure methods that learn from fewer and fewer of the seen classes."""
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares of the seen classes lie in (0, 1]; got {list(shares)}.")
    runner = PieceRunner("seen-classes", data, out, **options)
    n_seen = len(data.seen_classes)
    numbers = sorted({max(_FEWEST, round(share * n_seen)) for share in shares}, reverse=True)

    def compute(method: str, number: int, seed: int) -> dict[str, Any]:
        fewer = with_fewer_seen(data, number, seed)
        if retune:
            model = runner.tune(method, seed, data=fewer).estimator_
        else:
            model = runner.refit(runner.tune(method, seed), fewer)
        return {"metrics": measure_conventional(model, fewer), "retuned": retune}

    return runner.run(
        Piece(method, seed, partial(compute, method, number, seed), {"n_seen": number}, (retune,))
        for seed in chosen_seeds(seeds)
        for number in numbers
        for method in chosen_methods(methods)
    )


class SeenClassesDisplay(AnalysisDisplay):
    """Picture of accuracy against the number of seen classes, a line per method."""

    columns = ("method", "n_seen", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        draw_lines(
            ax,
            frame,
            "n_seen",
            xlabel="number of seen classes",
            ylabel="accuracy per class (%)",
            factor=100,
        )
