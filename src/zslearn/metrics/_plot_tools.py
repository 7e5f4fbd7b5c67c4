"""What several pictures of this package share: names of classes as labels, and colours."""

from __future__ import annotations

from typing import Any

#: Blue and vermilion of Okabe and Ito, which people with any colour vision can tell apart.
BLUE, VERMILION = "#0072B2", "#D55E00"

#: Letters of a class name that a label shows.
LONGEST_NAME = 24


def short_name(label: Any) -> str:
    """A label on one line, cut where it is long."""
    name = " ".join(str(label).split())
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"
