"""How honest probabilities are: of predictions made with probability p, a share p is right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy
from zslearn.metrics._validation import (
    check_classes,
    check_k,
    check_known,
    check_labels,
    check_same_length,
)


def reliability_curve(
    y_true: ArrayLike, probabilities: Any, *, classes: ArrayLike, n_bins: int = 15
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Confidence and accuracy of predictions, in bins of equal width by confidence.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    probabilities : array of shape (n_samples, n_classes)
        Rows sum to 1. The class with the largest probability is the predicted one.
    classes : array-like of shape (n_classes,)
        Labels of the columns.
    n_bins : int, default=15
        Number of bins between 0 and 1.

    Returns
    -------
    confidence : ndarray of shape (n_filled,)
        Mean probability of the predicted class in each bin that holds a sample, ascending.
    accuracy : ndarray of shape (n_filled,)
        Share of these predictions that are right.
    counts : ndarray of shape (n_filled,)
        Number of samples in the bin.

    Examples
    --------
    >>> from zslearn.metrics import reliability_curve
    >>> probabilities = [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]
    >>> confidence, accuracy, counts = reliability_curve(
    ...     ["ant", "bee", "bee", "bee"], probabilities, classes=["ant", "bee"], n_bins=2
    ... )
    >>> confidence, accuracy, counts
    (array([0.75]), array([0.75]), array([4]))
    """
    true, columns = check_labels(y_true, "y_true"), check_classes(classes)
    code = check_known(true, columns)
    chances = np.asarray(to_numpy(probabilities), dtype=np.float64)
    if chances.ndim != 2 or chances.shape[1] != len(columns):
        raise ValueError(
            f"probabilities must have one column per class, {len(columns)}; got shape "
            f"{chances.shape}."
        )
    check_same_length(true, chances, "probabilities")
    # Not written as "far from 1", which NaN is not.
    if not ((chances >= 0).all() and (np.abs(chances.sum(axis=1) - 1) < 1e-4).all()):
        raise ValueError(
            "probabilities must not be negative, and their rows must sum to 1. Scores become "
            "probabilities by predict_proba."
        )
    confidences, right = np.minimum(chances.max(axis=1), 1.0), chances.argmax(axis=1) == code
    (n_bins,) = check_k(n_bins)
    # Bins are open on the left, so that a probability of 1 is in the last.
    bins = np.clip(np.ceil(confidences * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    counts = counts[filled]
    confidence = np.bincount(bins, weights=confidences, minlength=n_bins)[filled] / counts
    accuracy = np.bincount(bins, weights=right, minlength=n_bins)[filled] / counts
    return confidence, accuracy, counts


def expected_calibration_error(
    y_true: ArrayLike, probabilities: Any, *, classes: ArrayLike, n_bins: int = 15
) -> float:
    r"""How far the confidence of predictions is from their accuracy.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \, | \mathrm{acc}_b - \mathrm{conf}_b |

    over the bins of :func:`reliability_curve`. It measures whether probabilities are honest, not
    whether predictions are good: equal probabilities for balanced classes have no error.

    Parameters
    ----------
    y_true, probabilities, classes, n_bins
        As of :func:`reliability_curve`.

    Returns
    -------
    float
        Between 0 and 1; 0 is best.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger. "On Calibration of Modern Neural Networks". ICML,
    2017.

    Examples
    --------
    >>> from zslearn.metrics import expected_calibration_error
    >>> probabilities = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]]
    >>> round(expected_calibration_error(
    ...     ["ant", "ant", "bee", "ant"], probabilities, classes=["ant", "bee"]
    ... ), 6)
    0.2
    """
    curve = reliability_curve(y_true, probabilities, classes=classes, n_bins=n_bins)
    return calibration_error(*curve)


def calibration_error(confidence: Floats, accuracy: Floats, counts: NDArray[np.intp]) -> float:
    """The expected calibration error of a reliability curve."""
    return float(np.average(np.abs(accuracy - confidence), weights=counts))
