"""`zslearn data`: what data sets there are; and the words that other commands name one by."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from zslearn._utils._messages import did_you_mean, plain
from zslearn.cli._output import SCALINGS, print_table, say, scaling
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
    write_example,
)

_GLYPHS = "225 Latin letters in 16 faces, drawn on this machine; no download"
_NAMES = ("glyphs", *XLSA17)


def _known(word: str, names: Sequence[str], more: str = "") -> str:
    """One of the names, in capitals or not."""
    for name in names:
        if word.casefold() == name.casefold():
            return name
    raise argparse.ArgumentTypeError(
        f"There is no data set {word!r}.{did_you_mean(word, names)} There are: "
        f"{', '.join(names)}{more}"
    )


def _data_set(word: str) -> str:
    """A data set by its name, or the path of one's own data."""
    more = "; or name a folder or a table of your own"
    return word if Path(word).exists() else _known(word, _NAMES, more)


def _hold_out(word: str) -> float | str:
    """A share where it is a number, else the name of a file."""
    try:
        return float(word)
    except ValueError:
        return word


#: Arguments that say which data set: for named ones, for a user's own, and for both.
_NAMED = (
    ("--split", "SPLIT…", None, "splits of a named data set; ss: all of ss-1, … (default: ns)"),
    ("--features", "FILE", None, "its features, .mat, .npy, .npz, .parquet (default: res101.mat)"),
    ("--signatures", "NAME…", None, "its variables of signatures, or FILE:VARIABLE, combined"),
    ("--version", ["PS1", "PS2"], None, "which publication of the split ns the file holds"),
    ("--class-splits", "FILE|random", None, "unseen classes of ss-1, …: a JSON file, or random"),
)
_OWN = (
    ("--features-file", "FILE", None, "a table or array of features"),
    ("--labels-file", "FILE", None, "a table or array of labels, if not with the features"),
    ("--signatures-file", "FILE", None, "a table of signatures, one row per class"),
    ("--label --label-column", "COLUMN", None, "the column of labels (default: label)"),
    ("--unseen", "CLASS…", None, "the unseen classes, or a text file with one per line"),
    ("--drop", "COLUMN…", None, "columns that are no features"),
    ("--feature-scaling", SCALINGS, None, "standardise features (default: auto)"),
)
_DATA = (
    f"the data set: {', '.join(_NAMES)}; or your own: a folder with files features, labels, "
    "signatures and unseen.txt, one table (.csv, .parquet) of features and labels, or a folder "
    "of files <wnid>.npy or <wnid>.h5 with --signatures-file"
)
_HELD_OUT = (
    "test images of seen classes, where a split has none: the share of each class, the authors' "
    "file, or 'authors' (default: none; for your own data 0.2)"
)
_UNITS = "standardise signatures (default: auto for your own data)"
DATA_OPTIONS = (
    ("name", ("DATA", _data_set), None, _DATA),
    ("--hold-out", ("SHARE|FILE", _hold_out), None, _HELD_OUT),
    ("--signature-scaling", SCALINGS, None, _UNITS),
    *_NAMED,
    "your own data",
    *_OWN,
)


def _destination(words: str) -> str:
    """The attribute that argparse makes of an option."""
    return words.split()[0].removeprefix("--").replace("-", "_")


def load_named(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the data set that the words of `DATA_OPTIONS` name, with the splits that they name.

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
    for option, *_ in _OWN if is_named else _NAMED:
        if getattr(arguments, _destination(option)) is not None:
            which = "your own data" if is_named else "a data set with a name"
            whose = arguments.name or "your own data"
            raise ValueError(f"{option.split()[0]} is for {which}, not for {whose}.")
    if not is_named:
        return _load_own(arguments)
    if arguments.name == "glyphs":
        return _load_glyphs(arguments)
    return load_xlsa17(
        arguments.name,
        features=arguments.features or "res101.mat",
        split=arguments.split or "ns",
        signatures=_one_or_several(arguments.signatures) or "original_att",
        signature_scaling=scaling(arguments.signature_scaling or "none"),
        version=arguments.version,
        class_splits=arguments.class_splits,
        hold_out=arguments.hold_out,
    )


def _one_or_several(words: list[str] | None) -> str | list[str] | None:
    return words[0] if words and len(words) == 1 else words


def _load_glyphs(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the glyphs with the splits that are asked for."""
    for option, *_ in (*_NAMED[1:], *DATA_OPTIONS[1:3]):
        if getattr(arguments, _destination(option)) is not None:
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
        signature_scaling=scaling(arguments.signature_scaling or "auto"),
        feature_scaling=scaling(arguments.feature_scaling or "auto"),
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


def _run_fetch(arguments: argparse.Namespace) -> int:
    """Download an archive, and say where it is."""
    folder = fetch_archive(arguments.name, arguments.to, progress=True, say=say)
    print(folder)
    return 0


def _run_example(arguments: argparse.Namespace) -> int:
    """Write example data, and print the files and folders."""
    for path in write_example(arguments.kind, arguments.folder):
        print(path)
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


_ARCHIVES = [*ARCHIVES, *XLSA17]
_HOME = "the folder (default: that named by ZSLEARN_DATA)"
#: Subcommand → its function, what it does, and its arguments.
OPTIONS = {
    "data": {
        "list": (_run_list, "name the data sets"),
        "show": (_run_show, "describe one data set", *DATA_OPTIONS),
        "table": (
            _run_table,
            "count images and classes of data sets (Table 1 of the paper); those of DATA below it",
            *DATA_OPTIONS,
        ),
        "fetch": (
            _run_fetch,
            "download an archive of data sets; an interrupted download is continued",
            ("name", ("NAME", partial(_known, names=_ARCHIVES)), ..., ", ".join(_ARCHIVES)),
            ("--to", "FOLDER", None, f"where to put it: {_HOME}"),
        ),
        "example": (
            _run_example,
            "write example data: coloured shapes, as a table of measurements or as pictures",
            ("kind", ["table", "pictures"], ..., "a table of measurements, or pictures"),
            ("folder", "FOLDER", ..., "where to write"),
        ),
        "check": (
            _run_check,
            "say what a folder holds, and what is wrong with it; exits with 1 if something is",
            ("folder", "FOLDER", None, _HOME),
        ),
    }
}
