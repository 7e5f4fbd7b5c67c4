r"""Means and spreads over seeds and class splits, and whether two methods differ.

A number was measured once for each seed and class split. Its mean is that over the seeds of the
means over the class splits, and its spread the standard deviation of these means over the seeds:
how far another seed would move it.

Two methods are compared on the runs that both have, by the differences :math:`d_i` of one method
from the other. Class splits are different problems, seeds repeat one: with several class splits
:math:`d_i` is the mean difference on a split, else that of a seed. The methods do not differ where

.. math:: |\bar d| \le t_{n - 1,\, 0.975} \, s_d / \sqrt n,

that is, where the 95 % interval of the mean difference holds 0. Nothing is corrected for the number
of comparisons; and seeds alone say nothing of other unseen classes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

#: What tables say of the mark.
ALIKE = (
    "≈ – does not differ from the best: 0 lies in the 95 % t interval of the paired difference, "
    "over class splits where there are several, else over seeds; not corrected for the number "
    "of comparisons."
)

#: A number by seed and class split.
Runs = Mapping[tuple[Hashable, str], float]


@dataclass(frozen=True)
class Spread:
    """Mean and spread of one number.

    Parameters
    ----------
    mean : float
        Over the seeds, of the means over class splits.
    deviation : float
        Standard deviation of these means over the seeds; NaN with one seed.
    n_seeds : int
        Number of seeds.
    """

    mean: float
    deviation: float
    n_seeds: int

    @classmethod
    def of(cls, runs: Runs) -> Spread:
        """From the number of every run; NaN without any."""
        by_seed: dict[Hashable, list[float]] = {}
        for (seed, _), value in runs.items():
            by_seed.setdefault(seed, []).append(value)
        means = [float(np.mean(values)) for values in by_seed.values()]
        if not means:
            return cls(np.nan, np.nan, 0)
        deviation = float(np.std(means, ddof=1)) if len(means) > 1 else np.nan
        return cls(float(np.mean(means)), deviation, len(means))


def do_not_differ(first: Runs, second: Runs) -> bool:
    """Whether the paired differences of two methods leave open which is better.

    Parameters
    ----------
    first, second : mapping of (seed, class split) to float
        What each run of a method gave.

    Returns
    -------
    bool
        False also where fewer than two pairs can tell nothing.
    """
    common = [run for run in first if run in second]
    by_split = len({split for _, split in common}) > 1
    groups: dict[Hashable, list[float]] = {}
    for seed, split in common:
        difference = first[seed, split] - second[seed, split]
        groups.setdefault(split if by_split else seed, []).append(difference)
    differences = np.asarray([np.mean(values) for values in groups.values()])
    n = len(differences)
    if n < 2:
        return False
    error = differences.std(ddof=1) / np.sqrt(n)
    # Methods that give the same numbers do not differ, whatever is lost in rounding.
    return bool(abs(differences.mean()) <= stats.t.ppf(0.975, n - 1) * error + 1e-12)


def alike_to_best(cells: Iterable[Runs]) -> list[bool]:
    """Which of several methods do not differ from the one with the largest mean.

    Parameters
    ----------
    cells : iterable of mappings
        The runs of each method; an empty one for a method without the number.

    Returns
    -------
    list of bool
        In the order of the methods; False for the best itself.
    """
    cells = list(cells)
    means = [Spread.of(runs).mean for runs in cells]
    if np.isnan(means).all():
        return [False] * len(cells)
    best = int(np.nanargmax(means))
    return [i != best and do_not_differ(cells[best], runs) for i, runs in enumerate(cells)]


def seeds_text(counts: Iterable[int]) -> str:
    """How many seeds numbers are means over, in words; nothing where none has several."""
    several = sorted(set(counts) - {0})
    if not several or several[-1] < 2:
        return ""
    if len(several) == 1:
        return f"{several[0]} seeds"
    return f"{several[0]} to {several[-1]} seeds"
