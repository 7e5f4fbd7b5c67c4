"""Helpers of the commands: options defined in tables, and printed tables and lines.

Output that is not on a terminal is plain text, and control characters are always removed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import cpu_count
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zslearn._utils._messages import composed, plain

#: Help of options of several commands.
PRIOR = "JSON file with the prior odds of classes; other classes have odds 1"
TAXONOMY = "CSV table of classes and their taxonomic ranks, highest rank first"
#: Choices of the options for scaling.
SCALINGS = ("auto", "none", "standard", "range")
#: Columns with cells up to this length are never wrapped, since they hold numbers.
_MAX_NUMBER_WIDTH = 8

#: Name of a value in the help → its type; other values are text.
_TYPES: dict[str, Any] = {"CLASS": composed, "K": int, "SEED": int, "SHARE": float, "W": float}
_TYPES |= dict.fromkeys(("FILE", "FOLDER", "IMAGES", "IMAGES|TABLE", "MODEL", "RUNS"), Path)


def add_options(parser: argparse.ArgumentParser, *rows: Any) -> None:
    """Add arguments from rows (flags, kind, default, help); a string starts a group of options.

    The kind is int or float, bool for a flag, a list of choices, the name of the value in the
    help, or a pair of this name and its type. "…" after a name, or `...` after choices, allows
    several values. An argument with the default `...` is required.
    """
    target: Any = parser
    for row in rows:
        if isinstance(row, str):
            target = parser.add_argument_group(row)
            continue
        flags, kind, default, text = row
        settings: dict[str, Any] = {"help": text, "default": None if default is ... else default}
        if flags.startswith("-"):
            settings["required"] = default is ...
        elif default is not ...:
            settings["nargs"] = "?"
        if kind is bool:
            settings["action"] = argparse.BooleanOptionalAction if default else "store_true"
        elif kind in (int, float):
            settings |= {"type": kind, "metavar": "N"}
        elif isinstance(kind, str):
            name = kind.removesuffix("…")
            settings |= {"metavar": name, "type": _TYPES.get(name, str)}
            settings |= {"nargs": "+"} if name != kind else {}
        else:
            *_, last = kind
            if callable(last):
                settings |= {"metavar": kind[0], "type": last}
            else:
                settings["choices"] = [choice for choice in kind if choice is not ...]
                settings |= {"nargs": "+"} if last is ... else {}
        if isinstance(default, (str, int, float, Path)) and kind is not bool:
            settings["help"] += " (default: %(default)s)"
        target.add_argument(*flags.split(), **settings)


#: Parameter of the library → its option, if the names differ.
_OPTION_NAMES = {"unseen_classes": "unseen", "labels": "labels-file"}
#: Python code in messages of the library → the option to use instead.
_CODE = {
    "signatures = zslearn.signatures.attribute_signatures(signatures, "
    "signature_scaling='standard')": "signature_scaling=standard",
    "sklearn.pipeline.make_pipeline(StandardScaler(), method)": "feature_scaling=standard",
    "'standard', or make_pipeline(StandardScaler(), method)": "standard",
}
_PARAMETER = re.compile(
    r"\b(drop|label|labels|unseen_classes|hold_out|features|class_splits|version|part|"
    r"signature_scaling|feature_scaling|backbone|weights|boxes|crop|method)=(?:\[([^\]]*)\]|(?![,;:)…]|\.?(?:\s|$))())?"
)


def in_options(message: str) -> str:
    """Convert the parameters in a message of the library to command-line options."""
    for code, argument in _CODE.items():
        message = message.replace(code, argument)
    found = _PARAMETER.sub(_as_option, message)
    return re.sub(r"\bunseen_classes\b", "--unseen", found).replace(
        "-scaling None", "-scaling none"
    )


def _as_option(match: re.Match[str]) -> str:
    """Format an option and its values."""
    option = "--" + _OPTION_NAMES.get(match[1], match[1]).replace("_", "-")
    if match[2]:
        return f"{option} {match[2]}".replace("', '", "' '")
    return option if match[3] is None else f"{option} "


def values_of(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Values of options as arguments of the library with the same names."""
    return {name: getattr(arguments, name) for name in names}


def scaling(word: str) -> str | None:
    """Convert one of `SCALINGS` to an argument of the library."""
    return None if word == "none" else word


def import_from_working_folder(methods: Iterable[str]) -> None:
    """Make modules in the working folder importable if a method is given as module:Class."""
    if any(":" in name for name in methods) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def jobs(what: str = "folds") -> tuple[Any, ...]:
    """The option `--jobs`, with what is computed in parallel."""
    cores = cpu_count(only_physical_cores=False)
    return ("--jobs", int, cores, f"{what} to compute in parallel, one per core by default")


#: Help of the option `--seeds`.
SEEDS = "random seeds; with several, tables show mean and standard deviation (default: 0)"


def print_table(table: pd.DataFrame, *, title: str) -> None:
    """Print a table of strings, with borders on a terminal and as plain columns elsewhere."""
    if not sys.stdout.isatty():
        print(plain(title))
        print(table.rename(index=_safe, columns=_safe).map(_safe).to_string())
        return
    drawn = Table(title=Text(plain(title), "table.title"), title_justify="left")
    drawn.add_column(_text(table.index.names[0] or ""))
    for column in table.columns:
        short = all(len(str(cell)) <= _MAX_NUMBER_WIDTH for cell in table[column])
        drawn.add_column(_text(column), justify="right", no_wrap=short)
    for name, row in table.iterrows():
        drawn.add_row(_text(name), *(_text(cell) for cell in row))
    Console().print(drawn)


def _safe(cell: Any) -> Any:
    return plain(cell) if isinstance(cell, str) else cell


def _text(cell: Any) -> Text:
    """A cell without markup, so that brackets are shown as they are."""
    return Text(plain(cell))


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Format a count with its noun: "1 image", "2 images"."""
    return f"{number} {noun}{'' if number == 1 else ending}"


def say(text: str) -> None:
    """Print a progress message on standard error, so that results can be piped."""
    print(f"{plain(text)} …", file=sys.stderr, flush=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each distinct warning once, as a line on standard error."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        text = plain(" ".join(in_options(str(message)).split()))
        if issubclass(category, UserWarning) and text not in shown:
            shown.add(text)
            print(f"zslearn: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
