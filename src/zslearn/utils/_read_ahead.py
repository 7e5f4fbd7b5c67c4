"""Reading on while what was read is computed with."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

_Item = TypeVar("_Item")

# How often a reader whose consumer is busy looks whether anyone still waits, in seconds.
_PATIENCE = 0.1


def read_ahead(items: Iterable[_Item], depth: int = 1) -> Iterator[_Item]:
    """Take items from an iterable in a thread of their own, a few ahead of who uses them.

    Parameters
    ----------
    items : iterable
        What is read; the thread alone touches it.
    depth : int, default=1
        How many items may wait. 0 reads without a thread.

    Yields
    ------
    object
        The items in their order. An error of the iterable is raised here, after what was read
        before it.

    Examples
    --------
    >>> from zslearn.utils import read_ahead
    >>> list(read_ahead(range(3)))
    [0, 1, 2]
    """
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
