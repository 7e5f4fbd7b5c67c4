"""The pictures of emoji and their features: made once, then kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._emoji_classes import Emoji, Icons, emoji_classes, read_icons
from zslearn.datasets._emoji_drawings import INNER, SIDE, DrawingError, render, renderer_version
from zslearn.datasets._emoji_packages import STYLES, main_file, sources
from zslearn.features import Backbone
from zslearn.utils import (
    DamagedCacheError,
    fingerprint,
    import_optional,
    plain,
    progress_bar,
    read_arrays,
    warn_user,
    write_arrays,
)

#: Raise it whenever a class, a picture, a feature, a signature or a split changes.
VERSION = "emoji-1"
_BATCH = 8  # pictures that go through a network at once


@dataclass(frozen=True)
class Catalogue:
    """The classes, and digests of the files that they were read from.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    cache : Path
        Where pictures and features are kept.
    digests : dict of str to str
        SHA-256 of the file of each style.
    classes : list of Emoji
        The classes.
    """

    folder: Path
    cache: Path
    digests: dict[str, str]
    classes: list[Emoji]


def read_catalogue(folder: Path, cache: Path) -> Catalogue:
    """Find the classes, or read which they are from the cache.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    cache : Path
        Where things are kept.

    Returns
    -------
    Catalogue
        The classes.
    """
    digests = {name: _digest(folder / name / main_file(name)) for name in sources()}
    fields = ("label", "character", "hexcode", "group", "icon")

    def find() -> dict[str, NDArray[Any]]:
        classes = emoji_classes(folder, read_icons(folder))
        if not classes:
            raise ValueError(f"{folder}: there is no emoji that every style draws.")
        return {
            field: np.array(column)
            for field, column in zip(fields, zip(*map(astuple, classes), strict=True), strict=True)
        }

    def fits(arrays: dict[str, NDArray[Any]]) -> bool:
        return set(arrays) == set(fields) and len({a.shape for a in arrays.values()}) == 1

    path = cache / f"{VERSION}_classes-{fingerprint(digests)[:16]}.npz"
    columns = _kept(path, find, fits)
    rows = zip(*(columns[field].tolist() for field in fields), strict=True)
    return Catalogue(folder, cache, digests, [Emoji(*row) for row in rows])


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kept(
    path: Path,
    make: Callable[[], dict[str, NDArray[Any]]],
    fits: Callable[[dict[str, NDArray[Any]]], bool],
) -> dict[str, NDArray[Any]]:
    """Arrays of the cache, or made and put there; damage and a full disk are no reason to fail."""
    try:
        arrays = read_arrays(path)
        if fits(arrays):
            return arrays
        raise DamagedCacheError("it holds other arrays")
    except FileNotFoundError:
        pass
    except DamagedCacheError as error:
        warn_user(f"The cached emoji in {path} cannot be used ({error}); they are made again.")
    arrays = make()
    try:
        write_arrays(path, arrays)
    except OSError as error:
        warn_user(
            f"The emoji were made but not kept in {path.parent} ({error}). Name a folder that can "
            "be written by the environment variable ZSLEARN_CACHE."
        )
    return arrays


def _picture_key(catalogue: Catalogue, style: str) -> str:
    """What decides the pictures of a style."""
    icons = [emoji.icon for emoji in catalogue.classes]
    digest = catalogue.digests[style]
    return fingerprint(VERSION, SIDE, INNER, renderer_version(), digest, icons)[:16]


def load_pictures(catalogue: Catalogue, *, progress: bool = False) -> NDArray[np.uint8]:
    """All pictures, rendered style by style where they are not kept yet.

    Parameters
    ----------
    catalogue : Catalogue
        The classes.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ndarray of uint8 of shape (n_classes, n_styles, 128, 128, 3)
        Red, green and blue.
    """
    n_classes = len(catalogue.classes)
    shape = (n_classes, SIDE, SIDE, 3)
    pictures = np.empty((n_classes, len(STYLES), SIDE, SIDE, 3), dtype=np.uint8)
    with progress_bar(progress, n_classes * len(STYLES), "Drawing emoji", unit="pictures") as step:
        for position, style in enumerate(STYLES):
            drawn = 0

            def draw(style: str = style) -> dict[str, NDArray[Any]]:
                nonlocal drawn
                icons = Icons(catalogue.folder / style / main_file(style))
                images = np.empty(shape, dtype=np.uint8)
                for row, emoji in enumerate(catalogue.classes):
                    images[row] = draw_emoji(icons, emoji)
                    drawn += 1
                    step(1)
                return {"images": images}

            name = f"{VERSION}_{style}_{_picture_key(catalogue, style)}.npz"
            found = _kept(catalogue.cache / name, draw, lambda a: _is(a, "images", shape, np.uint8))
            pictures[:, position] = found["images"]
            step(n_classes - drawn)
    return pictures


def _is(arrays: dict[str, NDArray[Any]], key: str, shape: tuple[int, ...], dtype: Any) -> bool:
    found = arrays.get(key)
    return found is not None and found.shape == shape and found.dtype == dtype


def draw_emoji(icons: Icons, emoji: Emoji) -> NDArray[np.uint8]:
    """The picture of an emoji in one style; an error names the file and the icon."""
    name = icons.resolve(emoji.icon)
    if name is None:
        raise ValueError(f"{icons.path} has no drawing of {emoji.label!r}.")
    try:
        return render(icons.drawing(name))
    except DrawingError as error:
        raise ValueError(f"{icons.path}: icon {plain(name, 80)!r} is refused: {error}.") from error


def load_picture_features(
    catalogue: Catalogue,
    pictures: NDArray[np.uint8],
    backbone: Backbone,
    *,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Features of all pictures, computed style by style where they are not kept yet.

    Parameters
    ----------
    catalogue : Catalogue
        The classes.
    pictures : ndarray of uint8 of shape (n_classes, n_styles, 128, 128, 3)
        What :func:`load_pictures` gave.
    backbone : Backbone
        The network.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ndarray of float32 of shape (n_classes, n_styles, n_features)
        One row per picture.
    """
    image = import_optional("PIL.Image", "Computing features")
    n_classes = len(catalogue.classes)
    shape = (n_classes, backbone.n_features)
    features = np.empty((n_classes, len(STYLES), backbone.n_features), dtype=np.float32)
    title = re.sub("[^a-z0-9-]+", "-", backbone.name.lower())[:40]
    with progress_bar(progress, n_classes * len(STYLES), "Features", unit="pictures") as step:
        for position, style in enumerate(STYLES):
            computed = 0

            def compute(position: int = position) -> dict[str, NDArray[Any]]:
                nonlocal computed
                blocks = []
                for start in range(0, n_classes, _BATCH):
                    some = pictures[start : start + _BATCH, position]
                    blocks.append(backbone.features(image.fromarray(pixels) for pixels in some))
                    computed += len(some)
                    step(len(some))
                return {"features": np.concatenate(blocks)}

            key = fingerprint(_picture_key(catalogue, style), backbone.about)[:16]
            found = _kept(
                catalogue.cache / f"{VERSION}_{style}_{title}_{key}.npz",
                compute,
                lambda a: _is(a, "features", shape, np.float32),
            )
            features[:, position] = found["features"]
            step(n_classes - computed)
    return features
