"""Printing: tables and lines, plain where no terminal reads them."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from joblib import cpu_count
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zslearn._utils._messages import plain

# Words that several commands share.


def add_jobs(parser: argparse.ArgumentParser, what: str = "folds") -> None:
    """Add `--jobs`: how many folds, or whatever else, are computed at the same time."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=cpu_count(only_physical_cores=False),
        metavar="N",
        help=f"{what} at the same time (default: one per core, here %(default)s)",
    )


#: So many letters a number may have.
_NUMBER = 8


def print_table(table: pd.DataFrame, *, title: str) -> None:
    """Print a table of text cells: drawn on a terminal, plain columns elsewhere."""
    if not sys.stdout.isatty():
        print(plain(title))
        print(table.rename(index=_safe, columns=_safe).map(_safe).to_string())
        return
    drawn = Table(title=Text(plain(title), "table.title"), title_justify="left")
    drawn.add_column(_text(table.index.name or ""))
    for column in table.columns:
        # A number that is cut is a wrong number: where room is short, words are broken instead.
        short = all(len(str(cell)) <= _NUMBER for cell in table[column])
        drawn.add_column(_text(column), justify="right", no_wrap=short)
    for name, row in table.iterrows():
        drawn.add_row(_text(name), *(_text(cell) for cell in row))
    Console().print(drawn)


def _safe(cell: Any) -> Any:
    """A cell whose text cannot steer a terminal."""
    return plain(cell) if isinstance(cell, str) else cell


def _text(cell: Any) -> Text:
    """A cell as it is: brackets in it are no markup."""
    return Text(plain(cell))


def counted(number: int, name: str, ending: str = "s") -> str:
    """A number of things, in words: "1 image", "2 images"."""
    return f"{number} {name}{'' if number == 1 else ending}"


def say(text: str) -> None:
    """Tell a person what is being done; on standard error, so that results can be piped."""
    print(f"{plain(text)} …", file=sys.stderr, flush=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings of the library, which arise within, as one line each on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            texts = [
                plain(" ".join(str(warning.message).split()))
                for warning in caught
                if issubclass(warning.category, UserWarning)
            ]
            # Labels and probabilities of the same images are warned of twice.
            for text in dict.fromkeys(texts):
                print(f"zslearn: warning: {text}", file=sys.stderr)
