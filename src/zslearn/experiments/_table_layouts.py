"""Layouts of the paper's tables as data: what names a row and a column, and in what order.

A column is named by its keys; so is a row. A data set that the paper lacks gets columns of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zslearn.experiments._names import DATASET_LABELS, FEATURE_LABELS, metric_label

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
