"""One batch of LatEm's descent, compiled: scores under all maps, and what they change.

This module is compiled, and imported where it is first needed.
"""

from __future__ import annotations

from typing import Any

from zslearn.utils import jit, jit_inner


@jit("the descent of several maps")
def latent_step(
    X: Any, rows: Any, own: Any, other: Any, P: Any, V: Any, step: float, change: Any, touched: Any
) -> int:
    """Take the rows of a batch down their loss; returns how many rows of V changed.

    `P` holds the classifiers (n_maps, n_classes, n_features), `V` one row for each map and class.
    `touched` gets the rows of V that changed, ascending, and `change` what was added to each.
    """
    _, n_classes, n_features = P.shape
    length = X.dtype.type(step)
    at = touched[V.shape[0] :]  # where a row of V stands among those that changed, plus one
    for t in range(V.shape[0]):
        at[t] = 0
    up, down = other.copy(), other.copy()
    for i in range(rows.shape[0]):
        own_score, own_map = _best(P, own[i], X[rows[i]])
        other_score, other_map = _best(P, other[i], X[rows[i]])
        up[i] = -1
        if 1 + other_score - own_score > 0:
            up[i] = own_map * n_classes + own[i]
            down[i] = other_map * n_classes + other[i]
            at[up[i]] = 1
            at[down[i]] = 1
    count = 0
    for t in range(V.shape[0]):
        if at[t]:
            touched[count] = t
            count += 1
            at[t] = count
            for d in range(n_features):
                change[count - 1, d] = 0
    for i in range(rows.shape[0]):
        if up[i] >= 0:
            _add(change[at[up[i]] - 1], X[rows[i]], length)
            _add(change[at[down[i]] - 1], X[rows[i]], -length)
    for t in range(count):
        for d in range(n_features):
            V[touched[t], d] += change[t, d]
    return count


@jit_inner()
def _best(P: Any, of_class: int, row: Any) -> Any:
    """The largest score of a class under any map, and the first map that gives it."""
    best, which = _dot(P[0, of_class], row), 0
    for k in range(1, P.shape[0]):
        score = _dot(P[k, of_class], row)
        if score > best:
            best, which = score, k
    return best, which


@jit_inner()
def _dot(a: Any, b: Any) -> Any:
    """Inner product in four sums, in the order of NumPy's: long descents amplify any other."""
    n = a.shape[0]
    zero = a.dtype.type(0)
    sum0, sum1, sum2, sum3 = zero, zero, zero, zero
    if a.itemsize == 8:
        whole = n // 8 * 8
        for d in range(0, whole, 8):
            for back in range(6, -1, -2):
                sum0 = a[d + back] * b[d + back] + sum0
                sum1 = a[d + back + 1] * b[d + back + 1] + sum1
        for d in range(whole, n):
            if (d - whole) % 2 == 0:
                sum0 = a[d] * b[d] + sum0
            else:
                sum1 = a[d] * b[d] + sum1
        return sum0 + sum1
    whole = n // 16 * 16
    for d in range(0, whole, 16):
        for back in range(12, -1, -4):
            sum0 = a[d + back] * b[d + back] + sum0
            sum1 = a[d + back + 1] * b[d + back + 1] + sum1
            sum2 = a[d + back + 2] * b[d + back + 2] + sum2
            sum3 = a[d + back + 3] * b[d + back + 3] + sum3
    for d in range(whole, n):
        lane = (d - whole) % 4
        if lane == 0:
            sum0 = a[d] * b[d] + sum0
        elif lane == 1:
            sum1 = a[d] * b[d] + sum1
        elif lane == 2:
            sum2 = a[d] * b[d] + sum2
        else:
            sum3 = a[d] * b[d] + sum3
    return (sum0 + sum1) + (sum2 + sum3)


@jit_inner()
def _add(to: Any, row: Any, weight: Any) -> None:
    for d in range(to.shape[0]):
        to[d] += weight * row[d]
