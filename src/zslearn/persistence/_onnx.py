"""A fitted model as an ONNX file: features in, scores and labels out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, to_numpy, unit_rows
from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional
from zslearn._version import __version__
from zslearn.base._pipeline import fitted_as_zero_shot
from zslearn.calibration._none_of_these import NoneOfThese, probability_among

# An ONNX graph while it is being written: nodes, constants, and the ones that are needed.

#: Version of the operators. The first in which the largest of a row takes its axis as an input.
OPSET = 18
# Version of the file format, old enough for runtimes that know the operators.
_FILE_VERSION = 8
# Protocol buffers end at two gibibytes.
_LARGEST_FILE = 2**31 - 2**20


class Graph:
    """Nodes in the order of computation, and constants.

    Parameters
    ----------
    n_features : int
        Width of the input "X", whose number of rows is free.
    """

    def __init__(self, n_features: int) -> None:
        self.onnx: Any = import_optional("onnx", "export_onnx")
        self.n_features = n_features
        self.input = "X"
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._n_values = 0
        self._batch: str | None = None

    def add(self, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node of one output; its name."""
        return self.add_many(operator, inputs, 1, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[str], n_outputs: int, **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs; their names."""
        names = [self._new_name(operator.lower()) for _ in range(n_outputs)]
        node = self.onnx.helper.make_node(operator, list(inputs), names, **attributes)
        self._nodes.append(node)
        return names

    def constant(self, value: NDArray[Any]) -> str:
        """The name of a constant; equal ones are kept once."""
        value = np.ascontiguousarray(value).reshape(value.shape)
        if value.dtype.kind in "OU":
            key: tuple[Any, ...] = ("text", value.shape, tuple(value.ravel().tolist()))
        else:
            key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._names:
            self._names[key] = self._new_name("constant")
            self._constants[self._names[key]] = value
        return self._names[key]

    def n_rows(self) -> str:
        """The name of the number of rows of the input, a vector of one integer."""
        if self._batch is None:
            shape = self.add("Shape", [self.input])
            first = self.constant(np.array([0], dtype=np.int64))
            self._batch = self.add("Gather", [shape, first], axis=0)
        return self._batch

    def output(self, name: str, value: str) -> None:
        """Give a value the name of an output."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))

    def model(self, outputs: Mapping[str, tuple[Any, Sequence[Any]]], metadata: Any) -> Any:
        """The model: what the outputs need, and no more."""
        onnx, helper = self.onnx, self.onnx.helper
        nodes, constants = self._needed(set(outputs))
        size = sum(value.nbytes for value in constants.values() if value.dtype.kind != "O")
        if size > _LARGEST_FILE:
            raise ValueError(
                f"The model's arrays take {size / 2**30:.1f} GiB, and an ONNX file holds 2: "
                "describe fewer classes, or serve the model itself."
            )
        graph = helper.make_graph(
            nodes,
            "zslearn",
            [helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, ["rows", self.n_features])],
            [
                helper.make_tensor_value_info(name, self.element(dtype), list(shape))
                for name, (dtype, shape) in outputs.items()
            ],
            [self._tensor(name, value) for name, value in constants.items()],
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_FILE_VERSION,
            producer_name="zslearn",
        )
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model

    def element(self, dtype: Any) -> int:
        """ONNX's number for a dtype."""
        if np.dtype(dtype).kind in "OU":
            return int(self.onnx.TensorProto.STRING)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _tensor(self, name: str, value: NDArray[Any]) -> Any:
        if value.dtype.kind in "OU":
            text = [str(item).encode() for item in value.ravel().tolist()]
            return self.onnx.helper.make_tensor(name, self.element(object), value.shape, text)
        return self.onnx.numpy_helper.from_array(value, name)

    def _needed(self, wanted: set[str]) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """Nodes and constants that lead to some values."""
        wanted = set(wanted)
        kept = []
        for node in reversed(self._nodes):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(node.input)
        constants = {name: value for name, value in self._constants.items() if name in wanted}
        return kept[::-1], constants

    def _new_name(self, stem: str) -> str:
        self._n_values += 1
        return f"{stem}_{self._n_values}"


# Arrays that write down what is done to them, as nodes of an ONNX graph.
#
# Every method's `embed`, and the scores, are written against the array API standard. So they also
# work on an array that has a shape and a dtype but no numbers: each operation adds a node. What
# does
# not depend on the input is computed at once and becomes a constant.


class TracingError(TypeError):
    """Something was asked of an array that a graph cannot do."""


class Rows(int):
    """The number of rows of the input: 1 for whoever counts, and any number in the graph."""


ROWS = Rows(1)


class Traced:
    """An array of the graph, or a constant beside it.

    Parameters
    ----------
    xp : Namespace
        The functions that take it.
    shape : tuple of int
        Its axes; `ROWS` for that of the rows of the input.
    dtype : numpy.dtype
        Its dtype.
    name : str, optional
        Its name in the graph; a constant gets one when a node needs it.
    value : ndarray, optional
        The numbers of a constant.
    """

    #: NumPy leaves operators to this class.
    __array_ufunc__ = None
    device = "cpu"

    def __init__(
        self,
        xp: Namespace,
        shape: tuple[int, ...],
        dtype: Any,
        name: str | None = None,
        value: NDArray[Any] | None = None,
    ) -> None:
        self._xp = xp
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._name = name
        self.value = value

    @property
    def is_symbolic(self) -> bool:
        """Whether its numbers depend on the input."""
        return self.value is None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """Its name in the graph."""
        if self._name is None:
            assert self.value is not None
            self._name = self._xp.graph.constant(self.value)
        return self._name

    def __array_namespace__(self, *, api_version: str | None = None) -> Namespace:
        return self._xp

    # What a graph does not have.

    def _known(self, what: str) -> NDArray[Any]:
        if self.value is None:
            raise TracingError(f"it needs {what} of numbers that depend on the image")
        return self.value

    def __bool__(self) -> bool:
        return bool(self._known("the truth"))

    def __float__(self) -> float:
        return float(self._known("the value"))

    def __int__(self) -> int:
        return int(self._known("the value"))

    def __index__(self) -> int:
        return int(self._known("the value"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._known("a NumPy array"), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TracingError(f"it uses .{name}, which the array API standard does not have")

    # Operators.

    def __add__(self, other: Any) -> Traced:
        return self._xp.add(self, other)

    def __radd__(self, other: Any) -> Traced:
        return self._xp.add(other, self)

    def __sub__(self, other: Any) -> Traced:
        return self._xp.subtract(self, other)

    def __rsub__(self, other: Any) -> Traced:
        return self._xp.subtract(other, self)

    def __mul__(self, other: Any) -> Traced:
        return self._xp.multiply(self, other)

    def __rmul__(self, other: Any) -> Traced:
        return self._xp.multiply(other, self)

    def __truediv__(self, other: Any) -> Traced:
        return self._xp.divide(self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return self._xp.divide(other, self)

    def __pow__(self, other: Any) -> Traced:
        return self._xp.pow(self, other)

    def __neg__(self) -> Traced:
        return self._xp.negative(self)

    def __abs__(self) -> Traced:
        return self._xp.abs(self)

    def __matmul__(self, other: Any) -> Traced:
        return self._xp.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Traced:
        return self._xp.matmul(other, self)

    def __lt__(self, other: Any) -> Traced:
        return self._xp.less(self, other)

    def __le__(self, other: Any) -> Traced:
        return self._xp.less_equal(self, other)

    def __gt__(self, other: Any) -> Traced:
        return self._xp.greater(self, other)

    def __ge__(self, other: Any) -> Traced:
        return self._xp.greater_equal(self, other)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return self._xp.equal(self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]
        return self._xp.logical_not(self._xp.equal(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> Traced:
        return self._xp.logical_and(self, other)

    def __or__(self, other: Any) -> Traced:
        return self._xp.logical_or(self, other)

    def __invert__(self) -> Traced:
        return self._xp.logical_not(self)

    # Parts.

    def __getitem__(self, key: Any) -> Traced:
        return self._xp.part(self, key if isinstance(key, tuple) else (key,))

    def __setitem__(self, key: Any, block: Traced) -> None:
        """Put a block of columns in: what was there stays on both sides."""
        rows, columns = key
        if not (isinstance(columns, slice) and columns.step in (None, 1) and self.ndim == 2):
            raise TracingError("it writes to places other than a block of columns")
        start, stop, _ = columns.indices(self.shape[1])
        parts = [self[rows, :start], block, self[rows, stop:]]
        self._become(self._xp.concat([part for part in parts if part.shape[1]], axis=1))

    def _become(self, other: Self | Traced) -> None:
        self.shape, self.dtype = other.shape, other.dtype
        self._name, self.value = other._name, other.value


# Parts of an array of a graph: what stands in brackets behind it.


def take_part(xp: Namespace, x: Traced, key: tuple[Any, ...]) -> Traced:
    """What `x[key]` gives, of slices, integers, new axes and an ellipsis."""
    if x.value is not None:
        return xp.asarray(x.value[key])
    entries = _of_every_axis(key, x.ndim)
    slices = [entry for entry in entries if entry is not None]
    for axis, entry in enumerate(slices):
        if isinstance(entry, slice):
            x = _sliced(xp, x, axis, entry)
        elif not isinstance(entry, int):
            raise TracingError(f"it takes places by {type(entry).__name__}")
    for axis in range(len(slices) - 1, -1, -1):
        entry = slices[axis]
        if isinstance(entry, int):
            x = _place(xp, x, axis, entry)
    kept = [entry for entry in entries if not isinstance(entry, int)]
    for axis, entry in enumerate(kept):
        if entry is None:
            x = xp.expand_dims(x, axis=axis)
    return x


def _of_every_axis(key: tuple[Any, ...], n_axes: int) -> list[Any]:
    """The key with one entry for each axis, besides the new ones."""
    entries = list(key)
    missing = n_axes - sum(entry is not None and entry is not Ellipsis for entry in entries)
    at = next((i for i, entry in enumerate(entries) if entry is Ellipsis), None)
    if at is None:
        return entries + [slice(None)] * missing
    return entries[:at] + [slice(None)] * missing + entries[at + 1 :]


def _sliced(xp: Namespace, x: Traced, axis: int, entry: slice) -> Traced:
    length = x.shape[axis]
    start, stop, step = entry.indices(length)
    if (start, stop, step) == (0, length, 1):
        return x
    if isinstance(length, Rows):
        raise TracingError("it takes some of the images")
    if step != 1:
        raise TracingError("it takes every so manyth column")
    bounds = [xp.graph.constant(np.array([n], dtype=np.int64)) for n in (start, stop, axis)]
    shape = (*x.shape[:axis], max(0, stop - start), *x.shape[axis + 1 :])
    return Traced(xp, shape, x.dtype, name=xp.graph.add("Slice", [x.name, *bounds]))


def _place(xp: Namespace, x: Traced, axis: int, index: int) -> Traced:
    if isinstance(x.shape[axis], Rows):
        raise TracingError("it takes one of the images")
    place = xp.graph.constant(np.array(index % x.shape[axis], dtype=np.int64))
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Traced(xp, shape, x.dtype, name=xp.graph.add("Gather", [x.name, place], axis=axis))


# The functions of the array API standard over arrays of a graph.

# Functions of one and of two arrays: name in the standard → operator of ONNX.
_UNARY = {
    "abs": "Abs",
    "exp": "Exp",
    "log": "Log",
    "tanh": "Tanh",
    "sqrt": "Sqrt",
    "negative": "Neg",
    "logical_not": "Not",
}
_BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "pow": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "logical_and": "And",
    "logical_or": "Or",
}
_COMPARISONS = {
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "equal": "Equal",
}
_REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "mean": "ReduceMean"}


class Namespace:
    """Functions of the standard that add nodes; what has no symbolic input is computed at once.

    Parameters
    ----------
    graph : Graph
        Where nodes go.
    """

    __name__ = "zslearn.persistence"
    finfo = staticmethod(np.finfo)
    isdtype = staticmethod(np.isdtype)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.float32 = np.dtype(np.float32)
        self.float64 = np.dtype(np.float64)
        self.int64 = np.dtype(np.int64)
        self.bool = np.dtype(np.bool_)

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            return lambda x: self._apply(_UNARY[name], getattr(np, name), [x])
        if name in _BINARY:
            return lambda x, y: self._apply(_BINARY[name], getattr(np, name), [x, y])
        if name in _COMPARISONS:
            function = getattr(np, name)
            return lambda x, y: self._apply(_COMPARISONS[name], function, [x, y], dtype=self.bool)
        if name in _REDUCTIONS:
            return lambda x, **how: self._reduce(_REDUCTIONS[name], getattr(np, name), x, **how)
        raise TracingError(f"it uses the function {name}, which is not written for ONNX")

    # Making arrays.

    def asarray(self, x: Any, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Traced:
        """A constant, or an array of the graph as it is."""
        if isinstance(x, Traced):
            return x if dtype is None else self.astype(x, dtype)
        value = np.asarray(x, dtype=dtype)
        return Traced(self, value.shape, value.dtype, value=value)

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Traced:
        """One number everywhere; the number of rows may be that of the input."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = self.float32 if dtype is None else dtype
        if not any(isinstance(length, Rows) for length in shape):
            return self.asarray(np.full(shape, fill_value, dtype=dtype))
        wanted = [
            self.graph.n_rows()
            if isinstance(length, Rows)
            else self.graph.constant(np.array([length], dtype=np.int64))
            for length in shape
        ]
        target = self.graph.add("Concat", wanted, axis=0)
        number = self.graph.constant(np.array(fill_value, dtype=dtype))
        return Traced(self, shape, dtype, name=self.graph.add("Expand", [number, target]))

    def ones(self, shape: Any, **options: Any) -> Traced:
        """Ones."""
        return self.full(shape, 1, **options)

    def zeros(self, shape: Any, **options: Any) -> Traced:
        """Zeros."""
        return self.full(shape, 0, **options)

    empty = zeros

    def ones_like(self, x: Traced) -> Traced:
        """Ones of the shape of an array."""
        return self.full(x.shape, 1, dtype=x.dtype)

    def zeros_like(self, x: Traced) -> Traced:
        """Zeros of the shape of an array."""
        return self.full(x.shape, 0, dtype=x.dtype)

    def astype(self, x: Traced, dtype: Any, *, copy: Any = None) -> Traced:
        """Another dtype."""
        if x.dtype == dtype:
            return x
        return self._apply(
            "Cast", lambda v: v.astype(dtype), [x], dtype=dtype, to=self.graph.element(dtype)
        )

    # Numbers.

    def log1p(self, x: Traced) -> Traced:
        """log(1 + x) without losing small x: ONNX has no such operator."""
        # With u = 1 + x as it is rounded, log(u) x / (u − 1) is exact but for rounding (Kahan).
        u = 1 + x
        lost = u == 1
        return self.where(lost, x, self.log(u) * x / self.where(lost, self.ones_like(u), u - 1))

    def isfinite(self, x: Traced) -> Traced:
        """Neither NaN nor infinite."""
        if x.value is not None:
            return self.asarray(np.isfinite(x.value))
        parts = [self.graph.add("IsNaN", [x.name]), self.graph.add("IsInf", [x.name])]
        name = self.graph.add("Not", [self.graph.add("Or", parts)])
        return Traced(self, x.shape, self.bool, name=name)

    def clip(self, x: Traced, min: Any = None, max: Any = None) -> Traced:
        """Numbers within bounds."""
        if min is not None:
            x = self.maximum(x, min)
        return x if max is None else self.minimum(x, max)

    def where(self, condition: Traced, x: Any, y: Any) -> Traced:
        """The first where a condition holds, else the second."""
        x, y = self._alike([x, y])
        return self._apply("Where", np.where, [condition, x, y], dtype=x.dtype, alike=False)

    def matmul(self, x: Any, y: Any) -> Traced:
        """Matrix product."""
        x, y = self._alike([x, y])
        if x.value is not None and y.value is not None:
            return self.asarray(x.value @ y.value)
        if not 1 <= y.ndim <= 2 or x.ndim != 2:
            raise TracingError(f"it multiplies arrays of {x.ndim} and {y.ndim} axes")
        shape = x.shape[:-1] + y.shape[1:]
        return Traced(self, shape, x.dtype, name=self.graph.add("MatMul", [x.name, y.name]))

    def any(self, x: Traced, **how: Any) -> Traced:
        """Whether something holds."""
        return self._of_truth("ReduceMax", np.any, x, **how)

    def all(self, x: Traced, **how: Any) -> Traced:
        """Whether everything holds."""
        return self._of_truth("ReduceMin", np.all, x, **how)

    def _of_truth(self, operator: str, function: Any, x: Traced, **how: Any) -> Traced:
        if x.value is not None:
            return self.asarray(function(x.value, **how))
        counted = self.astype(x, np.dtype(np.int32))
        return self.astype(self._reduce(operator, function, counted, **how), self.bool)

    # Shapes.

    def part(self, x: Traced, key: tuple[Any, ...]) -> Traced:
        """What `x[key]` gives."""
        return take_part(self, x, key)

    def reshape(self, x: Traced, shape: Sequence[int]) -> Traced:
        """A constant in another shape."""
        if x.value is None:
            raise TracingError("it reshapes what depends on the image")
        return self.asarray(x.value.reshape(shape))

    def matrix_transpose(self, x: Traced) -> Traced:
        """The last two axes exchanged."""
        axes = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
        if x.value is not None:
            return self.asarray(np.ascontiguousarray(x.value.transpose(axes)))
        name = self.graph.add("Transpose", [x.name], perm=axes)
        return Traced(self, tuple(x.shape[axis] for axis in axes), x.dtype, name=name)

    def expand_dims(self, x: Traced, *, axis: int = 0) -> Traced:
        """A new axis of length one."""
        axis = axis % (x.ndim + 1)
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        if x.value is not None:
            return self.asarray(np.expand_dims(x.value, axis))
        axes = self.graph.constant(np.array([axis], dtype=np.int64))
        name = self.graph.add("Unsqueeze", [x.name, axes])
        return Traced(self, shape, x.dtype, name=name)

    def concat(self, arrays: Sequence[Traced], *, axis: int = 0) -> Traced:
        """Arrays one behind the other."""
        arrays = self._alike(list(arrays))
        axis = axis % arrays[0].ndim
        if all(x.value is not None for x in arrays):
            return self.asarray(np.concatenate([x.value for x in arrays], axis=axis))
        if len(arrays) == 1:
            return arrays[0]
        length = sum(x.shape[axis] for x in arrays)
        if isinstance(arrays[0].shape[axis], Rows):
            raise TracingError("it puts images behind each other")
        shape = tuple(length if a == axis else n for a, n in enumerate(arrays[0].shape))
        name = self.graph.add("Concat", [x.name for x in arrays], axis=axis)
        return Traced(self, shape, arrays[0].dtype, name=name)

    def stack(self, arrays: Sequence[Traced], *, axis: int = 0) -> Traced:
        """Arrays along a new axis."""
        return self.concat([self.expand_dims(x, axis=axis) for x in arrays], axis=axis)

    def take(self, x: Traced, indices: Traced, *, axis: int) -> Traced:
        """Some of the places along an axis."""
        if x.value is not None and indices.value is not None:
            return self.asarray(np.take(x.value, indices.value, axis=axis))
        axis = axis % x.ndim
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        name = self.graph.add("Gather", [x.name, indices.name], axis=axis)
        return Traced(self, shape, x.dtype, name=name)

    def sort(self, x: Traced, *, axis: int = -1, descending: bool = False) -> Traced:
        """Numbers in order along an axis."""
        axis = axis % x.ndim
        if x.value is not None:
            ordered = np.sort(x.value, axis=axis)
            return self.asarray(np.flip(ordered, axis=axis) if descending else ordered)
        if isinstance(x.shape[axis], Rows):
            raise TracingError("it sorts images")
        count = self.graph.constant(np.array([x.shape[axis]], dtype=np.int64))
        values, _ = self.graph.add_many(
            "TopK", [x.name, count], 2, axis=axis, largest=int(descending), sorted=1
        )
        return Traced(self, x.shape, x.dtype, name=values)

    def argmax(self, x: Traced, *, axis: int) -> Traced:
        """Where the largest of a row stands; the first of equals."""
        name = self.graph.add("ArgMax", [x.name], axis=axis, keepdims=0)
        return Traced(self, x.shape[:axis] + x.shape[axis + 1 :], self.int64, name=name)

    # How it is done.

    def _alike(self, arrays: Sequence[Any]) -> list[Traced]:
        """Arrays of one dtype; a number of Python takes that of the others."""
        for x in arrays:
            if isinstance(x, np.ndarray):
                raise TracingError("it mixes NumPy arrays with features: bring them by move_like")
            if not isinstance(x, (Traced, bool, int, float, np.generic)):
                raise TracingError(f"it mixes {type(x).__name__} with features")
        dtype = np.result_type(*(x.dtype for x in arrays if isinstance(x, Traced)))
        return [
            self.astype(x, dtype) if isinstance(x, Traced) else self.asarray(x, dtype=dtype)
            for x in arrays
        ]

    def _apply(
        self,
        operator: str,
        function: Any,
        inputs: Sequence[Any],
        *,
        dtype: Any = None,
        alike: bool = True,
        **attributes: Any,
    ) -> Traced:
        """A function number by number."""
        arrays = self._alike(inputs) if alike else list(inputs)
        if all(x.value is not None for x in arrays):
            with np.errstate(all="ignore"):
                return self.asarray(function(*(x.value for x in arrays)))
        shape = _broadcast([x.shape for x in arrays])
        name = self.graph.add(operator, [x.name for x in arrays], **attributes)
        return Traced(self, shape, dtype or arrays[0].dtype, name=name)

    def _reduce(
        self, operator: str, function: Any, x: Traced, *, axis: int | None = None, keepdims: Any = 0
    ) -> Traced:
        """A function of all numbers along an axis."""
        if x.value is not None:
            return self.asarray(function(x.value, axis=axis, keepdims=bool(keepdims)))
        if axis is None or isinstance(x.shape[axis], Rows):
            raise TracingError("it computes with several images at once")
        axis = axis % x.ndim
        middle = (1,) if keepdims else ()
        axes = self.graph.constant(np.array([axis], dtype=np.int64))
        name = self.graph.add(operator, [x.name, axes], keepdims=int(keepdims))
        return Traced(self, x.shape[:axis] + middle + x.shape[axis + 1 :], x.dtype, name=name)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of arrays that meet number by number."""
    n_axes = max(map(len, shapes))
    out = []
    for lengths in zip(*((1,) * (n_axes - len(s)) + tuple(s) for s in shapes), strict=True):
        if any(isinstance(length, Rows) for length in lengths):
            if max(lengths) > 1:
                raise TracingError("it brings images and other rows together")
            out.append(ROWS)
        else:
            if len(set(lengths) - {1}) > 1:
                raise TracingError(f"it brings arrays of shapes {shapes} together")
            out.append(max(lengths))
    return tuple(out)


# What single precision may leave between the file and the model, of the largest score.
_TOLERANCE = 1e-3
_CHECKED_ROWS = 16


class ExportError(ValueError):
    """A model that cannot be written in another format; the message says why."""


def export_onnx(model: Any, path: str | PathLike[str], *, check: bool = True) -> Path:
    """Write a fitted model as an ONNX file: preparation of the features, embedding, scores, labels.

    What the model does to an image is written down while it does it: every method embeds features
    by functions of the array API standard, and an array that records them becomes the graph. The
    classes are those described at this moment; classes that are described later need a new file.

    Parameters
    ----------
    model : fitted zero-shot estimator or Pipeline
        Any method, calibrated, searched, or in a pipeline of common scalers and PCA.
    path : str or path-like
        Where the file goes. It is there whole, or not at all.
    check : bool, default=True
        Whether the file is run by onnxruntime on a few made-up rows before it takes its place, and
        compared with the model.

    Returns
    -------
    Path
        The file. Its input is "X", float32 of shape (rows, features); its outputs are "scores"
        (rows, classes), "label" (rows), and "probabilities" where the model has a temperature. With
        :class:`~zslearn.calibration.NoneOfThese` rejected rows have its label. Its metadata hold
        "classes" and "seen" as JSON lists in the order of the scores, and the "method".

    Raises
    ------
    ExportError
        Where a graph cannot say what the model does; the message names the method and the reason.

    Examples
    --------
    >>> from zslearn import EXEM
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.persistence import export_onnx
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> file = export_onnx(model, "model.onnx")  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(file)  # doctest: +SKIP
    >>> scores, labels = session.run(["scores", "label"], {"X": X})  # doctest: +SKIP
    """
    model = fitted_as_zero_shot(model)
    proto = _written(model)
    content = proto.SerializeToString()
    if check:
        _check(model, content)
    path = Path(path)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def _written(model: Any) -> Any:
    """The model as a protocol buffer."""
    scorer: ClassScorer = model.class_scorer_
    graph = Graph(int(model.n_features_in_))
    xp = Namespace(graph)
    X = Traced(xp, (ROWS, graph.n_features), np.float32, name=graph.input)
    try:
        scores = scorer.scores(X)
        outputs = {"scores": scores}
        if scorer.temperature is not None:
            outputs["probabilities"] = softmax(scores, scorer.temperature)
        label = _label(xp, scores, scorer, model)
    except (TypeError, AttributeError) as error:
        raise ExportError(
            f"{_name_of(model)} cannot be written as ONNX: {error}. Save the model itself, or "
            "export a method whose embedding follows the array API standard."
        ) from error
    graph.output("label", label.name)
    shapes: dict[str, tuple[Any, list[Any]]] = {"label": (label.dtype, ["rows"])}
    for name, array in outputs.items():
        graph.output(name, xp.astype(array, xp.float32).name)
        shapes[name] = xp.float32, ["rows", len(scorer.labels)]
    return graph.model(dict(sorted(shapes.items(), reverse=True)), _metadata(model, scorer))


def _label(xp: Namespace, scores: Traced, scorer: ClassScorer, model: Any) -> Traced:
    """The best class of each row: of equal scores that which the scorer prefers."""
    order = np.arange(len(scorer.labels))
    if scorer.precedence is not None:
        order = np.argsort(scorer.precedence, kind="stable")
    in_order = scores
    if not np.array_equal(order, np.arange(len(order))):
        in_order = xp.take(scores, xp.asarray(order), axis=1)
    best = xp.argmax(in_order, axis=1)
    labels = _label_values(scorer.labels[order])
    label = xp.take(xp.asarray(labels), best, axis=0)
    if not isinstance(model, NoneOfThese):
        return label
    if model.none_label_ is None:
        raise TypeError("its none_label is None, which is no label of a graph: give another one")
    thresholds = model.threshold_of(scorer.labels[order]).astype(np.float32)
    rejected = _statistic(xp, scores, scorer, model) < xp.take(xp.asarray(thresholds), best, axis=0)
    none = np.asarray(model.none_label_, dtype=labels.dtype)
    name = xp.graph.add("Where", [rejected.name, xp.graph.constant(none), label.name])
    return Traced(xp, (ROWS,), label.dtype, name=name)


def _statistic(xp: Namespace, scores: Traced, scorer: ClassScorer, model: NoneOfThese) -> Traced:
    """What is compared with the threshold."""
    if model.statistic == "probability":
        scores = softmax(scores, scorer.temperature or 1.0)
    ordered = xp.sort(scores, axis=1)
    best = ordered[:, -1]
    if model.statistic == "probability":
        return probability_among(best, len(scorer.labels), len(model.seen_classes_))
    if model.statistic == "margin" and scores.shape[1] > 1:
        return best - ordered[:, -2]
    return best


def _label_values(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels in a dtype that ONNX has."""
    if labels.dtype.kind in "OU":
        return labels.astype(object)
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _metadata(model: Any, scorer: ClassScorer) -> dict[str, str]:
    seen = set(model.seen_classes_.tolist())
    labels = scorer.labels.tolist()
    return {
        "classes": json.dumps(labels, ensure_ascii=False),
        "seen": json.dumps([label in seen for label in labels]),
        "method": _name_of(model),
        "zslearn": __version__,
    }


def _name_of(model: Any) -> str:
    """The names of a model and of what it wraps, outermost first: "CalibratedStacking(EXEM)"."""
    name = type(model).__name__
    inner = model.steps[-1][1] if hasattr(model, "steps") else getattr(model, "estimator_", None)
    return f"{name}({_name_of(inner)})" if hasattr(inner, "class_scorer_") else name


def _check(model: Any, content: bytes) -> None:
    """Run the file on made-up rows, and compare."""
    runtime = import_optional("onnxruntime", "export_onnx with check=True")
    rng = np.random.default_rng(0)
    X: NDArray[np.float32] = unit_rows(rng.normal(size=(_CHECKED_ROWS, model.n_features_in_)))
    X = X.astype(np.float32)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"X": X})
    expected: Floats = to_numpy(model.decision_function(X, classes=model.classes_))
    apart = float(np.abs(found - expected).max())
    scale = float(np.abs(expected).max())
    if not apart <= _TOLERANCE * max(scale, float(np.finfo(np.float32).tiny)):
        raise ExportError(
            f"{_name_of(model)} cannot be written as ONNX: the file's scores differ from the "
            f"model's by {apart:.1e}, where the largest score is {scale:.1e}."
        )
