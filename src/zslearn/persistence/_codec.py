"""Conversion of objects to JSON and arrays, and back, without trust in the file.

Numbers, strings, None and lists represent themselves. Everything else is a JSON object with one key
that states its kind: ``{"array": name}``, ``{"object": class, "parameters": …, "state": …}``,
``{"same": number}`` for an object that occurred before, ``{"function": name}``, or a kind of
`_KINDS`, which is written as a simpler value: ``{"tuple": […]}``.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import is_foreign, to_numpy
from zslearn._utils._messages import plain
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, FileLimitError
from zslearn._utils._saved import declared, state_problem, trusted_values
from zslearn.persistence._classes import (
    OMITTED_PATHS,
    find,
    make,
    name_of,
    parameter_names,
    state_of,
)
from zslearn.persistence._container import DTYPES, BadContentError, CannotSaveError

#: Maximum nesting of objects.
_MAX_LEVELS = 100


class _Kind(NamedTuple):
    """A class whose instances are written as simpler values; both directions may raise an error."""

    cls: type
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    copies: bool = False  # whether arrays are copied on reading, which takes memory


def _list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise BadContentError("it contains another value instead of a list")
    return items


def _distinct(items: Any) -> set[Any]:
    if len(set(_list(items))) < len(items):
        raise BadContentError("it contains a set with a duplicate")
    return set(items)


def _dict(pairs: Any) -> dict[Any, Any]:
    values = dict(_list(pairs))
    if len(values) < len(pairs):
        raise BadContentError("it contains a dict with a duplicate key")
    return values


def _dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(name) if isinstance(name, str) and len(name) < 12 else None
    if dtype is None or dtype.kind not in "biufUO":
        raise BadContentError("it contains an unknown dtype")
    return dtype


_SCALARS = frozenset(dtype.name for dtype in DTYPES.values()) | {"str"}


def _scalar_parts(value: np.generic) -> list[Any]:
    kind = "str" if value.dtype.kind == "U" else value.dtype.name
    if kind not in _SCALARS:
        raise CannotSaveError(f"is a number of type {value.dtype}, which files cannot contain")
    return [kind, value.item()]


def _scalar(parts: Any) -> np.generic:
    kind, value = parts
    if kind not in _SCALARS:
        raise BadContentError("it contains a number of an unknown type")
    scalar: np.generic = np.dtype(kind).type(value)
    if scalar != value and scalar == scalar:
        raise BadContentError(f"it contains a number that is not a valid {kind}")
    return scalar


def _object_array(parts: Any) -> NDArray[Any]:
    shape, items = map(_list, parts)
    if math.prod(shape) != len(items) or not all(type(n) is int and n >= 0 for n in shape):
        raise BadContentError("it contains an array of objects with a wrong shape")
    array = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        array[position] = item
    return array.reshape(shape)


def _masked(parts: Any) -> Any:
    data, mask = parts
    if mask.dtype.kind != "b" or mask.shape != data.shape:
        raise BadContentError("it contains a mask that does not fit its array")
    return np.ma.MaskedArray(data, mask)


def _index_parts(index: pd.Index) -> list[Any]:
    if isinstance(index, pd.MultiIndex):
        raise CannotSaveError("has an index of several levels: use a single level")
    return [index.to_numpy(), index.name]


def _index(parts: Any) -> pd.Index:
    values, name = parts
    for label in values if values.dtype.kind == "O" else ():
        hash(label)  # an unhashable label would fail at the first lookup
    return pd.Index(values, name=name)


def _frame(parts: Any) -> pd.DataFrame:
    columns, index, names = parts
    if not isinstance(index, pd.Index) or not isinstance(names, pd.Index):
        raise BadContentError("it contains a table without an index")
    if len(names) != len(_list(columns)) or any(c.shape != (len(index),) for c in columns):
        raise BadContentError("it contains a table whose columns do not fit its index")
    frame = pd.DataFrame(dict(enumerate(columns)), index=index)
    frame.columns = names
    return frame


#: Number of integers of a random state.
_MT19937_WORDS = 624


def _random_state(state: Any) -> np.random.RandomState:
    # NumPy reads memory at this position without checking it.
    if type(state["state"]["pos"]) is not int or not 0 <= state["state"]["pos"] <= _MT19937_WORDS:
        raise BadContentError("it contains a random state with an invalid position")
    random_state = np.random.RandomState(0)
    random_state.set_state(state)
    return random_state


def _sorted(items: Any) -> list[Any]:
    return sorted(items, key=repr)


_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_KINDS = {
    "tuple": _Kind(tuple, list, lambda items: tuple(_list(items))),
    "set": _Kind(set, _sorted, _distinct),
    "frozenset": _Kind(frozenset, _sorted, lambda items: frozenset(_distinct(items))),
    "dict": _Kind(dict, lambda value: [list(pair) for pair in value.items()], _dict),
    "float": _Kind(float, repr, _FLOATS.__getitem__),
    "range": _Kind(range, lambda r: [r.start, r.stop, r.step], lambda parts: range(*parts)),
    "dtype": _Kind(np.dtype, lambda dtype: dtype.str, _dtype),
    "scalar": _Kind(np.generic, _scalar_parts, _scalar),
    "masked": _Kind(
        np.ma.MaskedArray, lambda a: [np.asarray(a.data), np.ma.getmaskarray(a)], _masked, True
    ),
    "objects": _Kind(np.ndarray, lambda a: [list(a.shape), a.ravel().tolist()], _object_array),
    "index": _Kind(pd.Index, _index_parts, _index, True),
    "series": _Kind(pd.Series, lambda s: [s.to_frame()], lambda parts: parts[0].iloc[:, 0]),
    "frame": _Kind(
        pd.DataFrame,
        lambda t: [[t.iloc[:, i].to_numpy() for i in range(t.shape[1])], t.index, t.columns],
        _frame,
        True,
    ),
    "random_state": _Kind(
        np.random.RandomState, lambda state: state.get_state(legacy=False), _random_state
    ),
}


def _kind_of(value: Any) -> str | None:
    """The name of the kind of a value; subclasses of Python's own types are objects."""
    for name, kind in _KINDS.items():
        is_own = kind.cls.__module__ == "builtins"
        if type(value) is kind.cls or (not is_own and isinstance(value, kind.cls)):
            return name
    return None


_PLAIN_DTYPES = frozenset(DTYPES.values())


class Encoder:
    """Writes objects as JSON and collects their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.uses_sklearn = False
        # By identity; the reference to the object ensures that its address is not reused.
        self._known_arrays: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._known_objects: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, where: str) -> Any:
        """Write a value; errors name it by `where`."""
        kind = type(value)
        if value is None or kind in (bool, str, int) or (kind is float and math.isfinite(value)):
            return value
        if id(value) in self._open:
            raise CannotSaveError(f"{where} contains itself, which a model file cannot represent.")
        if len(self._open) > _MAX_LEVELS:
            raise CannotSaveError(f"{where} is nested too deeply for a model file.")
        self._open.add(id(value))
        try:
            return self._encode(value, where)
        finally:
            self._open.discard(id(value))

    def _encode(self, value: Any, where: str) -> Any:
        if type(value) is list:
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if type(value) is dict:
            pairs = [
                [self.encode(key, f"{where}.key"), self.encode(item, f"{where}.{key}")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if isinstance(value, types.FunctionType):
            return {"function": name_of(value, where)}
        kind = _kind_of(value)
        if is_foreign(value) or (kind == "objects" and value.dtype.kind != "O"):
            return self._array(value, where)
        if kind is None:
            return self._object(value, where)
        try:
            simpler = _KINDS[kind].to_plain(value)
        except CannotSaveError as error:
            raise CannotSaveError(f"{where} {error}.") from None
        return {kind: self.encode(simpler, where)}

    def _array(self, value: Any, where: str) -> dict[str, Any]:
        """Store an array once, in a dtype of safetensors; the node describes the original one."""
        if id(value) in self._known_arrays:
            return self._known_arrays[id(value)][1]
        array, node = np.asarray(to_numpy(value)), dict[str, Any]()
        if array.dtype.kind == "U":
            node["as"] = "U"
            width = array.dtype.itemsize // 4
            flat = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            # Strings of length zero have no characters to view.
            parts = flat.reshape(-1).view("<u4") if width else np.empty(0, "<u4")
            array = parts.reshape(*array.shape, width)
        if array.dtype.newbyteorder("<") not in _PLAIN_DTYPES:
            raise CannotSaveError(
                f"{where} is an array of type {array.dtype}, which files cannot contain."
            )
        if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
            # The order in memory may change the last digit of products.
            node["order"], array = "F", array.T
        if compat.is_torch_array(value):
            node["library"] = "torch"
        name = where
        while name in self.arrays:
            name += "'"
        self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        node = {"array": name, **node}
        self._known_arrays[id(value)] = value, node
        return node

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        if id(value) in self._known_objects:
            return {"same": self._known_objects[id(value)][1]}
        name = name_of(type(value), where)
        self.uses_sklearn = self.uses_sklearn or name.startswith("sklearn.")
        state = state_of(value) | dict.fromkeys(OMITTED_PATHS.get(name, ()))
        known = parameter_names(type(value))
        node: dict[str, Any] = {"object": name, "parameters": {}, "state": {}}
        for attribute, item in state.items():
            part = "parameters" if attribute in known else "state"
            node[part][attribute] = self.encode(item, f"{where}.{attribute}")
        # Objects are numbered when they are complete, as in the decoder.
        self._known_objects[id(value)] = value, len(self._known_objects)
        return {key: part for key, part in node.items() if part}


#: Minimum memory of a cell in pandas, and of a feature in a trial, in bytes.
_CELL_BYTES = FEATURE_BYTES = 64
#: Kinds that a method of the decoder restores; a dict of its methods would be a reference cycle.
_SPECIAL = frozenset({"array", "function", "object", "same"})
#: Further keys that nodes may have.
_FURTHER_KEYS = {"array": {"as", "order", "library"}, "object": {"parameters", "state"}}
#: Errors that malformed values cause.
_ERRORS = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)
#: Limit of the number of objects, where shared ones count each time: a base, and more for each
#: mention. A pipeline that contains a step twice, within another that contains it twice, and so on,
#: would take exponential time.
_MAX_SHARED = 1000
_SHARED_EACH = 8
#: Attributes of scikit-learn's classes that are added to rows or multiplied with them. With another
#: axis, n numbers of a file would become n² numbers in a trial.
_SKLEARN_VECTORS = ("_y_train_mean", "_y_train_std", "intercept_", "mean_", "scale_")


class Decoder:
    """Restores objects from what :class:`Encoder` wrote."""

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any]],
        budget: Budget,
        device: Any = None,
        *,
        verify: bool = True,
    ) -> None:
        self._arrays, self._budget, self._device = arrays, budget, device
        self._verify = verify
        self._read: dict[str, Any] = {}
        # All objects, with the number of objects that each contains, itself included.
        self._objects: list[tuple[Any, int]] = []
        self._n_named = self._n_held = 0
        self._is_finite: dict[str, bool] = {}
        self._depth = 0

    @property
    def unused(self) -> set[str]:
        """Names of arrays that no value refers to."""
        return set(self._arrays) - set(self._read)

    def decode(self, node: Any, *, finite: bool = False) -> Any:
        """Restore a value; `finite` refuses NaN and infinity in it."""
        if isinstance(node, float) and not math.isfinite(node):
            raise BadContentError("it contains a number that is too large")
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        self._depth += 1
        if self._depth > _MAX_LEVELS + 10:
            raise BadContentError("it is nested too deeply")
        try:
            if isinstance(node, list):
                return [self.decode(item, finite=finite) for item in node]
            return self._decode(next(iter(node), None), node, finite)
        except (BadContentError, FileLimitError):
            raise
        except _ERRORS as error:
            raise BadContentError(f"it contains an invalid value: {_reason(error)}") from error
        finally:
            self._depth -= 1

    def _decode(self, name: Any, node: dict[str, Any], finite: bool) -> Any:
        kind = _KINDS.get(name)
        if kind is None and name not in _SPECIAL:
            raise BadContentError(f"it contains a value of the unknown kind {plain(name, 60)!r}")
        if not node.keys() - {name} <= _FURTHER_KEYS.get(name, set()):
            raise BadContentError(f"it contains a value of kind {name!r} with unknown keys")
        if kind is None:
            return getattr(self, f"_{name}")(node[name], node, finite)
        simpler = self.decode(node[name], finite=finite)
        if kind.cls is float and finite:
            raise BadContentError(f"it contains {plain(simpler, 20)} instead of a finite number")
        if kind.copies:
            # A file may name the same array many times.
            self._budget.take(_CELL_BYTES * _n_cells(simpler))
        return kind.from_plain(simpler)

    def _array(self, name: Any, node: dict[str, Any], finite: bool) -> Any:
        if not isinstance(name, str) or name not in self._arrays:
            raise BadContentError(f"it lacks the array {plain(name, 60)!r}")
        array = self._arrays[name]
        finite = finite and self._verify
        if finite and name not in self._is_finite:
            self._is_finite[name] = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        if finite and not self._is_finite[name]:
            raise BadContentError(
                f"its array {plain(name, 60)!r} must be finite but contains NaN or infinity"
            )
        if name not in self._read:
            self._read[name] = self._converted(array, node)
        return self._read[name]

    def _converted(self, array: NDArray[Any], node: dict[str, Any]) -> Any:
        """An array as it was before it was stored."""
        if node.get("order", "C") not in ("C", "F") or node.get("as", "U") != "U":
            raise BadContentError("it contains an array of an unknown order or kind")
        if node.get("order") == "F":
            array = array.T
        if "as" in node:
            array = _strings(array, verify=self._verify)
        # Native byte order, as all computations expect it.
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if self._device is None or "library" not in node:
            return array
        return import_optional("torch", "device=").asarray(array, device=self._device)

    def _function(self, name: Any, node: dict[str, Any], finite: bool) -> Any:
        function = find(name)
        if isinstance(function, type):
            raise BadContentError("it contains a class instead of a function")
        return function

    def _same(self, number: Any, node: dict[str, Any], finite: bool) -> Any:
        # Only complete objects have a number, so that no object can contain itself.
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise BadContentError("it refers to an object that it does not contain")
        value, n_held = self._objects[number]
        self._hold(n_held)
        return value

    def _hold(self, n_objects: int) -> None:
        self._n_named += 1
        self._n_held += n_objects
        if self._n_held > _MAX_SHARED + _SHARED_EACH * self._n_named:
            raise BadContentError("its objects are shared too often")

    def _object(self, name: Any, node: dict[str, Any], finite: bool) -> Any:
        cls = find(name)
        before = self._n_held
        self._hold(1)
        if not isinstance(cls, type):
            raise BadContentError(f"{plain(name, 60)!r} is not a class")
        parameters, learned = node.get("parameters", {}), node.get("state", {})
        known, own, saved = parameter_names(cls), name.startswith("zslearn."), declared(cls)
        if not parameters.keys() <= known or learned.keys() & known:
            raise BadContentError(f"its {cls.__name__} has invalid attributes")
        parameters = {key: self.decode(item) for key, item in parameters.items()}
        learned = {
            key: self.decode(item, finite=saved[key].finite if key in saved else own)
            for key, item in learned.items()
        }
        state = parameters | learned
        _refuse_attributes(name, state)
        try:
            value = make(cls, state)
        except BadContentError:
            raise
        except Exception as error:
            raise BadContentError(f"its {cls.__name__} is invalid: {_reason(error)}") from error
        if learned:
            self._check(value, learned)
        self._objects.append((value, self._n_held - before))
        return value

    def _check(self, value: Any, learned: dict[str, Any]) -> None:
        """Check an object against the declarations of its class, and by its own checks."""
        cls = type(value)
        with trusted_values(not self._verify):
            problem = state_problem(value, learned) if declared(cls) else None
        if problem is not None:
            raise BadContentError(f"its {cls.__name__} is inconsistent: {problem}")
        if getattr(cls, "_synthesis_trains", False):
            # The number of generated rows is a hyper-parameter.
            self._budget.check(FEATURE_BYTES * value._rows_per_class * value.n_features_in_)
        if self._verify and hasattr(cls, "_check_loaded"):
            value._check_loaded()


def _reason(error: Exception) -> str:
    return plain(error, 300).rstrip(".") or type(error).__name__


def _n_cells(value: Any) -> int:
    """Number of items of all arrays in a list."""
    if isinstance(value, (list, tuple)):
        return sum(map(_n_cells, value))
    return int(getattr(value, "size", 1))


def _refuse_attributes(name: str, state: dict[str, Any]) -> None:
    """Refuse values that attributes of supported classes never have."""
    cls = name.rpartition(".")[2]
    if name.startswith("sklearn."):
        if any(isinstance(value, types.FunctionType) for value in state.values()):
            raise BadContentError(f"its {cls} has a function as an attribute")
        for attribute in _SKLEARN_VECTORS:
            if not _are_vectors(state.get(attribute)):
                raise BadContentError(f"its {cls} has {attribute}, which is not a vector")
    for path in OMITTED_PATHS.get(name, ()):
        if state.get(path) is not None:
            raise BadContentError(f"its {cls} has a path as {path}")


def _are_vectors(value: Any) -> bool:
    """Whether a value is None, a number or a one-dimensional array, or a list of these."""
    return all(
        item is None or isinstance(item, (int, float)) or getattr(item, "ndim", 2) < 2
        for item in (value if isinstance(value, (list, tuple)) else [value])
    )


def _strings(array: NDArray[Any], *, verify: bool) -> NDArray[Any]:
    """An array of strings from their characters, along the last axis."""
    if array.ndim == 0 or array.dtype.str != "<u4":
        raise BadContentError("it contains invalid strings")
    if verify and (array > 0x10FFFF).any():
        raise BadContentError("it contains strings with invalid characters")
    width = array.shape[-1]
    if not array.size:
        return np.zeros(array.shape[:-1], dtype=f"<U{max(width, 1)}")
    return np.ascontiguousarray(array).view(f"<U{width}")[..., 0]
