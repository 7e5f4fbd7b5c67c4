"""Create and save figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zslearn._utils._files import atomic_write
from zslearn._utils._optional import import_optional


def new_figure(**options: Any) -> Any:
    """A figure outside pyplot's global state."""
    figure = import_optional("matplotlib.figure", "Drawing pictures")
    return figure.Figure(layout="constrained", **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure atomically."""
    with atomic_write(path) as temporary:
        # Without the date that matplotlib writes, the same figure gives the same SVG.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(temporary, dpi=150, metadata=metadata)
