"""Texts of errors and warnings: names that were perhaps meant, text that is safe to print."""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from traceback import walk_stack
from typing import Any

import numpy as np


def composed(name: str) -> str:
    """A name in the Unicode form in which people type: some systems name folders in another."""
    return unicodedata.normalize("NFC", name)


#: Characters that are counted as printable and show nothing: fillers, blanks and selectors.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)

#: Joiners inside of words, which Persian and Indic scripts write with, and spaces without a break.
_JOINERS = re.compile("(?<=\\w)[\u200c\u200d](?=\\w)|(?<=\\S)[\u00a0\u202f](?=\\S)")


def name_fault(name: str) -> str:
    """Why text cannot be the name of a new class; empty where it can."""
    if not name.strip():
        return "is blank"
    if not _JOINERS.sub("", name).isprintable() or _UNSEEN.search(name):
        return "holds characters that cannot be seen; leave them out"
    return ""


def refuse_equal_labels(labels: Iterable[Any], where: str) -> None:
    r"""Refuse labels that are the same text in two Unicode forms, such as é and e + accent."""
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


def name_some(labels: Iterable[Any], limit: int = 5) -> str:
    """Write up to `limit` labels, and how many more there are."""
    names = [repr(label.item() if isinstance(label, np.generic) else label) for label in labels]
    shown = ", ".join(names[:limit])
    more = len(names) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def plain(text: object, length: int | None = None, *, lines: bool = False) -> str:
    r"""Write text from elsewhere so that it cannot steer the terminal that shows it."""
    whole = str(text)
    kept = "\n\t" if lines else ""
    shown = "".join(
        letter
        if letter.isprintable() or letter in kept
        else letter.encode("unicode_escape").decode("ascii")
        for letter in whole[:length]
    )
    return shown if length is None or len(whole) <= length else f"{shown}…"


# Near misses: which known name was meant by one that is not known.

#: Names with a smaller ratio of difflib are no near miss; of long ones the beginning counts.
_ALIKE, _LONGEST = 0.7, 200


def normal_form(name: Any) -> str:
    """A form that is equal for names that differ in case, spaces or Unicode form alone."""
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
    """Known names that were perhaps meant by an unknown one, the likeliest first."""
    forms: dict[str, list[Any]] = {}
    for candidate in known:
        forms.setdefault(key(candidate), []).append(candidate)
    # The time that a comparison takes grows with its length.
    form = key(name)[:_LONGEST]
    close = [form] if form in forms else get_close_matches(form, forms, limit, _ALIKE)
    return [candidate for match in close for candidate in forms[match]][:limit]


def did_you_mean(
    name: Any, known: Iterable[Any], *, key: Callable[[Any], str] = normal_form
) -> str:
    """A question that ends an error message, with a space in front; empty without a near miss."""
    names = suggest(name, known, key=key)
    if not names:
        return ""
    return f" Did you mean {' or '.join(_shown(found, name) for found in names)}?"


def name_near_misses(
    unknown: Iterable[Any], known: Iterable[Any], *, unknown_in: str, known_in: str
) -> str:
    """Say which unknown labels have a known one that differs in its spelling only."""
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
    """Labels that differ from a known one where nobody sees it: by spaces, case or Unicode form."""
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


# Warnings of the library.

#: Messages that were said in this process.
_SAID: set[str] = set()


class InputWarning(UserWarning):
    """What was given can be used, but something about it is odd: its text says what."""


_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)
_said_here: ContextVar[set[str] | None] = ContextVar("said_here", default=None)


@contextmanager
def no_user_warnings() -> Iterator[None]:
    """Have :func:`warn_user` say nothing, in this thread alone (filters are a whole process's)."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Have :func:`warn_user` say the same thing once, in this thread, until the outermost ends."""
    token = _said_here.set(set() if (said := _said_here.get()) is None else said)
    try:
        yield
    finally:
        _said_here.reset(token)


def warn_user(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn at the line of the user's code that called into the library."""
    said = _said_here.get()
    if _is_quiet.get() or (said is not None and message in said):
        return
    if said is not None:
        said.add(message)
    names = [frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe(1))]
    # The library may call itself through others, such as contextlib.
    level = max((i for i, name in enumerate(names) if _package(name) == "zslearn"), default=-1) + 1
    while level < len(names) - 1 and _package(names[level]) in ("sklearn", "joblib"):
        level += 1
    warnings.warn(plain(message, lines=True), category, stacklevel=level + 2)


def warn_once(message: str) -> None:
    """Warn as :func:`warn_user` does, but of one thing only once in a process.

    For what is right in one use and a mistake in another: those who know it hear it once.
    """
    if message not in _SAID:
        _SAID.add(message)
        warn_user(message)


def _package(module: str) -> str:
    return module.partition(".")[0]


def squeeze_name(name: str) -> str:
    """The letters and digits of a method's name, to compare names; CMT* is not CMT."""
    plain = name.casefold().replace("o-vs-o", "ovo").replace("*", "star")
    return re.sub(r"[^a-z0-9]", "", plain)
