"""Inheritance of numpydoc sections from base classes."""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def inherit_docs(cls: _Class) -> _Class:
    """Class decorator that completes docstrings with the entries of base classes.

    A class inherits hyper-parameters and attributes that it does not document. A method inherits
    parameters and return values of the same method of its bases, then parameters of methods
    defined earlier in the class.

    Parameters
    ----------
    cls : class
        For instance a zero-shot estimator.

    Returns
    -------
    class
        The same class with complete docstrings.
    """
    bases = [base for base in cls.__mro__[1:] if base.__doc__ and base is not object]
    own, inherited = _sections(cls.__doc__), [_sections(base.__doc__) for base in bases]
    _complete(own, "Parameters", inherited, inspect.signature(cls).parameters)
    _complete(own, "Attributes", inherited)
    cls.__doc__ = _numpydoc_text(own)
    earlier: list[dict[str, str]] = []
    for name, member in vars(cls).items():
        # Unwrap class methods and conditional methods (`available_if`).
        method = getattr(member, "__func__", getattr(member, "fn", member))
        if not inspect.isfunction(method) or not method.__doc__ or name[0] == "_":
            continue
        sections = _sections(method.__doc__)
        methods = [getattr(base, name) for base in bases if hasattr(base, name)]
        documented = [_sections(above.__doc__) for above in methods if above.__doc__][:1]
        for title in ("Returns", "Yields"):
            if documented and title in documented[0]:
                sections.setdefault(title, documented[0][title])
        if documented or len(sections) > 1:
            parameters = inspect.signature(method).parameters
            _complete(sections, "Parameters", [*documented, *earlier], parameters)
            method.__doc__ = _numpydoc_text(sections)
            earlier.append(sections)
    return cls


def _complete(
    sections: dict[str, str], title: str, others: list[dict[str, str]], parameters: Any = None
) -> None:
    """Add missing entries of parameters to a section, positional ones first; None adds all."""
    entries = _entries(sections.get(title, ""))
    for other in others:
        for name, text in _entries(other.get(title, "")).items():
            if parameters is None or name.lstrip("*") in parameters:
                entries.setdefault(name, text)
    if entries:
        # Parameters that a class adds are more important than those of its bases.
        given = (parameters or {}).values()
        order = [parameter.name for parameter in given if parameter.kind < parameter.KEYWORD_ONLY]
        rank = {name: position for position, name in enumerate(order)}
        ordered = sorted(entries, key=lambda name: rank.get(name.lstrip("*"), len(order)))
        # One entry may document several names.
        sections[title] = "\n".join(dict.fromkeys(entries[name] for name in ordered))


def _sections(doc: str | None) -> dict[str, str]:
    """Section texts by title; the text before the first section has the title ""."""
    first, *parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(doc or ""), flags=re.M)
    texts = {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}
    return {"": first.strip("\n"), **texts}


def _entries(section: str) -> dict[str, str]:
    """Entries of a section by name."""
    entries = [text.rstrip() for text in re.split(r"^(?=\S)", section, flags=re.M) if text.strip()]
    return {name: text for text in entries for name in re.split(" : |\n", text)[0].split(", ")}


def _numpydoc_text(sections: dict[str, str]) -> str:
    """Join sections in numpydoc's order."""
    first = ["", "Parameters", "Returns", "Yields", "Attributes"]
    order = sorted(sections, key=lambda title: first.index(title) if title in first else len(first))
    parts = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in order if title]
    return "\n\n".join([sections[""], *parts])
