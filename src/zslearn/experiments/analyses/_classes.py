"""Analyses of classes: fewer seen classes, groups of unseen classes, and ideal signatures.

`seen-classes` (Section 4.2 of the paper) trains on random subsets of the seen classes, nested for
each seed. `distance` (Section 4.5) measures groups of unseen classes by their distance from the
seen ones: by hops for ImageNet, as in the paper, otherwise by the distance of a signature from the
nearest seen one. All unseen classes remain candidates, and records with accuracies of classes can
be read. `ideal` (Section 4.5) uses the mean image features of a class as its signature: those of
an unseen class come from a random half of its images, and the other half is tested. This is an
upper bound, not zero-shot learning.
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

from zslearn._utils._array import Floats, unit_rows
from zslearn.datasets import ClassSplit, ZeroShotDataset
from zslearn.experiments._evaluate import by_class, conventional_metrics
from zslearn.experiments._runs import draw_unseen
from zslearn.experiments.analyses._jobs import Job, JobRunner, numbers_frame, write_variant
from zslearn.experiments.analyses._records import kind_order, of_one_protocol
from zslearn.synthesis import ideal_signatures

#: Groups of classes without a hierarchy, nearest first.
THIRDS = ("near third", "middle third", "far third")
_FEWEST = 4


def of_classes(signatures: Any, classes: Sequence[Any]) -> Any:
    """Signatures of some classes."""
    views = getattr(signatures, "views", None)
    if views is None:
        return signatures.loc[list(classes)]
    kept = {name: view.loc[list(classes)] for name, view in views.items()}
    return type(signatures)(kept, signatures.weights, signatures.gamma_factors)


def signature_rows(signatures: Any, classes: Sequence[Any]) -> Floats:
    """Signatures of unit length; several kinds are concatenated, with weighted squares."""
    views = getattr(signatures, "views", None)
    if views is None:
        return unit_rows(signatures.loc[list(classes)].to_numpy(dtype=np.float64))
    parts = [
        np.sqrt(signatures.weights[name]) * signature_rows(view, classes)
        for name, view in views.items()
    ]
    return np.hstack(parts)


# Groups of unseen classes by their distance from the seen ones.


def thirds_by_distance(data: ZeroShotDataset) -> dict[str, str]:
    """Third of each unseen class by the distance of its signature from the nearest seen one.

    Classes at the same distance share a rank, and therefore a third.
    """
    unseen, seen = data.unseen_classes.tolist(), data.seen_classes.tolist()
    distances = cdist(
        signature_rows(data.signatures, unseen), signature_rows(data.signatures, seen)
    ).min(axis=1)
    ranks = rankdata(distances.round(9))
    order = np.argsort(distances, kind="stable")
    return {str(unseen[i]): THIRDS[int(3 * (ranks[i] - 0.5) / len(unseen))] for i in order}


def measure_groups(runner: JobRunner) -> pd.DataFrame:
    """Measure methods on groups of unseen classes by their distance from the seen ones."""
    groups = thirds_by_distance(runner.data)

    def compute(method: str, seed: int, group: str) -> dict[str, Any]:
        data, model = runner.data, runner.tune(method, seed).estimator_
        predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
        found = by_class(data.y_test_unseen, predicted, data.unseen_classes)
        return _measure_group(found["per_class"], groups, group)

    settings = [{"group": name} for name in dict.fromkeys(groups.values())]
    return runner.run(runner.jobs(compute, settings, tuple(groups.items())))


def read_groups(runner: JobRunner) -> pd.DataFrame:
    """Read the same from records with accuracies of classes; ImageNet's contain the groups."""
    parts: list[dict[str, Any]] = []
    records = of_one_protocol(runner.read(("zsl",)))
    for record in sorted(records, key=lambda r: (r["method"], kind_order(r.get("semantic", "")))):
        if "per_class" not in record or "analysis" in record:
            continue
        if runner.data is not None:
            groups = thirds_by_distance(runner.data)
        elif "groups" in record:
            groups = {label: name for name, found in record["groups"].items() for label in found}
            groups |= {label: "rest" for label in record["per_class"] if label not in groups}
        else:
            raise ValueError(
                f"The records of {record['dataset']} do not contain groups of classes by distance; "
                "pass the data set as well."
            )
        for group in dict.fromkeys(groups.values()):
            measured = _measure_group(record["per_class"], groups, group)
            parts.append({**record, **measured, "variant": write_variant({"group": group})})
    if not parts:
        raise ValueError(f"The records in {runner.runs} have no accuracies of single classes.")
    return numbers_frame(parts)


def _measure_group(
    per_class: Mapping[str, float], groups: Mapping[str, str], group: str
) -> dict[str, Any]:
    """Mean accuracy of a group of classes, and its contribution to that of all classes."""
    kept = [value for label, value in per_class.items() if groups.get(label) == group]
    if not kept:
        raise ValueError(f"No class of the group {group!r} has a test image.")
    accuracy, share = float(np.mean(kept)), len(kept) / len(per_class)
    metrics = {"per_class_accuracy": accuracy, "contribution": share * accuracy}
    return {"metrics": metrics, "n_classes": len(kept)}


# Fewer seen classes.


def with_fewer_seen(data: ZeroShotDataset, n_seen: int, seed: int) -> ZeroShotDataset:
    """Restrict a data set to a random subset of its seen classes.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    n_seen : int
        Number of seen classes to keep, at least 4.
    seed : int
        Random state; the subsets of a seed are nested.

    Returns
    -------
    ZeroShotDataset
        The data set with one split, which has all unseen classes.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.experiments.analyses import with_fewer_seen
    >>> len(with_fewer_seen(make_zero_shot(random_state=0), 5, seed=0).seen_classes)
    5
    """
    split = data.active_split
    seen = np.sort(split.seen_classes)
    if not _FEWEST <= n_seen <= len(seen):
        raise ValueError(
            f"n_seen must be between {_FEWEST} and {len(seen)}, the number of seen classes of "
            f"{data.name}; got {n_seen}."
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
    """Measure methods that are trained on fewer and fewer seen classes."""
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares must lie in (0, 1]; got {list(shares)}.")
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
    """Use half of the test images of unseen classes for ideal signatures, and the rest to test."""
    describing, halved = draw_unseen(data, 0.5, seed)
    rows = np.concatenate([data.active_split.train, describing])
    described = [*data.seen_classes.tolist(), *data.unseen_classes.tolist()]
    return halved, ideal_signatures(data.X[rows], data.y[rows]).loc[described]


def compare_ideal(runner: JobRunner) -> pd.DataFrame:
    """Compare the signatures of a data set with ideal ones, on half of the test images."""
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
