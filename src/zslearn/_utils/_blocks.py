"""Rows a block at a time, within a budget of memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

#: What the rows of one block and what is computed from them may take, in bytes.
BLOCK_BYTES = 1 << 25


class Block(NamedTuple):
    """Some rows, one after another."""

    start: int  # number of the first among all rows
    rows: NDArray[Any]
    labels: NDArray[Any] | None  # None where they are not known


class RowsInBlocks(ABC):
    """Rows of features of which one block at a time is in memory; estimators take it for `X`."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_labels: bool

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Read the rows from some row on."""

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        for block in self.blocks():
            yield block.rows, block.labels


_Item = TypeVar("_Item")
_END: Any = object()


def read_ahead(items: Iterable[_Item], depth: int = 1) -> Iterator[_Item]:
    """Take items from an iterable in a thread of their own, a few ahead of their consumer."""
    if depth < 1:
        yield from items
        return
    iterator, pool = iter(items), ThreadPoolExecutor(1)
    try:
        ahead = deque(pool.submit(next, iterator, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(pool.submit(next, iterator, _END))
            yield item
            del item  # else it would stay in memory while the next is waited for
    finally:
        pool.shutdown(cancel_futures=True)


def block_length(row_bytes: int, budget: int | None = None) -> int:
    """How many rows fit a budget of memory, at least one."""
    return max(1, (BLOCK_BYTES if budget is None else budget) // max(1, row_bytes))


def row_blocks(n_rows: int, row_bytes: int, budget: int | None = None) -> list[slice]:
    """Slices that cover all rows, each within a budget of memory."""
    length = block_length(row_bytes, budget)
    return [slice(start, min(start + length, n_rows)) for start in range(0, n_rows, length)]


def evenly_spaced(n_samples: int, most: int) -> NDArray[np.intp]:
    """Positions of so many samples, or of all where there are fewer, evenly spaced among all."""
    return np.linspace(0, n_samples - 1, min(n_samples, most)).astype(np.intp)
