"""The main table: our numbers beside the published ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from zslearn.experiments._names import (
    canonical_dataset,
    canonical_method,
    metric_label,
    same_features,
    short_version,
)
from zslearn.experiments._published import load_published
from zslearn.experiments._report._model import Cell, Metric, Row, Table
from zslearn.experiments._report._values import number, text
from zslearn.experiments._summary import ORIGIN, SUMMARY, RunSummary, compare_runs

MEANINGS = {
    "per_class_accuracy": "accuracy per class, unseen classes among these",
    "harmonic": "harmonic mean of seen and unseen accuracy, without calibration",
    "calibrated_seen": "accuracy on seen classes among all, calibrated",
    "calibrated_unseen": "accuracy on unseen classes among all, calibrated",
    "calibrated_harmonic": "harmonic mean of the two, calibrated",
    "ausuc": "area under the seen–unseen curve",
}
#: Tables of the paper with one number per method, data set and split.
_TABLES = ("zsl", "gzsl", "harmonic", "main")


def main_table(records: pd.DataFrame, methods: list[str]) -> Table:
    """Put the main numbers of records beside the published ones.

    Parameters
    ----------
    records : DataFrame
        As :func:`read_records` gives it, not empty.
    methods : list of str
        The methods of the report.

    Returns
    -------
    Table
        A row per method, data set and so on; a column per metric.
    """
    summary = compare_runs(records)
    frame = summary.mean.index.to_frame(index=False)
    where = [str(name) for name in frame.columns if name != "method"]
    published = _published()
    rows = []
    for position, origin in enumerate(frame.to_dict("records")):
        known = {name: origin.get(name, _common(records, name, summary)) for name in ORIGIN}
        cells = _cells(summary, position, published, str(origin["method"]), known)
        labels = [signatures_label(origin[n]) if n == "semantic" else origin[n] for n in where]
        rows.append(Row(methods.index(str(origin["method"])), [*map(text, labels)], cells))
    names = [name for name in SUMMARY if (records["metric"] == name).any()]
    metrics = [
        Metric(
            name,
            metric_label(name),
            MEANINGS[name],
            any(row.cells[i].published is not None for row in rows),
        )
        for i, name in enumerate(names)
    ]
    heads = ["signatures" if name == "semantic" else name for name in where]
    return Table(heads, metrics, rows, _notes(summary, records, rows))


def signatures_label(semantic: str) -> str:
    """A kind of signatures as a page names it; records leave the data set's own without a name."""
    return semantic or "own"


def _common(records: pd.DataFrame, name: str, summary: RunSummary) -> str:
    """What all records have in common; class splits go together as "ss"."""
    if name == "split" and summary.class_splits:
        return "ss"
    value = records[name].iloc[0] if name in records else ""
    return "" if pd.isna(value) else str(value)


def _published() -> dict[tuple[str, str, str, str], list[dict[Any, Any]]]:
    """Numbers of the paper by method, data set, split and metric."""
    data = load_published()
    plain = (data["variant"] == "") & (data["subset"] == "") & (data["semantic"] == "attributes")
    found: dict[tuple[str, str, str, str], list[dict[Any, Any]]] = {}
    for row in data[data["table"].isin(_TABLES) & plain].to_dict("records"):
        key = (row["method"], row["dataset"], row["split"], row["metric"])
        found.setdefault(key, []).append(row)
    return found


def _cells(
    summary: RunSummary,
    position: int,
    published: dict[tuple[str, str, str, str], list[dict[Any, Any]]],
    method: str,
    origin: dict[str, Any],
) -> list[Cell]:
    split = str(origin["split"]).casefold()
    dataset = canonical_dataset(str(origin["dataset"]), own=split == "own")
    key = canonical_method(method), dataset, split
    names = {metric_label(name): name for name in SUMMARY}
    cells = []
    for label in summary.mean.columns:
        mean = number(summary.mean[label].iloc[position])
        verdict = str(summary.verdict[label].iloc[position])
        # The published numbers are of attributes.
        is_own = origin["semantic"] in ("", "attributes")
        found = published.get((*key, names[str(label)]), []) if is_own else []
        same = [row for row in found if same_features(row["features"], str(origin["features"]))]
        value = features = difference = None
        if found and mean is not None:
            row = (same or found)[0]
            value = row["value"] / (100 if row["unit"] == "%" else 1)
            features = "" if same else row["features"]
            difference = mean - value if same else None
        cells.append(
            Cell(
                mean=mean,
                spread=number(summary.spread[label].iloc[position]),
                best=mean is not None and verdict == "",
                alike=verdict == "alike",
                published=number(value),
                difference=number(difference),
                features=features or "",
            )
        )
    return cells


def _notes(summary: RunSummary, records: pd.DataFrame, rows: list[Row]) -> list[str]:
    notes = [f"Numbers are the {summary.runs}."] if summary.runs else []
    notes += summary.notes
    cells = [cell for row in rows for cell in row.cells if cell.published is not None]
    if not cells:
        return notes
    of_paper = records[records["split"].str.casefold() != "own"]
    versions = np.unique([short_version(str(v)) for v in of_paper["split_version"]]).tolist()
    if versions != ["PS1"]:
        notes.append(
            "Published numbers are on version PS1 of the new splits; these runs are on "
            f"{', '.join(map(text, versions))}."
        )
    others = sorted({cell.features for cell in cells} - {""})
    if others:
        notes.append(f"Published with other features: {', '.join(others)}; no difference is shown.")
    return notes
