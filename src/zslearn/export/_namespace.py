"""The functions of the array API standard over arrays of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zslearn.export._graph import Graph
from zslearn.export._parts import take_part
from zslearn.export._traced import ROWS, Rows, Traced, TracingError

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

    __name__ = "zslearn.export"
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
