"""Declarations of the attributes that model files hold, and checks of objects against them.

A class of the library that can be in a model file declares the attributes of its state:

    @saves(
        {"_process.coef": Saved("n_seen", "n_dims")},
        coef_=Saved("n_seen", "n_features"),
        norm_=Saved(above=0, optional=True),
    )
    class Method(ZeroShotClassifier): ...

A named axis has the same length in all declarations of a class and of its bases. A dotted name
refers to an attribute of a part, whose axes are then checked against those of the whole. When a
file is read, every object is checked against its declarations before it is used, since arrays of
inconsistent shapes could make a computation use any amount of memory. A class checks further
conditions in a method `_check_loaded`, which raises a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

_Class = TypeVar("_Class", bound=type[Any])
_are_trusted: ContextVar[bool] = ContextVar("values_are_trusted", default=False)


@contextmanager
def trusted_values(trusted: bool = True) -> Iterator[None]:
    """Check only types and shapes of attributes, not their values."""
    token = _are_trusted.set(trusted)
    try:
        yield
    finally:
        _are_trusted.reset(token)


# Private classes that model files may contain, by their name in files. Names in files are only
# looked up here and never imported. Public classes of the library need not be registered.
_PARTS: dict[str, type] = {}


def saved_part(cls: _Class) -> _Class:
    """Allow model files to contain a private class.

    The state of a dataclass or named tuple consists of its fields, that of other classes is the
    result of `__getstate__`, by default their `__dict__`. Types and shapes are declared by `saves`;
    further invariants must be checked in `__post_init__` or `__setstate__`.
    """
    _PARTS[part_name(cls)] = cls
    return cls


def part_name(item: Any) -> str:
    """The name of a class or function in files: its package and name, without the module."""
    return f"{'.'.join(item.__module__.split('.')[:2])}.{item.__qualname__}"


def saved_parts() -> dict[str, type]:
    """All registered classes of imported packages."""
    return dict(_PARTS)


#: Kinds of NumPy dtypes by their name in declarations.
_DTYPES = {"float": "f", "int": "iu", "bool": "b", "label": "UOiubf"}


@dataclass(frozen=True, init=False)
class Saved:
    """The declaration of an attribute: an array, a number (without axes), or another object.

    Parameters
    ----------
    *axes : str, int, None or ...
        Name or length of each axis; None allows any length, and a final ... any further axes.
    kind : {"float", "int", "bool", "label", "signatures"} or type, default="float"
        Type of the numbers, or the class of an object. "label" denotes sorted labels without
        duplicates, "signatures" an array with one row per class or several views of that shape.
    least, above : float, optional
        Inclusive and exclusive lower bound of the numbers.
    optional : bool, default=False
        Whether the attribute may be missing or None.
    none : bool, default=False
        Whether the attribute may be None, but not missing.
    finite : bool, default=True
        Whether to refuse NaN and infinity, which only records unused by predictions may contain.
    each : bool or tuple of Saved, default=False
        True for a list or tuple of such values, or the declaration of each item.
    keys, some_keys : tuple of str, optional
        Required or allowed keys of a dict of such values.
    counts : str, optional
        The axis whose length is this number, or the length of this list.
    into : str, optional
        The axis, declared before, along which the numbers are positions.
    """

    axes: tuple[str | int | EllipsisType | None, ...]
    kind: Any = "float"
    least: float | None = None
    above: float | None = None
    optional: bool = False
    none: bool = False
    finite: bool = True
    each: bool | tuple[Saved, ...] = False
    keys: tuple[str, ...] | None = None
    some_keys: tuple[str, ...] | None = None
    counts: str | None = None
    into: str | None = None

    def __init__(self, *axes: str | int | EllipsisType | None, **options: Any) -> None:
        object.__setattr__(self, "axes", axes)
        for name, value in options.items():
            object.__setattr__(self, name, value)

    def problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        """The first problem of a value, or None; lengths of axes are added to `sizes`."""
        if value is None:
            return None if self.optional or self.none else "is missing"
        keys = self.keys or self.some_keys
        if keys is not None:
            if not isinstance(value, dict) or not set(self.keys or ()) <= value.keys() <= set(keys):
                return f"is not a dict with the keys {', '.join(keys)}"
            return self._first_problem(value.values(), sizes)
        if self.each:
            if not isinstance(value, (list, tuple)):
                return "is not a list"
            if self.counts is not None and self._miscounts(len(value), sizes):
                return f"has {len(value)} items, and {self.counts} is {sizes[self.counts]}"
            if isinstance(self.each, tuple):
                if len(value) != len(self.each):
                    return f"has {len(value)} items, not {len(self.each)}"
                pairs = zip(self.each, value, strict=True)
                return next(filter(None, (item.problem(v, sizes) for item, v in pairs)), None)
            return self._first_problem(value, sizes)
        if not isinstance(self.kind, str):
            return None if isinstance(value, self.kind) else f"is a {type(value).__name__}"
        if self.kind == "signatures":
            views = getattr(value, "arrays", (value,))
            return Saved(*self.axes, None, each=True, finite=False).problem(views, sizes)
        return self._number_problem(value, sizes)

    def _first_problem(self, values: Any, sizes: dict[str, int]) -> str | None:
        item = Saved(*self.axes, kind=self.kind, least=self.least, above=self.above)
        return next(filter(None, (item.problem(value, sizes) for value in values)), None)

    def _number_problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        dtype = getattr(value, "dtype", None)
        kinds = _DTYPES[self.kind]
        if isinstance(value, (int, float)):
            # A float may be written without a decimal point.
            dtype, kinds = np.asarray(value).dtype, "iuf" if self.kind == "float" else kinds
        # Only the shape of arrays of other libraries is checked.
        if dtype is None or (isinstance(dtype, np.dtype) and dtype.kind not in kinds):
            return f"is not {'an array' if self.axes else 'a number'} of type {self.kind}"
        problem = self._shape_problem(tuple(getattr(value, "shape", ())), sizes)
        if problem is not None or not isinstance(dtype, np.dtype) or _are_trusted.get():
            return problem
        if self.kind == "label":
            return labels_problem(value)
        # These conditions also fail for NaN.
        if self.least is not None and not np.all(value >= self.least):
            return f"has numbers below {self.least:g}"
        if self.above is not None and not np.all(value > self.above):
            return f"has numbers that are not above {self.above:g}"
        if self.into is not None and np.size(value) and not np.max(value) < sizes[self.into]:
            return f"has positions beyond {self.into}={sizes[self.into]}"
        if self.counts is not None and self._miscounts(int(value), sizes):
            return f"is {value}, and {self.counts} is {sizes[self.counts]}"
        return None

    def _miscounts(self, number: int, sizes: dict[str, int]) -> bool:
        return sizes.setdefault(str(self.counts), number) != number

    def _shape_problem(self, shape: tuple[int, ...], sizes: dict[str, int]) -> str | None:
        axes = self.axes
        if axes and axes[-1] is ...:
            axes = (*axes[:-1], *(None for _ in shape[len(axes) - 1 :]))
        if len(shape) != len(axes):
            return f"has {len(shape)} axes, not {len(axes)}"
        for axis, length in zip(axes, shape, strict=True):
            expected = sizes.setdefault(axis, length) if isinstance(axis, str) else axis
            if expected is not None and expected != length:
                name = f" ({axis})" if isinstance(axis, str) else ""
                return f"has shape {shape}, but {expected}{name} is needed instead of {length}"
        return None


def labels_problem(labels: Any) -> str | None:
    """Why an array is not a sorted list of distinct labels (strings, numbers or booleans)."""
    if (
        (labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels))
        or (labels.dtype.kind == "f" and not np.isfinite(labels).all())
        or labels.dtype.kind not in _DTYPES["label"]
        or labels.ndim != 1
    ):
        return "are not a list of labels"
    if len(labels) > 1 and not (labels[:-1] < labels[1:]).all():
        return "are not sorted, or contain duplicates"
    return None


def saves(
    of_parts: Mapping[str, Saved] | None = None, /, **attributes: Saved
) -> Callable[[_Class], _Class]:
    """Declare the attributes of a class in model files, in addition to those of its bases."""

    def declare(cls: _Class) -> _Class:
        cls._saved_attributes = {**attributes, **(of_parts or {})}
        return cls

    return declare


def declared(cls: type) -> dict[str, Saved]:
    """All declarations of a class and its bases."""
    declarations: dict[str, Saved] = {}
    for base in reversed(cls.__mro__):
        declarations.update(vars(base).get("_saved_attributes", {}))
    return declarations


def state_problem(value: Any, state: dict[str, Any]) -> str | None:
    """The first violation of its declarations by an object with a state from a file, or None."""
    known, sizes = declared(type(value)), dict[str, int]()
    # Classes outside of the library may have other attributes than those of their base.
    is_ours = type(value).__module__.partition(".")[0] == "zslearn"
    if is_ours:
        fields = getattr(value, "__dataclass_fields__", ())
        foreign = next((name for name in state if name not in known and name not in fields), None)
        if foreign is not None:
            return f"{foreign} is not an attribute of its class: delete it"
    for name, saved in known.items():
        holder, (*parts, attribute) = value, name.split(".")
        for part in parts:
            holder = getattr(holder, part, None)
        if holder is None or not (is_ours or hasattr(holder, attribute)):
            # The part has its own declaration, which may be optional.
            continue
        if saved.none and not hasattr(holder, attribute):
            return f"{name} is missing"
        problem = saved.problem(getattr(holder, attribute, None), sizes)
        if problem is not None:
            return f"{name} {problem}"
    return None
