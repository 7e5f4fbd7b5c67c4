"""Arrays that are computed with elsewhere than on the host: how much memory, and what stays there.

Work on a GPU is queued; the host waits only where it asks for a number. What is queued goes in few
large blocks, which the device's free memory bounds, and what the host would have to ask for in each
block is kept on the device until the end.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn._utils import _blocks

# A block on a device takes a share of what is free there, and not more than this: beyond it larger
# blocks are no faster.
_SHARE = 8
_MOST = 1 << 32

_moves: ContextVar[dict[Any, tuple[Any, Any]] | None] = ContextVar("zslearn_moves", default=None)


def on_device(x: Any) -> bool:
    """Whether an array lies on a device that works apart from the host, such as a GPU."""
    if compat.is_torch_array(x):
        return str(x.device.type) not in ("cpu", "meta")
    return bool(compat.is_cupy_array(x))


def block_budget(like: Any) -> int:
    """Bytes that one block of rows may take, with all that is computed from it."""
    if not on_device(like):
        return _blocks.BLOCK_BYTES
    return max(_blocks.BLOCK_BYTES, min(_free_bytes(like) // _SHARE, _MOST))


def _free_bytes(x: Any) -> int:
    """Memory of a device that nothing holds, with what its library keeps in reserve."""
    if compat.is_cupy_array(x):
        import cupy  # type: ignore[import-not-found]

        with x.device:
            return int(x.device.mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
    import torch

    if x.device.type != "cuda":
        return 8 * _blocks.BLOCK_BYTES
    free, _ = torch.cuda.mem_get_info(x.device)
    if free >= _SHARE * _MOST:
        # What is kept in reserve changes nothing, and takes long to ask for.
        return int(free)
    reserve = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
    return int(free + reserve)


@contextmanager
def moves_kept() -> Iterator[None]:
    """Within this context an array of the host that is moved to a device again is there already.

    Block after block meets the same projection and the same classes; they travel once. The arrays
    must not change meanwhile.
    """
    if _moves.get() is not None:
        yield
        return
    token = _moves.set({})
    try:
        yield
    finally:
        _moves.reset(token)


def kept_move(x: Any, like: Any, move: Any) -> Any:
    """What `move(x)` gives, from before where moves are kept and `x` is a table of the host."""
    moves = _moves.get()
    if moves is None or not isinstance(x, np.ndarray) or x.size < 2 or compat.is_numpy_array(like):
        return move(x)
    memory = x.__array_interface__
    key = memory["data"][0], x.shape, x.strides, x.dtype, str(like.dtype), str(compat.device(like))
    if key not in moves:
        # The array of the host is held, so that no other can take its place in memory.
        moves[key] = x, move(x)
    return moves[key][1]


class Latest:
    """The latest thing that was made of an array of the host, as long as the array is there.

    Chunk after chunk of rows meets the same classes: what a device holds of them is used again.
    """

    def __init__(self) -> None:
        self._entry: tuple[Any, Any, Any] | None = None
        self._lock = threading.Lock()

    def get(self, source: Any, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, or the same object as before where source and key are the same."""
        with self._lock:
            entry = self._entry
        if entry is not None and entry[0]() is source and entry[1] == key:
            return entry[2]
        made = make()
        with self._lock:
            self._entry = weakref.ref(source, self._forget), key, made
        return made

    def _forget(self, source: Any) -> None:
        if self._entry is not None and self._entry[0] is source:
            self._entry = None
