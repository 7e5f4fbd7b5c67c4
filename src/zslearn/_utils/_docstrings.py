"""Docstrings of classes: what a class leaves out is documented as in its bases."""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def inherit_docs(cls: _Class) -> _Class:
    """Decorate a class: its bases document what its own docstring leaves out.

    Sections of the class take over hyper-parameters and attributes of its bases; those of a method
    take over parameters and returns of the bases' method, then parameters of methods further up.

    Parameters
    ----------
    cls : class
        A zero-shot estimator, for instance.

    Returns
    -------
    class
        The same, with a complete docstring.
    """
    bases = [base for base in cls.__mro__[1:] if base.__doc__ and base is not object]
    own, inherited = _sections(cls.__doc__), [_sections(base.__doc__) for base in bases]
    _complete(own, "Parameters", inherited, inspect.signature(cls).parameters)
    _complete(own, "Attributes", inherited)
    cls.__doc__ = _numpydoc_text(own)
    further_up: list[dict[str, str]] = []
    for name, member in vars(cls).items():
        # Of a class method, and of one that is there only under a condition (`available_if`).
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
            names = inspect.signature(method).parameters
            _complete(sections, "Parameters", [*documented, *further_up], names)
            method.__doc__ = _numpydoc_text(sections)
            further_up.append(sections)
    return cls


def _complete(
    sections: dict[str, str], title: str, others: list[dict[str, str]], wanted: Any = None
) -> None:
    """Add the entries that a section lacks: those wanted, in their order; None wants all."""
    found, order = _entries(sections.get(title, "")), list(wanted or ())
    for other in others:
        for name, text in _entries(other.get(title, "")).items():
            if wanted is None or name.lstrip("*") in order:
                found.setdefault(name, text)
    if found:
        places = {name: place for place, name in enumerate(order)}
        ordered = sorted(found, key=lambda name: places.get(name.lstrip("*"), len(order)))
        # An entry may document several names.
        sections[title] = "\n".join(dict.fromkeys(found[name] for name in ordered))


def _sections(doc: str | None) -> dict[str, str]:
    """Title of a section → its text; what stands before the first has the title ""."""
    first, *parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(doc or ""), flags=re.M)
    texts = {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}
    return {"": first.strip("\n"), **texts}


def _entries(section: str) -> dict[str, str]:
    """Name → what a section says of it."""
    entries = [text.rstrip() for text in re.split(r"^(?=\S)", section, flags=re.M) if text.strip()]
    return {name: text for text in entries for name in re.split(" : |\n", text)[0].split(", ")}


def _numpydoc_text(sections: dict[str, str]) -> str:
    """A docstring of sections, in numpydoc's order."""
    first = ["", "Parameters", "Returns", "Yields", "Attributes"]
    order = sorted(sections, key=lambda title: first.index(title) if title in first else len(first))
    parts = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in order if title]
    return "\n\n".join([sections[""], *parts])
