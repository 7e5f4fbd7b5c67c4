"""Rows that come a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Block(NamedTuple):
    """Some rows, one after another.

    Parameters
    ----------
    start : int
        Number of the first among all rows.
    rows : ndarray of shape (n_rows, n_features)
        Features.
    labels : ndarray of shape (n_rows,) or None
        Their labels, where they are known.
    """

    start: int
    rows: NDArray[Any]
    labels: NDArray[Any] | None


class RowsInBlocks(ABC):
    """Rows of features of which one block at a time is in memory; estimators take it for `X`.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    dtype : dtype
        Of the rows.
    has_labels : bool
        Whether labels are known.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_labels: bool

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Read the rows from some row on.

        Parameters
        ----------
        start : int, default=0
            The first row that is wanted.

        Yields
        ------
        Block
            Rows in their order.
        """

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        for block in self.blocks():
            yield block.rows, block.labels
