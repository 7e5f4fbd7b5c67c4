"""Features of images with what made them, in memory and in a file."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._messages import plain

# Several arrays in one NumPy file ``.npz``, written whole and read with care.

#: A compressed array may be this many times larger than it is in the file.
_MULTIPLE = 64
_BESIDE = 64 * 2**20


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays under their names, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays by name; Python objects and arrays that are not as large as they claim are refused."""
    with open(path, "rb") as file:
        try:
            return _members(file, _MULTIPLE * path.stat().st_size + _BESIDE)
        # zipfile, zlib and the parser of NumPy's headers each raise errors of their own.
        except Exception as error:
            reason = plain(str(error).partition("\n")[0], 200) or type(error).__name__
            raise ValueError(f"{plain(path)}: the arrays cannot be read ({reason}).") from error


def _members(file: IO[bytes], allowed: int) -> dict[str, NDArray[Any]]:
    """All arrays of an open file, which together take no more bytes than allowed."""
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > allowed:
            raise ValueError("it claims to hold far more than its size allows")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {plain(name)!r} twice")
            with archive.open(member) as data:
                arrays[name] = _read(data, member.file_size)
    return arrays


def _read(file: IO[bytes], size: int) -> NDArray[Any]:
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of NumPy's format")
    shape, is_fortran, dtype = readers[version](file)
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"an array of dtype {dtype} and shape {shape}")
    if n_bytes != size - file.tell():
        raise ValueError(f"an array of {n_bytes} bytes in {size - file.tell()}")
    data = file.read(n_bytes)
    if len(data) != n_bytes:
        raise ValueError("an array is cut short")
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")
    return array.copy()


def text_array(texts: list[str]) -> NDArray[np.str_]:
    """Texts as an array that needs no pickle, also if there are none."""
    return np.asarray(texts, dtype=np.str_)


def json_array(content: Any) -> NDArray[np.uint8]:
    """What JSON can hold, as bytes in an array."""
    return np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)


def array_json(array: NDArray[Any]) -> Any:
    """What :func:`json_array` was given."""
    try:
        return json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what should be JSON is not ({plain(error, 100)})") from error


#: What decides whether two sets of features can be compared, and what errors call it.
_DECISIVE = {
    "backbone": "the backbone",
    "weights_sha256": "the weights",
    "preprocessing": "the preprocessing",
}


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """Features of images, and how they were made.

    Parameters
    ----------
    X : ndarray of float32 of shape (n_images, n_features)
        One row per image that could be read.
    y : ndarray of str of shape (n_images,) or None
        The class of each, where it is known.
    images : tuple of str
        What each is called.
    digests : tuple of str
        The first 32 digits of the SHA-256 of each image file; empty where they are not known.
    about : dict
        What made them: "backbone", "weights_sha256", "n_features", "preprocessing", "boxes"
        (whether images were cut to bounding boxes), "skipped" (images that could not be read, with
        the reason) and versions. Empty where they were made by another program.
    rate : float or None
        Images per second, where they were computed just now.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    images: tuple[str, ...]
    digests: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Images that could not be read, and why."""
        found = self.about.get("skipped")
        # The record may be another program's.
        pairs = found if isinstance(found, list) else []
        pairs = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
        return [(str(name), str(reason)) for name, reason in pairs]

    def take(self, rows: Any) -> ImageFeatures:
        """Some of the images.

        Parameters
        ----------
        rows : array of int or bool
            Which ones.

        Returns
        -------
        ImageFeatures
            With the same record of how they were made.
        """
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        return ImageFeatures(
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            images=tuple(self.images[row] for row in rows),
            digests=tuple(self.digests[row] for row in rows) if self.digests else (),
            about=self.about,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file ``.npz``, which holds no pickles.

        Parameters
        ----------
        path : path
            The file. The array "X" holds the features, "y" the labels, "images" the names,
            "digests" and "about", which is JSON in UTF-8, the rest.
        """
        arrays = {
            "X": self.X,
            "images": text_array(list(self.images)),
            "digests": text_array(list(self.digests)),
            "about": json_array(self.about),
        }
        if self.y is not None:
            arrays["y"] = self.y.astype(np.str_)
        write_archive(checked_name(path), arrays)


def load_features(path: str | os.PathLike[str]) -> ImageFeatures:
    """Read features that :func:`extract_features` wrote, or those of another program.

    Parameters
    ----------
    path : path
        A file ``.npz`` with an array "X" or "features", one row per image, and, where labels are
        known, "y" or "labels".

    Returns
    -------
    ImageFeatures
        Features and what is known of them.

    Raises
    ------
    ValueError
        The file is damaged or holds something else.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from zslearn.images import load_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.npz")
    ...     np.savez(path, X=np.eye(2), y=["cat", "dog"])
    ...     features = load_features(path)
    >>> features.X.shape, features.y.tolist(), features.images
    ((2, 2), ['cat', 'dog'], ('0', '1'))
    """
    file = checked_name(path)
    arrays = read_archive(file)
    where = plain(file)
    X = arrays.get("X", arrays.get("features"))
    if X is None or X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise ValueError(f"{where}: there is no array 'X' of numbers with one row per image.")
    try:
        about = array_json(arrays["about"]) if "about" in arrays else {}
        if not isinstance(about, dict):
            raise ValueError("'about' is no JSON object")
        names = _texts(arrays, "images", len(X)) or tuple(map(str, range(len(X))))
        digests = _texts(arrays, "digests", len(X))
        y = arrays.get("y", arrays.get("labels"))
        if y is not None and (y.shape != (len(X),) or y.dtype.kind not in "Uiu"):
            raise ValueError(f"'y' has shape {y.shape} and dtype {y.dtype}, not a label per image")
    except ValueError as error:
        raise ValueError(f"{where}: this is no file of features: {error}.") from error
    return ImageFeatures(X, None if y is None else y.astype(np.str_), names, digests, about)


def _texts(arrays: Mapping[str, NDArray[Any]], name: str, n_rows: int) -> tuple[str, ...]:
    array = arrays.get(name)
    if array is None or not array.size:
        return ()
    if array.shape != (n_rows,) or array.dtype.kind != "U":
        raise ValueError(f"{name!r} has shape {array.shape} and dtype {array.dtype}")
    return tuple(array.tolist())


def checked_name(path: str | os.PathLike[str]) -> Path:
    """The path of a file of features; one of another kind is refused."""
    file = Path(path)
    if file.suffix != ".npz":
        raise ValueError(f"{plain(file)}: features are kept in a file that ends in .npz.")
    return file


def refuse_other_features(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, whose: str, where: str
) -> None:
    """Refuse features that were made otherwise than those a model knows."""
    if not expected or not found:
        return
    for key, what in _DECISIVE.items():
        ours, theirs = expected.get(key), found.get(key)
        if ours != theirs:
            raise ValueError(
                f"{where}: {what} of these features is {_shown(theirs)}; {whose} was fitted on "
                f"features of {_shown(ours)}. Extract them as {whose} needs them."
                + (" Both are " + str(expected["backbone"]) + "." if key != "backbone" else "")
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return plain(", ".join(f"{key} {item}" for key, item in value.items()), 200)
    return plain(value, 80)
