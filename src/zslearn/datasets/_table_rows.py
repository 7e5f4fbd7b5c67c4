"""Rows of tables in Parquet and Arrow files: a column of vectors, or one column per feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._limits import BESIDE, Budget, FileLimitError, reason
from zslearn.datasets._row_files import RowFile, RowsAndLabels
from zslearn.utils import import_optional, name_some


class TableRows(RowFile):
    """Rows of one file.

    Parameters
    ----------
    path : Path
        A file ``.parquet``, or ``.arrow`` or ``.feather`` of Arrow's format.
    features : str
        The column that holds vectors. Where there is none of that name, every column of numbers
        but the label is a feature.
    label : str
        The column of the labels; it may be absent.
    """

    def __init__(self, path: Path, features: str, label: str) -> None:
        self.path, self.name, self._label = path, str(path), label
        status = path.stat()
        self._state = status.st_size, status.st_mtime_ns
        self._table = _ParquetFile(path) if path.suffix == ".parquet" else _ArrowFile(path)
        schema = self._table.schema
        self.has_labels = label in schema.names
        self._is_vector = features in schema.names
        self._columns = [features] if self._is_vector else _numbers(schema, label, path)
        self.shape = self._table.n_rows, self._width()

    def _width(self) -> int:
        """Number of features; of a column of vectors it is that of the first."""
        types = [self._table.schema.field(name).type for name in self._columns]
        if not self._is_vector:
            self.dtype = np.result_type(*[kind.to_pandas_dtype() for kind in types])
            return len(types)
        try:
            self.dtype = np.dtype(types[0].value_type.to_pandas_dtype())
        except (AttributeError, TypeError, NotImplementedError):
            raise ValueError(
                f"{self.path}: column {self._columns[0]!r} holds {types[0]}, not lists of numbers."
            ) from None
        if hasattr(types[0], "list_size"):
            return int(types[0].list_size)
        for rows, _ in self.read(0, 1):
            return rows.shape[1]
        return 0

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read batches of the table, cut to at most `length` rows."""
        wanted = [*self._columns, *([self._label] if self.has_labels else [])]
        at = 0
        for batch in self._batches(start, length, wanted):
            at += len(batch)
            features = self._features(batch, start + at)
            labels = self._labels(batch.column(self._label)) if self.has_labels else None
            yield features, labels
        if start + at != self._table.n_rows:
            raise ValueError(
                f"{self.path}: {start + at} rows came of the {self._table.n_rows} that the file "
                "announces; it is damaged."
            )

    def _batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        try:
            status = self.path.stat()
            if (status.st_size, status.st_mtime_ns) != self._state:
                raise ValueError("the file changed after it was opened")
            for batch in self._table.batches(start, length, columns):
                for first in range(0, len(batch), length):
                    yield batch.slice(first, length)
        except FileLimitError:
            raise
        # pyarrow has errors of its own, and a damaged file can raise nearly any other.
        except Exception as error:
            raise ValueError(f"{self.path}: the rows cannot be read ({reason(error)}).") from error

    def _features(self, batch: Any, stop: int) -> NDArray[Any]:
        if not self._is_vector:
            columns = [_plain(batch.column(name)) for name in self._columns]
            return np.stack(columns, axis=1).astype(self.dtype, copy=False)
        vectors = batch.column(self._columns[0])
        where = f"{self.path}: among the rows before {stop},"
        if vectors.null_count:
            raise ValueError(f"{where} {vectors.null_count} have no features.")
        flat = _plain(vectors.flatten())
        if not len(batch) or len(flat) % len(batch):
            raise ValueError(f"{where} vectors in {self._columns[0]!r} differ in length.")
        if not hasattr(vectors.type, "list_size"):
            lengths = np.diff(np.asarray(vectors.offsets))
            if (lengths != lengths[0]).any():
                raise ValueError(f"{where} vectors in {self._columns[0]!r} differ in length.")
        return flat.reshape(len(batch), -1).astype(self.dtype, copy=False)

    def _labels(self, column: Any) -> NDArray[Any]:
        if column.null_count:
            raise ValueError(f"{self.path}: {column.null_count} rows of a block have no label.")
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        values = column.to_numpy(zero_copy_only=False)
        return values.astype(str) if values.dtype.kind == "O" else values

    def identity(self) -> list[Any]:
        """Also the size of the file and when it was written."""
        return [*super().identity(), *self._state]


class _ParquetFile:
    """Batches of a Parquet file; groups of rows before the first that is wanted are passed over."""

    def __init__(self, path: Path) -> None:
        parquet = _pyarrow("pyarrow.parquet", path)
        self._budget = Budget(path)
        try:
            self._file = parquet.ParquetFile(path, pre_buffer=False)
            self.schema = self._file.schema_arrow
        except Exception as error:
            raise ValueError(f"{path}: the table cannot be read ({reason(error)}).") from error
        metadata = self._file.metadata
        self.n_rows = metadata.num_rows
        self._groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        for group in self._groups:
            self._budget.check(max(0, group.total_byte_size - BESIDE))

    def batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        first, before = 0, 0
        while first < len(self._groups) and before + self._groups[first].num_rows <= start:
            before += self._groups[first].num_rows
            first += 1
        skip = start - before
        wanted = list(range(first, len(self._groups)))
        for batch in self._file.iter_batches(length, row_groups=wanted, columns=columns):
            if skip < len(batch):
                yield batch.slice(skip)
            skip = max(0, skip - len(batch))


class _ArrowFile:
    """Batches of a file in Arrow's own format."""

    def __init__(self, path: Path) -> None:
        arrow = _pyarrow("pyarrow", path)
        try:
            # Not mapped: a map of a file that is cut off would end the process.
            self._reader = _pyarrow("pyarrow.ipc", path).open_file(arrow.OSFile(str(path)))
            self.schema = self._reader.schema
            sizes = [len(self._reader.get_batch(i)) for i in range(self._reader.num_record_batches)]
        except Exception as error:
            raise ValueError(f"{path}: the table cannot be read ({reason(error)}).") from error
        self._sizes, self.n_rows = sizes, sum(sizes)

    def batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        before = 0
        for number, size in enumerate(self._sizes):
            if before + size > start:
                batch = self._reader.get_batch(number).select(columns)
                yield batch.slice(max(0, start - before))
            before += size


def _pyarrow(module: str, path: Path) -> Any:
    return import_optional(module, f"Reading {path.name}")


def _numbers(schema: Any, label: str, path: Path) -> list[str]:
    """Columns that are features, in the order of the table; all but the label must be numbers."""
    names = [name for name in schema.names if name != label]
    types = _pyarrow("pyarrow.types", path)
    other = [
        name
        for name in names
        if not (
            types.is_floating(schema.field(name).type) or types.is_integer(schema.field(name).type)
        )
    ]
    if other or not names:
        raise ValueError(
            f"{path}: these columns are not numbers: {name_some(other)}. Name the column of "
            "vectors with features=…, and that of the labels with label=…"
        )
    return names


def _plain(column: Any) -> NDArray[Any]:
    """Numbers of a column; what is missing is NaN."""
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "O" else values
