"""Newton's method for logistic losses, with the intercepts eliminated; see `_logistic`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._gain import Goal
from zslearn.solvers._logistic_losses import Loss, nonzero, take_columns
from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Array, block_budget, one_blas_thread, row_blocks, take_rows, to_numpy

# Conjugate gradients end here at the latest; the line search makes any direction safe.
MAX_CG = 100
# The residual of the Newton equation, in its preconditioned norm, is reduced at least this much.
FORCING = 0.1
# The curvature of the loss that single precision cannot tell from zero, as a share of the largest.
SINGLE_NOISE = 1e-7
MAX_INTERCEPT_STEPS = 20
MAX_LENGTHS = 30
# Rows that are centred at a time may take so much.
_COPY_BYTES = 1 << 26


class Solution(NamedTuple):
    """Where Newton's method ended, in the coordinates of the rows."""

    coef: Array  # (n_columns, width)
    intercept: Array  # (1, n_columns)
    alpha: float
    objective: Array  # (1, n_problems)
    gap: Array  # (1, n_problems)
    gain: Array  # (1, n_problems), at least
    wanted: Array  # (1, n_problems), the gap that is small enough
    n_iter: int


class _Point(NamedTuple):
    """What is known at one W, with its best intercepts."""

    coef: Array  # (n_columns, width)
    intercept: Array  # (1, n_columns)
    scores: Array  # (n_samples, n_columns)
    probabilities: Array
    gradient: Array
    objective: Array  # (1, n_problems)
    gap: Array
    gain: Array  # at least
    wanted: Array  # the gap that is small enough

    def part(self, columns: NDArray[np.intp]) -> _Point:
        """Some of the problems."""
        by_row = {"coef", "gradient"}
        return _Point(
            *(
                take_rows(item, columns) if name in by_row else take_columns(item, columns)
                for name, item in self._asdict().items()
            )
        )


class Newton:
    """Newton's method for the problems of one set of rows."""

    def __init__(self, rows: TrainingRows, tol: float, max_iter: int) -> None:
        self.rows, self.tol, self.max_iter = rows, tol, max_iter
        self.xp = rows.xp

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, as a row. Rows count less their mean: the intercepts take it up."""
        n_samples = self.rows.shape[0]
        return self.rows.combine(self.rows.asarray(self.xp.ones((n_samples, 1)))) / n_samples

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the rows' covariance, in float64."""
        xp, single = self.xp, self.rows.single
        mean = xp.astype(self.mean, single.dtype)
        gram = 0.0
        for rows in self._blocks(single):
            centered = single[rows, :] - mean
            gram = gram + xp.astype(xp.matrix_transpose(centered) @ centered, xp.float64)
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(gram / single.shape[0])
        return xp.where(values > 0, values, xp.zeros_like(values)), vectors

    @cached_property
    def single(self) -> Array:
        """The rows in the eigenvectors, in single precision unless they are few."""
        return self._turned(self.rows.single)

    @cached_property
    def double(self) -> Array:
        """The rows in the eigenvectors, in double precision."""
        return self._turned(self.rows.double)

    def _turned(self, X: Array) -> Array:
        dtype, astype = X.dtype, self.xp.astype
        mean, vectors = astype(self.mean, dtype), astype(self.spectrum[1], dtype)
        out = self.xp.empty(X.shape, dtype=dtype, device=self.rows.device)
        for rows in self._blocks(X):
            out[rows, :] = (X[rows, :] - mean) @ vectors
        return out

    def _blocks(self, X: Array) -> list[slice]:
        """Rows a few at a time; all at once where they are few."""
        return row_blocks(X.shape[0], 2 * 8 * X.shape[1], max(block_budget(X), _COPY_BYTES))

    def _scores(self, coef: Array) -> Array:
        return self.rows.scores(coef) - self.mean @ self.xp.matrix_transpose(coef)

    def _combine(self, weights: Array) -> Array:
        total = self.xp.sum(weights, axis=0)[:, None]
        return self.rows.combine(weights) - total * self.mean

    def solve(self, loss: Loss, alpha: float, coef: Array, intercept: Array) -> Solution:
        """Minimise from a start; problems that are solved are set aside."""
        point = self._evaluate(loss, alpha, coef, intercept)
        open_ = np.arange(loss.n_columns)
        stalled = np.zeros(point.gap.shape[1], dtype=np.intp)
        done: list[tuple[NDArray[np.intp], Solution]] = []
        n_iter = 0
        while n_iter < self.max_iter:
            left = to_numpy(point.gap > point.wanted)[0] & (stalled < 3)
            if not left.any():
                break
            if loss.separate and not left.all():
                rest, keep = np.flatnonzero(~left), np.flatnonzero(left)
                done.append((open_[rest], _solution(point.part(rest), alpha, n_iter)))
                loss, point = loss.take(keep), point.part(keep)
                open_, stalled = open_[keep], stalled[keep]
            previous = point
            step, moved, shift = self._direction(loss, alpha, point)
            length = self._length(loss, alpha, point, step, moved)
            point = self._evaluate(
                loss, alpha, point.coef + length.T * step, point.intercept + length * shift
            )
            n_iter += 1
            # Rounding has the last word where neither the objective nor the gap moves.
            still = point.objective >= previous.objective * (1 - 1e-14)
            still = still & (point.gap > 0.5 * previous.gap)
            stalled = np.where(to_numpy(still)[0], stalled + 1, 0)
        done.append((open_, _solution(point, alpha, n_iter)))
        order = np.argsort(np.concatenate([columns for columns, _ in done]))
        return side_by_side([solution for _, solution in done], order)

    def _evaluate(self, loss: Loss, alpha: float, coef: Array, intercept: Array) -> _Point:
        """Find the best intercepts; then the objective, the gradient and the certificate."""
        xp = self.xp
        if not loss.separate:
            # Probabilities do not change when all classes move alike; the penalty shrinks.
            coef = coef - xp.mean(coef, axis=0, keepdims=True)
        raw = self._scores(coef)
        penalty = 0.5 * alpha * loss.over_features(coef * coef).T
        value, probabilities = loss.values(raw + intercept)
        for _ in range(MAX_INTERCEPT_STEPS):
            slope = xp.sum(loss.residual(probabilities), axis=0, keepdims=True)
            change = -loss.hessian(probabilities).intercept_solve(slope)
            # What the change is worth, to second order; a step of no worth would only be noise.
            worth = -0.5 * (slope * change if loss.separate else xp.sum(slope * change))
            wanted = worth > max(1e-8 * self.tol, 1e-15) * (value + penalty)
            if not bool(xp.any(wanted)):
                break
            change = xp.where(wanted, change, xp.zeros_like(change))
            intercept, value, probabilities = _descended(
                loss, raw, intercept, change, value, probabilities
            )
        residual = loss.residual(probabilities)
        gradient = self._combine(residual) + alpha * coef
        gap = loss.over_features(gradient * gradient).T / (2 * alpha)
        noise = (self._rounding * loss.over_samples(xp.abs(residual))) ** 2 / (2 * alpha)
        goal = Goal(self.tol, to_numpy(loss.at_zero), to_numpy(noise))
        state = tuple(map(to_numpy, (value + penalty, gap, penalty)))
        return _Point(
            coef,
            intercept,
            raw + intercept,
            probabilities,
            gradient,
            value + penalty,
            gap,
            self.rows.asarray(goal.gain(*state)),
            self.rows.asarray(goal.wanted(*state)),
        )

    @cached_property
    def _rounding(self) -> float:
        """The rounding of a sum of rows under weights that add up to one."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)

    def _direction(self, loss: Loss, alpha: float, point: _Point) -> tuple[Array, Array, Array]:
        """A Newton direction, what it does to the scores, and to the intercepts.

        Conjugate gradients run in the eigenvectors of the covariance. A product with the Hessian of
        F is one with that of f, after the intercepts have followed the change of the scores.
        """
        xp = self.xp
        values, vectors = self.spectrum
        Z = self.single if alpha > SINGLE_NOISE * float(values[-1]) else self.double
        dtype = Z.dtype
        inverse = loss.level(point.probabilities) * values[None, :] + alpha
        inverse = xp.astype(1 / inverse, dtype)
        hessian = loss.hessian(point.probabilities, dtype)

        def multiply(direction: Array) -> tuple[Array, Array, Array]:
            scores = Z @ xp.matrix_transpose(direction)
            pull = xp.sum(hessian.times(scores), axis=0, keepdims=True)
            shift = -hessian.intercept_solve(pull)
            scores = scores + shift
            product = xp.matrix_transpose(hessian.times(scores)) @ Z
            return product + alpha * direction, scores, shift

        goal = Goal(self.tol, to_numpy(loss.at_zero))
        excess = self.rows.asarray(goal.excess(to_numpy(point.objective), to_numpy(point.gap)))
        # The last step need not be more exact than the tolerance asks.
        forcing = xp.clip(xp.sqrt(excess), min=0.0, max=FORCING) ** 2
        forcing = xp.maximum(forcing, xp.clip(0.1 * self.tol / excess, min=0.0, max=FORCING**2))
        residual = xp.astype(-(point.gradient @ vectors), dtype)
        guided = inverse * residual
        search, step = guided, xp.zeros_like(residual)
        moved = xp.zeros_like(point.probabilities, dtype=dtype)
        shift = xp.zeros_like(point.intercept, dtype=dtype)
        power = loss.over_features(residual * guided)
        enough = xp.astype(forcing.T, dtype) * power
        for _ in range(MAX_CG):
            open_ = power > enough
            if not bool(xp.any(open_)):
                break
            product, scores, shifted = multiply(search)
            curved = loss.over_features(search * product)
            length = xp.where(open_ & (curved > 0), power / nonzero(curved), 0 * power)
            step = step + length * search
            moved, shift = moved + length.T * scores, shift + length.T * shifted
            residual = residual - length * product
            guided = inverse * residual
            renewed = loss.over_features(residual * guided)
            search = guided + xp.where(open_, renewed / nonzero(power), 0 * power) * search
            power = renewed
        step = xp.astype(step, xp.float64) @ xp.matrix_transpose(vectors)
        return step, xp.astype(moved, xp.float64), xp.astype(shift, xp.float64)

    def _length(self, loss: Loss, alpha: float, point: _Point, step: Array, moved: Array) -> Array:
        """The best length of each problem's step: the zero of a rising derivative."""
        xp = self.xp
        slope = alpha * loss.over_features(point.coef * step).T
        square = alpha * loss.over_features(step * step).T
        length = xp.ones_like(slope)
        low, high = xp.zeros_like(slope), xp.full_like(slope, xp.inf)
        for _ in range(MAX_LENGTHS):
            _, probabilities = loss.values(point.scores + length * moved)
            curved = loss.hessian(probabilities).times(moved)
            first = slope + length * square
            first = first + loss.over_samples(loss.residual(probabilities) * moved)
            second = square + loss.over_samples(moved * curved)
            low = xp.where(first < 0, length, low)
            high = xp.where(first > 0, length, high)
            # Newton's method on the derivative may run in a circle; the bracket may not.
            middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2 * low)
            change = first / nonzero(second)
            if bool(xp.all(xp.abs(change) < 0.1 * length)):
                return length
            length = length - change
            length = xp.where((length >= low) & (length <= high), length, middle)
        return length


def _descended(
    loss: Loss, raw: Array, intercept: Array, change: Array, value: Array, probabilities: Array
) -> tuple[Array, Array, Array]:
    """A step of the intercepts, halved for each problem until it does no harm."""
    xp = compat.array_namespace(raw)
    length = xp.ones_like(value)
    for _ in range(30):
        moved = intercept + length * change
        renewed, found = loss.values(raw + moved)
        worse = renewed > value * (1 + 1e-14)
        if not bool(xp.any(worse)):
            return moved, renewed, found
        length = xp.where(worse, 0.5 * length, length)
    return intercept, value, probabilities


def _solution(point: _Point, alpha: float, n_iter: int) -> Solution:
    return Solution(
        point.coef,
        point.intercept,
        alpha,
        point.objective,
        point.gap,
        point.gain,
        point.wanted,
        n_iter,
    )


def side_by_side(solutions: Sequence[Solution], order: NDArray[np.intp] | None = None) -> Solution:
    """Solutions of different columns as one, in the given order."""
    first = solutions[0]
    if len(solutions) == 1:
        return first
    xp = compat.array_namespace(first.coef)
    coef = xp.concat([solution.coef for solution in solutions], axis=0)
    by_column = {
        name: xp.concat([getattr(solution, name) for solution in solutions], axis=1)
        for name in ("intercept", "objective", "gap", "gain", "wanted")
    }
    if order is not None:
        coef = take_rows(coef, order)
        by_column = {name: take_columns(x, order) for name, x in by_column.items()}
    n_iter = max(solution.n_iter for solution in solutions)
    return Solution(coef=coef, alpha=first.alpha, n_iter=n_iter, **by_column)
