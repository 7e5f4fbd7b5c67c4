"""Fetching the archives of data sets.

Their addresses, sizes and checksums are data, in ``_archives.json``. Pooch, which other libraries
use for this, has the checksums, but neither trust on first use, nor transfers that continue, nor a
limit on time, nor a lock between processes, nor limits on what is unpacked; those would remain
here, and it would be one more dependency.
"""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import hashlib
import http.client
import io
import json
import lzma
import os
import re
import secrets
import ssl
import stat
import struct
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from zslearn._utils._files import DamagedFileError, read_checked_json, write_checked_json
from zslearn._utils._messages import plain, warn_user
from zslearn.datasets._files import data_home

# One process at a time.
#
# The lock is the operating system's: it ends with the process that holds it, however that ends,
# so
# that no lock file is ever left to be mistaken for a living process.

_PAUSE = 0.1  # seconds between two tries
# What systems answer whose folders cannot be locked, such as some network drives.
_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path, *, limit: float, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of a file, which exists only meanwhile."""
    descriptor, is_held = _open_locked(path, limit, waiting)
    try:
        yield is_held
    finally:
        # Removed before it is released: who opened it meanwhile finds it gone, and tries anew.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _open_locked(path: Path, limit: float, waiting: Callable[[], None]) -> tuple[int, bool]:
    end = time.monotonic() + limit
    has_waited = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(descriptor)
            if _is_at(path, descriptor):
                return descriptor, True
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return descriptor, False
            if not has_waited:
                has_waited = True
                waiting()
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= end:
            raise TimeoutError(f"another process has held {path} for {limit:.0f} s")
        time.sleep(_PAUSE)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one of that name; a former holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


# What is known of a fetched archive: where it came from, and whether it was proved.

#: The record inside a fetched folder.
RECORD = "zslearn-fetched.json"
_LEVELS = 3  # a data set's folder, data/, and the folder of the archive
_MAX_BYTES = 1 << 16
VERIFIED, FIRST_USE, UNKNOWN = "verified", "first use", "unknown"


@dataclass(frozen=True)
class Provenance:
    """Where fetched files came from.

    Parameters
    ----------
    source : str
        The address, or the path of an archive that was brought by other means.
    sha256 : str
        Checksum of the archive.
    size : int
        Its size in bytes.
    trust : {"verified", "first use", "unknown"}
        "verified": the checksum was known beforehand. "first use": it was not; the archive is
        taken for what it claims to be, and any other is refused from then on. "unknown": there is
        a record, but it cannot be read or is damaged; the rest is empty then.
    """

    source: str
    sha256: str
    size: int
    trust: str

    @property
    def is_verified(self) -> bool:
        """Whether the checksum was known beforehand."""
        return self.trust == VERIFIED

    @property
    def mark(self) -> str:
        """What the version of a data set says of it; nothing where it is verified."""
        if self.is_verified:
            return ""
        return f"/unverified-{self.sha256[:8]}" if self.trust == FIRST_USE else "/unknown-origin"


def provenance_of(folder: Path) -> Provenance | None:
    """Find out where the files of a data set came from."""
    found: list[Provenance] = []
    for place in [folder, *folder.absolute().parents][:_LEVELS]:
        path = place / RECORD
        try:
            found.append(read_record(path))
        except (OSError, DamagedFileError):
            if os.path.lexists(path):
                found.append(Provenance("", "", 0, UNKNOWN))
    return next((item for item in found if not item.is_verified), found[0] if found else None)


def unproved(*folders: Path) -> str:
    """What the version of a data set says of folders whose archives nobody could check."""
    known = [provenance_of(folder) for folder in folders]
    return "".join(dict.fromkeys(item.mark for item in known if item is not None))


def read_record(path: Path) -> Provenance:
    """Read what `write_record` wrote."""
    if path.stat().st_size > _MAX_BYTES:
        raise DamagedFileError("too large to be a record")
    content = read_checked_json(path)
    if not _is_record(content):
        raise DamagedFileError("no record of a fetched archive")
    return Provenance(**content)


def _is_record(content: dict[str, Any]) -> bool:
    return (
        content.keys() == Provenance.__dataclass_fields__.keys()
        and isinstance(content["source"], str)
        and isinstance(content["sha256"], str)
        and re.fullmatch("[0-9a-f]{64}", content["sha256"]) is not None
        and type(content["size"]) is int
        and content["trust"] in (VERIFIED, FIRST_USE)
    )


def write_record(path: Path, provenance: Provenance) -> None:
    """Write a record, whole or not at all."""
    write_checked_json(path, asdict(provenance), indent=2)


# What is in a zip or tar archive that may be damaged or hostile.
#
# Sizes are looked at before anything is read that they announce. The members come one after the
# other; each must be read before the next is asked for.

_CHUNK_MEMBERS = 1 << 16  # bytes
# A list of 200,000 members with names of usual length.
_MAX_ZIP_READ = 1 << 26
# What a tar archive may say about one member: long names and such.
_MAX_TAR_HEADER = 1 << 14
# Beside the members: headers, padding and what follows the end.
_TAR_OVERHEAD = 1 << 28
# xz -9 needs 65 MiB.
_MAX_XZ_MEMORY = 1 << 28
_BLOCK = 512
_MAX_DEPTH, _MAX_NAME, _MAX_PART = 32, 1024, 255  # levels, bytes, bytes
# The others need memory without a limit that could be set.
_ZIP_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class ArchiveError(ValueError):
    """An archive is damaged, is not the expected one, or holds what is not unpacked."""


@dataclass(frozen=True)
class Member:
    """A file or folder in an archive; `open` also checks what is said about it."""

    name: PurePosixPath
    size: int
    is_folder: bool
    open: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]


Members = Iterator[Member]


def damaged(error: Exception) -> str:
    """Say that an archive is damaged, in words that cannot steer a terminal."""
    reason = plain(error, 200) or type(error).__name__
    if isinstance(error, NotImplementedError):
        return f"the archive cannot be read ({reason})."
    return f"the archive is damaged ({reason})."


def _shown(name: str) -> str:
    return f"member '{plain(name, 80)}'"


def _checked_name(name: str) -> PurePosixPath:
    """The name as a path below a folder; the folder itself is ``.``."""
    pure = PurePosixPath(name)
    if not name.strip("/") or name.startswith("/") or "\\" in name or ":" in name:
        raise ArchiveError(f"{_shown(name)} has an absolute or foreign name.")
    if ".." in pure.parts:
        raise ArchiveError(f"{_shown(name)} leads out of the folder.")
    if not name.isprintable():
        raise ArchiveError(f"{_shown(name)} has a name that cannot be printed.")
    if (
        len(pure.parts) > _MAX_DEPTH
        or len(name.encode()) > _MAX_NAME
        or any(len(part.encode()) > _MAX_PART for part in pure.parts)
    ):
        raise ArchiveError(f"{_shown(name)} has too long a name, or too many levels.")
    return pure


# ------------------------------------------------------------------------------------- zip


def zip_members(file: IO[bytes]) -> Members:
    """The members of a zip archive. Those of folders are opened, too: it compares their names."""
    reader: Any = _SmallReads(file)
    with zipfile.ZipFile(reader) as archive:
        infos = archive.infolist()
        _check_zip_list(file, infos)
        for info in infos:
            yield _zip_member(archive, info)


class _SmallReads:
    """A file that does not read more at once than a limit, whatever it is asked for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self.tell())
        size = left if size < 0 else min(size, left)
        if size > _MAX_ZIP_READ:
            raise ArchiveError("its list of members is too long.")
        return self._file.read(size)


def _check_zip_list(file: IO[bytes], infos: list[zipfile.ZipInfo]) -> None:
    """Compare the list with the number at its end, and refuse members that share their bytes."""
    position = file.tell()
    file.seek(0, io.SEEK_END)
    file.seek(-min(file.tell(), 22 + 0xFFFF), io.SEEK_END)
    tail = file.read()
    file.seek(position)
    (count,) = struct.unpack_from("<H", tail, tail.rfind(b"PK\5\6") + 10)
    if count not in (len(infos) & 0xFFFF, 0xFFFF):
        raise ArchiveError(f"the archive is damaged ({len(infos)} members instead of {count}).")
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise ArchiveError(f"{_shown(info.orig_filename)} overlaps with another one.")
        end = info.header_offset + info.compress_size


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    name = _checked_name(info.orig_filename)
    shown = _shown(info.orig_filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveError(f"{shown} is a link or a device.")
    if info.flag_bits & 0x1:
        raise ArchiveError(f"{shown} is encrypted.")
    if info.compress_type not in _ZIP_METHODS:
        raise ArchiveError(f"{shown} is compressed by method {info.compress_type}, not deflate.")
    is_folder = info.orig_filename.endswith("/")
    is_contradictory = kind != 0 and is_folder != (kind == stat.S_IFDIR)
    if is_contradictory or (info.file_size if is_folder else not name.parts):
        raise ArchiveError(f"{shown} is both a file and a folder.")
    return Member(name, info.file_size, is_folder, lambda: archive.open(info))


# ------------------------------------------------------------------------------------- tar


def tar_members(file: IO[bytes], max_bytes: int) -> Members:
    """The members of a tar archive, in one pass to the end of the stream."""
    stream = _Stream(_decompressed(file), max_bytes + _TAR_OVERHEAD)
    try:
        archive = tarfile.open(fileobj=stream, mode="r:", encoding="utf-8")  # type: ignore[call-overload]  # noqa: SIM115
    except tarfile.ReadError:
        raise ArchiveError("this is neither a zip nor a tar archive.") from None
    with archive:
        while info := archive.next():
            archive.members.clear()  # it would keep them all
            yield _tar_member(archive, info, stream)
            stream.budget = _MAX_TAR_HEADER
    # A header that is not valid ends the list, too, and so does the end of the file.
    if stream.last != bytes(_BLOCK):
        raise ArchiveError("the archive is damaged (it has no end, or a header is not valid).")
    stream.budget = stream.left + 1
    while chunk := stream.read(_CHUNK_MEMBERS):
        if chunk.count(0) != len(chunk):
            raise ArchiveError("the archive is damaged (there is more behind its end).")


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo, stream: _Stream) -> Member:
    name = _checked_name(info.name)
    if info.isdir():
        return Member(name, 0, True, lambda: contextlib.nullcontext(io.BytesIO()))
    if not info.isreg() or info.issparse():
        raise ArchiveError(f"{_shown(info.name)} is a link or a device, or has holes.")
    if not name.parts:
        raise ArchiveError(f"{_shown(info.name)} is both a file and a folder.")

    def opened() -> IO[bytes]:
        stream.budget = info.size
        file = archive.extractfile(info)
        assert file is not None  # a regular file
        return file

    return Member(name, info.size, False, opened)


class _Stream:
    """What a tar archive is read from: forwards only, within a budget, and with a last block.

    A tar archive may announce a name of 3 GiB, which `tarfile` would read in.
    """

    def __init__(self, file: Any, limit: int) -> None:
        self._file = file
        self._position = 0
        self.left = limit
        self.budget = _MAX_TAR_HEADER
        self.last = b""

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or position < self._position:
            raise ArchiveError("the archive is damaged (its members are not in order).")
        while self._position < position:
            if not self._read_some(min(position - self._position, _CHUNK_MEMBERS)):
                break
        return self._position

    def read(self, size: int) -> bytes:
        if size > self.budget:
            raise ArchiveError(f"a member has a header of more than {_MAX_TAR_HEADER} bytes.")
        self.budget -= size
        pieces = []
        while size and (piece := self._read_some(size)):
            pieces.append(piece)
            size -= len(piece)
        self.last = b"".join(pieces)
        return self.last

    def _read_some(self, size: int) -> bytes:
        piece: bytes = self._file.read(size)
        self._position += len(piece)
        self.left -= len(piece)
        if self.left < 0:
            raise ArchiveError("it holds more than it says, or more than expected.")
        return piece


def _decompressed(file: IO[bytes]) -> Any:
    """What is inside the compression, if there is one; each checks its content at the end."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if start == b"\xfd7zXZ\0":
        return _XzFile(file)
    return file


class _XzFile:
    """As `lzma.LZMAFile`, with a limit on memory: an xz file may ask for gigabytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = self._new()

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        while True:
            data = b""
            if self._decoder.eof:
                # Another stream may follow, after zeros.
                data = self._decoder.unused_data.lstrip(b"\0")
                while not data:
                    chunk = self._file.read(_CHUNK_MEMBERS)
                    if not chunk:
                        return b""
                    data = chunk.lstrip(b"\0")
                self._decoder = self._new()
            elif self._decoder.needs_input:
                data = self._file.read(_CHUNK_MEMBERS)
                if not data:
                    raise EOFError("it ends too early")
            if out := self._decoder.decompress(data, size):
                return out


# Unpacking archives that come from elsewhere.
#
# Only plain files and folders below the target are written. The target appears whole or not at
# all.

MAX_BYTES = 32 * 2**30
MAX_MEMBERS = 200_000
_CHUNK_UNPACK = 1 << 20  # bytes
# What systems leave in archives beside the data.
_RUBBISH = {"__MACOSX", ".DS_Store"}
# It says where files came from, which is not for an archive to say.
_RESERVED = RECORD.casefold()


def unpack(
    path: Path,
    target: Path,
    *,
    max_bytes: int = MAX_BYTES,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Unpack a zip or tar archive so that `target` is whole or not there.

    A single folder that holds everything in the archive becomes `target` itself. An archive is
    read to its end, so that its checksums count; only a tar file without compression has none.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists already; nothing was unpacked.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        _unpack_into(path, temporary, max_bytes)
        inside = list(temporary.iterdir())
        whole = inside[0] if len(inside) == 1 and inside[0].is_dir() else temporary
        if finish is not None:
            finish(whole)
        os.rename(whole, target)
    finally:
        remove_tree(temporary)


def _unpack_into(path: Path, folder: Path, max_bytes: int) -> None:
    title = path.name.removesuffix(".part")
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(0)
            is_zip = start in (b"PK\3\4", b"PK\5\6")
            members = zip_members(file) if is_zip else tar_members(file, max_bytes)
            _write(members, folder, max_bytes)
    except ArchiveError as error:
        raise ArchiveError(f"{title}: {error} Nothing was unpacked.") from None
    except Exception as error:
        # Of the disk. Some decompressors raise OSError, too, but without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # A damaged archive can raise nearly anything, and the answer is always the same.
        raise ArchiveError(f"{title}: {damaged(error)} Nothing was unpacked.") from error


def remove_tree(folder: Path) -> None:
    """Remove a folder of any depth as far as possible, without an error that hides another one.

    `shutil.rmtree` ends with a RecursionError in some hundred levels.
    """
    folders = [os.fspath(folder)]
    for place in folders:  # grows meanwhile
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)
    for place in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(place)


def _write(members: Members, folder: Path, max_bytes: int) -> None:
    """Write the members one after the other, as they come."""
    declared = n_files = 0
    for number, member in enumerate(members, 1):
        declared += member.size
        if number > MAX_MEMBERS:
            raise ArchiveError(f"there are more than {MAX_MEMBERS} members.")
        if declared > max_bytes:
            raise ArchiveError(
                f"it holds at least {declared} bytes, more than the {max_bytes} expected."
            )
        if any(part.casefold() == _RESERVED for part in member.name.parts):
            raise ArchiveError(f"it holds {RECORD}, which only zslearn writes.")
        if _RUBBISH.intersection(member.name.parts):
            with member.open():
                continue
        _write_member(member, folder.joinpath(*member.name.parts))
        n_files += not member.is_folder
    if not n_files:
        raise ArchiveError("there are no files in it.")


def _write_member(member: Member, path: Path) -> None:
    try:
        if member.is_folder:
            path.mkdir(parents=True, exist_ok=True)
            with member.open():
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "xb")  # noqa: SIM115
    except (FileExistsError, NotADirectoryError):
        raise ArchiveError(f"member {str(member.name)!r} occurs twice.") from None
    written = 0
    with file, member.open() as source:
        # Little more than was declared, which may be a lie.
        while written <= member.size and (chunk := source.read(_CHUNK_UNPACK)):
            file.write(chunk)
            written += len(chunk)
    if written != member.size:
        raise ArchiveError(f"member {str(member.name)!r} is not as long as declared.")


# Bringing a file from an encrypted address, in as many connections as it takes.
#
# A server is believed in nothing: what it sends is bounded in time and size, and what it says is
# written in plain letters where a person reads it.

_CHUNK = 1 << 18  # bytes
_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 4
_WAIT = 1.0  # seconds before the second try; doubled each time


class FetchError(OSError):
    """A download did not succeed; what has come is kept if it can be continued."""


@dataclass(frozen=True)
class Wanted:
    """A file to bring: where it is, and what is known of it."""

    file: str
    urls: tuple[str, ...]
    size: int | None
    sha256: str | None


class _Interrupted(Exception):
    """The connection ended early; it may be continued."""


def download(wanted: Wanted, part: Path, *, progress: bool, deadline: float) -> str:
    """Bring a file, and return its address.

    The addresses are tried in their order, each several times as long as it can be continued.
    """
    end = time.monotonic() + deadline
    failures: list[str] = []
    for url in wanted.urls:
        failure = _try_address(url, part, wanted, progress, end)
        if failure is None:
            return url
        failures.append(f"{url}: {plain(failure, 200)}")
        if time.monotonic() >= end:
            failures.append(f"the limit of {deadline:.0f} seconds is over")
            break
    kept = part.stat().st_size if part.is_file() else 0
    if not kept:
        forget(part)
    raise FetchError(
        f"Could not download {wanted.file} ({'; '.join(failures)}). "
        + (f"{kept} bytes are kept; run it again to continue." if kept else "Nothing is kept.")
    )


def _try_address(url: str, part: Path, wanted: Wanted, progress: bool, end: float) -> str | None:
    """Try one address, and return why it failed, or None."""
    failure = ""
    wait = _WAIT
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(max(0.0, min(wait, end - time.monotonic())))
            wait *= 2
            if time.monotonic() >= end:
                break
        try:
            _transfer(url, part, wanted, progress, end)
            return None
        except (ArchiveError, FetchError):
            raise
        except _Interrupted as error:
            failure = str(error)
        except urllib.error.HTTPError as error:
            error.close()
            failure = f"the server answers {error.code} {error.reason}"
            if error.code < 500:
                break
        # ValueError: addresses that servers make up in redirects.
        except (OSError, http.client.HTTPException, ValueError) as error:
            failure = str(getattr(error, "reason", error)) or type(error).__name__
            break
    return failure


def _info_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def forget(part: Path) -> None:
    """Remove what has come of a file."""
    part.unlink(missing_ok=True)
    _info_path(part).unlink(missing_ok=True)


def parts_of(part: Path) -> list[Path]:
    """The files that a download keeps until it is done."""
    return [path for path in (part, _info_path(part)) if path.is_file()]


# ----------------------------------------------------------------------------- one connection


def _check_encrypted(url: str) -> None:
    if urlsplit(url).scheme != "https":
        raise urllib.error.URLError(f"{plain(url, 200)} is not encrypted (https), and is not asked")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to encrypted addresses only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_encrypted(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str], end: float) -> Any:
    """Ask for a file, by an opener that has no other way than https."""
    _check_encrypted(url)

    class Socket(ssl.SSLSocket):
        """A socket that also ends when the whole time is over, even if bytes trickle in."""

        def recv_into(self, *args: Any, **kwargs: Any) -> int:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the time is over")
            self.settimeout(min(_TIMEOUT, left))
            return super().recv_into(*args, **kwargs)

    context = ssl.create_default_context()
    context.sslsocket_class = Socket
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "zslearn", **headers})
    return opener.open(request, timeout=max(0.01, min(_TIMEOUT, end - time.monotonic())))


def _resume_headers(part: Path, wanted: Wanted) -> dict[str, str]:
    """Ask for the rest of the same file, if it can be told that it is the same."""
    if not part.is_file() or not part.stat().st_size:
        return {}
    headers = {"Range": f"bytes={part.stat().st_size}-"}
    try:
        mark = json.loads(_info_path(part).read_text("utf-8"))["mark"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        mark = None
    if isinstance(mark, str) and mark.isprintable() and mark.isascii():
        return {**headers, "If-Range": mark}
    return headers if wanted.sha256 else {}


def _transfer(url: str, part: Path, wanted: Wanted, progress: bool, end: float) -> None:
    """One connection: start at what is there and write until the end."""
    asked = _resume_headers(part, wanted)
    try:
        response = _open(url, asked, end)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not asked:
            raise
        error.close()
        total = re.fullmatch(r"bytes \*/(\d{1,18})", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == part.stat().st_size:
            return  # everything was there
        forget(part)
        raise _Interrupted("what was there does not fit the file on the server") from None
    with response:
        start, total_size = _placement(response, part, asked)
        expected = wanted.size or total_size
        if expected is not None and expected > MAX_BYTES:
            raise ArchiveError(f"{url} claims {expected} bytes, which is too much.")
        if wanted.size is not None and total_size not in (None, wanted.size):
            raise ArchiveError(
                f"{url} has {total_size} bytes instead of {wanted.size}; it is not the archive "
                "that was expected."
            )
        if not start:
            mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if mark and mark.startswith("W/"):
                mark = response.headers.get("Last-Modified")
            with _writing(part):
                info = json.dumps({"url": url, "mark": mark})
                with open(_info_path(part), "w", encoding="utf-8", opener=_no_link) as file:
                    file.write(info)
        _receive(response, part, start, expected, wanted.file, progress)
    arrived = part.stat().st_size
    if total_size is not None and arrived != total_size:
        raise _Interrupted(f"the connection ended after {arrived} of {total_size} bytes")


def _placement(response: Any, part: Path, asked: dict[str, str]) -> tuple[int, int | None]:
    """Where what comes belongs, and the size of the whole."""
    if response.status == 206 and asked:
        here = part.stat().st_size
        found = re.fullmatch(
            r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", response.headers.get("Content-Range", "")
        )
        if not found or int(found[1]) != here:
            forget(part)
            raise _Interrupted("the server continued at another place")
        return here, None if found[2] == "*" else int(found[2])
    if response.status != 200:
        raise urllib.error.URLError(f"the server answers {response.status}")
    length = re.fullmatch(r"[0-9]{1,18}", response.headers.get("Content-Length", ""))
    return 0, int(length[0]) if length else None


@contextlib.contextmanager
def _writing(part: Path) -> Any:
    """Tell trouble of the disk from that of the connection, which may be tried again."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise FetchError(
            f"Could not write {part} ({reason}). What has come is kept; run it again to continue."
        ) from error


def _no_link(path: str, flags: int) -> int:
    """Open a file, but not through a link, which could lead to any other file."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _receive(
    response: Any, part: Path, start: int, expected: int | None, title: str, progress: bool
) -> None:
    """Write what comes, and show it."""
    console = Console(stderr=True)
    columns: Sequence[Any] = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    is_visible = progress and console.is_terminal
    shown = Progress(*columns, console=console, disable=not is_visible)
    limit = MAX_BYTES if expected is None else expected
    with _writing(part):
        mode = "r+b" if start else "wb"
        file = open(part, mode, buffering=0, opener=_no_link)  # noqa: SIM115
    # Before version 14.1 a bar that is not shown still ends with an empty line.
    with file, shown if is_visible else nullcontext():
        with _writing(part):
            file.seek(start)
            file.truncate()
        task = shown.add_task(title, total=expected, completed=start)
        arrived = start
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _Interrupted(f"the connection broke after {arrived} bytes") from error
            if not chunk:
                return
            arrived += len(chunk)
            if arrived > limit:
                raise ArchiveError(f"{title} is longer than the {limit} bytes that were announced.")
            with _writing(part):
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            shown.advance(task, len(chunk))


#: Seconds for one download, and for waiting until another process has done its own.
DEADLINE = 6 * 3600.0


@dataclass(frozen=True)
class Archive:
    """A remote archive: where it is and what proves that it is the right one."""

    name: str
    file: str
    urls: tuple[str, ...]
    size: int | None
    sha256: str | None
    data_sets: tuple[str, ...]


@lru_cache
def archives() -> dict[str, Archive]:
    """The archives that can be fetched, by name."""
    text = resources.files("zslearn.datasets").joinpath("_archives.json").read_text("utf-8")
    return {
        name: Archive(
            name=name,
            **{**entry, "urls": tuple(entry["urls"]), "data_sets": tuple(entry["data_sets"])},
        )
        for name, entry in json.loads(text).items()
    }


def fetchable_names() -> list[str]:
    """What `fetch_archive` takes: the archives, then the data sets in them."""
    data_sets = [name for archive in archives().values() for name in archive.data_sets]
    return [*archives(), *data_sets]


def find_archive(name: str) -> Archive:
    """An archive by its own name or by that of a data set in it."""
    for archive in archives().values():
        if name == archive.name or name in archive.data_sets:
            return archive
    known = ", ".join(fetchable_names())
    raise ValueError(f"There is nothing to fetch under {name!r}; choose one of {known}.")


def fetch_archive(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
    deadline: float = DEADLINE,
) -> Path:
    """Download and unpack an archive of data sets, unless it is there already.

    A transfer that was interrupted is continued by the next call. The archive is compared with
    the size and checksum that are known of it. Where none are known it is unverified: a warning
    says so, the checksum is recorded, and from then on only the same archive is taken. A file
    ``zslearn-fetched.json`` in the folder says where it came from. Only encrypted addresses are
    asked. Of several processes that fetch the same archive one does it, and the others wait.

    Parameters
    ----------
    name : str
        An archive ("xlsa17", "standard_split", "cvpr18xian") or a data set in one ("CUB").
    folder : str, path or None, default=None
        Where to put it. By default the folder named by the environment variable ``ZSLEARN_DATA``,
        else the user's data folder. An archive that lies there already, brought by other means,
        is unpacked without a download.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    say : callable, optional
        Called with a few words on what is being done.
    deadline : float, default=21600
        How many seconds the download may take in all. What has come until then is kept.

    Returns
    -------
    Path
        The folder with the contents of the archive.

    Raises
    ------
    FetchError
        The download failed; what has come is kept in a file ``.part``. Or it cannot be written,
        or another process did not end in time.
    ValueError
        The archive is not the expected one, or is one that must not be unpacked. A download is
        then removed, an archive that you brought is left as it is.

    See Also
    --------
    load_xlsa17 : Load a data set that was fetched.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.datasets import fetch_archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "xlsa17" / "data").mkdir(parents=True)  # as if it had been fetched
    ...     fetch_archive("CUB", folder, say=print).name
    already there: ...xlsa17 (of unknown origin; move it away to fetch it anew)
    'xlsa17'
    """
    return fetch(
        find_archive(name),
        data_home(folder),
        progress=progress,
        say=say or _silent,
        deadline=deadline,
    )


def _silent(text: str) -> None:
    """Say nothing."""


def fetch(
    archive: Archive,
    folder: Path,
    *,
    progress: bool,
    say: Callable[[str], None],
    deadline: float = DEADLINE,
) -> Path:
    """Bring an archive into a folder and unpack it there."""
    target = folder / archive.name
    if _is_there(target):
        say(_already_there(target))
        # What a process left that was killed in its last step; it may not be ours to remove.
        if _leftovers(archive, folder):
            with contextlib.suppress(OSError), locked(_lock(target), limit=0, waiting=_nothing):
                _clean_up(archive, folder)
        return target

    def waiting() -> None:
        say(f"another process is fetching {archive.name}; waiting for it")

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(_lock(target), limit=deadline, waiting=waiting) as is_alone:
            if is_alone:
                _clean_up(archive, folder)
            if _is_there(target):
                say(_already_there(target))
            else:
                _bring(archive, folder, progress, say, deadline)
    except FetchError:
        raise
    except TimeoutError as error:
        raise FetchError(f"Could not fetch {archive.name}: {error}. Run it again later.") from error
    except OSError as error:
        reason = error.strerror or error
        raise FetchError(
            f"Could not fetch {archive.name} into {folder} ({reason}"
            + (f": {error.filename}" if error.filename else "")
            + "). Nothing was unpacked; make room or choose another folder, and run it again."
        ) from error
    return target


def _bring(
    archive: Archive, folder: Path, progress: bool, say: Callable[[str], None], deadline: float
) -> None:
    """Download, prove and unpack; a download that is not right is removed."""
    target, path = folder / archive.name, folder / archive.file
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FetchError(f"{target} is no folder; move it away to fetch {archive.name}.")
    first_use = _first_use(archive, folder)
    if path.is_file():
        say(f"found {path}, checking it")
        try:
            _check_and_unpack(path, str(path), archive, target, first_use, say)
        except ArchiveError as error:
            raise ArchiveError(f"{error} Delete {path} to have it downloaded.") from error
        with contextlib.suppress(OSError):
            path.unlink()
        return
    known = archive.sha256 or (first_use.sha256 if first_use else None)
    wanted = Wanted(archive.file, archive.urls, archive.size, known)
    part = path.with_name(f"{path.name}.part")
    say(f"downloading {archive.urls[0]}")
    try:
        source = download(wanted, part, progress=progress, deadline=deadline)
        say("checking the download")
        _check_and_unpack(part, source, archive, target, first_use, say)
    except ArchiveError as error:
        # It cannot be continued to the right file.
        forget(part)
        raise ArchiveError(f"{error} The download was removed.") from error
    with contextlib.suppress(OSError):
        forget(part)


def _check_and_unpack(
    path: Path,
    source: str,
    archive: Archive,
    target: Path,
    first_use: Provenance | None,
    say: Callable[[str], None],
) -> None:
    provenance = _verified(path, source, archive, target, first_use)
    say(f"unpacking to {target}")
    if target.is_dir():
        target.rmdir()  # it is empty
    unpack(path, target, finish=lambda unpacked: _record(unpacked, target, provenance))
    if not provenance.is_verified:
        same = " It is the same as at the first time." if first_use else ""
        warn_user(
            f"No checksum of {archive.file} is known, so it is unverified. Its sha256 is "
            f"{provenance.sha256} ({provenance.size} bytes).{same}"
        )


def _verified(
    path: Path, source: str, archive: Archive, target: Path, first_use: Provenance | None
) -> Provenance:
    """Compare size and checksum with those known, or with those of the first time."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        raise ArchiveError(
            f"{archive.file} has {size} bytes instead of {archive.size}; it is not the archive "
            "that was expected."
        )
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if archive.sha256 is not None:
        if digest != archive.sha256:
            raise ArchiveError(
                f"{archive.file} has the sha256 {digest} instead of {archive.sha256}; it was "
                "damaged or exchanged on its way."
            )
        return Provenance(source, digest, size, VERIFIED)
    if first_use is not None and digest != first_use.sha256:
        raise ArchiveError(
            f"{archive.file} has the sha256 {digest}, but had {first_use.sha256} when it was "
            f"first fetched; it was damaged or exchanged. If you know of a new version, delete "
            f"{_memory(target)} and fetch it again."
        )
    return Provenance(source, digest, size, FIRST_USE)


# --------------------------------------------------------------------- what lies in the folder


def _is_there(target: Path) -> bool:
    return target.is_dir() and any(target.iterdir())


def _already_there(target: Path) -> str:
    provenance = provenance_of(target)
    if provenance is None:
        origin = "of unknown origin"
    elif provenance.is_verified:
        origin = "verified"
    elif provenance.trust == UNKNOWN:
        origin = f"of unknown origin: {RECORD} cannot be read, or is damaged"
    else:
        origin = f"unverified, sha256 {provenance.sha256}"
    return f"already there: {target} ({origin}; move it away to fetch it anew)"


def _memory(target: Path) -> Path:
    """Where the checksum of the first use is kept, also when the folder is moved away."""
    return target.with_name(f"{target.name}.fetched.json")


def _first_use(archive: Archive, folder: Path) -> Provenance | None:
    """What was recorded when an archive without a known checksum was first fetched."""
    path = _memory(folder / archive.name)
    try:
        return read_record(path)
    except FileNotFoundError:
        return None
    except DamagedFileError as error:
        raise ArchiveError(
            f"{path} holds the checksum of {archive.file} from its first fetch, and is damaged "
            f"({error}). Delete it if you trust the server today."
        ) from error


def _record(unpacked: Path, target: Path, provenance: Provenance) -> None:
    """Say in a folder where it came from; `unpack` refuses archives that say it themselves."""
    write_record(unpacked / RECORD, provenance)
    if not provenance.is_verified:
        write_record(_memory(target), provenance)


def _lock(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


def _nothing() -> None:
    """Do nothing."""


def _leftovers(archive: Archive, folder: Path) -> list[Path]:
    """What killed processes left; a part of a download only where it is not needed any more."""
    left = list(folder.glob(f".{archive.name}.*.tmp*"))
    if _is_there(folder / archive.name):
        left += parts_of(folder / f"{archive.file}.part")
    return left


def _clean_up(archive: Archive, folder: Path) -> None:
    """Remove leftovers. Call it with the lock held, so that they belong to nobody."""
    for path in _leftovers(archive, folder):
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
