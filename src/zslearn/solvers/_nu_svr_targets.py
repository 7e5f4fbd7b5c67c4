"""The compiled part of ν-SVR on the processor: targets one after another, each from its best start.

This module is imported where it is first needed, as Numba and compiling take seconds. Numba's cache
of what is compiled here asks for the date of this file alone: after a change of the functions
imported from the other two it must be emptied, or this file touched.
"""

from __future__ import annotations

import numpy as np

from zslearn.solvers._nu_svr_faces import dot, face_step
from zslearn.solvers._nu_svr_pairs import NEGLIGIBLE, Ints, pair_steps
from zslearn.solvers._nu_svr_smo import RESOLUTION
from zslearn.utils import Floats, jit, jit_inner


@jit_inner()
def _residual(K: Floats, y: Floats, beta: Floats, r: Floats) -> None:
    """The residual afresh: steps leave rounding behind."""
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
        if abs(t - 1.0) < 1e-9 and largest <= C and used <= budget * (1.0 + RESOLUTION):
            t = 1.0
        value = 0.5 * t * t * quadratic - t * fit
        if value < best:
            best = value
            chosen = slots[c]
            scale = t
    # Loops instead of slices, here and below: Numba takes seconds to compile an assignment to a
    # slice, which must be able to say in words that two shapes differ.
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
    """Half of the budget that is left; 0 where that is but rounding."""
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
    masks: Ints,
    gain: Floats,
    gain_bits: Ints,
    free: Ints,
    work: Floats,
    L: Floats,
    stop: Ints,
) -> None:
    """Solve the targets `first` … `last`−1, rows of Y, into rows of `beta` and `r`.

    Each begins at the best of its starts; steps of pairs alternate with steps on a whole face,
    which pairs alone would take long to finish where the kernel is ill-conditioned.

    `r_bits` and `gain_bits` are the memory of `r` and `gain`, seen as integers. The rows of
    `numbers` are intercepts, half-widths and violations. From `masks` on all is memory to work in:
    what makes arrays and views takes long to compile, so that they come from Python. What is found
    once `stop` is no longer 0 is not to be used.
    """
    n = K.shape[0]
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
    for j in range(first, last):
        slack, fresh = _start(Y[j], starts_beta, starts_r, slots, j, C, budget, beta[j], r[j])
        total = 0
        while True:
            steps = min(chunk, max_iter - total)
            slack, done, reached = pair_steps(
                K,
                inverse_curvature,
                beta[j],
                r[j],
                r_bits[j],
                slack,
                C,
                tol,
                steps,
                low,
                masks,
                gain,
                gain_bits,
                stop,
            )
            if stop[0] != 0:
                return
            total += done
            fresh = fresh and done == 0
            if reached <= tol or total >= max_iter:
                # What is certified is the residual computed afresh.
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


@jit_inner()
def _between(a: float, b: float) -> float:
    """The middle of two bounds, one of which may be missing."""
    if not np.isfinite(a):
        return b
    if not np.isfinite(b):
        return a
    return 0.5 * (a + b)
