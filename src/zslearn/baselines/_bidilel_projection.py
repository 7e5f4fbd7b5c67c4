"""The projection of BiDiLEL: scatters over the graph within classes, and leading directions."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn.base import Training
from zslearn.solvers import mean_square_distance
from zslearn.utils import Array, Floats, row_blocks, to_numpy

# A scatter that is a smaller share of the sum of squares is rounding.
_ROUNDING = 1e-12
# Classes of fewer rows than the first wait for others to enter the scatters, up to the second.
_FEW_ROWS, _ROWS_TOGETHER = 128, 512
# Scatters are symmetric: of so many features at a time, what lies below the diagonal is left out.
_PART = 256


def scatters(training: Training) -> tuple[Floats, Floats, Floats]:
    """XᵀDX around its mean, XᵀLX, and that mean, from the graph of pairs within classes."""
    xp, device = compat.array_namespace(training.rows), compat.device(training.rows)
    squared_width = _squared_width(training)
    n_features = training.rows.shape[1]
    total = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    smooth = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    weight = 0.0
    waiting: list[tuple[Array, Array, Array]] = []
    for members in by_class(training):
        points = xp.astype(training.take(members), xp.float64)
        # Of a row: its distances and weights to the class, itself centred, weighted and smoothed.
        for rows in row_blocks(len(members), row_bytes=8 * (3 * len(members) + 3 * n_features)):
            block = points[rows, :]
            weights = xp.exp(-_squared_distances(block, points) / (2 * squared_width))
            degrees = xp.sum(weights, axis=1)
            weighted = block * degrees[:, None]
            mean += xp.sum(weighted, axis=0)
            weight += float(xp.sum(degrees))
            # Products of many rows: each goes through two tables of features².
            waiting.append((block, weighted, weights @ points))
            n_waiting = sum(part[0].shape[0] for part in waiting)
            if len(members) >= _FEW_ROWS or n_waiting >= _ROWS_TOGETHER:
                _add_products(waiting, total, smooth)
    _add_products(waiting, total, smooth)
    mean = mean / weight
    rounding = _ROUNDING * float(xp.linalg.trace(total))
    local = total - smooth
    # Σ d_i (x_i − m)(x_i − m)ᵀ; L does not change when all samples move.
    total = total - weight * mean[:, None] * mean[None, :]
    # Where no two samples differ, or no two of a class, rounding is all that is left.
    scatters = (_whole(to_numpy(total)), _whole(to_numpy(local)))
    total, local = (s if np.trace(s) > rounding else np.zeros_like(s) for s in scatters)
    return total, local, to_numpy(mean)


def _add_products(waiting: list[tuple[Array, Array, Array]], total: Array, smooth: Array) -> None:
    """Add to XᵀDX and XᵀWX, on and above the diagonal, what rows wait to add, and forget them."""
    if waiting:
        xp = compat.array_namespace(total)
        rows, weighted, smoothed = (
            parts[0] if len(parts) == 1 else xp.concat(parts)
            for parts in zip(*waiting, strict=True)
        )
        for start in range(0, rows.shape[1], _PART):
            part = slice(start, min(start + _PART, rows.shape[1]))
            across = xp.matrix_transpose(rows[:, part])
            total[part, start:] += across @ weighted[:, start:]
            smooth[part, start:] += across @ smoothed[:, start:]
        waiting.clear()


def _whole(upper: Floats) -> Floats:
    """A symmetric matrix of which parts below the diagonal were not computed."""
    above = np.triu(upper)
    return above + np.triu(above, 1).T


def by_class(training: Training) -> list[NDArray[np.intp]]:
    """Positions of the samples of each seen class."""
    return [np.flatnonzero(training.y == position) for position in range(training.n_seen)]


def _squared_width(training: Training) -> float:
    """Mean squared distance of two samples of the same class, over all such pairs; 1 without any.

    The squared distances of the pairs of a class sum to its size times its squared deviations.
    """
    squares, pairs = 0.0, 0
    for members in by_class(training):
        squares += len(members) ** 2 * mean_square_distance(training.take(members))
        pairs += len(members) * (len(members) - 1) // 2
    return squares / pairs if squares > 0 else 1.0


def _squared_distances(a: Array, b: Array) -> Array:
    xp = compat.array_namespace(a)
    center = xp.mean(b, axis=0, keepdims=True)
    a, b = a - center, b - center
    squares = xp.sum(a * a, axis=1)[:, None] + xp.sum(b * b, axis=1)[None, :]
    return xp.clip(squares - 2 * (a @ xp.matrix_transpose(b)), min=0.0)


def leading(total: Floats, local: Floats, alpha: float, n: int) -> tuple[Floats, Floats]:
    """The n leading solutions of XᵀDX p = λ (XᵀLX + αI) p, the signs fixed."""
    size = len(total)
    # Where no two samples of a class differ, any penalty gives the same directions.
    unit = np.trace(local) / size or np.trace(total) / size or 1.0
    penalized = local + alpha * unit * np.eye(size)
    try:
        values, vectors = scipy.linalg.eigh(
            total,
            penalized,
            subset_by_index=[size - n, size - 1],
        )
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            f"alpha={alpha} is too small: XᵀLX + αI cannot be told from a singular matrix. "
            "Take a larger alpha."
        ) from error
    vectors = vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    return values[::-1], vectors * np.sign(vectors[largest, np.arange(n)])
