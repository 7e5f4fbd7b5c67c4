"""Scores of rows against classes, and the best classes of each row, block by block.

`class_scores` and `top_k` embed and score a block of rows at a time, so that memory holds one block
of scores besides the result, however many rows or classes there are; a memory-mapped array is read
as it is needed. Results come back in the namespace and on the device of the rows. The best classes
are selected in one of three ways: by compiled code for many NumPy rows (`HostLists`), without
waiting for the device for torch (`TorchLists`), and by comparing final scores for all else.

For the Euclidean distance ‖x − p‖² = ‖x‖² − 2 (xp − ½‖p‖²), so that the nearest class of a row has
the largest xp − ½‖p‖². That number, here called the raw score, is one product and one sum; the
square root is taken only of the scores that are wanted. Raw and final scores have one order, and
what rounding makes of it: two raw scores that differ may give the same final one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Literal, get_args

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import (
    Array,
    Latest,
    block_budget,
    floating,
    is_symbolic,
    move_like,
    moves_kept,
    on_device,
    to_numpy,
    unit_rows,
)
from zslearn._utils._blocks import row_blocks
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._processes import blas_threads, in_threads

#: How exactly scores are computed on a GPU: float32 as it is, or its tensor cores.
Precision = Literal["full", "tf32", "bf16"]

_precision: ContextVar[Precision] = ContextVar("zslearn_precision", default="full")
# The switch for TF32 belongs to the process: one thread at a time turns it.
_switch = threading.RLock()


@contextmanager
def score_precision(precision: Precision) -> Iterator[None]:
    """Compute the products of rows and classes less exactly, and faster, on a GPU.

    It concerns float32 tensors of torch on a CUDA device and the product of embedded rows with the
    parameters of the classes; anything else is computed as always. Sums are float32 in any case.

    Parameters
    ----------
    precision : {"full", "tf32", "bf16"}
        To how many bits both factors are rounded: not at all, to 11 or to 8.

    Yields
    ------
    None
        Predictions inside of the `with` block are computed so.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is not one of {get_args(Precision)}.")
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def product(rows: Array, parameters: Array) -> Array:
    """Inner products of rows and vectors, in the precision that is asked for."""
    precision = _precision.get()
    if precision != "full" and compat.is_torch_array(rows) and on_device(rows):
        import torch

        if rows.dtype == torch.float32:
            if precision == "bf16":
                rows, parameters = rows.bfloat16().float(), parameters.bfloat16().float()
            # Numbers of bfloat16 are numbers of TF32: the same product, with float32 sums.
            with _tf32():
                return rows @ parameters.T
    xp = compat.array_namespace(rows)
    return rows @ xp.matrix_transpose(parameters)


@contextmanager
def _tf32() -> Iterator[None]:
    """Let torch use the tensor cores of a CUDA device for float32."""
    import torch

    with _switch:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


# Multiples of the precision that are taken for rounding.
_ROUNDING = 4
ScoreFunction = Literal["dot", "euclidean", "cosine", "max_dot"]


class PreparedClasses:
    """Parameters and bias of classes in the library, dtype and on the device of embedded rows."""

    def __init__(self, parameters: Any, score: ScoreFunction, bias: Any, like: Array) -> None:
        axes, width = 3 if score == "max_dot" else 2, parameters.shape[-1]
        # A graph that is being exported does not know every width.
        if len(parameters.shape) != axes or like.shape[1] not in (None, width):
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
        largest = max(float(xp.max(self.parameters)), -float(xp.min(self.parameters)))
        if not largest <= float(xp.finfo(self.parameters.dtype).max) ** 0.5:
            raise ValueError(
                f"The largest parameter of a class is {largest:.0e}, with which {like.dtype} "
                "cannot compute. Regularise more, or give X in double precision."
            )
        self.half: Array = None
        if score == "cosine":
            self.parameters = unit_rows(self.parameters)
        elif score == "euclidean":
            # Distances do not change when both sides move; around the classes' mean less cancels.
            self.center = xp.mean(self.parameters, axis=0, keepdims=True)
            self.parameters = self.parameters - self.center
            self.half = 0.5 * xp.sum(self.parameters * self.parameters, axis=1)
        #: Number of classes.
        self.n_classes: int = self.parameters.shape[0]
        self.bias: Array = None if bias is None else move_like(to_numpy(bias), like)
        if self.bias is not None and self.bias.shape != (self.n_classes,):
            raise ValueError(
                f"bias must have one number per class, {self.n_classes}; "
                f"got shape {tuple(self.bias.shape)}."
            )
        #: Whether raw scores are ranked and only the best of them finished.
        self.finished_later = score == "euclidean" and bias is None

    def rows(self, embedded: Array, out: Array = None) -> Array:
        """Rows as the score needs them; `out` is memory of NumPy that may be used."""
        if self.score == "cosine":
            return unit_rows(embedded)
        if self.score == "euclidean":
            return (
                embedded - self.center if out is None else np.subtract(embedded, self.center, out)
            )
        return embedded

    def squares(self, rows: Array) -> Array:
        """Squared norms of the rows, as a column; None where no score needs them."""
        if self.score != "euclidean":
            return None
        if isinstance(rows, np.ndarray):
            return np.einsum("nd,nd->n", rows, rows)[:, None]
        return self.xp.sum(rows * rows, axis=1)[:, None]

    def products(self, rows: Array, classes: slice) -> Array:
        """Inner products of a block of rows and a block of classes; of several, the largest."""
        xp = self.xp
        if self.score != "max_dot":
            return product(rows, self.parameters[classes, :])
        out = product(rows, self.parameters[classes, 0, :])
        for i in range(1, self.parameters.shape[1]):
            out = xp.maximum(out, product(rows, self.parameters[classes, i, :]))
        return out

    def raw(self, rows: Array, squares: Array, classes: slice) -> Array:
        """What ranks the classes of a row: raw scores, or final ones where they have a bias."""
        out = self.products(rows, classes)
        if self.half is not None:
            out -= self.half[classes][None, :]
        if not self.finished_later:
            out = self.finish(out, squares)
            if self.bias is not None:
                out += self.bias[classes][None, :]
        return out

    def finish(self, raw: Array, squares: Array) -> Array:
        """Final scores but for the bias, −‖x − p‖ for the distance; `raw` is written over."""
        if squares is None:
            return raw
        xp = self.xp
        raw *= -2
        raw += squares
        # What is left of a row at the very place of a class is rounding of its squared norm.
        rounding = _ROUNDING * float(xp.finfo(raw.dtype).eps)
        raw = xp.sqrt(xp.where(raw > rounding * squares, raw, xp.zeros_like(raw)))
        raw *= -1
        return raw

    def scores(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Final scores of a block of rows against a block of classes."""
        out = self.raw(rows, squares, classes)
        return self.finish(out, squares) if self.finished_later else out


_on_device = Latest()


def prepared_classes(
    parameters: Any, score: ScoreFunction, bias: Any, like: Array
) -> PreparedClasses:
    """Classes made ready, or the very same ones from the call before where they are on a device."""
    if not on_device(like) or not isinstance(parameters, np.ndarray):
        return PreparedClasses(parameters, score, bias, like)
    biases = None if bias is None else np.asarray(bias).tobytes()
    key = score, biases, str(like.dtype), str(compat.device(like)), like.shape[1]
    prepared: PreparedClasses = _on_device.get(
        parameters, key, lambda: PreparedClasses(parameters, score, bias, like)
    )
    return prepared


# Columns and values of the best classes of each row.
Best = tuple[Array, Array]

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
    """Score every row against every class."""
    if is_symbolic(X):
        embedded = floating(X) if embed is None else embed(X)
        prepared = prepared_classes(parameters, score, bias, like=embedded)
        vectors = prepared.rows(embedded)
        return prepared.scores(vectors, prepared.squares(vectors), slice(0, prepared.n_classes))
    plan = _Plan(X, parameters, score, bias, embed)
    out = None
    with moves_kept():
        for rows, embedded, prepared in plan.embedded():
            vectors = prepared.rows(embedded)
            squares = prepared.squares(vectors)
            for classes in plan.class_blocks():
                block = prepared.scores(vectors, squares, classes)
                if out is None:
                    xp = compat.array_namespace(block)
                    shape = (X.shape[0], prepared.n_classes)
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
    """
    n_classes = parameters.shape[0]
    check_k(k, n_classes)
    plan = _Plan(X, parameters, score, bias, embed)
    with moves_kept():
        if compat.is_torch_array(X):
            return _torch_top_k(plan, k)
        if compat.is_numpy_array(X) and X.shape[0] * n_classes >= WORTH_COMPILED:
            return _host_top_k(plan, k)
        return _compared_top_k(plan, k)


def check_k(k: int, n_classes: int) -> None:
    """Refuse a number of classes that cannot be named."""
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be between 1 and the number of classes, {n_classes}; got {k}.")


def _host_top_k(plan: _Plan, k: int) -> Best:
    """The lists of NumPy rows by compiled code."""
    lists = HostLists(plan.X.shape[0], k)
    # The scores of a block are never there all at once.
    plan.row_bytes = 8 * (plan.X.shape[1] + plan.parameters.shape[-1])
    for rows, embedded, prepared in plan.embedded():
        lists.add(rows, embedded, prepared)
    return lists.settled()


def _compared_top_k(plan: _Plan, k: int) -> Best:
    """The lists of all rows by comparing final scores of all classes."""
    out: Best | None = None
    for rows, embedded, prepared in plan.embedded():
        vectors, best = prepared.rows(embedded), None
        squares = prepared.squares(vectors)
        for classes in plan.class_blocks():
            block = prepared.scores(vectors, squares, classes)
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
    for rows, embedded, prepared in plan.embedded():
        lists.add(rows, prepared.rows(embedded), prepared, plan.class_block)
    return lists.settled(lambda rows: _compared_top_k(plan.of_rows(rows), k))


class _Plan:
    """Rows and classes that are scored at a time, within a budget of memory."""

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

    def of_rows(self, rows: Array) -> _Plan:
        """The same for some rows, by position."""
        return _Plan(self.X[rows, :], self.parameters, self.score, self.bias, self.embed)

    def embedded(self) -> Iterator[tuple[slice, Array, PreparedClasses]]:
        """Rows in the space of the parameters, block by block, and the classes made ready."""
        prepared: PreparedClasses | None = None
        for rows in row_blocks(self.X.shape[0], self.row_bytes, self.budget):
            part = self.X[rows, :]
            embedded = floating(part) if self.embed is None else self.embed(part)
            if prepared is None:
                prepared = prepared_classes(self.parameters, self.score, self.bias, like=embedded)
            yield rows, embedded, prepared

    def class_blocks(self) -> Iterator[slice]:
        """Classes that a block of rows is scored against at a time."""
        n_classes = self.parameters.shape[0]
        for first in range(0, n_classes, self.class_block):
            yield slice(first, min(first + self.class_block, n_classes))


# The largest scores of each row, the first of equals first. A library's own selection says nothing
# of equals. On a device that works apart from the host one number more than wanted is selected, and
# rows in which two of them are equal are marked; these few are settled at the end, when the host
# asks for the first time.

# Selection in two steps pays where there are this many classes for each one wanted.
_GROUPED = 16


def largest(block: Array, k: int) -> Best:
    """Columns and values of the `k` largest of each row, descending; the first of equals wins."""
    xp = compat.array_namespace(block)
    if k == 1:
        return xp.argmax(block, axis=1, keepdims=True), xp.max(block, axis=1, keepdims=True)
    n_rows = block.shape[0]
    threshold = _kth_largest(block, k)
    columns = xp.nonzero(block >= threshold)[1]
    if columns.shape[0] < n_rows * k:
        raise ValueError(NOT_A_NUMBER)
    if columns.shape[0] > n_rows * k:
        # More than one class has the k-th largest score: the first of them are taken.
        above = block > threshold
        equal = block == threshold
        missing = k - xp.sum(xp.astype(above, xp.int64), axis=1, keepdims=True)
        first = xp.cumulative_sum(xp.astype(equal, xp.int64), axis=1) <= missing
        columns = xp.nonzero(above | (equal & first))[1]
    # Exactly k per row, in the order of the columns: a stable sort then keeps the first of equals.
    indices = xp.reshape(columns, (n_rows, k))
    values = xp.take_along_axis(block, indices, axis=1)
    return _ordered(indices, values)


NOT_A_NUMBER = "Scores are NaN: look for NaN in the embedded rows or the parameters."


def _kth_largest(block: Array, k: int) -> Array:
    """The `k`-th largest value of each row, as a column; a selection where the library has one."""
    if compat.is_numpy_array(block):
        at = block.shape[1] - k
        return np.partition(block, at, axis=1)[:, at : at + 1]
    if compat.is_torch_array(block):
        return block.topk(k, dim=1).values[:, -1:]
    xp = compat.array_namespace(block)
    return xp.sort(block, axis=1)[:, -k][:, None]


def merged(first: Best, second: Best, k: int) -> Best:
    """The best `k` of two lists, the first of which holds the earlier classes."""
    xp = compat.array_namespace(first[1])
    indices, values = (xp.concat(parts, axis=1) for parts in zip(first, second, strict=True))
    k = min(k, values.shape[1])
    indices, values = _ordered(indices, values)
    return indices[:, :k], values[:, :k]


def in_order(best: Best) -> Best:
    """Lists in descending order; of equal values the smaller index comes first."""
    xp = compat.array_namespace(best[1])
    order = xp.argsort(best[0], axis=1)
    return _ordered(*(xp.take_along_axis(part, order, axis=1) for part in best))


def _ordered(indices: Array, values: Array) -> Best:
    """Lists in descending order of the values; equals stay as they are."""
    xp = compat.array_namespace(values)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)


def torch_largest(block: Any, k: int) -> Best:
    """Columns and values of the `k` largest of each row, descending; equals in any order.

    With many classes the columns fall into groups. The `k` largest numbers lie in the `k` groups of
    the largest maxima, or are equal to some that do: only these groups are looked through.
    """
    import torch

    n_rows, n_columns = block.shape
    if n_columns < _GROUPED * k:
        values, indices = block.topk(k, dim=1)
        return indices, values
    size = max(2, round((n_columns / k) ** 0.5))
    n_groups = n_columns // size
    whole = size * n_groups
    maxima = block[:, :whole].unflatten(1, (size, n_groups)).amax(dim=1)
    groups = maxima.topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, whole, n_groups, device=block.device)
    columns = (groups[:, None, :] + steps[None, :, None]).flatten(1)
    if whole < n_columns:
        rest = torch.arange(whole, n_columns, device=block.device)
        columns = torch.cat([columns, rest.expand(n_rows, -1)], dim=1)
    values, at = block.gather(1, columns).topk(k, dim=1)
    return columns.gather(1, at), values


def torch_merged(first: Best, second: Best, k: int) -> Best:
    """The best `k` of two lists of tensors, or all where there are fewer; equals in any order."""
    import torch

    indices = torch.cat([first[0], second[0]], dim=1)
    values, at = torch.cat([first[1], second[1]], dim=1).topk(min(k, indices.shape[1]), dim=1)
    return indices.gather(1, at), values


# The best classes of many NumPy rows: tiles of scores that are looked through while in cache.

# A tile of scores: rows by classes, of float32 four megabytes. Its lines lie a little apart: at
# distances of a power of two they would share few places of a cache.
_TILE_ROWS = 1024
_TILE_CLASSES = 1024
_PADDING = 16
# Compiled code is loaded for so many scores; fewer are found sooner without.
WORTH_COMPILED = 1 << 22


class HostLists:
    """Lists of the `k` best classes of NumPy rows, filled block by block by compiled code."""

    def __init__(self, n_rows: int, k: int) -> None:
        self.shape = n_rows, k
        self.indices: NDArray[np.int64] = np.full(self.shape, -1, dtype=np.int64)
        self.values: Any = None
        # What serves all blocks of rows: the classes, and memory for tiles by thread.
        self._transposed: Any = None
        self._buffers: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def add(self, rows: slice, embedded: NDArray[Any], prepared: PreparedClasses) -> None:
        """Find the lists of a block of rows, a share of it in each thread."""
        dtype = embedded.dtype
        if self.values is None:
            self.values = np.empty(self.shape, dtype=dtype)
            self._transposed = prepared.parameters.T
            if prepared.score != "max_dot" and prepared.n_classes <= _TILE_CLASSES:
                # The product reads few classes sooner when they lie side by side.
                self._transposed = np.ascontiguousarray(self._transposed)
        nothing = np.empty(0, dtype=dtype)
        bias = nothing if prepared.bias is None else prepared.bias
        half = nothing if prepared.half is None else prepared.half
        indices, values = self.indices[rows], self.values[rows]

        def fill(part: slice) -> None:
            buffer, scores = self._buffer(part.start, embedded, prepared)
            for start in range(part.start, part.stop, _TILE_ROWS):
                tile = slice(start, min(start + _TILE_ROWS, part.stop))
                vectors = prepared.rows(embedded[tile], buffer[: tile.stop - tile.start])
                squares = nothing if prepared.half is None else prepared.squares(vectors)[:, 0]
                for first in range(0, prepared.n_classes, _TILE_CLASSES):
                    classes = slice(first, min(first + _TILE_CLASSES, prepared.n_classes))
                    add_to_lists(
                        _products(vectors, prepared, self._transposed, classes, scores),
                        first,
                        half[classes],
                        squares,
                        bias[classes],
                        indices[tile],
                        values[tile],
                    )

        in_threads(fill, _shares(len(embedded)))

    def _buffer(
        self, start: int, embedded: NDArray[Any], prepared: PreparedClasses
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Memory for a tile of rows and of scores, by where a thread begins."""
        if start not in self._buffers:
            height = min(_TILE_ROWS, self.shape[0])
            width = min(_TILE_CLASSES, prepared.n_classes) + _PADDING
            self._buffers[start] = (
                np.empty((height, embedded.shape[1]), dtype=embedded.dtype),
                np.empty((height, width), dtype=embedded.dtype),
            )
        return self._buffers[start]

    def settled(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Indices and scores of all rows."""
        if (self.indices[:, -1] < 0).any():
            raise ValueError(NOT_A_NUMBER)
        return self.indices, self.values


def _products(
    rows: NDArray[Any],
    prepared: PreparedClasses,
    transposed: NDArray[Any],
    classes: slice,
    buffer: NDArray[Any],
) -> NDArray[Any]:
    """Products of a tile, in memory that is used again and again."""
    if prepared.score == "max_dot":
        return prepared.products(rows, classes)
    out = buffer[: len(rows), : classes.stop - classes.start]
    return np.matmul(rows, transposed[:, classes], out=out)


def _shares(n_rows: int) -> list[slice]:
    """Rows for each thread; few rows are not worth a second one."""
    threads = max(1, min(blas_threads(), n_rows // (_TILE_ROWS // 8)))
    bounds = np.linspace(0, n_rows, threads + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]


# The best classes of rows of torch: no answer from the device is waited for until the end.

# What is known of a row whose list is found.
_TIED, _OPEN, _NAN = 1, 2, 4


class TorchLists:
    """Lists of the `k` best classes, filled block by block, settled where scores are equal."""

    def __init__(self, n_rows: int, k: int) -> None:
        self.n_rows, self.k = n_rows, k
        self.indices: Any = None

    def add(self, rows: slice, vectors: Array, prepared: PreparedClasses, class_block: int) -> None:
        """Find the lists of a block of rows."""
        import torch

        n_classes, squares = prepared.n_classes, prepared.squares(vectors)
        wanted = min(self.k + 1, n_classes)
        best: Best | None = None
        for first in range(0, n_classes, class_block):
            classes = slice(first, min(first + class_block, n_classes))
            block = prepared.raw(vectors, squares, classes)
            found = torch_largest(block, min(wanted, block.shape[1]))
            del block
            found = found[0] + first, found[1]
            best = found if best is None else torch_merged(best, found, wanted)
        assert best is not None
        indices, values = best
        if prepared.finished_later:
            values = prepared.finish(values, squares)
        if self.indices is None:
            self.indices = torch.empty(
                (self.n_rows, self.k), dtype=torch.int64, device=values.device
            )
            self.values = values.new_empty((self.n_rows, self.k))
            self.marks = torch.empty(self.n_rows, dtype=torch.uint8, device=values.device)
        self.indices[rows] = indices[:, : self.k]
        self.values[rows] = values[:, : self.k]
        equal = values[:, 1:] == values[:, :-1]
        marks = _TIED * equal.any(dim=1) + _NAN * values.isnan().any(dim=1)
        if wanted > self.k:
            marks = marks + _OPEN * equal[:, -1]
        self.marks[rows] = marks.to(torch.uint8)

    def settled(self, settle: Callable[[Any], Best]) -> Best:
        """The lists; those of rows in which scores are equal are put right."""
        marked = self.marks.nonzero()[:, 0]
        if marked.shape[0]:
            kinds = self.marks[marked]
            if bool((kinds >= _NAN).any()):
                raise ValueError(NOT_A_NUMBER)
            open_ = (kinds & _OPEN) > 0
            # The equals are all in the list: they only need their order.
            inside = marked[~open_]
            self._put(inside, in_order((self.indices[inside], self.values[inside])))
            beyond = marked[open_]
            if beyond.shape[0]:
                self._put(beyond, settle(beyond))
        return self.indices, self.values

    def _put(self, rows: Any, best: Best) -> None:
        self.indices[rows], self.values[rows] = best


# The best classes of a block of scores, compiled, in one pass while the block is in cache. Most
# classes of a row are far from the best: they are taken in short runs, whose maximum is found with
# vector instructions, and only runs that reach a threshold are looked into. The threshold is the
# worst of the list so far; of a row without a list yet it is the k-th largest maximum of the runs,
# for at least k classes are as good. What reaches it is gathered without a branch for each class,
# and then sorted into the list.

_RUN = 16
# Maxima of runs are looked at so many at a time; those that are missing are −∞.
_AT_ONCE = 64
# From so long lists on a threshold is found by halving an interval, and places by counting.
_MANY = 4
_HALVINGS = 8


@jit("the selection of the best classes")
def add_to_lists(
    block: Any, first: int, half: Any, squares: Any, bias: Any, indices: Any, values: Any
) -> None:
    """Take a block of products into lists of the best classes, sorted, the first of equals first.

    Where `half` has a length it is taken from the products, which ranks classes by their distance,
    and the score is the negative distance, with `squares` of the rows; `bias` is added where it has
    a length. Lists begin with indices of −1. The block is written over.
    """
    n_rows, n_classes = block.shape
    k = indices.shape[1]
    halved, biased = half.shape[0] > 0, bias.shape[0] > 0
    finish = halved and not biased
    # Constants of the block's own type: others would make the scores double.
    zero, two = block.dtype.type(0), block.dtype.type(2)
    slack = block.dtype.type(8 * np.finfo(block.dtype).eps)
    lowest = block.dtype.type(-np.inf)
    n_runs = (n_classes + _RUN - 1) // _RUN
    maxima = np.full((n_runs + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE, lowest, block.dtype)
    tops, buffer = np.empty(k, block.dtype), np.empty(_AT_ONCE, block.dtype)
    runs, spots = np.empty(n_runs + 1, np.int64), np.empty(n_classes + 1, np.int64)
    found = np.empty(max(n_classes, _AT_ONCE), block.dtype)
    for i in range(n_rows):
        line, best, places = block[i], values[i], indices[i]
        square = zero
        if finish:
            square = squares[i]
            _find_maxima_less(line, half, maxima, buffer)
        else:
            if halved:
                _to_distances(line, half, squares[i])
            if biased:
                _add(line, bias)
            _find_maxima(line, maxima, buffer)
        count = k
        while count > 0 and places[count - 1] < 0:
            count -= 1
        threshold = lowest
        if count == k:
            threshold = best[k - 1]
            if finish:
                threshold = (square - threshold * threshold) / two
        elif n_runs >= k:
            if k < _MANY:
                threshold = _kth_largest_maximum(maxima[:n_runs], tops)
            else:
                threshold = _at_least(maxima, n_runs, k, buffer)
        if finish:
            # Rounding may make two scores equal whose squares differ by a few units.
            threshold -= slack * (square + abs(threshold))
        near = _gather_runs(maxima[:n_runs], threshold, runs)
        if finish:
            n_found = _gather_less(line, half, runs[:near], threshold, spots)
            for at in range(n_found):
                distance = square - two * (line[spots[at]] - half[spots[at]])
                found[at] = -np.sqrt(distance if distance > zero else zero)
        else:
            n_found = _gather(line, runs[:near], threshold, spots)
            for at in range(n_found):
                found[at] = line[spots[at]]
        if count == 0 and _MANY <= n_found <= _AT_ONCE:
            _rank(found, spots, n_found, first, best, places)
        else:
            _insert(found, spots, n_found, first, count, best, places)


@jit_inner()
def _insert(
    found: Any, spots: Any, n_found: int, first: int, count: int, best: Any, places: Any
) -> None:
    """Take what was found into a list of some length, one class after the other."""
    k = best.shape[0]
    for spot in range(n_found):
        score = found[spot]
        if count < k:
            count += 1
        elif not score > best[k - 1]:
            continue
        at = count - 1
        while at > 0 and best[at - 1] < score:
            best[at] = best[at - 1]
            places[at] = places[at - 1]
            at -= 1
        best[at] = score
        places[at] = first + spots[spot]


@jit_inner()
def _rank(found: Any, spots: Any, n_found: int, first: int, best: Any, places: Any) -> None:
    """Fill an empty list: the place of a class is the number of larger scores.

    Equals would have the same place; as classes come in their order the next one is free.
    """
    k = best.shape[0]
    for at in range(n_found, _AT_ONCE):
        found[at] = -np.inf
    for spot in range(n_found):
        at = int(_count_above(found, found[spot]))
        while at < k and places[at] >= 0:
            at += 1
        if at < k:
            best[at] = found[spot]
            places[at] = first + spots[spot]


@jit_inner(fast=True)
def _count_above(numbers: Any, threshold: Any) -> Any:
    """How many of the first 64 numbers are above another, in their own type."""
    one, zero = numbers.dtype.type(1), numbers.dtype.type(0)
    total = zero
    for c in range(_AT_ONCE):
        total += one if numbers[c] > threshold else zero
    return total


@jit_inner()
def _gather_runs(maxima: Any, threshold: Any, runs: Any) -> int:
    """Write down the runs that reach a threshold; how many they are.

    Everything is written, and what does not count is written over: branches that nobody can foresee
    cost more.
    """
    n_runs = 0
    for run in range(maxima.shape[0]):
        runs[n_runs] = run
        n_runs += not maxima[run] < threshold
    return n_runs


@jit_inner()
def _gather(line: Any, runs: Any, threshold: Any, spots: Any) -> int:
    """Write down the classes of some runs that reach a threshold, ascending; how many."""
    n_found = 0
    for run in runs:
        start = run * _RUN
        if start + _RUN <= line.shape[0]:
            for c in range(_RUN):
                spots[n_found] = start + c
                n_found += line[start + c] >= threshold
        else:
            for c in range(start, line.shape[0]):
                spots[n_found] = c
                n_found += line[c] >= threshold
    return n_found


@jit_inner()
def _gather_less(line: Any, half: Any, runs: Any, threshold: Any, spots: Any) -> int:
    """The same of the numbers less `half`."""
    n_found = 0
    for run in runs:
        start = run * _RUN
        if start + _RUN <= line.shape[0]:
            for c in range(_RUN):
                spots[n_found] = start + c
                n_found += line[start + c] - half[start + c] >= threshold
        else:
            for c in range(start, line.shape[0]):
                spots[n_found] = c
                n_found += line[c] - half[c] >= threshold
    return n_found


@jit_inner(fast=True)
def _find_maxima(line: Any, maxima: Any, buffer: Any) -> None:
    """The largest number of each run; where there is NaN, whatever."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        # Halves of halves: each line is one or two vector instructions.
        for c in range(8):
            buffer[c] = max(line[start + c], line[start + 8 + c])
        for c in range(4):
            buffer[c] = max(buffer[c], buffer[c + 4])
        maxima[run] = max(max(buffer[0], buffer[1]), max(buffer[2], buffer[3]))
    if whole * _RUN < n:
        top = line[whole * _RUN]
        for c in range(whole * _RUN + 1, n):
            top = max(top, line[c])
        maxima[whole] = top


@jit_inner(fast=True)
def _find_maxima_less(line: Any, half: Any, maxima: Any, buffer: Any) -> None:
    """The same of the numbers less `half`."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        for c in range(8):
            buffer[c] = max(
                line[start + c] - half[start + c], line[start + 8 + c] - half[start + 8 + c]
            )
        for c in range(4):
            buffer[c] = max(buffer[c], buffer[c + 4])
        maxima[run] = max(max(buffer[0], buffer[1]), max(buffer[2], buffer[3]))
    if whole * _RUN < n:
        top = line[whole * _RUN] - half[whole * _RUN]
        for c in range(whole * _RUN + 1, n):
            top = max(top, line[c] - half[c])
        maxima[whole] = top


@jit_inner()
def _kth_largest_maximum(numbers: Any, tops: Any) -> Any:
    """The smallest of the largest numbers, as many as `tops` is long."""
    k, count = tops.shape[0], 0
    for number in numbers:
        if count == k and not number > tops[k - 1]:
            continue
        at = min(count, k - 1)
        while at > 0 and tops[at - 1] < number:
            tops[at] = tops[at - 1]
            at -= 1
        tops[at] = number
        count = min(count + 1, k)
    return tops[k - 1]


@jit_inner(fast=True)
def _count(numbers: Any, threshold: Any) -> Any:
    """How many numbers reach a threshold, in their own type."""
    one, zero = numbers.dtype.type(1), numbers.dtype.type(0)
    total = zero
    for start in range(0, numbers.shape[0], _AT_ONCE):
        for c in range(_AT_ONCE):
            total += one if numbers[start + c] >= threshold else zero
    return total


@jit_inner()
def _at_least(numbers: Any, n: int, k: int, buffer: Any) -> Any:
    """A threshold that `k` of the first `n` numbers reach, and few others.

    An interval is halved. Where at most half of 64 are wanted it begins at the least of 32 maxima
    of two numbers each: 32 numbers are no less.
    """
    half = _AT_ONCE // 2
    if numbers.shape[0] == _AT_ONCE and n >= half >= k:
        for c in range(half):
            buffer[c] = max(numbers[c], numbers[half + c])
        # Halves of halves, the least below and the largest above.
        for c in range(16):
            buffer[half + c] = max(buffer[c], buffer[c + 16])
            buffer[c] = min(buffer[c], buffer[c + 16])
        for c in range(8):
            buffer[half + c] = max(buffer[half + c], buffer[half + 8 + c])
            buffer[c] = min(buffer[c], buffer[c + 8])
        low, high = buffer[0], buffer[half]
        for c in range(1, 8):
            low, high = min(low, buffer[c]), max(high, buffer[half + c])
    else:
        low, high = numbers[0], numbers[0]
        for c in range(1, n):
            low, high = min(low, numbers[c]), max(high, numbers[c])
    for _ in range(_HALVINGS):
        middle = numbers.dtype.type((low + high) / 2)
        count = _count(numbers, middle)
        if count >= k:
            low = middle
            if count <= k + 1:
                break
        else:
            high = middle
    return low


@jit_inner()
def _add(line: Any, numbers: Any) -> None:
    for c in range(line.shape[0]):
        line[c] += numbers[c]


@jit_inner()
def _to_distances(line: Any, half: Any, square: Any) -> None:
    two, zero = line.dtype.type(2), line.dtype.type(0)
    for c in range(line.shape[0]):
        distance = square - two * (line[c] - half[c])
        line[c] = -np.sqrt(distance if distance > zero else zero)
