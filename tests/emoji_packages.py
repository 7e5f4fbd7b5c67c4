"""Made-up packages of emoji, small enough to draw by hand."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from contextlib import contextmanager
from dataclasses import replace

from zslearn.datasets import _emoji as packages

COLORS = {"round": "#d03030", "square": "#3060d0", "thin": "#30a050"}
STYLES = tuple(COLORS)
#: English name, code point, group, keywords, German name.
EMOJI = [
    ("red apple", "1F34E", 4, ["fruit", "red"], "roter Apfel"),
    ("green pear", "1F350", 4, ["fruit", "green"], "grüne Birne"),
    ("ripe plum", "1FAD0", 4, ["fruit", "blue"], "reife Pflaume"),
    ("cut melon", "1F348", 4, ["fruit"], "Melone"),
    ("sour lemon", "1F34B", 4, ["fruit", "yellow"], "Zitrone"),
    ("smiling cat", "1F638", 0, ["cat", "smile"], "lachende Katze"),
    ("sad cat", "1F63F", 0, ["cat", "cry"], "weinende Katze"),
    ("grinning face", "1F600", 0, ["face", "smile"], "grinsendes Gesicht"),
    ("crying face", "1F622", 0, ["face", "cry"], "weinendes Gesicht"),
    ("cold face", "1F976", 0, [], "frierendes Gesicht"),
    ("keycap: 10", "1F51F", 8, ["ten"], "Taste: 10"),
    ("lion", "1F981", 3, ["animal"], "Löwe"),
    # What is no class: a digit on a key, a person, a flag, one without a group, one that a style
    # lacks, and a pair with one drawing.
    ("keycap: 1", "0031-FE0F-20E3", 8, ["one"], "Taste: 1"),
    ("baker", "1F468", 1, ["person"], "Bäcker"),
    ("flag: Chad", "1F1F9-1F1E9", 9, ["TD"], "Flagge: Tschad"),
    ("letter A", "1F1E6", None, ["A"], "Buchstabe A"),
    ("new thing", "1FAFF", 7, ["new"], "neues Ding"),
    ("cricket", "1F997", 3, ["insect"], "Grille"),
    ("cricket game", "1F3CF", 6, ["sport"], "Kricket"),
]
CLASSES = [
    *("red apple", "green pear", "ripe plum", "cut melon", "sour lemon", "smiling cat", "sad cat"),
    *("grinning face", "crying face", "cold face", "keycap 10", "lion"),
]


def body_of(number: int, style: str) -> str:
    """A simple drawing, another one for each emoji and style."""
    x, color = 4 + 2 * (number % 7), COLORS[style]
    shapes = {
        "round": f'<circle cx="16" cy="16" r="{x / 2 + 3}" fill="{color}"/>',
        "square": f'<rect x="4" y="{x}" width="{8 + number}" height="8" fill="{color}"/>',
        "thin": f'<path d="M4 {x}L28 {28 - x}" stroke="{color}" stroke-width="2"/>',
    }
    return f'<g>{shapes[style]}<circle cx="{x}" cy="8" r="3" fill="#20{number:02x}80"/></g>'


def icons_of(style: str) -> dict:
    """A file icons.json, as packages of Iconify have it."""
    names = [item[0].replace(":", "").replace(" ", "-").lower() for item in EMOJI]
    icons = {name: {"body": body_of(n, style)} for n, name in enumerate(names)}
    aliases = {}
    if style == "thin":
        del icons["new-thing"]
        icons["lion-face"] = icons.pop("lion")
        aliases = {"lion": {"parent": "lion-head"}, "lion-head": {"parent": "lion-face"}}
        del icons["cricket"]
        aliases["cricket"] = {"parent": "cricket-game"}
    return {"prefix": style, "icons": icons, "aliases": aliases, "width": 32, "height": 32}


def words_of(language: str) -> list[dict]:
    """A file data.json, as emojibase has it."""
    return [
        {
            "label": name if language == "en" else german,
            "hexcode": code,
            "emoji": "".join(chr(int(part, 16)) for part in code.split("-")),
            "tags": tags,
            **({} if group is None else {"group": group}),
        }
        for name, code, group, tags, german in EMOJI
    ]


def write_tarball(path, files, links=()):
    """Write an archive as npm pack does; names in `files` are below package/."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(f"package/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def set_package(folder, name, files, links=()):
    """Write the archive of one package, and make its checksum the expected one."""
    source = packages.sources()[name]
    expect(name, write_tarball(folder / source.package.file_name, files, links))


def expect(name, digest):
    """Let an archive have this checksum."""
    source = packages.sources()[name]
    changed = replace(source, package=replace(source.package, sha256=digest))
    if name == packages.WORDS_FOLDER:
        packages.WORDS = changed
    else:
        packages.STYLES[name] = changed


@contextmanager
def made_packages(folder):
    """Replace the packages of the data set by made-up ones, whose archives are in a folder."""
    styles, words = dict(packages.STYLES), packages.WORDS
    folder.mkdir()
    template = styles["noto"]
    try:
        packages.STYLES.clear()
        for style in STYLES:
            package = replace(template.package, name=f"@made-up/{style}", version="1.0.0")
            packages.STYLES[style] = replace(template, package=package)
            set_package(folder, style, {"icons.json": icons_of(style)})
        languages = {f"{language}/data.json": words_of(language) for language in ("en", "de")}
        set_package(folder, packages.WORDS_FOLDER, languages)
        yield folder
    finally:
        packages.STYLES.clear()
        packages.STYLES.update(styles)
        packages.WORDS = words
