"""MATLAB files, as far as they hold plain arrays and strings, and nothing else.

Two formats carry the ending ``.mat``: version 5 (and its compressed form, 7), which is read here
from its published description, and 7.3, which is HDF5. Both can hold far more than arrays:
structures, objects, function handles, links to other files. What is read is named here; whatever
is not is refused with one :class:`MatFileError`. Nothing is ever evaluated, and no more memory is
taken than the file can account for.
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

from zslearn.utils import import_optional

#: A variable: an array of numbers, a string, or a list of such for a cell array.
Value = NDArray[Any] | str | list[Any]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Deflate cannot shrink data further than about 1 : 1032.
_LARGEST_RATIO = 1100
_MAX_DIMENSIONS = 8
_HEADER_BYTES = 4096  # more than any variable's header needs

_MATRIX, _COMPRESSED = 14, 15
_STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_CHARACTERS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_NUMBERS = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_CELL, _CHAR, _OPAQUE = 1, 4, 17
_REFUSED = {
    2: "a structure", 3: "an object", 5: "a sparse matrix", 16: "a function handle",
    _OPAQUE: "an object",
}  # fmt: skip
_COMPLEX_FLAG = 0x0800

_H5_NUMBERS = {
    "double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "logical",
}  # fmt: skip
_H5_FILTERS = {1, 2, 3, 32000}  # deflate, shuffle, fletcher32, lzf: all part of h5py


class MatFileError(ValueError):
    """A file is no MATLAB file, is damaged, or holds what is not read."""


def read_mat(path: str | os.PathLike[str], names: Collection[str]) -> dict[str, Value]:
    """Read some variables of a MATLAB file of version 5, 7 or 7.3.

    Parameters
    ----------
    path : str or path
        The file.
    names : collection of str
        The variables to read. The others are skipped, whatever they are.

    Returns
    -------
    dict
        Those of `names` that the file holds. Arrays have MATLAB's shape; they may be read-only.

    Raises
    ------
    MatFileError
        The file is foreign, truncated or damaged, or a variable is not an array of real numbers,
        a string, or a cell array of those.
    OSError
        The file cannot be opened.
    ImportError
        The file is of version 7.3 and h5py is not installed.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets._mat import read_mat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.mat"
    ...     savemat(path, {"a": np.eye(2), "names": np.array(["x", "yz"], dtype=object)})
    ...     read_mat(path, {"a", "names", "absent"})
    {'a': array([[1., 0.],
           [0., 1.]]), 'names': ['x', 'yz']}
    """
    path = Path(path)
    with open(path, "rb") as file:
        head = file.read(520)
        if head.startswith(_HDF5_SIGNATURE) or head[512:].startswith(_HDF5_SIGNATURE):
            return _read_hdf5(path, names)
        order = _byte_order(head, path)
        file.seek(128)
        try:
            return _read_v5(file, path.stat().st_size, order, names)
        except MatFileError as error:
            raise MatFileError(f"{path}: {error}") from None
        except (ValueError, zlib.error, struct.error, OverflowError, MemoryError) as error:
            raise MatFileError(f"{path}: the file is damaged ({error}); get it again.") from error


def _byte_order(head: bytes, path: Path) -> str:
    if len(head) < 128:
        raise MatFileError(
            f"{path}: {len(head)} bytes are too few for a MATLAB file; the file is truncated or "
            "of another kind."
        )
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    if order is None or struct.unpack(order + "H", head[124:126])[0] >> 8 != 1:
        raise MatFileError(
            f"{path}: this is no MATLAB file of version 5, 7 or 7.3; save it in one of these "
            "(in MATLAB: save -v7), or check that the download is the file and not a web page."
        )
    return order


# ---------------------------------------------------------------------------------- version 5


def _read_v5(file: Any, file_size: int, order: str, names: Collection[str]) -> dict[str, Value]:
    """Go through the elements of the file; read the wanted ones."""
    found: dict[str, Value] = {}
    while (tag := file.read(8)) and len(found) < len(names):
        if len(tag) < 8:
            raise MatFileError("the file ends within a variable; it is truncated.")
        kind, n_bytes = struct.unpack(order + "II", tag)
        if kind not in (_MATRIX, _COMPRESSED):
            raise MatFileError(f"an element of unknown type {kind}: the file is damaged.")
        if n_bytes > file_size - file.tell():
            raise MatFileError("the file ends within a variable; it is truncated.")
        data = file.read(n_bytes)
        head = zlib.decompressobj().decompress(data, _HEADER_BYTES) if kind == _COMPRESSED else data
        if kind == _COMPRESSED:
            inner = _Elements(memoryview(head), order)
            inner_kind, size = inner.tag()
            if inner_kind != _MATRIX:
                raise MatFileError(f"an element of unknown type {inner_kind}: the file is damaged.")
            header = _Elements(inner.rest(), order).header()
        else:
            size = n_bytes
            header = _Elements(memoryview(data), order).header()
        name = header[2]
        if name not in names:
            continue
        if name in found:
            raise MatFileError(f"variable {name!r} occurs twice: the file is damaged.")
        body = _inflate(data, size + 8, name)[8:] if kind == _COMPRESSED else memoryview(data)
        found[name] = _Elements(body, order).matrix(name)
    return found


def _inflate(data: bytes, size: int, name: str) -> memoryview:
    """Decompress exactly `size` bytes; the stream's own checksum proves them."""
    if size > _LARGEST_RATIO * len(data) + _HEADER_BYTES:
        raise MatFileError(
            f"variable {name!r} claims {size} bytes out of {len(data)}: the file is damaged."
        )
    stream = zlib.decompressobj()
    body = stream.decompress(data, size)
    beyond = stream.decompress(stream.unconsumed_tail, 8) if not stream.eof else b""
    if len(body) != size or beyond or not stream.eof:
        raise MatFileError(f"variable {name!r} is not as long as it claims: the file is damaged.")
    return memoryview(body)


class _Elements:
    """A run of data elements within one variable."""

    def __init__(self, data: memoryview, order: str) -> None:
        self._data = data
        self._order = order
        self._at = 0

    def rest(self) -> memoryview:
        return self._data[self._at :]

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
        if kind != 5 or len(dimensions) % 4 or not 2 <= len(dimensions) // 4 <= _MAX_DIMENSIONS:
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
        if kind in _NUMBERS and not flags & _COMPLEX_FLAG:
            return self._numbers(shape, size, _NUMBERS[kind], name)
        what = _REFUSED.get(kind, "of a kind that is not read")
        if kind == _CELL:
            what = "a cell within a cell"
        elif kind in _NUMBERS:
            what = "complex"
        raise _refusal(name, what, inside_cell)

    def _countable(self, size: int) -> int:
        if 8 * size > len(self._data):
            raise MatFileError("a cell array claims more members than it holds: damaged file.")
        return size

    def _cell_member(self, name: str) -> Value:
        kind, data = self.element()
        if kind != _MATRIX:
            raise MatFileError(f"a member of cell array {name!r} is no array: damaged file.")
        if not data:
            return np.empty((0, 0))
        return _Elements(data, self._order).matrix(name, inside_cell=True)

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
        text = bytes(data).decode(encoding, errors="replace")
        if shape[0] == 1 and len(shape) == 2:
            return text
        if len(shape) != 2 or len(text) != size:
            raise MatFileError(f"variable {name!r} is text of an odd shape {shape}.")
        return [text[row :: shape[0]].rstrip() for row in range(shape[0])]


def _refusal(name: str, what: str, inside_cell: bool) -> MatFileError:
    where = "holds a member that is" if inside_cell else "is"
    return MatFileError(
        f"variable {name!r} {where} {what}; only arrays of real numbers, strings and cell arrays "
        "of those are read."
    )


# ------------------------------------------------------------------------------- version 7.3


def _read_hdf5(path: Path, names: Collection[str]) -> dict[str, Value]:
    h5py = import_optional("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
    try:
        with h5py.File(path, "r") as file:
            reader = _HDF5(h5py, file, path.stat().st_size)
            return {name: reader.variable(name) for name in sorted(names) if name in file}
    except MatFileError as error:
        raise MatFileError(f"{path}: {error}") from None
    # A damaged HDF5 file can raise nearly anything, and the answer is always the same.
    except Exception as error:
        raise MatFileError(f"{path}: the file is damaged ({error}); get it again.") from error


class _HDF5:
    """The variables of an open file of version 7.3. HDF5 keeps MATLAB's arrays transposed."""

    def __init__(self, h5py: Any, file: Any, file_size: int) -> None:
        self._h5py = h5py
        self._file = file
        self._limit = _LARGEST_RATIO * file_size

    def variable(self, name: str) -> Value:
        if not isinstance(self._file.get(name, getlink=True), self._h5py.HardLink):
            raise _refusal(name, "a link", inside_cell=False)
        return self._value(self._file[name], name, inside_cell=False)

    def _value(self, item: Any, name: str, *, inside_cell: bool) -> Value:
        if not isinstance(item, self._h5py.Dataset):
            raise _refusal(name, "a structure, an object or a sparse matrix", inside_cell)
        kind = self._kind(item, name, inside_cell)
        self._check_storage(item, name)
        if item.attrs.get("MATLAB_empty"):
            shape = tuple(int(side) for side in np.ravel(item[()]))
            if not shape or min(shape) < 0 or 0 not in shape or len(shape) > _MAX_DIMENSIONS:
                raise MatFileError(f"variable {name!r} is empty in an odd way: damaged file.")
            if kind == "char":
                return ""
            return [] if kind == "cell" else np.empty(shape)
        if kind == "cell":
            return [self._value(self._file[ref], name, inside_cell=True) for ref in item[()].flat]
        values = item[()]
        if kind == "char":
            # (columns, rows): one row of characters is one string.
            codes = np.ascontiguousarray(values.T, dtype="<u2").reshape(values.T.shape)
            rows = [row.tobytes().decode("utf-16-le", errors="replace") for row in codes]
            return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows]
        return values.T

    def _kind(self, item: Any, name: str, inside_cell: bool) -> str:
        """The class of a variable, if it is one that is read."""
        kind = item.attrs.get("MATLAB_class")
        if kind is None:  # plain HDF5 under the name of a MATLAB file
            kind = "double"
        kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
        if "MATLAB_object_decode" in item.attrs:
            kind = "object"
        dtype = item.dtype
        fits = (
            (kind in _H5_NUMBERS and dtype.kind in "fiub")
            or (kind == "char" and dtype.kind == "u" and item.ndim == 2)
            or (kind == "cell" and dtype == self._h5py.ref_dtype and not inside_cell)
        )
        # An empty variable of any class stores its shape.
        empty = kind in {*_H5_NUMBERS, "char", "cell"} and "MATLAB_empty" in item.attrs
        if not fits and not (empty and dtype.kind == "u" and not (kind == "cell" and inside_cell)):
            raise _refusal(name, f"of class {kind!r} ({dtype})", inside_cell)
        return kind

    def _check_storage(self, item: Any, name: str) -> None:
        """Refuse data kept elsewhere, foreign filters, and more data than the file can hold."""
        if item.external is not None or item.is_virtual:
            raise MatFileError(f"variable {name!r} is kept in another file, which is not read.")
        creation = item.id.get_create_plist()
        filters = {creation.get_filter(index)[0] for index in range(creation.get_nfilters())}
        if filters - _H5_FILTERS:
            raise MatFileError(f"variable {name!r} uses a compression that is not read.")
        if item.size is None or item.size * item.dtype.itemsize > self._limit:
            raise MatFileError(f"variable {name!r} claims more data than the file can hold.")
