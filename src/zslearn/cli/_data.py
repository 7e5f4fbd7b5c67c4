"""`zslearn data`, and the options with which commands select a data set."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn import datasets
from zslearn._utils._messages import did_you_mean, name_some, plain
from zslearn.cli import _output as out

_GLYPHS = "225 Latin letters in 16 typefaces, rendered locally; no download"
_NAMES = ("glyphs", *datasets.XLSA17)


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
    ("--feature-scaling", out.SCALINGS, None, "scaling of the features (default: auto)"),
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
    ("--signature-scaling", out.SCALINGS, None, _SCALING),
    *_NAMED,
    "your own data",
    *_OWN,
)


def load_named(arguments: argparse.Namespace) -> datasets.ZeroShotDataset:
    """Load the data set and the splits selected by `DATA_OPTIONS`; the first split is active."""
    if arguments.name is None and arguments.split and arguments.split[-1] in _NAMES:
        name = arguments.split[-1]
        raise ValueError(f"{name} was read as a split; put it before --split.")
    is_named = arguments.name in _NAMES
    if option := _given(arguments, _OWN if is_named else _NAMED):
        which = "your own data" if is_named else "data sets known by name"
        raise ValueError(f"{option} is for {which}, not for {arguments.name or 'your own data'}.")
    if not is_named:
        return _load_own(arguments)
    words = arguments.signatures
    table = Path(words[0]) if words and len(words) == 1 and Path(words[0]).is_file() else None
    if arguments.name == "glyphs":
        if words is not None and table is None:
            raise ValueError("--signatures of glyphs takes one table (.csv, .parquet).")
        data = _load_glyphs(arguments)
    else:
        data = datasets.load_xlsa17(
            arguments.name,
            features=arguments.features or "res101.mat",
            split=arguments.split or "ns",
            signatures=(None if table else _unwrapped(words)) or "original_att",
            signature_scaling=out.none_of(arguments.signature_scaling or "none"),
            **out.values_of(arguments, "version", "class_splits", "hold_out"),
        )
    if table is None:
        return data
    signatures = datasets.read_signature_table(table)
    if lacking := [label for label in data.signatures.index if label not in signatures.index]:
        raise ValueError(f"{plain(table)} has no row for {name_some(lacking)} of {data.name}.")
    described = data.with_signatures(signatures.loc[list(data.signatures.index)])
    return replace(described, semantic=table.stem)


def _given(arguments: argparse.Namespace, rows: Iterable[tuple[Any, ...]]) -> str | None:
    """The first option of `rows` that is given."""
    options = (row[0].split()[0] for row in rows)
    names = ((option, option.removeprefix("--").replace("-", "_")) for option in options)
    return next((option for option, name in names if getattr(arguments, name) is not None), None)


def _unwrapped(words: list[str] | None) -> str | list[str] | None:
    return words[0] if words and len(words) == 1 else words


def _load_glyphs(arguments: argparse.Namespace) -> datasets.ZeroShotDataset:
    """Load the glyphs with the chosen splits."""
    if option := _given(arguments, (*_NAMED[1:], *DATA_OPTIONS[2:4])):
        raise ValueError(f"{option} cannot be used with glyphs, whose files are fixed.")
    data = datasets.load_glyphs(progress=True)
    class_splits = [name for name in data.splits if name.startswith("ss-")]
    chosen = [class_splits if name == "ss" else [name] for name in arguments.split or ["ns"]]
    return data.with_splits(list(dict.fromkeys(name for names in chosen for name in names)))


def _load_own(arguments: argparse.Namespace) -> datasets.ZeroShotDataset:
    """Load the user's own data from a folder, a table or several files."""
    source = arguments.name if arguments.features_file is None else arguments.features_file
    if source is None:
        raise ValueError(
            "No data: name a data set, a folder or a table, or give --features-file, --labels-file "
            "and --signatures."
        )
    if arguments.name is not None and arguments.features_file is not None:
        raise ValueError(f"Give {arguments.name} or --features-file, not both.")
    signatures, hold_out = _unwrapped(arguments.signatures), arguments.hold_out
    if isinstance(signatures, list):
        raise ValueError("--signatures: give one table; zslearn signatures combine makes one.")
    if isinstance(hold_out, str):
        raise ValueError(
            f"--hold-out {hold_out}: for your own data, give a share between 0 and 1, such as 0.2."
        )
    if Path(source).is_dir() and any(Path(source).glob(f"n{8 * '[0-9]'}.*")):
        others = (arguments.labels_file, arguments.label, arguments.unseen, arguments.drop)
        if signatures is None or any(word is not None for word in others):
            raise ValueError(f"{source} has one file per class; give only --signatures with it.")
        return datasets.load_imagenet(
            source, datasets.read_signature_table(signatures), test_seen=hold_out or 0
        )
    return datasets.load_table(
        source,
        arguments.labels_file,
        signatures,
        label=arguments.label,
        # A single value may be a file.
        unseen_classes=_unwrapped(arguments.unseen),
        hold_out=0.2 if hold_out is None else hold_out,
        drop=arguments.drop or (),
        signature_scaling=out.none_of(arguments.signature_scaling or "auto"),
        feature_scaling=out.none_of(arguments.feature_scaling or "auto"),
    )


def _run_list(arguments: argparse.Namespace) -> None:
    """List the data sets."""
    rows = {"glyphs": (_GLYPHS, "yes")}
    rows |= {name: (found.about, found.status()) for name, found in datasets.XLSA17.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["description", "available"])
    out.print_table(table.rename_axis("name"), title="Data sets", name="data_sets")


def _run_show(arguments: argparse.Namespace) -> None:
    """Show the summary, splits and classes of a data set."""
    data = load_named(arguments)
    splits = []
    for name in data.splits:
        shown = data.with_split(name)
        split = shown.active_split
        classes = {"seen_classes": split.seen_classes, "unseen_classes": split.unseen_classes}
        out.result(str(shown))
        out.result(f"seen classes    {' '.join(map(plain, shown.seen_classes))}")
        out.result(f"unseen classes  {' '.join(map(plain, shown.unseen_classes))}")
        parts = ("train", "test_seen", "test_unseen")
        sizes = {f"n_{part}": len(getattr(split, part)) for part in parts}
        splits.append({"name": name, "version": split.version, **sizes, **classes})
    about = {"features": data.features, "n_samples": len(data.y), "n_features": data.X.shape[1]}
    out.note(name=data.name, **about, splits=splits)


def _run_table(arguments: argparse.Namespace) -> None:
    """Show the numbers of images and classes in Table 1 of the paper, and of DATA."""
    # Imported late, since it loads every method.
    from zslearn.experiments import dataset_table

    is_named = arguments.name is not None or arguments.features_file is not None
    table = dataset_table(load_named(arguments) if is_named else None)
    title = "Data sets and their class splits"
    out.print_table(table.map("{:,}".format), title=title, name="data_sets", values=table)


def _run_fetch(arguments: argparse.Namespace) -> None:
    """Download an archive of data sets; interrupted downloads resume."""
    folder = datasets.fetch_archive(arguments.name, arguments.to, progress=True, say=out.say)
    out.result(str(folder), folder=folder)


def _run_example(arguments: argparse.Namespace) -> None:
    """Write example data: coloured shapes, as a table of measurements or as pictures."""
    files = datasets.write_example(arguments.kind, arguments.folder)
    out.result("\n".join(map(str, files)), files=files)


def _run_check(arguments: argparse.Namespace) -> int:
    """List the data sets in a folder and their problems; exits with 1 if there are any."""
    report = datasets.check_data(arguments.folder)
    out.print_table(report.table, title="Data sets", name="data_sets")
    for line in report.notes:
        out.result(f"note: {plain(line)}")
    for problem in report.problems:
        out.result(f"problem: {' '.join(problem.split())}")
    found = {"notes": report.notes, "problems": list(report.problems)}
    out.result(f"{out.counted(len(report.problems), 'problem')} found", **found)
    return 1 if report.problems else 0


_ARCHIVES = [*datasets.ARCHIVES, *datasets.XLSA17]
_HOME = "folder of the data sets (default: ZSLEARN_DATA)"
OPTIONS = {
    "data": {
        "list": (_run_list,),
        "show": (_run_show, *DATA_OPTIONS),
        "table": (_run_table, *DATA_OPTIONS),
        "fetch": (
            _run_fetch,
            ("name", ("NAME", partial(_known_name, names=_ARCHIVES)), ..., ", ".join(_ARCHIVES)),
            ("--to", "FOLDER", None, _HOME),
        ),
        "example": (
            _run_example,
            ("kind", ["table", "pictures"], ..., "a table of measurements, or pictures"),
            ("folder", "FOLDER", ..., "output folder"),
        ),
        "check": (_run_check, ("folder", "FOLDER", None, _HOME)),
    }
}
