"""LatEm's descent, compiled: an epoch of batches, each scored under all maps.

Only two things are asked of the scores: which map wins, and whether the margin is violated. They
come from inner products in whatever order is fastest, with a bound on their rounding; where the
bound leaves an answer open, the inner products are computed again in one fixed order. So the
descent is that of the fixed order, bit for bit.

This module is compiled, and imported where it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zslearn.utils import jit, jit_inner


@jit("the descent of several maps")
def latent_epoch(
    X: Any,
    order: Any,
    own: Any,
    other: Any,
    winner: Any,
    P: Any,
    V: Any,
    gram: Any,
    step: float,
    batch_size: int,
    change: Any,
    touched: Any,
) -> None:
    """Visit the rows in some order, a batch at a time.

    `own` and `other` hold the class of each row visited and its negative, `winner` a map that may
    win for the own class, and afterwards one that did. `P` holds the classifiers (n_maps,
    n_classes, n_features), `V` one row for each map and class; both are brought up to date after
    each batch. `change` and `touched` are room to work in: `touched` for two numbers for each row
    of V, `change` for as many rows as a batch can change.
    """
    room = np.zeros((3, P.shape[2]), dtype=P.dtype)
    for start in range(0, order.shape[0], batch_size):
        stop = min(start + batch_size, order.shape[0])
        count = _visit(
            X, order[start:stop], own[start:stop], other[start:stop], winner[start:stop],
            P, V, step, change, touched,
        )  # fmt: skip
        _bring_up_to_date(P, gram, change, touched, count, room)


@jit_inner()
def _visit(
    X: Any,
    rows: Any,
    own: Any,
    other: Any,
    winner: Any,
    P: Any,
    V: Any,
    step: float,
    change: Any,
    touched: Any,
) -> int:
    """Take the rows of a batch down their loss; returns how many rows of V changed.

    `touched` gets the rows of V that changed, ascending, and `change` what was added to each.
    """
    _, n_classes, n_features = P.shape
    length = X.dtype.type(step)
    at = touched[V.shape[0] :]  # where a row of V stands among those that changed, plus one
    for t in range(V.shape[0]):
        at[t] = 0
    up, down = other.copy(), other.copy()
    for i in range(rows.shape[0]):
        own_map, other_map, winner[i] = _violation(P, own[i], other[i], winner[i], X[rows[i]])
        up[i] = -1
        if own_map >= 0:
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
def _violation(P: Any, own: int, other: int, winner: int, row: Any) -> Any:
    """The maps that win for the own class and the negative, −1 where there is no violation.

    And a map that wins for the own class, for the next time: its score alone shows, as a rule, that
    nothing is violated.
    """
    other_score, other_map, other_error, other_is_sure = _fast_best(P, other, row)
    own_score, own_error = _fast_score(P[winner, own], row)
    if 1 + other_score - own_score < -(own_error + other_error):
        return -1, -1, winner
    own_score, own_map, own_error, own_is_sure = _fast_best(P, own, row)
    excess = 1 + other_score - own_score
    error = own_error + other_error
    if excess < -error:
        return -1, -1, own_map
    if not (excess > error and own_is_sure and other_is_sure):
        own_score, own_map = _best(P, own, row)
        other_score, other_map = _best(P, other, row)
        if not 1 + other_score - own_score > 0:
            return -1, -1, own_map
    return own_map, other_map, own_map


@jit_inner()
def _fast_best(P: Any, of_class: int, row: Any) -> Any:
    """The largest score and its map, how wrong a score can be, and whether the map is sure."""
    best, second, which, error = -np.inf, -np.inf, 0, 0.0
    for k in range(P.shape[0]):
        score, its_error = _fast_score(P[k, of_class], row)
        error = max(error, its_error)
        if score > best:
            best, second, which = score, best, k
        else:
            second = max(second, score)
    return best, which, error, best - second > 2 * error


@jit_inner()
def _fast_score(classifier: Any, row: Any) -> Any:
    """A score, and how wrong it can be."""
    dot, size = _fast_dot(classifier, row)
    # n + n/4 roundings at most, of half an epsilon each, in this order and in the fixed one.
    epsilon = (row.shape[0] + 8) * (2.0**-52 if row.itemsize == 8 else 2.0**-23)
    # Numbers that are not finite leave everything open.
    return float(dot), epsilon * size if size < np.inf else np.inf


@jit_inner(fast={"contract", "reassoc"})
def _fast_dot(a: Any, b: Any) -> Any:
    """An inner product in any order, and that of the absolute values."""
    total = a.dtype.type(0)
    size = a.dtype.type(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
        size += abs(a[d] * b[d])
    return total, size


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


@jit_inner()
def _bring_up_to_date(P: Any, gram: Any, change: Any, touched: Any, count: int, room: Any) -> None:
    """Add to the classifiers of each map what its rows of V changed by: gram @ change.

    Two classes at a time: each change is read once for both.
    """
    n_classes = P.shape[1]
    first = 0
    while first < count:
        k = touched[first] // n_classes
        last = first + 1
        while last < count and touched[last] // n_classes == k:
            last += 1
        which = touched[first:last] - k * n_classes
        for c in range(0, n_classes - 1, 2):
            _add_combinations(
                P[k, c], P[k, c + 1], gram[c], gram[c + 1], change[first:last], which, room
            )
        if n_classes % 2:
            # Beside the last class, a row that nobody reads.
            c = n_classes - 1
            _add_combinations(P[k, c], room[2], gram[c], gram[c], change[first:last], which, room)
        first = last


@jit_inner(fast={"contract"})
def _add_combinations(
    p: Any, q: Any, p_weights: Any, q_weights: Any, change: Any, which: Any, room: Any
) -> None:
    """Add Σ_t w_t change_t to two rows: the sum first, in its order, as a matrix product does.

    Eight terms at a time, of which those that are missing weigh nothing; the few that most batches
    have, without these. The first rows of `room` hold the sums so far.
    """
    n, end = p.shape[0], which.shape[0] - 1
    a, b = room[0], room[1]
    none = p_weights[0] - p_weights[0]
    for t in range(0, end + 1, 8):
        w0, w1, w2, w3, w4, w5, w6, w7 = _eight(p_weights, which, t)
        v0, v1, v2, v3, v4, v5, v6, v7 = _eight(q_weights, which, t)
        c0, c1, c2 = change[t], change[min(t + 1, end)], change[min(t + 2, end)]
        c3, c4, c5 = change[min(t + 3, end)], change[min(t + 4, end)], change[min(t + 5, end)]
        c6, c7 = change[min(t + 6, end)], change[min(t + 7, end)]
        if end == 0:
            for d in range(n):
                p[d] += none + w0 * c0[d]
                q[d] += none + v0 * c0[d]
        elif end == 1:
            for d in range(n):
                p[d] += (none + w0 * c0[d]) + w1 * c1[d]
                q[d] += (none + v0 * c0[d]) + v1 * c1[d]
        elif end < 4:
            for d in range(n):
                p[d] += (((none + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                q[d] += (((none + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
        elif t == 0:
            for d in range(n):
                half = (((none + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                a[d] = (((half + w4 * c4[d]) + w5 * c5[d]) + w6 * c6[d]) + w7 * c7[d]
                half = (((none + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
                b[d] = (((half + v4 * c4[d]) + v5 * c5[d]) + v6 * c6[d]) + v7 * c7[d]
        else:
            for d in range(n):
                half = (((a[d] + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                a[d] = (((half + w4 * c4[d]) + w5 * c5[d]) + w6 * c6[d]) + w7 * c7[d]
                half = (((b[d] + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
                b[d] = (((half + v4 * c4[d]) + v5 * c5[d]) + v6 * c6[d]) + v7 * c7[d]
    if end >= 4:
        for d in range(n):
            p[d] += a[d]
            q[d] += b[d]


@jit_inner()
def _eight(weights: Any, which: Any, t: int) -> Any:
    """The weights of eight terms; 0 for those that are missing."""
    none, n = weights[0] - weights[0], which.shape[0]
    return (
        weights[which[t]],
        weights[which[t + 1]] if t + 1 < n else none,
        weights[which[t + 2]] if t + 2 < n else none,
        weights[which[t + 3]] if t + 3 < n else none,
        weights[which[t + 4]] if t + 4 < n else none,
        weights[which[t + 5]] if t + 5 < n else none,
        weights[which[t + 6]] if t + 6 < n else none,
        weights[which[t + 7]] if t + 7 < n else none,
    )
