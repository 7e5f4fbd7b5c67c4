"""Probabilities of the seen classes by multinomial logistic regression, for IAP and ConSE."""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers import LogisticResult, softmax_path
from zslearn.utils import Array, move_like

# Rows that are widened to float64 at a time.
_BLOCK = 4096
# A distance that is a smaller share of the mean's length is rounding error.
_NOISE = 1e-12
# Beyond this, squares of features times a small penalty overflow, or vanish below its inverse.
_LARGEST = 1e100


def seen_path(
    X: Array,
    y: NDArray[np.intp],
    n_classes: int,
    alphas: Sequence[float],
    *,
    soften: bool,
    tol: float,
) -> list[LogisticResult]:
    """Fit a softmax regression of the seen classes for each penalty.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features.
    y : ndarray of shape (n_samples,)
        Classes 0 … n_classes − 1.
    n_classes : int
        Number of seen classes.
    alphas : sequence of float
        Penalties in units of the features' spread.
    soften : bool
        Whether a class of n samples counts as if two more were spread evenly over all C classes:
        its samples' targets are (n + 2/C)/(n + 2) and (2/C)/(n + 2), for C = 2 those of Platt.
    tol : float
        Relative gap to reach.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.
    """
    targets: NDArray[np.generic] = y
    if soften:
        counts = np.bincount(y, minlength=n_classes)[y][:, None]
        targets = (counts * np.eye(n_classes)[y] + 2 / n_classes) / (counts + 2)
    unit = spread(X)
    return softmax_path(X, targets, n_classes, alphas=[unit * a for a in alphas], tol=tol)


def seen_scores(X: Array, coef: Array, intercept: Array) -> Array:
    """Log-probabilities of the seen classes, up to a number for each row."""
    xp = compat.array_namespace(X)
    return X @ xp.matrix_transpose(move_like(coef, X)) + move_like(intercept, X)


def spread(X: Array) -> float:
    """Mean squared distance of the rows from their mean: what penalties are measured in.

    One where all rows are equal but for rounding.
    """
    xp = compat.array_namespace(X)
    mean = xp.sum(X, axis=0, dtype=xp.float64) / X.shape[0]
    largest = max(abs(float(xp.max(X))), abs(float(xp.min(X))))
    if largest > 0 and not 1 / _LARGEST < largest < _LARGEST:
        raise ValueError(
            f"The largest feature is {largest:.0e}: its square cannot be computed with. "
            'Rescale X, or use feature_norm="l2".'
        )
    total = 0.0
    for start in range(0, X.shape[0], _BLOCK):
        block = xp.astype(X[start : min(start + _BLOCK, X.shape[0]), :], xp.float64) - mean
        total += float(xp.sum(block * block))
    noise = _NOISE**2 * float(xp.sum(mean * mean))
    return total / X.shape[0] if total > noise * X.shape[0] else 1.0
