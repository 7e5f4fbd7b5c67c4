"""Checks of an estimator's manners: parameters, documentation, errors, what a fit leaves."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import generate_invalid_param_val, make_constraint
from sklearn.utils.estimator_checks import check_estimator

from zslearn import persistence
from zslearn._utils._array import to_numpy
from zslearn.base.checks._grids import fitted_alone, grid_settings, other_settings, solved
from zslearn.base.checks._problem import (
    ROUNDING,
    SOLVER_TOLERANCE,
    fail,
    fit,
    fitted,
    is_scaled_by_all,
    late_classes,
    new_class,
    new_names,
    problem,
    quiet,
    require,
    require_close,
    require_equal,
    training_data,
    unused_rows,
)
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.signatures._views import MultiSignatures

# Checks of what a fitted estimator predicts.


def check_repeatable(estimator: Any) -> None:
    """A second fit gives the same scores, to the last digit.

    Chance comes from `random_state` alone, whose default is a number.
    """
    again = fit(clone(estimator), training_data())
    require_equal(
        estimator,
        again.decision_function(unused_rows()),
        fitted(estimator).decision_function(unused_rows()),
        "the scores of a second fit",
        "Draw random numbers from check_random_state(self.random_state) only.",
    )


def check_better_than_chance(estimator: Any) -> None:
    """On an easy problem, unseen and seen classes are recognised more often than by guessing.

    A sign that is wrong somewhere passes every other check.
    """
    model, data = fitted(estimator), problem()
    for kind, X, y, classes, factor in (
        ("unseen", data.X_test_unseen, data.y_test_unseen, data.unseen_classes, 1.5),
        ("seen", data.X_test_seen, data.y_test_seen, data.seen_classes, 3.0),
    ):
        accuracy = model.score(X, y, classes=classes)
        require(
            accuracy > factor / len(classes),
            estimator,
            f"the accuracy among {len(classes)} {kind} classes is {accuracy:.3f}",
            "Look at the signs of the scores, and whether embed and synthesize lead to one space.",
        )


def check_candidates(estimator: Any) -> None:
    """`classes` chooses columns of the scores, and what `predict` may name.

    Scores of a class do not depend on which others are candidates, nor does a prediction on the
    order in which they are named.
    """
    model, X = fitted(estimator), unused_rows()
    positions = [7, 0, 11]
    chosen = model.classes_[positions]
    scores = model.decision_function(X, classes=chosen)
    look = "Leave decision_function and predict to the base class."
    full = model.decision_function(X)[:, positions]
    require_close(estimator, scores, full, "the scores of three candidates", look, ROUNDING)
    predicted = model.predict(X, classes=chosen)
    outside = set(predicted.tolist()) - set(chosen.tolist())
    require(not outside, estimator, f"{sorted(outside)} are named and no candidates", look)
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > ROUNDING * np.abs(scores).max()
    best = chosen[np.argmax(scores, axis=1)]
    require_equal(estimator, predicted[clear], best[clear], "the best of three candidates", look)
    require_equal(
        estimator,
        model.predict(X, classes=chosen[::-1]),
        predicted,
        "what is predicted with the candidates in the opposite order",
        look,
    )


def check_top_k(estimator: Any) -> None:
    """`predict_top_k` names the classes with the highest scores, best first, each once.

    It never makes the matrix of all scores, and must agree with it.
    """
    model, X = fitted(estimator), unused_rows()
    labels, scores = model.predict_top_k(X, k=3)
    look = "Leave predict_top_k to the base class; embed must treat each row by itself."
    best = -np.sort(-model.decision_function(X), axis=1)[:, :3]
    require_close(estimator, scores, best, "the three best scores", look, ROUNDING)
    require_equal(estimator, labels[:, 0], model.predict(X), "the first of the best", look)
    twice = [row for row in labels.tolist() if len(set(row)) < 3]
    require(not twice, estimator, f"a class is named twice for a sample: {twice[:1]}", look)


def check_float32(estimator: Any) -> None:
    """Features in single precision give scores in single precision that agree with those of double.

    Features are often stored so; a method that turns them into float64 doubles its memory.
    """
    double = fitted(estimator).decision_function(unused_rows())
    model = fitted(estimator, "float32")
    single = model.decision_function(unused_rows().astype(np.float32))
    look = "Make arrays in embed and synthesize in the dtype of X; sum in double precision."
    require(
        single.dtype == np.float32,
        estimator,
        f"features of float32 give scores of {single.dtype}",
        look,
    )
    require_close(estimator, single, double, "the scores of float32", look, 2e-3)


def check_small_blocks(estimator: Any) -> None:
    """Little memory gives the same: rows are taken in blocks, also from a file.

    Predictions are the same; a model that is fitted in blocks may differ by rounding.
    """
    model, X = fitted(estimator), unused_rows()
    data = training_data()
    with tempfile.TemporaryDirectory() as folder:
        mapped = []
        for name, rows in (("train", data.X), ("test", X)):
            np.save(Path(folder, f"{name}.npy"), rows)
            mapped.append(np.load(Path(folder, f"{name}.npy"), mmap_mode="r"))
        with patch("zslearn._utils._blocks.BLOCK_BYTES", 20_000):
            predicted = model.predict(mapped[1])
            in_blocks = fit(clone(estimator), data._replace(X=mapped[0]))
            scores = in_blocks.decision_function(mapped[1])
        del mapped, rows
    require_equal(
        estimator,
        predicted,
        model.predict(X),
        "what is predicted block by block",
        "embed must treat each row by itself.",
    )
    require_close(
        estimator,
        scores,
        model.decision_function(X),
        "the scores of a model that is fitted block by block",
        "Look at what _fit does with zslearn._utils._blocks.row_blocks, and at rows that it changes.",
        SOLVER_TOLERANCE,
    )


def check_pickling(estimator: Any) -> None:
    """A pickled model predicts the same, and classes can be added to it alone.

    Models travel to the processes of a search, and to disk.
    """
    model, X = fitted(estimator), unused_rows()
    look = "Keep nothing that cannot be pickled: no lambda, open file or generator."
    try:
        again = pickle.loads(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        fail(estimator, f"the model cannot be pickled: {error}", look)
    require_equal(
        estimator, again.decision_function(X), model.decision_function(X), "the scores", look
    )
    with quiet():
        again.add_classes(new_class())
    require("zz-new" in again.classes_, estimator, "add_classes after pickling adds none", look)
    require("zz-new" not in model.classes_, estimator, "the copy shares its classes", look)


def check_n_jobs(estimator: Any) -> None:
    """`n_jobs` changes how long it takes, and no number.

    Else results could not be compared between machines.
    """
    if "n_jobs" not in estimator.get_params(deep=False):
        raise SkipTest("has no n_jobs")
    alone = fitted(estimator, n_jobs=1).decision_function(unused_rows())
    require_close(
        estimator,
        fitted(estimator, n_jobs=2).decision_function(unused_rows()),
        alone,
        "the scores with n_jobs=2, compared with n_jobs=1,",
        "Cut the work into pieces that do not depend on n_jobs.",
        1e-12,
    )


def check_torch(estimator: Any) -> None:
    """Tensors of torch go in and come out, with the same numbers as NumPy's arrays.

    Skipped where torch is not installed.
    """
    _check_library(estimator, "torch")


def check_array_api_strict(estimator: Any) -> None:
    """Nothing beyond the array API standard is asked of arrays that are not NumPy's.

    The package `array_api_strict` offers the standard and no more; skipped where it is missing.
    """
    _check_library(estimator, "array_api_strict")


def _check_library(estimator: Any, library: str) -> None:
    try:
        xp = importlib.import_module(library)
    except ImportError as error:
        raise SkipTest(f"needs {library}") from error
    rows = unused_rows()
    foreign = xp.asarray(unused_rows())
    data = training_data()
    expected = fitted(estimator).decision_function(rows)
    model = fit(clone(estimator), data._replace(X=xp.asarray(data.X)))
    scores = model.decision_function(foreign)
    look = (
        "Take functions from array_api_compat.array_namespace(X), bring arrays to X with "
        "zslearn._utils._array.move_like and to NumPy with zslearn._utils._array.to_numpy."
    )
    require(
        type(scores) is type(foreign),
        estimator,
        f"X of {type(foreign).__name__} gives scores of {type(scores).__name__}",
        look,
    )
    require_close(estimator, scores, expected, f"the scores with {library}", look, 1e-6)
    require_equal(
        estimator,
        model.predict(foreign),
        fitted(estimator).predict(rows),
        f"what is predicted with {library}",
        look,
    )
    require_close(
        estimator,
        to_numpy(model.decision_function(rows)),
        expected,
        f"the scores of NumPy's rows by a model fitted with {library}",
        look,
        1e-6,
    )


# Checks of what describing classes may change, and what not.


def check_attributes_name_every_class(estimator: Any) -> None:
    """`classes_`, `seen_classes_`, `unseen_classes_` and `n_features_in_` say what was given.

    A user chooses candidates by them, and wrappers tell seen classes from unseen ones.
    """
    model, data = fitted(estimator), problem()
    look = "Leave these attributes to the base class."
    for name, expected in (
        ("classes_", data.signatures.index),
        ("seen_classes_", data.seen_classes),
        ("unseen_classes_", data.unseen_classes),
    ):
        require_equal(estimator, getattr(model, name), np.sort(expected), name, look)
    require(
        model.n_features_in_ == data.X_train.shape[1],
        estimator,
        f"n_features_in_ is {model.n_features_in_}, and X has {data.X_train.shape[1]} columns",
        look,
    )


def check_order_of_classes(estimator: Any) -> None:
    """Signatures in another order give the same scores, to the last digit.

    Rows of a table have no order that means something; columns of scores follow `classes_`.
    """
    first = fitted(estimator).decision_function(unused_rows())
    again = fitted(estimator, "shuffled").decision_function(unused_rows())
    require_equal(
        estimator,
        again,
        first,
        "the scores after shuffling the rows of signatures",
        "Find classes by their label, not by their row in the table of a user.",
    )


def check_renamed_labels(estimator: Any) -> None:
    """Other names for the classes, in the same order, rename the predictions and change nothing.

    A label is a name: nothing may be learned from it.
    """
    names = new_names()
    first = fitted(estimator).predict(unused_rows())
    again = fitted(estimator, "renamed").predict(unused_rows())
    require_equal(
        estimator,
        again,
        np.asarray([names[label] for label in first.tolist()]),
        "what is predicted with numbers in place of names",
        "Work with positions of classes, training.y, and treat labels as names only.",
    )


def check_unused_class(estimator: Any) -> None:
    """Describing fewer classes at `fit` leaves the scores of all others as they are.

    Unseen classes may come and go; the model is learned from the seen ones. With
    `signature_scale="all"` each described class counts by intention.
    """
    _skip_if_scaled_by_all(estimator)
    kept = training_data("without late classes").signatures.index.to_numpy()
    first = fitted(estimator).decision_function(unused_rows(), classes=kept)
    model = fitted(estimator, "without late classes")
    require_close(
        estimator,
        model.decision_function(unused_rows(), classes=kept),
        first,
        "the scores of the other classes, once some unseen ones are not described",
        "Learn from training.signatures, the seen ones; let synthesize treat each class by itself.",
        ROUNDING,
    )


def check_each_class_alone(estimator: Any) -> None:
    """Where `describes_each_alone` is true, a class scores the same whatever others are described.

    A search then has the classes that a fold leaves out described, and no others, not even those
    that it was fitted on.
    """
    if not getattr(estimator, "describes_each_alone", False):
        raise SkipTest("describes_each_alone is not true: all classes are always described.")
    data = training_data()
    some = fitted(estimator).unseen_classes_
    expected = fitted(estimator).decision_function(unused_rows(), classes=some)
    with quiet():
        grid = clone(estimator).fit_grid(
            data.X, data.y, signatures=data.signatures, settings=[{}], classes=some
        )
        ((_, model),) = list(grid)
    look = "Make each class of its own signature in synthesize, or do not set describes_each_alone."
    require_equal(estimator, model.classes_, some, "classes_", look)
    require_close(
        estimator,
        model.decision_function(unused_rows(), classes=some),
        expected,
        "the scores of the classes, once no others are described",
        look,
        ROUNDING,
    )


def check_described_later(estimator: Any) -> None:
    """A class that `add_classes` describes is as if it had been described at `fit`.

    To the last digit: what a model says must not depend on when it was told of a class.
    """
    _skip_if_scaled_by_all(estimator)
    whole = fitted(estimator)
    model = copy.deepcopy(fitted(estimator, "without late classes"))
    look = "Keep what is learned apart from what is described; synthesize all classes together."
    with quiet():
        returned = model.add_classes(problem().signatures.loc[late_classes()])
    require(returned is model, estimator, "add_classes does not return the estimator", look)
    require_equal(estimator, model.classes_, whole.classes_, "classes_ after add_classes", look)
    require_equal(
        estimator,
        model.decision_function(unused_rows()),
        whole.decision_function(unused_rows()),
        "the scores after add_classes, compared with describing all classes at fit,",
        look,
    )


def check_several_views(estimator: Any) -> None:
    """Two kinds of signatures are accepted, together and for a class described later.

    A method receives them joined to one vector per class, or apart where it says
    `keep_views = True`.
    """
    frame = problem().signatures
    late = late_classes()

    def views(rows: Any) -> MultiSignatures:
        return MultiSignatures({"front": rows.iloc[:, :5], "back": rows.iloc[:, 5:]})

    data = training_data()
    model = fit(clone(estimator), data._replace(signatures=views(frame.drop(index=late))))
    with quiet():
        model.add_classes(views(frame.loc[late]))
    scores = model.decision_function(unused_rows())
    require(
        bool(np.isfinite(scores).all()) and scores.shape[1] == len(frame),
        estimator,
        f"MultiSignatures lead to scores of shape {scores.shape} that are not all finite numbers",
        "With keep_views = True, synthesize must handle SignatureViews; without, arrays only.",
    )


def _skip_if_scaled_by_all(estimator: Any) -> None:
    if is_scaled_by_all(estimator):
        raise SkipTest('with signature_scale="all" every class described at fit counts')


# A check of model files.


def check_saving(estimator: Any) -> None:
    """A model that is saved by `zslearn.save` and loaded predicts the same, to the last digit.

    So do its probabilities, where it has them, and it is the same after classes are added. A class
    from outside the library is registered first, as its users do.
    """
    look = (
        "Keep what fit learns in attributes that are numbers, texts, arrays, lists, dicts or "
        "estimators; call zslearn.persistence.register with other classes that you keep."
    )
    if not type(estimator).__module__.startswith("zslearn."):
        persistence.register(type(estimator))
    model = fitted(estimator)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.zsl")
        try:
            persistence.save(model, path)
        except persistence.CannotSaveError as error:
            fail(estimator, f"the model cannot be saved: {error}", look)
        try:
            again = persistence.load(path)
        except persistence.ModelFileError as error:
            fail(estimator, f"the model cannot be loaded: {error}", look)
    require(type(again) is type(model), estimator, f"a {type(again).__name__} is loaded", look)
    _require_same(estimator, again, model, "after saving", look)
    added = copy.deepcopy(model)
    with quiet():
        added.add_classes(new_class())
        again.add_classes(new_class())
    _require_same(estimator, again, added, "after saving and add_classes", look)


def _require_same(estimator: Any, again: Any, model: Any, when: str, look: str) -> None:
    """Fail unless two models predict the same."""
    X = unused_rows()
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        require_equal(estimator, getattr(again, name), getattr(model, name), f"{name} {when}", look)
    for name in ("decision_function", "predict", "predict_proba"):
        if hasattr(model, name):
            actual, expected = getattr(again, name)(X), getattr(model, name)(X)
            require_equal(estimator, actual, expected, f"what {name} gives {when}", look)
    for actual, expected in zip(
        again.predict_top_k(X, k=3), model.predict_top_k(X, k=3), strict=True
    ):
        require_equal(estimator, actual, expected, f"what predict_top_k gives {when}", look)


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
    """The docstring names every hyper-parameter.

    `zslearn.base.inherit_docs` adds those that base classes document.
    """
    cls = type(estimator)
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
    look = f"Decorate fit with zslearn._utils._validation.checks_parameters; look at the constraint of {name!r}."
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
