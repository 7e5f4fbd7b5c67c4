"""Downloads of the archives that data sets come in; pooch fetches and verifies them.

What pooch lacks is here: plain http is refused, an interrupted transfer continues, the hash of an
archive without a published one is recorded at the first download and required from then on, and
an archive is unpacked whole or not at all.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zslearn._utils._files import (
    DamagedFileError,
    locked,
    read_checked_json,
    write_checked_json,
)
from zslearn._utils._messages import did_you_mean, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say, progress_bar
from zslearn._utils._reading import data_home

#: Upper bounds of an archive and of all files in it together, in bytes, and of its members.
MAX_BYTES, MAX_MEMBERS = 32 * 2**30, 200_000
_CHUNK = 1 << 15  # bytes; of the last, what came before an interruption is lost
_TIMEOUT = 30.0  # seconds without a byte
_LOCK_SECONDS = 6 * 3600.0
_LARGEST_END = 22 + 0xFFFF  # bytes of a zip archive's last record, with its comment
# Other methods of compression need memory without a limit that could be set.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Archive:
    """A zip archive of data sets that :func:`fetch_archive` downloads.

    Attributes
    ----------
    name : str
        Its name, and that of the folder it is unpacked to.
    url : str
        Its address.
    data_sets : tuple of str
        Names of the data sets in it.
    sha256 : str or None
        Its checksum, where one was published.
    """

    name: str
    url: str
    data_sets: tuple[str, ...] = ()
    sha256: str | None = None


_SERVER = "https://datasets.d2.mpi-inf.mpg.de/xian"
#: The archives by name.
ARCHIVES = {
    archive.name: archive
    for archive in (
        Archive("xlsa17", f"{_SERVER}/xlsa17.zip", ("AWA1", "AWA2", "CUB", "SUN", "APY")),
        Archive("standard_split", f"{_SERVER}/standard_split.zip"),
        Archive("cvpr18xian", f"{_SERVER}/cvpr18xian.zip", ("FLO",)),
    )
}


def fetch_archive(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: bool = False,
    say: Say | None = None,
) -> Path:
    """Download and unpack an archive of data sets, unless it is there already.

    An interrupted transfer is continued by the next call. An archive without a published checksum
    is unverified, with a warning; :ref:`datasets` says what is checked and recorded.

    Parameters
    ----------
    name : str
        An archive of :data:`ARCHIVES` ("xlsa17") or a data set in one ("CUB").
    folder : str, path or None, default=None
        Where to put it. By default the folder named by the environment variable ``ZSLEARN_DATA``,
        else the user's data folder. A file ``NAME.zip`` there is unpacked without a download.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    say : callable, optional
        Called with a few words on what is being done.

    Returns
    -------
    Path
        The folder with the contents of the archive.

    Raises
    ------
    OSError
        The download failed, or nothing can be written there.
    ValueError
        The archive is not the expected one, is damaged, or must not be unpacked.
    ImportError
        pooch is not installed.

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
    already there: ...xlsa17 (move it away to fetch it anew)
    'xlsa17'
    """
    found = [a for a in ARCHIVES.values() if name == a.name or name in a.data_sets]
    if not found:
        known = [*ARCHIVES, *(one for a in ARCHIVES.values() for one in a.data_sets)]
        raise ValueError(
            f"There is nothing to fetch under {name!r}.{did_you_mean(name, known)} There are: "
            f"{', '.join(known)}."
        )
    archive, home, tell = found[0], data_home(folder), say or (lambda text: None)
    target = home / archive.name

    def waiting() -> None:
        tell(f"another process is fetching {archive.name}; waiting for it")

    try:
        if not _is_there(target):
            with locked(target, limit=_LOCK_SECONDS, waiting=waiting):
                if not _is_there(target):
                    _bring(archive, target, progress, tell)
                    return target
    except RuntimeError as error:
        raise OSError(f"Could not fetch {archive.name}: {error}") from error
    except OSError as error:
        if not error.errno:  # it has said all already
            raise
        where = f": {error.filename}" if error.filename else ""
        raise OSError(
            f"Could not fetch {archive.name} into {home} ({error.strerror}{where}). Nothing was "
            "unpacked; free some space or choose another folder, and run it again."
        ) from error
    tell(f"already there: {target} (move it away to fetch it anew)")
    return target


def _is_there(target: Path) -> bool:
    """Whether a folder holds anything; what is no folder is refused."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OSError(f"{target} is no folder; move it away to fetch {target.name}.")
    return target.is_dir() and any(target.iterdir())


def _bring(archive: Archive, target: Path, progress: bool, say: Say) -> None:
    """Download an archive, verify it, and unpack it beside its place before it is moved there."""
    pooch = import_optional("pooch", "Downloading data sets")
    pooch.get_logger().setLevel("WARNING")  # it would print the hash, which we record
    record = _read_record(target)
    sha256 = archive.sha256 or record.get("sha256")
    # All that is not finished; a part of a download and a whole one are used again.
    work = target.with_name(f".{archive.name}.download")
    path = target.with_name(f"{archive.name}.zip")
    shutil.rmtree(work / "unpacked", ignore_errors=True)
    is_brought = path.is_file()
    if is_brought:
        say(f"found {path}, checking it")
        advice = f" Delete {path} to have it downloaded."
    else:
        path = work / path.name
        advice = " The download was removed."
        say(f"downloading {archive.url}")
    try:
        if not is_brought:
            download = _Downloader(path.with_suffix(".part"), progress)
            pooch.retrieve(archive.url, sha256, path.name, work, downloader=download)
        digest = pooch.file_hash(path)
        if sha256 not in (None, digest):
            raise ValueError(f"{path.name} has the sha256 {digest} instead of {sha256}.")
        say(f"unpacking to {target}")
        _unpack(path, work / "unpacked")
    except ValueError as error:
        shutil.rmtree(work, ignore_errors=True)
        expected = f" Delete {_record_path(target)} if you know of a new version." if record else ""
        raise ValueError(f"{error}{advice}{expected}") from error
    size = path.stat().st_size
    if archive.sha256 is None:
        write_checked_json(
            _record_path(target), {"source": archive.url, "sha256": digest, "size": size}
        )
        warn_user(
            f"No checksum of {path.name} is known, so it is unverified. Its sha256 is {digest} "
            f"({size} bytes)." + (" It is the same as at the first time." if record else "")
        )
    inside = list((work / "unpacked").iterdir())
    # A single folder that holds everything becomes the target itself.
    whole = inside[0] if len(inside) == 1 and inside[0].is_dir() else work / "unpacked"
    if target.is_dir():
        target.rmdir()  # it is empty
    whole.rename(target)
    shutil.rmtree(work, ignore_errors=True)
    path.unlink(missing_ok=True)


class _Downloader:
    """A downloader for pooch that continues `part` and asks encrypted addresses only."""

    def __init__(self, part: Path, progress: bool) -> None:
        self.part, self.progress = part, progress

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        requests: Any = import_optional("requests", "Downloading data sets")
        try:
            self._transfer(url, requests)
        except (requests.RequestException, ValueError) as error:  # ValueError: odd redirects
            kept = self.part.stat().st_size if self.part.is_file() else 0
            raise OSError(
                f"Could not download {plain(url)} ({plain(error, 400)}). "
                + (f"{kept} bytes are kept; run it again to continue. " if kept else "")
                + f"Or put {Path(url).name} into {self.part.parents[1]} yourself."
            ) from error
        self.part.replace(output_file)

    def _transfer(self, url: str, requests: Any) -> None:
        def refuse_plain(response: Any, **_: Any) -> None:
            if response.is_redirect:
                _refuse_plain(requests.compat.urljoin(response.url, response.headers["location"]))

        _refuse_plain(url)
        with open(self.part, "ab") as file:
            headers = {"Accept-Encoding": "identity"}
            if file.tell():
                headers["Range"] = f"bytes={file.tell()}-"
            hooks = {"response": refuse_plain}
            with requests.get(
                url, headers=headers, hooks=hooks, stream=True, timeout=_TIMEOUT
            ) as response:
                if response.status_code != 206:
                    file.truncate(0)  # it starts anew
                response.raise_for_status()
                total = file.seek(0, os.SEEK_END) + (response.raw.length_remaining or 0)
                shown = self.progress and total > 0
                with progress_bar(shown, total, Path(url).name, unit="bytes") as advance:
                    for chunk in response.iter_content(_CHUNK):
                        file.write(chunk)
                        if file.tell() > MAX_BYTES:
                            raise ValueError(f"it is longer than {MAX_BYTES} bytes")
                        advance(len(chunk))


def _refuse_plain(url: str) -> None:
    if not url.startswith("https://"):
        raise ValueError(f"{plain(url, 200)} is not encrypted (https), and is not asked")


def _unpack(path: Path, folder: Path) -> None:
    """Unpack a zip archive into a folder that is not there; refuse what is damaged or hostile."""
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not _is_rubbish(m.filename)]
            _check_members(archive, members, path)
            archive.extractall(folder, members)  # compares the checksum of each
    except Exception as error:
        # Of the disk. A damaged archive can raise nearly anything else: places that cannot be, too.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = plain(error, 200) or type(error).__name__
        raise ValueError(f"{path.name} cannot be unpacked ({reason}).") from error


def _is_rubbish(name: str) -> bool:
    """Whether a member is what systems leave in archives, or the folder itself."""
    return not {"__MACOSX", ".DS_Store"}.isdisjoint(name.split("/")) or not name.strip("./")


def _check_members(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse links, names that lead elsewhere and absurd sizes, by what the archive says."""
    # zipfile does not compare its list with the number at the end: one bit can lose a file.
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _LARGEST_END))
        end = file.read().rpartition(b"PK\5\6")[2]
    if int.from_bytes(end[6:8], "little") not in (len(archive.infolist()) & 0xFFFF, 0xFFFF):
        raise ValueError("its list of members is not whole")
    if all(member.is_dir() for member in members):
        raise ValueError("there are no files in it")
    total = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_BYTES:
        raise ValueError(f"it claims {len(members)} members of {total} bytes, which is too much")
    if len({member.orig_filename.casefold() for member in members}) != len(members):
        raise ValueError("a member occurs twice")
    for member in members:
        name, kind = member.orig_filename, stat.S_IFMT(member.external_attr >> 16)
        is_outside = name.startswith("/") or ".." in name.split("/") or not name.isprintable()
        if is_outside or "\\" in name or ":" in name:
            raise ValueError(f"the name of member '{plain(name, 80)}' leads out of the folder")
        if kind not in (0, stat.S_IFDIR if member.is_dir() else stat.S_IFREG):
            raise ValueError(f"member '{plain(name, 80)}' is a link or a device")
        if member.compress_type not in _METHODS:
            raise ValueError(f"member '{plain(name, 80)}' is not compressed by deflate")


# ------------------------------------------------------- the record of an unverified archive


def _record_path(target: Path) -> Path:
    """Beside the folder, so that it is kept when the folder is moved away."""
    return target.with_name(f"{target.name}.fetched.json")


def _read_record(target: Path) -> dict[str, Any]:
    """Source, sha256 and size of an archive at its first download; empty where there is none."""
    path = _record_path(target)
    try:
        record = read_checked_json(path)
        if not isinstance(record.get("sha256"), str):
            raise DamagedFileError("it has no sha256")
        return record
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except DamagedFileError as error:
        raise ValueError(
            f"{path} holds the checksum of {target.name}.zip from its first download, and is "
            f"damaged ({error}). Delete it if you trust the server today."
        ) from error


def unverified_mark(*folders: Path) -> str:
    """What the version of a data set says of folders whose archive had no published checksum."""
    marks = []
    for folder in folders:
        # A data set's folder, data/, and the folder of the archive.
        for place in [folder.absolute(), *folder.absolute().parents][:3]:
            try:
                record = _read_record(place)
                marks += [f"/unverified-{record['sha256'][:8]}"] if record else []
            except (ValueError, OSError):
                marks.append("/unknown-origin")
    return "".join(dict.fromkeys(marks))
