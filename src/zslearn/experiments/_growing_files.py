"""Arrays that grow on disk row by row, and are taken up again after an interruption."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


class GrowingArray:
    """A file ``.npy`` of a known shape that is written from the first row to the last.

    Until it is whole it lies beside its name, with the ending ``.part``.

    Parameters
    ----------
    path : Path
        What it will be called.
    shape : tuple of int
        Of the whole array.
    dtype : dtype
        Of its numbers.
    """

    def __init__(self, path: Path, shape: tuple[int, int], dtype: Any) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._part = path.with_name(f"{path.name}.part")
        header = BytesIO()
        described = {"shape": shape, "fortran_order": False, "descr": self.dtype.str}
        npy.write_array_header_1_0(header, described)
        self._header = header.getvalue()
        self._row_bytes = shape[1] * self.dtype.itemsize
        self._size = len(self._header) + shape[0] * self._row_bytes
        mode = "r+b" if self._part.exists() else "w+b"
        self._file = open(self._part, mode)  # noqa: SIM115 (closed by __exit__)
        if not _lock(self._file):
            self._file.close()
            raise RuntimeError(f"{self._part}: another process is writing to it.")

    def n_rows(self) -> int:
        """Whole rows of this array that are there already."""
        self._file.seek(0)
        if self._file.read(len(self._header)) != self._header:
            return 0
        return (self._file.seek(0, os.SEEK_END) - len(self._header)) // self._row_bytes

    def begin(self, n_done: int) -> None:
        """Keep some rows and cut off what follows them."""
        if not n_done:
            self._file.seek(0)
            self._file.write(self._header)
        self._file.truncate(len(self._header) + n_done * self._row_bytes)
        self._file.seek(0, os.SEEK_END)

    def append(self, rows: NDArray[Any]) -> None:
        """Write the next rows."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())

    def sync(self) -> None:
        """Make what was written last."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Give the whole array its name."""
        self.sync()
        if self._file.tell() != self._size:
            raise ValueError(f"{self._part}: not all rows were written.")
        self._file.close()
        os.replace(self._part, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def _lock(file: IO[bytes]) -> bool:
    """Keep other processes from a file until it is closed; where the system can."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
