"""What a class declares of the attributes that a model file holds, and whether an object keeps it.

A class of the library that can be in a model file lists the attributes that make up its state:

    @saves(
        coef_=Saved("n_seen", "n_features"),
        norm_=Saved(above=0, optional=True),
        _process__coef=Saved("n_seen", "n_dims"),
    )
    class Method(ZeroShotClassifier): ...

The name of an axis stands for the same number throughout the declarations of a class and of its
bases. Two underscores lead into a part, so that its axes can be tied to those of the whole. Reading
a file checks every object against its declarations before anything is computed from it: arrays
whose shapes do not fit could otherwise take any amount of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

_Class = TypeVar("_Class", bound=type[Any])

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
    finite : bool, default=True
        Whether NaN and infinity are refused: they may stand in records that no prediction uses.
    each : bool, default=False
        Whether the value is a list or a tuple of what is declared.
    keys, some_keys : tuple of str, optional
        Keys of a dict of what is declared: all of them, or those that it may have.
    counts : str, optional
        The axis whose length the number is.
    """

    axes: tuple[str | int | EllipsisType | None, ...]
    kind: Any = "float"
    least: float | None = None
    above: float | None = None
    optional: bool = False
    finite: bool = True
    each: bool = False
    keys: tuple[str, ...] | None = None
    some_keys: tuple[str, ...] | None = None
    counts: str | None = None

    def __init__(self, *axes: str | int | EllipsisType | None, **options: Any) -> None:
        object.__setattr__(self, "axes", axes)
        for name, value in options.items():
            object.__setattr__(self, name, value)

    def problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        """What is wrong with a value, if anything; lengths of axes are added to `sizes`."""
        if value is None:
            return None if self.optional else "is missing"
        keys = self.keys or self.some_keys
        if keys is not None:
            if not isinstance(value, dict) or not set(self.keys or ()) <= value.keys() <= set(keys):
                return f"is no dict with the keys {', '.join(keys)}"
            return self._first_problem(value.values(), sizes)
        if self.each:
            if not isinstance(value, (list, tuple)):
                return "is no list"
            return self._first_problem(value, sizes)
        if not isinstance(self.kind, str):
            return None if isinstance(value, self.kind) else f"is a {type(value).__name__}"
        if self.kind == "signatures":
            views = getattr(value, "arrays", (value,))
            return Saved(*self.axes, None, each=True, finite=False).problem(views, sizes)
        return self._number_problem(value, sizes)

    def _first_problem(self, values: Any, sizes: dict[str, int]) -> str | None:
        problems = (self._item().problem(value, sizes) for value in values)
        return next((problem for problem in problems if problem), None)

    def _item(self) -> Saved:
        options = {"kind": self.kind, "least": self.least, "above": self.above}
        return Saved(*self.axes, finite=self.finite, **options)

    def _number_problem(self, value: Any, sizes: dict[str, int]) -> str | None:
        # Arrays of other libraries, on their device, are compared by shape alone.
        dtype = getattr(value, "dtype", None if self.axes else np.asarray(value).dtype)
        if dtype is None or (
            isinstance(dtype, np.dtype)
            and dtype.kind not in _DTYPES[self.kind]
            # A number may be written without its point.
            and (self.axes or self.kind != "float" or dtype.kind not in "iu")
        ):
            return f"is no {'array' if self.axes else 'number'} of the type {self.kind}"
        problem = self._shape_problem(tuple(getattr(value, "shape", ())), sizes)
        if problem is not None or not isinstance(dtype, np.dtype):
            return problem
        if self.kind == "label":
            return labels_problem(value)
        # Overflow and invalid comparisons are what is looked for here.
        smallest = np.min(value) if np.size(value) else np.inf
        if self.least is not None and not smallest >= self.least:
            return f"has numbers below {self.least:g}"
        if self.above is not None and not smallest > self.above:
            return f"has numbers that are not above {self.above:g}"
        if self.counts is not None and sizes.setdefault(self.counts, int(value)) != value:
            return f"is {value}, and {self.counts} is {sizes[self.counts]}"
        return None

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
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels):
        return "has labels of several types"
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        return "has labels that are NaN or infinite"
    if len(labels) > 1 and not (labels[:-1] < labels[1:]).all():
        return "has labels that are not in order, or some that come twice"
    return None


def saves(**attributes: Saved) -> Callable[[_Class], _Class]:
    """Declare the attributes that model files hold of a class; those of its bases count, too."""

    def declare(cls: _Class) -> _Class:
        cls._saved_attributes = attributes
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
    if type(value).__module__.partition(".")[0] == "zslearn":
        # What an author outside of the library keeps is the author's business.
        foreign = next((name for name in state if name not in known), None)
        if foreign is not None:
            return f"{foreign} is no attribute of its class"
    for name, saved in known.items():
        for part in _reached(value, name.split("__", 1)):
            problem = saved.problem(part, sizes)
            if problem is not None:
                return f"{name.replace('__', '.', 1)} {problem}"
    return None


def _reached(value: Any, path: list[str]) -> Iterator[Any]:
    """What a dotted name leads to: nothing where the part that it lies in is not there."""
    if len(path) > 1:
        value = getattr(value, path[0], None)
    if len(path) == 1 or value is not None:
        yield getattr(value, path[-1], None)
