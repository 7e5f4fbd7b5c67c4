"""Rows a block at a time, within a budget of memory."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray


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

# How often a reader whose consumer is busy looks whether anyone still waits, in seconds.
_PATIENCE = 0.1


def read_ahead(items: Iterable[_Item], depth: int = 1) -> Iterator[_Item]:
    """Take items from an iterable in a thread of their own, a few ahead of who uses them."""
    if depth < 1:
        yield from items
        return
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
    stopped = threading.Event()
    threading.Thread(target=_read, args=(items, waiting, stopped), daemon=True).start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
            del value  # else it would stay in memory while the next is waited for
    finally:
        stopped.set()


def _read(items: Iterable[Any], waiting: queue.Queue[tuple[str, Any]], stopped: Any) -> None:
    def put(kind: str, value: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((kind, value), timeout=_PATIENCE)
                return True
            except queue.Full:
                continue
        return False

    try:
        for item in items:
            if not put("item", item):
                return
            del item
        put("end", None)
    except BaseException as error:
        put("error", error)


#: What the rows of one block and what is computed from them may take, in bytes.
BLOCK_BYTES = 1 << 25


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
