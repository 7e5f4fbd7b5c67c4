"""Compiled functions: Numba at the first call, its cache in a folder of the user's own, and Ctrl-C.

Numba takes a third of a second to import, so it is imported when a function is first called.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

_Function = TypeVar("_Function", bound=Callable[..., Any])

_logger = logging.getLogger("zslearn")
# What is logged when a function is compiled.
_lines: dict[Any, str] = {}
# Sums may be reordered and comparisons need not think of NaN; infinities keep their meaning.
_FAST = {"nnan", "nsz", "contract", "reassoc", "arcp"}


def jit(
    what: str | None = None, *, fast: bool | set[str] = False
) -> Callable[[_Function], _Function]:
    """Decorate a function that Python calls, to be compiled at its first call and cached.

    Without a folder of the user's own for the cache it is compiled in every process. `what` is
    logged when it is compiled.
    """
    return lambda function: _Compiled(function, what, fast)  # type: ignore[return-value]


def jit_inner(*, fast: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Decorate a function that only compiled functions call; it becomes part of its caller."""
    return lambda function: _Inner(function, None, fast)  # type: ignore[return-value]


class _Inner:
    """A function that other compiled functions find compiled, by `_numba_type_`."""

    def __init__(self, function: Any, what: str | None, fast: bool | set[str]) -> None:
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        self._what, self._fast = what, fast

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's own object."""
        return self._dispatcher(no_cpython_wrapper=True, no_cfunc_wrapper=True)

    def _dispatcher(self, **options: Any) -> Any:
        import numba

        allowed = _FAST if self._fast is True else self._fast
        # Divisions by zero give infinity as in NumPy: to raise an error would need code at each.
        options |= {"nogil": True, "error_model": "numpy", "fastmath": allowed}
        return numba.njit(**options)(self.__wrapped__)  # type: ignore[attr-defined]


class _Compiled(_Inner):
    """A function that Python calls."""

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's own object."""
        dispatcher = self._dispatcher()
        try:
            with _cache_folder():
                dispatcher.enable_caching()
            how_often = "once on this machine"
        except (OSError, RuntimeError) as error:
            how_often = f"in every process ({error}; NUMBA_CACHE_DIR names another folder)"
        if self._what is not None:
            _announce(dispatcher, f"Compiling {self._what}: some seconds, {how_often}.")
        return dispatcher

    def __call__(self, *args: Any) -> Any:
        """Call it; Ctrl-C meanwhile raises KeyboardInterrupt."""
        try:
            return self.dispatcher(*args)
        # An interrupt while Numba makes Python objects of results, "with an exception set".
        except SystemError as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, KeyboardInterrupt):
                    raise KeyboardInterrupt from None
                cause = cause.__cause__
            raise


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Have Numba keep what it compiles where nobody else can write: it unpickles what is there."""
    import numba

    config: Any = numba.config
    if config.CACHE_DIR:
        yield
        return
    folder = Path(platformdirs.user_cache_dir("zslearn")) / "numba"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix":
        status = folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{folder} must be the user's own, with mode 700")
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = ""


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
        event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
    _lines[dispatcher] = line
