"""`zslearn data`, and the options with which commands select a data set."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from zslearn._utils._messages import did_you_mean, name_some, plain
from zslearn.cli._output import SCALINGS, counted, note, print_table, result, say, scaling
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

_GLYPHS = "225 Latin letters in 16 typefaces, rendered locally; no download"
_NAMES = ("glyphs", *XLSA17)


def _known_name(word: str, names: Sequence[str], more: str = "") -> str:
    """Look up a name, ignoring case."""
    for name in names:
        if word.casefold() == name.casefold():
            return name
    raise argparse.ArgumentTypeError(
        f"There is no data set {word!r}.{did_you_mean(word, names)} Choose from "
        f"{', '.join(names)}{more}"
    )


def _data_set(word: str) -> str:
    """Validate the name of a data set; paths of the user's own data are kept."""
    more = ", or give the path of your own folder or table"
    return word if Path(word).exists() else _known_name(word, _NAMES, more)


def _hold_out(word: str) -> float | str:
    """Convert a share to a number; other words are names of files."""
    try:
        return float(word)
    except ValueError:
        return word


#: Options for data sets known by name, for the user's own data, and for both.
_NAMED = (
    ("--split", "SPLIT…", None, "class splits; ss stands for all of ss-1, … (default: ns)"),
    ("--features", "FILE", None, "features: .mat, .npy, .npz or .parquet (default: res101.mat)"),
    ("--version", ["PS1", "PS2"], None, "published version of the split ns in the file"),
    ("--class-splits", "FILE|random", None, "unseen classes of ss-1, …: a JSON file, or random"),
)
_OWN = (
    ("--features-file", "FILE", None, "table or array of features"),
    ("--labels-file", "FILE", None, "table or array of labels, if they are in another file"),
    ("--label --label-column", "COLUMN", None, "label column (default: label)"),
    ("--unseen", "CLASS…", None, "unseen classes, or a text file with one per line"),
    ("--drop", "COLUMN…", None, "columns that are not features"),
    ("--feature-scaling", SCALINGS, None, "scaling of the features (default: auto)"),
)
_DATA = (
    f"a data set: {', '.join(_NAMES)}; or your own: a folder with the files features, labels, "
    "signatures and unseen.txt, a table (.csv, .parquet) of features and labels, or a folder of "
    "files <wnid>.npy or <wnid>.h5 with --signatures"
)
_HELD_OUT = (
    "test images of seen classes, if the split has none: a share of each class, the authors' file, "
    "or 'authors' (default: none; for your own data 0.2)"
)
_SCALING = "scaling of the signatures (default: none; for your own data auto)"
_SIGNATURES = (
    "table of signatures (.csv, .parquet), one row per class; for data sets known by name also "
    "variables of their files, as NAME or FILE:VARIABLE; several are combined"
)
DATA_OPTIONS = (
    ("name", ("DATA", _data_set), None, _DATA),
    ("--signatures", "FILE|NAME…", None, _SIGNATURES),
    ("--hold-out", ("SHARE|FILE", _hold_out), None, _HELD_OUT),
    ("--signature-scaling", SCALINGS, None, _SCALING),
    *_NAMED,
    "your own data",
    *_OWN,
)


def _destination(flags: str) -> str:
    """The attribute in which argparse stores an option."""
    return flags.split()[0].removeprefix("--").replace("-", "_")


def load_named(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the data set and the splits selected by `DATA_OPTIONS`; the first split is active."""
    if arguments.name is None and arguments.split and arguments.split[-1] in _NAMES:
        name = arguments.split[-1]
        raise ValueError(f"{name} was read as a split; put it before --split.")
    is_named = arguments.name in _NAMES
    for option, *_ in _OWN if is_named else _NAMED:
        if getattr(arguments, _destination(option)) is not None:
            which = "your own data" if is_named else "data sets known by name"
            whose = arguments.name or "your own data"
            raise ValueError(f"{option.split()[0]} is for {which}, not for {whose}.")
    if not is_named:
        return _load_own(arguments)
    words = arguments.signatures
    table = Path(words[0]) if words and len(words) == 1 and Path(words[0]).is_file() else None
    if arguments.name == "glyphs":
        data = _load_glyphs(arguments)
    else:
        data = _load_xlsa17(arguments, None if table is not None else words)
    if table is None:
        return data
    signatures = read_signature_table(table)
    lacking = [label for label in data.signatures.index if label not in signatures.index]
    if lacking:
        raise ValueError(f"{plain(table)} has no row for {name_some(lacking)} of {data.name}.")
    described = data.with_signatures(signatures.loc[list(data.signatures.index)])
    return replace(described, semantic=table.stem)


def _load_xlsa17(arguments: argparse.Namespace, signatures: list[str] | None) -> ZeroShotDataset:
    """Load one of the field's data sets."""
    return load_xlsa17(
        arguments.name,
        features=arguments.features or "res101.mat",
        split=arguments.split or "ns",
        signatures=_unwrapped(signatures) or "original_att",
        signature_scaling=scaling(arguments.signature_scaling or "none"),
        version=arguments.version,
        class_splits=arguments.class_splits,
        hold_out=arguments.hold_out,
    )


def _unwrapped(words: list[str] | None) -> str | list[str] | None:
    return words[0] if words and len(words) == 1 else words


def _load_glyphs(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the glyphs with the chosen splits."""
    words = arguments.signatures
    if words is not None and not (len(words) == 1 and Path(words[0]).is_file()):
        raise ValueError("--signatures of glyphs takes one table (.csv, .parquet).")
    for option, *_ in (*_NAMED[1:], *DATA_OPTIONS[2:4]):
        if getattr(arguments, _destination(option)) is not None:
            raise ValueError(f"{option} cannot be used with glyphs, whose files are fixed.")
    data = load_glyphs(progress=True)
    class_splits = [name for name in data.splits if name.startswith("ss-")]
    chosen: list[str] = []
    for name in arguments.split or ["ns"]:
        chosen += class_splits if name == "ss" else [name]
    return data.with_splits(list(dict.fromkeys(chosen)))


def _load_own(arguments: argparse.Namespace) -> ZeroShotDataset:
    """Load the user's own data from a folder, a table or several files."""
    source = arguments.name if arguments.features_file is None else arguments.features_file
    if source is None:
        raise ValueError(
            "No data: name a data set, a folder or a table, or give --features-file, --labels-file "
            "and --signatures."
        )
    if arguments.name is not None and arguments.features_file is not None:
        raise ValueError(f"Give {arguments.name} or --features-file, not both.")
    signatures = _unwrapped(arguments.signatures)
    if isinstance(signatures, list):
        raise ValueError("--signatures: give one table; zslearn signatures combine makes one.")
    if Path(source).is_dir() and any(Path(source).glob(f"n{8 * '[0-9]'}.*")):
        return _load_shards(arguments, source, signatures)
    hold_out = 0.2 if arguments.hold_out is None else arguments.hold_out
    if isinstance(hold_out, str):
        raise ValueError(
            f"--hold-out {hold_out}: for your own data, give a share between 0 and 1, such as 0.2."
        )
    return load_table(
        source,
        arguments.labels_file,
        signatures,
        label=arguments.label,
        # A single value may be a file.
        unseen_classes=_unwrapped(arguments.unseen),
        hold_out=hold_out,
        drop=arguments.drop or (),
        signature_scaling=scaling(arguments.signature_scaling or "auto"),
        feature_scaling=scaling(arguments.feature_scaling or "auto"),
    )


def _load_shards(
    arguments: argparse.Namespace, folder: str | Path, signatures: str | None
) -> ZeroShotDataset:
    """Load features with one file per class, for the classes in the table of signatures."""
    others = (arguments.labels_file, arguments.label, arguments.unseen, arguments.drop)
    if signatures is None or any(word is not None for word in others):
        raise ValueError(f"{folder} has one file per class; give only --signatures with it.")
    table = read_signature_table(signatures)
    return load_imagenet(folder, table, test_seen=float(arguments.hold_out or 0))


def _run_list(arguments: argparse.Namespace) -> int:
    """Print the names of the data sets, and whether they are available."""
    rows = {"glyphs": (_GLYPHS, "yes")}
    rows |= {name: (found.about, found.status()) for name, found in XLSA17.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["description", "available"])
    table.index.name = "name"
    print_table(table, title="Data sets", name="data_sets")
    return 0


def _run_show(arguments: argparse.Namespace) -> int:
    """Print a summary of a data set with its classes."""
    data = load_named(arguments)
    splits = []
    for name in data.splits:
        shown = data.with_split(name)
        split = shown.active_split
        result(plain(shown, lines=True))
        result(f"seen classes    {' '.join(map(plain, shown.seen_classes))}")
        result(f"unseen classes  {' '.join(map(plain, shown.unseen_classes))}")
        parts = ("train", "test_seen", "test_unseen")
        splits.append(
            {"name": name, "version": split.version}
            | {f"n_{part}": len(getattr(split, part)) for part in parts}
            | {"seen_classes": split.seen_classes, "unseen_classes": split.unseen_classes}
        )
    about = {"features": data.features, "n_samples": len(data.y), "n_features": data.X.shape[1]}
    note(name=data.name, **about, splits=splits)
    return 0


def _run_table(arguments: argparse.Namespace) -> int:
    """Print Table 1 of the paper, followed by a data set."""
    # Imported late, since it loads every method.
    from zslearn.experiments import dataset_table

    is_named = arguments.name is not None or arguments.features_file is not None
    table = dataset_table(load_named(arguments) if is_named else None)
    title = "Data sets and their class splits"
    print_table(table.map("{:,}".format), title=title, name="data_sets", values=table)
    return 0


def _run_fetch(arguments: argparse.Namespace) -> int:
    """Download an archive, and print its folder."""
    folder = fetch_archive(arguments.name, arguments.to, progress=True, say=say)
    result(str(folder), folder=folder)
    return 0


def _run_example(arguments: argparse.Namespace) -> int:
    """Write example data, and print the paths."""
    files = write_example(arguments.kind, arguments.folder)
    result("\n".join(map(str, files)), files=files)
    return 0


def _run_check(arguments: argparse.Namespace) -> int:
    """Print the data sets of a folder and their problems; fail if there are any."""
    report = check_data(arguments.folder)
    print_table(report.table, title="Data sets", name="data_sets")
    for line in report.notes:
        result(f"note: {plain(line)}")
    for problem in report.problems:
        result(f"problem: {plain(' '.join(problem.split()))}")
    problems = list(report.problems)
    result(f"{counted(len(problems), 'problem')} found", notes=report.notes, problems=problems)
    return 1 if report.problems else 0


_ARCHIVES = [*ARCHIVES, *XLSA17]
_HOME = "folder of the data sets (default: ZSLEARN_DATA)"
#: Subcommand → its function, description and arguments.
OPTIONS = {
    "data": {
        "list": (_run_list, "list the data sets"),
        "show": (_run_show, "show the summary, splits and classes of a data set", *DATA_OPTIONS),
        "table": (
            _run_table,
            "show the numbers of images and classes in Table 1 of the paper, and of DATA",
            *DATA_OPTIONS,
        ),
        "fetch": (
            _run_fetch,
            "download an archive of data sets; interrupted downloads resume",
            ("name", ("NAME", partial(_known_name, names=_ARCHIVES)), ..., ", ".join(_ARCHIVES)),
            ("--to", "FOLDER", None, _HOME),
        ),
        "example": (
            _run_example,
            "write example data: coloured shapes, as a table of measurements or as pictures",
            ("kind", ["table", "pictures"], ..., "a table of measurements, or pictures"),
            ("folder", "FOLDER", ..., "output folder"),
        ),
        "check": (
            _run_check,
            "list the data sets in a folder and their problems; exits with 1 if there are any",
            ("folder", "FOLDER", None, _HOME),
        ),
    }
}
