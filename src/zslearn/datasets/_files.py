"""What all readers of files from outside share: how much memory reading one may take.

A few bytes can claim to be gigabytes: compressed zeros, one huge chunk, a million empty members.
Readers look at the sizes that a file declares before they take memory for them, and draw all of
it from one :class:`Budget` per file.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import platformdirs

from zslearn._utils._messages import name_some, plain
from zslearn._utils._rows import separator_hint

# Where data sets lie.

DATA_VARIABLE = "ZSLEARN_DATA"


def data_home(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return `folder`, else the folder named by ``ZSLEARN_DATA``, else the user's data folder."""
    chosen = folder or os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("zslearn")
    return Path(chosen).expanduser()


#: Without another limit a file may take this multiple of its size, and this much beside.
MULTIPLE = 64
BESIDE = 64 * 2**20
#: The environment variable that sets another limit, in bytes.
VARIABLE = "ZSLEARN_MAX_BYTES"

_chosen: ContextVar[int | None] = ContextVar("max_bytes", default=None)


class FileLimitError(ValueError):
    """Reading a file would take more memory than is allowed."""


@contextmanager
def limit_reading(max_bytes: int | None) -> Iterator[None]:
    """Set the most memory that reading a file may take, for every file read within."""
    if max_bytes is None:
        yield
        return
    token = _chosen.set(_checked(max_bytes, "max_bytes"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _checked(value: int | str, name: str) -> int:
    if isinstance(value, bool | float) or not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"{name}={value!r}; give a number of bytes, for example {8 * 2**30}.")
    return int(value)


class Budget:
    """The memory that reading one file may take.

    Parameters
    ----------
    path : Path
        The file.
    max_bytes : int or None, default=None
        The limit in bytes. None: what :func:`limit_reading` set, else the environment variable
        ``ZSLEARN_MAX_BYTES``, else 64 times the size of the file and 64 MiB.
    file_size : int or None, default=None
        The size of all files of a store; None is that of the one file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.datasets._files import Budget
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     Budget(Path(file.name)).limit // 2**20
    64
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, *, file_size: int | None = None
    ) -> None:
        self.path = path
        self.file_size = path.stat().st_size if file_size is None else file_size
        self._taken = 0
        chosen = _checked(max_bytes, "max_bytes") if max_bytes is not None else _chosen.get()
        if chosen is None and (value := os.environ.get(VARIABLE, "").strip()):
            chosen = _checked(value, VARIABLE)
        self._is_chosen = chosen is not None
        self.limit = chosen if chosen is not None else MULTIPLE * self.file_size + BESIDE

    @property
    def left(self) -> int:
        """What may still be taken, in bytes."""
        return self.limit - self._taken

    def take(self, n_bytes: int) -> None:
        """Count memory that stays taken; refuse it before it is, if it is too much."""
        self.check(n_bytes)
        self._taken += n_bytes

    def check(self, n_bytes: int) -> None:
        """Refuse memory that is needed for a while, if it is too much."""
        if n_bytes <= self.left:
            return
        allowed = _amount(self.limit)
        if not self._is_chosen:
            allowed += f" allowed for a file of {_amount(self.file_size)}"
        raise FileLimitError(
            f"{self.path}: reading it takes about {_amount(self._taken + n_bytes)} of memory, more "
            f"than the {allowed}; the file is damaged or made to do harm. If you trust it, allow "
            f"more: max_bytes={self._taken + n_bytes}, or the environment variable {VARIABLE}."
        )


def _amount(n_bytes: int) -> str:
    """A number of bytes in words."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if n_bytes >= 2**power:
            return f"{n_bytes / 2**power:.3g} {unit}"
    return f"{n_bytes} bytes"


def reason(error: Exception) -> str:
    """What another library says of a file, in one line that is not too long."""
    return plain(str(error).partition("\n")[0].rstrip("."), 300) or type(error).__name__


# Tables in text files ``.csv``: one header or none, and rows of one length.
#
# pandas reads the numbers. What it forgives is refused before: where it meets a row with a field
# too many it takes the first column for an index and moves all others by one place, and it pads
# short rows and renames repeated columns without a word.

#: What pandas takes for a column besides its cells, and for a cell, in bytes.
_COLUMN_BYTES = 3072
_CELL_BYTES = 64
_OTHER_ENCODINGS = {
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32",
}  # fmt: skip
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class _Scan:
    """First row of a text table, and the number of its rows in all."""

    first: list[str]
    n_rows: int


def read_csv(path: Path, options: Callable[[list[str]], dict[str, Any]]) -> pd.DataFrame:
    """Read a table from a text file."""
    budget = Budget(path)
    scan = _scan(path)
    arguments = options(scan.first)
    n_columns, has_header = len(scan.first), "header" not in arguments
    if has_header:
        _refuse_last_comma(scan.first, path)
        _refuse_repeated(scan.first, path)
    budget.take(n_columns * (_COLUMN_BYTES + _CELL_BYTES * scan.n_rows) + 2 * budget.file_size)
    try:
        # "NA" and "nan" may be names of classes; only what is empty is missing.
        table = pd.read_csv(
            path, index_col=False, keep_default_na=False, na_values=[""], **arguments
        )
    # The parsers of single cells have errors of their own.
    except Exception as error:
        raise ValueError(f"{plain(path)}: the table cannot be read ({reason(error)}).") from error
    if table.shape != (scan.n_rows - has_header, n_columns):
        raise ValueError(
            f"{plain(path)}: the table cannot be read: by its quotes and ends of line it has "
            f"{scan.n_rows - has_header} rows or {len(table)}. Write it anew, for example with "
            "pandas."
        )
    return table


def _scan(path: Path) -> _Scan:
    """Go through all rows; refuse the first that is not as long as the others."""
    first: list[str] | None = None
    n_rows = 0
    _refuse_other_encodings(path)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(_checked_lines(file, path))
        try:
            for row in reader:
                if not row or (len(row) == 1 and row[0] and not row[0].strip(" \t")):
                    continue  # a blank line
                first = row if first is None else first
                if len(row) != len(first):
                    raise ValueError(
                        _wrong_length(row, first, f"{plain(path)}: line {reader.line_num}")
                    )
                n_rows += 1
        except csv.Error as error:
            raise ValueError(
                f"{plain(path)}: line {reader.line_num}: the table cannot be read ({error})."
            ) from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{plain(path)}: behind line {reader.line_num} there is text that is not UTF-8 "
                f"({error.reason}); save the table as UTF-8."
            ) from error
    if first is None:
        raise ValueError(f"{plain(path)}: the table cannot be read: the file is empty.")
    return _Scan(first, n_rows)


def _refuse_other_encodings(path: Path) -> None:
    with open(path, "rb") as file:
        start = file.read(4)
    for mark, encoding in _OTHER_ENCODINGS.items():
        if start.startswith(mark):
            raise ValueError(f"{plain(path)}: the text is in {encoding}; save the table as UTF-8.")


def _checked_lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file; invisible characters that would become part of a name are refused."""
    for number, line in enumerate(file, 1):
        if _BYTE_ORDER_MARK in line:
            raise ValueError(
                f"{plain(path)}: line {number} has a byte order mark (U+FEFF) within the text, as "
                "files that were put together have; remove it."
            )
        if "\0" in line:
            raise ValueError(
                f"{plain(path)}: line {number} has a zero byte; the file is damaged, or not in "
                "UTF-8."
            )
        yield line


def _wrong_length(row: list[str], first: list[str], where: str) -> str:
    problem = f"{where} has {len(row)} fields and the first line {len(first)}"
    if len(row) == len(first) + 1 and not row[-1]:
        return f"{problem}: it ends in a comma. Remove the comma."
    if hint := separator_hint(first):
        return f"{problem}.{hint}"
    return f"{problem}; give every line one field per column, and quote fields with commas."


def _refuse_last_comma(header: list[str], path: Path) -> None:
    if len(header) > 1 and not header[-1]:
        raise ValueError(
            f"{plain(path)}: the header ends in a comma, so that the last column has no name. "
            "Remove the comma there and at the end of every line, or name the column."
        )


def _refuse_repeated(header: list[str], path: Path) -> None:
    places: dict[str, int] = {}
    repeated: dict[str, None] = {}
    for place, name in enumerate(header):
        if name and places.setdefault(name, place) != place:
            repeated[name] = None
    if repeated:
        raise ValueError(
            f"{plain(path)}: the header names {name_some(repeated)} more than once; give each "
            "column its own name."
        )


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not blank, without space around them."""
    _refuse_other_encodings(path)
    Budget(path).take(32 * path.stat().st_size)
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in _checked_lines(file, path)]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{plain(path)}: the text is not UTF-8 ({error.reason}); save it as UTF-8."
        ) from error
    return [line for line in lines if line]
