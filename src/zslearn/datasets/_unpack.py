"""Unpacking archives that come from elsewhere.

Only plain files and folders below the target are written. The target appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from zslearn.datasets._archive_members import (
    ArchiveError,
    Member,
    Members,
    damaged,
    tar_members,
    zip_members,
)
from zslearn.datasets._provenance import RECORD

MAX_BYTES = 32 * 2**30
MAX_MEMBERS = 200_000
_CHUNK = 1 << 20  # bytes
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

    Parameters
    ----------
    path : Path
        The archive.
    target : Path
        The folder to make. It must not exist.
    max_bytes : int
        Refuse archives that hold more.
    finish : callable, optional
        Called with the folder before it gets its name, to add to it.

    Raises
    ------
    ArchiveError
        The archive is damaged, empty or too large, or a member has an absolute or overlong name,
        leads out of the target, is a link, a device or encrypted, or has the name of the record
        of where files came from.
    FileExistsError
        There is a `target` already.
    OSError
        It cannot be written.
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
        while written <= member.size and (chunk := source.read(_CHUNK)):
            file.write(chunk)
            written += len(chunk)
    if written != member.size:
        raise ArchiveError(f"member {str(member.name)!r} is not as long as declared.")
