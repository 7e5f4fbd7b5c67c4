from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zlib
from dataclasses import replace

import numpy as np
import pytest

from zslearn.images import Preprocessing, UnreadableImageError, read_image

Image = pytest.importorskip("PIL.Image")


def encoded(image, kind="PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels(data, **options):
    return np.asarray(read_image(data, **options)).tolist()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr"])
def test_every_mode_becomes_rgb(mode):
    # Older versions of Pillow write damaged YCbCr TIFF files.
    kind = {"CMYK": "TIFF", "YCbCr": "JPEG"}.get(mode, "PNG")
    white = Image.new("RGB", (5, 4), (255, 255, 255)).convert(mode)
    image = read_image(encoded(white, kind))
    assert (image.mode, image.size) == ("RGB", (5, 4))
    assert np.asarray(image).min() >= 250


def test_transparency_becomes_white():
    half = Image.new("RGBA", (2, 1), (200, 0, 0, 255))
    half.putpixel((1, 0), (200, 0, 0, 0))
    assert pixels(encoded(half)) == [[[200, 0, 0], [255, 255, 255]]]
    assert pixels(encoded(Image.new("LA", (1, 1), (90, 0)))) == [[[255, 255, 255]]]
    indexed = Image.new("P", (1, 1), 0)
    indexed.putpalette([10, 20, 30] * 256)
    assert pixels(encoded(indexed, transparency=0)) == [[[255] * 3]]
    assert pixels(encoded(indexed)) == [[[10, 20, 30]]]


def test_grey_values():
    shades = Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16))
    assert [row[0] for row in pixels(encoded(shades))[0]] == [0, 100, 255]
    with pytest.raises(UnreadableImageError, match="floating-point"):
        read_image(encoded(Image.new("F", (2, 2), 0.5), "TIFF"))


def test_16_bit_images_are_converted_in_bands():
    side = 2000
    data = encoded(Image.new("I;16", (side, side), 257 * 9))
    tracemalloc.start()
    image = read_image(data)
    # NumPy's share; Pillow takes 6 bytes per pixel in addition.
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 8 * side**2
    assert image.getextrema() == ((9, 9),) * 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_applied(orientation):
    from PIL import ImageOps

    upright = Image.fromarray(np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(upright, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert pixels(data) == np.asarray(expected.convert("RGB")).tolist()
    assert read_image(data).size == ((6, 4) if orientation < 5 else (4, 6))


def test_the_first_frame_of_an_animation_is_read():
    frames = [Image.new("RGB", (3, 3), color) for color in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert pixels(data)[0][0] == [255, 0, 0]


def test_boxes_are_clipped_to_the_image():
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    data = encoded(image)
    assert pixels(data, box=(1, 2, 2, 100)) == np.asarray(image)[2:, 1:3].tolist()
    assert read_image(data, box=(-5, -5, 6, 6)).size == (1, 1)
    with pytest.raises(UnreadableImageError, match=r"lies outside its 4 × 4 pixels"):
        read_image(data, box=(4, 0, 2, 2))


def bomb(width, height):
    """A PNG whose header declares far more pixels than the file holds."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("sides", [(60_000, 60_000), (10_001, 10_000), (2**31 - 1, 1)])
def test_decompression_bombs_are_refused(sides):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UnreadableImageError, match="pixels are more than the limit"):
            read_image(bomb(*sides))


def with_scans(n_more, size=(64, 64)):
    """A JPEG that repeats its last scan."""
    data = encoded(Image.new("RGB", size, "red"), "JPEG", progressive=True)
    last, end = data.rindex(b"\xff\xda"), data.rindex(b"\xff\xd9")
    return data[:end] + n_more * data[last:end] + data[end:]


def test_the_scans_of_a_jpeg_are_limited():
    """Each scan takes as long as an image, and thousands of them fit into some kilobytes."""
    assert read_image(with_scans(40)).size == (64, 64)
    with pytest.raises(UnreadableImageError, match="more than 64 scans"):
        read_image(with_scans(60))
    # Markers inside segments, such as previews, and behind the image do not count.
    data = with_scans(0)
    preview = b"\xff\xe7\x04\x02" + b"\xff\xda" * 512
    assert read_image(data[:2] + preview + data[2:] + b"\xff\xda\0\2" * 100).size == (64, 64)
    with pytest.raises(UnreadableImageError, match="10000 segments"):
        read_image(data[:2] + b"\xff\xe7\0\2" * 10_001 + data[2:])


@pytest.mark.parametrize(
    ("head", "part"),
    [
        (b"\xff\xd8", b"\xff"),
        (b"\x89PNG\r\n\x1a\n", struct.pack(">I4sI", 0, b"teXt", zlib.crc32(b"teXt"))),
        (b"GIF89a\1\0\1\0\0\0\0", b"!\xfe\0"),
        (b"P6 #", b"x"),
    ],
    ids=["JPEG", "PNG", "GIF", "PPM"],
)
def test_the_parts_of_a_file_are_limited(head, part):
    """Pillow reads them one by one, so that millions of them would take minutes."""
    with pytest.raises(UnreadableImageError, match="more than 200000 parts"):
        read_image(head + part * 200_001)


def test_files_that_are_not_images(tmp_path):
    jpeg = encoded(Image.new("RGB", (64, 64), "red"), "JPEG")
    half = jpeg[: len(jpeg) // 2]
    for data in (b"", b"hello", half, b"%!PS-Adobe-3.0 EPSF-3.0\n", b"P6 9 9 255 "):
        with pytest.raises(UnreadableImageError):
            read_image(data)
    with pytest.raises(UnreadableImageError, match="there is no such file"):
        read_image(tmp_path / "nowhere.png")
    with pytest.raises(UnreadableImageError, match="not a file"):
        read_image(tmp_path)


def test_damaged_files_raise_one_kind_of_error():
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (20, 20, 3)).astype(np.uint8))
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        data = encoded(noise, kind)
        for _ in range(60):
            damaged = bytearray(data)
            for at in rng.integers(0, len(damaged), 4):
                damaged[at] = rng.integers(0, 256)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    image = read_image(bytes(damaged), max_pixels=10**6)
                except UnreadableImageError:
                    continue
            assert image.mode == "RGB"


def test_preprocessing_crops_or_squashes():
    crop = Preprocessing(8, "center", 0.5, "bilinear", (127.0,) * 3, (128.0,) * 3)
    picture = np.zeros((16, 32, 3), dtype=np.uint8)
    picture[4:12, 12:20] = 255
    assert crop.pixels(Image.fromarray(picture)).min() == 255
    assert replace(crop, crop="squash").pixels(Image.fromarray(picture)).mean() < 100
    for field, value in (("crop", "middle"), ("interpolation", "best")):
        with pytest.raises(ValueError, match=f"{field}='{value}' must be one of"):
            replace(crop, **{field: value})
