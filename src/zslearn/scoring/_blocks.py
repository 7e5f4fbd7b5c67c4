"""How images and classes meet: a number for each pair, block by block.

Rows of images and parameters of classes come in, scores or the best classes come out. Rows are
embedded, scored and forgotten in blocks, so that memory holds one block of scores besides the
result, however many rows or classes there are; a memory-mapped array is read as it is needed. All
of it follows the array API standard: results come back in the namespace and on the device of the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

import array_api_compat as compat

from zslearn.scoring._class_side import ClassSide, ScoreFunction, class_side
from zslearn.scoring._host_blocks import WORTH_COMPILED, HostLists
from zslearn.scoring._selection import Best, largest, merged
from zslearn.scoring._torch_blocks import TorchLists
from zslearn.utils import Array, block_budget, floating, moves_kept, on_device, row_blocks

# Classes that a block of rows is scored against at a time, on the host.
_CLASS_BLOCK = 4096
# On a device all classes at once, as long as this many rows fit the budget.
_FEWEST_ROWS = 1024


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
    plan = _Plan(X, parameters, score, bias, embed)
    out = None
    with moves_kept():
        for rows, row_side in plan.row_sides():
            squares = plan.side.squares(row_side)
            for classes in plan.class_blocks():
                block = plan.side.scores(row_side, squares, classes)
                if out is None:
                    xp = compat.array_namespace(block)
                    shape = (X.shape[0], plan.side.n_classes)
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
    plan = _Plan(X, parameters, score, bias, embed)
    with moves_kept():
        if compat.is_torch_array(X):
            return _torch_top_k(plan, k)
        if compat.is_numpy_array(X) and X.shape[0] * n_classes >= WORTH_COMPILED:
            return _host_top_k(plan, k)
        return _compared_top_k(plan, k)


def _host_top_k(plan: _Plan, k: int) -> Best:
    """The lists of NumPy rows by compiled code."""
    lists = HostLists(plan.X.shape[0], k)
    # The scores of a block are never there all at once.
    plan.row_bytes = 8 * (plan.X.shape[1] + plan.parameters.shape[-1])
    for rows, embedded in plan.embedded():
        lists.add(rows, embedded, plan.side)
    return lists.settled()


def _compared_top_k(plan: _Plan, k: int) -> Best:
    """The lists of all rows by comparing final scores of all classes."""
    out: Best | None = None
    for rows, row_side in plan.row_sides():
        squares, best = plan.side.squares(row_side), None
        for classes in plan.class_blocks():
            block = plan.side.scores(row_side, squares, classes)
            indices, values = largest(block, min(k, block.shape[1]))
            indices = indices + classes.start
            best = (indices, values) if best is None else merged(best, (indices, values), k)
        assert best is not None
        if out is None:
            xp, device = compat.array_namespace(best[1]), compat.device(best[1])
            shape = plan.X.shape[0], k
            out = (
                xp.empty(shape, dtype=xp.int64, device=device),
                xp.empty(shape, dtype=best[1].dtype, device=device),
            )
        out[0][rows, :], out[1][rows, :] = best
    assert out is not None
    return out


def _torch_top_k(plan: _Plan, k: int) -> Best:
    """The lists of tensors, without waiting for the device in any block."""
    lists = TorchLists(plan.X.shape[0], k)
    for rows, row_side in plan.row_sides():
        lists.add(rows, row_side, plan.side, plan.class_block)
    return lists.settled(lambda rows: _compared_top_k(plan.of_rows(rows), k))


class _Plan:
    """Which rows meet which classes at a time, within a budget of memory."""

    def __init__(
        self,
        X: Any,
        parameters: Any,
        score: ScoreFunction,
        bias: Any,
        embed: Callable[[Array], Array] | None,
    ) -> None:
        if score not in get_args(ScoreFunction):
            raise ValueError(f"score={score!r} is not one of {get_args(ScoreFunction)}.")
        if X.shape[0] == 0:
            raise ValueError("X has no rows: there is nothing to score.")
        self.X, self.parameters, self.score, self.bias, self.embed = (
            X, parameters, score, bias, embed,
        )  # fmt: skip
        self.budget = block_budget(X)
        n_classes, width = parameters.shape[0], parameters.shape[-1]
        self.class_block = min(n_classes, _CLASS_BLOCK)
        if on_device(X):
            fitting = self.budget // (_FEWEST_ROWS * 4 * 8)
            self.class_block = min(n_classes, max(_CLASS_BLOCK, fitting))
        # A row as it came and as it is prepared, as it is embedded, and arrays the size of its
        # scores.
        self.row_bytes = 8 * (X.shape[1] + width + 3 * self.class_block)
        if on_device(X):
            self.row_bytes = 4 * (4 * X.shape[1] + 3 * width + 3 * self.class_block)
        self.side: ClassSide

    def of_rows(self, rows: Array) -> _Plan:
        """The same for some rows, by position."""
        return _Plan(self.X[rows, :], self.parameters, self.score, self.bias, self.embed)

    def row_sides(self) -> Iterator[tuple[slice, Array]]:
        """Rows as the score needs them, block by block; `side` is there from the first one on."""
        for rows, embedded in self.embedded():
            yield rows, self.side.rows(embedded)

    def embedded(self) -> Iterator[tuple[slice, Array]]:
        """Rows in the space of the parameters, block by block; `side` is there, too."""
        for rows in row_blocks(self.X.shape[0], self.row_bytes, self.budget):
            part = self.X[rows, :]
            embedded = floating(part) if self.embed is None else self.embed(part)
            if not hasattr(self, "side"):
                self.side = class_side(self.parameters, self.score, self.bias, like=embedded)
            yield rows, embedded

    def class_blocks(self) -> Iterator[slice]:
        """Classes that a block of rows is scored against at a time."""
        n_classes = self.parameters.shape[0]
        for first in range(0, n_classes, self.class_block):
            yield slice(first, min(first + self.class_block, n_classes))
