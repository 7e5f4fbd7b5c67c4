"""Calibration of probabilities: a share p of the predictions made with probability p is correct."""

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
    """Confidence and accuracy of predictions, binned by confidence into bins of equal width.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    probabilities : array of shape (n_samples, n_classes)
        Class probabilities; rows sum to 1. The most probable class is the prediction.
    classes : array-like of shape (n_classes,)
        Labels of the columns.
    n_bins : int, default=15
        Number of bins between 0 and 1.

    Returns
    -------
    confidence : ndarray of shape (n_filled,)
        Mean probability of the predicted class in each non-empty bin, ascending.
    accuracy : ndarray of shape (n_filled,)
        Share of correct predictions in each bin.
    counts : ndarray of shape (n_filled,)
        Number of samples in each bin.

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
    proba = np.asarray(to_numpy(probabilities), dtype=np.float64)
    if proba.ndim != 2 or proba.shape[1] != len(columns):
        raise ValueError(
            f"probabilities must have one column per class, {len(columns)}; got shape "
            f"{proba.shape}."
        )
    check_same_length(true, proba, "probabilities")
    # Comparisons with NaN are false, so NaN is refused as well.
    if not ((proba >= 0).all() and (np.abs(proba.sum(axis=1) - 1) < 1e-4).all()):
        raise ValueError(
            "probabilities must be non-negative and their rows must sum to 1. Use predict_proba "
            "instead of scores."
        )
    confidences, correct = np.minimum(proba.max(axis=1), 1.0), proba.argmax(axis=1) == code
    (n_bins,) = check_k(n_bins, "n_bins")
    # Bins are open on the left, so that a probability of 1 falls into the last bin.
    bins = np.clip(np.ceil(confidences * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    _, bins, counts = np.unique(bins, return_inverse=True, return_counts=True)
    confidence = np.bincount(bins, weights=confidences) / counts
    accuracy = np.bincount(bins, weights=correct) / counts
    return confidence, accuracy, counts


def expected_calibration_error(
    y_true: ArrayLike, probabilities: Any, *, classes: ArrayLike, n_bins: int = 15
) -> float:
    r"""Mean absolute difference between the confidence and the accuracy of predictions (ECE).

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \, | \mathrm{acc}_b - \mathrm{conf}_b |

    over the bins of :func:`reliability_curve`. It measures the calibration of probabilities, not
    the quality of predictions: equal probabilities for balanced classes have no error.

    Parameters
    ----------
    y_true, probabilities, classes, n_bins
        See :func:`reliability_curve`.

    Returns
    -------
    float
        Between 0 (perfect calibration) and 1.

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
