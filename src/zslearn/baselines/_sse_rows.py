"""The rows of SSE's training: scaled, by class; held where they are few, else read in each pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats, block_budget, row_blocks, take_rows

# A sorted copy of the rows is held up to so many blocks of memory.
_HELD_BLOCKS = 2
# The kernels take so many rows at a time; a line of the cache has so many bytes. What begins at one
# and fills whole ones is read in half the time.
ROWS = 16
_LINE = 64


def by_four(X: NDArray[Any]) -> NDArray[Any]:
    """Rows, with zeros below to make a multiple of four; the same where they are one."""
    if len(X) % 4 == 0:
        return np.ascontiguousarray(X)
    rows = np.zeros((-(-len(X) // 4) * 4, X.shape[1]), dtype=X.dtype)
    rows[: len(X)] = X
    return rows


def on_lines(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """A table of zeros whose rows begin at lines of the cache.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns; there are more columns where the last line is not full.
    dtype : dtype
        Of the numbers.

    Returns
    -------
    ndarray of shape (n_rows, at least n_columns)
        In the order of C.
    """
    dtype = np.dtype(dtype)
    per_line = _LINE // dtype.itemsize
    n_columns = -(-shape[1] // per_line) * per_line
    memory = np.zeros(shape[0] * n_columns + per_line, dtype=dtype)
    start = -memory.ctypes.data % _LINE // dtype.itemsize
    return memory[start : start + shape[0] * n_columns].reshape(shape[0], n_columns)


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
    """Rows in another order, with zeros below and beside them to fill steps of the kernels.

    They are read in slices.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or DividedRows
        Features.
    order : ndarray of int of shape (n_samples,)
        Positions of the rows.
    """

    def __init__(self, X: NDArray[Any] | DividedRows, order: NDArray[np.intp]) -> None:
        self.X, self.order, self.dtype = X, order, X.dtype
        self.shape = -(-len(order) // ROWS) * ROWS, on_lines((0, X.shape[1]), X.dtype).shape[1]
        self._held: NDArray[Any] | None = None
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        if size <= _HELD_BLOCKS * block_budget(order):
            held = on_lines(self.shape, self.dtype)
            for rows in self._blocks():
                self._read(rows, held[rows])
            self._held = held

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        if self._held is not None:
            return self._held[rows]
        out = on_lines((min(rows.stop, len(self)) - rows.start, self.shape[1]), self.dtype)
        self._read(rows, out)
        return out

    def _read(self, rows: slice, out: NDArray[Any]) -> None:
        """Rows by their places in the order, into zeros."""
        positions = self.order[rows]
        out = out[: len(positions), : self.X.shape[1]]
        if isinstance(self.X, DividedRows):
            self.X.gather(positions, out)
        else:
            out[...] = self.X[positions]

    def extent(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each feature."""
        width = self.X.shape[1]
        low, high = np.full(width, np.inf), np.full(width, -np.inf)
        for rows in self._blocks():
            block = self[rows][: max(0, len(self.order) - rows.start), :width]
            low = np.minimum(low, block.min(axis=0, initial=np.inf))
            high = np.maximum(high, block.max(axis=0, initial=-np.inf))
        return low, high

    def _blocks(self) -> list[slice]:
        return row_blocks(len(self), 4 * 8 * self.shape[1])
