"""Crammer–Singer by the few classes that compete for each row: compiled.

At the optimum a row's dual point has weight on a handful of classes, whatever their number is. So
between two looks at all rows only likely classes are visited: those with weight, and some that
score next. Products with single classifiers then take the place of those with all of them.

This module is compiled, and imported where it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._svm_dual_points import project_dual
from zslearn.utils import Floats, jit, jit_inner

# Columns of U that are summed together: those of all classes stay in the cache.
_COLUMNS = 512


@jit("the Crammer–Singer solver's choice of classes")
def likely_classes(
    values: Floats, dual: Floats, spare: int
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """The classes of each row that have weight, and some that score highest of the others.

    Returns the classes, row after row, and how many each row has.
    """
    n_rows, n_classes = values.shape
    counts = np.empty(n_rows, np.intp)
    total = 0
    for i in range(n_rows):
        weighty = 0
        for c in range(n_classes):
            if dual[i, c] > 0.0:
                weighty += 1
        counts[i] = min(weighty + spare, n_classes)
        total += counts[i]
    classes = np.empty(total, np.int32)
    best = np.empty(spare, np.int32)
    position = 0
    for i in range(n_rows):
        found = 0
        for c in range(n_classes):
            if dual[i, c] > 0.0:
                classes[position] = c
                position += 1
            elif found < spare or values[i, c] > values[i, best[found - 1]]:
                if found < spare:
                    found += 1
                place = found - 1
                while place > 0 and values[i, best[place - 1]] < values[i, c]:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = c
        for place in range(found):
            classes[position] = best[place]
            position += 1
    return classes, counts


@jit("the Crammer–Singer solver for many classes")
def improve_few(
    X: Any,
    places: NDArray[np.intp],
    rows: NDArray[np.intp],
    labels: NDArray[np.intp],
    classes: NDArray[np.int32],
    starts: NDArray[np.intp],
    steps: Floats,
    gram: Any,
    margins: Floats,
    base: Any,
    dual: Floats,
    sweeps: int,
) -> None:
    """Improve the dual points of some rows within their likely classes, and U with them.

    `places` says where the rows lie in `X`; `rows`, where they lie in `labels`, `dual` and
    `starts`, which leads to their `classes`. `gram` holds inner products of the rows, `steps` how
    much each counts over αN.
    """
    n_rows, n_classes = len(rows), len(margins)
    value, point, change = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    # By class, so that a change of one row reaches the others in the order of memory.
    scores = np.empty((n_classes, n_rows))
    n_likely = 0
    for i in range(n_rows):
        n_likely += starts[rows[i] + 1] - starts[rows[i]]
    before = np.empty(n_likely)
    position = 0
    for i in range(n_rows):
        row = rows[i]
        for c in classes[starts[row] : starts[row + 1]]:
            scores[c, i] = _inner_product(X[places[i]], base[c])
            before[position] = dual[row, c]
            position += 1
    for _ in range(sweeps):
        largest = 0.0
        for i in range(n_rows):
            row = rows[i]
            likely = classes[starts[row] : starts[row + 1]]
            count = len(likely)
            for k in range(count):
                value[k] = margins[labels[row], likely[k]] + scores[likely[k], i]
                point[k] = dual[row, likely[k]]
            curvature = steps[i] * gram[i, i]
            changed = project_dual(value[:count], point[:count], curvature, change[:count])
            if changed == 0.0:
                continue
            largest = max(largest, changed)
            for k in range(count):
                if change[k] != 0.0:
                    dual[row, likely[k]] = point[k]
                    _add(-steps[i] * change[k], gram[i], scores[likely[k]])
        if largest < 1e-12:
            break
    position = 0
    for i in range(n_rows):
        row = rows[i]
        for c in classes[starts[row] : starts[row + 1]]:
            moved = dual[row, c] - before[position]
            position += 1
            if moved != 0.0:
                _add(-steps[i] * moved, X[places[i]], base[c])


@jit("the Crammer–Singer solver's sums")
def add_pulls(
    X: Any, labels: NDArray[np.intp], dual: Floats, weights: Floats, total: Floats
) -> None:
    """Add Σ_n (e_{y_n} − p_n) x_nᵀ of some rows, each as often as it counts."""
    n_rows, n_classes = dual.shape
    for first in range(0, X.shape[1], _COLUMNS):
        columns = slice(first, min(first + _COLUMNS, X.shape[1]))
        for i in range(n_rows):
            for c in range(n_classes):
                pull = -dual[i, c]
                if c == labels[i]:
                    pull += 1.0
                if pull != 0.0:
                    _add(weights[i] * pull, X[i, columns], total[c, columns])


@jit_inner(fast=True)
def _inner_product(x: Any, w: Any) -> float:
    total = x[0] * w[0]
    for d in range(1, x.shape[0]):
        total += x[d] * w[d]
    return total


@jit_inner(fast=True)
def _add(factor: float, x: Any, total: Any) -> None:
    # In the precision of the sum, so that a loop over single precision stays one.
    share = total.dtype.type(factor)
    for d in range(x.shape[0]):
        total[d] += share * x[d]
