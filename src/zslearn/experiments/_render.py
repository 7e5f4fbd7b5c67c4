"""Write tables as text: for the terminal, Markdown, CSV, LaTeX or reStructuredText."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from zslearn.experiments._names import explain_measures, metric_label, same_features
from zslearn.experiments._summary import NOT_DIFFERENT_NOTE, seeds_text
from zslearn.experiments._tables import ResultTable

#: Formats of a table.
FORMATS = ("terminal", "markdown", "csv", "latex", "rst")
_MISSING = "–"
_STARS = {"best": "**", "second": "*"}
#: The same in LaTeX, and symbols of its cells.
_COMMANDS = {"best": r"\textbf{", "second": r"\textit{"}
_SYMBOLS = {"≈": r"$\approx$", "±": r"$\pm$", "−": "$-$", "Δ": r"$\Delta$", "–": "--"}

#: Column → part of its cells (ours, published, Δ) → a text for each row.
Parts = dict[str, dict[str, list[str]]]


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
        Table to write.
    format : {"terminal", "markdown", "csv", "latex", "rst"}
        The best and second best are marked ``**`` and ``*`` on a terminal, bold and italic in
        Markdown, LaTeX and reStructuredText; numbers that do not differ from the best are marked
        ``≈``. CSV has plain numbers, with standard deviations in columns of their own. LaTeX needs
        the package booktabs.
    width : int, optional
        Longest line on a terminal; further columns follow below.

    Returns
    -------
    str
        The text, ending with a line feed.
    """
    if format not in FORMATS:
        raise ValueError(f"Unknown format {format!r}; choose from {', '.join(FORMATS)}.")
    parts = _parts(table, format)
    if format == "csv":
        return _csv(table, parts)
    measures = dict.fromkeys(metric_label(c.keys.get("metric", "")) for c in table.columns)
    notes = [*table.notes, *filter(None, [explain_measures(measures)])]
    if table.not_different.any(axis=None):
        notes.append(NOT_DIFFERENT_NOTE)
    if format == "latex":
        lines = _latex(table, parts, notes)
    elif format == "terminal":
        lines = [table.title, *notes, f"** best, * second best of its {table.best_of}.", ""]
        lines += [_joined(table, parts).to_string(line_width=width, sparsify=False)]
    else:
        lines = [f"**{_escaped(table.title)}**", ""] if format == "markdown" else []
        lines += [f"- {_escaped(note)}" for note in notes]
        lines += [f"- **Best** and *second best* of a {table.best_of}.", ""]
        lines += _markdown(table, parts) if format == "markdown" else _rst(table, parts)
    return "\n".join(lines) + "\n"


def _parts(table: ResultTable, format: str) -> Parts:
    """The cells as text: plain for CSV, otherwise with deviations and marks."""
    found: Parts = {}
    difference, no_marks = table.difference, [""] * len(table.ours)
    for column in table.columns:
        name, parts = column.name, found.setdefault(column.name, {})
        if table.ours[name].notna().any():
            seeds = seeds_text(table.n_seeds[name].tolist())
            ours = _numbers(table.ours[name], column.decimals)
            spread = _numbers(table.deviation[name], column.decimals)
            if format != "csv":
                pairs = zip(ours, spread, strict=True)
                ours = [a if b == _MISSING else f"{a} ± {b}" for a, b in pairs]
                same = [" ≈" if is_same else "" for is_same in table.not_different[name]]
                marked = _marked(ours, table.marks_ours[name], format)
                ours = [text + sign for text, sign in zip(marked, same, strict=True)]
            parts[f"ours ({seeds})" if seeds else "ours"] = ours
            if seeds and format == "csv":
                parts["±"] = spread
        if table.published[name].notna().any():
            theirs = _numbers(table.published[name], table.published_decimals[name])
            parts["published"] = _marked(theirs, table.marks_published[name], format)
        if difference[name].notna().any():
            parts["Δ"] = _marked(_numbers(difference[name], column.decimals, "+"), no_marks, format)
        if not parts:
            parts["published"] = [_MISSING] * len(table.ours)
    for (metric, side), ranking in table.rankings.items():
        ranks = _numbers(ranking.mean_ranks.reindex(table.ours.index), 1)
        found.setdefault(f"mean rank {metric_label(metric)}", {})[side] = ranks
    return found


def _numbers(values: pd.Series, decimals: int | pd.Series, sign: str = "") -> list[str]:
    digits = decimals if isinstance(decimals, pd.Series) else [decimals] * len(values)
    # Adding zero turns −0.0 into 0.0.
    return [
        _MISSING if math.isnan(value) else f"{round(value, n) + 0.0:{sign}.{n}f}"
        for value, n in zip(values, digits, strict=True)
    ]


def _marked(texts: Sequence[str], marks: Iterable[str], format: str) -> list[str]:
    """Mark the best and second best in a column."""
    if format == "csv":
        return list(texts)
    if format in ("rst", "latex"):
        # A true minus sign, unlike the dash of a missing number.
        texts = [text.replace("-", "−") for text in texts]
    if format == "latex":
        pairs = zip(texts, marks, strict=True)
        return [f"{_COMMANDS[m]}{text}}}" if m in _COMMANDS else text for text, m in pairs]
    stars = [_STARS.get(mark, "") for mark in marks]
    before = [""] * len(texts) if format == "terminal" else stars
    return [a + text + b for a, text, b in zip(before, texts, stars, strict=True)]


def _joined(table: ResultTable, parts: Parts) -> pd.DataFrame:
    """Join the parts of each cell; a second level of the columns names parts that are not ours."""
    cells = {
        (name, " / ".join(sides)): [
            _MISSING if set(row) == {_MISSING} else " / ".join(row)
            for row in zip(*sides.values(), strict=True)
        ]
        for name, sides in parts.items()
    }
    frame = pd.DataFrame(cells, index=pd.Index(table.ours.index, name=table.corner))
    if all(side == "ours" for sides in parts.values() for side in sides):
        frame.columns = pd.Index(list(parts))
    return frame


def _escaped(text: str) -> str:
    """Escape the markup of Markdown and reStructuredText."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", text)


def _markdown(table: ResultTable, parts: Parts) -> list[str]:
    frame = _joined(table, parts)
    names = [[name] if isinstance(name, str) else name for name in frame.columns]
    heads = ["<br>".join([_escaped(name), *sides]) for name, *sides in names]
    rows = [[_escaped(table.corner), *heads], [":--", *["--:"] * len(heads)]]
    rows += [[_escaped(str(label)), *row] for label, *row in frame.itertuples(name=None)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _latex(table: ResultTable, parts: Parts, notes: Sequence[str]) -> list[str]:
    """A tabular environment, with the title and the notes as comments."""

    def symbols(text: str) -> str:
        return re.sub("[≈±−Δ–]", lambda found: _SYMBOLS[found[0]], text)

    def name(text: str) -> str:
        return symbols(re.sub(r"([&%$#_{}])", r"\\\1", text))

    frame = _joined(table, parts)
    heads = [name(" ".join(np.atleast_1d(head))) for head in frame.columns]
    rows = [[name(str(label)), *map(symbols, row)] for label, *row in frame.itertuples(name=None)]
    head, *body = [rf"{' & '.join(row)} \\" for row in [[name(table.corner), *heads], *rows]]
    comments = [f"% {line}" for line in (table.title, *notes, "Needs the package booktabs.")]
    begin = rf"\begin{{tabular}}{{l{'r' * len(heads)}}}"
    body = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return [*comments, begin, *body, r"\end{tabular}"]


def _rst(table: ResultTable, parts: Parts) -> list[str]:
    """A csv-table directive with a column for each part of a cell."""
    columns = [[_escaped(table.corner), *(_escaped(str(label)) for label in table.ours.index)]]
    for name, sides in parts.items():
        for position, (side, texts) in enumerate(sides.items()):
            columns.append([side if position else f"{_escaped(name)}, {side}", *texts])
    rows = pd.DataFrame(dict(enumerate(columns)))
    text = rows.to_csv(sep=";", index=False, header=False, lineterminator="\n")
    options = [":header-rows: 1", ":class: numbers", ":delim: ;", ""]
    return [".. csv-table::", *(f"   {line}".rstrip() for line in [*options, *text.splitlines()])]


def _csv(table: ResultTable, parts: Parts) -> str:
    """Plain numbers; the header names our features if they are not the paper's."""
    features = {
        column.name: f" [{column.features}]"
        for column in table.columns
        if column.features and not same_features(column.features, column.published_features)
    }
    cells = {
        f"{name} {side}{features.get(name, '') if side.startswith('ours') else ''}": texts
        for name, sides in parts.items()
        for side, texts in sides.items()
    }
    frame = pd.DataFrame(cells, index=pd.Index(table.ours.index, name=table.corner))
    return frame.replace(_MISSING, "").to_csv(lineterminator="\n")
