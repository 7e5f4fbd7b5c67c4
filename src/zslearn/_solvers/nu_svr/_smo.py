r"""Sequential minimal optimisation for ν-SVR over a kernel that all targets share.

The dual in :math:`\beta = \alpha - \alpha^*`, of which at most one part is not zero, needs only n
numbers per target,

.. math:: \min_\beta \tfrac12 \beta^\top K \beta - y^\top \beta \quad \text{subject to} \quad
          \textstyle\sum_i \beta_i = 0, \; |\beta_i| \le C, \; \sum_i |\beta_i| \le C \nu n.

With the residual :math:`r = y - K\beta`, a step raises a coefficient i and lowers another one j by
the same amount, which improves the objective if :math:`r_i > r_j`. Until the budget
:math:`C \nu n` is exhausted, every such pair is allowed; afterwards a step must not exceed it: both
coefficients have the same sign (as in LIBSVM) or move towards zero.

Steps of pairs alternate with Newton steps on a whole face, the coefficients that are free to move,
since pairs alone converge slowly if the kernel is ill-conditioned. :class:`PairSolver` solves
targets in threads, each from the best of several starts.

Choosing the pair is most of the work. The largest and smallest residuals are found as integers: the
bits of a float, with the sign folded in, have the order of the floats, and the index replaces the
low bits. Compilers vectorise maxima of integers, but not of floats, and value and index are found
together. The loss of precision, below 1e-10 of a residual, affects only the choice of the pair.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, row_blocks
from zslearn._utils._jit import jit, jit_inner

Ints = NDArray[np.int64]

#: A remaining budget below this fraction of it is a rounding error.
RESOLUTION = 1e-11
#: Coefficients this close to zero or to a bound, in units of C, are set to it.
NEGLIGIBLE = 1e-12

_FOLD = np.int64(0x7FFFFFFFFFFFFFFF)
_LOWEST = np.int64(-(2**63))
_HIGHEST = np.int64(2**63 - 1)
_NONE = -1e300


@jit_inner(fast=True)
def _extremes(
    bits: Ints, masks: Ints, low: np.int64
) -> tuple[np.int64, np.int64, np.int64, np.int64]:
    """Largest of the residuals below C and below 0; smallest of those above 0 and above −C."""
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


@jit_inner(fast=True)
def _partner(
    r: Floats,
    top: float,
    inverse_curvature: Floats,
    may_fall: Ints,
    gain: Floats,
    bits: Ints,
    low: np.int64,
) -> np.int64:
    """The coefficient whose fall, with the rise of the chosen one, gains most to second order."""
    for k in range(r.size):
        d = top - r[k]
        v = d * d * inverse_curvature[k]
        gain[k] = v if d > 0.0 else 0.0
    high = ~low
    best = np.int64(0)
    for k in range(r.size):
        best = max(best, ((bits[k] & high) | k) & may_fall[k])
    return best & low


@jit_inner(fast=True)
def _update(r: Floats, rising: Floats, falling: Floats, t: float) -> None:
    for k in range(r.size):
        r[k] -= t * (rising[k] - falling[k])


@jit_inner()
def _mark(b: float, C: float, k: int | np.int64, masks: Ints) -> None:
    """Mark whether coefficient k is below C, negative, positive, above −C; all bits mean yes."""
    masks[0, k] = -1 if b < C else 0
    masks[1, k] = -1 if b < 0.0 else 0
    masks[2, k] = -1 if b > 0.0 else 0
    masks[3, k] = -1 if b > -C else 0


@jit_inner()
def pair_steps(
    K: Floats,
    inverse_curvature: Floats,
    beta: Floats,
    r: Floats,
    bits: Ints,
    slack: float,
    C: float,
    tol: float,
    max_iter: int,
    low: np.int64,
    masks: Ints,
    gain: Floats,
    gain_bits: Ints,
    stop: Ints,
) -> tuple[float, int, float]:
    """Move pairs until the violation is at most `tol`."""
    n = beta.size
    for k in range(n):
        _mark(beta[k], C, k, masks)
    negligible = NEGLIGIBLE * C
    n_iter = 0
    while True:
        # The choice of the first coefficient is inlined: a function of its own is a tenth slower.
        i = np.int64(0)
        fall = 3
        violation = _NONE
        up, up_negative, down_positive, down = _extremes(bits, masks, low)
        if slack > 0.0:
            if up != _LOWEST and down != _HIGHEST:
                i = up & low
                violation = r[i] - r[down & low]
        else:
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
        if violation <= tol or n_iter >= max_iter or stop[0] != 0:
            break
        n_iter += 1
        j = _partner(r, r[i], inverse_curvature[i], masks[fall], gain, gain_bits, low)
        if r[i] <= r[j]:  # only if the keys of the residuals are equal
            break
        bi = beta[i]
        bj = beta[j]
        # Moving towards zero frees budget that can be used beyond it.
        available = slack + max(0.0, -bi) + max(0.0, bj)
        t = (r[i] - r[j]) * inverse_curvature[i, j]
        used_up = t >= available
        t = min(t, available)
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


@jit_inner(fast=True)
def dot(a: Floats, b: Floats, n: int) -> float:
    """Inner product of the first `n` entries."""
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@jit_inner()
def _factor(K: Floats, free: Ints, n_free: int, ridge: float, L: Floats, stop: Ints) -> None:
    """Cholesky factor of the kernel of the free coefficients; the ridge replaces lost pivots."""
    for a in range(n_free):
        if stop[0] != 0:
            return
        row = K[free[a]]
        for b in range(a):
            L[a, b] = (row[free[b]] - dot(L[a], L[b], b)) / L[b, b]
        pivot = row[free[a]] + ridge - dot(L[a], L[a], a)
        L[a, a] = np.sqrt(max(pivot, ridge))


@jit_inner()
def _solve(L: Floats, n_free: int, x: Floats) -> None:
    """Solve with the factor, in place."""
    for a in range(n_free):
        x[a] = (x[a] - dot(L[a], x, a)) / L[a, a]
    for a in range(n_free - 1, -1, -1):
        x[a] /= L[a, a]
        for b in range(a):
            x[b] -= L[a, b] * x[a]


@jit_inner()
def face_step(
    K: Floats,
    beta: Floats,
    r: Floats,
    slack: float,
    C: float,
    ridge: float,
    L: Floats,
    free: Ints,
    work: Floats,
    stop: Ints,
) -> float:
    """Move the free coefficients to the optimum of their face, or to its boundary.

    Within the budget, coefficients that are not at ±C are free and keep their sum; with an
    exhausted budget those that are neither 0 nor ±C are free, and both signs keep their own sum.
    """
    n = beta.size
    tight = slack <= 0.0
    n_free = _find_free(beta, C, tight, free)
    if n_free < 2:
        return slack
    p, direction = work[0], work[3]
    if not _newton_direction(K, beta, r, tight, ridge, L, free, n_free, work, stop):
        return slack
    for k in range(n):
        direction[k] = 0.0
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
    t, blocking = _within_bounds(beta, C, tight, free, n_free, p, t)
    if not tight:
        t, slack, used_up = _within_budget(beta, slack, free, n_free, p, t)
        if used_up:
            blocking = -1
    _move(beta, C, tight, free, n_free, p, t, blocking)
    for k in range(n):
        r[k] -= t * direction[k]
    return slack


@jit_inner()
def _find_free(beta: Floats, C: float, tight: bool, free: Ints) -> int:
    """Write the positions of the free coefficients into `free`; return their number."""
    # If the caller counted, Numba would compile its callees twice: for the constant 0 and for any
    # number.
    n_free = 0
    for k in range(beta.size):
        if abs(beta[k]) < C and (beta[k] != 0.0 or not tight):
            free[n_free] = k
            n_free += 1
    return n_free


@jit_inner()
def _newton_direction(
    K: Floats,
    beta: Floats,
    r: Floats,
    tight: bool,
    ridge: float,
    L: Floats,
    free: Ints,
    n_free: int,
    work: Floats,
    stop: Ints,
) -> bool:
    """Write Newton's direction that keeps the sums of the free coefficients into `work[0]`.

    With one row of A for each sum, p − K⁻¹Aᵀ(A K⁻¹ Aᵀ)⁻¹ A p for p = K⁻¹r. False if rounding leaves
    no such direction.
    """
    p, first, second = work[0], work[1], work[2]
    n_first = 0
    for a in range(n_free):
        k = free[a]
        p[a] = r[k]
        in_first = (not tight) or beta[k] > 0.0
        first[a] = 1.0 if in_first else 0.0
        second[a] = 0.0 if in_first else 1.0
        n_first += in_first
    _factor(K, free, n_free, ridge, L, stop)
    _solve(L, n_free, p)
    _solve(L, n_free, first)
    _solve(L, n_free, second)
    s0 = s1 = m00 = m01 = m10 = m11 = 0.0
    for a in range(n_free):
        if (not tight) or beta[free[a]] > 0.0:
            s0 += p[a]
            m00 += first[a]
            m01 += second[a]
        else:
            s1 += p[a]
            m10 += first[a]
            m11 += second[a]
    if n_first == n_free:
        c0 = s0 / m00
        c1 = 0.0
    elif n_first == 0:
        c0 = 0.0
        c1 = s1 / m11
    else:
        det = m00 * m11 - m01 * m10
        if not det > 0.0:
            return False
        c0 = (m11 * s0 - m01 * s1) / det
        c1 = (m00 * s1 - m10 * s0) / det
    s0 = s1 = 0.0
    for a in range(n_free):
        p[a] -= c0 * first[a] + c1 * second[a]
        if (not tight) or beta[free[a]] > 0.0:
            s0 += p[a]
        else:
            s1 += p[a]
    # Rounding must not accumulate in the sums.
    s0 /= max(n_first, 1)
    s1 /= max(n_free - n_first, 1)
    for a in range(n_free):
        p[a] -= s0 if (not tight) or beta[free[a]] > 0.0 else s1
    return True


@jit_inner()
def _within_bounds(
    beta: Floats, C: float, tight: bool, free: Ints, n_free: int, p: Floats, t: float
) -> tuple[float, int]:
    """The step up to the boundary of the face, and the coefficient that limits it, or −1."""
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
    return t, blocking


@jit_inner()
def _within_budget(
    beta: Floats, slack: float, free: Ints, n_free: int, p: Floats, t: float
) -> tuple[float, float, bool]:
    """The step within the budget, half of the remaining budget, and whether it is exhausted."""
    before = 0.0
    after = 0.0
    for a in range(n_free):
        before += abs(beta[free[a]])
        after += abs(beta[free[a]] + t * p[a])
    if not after - before > 2.0 * slack:
        return t, slack - 0.5 * (after - before), False
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
    return inside, 0.0, True


@jit_inner()
def _move(
    beta: Floats, C: float, tight: bool, free: Ints, n_free: int, p: Floats, t: float, blocking: int
) -> None:
    """Take the step; coefficients next to a bound or zero are set to it."""
    for a in range(n_free):
        k = free[a]
        beta[k] += t * p[a]
        if C - abs(beta[k]) <= NEGLIGIBLE * C:
            beta[k] = C if beta[k] > 0.0 else -C
        elif abs(beta[k]) <= NEGLIGIBLE * C:
            beta[k] = 0.0
    if blocking >= 0:
        k = free[blocking]
        if tight and abs(beta[k]) < 0.5 * C:
            beta[k] = 0.0
        else:
            beta[k] = C if p[blocking] > 0.0 else -C


@jit_inner()
def _residual(K: Floats, y: Floats, beta: Floats, r: Floats) -> None:
    """Recompute the residual, in which steps accumulate rounding errors."""
    for k in range(y.size):
        r[k] = y[k] - dot(K[k], beta, y.size)


@jit_inner()
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
    """Copy the start with the lowest objective, scaled into the constraints, or start at zero.

    Returns half of the remaining budget, and whether the residual was copied without scaling.
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
        if abs(t - 1.0) < 1e-9 and largest <= C and used <= budget * (1.0 + RESOLUTION):
            t = 1.0
        value = 0.5 * t * t * quadratic - t * fit
        if value < best:
            best = value
            chosen = slots[c]
            scale = t
    # Numba takes seconds to compile assignments to slices, because of their error messages.
    if chosen < 0:
        for k in range(n):
            beta[k] = 0.0
            r[k] = y[k]
    elif scale == 1.0:
        for k in range(n):
            beta[k] = starts_beta[chosen, j, k]
            r[k] = starts_r[chosen, j, k]
    else:
        for k in range(n):
            beta[k] = scale * starts_beta[chosen, j, k]
            if C - abs(beta[k]) <= NEGLIGIBLE * C:
                beta[k] = C if beta[k] > 0.0 else -C
            r[k] = y[k] - scale * (y[k] - starts_r[chosen, j, k])
    return _slack(beta, budget), chosen < 0 or scale == 1.0


@jit_inner()
def _slack(beta: Floats, budget: float) -> float:
    """Half of the remaining budget; 0 if that is a rounding error."""
    used = 0.0
    for k in range(beta.size):
        used += abs(beta[k])
    slack = 0.5 * (budget - used)
    return slack if slack > RESOLUTION * budget else 0.0


@jit("the ν-SVR solver")
def solve_targets(
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
    r_bits: Ints,
    n_iter: Ints,
    numbers: Floats,
    scratch: tuple[Ints, Floats, Ints, Ints, Floats, Floats],
    stop: Ints,
) -> None:
    """Solve the targets `first` … `last`−1, rows of Y, into rows of `beta` and `r`.

    `r_bits` and `gain_bits` are views of `r` and `gain` as integers. The rows of `numbers` are
    intercepts, half-widths and violations. `scratch` is working memory; allocations and views take
    long to compile. Results are invalid if `stop` is not 0.
    """
    masks, gain, gain_bits, free, work, L = scratch
    n = K.shape[0]
    low = np.int64(1)
    while low < n:
        low *= 2
    low -= 1
    # A factorisation takes as long as about this many pairs.
    pairs_at_once = n * n // 10 + 4 * n + 50
    largest = 0.0
    for k in range(n):
        largest = max(largest, K[k, k])
    ridge = 1e-13 * largest * max(1.0, n / 100.0) + 1e-300
    for j in range(first, last):
        slack, fresh = _start(Y[j], starts_beta, starts_r, slots, j, C, budget, beta[j], r[j])
        total = 0
        while True:
            steps = min(pairs_at_once, max_iter - total)
            slack, done, reached = pair_steps(
                K, inverse_curvature, beta[j], r[j], r_bits[j], slack, C, tol, steps, low,
                masks, gain, gain_bits, stop,
            )  # fmt: skip
            if stop[0] != 0:
                return
            total += done
            fresh = fresh and done == 0
            if reached <= tol or total >= max_iter:
                # The certificate needs a recomputed residual.
                if fresh:
                    break
            else:
                for power in range(3):
                    slack = face_step(
                        K, beta[j], r[j], slack, C, ridge * 100.0**power, L, free, work, stop
                    )
                    total += 1
            _residual(K, Y[j], beta[j], r[j])
            slack = _slack(beta[j], budget)
            fresh = True
        n_iter[j] = total
        numbers[2, j], numbers[0, j], numbers[1, j] = _certify(beta[j], r[j], C, budget)


@jit_inner()
def _certify(beta: Floats, r: Floats, C: float, budget: float) -> tuple[float, float, float]:
    """Largest violation of the optimality conditions, intercept, and half-width of the tube.

    The violation is that of LIBSVM: for either sign, the largest residual that may rise minus the
    smallest that may fall. Within the budget the tube has no width, and signs do not matter.
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


@jit_inner()
def _between(a: float, b: float) -> float:
    """The middle of two bounds, one of which may be missing."""
    if not np.isfinite(a):
        return b
    if not np.isfinite(b):
        return a
    return 0.5 * (a + b)


# Number of targets that a thread solves at a time, small enough to balance the load.
_TARGETS_PER_TASK = 16


class PairSolver:
    """Solves targets over one kernel in several threads, which end with the context."""

    def __init__(self, K: Floats, n_threads: int) -> None:
        self.K = K
        # Compiled code does not handle signals; the main thread waits for Ctrl-C.
        self._pool = ThreadPoolExecutor(n_threads)
        self._n_threads = n_threads
        self._stop = np.zeros(1, dtype=np.int64)

    @cached_property
    def inverse_curvature(self) -> Floats:
        """1 / (K_ii + K_jj − 2K_ij), bounded for equal points."""
        diagonal = np.diag(self.K)
        floor = 1e-12 * (float(diagonal.max()) or 1.0)
        curvature = diagonal[:, None] + diagonal[None, :] - 2 * self.K
        return 1 / np.maximum(curvature, floor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
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
    ) -> tuple[Floats, Floats, Floats, Ints]:
        """Solve a setting from starts in `beta` and `r`: intercepts, widths, violations, steps."""
        n_targets, n_points = targets.shape
        n_iter, numbers = np.zeros(n_targets, dtype=np.int64), np.empty((3, n_targets))
        inverse_curvature, slots = self.inverse_curvature, np.asarray(starts, dtype=np.int64)

        def solve(wanted: slice) -> None:
            gain = np.empty(n_points)
            scratch = (
                np.empty((4, n_points), dtype=np.int64), gain, gain.view(np.int64),
                np.empty(n_points, dtype=np.int64), np.empty((4, n_points)),
                np.empty((n_points, n_points)),
            )  # fmt: skip
            solve_targets(
                self.K, inverse_curvature, targets, C, C * nu * n_points, beta, r, slots, tol,
                max_iter, wanted.start, wanted.stop, beta[out], r[out], r[out].view(np.int64),
                n_iter, numbers, scratch, self._stop,
            )  # fmt: skip

        together = max(n_targets, 1) if self._n_threads == 1 else _TARGETS_PER_TASK
        tasks = [self._pool.submit(solve, some) for some in row_blocks(n_targets, 1, together)]
        for task in tasks:
            task.result()
        return *numbers, n_iter
