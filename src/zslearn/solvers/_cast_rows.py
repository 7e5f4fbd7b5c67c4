"""Rows that are made as they are read, as an operand of products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats, row_blocks


class CastRows:
    """Rows that are made as they are read, in one precision; products go through them in blocks.

    Parameters
    ----------
    rows : object
        Of NumPy, to be read in slices; see :class:`TrainingRows`.
    dtype : dtype
        The precision.
    """

    # So that NumPy leaves `array @ rows` to this class.
    __array_ufunc__ = None

    def __init__(self, rows: Any, dtype: Any) -> None:
        self.rows, self.dtype = rows, np.dtype(dtype)
        self.shape: tuple[int, int] = rows.shape

    def __getitem__(self, key: Any) -> NDArray[Any]:
        positions = key[0] if isinstance(key, tuple) else key
        if isinstance(positions, np.ndarray):
            return np.asarray(self.rows.take(positions)).astype(self.dtype, copy=False)
        return np.asarray(self.rows[positions, :]).astype(self.dtype, copy=False)

    def __matmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((self.shape[0], other.shape[1]), np.result_type(self.dtype, other.dtype))
        for rows in self._blocks():
            np.matmul(self[rows], other, out=out[rows])
        return out

    def __rmatmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        total = np.zeros((other.shape[0], self.shape[1]), np.result_type(self.dtype, other.dtype))
        for rows in self._blocks():
            total += other[:, rows] @ self[rows]
        return total

    def gram(self) -> Floats:
        """XᵀX, summed in float64."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for rows in self._blocks():
            block = self[rows]
            total += block.T @ block
        return total

    def _blocks(self) -> list[slice]:
        return row_blocks(self.shape[0], 4 * 8 * self.shape[1])
