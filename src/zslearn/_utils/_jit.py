"""Functions compiled by Numba at their first call, with a cache in a folder of the user.

Importing Numba takes a third of a second, so it is imported when a function is first called.
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
# Messages that are logged when a function is compiled.
_messages: dict[Any, str] = {}
# Allow reordering of sums and ignore NaN in comparisons, but keep the semantics of infinity.
_FAST = {"nnan", "nsz", "contract", "reassoc", "arcp"}


def jit(
    what: str | None = None, *, fast: bool | set[str] = False
) -> Callable[[_Function], _Function]:
    """Compile a function at its first call and cache the result.

    Without a private cache folder the function is compiled in every process. `what` describes it
    in the log message.
    """
    return lambda function: _Compiled(function, what, fast)  # type: ignore[return-value]


def jit_inner(*, fast: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Compile a function that is only called by other compiled functions."""
    return lambda function: _Inner(function, None, fast)  # type: ignore[return-value]


class _Inner:
    """A function that is compiled with its callers, which Numba finds by `_numba_type_`."""

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
        # Division by zero gives infinity as in NumPy, which needs no checks in the compiled code.
        options |= {"nogil": True, "error_model": "numpy", "fastmath": allowed}
        return numba.njit(**options)(self.__wrapped__)  # type: ignore[attr-defined]


class _Compiled(_Inner):
    """A compiled function that is called from Python."""

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's own object."""
        dispatcher = self._dispatcher()
        try:
            with _cache_folder():
                dispatcher.enable_caching()
            how_often = "once on this machine"
        except (OSError, RuntimeError) as error:
            how_often = f"in every process ({error}; set NUMBA_CACHE_DIR to another folder)"
        if self._what is not None:
            message = f"Compiling {self._what}, which takes a few seconds {how_often}."
            _log_compilation(dispatcher, message)
        return dispatcher

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function; Ctrl-C raises KeyboardInterrupt."""
        try:
            return self.dispatcher(*args)
        # Numba raises SystemError if it is interrupted while converting results.
        except SystemError as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, KeyboardInterrupt):
                    raise KeyboardInterrupt from None
                cause = cause.__cause__
            raise


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Use a cache folder that only the user can write to, since Numba unpickles its files."""
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
            raise PermissionError(f"{folder} must belong to the user and have mode 700")
    config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = ""


def _log_compilation(dispatcher: Any, message: str) -> None:
    """Log a message when Numba compiles the function instead of reading its cache."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"] in _messages:
                _logger.info(_messages[event.data["dispatcher"]])

        def on_end(self, event: Any) -> None:
            pass

    if not _messages:
        event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
    _messages[dispatcher] = message
