r"""Sequential minimal optimisation for ν-SVR over a kernel that all targets share.

The dual in :math:`\beta = \alpha - \alpha^*` alone: the two halves of a coefficient are never both
needed, so that n numbers a target are enough,

.. math:: \min_\beta \tfrac12 \beta^\top K \beta - y^\top \beta \quad \text{subject to} \quad
          \textstyle\sum_i \beta_i = 0, \; |\beta_i| \le C, \; \sum_i |\beta_i| \le C \nu n.

With the residual :math:`r = y - K\beta`, a step raises one coefficient i, lowers another one j by
as much, and gains where :math:`r_i > r_j`. While the budget :math:`C \nu n` is not used up every
such pair is allowed; once it is, a step must not use more of it, and pairs come from one side of
zero (as in LIBSVM) or move both coefficients towards zero.

Choosing the pair is most of the work. The largest and smallest residuals are found as integers: the
bits of a float, their sign folded in, order as the float does, and the low bits give way to the
index. Compilers turn integer maxima into vector instructions and leave those of floats alone, and
value and index come out together. What is lost is below 1e-10 of a residual and touches only the
choice of the pair.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Targets that a thread takes at a time: few enough to share the work evenly.
_BLOCK = 16
# Sums may be reordered and comparisons need not think of NaN; infinities keep their meaning.
_FAST = {"nnan", "nsz", "contract", "reassoc", "arcp"}
_FOLD = np.int64(0x7FFFFFFFFFFFFFFF)
_LOWEST = np.int64(-(2**63))
_HIGHEST = np.int64(2**63 - 1)
_NONE = -1e300

# Nearer than this to zero or to a bound, in units of C, is there but for rounding.
_NEGLIGIBLE = 1e-12
# Below this share of the budget, what is left of it is rounding.
_RESOLUTION = 1e-11


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _extremes(
    bits: Ints, may_rise: Ints, may_fall: Ints, low: np.int64
) -> tuple[np.int64, np.int64]:
    """Largest of the residuals that may rise, smallest of those that may fall, as integers."""
    high = ~low
    largest = _LOWEST
    smallest = _HIGHEST
    for k in range(bits.size):
        v = bits[k]
        v = ((v ^ ((v >> 63) & _FOLD)) & high) | k
        largest = max(largest, (v & may_rise[k]) | (_LOWEST & ~may_rise[k]))
        smallest = min(smallest, (v & may_fall[k]) | (_HIGHEST & ~may_fall[k]))
    return largest, smallest


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _extremes_by_side(
    bits: Ints, masks: Ints, low: np.int64
) -> tuple[np.int64, np.int64, np.int64, np.int64]:
    """The same for either side of zero, in one pass."""
    below_c, negative, positive, above_c = masks[0], masks[1], masks[2], masks[3]
    high = ~low
    largest = _LOWEST
    largest_negative = _LOWEST
    smallest_positive = _HIGHEST
    smallest = _HIGHEST
    for k in range(bits.size):
        v = bits[k]
        v = ((v ^ ((v >> 63) & _FOLD)) & high) | k
        largest = max(largest, (v & below_c[k]) | (_LOWEST & ~below_c[k]))
        largest_negative = max(largest_negative, (v & negative[k]) | (_LOWEST & ~negative[k]))
        smallest_positive = min(smallest_positive, (v & positive[k]) | (_HIGHEST & ~positive[k]))
        smallest = min(smallest, (v & above_c[k]) | (_HIGHEST & ~above_c[k]))
    return largest, largest_negative, smallest_positive, smallest


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _partner(
    r: Floats, top: float, inverse_curvature: Floats, may_fall: Ints, gain: Floats, low: np.int64
) -> np.int64:
    """The coefficient whose fall, with the rise of the chosen one, gains most to second order."""
    for k in range(r.size):
        d = top - r[k]
        v = d * d * inverse_curvature[k]
        gain[k] = v if d > 0.0 else 0.0
    bits = gain.view(np.int64)
    high = ~low
    best = np.int64(0)
    for k in range(r.size):
        best = max(best, ((bits[k] & high) | k) & may_fall[k])
    return best & low


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _update(r: Floats, rising: Floats, falling: Floats, t: float) -> None:
    for k in range(r.size):
        r[k] -= t * (rising[k] - falling[k])


@numba.njit(nogil=True, cache=True)
def _mark(b: float, C: float, k: int | np.int64, masks: Ints) -> None:
    """Say where the coefficient k may go; all bits set for yes."""
    masks[0, k] = -1 if b < C else 0
    masks[1, k] = -1 if b < 0.0 else 0
    masks[2, k] = -1 if b > 0.0 else 0
    masks[3, k] = -1 if b > -C else 0


@numba.njit(nogil=True, cache=True)
def _smo(
    K: Floats,
    inverse_curvature: Floats,
    beta: Floats,
    r: Floats,
    slack: float,
    C: float,
    tol: float,
    max_iter: int,
    low: np.int64,
    masks: Ints,
    gain: Floats,
) -> tuple[float, int, float]:
    """Pairs until the violation is at most `tol`; `slack` is half of the budget that is left."""
    n = beta.size
    bits = r.view(np.int64)
    for k in range(n):
        _mark(beta[k], C, k, masks)
    negligible = _NEGLIGIBLE * C
    n_iter = 0
    while True:
        i = np.int64(0)
        fall = 3
        if slack > 0.0:
            largest, smallest = _extremes(bits, masks[0], masks[3], low)
            violation = _NONE
            if largest != _LOWEST and smallest != _HIGHEST:
                i = largest & low
                violation = r[i] - r[smallest & low]
        else:
            up, up_negative, down_positive, down = _extremes_by_side(bits, masks, low)
            violation = _NONE
            if up != _LOWEST and down_positive != _HIGHEST:
                i = up & low
                fall = 2
                violation = r[i] - r[down_positive & low]
            if up_negative != _LOWEST and down != _HIGHEST:
                other = r[up_negative & low] - r[down & low]
                if other > violation:
                    i = up_negative & low
                    fall = 3
                    violation = other
        if violation <= tol or n_iter >= max_iter:
            break
        n_iter += 1
        j = _partner(r, r[i], inverse_curvature[i], masks[fall], gain, low)
        if r[i] <= r[j]:  # only where the key cannot tell the residuals apart
            break
        bi = beta[i]
        bj = beta[j]
        # What the way towards zero frees may be used again beyond it.
        room = slack + max(0.0, -bi) + max(0.0, bj)
        t = (r[i] - r[j]) * inverse_curvature[i, j]
        used_up = t >= room
        t = min(t, room)
        if t > C - bi or t > C + bj:
            used_up = False
            t = min(C - bi, C + bj)
        new_i = bi + t
        new_j = bj - t
        if C - new_i <= negligible:
            new_i = C
        elif abs(new_i) <= negligible:
            new_i = 0.0
        if C + new_j <= negligible:
            new_j = -C
        elif abs(new_j) <= negligible:
            new_j = 0.0
        if used_up:
            slack = 0.0
        else:
            slack -= 0.5 * (abs(new_i) - abs(bi) + abs(new_j) - abs(bj))
            if slack <= negligible:
                slack = 0.0
        beta[i] = new_i
        beta[j] = new_j
        _mark(new_i, C, i, masks)
        _mark(new_j, C, j, masks)
        _update(r, K[i], K[j], t)
    return slack, n_iter, violation


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _dot(a: Floats, b: Floats, n: int) -> float:
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@numba.njit(nogil=True, cache=True)
def _factor(K: Floats, free: Ints, n_free: int, ridge: float, L: Floats) -> None:
    """Cholesky factor of the kernel of the free coefficients; a lost pivot becomes the ridge."""
    for a in range(n_free):
        row = K[free[a]]
        for b in range(a):
            L[a, b] = (row[free[b]] - _dot(L[a], L[b], b)) / L[b, b]
        pivot = row[free[a]] + ridge - _dot(L[a], L[a], a)
        L[a, a] = np.sqrt(max(pivot, ridge))


@numba.njit(nogil=True, cache=True)
def _solve(L: Floats, n_free: int, x: Floats) -> None:
    """Solve with the factor, in place."""
    for a in range(n_free):
        x[a] = (x[a] - _dot(L[a], x, a)) / L[a, a]
    for a in range(n_free - 1, -1, -1):
        x[a] /= L[a, a]
        for b in range(a):
            x[b] -= L[a, b] * x[a]


@numba.njit(nogil=True, cache=True)
def _newton(
    K: Floats,
    beta: Floats,
    r: Floats,
    slack: float,
    C: float,
    ridge: float,
    L: Floats,
    free: Ints,
    work: Floats,
) -> float:
    """Move the free coefficients to the optimum of their face, or to where they leave it.

    Within the budget the free ones are all that are not at ±C and share one sum; with the budget
    used up they are those that are neither 0 nor ±C, and either side of zero keeps its own sum.
    """
    n = beta.size
    tight = slack <= 0.0
    n_free = 0
    for k in range(n):
        if abs(beta[k]) < C and (beta[k] != 0.0 or not tight):
            free[n_free] = k
            n_free += 1
    if n_free < 2:
        return slack
    p, ones, others, direction = work[0], work[1], work[2], work[3]
    n_positive = 0
    for a in range(n_free):
        k = free[a]
        p[a] = r[k]
        first = (not tight) or beta[k] > 0.0
        ones[a] = 1.0 if first else 0.0
        others[a] = 0.0 if first else 1.0
        n_positive += first
    _factor(K, free, n_free, ridge, L)
    _solve(L, n_free, p)
    # Take out what would change the sums: p − K⁻¹Aᵀ(A K⁻¹ Aᵀ)⁻¹ A p.
    _solve(L, n_free, ones)
    _solve(L, n_free, others)
    s0 = s1 = m00 = m01 = m10 = m11 = 0.0
    for a in range(n_free):
        if (not tight) or beta[free[a]] > 0.0:
            s0 += p[a]
            m00 += ones[a]
            m01 += others[a]
        else:
            s1 += p[a]
            m10 += ones[a]
            m11 += others[a]
    if n_positive == n_free:
        c0 = s0 / m00
        c1 = 0.0
    elif n_positive == 0:
        c0 = 0.0
        c1 = s1 / m11
    else:
        det = m00 * m11 - m01 * m10
        if not det > 0.0:
            return slack
        c0 = (m11 * s0 - m01 * s1) / det
        c1 = (m00 * s1 - m10 * s0) / det
    s0 = s1 = 0.0
    for a in range(n_free):
        p[a] -= c0 * ones[a] + c1 * others[a]
        if (not tight) or beta[free[a]] > 0.0:
            s0 += p[a]
        else:
            s1 += p[a]
    # The rest is rounding, which must not build up in the sums.
    s0 /= max(n_positive, 1)
    s1 /= max(n_free - n_positive, 1)
    for a in range(n_free):
        p[a] -= s0 if (not tight) or beta[free[a]] > 0.0 else s1
    direction[:] = 0.0
    for a in range(n_free):
        row = K[free[a]]
        pa = p[a]
        for k in range(n):
            direction[k] += pa * row[k]
    slope = curvature = 0.0
    for a in range(n_free):
        slope += p[a] * r[free[a]]
        curvature += p[a] * direction[free[a]]
    if not slope > 0.0:
        return slack
    t = slope / curvature if curvature > 0.0 else 1e300
    blocking = -1
    for a in range(n_free):
        b = beta[free[a]]
        if p[a] > 0.0:
            end = 0.0 if tight and b < 0.0 else C
        else:
            end = 0.0 if tight and b > 0.0 else -C
        if p[a] != 0.0 and (end - b) / p[a] <= t:
            t = (end - b) / p[a]
            blocking = a
    used_up = False
    if not tight:
        before = 0.0
        after = 0.0
        for a in range(n_free):
            before += abs(beta[free[a]])
            after += abs(beta[free[a]] + t * p[a])
        if after - before > 2.0 * slack:
            used_up = True
            blocking = -1
            inside = 0.0
            for _ in range(100):
                middle = 0.5 * (inside + t)
                after = 0.0
                for a in range(n_free):
                    after += abs(beta[free[a]] + middle * p[a])
                if after - before > 2.0 * slack:
                    t = middle
                else:
                    inside = middle
            t = inside
            after = before + 2.0 * slack
        slack = 0.0 if used_up else slack - 0.5 * (after - before)
    for a in range(n_free):
        k = free[a]
        beta[k] += t * p[a]
        if C - abs(beta[k]) <= _NEGLIGIBLE * C:
            beta[k] = C if beta[k] > 0.0 else -C
        elif abs(beta[k]) <= _NEGLIGIBLE * C:
            beta[k] = 0.0
    if blocking >= 0:
        k = free[blocking]
        if tight and abs(beta[k]) < 0.5 * C:
            beta[k] = 0.0
        else:
            beta[k] = C if p[blocking] > 0.0 else -C
    for k in range(n):
        r[k] -= t * direction[k]
    return slack


@numba.njit(nogil=True, cache=True)
def _residual(K: Floats, y: Floats, beta: Floats, r: Floats) -> None:
    """The residual afresh: steps leave rounding behind."""
    for k in range(y.size):
        r[k] = y[k] - _dot(K[k], beta, y.size)


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
            if C - abs(beta[k]) <= _NEGLIGIBLE * C:
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
            slack, done, reached = _smo(
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
                    slack = _newton(K, beta[j], r[j], slack, C, ridge * 100.0**power, L, free, work)
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
        """Solve one setting, from the best of several starts a target.

        Parameters
        ----------
        targets : ndarray of shape (n_targets, n_points)
            One target a row.
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
            Steps a target at most.

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
                self._pool.submit(partial(solve, first, min(first + _BLOCK, n_targets)))
                for first in range(0, n_targets, _BLOCK)
            ]
            for task in tasks:
                task.result()
        return intercept, epsilon, violation, n_iter
