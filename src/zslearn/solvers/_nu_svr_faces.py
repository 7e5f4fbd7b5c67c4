"""Newton steps on a face for ν-SVR: all coefficients that are free to move, at once.

Pairs alone take long to finish where the kernel is ill-conditioned. Once they have found which
coefficients are at zero or at ±C, the others solve one linear system.
"""

from __future__ import annotations

import numpy as np

from zslearn.solvers._nu_svr_pairs import NEGLIGIBLE, Ints
from zslearn.utils import Floats, jit_inner


@jit_inner(fast=True)
def dot(a: Floats, b: Floats, n: int) -> float:
    """Inner product of the first `n` entries."""
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@jit_inner()
def _factor(K: Floats, free: Ints, n_free: int, ridge: float, L: Floats, stop: Ints) -> None:
    """Cholesky factor of the kernel of the free coefficients; a lost pivot becomes the ridge."""
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
    """Move the free coefficients to the optimum of their face, or to where they leave it.

    Within the budget the free ones are all that are not at ±C and share one sum; with the budget
    used up they are those that are neither 0 nor ±C, and either side of zero keeps its own sum.

    Parameters
    ----------
    K : ndarray of shape (n_points, n_points)
        The kernel.
    beta, r : ndarray of shape (n_points,)
        Coefficients and their residual, changed in place.
    slack : float
        Half of the budget that is left; 0 where it is used up.
    C : float
        Bound of the coefficients.
    ridge : float
        What is added to the diagonal of the kernel.
    L, free, work : ndarray of shape (n_points, n_points), (n_points,) and (4, n_points)
        Memory to work in.
    stop : ndarray of shape (1,)
        Not 0 where the result is no longer wanted.

    Returns
    -------
    float
        Half of the budget that is left now.
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
    """Positions of the free coefficients into `free`; their number."""
    # A function of its own, as Numba would compile all that a counter is handed to twice: first for
    # the constant 0, then for any number.
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
    """Newton's direction of the free coefficients that keeps their sums, into `work[0]`.

    With one row of A for each sum that is kept, p − K⁻¹Aᵀ(A K⁻¹ Aᵀ)⁻¹ A p for p = K⁻¹r. False where
    rounding leaves no such direction.
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
    # The rest is rounding, which must not build up in the sums.
    s0 /= max(n_first, 1)
    s1 /= max(n_free - n_first, 1)
    for a in range(n_free):
        p[a] -= s0 if (not tight) or beta[free[a]] > 0.0 else s1
    return True


@jit_inner()
def _within_bounds(
    beta: Floats, C: float, tight: bool, free: Ints, n_free: int, p: Floats, t: float
) -> tuple[float, int]:
    """The step as far as no free coefficient leaves the face, and which one stops it; else −1."""
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
    """The step as far as the budget lasts, half of what is then left, and whether it is used up."""
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
    beta: Floats,
    C: float,
    tight: bool,
    free: Ints,
    n_free: int,
    p: Floats,
    t: float,
    blocking: int,
) -> None:
    """Take the step; what is at the end of its way, or next to it, is set there."""
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
