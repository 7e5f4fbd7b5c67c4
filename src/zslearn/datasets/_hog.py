"""A histogram of oriented gradients, computed for many small images at once.

Following Dalal and Triggs, "Histograms of Oriented Gradients for Human Detection", CVPR 2005:
unsigned orientations shared between the two nearest of nine bins, cells of 4 × 4 pixels, blocks of
2 × 2 cells one cell apart, each block to unit ℓ2 norm, clipped at 0.2, and to unit norm again.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import row_blocks

N_BINS = 9
CELL = 4  # pixels
CLIP = 0.2
# Added to the squared norms, so that a block with hardly any gradient stays near zero.
FLAT_BLOCK = 100.0
FLAT_CLIPPED = 1e-4
_LEVELS = 511  # a difference of grey levels lies in −255 … 255
# For each pixel: the grey level, two differences and the gradient; its slot, bin and two weights.
_PIXEL_BYTES = 4 * 4 + 4 * 8


def gradient_histogram(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Describe images by histograms of their gradients.

    Parameters
    ----------
    images : ndarray of uint8 of shape (n_images, height, width)
        The sides must be multiples of 4 and at least 8.

    Returns
    -------
    ndarray of float32 of shape (n_images, n_features)
        ``n_features = (height / 4 - 1) * (width / 4 - 1) * 36``: 1764 for 32 × 32 pixels.
    """
    n_images, height, width = images.shape
    if height % CELL or width % CELL or min(height, width) < 2 * CELL:
        raise ValueError(
            f"images are {height} × {width} pixels; both sides must be multiples of {CELL}, "
            f"at least {2 * CELL}."
        )
    n_features = (height // CELL - 1) * (width // CELL - 1) * 4 * N_BINS
    features = np.empty((n_images, n_features), dtype=np.float32)
    for rows in row_blocks(n_images, _PIXEL_BYTES * height * width):
        features[rows] = _normalized_blocks(_cell_histograms(images[rows]))
    return features


@lru_cache(maxsize=1)
def _gradient_table() -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Return bin and weights for each of the 511 × 511 gradients that grey levels can give.

    A gradient of magnitude m between the bins b and b + 1 adds part of m to both. The table gives
    b and the two parts, at ``_LEVELS * (down + 255) + (across + 255)``.
    """
    levels = np.arange(-255.0, 256.0)
    down, across = levels[:, None], levels[None, :]
    magnitude = np.hypot(across, down)
    position = np.arctan2(down, across) * (N_BINS / np.pi) % N_BINS
    lower = np.floor(position)
    upper_part = magnitude * (position - lower)
    # Rounding can take the position up to N_BINS itself, which is bin 0.
    lower_bin = lower.astype(np.intp) % N_BINS
    return lower_bin.ravel(), (magnitude - upper_part).ravel(), upper_part.ravel()


def _cell_histograms(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Sum gradient magnitudes by cell and orientation: (n, rows, columns, bins)."""
    n_images, height, width = images.shape
    grey = images.astype(np.int32)
    # Central differences; the outermost pixels have none across the border.
    across, down = np.zeros_like(grey), np.zeros_like(grey)
    across[:, :, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2]
    down[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    gradient = _LEVELS * (down + 255) + (across + 255)
    lower_bin, lower_part, upper_part = _gradient_table()

    shape = (n_images, height // CELL, width // CELL, N_BINS)
    cell = np.arange(height)[:, None] // CELL * shape[2] + np.arange(width) // CELL
    image = np.arange(n_images)[:, None, None] * (shape[1] * shape[2])
    slot = ((image + cell) * N_BINS + lower_bin[gradient]).ravel()
    size = math.prod(shape)
    lower = np.bincount(slot, lower_part[gradient].ravel(), minlength=size).reshape(shape)
    upper = np.bincount(slot, upper_part[gradient].ravel(), minlength=size).reshape(shape)
    return (lower + np.roll(upper, 1, axis=-1)).astype(np.float32)


def _normalized_blocks(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalise each block of 2 × 2 cells; flatten to one row per image."""
    blocks = np.concatenate(
        [cells[:, :-1, :-1], cells[:, :-1, 1:], cells[:, 1:, :-1], cells[:, 1:, 1:]], axis=-1
    )
    blocks /= np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + np.float32(FLAT_BLOCK))
    np.minimum(blocks, np.float32(CLIP), out=blocks)
    blocks /= np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + np.float32(FLAT_CLIPPED))
    return blocks.reshape(len(blocks), -1)
