"""Docstrings of estimators: what a class leaves out is documented as in its bases."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def inherit_docs(cls: _Class) -> _Class:
    """Decorate an estimator: its bases document what its own docstring leaves out.

    Hyper-parameters and attributes that bases document are added at the end of these sections. A
    method that is documented without parameters, or without what it returns, has these of the
    bases' method.

    Parameters
    ----------
    cls : class
        A zero-shot estimator.

    Returns
    -------
    class
        The same, with a complete docstring.
    """
    bases = [base for base in cls.__mro__[1:] if base.__doc__ and base is not object]
    own = _sections(cls.__doc__)
    for title, wanted in (("Parameters", set(cls._get_param_names())), ("Attributes", None)):  # type: ignore[attr-defined]
        found = _entries(own.get(title, ""))
        for base in bases:
            for name, text in _entries(_sections(base.__doc__).get(title, "")).items():
                if name not in found and (wanted is None or name in wanted):
                    found[name] = text
        if found:
            # An entry may document several names.
            own[title] = "\n".join(dict.fromkeys(found.values()))
    cls.__doc__ = _numpydoc_text(own)
    for name, method in vars(cls).items():
        inherited = [getattr(base, name, None) for base in bases]
        documented = [_sections(f.__doc__) for f in inherited if getattr(f, "__doc__", None)]
        if inspect.isfunction(method) and method.__doc__ and documented and name[0] != "_":
            sections = _sections(method.__doc__)
            for title in ("Parameters", "Returns", "Yields"):
                if title in documented[0]:
                    sections.setdefault(title, documented[0][title])
            method.__doc__ = _numpydoc_text(sections)
    return cls


def _sections(doc: str | None) -> dict[str, str]:
    """Title of a section → its text; what stands before the first has the title ""."""
    first, *parts = re.split(r"^(\w[\w ]*)\n-+\n", inspect.cleandoc(doc or ""), flags=re.M)
    texts = {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}
    return {"": first.strip("\n"), **texts}


def _entries(section: str) -> dict[str, str]:
    """Name → what a section says of it."""
    entries = [text.rstrip() for text in re.split(r"^(?=\S)", section, flags=re.M) if text.strip()]
    return {name: text for text in entries for name in text.split(" : ")[0].split(", ")}


def _numpydoc_text(sections: dict[str, str]) -> str:
    """A docstring of sections, in numpydoc's order."""
    first = ["", "Parameters", "Returns", "Yields", "Attributes"]
    order = sorted(sections, key=lambda title: first.index(title) if title in first else len(first))
    parts = [f"{title}\n{'-' * len(title)}\n{sections[title]}" for title in order if title]
    return "\n\n".join([sections[""], *parts])
