"""What a parquet file says of its groups of rows and of their pages.

pyarrow gives this too, but ends the whole program where a column in the directory of the file is
damaged. A field is known by its number and its kind, as in the readers that are made by Thrift: one
of another kind is passed over there. Where such readers would differ, the file is refused.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from zslearn.datasets._limits import Budget

_PAGE_HEADER_BYTES = 2**16
#: What a structure of the directory takes in memory, at most.
_STRUCTURE_BYTES = 1024
# Kinds of values in Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_BITS = {_I16: 15, _I32: 31, _I64: 63}
# Kinds of pages, each with the field of its own header and, therein, that of its encoding.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_HEADERS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}

Fields = dict[tuple[int, int], Any]


class ParquetDamagedError(ValueError):
    """What is wrong with a file, without its name."""


@dataclass(frozen=True)
class Chunk:
    """One column in one group of rows: its values, and where its pages lie."""

    n_values: int
    start: int
    end: int


@dataclass(frozen=True)
class RowGroup:
    """A group of rows."""

    n_rows: int
    chunks: list[Chunk]


@dataclass(frozen=True)
class Page:
    """What the header of a page says."""

    unpacked: int
    n_values: int
    encoding: int
    is_dictionary: bool


def row_groups(file: IO[bytes], budget: Budget) -> list[RowGroup]:
    """The groups of rows, from the directory at the end of a file.

    Parameters
    ----------
    file : file
        The parquet file.
    budget : Budget
        What its directory may take.

    Raises
    ------
    ParquetDamagedError
        The directory is damaged, or contradicts itself.
    FileLimitError
        It would take too much memory.
    """
    end = file.seek(0, os.SEEK_END) - 8
    file.seek(max(0, end))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > end:
        raise ParquetDamagedError("it has no directory at its end, or an encrypted one")
    file.seek(end - length)
    footer = _Compact(file.read(length), budget).structure()
    return [_row_group(group) for group in _structures(footer, 4)]


def _row_group(group: Fields) -> RowGroup:
    chunks = [_chunk(chunk) for chunk in _structures(group, 1)]
    return RowGroup(_number(group, 3, "a group of rows"), chunks)


def _chunk(chunk: Fields) -> Chunk:
    about = chunk.get((3, _STRUCT))
    if about is None or chunk.get((1, _BINARY)):
        raise ParquetDamagedError("a column has no description, or lies in another file")
    start = _number(about, 9, "a column")
    dictionary = about.get((11, _I64), 0)
    if 0 < dictionary < start:
        start = dictionary
    size = _number(about, 7, "a column")
    return Chunk(_number(about, 5, "a column"), start, start + size)


def _structures(fields: Fields, number: int) -> list[Fields]:
    items = fields.get((number, _LIST), [])
    if not all(isinstance(item, dict) for item in items):
        raise ParquetDamagedError("its directory is damaged")
    return list(items)


def _number(fields: Fields, number: int, what: str, kind: int = _I64) -> int:
    value = fields.get((number, kind))
    if not isinstance(value, int) or value < 0:
        raise ParquetDamagedError(f"{what} lacks a number, or has one below 0")
    return value


def pages(chunk: Chunk, file: IO[bytes], file_size: int) -> Iterator[Page]:
    """The pages of one column in one group of rows.

    Parameters
    ----------
    chunk : Chunk
        The column.
    file : file
        The parquet file.
    file_size : int
        Its size in bytes.

    Yields
    ------
    Page
    """
    if not 0 < chunk.start <= chunk.end <= file_size:
        raise ParquetDamagedError("a column lies outside the file")
    at = chunk.start
    while at < chunk.end:
        file.seek(at)
        compact = _Compact(file.read(_PAGE_HEADER_BYTES))
        header = compact.structure()
        at += compact.at + _number(header, 3, "a page", _I32)
        unpacked = _number(header, 2, "a page", _I32)
        kind = header.get((1, _I32))
        n_values, encoding = 0, -1
        if kind in _HEADERS:
            own, at_encoding = _HEADERS[kind]
            about = header.get((own, _STRUCT), {})
            n_values = _number(about, 1, "a page", _I32)
            encoding = _number(about, at_encoding, "a page", _I32)
        yield Page(unpacked, n_values, encoding, kind == _DICTIONARY)


class _Compact:
    """Thrift's compact protocol."""

    def __init__(self, data: bytes, budget: Budget | None = None) -> None:
        self._data = data
        self._budget = budget
        self._made = 0
        self.at = 0

    def structure(self, depth: int = 0) -> Fields:
        """A structure: number and kind of a field → its value."""
        if depth > 16:
            raise ParquetDamagedError("a header is nested too deep")
        self._made += 1
        if self._budget is not None:
            self._budget.check(self._made * _STRUCTURE_BYTES)
        fields: Fields = {}
        number, numbers = 0, set()
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._integer(_I16)
            if not 0 < number < 2**15 or number in numbers:
                raise ParquetDamagedError("a header is damaged: it has a field twice")
            numbers.add(number)
            kind = byte & 15
            fields[number, kind] = kind == _TRUE if kind <= _FALSE else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists, truth values take a byte
            return self._byte()
        if kind in _BITS:
            return self._integer(kind)
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.structure(depth + 1)
        raise ParquetDamagedError("a header is damaged")  # parquet has no maps

    def _list(self, depth: int) -> list[Any]:
        if depth > 16:
            raise ParquetDamagedError("a header is nested too deep")
        byte = self._byte()
        length = byte >> 4 if byte >> 4 < 15 else self._varint()
        return [self._value(byte & 15, depth + 1) for _ in range(length)]

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ParquetDamagedError("a header is cut off or too long")
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        self.at += length
        if self.at > len(self._data):
            raise ParquetDamagedError("a header is cut off or too long")
        return self._data[self.at - length : self.at]

    def _varint(self) -> int:
        value = 0
        for place in range(10):
            byte = self._byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise ParquetDamagedError("a header is damaged: a number has no end")

    def _integer(self, kind: int) -> int:
        value = self._varint()
        value = value >> 1 ^ -(value & 1)
        if not -(2 ** _BITS[kind]) <= value < 2 ** _BITS[kind]:
            raise ParquetDamagedError("a header is damaged: a number is out of range")
        return value
