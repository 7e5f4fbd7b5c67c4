"""Files that hold generated data between runs, and that prove to be whole when read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from zslearn.utils import replacing

CACHE_VARIABLE = "ZSLEARN_CACHE"
_CHECKSUM = "sha256"
_STALE_SECONDS = 24 * 3600


class DamagedCacheError(Exception):
    """The file is there, but it is not what was written under its name."""


def cache_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_home`, else the folder named by ``ZSLEARN_CACHE``, else the user's cache."""
    folder = data_home or os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("zslearn")
    return Path(folder).expanduser()


def _checksum(name: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Digest the arrays with their names and the name of the file."""
    digest = hashlib.sha256(name.encode())
    for key in sorted(arrays):
        array = np.ascontiguousarray(arrays[key])
        digest.update(f"\n{key} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DamagedCacheError
        The file is truncated, altered, of other origin, or cannot be read.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        expected = str(arrays.pop(_CHECKSUM))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    # A damaged zip archive can raise nearly anything, and the answer is always the same.
    except Exception as error:
        raise DamagedCacheError(f"{type(error).__name__}: {error}") from error
    if _checksum(path.name, arrays) != expected:
        raise DamagedCacheError("the checksum does not match")
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and their checksum so that a reader meets a whole file or none.

    Raises
    ------
    OSError
        The folder cannot be made or written.
    """
    checksum = np.array(_checksum(path.name, arrays))
    with replacing(path) as temporary:
        _remove_stale(path)
        np.savez(temporary, **{_CHECKSUM: checksum}, **arrays)  # type: ignore[arg-type]


def _remove_stale(path: Path) -> None:
    """Remove what killed processes left; a young file may belong to one that still writes."""
    oldest = time.time() - _STALE_SECONDS
    for left in path.parent.glob(f".{path.stem}.*.tmp{path.suffix}"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < oldest:
                left.unlink()
