"""Regressions that DAP, IAP and ConSE share; penalties are in units of the features' spread."""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat as compat

from zslearn.base import Training
from zslearn.solvers import LogisticResult, mean_square_distance, softmax_path
from zslearn.utils import Array, move_like


def seen_path(
    training: Training, alphas: Sequence[float], *, tol: float, soften: bool = False
) -> list[LogisticResult]:
    """Fit a softmax regression of the seen classes for each penalty.

    Parameters
    ----------
    training : Training
        Samples of the seen classes.
    alphas : sequence of float
        Penalties in units of the features' spread.
    tol : float
        Relative gap to reach.
    soften : bool, default=False
        Whether a class of n samples counts as if two more were spread evenly over all C classes:
        its samples' targets are (n + 2/C)/(n + 2) and (2/C)/(n + 2), for C = 2 those of Platt.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.
    """
    unit = spread(training.rows)
    return softmax_path(
        training.X_or_rows,
        training.y,
        training.n_seen,
        alphas=[unit * a for a in alphas],
        tol=tol,
        pseudo_counts=2.0 if soften else 0.0,
    )


def linear_scores(X: Array, coef: Array, intercept: Array) -> Array:
    """Scores W x + b, in the namespace and on the device of `X`.

    Of a softmax regression they are the log-probabilities of the classes, up to a number for each
    row; of binary regressions the log-odds.
    """
    xp = compat.array_namespace(X)
    return X @ xp.matrix_transpose(move_like(coef, X)) + move_like(intercept, X)


def spread(X: Array) -> float:
    """Mean squared distance of the rows from their mean: what penalties are measured in.

    One where all rows are equal but for rounding.
    """
    return mean_square_distance(X) or 1.0
