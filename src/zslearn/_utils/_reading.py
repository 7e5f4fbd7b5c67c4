"""What readers of data files share: where data lies, how much memory a file may take, text tables.

A damaged file can claim to be gigabytes. Readers compare the sizes that a file declares with one
:class:`Budget` per file before they take memory for them.
"""

from __future__ import annotations

import codecs
import csv
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import platformdirs

from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, plain

_logger = logging.getLogger("zslearn")

DATA_VARIABLE = "ZSLEARN_DATA"


def data_home(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return `folder`, else the folder named by ``ZSLEARN_DATA``, else the user's data folder."""
    chosen = folder or os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("zslearn")
    return Path(chosen).expanduser()


#: Without another limit a file may take this multiple of its size, and this much beside.
SIZE_MULTIPLE = 64
SIZE_ALLOWANCE = 64 * 2**20
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
    token = _chosen.set(_number_of_bytes(max_bytes, "max_bytes"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _number_of_bytes(value: int | str, name: str) -> int:
    if isinstance(value, bool | float) or not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"{name}={value!r}; give a number of bytes, for example {8 * 2**30}.")
    return int(value)


class Budget:
    """The memory that reading one file may take, or a store of files of a size together.

    The limit is `max_bytes`, else what :func:`limit_reading` set, else the environment variable
    ``ZSLEARN_MAX_BYTES``, else 64 times the size of the file and 64 MiB.
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, *, file_size: int | None = None
    ) -> None:
        self.path = path
        self.file_size = regular_size(path) if file_size is None else file_size
        self._taken = 0
        chosen = (
            _number_of_bytes(max_bytes, "max_bytes") if max_bytes is not None else _chosen.get()
        )
        if chosen is None and (value := os.environ.get(VARIABLE, "").strip()):
            chosen = _number_of_bytes(value, VARIABLE)
        self._is_chosen = chosen is not None
        self.limit = (
            chosen if chosen is not None else SIZE_MULTIPLE * self.file_size + SIZE_ALLOWANCE
        )

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
            f"more with the environment variable {VARIABLE}={self._taken + n_bytes} (max_bytes= in "
            "Python)."
        )


def _amount(n_bytes: int) -> str:
    """A number of bytes in words."""
    power = min(4, max(0, n_bytes.bit_length() - 1) // 10)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{n_bytes / 2 ** (10 * power):.3g} {unit}" if power else f"{n_bytes} bytes"


def reason(error: Exception) -> str:
    """What another library says of a file, in one line that is not too long."""
    return plain(str(error).partition("\n")[0].rstrip("."), 300) or type(error).__name__


@contextmanager
def reading(where: object, what: str = "it") -> Iterator[None]:
    """Name the file in whatever error a library raises: a damaged one can raise nearly any."""
    try:
        yield
    except (FileLimitError, ImportError):
        raise
    except Exception as error:
        raise ValueError(f"{plain(where)}: {what} cannot be read ({reason(error)}).") from error


# ---------------------------------------------------------------------- tables in text files

#: What pandas takes for a column besides its cells, and for a cell, in bytes.
_COLUMN_BYTES = 3072
_CELL_BYTES = 64
#: A list of files or classes that is larger is none that a person made.
_MAX_LIST = 512 * 2**20


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written; None is recognised from the file."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None


_NOT_GIVEN = TextFormat()
_format: ContextVar[TextFormat] = ContextVar("text_format", default=_NOT_GIVEN)


@contextmanager
def text_format(
    sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Iterator[None]:
    """Set separator, decimal sign and encoding of every text table read within."""
    sep = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
    if sep is not None and len(sep) != 1:
        raise ValueError(f"sep={sep!r} must be one character, such as ';' or 'tab'.")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal={decimal!r} must be '.' or ','.")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ValueError(
                f"encoding={encoding!r} is unknown; use a name such as utf-8 or cp1252."
            ) from None
    token = _format.set(TextFormat(sep, decimal, encoding))
    try:
        yield
    finally:
        _format.reset(token)


#: Separators in the order of preference.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+(e[-+]?\d+)?", re.IGNORECASE)
_DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)
#: Rows from which separator and decimal sign are recognised.
_FORMAT_ROWS = 200


@lru_cache(maxsize=64)
def _recognised(path: Path, stamp: tuple[int, int], given: TextFormat) -> TextFormat:
    """Recognise how a table is written; what is unusual is logged."""
    with open(path, "rb") as file:
        start = file.read(1 << 20)
        encoding, notes = given.encoding or _encoding(start, file), []
    text = start.decode(encoding, errors="replace")
    lines = text.splitlines()[: None if len(start) < 1 << 20 else -1][:_FORMAT_ROWS]
    parsed = {sign: _parse(lines, sign) for sign in ([given.sep] if given.sep else _SEPARATORS)}
    sep = max(parsed, key=lambda sign: _plausibility(parsed[sign], sign))
    cells = [cell.strip() for row in parsed[sep] for cell in row]
    commas = sum(_DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(
        _DECIMAL_POINT.fullmatch(cell) is not None and re.fullmatch(r"\d{1,3}\.\d{3}", cell) is None
        for cell in cells
    )
    decimal = given.decimal or ("," if commas > points else ".")
    if sep != "," and given.sep is None:
        notes.append(f"fields are separated by {_SEPARATORS[sep]}")
    if decimal == "," and given.decimal is None:
        notes.append("numbers have decimal commas")
    if encoding not in ("utf-8", "utf-8-sig") and given.encoding is None:
        notes.append(f"the text is read as {encoding}")
    if notes:
        options = "sep, decimal and encoding override this"
        _logger.info("%s: %s (%s)", plain(path), ", ".join(notes), options)
    return TextFormat(sep, decimal, encoding)


def _format_of(path: Path) -> TextFormat:
    status = path.stat()
    return _recognised(path, (status.st_size, status.st_mtime_ns), _format.get())


def _encoding(start: bytes, file: Any) -> str:
    """UTF-8, UTF-16 by its byte order mark, or the Windows code page of western Europe."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        block = start
        while block:
            decoder.decode(block)
            block = file.read(1 << 20)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        # Control characters of the code page C1 are in no text.
        is_text = not re.search(rb"[\x00-\x08\x81\x8d\x8f\x90\x9d]", start)
        return "cp1252" if is_text else "utf-8-sig"
    return "utf-8-sig"


def _parse(lines: list[str], sep: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=sep) if row]
    except csv.Error:
        return []


def _plausibility(rows: list[list[str]], sep: str) -> tuple[bool, float]:
    """How well a separator fits: rows of one length, and cells without other separators."""
    if not rows or len(rows[0]) < 2:
        return False, 0.0
    same = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
    cells = [cell.strip() for row in rows for cell in row]
    others = set(_SEPARATORS) - {sep}
    whole = sum(
        others.isdisjoint(cell) or _DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells
    )
    return True, same * whole / len(cells)


def _text_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows of a text table, each with its line; refused are other encodings and other lengths.

    pandas pads short rows, and takes the first column for an index where a row is longer.
    """
    first: list[str] = []
    line = 0
    written = _format_of(path)
    name = _SEPARATORS.get(str(written.sep), f"{written.sep!r}")
    try:
        with open(path, newline="", encoding=written.encoding) as file:
            reader = csv.reader(_checked_lines(file, path), delimiter=str(written.sep), strict=True)
            for row in reader:
                line = reader.line_num
                if not row or (len(row) == 1 and row[0] and not row[0].strip(" \t")):
                    continue  # a blank line
                first = first or row
                if len(row) != len(first):
                    raise ValueError(
                        f"{plain(path)}: line {line} has {len(row)} fields and the first line "
                        f"{len(first)}; give every line one field per column, without a separator "
                        f"at its end, and quote fields with {name}."
                    )
                yield line, row
    except csv.Error as error:
        raise ValueError(
            f"{plain(path)}: line {line + 1}: the table cannot be read ({error})."
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f"{plain(path)}: behind line {line} there is text that is not {written.encoding} "
            f"({getattr(error, 'reason', error)}); save the table as UTF-8, or name its encoding."
        ) from error


def line_numbers(path: Path) -> list[int]:
    """The line of each row of a text table, with that of the header first."""
    return [line for line, _ in _text_rows(path)]


def first_row(path: Path) -> list[str]:
    """The first row of a text table; empty where there is none."""
    return next(_text_rows(path), (0, []))[1]


def _checked_lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file; invisible characters that would become part of a name are refused."""
    for number, line in enumerate(file, 1):
        if "\ufeff" in line or "\0" in line:
            raise ValueError(
                f"{plain(path)}: line {number} has a byte order mark (U+FEFF) or a zero byte within"
                " the text, as damaged files and files that were put together have; remove it."
            )
        yield line


# Numbers are read to the last bit; pandas does it by itself since 3.1.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def read_csv(path: Path, options: Callable[[list[str]], dict[str, Any]]) -> pd.DataFrame:
    """Read a table by pandas; `options` makes its arguments from the first row."""
    budget = Budget(path)
    rows = _text_rows(path)
    _, first = next(rows, (0, []))
    if not first:
        raise ValueError(f"{plain(path)}: the table cannot be read: the file is empty.")
    n_rows = 1 + sum(1 for _ in rows)
    written = _format_of(path)
    is_comma = written.decimal == ","
    arguments = options(
        [
            cell.replace(",", ".") if is_comma and _DECIMAL_COMMA.fullmatch(cell) else cell
            for cell in first
        ]
    )
    has_header = "header" not in arguments
    if has_header and len(first) > 1 and not first[-1]:
        raise ValueError(
            f"{plain(path)}: the header ends in a separator, so that the last column has no name. "
            "Remove it there and at the end of every line, or name the column."
        )
    counts = Counter(name for name in first if name)
    if has_header and (repeated := [name for name, count in counts.items() if count > 1]):
        raise ValueError(
            f"{plain(path)}: the header names {name_some(repeated)} more than once; give each "
            "column its own name."
        )
    budget.take(len(first) * (_COLUMN_BYTES + _CELL_BYTES * n_rows) + 2 * budget.file_size)
    with reading(path, "the table"):
        # "NA" and "nan" may be names of classes; only what is empty is missing.
        table = pd.read_csv(
            path,
            index_col=False,
            keep_default_na=False,
            na_values=[""],
            sep=written.sep,
            encoding=written.encoding,
            decimal=str(written.decimal),
            **_EXACT,
            **arguments,
        )
    if table.shape != (n_rows - has_header, len(first)):
        raise ValueError(
            f"{plain(path)}: the table cannot be read: by its quotes and ends of line it has "
            f"{n_rows - has_header} rows or {len(table)}. Write it anew, for example with pandas."
        )
    return table


def read_rows(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Rows of a list of text, by the columns its first line names in any case, with their lines."""
    if regular_size(path) > _MAX_LIST:
        raise ValueError(f"{plain(path)}: larger than {_MAX_LIST >> 20} MiB; this is no list.")
    rows = [(line, row) for line, row in _text_rows(path) if any(cell.strip() for cell in row)]
    if not rows:
        raise ValueError(f"{plain(path)}: the file is empty; its first line names the columns.")
    header = rows[0][1]
    names = [cell.strip().casefold() for cell in header]
    found = [name for name in (*columns, *optional) if name in names]
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(
            f"{plain(path)}: there is no column {missing[0]!r}; the first line names "
            f"{name_some(header)}. Name the column {missing[0]!r}, or leave only "
            f"{','.join(columns)}."
        )
    if twice := [name for name in found if names.count(name) > 1]:
        raise ValueError(f"{plain(path)}: the column {twice[0]!r} is there twice; keep one.")
    empty = dict.fromkeys(optional, "")
    return [
        (line, {**empty, **{name: row[names.index(name)].strip() for name in found}})
        for line, row in rows[1:]
    ]


def read_json(path: Path) -> Any:
    """What a file of JSON says; a key that is there twice is refused."""
    budget = Budget(path)
    budget.take(16 * budget.file_size)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_keys)
    # Other bytes, no JSON, and nesting without end.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{plain(path)} is not JSON in UTF-8 ({reason(error)}).") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which Python would keep the last value of a key, silently."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {plain(twice, 60)!r} is there twice; keep one")
    return values


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not blank, without space around them."""
    budget = Budget(path)
    budget.take(32 * budget.file_size)
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in _checked_lines(file, path)]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{plain(path)}: the text is not UTF-8 ({error.reason}); save it as UTF-8."
        ) from error
    return [line for line in lines if line]
