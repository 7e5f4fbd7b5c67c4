"""Compiled functions: Numba, with a cache where one can be written.

Numba takes a third of a second to import: it is imported when a function that `jit` decorates is
first called.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import stat
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from typing import Any

# Numba's cache of compiled functions, trusted no further than its folder.
#
# Numba unpickles the files of its cache, and what is unpickled can run code. So a folder is used
# only
# where nobody else can write to it. Machine code that a flipped bit has changed would crash a
# process
# or compute something else, so each file begins with its checksum; one that does not match is
# compiled anew.

_logger_cache = logging.getLogger("zslearn")

_DIGEST = hashlib.sha256().digest_size


class _DamagedError(Exception):
    """A file of the cache is not as it was written."""


def enable_cache(dispatcher: Any) -> str | None:
    """Keep what a function is compiled to, where there is a folder that can be trusted."""
    bare = dispatcher._cache
    try:
        dispatcher.enable_caching()
    except RuntimeError:
        # "cannot cache function …: no locator available".
        return "no cache folder can be written"
    kept = dispatcher._cache
    reason = distrust(Path(kept.cache_path))
    if reason is not None:
        dispatcher._cache = bare
        return reason
    kept._cache_file = _checked_files()(
        cache_path=kept.cache_path,
        filename_base=kept._impl.filename_base,
        source_stamp=kept._impl.locator.get_source_stamp(),
    )
    dispatcher._cache = _ForgivingCache(kept)
    return None


def distrust(folder: Path) -> str | None:
    """Say why files in a folder may be another user's; None where they cannot be."""
    if os.name != "posix":
        return None
    as_named, meant = folder.absolute(), folder.resolve()
    # Links on the way count: whoever owns one can point it elsewhere.
    for place in (as_named, *as_named.parents, meant, *meant.parents):
        status = place.lstat()
        if status.st_uid not in (0, os.getuid()):
            return f"{place} belongs to another user"
        if stat.S_ISLNK(status.st_mode):
            continue
        by_others = status.st_mode & stat.S_IWOTH
        by_group = status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid)
        # In a folder such as /tmp nobody can take the place of what another user has put there.
        if (by_others or by_group) and (place == meant or not status.st_mode & stat.S_ISVTX):
            return f"others can write to {place}"
    return None


@cache
def _is_private(group: int) -> bool:
    """Whether a group is one's own: called as oneself, and without other members."""
    import grp
    import pwd

    try:
        name, found = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


@cache
def _checked_files() -> Any:
    """Numba's class of cache files, with checksums; made when Numba is imported."""
    from numba.core.caching import IndexDataCacheFile

    class CheckedFiles(IndexDataCacheFile):
        """Files that begin with the checksum of what follows."""

        def _load_index(self) -> dict[Any, str]:
            try:
                version, stamp, names = self._load(self._index_path)
            except FileNotFoundError:
                return {}
            fresh = (version, stamp) == (self._version, self._source_stamp)
            return names if fresh else {}

        def _save_index(self, overloads: dict[Any, str]) -> None:
            self._save(self._index_path, (self._version, self._source_stamp, overloads))

        def _load_data(self, name: str) -> Any:
            return self._load(self._data_path(name))

        def _save_data(self, name: str, data: Any) -> None:
            self._save(self._data_path(name), data)

        def _load(self, path: str) -> Any:
            content = Path(path).read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                raise _DamagedError(path)
            return pickle.loads(content[_DIGEST:])

        def _save(self, path: str, thing: Any) -> None:
            content = self._dump(thing)
            with self._open_for_write(path) as file:
                file.write(hashlib.sha256(content).digest() + content)

    return CheckedFiles


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
            # Another version of Numba may have written it: unpickling can raise anything.
            _logger_cache.info("Compiling again: a file of the cache is damaged (%r).", error)
            self._forget()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled; without it the next process compiles again."""
        try:
            self._cache.save_overload(signature, compiled)
        except Exception as error:
            _logger_cache.info("What was compiled cannot be kept (%r).", error)

    def _forget(self) -> None:
        try:
            self._cache.flush()
        except Exception as error:
            _logger_cache.info("The cache cannot be emptied (%r).", error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


_logger = logging.getLogger("zslearn")
# What is logged when a function is compiled.
_lines: dict[Any, str] = {}
# Sums may be reordered and comparisons need not think of NaN; infinities keep their meaning.
_FAST = {"nnan", "nsz", "contract", "reassoc", "arcp"}


class Compiled:
    """A function that Numba compiles at its first call, and that loads Numba only then."""

    def __init__(self, function: Callable[..., Any], make: Callable[[Any], Any]) -> None:
        update_wrapper(self, function)
        self._make = make

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's own function."""
        _let_numba_know()
        return self._make(self.__wrapped__)  # type: ignore[attr-defined]

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)


@cache
def _let_numba_know() -> None:
    """Compiled functions may call one another: to Numba a `Compiled` is its dispatcher."""
    from numba.extending import typeof_impl

    @typeof_impl.register(Compiled)
    def dispatcher_type(value: Any, context: Any) -> Any:
        return typeof_impl(value.dispatcher, context)


def jit(what: str | None = None, *, fast: bool | set[str] = False) -> Callable[[Any], Any]:
    """Decorate a function that Python calls, to be compiled at its first call.

    What is compiled is kept in Numba's cache; where there is no folder for one that can be written,
    and by nobody else, it is compiled anew in every process.
    """

    def make(function: Any) -> Any:
        import numba

        dispatcher = numba.njit(**_options(fast))(function)
        reason = enable_cache(dispatcher)
        if reason is None:
            how_often = "once on this machine"
        else:
            how_often = f"in every process, as {reason} (see NUMBA_CACHE_DIR)"
        if what is not None:
            _announce(dispatcher, f"Compiling {what}: some seconds, {how_often}.")
        return dispatcher

    return lambda function: Compiled(function, make)


def jit_inner(*, fast: bool | set[str] = False) -> Callable[[Any], Any]:
    """Decorate a function that only compiled functions call.

    It becomes part of its caller: without a cache of its own and without the code that Python would
    need to call it, it is compiled in half of the time.
    """

    def make(function: Any) -> Any:
        import numba

        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_options(fast)}
        return numba.njit(**options)(function)

    return lambda function: Compiled(function, make)


def _options(fast: bool | set[str]) -> dict[str, Any]:
    # Divisions by zero give infinity as in NumPy: to raise an error would need code at each.
    allowed = _FAST if fast is True else fast
    return {"nogil": True, "error_model": "numpy", "fastmath": allowed}


def _announce(dispatcher: Any, line: str) -> None:
    """Have a line logged when Numba compiles, which it does not where it reads its cache."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"] in _lines:
                _logger.info(_lines[event.data["dispatcher"]])

        def on_end(self, event: Any) -> None:
            pass

    if not _lines:
        event.register("numba:compile", Listener())
    _lines[dispatcher] = line
