"""Tables in the paper's layout, from records of runs: ours, published and the difference.

Nothing is computed anew here: numbers come from records and from the published tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from zslearn.experiments._published import KEYS, TABLES, load_published
from zslearn.experiments._ranks import Ranking, rank_methods
from zslearn.experiments._record_checks import REQUIRED
from zslearn.experiments._spread import Spread
from zslearn.experiments._table_layouts import (
    LAYOUTS,
    Column,
    Key,
    Layout,
    TableColumn,
    column_names,
    own_columns_last,
    paper_columns,
    row_label,
    shows_paper,
)
from zslearn.experiments._table_marks import Comparison, best_marks
from zslearn.experiments._table_notes import (
    class_split_notes,
    count_notes,
    feature_notes,
    protocol_notes,
    rank_notes,
    tuning_notes,
    verdict_notes,
    version_notes,
)
from zslearn.experiments._table_places import (
    OwnNumber,
    comparable_records,
    measured_by_place,
    place_records,
    prefer_conventional,
    refuse_mixtures,
)
from zslearn.utils import name_some


@dataclass(frozen=True)
class ResultTable:
    """A table in the paper's layout.

    Parameters
    ----------
    layout : str
        Name of the layout, a key of `TABLES`.
    title : str
        What stands above it.
    corner : str
        What the rows are.
    columns : tuple of TableColumn
        Its columns; names are those of the frames' columns.
    ours, published : DataFrame of shape (n_rows, n_columns)
        Numbers in the unit and to the digits that the paper prints; NaN where there is none.
    published_decimals : DataFrame of shape (n_rows, n_columns)
        Digits after the point of the published numbers.
    marks_ours, marks_published : DataFrame of shape (n_rows, n_columns)
        ``"best"``, ``"second"`` or nothing. Ours are compared among themselves, by their means over
        the runs that all have; the published ones are as the paper marks them.
    spread : DataFrame of shape (n_rows, n_columns)
        Standard deviation of our numbers over the seeds, each the mean over class splits; NaN with
        one seed.
    n_seeds : DataFrame of shape (n_rows, n_columns)
        Over how many seeds ours are means; 0 without a number.
    verdict : DataFrame of shape (n_rows, n_columns)
        Whether our number differs from our best one: ``"alike"``, ``"differs"``, ``"not judged"``
        or nothing. Alike is where 0 lies in the 95 % t interval of the paired differences, over
        class splits where there are several, else over classes for accuracies and over seeds for
        other numbers.
    best_of : {"column", "row"}
        What the marks compare.
    rankings : dict
        (metric, ``"ours"`` or ``"published"``) → `Ranking` over the small data sets.
    notes : tuple of str
        What a reader must know: other features, other splits, means over records, tests.
    """

    layout: str
    title: str
    corner: str
    columns: tuple[TableColumn, ...]
    ours: pd.DataFrame
    published: pd.DataFrame
    published_decimals: pd.DataFrame
    marks_ours: pd.DataFrame
    marks_published: pd.DataFrame
    spread: pd.DataFrame
    n_seeds: pd.DataFrame
    verdict: pd.DataFrame
    best_of: Literal["column", "row"]
    rankings: dict[tuple[str, str], Ranking]
    notes: tuple[str, ...]

    @property
    def alike(self) -> pd.DataFrame:
        """Whether our number does not differ from our best one."""
        return self.verdict == "alike"

    @property
    def difference(self) -> pd.DataFrame:
        """Ours less published."""
        return self.ours - self.published


def build_table(
    records: pd.DataFrame,
    like: str = "main",
    *,
    features: str | None = None,
    split_version: str | None = None,
    protocol: str | None = None,
    grid: str | None = None,
    rows: Literal["all", "ours"] = "all",
    columns: Literal["all", "ours"] = "all",
) -> ResultTable:
    """Put records into the layout of one of the paper's tables, beside its numbers.

    Methods and data sets that the paper's table lacks come after its own; a table of nothing but
    data sets of one's own does not name the paper. Several records with one place (seeds, class
    splits) give their mean; with several seeds also the spread. The best is marked, and so is each
    method that does not differ from it. Where methods have different runs, as those of a benchmark
    that is not finished, ranks and the best go by the runs that all have.

    Parameters
    ----------
    records : DataFrame
        As `read_records` gives it; at least the columns `method`, `dataset`, `split`,
        `split_version`, `features`, `setting`, `metric` and `value`.
    like : str
        Name of a table, a key of `TABLES`.
    features : str, optional
        Take only records with these features. Needed when records of one column have several.
    split_version : str, optional
        Take only records with this version of the split, whole or as ``"PS1"``, ``"PS2"``.
    protocol : str, optional
        Take only records of this protocol. Needed when records of one column have several.
    grid : str, optional
        Take only records tuned on this grid. Needed when records of one place have several.
    rows : {"all", "ours"}
        Whether rows without a number of ours are shown.
    columns : {"all", "ours"}
        Whether columns without a number of ours are shown.

    Returns
    -------
    ResultTable
        The table, for `render`.

    Raises
    ------
    ValueError
        When the layout is unknown, or a column would mix features, versions of a split or
        protocols.
    """
    if like not in LAYOUTS:
        raise ValueError(f"There is no layout {like!r}. There are: {', '.join(LAYOUTS)}.")
    absent = [name for name in (*REQUIRED, "metric", "value") if name not in records.columns]
    if absent:
        raise ValueError(f"Records lack the columns {name_some(absent)}.")
    for name, choice in (("rows", rows), ("columns", columns)):
        if choice not in ("all", "ours"):
            raise ValueError(f"{name} is 'all' or 'ours', not {choice!r}.")
    row_keys = LAYOUTS[like].rows
    column_keys = tuple(key for key in KEYS if key not in row_keys)
    published = {
        (_key(number, row_keys), _key(number, column_keys)): number
        for number in load_published(like).to_dict("records")
    }
    table_rows = {row: None for row, _ in published}
    table_columns = paper_columns(published, column_keys)

    candidates = comparable_records(
        records,
        like,
        features=features,
        split_version=split_version,
        protocol=protocol,
        grid=grid,
    )
    own_numbers, left_out = place_records(
        candidates,
        row_keys,
        column_keys,
        table_rows,
        table_columns,
        any_split=LAYOUTS[like].any_split,
    )
    own_numbers = prefer_conventional(own_numbers)
    if not own_numbers and "ours" in (rows, columns):
        raise ValueError(f"None of the records has a place in the table {like!r}.")
    refuse_mixtures(own_numbers, table_columns, by_row="features" in row_keys)

    for number in own_numbers:
        table_rows.setdefault(number.row)
    table_columns = own_columns_last(table_columns)
    # Names do not depend on which of the columns are shown.
    names = dict(zip(table_columns, column_names(table_columns), strict=True))
    if rows == "ours":
        kept = {number.row for number in own_numbers}
        table_rows = {row: None for row in table_rows if row in kept}
    if columns == "ours":
        kept = {number.column for number in own_numbers}
        table_columns = {key: table_columns[key] for key in table_columns if key in kept}
    table = _assemble(like, table_rows, table_columns, names, published, own_numbers)
    if not left_out:
        return table
    note = f"Left out – records with other signatures: {name_some(sorted(left_out))}."
    return replace(table, notes=(note, *table.notes))


def _key(number: Mapping[Any, Any], names: tuple[str, ...]) -> Key:
    return tuple(str(number[name]) for name in names)


def _assemble(
    like: str,
    rows: Mapping[Key, None],
    columns: Mapping[Key, Column],
    all_names: Mapping[Key, str],
    published: Mapping[tuple[Key, Key], Mapping[Any, Any]],
    own_numbers: Sequence[OwnNumber],
) -> ResultTable:
    """Make the frames, marks, rankings and notes."""
    layout = LAYOUTS[like]
    names = [all_names[key] for key in columns]
    labels = [row_label(layout, row) for row in rows]
    ours = measured_by_place(own_numbers)
    measured = {place: Spread.of(cell.runs) for place, cell in ours.items()}
    comparison = Comparison.of(layout, rows, columns, ours)
    nothing = Spread.of({})

    def frame(cell: Callable[[Key, Key, Column], Any]) -> pd.DataFrame:
        body = [[cell(row, key, column) for key, column in columns.items()] for row in rows]
        return pd.DataFrame(body, index=labels, columns=names)

    def our_mean(row: Key, key: Key, column: Column) -> float:
        return round(measured.get((row, key), nothing).mean, column.decimals)

    def our_compared(row: Key, key: Key, column: Column) -> float:
        return round(Spread.of(comparison.compared[row, key].runs).mean, column.decimals)

    def our_verdict(row: Key, key: Key, _: Column) -> str:
        return comparison.verdicts[row, key]

    def our_spread(row: Key, key: Key, _: Column) -> float:
        return measured.get((row, key), nothing).deviation

    def our_seeds(row: Key, key: Key, _: Column) -> int:
        return measured.get((row, key), nothing).n_seeds

    def printed(row: Key, key: Key, _: Column) -> float:
        return published[row, key]["value"] if (row, key) in published else math.nan

    def printed_decimals(row: Key, key: Key, column: Column) -> int:
        return published[row, key]["decimals"] if (row, key) in published else column.decimals

    def printed_mark(row: Key, key: Key, _: Column) -> str:
        mark = published[row, key]["mark"] if (row, key) in published else ""
        return mark if mark in ("best", "second") else ""

    our_frame, published_frame = frame(our_mean).astype(float), frame(printed).astype(float)
    table_columns = _table_columns(layout, columns, names, own_numbers)
    of_paper = shows_paper(layout, rows, columns, {row for row, _ in published})
    compared, verdict = frame(our_compared).astype(float), frame(our_verdict).astype(object)
    rankings = _rankings(layout, table_columns, compared, published_frame)
    if not of_paper:
        # A rank on one data set of one's own is its number once more.
        rankings = {key: ranking for key, ranking in rankings.items() if ranking.n_columns > 1}
    n_seeds = frame(our_seeds)
    title = f"{TABLES[like].title} (Table {TABLES[like].number} of the paper)"
    return ResultTable(
        layout=like,
        title=title if of_paper else TABLES[like].title if layout.any_split else layout.own_title,
        corner=" · ".join(layout.rows),
        columns=table_columns,
        ours=our_frame,
        published=published_frame,
        published_decimals=frame(printed_decimals),
        marks_ours=best_marks(layout, rows, compared),
        marks_published=frame(printed_mark),
        spread=frame(our_spread).astype(float),
        n_seeds=n_seeds,
        verdict=verdict,
        best_of=layout.best,
        rankings=rankings,
        notes=(
            *feature_notes(table_columns, of_paper=of_paper),
            *version_notes(table_columns, columns, own_numbers),
            *protocol_notes(own_numbers, of_paper=of_paper),
            *count_notes(names, columns, own_numbers, n_seeds),
            *class_split_notes(names, columns, own_numbers),
            *tuning_notes(columns, own_numbers, of_paper=of_paper),
            *comparison.notes(dict(zip(rows, labels, strict=True)), all_names),
            *verdict_notes(verdict, n_seeds),
            *rank_notes(rankings),
        ),
    )


def _table_columns(
    layout: Layout,
    columns: Mapping[Key, Column],
    names: Sequence[str],
    own_numbers: Iterable[OwnNumber],
) -> tuple[TableColumn, ...]:
    """The columns of the finished table."""
    features = {}
    if "features" not in layout.rows:
        features = {number.column: number.features for number in own_numbers}
    return tuple(
        TableColumn(
            name=name,
            keys=dict(column.keys),
            unit=column.unit,
            decimals=column.decimals,
            features=features.get(key, ""),
            published_features=column.keys.get("features", "") if column.published else "",
        )
        for name, (key, column) in zip(names, columns.items(), strict=True)
    )


def _rankings(
    layout: Layout, columns: Sequence[TableColumn], ours: pd.DataFrame, published: pd.DataFrame
) -> dict[tuple[str, str], Ranking]:
    """Rank over the small data sets, by each metric that the layout ranks by."""
    rankings = {}
    for metric in layout.ranked:
        names = [
            column.name
            for column in columns
            if column.keys["metric"] == metric and column.keys["dataset"] != "ImageNet"
        ]
        for side, frame in (("ours", ours), ("published", published)):
            values = frame[names].dropna(axis="columns", how="all")
            if values.shape[1] and len(values.dropna()) > 1:
                rankings[metric, side] = rank_methods(values)
    return rankings
