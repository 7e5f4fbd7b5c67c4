"""Tables as text, for a terminal, Markdown, CSV, LaTeX and reStructuredText, and as a picture."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._names import method_style, metric_label, same_features
from zslearn.experiments._ranks import draw_critical_difference, picture_size
from zslearn.experiments._summary import NOT_DIFFERENT_NOTE, seeds_text
from zslearn.experiments._tables import ResultTable, TableColumn

#: How a table may be written.
FORMATS = ("terminal", "markdown", "csv", "latex", "rst")
_MISSING = "–"
_STARS = {"best": "**", "second": "*"}

#: Text and mark: "best", "second" or nothing, with ≈ behind it where it applies.
_Cell = tuple[str, str]
_SAME_SIGN = "≈"


class _Drawn(NamedTuple):
    """A column as text: its name, the parts of its cells, and the cells' parts row by row."""

    name: str
    parts: tuple[str, ...]
    cells: list[tuple[_Cell, ...]]


def render(
    table: ResultTable,
    format: Literal["terminal", "markdown", "csv", "latex", "rst"] = "terminal",
    *,
    width: int | None = None,
) -> str:
    """Write a table as text.

    Parameters
    ----------
    table : ResultTable
        From `build_table`.
    format : {"terminal", "markdown", "csv", "latex", "rst"}
        The best and second best of a column are marked ``**`` and ``*`` on a terminal, bold and
        italic in Markdown and reStructuredText, bold and underlined in LaTeX; those that do not
        differ from the best are marked ``≈``. CSV holds plain numbers, standard deviations in
        columns of their own.
    width : int, optional
        On a terminal: how wide a line may be; the columns that do not fit follow below.

    Returns
    -------
    str
        The text, with a line feed at the end.
    """
    writers: dict[str, Callable[[ResultTable], str]] = {
        "terminal": partial(_terminal, width=width),
        "markdown": _markdown,
        "csv": _csv,
        "latex": _latex,
        "rst": _rst,
    }
    if format not in writers:
        raise ValueError(f"Tables are written as {', '.join(writers)}; not as {format!r}.")
    return writers[format](table)


def _number(value: float, decimals: int, mark: str = "", *, sign: bool = False) -> _Cell:
    if math.isnan(value):
        return _MISSING, ""
    # Adding zero turns −0.0 into 0.0.
    rounded = round(value, decimals) + 0.0
    return f"{rounded:{'+' if sign else ''}.{decimals}f}", mark


def _drawn(table: ResultTable, *, plain: bool = False) -> list[_Drawn]:
    """The columns as text; with `plain` numbers stand alone, deviations beside them."""
    drawn = []
    difference = table.difference
    for column in table.columns:
        name, digits = column.name, column.decimals
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
            sides["Δ"] = [_number(value, digits, sign=True) for value in difference[name]]
        sides = sides or {"published": [(_MISSING, "")] * len(table.ours)}
        drawn.append(_Drawn(name, tuple(sides), list(zip(*sides.values(), strict=True))))
    for metric in dict.fromkeys(metric for metric, _ in table.rankings):
        sides = {}
        for side in ("ours", "published"):
            if (metric, side) in table.rankings:
                ranks = table.rankings[metric, side].mean_ranks.reindex(table.ours.index)
                sides[side] = [_number(rank, 1) for rank in ranks]
        title = f"mean rank {metric_label(metric)}"
        drawn.append(_Drawn(title, tuple(sides), list(zip(*sides.values(), strict=True))))
    return drawn


def _our_sides(table: ResultTable, column: TableColumn, *, plain: bool) -> dict[str, list[_Cell]]:
    """Our numbers of one column, with their deviation where there are several seeds."""
    name, digits = column.name, column.decimals
    seeds = seeds_text(table.n_seeds[name].tolist())
    head = f"ours ({seeds})" if seeds else "ours"
    marks = table.marks_ours[name] + table.not_different[name].map({True: _SAME_SIGN, False: ""})
    numbers = [_number(v, digits, mark) for v, mark in zip(table.ours[name], marks, strict=True)]
    if not seeds:
        return {head: numbers}
    deviations = [_number(value, digits)[0] for value in table.deviation[name]]
    if plain:
        return {head: numbers, "±": [(deviation, "") for deviation in deviations]}
    both = zip(numbers, deviations, strict=True)
    return {head: [(t if s == _MISSING else f"{t} ± {s}", mark) for (t, mark), s in both]}


def _marked(cell: _Cell, emphasize: Callable[[str, str], str]) -> str:
    """A cell with its marks; `emphasize` takes the text and "best", "second" or nothing."""
    text, mark = cell
    plain = emphasize(text, mark.removesuffix(_SAME_SIGN))
    return f"{plain} {_SAME_SIGN}" if mark.endswith(_SAME_SIGN) else plain


def _cell_text(cells: Sequence[_Cell], emphasize: Callable[[str, str], str]) -> str:
    """The parts of a cell in one; a cell without any number is one dash."""
    if all(text == _MISSING for text, _ in cells):
        return _MISSING
    return " / ".join(_marked(cell, emphasize) for cell in cells)


def _starred(text: str, mark: str) -> str:
    """Bold and italic, as Markdown and reStructuredText write them."""
    sign = _STARS.get(mark, "")
    return f"{sign}{text}{sign}"


def _notes(table: ResultTable) -> list[str]:
    """The notes of a table, and what its signs mean."""
    return (
        [*table.notes, NOT_DIFFERENT_NOTE]
        if table.not_different.any(axis=None)
        else list(table.notes)
    )


def _compares(columns: Sequence[_Drawn]) -> bool:
    """Whether anything published stands in a table; else "ours" says nothing above a column."""
    return any(not (part.startswith("ours") or part == "±") for c in columns for part in c.parts)


def _terminal(table: ResultTable, *, width: int | None) -> str:
    def marked(text: str, mark: str) -> str:
        return text + _STARS.get(mark, "")

    columns = _drawn(table)
    n_heads = 2 if _compares(columns) or table.deviation.notna().any(axis=None) else 1
    stub = _padded(["", table.corner, *map(str, table.ours.index)][2 - n_heads :], right=False)
    blocks: list[list[list[str]]] = [[]]
    used = len(stub[0])
    for column in columns:
        texts = [column.name, " / ".join(column.parts)][:n_heads]
        texts += [_cell_text(cells, marked) for cells in column.cells]
        padded = _padded(texts, right=True)
        if width is not None and blocks[-1] and used + 2 + len(padded[0]) > width:
            blocks.append([])
            used = len(stub[0])
        blocks[-1].append(padded)
        used += 2 + len(padded[0])
    legend = f"** best, * second best of its {table.best_of}."
    lines = [table.title, *_notes(table), legend, ""]
    for block in blocks:
        drawn = ["  ".join(parts).rstrip() for parts in zip(stub, *block, strict=True)]
        rule = "-" * max(len(line) for line in drawn)
        lines += [*drawn[:n_heads], rule, *drawn[n_heads:], ""]
    return "\n".join(lines[:-1]) + "\n"


def _padded(texts: Sequence[str], *, right: bool) -> list[str]:
    size = max(len(text) for text in texts)
    return [text.rjust(size) if right else text.ljust(size) for text in texts]


def _markdown(table: ResultTable) -> str:
    def escaped(text: str) -> str:
        return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)

    columns = _drawn(table)
    head = [escaped(table.corner)]
    compares = _compares(columns) or table.deviation.notna().any(axis=None)
    for column in columns:
        sides = f"<br>{' / '.join(column.parts)}" if compares else ""
        head.append(f"{escaped(column.name)}{sides}")
    rows = [head, [":--", *["--:"] * len(columns)]]
    for i, label in enumerate(table.ours.index):
        cells = [_cell_text(column.cells[i], _starred) for column in columns]
        rows.append([escaped(str(label)), *cells])
    lines = [f"**{escaped(table.title)}**", ""]
    lines += [f"- {escaped(note)}" for note in _notes(table)]
    lines += [f"- **Best** and *second best* of a {table.best_of}.", ""]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _csv(table: ResultTable) -> str:
    """Write plain numbers; the header names our features where they are not the paper's."""
    features = {
        column.name: f" [{column.features}]"
        for column in table.columns
        if column.features and not same_features(column.features, column.published_features)
    }
    columns = _drawn(table, plain=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [table.corner]
    for column in columns:
        for part in column.parts:
            own = features.get(column.name, "") if part.startswith("ours") else ""
            head.append(f"{column.name} {part}{own}")
    writer.writerow(head)
    for i, label in enumerate(table.ours.index):
        cells = [text for column in columns for text, _ in column.cells[i]]
        writer.writerow([label, *("" if cell == _MISSING else cell for cell in cells)])
    return text.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "Δ": r"$\Delta$",
    "χ²": r"$\chi^2$",
    "·": r"$\cdot$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
}
_LATEX_SIGNS = re.compile("|".join(re.escape(sign) for sign in _LATEX))


def _latex(table: ResultTable) -> str:
    def escaped(text: str) -> str:
        return _LATEX_SIGNS.sub(lambda found: _LATEX[found[0]], text)

    def marked(text: str, mark: str) -> str:
        command = {"best": r"\textbf", "second": r"\underline"}.get(mark)
        number = f"${text}$" if text[0] in "+-" else escaped(text)
        return f"{command}{{{number}}}" if command else number

    columns = _drawn(table)
    names = [
        rf"\multicolumn{{{len(column.parts)}}}{{c}}{{{escaped(column.name)}}}" for column in columns
    ]
    parts = [escaped(part) for column in columns for part in column.parts]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(' '.join([table.title + '.', *_notes(table)]))}}}",
        r"\begin{tabular}{l" + "".join("|" + "r" * len(c.parts) for c in columns) + "}",
        " & ".join(["", *names]) + r" \\",
        " & ".join([escaped(table.corner), *parts]) + r" \\ \hline",
    ]
    for i, label in enumerate(table.ours.index):
        cells = [_marked(cell, marked) for column in columns for cell in column.cells[i]]
        cells = [cell.replace(_SAME_SIGN, _LATEX[_SAME_SIGN]) for cell in cells]
        lines.append(" & ".join([escaped(str(label)), *cells]) + r" \\")
    lines += [r"\hline", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _rst(table: ResultTable) -> str:
    """The notes as a list, and a csv-table directive."""

    def escaped(text: str) -> str:
        return re.sub(r"([\\*`|_])", r"\\\1", text)

    def emphasize(text: str, mark: str) -> str:
        # A true minus, which does not look like the dash of a missing number.
        return _starred(text.replace("-", "−"), mark)

    def line(cells: Sequence[str]) -> str:
        quoted = [
            f'"{c.replace(chr(34), 2 * chr(34))}"' if set(c) & {";", '"'} else c for c in cells
        ]
        return f"   {'; '.join(quoted)}"

    columns = _drawn(table)
    head = [escaped(table.corner)]
    for column in columns:
        first, *others = column.parts
        head += [f"{escaped(column.name)}, {first}", *others]
    lines = [f"- {escaped(note)}" for note in _notes(table)]
    lines += [f"- **Best** and *second best* of a {table.best_of}.", ""]
    lines += [".. csv-table::", "   :header-rows: 1", "   :class: numbers", "   :delim: ;", ""]
    lines.append(line(head))
    for i, label in enumerate(table.ours.index):
        cells = [_marked(cell, emphasize) for column in columns for cell in column.cells[i]]
        lines.append(line([escaped(str(label)), *cells]))
    return "\n".join(lines) + "\n"


def save_ranks_plot(table: ResultTable, path: Path) -> None:
    """Draw the mean ranks of our methods, with bars that join methods which do not differ.

    Parameters
    ----------
    table : ResultTable
        From :func:`build_table`.
    path : Path
        The picture; its ending tells the format.
    """
    ours = [ranking for (_, side), ranking in table.rankings.items() if side == "ours"]
    if not ours:
        raise ValueError(
            "There is nothing to rank: ranks need two methods with numbers on two data sets or "
            "splits."
        )
    ranks, difference = ours[0].mean_ranks, ours[0].critical_difference
    figure = new_figure(figsize=picture_size(ranks, difference))
    draw_critical_difference(figure.subplots(), ranks, difference)
    save_figure(figure, path)


def save_table_plot(table: ResultTable, path: Path) -> None:
    """Draw a table: a line for each row, a dot for our number and a ring for the published one.

    Parameters
    ----------
    table : ResultTable
        From :func:`build_table`.
    path : Path
        The picture; its ending tells the format.
    """
    columns = [c for c in table.columns if table.ours[c.name].notna().any()][:4]
    if not columns:
        raise ValueError("There is nothing to draw: no column has a number of ours.")
    rows = table.ours[columns[0].name].sort_values(na_position="first").index
    figure = new_figure(figsize=(2.5 + 3.2 * len(columns), 1.2 + 0.24 * len(rows)))
    places = np.arange(len(rows))
    for axes, column in zip(
        figure.subplots(1, len(columns), sharey=True, squeeze=False).flat, columns, strict=True
    ):
        ours = table.ours.loc[rows, column.name].to_numpy(dtype=float)
        published = table.published.loc[rows, column.name].to_numpy(dtype=float)
        if column.comparable:
            axes.hlines(places, np.fmin(ours, published), np.fmax(ours, published), color="0.8")
        axes.plot(published, places, "o", color="0.45", fillstyle="none", label="published")
        colors = [method_style(str(row).partition(" · ")[0]).color for row in rows]
        axes.scatter(ours, places, color=colors, label="ours", zorder=3)
        features = f"\nours: {column.features}" if column.features else ""
        axes.set_title(f"{column.name}{features}", fontsize=9)
        axes.set_yticks(places, [str(row) for row in rows], fontsize=8)
        axes.grid(axis="x", color="0.93")
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.axes[0].legend(fontsize=8, loc="lower right")
    figure.suptitle(table.title, fontsize=10)
    save_figure(figure, path)
