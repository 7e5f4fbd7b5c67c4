"""What a search found, read out of its `cv_results_`: scores over one or two hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Floats
from zslearn._utils._messages import InputWarning, name_some, warn_user

# Choices that sit on the edge of a grid: a longer list of values might hold a better one.

Edge = Literal["smallest", "largest"]

# Two values have no middle: a choice among them is on an edge whatever it is.
_FEWEST_VALUES = 3


class GridEdgeWarning(InputWarning):
    """A search chose the smallest or the largest value of a hyper-parameter's list."""


def find_edges(
    estimator: Any, settings: Sequence[Mapping[str, Any]], best: int, mean: Floats
) -> dict[str, Edge]:
    """Hyper-parameters whose chosen value is the smallest or largest of three or more numbers.

    Where a value further inside is as good, or where the estimator takes no value beyond (a share
    of 1, say), the choice is no reason to search further and is left out.
    """
    edges: dict[str, Edge] = {}
    for name, chosen in settings[best].items():
        values = [setting[name] for setting in settings if name in setting]
        if not all(isinstance(v, Real) and not isinstance(v, bool) for v in values):
            continue
        if len(set(values)) < _FEWEST_VALUES or min(values) < chosen < max(values):
            continue
        edge: Edge = "largest" if chosen == max(values) else "smallest"
        as_good = [
            setting[name]
            for setting, score in zip(settings, mean, strict=True)
            if name in setting and np.isclose(score, mean[best], rtol=1e-12, atol=1e-15)
        ]
        is_alone = all(value == chosen for value in as_good)
        if is_alone and not _is_bound(estimator, name, chosen, edge):
            edges[name] = edge
    return edges


def warn_of_edges(chosen: Mapping[str, Any], edges: Mapping[str, Edge]) -> None:
    """Say once which choices sit on an edge, and where to look further."""
    if not edges:
        return
    further = {"smallest": "smaller", "largest": "larger"}
    sentences = [
        f"{name}={chosen[name]} is the {edge} value of the grid: try {further[edge]} ones"
        for name, edge in edges.items()
    ]
    warn_user(f"The search ended on an edge. {'; '.join(sentences)}.", GridEdgeWarning)


def _is_bound(estimator: Any, name: str, value: Any, edge: Edge) -> bool:
    """Whether the hyper-parameter takes no value beyond this one."""
    owner, _, last = name.rpartition("__")
    if owner:
        estimator = estimator.get_params(deep=True).get(owner)
    constraints = getattr(estimator, "_parameter_constraints", {}).get(last, ())
    side = "right" if edge == "largest" else "left"
    return any(
        isinstance(constraint, Interval)
        and constraint.closed in (side, "both")
        and getattr(constraint, side) == value
        for constraint in constraints
    )


class Landscape(TypedDict):
    """The parameters of `SearchLandscapeDisplay`."""

    x_name: str
    x_values: list[Any]
    mean: Floats
    std: Floats
    y_name: str | None
    y_values: list[Any] | None
    chosen: tuple[int, ...] | None
    chosen_score: float
    edges: dict[str, Edge]
    others: list[str]
    score_name: str


def read_landscape(search: Any, x: str | None, y: str | None, score: str | None) -> Landscape:
    """Scores of a fitted search, the other hyper-parameters being at their best.

    Parameters
    ----------
    search : ZeroShotSearchCV
        Fitted; or another search with `cv_results_` and `best_index_`.
    x, y : str or None
        Hyper-parameters; with neither, the ones that the grid varies, if these are one or two.
    score : str or None
        Name of the score. None: the first, which decided.

    Returns
    -------
    Landscape
    """
    results = _results_of(search)
    settings: list[Mapping[str, Any]] = list(results["params"])
    name = _score_name(results, score)
    x, y = _check_names(settings, x, y)
    mean = np.asarray(results[f"mean_test_{name}"], dtype=np.float64)
    std = np.asarray(results[f"std_test_{name}"], dtype=np.float64)

    axes = [axis for axis in (y, x) if axis is not None]
    values = [_values(settings, axis) for axis in axes]
    cells = [_cell(setting, axes, values) for setting in settings]
    best = _best_in_cells(cells, mean, tuple(map(len, values)))
    edges = getattr(search, "edges_", None)
    if edges is None:
        edges = find_edges(search.estimator, settings, search.best_index_, mean)
    return Landscape(
        x_name=x,
        x_values=values[-1],
        mean=np.where(best < 0, np.nan, mean[best]),
        std=np.where(best < 0, np.nan, std[best]),
        y_name=y,
        y_values=values[0] if y is not None else None,
        chosen=cells[search.best_index_],
        chosen_score=float(mean[search.best_index_]),
        edges={axis: edge for axis, edge in edges.items() if axis in axes},
        others=[axis for axis in _varied(settings) if axis not in axes],
        score_name=name,
    )


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; True and False are none."""
    return (
        isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )


def _results_of(search: Any) -> Mapping[str, Any]:
    results: Mapping[str, Any] | None = getattr(search, "cv_results_", None)
    if results is None:
        raise ValueError(f"This {type(search).__name__} is not fitted: call fit first.")
    if not any(key.startswith("mean_test_") for key in results):
        raise ValueError(
            "The search compared no settings, for want of signatures, of classes to leave out, or "
            "of a second setting: there is nothing to draw."
        )
    return results


def _score_name(results: Mapping[str, Any], score: str | None) -> str:
    prefix = "mean_test_"
    names = [key.removeprefix(prefix) for key in results if key.startswith(prefix)]
    if score is None:
        return names[0]
    if score not in names:
        raise ValueError(f"The search has no score {score!r}; it has {name_some(names)}.")
    return score


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Hyper-parameters with more than one value, in the order of the grid."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len(_values(settings, name)) > 1]


def _check_names(
    settings: Sequence[Mapping[str, Any]], x: str | None, y: str | None
) -> tuple[str, str | None]:
    known = list(dict.fromkeys(name for setting in settings for name in setting))
    if x is None and y is None:
        varied = _varied(settings) or known[:1]
        if not 1 <= len(varied) <= 2:
            raise ValueError(
                f"The search varied {len(varied)} hyper-parameters: choose x= and y= among "
                f"{name_some(varied, limit=20)}."
            )
        return varied[0], varied[1] if len(varied) == 2 else None
    if x is None:
        raise ValueError("y= needs x=, the hyper-parameter to the right.")
    for name in (x, y):
        if name is not None and name not in known:
            raise ValueError(
                f"The search has no hyper-parameter {name!r}; it has {name_some(known, limit=20)}."
            )
    if x == y:
        raise ValueError(f"x and y are both {x!r}: choose two hyper-parameters, or x= alone.")
    return x, y


def _key(value: Any) -> tuple[str, Any]:
    """What tells values apart, also those that cannot be compared or hashed."""
    return ("number", float(value)) if is_number(value) else ("other", repr(value))


def _values(settings: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Distinct values of a hyper-parameter: numbers sorted, all else in the order of the grid."""
    found = {_key(setting[name]): setting[name] for setting in settings if name in setting}
    values = list(found.values())
    return sorted(values) if all(map(is_number, values)) else values


def _cell(
    setting: Mapping[str, Any], names: Sequence[str], values: Sequence[Sequence[Any]]
) -> tuple[int, ...] | None:
    """Position of a setting in the picture; None where it does not name a hyper-parameter of it."""
    if any(name not in setting for name in names):
        return None
    return tuple(
        [_key(value) for value in axis].index(_key(setting[name]))
        for name, axis in zip(names, values, strict=True)
    )


def _best_in_cells(
    cells: Sequence[tuple[int, ...] | None], mean: Floats, shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Of each cell the setting with the largest score, the first of equals; −1 without any."""
    best = np.full(shape, -1, dtype=np.intp)
    for index, cell in enumerate(cells):
        if cell is None or np.isnan(mean[index]):
            continue
        if best[cell] < 0 or mean[index] > mean[best[cell]]:
            best[cell] = index
    return best
