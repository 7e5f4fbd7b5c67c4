"""Methods by their ranks over data sets, splits and seeds, from records (section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._ranks import Ranking, draw_critical_difference, picture_size, rank_methods
from zslearn.experiments._records import numbers_of
from zslearn.experiments.analyses._display import AnalysisDisplay
from zslearn.experiments.analyses._from_records import (
    RecordOptions,
    benchmark_records,
    of_one_protocol,
)

METHODS = ("ESZSL", "CCA", "Gaussian EXEM")
#: Metrics that methods are ranked by, and the setting they were tuned for.
RANKED = {"per_class_accuracy": "zsl", "ausuc": "gzsl", "calibrated_harmonic": "gzsl"}
_COLUMN = ["dataset", "split", "features", "semantic", "seed"]


def analyze_ranks(
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    metric: str = "per_class_accuracy",
    alpha: float = 0.05,
    **options: Unpack[RecordOptions],
) -> pd.DataFrame:
    """Rank methods on every data set, split and seed, with the Friedman test.

    Seeds of one split share its images and classes. They say how stable an order is on that split;
    they are no further data sets, so that with one split the test speaks of folds alone.

    Parameters
    ----------
    data : ZeroShotDataset or None
        What methods are run on where `out` does not have their records; None with `runs`.
    out : path
        Folder of the records.
    methods : str or sequence of str, optional
        Names of methods; by default three that are quick, or all that `runs` has. A method without
        a number in every column is left out.
    seeds : int or sequence of int, optional
        Which seeds; by default 0 to 2, or all that `runs` has.
    metric : {"per_class_accuracy", "ausuc", "calibrated_harmonic"}
        What is ranked.
    alpha : float, default=0.05
        Level of the critical difference.
    **options
        `runs`, and how it runs; see :class:`RecordOptions`.

    Returns
    -------
    DataFrame
        One row per method, the best first: `method`, `mean_rank`, `mean`, `n_columns`,
        `statistic`, `pvalue` (Friedman), `critical_difference` (Nemenyi), `alpha`, `metric`.
    """
    if metric not in RANKED:
        raise ValueError(f"Methods are ranked by {', '.join(RANKED)}, not by {metric!r}.")
    reading = options.get("runs") is not None
    records = benchmark_records(
        data,
        out,
        methods=methods or (None if reading else METHODS),
        seeds=(None if reading else (0, 1, 2)) if seeds is None else seeds,
        settings=(RANKED[metric],),
        **options,
    )
    values = rankable(numbers_of(of_one_protocol(records)), metric)
    ranking = rank_methods(values, alpha=alpha)
    return ranks_frame(ranking, values, metric)


def rankable(records: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Numbers of records as a row per method and a column per data set, split and seed.

    Parameters
    ----------
    records : DataFrame
        As :func:`~zslearn.experiments.read_records` gives it, of one protocol and grid for each.
    metric : str
        Which numbers.

    Returns
    -------
    DataFrame
        NaN where a method lacks a number.
    """
    kept = records[records["metric"] == metric]
    twice = kept.duplicated(["method", *_COLUMN], keep=False)
    if twice.any():
        names = sorted(set(kept.loc[twice, "method"]))
        raise ValueError(
            f"There are several records of one run, of {', '.join(names[:3])}: rank those of one "
            "folder, version and grid."
        )
    return kept.pivot(index="method", columns=_COLUMN, values="value")


def ranks_frame(ranking: Ranking, values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A ranking as a table."""
    order = ranking.mean_ranks.index
    return pd.DataFrame(
        {
            "method": order,
            "mean_rank": ranking.mean_ranks.to_numpy(),
            "mean": values.loc[order].mean(axis=1).to_numpy(),
            "n_columns": ranking.n_columns,
            "statistic": ranking.statistic,
            "pvalue": ranking.pvalue,
            "critical_difference": ranking.critical_difference,
            "alpha": ranking.alpha,
            "metric": metric,
        }
    )


class RanksDisplay(AnalysisDisplay):
    """Picture of mean ranks on a line; bars join methods that do not differ."""

    columns = ("method", "mean_rank", "critical_difference")

    def _size(self) -> tuple[float, float]:
        ranks = self.frame.set_index("method")["mean_rank"]
        return picture_size(ranks, float(self.frame["critical_difference"].iloc[0]))

    def _draw(self, ax: Any, panel: str) -> None:
        ranks = self.frame.set_index("method")["mean_rank"]
        draw_critical_difference(ax, ranks, float(self.frame["critical_difference"].iloc[0]))
