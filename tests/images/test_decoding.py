from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zlib
from dataclasses import replace

import numpy as np
import pytest

from zslearn.images import (
    Preprocessing,
    UnreadableImageError,
    _decoding,
    decoding_bytes,
    open_image,
    read_image,
)

Image = pytest.importorskip("PIL.Image")


def encoded(image, kind="PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr"])
def test_every_mode_becomes_rgb(mode):
    # Older versions of Pillow write damaged TIFF files of YCbCr.
    kind = {"CMYK": "TIFF", "YCbCr": "JPEG"}.get(mode, "PNG")
    white = Image.new("RGB", (5, 4), (255, 255, 255)).convert(mode)
    image = read_image(encoded(white, kind))
    assert (image.mode, image.size) == ("RGB", (5, 4))
    assert np.asarray(image).min() >= 250


def test_transparent_parts_are_white():
    half = Image.new("RGBA", (2, 1), (200, 0, 0, 255))
    half.putpixel((1, 0), (200, 0, 0, 0))
    assert np.asarray(read_image(encoded(half))).tolist() == [[[200, 0, 0], [255, 255, 255]]]
    grey = Image.new("LA", (1, 1), (90, 0))
    assert np.asarray(read_image(encoded(grey))).tolist() == [[[255, 255, 255]]]
    indexed = Image.new("P", (1, 1), 0)
    indexed.putpalette([10, 20, 30] * 256)
    assert np.asarray(read_image(encoded(indexed, transparency=0))).tolist() == [[[255] * 3]]
    assert np.asarray(read_image(encoded(indexed))).tolist() == [[[10, 20, 30]]]


def test_grey_in_16_bits_keeps_its_shades():
    shades = Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16))
    assert np.asarray(read_image(encoded(shades)))[0, :, 0].tolist() == [0, 100, 255]


def test_fractions_are_refused():
    with pytest.raises(UnreadableImageError, match="fractions"):
        read_image(encoded(Image.new("F", (2, 2), 0.5), "TIFF"))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_a_camera_is_honoured(orientation):
    from PIL import ImageOps

    upright = Image.fromarray(np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(upright, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    found = read_image(data)
    assert np.array_equal(np.asarray(found), np.asarray(expected.convert("RGB")))
    assert found.size == ((6, 4) if orientation < 5 else (4, 6))


def test_of_an_animation_the_first_picture():
    frames = [Image.new("RGB", (3, 3), color) for color in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert np.asarray(read_image(data))[0, 0].tolist() == [255, 0, 0]


def test_boxes_are_cut_within_the_image():
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    whole = np.asarray(image)
    cut = read_image(encoded(image), box=(1, 2, 2, 100))
    assert np.array_equal(np.asarray(cut), whole[2:, 1:3])
    assert read_image(encoded(image), box=(-5, -5, 6, 6)).size == (1, 1)
    with pytest.raises(UnreadableImageError, match=r"lies outside of its 4 × 4 pixels"):
        read_image(encoded(image), box=(4, 0, 2, 2))


def bomb(width, height):
    """A PNG whose header claims more than its few bytes hold."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("sides", [(60_000, 60_000), (10_001, 10_000), (2**31 - 1, 1)])
def test_bombs_are_refused_before_they_are_decoded(sides):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnreadableImageError, match="max_pixels"):
            read_image(bomb(*sides))


def with_scans(n_more, size=(64, 64)):
    """A JPEG whose last scan is repeated."""
    data = encoded(Image.new("RGB", size, "red"), "JPEG", progressive=True)
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + n_more * data[last:end] + data[end:]


def test_scans_of_a_jpeg_are_counted():
    """Each takes as long as a picture: thousands of them are a file of some kilobytes."""
    assert read_image(with_scans(40)).size == (64, 64)
    with pytest.raises(UnreadableImageError, match="more than 64 scans"):
        read_image(with_scans(60))
    # What lies in segments or behind the image is none of its scans.
    data = with_scans(0)
    preview = b"\xff\xe7\x04\x02" + b"\xff\xda" * 512
    assert read_image(data[:2] + preview + data[2:] + b"\xff\xda\0\2" * 100).size == (64, 64)
    with pytest.raises(UnreadableImageError, match="10000 segments"):
        read_image(data[:2] + b"\xff\xe7\0\2" * 10_001 + data[2:])


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff" * 9999,
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sI", 0, b"teXt", zlib.crc32(b"teXt")) * 9999,
        b"GIF89a\1\0\1\0\0\0\0" + b"!\xfe\0" * 9999,
        b"P6 #" + b"x" * 9999,
    ],
    ids=["JPEG", "PNG", "GIF", "PPM"],
)
def test_parts_are_counted(data, monkeypatch):
    """Millions of them, which Pillow reads one by one, would take minutes."""
    monkeypatch.setattr(_decoding, "_MAX_READS", 1000)
    with pytest.raises(UnreadableImageError, match="more than 1000 parts"):
        read_image(data)


def test_the_memory_of_an_image_is_that_of_its_mode():
    """Counted before it is decoded; shades of 16 bits take no numbers of 64 bits."""
    for mode, kind, each in (("I;16", "PNG", 8), ("RGB", "JPEG", 14), ("CMYK", "JPEG", 16)):
        assert decoding_bytes(open_image(encoded(Image.new(mode, (10, 5)), kind))) == 50 * each
    side = 2000
    data = encoded(Image.new("I;16", (side, side), 257 * 9))
    tracemalloc.start()
    image = read_image(data)
    # What NumPy takes; Pillow has 6 bytes for each pixel.
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 8 * side**2
    assert image.getextrema() == ((9, 9),) * 3


def test_what_is_no_image(tmp_path):
    jpeg = encoded(Image.new("RGB", (64, 64), "red"), "JPEG")
    for data in (
        b"",
        b"hello",
        jpeg[: len(jpeg) // 2],
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        b"P6 9 9 255 ",
    ):
        with pytest.raises(UnreadableImageError):
            read_image(data)
    with pytest.raises(UnreadableImageError, match="there is no such file"):
        read_image(tmp_path / "nowhere.png")
    with pytest.raises(UnreadableImageError, match="no file"):
        read_image(tmp_path)


def test_damaged_bytes_never_raise_anything_else():
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (20, 20, 3)).astype(np.uint8))
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        data = encoded(noise, kind)
        for _ in range(60):
            hurt = bytearray(data)
            for at in rng.integers(0, len(hurt), 4):
                hurt[at] = rng.integers(0, 256)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    image = read_image(bytes(hurt), max_pixels=10**6)
                except UnreadableImageError:
                    continue
            assert image.mode == "RGB"


LITE = Preprocessing(8, "center", 0.5, "bilinear", (127.0,) * 3, (128.0,) * 3)


def test_the_middle_is_taken():
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[4:12, 12:20] = 255
    assert LITE.pixels(Image.fromarray(pixels)).min() == 255
    squashed = Preprocessing(8, "squash", 0.5, "bilinear", (0.0,) * 3, (1.0,) * 3)
    assert squashed.pixels(Image.fromarray(pixels)).mean() < 100


def test_preprocessing_that_cannot_be():
    with pytest.raises(ValueError, match="crop='middle'"):
        replace(LITE, crop="middle")
    with pytest.raises(ValueError, match="interpolation='best'"):
        replace(LITE, interpolation="best")
