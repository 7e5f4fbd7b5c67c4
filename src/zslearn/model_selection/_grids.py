"""Grids of hyper-parameters: their names, their settings, and choices on their edges."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import _is_arraylike

from zslearn._utils._array import Floats
from zslearn._utils._messages import InputWarning, warn_user
from zslearn.base._meta import grid_parts
from zslearn.synthesis._exem import EXEM
from zslearn.synthesis._sync import SynC

Grid = str | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
Edge = Literal["smallest", "largest"]

#: Names of grids that every run accepts. A method may define further ones.
GRIDS = ("fast", "paper", "paper-googlenet", "quick")
# The paper's grids for GoogLeNet features, where they differ from those for ResNet. EXEM has λ = 1
# and d = 500 (a footnote of its appendix); the authors' demo searches C from 2^−3 to 2^3.
_GOOGLENET: dict[type, dict[str, list[Any]]] = {
    SynC: {"alpha": [2.0**k for k in range(-24, -8)]},
    EXEM: {"n_components": [500], "C": [1.0]},
}
# With two values, every choice is on an edge.
_FEWEST_VALUES = 3


class GridEdgeWarning(InputWarning):
    """A search chose the smallest or largest value in the list of a hyper-parameter."""


def named_grid(estimator: Any, name: str) -> list[dict[str, Sequence[Any]]]:
    """Return a named grid of a method as a list of parts.

    Parameters
    ----------
    estimator : estimator
        With `grids`, a mapping of names to grids.
    name : str
        One of `GRIDS`, or another name in the method's `grids`. "quick" is the ends and the middle
        of each list of "fast".

    Returns
    -------
    list of dict
        Values by hyper-parameter, as :class:`~zslearn.model_selection.ZeroShotSearchCV` takes them.

    Examples
    --------
    >>> from zslearn.baselines import CCA
    >>> from zslearn.model_selection import named_grid
    >>> [list(part) for part in named_grid(CCA(), "quick")]
    [['alpha_features', 'alpha_signatures', 'power', 'n_components']]
    """
    grids = getattr(estimator, "grids", {})
    if name in grids:
        return grid_parts(grids[name])
    if name == "paper-googlenet" and "paper" in grids:
        changes = [v for kind, v in _GOOGLENET.items() if isinstance(estimator, kind)]
        return [{**part, **(changes[0] if changes else {})} for part in grid_parts(grids["paper"])]
    if name == "quick" and "fast" in grids:
        return [
            {n: _thinned(list(v)) for n, v in part.items()} for part in grid_parts(grids["fast"])
        ]
    known = ", ".join(map(repr, grids)) or "none"
    raise ValueError(
        f"{type(estimator).__name__} has no grid named {name!r}; there are: {known}. Give a "
        "mapping of hyper-parameters to values."
    )


def _thinned(values: list[Any]) -> list[Any]:
    """The ends and the middle of a list."""
    return values if len(values) <= 3 else [values[0], values[len(values) // 2], values[-1]]


def expand(estimator: Any, grid: Grid) -> list[dict[str, Any]]:
    """List the settings of a grid in the order in which ties are broken."""
    grids = named_grid(estimator, grid) if isinstance(grid, str) else grid
    known = estimator.get_params(deep=True)
    settings: list[dict[str, Any]] = []
    for part in [grids] if isinstance(grids, Mapping) else grids:
        if not isinstance(part, Mapping):
            raise TypeError(f"A grid maps hyper-parameters to values; got {part!r}.")
        for name, values in part.items():
            if name not in known:
                raise ValueError(
                    f"{type(estimator).__name__} has no hyper-parameter {name!r}; it has "
                    f"{', '.join(sorted(known))}."
                )
            if isinstance(values, str) or not _is_arraylike(values) or len(values) == 0:
                raise ValueError(f"The grid must list values for {name!r}; got {values!r}.")
        for values in itertools.product(*part.values()):
            settings.append(dict(zip(part, values, strict=True)))
    if not settings:
        raise ValueError("The grid is empty.")
    return settings


def find_edges(
    estimator: Any,
    settings: Sequence[Mapping[str, Any]],
    best: int,
    mean: Floats,
    fewest: int = _FEWEST_VALUES,
) -> dict[str, Edge]:
    """Hyper-parameters whose chosen value is the smallest or largest of `fewest` numbers or more.

    Edges are ignored where an inner value is as good, or where the estimator accepts no value
    beyond (a share of 1, say).
    """
    edges: dict[str, Edge] = {}
    for name, chosen in settings[best].items():
        values = [setting[name] for setting in settings if name in setting]
        if not all(isinstance(v, Real) and not isinstance(v, bool) for v in values):
            continue
        if len(set(values)) < fewest or min(values) < chosen < max(values):
            continue
        edge: Edge = "largest" if chosen == max(values) else "smallest"
        as_good = [
            setting[name]
            for setting, score in zip(settings, mean, strict=True)
            if name in setting and np.isclose(score, mean[best], rtol=1e-12, atol=1e-15)
        ]
        is_alone = all(value == chosen for value in as_good)
        if is_alone and value_beyond(estimator, name, values, edge) is not None:
            edges[name] = edge
    return edges


def value_beyond(estimator: Any, name: str, values: Sequence[Any], edge: Edge) -> Any:
    """The value one step beyond an edge of the grid; None if the estimator accepts none."""
    ordered = sorted(set(values), reverse=edge == "smallest")
    last, inner = ordered[-1], ordered[-2]
    beyond = last * (last / inner) if min(ordered) > 0 else 2 * last - inner
    whole = all(isinstance(value, Integral) for value in values)
    # Without rounding noise: 0.1 instead of 0.10000000000000002.
    beyond = round(beyond) if whole else float(f"{beyond:.12g}")
    owner, _, own_name = name.rpartition("__")
    if owner:
        estimator = estimator.get_params(deep=True).get(owner)
    for constraint in getattr(estimator, "_parameter_constraints", {}).get(own_name, ()):
        if isinstance(constraint, Options) and last in constraint.options:
            return None
        if isinstance(constraint, Interval) and last in constraint and beyond not in constraint:
            side = "right" if edge == "largest" else "left"
            bound = getattr(constraint, side)
            return bound if bound in constraint and bound != last else None
    return beyond if beyond != last else None


def warn_of_edges(chosen: Mapping[str, Any], edges: Mapping[str, Edge]) -> None:
    """Warn which chosen values are on an edge, and where to search further."""
    further = {"smallest": "smaller", "largest": "larger"}
    sentences = [
        f"{name}={chosen[name]} is the {edge} value of the grid: try {further[edge]} ones"
        for name, edge in edges.items()
    ]
    if sentences:
        warn_user(f"The search ended on an edge. {'; '.join(sentences)}.", GridEdgeWarning)
