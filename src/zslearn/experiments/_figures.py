"""Figures, and how they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional


def new_figure(**options: Any) -> Any:
    """A figure that no window and no global state knows of."""
    figure = import_optional("matplotlib.figure", "Drawing pictures")
    return figure.Figure(layout="constrained", **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure so that a reader meets a whole file or none."""
    with replacing(path) as temporary:
        # The same figure gives the same file: an SVG would hold the time.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(temporary, dpi=150, metadata=metadata)
