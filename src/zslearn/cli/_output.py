"""Printing: tables and lines, plain where no terminal reads them."""

from __future__ import annotations

import sys

import pandas as pd
from rich.console import Console
from rich.table import Table

#: So many letters a number may have.
_NUMBER = 8


def print_table(table: pd.DataFrame, *, title: str) -> None:
    """Print a table of text cells: drawn on a terminal, plain columns elsewhere."""
    if not sys.stdout.isatty():
        print(title)
        print(table.to_string())
        return
    drawn = Table(title=title, title_justify="left")
    drawn.add_column(str(table.index.name or ""))
    for column in table.columns:
        # A number that is cut is a wrong number: where room is short, words are broken instead.
        short = all(len(str(cell)) <= _NUMBER for cell in table[column])
        drawn.add_column(str(column), justify="right", no_wrap=short)
    for name, row in table.iterrows():
        drawn.add_row(str(name), *(str(cell) for cell in row))
    Console().print(drawn)


def say(text: str) -> None:
    """Tell a person what is being done; on standard error, so that results can be piped."""
    print(f"{text} …", file=sys.stderr, flush=True)
