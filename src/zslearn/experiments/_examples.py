"""Example images of classes, kept beside the records so that a report needs no data set.

They are PNG files, written without a package for images, as addresses in JSON.
"""

from __future__ import annotations

import base64
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import DamagedFileError, read_checked_json, write_checked_json
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._records import slug

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOR = 0, 2


def data_uri(image: NDArray[np.uint8]) -> str:
    """A picture as an address that holds it whole."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(image)).decode("ascii")


def png_bytes(image: NDArray[np.uint8]) -> bytes:
    """A picture as the content of a PNG file; see :func:`data_uri`."""
    height, width = image.shape[:2]
    kind = _GREY if image.ndim == 2 else _COLOR
    # Each line begins with the number of its filter: 0 is none.
    lines = np.zeros((height, 1 + width * (1 if kind == _GREY else 3)), dtype=np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def thumbnail(image: Any, side: int, *, inverted: bool = False) -> NDArray[np.uint8]:
    """An image in eight bits and no larger than a square, each point the mean of what it covers."""
    values = np.asarray(image)
    values = values.astype(np.float64) * (255 if values.dtype.kind in "fb" else 1)
    if values.ndim == 3:
        values = values[..., 0] if values.shape[2] < 3 else values[..., :3]
    step = -(-max(values.shape[:2]) // side)
    if step > 1:
        # The last rows and columns cover fewer points of the image: they repeat its border.
        short = [(0, -length % step) for length in values.shape[:2]]
        values = np.pad(values, [*short, *[(0, 0)] * (values.ndim - 2)], mode="edge")
        height, width = (length // step for length in values.shape[:2])
        values = values.reshape(height, step, width, step, *values.shape[2:]).mean(axis=(1, 3))
    small = np.clip(np.nan_to_num(values), 0, 255).round().astype(np.uint8)
    return 255 - small if inverted else small


#: What the name of a file of example images ends with. Records end with ``.json``.
ENDING = ".images"
_KIND = "example images of classes"
#: So many characters the images of one data set may take, of the 5 MB of a report.
_MOST_CHARACTERS = 1_500_000
#: Images of a class and their longest side in points, the first that fits.
_SIZES = ((4, 48), (3, 48), (2, 48), (2, 32), (1, 32), (1, 24), (1, 16))
#: What is darker than this is black, but for noise.
_BLACK = 40
_URI = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")

#: Data set → class → images.
Images = dict[str, dict[str, list[str]]]


def save_examples(data: ZeroShotDataset, folder: str | os.PathLike[str]) -> Path | None:
    """Keep a few small images of each class, where there are any, beside records for the report."""
    if data.images is None:
        return None
    path = Path(folder) / f"{slug(data.name)}{ENDING}"
    rng = np.random.default_rng(0)
    codes: dict[Any, list[int]] = {}
    for row in rng.permutation(len(data.y)).tolist():
        codes.setdefault(data.y[row], []).append(row)
    # Unseen classes first: what does not fit are seen ones.
    labels = [*data.unseen_classes.tolist(), *data.seen_classes.tolist()]
    classes = [(str(label), codes[label]) for label in labels if label in codes]
    inverted = _is_ink(data.images, [rows[0] for _, rows in classes[:50]])
    images: dict[str, list[str]] = {}
    count, side = _size(data.images, classes)
    left = _MOST_CHARACTERS
    for name, rows in classes:
        images[name] = [
            data_uri(thumbnail(data.images[row], side, inverted=inverted)) for row in rows[:count]
        ]
        left -= sum(map(len, images[name]))
        if left < 0:
            del images[name]
            break
    write_checked_json(path, {"kind": _KIND, "dataset": data.name, "images": images})
    return path


def _size(images: Any, classes: list[tuple[str, list[int]]]) -> tuple[int, int]:
    """How many images of a class and how large, by the mean size of a few."""
    some = [rows[0] for _, rows in classes[:: max(1, len(classes) // 20)]]
    for count, side in _SIZES:
        mean = np.mean([len(data_uri(thumbnail(images[row], side))) for row in some] or [0])
        if mean * sum(min(count, len(rows)) for _, rows in classes) < 0.9 * _MOST_CHARACTERS:
            break
    return count, side


def _is_ink(images: Any, rows: list[int]) -> bool:
    """Whether images are grey and nearly black for the most part, so that light is ink."""
    some = [thumbnail(images[row], _SIZES[0][1]) for row in rows]
    return bool(some) and all(image.ndim == 2 and np.median(image) < _BLACK for image in some)


def read_examples(folder: Path) -> Images:
    """Read all example images in a folder of records."""
    found: Images = {}
    for path in sorted(folder.rglob(f"*{ENDING}")):
        try:
            content = read_checked_json(path)
            found[_text(content.get("dataset"))] = _checked_images(content)
        except (DamagedFileError, OSError):
            continue
    return found


def _checked_images(content: dict[str, Any]) -> dict[str, list[str]]:
    """Images of classes; an address that could be anything but a picture is refused."""
    images = content.get("images")
    if content.get("kind") != _KIND or not isinstance(images, dict):
        raise DamagedFileError("no example images")
    for uris in images.values():
        if not isinstance(uris, list) or not all(_URI.fullmatch(_text(uri)) for uri in uris):
            raise DamagedFileError("not all example images are pictures")
    return images


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DamagedFileError("not text")
    return value
