"""`zslearn data`: what data sets there are; and the words that other commands name one by."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._messages import did_you_mean, plain
from zslearn.cli._output import add_options, print_table, say
from zslearn.datasets import (
    ARCHIVES,
    XLSA17,
    ZeroShotDataset,
    check_data,
    fetch_archive,
    load_glyphs,
    load_imagenet,
    load_table,
    load_xlsa17,
    read_signature_table,
)

_GLYPHS = "225 Latin letters in 16 faces, drawn on this machine; no download"
_NAMES = ("glyphs", *XLSA17)
#: Options for a person's own data, and those for a data set with a name.
_OWN = (
    *("features_file", "labels_file", "signatures_file", "label", "unseen", "drop"),
    "feature_scaling",
)
_NAMED = ("split", "features", "signatures", "version", "class_splits")
_SCALINGS = ("auto", "none", "standard", "range")


def add_data(parser: argparse.ArgumentParser) -> None:
    """What data sets there are, and what is in them."""
    commands = parser.add_subparsers(
        dest="subcommand", required=True, metavar="list|show|table|fetch|check"
    )
    commands.add_parser("list", help="name the data sets").set_defaults(run=_run_list)
    shown = commands.add_parser("show", help="describe one data set")
    add_data_options(shown)
    shown.set_defaults(run=_run_show)
    counted = commands.add_parser(
        "table",
        help="how many images and classes data sets have (Table 1 of the paper)",
        description="Table 1 of the paper: images, splits, seen and unseen classes; below it the "
        "splits of DATA, where it is named.",
    )
    add_data_options(counted)
    counted.set_defaults(run=_run_table)
    _add_fetch(commands)
    checked = commands.add_parser(
        "check",
        help="say what a folder holds, and what is wrong with it",
        description="Say which data sets a folder holds, with which version of the split, and "
        "what is wrong with them. Exits with 1 if something is.",
    )
    folder = "the folder (default: that named by ZSLEARN_DATA)"
    checked.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help=folder)
    checked.set_defaults(run=_run_check)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the words that say which data set; `load_named` reads them."""
    name = (
        f"the data set: {', '.join(_NAMES)}; or your own: a folder with files features, labels, "
        "signatures and unseen.txt, one table (.csv, .parquet) of features and labels, or a folder "
        "of files <wnid>.npy or <wnid>.h5 with --signatures-file"
    )
    signatures = (
        "the variable with the signatures of a named data set, or FILE:VARIABLE; several are "
        "combined, with weights that are tuned (default: original_att)"
    )
    features = (
        "features of a named data set: a file in its folder or anywhere, .mat, .npy, .npz or "
        ".parquet, with rows in the order of the published files (default: res101.mat)"
    )
    units = (
        "bring columns of signatures to one unit (default: auto for your own data, where some are "
        "much larger than the others)"
    )
    splits = "unseen classes of ss-1, ss-2, … of CUB and SUN: a JSON file, or drawn at random"
    held_out = (
        "test images of seen classes, where a split has none: the share of each class, the "
        "authors' file, or 'authors' for the one among the data (default: none; for your own "
        "data 0.2)"
    )
    parser.add_argument("name", type=_data_set, nargs="?", metavar="DATA", help=name)
    parser.add_argument("--hold-out", type=_hold_out, metavar="SHARE|FILE", help=held_out)
    add_options(
        parser,
        ("--split", "SPLIT…", None, "splits of a named data set; ss: all of ss-1, … (default: ns)"),
        ("--features", "FILE", None, features),
        ("--signatures", "NAME…", None, signatures),
        ("--signature-scaling", _SCALINGS, None, units),
        ("--version", ["PS1", "PS2"], None, "which publication of the split ns the file holds"),
        ("--class-splits", "FILE|random", None, f"{splits} (default: class_splits.json)"),
    )
    labels = "a table or array of labels, if they are no column of the features"
    add_options(
        parser.add_argument_group("your own data"),
        ("--features-file", "FILE", None, "a table or array of features"),
        ("--labels-file", "FILE", None, labels),
        ("--signatures-file", "FILE", None, "a table of signatures, one row per class"),
        ("--label --label-column", "COLUMN", None, "the column of labels (default: label)"),
        ("--unseen", "CLASS…", None, "the unseen classes, or a text file with one per line"),
        ("--drop", "COLUMN…", None, "columns that are no features"),
        ("--feature-scaling", _SCALINGS, None, "the same for features (default: auto)"),
    )


def _data_set(word: str) -> str:
    """A data set by its name, or the path of one's own data."""
    if Path(word).exists():
        return word
    return _known(word, _NAMES, "; or name a folder or a table of your own")


def _known(word: str, names: Sequence[str], more: str = "") -> str:
    """One of the names, in capitals or not."""
    for name in names:
        if word.casefold() == name.casefold():
            return name
    raise argparse.ArgumentTypeError(
        f"There is no data set {word!r}.{did_you_mean(word, names)} There are: "
        f"{', '.join(names)}{more}"
    )


def _hold_out(word: str) -> float | str:
    """A share where it is a number, else the name of a file."""
    try:
        return float(word)
    except ValueError:
        return word


def load_named(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the data set that the words of `add_data_options` name, with the splits that they name.

    The first of them is active. A split without test images of seen classes has none in the
    result, either, unless --hold-out makes some.
    """
    if arguments.name is None and arguments.split and arguments.split[-1] in _NAMES:
        name = arguments.split[-1]
        raise ValueError(f"{name} was read as a split; write it before --split.")
    is_named = arguments.name in _NAMES
    if not is_named and arguments.signatures_file is None and arguments.signatures is not None:
        # The word of the commands on images.
        file, *others = arguments.signatures
        if not others and Path(file).is_file():
            arguments.signatures_file, arguments.signatures = Path(file), None
    for name in _OWN if is_named else _NAMED:
        if getattr(arguments, name) is not None:
            which = "your own data" if is_named else "a data set with a name"
            whose = arguments.name or "your own data"
            raise ValueError(f"--{name.replace('_', '-')} is for {which}, not for {whose}.")
    if not is_named:
        return _load_own(arguments)
    if arguments.name == "glyphs":
        return _load_glyphs(arguments)
    return load_xlsa17(
        arguments.name,
        features=arguments.features or "res101.mat",
        split=arguments.split or "ns",
        signatures=_one_or_several(arguments.signatures) or "original_att",
        signature_scaling=_scaling(arguments.signature_scaling or "none"),
        version=arguments.version,
        class_splits=arguments.class_splits,
        hold_out=arguments.hold_out,
    )


def _scaling(word: str) -> str | None:
    return None if word == "none" else word


def _one_or_several(words: list[str] | None) -> str | list[str] | None:
    return words[0] if words and len(words) == 1 else words


def _load_glyphs(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the glyphs with the splits that are asked for."""
    for name in (*_NAMED[1:], "hold_out", "signature_scaling"):
        if getattr(arguments, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is not for glyphs, whose files and splits are fixed.")
    data = load_glyphs(progress=True)
    class_splits = [name for name in data.splits if name.startswith("ss-")]
    chosen: list[str] = []
    for name in arguments.split or ["ns"]:
        chosen += class_splits if name == "ss" else [name]
    return data.with_splits(list(dict.fromkeys(chosen)))


def _load_own(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load a person's own data from a folder, a table or the files named."""
    source = arguments.name if arguments.features_file is None else arguments.features_file
    if source is None:
        raise ValueError(
            "Which data? Name a data set, a folder or a table, or give --features-file, "
            "--labels-file and --signatures-file."
        )
    if arguments.name is not None and arguments.features_file is not None:
        raise ValueError(f"Features are named twice: {arguments.name}, {arguments.features_file}.")
    if Path(source).is_dir() and any(Path(source).glob(f"n{8 * '[0-9]'}.*")):
        return _load_shards(arguments, source)
    hold_out = 0.2 if arguments.hold_out is None else arguments.hold_out
    if isinstance(hold_out, str):
        raise ValueError(
            f"--hold-out {hold_out}: for your own data this is a share between 0 and 1, as 0.2."
        )
    return load_table(
        source,
        arguments.labels_file,
        arguments.signatures_file,
        label=arguments.label,
        # One word may be a file.
        unseen_classes=_one_or_several(arguments.unseen),
        hold_out=hold_out,
        drop=arguments.drop or (),
        signature_scaling=_scaling(arguments.signature_scaling or "auto"),
        feature_scaling=_scaling(arguments.feature_scaling or "auto"),
    )


def _load_shards(arguments: argparse.Namespace, folder: str | Path) -> ZeroShotDataset:
    """Load ImageNet's features by class, of the classes that the table of signatures names."""
    others = (arguments.labels_file, arguments.label, arguments.unseen, arguments.drop)
    if arguments.signatures_file is None or any(word is not None for word in others):
        raise ValueError(f"{folder} has a file for each class: it takes --signatures-file alone.")
    table = read_signature_table(arguments.signatures_file)
    return load_imagenet(folder, table, test_seen=float(arguments.hold_out or 0))


def _run_list(arguments: argparse.Namespace) -> int:
    """Print the names of the data sets, and whether they are here."""
    rows = {"glyphs": (_GLYPHS, "yes")}
    rows |= {name: (found.about, found.status()) for name, found in XLSA17.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["what it is", "here"])
    table.index.name = "name"
    print_table(table, title="Data sets")
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    """Print the summary of a data set and its classes."""
    data = load_named(arguments)
    for split in data.splits:
        shown = data.with_split(split)
        print(plain(shown, lines=True))
        print(f"seen classes    {' '.join(map(plain, shown.seen_classes))}")
        print(f"unseen classes  {' '.join(map(plain, shown.unseen_classes))}")
    return 0


def _run_table(arguments: argparse.Namespace) -> int:
    """Print Table 1 of the paper, and below it a data set."""
    # Loads every method, which the other commands on data do without.
    from zslearn.experiments import dataset_table

    is_named = arguments.name is not None or arguments.features_file is not None
    table = dataset_table(load_named(arguments) if is_named else None)
    print_table(table.map("{:,}".format), title="Data sets and their class splits")
    return 0


def _add_fetch(commands: Any) -> None:
    fetched = commands.add_parser(
        "fetch",
        help="download an archive of data sets",
        description="Download an archive of data sets and unpack it, unless it is there. A "
        "download that was interrupted is continued.",
    )
    names = [*ARCHIVES, *XLSA17]
    known = partial(_known, names=names)
    fetched.add_argument("name", type=known, metavar="NAME", help=", ".join(names))
    where = "where to put it (default: the folder named by ZSLEARN_DATA)"
    add_options(fetched, ("--to", "FOLDER", None, where))
    fetched.set_defaults(run=_run_fetch)


def _run_fetch(arguments: argparse.Namespace) -> int:
    """Download an archive, and say where it is."""
    folder = fetch_archive(arguments.name, arguments.to, progress=True, say=say)
    print(folder)
    return 0


def _run_check(arguments: argparse.Namespace) -> int:
    """Print what a folder holds; fail if something is wrong with it."""
    report = check_data(arguments.folder)
    print_table(report.table, title="Data sets")
    for note in report.notes:
        print(f"note: {plain(note)}")
    for problem in report.problems:
        print(f"problem: {plain(' '.join(problem.split()))}")
    print("something is wrong" if report.problems else "nothing is wrong")
    return 1 if report.problems else 0
