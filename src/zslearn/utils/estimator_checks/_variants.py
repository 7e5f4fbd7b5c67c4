"""Settings of an estimator's hyper-parameters to check it under: its grid, and other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

from zslearn.utils import Array
from zslearn.utils.estimator_checks._problem import (
    fitted,
    once,
    quiet,
    training_data,
    unused_rows,
)

#: Settings of an estimator's own grid that are looked at.
_MOST_SETTINGS = 6
#: Where solvers stop in checks that compare two ways to a solution.
_SMALL_TOL = 1e-9


def grid_settings(estimator: Any) -> list[dict[str, Any]]:
    """A few settings of the estimator's own grid, which together vary every hyper-parameter.

    The first of all values; then one hyper-parameter after another at its last value; then all in
    the middle. So some settings agree in all but one, and work that is shared has its occasion.
    """
    grids: Mapping[str, Any] = getattr(estimator, "grids", {})
    if not grids:
        return []
    grid = grids["fast"] if "fast" in grids else next(iter(grids.values()))
    parts = [grid] if isinstance(grid, Mapping) else list(grid)
    settings = [setting for part in parts for setting in _settings_of(part)]
    return [s for i, s in enumerate(settings) if s not in settings[:i]]


def _settings_of(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Settings of a grid of one part; some may be there twice."""
    first = {name: values[0] for name, values in grid.items()}
    varied = [name for name, values in grid.items() if len(values) > 1]
    # Where there are more hyper-parameters than settings, several change together.
    n_groups = min(len(varied), _MOST_SETTINGS - 2)
    settings = [first]
    for start in range(n_groups):
        names = varied[start::n_groups]
        settings.append({**first, **{name: grid[name][-1] for name in names}})
    settings.append({name: values[len(values) // 2] for name, values in grid.items()})
    return settings


def other_settings(estimator: Any) -> list[dict[str, Any]]:
    """One setting for each other kind of value that a hyper-parameter may have.

    Which ones there are is read from `_parameter_constraints`. Settings that the estimator refuses
    beside its other hyper-parameters are left out.
    """
    settings = []
    for name, constraints in estimator._parameter_constraints.items():
        if isinstance(constraints, str):
            continue  # "no_validation"
        present = getattr(estimator, name)
        for constraint in constraints:
            for value in _valid_values(name, constraint, present):
                if _is_accepted(estimator, {name: value}):
                    settings.append({name: value})
    return settings


def _valid_values(name: str, constraint: Any, present: Any) -> list[Any]:
    """Another value that satisfies a constraint, or none where there is no telling."""
    checked = make_constraint(constraint)
    candidates: list[Any] = []
    if isinstance(checked, StrOptions):
        candidates = sorted(checked.options)
    elif isinstance(checked, Interval) and checked.type is Integral:
        # More steps than enough are still enough; three of anything else is little.
        candidates = [present + 1] if name == "max_iter" else [3, 4]
    elif isinstance(checked, Interval) and checked.type is Real:
        candidates = [2 * present, present / 2] if _is_number(present) else []
        candidates += [0.5, 1.5]
    elif constraint is None:
        candidates = [None]
    elif constraint is Integral:
        candidates = [1, 2]
    elif isinstance(constraint, str) and constraint == "boolean":
        candidates = [not present]
    elif isinstance(constraint, str) and constraint == "random_state":
        candidates = [1, 2]
    valid = (value for value in candidates if checked.is_satisfied_by(value))
    return [value for value in valid if not _same(value, present)][:1]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _is_accepted(estimator: Any, setting: dict[str, Any]) -> bool:
    try:
        fitted_alone(estimator, setting)
    except (ImportError, TypeError, ValueError):
        return False
    return True


def solved(estimator: Any) -> dict[str, Any]:
    """Tolerances at which two ways to a solution end at the same one, by the names they have."""
    return {
        name: min(value, _SMALL_TOL)
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "tol" and _is_number(value)
    }


def fitted_alone(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """The estimator under a setting, fitted by itself on the small data: never change it."""
    return fitted(estimator, "small", **{**solved(estimator), **setting})


class HandedOut(NamedTuple):
    """A model of a grid, and what it was when it was handed out."""

    position: int
    setting: dict[str, Any]
    model: Any
    scores: Array


def fitted_together(estimator: Any) -> list[HandedOut]:
    """Models of one grid of many settings, in the order in which they came: never change them."""

    def compute() -> list[HandedOut]:
        settings = [{}, *grid_settings(estimator), *other_settings(estimator)]
        data = training_data("small")
        grid = (
            clone(estimator)
            .set_params(**solved(estimator))
            .fit_grid(data.X, data.y, signatures=data.signatures, settings=settings)
        )
        with quiet():
            return [
                HandedOut(index, settings[index], model, model.decision_function(unused_rows()))
                for index, model in grid
            ]

    return once(estimator, "fitted together", compute)
