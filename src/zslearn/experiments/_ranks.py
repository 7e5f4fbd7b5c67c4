r"""Compare methods over several data sets by their ranks.

The paper orders methods by their mean rank over the small data sets: 23 methods in the conventional
setting, and the 16 with a number on every data set in the generalized one. The Friedman test asks
whether any ranks differ. Two of k methods on N data sets differ if their mean ranks are further
apart than the critical difference of Nemenyi's test,

.. math:: \mathrm{CD} = q_\alpha \sqrt{k (k + 1) / (6 N)},

with q the quantile of the studentized range over √2. The paper has no critical difference.

References
----------
J. Demšar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from zslearn.experiments._names import method_style


@dataclass(frozen=True)
class Ranking:
    """Methods ordered by their mean ranks.

    Parameters
    ----------
    mean_ranks : Series
        Mean rank of each method, best first; ties share the mean of their ranks.
    n_columns : int
        Number of columns behind the means.
    statistic, pvalue : float
        Friedman test of equal ranks, corrected for ties; NaN with fewer than three methods or two
        columns.
    critical_difference : float
        Of Nemenyi's test at the level 0.05; NaN if the Friedman test is.
    """

    mean_ranks: pd.Series
    n_columns: int
    statistic: float
    pvalue: float
    critical_difference: float


def rank_methods(values: pd.DataFrame) -> Ranking:
    """Rank methods on each column and average the ranks, as in the paper's main table.

    Parameters
    ----------
    values : DataFrame of shape (n_methods, n_columns)
        Higher is better. Methods with missing numbers are omitted, as in the paper, since ranks on
        different data sets cannot be compared.

    Returns
    -------
    Ranking
        Mean ranks and tests of their differences.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.experiments import rank_methods
    >>> values = pd.DataFrame({"A": [3.0, 2, 1], "B": [5.0, 6, 4]}, index=["x", "y", "z"])
    >>> rank_methods(values).mean_ranks
    x    1.5
    y    1.5
    z    3.0
    dtype: float64
    """
    ranks = values.dropna().rank(ascending=False)
    k, n = ranks.shape
    if not ranks.size:
        raise ValueError("No method has a number in every column, so none can be ranked.")
    mean_ranks = ranks.mean(axis=1).sort_values(kind="stable")
    if k < 3 or n < 2:
        return Ranking(mean_ranks, n, np.nan, np.nan, np.nan)
    statistic, pvalue = 0.0, 1.0
    # SciPy returns NaN if all methods are tied.
    if (ranks.nunique() > 1).any():
        statistic, pvalue = map(float, stats.friedmanchisquare(*ranks.to_numpy()))
    quantile = stats.studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
    difference = float(quantile * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranking(mean_ranks, n, statistic, pvalue, difference)


def ranges_within(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """First and last position of each maximal range of sorted ranks within `difference`."""
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = int(np.searchsorted(ranks, rank + difference, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs


def picture_size(ranks: pd.Series, difference: float) -> tuple[float, float]:
    """Figure size in inches that fits the names."""
    depth = 0.35 * len(ranges_within(np.sort(ranks), difference)) + 1.0 - (-len(ranks) // 2)
    return (9.0, 0.24 * depth + 1.1)


def draw_critical_difference(axes: Any, ranks: pd.Series, difference: float) -> None:
    """Draw mean ranks on an axis, with bars that join methods that do not differ."""
    ranks = ranks.sort_values(kind="stable")
    values = ranks.to_numpy(dtype=float)
    if len(values) == 0 or not np.isfinite([*values, difference]).all():
        raise ValueError("A plot of ranks needs finite mean ranks and a critical difference.")
    runs = ranges_within(values, difference)
    n_left = -(-len(values) // 2)
    low, high = 1.0, max(float(len(values)), 2.0)
    top_of_names = 0.35 * len(runs) + 1.0
    depth = top_of_names + n_left
    margin = 0.45 * (high - low)
    axes.set(xlim=(low - margin, high + margin), ylim=(depth, -2.6))
    axes.set_axis_off()
    axes.plot([low, high], [0, 0], color="black", linewidth=1)
    step = max(1, round((high - low) / 12))
    for tick in np.arange(low, high + 0.5, step):
        axes.plot([tick, tick], [-0.25, 0], color="black", linewidth=1)
        axes.text(tick, -0.35, f"{tick:g}", ha="center", va="bottom", fontsize=8)
    shown = min(difference, high - low)
    axes.plot([low, low + shown], [-1.7, -1.7], color="black", linewidth=2)
    wider = "" if shown == difference else ", wider than the line"
    axes.text(low, -1.85, f"critical difference {difference:.2f}{wider}", fontsize=8, va="bottom")
    for i, (name, rank) in enumerate(zip(ranks.index, values, strict=True)):
        left = i < n_left
        # Methods at the ends of the axis are labelled highest, so that leader lines do not cross.
        level = top_of_names + (i if left else len(values) - 1 - i)
        end = low - 0.02 * margin if left else high + 0.02 * margin
        axes.plot([rank, rank, end], [0, level, level], color="0.45", linewidth=0.8)
        axes.plot([rank], [0], "o", color=method_style(str(name)).color, zorder=3)
        axes.text(
            end,
            level,
            f"{name} [{rank:.1f}] " if left else f" [{rank:.1f}] {name}",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            parse_math=False,
        )
    for i, (first, last) in enumerate(runs):
        level = 0.5 + 0.35 * i
        ends = [values[first] - 0.05, values[last] + 0.05]
        axes.plot(ends, [level, level], color="#b42318", linewidth=3, solid_capstyle="round")
