"""What a batch on a device leaves: problems that pairs of coefficients finish on the host."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._nu_svr_smo import PairSolver
from zslearn.utils import Array, Floats, to_numpy

if TYPE_CHECKING:
    from zslearn.solvers._nu_svr_batched import Grid


class HostRest:
    """Finishes rows by pairs of coefficients, from where they stand, on threads of the host.

    Parameters
    ----------
    grid : Grid
        Where solutions are written.
    max_iter : int
        Steps at most.
    n_threads : int
        Number of threads.
    """

    def __init__(self, grid: Grid, max_iter: int, n_threads: int) -> None:
        self._grid, self._max_iter, self._n_threads = grid, max_iter, n_threads
        self._solvers: dict[int, PairSolver] = {}
        self._running: list[_Running] = []
        self._stack = ExitStack()
        self._targets: Floats | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, rows: Array, z: Array, steps: int) -> None:
        """Begin with some rows, at feasible points; the caller does not wait."""
        grid = self._grid
        if self._targets is None:
            self._targets = np.ascontiguousarray(to_numpy(grid.targets))
        numbers, starts = to_numpy(rows), to_numpy(z)
        units = numbers // grid.n_targets
        for kernel in np.unique(grid.kernel[units]).tolist():
            chosen = grid.kernel[units] == kernel
            if kernel not in self._solvers:
                K = np.ascontiguousarray(to_numpy(grid.kernels[kernel].K))
                self._solvers[kernel] = self._stack.enter_context(PairSolver(K, self._n_threads))
            solver, own, at = self._solvers[kernel], numbers[chosen], units[chosen]
            targets = self._targets[own % grid.n_targets]
            beta = np.zeros((2, *targets.shape))
            beta[0] = starts[chosen]
            r = np.zeros_like(beta)
            r[0] = targets - beta[0] @ solver.K
            n_iter, found, tasks = solver.begin_each(
                targets, grid.C[at], grid.budget[at], beta, r,
                tol=grid.tol, max_iter=self._max_iter,
            )  # fmt: skip
            self._running.append(_Running(own, steps, beta[1], n_iter, found, tasks))

    def finish(self) -> None:
        """Wait for all rows and write them."""
        grid = self._grid
        for part in self._running:
            for task in part.tasks:
                task.result()
            numbers = np.column_stack([*part.numbers, part.n_iter + part.steps])
            grid.write(*(grid.put(array) for array in (part.rows, part.beta, numbers)))
        self._running = []


class _Running(NamedTuple):
    """Rows that threads of the host are solving."""

    rows: NDArray[np.intp]
    steps: int
    beta: Floats
    n_iter: NDArray[np.int64]
    numbers: Floats
    tasks: list[Future[None]]
