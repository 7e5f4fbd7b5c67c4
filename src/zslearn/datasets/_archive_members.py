"""What is in a zip or tar archive that may be damaged or hostile.

Sizes are looked at before anything is read that they announce. The members come one after the
other; each must be read before the next is asked for.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from zslearn.utils import plain

_CHUNK = 1 << 16  # bytes
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
    while chunk := stream.read(_CHUNK):
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
            if not self._read_some(min(position - self._position, _CHUNK)):
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
                    chunk = self._file.read(_CHUNK)
                    if not chunk:
                        return b""
                    data = chunk.lstrip(b"\0")
                self._decoder = self._new()
            elif self._decoder.needs_input:
                data = self._file.read(_CHUNK)
                if not data:
                    raise EOFError("it ends too early")
            if out := self._decoder.decompress(data, size):
                return out
