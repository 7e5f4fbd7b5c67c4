"""Settings of a grid, in the order that decides ties."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.utils.validation import _is_arraylike

Grid = str | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


def expand(estimator: Any, grid: Grid) -> list[dict[str, Any]]:
    """List the settings of a grid; of equally good ones the first is taken.

    Parameters
    ----------
    estimator : zero-shot estimator
        Its `grids` has the named ones.
    grid : str, mapping or sequence of mappings
        "paper", "fast", or hyper-parameters with their values; the last one changes fastest.

    Returns
    -------
    list of dict
        One setting each.
    """
    if isinstance(grid, str):
        named = getattr(estimator, "grids", {})
        if grid not in named:
            there = ", ".join(repr(name) for name in named) or "none"
            raise ValueError(
                f"{type(estimator).__name__} has no grid named {grid!r}; there are: {there}. "
                "Give a mapping of hyper-parameters to values."
            )
        grid = named[grid]
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    known = estimator.get_params(deep=True)
    settings: list[dict[str, Any]] = []
    for part in grids:
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
