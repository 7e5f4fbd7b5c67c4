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
(:mod:`zslearn.solvers._nu_svr_faces`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

import numba
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._nu_svr_faces import dot, face_step
from zslearn.solvers._nu_svr_pairs import NEGLIGIBLE, Ints, pair_steps
from zslearn.utils import Floats

# Numba's cache of what is compiled here asks for the date of this file alone: after a change of
# the functions imported from the other two it must be emptied, or this file touched.

# Targets that a thread takes at a time: few enough to share the work evenly.
_TARGETS_PER_TASK = 16
# Below this share of the budget, what is left of it is rounding.
_RESOLUTION = 1e-11


@numba.njit(nogil=True, cache=True)
def _residual(K: Floats, y: Floats, beta: Floats, r: Floats) -> None:
    """The residual afresh: steps leave rounding behind."""
    for k in range(y.size):
        r[k] = y[k] - dot(K[k], beta, y.size)


@numba.njit(nogil=True, cache=True)
def _start(
    y: Floats,
    starts_beta: Floats,
    starts_r: Floats,
    slots: Ints,
    j: int,
    C: float,
    budget: float,
    beta: Floats,
    r: Floats,
) -> tuple[float, bool]:
    """Copy the start with the lowest objective, scaled into the constraints; else begin at zero.

    Returns half of the budget that is left, and whether the residual is as exact as it came.
    """
    n = y.size
    best = 0.0
    chosen = -1
    scale = 0.0
    for c in range(slots.size):
        b = starts_beta[slots[c], j]
        residual = starts_r[slots[c], j]
        fit = quadratic = used = largest = 0.0
        for k in range(n):
            fit += y[k] * b[k]
            quadratic += (y[k] - residual[k]) * b[k]
            used += abs(b[k])
            largest = max(largest, abs(b[k]))
        if not (fit > 0.0 and used < 1e300):
            continue
        # Along tβ the objective is t²/2 βᵀKβ − t yᵀβ.
        t = fit / quadratic if quadratic > 0.0 else 1e300
        t = min(t, C / largest, budget / used)
        if abs(t - 1.0) < 1e-9 and largest <= C and used <= budget * (1.0 + _RESOLUTION):
            t = 1.0
        value = 0.5 * t * t * quadratic - t * fit
        if value < best:
            best = value
            chosen = slots[c]
            scale = t
    if chosen < 0:
        beta[:] = 0.0
        r[:] = y
    elif scale == 1.0:
        beta[:] = starts_beta[chosen, j]
        r[:] = starts_r[chosen, j]
    else:
        for k in range(n):
            beta[k] = scale * starts_beta[chosen, j, k]
            if C - abs(beta[k]) <= NEGLIGIBLE * C:
                beta[k] = C if beta[k] > 0.0 else -C
            r[k] = y[k] - scale * (y[k] - starts_r[chosen, j, k])
    return _slack(beta, budget), chosen < 0 or scale == 1.0


@numba.njit(nogil=True, cache=True)
def _slack(beta: Floats, budget: float) -> float:
    """Half of the budget that is left; 0 where that is but rounding."""
    used = 0.0
    for k in range(beta.size):
        used += abs(beta[k])
    slack = 0.5 * (budget - used)
    return slack if slack > _RESOLUTION * budget else 0.0


@numba.njit(nogil=True, cache=True)
def _solve_targets(
    K: Floats,
    inverse_curvature: Floats,
    Y: Floats,
    C: float,
    budget: float,
    starts_beta: Floats,
    starts_r: Floats,
    slots: Ints,
    tol: float,
    max_iter: int,
    first: int,
    last: int,
    beta: Floats,
    r: Floats,
    n_iter: Ints,
    violation: Floats,
    intercept: Floats,
    epsilon: Floats,
) -> None:
    """Solve the targets `first` … `last`−1, rows of Y, into rows of `beta` and `r`.

    Each begins at the best of its starts; steps of pairs alternate with steps on a whole face,
    which pairs alone would take long to finish where the kernel is ill-conditioned.
    """
    n = K.shape[0]
    masks = np.empty((4, n), np.int64)
    gain = np.empty(n)
    low = np.int64(1)
    while low < n:
        low *= 2
    low -= 1
    # A factorisation costs as much as about this many pairs.
    chunk = n * n // 10 + 4 * n + 50
    largest = 0.0
    for k in range(n):
        largest = max(largest, K[k, k])
    ridge = 1e-13 * largest * max(1.0, n / 100.0) + 1e-300
    L = np.empty((1, 1))
    free = np.empty(n, np.int64)
    work = np.empty((4, n))
    for j in range(first, last):
        slack, fresh = _start(Y[j], starts_beta, starts_r, slots, j, C, budget, beta[j], r[j])
        total = 0
        while True:
            steps = min(chunk, max_iter - total)
            slack, done, reached = pair_steps(
                K, inverse_curvature, beta[j], r[j], slack, C, tol, steps, low, masks, gain
            )
            total += done
            fresh = fresh and done == 0
            if reached <= tol or total >= max_iter:
                # What is certified is the residual computed afresh.
                if fresh:
                    break
            else:
                if L.shape[0] < n:
                    L = np.empty((n, n))
                for power in range(3):
                    slack = face_step(
                        K, beta[j], r[j], slack, C, ridge * 100.0**power, L, free, work
                    )
                    total += 1
            _residual(K, Y[j], beta[j], r[j])
            slack = _slack(beta[j], budget)
            fresh = True
        n_iter[j] = total
        violation[j], intercept[j], epsilon[j] = _certify(beta[j], r[j], C, budget)


@numba.njit(nogil=True, cache=True)
def _certify(beta: Floats, r: Floats, C: float, budget: float) -> tuple[float, float, float]:
    """Largest violation of the optimality conditions, intercept, and half-width of the tube.

    With the budget used up, as LIBSVM measures it: on either side of zero, the largest residual
    that may rise less the smallest that may fall. Within the budget the tube has no width, and
    all that may rise are compared with all that may fall.
    """
    up = up_negative = -np.inf
    down = down_positive = np.inf
    # Sums over the coefficients strictly inside an edge of the tube, and bounds from the others.
    sum_positive = sum_negative = sum_inside = 0.0
    n_positive = n_negative = n_inside = 0
    at_top = at_bottom = np.inf
    off_top = off_bottom = -np.inf
    for k in range(beta.size):
        b = beta[k]
        v = r[k]
        if b < C:
            up = max(up, v)
        if b > -C:
            down = min(down, v)
        if b < 0.0:
            up_negative = max(up_negative, v)
        if b > 0.0:
            down_positive = min(down_positive, v)
        if abs(b) < C:
            sum_inside += v
            n_inside += 1
            if b > 0.0:
                sum_positive += v
                n_positive += 1
            elif b < 0.0:
                sum_negative -= v
                n_negative += 1
        # α = C bounds the upper edge from above, α = 0 from below; α* likewise the lower edge.
        if b >= C:
            at_top = min(at_top, v)
        elif b <= 0.0:
            off_top = max(off_top, v)
        if b <= -C:
            at_bottom = min(at_bottom, -v)
        elif b >= 0.0:
            off_bottom = max(off_bottom, -v)
    if _slack(beta, budget) > 0.0:
        if n_inside > 0:
            intercept = sum_inside / n_inside
        else:
            intercept = _between(down_positive, up_negative)
        return max(0.0, up - down), intercept, 0.0
    upper = sum_positive / n_positive if n_positive > 0 else _between(off_top, at_top)
    lower = sum_negative / n_negative if n_negative > 0 else _between(off_bottom, at_bottom)
    violation = max(0.0, up - down_positive, up_negative - down)
    return violation, 0.5 * (upper - lower), max(0.0, 0.5 * (upper + lower))


@numba.njit(nogil=True, cache=True)
def _between(a: float, b: float) -> float:
    """The middle of two bounds, one of which may be missing."""
    if not np.isfinite(a):
        return b
    if not np.isfinite(b):
        return a
    return 0.5 * (a + b)


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
        diagonal = np.diag(K)
        # 1 / (K_ii + K_jj − 2K_ij), which every step needs; equal points are kept apart.
        floor = 1e-12 * (float(diagonal.max()) or 1.0)
        curvature = diagonal[:, None] + diagonal[None, :] - 2 * K
        self.inverse_curvature = 1 / np.maximum(curvature, floor)
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

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
        n_targets, n_points = targets.shape
        n_iter = np.zeros(n_targets, dtype=np.int64)
        violation, intercept, epsilon = np.empty((3, n_targets))

        def solve(first: int, last: int) -> None:
            _solve_targets(
                self.K,
                self.inverse_curvature,
                targets,
                C,
                C * nu * n_points,
                beta,
                r,
                np.asarray(starts, dtype=np.int64),
                tol,
                max_iter,
                first,
                last,
                beta[out],
                r[out],
                n_iter,
                violation,
                intercept,
                epsilon,
            )

        if self._pool is None:
            solve(0, n_targets)
        else:
            tasks = [
                self._pool.submit(partial(solve, first, min(first + _TARGETS_PER_TASK, n_targets)))
                for first in range(0, n_targets, _TARGETS_PER_TASK)
            ]
            for task in tasks:
                task.result()
        return intercept, epsilon, violation, n_iter
