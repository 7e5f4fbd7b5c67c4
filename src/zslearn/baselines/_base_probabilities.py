"""Regressions that DAP, IAP and ConSE share; penalties are in units of the features' spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn._solvers._platt import platt_scaling
from zslearn._solvers.logistic._path import LogisticResult, softmax_path
from zslearn._solvers.svm._multiclass import SVMResult, multiclass_svm_path
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy
from zslearn._utils._fit_cache import cached_fit, caches_fits
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._training import Training


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
    """Fit a softmax regression of the seen classes for each penalty."""
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

    if not (keep and caches_fits(rows)):
        return path()
    parts = "softmax_path", rows, training.y, list(alphas), tol, counts
    return _from_arrays(cached_fit(parts, lambda: _as_arrays(path())))


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


# Probabilities of the seen classes, one at a time: support vector machines under sigmoids.
#
# A linear support vector machine for each seen class against the others gives the scores
# :math:`f_{ny} = w_y^\top x_n + b_y` and minimises, with :math:`s_{ny} = 1` for the samples of y
# and
# −1 for all others,
#
# .. math:: \frac{1}{N} \sum_n \max(0, 1 - s_{ny} f_{ny})^2
#           + \frac{\alpha}{2} \left(v \|w_y\|^2 + b_y^2\right)
#
# for features measured from their mean, with v their mean squared distance from it. Platt's
# sigmoid
# makes them probabilities, :math:`p(y | x) = 1 / (1 + e^{-(A_y f_y + B_y)})`. It is fitted to the
# scores of samples that were held out in turn, a part of each class at a time; the machines
# themselves are trained on all.

# Parts of the samples that are held out in turn for the sigmoids.
_FOLDS = 3


class SeenLogOdds(NamedTuple):
    """A linear model of the log-odds of each seen class.

    Parameters
    ----------
    coef : array of shape (n_seen, n_features)
        Coefficients, beside the training rows.
    intercept : array of shape (n_seen,)
        Intercepts.
    """

    coef: Array
    intercept: Array


def sigmoid_path(
    training: Training, alphas: Sequence[float], *, tol: float, random_state: Any
) -> list[SeenLogOdds]:
    """Train one machine per seen class with its sigmoid, for each penalty."""
    xp = compat.array_namespace(training.X)
    mean = xp.mean(training.X, axis=0)
    unit = float(np.sqrt(spread(training.X)))
    centered = (training.X - mean[None, :]) / unit
    rows = xp.concat([centered, xp.ones_like(centered[:, :1])], axis=1)
    fold = _folds(training, check_random_state(random_state))
    sigmoids = _sigmoids(rows, training, fold, alphas, tol)
    models = []
    for result, (slope, offset) in zip(
        _machines(rows, training.y, training.n_seen, alphas, tol), sigmoids, strict=True
    ):
        slope, offset = move_like(slope, result.coef), move_like(offset, result.coef)
        coef = slope[:, None] * result.coef[:, :-1] / unit
        center = coef @ move_like(to_numpy(mean), coef)
        models.append(SeenLogOdds(coef, slope * result.coef[:, -1] + offset - center))
    return models


def _machines(
    rows: Array, y: NDArray[np.intp], n_seen: int, alphas: Sequence[float], tol: float
) -> list[SVMResult]:
    """One machine per class and penalty."""
    # The solver takes the mean over the classes, too.
    shared = [alpha / n_seen for alpha in alphas]
    return multiclass_svm_path(rows, y, alphas=shared, n_classes=n_seen, tol=tol)


def _folds(training: Training, rng: np.random.RandomState) -> NDArray[np.intp]:
    """The part that each sample is held out with; each class is spread over all of them."""
    order = rng.permutation(len(training.y))
    order = order[np.argsort(training.y[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.intp)
    # Neighbours are of one class: counting on from class to class keeps the parts even.
    fold[order] = np.arange(len(order)) % _FOLDS
    return fold


def _sigmoids(
    rows: Array,
    training: Training,
    fold: NDArray[np.intp],
    alphas: Sequence[float],
    tol: float,
) -> list[tuple[Floats, Floats]]:
    """Slopes and offsets of all classes, for each penalty."""
    y, n_seen = training.y, training.n_seen
    own = y[:, None] == np.arange(n_seen)
    known = np.zeros(own.shape, dtype=bool)
    tables = [np.zeros(own.shape, dtype=np.float32) for _ in alphas]
    for part in range(_FOLDS):
        held, rest = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        if not (len(held) and len(rest)):
            continue
        known[held] = np.bincount(y[rest], minlength=n_seen) > 0
        results = _machines(take_rows(rows, rest), y[rest], n_seen, alphas, tol)
        left_out = take_rows(rows, held)
        for table, result in zip(tables, results, strict=True):
            coef = move_like(result.coef, rows)
            table[held] = to_numpy(left_out @ compat.array_namespace(coef).matrix_transpose(coef))
    both = (own & known).any(axis=0) & (~own & known).any(axis=0)
    return [_filled(*platt_scaling(table.astype(np.float64), own, known), both) for table in tables]


def _filled(slope: Floats, offset: Floats, fitted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The sigmoids, with the middle one for classes that have none of their own."""
    if fitted.any():
        slope[~fitted], offset[~fitted] = np.median(slope[fitted]), np.median(offset[fitted])
    return slope, offset
