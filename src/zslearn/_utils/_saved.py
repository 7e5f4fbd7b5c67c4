"""What a class declares of the attributes that a model file holds, and whether an object keeps it.

A class of the library that can be in a model file lists the attributes that make up its state:

    @saves(
        {"_process.coef": Saved("n_seen", "n_dims")},
        coef_=Saved("n_seen", "n_features"),
        norm_=Saved(above=0, optional=True),
    )
    class Method(ZeroShotClassifier): ...

The name of an axis stands for the same number throughout the declarations of a class and of its
bases. A name with a dot leads into a part and ties its axes to those of the whole. Reading a file
checks every object against its declarations before anything is computed from it: arrays whose
shapes do not fit could otherwise take any amount of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

_Class = TypeVar("_Class", bound=type[Any])

# Classes whose instances a model file may hold: name in a file → class. A file names a class and
# that name is looked up here; nothing is ever imported because a file says so. Public classes of
# the library need no mark.
_PARTS: dict[str, type] = {}


def saved_part(cls: _Class) -> _Class:
    """Mark a class that fitted estimators hold, so that model files may hold it, too.

    Its state is its fields, where it is a dataclass or a named tuple, else its `__dict__`, or what
    its `__getstate__` returns. Types and shapes are declared with `saves`; a class with further
    invariants that a file made by hand could break checks them in `__post_init__`, or in
    `__setstate__`.
    """
    _PARTS[part_name(cls)] = cls
    return cls


def part_name(item: Any) -> str:
    """How a file names a class or a function of the library: by package and name, not by module."""
    return f"{'.'.join(item.__module__.split('.')[:2])}.{item.__qualname__}"


def saved_parts() -> dict[str, type]:
    """Every class that is marked, of the packages that were imported."""
    return dict(_PARTS)


#: Kinds of NumPy's dtypes by the word that a declaration has for them.
_DTYPES = {"float": "f", "int": "iu", "bool": "b", "label": "UOiubf"}


@dataclass(frozen=True, init=False)
class Saved:
    """One attribute: an array with its axes, a number where there are none, or another object.

    Parameters
    ----------
    *axes : str, int, None or ...
        Name or length of each axis; None is any length, and a final ... stands for further axes.
    kind : {"float", "int", "bool", "label", "signatures"} or type, default="float"
        Type of the numbers, or the class of an object. "label" are sorted labels without
        duplicates; "signatures" are an array of one row per class, or several views of one.
    least, above : float, optional
        What numbers must not lie below, and what they must exceed.
    optional : bool, default=False
        Whether the attribute may be missing or None.
    none : bool, default=False
        Whether it may be None, and must not be missing.
    finite : bool, default=True
        Whether NaN and infinity are refused: they may stand in records that no prediction uses.
    each : bool or tuple of Saved, default=False
        Whether the value is a list or a tuple of what is declared, or the declarations of its
        items one by one.
    keys, some_keys : tuple of str, optional
        Keys of a dict of what is declared: all of them, or those that it may have.
    counts : str, optional
        The axis whose length the number, or that of the list, is.
    into : str, optional
        The axis that the numbers are positions along; it is declared before.
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
        """What is wrong with a value, if anything; lengths of axes are added to `sizes`."""
        if value is None:
            return None if self.optional or self.none else "is missing"
        keys = self.keys or self.some_keys
        if keys is not None:
            if not isinstance(value, dict) or not set(self.keys or ()) <= value.keys() <= set(keys):
                return f"is no dict with the keys {', '.join(keys)}"
            return self._first_problem(value.values(), sizes)
        if self.each:
            if not isinstance(value, (list, tuple)):
                return "is no list"
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
            # A number may be written without its point.
            dtype, kinds = np.asarray(value).dtype, "iuf" if self.kind == "float" else kinds
        # Arrays of other libraries, on their device, are compared by shape alone.
        if dtype is None or (isinstance(dtype, np.dtype) and dtype.kind not in kinds):
            return f"is no {'array' if self.axes else 'number'} of the type {self.kind}"
        problem = self._shape_problem(tuple(getattr(value, "shape", ())), sizes)
        if problem is not None or not isinstance(dtype, np.dtype):
            return problem
        if self.kind == "label":
            return labels_problem(value)
        # Written so that NaN is wrong, too.
        if self.least is not None and not np.all(value >= self.least):
            return f"has numbers below {self.least:g}"
        if self.above is not None and not np.all(value > self.above):
            return f"has numbers that are not above {self.above:g}"
        if self.into is not None and np.size(value) and not np.max(value) < sizes[self.into]:
            return f"has positions beyond {self.into}, which is {sizes[self.into]}"
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
            wanted = sizes.setdefault(axis, length) if isinstance(axis, str) else axis
            if wanted is not None and wanted != length:
                name = f" ({axis})" if isinstance(axis, str) else ""
                return f"has the shape {shape}, where {wanted}{name} is needed instead of {length}"
        return None


def labels_problem(labels: Any) -> str | None:
    """Why an array is no list of labels: sorted, each once, of texts, numbers or booleans."""
    if (
        (labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels))
        or (labels.dtype.kind == "f" and not np.isfinite(labels).all())
        or labels.dtype.kind not in _DTYPES["label"]
        or labels.ndim != 1
    ):
        return "are no list of labels"
    if len(labels) > 1 and not (labels[:-1] < labels[1:]).all():
        return "are not in order, or some come twice"
    return None


def saves(
    of_parts: Mapping[str, Saved] | None = None, /, **attributes: Saved
) -> Callable[[_Class], _Class]:
    """Declare the attributes that model files hold of a class; those of its bases count, too."""

    def declare(cls: _Class) -> _Class:
        cls._saved_attributes = {**attributes, **(of_parts or {})}
        return cls

    return declare


def declared(cls: type) -> dict[str, Saved]:
    """Every declaration of a class, those of its bases first."""
    found: dict[str, Saved] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base).get("_saved_attributes", {}))
    return found


def state_problem(value: Any, state: dict[str, Any]) -> str | None:
    """The first way in which an object with a state from a file breaks its declarations."""
    known, sizes = declared(type(value)), dict[str, int]()
    # A class of an author outside of the library may keep more, and need not keep all of its base.
    is_ours = type(value).__module__.partition(".")[0] == "zslearn"
    if is_ours:
        fields = getattr(value, "__dataclass_fields__", ())
        foreign = next((name for name in state if name not in known and name not in fields), None)
        if foreign is not None:
            return f"{foreign} is no attribute of its class: delete it"
    for name, saved in known.items():
        holder, (*parts, attribute) = value, name.split(".")
        for part in parts:
            holder = getattr(holder, part, None)
        if holder is None or not (is_ours or hasattr(holder, attribute)):
            # Whether a part may be missing is declared by itself.
            continue
        if saved.none and not hasattr(holder, attribute):
            return f"{name} is missing"
        problem = saved.problem(getattr(holder, attribute, None), sizes)
        if problem is not None:
            return f"{name} {problem}"
    return None
