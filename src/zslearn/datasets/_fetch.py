"""Download the archives that data sets come in, with pooch.

In addition to what pooch does, plain http is refused, an interrupted transfer continues, the hash
of an archive without a published one is recorded at the first download and required from then on,
and an archive is unpacked completely or not at all.
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

from zslearn._utils._files import DamagedFileError, locked, read_checked_json, write_checked_json
from zslearn._utils._messages import did_you_mean, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say, progress_bar
from zslearn._utils._reading import data_home

#: Upper bounds of the size of an archive and of all its files together, and of their number.
_MAX_BYTES, _MAX_MEMBERS = 32 * 2**30, 200_000
_CHUNK = 1 << 15  # bytes that an interruption can lose
_TIMEOUT = 30.0  # seconds without data
_LOCK_SECONDS = 6 * 3600.0
_LARGEST_END = 22 + 0xFFFF  # bytes of the last record of a zip archive, with its comment
# The memory that other methods of compression need cannot be limited.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Archive:
    """A zip archive of data sets that :func:`fetch_archive` downloads.

    Attributes
    ----------
    name : str
        Name of the archive and of the folder that it is unpacked to.
    url : str
        Address.
    data_sets : tuple of str
        Names of the data sets in the archive.
    sha256 : str or None
        Published checksum, if any.
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
    """Download and unpack an archive of data sets, unless this has been done.

    The next call continues an interrupted transfer. A warning names archives without a published
    checksum; :ref:`datasets` describes what is checked and recorded.

    Parameters
    ----------
    name : str
        An archive of :data:`ARCHIVES` ("xlsa17"), or a data set in one ("CUB").
    folder : str, path or None, default=None
        Destination. By default the folder named by the environment variable ``ZSLEARN_DATA``, else
        the user's data folder. A file ``NAME.zip`` there is unpacked without a download.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    say : callable, optional
        Called with a line of text at each step.

    Returns
    -------
    Path
        The folder with the contents of the archive.

    Raises
    ------
    OSError
        The download failed, or the folder is not writable.
    ValueError
        The archive is not the expected one, is damaged, or is unsafe to unpack.

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
    already there: ...xlsa17 (move it away to fetch it again)
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
        if not _is_present(target):
            with locked(target, limit=_LOCK_SECONDS, waiting=waiting):
                if not _is_present(target):
                    _download_and_unpack(archive, target, progress, tell)
                    return target
    except RuntimeError as error:
        raise OSError(f"Could not fetch {archive.name}: {error}") from error
    except OSError as error:
        if not error.errno:  # the message is complete
            raise
        where = f": {error.filename}" if error.filename else ""
        raise OSError(
            f"Could not fetch {archive.name} into {home} ({error.strerror}{where}). Nothing was "
            "unpacked; free some space or choose another folder, and run it again."
        ) from error
    tell(f"already there: {target} (move it away to fetch it again)")
    return target


def _is_present(target: Path) -> bool:
    """Whether a folder has content; raise if it is something else."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OSError(f"{target} is not a folder; move it away to fetch {target.name}.")
    return target.is_dir() and any(target.iterdir())


def _download_and_unpack(archive: Archive, target: Path, progress: bool, say: Say) -> None:
    """Download, verify and unpack an archive in a temporary folder, then move it into place."""
    record = _read_record(target)
    sha256 = archive.sha256 or record.get("sha256")
    # The next call continues with what an interrupted one left here.
    work = target.with_name(f".{archive.name}.download")
    shutil.rmtree(work / "unpacked", ignore_errors=True)
    path = target.with_name(f"{archive.name}.zip")
    try:
        if path.is_file():
            say(f"found {path}, checking it")
            advice = f"Delete {path} to download it."
        else:
            advice, path = "The download was removed.", work / path.name
            say(f"downloading {archive.url}")
            download(archive.url, sha256, path, target.parent, progress=progress)
        digest = import_optional("pooch", "Verifying an archive").file_hash(path)
        if sha256 not in (None, digest):
            raise ValueError(f"{path.name} has the sha256 {digest} instead of {sha256}.")
        say(f"unpacking to {target}")
        _unpack(path, work / "unpacked")
    except ValueError as error:
        shutil.rmtree(work, ignore_errors=True)
        if record:
            advice += f" Delete {_record_path(target)} if you know of a new version."
        raise ValueError(f"{error} {advice}") from error
    if archive.sha256 is None:
        size = path.stat().st_size
        content = {"source": archive.url, "sha256": digest, "size": size}
        write_checked_json(_record_path(target), content)
        warn_user(
            f"No checksum of {path.name} is known, so it is unverified. Its sha256 is {digest} "
            f"({size} bytes)." + (" It equals that of the first download." if record else "")
        )
    inside = list((work / "unpacked").iterdir())
    # A single folder that holds everything becomes the target itself.
    whole = inside[0] if len(inside) == 1 and inside[0].is_dir() else work / "unpacked"
    if target.is_dir():
        target.rmdir()  # it is empty
    whole.rename(target)
    shutil.rmtree(work, ignore_errors=True)
    path.unlink(missing_ok=True)


def download(
    url: str, sha256: str | None, path: Path, place: Path, *, progress: bool = False
) -> None:
    """Download a file over https; errors advise to put it into `place` by other means."""
    pooch = import_optional("pooch", "Downloading data")
    requests: Any = import_optional("requests", "Downloading data")
    pooch.get_logger().setLevel("WARNING")  # it would print the hash
    part = path.with_suffix(".part")

    def transfer(url: str, output_file: str, _: Any) -> None:
        try:
            _transfer(url, part, progress, requests)
        except (requests.RequestException, ValueError) as error:  # ValueError: invalid redirects
            kept = part.stat().st_size if part.is_file() else 0
            raise OSError(
                f"Could not download {plain(url)} ({plain(error, 400)}). "
                + (f"{kept} bytes are kept; run it again to continue. " if kept else "")
                + f"Or put {path.name} into {place} yourself."
            ) from error
        part.replace(output_file)

    pooch.retrieve(url, sha256, path.name, path.parent, downloader=transfer)


def _transfer(url: str, part: Path, progress: bool, requests: Any) -> None:
    """Transfer the bytes that a partial file lacks."""

    def refuse_plain(url: str) -> None:
        if not url.startswith("https://"):
            raise ValueError(f"{plain(url, 200)} is not encrypted (https)")

    def check_redirect(response: Any, **_: Any) -> None:
        if response.is_redirect:
            refuse_plain(requests.compat.urljoin(response.url, response.headers["location"]))

    refuse_plain(url)
    options = {"hooks": {"response": check_redirect}, "stream": True, "timeout": _TIMEOUT}
    with open(part, "ab") as file:
        headers = {"Accept-Encoding": "identity"}
        if file.tell():
            headers["Range"] = f"bytes={file.tell()}-"
        with requests.get(url, headers=headers, **options) as response:
            if response.status_code != 206:
                file.truncate(0)  # the server sends the whole file
            response.raise_for_status()
            total = file.seek(0, os.SEEK_END) + (response.raw.length_remaining or 0)
            with progress_bar(progress and total > 0, total, part.stem, unit="bytes") as advance:
                for chunk in response.iter_content(_CHUNK):
                    file.write(chunk)
                    if file.tell() > _MAX_BYTES:
                        raise ValueError(f"it is longer than {_MAX_BYTES} bytes")
                    advance(len(chunk))


def _unpack(path: Path, folder: Path) -> None:
    """Unpack a zip archive into a new folder; refuse damaged and hostile ones."""
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not _is_clutter(m.filename)]
            _check_members(archive, members, path)
            archive.extractall(folder, members)  # compares the checksum of each
    except Exception as error:
        # A damaged archive can raise almost any error, also about impossible paths; pass on the
        # others of the disk.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = plain(error, 200) or type(error).__name__
        raise ValueError(f"{path.name} cannot be unpacked ({reason}).") from error


def _is_clutter(name: str) -> bool:
    """Whether a member was added by an operating system, or is the folder itself."""
    return not {"__MACOSX", ".DS_Store"}.isdisjoint(name.split("/")) or not name.strip("./")


def _check_members(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], path: Path) -> None:
    """Refuse links, paths out of the folder and excessive sizes, as declared in the archive."""
    # zipfile does not compare its list with the number at the end: one bit can lose a file.
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _LARGEST_END))
        end = file.read().rpartition(b"PK\5\6")[2]
    if int.from_bytes(end[6:8], "little") not in (len(archive.infolist()) & 0xFFFF, 0xFFFF):
        raise ValueError("its list of members is incomplete")
    if all(member.is_dir() for member in members):
        raise ValueError("it contains no files")
    total = sum(member.file_size for member in members)
    if len(members) > _MAX_MEMBERS or total > _MAX_BYTES:
        raise ValueError(f"it declares {len(members)} members of {total} bytes, which is too much")
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


def _record_path(target: Path) -> Path:
    """Path of the record of a first download, which survives when the folder is moved away."""
    return target.with_name(f"{target.name}.fetched.json")


def _read_record(target: Path) -> dict[str, Any]:
    """Source, sha256 and size of an archive at its first download; empty without a record."""
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
    """Suffix of the version of data sets from an archive without a published checksum."""
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
