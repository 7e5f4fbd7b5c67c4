"""Features of images: computed by a network, with what made them, in memory and in a file ``.npz``.

Images are read in threads and computed in parts; each finished part is a file of features of its
own, beside the result, so that an interruption costs one part.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._blocks import row_blocks
from zslearn._utils._files import refuse_unwritable, regular_size, replacing
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say, progress_bar
from zslearn._utils._reading import BESIDE, MULTIPLE, first_row, reading
from zslearn._version import __version__
from zslearn.datasets import read_sample_table
from zslearn.images._backbones import DEFAULT_BACKBONE, Backbone, load_backbone
from zslearn.images._decoding import (
    MAX_PIXELS,
    ImageList,
    UnreadableImageError,
    decode,
    digest,
    list_images,
    quiet_decoding,
    read_bytes,
)

#: Images of a part: what an interruption can cost.
PART_SIZE = 256

#: What decides whether two sets of features can be compared, and what errors call it.
_DECISIVE = {
    "backbone": "the backbone",
    "weights_sha256": "the weights",
    "preprocessing": "the preprocessing",
}


@dataclass(frozen=True, eq=False)
class ImageFeatures:
    """Features of images, and how they were made.

    Parameters
    ----------
    X : ndarray of float32 of shape (n_images, n_features)
        One row per image that could be read.
    y : ndarray of str of shape (n_images,) or None
        The class of each, where it is known.
    images : tuple of str
        What each is called.
    digests : tuple of str
        The first 32 digits of the SHA-256 of each image file; empty where they are not known.
    about : dict
        What made them: "backbone", "weights_sha256", "n_features", "preprocessing", "boxes"
        (whether images were cut to bounding boxes), "skipped" (images that could not be read, with
        the reason) and versions. Empty where they were made by another program.
    rate : float or None
        Images per second, where they were computed just now.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    images: tuple[str, ...]
    digests: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Images that could not be read, and why."""
        found = self.about.get("skipped")
        # The record may be another program's.
        pairs = found if isinstance(found, list) else []
        pairs = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
        return [(str(name), str(reason)) for name, reason in pairs]

    @property
    def thing(self) -> str:
        """What a row is called: an image, or a sample of a table."""
        return "sample" if "columns" in self.about else "image"

    def take(self, rows: Any) -> ImageFeatures:
        """Some of the images.

        Parameters
        ----------
        rows : array of int or bool
            Which ones.

        Returns
        -------
        ImageFeatures
            With the same record of how they were made.
        """
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        return ImageFeatures(
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            images=tuple(self.images[row] for row in rows),
            digests=tuple(self.digests[row] for row in rows) if self.digests else (),
            about=self.about,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file ``.npz``, which holds no pickles.

        Parameters
        ----------
        path : path
            The file. The array "X" holds the features, "y" the labels, "images" the names,
            "digests" and "about", which is JSON in UTF-8, the rest.
        """
        arrays: dict[str, NDArray[Any]] = {
            "X": self.X,
            "images": np.asarray(self.images, dtype=np.str_),
            "digests": np.asarray(self.digests, dtype=np.str_),
            "about": np.frombuffer(json.dumps(self.about).encode(), dtype=np.uint8),
        }
        if self.y is not None:
            arrays["y"] = self.y.astype(np.str_)
        with replacing(checked_name(path)) as temporary, open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def load_features(path: str | os.PathLike[str]) -> ImageFeatures:
    """Read features that :func:`extract_features` wrote, or those of another program.

    Parameters
    ----------
    path : path
        A file ``.npz`` with an array "X" or "features", one row per image, and, where labels are
        known, "y" or "labels".

    Returns
    -------
    ImageFeatures
        Features and what is known of them.

    Raises
    ------
    ValueError
        The file is damaged or holds something else.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from zslearn.images import load_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.npz")
    ...     np.savez(path, X=np.eye(2), y=["cat", "dog"])
    ...     features = load_features(path)
    >>> features.X.shape, features.y.tolist(), features.images
    ((2, 2), ['cat', 'dog'], ('0', '1'))
    """
    file = checked_name(path)
    arrays = _read_arrays(file)
    where = plain(file)
    X = arrays.get("X", arrays.get("features"))
    if X is None or X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise ValueError(f"{where}: there is no array 'X' of numbers with one row per image.")
    try:
        about = _read_json(arrays["about"]) if "about" in arrays else {}
        if not isinstance(about, dict):
            raise ValueError("'about' is no JSON object")
        names = _texts(arrays, "images", len(X)) or tuple(map(str, range(len(X))))
        digests = _texts(arrays, "digests", len(X))
        y = arrays.get("y", arrays.get("labels"))
        if y is not None and (y.shape != (len(X),) or y.dtype.kind not in "Uiu"):
            raise ValueError(f"'y' has shape {y.shape} and dtype {y.dtype}, not a label per image")
    except ValueError as error:
        raise ValueError(f"{where}: this is no file of features: {error}.") from error
    return ImageFeatures(X, None if y is None else y.astype(np.str_), names, digests, about)


def is_feature_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table of features, and no list of the paths of images."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        return path.suffix.lower() == ".parquet"
    return "path" not in [cell.strip().casefold() for cell in first_row(path)]


def table_features(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> ImageFeatures:
    """Samples of a table, in the form in which those of images go on; rows count from 1."""
    table = read_sample_table(Path(path), label=label, drop=drop, columns=columns)
    names = tuple(map(str, range(1, len(table.X) + 1)))
    digests = tuple(hashlib.sha256(row.tobytes()).hexdigest()[:32] for row in table.X)
    about = {"columns": table.columns, "label": label or "label", "n_features": len(table.columns)}
    return ImageFeatures(table.X, table.y, names, digests, about)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays by name; Python objects, and files that claim far more than they hold, are refused."""
    size = regular_size(path)
    # zipfile, zlib and the parser of NumPy's headers each raise errors of their own.
    with open(path, "rb") as file, reading(path, "the arrays"):
        with zipfile.ZipFile(file) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
        if claimed > MULTIPLE * size + BESIDE:
            raise ValueError("it claims to hold far more than its size allows")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _read_json(array: NDArray[Any]) -> Any:
    try:
        return json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what should be JSON is not ({plain(error, 100)})") from error


def _texts(arrays: Mapping[str, NDArray[Any]], name: str, n_rows: int) -> tuple[str, ...]:
    array = arrays.get(name)
    if array is None or not array.size:
        return ()
    if array.shape != (n_rows,) or array.dtype.kind != "U":
        raise ValueError(f"{name!r} has shape {array.shape} and dtype {array.dtype}")
    return tuple(array.tolist())


def extract_features(
    images: Any,
    backbone: str | Backbone = DEFAULT_BACKBONE,
    *,
    labels: Sequence[str] | None = None,
    boxes: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    crop: str | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    max_pixels: int = MAX_PIXELS,
    out: str | os.PathLike[str] | None = None,
    resume: bool = True,
    progress: bool = False,
    say: Say | None = None,
) -> ImageFeatures:
    """Turn images into features by a trained network.

    Images that cannot be read are left out and listed, with the reason, in `skipped` of the result.

    Parameters
    ----------
    images : path or sequence of paths
        A folder with one folder per class, a folder of images without labels, a file of
        comma-separated values with the columns path and label, or paths; see :func:`list_images`.
    backbone : str or Backbone, default="efficientnet-lite0"
        The network; see :func:`load_backbone`.
    labels : sequence of str, optional
        The class of each image, where `images` are paths.
    boxes : path, optional
        A file of comma-separated values with the columns path, x, y, width and height: the part of
        each image to look at, as CUB-200-2011 has it.
    weights, crop, device
        See :func:`load_backbone`.
    batch_size : int, optional
        Images that go through the network at once; by default 8 on a CPU, whose caches hold no
        more, and 64 elsewhere.
    workers : int, optional
        Threads that read images ahead; by default one per core, at most eight.
    max_pixels : int, default=100000000
        Images that claim more pixels are not decoded.
    out : path, optional
        A file ``.npz`` to write the result to. Finished parts are kept beside it, in a folder whose
        name ends in ``.parts``, until it is whole: after an interruption the same call goes on from
        there, if images, boxes and network are the same.
    resume : bool, default=True
        Whether to use what an earlier call has left; else begin anew.
    progress : bool, default=False
        Whether to show a bar.
    say : callable, optional
        Called with what is being done, in words.

    Returns
    -------
    ImageFeatures
        Features, labels, names, and what made them.

    Raises
    ------
    ValueError
        There are no images, or none can be read.
    ImportError
        A package is not installed; the message says which.

    See Also
    --------
    load_features : Reads the file that this writes.
    zslearn.datasets.load_table : Makes a data set of it, with signatures.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from zslearn.images import extract_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for color in ("red", "blue"):
    ...         Path(folder, color).mkdir()
    ...         Image.new("RGB", (64, 64), color).save(Path(folder, color, "1.png"))
    ...     features = extract_features(folder)
    >>> features.X.shape, features.y.tolist()
    ((2, 1280), ['blue', 'red'])
    """
    for name, number in (("batch_size", batch_size), ("workers", workers)):
        if number is not None and number < 1:
            raise ValueError(f"{name}={number} must be positive.")
    # Before long work, which could not be kept.
    file = None if out is None else checked_name(out)
    if file is not None:
        refuse_unwritable(file)
    import_optional("PIL", "Reading images")
    listed = list_images(images, labels)
    listed = listed if boxes is None else listed.with_boxes(boxes)
    if isinstance(backbone, str):
        backbone = load_backbone(backbone, weights=weights, device=device, crop=crop)
    elif weights is not None or crop is not None:
        raise ValueError("weights= and crop= are for a backbone that is given by name.")
    if batch_size is None:
        batch_size = 8 if backbone.device == "cpu" else 64
    say = say or (lambda _: None)
    inputs = _inputs(listed, backbone, max_pixels, batch_size)
    if resume and (done := _finished(file, inputs)) is not None:
        say(f"{file} holds these features already")
        return done
    compute = partial(
        _compute,
        listed,
        backbone,
        batch_size=batch_size,
        workers=workers or min(8, os.cpu_count() or 1),
        max_pixels=max_pixels,
    )
    features = _compute_parts(compute, listed, file, inputs, resume, progress, say)
    features = _labelled(features, listed, backbone, inputs)
    if file is not None:
        features.save(file)
        for part in (folder := _parts_folder(file)).glob("part-*.npz"):
            part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # where something else is in it
            folder.rmdir()
    return features


def _inputs(listed: ImageList, backbone: Backbone, *settings: int) -> str:
    """What tells whether another call computes the same: files by size and time, the network."""

    def stamp(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    stamps = [stamp(path) for path in listed.files]
    labels = None if listed.labels is None else listed.labels.tolist()
    return fingerprint(listed.names, labels, listed.boxes, stamps, backbone.about, settings)


def _finished(file: Path | None, inputs: str) -> ImageFeatures | None:
    """What an earlier call wrote of the same images by the same network, else None."""
    try:
        found = None if file is None else load_features(file)
    except (OSError, ValueError):
        return None
    return found if found is not None and found.about.get("inputs") == inputs else None


def _parts_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.parts")


def _compute_parts(
    compute: Callable[..., ImageFeatures],
    listed: ImageList,
    file: Path | None,
    inputs: str,
    resume: bool,
    progress: bool,
    say: Say,
) -> ImageFeatures:
    """Features of all images that can be read, those of finished parts as they are."""
    blocks = row_blocks(len(listed), 1, PART_SIZE)
    names = [f"part-{number:06d}.npz" for number in range(len(blocks))]
    paths = [None if file is None else _parts_folder(file) / name for name in names]
    kept = [_finished(path, f"{inputs} {path.name}") if path and resume else None for path in paths]
    if n_kept := sum(len(part) + len(part.skipped) for part in kept if part is not None):
        say(f"Going on: {n_kept} of {len(listed)} images are done")
    parts: list[ImageFeatures] = []
    start, n_computed = time.monotonic(), 0
    with progress_bar(progress, len(listed), "Features", unit="images") as advance:
        for block, path, part in zip(blocks, paths, kept, strict=True):
            rows = range(block.start, block.stop)
            if part is None:
                part = compute(rows, advance=advance)
                n_computed += len(rows)
                # Images that cannot be read are soon found again.
                if path is not None and len(part):
                    about = part.about | {"inputs": f"{inputs} {path.name}"}
                    replace(part, about=about).save(path)
            else:
                advance(len(rows))
            parts.append(part)
    seconds = time.monotonic() - start
    return ImageFeatures(
        np.concatenate([part.X for part in parts]),
        None,
        tuple(name for part in parts for name in part.images),
        tuple(text for part in parts for text in part.digests),
        {"skipped": [list(pair) for part in parts for pair in part.skipped]},
        n_computed / seconds if n_computed and seconds > 0 else None,
    )


def _compute(
    listed: ImageList,
    backbone: Backbone,
    rows: Sequence[int],
    *,
    advance: Callable[[int], None],
    batch_size: int,
    workers: int,
    max_pixels: int,
) -> ImageFeatures:
    """Features of some images, in batches that are the same after an interruption."""
    X = [np.empty((0, backbone.n_features), np.float32)]
    batch: list[NDArray[np.uint8]] = []
    kept: dict[str, str] = {}
    skipped: list[list[str]] = []

    def read(row: int) -> tuple[str, NDArray[np.uint8]] | UnreadableImageError:
        try:
            data = read_bytes(listed.files[row])
            image = decode(data, None if listed.boxes is None else listed.boxes[row], max_pixels)
        except UnreadableImageError as error:
            return error
        return digest(data), backbone.preprocessing.pixels(image)

    def flush() -> None:
        if batch:
            X.append(backbone.features_of_pixels(np.stack(batch)))
            batch.clear()

    with (
        quiet_decoding(),
        ThreadPoolExecutor(workers) as pool,
        # Closed, it forgets images that nobody has begun to read.
        contextlib.closing(pool.map(read, rows)) as reads,  # type: ignore[type-var]
    ):
        for row, found in zip(rows, reads, strict=True):
            if isinstance(found, UnreadableImageError):
                skipped.append([listed.names[row], str(found)])
            else:
                kept[listed.names[row]], pixels = found
                batch.append(pixels)
            if len(batch) == batch_size:
                flush()
            advance(1)
        flush()
    about = {"skipped": skipped}
    return ImageFeatures(np.concatenate(X), None, tuple(kept), tuple(kept.values()), about)


def _labelled(
    features: ImageFeatures, listed: ImageList, backbone: Backbone, inputs: str
) -> ImageFeatures:
    """The same with labels and the whole record; a class without a readable image is named."""
    if not len(features):
        shown = "; ".join(f"{name} ({reason})" for name, reason in features.skipped[:3])
        raise ValueError(f"None of the {len(listed)} images can be read: {plain(shown)}.")
    y = None
    if listed.labels is not None:
        label_of = dict(zip(listed.names, listed.labels.tolist(), strict=True))
        y = np.asarray([label_of[name] for name in features.images])
        if lost := sorted(set(listed.labels.tolist()) - set(y.tolist())):
            warn_user(
                f"No image of {name_some(lost)} could be read; "
                f"{'this class has' if len(lost) == 1 else 'these classes have'} no features."
            )
    about = backbone.about | {
        "boxes": listed.boxes is not None,
        "skipped": features.about["skipped"],
        "inputs": inputs,
        "versions": {
            "zslearn": __version__,
            "torch": str(import_optional("torch", "Computing features", "images").__version__),
            "pillow": str(import_optional("PIL", "Reading images").__version__),
        },
    }
    return replace(features, y=y, about=about)


def checked_name(path: str | os.PathLike[str]) -> Path:
    """The path of a file of features; one of another kind is refused."""
    file = Path(path)
    if file.suffix != ".npz":
        raise ValueError(f"{plain(file)}: features are kept in a file that ends in .npz.")
    return file


def refuse_other_features(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, whose: str, where: str
) -> None:
    """Refuse features that were made otherwise than those a model knows."""
    if not expected or not found:
        return
    for key, what in _DECISIVE.items():
        ours, theirs = expected.get(key), found.get(key)
        if ours != theirs:
            raise ValueError(
                f"{where}: {what} of these features is {_shown(theirs)}; {whose} was fitted on "
                f"features of {_shown(ours)}. Extract them as {whose} needs them."
                + (" Both are " + str(expected["backbone"]) + "." if key != "backbone" else "")
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return plain(", ".join(f"{key} {item}" for key, item in value.items()), 200)
    return plain(value, 80)
