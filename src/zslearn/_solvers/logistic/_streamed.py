"""Binary logistic regressions of many rows: no table of rows by problems is ever held.

The method is that of :class:`~zslearn._solvers.logistic._newton.Newton`, with three differences.
What it reads from tables (scores, probabilities) is computed again from the rows, block by block,
in each pass; conjugate gradients run in coefficients and intercepts together, which takes one pass
for a product where eliminated intercepts take two; and a step is shortened where it does not lower
the objective enough, as looking for its best length would take passes of its own. The certificate
is the same: where a problem ends its intercept is the best one, and the gap is that of the
coefficients, from the rows in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._solvers._gain import Goal
from zslearn._solvers.logistic._newton import (
    FORCING,
    LAST,
    MAX_CG,
    MAX_INTERCEPT_STEPS,
    MAX_LENGTHS,
    ROUGH_WORTH,
    SINGLE_NOISE,
    WORTH,
    Solution,
)
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, Floats
from zslearn._utils._blocks import row_blocks
from zslearn._utils._device import block_budget
from zslearn._utils._processes import one_blas_thread

# Softmax regression of many rows and classes: no table of rows by classes is ever held.
#
# The method is that of :class:`~zslearn._solvers.logistic._newton.Newton`, with two differences.
# What
# it reads from tables (scores, probabilities) is computed again from the rows, block by block, in
# each pass; and conjugate gradients run in coefficients and intercepts together, which takes one
# pass
# for a product where eliminated intercepts take two. The certificate is the same: at the end of a
# step the intercepts are the best ones, and the gap is that of the coefficients.

# Tables of a block of rows by the classes that there are at a time.
_TABLES_STREAMED = 6


@dataclass(frozen=True)
class SoftLabels:
    """Targets of rows by two numbers each: that of the row's class, and that of every other.

    Parameters
    ----------
    y : ndarray of int of shape (n_samples,)
        Class of each row.
    own, other : ndarray of shape (n_samples,)
        Targets of that class and of the others.
    n_classes : int
        Number of classes.
    """

    y: NDArray[np.intp]
    own: Floats
    other: Floats
    n_classes: int

    @classmethod
    def of(cls, y: NDArray[np.intp], n_classes: int, pseudo_counts: float = 0.0) -> SoftLabels:
        """Labels as targets, softened by so many samples of each class, spread over all."""
        counts = np.bincount(y, minlength=n_classes)[y].astype(np.float64)
        other = pseudo_counts / n_classes / (counts + pseudo_counts)
        own = (counts + pseudo_counts / n_classes) / (counts + pseudo_counts)
        return cls(y, own, other, n_classes)

    def table(self) -> Floats:
        """All targets, (n_samples, n_classes)."""
        out = np.repeat(self.other[:, None], self.n_classes, axis=1)
        out[np.arange(len(self.y)), self.y] = self.own
        return out

    def mass(self, weights: Floats) -> Floats:
        """Weighted sum of the targets of each class."""
        lift = np.bincount(self.y, weights * (self.own - self.other), minlength=self.n_classes)
        return np.asarray(lift + float(weights @ self.other), dtype=np.float64)


class _Point_streamed(NamedTuple):
    """What is known at one W with its best intercepts."""

    coef: Array
    intercept: Array
    level: Array  # Σκ p (1 − p) of each class, a column
    gradient: Array
    objective: float
    gap: float
    gain: float
    wanted: float


class StreamedSoftmax:
    """Newton's method for one softmax regression after another of the same rows.

    Parameters
    ----------
    rows : TrainingRows
        Features.
    labels : SoftLabels
        Targets.
    weights : ndarray of shape (n_samples,)
        How much each sample counts; their sum is one.
    tol : float
        Gap to reach, as a share of the objective and of the gain.
    max_iter : int
        Largest number of Newton steps.
    """

    def __init__(
        self, rows: TrainingRows, labels: SoftLabels, weights: Floats, tol: float, max_iter: int
    ) -> None:
        self.rows, self.labels, self.tol, self.max_iter = rows, labels, tol, max_iter
        self.xp = xp = rows.xp
        self.n_columns = labels.n_classes
        self.weights = rows.asarray(weights)[:, None]
        self.y = rows.asarray(labels.y, xp.int64)[:, None]
        self.other = rows.asarray(labels.other)[:, None]
        self.lift = rows.asarray(labels.own - labels.other)[:, None]
        self._share = share = labels.mass(weights)
        logs = np.log(share)
        self.start = logs - logs.mean()
        top = self.start.max()
        self.at_zero = float(np.log(np.exp(self.start - top).sum()) + top - share @ self.start)

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, as a row."""
        xp = self.xp
        total = xp.zeros((1, self.rows.shape[1]), dtype=xp.float64, device=self.rows.device)
        for _, block in self._blocks(xp.float64):
            total = total + xp.sum(block, axis=0, keepdims=True)
        return total / self.rows.shape[0]

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the rows' covariance, in float64."""
        xp, width = self.xp, self.rows.shape[1]
        gram = xp.zeros((width, width), dtype=xp.float64, device=self.rows.device)
        for _, block in self._centered(self.rows.single.dtype):
            gram = gram + xp.astype(xp.matrix_transpose(block) @ block, xp.float64)
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(gram / self.rows.shape[0])
        return xp.where(values > 0, values, xp.zeros_like(values)), vectors

    def solve(self, alpha: float, coef: Array, intercept: Array) -> Solution:
        """Minimise from a start."""
        point = self._evaluate(alpha, coef, intercept)
        n_iter = stalled = 0
        while point.gap > point.wanted and n_iter < self.max_iter and stalled < 3:
            step, shift = self._direction(alpha, point)
            length = self._length(alpha, point, step, shift)
            before = point
            point = self._evaluate(
                alpha, point.coef + length * step, point.intercept + length * shift
            )
            n_iter += 1
            still = point.objective >= before.objective * (1 - 1e-14)
            stalled = stalled + 1 if still and point.gap > 0.5 * before.gap else 0
        state = (point.objective, point.gap, point.gain, point.wanted)
        objective, gap, gain, wanted = (self.rows.asarray([[number]]) for number in state)
        return Solution(
            point.coef, point.intercept, alpha, objective, gap, gain, wanted, n_iter
        )  # fmt: skip

    # One pass over the rows each.

    def _blocks(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """Rows in a dtype, a block at a time."""
        X = self.rows.X
        row_bytes = 8 * (2 * X.shape[1] + _TABLES_STREAMED * self.n_columns)
        for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)):
            yield rows, self.xp.astype(X[rows, :], dtype, copy=False)

    def _centered(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        mean = self.xp.astype(self.mean, dtype)
        for rows, block in self._blocks(dtype):
            yield rows, block - mean

    def _evaluate(self, alpha: float, coef: Array, intercept: Array) -> _Point_streamed:
        """Find the best intercepts; then the objective, the gradient and the certificate."""
        xp = self.xp
        # Probabilities do not change when all classes move alike; the penalty shrinks.
        coef = coef - xp.mean(coef, axis=0, keepdims=True)
        penalty = 0.5 * alpha * float(xp.sum(coef * coef))
        value, slope, level, outer = self._at(coef, intercept)
        for _ in range(MAX_INTERCEPT_STEPS):
            change = -self._intercept_solve(outer, slope)
            worth = -0.5 * float(xp.sum(slope * change))
            if worth <= max(1e-8 * self.tol, 1e-15) * (value + penalty):
                break
            length = 1.0
            for _ in range(30):
                found = self._at(coef, intercept + length * change)
                if found[0] <= value * (1 + 1e-14):
                    break
                length *= 0.5
            else:
                break
            intercept = intercept + length * change
            value, slope, level, outer = found
        gradient, total = self._pull(coef, intercept)
        gradient = gradient + alpha * coef
        gap = float(xp.sum(gradient * gradient)) / (2 * alpha)
        goal = Goal(self.tol, self.at_zero, (self._rounding * total) ** 2 / (2 * alpha))
        state = value + penalty, gap, penalty
        return _Point_streamed(
            coef, intercept, xp.matrix_transpose(level), gradient, value + penalty, gap,
            float(goal.gain(*state)), float(goal.wanted(*state)),
        )  # fmt: skip

    def _at(self, coef: Array, intercept: Array) -> tuple[float, Array, Array, Array]:
        """The loss, its slope in the intercepts, its curvature, and Σκppᵀ."""
        xp, n = self.xp, self.n_columns
        value = 0.0
        slope = self.rows.asarray(xp.zeros((1, n)))
        level, outer = xp.zeros_like(slope), self.rows.asarray(xp.zeros((n, n)))
        for rows, block in self._centered(xp.float64):
            scores = block @ xp.matrix_transpose(coef) + intercept
            probabilities, log_total = _softmax(xp, scores)
            weights, lift, other = self.weights[rows, :], self.lift[rows, :], self.other[rows, :]
            own = xp.take_along_axis(scores, self.y[rows, :], axis=1)
            aim = lift * own + other * xp.sum(scores, axis=1, keepdims=True)
            value += float(xp.sum(weights * (log_total - aim)))
            weighted = weights * probabilities
            slope = slope + xp.sum(weighted, axis=0, keepdims=True)
            level = level + xp.sum(weighted * (1 - probabilities), axis=0, keepdims=True)
            outer = outer + xp.matrix_transpose(weighted) @ probabilities
        return value, slope - self._mass, level, outer

    def _pull(self, coef: Array, intercept: Array) -> tuple[Array, float]:
        """Σκ (p − t) xᵀ over the centred rows, and the sum of |κ (p − t)|."""
        xp = self.xp
        gradient = xp.zeros_like(coef)
        total = 0.0
        columns = xp.arange(self.n_columns, device=self.rows.device)[None, :]
        for rows, block in self._centered(xp.float64):
            scores = block @ xp.matrix_transpose(coef) + intercept
            residual, _ = _softmax(xp, scores)
            lift = xp.where(columns == self.y[rows, :], self.lift[rows, :], xp.zeros_like(residual))
            residual = self.weights[rows, :] * (residual - lift - self.other[rows, :])
            total += float(xp.sum(xp.abs(residual)))
            gradient = gradient + xp.matrix_transpose(residual) @ block
        return gradient, total

    def _direction(self, alpha: float, point: _Point_streamed) -> tuple[Array, Array]:
        """A Newton direction of coefficients and intercepts, by conjugate gradients."""
        xp = self.xp
        values, vectors = self.spectrum
        dtype = xp.float32 if alpha > SINGLE_NOISE * float(values[-1]) else xp.float64
        inverse = 1 / (point.level * values[None, :] + alpha)
        inverse_intercept = 1 / xp.matrix_transpose(point.level)
        excess = float(Goal(self.tol, self.at_zero).excess(point.objective, point.gap))
        forcing = max(min(excess**0.5, FORCING) ** 2, min(0.1 * self.tol / excess, FORCING**2))

        def precondition(residual: Array, shift: Array) -> tuple[Array, Array]:
            turned = ((residual @ vectors) * inverse) @ xp.matrix_transpose(vectors)
            shift = inverse_intercept * shift
            return turned, shift - xp.mean(shift)

        residual, rest = -point.gradient, xp.zeros_like(point.intercept)
        guided, guide = precondition(residual, rest)
        search, turn = guided, guide
        step, shift = xp.zeros_like(residual), xp.zeros_like(rest)
        power = float(xp.sum(residual * guided) + xp.sum(rest * guide))
        enough = forcing * power
        for _ in range(MAX_CG):
            if power <= enough:
                break
            product, pull = self._curved(alpha, point, search, turn, dtype)
            curved = float(xp.sum(search * product) + xp.sum(turn * pull))
            if curved <= 0:
                break
            length = power / curved
            step, shift = step + length * search, shift + length * turn
            residual, rest = residual - length * product, rest - length * pull
            guided, guide = precondition(residual, rest)
            renewed = float(xp.sum(residual * guided) + xp.sum(rest * guide))
            search, turn = guided + renewed / power * search, guide + renewed / power * turn
            power = renewed
        return step, shift

    def _curved(
        self, alpha: float, point: _Point_streamed, search: Array, turn: Array, dtype: Any
    ) -> tuple[Array, Array]:
        """The Hessian times a direction."""
        xp = self.xp
        coef, intercept, down, along = (
            xp.astype(x, dtype, copy=False)
            for x in (point.coef, point.intercept, search, turn)
        )  # fmt: skip
        weights = xp.astype(self.weights, dtype)
        product, pull = alpha * search, xp.zeros_like(turn)
        for rows, block in self._centered(dtype):
            probabilities, _ = _softmax(xp, block @ xp.matrix_transpose(coef) + intercept)
            moved = block @ xp.matrix_transpose(down) + along
            moved = moved - xp.sum(probabilities * moved, axis=1, keepdims=True)
            moved = weights[rows, :] * probabilities * moved
            product = product + xp.astype(xp.matrix_transpose(moved) @ block, xp.float64)
            pull = pull + xp.astype(xp.sum(moved, axis=0, keepdims=True), xp.float64)
        return product, pull

    def _length(self, alpha: float, point: _Point_streamed, step: Array, shift: Array) -> float:
        """The best length of a step: the zero of a rising derivative."""
        xp = self.xp
        slope = alpha * float(xp.sum(point.coef * step))
        square = alpha * float(xp.sum(step * step))
        length, low, high = 1.0, 0.0, np.inf
        for _ in range(MAX_LENGTHS):
            first, second = self._along(point, step, shift, length)
            first, second = slope + length * square + first, square + second
            low, high = (length, high) if first < 0 else (low, length)
            change = first / second if second > 0 else 0.0
            if abs(change) < 0.1 * length:
                break
            length -= change
            if not low <= length <= high:
                length = 0.5 * (low + high) if np.isfinite(high) else 2 * low
        return length

    def _along(
        self, point: _Point_streamed, step: Array, shift: Array, length: float
    ) -> tuple[float, float]:
        """First and second derivative of the loss along a step."""
        xp = self.xp
        first = second = 0.0
        coef, intercept = point.coef + length * step, point.intercept + length * shift
        for rows, block in self._centered(xp.float64):
            probabilities, _ = _softmax(xp, block @ xp.matrix_transpose(coef) + intercept)
            moved = block @ xp.matrix_transpose(step) + shift
            mean = xp.sum(probabilities * moved, axis=1, keepdims=True)
            own = xp.take_along_axis(moved, self.y[rows, :], axis=1)
            aim = self.lift[rows, :] * own
            aim = aim + self.other[rows, :] * xp.sum(moved, axis=1, keepdims=True)
            spread = xp.sum(probabilities * (moved - mean) ** 2, axis=1, keepdims=True)
            first += float(xp.sum(self.weights[rows, :] * (mean - aim)))
            second += float(xp.sum(self.weights[rows, :] * spread))
        return first, second

    @cached_property
    def _mass(self) -> Array:
        """Σκt of each class, as a row."""
        return self.rows.asarray(self._share)[None, :]

    def _intercept_solve(self, outer: Array, slope: Array) -> Array:
        """The Hessian in the intercepts, inverted, times a row."""
        xp, n = self.xp, self.n_columns
        eye = self.rows.asarray(xp.eye(n))
        diagonal = xp.sum(outer, axis=1)
        fixed = eye * diagonal[None, :] - outer + 1 / n**2 + (1e-7 / n) * eye
        solved = xp.matrix_transpose(xp.linalg.solve(fixed, xp.matrix_transpose(slope)))
        return solved - xp.mean(solved)

    @cached_property
    def _rounding(self) -> float:
        """The rounding of a sum of rows under weights that add up to one."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)


def _softmax(xp: Any, scores: Array) -> tuple[Array, Array]:
    """Probabilities, and the logarithm of the sum of exponentials, as a column."""
    top = xp.max(scores, axis=1, keepdims=True)
    powers = xp.exp(scores - top)
    total = xp.sum(powers, axis=1, keepdims=True)
    return powers / total, xp.log(total) + top


# Tables of a block of rows by the problems that there are at a time.
_TABLES = 8
# Curvatures of all rows and problems are held, in single precision, up to this share of the rows.
_HELD_SHARE = 1 / 8
_ARMIJO = 1e-4
# How often a step is shortened.
_TRIALS = 20

_Columns = NDArray[np.intp]


@dataclass
class _Point:
    """What is known at some coefficients and intercepts, one entry per problem."""

    coef: Floats  # (n_problems, width)
    intercept: Floats
    value: Floats  # the loss without the penalty
    gradient: Floats  # of the objective in the coefficients
    pull: Floats  # of the loss in the intercept
    level: Floats  # Σκ p (1 − p)
    objective: Floats
    gap: Floats
    gain: Floats  # at least
    wanted: Floats  # the gap that is small enough

    def take(self, columns: _Columns) -> Self:
        """Some of the problems."""
        return type(self)(*(getattr(self, field.name)[columns] for field in fields(self)))

    def put(self, columns: _Columns, other: Self) -> None:
        """Replace some of the problems."""
        for field in fields(self):
            getattr(self, field.name)[columns] = getattr(other, field.name)


class StreamedBinary:
    """Newton's method for binary regressions that share rows, which are read a block at a time.

    Parameters
    ----------
    rows : TrainingRows
        Features, of NumPy.
    targets : ndarray of shape (n_targets, n_problems)
        Probabilities to reach.
    codes : ndarray of int of shape (n_samples,)
        Which row of `targets` is that of a sample.
    weights : ndarray of shape (n_samples, 1) or (n_samples, n_problems)
        How much each sample counts; columns sum to one.
    tol : float
        Gap to reach, as a share of the objective and of the gain.
    max_iter : int
        Largest number of Newton steps.
    """

    def __init__(
        self,
        rows: TrainingRows,
        targets: Floats,
        codes: NDArray[np.intp],
        weights: Floats,
        tol: float,
        max_iter: int,
    ) -> None:
        self.rows, self.targets, self.codes, self.weights = rows, targets, codes, weights
        self.tol, self.max_iter = tol, max_iter
        self.n_problems = targets.shape[1]
        mass = np.zeros((len(targets), weights.shape[1]))
        np.add.at(mass, codes, weights)
        share = (mass * targets).sum(axis=0)
        #: The best intercepts where all coefficients are zero.
        self.start: Floats = np.log(share) - np.log1p(-share)
        softplus = np.log1p(np.exp(-np.abs(self.start))) + np.maximum(self.start, 0)
        self.at_zero = softplus - share * self.start

    @cached_property
    def mean(self) -> Floats:
        """Mean of the rows, as a row."""
        total = np.zeros((1, self.rows.shape[1]))
        for _, block in self._blocks(np.float64):
            total += block.sum(axis=0, keepdims=True)
        return total / self.rows.shape[0]

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the rows' covariance; they serve as preconditioner."""
        width, dtype = self.rows.shape[1], self.rows.single.dtype
        gram = np.zeros((width, width), dtype=dtype)
        for _, block in self._centered(dtype):
            gram += block.T @ block
        gram /= self.rows.shape[0]
        with one_blas_thread():
            values, vectors = np.linalg.eigh(gram)
        return np.maximum(values, 0).astype(np.float64), vectors

    def solve(self, alpha: float, coef: Floats, intercept: Floats) -> Solution:
        """Minimise from a start."""
        every = np.arange(self.n_problems)
        dtype = self._dtype(alpha)
        point = self._settled(alpha, every, coef, intercept[0], dtype)
        is_exact = np.full(self.n_problems, dtype == np.float64)
        stalled = np.zeros(self.n_problems, dtype=np.intp)
        n_iter = 0
        while True:
            solved = (point.gap <= point.wanted) | (stalled >= 3) | (n_iter == self.max_iter)
            open_ = np.flatnonzero(~solved)
            # What looks solved is measured; where it is not solved after all, every open problem
            # goes on in double precision.
            some_exact = bool(is_exact[open_].any())
            doubtful = np.flatnonzero(~is_exact & (solved | some_exact))
            if len(doubtful):
                part = point.take(doubtful)
                exact = self._settled(alpha, doubtful, part.coef, part.intercept, np.float64)
                point.put(doubtful, exact)
                is_exact[doubtful], stalled[doubtful] = True, 0
                continue
            if not len(open_):
                break
            dtype = np.float64 if some_exact else self._dtype(alpha)
            before = point.take(open_)
            after, failed = self._stepped(alpha, open_, before, dtype)
            point.put(open_, after)
            is_exact[open_] = dtype == np.float64
            n_iter += 1
            still = after.objective >= before.objective * (1 - 1e-14)
            still &= after.gap > 0.5 * before.gap
            stalled[open_] = np.where(failed, 3, np.where(still, stalled[open_] + 1, 0))
        return Solution(
            point.coef,
            point.intercept[None, :],
            alpha,
            point.objective[None, :],
            point.gap[None, :],
            point.gain[None, :],
            point.wanted[None, :],
            n_iter,
        )

    def _dtype(self, alpha: float) -> Any:
        """Single precision, unless it could not tell the penalty from zero."""
        is_noise = alpha <= SINGLE_NOISE * self.spectrum[0][-1]
        return np.float64 if is_noise else self.rows.single.dtype

    # One pass over the rows each.

    def _blocks(self, dtype: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Rows in a dtype, a block at a time."""
        X = self.rows.X
        row_bytes = 8 * (2 * X.shape[1] + _TABLES * self.n_problems)
        for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)):
            yield rows, np.asarray(X[rows, :]).astype(dtype, copy=False)

    def _centered(self, dtype: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
        mean = self.mean.astype(dtype)
        for rows, block in self._blocks(dtype):
            yield rows, block - mean

    def _at(
        self, columns: _Columns, coef: Floats, intercept: Floats, dtype: Any
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The loss, its slopes in coefficients and intercept, its curvature, and Σ|κ (p − t)|."""
        gradient = np.zeros(coef.shape)
        value, pull, level, total = np.zeros((4, len(columns)))
        turned, targets = coef.T.astype(dtype), self.targets[:, columns]
        for rows, block in self._centered(dtype):
            scores = (block @ turned).astype(np.float64, copy=False) + intercept
            aims, weights = targets[self.codes[rows]], self._weights(rows, columns)
            small = np.exp(-np.abs(scores))  # neither overflows nor loses what log1p needs
            losses = np.log1p(small) + np.maximum(scores, 0) - aims * scores
            value += (weights * losses).sum(axis=0)
            small /= 1 + small
            probabilities = np.where(scores < 0, small, 1 - small)
            level += (weights * (probabilities * (1 - probabilities))).sum(axis=0)
            residual = weights * (probabilities - aims)
            pull += residual.sum(axis=0)
            total += np.abs(residual).sum(axis=0)
            gradient += residual.astype(dtype, copy=False).T @ block
        return value, gradient, pull, level, total

    def _curvatures(self, columns: _Columns, point: _Point, dtype: Any) -> list[NDArray[Any]]:
        """κ p (1 − p), one table per block; none where they are too large to be held."""
        if len(columns) > _HELD_SHARE * self.rows.shape[1]:
            return []
        single = self.rows.single.dtype
        return [
            self._curvature(rows, block, columns, point, dtype).astype(single, copy=False)
            for rows, block in self._centered(dtype)
        ]

    def _curvature(
        self, rows: slice, block: NDArray[Any], columns: _Columns, point: _Point, dtype: Any
    ) -> NDArray[Any]:
        scores = block @ point.coef.T.astype(dtype) + point.intercept.astype(dtype)
        small = np.exp(-np.abs(scores))
        return self._weights(rows, columns).astype(dtype) * (small / (1 + small) ** 2)

    def _curved(
        self,
        columns: _Columns,
        point: _Point,
        held: list[NDArray[Any]],
        which: _Columns,
        search: Floats,
        turn: Floats,
        dtype: Any,
    ) -> tuple[Floats, Floats]:
        """The Hessian of the loss times a direction, for some of the columns."""
        product, pull = np.zeros(search.shape), np.zeros(turn.shape)
        down, along = search.T.astype(dtype), turn.astype(dtype)
        part = None if held else point.take(which)
        for at, (rows, block) in enumerate(self._centered(dtype)):
            moved = block @ down + along
            if part is None:
                moved *= held[at][:, which]
            else:
                moved *= self._curvature(rows, block, columns[which], part, dtype)
            product += moved.T @ block
            pull += moved.sum(axis=0, dtype=np.float64)
        return product, pull

    def _weights(self, rows: slice, columns: _Columns) -> Floats:
        weights = self.weights[rows]
        return weights if weights.shape[1] == 1 else weights[:, columns]

    # Steps.

    def _settled(
        self, alpha: float, columns: _Columns, coef: Floats, intercept: Floats, dtype: Any
    ) -> _Point:
        """A point with the best intercepts: where a problem looks solved, to rounding."""
        found = [x.copy() for x in (intercept, *self._at(columns, coef, intercept, dtype))]
        length = np.ones(len(columns))
        for _ in range(MAX_INTERCEPT_STEPS):
            point = self._certified(alpha, columns, coef, found)
            level = np.where(point.level > 0, point.level, 1.0)
            least = np.where(point.gap <= point.wanted, WORTH, ROUGH_WORTH)
            # What the change is worth, to second order.
            worth = 0.5 * point.pull**2 / level
            moves = worth > np.maximum(least * self.tol, 1e-15) * point.objective
            some = np.flatnonzero(moves)
            if not len(some):
                break
            trial = (point.intercept - length * point.pull / level)[some]
            renewed = self._at(columns[some], coef[some], trial, dtype)
            better = renewed[0] <= point.value[some] * (1 + 1e-14)
            for old, new in zip(found, (trial, *renewed), strict=True):
                old[some[better]] = new[better]
            length[some] = np.where(better, 1.0, length[some] / 2)
        return self._certified(alpha, columns, coef, found)

    def _certified(
        self, alpha: float, columns: _Columns, coef: Floats, found: list[Floats]
    ) -> _Point:
        """A point, with what was gained there and the gap that is small enough."""
        intercept, value, gradient, pull, level, total = found
        penalty = 0.5 * alpha * (coef * coef).sum(axis=1)
        gradient = gradient + alpha * coef
        gap = (gradient * gradient).sum(axis=1) / (2 * alpha)
        goal = Goal(self.tol, self.at_zero[columns], (self._rounding * total) ** 2 / (2 * alpha))
        state = value + penalty, gap, penalty
        gain, wanted = (np.asarray(f(*state)) for f in (goal.gain, goal.wanted))
        return _Point(
            coef.copy(), intercept, value, gradient, pull, level, state[0], gap, gain, wanted
        )

    def _stepped(
        self, alpha: float, columns: _Columns, point: _Point, dtype: Any
    ) -> tuple[_Point, NDArray[np.bool_]]:
        """The point after a Newton step, and which problems found no lower objective."""
        step, shift = self._direction(alpha, columns, point, dtype)
        fall = (point.gradient * step).sum(axis=1) + point.pull * shift
        length = np.ones(len(columns))
        out, open_ = point.take(np.arange(len(columns))), np.arange(len(columns))
        for _ in range(_TRIALS):
            coef = point.coef[open_] + length[open_, None] * step[open_]
            intercept = point.intercept[open_] + length[open_] * shift[open_]
            trial = self._settled(alpha, columns[open_], coef, intercept, dtype)
            start, expected = point.objective[open_], (length * fall)[open_]
            fell = trial.objective <= start + _ARMIJO * expected
            out.put(open_[fell], trial.take(np.flatnonzero(fell)))
            # The minimum of the parabola through what is known.
            curved = np.where(fell, 1.0, trial.objective - start - expected)
            length[open_] *= np.clip(-0.5 * expected / curved, 0.1, 0.5)
            open_ = open_[~fell]
            if not len(open_):
                break
        return out, np.isin(np.arange(len(columns)), open_)

    def _direction(
        self, alpha: float, columns: _Columns, point: _Point, dtype: Any
    ) -> tuple[Floats, Floats]:
        """Newton directions of coefficients and intercepts, by conjugate gradients."""
        values, vectors = self.spectrum
        inverse = 1 / (point.level[:, None] * values + alpha)
        level = np.where(point.level > 0, point.level, 1.0)
        excess = np.asarray(
            Goal(self.tol, self.at_zero[columns]).excess(point.objective, point.gap)
        )
        # The last step need not be more exact than the tolerance asks.
        forcing = np.minimum(np.sqrt(excess), FORCING) ** 2
        forcing = np.maximum(forcing, np.minimum(0.1 * self.tol / excess, FORCING**2))
        close = LAST * 2 * alpha * point.wanted
        held = self._curvatures(columns, point, dtype)

        def guided(residual: Floats, which: Any) -> Floats:
            return ((residual @ vectors) * inverse[which]) @ vectors.T

        residual, rest = -point.gradient, -point.pull
        search, turn = guided(residual, slice(None)), rest / level
        step, shift = np.zeros_like(residual), np.zeros_like(rest)
        power = (residual * search).sum(axis=1) + rest * turn
        enough = forcing * power
        for _ in range(MAX_CG):
            is_open = (power > enough) & ((residual * residual).sum(axis=1) > close)
            which = np.flatnonzero(is_open)
            if not len(which):
                break
            down, along = search[which], turn[which]
            product, pull = self._curved(columns, point, held, which, down, along, dtype)
            product += alpha * down
            curved = (down * product).sum(axis=1) + along * pull
            length = np.where(curved > 0, power[which] / np.where(curved > 0, curved, 1.0), 0.0)
            step[which] += length[:, None] * down
            shift[which] += length * along
            residual[which] -= length[:, None] * product
            rest[which] -= length * pull
            guide, lead = guided(residual[which], which), rest[which] / level[which]
            renewed = (residual[which] * guide).sum(axis=1) + rest[which] * lead
            again = renewed / power[which]
            search[which], turn[which] = guide + again[:, None] * down, lead + again * along
            # Where the curvature is lost in rounding there is nothing more to find.
            power[which] = np.where(curved > 0, renewed, 0.0)
        return step, shift

    @cached_property
    def _rounding(self) -> float:
        """The rounding of a sum of rows under weights that add up to one."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)
