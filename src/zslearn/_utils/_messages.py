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
    """A name in the Unicode form in which it is typed: some systems name folders in another."""
    return unicodedata.normalize("NFC", name)


def _more(n_more: int) -> str:
    """What ends a list of pairs of which only some are written."""
    return f"; and {n_more} more" if n_more > 0 else ""


#: Characters that are counted as printable and show nothing: fillers, blanks and selectors.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)

#: Joiners inside of words, which Persian and Indic scripts write with, and spaces without a break.
_JOINERS = re.compile("(?<=\\w)[\u200c\u200d](?=\\w)|(?<=\\S)[\u00a0\u202f](?=\\S)")


def name_problem(name: str) -> str:
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
        raise ValueError(
            f"{where} has names that look the same and differ in their code points: "
            f"{'; '.join(pairs[:3])}{_more(len(pairs) - 3)}. Write each name in one form, such as "
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
    known, said = list(known), []
    for label in list(unknown)[:50]:
        # Labels that differ in their numbers are different: class 7 is no misspelt class 8.
        numbers = re.findall(r"\d+", str(label))
        near = [k for k in suggest(label, known) if re.findall(r"\d+", str(k)) == numbers]
        if near:
            said.append(
                f"{known_in} has {_shown(near[0], label)}, {unknown_in} has "
                f"{_shown(label, near[0])}"
            )
    if not said:
        return ""
    text = "; ".join(said[:3])
    if known_in.startswith("the "):
        text = text[0].upper() + text[1:]
    return f" {text}{_more(len(said) - 3)}."


def look_alikes(labels: Iterable[Any], known: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Labels that differ from a known one only by spaces, case or Unicode form."""

    def form(label: str) -> str:
        return " ".join(composed(label).split())

    forms = {label: form(label) for label in known if isinstance(label, str)}
    # Where known labels differ in their case alone, case counts.
    case_counts = len({name.casefold() for name in forms.values()}) < len(set(forms.values()))
    fold = str if case_counts else str.casefold
    by_form = {fold(name): label for label, name in forms.items()}
    found = [(label, by_form.get(fold(form(label)))) for label in labels if isinstance(label, str)]
    return [(label, other) for label, other in found if other is not None]


def name_pairs(pairs: Iterable[tuple[Any, Any]], limit: int = 3) -> str:
    """Write up to `limit` pairs of labels so that one sees where they differ."""
    written = [f"{_shown(first, second)} and {_shown(second, first)}" for first, second in pairs]
    return "; ".join(written[:limit]) + _more(len(written) - limit)


def _shown(label: Any, other: Any) -> str:
    """A label as Python writes it; in ASCII where it looks like the other one otherwise."""
    if isinstance(label, str) and isinstance(other, str):
        first, second = composed(label), composed(other)
        if first.casefold() == second.casefold() and (first, second) != (label, other):
            return ascii(label)
    return name_some([label])


# Warnings of the library.

#: Messages that were said in this process.
_SAID: set[str] = set()


class InputWarning(UserWarning):
    """What was given can be used, but something about it is odd: the message says what."""


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
    frames = walk_stack(sys._getframe(1))
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames]
    # The library may call itself through others, such as contextlib.
    level = max((i for i, name in enumerate(packages) if name == "zslearn"), default=-1) + 1
    while level < len(packages) - 1 and packages[level] in ("sklearn", "joblib"):
        level += 1
    warnings.warn(plain(message, lines=True), category, stacklevel=level + 2)


def warn_once(message: str) -> None:
    """Warn as :func:`warn_user` does, of one thing only once in a process."""
    if message not in _SAID:
        _SAID.add(message)
        warn_user(message)


def squeeze_name(name: str) -> str:
    """The letters and digits of a method's name, to compare names; CMT* is not CMT."""
    plain = name.casefold().replace("o-vs-o", "ovo").replace("*", "star")
    return re.sub(r"[^a-z0-9]", "", plain)
