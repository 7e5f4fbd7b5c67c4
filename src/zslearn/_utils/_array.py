"""Arrays of any library: where they lie, how they move, and blocks of their rows.

Feature arrays may be NumPy, torch, CuPy or any other array that follows the array API standard;
labels and signatures are always NumPy. Work on a GPU is queued, and the host waits only when it
reads a number, so blocks on a device are few and large, within its free memory.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

#: An array of any library that follows the array API standard.
Array = Any
#: A NumPy array in double precision.
Floats = NDArray[np.float64]


def is_foreign(x: object) -> bool:
    """Whether `x` is an array of the array API standard other than NumPy's."""
    return compat.is_array_api_obj(x) and not compat.is_numpy_array(x)


def is_symbolic(x: object) -> bool:
    """Whether an array is of ndonnx: a node of an ONNX graph, whose values are unknown."""
    return type(x).__module__.partition(".")[0] == "ndonnx"


def to_numpy(x: Any) -> NDArray[Any]:
    """Convert an array of any library to NumPy, without a copy if possible."""
    if compat.is_torch_array(x):
        x = x.detach().cpu()
        # NumPy has no bfloat16.
        return (x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x).numpy()
    if compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)


def plain_tensor(x: Array, name: str) -> Array:
    """A dense real array detached from autograd; sparse and complex arrays are refused."""
    if compat.is_torch_array(x):
        if str(x.layout) != "torch.strided":
            raise TypeError(
                f"Sparse data was passed for {name}, but dense data is required. "
                "Use '.to_dense()' to convert it."
            )
        x = x.detach()
    if compat.array_namespace(x).isdtype(x.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {name} must be real.")
    return x


def move_like(x: Array, like: Array, dtype: Any = None) -> Array:
    """`x` in the namespace and on the device of `like`, by default in its dtype."""
    xp, device = compat.array_namespace(like), compat.device(like)
    dtype = like.dtype if dtype is None else dtype
    if compat.is_array_api_obj(x) and compat.array_namespace(x) is not xp:
        x = to_numpy(x)
    moves = _moves.get()
    if moves is None or not isinstance(x, np.ndarray) or x.size < 2 or compat.is_numpy_array(like):
        return xp.asarray(x, dtype=dtype, device=device)
    memory = x.__array_interface__
    key = memory["data"][0], x.shape, x.strides, x.dtype, str(dtype), str(device)
    if key not in moves:
        # A reference to the host array ensures that its address is not reused.
        moves[key] = x, xp.asarray(x, dtype=dtype, device=device)
    return moves[key][1]


def take_rows(x: Array, rows: NDArray[np.intp]) -> Array:
    """Rows of an array of any library, by position."""
    if not is_foreign(x):
        return x[rows]
    xp = compat.array_namespace(x)
    return xp.take(x, xp.asarray(rows, device=compat.device(x)), axis=0)


def floating(x: Array) -> Array:
    """`x` in float32 if that is at least its precision, otherwise in float64."""
    xp = compat.array_namespace(x)
    if x.dtype == xp.float32 or x.dtype == xp.float64:
        return x
    is_short = xp.isdtype(x.dtype, "real floating") and xp.finfo(x.dtype).bits <= 32
    return xp.astype(x, xp.float32 if is_short else xp.float64)


def unit_rows(x: Array) -> Array:
    """Rows of `x` scaled to unit ℓ2 norm; zero rows stay zero."""
    return scaled_rows(x)[0]


def scaled_rows(x: Array) -> tuple[Array, Array, Array]:
    """Rows of unit norm, their largest absolute entries, and their norms relative to these."""
    xp = compat.array_namespace(x)
    # Dividing by the largest entry first avoids overflow and underflow of the squares.
    largest = xp.max(xp.abs(x), axis=1, keepdims=True)
    largest = xp.where(largest > 0, largest, xp.ones_like(largest))
    x = x / largest
    norm = xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))
    norm = xp.where(norm > 0, norm, xp.ones_like(norm))
    return x / norm, largest, norm


#: Memory budget in bytes of the rows of one block and the results computed from them.
BLOCK_BYTES = 1 << 25


class Block(NamedTuple):
    """Consecutive rows."""

    start: int  # number of the first among all rows
    rows: NDArray[Any]
    labels: NDArray[Any] | None  # None if they are unknown


class RowsInBlocks(ABC):
    """Rows of features, of which one block at a time is in memory; estimators accept it as `X`."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_labels: bool
    shard_ends: list[int]

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Read the rows from row `start`."""

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
        for block in self.blocks():
            yield block.rows, block.labels


_Item = TypeVar("_Item")
_END: Any = object()


def read_ahead(items: Iterable[_Item], depth: int = 1) -> Iterator[_Item]:
    """Prefetch up to `depth` items of an iterable in another thread."""
    if depth < 1:
        yield from items
        return
    iterator, pool = iter(items), ThreadPoolExecutor(1)
    try:
        ahead = deque(pool.submit(next, iterator, _END) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _END:
            ahead.append(pool.submit(next, iterator, _END))
            yield item
            del item  # frees its memory while waiting for the next
    finally:
        pool.shutdown(cancel_futures=True)


def block_length(row_bytes: int, budget: int | None = None) -> int:
    """Number of rows that fit in a memory budget, at least one."""
    return max(1, (BLOCK_BYTES if budget is None else budget) // max(1, row_bytes))


def row_blocks(n_rows: int, row_bytes: int, budget: int | None = None) -> list[slice]:
    """Slices that cover all rows, each within a memory budget."""
    length = block_length(row_bytes, budget)
    return [slice(start, min(start + length, n_rows)) for start in range(0, n_rows, length)]


def evenly_spaced(n_samples: int, limit: int) -> NDArray[np.intp]:
    """Evenly spaced positions of at most `limit` samples."""
    return np.linspace(0, n_samples - 1, min(n_samples, limit)).astype(np.intp)


def is_dask(X: object) -> bool:
    """Whether `X` is a dask array."""
    return bool(compat.is_dask_array(X))


def is_streamed(X: object) -> bool:
    """Whether `X` is read a block at a time: a FeatureBlocks or a dask array."""
    return isinstance(X, RowsInBlocks) or is_dask(X)


def is_empty(X: Any) -> bool:
    """Whether features in memory have no rows."""
    return not is_streamed(X) and np.shape(X)[:1] == (0,)


# A block on a device uses this fraction of the free memory, up to a size beyond which larger blocks
# are not faster.
_MEMORY_FRACTION = 8
_MAX_DEVICE_BLOCK = 1 << 32

_moves: ContextVar[dict[Any, tuple[Any, Any]] | None] = ContextVar("zslearn_moves", default=None)


def on_device(x: Any) -> bool:
    """Whether an array is on a device other than the host, such as a GPU."""
    if compat.is_torch_array(x):
        return str(x.device.type) not in ("cpu", "meta")
    return bool(compat.is_cupy_array(x))


def block_budget(like: Any) -> int:
    """Memory budget in bytes of one block of rows and the results computed from it."""
    like = getattr(like, "source", like)  # the array behind PreparedRows
    if not on_device(like):
        return BLOCK_BYTES
    return max(BLOCK_BYTES, min(_free_bytes(like) // _MEMORY_FRACTION, _MAX_DEVICE_BLOCK))


def _free_bytes(x: Any) -> int:
    """Free memory of a device, including the memory reserved by its library."""
    if compat.is_cupy_array(x):
        import cupy  # type: ignore[import-not-found]

        with x.device:
            return int(x.device.mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
    import torch

    if x.device.type != "cuda":
        return 8 * BLOCK_BYTES
    reserve = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
    return int(torch.cuda.mem_get_info(x.device)[0] + reserve)


@contextmanager
def moves_kept() -> Iterator[None]:
    """Within this context each host array, which must not change, is moved to a device once."""
    if _moves.get() is not None:
        yield
        return
    token = _moves.set({})
    try:
        yield
    finally:
        _moves.reset(token)


class RowChunks:
    """Rows of several arrays in any order, which is how classes are added without copying others.

    Parameters
    ----------
    chunks : tuple of array
        Arrays of equal width.
    order : ndarray of int
        Position of each row in the concatenated chunks.
    """

    def __init__(self, chunks: tuple[Array, ...], order: NDArray[np.intp]) -> None:
        self.chunks, self.order = chunks, order
        self.shape: tuple[int, ...] = (len(order), *chunks[0].shape[1:])
        self.dtype = chunks[0].dtype

    @cached_property
    def whole(self) -> Array:
        """All rows in one array."""
        return self[:]

    @property
    def distinct(self) -> tuple[tuple[Array, ...], NDArray[np.intp]]:
        """The chunks, in which equal rows are stored once, and the place of each row."""
        groups = [getattr(chunk, "group", None) for chunk in self.chunks]
        if all(group is None for group in groups):
            return self.chunks, self.order
        chunks: tuple[Any, ...] = tuple(getattr(chunk, "stored", chunk) for chunk in self.chunks)
        starts = np.cumsum([0, *(len(chunk) for chunk in chunks[:-1])])
        places = [
            start + (np.arange(len(chunk)) if group is None else group)
            for start, chunk, group in zip(starts, chunks, groups, strict=True)
        ]
        return chunks, np.concatenate(places)[self.order]

    def compact(self) -> Array:
        """All rows in one array, or equal ones stored once if they were."""
        chunks, places = self.distinct
        if chunks is self.chunks:
            return self[:]
        used, group = np.unique(places, return_inverse=True)
        return RepeatedRows(RowChunks(chunks, used)[:], group)

    @property
    def nbytes(self) -> int:
        """Memory of all chunks."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, rows: Any) -> Array:
        position = self.order[rows]
        ends = np.cumsum([chunk.shape[0] for chunk in self.chunks])
        which = np.searchsorted(ends, position, side="right")
        if np.ndim(position) == 0:
            return self.chunks[which][position - ends[which] + self.chunks[which].shape[0]]
        parts = [np.flatnonzero(which == number) for number in range(len(self.chunks))]
        starts = ends - [chunk.shape[0] for chunk in self.chunks]
        gathered = (
            take_rows(chunk, position[part] - start)
            for chunk, part, start in zip(self.chunks, parts, starts, strict=True)
        )
        first = getattr(self.chunks[0], "stored", self.chunks[0])
        if not is_foreign(first):
            dtype = np.result_type(*(chunk.dtype for chunk in self.chunks))
            out = np.empty((len(position), *self.shape[1:]), dtype=dtype)
            for part, rows in zip(parts, gathered, strict=True):
                out[part] = rows
            return out
        xp = compat.array_namespace(first)
        return take_rows(xp.concat(list(gathered)), np.argsort(np.concatenate(parts)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(to_numpy(self.whole), dtype=dtype)


class RepeatedRows:
    """Rows of an array of which many are equal, stored once.

    Parameters
    ----------
    stored : array
        The distinct rows.
    group : ndarray of int
        Position of each row in `stored`.
    """

    def __init__(self, stored: Array, group: NDArray[np.intp]) -> None:
        self.stored, self.group = stored, group
        self.shape: tuple[int, ...] = (len(group), *stored.shape[1:])
        self.dtype, self.nbytes = stored.dtype, stored.nbytes

    @property
    def whole(self) -> Array:
        """All rows in one array."""
        return self[:]

    def __len__(self) -> int:
        return len(self.group)

    def __getitem__(self, rows: Any) -> Array:
        return take_rows(self.stored, self.group[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(to_numpy(self.whole), dtype=dtype)


class IdentityCache:
    """The latest values computed from host arrays, which are compared by identity."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Single operations on a dict need no lock, which could be held while a process is forked.
        self._entries: dict[int, tuple[Any, Any, Any]] = {}

    def get(self, source: Any, key: Any, compute: Callable[[], Any]) -> Any:
        """The cached value if source and key are the same, otherwise the result of `compute`."""
        number = id(source)
        entry = self._entries.get(number)
        if entry is not None and entry[0]() is source and entry[1] == key:
            return entry[2]
        value = compute()
        for oldest in list(self._entries)[: len(self._entries) + 1 - self.size]:
            self._entries.pop(oldest, None)
        self._entries[number] = weakref.ref(source, partial(self._forget, number)), key, value
        return value

    def _forget(self, number: int, reference: Any) -> None:
        entry = self._entries.get(number)
        if entry is not None and entry[0] is reference:
            self._entries.pop(number, None)
