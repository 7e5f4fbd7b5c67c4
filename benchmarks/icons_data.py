"""Icons of many designers as a data set: unseen concepts, drawn by unseen designers.

This is a registration: rule, classes, splits, features, methods and measures were written down
before any method was run on these data. Whoever changes the rule afterwards says so here.

Source
    npm's @iconify/json 2.2.535, whose sets come with name, author and licence. A set takes part if
    it is listed and not hidden, has one colour, and is no set of logos, flags or emoji. Sets of
    Google are left out: Material Symbols served to develop methods of this library. A designer is
    the author of one or several sets. `licences.csv` names set, designer and licence (most are
    MIT, Apache 2.0, CC BY 4.0 or ISC); drawings are not passed on, only features of them.
Classes
    A concept is what is left of an icon's name without words of style and numbers at its ends
    ("home-24-filled" and "outline-home" are "home"): one to three words of two or more Latin
    letters. Of several icons of one set for one concept the one with the shortest name counts, of
    these the first in the alphabet. Classes are the concepts that 20 sets or more draw. Two
    concepts with the same drawing in two sets or more are one; the one that more sets draw stays.
    The rule gives 601 concepts from 156 sets of 118 designers.
Pictures
    Black on white, 128 × 128 pixels, some 19,700. What the renderer cannot draw, what is blank, and
    what is pixel by pixel a picture that came before (in the order of set names) is left out.
Splits
    A seed puts concepts in a random order, of which the first quarter is unseen, and designers
    likewise. Training: seen concepts by seen designers. test_unseen: unseen concepts by unseen
    designers. test_seen: seen concepts by unseen designers. Unseen concepts by seen designers are
    left out, so that no test picture has the hand of a designer in training. A concept without a
    picture in its part is left out.
Features
    EfficientNet-Lite0 of `zslearn.images`, rounded to half precision.
Signatures
    The mean of two vectors of the default sentence encoder: of the name, and of the three most
    frequent categories ("Weather, Nature, Travel") that sets of seen designers file the concept
    under; the name twice where none does.
Methods
    Every row of docs/research_notes/beyond.rst on icons: all methods of `zslearn bench` with grid
    "fast" and fold seeds 0 to 4, and the networks with the settings of CUB. Methods run as they are
    at that commit; none is changed in view of these results, and each is run once.
Measures
    Accuracy per class among unseen concepts (top 1, top 5), and with all concepts as candidates U,
    S, H without a factor, H calibrated and AUSUC. Mean and standard deviation over fold seeds; a
    95 % interval of accuracy over unseen concepts, which are the unit.

Added after the run
    Registered in commit 6f3c3c8, whose methods ran (`src` of that commit) on 2026-11-18, half an
    hour on 16 cores and a GPU, then on two cores: fold seed 0 of most methods, further seeds of
    some, five seeds of the networks; docs/research_notes/beyond.rst lists them. `zslearn bench`
    recorded hits
    among the first five per image alone at that commit; they were counted per class, too
    (`per_class_hits`).
    The rule gave 19,279 pictures: 11,058 train, 6,125 test_seen, 2,096 test_unseen.

The package comes through npm; drawings are rendered by resvg (pip install resvg-py==0.5.0; extras
"images" and "text"). FOLDER is then a data set of `zslearn bench`:

    python benchmarks/icons_data.py icons --packages packages
    zslearn bench icons --seeds 0 1 2 3 4 --out runs
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import tarfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import resvg_py
from numpy.typing import NDArray
from PIL import Image

from zslearn._utils._progress import progress_bar
from zslearn.datasets._last_layers import NpmPackage, find_package
from zslearn.images import load_backbone
from zslearn.signatures import text_signatures

PACKAGE = NpmPackage(
    "@iconify/json",
    "2.2.535",
    "1a545f86fa224d6531d8fb101dcbe83aac2b28689a21cbed6fc68318a5af4d91",
    "Icons of many designers",
)
MIN_SETS, UNSEEN_SHARE, SEED = 20, 0.25, 0
OTHER_KINDS = {"Logos", "Flags / Maps", "Emoji"}
LEFT_OUT = {"Google"}
#: Words at either end of a name that say how an icon is drawn, not what it shows.
STYLES = frozenset(
    {"outline", "outlined", "filled", "fill", "solid", "line", "linear", "bold", "thin", "light"}
    | {"duotone", "broken", "rounded", "round", "sharp", "twotone", "two", "tone", "regular"}
    | {"baseline", "alt", "o"}
)
_WORD = re.compile("[a-z]{2,}")
#: Side of a picture in pixels, and of its inner square: networks look at 7/8 of a picture.
_SIDE, _INNER = 128, 112
#: Pictures that go through the network at a time.
_BATCH = 64


@dataclass
class IconSet:
    """A set of icons: who drew it, under which licence, and a drawing per concept."""

    name: str
    designer: str
    licence: str
    url: str
    drawings: dict[str, str] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)


def main() -> None:
    """Draw the icons, and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--packages", type=Path, help="where the archive lies, or is put")
    options = parser.parse_args()
    sets = read_sets(find_package(PACKAGE, options.packages, fetch=True))
    concepts = choose(sets)
    seen_concepts, seen_designers = split(concepts, sets)
    write(options.folder, sets, concepts, seen_concepts, seen_designers)


def concept_of(name: str) -> str | None:
    """The object that an icon shows, from its name; None unless it has one to three words."""
    words = name.lower().split("-")
    for end in (-1, 0):
        while len(words) > 1 and (words[end] in STYLES or words[end].isdigit()):
            words.pop(end)
    is_concept = len(words) <= 3 and all(_WORD.fullmatch(word) for word in words)
    return " ".join(words) if is_concept else None


def read_sets(archive: Path) -> list[IconSet]:
    """The sets that take part, in the order of their names."""
    with tarfile.open(archive) as files:
        about = _member(files, "collections.json")
        found = []
        for name, said in sorted(about.items()):
            is_other = said.get("palette") or said.get("category") in OTHER_KINDS
            if said.get("hidden") or is_other or said["author"]["name"] in LEFT_OUT:
                continue
            licence = said["license"]
            one = IconSet(
                name, said["author"]["name"], licence.get("spdx") or licence["title"],
                licence.get("url") or "",
            )  # fmt: skip
            content = _member(files, f"json/{name}.json")
            one.categories = _categories(content)
            for icon in sorted(content["icons"], key=lambda icon: (len(icon), icon)):
                concept = concept_of(icon)
                if concept is not None and not content["icons"][icon].get("hidden"):
                    one.drawings.setdefault(concept, _svg(content, content["icons"][icon]))
            found.append(one)
    return found


def _member(files: tarfile.TarFile, name: str) -> Any:
    file = files.extractfile(f"package/{name}")
    return json.loads(file.read()) if file else {}


def _categories(content: dict[str, Any]) -> dict[str, list[str]]:
    """Concept → the categories that a set files it under."""
    found: dict[str, list[str]] = defaultdict(list)
    for category, icons in sorted(content.get("categories", {}).items()):
        for concept in sorted({concept_of(icon) for icon in icons} - {None}):
            found[str(concept)].append(category)
    return dict(found)


def _svg(content: dict[str, Any], icon: dict[str, Any]) -> str:
    """A drawing in black, in its own box."""
    default = {"left": 0, "top": 0, "width": 16, "height": 16}
    box = [icon.get(side, content.get(side, default[side])) for side in default]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{_INNER}" height="{_INNER}" color="black" '
        f'viewBox="{" ".join(map(str, box))}">{icon["body"]}</svg>'
    )


def choose(sets: list[IconSet]) -> list[str]:
    """The concepts that are classes, in alphabetical order."""
    counts = Counter(concept for one in sets for concept in one.drawings)
    often = {concept for concept, count in counts.items() if count >= MIN_SETS}
    shared: Counter[tuple[str, str]] = Counter()
    for one in sets:
        by_drawing: dict[str, list[str]] = defaultdict(list)
        for concept in sorted(often & one.drawings.keys()):
            by_drawing[one.drawings[concept]].append(concept)
        for group in by_drawing.values():
            shared.update((a, b) for i, a in enumerate(group) for b in group[i + 1 :])
    kept: list[str] = []
    for concept in sorted(often, key=lambda concept: (-counts[concept], concept)):
        if not any(shared[min(concept, k), max(concept, k)] >= 2 for k in kept):
            kept.append(concept)
    print(f"{len(sets)} sets; {len(often)} concepts in {MIN_SETS} or more, {len(kept)} distinct.")
    return sorted(kept)


def split(concepts: list[str], sets: list[IconSet]) -> tuple[set[str], set[str]]:
    """The seen concepts, and the seen designers."""
    # By uniform numbers, whose stream NumPy has kept the same over its releases.
    stream = np.random.Generator(np.random.PCG64(SEED))
    chosen = []
    for names in (concepts, sorted({one.designer for one in sets})):
        order = np.argsort(stream.random(len(names)))
        chosen.append({names[i] for i in order[int(len(names) * UNSEEN_SHARE) :]})
    return chosen[0], chosen[1]


def picture(svg: str) -> Image.Image | None:
    """A drawing on white; None where it cannot be drawn, or is blank."""
    try:
        data = bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of the renderer is no Exception
        return None
    page = Image.new("RGBA", (_SIDE, _SIDE), "white")
    with Image.open(io.BytesIO(data), formats=["PNG"]) as drawn:
        drawn = drawn.convert("RGBA")
        drawn.thumbnail((_INNER, _INNER))
        place = ((_SIDE - drawn.width) // 2, (_SIDE - drawn.height) // 2)
        page.alpha_composite(drawn, place)
    page = page.convert("RGB")
    return None if page.getextrema()[0][0] > 128 else page


def write(
    folder: Path,
    sets: list[IconSet],
    concepts: list[str],
    seen_concepts: set[str],
    seen_designers: set[str],
) -> None:
    """Features, labels with parts, signatures and licences."""
    network = load_backbone("efficientnet-lite0")
    rows: list[dict[str, str]] = []
    features: list[NDArray[np.float16]] = []
    waiting: list[Image.Image] = []
    known: set[str] = set()

    def compute() -> None:
        features.append(network.features(waiting).astype(np.float16))
        waiting.clear()

    with progress_bar(True, len(sets), "Drawing", unit="sets") as step:
        for one in sets:
            for concept in concepts:
                is_seen, by_seen = concept in seen_concepts, one.designer in seen_designers
                drawn = None
                if concept in one.drawings and (is_seen or not by_seen):
                    drawn = picture(one.drawings[concept])
                digest = "" if drawn is None else hashlib.sha256(drawn.tobytes()).hexdigest()
                if drawn is None or digest in known:
                    continue
                known.add(digest)
                part = "train" if by_seen else "test_seen" if is_seen else "test_unseen"
                rows.append({"label": concept, "part": part, "set": one.name})
                waiting.append(drawn)
                if len(waiting) == _BATCH:
                    compute()
            step(1)
    if waiting:
        compute()
    labels = pd.DataFrame(rows)
    has = labels.groupby("label")["part"].agg(set)
    whole = {c for c, parts in has.items() if parts & {"train", "test_unseen"}}
    keep = labels["label"].isin(whole).to_numpy()
    labels = labels[keep]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "features.npz", X=np.concatenate(features)[keep])
    labels[["label", "part"]].to_csv(folder / "labels.csv", index=False)
    texts = {c: describe(c, sets, seen_designers) for c in concepts if c in whole}
    signatures = text_signatures(texts).rename_axis("label")
    signatures.to_csv(folder / "signatures.csv", float_format="%.6g")
    used = labels["set"].value_counts()
    about = pd.DataFrame(
        [[s.name, s.designer, s.licence, s.url, used.get(s.name, 0)] for s in sets],
        columns=["set", "designer", "licence", "url", "pictures"],
    )
    about.to_csv(folder / "licences.csv", index=False)
    print(labels["part"].value_counts().to_string())
    print(labels.groupby("part")["label"].nunique().to_string())


def describe(concept: str, sets: list[IconSet], seen_designers: set[str]) -> list[str]:
    """The name of a concept, and where seen designers file it."""
    counts = Counter(
        category
        for one in sets
        if one.designer in seen_designers
        for category in one.categories.get(concept, [])
    )
    ranked = sorted(counts, key=lambda category: (-counts[category], category))
    return [concept, ", ".join(ranked[:3]) or concept]


if __name__ == "__main__":
    main()
