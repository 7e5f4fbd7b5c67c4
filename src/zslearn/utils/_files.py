"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; it takes the place of `path` at the end.

    After an error the temporary file is removed and `path` is as it was. The temporary name keeps
    the ending, which tells some writers the format.

    Parameters
    ----------
    path : Path
        What shall be written. Its folder is made.

    Yields
    ------
    Path
        What to write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unique = f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}.tmp{path.suffix}"
    temporary = path.with_name(unique)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
