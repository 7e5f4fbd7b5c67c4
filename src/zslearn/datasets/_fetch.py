"""Fetching the archives of data sets.

Their addresses, sizes and checksums are data, in ``_archives.json``. Pooch, which other libraries
use for this, has the checksums, but neither trust on first use, nor transfers that continue, nor a
limit on time, nor a lock between processes, nor limits on what is unpacked; those would remain
here, and it would be one more dependency.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

from zslearn.datasets._archive_members import ArchiveError
from zslearn.datasets._download import FetchError, Wanted, download, forget, parts_of
from zslearn.datasets._home import data_home
from zslearn.datasets._lock import locked
from zslearn.datasets._provenance import (
    FIRST_USE,
    RECORD,
    UNKNOWN,
    VERIFIED,
    Provenance,
    provenance_of,
    read_record,
    write_record,
)
from zslearn.datasets._unpack import remove_tree, unpack
from zslearn.utils import DamagedFileError, warn_user

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
