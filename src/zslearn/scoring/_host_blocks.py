"""The best classes of many NumPy rows: tiles of scores that are looked through while in cache."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.scoring._class_side import ClassSide
from zslearn.scoring._selection import NOT_A_NUMBER
from zslearn.utils import blas_threads, in_threads

# A tile of scores: rows by classes, of float32 four megabytes. Its lines lie a little apart: at
# distances of a power of two they would share few places of a cache.
_TILE_ROWS = 1024
_TILE_CLASSES = 1024
_APART = 16
# Compiled code is loaded for so many scores; fewer are found sooner without.
WORTH_COMPILED = 1 << 22


class HostLists:
    """Lists of the best classes of NumPy rows, filled block by block by compiled code.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    k : int
        Length of the lists.
    """

    def __init__(self, n_rows: int, k: int) -> None:
        self.shape = n_rows, k
        self.indices: NDArray[np.int64] = np.full(self.shape, -1, dtype=np.int64)
        self.values: Any = None
        # What serves one block of rows after the other: the classes, and room for tiles by thread.
        self._turned: Any = None
        self._rooms: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def add(self, rows: slice, embedded: NDArray[Any], side: ClassSide) -> None:
        """Find the lists of a block of rows, a share of it in each thread."""
        from zslearn.scoring._compiled_selection import add_to_lists

        dtype = embedded.dtype
        if self.values is None:
            self.values = np.empty(self.shape, dtype=dtype)
            self._turned = side.parameters.T
            if side.score != "max_dot" and side.n_classes <= _TILE_CLASSES:
                # The product reads few classes sooner when they lie side by side.
                self._turned = np.ascontiguousarray(self._turned)
        nothing = np.empty(0, dtype=dtype)
        bias = nothing if side.bias is None else side.bias
        half = nothing if side.half is None else side.half
        indices, values = self.indices[rows], self.values[rows]

        def fill(part: slice) -> None:
            room, scores = self._room(part.start, embedded, side)
            for start in range(part.start, part.stop, _TILE_ROWS):
                tile = slice(start, min(start + _TILE_ROWS, part.stop))
                row_side = side.rows(embedded[tile], room[: tile.stop - tile.start])
                squares = nothing if side.half is None else side.squares(row_side)[:, 0]
                for first in range(0, side.n_classes, _TILE_CLASSES):
                    classes = slice(first, min(first + _TILE_CLASSES, side.n_classes))
                    add_to_lists(
                        _products(row_side, side, self._turned, classes, scores),
                        first,
                        half[classes],
                        squares,
                        bias[classes],
                        indices[tile],
                        values[tile],
                    )

        in_threads(fill, _shares(len(embedded)))

    def _room(
        self, start: int, embedded: NDArray[Any], side: ClassSide
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Memory for a tile of rows and of scores, by where a thread begins."""
        if start not in self._rooms:
            height = min(_TILE_ROWS, self.shape[0])
            width = min(_TILE_CLASSES, side.n_classes) + _APART
            self._rooms[start] = (
                np.empty((height, embedded.shape[1]), dtype=embedded.dtype),
                np.empty((height, width), dtype=embedded.dtype),
            )
        return self._rooms[start]

    def settled(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Indices and scores of all rows."""
        if (self.indices[:, -1] < 0).any():
            raise ValueError(NOT_A_NUMBER)
        return self.indices, self.values


def _products(
    rows: NDArray[Any],
    side: ClassSide,
    turned: NDArray[Any],
    classes: slice,
    room: NDArray[Any],
) -> NDArray[Any]:
    """Products of a tile, in memory that is used again and again."""
    if side.score == "max_dot":
        return side.products(rows, classes)
    out = room[: len(rows), : classes.stop - classes.start]
    return np.matmul(rows, turned[:, classes], out=out)


def _shares(n_rows: int) -> list[slice]:
    """Rows for each thread; few rows are not worth a second one."""
    threads = max(1, min(blas_threads(), n_rows // (_TILE_ROWS // 8)))
    bounds = np.linspace(0, n_rows, threads + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]
