"""`zslearn data`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pandas as pd

from zslearn.cli._output import print_table
from zslearn.datasets import ZeroShotDataset, load_glyphs

#: Name → (what it is, its loader by split name).
_DATA_SETS: dict[str, tuple[str, Callable[[str], ZeroShotDataset]]] = {
    "glyphs": (
        "225 Latin letters in 16 faces, drawn on this machine; no download",
        lambda split: load_glyphs(split, progress=True),
    ),
}


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command and its verbs to the parser."""
    parser = commands.add_parser(
        "data",
        parents=[common],
        help="what data sets there are, and what is in them",
        description="What data sets there are, and what is in them.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show")
    listed = verbs.add_parser("list", parents=[common], help="name the data sets")
    listed.set_defaults(run=run_list)
    shown = verbs.add_parser("show", parents=[common], help="describe one data set")
    shown.add_argument("name", choices=sorted(_DATA_SETS), help="the data set")
    shown.add_argument("--split", default="ns", help="the split to describe (default: %(default)s)")
    shown.set_defaults(run=run_show)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the names of the data sets."""
    table = pd.DataFrame(
        {"what it is": [about for about, _ in _DATA_SETS.values()]},
        index=pd.Index(list(_DATA_SETS), name="name"),
    )
    print_table(table, title="Data sets")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print the summary of a data set and its classes."""
    data = _DATA_SETS[arguments.name][1](arguments.split)
    print(data)
    print(f"seen classes    {' '.join(map(str, data.seen_classes))}")
    print(f"unseen classes  {' '.join(map(str, data.unseen_classes))}")
    return 0
