"""Files that are whole or not there: digests, locks, JSON and arrays with checksums, fits."""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import inspect
import json
import os
import secrets
import stat
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from os import PathLike
from pathlib import Path
from types import CodeType
from typing import IO, Any, Self, TypeVar

import numpy as np
import pandas as pd
import platformdirs
from numpy.typing import NDArray

from zslearn._utils._array import is_foreign, to_numpy
from zslearn._utils._messages import warn_once, warn_user

# Classes whose instances a model file may hold, marked where they are defined.
#
# A file names a class, and that name is looked up here: nothing is ever imported because a file
# says so. Public classes of the library need no mark.

_Class = TypeVar("_Class", bound=type[Any])

#: Name in a file → class.
_PARTS: dict[str, type] = {}


def saved_part(cls: _Class) -> _Class:
    """Mark a class that fitted estimators hold, so that model files may hold it, too.

    Its state is its fields, where it is a dataclass or a named tuple, else its `__dict__`, or what
    its `__getstate__` returns. Types and shapes are declared with `saves`; a class with further
    invariants that a file made by hand could break checks them in `__post_init__`, or in
    `__setstate__`.
    """
    _PARTS[part_name(cls)] = cls
    return cls


def part_name(item: Any) -> str:
    """How a file names a class or a function of the library: by package and name, not by module."""
    return f"{'.'.join(item.__module__.split('.')[:2])}.{item.__qualname__}"


def saved_parts() -> dict[str, type]:
    """Every class that is marked, of the packages that were imported."""
    return dict(_PARTS)


# Digests that tell whether two computations are the same.


def fingerprint(*parts: Any) -> str:
    """A digest of what is given, by content.

    Arrays and frames count by what they hold; estimators by class and hyper-parameters; functions
    by name and code; mappings, sequences and sets item by item; what has a method
    ``fingerprint_parts()`` by what that gives; anything else by what `repr` says of it.
    """
    digest = hashlib.sha256()
    _add(digest, parts)
    return digest.hexdigest()


@functools.cache
def source_digest() -> str:
    """A digest of the package's source files: results kept by another source are not read."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    digest.update(f"<{type(part).__module__}.{type(part).__qualname__} ".encode())
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        digest.update(f"{part.dtype.str} {part.shape} ".encode())
        digest.update(_bytes(part))
    elif isinstance(part, np.ndarray):
        _add(digest, part.tolist())
    elif isinstance(part, pd.DataFrame):
        # What `repr` says of a long one leaves out its middle.
        _add(digest, [part.index.to_numpy(), part.columns.to_numpy(), part.to_numpy()])
        if "signature_scaling" in part.attrs:
            _add(digest, part.attrs["signature_scaling"])
    elif isinstance(part, (pd.Series, pd.Index)):
        _add(digest, part.to_frame())
    elif isinstance(part, Mapping):
        for key, value in part.items():
            _add(digest, key)
            _add(digest, value)
    elif isinstance(part, (list, tuple)):
        for item in part:
            _add(digest, item)
    elif isinstance(part, (set, frozenset)):
        # In an order that is the same in every process.
        digest.update("".join(sorted(fingerprint(item) for item in part)).encode())
    elif is_foreign(part):
        _add(digest, to_numpy(part))
    elif isinstance(part, functools.partial):
        _add(digest, [part.func, part.args, part.keywords])
    elif hasattr(part, "fingerprint_parts") and not inspect.isclass(part):
        _add(digest, part.fingerprint_parts())
    elif hasattr(part, "get_params") and not inspect.isclass(part):
        _add(digest, part.get_params(deep=False))
    elif inspect.isfunction(part):
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        _add(digest, [part.__module__, part.__qualname__, *_code(part.__code__)])
        _add(digest, [part.__defaults__, part.__kwdefaults__, cells])
    else:
        digest.update(repr(part).encode())
    digest.update(b">")


def _bytes(array: np.ndarray[Any, Any]) -> Any:
    """What an array holds, without a copy where that can be."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8) if flat.dtype.itemsize else b""


def _code(code: CodeType) -> list[Any]:
    """What a function does, and what functions do that it defines."""
    constants = [c for c in code.co_consts if not inspect.iscode(c)]
    inner = [_code(c) for c in code.co_consts if inspect.iscode(c)]
    return [code.co_code, code.co_names, constants, *inner]


def regular_size(path: str | PathLike[str]) -> int:
    """Bytes of a regular file; pipes and devices, which may be waited for without end, are refused.

    Whatever reads files from outside asks it before it opens one.
    """
    found = os.stat(path)
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(
        errno.EINVAL, "no regular file, but a pipe or a device; copy it into a file", str(path)
    )


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; it takes the place of `path` at the end.

    After an error the temporary file is removed and `path` is as it was. The temporary name keeps
    the ending, which tells some writers the format.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unique = f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}.tmp{path.suffix}"
    temporary = path.with_name(unique)
    try:
        yield temporary
        if durable:
            with open(temporary, "r+b") as file:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            _sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        # A full disk is reported without a name.
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)
        raise


def refuse_unwritable(path: Path) -> None:
    """Refuse a place where no file can be written, before anything is computed for it."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory: give the name of a file", str(path))
    folder = next(place for place in path.absolute().parents if place.exists())
    may_write = os.access(folder, os.W_OK | os.X_OK)
    for is_reason, reason in (
        (not folder.is_dir(), errno.ENOTDIR),
        (not may_write, errno.EACCES),
    ):
        if is_reason:
            raise OSError(reason, os.strerror(reason), str(path))


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last, as `fsync` of the file makes its content last."""
    # Some systems open or sync no folders: the name is then as safe as they make it.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# One process at a time.

# What systems answer whose folders cannot be locked, such as some network drives.
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_PAUSE = 0.1  # seconds between two looks at a lock

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        # Far behind the number of the process: bytes that are locked cannot be read.
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(
    path: Path, *, limit: float = 0.0, waiting: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Keep `path` from others that ask; after `limit` seconds a RuntimeError names who has it.

    The operating system ends the lock with the process, however that ends; the hidden file beside
    `path` stays. False where the file system has no locks.
    """
    end, has_waited = time.monotonic() + limit, False
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "ab+") as file:
        while True:
            try:
                _take(file.fileno())
                is_held = True
                break
            except OSError as error:
                if error.errno in _UNSUPPORTED:
                    is_held = False
                    break
            if not has_waited:
                has_waited = True
                waiting()
            if time.monotonic() >= end:
                file.seek(0)
                who = f"process {file.read(20).decode('ascii', 'replace') or 'unknown'}"
                raise RuntimeError(f"{path} is in use by {who}; try again when it has ended.")
            time.sleep(_PAUSE)
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield is_held


# JSON files that carry a checksum, so that a damaged or edited one is never taken for a good one.
# The checksum is over the content: spaces and the order of keys do not matter. It is no signature.

CHECKSUM = "checksum"
#: What is larger is nothing that the library wrote.
MAX_BYTES = 64 * 2**20
# Between two writes of a checkpoint.
_CHECKPOINT_SECONDS = 5.0


class DamagedFileError(ValueError):
    """A file is not what was written: its text says why."""


def write_checked_json(
    path: Path, content: Mapping[str, Any], *, indent: int | None = None
) -> None:
    """Write an object as JSON with its checksum, whole or not at all."""
    # As a reader will see it: tuples are lists, and keys are text.
    plain = json.loads(json.dumps(dict(content)))
    plain[CHECKSUM] = _checksum(plain)
    text = json.dumps(plain, indent=indent)
    try:
        _write(path, text)
    except FileNotFoundError:
        # Another program has just removed the folder, which is made again.
        _write(path, text)


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")


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
    try:
        is_same = content[CHECKSUM] == _checksum(content)
    # Nesting that can just be read may be too deep to write.
    except (ValueError, RecursionError):
        is_same = False
    if not is_same:
        raise DamagedFileError("changed after it was written: its checksum does not match")
    del content[CHECKSUM]
    return content


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in one canonical form, without the checksum itself."""
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


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


# Files that hold generated data between runs, and that prove to be whole before they are read:
# ``.npz`` archives whose comment, the last bytes, is the SHA-256 of the name and all bytes before.

CACHE_VARIABLE = "ZSLEARN_CACHE"
_DIGEST_LENGTH = 64  # hexadecimal digits
_STALE_SECONDS = 24 * 3600
_BLOCK = 1 << 20  # bytes
MAX_ARCHIVE_BYTES = 1 << 30


class DamagedCacheError(Exception):
    """The file is there, but it is not what was written under its name."""


def cache_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_home`, else the folder named by ``ZSLEARN_CACHE``, else the user's cache."""
    folder = data_home or os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("zslearn")
    return Path(folder).expanduser()


def _archive_checksum(file: IO[bytes], name: str, size: int) -> bytes:
    """Digest the name of the file and its bytes up to the digest itself, block by block."""
    digest = hashlib.sha256(f"{name}\n".encode())
    file.seek(0)
    left = size - _DIGEST_LENGTH
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()


def read_arrays(path: Path, *, max_bytes: int = MAX_ARCHIVE_BYTES) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote.

    The size and the checksum are compared before anything in the file is looked at.
    """
    try:
        size = regular_size(path)
        if not _DIGEST_LENGTH < size <= max_bytes:
            raise DamagedCacheError(f"it has {size} bytes")
        with open(path, "rb") as file:
            if _archive_checksum(file, path.name, size) != file.read(_DIGEST_LENGTH + 1):
                raise DamagedCacheError("the checksum does not match")
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


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, durable: bool = True) -> None:
    """Write arrays and their checksum so that a reader meets a whole file or none."""
    with replacing(path, durable=durable) as temporary:
        remove_stale(path)
        np.savez(temporary, **arrays)  # type: ignore[arg-type]
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.comment = bytes(_DIGEST_LENGTH)
        with open(temporary, "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            checksum = _archive_checksum(file, path.name, size)
            file.seek(size - _DIGEST_LENGTH)
            file.write(checksum)


def remove_stale(path: Path, seconds: float = _STALE_SECONDS) -> None:
    """Remove what killed processes left; a young file may belong to one that still writes."""
    oldest = time.time() - seconds
    for left in path.parent.glob(f".{glob.escape(path.stem)}.*.tmp{glob.escape(path.suffix)}"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < oldest:
                left.unlink()


Arrays = dict[str, NDArray[Any]]

#: A folder holds no more than this, in bytes, and no fit that would push most others out.
MAX_FIT_BYTES = 1 << 31
_MOST_OF_ALL = 4
# Beside the arrays of a fit: the seconds that it took.
_SECONDS_KEY = "seconds to fit"


class FitCache:
    """A folder of fits, in use in this thread `with` it; None keeps nothing."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        # Fits that were read instead of computed, and what these had taken.
        self.n_read, self.seconds = 0, 0.0
        self._token: Token[FitCache | None] | None = None

    def __enter__(self) -> Self:
        self._token = _active.set(None if self.folder is None else self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _active.reset(self._token)

    def get(
        self, parts: tuple[Any, ...], compute: Callable[[], Arrays], suits: Callable[[Arrays], bool]
    ) -> Arrays:
        """The arrays of a fit, read or computed; see :func:`cached_fit`."""
        assert self.folder is not None
        path = self.folder / f"fit-{fingerprint(source_digest(), *parts)[:40]}.npz"
        # What cannot be read is computed, as if it were not there.
        with contextlib.suppress(OSError, DamagedCacheError):
            arrays = read_arrays(path, max_bytes=MAX_FIT_BYTES)
            seconds = float(arrays.pop(_SECONDS_KEY))
            if suits(arrays):
                with contextlib.suppress(OSError):  # it may be gone meanwhile, or not ours to touch
                    os.utime(path)
                self.seconds += seconds
                self.n_read += 1
                return arrays
        start = time.perf_counter()
        arrays = compute()
        took = np.asarray(time.perf_counter() - start)
        size = sum(array.nbytes for array in arrays.values())
        # Nothing but time is lost where the disk is full.
        with contextlib.suppress(OSError):
            if size <= MAX_FIT_BYTES // _MOST_OF_ALL:
                self._remove_oldest(size)
                write_arrays(path, arrays | {_SECONDS_KEY: took}, durable=False)
        return arrays

    def _remove_oldest(self, size: int) -> None:
        """Remove fits that were not used for longest until another one has its place."""
        assert self.folder is not None
        files = [(path.stat(), path) for path in self.folder.glob("fit-*.npz")]
        total = size + sum(found.st_size for found, _ in files)
        for found, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
            if total <= MAX_FIT_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= found.st_size


_active: ContextVar[FitCache | None] = ContextVar("fit_cache", default=None)


def cached_fit(
    parts: tuple[Any, ...],
    compute: Callable[[], Arrays],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> Arrays:
    """Read a fit where one of the same parts is kept; else compute it, and keep it."""
    cache = _active.get()
    return compute() if cache is None else cache.get(parts, compute, suits)


def cached_results(
    parts: tuple[Any, ...],
    solve: Callable[[], Iterable[Any]],
    names: Sequence[str],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> list[dict[str, Any]]:
    """Some attributes of each of several results, which are cached as one array of each."""

    def compute() -> Arrays:
        results = list(solve())
        return {name: np.stack([getattr(result, name) for result in results]) for name in names}

    arrays = cached_fit(parts, compute, suits)
    values = zip(*(arrays[name] for name in names), strict=True)
    return [
        {name: x if x.ndim else x.item() for name, x in zip(names, row, strict=True)}
        for row in values
    ]


def caches_fits(X: Any) -> bool:
    """Whether fits of these rows are kept now: those of NumPy's arrays."""
    return _active.get() is not None and isinstance(X, np.ndarray)
