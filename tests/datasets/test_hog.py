import math

import numpy as np
import pytest

from zslearn.datasets import _glyphs as _hog
from zslearn.datasets._glyphs import gradient_histogram


def slow_histogram(image):
    """The descriptor of one image, written out pixel by pixel."""
    height, width = image.shape
    cells = np.zeros((height // 4, width // 4, 9))
    for row in range(height):
        for column in range(width):
            across = down = 0.0
            if 0 < column < width - 1:
                across = float(image[row, column + 1]) - float(image[row, column - 1])
            if 0 < row < height - 1:
                down = float(image[row + 1, column]) - float(image[row - 1, column])
            magnitude = math.sqrt(across**2 + down**2)
            degrees = math.degrees(math.atan2(down, across)) % 180
            lower, share = int(degrees // 20), degrees % 20 / 20
            cells[row // 4, column // 4, lower % 9] += magnitude * (1 - share)
            cells[row // 4, column // 4, (lower + 1) % 9] += magnitude * share
    blocks = []
    for row in range(height // 4 - 1):
        for column in range(width // 4 - 1):
            block = cells[row : row + 2, column : column + 2].ravel()
            block = np.minimum(block / math.sqrt(block @ block + 100), 0.2)
            blocks.append(block / math.sqrt(block @ block + 1e-4))
    return np.concatenate(blocks)


def example_images():
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(32) * 3, np.arange(32) * 5).astype(np.uint8)
    disk = (np.hypot(*np.mgrid[-15.5:16, -15.5:16]) < 9).astype(np.uint8) * 255
    noise = rng.integers(0, 256, (3, 32, 32), dtype=np.uint8)
    return np.concatenate([[np.zeros((32, 32), np.uint8), ramp, disk, disk.T // 2], noise])


def test_equals_direct_loop():
    images = example_images()
    features = gradient_histogram(images)
    assert features.dtype == np.float32
    assert features.shape == (len(images), 1764)
    expected = np.array([slow_histogram(image) for image in images])
    np.testing.assert_allclose(features, expected, atol=2e-6)


def test_equals_direct_loop_on_glyphs(glyphs):
    rows = np.arange(0, len(glyphs.images), 2311)
    expected = np.array([slow_histogram(glyphs.images[row]) for row in rows])
    np.testing.assert_allclose(glyphs.X[rows], expected, atol=2e-6)


def test_other_shapes():
    image = example_images()[4, :12, :20]
    np.testing.assert_allclose(gradient_histogram(image[None])[0], slow_histogram(image), atol=2e-6)


@pytest.mark.parametrize("n_images", [1, 3])
def test_blocks_do_not_change_the_result(n_images, monkeypatch):
    images = example_images()
    at_once = gradient_histogram(images)
    cell_histograms, sizes = _hog._cell_histograms, []

    def counted(block):
        sizes.append(len(block))
        return cell_histograms(block)

    monkeypatch.setattr(_hog, "_cell_histograms", counted)
    block_bytes = n_images * _hog._PIXEL_BYTES * images[0].size
    monkeypatch.setattr("zslearn._utils._blocks.BLOCK_BYTES", block_bytes)
    assert np.array_equal(gradient_histogram(images), at_once)
    assert max(sizes) == n_images


def test_flat_images_give_zeros():
    assert not gradient_histogram(np.full((2, 32, 32), 77, np.uint8)).any()
    assert gradient_histogram(np.zeros((0, 32, 32), np.uint8)).shape == (0, 1764)


def test_turning_the_contrast_round_changes_nothing():
    images = example_images()
    assert np.allclose(gradient_histogram(images), gradient_histogram(255 - images), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 30, 32), (1, 32, 6), (1, 4, 32)])
def test_refused_shapes(shape):
    with pytest.raises(ValueError, match="multiples of 4, at least 8"):
        gradient_histogram(np.zeros(shape, np.uint8))
