"""Linear models of features that DAP, IAP and ConSE share; penalties are in units of variance."""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat as compat

from zslearn._scoring._embedding import for_many_passes
from zslearn._solvers._logistic import LogisticResult, softmax_path
from zslearn._utils._array import Array, move_like
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._training import Training


def seen_path(
    training: Training, alphas: Sequence[float], *, tol: float, soften: bool = False
) -> list[LogisticResult]:
    """Fit a softmax regression of the seen classes for each penalty."""
    unit = total_variance(training.rows)
    return softmax_path(
        for_many_passes(training.rows),
        training.y,
        training.n_seen,
        alphas=[unit * a for a in alphas],
        tol=tol,
        pseudo_counts=2.0 if soften else 0.0,
    )


def linear_scores(X: Array, coef: Array, intercept: Array) -> Array:
    """W x + b: log-odds, or of a softmax log-probabilities up to a number for each row."""
    xp = compat.array_namespace(X)
    return X @ xp.matrix_transpose(move_like(coef, X)) + move_like(intercept, X)


def total_variance(X: Array) -> float:
    """Mean squared distance of rows from their mean, the unit of penalties; 1 where all equal."""
    return mean_square_distance(X) or 1.0
