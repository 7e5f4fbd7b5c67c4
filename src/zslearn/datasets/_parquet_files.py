"""Tables in parquet files, read by pyarrow once their size is known.

A run of equal values takes a few bytes in such a file, however long it is, and what the directory
of the file says of its size need not be true. So the header of every page is read, and rows are
counted there, before pyarrow takes memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from zslearn.datasets._limits import Budget, FileLimitError, reason
from zslearn.datasets._parquet_pages import Chunk, pages, row_groups
from zslearn.datasets._parquet_pages import ParquetDamagedError as _DamagedError
from zslearn.utils import import_optional

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
    """Refuse a file that takes too much memory; return the names of the columns of text.

    Parameters
    ----------
    metadata : FileMetaData
        What pyarrow says of the file.
    file : binary file
        The same file.
    budget : Budget
        What reading it may take.

    Returns
    -------
    list of str
        Names.
    """
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    n_rows = metadata.num_rows
    for column in columns:
        if column.max_repetition_level or column.path != column.name:
            raise _DamagedError(f"column {column.path!r} is nested; only flat tables are read")
        plain = column.logical_type.type in ("NONE", "INT", "STRING")
        number_like = plain and column.physical_type in {*_PLAIN_TYPES, "BYTE_ARRAY"}
        budget.take(n_rows * (_NUMBER_BYTES if number_like else _OBJECT_BYTES))
        if column.physical_type == _FIXED:
            # However often it stands there, a dictionary holds a value once.
            budget.take(n_rows * _FIXED_MULTIPLE * max(0, column.length))
    groups = row_groups(file, budget)
    if sum(group.n_rows for group in groups) != n_rows:
        raise _DamagedError(f"the table has {n_rows} rows, its groups of rows have others")
    for group in groups:
        if len(group.chunks) != len(columns):
            raise _DamagedError("a group of rows lacks columns, or has too many")
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
            raise _DamagedError("text in the encoding DELTA_BYTE_ARRAY is not read")
        if page.is_dictionary:
            budget.check(page.n_values * max(_NUMBER_BYTES, column.length))
        else:
            found += page.n_values
    if not found == chunk.n_values == n_rows:
        raise _DamagedError(
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
