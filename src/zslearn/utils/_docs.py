"""Parts of docstrings that many classes share, written once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

_LINE = re.compile(r"^(?P<indent> *)<(?P<name>[^<>\n]+)>$", re.M)


def fill_docstring(doc: str, parts: Mapping[str, str]) -> str:
    r"""Put shared parts in the place of the lines that name them.

    Parameters
    ----------
    doc : str
        A docstring. A line ``<name>`` stands for the part of that name.
    parts : mapping of str to str
        Parts by name. A line that names none of them stays.

    Returns
    -------
    str
        The docstring; parts are indented like the lines that they take the place of.

    Examples
    --------
    >>> from zslearn.utils import fill_docstring
    >>> parts = {"seed": "seed : int\n    Of chance."}
    >>> print(fill_docstring("What it takes:\n  <seed>", parts))
    What it takes:
      seed : int
          Of chance.
    """

    def part(match: re.Match[str]) -> str:
        text = parts.get(match["name"])
        if text is None:
            return match[0]
        return textwrap.indent(textwrap.dedent(text).strip("\n"), match["indent"])

    return _LINE.sub(part, doc)
