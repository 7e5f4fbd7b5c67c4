"""Example images of classes, saved with the records so that a report needs no data set."""

from __future__ import annotations

import base64
import io
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import DamagedFileError, read_checked_json, write_checked_json
from zslearn._utils._optional import import_optional
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._records import slug

#: Suffix of a file of example images; records end with ``.json``.
ENDING = ".images"
KIND = "example images of classes"
#: Most characters of the images of one data set; a report should stay below 5 MB.
_MOST_CHARACTERS = 1_500_000
#: Number of images per class and their longest side in pixels; the first that fits is used.
_SIZES = ((4, 48), (3, 48), (2, 48), (2, 32), (1, 32), (1, 24), (1, 16))
#: Grey levels below this are black with noise.
_BLACK = 40
_URI = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")

#: Data set → class → images.
Images = dict[str, dict[str, list[str]]]


def _eight_bits(image: Any) -> NDArray[np.uint8]:
    """Convert an image to eight bits, grey or RGB."""
    values = np.asarray(image)
    values = values * (255 if values.dtype.kind in "fb" else 1)
    if values.ndim == 3:
        values = values[..., 0] if values.shape[2] < 3 else values[..., :3]
    return np.clip(np.nan_to_num(values), 0, 255).round().astype(np.uint8)


def data_uri(image: Any, side: int, *, inverted: bool = False) -> str:
    """A thumbnail of an image as a data URI."""
    pillow = import_optional("PIL.Image", "Images in a report")
    picture = pillow.fromarray(255 - _eight_bits(image) if inverted else _eight_bits(image))
    picture.thumbnail((side, side), pillow.Resampling.BOX)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def save_examples(data: ZeroShotDataset, folder: str | os.PathLike[str]) -> Path | None:
    """Save thumbnails of each class for the report, if Pillow is installed."""
    if find_spec("PIL") is None:
        return None
    rows_of: dict[Any, list[int]] = {}
    for row in np.random.default_rng(0).permutation(len(data.y)).tolist():
        rows_of.setdefault(data.y[row], []).append(row)
    # Unseen classes first, in case not all fit.
    labels = [*data.unseen_classes.tolist(), *data.seen_classes.tolist()]
    classes = [(str(label), rows_of[label]) for label in labels if label in rows_of]
    # Mostly black grey images, such as light ink on black, are inverted.
    firsts = [_eight_bits(data.images[rows[0]]) for _, rows in classes[:50]]
    inverted = all(image.ndim == 2 and np.median(image) < _BLACK for image in firsts)
    some = [rows[0] for _, rows in classes[:: max(1, len(classes) // 20)]]
    for count, side in _SIZES:
        mean = np.mean([len(data_uri(data.images[row], side)) for row in some] or [0])
        if mean * sum(min(count, len(rows)) for _, rows in classes) < 0.9 * _MOST_CHARACTERS:
            break
    images: dict[str, list[str]] = {}
    left = _MOST_CHARACTERS
    for name, rows in classes:
        shown = [data_uri(data.images[row], side, inverted=inverted) for row in rows[:count]]
        left -= sum(map(len, shown))
        if left < 0:
            break
        images[name] = shown
    path = Path(folder) / f"{slug(data.name)}{ENDING}"
    write_checked_json(path, {"kind": KIND, "dataset": data.name, "images": images})
    return path


def read_examples(folder: Path) -> Images:
    """Read all example images in a folder of records, ignoring damaged files."""
    found: Images = {}
    for path in sorted(folder.rglob(f"*{ENDING}")):
        try:
            content = read_checked_json(path)
        except (DamagedFileError, OSError):
            continue
        name, images = content.get("dataset"), content.get("images")
        is_sound = content.get("kind") == KIND and isinstance(name, str)
        # Only data URIs of PNG images are accepted.
        if is_sound and isinstance(images, dict) and all(map(_are_pictures, images.values())):
            found[str(name)] = images
    return found


def _are_pictures(addresses: Any) -> bool:
    return isinstance(addresses, list) and all(
        isinstance(address, str) and _URI.fullmatch(address) for address in addresses
    )
