"""Dual points of Crammer–Singer: the rows of a block improved one after another, each exactly.

This module is compiled, and imported where it is first needed.
"""

from __future__ import annotations

import numpy as np

from zslearn.utils import Floats, jit, jit_inner

# Pairs of classes exchanged in one visit of a row, where classes are mixed.
_PAIRS = 16


@jit("the Crammer–Singer solver")
def improve_dual(
    scores: Floats, gram: Floats, dual: Floats, margins: Floats, kernel: Floats, sweeps: int
) -> None:
    """Improve the dual points of a block in place, row after row.

    `scores` are kept up to date; `gram` holds inner products of the rows over αN, each row of it
    times how much that row counts. Without `kernel`
    (of no size) the best point of a row is a projection onto the simplex; with it, pairs of classes
    exchange weight.
    """
    n_rows, n_classes = scores.shape
    mixed = kernel.shape[0] > 0
    value = np.empty(n_classes)
    pull = np.empty(n_classes)
    moved = np.empty(n_classes, np.intp)
    for _ in range(sweeps):
        largest = 0.0
        for i in range(n_rows):
            for c in range(n_classes):
                value[c] = margins[i, c] + scores[i, c]
            if mixed:
                changed = _exchange(value, dual[i], gram[i, i], kernel, pull)
            else:
                changed = project_dual(value, dual[i], gram[i, i], pull)
            if changed == 0.0:
                continue
            largest = max(largest, changed)
            n_moved = 0
            for c in range(n_classes):
                if pull[c] != 0.0:
                    moved[n_moved] = c
                    n_moved += 1
            if 4 * n_moved <= n_classes:
                for j in range(n_rows):
                    for k in range(n_moved):
                        scores[j, moved[k]] -= gram[i, j] * pull[moved[k]]
                continue
            for j in range(n_rows):
                weight = gram[i, j]
                for c in range(n_classes):
                    scores[j, c] -= weight * pull[c]
        if largest < 1e-12:
            break


@jit()
def project_dual(value: Floats, dual: Floats, curvature: float, change: Floats) -> float:
    """Maximise δᵀf − q/2‖δ‖² over the simplex p + δ: the projection of p + f/q."""
    n_classes = value.shape[0]
    best = 0
    for c in range(n_classes):
        if value[c] > value[best]:
            best = c
    # At a vertex of the largest value there is nothing to gain.
    if dual[best] == 1.0:
        return 0.0
    if curvature <= 0.0:
        for c in range(n_classes):
            change[c] = -dual[c]
            dual[c] = 0.0
        change[best] += 1.0
        dual[best] = 1.0
        return 1.0
    # Michelot: subtract the mean excess over 1, drop what falls below zero, repeat.
    top = value[best]
    total, count = 0.0, n_classes
    for c in range(n_classes):
        change[c] = dual[c] + (value[c] - top) / curvature
        total += change[c]
    threshold = (total - 1.0) / count
    while True:
        total, kept = 0.0, 0
        for c in range(n_classes):
            if change[c] > threshold:
                total += change[c]
                kept += 1
        # Rounding may bring back a class at the threshold: the count must fall, or all is done.
        if kept >= count:
            break
        threshold = (total - 1.0) / kept
        count = kept
    largest = 0.0
    for c in range(n_classes):
        point = change[c] - threshold
        if point < 0.0:
            point = 0.0
        change[c] = point - dual[c]
        dual[c] = point
        largest = max(largest, abs(change[c]))
    return largest


@jit_inner()
def _exchange(value: Floats, dual: Floats, norm: float, kernel: Floats, pull: Floats) -> float:
    """Move weight from the worst class in use to the best class, a few times over."""
    n_classes = value.shape[0]
    largest = 0.0
    for c in range(n_classes):
        pull[c] = 0.0
    for _ in range(_PAIRS):
        best, worst = 0, -1
        for c in range(n_classes):
            if value[c] > value[best]:
                best = c
            if dual[c] > 0.0 and (worst < 0 or value[c] < value[worst]):
                worst = c
        gain = value[best] - value[worst]
        if gain <= 1e-15 * (1.0 + abs(value[best])):
            break
        curvature = norm * (kernel[best, best] + kernel[worst, worst] - 2 * kernel[best, worst])
        moved = dual[worst]
        if curvature * moved > gain:
            moved = gain / curvature
        dual[best] += moved
        dual[worst] -= moved
        largest = max(largest, moved)
        for c in range(n_classes):
            step = moved * (kernel[c, best] - kernel[c, worst])
            pull[c] += step
            value[c] -= norm * step
    return largest
