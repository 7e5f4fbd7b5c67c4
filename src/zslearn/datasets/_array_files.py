"""Arrays and tables of numbers in files: NumPy's, Parquet and Zarr, whole or some rows at a time.

The libraries of these formats read them. Here their sizes are compared with a limit first, Python
objects and codecs that run code are refused, and errors name the file.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading

#: The array that is read out of several: features, or labels.
FEATURES = ("X", "features")
LABELS = ("y", "labels")


# ------------------------------------------------------------------------------- NumPy's files


def read_array(path: Path) -> NDArray[Any]:
    """Read an array from a NumPy file: ``.npy`` is mapped, ``.npz`` is read."""
    if path.suffix not in (".npy", ".npz"):
        raise ValueError(f"{path}: images are given as a .npy file.")
    if path.suffix == ".npz":
        array = read_member(path, FEATURES)
        assert array is not None
        return array
    regular_size(path)
    with open(path, "rb") as file:
        shape, order, dtype = read_header(file, path)
        return np.memmap(path, dtype=dtype, mode="r", shape=shape, order=order, offset=file.tell())


def read_member(path: Path, searched: tuple[str, ...]) -> NDArray[Any] | None:
    """The array of a file ``.npz`` that has one of these names; None where labels are not there."""
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
            raise ValueError(f"{found[0]} is no array")
        return array


def read_header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], Any, np.dtype[Any]]:
    """Shape, order and dtype of the array that fills an open file ``.npy``; stops behind them."""
    size = os.fstat(file.fileno()).st_size
    with reading(path, "the array"):
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
        n_bytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never loaded")
        if not dtype.itemsize or min(shape, default=0) < 0 or n_bytes != size - file.tell():
            raise ValueError(
                f"shape {shape} and dtype {dtype} need {n_bytes} bytes, and there are "
                f"{size - file.tell()}"
            )
    return tuple(map(int, shape)), "F" if is_fortran else "C", dtype


# ------------------------------------------------------------------------------------- Parquet

#: What a value takes in pyarrow and pandas together, in bytes, at least.
_VALUE_BYTES = 32


def open_parquet(path: Path, budget: Budget) -> Any:
    """Open a Parquet file whose rows do not take too much memory, by what it declares."""
    parquet = import_optional("pyarrow.parquet", f"Reading {path.name}")
    with reading(path, "the table"):
        source = parquet.ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
        metadata = source.metadata
        # Not what it says of columns: pyarrow ends the process where that is damaged.
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("its groups of rows have other rows than the table")
        for group in groups:
            values = _VALUE_BYTES * group.num_rows * metadata.num_columns
            budget.check(max(values, group.total_byte_size))
    return source


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a table from a Parquet file, as long as its batches stay within the limit."""
    budget = Budget(path)
    source = open_parquet(path, budget)
    budget.check(_VALUE_BYTES * source.metadata.num_rows * source.metadata.num_columns)
    arrow = import_optional("pyarrow", f"Reading {path.name}")
    batches = []
    with reading(path, "the table"):
        for batch in source.iter_batches():
            budget.take(2 * batch.nbytes)  # in pyarrow, then in pandas
            batches.append(batch)
        return arrow.Table.from_batches(batches, source.schema_arrow).to_pandas()


# ---------------------------------------------------------------------------------------- Zarr


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any((path / name).is_file() for name in (".zarray", "zarr.json", ".zgroup"))


def open_zarr_array(path: Path) -> Any:
    """Open a Zarr array of numbers or text that runs no code and is not too large."""
    zarr = import_optional("zarr", "Reading Zarr arrays")
    sizes = (regular_size(file) for file in path.rglob("*") if not file.is_dir())
    budget = Budget(path, file_size=sum(sizes))
    with reading(path, "the array"):
        array = zarr.open_array(str(path), mode="r")
        metadata = {**array.metadata.to_dict(), "attributes": None}
        if "pickle" in str(metadata) or np.dtype(array.dtype).kind not in "biufU":
            raise ValueError(f"{array.dtype} is not read, nor what is pickled; give numbers")
        item = np.dtype(array.dtype).itemsize
        # A codec reads one buffer and writes another, and the numbers are copied out of it.
        budget.check(max(math.prod(array.shape), 3 * math.prod(array.chunks)) * item)
    return array


# --------------------------------------------------------------------- files read row by row

#: Rows, and their labels where the file has any.
RowsAndLabels = tuple[NDArray[Any], NDArray[Any] | None]


class RowFile(ABC):
    """Rows of one shard: what errors call it, its shape and dtype, and whether it has labels."""

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
    """Rows of an array that is sliced: NumPy's, a memory map, a data set of HDF5."""

    def __init__(self, array: Any, name: str = "X") -> None:
        self._array, self.name = array, name
        self.shape, self.dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Slices of the array."""
        for first in range(start, self.shape[0], length):
            yield np.asarray(self._array[first : first + length]), None


class NpyRows(RowFile):
    """Rows of a file ``.npy``; not mapped: a map of a file that is cut off ends the process."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        regular_size(path)
        with open(path, "rb") as file:
            self._state = _state(file)
            self.shape, order, self.dtype = read_header(file, path)
            self._offset = file.tell()
        if order == "F" and len(self.shape) > 1 and min(self.shape) > 1:
            raise ValueError(
                f"{path}: the array is stored column by column, so that rows cannot be read one "
                "after another. Save it again: np.save(path, np.ascontiguousarray(X))."
            )

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read rows; the file must stay as it was when it was opened."""
        n_rows, width = self.shape[0], self.shape[1:]
        row_bytes = math.prod(width) * self.dtype.itemsize
        with open(self.path, "rb") as file:
            for first in range(start, n_rows, length):
                if _state(file) != self._state:
                    raise ValueError(
                        f"{self.path}: the file changed while it was being read, before row "
                        f"{first} of {n_rows}. Write it to the end first, then open it again."
                    )
                rows = np.empty((min(length, n_rows - first), *width), dtype=self.dtype)
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


class ZarrRows(RowFile):
    """Rows of a Zarr array, or of a group with one array of features and perhaps one of labels."""

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
        self._labels = None
        if is_group and is_zarr(path / label):
            self._labels = open_zarr_array(path / label)
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
        with reading(self.name, f"rows {first} to {last - 1}"):
            return np.asarray(array[first:last])

    def identity(self) -> list[Any]:
        """Also how many chunks there are."""
        return [*super().identity(), self._n_chunks]
