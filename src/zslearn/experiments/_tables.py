"""Tables in the paper's layout, from records of runs: ours, published and the difference.

Nothing is computed anew here: numbers come from records and from the published tables.
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
from zslearn.datasets._xlsa17 import N_CLASS_SPLITS
from zslearn.experiments._names import (
    DATASET_LABELS,
    FEATURE_LABELS,
    LEARNED,
    canonical_dataset,
    canonical_features,
    canonical_method,
    is_drawn,
    metric_label,
    same_features,
    short_version,
)
from zslearn.experiments._published import KEYS, TABLES, load_published
from zslearn.experiments._ranks import Ranking, rank_methods
from zslearn.experiments._records import DEFAULT_PROTOCOL, OPTIONAL, REQUIRED
from zslearn.experiments._summary import (
    Measured,
    Run,
    Spread,
    Verdict,
    is_class_split,
    not_judged_text,
    on_common_runs,
    seeds_text,
    verdicts,
)

# Layouts of the paper's tables as data: what names a row and a column, and in what order.
#
# A column is named by its keys; so is a row. A data set that the paper lacks gets columns of its
# own.

#: Values that name a row or a column.
Key = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Which keys name a row (the others name a column), and what is compared with what.

    `ranked`: metrics that methods are ranked by. `best`: whether the best of a column or of a row
    is marked, and `block`: the key that the rows compared share. `own_title`: what stands above a
    table without any of the paper's data sets. `any_split`: whether records of a split that the
    paper's table lacks get columns of their own.
    """

    rows: tuple[str, ...] = ("method",)
    ranked: tuple[str, ...] = ()
    best: Literal["column", "row"] = "column"
    block: str | None = None
    own_title: str = "Results"
    any_split: bool = False


#: Name of a table → its layout; the names are those of the published tables.
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
    "semantic": Layout(rows=("semantic", "method"), block="semantic"),
    "imagenet_best": Layout(rows=("method", "features", "semantic")),
    "ideal": Layout(rows=("semantic", "method"), block="semantic"),
    "imagenet_fk": Layout(rows=("subset", "method", "features", "semantic"), block="subset"),
    "hie": Layout(),
    "per_sample": Layout(rows=("semantic", "method"), block="semantic"),
    "regularization": Layout(rows=("dataset",), best="row", any_split=True),
    "learned_phantoms": Layout(rows=("dataset",), best="row", any_split=True),
    "correlation": Layout(rows=("dataset",), best="row", any_split=True),
    "knn_overlap": Layout(any_split=True),
    "regressor": Layout(rows=("dataset", "method"), block="dataset", any_split=True),
    "pca": Layout(rows=("dataset",), best="row", any_split=True),
}


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


@dataclass
class Column:
    """A column while the table is built."""

    keys: dict[str, str]
    unit: str
    decimals: int
    published: bool


def paper_columns(
    published: Mapping[tuple[Key, Key], Mapping[Any, Any]], names: tuple[str, ...]
) -> dict[Key, Column]:
    """Columns in the paper's order, which the row with the fewest gaps shows."""
    by_row: dict[Key, list[Key]] = {}
    for row, column in published:
        by_row.setdefault(row, []).append(column)
    in_order = [*max(by_row.values(), key=len), *(column for _, column in published)]
    first: dict[Key, Mapping[Any, Any]] = {}
    for (_, column), number in published.items():
        first.setdefault(column, number)
    return {
        column: Column(
            dict(zip(names, column, strict=True)),
            first[column]["unit"],
            first[column]["decimals"],
            True,
        )
        for column in in_order
    }


def own_columns_last(columns: dict[Key, Column]) -> dict[Key, Column]:
    """Own columns after the paper's, by data set and then in the paper's order.

    The order is that of metrics, then methods and settings as the paper's columns have them; a
    setting that is a form of one of the paper's ("name=value;…") follows it.
    """
    published = [c.keys for c in columns.values() if c.published]
    datasets = [c.keys.get("dataset", "") for c in columns.values() if not c.published]

    def rank(name: str, value: str) -> int:
        known = list(dict.fromkeys(keys.get(name, "") for keys in published))
        return known.index(value) if value in known else len(known)

    def place(item: tuple[Key, Column]) -> tuple[Any, ...]:
        keys = item[1].keys
        if item[1].published:
            return (-1,)
        variant, _, form = keys.get("variant", "").partition(";")
        return (
            datasets.index(keys.get("dataset", "")),
            rank("metric", keys.get("metric", "")),
            rank("method", keys.get("method", "")),
            rank("variant", variant),
            form,
        )

    return dict(sorted(columns.items(), key=place))


def shows_paper(
    layout: Layout, rows: Iterable[Key], columns: Mapping[Key, Column], paper_rows: set[Key]
) -> bool:
    """Whether a table shows a data set of the paper, be it with our numbers only."""
    if "dataset" in layout.rows:
        return any(row in paper_rows for row in rows)
    return any(column.published for column in columns.values())


def row_label(layout: Layout, row: Key) -> str:
    """What stands before a row: its keys, without empty ones."""
    return " · ".join(
        _key_label(name, value) for name, value in zip(layout.rows, row, strict=True) if value
    )


def _key_label(name: str, value: str) -> str:
    if name == "dataset":
        return DATASET_LABELS.get(value, value)
    if name == "metric":
        return metric_label(value)
    return value


def column_names(columns: Mapping[Key, Column]) -> list[str]:
    """Names that tell the columns apart and say no more than that."""
    all_keys = [column.keys for column in columns.values()]

    def varies(name: str) -> bool:
        return len({keys.get(name, "") for keys in all_keys}) > 1

    feature_kinds = {c.keys.get("features", "") for c in columns.values() if c.published}
    own = any(not column.published for column in columns.values())
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
    # Columns of our own may differ in what a name does not show.
    for extra in ("semantic", "split", "subset", "variant"):
        for i, keys in enumerate(all_keys):
            if names.count(names[i]) > 1 and keys.get(extra):
                names[i] = f"{names[i]} {keys[extra]}"
    return names


# Our numbers of a table compared: the best and second best, and what does not differ from it.

Place = tuple[Key, Key]


@dataclass(frozen=True)
class Comparison:
    """Our numbers as they are compared: those of a column and block, or of a row.

    Parameters
    ----------
    compared : dict of (row, column) to Measured
        In the runs that all have which are compared.
    verdicts : dict of (row, column) to str
        Whether a number differs from the best.
    unequal, apart : dict
        Rows or columns where some have more runs than all have, and where no run is common to all.
    """

    compared: dict[Place, Measured]
    verdicts: dict[Place, Verdict]
    unequal: dict[Key, None]
    apart: dict[Key, None]

    @classmethod
    def of(
        cls,
        layout: Layout,
        rows: Iterable[Key],
        columns: Mapping[Key, Column],
        ours: Mapping[Place, Measured],
    ) -> Comparison:
        """Compare as the layout does."""
        groups: dict[Hashable, list[Place]] = {}
        for row in rows:
            block = row[layout.rows.index(layout.block)] if layout.block else ""
            for column in columns:
                group = row if layout.best == "row" else (block, column)
                groups.setdefault(group, []).append((row, column))
        made = cls({}, {}, {}, {})
        for places in groups.values():
            cells = [ours.get(place, Measured()) for place in places]
            common = on_common_runs(cells)
            made.compared.update(zip(places, common, strict=True))
            made.verdicts.update(zip(places, verdicts(cells), strict=True))
            where = places[0][0 if layout.best == "row" else 1]
            if any(len(a.runs) != len(b.runs) for a, b in zip(cells, common, strict=True)):
                made.unequal[where] = None
            elif len({frozenset(cell.runs) for cell in cells if cell.runs}) > 1:
                made.apart[where] = None
        return made

    def notes(self, rows: Mapping[Key, str], columns: Mapping[Key, str]) -> list[str]:
        """Say where the compared numbers are not those shown; rows and columns with their names."""
        names = {**rows, **columns}
        notes = []
        if self.unequal:
            where = ", ".join(names[key] for key in self.unequal)
            notes.append(
                f"Unequal runs – {where}: the best, the second and ranks are by the means over the "
                "runs that all have, not over all that are shown."
            )
        if self.apart:
            where = ", ".join(names[key] for key in self.apart)
            notes.append(f"No common runs – {where}: means over different runs are compared.")
        return notes


def best_marks(layout: Layout, rows: Iterable[Key], values: pd.DataFrame) -> pd.DataFrame:
    """Mark the best and second best, by row or by column."""
    if layout.best == "row":
        return _best(values.T, [""] * values.shape[1]).T
    block = layout.block
    return _best(values, [row[layout.rows.index(block)] if block else "" for row in rows])


def _best(values: pd.DataFrame, blocks: list[str]) -> pd.DataFrame:
    """Mark the best and the second best of each column among the rows of a block."""
    places = values.groupby(np.asarray(blocks, dtype=object)).rank(ascending=False, method="min")
    marks = pd.DataFrame("", index=values.index, columns=values.columns, dtype=object)
    return marks.mask(places == 1, "best").mask(places == 2, "second")


# Records in their places of a table: which row, which column, and what may stand together.

#: Metrics that the paper tunes as in the conventional setting.
UNCALIBRATED = ("unseen", "seen", "harmonic")


@dataclass
class OwnNumber:
    """One of our numbers and its place."""

    row: Key
    column: Key
    features: str
    split_version: str
    class_split: str
    value: float
    tuned_for: str
    seed: Hashable
    protocol: str
    grid: str
    by_class: tuple[tuple[str, float], ...] = ()


def comparable_records(
    records: pd.DataFrame,
    like: str,
    *,
    features: str | None,
    split_version: str | None,
    protocol: str | None,
    grid: str | None,
) -> Iterable[dict[str, Any]]:
    """Records with these features and so on, under the published tables' names of things."""
    methods: dict[str, str] = {}
    averaged = _averaged_splits(records)
    for cells in records.dropna(subset=["value"]).to_dict("records"):
        record = {str(name): value for name, value in cells.items()}
        for name in OPTIONAL:
            if not isinstance(record.get(name), str):
                record[name] = ""
        record["protocol"] = record["protocol"] or DEFAULT_PROTOCOL
        if features is not None and not same_features(record["features"], features):
            continue
        version = str(record["split_version"])
        if split_version not in (None, version, short_version(version)):
            continue
        if protocol not in (None, record["protocol"]) or grid not in (None, record["grid"]):
            continue
        if record["method"] not in methods:
            methods[record["method"]] = canonical_method(record["method"])
        record["method"] = methods[record["method"]]
        record["class_split"] = ""
        if (record["dataset"], record["split"]) in averaged:
            record["class_split"], record["split"] = record["split"].casefold(), "ss"
        record["split"] = str(record["split"]).casefold()
        record["dataset"] = canonical_dataset(record["dataset"], own=record["split"] == "own")
        if record["dataset"] == "ImageNet":
            record["subset"] = record["subset"] or "all"
            record["split"] = record["split"] or "ss"
        record["tuned_for"] = record["setting"]
        if like == "harmonic" and record["metric"] in UNCALIBRATED:
            # The paper tunes the uncalibrated harmonic mean as in the conventional setting.
            record["setting"] = "gzsl"
        if like == "learned_phantoms" and not record["variant"]:
            # The paper compares two forms of one method; runs call the second by a name of its own.
            plain = record["method"].removesuffix(LEARNED)
            record["variant"] = f"learn_phantoms={plain != record['method']}"
            record["method"] = plain
        if like == "correlation" and record["variant"].startswith("k="):
            # Records of exemplars say how many neighbours they compare, too.
            record["variant"] = ""
        yield record


def _averaged_splits(records: pd.DataFrame) -> set[tuple[str, str]]:
    """Data sets and splits whose mean is shown: those of the field, and others of several."""
    pairs = records[["dataset", "split"]].drop_duplicates().itertuples(index=False, name=None)
    found: dict[str, list[str]] = {}
    for dataset, split in pairs:
        if is_class_split(str(split).casefold()):
            found.setdefault(dataset, []).append(split)
    return {
        (dataset, split)
        for dataset, splits in found.items()
        for split in splits
        if len(splits) > 1 or canonical_dataset(dataset) in N_CLASS_SPLITS
    }


def place_records(
    records: Iterable[dict[str, Any]],
    row_keys: tuple[str, ...],
    column_keys: tuple[str, ...],
    rows: Mapping[Key, None],
    columns: dict[Key, Column],
    *,
    any_split: bool = False,
) -> tuple[list[OwnNumber], set[str]]:
    """Find the places of records; new columns are added to `columns`.

    With `any_split` a record of a split that the paper's table lacks gets a new column.
    """
    own_numbers: list[OwnNumber] = []
    left_out: set[str] = set()
    for record in records:
        number = _place(record, row_keys, column_keys, rows, columns, any_split)
        if number is not None:
            own_numbers.append(number)
        elif record["semantic"]:
            without = {**record, "semantic": ""}
            if _place(without, row_keys, column_keys, rows, columns, any_split) is not None:
                left_out.add(record["semantic"])
    return own_numbers, left_out


def _place(
    record: Mapping[str, Any],
    row_keys: tuple[str, ...],
    column_keys: tuple[str, ...],
    rows: Mapping[Key, None],
    columns: dict[Key, Column],
    any_split: bool,
) -> OwnNumber | None:
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
        new = _own_column(record, column_keys, columns, any_split)
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
    # NaN where a table of records was put together from several.
    by_class = record.get("by_class")
    return OwnNumber(
        row=row,
        column=column,
        features=str(record["features"]),
        split_version=str(record["split_version"]),
        class_split=str(record["class_split"]),
        value=float(record["value"]) * (100 if percent else 1),
        tuned_for=str(record["tuned_for"]),
        seed=None if pd.isna(record.get("seed")) else record["seed"],
        protocol=record["protocol"],
        grid=record["grid"],
        by_class=by_class if isinstance(by_class, tuple) else (),
    )


def _own_column(
    record: Mapping[str, Any],
    names: tuple[str, ...],
    columns: Mapping[Key, Column],
    any_split: bool,
) -> Column | None:
    """A column for a data set or split that the paper's table lacks, if it has such numbers."""
    paper = [column for column in columns.values() if column.published]
    datasets = {column.keys.get("dataset") for column in paper}
    if not any_split and (len(datasets) == 1 or record["dataset"] in datasets):
        return None
    # Where rows are data sets, columns are told apart by the method, too.
    alike = ("setting", "metric", *(() if "dataset" in names else ("method",)))
    for column in paper:
        if _same_variant(column.keys.get("variant", ""), record["variant"]) and all(
            column.keys[name] == record[name] for name in alike if name in column.keys
        ):
            keys = {name: "" if name == "features" else str(record[name]) for name in names}
            return Column(keys, column.unit, column.decimals, False)
    return None


def _same_variant(published: str, ours: str) -> bool:
    """Whether two settings are the same, or ours is a form of the published one.

    k is 40 % of the classes, whatever their number; phantoms may be learned in more than one way.
    """
    return (
        published == ours
        or (published.startswith("k=") and ours.startswith("k="))
        or (published == "learn_phantoms=True" and ours.startswith(f"{published};"))
    )


def prefer_conventional(own_numbers: list[OwnNumber]) -> list[OwnNumber]:
    """Of uncalibrated numbers that exist both ways, keep those tuned as in the paper."""

    def place(number: OwnNumber) -> tuple[Key, Key, str]:
        return (number.row, number.column, number.features)

    conventional = {place(number) for number in own_numbers if number.tuned_for == "zsl"}
    return [
        number
        for number in own_numbers
        if number.tuned_for == "zsl" or place(number) not in conventional
    ]


def measured_by_place(own_numbers: Iterable[OwnNumber]) -> dict[tuple[Key, Key], Measured]:
    """Our numbers by row and column, each by seed and class split; the mean of several of one."""
    places: dict[tuple[Key, Key], dict[Run, list[OwnNumber]]] = {}
    for number in own_numbers:
        runs = places.setdefault((number.row, number.column), {})
        runs.setdefault((number.seed, number.class_split), []).append(number)
    return {
        place: Measured(
            {run: sum(n.value for n in found) / len(found) for run, found in runs.items()},
            # Of several records of one run the mean has no value of a class.
            {run: dict(found[0].by_class) for run, found in runs.items() if len(found) == 1},
        )
        for place, runs in places.items()
    }


def refuse_mixtures(
    own_numbers: Iterable[OwnNumber], columns: Mapping[Key, Column], *, by_row: bool
) -> None:
    """One column compares like with like: features, version of the split, protocol.

    Methods may differ in their grids; the numbers behind one mean may not.
    """
    features: dict[tuple[Key, Key], dict[str, str]] = {}
    versions: dict[tuple[Key, str], set[str]] = {}
    protocols: dict[Key, set[str]] = {}
    grids: dict[tuple[Key, Key], set[str]] = {}
    for number in own_numbers:
        place = (number.column, number.row if by_row else ())
        features.setdefault(place, {})[canonical_features(number.features)] = number.features
        # Class splits differ by intention, each from the others.
        versions.setdefault((number.column, number.class_split), set()).add(number.split_version)
        protocols.setdefault(number.column, set()).add(number.protocol)
        grids.setdefault((number.column, number.row), set()).add(number.grid)
    kinds = [(column, "features", list(names.values())) for (column, _), names in features.items()]
    kinds += [(column, "split_version", sorted(names)) for (column, _), names in versions.items()]
    kinds += [(column, "protocol", sorted(names)) for column, names in protocols.items()]
    kinds += [(column, "grid", sorted(names)) for (column, _), names in grids.items()]
    for column, what, names in kinds:
        if len(names) > 1:
            keys = columns[column].keys
            where = " ".join(keys[k] for k in ("dataset", "split", "metric") if keys.get(k))
            raise ValueError(
                f"Records for {where} differ in {what}: {name_some(names)}. "
                f"They cannot stand in one column; choose one with {what}=."
            )


# What a reader of a table must know: other features, other splits, means over records, tests.

#: The version of the new splits that the paper's numbers are for.
PUBLISHED_SPLIT_VERSION = "PS1"


def _where(names: Sequence[str], of: int) -> str:
    return "" if len(names) == of else f" ({', '.join(names)})"


def feature_notes(columns: Sequence[TableColumn], *, of_paper: bool = True) -> list[str]:
    """Say where our features are not those of the paper, which the table may not show at all."""
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
        f"{column.keys.get('dataset') or f'split {_split(column)}'} (features: {column.features})"
        for column in columns
        if column.features and not column.published_features
    )
    what = "Not in the paper's table" if of_paper else "Data"
    return [*notes, f"{what} – {'; '.join(own)}."] if own else notes


def _split(column: TableColumn) -> str:
    return column.keys.get("split", "").upper()


def version_notes(
    columns: Sequence[TableColumn], keys: Iterable[Key], own_numbers: Iterable[OwnNumber]
) -> list[str]:
    """Say where our version of the new split is not that of the paper."""
    version_of = {number.column: short_version(number.split_version) for number in own_numbers}
    others: dict[str, list[str]] = {}
    n_both = 0
    for column, key in zip(columns, keys, strict=True):
        if (
            key not in version_of
            or not column.published_features
            or column.keys.get("split") != "ns"
        ):
            continue
        n_both += 1
        if version_of[key] != PUBLISHED_SPLIT_VERSION:
            others.setdefault(version_of[key], []).append(column.name)
    return [
        f"Other split version – ours: {version}; published: {PUBLISHED_SPLIT_VERSION}"
        f"{_where(names, n_both)}."
        for version, names in others.items()
    ]


def protocol_notes(own_numbers: Iterable[OwnNumber], *, of_paper: bool = True) -> list[str]:
    """Say how ours were tuned, where that is not the default."""
    names = sorted({number.protocol for number in own_numbers} - {DEFAULT_PROTOCOL})
    of_ours = "ours: " if of_paper else ""
    return [f"Protocol – {of_ours}{', '.join(names)}."] if names else []


def count_notes(
    names: Sequence[str],
    columns: Iterable[Key],
    own_numbers: Iterable[OwnNumber],
    n_seeds: pd.DataFrame,
) -> list[str]:
    """Say over how many seeds, class splits and further records the numbers are means."""
    numbers = list(own_numbers)
    notes = []
    if seeds_text(n_seeds.to_numpy().ravel().tolist()):
        of_columns = {name: seeds_text(n_seeds[name].tolist()) for name in names}
        kinds = sorted(set(of_columns.values()) - {""})
        several = "; ".join(f"{name}: {text}" for name, text in of_columns.items() if text)
        over = kinds[0] if len(kinds) == 1 else f"several seeds ({several})"
        notes.append(f"Spread – mean ± standard deviation over {over}.")
    repeated = []
    for name, key in zip(names, columns, strict=True):
        places = Counter((n.row, n.seed, n.class_split) for n in numbers if n.column == key)
        sizes = sorted(set(places.values()))
        if sizes and sizes[-1] > 1:
            span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            repeated.append(f"{name}: {span}")
    if repeated:
        notes.append(f"Ours are means over several records of one run – {'; '.join(repeated)}.")
    return notes


def class_split_notes(
    names: Sequence[str], columns: Mapping[Key, Column], own_numbers: Iterable[OwnNumber]
) -> list[str]:
    """Say over which class splits a mean is, and where these are fewer than the paper's."""
    own_numbers = list(own_numbers)
    behind: dict[Key, dict[Key, set[str]]] = {}
    for number in own_numbers:
        if number.class_split:
            of_column = behind.setdefault(number.column, {})
            of_column.setdefault(number.row, set()).add(number.class_split)
    partial, averaged = [], []
    for name, (key, column) in zip(names, columns.items(), strict=True):
        if splits := sorted(set().union(*behind.get(key, {}).values())):
            averaged.append(f"{name}: {', '.join(splits)}")
        fewest = min((len(splits) for splits in behind.get(key, {}).values()), default=0)
        wanted = N_CLASS_SPLITS.get(column.keys.get("dataset", ""), 0)
        if 0 < fewest < wanted:
            partial.append(f"{name}: some methods {fewest} of {wanted}")
    notes = [f"Means over class splits – {'; '.join(averaged)}."] if averaged else []
    drawn = {number.column for number in own_numbers if is_drawn(number.split_version)}
    if where := [name for name, key in zip(names, columns, strict=True) if key in drawn]:
        notes.append(f"Class splits drawn at random, not the published ones – {', '.join(where)}.")
    return [*notes, f"Not all class splits – {'; '.join(partial)}."] if partial else notes


def tuning_notes(
    columns: Mapping[Key, Column], own_numbers: Iterable[OwnNumber], *, of_paper: bool = True
) -> list[str]:
    """Say where uncalibrated numbers were tuned otherwise than the paper's."""
    uncalibrated = {key for key, c in columns.items() if c.keys.get("metric") in UNCALIBRATED}
    if any(n.tuned_for == "gzsl" and n.column in uncalibrated for n in own_numbers):
        note = "Without calibration – some of ours were tuned for the generalized setting"
        compared = "; the paper tunes these as in the conventional one" if of_paper else ""
        return [f"{note}{compared}."]
    return []


def verdict_notes(verdict: pd.DataFrame, n_seeds: pd.DataFrame) -> list[str]:
    """Say what could not be compared with the best."""
    note = not_judged_text(verdict, several_seeds=bool((n_seeds > 1).any(axis=None)))
    return [note] if note else []


def rank_notes(rankings: Mapping[tuple[str, str], Ranking]) -> list[str]:
    """Say what can be said of the mean ranks."""
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
