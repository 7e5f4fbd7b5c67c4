"""Seen and unseen classes: fewer of the seen ones, near and far unseen ones, and ideal signatures.

`seen-classes` (section 4.2 of the paper) learns from random subsets of the seen classes; a larger
one holds every smaller one of the same seed. `distance` (section 4.5) measures groups of unseen
classes by their distance from the seen ones: hops where there is a hierarchy, as the paper has them
for ImageNet, else the distance from a signature to the nearest one of a seen class; candidates are
always all unseen classes. It also reads records that have accuracies by class. `per-class` has what
each unseen class is taken for, and the attributes in which the two differ most, in standard
deviations over all classes. `ideal` (section 4.5) takes the mean of its image features for the
signature of a class: of an unseen class from a random half of its images, while the other half
tests, so that no test image describes its own class. This is an upper bound, not zero-shot
learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._messages import name_some
from zslearn.datasets import ClassSplit, ZeroShotDataset
from zslearn.experiments._evaluate import by_class, conventional_metrics
from zslearn.experiments._runs import draw_unseen
from zslearn.experiments.analyses._jobs import Job, JobRunner, numbers_frame, write_variant
from zslearn.experiments.analyses._records import kind_order, of_one_protocol
from zslearn.metrics import ClassDistanceDisplay, UnseenConfusionDisplay
from zslearn.synthesis import ideal_signatures

#: Groups of classes where there are no hops, the nearest first.
THIRDS = ("near third", "middle third", "far third")
_FEWEST = 4


def of_classes(signatures: Any, classes: Sequence[Any]) -> Any:
    """Signatures of some classes, of one kind or of several."""
    views = getattr(signatures, "views", None)
    if views is None:
        return signatures.loc[list(classes)]
    kept = {name: view.loc[list(classes)] for name, view in views.items()}
    return type(signatures)(kept, signatures.weights, signatures.gamma_factors)


def signature_rows(signatures: Any, classes: Sequence[Any]) -> Floats:
    """Signatures of unit norm; of several kinds side by side, squares by their weights."""
    views = getattr(signatures, "views", None)
    if views is None:
        return unit_rows(signatures.loc[list(classes)].to_numpy(dtype=np.float64))
    parts = [
        np.sqrt(signatures.weights[name]) * signature_rows(view, classes)
        for name, view in views.items()
    ]
    return np.hstack(parts)


def nearest_seen(data: ZeroShotDataset) -> pd.DataFrame:
    """Of each unseen class the nearest seen one by signatures, and its distance."""
    unseen, seen = data.unseen_classes.tolist(), data.seen_classes.tolist()
    distances = cdist(
        signature_rows(data.signatures, unseen), signature_rows(data.signatures, seen)
    )
    nearest = distances.argmin(axis=1)
    return pd.DataFrame(
        {"distance": distances.min(axis=1), "nearest": [seen[i] for i in nearest]},
        index=pd.Index(unseen, dtype=object),
    )


def _predicted(runner: JobRunner, method: str, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
    """Predictions of a tuned method for the unseen test images, and accuracies by class."""
    data = runner.data
    model = runner.tune(method, seed).estimator_
    predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
    return predicted, by_class(data.y_test_unseen, predicted, data.unseen_classes)


# Single unseen classes.


def analyze_single_classes(runner: JobRunner, *, n_attributes: int = 3) -> pd.DataFrame:
    """Look at each unseen class: its accuracy, its worst confusion, its distance."""
    data = runner.data
    truth = pd.Series([str(label) for label in data.y_test_unseen.tolist()])

    def compute(method: str, seed: int, of: str) -> dict[str, Any]:
        predicted, found = _predicted(runner, method, seed)
        accuracy = float(np.mean(list(found["per_class"].values())))
        names = [str(label) for label in predicted.tolist()]
        return {"metrics": {"per_class_accuracy": accuracy}, **found, "predicted": names}

    distances = nearest_seen(data)
    rows: list[dict[str, Any]] = []
    predictions: dict[str, list[str]] = {}
    for record in runner.records(runner.jobs(compute, [{"of": "classes"}])):
        predictions.setdefault(record["method"], record["predicted"])
        answers = pd.crosstab(truth, pd.Series(record["predicted"]))
        for class_, (distance, nearest) in distances.iterrows():
            label = str(class_)
            worst, share = record["confused_with"].get(label, [[None, 0.0]])[0]
            # A class without a test image has no answers.
            counts = answers.loc[label].to_dict() if label in answers.index else {}
            rows.append(
                {
                    "method": record["method"],
                    "seed": record["seed"],
                    "class": label,
                    "accuracy": record["per_class"].get(label, np.nan),
                    "distance": distance,
                    "nearest": str(nearest),
                    "taken_for": worst,
                    "share": share,
                    "differ_in": differing_attributes(data, label, worst, n_attributes),
                    "confusion": {str(name): int(n) for name, n in counts.items() if n},
                }
            )
    frame = pd.DataFrame(rows)
    # For pictures with example images: pandas keeps `attrs` beside the table.
    frame.attrs["predictions"] = predictions
    return frame


def differing_attributes(
    data: ZeroShotDataset, first: str, second: str | None, number: int = 3
) -> str:
    """Name the attributes in which two classes differ most."""
    if second is None or not isinstance(data.signatures, pd.DataFrame):
        return ""
    labels = [str(label) for label in data.signatures.index]
    values = data.signatures.to_numpy(dtype=float)
    deviation = values.std(axis=0)
    apart = values[labels.index(first)] - values[labels.index(second)]
    apart = np.divide(apart, deviation, out=np.zeros_like(apart), where=deviation > 0)
    order = np.argsort(-np.abs(apart), kind="stable")[:number]
    names = data.signatures.columns
    return ", ".join(f"{names[i]} {'+' if apart[i] > 0 else '−'}" for i in order if apart[i])


def draw_class_distances(ax: Any, frame: pd.DataFrame) -> None:
    """Accuracy of each class of the first method against the distance to the nearest seen one."""
    method = str(frame["method"].iloc[0])
    first = frame[frame["method"] == method]
    mean = first.groupby("class", sort=False)[["accuracy", "distance"]].mean()
    ClassDistanceDisplay(
        distance=mean["distance"].to_numpy(),
        accuracy=mean["accuracy"].to_numpy(),
        classes=mean.index.to_numpy(dtype=str),
        estimator_name=method,
    ).plot(ax=ax)


def draw_confusion(ax: Any, frame: pd.DataFrame) -> None:
    """Which classes are taken for which, by the first method with its first seed."""
    method = str(frame["method"].iloc[0])
    first = frame[(frame["method"] == method) & (frame["seed"] == frame["seed"].iloc[0])]
    labels = first["class"].tolist()
    counts = [[row.get(label, 0) for label in labels] for row in first["confusion"]]
    UnseenConfusionDisplay(
        counts=np.array(counts), classes=np.array(labels), estimator_name=method
    ).plot(ax=ax)


# Groups of unseen classes by their distance from the seen ones.


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


def measure_groups(
    runner: JobRunner,
    *,
    distances: Mapping[Any, float] | None = None,
    edges: Sequence[float] | None = None,
) -> pd.DataFrame:
    """Measure methods on groups of unseen classes, by their distance from the seen ones."""
    groups = _nearest_first(runner.data, distances, edges)

    def compute(method: str, seed: int, group: str) -> dict[str, Any]:
        return _measure_group(_predicted(runner, method, seed)[1]["per_class"], groups, group)

    settings = [{"group": name} for name in dict.fromkeys(groups.values())]
    return runner.run(runner.jobs(compute, settings, tuple(groups.items())))


def read_groups(
    runner: JobRunner,
    *,
    distances: Mapping[Any, float] | None = None,
    edges: Sequence[float] | None = None,
) -> pd.DataFrame:
    """The same from records with accuracies by class; those of ImageNet say how far classes are."""
    parts: list[dict[str, Any]] = []
    records = of_one_protocol(runner.read(("zsl",)))
    for record in sorted(records, key=lambda r: (r["method"], kind_order(r.get("semantic", "")))):
        if "per_class" not in record or "analysis" in record:
            continue
        if runner.data is not None:
            groups = _nearest_first(runner.data, distances, edges)
        elif "groups" in record:
            groups = {label: name for name, found in record["groups"].items() for label in found}
            groups |= {label: "rest" for label in record["per_class"] if label not in groups}
        else:
            raise ValueError(
                f"The records of {record['dataset']} do not say how far classes are from the seen "
                "ones: name the data set, too."
            )
        for group in dict.fromkeys(groups.values()):
            measured = _measure_group(record["per_class"], groups, group)
            parts.append({**record, **measured, "variant": write_variant({"group": group})})
    if not parts:
        raise ValueError(f"No record in {runner.runs} has accuracies by class (per_class).")
    return numbers_frame(parts)


def _nearest_first(
    data: ZeroShotDataset, distances: Mapping[Any, float] | None, edges: Sequence[float] | None
) -> dict[str, str]:
    """Group of each unseen class, the nearest class first."""
    found = nearest_seen(data)["distance"].to_dict() if distances is None else distances
    unseen = data.unseen_classes.tolist()
    absent = [label for label in unseen if label not in found]
    if absent:
        raise ValueError(f"These unseen classes have no distance: {name_some(absent)}.")
    groups = distance_groups({label: found[label] for label in unseen}, edges=edges)
    return {str(c): groups[c] for c in sorted(unseen, key=lambda label: float(found[label]))}


def _measure_group(
    per_class: Mapping[str, float], groups: Mapping[str, str], group: str
) -> dict[str, Any]:
    """Mean accuracy of the classes of a group, and their part in that of all."""
    kept = [value for label, value in per_class.items() if groups.get(label) == group]
    if not kept:
        raise ValueError(f"No class of the group {group!r} has a test image.")
    accuracy, share = float(np.mean(kept)), len(kept) / len(per_class)
    metrics = {"per_class_accuracy": accuracy, "contribution": share * accuracy}
    return {"metrics": metrics, "n_classes": len(kept)}


# Fewer seen classes.


def with_fewer_seen(data: ZeroShotDataset, n_seen: int, seed: int) -> ZeroShotDataset:
    """The same data set with some of its seen classes only."""
    split = data.active_split
    seen = np.sort(split.seen_classes)
    if not _FEWEST <= n_seen <= len(seen):
        raise ValueError(
            f"{data.name} has {len(seen)} seen classes; a subset has {_FEWEST} to {len(seen)}, "
            f"not {n_seen}."
        )
    classes = seen[np.sort(np.random.RandomState(seed).permutation(len(seen))[:n_seen])]
    parts = [rows[np.isin(data.y[rows], classes)] for rows in (split.train, split.test_seen)]
    rows = np.concatenate([*parts, split.test_unseen])
    train, test_seen, test_unseen = np.split(np.arange(len(rows)), np.cumsum(list(map(len, parts))))
    fewer = ClassSplit(
        train,
        test_seen,
        test_unseen,
        classes,
        split.unseen_classes,
        f"{split.version}, {n_seen} seen classes of seed {seed}",
    )
    described = [*classes.tolist(), *split.unseen_classes.tolist()]
    return replace(
        data,
        X=data.X[rows],
        y=data.y[rows],
        signatures=of_classes(data.signatures, described),
        splits={data.split: fewer},
        images=None if data.images is None else data.images[rows],
    )


def vary_seen_classes(
    runner: JobRunner, *, shares: Sequence[float] = (0.25, 0.5, 0.75, 1.0), retune: bool = False
) -> pd.DataFrame:
    """Measure methods that learn from fewer and fewer of the seen classes."""
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares of the seen classes lie in (0, 1]; got {list(shares)}.")
    n_all = len(runner.data.seen_classes)

    def compute(method: str, seed: int, n_seen: int) -> dict[str, Any]:
        fewer = with_fewer_seen(runner.data, n_seen, seed)
        if retune:
            model = runner.tune(method, seed, data=fewer).estimator_
        else:
            model = runner.refit(runner.tune(method, seed), fewer)
        return {"metrics": conventional_metrics(model, fewer), "retuned": retune}

    numbers = sorted({max(_FEWEST, round(share * n_all)) for share in shares}, reverse=True)
    settings = [{"n_seen": number} for number in numbers]
    return runner.run(runner.jobs(compute, settings, retune))


# Ideal signatures.


def with_ideal_half(data: ZeroShotDataset, seed: int) -> tuple[ZeroShotDataset, pd.DataFrame]:
    """Halve the test images of unseen classes: one half describes, the other one tests."""
    describing, halved = draw_unseen(data, 0.5, seed)
    rows = np.concatenate([data.active_split.train, describing])
    described = [*data.seen_classes.tolist(), *data.unseen_classes.tolist()]
    return halved, ideal_signatures(data.X[rows], data.y[rows]).loc[described]


def compare_ideal(runner: JobRunner) -> pd.DataFrame:
    """Compare the signatures of a data set with ideal ones, on the same half of the test images."""
    own = runner.data.semantic or "attributes"

    def compute(method: str, seed: int, kind: str) -> dict[str, Any]:
        halved, ideal = with_ideal_half(runner.data, seed)
        if kind == "ideal":
            index = getattr(halved.signatures, "index", ideal.index)
            halved = halved.with_signatures(ideal.loc[list(index)])
        model = runner.tune(method, seed, data=halved).estimator_
        return {"metrics": conventional_metrics(model, halved)}

    return runner.run(
        Job(method, seed, partial(compute, method, seed, kind), {"test": "half"}, (), kind)
        for seed in runner.seeds
        for kind in (own, "ideal")
        for method in runner.methods
    )
