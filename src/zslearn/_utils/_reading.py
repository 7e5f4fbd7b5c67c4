"""Shared parts of the readers of data files: the data folder, memory limits, and text tables.

A damaged file can declare a size of gigabytes. Readers compare the declared sizes with one
:class:`Budget` per file before they allocate memory.
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
from contextlib import contextmanager, suppress
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


#: The default limit is this multiple of a file's size plus this allowance.
SIZE_MULTIPLE = 64
SIZE_ALLOWANCE = 64 * 2**20
#: The environment variable that overrides the limit, in bytes.
VARIABLE = "ZSLEARN_MAX_BYTES"

_chosen: ContextVar[int | None] = ContextVar("max_bytes", default=None)


class FileLimitError(ValueError):
    """Reading a file would exceed the memory limit."""


@contextmanager
def limit_reading(max_bytes: int | None) -> Iterator[None]:
    """Set the memory limit for each file that is read in this context."""
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
        raise ValueError(
            f"{name} must be a positive number of bytes, such as {8 * 2**30}; got {value!r}."
        )
    return int(value)


class Budget:
    """The memory limit for reading one file, or a folder of files with a given total size.

    The limit is `max_bytes`, else that of :func:`limit_reading`, else the environment variable
    ``ZSLEARN_MAX_BYTES``, else 64 times the size of the file plus 64 MiB.
    """

    def __init__(
        self, path: Any, max_bytes: int | None = None, *, file_size: int | None = None
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
        """The remaining memory in bytes."""
        return self.limit - self._taken

    def take(self, n_bytes: int) -> None:
        """Reserve memory permanently; raise an error if it exceeds the limit."""
        self.check(n_bytes)
        self._taken += n_bytes

    def check(self, n_bytes: int) -> None:
        """Raise an error if temporary memory exceeds the limit."""
        if n_bytes <= self.left:
            return
        allowed = _amount(self.limit)
        if not self._is_chosen:
            allowed += f" allowed for a file of {_amount(self.file_size)}"
        raise FileLimitError(
            f"{self.path}: reading it takes about {_amount(self._taken + n_bytes)} of memory, more "
            f"than the {allowed}, so the file may be damaged or malicious. If you trust it, allow "
            f"more with the environment variable {VARIABLE}={self._taken + n_bytes} (in "
            "Python: max_bytes=)."
        )


def _amount(n_bytes: int) -> str:
    """A number of bytes with a unit."""
    power = min(4, max(0, n_bytes.bit_length() - 1) // 10)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{n_bytes / 2 ** (10 * power):.3g} {unit}" if power else f"{n_bytes} bytes"


def reason(error: Exception) -> str:
    """The first line of another library's error message, shortened."""
    text = without_secrets(str(error).partition("\n")[0].rstrip("."))
    return plain(text, 300) or type(error).__name__


def without_secrets(text: str) -> str:
    """The text with its URLs without passwords and the signatures of requests."""
    text = re.sub(r"(?<=//)[^/\s]*@", "", text)
    return re.sub(r"(https?://[^\s?'\"]*)\?[^\s'\"]*", r"\1?…", text)


@contextmanager
def reading(where: object, what: str = "it") -> Iterator[None]:
    """Name the file in errors of other libraries; a damaged file can raise almost any error."""
    try:
        yield
    except (FileLimitError, ImportError):
        raise
    except Exception as error:
        raise ValueError(f"{plain(where)}: {what} cannot be read ({reason(error)}).") from error


#: Endings of tables in files.
TABLE_ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet")

# Tables in text files.

#: Memory that pandas needs for a column, in addition to its cells, and for a cell.
_COLUMN_BYTES = 3072
_CELL_BYTES = 64
#: Maximum size of a list of files or classes.
_MAX_LIST = 512 * 2**20


@dataclass(frozen=True)
class TextFormat:
    """The format of a text table; None means that it is detected."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None


_NOT_GIVEN = TextFormat()
_format: ContextVar[TextFormat] = ContextVar("text_format", default=_NOT_GIVEN)


@contextmanager
def text_format(
    sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> Iterator[None]:
    """Set the separator, decimal sign and encoding of text tables that are read in this context."""
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
#: Numbers that are whole if commas, or points, separate groups of three digits.
_COMMA_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_POINT_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
#: Number of rows from which the format is detected.
_FORMAT_ROWS = 200


@lru_cache(maxsize=64)
def _recognised(path: Path, stamp: tuple[int, int], given: TextFormat) -> TextFormat:
    """Detect the format of a table; an unusual format is logged."""
    with open(path, "rb") as file:
        start = file.read(1 << 20)
        encoding, notes = given.encoding or _encoding(start, file), []
    text = start.decode(encoding, errors="replace")
    lines = text.splitlines()[: None if len(start) < 1 << 20 else -1][:_FORMAT_ROWS]
    parsed = {sign: _parse(lines, sign) for sign in ([given.sep] if given.sep else _SEPARATORS)}
    sep = max(parsed, key=lambda sign: _plausibility(parsed[sign], sign))
    cells = [cell.strip() for row in parsed[sep] for cell in row]
    # Countries with decimal commas separate fields by semicolons; elsewhere "1,234" is whole.
    with_comma = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    with_point = [cell for cell in cells if _DECIMAL_POINT.fullmatch(cell)]
    commas = sum(sep == ";" or not _COMMA_GROUPS.fullmatch(cell) for cell in with_comma)
    points = sum(not _POINT_GROUPS.fullmatch(cell) for cell in with_point)
    decimal = given.decimal or ("," if commas > points else ".")
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    if sep != usual and given.sep is None:
        notes.append(f"fields are separated by {_SEPARATORS[sep]}")
    if decimal == "," and given.decimal is None:
        notes.append("numbers have decimal commas")
    if encoding not in ("utf-8", "utf-8-sig") and given.encoding is None:
        notes.append(f"the text is read as {encoding}")
    if notes:
        otherwise = "otherwise give --sep, --decimal or --encoding, or read it with pandas"
        _logger.info("%s: %s; %s", plain(path), ", ".join(notes), otherwise)
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
        # Text contains no C1 control characters.
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
    """Rows of a text table with their line numbers; all rows must have the same length.

    pandas would pad short rows, and use the first column as the index if a row is longer.
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
                        f"{plain(path)}: line {line} has {len(row)} fields, but the first line has "
                        f"{len(first)}. Give every line one field per column, without a separator "
                        f"at its end, and quote fields that contain {name}."
                    )
                yield line, row
    except csv.Error as error:
        raise ValueError(
            f"{plain(path)}: line {line + 1}: the table cannot be read ({error})."
        ) from error
    except UnicodeError as error:
        raise ValueError(
            f"{plain(path)}: the text after line {line} is not {written.encoding} "
            f"({getattr(error, 'reason', error)}). Save the table as UTF-8, or name its encoding."
        ) from error


def line_numbers(path: Path) -> list[int]:
    """The line number of each row of a text table, starting with the header."""
    return [line for line, _ in _text_rows(path)]


def first_row(path: Path) -> list[str]:
    """The first row of a text table; empty if there is none."""
    return next(_text_rows(path), (0, []))[1]


def _checked_lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file, without invisible characters that would become part of a name."""
    for number, line in enumerate(file, 1):
        if "\ufeff" in line or "\0" in line:
            raise ValueError(
                f"{plain(path)}: line {number} contains a byte order mark (U+FEFF) or a zero byte, "
                "as in damaged or concatenated files. Remove it."
            )
        yield line


# Read numbers exactly, which is the default since pandas 3.1.
_OLD_PANDAS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def read_csv(path: Path, options: Callable[[list[str]], dict[str, Any]]) -> pd.DataFrame:
    """Read a table with pandas; `options` maps the first row to arguments of pandas.

    Their "decimal_commas" are columns that usually have them. "1.234" alone may be a thousand, so
    these columns stay text unless this file has decimal points there.
    """
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
    usual = arguments.pop("decimal_commas", ())
    unclear = [name for name in usual if name in first and _format.get().decimal is None]
    if unclear:
        arguments["dtype"] = dict.fromkeys(unclear, str) | arguments["dtype"]
    has_header = "header" not in arguments
    if has_header and len(first) > 1 and not first[-1]:
        raise ValueError(
            f"{plain(path)}: the header ends with a separator, so the last column has no name. "
            "Remove the separator at the end of every line, or name the column."
        )
    counts = Counter(name for name in first if name)
    if has_header and (repeated := [name for name, count in counts.items() if count > 1]):
        raise ValueError(
            f"{plain(path)}: the header contains {name_some(repeated)} more than once. Give each "
            "column its own name."
        )
    budget.take(len(first) * (_COLUMN_BYTES + _CELL_BYTES * n_rows) + 2 * budget.file_size)
    with reading(path, "the table"):
        # "NA" and "nan" may be names of classes; only empty cells are missing.
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
            f"{plain(path)}: the table cannot be read: depending on its quotes and line ends it "
            f"has {n_rows - has_header} or {len(table)} rows. Write it again, such as with pandas."
        )
    for name in unclear:
        cells = [cell.strip() for cell in table[name].dropna()]
        points = [cell for cell in cells if _DECIMAL_POINT.fullmatch(cell)]
        if not all(map(_POINT_GROUPS.fullmatch, points)):
            with suppress(ValueError):  # the column has text, too
                table[name] = table[name].astype(float)
    as_text = arguments.get("dtype", ())
    if is_comma and as_text is not str:
        # With thousands=".", pandas would also remove the points of dates.
        for place, (name, values) in enumerate(table.items()):
            is_kept = name in as_text or place in as_text
            if is_kept or pd.api.types.is_numeric_dtype(values):
                continue
            if values.dropna().astype(str).str.fullmatch(rf"{_POINT_GROUPS.pattern}|\d+").all():
                table[name] = pd.to_numeric(values.str.replace(".", "", regex=False))
    return table


def read_rows(
    path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Rows of a list by column name, ignoring case, with their line numbers."""
    if regular_size(path) > _MAX_LIST:
        raise ValueError(f"{plain(path)} is larger than {_MAX_LIST >> 20} MiB, too large a list.")
    rows = [(line, row) for line, row in _text_rows(path) if any(cell.strip() for cell in row)]
    if not rows:
        raise ValueError(f"{plain(path)}: the file is empty. Its first line must name the columns.")
    header = rows[0][1]
    names = [cell.strip().casefold() for cell in header]
    found = [name for name in (*columns, *optional) if name in names]
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(
            f"{plain(path)}: there is no column {missing[0]!r}; the first line contains "
            f"{name_some(header)}. Name the columns {','.join(columns)}."
        )
    if twice := [name for name in found if names.count(name) > 1]:
        raise ValueError(f"{plain(path)}: the column {twice[0]!r} occurs twice. Keep one.")
    empty = dict.fromkeys(optional, "")
    return [
        (line, {**empty, **{name: row[names.index(name)].strip() for name in found}})
        for line, row in rows[1:]
    ]


def read_json(path: Path) -> Any:
    """The content of a JSON file, whose objects must not repeat a key."""
    budget = Budget(path)
    budget.take(16 * budget.file_size)
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_keys)
    # Invalid bytes or JSON, and deep nesting.
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{plain(path)} is not JSON in UTF-8 ({reason(error)}).") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, of which Python would silently keep the last value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {plain(twice, 60)!r} occurs twice; keep one")
    return values


def read_lines(path: Path) -> list[str]:
    """The non-blank lines of a text file, stripped."""
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
