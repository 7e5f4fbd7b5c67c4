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

import numpy as np
import pandas as pd
from scipy import stats


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
