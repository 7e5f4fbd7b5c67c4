"""Image files from outside, read so that none can do harm."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zslearn.features._image_lists import Box
from zslearn.utils import import_optional, plain

if TYPE_CHECKING:
    from PIL.Image import Image

#: Formats that are decoded. Others that Pillow knows call outside programs, or are no pictures.
_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
#: Larger images are refused before they are decoded, as are larger files.
MAX_PIXELS = 100_000_000
MAX_BYTES = 512 * 2**20


class UnreadableImageError(ValueError):
    """A file cannot be used as an image: its text says why."""


class NoReadableImageError(ValueError):
    """None of the images can be read."""


def read_image(
    source: str | os.PathLike[str] | bytes,
    *,
    box: Box | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Image:
    """Read an image as a person sees it: upright, in red, green and blue.

    The orientation that a camera noted is honoured; transparent parts become white; grey, indexed
    and printers' colours become red, green and blue; of an animation the first picture is taken.

    Parameters
    ----------
    source : path or bytes
        A file, or what it holds: BMP, GIF, JPEG, JPEG 2000, PNG, PPM, TIFF or WebP.
    box : (float, float, float, float), optional
        Left, top, width and height of the part to take, in pixels of the upright image. What lies
        outside of the image is left out.
    max_pixels : int, default=100000000
        Images that claim more are refused before they are decoded.

    Returns
    -------
    PIL.Image.Image
        In mode "RGB".

    Raises
    ------
    UnreadableImageError
        It cannot be read, is no image of these kinds, is damaged or too large, or the box lies
        outside of it.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from zslearn.features import read_image
    >>> file = io.BytesIO()
    >>> Image.new("L", (8, 6), 100).save(file, "PNG")
    >>> image = read_image(file.getvalue(), box=(2, 0, 100, 6))
    >>> image.mode, image.size
    ('RGB', (6, 6))
    """
    data = source if isinstance(source, bytes) else read_bytes(Path(source))
    return decode(data, box, max_pixels)


def read_bytes(path: Path) -> bytes:
    """The content of an image file; an UnreadableImageError where there is none."""
    try:
        if not path.is_file():
            raise UnreadableImageError("there is no such file" if not path.exists() else "no file")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableImageError(plain(error.strerror or type(error).__name__)) from error
    if len(data) > MAX_BYTES:
        raise UnreadableImageError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def digest(data: bytes) -> str:
    """What tells two image files apart: 32 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:32]


def decode(data: bytes, box: Box | None = None, max_pixels: int = MAX_PIXELS) -> Image:
    """The image that some bytes hold; see :func:`read_image`."""
    import_optional("PIL", "Reading images")
    from PIL import Image, ImageOps

    if not data:
        raise UnreadableImageError("the file is empty")
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
        width, height = image.size
        if width * height > max_pixels:
            raise UnreadableImageError(
                f"{width} × {height} pixels are more than {max_pixels} (max_pixels)"
            )
        image.load()
        upright = ImageOps.exif_transpose(image) or image
        return _cropped(_as_rgb(upright), box)
    except UnreadableImageError:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImageError(
            f"it claims more than {max_pixels} pixels (max_pixels)"
        ) from None
    # Decoders of damaged files raise errors of every kind.
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        reason = plain(str(error).partition("\n")[0], 200) or type(error).__name__
        if "cannot identify image file" in reason:
            reason = "no image of a known kind"
        raise UnreadableImageError(reason) from error


def _as_rgb(image: Image) -> Image:
    """An image of any mode in red, green and blue."""
    from PIL import Image

    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        # Grey in 16 bits, which Pillow would cut at 255.
        grey = np.asarray(image).astype(np.float64)
        if grey.min() < 0 or grey.max() > 65535:
            raise UnreadableImageError("its grey values are not those of 16 bits")
        return Image.fromarray(np.rint(grey / 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise UnreadableImageError("its pixels are fractions, of which nobody knows the range")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(page, image).convert("RGB")
    return image.convert("RGB")


def _cropped(image: Image, box: Box | None) -> Image:
    if box is None:
        return image
    x, y, width, height = box
    left, top = max(0, round(x)), max(0, round(y))
    right, bottom = min(image.width, round(x + width)), min(image.height, round(y + height))
    if right <= left or bottom <= top:
        raise UnreadableImageError(
            f"the box {box} lies outside of its {image.width} × {image.height} pixels"
        )
    return image.crop((left, top, right, bottom))


@contextmanager
def quiet_decoding() -> Iterator[None]:
    """Leave out Pillow's warnings of large or odd files, which this module judges itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("ignore", message="Image size .* exceeds limit")
        yield
