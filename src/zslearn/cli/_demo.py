"""`zslearn demo`."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._output import say
from zslearn.experiments._demo import run_demo

#: Columns of the table from left to right: metric, title (its lines stand above each other), and
#: rank. Where there is no room for all, the last ranks are left out; accuracies go in pairs.
_COLUMNS = (
    ("per_class_accuracy", "among\nunseen", 1),
    ("seen", "seen", 6),
    ("unseen", "unseen", 6),
    ("harmonic", "H", 3),
    ("calibrated_seen", "seen\ncal.", 4),
    ("calibrated_unseen", "unseen\ncal.", 4),
    ("calibrated_harmonic", "H\ncal.", 2),
    ("ausuc", "AUSUC", 5),
    ("seconds", "fitted\nin s", 7),
)
_GAP = "  "


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        parents=[common],
        help="recognise letters that the model never saw",
        description="Fit the quick methods on the embedded glyphs and recognise letters that they "
        "never saw. Prints a table; writes it, pictures and a report for a browser to a folder.",
        epilog="`zslearn demo imagenet` predicts the last layer of a real network: see its --help.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("zslearn-demo"),
        metavar="FOLDER",
        help="where to write (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo, print its table and name its files."""
    demo = run_demo(arguments.out, say=say, progress=True)
    width = shutil.get_terminal_size().columns
    print("Glyphs, split ns: per-class accuracies")
    print(table_text(demo.table, width))
    print()
    print(textwrap.fill(demo.summary(), max(width, 20)))
    print()
    for path in demo.files:
        print(f"wrote {path}")
    return 0


def table_text(table: pd.DataFrame, width: int) -> str:
    """Write the table of the demo as text no wider than a screen."""
    first = _padded(["", "method", *map(str, table.index)], str.ljust)
    columns = {metric: _column(table[metric], title) for metric, title, _ in _COLUMNS}
    for rank in sorted({rank for _, _, rank in _COLUMNS}, reverse=True):
        shown = [columns[metric] for metric, _, other in _COLUMNS if other <= rank]
        lines = [_GAP.join(cells).rstrip() for cells in zip(first, *shown, strict=True)]
        if max(map(len, lines)) <= width:
            break
    if len(shown) < len(_COLUMNS):
        lines.append("Further columns are in results.csv.")
    return "\n".join(lines)


def _column(values: pd.Series, title: str) -> list[str]:
    """Two lines of title and one line per method, all of one length."""
    digits = 2 if values.name == "seconds" else 3
    head = ["", *title.split("\n")][-2:]
    return _padded([*head, *(f"{value:.{digits}f}" for value in values)], str.rjust)


def _padded(cells: list[str], pad: Callable[[str, int], str]) -> list[str]:
    width = max(map(len, cells))
    return [pad(cell, width) for cell in cells]
