"""Atomic writes, locks, and files with checksums.

All files are written by :func:`atomic_write`, and untrusted files are measured by
:func:`regular_size` before they are opened. JSON files carry a SHA-256 of their content, since
users may edit them; archives of arrays rely on the CRC of zip files. Neither is a signature.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import secrets
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from zslearn._utils._messages import warn_once, warn_user


def regular_size(path: Any) -> int:
    """Size of a regular file; pipes and devices, which may never end, are refused."""
    # Files at URLs have no path of the operating system.
    status = os.stat(path) if isinstance(path, str | PathLike) else path.stat()
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(
        errno.EINVAL, "not a regular file but a pipe or a device; copy it to a file", str(path)
    )


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory: use a file name", str(path))
    folder = next(place for place in path.absolute().parents if place.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def cache_folder(data_home: str | PathLike[str] | None = None) -> Path:
    """Return `data_home`, or the folder in ``ZSLEARN_CACHE``, or the user's cache folder."""
    folder = data_home or os.environ.get("ZSLEARN_CACHE") or platformdirs.user_cache_dir("zslearn")
    return Path(folder).expanduser()


@contextlib.contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `path`; the file written there replaces `path` at the end.

    After an error the temporary file is removed and `path` is unchanged. The temporary name keeps
    the suffix, from which some writers infer the format. `durable` files survive a power loss.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path)
    unique = f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}.tmp{path.suffix}"
    temporary = path.with_name(unique)
    try:
        yield temporary
        if durable:
            _sync(temporary, os.O_RDWR)
        os.replace(temporary, path)
        # Some systems cannot open or sync folders.
        with contextlib.suppress(OSError):
            if durable:
                _sync(path.parent, os.O_RDONLY)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        # The error about a full disk has no file name.
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)
        raise


def _sync(path: Path, flags: int) -> None:
    """Flush the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale(path: Path, seconds: float = 24 * 3600) -> None:
    """Remove stale temporary files of killed processes; recent ones may still be in use."""
    oldest = time.time() - seconds
    for stale in path.parent.glob(f".{glob.escape(path.stem)}.*.tmp{glob.escape(path.suffix)}"):
        with contextlib.suppress(OSError):
            if stale.stat().st_mtime < oldest:
                stale.unlink()


# Errors of file systems without locks, such as some network drives.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@contextlib.contextmanager
def locked(
    path: Path, *, limit: float = 0.0, waiting: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Lock `path` for other callers of this function; a RuntimeError after `limit` seconds.

    The operating system releases the lock when the process ends; the hidden lock file remains.
    Yields False if the file system does not support locks.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire(timeout=limit, poll_interval=0.1)
    except Timeout:
        raise RuntimeError(
            f"{path} is in use by another process: try again when that has finished."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield lock.is_locked
    finally:
        lock.release()


CHECKSUM = "checksum"
#: The library writes no larger JSON files.
MAX_BYTES = 64 * 2**20


class DamagedFileError(ValueError):
    """A file is damaged or was changed; the message gives the reason."""


def write_checked_json(
    path: Path, content: Mapping[str, Any], *, indent: int | None = None
) -> None:
    """Write an object as JSON with a checksum, atomically."""
    # The checksum is that of what a reader will see: lists for tuples, and text for keys.
    plain = json.loads(json.dumps(dict(content)))
    plain[CHECKSUM] = _checksum(plain)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(plain, indent=indent) + "\n", encoding="utf-8")


def read_checked_json(path: Path) -> dict[str, Any]:
    """Read what :func:`write_checked_json` wrote."""
    if regular_size(path) > MAX_BYTES:
        raise DamagedFileError(f"larger than {MAX_BYTES >> 20} MiB")
    try:
        content = json.loads(path.read_bytes())
    # Numbers with too many digits, invalid bytes, and deep nesting.
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFileError(f"incomplete or not JSON ({reason})") from None
    if not isinstance(content, dict):
        raise DamagedFileError("not a JSON object")
    if CHECKSUM not in content:
        raise DamagedFileError("without a checksum, so that changes cannot be detected")
    checksum = content.pop(CHECKSUM)
    # Nesting that can just be read may be too deep to be written.
    with contextlib.suppress(ValueError, RecursionError):
        if checksum == _checksum(content):
            return content
    raise DamagedFileError("changed after it was written: its checksum does not match")


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in canonical form, regardless of whitespace and the order of keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# Minimum time between two writes of a checkpoint.
_CHECKPOINT_SECONDS = 5.0


class Checkpoint:
    """The intermediate result of a long computation, as a JSON value in a file.

    `key` is a fingerprint of the computation, and only the same computation reads the file. A
    `path` of None disables checkpoints.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key
        self._written = time.monotonic()

    def read(self, check: Callable[[Any], Any] = lambda done: done) -> Any:
        """The result after `check`; None without a valid file of this computation."""
        if self.path is None:
            return None
        try:
            content = read_checked_json(self.path)
            if content.get("key") == self.key:
                return check(content.get("done"))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, DamagedFileError) as error:
            warn_user(
                f"The checkpoint {self.path} is ignored: {error}. Its results are recomputed."
            )
        return None

    def is_due(self) -> bool:
        """Whether it is time for another write."""
        return self.path is not None and time.monotonic() - self._written > _CHECKPOINT_SECONDS

    def write(self, done: Any) -> None:
        """Write the result so far; a failure only causes a warning."""
        if self.path is None:
            return
        try:
            write_checked_json(self.path, {"key": self.key, "done": done})
        except OSError as error:
            warn_once(
                f"Checkpoints cannot be written to {self.path.parent} "
                f"({error.strerror or type(error).__name__}). The computation continues, but will "
                "start from the beginning if it is interrupted."
            )
        self._written = time.monotonic()


class DamagedCacheError(Exception):
    """A cached file exists, but is damaged."""


def read_arrays(path: Path, *, max_bytes: int = 1 << 30) -> dict[str, NDArray[Any]]:
    """Read a file of :func:`write_arrays`, up to a total number of bytes."""
    try:
        regular_size(path)
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
        if size > max_bytes:
            raise DamagedCacheError(f"it has {size} bytes")
        # zipfile does not compare the directory with the number of members that follows it: a
        # damaged length in the directory would hide the next array.
        with path.open("rb") as raw:
            raw.seek(-12, os.SEEK_END)
            expected = int.from_bytes(raw.read(2), "little")
        if len(members) != expected:
            raise DamagedCacheError(f"its directory lists {len(members)} of {expected} arrays")
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise DamagedCacheError("it contains objects other than arrays")
        return arrays
    except DamagedCacheError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    # Reading a damaged zip archive can raise almost any exception.
    except Exception as error:
        raise DamagedCacheError(f"{type(error).__name__}: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, durable: bool = True) -> None:
    """Write arrays to one file atomically."""
    with atomic_write(path, durable=durable) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
