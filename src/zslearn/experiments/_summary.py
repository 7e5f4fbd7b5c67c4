"""The main numbers of runs in one table: a row per method, a column per metric."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from zslearn.experiments._names import is_drawn, metric_label
from zslearn.experiments._spread import (
    ALIKE,
    Measured,
    Spread,
    not_judged_text,
    seeds_text,
    verdicts,
)

#: The metrics of a summary, in its order.
SUMMARY = (
    "per_class_accuracy",
    "harmonic",
    "calibrated_seen",
    "calibrated_unseen",
    "calibrated_harmonic",
    "ausuc",
)
#: What tells rows apart, beside the method.
ORIGIN = ("dataset", "split", "features", "semantic", "protocol", "grid")


@dataclass(frozen=True)
class RunSummary:
    """Means and spreads of the main numbers, over seeds and class splits.

    Parameters
    ----------
    mean : DataFrame
        Fractions, NaN where there is none: one row per method, one column per metric.
    spread : DataFrame
        Standard deviation over the seeds of the means over class splits; NaN with one seed.
    verdict : DataFrame of {"alike", "differs", "not judged", ""}
        Whether a method differs from the best of its column, for which nothing is said. "alike": 0
        lies in the 95 % t interval of the paired differences, over class splits where there are
        several, else over classes for accuracies and over seeds for other numbers. "not judged":
        there are fewer than two pairs, or the difference is the same in each.
    n_seeds : DataFrame of int
        How many seeds a number is a mean over.
    class_splits : tuple of str
        The class splits that the numbers are means over; empty where there are not several.
    drawn : bool
        Whether some of the splits were drawn at random.
    """

    mean: pd.DataFrame
    spread: pd.DataFrame
    verdict: pd.DataFrame
    n_seeds: pd.DataFrame
    class_splits: tuple[str, ...] = ()
    drawn: bool = False

    @property
    def alike(self) -> pd.DataFrame:
        """Whether a method does not differ from the best of its column."""
        return self.verdict == "alike"

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the comparison with the best."""
        several = bool((self.n_seeds > 1).any(axis=None))
        not_judged = not_judged_text(self.verdict, several_seeds=several)
        alike = ALIKE if self.alike.any(axis=None) else ""
        return [note for note in (alike, not_judged) if note]

    @property
    def runs(self) -> str:
        """What the numbers are means over, in words; empty where that is one run."""
        seeds = seeds_text(self.n_seeds.to_numpy().ravel().tolist())
        splits = f"mean over {', '.join(self.class_splits)}" if self.class_splits else ""
        splits += ", drawn at random" if splits and self.drawn else ""
        spread = f"mean ± standard deviation over {seeds}" if seeds else ""
        return "; ".join(part for part in (splits, spread) if part)

    def cells(self) -> pd.DataFrame:
        """The table as text.

        Returns
        -------
        DataFrame of str
            Such as "0.588 ± 0.004 ≈", with "–" where there is no number.
        """
        table = self.mean.map(lambda value: "–" if pd.isna(value) else f"{value:.3f}")
        spread = self.spread.map(lambda value: "" if pd.isna(value) else f" ± {value:.3f}")
        return table + spread + self.alike.map(lambda is_alike: " ≈" if is_alike else "")


def summarize_runs(records: pd.DataFrame) -> pd.DataFrame:
    """Put the main numbers of records into one table: a row per method, a column per metric.

    Parameters
    ----------
    records : DataFrame
        As :func:`read_records` gives it. Several data sets, splits, features, kinds of
        signatures, protocols or grids are not mixed: each is a row of its own. Several seeds give
        their mean, and so do the class splits "ss-1", "ss-2", ….

    Returns
    -------
    DataFrame
        Fractions, NaN where there is none. "accuracy" is that of the conventional setting, per
        class; "H" the harmonic mean without calibration, of a method tuned for the conventional
        setting where there is one; "S cal.", "U cal." and "H cal." the accuracies on images of
        seen and unseen classes and their harmonic mean, with calibration; and "AUSUC". With several
        seeds each is followed by its spread, "accuracy ±" and so on.

    See Also
    --------
    compare_runs : The same, and which methods do not differ.
    build_table : Records in the layout of the paper's tables.
    """
    summary = compare_runs(records)
    if not summary.runs or summary.spread.isna().all(axis=None):
        return summary.mean
    parts: dict[str, Any] = {}
    for name in summary.mean.columns:
        parts |= {name: summary.mean[name], f"{name} ±": summary.spread[name]}
    return pd.DataFrame(parts)


def compare_runs(records: pd.DataFrame) -> RunSummary:
    """Means and spreads over seeds and class splits, and which methods do not differ.

    Parameters
    ----------
    records : DataFrame
        As :func:`read_records` gives it; see :func:`summarize_runs`.

    Returns
    -------
    RunSummary
        Tables with a row per method and a column per metric.

    See Also
    --------
    summarize_runs : The means and spreads as one table.
    """
    records, class_splits = _prepared(records)
    several = [name for name in ORIGIN if records[name].nunique() > 1]
    shown = [name for name in SUMMARY if (records["metric"] == name).any()]
    cells: dict[Hashable, dict[str, Measured]] = {}
    for record in records.to_dict("records"):
        cells.setdefault(tuple(record[name] for name in (*several, "method")), {})
    # The first of two that give the same number: conventional before generalized.
    for record in records.sort_values("setting", ascending=False, kind="stable").to_dict("records"):
        row = tuple(record[name] for name in (*several, "method"))
        cell = cells[row].setdefault(record["metric"], Measured())
        run = (record["seed"], record["class_split"])
        if run not in cell.runs:
            cell.runs[run] = record["value"]
            if isinstance(by_class := record.get("by_class"), tuple):
                cell.by_class[run] = dict(by_class)
    summary = _tables(cells, [*several, "method"], shown, class_splits)
    versions = records["split_version"].unique() if "split_version" in records else ()
    return replace(summary, drawn=any(is_drawn(str(version)) for version in versions))


def _prepared(records: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Records with every column, and the class splits where there are several."""
    records = records.copy()
    for name in ("semantic", "protocol", "grid", "seed"):
        if name not in records:
            records[name] = ""
    # No name is the data set's own kind of signatures.
    records["semantic"] = records["semantic"].fillna("").astype(str)
    # A missing seed is one and the same.
    records["seed"] = [None if pd.isna(seed) else seed for seed in records["seed"]]
    records["class_split"] = ""
    splits: dict[Any, list[str]] = {}
    for dataset, split in records[["dataset", "split"]].drop_duplicates().itertuples(index=False):
        if is_class_split(split):
            splits.setdefault(dataset, []).append(split)
    names: list[str] = []
    for dataset, of_dataset in splits.items():
        if len(of_dataset) > 1:
            rows = (records["dataset"] == dataset) & records["split"].isin(of_dataset)
            records.loc[rows, "class_split"] = records.loc[rows, "split"]
            records.loc[rows, "split"] = "ss"
            names += of_dataset
    return records, tuple(dict.fromkeys(names))


def is_class_split(split: str) -> bool:
    """Whether a split is one of several over which means are taken: "ss-1", "ss-2", …."""
    return re.fullmatch(r"ss-\d+", split) is not None


def _tables(
    cells: dict[Any, dict[str, Measured]],
    names: list[str],
    shown: list[str],
    class_splits: tuple[str, ...],
) -> RunSummary:
    """The tables of a summary, from the runs behind each number."""
    rows = list(cells)
    index: Any = pd.Index([row[-1] for row in rows], name="method")
    if len(names) > 1:
        index = pd.MultiIndex.from_tuples(rows, names=names)
    nothing = Measured()
    mean: dict[str, Any] = {}
    spread: dict[str, Any] = {}
    verdict: dict[str, Any] = {}
    n_seeds: dict[str, Any] = {}
    # Methods are compared with those of the same data set, split and so on.
    groups: dict[Any, list[int]] = {}
    for position, row in enumerate(rows):
        groups.setdefault(row[:-1], []).append(position)
    for metric in shown:
        in_column = [cells[row].get(metric, nothing) for row in rows]
        measured = [Spread.of(cell.runs) for cell in in_column]
        words = [""] * len(rows)
        for positions in groups.values():
            found = verdicts(in_column[i] for i in positions)
            for position, word in zip(positions, found, strict=True):
                words[position] = word
        label = metric_label(metric)
        mean[label] = [spread_of.mean for spread_of in measured]
        spread[label] = [spread_of.deviation for spread_of in measured]
        n_seeds[label] = [spread_of.n_seeds for spread_of in measured]
        verdict[label] = words
    return RunSummary(
        mean=pd.DataFrame(mean, index=index),
        spread=pd.DataFrame(spread, index=index),
        verdict=pd.DataFrame(verdict, index=index, dtype=object),
        n_seeds=pd.DataFrame(n_seeds, index=index),
        class_splits=class_splits,
    )
