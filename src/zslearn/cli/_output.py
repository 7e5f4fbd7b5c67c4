"""What the commands share: options from a table, printed tables and lines.

Output is plain where no terminal reads it, and text from elsewhere never steers the terminal.
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

#: Help of options that several commands have.
PRIOR = "a .json of the odds of classes at this place; others have 1"
TAXONOMY = "a table .csv of classes and their ranks, from the highest to the lowest"
#: How columns are standardised.
SCALINGS = ("auto", "none", "standard", "range")
#: A number that is cut is a wrong number: columns of cells up to this length are not wrapped.
_NUMBER = 8


#: The type of an argument by what it is called in the help; others are text.
_TYPES: dict[str, Any] = {"CLASS": composed, "K": int, "SEED": int, "SHARE": float, "W": float}
_TYPES |= dict.fromkeys(("FILE", "FOLDER", "IMAGES", "IMAGES|TABLE", "MODEL", "RUNS"), Path)


def add_options(parser: argparse.ArgumentParser, *rows: Any) -> None:
    """Add arguments from rows (words, kind, default, help); a text begins a group of that title.

    The kind is int or float, bool for a switch, a list of choices, the name of the value in the
    help, or a pair of its name and type. "…" behind a name, or `...` behind choices, takes several
    words. An argument whose default is `...` must be given.
    """
    target: Any = parser
    for row in rows:
        if isinstance(row, str):
            target = parser.add_argument_group(row)
            continue
        words, kind, default, text = row
        settings: dict[str, Any] = {"help": text, "default": None if default is ... else default}
        if words.startswith("-"):
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
        target.add_argument(*words.split(), **settings)


#: Arguments of the library that options of other names stand for.
_OTHER_NAMES = {"unseen_classes": "unseen", "labels": "labels-file"}
#: Lines of Python that an option stands for.
_CODE = {
    "signatures = zslearn.signatures.attribute_signatures(signatures, "
    "signature_scaling='standard')": "signature_scaling=standard",
    "sklearn.pipeline.make_pipeline(StandardScaler(), method)": "feature_scaling=standard",
    "'standard', or make_pipeline(StandardScaler(), method)": "standard",
}
_ARGUMENT = re.compile(
    r"\b(drop|label|labels|unseen_classes|hold_out|features|class_splits|version|part|"
    r"signature_scaling|feature_scaling|backbone|weights|boxes|crop|method)=(?:\[([^\]]*)\]|(?![,;:)…]|\.?(?:\s|$))())?"
)


def in_options(message: str) -> str:
    """A message of the library in which arguments are called as the options of a command are."""
    for code, argument in _CODE.items():
        message = message.replace(code, argument)
    found = _ARGUMENT.sub(_as_option, message)
    return re.sub(r"\bunseen_classes\b", "--unseen", found).replace(
        "-scaling None", "-scaling none"
    )


def _as_option(match: re.Match[str]) -> str:
    """An option and its values, each a word of its own; no blank where none follows."""
    option = "--" + _OTHER_NAMES.get(match[1], match[1]).replace("_", "-")
    if match[2]:
        return f"{option} {match[2]}".replace("', '", "' '")
    return option if match[3] is None else f"{option} "


def values_of(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What some options say, as arguments of the library that have their names."""
    return {name: getattr(arguments, name) for name in names}


def scaling(word: str) -> str | None:
    """What a word of `SCALINGS` says, as an argument of the library."""
    return None if word == "none" else word


def import_from_working_folder(methods: Iterable[str]) -> None:
    """Make modules in the working folder importable where a method is named as module:Class."""
    if any(":" in name for name in methods) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def jobs(what: str = "folds") -> tuple[Any, ...]:
    """The option `--jobs`: how many folds, or whatever else, are computed at the same time."""
    cores = cpu_count(only_physical_cores=False)
    return ("--jobs", int, cores, f"{what} at the same time, one per core by default")


#: The option `--seeds`, one or several.
SEEDS = "with several, tables show mean and standard deviation (default: 0)"


def print_table(table: pd.DataFrame, *, title: str) -> None:
    """Print a table of text cells: drawn on a terminal, plain columns elsewhere."""
    if not sys.stdout.isatty():
        print(plain(title))
        print(table.rename(index=_safe, columns=_safe).map(_safe).to_string())
        return
    drawn = Table(title=Text(plain(title), "table.title"), title_justify="left")
    drawn.add_column(_text(table.index.names[0] or ""))
    for column in table.columns:
        short = all(len(str(cell)) <= _NUMBER for cell in table[column])
        drawn.add_column(_text(column), justify="right", no_wrap=short)
    for name, row in table.iterrows():
        drawn.add_row(_text(name), *(_text(cell) for cell in row))
    Console().print(drawn)


def _safe(cell: Any) -> Any:
    return plain(cell) if isinstance(cell, str) else cell


def _text(cell: Any) -> Text:
    """A cell as it is: brackets in it are no markup."""
    return Text(plain(cell))


def counted(number: int, name: str, ending: str = "s") -> str:
    """A number of things, in words: "1 image", "2 images"."""
    return f"{number} {name}{'' if number == 1 else ending}"


def say(text: str) -> None:
    """Say on standard error what is being done, so that results can be piped."""
    print(f"{plain(text)} …", file=sys.stderr, flush=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show each warning within once, as a line on standard error; `main` does so of a command."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        text = plain(" ".join(in_options(str(message)).split()))
        if issubclass(category, UserWarning) and text not in said:
            said.add(text)
            print(f"zslearn: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
