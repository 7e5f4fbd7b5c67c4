"""Write tables as text (terminal, Markdown, CSV, reStructuredText) and plot their ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._names import metric_label, same_features
from zslearn.experiments._ranks import draw_critical_difference, picture_size
from zslearn.experiments._summary import NOT_DIFFERENT_NOTE, seeds_text
from zslearn.experiments._tables import ResultTable, TableColumn

#: Formats of a table.
FORMATS = ("terminal", "markdown", "csv", "rst")
_MISSING = "–"
_STARS = {"best": "**", "second": "*"}


class _Cell(NamedTuple):
    """A number as text, its mark ("best", "second" or empty), and ≈ if it applies."""

    text: str
    mark: str = ""
    sign: str = ""

    def marked(self, emphasize: Callable[[str, str], str]) -> str:
        return emphasize(self.text, self.mark) + (f" {self.sign}" if self.sign else "")


class _Column(NamedTuple):
    """A column as text: its name, and the names and texts of the parts of its cells."""

    name: str
    parts: tuple[str, ...]
    cells: list[tuple[_Cell, ...]]


def render(
    table: ResultTable,
    format: Literal["terminal", "markdown", "csv", "rst"] = "terminal",
    *,
    width: int | None = None,
) -> str:
    """Write a table as text.

    Parameters
    ----------
    table : ResultTable
        Table to write.
    format : {"terminal", "markdown", "csv", "rst"}
        The best and second best are marked ``**`` and ``*`` on a terminal, bold and italic in
        Markdown and reStructuredText; numbers that do not differ from the best are marked ``≈``.
        CSV has plain numbers, with standard deviations in columns of their own.
    width : int, optional
        Longest line on a terminal; further columns follow below.

    Returns
    -------
    str
        The text, ending with a line feed.
    """
    if format not in FORMATS:
        raise ValueError(f"Unknown format {format!r}; choose from {', '.join(FORMATS)}.")
    if format == "csv":
        return _csv(table)
    columns = _columns(table)
    # Otherwise every column is "ours", and need not say so.
    compares = table.deviation.notna().any(axis=None) or any(
        not part.startswith("ours") for column in columns for part in column.parts
    )
    notes = [*table.notes]
    if table.not_different.any(axis=None):
        notes.append(NOT_DIFFERENT_NOTE)
    if format == "terminal":
        lines = [table.title, *notes, f"** best, * second best of its {table.best_of}.", ""]
        lines += _terminal(table, columns, bool(compares), width)
    else:
        lines = [f"**{_escaped(table.title)}**", ""] if format == "markdown" else []
        lines += [f"- {_escaped(note)}" for note in notes]
        lines += [f"- **Best** and *second best* of a {table.best_of}.", ""]
        lines += (
            _markdown(table, columns, bool(compares))
            if format == "markdown"
            else _rst(table, columns)
        )
    return "\n".join(lines) + "\n"


def _number(value: float, decimals: int, mark: str = "", *, sign: bool = False) -> _Cell:
    if math.isnan(value):
        return _Cell(_MISSING)
    # Adding zero turns −0.0 into 0.0.
    rounded = round(value, decimals) + 0.0
    return _Cell(f"{rounded:{'+' if sign else ''}.{decimals}f}", mark)


def _columns(table: ResultTable, *, plain: bool = False) -> list[_Column]:
    """The columns as text; `plain` puts deviations into parts of their own."""
    found = []
    difference = table.difference
    for column in table.columns:
        name = column.name
        sides: dict[str, list[_Cell]] = {}
        if table.ours[name].notna().any():
            sides |= _our_sides(table, column, plain=plain)
        published = table.published[name]
        if published.notna().any():
            cells = zip(
                published, table.published_decimals[name], table.marks_published[name], strict=True
            )
            sides["published"] = [_number(*cell) for cell in cells]
        if difference[name].notna().any():
            sides["Δ"] = [_number(v, column.decimals, sign=True) for v in difference[name]]
        sides = sides or {"published": [_Cell(_MISSING)] * len(table.ours)}
        found.append(_Column(name, tuple(sides), list(zip(*sides.values(), strict=True))))
    for metric in dict.fromkeys(metric for metric, _ in table.rankings):
        sides = {
            side: [_number(v, 1) for v in ranking.mean_ranks.reindex(table.ours.index)]
            for (of, side), ranking in table.rankings.items()
            if of == metric
        }
        title = f"mean rank {metric_label(metric)}"
        found.append(_Column(title, tuple(sides), list(zip(*sides.values(), strict=True))))
    return found


def _our_sides(table: ResultTable, column: TableColumn, *, plain: bool) -> dict[str, list[_Cell]]:
    """Our numbers of one column, with their deviations if there are several seeds."""
    name, digits = column.name, column.decimals
    seeds = seeds_text(table.n_seeds[name].tolist())
    head = f"ours ({seeds})" if seeds else "ours"
    numbers = [
        _number(value, digits, mark)._replace(sign="≈" if same else "")
        for value, mark, same in zip(
            table.ours[name], table.marks_ours[name], table.not_different[name], strict=True
        )
    ]
    if not seeds:
        return {head: numbers}
    deviations = [_number(value, digits) for value in table.deviation[name]]
    if plain:
        return {head: numbers, "±": deviations}
    return {
        head: [
            number if deviation.text == _MISSING else
            number._replace(text=f"{number.text} ± {deviation.text}")
            for number, deviation in zip(numbers, deviations, strict=True)
        ]
    }  # fmt: skip


def _cell_text(cells: Sequence[_Cell], emphasize: Callable[[str, str], str]) -> str:
    """Join the parts of a cell; an empty cell is one dash."""
    if all(cell.text == _MISSING for cell in cells):
        return _MISSING
    return " / ".join(cell.marked(emphasize) for cell in cells)


def _escaped(text: str) -> str:
    """Escape the markup of Markdown and reStructuredText."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)


def _starred(text: str, mark: str) -> str:
    """Bold or italic in Markdown and reStructuredText."""
    sign = _STARS.get(mark, "")
    return f"{sign}{text}{sign}"


def _terminal(
    table: ResultTable, columns: Sequence[_Column], compares: bool, width: int | None
) -> list[str]:
    n_heads = 2 if compares else 1
    stub = _padded(["", table.corner, *map(str, table.ours.index)][2 - n_heads :], str.ljust)
    blocks: list[list[list[str]]] = [[]]
    used = len(stub[0])
    for column in columns:
        texts = [column.name, " / ".join(column.parts)][:n_heads]
        texts += [
            _cell_text(cells, lambda text, mark: text + _STARS.get(mark, ""))
            for cells in column.cells
        ]
        padded = _padded(texts, str.rjust)
        if width is not None and blocks[-1] and used + 2 + len(padded[0]) > width:
            blocks.append([])
            used = len(stub[0])
        blocks[-1].append(padded)
        used += 2 + len(padded[0])
    lines = []
    for block in blocks:
        drawn = ["  ".join(parts).rstrip() for parts in zip(stub, *block, strict=True)]
        rule = "-" * max(len(line) for line in drawn)
        lines += [*drawn[:n_heads], rule, *drawn[n_heads:], ""]
    return lines[:-1]


def _padded(texts: Sequence[str], pad: Callable[[str, int], str]) -> list[str]:
    size = max(len(text) for text in texts)
    return [pad(text, size) for text in texts]


def _markdown(table: ResultTable, columns: Sequence[_Column], compares: bool) -> list[str]:
    head = [_escaped(table.corner)]
    for column in columns:
        sides = f"<br>{' / '.join(column.parts)}" if compares else ""
        head.append(f"{_escaped(column.name)}{sides}")
    rows = [head, [":--", *["--:"] * len(columns)]]
    for i, label in enumerate(table.ours.index):
        cells = [_cell_text(column.cells[i], _starred) for column in columns]
        rows.append([_escaped(str(label)), *cells])
    return [f"| {' | '.join(row)} |" for row in rows]


def _rst(table: ResultTable, columns: Sequence[_Column]) -> list[str]:
    """A csv-table directive with a column for each part of a cell."""

    def emphasize(text: str, mark: str) -> str:
        # A true minus sign, unlike the dash of a missing number.
        return _starred(text.replace("-", "−"), mark)

    rows = [[_escaped(table.corner)]]
    for column in columns:
        first, *others = column.parts
        rows[0] += [f"{_escaped(column.name)}, {first}", *others]
    for i, label in enumerate(table.ours.index):
        cells = [cell.marked(emphasize) for column in columns for cell in column.cells[i]]
        rows.append([_escaped(str(label)), *cells])
    text = pd.DataFrame(rows).to_csv(sep=";", index=False, header=False, lineterminator="\n")
    options = [":header-rows: 1", ":class: numbers", ":delim: ;", ""]
    return [".. csv-table::", *(f"   {line}".rstrip() for line in [*options, *text.splitlines()])]


def _csv(table: ResultTable) -> str:
    """Plain numbers; the header names our features if they are not the paper's."""
    features = {
        column.name: f" [{column.features}]"
        for column in table.columns
        if column.features and not same_features(column.features, column.published_features)
    }
    cells = {}
    for column in _columns(table, plain=True):
        for place, part in enumerate(column.parts):
            own = features.get(column.name, "") if part.startswith("ours") else ""
            texts = [parts[place].text for parts in column.cells]
            cells[f"{column.name} {part}{own}"] = ["" if t == _MISSING else t for t in texts]
    frame = pd.DataFrame(cells, index=pd.Index(table.ours.index, name=table.corner))
    return frame.to_csv(lineterminator="\n")


def save_ranks_plot(table: ResultTable, path: Path) -> None:
    """Plot the mean ranks of our methods, with bars that join methods that do not differ.

    Parameters
    ----------
    table : ResultTable
        From :func:`build_table`.
    path : Path
        Image file; its suffix determines the format.
    """
    ours = [ranking for (_, side), ranking in table.rankings.items() if side == "ours"]
    if not ours:
        raise ValueError(
            "There is nothing to rank: at least two methods need numbers on at least two data sets "
            "or splits."
        )
    ranks, difference = ours[0].mean_ranks, ours[0].critical_difference
    figure = new_figure(figsize=picture_size(ranks, difference))
    draw_critical_difference(figure.subplots(), ranks, difference)
    save_figure(figure, path)
