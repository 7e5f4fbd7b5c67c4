"""Material Symbols as a data set: icons in six drawings and three weights, described by name.

Data sets for testing: which icons, pictures and splits is fixed by a rule that was written down
before any result. Draw 0 was measured once with methods as they were then; its seen classes have
since served to develop methods, so that it is no fresh test any more. Further draws have other
icons (`--draw`). The rule:

- A class is an icon whose name is one or two English nouns (of WordNet, three letters or more),
  that has a category, and whose six drawings at weight 400 (outlined, rounded or sharp, filled or
  not) are six different files. Of names that share a drawing the first in the alphabet stays. A
  seed puts these in a random order: the first 200 are draw 0, the next 200 draw 1, and so on, so
  that no two draws share an icon. The first 50 of a draw are unseen. 622 icons make three draws.
- Pictures: the six drawings at weights 200, 400 and 700, black on white, 18 of each class. Of a
  seen class one of the six drawings, drawn with a seed, is for testing in all its weights; so no
  test picture has a near copy in another weight among those for training.
- Features: EfficientNet-Lite0, rounded to half precision. Signatures: the mean of two sentence
  vectors, of the name and of the category.

Packages come through npm; drawings are rendered by resvg (pip install resvg-py; extras "images" and
"text"; Debian's wordnet-base). Licence of the icons: Apache 2.0. FOLDER is then a
data set of `zslearn bench`:

    python benchmarks/symbols_data.py symbols --packages packages
    python benchmarks/symbols_data.py symbols1 --packages packages --draw 1
    zslearn bench symbols1 --seeds 0 1 2 3 4 --out runs
"""

from __future__ import annotations

import argparse
import io
import json
import re
import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import resvg_py
from numpy.typing import NDArray
from PIL import Image

from zslearn._utils._progress import progress_bar
from zslearn.datasets._last_layers import NpmPackage, find_package
from zslearn.images import load_backbone
from zslearn.signatures import WordNet, text_signatures

N_CLASSES, N_UNSEEN, SEED = 200, 50, 0
STYLES, FILLS = ("outlined", "rounded", "sharp"), ("", "-fill")
#: The six drawings of an icon at one weight.
DRAWINGS = list(product(STYLES, FILLS))
#: Weight → digest of its archive.
WEIGHTS = {
    200: "e6466d92481fa6d6c00ee0a66e8c8a29f7e4cea134941a1e8d6d81dfc9f016f0",
    400: "65892ec9a3c0eddb5599ee36c76461f0b1f4099e58260d0959a883680bc5da70",
    700: "ef99b2f87feff63fdd92723cc52b91156304ffc5a320f085e98c26465650eb91",
}
CATEGORIES = NpmPackage(
    "@iconify-json/material-symbols",
    "1.2.93",
    "7742b92d3aa6bcd93572de3ac306beebbfa0e13ca759511e6bc7eaffff0d1121",
    "Categories of Material Symbols",
)
_SVG = re.compile(r'<svg [^>]*viewBox="([-0-9. ]+)"[^>]*>(.*)</svg>\s*', re.DOTALL)
_LARGEST = 1 << 16  # bytes of a drawing
#: Side of a picture in pixels, and of its inner square: networks look at 7/8 of a picture.
_SIDE, _INNER = 128, 112


def main() -> None:
    """Draw the icons, and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--packages", type=Path, help="where archives lie, or are put")
    parser.add_argument(
        "--draw", type=int, default=0, help="which 200 icons: 0 (default), 1, 2; no two share any"
    )
    options = parser.parse_args()
    archives = {
        weight: _archive(f"svg-{weight}", digest, options.packages)
        for weight, digest in WEIGHTS.items()
    }
    drawings = {weight: read_drawings(path) for weight, path in archives.items()}
    categories = read_categories(find_package(CATEGORIES, options.packages, fetch=True))
    try:
        names = choose(drawings, categories, options.draw)
    except ValueError as error:
        parser.error(str(error))
    write(options.folder, names, drawings, categories, options.draw)


def _archive(name: str, digest: str, folder: Path | None) -> Path:
    package = NpmPackage(f"@material-symbols/{name}", "0.47.5", digest, f"Icons ({name})")
    return find_package(package, folder, fetch=True)


def _key(name: str, style: str, fill: str) -> str:
    return f"{style}/{name}{fill}.svg"


def read_drawings(archive: Path) -> dict[str, str]:
    """All drawings of a weight: "outlined/home-fill.svg" → its text."""
    found = {}
    with tarfile.open(archive) as files:
        for member in files:
            path = member.name.removeprefix("package/")
            if member.isfile() and path.endswith(".svg") and member.size <= _LARGEST:
                file = files.extractfile(member)
                found[path] = file.read().decode("utf-8") if file else ""
    return found


def read_categories(archive: Path) -> dict[str, str]:
    """The category of each icon."""
    with tarfile.open(archive) as files:
        file = files.extractfile("package/metadata.json")
        content = json.loads(file.read()) if file else {}
    return {
        name.replace("-", "_"): category
        for category, names in content["categories"].items()
        for name in names
    }


def fitting_icons(drawings: dict[int, dict[str, str]], categories: dict[str, str]) -> list[str]:
    """The icons that fit the rule, in alphabetical order."""
    wordnet = WordNet()
    nouns = {name.lower() for wnid in wordnet.wnids for name in wordnet.names(wnid)}
    taken: set[str] = set()
    fitting = []
    for path in sorted(drawings[400]):
        name = path.removeprefix("outlined/").removesuffix(".svg")
        words = name.split("_")
        keys = [_key(name, *drawing) for drawing in DRAWINGS]
        own = [drawings[400].get(key, "") for key in keys]
        if (
            path.startswith("outlined/")
            and len(words) <= 2
            and all(len(word) >= 3 and word in nouns for word in words)
            and name in categories
            and all(key in found for key in keys for found in drawings.values())
            and len(set(own)) == len(DRAWINGS)
            and taken.isdisjoint(own)
        ):
            fitting.append(name)
            taken.update(own)
    return fitting


def choose(
    drawings: dict[int, dict[str, str]], categories: dict[str, str], draw: int = 0
) -> list[str]:
    """The icons that are classes of a draw, in the order in which chance drew them."""
    fitting = fitting_icons(drawings, categories)
    n_draws = len(fitting) // N_CLASSES
    if not 0 <= draw < n_draws:
        raise ValueError(
            f"There is no draw {draw}: {len(fitting)} icons fit the rule, enough for {n_draws} "
            f"draws of {N_CLASSES}. Choose --draw from 0 to {n_draws - 1}."
        )
    # By uniform numbers, whose stream NumPy has kept the same over its releases.
    order = np.argsort(np.random.Generator(np.random.PCG64(SEED)).random(len(fitting)))
    print(f"{len(fitting)} icons fit the rule, enough for {n_draws} draws; this is draw {draw}.")
    return [fitting[position] for position in order[draw * N_CLASSES : (draw + 1) * N_CLASSES]]


def tested_drawings(draw: int) -> NDArray[np.int64]:
    """Which of the six drawings is for testing, for each class of a draw."""
    stream = np.random.Generator(np.random.PCG64(SEED + 1)).random((draw + 1) * N_CLASSES)
    return (stream[draw * N_CLASSES :] * len(DRAWINGS)).astype(np.int64)


def picture(text: str) -> Image.Image:
    """A drawing on white."""
    if not (found := _SVG.fullmatch(text)):
        raise ValueError(f"This is no drawing with a viewBox: {text[:80]!r}")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_INNER}" height="{_INNER}" '
        f'viewBox="{found[1]}">{found[2]}</svg>'
    )
    data = bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))
    page = Image.new("RGBA", (_SIDE, _SIDE), "white")
    with Image.open(io.BytesIO(data), formats=["PNG"]) as drawn:
        page.alpha_composite(drawn.convert("RGBA"), 2 * ((_SIDE - _INNER) // 2,))
    return page.convert("RGB")


def write(
    folder: Path,
    names: list[str],
    drawings: dict[int, dict[str, str]],
    categories: dict[str, str],
    draw: int = 0,
) -> None:
    """Features, labels with parts, and signatures."""
    network = load_backbone("efficientnet-lite0")
    tested = tested_drawings(draw)
    features: list[NDArray[np.float32]] = []
    rows = []
    with progress_bar(True, len(names), "Drawing", unit="icons") as step:
        for number, name in enumerate(names):
            each = list(product(enumerate(DRAWINGS), WEIGHTS))
            features.append(
                network.features(
                    [picture(drawings[weight][_key(name, *kind)]) for (_, kind), weight in each]
                )
            )
            for (position, _), _ in each:
                test = position == tested[number]
                seen = "test_seen" if test else "train"
                part = "test_unseen" if number < N_UNSEEN else seen
                rows.append({"label": name.replace("_", " "), "part": part})
            step(1)
    texts = {
        name.replace("_", " "): [name.replace("_", " "), categories[name]] for name in sorted(names)
    }
    folder.mkdir(parents=True, exist_ok=True)
    rounded = np.concatenate(features).astype(np.float16)
    np.save(folder / "features.npy", rounded.astype(np.float32))
    pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)
    signatures = text_signatures(texts).rename_axis("label")
    signatures.to_csv(folder / "signatures.csv", float_format="%.6g")


if __name__ == "__main__":
    main()
