r"""Linear multi-class classifiers without intercept, each solution with a duality gap.

Two losses of the scores :math:`x_n^\top w_c`, with a penalty on the classifiers:

- "squared_hinge", one class against the others,
  :math:`\frac{1}{NC} \sum_{n,c} \max(0, 1 - s_{nc}\, x_n^\top w_c)^2 + \frac{\alpha}{2} \|W\|^2`;
- "crammer_singer",
  :math:`\frac{1}{N} \sum_n \max_c (\Delta_{y_n c} + x_n^\top w_c - x_n^\top w_{y_n})
  + \frac{\alpha}{2} \|W\|^2`, with margins 1 or any others.

With a mixing matrix M the classifiers are :math:`W = M U` and the penalty is on U.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from zslearn._solvers.svm._crammer_singer import crammer_singer
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._solvers.svm._squared_hinge import squared_hinge
from zslearn._utils._array import Array, Floats, to_numpy
from zslearn._utils._messages import warn_user

RandomState = int | np.random.RandomState | None
SVMLoss = Literal["squared_hinge", "crammer_singer"]
#: Names of the losses in SynC and in graph methods.
LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}


@dataclass(frozen=True)
class SVMResult:
    """A trained linear classifier and the certificate of its optimality.

    Attributes
    ----------
    coef : array of shape (n_classes, n_features)
        The classifiers W, in float64, on the device of the training rows.
    base : array of shape (n_base, n_features)
        The penalised coefficients U; W itself without mixing.
    alpha : float
        Weight of the penalty.
    objective : float
        Value of the objective.
    dual_gap : float
        Upper bound of the difference between the objective and its minimum.
    n_iter : int
        Newton steps for the squared hinge, passes over the rows for Crammer–Singer.
    converged : bool
        Whether the relative gap is within the tolerance or a rounding error.
    dual : ndarray of shape (n_samples, n_classes) or None
        Dual points of the Crammer–Singer loss: each row is non-negative and sums to one.
    gain : float
        Lower bound of the difference between the objective at zero coefficients and the minimum.
    """

    coef: Array = field(repr=False)
    base: Array = field(repr=False)
    alpha: float
    objective: float
    dual_gap: float
    n_iter: int
    converged: bool
    dual: Floats | None = field(default=None, repr=False)
    gain: float = math.inf

    @property
    def relative_gap(self) -> float:
        """The duality gap relative to the objective, or to the gain if that is smaller."""
        least = min(self.objective, self.gain)
        return self.dual_gap / least if least > 0 else math.inf if self.dual_gap > 0 else 0.0

    def warn_of_gap(self, tol: float, max_iter: int) -> None:
        """Warn if the required gap is not reached."""
        if not self.converged:
            warn_user(
                f"The duality gap is {self.relative_gap:.1e} of the objective, or of the gain of "
                f"training, after {self.n_iter} iterations at alpha={self.alpha:.3g}, above "
                f"tol={tol:.1e}. Increase max_iter={max_iter}, alpha or tol.",
                ConvergenceWarning,
            )


def multiclass_svm(
    X: Any,
    y: Any,
    *,
    alpha: float,
    n_classes: int | None = None,
    sample_weight: Any = None,
    loss: SVMLoss = "squared_hinge",
    margins: Any = None,
    mixing: Any = None,
    tol: float = 1e-6,
    max_iter: int = 4000,
    warm_start: SVMResult | None = None,
    random_state: RandomState = None,
) -> SVMResult:
    """Train linear classifiers for several classes, without intercept.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows, float32 or float64. With the squared hinge, arrays of torch and CuPy stay on their
        device; Crammer–Singer copies them to the host.
    y : array-like of int of shape (n_samples,)
        Class of each row, from 0 to n_classes − 1.
    alpha : float
        Weight of the penalty ½‖W‖².
    n_classes : int, optional
        By default the largest label plus one, or the rows of `mixing` or `margins`.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights of the rows; N is their sum.
    loss : {"squared_hinge", "crammer_singer"}, default="squared_hinge"
        See the notes.
    margins : array-like of shape (n_classes, n_classes), optional
        For Crammer–Singer: required difference between the scores of the true class (first index)
        and of another one (second index). Non-negative, with a diagonal of zeros. By default 1.
    mixing : array-like of shape (n_classes, n_base), optional
        Matrix M of the classifiers W = M U; the penalty is then ½‖U‖².
    tol : float, default=1e-6
        Required duality gap, relative to the objective and to the gain of training: the objective
        at zero coefficients minus the minimum.
    max_iter : int, default=4000
        Maximum number of Newton steps or passes over the rows.
    warm_start : SVMResult, optional
        Solution for the same rows to start from, with another `alpha` or other margins.
    random_state : int, RandomState instance or None, default=None
        Determines the order in which Crammer–Singer visits the rows, on which the solution depends
        only within the gap.

    Returns
    -------
    SVMResult
        Coefficients, objective and duality gap.

    Warns
    -----
    ConvergenceWarning
        When the gap is not within `tol` after `max_iter`.

    Notes
    -----
    The squared hinge is Σ max(0, 1 − s·xw)² / NC with s = 1 for the true class and −1 for others;
    Crammer–Singer is Σ max_c (Δ + xw_c − xw_y) / N. Duplicating every row changes neither.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import multiclass_svm
    >>> X = np.array([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
    >>> result = multiclass_svm(X, [0, 0, 1], alpha=0.1)
    >>> (X @ result.coef.T).argmax(axis=1)
    array([0, 0, 1])
    >>> result.dual_gap <= 1e-6 * result.objective
    True
    """
    rows = TrainingRows(X, y, _n_classes(n_classes, mixing, margins), sample_weight=sample_weight)
    options: dict[str, Any] = {"loss": loss, "margins": margins, "mixing": mixing}
    options |= {"tol": tol, "max_iter": max_iter, "random_state": random_state}
    return train_multiclass_svm(rows, alpha=alpha, warm_start=warm_start, **options)


def multiclass_svm_path(
    X: Any,
    y: Any,
    *,
    alphas: Sequence[float],
    n_classes: int | None = None,
    sample_weight: Any = None,
    random_state: RandomState = None,
    **options: Any,
) -> list[SVMResult]:
    """Train linear classifiers for several weights of the penalty, the largest first.

    Each solution starts from the previous one, and all share the preparation of the rows.

    Parameters
    ----------
    X, y : array of shape (n_samples, n_features), and array-like of int of shape (n_samples,)
        Rows and their classes.
    alphas : sequence of float
        Weights of the penalty, in any order.
    n_classes, sample_weight, random_state : optional
        See :func:`multiclass_svm`.
    **options : dict
        `loss`, `margins`, `mixing`, `tol` and `max_iter` of :func:`multiclass_svm`, for each value.

    Returns
    -------
    list of SVMResult
        In the order of `alphas`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import multiclass_svm_path
    >>> X = np.array([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]])
    >>> path = multiclass_svm_path(X, [0, 0, 1], alphas=[0.01, 0.1, 1.0], loss="crammer_singer")
    >>> [round(result.objective, 3) for result in path]
    [0.008, 0.081, 0.579]
    """
    n_classes = _n_classes(n_classes, options.get("mixing"), options.get("margins"))
    rows = TrainingRows(X, y, n_classes, sample_weight=sample_weight)
    options["random_state"] = check_random_state(random_state)
    results: dict[int, SVMResult] = {}
    last: SVMResult | None = None
    for position in np.argsort(np.asarray(alphas, dtype=float), kind="stable")[::-1].tolist():
        last = train_multiclass_svm(rows, alpha=alphas[position], warm_start=last, **options)
        results[position] = last
    return [results[position] for position in range(len(alphas))]


def _n_classes(given: int | None, *tables: Any) -> int | None:
    """The given number of classes, or that of a table."""
    sizes = [given, *(len(table) for table in tables if table is not None)]
    return next((size for size in sizes if size is not None), None)


def train_multiclass_svm(
    rows: TrainingRows,
    *,
    alpha: float,
    loss: SVMLoss = "squared_hinge",
    margins: Any = None,
    mixing: Any = None,
    tol: float = 1e-6,
    max_iter: int = 4000,
    warm_start: SVMResult | None = None,
    random_state: RandomState = None,
) -> SVMResult:
    """Train as :func:`multiclass_svm` does, on prepared rows."""
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be a positive number; got {alpha!r}.")
    if loss not in get_args(SVMLoss):
        raise ValueError(f"loss={loss!r} is not one of {get_args(SVMLoss)}.")
    if mixing is not None:
        mixing = np.asarray(to_numpy(mixing), dtype=np.float64)
        if mixing.ndim != 2 or mixing.shape[0] != rows.n_classes:
            raise ValueError(
                f"mixing must have one row per class, {rows.n_classes}; got shape {mixing.shape}."
            )
    device_mixing = None if mixing is None else rows.asarray(mixing)
    options: dict[str, Any] = {"alpha": alpha, "tol": tol, "max_iter": max_iter}
    if loss == "squared_hinge":
        start = None if warm_start is None else rows.rotated(warm_start.base)
        found = squared_hinge(rows, mixing=device_mixing, start=start, **options)
    else:
        found = crammer_singer(
            rows,
            margins=checked_margins(margins, rows.n_classes),
            mixing=mixing,
            start=None if warm_start is None else warm_start.dual,
            rng=check_random_state(random_state),
            **options,
        )
    base = rows.full(rows.asarray(found.base))
    coef = base if device_mixing is None else device_mixing @ base
    result = SVMResult(coef=coef, alpha=float(alpha), **found._replace(base=base)._asdict())
    result.warn_of_gap(tol, max_iter)
    return result


def loss_and_slope(
    scores: Floats,
    y: NDArray[np.intp],
    loss: SVMLoss,
    margins: Any = None,
    *,
    sample_weight: Floats | None = None,
    dual: Floats | None = None,
) -> tuple[float, Floats]:
    """The loss and its slope in the scores; `dual` selects a subgradient of Crammer–Singer."""
    every, n_classes = np.arange(len(y)), scores.shape[1]
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    shares = (weights / weights.sum())[:, None]
    if loss == "squared_hinge":
        # −s·max(0, 1 − s·score)
        slope = np.maximum(1 + scores, 0)
        slope[every, y] = -np.maximum(1 - scores[every, y], 0)
        weight = shares / n_classes
        return float(np.sum(weight * slope**2)), 2 * weight * slope
    violations = scores + checked_margins(margins, n_classes)[y] - scores[every, y][:, None]
    worst = violations.argmax(axis=1)
    value = float(np.sum(shares[:, 0] * violations[every, worst]))
    if dual is not None:
        slope = np.array(dual, dtype=np.float64)
    else:
        slope = np.zeros_like(scores)
        slope[every, worst] = 1.0
    slope[every, y] -= 1.0
    return value, shares * slope


def checked_margins(margins: Any, n_classes: int) -> Floats:
    """Validate margins, by default 1."""
    if margins is None:
        return 1.0 - np.eye(n_classes)
    margins = np.asarray(to_numpy(margins), dtype=np.float64)
    if margins.shape != (n_classes, n_classes):
        raise ValueError(
            f"margins must be {n_classes} × {n_classes}, true class by class; "
            f"got shape {margins.shape}."
        )
    if not np.isfinite(margins).all() or margins.min() < 0 or np.diagonal(margins).any():
        raise ValueError("margins must be finite and non-negative, with a diagonal of zeros.")
    return margins
