"""What is known of a fetched archive: where it came from, and whether it was proved."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zslearn.utils import DamagedFileError, read_checked_json, write_checked_json

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
    """Find out where the files of a data set came from.

    Parameters
    ----------
    folder : Path
        The folder of a data set, or of an archive.

    Returns
    -------
    Provenance or None
        None if there is no record: the files are the user's own. Where there are several, one
        that is verified counts least.
    """
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
    """What the version of a data set says of folders whose archives nobody could check.

    Parameters
    ----------
    *folders : Path
        Every folder that the data set was read from.

    Returns
    -------
    str
        Each mark once; nothing where all is verified, or the user's own.
    """
    known = [provenance_of(folder) for folder in folders]
    return "".join(dict.fromkeys(item.mark for item in known if item is not None))


def read_record(path: Path) -> Provenance:
    """Read what `write_record` wrote.

    Raises
    ------
    FileNotFoundError
        There is no record.
    DamagedFileError
        It is not as it was written.
    """
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
