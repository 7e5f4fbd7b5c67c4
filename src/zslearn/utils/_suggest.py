"""Near misses: which known name was meant by one that is not known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from zslearn.utils._text import name_some

#: Names that are less alike than this are no near miss (difflib's ratio).
_ALIKE = 0.7


def normal_form(name: Any) -> str:
    """A form that is equal for names that look alike: case, spaces and Unicode form do not count.

    Parameters
    ----------
    name : object
        A name, or a label of any type.

    Returns
    -------
    str
        Composed letters in lower case; underscores, hyphens and runs of spaces are one space.

    Examples
    --------
    >>> from zslearn.utils import normal_form
    >>> normal_form(" Killer_Whale") == normal_form("killer whale")
    True
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(name)).casefold())
    # A name of nothing but such characters stays as it is.
    return " ".join(re.sub(r"[_\-\s]+", " ", folded).split()) or folded


def suggest(
    name: Any,
    known: Iterable[Any],
    *,
    limit: int = 3,
    key: Callable[[Any], str] = normal_form,
) -> list[Any]:
    """Known names that were perhaps meant by an unknown one, the likeliest first.

    Parameters
    ----------
    name : object
        What is not known.
    known : iterable
        What is.
    limit : int, default=3
        How many names at most.
    key : callable, default=normal_form
        Takes a name into the form that is compared.

    Returns
    -------
    list
        The names whose form is the same; without any, those whose form is similar.

    Examples
    --------
    >>> from zslearn.utils import suggest
    >>> suggest("demos", ["bench", "data", "demo"])
    ['demo']
    >>> suggest("Eight", ["eight", "eighty"])
    ['eight']
    """
    forms: dict[str, list[Any]] = {}
    for candidate in known:
        forms.setdefault(key(candidate), []).append(candidate)
    form = key(name)
    close = [form] if form in forms else get_close_matches(form, forms, limit, _ALIKE)
    return [candidate for match in close for candidate in forms[match]][:limit]


def did_you_mean(
    name: Any, known: Iterable[Any], *, key: Callable[[Any], str] = normal_form
) -> str:
    """A question that ends an error message, with a space in front; empty without a near miss.

    Parameters
    ----------
    name : object
        What is not known.
    known : iterable
        What is.
    key : callable, default=normal_form
        See :func:`suggest`.

    Returns
    -------
    str
        Such as " Did you mean 'demo'?".
    """
    names = suggest(name, known, key=key)
    if not names:
        return ""
    return f" Did you mean {' or '.join(_shown(found, name) for found in names)}?"


def name_near_misses(
    unknown: Iterable[Any], known: Iterable[Any], *, unknown_in: str, known_in: str
) -> str:
    """Say which unknown labels have a known one that differs in its spelling only.

    Parameters
    ----------
    unknown : iterable of labels
        Labels that were not found.
    known : iterable of labels
        Where they were looked for.
    unknown_in, known_in : str
        What the two are, in the words of the user.

    Returns
    -------
    str
        A sentence with a space in front, such as " signatures has 'eight', y has 'Eight'."; empty
        where no label is near.

    Examples
    --------
    >>> from zslearn.utils import name_near_misses
    >>> name_near_misses(["Eight"], ["eight", "nine"], unknown_in="y", known_in="signatures")
    " signatures has 'eight', y has 'Eight'."
    """
    known = list(known)
    pairs = [(label, suggest(label, known)) for label in list(unknown)[:50]]
    pairs = [(label, [k for k in near if _may_be_meant(label, k)]) for label, near in pairs]
    pairs = [(label, near) for label, near in pairs if near]
    if not pairs:
        return ""
    shown = [
        f"{known_in} has {_shown(near[0], label)}, {unknown_in} has {_shown(label, near[0])}"
        for label, near in pairs[:3]
    ]
    more = f"; and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    said = "; ".join(shown)
    if known_in.startswith("the "):
        said = said[0].upper() + said[1:]
    return f" {said}{more}."


def look_alikes(labels: Iterable[Any], known: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Labels that differ from a known one where nobody sees it: by spaces, case or Unicode form.

    Parameters
    ----------
    labels : iterable of labels
        Labels, none of which is known.
    known : iterable of labels
        The known ones. If some of them differ by case alone, case counts.

    Returns
    -------
    list of (label, known label)
        The pairs.
    """
    known = [label for label in known if isinstance(label, str)]
    composed = [_composed(label) for label in known]
    folded = [form.casefold() for form in composed]
    case_counts = len(set(folded)) < len(set(composed))
    by_form = dict(zip(composed if case_counts else folded, known, strict=True))
    pairs = []
    for label in labels:
        if isinstance(label, str):
            form = _composed(label) if case_counts else _composed(label).casefold()
            if form in by_form:
                pairs.append((label, by_form[form]))
    return pairs


def name_pairs(pairs: Iterable[tuple[Any, Any]], limit: int = 3) -> str:
    """Write up to `limit` pairs of labels so that one sees where they differ."""
    written = [f"{_shown(first, second)} and {_shown(second, first)}" for first, second in pairs]
    more = f"; and {len(written) - limit} more" if len(written) > limit else ""
    return "; ".join(written[:limit]) + more


def _composed(label: str) -> str:
    return " ".join(unicodedata.normalize("NFC", label).split())


def _may_be_meant(label: Any, known: Any) -> bool:
    """Labels that differ in their numbers are different: class 7 is no misspelt class 8."""
    numbers = re.compile(r"\d+")
    return numbers.findall(str(label)) == numbers.findall(str(known))


def _shown(label: Any, other: Any) -> str:
    """A label as Python writes it; in ASCII where it looks like the other one otherwise."""
    if isinstance(label, str) and isinstance(other, str):
        first, second = (unicodedata.normalize("NFC", text) for text in (label, other))
        if first.casefold() == second.casefold() and (first, second) != (label, other):
            return ascii(label)
    return name_some([label])
