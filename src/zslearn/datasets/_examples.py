"""Write example data for a first try: coloured shapes, as a table of measurements or pictures.

NumPy draws everything on demand, so nothing is downloaded or shipped. A class is a combination such
as "red striped star"; a fifth of the combinations occur only in the new samples.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from zslearn._utils._files import atomic_write
from zslearn._utils._optional import import_optional
from zslearn._utils._validation import checks_arguments

#: Radius of the outline at angle t, relative to the size of the shape.
_OUTLINES = {
    "circle": lambda t: np.ones_like(t),
    "triangle": lambda t: 0.62 / np.cos((t % (2 * np.pi / 3)) - np.pi / 3),
    "square": lambda t: 0.75 / np.cos((t % (np.pi / 2)) - np.pi / 4),
    "flower": lambda t: 0.72 + 0.38 * np.cos(5 * t),
    "star": lambda t: 0.85 + 0.18 * np.cos(8 * t),
}
_COLOURS = {
    "red": (208, 48, 44),
    "green": (52, 148, 72),
    "blue": (48, 96, 196),
    "yellow": (232, 196, 40),
    "purple": (140, 64, 164),
}
_PATTERNS = ("plain", "striped", "dotted")
_CLASSES = [(c, p, s) for c in _COLOURS for p in _PATTERNS for s in _OUTLINES]
#: Picture side in pixels, samples per class, and measured harmonics of the outline.
_SIDE, _N_TRAIN, _N_NEW, _HARMONICS = 64, 8, 3, (3, 4, 5, 8)


def _draw(colour: str, pattern: str, shape: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a shape at a random place, size and angle, with noise, on a light background."""
    half = _SIDE / 2
    y, x = np.mgrid[:_SIDE, :_SIDE] - half - rng.uniform(-4, 4, (2, 1, 1))
    angle = np.arctan2(y, x) + rng.uniform(0, 2 * np.pi)
    inside = np.hypot(x, y) < half * rng.uniform(0.6, 0.8) * _OUTLINES[shape](angle)
    if pattern == "striped":
        painted = np.sin((x + y) * 0.9) > 0
    elif pattern == "dotted":
        painted = np.cos(x * 0.9) + np.cos(y * 0.9) < 0.7
    else:
        painted = np.ones_like(inside)
    image = np.full((_SIDE, _SIDE, 3), 244.0)
    paint = np.array(_COLOURS[colour]) + rng.normal(0, 12, 3)
    image[inside] = np.where(painted[inside, None], paint, 0.35 * paint + 150)
    return np.clip(image + rng.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def _measure(image: NDArray[np.uint8]) -> dict[str, float]:
    """Measure colour, size, outline and texture of the shape in a picture."""
    pixels = image / 255.0
    inside = pixels.min(axis=2) < 0.85
    y, x = np.nonzero(inside)
    angle, radius = np.arctan2(y - y.mean(), x - x.mean()), np.hypot(y - y.mean(), x - x.mean())
    # Outline: the largest radius in each of 72 directions.
    bins = ((angle + np.pi) / (2 * np.pi) * 72).astype(int) % 72
    outline = np.array([radius[bins == b].max(initial=0.0) for b in range(72)])
    waves = np.abs(np.fft.rfft(outline / max(outline.mean(), 1e-9))) / 72
    brightness = pixels.mean(axis=2)
    across = np.abs(np.diff(brightness, axis=1))[inside[:, 1:]].mean()
    diagonal = np.abs(brightness[1:, 1:] - brightness[:-1, :-1])[inside[1:, 1:]].mean()
    anti = np.abs(brightness[1:, :-1] - brightness[:-1, 1:])[inside[1:, :-1]].mean()
    means = dict(zip(("red", "green", "blue"), pixels[inside].mean(axis=0), strict=True))
    return {
        **{f"mean_{name}": float(value) for name, value in means.items()},
        "area_px": float(inside.sum()),
        "brightness_std": float(brightness[inside].std()),
        "step_across": float(across),
        "step_diagonal": float(diagonal),
        "step_antidiagonal": float(anti),
        **{f"outline_wave_{k}": float(waves[k]) for k in _HARMONICS},
    }


def _signatures() -> pd.DataFrame:
    """Describe each class by its colour, pattern and shape."""
    columns = [*_COLOURS, *_PATTERNS, *_OUTLINES]
    rows = {" ".join(parts): [int(name in parts) for name in columns] for parts in _CLASSES}
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("class")


@checks_arguments({"kind": [StrOptions({"table", "pictures"})], "folder": [str, os.PathLike]})
def write_example(kind: str, folder: str | os.PathLike[str]) -> list[Path]:
    """Write example data into a folder: a table of measurements, or pictures.

    The samples are coloured shapes of 75 classes ("red striped star"), described in ``classes.csv``
    by colour, pattern and shape. Fifteen classes have no training samples; the new samples cover
    all classes.

    Parameters
    ----------
    kind : {"table", "pictures"}
        "table" writes ``shapes.csv`` and ``new.csv``, whose column "class" is the label; "pictures"
        writes one folder of pictures per class into ``pictures`` and ``new-pictures``, and needs
        the extra ``images`` or ``plot``.
    folder : path
        Where to write. Existing files of the same name are replaced.

    Returns
    -------
    list of Path
        The files and folders that were written.

    Examples
    --------
    >>> import tempfile
    >>> from zslearn.datasets import write_example
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_example("table", folder)]
    ['classes.csv', 'shapes.csv', 'new.csv']
    """
    if kind == "pictures":
        import_optional("PIL", "Writing pictures")
    target, rng = Path(folder), np.random.default_rng(0)
    target.mkdir(parents=True, exist_ok=True)
    unseen = set(rng.choice(len(_CLASSES), len(_CLASSES) // 5, replace=False).tolist())
    parts: dict[str, list[tuple[str, NDArray[np.uint8]]]] = {"train": [], "new": []}
    for position, parts_of_class in enumerate(_CLASSES):
        name = " ".join(parts_of_class)
        n_train = 0 if position in unseen else _N_TRAIN
        parts["train"] += [(name, _draw(*parts_of_class, rng)) for _ in range(n_train)]
        parts["new"] += [(name, _draw(*parts_of_class, rng)) for _ in range(_N_NEW)]
    classes = target / "classes.csv"
    with atomic_write(classes) as temporary:
        _signatures().to_csv(temporary)
    if kind == "table":
        files = {"train": target / "shapes.csv", "new": target / "new.csv"}
        for part, file in files.items():
            rows = [{**_measure(image), "class": name} for name, image in parts[part]]
            with atomic_write(file) as temporary:
                pd.DataFrame(rows).round(4).to_csv(temporary, index=False)
    else:
        from PIL import Image

        files = {"train": target / "pictures", "new": target / "new-pictures"}
        for part, file in files.items():
            for number, (name, image) in enumerate(parts[part]):
                (file / name).mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(file / name / f"{number:03d}.png")
    return [classes, *files.values()]
