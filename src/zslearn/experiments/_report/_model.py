"""What a report says, as plain data: the page shows these objects and computes nothing of them.

Numbers are finite or None, texts are printable, and positions are those in the lists of the report,
so that all of it can be written as JSON.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from zslearn._utils._messages import plain

# Numbers and texts as a report holds them.

_LONGEST = 120


def number(value: Any, digits: int = 5) -> float | None:
    """A number with so many digits after the point; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(float(value), digits) if math.isfinite(value) else None


def significant(value: Any, digits: int = 4) -> float | None:
    """A number of any size with so many digits; None where there is none."""
    found = number(value, 300)
    return None if found is None else float(f"{found:.{digits}g}")


def text(value: Any) -> str:
    """Printable text of a length that a page can show."""
    return plain(value, _LONGEST)


def written(value: Any) -> str:
    """A value of a hyper-parameter, numbers short."""
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.4g}" if is_number else text(value)


@dataclass(frozen=True)
class Metric:
    """A column of the main table.

    Parameters
    ----------
    name, label, meaning : str
        Its name in records, in tables, and in words.
    published : bool
        Whether the paper has a number for some row.
    """

    name: str
    label: str
    meaning: str
    published: bool


@dataclass(frozen=True)
class Cell:
    """A number of the main table.

    Parameters
    ----------
    mean, spread : float or None
        Mean over seeds and class splits, and its standard deviation over the seeds.
    best, alike : bool
        Whether it is the best among comparable ones, or does not differ from it.
    published, difference : float or None
        The paper's number and ours less that one; None where the features are not the same.
    features : str
        Those of the published number, where they are not ours.
    """

    mean: float | None
    spread: float | None = None
    best: bool = False
    alike: bool = False
    published: float | None = None
    difference: float | None = None
    features: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the main table: a method on a data set, where it is one of several."""

    method: int
    where: list[str]
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """The main table; `where` names what tells rows apart beside the method."""

    where: list[str]
    metrics: list[Metric]
    rows: list[Row]
    notes: list[str]


@dataclass(frozen=True)
class Method:
    """A method and how it is drawn."""

    name: str
    color: str
    line: str


@dataclass(frozen=True)
class Group:
    """Runs that can be compared: one data set, split, features, signatures, protocol and grid.

    Parameters
    ----------
    label : str
        As far as groups differ.
    dataset, split, version, features, semantic, protocol, grid : str
        What they have in common. `semantic` is the kind of signatures, empty for the data set's
        own.
    classes : list of str
        The classes, the unseen ones first.
    n_unseen : int
        How many of them are unseen.
    left_out : int
        Classes that the report has no room for.
    """

    label: str
    dataset: str
    split: str
    version: str
    features: str
    semantic: str
    protocol: str
    grid: str
    classes: list[str] = field(default_factory=list)
    n_unseen: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class Curve:
    """A seen–unseen curve.

    Parameters
    ----------
    unseen, seen : list of float
        Accuracies.
    factor : list of float or None
        The calibration factor of each point; None for −∞, and where a record does not have it.
    plain, calibrated : int or None
        Positions of the factor 0 and of that found on training data.
    """

    unseen: list[float]
    seen: list[float]
    factor: list[float | None]
    plain: int | None
    calibrated: int | None


@dataclass(frozen=True)
class Landscape:
    """Scores of a search over one or two hyper-parameters, the others at their best.

    Parameters
    ----------
    score : str
        What was maximised.
    x, y : str
        The hyper-parameters; `y` is empty where there is one.
    x_values, y_values : list of str
        Their values, in order.
    mean : list of list of (float or None)
        A row for each value of `y`.
    chosen : list of int or None
        Row and column of the choice.
    others : list of str
        Hyper-parameters that are at their best.
    """

    score: str
    x: str
    y: str
    x_values: list[str]
    y_values: list[str]
    mean: list[list[float | None]]
    chosen: list[int] | None
    others: list[str]


@dataclass(frozen=True)
class Run:
    """One record.

    Parameters
    ----------
    method, group : int
        Positions.
    setting : str
        "zsl" or "gzsl".
    seed : int or None
        Of the folds and of what is left to chance.
    metrics : dict of str to float
        Its numbers by their names in tables.
    hyper_parameters : dict of str to str
        What was chosen.
    edges : dict of str to str
        Choices at the edge of their grid: "smallest" or "largest".
    factor : float or None
        Calibration factor.
    tuning, measuring : float or None
        Seconds.
    failed : str
        Why it failed; empty where it did not.
    curve : Curve or None
        Of the generalized setting.
    landscape : Landscape or None
        What the search found.
    """

    method: int
    group: int
    setting: str
    seed: int | None
    metrics: dict[str, float]
    hyper_parameters: dict[str, str]
    edges: dict[str, str]
    factor: float | None
    tuning: float | None
    measuring: float | None
    failed: str
    curve: Curve | None
    landscape: Landscape | None


@dataclass(frozen=True)
class ByClass:
    """Accuracies of the classes of a group by one method in one setting, means over seeds.

    Parameters
    ----------
    group, method : int
        Positions.
    setting : str
        "zsl" or "gzsl".
    accuracy : list of (int or None)
        In thousandths, in the order of the group's classes.
    taken_for : list of (int or None)
        The class that it was most often taken for.
    share : list of (int or None)
        How often, in thousandths.
    """

    group: int
    method: int
    setting: str
    accuracy: list[int | None]
    taken_for: list[int | None]
    share: list[int | None]


@dataclass(frozen=True)
class Ranks:
    """Methods in the order of their mean ranks.

    Parameters
    ----------
    title : str
        The metric and what the ranks are means over.
    methods : list of int
        The best first.
    mean_ranks : list of float
        Of each.
    critical_difference, statistic, pvalue : float or None
        Of Nemenyi's and Friedman's tests, where there are enough columns.
    alike : list of (list of int)
        First and last place of methods that do not differ.
    note : str
        What a reader must know.
    """

    title: str
    methods: list[int]
    mean_ranks: list[float]
    critical_difference: float | None
    statistic: float | None
    pvalue: float | None
    alike: list[list[int]]
    note: str


@dataclass(frozen=True)
class Report:
    """A whole report.

    Parameters
    ----------
    title, summary : str
        What was run, in one line and in a few sentences.
    facts : list of (list of str)
        Names and values for a first look.
    methods, groups, runs, by_class, ranks : list
        See their classes.
    table : Table
        The main numbers.
    images : dict of str to (dict of str to list of str)
        Data set → class → pictures as ``data:`` addresses.
    versions : list of (list of str)
        Packages and machines with their versions.
    commands : list of str
        What makes the same records again.
    """

    title: str
    summary: str
    facts: list[list[str]]
    methods: list[Method]
    groups: list[Group]
    table: Table
    runs: list[Run]
    by_class: list[ByClass]
    ranks: list[Ranks]
    images: dict[str, dict[str, list[str]]]
    versions: list[list[str]]
    commands: list[str]
