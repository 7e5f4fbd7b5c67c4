"""The rows of SSE's training: scaled, by class; held where they are few, else read in each pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats, block_budget, row_blocks, take_rows

# A sorted copy of the rows is held up to so many blocks of memory.
_HELD_BLOCKS = 2


def by_four(X: NDArray[Any]) -> NDArray[Any]:
    """Rows, with zeros below to make a multiple of four; the same where they are one."""
    if len(X) % 4 == 0:
        return np.ascontiguousarray(X)
    rows = np.zeros((-(-len(X) // 4) * 4, X.shape[1]), dtype=X.dtype)
    rows[: len(X)] = X
    return rows


class DividedRows:
    """Rows divided by a number as they are read, in float32.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features) or PreparedRows
        Features of NumPy.
    scale : float
        What they are divided by.
    """

    def __init__(self, rows: Any, scale: float) -> None:
        self.rows, self.scale = rows, scale
        self.shape, self.dtype, self.device = rows.shape, np.dtype(np.float32), "cpu"
        self._source, divisors = _divisors(rows)
        self._divisors = None if divisors is None else scale * divisors

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """NumPy."""
        return np

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        which = key[0] if isinstance(key, tuple) else key
        if isinstance(which, slice):
            return np.asarray(self.rows[which, :] / self.scale, dtype=np.float32)
        out = np.empty((len(which), self.shape[1]), dtype=np.float32)
        self.gather(which, out)
        return out

    def gather(self, positions: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        """Rows by their positions, into memory that there is."""
        if self._divisors is None:
            is_array = isinstance(self.rows, np.ndarray)
            rows = take_rows(self.rows, positions) if is_array else self.rows.take(positions)
            np.divide(rows, self.scale, out=out, casting="same_kind")
            return
        from zslearn.baselines._sse_kernels import divided_rows

        chosen = getattr(self.rows, "positions", None)
        positions = positions if chosen is None else chosen[positions]
        divided_rows(self._source, positions, self._divisors, out)


def _divisors(rows: Any) -> tuple[Any, Floats | None]:
    """Rows as they were given, and what each is divided by, where compiled code can do that."""
    is_array = isinstance(rows, np.ndarray)
    source = np.asarray(rows if is_array else rows.source)
    if not (source.flags.c_contiguous and source.dtype in (np.float32, np.float64)):
        return None, None
    return source, np.ones(len(source)) if is_array else rows.divisors


class SortedRows:
    """Rows in another order, with zeros below to make a multiple of four; read in slices.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or DividedRows
        Features.
    order : ndarray of int of shape (n_samples,)
        Positions of the rows.
    """

    def __init__(self, X: NDArray[Any] | DividedRows, order: NDArray[np.intp]) -> None:
        self.X, self.order, self.dtype = X, order, X.dtype
        self.shape = -(-len(order) // 4) * 4, X.shape[1]
        self._held: NDArray[Any] | None = None
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        if size <= _HELD_BLOCKS * block_budget(order):
            held = np.empty(self.shape, dtype=self.dtype)
            for rows in self._blocks():
                held[rows] = self[rows]
            self._held = held

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        if self._held is not None:
            return self._held[rows]
        positions = self.order[rows]
        out = np.empty((min(rows.stop, len(self)) - rows.start, self.shape[1]), dtype=self.dtype)
        out[len(positions) :] = 0
        if isinstance(self.X, DividedRows):
            self.X.gather(positions, out[: len(positions)])
        else:
            np.take(self.X, positions, axis=0, out=out[: len(positions)], mode="clip")
        return out

    def extent(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each feature."""
        low, high = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
        for rows in self._blocks():
            block = self[rows][: len(self.order) - rows.start]
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        return low, high

    def _blocks(self) -> list[slice]:
        return row_blocks(len(self), 4 * 8 * self.shape[1])
