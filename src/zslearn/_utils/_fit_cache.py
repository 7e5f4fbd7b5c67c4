"""Fits that several searches have in common, kept in a folder while these run.

What is kept goes by the content of all that the fit depends on: a fit that is read is the one that
would be computed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import (
    DamagedCacheError,
    fingerprint,
    read_arrays,
    source_digest,
    write_arrays,
)

Arrays = dict[str, NDArray[Any]]

#: A folder holds no more than this, in bytes, and no fit that would push most others out.
MAX_BYTES = 1 << 31
_SHARE = 4
# Beside the arrays of a fit: the seconds that it took.
_SECONDS = "seconds to fit"


class FitCache:
    """A folder of fits, in use in this thread `with` it; None keeps nothing.

    Attributes
    ----------
    n_read : int
        Fits that were read instead of computed.
    seconds : float
        What these had taken.
    """

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.n_read, self.seconds = 0, 0.0
        self._token: Token[FitCache | None] | None = None

    def __enter__(self) -> Self:
        self._token = _active.set(None if self.folder is None else self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _active.reset(self._token)

    def get(
        self, parts: tuple[Any, ...], compute: Callable[[], Arrays], suits: Callable[[Arrays], bool]
    ) -> Arrays:
        """The arrays of a fit, read or computed; see :func:`cached_fit`."""
        assert self.folder is not None
        path = self.folder / f"fit-{fingerprint(source_digest(), *parts)[:40]}.npz"
        # What cannot be read is computed, as if it were not there.
        with contextlib.suppress(OSError, DamagedCacheError):
            arrays = read_arrays(path, max_bytes=MAX_BYTES)
            seconds = float(arrays.pop(_SECONDS))
            if suits(arrays):
                with contextlib.suppress(OSError):  # it may be gone meanwhile, or not ours to touch
                    os.utime(path)
                self.seconds += seconds
                self.n_read += 1
                return arrays
        start = time.perf_counter()
        arrays = compute()
        took = np.asarray(time.perf_counter() - start)
        size = sum(array.nbytes for array in arrays.values())
        # Nothing but time is lost where the disk is full.
        with contextlib.suppress(OSError):
            if size <= MAX_BYTES // _SHARE:
                self._remove_oldest(size)
                write_arrays(path, arrays | {_SECONDS: took}, durable=False)
        return arrays

    def _remove_oldest(self, size: int) -> None:
        """Remove fits that were not used for longest until another one has its place."""
        assert self.folder is not None
        files = [(path.stat(), path) for path in self.folder.glob("fit-*.npz")]
        total = size + sum(found.st_size for found, _ in files)
        for found, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
            if total <= MAX_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= found.st_size


_active: ContextVar[FitCache | None] = ContextVar("fit_cache", default=None)


def cached_fit(
    parts: tuple[Any, ...],
    compute: Callable[[], Arrays],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> Arrays:
    """Read a fit where one of the same parts is kept; else compute it, and keep it."""
    cache = _active.get()
    return compute() if cache is None else cache.get(parts, compute, suits)


def caches_fits(X: Any) -> bool:
    """Whether fits of these rows are kept now: those of NumPy's arrays."""
    return _active.get() is not None and isinstance(X, np.ndarray)
