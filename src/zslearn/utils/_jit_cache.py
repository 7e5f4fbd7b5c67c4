"""Numba's cache of compiled functions, trusted no further than its folder.

Numba unpickles the files of its cache, and what is unpickled can run code. So a folder is used only
where nobody else can write to it, and a file that cannot be read is compiled anew.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Any

_logger = logging.getLogger("zslearn")


def enable_cache(dispatcher: Any) -> str | None:
    """Keep what a function is compiled to, where there is a folder that can be trusted.

    Parameters
    ----------
    dispatcher : numba dispatcher
        The function.

    Returns
    -------
    str or None
        Why nothing is kept; None where it is.
    """
    bare = dispatcher._cache
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        # "cannot cache function …: no locator available".
        return "no cache folder can be written"
    reason = distrust(Path(dispatcher._cache.cache_path))
    if reason is not None:
        dispatcher._cache = bare
        return reason
    dispatcher._cache = _ForgivingCache(dispatcher._cache)
    return None


def distrust(folder: Path) -> str | None:
    """Say why files in a folder may be another user's; None where they cannot be.

    Parameters
    ----------
    folder : Path
        It exists.

    Returns
    -------
    str or None
        The reason.
    """
    if os.name != "posix":
        return None
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        status = place.stat()
        if status.st_uid not in (0, os.getuid()):
            return f"{place} belongs to another user"
        by_others = status.st_mode & stat.S_IWOTH
        by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getgid())
        # In a folder such as /tmp nobody can take the place of what another user has put there.
        if (by_others or by_group) and (place == folder or not status.st_mode & stat.S_ISVTX):
            return f"others can write to {place}"
    return None


class _ForgivingCache:
    """Numba's cache, where damaged files are as if they were not there.

    Parameters
    ----------
    cache : numba cache
        Of one function.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def load_overload(self, signature: Any, target: Any) -> Any:
        """What was compiled for some types before; None where it must be compiled."""
        try:
            return self._cache.load_overload(signature, target)
        except Exception as error:
            # Unpickling a damaged file can raise anything.
            _logger.info("Compiling again: a file of the cache is damaged (%r).", error)
            self._forget()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled; without it the next process compiles again."""
        try:
            self._cache.save_overload(signature, compiled)
        except Exception as error:
            _logger.info("What was compiled cannot be kept (%r).", error)

    def _forget(self) -> None:
        try:
            self._cache.flush()
        except Exception as error:
            _logger.info("The cache cannot be emptied (%r).", error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)
