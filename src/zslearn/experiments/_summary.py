r"""Summarise the main numbers of runs in one table: a row per method, a column per metric.

Numbers are means over seeds of means over class splits, with the standard deviation over the seeds.

Two methods are compared on their common runs by paired differences :math:`d_i`: over class splits
if there are several, otherwise over classes for accuracies (averaged over seeds) and over seeds for
other numbers (``docs/research_notes/reproducing.rst`` gives the reasons). They do not differ if

.. math:: |\bar d| \le t_{n - 1,\, 0.975} \, s_d / \sqrt n,

that is, if the 95 % interval of the mean difference contains 0. Fewer than two pairs, or equal
differences other than 0 (:math:`s_d = 0`, as for deterministic methods that choose the same setting
for every seed), are not judged. There is no correction for multiple comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from zslearn._utils._array import Floats
from zslearn.experiments._names import RANK_ACCURACY, is_drawn, metric_label
from zslearn.experiments._records import OPTIONAL, is_class_split

#: Verdict on a number that does not differ from the best, and the note that explains its mark.
NOT_DIFFERENT: Literal["not different"] = "not different"
NOT_DIFFERENT_NOTE = (
    "≈ – does not differ from the best: 0 lies in the 95 % t interval of the paired difference, "
    "over class splits if there are several, otherwise over classes for accuracies and over seeds "
    "for other numbers; not corrected for multiple comparisons."
)

SeedAndSplit = tuple[Hashable, str]

#: How a number compares with the best; empty for the best itself.
Verdict = Literal["not different", "differs", "not judged", ""]

# Differences and deviations below this are rounding errors.
_ROUNDING = 1e-12

#: Metrics of a summary, in order.
SUMMARY = (
    "per_class_accuracy",
    "harmonic",
    "calibrated_seen",
    "calibrated_unseen",
    "calibrated_harmonic",
    "ausuc",
)


def summary_metrics(metrics: Iterable[str]) -> list[str]:
    """Metrics of a summary, in order; accuracies at the ranks of a taxonomy come second."""
    found = list(dict.fromkeys(metrics))
    ranks = [name for name in found if name.startswith(RANK_ACCURACY)]
    return [name for name in (SUMMARY[0], *ranks, *SUMMARY[1:]) if name in found]


#: Prefixes of the variants of records whose methods used images of unseen classes.
WITH_IMAGES = ("shots=", "unlabelled=")
#: Metrics without calibration.
UNCALIBRATED = ("unseen", "seen", "harmonic")
#: Columns that distinguish rows besides the method.
ORIGIN = ("dataset", "split", "subset", "features", "semantic", "protocol", "grid")


@dataclass(frozen=True)
class Measured:
    """Results of a method in a metric: the number of each run, and of each class for accuracies."""

    runs: dict[SeedAndSplit, float] = field(default_factory=dict)
    by_class: dict[SeedAndSplit, Mapping[str, float]] = field(default_factory=dict)

    def only(self, runs: Iterable[SeedAndSplit]) -> Measured:
        """Restrict to some of the runs."""
        kept = set(runs)
        return Measured(
            {run: value for run, value in self.runs.items() if run in kept},
            {run: values for run, values in self.by_class.items() if run in kept},
        )


class SeedMean(NamedTuple):
    """Mean and standard deviation over seeds of means over class splits."""

    mean: float
    deviation: float
    n_seeds: int


def measured_cells(
    records: Iterable[Mapping[Any, Any]], keys: Sequence[str]
) -> dict[tuple[Any, ...], Measured]:
    """Results by the values of some keys; the numbers of repeated records of a run are averaged."""
    repeated: dict[tuple[Any, ...], dict[SeedAndSplit, list[Mapping[Any, Any]]]] = {}
    for record in records:
        runs = repeated.setdefault(tuple(record[key] for key in keys), {})
        runs.setdefault((record["seed"], record["class_split"]), []).append(record)
    cells: dict[tuple[Any, ...], Measured] = {}
    for place, runs in repeated.items():
        cell = cells[place] = Measured()
        for run, found in runs.items():
            cell.runs[run] = sum(record["value"] for record in found) / len(found)
            pairs = found[0].get("by_class")
            if len(found) == 1 and isinstance(pairs, tuple):
                cell.by_class[run] = dict(pairs)
    return cells


def seed_mean(runs: Mapping[SeedAndSplit, float]) -> SeedMean:
    """Mean over the seeds; NaN without runs, and a NaN deviation with one seed."""
    by_seed: dict[Hashable, list[float]] = {}
    for (seed, _), value in runs.items():
        by_seed.setdefault(seed, []).append(value)
    means = [float(np.mean(values)) for values in by_seed.values()]
    if not means:
        return SeedMean(np.nan, np.nan, 0)
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else np.nan
    deviation = 0.0 if deviation < _ROUNDING else deviation
    return SeedMean(float(np.mean(means)), deviation, len(means))


def do_not_differ(first: Measured, second: Measured) -> bool | None:
    """Whether two methods do not differ significantly; None if that cannot be judged."""
    differences = _differences(first, second)
    if len(differences) < 2:
        return None
    if differences.std(ddof=1) < _ROUNDING:
        return True if abs(differences.mean()) < _ROUNDING else None
    return bool(stats.ttest_1samp(differences, 0.0).pvalue >= 0.05)


def _differences(first: Measured, second: Measured) -> Floats:
    """Paired differences over class splits, classes or seeds."""
    common = [run for run in first.runs if run in second.runs]
    by_split = len({split for _, split in common}) > 1
    if not by_split and _are_by_class(first, second, common):
        classes = list(first.by_class[common[0]])
        by_class = [
            [first.by_class[run][name] - second.by_class[run][name] for name in classes]
            for run in common
        ]
        return np.mean(by_class, axis=0)
    groups: dict[Hashable, list[float]] = {}
    for seed, split in common:
        difference = first.runs[seed, split] - second.runs[seed, split]
        groups.setdefault(split if by_split else seed, []).append(difference)
    return np.asarray([np.mean(values) for values in groups.values()])


def _are_by_class(first: Measured, second: Measured, common: Sequence[SeedAndSplit]) -> bool:
    """Whether both methods have accuracies of the same classes in every run."""
    found = [side.by_class.get(run, {}) for side in (first, second) for run in common]
    return bool(found and found[0]) and all(set(values) == set(found[0]) for values in found)


def on_common_runs(cells: Iterable[Measured]) -> list[Measured]:
    """Restrict the results of several methods to their common runs."""
    cells = list(cells)
    present = [set(cell.runs) for cell in cells if cell.runs]
    common = set.intersection(*present) if present else set()
    return [cell.only(common) for cell in cells] if common else cells


def verdicts(cells: Iterable[Measured]) -> list[Verdict]:
    """Whether each of several methods differs from the best on their common runs."""
    cells = list(cells)
    means = [seed_mean(cell.runs).mean for cell in on_common_runs(cells)]
    if np.isnan(means).all():
        return [""] * len(cells)
    best = int(np.nanargmax(means))
    words: dict[bool | None, Verdict] = {
        True: NOT_DIFFERENT,
        False: "differs",
        None: "not judged",
    }
    return [
        "" if i == best or not cell.runs else words[do_not_differ(cells[best], cell)]
        for i, cell in enumerate(cells)
    ]


def not_judged_text(table: pd.DataFrame, *, several_seeds: bool) -> str:
    """Note on numbers that could not be compared with the best."""
    is_open, is_judged = table == "not judged", table.isin([NOT_DIFFERENT, "differs"])
    if not is_open.any(axis=None) or not (several_seeds or is_judged.any(axis=None)):
        return ""
    where = []
    for name in table.columns[is_open.any()]:
        methods = ", ".join(" ".join(np.atleast_1d(m)) for m in table.index[is_open[name]])
        where.append(f"{name} ({methods})" if is_judged[name].any() else str(name))
    return (
        f"Not judged against the best – {'; '.join(where)}: fewer than two pairs, or the same "
        "difference in each."
    )


def seeds_text(counts: Iterable[int]) -> str:
    """Number of seeds in words; empty if there is one."""
    several = sorted(set(counts) - {0})
    if not several or several[-1] < 2:
        return ""
    if len(several) == 1:
        return f"{several[0]} seeds"
    return f"{several[0]} to {several[-1]} seeds"


@dataclass(frozen=True)
class RunSummary:
    """Means and standard deviations of the main numbers, from :func:`summarize_runs`.

    Parameters
    ----------
    mean, deviation : DataFrame
        One row per method, one column per metric: fractions, NaN if missing, and the standard
        deviation over the seeds of the means over class splits.
    verdict : DataFrame of {"not different", "differs", "not judged", ""}
        Whether a method differs from the best of its column (empty): "not different" if 0 lies in
        the 95 % t interval of the paired differences, over class splits if there are several,
        otherwise over classes for accuracies and over seeds for other numbers; "not judged" with
        fewer than two pairs, or the same difference in each.
    n_seeds : DataFrame of int
        Number of seeds.
    class_splits : tuple of str
        Class splits that were averaged, if several.
    drawn : bool
        Whether splits were drawn at random.
    """

    mean: pd.DataFrame
    deviation: pd.DataFrame
    verdict: pd.DataFrame
    n_seeds: pd.DataFrame
    class_splits: tuple[str, ...] = ()
    drawn: bool = False

    @property
    def not_different(self) -> pd.DataFrame:
        """Whether a method does not differ significantly from the best of its column."""
        return self.verdict == NOT_DIFFERENT

    @property
    def notes(self) -> list[str]:
        """Notes on the comparison with the best."""
        several = bool((self.n_seeds > 1).any(axis=None))
        not_judged = not_judged_text(self.verdict, several_seeds=several)
        marked = NOT_DIFFERENT_NOTE if self.not_different.any(axis=None) else ""
        return [note for note in (marked, not_judged) if note]

    @property
    def runs(self) -> str:
        """The averages behind the numbers, in words; empty for a single run."""
        seeds = seeds_text(self.n_seeds.to_numpy().ravel().tolist())
        splits = f"mean over {', '.join(self.class_splits)}" if self.class_splits else ""
        splits += ", drawn at random" if splits and self.drawn else ""
        deviation = f"mean ± standard deviation over {seeds}" if seeds else ""
        return "; ".join(part for part in (splits, deviation) if part)

    def cells(self) -> pd.DataFrame:
        """The table as text.

        Returns
        -------
        DataFrame of str
            For example "0.588 ± 0.004 ≈"; "–" if missing.
        """
        table = self.mean.map(lambda value: "–" if pd.isna(value) else f"{value:.3f}")
        deviation = self.deviation.map(lambda value: "" if pd.isna(value) else f" ± {value:.3f}")
        return table + deviation + self.not_different.map(lambda same: " ≈" if same else "")


def summarize_runs(records: pd.DataFrame) -> RunSummary:
    """Summarise the main numbers of records: a row per method, a column per metric.

    Parameters
    ----------
    records : DataFrame
        From :func:`read_records`. Data sets, splits, subsets of the unseen classes, features, kinds
        of signatures, protocols and grids get separate rows; seeds and the class splits "ss-1",
        "ss-2", … are averaged. Records of analyses, which vary a setting, are skipped.

    Returns
    -------
    RunSummary
        "accuracy": per class, in the conventional setting; "H": harmonic mean without calibration,
        of a method that was tuned for the conventional setting or not tuned; "S cal.", "U cal." and
        "H cal.": calibrated accuracies on images of seen and unseen classes and their harmonic
        mean; "AUSUC"; and with a taxonomy "family right", … for the accuracy at each rank.

    See Also
    --------
    build_table : Arrange records in the layout of the paper's tables.
    """
    records, class_splits = prepared(records)
    variants = records["variant"]
    is_run = (variants == "") | variants.str.startswith(WITH_IMAGES)
    records = records[is_run & (records["analysis"] == "")]
    several = [name for name in ORIGIN if records[name].nunique() > 1]
    names = [*several, "method"]
    rows = list(dict.fromkeys(records[names].itertuples(index=False, name=None)))
    # If both settings have a number, the conventional one comes first and is kept.
    in_order = records.sort_values("setting", ascending=False, kind="stable")
    keys = [*names, "metric"]
    first = in_order.drop_duplicates([*keys, "seed", "class_split"])
    cells = measured_cells(first.to_dict("records"), keys)
    index: Any = pd.Index([row[-1] for row in rows], name="method")
    if several:
        index = pd.MultiIndex.from_tuples(rows, names=names)
    columns = {
        metric_label(metric): [cells.get((*row, metric), Measured()) for row in rows]
        for metric in summary_metrics(records["metric"])
    }
    table = pd.DataFrame(columns, index=index, dtype=object)
    verdict = table.copy()
    # Methods are compared within a data set, split and so on.
    for group in dict.fromkeys(row[:-1] for row in rows):
        own = [row[:-1] == group for row in rows]
        for label in columns:
            verdict.loc[own, label] = verdicts(table.loc[own, label])

    def frame(part: str, kind: Any = float) -> pd.DataFrame:
        return table.map(lambda cell: getattr(seed_mean(cell.runs), part)).astype(kind)

    versions = records["split_version"].unique() if "split_version" in records else ()
    return RunSummary(
        mean=frame("mean"),
        deviation=frame("deviation"),
        verdict=verdict,
        n_seeds=frame("n_seeds", int),
        class_splits=class_splits,
        drawn=any(is_drawn(str(version)) for version in versions),
    )


def prepared(
    records: pd.DataFrame, is_averaged: Callable[[str], bool] = lambda dataset: False
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Records with all columns, and the class splits to average over, which become the split "ss".

    Several class splits of a data set are averaged, and a single one if `is_averaged`. Uncalibrated
    numbers of models that were tuned for the generalized setting are dropped: as in the paper,
    "without calibration" refers to a model that was tuned for the conventional one, or not tuned.
    """
    optional = list(OPTIONAL)
    records = records.reindex(columns=list(dict.fromkeys([*records, *optional, "seed"])))
    records[optional] = records[optional].fillna("").astype(str)
    is_tuned = (records["setting"] == "gzsl") & (records["grid"] != "")
    records = records[~(is_tuned & records["metric"].isin(UNCALIBRATED))].copy()
    # NaN differs from itself, None does not.
    seeds = [None if pd.isna(seed) else seed for seed in records["seed"]]
    records["seed"] = pd.Series(seeds, records.index, dtype=object)
    records["class_split"] = ""
    names: list[str] = []
    for dataset, splits in class_splits_of(records).items():
        if len(splits) > 1 or is_averaged(dataset):
            rows = (records["dataset"] == dataset) & records["split"].isin(splits)
            records.loc[rows, "class_split"] = records.loc[rows, "split"].str.casefold()
            records.loc[rows, "split"] = "ss"
            names += splits
    return records, tuple(dict.fromkeys(names))


def chosen_grids(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Grid that is shown of each method: "fast" if it has several, otherwise its first."""
    grids: dict[str, list[str]] = {}
    for method, grid in pairs:
        grids.setdefault(method, []).append(grid)
    return {name: "fast" if "fast" in own else own[0] for name, own in grids.items()}


def class_splits_of(records: pd.DataFrame) -> dict[str, list[str]]:
    """Data set → its class splits."""
    splits: dict[str, list[str]] = {}
    for dataset, split in records[["dataset", "split"]].drop_duplicates().itertuples(index=False):
        if is_class_split(str(split).casefold()):
            splits.setdefault(dataset, []).append(split)
    return splits
