r"""What the seen–unseen accuracy curve needs of each sample: its margin and its weight.

Accuracies are sums of 1 / (n_classes · n_samples of the class) over correct samples. These weights
are kept as integers, in units of 2⁻⁶²: integer sums are exact, hence the same in any order, and
what has been added comes off again without a remainder. Rounding the weights moves an accuracy by
less than n_samples · 2⁻⁶², below 1e-12 for four million samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.metrics._validation import (
    check_classes,
    check_known,
    check_labels,
    check_missing,
    check_present,
)
from zslearn.utils import to_numpy

_ONE = 2.0**62  # an accuracy of 1, in the units of the weights


class Samples(NamedTuple):
    """What the curve needs of each sample."""

    margin: NDArray[np.float64]  # m_S − m_U
    if_seen: NDArray[np.int64]  # added to the seen accuracy when the best seen class is predicted
    if_unseen: NDArray[np.int64]  # added to the unseen accuracy when the best unseen class is


def as_accuracy(weight: Any) -> NDArray[np.float64]:
    """Accuracies out of sums of weights; the rounded weights can add up to a hair above 1."""
    return np.minimum(weight / _ONE, 1.0)


def check_samples(
    y_true: Any, scores: Any, classes: Any, seen_classes: Any, missing: str
) -> Samples:
    """Check labels and scores; say of each sample when it counts as correct."""
    check_missing(missing)
    labels = check_classes(classes)
    is_seen = _check_seen(seen_classes, labels)
    true = check_labels(y_true, "y_true")
    table = _check_scores(scores, len(true), len(labels))

    code = check_known(true, labels)
    of_seen = is_seen[code]
    for kind, any_sample in (("a seen", of_seen.any()), ("an unseen", not of_seen.all())):
        if not any_sample:
            raise ValueError(
                f"y_true holds no sample of {kind} class: the generalized setting needs samples "
                "of both."
            )

    best_seen, seen_code = _best(table, np.flatnonzero(is_seen))
    best_unseen, unseen_code = _best(table, np.flatnonzero(~is_seen))
    with np.errstate(over="ignore"):
        margin = best_seen - best_unseen
    if not np.isfinite(margin).all():
        raise ValueError("scores are too large: the difference of two of them overflows.")
    weight = _weights(code, labels, is_seen, missing)[code]
    return Samples(
        margin=margin,
        if_seen=np.where(seen_code == code, weight, 0),
        if_unseen=np.where(unseen_code == code, weight, 0),
    )


def _check_seen(seen_classes: Any, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of the classes are seen."""
    seen = check_classes(seen_classes, "seen_classes")
    is_seen = np.zeros(len(classes), dtype=bool)
    is_seen[check_known(seen, classes, "seen_classes")] = True
    if is_seen.all():
        raise ValueError("seen_classes holds every class: no unseen class is left.")
    return is_seen


def _check_scores(scores: Any, n_samples: int, n_classes: int) -> NDArray[Any]:
    table = to_numpy(scores)
    if table.dtype.kind not in "iuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"scores must be numbers, got an array of {table.dtype}.") from None
    if table.ndim != 2:
        raise ValueError(
            f"scores must have 2 dimensions (samples, classes), got shape {table.shape}."
        )
    if table.shape != (n_samples, n_classes):
        raise ValueError(
            "scores must have one row for each label of y_true and one column for each of classes: "
            f"expected shape {(n_samples, n_classes)}, got {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite: they hold NaN or infinity.")
    return table


def _best(
    table: NDArray[Any], columns: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Best score of each row among some columns, and its column."""
    part = table[:, columns]
    winner = part.argmax(axis=1)
    best = np.take_along_axis(part, winner[:, None], axis=1)[:, 0]
    return best.astype(np.float64), columns[winner]


def _weights(
    code: NDArray[np.intp], classes: NDArray[Any], is_seen: NDArray[np.bool_], missing: str
) -> NDArray[np.int64]:
    """Weight of a correct sample of each class in the accuracy of its side, seen or unseen."""
    n_samples = np.bincount(code, minlength=len(classes))
    present = check_present(n_samples, classes, missing)
    counted = present | (missing == "zero")
    n_classes = np.where(is_seen, (counted & is_seen).sum(), (counted & ~is_seen).sum())
    return np.rint(_ONE / (n_classes * np.maximum(n_samples, 1))).astype(np.int64)
