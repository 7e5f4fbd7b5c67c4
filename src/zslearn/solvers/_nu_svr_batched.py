"""ν-SVR of all targets, all settings and several kernels at once, on the device of the arrays.

Problems are rows of one table. Those that interpolation or the solution of another setting solves
are filled in; the others pass through a batch of bounded size, whose steps are those of
:mod:`zslearn.solvers._nu_svr_admm`. Rows that reached the tolerance leave it and others take their
place, so that the device is never left with the few that take long. Rows that have taken too many
steps are finished by pairs on the host, while the device goes on.

Of the settings, those with the largest ν for each C and with the largest C for each ν come first. A
solution that does not use up its budget Cνn stays one as long as a smaller budget holds it, and one
that touches no box ±C stays one under a smaller C that holds it, if the budget is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._nu_svr_admm import Kernel, Problems, certify, step
from zslearn.solvers._nu_svr_rest import HostRest
from zslearn.utils import (
    Array,
    Floats,
    block_budget,
    block_length,
    on_device,
    row_blocks,
    to_numpy,
)

# What one array of the batch may take, about fifteen of which live at a time, and what solutions
# may take that are there at a time; a device with little free memory has less.
_BATCH_BYTES = 1 << 29
_RESULT_BYTES = 1 << 32
# Steps between checks, and steps before a problem goes to the host.
_CHECK = 10
_STEPS = 200
# A bound that is kept by less than this share is taken to be touched.
_CLEAR = 1e-10

Setting = tuple[float, float, Array, Array, Array, Array, Array]
Ints = NDArray[np.intp]


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
) -> Iterator[tuple[int, Setting]]:
    """Solve every pair of settings for every target, over each of several kernels.

    Parameters
    ----------
    kernels : sequence of arrays of shape (n_points, n_points)
        Kernels of the same points.
    Y : array of shape (n_points, n_targets)
        Targets, of the same library and on the same device.
    penalties, shares : list of float
        Values of C and of ν.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int
        Largest number of steps per problem, on the device and again on the host.
    n_threads : int
        Threads of the host.

    Yields
    ------
    number : int
        Position of the kernel.
    tuple
        C, nu, coef, intercept, epsilon, violation, n_iter, as in `NuSVRResult`; one pair
        at a time, C slowest.
    """
    xp = compat.array_namespace(*kernels, Y)
    for K in kernels:
        if len(K.shape) != 2 or K.shape[0] != K.shape[1] or K.shape[0] != Y.shape[0]:
            raise ValueError(
                f"K must be square and Y have as many rows; got shapes {tuple(K.shape)} and "
                f"{tuple(Y.shape)}."
            )
        if not bool(xp.all(xp.isfinite(K))):
            raise ValueError("K and Y must be finite.")
    if not bool(xp.all(xp.isfinite(Y))):
        raise ValueError("K and Y must be finite.")
    targets = xp.asarray(xp.matrix_transpose(xp.astype(Y, xp.float64)), copy=True)
    units = [_Unit(k, C, nu) for k in range(len(kernels)) for C in penalties for nu in shares]
    known: dict[int, Kernel] = {}
    share = block_budget(Y) if on_device(Y) else _RESULT_BYTES
    for block in row_blocks(len(units), 8 * Y.shape[0] * Y.shape[1], min(_RESULT_BYTES, share)):
        part = units[block]
        wanted = {unit.kernel for unit in part}
        known = {k: known.get(k) or Kernel(xp.astype(kernels[k], xp.float64)) for k in wanted}
        grid = Grid(known, targets, part, tol, min(_BATCH_BYTES, share // 4))
        with HostRest(grid, max_iter, n_threads) as host:
            grid.solve(min(_STEPS, max_iter), host)
        for number, unit in enumerate(part):
            yield unit.kernel, grid.setting(number)


class Grid:
    """Units times targets: what is to be solved, and what was found.

    Parameters
    ----------
    kernels : dict of int to Kernel
        By number.
    targets : array of shape (n_targets, n_points)
        One target per row.
    units : sequence of _Unit
        Those of one kernel are neighbours.
    tol : float
        Largest violation.
    batch_bytes : int
        What one array of the batch may take.
    """

    def __init__(
        self,
        kernels: dict[int, Kernel],
        targets: Array,
        units: Sequence[_Unit],
        tol: float,
        batch_bytes: int,
    ) -> None:
        self.kernels, self.targets, self.units, self.tol = kernels, targets, units, tol
        self.batch_bytes = batch_bytes
        self.xp = xp = compat.array_namespace(targets)
        self.device = compat.device(targets)
        self.n_targets, self.n_points = targets.shape
        n_rows = len(units) * self.n_targets
        options = {"dtype": xp.float64, "device": self.device}
        self.coef = xp.zeros((n_rows, self.n_points), **options)
        # Intercept, half-width, violation, steps.
        self.numbers = xp.zeros((n_rows, 4), **options)
        self.C = np.asarray([unit.C for unit in units])
        self.nu = np.asarray([unit.nu for unit in units])
        self.budget = np.asarray([unit.C * unit.nu * self.n_points for unit in units])
        self.kernel = np.asarray([unit.kernel for unit in units])
        # Norms of the interpolants, by kernel; infinite where there are none.
        self.lengths = dict.fromkeys(kernels, np.full(self.n_targets, np.inf))

    def setting(self, number: int) -> Setting:
        """What was found for a unit."""
        xp = self.xp
        rows = slice(number * self.n_targets, (number + 1) * self.n_targets)
        intercept, epsilon, violation, n_iter = (self.numbers[rows, i] for i in range(4))
        return (
            self.units[number].C,
            self.units[number].nu,
            xp.matrix_transpose(self.coef[rows, :]),
            intercept,
            epsilon,
            violation,
            xp.astype(n_iter, xp.int64),
        )

    def solve(self, most_steps: int, host: HostRest) -> None:
        """Solve all rows."""
        left = self._interpolate()
        # The first ones solve many of the others.
        widest = np.zeros(len(self.units), dtype=bool)
        for number in self.kernels:
            own = self.kernel == number
            widest |= own & (self.nu == self.nu[own].max())
            widest |= own & (self.C[own].max() == self.C)
        first = left & np.repeat(widest, self.n_targets)
        self._pass_through(np.flatnonzero(first), most_steps, host)
        host.finish()
        left &= ~first
        source = self._implied(np.flatnonzero(widest), np.flatnonzero(~widest))
        implied = np.flatnonzero(left & (source >= 0))
        if implied.size:
            at, origin = self.put(implied), self.put(source[implied])
            self.write(
                at,
                self.xp.take(self.coef, origin, axis=0),
                self.xp.take(self.numbers, origin, axis=0),
            )
        self._pass_through(np.flatnonzero(left & (source < 0)), most_steps, host)
        host.finish()

    def write(self, rows: Array, coef: Array, numbers: Array) -> None:
        """Write solutions."""
        _write(self.coef, rows, coef)
        _write(self.numbers, rows, numbers)

    def put(self, values: NDArray[Any]) -> Array:
        """An array of the host beside the targets."""
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
            used, largest = self._sizes(beta)
            self.lengths[number] = to_numpy(xp.sqrt(xp.sum(beta * beta, axis=1)))
            exact = to_numpy(violation) <= self.tol
            found = xp.stack(
                [xp.mean(r, axis=1), xp.zeros_like(violation), violation, xp.zeros_like(violation)],
                axis=1,
            )
            for unit in np.flatnonzero(self.kernel == number):
                fits = (
                    exact & (largest <= self.C[unit]) & (used <= (1 - _CLEAR) * self.budget[unit])
                )
                if fits.any():
                    chosen = self.put(np.flatnonzero(fits))
                    self.write(
                        chosen + int(unit) * self.n_targets,
                        xp.take(beta, chosen, axis=0),
                        xp.take(found, chosen, axis=0),
                    )
                    left[unit] = ~fits
        return left.ravel()

    def _sizes(self, beta: Array) -> tuple[Floats, Floats]:
        """Sum and largest of the coefficients' sizes in each row, on the host."""
        xp = self.xp
        size = xp.abs(beta)
        return to_numpy(xp.sum(size, axis=1)), to_numpy(xp.max(size, axis=1))

    def _implied(self, solved: Ints, wanted: Ints) -> Ints:
        """For each row, a row of the solved units whose solution is its own; −1: none."""
        source = np.full((len(self.units), self.n_targets), -1, dtype=np.intp)
        targets = np.arange(self.n_targets)
        sizes = {}
        for unit in solved.tolist():
            rows = slice(unit * self.n_targets, (unit + 1) * self.n_targets)
            sizes[unit] = self._sizes(self.coef[rows, :])
        for unit in wanted.tolist():
            C, budget = self.C[unit], self.budget[unit]
            neighbours = solved[self.kernel[solved] == self.kernel[unit]]
            for other in neighbours[self.C[neighbours] == C].tolist():
                holds = sizes[other][0] <= (1 - _CLEAR) * min(budget, self.budget[other])
                source[unit, holds] = other * self.n_targets + targets[holds]
            same = np.abs(self.budget[neighbours] - budget) <= 1e-14 * budget
            for other in neighbours[same].tolist():
                holds = sizes[other][1] <= (1 - _CLEAR) * min(C, self.C[other])
                source[unit, holds] = other * self.n_targets + targets[holds]
        return source.ravel()

    def _pass_through(self, rows: Ints, most_steps: int, host: HostRest) -> None:
        """Solve rows in a batch that others enter as soon as some leave it."""
        capacity = block_length(8 * self.n_points, self.batch_bytes)
        state: Problems | None = None
        while state is not None or rows.size:
            room = capacity - (0 if state is None else state.Y.shape[0])
            # Few that enter are not worth copying many for.
            if rows.size and (state is None or room > capacity // 8):
                entering, rows = rows[:room], rows[room:]
                state = self._enter(state, entering)
            assert state is not None
            for number in range(_CHECK):
                state = step(state, balance=number == _CHECK - 1)
            state = self._leave(state, most_steps, host)

    def _enter(self, state: Problems | None, rows: Ints) -> Problems:
        """The batch with more rows."""
        xp = self.xp
        units = rows // self.n_targets
        for number in np.unique(self.kernel[units]):
            chosen = self.kernel[units] == number
            own, at = rows[chosen], units[chosen]
            targets, budget = own % self.n_targets, self.budget[at]
            # Coefficients of even size that use up the budget, unless the interpolant does not.
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

    def _leave(self, state: Problems, most_steps: int, host: HostRest) -> Problems | None:
        """Write rows that reached the tolerance, give the oldest to the host, keep the others."""
        xp = self.xp
        found = certify(state)
        done = found.feasible & (found.violation <= self.tol)
        # One answer of the device for all questions.
        answers = to_numpy(
            xp.astype(done, xp.int8) + 2 * xp.astype(state.age >= most_steps, xp.int8)
        )
        solved = np.flatnonzero(answers % 2 == 1)
        if solved.size:
            at = self.put(solved)
            steps = xp.astype(state.age, xp.float64)
            numbers = xp.stack([found.intercept, found.epsilon, found.violation, steps], axis=1)
            self.write(
                xp.take(state.row, at, axis=0),
                xp.take(found.z, at, axis=0),
                xp.take(numbers, at, axis=0),
            )
        old = np.flatnonzero(answers == 2)
        if old.size:
            at = self.put(old)
            host.add(xp.take(state.row, at, axis=0), xp.take(found.z, at, axis=0), most_steps)
        kept = answers == 0
        if kept.all():
            return state
        if not kept.any():
            return None
        ends = np.cumsum([number for _, number in state.kernels])[:-1]
        counts = [int(part.sum()) for part in np.split(kept, ends)]
        return state.take(self.put(np.flatnonzero(kept)), counts)


def _write(out: Array, rows: Array, values: Array) -> None:
    """Set rows of an array; the standard has no assignment by an array of positions."""
    xp = compat.array_namespace(out)
    if compat.is_torch_namespace(xp) or compat.is_cupy_namespace(xp):
        out[rows] = values
        return
    for position, row in enumerate(to_numpy(rows).tolist()):
        out[row, :] = values[position, :]
