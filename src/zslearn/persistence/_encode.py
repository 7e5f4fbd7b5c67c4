"""From an object to JSON and arrays.

Numbers, texts, None and lists are themselves; everything else is an object of JSON with a key that
says what it is: ``{"tuple": […]}``, ``{"array": name}``, ``{"object": class, …}``. An array or an
object that several places share is written once.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.persistence._container import DTYPES
from zslearn.persistence._errors import CannotSaveError
from zslearn.persistence._registry import LEFT_OUT, name_of
from zslearn.persistence._state import parameter_names, state_of
from zslearn.utils import is_foreign, to_numpy

#: How deep objects may lie in each other.
MOST_LEVELS = 100

_PLAIN_DTYPES = frozenset(DTYPES.values())


class Encoder:
    """Write objects as JSON; their arrays are collected in `arrays`.

    Attributes
    ----------
    arrays : dict of str to ndarray
        C-contiguous, of the types of safetensors.
    uses_sklearn : bool
        Whether a part of scikit-learn was met.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.uses_sklearn = False
        # By identity; the objects are kept, so that no other takes their place in memory.
        self._known_arrays: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._known_objects: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, where: str) -> Any:
        """Write a value.

        Parameters
        ----------
        value : object
            What is saved.
        where : str
            How to reach it from the model, for names of arrays and messages.

        Returns
        -------
        object
            What JSON can hold.
        """
        kind = type(value)
        if value is None or kind is bool or kind is str or kind is int:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if id(value) in self._open:
            raise CannotSaveError(f"{where} leads back to itself, which a model file cannot hold.")
        if len(self._open) > MOST_LEVELS:
            raise CannotSaveError(f"{where} is nested too deep for a model file.")
        self._open.add(id(value))
        try:
            return self._encode(value, where)
        finally:
            self._open.discard(id(value))

    def _encode(self, value: Any, where: str) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            parts = np.asarray(value.data), np.ma.getmaskarray(value)
            data, mask = (self.encode(part, f"{where}.{i}") for i, part in enumerate(parts))
            return {"masked": data, "mask": mask}
        if isinstance(value, np.ndarray) or is_foreign(value):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
            return self._frame(value, where)
        if type(value) in _COLLECTIONS:
            return self._collection(value, where)
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"numpy": value.__name__}
        if isinstance(value, types.FunctionType):
            return {"function": self._name(value, where)}
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            return self._random(value, where)
        return self._object(value, where)

    def _collection(self, value: Any, where: str) -> Any:
        if type(value) is dict:
            pairs = [
                [self.encode(key, f"{where}.key"), self.encode(item, f"{where}.{key}")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if type(value) is range:
            return {"range": [value.start, value.stop, value.step]}
        if type(value) is slice:
            parts = (value.start, value.stop, value.step)
            return {"slice": [self.encode(part, where) for part in parts]}
        items = [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if type(value) is list:
            return items
        if type(value) is tuple:
            return {"tuple": items}
        return {type(value).__name__: sorted(items, key=repr)}

    def _array(self, value: Any, where: str) -> dict[str, Any]:
        if id(value) in self._known_arrays:
            return self._known_arrays[id(value)][1]
        node: dict[str, Any] = {}
        array = value
        if is_foreign(value):
            array = to_numpy(value)
            if compat.is_torch_array(value):
                node["library"] = "torch"
        if array.dtype.kind == "O":
            items = [self.encode(item, f"{where}.{i}") for i, item in enumerate(array.ravel())]
            node.update({"objects": items, "shape": list(array.shape)})
        else:
            node = {"array": self._store(array, node, where), **node}
        self._known_arrays[id(value)] = value, node
        return node

    def _store(self, array: NDArray[Any], node: dict[str, Any], where: str) -> str:
        """Keep an array in a type of safetensors; the node says how it was."""
        array = np.asarray(array)
        if array.dtype.kind in "US":
            node["as"] = array.dtype.kind
            width = array.dtype.itemsize // (4 if array.dtype.kind == "U" else 1)
            flat = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            unit = np.dtype("<u4" if array.dtype.kind == "U" else "<u1")
            # A dtype of no width has no numbers to look at.
            parts = flat.reshape(-1).view(unit) if width else np.empty(0, unit)
            array = parts.reshape(*array.shape, width)
        elif array.dtype.kind == "c" and array.dtype.itemsize <= 16:
            node["as"] = "c"
            part = np.dtype(f"<f{array.dtype.itemsize // 2}")
            array = np.stack([array.real, array.imag], axis=-1).astype(part, copy=False)
        if array.dtype.newbyteorder("<") not in _PLAIN_DTYPES:
            raise CannotSaveError(f"{where} is an array of {array.dtype}, which no file can hold.")
        if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
            # Products may differ in the last digit with the order in memory.
            node["order"], array = "F", array.T
        name = where
        while name in self.arrays:
            name += "'"
        self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return name

    def _scalar(self, value: np.generic, where: str) -> dict[str, Any]:
        is_wide = value.dtype.kind == "f" and value.dtype.itemsize > 8
        if value.dtype.kind not in "biufU" or is_wide:
            raise CannotSaveError(f"{where} is a number of {value.dtype}, which no file can hold.")
        kind = "str_" if value.dtype.kind == "U" else value.dtype.name
        return {"scalar": self.encode(value.item(), where), "of": kind}

    def _frame(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, pd.Index):
            if isinstance(value, pd.MultiIndex):
                raise CannotSaveError(f"{where} has an index of several levels; give it one.")
            name = self.encode(value.name, f"{where}.name")
            return {"index": self.encode(value.to_numpy(), where), "name": name}
        if isinstance(value, pd.Series):
            value = value.to_frame()
            kind = "series"
        else:
            kind = "frame"
        columns = [
            self.encode(value.iloc[:, i].to_numpy(), f"{where}.{i}") for i in range(value.shape[1])
        ]
        return {
            kind: columns,
            "index": self.encode(value.index, f"{where}.index"),
            "columns": self.encode(value.columns, f"{where}.columns"),
        }

    def _random(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=False)
            kind = "random_state"
        else:
            state = value.bit_generator.state
            kind = "generator"
        return {kind: self.encode(state, where)}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        if id(value) in self._known_objects:
            return {"same": self._known_objects[id(value)][1]}
        name = self._name(type(value), where)
        self.uses_sklearn = self.uses_sklearn or name.startswith("sklearn.")
        state = state_of(value)
        for dropped in LEFT_OUT.get(name, ()):
            state[dropped] = None
        parameters = parameter_names(type(value))
        node: dict[str, Any] = {"object": name}
        for part, names in (
            ("parameters", [n for n in state if n in parameters]),
            ("state", [n for n in state if n not in parameters]),
        ):
            if names:
                node[part] = {n: self.encode(state[n], f"{where}.{n}") for n in names}
        # Numbered when it is complete, as a reader will number it.
        self._known_objects[id(value)] = value, len(self._known_objects)
        return node

    def _name(self, item: Any, where: str) -> str:
        name = name_of(item)
        if name is None:
            kind = "the function" if isinstance(item, types.FunctionType) else "an instance of"
            raise CannotSaveError(
                f"{where} is {kind} {item.__module__}.{item.__qualname__}, which model files do "
                "not hold, since loading one runs no code of its own. If it is yours, call "
                "zslearn.persistence.register(…) with it, before saving and before loading."
            )
        return name


_COLLECTIONS = (dict, list, tuple, set, frozenset, range, slice)


def plain_about(about: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a caller says of a model, as JSON will have it."""
    if about is None:
        return {}
    if not isinstance(about, Mapping):
        raise TypeError(f"about must be a mapping; got {type(about).__name__}.")
    plain = _plain(dict(about), "about", 0)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any, where: str, depth: int) -> Any:
    """A value of JSON: tuples are lists, numbers of NumPy are Python's."""
    if depth > MOST_LEVELS:
        raise TypeError(f"{where} is nested too deep, or leads back to itself.")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {value}, which JSON cannot hold.")
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r}; JSON has texts as keys only.")
        return {key: _plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    raise TypeError(
        f"{where} is of type {type(value).__name__}; give what JSON can hold, and arrays in "
        "extras=."
    )
