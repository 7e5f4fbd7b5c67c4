"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; it takes the place of `path` at the end.

    After an error the temporary file is removed and `path` is as it was. The temporary name keeps
    the ending, which tells some writers the format.

    Parameters
    ----------
    path : Path
        What shall be written. Its folder is made.
    durable : bool, default=True
        Whether it waits until the file is on the disk, so that not even a machine that stops leaves
        half a file. What proves to be whole when it is read, and can be made again, need not.

    Yields
    ------
    Path
        What to write to.
    """
    refuse_folder(path)
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


def refuse_folder(path: Path) -> None:
    """Refuse a folder where a file shall be written, before anything is computed for it.

    Parameters
    ----------
    path : Path
        What shall be written.

    Raises
    ------
    IsADirectoryError
        There is a folder of this name.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last, as `fsync` of the file makes its content last."""
    # Some systems open or sync no folders: the name is then as safe as they make it.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
