r"""Steps of pairs for ν-SVR: one coefficient rises, another falls by as much.

Choosing the pair is most of the work. The largest and smallest residuals are found as integers: the
bits of a float, their sign folded in, order as the float does, and the low bits give way to the
index. Compilers turn integer maxima into vector instructions and leave those of floats alone, and
value and index come out together. What is lost is below 1e-10 of a residual and touches only the
choice of the pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats, jit_inner

Ints = NDArray[np.int64]

#: Nearer than this to zero or to a bound, in units of C, is there but for rounding.
NEGLIGIBLE = 1e-12

_FOLD = np.int64(0x7FFFFFFFFFFFFFFF)
_LOWEST = np.int64(-(2**63))
_HIGHEST = np.int64(2**63 - 1)
_NONE = -1e300


@jit_inner(fast=True)
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


@jit_inner(fast=True)
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
    """Say whether the coefficient k is below C, negative, positive, above −C; all bits for yes."""
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
    """Move pairs until the violation is at most `tol`.

    Parameters
    ----------
    K, inverse_curvature : ndarray of shape (n_points, n_points)
        The kernel, and 1 / (K_ii + K_jj − 2K_ij).
    beta, r : ndarray of shape (n_points,)
        Coefficients and their residual, changed in place.
    bits : ndarray of shape (n_points,)
        The memory of `r`, as integers.
    slack : float
        Half of the budget that is left.
    C : float
        Bound of the coefficients.
    tol : float
        Largest violation.
    max_iter : int
        Steps at most.
    low : int
        Bits of a key that hold the index.
    masks, gain, gain_bits : ndarray of shape (4, n_points), (n_points,) and (n_points,)
        Memory to work in; the last is that of `gain`, as integers.
    stop : ndarray of shape (1,)
        Not 0 where the result is no longer wanted.

    Returns
    -------
    slack : float
        Half of the budget that is left now.
    n_iter : int
        Steps taken.
    violation : float
        Largest violation.
    """
    n = beta.size
    for k in range(n):
        _mark(beta[k], C, k, masks)
    negligible = NEGLIGIBLE * C
    n_iter = 0
    while True:
        # The choice of the first coefficient stays in this loop: as a function of its own it makes
        # the whole a tenth slower.
        i = np.int64(0)
        fall = 3
        violation = _NONE
        if slack > 0.0:
            largest, smallest = _extremes(bits, masks[0], masks[3], low)
            if largest != _LOWEST and smallest != _HIGHEST:
                i = largest & low
                violation = r[i] - r[smallest & low]
        else:
            up, up_negative, down_positive, down = _extremes_by_side(bits, masks, low)
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
