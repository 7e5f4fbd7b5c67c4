"""How images and classes meet: a number for each pair, block by block.

Rows of images and parameters of classes come in, scores or the best classes come out. Rows are
embedded, scored and forgotten in blocks, so that memory holds one block of scores besides the
result, however many rows or classes there are; a memory-mapped array is read as it is needed. All
of it follows the array API standard: results come back in the namespace and on the device of the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import array_api_compat as compat
import numpy as np

from zslearn.utils import Array, floating, move_like, row_blocks, to_numpy, unit_rows

ScoreFunction = Literal["dot", "euclidean", "cosine", "max_dot"]

# Classes that a block of rows is scored against at a time.
_CLASS_BLOCK = 4096


def class_scores(
    X: Any,
    parameters: Any,
    *,
    score: ScoreFunction = "dot",
    bias: Any = None,
    embed: Callable[[Array], Array] | None = None,
) -> Array:
    """Score every row against every class.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows; NumPy (also memory-mapped), torch, CuPy or any array of the array API standard.
    parameters : array of shape (n_classes, n_dims), or (n_classes, n_maps, n_dims) for "max_dot"
        One vector per class, or several.
    score : {"dot", "euclidean", "cosine", "max_dot"}, default="dot"
        The inner product; the negative Euclidean distance (in float32 two distances that differ by
        less than about a thousandth of the spread of the classes may come out equal); the cosine,
        0 for a zero vector; the largest of a class's inner products.
    bias : array-like of shape (n_classes,), optional
        Added to the scores of each class.
    embed : callable, optional
        Takes a block of rows into the space of the parameters.

    Returns
    -------
    array of shape (n_rows, n_classes)
        The higher, the better.

    See Also
    --------
    top_k : The best classes of each row, without this matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.scoring import class_scores
    >>> X = np.array([[1.0, 0.0], [3.0, 4.0]])
    >>> class_scores(X, np.array([[0.0, 0.0], [1.0, 0.0]]), score="euclidean").round(2)
    array([[-1.  , -0.  ],
           [-5.  , -4.47]])
    """
    out = None
    for rows, classes, block, n_classes in _blocks(X, parameters, score, bias, embed):
        if out is None:
            xp = compat.array_namespace(block)
            shape = (X.shape[0], n_classes)
            out = xp.empty(shape, dtype=block.dtype, device=compat.device(block))
        out[rows, classes] = block
    return out


def top_k(
    X: Any,
    parameters: Any,
    k: int,
    *,
    score: ScoreFunction = "dot",
    bias: Any = None,
    embed: Callable[[Array], Array] | None = None,
) -> tuple[Array, Array]:
    """Find the `k` best classes of each row, best first, without a matrix of all scores.

    Of equal scores the class that comes first in `parameters` wins, whatever the blocks.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows; NumPy (also memory-mapped), torch, CuPy or any array of the array API standard.
    parameters : array of shape (n_classes, n_dims), or (n_classes, n_maps, n_dims) for "max_dot"
        One vector per class, or several.
    k : int
        How many classes; from 1 to n_classes.
    score : {"dot", "euclidean", "cosine", "max_dot"}, default="dot"
        See :func:`class_scores`.
    bias : array-like of shape (n_classes,), optional
        Added to the scores of each class.
    embed : callable, optional
        Takes a block of rows into the space of the parameters.

    Returns
    -------
    indices : integer array of shape (n_rows, k)
        Positions in `parameters`.
    scores : array of shape (n_rows, k)
        Their scores, descending.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.scoring import top_k
    >>> indices, scores = top_k(np.array([[1.0, 2.0]]), np.array([[0, 1], [1, 0], [0, 1]]), k=2)
    >>> indices
    array([[0, 2]])
    >>> scores
    array([[2., 2.]])
    """
    n_classes = parameters.shape[0]
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be between 1 and the number of classes, {n_classes}; got {k}.")
    out: tuple[Array, Array] | None = None
    best: tuple[Array, Array] | None = None
    for rows, classes, block, _ in _blocks(X, parameters, score, bias, embed):
        xp = compat.array_namespace(block)
        if out is None:
            device = compat.device(block)
            out = (
                xp.empty((X.shape[0], k), dtype=xp.int64, device=device),
                xp.empty((X.shape[0], k), dtype=block.dtype, device=device),
            )
        indices, values = _largest(block, min(k, block.shape[1]))
        indices = indices + classes.start
        if classes.start > 0 and best is not None:
            indices, values = _merged(best, (indices, values), k)
        best = indices, values
        if classes.stop >= n_classes:
            out[0][rows, :] = indices
            out[1][rows, :] = values
    assert out is not None
    return out


def _blocks(
    X: Any,
    parameters: Any,
    score: ScoreFunction,
    bias: Any,
    embed: Callable[[Array], Array] | None,
) -> Iterator[tuple[slice, slice, Array, int]]:
    """Scores of block after block: all classes of some rows, then the next rows."""
    if score not in get_args(ScoreFunction):
        raise ValueError(f"score={score!r} is not one of {get_args(ScoreFunction)}.")
    if X.shape[0] == 0:
        raise ValueError("X has no rows: there is nothing to score.")
    n_classes = parameters.shape[0]
    class_block = min(n_classes, _CLASS_BLOCK)
    # A row as it came, as it is embedded, and three arrays the size of its scores.
    row_bytes = 8 * (X.shape[1] + parameters.shape[-1] + 3 * class_block)
    class_side = None
    for rows in row_blocks(X.shape[0], row_bytes):
        part = X[rows, :]
        embedded = floating(part) if embed is None else embed(part)
        if class_side is None:
            class_side = _ClassSide(parameters, score, bias, like=embedded)
        row_side = class_side.rows(embedded)
        for first in range(0, n_classes, class_block):
            classes = slice(first, min(first + class_block, n_classes))
            yield rows, classes, class_side.scores(row_side, classes), n_classes


class _ClassSide:
    """Parameters of the classes, made ready once for all blocks of rows."""

    def __init__(self, parameters: Any, score: ScoreFunction, bias: Any, like: Array) -> None:
        axes = 3 if score == "max_dot" else 2
        if len(parameters.shape) != axes or parameters.shape[-1] != like.shape[1]:
            raise ValueError(
                f"score={score!r} needs parameters of {axes} axes, the last of length "
                f"{like.shape[1]} like the embedded rows; got shape {tuple(parameters.shape)}."
            )
        self.score = score
        # What float32 cannot hold becomes infinite.
        with np.errstate(over="ignore"):
            self.parameters = move_like(parameters, like)
        self.xp = xp = compat.array_namespace(like)
        # Their squares, and products with rows that are not larger, are to be finite.
        largest = float(xp.max(xp.abs(self.parameters)))
        if not largest <= float(xp.finfo(self.parameters.dtype).max) ** 0.5:
            raise ValueError(
                f"The largest parameter of a class is {largest:.0e}, with which {like.dtype} "
                "cannot compute. Regularise more, or give X in double precision."
            )
        if score == "cosine":
            self.parameters = unit_rows(self.parameters)
        elif score == "euclidean":
            # Distances do not change when both sides move; around the classes' mean less cancels.
            self.center = xp.mean(self.parameters, axis=0, keepdims=True)
            self.parameters = self.parameters - self.center
            self.squares = xp.sum(self.parameters * self.parameters, axis=1)
        self.bias = None if bias is None else move_like(to_numpy(bias), like)
        if self.bias is not None and self.bias.shape != (self.parameters.shape[0],):
            raise ValueError(
                f"bias must have one number per class, {self.parameters.shape[0]}; "
                f"got shape {tuple(self.bias.shape)}."
            )

    def rows(self, embedded: Array) -> Array:
        """Rows as the score needs them."""
        if self.score == "cosine":
            return unit_rows(embedded)
        if self.score == "euclidean":
            return embedded - self.center
        return embedded

    def scores(self, rows: Array, classes: slice) -> Array:
        """Scores of a block of rows against a block of classes."""
        xp = self.xp
        if self.score == "max_dot":
            out = rows @ xp.matrix_transpose(self.parameters[classes, 0, :])
            for i in range(1, self.parameters.shape[1]):
                out = xp.maximum(out, rows @ xp.matrix_transpose(self.parameters[classes, i, :]))
        else:
            out = rows @ xp.matrix_transpose(self.parameters[classes, :])
        if self.score == "euclidean":
            # −‖x − p‖, by ‖x‖² + ‖p‖² − 2xp
            out *= -2
            out += xp.sum(rows * rows, axis=1)[:, None]
            out += self.squares[classes][None, :]
            out = xp.sqrt(xp.clip(out, min=0))
            out *= -1
        if self.bias is not None:
            out += self.bias[classes][None, :]
        return out


def _largest(block: Array, k: int) -> tuple[Array, Array]:
    """Columns and values of the `k` largest of each row, descending; the first of equals wins."""
    xp = compat.array_namespace(block)
    if k == 1:
        return xp.argmax(block, axis=1, keepdims=True), xp.max(block, axis=1, keepdims=True)
    n_rows = block.shape[0]
    threshold = _kth_largest(block, k)
    columns = xp.nonzero(block >= threshold)[1]
    if columns.shape[0] < n_rows * k:
        raise ValueError("Scores are NaN: look for NaN in the embedded rows or the parameters.")
    if columns.shape[0] > n_rows * k:
        # More than one class has the k-th largest score: the first of them have room.
        above = block > threshold
        equal = block == threshold
        room = k - xp.sum(xp.astype(above, xp.int64), axis=1, keepdims=True)
        first = xp.cumulative_sum(xp.astype(equal, xp.int64), axis=1) <= room
        columns = xp.nonzero(above | (equal & first))[1]
    # Exactly k per row, in the order of the columns: a stable sort then keeps the first of equals.
    indices = xp.reshape(columns, (n_rows, k))
    values = xp.take_along_axis(block, indices, axis=1)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)


def _kth_largest(block: Array, k: int) -> Array:
    """The `k`-th largest value of each row, as a column; a selection where the library has one."""
    if compat.is_numpy_array(block):
        at = block.shape[1] - k
        return np.partition(block, at, axis=1)[:, at : at + 1]
    if compat.is_torch_array(block):
        return block.topk(k, dim=1).values[:, -1:]
    xp = compat.array_namespace(block)
    return xp.sort(block, axis=1)[:, -k][:, None]


def _merged(first: tuple[Array, Array], second: tuple[Array, Array], k: int) -> tuple[Array, Array]:
    """The best `k` of two lists, the first of which holds the earlier classes."""
    xp = compat.array_namespace(first[1])
    indices = xp.concat([first[0], second[0]], axis=1)
    values = xp.concat([first[1], second[1]], axis=1)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    order = order[:, : min(k, order.shape[1])]
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)
