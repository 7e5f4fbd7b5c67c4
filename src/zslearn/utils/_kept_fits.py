"""Fits that several searches have in common, kept in a folder while these run.

What is kept goes by the content of all that the fit depends on: a fit that is read is the one that
would be computed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils._array_cache import DamagedCacheError, read_arrays, write_arrays
from zslearn.utils._fingerprint import fingerprint

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
        self, parts: tuple[Any, ...], compute: Callable[[], dict[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """The arrays of a fit, read or computed."""
        path = self.folder / f"fit-{fingerprint(*parts)[:40]}.npz"
        # What cannot be read is computed, as if it were not there.
        with contextlib.suppress(FileNotFoundError, DamagedCacheError):
            arrays = read_arrays(path)
            self.seconds += float(arrays.pop(_SECONDS))
            self.n_read += 1
            return arrays
        start = time.perf_counter()
        arrays = compute()
        seconds = np.asarray(time.perf_counter() - start)
        size = sum(array.nbytes for array in arrays.values())
        if self._n_bytes() + size <= MAX_KEPT_BYTES:
            # Nothing but time is lost where the disk is full.
            with contextlib.suppress(OSError):
                write_arrays(path, arrays | {_SECONDS: seconds})
        return arrays

    def _n_bytes(self) -> int:
        total = 0
        for path in self.folder.glob("fit-*.npz"):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total


_active: ContextVar[KeptFits | None] = ContextVar("kept_fits", default=None)


@contextlib.contextmanager
def keeping_fits(folder: str | PathLike[str] | None) -> Iterator[KeptFits | None]:
    """Keep fits of this thread in a folder, and read those that are there.

    Parameters
    ----------
    folder : str, path or None
        Where; None keeps nothing.

    Yields
    ------
    KeptFits or None
        Which counts the fits that were read, and their time.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from zslearn.utils import keeping_fits, kept_fit
    >>> def slow():
    ...     print("computed")
    ...     return {"coef": np.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder, keeping_fits(folder) as kept:
    ...     first, second = (kept_fit(("slow", 1.0), slow)["coef"] for _ in range(2))
    ...     kept.n_read
    computed
    1
    """
    kept = None if folder is None else KeptFits(Path(folder))
    token = _active.set(kept)
    try:
        yield kept
    finally:
        _active.reset(token)


def kept_fit(
    parts: tuple[Any, ...], compute: Callable[[], dict[str, NDArray[Any]]]
) -> dict[str, NDArray[Any]]:
    """Read a fit where one of the same parts is kept; else compute it, and keep it.

    Parameters
    ----------
    parts : tuple
        All that the fit depends on, the name of what is fitted among it; see
        :func:`~zslearn.utils.fingerprint`.
    compute : callable
        Gives the arrays of the fit by name.

    Returns
    -------
    dict of str to ndarray
        The arrays; outside of :func:`keeping_fits` they are computed.
    """
    kept = _active.get()
    return compute() if kept is None else kept.get(parts, compute)


def keeps_fits(X: Any) -> bool:
    """Whether fits of these rows are kept now: those of NumPy's arrays."""
    return _active.get() is not None and isinstance(X, np.ndarray)
