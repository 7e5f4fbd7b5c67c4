r"""Penalised logistic regression, binary and multinomial, with certificates of optimality.

With weights :math:`\kappa_n` of the samples that sum to one, scores
:math:`f_{nm} = w_m^\top x_n + b_m`, and intercepts without penalty:

- :func:`logistic_path`: M problems that share X, with targets :math:`t_{nm} \in [0, 1]`,
  :math:`\sum_n \kappa_n (\log(1 + e^{f_{nm}}) - t_{nm} f_{nm}) + \frac{\alpha}{2} \|w_m\|^2`;
- :func:`softmax_path`: one problem of C classes,
  :math:`\sum_n \kappa_n (\log \sum_c e^{f_{nc}} - \sum_c t_{nc} f_{nc})
  + \frac{\alpha}{2} \|W\|_F^2`.

Newton's method solves both. Loss, gradient and products with the Hessian are sums over blocks of
rows, so that no table of all rows by all classes is needed. Directions come from conjugate
gradients, preconditioned by the covariance of the rows; line searches shorten steps that do not
lower the objective enough.

Problems that look solved get the best intercepts for their coefficients, which minimises
:math:`F(W) = \min_b f(W, b)`. F is :math:`\alpha`-strongly convex, so that
:math:`F - \min F \le \|\nabla F\|^2 / 2\alpha`. This gap is the certificate. It is always computed
from the rows in double precision; with many rows, steps use single precision. `_stopping` defines
how small it must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from zslearn._solvers._linalg import nonzero
from zslearn._solvers._stopping import StoppingRule
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, Floats, block_budget, row_blocks, take_rows, to_numpy
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._validation import checked_weights

# Number of tables of a block of rows by all columns that exist at a time.
_TABLES = 6
# Weight of the scatter between classes in the preconditioner of a softmax. Its curvature comes from
# rows between close classes, and is that of the scatter within classes.
_BETWEEN = 0.1
# Conjugate gradients end when the residual, in the preconditioned norm, is reduced by this factor,
# when its own gap is this fraction of the required one, or after this many products.
_FORCING = 0.2
_LAST = 0.4
_MAX_PRODUCTS = 100
# Curvature of the loss that is zero in single precision, relative to the largest.
_SINGLE_NOISE = 1e-7
# Minimum improvement by a change of the intercepts, in units of `tol` and the objective.
_MIN_IMPROVEMENT = 1e-8
_MAX_INTERCEPT_STEPS = 20
# A line search ends when the slope is this fraction of the first one, or after this many lengths.
_FLAT_ENOUGH = 0.5
_MAX_LENGTHS = 20
# Consecutive steps without progress, after which rounding is taken to prevent it.
_MAX_STALLED_STEPS = 3


@dataclass(frozen=True)
class LogisticResult:
    """A logistic regression and the certificate of its optimality.

    Attributes
    ----------
    coef : array of shape (n_problems or n_classes, n_features)
        Coefficients in float64, on the device of the training rows.
    intercept : array of shape (n_problems or n_classes,)
        Intercepts; those of the multinomial model sum to zero.
    alpha : float
        Weight of the penalty.
    objective : ndarray of shape (n_problems,)
        Value of the objective of each problem; the multinomial model is one problem.
    gap : ndarray of shape (n_problems,)
        Upper bound of the difference between the objective and its minimum.
    n_iter : int
        Number of Newton steps.
    converged : bool
        Whether every gap is within `tol` or a rounding error.
    gain : ndarray of shape (n_problems,)
        Lower bound of the difference between the objective at zero coefficients and the minimum.
    """

    coef: Array = field(repr=False)
    intercept: Array = field(repr=False)
    alpha: float
    objective: Floats = field(repr=False)
    gap: Floats = field(repr=False)
    n_iter: int
    converged: bool
    gain: Floats = field(repr=False)


def logistic_path(
    X: Any,
    Y: Any,
    *,
    alphas: Sequence[float],
    tol: float = 1e-6,
    max_iter: int = 100,
    codes: Any = None,
) -> list[LogisticResult]:
    """Fit binary logistic regressions that share their rows, for several penalties.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows, float32 or float64; arrays of torch and CuPy stay on their device.
    Y : array-like of shape (n_samples, n_problems)
        Targets: 0 or 1, or probabilities between them. Each column needs both outcomes.
    alphas : sequence of float
        Weights of the penalty ½‖w‖², in any order; the largest is solved first, and each solution
        starts from the previous one.
    tol : float, default=1e-6
        Required gap, relative to the objective of each problem and to the gain of training: the
        objective at zero coefficients, with the best intercept, minus the minimum.
    max_iter : int, default=100
        Maximum number of Newton steps for each penalty.
    codes : array-like of int of shape (n_samples,), optional
        The row of Y with the targets of each sample, if samples share targets; by default row n of
        Y belongs to sample n.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.

    Warns
    -----
    ConvergenceWarning
        When a gap is not within `tol` after `max_iter`.

    See Also
    --------
    softmax_path : One problem of several classes.

    Notes
    -----
    scikit-learn's `LogisticRegression(C=C)` has the same minimum at α = 1 / (C · n_samples).

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import logistic_path
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> (result,) = logistic_path(X, [[0], [0], [1], [1]], alphas=[0.1])
    >>> float((-result.intercept / result.coef[:, 0])[0].round(6))
    1.5
    """
    X = X if compat.is_array_api_obj(X) else np.asarray(X)
    n_samples = X.shape[0] if len(X.shape) else 0
    rows = TrainingRows(X, np.zeros(n_samples, dtype=np.intp), 2)  # its labels are not used
    table, places = _checked_targets(Y, n_samples, codes)
    weights = np.full((n_samples, 1), 1 / n_samples)
    mass = _target_mass(table, places, weights), _target_mass(1 - table, places, weights)
    constant = np.flatnonzero((mass[0] <= 0) | (mass[1] <= 0))
    if constant.size:
        raise ValueError(
            f"Column {name_some(constant.tolist())} of Y has one outcome only: its intercept has "
            "no minimum. Remove constant columns."
        )
    centred = _CentredRows(rows, table.shape[1])
    loss = _Loss(centred, table, places, weights, separate=True)
    return _Newton(loss, tol, max_iter).path(alphas)


def softmax_path(
    X: Any,
    y: Any,
    n_classes: int | None = None,
    *,
    alphas: Sequence[float],
    tol: float = 1e-6,
    max_iter: int = 100,
    sample_weight: Any = None,
    pseudo_counts: float = 0.0,
) -> list[LogisticResult]:
    """Fit multinomial logistic regressions for several penalties.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows, float32 or float64; arrays of torch and CuPy stay on their device.
    y : array-like of int of shape (n_samples,)
        Class of each row, from 0 to n_classes − 1; every class needs a row.
    n_classes : int, optional
        By default the largest label plus one.
    alphas, tol, max_iter : sequence of float, float and int
        See :func:`logistic_path`; the penalty is ½‖W‖².
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the samples.
    pseudo_counts : float, default=0.0
        Number m of additional samples per class, spread evenly over all C classes, that soften the
        labels: the targets in a class of n samples are (n + m/C)/(n + m) and (m/C)/(n + m).

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.

    Warns
    -----
    ConvergenceWarning
        When the gap is not within `tol` after `max_iter`.

    See Also
    --------
    logistic_path : Many binary problems.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import softmax_path
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> strong, weak = softmax_path(X, [0, 0, 1, 1], alphas=[1.0, 0.01])
    >>> bool(abs(weak.coef).max() > abs(strong.coef).max())
    True
    """
    rows = TrainingRows(X, y, n_classes)
    counts = np.bincount(rows.y, minlength=rows.n_classes)
    own = counts[:, None] * np.eye(len(counts)) + pseudo_counts / len(counts)
    table = own / np.maximum(counts + pseudo_counts, 1)[:, None]
    shares = checked_weights(1.0 if sample_weight is None else sample_weight, rows.y.shape)[:, None]
    weights = shares / shares.sum()
    # Softened labels give every class some mass, whether it has rows or not.
    missing = (counts == 0) | (_target_mass(table, rows.y, weights) == 0)
    if missing.any():
        raise ValueError(
            f"No row of y belongs to class {name_some(np.flatnonzero(missing).tolist())}: "
            "its intercept has no minimum. Number only the classes that have rows."
        )
    centred = _CentredRows(rows, rows.n_classes)
    loss = _Loss(centred, table, rows.y, weights, separate=False)
    return _Newton(loss, tol, max_iter).path(alphas)


def _checked_targets(Y: Any, n_samples: int, codes: Any) -> tuple[Floats, NDArray[np.intp]]:
    """Validate targets, and the row of them of each sample."""
    targets = np.asarray(to_numpy(Y), dtype=np.float64)
    places = np.arange(n_samples) if codes is None else np.asarray(to_numpy(codes))
    n_rows = n_samples if codes is None else len(targets)
    if targets.ndim != 2 or len(targets) != n_rows or targets.shape[1] == 0:
        raise ValueError(
            f"Y must have one row per sample, {n_samples} in all, and one column per problem; "
            f"got shape {targets.shape}."
        )
    if places.shape != (n_samples,) or places.dtype.kind not in "iu":
        raise ValueError(f"codes must have one integer per sample, {n_samples} in all.")
    if not (places.min() >= 0 and places.max() < n_rows):
        raise ValueError(f"codes must be rows of Y, 0 … {n_rows - 1}.")
    if not ((targets >= 0) & (targets <= 1)).all():
        raise ValueError("Y must contain 0 and 1, or probabilities between them.")
    return targets, places


def _target_mass(table: Floats, codes: NDArray[np.intp], weights: Floats) -> Floats:
    """Σκt of each column; for the parameters see :class:`_Loss`."""
    mass = np.bincount(codes, weights[:, 0], minlength=len(table))
    return np.asarray((mass[:, None] * table).sum(axis=0))


class _CentredRows:
    """Centred rows, which only changes the intercepts; read in blocks, in one precision."""

    def __init__(self, rows: TrainingRows, n_columns: int) -> None:
        self.rows, self.xp, self.n_columns = rows, rows.xp, n_columns
        #: The precision of steps: single for many rows.
        self.step_dtype = rows.single.dtype

    def blocks(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """The rows, a block at a time."""
        mean = self.xp.astype(self.mean, dtype)
        source = self.rows.single if dtype == self.step_dtype else self.rows.X
        row_bytes = 8 * (2 * self.rows.shape[1] + _TABLES * self.n_columns)
        for rows in row_blocks(self.rows.shape[0], row_bytes, block_budget(self.rows.X)):
            yield rows, self.xp.astype(source[rows, :], dtype, copy=False) - mean

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, as a row."""
        total: Array = 0.0
        for _, block in self.rows.blocks():
            total = total + self.xp.sum(block, axis=0, keepdims=True)
        return total / self.rows.shape[0]

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the covariance, mostly that within classes."""
        xp, n_classes = self.xp, self.rows.n_classes
        gram: Array = 0.0
        sums: Array = 0.0
        codes = xp.arange(n_classes, device=self.rows.device)[None, :]
        y = self.rows.asarray(self.rows.y, codes.dtype)[:, None]
        for rows, block in self.blocks(self.step_dtype):
            gram = gram + xp.astype(xp.matrix_transpose(block) @ block, xp.float64)
            member = xp.astype(y[rows, :] == codes, block.dtype)
            sums = sums + xp.astype(xp.matrix_transpose(member) @ block, xp.float64)
        counts = np.maximum(np.bincount(self.rows.y, minlength=n_classes), 1)
        means = sums / self.rows.asarray(np.sqrt(counts))[:, None]
        gram = gram - (1 - _BETWEEN) * (xp.matrix_transpose(means) @ means)
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(xp.astype(gram / y.shape[0], self.step_dtype))
        return xp.clip(xp.astype(values, xp.float64), min=0.0), vectors

    @cached_property
    def rounding(self) -> float:
        """Rounding error of a weighted mean of the rows."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)


class _Sums(NamedTuple):
    """Sums over the rows at some coefficients and intercepts."""

    value: Floats  # (n_problems,), the loss
    gradient: Array  # (n_columns, width), in the coefficients
    slope: Array  # (n_columns,), in the intercepts
    level: Array  # (n_columns,), Σκ p (1 − p)
    curvature: Array  # in the intercepts: (n_columns,) of separate problems, else square
    absolute: Floats  # (n_problems,), Σ|κ (p − t)|


class _Point(NamedTuple):
    """The state at some coefficients and intercepts."""

    coef: Array  # (n_columns, width)
    intercept: Array  # (n_columns,)
    sums: _Sums
    gradient: Array  # of the objective in the coefficients
    objective: Floats  # (n_problems,), as all that follow
    gap: Floats
    gain: Floats  # lower bound
    wanted: Floats  # the required gap


class _Loss:
    """The loss of all rows, with one column of scores per binary problem, or per class.

    Columns are problems of their own if they are `separate`, otherwise the classes of one softmax.
    Row `codes[n]` of `table` holds the targets t of sample n; the column `weights`, κ, sums to one.
    """

    def __init__(
        self,
        rows: _CentredRows,
        table: Floats,
        codes: NDArray[np.intp],
        weights: Floats,
        *,
        separate: bool,
    ) -> None:
        self.rows, self.xp, self.separate = rows, rows.xp, separate
        self._codes, self.n_columns = codes, table.shape[1]
        self._table, self._weights = rows.rows.asarray(table), rows.rows.asarray(weights)
        share = _target_mass(table, codes, weights)
        logs = np.log(share)
        #: The best intercepts at zero coefficients, and the loss of each problem there.
        self.start: Floats = logs - (np.log1p(-share) if separate else logs.mean())
        self.at_zero: Floats = (
            np.logaddexp(0, self.start) - share * self.start
            if separate
            else np.asarray([np.logaddexp.reduce(self.start) - share @ self.start])
        )

    def _losses(self, scores: Array, targets: Array) -> Array:
        """The losses of samples, in columns that add up to problems."""
        xp = self.xp
        if self.separate:
            softened = xp.log1p(xp.exp(-xp.abs(scores))) + xp.clip(scores, min=0.0)
            return softened - targets * scores
        top = xp.max(scores, axis=1, keepdims=True)
        total = xp.sum(xp.exp(scores - top), axis=1, keepdims=True)
        return xp.log(total) + top - xp.vecdot(targets, scores)[:, None]

    def _probabilities(self, scores: Array) -> Array:
        xp = self.xp
        if self.separate:
            small = xp.exp(-xp.abs(scores))
            share = small / (1 + small)
            return xp.where(scores < 0, share, 1 - share)
        powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return powers / xp.sum(powers, axis=1, keepdims=True)

    def _curved(self, weighted: Array, probabilities: Array, moved: Array) -> Array:
        """The Hessian in the scores times a change of these; `weighted` is κ p."""
        if self.separate:
            return weighted * (1 - probabilities) * moved
        return weighted * (moved - self.xp.vecdot(probabilities, moved)[:, None])

    def _curvature(self, weighted: Array, probabilities: Array) -> Array:
        """The Hessian in the intercepts: Σκp(1 − p) of each problem, or diag(Σκp) − Σκppᵀ."""
        xp = self.xp
        if self.separate:
            return xp.sum(weighted * (1 - probabilities), axis=0, dtype=xp.float64)
        outer = xp.astype(xp.matrix_transpose(weighted) @ probabilities, xp.float64)
        return self._eye() * xp.sum(weighted, axis=0, dtype=xp.float64) - outer

    def intercept_solver(self, curvature: Array) -> Callable[[Array], Array]:
        """The inverse of the Hessian in the intercepts: its product with a vector."""
        if self.separate:
            divisor = nonzero(curvature)
            return lambda slope: slope / divisor
        n = self.n_columns
        # The first addend fixes the common shift of all intercepts, which changes no probability;
        # the second keeps the matrix regular if classes are separated.
        inverse = self.xp.linalg.inv(curvature + 1 / n**2 + (1e-7 / n) * self._eye())
        return lambda slope: self.balanced(inverse @ slope)

    def _eye(self) -> Array:
        xp = self.xp
        return xp.eye(self.n_columns, device=self.rows.rows.device, dtype=xp.float64)

    def balanced(self, x: Array) -> Array:
        """`x` of separate problems; of a softmax, `x` without what all classes have in common."""
        return x if self.separate else x - self.xp.mean(x, axis=0, keepdims=True)

    def per_problem(self, x: Array) -> Floats:
        """Numbers of columns, summed for each problem, on the host."""
        return to_numpy(x if self.separate else self.xp.sum(x, axis=0, keepdims=True))

    def squares(self, x: Array) -> Floats:
        """Sums of squares of a table (n_columns, width), for each problem."""
        return self.per_problem(self.xp.sum(x * x, axis=1))

    def sums(self, coef: Array, intercept: Array, dtype: Any) -> _Sums:
        """The loss and its derivatives; products with the rows are in `dtype`."""
        xp, coef = self.xp, self.xp.astype(coef.T, dtype)
        total: tuple[Any, ...] = (0.0,) * 6
        for rows, block in self.rows.blocks(dtype):
            scores = xp.astype(block @ coef, xp.float64, copy=False) + intercept
            targets = take_rows(self._table, self._codes[rows])
            weights = self._weights[rows, :]
            value = xp.sum(weights * self._losses(scores, targets), axis=0)
            probabilities = self._probabilities(scores)
            weighted = weights * probabilities
            residual = weighted - weights * targets
            parts: tuple[Any, ...] = (
                value,
                xp.sum(residual, axis=0),
                xp.sum(xp.abs(residual), axis=0),
                xp.sum(weighted * (1 - probabilities), axis=0),
            )
            weighted, probabilities, residual = (
                xp.astype(x, dtype, copy=False) for x in (weighted, probabilities, residual)
            )
            product = xp.matrix_transpose(residual) @ block
            parts += (self._curvature(weighted, probabilities), xp.astype(product, xp.float64))
            total = tuple(a + b for a, b in zip(total, parts, strict=True))
        value, slope, absolute, level, curvature, gradient = total
        value, absolute = self.per_problem(value), self.per_problem(absolute)
        return _Sums(value, gradient, slope, level, curvature, absolute)

    def curved_rows(self, point: _Point, dtype: Any) -> tuple[Array, list[Array]]:
        """Means of the rows weighted by κ p (1 − p), and p of all blocks if they fit into one."""
        xp, X = self.xp, self.rows.rows.X
        fit = 8 * X.shape[0] * self.n_columns <= block_budget(X)
        sums: Any = 0.0
        held = []
        for rows, block in self.rows.blocks(dtype):
            probabilities = self._block_probabilities(block, point)
            if fit:
                held.append(probabilities)
            weights = xp.astype(self._weights[rows, :], dtype)
            curvature = weights * probabilities * (1 - probabilities)
            sums = sums + xp.astype(xp.matrix_transpose(curvature) @ block, xp.float64)
        return sums / nonzero(point.sums.level)[:, None], held

    def _block_probabilities(self, block: Array, point: _Point) -> Array:
        coef, intercept = (self.xp.astype(x, block.dtype) for x in point[:2])
        return self._probabilities(block @ coef.T + intercept)

    def hessian_product(
        self, point: _Point, held: list[Array], search: Array, search_b: Array, dtype: Any
    ) -> tuple[Array, Array]:
        """The Hessian at a point times a direction of coefficients and intercepts."""
        xp = self.xp
        product: Any = 0.0
        product_b: Any = 0.0
        search, search_b = xp.astype(search.T, dtype), xp.astype(search_b, dtype)
        for at, (rows, block) in enumerate(self.rows.blocks(dtype)):
            probabilities = held[at] if held else self._block_probabilities(block, point)
            weighted = xp.astype(self._weights[rows, :], dtype) * probabilities
            moved = self._curved(weighted, probabilities, block @ search + search_b)
            product = product + xp.astype(xp.matrix_transpose(moved) @ block, xp.float64)
            product_b = product_b + xp.sum(moved, axis=0, dtype=xp.float64)
        return product, product_b


class _Newton:
    """Newton's method for the problems of one loss, in single precision if there are many rows.

    Problems that look solved are evaluated, and if necessary continued, in double precision.
    """

    def __init__(self, loss: _Loss, tol: float, max_iter: int) -> None:
        self.loss, self.tol, self.max_iter = loss, tol, max_iter
        self.rows, self.xp = loss.rows, loss.xp

    def path(self, alphas: Sequence[float]) -> list[LogisticResult]:
        """Solutions in the order of the penalties, of which the largest is solved first."""
        values = np.asarray(alphas, dtype=np.float64)
        if values.ndim != 1 or not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(f"alphas must be positive numbers; got {alphas!r}.")
        rows, double = self.rows.rows, self.xp.float64
        coef = rows.asarray(self.xp.zeros((self.loss.n_columns, rows.shape[1])))
        intercept = rows.asarray(self.loss.start)
        sums = self.loss.sums(coef, intercept, double)
        last = point = self._certified(1.0, coef, intercept, sums)
        results: dict[int, LogisticResult] = {}
        for position in np.argsort(values, kind="stable")[::-1].tolist():
            alpha = float(values[position])
            is_noise = alpha <= _SINGLE_NOISE * float(self.rows.spectrum[0][-1])
            dtype = double if is_noise else self.rows.step_dtype
            start = self._certified(alpha, *point[:3])
            if results:
                # Extrapolate from the last two solutions.
                step, shift = point.coef - last.coef, point.intercept - last.intercept
                start = self._along(alpha, start, step, shift, dtype)
            last = point
            point, n_iter = self._solve(alpha, start, dtype)
            shift = (self.rows.mean @ point.coef.T)[0, :]  # the rows were centred
            results[position] = LogisticResult(
                self.xp.asarray(rows.full(point.coef), copy=True),
                self.loss.balanced(point.intercept - shift),
                alpha,
                point.objective,
                point.gap,
                n_iter,
                bool((point.gap <= point.wanted).all()),
                point.gain,
            )
        self._warn_of_gaps(list(results.values()))
        return [results[position] for position in range(len(values))]

    @staticmethod
    def _warn_of_gaps(results: list[LogisticResult]) -> None:
        """Issue one warning about all solutions that did not converge."""
        loose = [result for result in results if not result.converged]
        if not loose:
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = [result.gap / np.minimum(result.objective, result.gain) for result in loose]
        worst = max(float(np.nanmax(share)) for share in shares)
        warn_user(
            f"Logistic regression did not converge for alpha in "
            f"{name_some([result.alpha for result in loose])}: the gap is up to {worst:.1e} of the "
            "objective, or of the gain of training. Use a larger alpha, a larger tol or more "
            "iterations.",
            ConvergenceWarning,
        )

    def _solve(self, alpha: float, point: _Point, dtype: Any) -> tuple[_Point, int]:
        """Minimise from a start."""
        double = self.xp.float64
        n_iter = 0
        for precision in [dtype] if dtype == double else [dtype, double]:
            if precision != dtype:
                point = self._settled(alpha, point.coef, point.intercept, double)
            stalled = np.zeros(len(point.gap), dtype=np.intp)
            while n_iter < self.max_iter:
                open_ = (point.gap > point.wanted) & (stalled < _MAX_STALLED_STEPS)
                if not open_.any():
                    break
                step, shift = self._direction(alpha, point, open_, precision)
                after = self._along(alpha, point, step, shift, precision)
                n_iter += 1
                stays = after.objective >= point.objective * (1 - 1e-14)
                stays &= after.gap > 0.5 * point.gap
                stalled = np.where(stays, stalled + 1, 0)
                point = after
        return point, n_iter

    def _certified(self, alpha: float, coef: Array, intercept: Array, sums: _Sums) -> _Point:
        """A point with its certificate, which is valid for optimal intercepts."""
        penalty = 0.5 * alpha * self.loss.squares(coef)
        gradient = sums.gradient + alpha * coef
        gap = self.loss.squares(gradient) / (2 * alpha)
        noise = (self.rows.rounding * sums.absolute) ** 2 / (2 * alpha)
        goal = StoppingRule(self.tol, self.loss.at_zero, noise)
        state = sums.value + penalty, gap, penalty
        gain, wanted = (np.asarray(f(*state)) for f in (goal.gain, goal.wanted))
        return _Point(coef, intercept, sums, gradient, state[0], gap, gain, wanted)

    def _settled(self, alpha: float, coef: Array, intercept: Array, dtype: Any) -> _Point:
        """A point, with optimal intercepts of the problems that look solved."""
        loss = self.loss
        # This lowers the penalty without changing probabilities.
        coef = loss.balanced(coef)
        point = self._certified(alpha, coef, intercept, loss.sums(coef, intercept, dtype))
        length = np.ones(len(point.gap))
        for _ in range(_MAX_INTERCEPT_STEPS):
            solved = point.gap <= point.wanted
            if not solved.any():
                break
            slope = point.sums.slope
            change = -loss.intercept_solver(point.sums.curvature)(slope)
            # To second order; smaller improvements are rounding errors.
            improvement = -0.5 * loss.per_problem(slope * change)
            threshold = max(_MIN_IMPROVEMENT * self.tol, 1e-15)
            moves = solved & (improvement > threshold * point.objective)
            if not moves.any():
                break
            trial = point.intercept + self._on_device(np.where(moves, length, 0.0)) * change
            found = self._certified(alpha, coef, trial, loss.sums(coef, trial, dtype))
            better = moves & (found.sums.value <= point.sums.value * (1 + 1e-14))
            point = self._chosen(better, found, point)
            length = np.where(better, 1.0, np.where(moves, length / 2, length))
        return point

    def _on_device(self, numbers: Floats) -> Array:
        """Numbers of the problems on the device of the rows."""
        return self.rows.rows.asarray(numbers)

    def _chosen(self, which: NDArray[np.bool_], new: _Point, old: _Point) -> _Point:
        """The new point for some problems, the old one for all others."""
        if which.all() or not which.any():
            return new if which.any() else old

        def each(a: Any, b: Any) -> Any:
            mask = (
                which if compat.is_numpy_array(a) else self.rows.rows.asarray(which, self.xp.bool)
            )
            return compat.array_namespace(a).where(mask[:, None] if a.ndim == 2 else mask, a, b)

        sums = _Sums(*map(each, new.sums, old.sums))
        others = {
            k: each(a, b) for k, a, b in zip(new._fields, new, old, strict=True) if k != "sums"
        }
        return _Point(sums=sums, **others)

    def _along(self, alpha: float, point: _Point, step: Array, shift: Array, dtype: Any) -> _Point:
        """The lowest point found along a step, until the slope is small relative to the first one.

        The slope increases along a step; the secant method searches for its zero.
        """

        def slopes(at: _Point) -> Floats:
            products = self.xp.sum(at.gradient * step, axis=1) + at.sums.slope * shift
            return self.loss.per_problem(products)

        first = slopes(point)
        low, slope_low, length = np.zeros(len(first)), first, np.ones(len(first))
        open_, best = first < 0, point
        for _ in range(_MAX_LENGTHS):
            if not open_.any():
                break
            at = self._on_device(np.where(open_, length, 0.0))
            coef, intercept = point.coef + at[:, None] * step, point.intercept + at * shift
            trial = self._settled(alpha, coef, intercept, dtype)
            slope = slopes(trial)
            lower = open_ & (trial.objective < best.objective)
            best = self._chosen(lower, trial, best)
            rise = slope - slope_low
            secant = length - slope * (length - low) / np.where(rise > 0, rise, 1.0)
            inner = np.clip(secant, 0.9 * low + 0.1 * length, 0.1 * low + 0.9 * length)
            falls = slope < 0
            following = np.where(falls, np.clip(secant, length, 4 * length), inner)
            low, slope_low = np.where(falls, length, low), np.where(falls, slope, slope_low)
            length = following
            open_ &= ~lower | (np.abs(slope) > _FLAT_ENOUGH * np.abs(first))
        return best

    def _direction(
        self, alpha: float, point: _Point, open_: NDArray[np.bool_], dtype: Any
    ) -> tuple[Array, Array]:
        """Newton directions of coefficients and intercepts; zero for solved problems.

        The preconditioner of conjugate gradients assumes that the rows of a column vary around
        their mean m, weighted by curvature, with the covariance Σ of all rows. With
        ℓ = Σκp(1 − p) it is the inverse of [ℓΣ + αI + ℓmmᵀ, ℓm; ℓmᵀ, ℓ], where the Hessian in all
        intercepts replaces the last ℓ.
        """
        xp, loss, level = self.xp, self.loss, point.sums.level
        values, vectors = self.rows.spectrum
        vectors = xp.astype(vectors, dtype, copy=False)
        inverse = xp.astype(1 / (level[:, None] * values[None, :] + alpha), dtype)
        means, held = loss.curved_rows(point, dtype)
        solve = loss.intercept_solver(point.sums.curvature)

        def precondition(residual: Array, residual_b: Array) -> tuple[Array, Array]:
            residual = xp.astype(residual - residual_b[:, None] * means, dtype, copy=False)
            z = ((residual @ vectors) * inverse) @ xp.matrix_transpose(vectors)
            z = xp.astype(z, xp.float64, copy=False)
            return z, loss.balanced(solve(residual_b) - xp.sum(means * z, axis=1))

        def inner(a: Array, b: Array, c: Array, d: Array) -> Floats:
            return loss.per_problem(xp.sum(a * b, axis=1) + c * d)

        excess = np.asarray(StoppingRule(self.tol, loss.at_zero).excess(point.objective, point.gap))
        # The last step need not be more accurate than the tolerance.
        forcing = np.minimum(np.sqrt(excess), _FORCING) ** 2
        least = 0.1 * self.tol / np.where(open_, excess, 1.0)
        forcing = np.maximum(forcing, np.minimum(least, _FORCING**2))
        # Vectors have a part for the coefficients and a part, named _b, for the intercepts.
        residual, residual_b = -point.gradient, -point.sums.slope
        search, search_b = precondition(residual, residual_b)
        step, shift = xp.zeros_like(residual), xp.zeros_like(residual_b)
        rho = inner(residual, search, residual_b, search_b)
        enough = forcing * rho
        for _ in range(_MAX_PRODUCTS):
            # For a quadratic loss, the residual is the remaining gradient.
            unsolved = loss.squares(residual) > _LAST * 2 * alpha * point.wanted
            is_open = open_ & (rho > enough) & unsolved
            if not is_open.any():
                break
            product, product_b = loss.hessian_product(point, held, search, search_b, dtype)
            product = product + alpha * search
            curvature = inner(search, product, search_b, product_b)
            is_open &= curvature > 0  # fails only because of rounding
            length = np.where(is_open, rho / np.where(is_open, curvature, 1.0), 0.0)
            length = self._on_device(length)
            step, shift = step + length[:, None] * search, shift + length * search_b
            residual = residual - length[:, None] * product
            residual_b = residual_b - length * product_b
            z, z_b = precondition(residual, residual_b)
            rho_next = inner(residual, z, residual_b, z_b)
            beta = self._on_device(np.where(is_open, rho_next / np.where(is_open, rho, 1.0), 0.0))
            search, search_b = z + beta[:, None] * search, z_b + beta * search_b
            rho = np.where(is_open, rho_next, 0.0)
        return step, shift
