"""Binary logistic regressions of many rows: no table of rows by problems is ever held.

The method is that of :class:`~zslearn.solvers._logistic_newton.Newton`, with three differences.
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
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._gain import Goal
from zslearn.solvers._logistic_newton import (
    FORCING,
    LAST,
    MAX_CG,
    MAX_INTERCEPT_STEPS,
    ROUGH_WORTH,
    SINGLE_NOISE,
    WORTH,
)
from zslearn.solvers._logistic_points import Solution
from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Floats, block_budget, one_blas_thread, row_blocks

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
        """Minimise from a start.

        Parameters
        ----------
        alpha : float
            Weight of the penalty.
        coef : ndarray of shape (n_problems, width)
            Coefficients to start with.
        intercept : ndarray of shape (1, n_problems)
            Their intercepts.

        Returns
        -------
        Solution
            With its certificate.
        """
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
