"""Scores of rows against classes, and the best classes of each row, block by block.

`class_scores` and `top_k` embed and score one block of rows at a time, so that memory-mapped arrays
are read as needed. Results have the namespace and device of the rows.

The squared Euclidean distance is ‖x − p‖² = ‖x‖² − 2 (xp − ½‖p‖²). The nearest class therefore has
the largest xp − ½‖p‖², called the raw score below. Square roots are only taken of the selected
scores. Different raw scores may round to the same final score.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, get_args

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from zslearn._utils._array import (
    Array,
    Floats,
    IdentityCache,
    RepeatedRows,
    RowChunks,
    block_budget,
    evenly_spaced,
    floating,
    is_symbolic,
    move_like,
    moves_kept,
    on_device,
    row_blocks,
    take_rows,
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


def product(rows: Array, parameters: Array, half: Array = None) -> Array:
    """Inner products of rows and vectors in the requested precision, less `half` per vector."""
    precision = _precision.get()
    if compat.is_torch_array(rows) and on_device(rows):
        import torch

        is_reduced = precision != "full" and rows.dtype == torch.float32
        if is_reduced and precision == "bf16":
            rows, parameters = rows.bfloat16().float(), parameters.bfloat16().float()
        # TF32 represents bfloat16 numbers exactly and accumulates products in float32.
        with _tf32() if is_reduced else nullcontext():
            # The sum is part of the product, which saves a pass over the scores.
            return rows @ parameters.T if half is None else torch.addmm(-half, rows, parameters.T)
    out = rows @ compat.array_namespace(rows).matrix_transpose(parameters)
    if half is not None:
        out -= half[None, :]
    return out


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
# Parameters are centred if their mean has more than this share of their mean squared length.
_MAX_OFFSET = 0.9


class PreparedClasses:
    """Class parameters and bias in the library, dtype and device of the embedded rows."""

    bias: Array = None

    def __init__(
        self, parameters: Any, score: ScoreFunction, like: Array, center: Array = None
    ) -> None:
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
        is_centred = False
        if score == "cosine":
            self.parameters = unit_rows(self.parameters)
        elif score == "euclidean":
            # Centring preserves distances and reduces cancellation.
            if center is None:
                center = xp.mean(self.parameters, axis=0, keepdims=True)
                if isinstance(center, np.ndarray) and not self._has_offset(center):
                    center = np.zeros_like(center)
            self.center = center
            is_centred = not isinstance(center, np.ndarray) or bool(center.any())
            if is_centred:
                self.parameters = self.parameters - center
            self.half = 0.5 * self.squares(self.parameters)[:, 0]
        self.n_classes: int = self.parameters.shape[0]
        # Computed at the first use, and shared with copies that have a bias.
        self._bounds: list[ScoreBounds | None] = []
        # Arrays on the host are shared if neither values nor dtype change.
        is_changed = score == "cosine" or is_centred or on_device(like)
        dtype = str(self.parameters.dtype).rpartition(".")[2]
        self.shares_memory = not is_changed and dtype == str(parameters.dtype)

    def _has_offset(self, center: Any) -> bool:
        """Whether the parameters are so far from the origin that centring pays for a copy."""
        total = float(np.mean(self.squares(self.parameters)))
        return float((center**2).sum()) > _MAX_OFFSET * total

    def detached(self) -> PreparedClasses:
        """The same without shared parameters, which a cache would otherwise keep alive."""
        return self.attached(None, None) if self.shares_memory else self

    def attached(self, parameters: Any, like: Array) -> PreparedClasses:
        """The same with shared parameters."""
        other = copy.copy(self)
        other.parameters = None if parameters is None else move_like(parameters, like)
        return other

    def with_bias(self, bias: Any) -> PreparedClasses:
        """The same classes with a number added to the scores of each."""
        if bias is None:
            return self
        biased = copy.copy(self)
        biased.bias = move_like(to_numpy(bias), self.parameters)
        return biased

    @property
    def finished_later(self) -> bool:
        """Whether `raw` returns raw scores, which `finish` converts to final scores."""
        return self.score == "euclidean" and self.bias is None

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

    def exact(self, rows: Any, row: Any, classes: Any) -> Any:
        """Final scores of pairs of rows and classes of NumPy, rounded from double precision."""
        out = np.empty(len(row), dtype=rows.dtype)
        _score_pairs(rows, np.asarray(self.parameters), row, classes, self.half is not None, out)
        return out if self.bias is None else out + self.bias[classes]

    def bounds(self) -> ScoreBounds | None:
        """Upper bounds of raw scores, if they are worth computing first."""
        if self.score == "max_dot" or not isinstance(self.parameters, np.ndarray):
            return None
        if self.parameters.size < _MIN_BOUNDED or self.parameters.dtype != np.float32:
            return None
        if not self._bounds:
            self._bounds.append(ScoreBounds.of(self.parameters, self.half))
        return self._bounds[0]

    def raw(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Raw scores, or final scores if there is a bias; both rank the classes of a row."""
        if self.score == "max_dot":
            out = product(rows, self.parameters[classes, 0, :])
            for i in range(1, self.parameters.shape[1]):
                out = self.xp.maximum(out, product(rows, self.parameters[classes, i, :]))
        else:
            half = None if self.half is None else self.half[classes]
            out = product(rows, self.parameters[classes, :], half)
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
        raw = xp.sqrt(xp.where(raw < rounding * squares, xp.zeros_like(raw), raw))
        raw *= -1
        return raw

    def scores(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Final scores of a block of rows against a block of classes."""
        out = self.raw(rows, squares, classes)
        return self.finish(out, squares) if self.finished_later else out


@dataclass(frozen=True, eq=False)
class ScoreBounds:
    r"""Upper bounds of the raw scores of all classes from their first principal coordinates.

    With z and c the coordinates of a row x and of a class p in r orthonormal directions,

    .. math:: x^\top p \le z^\top c + \sqrt{\lVert x \rVert^2 - \lVert z \rVert^2}
              \sqrt{\lVert p \rVert^2 - \lVert c \rVert^2}

    by the Cauchy–Schwarz inequality. The roots, and −½‖p‖² for distances, are two further
    coordinates, so that all bounds are one product. Classes that pass are bounded again with more
    directions. Coordinates are computed in double precision and rounded to single; `slack` covers
    this and the rounding of the product.
    """

    axes: Floats  # (width, r), more than r columns if there is a second bound
    coordinates: NDArray[np.float32]  # (n_classes, r + 2)
    more: NDArray[np.float32]  # (n_classes, number of further directions + 1), or no columns
    largest: float  # norm of a class
    has_half: bool  # whether the last coordinates are −½‖p‖²

    @classmethod
    def of(cls, parameters: Any, half: Any) -> ScoreBounds | None:
        """Bounds for some classes; None if the first directions do not tell them apart."""
        n_classes, width = parameters.shape
        some = parameters[evenly_spaced(n_classes, _MAX_PRINCIPAL)].astype(np.float64)
        values, vectors = np.linalg.eigh(some.T @ some)
        rest = 1 - np.cumsum(values[::-1]) / max(values.sum(), np.finfo(np.float64).tiny)
        n_axes = int(np.argmax(rest < _NO_REST)) + 1
        if n_axes > width // 2:
            n_axes = width // 4
            if n_axes < 1 or rest[n_axes - 1] > _MAX_REST:
                return None
        # A second bound does not pay for a few directions.
        n_first = min(int(np.argmax(rest < _FIRST_REST)) + 1, n_axes)
        n_first = n_first if n_axes - n_first >= _MIN_MORE else n_axes
        axes = np.ascontiguousarray(vectors[:, ::-1][:, :n_axes])
        n_more = n_axes - n_first + 1 if n_first < n_axes else 0
        out = np.empty((n_classes, n_first + 2), dtype=np.float32)
        bounds = cls(
            axes, out, np.empty((n_classes, n_more), dtype=np.float32), 0.0, half is not None
        )
        largest = 0.0
        for part in row_blocks(n_classes, 8 * (width + n_axes)):
            out[part, :-1], bounds.more[part], squares = bounds._coordinates(parameters[part])
            out[part, -1] = 0 if half is None else -squares / 2
            largest = max(largest, float(squares.max()) ** 0.5)
        return replace(bounds, largest=largest)

    def _coordinates(self, rows: Any) -> tuple[Floats, Floats, Floats]:
        """First and further coordinates of rows, each with the norm of the rest, and squares."""
        rows = rows.astype(np.float64)
        every, n_first = rows @ self.axes, self.coordinates.shape[1] - 2
        squares = np.einsum("nd,nd->n", rows, rows)

        def with_rest(start: int, stop: int) -> Floats:
            # Rounding errors of the difference are relative to the square.
            found = np.einsum("nd,nd->n", every[:, :stop], every[:, :stop])
            rest = np.sqrt(np.maximum(squares * (1 + _ROUNDING_BOUND) - found, 0))
            return np.column_stack([every[:, start:stop], rest])

        more = with_rest(n_first, every.shape[1])[:, : self.more.shape[1]]
        return with_rest(0, n_first), more, squares

    def rows(self, rows: Any, bias: Any) -> tuple[Any, Any, Any, Any]:
        """Factors of rows in both bounds, their squared norms, and the slack of the bounds."""
        coordinates, more, squares = self._coordinates(rows)
        factors = np.column_stack([coordinates, np.ones(len(rows))]).astype(np.float32)
        unit = np.finfo(np.float32).eps * (self.axes.shape[1] + 18)
        # Products, or distances and their squares, are at most this large.
        norms = np.sqrt(squares)
        size = (norms + self.largest) ** 2 if self.has_half else norms * self.largest
        slack = unit * (size + (0 if bias is None else np.abs(bias).max()))
        return factors, more.astype(np.float32), squares, slack

    def above(self, factors: Any, classes: slice) -> Any:
        """Bounds for factors of rows and some classes."""
        return factors @ self.coordinates[classes].T


# On a device and for arrays from this size on the host, only the latest parameters are prepared; on
# the host they may be stored in chunks.
_LARGE_BYTES = 1 << 28
_small, _large, _on_device = IdentityCache(64), IdentityCache(4), IdentityCache(1)


def prepared_classes(
    parameters: Any, score: ScoreFunction, like: Array, center: Array = None
) -> PreparedClasses:
    """Prepare classes, or reuse them while the array of parameters exists."""
    if not isinstance(parameters, np.ndarray) or is_symbolic(like):
        return PreparedClasses(parameters, score, like, center)
    at = None if center is None else to_numpy(center).tobytes()
    key = score, str(like.dtype), str(compat.device(like)), like.shape[1], at
    on_host = _large if parameters.nbytes >= _LARGE_BYTES else _small
    prepared: PreparedClasses = (_on_device if on_device(like) else on_host).get(
        parameters, key, lambda: PreparedClasses(parameters, score, like, center).detached()
    )
    return prepared if prepared.parameters is not None else prepared.attached(parameters, like)


# Bounds are computed for at least this many parameters, from directions of at most this many
# classes. The part of the squared norms that is orthogonal to half of all directions is so small
# that it does not count, or that to a quarter of them is at most `_MAX_REST`.
_MIN_BOUNDED, _MAX_PRINCIPAL = 1 << 22, 1 << 13
_NO_REST, _MAX_REST = 1e-6, 0.1
# The first bound uses directions that leave this part of the squared norms, if the second then has
# this many more directions. The first may let more classes pass by this factor.
_FIRST_REST, _MIN_MORE, _MAX_PASSED_FIRST = 0.12, 16, 4
_ROUNDING_BOUND = 1e-12
# Bounds are of no use if more than this part of the classes passes, plus that part in all rows. In
# the first of many batches, whose k-th best scores are low, up to `_PATIENCE` times more may pass.
_MAX_PASSED, _MAX_PASSED_ONCE, _PATIENCE, _MANY_BATCHES = 0.05, 0.1, 8, 64
# Columns and values of the best classes of each row.
Best = tuple[Array, Array]
_NAN_SCORES = "Scores are NaN: check the embedded rows and the class parameters for NaN."

#: Number of parameters, 128 MiB in double precision, from which classes are stored in single
#: precision, and scored in it on the host. Scoring then depends on memory traffic, and an error of
#: 6e-8 of the length of a vector is far below what features can resolve. Smaller problems keep all
#: digits of double precision.
MAX_DOUBLES = 1 << 24
# Number of classes scored at a time on the host.
_CLASS_BLOCK = 4096
# A device scores all classes at once if at least this many rows fit into the budget.
_MIN_DEVICE_ROWS = 1024


def class_scores(
    X: Any,
    parameters: Any,
    *,
    score: ScoreFunction = "dot",
    bias: Any = None,
    embed: Callable[[Array], Array] = floating,
    positions: NDArray[np.intp] | None = None,
) -> Array:
    """Score every row against every class.

    `bias` is added to the scores of each class, `embed` maps rows to the space of the parameters,
    and `positions` are those of the candidates, by default all classes; columns follow them.
    """
    plan = _Plan(X, parameters, score, bias, embed, positions)
    if is_symbolic(X):
        embedded = embed(X)
        prepared = plan.prepared(embedded)[0]
        vectors = prepared.rows(embedded)
        return prepared.scores(vectors, prepared.squares(vectors), slice(0, prepared.n_classes))
    out = None
    with moves_kept():
        for rows, embedded, parts in plan.blocks():
            vectors = parts[0].rows(embedded)
            squares = parts[0].squares(vectors)
            for prepared, classes, first in plan.batches(parts, plan.class_block):
                block = prepared.scores(vectors, squares, classes)
                if out is None:
                    xp = compat.array_namespace(block)
                    shape = (X.shape[0], plan.n_classes)
                    out = xp.empty(shape, dtype=block.dtype, device=compat.device(block))
                if plan.rank is None:
                    out[rows, first : first + block.shape[1]] = block
                else:
                    columns = plan.rank[first : first + block.shape[1]]
                    chosen = columns >= 0
                    out[rows, columns[chosen]] = block[:, chosen]
    return out


def top_k(
    X: Any,
    parameters: Any,
    k: int,
    *,
    score: ScoreFunction = "dot",
    bias: Any = None,
    embed: Callable[[Array], Array] = floating,
    positions: NDArray[np.intp] | None = None,
) -> Best:
    """Find the `k` best classes of each row, best first, without the full score matrix.

    The first of several classes with equal scores wins, whatever the block size. The options are
    those of :func:`class_scores`; columns are numbered in the order of `positions`.
    """
    plan = _Plan(X, parameters, score, bias, embed, positions)
    check_k(k, plan.n_classes)
    with moves_kept():
        if compat.is_torch_array(X):
            return _torch_top_k(plan, k)
        if compat.is_numpy_array(X):
            return _scanned_top_k(plan, k)
        return _compared_top_k(plan, k)


def check_k(k: int, n_classes: int) -> None:
    """Raise an error unless `k` is between 1 and the number of classes."""
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be between 1 and the number of classes, {n_classes}; got {k}.")


@dataclass
class _Plan:
    """Rows, candidates and score function, in blocks that fit into a memory budget."""

    X: Any
    parameters: Any
    score: ScoreFunction
    bias: Any
    embed: Callable[[Array], Array]
    positions: NDArray[np.intp] | None
    #: The column of each stored class, −1 if it is not a candidate; None if they are in order.
    rank: NDArray[np.intp] | None = field(default=None, init=False)
    #: The batch of classes from which upper bounds are used, later if they exclude too few.
    prune_from: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        if self.score not in get_args(ScoreFunction):
            raise ValueError(f"score={self.score!r} is not one of {get_args(ScoreFunction)}.")
        if self.X.shape[0] == 0:
            raise ValueError("X has no rows to score.")
        self._choose()
        if is_symbolic(self.X):
            return  # the shape may be unknown
        self.budget = block_budget(self.X)
        width, n_features = self.parameters.shape[-1], self.X.shape[1]
        # Per row: the features, prepared and embedded, and three arrays of scores.
        if on_device(self.X):
            affordable = self.budget // (_MIN_DEVICE_ROWS * 4 * 8)
            self.class_block = min(self.n_classes, max(_CLASS_BLOCK, affordable))
            self.row_bytes = 4 * (4 * n_features + 3 * width + 3 * self.class_block)
        else:
            self.class_block = min(self.n_classes, _CLASS_BLOCK)
            self.row_bytes = 8 * (n_features + width + 3 * self.class_block)

    def _choose(self) -> None:
        """Gather a few candidates, or rank all classes if they are many or stored in chunks."""
        parameters, positions, bias = self.parameters, self.positions, self.bias
        n_classes = parameters.shape[0]
        if bias is not None and (bias := np.asarray(to_numpy(bias))).shape != (n_classes,):
            raise ValueError(
                f"bias must have one number per class, {n_classes}; got shape {bias.shape}."
            )
        self.n_classes = n_classes if positions is None else len(positions)
        if isinstance(parameters, RepeatedRows):
            parameters, positions, bias = self._distinct(parameters, positions, bias)
            n_classes = len(parameters)
        is_host = isinstance(self.X, np.ndarray)
        n_numbers = math.prod(parameters.shape)
        self.is_single = is_host and parameters.dtype == np.float32 and n_numbers > MAX_DOUBLES
        self.chunks: tuple[Any, ...] = (parameters,)
        stored = positions
        if isinstance(parameters, RowChunks):
            self.chunks, order = parameters.distinct
            stored = order if positions is None else order[positions]
            if not is_host and positions is None:
                self.chunks, stored = (parameters.whole,), None
        sizes = [chunk.shape[0] for chunk in self.chunks]
        # Classes that are stored once have different biases if they are scored apart.
        is_repeated = stored is not None and np.bincount(stored).max() > 1
        if is_repeated and positions is None:
            positions = np.arange(n_classes)
        is_few = is_repeated or 2 * self.n_classes <= sum(sizes)
        if positions is not None and (is_few or not is_host):
            self.chunks, stored = (_gathered(parameters, positions, self.X),), None
            bias = None if bias is None else bias[positions]
            sizes = [self.n_classes]
        self.starts = np.cumsum([0, *sizes])
        if stored is not None:
            self.rank = np.full(sum(sizes), -1)
            self.rank[stored] = np.arange(self.n_classes)
            if bias is not None:
                own = bias if positions is None else bias[positions]
                bias = np.zeros(sum(sizes), dtype=own.dtype)
                bias[stored] = own
        self.stored_bias = bias

    @staticmethod
    def _distinct(
        parameters: RepeatedRows, positions: NDArray[np.intp] | None, bias: Any
    ) -> tuple[Array, NDArray[np.intp] | None, Any]:
        """Stored rows, candidates and bias, if no two candidates share a row."""
        every = np.arange(len(parameters)) if positions is None else positions
        stored, rows = parameters.stored, parameters.group[every]
        if np.bincount(rows).max() > 1:
            # Classes that are stored once have different biases.
            stored, rows = take_rows(stored, rows), np.arange(len(rows))
        if bias is not None:
            bias, own = np.zeros(len(stored), dtype=bias.dtype), bias[every]
            bias[rows] = own
        return stored, None if np.array_equal(rows, np.arange(len(stored))) else rows, bias

    def prepared(self, like: Array) -> list[PreparedClasses]:
        """The classes of each chunk, prepared for embedded rows."""
        parts: list[PreparedClasses] = []
        bias = self.stored_bias
        for chunk, (start, stop) in zip(self.chunks, pairwise(self.starts.tolist()), strict=True):
            center = getattr(parts[0], "center", None) if parts else None
            part = prepared_classes(chunk, self.score, like, center)
            parts.append(part.with_bias(None if bias is None else bias[start:stop]))
        return parts

    def blocks(self) -> Iterator[tuple[slice, Array, list[PreparedClasses]]]:
        """Yield blocks of embedded rows, with the prepared classes."""
        parts: list[PreparedClasses] = []
        for rows in row_blocks(self.X.shape[0], self.row_bytes, self.budget):
            embedded = self.embed(self.X[rows, :])
            if self.is_single:
                # The parameters are not copied to double precision.
                embedded = embedded.astype(np.float32, copy=False)
            parts = parts or self.prepared(embedded)
            yield rows, embedded, parts

    def batches(
        self, parts: list[PreparedClasses], length: int
    ) -> Iterator[tuple[PreparedClasses, slice, int]]:
        """Yield batches of classes of each chunk, and the number of the first among all classes."""
        for start, prepared in zip(self.starts.tolist(), parts, strict=False):
            for classes in gen_batches(prepared.n_classes, length):
                yield prepared, classes, start + classes.start


_latest_gathered = IdentityCache(1)


def _gathered(parameters: Any, positions: NDArray[np.intp], like: Any) -> Array:
    """Parameters of the candidates; a device reuses its copy of the latest ones."""
    if not (on_device(like) and isinstance(parameters, np.ndarray)):
        return take_rows(parameters, positions)
    return _latest_gathered.get(parameters, positions.tobytes(), lambda: parameters[positions])


def _compared_top_k(plan: _Plan, k: int) -> Best:
    """Select by comparing final scores, with functions of the array API."""
    blocks: list[Best] = []
    for _, embedded, (prepared,) in plan.blocks():
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


# NumPy: tiles of scores are compared with the k-th best score so far while they are in the cache.
# Few classes pass once some blocks of classes are known.

_TILE_ROWS = 1024
_TILE_CLASSES = 1024
# Lower bounds of the k-th best score come from the maxima of groups of classes.
_GROUPS_PER_CLASS, _MIN_GROUPS = 4, 64
# Classes with large upper bounds that are scored first for a tile of rows.
_MIN_SEEDS = 512
_LAST = np.iinfo(np.int64).max
# Rows, columns and final scores of classes that may be among the best.
_Found = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[Any]]


def _scanned_top_k(plan: _Plan, k: int) -> Best:
    """Select from NumPy scores, in as many threads as BLAS may use."""
    n_rows = plan.X.shape[0]
    plan.row_bytes = 8 * (plan.X.shape[1] + plan.parameters.shape[-1])
    indices = np.empty((n_rows, k), dtype=np.int64)
    values: Any = None
    for rows, embedded, parts in plan.blocks():
        if values is None:
            values = np.empty((n_rows, k), dtype=embedded.dtype)
            for prepared in parts:
                prepared.bounds()  # computed before threads need them

        def fill(
            part: slice,
            first: int = rows.start,
            embedded: Any = embedded,
            parts: list[PreparedClasses] = parts,
            values: Any = values,
        ) -> None:
            for start in range(part.start, part.stop, _TILE_ROWS):
                stop = min(start + _TILE_ROWS, part.stop)
                best = _best_of_tile(plan, parts, embedded[start:stop], k)
                tile = slice(first + start, first + stop)
                indices[tile], values[tile] = best

        threads = max(1, min(blas_threads(), 8 * len(embedded) // _TILE_ROWS))
        bounds = np.linspace(0, len(embedded), threads + 1).astype(int).tolist()
        in_threads(fill, [slice(a, b) for a, b in pairwise(bounds)], threads)
    return indices, values


def _best_of_tile(plan: _Plan, parts: list[PreparedClasses], embedded: Any, k: int) -> Best:
    """The best classes of a few rows."""
    vectors = parts[0].rows(embedded)
    squares = parts[0].squares(vectors)
    best = _Selection(len(embedded), k, vectors.dtype)
    length = max(_TILE_CLASSES, _TILE_ROWS * _TILE_CLASSES // len(embedded))
    for number, (prepared, classes, first) in enumerate(plan.batches(parts, length), 1):
        columns = np.arange(first, first + classes.stop - classes.start)
        if plan.rank is not None:
            columns = plan.rank[first : first + len(columns)]
        pairs = None
        if number >= plan.prune_from and (bounds := prepared.bounds()) is not None:
            # The k-th best score of few classes is low, so that many of them pass.
            is_patient = plan.n_classes >= _MANY_BATCHES * length
            limit = _MAX_PASSED * (max(1, _PATIENCE // number) if is_patient else 1)
            pairs = _bounded_pairs(bounds, prepared, vectors, classes, columns, best, limit)
            if pairs is None:
                plan.prune_from = 2 * number if is_patient else _LAST
        if pairs is None:
            pairs = _compared_pairs(prepared, vectors, squares, classes, columns, best)
        best.add(*pairs)
        # The bound is renewed when the number of classes, or of those that passed, has doubled.
        if number & (number - 1) == 0 or best.n_found > best.limit:
            best.renew()
    return best.finish()


def _compared_pairs(
    prepared: PreparedClasses, vectors: Any, squares: Any, classes: slice, columns: Any, best: Any
) -> _Found:
    """Rows, columns and final scores of classes that may be among the best, from all scores."""
    raw = prepared.raw(vectors, squares, classes)
    if columns.min() < 0:
        raw[:, columns < 0] = -np.inf
    least = best.least
    if prepared.finished_later:
        least = _raw_below((squares[:, 0] - least * least) / 2, squares)
    if best.is_new:
        least = _kth_of_groups(raw, best.k)
        least = _raw_below(least, squares) if prepared.finished_later else least
    row, at = np.divmod(np.flatnonzero(raw >= least[:, None]), raw.shape[1])
    final = raw[row, at]
    if prepared.finished_later:
        final = prepared.finish(final[:, None], squares[row])[:, 0]
    return row, columns[at], final


def _bounded_pairs(
    bounds: ScoreBounds,
    prepared: PreparedClasses,
    vectors: Any,
    classes: slice,
    columns: Any,
    best: Any,
    limit: float,
) -> _Found | None:
    """The same from upper bounds of the scores; None if too many classes pass."""
    n_rows, n_classes = len(vectors), len(columns)
    n_seeds = max(2 * best.k, _MIN_SEEDS // n_rows)
    n_groups = max(_MIN_GROUPS, 2 * n_seeds)
    if best.is_new and n_classes < 2 * n_groups:
        return None
    if bounds not in best.factors:
        best.factors[bounds] = bounds.rows(vectors, prepared.bias)
    factors, more, squares, slack = best.factors[bounds]
    above, unit = bounds.above(factors, classes), np.finfo(np.float32).eps
    is_biased_distance = prepared.half is not None and prepared.bias is not None
    if is_biased_distance:
        distances = np.maximum(squares[:, None] - 2 * (above + slack[:, None]), 0)
        above = -np.sqrt(distances).astype(np.float32)
    if prepared.bias is not None:
        above += prepared.bias[classes]
    if columns.min() < 0:
        above[:, columns < 0] = -np.inf
    if best.is_new:
        # A lower bound of the k-th best score: the scores of classes with large bounds.
        size = n_classes // n_groups
        grouped = above[:, : size * n_groups].reshape(n_rows, size, n_groups)
        largest = np.argpartition(grouped.max(axis=1), -n_seeds, axis=1)[:, -n_seeds:]
        row = np.repeat(np.arange(n_rows), n_seeds)
        at = grouped[row, :, largest.ravel()].argmax(axis=1) * n_groups + largest.ravel()
        some = prepared.exact(vectors, row, classes.start + at).reshape(n_rows, -1)
        least = np.partition(some, -best.k, axis=1)[:, -best.k].astype(np.float64)
        # They will be computed again, with other rounding errors.
        least -= 8 * unit * np.abs(least) + 1e-6 * slack
    else:
        least = best.least.astype(np.float64)
    if prepared.finished_later:
        least = (squares - least * least) / 2
    if is_biased_distance:
        slack = 8 * unit * (np.abs(least) + 2 * float(np.abs(prepared.bias).max()))
    least = np.nextafter((least - slack).astype(np.float32), np.float32(-np.inf))
    hits = np.flatnonzero(above >= least[:, None])
    limit = (limit + _MAX_PASSED_ONCE / n_rows) * above.size + 4 * n_rows * best.k
    has_more = more.shape[1] > 0 and not is_biased_distance
    if len(hits) > (_MAX_PASSED_FIRST if has_more else 1) * limit:
        return None
    row, at = np.divmod(hits, n_classes)
    if has_more:
        passed = np.empty(len(row), dtype=np.bool_)
        coordinates, others = bounds.coordinates[classes], bounds.more[classes]
        _bound_pairs(above, factors, coordinates, more, others, row, at, least, passed)
        row, at = row[passed], at[passed]
        if len(row) > limit:
            return None
    return row, columns[at], prepared.exact(vectors, row, classes.start + at)


@jit("the bounds of scores", fast={"reassoc", "contract"})
def _bound_pairs(
    above: Any,
    factors: Any,
    coordinates: Any,
    more: Any,
    class_more: Any,
    row: Any,
    at: Any,
    least: Any,
    passed: Any,
) -> None:
    """Whether the second bound of each pair of a row and a class reaches that of the row."""
    rest = factors.shape[1] - 2
    for i in range(len(row)):
        x, c = row[i], at[i]
        bound = above[x, c] - factors[x, rest] * coordinates[c, rest]
        for j in range(more.shape[1]):
            bound += more[x, j] * class_more[c, j]
        passed[i] = bound >= least[x]


@jit("the scores of pairs", fast={"reassoc", "contract"})
def _score_pairs(
    rows: Any, parameters: Any, row: Any, classes: Any, is_distance: bool, out: Any
) -> None:
    """Products, or negative distances, of pairs of a row and a class."""
    for i in range(len(row)):
        x, p, total = rows[row[i]], parameters[classes[i]], 0.0
        if is_distance:
            for j in range(len(x)):
                difference = float(x[j]) - float(p[j])
                total += difference * difference
            out[i] = -math.sqrt(total)
        else:
            for j in range(len(x)):
                total += float(x[j]) * float(p[j])
            out[i] = total


class _Selection:
    """The best classes of a few rows among those that were seen."""

    def __init__(self, n_rows: int, k: int, dtype: Any) -> None:
        self.n_rows, self.k = n_rows, k
        # The k-th best score of each row, and the column of the class that has it.
        self.least, self.last = np.full(n_rows, -np.inf, dtype=dtype), np.full(n_rows, _LAST)
        self.is_new = True
        self.n_found, self.limit = 0, 4 * n_rows * k + _TILE_ROWS * _TILE_CLASSES
        self.factors: dict[ScoreBounds, Any] = {}
        self._found: list[_Found] = []

    def add(self, row: Any, column: Any, final: Any) -> None:
        """Add pairs that are better; ties are won by the class in the earlier column."""
        better = (final > self.least[row]) | (
            (final == self.least[row]) & (column < self.last[row])
        )
        better &= column >= 0
        self._found.append((row[better], column[better], final[better]))
        self.n_found += len(self._found[-1][0])
        self.is_new = False

    def renew(self) -> None:
        """Keep the best of each row, which determine the bound."""
        row, column, final = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        order = np.lexsort((column, -final, row))
        row = row[order]
        place = np.arange(len(row)) - np.searchsorted(row, np.arange(self.n_rows))[row]
        kept, row = order[place < self.k], row[place < self.k]
        self._found, self.n_found = [(row, column[kept], final[kept])], 0
        is_full = np.bincount(row, minlength=self.n_rows) == self.k
        at = np.searchsorted(row, np.flatnonzero(is_full), side="right") - 1
        self.least[is_full], self.last[is_full] = final[kept][at], column[kept][at]

    def finish(self) -> Best:
        """Columns and scores of the best classes of each row."""
        self.renew()
        row, column, final = self._found[0]
        if len(row) < self.n_rows * self.k:
            raise ValueError(_NAN_SCORES)
        shape = self.n_rows, self.k
        return column.reshape(shape), final.reshape(shape)


def _kth_of_groups(scores: Any, k: int) -> Any:
    """A lower bound of the k-th largest score of each row, −∞ for fewer scores."""
    n_rows, n_classes = scores.shape
    n_groups = min(n_classes, max(_MIN_GROUPS, _GROUPS_PER_CLASS * k))
    if n_classes < k:
        return np.full(n_rows, -np.inf, dtype=scores.dtype)
    size = n_classes // n_groups
    maxima = scores[:, : size * n_groups].reshape(n_rows, size, n_groups).max(axis=1)
    return np.partition(maxima, n_groups - k, axis=1)[:, n_groups - k]


def _raw_below(raw: Any, squares: Any) -> Any:
    """A bound below all raw scores whose final scores are not smaller, in spite of rounding."""
    squares = squares[:, 0]
    with np.errstate(invalid="ignore"):
        slack = 2 * _ROUNDING * np.finfo(raw.dtype).eps * (squares + np.abs(raw))
        return np.where(raw > -np.inf, raw - slack, raw)


# torch: work is queued on the device, and the host waits for results only once, at the end. As
# torch.topk does not order equal values, one more value than requested is selected, rows with equal
# values are marked, and the marked rows are sorted at the end.

_TIED, _OPEN, _NAN = 1, 2, 4
# From this number of classes per selected class, selection in two steps is faster.
_MIN_GROUPED = 16


def _torch_top_k(plan: _Plan, k: int) -> Best:
    """Select from tensors without synchronising in any block."""
    import torch

    n_selected = min(k + 1, plan.n_classes)
    out: Any = None
    for rows, embedded, (prepared,) in plan.blocks():
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
            again = replace(plan, X=plan.X[beyond, :])
            indices[beyond], values[beyond] = _compared_top_k(again, k)
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
