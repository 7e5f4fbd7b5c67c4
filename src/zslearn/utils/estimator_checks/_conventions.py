"""Checks of an estimator's manners: parameters, documentation, errors, what a fit leaves."""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import generate_invalid_param_val, make_constraint
from sklearn.utils.estimator_checks import check_estimator

from zslearn.model_selection import ZeroShotSearchCV
from zslearn.utils.estimator_checks._problem import (
    fail,
    fit,
    fitted,
    new_class,
    problem,
    quiet,
    require,
    require_equal,
    training_data,
    unused_rows,
)
from zslearn.utils.estimator_checks._variants import (
    fitted_alone,
    grid_settings,
    other_settings,
    solved,
)


def check_scikit_learn(
    estimator: Any, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """Everything that scikit-learn asks of a classifier holds without signatures.

    So an estimator works in pipelines, in cross-validation and with other tools of that world.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            estimator,
            expected_failed_checks=dict(expected_failed_checks or {}),
            on_skip=None,
            on_fail=None,
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    for name, error in failed.items():
        raise AssertionError(
            f"{estimator!r}: of scikit-learn's checks {', '.join(failed)} failed. {name}: {error}. "
            f"Look at sklearn.utils.estimator_checks.{name}."
        ) from error
    passed = [r for r in results if r["status"] == "passed"]
    require(
        len(passed) > 30,
        estimator,
        f"only {len(passed)} of scikit-learn's checks ran",
        "Look at its tags: what they rule out is not checked.",
    )


def check_documentation(estimator: Any) -> None:
    """The docstring names every hyper-parameter, and no shared part is left to fill in.

    A line ``<name>`` stands for a part that a base class has; a misspelt one stays as it is.
    """
    cls = type(estimator)
    functions = [value for value in vars(cls).values() if inspect.isfunction(value)]
    documented: list[Any] = [cls, *functions]
    for thing in documented:
        left = re.findall(r"^ *(<[^<>\n]+>)$", thing.__doc__ or "", re.M)
        require(
            not left,
            estimator,
            f"the docstring of {thing.__qualname__} has {', '.join(left)} in it",
            f"Parts that can be filled in: {', '.join(getattr(cls, '_doc_parts', {}))}.",
        )
    doc = inspect.getdoc(cls) or ""
    for name in estimator.get_params(deep=False):
        require(
            re.search(rf"^(\w+, )*{name}(, \w+)* :", doc, re.M) is not None,
            estimator,
            f"the docstring of {cls.__name__} says nothing of the hyper-parameter {name!r}",
            f'Add a line "{name} : type, default=…" to its section Parameters.',
        )


class _WrongType:
    """A value that no hyper-parameter takes."""


def _wrong_values(constraints: list[Any]) -> list[Any]:
    """A value of a wrong type, and for each constraint one that is out of its range."""
    checked = [make_constraint(constraint) for constraint in constraints]
    values: list[Any] = [_WrongType()]
    for constraint in checked:
        try:
            value = generate_invalid_param_val(constraint)
        except NotImplementedError:
            continue
        if not any(other.is_satisfied_by(value) for other in checked):
            values.append(value)
    return values


def check_wrong_parameters_are_named(estimator: Any) -> None:
    """`fit` refuses a wrong hyper-parameter by an error with its name and that of the class.

    So does a search with such a value in its grid. Each hyper-parameter has an entry in
    `_parameter_constraints`.
    """
    cls, names = type(estimator), set(estimator.get_params(deep=False))
    constrained = cls._parameter_constraints
    look = f"Look at {cls.__name__}._parameter_constraints."
    missing = sorted(names ^ set(constrained))
    require(not missing, estimator, f"constraints and parameters differ in {missing}", look)
    for name, constraints in constrained.items():
        if isinstance(constraints, str):
            continue  # "no_validation"
        for value in _wrong_values(constraints):
            wrong = clone(estimator).set_params(**{name: value})
            _require_refusal(estimator, wrong, name, value)
        grid = {name: [getattr(estimator, name), _WrongType()]}
        search = ZeroShotSearchCV(clone(estimator), grid, cv=2, error_score="raise")
        _require_refusal(estimator, search, name, "an object of another type, in a search")


def _require_refusal(estimator: Any, wrong: Any, name: str, value: Any) -> None:
    """Fitting fails with an error that names the hyper-parameter and the class."""
    cls = type(estimator).__name__
    look = f"Decorate fit with zslearn.utils.checks_parameters; look at the constraint of {name!r}."
    try:
        fit(wrong, training_data())
    except (TypeError, ValueError) as error:
        named = name in str(error) and cls in str(error)
        require(named, estimator, f"{name}={value!r} is refused without names: {error}", look)
    else:
        fail(estimator, f"{name}={value!r} is accepted", look)


def check_error_leaves_the_model(estimator: Any) -> None:
    """A `fit` that ends with an error leaves a fitted estimator as it was.

    Whatever the reason: labels that are too few, a class without signature, one class only,
    parameters that cannot be made. A service whose nightly fit fails goes on with the old model.
    """
    model = copy.deepcopy(fitted(estimator))
    before = _state(model)
    expected = model.decision_function(unused_rows())
    data = training_data()
    seen = problem().seen_classes
    broken = {
        "y is too short": data._replace(y=data.y[:-1]),
        "a seen class has no signature": data._replace(
            signatures=data.signatures.drop(index=seen[0])
        ),
        "y holds one class": data._replace(y=np.repeat(seen[:1], len(data.y))),
        "X has other columns, and a seen class no signature": data._replace(
            X=data.X[:, 1:], signatures=data.signatures.drop(index=seen[0])
        ),
    }
    for what, wrong in broken.items():
        _fail_to_fit(estimator, model, wrong, what)
        _require_state(estimator, model, before, what)
    innermost = estimator
    while hasattr(innermost, "estimator") and not hasattr(innermost, "synthesize"):
        innermost = innermost.estimator
    with patch.object(type(innermost), "synthesize", _refuse_to_synthesize):
        _fail_to_fit(estimator, model, data._replace(X=data.X[::-1] * 2.0), "synthesize fails")
    _require_state(estimator, model, before, "synthesize fails")
    require_equal(
        estimator,
        model.decision_function(unused_rows()),
        expected,
        "the scores after fits that failed",
        "Change attributes only when all that can fail is done.",
    )


def _refuse_to_synthesize(self: Any, *args: Any, **options: Any) -> Any:
    raise ValueError("refused on purpose, at the end of fit")


def _fail_to_fit(estimator: Any, model: Any, data: Any, what: str) -> None:
    try:
        fit(model, data)
    except (TypeError, ValueError):
        return
    fail(estimator, f"fit succeeds although {what}", "Leave the checks of input to the base.")


def _state(model: Any) -> dict[str, str]:
    """A digest of every attribute."""
    return {name: joblib.hash(value) for name, value in vars(model).items()}


def _require_state(estimator: Any, model: Any, before: dict[str, str], what: str) -> None:
    after = _state(model)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    require(
        not changed,
        estimator,
        f"{what}, and these attributes are not as before: {', '.join(changed)}",
        "Change attributes only in _fit, on the estimator it is called for.",
    )


def check_predicting_changes_nothing(estimator: Any) -> None:
    """Predicting writes to no attribute and not to X: `embed` and `synthesize` are pure.

    Threads predict with one model at the same time, and a search keeps rows that it has embedded.
    """
    model = copy.deepcopy(fitted(estimator))
    X = unused_rows()
    before = _state(model)
    model.predict(X)
    model.decision_function(X, classes=model.unseen_classes_)
    model.predict_top_k(X, 3)
    _require_state(estimator, model, before, "after predicting")
    require_equal(estimator, X, unused_rows(), "X after predicting", "embed must not write to X.")
    learned = {name for name in before if name.endswith("_")}
    with quiet():
        model.add_classes(new_class())
    after = _state(model)
    changed = sorted(
        name for name in learned - {"estimator_"} if name in after and after[name] != before[name]
    )
    require(
        not changed,
        estimator,
        f"describing a class changes what was learned: {', '.join(changed)}",
        "synthesize must read attributes and write none.",
    )


def check_refit_forgets(estimator: Any) -> None:
    """A second `fit` with other hyper-parameters leaves nothing of the first.

    Neither an attribute that only the first setting has, nor a start for the second.
    """
    # Which attributes there are depends on choices rather than on numbers.
    choices = [
        setting
        for setting in other_settings(estimator)
        if not any(isinstance(value, float) for value in setting.values())
    ]
    model = copy.deepcopy(fitted_alone(estimator, {}))
    for setting in [*grid_settings(estimator)[:1], *choices, {}]:
        plain = clone(estimator).set_params(**solved(estimator))
        model.set_params(**plain.get_params(deep=False)).set_params(**setting)
        fit(model, training_data("small"))
        alone = fitted_alone(estimator, setting)
        look = "Learned attributes end in an underscore; the base drops these before each fit."
        left = sorted(set(vars(model)) ^ set(vars(alone)))
        require(not left, estimator, f"a refit with {setting} differs in attributes {left}", look)
        require_equal(
            estimator,
            model.decision_function(unused_rows()),
            alone.decision_function(unused_rows()),
            f"the scores of a refit with {setting}, compared with a fresh estimator,",
            look,
        )
