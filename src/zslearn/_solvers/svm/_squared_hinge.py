r"""One-versus-other linear classifiers under the squared hinge: a batched Newton method.

With :math:`s_{nc} = 1` where :math:`y_n = c` and −1 elsewhere, and the classifiers of the C classes
as rows of :math:`W = M U`,

.. math:: \min_U \frac{1}{NC} \sum_{n,c} \max(0, 1 - s_{nc}\, x_n^\top w_c)^2
          + \frac{\alpha}{2} \|U\|_F^2.

Without the mixing matrix M these are C problems, which are solved together to the extent that
memory permits, so that each product with X serves all of them; with M they are one problem. The
loss is piecewise quadratic: Newton directions come from preconditioned conjugate gradients, step
lengths from an exact line search. If the penalty is small, few rows violate their margin and
conjugate gradients take many steps; Newton's equations are then solved directly for these rows.

The certificate is a duality gap. The residuals :math:`h = \max(0, 1 - s\, x^\top w)` define the
dual point :math:`2h / NC` with the gap :math:`\|g\|^2 / 2\alpha` for the gradient g; the best
multiple of this point is used. `_stopping` defines how small the gap must be. With sample weights,
N is their sum and each term has the weight of its row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn._solvers._linalg import nonzero
from zslearn._solvers._stopping import StoppingRule
from zslearn._solvers.svm._rows import Solution, TrainingRows
from zslearn._utils._array import Array, block_budget, on_device, row_blocks, take_rows, to_numpy
from zslearn._utils._processes import one_blas_thread

# Maximum number of conjugate gradient steps; the line search makes any direction safe.
_MAX_CG = 250
# Largest relative residual of Newton's equation, in the preconditioned norm.
_FORCING = 0.1
# Curvature of the loss that is zero in single precision, relative to the largest.
_SINGLE_NOISE = 1e-7
# Number of tables of all rows by the classes that are solved together, and the minimum of their
# size limit on the host, which is a quarter of the size of the rows.
_TABLES = 16
_TABLE_BYTES = 1 << 27


def squared_hinge(
    rows: TrainingRows,
    *,
    alpha: float,
    mixing: Array = None,
    tol: float,
    max_iter: int,
    start: Array = None,
) -> Solution:
    """Minimise the squared hinge; see the module."""
    parts = []
    for classes in _class_blocks(rows) if mixing is None else [slice(0, rows.n_classes)]:
        begin = start[classes, :] if start is not None and mixing is None else start
        parts.append(_solve(_Problem(rows, alpha, mixing, tol, classes), max_iter, begin))
    if len(parts) == 1:
        return parts[0]
    # A gap that is small relative to each part is small relative to their sum.
    return Solution(
        rows.xp.concat([part.base for part in parts], axis=0),
        sum(part.objective for part in parts),
        sum(part.dual_gap for part in parts),
        sum(part.gain for part in parts),
        all(part.converged for part in parts),
        max(part.n_iter for part in parts),
    )


def _class_blocks(rows: TrainingRows) -> list[slice]:
    """Classes that are solved together, within a memory budget for tables of rows by classes."""
    own = rows.shape[0] * rows.shape[1] * (8 if rows.X.dtype == rows.xp.float64 else 4)
    budget = max(_TABLE_BYTES, own // 4)
    if on_device(rows.X):
        budget = max(_TABLE_BYTES, 2 * block_budget(rows.X))
    parts = len(row_blocks(rows.n_classes, _TABLES * 8 * rows.shape[0], budget))
    # Parts of equal size take the least memory.
    return row_blocks(rows.n_classes, 1, -(-rows.n_classes // parts))


def _solve(problem: _Problem, max_iter: int, start: Array) -> Solution:
    """Newton's method from a start, or from zero."""
    rows = problem.rows
    xp = rows.xp
    n_base = problem.n_classes if problem.mixing is None else problem.mixing.shape[1]
    base = rows.asarray(xp.zeros((n_base, rows.shape[1]))) if start is None else start
    point = problem.evaluate(base)
    n_iter = stalled = 0
    while point.gap > point.wanted and n_iter < max_iter and stalled < 3:
        step, scores = problem.direction(point)
        length = problem.line_search(point, step, scores)
        del scores
        base = point.base + length.T * step
        before = point.objective, point.gap
        # Free the tables of the previous point first.
        del point
        point = problem.evaluate(base)
        n_iter += 1
        # Rounding prevents progress if neither the objective nor the gap changes.
        still = point.objective >= before[0] * (1 - 1e-14)
        stalled = stalled + 1 if still and point.gap > 0.5 * before[1] else 0
    converged = point.gap <= point.wanted
    return Solution(point.base, point.objective, point.gap, point.gain, converged, n_iter)


class _Point(NamedTuple):
    """The state at one U."""

    base: Array
    violations: Array  # max(0, 1 − s·score) with the sign of s, (n_samples, n_classes)
    scores: Array
    gradient: Array
    gaps: Array  # of each problem, (1, n_problems)
    objective: float
    gap: float
    gain: float  # at least
    wanted: float  # the gap that is small enough


class _Problem:
    """Some classes, or all of them, and all rows."""

    def __init__(
        self, rows: TrainingRows, alpha: float, mixing: Array, tol: float, classes: slice
    ) -> None:
        self.rows, self.alpha, self.mixing, self.tol = rows, alpha, mixing, tol
        self.n_classes = classes.stop - classes.start
        # At zero each residual is one; the loss is their mean over all classes.
        self.at_zero = self.n_classes / rows.n_classes
        self.solve_directly = False
        self.xp = xp = rows.xp
        self.weight = 2.0 / (rows.shape[0] * rows.n_classes)
        labels = rows.asarray(rows.y, xp.int64)
        numbers = xp.arange(classes.start, classes.stop, device=rows.device)
        positive = rows.asarray(1.0)
        self.signs = xp.where(labels[:, None] == numbers[None, :], positive, -positive)
        # Rounding error of a weighted mean of the rows.
        self.rounding = float(np.finfo(np.float64).eps * (rows.shape[0] * rows.mean_square) ** 0.5)

    def evaluate(self, base: Array) -> _Point:
        """Objective, gradient and certificate."""
        xp, alpha = self.xp, self.alpha
        coefficients = base if self.mixing is None else self.mixing @ base
        scores = self.rows.scores(coefficients)
        residuals = 1 - self.signs * scores
        residuals = xp.where(residuals > 0, residuals, xp.zeros_like(residuals))
        weighted = self.rows.weigh(residuals)
        pull = self.weight * self.rows.combine(self.signs * weighted)
        if self.mixing is not None:
            pull = xp.matrix_transpose(self.mixing) @ pull
        gradient = alpha * base - pull
        # Per problem: the loss, the penalty, and the dual value b t − a t² at its best t.
        loss = 0.5 * self.weight * self._over_samples(weighted * residuals)
        penalty = 0.5 * alpha * self._over_features(base * base).T
        objective = loss + penalty
        gap = self._over_features(gradient * gradient).T / (2 * alpha)
        linear = self.weight * self._over_samples(weighted)
        quadratic = loss + self._over_features(pull * pull).T / (2 * alpha)
        tiny = xp.finfo(xp.float64).smallest_normal
        best = objective - linear * linear / (4 * xp.where(quadratic > tiny, quadratic, tiny))
        # Cancellation makes the difference useless there, but not the gradient.
        gap = xp.where((best < gap) & (best > 1e-12 * objective), best, gap)
        noise = float(xp.sum((self.rounding * linear) ** 2)) / (2 * alpha)
        rule = StoppingRule(self.tol, self.at_zero, noise)
        state = float(xp.sum(objective)), float(xp.sum(gap)), float(xp.sum(penalty))
        numbers = *state[:2], float(rule.gain(*state)), float(rule.wanted(*state))
        return _Point(base, self.signs * residuals, scores, gradient, gap, *numbers)

    def direction(self, point: _Point) -> tuple[Array, Array]:
        """A Newton direction, and the change of the scores along it.

        If conjugate gradients take longer than a direct solution, their current direction is used
        and the next ones are computed directly.
        """
        counts = to_numpy(self.xp.sum(self.xp.astype(point.violations != 0, self.xp.int64), axis=0))
        if self.solve_directly:
            return self._direct_direction(point, counts)
        limit = _MAX_CG
        if self.mixing is None:
            n_samples, width = self.rows.shape
            smaller = np.minimum(counts, width)
            direct = np.sum(counts * width * smaller + smaller**3)
            # A product with X and one with its transpose, in single precision.
            limit = min(limit, int(direct / (2.0 * n_samples * width * self.n_classes)) + 3)
        step, moved, done = self._gradient_direction(point, limit)
        self.solve_directly = not done and self.mixing is None
        return step, moved

    def _direct_direction(self, point: _Point, counts: NDArray[np.intp]) -> tuple[Array, Array]:
        """The step to the minimum over the violating rows A, X_Aᵀ (X_A X_Aᵀ + (αNC/2) I)⁻¹ s_A."""
        xp, rows = self.xp, self.rows
        ridge = self.alpha / self.weight
        violating = to_numpy(point.violations != 0)
        open_ = to_numpy(point.gaps)[0] > 0.1 * point.wanted / self.n_classes
        steps = []
        for c in range(self.n_classes):
            here = point.base[c, :]
            if not open_[c] or counts[c] == 0:
                # Without violations, zero minimises the penalty.
                steps.append(xp.zeros_like(here) if counts[c] else -here)
                continue
            active = np.flatnonzero(violating[:, c])
            X = rows.take(active)
            signs = take_rows(self.signs[:, c], active)
            if rows.sample_weight is not None:
                roots = rows.asarray(np.sqrt(rows.sample_weight[active]))
                X, signs = X * roots[:, None], signs * roots
            by_row = X.shape[0] <= X.shape[1]
            gram = X @ X.T if by_row else X.T @ X
            gram = gram + ridge * rows.asarray(xp.eye(gram.shape[0]))
            target = signs if by_row else X.T @ signs
            with one_blas_thread():
                found = xp.linalg.solve(gram, target[:, None])[:, 0]
            steps.append((X.T @ found if by_row else found) - here)
        step = xp.stack(steps)
        return step, rows.scores(step)

    def _gradient_direction(self, point: _Point, limit: int) -> tuple[Array, Array, bool]:
        """A direction by conjugate gradients; also whether they converged within the limit."""
        xp = self.xp
        values, vectors = self.rows.spectrum
        noise = _SINGLE_NOISE * self.weight * float(values[-1])
        X = self.rows.single if self.alpha > noise else self.rows.double
        dtype = X.dtype
        active = xp.astype(point.violations != 0, dtype)
        # Approximate curvature of the loss in each eigenvector of XᵀX.
        share = xp.astype(xp.mean(self.rows.weigh(active), axis=0), xp.float64)[:, None]
        if self.mixing is not None:
            share = xp.matrix_transpose(self.mixing**2) @ share
        inverse = xp.astype(1 / (self.weight * share * values[None, :] + self.alpha), dtype)
        vectors = xp.astype(vectors, dtype)
        mixing = None if self.mixing is None else xp.astype(self.mixing, dtype)
        curvature = xp.astype(self.weight * self.rows.weigh(active), dtype, copy=False)

        def precondition(residual: Array) -> Array:
            return ((residual @ vectors) * inverse) @ xp.matrix_transpose(vectors)

        def multiply(direction: Array) -> tuple[Array, Array]:
            coefficients = direction if mixing is None else mixing @ direction
            scores = X @ xp.matrix_transpose(coefficients)
            product = xp.matrix_transpose(curvature * scores) @ X
            if mixing is not None:
                product = xp.matrix_transpose(mixing) @ product
            return scores, product + self.alpha * direction

        excess = float(StoppingRule(self.tol, self.at_zero).excess(point.objective, point.gap))
        forcing = min(_FORCING, max(excess, 0.1 * self.tol) ** 0.5) ** 2
        residual = xp.astype(-point.gradient, dtype)
        guided = precondition(residual)
        search, step, moved = guided, xp.zeros_like(residual), xp.zeros_like(active)
        power = self._over_features(residual * guided)
        enough = forcing * power
        done = False
        for _ in range(limit + 1):
            open_ = power > enough
            done = not bool(xp.any(open_))
            if done:
                break
            scores, product = multiply(search)
            curved = self._over_features(search * product)
            length = xp.where(open_ & (curved > 0), power / nonzero(curved), 0 * power)
            step = step + length * search
            moved = moved + length.T * scores
            residual = residual - length * product
            guided = precondition(residual)
            renewed = self._over_features(residual * guided)
            search = guided + xp.where(open_, renewed / nonzero(power), 0 * power) * search
            power = renewed
        return xp.astype(step, xp.float64), xp.astype(moved, xp.float64), done

    def line_search(self, point: _Point, step: Array, moved: Array) -> Array:
        """The best length of each problem's step: the zero of a piecewise linear derivative."""
        xp, alpha = self.xp, self.alpha
        along = self.signs * moved
        residuals = 1 - self.signs * point.scores
        weighted = self.rows.weigh(along)
        slope = alpha * self._over_features(point.base * step).T
        square = alpha * self._over_features(step * step).T
        length = xp.ones_like(slope)
        low, high = xp.zeros_like(slope), xp.full_like(slope, xp.inf)
        for _ in range(30):
            left = residuals - length * along
            active = xp.astype(left > 0, xp.float64) * weighted
            first = slope + length * square - self.weight * self._over_samples(active * left)
            second = square + self.weight * self._over_samples(active * along)
            low = xp.where(first < 0, length, low)
            high = xp.where(first > 0, length, high)
            # The bracket prevents cycles of Newton's method.
            middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2 * low)
            change = first / nonzero(second)
            length = length - change
            length = xp.where((length >= low) & (length <= high), length, middle)
            if float(xp.max(xp.abs(change))) < 1e-6:
                break
        return length

    def _over_features(self, products: Array) -> Array:
        """Sums of (n_problems, width) for each problem, as a column."""
        if self.mixing is None:
            return self.xp.sum(products, axis=1, keepdims=True)
        return self.xp.reshape(self.xp.sum(products), (1, 1))

    def _over_samples(self, products: Array) -> Array:
        """Sums of (n_samples, n_classes) for each problem, as a row."""
        if self.mixing is None:
            return self.xp.sum(products, axis=0, keepdims=True)
        return self.xp.reshape(self.xp.sum(products), (1, 1))
