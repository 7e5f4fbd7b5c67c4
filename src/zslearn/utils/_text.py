"""Words for messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def name_some(labels: Iterable[Any], limit: int = 5) -> str:
    """Write up to `limit` labels, and how many more there are."""
    names = [repr(label.item() if isinstance(label, np.generic) else label) for label in labels]
    shown = ", ".join(names[:limit])
    more = len(names) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def plain(text: object, length: int | None = None, *, lines: bool = False) -> str:
    r"""Write text from elsewhere so that it cannot steer the terminal that shows it.

    Parameters
    ----------
    text : object
        What to show: text, or what has a text, such as a path or an error.
    length : int, optional
        What is longer is cut.
    lines : bool, default=False
        Whether ends of line and tabs stay.

    Returns
    -------
    str
        The text; each character that is not printable is written as an escape.

    Examples
    --------
    >>> from zslearn.utils import plain
    >>> print(plain("red: \x1b[31m"))
    red: \x1b[31m
    """
    whole = str(text)
    kept = "\n\t" if lines else ""
    shown = "".join(
        letter
        if letter.isprintable() or letter in kept
        else letter.encode("unicode_escape").decode("ascii")
        for letter in whole[:length]
    )
    return shown if length is None or len(whole) <= length else f"{shown}…"
