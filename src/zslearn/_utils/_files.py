"""Files that are there whole or not at all: written beside and renamed, locked, checked when read.

Whole-file writers go through :func:`atomic_write`. What may come from outside is measured by
:func:`regular_size` before it is opened. JSON carries a SHA-256 of its content, since people edit
it; archives of arrays rely on the CRC of zip files. Neither is a signature.
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


def regular_size(path: str | PathLike[str]) -> int:
    """Bytes of a regular file; pipes and devices, whose reading may never end, are refused."""
    found = os.stat(path)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(
        errno.EINVAL, "no regular file, but a pipe or a device; copy it into a file", str(path)
    )


def refuse_unwritable(path: Path) -> None:
    """Refuse a place where no file can be written, before anything is computed for it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory: give the name of a file", str(path))
    folder = next(place for place in path.absolute().parents if place.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def cache_folder(data_home: str | PathLike[str] | None = None) -> Path:
    """Return `data_home`, else the folder named by ``ZSLEARN_CACHE``, else the user's cache."""
    folder = data_home or os.environ.get("ZSLEARN_CACHE") or platformdirs.user_cache_dir("zslearn")
    return Path(folder).expanduser()


@contextlib.contextmanager
def atomic_write(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; the file replaces `path` at the end.

    After an error the temporary file is removed and `path` is as it was. The temporary name keeps
    the ending, which tells some writers the format. `durable` files outlast a loss of power.
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
        # Some systems open or sync no folders: the name is then as durable as they make it.
        with contextlib.suppress(OSError):
            if durable:
                _sync(path.parent, os.O_RDONLY)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        # A full disk is reported without a name.
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
    """Remove temporary files of killed processes; a young one may still be written."""
    oldest = time.time() - seconds
    for left in path.parent.glob(f".{glob.escape(path.stem)}.*.tmp{glob.escape(path.suffix)}"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < oldest:
                left.unlink()


# What systems answer whose folders cannot be locked, such as some network drives.
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@contextlib.contextmanager
def locked(
    path: Path, *, limit: float = 0.0, waiting: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Keep `path` from others that ask; after `limit` seconds of waiting, a RuntimeError.

    The operating system ends the lock with the process, however that ends; the hidden file beside
    `path` stays. False where the file system has no locks.
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
            f"{path} is in use by another process; try again when it has ended."
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    try:
        yield lock.is_locked
    finally:
        lock.release()


CHECKSUM = "checksum"
#: What is larger is nothing that the library wrote.
MAX_BYTES = 64 * 2**20


class DamagedFileError(ValueError):
    """A file is not what was written: the message gives the reason."""


def write_checked_json(
    path: Path, content: Mapping[str, Any], *, indent: int | None = None
) -> None:
    """Write an object as JSON with its checksum, whole or not at all."""
    # As a reader will see it: tuples are lists, and keys are text.
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
    # Numbers of too many digits, other bytes, and nesting without end.
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFileError(f"not whole, or no JSON ({reason})") from None
    if not isinstance(content, dict):
        raise DamagedFileError("not an object of JSON")
    if CHECKSUM not in content:
        raise DamagedFileError("without a checksum, so that nothing tells whether it is as written")
    found = content.pop(CHECKSUM)
    # Nesting that can just be read may be too deep to write.
    with contextlib.suppress(ValueError, RecursionError):
        if found == _checksum(content):
            return content
    raise DamagedFileError("changed after it was written: its checksum does not match")


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in one canonical form: spaces and the order of keys do not count."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# Between two writes of a checkpoint.
_CHECKPOINT_SECONDS = 5.0


class Checkpoint:
    """What a long computation has finished, in a file that only the same computation reads.

    `key` is a fingerprint of the computation; `path` may be None, which keeps nothing. What was
    done is any JSON value.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key
        self._written = time.monotonic()

    def read(self, check: Callable[[Any], Any] = lambda done: done) -> Any:
        """What `check` makes of what was done; None without a whole file of this computation."""
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
                f"Passed over the checkpoint {self.path}: {error}. What it held is computed again."
            )
        return None

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write for another one."""
        return self.path is not None and time.monotonic() - self._written > _CHECKPOINT_SECONDS

    def write(self, done: Any) -> None:
        """Keep what is done; the computation goes on if it cannot be written."""
        if self.path is None:
            return
        try:
            write_checked_json(self.path, {"key": self.key, "done": done})
        except OSError as error:
            warn_once(
                f"Could not write checkpoints to {self.path.parent} "
                f"({error.strerror or type(error).__name__}). The computation goes on; if it is "
                "stopped, it starts anew."
            )
        self._written = time.monotonic()


class DamagedCacheError(Exception):
    """The file is there, but it is not what was written under its name."""


def read_arrays(path: Path, *, max_bytes: int = 1 << 30) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote, up to a number of bytes in all."""
    try:
        regular_size(path)
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            if size > max_bytes:
                raise DamagedCacheError(f"it has {size} bytes")
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise DamagedCacheError("it holds other things than arrays")
        return arrays
    except DamagedCacheError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(path) from error
    # A damaged zip archive can raise nearly anything, and the answer is always the same.
    except Exception as error:
        raise DamagedCacheError(f"{type(error).__name__}: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, durable: bool = True) -> None:
    """Write arrays so that a reader meets a whole file or none."""
    with atomic_write(path, durable=durable) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
