"""Downloading the archives of data sets.

Their addresses, sizes and checksums are data, in ``_archives.json``.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from zslearn.datasets._home import data_home
from zslearn.datasets._unpack import MAX_BYTES, unpack
from zslearn.utils import InputWarning

_CHUNK = 1 << 18  # bytes
_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 4
_WAIT = 1.0  # seconds before the second try; doubled each time


class FetchError(OSError):
    """A download did not succeed; what has come is kept if it can be continued."""


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
) -> Path:
    """Download and unpack an archive of data sets, unless it is there already.

    A transfer that was interrupted is continued by the next call. The size and the checksum are
    compared where they are known; where no checksum is known, a warning says what was computed.

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

    Returns
    -------
    Path
        The folder with the contents of the archive.

    Raises
    ------
    FetchError
        The download failed; what has come is kept in a file ``.part``.
    ValueError
        The archive is not the expected one, or is one that must not be unpacked.

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
    return fetch(find_archive(name), data_home(folder), progress=progress, say=say or _silent)


def _silent(text: str) -> None:
    """Say nothing."""


def fetch(archive: Archive, folder: Path, *, progress: bool, say: Callable[[str], None]) -> Path:
    """Bring an archive into a folder and unpack it there."""
    target = folder / archive.name
    if target.is_dir() and any(target.iterdir()):
        say(f"already there: {target} (move it away to fetch it anew)")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / archive.file
    part = path.with_name(f"{path.name}.part")
    if path.is_file():
        say(f"found {path}, checking it")
        _verify(path, archive)
    else:
        say(f"downloading {archive.urls[0]}")
        try:
            _download(archive, part, progress)
            say("checking the download")
            _verify(part, archive)
        except ValueError:
            # It cannot be continued to the right file.
            _forget(part)
            raise
        os.replace(part, path)
        _forget(part)
    say(f"unpacking to {target}")
    if target.is_dir():
        target.rmdir()  # it is empty
    unpack(path, target)
    path.unlink()
    return target


def _verify(path: Path, archive: Archive) -> None:
    """Compare size and checksum with those known."""
    size = path.stat().st_size
    if archive.size is not None and size != archive.size:
        raise ValueError(
            f"{path.name} has {size} bytes instead of {archive.size}; it is not the archive that "
            "was expected. Delete it and fetch it again."
        )
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if archive.sha256 is None:
        warnings.warn(
            f"No checksum of {path.name} is known, so that it could not be verified. Its sha256 "
            f"is {digest} ({size} bytes).",
            InputWarning,
            stacklevel=2,
        )
    elif digest != archive.sha256:
        raise ValueError(
            f"{path.name} has the sha256 {digest} instead of {archive.sha256}; it was damaged or "
            "exchanged on its way. Fetch it again."
        )


# ------------------------------------------------------------------------------- the transfer


def _info_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _info_path(part).unlink(missing_ok=True)


class _Interrupted(Exception):
    """The connection ended early; it may be continued."""


def _download(archive: Archive, part: Path, progress: bool) -> None:
    """Try the addresses in their order, each several times as long as it can be continued."""
    failures: list[str] = []
    for url in archive.urls:
        wait = _WAIT
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(wait)
                wait *= 2
            try:
                _transfer(url, part, archive, progress)
                return
            except _Interrupted as error:
                failure = str(error)
            except urllib.error.HTTPError as error:
                error.close()
                failure = f"the server answers {error.code} {error.reason}"
                if error.code < 500:
                    break
            except (OSError, http.client.HTTPException) as error:
                failure = str(getattr(error, "reason", error)) or type(error).__name__
                break
        failures.append(f"{url}: {failure}")
    kept = part.stat().st_size if part.is_file() else 0
    raise FetchError(
        f"Could not download {archive.file} ({'; '.join(failures)})."
        + (f" {kept} bytes are kept; run it again to continue." if kept else "")
    )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but not from an encrypted address to one that is not."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"a redirect to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str]) -> Any:
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url} is no address on the web.")
    opener = urllib.request.build_opener(_Redirects)
    request = urllib.request.Request(url, headers={"User-Agent": "zslearn", **headers})
    return opener.open(request, timeout=_TIMEOUT)


def _resume_headers(part: Path, archive: Archive) -> dict[str, str]:
    """Ask for the rest of the same file, if it can be told that it is the same."""
    if not part.is_file() or not part.stat().st_size:
        return {}
    headers = {"Range": f"bytes={part.stat().st_size}-"}
    try:
        mark = json.loads(_info_path(part).read_text("utf-8"))["mark"]
    except (OSError, ValueError, KeyError, TypeError):
        mark = None
    if isinstance(mark, str) and mark.isprintable():
        return {**headers, "If-Range": mark}
    return headers if archive.sha256 else {}


def _transfer(url: str, part: Path, archive: Archive, progress: bool) -> None:
    """One connection: start at what is there and write until the end."""
    asked = _resume_headers(part, archive)
    try:
        response = _open(url, asked)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not asked:
            raise
        error.close()
        total = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == part.stat().st_size:
            return  # everything was there
        _forget(part)
        raise _Interrupted("what was there does not fit the file on the server") from None
    with response:
        start, total_size = _placement(response, part, asked)
        expected = archive.size or total_size
        if expected is not None and expected > MAX_BYTES:
            raise ValueError(f"{url} claims {expected} bytes, which is too much.")
        if archive.size is not None and total_size not in (None, archive.size):
            raise ValueError(
                f"{url} has {total_size} bytes instead of {archive.size}; it is not the archive "
                "that was expected."
            )
        if not start:
            mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if mark and mark.startswith("W/"):
                mark = response.headers.get("Last-Modified")
            _info_path(part).write_text(json.dumps({"url": url, "mark": mark}), "utf-8")
        _receive(response, part, start, expected, archive.file, progress)
    arrived = part.stat().st_size
    if total_size is not None and arrived != total_size:
        raise _Interrupted(f"the connection ended after {arrived} of {total_size} bytes")


def _placement(response: Any, part: Path, asked: dict[str, str]) -> tuple[int, int | None]:
    """Where what comes belongs, and the size of the whole."""
    if response.status == 206 and asked:
        here = part.stat().st_size
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != here:
            _forget(part)
            raise _Interrupted("the server continued at another place")
        return here, None if found[2] == "*" else int(found[2])
    if response.status != 200:
        raise FetchError(f"the server answers {response.status}")
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isascii() and length.isdigit() else None


def _receive(
    response: Any, part: Path, start: int, expected: int | None, title: str, progress: bool
) -> None:
    """Write what comes, and show it."""
    console = Console(stderr=True)
    columns: Sequence[Any] = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    shown = Progress(*columns, console=console, disable=not (progress and console.is_terminal))
    limit = MAX_BYTES if expected is None else expected
    with open(part, "r+b" if start else "wb") as file, shown:
        file.seek(start)
        file.truncate()
        task = shown.add_task(title, total=expected, completed=start)
        arrived = start
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _Interrupted(f"the connection broke after {arrived} bytes") from error
            if not chunk:
                return
            arrived += len(chunk)
            if arrived > limit:
                raise ValueError(f"{title} is longer than the {limit} bytes that were announced.")
            file.write(chunk)
            shown.advance(task, len(chunk))
