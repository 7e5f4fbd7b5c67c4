"""Regressions that DAP, IAP and ConSE share; penalties are in units of the features' spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._version import __version__
from zslearn.base import Training
from zslearn.solvers import LogisticResult, mean_square_distance, softmax_path
from zslearn.utils import Array, keeps_fits, kept_fit, move_like


def seen_path(
    training: Training,
    alphas: Sequence[float],
    *,
    tol: float,
    soften: bool = False,
    keep: bool = False,
    spectrum: tuple[Array, Array] | None = None,
    turned: Array | None = None,
    guides: Sequence[LogisticResult] | None = None,
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
    keep : bool, default=False
        Whether the path is one that other searches need, too, for
        :func:`~zslearn.utils.keeping_fits`. Signatures play no part in it.
    spectrum, turned, guides : optional
        See :func:`~zslearn.solvers.softmax_path`.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.
    """
    rows, counts = training.X_or_rows, 2.0 if soften else 0.0

    def path() -> list[LogisticResult]:
        unit = spread(training.rows)
        return softmax_path(
            rows,
            training.y,
            training.n_seen,
            alphas=[unit * a for a in alphas],
            tol=tol,
            pseudo_counts=counts,
            spectrum=spectrum,
            turned=turned,
            guides=guides,
        )

    if not (keep and keeps_fits(rows)):
        return path()
    parts = "softmax_path", __version__, rows, training.y, list(alphas), tol, counts
    return _from_arrays(kept_fit(parts, lambda: _as_arrays(path())))


_FIELDS = tuple(field.name for field in fields(LogisticResult))


def _as_arrays(results: list[LogisticResult]) -> dict[str, NDArray[Any]]:
    """Results as arrays, one of each field."""
    return {
        name: np.stack([np.asarray(getattr(result, name)) for result in results])
        for name in _FIELDS
    }


def _from_arrays(arrays: dict[str, NDArray[Any]]) -> list[LogisticResult]:
    """The results again; what was a number is one."""
    columns = [list(arrays[name]) for name in _FIELDS]
    return [
        LogisticResult(*(value.item() if value.ndim == 0 else value for value in values))
        for values in zip(*columns, strict=True)
    ]


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
