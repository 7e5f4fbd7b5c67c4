"""Fetching the archives of data sets, which are zip files: download, proof, unpacking.

Their addresses, sizes and checksums are data, in ``_archives.json``. A server is believed in
nothing: what it sends is bounded in time and size and compared with a checksum, that of the first
download where none is known; what it says is written in plain letters. An archive is unpacked whole
or not at all, and only plain files and folders are written. Pooch has the checksums, but neither
trust on first use, nor transfers that continue, nor a limit on time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import ssl
import stat
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from zslearn._utils._files import DamagedFileError, locked, read_checked_json, write_checked_json
from zslearn._utils._messages import plain, warn_user
from zslearn._utils._progress import Say, progress_bar
from zslearn._utils._reading import data_home

#: Seconds for one download, and for waiting until another process has done its own.
DEADLINE = 6 * 3600.0
#: Bytes of an archive, and of all files in it together; members.
MAX_BYTES, MAX_MEMBERS = 32 * 2**30, 200_000
_CHUNK = 1 << 18  # bytes
_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 4
_WAIT = 1.0  # seconds before the second try; doubled each time


class ArchiveError(ValueError):
    """An archive is damaged, is not the expected one, or holds what is not unpacked."""


class FetchError(OSError):
    """A download did not succeed; what has come is kept if it can be continued."""


@dataclass(frozen=True)
class Archive:
    """A remote archive: where it is, what proves that it is the right one, what is in it."""

    name: str
    file: str
    url: str
    size: int | None
    sha256: str | None
    data_sets: tuple[str, ...]


_text = resources.files("zslearn.datasets").joinpath("_archives.json").read_text("utf-8")
#: The archives that can be fetched, by name.
ARCHIVES = {
    name: Archive(name=name, **{**entry, "data_sets": tuple(entry["data_sets"])})
    for name, entry in json.loads(_text).items()
}


def find_archive(name: str) -> Archive:
    """An archive by its own name or by that of a data set in it."""
    for archive in ARCHIVES.values():
        if name == archive.name or name in archive.data_sets:
            return archive
    data_sets = [name for archive in ARCHIVES.values() for name in archive.data_sets]
    known = ", ".join([*ARCHIVES, *data_sets])
    raise ValueError(f"There is nothing to fetch under {name!r}; choose one of {known}.")


# ------------------------------------------------------------ where fetched files came from

#: The record inside a fetched folder.
RECORD = "zslearn-fetched.json"
_LEVELS = 3  # a data set's folder, data/, and the folder of the archive
VERIFIED, FIRST_USE, UNKNOWN = "verified", "first use", "unknown"


@dataclass(frozen=True)
class Provenance:
    """Where fetched files came from: an address or a path, and checksum and size of the archive.

    `trust` is "verified" where the checksum was known beforehand; "first use" where it was not, so
    that any other archive is refused from then on; "unknown" where the record is damaged.
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
    """Find out where the files of a data set came from; the least trusted record counts."""
    found: list[Provenance] = []
    for place in [folder, *folder.absolute().parents][:_LEVELS]:
        path = place / RECORD
        try:
            found.append(_read_record(path))
        except (OSError, DamagedFileError):
            if os.path.lexists(path):
                found.append(Provenance("", "", 0, UNKNOWN))
    return next((item for item in found if not item.is_verified), found[0] if found else None)


def unproved(*folders: Path) -> str:
    """What the version of a data set says of folders whose archives nobody could check."""
    known = [provenance_of(folder) for folder in folders]
    return "".join(dict.fromkeys(item.mark for item in known if item is not None))


def _read_record(path: Path) -> Provenance:
    content = read_checked_json(path)
    is_record = content.keys() == Provenance.__dataclass_fields__.keys()
    if not is_record or content["trust"] not in (VERIFIED, FIRST_USE):
        raise DamagedFileError("no record of a fetched archive")
    return Provenance(**content)


def write_record(path: Path, provenance: Provenance) -> None:
    """Write a record, whole or not at all."""
    write_checked_json(path, asdict(provenance), indent=2)


# ------------------------------------------------------------------------------- unpacking

# What systems leave in archives beside the data.
_RUBBISH = {"__MACOSX", ".DS_Store"}
_MAX_DEPTH, _MAX_NAME, _MAX_PART = 32, 1024, 255  # levels, bytes, bytes
_LARGEST_END = 22 + 0xFFFF  # bytes of a zip archive's last record, with its comment
# The others need memory without a limit that could be set.
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def unpack(
    path: Path,
    target: Path,
    *,
    max_bytes: int = MAX_BYTES,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Unpack a zip archive so that `target` is whole or not there.

    A single folder that holds everything in the archive becomes `target` itself.
    """
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} exists already; nothing was unpacked.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    title = path.name.removesuffix(".part")
    try:
        _unpack_into(path, temporary, max_bytes)
        inside = list(temporary.iterdir())
        whole = inside[0] if len(inside) == 1 and inside[0].is_dir() else temporary
        if finish is not None:
            finish(whole)
        os.rename(whole, target)
    except ArchiveError as error:
        raise ArchiveError(f"{title}: {error} Nothing was unpacked.") from None
    except Exception as error:
        # Of the disk. A damaged archive can raise nearly anything else: places that cannot be, too.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = plain(error, 200) or type(error).__name__
        raise ArchiveError(
            f"{title}: the archive is damaged ({reason}). Nothing was unpacked."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack_into(path: Path, folder: Path, max_bytes: int) -> None:
    """Check all members by what the archive says of them, then write them; zipfile proves them."""
    if not zipfile.is_zipfile(path):
        raise ArchiveError("this is no zip archive.")
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        # zipfile does not compare its list with the number at the end: one bit can lose a file.
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _LARGEST_END))
            end = file.read().rpartition(b"PK\5\6")[2]
        if int.from_bytes(end[6:8], "little") not in (len(members) & 0xFFFF, 0xFFFF):
            raise ArchiveError("the archive is damaged (its list of members is not whole).")
        total = sum(member.file_size for member in members)
        if len(members) > MAX_MEMBERS:
            raise ArchiveError(f"there are more than {MAX_MEMBERS} members.")
        if total > max_bytes:
            raise ArchiveError(f"it holds {total} bytes, more than the {max_bytes} expected.")
        names = [_checked_name(member) for member in members]
        files = [name for name, member in zip(names, members, strict=True) if not member.is_dir()]
        # A file may be no folder of another one, and on some systems capitals do not count.
        taken = {str(name).casefold() for name in files}
        above = {str(parent).casefold() for name in names for parent in name.parents}
        if len(taken) != len(files) or not taken.isdisjoint(above):
            raise ArchiveError("a member occurs twice, or is both a file and a folder.")
        if not any(_RUBBISH.isdisjoint(name.parts) for name in files):
            raise ArchiveError("there are no files in it.")
        for name, member in zip(names, members, strict=True):
            if _RUBBISH.isdisjoint(name.parts) and name.parts:
                archive.extract(member, folder)


def _checked_name(member: zipfile.ZipInfo) -> PurePosixPath:
    """The name of a member as a path below a folder; links, devices and odd names are refused."""
    name = member.orig_filename
    pure = PurePosixPath(name)
    shown = f"member '{plain(name, 80)}'"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if member.is_dir() else stat.S_IFREG):
        raise ArchiveError(f"{shown} is a link or a device.")
    if not name.strip("/") or name.startswith("/") or "\\" in name or ":" in name:
        raise ArchiveError(f"{shown} has an absolute or foreign name.")
    if ".." in pure.parts:
        raise ArchiveError(f"{shown} leads out of the folder.")
    if (
        not name.isprintable()
        or len(pure.parts) > _MAX_DEPTH
        or len(name.encode()) > _MAX_NAME
        or any(len(part.encode()) > _MAX_PART for part in pure.parts)
    ):
        raise ArchiveError(f"{shown} has a name that is too long, too deep or not printable.")
    if member.compress_type not in _METHODS or (member.is_dir() and member.file_size):
        raise ArchiveError(f"{shown} is compressed by a method other than deflate, or no folder.")
    # It says where files came from, which is not for an archive to say.
    if any(part.casefold() == RECORD for part in pure.parts):
        raise ArchiveError(f"it holds {RECORD}, which only zslearn writes.")
    return pure


# ------------------------------------------------------------------------------ downloading


class _Interrupted(Exception):
    """The connection ended early; it may be continued."""


def _download(archive: Archive, part: Path, *, progress: bool, deadline: float) -> None:
    """Bring a file, in several tries as long as it can be continued."""
    end = time.monotonic() + deadline
    failure = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(max(0.0, min(_WAIT * 2 ** (attempt - 1), end - time.monotonic())))
        if time.monotonic() >= end:
            break
        try:
            _transfer(archive, part, progress, end)
            return
        except (ArchiveError, FetchError):
            raise
        except _Interrupted as error:
            failure = str(error)
        except urllib.error.HTTPError as error:
            error.close()
            failure = f"the server answers {error.code} {error.reason}"
            if error.code < 500:
                break
        # ValueError: addresses that servers make up in redirects.
        except (OSError, http.client.HTTPException, ValueError) as error:
            failure = str(getattr(error, "reason", error)) or type(error).__name__
            break
    if time.monotonic() >= end:
        failure += f"; the limit of {deadline:.0f} seconds is over"
    kept = part.stat().st_size if part.is_file() else 0
    if not kept:
        part.unlink(missing_ok=True)
    raise FetchError(
        f"Could not download {archive.file} ({archive.url}: {plain(failure, 200)}). "
        + (f"{kept} bytes are kept; run it again to continue." if kept else "Nothing is kept.")
    )


def _check_encrypted(url: str) -> None:
    if not url.startswith("https://"):
        raise urllib.error.URLError(f"{plain(url, 200)} is not encrypted (https), and is not asked")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to encrypted addresses only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_encrypted(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str], end: float) -> Any:
    """Ask for a file, by https alone."""
    _check_encrypted(url)

    class Socket(ssl.SSLSocket):
        """A socket that also ends when the whole time is over, even if bytes trickle in."""

        def recv_into(self, *args: Any, **kwargs: Any) -> int:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the time is over")
            self.settimeout(min(_TIMEOUT, left))
            return super().recv_into(*args, **kwargs)

    context = ssl.create_default_context()
    context.sslsocket_class = Socket
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Redirects())
    request = urllib.request.Request(url, headers={"User-Agent": "zslearn", **headers})
    return opener.open(request, timeout=max(0.01, min(_TIMEOUT, end - time.monotonic())))


def _transfer(archive: Archive, part: Path, progress: bool, end: float) -> None:
    """One connection: start at what is there and write until the end."""
    here = part.stat().st_size if part.is_file() else 0
    try:
        response = _open(archive.url, {"Range": f"bytes={here}-"} if here else {}, end)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not here:
            raise
        error.close()
        if error.headers.get("Content-Range", "") == f"bytes */{here}":
            return  # everything was there
        part.unlink()
        raise _Interrupted("what was there does not fit the file on the server") from None
    with response:
        start, total = _placement(response, part, here)
        expected = archive.size or total
        if expected is not None and expected > MAX_BYTES:
            raise ArchiveError(f"{archive.url} claims {expected} bytes, which is too much.")
        if archive.size is not None and total not in (None, archive.size):
            raise ArchiveError(
                f"{archive.url} has {total} bytes instead of {archive.size}; it is not the archive "
                "that was expected."
            )
        try:
            _receive(response, part, start, expected, archive.file, progress)
        except OSError as error:
            raise FetchError(
                f"Could not write {part} ({error.strerror or error}). What has come is kept; run "
                "it again to continue."
            ) from error
    arrived = part.stat().st_size
    if total is not None and arrived != total:
        raise _Interrupted(f"the connection ended after {arrived} of {total} bytes")


def _placement(response: Any, part: Path, here: int) -> tuple[int, int | None]:
    """Where what comes belongs, and the size of the whole."""
    if response.status == 206 and here:
        found = re.fullmatch(
            r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", response.headers.get("Content-Range", "")
        )
        if not found or int(found[1]) != here:
            part.unlink()
            raise _Interrupted("the server continued at another place")
        return here, None if found[2] == "*" else int(found[2])
    if response.status != 200:
        raise urllib.error.URLError(f"the server answers {response.status}")
    length = re.fullmatch(r"[0-9]{1,18}", response.headers.get("Content-Length", ""))
    return 0, int(length[0]) if length else None


def _receive(
    response: Any, part: Path, start: int, expected: int | None, title: str, progress: bool
) -> None:
    """Write what comes, and show it; OSError is of the disk."""
    limit = MAX_BYTES if expected is None else expected
    with (
        open(part, "r+b" if start else "wb", buffering=0) as file,
        progress_bar(progress and expected is not None, limit, title, unit="bytes") as advance,
    ):
        file.seek(start)
        file.truncate()
        advance(start)
        arrived = start
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _Interrupted(f"the connection broke after {arrived} bytes") from error
            if not chunk:
                return
            arrived += len(chunk)
            if arrived > limit:
                raise ArchiveError(f"{title} is longer than the {limit} bytes that were announced.")
            view = memoryview(chunk)
            while view:
                view = view[file.write(view) :]
            advance(len(chunk))


# --------------------------------------------------------------------------------- fetching


def fetch_archive(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: bool = False,
    say: Say | None = None,
    deadline: float = DEADLINE,
) -> Path:
    """Download and unpack an archive of data sets, unless it is there already.

    A transfer that was interrupted is continued by the next call. An archive without a known
    checksum is unverified, with a warning; :ref:`datasets` says what is checked and recorded.

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
        say=say or (lambda text: None),
        deadline=deadline,
    )


def fetch(
    archive: Archive,
    folder: Path,
    *,
    progress: bool,
    say: Say,
    deadline: float = DEADLINE,
) -> Path:
    """Bring an archive into a folder and unpack it there."""
    target = folder / archive.name

    def waiting() -> None:
        say(f"another process is fetching {archive.name}; waiting for it")

    try:
        if _is_there(target) and not _leftovers(archive, folder):
            say(_already_there(target))
            return target
        with locked(target, limit=deadline, waiting=waiting) as is_alone:
            # With the lock held, what killed processes left belongs to nobody.
            for path in _leftovers(archive, folder) if is_alone else ():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if _is_there(target):
                say(_already_there(target))
            else:
                _bring(archive, folder, progress, say, deadline)
    except FetchError:
        raise
    except RuntimeError as error:
        raise FetchError(f"Could not fetch {archive.name}: {error}") from error
    except OSError as error:
        reason = error.strerror or error
        raise FetchError(
            f"Could not fetch {archive.name} into {folder} ({reason}"
            + (f": {error.filename}" if error.filename else "")
            + "). Nothing was unpacked; free some space or choose another folder, and run it again."
        ) from error
    return target


def _bring(archive: Archive, folder: Path, progress: bool, say: Say, deadline: float) -> None:
    """Download, prove and unpack; a download that is not right is removed."""
    target, path = folder / archive.name, folder / archive.file
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FetchError(f"{target} is no folder; move it away to fetch {archive.name}.")
    first_use = _first_use(archive, target)
    source, advice = str(path), f" Delete {path} to have it downloaded."
    try:
        if path.is_file():
            say(f"found {path}, checking it")
        else:
            path = path.with_name(f"{path.name}.part")
            advice = " The download was removed."
            say(f"downloading {archive.url}")
            source = archive.url
            _download(archive, path, progress=progress, deadline=deadline)
            say("checking the download")
        provenance = _verified(path, source, archive, target, first_use)

        def record(unpacked: Path) -> None:
            # `unpack` refuses archives that say themselves where they come from.
            write_record(unpacked / RECORD, provenance)
            if not provenance.is_verified:
                write_record(_memory(target), provenance)

        say(f"unpacking to {target}")
        if target.is_dir():
            target.rmdir()  # it is empty
        unpack(path, target, finish=record)
    except ArchiveError as error:
        if path.suffix == ".part":  # it cannot be continued to the right file
            path.unlink(missing_ok=True)
        raise ArchiveError(f"{error}{advice}") from error
    with contextlib.suppress(OSError):
        path.unlink()
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
    if archive.sha256 not in (None, digest):
        raise ArchiveError(
            f"{archive.file} has the sha256 {digest} instead of {archive.sha256}; it was damaged "
            "or exchanged on its way."
        )
    if archive.sha256 is None and first_use is not None and digest != first_use.sha256:
        raise ArchiveError(
            f"{archive.file} has the sha256 {digest}, but had {first_use.sha256} when it was "
            f"first fetched; it was damaged or exchanged. If you know of a new version, delete "
            f"{_memory(target)} and fetch it again."
        )
    return Provenance(source, digest, size, VERIFIED if archive.sha256 else FIRST_USE)


def _is_there(target: Path) -> bool:
    return target.is_dir() and any(target.iterdir())


def _already_there(target: Path) -> str:
    provenance = provenance_of(target)
    origin = "of unknown origin"
    if provenance is not None:
        origin = {
            VERIFIED: "verified",
            FIRST_USE: f"unverified, sha256 {provenance.sha256}",
            UNKNOWN: f"of unknown origin: {RECORD} cannot be read, or is damaged",
        }[provenance.trust]
    return f"already there: {target} ({origin}; move it away to fetch it anew)"


def _memory(target: Path) -> Path:
    """Where the checksum of the first use is kept, also when the folder is moved away."""
    return target.with_name(f"{target.name}.fetched.json")


def _first_use(archive: Archive, target: Path) -> Provenance | None:
    """What was recorded when an archive without a known checksum was first fetched."""
    path = _memory(target)
    try:
        return _read_record(path)
    except FileNotFoundError:
        return None
    except DamagedFileError as error:
        raise ArchiveError(
            f"{path} holds the checksum of {archive.file} from its first fetch, and is damaged "
            f"({error}). Delete it if you trust the server today."
        ) from error


def _leftovers(archive: Archive, folder: Path) -> list[Path]:
    """What killed processes left; a part of a download only where it is not needed any more."""
    left = list(folder.glob(f".{archive.name}.*.tmp*"))
    part = folder / f"{archive.file}.part"
    return [*left, part] if part.is_file() and _is_there(folder / archive.name) else left
