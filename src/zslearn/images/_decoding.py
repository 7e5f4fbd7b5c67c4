"""List images in folders, tables or paths, and decode them within safe limits."""

from __future__ import annotations

import io
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._messages import composed, name_some, plain, refuse_equal_labels, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import read_rows

if TYPE_CHECKING:
    from PIL.Image import Image

#: File name extensions of images.
ENDINGS = frozenset(
    (".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
#: How Python represents bytes in file names that are not UTF-8.
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
#: A bounding box: left, top, width and height, in pixels.
Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class ImageList:
    """Paths of images, with labels and bounding boxes if there are any.

    Parameters
    ----------
    files : tuple of Path
        The image files.
    names : tuple of str
        Name of each image: its path relative to the folder, or as written in the table.
    labels : ndarray of str of shape (n_images,) or None
        Class labels.
    boxes : tuple of (float, float, float, float) or None
        Bounding box to crop each image to: left, top, width and height, in pixels.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    labels: NDArray[Any] | None = None
    boxes: tuple[Box, ...] | None = None

    def __post_init__(self) -> None:
        if bad := [name for name in self.names if _NOT_UTF8.search(name)]:
            raise ValueError(
                f"The names {name_some(bad, 3)} are not UTF-8 and cannot be saved; rename these "
                "files or their folders."
            )

    def __len__(self) -> int:
        return len(self.files)

    def with_boxes(self, path: str | os.PathLike[str]) -> ImageList:
        """Add bounding boxes from a ``.csv`` file, one for each image.

        Its columns are path (as in `names`), x, y, width and height.
        """
        found = _read_boxes(Path(path))
        if missing := [name for name in self.names if name not in found]:
            raise ValueError(
                f"{plain(path)}: there is no box for {len(missing)} of {len(self)} images, such as "
                f"{name_some(missing, 3)}. Every image needs one, with its path written as in "
                f"{self.names[0]!r}."
            )
        return replace(self, boxes=tuple(found[name] for name in self.names))


def list_images(images: Any, labels: Any = None) -> ImageList:
    """List the images of a folder, sorted by class and name, or of a table, without opening them.

    Parameters
    ----------
    images : path or sequence of paths
        A folder with one folder per class, or with unlabelled images only; a ``.csv`` file with a
        column "path" (relative to its folder) and optionally "label"; or image files.
    labels : sequence of str, optional
        The class of each image, if `images` are files.

    Returns
    -------
    ImageList
        The images, each listed once, all of them with labels or none.
    """
    if isinstance(images, ImageList):
        return images
    path = Path(images) if isinstance(images, str | os.PathLike) else None
    if path is None or (path.suffix.lower() in ENDINGS and not path.is_dir()):
        return _from_paths(list(images) if path is None else [path], labels)
    if labels is not None:
        raise ValueError("labels= is only for image files; folders and tables have their own.")
    if path.is_dir():
        return _from_folder(path)
    if path.suffix.lower() == ".csv":
        return _from_table(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no folder, table or image {plain(path)}.")
    raise ValueError(
        f"{plain(path)} is neither a folder of images nor a table (.csv) of paths and labels."
    )


def _from_paths(paths: Sequence[Any], labels: Any) -> ImageList:
    """List image files given one by one."""
    files = tuple(map(Path, paths))
    names = tuple(map(str, files))
    if not files:
        raise ValueError("There are no images: the list of paths is empty.")
    _refuse_repeated(names, "The list of paths")
    y = None if labels is None else np.asarray([composed(str(label)) for label in labels])
    if y is not None and len(y) != len(files):
        raise ValueError(f"There are {len(y)} labels for {len(files)} images; give one per image.")
    return ImageList(files, names, y)


def _from_folder(folder: Path) -> ImageList:
    """List the images in the class folders of a folder, or those directly in it, unlabelled."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    by_class = {entry: _images_below(entry) for entry in entries if entry.is_dir()}
    direct = [e for e in entries if e not in by_class and e.suffix.lower() in ENDINGS]
    if direct and any(by_class.values()):
        raise ValueError(
            f"{plain(folder)} mixes images, such as {direct[0].name!r}, with class folders, such "
            f"as {next(iter(by_class)).name!r}. Put every image into the folder of its class, or "
            "give a table (.csv) of paths and labels."
        )
    files = direct or [file for found in by_class.values() for file in found]
    if not files:
        raise ValueError(
            f"{plain(folder)}: there are no images. Give a folder with one folder of images per "
            f"class; their names end in {', '.join(sorted(ENDINGS))}."
        )
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    if direct:
        return ImageList(tuple(files), names)
    if empty := [entry.name for entry, found in by_class.items() if not found]:
        warn_user(f"{plain(folder)}: skipped {name_some(empty)}, which hold no images.")
    labels = [entry.name for entry, found in by_class.items() for _ in found]
    refuse_equal_labels(labels, f"The folder {plain(folder)}")
    return ImageList(tuple(files), names, np.asarray([composed(label) for label in labels]))


def _images_below(folder: Path) -> list[Path]:
    """List the images in a folder and its subfolders; symbolic links to folders are ignored."""
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = (Path(where, name) for name in sorted(files) if not name.startswith("."))
        found += [path for path in visible if path.suffix.lower() in ENDINGS]
    return found


def _from_table(path: Path) -> ImageList:
    """List the images and labels of a table."""
    rows = read_rows(path, ["path"], optional=["label"])
    if not rows:
        raise ValueError(f"{plain(path)}: there are no images; the table has no rows.")
    if nameless := [line for line, row in rows if not row["path"]]:
        raise ValueError(f"{plain(path)}: line {nameless[0]} has no path.")
    files = tuple(path.parent / row["path"] for _, row in rows)
    _refuse_repeated([os.path.normpath(file) for file in files], plain(path))
    labels = [composed(row["label"]) for _, row in rows]
    without = [line for (line, _), label in zip(rows, labels, strict=True) if not label]
    if without and len(without) < len(rows):
        raise ValueError(
            f"{plain(path)}: line {without[0]} has no label, but others do; label every image or "
            "none."
        )
    y = None if without else np.asarray(labels)
    return ImageList(files, tuple(row["path"] for _, row in rows), y)


def _refuse_repeated(paths: Iterable[str], where: str) -> None:
    if repeated := [path for path, count in Counter(paths).items() if count > 1]:
        raise ValueError(
            f"{where} names {name_some(repeated, 3)} more than once; list each image once."
        )


def _read_boxes(path: Path) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    for line, row in read_rows(path, ["path", "x", "y", "width", "height"]):
        name = row["path"]
        try:
            x, y, width, height = (float(row[side]) for side in ("x", "y", "width", "height"))
        except ValueError:
            x = y = width = height = math.nan
        if not all(map(math.isfinite, (x, y, width, height))) or width <= 0 or height <= 0:
            raise ValueError(
                f"{plain(path)}: line {line} is not a box; x, y, width and height are in pixels, "
                "and the last two are positive."
            )
        if name in boxes:
            raise ValueError(f"{plain(path)}: line {line} names {name!r} a second time.")
        boxes[name] = (x, y, width, height)
    return boxes


#: Supported formats. Pillow's readers of other formats call external programs, among others.
_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
#: Larger images and larger files are refused before decoding.
MAX_PIXELS = 100_000_000
MAX_BYTES = 512 * 2**20


class UnreadableImageError(ValueError):
    """A file cannot be read as an image; the message gives the reason."""


def read_image(
    source: str | os.PathLike[str] | bytes,
    *,
    box: Box | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Image:
    """Read an image upright and in RGB.

    The orientation in the metadata is applied, transparency becomes white, 16-bit grey is rescaled
    to 8 bits, and only the first frame of an animation is read.

    Parameters
    ----------
    source : path or bytes
        A BMP, GIF, JPEG, JPEG 2000, PNG, PPM, TIFF or WebP file, or its content.
    box : (float, float, float, float), optional
        Left, top, width and height to crop to, in pixels of the upright image.
    max_pixels : int, default=100000000
        Larger images are refused before decoding.

    Returns
    -------
    PIL.Image.Image
        In mode "RGB". An :class:`UnreadableImageError` is raised with the reason otherwise.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from zslearn.images import read_image
    >>> file = io.BytesIO()
    >>> Image.new("L", (8, 6), 100).save(file, "PNG")
    >>> image = read_image(file.getvalue(), box=(2, 0, 100, 6))
    >>> image.mode, image.size
    ('RGB', (6, 6))
    """
    import_optional("PIL", "Reading images")
    try:
        return _decode(_open(source, max_pixels), box)
    except (UnreadableImageError, MemoryError):
        raise
    # Decoders of damaged files raise all kinds of errors.
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 200) or type(error).__name__
        if "cannot identify image file" in reason:
            reason = "not an image of a supported format"
        raise UnreadableImageError(reason) from error


def read_bytes(path: Path) -> bytes:
    """Read the content of an image file."""
    try:
        if not path.is_file():
            raise UnreadableImageError("not a file" if path.exists() else "there is no such file")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableImageError(plain(error.strerror or type(error).__name__)) from error
    if len(data) > MAX_BYTES:
        raise UnreadableImageError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def _open(source: str | os.PathLike[str] | bytes, max_pixels: int) -> Image:
    """Open an image without decoding it, and refuse one that is too costly to decode."""
    from PIL import Image

    data = source if isinstance(source, bytes) else read_bytes(Path(source))
    if not data:
        raise UnreadableImageError("the file is empty")
    if data.startswith(b"\xff\xd8\xff"):
        _check_scans(data)
    try:
        image = Image.open(_LimitedReads(data), formats=_FORMATS)
    except Image.DecompressionBombError:
        raise UnreadableImageError(f"its pixels are more than the limit of {max_pixels}") from None
    width, height = image.size
    if width * height > max_pixels:
        raise UnreadableImageError(
            f"its {width} × {height} pixels are more than the limit of {max_pixels}"
        )
    return image


#: Pillow reads a file part by part; real images have a few thousand parts.
_MAX_READS = 200_000


class _LimitedReads(io.BytesIO):
    """A file that allows a limited number of reads."""

    n_reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.n_reads += 1
        if self.n_reads > _MAX_READS:
            raise UnreadableImageError(f"more than {_MAX_READS} parts")
        return super().read(size)


#: Each scan of a JPEG covers the whole image (common programs write up to 18); segments hold
#: metadata.
_MAX_SCANS, _MAX_SEGMENTS = 64, 10_000
#: A JPEG marker; other bytes after 0xff belong to the coded data.
_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")


def _check_scans(data: bytes) -> None:
    """Refuse a JPEG with so many scans or segments that decoding takes long."""
    n_scans = n_segments = 0
    place = 2
    while (found := _MARKER.search(data, place)) and found[1] != b"\xd9":
        # A segment begins with its length, which skips content such as a preview image.
        place = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
        n_segments += 1
        n_scans += found[1] == b"\xda"
        if n_scans > _MAX_SCANS or n_segments > _MAX_SEGMENTS:
            raise UnreadableImageError(f"more than {_MAX_SCANS} scans or {_MAX_SEGMENTS} segments")


def _decode(image: Image, box: Box | None) -> Image:
    """Decode an opened image: upright, in RGB, and cropped to a box."""
    from PIL import Image, ImageOps

    image.load()
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode == "F":
        raise UnreadableImageError("its pixels are floating-point numbers of unknown range")
    if image.mode != "RGB":
        # Converted in bands of a million pixels, to limit the memory of intermediate copies.
        whole = Image.new("RGB", image.size)
        step = max(1, (1 << 20) // image.width)
        for top in range(0, image.height, step):
            band = image.crop((0, top, image.width, min(top + step, image.height)))
            whole.paste(_band_as_rgb(band), (0, top))
        image = whole
    if box is None:
        return image
    x, y, width, height = box
    left, top = max(0, round(x)), max(0, round(y))
    right, bottom = min(image.width, round(x + width)), min(image.height, round(y + height))
    if right <= left or bottom <= top:
        raise UnreadableImageError(
            f"the box {box} lies outside its {image.width} × {image.height} pixels"
        )
    return image.crop((left, top, right, bottom))


def _band_as_rgb(image: Image) -> Image:
    """Convert a band of an image to RGB."""
    from PIL import Image

    if image.mode.startswith("I"):
        # Pillow would clip 16-bit grey at 255.
        grey = np.asarray(image).astype(np.int64)
        if grey.min() < 0 or grey.max() > 65535:
            raise UnreadableImageError("its grey values exceed 16 bits")
        return Image.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(page, image).convert("RGB")
    return image.convert("RGB")


@contextmanager
def quiet_decoding() -> Iterator[None]:
    """Ignore Pillow's warnings about large or unusual files, which this module checks itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("ignore", message="Image size .* exceeds limit")
        yield
