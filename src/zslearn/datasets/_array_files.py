"""Arrays in NumPy's files: ``.npy``, which is memory-mapped, and ``.npz``."""

from __future__ import annotations

import bz2
import json
import lzma
import math
import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.datasets._files import Budget, FileLimitError, reason

# What a parquet file says of its groups of rows and of their pages.
#
# pyarrow gives this too, but ends the whole program where a column in the directory of the file
# is
# damaged. A field is known by its number and its kind, as in the readers that are made by
# Thrift: one
# of another kind is passed over there. Where such readers would differ, the file is refused.

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
    """The groups of rows, from the directory at the end of a file."""
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
    """The pages of one column in one group of rows."""
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


# Tables in parquet files, read by pyarrow once their size is known.
#
# A run of equal values takes a few bytes in such a file, however long it is, and what the
# directory
# of the file says of its size need not be true. So the header of every page is read, and rows are
# counted there, before pyarrow takes memory.

#: What a value takes in pyarrow and pandas together, in bytes: a number, and anything else.
_NUMBER_BYTES = 32
_OBJECT_BYTES = 192
#: What a string takes, as a multiple of its bytes in the file, of which four are its length.
_TEXT_MULTIPLE = 24
_PLAIN_TYPES = {"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE"}
#: An encoding in which a string says only how it differs from the one before.
_DELTA_BYTE_ARRAY = 7
#: Values of a fixed length: as a multiple of it, what one takes in pyarrow and pandas.
_FIXED = "FIXED_LEN_BYTE_ARRAY"
_FIXED_MULTIPLE = 4


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a flat table from a parquet file."""
    with open(path, "rb") as file:
        parquet = import_optional("pyarrow.parquet", f"Reading {path.name}")
        try:
            budget = Budget(path)
            source = parquet.ParquetFile(file)
            texts = reserve_table(source.metadata, file, budget)
            # A string that stands in many rows is kept once.
            source = parquet.ParquetFile(
                file, read_dictionary=texts, page_checksum_verification=True
            )
            return _without_categories(source.read().to_pandas(), budget)
        except FileLimitError:
            raise
        # pyarrow has errors of its own, and a damaged file can raise nearly any other.
        except Exception as error:
            raise ValueError(f"{path}: the table cannot be read ({reason(error)}).") from error


def reserve_table(metadata: Any, file: IO[bytes], budget: Budget) -> list[str]:
    """Refuse a file that takes too much memory; return the names of the columns of text."""
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    n_rows = metadata.num_rows
    for column in columns:
        if column.max_repetition_level or column.path != column.name:
            raise ParquetDamagedError(
                f"column {column.path!r} is nested; only flat tables are read"
            )
        plain = column.logical_type.type in ("NONE", "INT", "STRING")
        number_like = plain and column.physical_type in {*_PLAIN_TYPES, "BYTE_ARRAY"}
        budget.take(n_rows * (_NUMBER_BYTES if number_like else _OBJECT_BYTES))
        if column.physical_type == _FIXED:
            # However often it stands there, a dictionary holds a value once.
            budget.take(n_rows * _FIXED_MULTIPLE * max(0, column.length))
    groups = row_groups(file, budget)
    if sum(group.n_rows for group in groups) != n_rows:
        raise ParquetDamagedError(f"the table has {n_rows} rows, its groups of rows have others")
    for group in groups:
        if len(group.chunks) != len(columns):
            raise ParquetDamagedError("a group of rows lacks columns, or has too many")
        for column, chunk in zip(columns, group.chunks, strict=True):
            _check_chunk(column, chunk, group.n_rows, file, budget)
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _check_chunk(column: Any, chunk: Chunk, n_rows: int, file: IO[bytes], budget: Budget) -> None:
    """Refuse a column of a group of rows that takes too much memory, or other rows than it says."""
    found = 0
    for page in pages(chunk, file, budget.file_size):
        budget.check(page.unpacked + budget.file_size)
        if column.physical_type == "BYTE_ARRAY":
            budget.take(_TEXT_MULTIPLE * page.unpacked)
        if column.physical_type in ("BYTE_ARRAY", _FIXED) and page.encoding == _DELTA_BYTE_ARRAY:
            raise ParquetDamagedError("text in the encoding DELTA_BYTE_ARRAY is not read")
        if page.is_dictionary:
            budget.check(page.n_values * max(_NUMBER_BYTES, column.length))
        else:
            found += page.n_values
    if not found == chunk.n_values == n_rows:
        raise ParquetDamagedError(
            f"column {column.path!r} has {found} values where the file announces {n_rows}"
        )


def _without_categories(table: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The same table with strings in the place of codes."""

    def plain(values: Any) -> Any:
        if not isinstance(values.dtype, pd.CategoricalDtype):
            return values
        codes = np.asarray(getattr(values, "cat", values).codes)
        lengths = np.array([len(str(name)) for name in values.dtype.categories] + [0])
        budget.take(4 * int(lengths[codes].sum()))  # code −1 is a missing value
        return values.astype(values.dtype.categories.dtype)

    table = table.apply(plain) if table.shape[1] else table
    return table if table.index.nlevels > 1 else table.set_axis(plain(table.index), axis=0)


# What reading a Zarr array from outside may take: by what it declares, and by its chunks.

#: Codecs whose output can be far longer than their input.
_STREAMS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(47),
    "zlib": lambda: zlib.decompressobj(47),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
SWELLING = frozenset([*_STREAMS, "blosc", "lz4", "zstd"])
_METADATA_LIMITS = (".zarray", ".zattrs", ".zgroup", "zarr.json")
_BLOCK_LIMITS = 2**20
#: Filters may widen the numbers of a chunk, and put a checksum or a header beside them.
_WIDENED, _EXTRA = 8, 2**16


def check_array(array: Any, folder: Path, compressors: list[str]) -> None:
    """Refuse an array that takes too much memory for the size of its files."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    budget = Budget(folder, file_size=sum(file.stat().st_size for file in files))
    if len(compressors) > 1:
        raise ValueError(f"{folder}: it is compressed more than once, which is not read.")
    item = array.dtype.itemsize
    chunk = math.prod(array.chunks) * item
    budget.check(math.prod(array.shape) * item)
    # A codec reads one buffer and writes another, and the numbers are copied out of it.
    budget.check(3 * chunk)
    if not compressors:
        return
    most = _WIDENED * chunk + _EXTRA
    for file in files:
        if file.name not in _METADATA_LIMITS and _unpacked_bytes(compressors[0], file, most) > most:
            raise ValueError(
                f"{folder}: the chunk {file.relative_to(folder)} unpacks to more than the array "
                "declares; it is damaged or made to do harm."
            )


def _unpacked_bytes(codec: str, file: Path, enough: int) -> int:
    """How long a chunk is once it is unpacked; counted no further than `enough`."""
    if codec in _STREAMS:
        return _stream_bytes(_STREAMS[codec](), file, enough)
    with open(file, "rb") as source:
        head = source.read(18)
    if codec == "lz4":
        return int.from_bytes(head[:4], "little")
    if codec == "blosc":
        return int.from_bytes(head[4:8], "little")
    return _zstd_bytes(head)


def _stream_bytes(stream: Any, file: Path, enough: int) -> int:
    length = 0
    with open(file, "rb") as source:
        while length <= enough and not stream.eof and (data := source.read(_BLOCK_LIMITS)):
            while data and length <= enough and not stream.eof:
                try:
                    length += len(stream.decompress(data, _BLOCK_LIMITS))
                except (OSError, EOFError, lzma.LZMAError, zlib.error):
                    return length  # reading it says what is wrong
                data = getattr(stream, "unconsumed_tail", b"")
                while not getattr(stream, "needs_input", True) and length <= enough:
                    length += len(stream.decompress(b"", _BLOCK_LIMITS))
    return length


def _zstd_bytes(head: bytes) -> int:
    """The length that the header of a Zstandard frame gives; 0 where it gives none."""
    if head[:4] != b"\x28\xb5\x2f\xfd" or len(head) < 6:
        return 0
    flags = head[4]
    is_single = bool(flags & 0x20)
    width = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    value = int.from_bytes(head[at : at + width], "little")
    return value + 256 if width == 2 else value


#: The array that is read out of several: features, or labels.
_WANTED = ("X", "features")
_LABELS = ("y", "labels")
_BLOCK = 2**20


class _UnreadableError(ValueError):
    """What is wrong with an array, without the name of its file."""


def read_array(path: Path) -> NDArray[Any]:
    """Read an array from a NumPy file; Python objects are never loaded."""
    if path.suffix not in (".npy", ".npz"):
        raise ValueError(f"{path}: images are given as a .npy file.")
    with open(path, "rb") as file:
        try:
            return _mapped(path, file) if path.suffix == ".npy" else _from_archive(path, file)
        except FileLimitError:
            raise
        # zipfile, zlib and the parser of NumPy's headers each raise errors of their own.
        except Exception as error:
            raise ValueError(f"{path}: the array cannot be read ({reason(error)}).") from error


def read_archive_labels(path: Path) -> NDArray[Any] | None:
    """The labels that stand beside the features in a file ``.npz``, or None."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                names = {member.filename.removesuffix(".npy") for member in archive.infolist()}
            if names.isdisjoint(_LABELS):
                return None
            return _from_archive(path, file, _LABELS)
        except FileLimitError:
            raise
        except Exception as error:
            raise ValueError(f"{path}: the labels cannot be read ({reason(error)}).") from error


def _mapped(path: Path, file: IO[bytes]) -> NDArray[Any]:
    shape, order, dtype = read_header(file, path.stat().st_size)
    return np.memmap(path, dtype=dtype, mode="r", shape=shape, order=order, offset=file.tell())


def _from_archive(path: Path, file: IO[bytes], searched: tuple[str, ...] = _WANTED) -> NDArray[Any]:
    budget = Budget(path)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename.removesuffix(".npy") for member in members]
        wanted = range(1) if len(names) == 1 else [i for i, n in enumerate(names) if n in searched]
        if len(wanted) != 1:
            raise _UnreadableError(
                f"it holds {len(names)} arrays ({name_some(names)}); name one of them {searched[0]}"
            )
        member = members[wanted[0]]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _UnreadableError("it is compressed in a way that NumPy does not use")
        if member.flag_bits & 1:
            raise _UnreadableError("it is encrypted")
        budget.take(member.file_size)
        with archive.open(member) as data:
            return _read(data, member.file_size)


def _read(file: IO[bytes], size: int) -> NDArray[Any]:
    """An array from an open file of a known size."""
    shape, order, dtype = read_header(file, size)
    buffer = np.empty(size - file.tell(), dtype=np.uint8)
    at = 0
    while at < buffer.size:
        block = file.read(min(_BLOCK, buffer.size - at))
        if not block:
            raise _UnreadableError("it is truncated")
        buffer[at : at + len(block)] = np.frombuffer(block, dtype=np.uint8)
        at += len(block)
    return np.ndarray(shape, dtype, buffer=buffer, order=order)


def read_header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], Any, np.dtype[Any]]:
    """Shape, order and dtype of an array that fills a file of this size; stops behind them."""
    version = npy.read_magic(file)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise _UnreadableError(f"it is of version {version[0]}.{version[1]} of NumPy's format")
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise _UnreadableError("it holds Python objects, which are never loaded")
    if not dtype.itemsize or min(shape, default=0) < 0:
        raise _UnreadableError(f"it claims to be of shape {shape} and dtype {dtype}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != size - file.tell():
        raise _UnreadableError(
            f"shape {shape} and dtype {dtype} need {n_bytes} bytes, and there are "
            f"{size - file.tell()}"
        )
    return tuple(map(int, shape)), "F" if is_fortran else "C", dtype


# Files that hold many rows, read a few at a time: NumPy's files and arrays of other libraries.

#: Rows, and their labels where the file has any.
RowsAndLabels = tuple[NDArray[Any], NDArray[Any] | None]


class RowFile(ABC):
    """Rows of one shard.

    Attributes
    ----------
    name : str
        What errors call it.
    shape : tuple of int
        Number of rows, then of numbers in a row.
    dtype : dtype
        Of the numbers.
    has_labels : bool
        Whether rows come with their labels.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    has_labels: bool = False

    @abstractmethod
    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read rows from `start` to the end, at most `length` at a time."""

    def identity(self) -> list[Any]:
        """What tells this file from another, or from itself after a change."""
        return [self.name, *self.shape, self.dtype.str]


class ArrayRows(RowFile):
    """Rows of an array that is sliced: NumPy's, a memory map, a data set of HDF5.

    Parameters
    ----------
    array : array
        It has `shape`, `dtype` and slices of rows.
    name : str, default="X"
        What errors call it.
    """

    def __init__(self, array: Any, name: str = "X") -> None:
        self._array, self.name = array, name
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Slices of the array."""
        for first in range(start, self.shape[0], length):
            yield np.asarray(self._array[first : first + length]), None


class NpyRows(RowFile):
    """Rows of a file ``.npy``.

    They are read into memory of their own and not mapped: a map of a file that another program
    cuts off would end the process.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        with open(path, "rb") as file:
            try:
                self._state = _state(file)
                shape, order, self.dtype = read_header(file, self._state[0])
                self._offset = file.tell()
            # The parser of NumPy's headers raises errors of many kinds.
            except Exception as error:
                raise ValueError(f"{path}: the array cannot be read ({reason(error)}).") from error
        if order == "F" and len(shape) > 1 and min(shape) > 1:
            raise ValueError(
                f"{path}: the array is stored column by column, so that rows cannot be read one "
                "after another. Save it again: np.save(path, np.ascontiguousarray(X))."
            )
        self.shape = shape

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read rows; the file must stay as it was when it was opened."""
        n_rows, rest = self.shape[0], self.shape[1:]
        row_bytes = int(np.prod(rest, dtype=np.int64)) * self.dtype.itemsize
        with open(self.path, "rb") as file:
            for first in range(start, n_rows, length):
                if _state(file) != self._state:
                    raise ValueError(
                        f"{self.path}: the file changed while it was being read, before row "
                        f"{first} of {n_rows}. Write it to the end first, then open it again."
                    )
                rows = np.empty((min(length, n_rows - first), *rest), dtype=self.dtype)
                file.seek(self._offset + first * row_bytes)
                if file.readinto(rows.reshape(-1).view(np.uint8).data) != rows.nbytes:
                    raise ValueError(
                        f"{self.path}: the file ends before row {first + len(rows)} of {n_rows}; "
                        "it was cut off while it was being read."
                    )
                yield rows, None

    def identity(self) -> list[Any]:
        """Also the size of the file and when it was written."""
        return [*super().identity(), *self._state]


def _state(file: Any) -> tuple[int, int]:
    """Size of an open file, and when it was written."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


# Rows of a Zarr array, or of a group that holds one array of features and one of labels.

_METADATA = (".zarray", "zarr.json")
# What only moves, compresses or rounds numbers. Others might run code: "pickle" does.
_CODECS = frozenset(
    [
        "adler32",
        "astype",
        "bitround",
        "blosc",
        "bytes",
        "bz2",
        "crc32",
        "crc32c",
        "delta",
        "endian",
        "fixedscaleoffset",
        "fletcher32",
        "gzip",
        "lz4",
        "lzma",
        "packbits",
        "quantize",
        "shard_index",
        "sharding_indexed",
        "shuffle",
        "transpose",
        "zlib",
        "zstd",
    ]
)


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    names = (*_METADATA, ".zgroup")
    return path.is_dir() and any((path / name).is_file() for name in names)


class ZarrRows(RowFile):
    """Rows of a Zarr array on disk.

    Parameters
    ----------
    path : Path
        The folder of an array, or of a group.
    features, label : str
        Names of the arrays in a group; that of the labels may be absent.
    """

    def __init__(self, path: Path, features: str, label: str) -> None:
        self.name = str(path)
        is_group = not any(_is_array(path / name) for name in _METADATA)
        inner = path / features if is_group else path
        if not any((inner / name).is_file() for name in _METADATA):
            raise ValueError(
                f"{path}: the group has no array {features!r}. Name it with features=…"
            )
        self._array = open_array(inner)
        self.shape, self.dtype = tuple(self._array.shape), np.dtype(self._array.dtype)
        self._labels = None
        if is_group and any((path / label / name).is_file() for name in _METADATA):
            self._labels = open_array(path / label)
            if tuple(self._labels.shape) != self.shape[:1]:
                raise ValueError(
                    f"{path}: {label!r} has shape {tuple(self._labels.shape)}, and there are "
                    f"{self.shape[0]} rows of features."
                )
        self.has_labels = self._labels is not None
        self._n_chunks = int(self._array.nchunks_initialized)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read whole chunks where they are not larger than a block."""
        chunk = max(1, int(self._array.chunks[0]))
        if length > chunk:
            length -= length % chunk
        first = start
        while first < self.shape[0]:
            # Back to the beginning of a chunk after a start in the middle.
            last = min(first + length - first % min(length, chunk), self.shape[0])
            labels = None if self._labels is None else self._slice(self._labels, first, last)
            yield self._slice(self._array, first, last), labels
            first = last
        # A chunk that is not there reads as zeros.
        if int(self._array.nchunks_initialized) != self._n_chunks:
            raise ValueError(f"{self.name}: chunks came or went while the array was being read.")

    def _slice(self, array: Any, first: int, last: int) -> Any:
        try:
            return np.asarray(array[first:last])
        # Each codec raises errors of its own.
        except Exception as error:
            raise ValueError(
                f"{self.name}: rows {first} to {last - 1} cannot be read ({reason(error)})."
            ) from error

    def identity(self) -> list[Any]:
        """Also how many chunks there are."""
        return [*super().identity(), self._n_chunks]


def array_names(path: Path) -> list[str]:
    """Names of the arrays in the folder of a group, sorted."""
    inner = [folder for folder in path.iterdir() if folder.is_dir()]
    return sorted(
        folder.name for folder in inner if any(_is_array(folder / name) for name in _METADATA)
    )


def _is_array(file: Path) -> bool:
    """Whether a file of metadata is there and is that of an array."""
    if not file.is_file():
        return False
    return file.name == ".zarray" or _read_json(file).get("node_type") == "array"


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not whole, or no JSON ({reason(error)}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: not an object of JSON.")
    return content


def open_array(path: Path) -> Any:
    """Open an array whose codecs are known to be harmless, and whose chunks are not too large."""
    files = [path / name for name in _METADATA if (path / name).is_file()]
    # Which of two the library would use is its own affair.
    if len(files) != 1:
        raise ValueError(
            f"{path}: an array has one of {' and '.join(_METADATA)}; not {len(files)}."
        )
    names = _codecs(_read_json(files[0]))
    unknown = sorted(set(names) - _CODECS)
    if unknown:
        raise ValueError(f"{path}: codecs that are not read: {name_some(unknown)}.")
    zarr = import_optional("zarr", "Reading Zarr arrays")
    try:
        array = zarr.open_array(str(path), mode="r")
        is_plain = np.dtype(array.dtype).kind in "biufU"
    except Exception as error:
        raise ValueError(f"{path}: the array cannot be opened ({reason(error)}).") from error
    if not is_plain:
        raise ValueError(f"{path}: an array of {array.dtype} is not read; give numbers.")
    # Inside of a shard each chunk is compressed by itself.
    is_sharded = "sharding_indexed" in names
    check_array(array, path, [] if is_sharded else [name for name in names if name in SWELLING])
    return array


def _codecs(metadata: dict[str, Any]) -> list[str]:
    """Names of all codecs that metadata asks for, those inside others too."""
    kinds = [metadata.get("codecs"), metadata.get("filters")]
    listed = [codec for kind in kinds if isinstance(kind, list) for codec in kind]
    names: list[str] = []
    for codec in [*listed, metadata.get("compressor")]:
        if isinstance(codec, str):
            codec = {"name": codec}
        if not isinstance(codec, dict):
            continue
        name = str(codec.get("name", codec.get("id", "")))
        names.append(name.removeprefix("numcodecs."))
        inside = codec.get("configuration")
        if isinstance(inside, dict):
            for key in ("codecs", "index_codecs"):
                names += _codecs({"codecs": inside.get(key)})
    return names
