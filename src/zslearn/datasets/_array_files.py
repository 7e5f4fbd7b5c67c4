"""Arrays in NumPy's files: ``.npy``, which is memory-mapped, and ``.npz``."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn.datasets._limits import Budget, FileLimitError, reason
from zslearn.utils import name_some

#: The array that is read out of several: features, or labels.
_WANTED = ("X", "features")
_LABELS = ("y", "labels")
_BLOCK = 2**20


class _UnreadableError(ValueError):
    """What is wrong with an array, without the name of its file."""


def read_array(path: Path) -> NDArray[Any]:
    """Read an array from a NumPy file; Python objects are never loaded.

    Parameters
    ----------
    path : Path
        A file ``.npy``, or ``.npz`` with one array or one that is named "X" or "features".

    Returns
    -------
    ndarray
        The array; that of a file ``.npy`` is a memory map.

    Raises
    ------
    ValueError
        The file is damaged, of another kind, or would take too much memory.
    OSError
        The file cannot be opened.
    """
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
    """The labels that stand beside the features in a file ``.npz``, or None.

    Parameters
    ----------
    path : Path
        A file with an array named "y" or "labels".

    Returns
    -------
    ndarray or None
        The array.

    Raises
    ------
    ValueError
        The file is damaged or would take too much memory.
    """
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
    """Shape, order and dtype of an array that fills a file of this size; stops behind them.

    Parameters
    ----------
    file : binary file
        At its beginning.
    size : int
        Its length in bytes.

    Returns
    -------
    shape, order, dtype
        Of the array.
    """
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
