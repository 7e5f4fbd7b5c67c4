"""Unpacking archives that come from elsewhere.

Only plain files and folders below the target are written. The target appears whole or not at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

MAX_BYTES = 32 * 2**30
MAX_MEMBERS = 200_000
_CHUNK = 1 << 20  # bytes
# What systems leave in archives beside the data.
_RUBBISH = {"__MACOSX", ".DS_Store"}


class ArchiveError(ValueError):
    """An archive is damaged, or holds what is not unpacked."""


@dataclass(frozen=True)
class _Member:
    name: PurePosixPath
    size: int
    open: Callable[[], IO[bytes]] | None  # None for a folder


def unpack(path: Path, target: Path, *, max_bytes: int = MAX_BYTES) -> None:
    """Unpack a zip or tar archive so that `target` is whole or not there.

    A single folder that holds everything in the archive becomes `target` itself.

    Parameters
    ----------
    path : Path
        The archive.
    target : Path
        The folder to make. It must not exist.
    max_bytes : int
        Refuse archives that hold more.

    Raises
    ------
    ArchiveError
        The archive is damaged or too large, or a member has an absolute name, leads out of the
        target, or is a link, a device or encrypted.
    FileExistsError
        There is a `target` already.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists already; nothing was unpacked.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        try:
            with _members(path, max_bytes) as members:
                _write(members, temporary, max_bytes)
        except ArchiveError as error:
            raise ArchiveError(f"{path.name}: {error} Nothing was unpacked.") from None
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
            raise ArchiveError(
                f"{path.name}: the archive is damaged ({error}). Nothing was unpacked."
            ) from error
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise ArchiveError(
                f"{path.name}: the archive cannot be read ({error}). Nothing was unpacked."
            ) from error
        inside = list(temporary.iterdir())
        whole = inside[0] if len(inside) == 1 and inside[0].is_dir() else temporary
        os.rename(whole, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _members(path: Path, max_bytes: int) -> Iterator[list[_Member]]:
    """The members of an archive, all of them checked."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            yield [_zip_member(archive, info) for info in archive.infolist()]
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            members: list[_Member] = []
            # One by one: to go past a member of a compressed archive takes time with its size.
            for info in tar:
                members.append(_tar_member(tar, info))
                if len(members) > MAX_MEMBERS or members[-1].size > max_bytes:
                    break
            yield members
    else:
        raise ArchiveError("this is neither a zip nor a tar archive.")


def _checked_name(name: str) -> PurePosixPath:
    pure = PurePosixPath(name)
    if (
        not name.strip("/")
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or ":" in pure.parts[0]
    ):
        raise ArchiveError(f"member {name!r} has an absolute or foreign name.")
    if ".." in pure.parts:
        raise ArchiveError(f"member {name!r} leads out of the folder.")
    return pure


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    name = _checked_name(info.orig_filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveError(f"member {info.filename!r} is a link or a device.")
    if info.flag_bits & 0x1:
        raise ArchiveError(f"member {info.filename!r} is encrypted.")
    if info.is_dir() or kind == stat.S_IFDIR:
        return _Member(name, 0, None)
    return _Member(name, info.file_size, lambda: archive.open(info))


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    name = _checked_name(info.name)
    if info.isdir():
        return _Member(name, 0, None)
    if not info.isreg():
        raise ArchiveError(f"member {info.name!r} is a link or a device.")

    def opened() -> IO[bytes]:
        file = archive.extractfile(info)
        assert file is not None  # a regular file
        return file

    return _Member(name, info.size, opened)


def _write(members: list[_Member], folder: Path, max_bytes: int) -> None:
    if len(members) > MAX_MEMBERS:
        raise ArchiveError(f"there are more than {MAX_MEMBERS} members.")
    declared = sum(member.size for member in members)
    if declared > max_bytes:
        raise ArchiveError(f"it holds {declared} bytes, more than the {max_bytes} expected.")
    for member in members:
        if _RUBBISH.intersection(member.name.parts):
            continue
        path = folder.joinpath(*member.name.parts)
        try:
            if member.open is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as file, member.open() as source:
                written = _copy(source, file, member.size)
        except (FileExistsError, NotADirectoryError):
            raise ArchiveError(f"member {str(member.name)!r} occurs twice.") from None
        if written != member.size:
            raise ArchiveError(f"member {str(member.name)!r} is not as long as declared.")


def _copy(source: IO[bytes], file: IO[bytes], size: int) -> int:
    """Copy, but little more than was declared, which may be a lie."""
    written = 0
    while written <= size and (chunk := source.read(_CHUNK)):
        file.write(chunk)
        written += len(chunk)
    return written
