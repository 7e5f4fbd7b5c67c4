"""Tables in the paper's layout, from records of runs: ours, published and the difference.

Nothing is computed anew here: numbers come from records and from the published tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from zslearn.experiments._names import (
    DATASET_LABELS,
    FEATURE_LABELS,
    canonical_dataset,
    canonical_features,
    canonical_method,
    metric_label,
    same_features,
    short_version,
)
from zslearn.experiments._published import KEYS, TABLES, load_published
from zslearn.experiments._ranks import Ranking, rank_methods
from zslearn.experiments._records import OPTIONAL, REQUIRED
from zslearn.utils import name_some

#: The version of the new splits that the paper's numbers are for.
PUBLISHED_SPLIT_VERSION = "PS1"

# Data sets with several class splits "ss-1", "ss-2", …, of which the paper prints the mean.
_CLASS_SPLITS = {"CUB": 4, "SUN": 10}
_UNCALIBRATED = ("unseen", "seen", "harmonic")


@dataclass(frozen=True)
class _Layout:
    """Which keys name a row (the others name a column), and what is compared with what.

    `ranked`: metrics that methods are ranked by. `best`: whether the best of a column or of a row
    is marked, and `block`: the key that the rows compared share.
    """

    rows: tuple[str, ...] = ("method",)
    ranked: tuple[str, ...] = ()
    best: Literal["column", "row"] = "column"
    block: str | None = None


_LAYOUTS = {
    "main": _Layout(ranked=("per_class_accuracy", "ausuc")),
    "zsl": _Layout(ranked=("per_class_accuracy",)),
    "imagenet": _Layout(),
    "gzsl": _Layout(ranked=("ausuc",)),
    "harmonic": _Layout(ranked=("harmonic", "calibrated_harmonic", "ausuc")),
    "semantic": _Layout(rows=("semantic", "method"), block="semantic"),
    "imagenet_best": _Layout(rows=("method", "features", "semantic")),
    "ideal": _Layout(rows=("semantic", "method"), block="semantic"),
    "imagenet_fk": _Layout(rows=("subset", "method", "features", "semantic"), block="subset"),
    "hie": _Layout(),
    "per_sample": _Layout(rows=("semantic", "method"), block="semantic"),
    "regularization": _Layout(rows=("dataset",), best="row"),
    "learned_phantoms": _Layout(rows=("dataset",), best="row"),
    "correlation": _Layout(rows=("dataset",), best="row"),
    "knn_overlap": _Layout(),
    "regressor": _Layout(rows=("dataset", "method"), block="dataset"),
    "pca": _Layout(rows=("dataset",), best="row"),
}

Key = tuple[str, ...]


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Parameters
    ----------
    name : str
        What stands above it.
    keys : mapping of str to str
        Data set, split, metric and what else tells it from other columns.
    unit : {"%", "1"}
        Unit of its numbers.
    decimals : int
        Digits after the point, as the paper prints.
    features : str
        Features of our numbers; empty without any.
    published_features : str
        Features of the published numbers; empty without any.
    """

    name: str
    keys: Mapping[str, str]
    unit: str
    decimals: int
    features: str = ""
    published_features: str = ""


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
        ``"best"``, ``"second"`` or nothing. Ours are compared among themselves; the published ones
        are as the paper marks them.
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
    best_of: Literal["column", "row"]
    rankings: dict[tuple[str, str], Ranking]
    notes: tuple[str, ...]

    @property
    def difference(self) -> pd.DataFrame:
        """Ours less published."""
        return self.ours - self.published


@dataclass
class _Column:
    """A column while the table is built."""

    keys: dict[str, str]
    unit: str
    decimals: int
    published: bool


@dataclass
class _Hit:
    """One of our numbers and its place."""

    row: Key
    column: Key
    features: str
    split_version: str
    class_split: str
    value: float
    tuned_for: str


def build_table(
    records: pd.DataFrame,
    like: str = "main",
    *,
    features: str | None = None,
    split_version: str | None = None,
    rows: Literal["all", "ours"] = "all",
    columns: Literal["all", "ours"] = "all",
) -> ResultTable:
    """Put records into the layout of one of the paper's tables, beside its numbers.

    Methods and data sets that the paper's table lacks come after its own. Several records with one
    place (seeds, class splits) are averaged, and a note says so.

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
        When the layout is unknown, or a column would mix features or versions of a split.
    """
    if like not in _LAYOUTS:
        raise ValueError(f"There is no layout {like!r}. There are: {', '.join(_LAYOUTS)}.")
    absent = [n for n in (*REQUIRED, "metric", "value") if n not in records.columns]
    if absent:
        raise ValueError(f"Records lack the columns {name_some(absent)}.")
    for name, choice in (("rows", rows), ("columns", columns)):
        if choice not in ("all", "ours"):
            raise ValueError(f"{name} is 'all' or 'ours', not {choice!r}.")
    layout = _LAYOUTS[like]
    row_keys = layout.rows
    column_keys = tuple(key for key in KEYS if key not in row_keys)
    numbers = load_published(like).to_dict("records")

    published = {(_key(number, row_keys), _key(number, column_keys)): number for number in numbers}
    table_rows = {row: None for row, _ in published}
    table_columns = _paper_columns(published, column_keys)

    hits: list[_Hit] = []
    left_out: set[str] = set()
    for record in _candidates(records, features, split_version, like):
        hit = _place(record, row_keys, column_keys, table_rows, table_columns)
        if hit is not None:
            hits.append(hit)
        elif record["semantic"]:
            anyhow = {**record, "semantic": ""}
            if _place(anyhow, row_keys, column_keys, table_rows, table_columns) is not None:
                left_out.add(record["semantic"])
    hits = _prefer_conventional(hits)
    if not hits and "ours" in (rows, columns):
        raise ValueError(f"None of the records has a place in the table {like!r}.")
    _refuse_mixtures(hits, table_columns, by_row="features" in row_keys)

    ours: dict[tuple[Key, Key], list[float]] = {}
    for found in hits:
        table_rows.setdefault(found.row)
        ours.setdefault((found.row, found.column), []).append(found.value)
    table_columns = _own_last(table_columns)
    # Names do not depend on which of the columns are shown.
    names = dict(zip(table_columns, _column_names(table_columns), strict=True))
    if rows == "ours":
        kept = {row for row, _ in ours}
        table_rows = {row: None for row in table_rows if row in kept}
    if columns == "ours":
        kept = {column for _, column in ours}
        table_columns = {key: table_columns[key] for key in table_columns if key in kept}
    table = _assemble(like, table_rows, table_columns, names, published, ours, hits)
    if not left_out:
        return table
    note = f"Left out – records with other signatures: {name_some(sorted(left_out))}."
    return replace(table, notes=(note, *table.notes))


def _key(number: Mapping[Any, Any], names: tuple[str, ...]) -> Key:
    return tuple(str(number[name]) for name in names)


def _paper_columns(
    published: Mapping[tuple[Key, Key], Mapping[Any, Any]], names: tuple[str, ...]
) -> dict[Key, _Column]:
    """Columns in the paper's order, which the row with the fewest gaps shows."""
    by_row: dict[Key, list[Key]] = {}
    for row, column in published:
        by_row.setdefault(row, []).append(column)
    in_order = [*max(by_row.values(), key=len), *(column for _, column in published)]
    first: dict[Key, Mapping[Any, Any]] = {}
    for (_, column), number in published.items():
        first.setdefault(column, number)
    return {
        column: _Column(
            dict(zip(names, column, strict=True)),
            first[column]["unit"],
            first[column]["decimals"],
            True,
        )
        for column in in_order
    }


def _candidates(
    records: pd.DataFrame, features: str | None, split_version: str | None, like: str
) -> Iterable[dict[str, Any]]:
    """Records with the published tables' names of things."""
    methods: dict[str, str] = {}
    for found in records.dropna(subset=["value"]).to_dict("records"):
        record = {str(name): value for name, value in found.items()}
        if features is not None and not same_features(record["features"], features):
            continue
        version = str(record["split_version"])
        if split_version not in (None, version, short_version(version)):
            continue
        if record["method"] not in methods:
            methods[record["method"]] = canonical_method(record["method"])
        record["method"] = methods[record["method"]]
        record["dataset"] = canonical_dataset(record["dataset"])
        record["split"] = str(record["split"]).casefold()
        record["class_split"] = ""
        if record["dataset"] in _CLASS_SPLITS and re.fullmatch(r"ss-\d+", record["split"]):
            record["class_split"], record["split"] = record["split"], "ss"
        for name in OPTIONAL:
            if not isinstance(record.get(name), str):
                record[name] = ""
        if record["dataset"] == "ImageNet":
            record["subset"] = record["subset"] or "all"
            record["split"] = record["split"] or "ss"
        record["tuned_for"] = record["setting"]
        if like == "harmonic" and record["metric"] in _UNCALIBRATED:
            # The paper tunes the uncalibrated harmonic mean as in the conventional setting.
            record["setting"] = "gzsl"
        yield record


def _place(
    record: Mapping[str, Any],
    row_keys: tuple[str, ...],
    column_keys: tuple[str, ...],
    rows: Mapping[Key, None],
    columns: dict[Key, _Column],
) -> _Hit | None:
    """Find the row and the column of a record; a data set of our own gets a new column."""

    def fits(name: str, wanted: str) -> bool:
        # Features may differ, and a record need not say which signatures it used.
        return (
            name == "features"
            or (name == "semantic" and record[name] == "")
            or record[name] == wanted
        )

    fitting = [
        key
        for key, column in columns.items()
        if column.published and all(fits(name, value) for name, value in column.keys.items())
    ]
    if fitting:
        same = [
            key
            for key in fitting
            if same_features(columns[key].keys.get("features", ""), record["features"])
        ]
        column = (same or fitting)[-1]
    else:
        new = _own_column(record, column_keys, columns)
        if new is None:
            return None
        column = tuple(new.keys[name] for name in column_keys)
        columns.setdefault(column, new)
    row = tuple(str(record[name]) for name in row_keys)
    for known in rows:
        pairs = zip(row_keys, known, row, strict=True)
        if all(same_features(a, b) if name == "features" else a == b for name, a, b in pairs):
            row = known
            break
    percent = columns[column].unit == "%"
    return _Hit(
        row=row,
        column=column,
        features=str(record["features"]),
        split_version=str(record["split_version"]),
        class_split=str(record["class_split"]),
        value=float(record["value"]) * (100 if percent else 1),
        tuned_for=str(record["tuned_for"]),
    )


def _own_column(
    record: Mapping[str, Any], names: tuple[str, ...], columns: Mapping[Key, _Column]
) -> _Column | None:
    """A column for a data set that the paper's table lacks, if the table has such numbers."""
    paper = [column for column in columns.values() if column.published]
    datasets = {column.keys.get("dataset") for column in paper}
    if len(datasets) == 1 or record["dataset"] in datasets:
        return None
    for column in paper:
        alike = ("setting", "metric", "variant")
        if all(column.keys[name] == record[name] for name in alike if name in column.keys):
            keys = {name: "" if name == "features" else str(record[name]) for name in names}
            return _Column(keys, column.unit, column.decimals, False)
    return None


def _own_last(columns: dict[Key, _Column]) -> dict[Key, _Column]:
    """Own columns after the paper's, by data set and then in the paper's order of metrics."""
    metrics = [c.keys.get("metric", "") for c in columns.values() if c.published]
    datasets = [c.keys.get("dataset", "") for c in columns.values() if not c.published]

    def place(item: tuple[Key, _Column]) -> tuple[int, int]:
        keys = item[1].keys
        if item[1].published:
            return (-1, 0)
        return (datasets.index(keys["dataset"]), metrics.index(keys.get("metric", "")))

    return dict(sorted(columns.items(), key=place))


def _prefer_conventional(hits: list[_Hit]) -> list[_Hit]:
    """Of uncalibrated numbers that exist both ways, keep those tuned as in the paper."""
    conventional = {(h.row, h.column, h.features) for h in hits if h.tuned_for == "zsl"}
    return [
        hit
        for hit in hits
        if hit.tuned_for == "zsl" or (hit.row, hit.column, hit.features) not in conventional
    ]


def _refuse_mixtures(hits: Iterable[_Hit], columns: Mapping[Key, _Column], *, by_row: bool) -> None:
    """One column compares like with like: one kind of features, one version of the split."""
    features: dict[tuple[Key, Key], dict[str, str]] = {}
    versions: dict[Key, set[str]] = {}
    for hit in hits:
        place = (hit.column, hit.row if by_row else ())
        features.setdefault(place, {})[canonical_features(hit.features)] = hit.features
        # Class splits are different by intention.
        version = hit.split_version if not hit.class_split else "class splits"
        versions.setdefault(hit.column, set()).add(version)
    mixed = [(column, "features", list(f.values())) for (column, _), f in features.items()]
    mixed += [(column, "split_version", sorted(v)) for column, v in versions.items()]
    for column, what, found in mixed:
        if len(found) > 1:
            keys = columns[column].keys
            where = " ".join(keys[k] for k in ("dataset", "split", "metric") if keys.get(k))
            raise ValueError(
                f"Records for {where} differ in {what}: {name_some(found)}. "
                f"They cannot stand in one column; choose one with {what}=."
            )


def _key_label(name: str, value: str) -> str:
    if name == "dataset":
        return DATASET_LABELS.get(value, value)
    if name == "metric":
        return metric_label(value)
    return value


def _column_names(columns: Mapping[Key, _Column]) -> list[str]:
    """Names that tell the columns apart and say no more than that."""
    all_keys = [column.keys for column in columns.values()]

    def varies(name: str) -> bool:
        return len({keys.get(name, "") for keys in all_keys}) > 1

    feature_kinds = {c.keys.get("features", "") for c in columns.values() if c.published}
    own = any(not column.published for column in columns.values())
    datasets = varies("dataset") or own
    names = []
    for keys in all_keys:
        parts = []
        if datasets:
            parts.append(_key_label("dataset", keys["dataset"]))
            if keys.get("split") and keys["dataset"] != "ImageNet":
                split = keys["split"]
                parts.append(split.upper() if split in ("ns", "ss", "ss0") else split)
        if keys.get("subset") and (datasets or varies("subset")):
            parts.append(keys["subset"])
        if varies("metric"):
            parts.append(metric_label(keys["metric"]))
        if len(feature_kinds) > 1 and keys.get("features"):
            parts.append(FEATURE_LABELS.get(keys["features"], keys["features"]))
        parts += [keys[name] for name in ("method", "variant") if keys.get(name) and varies(name)]
        names.append(" ".join(parts) or metric_label(keys.get("metric", "")))
    # Columns of our own may differ in what a name does not show.
    for extra in ("semantic", "split", "subset", "variant"):
        for i, keys in enumerate(all_keys):
            if names.count(names[i]) > 1 and keys.get(extra):
                names[i] = f"{names[i]} {keys[extra]}"
    return names


def _assemble(
    like: str,
    rows: Mapping[Key, None],
    columns: Mapping[Key, _Column],
    all_names: Mapping[Key, str],
    published: Mapping[tuple[Key, Key], Mapping[Any, Any]],
    ours: Mapping[tuple[Key, Key], Sequence[float]],
    hits: Sequence[_Hit],
) -> ResultTable:
    """Make the frames, marks, rankings and notes."""
    layout = _LAYOUTS[like]
    names = [all_names[key] for key in columns]
    labels = [
        " · ".join(
            _key_label(name, value) for name, value in zip(layout.rows, row, strict=True) if value
        )
        for row in rows
    ]
    row_features = "features" in layout.rows
    used = {hit.column: hit for hit in hits}
    table_columns = tuple(
        TableColumn(
            name=name,
            keys=dict(column.keys),
            unit=column.unit,
            decimals=column.decimals,
            features=used[key].features if key in used and not row_features else "",
            published_features=column.keys.get("features", "") if column.published else "",
        )
        for name, (key, column) in zip(names, columns.items(), strict=True)
    )

    def frame(cell: Callable[[Key, Key, _Column], Any]) -> pd.DataFrame:
        body = [[cell(row, key, column) for key, column in columns.items()] for row in rows]
        return pd.DataFrame(body, index=labels, columns=names)

    def our_mean(row: Key, key: Key, column: _Column) -> float:
        values = ours.get((row, key), [])
        return round(sum(values) / len(values), column.decimals) if values else math.nan

    def printed(row: Key, key: Key, _: _Column) -> float:
        return published[row, key]["value"] if (row, key) in published else math.nan

    def printed_decimals(row: Key, key: Key, column: _Column) -> int:
        return published[row, key]["decimals"] if (row, key) in published else column.decimals

    def printed_mark(row: Key, key: Key, _: _Column) -> str:
        mark = published[row, key]["mark"] if (row, key) in published else ""
        return mark if mark in ("best", "second") else ""

    our_frame, published_frame = frame(our_mean).astype(float), frame(printed).astype(float)
    rankings = _rankings(layout, table_columns, our_frame, published_frame)
    block = layout.block
    blocks = [row[layout.rows.index(block)] if block else "" for row in rows]
    if layout.best == "row":
        marks = _best(our_frame.T, [""] * len(names)).T
    else:
        marks = _best(our_frame, blocks)
    return ResultTable(
        layout=like,
        title=f"{TABLES[like].title} (Table {TABLES[like].number} of the paper)",
        corner=" · ".join(layout.rows),
        columns=table_columns,
        ours=our_frame,
        published=published_frame,
        published_decimals=frame(printed_decimals),
        marks_ours=marks,
        marks_published=frame(printed_mark),
        best_of=layout.best,
        rankings=rankings,
        notes=(
            *_feature_notes(table_columns),
            *_version_notes(table_columns, [used.get(key) for key in columns]),
            *_count_notes(names, columns, ours),
            *_class_split_notes(names, columns, hits),
            *_tuning_notes(hits, columns),
            *_rank_notes(rankings),
        ),
    )


def _best(values: pd.DataFrame, blocks: Sequence[str]) -> pd.DataFrame:
    """Mark the best and the second best of each column among the rows of a block."""
    places = values.groupby(np.asarray(blocks, dtype=object)).rank(ascending=False, method="min")
    marks = pd.DataFrame("", index=values.index, columns=values.columns, dtype=object)
    return marks.mask(places == 1, "best").mask(places == 2, "second")


def _rankings(
    layout: _Layout, columns: Sequence[TableColumn], ours: pd.DataFrame, published: pd.DataFrame
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


def _where(names: Sequence[str], of: int) -> str:
    return "" if len(names) == of else f" ({', '.join(names)})"


def _feature_notes(columns: Sequence[TableColumn]) -> list[str]:
    pairs: dict[tuple[str, str], list[str]] = {}
    both = [column for column in columns if column.features and column.published_features]
    for column in both:
        if not same_features(column.features, column.published_features):
            pair = (column.features, column.published_features)
            pairs.setdefault(pair, []).append(column.name)
    notes = [
        f"Other features – ours: {mine}; published: {theirs}{_where(names, len(both))}."
        for (mine, theirs), names in pairs.items()
    ]
    own = dict.fromkeys(
        f"{column.keys['dataset']} (features: {column.features})"
        for column in columns
        if column.features and not column.published_features
    )
    return [*notes, f"Not in the paper's table – {'; '.join(own)}."] if own else notes


def _version_notes(columns: Sequence[TableColumn], hits: Sequence[_Hit | None]) -> list[str]:
    versions: dict[str, list[str]] = {}
    n_both = 0
    for column, hit in zip(columns, hits, strict=True):
        if hit is None or not column.published_features or column.keys.get("split") != "ns":
            continue
        n_both += 1
        version = short_version(hit.split_version)
        if version != PUBLISHED_SPLIT_VERSION:
            versions.setdefault(version, []).append(column.name)
    return [
        f"Other split version – ours: {version}; published: {PUBLISHED_SPLIT_VERSION}"
        f"{_where(names, n_both)}."
        for version, names in versions.items()
    ]


def _count_notes(
    names: Sequence[str],
    columns: Iterable[Key],
    ours: Mapping[tuple[Key, Key], Sequence[float]],
) -> list[str]:
    counts = []
    for name, key in zip(names, columns, strict=True):
        sizes = sorted({len(values) for (_, column), values in ours.items() if column == key})
        if sizes and sizes[-1] > 1:
            span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            counts.append(f"{name}: {span}")
    return [f"Ours are means over several records – {'; '.join(counts)}."] if counts else []


def _class_split_notes(
    names: Sequence[str], columns: Mapping[Key, _Column], hits: Iterable[_Hit]
) -> list[str]:
    """Say where a mean is over fewer class splits than the paper's."""
    behind: dict[Key, dict[Key, set[str]]] = {}
    for hit in hits:
        if hit.class_split:
            behind.setdefault(hit.column, {}).setdefault(hit.row, set()).add(hit.class_split)
    partial = []
    for name, (key, column) in zip(names, columns.items(), strict=True):
        fewest = min((len(splits) for splits in behind.get(key, {}).values()), default=0)
        wanted = _CLASS_SPLITS.get(column.keys.get("dataset", ""), 0)
        if 0 < fewest < wanted:
            partial.append(f"{name}: some methods {fewest} of {wanted}")
    return [f"Not all class splits – {'; '.join(partial)}."] if partial else []


def _tuning_notes(hits: Iterable[_Hit], columns: Mapping[Key, _Column]) -> list[str]:
    for hit in hits:
        column = columns.get(hit.column)
        if (
            column is not None
            and column.keys.get("metric") in _UNCALIBRATED
            and hit.tuned_for == "gzsl"
        ):
            return [
                "Without calibration – some of ours were tuned for the generalized setting; "
                "the paper tunes these as in the conventional one."
            ]
    return []


def _rank_notes(rankings: Mapping[tuple[str, str], Ranking]) -> list[str]:
    notes = []
    for (metric, side), ranking in rankings.items():
        note = (
            f"Mean ranks by {metric_label(metric)}, {side} – {len(ranking.mean_ranks)} methods, "
            f"{ranking.n_columns} column{'s' if ranking.n_columns > 1 else ''}"
        )
        if not math.isnan(ranking.pvalue):
            note += (
                f"; Friedman test: χ² = {ranking.statistic:.1f}, p = {ranking.pvalue:.2g}; "
                f"critical difference at {ranking.alpha:g}: {ranking.critical_difference:.2f}"
            )
        notes.append(f"{note}.")
    return notes
