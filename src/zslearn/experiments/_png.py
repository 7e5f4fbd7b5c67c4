"""Small pictures as PNG files, without a package for images."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOR = 0, 2


def data_uri(image: NDArray[np.uint8]) -> str:
    """A picture as an address that holds it whole.

    Parameters
    ----------
    image : ndarray of shape (height, width) or (height, width, 3)
        Grey or red, green and blue.

    Returns
    -------
    str
        ``data:image/png;base64,…``.
    """
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
    """An image in eight bits and no larger than a square, each point the mean of what it covers.

    Parameters
    ----------
    image : array of shape (height, width), (height, width, 1) or (height, width, 3 or more)
        Whole numbers from 0 to 255, or fractions from 0 to 1. Of more than three channels the first
        three are taken.
    side : int
        Longest height and width.
    inverted : bool, default=False
        Whether dark and light change places.

    Returns
    -------
    ndarray of shape (height, width) or (height, width, 3)
        The small image.
    """
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
