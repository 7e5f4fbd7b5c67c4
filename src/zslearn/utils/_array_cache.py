"""Files that hold generated data between runs, and that prove to be whole before they are read.

A file is an ordinary ``.npz`` archive without compression. Its comment, which is its last bytes, is
the SHA-256 of its name and of all bytes before.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from zslearn.utils._files import replacing

CACHE_VARIABLE = "ZSLEARN_CACHE"
_DIGEST_LENGTH = 64  # hexadecimal digits
_STALE_SECONDS = 24 * 3600
_BLOCK = 1 << 20  # bytes
MAX_BYTES = 1 << 30


class DamagedCacheError(Exception):
    """The file is there, but it is not what was written under its name."""


def cache_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_home`, else the folder named by ``ZSLEARN_CACHE``, else the user's cache."""
    folder = data_home or os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("zslearn")
    return Path(folder).expanduser()


def _checksum(file: IO[bytes], name: str, size: int) -> bytes:
    """Digest the name of the file and its bytes up to the digest itself, block by block."""
    digest = hashlib.sha256(f"{name}\n".encode())
    file.seek(0)
    left = size - _DIGEST_LENGTH
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()


def read_arrays(path: Path, *, max_bytes: int = MAX_BYTES) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote.

    The size and the checksum are compared before anything in the file is looked at, and its
    arrays together are no larger than the file.

    Parameters
    ----------
    path : Path
        The file.
    max_bytes : int
        A larger file is not read.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DamagedCacheError
        The file is truncated, altered, of other origin, too large, or cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DamagedCacheError("this is no file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not _DIGEST_LENGTH < size <= max_bytes:
                raise DamagedCacheError(f"it has {size} bytes")
            if _checksum(file, path.name, size) != file.read(_DIGEST_LENGTH + 1):
                raise DamagedCacheError("the checksum does not match")
            _check_members(file, size)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
    except DamagedCacheError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    # A damaged zip archive can raise nearly anything, and the answer is always the same.
    except Exception as error:
        raise DamagedCacheError(f"{type(error).__name__}: {error}") from error


def _check_members(file: IO[bytes], size: int) -> None:
    """Refuse what unfolds: a checksum can be computed by whoever plants a file."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise DamagedCacheError("it is compressed")
        if sum(member.file_size for member in members) > size:
            raise DamagedCacheError("it claims to hold more than it can")
        for member in members:
            with archive.open(member) as content:
                version = np.lib.format.read_magic(content)
                if version != (1, 0):
                    raise DamagedCacheError("it holds arrays of another kind")
                shape, _, dtype = np.lib.format.read_array_header_1_0(content)
                if dtype.itemsize * math.prod(shape) > member.file_size:
                    raise DamagedCacheError("it claims to hold more than it can")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, durable: bool = True) -> None:
    """Write arrays and their checksum so that a reader meets a whole file or none.

    Parameters
    ----------
    path : Path
        The file.
    arrays : mapping of str to ndarray
        By name.
    durable : bool, default=True
        Whether it waits until the file is on the disk.

    Raises
    ------
    OSError
        The folder cannot be made or written.
    """
    with replacing(path, durable=durable) as temporary:
        _remove_stale(path)
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.comment = bytes(_DIGEST_LENGTH)
        with open(temporary, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            checksum = _checksum(file, path.name, size)
            file.seek(size - _DIGEST_LENGTH)
            file.write(checksum)


def _remove_stale(path: Path) -> None:
    """Remove what killed processes left; a young file may belong to one that still writes."""
    oldest = time.time() - _STALE_SECONDS
    for left in path.parent.glob(f".{path.stem}.*.tmp{path.suffix}"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < oldest:
                left.unlink()
