"""Arrays that write down what is done to them, as nodes of an ONNX graph.

Every method's `embed`, and the scores, are written against the array API standard. So they also
work on an array that has a shape and a dtype but no numbers: each operation adds a node. What does
not depend on the input is computed at once and becomes a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from zslearn.export._namespace import Namespace


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
