"""Compiled functions: Numba, with a cache where one can be written.

Numba takes a third of a second to import. So functions for it live in modules of their own, which
decorate them with `jit` or `jit_inner` and are imported where they are first called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from zslearn.utils._jit_cache import enable_cache

_Function = TypeVar("_Function", bound=Callable[..., Any])

_logger = logging.getLogger("zslearn")
# What is logged when a function is compiled.
_lines: dict[Any, str] = {}
# Sums may be reordered and comparisons need not think of NaN; infinities keep their meaning.
_FAST = {"nnan", "nsz", "contract", "reassoc", "arcp"}


def jit(
    what: str | None = None, *, fast: bool | set[str] = False
) -> Callable[[_Function], _Function]:
    """Decorate a function that Python calls, to be compiled at its first call.

    What is compiled is kept in Numba's cache; where there is no folder for one that can be written,
    and by nobody else, it is compiled anew in every process.

    Parameters
    ----------
    what : str, optional
        The function in words, for a line at level INFO of the logger "zslearn" when it is compiled.
        By default none is written.
    fast : bool or set of str, default=False
        Whether sums may be reordered and NaN need not be thought of; or LLVM's names of what may be
        done: "contract" rounds a product and the sum that it enters once, "reassoc" reorders sums.

    Returns
    -------
    callable
        The decorator.

    See Also
    --------
    jit_inner : For functions that only compiled functions call.
    """

    def decorate(function: _Function) -> _Function:
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

    return decorate


def jit_inner(*, fast: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Decorate a function that only compiled functions call.

    It becomes part of its caller: without a cache of its own and without the code that Python would
    need to call it, it is compiled in half of the time.

    Parameters
    ----------
    fast : bool or set of str, default=False
        As for `jit`.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: _Function) -> _Function:
        import numba

        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_options(fast)}
        return numba.njit(**options)(function)

    return decorate


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
