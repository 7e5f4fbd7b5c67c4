r"""Means and spreads over seeds and class splits, and whether two methods differ.

A number was measured once for each seed and class split. Its mean is that over the seeds of the
means over the class splits, and its spread the standard deviation of these means over the seeds:
how far another seed would move it.

Two methods are compared on the runs that both have, by the differences :math:`d_i` of one method
from the other:

- with several class splits :math:`d_i` is the mean difference on a split: class splits are
  different problems, seeds repeat one;
- with one split :math:`d_i` is the difference on a class, averaged over the seeds, where the number
  is an accuracy, that is a mean over classes: other classes would be another problem;
- any other number (AUSUC, a harmonic mean) has no value of a class, and :math:`d_i` is the
  difference of a seed. Seeds alone say nothing of other unseen classes.

The methods do not differ where

.. math:: |\bar d| \le t_{n - 1,\, 0.975} \, s_d / \sqrt n,

that is, where the 95 % interval of the mean difference holds 0. Where there are fewer than two
pairs, or all differences are the same and not 0 (:math:`s_d = 0`, as of methods without chance that
choose one setting for every seed), nothing is judged. Nothing is corrected for the number of
comparisons.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from zslearn.utils import Floats

#: What tables say of the mark.
ALIKE = (
    "≈ – does not differ from the best: 0 lies in the 95 % t interval of the paired difference, "
    "over class splits where there are several, else over classes for accuracies and over seeds "
    "for other numbers; not corrected for the number of comparisons."
)

#: Seed and class split.
Run = tuple[Hashable, str]
#: A number by run.
Runs = Mapping[Run, float]

#: How a number compares with the best; nothing for the best itself.
Verdict = Literal["alike", "differs", "not judged", ""]

# Differences and spreads below this are what is lost in rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Measured:
    """What one method gave in one metric.

    Parameters
    ----------
    runs : dict of (seed, class split) to float
        The number of each run.
    by_class : dict of (seed, class split) to mapping
        Where the number is a mean over classes: that of each class.
    """

    runs: dict[Run, float] = field(default_factory=dict)
    by_class: dict[Run, Mapping[str, float]] = field(default_factory=dict)

    def only(self, runs: Iterable[Run]) -> Measured:
        """The same of some of the runs."""
        kept = set(runs)
        return Measured(
            {run: value for run, value in self.runs.items() if run in kept},
            {run: values for run, values in self.by_class.items() if run in kept},
        )


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
        # The mean of equal numbers may be off by rounding.
        deviation = 0.0 if deviation < _ROUNDING else deviation
        return cls(float(np.mean(means)), deviation, len(means))


def do_not_differ(first: Measured, second: Measured) -> bool | None:
    """Whether the paired differences of two methods leave open which is better.

    Parameters
    ----------
    first, second : Measured
        What each of the methods gave.

    Returns
    -------
    bool or None
        None where it cannot be judged: fewer than two pairs, or the same difference in each of
        them. Methods that give the same numbers do not differ.
    """
    differences = _differences(first, second)
    n = len(differences)
    if n < 2:
        return None
    mean, deviation = abs(differences.mean()), differences.std(ddof=1)
    if deviation < _ROUNDING:
        return True if mean < _ROUNDING else None
    return bool(mean <= stats.t.ppf(0.975, n - 1) * deviation / np.sqrt(n))


def _differences(first: Measured, second: Measured) -> Floats:
    """The difference in each pair: of class splits, of classes, or of seeds."""
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


def _are_by_class(first: Measured, second: Measured, common: Sequence[Run]) -> bool:
    """Whether both have a value of every class in each run, always of the same classes."""
    found = [side.by_class.get(run, {}) for side in (first, second) for run in common]
    return bool(found and found[0]) and all(set(values) == set(found[0]) for values in found)


def on_common_runs(cells: Iterable[Measured]) -> list[Measured]:
    """What several methods gave in the runs that all of them have.

    Parameters
    ----------
    cells : iterable of Measured
        One of each method; one without runs is a method without the number.

    Returns
    -------
    list of Measured
        In the order of the methods; as they were where no run is common to all.
    """
    cells = list(cells)
    present = [set(cell.runs) for cell in cells if cell.runs]
    common = set.intersection(*present) if present else set()
    return [cell.only(common) for cell in cells] if common else cells


def verdicts(cells: Iterable[Measured]) -> list[Verdict]:
    """Whether each of several methods differs from the best.

    The best has the largest mean over the runs that all have.

    Parameters
    ----------
    cells : iterable of Measured
        One of each method; one without runs is a method without the number.

    Returns
    -------
    list of {"alike", "differs", "not judged", ""}
        In the order of the methods; nothing for the best itself and for methods without the number.
    """
    cells = list(cells)
    means = [Spread.of(cell.runs).mean for cell in on_common_runs(cells)]
    if np.isnan(means).all():
        return [""] * len(cells)
    best = int(np.nanargmax(means))
    words: dict[bool | None, Verdict] = {True: "alike", False: "differs", None: "not judged"}
    return [
        "" if i == best or not cell.runs else words[do_not_differ(cells[best], cell)]
        for i, cell in enumerate(cells)
    ]


def not_judged_text(table: pd.DataFrame, *, several_seeds: bool) -> str:
    """What a table says of numbers that could not be compared with the best.

    Parameters
    ----------
    table : DataFrame of str
        What :func:`verdicts` says, by method and column.
    several_seeds : bool
        Whether some number is a mean over several seeds.

    Returns
    -------
    str
        A note. Empty where all was judged; and where nothing was and no spread suggests it.
    """
    is_open, is_judged = table == "not judged", table.isin(["alike", "differs"])
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
    """How many seeds numbers are means over, in words; nothing where none has several."""
    several = sorted(set(counts) - {0})
    if not several or several[-1] < 2:
        return ""
    if len(several) == 1:
        return f"{several[0]} seeds"
    return f"{several[0]} to {several[-1]} seeds"
