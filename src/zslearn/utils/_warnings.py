"""Warnings of the library."""

from __future__ import annotations

import sys
import warnings

from zslearn.utils._text import plain

#: Messages that were said in this process.
_SAID: set[str] = set()


class InputWarning(UserWarning):
    """What was given can be used, but something about it is odd: its text says what."""


def warn_user(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn at the line of the user's code that called into the library.

    Parameters
    ----------
    message : str
        What is odd, where, and what to do. Control sequences, as names of files may have, are
        written as escapes.
    category : type
        The kind of warning.
    """
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(plain(message, lines=True), category, stacklevel=level)


def warn_once(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn as :func:`warn_user` does, but of one thing only once in a process.

    For what is right in one use and a mistake in another: those who know it hear it once.

    Parameters
    ----------
    message : str
        What is odd, where, and what to do.
    category : type
        The kind of warning.
    """
    if message not in _SAID:
        _SAID.add(message)
        warn_user(message, category)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in ("zslearn", "sklearn")
