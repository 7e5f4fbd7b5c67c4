"""Records in their places of a table: which row, which column, and what may stand together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from zslearn.datasets import N_CLASS_SPLITS
from zslearn.experiments._names import (
    LEARNED,
    canonical_dataset,
    canonical_features,
    canonical_method,
    same_features,
    short_version,
)
from zslearn.experiments._record_checks import DEFAULT_PROTOCOL, OPTIONAL
from zslearn.experiments._spread import Measured, Run
from zslearn.experiments._summary import is_class_split
from zslearn.experiments._table_layouts import Column, Key
from zslearn.utils import name_some

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

    Returns
    -------
    own_numbers : list of OwnNumber
        The records that have a place.
    left_out : set of str
        Kinds of signatures of records that would have a place but for these.
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
