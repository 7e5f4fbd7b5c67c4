r"""The seen–unseen accuracy curve and its summary statistics.

Calibrated stacking predicts (Eq. 17)

.. math::

    \hat{y} = \arg\max_{c \in T} f_c(x) - \gamma \, \mathbb{1}[c \in S].

Let m_S and m_U be the best scores among the seen and the unseen classes. The prediction is the best
seen class if m_S − m_U > γ and the best unseen class otherwise, so that the unseen class wins ties.
As γ grows, samples cross from seen to unseen classes in the order of their margins m_S − m_U, and
each crossing changes the accuracy of one class.

Accuracies are sums of 1 / (n_classes · n_samples of the class) over correct samples. These weights
are stored as integers in units of 2⁻⁶²: integer sums are exact in any order, and rounding the
weights changes an accuracy by less than n_samples · 2⁻⁶².
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
    """The margin of each sample, and its weight on either side of the curve."""

    margin: NDArray[np.float64]  # m_S − m_U
    seen_weight: NDArray[np.int64]  # 0 unless the best seen class is the true one
    unseen_weight: NDArray[np.int64]  # 0 unless the best unseen class is the true one


def _check_samples(
    y_true: Any, scores: Any, classes: Any, seen_classes: Any, missing: str
) -> _Samples:
    """Validate labels and scores; compute margins and weights of the samples."""
    check_missing(missing)
    labels, seen = check_classes(classes), check_classes(seen_classes, "seen_classes")
    is_seen = np.zeros(len(labels), dtype=bool)
    is_seen[check_known(seen, labels, "seen_classes")] = True
    if is_seen.all():
        raise ValueError("seen_classes contains every class: at least one must be unseen.")
    true = check_labels(y_true, "y_true")
    table = _check_scores(scores, (len(true), len(labels)))
    code = check_known(true, labels)
    for kind, any_sample in (("seen", is_seen[code].any()), ("unseen", ~is_seen[code].all())):
        if not any_sample:
            raise ValueError(
                f"y_true has no samples of {kind} classes: the generalized setting needs samples "
                "of both seen and unseen classes."
            )

    best_class, best_score = {}, {}
    for side in (True, False):
        columns = np.flatnonzero(is_seen == side)
        best_class[side] = columns[table[:, columns].argmax(axis=1)]
        best_score[side] = table[np.arange(len(true)), best_class[side]].astype(np.float64)
    with np.errstate(over="ignore"):
        margin = best_score[True] - best_score[False]
    if not np.isfinite(margin).all():
        raise ValueError("scores are too large: the difference of two scores overflows.")

    n_samples = np.bincount(code, minlength=len(labels))
    counted = check_present(n_samples, labels, missing) | (missing == "zero")
    n_classes = np.where(is_seen, (counted & is_seen).sum(), (counted & ~is_seen).sum())
    weight = np.rint(_ONE / (n_classes * np.maximum(n_samples, 1))).astype(np.int64)[code]
    seen, unseen = (np.where(best_class[side] == code, weight, 0) for side in (True, False))
    return _Samples(margin, seen, unseen)


def _check_scores(scores: Any, shape: tuple[int, int]) -> NDArray[Any]:
    table = to_numpy(scores)
    if table.dtype.kind not in "iuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"scores must be numbers, got an array of {table.dtype}.") from None
    if table.shape != shape:
        raise ValueError(
            "scores must have one row per label of y_true and one column per class: "
            f"expected shape {shape}, got {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite: they contain NaN or infinity.")
    return table


_TIE = 1e-12


def _as_accuracy(weight: Any) -> NDArray[np.float64]:
    """Convert sums of weights, which can exceed 1 by rounding, to accuracies."""
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
    assigned to an unseen one (γ → ∞). At each further point, the samples with the next larger
    margin (best seen score minus best unseen score) cross to the unseen classes.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, with at least one sample of a seen and one of an unseen class.
    scores : array of shape (n_samples, n_classes)
        Scores (larger is better) from NumPy, torch or CuPy. The first of equal scores wins.
    classes : array-like of shape (n_classes,)
        Labels of the columns of `scores`; together they are the label space.
    seen_classes : array-like
        The seen classes; all other classes are unseen.
    missing : {"error", "ignore", "zero"}, default="error"
        How to treat a class without samples in `y_true`: raise an error, exclude it from the mean,
        or count its accuracy as 0, as the authors' program does.

    Returns
    -------
    acc_unseen : ndarray of shape (n_points,)
        Accuracy on the samples of unseen classes; non-decreasing, starts at 0.
    acc_seen : ndarray of shape (n_points,)
        Accuracy on the samples of seen classes; non-increasing, ends at 0.
    bias : ndarray of shape (n_points,)
        The smallest calibration factor γ of each point: −inf, then the distinct margins in
        increasing order. Any factor from `bias[i]` up to but excluding `bias[i + 1]` gives point i,
        and `generalized_accuracy` at `bias[i]` returns exactly its two accuracies. Subtracting
        `bias[i]` from the seen scores may break ties differently, because of rounding.

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
    # Samples with equal margins cross together.
    ends = np.flatnonzero(np.append(margin[1:] != margin[:-1], True))
    crossed_seen = np.cumsum(samples.seen_weight[order])[ends]
    crossed_unseen = np.cumsum(samples.unseen_weight[order])[ends]
    acc_seen = _as_accuracy(samples.seen_weight.sum() - np.append(0, crossed_seen))
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
    """The area under the curve, the best harmonic mean on it, and the factor of the latter."""
    acc_unseen, acc_seen, bias = seen_unseen_curve(
        y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
    )
    # The first point has an unseen accuracy of 0 and no finite factor.
    means = np.asarray(harmonic_mean(acc_seen[1:], acc_unseen[1:]))
    # Equal means of different accuracies may differ by rounding.
    best = int(np.argmax(means > means.max() - _TIE))
    return float(np.trapezoid(acc_seen, acc_unseen)), float(means.max()), float(bias[1 + best])


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

    over the curve of :func:`seen_unseen_curve`, by the trapezoid rule. It needs no choice of a
    calibration factor.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        See :func:`seen_unseen_curve`.

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
    """Largest harmonic mean on the seen–unseen accuracy curve, and its calibration factor.

    On test data this is only a diagnostic, because the test labels choose the calibration factor.
    To report a harmonic mean, use this function to choose the factor on validation data, and pass
    the factor to :func:`generalized_accuracy`.

    Parameters
    ----------
    y_true, scores, classes, seen_classes, missing
        See :func:`seen_unseen_curve`.

    Returns
    -------
    mean : float
        The largest harmonic mean; 0 if every accuracy is 0, where the authors' program returns NaN.
    bias : float
        The smallest finite factor that attains it.

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
        See :func:`seen_unseen_curve`.
    bias : float, default=0.0
        Calibration factor γ, subtracted from the scores of seen classes. An unseen class is
        predicted if m_S − m_U ≤ γ, including ties; 0 means no calibration.

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
        float(_as_accuracy(samples.seen_weight[~to_unseen].sum())),
        float(_as_accuracy(samples.unseen_weight[to_unseen].sum())),
    )
