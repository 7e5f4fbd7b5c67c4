"""Choices that sit on the edge of a grid: a longer list of values might hold a better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.utils._param_validation import Interval

from zslearn.utils import Floats, InputWarning, warn_user

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

    Parameters
    ----------
    estimator : zero-shot estimator
        What was searched; its `_parameter_constraints` tell the values that there can be.
    settings : sequence of mappings
        Hyper-parameters.
    best : int
        Position of the chosen setting.
    mean : ndarray of shape (n_settings,)
        The score that decided.

    Returns
    -------
    dict of str to {"smallest", "largest"}
        By hyper-parameter.
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
    """Say once which choices sit on an edge, and where to look further.

    Parameters
    ----------
    chosen : mapping
        The chosen setting.
    edges : mapping of str to {"smallest", "largest"}
        What `find_edges` gave.
    """
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
