"""What a reader of a table must know: other features, other splits, means over records, tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from zslearn.datasets import N_CLASS_SPLITS
from zslearn.experiments._names import metric_label, same_features, short_version
from zslearn.experiments._ranks import Ranking
from zslearn.experiments._table_layouts import Column, Key, TableColumn
from zslearn.experiments._table_places import UNCALIBRATED, OwnNumber

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
        f"{column.keys['dataset']} (features: {column.features})"
        for column in columns
        if column.features and not column.published_features
    )
    what = "Not in the paper's table" if of_paper else "Data"
    return [*notes, f"{what} – {'; '.join(own)}."] if own else notes


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


def count_notes(
    names: Sequence[str],
    columns: Iterable[Key],
    ours: Mapping[tuple[Key, Key], Sequence[float]],
) -> list[str]:
    """Say over how many records the numbers are means."""
    counts = []
    for name, key in zip(names, columns, strict=True):
        sizes = sorted({len(values) for (_, column), values in ours.items() if column == key})
        if sizes and sizes[-1] > 1:
            span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            counts.append(f"{name}: {span}")
    return [f"Ours are means over several records – {'; '.join(counts)}."] if counts else []


def class_split_notes(
    names: Sequence[str], columns: Mapping[Key, Column], own_numbers: Iterable[OwnNumber]
) -> list[str]:
    """Say where a mean is over fewer class splits than the paper's."""
    behind: dict[Key, dict[Key, set[str]]] = {}
    for number in own_numbers:
        if number.class_split:
            of_column = behind.setdefault(number.column, {})
            of_column.setdefault(number.row, set()).add(number.class_split)
    partial = []
    for name, (key, column) in zip(names, columns.items(), strict=True):
        fewest = min((len(splits) for splits in behind.get(key, {}).values()), default=0)
        wanted = N_CLASS_SPLITS.get(column.keys.get("dataset", ""), 0)
        if 0 < fewest < wanted:
            partial.append(f"{name}: some methods {fewest} of {wanted}")
    return [f"Not all class splits – {'; '.join(partial)}."] if partial else []


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
