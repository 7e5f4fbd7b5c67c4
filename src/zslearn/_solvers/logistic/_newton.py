"""Newton's method for logistic losses, with the intercepts eliminated; see `_logistic`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._solvers._gain import Goal
from zslearn._solvers.logistic._losses import (
    CentredRows,
    Hessian,
    Loss,
    SoftmaxLoss,
    nonzero,
    take_columns,
)
from zslearn._utils._array import Array, Floats, take_rows, to_numpy

# Newton directions of logistic losses by conjugate gradients; see `_logistic`.
#
# Vectors are tables of one column per problem or class, so that both products with the rows, Z D
# and
# Zᵀ(Z D), run over memory in its order.

# Conjugate gradients end here at the latest; the line search makes any direction safe.
MAX_CG = 100
# Problems that are solved are left out of the products when so much of the work is theirs.
_SPARED = 0.2


@dataclass(frozen=True)
class NewtonEquation:
    """Hessian · step = −gradient, in the eigenvectors of the rows.

    Parameters
    ----------
    rows : array of shape (n_samples, width)
        The rows in the eigenvectors.
    loss : Loss
        Which says what a problem is.
    hessian : Hessian
        Of the loss in the scores.
    alpha : float
        Weight of the penalty.
    inverse : array of shape (width, n_columns)
        The preconditioner, a diagonal.
    gradient : array of shape (width, n_columns)
        All in the dtype of the rows.
    n_flat : int, default=0
        So many of the first eigenvectors have the preconditioner for their Hessian.
    """

    rows: Array
    loss: Loss
    hessian: Hessian
    alpha: float
    inverse: Array
    gradient: Array
    n_flat: int = 0

    def solve(self, forcing: Array, close: Array) -> tuple[Array, Array, Array]:
        """Solve inexactly, each problem until it is accurate enough."""
        if self.n_flat:
            return self._solve_apart(forcing, close)
        xp, total = self.loss.xp, self.loss.over_samples
        residual = -self.gradient
        guided = self.inverse * residual
        power = total(residual * guided)
        n_columns = residual.shape[1]
        state = _State(
            hessian=self.hessian,
            inverse=self.inverse,
            residual=residual,
            search=guided,
            step=xp.zeros_like(residual),
            moved=xp.zeros_like(self.rows[:, :1]) + xp.zeros_like(residual[:1, :]),
            shift=xp.zeros_like(residual[:1, :]),
            power=power,
            enough=xp.astype(forcing, power.dtype) * power,
            close=xp.astype(close, power.dtype),
        )
        columns = np.arange(n_columns)
        done: list[tuple[NDArray[np.intp], _State]] = []
        for _ in range(MAX_CG):
            squares = total(state.residual * state.residual)
            open_ = (state.power > state.enough) & (squares > state.close)
            is_open = to_numpy(open_)[0]
            if not is_open.any():
                break
            if self.loss.separate and is_open.mean() <= 1 - _SPARED:
                rest, keep = np.flatnonzero(~is_open), np.flatnonzero(is_open)
                done.append((columns[rest], state.take(rest)))
                columns, state, open_ = columns[keep], state.take(keep), take_columns(open_, keep)
            state = self._next(state, open_)
        done.append((columns, state))
        if len(done) == 1:
            return state.step, state.moved, state.shift
        order = np.argsort(np.concatenate([which for which, _ in done]))
        step, moved, shift = (
            take_columns(xp.concat([getattr(part, name) for _, part in done], axis=1), order)
            for name in ("step", "moved", "shift")
        )
        return step, moved, shift

    def _solve_apart(self, forcing: Array, close: Array) -> tuple[Array, Array, Array]:
        """Conjugate gradients in the last eigenvectors, the preconditioner in the first."""
        xp, n_flat = self.loss.xp, self.n_flat
        flat = -self.inverse[:n_flat, :] * self.gradient[:n_flat, :]
        moved = self.rows[:, :n_flat] @ flat
        shift = -self.hessian.intercept_solve(
            xp.sum(self.hessian.times(moved), axis=0, keepdims=True)
        )
        moved = moved + shift
        if n_flat == self.rows.shape[1]:
            return flat, moved, shift
        rows = self.rows[:, n_flat:]
        # What the first do to the gradient along the last.
        gradient = self.gradient[n_flat:, :] + xp.matrix_transpose(rows) @ self.hessian.times(moved)
        inverse = self.inverse[n_flat:, :]
        rest = replace(self, rows=rows, inverse=inverse, gradient=gradient, n_flat=0)
        step, *moves = rest.solve(forcing, close)
        return xp.concat([flat, step], axis=0), moved + moves[0], shift + moves[1]

    def _next(self, state: _State, open_: Array) -> _State:
        """One step of conjugate gradients for the problems that are open."""
        xp, total = self.loss.xp, self.loss.over_samples
        product, scores, shifted = self._multiply(state.hessian, state.search)
        curved = total(state.search * product)
        length = xp.where(open_ & (curved > 0), state.power / nonzero(curved), 0 * state.power)
        residual = state.residual - length * product
        guided = state.inverse * residual
        renewed = total(residual * guided)
        turn = xp.where(open_, renewed / nonzero(state.power), 0 * renewed)
        return replace(
            state,
            residual=residual,
            search=guided + turn * state.search,
            step=state.step + length * state.search,
            moved=state.moved + length * scores,
            shift=state.shift + length * shifted,
            power=renewed,
        )

    def _multiply(self, hessian: Hessian, direction: Array) -> tuple[Array, Array, Array]:
        """The Hessian of F times a direction, and what this does to scores and intercepts.

        It is that of f, after the intercepts have followed the change of the scores.
        """
        xp, Z = self.loss.xp, self.rows
        scores = Z @ direction
        pull = xp.sum(hessian.times(scores), axis=0, keepdims=True)
        shift = -hessian.intercept_solve(pull)
        scores = scores + shift
        product = xp.matrix_transpose(Z) @ hessian.times(scores)
        return product + self.alpha * direction, scores, shift


@dataclass(frozen=True)
class _State:
    """Where conjugate gradients are; every array has one column per problem or class."""

    hessian: Hessian
    inverse: Array
    residual: Array
    search: Array
    step: Array
    moved: Array
    shift: Array
    power: Array
    enough: Array
    close: Array

    def take(self, columns: NDArray[np.intp]) -> _State:
        """Some of the problems."""
        parts: dict[str, Any] = {
            field.name: take_columns(getattr(self, field.name), columns)
            for field in fields(self)
            if field.name != "hessian"
        }
        return _State(hessian=self.hessian.take(columns), **parts)


# Where Newton's method for logistic losses is, and where it ended; see `_logistic_newton`.


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


class Point(NamedTuple):
    """What is known at one W, with its best intercepts."""

    coef: Array  # (n_columns, width), in the eigenvectors of the rows
    unturned: Array  # the same in the coordinates of the rows, where the point was measured
    intercept: Array  # (1, n_columns)
    scores: Array  # (n_samples, n_columns)
    probabilities: Array
    slope: Array  # (width, n_columns), the gradient in the eigenvectors; zeros where none is needed
    value: Array  # (1, n_problems), the loss without the penalty
    objective: Array
    gap: Array
    gain: Array  # at least
    wanted: Array  # the gap that is small enough

    def part(self, columns: NDArray[np.intp]) -> Point:
        """Some of the problems."""
        coef, unturned = (take_rows(item, columns) for item in self[:2])
        return Point(coef, unturned, *(take_columns(item, columns) for item in self[2:]))


def solution_at(point: Point, alpha: float, n_iter: int) -> Solution:
    """A measured point as the solution under a penalty."""
    return Solution(
        point.unturned,
        point.intercept,
        alpha,
        point.objective,
        point.gap,
        point.gain,
        point.wanted,
        n_iter,
    )


def joined(parts: Sequence[tuple[NDArray[np.intp], Point]]) -> Point:
    """Points of different columns as one, in the order of the columns."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([columns for columns, _ in parts]))
    points = [point for _, point in parts]
    xp = compat.array_namespace(points[0].coef)
    by_row = zip(*(point[:2] for point in points), strict=True)
    coef, unturned = (take_rows(xp.concat(list(x), axis=0), order) for x in by_row)
    by_column = zip(*(point[2:] for point in points), strict=True)
    return Point(
        coef, unturned, *(take_columns(xp.concat(list(x), axis=1), order) for x in by_column)
    )


def side_by_side(solutions: Sequence[Solution]) -> Solution:
    """Solutions of different columns as one."""
    first = solutions[0]
    if len(solutions) == 1:
        return first
    xp = compat.array_namespace(first.coef)
    by_column = {
        name: xp.concat([getattr(solution, name) for solution in solutions], axis=1)
        for name in ("intercept", "objective", "gap", "gain", "wanted")
    }
    return Solution(
        coef=xp.concat([solution.coef for solution in solutions], axis=0),
        alpha=first.alpha,
        n_iter=max(solution.n_iter for solution in solutions),
        **by_column,
    )


# Where Newton's method for a softmax starts: at the best point of a plane; see `_logistic`.

# Newton steps on the plane at most; a change of lengths that ends them.
_MAX_STEPS = 5
_SMALL = 0.05

#: Coefficients, intercepts, scores.
Place = tuple[Array, Array, Array]


def best_on_plane(loss: SoftmaxLoss, alpha: float, place: Place, steps: Sequence[Place]) -> Place:
    """The best place that some steps lead to, by Newton's method in their lengths.

    Tables of rows by classes are all that it takes, no product with the rows.
    """
    xp = loss.xp
    vectors = xp.stack([xp.reshape(x[0], (-1,)) for x in (place, *steps)])
    squares = alpha * to_numpy(vectors @ xp.matrix_transpose(vectors)).astype(np.float64)
    moves = [step[2] for step in steps]
    lengths, best, lowest = np.zeros(len(steps)), np.zeros(len(steps)), np.inf
    for _ in range(_MAX_STEPS):
        value, first, second = _plane(loss, place[2], moves, lengths)
        at = np.concatenate([[1.0], lengths])
        value += 0.5 * at @ squares @ at
        # Newton's method may overshoot: half of the way back is below, as the objective is convex.
        if not value <= lowest:
            lengths = 0.5 * (lengths + best)
            continue
        best, lowest = lengths, value
        first, second = first + squares[1:] @ at, second + squares[1:, 1:]
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            break
        change = -np.linalg.lstsq(second, first, rcond=1e-10)[0]
        if np.abs(change).max() < _SMALL * (1 + np.abs(lengths).max()):
            break
        lengths = lengths + change
    coef, intercept, scores = place
    for length, step in zip(best.tolist(), steps, strict=True):
        coef, intercept = coef + length * step[0], intercept + length * step[1]
        scores = scores + length * step[2]
    return coef, intercept, scores


def _plane(
    loss: SoftmaxLoss, scores: Array, moves: Sequence[Array], lengths: Floats
) -> tuple[float, Floats, Floats]:
    """The loss where scores have changed along several moves, by so much of each."""
    xp, k = loss.xp, len(moves)
    value, first, second = 0.0, np.zeros(k), np.zeros((k, k))
    for rows in loss.blocks():
        weights, targets = loss.weights[rows, :], loss.targets[rows, :]
        changes = [move[rows, :] for move in moves]
        block = scores[rows, :]
        for length, change in zip(lengths.tolist(), changes, strict=True):
            block = block + length * change
        top = xp.max(block, axis=1, keepdims=True)
        powers = xp.exp(block - top)
        total = xp.sum(powers, axis=1, keepdims=True)
        wanted = xp.vecdot(targets, block)[:, None]
        value += float(xp.sum(weights * (xp.log(total) + top - wanted)))
        shares = powers / total
        apart = []
        for i, change in enumerate(changes):
            mean = xp.vecdot(shares, change)[:, None]
            first[i] += float(xp.sum(weights * (mean - xp.vecdot(targets, change)[:, None])))
            apart.append(change - mean)
        shares = shares * weights
        for i, j in combinations_with_replacement(range(k), 2):
            second[i, j] += float(xp.sum(xp.vecdot(shares * apart[i], apart[j])))
    return value, first, np.triu(second) + np.triu(second, 1).T


# The residual of the Newton equation, in its preconditioned norm, is reduced at least this much.
FORCING = 0.1
# A residual whose own gap is this share of the one that is wanted ends conjugate gradients.
LAST = 0.4
# The curvature of the loss that single precision cannot tell from zero, as a share of the largest.
SINGLE_NOISE = 1e-7
MAX_INTERCEPT_STEPS = 20
MAX_LENGTHS = 30
# What a change of the intercepts must be worth, in units of `tol` and the objective: where a point
# is measured, and on the way there.
WORTH, ROUGH_WORTH = 1e-8, 1e-3


# Eigenvectors along which the loss curves by less than one part in so many of the penalty have the
# penalty and their mean curvature as Hessian; conjugate gradients leave them out. Where a step then
# leaves more than this share of the gap, eight times as many parts.
_FLAT, _SLOW, _WIDER = 30.0, 0.2, 8.0
# A gap of at most so many that are wanted is brought below one by a step: what it leads to is
# measured at once, and not first in single precision.
_NEAR = 50.0
# So many steps of the intercepts have the same Hessian, which they hardly change.
_SAME_HESSIAN = 3

# Coefficients in the eigenvectors, intercepts and scores; the first seven entries of a point.
_Place = tuple[Array, Array, Array]
_Shown = tuple[Array, Array, Array, Array, Array, Array, Array]


class Newton:
    """Newton's method for the problems of one set of rows.

    On the way to a solution scores follow the steps, and gradients come from the rows in single
    precision where these are many. What looks solved is measured anew from the rows in double
    precision; where it is not solved after all, every further step is.
    """

    def __init__(self, rows: CentredRows, tol: float, max_iter: int) -> None:
        self.centred, self.rows, self.tol, self.max_iter = rows, rows.rows, tol, max_iter
        self.xp = rows.xp

    @property
    def mean(self) -> Array:
        """Mean of the rows, as a row."""
        return self.centred.mean

    def path(
        self,
        loss: Loss,
        alphas: Sequence[float],
        guides: Sequence[tuple[Array, Array]] | None = None,
    ) -> list[Solution]:
        """Solutions for penalties that fall.

        Each starts from the one before, at the best point on the line from that before, or, where
        all columns are one problem, on the plane through the last three; or on that along which the
        coefficients and intercepts of a guide go.
        """
        xp, rows = self.xp, self.rows
        coef = rows.asarray(xp.zeros((loss.n_columns, rows.shape[1])))
        scores = rows.asarray(xp.zeros((rows.shape[0], 1))) + loss.start()
        last = [(coef, loss.start(), scores)]
        solutions: list[Solution] = []
        for i, alpha in enumerate(alphas):
            steps = [_from_to(*pair) for pair in pairwise(last)]
            if guides is not None:
                before = guides[i - 1] if i > 0 else None
                steps = [*steps[-1:], self._guided(loss, before, guides[i])]
            start = self._ahead(loss, alpha, last[-1], steps) if steps else last[-1]
            # Until the next penalty the last two places are enough.
            del steps
            point, n_iter = self._solve(loss, alpha, self._rough(loss, alpha, *start))
            kept = 1 if loss.separate or guides is not None else 2
            last = [*last[-kept:], (point.coef, point.intercept, point.scores)]
            solutions.append(solution_at(point, alpha, n_iter))
        return solutions

    def _guided(
        self, loss: Loss, before: tuple[Array, Array] | None, after: tuple[Array, Array]
    ) -> _Place:
        """Where a guide goes from one penalty to the next, and what this does to the scores.

        Before the first penalty there are the best intercepts alone.
        """
        xp, Z = self.xp, self.centred.single
        coef, intercept = (self.rows.asarray(x) for x in after)
        if before is not None:
            coef = coef - self.rows.asarray(before[0])
            intercept = intercept - self.rows.asarray(before[1])
        coef = self.rows.rotated(coef - xp.mean(coef, axis=0, keepdims=True))
        step = xp.astype(coef, Z.dtype) @ xp.astype(self.centred.spectrum[1], Z.dtype)
        # Intercepts of rows that are centred.
        shift = intercept[None, :] + self.mean @ xp.matrix_transpose(coef)
        shift = shift if before is not None else shift - loss.start()
        moved = xp.astype(Z @ xp.matrix_transpose(step), xp.float64) + shift
        return xp.astype(step, xp.float64), shift, moved

    def _unturned(self, coef: Array) -> Array:
        """Coefficients in the coordinates of the rows."""
        return coef @ self.xp.matrix_transpose(self.centred.spectrum[1])

    def _ahead(self, loss: Loss, alpha: float, place: _Place, steps: Sequence[_Place]) -> _Place:
        """The best place along some steps; the same where this is no better."""
        if isinstance(loss, SoftmaxLoss):
            return best_on_plane(loss, alpha, place, steps)
        coef, _, scores = place
        step, shift, moved = steps[-1]
        length = self._length(loss, alpha, coef, scores, step, moved)
        found = coef + length.T * step, place[1] + length * shift, scores + length * moved

        def objective(coef: Array, _: Array, scores: Array) -> Array:
            return loss.values(scores)[0] + 0.5 * alpha * loss.over_features(coef * coef).T

        return found if bool(self.xp.all(objective(*found) <= objective(*place))) else place

    def _solve(self, loss: Loss, alpha: float, point: Point) -> tuple[Point, int]:
        """Minimise from a start; problems that are solved are set aside."""
        open_ = np.arange(loss.n_columns)
        stalled = np.zeros(point.gap.shape[1], dtype=np.intp)
        done: list[tuple[NDArray[np.intp], Point]] = []
        rough, measured = self._is_single(alpha), False
        # Problems of their own are near at different times.
        direct = rough and not loss.separate
        n_iter, flat = 0, _FLAT
        while True:
            left = to_numpy(point.gap > point.wanted)[0] & (stalled < 3)
            if n_iter == self.max_iter:
                left[:] = False
            if not measured and not left.all():
                point, found = self._measure_some(loss, alpha, point, ~left)
                if n_iter < self.max_iter:
                    rough = rough and not (found & ~left).any()
                    stalled = np.where(found & ~left, 0, stalled)
                    left = left | found
            if not left.any():
                break
            if loss.separate and not left.all():
                rest, keep = np.flatnonzero(~left), np.flatnonzero(left)
                done.append((open_[rest], point.part(rest)))
                loss, point = loss.take(keep), point.part(keep)
                open_, stalled = open_[keep], stalled[keep]
            previous = point
            near = direct and bool(self.xp.all(point.gap <= _NEAR * point.wanted))
            point = self._stepped(loss, alpha, point, rough=rough, near=near, flat=flat)
            measured, direct = near or not rough, direct and not near
            n_iter += 1
            if bool(self.xp.any((point.gap > _SLOW * previous.gap) & (point.gap > point.wanted))):
                flat *= _WIDER
            # Rounding has the last word where neither the objective nor the gap moves.
            still = point.objective >= previous.objective * (1 - 1e-14)
            still = still & (point.gap > 0.5 * previous.gap)
            stalled = np.where(to_numpy(still)[0], stalled + 1, 0)
        done.append((open_, point))
        return joined(done), n_iter

    def _is_single(self, alpha: float) -> bool:
        """Whether steps are made in single precision."""
        is_noise = alpha <= SINGLE_NOISE * float(self.centred.spectrum[0][-1])
        return self.rows.single.dtype != self.xp.float64 and not is_noise

    def _turned(self, alpha: float) -> Array:
        """The rows in the eigenvectors, as steps under a penalty need them."""
        is_noise = alpha <= SINGLE_NOISE * float(self.centred.spectrum[0][-1])
        return self.centred.double if is_noise else self.centred.single

    def _measure_some(
        self, loss: Loss, alpha: float, point: Point, chosen: NDArray[np.bool_]
    ) -> tuple[Point, NDArray[np.bool_]]:
        """Measure some problems in double precision, and say which of them are not solved."""
        if loss.separate and not chosen.all():
            some, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
            part, rest = point.part(some), point.part(others)
            exact = self._measured(loss.take(some), alpha, part.coef, part.intercept)
            point = joined([(some, exact), (others, rest)])
        else:
            point = self._measured(loss, alpha, point.coef, point.intercept)
        return point, to_numpy(point.gap > point.wanted)[0] & chosen

    def _measured(self, loss: Loss, alpha: float, coef: Array, intercept: Array) -> Point:
        """A point and its certificate from the rows in double precision."""
        xp = self.xp
        if not loss.separate:
            # Probabilities do not change when all classes move alike; the penalty shrinks.
            coef = coef - xp.mean(coef, axis=0, keepdims=True)
        # Eigenvectors in single precision are not quite orthogonal: nothing here relies on it.
        unturned = self._unturned(coef)
        penalty = 0.5 * alpha * loss.over_features(unturned * unturned).T
        scores = self.centred.scores(unturned) + intercept
        intercept, scores, value, probabilities = self._settled(
            loss, scores, intercept, penalty, WORTH
        )
        residual = loss.residual(probabilities)
        gradient = self.centred.combine(residual) + alpha * unturned
        gap = loss.over_features(gradient * gradient).T / (2 * alpha)
        noise = (self.centred.rounding * loss.over_samples(xp.abs(residual))) ** 2 / (2 * alpha)
        shown = coef, unturned, intercept, scores, probabilities, xp.zeros_like(coef.T), value
        point = self._certified(loss, shown, penalty, gap, noise)
        if bool(xp.all(point.gap <= point.wanted)):
            return point
        return point._replace(slope=xp.matrix_transpose(gradient @ self.centred.spectrum[1]))

    def _rough(
        self, loss: Loss, alpha: float, coef: Array, intercept: Array, scores: Array
    ) -> Point:
        """A point whose scores are known, and its gap but for the rounding of turned rows."""
        xp = self.xp
        penalty = 0.5 * alpha * loss.over_features(coef * coef).T
        intercept, scores, value, probabilities = self._settled(
            loss, scores, intercept, penalty, ROUGH_WORTH
        )
        Z = self._turned(alpha)
        residual = xp.astype(loss.residual(probabilities), Z.dtype)
        slope = xp.astype(xp.matrix_transpose(Z) @ residual, xp.float64)
        slope = slope + alpha * coef.T
        gap = loss.over_samples(slope * slope) / (2 * alpha)
        shown = coef, coef, intercept, scores, probabilities, slope, value
        return self._certified(loss, shown, penalty, gap, xp.zeros_like(gap))

    def _certified(
        self, loss: Loss, shown: _Shown, penalty: Array, gap: Array, noise: Array
    ) -> Point:
        """A point, with what was gained there and the gap that is small enough."""
        objective = shown[-1] + penalty
        goal = Goal(self.tol, to_numpy(loss.at_zero), to_numpy(noise))
        state = tuple(map(to_numpy, (objective, gap, penalty)))
        gain, wanted = (self.rows.asarray(f(*state)) for f in (goal.gain, goal.wanted))
        return Point(*shown, objective, gap, gain, wanted)

    def _settled(
        self, loss: Loss, scores: Array, intercept: Array, penalty: Array, least: float
    ) -> tuple[Array, Array, Array, Array]:
        """The best intercepts, with the scores, the loss and the probabilities there."""
        xp, dtype = self.xp, self.rows.single.dtype
        value, probabilities = loss.values(scores)
        hessian = loss.hessian(probabilities, dtype)
        for number in range(MAX_INTERCEPT_STEPS):
            slope = loss.intercept_slope(probabilities)
            if number % _SAME_HESSIAN == _SAME_HESSIAN - 1:
                hessian = loss.hessian(probabilities, dtype)
            change = -xp.astype(hessian.intercept_solve(slope), xp.float64)
            # What the change is worth, to second order; a step of no worth would only be noise.
            worth = -0.5 * (slope * change if loss.separate else xp.sum(slope * change))
            wanted = worth > max(least * self.tol, 1e-15) * (value + penalty)
            if not bool(xp.any(wanted)):
                break
            change = xp.where(wanted, change, xp.zeros_like(change))
            change, value, probabilities = _descended(loss, scores, change, value, probabilities)
            intercept, scores = intercept + change, scores + change
        return intercept, scores, value, probabilities

    def _stepped(
        self, loss: Loss, alpha: float, point: Point, *, rough: bool, near: bool, flat: float
    ) -> Point:
        """The point after a Newton step of the best length; measured if it is near or not rough."""
        step, moved, shift = self._direction(loss, alpha, point, flat)
        if not rough and self._is_single(alpha):
            # Single precision was not enough: lengths must not depend on it, either.
            moved = self.centred.scores(self._unturned(step)) + shift
        length = self._length(loss, alpha, point.coef, point.scores, step, moved)
        coef, intercept = point.coef + length.T * step, point.intercept + length * shift
        if near or not rough:
            return self._measured(loss, alpha, coef, intercept)
        return self._rough(loss, alpha, coef, intercept, point.scores + length * moved)

    def _direction(
        self, loss: Loss, alpha: float, point: Point, flat: float
    ) -> tuple[Array, Array, Array]:
        """A Newton direction, what it does to the scores, and to the intercepts."""
        xp, values, Z = self.xp, self.centred.spectrum[0], self._turned(alpha)
        goal = Goal(self.tol, to_numpy(loss.at_zero))
        excess = self.rows.asarray(goal.excess(to_numpy(point.objective), to_numpy(point.gap)))
        # The last step need not be more exact than the tolerance asks.
        forcing = xp.clip(xp.sqrt(excess), min=0.0, max=FORCING) ** 2
        forcing = xp.maximum(forcing, xp.clip(0.1 * self.tol / excess, min=0.0, max=FORCING**2))
        level = loss.level(point.probabilities)
        # Eigenvalues rise.
        n_flat = int(xp.sum(xp.astype(flat * values * xp.max(level) < alpha, xp.int64)))
        equation = NewtonEquation(
            Z,
            loss,
            loss.hessian(point.probabilities, Z.dtype),
            alpha,
            inverse=xp.astype(1 / (values[:, None] * level + alpha), Z.dtype),
            gradient=xp.astype(point.slope, Z.dtype),
            n_flat=n_flat,
        )
        # The residual is what remains of the gradient where the loss is quadratic.
        step, *moves = equation.solve(forcing, LAST * 2 * alpha * point.wanted)
        moved, shift = (xp.astype(x, xp.float64) for x in moves)
        return xp.matrix_transpose(xp.astype(step, xp.float64)), moved, shift

    def _length(
        self, loss: Loss, alpha: float, coef: Array, scores: Array, step: Array, moved: Array
    ) -> Array:
        """The best length of each problem's step: the zero of a rising derivative."""
        xp = self.xp
        slope = alpha * loss.over_features(coef * step).T
        square = alpha * loss.over_features(step * step).T
        length = xp.ones_like(slope)
        low, high = xp.zeros_like(slope), xp.full_like(slope, xp.inf)
        derivatives = loss.line(scores, moved)
        for _ in range(MAX_LENGTHS):
            first, second = derivatives(length)
            first = first + slope + length * square
            second = second + square
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


def _from_to(before: _Place, after: _Place) -> _Place:
    coef, intercept, scores = (y - x for x, y in zip(before, after, strict=True))
    return coef, intercept, scores


def _descended(
    loss: Loss, scores: Array, change: Array, value: Array, probabilities: Array
) -> tuple[Array, Array, Array]:
    """A step of the intercepts, halved for each problem until it does no harm."""
    xp = compat.array_namespace(scores)
    length = xp.ones_like(value)
    for _ in range(30):
        renewed, found = loss.values(scores + length * change)
        worse = renewed > value * (1 + 1e-14)
        if not bool(xp.any(worse)):
            return length * change, renewed, found
        length = xp.where(worse, 0.5 * length, length)
    return xp.zeros_like(change), value, probabilities
