"""Classes whose instances a model file may hold, marked where they are defined.

A file names a class, and that name is looked up here: nothing is ever imported because a file says
so. Public classes of the library need no mark.
"""

from __future__ import annotations

from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])

#: Name in a file → class.
_PARTS: dict[str, type] = {}


def saved_part(cls: _Class) -> _Class:
    """Mark a class that fitted estimators hold, so that model files may hold it, too.

    Its state is its fields, where it is a dataclass or a named tuple, else its `__dict__`, or what
    its `__getstate__` returns. A class with invariants that a file made by hand could break checks
    them in `__post_init__`, or in `__setstate__`.

    Parameters
    ----------
    cls : type
        A class of the library.

    Returns
    -------
    type
        The same class.
    """
    _PARTS[part_name(cls)] = cls
    return cls


def part_name(cls: type) -> str:
    """How a file names a class of the library: by room and name, wherever in the room it is."""
    return f"{'.'.join(cls.__module__.split('.')[:2])}.{cls.__qualname__}"


def saved_parts() -> dict[str, type]:
    """Every class that is marked, of the rooms that were imported."""
    return dict(_PARTS)
