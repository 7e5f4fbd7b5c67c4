r"""Sequential minimal optimisation for ν-SVR over a kernel that all targets share.

The dual in :math:`\beta = \alpha - \alpha^*` alone: the two halves of a coefficient are never both
needed, so that n numbers per target are enough,

.. math:: \min_\beta \tfrac12 \beta^\top K \beta - y^\top \beta \quad \text{subject to} \quad
          \textstyle\sum_i \beta_i = 0, \; |\beta_i| \le C, \; \sum_i |\beta_i| \le C \nu n.

With the residual :math:`r = y - K\beta`, a step raises one coefficient i, lowers another one j by
as much, and gains where :math:`r_i > r_j`. While the budget :math:`C \nu n` is not used up every
such pair is allowed; once it is, a step must not use more of it, and pairs come from one side of
zero (as in LIBSVM) or move both coefficients towards zero.

Steps of pairs (:mod:`zslearn.solvers._nu_svr_pairs`) alternate with steps on a whole face
(:mod:`zslearn.solvers._nu_svr_faces`), target after target
(:mod:`zslearn.solvers._nu_svr_targets`); these three modules are compiled.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats

#: Below this share of the budget, what is left of it is rounding.
RESOLUTION = 1e-11
# Targets that a thread takes at a time: few enough to share the work evenly.
_TARGETS_PER_TASK = 16


class PairSolver:
    """Solves targets over one kernel, on several threads; a context manager that ends them.

    Parameters
    ----------
    K : ndarray of shape (n_points, n_points)
        The kernel.
    n_threads : int
        Number of threads.
    """

    def __init__(self, K: Floats, n_threads: int) -> None:
        self.K = K
        # Compiled code hears no signal: even one thread is not the one that waits for Ctrl-C.
        self._pool = ThreadPoolExecutor(n_threads)
        self._n_threads = n_threads
        self._stop = np.zeros(1, dtype=np.int64)

    @cached_property
    def inverse_curvature(self) -> Floats:
        """1 / (K_ii + K_jj − 2K_ij), which every step needs; equal points are kept apart."""
        diagonal = np.diag(self.K)
        floor = 1e-12 * (float(diagonal.max()) or 1.0)
        curvature = diagonal[:, None] + diagonal[None, :] - 2 * self.K
        return 1 / np.maximum(curvature, floor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop[0] = kind is not None
        self._pool.shutdown(cancel_futures=True)

    def solve(
        self,
        targets: Floats,
        C: float,
        nu: float,
        beta: Floats,
        r: Floats,
        starts: list[int],
        out: int,
        *,
        tol: float,
        max_iter: int,
    ) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
        """Solve one setting, from the best of several starts for each target.

        Parameters
        ----------
        targets : ndarray of shape (n_targets, n_points)
            One target per row.
        C, nu : float
            The setting.
        beta, r : ndarray of shape (n_slots, n_targets, n_points)
            Coefficients and the residuals that belong to them.
        starts : list of int
            Slots to begin at.
        out : int
            Slot that receives the solution.
        tol : float
            Largest violation.
        max_iter : int
            Largest number of steps per target.

        Returns
        -------
        intercept, epsilon, violation, n_iter : ndarray of shape (n_targets,)
            What belongs to the solution.
        """
        n_targets = len(targets)
        n_iter = np.zeros(n_targets, dtype=np.int64)
        numbers = np.empty((3, n_targets))
        budget = C * nu * targets.shape[1]
        together = max(n_targets, 1) if self._n_threads == 1 else _TARGETS_PER_TASK
        tasks = []
        for first in range(0, n_targets, together):
            part = range(first, min(first + together, n_targets))
            tasks.append(
                self._begin(
                    part, targets, C, budget, beta, r, starts, out, n_iter, numbers, tol, max_iter
                )
            )
        for task in tasks:
            task.result()
        intercept, epsilon, violation = numbers
        return intercept, epsilon, violation, n_iter

    def begin_each(
        self,
        targets: Floats,
        C: Floats,
        budget: Floats,
        beta: Floats,
        r: Floats,
        *,
        tol: float,
        max_iter: int,
    ) -> tuple[NDArray[np.int64], Floats, list[Future[None]]]:
        """Begin to solve targets that have settings of their own, each from the first slot.

        Parameters
        ----------
        targets : ndarray of shape (n_targets, n_points)
            One target per row.
        C, budget : ndarray of shape (n_targets,)
            Bound of a coefficient, and of the sum of their sizes.
        beta, r : ndarray of shape (2, n_targets, n_points)
            Coefficients and residuals: the start, and what receives the solution.
        tol : float
            Largest violation.
        max_iter : int
            Largest number of steps per target.

        Returns
        -------
        n_iter : ndarray of shape (n_targets,)
            Steps, there when the tasks are done.
        numbers : ndarray of shape (3, n_targets)
            Intercepts, half-widths and violations, likewise.
        tasks : list of Future
            What is under way.
        """
        n_iter = np.zeros(len(targets), dtype=np.int64)
        numbers = np.empty((3, len(targets)))
        tasks = [
            self._begin(
                range(j, j + 1), targets, float(C[j]), float(budget[j]), beta, r, [0], 1,
                n_iter, numbers, tol, max_iter,
            )
            for j in range(len(targets))
        ]  # fmt: skip
        return n_iter, numbers, tasks

    def _begin(
        self,
        part: range,
        targets: Floats,
        C: float,
        budget: float,
        beta: Floats,
        r: Floats,
        starts: list[int],
        out: int,
        n_iter: NDArray[np.int64],
        numbers: Floats,
        tol: float,
        max_iter: int,
    ) -> Future[None]:
        """Have a thread solve neighbouring targets."""
        # Compiled code is imported, and compiled, by those who need it.
        from zslearn.solvers._nu_svr_targets import solve_targets

        n_points = targets.shape[1]
        slots = np.asarray(starts, dtype=np.int64)
        inverse_curvature = self.inverse_curvature

        def solve() -> None:
            gain = np.empty(n_points)
            solve_targets(
                self.K,
                inverse_curvature,
                targets,
                C,
                budget,
                beta,
                r,
                slots,
                tol,
                max_iter,
                part.start,
                part.stop,
                beta[out],
                r[out],
                r[out].view(np.int64),
                n_iter,
                numbers,
                np.empty((4, n_points), dtype=np.int64),
                gain,
                gain.view(np.int64),
                np.empty(n_points, dtype=np.int64),
                np.empty((4, n_points)),
                np.empty((n_points, n_points)),
                self._stop,
            )

        return self._pool.submit(solve)
