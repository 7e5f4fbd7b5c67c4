"""From JSON and arrays to an object, and whether the model can be: nothing is taken on trust."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._scorer import is_among
from zslearn._utils._array import to_numpy
from zslearn._utils._messages import plain
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, FileLimitError
from zslearn._utils._saved import declared, labels_problem, state_problem
from zslearn._utils._validation import SCALINGS
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.persistence._container import BadContentError
from zslearn.persistence._encode import LEFT_OUT, MOST_LEVELS, find, make, parameter_names
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import SignatureViews

#: What a feature takes in a trial, and a cell of a table in pandas, in bytes at least.
_FEATURE_BYTES = _CELL_BYTES = 64
#: Classes whose parameters are made for a trial, and rows that are scored. One row would not do:
#: an array of any length can be added to a single row.
_CLASSES_MADE = _TRIAL_ROWS = 3


def check_model(model: Any, budget: Budget) -> None:
    """Refuse a model whose parts do not fit, or that cannot score an image."""
    if not isinstance(model, ZeroShotPredictor):
        raise BadContentError(f"it holds a {type(model).__name__}, which is no zero-shot estimator")
    try:
        check_is_fitted(model, "class_scorer_")
    except NotFittedError:
        raise BadContentError(f"its {type(model).__name__} has learned nothing") from None
    scorer = model.class_scorer_
    labels, parameters = scorer.labels, scorer.parameters
    check_labels(labels, "its classes")
    check_labels(model.seen_classes_, "its seen classes")
    if not set(model.seen_classes_.tolist()) <= set(labels.tolist()):
        raise BadContentError("it does not describe every class that it has seen")
    n_classes = len(labels)
    if n_classes < 2 or parameters.shape[0] != n_classes:
        raise BadContentError(f"it has {parameters.shape[0]} classifiers for {n_classes} classes")
    for extra in (scorer.bias, scorer.precedence):
        if extra is not None and extra.shape != (n_classes,):
            raise BadContentError(f"it has {len(extra)} factors for {n_classes} classes")
    _probe(model, n_classes, budget)


def check_part(value: Any) -> None:
    """Refuse signatures that do not fit their classes, and classes that do not fit theirs."""
    if isinstance(value, SignatureTable):
        _check_table(value)
    elif isinstance(value, SignatureViews):
        if not isinstance(value.arrays, tuple) or len(value.arrays) != len(value.weights):
            raise BadContentError("the views of its signatures do not fit each other")
        _check_arrays(value.arrays, len(value.arrays[0]))
    if hasattr(value, "_described"):
        _check_described(value)


def _check_described(method: Any) -> None:
    """A method has parameters of each class that it describes, and can make them of signatures."""
    table = method._described.table
    parameters = getattr(method._described, "parameters", None)
    if parameters is None:
        # Described by another method, which is checked by itself.
        return
    n_classes = len(table.labels)
    if parameters.shape[0] != n_classes:
        raise BadContentError(
            f"its {type(method).__name__} has {parameters.shape[0]} rows of parameters for "
            f"{n_classes} classes"
        )
    # Unseen classes first, since some methods need no signature of a seen one.
    is_seen = is_among(table.labels, method.seen_classes_)
    some = np.sort(np.argsort(is_seen, kind="stable")[:_CLASSES_MADE])
    described = table.normalized(method.signature_scale_, keep_views=method.keep_views)[some]
    if method._synthesis_trains:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = method.synthesize(described, table.labels[some])
    if made.shape[1:] != parameters.shape[1:] or not np.isfinite(to_numpy(made)).all():
        raise BadContentError(
            f"its {type(method).__name__} makes other parameters of classes than it has"
        )


def _check_arrays(arrays: Any, n_rows: int) -> None:
    """Signatures of each view: floating, one row per class."""
    if not isinstance(arrays, tuple) or not arrays:
        raise BadContentError("its signatures are no views")
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.ndim != 2:
            raise BadContentError("its signatures are no table of numbers")
        if len(array) != n_rows:
            raise BadContentError(f"it has {len(array)} signatures for {n_rows} classes")
        lacking = np.isnan(array).all(axis=1)
        if not np.isfinite(array[~lacking]).all() or (len(arrays) == 1 and lacking.any()):
            raise BadContentError("it has NaN or infinity in its signatures")


def _check_table(table: SignatureTable) -> None:
    """A table of signatures has views of one length, and proper weights of them."""
    check_labels(table.labels, "classes of its signatures")
    _check_arrays(table.arrays, len(table.labels))
    parts: list[Any] = [table.columns, table.names, table.weights, table.gamma_factors]
    # Empty where no column is brought to one unit.
    parts += [part for part in (table.scalings, table.units) if part != ()]
    if not all(isinstance(part, tuple) and len(part) == len(table.arrays) for part in parts):
        raise BadContentError("the views of its signatures do not fit each other")
    weights_fit = all(isinstance(weight, float) and weight >= 0 for weight in table.weights)
    if not weights_fit or abs(sum(table.weights) - 1) > 1e-9:
        raise BadContentError("the views of its signatures have no proper weights")
    if not (
        all(isinstance(name, str) for name in table.names)
        and all(isinstance(factor, float) and factor > 0 for factor in table.gamma_factors)
        and isinstance(table.indicators, bool)
        and all(scaling in (None, *SCALINGS) for scaling in table.scalings)
    ):
        raise BadContentError("the views of its signatures have no proper names or factors")
    for array, unit in zip(table.arrays, table.units or (None,) * len(table.arrays), strict=True):
        if unit is not None and not (
            isinstance(unit, np.ndarray)
            and unit.dtype == np.float64
            and unit.shape == (2, array.shape[1])
            and np.isfinite(unit).all()
            and (unit[1] > 0).all()
        ):
            raise BadContentError("the columns of its signatures have no proper units")
    for array, columns in zip(table.arrays, table.columns, strict=True):
        if columns is not None and len(columns) != array.shape[1]:
            raise BadContentError("its signatures have another number of attributes than of names")


def check_labels(labels: Any, what: str) -> None:
    """Labels are a sorted array without duplicates, of texts, whole numbers or booleans."""
    is_array = isinstance(labels, np.ndarray)
    problem = labels_problem(labels) if is_array else "are not a list of labels"
    if problem is not None:
        raise BadContentError(f"{what} {problem}")


def _probe(model: Any, n_classes: int, budget: Budget) -> None:
    """Score a few images: what has a wrong shape or type shows here, and not when it is used."""
    n_features = model.n_features_in_
    if type(n_features) is not int or n_features < 1:
        raise BadContentError(f"it has no proper number of features: {n_features!r:.40}")
    budget.check(_FEATURE_BYTES * _TRIAL_ROWS * n_features)
    rows: NDArray[np.float64] = np.linspace(0.5, 1.0, _TRIAL_ROWS * n_features)
    rows = rows.reshape(_TRIAL_ROWS, n_features)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n_features,)):
        raise BadContentError("it has another number of features than of their names")
    scorer = model.class_scorer_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A model of tables turns columns into numbers first.
        rows = model._check_features(rows)
        scores = to_numpy(scorer.scores(rows))
        if scorer.temperature is not None:
            shares = to_numpy(scorer.probabilities(rows))
            if not np.allclose(shares.sum(axis=1), 1.0):
                raise BadContentError("it gives no proper probabilities")
    if scores.shape != (_TRIAL_ROWS, n_classes) or not np.isfinite(scores).all():
        raise BadContentError("it gives no proper scores")


#: Attributes of scikit-learn's classes that are added to rows or multiply them. With another axis,
#: n numbers of a file would become n² of them in a trial.
_SKLEARN_VECTORS = ("_y_train_mean", "_y_train_std", "intercept_", "mean_", "scale_")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SCALARS = frozenset(
    {
        *("bool", "str_", "float16", "float32", "float64"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    }
)
#: What a node may say besides its kind: what it must say, what it may.
_KEYS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (frozenset(must), frozenset(may))
    for kind, must, may in [
        ("array", (), ("as", "order", "library")),
        ("frame", ("index", "columns"), ()),
        ("index", ("name",), ()),
        ("masked", ("mask",), ()),
        ("object", (), ("parameters", "state")),
        ("objects", ("shape",), ()),
        ("scalar", ("of",), ()),
        ("series", ("index", "columns"), ()),
    ]
}
_NO_KEYS: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
_FAULTS = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)
#: Numbers of which a random state consists.
_MT19937_WORDS = 624
#: How many objects there may be where one that several others hold counts each time: so many, and
#: some more for each that is named. A step twice in a pipeline that is twice in another, and so
#: on, would be computed without end.
_MOST_SHARED = 1000
_SHARED_EACH = 8


class Decoder:
    """Make objects of what :class:`Encoder` wrote."""

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], budget: Budget, device: Any = None
    ) -> None:
        self._arrays, self._budget, self._device = arrays, budget, device
        self._made: dict[str, Any] = {}
        # With how many objects each holds, itself among them.
        self._objects: list[tuple[Any, int]] = []
        self._n_named = self._n_held = 0
        self._is_finite: dict[str, bool] = {}
        self._depth = 0
        self._kinds: dict[str, Callable[[Any, dict[str, Any], bool], Any]] = {
            "array": self._array,
            "dict": self._dict,
            "float": self._float,
            "frame": self._frame,
            "function": self._function,
            "index": self._index,
            "masked": self._masked,
            "object": self._object,
            "objects": self._object_array,
            "same": self._same,
            "scalar": self._scalar,
            "series": self._frame,
        }

    @property
    def unused(self) -> set[str]:
        """Arrays that nothing has named."""
        return set(self._arrays) - set(self._made)

    def decode(self, node: Any, *, finite: bool = False) -> Any:
        """Make what a node says."""
        if isinstance(node, float) and not math.isfinite(node):
            raise BadContentError("it has a number that is too large")
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        self._depth += 1
        if self._depth > MOST_LEVELS + 10:
            raise BadContentError("it is nested too deep")
        try:
            if isinstance(node, list):
                return self._list(node, finite)
            kind: Any = next(iter(node), None)
            if kind not in self._kinds and kind not in _OF_PLAIN_VALUE:
                raise BadContentError(f"it has something of the unknown kind {plain(kind, 60)!r}")
            must, may = _KEYS.get(kind, _NO_KEYS)
            said = node.keys() - {kind}
            if not must <= said <= must | may:
                raise BadContentError(f"it says of a {kind!r} what no version has said")
            if kind in _OF_PLAIN_VALUE:
                return _OF_PLAIN_VALUE[kind](self.decode(node[kind], finite=finite))
            return self._kinds[kind](node[kind], node, finite)
        except _FAULTS as error:
            if isinstance(error, (BadContentError, FileLimitError)):
                raise
            reason = plain(error, 200).rstrip(".") or type(error).__name__
            raise BadContentError(f"it says something that cannot be: {reason}") from error
        finally:
            self._depth -= 1

    def _list(self, said: Any, finite: bool) -> list[Any]:
        if not isinstance(said, list):
            raise BadContentError("it has something else where a list should be")
        return [self.decode(item, finite=finite) for item in said]

    def _dict(self, said: Any, node: dict[str, Any], finite: bool) -> dict[Any, Any]:
        pairs = [(self.decode(k), self.decode(v, finite=finite)) for k, v in said]
        values = dict(pairs)
        if len(values) < len(pairs):
            raise BadContentError("it has a key twice in a dict")
        return values

    def _float(self, said: Any, node: dict[str, Any], finite: bool) -> float:
        if finite:
            raise BadContentError(f"it has {plain(said, 20)} where a number must be finite")
        return _FLOATS[said]

    def _array(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        if not isinstance(said, str) or said not in self._arrays:
            raise BadContentError(f"it names the array {plain(said, 60)!r}, which it does not have")
        if finite and not self._finite(said):
            raise BadContentError(
                f"its array {plain(said, 60)!r} has NaN or infinity, where numbers must be finite"
            )
        if said not in self._made:
            self._made[said] = self._convert(self._arrays[said], node)
        return self._made[said]

    def _finite(self, name: str) -> bool:
        if name not in self._is_finite:
            array = self._arrays[name]
            self._is_finite[name] = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        return self._is_finite[name]

    def _convert(self, array: NDArray[Any], node: dict[str, Any]) -> Any:
        if node.get("order", "C") == "F":
            array = array.T
        elif node.get("order", "C") != "C":
            raise BadContentError("it has an array of an unknown order")
        if "as" in node:
            array = _as(array, node["as"])
        # Native byte order, as all that computes expects it.
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if self._device is None or "library" not in node:
            return array
        torch = import_optional("torch", "device=")
        return torch.asarray(array, device=self._device)

    def _object_array(self, said: Any, node: dict[str, Any], finite: bool) -> NDArray[Any]:
        shape = tuple(node["shape"])
        items = self._list(said, finite)
        if math.prod(shape) != len(items) or not all(type(s) is int and s >= 0 for s in shape):
            raise BadContentError("it has an array of objects whose shape does not fit them")
        array = np.empty(len(items), dtype=object)
        for position, item in enumerate(items):
            array[position] = item
        return array.reshape(shape)

    def _masked(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        data, mask = self.decode(said, finite=finite), self.decode(node["mask"])
        if mask.dtype.kind != "b" or mask.shape != data.shape:
            raise BadContentError("it has a mask that does not fit its array")
        return np.ma.MaskedArray(data, mask)

    def _scalar(self, said: Any, node: dict[str, Any], finite: bool) -> np.generic:
        if not isinstance(node["of"], str) or node["of"] not in _SCALARS:
            raise BadContentError("it has a number of an unknown type")
        value = self.decode(said, finite=finite)
        scalar = np.dtype(node["of"].removesuffix("_")).type(value)
        if scalar != value and scalar == scalar:
            raise BadContentError(f"it has a number that is none of {node['of']}")
        return scalar

    def _function(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        function = find(said)
        if isinstance(function, type):
            raise BadContentError("it names a class where a function should be")
        return function

    def _index(self, said: Any, node: dict[str, Any], finite: bool) -> pd.Index:
        values = self.decode(said)
        # pandas copies, and a file may name the same array many times.
        self._budget.take(_CELL_BYTES * len(values))
        for label in values if values.dtype.kind == "O" else ():
            hash(label)  # or pandas would fail when it looks for one
        return pd.Index(values, name=self.decode(node["name"]))

    def _frame(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        columns = self._list(said, finite)
        index, names = self.decode(node["index"]), self.decode(node["columns"])
        if not isinstance(index, pd.Index) or not isinstance(names, pd.Index):
            raise BadContentError("it has a table without an index")
        if len(names) != len(columns) or any(c.shape != (len(index),) for c in columns):
            raise BadContentError("it has a table whose columns do not fit its index")
        self._budget.take(_CELL_BYTES * len(columns) * len(index))
        frame = pd.DataFrame(dict(enumerate(columns)), index=index)
        frame.columns = names
        return frame if "frame" in node else frame.iloc[:, 0]

    def _same(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        # Only what is complete has a number: nothing can hold itself.
        if type(said) is not int or not 0 <= said < len(self._objects):
            raise BadContentError("it refers to an object that it does not have")
        value, n_held = self._objects[said]
        self._hold(n_held)
        return value

    def _hold(self, n_objects: int) -> None:
        self._n_named += 1
        self._n_held += n_objects
        if self._n_held > _MOST_SHARED + _SHARED_EACH * self._n_named:
            raise BadContentError("its objects share others too often")

    def _object(self, said: Any, node: dict[str, Any], finite: bool) -> Any:
        cls = find(said)
        before = self._n_held
        self._hold(1)
        if not isinstance(cls, type):
            raise BadContentError(f"{plain(said, 60)!r} is no class")
        parts = [node.get("parameters", {}), node.get("state", {})]
        known = parameter_names(cls)
        if not all(isinstance(part, dict) for part in parts) or (
            not parts[0].keys() <= known or parts[1].keys() & known
        ):
            raise BadContentError(f"its {cls.__name__} has no proper attributes")
        own, saved = said.startswith("zslearn."), declared(cls)
        state = {name: self.decode(item) for name, item in parts[0].items()}
        for name, item in parts[1].items():
            finite = saved[name].finite if name in saved else own
            state[name] = self.decode(item, finite=finite)
        _refuse_attributes(said, state)
        try:
            value = make(cls, state)
        except BadContentError:
            raise
        except Exception as error:
            reason = plain(error, 300).rstrip(".") or type(error).__name__
            raise BadContentError(f"its {cls.__name__} cannot be: {reason}") from error
        learned = {name: state[name] for name in parts[1]}
        problem = state_problem(value, learned) if learned and saved else None
        if problem is not None:
            raise BadContentError(f"its {cls.__name__} does not hold together: {problem}")
        if learned and getattr(cls, "_synthesis_trains", False):
            # Rows that a hyper-parameter, not the file, decides the number of.
            self._budget.check(_FEATURE_BYTES * value._rows_per_class * value.n_features_in_)
        check_part(value)
        self._objects.append((value, self._n_held - before))
        return value


def _refuse_attributes(name: str, state: dict[str, Any]) -> None:
    """Refuse what attributes of a known class never are."""
    package, cls = name.partition(".")[0], name.rpartition(".")[2]
    if package == "sklearn" and any(isinstance(v, types.FunctionType) for v in state.values()):
        raise BadContentError(f"its {cls} has a function as an attribute")
    for attribute in _SKLEARN_VECTORS if package == "sklearn" else ():
        if attribute in state and not _are_vectors(state[attribute]):
            raise BadContentError(f"its {cls} has no vector as {attribute}")
    for place in LEFT_OUT.get(name, ()):
        if state.get(place) is not None:
            raise BadContentError(f"its {cls} names a place on a disk as {place}")


def _are_vectors(value: Any) -> bool:
    """Whether a value is None, a number or an array of one axis, or several of these."""
    return all(
        item is None or isinstance(item, (int, float)) or getattr(item, "ndim", 2) < 2
        for item in (value if isinstance(value, (list, tuple)) else [value])
    )


def _set(items: list[Any]) -> set[Any]:
    if not isinstance(items, list) or len(set(items)) < len(items):
        raise BadContentError("it has no list, or the same thing twice, in a set")
    return set(items)


def _tuple(items: list[Any]) -> tuple[Any, ...]:
    if not isinstance(items, list):
        raise BadContentError("it has something else where a list should be")
    return tuple(items)


def _dtype(said: Any) -> np.dtype[Any]:
    dtype = np.dtype(said) if isinstance(said, str) and len(said) < 12 else None
    if dtype is None or dtype.kind not in "biufUO":
        raise BadContentError("it names an unknown dtype")
    return dtype


def _random_state(state: Any) -> np.random.RandomState:
    # NumPy checks all but the position, by which it then reads memory.
    if type(state["state"]["pos"]) is not int or not 0 <= state["state"]["pos"] <= _MT19937_WORDS:
        raise BadContentError("it has a random state whose position is none")
    random_state = np.random.RandomState(0)
    random_state.set_state(state)
    return random_state


#: Kind → what makes an instance of the plain value that it was written as.
_OF_PLAIN_VALUE: dict[Any, Callable[[Any], Any]] = {
    "tuple": _tuple,
    "set": _set,
    "frozenset": lambda items: frozenset(_set(items)),
    "range": lambda parts: range(*parts),
    "dtype": _dtype,
    "random_state": _random_state,
}


def _as(array: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Texts or complex numbers from the numbers that they were stored as."""
    units = {"U": "<u4", "S": "|u1", "c": None}
    if not isinstance(kind, str) or kind not in units or array.ndim == 0:
        raise BadContentError("it has an array of an unknown kind")
    width = array.shape[-1]
    flat = np.ascontiguousarray(array)
    if kind == "c":
        if width != 2 or array.dtype.str not in ("<f4", "<f8"):
            raise BadContentError("it has complex numbers that are none")
        return flat.view(f"<c{2 * array.dtype.itemsize}")[..., 0]
    if array.dtype.str != units[kind]:
        raise BadContentError("it has texts that are none")
    if kind == "U" and (flat > 0x10FFFF).any():
        raise BadContentError("it has texts with characters that there are not")
    if not flat.size:
        return np.zeros(array.shape[:-1], dtype=f"<{kind}{max(width, 1)}")
    return flat.view(f"<{kind}{width}")[..., 0]
