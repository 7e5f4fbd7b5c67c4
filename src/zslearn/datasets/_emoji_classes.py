"""Which emoji are classes, what they are called, and where their drawings are."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.datasets._emoji_packages import STYLES, WORDS_FOLDER, main_file
from zslearn.datasets._limits import reason
from zslearn.utils import did_you_mean, plain

#: Groups of emoji, as emojibase numbers them, without people, skin tones and hair, and flags.
GROUPS = {
    0: "smileys and emotion",
    3: "animals and nature",
    4: "food and drink",
    5: "travel and places",
    6: "activities",
    7: "objects",
    8: "symbols",
}
#: A digit and this character are a key; the picture is the digit.
_KEYCAP = "20E3"
_MAX_JSON = 1 << 28  # bytes; the largest file has 104 MB
_MAX_ICONS = 50_000
_MAX_ALIASES = 8  # that lead to each other
_MAX_WORD, _MAX_WORDS = 200, 200


@dataclass(frozen=True)
class Emoji:
    """A class.

    Parameters
    ----------
    label : str
        Its name in English.
    character : str
        The emoji itself.
    hexcode : str
        Its code points.
    group : int
        A key of `GROUPS`.
    icon : str
        Its name in the packages.
    """

    label: str
    character: str
    hexcode: str
    group: int
    icon: str


@dataclass(frozen=True)
class Drawing:
    """A drawing as a package has it: what is inside ``<svg>``, and the box it is drawn in."""

    body: str
    left: float
    top: float
    width: float
    height: float


class Icons:
    """The drawings of one style.

    Parameters
    ----------
    path : Path
        The file ``icons.json``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path}: this is no set of icons.")
        self._content = content
        self._icons = self._mapping("icons")
        self._aliases = self._mapping("aliases")

    def _mapping(self, key: str) -> dict[str, Any]:
        found = self._content.get(key, {})
        if not isinstance(found, dict) or len(found) > _MAX_ICONS:
            raise ValueError(f"{self.path}: {key!r} is no mapping of at most {_MAX_ICONS} names.")
        return found

    def resolve(self, name: str) -> str | None:
        """The name of the drawing that a name leads to; None where there is none."""
        for _ in range(_MAX_ALIASES):
            if name in self._icons:
                return name
            alias = self._aliases.get(name)
            # A drawing that is turned or mirrored is one of something else.
            if not isinstance(alias, dict) or alias.keys() != {"parent"}:
                return None
            name = alias["parent"]
            if not isinstance(name, str):
                return None
        return None

    def drawing(self, name: str) -> Drawing:
        """The drawing of a name that `resolve` found."""
        icon = self._icons[name]
        where = f"{self.path}: icon {plain(name, 80)!r}"
        if not isinstance(icon, dict) or not isinstance(icon.get("body"), str):
            raise ValueError(f"{where} has no drawing.")
        numbers = []
        for key, default in (("left", 0), ("top", 0), ("width", 16), ("height", 16)):
            value = icon.get(key, self._content.get(key, default))
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{where}: {key} is no number.")
            numbers.append(float(value))
        if not (all(abs(x) <= 4096 for x in numbers) and min(numbers[2:]) >= 1):
            raise ValueError(f"{where} is drawn in a box of impossible size.")
        return Drawing(icon["body"], *numbers)


def read_json(path: Path) -> Any:
    """Read a file of JSON from outside, within limits.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    object
        What is in it.

    Raises
    ------
    ValueError
        It is too large, or no JSON.
    """
    size = path.stat().st_size
    if size > _MAX_JSON:
        raise ValueError(f"{path} has {size} bytes; at most {_MAX_JSON} are read.")
    try:
        return json.loads(path.read_bytes())
    # Nesting without end, other bytes, and numbers of too many digits.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {reason(error)}. Fetch it again.") from None


def icon_name(label: str) -> str:
    """What packages call a drawing: its English name in plain small letters, with hyphens."""
    letters = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", letters).strip("-")


def _records(folder: Path, language: str) -> list[dict[str, Any]]:
    """What is said of each emoji in a language."""
    path = folder / WORDS_FOLDER / main_file(WORDS_FOLDER, language)
    content = read_json(path)
    wanted = {"label": str, "hexcode": str, "emoji": str}
    if not isinstance(content, list) or not all(
        isinstance(item, dict) and all(isinstance(item.get(k), t) for k, t in wanted.items())
        for item in content
    ):
        raise ValueError(f"{path}: this is no list of emoji.")
    return content


def emoji_classes(folder: Path, icons: dict[str, Icons]) -> list[Emoji]:
    """The emoji that every style draws, each as a picture of its own.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    icons : dict of str to Icons
        The drawings of each style.

    Returns
    -------
    list of Emoji
        In Unicode's order.

    Notes
    -----
    A class is an emoji (1) of the groups in `GROUPS`, (2) whose English name leads to a drawing in
    every style, (3) that is no digit on a key, and (4) whose drawing is that of no other emoji of
    (1) to (3) in any style: some packages lead "cricket", the insect, to the game.
    """
    named = _named(folder)
    drawn = [e for e in named if all(of.resolve(e.icon) is not None for of in icons.values())]
    shared = set()
    for of_style in icons.values():
        counts = Counter(of_style.resolve(emoji.icon) for emoji in drawn)
        shared |= {emoji for emoji in drawn if counts[of_style.resolve(emoji.icon)] > 1}
    return [emoji for emoji in drawn if emoji not in shared]


def _named(folder: Path) -> list[Emoji]:
    """All emoji of the groups, but for digits on keys."""
    named = []
    for item in _records(folder, "en"):
        if item.get("group") in GROUPS and _KEYCAP not in item["hexcode"].split("-"):
            # A folder cannot have every name everywhere.
            label = re.sub(r'[<>:"/\\|?*]', "", item["label"])
            name = icon_name(item["label"])
            named.append(Emoji(label, item["emoji"], item["hexcode"], item["group"], name))
    return named


def other_emoji(folder: Path, icons: dict[str, Icons]) -> dict[Emoji, list[str]]:
    """Emoji of the same groups that are no classes, and the styles that draw them by their name.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    icons : dict of str to Icons
        The drawings of each style.

    Returns
    -------
    dict of Emoji to list of str
        In Unicode's order.
    """
    classes = set(emoji_classes(folder, icons))
    found = {}
    for emoji in _named(folder):
        styles = [style for style, of in icons.items() if of.resolve(emoji.icon) == emoji.icon]
        if styles and emoji not in classes:
            found[emoji] = styles
    return found


def read_icons(folder: Path) -> dict[str, Icons]:
    """The drawings of every style."""
    return {style: Icons(folder / style / main_file(style)) for style in STYLES}


def languages(folder: Path) -> list[str]:
    """The languages that names and keywords are there in."""
    return sorted(p.parent.name for p in (folder / WORDS_FOLDER).glob("*/data.json"))


def emoji_texts(
    folder: Path, classes: list[Emoji], language: str = "en"
) -> dict[str, tuple[str, list[str]]]:
    """What a language calls each class.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    classes : list of Emoji
        The classes.
    language : str, default="en"
        One of :func:`languages`.

    Returns
    -------
    dict of str to (str, list of str)
        Label → its name and its keywords in that language.
    """
    known = languages(folder)
    if language not in known:
        raise ValueError(
            f"The emoji have no names in the language {language!r}; there are "
            f"{', '.join(known)}.{did_you_mean(language, known)}"
        )
    by_code = {item["hexcode"]: item for item in _records(folder, language)}
    found = {}
    for emoji in classes:
        item = by_code.get(emoji.hexcode)
        if item is None:
            raise ValueError(f"The language {language!r} has no name for {emoji.label!r}.")
        tags = item.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ValueError(f"The keywords of {emoji.label!r} in {language!r} are no words.")
        found[emoji.label] = (
            item["label"][:_MAX_WORD],
            [tag[:_MAX_WORD] for tag in tags[:_MAX_WORDS]],
        )
    return found


def class_groups(classes: list[Emoji]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The group of each class."""
    return np.array([emoji.group for emoji in classes], dtype=np.intp)
