"""Bringing a file from an encrypted address, in as many connections as it takes.

A server is believed in nothing: what it sends is bounded in time and size, and what it says is
written in plain letters where a person reads it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
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

from zslearn.datasets._archive_members import ArchiveError
from zslearn.datasets._unpack import MAX_BYTES
from zslearn.utils import plain

_CHUNK = 1 << 18  # bytes
_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 4
_WAIT = 1.0  # seconds before the second try; doubled each time


class FetchError(OSError):
    """A download did not succeed; what has come is kept if it can be continued."""


@dataclass(frozen=True)
class Wanted:
    """A file to bring: where it is, and what is known of it."""

    file: str
    urls: tuple[str, ...]
    size: int | None
    sha256: str | None


class _Interrupted(Exception):
    """The connection ended early; it may be continued."""


def download(wanted: Wanted, part: Path, *, progress: bool, deadline: float) -> str:
    """Bring a file, and return its address.

    The addresses are tried in their order, each several times as long as it can be continued.

    Parameters
    ----------
    wanted : Wanted
        The file.
    part : Path
        Where to put it. What is there is continued.
    progress : bool
        Show a progress bar if standard error is a terminal.
    deadline : float
        How many seconds it may take in all.

    Raises
    ------
    FetchError
        It did not come, or cannot be written; what has come is kept.
    ArchiveError
        It cannot be the expected file.
    """
    end = time.monotonic() + deadline
    failures: list[str] = []
    for url in wanted.urls:
        failure = _try_address(url, part, wanted, progress, end)
        if failure is None:
            return url
        failures.append(f"{url}: {plain(failure, 200)}")
        if time.monotonic() >= end:
            failures.append(f"the limit of {deadline:.0f} seconds is over")
            break
    kept = part.stat().st_size if part.is_file() else 0
    if not kept:
        forget(part)
    raise FetchError(
        f"Could not download {wanted.file} ({'; '.join(failures)}). "
        + (f"{kept} bytes are kept; run it again to continue." if kept else "Nothing is kept.")
    )


def _try_address(url: str, part: Path, wanted: Wanted, progress: bool, end: float) -> str | None:
    """Try one address, and return why it failed, or None."""
    failure = ""
    wait = _WAIT
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(max(0.0, min(wait, end - time.monotonic())))
            wait *= 2
            if time.monotonic() >= end:
                break
        try:
            _transfer(url, part, wanted, progress, end)
            return None
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
    return failure


def _info_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def forget(part: Path) -> None:
    """Remove what has come of a file."""
    part.unlink(missing_ok=True)
    _info_path(part).unlink(missing_ok=True)


def parts_of(part: Path) -> list[Path]:
    """The files that a download keeps until it is done."""
    return [path for path in (part, _info_path(part)) if path.is_file()]


# ----------------------------------------------------------------------------- one connection


def _check_encrypted(url: str) -> None:
    if urlsplit(url).scheme != "https":
        raise urllib.error.URLError(f"{plain(url, 200)} is not encrypted (https), and is not asked")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to encrypted addresses only."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_encrypted(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str], end: float) -> Any:
    """Ask for a file, by an opener that has no other way than https."""
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
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers={"User-Agent": "zslearn", **headers})
    return opener.open(request, timeout=max(0.01, min(_TIMEOUT, end - time.monotonic())))


def _resume_headers(part: Path, wanted: Wanted) -> dict[str, str]:
    """Ask for the rest of the same file, if it can be told that it is the same."""
    if not part.is_file() or not part.stat().st_size:
        return {}
    headers = {"Range": f"bytes={part.stat().st_size}-"}
    try:
        mark = json.loads(_info_path(part).read_text("utf-8"))["mark"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        mark = None
    if isinstance(mark, str) and mark.isprintable() and mark.isascii():
        return {**headers, "If-Range": mark}
    return headers if wanted.sha256 else {}


def _transfer(url: str, part: Path, wanted: Wanted, progress: bool, end: float) -> None:
    """One connection: start at what is there and write until the end."""
    asked = _resume_headers(part, wanted)
    try:
        response = _open(url, asked, end)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not asked:
            raise
        error.close()
        total = re.fullmatch(r"bytes \*/(\d{1,18})", error.headers.get("Content-Range", ""))
        if total and int(total[1]) == part.stat().st_size:
            return  # everything was there
        forget(part)
        raise _Interrupted("what was there does not fit the file on the server") from None
    with response:
        start, total_size = _placement(response, part, asked)
        expected = wanted.size or total_size
        if expected is not None and expected > MAX_BYTES:
            raise ArchiveError(f"{url} claims {expected} bytes, which is too much.")
        if wanted.size is not None and total_size not in (None, wanted.size):
            raise ArchiveError(
                f"{url} has {total_size} bytes instead of {wanted.size}; it is not the archive "
                "that was expected."
            )
        if not start:
            mark = response.headers.get("ETag") or response.headers.get("Last-Modified")
            if mark and mark.startswith("W/"):
                mark = response.headers.get("Last-Modified")
            with _writing(part):
                info = json.dumps({"url": url, "mark": mark})
                with open(_info_path(part), "w", encoding="utf-8", opener=_no_link) as file:
                    file.write(info)
        _receive(response, part, start, expected, wanted.file, progress)
    arrived = part.stat().st_size
    if total_size is not None and arrived != total_size:
        raise _Interrupted(f"the connection ended after {arrived} of {total_size} bytes")


def _placement(response: Any, part: Path, asked: dict[str, str]) -> tuple[int, int | None]:
    """Where what comes belongs, and the size of the whole."""
    if response.status == 206 and asked:
        here = part.stat().st_size
        found = re.fullmatch(
            r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", response.headers.get("Content-Range", "")
        )
        if not found or int(found[1]) != here:
            forget(part)
            raise _Interrupted("the server continued at another place")
        return here, None if found[2] == "*" else int(found[2])
    if response.status != 200:
        raise urllib.error.URLError(f"the server answers {response.status}")
    length = re.fullmatch(r"[0-9]{1,18}", response.headers.get("Content-Length", ""))
    return 0, int(length[0]) if length else None


@contextlib.contextmanager
def _writing(part: Path) -> Any:
    """Tell trouble of the disk from that of the connection, which may be tried again."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise FetchError(
            f"Could not write {part} ({reason}). What has come is kept; run it again to continue."
        ) from error


def _no_link(path: str, flags: int) -> int:
    """Open a file, but not through a link, which could lead to any other file."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


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
    is_visible = progress and console.is_terminal
    shown = Progress(*columns, console=console, disable=not is_visible)
    limit = MAX_BYTES if expected is None else expected
    with _writing(part):
        mode = "r+b" if start else "wb"
        file = open(part, mode, buffering=0, opener=_no_link)  # noqa: SIM115
    # Before version 14.1 a bar that is not shown still ends with an empty line.
    with file, shown if is_visible else nullcontext():
        with _writing(part):
            file.seek(start)
            file.truncate()
        task = shown.add_task(title, total=expected, completed=start)
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
            with _writing(part):
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            shown.advance(task, len(chunk))
