"""Checks of settings that are fitted together, of sample weights, and inside other estimators."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple
from unittest import SkipTest

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import (
    Interval,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._utils._array import Array
from zslearn.base._classifier import AcceptsSampleWeight
from zslearn.base._meta import ZeroShotMetaClassifier, grid_parts
from zslearn.base.checks._problem import (
    REPEATED,
    ROUNDING,
    SOLVER_TOLERANCE,
    Expect,
    add_class,
    fit,
    fitted,
    once,
    quiet,
    scores_of,
    training_data,
    unused_rows,
)
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.synthesis._exem import EXEM

#: Maximum number of settings of an estimator's own grid.
_MAX_SETTINGS = 6
#: Tolerance of solvers in checks that compare two ways to a solution.
_SMALL_TOL = 1e-9


def grid_settings(estimator: Any) -> list[dict[str, Any]]:
    """A few settings of the estimator's own grid, which together vary every hyper-parameter.

    All hyper-parameters at their first value, then one after another at its last, then all in the
    middle, so that settings that differ in one hyper-parameter can share work.
    """
    grids: Mapping[str, Any] = getattr(estimator, "grids", {})
    if not grids:
        return []
    grid = grids["fast"] if "fast" in grids else next(iter(grids.values()))
    settings = [setting for part in grid_parts(grid) for setting in _settings_of(part)]
    return [s for i, s in enumerate(settings) if s not in settings[:i]]


def _settings_of(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Settings of one part of a grid, possibly with duplicates."""
    first = {name: values[0] for name, values in grid.items()}
    varied = [name for name, values in grid.items() if len(values) > 1]
    # With more hyper-parameters than settings, several change together.
    n_groups = min(len(varied), _MAX_SETTINGS - 2)
    groups = [varied[start::n_groups] for start in range(n_groups)]
    last = [{**first, **{name: grid[name][-1] for name in names}} for names in groups]
    middle = {name: values[len(values) // 2] for name, values in grid.items()}
    return [first, *last, middle]


def other_settings(estimator: Any) -> list[dict[str, Any]]:
    """One setting for each constraint of each hyper-parameter, if the estimator accepts it."""
    settings = [
        {name: value}
        for name, constraints in estimator._parameter_constraints.items()
        if not isinstance(constraints, str)  # "no_validation"
        for constraint in constraints
        for value in _valid_values(name, constraint, getattr(estimator, name))
    ]
    return [setting for setting in settings if _is_accepted(estimator, setting)]


def _valid_values(name: str, constraint: Any, present: Any) -> list[Any]:
    """Another value that satisfies a constraint, or none if it cannot be derived."""
    checked = make_constraint(constraint)
    candidates: list[Any] = []
    if isinstance(checked, StrOptions):
        candidates = sorted(checked.options)
    elif isinstance(checked, Interval) and checked.type is Integral:
        # Fewer steps might not suffice; other numbers are small, so that the fit is fast.
        candidates = [present + 1] if name == "max_iter" else [3, 4]
    elif isinstance(checked, Interval) and checked.type is Real:
        candidates = [2 * present, present / 2] if _is_number(present) else []
        candidates += [0.5, 1.5]
    elif constraint is None:
        candidates = [None]
    elif constraint is Integral or constraint == "random_state":
        candidates = [1, 2]
    elif isinstance(constraint, str) and constraint == "boolean":
        candidates = [not present]
    valid = (value for value in candidates if checked.is_satisfied_by(value))
    return [v for v in valid if not (type(v) is type(present) and v == present)][:1]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_accepted(estimator: Any, setting: dict[str, Any]) -> bool:
    try:
        fitted_alone(estimator, setting)
    except (ImportError, TypeError, ValueError):
        return False
    return True


def solved(estimator: Any) -> dict[str, Any]:
    """Small values of all hyper-parameters named `tol`."""
    return {
        name: min(value, _SMALL_TOL)
        for name, value in estimator.get_params(deep=True).items()
        if name.split("__")[-1] == "tol" and _is_number(value)
    }


def fitted_alone(estimator: Any, setting: Mapping[str, Any]) -> Any:
    """The estimator with one setting, fitted alone on the small data."""
    return fitted(estimator, "small", **{**solved(estimator), **setting})


class Yielded(NamedTuple):
    """A model of a grid, and its scores when `fit_grid` yielded it."""

    position: int
    setting: dict[str, Any]
    model: Any
    scores: Array


def fitted_together(estimator: Any) -> list[Yielded]:
    """Models of a grid of many settings, in the order of `fit_grid`."""

    def compute() -> list[Yielded]:
        settings = [{}, *grid_settings(estimator), *other_settings(estimator)]
        precise = clone(estimator).set_params(**solved(estimator))
        with quiet():
            return [
                Yielded(index, settings[index], model, scores_of(model))
                for index, model in _fit_grid(precise, settings)
            ]

    return once(estimator, "fitted together", compute)


def _fit_grid(estimator: Any, settings: list[dict[str, Any]]) -> Any:
    data = training_data("small")
    return estimator.fit_grid(data.X, data.y, signatures=data.signatures, settings=settings)


def _few_settings(estimator: Any) -> list[dict[str, Any]]:
    return grid_settings(estimator) or [{}, *other_settings(estimator)]


# Inside EXEM, calibration and a search.

_LOOK_WRAPPERS = (
    "A wrapper clones the estimator, fits it on part of the data and reads its class_scorer_."
)


def check_inside_exem(estimator: Any) -> None:
    """`EXEM(estimator=…)` trains the method on predicted exemplars instead of signatures.

    A wrapper is refused with an error that gives the right order of nesting.
    """
    wrapper = EXEM(n_components=6, estimator=clone(estimator))
    if not isinstance(estimator, ZeroShotMetaClassifier):
        _check_use(estimator, fit(wrapper, training_data("small")))
        return
    name = type(estimator).__name__
    expect = Expect(estimator, f"The error must name the other order: {name}(EXEM(estimator=…)).")
    try:
        fit(wrapper, training_data("small"))
    except (TypeError, ValueError) as error:
        expect.that(f"{name}(EXEM(" in str(error), f"EXEM refuses it with: {error}")
    else:
        expect.fail("EXEM accepts a wrapper")


def check_inside_calibrated_stacking(estimator: Any) -> None:
    """`CalibratedStacking` lowers the scores of seen classes by a given or estimated factor."""
    expect = Expect(estimator, _LOOK_WRAPPERS)
    wrapper = fit(CalibratedStacking(clone(estimator), bias=0.25), training_data("small"))
    model = fitted(estimator, "small")
    lowered = 0.25 * np.isin(model.classes_, model.seen_classes_)
    what = "the scores inside CalibratedStacking(bias=0.25)"
    expect.close(scores_of(wrapper), scores_of(model) - lowered, what)
    _check_use(estimator, wrapper)
    searched = fit(CalibratedStacking(clone(estimator), cv=2), training_data("small"))
    expect.that(np.isfinite(searched.bias_), f"the factor is {searched.bias_}")
    _check_use(estimator, searched)


def check_inside_search(estimator: Any) -> None:
    """`ZeroShotSearchCV`, in both settings, has the scores of the setting that it chose.

    In the generalized setting it also lowers the scores of the seen classes.
    """
    expect = Expect(estimator, _LOOK_WRAPPERS)
    settings = _few_settings(estimator)[-2:]
    grid = [{name: [value] for name, value in setting.items()} for setting in settings]
    for setting in ("zsl", "gzsl"):
        search = ZeroShotSearchCV(clone(estimator), grid, setting=setting, cv=2)
        fit(search, training_data("small"))
        alone = fitted(estimator, "small", **search.best_params_)
        seen = np.isin(alone.classes_, alone.seen_classes_)
        what = f"the scores of {search.best_params_}, which a search in setting {setting!r} chose,"
        expect.close(scores_of(search), scores_of(alone) - search.bias_ * seen, what)
        _check_use(estimator, search)


def _check_use(estimator: Any, wrapper: Any) -> None:
    """A fitted wrapper predicts, also for a class that is added later."""
    expect, inside = Expect(estimator, _LOOK_WRAPPERS), f"inside {type(wrapper).__name__}"
    predicted = wrapper.predict(unused_rows(), classes=wrapper.unseen_classes_)
    outside = set(predicted.tolist()) - set(wrapper.unseen_classes_.tolist())
    expect.that(not outside, f"{inside}, {outside} are predicted, but are no candidates")
    is_added = "zz-new" in add_class(wrapper).unseen_classes_
    expect.that(is_added, f"{inside}, add_classes has no effect")
    scores = wrapper.decision_function(unused_rows(), classes=["zz-new"])
    what = f"{inside}, the scores of a class described later are not finite"
    expect.that(np.isfinite(scores).all(), what)


def check_sample_weight(estimator: Any) -> None:
    """A sample weight of 2 is equivalent to repeating the sample, and 0 to dropping it.

    Only methods are checked, since wrappers assign samples to folds.
    """
    if not isinstance(estimator, AcceptsSampleWeight):
        return
    look = (
        "Read training.weights wherever samples are counted or summed; training.sizes for counts."
    )
    X, y, signatures = training_data("small")
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    plain = clone(estimator).set_params(**solved(estimator))
    repeated = np.repeat(np.arange(len(y)), weights)
    with quiet():
        weighted = clone(plain).fit(X, y, signatures=signatures, sample_weight=weights)
        often = clone(plain).fit(X[repeated], y[repeated], signatures=signatures)
    Expect(estimator, look).close(
        scores_of(weighted),
        scores_of(often),
        "the scores of a fit with whole weights, compared with repeated samples,",
        SOLVER_TOLERANCE,
    )


_LOOK = (
    "See _fit_many: variants that share work must agree in every hyper-parameter that it depends "
    "on (zslearn.base.group_by_params), and must not modify what they share."
)


def check_grid_is_valid(estimator: Any) -> None:
    """Each grid in `grids` has hyper-parameters of the estimator and values that it accepts."""
    known = estimator.get_params(deep=True)
    for grid_name, grid in getattr(estimator, "grids", {}).items():
        expect = Expect(estimator, f"Look at grids[{grid_name!r}].")
        expect.that(grid_parts(grid), "a grid is empty")
        for name, values in (item for part in grid_parts(grid) for item in part.items()):
            expect.that(name in known, f"{name!r} is not a hyper-parameter")
            expect.that(len(values) > 0, f"{name!r} has no values")
            for value in values:
                try:
                    validate_parameter_constraints(
                        estimator._parameter_constraints, {name: value}, type(estimator).__name__
                    )
                except ValueError as error:
                    expect.fail(f"a value of the grid is refused: {error}")


def check_grid_equals_single_fits(estimator: Any) -> None:
    """Settings that are fitted together have the scores that each has when fitted alone.

    The settings vary all hyper-parameters, also seeds, tolerances and the preparation of features,
    since a grid may have any of them. Iterative solvers are compared at a small `tol`.
    """
    expect, models = Expect(estimator, _LOOK), fitted_together(estimator)
    n_settings = 1 + len(grid_settings(estimator)) + len(other_settings(estimator))
    yielded = sorted(model.position for model in models)
    what = f"of {n_settings} settings, fit_grid yields those at positions {yielded}"
    expect.that(yielded == list(range(n_settings)), what)
    for _, setting, model, scores in models:
        parameters = model.get_params(deep=True)
        for name, value in setting.items():
            same = parameters[name] is value or parameters[name] == value
            expect.that(same, f"the model of {setting} has {name}={parameters[name]!r}")
        _expect_scores(expect, scores, fitted_alone(estimator, setting), setting)


def check_grid_with_a_generator(estimator: Any) -> None:
    """With a RandomState as `random_state`, a grid also equals single fits.

    Each draw changes the state, so that random work cannot be shared.
    """
    if "random_state" not in estimator.get_params(deep=False):
        raise SkipTest("has no random_state")
    seeded = clone(estimator).set_params(**solved(estimator), random_state=np.random.RandomState(7))
    settings = _few_settings(estimator)[:2]
    for index, model in _fit_grid(clone(seeded), settings):
        alone = fit(clone(seeded).set_params(**settings[index]), training_data("small"))
        _expect_scores(Expect(seeded, _LOOK), scores_of(model), alone, settings[index])


def _expect_scores(expect: Expect, scores: Any, alone: Any, setting: dict[str, Any]) -> None:
    tolerance = SOLVER_TOLERANCE if solved(expect.estimator) else ROUNDING
    what = f"the scores of {setting} in a grid, compared with a single fit,"
    expect.close(scores, scores_of(alone), what, tolerance)


def check_grid_hands_out_separate_models(estimator: Any) -> None:
    """Changing or refitting one model of a grid does not change the others.

    Models may share arrays that none of them modifies.
    """
    expect = Expect(estimator, "A model of a grid must not modify what it shares with others.")
    # Copied together, so that the copies share what the models share.
    models = copy.deepcopy(fitted_together(estimator))

    def expect_as_before(what: str) -> None:
        for _, setting, model, scores in models:
            expect.close(scores_of(model), scores, f"the scores of {setting}, {what},", REPEATED)

    expect_as_before("once all others were fitted")
    changed = add_class(models.pop(0).model)
    data = training_data("small")
    fit(changed, data._replace(X=np.ascontiguousarray(data.X[::-1]) * 3.0 + 1.0))
    expect_as_before("once another model of the grid was refitted")


def check_grid_holds_one_model(estimator: Any) -> None:
    """`fit_grid` keeps no reference to a model that its caller has dropped, to save memory."""
    look = "Keep nothing of a variant after yielding it, except what the next ones share."
    expect, settings = Expect(estimator, look), _few_settings(estimator)[:3]
    grid = _fit_grid(clone(estimator), settings)
    earlier: list[weakref.ref[Any]] = []
    for _ in settings:
        with quiet():
            _, model = next(grid)
        parameters = model.class_scorer_.parameters
        if any(ref() is not None for ref in earlier):
            gc.collect()  # slow and rarely needed
        # Settings with the same parameters may share them.
        held = [ref() for ref in earlier if ref() is not None and ref() is not parameters]
        what = "the previous model, or its parameters, are still held when the next is yielded"
        expect.that(not held, what)
        earlier = [weakref.ref(model), weakref.ref(parameters)]
        del model, parameters, held


def check_rows_embedded_once(estimator: Any) -> None:
    """Rows that a search embeds once for many settings give the scores of `decision_function`.

    Embedded rows are reused if the next model has the same objects as `embedding_attributes`. A fit
    must replace these, not modify them.
    """
    expect = Expect(estimator, "embedding_attributes must list all that embed reads, or be None.")
    models = fitted_together(estimator)
    for order, visited in (("in turn", models), ("in the opposite order", models[::-1])):
        rows = EmbeddedRows(unused_rows())
        for _, setting, model, scores in visited:
            what = f"the scores of {setting} by rows that settings share, visited {order},"
            expect.close(model.class_scorer_.scores(rows), scores, what, 1e-12)
