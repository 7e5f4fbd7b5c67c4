"""Several arrays in one NumPy file ``.npz``, written whole and read with care."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn.utils import plain, replacing

#: A compressed array may be this many times larger than it is in the file.
_MULTIPLE = 64
_BESIDE = 64 * 2**20


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays under their names, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays by name; Python objects and arrays that are not as large as they claim are refused."""
    with open(path, "rb") as file:
        try:
            return _members(file, _MULTIPLE * path.stat().st_size + _BESIDE)
        # zipfile, zlib and the parser of NumPy's headers each raise errors of their own.
        except Exception as error:
            reason = plain(str(error).partition("\n")[0], 200) or type(error).__name__
            raise ValueError(f"{plain(path)}: the arrays cannot be read ({reason}).") from error


def _members(file: IO[bytes], allowed: int) -> dict[str, NDArray[Any]]:
    """All arrays of an open file, which together take no more bytes than allowed."""
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > allowed:
            raise ValueError("it claims to hold far more than its size allows")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {plain(name)!r} twice")
            with archive.open(member) as data:
                arrays[name] = _read(data, member.file_size)
    return arrays


def _read(file: IO[bytes], size: int) -> NDArray[Any]:
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of NumPy's format")
    shape, is_fortran, dtype = readers[version](file)
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"an array of dtype {dtype} and shape {shape}")
    if n_bytes != size - file.tell():
        raise ValueError(f"an array of {n_bytes} bytes in {size - file.tell()}")
    data = file.read(n_bytes)
    if len(data) != n_bytes:
        raise ValueError("an array is cut short")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")
    return array.copy()


def text_array(texts: list[str]) -> NDArray[np.str_]:
    """Texts as an array that needs no pickle, also if there are none."""
    return np.asarray(texts, dtype=np.str_)


def json_array(content: Any) -> NDArray[np.uint8]:
    """What JSON can hold, as bytes in an array."""
    return np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)


def array_json(array: NDArray[Any]) -> Any:
    """What :func:`json_array` was given."""
    try:
        return json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what should be JSON is not ({plain(error, 100)})") from error
