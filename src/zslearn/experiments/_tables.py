"""Tables in the layout of the paper: our records, the published numbers and their difference.

Nothing is computed here. Rows and columns are identified by their keys, and data sets that are not
in the paper get columns of their own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from zslearn._utils._messages import name_some
from zslearn.datasets import XLSA17
from zslearn.experiments._names import (
    DATASET_LABELS,
    FEATURE_LABELS,
    LEARNED,
    PUBLISHED_SPLIT_VERSION,
    canonical_dataset,
    canonical_features,
    canonical_method,
    is_drawn,
    is_published_split,
    metric_label,
    same_features,
    short_version,
)
from zslearn.experiments._published import KEYS, TABLES, load_published
from zslearn.experiments._ranks import Ranking, rank_methods
from zslearn.experiments._records import DEFAULT_PROTOCOL, REQUIRED
from zslearn.experiments._summary import (
    NOT_DIFFERENT,
    UNCALIBRATED,
    WITH_IMAGES,
    Measured,
    Verdict,
    chosen_grids,
    measured_cells,
    not_judged_text,
    on_common_runs,
    prepared,
    seed_mean,
    seeds_text,
    verdicts,
)

#: Values that identify a row or a column.
Key = tuple[str, ...]
#: A row and a column.
Place = tuple[Key, Key]


@dataclass(frozen=True)
class Layout:
    """Which keys identify a row (the others identify a column), and what is compared.

    `ranked`: metrics by which methods are ranked. `best`: whether the best of each column or of
    each row is marked, among rows with the same `block` key. `own_title`: title of a table without
    data sets of the paper. `any_split`: whether splits that the paper's table lacks get columns.
    """

    rows: tuple[str, ...] = ("method",)
    ranked: tuple[str, ...] = ()
    best: Literal["column", "row"] = "column"
    block: str | None = None
    own_title: str = "Results"
    any_split: bool = False

    def block_of(self, row: Key) -> str:
        """The part of a row that the rows it is compared with share."""
        return row[self.rows.index(self.block)] if self.block else ""


_BY_DATASET = Layout(rows=("dataset",), best="row", any_split=True)
_BY_SEMANTIC = Layout(rows=("semantic", "method"), block="semantic")
#: Name of a published table → its layout.
LAYOUTS = {
    "main": Layout(
        ranked=("per_class_accuracy", "ausuc"),
        own_title="Per-class accuracy (conventional setting) and AUSUC (generalized setting)",
    ),
    "zsl": Layout(
        ranked=("per_class_accuracy",), own_title="Conventional setting, per-class accuracy"
    ),
    "imagenet": Layout(),
    "gzsl": Layout(ranked=("ausuc",), own_title="Generalized setting, AUSUC"),
    "harmonic": Layout(
        ranked=("harmonic", "calibrated_harmonic", "ausuc"),
        own_title="Generalized setting, harmonic mean without and with calibration",
    ),
    "semantic": _BY_SEMANTIC,
    "imagenet_best": Layout(rows=("method", "features", "semantic")),
    "ideal": _BY_SEMANTIC,
    "imagenet_fk": Layout(rows=("subset", "method", "features", "semantic"), block="subset"),
    "hie": Layout(),
    "per_sample": _BY_SEMANTIC,
    "regularization": _BY_DATASET,
    "learned_phantoms": _BY_DATASET,
    "correlation": _BY_DATASET,
    "knn_overlap": Layout(any_split=True),
    "regressor": Layout(rows=("dataset", "method"), block="dataset", any_split=True),
    "pca": _BY_DATASET,
}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its keys, unit, digits and name.

    `published`: whether the paper's table has it; `like`: position of the paper's column that
    another one resembles; `features`: features of our numbers, empty if there are none;
    `comparable`: whether the published numbers have the same features and split.
    """

    keys: Mapping[str, str]
    unit: str
    decimals: int
    published: bool
    name: str = ""
    features: str = ""
    comparable: bool = False
    like: int | None = None

    @property
    def published_features(self) -> str:
        """Features of the published numbers; empty if there are none."""
        return self.keys.get("features", "")


@dataclass(frozen=True)
class ResultTable:
    """A table in the layout of the paper, made by :func:`build_table`.

    Parameters
    ----------
    layout : str
        Name of the layout, a key of `LAYOUTS`.
    title, corner : str
        Title, and heading of the row labels.
    columns : tuple of TableColumn
        Columns of the frames, which all have shape (n_rows, n_columns).
    ours, published : DataFrame
        Numbers in the unit and precision of the paper; NaN if missing.
    published_decimals : DataFrame
        Digits after the point of the published numbers.
    marks_ours, marks_published : DataFrame
        ``"best"``, ``"second"`` or empty. Ours compare the means over the runs that all methods
        have; the published marks are those of the paper.
    deviation, n_seeds : DataFrame
        Standard deviation of our numbers over the seeds, and number of seeds.
    verdict : DataFrame
        Whether our number differs from our best one; see :class:`RunSummary`.
    best_of : {"column", "row"}
        What the marks compare.
    rankings : dict
        (metric, ``"ours"`` or ``"published"``) → `Ranking` over at least two of the small data
        sets. The published numbers are ranked only for the same methods and columns as ours.
    notes : tuple of str
        Conditions of the numbers: other features or splits, means over records, tests.
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
    deviation: pd.DataFrame
    n_seeds: pd.DataFrame
    verdict: pd.DataFrame
    best_of: Literal["column", "row"]
    rankings: dict[tuple[str, str], Ranking]
    notes: tuple[str, ...]

    @property
    def not_different(self) -> pd.DataFrame:
        """Whether our number does not differ significantly from our best one."""
        return self.verdict == NOT_DIFFERENT

    def cells(self) -> pd.DataFrame:
        """The numbers in long form.

        Returns
        -------
        DataFrame
            A row per cell with a number: "row", "column", "ours" with its "deviation", "n_seeds",
            "mark" and "verdict", "published" and "difference".
        """
        parts = {
            "ours": self.ours,
            "deviation": self.deviation,
            "n_seeds": self.n_seeds,
            "mark": self.marks_ours,
            "verdict": self.verdict,
            "published": self.published,
            "difference": self.difference,
        }
        long = {name: frame.stack(future_stack=True) for name, frame in parts.items()}
        table = pd.DataFrame(long).rename_axis(["row", "column"])
        return table.dropna(subset=["ours", "published"], how="all").reset_index()

    @property
    def difference(self) -> pd.DataFrame:
        """Ours minus published; NaN unless features and split are the same."""
        apart = [column.name for column in self.columns if not column.comparable]
        return (self.ours - self.published).assign(**dict.fromkeys(apart, math.nan))


def build_table(
    records: pd.DataFrame,
    like: str = "main",
    *,
    features: str | None = None,
    split_version: str | None = None,
    protocol: str | None = None,
    grid: str | None = None,
    only_ours: bool = False,
) -> ResultTable:
    """Arrange records in the layout of one of the paper's tables, beside its numbers.

    Methods and data sets that the paper lacks follow its own. Records of several seeds and class
    splits are averaged, with the standard deviation over the seeds. The best method is marked, and
    so is every method that does not differ significantly from it. If methods have different runs,
    as in an unfinished benchmark, they are compared on the runs that all of them have.

    Parameters
    ----------
    records : DataFrame
        From :func:`read_records`; at least the columns `method`, `dataset`, `split`,
        `split_version`, `features`, `setting`, `metric` and `value`.
    like : str
        Name of a table, a key of `LAYOUTS`.
    features, split_version, protocol : str, optional
        Use only records with these image features, split version (in full or as ``"PS1"``,
        ``"PS2"``) and protocol. Required if the records of a column have several.
    grid : str, optional
        Use only records with this grid; by default "fast" for a method that has several, or its
        first.
    only_ours : bool, default=False
        Whether to omit rows and columns without a number of ours.

    Returns
    -------
    ResultTable
        The table, for :func:`render`.

    Raises
    ------
    ValueError
        If the layout is unknown, or a column would mix features, split versions or protocols.
    """
    if like not in LAYOUTS:
        raise ValueError(f"Unknown layout {like!r}; choose from {', '.join(LAYOUTS)}.")
    absent = [name for name in (*REQUIRED, "metric", "value") if name not in records.columns]
    if absent:
        raise ValueError(f"Records lack the columns {name_some(absent)}.")
    table = _Arrangement(like)
    wanted = {"split_version": split_version, "protocol": protocol, "grid": grid}
    numbers, left_out = _place_records(_as_published(records, like, features, wanted), table)
    numbers, notes = _of_one_grid(numbers)
    if not numbers and only_ours:
        raise ValueError(f"None of the records fits into the table {like!r}.")
    _refuse_mixtures(numbers, table)
    if left_out:
        notes.insert(0, f"Omitted – records with other signatures: {name_some(sorted(left_out))}.")
    table.finish(numbers, only_ours)
    return _assemble(table, numbers, notes)


# Columns: their order and names.


def _key_label(name: str, value: str) -> str:
    if name == "dataset":
        return DATASET_LABELS.get(value, value)
    return metric_label(value) if name == "metric" else value


def _column_names(columns: Mapping[Key, TableColumn]) -> list[str]:
    """The shortest names that distinguish the columns."""
    all_keys = [column.keys for column in columns.values()]

    def varies(name: str) -> bool:
        return len({keys.get(name, "") for keys in all_keys}) > 1

    feature_kinds = {c.keys.get("features", "") for c in columns.values() if c.published}
    own = not all(column.published for column in columns.values())
    has_dataset = any("dataset" in keys for keys in all_keys)
    datasets = has_dataset and (varies("dataset") or own)
    names = []
    for keys in all_keys:
        parts = []
        if datasets:
            parts.append(_key_label("dataset", keys["dataset"]))
            if keys.get("split", "own") not in ("", "own") and keys["dataset"] != "ImageNet":
                split = keys["split"]
                parts.append(split.upper() if split in ("ns", "ss", "ss0") else split)
        if not has_dataset and varies("split"):
            parts.append(keys["split"].upper() if keys["split"] in ("ns", "ss") else keys["split"])
        if keys.get("subset") and (datasets or varies("subset")):
            parts.append(keys["subset"])
        if varies("metric"):
            parts.append(metric_label(keys["metric"]))
        if len(feature_kinds) > 1 and keys.get("features"):
            parts.append(FEATURE_LABELS.get(keys["features"], keys["features"]))
        parts += [keys[name] for name in ("method", "variant") if keys.get(name) and varies(name)]
        names.append(" ".join(parts) or metric_label(keys.get("metric", "")))
    # Own columns may differ in further keys.
    for extra in ("semantic", "split", "subset", "variant"):
        for i, keys in enumerate(all_keys):
            if names.count(names[i]) > 1 and keys.get(extra):
                names[i] = f"{names[i]} {keys[extra]}"
    return names


class _Arrangement:
    """Rows and columns of a table: the paper's in its order, and those that our records add."""

    def __init__(self, like: str) -> None:
        self.like, self.layout = like, LAYOUTS[like]
        self.keys = tuple(key for key in KEYS if key not in self.layout.rows)
        self.published: dict[Place, Mapping[Any, Any]] = {}
        by_row: dict[Key, list[Key]] = {}
        first: dict[Key, Mapping[Any, Any]] = {}
        for cell in load_published(like).to_dict("records"):
            row, column = (
                tuple(str(cell[name]) for name in names) for names in (self.layout.rows, self.keys)
            )
            self.published[row, column] = cell
            by_row.setdefault(row, []).append(column)
            first.setdefault(column, cell)
        self.rows: dict[Key, None] = dict.fromkeys(by_row)
        # The row with the fewest gaps gives the order of the columns.
        self.columns: dict[Key, TableColumn] = {
            column: TableColumn(
                dict(zip(self.keys, column, strict=True)),
                first[column]["unit"],
                first[column]["decimals"],
                True,
            )
            for column in dict.fromkeys([*max(by_row.values(), key=len), *first])
        }
        self.paper = dict(self.columns)

    def row_of(self, record: Mapping[str, Any]) -> Key:
        """The row of a record: one of the paper's with the same features, or a new one."""
        names = self.layout.rows
        row = tuple(str(record[name]) for name in names)
        for known in self.rows:
            pairs = zip(names, known, row, strict=True)
            if all(same_features(a, b) if name == "features" else a == b for name, a, b in pairs):
                return known
        return row

    def column_of(self, record: Mapping[str, Any]) -> tuple[Key, TableColumn] | None:
        """The column of a record, if any, which may be a new one."""

        def fits(name: str, wanted: str) -> bool:
            # Other features are allowed, and a record need not name its signatures.
            is_open = name == "features" or (name == "semantic" and record[name] == "")
            return is_open or record[name] == wanted

        fitting = [
            (key, column)
            for key, column in self.paper.items()
            if all(fits(name, value) for name, value in column.keys.items())
        ]
        if not fitting:
            return self._own_column(record)
        features = record["features"]
        same = [pair for pair in fitting if same_features(pair[1].published_features, features)]
        return (same or fitting)[-1]

    def _own_column(self, record: Mapping[str, Any]) -> tuple[Key, TableColumn] | None:
        """A column for a data set, split or problem that the paper's table lacks, if allowed."""
        datasets = {column.keys.get("dataset") for column in self.paper.values()}
        # Images of unseen classes make it another problem, on any data set.
        with_images = record["variant"].startswith(WITH_IMAGES)
        is_papers = record["dataset"] in datasets and not with_images
        if not self.layout.any_split and (len(datasets) == 1 or is_papers):
            return None
        variant = "" if with_images else record["variant"]
        # If rows are data sets, columns also differ by method.
        equal = ("setting", "metric", *(() if "dataset" in self.keys else ("method",)))
        for position, column in enumerate(self.paper.values()):
            if _same_variant(column.keys.get("variant", ""), variant) and all(
                column.keys[name] == record[name] for name in equal if name in column.keys
            ):
                keys = {n: "" if n == "features" else str(record[n]) for n in self.keys}
                new = TableColumn(keys, column.unit, column.decimals, False, like=position)
                return tuple(keys.values()), new
        return None

    def finish(self, numbers: Sequence[Placed], only_ours: bool) -> None:
        """Add our rows, put our columns last, and name the columns and their conditions."""
        for number in numbers:
            self.rows.setdefault(number["row"])
        own = [column.keys for column in self.columns.values() if not column.published]
        datasets = list(dict.fromkeys(keys.get("dataset", "") for keys in own))

        def place(item: tuple[Key, TableColumn]) -> tuple[Any, ...]:
            """By data set, then in the order of the paper's columns that they are like."""
            keys, position = item[1].keys, item[1].like
            if position is None:
                return (-1,)
            variant = keys.get("variant", "").partition(";")[2]
            return (datasets.index(keys.get("dataset", "")), position, variant)

        columns = dict(sorted(self.columns.items(), key=place))
        by_row = "features" in self.layout.rows
        ours = {n["column"]: "" if by_row else str(n["features"]) for n in numbers}
        others = {
            n["column"]
            for n in numbers
            if not is_published_split(n["split"], str(n["split_version"]))
        }
        # Named before some are omitted, so that names do not depend on which columns are shown.
        for (key, column), name in zip(columns.items(), _column_names(columns), strict=True):
            mine = ours.get(key, "")
            same = by_row or same_features(mine, column.published_features)
            comparable = column.published and key not in others and same
            columns[key] = replace(column, name=name, features=mine, comparable=comparable)
        if only_ours:
            placed = {number["row"] for number in numbers}
            self.rows = {row: None for row in self.rows if row in placed}
            columns = {key: column for key, column in columns.items() if key in ours}
        self.columns = columns


# Placement: the row and the column of each record, and which records may share a column.


#: A record with its "row", its "column" and its "value" in the unit of the column.
Placed = dict[str, Any]


def _n_class_splits(dataset: str) -> int:
    """Number of class splits of a data set that papers average over."""
    return XLSA17[dataset].n_class_splits if dataset in XLSA17 else 0


def _as_published(
    records: pd.DataFrame, like: str, features: str | None, wanted: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Records of the wanted features, protocol and so on, renamed as in the published tables."""
    # The published class splits are averaged even if there is only one.
    found, _ = prepared(records, lambda name: _n_class_splits(canonical_dataset(name)) > 0)
    # Analyses with images of unseen classes measure other problems than runs of the same variant.
    is_run = (found["analysis"] == "") | ~found["variant"].str.startswith(WITH_IMAGES)
    found = found[is_run].dropna(subset=["value"])
    found["protocol"] = found["protocol"].replace("", DEFAULT_PROTOCOL)
    if features is not None:
        is_wanted = [same_features(own, features) for own in found["features"]]
        found = found.loc[np.array(is_wanted, dtype=bool)]
    for name, choice in wanted.items():
        if choice is not None:
            short = short_version if name == "split_version" else str
            is_wanted = [choice in (own, short(own)) for own in found[name].astype(str)]
            found = found.loc[np.array(is_wanted, dtype=bool)]
    methods = {name: canonical_method(name) for name in found["method"].unique()}
    found["method"] = found["method"].replace(methods)
    found["split"] = found["split"].astype(str).str.casefold()
    pairs = zip(found["dataset"], found["split"] == "own", strict=True)
    found["dataset"] = [canonical_dataset(name, own=own) for name, own in pairs]
    of_imagenet = found["dataset"] == "ImageNet"
    for name, default in (("subset", "all"), ("split", "ss")):
        found.loc[of_imagenet & (found[name] == ""), name] = default
    found["tuned_for"] = found["setting"]
    if like == "harmonic":
        # The paper tunes the uncalibrated harmonic mean for the conventional setting.
        found.loc[found["metric"].isin(UNCALIBRATED), "setting"] = "gzsl"
    if like == "learned_phantoms":
        # Runs give a method with learned phantoms a name, the paper a variant.
        plain = found["variant"] == ""
        is_learned = found["method"].str.endswith(LEARNED).astype(str)
        found.loc[plain, "variant"] = "learn_phantoms=" + is_learned[plain]
        found["method"] = found["method"].str.removesuffix(LEARNED)
    if like == "correlation":
        # These records also name the number of neighbours, for another table.
        found.loc[found["variant"].str.startswith("k="), "variant"] = ""
    return [{str(k): v for k, v in row.items()} for row in found.to_dict("records")]


def _place_records(
    records: Iterable[dict[str, Any]], table: _Arrangement
) -> tuple[list[Placed], set[str]]:
    """Place our numbers, adding columns where needed; also the omitted kinds of signatures.

    Uncalibrated numbers of both settings are taken from the conventional one.
    """
    numbers: list[Placed] = []
    left_out: set[str] = set()
    for record in records:
        if (found := table.column_of(record)) is not None:
            key, column = found
            table.columns.setdefault(key, column)
            value = float(record["value"]) * (100 if column.unit == "%" else 1)
            numbers.append(record | {"row": table.row_of(record), "column": key, "value": value})
        elif record["semantic"] and table.column_of(record | {"semantic": ""}):
            left_out.add(record["semantic"])

    def place_of(n: Placed) -> tuple[Any, ...]:
        return n["row"], n["column"], n["features"]

    conventional = {place_of(n) for n in numbers if n["tuned_for"] == "zsl"}
    kept = [n for n in numbers if n["tuned_for"] == "zsl" or place_of(n) not in conventional]
    return kept, left_out


def _same_variant(published: str, ours: str) -> bool:
    """Whether two variants are the same, or ours refines the published one.

    k is 40 % of the classes, whatever their number, and phantoms can be learned in several ways.
    """
    return (
        published == ours
        or (published.startswith("k=") and ours.startswith("k="))
        or (published == "learn_phantoms=True" and ours.startswith(f"{published};"))
    )


def _of_one_grid(numbers: Sequence[Placed]) -> tuple[list[Placed], list[str]]:
    """Numbers of one grid for each method, and notes on methods with several."""
    pairs = list(dict.fromkeys((str(n["method"]), str(n["grid"])) for n in numbers))
    chosen = chosen_grids(pairs)
    alike: dict[tuple[str, ...], list[str]] = {}
    for method, shown in chosen.items():
        if len(grids := sorted(grid for name, grid in pairs if name == method)) > 1:
            alike.setdefault((shown, *grids), []).append(method)
    notes = [
        f"Several grids ({', '.join(grids)}) – {', '.join(methods)}: the table shows {shown}."
        for (shown, *grids), methods in alike.items()
    ]
    return [n for n in numbers if n["grid"] == chosen[str(n["method"])]], notes


def _refuse_mixtures(numbers: Iterable[Placed], table: _Arrangement) -> None:
    """Raise an error if a column mixes features, split versions or protocols."""
    # Each class split has a version of its own.
    of_features = "row" if "features" in table.layout.rows else ""
    within = {"features": of_features, "split_version": "class_split", "protocol": ""}
    for what, part in within.items():
        found: dict[tuple[Key, Any], dict[str, str]] = {}
        for n in numbers:
            same = canonical_features(n[what]) if what == "features" else n[what]
            found.setdefault((n["column"], n.get(part)), {})[same] = n[what]
        for (column, _), values in found.items():
            if len(values) > 1:
                keys = table.columns[column].keys
                where = " ".join(keys[k] for k in ("dataset", "split", "metric") if keys.get(k))
                raise ValueError(
                    f"Records for {where} differ in {what}: {name_some(sorted(values.values()))}. "
                    f"They cannot share a column; choose one with {what}=."
                )


# Significance: the best, the second best, and what does not differ from the best.


def _compare(
    layout: Layout,
    rows: Mapping[Key, str],
    columns: Mapping[Key, TableColumn],
    ours: Mapping[Place, Measured],
) -> tuple[dict[Place, Measured], dict[Place, Verdict], list[str]]:
    """Compare the numbers of a column and block, or of a row, on the runs that all of them have.

    Returns the numbers on these runs, whether they differ from the best, and notes.
    """
    groups: dict[Hashable, list[Place]] = {}
    for row in rows:
        for column in columns:
            group = row if layout.best == "row" else (layout.block_of(row), column)
            groups.setdefault(group, []).append((row, column))
    compared: dict[Place, Measured] = {}
    found: dict[Place, Verdict] = {}
    unequal: dict[str, None] = {}
    apart: dict[str, None] = {}
    for places in groups.values():
        cells = [ours.get(place, Measured()) for place in places]
        common = on_common_runs(cells)
        compared.update(zip(places, common, strict=True))
        found.update(zip(places, verdicts(cells), strict=True))
        where = rows[places[0][0]] if layout.best == "row" else columns[places[0][1]].name
        if any(len(a.runs) != len(b.runs) for a, b in zip(cells, common, strict=True)):
            unequal[where] = None
        elif len({frozenset(cell.runs) for cell in cells if cell.runs}) > 1:
            apart[where] = None
    notes = []
    if unequal:
        notes.append(
            f"Unequal runs – {', '.join(unequal)}: methods are compared and ranked by their means "
            "over the runs that all of them have, not by the means shown."
        )
    if apart:
        where = ", ".join(apart)
        notes.append(f"No common runs – {where}: means over different runs are compared.")
    return compared, found, notes


def _best_marks(layout: Layout, rows: Iterable[Key], values: pd.DataFrame) -> pd.DataFrame:
    """Mark the best and second best, by row or by column among the rows of a block."""
    if layout.best == "row":
        places = values.rank(axis=1, ascending=False, method="min")
    else:
        blocks = np.asarray([layout.block_of(row) for row in rows], dtype=object)
        places = values.groupby(blocks).rank(ascending=False, method="min")
    marks = pd.DataFrame("", index=values.index, columns=values.columns, dtype=object)
    return marks.mask(places == 1, "best").mask(places == 2, "second")


# The finished table.


def _assemble(table: _Arrangement, numbers: Sequence[Placed], notes: Sequence[str]) -> ResultTable:
    """Build the frames, marks, rankings and notes."""
    like, layout, published = table.like, table.layout, table.published
    rows, columns = table.rows, table.columns
    labels = {
        row: " · ".join(_key_label(n, v) for n, v in zip(layout.rows, row, strict=True) if v)
        for row in rows
    }
    ours = measured_cells(numbers, ("row", "column"))
    compared, verdict, comparison_notes = _compare(layout, labels, columns, ours)

    def frame(cell: Callable[[Place], Any], kind: Any = float) -> pd.DataFrame:
        body = [[cell((row, key)) for key in columns] for row in rows]
        heads = [column.name for column in columns.values()]
        return pd.DataFrame(body, index=[*labels.values()], columns=heads).astype(kind)

    def rounded(values: Mapping[Place, Measured]) -> pd.DataFrame:
        def mean(at: Place) -> float:
            return round(seed_mean(values.get(at, Measured()).runs).mean, columns[at[1]].decimals)

        return frame(mean)

    means = {place: seed_mean(cell.runs) for place, cell in ours.items()}
    nothing = seed_mean({})
    n_seeds = frame(lambda at: means.get(at, nothing).n_seeds, int)
    verdicts_of_ours = frame(lambda at: verdict[at], object)
    our_compared = rounded(compared)
    printed = frame(lambda at: published[at]["value"] if at in published else math.nan)
    marks = frame(lambda at: published[at]["mark"] if at in published else "", object)
    # Whether the table shows a data set of the paper, even if only with our numbers.
    paper_rows = {row for row, _ in published}
    of_paper = any(column.published for column in columns.values())
    if "dataset" in layout.rows:
        of_paper = any(row in paper_rows for row in rows)
    title = TABLES[like] if layout.any_split else layout.own_title
    if of_paper:
        title = f"{TABLES[like]} (Table {list(TABLES).index(like) + 1} of the paper)"
    rankings = _rankings(layout, columns.values(), our_compared, printed)
    several_seeds = bool((n_seeds > 1).any(axis=None))
    notes = [
        *notes,
        *_origin_notes(columns, numbers, of_paper),
        *_count_notes(columns, numbers, n_seeds),
        *comparison_notes,
        not_judged_text(verdicts_of_ours, several_seeds=several_seeds),
        *_rank_notes(rankings),
    ]
    return ResultTable(
        layout=like,
        title=title,
        corner=" · ".join(layout.rows),
        columns=tuple(columns.values()),
        ours=rounded(ours),
        published=printed,
        published_decimals=frame(
            lambda at: published[at]["decimals"] if at in published else columns[at[1]].decimals,
            int,
        ),
        marks_ours=_best_marks(layout, rows, our_compared),
        marks_published=marks.where(marks.isin(["best", "second"]), ""),
        deviation=frame(lambda at: means.get(at, nothing).deviation),
        n_seeds=n_seeds,
        verdict=verdicts_of_ours,
        best_of=layout.best,
        rankings=rankings,
        notes=tuple(note for note in notes if note),
    )


def _rankings(
    layout: Layout, columns: Iterable[TableColumn], ours: pd.DataFrame, published: pd.DataFrame
) -> dict[tuple[str, str], Ranking]:
    """Rank methods over the small data sets, by each metric of the layout."""
    rankings: dict[tuple[str, str], Ranking] = {}
    for metric in layout.ranked:
        names = [
            column.name
            for column in columns
            if column.keys["metric"] == metric
            and column.keys["dataset"] != "ImageNet"
            and not column.keys.get("variant", "").startswith(WITH_IMAGES)
        ]
        sides = {
            side: frame[names].dropna(axis="columns", how="all").dropna()
            for side, frame in (("ours", ours), ("published", published))
        }
        # One column needs no ranks, and published ranks compare only to ours of the same methods
        # on the same columns.
        ranked = {side: values for side, values in sides.items() if min(values.shape) > 1}
        if "ours" in ranked and "published" in ranked:
            mine, theirs = ranked["ours"].axes, ranked["published"].axes
            if not all(a.equals(b) for a, b in zip(mine, theirs, strict=True)):
                del ranked["published"]
        rankings |= {(metric, side): rank_methods(values) for side, values in ranked.items()}
    return rankings


# Notes on features, splits, means over records and tests.


def _where(names: Sequence[str], of: int) -> str:
    return "" if len(names) == of else f" ({', '.join(names)})"


def _origin_notes(
    columns: Mapping[Key, TableColumn], numbers: Sequence[Placed], of_paper: bool
) -> list[str]:
    """Notes on features, split versions and protocols that are not those of the paper."""
    notes = []
    both = [c for c in columns.values() if c.features and c.published_features]
    pairs: dict[tuple[str, str], list[str]] = {}
    for c in both:
        if not same_features(c.features, c.published_features):
            pairs.setdefault((c.features, c.published_features), []).append(c.name)
    for (mine, theirs), names in pairs.items():
        where = _where(names, len(both))
        notes.append(f"Other features – ours: {mine}; published: {theirs}{where}.")
    own = dict.fromkeys(
        f"{c.keys.get('dataset') or 'split ' + c.keys.get('split', '').upper()} "
        f"(features: {c.features})"
        for c in columns.values()
        if c.features and not c.published_features
    )
    if own:
        what = "Not in the paper's table" if of_paper else "Data"
        notes.append(f"{what} – {'; '.join(own)}.")
    versions = {n["column"]: short_version(str(n["split_version"])) for n in numbers}
    new = {
        key: column.name
        for key, column in columns.items()
        if key in versions and column.published_features and column.keys.get("split") == "ns"
    }
    for version in dict.fromkeys(versions[key] for key in new):
        if version != PUBLISHED_SPLIT_VERSION:
            names = [name for key, name in new.items() if versions[key] == version]
            notes.append(
                f"Other split version – ours: {version}; published: {PUBLISHED_SPLIT_VERSION}"
                f"{_where(names, len(new))}."
            )
    protocols = sorted({str(n["protocol"]) for n in numbers} - {DEFAULT_PROTOCOL})
    if protocols:
        notes.append(f"Protocol – {'ours: ' if of_paper else ''}{', '.join(protocols)}.")
    return notes


def _count_notes(
    columns: Mapping[Key, TableColumn], numbers: Sequence[Placed], n_seeds: pd.DataFrame
) -> list[str]:
    """Notes on the seeds, class splits and repeated records behind the means."""
    repeated, averaged, drawn = [], [], []
    for key, column in columns.items():
        own = [n for n in numbers if n["column"] == key]
        runs = Counter((n["row"], n["seed"], n["class_split"]) for n in own)
        if (most := max(runs.values(), default=1)) > 1:
            repeated.append(f"{column.name}: {most}")
        if splits := sorted({n["class_split"] for n in own} - {""}):
            averaged.append(f"{column.name}: {', '.join(splits)}")
        if any(is_drawn(str(n["split_version"])) for n in own):
            drawn.append(column.name)
    seeds = seeds_text(n_seeds.to_numpy().ravel().tolist())
    notes = {
        "Spread": f"mean ± standard deviation over {seeds}" if seeds else "",
        "Means over several records of one run": "; ".join(repeated),
        "Means over class splits": "; ".join(averaged),
        "Class splits drawn at random, not the published ones": ", ".join(drawn),
    }
    return [f"{what} – {where}." for what, where in notes.items() if where]


def _rank_notes(rankings: Mapping[tuple[str, str], Ranking]) -> list[str]:
    """Notes on the rankings and their tests."""
    notes = []
    for (metric, side), ranking in rankings.items():
        note = (
            f"Mean ranks by {metric_label(metric)}, {side} – {len(ranking.mean_ranks)} methods, "
            f"{ranking.n_columns} columns"
        )
        if not math.isnan(ranking.pvalue):
            note += (
                f"; Friedman test: χ² = {ranking.statistic:.1f}, p = {ranking.pvalue:.2g}; "
                f"critical difference at 0.05: {ranking.critical_difference:.2f}"
            )
        notes.append(f"{note}.")
    return notes
