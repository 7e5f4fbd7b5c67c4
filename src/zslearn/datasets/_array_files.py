"""Read arrays and tables of numbers from NumPy, Parquet, Arrow and Zarr files, whole or by rows.

The libraries of these formats parse the files. This module compares declared sizes with a memory
limit first, refuses Python objects and codecs that run code, and names the file in every error.
"""

from __future__ import annotations

import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, plain
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading
from zslearn._utils._remote import VALUE_BYTES, Location, file_state, open_parquet

#: Names of the features and of the labels in an archive of several arrays.
FEATURES = ("X", "features")
LABELS = ("y", "labels")


def read_array(path: Path) -> NDArray[Any]:
    """Read an array from a NumPy file: ``.npy`` is memory-mapped, ``.npz`` is read."""
    if path.suffix not in (".npy", ".npz"):
        raise ValueError(f"{path}: images must be in a .npy file.")
    if path.suffix == ".npz":
        array = read_member(path, FEATURES)
        assert array is not None
        return array
    shape, by_columns, dtype, offset = _npy_header(path)
    return np.memmap(path, dtype, "r", offset, shape, "F" if by_columns else "C")


def read_member(path: Path, searched: tuple[str, ...]) -> NDArray[Any] | None:
    """Read the array with one of these names from a ``.npz`` file; None if it has no labels."""
    budget = Budget(path)
    with (
        open(path, "rb") as file,
        reading(path, "the array"),
        np.load(file, allow_pickle=False) as archive,
    ):
        names = list(archive.files)
        found = [name for name in names if name in searched]
        if searched == LABELS and not found:
            return None
        if len(names) == 1:
            found = names
        if len(found) != 1:
            raise ValueError(
                f"it holds {len(names)} arrays ({name_some(names)}); name one of them {searched[0]}"
            )
        sizes = {info.filename: info.file_size for info in archive.zip.infolist()}
        budget.take(sizes.get(f"{found[0]}.npy", sizes.get(found[0], 0)))
        array = archive[found[0]]
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{found[0]} is not an array")
        return array


def _npy_header(path: Location) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order by columns, dtype and start of the numbers of a ``.npy`` file, checked."""
    size = regular_size(path)
    with reading(path, "the array"), path.open("rb") as file:
        first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape, by_columns, dtype = read(file)
        offset = file.tell()
        if dtype.hasobject:
            raise ValueError("it contains Python objects")
        needed, found = math.prod(shape) * dtype.itemsize, size - offset
        if not dtype.itemsize or needed != found or min(shape, default=0) < 0:
            raise ValueError(
                f"shape {shape} and dtype {dtype} need {needed} bytes, but there are {found}"
            )
    return shape, by_columns, dtype, offset


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a table from a Parquet file within the memory limit."""
    source, budget = open_parquet(path), Budget(path)
    budget.check(VALUE_BYTES * source.metadata.num_rows * source.metadata.num_columns)
    arrow = import_optional("pyarrow", f"Reading {path.name}")
    batches = []
    with reading(path, "the table"):
        for batch in source.iter_batches():
            budget.take(2 * batch.nbytes)  # in pyarrow, then in pandas
            batches.append(batch)
        return arrow.Table.from_batches(batches, source.schema_arrow).to_pandas()


def read_excel(path: Path, *, header: int | None = 0) -> pd.DataFrame:
    """Read the first sheet of an Excel workbook within the memory limit."""
    import_optional("openpyxl", f"Reading {path.name}")
    budget = Budget(path)
    with reading(path, "the table"):
        # A workbook is a zip archive of XML.
        with zipfile.ZipFile(path) as archive:
            budget.take(sum(member.file_size for member in archive.infolist()))
        table = pd.read_excel(
            path, header=header, keep_default_na=False, na_values=[""], engine="openpyxl"
        )
    if not len(table.columns):
        raise ValueError(f"{plain(path)}: the first sheet is empty.")
    return table if header is None else table.rename(columns=str)


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any((path / name).is_file() for name in (".zarray", "zarr.json", ".zgroup"))


def open_zarr_array(path: Path) -> Any:
    """Open a Zarr array of numbers or text; refuse pickled objects and sizes over the limit."""
    zarr = import_optional("zarr", "Reading Zarr arrays")
    sizes = (regular_size(file) for file in path.rglob("*") if not file.is_dir())
    budget = Budget(path, file_size=sum(sizes))
    with reading(path, "the array"):
        array = zarr.open_array(str(path), mode="r")
        metadata = {**array.metadata.to_dict(), "attributes": None}
        if "pickle" in str(metadata) or np.dtype(array.dtype).kind not in "biufU":
            raise ValueError(f"{array.dtype} and pickled objects are not supported; save numbers")
        item = np.dtype(array.dtype).itemsize
        # A codec decodes one buffer into another, and the numbers are copied from that.
        budget.check(max(math.prod(array.shape), 3 * math.prod(array.chunks)) * item)
    return array


RowsAndLabels = tuple[NDArray[Any], NDArray[Any] | None]


class RowFile(ABC):
    """Rows of one file, read in blocks; `has_labels` states whether it also stores labels."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    has_labels: bool = False
    #: Changes when the file changes.
    state: tuple[int, ...] = ()

    @abstractmethod
    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read rows from `start` to the end, at most `length` at a time."""

    def identity(self) -> list[Any]:
        """Identify the file and its state, for a fingerprint."""
        return [self.name, *self.shape, self.dtype.str, *self.state]


class ArrayRows(RowFile):
    """Rows of an array that supports slicing: NumPy, a memory map, Zarr, or an HDF5 data set."""

    def __init__(self, array: Any, name: str = "X") -> None:
        self._array, self.name = array, name
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        for first in range(start, self.shape[0], length):
            yield np.asarray(self._array[first : first + length]), None


class RowSlice(RowFile):
    """A range of the rows of another file."""

    def __init__(self, name: str, file: RowFile, rows: range) -> None:
        self.name, self._file, self._rows = name, file, rows
        self.shape, self.dtype = (len(rows), *file.shape[1:]), file.dtype

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        left = len(self._rows) - start
        for rows, labels in self._file.read(self._rows.start + start, min(length, left)):
            yield rows[:left], None if labels is None else labels[:left]
            left -= len(rows)
            if left <= 0:
                return


class NpyRows(RowFile):
    """Rows of a ``.npy`` file; not mapped, since truncating a mapped file kills the process."""

    def __init__(self, path: Location) -> None:
        self.path, self.name, self.state = path, str(path), file_state(path)
        self.shape, by_columns, self.dtype, self._offset = _npy_header(path)
        if by_columns and len(self.shape) > 1 and min(self.shape) > 1:
            raise ValueError(
                f"{path}: the array is stored by columns, so it cannot be read by rows. Save it "
                "again: np.save(path, np.ascontiguousarray(X))."
            )

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        n_rows, width = self.shape[0], self.shape[1:]
        row_bytes = math.prod(width) * self.dtype.itemsize
        with self.path.open("rb") as file:
            for first in range(start, n_rows, length):
                rows = np.empty((min(length, n_rows - first), *width), self.dtype)
                with reading(self.name, f"rows {first} to {first + len(rows) - 1}"):
                    file.seek(self._offset + first * row_bytes)
                    n_bytes = file.readinto(rows.reshape(-1).view(np.uint8).data)
                if n_bytes != rows.nbytes or file_state(self.path) != self.state:
                    raise ValueError(
                        f"{self.path}: the file changed while it was being read, before row "
                        f"{first + len(rows)} of {n_rows}. Finish writing it, then open it again."
                    )
                yield rows, None


class ZarrRows(RowFile):
    """Rows of a Zarr array, or of a group with an array of features and perhaps one of labels."""

    def __init__(self, path: Path, features: str, label: str) -> None:
        self.name = str(path)
        zarr = import_optional("zarr", "Reading Zarr arrays")
        for file in path.iterdir():
            if not file.is_dir():
                regular_size(file)
        with reading(path, "the array"):
            is_group = isinstance(zarr.open(str(path), mode="r"), zarr.Group)
        if is_group and not is_zarr(path / features):
            raise ValueError(
                f"{path}: the group has no array {features!r}. Name it with features=…"
            )
        self._array = open_zarr_array(path / features if is_group else path)
        self.shape, self.dtype = tuple(self._array.shape), np.dtype(self._array.dtype)
        self.has_labels = is_group and is_zarr(path / label)
        self._labels = open_zarr_array(path / label) if self.has_labels else None
        if self._labels is not None and tuple(self._labels.shape) != self.shape[:1]:
            raise ValueError(
                f"{path}: {label!r} has shape {tuple(self._labels.shape)}, but there are "
                f"{self.shape[0]} rows of features."
            )
        self.state = (int(self._array.nchunks_initialized),)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        chunk = max(1, int(self._array.chunks[0]))
        # Whole chunks, unless one is larger than a block.
        step = length - length % chunk if length > chunk else length
        first = start
        while first < self.shape[0]:
            # After a start in the middle of a chunk, continue at the next boundary.
            last = min(first + step - first % min(step, chunk), self.shape[0])
            with reading(self.name, f"rows {first} to {last - 1}"):
                rows = np.asarray(self._array[first:last])
                labels = None if self._labels is None else np.asarray(self._labels[first:last])
            yield rows, labels
            first = last
        # A missing chunk reads as zeros.
        if int(self._array.nchunks_initialized) != self.state[0]:
            raise ValueError(
                f"{self.name}: chunks were added or removed while the array was being read."
            )


class TableRows(RowFile):
    """Rows of a Parquet file, or of an ``.arrow`` or ``.feather`` file in Arrow's format.

    `features` is a column of vectors; without it, every numeric column except `label` is a feature.
    """

    def __init__(self, path: Location, features: str, label: str) -> None:
        self.path, self.name, self.state, self._label = path, str(path), file_state(path), label
        if path.suffix == ".parquet":
            self._file = open_parquet(path)
            schema, metadata = self._file.schema_arrow, self._file.metadata
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        else:
            arrow = import_optional("pyarrow", f"Reading {path.name}")
            with reading(path, "the table"):
                regular_size(path)
                # Not mapped: truncating a mapped file kills the process.
                source = arrow.OSFile(str(path)) if isinstance(path, Path) else path.open()
                self._file = arrow.ipc.open_file(source)
                schema = self._file.schema
                sizes = [len(self._file.get_batch(i)) for i in range(self._file.num_record_batches)]
        self._sizes = sizes
        # Only the default names may be missing.
        for name, default in ((features, "features"), (label, "label")):
            if name not in schema.names and name != default:
                raise ValueError(
                    f"{path}: there is no column {name!r}; its columns are "
                    f"{name_some(schema.names)}."
                )
        self.has_labels = label in schema.names
        self._is_vector = features in schema.names
        self._columns = [features] if self._is_vector else _number_columns(schema, label, path)
        types = [schema.field(name).type for name in self._columns]
        width = len(types)
        if self._is_vector:
            try:
                types = [types[0].value_type]
                self.dtype = np.dtype(types[0].to_pandas_dtype())
            except (AttributeError, TypeError, NotImplementedError):
                raise ValueError(
                    f"{path}: column {features!r} holds {types[0]}, not lists of numbers."
                ) from None
            width = next((rows.shape[1] for rows, _ in self._read(0, 1)), 0)
        else:
            self.dtype = np.result_type(*[kind.to_pandas_dtype() for kind in types])
        self.shape = sum(sizes), width

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        at = start
        for rows, labels in self._read(start, length):
            at += len(rows)
            yield rows, labels
        if at != self.shape[0]:
            raise ValueError(
                f"{self.path}: the file is damaged: it declares {self.shape[0]} rows and has {at}."
            )

    def read_column(self, name: str) -> NDArray[Any]:
        """Read one column of a Parquet file as objects."""
        with reading(self.path, "the rows"):
            column = self._file.read(columns=[name]).column(0)
            values: NDArray[Any] = column.to_pandas().to_numpy(dtype=object)
            return values

    def _read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        before = 0
        for number, size in enumerate(self._sizes):
            skip = max(0, start - before)
            before += size
            if skip >= size:
                continue
            with reading(self.path, "the rows"):
                for batch in self._batches(number, length):
                    if file_state(self.path) != self.state:
                        raise ValueError("the file changed after it was opened")
                    for first in range(min(skip, len(batch)), len(batch), length):
                        part = batch.slice(first, length)
                        yield self._features(part), self._labels(part)
                    skip = max(0, skip - len(batch))

    def _batches(self, number: int, length: int) -> Iterator[Any]:
        """Read one row group in batches."""
        columns = [*self._columns, *([self._label] if self.has_labels else [])]
        if self.path.suffix == ".parquet":
            yield from self._file.iter_batches(length, row_groups=[number], columns=columns)
        else:
            yield self._file.get_batch(number).select(columns)

    def _features(self, batch: Any) -> NDArray[Any]:
        if not self._is_vector:
            columns = [_to_numpy(batch.column(name)) for name in self._columns]
            return np.stack(columns, axis=1).astype(self.dtype, copy=False)
        vectors = batch.column(self._columns[0])
        if vectors.null_count:
            raise ValueError(f"{vectors.null_count} have no features")
        flat = _to_numpy(vectors.flatten())
        is_ragged = len(flat) % len(batch) != 0
        if not hasattr(vectors.type, "list_size"):
            is_ragged = len(set(np.diff(np.asarray(vectors.offsets)).tolist())) > 1
        if is_ragged:
            raise ValueError(f"vectors in {self._columns[0]!r} differ in length")
        return flat.reshape(len(batch), -1).astype(self.dtype, copy=False)

    def _labels(self, batch: Any) -> NDArray[Any] | None:
        if not self.has_labels:
            return None
        column = batch.column(self._label)
        if column.null_count:
            raise ValueError(f"{column.null_count} rows of a block have no label")
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        values = column.to_numpy(zero_copy_only=False)
        return values.astype(str) if values.dtype.kind == "O" else values


def _number_columns(schema: Any, label: str, path: Location) -> list[str]:
    """Return all columns but the label, in the order of the table; raise if one is not numeric."""
    types = import_optional("pyarrow.types", f"Reading {path.name}")
    kinds = {name: schema.field(name).type for name in schema.names if name != label}
    other = [n for n, t in kinds.items() if not (types.is_floating(t) or types.is_integer(t))]
    if other or not kinds:
        raise ValueError(
            f"{path}: these columns are not numbers: {name_some(other)}. Name the column of "
            "vectors with features=…, and the labels with label=…"
        )
    return list(kinds)


def _to_numpy(column: Any) -> NDArray[Any]:
    """Convert a column to numbers, with NaN for missing values."""
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "O" else values
