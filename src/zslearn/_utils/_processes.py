"""Threads of BLAS, worker threads, and processes that end with their parent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

_Item = TypeVar("_Item")

# Calls of BLAS with fewer floating-point operations than this do not gain from a second thread:
# threads wait for each other by spinning, which also slows down other processes.
_MIN_THREADED_OPERATIONS = 2e8


def one_blas_thread(when: bool = True) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, for many small products.

    On busy cores each product would otherwise wait for a thread that is not running.
    """
    return _threads().limit(limits=1, user_api="blas") if when else nullcontext()


def threads_for(operations: float) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread if its calls are small."""
    return one_blas_thread(operations < _MIN_THREADED_OPERATIONS)


def shared_threads(n_processes: int) -> AbstractContextManager[Any]:
    """Limit BLAS to the share of cores of one of several processes."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    limit = max(1, cores // n_processes)
    if limit >= blas_threads():
        return nullcontext()
    return _threads().limit(limits=limit, user_api="blas")


def blas_threads() -> int:
    """Number of threads that BLAS may use, at least one; worker threads use the same number."""
    libraries = _threads().select(user_api="blas").lib_controllers
    return max([1, *(library.num_threads for library in libraries if library.num_threads)])


def in_threads(function: Callable[[_Item], None], items: Sequence[_Item], n_threads: int) -> None:
    """Call a function on each item in parallel threads, with one BLAS thread each."""
    if n_threads == 1 or len(items) == 1:
        for item in items:
            function(item)
        return
    # The pool ends with the call: a process forked later would wait for its threads forever.
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        # Threads have the caller's settings, such as `numpy.errstate`.
        futures = [pool.submit(copy_context().run, function, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            # After an error or Ctrl-C, threads only finish the items that they have begun.
            pool.shutdown(cancel_futures=True)
            raise


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


_POLL_SECONDS = 1.0


def end_with_parent(parent: int, *, child: bool = False) -> None:
    """End this process soon after its parent, so that workers of a killed run do not continue.

    This has no effect unless this process is a child of `parent`, unlike a worker on a cluster.
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
