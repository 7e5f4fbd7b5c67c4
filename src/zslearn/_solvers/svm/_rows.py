"""Training rows of a linear classifier, prepared once for many solves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    floating,
    row_blocks,
    take_rows,
    to_numpy,
)
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._validation import checked_weights


class Solution(NamedTuple):
    """The result of a solver: U, its certificate, steps or passes, and dual points, if any."""

    base: Array
    objective: float
    dual_gap: float
    gain: float
    converged: bool
    n_iter: int
    dual: Floats | None = None


class CastRows:
    """Rows that are prepared when they are read, in one precision, with products in blocks."""

    # NumPy then leaves `array @ rows` to this class.
    __array_ufunc__ = None

    def __init__(self, rows: Any, dtype: Any) -> None:
        self.rows, self.dtype = rows, np.dtype(dtype)
        self.shape: tuple[int, int] = rows.shape

    def __getitem__(self, key: Any) -> NDArray[Any]:
        positions = key[0] if isinstance(key, tuple) else key
        if isinstance(positions, np.ndarray):
            return np.asarray(self.rows.take(positions)).astype(self.dtype, copy=False)
        return np.asarray(self.rows[positions, :]).astype(self.dtype, copy=False)

    def __matmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((self.shape[0], other.shape[1]), np.result_type(self.dtype, other.dtype))
        for rows in self._blocks():
            np.matmul(self[rows], other, out=out[rows])
        return out

    def __rmatmul__(self, other: NDArray[Any]) -> NDArray[Any]:
        total = np.zeros((other.shape[0], self.shape[1]), np.result_type(self.dtype, other.dtype))
        for rows in self._blocks():
            total += other[:, rows] @ self[rows]
        return total

    def gram(self) -> Floats:
        """XᵀX, summed in float64."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for rows in self._blocks():
            block = self[rows]
            total += block.T @ block
        return total

    def _blocks(self) -> list[slice]:
        return row_blocks(self.shape[0], 4 * 8 * self.shape[1])


# Arrays with fewer numbers are not copied to single precision.
_SMALL = 1 << 20


class TrainingRows:
    """Features and labels, rotated into the smaller space.

    A linear classifier with a penalty on its norm lies in the span of the rows. With fewer rows
    than columns the problem is solved in an orthonormal basis of the span: X = Rᵀ Qᵀ, w = Q u.

    `X` is an array of any library, or lazy rows (`PreparedRows`), prepared when they are read.
    `sample_weight` is normalised to a mean of one; None if all rows count the same.
    """

    def __init__(
        self, X: Any, y: Any, n_classes: int | None = None, *, sample_weight: Any = None
    ) -> None:
        if hasattr(X, "whole") and X.shape[0] < X.shape[1]:
            X = X.whole()  # the rotated rows are smaller
        self.lazy = hasattr(X, "whole")
        if not self.lazy:
            X = floating(X if compat.is_array_api_obj(X) else np.asarray(X))
        labels = np.asarray(to_numpy(y))
        if len(X.shape) != 2 or 0 in X.shape:
            raise ValueError(f"X must be a table of rows and columns; got shape {tuple(X.shape)}.")
        if labels.shape != (X.shape[0],) or labels.dtype.kind not in "iu":
            raise ValueError(
                f"y must have one integer per row, {X.shape[0]} in all; "
                f"got shape {labels.shape} of type {labels.dtype}."
            )
        n_classes = int(labels.max()) + 1 if n_classes is None else n_classes
        if n_classes < 2 or labels.min() < 0 or labels.max() >= n_classes:
            raise ValueError(
                f"Labels must lie in 0 … {max(n_classes, 2) - 1} and there must be at least two "
                f"classes; got labels from {labels.min()} to {labels.max()}, "
                f"n_classes={n_classes}."
            )
        self.y: NDArray[np.intp] = labels.astype(np.intp)
        self.n_classes = n_classes
        self.sample_weight: Floats | None = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, (len(labels),))
            if (weights != weights[0]).any():
                self.sample_weight = weights / float(weights.mean())
        self.xp = xp = compat.array_namespace(X)
        self.device = compat.device(X)
        self.basis: Array = None
        if X.shape[0] < X.shape[1]:
            self.basis, triangle = xp.linalg.qr(xp.matrix_transpose(xp.astype(X, xp.float64)))
            X = xp.matrix_transpose(triangle)
        self.X: Array = X
        #: Number of rows, and of columns after the rotation.
        self.shape: tuple[int, int] = X.shape

    @cached_property
    def mean_square(self) -> float:
        """Mean of the rows' squared norms."""
        total = 0.0
        for rows, block in self.blocks():
            squares = self.xp.vecdot(block, block)[:, None]
            total += float(self.xp.sum(self.weigh(squares, rows)))
        return total / self.shape[0]

    def weigh(self, table: Array, rows: slice = slice(None)) -> Array:
        """Multiply a table of some rows by their weights."""
        if self.sample_weight is None:
            return table
        return table * self.asarray(self.sample_weight[rows])[:, None]

    def full(self, coefficients: Array) -> Array:
        """Coefficients of the original features."""
        if self.basis is None:
            return coefficients
        return coefficients @ self.xp.matrix_transpose(self.basis)

    def rotated(self, coefficients: Any) -> Array:
        """Coefficients in the smaller space."""
        coefficients = self.asarray(coefficients)
        return coefficients if self.basis is None else coefficients @ self.basis

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """An array in the library and on the device of the rows."""
        if compat.is_array_api_obj(x) and compat.array_namespace(x) is not self.xp:
            x = to_numpy(x)
        dtype = self.xp.float64 if dtype is None else dtype
        return self.xp.asarray(x, dtype=dtype, device=self.device)

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Some rows in float64."""
        chosen = self.X.take(positions) if self.lazy else take_rows(self.X, positions)
        return self.xp.astype(chosen, self.xp.float64, copy=False)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Rows in float64, a block at a time."""
        if self.X.dtype == self.xp.float64 and not self.lazy:
            yield slice(0, self.shape[0]), self.X
            return
        # Lazy rows also exist before preparation and in their own precision.
        copies = 3 if self.lazy else 1
        for rows in row_blocks(self.shape[0], copies * 8 * self.shape[1], block_budget(self.X)):
            yield rows, self.xp.astype(self.X[rows, :], self.xp.float64, copy=False)

    def scores(self, coefficients: Array) -> Array:
        """Inner products of all rows with coefficients."""
        transposed = self.xp.matrix_transpose(coefficients)
        if self.X.dtype == self.xp.float64 and not self.lazy:
            return self.X @ transposed
        shape = self.shape[0], coefficients.shape[0]
        out = self.xp.empty(shape, dtype=self.xp.float64, device=self.device)
        for rows, block in self.blocks():
            out[rows, :] = block @ transposed
        return out

    def combine(self, weights: Array) -> Array:
        """Sums of rows under weights, weightsᵀ X."""
        total: Array = 0.0
        for rows, block in self.blocks():
            # This order is faster for few vectors and many features.
            total = total + self.xp.matrix_transpose(weights[rows, :]) @ block
        return total

    @cached_property
    def single(self) -> Array:
        """Rows in single precision; small arrays in double precision."""
        is_small = not self.lazy and self.shape[0] * self.shape[1] < _SMALL
        return self._cast(self.xp.float64 if is_small else self.xp.float32)

    @cached_property
    def double(self) -> Array:
        """Rows in double precision."""
        return self._cast(self.xp.float64)

    def _cast(self, dtype: Any) -> Array:
        return CastRows(self.X, dtype) if self.lazy else self.xp.astype(self.X, dtype, copy=False)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of XᵀX, in float64."""
        xp = self.xp
        if self.lazy:
            gram = self.single.gram()
        else:
            gram = xp.astype(xp.matrix_transpose(self.single) @ self.single, xp.float64)
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(gram)
        return xp.where(values > 0, values, xp.zeros_like(values)), vectors

    @cached_property
    def host(self) -> Any:
        """Rows in host memory, for compiled code."""
        return self._on_host(self.X)

    @cached_property
    def host_single(self) -> Any:
        """`single` in host memory."""
        return self._on_host(self.single)

    def _on_host(self, rows: Any) -> Any:
        return CastRows(self.X, rows.dtype) if self.lazy else np.ascontiguousarray(to_numpy(rows))
