"""Images through a network: read ahead in threads, in parts that survive an interruption."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._blocks import row_blocks
from zslearn._utils._files import (
    DamagedFileError,
    fingerprint,
    read_checked_json,
    refuse_folder,
    write_checked_json,
)
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._version import __version__
from zslearn.images._backbones import DEFAULT_BACKBONE, Backbone, load_backbone
from zslearn.images._decoding import (
    MAX_PIXELS,
    ImageList,
    NoReadableImageError,
    UnreadableImageError,
    decode,
    digest,
    list_images,
    quiet_decoding,
    read_bytes,
)
from zslearn.images._feature_files import (
    ImageFeatures,
    array_json,
    checked_name,
    json_array,
    load_features,
    read_archive,
    text_array,
    write_archive,
)

# Finished parts of long work, kept in a folder beside its result.

#: Images of a part: what an interruption can cost.
PART_SIZE = 256


@dataclass(frozen=True, eq=False)
class Part:
    """Features of the images of a part that could be read, and why others could not."""

    X: NDArray[np.float32]
    rows: list[int]
    digests: list[str]
    skipped: dict[int, str]


class Parts:
    """Finished parts of one extraction.

    Parameters
    ----------
    out : Path
        The file that all parts become; they are kept in a folder of its name and ``.parts``.
    inputs : str
        What decides the features; parts of other inputs are removed.
    resume : bool
        Whether to use parts that are there.
    """

    def __init__(self, out: Path, inputs: str, *, resume: bool) -> None:
        self.folder = out.with_name(f"{out.name}.parts")
        self._state = self.folder / "inputs.json"
        try:
            same = read_checked_json(self._state).get("inputs") == inputs
        except (OSError, DamagedFileError):
            same = False
        if not (same and resume):
            self.remove()
            write_checked_json(self._state, {"inputs": inputs})

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.npz"

    def count(self, n_images: int) -> int:
        """How many images are done."""
        sizes = [min(PART_SIZE, n_images - start) for start in range(0, n_images, PART_SIZE)]
        return sum(size for i, size in enumerate(sizes) if self._path(i).is_file())

    def read(self, number: int, rows: Sequence[int]) -> Part | None:
        """A part that was kept, or None where there is none that is whole."""
        try:
            arrays = read_archive(self._path(number))
            part = Part(
                arrays["X"].astype(np.float32, copy=False),
                arrays["rows"].tolist(),
                arrays["digests"].tolist(),
                {int(row): str(reason) for row, reason in array_json(arrays["skipped"])},
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_whole = sorted([*part.rows, *part.skipped]) == list(rows)
        return part if is_whole and len(part.X) == len(part.rows) == len(part.digests) else None

    def write(self, number: int, part: Part) -> None:
        """Keep a part."""
        arrays: dict[str, NDArray[Any]] = {
            "X": part.X,
            "rows": np.asarray(part.rows, dtype=np.int64),
            "digests": text_array(part.digests),
            "skipped": json_array([[row, reason] for row, reason in part.skipped.items()]),
        }
        write_archive(self._path(number), arrays)

    def remove(self) -> None:
        """Remove what is kept, and the folder if nothing else is in it."""
        for path in (*self.folder.glob("part-*.npz"), self._state):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


@dataclass(frozen=True)
class _Read:
    """One image: its pixels, or why there are none."""

    row: int
    digest: str = ""
    pixels: NDArray[np.uint8] | None = None
    reason: str = ""


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
    say: Callable[[str], None] | None = None,
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
    weights : path, optional
        A file of weights; see :func:`load_backbone`.
    crop : {"center", "squash"}, optional
        Take the middle of each image, or all of it; by default as the network was trained.
    device : str, default="auto"
        "cpu", "cuda" or another device of torch.
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
        refuse_folder(file)
    import_optional("PIL", "Reading images")
    listed = list_images(images, labels)
    listed = listed if boxes is None else listed.with_boxes(boxes)
    if isinstance(backbone, str):
        backbone = load_backbone(backbone, weights=weights, device=device, crop=crop)
    elif weights is not None or crop is not None:
        raise ValueError("weights= and crop= are for a backbone that is given by name.")
    if batch_size is None:
        batch_size = 8 if backbone.device == "cpu" else 64
    inputs = _inputs(listed, backbone, max_pixels, batch_size)
    if file is not None and resume and (done := _finished(file, inputs)) is not None:
        _tell(say, f"{file} holds these features already")
        return done
    parts = None if file is None else Parts(file, inputs, resume=resume)
    run = _Run(listed, backbone, batch_size, workers or min(8, os.cpu_count() or 1), max_pixels)
    if parts is not None and (n_kept := parts.count(len(listed))):
        _tell(say, f"Going on: {n_kept} of {len(listed)} images are done")
    try:
        features = run.finish(parts, progress, inputs)
    except NoReadableImageError:
        if parts is not None:
            parts.remove()
        raise
    if file is not None:
        features.save(file)
    if parts is not None:
        parts.remove()
    return features


def _tell(say: Callable[[str], None] | None, text: str) -> None:
    if say is not None:
        say(text)


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


def _finished(file: Path, inputs: str) -> ImageFeatures | None:
    """What an earlier call wrote of the same images by the same network, else None."""
    try:
        found = load_features(file)
    except (OSError, ValueError):
        return None
    return found if found.about.get("inputs") == inputs else None


@dataclass(frozen=True)
class _Run:
    """What a call works with."""

    listed: ImageList
    backbone: Backbone
    batch_size: int
    workers: int
    max_pixels: int

    def finish(self, parts: Parts | None, progress: bool, inputs: str) -> ImageFeatures:
        """Features of all images, those of finished parts as they are."""
        n_images = len(self.listed)
        found: list[Part] = []
        start, n_computed = time.monotonic(), 0
        with progress_bar(progress, n_images, "Features", unit="images") as advance:
            for number, block in enumerate(row_blocks(n_images, 1, PART_SIZE)):
                rows = range(block.start, block.stop)
                part = None if parts is None else parts.read(number, rows)
                if part is None:
                    part = self._compute(rows, advance)
                    n_computed += len(rows)
                    if parts is not None:
                        parts.write(number, part)
                else:
                    advance(len(rows))
                found.append(part)
        seconds = time.monotonic() - start
        rate = n_computed / seconds if n_computed and seconds > 0 else None
        return self._joined(found, inputs, rate)

    def _compute(self, rows: Sequence[int], advance: Callable[[int], None]) -> Part:
        """Features of some images, in batches that are the same after an interruption."""
        X: list[NDArray[np.float32]] = []
        kept: list[_Read] = []
        skipped: dict[int, str] = {}
        batch: list[_Read] = []

        def flush() -> None:
            pixels = np.stack([read.pixels for read in batch if read.pixels is not None])
            X.append(self.backbone.features_of_pixels(pixels))
            kept.extend(_Read(read.row, read.digest) for read in batch)
            batch.clear()

        with quiet_decoding(), closing(self._read_ahead(rows)) as reads:
            for read in reads:
                if read.pixels is None:
                    skipped[read.row] = read.reason
                else:
                    batch.append(read)
                if len(batch) == self.batch_size:
                    flush()
                advance(1)
            if batch:
                flush()
        n_features = self.backbone.n_features
        return Part(
            np.concatenate(X) if X else np.empty((0, n_features), np.float32),
            [read.row for read in kept],
            [read.digest for read in kept],
            skipped,
        )

    def _read_ahead(self, rows: Sequence[int]) -> Generator[_Read, None, None]:
        """Read images in threads, a few batches ahead, in order."""
        waiting: deque[Future[_Read]] = deque()
        todo = iter(rows)
        pool = ThreadPoolExecutor(self.workers)
        try:
            for _ in range(2 * self.batch_size + self.workers):
                if (row := next(todo, None)) is not None:
                    waiting.append(pool.submit(self._read, row))
            while waiting:
                yield waiting.popleft().result()
                if (row := next(todo, None)) is not None:
                    waiting.append(pool.submit(self._read, row))
        finally:
            pool.shutdown(cancel_futures=True)

    def _read(self, row: int) -> _Read:
        box = None if self.listed.boxes is None else self.listed.boxes[row]
        try:
            data = read_bytes(self.listed.files[row])
            image = decode(data, box, self.max_pixels)
        except UnreadableImageError as error:
            return _Read(row, reason=str(error))
        return _Read(row, digest(data), self.backbone.preprocessing.pixels(image))

    def _joined(self, parts: list[Part], inputs: str, rate: float | None) -> ImageFeatures:
        listed = self.listed
        rows = [row for part in parts for row in part.rows]
        skipped = {row: reason for part in parts for row, reason in part.skipped.items()}
        shown = [f"{listed.names[row]} ({reason})" for row, reason in list(skipped.items())[:3]]
        if not rows:
            raise NoReadableImageError(
                f"None of the {len(listed)} images can be read: {plain('; '.join(shown))}."
            )
        y = None if listed.labels is None else listed.labels[rows]
        if listed.labels is not None and y is not None:
            lost = sorted(set(listed.labels.tolist()) - set(y.tolist()))
            if lost:
                warn_user(
                    f"No image of {name_some(lost)} could be read; "
                    f"{'this class has' if len(lost) == 1 else 'these classes have'} no features."
                )
        about = self.backbone.about | {
            "boxes": listed.boxes is not None,
            "skipped": [[listed.names[row], reason] for row, reason in skipped.items()],
            "inputs": inputs,
            "versions": _versions(),
        }
        names = tuple(listed.names[row] for row in rows)
        digests = tuple(text for part in parts for text in part.digests)
        return ImageFeatures(
            np.concatenate([part.X for part in parts]), y, names, digests, about, rate
        )


def _versions() -> dict[str, str]:
    return {
        "zslearn": __version__,
        "torch": str(import_optional("torch", "Computing features").__version__),
        "pillow": str(import_optional("PIL", "Reading images").__version__),
    }
