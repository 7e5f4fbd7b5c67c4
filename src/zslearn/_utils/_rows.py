"""Small tables of text: lists of files, boxes, descriptions of classes."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zslearn._utils._messages import name_some, plain

#: What is larger is no list that a person made.
_MAX_BYTES = 512 * 2**20


def read_rows(
    path: Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    instead: bool = True,
) -> list[tuple[int, dict[str, str]]]:
    r"""Read a table of text whose first line names its columns."""
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{plain(path)}: larger than {_MAX_BYTES >> 20} MiB; this is no list.")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return _rows(csv.reader(file, strict=True), path, columns, optional, instead)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{plain(path)}: the text is not UTF-8 ({error.reason}); save the table as UTF-8."
        ) from error
    except csv.Error as error:
        raise ValueError(f"{plain(path)}: the table cannot be read ({error}).") from error


def separator_hint(header: Sequence[str]) -> str:
    r"""A sentence for tables whose fields something else than commas separates; else nothing."""
    if len(header) == 1:
        for sign, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
            if sign in header[0].strip():
                return (
                    f" Its fields are separated by {name}: separate them by commas, with points in "
                    "numbers."
                )
    return ""


def _rows(
    reader: Any, path: Path, columns: Sequence[str], optional: Sequence[str], instead: bool
) -> list[tuple[int, dict[str, str]]]:
    places: dict[str, int] | None = None
    header: list[str] = []
    width, rows = 0, []
    for cells in reader:
        line = reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if any("\0" in cell for cell in cells):
            raise ValueError(f"{plain(path)}: line {line} has a zero byte; the file is damaged.")
        if places is None:
            header, width = cells, len(cells)
            places = _places(cells, path, columns, optional)
            if not instead and width > len(columns) == len(places):
                raise ValueError(
                    f"{plain(path)}: there is no column {optional[0]!r}; the first line names "
                    f"{name_some(cells)}. Name the column {optional[0]!r}, or leave only "
                    f"{','.join(columns)}."
                )
            continue
        if len(cells) != width:
            raise ValueError(
                f"{plain(path)}: line {line} has {len(cells)} fields and the first line {width}; "
                f"quote fields with commas.{separator_hint(header)}"
            )
        named = {name: cells[place].strip() for name, place in places.items()}
        rows.append((line, {name: named.get(name, "") for name in (*columns, *optional)}))
    if places is None:
        raise ValueError(f"{plain(path)}: the file is empty; its first line names the columns.")
    return rows


def _places(
    header: list[str], path: Path, columns: Sequence[str], optional: Sequence[str]
) -> dict[str, int]:
    """Where the columns stand."""
    names = [cell.strip().casefold() for cell in header]
    if missing := [name for name in columns if name not in names]:
        raise ValueError(
            f"{plain(path)}: there is no column {missing[0]!r}; the first line names "
            f"{name_some(header)}. It must name the columns: {','.join(columns)}."
            f"{separator_hint(header)}"
        )
    wanted = [name for name in (*columns, *optional) if name in names]
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise ValueError(f"{plain(path)}: the column {twice[0]!r} is there twice; keep one.")
    return {name: names.index(name) for name in wanted}
