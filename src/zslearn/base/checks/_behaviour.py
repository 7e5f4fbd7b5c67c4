"""Checks of one estimator: predictions, descriptions, files, parameters, errors."""

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
from zslearn.base.checks._problem import (
    REPEATED,
    ROUNDING,
    SOLVER_TOLERANCE,
    Expect,
    add_class,
    fit,
    fitted,
    late_classes,
    new_names,
    problem,
    quiet,
    scores_of,
    training_data,
    unused_rows,
)
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.signatures._views import MultiSignatures


def check_repeatable(estimator: Any) -> None:
    """A second fit gives the same scores: randomness comes from `random_state` alone."""
    expect = Expect(estimator, "Draw random numbers from check_random_state(self.random_state).")
    again = scores_of(fit(clone(estimator), training_data()))
    expect.close(again, scores_of(fitted(estimator)), "the scores of a second fit", REPEATED)


def check_better_than_chance(estimator: Any) -> None:
    """Accuracies on an easy problem are above chance; a wrong sign passes all other checks."""
    look = "Check the signs of the scores, and whether embed and synthesize share one space."
    model, data, expect = fitted(estimator), problem(), Expect(estimator, look)
    for kind, X, y, classes, factor in (
        ("unseen", data.X_test_unseen, data.y_test_unseen, data.unseen_classes, 1.5),
        ("seen", data.X_test_seen, data.y_test_seen, data.seen_classes, 3.0),
    ):
        accuracy = model.score(X, y, classes=classes)
        what = f"the accuracy among {len(classes)} {kind} classes is {accuracy:.3f}"
        expect.that(accuracy > factor / len(classes), what)


def check_candidates(estimator: Any) -> None:
    """`classes` selects columns of the scores and restricts predictions.

    The score of a class does not depend on the other candidates, nor a prediction on their order.
    """
    expect = Expect(estimator, "Leave decision_function and predict to the base class.")
    model, X, positions = fitted(estimator), unused_rows(), [7, 0, 11]
    chosen = model.classes_[positions]
    scores = model.decision_function(X, classes=chosen)
    expect.close(scores, scores_of(model)[:, positions], "the scores of three candidates")
    predicted = model.predict(X, classes=chosen)
    outside = sorted(set(predicted.tolist()) - set(chosen.tolist()))
    expect.that(not outside, f"{outside} are predicted, but are no candidates")
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > ROUNDING * np.abs(scores).max()
    best = chosen[np.argmax(scores, axis=1)]
    expect.equal(predicted[clear], best[clear], "the best of three candidates")
    again = model.predict(X, classes=chosen[::-1])
    expect.same_choice(again, predicted, model, "the prediction with reversed candidates")


def check_top_k(estimator: Any) -> None:
    """`predict_top_k` returns distinct classes with the highest scores, best first."""
    look = "Leave predict_top_k to the base class; embed must process each row independently."
    model, X, expect = fitted(estimator), unused_rows(), Expect(estimator, look)
    labels, scores = model.predict_top_k(X, k=3)
    expect.close(scores, -np.sort(-scores_of(model), axis=1)[:, :3], "the three best scores")
    expect.same_choice(labels[:, 0], model.predict(X), model, "the first of the best classes")
    if hasattr(model, "predict_proba"):
        largest = -np.sort(-model.predict_proba(X), axis=1)[:, :3]
        again, probabilities = model.predict_top_k(X, k=3, proba=True)
        expect.same_choice(again, labels, model, "the best classes with proba=True")
        expect.close(probabilities, largest, "the three largest probabilities")
    twice = [row for row in labels.tolist() if len(set(row)) < 3]
    expect.that(not twice, f"a class is returned twice for a sample: {twice[:1]}")


def check_float32(estimator: Any) -> None:
    """Features in single precision give scores in single precision, close to those of double."""
    look = "Create arrays in embed and synthesize in the dtype of X; sum in double precision."
    expect = Expect(estimator, look)
    single = fitted(estimator, "float32").decision_function(unused_rows().astype(np.float32))
    expect.that(single.dtype == np.float32, f"features of float32 give scores of {single.dtype}")
    expect.close(single, scores_of(fitted(estimator)), "the scores of float32", 2e-3)


def check_small_blocks(estimator: Any) -> None:
    """Fitting and predicting in small blocks of memory-mapped rows give the same result."""
    look = "embed must process each row independently; check how _fit processes blocks of rows."
    model, X, expect = fitted(estimator), unused_rows(), Expect(estimator, look)
    data = training_data()
    with tempfile.TemporaryDirectory() as folder:
        mapped = []
        for name, rows in (("train", data.X), ("test", X)):
            np.save(Path(folder, f"{name}.npy"), rows)
            mapped.append(np.load(Path(folder, f"{name}.npy"), mmap_mode="r"))
        with patch("zslearn._utils._array.BLOCK_BYTES", 20_000):
            predicted = model.predict(mapped[1])
            in_blocks = fit(clone(estimator), data._replace(X=mapped[0]))
            scores = in_blocks.decision_function(mapped[1])
        del mapped, rows
    expect.same_choice(predicted, model.predict(X), model, "the prediction block by block")
    what = "the scores of a model that is fitted block by block"
    expect.close(scores, scores_of(model), what, SOLVER_TOLERANCE)


def check_pickling(estimator: Any) -> None:
    """A pickled model predicts the same, and classes can be added to it independently."""
    look = "Store nothing that cannot be pickled: no lambda, open file or generator."
    model, expect = fitted(estimator), Expect(estimator, look)
    try:
        again = pickle.loads(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        expect.fail(f"the model cannot be pickled: {error}")
    expect.close(scores_of(again), scores_of(model), "the scores after pickling", REPEATED)
    expect.that("zz-new" in add_class(again).classes_, "add_classes has no effect after pickling")
    expect.that("zz-new" not in model.classes_, "the copy shares its classes")


def check_n_jobs(estimator: Any) -> None:
    """`n_jobs` does not change results, so that they are the same on every machine."""
    if "n_jobs" not in estimator.get_params(deep=False):
        raise SkipTest("has no n_jobs")
    expect = Expect(estimator, "Split the work into pieces that do not depend on n_jobs.")
    one, two = (scores_of(fitted(estimator, n_jobs=n)) for n in (1, 2))
    expect.close(two, one, "the scores with n_jobs=2, compared with n_jobs=1,", REPEATED)


def check_torch(estimator: Any) -> None:
    """Tensors of torch give tensors, with the numbers of NumPy; skipped without torch."""
    _check_library(estimator, "torch")


def check_array_api_strict(estimator: Any) -> None:
    """Other arrays need only the functions of the array API standard, which this package has."""
    _check_library(estimator, "array_api_strict")


def _check_library(estimator: Any, library: str) -> None:
    try:
        xp = importlib.import_module(library)
    except ImportError as error:
        raise SkipTest(f"needs {library}") from error
    look = (
        "Get functions from array_api_compat.array_namespace(X), move arrays to the device of X "
        "with zslearn.base.move_like, and convert to NumPy with zslearn.base.to_numpy."
    )
    expect, data, known = Expect(estimator, look), training_data(), fitted(estimator)
    foreign = xp.asarray(unused_rows())
    model = fit(clone(estimator), data._replace(X=xp.asarray(data.X)))
    scores, expected = model.decision_function(foreign), scores_of(known)
    kinds = type(foreign).__name__, type(scores).__name__
    expect.that(type(scores) is type(foreign), f"X of {kinds[0]} gives scores of {kinds[1]}")
    expect.close(scores, expected, f"the scores with {library}", 1e-6)
    what, predicted = f"the prediction with {library}", known.predict(unused_rows())
    expect.same_choice(model.predict(foreign), predicted, known, what, 1e-6)
    what = f"the scores of NumPy's rows by a model fitted with {library}"
    expect.close(scores_of(model), expected, what, 1e-6)


# Effects of describing classes.


def check_attributes_name_every_class(estimator: Any) -> None:
    """`classes_`, `seen_classes_`, `unseen_classes_` and `n_features_in_` follow the input."""
    expect = Expect(estimator, "Leave these attributes to the base class.")
    model, data = fitted(estimator), problem()
    expect.equal(model.classes_, np.sort(data.signatures.index), "classes_")
    expect.equal(model.seen_classes_, np.sort(data.seen_classes), "seen_classes_")
    expect.equal(model.unseen_classes_, np.sort(data.unseen_classes), "unseen_classes_")
    width = data.X_train.shape[1]
    what = f"n_features_in_ is {model.n_features_in_}, and X has {width} columns"
    expect.that(model.n_features_in_ == width, what)


def check_order_of_classes(estimator: Any) -> None:
    """The order of the rows of signatures does not matter; columns of scores follow `classes_`."""
    expect = Expect(estimator, "Find classes by label, not by their row in the user's table.")
    again, first = scores_of(fitted(estimator, "shuffled")), scores_of(fitted(estimator))
    expect.close(again, first, "the scores after shuffling the rows of signatures", REPEATED)


def check_renamed_labels(estimator: Any) -> None:
    """Renaming the classes, in the same order, only renames the predictions."""
    expect = Expect(estimator, "Use positions of classes, training.y, instead of their labels.")
    model, first = fitted(estimator, "renamed"), fitted(estimator).predict(unused_rows())
    renamed = np.asarray([new_names()[label] for label in first.tolist()])
    again = model.predict(unused_rows())
    expect.same_choice(again, renamed, model, "the prediction with numbers in place of names")


def check_unused_class(estimator: Any) -> None:
    """Scores do not depend on which unseen classes are described at `fit`.

    Skipped with `signature_scale="all"`, by which every described class counts.
    """
    _skip_if_scaled_by_all(estimator)
    look = "Learn from training.signatures of seen classes; synthesize each class by itself."
    kept = training_data("without late classes").signatures.index.to_numpy()
    first, scores = (
        fitted(estimator, data).decision_function(unused_rows(), classes=kept)
        for data in ("", "without late classes")
    )
    what = "the scores of the other classes, once some unseen ones are not described"
    Expect(estimator, look).close(scores, first, what)


def check_classes_are_independent(estimator: Any) -> None:
    """With `synthesizes_independently`, the scores of a class do not depend on other classes.

    A search then synthesizes only the held-out classes of a fold.
    """
    if not getattr(estimator, "synthesizes_independently", False):
        raise SkipTest(
            "synthesizes_independently is False: all classes are always synthesized together"
        )
    look = (
        "synthesize must build each class from its own signature alone; otherwise do not set "
        "synthesizes_independently."
    )
    expect, data, some = Expect(estimator, look), training_data(), fitted(estimator).unseen_classes_
    options = {"signatures": data.signatures, "settings": [{}], "classes": some}
    with quiet():
        ((_, model),) = list(clone(estimator).fit_grid(data.X, data.y, **options))
    expect.equal(model.classes_, some, "classes_")
    scores, expected = (
        m.decision_function(unused_rows(), classes=some) for m in (model, fitted(estimator))
    )
    expect.close(scores, expected, "the scores of the classes, once no others are described")


def check_described_later(estimator: Any) -> None:
    """A class added by `add_classes` has the scores that it has if described at `fit`."""
    _skip_if_scaled_by_all(estimator)
    look = "Separate what is learned from what is described; synthesize all classes together."
    expect, whole = Expect(estimator, look), fitted(estimator)
    model = copy.deepcopy(fitted(estimator, "without late classes"))
    with quiet():
        returned = model.add_classes(problem().signatures.loc[late_classes()])
    expect.that(returned is model, "add_classes does not return the estimator")
    expect.equal(model.classes_, whole.classes_, "classes_ after add_classes")
    what = "the scores after add_classes, compared with describing all classes at fit,"
    expect.close(scores_of(model), scores_of(whole), what, REPEATED)


def check_described_by_name(estimator: Any) -> None:
    """Classes can be described by attribute or by a similar class, and removed again.

    Removing a class with training images is refused and changes nothing.
    """
    _skip_if_scaled_by_all(estimator)
    look = "Leave add_classes and remove_classes to the base; override _remove to remove more."
    expect, whole, table = Expect(estimator, look), fitted(estimator), problem().signatures
    model, late = copy.deepcopy(fitted(estimator, "without late classes")), late_classes()
    like, first = model.seen_classes_[0], table.columns[0]
    with quiet():
        model.add_classes({name: dict(table.loc[name].iloc[::-1]) for name in late})
        model.add_classes({"zz-like": {first: table.loc[late[0], first]}}, like=like)
    (row,) = model.signature_table_.arrays[0][model.classes_ == "zz-like"]
    expected = np.asarray([table.loc[late[0], first], *table.loc[like].iloc[1:]])
    expect.equal(row, expected, "the signature of a class like another one")
    with quiet():
        returned = model.remove_classes(["zz-like"])
    expect.that(returned is model, "remove_classes does not return the estimator")
    expect.equal(model.classes_, whole.classes_, "classes_ after remove_classes")
    before = scores_of(model)
    what = "the scores of classes described by name, once another class was removed,"
    expect.close(before, scores_of(whole), what, REPEATED)
    try:
        model.remove_classes([like])
    except ValueError:
        expect.close(scores_of(model), before, "the scores after a refusal", REPEATED)
    else:
        expect.fail("remove_classes removes a class with training images")


def check_several_views(estimator: Any) -> None:
    """Signatures with two views are accepted, at `fit` and for a class described later.

    The method receives one vector per class or, with `keep_views = True`, SignatureViews.
    """
    look = "With keep_views = True, synthesize must accept SignatureViews, otherwise arrays only."
    frame, late, data = problem().signatures, late_classes(), training_data()

    def views(rows: Any) -> MultiSignatures:
        return MultiSignatures({"front": rows.iloc[:, :5], "back": rows.iloc[:, 5:]})

    model = fit(clone(estimator), data._replace(signatures=views(frame.drop(index=late))))
    with quiet():
        model.add_classes(views(frame.loc[late]))
    scores = scores_of(model)
    what = f"MultiSignatures lead to scores of shape {scores.shape} that are not all finite"
    is_valid = np.isfinite(scores).all() and scores.shape[1] == len(frame)
    Expect(estimator, look).that(is_valid, what)


def _skip_if_scaled_by_all(estimator: Any) -> None:
    for name, value in estimator.get_params(deep=True).items():
        if name.split("__")[-1] == "signature_scale" and isinstance(value, str) and value == "all":
            raise SkipTest('with signature_scale="all" every class described at fit counts')


def check_saving(estimator: Any) -> None:
    """`zslearn.load` restores a model from `zslearn.save`, also if classes are added later.

    A class from outside the library is registered first, as its users do.
    """
    look = (
        "Store what fit learns in attributes that are numbers, strings, arrays, lists, dicts or "
        "estimators; pass other classes to zslearn.persistence.register."
    )
    expect, model = Expect(estimator, look), fitted(estimator)
    if not type(estimator).__module__.startswith("zslearn."):
        persistence.register(type(estimator))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.zsl")
        try:
            persistence.save(model, path)
            again = persistence.load(path)
        except (persistence.CannotSaveError, persistence.ModelFileError) as error:
            expect.fail(f"the model cannot be saved and loaded: {error}")
    expect.that(type(again) is type(model), f"a {type(again).__name__} is loaded")
    _expect_same_model(expect, again, model, "after saving")
    added = add_class(copy.deepcopy(model))
    _expect_same_model(expect, add_class(again), added, "after saving and add_classes")


def _expect_same_model(expect: Expect, again: Any, model: Any, when: str) -> None:
    X = unused_rows()
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        expect.equal(getattr(again, name), getattr(model, name), f"{name} {when}")
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            numbers = getattr(again, name)(X), getattr(model, name)(X)
            expect.close(*numbers, f"{name} {when}", REPEATED)
    (labels, scores), (known, expected) = again.predict_top_k(X, 3), model.predict_top_k(X, 3)
    expect.close(scores, expected, f"the scores of predict_top_k {when}", REPEATED)
    for name, found, before in (
        ("predict", again.predict(X), model.predict(X)),
        ("predict_top_k", labels, known),
    ):
        expect.same_choice(found, before, model, f"{name} {when}", REPEATED)


# Hyper-parameters, documentation, errors and side effects.


def check_scikit_learn(
    estimator: Any, expected_failed_checks: Mapping[str, str] | None = None
) -> None:
    """The checks of scikit-learn for classifiers pass when it is fitted without signatures."""
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
            f"See sklearn.utils.estimator_checks.{name}."
        ) from error
    n_passed = sum(r["status"] == "passed" for r in results)
    expect = Expect(estimator, "Look at its tags, which exclude checks.")
    expect.that(n_passed > 30, f"only {n_passed} of scikit-learn's checks ran")


def check_documentation(estimator: Any) -> None:
    """The docstring describes every hyper-parameter; `inherit_docs` adds those of base classes."""
    expect = Expect(estimator, 'Add a line "name : type, default=…" to its section Parameters.')
    doc = inspect.getdoc(type(estimator)) or ""
    for name in estimator.get_params(deep=False):
        is_described = re.search(rf"^(\w+, )*{name}(, \w+)* :", doc, re.M)
        expect.that(is_described, f"the docstring lacks the hyper-parameter {name!r}")


class _WrongType:
    """A value that no hyper-parameter accepts."""


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
    """`fit`, also in a search, refuses a wrong value and names the parameter and the class."""
    cls = type(estimator)
    look = f"See {cls.__name__}._parameter_constraints, and decorate fit as the base class does."
    expect = Expect(estimator, look)
    missing = sorted(set(estimator.get_params(deep=False)) ^ set(cls._parameter_constraints))
    expect.that(not missing, f"constraints and parameters differ in {missing}")
    for name, constraints in cls._parameter_constraints.items():
        if isinstance(constraints, str):
            continue  # "no_validation"
        wrong = {
            f"{name}={value!r}": clone(estimator).set_params(**{name: value})
            for value in _wrong_values(constraints)
        }
        grid = {name: [getattr(estimator, name), _WrongType()]}
        search = ZeroShotSearchCV(clone(estimator), grid, cv=2, error_score="raise")
        wrong[f"{name} of another type, in a search,"] = search
        for what, model in wrong.items():
            try:
                fit(model, training_data())
            except (TypeError, ValueError) as error:
                is_named = name in str(error) and cls.__name__ in str(error)
                expect.that(is_named, f"{what} is refused without names: {error}")
            else:
                expect.fail(f"{what} is accepted")


def check_error_leaves_the_model(estimator: Any) -> None:
    """A `fit` that raises an error leaves a fitted estimator unchanged.

    A service whose nightly fit fails continues with the old model.
    """
    expect = Expect(estimator, "Set attributes only after everything that can fail.")
    model = copy.deepcopy(fitted(estimator))
    before, expected = _state(model), scores_of(model)
    data, seen = training_data(), problem().seen_classes
    lacking = data.signatures.drop(index=seen[0])

    def fail_to_fit(what: str, **change: Any) -> None:
        try:
            fit(model, data._replace(**change))
        except (TypeError, ValueError):
            _expect_state(expect, model, before, what)
        else:
            expect.fail(f"fit succeeds although {what}")

    fail_to_fit("y is too short", y=data.y[:-1])
    fail_to_fit("a seen class has no signature", signatures=lacking)
    fail_to_fit("y has one class", y=np.repeat(seen[:1], len(data.y)))
    what = "X has other columns, and a seen class no signature"
    fail_to_fit(what, X=data.X[:, 1:], signatures=lacking)
    innermost = estimator
    while hasattr(innermost, "estimator") and not hasattr(innermost, "synthesize"):
        innermost = innermost.estimator
    with patch.object(type(innermost), "synthesize", _refuse_to_synthesize):
        fail_to_fit("synthesize fails", X=data.X[::-1] * 2.0)
    expect.close(scores_of(model), expected, "the scores after fits that failed", REPEATED)


def _refuse_to_synthesize(self: Any, *args: Any, **options: Any) -> Any:
    raise ValueError("refused on purpose, at the end of fit")


def _state(model: Any) -> dict[str, str]:
    """A digest of every attribute."""
    return {name: joblib.hash(value) for name, value in model.__getstate__().items()}


def _expect_state(expect: Expect, model: Any, before: dict[str, str], what: str) -> None:
    after = _state(model)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    expect.that(not changed, f"{what}, and these attributes have changed: {', '.join(changed)}")


def check_predicting_changes_nothing(estimator: Any) -> None:
    """Predictions change neither attributes nor X, since threads and searches share models."""
    expect = Expect(estimator, "embed and synthesize must not modify attributes or X.")
    model, X = copy.deepcopy(fitted(estimator)), unused_rows()
    before = _state(model)
    model.predict(X)
    model.decision_function(X, classes=model.unseen_classes_)
    model.predict_top_k(X, 3)
    _expect_state(expect, model, before, "after predicting")
    expect.equal(X, unused_rows(), "X after predicting")
    after = _state(add_class(model))
    learned = {name for name in before if name.endswith("_")} - {"estimator_"}
    changed = sorted(name for name in learned & after.keys() if after[name] != before[name])
    expect.that(not changed, f"describing a class changes what was learned: {', '.join(changed)}")
