"""MATLAB files of version 5 and, compressed, 7: read from their published description."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        if kind in _NUMBERS and not flags & _COMPLEX_FLAG:
            return self._numbers(shape, size, _NUMBERS[kind], name)
        what = _REFUSED.get(kind, "of a kind that is not read")
        if kind == _CELL:
            what = "a cell within a cell"
        elif kind in _NUMBERS:
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
