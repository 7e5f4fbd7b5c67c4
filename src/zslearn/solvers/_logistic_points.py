"""Where Newton's method for logistic losses is, and where it ended; see `_logistic_newton`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._logistic_losses import take_columns
from zslearn.utils import Array, take_rows


class Solution(NamedTuple):
    """Where Newton's method ended, in the coordinates of the rows."""

    coef: Array  # (n_columns, width)
    intercept: Array  # (1, n_columns)
    alpha: float
    objective: Array  # (1, n_problems)
    gap: Array  # (1, n_problems)
    gain: Array  # (1, n_problems), at least
    wanted: Array  # (1, n_problems), the gap that is small enough
    n_iter: int


class Point(NamedTuple):
    """What is known at one W, with its best intercepts."""

    coef: Array  # (n_columns, width), in the eigenvectors of the rows
    unturned: Array  # the same in the coordinates of the rows, where the point was measured
    intercept: Array  # (1, n_columns)
    scores: Array  # (n_samples, n_columns)
    probabilities: Array
    slope: Array  # (width, n_columns), the gradient in the eigenvectors; zeros where none is needed
    value: Array  # (1, n_problems), the loss without the penalty
    objective: Array
    gap: Array
    gain: Array  # at least
    wanted: Array  # the gap that is small enough

    def part(self, columns: NDArray[np.intp]) -> Point:
        """Some of the problems."""
        coef, unturned = (take_rows(item, columns) for item in self[:2])
        return Point(coef, unturned, *(take_columns(item, columns) for item in self[2:]))


def solution_at(point: Point, alpha: float, n_iter: int) -> Solution:
    """A measured point as the solution under a penalty."""
    return Solution(
        point.unturned,
        point.intercept,
        alpha,
        point.objective,
        point.gap,
        point.gain,
        point.wanted,
        n_iter,
    )


def joined(parts: Sequence[tuple[NDArray[np.intp], Point]]) -> Point:
    """Points of different columns as one, in the order of the columns."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([columns for columns, _ in parts]))
    points = [point for _, point in parts]
    xp = compat.array_namespace(points[0].coef)
    by_row = zip(*(point[:2] for point in points), strict=True)
    coef, unturned = (take_rows(xp.concat(list(x), axis=0), order) for x in by_row)
    by_column = zip(*(point[2:] for point in points), strict=True)
    return Point(
        coef, unturned, *(take_columns(xp.concat(list(x), axis=1), order) for x in by_column)
    )


def side_by_side(solutions: Sequence[Solution]) -> Solution:
    """Solutions of different columns as one."""
    first = solutions[0]
    if len(solutions) == 1:
        return first
    xp = compat.array_namespace(first.coef)
    by_column = {
        name: xp.concat([getattr(solution, name) for solution in solutions], axis=1)
        for name in ("intercept", "objective", "gap", "gain", "wanted")
    }
    return Solution(
        coef=xp.concat([solution.coef for solution in solutions], axis=0),
        alpha=first.alpha,
        n_iter=max(solution.n_iter for solution in solutions),
        **by_column,
    )
