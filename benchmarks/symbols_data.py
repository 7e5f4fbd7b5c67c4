"""Material Symbols as a data set: icons in six drawings and three weights, described by name.

A data set that had no part in any choice: methods, grids and defaults were as they are when it was
first measured, each method was run once, and nothing was changed afterwards. The rule, fixed before
any result:

- A class is an icon whose name is one or two English nouns (of WordNet, three letters or more),
  that has a category, and whose six drawings at weight 400 (outlined, rounded or sharp, filled or
  not) are six different files. Of names that share a drawing the first in the alphabet stays. Of
  these, 200 are drawn with a seed, 50 of them unseen.
- Pictures: the six drawings at weights 200, 400 and 700, black on white, 18 of each class. Of a
  seen class one of the six drawings, drawn with a seed, is for testing in all its weights; so no
  test picture has a near copy in another weight among those for training.
- Features: EfficientNet-Lite0, rounded to half precision. Signatures: the mean of two sentence
  vectors, of the name and of the category.

Packages come through npm (extras "emoji", "images" and "text"; Debian's wordnet-base); licence of
the icons: Apache 2.0. FOLDER is then a data set of `zslearn bench`:

    python benchmarks/symbols_data.py symbols --packages packages
    zslearn bench symbols --seeds 0 1 2 3 4 --out runs
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from zslearn.datasets._emoji_classes import Drawing
from zslearn.datasets._emoji_drawings import render
from zslearn.datasets._npm_packages import NpmPackage, find_package
from zslearn.features import load_backbone
from zslearn.signatures import WordNet, text_signatures
from zslearn.utils import progress_bar

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


def main() -> None:
    """Draw the icons, and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--packages", type=Path, help="where archives lie, or are put")
    options = parser.parse_args()
    archives = {
        weight: _archive(f"svg-{weight}", digest, options.packages)
        for weight, digest in WEIGHTS.items()
    }
    drawings = {weight: read_drawings(path) for weight, path in archives.items()}
    categories = read_categories(find_package(CATEGORIES, options.packages, fetch=True))
    names = choose(drawings, categories)
    write(options.folder, names, drawings, categories)


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


def choose(drawings: dict[int, dict[str, str]], categories: dict[str, str]) -> list[str]:
    """The icons that are classes, in the order in which chance drew them."""
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
    # By uniform numbers, whose stream NumPy has kept the same over its releases.
    order = np.argsort(np.random.Generator(np.random.PCG64(SEED)).random(len(fitting)))
    print(f"{len(fitting)} icons fit the rule; {N_CLASSES} are drawn.")
    return [fitting[position] for position in order[:N_CLASSES]]


def picture(text: str) -> Image.Image:
    """A drawing on white."""
    if not (found := _SVG.fullmatch(text)):
        raise ValueError(f"This is no drawing with a viewBox: {text[:80]!r}")
    return Image.fromarray(render(Drawing(found[2], *map(float, found[1].split()))))


def write(
    folder: Path,
    names: list[str],
    drawings: dict[int, dict[str, str]],
    categories: dict[str, str],
) -> None:
    """Features, labels with parts, and signatures."""
    network = load_backbone("efficientnet-lite0")
    tested = np.random.Generator(np.random.PCG64(SEED + 1)).random(len(names)) * len(DRAWINGS)
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
                test = position == int(tested[number])
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
