"""Which images there are: a folder per class, a table of paths and labels, or paths."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import composed, name_some, plain, read_rows, refuse_twins, warn_user

#: Endings of files that are taken for images.
ENDINGS = frozenset(
    (".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
#: A bounding box: left, top, width and height, in pixels.
Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class ImageList:
    """Images by their paths, with labels and boxes where there are any.

    Parameters
    ----------
    files : tuple of Path
        Where each image lies.
    names : tuple of str
        What each is called: its path within the folder, or as the table writes it.
    labels : ndarray of str of shape (n_images,) or None
        The class of each, where it is known.
    boxes : tuple of (float, float, float, float) or None
        The part of each image to look at: left, top, width, height, in pixels.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    labels: NDArray[Any] | None = None
    boxes: tuple[Box, ...] | None = None

    def __len__(self) -> int:
        return len(self.files)

    def with_boxes(self, path: str | os.PathLike[str]) -> ImageList:
        """The same images with bounding boxes from a table.

        Parameters
        ----------
        path : path
            A file of comma-separated values with the columns path, x, y, width and height; paths
            are written as `names` are.

        Returns
        -------
        ImageList
            With `boxes`.

        Raises
        ------
        ValueError
            A box is no box, or an image has none.
        """
        found = _read_boxes(Path(path))
        if missing := [name for name in self.names if name not in found]:
            raise ValueError(
                f"{plain(path)}: there is no box for {len(missing)} of {len(self)} images, such as "
                f"{name_some(missing, 3)}; give each image one. Paths are written as "
                f"{self.names[0]!r}."
            )
        return replace(self, boxes=tuple(found[name] for name in self.names))


def list_images(images: Any, labels: Any = None) -> ImageList:
    """List the images of a folder or a table.

    Parameters
    ----------
    images : path or sequence of paths
        A folder with one folder per class, or with images alone, which then have no labels; a file
        of comma-separated values with a column "path" and, where labels are known, a column
        "label" (paths are relative to its folder); or the paths themselves.
    labels : sequence of str, optional
        The class of each image, where `images` are paths.

    Returns
    -------
    ImageList
        Images of a folder are sorted by class and name. Whether a file can be read as an image is
        found when it is read.

    Raises
    ------
    ValueError
        There are no images, an image is named twice, or some have a label and others have not.
    OSError
        The folder or the table cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.features import list_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     list_images(folder).labels.tolist()
    ['cat', 'cat', 'dog']
    """
    if isinstance(images, ImageList):
        return images
    if not isinstance(images, str | os.PathLike):
        return _from_paths(list(images), labels)
    if labels is not None:
        raise ValueError("labels= is for paths; a folder or a table has its own labels.")
    path = Path(images)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix.lower() == ".csv":
        return _from_table(path)
    if path.suffix.lower() in ENDINGS:
        return _from_paths([path], None)
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or table {plain(path)}.")
    raise ValueError(
        f"{plain(path)} is no folder of images and no table (.csv) of their paths and labels."
    )


def _from_paths(paths: Sequence[Any], labels: Any) -> ImageList:
    files = tuple(Path(path) for path in paths)
    if not files:
        raise ValueError("There are no images: the list of paths is empty.")
    _refuse_repeated([str(file) for file in files], "The list of paths")
    y = None if labels is None else np.asarray([composed(str(label)) for label in labels])
    if y is not None and len(y) != len(files):
        raise ValueError(f"There are {len(y)} labels for {len(files)} images; give one for each.")
    return ImageList(files, tuple(str(file) for file in files), y)


def _from_folder(folder: Path) -> ImageList:
    """Images of a folder: those of its folders by class, or those in it without labels."""
    direct: list[Path] = []
    by_class: dict[Path, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            by_class[entry] = _images_below(entry)
        elif entry.suffix.lower() in ENDINGS:
            direct.append(entry)
    if direct and any(by_class.values()):
        raise ValueError(
            f"{plain(folder)}: images such as {direct[0].name!r} lie beside folders such as "
            f"{next(iter(by_class)).name!r}. Put every image into the folder of its class, or give "
            "a table (.csv) of paths and labels."
        )
    if direct:
        return _named(direct, folder, None)
    files = [file for found in by_class.values() for file in found]
    if not files:
        raise ValueError(
            f"{plain(folder)}: there are no images; give a folder with one folder of images per "
            f"class. Images end in {', '.join(sorted(ENDINGS))}."
        )
    if empty := [entry.name for entry, found in by_class.items() if not found]:
        warn_user(
            f"{plain(folder)}: the folders {name_some(empty)} hold no images and are passed over."
        )
    labels = [entry.name for entry, found in by_class.items() for _ in found]
    refuse_twins(labels, f"The folder {plain(folder)}")
    return _named(files, folder, labels)


def _named(files: list[Path], folder: Path, labels: list[str] | None) -> ImageList:
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    y = None if labels is None else np.asarray([composed(label) for label in labels])
    return ImageList(tuple(files), names, y)


def _images_below(folder: Path) -> list[Path]:
    """Images of a folder and the folders in it, by name; links to folders are not followed."""
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            Path(where, name)
            for name in sorted(files)
            if not name.startswith(".") and Path(name).suffix.lower() in ENDINGS
        ]
    return found


def _from_table(path: Path) -> ImageList:
    """Images and labels of a table."""
    rows = read_rows(path, ["path"], optional=["label"])
    if not rows:
        raise ValueError(f"{plain(path)}: there are no images; the table has no rows.")
    if nameless := [line for line, row in rows if not row["path"]]:
        raise ValueError(f"{plain(path)}: line {nameless[0]} names no path.")
    files = tuple(path.parent / row["path"] for _, row in rows)
    _refuse_repeated([os.path.normpath(file) for file in files], plain(path))
    labels = [composed(row["label"]) for _, row in rows]
    without = [line for (line, _), label in zip(rows, labels, strict=True) if not label]
    if without and len(without) < len(rows):
        raise ValueError(
            f"{plain(path)}: line {without[0]} has no label, and others have; label every image "
            "or none."
        )
    y = None if without else np.asarray(labels)
    return ImageList(files, tuple(row["path"] for _, row in rows), y)


def _refuse_repeated(paths: Iterable[str], where: str) -> None:
    if repeated := [path for path, count in Counter(paths).items() if count > 1]:
        raise ValueError(
            f"{where} names {name_some(repeated, 3)} more than once; keep each image once."
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
                f"{plain(path)}: line {line} is no box; x, y, width and height are numbers of "
                "pixels, and the last two are positive."
            )
        if name in boxes:
            raise ValueError(f"{plain(path)}: line {line} names {name!r} a second time.")
        boxes[name] = (x, y, width, height)
    return boxes
