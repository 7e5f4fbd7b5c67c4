"""One process at a time.

The lock is the operating system's: it ends with the process that holds it, however that ends, so
that no lock file is ever left to be mistaken for a living process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_PAUSE = 0.1  # seconds between two tries
# What systems answer whose folders cannot be locked, such as some network drives.
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path, *, limit: float, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a file, which exists only meanwhile.

    Parameters
    ----------
    path : Path
        The lock file.
    limit : float
        How many seconds to wait for another holder.
    waiting : callable
        Called once if there is another holder.

    Yields
    ------
    bool
        Whether the lock is held: False where the file system has no locks.

    Raises
    ------
    TimeoutError
        Another process still held the lock at the end.
    OSError
        The lock file cannot be made.
    """
    descriptor, is_held = _open_locked(path, limit, waiting)
    try:
        yield is_held
    finally:
        # Removed before it is released: who opened it meanwhile finds it gone, and tries anew.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _open_locked(path: Path, limit: float, waiting: Callable[[], None]) -> tuple[int, bool]:
    end = time.monotonic() + limit
    has_waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(descriptor)
            if _is_at(path, descriptor):
                return descriptor, True
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return descriptor, False
            if not has_waited:
                has_waited = True
                waiting()
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= end:
            raise TimeoutError(f"another process has held {path} for {limit:.0f} s")
        time.sleep(_PAUSE)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one of that name; a former holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
