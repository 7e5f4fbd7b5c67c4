"""What a reader of a table must know: other features, other splits, means over records, tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from zslearn.datasets import N_CLASS_SPLITS
from zslearn.experiments._names import is_drawn, metric_label, same_features, short_version
from zslearn.experiments._ranks import Ranking
from zslearn.experiments._record_checks import DEFAULT_PROTOCOL
from zslearn.experiments._spread import not_judged_text, seeds_text
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
