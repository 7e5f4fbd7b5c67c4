"""The emoji data set: pictures in several styles, described by their names and keywords."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import secrets
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zslearn.images._backbones import Backbone

from numpy.typing import NDArray

from zslearn._utils._files import (
    DamagedCacheError,
    cache_folder,
    fingerprint,
    read_arrays,
    write_arrays,
)
from zslearn._utils._messages import did_you_mean, name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._utils._validation import checks_arguments
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._fetch import (
    RECORD,
    VERIFIED,
    ArchiveError,
    FetchError,
    Provenance,
    locked,
    remove_tree,
    unpack,
    unproved,
    write_record,
)
from zslearn.datasets._files import DATA_VARIABLE, data_home, reason
from zslearn.datasets._last_layers import NpmPackage, find_package
from zslearn.signatures._text import text_signatures

# The packages that emoji are drawn from: which ones, how they are fetched, where they lie.

FOLDER = "emoji"
#: The largest package unpacks to 105 MB.
_MAX_BYTES = 1 << 29
#: Seconds that npm may take for a package, and that another process is waited for.
_DEADLINE = 1800.0


@dataclass(frozen=True)
class Source:
    """A package, who made what is in it, and under which licence.

    Parameters
    ----------
    package : NpmPackage
        The package.
    author, licence : str
        Of what it holds.
    """

    package: NpmPackage
    author: str
    licence: str


def _style(name: str, version: str, sha256: str, author: str, licence: str) -> tuple[str, Source]:
    package = NpmPackage(f"@iconify-json/{name}", version, sha256, f"The emoji of {name}")
    return name, Source(package, author, licence)


#: The styles, in the order of the pictures of a class.
STYLES: dict[str, Source] = dict(
    [
        _style(
            "noto",
            "1.2.9",
            "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad",
            "Google",
            "Apache-2.0",
        ),
        _style(
            "noto-v1",
            "1.2.5",
            "2bf62c26c2c2884aa99e90aec942cdaee17a5921f05690694f4978ad4b017c37",
            "Google",
            "Apache-2.0",
        ),
        _style(
            "openmoji",
            "1.2.29",
            "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5",
            "OpenMoji",
            "CC-BY-SA-4.0",
        ),
        _style(
            "twemoji",
            "1.2.5",
            "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7",
            "Twitter",
            "CC-BY-4.0",
        ),
        _style(
            "fluent-emoji",
            "1.2.7",
            "8044210dbf11e016d4de85f15d01a243423bd832457e7e2491df1b751c0e272b",
            "Microsoft",
            "MIT",
        ),
        _style(
            "fluent-emoji-flat",
            "1.2.6",
            "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175",
            "Microsoft",
            "MIT",
        ),
        _style(
            "emojione",
            "1.2.3",
            "26a14f44284407e8bcde91799388dca2bfd91dbcd55a97f425524a1c5b73610e",
            "Emoji One (EmojiTwo)",
            "CC-BY-4.0",
        ),
    ]
)
WORDS_FOLDER = "emojibase"
#: Names, keywords and groups.
WORDS = Source(
    NpmPackage(
        "emojibase-data",
        "17.0.0",
        "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
        "Names and keywords of emoji",
    ),
    "Miles Johnson",
    "MIT",
)


def sources() -> dict[str, Source]:
    """All packages, by the name of their folder."""
    return {**STYLES, WORDS_FOLDER: WORDS}


def main_file(name: str, language: str = "en") -> Path:
    """The file of a package that is read, within its folder."""
    return Path(language, "data.json") if name == WORDS_FOLDER else Path("icons.json")


def fetch_emoji(
    folder: str | os.PathLike[str] | None = None,
    *,
    source: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Bring the packages that emoji are drawn from, unless they are there.

    Eight packages, 30 MB in all, come through the user's own npm. Each has a known version and
    checksum, and is unpacked whole or not at all; an interrupted call goes on with the next
    package. Nothing in them is run.

    Parameters
    ----------
    folder : path, optional
        Where they go, into a folder ``emoji`` in it. By default the folder named by the environment
        variable ``ZSLEARN_DATA``, else the user's data folder.
    source : path, optional
        A folder with the archives, as ``npm pack`` makes them; then npm is not asked.
    say : callable, optional
        Called with a few words on what is being done.

    Returns
    -------
    Path
        The folder ``emoji``.

    Raises
    ------
    FileNotFoundError
        npm is not installed, or `source` lacks an archive; the message says what to do.
    ValueError
        An archive is not the expected one, or must not be unpacked.
    OSError
        npm could not fetch a package, or the folder cannot be written.

    See Also
    --------
    load_emoji : Loads what was fetched.
    """
    place = data_home(folder) / FOLDER
    tell = say or _silent
    if source is not None and not Path(source).expanduser().is_dir():
        raise FileNotFoundError(f"There is no folder {source} to take the packages of emoji from.")
    place.mkdir(parents=True, exist_ok=True)

    def waiting() -> None:
        tell("another process is fetching emoji; waiting for it")

    try:
        with locked(place / ".lock", limit=_DEADLINE, waiting=waiting):
            for name, origin in sources().items():
                if (place / name / main_file(name)).is_file():
                    tell(f"already there: {place / name}")
                else:
                    _bring(origin.package, place / name, source, tell)
    except TimeoutError as error:
        raise FetchError(f"Could not fetch emoji: {error}. Run it again later.") from error
    return place


def _silent(text: str) -> None:
    """Say nothing."""


def _bring(
    package: NpmPackage,
    target: Path,
    source: str | os.PathLike[str] | None,
    say: Callable[[str], None],
) -> None:
    """Find or fetch the archive of a package, and unpack it."""
    # `find_package` compares the checksum.
    if source is None:
        say(f"asking npm for {package.name} {package.version}")
        path = find_package(package, target.parent, fetch=True, timeout=_DEADLINE)
    else:
        path = find_package(package, source)
    if target.exists() or target.is_symlink():
        raise FetchError(f"{target} is there, but without its files; move it away.")
    say(f"unpacking to {target}")
    origin = str(path) if source is not None else f"npm: {package.name} {package.version}"
    record = Provenance(origin, package.sha256, path.stat().st_size, VERIFIED)
    unpack(
        path,
        target,
        max_bytes=_MAX_BYTES,
        finish=lambda unpacked: _finish(unpacked, package, target.name, record),
    )
    if source is None:
        path.unlink(missing_ok=True)


def _finish(unpacked: Path, package: NpmPackage, name: str, record: Provenance) -> None:
    """Say where a folder came from, if it holds what is needed."""
    needed = main_file(name)
    if not (unpacked / needed).is_file():
        raise ArchiveError(f"{package.file_name}: it has no {needed.as_posix()}.")
    write_record(unpacked / RECORD, record)


def find_emoji(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the packages, if none is missing."""
    home = data_home(folder)
    place = home if (home / WORDS_FOLDER).is_dir() else home / FOLDER
    missing = [name for name in sources() if not (place / name / main_file(name)).is_file()]
    if missing:
        raise FileNotFoundError(
            f"The emoji need {len(sources())} packages; {place} lacks {name_some(missing, 8)}. Get "
            "them with: zslearn data fetch emoji  (npm is asked; --from FOLDER takes archives that "
            f"you brought). Another folder can be named by {DATA_VARIABLE}."
        )
    return place


# Which emoji are classes, what they are called, and where their drawings are.

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
    """Read a file of JSON from outside, within limits."""
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
    """The emoji that every style draws, each as a picture of its own."""
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
    """Emoji of the same groups that are no classes, and the styles that draw them by their name."""
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
    """What a language calls each class."""
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


# From a drawing to a picture. Drawings come from outside: what could do harm is refused.
#
# The renderer would follow ``<image href="…">`` to any file that it can read, and it repeats
# what is
# referred to as often as it is referred to. So only shapes, gradients, masks and simple filters
# are
# let through, which refer to each other within the drawing, and what they unfold to is counted.

#: Side of a picture in pixels, and of the square in its middle that is drawn into. Networks cut the
#: border away: they look at 7/8 of a picture.
SIDE, INNER = 128, 112
_SVG = "http://www.w3.org/2000/svg"
_SHAPES = ("path", "circle", "ellipse", "rect", "line", "polyline", "polygon")
_PARTS = ("svg", "g", "defs", "use", "clipPath", "mask", "title", "desc")
_PAINTS = ("linearGradient", "radialGradient", "stop")
_FILTERS = ("feBlend", "feColorMatrix", "feComposite", "feFlood", "feGaussianBlur", "feOffset")
_ELEMENTS = frozenset((*_SHAPES, *_PARTS, *_PAINTS, "filter", *_FILTERS))
_MAX_BODY = 1 << 20  # characters; the longest has 173,000
_MAX_ELEMENTS, _MAX_DEPTH = 10_000, 32
#: How many elements there may be once every reference is replaced by what it refers to.
_MAX_UNFOLDED = 200_000
_MAX_NUMBER = 1e5
_REFERENCE = re.compile(r"url\(\s*['\"]?([^)'\"]*)", re.IGNORECASE)


class DrawingError(ValueError):
    """A drawing is damaged, or holds what is not rendered."""


def checked_svg(drawing: Drawing) -> str:
    """A drawing as a document that refers to nothing outside of it."""
    body = drawing.body
    if len(body) > _MAX_BODY:
        raise DrawingError(f"it has {len(body)} characters; at most {_MAX_BODY} are read")
    if "<!" in body or "<?" in body:
        raise DrawingError("it holds declarations, comments or instructions")
    box = f"{drawing.left:g} {drawing.top:g} {drawing.width:g} {drawing.height:g}"
    text = (
        f'<svg xmlns="{_SVG}" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{INNER}" height="{INNER}" viewBox="{box}">{body}</svg>'
    )
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise DrawingError(f"it is no XML ({plain(error, 100)})") from None
    _check_elements(root)
    return text


def _check_elements(root: ElementTree.Element) -> None:
    """Look at every element, from the outside in."""
    elements: list[ElementTree.Element] = []
    level = [root]
    for _ in range(_MAX_DEPTH):
        elements += level
        level = [child for element in level for child in element]
    if level or len(elements) > _MAX_ELEMENTS:
        raise DrawingError("it is too deep, or has too many elements")
    references = {}
    for element in elements:
        name = element.tag.removeprefix(f"{{{_SVG}}}")
        if name not in _ELEMENTS:
            raise DrawingError(f"it holds an element {plain(element.tag, 80)!r}")
        references[element] = _references(element)
    _check_unfolded(elements, references)


def _references(element: ElementTree.Element) -> list[str]:
    """Which elements of the drawing an element refers to; others are refused."""
    found = []
    for key, value in element.attrib.items():
        # A backslash hides letters in a style.
        if "\\" in value or "@" in value:
            raise DrawingError(f"its {plain(key, 40)!r} holds signs that hide what it says")
        targets = _REFERENCE.findall(value)
        if key.rpartition("}")[2].lower() == "href":
            targets.append(value)
        for target in targets:
            if not target.strip().startswith("#"):
                raise DrawingError(f"it refers to {plain(target, 80)!r}, outside of the drawing")
            found.append(target.strip()[1:])
        if key == "stdDeviation" and any(abs(x) > _MAX_NUMBER for x in _numbers(value)):
            raise DrawingError("it blurs over an impossible distance")
    return found


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise DrawingError(f"{plain(text, 40)!r} are no numbers") from None


def _check_unfolded(
    elements: list[ElementTree.Element], references: dict[ElementTree.Element, list[str]]
) -> None:
    """Count the elements that are left when references are replaced, and refuse circles."""
    by_id = {element.get("id"): element for element in elements if element.get("id")}
    sizes: dict[ElementTree.Element, int] = {}
    open_now: set[ElementTree.Element] = set()

    def size(element: ElementTree.Element) -> int:
        if element in sizes:
            return sizes[element]
        if element in open_now or len(open_now) > 4 * _MAX_DEPTH:
            raise DrawingError("its parts refer to each other in a circle, or too often")
        open_now.add(element)
        total = 1 + sum(size(child) for child in element)
        for target in references[element]:
            if target in by_id:
                total += size(by_id[target])
        open_now.discard(element)
        if total > _MAX_UNFOLDED:
            raise DrawingError(f"it unfolds to more than {_MAX_UNFOLDED} elements")
        sizes[element] = total
        return total

    size(elements[0])


def render(drawing: Drawing) -> NDArray[np.uint8]:
    """Draw on white.

    Parameters
    ----------
    drawing : Drawing
        What a package holds.

    Returns
    -------
    ndarray of uint8 of shape (128, 128, 3)
        The drawing within the inner 112 × 112 pixels.

    Raises
    ------
    DrawingError
        The drawing is refused, or cannot be rendered.
    """
    renderer = import_optional("resvg_py", "Drawing emoji")
    image = import_optional("PIL.Image", "Drawing emoji")
    text = checked_svg(drawing)
    try:
        # Without fonts of the system: no text is let through.
        data = bytes(renderer.svg_to_bytes(svg_string=text, skip_system_fonts=True))
    except ValueError as error:
        raise DrawingError(f"it cannot be rendered ({plain(error, 100)})") from None
    with image.open(io.BytesIO(data), formats=["PNG"]) as opened:
        drawn = opened.convert("RGBA")
    if drawn.size != (INNER, INNER):
        raise DrawingError(f"it came out with {drawn.size} pixels")
    page = image.new("RGBA", (SIDE, SIDE), "white")
    border = (SIDE - INNER) // 2
    page.alpha_composite(drawn, (border, border))
    return np.asarray(page.convert("RGB"))


def renderer_version() -> str:
    """What decides the pixels of a drawing, beside the drawing."""
    renderer: Any = import_optional("resvg_py", "Drawing emoji")
    return f"resvg-{getattr(renderer, '__resvg_version__', renderer.__version__)}"


# The pictures of emoji and their features: made once, then kept.

#: Raise it whenever a class, a picture, a feature, a signature or a split changes.
VERSION = "emoji-1"
_BATCH = 8  # pictures that go through a network at once


@dataclass(frozen=True)
class Catalogue:
    """The classes, and digests of the files that they were read from.

    Parameters
    ----------
    folder : Path
        The folder of the packages.
    cache : Path
        Where pictures and features are kept.
    digests : dict of str to str
        SHA-256 of the file of each style.
    classes : list of Emoji
        The classes.
    """

    folder: Path
    cache: Path
    digests: dict[str, str]
    classes: list[Emoji]


def read_catalogue(folder: Path, cache: Path) -> Catalogue:
    """Find the classes, or read which they are from the cache."""
    digests = {name: _digest(folder / name / main_file(name)) for name in sources()}
    fields = ("label", "character", "hexcode", "group", "icon")

    def find() -> dict[str, NDArray[Any]]:
        classes = emoji_classes(folder, read_icons(folder))
        if not classes:
            raise ValueError(f"{folder}: there is no emoji that every style draws.")
        return {
            field: np.array(column)
            for field, column in zip(fields, zip(*map(astuple, classes), strict=True), strict=True)
        }

    def fits(arrays: dict[str, NDArray[Any]]) -> bool:
        return set(arrays) == set(fields) and len({a.shape for a in arrays.values()}) == 1

    path = cache / f"{VERSION}_classes-{fingerprint(digests)[:16]}.npz"
    columns = _kept(path, find, fits)
    rows = zip(*(columns[field].tolist() for field in fields), strict=True)
    return Catalogue(folder, cache, digests, [Emoji(*row) for row in rows])


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _kept(
    path: Path,
    make: Callable[[], dict[str, NDArray[Any]]],
    fits: Callable[[dict[str, NDArray[Any]]], bool],
) -> dict[str, NDArray[Any]]:
    """Arrays of the cache, or made and put there; damage and a full disk are no reason to fail."""
    try:
        arrays = read_arrays(path)
        if fits(arrays):
            return arrays
        raise DamagedCacheError("it holds other arrays")
    except FileNotFoundError:
        pass
    except DamagedCacheError as error:
        warn_user(f"The cached emoji in {path} cannot be used ({error}); they are made again.")
    arrays = make()
    try:
        write_arrays(path, arrays)
    except OSError as error:
        warn_user(
            f"The emoji were made but not kept in {path.parent} ({error}). Name a folder that can "
            "be written by the environment variable ZSLEARN_CACHE."
        )
    return arrays


def _picture_key(catalogue: Catalogue, style: str) -> str:
    """What decides the pictures of a style."""
    icons = [emoji.icon for emoji in catalogue.classes]
    digest = catalogue.digests[style]
    return fingerprint(VERSION, SIDE, INNER, renderer_version(), digest, icons)[:16]


def load_pictures(catalogue: Catalogue, *, progress: bool = False) -> NDArray[np.uint8]:
    """All pictures, rendered style by style where they are not kept yet."""
    n_classes = len(catalogue.classes)
    shape = (n_classes, SIDE, SIDE, 3)
    pictures = np.empty((n_classes, len(STYLES), SIDE, SIDE, 3), dtype=np.uint8)
    with progress_bar(progress, n_classes * len(STYLES), "Drawing emoji", unit="pictures") as step:
        for position, style in enumerate(STYLES):
            drawn = 0

            def draw(style: str = style) -> dict[str, NDArray[Any]]:
                nonlocal drawn
                icons = Icons(catalogue.folder / style / main_file(style))
                images = np.empty(shape, dtype=np.uint8)
                for row, emoji in enumerate(catalogue.classes):
                    images[row] = draw_emoji(icons, emoji)
                    drawn += 1
                    step(1)
                return {"images": images}

            name = f"{VERSION}_{style}_{_picture_key(catalogue, style)}.npz"
            found = _kept(catalogue.cache / name, draw, lambda a: _is(a, "images", shape, np.uint8))
            pictures[:, position] = found["images"]
            step(n_classes - drawn)
    return pictures


def _is(arrays: dict[str, NDArray[Any]], key: str, shape: tuple[int, ...], dtype: Any) -> bool:
    found = arrays.get(key)
    return found is not None and found.shape == shape and found.dtype == dtype


def draw_emoji(icons: Icons, emoji: Emoji) -> NDArray[np.uint8]:
    """The picture of an emoji in one style; an error names the file and the icon."""
    name = icons.resolve(emoji.icon)
    if name is None:
        raise ValueError(f"{icons.path} has no drawing of {emoji.label!r}.")
    try:
        return render(icons.drawing(name))
    except DrawingError as error:
        raise ValueError(f"{icons.path}: icon {plain(name, 80)!r} is refused: {error}.") from error


def load_picture_features(
    catalogue: Catalogue,
    pictures: NDArray[np.uint8],
    backbone: Backbone,
    *,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Features of all pictures, computed style by style where they are not kept yet."""
    image = import_optional("PIL.Image", "Computing features")
    n_classes = len(catalogue.classes)
    shape = (n_classes, backbone.n_features)
    features = np.empty((n_classes, len(STYLES), backbone.n_features), dtype=np.float32)
    title = re.sub("[^a-z0-9-]+", "-", backbone.name.lower())[:40]
    with progress_bar(progress, n_classes * len(STYLES), "Features", unit="pictures") as step:
        for position, style in enumerate(STYLES):
            computed = 0

            def compute(position: int = position) -> dict[str, NDArray[Any]]:
                nonlocal computed
                blocks = []
                for start in range(0, n_classes, _BATCH):
                    some = pictures[start : start + _BATCH, position]
                    blocks.append(backbone.features(image.fromarray(pixels) for pixels in some))
                    computed += len(some)
                    step(len(some))
                return {"features": np.concatenate(blocks)}

            key = fingerprint(_picture_key(catalogue, style), backbone.about)[:16]
            found = _kept(
                catalogue.cache / f"{VERSION}_{style}_{title}_{key}.npz",
                compute,
                lambda a: _is(a, "features", shape, np.float32),
            )
            features[:, position] = found["features"]
            step(n_classes - computed)
    return features


UNSEEN_SHARE = 0.2  # of the classes of each group
_CLASS_SEED, _STYLE_SEED = 1, 2


@checks_arguments(
    {
        "split": [str],
        "folder": [str, os.PathLike, None],
        "cache": [str, os.PathLike, None],
        "backbone": [str],
        "language": [str],
        "encoder": [str, os.PathLike, callable, None],
        "progress": ["boolean"],
    }
)
def load_emoji(
    split: str = "ns",
    *,
    folder: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    backbone: str = "efficientnet-lite0",
    language: str = "en",
    encoder: object = None,
    progress: bool = False,
) -> ZeroShotDataset:
    """Load the emoji data set: 944 classes in seven styles, described by names and keywords.

    The drawings come from packages of npm, which :func:`fetch_emoji` or ``zslearn data fetch
    emoji`` brings; they are rendered on white at 128 × 128 pixels. Their licences: noto and noto-v1
    (Google) Apache 2.0; openmoji CC BY-SA 4.0; twemoji (Twitter) CC BY 4.0; fluent-emoji and
    fluent-emoji-flat (Microsoft) MIT; emojione (EmojiTwo) CC BY 4.0; names and keywords of
    emojibase-data MIT.

    A class is labelled by its English name. Classes are all emoji outside people, their parts, and
    flags, that each of the seven styles draws, but for digits on keys and for four emoji whose
    drawings are mixed up in some style. The features are those of a network, the signature is the
    mean of two sentence vectors, of the name and of the keywords.

    In every split a fifth of the classes of each group of emoji is unseen, always the same: 189 of
    944. In "ns" one style of each seen class, another from class to class, is for testing. In
    "style-NAME" one style is never trained on, and all test pictures are in this style: unseen
    classes in an unseen style.

    Parameters
    ----------
    split : str, default="ns"
        The active split: "ns", or "style-" and the name of a style, as "style-openmoji".
    folder : path, optional
        Where the packages lie; by default the folder named by the environment variable
        ``ZSLEARN_DATA``, else the user's data folder.
    cache : path, optional
        Where pictures (330 MB) and features (35 MB) are kept; by default the folder named by
        ``ZSLEARN_CACHE``, else the user's cache folder.
    backbone : str, default="efficientnet-lite0"
        The network; see :func:`zslearn.images.load_backbone`.
    language : str, default="en"
        The language of names and keywords: "de", "fr", "ja" and others, 28 in all.
    encoder : str, path, callable or None, default=None
        The sentence encoder; see :func:`zslearn.signatures.encode_text`.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ZeroShotDataset
        With all splits, the pictures, and float32 features; the seven pictures of a class lie
        together.

    Raises
    ------
    FileNotFoundError
        The packages are not there; the message says how to get them.
    ImportError
        An optional package is missing: the extras are "emoji", "images" and "text".
    ValueError
        There is no such split or language, or a file is damaged, or a drawing holds what is not
        rendered, such as a reference to a file.

    See Also
    --------
    fetch_emoji : Brings the packages.
    save_emoji_images : Writes the pictures to folders.

    Notes
    -----
    At the first call pictures are rendered and features computed, some minutes on one core; both
    are kept style by style, so that an interrupted call goes on where it was. The names of the
    files in the cache hold a digest of the drawings, the renderer and the network.

    Examples
    --------
    >>> from zslearn.datasets import load_emoji
    >>> data = load_emoji()  # doctest: +SKIP
    >>> data.signatures.shape  # doctest: +SKIP
    (944, 512)
    """
    if split not in (known := ["ns", *(f"style-{style}" for style in STYLES)]):
        raise ValueError(
            f"emoji has no split {split!r}; choose one of {', '.join(known)}."
            f"{did_you_mean(split, known)}"
        )
    place = find_emoji(folder)
    catalogue = read_catalogue(place, cache_folder(cache))
    texts = emoji_descriptions(place, catalogue.classes, language)
    pictures = load_pictures(catalogue, progress=progress)
    from zslearn.images._backbones import load_backbone

    network = load_backbone(backbone)
    features = load_picture_features(catalogue, pictures, network, progress=progress)
    signatures = text_signatures(texts, encoder, progress=progress)  # type: ignore[arg-type]
    labels = np.array([emoji.label for emoji in catalogue.classes])
    return ZeroShotDataset(
        X=features.reshape(-1, features.shape[2]),
        y=np.repeat(labels, len(STYLES)),
        signatures=signatures,
        splits=emoji_splits(catalogue.classes, place),
        split=split,
        name="emoji",
        features=backbone,
        images=pictures.reshape(-1, *pictures.shape[2:]),
        semantic=f"name and keywords, {language}",
    )


def emoji_descriptions(folder: Path, classes: list[Emoji], language: str) -> dict[str, list[str]]:
    """The texts that describe each class: its name, and its keywords."""
    texts = emoji_texts(folder, classes, language)
    return {
        label: [name, ", ".join(keywords)] if keywords else [name]
        for label, (name, keywords) in texts.items()
    }


def _generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def unseen_emoji(classes: list[Emoji]) -> NDArray[np.bool_]:
    """Which classes are unseen: a fifth of each group, by chance."""
    groups = class_groups(classes)
    # By uniform numbers, whose stream NumPy has kept the same over its releases.
    draws = _generator(_CLASS_SEED).random(len(classes))
    is_unseen = np.zeros(len(classes), dtype=bool)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        chosen = members[np.argsort(draws[members])][: round(UNSEEN_SHARE * len(members))]
        is_unseen[chosen] = True
    return is_unseen


def emoji_splits(classes: list[Emoji], folder: Path) -> dict[str, ClassSplit]:
    """All splits: unseen classes, and unseen classes in each style as the unseen one."""
    labels = np.array([emoji.label for emoji in classes])
    unseen = unseen_emoji(classes)
    n_styles = len(STYLES)
    samples = np.arange(len(classes) * n_styles).reshape(-1, n_styles)
    styles = np.arange(n_styles)
    mark = unproved(*(folder / name for name in sources()))
    # Of each class, the style that is held out.
    varied = (_generator(_STYLE_SEED).random(len(classes)) * n_styles).astype(np.intp)
    held_out = {"ns": varied[:, None] == styles}
    for position, style in enumerate(STYLES):
        held_out[f"style-{style}"] = np.broadcast_to(styles == position, samples.shape)
    seen = ~unseen[:, None]
    return {
        name: ClassSplit(
            train=samples[seen & ~held],
            test_seen=samples[seen & held],
            # Of "ns" in all styles, else in the one that is held out.
            test_unseen=samples[~seen & (held | (name == "ns"))],
            seen_classes=labels[~unseen],
            unseen_classes=labels[unseen],
            version=f"{VERSION}/{name}{mark}",
        )
        for name, held in held_out.items()
    }


# The pictures of emoji as files in folders, for programs that begin with those.

PARTS = ("train", "test_seen", "test_unseen")


def save_emoji_images(
    target: str | os.PathLike[str],
    split: str = "ns",
    *,
    folder: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    language: str = "en",
    others: bool = False,
    progress: bool = False,
) -> Path:
    """Write the pictures of emoji to folders, with what describes the classes.

    Parameters
    ----------
    target : path
        The folder to make; it must not exist. It appears whole or not at all.
    split : str, default="ns"
        The split, as of :func:`load_emoji`.
    folder, cache, language
        As of :func:`load_emoji`.
    others : bool, default=False
        Whether to write pictures as well of emoji that are no classes, since not every style draws
        them, to a folder ``others``. The data set does not know them: a person may describe them.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    Path
        The folder. In it are ``train``, ``test_seen`` and ``test_unseen``, each with one folder per
        class, which holds one PNG file per style; ``classes.csv``, the texts of all classes;
        ``unseen.txt``, the classes that have no pictures in ``train``; and ``LICENSES.txt``.

    Raises
    ------
    FileExistsError
        There is something at `target`.

    See Also
    --------
    load_emoji : The same with features and signatures, as arrays.
    """
    image = import_optional("PIL.Image", "Writing pictures")
    path = Path(target).expanduser()
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already; name a new folder.")
    place = find_emoji(folder)
    catalogue = read_catalogue(place, cache_folder(cache))
    splits = emoji_splits(catalogue.classes, place)
    if split not in splits:
        raise ValueError(f"emoji has no split {split!r}; choose one of {', '.join(splits)}.")
    texts = emoji_descriptions(place, catalogue.classes, language)
    pictures = load_pictures(catalogue, progress=progress)
    chosen = splits[split]
    styles = list(STYLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        total = sum(getattr(chosen, part).size for part in PARTS)
        with progress_bar(progress, total, "Writing", unit="pictures") as step:
            for part in PARTS:
                for sample in getattr(chosen, part).tolist():
                    row, position = divmod(sample, len(styles))
                    home = temporary / part / catalogue.classes[row].label
                    home.mkdir(parents=True, exist_ok=True)
                    picture = image.fromarray(pictures[row, position])
                    picture.save(home / f"{styles[position]}.png")
                    step(1)
        if others:
            _write_others(temporary / "others", place, progress)
        _write_words(temporary, texts, chosen.unseen_classes.tolist())
        os.rename(temporary, path)
    finally:
        remove_tree(temporary)
    return path


def _write_others(target: Path, place: Path, progress: bool) -> None:
    """Draw what is no class, in the styles that have it."""
    image = import_optional("PIL.Image", "Writing pictures")
    icons = read_icons(place)
    found = other_emoji(place, icons)
    with progress_bar(progress, len(found), "Other emoji", unit="emoji") as step:
        for emoji, styles in found.items():
            home = target / emoji.label
            home.mkdir(parents=True)
            for style in styles:
                image.fromarray(draw_emoji(icons[style], emoji)).save(home / f"{style}.png")
            step(1)


def _write_words(folder: Path, texts: dict[str, list[str]], unseen: list[str]) -> None:
    """Write what is said of the classes, which are unseen, and whose drawings they are."""
    with open(folder / "classes.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["class", "text"])
        table.writerows((label, text) for label, found in texts.items() for text in found)
    (folder / "unseen.txt").write_text("\n".join([*unseen, ""]), encoding="utf-8")
    lines = [
        f"{name}: {source.package.name} {source.package.version}, {source.author}, {source.licence}"
        for name, source in sources().items()
    ]
    (folder / "LICENSES.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
