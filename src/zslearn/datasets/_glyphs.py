"""Generate the embedded benchmark: letters with marks, recognised from their parts.

The images are rendered from fonts shipped with matplotlib, by its FreeType, so nothing is
downloaded.
"""

from __future__ import annotations

import hashlib
import math
import os
import string
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import row_blocks
from zslearn._utils._files import DamagedCacheError, cache_folder, read_arrays, write_arrays
from zslearn._utils._messages import warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._utils._validation import checks_arguments
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset

# Histograms of oriented gradients: Dalal and Triggs, "Histograms of Oriented Gradients for Human
# Detection", CVPR 2005. Unsigned orientations are shared between the two nearest of nine bins in
# cells of 4 × 4 pixels; each block of 2 × 2 cells is normalised to unit length, clipped at 0.2, and
# normalised again.
_N_BINS = 9
_CELL = 4  # pixels
_CLIP = 0.2
# Added to the squared norms, so that blocks with almost no gradient stay near zero.
_FLAT_BLOCK, _FLAT_CLIPPED = 100.0, 1e-4
_LEVELS = 511  # differences of grey levels lie in −255 … 255
_PIXEL_BYTES = 4 * 4 + 4 * 8  # memory for the temporary arrays, per pixel


@lru_cache(maxsize=1)
def _gradient_table() -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Bin and weights of each gradient, indexed by ``_LEVELS * (down + 255) + (across + 255)``.

    A gradient between the bins b and b + 1 contributes to both: b, part in b, part in b + 1.
    """
    levels = np.arange(-255.0, 256.0)
    down, across = levels[:, None], levels[None, :]
    magnitude = np.hypot(across, down)
    position = np.arctan2(down, across) * (_N_BINS / np.pi) % _N_BINS
    lower = np.floor(position)
    upper_part = magnitude * (position - lower)
    # Rounding can give the position _N_BINS, which is bin 0.
    lower_bin = lower.astype(np.intp) % _N_BINS
    return lower_bin.ravel(), (magnitude - upper_part).ravel(), upper_part.ravel()


def _gradient_histograms(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Compute histograms of oriented gradients, one row per image."""
    n_images, height, width = images.shape
    grey = images.astype(np.int32)
    # Central differences; zero across the border.
    across, down = np.zeros_like(grey), np.zeros_like(grey)
    across[:, :, 1:-1] = grey[:, :, 2:] - grey[:, :, :-2]
    down[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    gradient = _LEVELS * (down + 255) + (across + 255)
    lower_bin, lower_part, upper_part = _gradient_table()

    shape = (n_images, height // _CELL, width // _CELL, _N_BINS)
    cell = np.arange(height)[:, None] // _CELL * shape[2] + np.arange(width) // _CELL
    image = np.arange(n_images)[:, None, None] * (shape[1] * shape[2])
    slot = ((image + cell) * _N_BINS + lower_bin[gradient]).ravel()
    size = math.prod(shape)
    lower = np.bincount(slot, lower_part[gradient].ravel(), minlength=size).reshape(shape)
    upper = np.bincount(slot, upper_part[gradient].ravel(), minlength=size).reshape(shape)
    cells = (lower + np.roll(upper, 1, axis=-1)).astype(np.float32)

    blocks = np.concatenate(
        [cells[:, :-1, :-1], cells[:, :-1, 1:], cells[:, 1:, :-1], cells[:, 1:, 1:]], axis=-1
    )
    blocks /= np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + np.float32(_FLAT_BLOCK))
    np.minimum(blocks, np.float32(_CLIP), out=blocks)
    blocks /= np.sqrt(np.square(blocks).sum(axis=-1, keepdims=True) + np.float32(_FLAT_CLIPPED))
    return blocks.reshape(n_images, -1)


# Increase whenever an image, a feature, a signature or a split changes.
VERSION = "glyphs-1"

# Every Latin letter with one combining mark that all faces below contain. The list is explicit so
# that the classes stay the same when the fonts gain characters.
COMPOSED = (
    "ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿĀāĂăĄąĆćĈĉĊċČčĎďĒēĔĕĖėĘęĚěĜĝĞğĠġĢģĤĥĨĩĪīĬĭĮįİ"
    "ĴĵĶķĹĺĻļĽľŃńŅņŇňŌōŎŏŐőŔŕŖŗŘřŚśŜŝŞşŠšŢţŤťŨũŪūŬŭŮůŰűŲųŴŵŶŷŸŹźŻżŽžƠơƯưẀẁẂẃẄẅỲỳ"
)
CLASSES = string.ascii_uppercase + string.ascii_lowercase + COMPOSED
FACES = (
    "DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf", "DejaVuSans-BoldOblique.ttf",
    "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-Oblique.ttf",
    "DejaVuSansMono-BoldOblique.ttf", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf",
    "DejaVuSerif-Italic.ttf", "DejaVuSerif-BoldItalic.ttf", "STIXGeneral.ttf", "STIXGeneralBol.ttf",
    "STIXGeneralItalic.ttf", "STIXGeneralBolIta.ttf",
)  # fmt: skip
N_VARIANTS = 3
SIDE = 32  # pixels
OVERSAMPLING = 2  # so that a shift by half a pixel shows

# Ranges of the variants of a glyph.
_SIZES = (16.0, 20.0)  # pixels per em
_ROTATION = 10.0  # degrees, either way
_SHIFT = 2.0  # pixels, either way
_NOISE = 24.0  # standard deviation, in grey levels of 255

N_HELD_OUT_FACES = 3  # of each seen class: 9 of its 48 images, 19 %
# The 50 unseen classes of each split, drawn at random such that at least half of the letters with
# each mark are seen. The letters with each mark were dealt to "ss-1" to "ss-4", and each of these
# was completed by letters of the others.
_UNSEEN = {
    "ns": "ÀÁÄÈÊÒÕÖâåéîùýĀĂĆćČĎėęĚěĝĞģĨİĵĻĽōřŜšťŨŭůŰűųŶŻžơẁẂẅ",
    "ss-1": "ÁÃÇÈÉÊËÌÒÔÖÚãäåíñúāĂąĊČčēėěĞģĥĩĪĮľŃŇŎŔŗşŢŪŭŰŵŶŷŻơỲ",
    "ss-2": "ÁÃÄÎÑÙàéîòöûüÿĆċĔęĝĞĠĢĨīįĴĵĶĹŅņňŌŏŖŘřŚšŢũŮűźŻơưẂỲỳ",
    "ss-3": "ÀÍÏÑÓÔÚÝâèëìóýĀĄĈĉĒēĘğĤĬĭĮİķĻļĽńőŕŚŝŞŠŨůŴŷŸżŽžƯẁẃẅ",
    "ss-4": "ÂÅÉËÏÕÛÜáçêìïóôõùăćĊĎďĔĕĖĚĜġģĤĺŅōŐśŜţŤťŪūŬŲųŹžƠẀẁẄ",
}

# Upper bound of the cache file without the pixels.
_CACHE_OVERHEAD = 1 << 16  # bytes

_IMAGE_SEED, _NOISE_SEED, _FACES_SEED = 1, 2, 5


@checks_arguments({"split": [str], "data_home": [str, os.PathLike, None], "progress": ["boolean"]})
def load_glyphs(
    split: str = "ns", *, data_home: str | os.PathLike[str] | None = None, progress: bool = False
) -> ZeroShotDataset:
    """Load the glyphs data set: letters with marks, described by letter, mark and case.

    There are 225 classes: the Latin letters, plain and with one combining mark, that sixteen
    DejaVu and STIX faces contain, labelled by their characters. Each face gives three images of
    32 × 32 pixels that differ in size, rotation, position and noise: 48 images per class. The
    features are histograms of oriented gradients. The 43 signature columns encode the letter (26),
    the mark (14, or none) and the case (2).

    A split has 175 seen classes and 50 unseen ones, composed of a letter and a mark that both occur
    in seen classes. All images of three faces are test images of each seen class, because the three
    images of one face are nearly identical.

    Parameters
    ----------
    split : {"ns", "ss-1", "ss-2", "ss-3", "ss-4"}, default="ns"
        The active split. "ns" is used alone; results over "ss-1" to "ss-4" are averaged. Each
        composed letter is unseen in one or two of these four.
    data_home : str or path, default=None
        Folder for the rendered images. By default the folder named by the environment variable
        ``ZSLEARN_CACHE``, else the user's cache folder.
    progress : bool, default=False
        Show a progress bar while rendering, if standard error is a terminal.

    Returns
    -------
    ZeroShotDataset
        With all five splits, the images, and float32 features.

    Notes
    -----
    The images are rendered at the first call and cached in a file of 11 MB. Another version of
    FreeType may render some pixels differently; the classes, signatures and splits do not change.

    Examples
    --------
    >>> from zslearn.datasets import load_glyphs
    >>> data = load_glyphs()
    >>> data
    <ZeroShotDataset glyphs, split ns, version glyphs-1/ns>
      samples     10800: 6825 train, 1575 test seen, 2400 test unseen
      classes     225: 175 seen, 50 unseen
      features    1764 (gradient histogram)
      signatures  43
      images      32 × 32
      splits      ns, ss-1, ss-2, ss-3, ss-4
    >>> facts = data.signatures.loc["é"]
    >>> list(facts[facts == 1].index)
    ['letter e', 'mark acute', 'lower case']
    """
    if split not in _UNSEEN:
        raise ValueError(f"glyphs has no split {split!r}; choose one of {', '.join(_UNSEEN)}.")
    purpose = "Rendering the glyphs data set"
    matplotlib = import_optional("matplotlib", purpose)
    ft2font = import_optional("matplotlib.ft2font", purpose)
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"

    # Named after everything that affects the pixels.
    digest = hashlib.sha256(b"".join((fonts / face).read_bytes() for face in FACES)).hexdigest()
    path = cache_folder(data_home) / (
        f"{VERSION}_matplotlib-{matplotlib.__version__}_freetype-{ft2font.__freetype_version__}"
        f"_fonts-{digest[:8]}.npz"
    )
    try:
        images = _read_images(path)
    except (FileNotFoundError, DamagedCacheError) as error:
        if isinstance(error, DamagedCacheError):
            warn_user(f"Rendering the glyphs again, because the cache {path} is damaged ({error}).")
        images = _render(ft2font, fonts, progress)
        try:
            write_arrays(path, {"images": images})
        except OSError as unwritable:
            warn_user(
                f"The rendered glyphs could not be cached in {path.parent} ({unwritable}). Set "
                "ZSLEARN_CACHE (in Python: data_home=) to a writable folder."
            )
    features = [
        _gradient_histograms(images[rows])
        for rows in row_blocks(len(images), _PIXEL_BYTES * SIDE**2)
    ]
    return ZeroShotDataset(
        X=np.concatenate(features),
        y=np.repeat(np.array(list(CLASSES)), len(FACES) * N_VARIANTS),
        signatures=_signatures(),
        splits=_splits(),
        split=split,
        name="glyphs",
        features="gradient histogram",
        images=images,
    )


def _parts(character: str) -> tuple[str, str]:
    """Split a character into its letter and its mark ("" for none)."""
    decomposed = unicodedata.normalize("NFD", character)
    return decomposed[0], decomposed[1:]


def _signatures() -> pd.DataFrame:
    """Describe each class by letter, mark and case, with one column per value.

    "none" and "lower case" are columns too, so that all signatures have the same norm and the
    distance of two classes counts the facts in which they differ.
    """
    parts = [_parts(character) for character in CLASSES]
    names = {
        mark: unicodedata.name(mark).removeprefix("COMBINING ").removesuffix(" ACCENT").lower()
        for mark in sorted({mark for _, mark in parts} - {""})
    }
    facts = {
        **{f"letter {x}": [y.lower() == x for y, _ in parts] for x in string.ascii_lowercase},
        **{f"mark {n}": [mark == x for _, mark in parts] for x, n in {"": "none", **names}.items()},
        "lower case": [letter.islower() for letter, _ in parts],
        "upper case": [letter.isupper() for letter, _ in parts],
    }
    return pd.DataFrame(facts, index=list(CLASSES), dtype=np.float64)


def _generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _splits() -> dict[str, ClassSplit]:
    """Build all splits; the held-out faces are random."""
    n_classes, n_faces = len(CLASSES), len(FACES)
    classes = np.array(list(CLASSES))
    shape = (n_classes, n_faces, N_VARIANTS)
    samples = np.arange(np.prod(shape)).reshape(shape)
    splits = {}
    for number, (name, unseen) in enumerate(_UNSEEN.items()):
        is_unseen = np.isin(classes, list(unseen))
        # Hold out the faces with the lowest random ranks of each class.
        draws = _generator(_FACES_SEED, number).random((n_classes, n_faces))
        held_out = draws.argsort(axis=1).argsort(axis=1) < N_HELD_OUT_FACES
        splits[name] = ClassSplit(
            train=samples[~is_unseen[:, None] & ~held_out].ravel(),
            test_seen=samples[~is_unseen[:, None] & held_out].ravel(),
            test_unseen=samples[is_unseen].ravel(),
            seen_classes=classes[~is_unseen],
            unseen_classes=classes[is_unseen],
            version=f"{VERSION}/{name}",
        )
    return splits


def _read_images(path: Path) -> NDArray[np.uint8]:
    """Read the rendered images from the cache."""
    shape = (len(CLASSES) * len(FACES) * N_VARIANTS, SIDE, SIDE)
    arrays = read_arrays(path, max_bytes=math.prod(shape) + _CACHE_OVERHEAD)
    images = arrays.get("images")
    if images is None or images.shape != shape or images.dtype != np.uint8:
        raise DamagedCacheError("it holds unexpected arrays")
    return images


def _render(ft2font: Any, fonts: Path, progress: bool) -> NDArray[np.uint8]:
    """Render all images, ordered by class and face."""
    n_classes = len(CLASSES)
    images = np.empty((n_classes, len(FACES), N_VARIANTS, SIDE, SIDE), dtype=np.uint8)
    draws = _generator(_IMAGE_SEED).random((len(FACES), n_classes, N_VARIANTS, 4))
    with progress_bar(progress, len(FACES), "faces of the glyphs") as advance:
        for position, face in enumerate(FACES):
            font = ft2font.FT2Font(str(fonts / face))
            absent = [c for c in CLASSES if font.get_char_index(ord(c)) == 0]
            if absent:
                raise RuntimeError(
                    f"{face} of the installed matplotlib lacks {len(absent)} characters of the "
                    f"glyphs data set ({', '.join(absent[:5])}); install matplotlib from PyPI, "
                    "which includes the complete fonts."
                )
            canvas = _draw_face(ft2font, font, draws[position].reshape(-1, 4))
            clean = canvas.reshape(-1, SIDE, OVERSAMPLING, SIDE, OVERSAMPLING).mean(
                axis=(2, 4), dtype=np.float32
            )
            noise = _generator(_NOISE_SEED, position).standard_normal(clean.shape, dtype=np.float32)
            clean += np.float32(_NOISE) * noise
            pixels = np.rint(clean).clip(0, 255).astype(np.uint8)
            images[:, position] = pixels.reshape(n_classes, N_VARIANTS, SIDE, SIDE)
            advance(1)
    return images.reshape(-1, SIDE, SIDE)


def _draw_face(ft2font: Any, font: Any, draws: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Draw every class in one face, each variant with its size, rotation and position.

    The ink is centred, then shifted, so that the position does not reveal the baseline.
    """
    # Hinting would distort the outlines. Before matplotlib 3.10 the flags are in the module.
    flags = getattr(ft2font, "LoadFlags", None)
    no_hinting = ft2font.LOAD_NO_HINTING if flags is None else flags.NO_HINTING
    side = SIDE * OVERSAMPLING
    canvas = np.zeros((len(draws), side, side), dtype=np.uint8)
    sizes = OVERSAMPLING * (_SIZES[0] + (_SIZES[1] - _SIZES[0]) * draws[:, 0])
    angles = _ROTATION * (2 * draws[:, 1] - 1)
    shifts = OVERSAMPLING * _SHIFT * (2 * draws[:, 2:] - 1)
    for row, (size, angle, shift) in enumerate(zip(sizes, angles, shifts, strict=True)):
        font.set_size(size, 72)  # at 72 dots per inch a point is a pixel
        font.set_text(CLASSES[row // N_VARIANTS], angle, flags=no_hinting)
        font.draw_glyphs_to_bitmap()
        drawn = np.asarray(font.get_image())
        ink_rows, ink_columns = (np.flatnonzero(drawn.any(axis=axis)) for axis in (1, 0))
        ink = drawn[ink_rows[0] : ink_rows[-1] + 1, ink_columns[0] : ink_columns[-1] + 1]
        # Keep the ink inside the image.
        room = side - np.array(ink.shape)
        top, left = np.clip(np.round(room / 2 + shift).astype(int), 0, room)
        canvas[row, top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return canvas
