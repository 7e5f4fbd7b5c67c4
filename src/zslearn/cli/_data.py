"""`zslearn data`."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._output import print_table, say
from zslearn.datasets import (
    XLSA17,
    ZeroShotDataset,
    check_data,
    feature_files,
    fetch_archive,
    fetchable_names,
    find_data_set,
    load_glyphs,
    load_xlsa17,
)
from zslearn.utils import InputWarning

_GLYPHS = "225 Latin letters in 16 faces, drawn on this machine; no download"


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command and its verbs to the parser."""
    parser = commands.add_parser(
        "data",
        parents=[common],
        help="what data sets there are, and what is in them",
        description="What data sets there are, and what is in them.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show|fetch|check")
    listed = verbs.add_parser("list", parents=[common], help="name the data sets")
    listed.set_defaults(run=run_list)
    shown = verbs.add_parser("show", parents=[common], help="describe one data set")
    add_data_options(shown)
    shown.set_defaults(run=run_show)
    _add_fetch(verbs, common)
    checked = verbs.add_parser(
        "check",
        parents=[common],
        help="say what a folder holds, and what is wrong with it",
        description="Say which data sets a folder holds, with which version of the split, and "
        "what is wrong with them. Exits with 1 if something is.",
    )
    checked.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=None,
        metavar="FOLDER",
        help="the folder (default: that named by ZSLEARN_DATA)",
    )
    checked.set_defaults(run=run_check)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the words that say which data set; `load_named` reads them."""
    parser.add_argument("name", choices=["glyphs", *XLSA17], help="the data set")
    parser.add_argument("--split", default="ns", help="its split (default: %(default)s)")
    parser.add_argument(
        "--features",
        default="res101.mat",
        metavar="FILE",
        help="the file of features, except for glyphs (default: %(default)s)",
    )
    parser.add_argument(
        "--signatures",
        default="original_att",
        metavar="NAME",
        help="the variable with the signatures, except for glyphs (default: %(default)s)",
    )


def _add_fetch(verbs: Any, common: argparse.ArgumentParser) -> None:
    fetched = verbs.add_parser(
        "fetch",
        parents=[common],
        help="download an archive of data sets",
        description="Download an archive of data sets and unpack it, unless it is there. A "
        "download that was interrupted is continued.",
    )
    names = fetchable_names()
    fetched.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    fetched.add_argument(
        "--to",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="where to put it (default: the folder named by ZSLEARN_DATA)",
    )
    fetched.set_defaults(run=run_fetch)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the names of the data sets, and whether they are here."""
    rows = {"glyphs": (_GLYPHS, "yes")}
    for name, about in XLSA17.items():
        rows[name] = (about, _is_here(name))
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["what it is", "here"])
    table.index.name = "name"
    print_table(table, title="Data sets")
    return 0


def _is_here(name: str) -> str:
    try:
        home = find_data_set(None, name)
    except OSError:
        return "no"
    return "yes" if feature_files(home) else "without features"


def load_named(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the data set that the words of `add_data_options` name."""
    if arguments.name == "glyphs":
        return load_glyphs(arguments.split, progress=True)
    return load_xlsa17(
        None,
        arguments.name,
        features=arguments.features,
        split=arguments.split,
        signatures=arguments.signatures,
    )


def run_show(arguments: argparse.Namespace) -> int:
    """Print the summary of a data set and its classes."""
    data = load_named(arguments)
    print(data)
    print(f"seen classes    {' '.join(map(str, data.seen_classes))}")
    print(f"unseen classes  {' '.join(map(str, data.unseen_classes))}")
    return 0


def run_fetch(arguments: argparse.Namespace) -> int:
    """Download an archive, and say where it is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        folder = fetch_archive(arguments.name, arguments.to, progress=True, say=say)
    for warning in caught:
        print(f"zslearn: warning: {warning.message}", file=sys.stderr)
    print(folder)
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    """Print what a folder holds; fail if something is wrong with it."""
    report = check_data(arguments.folder)
    print_table(report.table, title="Data sets")
    for note in report.notes:
        print(f"note: {note}")
    for problem in report.problems:
        print(f"problem: {' '.join(problem.split())}")
    print("something is wrong" if report.problems else "nothing is wrong")
    return 1 if report.problems else 0
