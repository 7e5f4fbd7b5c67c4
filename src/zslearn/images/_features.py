"""Features of images, computed by a network.

Images are read in threads and computed in parts; each finished part is a file of features of its
own, beside the result, so that an interruption costs one part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._blocks import row_blocks
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
    decode_image,
    list_images,
    open_image,
    quiet_decoding,
    read_bytes,
)
from zslearn.images._samples import (
    Samples,
    is_feature_table,
    load_features,
    npz_path,
    refuse_undescribed,
)

#: Images of a part: what an interruption can cost.
PART_SIZE = 256
#: What decides whether two sets of features can be compared, and what errors call it.
_DECISIVE = {
    "backbone": "the backbone",
    "weights_sha256": "the weights",
    "preprocessing": "the preprocessing",
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
    """Turn images into features by a trained network.

    Images that cannot be read are left out and listed, with the reason, in `skipped` of the result.

    Parameters
    ----------
    images : path or sequence of paths
        A folder with one folder per class, a folder of unlabelled images, a table ``.csv`` of paths
        and labels, or image files; see :func:`list_images`.
    backbone : str or Backbone, default="efficientnet-lite0"
        The network; see :func:`load_backbone`.
    labels : sequence of str, optional
        The class of each image, where `images` are files.
    boxes : path, optional
        A file ``.csv`` with the columns path, x, y, width and height: the part of each image to
        use, as CUB-200-2011 has it.
    weights, crop, device
        See :func:`load_backbone`.
    batch_size : int, optional
        Images per batch; by default 8 on a CPU, whose caches hold no more, and 64 elsewhere.
    workers : int, optional
        Threads that read images ahead; by default one per core, at most eight.
    max_pixels : int, default=100000000
        Larger images are not decoded.
    out : path, optional
        A file ``.npz`` to write. Finished parts are kept beside it, in a folder whose name ends in
        ``.parts``, until it is complete: after an interruption the same call continues there.
    resume : bool, default=True
        Whether to use the parts of an earlier call on the same images, boxes and network.
    progress : bool, default=False
        Whether to show a progress bar.
    say : callable, optional
        Called with messages on what is being done.

    Returns
    -------
    Samples
        Features, labels, names, and how they were made.

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
    # Before long work, whose result could not be kept.
    file = None if out is None else npz_path(out)
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
    folder = None if file is None else file.with_name(f"{file.name}.parts")
    parts, rate = _compute_parts(compute, len(listed), folder, inputs, resume, progress, say)
    samples = _joined(parts, rate, listed, backbone, inputs)
    if file is not None and folder is not None:
        samples.save(file)
        for part in folder.glob("part-*.npz"):
            part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
    return samples


def read_samples(
    source: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    described: Iterable[Any] | None = None,
    by: str = "the description",
    leave_out: Sequence[str] = (),
    **options: Any,
) -> Samples:
    """Read samples from any source; images become features.

    Parameters
    ----------
    source : path
        A file ``.npz`` of features, a table ``.csv`` or ``.parquet`` of features and labels, or
        images: a folder, or a table ``.csv`` of their paths and labels.
    label, drop, columns
        See :func:`load_features`; for a table of features.
    described : iterable of labels, optional
        The classes that labels may name; other labels are refused before features are computed.
    by : str, default="the description"
        What errors call these classes.
    leave_out : sequence of str, default=()
        Labels that must be there.
    **options
        Further arguments of :func:`extract_features`, for images.

    Returns
    -------
    Samples
        With labels, where `described` is given.
    """
    path = Path(source)
    is_table = is_feature_table(path)
    has_features = is_table or path.suffix == ".npz"
    for name, value in (("label", label), ("drop", drop or None)):
        if value is not None and not is_table:
            raise ValueError(f"{name}= is for a table of features; {plain(source)} is none.")
    for name in ("backbone", "weights", "boxes", "crop"):
        if options.get(name) is not None and has_features:
            raise ValueError(f"{name}= is for images; {plain(source)} holds features.")
    checks: dict[str, Any] = {"by": by, "leave_out": leave_out}
    if has_features:
        samples = load_features(path, label=label, drop=drop, columns=columns)
        if described is not None:
            refuse_undescribed(samples.y, described, row_noun=samples.row_noun, **checks)
        return samples
    listed = list_images(path)
    if described is not None:
        # Before any image is computed, which takes long.
        refuse_undescribed(listed.labels, described, **checks)
    backbone = options.pop("backbone", None) or DEFAULT_BACKBONE
    return extract_features(listed, backbone, **options)


def _inputs(listed: ImageList, backbone: Backbone, *settings: int) -> str:
    """A fingerprint of images (by size and time), boxes, labels and network."""

    def stamp(path: Path) -> tuple[int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns

    stamps = [stamp(path) for path in listed.files]
    labels = None if listed.labels is None else listed.labels.tolist()
    return fingerprint(listed.names, labels, listed.boxes, stamps, backbone.about, settings)


def _finished(file: Path | None, inputs: str) -> Samples | None:
    """What an earlier call wrote of the same images by the same network, else None."""
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
) -> tuple[list[Samples], float | None]:
    """Parts of all images, those that are finished from their files; and images per second."""
    blocks = row_blocks(n_images, 1, PART_SIZE)
    names = [f"part-{number:06d}.npz" for number in range(len(blocks))]
    paths = [None if folder is None else folder / name for name in names]
    kept = [_finished(path, f"{inputs} {path.name}") if path and resume else None for path in paths]
    if n_kept := sum(len(part) + len(part.skipped) for part in kept if part is not None):
        say(f"Going on: {n_kept} of {n_images} images are done")
    parts: list[Samples] = []
    start, n_computed = time.monotonic(), 0
    with progress_bar(progress, n_images, "Features", unit="images") as advance:
        for block, path, part in zip(blocks, paths, kept, strict=True):
            rows = range(block.start, block.stop)
            if part is not None:
                advance(len(rows))
            else:
                part = compute(rows, advance=advance)
                n_computed += len(rows)
                # Images that cannot be read are soon found again.
                if path is not None and len(part):
                    about = part.about | {"inputs": f"{inputs} {path.name}"}
                    replace(part, about=about).save(path)
            parts.append(part)
    seconds = time.monotonic() - start
    return parts, n_computed / seconds if n_computed and seconds > 0 else None


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
    """Features of some images, in batches that are the same after an interruption."""
    X = [np.empty((0, backbone.n_features), np.float32)]
    batch: list[NDArray[np.uint8]] = []
    kept: dict[str, str] = {}
    skipped: list[list[str]] = []

    def read(row: int) -> tuple[str, NDArray[np.uint8]] | UnreadableImageError:
        try:
            data = read_bytes(listed.files[row])
            box = None if listed.boxes is None else listed.boxes[row]
            image = decode_image(open_image(data, max_pixels=max_pixels), box)
        except UnreadableImageError as error:
            return error
        return hashlib.sha256(data).hexdigest()[:32], backbone.preprocessing.pixels(image)

    def flush() -> None:
        if batch:
            X.append(backbone.features_of_pixels(np.stack(batch)))
            batch.clear()

    with (
        quiet_decoding(),
        ThreadPoolExecutor(workers) as pool,
        # Closed, it forgets images that are not being read yet.
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
    return Samples(np.concatenate(X), None, tuple(kept), tuple(kept.values()), about)


def _joined(
    parts: list[Samples], rate: float | None, listed: ImageList, backbone: Backbone, inputs: str
) -> Samples:
    """All parts, with labels and the whole record; a class without a readable image is named."""
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
            warn_user(
                f"No image of {name_some(lost)} could be read; "
                f"{'this class has' if len(lost) == 1 else 'these classes have'} no features."
            )
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
    return Samples(X, y, names, digests, about, rate)


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
                + (f" Both are {expected['backbone']}." if key != "backbone" else "")
            )


def _shown(value: Any) -> str:
    """A value of the record, for an error."""
    if isinstance(value, Mapping):
        return plain(", ".join(f"{key} {item}" for key, item in value.items()), 200)
    return plain(value, 80)
