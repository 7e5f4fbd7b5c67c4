"""Names that nobody can tell apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any


def composed(name: str) -> str:
    """A name in the Unicode form in which people type: some systems name folders in another.

    Parameters
    ----------
    name : str
        The name of a class.

    Returns
    -------
    str
        In form NFC.
    """
    return unicodedata.normalize("NFC", name)


def refuse_twins(labels: Iterable[Any], where: str) -> None:
    r"""Refuse labels that are the same text in two Unicode forms, such as é and e + accent.

    Parameters
    ----------
    labels : iterable of labels
        Labels of any type; a label may occur more than once.
    where : str
        What holds them, for the error message.

    Raises
    ------
    ValueError
        Two labels have the same composed form; the message shows their code points.

    Examples
    --------
    >>> from zslearn.utils import refuse_twins
    >>> refuse_twins(["caf\u00e9", "cafe\u0301"], "y")
    Traceback (most recent call last):
    ...
    ValueError: y has names that look the same and differ in their code points: 'caf\xe9' and
    'cafe\u0301'. Write each name in one form, for example unicodedata.normalize('NFC', name).
    """
    names = dict.fromkeys(label for label in labels if isinstance(label, str))
    if all(name.isascii() for name in names):
        return
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        other = first.setdefault(composed(name), name)
        if other != name:
            pairs.append(f"{other!a} and {name!a}")
    if pairs:
        more = f"; and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        raise ValueError(
            f"{where} has names that look the same and differ in their code points: "
            f"{'; '.join(pairs[:3])}{more}. Write each name in one form, for example "
            "unicodedata.normalize('NFC', name)."
        )
