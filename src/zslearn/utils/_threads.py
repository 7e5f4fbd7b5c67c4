"""Threads of the BLAS behind NumPy and SciPy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def one_blas_thread(when: bool = True) -> AbstractContextManager[Any]:
    """Give BLAS one thread on the host, for many small products.

    A second thread gains little there, and where the cores are shared each product waits for the
    thread that was sent away: the same work then takes ten times as long.

    Parameters
    ----------
    when : bool, default=True
        Whether to; False leaves the threads as they are.

    Returns
    -------
    context manager
        The threads are as before when it ends.
    """
    return _threads().limit(limits=1, user_api="blas") if when else nullcontext()


@lru_cache(maxsize=1)
def _threads() -> ThreadpoolController:
    return ThreadpoolController()
