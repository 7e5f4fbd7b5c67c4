"""Fits that several searches have in common, kept in a folder while these run.

What is kept goes by the content of all that the fit depends on: a fit that is read is the one that
would be computed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

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

#: A folder holds no more than this, in bytes.
MAX_KEPT_BYTES = 1 << 31
# Beside the arrays of a fit: the seconds that it took.
_SECONDS = "seconds to fit"


@dataclass
class KeptFits:
    """A folder of fits, and how many were read from it.

    Parameters
    ----------
    folder : Path
        Made when the first fit is written.
    n_read : int, default=0
        Fits that were read instead of computed.
    seconds : float, default=0.0
        What these had taken.
    """

    folder: Path
    n_read: int = 0
    seconds: float = 0.0

    def get(
        self,
        parts: tuple[Any, ...],
        compute: Callable[[], Arrays],
        suits: Callable[[Arrays], bool] = lambda arrays: True,
    ) -> Arrays:
        """The arrays of a fit, read or computed; see :func:`kept_fit`."""
        path = self.folder / f"fit-{fingerprint(source_digest(), *parts)[:40]}.npz"
        # What cannot be read is computed, as if it were not there.
        with contextlib.suppress(OSError, DamagedCacheError):
            arrays = read_arrays(path)
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
        # Nothing but time is lost where the disk is full.
        with contextlib.suppress(OSError):
            if self._make_room(sum(array.nbytes for array in arrays.values())):
                write_arrays(path, arrays | {_SECONDS: took}, durable=False)
        return arrays

    def _make_room(self, size: int) -> bool:
        """Remove fits that were not used for longest; False where nothing makes room enough."""
        if size > MAX_KEPT_BYTES:
            return False
        files = [(path.stat(), path) for path in self.folder.glob("fit-*.npz")]
        total = size + sum(found.st_size for found, _ in files)
        for found, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
            if total <= MAX_KEPT_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= found.st_size
        return True


_active: ContextVar[KeptFits | None] = ContextVar("kept_fits", default=None)


@contextlib.contextmanager
def keeping_fits(folder: str | PathLike[str] | None) -> Iterator[KeptFits | None]:
    """Keep fits of this thread in a folder, and read those that are there."""
    kept = None if folder is None else KeptFits(Path(folder))
    token = _active.set(kept)
    try:
        yield kept
    finally:
        _active.reset(token)


def kept_fit(
    parts: tuple[Any, ...],
    compute: Callable[[], Arrays],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> Arrays:
    """Read a fit where one of the same parts is kept; else compute it, and keep it."""
    kept = _active.get()
    return compute() if kept is None else kept.get(parts, compute, suits)


def keeps_fits(X: Any) -> bool:
    """Whether fits of these rows are kept now: those of NumPy's arrays."""
    return _active.get() is not None and isinstance(X, np.ndarray)
