"""JSON files that carry a checksum, so that a damaged or edited one is never taken for a good one.

The checksum is over the content, not over the bytes: spaces and the order of keys do not matter. It
finds accidents and edits by hand; it is no signature, for who knows the rule can compute it anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zslearn.utils._files import replacing

CHECKSUM = "checksum"
#: What is larger is nothing that the library wrote.
MAX_BYTES = 64 * 2**20


class DamagedFileError(ValueError):
    """A file is not what was written: its text says why."""


def write_checked_json(
    path: Path, content: Mapping[str, Any], *, indent: int | None = None
) -> None:
    """Write an object as JSON with its checksum, whole or not at all.

    Parameters
    ----------
    path : Path
        The file. Its folder is made.
    content : mapping
        What JSON can hold. A checksum that it has is replaced.
    indent : int, optional
        As of :func:`json.dumps`.
    """
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
    """Read what :func:`write_checked_json` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        Its content, without the checksum.

    Raises
    ------
    DamagedFileError
        The file is no JSON, has no checksum, was changed after it was written, or is no file.
    OSError
        The file cannot be read.
    """
    data = _read(path)
    try:
        content = json.loads(data)
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


def _read(path: Path) -> bytes:
    """The bytes of a plain file of a size that can be; others are not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DamagedFileError("no plain file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise DamagedFileError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in one canonical form, without the checksum itself."""
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
