"""Threads of BLAS, threads of our own, and processes that end with their parent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_Item = TypeVar("_Item")

# Floating-point operations of one call below which a second thread of BLAS costs more than it
# gains: the threads wait for each other by spinning, at the expense of whoever shares the cores.
_WORTH_A_THREAD = 2e8


def one_blas_thread(when: bool = True) -> AbstractContextManager[Any]:
    """Give BLAS one thread on the host, for many small products.

    Where cores are shared, each product would wait for the thread that was sent away.
    """
    return _threads().limit(limits=1, user_api="blas") if when else nullcontext()


def threads_for(operations: float) -> AbstractContextManager[Any]:
    """Give BLAS as many threads as its calls are worth."""
    return one_blas_thread(operations < _WORTH_A_THREAD)


def shared_threads(n_processes: int) -> AbstractContextManager[Any]:
    """Give BLAS no more threads than the share of one of several processes that compute."""
    # Cores that this process may use.
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    wanted, now = max(1, cores // n_processes), blas_threads()
    return nullcontext() if wanted >= now else _threads().limit(limits=wanted, user_api="blas")


def blas_threads() -> int:
    """Number of threads that BLAS may use now, at least one; our own threads keep to it, too."""
    found = [library.num_threads for library in _threads().select(user_api="blas").lib_controllers]
    return max([1, *(number for number in found if number)])


def in_threads(function: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Call a function on each of some items, side by side, with one thread of BLAS for each."""
    if len(items) == 1:
        function(items[0])
        return
    # The threads end with the call: a process that is forked later would wait for them forever.
    with one_blas_thread(), ThreadPoolExecutor(len(items) - 1) as pool:
        futures = [pool.submit(function, item) for item in items[1:]]
        function(items[0])
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


_POLL_SECONDS = 1.0


def end_with_parent(parent: int, *, child: bool = False) -> None:
    """End this process soon after its parent, so that workers of a killed run do not go on.

    Only a child of `parent` is watched: a process of a cluster, or the caller itself, is not.
    """
    if child and os.getppid() != parent:
        os._exit(1)
    if os.getppid() == parent and parent not in _watched:
        _watched.add(parent)
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


_watched: set[int] = set()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)
