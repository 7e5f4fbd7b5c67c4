"""Compute features of images with a neural network, resumably.

Threads read images ahead while the network computes. Each finished part is saved beside the result,
so that an interruption costs at most one part.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from zslearn._utils._array import row_blocks
from zslearn._utils._files import refuse_unwritable
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say, progress_bar
from zslearn._version import __version__
from zslearn.images._backbones import DEFAULT_BACKBONE, Backbone, load_backbone
from zslearn.images._decoding import (
    MAX_PIXELS,
    ImageList,
    UnreadableImageError,
    list_images,
    quiet_decoding,
    read_bytes,
    read_image,
)
from zslearn.images._samples import (
    Samples,
    check_labels,
    is_feature_table,
    load_features,
    npz_path,
)

_logger = logging.getLogger("zslearn")

#: Images per part.
PART_SIZE = 256
#: Entries of the record that must agree for features to be comparable, as errors name them.
_MUST_AGREE = {
    "backbone": "backbone",
    "weights_sha256": "weights",
    "preprocessing": "preprocessing",
}


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
) -> Samples:
    """Compute features of images with a pretrained network.

    Unreadable images are skipped and listed, with the reason, in `Samples.skipped`.

    Parameters
    ----------
    images : path or sequence of paths
        A folder with one folder per class, a folder of unlabelled images, a ``.csv`` table of paths
        and labels, or image files; see :func:`list_images`.
    backbone : str or Backbone, default="efficientnet-lite0"
        The network; see :func:`load_backbone`.
    labels : sequence of str, optional
        The class of each image, if `images` are files.
    boxes : path, optional
        A ``.csv`` file with the columns path, x, y, width and height: the bounding box to crop each
        image to, as in CUB-200-2011.
    weights, crop, device
        See :func:`load_backbone`.
    batch_size : int, optional
        Images per batch, by default 8 on a CPU, whose caches hold no more, and 64 elsewhere.
    workers : int, optional
        Threads that read images, by default one per available core but at most eight.
    max_pixels : int, default=100000000
        Larger images are skipped.
    out : path, optional
        A ``.npz`` file to write. Until it is complete, finished parts are kept beside it in a
        folder ending in ``.parts``; after an interruption, the same call resumes from them.
    resume : bool, default=True
        Whether to use parts of an earlier call with the same images, boxes and network.
    progress : bool, default=False
        Whether to show a progress bar.
    say : callable, optional
        Called with progress messages.

    Returns
    -------
    Samples
        Features, labels, names, and a record of how they were made.

    See Also
    --------
    load_features : Load the file written here.
    zslearn.datasets.load_table : Combine it with signatures in a data set.

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
    # Fail before the long computation, not after it.
    file = None if out is None else npz_path(out)
    if file is not None:
        refuse_unwritable(file)
    import_optional("PIL", "Reading images")
    listed = list_images(images, labels)
    listed = listed if boxes is None else listed.with_boxes(boxes)
    if isinstance(backbone, str):
        backbone = load_backbone(backbone, weights=weights, device=device, crop=crop)
    elif weights is not None or crop is not None:
        raise ValueError("weights= and crop= are only used with the name of a backbone.")
    if batch_size is None:
        batch_size = 8 if backbone.device == "cpu" else 64
    say = say or (lambda _: None)
    inputs = _inputs(listed, backbone, max_pixels, batch_size)
    if resume and (finished := _load_finished(file, inputs)) is not None:
        say(f"{file} already contains these features")
        return finished
    compute = partial(
        _compute,
        listed,
        backbone,
        batch_size=batch_size,
        workers=workers or min(8, cpu_count()),
        max_pixels=max_pixels,
    )
    folder = None if file is None else file.with_name(f"{file.name}.parts")
    parts = _compute_parts(compute, len(listed), folder, inputs, resume, progress, say)
    samples = _join(parts, listed, backbone, inputs)
    if file is not None and folder is not None:
        samples.save(file)
        for part in folder.glob("part-*.npz"):
            part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder contains other files
            folder.rmdir()
    return samples


def read_samples(
    source: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Collection[str] = (),
    columns: Sequence[str] | None = None,
    decimal_commas: Iterable[str] = (),
    id_column: str | None = None,
    described: Iterable[Any] | None = None,
    described_in: str = "the description",
    leave_out: Sequence[str] = (),
    **options: Any,
) -> Samples:
    """Read samples from a file or a folder, computing features of images.

    Parameters
    ----------
    source : path
        A ``.npz`` file of features, a table (``.csv``, ``.tsv``, ``.xlsx`` or ``.parquet``) of
        features and labels, or images: a folder, or a ``.csv`` table of paths and labels.
    label, drop, columns, decimal_commas, id_column
        See :func:`load_features`; for tables of features.
    described : iterable of labels, optional
        The described classes. Other labels are rejected before any feature is computed.
    described_in : str, default="the description"
        What errors call the source of these classes.
    leave_out : sequence of str, default=()
        Labels that must be present.
    **options
        Passed to :func:`extract_features`, for images.

    Returns
    -------
    Samples
        The samples, labelled if `described` is given.
    """
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {plain(source)}.")
    is_table = is_feature_table(path)
    has_features = is_table or path.suffix == ".npz"
    for name, value in (("label", label), ("id", id_column), ("drop", sorted(drop) or None)):
        if value is not None and not is_table:
            given = f"drop={value}" if name == "drop" else f"{name}="
            raise ValueError(f"{given} is for tables of features; {plain(source)} is not one.")
    for name in ("backbone", "weights", "boxes", "crop"):
        if options.get(name) is not None and has_features:
            raise ValueError(f"{name}= is for images; {plain(source)} holds features.")
    checks: dict[str, Any] = {"described_in": described_in, "leave_out": leave_out}
    if has_features:
        samples = load_features(
            path,
            label=label,
            drop=drop,
            columns=columns,
            decimal_commas=decimal_commas,
            id_column=id_column,
        )
        if described is None:
            return samples
        labels = check_labels(samples.y, described, row_noun=samples.row_noun, **checks)
        return replace(samples, y=labels)
    listed = list_images(path)
    if described is not None:
        listed = replace(listed, labels=check_labels(listed.labels, described, **checks))
    return extract_features(listed, options.pop("backbone", None) or DEFAULT_BACKBONE, **options)


def _inputs(listed: ImageList, backbone: Backbone, *settings: int) -> str:
    """Fingerprint the images (by size and time), boxes, labels, network and settings."""

    def stamp(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    stamps = [stamp(path) for path in listed.files]
    labels = None if listed.labels is None else listed.labels.tolist()
    return fingerprint(listed.names, labels, listed.boxes, stamps, backbone.about, settings)


def _load_finished(file: Path | None, inputs: str) -> Samples | None:
    """Load the result of an earlier call with the same inputs, if there is one."""
    try:
        found = None if file is None else load_features(file)
    except (OSError, ValueError):
        return None
    return found if found is not None and found.about.get("inputs") == inputs else None


def _compute_parts(
    compute: Callable[..., Samples],
    n_images: int,
    folder: Path | None,
    inputs: str,
    resume: bool,
    progress: bool,
    say: Say,
) -> list[Samples]:
    """Compute or load the features of all images in parts."""
    blocks = row_blocks(n_images, 1, PART_SIZE)
    keys = [f"{inputs} part-{number:06d}.npz" for number in range(len(blocks))]
    paths = [None if folder is None else folder / key.split()[-1] for key in keys]
    done = [
        _load_finished(path, key) if resume else None for path, key in zip(paths, keys, strict=True)
    ]
    if n_done := sum(len(part) + len(part.skipped) for part in done if part is not None):
        say(f"Resuming: {n_done} of {n_images} images are done")
    parts: list[Samples] = []
    start, n_computed = time.monotonic(), 0
    with progress_bar(progress, n_images, "Features", unit="images") as advance:
        for block, path, key, part in zip(blocks, paths, keys, done, strict=True):
            rows = range(block.start, block.stop)
            if part is not None:
                advance(len(rows))
            else:
                part = compute(rows, advance=advance)
                n_computed += len(rows)
                # A part of unreadable images alone is quickly recomputed.
                if path is not None and len(part):
                    replace(part, about=part.about | {"inputs": key}).save(path)
            parts.append(part)
    if n_computed:
        rate = n_computed / max(time.monotonic() - start, 1e-9)
        _logger.info("%.3g images per second", rate)
    return parts


def _compute(
    listed: ImageList,
    backbone: Backbone,
    rows: Sequence[int],
    *,
    advance: Callable[[int], None],
    batch_size: int,
    workers: int,
    max_pixels: int,
) -> Samples:
    """Compute the features of one part, in batches that do not depend on interruptions."""
    digests: dict[str, str] = {}
    skipped: list[list[str]] = []

    def read(row: int) -> tuple[str, str, Any]:
        """The name and digest of an image, and its pixels; or why it cannot be read."""
        name, box = listed.names[row], None if listed.boxes is None else listed.boxes[row]
        try:
            data = read_bytes(listed.files[row])
            pixels = backbone.preprocessing.pixels(read_image(data, box=box, max_pixels=max_pixels))
        except UnreadableImageError as error:
            return name, "", str(error)
        return name, hashlib.sha256(data).hexdigest()[:32], pixels

    def recorded(reads: Iterable[tuple[str, str, Any]]) -> Iterator[Any]:
        """The pixels of each image; names, digests and reasons are kept."""
        for name, digest, content in reads:
            if digest:
                digests[name] = digest
            else:
                skipped.append([name, content])
            yield content if digest else None

    with (
        quiet_decoding(),
        ThreadPoolExecutor(workers) as pool,
        # Closing cancels images that are not being read yet.
        contextlib.closing(pool.map(read, rows)) as reads,  # type: ignore[type-var]
    ):
        X = features_in_batches(backbone, recorded(reads), batch_size, advance)
    about = {"skipped": skipped}
    return Samples(X, None, tuple(digests), tuple(digests.values()), about)


def features_in_batches(
    backbone: Backbone,
    images: Iterable[NDArray[np.uint8] | None],
    batch_size: int,
    advance: Callable[[int], None] = lambda n_images: None,
) -> NDArray[np.float32]:
    """Compute features from pixels; None stands for an image that cannot be read."""
    X, images = [np.empty((0, backbone.n_features), np.float32)], iter(images)
    while found := list(islice(images, batch_size)):
        if pixels := [image for image in found if image is not None]:
            X.append(backbone.features_of_pixels(np.stack(pixels)))
        advance(len(found))
    return np.concatenate(X)


def _join(parts: list[Samples], listed: ImageList, backbone: Backbone, inputs: str) -> Samples:
    """Concatenate the parts and add labels and the record; warn of classes left without images."""
    names = tuple(name for part in parts for name in part.names)
    skipped = [list(pair) for part in parts for pair in part.skipped]
    if not names:
        shown = "; ".join(f"{name} ({reason})" for name, reason in skipped[:3])
        raise ValueError(f"None of the {len(listed)} images can be read: {plain(shown)}.")
    y = None
    if listed.labels is not None:
        label_of = dict(zip(listed.names, listed.labels.tolist(), strict=True))
        y = np.asarray([label_of[name] for name in names])
        if lost := sorted(set(listed.labels.tolist()) - set(y.tolist())):
            warn_user(f"No image of {name_some(lost)} can be read; there are no features of it.")
    about = backbone.about | {
        "boxes": listed.boxes is not None,
        "skipped": skipped,
        "inputs": inputs,
        "versions": {
            "zslearn": __version__,
            "torch": str(import_optional("torch", "Computing features", "images").__version__),
            "pillow": str(import_optional("PIL", "Reading images").__version__),
        },
    }
    X = np.concatenate([part.X for part in parts])
    digests = tuple(digest for part in parts for digest in part.digests)
    return Samples(X, y, names, digests, about)


def refuse_other_features(
    expected: Mapping[str, Any], found: Mapping[str, Any], *, model_name: str, where: str
) -> None:
    """Refuse features made by another network, other weights or other preprocessing."""
    if not expected or not found:
        return
    for key, noun in _MUST_AGREE.items():
        wanted, actual = expected.get(key), found.get(key)
        if wanted != actual:
            same = f" Both use {expected['backbone']}." if key != "backbone" else ""
            raise ValueError(
                f"{where}: the {noun} of these features is {_shown(actual)}, but {model_name} was "
                f"fitted with {_shown(wanted)}. Extract features as {model_name} needs them.{same}"
            )


def _shown(value: Any) -> str:
    """Format a value of the record for an error."""
    if isinstance(value, Mapping):
        return plain(", ".join(f"{key} {item}" for key, item in value.items()), 200)
    return plain(value, 80)
