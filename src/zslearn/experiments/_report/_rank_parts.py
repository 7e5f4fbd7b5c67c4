"""Ranks of methods, over what the records allow to compare."""

from __future__ import annotations

import numpy as np
import pandas as pd

from zslearn.experiments._names import metric_label
from zslearn.experiments._ranks import alike_places, rank_methods
from zslearn.experiments._report._model import Ranks
from zslearn.experiments._report._values import number
from zslearn.experiments._summary import ORIGIN

_RANKED = ("per_class_accuracy", "ausuc", "calibrated_harmonic")
_SEEDS = (
    "There is one data set and split: the ranks are means over seeds, which repeat one problem. "
    "They say how far chance in tuning moves the order, and nothing of other data."
)


def ranks_of(records: pd.DataFrame, methods: list[str]) -> list[Ranks]:
    """Rank the methods by each main metric.

    Columns are data sets, splits and so on, each the mean over its seeds; where there is only one
    of these, its seeds.

    Parameters
    ----------
    records : DataFrame
        As :func:`read_records` gives it.
    methods : list of str
        The methods of the report.

    Returns
    -------
    list of Ranks
        One per metric; none where fewer than two methods have two columns in common.
    """
    found = []
    for metric in _RANKED:
        of_metric = records[records["metric"] == metric]
        ranks = _ranks(of_metric, metric, methods)
        if ranks is not None:
            found.append(ranks)
    return found


def _ranks(records: pd.DataFrame, metric: str, methods: list[str]) -> Ranks | None:
    if records.empty:
        return None
    origin = [records[name].astype(str) for name in ORIGIN]
    problems = pd.Series(list(zip(*origin, strict=True)), index=records.index)
    seeds = records["seed"].map(lambda seed: "" if pd.isna(seed) else str(seed))
    by_seed = problems.nunique() == 1
    columns = seeds if by_seed else problems
    values = records.assign(column=columns).pivot_table(
        index="method", columns="column", values="value", aggfunc="mean"
    )
    # A benchmark that is not finished: the columns that all methods have, if there are several.
    common = values.dropna(axis="columns")
    complete = common if common.shape[1] > 1 else values.dropna()
    # A rank on one column is its number once more.
    if min(complete.shape) < 2:
        return None
    over, note = f"{complete.shape[1]} data sets and splits", ""
    if by_seed:
        over, note = f"{complete.shape[1]} seeds", _SEEDS
    if left_out := sorted(set(values.index) - set(complete.index)):
        note += f" Left out, for want of a number in every column: {', '.join(left_out)}."
    ranking = rank_methods(complete)
    difference = number(ranking.critical_difference)
    ranks = ranking.mean_ranks.to_numpy(dtype=float)
    alike = [] if difference is None else alike_places(ranks, difference)
    return Ranks(
        title=f"{metric_label(metric)}, over {over}",
        methods=[methods.index(str(name)) for name in ranking.mean_ranks.index],
        mean_ranks=np.round(ranks, 3).tolist(),
        critical_difference=difference,
        statistic=number(ranking.statistic),
        # As printed; a smaller one is 0 to a reader.
        pvalue=number(ranking.pvalue, 6),
        alike=[list(places) for places in alike],
        note=note.strip(),
    )
