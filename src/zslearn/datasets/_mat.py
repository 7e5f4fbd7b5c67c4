"""MATLAB files, as far as they hold plain arrays and strings, and nothing else.

Two formats carry the ending ``.mat``: version 5 (and its compressed form, 7), which is read here
from its published description, and 7.3, which is HDF5. Both can hold far more than arrays:
structures, objects, function handles, links to other files. What is read is named here; whatever
is not is refused with one :class:`MatFileError`. Nothing is ever evaluated, and no more memory is
taken than a limit that goes by the size of the file.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._optional import import_optional
from zslearn.datasets._files import Budget, FileLimitError, reason

# What both formats of MATLAB files share: what is read of them, and how the rest is refused.

#: A variable: an array of numbers, a string, or a list of such for a cell array.
Value = NDArray[Any] | str | list[Any]

#: Deflate cannot shrink data further than about 1 : 1032.
LARGEST_RATIO = 1100
MAX_DIMENSIONS = 8
#: What a member of a cell array takes besides its data, and a row of characters: Python objects.
MEMBER_BYTES = 640
ROW_BYTES = 160


class MatFileError(ValueError):
    """A file is no MATLAB file, is damaged, or holds what is not read."""


def refusal(name: str, what: str, inside_cell: bool) -> MatFileError:
    """The error for a variable of a kind that is not read."""
    where = "holds a member that is" if inside_cell else "is"
    return MatFileError(
        f"variable {name!r} {where} {what}; only arrays of real numbers, strings and cell arrays "
        "of those are read."
    )


# MATLAB files of version 7.3, which are HDF5 files with a few attributes.

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
    """Refuse data kept elsewhere, foreign filters, and more data than may be read."""
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


# MATLAB files of version 5 and, compressed, 7: read from their published description.

_HEADER_BYTES = 4096  # more than any variable's header needs

_MATRIX, _COMPRESSED = 14, 15
_STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_CHARACTERS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_NUMBERS_V5 = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_CELL, _CHAR, _OPAQUE = 1, 4, 17
_REFUSED = {
    2: "a structure", 3: "an object", 5: "a sparse matrix", 16: "a function handle",
    _OPAQUE: "an object",
}  # fmt: skip
_COMPLEX_FLAG = 0x0800


def read_v5(file: Any, order: str, names: Collection[str], budget: Budget) -> dict[str, Value]:
    """Go through the elements of an open file, behind its header; read the wanted ones."""
    found: dict[str, Value] = {}
    while (tag := file.read(8)) and len(found) < len(names):
        if len(tag) < 8:
            raise MatFileError("the file ends within a variable; it is truncated.")
        kind, n_bytes = struct.unpack(order + "II", tag)
        if kind not in (_MATRIX, _COMPRESSED):
            raise MatFileError(f"an element of unknown type {kind}: the file is damaged.")
        start = file.tell()
        if n_bytes > budget.file_size - start:
            raise MatFileError("the file ends within a variable; it is truncated.")
        name, size = _name_and_size(file.read(min(n_bytes, _HEADER_BYTES)), kind, n_bytes, order)
        if name in found:
            raise MatFileError(f"variable {name!r} occurs twice: the file is damaged.")
        if name in names:
            file.seek(start)
            budget.take(n_bytes)
            body = memoryview(file.read(n_bytes))
            if kind == _COMPRESSED:
                body = _inflate(body, size + 8, name, budget)[8:]
            found[name] = _Elements(body, order, budget).matrix(name)
        file.seek(start + n_bytes)
    return found


def _name_and_size(head: bytes, kind: int, n_bytes: int, order: str) -> tuple[str, int]:
    """Name of a variable and length of its data, from its first bytes."""
    if kind != _COMPRESSED:
        return _Elements(memoryview(head), order).header()[2], n_bytes
    plain = zlib.decompressobj().decompress(head, _HEADER_BYTES)
    inner = _Elements(memoryview(plain), order)
    inner_kind, size = inner.tag()
    if inner_kind != _MATRIX:
        raise MatFileError(f"an element of unknown type {inner_kind}: the file is damaged.")
    return _Elements(inner.rest(), order).header()[2], size


def _inflate(data: memoryview, size: int, name: str, budget: Budget) -> memoryview:
    """Decompress exactly `size` bytes; the stream's own checksum proves them."""
    if size > LARGEST_RATIO * len(data) + _HEADER_BYTES:
        raise MatFileError(
            f"variable {name!r} claims {size} bytes out of {len(data)}: the file is damaged."
        )
    budget.check(2 * size)  # zlib gathers pieces and joins them
    budget.take(size)
    stream = zlib.decompressobj()
    body = stream.decompress(data, size)
    beyond = stream.decompress(stream.unconsumed_tail, 8) if not stream.eof else b""
    if len(body) != size or beyond or not stream.eof:
        raise MatFileError(f"variable {name!r} is not as long as it claims: the file is damaged.")
    return memoryview(body)


class _Elements:
    """A run of data elements within one variable; without a budget only its header is read."""

    def __init__(self, data: memoryview, order: str, budget: Budget | None = None) -> None:
        self._data = data
        self._order = order
        self._budget = budget
        self._at = 0

    def rest(self) -> memoryview:
        return self._data[self._at :]

    def _reserve(self, n_bytes: int) -> None:
        if self._budget is not None:
            self._budget.take(n_bytes)

    def _take(self, n_bytes: int) -> memoryview:
        if n_bytes > len(self._data) - self._at:
            raise MatFileError("a variable ends early: the file is damaged.")
        taken = self._data[self._at : self._at + n_bytes]
        self._at += n_bytes
        return taken

    def tag(self) -> tuple[int, int]:
        kind, n_bytes = struct.unpack(self._order + "II", self._take(8))
        return kind, n_bytes

    def element(self) -> tuple[int, memoryview]:
        """The next element: its type and its data; padding is skipped."""
        (word,) = struct.unpack(self._order + "I", self._take(4))
        if word >> 16:  # up to four bytes, packed beside their tag
            kind, n_bytes = word & 0xFFFF, word >> 16
            if n_bytes > 4:
                raise MatFileError("a packed element is too long: the file is damaged.")
            return kind, self._take(4)[:n_bytes]
        (n_bytes,) = struct.unpack(self._order + "I", self._take(4))
        data = self._take(n_bytes)
        self._at = min(self._at + -n_bytes % 8, len(self._data))
        return word, data

    def header(self) -> tuple[int, tuple[int, ...], str]:
        """The array flags, the dimensions and the name."""
        kind, flags = self.element()
        if kind != 6 or len(flags) != 8:
            raise MatFileError("a variable has no array flags: the file is damaged.")
        (word,) = struct.unpack(self._order + "I", flags[:4])
        shape: tuple[int, ...] = ()
        if word & 0xFF != _OPAQUE:  # which has no dimensions
            shape = self._dimensions()
        kind, name = self.element()
        if kind not in _CHARACTERS:
            raise MatFileError("a variable has no name: the file is damaged.")
        return word, shape, bytes(name).decode("latin-1")

    def _dimensions(self) -> tuple[int, ...]:
        kind, dimensions = self.element()
        if kind != 5 or len(dimensions) % 4 or not 2 <= len(dimensions) // 4 <= MAX_DIMENSIONS:
            raise MatFileError("a variable has no valid dimensions: the file is damaged.")
        shape = struct.unpack(f"{self._order}{len(dimensions) // 4}i", dimensions)
        if min(shape) < 0:
            raise MatFileError("a variable has a negative dimension: the file is damaged.")
        return shape

    def matrix(self, name: str, *, inside_cell: bool = False) -> Value:
        """The value of a variable."""
        flags, shape, _ = self.header()
        kind = flags & 0xFF
        size = math.prod(shape)
        if kind == _CELL and not inside_cell:
            return [self._cell_member(name) for _ in range(self._countable(size))]
        if kind == _CHAR:
            return self._characters(shape, size, name)
        if kind in _NUMBERS_V5 and not flags & _COMPLEX_FLAG:
            return self._numbers(shape, size, _NUMBERS_V5[kind], name)
        what = _REFUSED.get(kind, "of a kind that is not read")
        if kind == _CELL:
            what = "a cell within a cell"
        elif kind in _NUMBERS_V5:
            what = "complex"
        raise refusal(name, what, inside_cell)

    def _countable(self, size: int) -> int:
        if 8 * size > len(self._data):
            raise MatFileError("a cell array claims more members than it holds: damaged file.")
        self._reserve(MEMBER_BYTES * size)
        return size

    def _cell_member(self, name: str) -> Value:
        kind, data = self.element()
        if kind != _MATRIX:
            raise MatFileError(f"a member of cell array {name!r} is no array: damaged file.")
        if not data:
            return np.empty((0, 0))
        return _Elements(data, self._order, self._budget).matrix(name, inside_cell=True)

    def _numbers(self, shape: tuple[int, ...], size: int, dtype: str, name: str) -> NDArray[Any]:
        kind, data = self.element()
        if kind not in _STORED:
            raise MatFileError(f"variable {name!r} is not stored as numbers: the file is damaged.")
        stored = np.dtype(self._order + _STORED[kind])
        if len(data) != size * stored.itemsize:
            raise MatFileError(
                f"variable {name!r} has {len(data) // stored.itemsize} values for shape "
                f"{shape}: the file is damaged."
            )
        values = np.frombuffer(data, dtype=stored).reshape(shape, order="F")
        if values.dtype != dtype:  # small whole numbers are stored in fewer bytes
            self._reserve(size * np.dtype(dtype).itemsize)
        return values.astype(dtype, copy=False)

    def _characters(self, shape: tuple[int, ...], size: int, name: str) -> str | list[str]:
        if not size:
            return ""
        kind, data = self.element()
        if kind not in _CHARACTERS:
            raise MatFileError(f"variable {name!r} is not stored as text: the file is damaged.")
        encoding = _CHARACTERS[kind]
        if encoding in ("utf-16", "utf-32"):
            encoding += "-le" if self._order == "<" else "-be"
        self._reserve(5 * len(data))  # Python keeps up to four bytes per character
        text = bytes(data).decode(encoding, errors="replace")
        if shape[0] == 1 and len(shape) == 2:
            return text
        if len(shape) != 2 or len(text) != size:
            raise MatFileError(f"variable {name!r} is text of an odd shape {shape}.")
        self._reserve(ROW_BYTES * shape[0] + 4 * size)
        return [text[row :: shape[0]].rstrip() for row in range(shape[0])]


_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_mat(
    path: str | os.PathLike[str], names: Collection[str], *, max_bytes: int | None = None
) -> dict[str, Value]:
    """Read some variables of a MATLAB file of version 5, 7 or 7.3."""
    path = Path(path)
    with open(path, "rb") as file:
        budget = Budget(path, max_bytes)
        head = file.read(520)
        is_hdf5 = head.startswith(_HDF5_SIGNATURE) or head[512:].startswith(_HDF5_SIGNATURE)
        if is_hdf5:
            h5py = import_optional("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
        try:
            if is_hdf5:
                return read_hdf5(h5py, path, names, budget)
            order = _byte_order(head)
            file.seek(128)
            return read_v5(file, order, names, budget)
        except FileLimitError:
            raise
        except MatFileError as error:
            raise MatFileError(f"{path}: {error}") from None
        # A damaged file can raise nearly anything, and the answer is always the same.
        except Exception as error:
            raise MatFileError(
                f"{path}: the file is damaged ({reason(error)}); get it again."
            ) from error


def _byte_order(head: bytes) -> str:
    if len(head) < 128:
        raise MatFileError(
            f"{len(head)} bytes are too few for a MATLAB file; the file is truncated or of another "
            "kind."
        )
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    if order is None or struct.unpack(order + "H", head[124:126])[0] >> 8 != 1:
        raise MatFileError(
            "this is no MATLAB file of version 5, 7 or 7.3; save it in one of these (in MATLAB: "
            "save -v7), or check that the download is the file and not a web page."
        )
    return order
