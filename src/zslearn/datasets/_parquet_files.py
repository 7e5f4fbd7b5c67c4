"""Tables in parquet files, read by pyarrow once their size is known.

A run of equal values takes a few bytes in such a file, however long it is, and what the directory
of the file says of its size need not be true. So rows are counted and the header of every page is
read before pyarrow takes memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from zslearn.datasets._limits import Budget, FileLimitError, reason

#: What a value takes in pyarrow and pandas together, in bytes: a number, and anything else.
_NUMBER_BYTES = 32
_OBJECT_BYTES = 192
#: What a string takes, as a multiple of its bytes in the file, of which four are its length.
_TEXT_MULTIPLE = 24
_PLAIN_TYPES = {"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE"}
#: An encoding in which a string says only how it differs from the one before.
_DELTA_BYTE_ARRAY = 7
_PAGE_HEADER_BYTES = 2**16


class _DamagedError(ValueError):
    """What is wrong with a file, without its name."""


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a flat table from a parquet file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    DataFrame
        The table, with the index that pandas saved with it.

    Raises
    ------
    ValueError
        The file is damaged, its columns are nested, or it would take too much memory.
    OSError
        The file cannot be opened.
    ImportError
        If pyarrow is not installed.
    """
    with open(path, "rb") as file:
        try:
            parquet = import_module("pyarrow.parquet")
        except ImportError as error:
            raise ImportError(
                f"Reading {path.name} needs pyarrow, which is not installed. "
                "Install it with: pip install pyarrow"
            ) from error
        try:
            budget = Budget(path)
            source = parquet.ParquetFile(file)
            texts = _reserve(source.metadata, file, budget)
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


def _reserve(metadata: Any, file: IO[bytes], budget: Budget) -> list[str]:
    """Refuse a file that takes too much memory; return the names of the columns of text."""
    texts = []
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.max_repetition_level or column.path != column.name:
            raise _DamagedError(f"column {column.path!r} is nested; only flat tables are read")
        if column.physical_type == "BYTE_ARRAY":
            texts.append(column.path)
        plain = column.logical_type.type in ("NONE", "INT", "STRING")
        number_like = plain and column.physical_type in {*_PLAIN_TYPES, "BYTE_ARRAY"}
        budget.take(metadata.num_rows * (_NUMBER_BYTES if number_like else _OBJECT_BYTES))
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            is_text = chunk.physical_type == "BYTE_ARRAY"
            for header in _pages(chunk, file, budget.file_size):
                budget.check(_unpacked(header) + budget.file_size)
                if is_text:
                    budget.take(_TEXT_MULTIPLE * _unpacked(header))
                    _refuse_deltas(header)
    return texts


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


# --------------------------------------------------------------------------------------- pages


def _pages(chunk: Any, file: IO[bytes], file_size: int) -> Iterator[dict[int, Any]]:
    """The headers of the pages of one column in one group of rows."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    end = at + chunk.total_compressed_size
    if not 0 < at <= end <= file_size:
        raise _DamagedError(f"column {chunk.path_in_schema!r} lies outside the file")
    while at < end:
        file.seek(at)
        compact = _Compact(file.read(_PAGE_HEADER_BYTES))
        header = compact.structure()
        packed = header.get(3)
        if not isinstance(packed, int) or packed < 0 or _unpacked(header) < 0:
            raise _DamagedError(f"a page of column {chunk.path_in_schema!r} has no size")
        yield header
        at += compact.at + packed


def _unpacked(header: dict[int, Any]) -> int:
    size = header.get(2)
    return size if isinstance(size, int) else -1


def _refuse_deltas(header: dict[int, Any]) -> None:
    first, second = header.get(5), header.get(8)  # a page of data, of version 1 or 2
    encodings = (
        first.get(2) if isinstance(first, dict) else None,
        second.get(4) if isinstance(second, dict) else None,
    )
    if _DELTA_BYTE_ARRAY in encodings:
        raise _DamagedError("text in the encoding DELTA_BYTE_ARRAY is not read")


class _Compact:
    """Thrift's compact protocol, as far as headers of pages need it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """A structure: number of a field → its value."""
        if depth > 8:
            raise _DamagedError("the header of a page is nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._zigzag()
            fields[number] = self._value(byte & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true, false
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return self._skip(8)
        if kind == 8:
            return self._skip(self._varint())
        if kind == 12:
            return self.structure(depth + 1)
        raise _DamagedError("the header of a page is damaged")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise _DamagedError("the header of a page is cut off or too long")
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, n_bytes: int) -> None:
        self.at += n_bytes

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
