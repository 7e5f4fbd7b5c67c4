"""From an object to JSON and arrays, and which classes and functions a model file may hold.

Numbers, texts, None and lists are themselves; everything else is an object of JSON with a key that
says what it is: ``{"tuple": […]}``, ``{"array": name}``, ``{"object": class, …}``. An array or an
object that several places share is written once.

A name in a file is looked up in a closed list, which users may add to and files may not: the public
classes of the library, the parts marked with `saved_part`, some classes of scikit-learn, and what
:func:`register` was given. Nothing is imported because a file says so.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from zslearn._utils._array import is_foreign, to_numpy
from zslearn._utils._messages import plain
from zslearn._utils._saved import part_name, saved_parts
from zslearn.persistence._container import DTYPES, BadContentError, CannotSaveError

#: Threads or processes at most that a file may ask for.
_MOST_JOBS = 1024


def parameter_names(cls: type) -> frozenset[str]:
    """Hyper-parameters of an estimator; none for other classes."""
    names = getattr(cls, "_get_param_names", None)
    return frozenset(names()) if callable(names) else frozenset()


def field_names(cls: type) -> tuple[str, ...] | None:
    """Fields of a named tuple or a dataclass; None for other classes."""
    if issubclass(cls, tuple):
        return tuple(cls._fields) if hasattr(cls, "_fields") else None
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return None


def state_of(value: Any) -> dict[str, Any]:
    """What is saved of an object: its fields, else its `__getstate__` or `__dict__`."""
    fields = field_names(type(value))
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    state = value.__getstate__()
    if state is None:
        state = {}
    if not isinstance(state, dict):
        raise TypeError(f"{type(value).__name__}.__getstate__ returns no dict of its attributes.")
    # scikit-learn's mark of a pickle; the header has its version.
    return {name: item for name, item in state.items() if name != "_sklearn_version"}


def make(cls: type, state: dict[str, Any]) -> Any:
    """An object of a class, with a state from a file."""
    fields = field_names(cls)
    if fields is not None:
        if not set(state) <= set(fields):
            raise BadContentError(
                f"its {cls.__name__} has {_names(state)}, and should have {_names(fields)}"
            )
        return cls(**state)
    signature = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    for name in parameter_names(cls) - set(state):
        # A hyper-parameter that the writer's version did not have takes its default.
        if signature[name].default is inspect.Parameter.empty:
            raise BadContentError(f"its {cls.__name__} lacks {name}")
        state = {**state, name: signature[name].default}
    _refuse_names(cls, state)
    value: Any = object.__new__(cls)
    # scikit-learn's own compares versions only.
    if getattr(cls, "__setstate__", BaseEstimator.__setstate__) is not BaseEstimator.__setstate__:
        value.__setstate__(state)
    else:
        vars(value).update(state)
    if hasattr(value, "_validate_params"):
        value._validate_params()
    if hasattr(value, "_validate_steps"):
        # Of a pipeline, which checks them when it is used.
        value._validate_steps()
    jobs = state.get("n_jobs")
    if jobs is not None and not (isinstance(jobs, int) and abs(jobs) <= _MOST_JOBS):
        raise BadContentError(f"its {cls.__name__} has n_jobs={plain(jobs, 30)}")
    return value


def _refuse_names(cls: type, state: dict[str, Any]) -> None:
    """An attribute may not stand before a method, a property or a constant of its class."""
    own = cls.__module__.startswith("zslearn.")
    for name in state:
        if not name.isidentifier() or name.startswith("__"):
            raise BadContentError(f"its {cls.__name__} has the attribute {plain(name, 60)!r}")
        in_class = inspect.getattr_static(cls, name, None)
        if in_class is not None and (own or callable(in_class) or hasattr(in_class, "__get__")):
            raise BadContentError(
                f"its {cls.__name__} has the attribute {plain(name, 60)!r}, which its class defines"
            )


def _names(names: Any) -> str:
    return plain(", ".join(names), 200) or "nothing"


#: Packages whose public classes and marked parts may be in a file.
_OF_ESTIMATORS = (
    *("baselines", "calibration", "model_selection"),
    *("networks", "signatures", "synthesis"),
)
#: Packages whose marked parts may be.
_OF_PARTS = (*_OF_ESTIMATORS, "base", "datasets", "_solvers", "_utils")
#: Functions that may be: what a search maximises. They are in packages of estimators.
_SCORERS = frozenset(
    {
        "zslearn.model_selection.unseen_accuracy_scorer",
        "zslearn.synthesis.exemplar_distance_score",
        "zslearn.synthesis.held_out_accuracy_score",
    }
)

#: Module of scikit-learn → classes that EXEM, generated features and pipelines need. Each computes
#: with NumPy alone, takes no function and no process, and makes no more of its state than there is:
#: no libsvm, whose compiled code trusts the sizes that it is given, and nothing that holds others
#: but a pipeline.
_SKLEARN = {
    "decomposition": "PCA TruncatedSVD",
    "gaussian_process": "GaussianProcessRegressor",
    "gaussian_process.kernels": "ConstantKernel Matern Product RBF Sum WhiteKernel",
    "impute": "SimpleImputer",
    "kernel_ridge": "KernelRidge",
    "linear_model": "LinearRegression LogisticRegression Ridge RidgeClassifier",
    "pipeline": "Pipeline",
    "preprocessing": "MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer "
    "RobustScaler StandardScaler",
}

#: Hyper-parameters that name places on the writer's machine: a file has None in their place. A
#: cache that a file points to would be read, and read by pickle, when the model is fitted again.
LEFT_OUT = {
    "sklearn.pipeline.Pipeline": ("memory",),
    "zslearn.base.ZeroShotPipeline": ("memory",),
    "zslearn.model_selection.ZeroShotSearchCV": ("checkpoint", "memory"),
}

_registered: dict[str, Any] = {}


def register(item: Any, *, name: str | None = None) -> Any:
    """Allow model files to hold a class, or a function, that is not of the library.

    Call it before :func:`save` and before :func:`load`; a file itself can never do so. Instances
    are saved by their `__dict__`, or by the fields of a dataclass or a named tuple, and made anew
    without `__init__`; a class that defines `__setstate__` is given its state by it. :ref:`saving`
    has an example.

    Parameters
    ----------
    item : class or function
        For example your own :class:`~zslearn.base.ZeroShotClassifier`, a transformer of a
        pipeline, or a function that a search maximised.
    name : str, optional
        How files name it; by default its module and name, so that a class that moves to another
        module needs its old name here.

    Returns
    -------
    class or function
        The same, so that it can decorate a definition.
    """
    if not (inspect.isclass(item) or inspect.isfunction(item)):
        raise TypeError(f"register takes a class or a function; got {item!r}.")
    if name is None:
        name = f"{item.__module__}.{item.__qualname__}"
    if not isinstance(name, str) or name.startswith(("zslearn.", "sklearn.")):
        raise ValueError(f"{name!r}: names of zslearn and scikit-learn are taken.")
    _registered[name] = item
    return item


def name_of(item: Any) -> str | None:
    """How a file names a class or a function; None where no file may hold it."""
    for name, registered in _registered.items():
        if registered is item:
            return name
    package = item.__module__.partition(".")[0]
    if package == "zslearn":
        name = part_name(item)
    elif package == "sklearn":
        # Its public module, which may be one or two levels deep.
        parts = [part for part in item.__module__.split(".") if not part.startswith("_")]
        name = ".".join([*parts, item.__qualname__])
    else:
        return None
    try:
        return name if find(name) is item else None
    except BadContentError:
        return None


def find(name: Any) -> Any:
    """The class or function that a file names."""
    found = None
    if isinstance(name, str):
        found = _registered.get(name)
        if found is None and name.startswith("zslearn.") and name.count(".") == 2:
            found = _of_package(name.split(".")[1]).get(name)
        elif found is None and name.startswith("sklearn."):
            found = _of_sklearn(name)
    if found is None:
        raise BadContentError(
            f"it holds a {plain(name, 100)!r}, which model files of this version do not hold. If "
            "it is your own class, call zslearn.persistence.register(…) with it before loading"
        )
    return found


@cache
def _of_package(package: str) -> dict[str, Any]:
    """What files may hold of a package of the library, by name."""
    found: dict[str, Any] = {}
    if package not in _OF_PARTS:
        return found
    module = importlib.import_module(f"zslearn.{package}")
    if package in _OF_ESTIMATORS:
        for item in (getattr(module, name) for name in module.__all__):
            is_class = inspect.isclass(item) and not issubclass(item, BaseException)
            if is_class or (inspect.isfunction(item) and part_name(item) in _SCORERS):
                found[part_name(item)] = item
    found.update({n: part for n, part in saved_parts().items() if n.split(".")[1] == package})
    return found


def _of_sklearn(name: str) -> Any:
    module, _, last = name.removeprefix("sklearn.").rpartition(".")
    if last not in _SKLEARN.get(module, "").split():
        return None
    return getattr(importlib.import_module(f"sklearn.{module}"), last)


#: How deep objects may lie in each other.
MOST_LEVELS = 100

_PLAIN_DTYPES = frozenset(DTYPES.values())


class Encoder:
    """Write objects as JSON; their arrays are collected in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.uses_sklearn = False
        # By identity; the objects are kept, so that no other takes their place in memory.
        self._known_arrays: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._known_objects: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def encode(self, value: Any, where: str) -> Any:
        """Write a value."""
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
        if type(value) is list:
            return [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]
        if type(value) is dict:
            pairs = [
                [self.encode(key, f"{where}.key"), self.encode(item, f"{where}.{key}")]
                for key, item in value.items()
            ]
            return {"dict": pairs}
        if isinstance(value, types.FunctionType):
            return {"function": self._name(value, where)}
        for kind, (cls, to_plain) in _BY_PLAIN_VALUE.items():
            if type(value) is cls or (kind == "dtype" and isinstance(value, cls)):
                return {kind: self.encode(to_plain(value), where)}
        return self._object(value, where)

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
        if name is not None:
            return name
        kind = "the function" if isinstance(item, types.FunctionType) else "an instance of"
        said = f"{where} is {kind} {item.__module__}.{item.__qualname__}, which model files do not"
        if item.__module__.startswith("sklearn."):
            known = " ".join(_SKLEARN.values()).replace(" ", ", ")
            raise CannotSaveError(
                f"{said} hold: of scikit-learn they hold {known}. Take one of these, or keep the "
                "model as a pickle that you alone load."
            )
        raise CannotSaveError(
            f"{said} hold, since loading one runs no code of its own. If it is yours, call "
            "zslearn.persistence.register(…) with it, before saving and before loading."
        )


#: Kind → class, and what its instances are written as; `_decode` has the way back.
_BY_PLAIN_VALUE: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "tuple": (tuple, list),
    "set": (set, lambda value: sorted(value, key=repr)),
    "frozenset": (frozenset, lambda value: sorted(value, key=repr)),
    "range": (range, lambda value: [value.start, value.stop, value.step]),
    "dtype": (np.dtype, lambda value: value.str),
    "random_state": (np.random.RandomState, lambda value: value.get_state(legacy=False)),
}


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
