"""Files that hold many rows, read a few at a time: NumPy's files and arrays of other libraries."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._array_files import read_header
from zslearn.datasets._limits import reason

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
        """Read rows from `start` to the end, at most `length` at a time.

        Parameters
        ----------
        start, length : int
            In rows.

        Yields
        ------
        rows : ndarray of shape (n_rows, n_features)
            In the dtype of the file.
        labels : ndarray of shape (n_rows,) or None
            Their labels.
        """

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
