r"""ν-SVR of all targets, all settings and several kernels at once, on the device of the arrays.

The alternating direction method of multipliers solves the dual in β; it separates the constraint on
the sum from those on the sizes,

.. math:: x \leftarrow \arg\min_{\mathbf{1}^\top x = 0} \tfrac12 x^\top K x - y^\top x
          + \tfrac\rho2 \|x - z + u\|^2, \quad
          z \leftarrow \Pi_S(x + u), \quad u \leftarrow u + x - z,
          \quad S = \{|z_i| \le C, \; \textstyle\sum_i |z_i| \le C \nu n\}.

Every problem is a row with its own ρ. In the eigenvectors of K, which all problems share, x is a
division and the multiplier of its sum a single number. The projection shrinks values towards zero
by one threshold, which Newton's method updates in every step.

At intervals the projection on all constraints at once, with exact zeros and bounds, is certified:
with an exhausted budget the positive and the negative part are shrunk by a threshold each; if the
thresholds cross, the budget is not exhausted, and there is only one.

Interpolation solves many problems. All others pass through a batch of bounded size: solved rows
leave it and others enter, so that the device always has enough work. Rows with too many steps are
finished by pairs on the host. Only the array API standard is used, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._solvers.nu_svr._smo import PairSolver
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    block_length,
    on_device,
    row_blocks,
    to_numpy,
)

# Bytes of one array of the batch, of which about fifteen exist at a time, and of the solutions, if
# the device has that much free memory.
_BATCH_BYTES = 1 << 29
_RESULT_BYTES = 1 << 32
# Steps between certificates, and steps after which a problem is finished on the host.
_CHECK = 10
_STEPS = 200
# A bound counts as touched within this fraction of it.
_CLEAR = 1e-10

Ints = NDArray[np.intp]

_RELAXATION = 1.6
_FIRST_RHO = 0.3
# Newton steps for a threshold: an update, and the limit for an exact one.
_QUICK, _EXACT = 2, 40
# Steps between checks of convergence, each of which synchronises host and device.
_LOOK = 5
# Coefficients this close to a bound, in units of C, are set to it.
_SNAP = 1e-11


class Kernel:
    """A kernel in float64 with its eigenvectors."""

    def __init__(self, K: Array) -> None:
        self.K = K
        xp = compat.array_namespace(K)
        self.values, self.vectors = xp.linalg.eigh(K)
        self.transposed = xp.matrix_transpose(self.vectors)
        #: The vector of ones in the basis of the eigenvectors.
        self.ones = xp.sum(self.vectors, axis=0)

    def interpolant(self, Y: Array) -> Array | None:
        """Coefficients that reproduce targets up to a constant; None for a singular kernel."""
        xp = compat.array_namespace(Y)
        if not float(self.values[0]) > 1e-13 * float(self.values[-1]):
            return None
        by_one = (self.ones / self.values)[None, :] @ self.transposed
        beta = (Y @ self.vectors / self.values[None, :]) @ self.transposed
        beta = beta - by_one * (xp.sum(beta, axis=1, keepdims=True) / xp.sum(by_one))
        return beta - xp.mean(beta, axis=1, keepdims=True)


@dataclass(frozen=True)
class Problems:
    """Problems in the batch, one row each, grouped by kernel."""

    row: Array  # the row of the solution
    age: Array  # steps taken
    Y: Array  # targets
    C: Array  # bound of a coefficient
    budget: Array  # bound of the sum of their sizes
    rho: Array
    z: Array  # coefficients
    u: Array  # scaled multipliers
    inverse: Array  # 1 / (λ + ρ) for the eigenvalues λ
    mass: Array  # 1ᵀ(K + ρ)⁻¹1
    shrink: Array  # threshold of the latest projection
    kernels: tuple[tuple[Kernel, int], ...]  # with their numbers of rows

    @classmethod
    def new(
        cls, kernel: Kernel, row: Array, Y: Array, C: Array, budget: Array, length: Array
    ) -> Problems:
        """New problems of one kernel; the first ρ is ‖y‖ / ‖β‖, with an estimate of ‖β‖."""
        xp = compat.array_namespace(Y)
        zero, z = xp.zeros_like(C), xp.zeros_like(Y)
        largest = zero + xp.maximum(kernel.values[-1], xp.full_like(kernel.values[-1], 1e-300))
        rho = _FIRST_RHO * _norms(Y - xp.mean(Y, axis=1, keepdims=True)) / length
        rho = xp.minimum(xp.maximum(rho, 1e-8 * largest), 10 * largest)
        state = cls(
            row, xp.zeros_like(row), Y, C, budget, rho, z, z, z, zero, zero,
            ((kernel, Y.shape[0]),),
        )  # fmt: skip
        return state.weighted(rho)

    def weighted(self, rho: Array) -> Problems:
        """The same problems with other weights."""
        inverse = self.by_kernel(lambda kernel, rows: 1 / (kernel.values[None, :] + rho[rows, :]))
        mass = self.by_kernel(
            lambda kernel, rows: inverse[rows, :] @ (kernel.ones * kernel.ones)[:, None]
        )
        return replace(self, rho=rho, u=self.u * (self.rho / rho), inverse=inverse, mass=mass)

    def by_kernel(self, function: Callable[[Kernel, slice], Array]) -> Array:
        """Apply a function to the rows of each kernel and concatenate the results."""
        found, first = [], 0
        for kernel, number in self.kernels:
            found.append(function(kernel, slice(first, first + number)))
            first += number
        return found[0] if len(found) == 1 else compat.array_namespace(self.Y).concat(found, axis=0)

    def each_array(self, function: Callable[[str, Array], Array]) -> dict[str, Any]:
        """Apply a function to each array; the results by name."""
        names = [field.name for field in fields(self) if field.name != "kernels"]
        return {name: function(name, getattr(self, name)) for name in names}

    def take(self, positions: Array, numbers: Sequence[int]) -> Problems:
        """The rows at ascending positions, `numbers` of them for each kernel."""
        xp = compat.array_namespace(positions)
        pairs = zip(self.kernels, numbers, strict=True)
        kernels = tuple((kernel, number) for (kernel, _), number in pairs if number)
        arrays = self.each_array(lambda _, array: xp.take(array, positions, axis=0))
        return Problems(**arrays, kernels=kernels)

    def followed_by(self, others: Problems) -> Problems:
        """These problems, then others."""
        xp = compat.array_namespace(self.Y)
        kernels = list(self.kernels)
        for kernel, number in others.kernels:
            if kernels and kernels[-1][0] is kernel:
                number += kernels.pop()[1]
            kernels.append((kernel, number))
        arrays = self.each_array(
            lambda name, array: xp.concat([array, getattr(others, name)], axis=0)
        )
        return Problems(**arrays, kernels=tuple(kernels))


def step(state: Problems, *, balance: bool = False) -> Problems:
    """One step of all problems; `balance` adapts ρ where it is due."""
    x = state.z - state.u
    x *= state.rho
    x += state.Y
    x = state.by_kernel(lambda kernel, rows: _solved(kernel, state, x[rows, :], rows))
    v = _RELAXATION * x
    v += (1 - _RELAXATION) * state.z
    v += state.u
    shrink = _shrinkage(v, state)
    outer = state.C + shrink
    z = _clip(v, -outer, outer)
    z -= _clip(v, -shrink, shrink)
    v -= z
    after = replace(state, z=z, u=v, shrink=shrink, age=state.age + 1)
    return _balanced(after, x, state.z) if balance else after


def _solved(kernel: Kernel, state: Problems, right: Array, rows: slice) -> Array:
    """(K + ρ)⁻¹ of the right side minus the multiple of 1 that makes the sum zero."""
    right = right @ kernel.vectors
    inverse = state.inverse[rows, :]
    excess = ((right * inverse) @ kernel.ones[:, None]) / state.mass[rows, :]
    right -= excess * kernel.ones[None, :]
    right *= inverse
    return right @ kernel.transposed


def _shrinkage(v: Array, state: Problems) -> Array:
    """Update the t ≥ 0 for which clip(|v| − t, 0, C) is within the budget."""
    xp = compat.array_namespace(v)
    size, t = xp.abs(v), state.shrink
    zero = xp.zeros_like(t)
    for _ in range(_QUICK):
        left = size - t
        clipped = _clip(left, zero, state.C)
        excess = xp.sum(clipped, axis=1, keepdims=True) - state.budget
        inside = xp.sum(xp.astype(clipped == left, xp.int8), axis=1, keepdims=True)
        t = xp.maximum(
            t + excess / xp.astype(xp.maximum(inside, xp.ones_like(inside)), v.dtype), zero
        )
    return t


def _balanced(state: Problems, x: Array, before: Array) -> Problems:
    """Adapt ρ to the ratio of the relative primal and dual residuals."""
    xp = compat.array_namespace(x)
    primal = _norms(x - state.z) / (xp.maximum(_norms(x), _norms(state.z)) + 1e-12)
    fitted = state.by_kernel(lambda kernel, rows: x[rows, :] @ kernel.K)
    dual = state.rho * _norms(state.z - before)
    dual = dual / (xp.maximum(_norms(state.Y), _norms(fitted)) + 1e-12)
    ratio = xp.sqrt(primal / (dual + 1e-30))
    ratio = xp.minimum(xp.maximum(ratio, xp.full_like(ratio, 0.1)), xp.full_like(ratio, 10.0))
    # Increasingly rarely, since frequent changes prevent convergence.
    age = state.age[:, None]
    often, seldom = xp.remainder(age, 40) == 0, xp.remainder(age, 160) == 0
    due = (age <= 40) | ((age <= 160) & often) | seldom
    return state.weighted(xp.where(due, state.rho * ratio, state.rho))


class Certificate(NamedTuple):
    """Feasible points, and their violations of the optimality conditions."""

    z: Array
    intercept: Array
    epsilon: Array
    violation: Array
    feasible: Array  # whether the constraints hold up to rounding


def certify(state: Problems) -> Certificate:
    """Measure the optimality conditions at the nearest feasible points."""
    xp = compat.array_namespace(state.Y)
    C, half, z = state.C, state.budget / 2, _feasible(state)
    r = state.Y - state.by_kernel(lambda kernel, rows: z[rows, :] @ kernel.K)
    size = xp.abs(z)
    left = half - xp.sum(size, axis=1, keepdims=True) / 2
    tight = left <= 1e-11 * half
    up, down = z < C, z > -C
    negative, positive = z < 0, z > 0
    lowest, highest = xp.full_like(C, -np.inf), xp.full_like(C, np.inf)

    def largest(mask: Array) -> Array:
        return xp.max(xp.where(mask, r, lowest), axis=1, keepdims=True)

    def smallest(mask: Array) -> Array:
        return xp.min(xp.where(mask, r, highest), axis=1, keepdims=True)

    def mean(mask: Array, otherwise: Array) -> Array:
        weight = xp.astype(mask, r.dtype)
        count = xp.sum(weight, axis=1, keepdims=True)
        value = xp.sum(weight * r, axis=1, keepdims=True)
        return xp.where(
            count > 0, value / xp.where(count > 0, count, xp.ones_like(count)), otherwise
        )

    high, low = largest(up), smallest(down)
    high_negative, low_positive = largest(negative), smallest(positive)
    by_side = xp.maximum(high - low_positive, high_negative - low)
    violation = xp.where(tight, by_side, high - low)
    violation = xp.where(violation > 0, violation, xp.zeros_like(violation))
    inside = up & down
    upper = mean(inside & positive, _between(largest(~positive), smallest(~up)))
    lower = mean(inside & negative, _between(largest(~down), smallest(~negative)))
    centre = mean(inside, _between(high_negative, low_positive))
    intercept = xp.where(tight, (upper + lower) / 2, centre)
    epsilon = xp.where(tight & (upper > lower), (upper - lower) / 2, xp.zeros_like(upper))
    feasible = (
        (xp.max(size, axis=1, keepdims=True) <= C)
        & (left >= -1e-9 * half)
        & (xp.abs(xp.sum(z, axis=1, keepdims=True)) <= 1e-9 * half)
    )
    return Certificate(z, intercept[:, 0], epsilon[:, 0], violation[:, 0], feasible[:, 0])


def _feasible(state: Problems) -> Array:
    """The nearest points that meet all constraints, with exact zeros and bounds."""
    xp = compat.array_namespace(state.Y)
    v = state.z + state.u
    C, zero, half = state.C, xp.zeros_like(state.C), state.budget / 2
    top = _threshold(v, state.shrink, zero, C, half)
    bottom = _threshold(-v, state.shrink, zero, C, half)
    middle = _threshold(v, zero, -C, C, zero)
    z = _clip(v - top, zero, C) - _clip(-v - bottom, zero, C)
    z = xp.where(top + bottom >= 0, z, _clip(v - middle, -C, C))
    size = xp.abs(z)
    z = xp.where(size < _SNAP * C, xp.zeros_like(z), z)
    return xp.where(C - size < _SNAP * C, xp.sign(z) * C, z)


def _threshold(v: Array, start: Array, low: Array, high: Array, total: Array) -> Array:
    """The t for which clip(v − t, low, high) sums to `total` in each row.

    Newton's method takes few steps on this piecewise linear function; bisection replaces steps that
    leave the bracket.
    """
    xp = compat.array_namespace(v)
    left = xp.min(v, axis=1, keepdims=True) - high
    right = xp.max(v, axis=1, keepdims=True) - low
    t = xp.minimum(xp.maximum(start, left), right)
    best, least = t, xp.full_like(t, np.inf)
    enough = 1e-13 * xp.maximum(total, high)
    for number in range(_EXACT):
        w = v - t
        clipped = _clip(w, low, high)
        excess = xp.sum(clipped, axis=1, keepdims=True) - total
        inside = xp.sum(xp.astype(clipped == w, xp.int8), axis=1, keepdims=True)
        slope = xp.astype(inside, v.dtype)
        better = xp.abs(excess) < least
        best, least = xp.where(better, t, best), xp.where(better, xp.abs(excess), least)
        if number % _LOOK == _LOOK - 1 and bool(xp.all(least <= enough)):
            break
        left = xp.where(excess > 0, t, left)
        right = xp.where(excess > 0, right, t)
        t = t + excess / xp.maximum(slope, xp.ones_like(slope))
        halve = (slope == 0) | (t <= left) | (t >= right)
        t = xp.where(halve, (left + right) / 2, t)
    return best


def _between(a: Array, b: Array) -> Array:
    """The middle of two bounds, one of which may be missing."""
    xp = compat.array_namespace(a)
    a_there, b_there = xp.isfinite(a), xp.isfinite(b)
    a = xp.where(a_there, a, b)
    b = xp.where(b_there, b, a)
    return (a + b) / 2


def _norms(x: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))


def _clip(x: Array, low: Array, high: Array) -> Array:
    xp = compat.array_namespace(x)
    if compat.is_torch_namespace(xp):
        return x.clamp(low, high)
    return xp.minimum(xp.maximum(x, low), high)


class _Unit(NamedTuple):
    """One setting over one kernel."""

    kernel: int
    C: float
    nu: float


def solve_kernels(
    kernels: Sequence[Any],
    Y: Any,
    penalties: list[float],
    shares: list[float],
    *,
    tol: float,
    max_iter: int,
    n_threads: int,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Solve every pair of settings for every target, over each of several kernels."""
    xp = compat.array_namespace(*kernels, Y)
    for K in kernels:
        if len(K.shape) != 2 or K.shape[0] != K.shape[1] or K.shape[0] != Y.shape[0]:
            raise ValueError(
                f"K must be square and Y have as many rows; got shapes {tuple(K.shape)} and "
                f"{tuple(Y.shape)}."
            )
    if not all(bool(xp.all(xp.isfinite(array))) for array in (*kernels, Y)):
        raise ValueError("K and Y must be finite.")
    targets = xp.asarray(xp.matrix_transpose(xp.astype(Y, xp.float64)), copy=True)
    units = [_Unit(k, C, nu) for k in range(len(kernels)) for C in penalties for nu in shares]
    known: dict[int, Kernel] = {}
    share = block_budget(Y) if on_device(Y) else _RESULT_BYTES
    for block in row_blocks(len(units), 8 * Y.shape[0] * Y.shape[1], min(_RESULT_BYTES, share)):
        some = units[block]
        wanted = {unit.kernel for unit in some}
        known = {k: known.get(k) or Kernel(xp.astype(kernels[k], xp.float64)) for k in wanted}
        grid = Grid(known, targets, some, tol, max_iter, min(_BATCH_BYTES, share // 4))
        grid.solve(n_threads)
        for number, unit in enumerate(some):
            yield unit.kernel, grid.setting(number)


class Grid:
    """The problems of all units and targets, one row each, and their solutions."""

    def __init__(
        self,
        kernels: dict[int, Kernel],
        targets: Array,
        units: Sequence[_Unit],
        tol: float,
        max_iter: int,
        batch_bytes: int,
    ) -> None:
        self.kernels, self.targets, self.units, self.tol = kernels, targets, units, tol
        self.max_iter, self.batch_bytes = max_iter, batch_bytes
        # Rows that took too many steps, and their current feasible points.
        self.late: list[tuple[Ints, Floats]] = []
        self.xp = xp = compat.array_namespace(targets)
        self.device = compat.device(targets)
        self.n_targets, self.n_points = targets.shape
        n_rows = len(units) * self.n_targets
        options = {"dtype": xp.float64, "device": self.device}
        self.coef = xp.zeros((n_rows, self.n_points), **options)
        # Intercept, half-width, violation, steps.
        self.numbers = xp.zeros((n_rows, 4), **options)
        self.kernel, self.C, self.nu = (np.asarray(column) for column in zip(*units, strict=True))
        self.budget = self.C * self.nu * self.n_points
        # Norms of the interpolants by kernel, or infinity.
        self.lengths = dict.fromkeys(kernels, np.full(self.n_targets, np.inf))

    def setting(self, number: int) -> tuple[Any, ...]:
        """The fields of `NuSVRResult` for a unit."""
        rows = slice(number * self.n_targets, (number + 1) * self.n_targets)
        *numbers, n_iter = (self.numbers[rows, i] for i in range(4))
        coef = self.xp.matrix_transpose(self.coef[rows, :])
        _, C, nu = self.units[number]
        return C, nu, coef, *numbers, self.xp.astype(n_iter, self.xp.int64)

    def solve(self, n_threads: int) -> None:
        """Solve all rows in a batch that rows enter when others leave it."""
        rows = np.flatnonzero(self._interpolate())
        capacity = block_length(8 * self.n_points, self.batch_bytes)
        state: Problems | None = None
        while state is not None or rows.size:
            n_free = capacity - (0 if state is None else state.Y.shape[0])
            # A few new rows are not worth copying the batch.
            if rows.size and (state is None or n_free > capacity // 8):
                entering, rows = rows[:n_free], rows[n_free:]
                state = self._enter(state, entering)
            assert state is not None
            for number in range(_CHECK):
                state = step(state, balance=number == _CHECK - 1)
            state = self._leave(state)
        self._finish_on_host(n_threads)

    def _finish_on_host(self, n_threads: int) -> None:
        """Finish late rows by pairs of coefficients, starting from their current points."""
        if not self.late:
            return
        rows, starts = (np.concatenate(parts) for parts in zip(*self.late, strict=True))
        self.late = []
        units = rows // self.n_targets
        for unit in np.unique(units).tolist():
            own = rows[units == unit]
            targets = to_numpy(self.xp.take(self.targets, self.put(own % self.n_targets), axis=0))
            targets = np.ascontiguousarray(targets)
            K = np.ascontiguousarray(to_numpy(self.kernels[int(self.kernel[unit])].K))
            beta = np.stack([starts[units == unit], np.zeros_like(targets)])
            r = np.stack([targets - beta[0] @ K, np.zeros_like(targets)])
            with PairSolver(K, n_threads) as solver:
                *found, n_iter = solver.solve(
                    targets, self.C[unit], self.nu[unit], beta, r, [0], 1,
                    tol=self.tol, max_iter=self.max_iter,
                )  # fmt: skip
            numbers = np.column_stack([*found, n_iter + min(_STEPS, self.max_iter)])
            self.write(*(self.put(array) for array in (own, beta[1], numbers)))

    def write(self, rows: Array, coef: Array, numbers: Array) -> None:
        """Write solutions; the standard has no assignment by an array of positions."""
        xp = self.xp
        for out, found in ((self.coef, coef), (self.numbers, numbers)):
            if compat.is_torch_namespace(xp) or compat.is_cupy_namespace(xp):
                out[rows] = found
                continue
            for position, row in enumerate(to_numpy(rows).tolist()):
                out[row, :] = found[position, :]

    def put(self, values: NDArray[Any]) -> Array:
        """A host array on the device of the targets."""
        return self.xp.asarray(np.ascontiguousarray(values), device=self.device)

    def _interpolate(self) -> NDArray[np.bool_]:
        """Write interpolants where they meet all constraints; True for the other rows."""
        xp = self.xp
        left = np.ones((len(self.units), self.n_targets), dtype=bool)
        for number, kernel in self.kernels.items():
            beta = kernel.interpolant(self.targets)
            if beta is None:
                continue
            r = self.targets - beta @ kernel.K
            violation = xp.max(r, axis=1) - xp.min(r, axis=1)
            size = xp.abs(beta)
            used, largest = to_numpy(xp.sum(size, axis=1)), to_numpy(xp.max(size, axis=1))
            self.lengths[number] = to_numpy(xp.sqrt(xp.sum(beta * beta, axis=1)))
            exact = to_numpy(violation) <= self.tol
            found = xp.stack(
                [xp.mean(r, axis=1), xp.zeros_like(violation), violation, xp.zeros_like(violation)],
                axis=1,
            )
            for unit in np.flatnonzero(self.kernel == number):
                fits = exact & (largest <= self.C[unit])
                fits &= used <= (1 - _CLEAR) * self.budget[unit]
                if fits.any():
                    chosen = self.put(np.flatnonzero(fits))
                    some = (xp.take(array, chosen, axis=0) for array in (beta, found))
                    self.write(chosen + int(unit) * self.n_targets, *some)
                    left[unit] = ~fits
        return left.ravel()

    def _enter(self, state: Problems | None, rows: Ints) -> Problems:
        """The batch with more rows."""
        xp = self.xp
        units = rows // self.n_targets
        for number in np.unique(self.kernel[units]):
            chosen = self.kernel[units] == number
            own, at = rows[chosen], units[chosen]
            targets, budget = own % self.n_targets, self.budget[at]
            # Coefficients of equal size that exhaust the budget, unless the interpolant does not.
            length = np.minimum(self.lengths[int(number)][targets], budget / self.n_points**0.5)
            length = np.maximum(length, 1e-300)
            new = Problems.new(
                self.kernels[int(number)],
                self.put(own),
                xp.take(self.targets, self.put(targets), axis=0),
                *(self.put(values[:, None]) for values in (self.C[at], budget, length)),
            )
            state = new if state is None else state.followed_by(new)
        assert state is not None
        return state

    def _leave(self, state: Problems) -> Problems | None:
        """Write solved rows, collect late ones, and keep the others."""
        xp = self.xp
        found = certify(state)
        done = found.feasible & (found.violation <= self.tol)
        # Both flags are read in one synchronisation.
        late = state.age >= min(_STEPS, self.max_iter)
        answers = to_numpy(xp.astype(done, xp.int8) + 2 * xp.astype(late, xp.int8))
        solved = np.flatnonzero(answers % 2 == 1)
        if solved.size:
            at = self.put(solved)
            steps = xp.astype(state.age, xp.float64)
            numbers = xp.stack([found.intercept, found.epsilon, found.violation, steps], axis=1)
            self.write(*(xp.take(x, at, axis=0) for x in (state.row, found.z, numbers)))
        old = np.flatnonzero(answers == 2)
        if old.size:
            at = self.put(old)
            kept_z = to_numpy(xp.take(found.z, at, axis=0))
            self.late.append((to_numpy(xp.take(state.row, at, axis=0)), kept_z))
        kept = answers == 0
        if kept.all():
            return state
        if not kept.any():
            return None
        ends = np.cumsum([number for _, number in state.kernels])[:-1]
        counts = [int(part.sum()) for part in np.split(kept, ends)]
        return state.take(self.put(np.flatnonzero(kept)), counts)
