"""Scores of rows against classes, and the best classes of each row, block by block.

`class_scores` and `top_k` embed and score one block of rows at a time, so that memory-mapped arrays
are read as needed. Results have the namespace and device of the rows.

The squared Euclidean distance is ‖x − p‖² = ‖x‖² − 2 (xp − ½‖p‖²). The nearest class therefore has
the largest xp − ½‖p‖², called the raw score below. Square roots are only taken of the selected
scores. Different raw scores may round to the same final score.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import array_api_compat as compat
import numpy as np
from sklearn.utils import gen_batches

from zslearn._utils._array import (
    Array,
    IdentityCache,
    block_budget,
    floating,
    is_symbolic,
    move_like,
    moves_kept,
    on_device,
    row_blocks,
    to_numpy,
    unit_rows,
)
from zslearn._utils._jit import jit
from zslearn._utils._processes import blas_threads, in_threads

#: Precision of scores on a GPU: plain float32, or its tensor cores.
Precision = Literal["full", "tf32", "bf16"]

_precision: ContextVar[Precision] = ContextVar("zslearn_precision", default="full")
# torch has one TF32 switch per process.
_tf32_lock = threading.RLock()


@contextmanager
def score_precision(precision: Precision) -> Iterator[None]:
    """Reduce the precision of scores on a GPU within a `with` block, for speed.

    It applies to products of class parameters and float32 torch tensors on a CUDA device. Sums are
    accumulated in float32.

    Parameters
    ----------
    precision : {"full", "tf32", "bf16"}
        Rounding of both factors: none, to 11 bits, or to 8 bits.

    Yields
    ------
    None
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is not one of {get_args(Precision)}.")
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def product(rows: Array, parameters: Array) -> Array:
    """Inner products of rows and vectors in the requested precision."""
    precision = _precision.get()
    if precision != "full" and compat.is_torch_array(rows) and on_device(rows):
        import torch

        if rows.dtype == torch.float32:
            if precision == "bf16":
                rows, parameters = rows.bfloat16().float(), parameters.bfloat16().float()
            # TF32 represents bfloat16 numbers exactly and accumulates products in float32.
            with _tf32():
                return rows @ parameters.T
    xp = compat.array_namespace(rows)
    return rows @ xp.matrix_transpose(parameters)


@contextmanager
def _tf32() -> Iterator[None]:
    """Let torch use TF32 tensor cores for float32 products."""
    import torch

    with _tf32_lock:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


# Squared distances below this multiple of eps · ‖x‖² are rounding errors.
_ROUNDING = 4
ScoreFunction = Literal["dot", "euclidean", "cosine", "max_dot"]


class PreparedClasses:
    """Class parameters and bias in the library, dtype and device of the embedded rows."""

    def __init__(self, parameters: Any, score: ScoreFunction, bias: Any, like: Array) -> None:
        axes, width = 3 if score == "max_dot" else 2, parameters.shape[-1]
        # The width is unknown during ONNX export.
        if len(parameters.shape) != axes or like.shape[1] not in (None, width):
            raise ValueError(
                f"score={score!r} needs parameters with {axes} axes, the last of length "
                f"{like.shape[1]} like the embedded rows; got shape {tuple(parameters.shape)}."
            )
        self.score = score
        with np.errstate(over="ignore"):
            self.parameters = move_like(parameters, like)
        self.xp = xp = compat.array_namespace(like)
        # Squares of parameters, and products with rows of similar magnitude, must be finite.
        largest = max(float(xp.max(self.parameters)), -float(xp.min(self.parameters)))
        if not largest <= float(xp.finfo(self.parameters.dtype).max) ** 0.5:
            raise ValueError(
                f"The largest class parameter is {largest:.0e}, too large for {like.dtype}. "
                "Regularise more, or pass X in double precision."
            )
        self.half: Array = None
        if score == "cosine":
            self.parameters = unit_rows(self.parameters)
        elif score == "euclidean":
            # Centring preserves distances and reduces cancellation.
            self.center = xp.mean(self.parameters, axis=0, keepdims=True)
            self.parameters = self.parameters - self.center
            self.half = 0.5 * xp.sum(self.parameters * self.parameters, axis=1)
        self.n_classes: int = self.parameters.shape[0]
        self.bias: Array = None if bias is None else move_like(to_numpy(bias), like)
        if self.bias is not None and self.bias.shape != (self.n_classes,):
            raise ValueError(
                f"bias must have one number per class, {self.n_classes}; "
                f"got shape {tuple(self.bias.shape)}."
            )
        #: Whether `raw` returns raw scores, which `finish` converts to final scores.
        self.finished_later = score == "euclidean" and bias is None

    def rows(self, embedded: Array) -> Array:
        """Centre or normalise rows as the score function requires."""
        if self.score == "cosine":
            return unit_rows(embedded)
        return embedded - self.center if self.score == "euclidean" else embedded

    def squares(self, rows: Array) -> Array:
        """Squared norms of the rows as a column; None if the score does not use them."""
        if self.score != "euclidean":
            return None
        if isinstance(rows, np.ndarray):
            return np.einsum("nd,nd->n", rows, rows)[:, None]
        return self.xp.sum(rows * rows, axis=1)[:, None]

    def raw(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Raw scores, or final scores if there is a bias; both rank the classes of a row."""
        if self.score == "max_dot":
            out = product(rows, self.parameters[classes, 0, :])
            for i in range(1, self.parameters.shape[1]):
                out = self.xp.maximum(out, product(rows, self.parameters[classes, i, :]))
        else:
            out = product(rows, self.parameters[classes, :])
        if self.half is not None:
            out -= self.half[classes][None, :]
        if not self.finished_later:
            out = self.finish(out, squares)
            if self.bias is not None:
                out += self.bias[classes][None, :]
        return out

    def finish(self, raw: Array, squares: Array) -> Array:
        """Final scores without bias, −‖x − p‖ for the distance; overwrites `raw`."""
        if squares is None:
            return raw
        xp = self.xp
        raw *= -2
        raw += squares
        rounding = _ROUNDING * float(xp.finfo(raw.dtype).eps)
        raw = xp.sqrt(xp.where(raw > rounding * squares, raw, xp.zeros_like(raw)))
        raw *= -1
        return raw

    def scores(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Final scores of a block of rows against a block of classes."""
        out = self.raw(rows, squares, classes)
        return self.finish(out, squares) if self.finished_later else out


_latest_classes = IdentityCache()
# Preparing the classes costs more than scoring this many rows on the host.
_FEW_ROWS = 64


def prepared_classes(
    parameters: Any, score: ScoreFunction, bias: Any, like: Array
) -> PreparedClasses:
    """Prepare classes; those of the last call are reused on a device, or for few rows."""
    reusable = isinstance(parameters, np.ndarray) and not is_symbolic(like)
    if not reusable or not (on_device(like) or like.shape[0] <= _FEW_ROWS):
        return PreparedClasses(parameters, score, bias, like)
    biases = None if bias is None else np.asarray(bias).tobytes()
    key = score, biases, str(like.dtype), str(compat.device(like)), like.shape[1]
    prepared: PreparedClasses = _latest_classes.get(
        parameters, key, lambda: PreparedClasses(parameters, score, bias, like)
    )
    return prepared


# Columns and values of the best classes of each row.
Best = tuple[Array, Array]
_NAN_SCORES = "Scores are NaN: check the embedded rows and the class parameters for NaN."

# Number of classes scored at a time on the host.
_CLASS_BLOCK = 4096
# A device scores all classes at once if at least this many rows fit into the budget.
_MIN_DEVICE_ROWS = 1024
# Number of scores from which compiled selection is worth its loading time.
MIN_COMPILED_SCORES = 1 << 22


def class_scores(X: Any, parameters: Any, **options: Any) -> Array:
    """Score every row against every class; `options` are those of :class:`_Plan`."""
    plan = _Plan(X, parameters, **options)
    if is_symbolic(X):
        embedded = plan.embed(X)
        prepared = prepared_classes(parameters, plan.score, plan.bias, like=embedded)
        vectors = prepared.rows(embedded)
        return prepared.scores(vectors, prepared.squares(vectors), slice(0, prepared.n_classes))
    out = None
    with moves_kept():
        for rows, embedded, prepared in plan.blocks():
            vectors = prepared.rows(embedded)
            squares = prepared.squares(vectors)
            for classes in gen_batches(prepared.n_classes, plan.class_block):
                block = prepared.scores(vectors, squares, classes)
                if out is None:
                    xp = compat.array_namespace(block)
                    shape = (X.shape[0], prepared.n_classes)
                    out = xp.empty(shape, dtype=block.dtype, device=compat.device(block))
                out[rows, classes] = block
    return out


def top_k(X: Any, parameters: Any, k: int, **options: Any) -> Best:
    """Find the `k` best classes of each row, best first, without the full score matrix.

    The first of several classes with equal scores wins, whatever the block size. `options` are
    those of :class:`_Plan`.
    """
    n_classes = parameters.shape[0]
    check_k(k, n_classes)
    plan = _Plan(X, parameters, **options)
    with moves_kept():
        if compat.is_torch_array(X):
            return _torch_top_k(plan, k)
        if compat.is_numpy_array(X) and X.shape[0] * n_classes >= MIN_COMPILED_SCORES:
            return _compiled_top_k(plan, k)
        return _compared_top_k(plan, k)


def check_k(k: int, n_classes: int) -> None:
    """Raise an error unless `k` is between 1 and the number of classes."""
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be between 1 and the number of classes, {n_classes}; got {k}.")


@dataclass
class _Plan:
    """Rows, classes and score function, in blocks that fit into a memory budget."""

    X: Any
    parameters: Any
    score: ScoreFunction = "dot"
    bias: Any = None
    embed: Callable[[Array], Array] = floating

    def __post_init__(self) -> None:
        if self.score not in get_args(ScoreFunction):
            raise ValueError(f"score={self.score!r} is not one of {get_args(ScoreFunction)}.")
        if self.X.shape[0] == 0:
            raise ValueError("X has no rows to score.")
        if is_symbolic(self.X):
            return  # the shape may be unknown
        self.budget = block_budget(self.X)
        (n_classes, *_, width), n_features = self.parameters.shape, self.X.shape[1]
        # Per row: the features, prepared and embedded, and three arrays of scores.
        if on_device(self.X):
            affordable = self.budget // (_MIN_DEVICE_ROWS * 4 * 8)
            self.class_block = min(n_classes, max(_CLASS_BLOCK, affordable))
            self.row_bytes = 4 * (4 * n_features + 3 * width + 3 * self.class_block)
        else:
            self.class_block = min(n_classes, _CLASS_BLOCK)
            self.row_bytes = 8 * (n_features + width + 3 * self.class_block)

    def blocks(self) -> Iterator[tuple[slice, Array, PreparedClasses]]:
        """Yield blocks of embedded rows, with the prepared classes."""
        prepared: PreparedClasses | None = None
        for rows in row_blocks(self.X.shape[0], self.row_bytes, self.budget):
            embedded = self.embed(self.X[rows, :])
            if prepared is None:
                prepared = prepared_classes(self.parameters, self.score, self.bias, like=embedded)
            yield rows, embedded, prepared


def _compared_top_k(plan: _Plan, k: int) -> Best:
    """Select by comparing final scores, with functions of the array API."""
    blocks: list[Best] = []
    for _, embedded, prepared in plan.blocks():
        vectors, best = prepared.rows(embedded), None
        squares = prepared.squares(vectors)
        for classes in gen_batches(prepared.n_classes, plan.class_block):
            block = prepared.scores(vectors, squares, classes)
            indices, values = _largest(block, min(k, block.shape[1]))
            part = indices + classes.start, values
            best = part if best is None else _merged(best, part, k)
        assert best is not None
        blocks.append(best)
    xp = compat.array_namespace(blocks[0][1])
    indices, values = (xp.concat(parts, axis=0) for parts in zip(*blocks, strict=True))
    return indices, values


def _largest(block: Array, k: int) -> Best:
    """The `k` largest values of each row, descending; equal values in the order of columns."""
    xp = compat.array_namespace(block)
    if bool(xp.any(xp.isnan(block))):
        raise ValueError(_NAN_SCORES)
    if k == 1:
        return xp.argmax(block, axis=1, keepdims=True), xp.max(block, axis=1, keepdims=True)
    n_rows = block.shape[0]
    threshold = _kth_largest(block, k)
    columns = xp.nonzero(block >= threshold)[1]
    if columns.shape[0] > n_rows * k:
        # If several classes have the k-th largest score, keep the first of them.
        above, equal = block > threshold, block == threshold
        missing = k - xp.sum(xp.astype(above, xp.int64), axis=1, keepdims=True)
        first = xp.cumulative_sum(xp.astype(equal, xp.int64), axis=1) <= missing
        columns = xp.nonzero(above | (equal & first))[1]
    indices = xp.reshape(columns, (n_rows, k))
    return _sorted(indices, xp.take_along_axis(block, indices, axis=1))


def _kth_largest(block: Array, k: int) -> Array:
    """The `k`-th largest value of each row, as a column."""
    if compat.is_numpy_array(block):
        at = block.shape[1] - k
        return np.partition(block, at, axis=1)[:, at : at + 1]
    if compat.is_torch_array(block):
        return block.topk(k, dim=1).values[:, -1:]
    return compat.array_namespace(block).sort(block, axis=1)[:, -k][:, None]


def _merged(first: Best, second: Best, k: int) -> Best:
    """The best `k` of two lists, of which the first contains the earlier classes."""
    xp = compat.array_namespace(first[1])
    indices, values = (xp.concat(parts, axis=1) for parts in zip(first, second, strict=True))
    indices, values = _sorted(indices, values)
    k = min(k, values.shape[1])
    return indices[:, :k], values[:, :k]


def _sorted(indices: Array, values: Array) -> Best:
    """Lists in descending order of the values; the sort is stable."""
    xp = compat.array_namespace(values)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)


# Compiled selection: tiles of scores are scanned while they are in the cache.

_TILE_ROWS = 1024
_TILE_CLASSES = 1024


def _compiled_top_k(plan: _Plan, k: int) -> Best:
    """Select from NumPy scores with compiled code, in as many threads as BLAS may use."""
    n_rows = plan.X.shape[0]
    plan.row_bytes = 8 * (plan.X.shape[1] + plan.parameters.shape[-1])
    indices = np.full((n_rows, k), -1, dtype=np.int64)
    values: Any = None
    for rows, embedded, prepared in plan.blocks():
        if values is None:
            values = np.full((n_rows, k), -np.inf, dtype=embedded.dtype)
        best, places = values[rows], indices[rows]

        def fill(
            part: slice,
            embedded: Any = embedded,
            prepared: PreparedClasses = prepared,
            best: Any = best,
            places: Any = places,
        ) -> None:
            for start in range(part.start, part.stop, _TILE_ROWS):
                tile = slice(start, min(start + _TILE_ROWS, part.stop))
                vectors = prepared.rows(embedded[tile])
                squares = prepared.squares(vectors)
                unfinished = squares[:, 0] if prepared.finished_later else best[:0, 0]
                for classes in gen_batches(prepared.n_classes, _TILE_CLASSES):
                    # Without a name for the block, its memory is freed before the next one.
                    insert_best(
                        prepared.raw(vectors, squares, classes),
                        unfinished,
                        classes.start,
                        places[tile],
                        best[tile],
                    )

        threads = max(1, min(blas_threads(), 8 * len(embedded) // _TILE_ROWS))
        bounds = np.linspace(0, len(embedded), threads + 1).astype(int).tolist()
        in_threads(fill, [slice(a, b) for a, b in pairwise(bounds)])
    if (indices[:, -1] < 0).any():  # NaN or −∞
        return _compared_top_k(replace(plan), k)
    return indices, values


@jit("the selection of the best classes")
def insert_best(block: Any, squares: Any, first: int, indices: Any, values: Any) -> None:
    """Insert a block of scores into sorted lists; equal scores keep the order of the classes.

    If `squares`, the squared norms of the rows, are given, raw scores are converted to distances.
    """
    k = indices.shape[1]
    # Constants of another dtype would promote float32 scores to float64.
    zero, two = block.dtype.type(0), block.dtype.type(2)
    rounding = block.dtype.type(_ROUNDING * np.finfo(block.dtype).eps)
    for i in range(block.shape[0]):
        line, best, places = block[i], values[i], indices[i]
        if squares.shape[0]:
            square = squares[i]
            least = rounding * square
            for c in range(block.shape[1]):
                distance = square - two * line[c]
                line[c] = -np.sqrt(distance if distance > least else zero)
        for c in range(block.shape[1]):
            score = line[c]
            if score > best[k - 1]:
                at = k - 1
                while at > 0 and best[at - 1] < score:
                    best[at], places[at] = best[at - 1], places[at - 1]
                    at -= 1
                best[at], places[at] = score, first + c


# torch: work is queued on the device, and the host waits for results only once, at the end. As
# torch.topk does not order equal values, one more value than requested is selected, rows with equal
# values are marked, and the marked rows are sorted at the end.

_TIED, _OPEN, _NAN = 1, 2, 4
# From this number of classes per selected class, selection in two steps is faster.
_MIN_GROUPED = 16


def _torch_top_k(plan: _Plan, k: int) -> Best:
    """Select from tensors without synchronising in any block."""
    import torch

    n_selected = min(k + 1, plan.parameters.shape[0])
    out: Any = None
    for rows, embedded, prepared in plan.blocks():
        vectors = prepared.rows(embedded)
        squares = prepared.squares(vectors)
        best: Best | None = None
        for classes in gen_batches(prepared.n_classes, plan.class_block):
            block = prepared.raw(vectors, squares, classes)
            indices, values = _torch_largest(block, min(n_selected, block.shape[1]))
            del block
            indices = indices + classes.start
            if best is not None:
                indices = torch.cat([best[0], indices], dim=1)
                values = torch.cat([best[1], values], dim=1)
                values, order = values.topk(min(n_selected, values.shape[1]), dim=1)
                indices = indices.gather(1, order)
            best = indices, values
        assert best is not None
        indices, values = best
        if prepared.finished_later:
            values = prepared.finish(values, squares)
        if out is None:
            n_rows, options = plan.X.shape[0], {"device": values.device}
            out = (
                torch.empty((n_rows, k), dtype=torch.int64, **options),
                torch.empty((n_rows, k), dtype=values.dtype, **options),
                torch.empty(n_rows, dtype=torch.uint8, **options),
            )
        equal = values[:, 1:] == values[:, :-1]
        marks = _TIED * equal.any(dim=1) + _NAN * values.isnan().any(dim=1)
        if n_selected > k:
            marks = marks + _OPEN * equal[:, -1]
        out[0][rows], out[1][rows], out[2][rows] = indices[:, :k], values[:, :k], marks.byte()
    indices, values, marks = out
    marked = marks.nonzero()[:, 0]
    if marked.shape[0]:
        kinds = marks[marked]
        if bool((kinds >= _NAN).any()):
            raise ValueError(_NAN_SCORES)
        # Ties within the list only need sorting; a tie at its end may involve other classes.
        inside, beyond = marked[(kinds & _OPEN) == 0], marked[(kinds & _OPEN) > 0]
        by_class = indices[inside].argsort(dim=1)
        ordered = _sorted(indices[inside].gather(1, by_class), values[inside].gather(1, by_class))
        indices[inside], values[inside] = ordered
        if beyond.shape[0]:
            indices[beyond], values[beyond] = _compared_top_k(replace(plan, X=plan.X[beyond, :]), k)
    return indices, values


def _torch_largest(block: Any, k: int) -> Best:
    """The `k` largest values of each row, descending; equal values in any order.

    With many classes, columns are grouped. The `k` largest values, or values equal to them, lie in
    the `k` groups with the largest maxima, so that only these groups are searched.
    """
    import torch

    n_rows, n_columns = block.shape
    if n_columns < _MIN_GROUPED * k:
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
        ungrouped = torch.arange(whole, n_columns, device=block.device)
        columns = torch.cat([columns, ungrouped.expand(n_rows, -1)], dim=1)
    values, order = block.gather(1, columns).topk(k, dim=1)
    return columns.gather(1, order), values
