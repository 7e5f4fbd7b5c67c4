"""Classifiers that learn from features alone, whether these are real or generated.

All are linear: a row of coefficients and an intercept per class. So a class is one vector, samples
meet it by the inner product with (x, 1), and scoring, candidates and calibration work as for any
other method.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn._solvers.logistic import softmax_path
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn.base._class_statistics import class_means, mean_square_distance


def with_intercept(X: Array) -> Array:
    """Rows with a 1 behind them."""
    xp = compat.array_namespace(X)
    return xp.concat([X, xp.ones_like(X[:, :1])], axis=1)


def softmax_rows(
    X: Array, y: NDArray[np.intp], n_classes: int, *, alpha: float, tol: float, balanced: bool
) -> Array:
    """Softmax regression; see :func:`zslearn.solvers.softmax_path`."""
    unit = mean_square_distance(X) or 1.0
    weights = (1.0 / np.bincount(y))[y] if balanced else None
    (result,) = softmax_path(X, y, n_classes, alphas=[alpha * unit], tol=tol, sample_weight=weights)
    return _joined(result.coef, result.intercept)


def mean_rows(X: Array, y: NDArray[np.intp], n_classes: int) -> Array:
    """Nearest class mean, as a linear classifier: −½‖x − m‖² = mᵀx − ½‖m‖² − ½‖x‖²."""
    means = class_means(X, y, n_classes)
    xp = compat.array_namespace(means)
    return _joined(means, -0.5 * xp.sum(means * means, axis=1))


def linear_rows(estimator: Any, X: Array, y: NDArray[np.intp], n_classes: int) -> Floats:
    """Coefficients of a linear classifier in scikit-learn's manners."""
    fitted = clone(estimator).fit(to_numpy(X), y)
    if not hasattr(fitted, "coef_"):
        raise TypeError(
            f"estimator={type(estimator).__name__}(…) has no coef_ after fit. Take a linear "
            "classifier, such as LogisticRegression, or a zero-shot method."
        )
    coef = np.atleast_2d(np.asarray(fitted.coef_, dtype=np.float64))
    intercept = np.ravel(np.asarray(getattr(fitted, "intercept_", 0.0), dtype=np.float64))
    if n_classes == 2 and len(coef) == 1:
        # scikit-learn has one row for two classes, positive for the second.
        coef, intercept = np.concatenate([-coef, coef]), np.concatenate([-intercept, intercept])
    if len(coef) != n_classes:
        raise TypeError(
            f"estimator={type(estimator).__name__}(…) has {len(coef)} rows of coefficients for "
            f"{n_classes} classes. Take one that has a row per class."
        )
    return _joined(coef, np.broadcast_to(intercept, (n_classes,)))


def _joined(coef: Array, intercept: Array) -> Array:
    """Coefficients with the intercepts behind them."""
    xp = compat.array_namespace(coef)
    return xp.concat([coef, move_like(intercept, coef)[:, None]], axis=1)
