"""Parts of an array of a graph: what stands in brackets behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zslearn.export._traced import Rows, Traced, TracingError

if TYPE_CHECKING:
    from zslearn.export._namespace import Namespace


def take_part(xp: Namespace, x: Traced, key: tuple[Any, ...]) -> Traced:
    """What `x[key]` gives, of slices, integers, new axes and an ellipsis.

    Parameters
    ----------
    xp : Namespace
        Functions over arrays of the graph.
    x : Traced
        The array.
    key : tuple
        One entry an axis.

    Returns
    -------
    Traced
        The part.
    """
    if x.value is not None:
        return xp.asarray(x.value[key])
    entries = _of_every_axis(key, x.ndim)
    slices = [entry for entry in entries if entry is not None]
    for axis, entry in enumerate(slices):
        if isinstance(entry, slice):
            x = _sliced(xp, x, axis, entry)
        elif not isinstance(entry, int):
            raise TracingError(f"it takes places by {type(entry).__name__}")
    for axis in range(len(slices) - 1, -1, -1):
        entry = slices[axis]
        if isinstance(entry, int):
            x = _place(xp, x, axis, entry)
    kept = [entry for entry in entries if not isinstance(entry, int)]
    for axis, entry in enumerate(kept):
        if entry is None:
            x = xp.expand_dims(x, axis=axis)
    return x


def _of_every_axis(key: tuple[Any, ...], n_axes: int) -> list[Any]:
    """The key with one entry for each axis, besides the new ones."""
    entries = list(key)
    missing = n_axes - sum(entry is not None and entry is not Ellipsis for entry in entries)
    at = next((i for i, entry in enumerate(entries) if entry is Ellipsis), None)
    if at is None:
        return entries + [slice(None)] * missing
    return entries[:at] + [slice(None)] * missing + entries[at + 1 :]


def _sliced(xp: Namespace, x: Traced, axis: int, entry: slice) -> Traced:
    length = x.shape[axis]
    start, stop, step = entry.indices(length)
    if (start, stop, step) == (0, length, 1):
        return x
    if isinstance(length, Rows):
        raise TracingError("it takes some of the images")
    if step != 1:
        raise TracingError("it takes every so manyth column")
    bounds = [xp.graph.constant(np.array([n], dtype=np.int64)) for n in (start, stop, axis)]
    shape = (*x.shape[:axis], max(0, stop - start), *x.shape[axis + 1 :])
    return Traced(xp, shape, x.dtype, name=xp.graph.add("Slice", [x.name, *bounds]))


def _place(xp: Namespace, x: Traced, axis: int, index: int) -> Traced:
    if isinstance(x.shape[axis], Rows):
        raise TracingError("it takes one of the images")
    place = xp.graph.constant(np.array(index % x.shape[axis], dtype=np.int64))
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Traced(xp, shape, x.dtype, name=xp.graph.add("Gather", [x.name, place], axis=axis))
