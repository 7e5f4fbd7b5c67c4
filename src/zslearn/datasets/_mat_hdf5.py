"""MATLAB files of version 7.3, which are HDF5 files with a few attributes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.datasets._limits import Budget
from zslearn.datasets._mat_values import (
    LARGEST_RATIO,
    MAX_DIMENSIONS,
    MEMBER_BYTES,
    ROW_BYTES,
    MatFileError,
    Value,
    refusal,
)

_NUMBERS = {
    "double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "logical",
}  # fmt: skip
_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF = 1, 2, 3, 32000  # all part of h5py
_LARGEST_LZF_RATIO = 128
#: What the HDF5 library keeps for each chunk of an array that is read as a whole.
_CHUNK_BYTES = 2048


def read_hdf5(h5py: Any, path: Path, names: Collection[str], budget: Budget) -> dict[str, Value]:
    """Read the wanted variables of a file of version 7.3."""
    with h5py.File(path, "r") as file:
        reader = _Variables(h5py, file, budget)
        return {name: reader.variable(name) for name in sorted(names) if name in file}


class _Variables:
    """The variables of an open file. HDF5 keeps MATLAB's arrays transposed."""

    def __init__(self, h5py: Any, file: Any, budget: Budget) -> None:
        self._h5py = h5py
        self._file = file
        self._budget = budget

    def variable(self, name: str) -> Value:
        if not isinstance(self._file.get(name, getlink=True), self._h5py.HardLink):
            raise refusal(name, "a link", inside_cell=False)
        return self._value(self._file[name], name, inside_cell=False)

    def _value(self, item: Any, name: str, *, inside_cell: bool) -> Value:
        if not isinstance(item, self._h5py.Dataset):
            raise refusal(name, "a structure, an object or a sparse matrix", inside_cell)
        kind = self._kind(item, name, inside_cell)
        reserve_data_set(item, name, self._budget)
        if self._attribute(item, "MATLAB_empty", name):
            return self._empty(item, kind, name)
        if kind == "cell":
            self._budget.take(MEMBER_BYTES * item.size)
            return [self._value(self._file[ref], name, inside_cell=True) for ref in item[()].flat]
        if kind == "char":
            return self._characters(item)
        return item[()].T

    def _empty(self, item: Any, kind: str, name: str) -> Value:
        """An empty variable of any class; it stores its shape."""
        if item.size > MAX_DIMENSIONS:
            raise MatFileError(f"variable {name!r} is empty in an odd way: damaged file.")
        shape = tuple(int(side) for side in np.ravel(item[()]))
        if not shape or min(shape) < 0 or 0 not in shape:
            raise MatFileError(f"variable {name!r} is empty in an odd way: damaged file.")
        if kind == "char":
            return ""
        return [] if kind == "cell" else np.empty(shape)

    def _characters(self, item: Any) -> str | list[str]:
        """Text, kept as (columns, rows): one row of characters is one string."""
        self._budget.take(ROW_BYTES * item.shape[1] + 12 * item.size)
        values = item[()].T
        codes = np.ascontiguousarray(values, dtype="<u2").reshape(values.shape)
        rows = [row.tobytes().decode("utf-16-le", errors="replace") for row in codes]
        return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows]

    def _attribute(self, item: Any, attribute: str, name: str) -> Any:
        """The value of an attribute, which is one number or word; None without."""
        if attribute not in item.attrs:
            return None
        if math.prod(item.attrs.get_id(attribute).shape) != 1:
            raise MatFileError(f"variable {name!r} has an odd attribute {attribute}: damaged file.")
        return item.attrs[attribute]

    def _kind(self, item: Any, name: str, inside_cell: bool) -> str:
        """The class of a variable, if it is one that is read."""
        kind = self._attribute(item, "MATLAB_class", name)
        if kind is None:  # plain HDF5 under the name of a MATLAB file
            kind = "double"
        kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
        if "MATLAB_object_decode" in item.attrs:
            kind = "object"
        dtype = item.dtype
        fits = (
            (kind in _NUMBERS and dtype.kind in "fiub")
            or (kind == "char" and dtype.kind == "u" and item.ndim == 2)
            or (kind == "cell" and dtype == self._h5py.ref_dtype and not inside_cell)
        )
        # An empty variable of any class stores its shape.
        empty = kind in {*_NUMBERS, "char", "cell"} and "MATLAB_empty" in item.attrs
        if not fits and not (empty and dtype.kind == "u" and not (kind == "cell" and inside_cell)):
            raise refusal(name, f"of class {kind[:40]!r} ({dtype})", inside_cell)
        return kind


def reserve_data_set(item: Any, name: str, budget: Budget) -> None:
    """Refuse data kept elsewhere, foreign filters, and more data than may be read.

    Parameters
    ----------
    item : Dataset
        An array of an open file.
    name : str
        What errors call it.
    budget : Budget
        What reading the file may take.

    Raises
    ------
    MatFileError
        It is not to be read.
    """
    if item.external is not None or item.is_virtual:
        raise MatFileError(f"variable {name!r} is kept in another file, which is not read.")
    creation = item.id.get_create_plist()
    filters = [creation.get_filter(index) for index in range(creation.get_nfilters())]
    codes = [code for code, *_ in filters]
    # Each further compression would multiply what a few bytes can become.
    if set(codes) - {_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF} or (
        codes.count(_DEFLATE) + codes.count(_LZF) > 1 or len(codes) > 3
    ):
        raise MatFileError(f"variable {name!r} uses a compression that is not read.")
    if item.shape is None:
        raise MatFileError(f"variable {name!r} has no shape: the file is damaged.")
    n_bytes = math.prod(item.shape) * item.dtype.itemsize  # item.size may overflow
    if n_bytes > LARGEST_RATIO * budget.file_size:
        raise MatFileError(f"variable {name!r} claims more data than the file can hold.")
    budget.take(n_bytes)
    if item.chunks is not None:
        _check_chunks(item, name, filters, budget)


def _check_chunks(item: Any, name: str, filters: list[Any], budget: Budget) -> None:
    """Refuse chunks that take too much memory on their way through the filters."""
    chunk_bytes = math.prod(item.chunks) * item.dtype.itemsize
    counts = [-(-side // length) for side, length in zip(item.shape, item.chunks, strict=True)]
    # A filter reads one buffer and writes another; the library keeps the last one.
    budget.check(_CHUNK_BYTES * math.prod(counts) + 3 * chunk_bytes)
    compressed_by = next((code for code, *_ in filters if code in (_DEFLATE, _LZF)), None)
    if compressed_by is None:
        return
    place = [code for code, *_ in filters].index(compressed_by)
    if compressed_by == _LZF:  # one of its parameters is the length of a buffer
        budget.check(2 * max([0, *filters[place][2]]))
    chunks: list[Any] = []
    item.id.chunk_iter(chunks.append)
    for chunk in chunks:
        if chunk.size > budget.file_size:
            raise MatFileError(f"variable {name!r} has a chunk longer than the file: damaged.")
        if chunk.filter_mask >> place & 1:  # this chunk was left as it is
            continue
        # The library inflates a chunk to its end, however long that is, by doubling a buffer.
        if compressed_by == _LZF:
            budget.check(2 * _LARGEST_LZF_RATIO * chunk.size)
        elif 2 * LARGEST_RATIO * chunk.size > budget.left:
            _, data = item.id.read_direct_chunk(chunk.chunk_offset)
            if not _inflates_to(data, chunk_bytes + 4):  # a checksum may be inside
                raise MatFileError(f"variable {name!r} has a chunk that is too long: damaged.")


def _inflates_to(data: bytes, most: int) -> bool:
    """Whether a compressed stream holds no more than `most` bytes; they are not kept."""
    stream = zlib.decompressobj()
    length = 0
    while data and not stream.eof and length <= most:
        length += len(stream.decompress(data, 2**20))
        data = stream.unconsumed_tail
    return length <= most
