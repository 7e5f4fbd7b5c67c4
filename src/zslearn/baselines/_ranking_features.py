"""Features of the ranking methods: the mean is taken off, and the rest multiplied."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers import AnyFloats
from zslearn.utils import Array, Floats, move_like, row_blocks

# A feature that deviates by fewer rounding errors of its size than this is constant.
_CONSTANT = 10


class Scaling(NamedTuple):
    """What is done to features: the mean is taken off, and the rest multiplied.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        What is taken off.
    weights : ndarray of shape (n_features,)
        What the rest is multiplied by.
    """

    mean: Floats
    weights: Floats

    @classmethod
    def of(cls, X: AnyFloats, kind: str | None) -> Scaling:
        """Learn from rows: "center", "zscore" or None.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        kind : {"center", "zscore"} or None
            See :class:`RankingClassifier`.

        Returns
        -------
        Scaling
            With weights of 0 for features that "zscore" finds constant.
        """
        n_features = X.shape[1]
        if kind is None:
            return cls(np.zeros(n_features), np.ones(n_features))
        mean, low, high = _extent(X)
        # In units of each feature's size, so that squares neither overflow nor vanish.
        size = np.maximum(-low, high)
        unit = np.where(size > 0, size, 1.0)
        squares = np.zeros(n_features)
        for rows in _blocks(X):
            squares += np.sum(((X[rows] - mean) / unit) ** 2, axis=0)
        std = unit * np.sqrt(squares / len(X))
        varies = std > _CONSTANT * np.finfo(X.dtype).eps * unit
        if kind == "center":
            norm = float(np.linalg.norm(std))
            return cls(mean, np.full(n_features, 1 / norm if varies.any() else 1.0))
        weights = np.where(varies, 1 / np.where(varies, std, 1.0), 0.0)
        # Of centred features the largest is positive.
        largest = float(np.max((high - mean) * weights))
        return cls(mean, weights / largest if largest > 0 else weights)

    def __call__(self, X: Array) -> Array:
        """Scale rows of any library."""
        scaled = X - move_like(self.mean, X)[None, :]
        scaled *= move_like(self.weights, X)[None, :]
        return scaled


def _blocks(X: Any) -> list[slice]:
    """Rows that are read at a time."""
    return row_blocks(X.shape[0], row_bytes=2 * 8 * X.shape[1])


def _extent(X: Any) -> tuple[Floats, Floats, Floats]:
    """Mean, smallest and largest value of each feature."""
    if isinstance(X, np.ndarray):
        ends = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        return X.mean(axis=0, dtype=np.float64), *ends
    total: Any = 0.0
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for rows in _blocks(X):
        block = X[rows]
        total = total + block.sum(axis=0, dtype=np.float64)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    return total / X.shape[0], low, high


class ScaledRows:
    """Rows that are prepared and scaled as they are read, so that no copy of them is held.

    Parameters
    ----------
    rows : PreparedRows
        Rows of NumPy.
    scaling : Scaling
        What is done to them.
    """

    def __init__(self, rows: Any, scaling: Scaling) -> None:
        self.rows, self.scaling = rows, scaling
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, which: slice | NDArray[np.intp]) -> AnyFloats:
        rows = self.rows[which] if isinstance(which, slice) else self.rows.take(which)
        scaled: AnyFloats = self.scaling(rows)
        return scaled

    def whole(self) -> AnyFloats:
        """All rows in one array."""
        out = np.empty(self.shape, dtype=self.dtype)
        for rows in _blocks(self):
            out[rows] = self[rows]
        return out


def mean_square(X: AnyFloats | ScaledRows) -> float:
    """Mean squared norm of rows; 1 where all are zero.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or ScaledRows
        Rows.

    Returns
    -------
    float
        Can be divided by.
    """
    parts = [X] if isinstance(X, np.ndarray) else (X[rows] for rows in _blocks(X))
    total = sum(float(np.einsum("nd,nd->", part, part, dtype=np.float64)) for part in parts)
    return total / len(X) or 1.0
