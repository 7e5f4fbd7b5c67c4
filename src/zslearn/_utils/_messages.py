"""Warnings, and the text of messages: lists of names, suggestions, and safe printing."""

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
    """A name in Unicode form NFC; some file systems return names in another form."""
    return unicodedata.normalize("NFC", name)


def _more(n_more: int) -> str:
    """The end of a shortened list."""
    return f"; and {n_more} more" if n_more > 0 else ""


#: Invisible characters that `str.isprintable` accepts: fillers, blanks and selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)

#: Joiners within words, which Persian and Indic scripts need, and no-break spaces.
_JOINERS = re.compile("(?<=\\w)[\u200c\u200d](?=\\w)|(?<=\\S)[\u00a0\u202f](?=\\S)")


def name_problem(name: str) -> str:
    """Why a text cannot be the name of a class; empty if it can."""
    if not name.strip():
        return "is blank"
    if not _JOINERS.sub("", name).isprintable() or _INVISIBLE.search(name):
        return "contains invisible characters; remove them"
    return ""


def refuse_equal_labels(labels: Iterable[Any], where: str) -> None:
    """Refuse labels that are the same text in two Unicode forms, such as é and e + accent."""
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
            f"{where} has names that look identical but have different code points: "
            f"{'; '.join(pairs[:3])}{_more(len(pairs) - 3)}. Use one form for each name, such as "
            "Unicode's NFC."
        )


def name_some(labels: Iterable[Any], limit: int = 5) -> str:
    """List up to `limit` labels and the number of further ones."""
    names = list(labels)
    shown = ", ".join(
        repr(label.item() if isinstance(label, np.generic) else label) for label in names[:limit]
    )
    more = len(names) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def plain(text: object, length: int | None = None, *, lines: bool = False) -> str:
    """Escape control characters of untrusted text, so that it can be printed to a terminal."""
    whole = str(text)
    kept = "\n\t" if lines else ""
    shown = "".join(
        letter
        if letter.isprintable() or letter in kept
        else letter.encode("unicode_escape").decode("ascii")
        for letter in whole[:length]
    )
    return shown if length is None or len(whole) <= length else f"{shown}…"


# Suggestions for unknown names.

#: Minimum similarity of a suggestion by difflib, and the length to which names are compared.
_MIN_SIMILARITY, _MAX_LENGTH = 0.7, 200


def normal_form(name: Any) -> str:
    """A form that is equal for names that differ only in case, spaces or Unicode form."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(name)).casefold())
    # A name that consists only of separators is not changed.
    return " ".join(re.sub(r"[_\-\s]+", " ", folded).split()) or folded


def suggest(
    name: Any, known: Iterable[Any], *, key: Callable[[Any], str] = normal_form
) -> list[Any]:
    """Up to three known names that are similar to an unknown one, most similar first."""
    forms: dict[str, list[Any]] = {}
    for candidate in known:
        forms.setdefault(key(candidate), []).append(candidate)
    # The time of a comparison grows with the length of the names.
    form = key(name)[:_MAX_LENGTH]
    close = [form] if form in forms else get_close_matches(form, forms, 3, _MIN_SIMILARITY)
    return [candidate for match in close for candidate in forms[match]][:3]


def did_you_mean(
    name: Any, known: Iterable[Any], *, key: Callable[[Any], str] = normal_form
) -> str:
    """The question " Did you mean …?" for an error message; empty without a similar name."""
    names = suggest(name, known, key=key)
    if not names:
        return ""
    return f" Did you mean {' or '.join(_shown(similar, name) for similar in names)}?"


def name_near_misses(
    unknown: Iterable[Any], known: Iterable[Any], *, unknown_in: str, known_in: str
) -> str:
    """Describe unknown labels that differ from a known one only in spelling."""
    known, pairs = list(known), []
    for label in list(unknown)[:50]:
        # Labels with different numbers are different: class 7 is not a misspelt class 8.
        numbers = re.findall(r"\d+", str(label))
        near = [k for k in suggest(label, known) if re.findall(r"\d+", str(k)) == numbers]
        if near:
            pairs.append(
                f"{known_in} has {_shown(near[0], label)}, {unknown_in} has "
                f"{_shown(label, near[0])}"
            )
    if not pairs:
        return ""
    text = "; ".join(pairs[:3])
    if known_in.startswith("the "):
        text = text[0].upper() + text[1:]
    return f" {text}{_more(len(pairs) - 3)}."


def _spaced(label: str) -> str:
    """A label in one Unicode form, with single spaces."""
    return " ".join(composed(label).split())


def look_alikes(labels: Iterable[Any], known: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Pairs of a label and a known one that differ only in spaces, case or Unicode form."""
    forms = {label: _spaced(label) for label in known if isinstance(label, str)}
    # Case matters if known labels differ only in case.
    case_counts = len({name.casefold() for name in forms.values()}) < len(set(forms.values()))
    fold = str if case_counts else str.casefold
    by_form = {fold(name): label for label, name in forms.items()}
    texts = [label for label in labels if isinstance(label, str)]
    pairs = [(label, by_form.get(fold(_spaced(label)))) for label in texts]
    return [(label, other) for label, other in pairs if other is not None]


def join_spellings(labels: Any, known: Iterable[Any], where: str) -> Any:
    """Give labels the spelling of known ones from which they differ in case or spaces only.

    A warning lists what was joined. Labels that could be one of several are kept.
    """
    known = list(known)
    described = set(known)
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in described]
    spelled: dict[str, list[Any]] = {}
    for label in known:
        if isinstance(label, str):
            spelled.setdefault(_spaced(label).casefold(), []).append(label)
    joined = {
        label: found[0]
        for label in unknown
        if isinstance(label, str) and len(found := spelled.get(_spaced(label).casefold(), [])) == 1
    }
    if not joined:
        return labels
    warn_user(f"{where}: labels in another spelling were joined: {name_pairs(joined.items())}.")
    items = [joined.get(label, label) for label in labels.tolist()]
    return np.asarray(items, dtype=object if labels.dtype == object else None)


def name_pairs(pairs: Iterable[tuple[Any, Any]], limit: int = 3) -> str:
    """List up to `limit` pairs of labels so that their difference is visible."""
    written = [f"{_shown(first, second)} and {_shown(second, first)}" for first, second in pairs]
    return "; ".join(written[:limit]) + _more(len(written) - limit)


def _shown(label: Any, other: Any) -> str:
    """The `repr` of a label, in ASCII if it would look like the other one."""
    if isinstance(label, str) and isinstance(other, str):
        first, second = composed(label), composed(other)
        if first.casefold() == second.casefold() and (first, second) != (label, other):
            return ascii(label)
    return name_some([label])


# Warnings of the library.

#: Messages of :func:`warn_once` that were shown in this process.
_SHOWN: set[str] = set()


class InputWarning(UserWarning):
    """A warning about input that is valid but probably not what was intended."""


_is_quiet: ContextVar[bool] = ContextVar("is_quiet", default=False)
_shown_here: ContextVar[set[str] | None] = ContextVar("shown_here", default=None)


@contextmanager
def no_user_warnings() -> Iterator[None]:
    """Silence :func:`warn_user` in this thread; warning filters would affect the whole process."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Have :func:`warn_user` show each message once in this thread."""
    token = _shown_here.set(set() if (shown := _shown_here.get()) is None else shown)
    try:
        yield
    finally:
        _shown_here.reset(token)


def warn_user(message: str, category: type[Warning] = InputWarning) -> None:
    """Warn, attributing the warning to the user's code that called the library."""
    shown = _shown_here.get()
    if _is_quiet.get() or (shown is not None and message in shown):
        return
    if shown is not None:
        shown.add(message)
    frames = walk_stack(sys._getframe(1))
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames]
    # The library may call itself through other packages, such as contextlib.
    level = max((i for i, name in enumerate(packages) if name == "zslearn"), default=-1) + 1
    while level < len(packages) - 1 and packages[level] in ("sklearn", "joblib"):
        level += 1
    warnings.warn(plain(message, lines=True), category, stacklevel=level + 2)


def warn_once(message: str) -> None:
    """Warn as :func:`warn_user` does, but show each message only once per process."""
    if message not in _SHOWN:
        _SHOWN.add(message)
        warn_user(message)


def squeeze_name(name: str) -> str:
    """The letters and digits of a method's name, for comparisons; CMT* differs from CMT."""
    plain = name.casefold().replace("o-vs-o", "ovo").replace("*", "star")
    return re.sub(r"[^a-z0-9]", "", plain)
