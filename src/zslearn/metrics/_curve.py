r"""The seen–unseen accuracy curve and the numbers that are read from it.

Calibrated stacking predicts (Eq. 17)

.. math::

    \hat{y} = \arg\max_{c \in T} f_c(x) - \gamma \, \mathbb{1}[c \in S].

With m_S and m_U, the best scores among the seen and the unseen classes, this is the best seen
class where m_S − m_U > γ and the best unseen class where m_S − m_U ≤ γ: on a tie the unseen class
wins. A sample counts through its margin m_S − m_U and through whether its best seen and its best
unseen class are right. As γ grows, samples cross from seen to unseen in the order of their margins,
and each crossing changes the accuracy of one class.

Accuracies are sums of 1 / (n_classes · n_samples of the class) over correct samples. These weights
are integers in units of 2⁻⁶²: integer sums are exact in any order, and rounding the weights moves
an accuracy by less than n_samples · 2⁻⁶².
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import to_numpy
from zslearn.metrics._accuracy import harmonic_mean
from zslearn.metrics._validation import (
    Missing,
    check_classes,
    check_known,
    check_labels,
    check_missing,
    check_present,
)

# An accuracy of 1, in the units of the weights.
_ONE = 2.0**62


class _Samples(NamedTuple):
    """What the curve needs of each sample."""

    margin: NDArray[np.float64]  # m_S − m_U
    if_seen: NDArray[np.int64]  # added to the seen accuracy when the best seen class is predicted
    if_unseen: NDArray[np.int64]  # added to the unseen accuracy when the best unseen class is


def _check_samples(
    y_true: Any, scores: Any, classes: Any, seen_classes: Any, missing: str
) -> _Samples:
    """Check labels and scores; find the margin of each sample and when it counts as correct."""
    check_missing(missing)
    labels, seen = check_classes(classes), check_classes(seen_classes, "seen_classes")
    is_seen = np.zeros(len(labels), dtype=bool)
    is_seen[check_known(seen, labels, "seen_classes")] = True
    if is_seen.all():
        raise ValueError("seen_classes holds every class: no unseen class is left.")
    true = check_labels(y_true, "y_true")
    table = _check_scores(scores, (len(true), len(labels)))
    code = check_known(true, labels)
    for kind, any_sample in (("a seen", is_seen[code].any()), ("an unseen", ~is_seen[code].all())):
        if not any_sample:
            raise ValueError(
                f"y_true holds no sample of {kind} class: the generalized setting needs samples "
                "of both."
            )

    best, winner = {}, {}
    for side in (True, False):
        columns = np.flatnonzero(is_seen == side)
        place = table[:, columns].argmax(axis=1)
        winner[side] = columns[place]
        best[side] = table[np.arange(len(true)), winner[side]].astype(np.float64)
    with np.errstate(over="ignore"):
        margin = best[True] - best[False]
    if not np.isfinite(margin).all():
        raise ValueError("scores are too large: the difference of two of them overflows.")

    n_samples = np.bincount(code, minlength=len(labels))
    counted = check_present(n_samples, labels, missing) | (missing == "zero")
    n_classes = np.where(is_seen, (counted & is_seen).sum(), (counted & ~is_seen).sum())
    weight = np.rint(_ONE / (n_classes * np.maximum(n_samples, 1))).astype(np.int64)[code]
    if_seen, if_unseen = (np.where(winner[side] == code, weight, 0) for side in (True, False))
    return _Samples(margin, if_seen, if_unseen)


def _check_scores(scores: Any, shape: tuple[int, int]) -> NDArray[Any]:
    table = to_numpy(scores)
    if table.dtype.kind not in "iuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"scores must be numbers, got an array of {table.dtype}.") from None
    if table.shape != shape:
        raise ValueError(
            "scores must have one row for each label of y_true and one column for each of classes: "
            f"expected shape {shape}, got {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite: they hold NaN or infinity.")
    return table


def _as_accuracy(weight: Any) -> NDArray[np.float64]:
    """Accuracies out of sums of weights; the rounded weights can add up to a hair above 1."""
    return np.minimum(weight / _ONE, 1.0)


def seen_unseen_curve(
    y_true: ArrayLike,
    scores: Any,
    *,
    classes: ArrayLike,
    seen_classes: ArrayLike,
    missing: Missing = "error",
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Per-class accuracies on unseen and seen classes as the calibration factor grows.

    The curve starts with every sample assigned to a seen class (γ → −∞) and ends with every sample
    assigned to an unseen one (γ → ∞). At each point after the first, the samples of the next larger
    margin m_S − m_U (best seen score minus best unseen score) cross to the unseen classes. The
    label space is all of `classes`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels: samples of seen and of unseen classes, at least one of each.
    scores : array of shape (n_samples, n_classes)
        Scores, larger is better; NumPy, torch or CuPy. Of several columns with the same score the
        first counts.
    classes : array-like of shape (n_classes,)
        Labels of the columns of `scores`.
    seen_classes : array-like
        The seen ones among `classes`; the others are the unseen ones.
    missing : {"error", "ignore", "zero"}, default="error"
        What to do with a class of `classes` that never occurs in `y_true`: refuse, leave it out of
        the mean, or count its accuracy as 0, which is what the authors' program does.

    Returns
    -------
    acc_unseen : ndarray of shape (n_points,)
        Accuracy on the samples of unseen classes; never decreases, starts at 0.
    acc_seen : ndarray of shape (n_points,)
        Accuracy on the samples of seen classes; never increases, ends at 0.
    bias : ndarray of shape (n_points,)
        The smallest calibration factor γ that gives the point: −inf, then the distinct margins in
        increasing order. Any factor from `bias[i]` up to but not including `bias[i + 1]` gives
        point i, and `generalized_accuracy` at `bias[i]` returns exactly its two accuracies.
        Subtracting `bias[i]` from the seen scores may break a tie otherwise, by rounding.

    References
    ----------
    W.-L. Chao, S. Changpinyo, B. Gong, F. Sha. "An Empirical Study and Analysis of Generalized
    Zero-Shot Learning for Object Recognition in the Wild". ECCV, 2016.

    Examples
    --------
    >>> from zslearn.metrics import seen_unseen_curve
    >>> y_true = ["cat", "cat", "owl", "owl"]
    >>> scores = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]]
    >>> acc_unseen, acc_seen, bias = seen_unseen_curve(
    ...     y_true, scores, classes=["cat", "owl"], seen_classes=["cat"]
    ... )
    >>> acc_unseen
    array([0. , 0.5, 1. , 1. ])
    >>> acc_seen
    array([1. , 1. , 0.5, 0. ])
    >>> bias
    array([-inf,  -4.,   1.,   2.])
    """
    samples = _check_samples(y_true, scores, classes, seen_classes, missing)
    order = np.argsort(samples.margin)
    margin = samples.margin[order]
    # A group of equal margins crosses at once; it ends where the next margin differs.
    ends = np.flatnonzero(np.append(margin[1:] != margin[:-1], True))
    crossed_seen = np.cumsum(samples.if_seen[order])[ends]
    crossed_unseen = np.cumsum(samples.if_unseen[order])[ends]
    acc_seen = _as_accuracy(samples.if_seen.sum() - np.append(0, crossed_seen))
    acc_unseen = _as_accuracy(np.append(0, crossed_unseen))
    return acc_unseen, acc_seen, np.append(-np.inf, margin[ends])


def seen_unseen_summary(
    y_true: ArrayLike,
    scores: Any,
    *,
    classes: ArrayLike,
    seen_classes: ArrayLike,
    missing: Missing = "error",
) -> tuple[float, float, float]:
    """The area under the curve and the best harmonic mean on it, at the cost of one of them.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        As of :func:`seen_unseen_curve`.

    Returns
    -------
    area : float
        See :func:`ausuc`.
    mean, bias : float
        See :func:`best_harmonic_mean`; on test data they are a diagnostic only.
    """
    acc_unseen, acc_seen, bias = seen_unseen_curve(
        y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
    )
    # The first point has an unseen accuracy of 0, and no finite factor.
    means = np.asarray(harmonic_mean(acc_seen[1:], acc_unseen[1:]))
    best = int(np.argmax(means))
    return area_under(acc_unseen, acc_seen), float(means[best]), float(bias[1 + best])


def area_under(acc_unseen: NDArray[np.float64], acc_seen: NDArray[np.float64]) -> float:
    """Area under a seen–unseen accuracy curve by the trapezoid rule."""
    return float(np.trapezoid(acc_seen, acc_unseen))


def ausuc(
    y_true: ArrayLike,
    scores: Any,
    *,
    classes: ArrayLike,
    seen_classes: ArrayLike,
    missing: Missing = "error",
) -> float:
    r"""Area under the seen–unseen accuracy curve (AUSUC).

    .. math::

        \int A_{S \to T} \; \mathrm{d} A_{U \to T}

    over the curve of :func:`seen_unseen_curve`, by the trapezoid rule. It does not depend on a
    choice of the calibration factor.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        As of :func:`seen_unseen_curve`.

    Returns
    -------
    area : float
        Between 0 and 1.

    Examples
    --------
    >>> from zslearn.metrics import ausuc
    >>> y_true = ["cat", "cat", "owl", "owl"]
    >>> scores = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]]
    >>> ausuc(y_true, scores, classes=["cat", "owl"], seen_classes=["cat"])
    0.875
    """
    return seen_unseen_summary(
        y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
    )[0]


def best_harmonic_mean(
    y_true: ArrayLike,
    scores: Any,
    *,
    classes: ArrayLike,
    seen_classes: ArrayLike,
    missing: Missing = "error",
) -> tuple[float, float]:
    """Largest harmonic mean on the seen–unseen accuracy curve, and the factor that gives it.

    On test data this is a diagnostic only: it chooses the calibration factor with the test labels.
    To report a harmonic mean, choose the factor on validation data (where this function is of use)
    and pass it to :func:`generalized_accuracy`.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        As of :func:`seen_unseen_curve`.

    Returns
    -------
    mean : float
        The largest harmonic mean; 0 where none is positive (the authors' program gives NaN where
        every accuracy is 0).
    bias : float
        The smallest factor that gives it, always finite: where no harmonic mean is positive, the
        smallest margin.

    References
    ----------
    Y. Xian, B. Schiele, Z. Akata. "Zero-Shot Learning: The Good, the Bad and the Ugly". CVPR, 2017.

    Examples
    --------
    >>> from zslearn.metrics import best_harmonic_mean
    >>> y_true = ["cat", "cat", "owl", "owl"]
    >>> scores = [[3.0, 1.0], [1.0, 0.0], [2.0, 0.0], [0.0, 4.0]]
    >>> mean, bias = best_harmonic_mean(
    ...     y_true, scores, classes=["cat", "owl"], seen_classes=["cat"]
    ... )
    >>> round(mean, 4), bias
    (0.6667, -4.0)
    """
    return seen_unseen_summary(
        y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
    )[1:]


def generalized_accuracy(
    y_true: ArrayLike,
    scores: Any,
    *,
    classes: ArrayLike,
    seen_classes: ArrayLike,
    bias: float = 0.0,
    missing: Missing = "error",
) -> tuple[float, float]:
    """Per-class accuracies on seen and on unseen classes at one calibration factor.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        As of :func:`seen_unseen_curve`.
    bias : float, default=0.0
        The calibration factor γ, subtracted from the seen classes' scores. An unseen class is
        predicted where m_S − m_U ≤ γ, that is also on a tie; 0 is no calibration.

    Returns
    -------
    acc_seen, acc_unseen : float
        Accuracies on the samples of seen and of unseen classes.

    Examples
    --------
    >>> from zslearn.metrics import generalized_accuracy
    >>> y_true = ["cat", "cat", "owl", "owl"]
    >>> scores = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]]
    >>> generalized_accuracy(y_true, scores, classes=["cat", "owl"], seen_classes=["cat"])
    (1.0, 0.5)
    >>> generalized_accuracy(
    ...     y_true, scores, classes=["cat", "owl"], seen_classes=["cat"], bias=1.0
    ... )
    (0.5, 1.0)
    """
    try:
        factor = float(bias)
    except (TypeError, ValueError):
        raise ValueError(f"bias must be a number, got {bias!r}.") from None
    if np.isnan(factor):
        raise ValueError("bias must be a number, got NaN.")
    samples = _check_samples(y_true, scores, classes, seen_classes, missing)
    to_unseen = samples.margin <= factor
    return (
        float(_as_accuracy(samples.if_seen[~to_unseen].sum())),
        float(_as_accuracy(samples.if_unseen[to_unseen].sum())),
    )
