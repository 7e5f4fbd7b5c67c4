"""Helpers of the commands: options defined in tables, and everything that a command prints.

Commands call :func:`note`, :func:`result` and :func:`print_table` with text for the terminal, and
with values. The active :class:`Report` prints the text, or collects the values for ``--json``.
Output that is not on a terminal is plain text, and control characters are always removed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import cpu_count
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zslearn._utils._files import atomic_write
from zslearn._utils._messages import composed, plain
from zslearn._utils._progress import quiet as quiet_progress

#: Help of options of several commands.
PRIOR = "JSON file with the prior odds of classes; other classes have odds 1"
TAXONOMY = "CSV table of classes and their taxonomic ranks, highest rank first"
#: Choices of the options for scaling.
SCALINGS = ("auto", "none", "standard", "robust", "range")
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


#: Parameter of the library → its option, if the names differ by more than a prefix "n_".
_OPTION_NAMES = {
    "unseen_classes": "unseen",
    "labels": "labels-file",
    "n_splits": "folds",
    "none_rate": "none",
    "random_state": "seed",
    "feature_norm": "row-norm",
    "accept": "always",
    "body_bytes": "max-body",
    "added_classes": "max-added",
    "seconds": "timeout",
    **{name: f"max-{name}" for name in ("pixels", "batch", "examples", "unlabelled", "in_flight")},
}
#: Parameters that messages name as options even if the command that failed lacks them.
_OF_OTHER_COMMANDS = {
    *("drop", "label", "labels", "unseen_classes", "hold_out", "features", "class_splits"),
    *("version", "signature_scaling", "feature_scaling", "backbone", "weights", "boxes"),
    *("crop", "method", "classes"),
}
#: Words that messages of the library write for Python alone, as a pattern → those for options.
_WORDS = {
    r" \(in Python: [^()]*\)": "",
    r"\b(add|remove)_class(?:es)?\b": r"\1-class",
    r"\badd_examples\b": "add-examples",
}
_VALUE = (
    r"\[(?P<list>[^\]]*)\]|(?P<word>True|False|None)\b|'(?P<text>[\w.-]+)'|"
    r"(?P<none>…?(?=[,;:).]?(?:\s|$)))"
)
_PARAMETER = re.compile(rf"(?<![\w.-])(?P<name>[a-z]\w*)=(?:{_VALUE})?")
_BARE = re.compile(r"(?<![\w.'\"/-])[a-z]+(?:_[a-z]+)+\b(?![(=])")


def in_options(message: str) -> str:
    """Convert the parameters in a message of the library to command-line options."""
    for pattern, words in _WORDS.items():
        message = re.sub(pattern, words, message)
    message = _PARAMETER.sub(lambda match: _as_option(match) or match[0], message)
    return _BARE.sub(lambda match: _option(match[0]) or match[0], message)


def _option(name: str) -> str | None:
    """The option for a parameter, if there is one."""
    names = (_OPTION_NAMES.get(name, name), name, name.removeprefix("n_"))
    options = [f"--{option.replace('_', '-')}" for option in names]
    known = (option for option in options if option in _report.get().flags)
    return next(known, options[0] if name in _OF_OTHER_COMMANDS else None)


def _as_option(match: re.Match[str]) -> str | None:
    """Write a parameter and its value as an option."""
    option = _option(match["name"])
    if option is None or match["none"] is not None:
        return option
    if match["word"] in ("True", "False"):
        return option if match["word"] == "True" else option.replace("--", "--no-", 1)
    values = (match["list"] or "").replace("', '", "' '")
    return f"{option} {values or match['text'] or ('none' if match['word'] else '')}"


def values_of(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Values of options as arguments of the library with the same names."""
    return {name: getattr(arguments, name) for name in names}


def none_of(word: str) -> str | None:
    """Convert the choice "none" to the argument None."""
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


class Report:
    """The output of a command: printed at once, or collected for one JSON document.

    With `quiet`, only results are printed: no progress, and no notes on what was done. `flags` are
    the options of the command, which messages name.
    """

    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, flags: frozenset[str] = frozenset()
    ) -> None:
        self.as_json, self.quiet, self.flags = as_json, quiet, flags
        self.values: dict[str, Any] = {}

    def print_document(self, command: str, status: int) -> None:
        """Print the values as one JSON object, if wanted."""
        if self.as_json:
            values = {"command": command, "status": status, **self.values}
            print(json.dumps(_as_json(values), ensure_ascii=False, indent=2))

    def add(self, name: str, value: Any) -> None:
        """Append to a list of values."""
        self.values.setdefault(name, []).append(value)


_report: ContextVar[Report] = ContextVar("report", default=Report())  # noqa: B039


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    """Make a report the active one."""
    token, quiet = _report.set(report), quiet_progress.set(report.quiet)
    try:
        yield
    finally:
        _report.reset(token)
        quiet_progress.reset(quiet)


def _as_json(value: Any) -> Any:
    """Convert to values of JSON: tables to lists of rows, and NaN to null."""
    if isinstance(value, pd.DataFrame):
        is_named = value.index.name is not None or not isinstance(value.index, pd.RangeIndex)
        value = (value.reset_index() if is_named else value).to_dict("records")
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pd.Series)):
        return [_as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def result(text: str, /, **values: Any) -> None:
    """Print what the command was called for; the values are for ``--json``."""
    report = _report.get()
    report.values |= values
    if text and not report.as_json:
        print(plain(text, lines=True))


def note(text: str = "", /, **values: Any) -> None:
    """Say what was done, which ``--quiet`` omits; the values are for ``--json``."""
    result("" if _report.get().quiet else text, **values)


def wrote(path: Path | str, what: str = "") -> None:
    """Say that a file was written, and what it holds."""
    note(f"wrote {plain(path)}{what and f': {what}'}")
    _report.get().add("files", path)


def write_csv(table: pd.DataFrame, path: Path, what: str = "", *, index: bool = False) -> None:
    """Write a table whose numbers have six digits, and say so."""
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index=index, float_format="%.6g")
    wrote(path, what)


def say(text: str, ending: str = " …") -> None:
    """Print a message on standard error, so that results can be piped; by default progress."""
    if not _report.get().quiet:
        print(f"{plain(text)}{ending}", file=sys.stderr, flush=True)


def is_printed() -> bool:
    """Whether text is printed, and not one JSON document."""
    return not _report.get().as_json


def filled(text: str, width: int = 80) -> str:
    """Wrap paragraphs, with blank lines between them."""
    return "\n\n".join(textwrap.fill(line, width) for line in text.splitlines())


def explained(text: str) -> None:
    """Print an explanation below a table."""
    note(filled(text))


def print_table(
    table: pd.DataFrame, *, title: str, name: str = "rows", values: pd.DataFrame | None = None
) -> None:
    """Print a table, with borders on a terminal and as plain columns elsewhere.

    ``--json`` has the rows, or those of `values`, under the name. Numbers have three digits.
    """
    report = _report.get()
    report.values[name] = table if values is None else values
    if report.as_json:
        return
    table = table.map(_cell)
    if not sys.stdout.isatty():
        result(f"{plain(title)}\n{table.to_string()}")
        return
    drawn = Table(title=Text(plain(title), "table.title"), title_justify="left")
    drawn.add_column(_text(table.index.names[0] or ""))
    for column in table.columns:
        short = all(len(str(cell)) <= _MAX_NUMBER_WIDTH for cell in table[column])
        drawn.add_column(_text(column), justify="right", no_wrap=short)
    for label, row in table.iterrows():
        drawn.add_row(_text(label), *(_text(cell) for cell in row))
    Console().print(drawn)


def _cell(value: Any) -> Any:
    """A number with three digits; a missing one is empty."""
    if isinstance(value, (float, np.floating)):
        return "" if math.isnan(value) else f"{value:.3f}"
    return "" if value is None else value


def _text(cell: Any) -> Text:
    """A cell without markup, so that brackets are shown as they are."""
    return Text(plain(cell))


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Format a count with its noun: "1 image", "2 images"."""
    return f"{number} {noun}{'' if number == 1 else ending}"


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print each distinct warning once, as a line on standard error."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        text = plain(" ".join(in_options(str(message)).split()))
        if issubclass(category, UserWarning) and text not in shown:
            shown.add(text)
            _report.get().add("warnings", text)
            print(f"zslearn: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
