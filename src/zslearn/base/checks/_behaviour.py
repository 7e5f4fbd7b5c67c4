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
    TrainingData,
    fit,
    fitted,
    late_classes,
    new_class,
    new_names,
    problem,
    quiet,
    training_data,
    unused_rows,
)
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.signatures._views import MultiSignatures


def check_repeatable(estimator: Any) -> None:
    """A second fit gives the same scores, to 1e-12 of the largest.

    Chance comes from `random_state` alone, whose default is a number.
    """
    expect = Expect(estimator, "Draw random numbers from check_random_state(self.random_state).")
    again = fit(clone(estimator), training_data()).decision_function(unused_rows())
    first = fitted(estimator).decision_function(unused_rows())
    expect.close(again, first, "the scores of a second fit", REPEATED)


def check_better_than_chance(estimator: Any) -> None:
    """On an easy problem, unseen and seen classes are recognised more often than by guessing.

    A sign that is wrong somewhere passes every other check.
    """
    look = "Look at the signs of the scores, and whether embed and synthesize lead to one space."
    model, data, expect = fitted(estimator), problem(), Expect(estimator, look)
    for kind, X, y, classes, factor in (
        ("unseen", data.X_test_unseen, data.y_test_unseen, data.unseen_classes, 1.5),
        ("seen", data.X_test_seen, data.y_test_seen, data.seen_classes, 3.0),
    ):
        accuracy = model.score(X, y, classes=classes)
        what = f"the accuracy among {len(classes)} {kind} classes is {accuracy:.3f}"
        expect.that(accuracy > factor / len(classes), what)


def check_candidates(estimator: Any) -> None:
    """`classes` chooses columns of the scores, and what `predict` may name.

    Scores of a class do not depend on which others are candidates, nor does a prediction on the
    order in which they are named.
    """
    expect = Expect(estimator, "Leave decision_function and predict to the base class.")
    model, X = fitted(estimator), unused_rows()
    positions = [7, 0, 11]
    chosen = model.classes_[positions]
    scores = model.decision_function(X, classes=chosen)
    full = model.decision_function(X)[:, positions]
    expect.close(scores, full, "the scores of three candidates")
    predicted = model.predict(X, classes=chosen)
    outside = sorted(set(predicted.tolist()) - set(chosen.tolist()))
    expect.that(not outside, f"{outside} are named and no candidates")
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > ROUNDING * np.abs(scores).max()
    best = chosen[np.argmax(scores, axis=1)]
    expect.equal(predicted[clear], best[clear], "the best of three candidates")
    again = model.predict(X, classes=chosen[::-1])
    what = "what is predicted with the candidates in the opposite order"
    expect.same_choice(again, predicted, model, what)


def check_top_k(estimator: Any) -> None:
    """`predict_top_k` names the classes with the highest scores, best first, each once.

    It never makes the matrix of all scores, and must agree with it.
    """
    look = "Leave predict_top_k to the base class; embed must treat each row by itself."
    model, X, expect = fitted(estimator), unused_rows(), Expect(estimator, look)
    labels, scores = model.predict_top_k(X, k=3)
    best = -np.sort(-model.decision_function(X), axis=1)[:, :3]
    expect.close(scores, best, "the three best scores")
    expect.same_choice(labels[:, 0], model.predict(X), model, "the first of the best")
    if hasattr(model, "predict_proba"):
        chances = -np.sort(-model.predict_proba(X), axis=1)[:, :3]
        again, best = model.predict_top_k(X, k=3, proba=True)
        expect.same_choice(again, labels, model, "the best classes with proba=True")
        expect.close(best, chances, "the three largest probabilities")
    twice = [row for row in labels.tolist() if len(set(row)) < 3]
    expect.that(not twice, f"a class is named twice for a sample: {twice[:1]}")


def check_float32(estimator: Any) -> None:
    """Features in single precision give scores in single precision that agree with those of double.

    Features are often stored so; a method that turns them into float64 doubles its memory.
    """
    look = "Make arrays in embed and synthesize in the dtype of X; sum in double precision."
    expect = Expect(estimator, look)
    double = fitted(estimator).decision_function(unused_rows())
    single = fitted(estimator, "float32").decision_function(unused_rows().astype(np.float32))
    expect.that(single.dtype == np.float32, f"features of float32 give scores of {single.dtype}")
    expect.close(single, double, "the scores of float32", 2e-3)


def check_small_blocks(estimator: Any) -> None:
    """Little memory gives the same: rows are taken in blocks, also from a file.

    Predictions are the same where rounding does not decide them; a model that is fitted in blocks
    may differ by rounding.
    """
    look = "embed must treat each row by itself; look at what _fit does with blocks of rows."
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
    expect.same_choice(predicted, model.predict(X), model, "what is predicted block by block")
    what = "the scores of a model that is fitted block by block"
    expect.close(scores, model.decision_function(X), what, SOLVER_TOLERANCE)


def check_pickling(estimator: Any) -> None:
    """A pickled model predicts the same, and classes can be added to it alone.

    Models travel to the processes of a search, and to disk.
    """
    look = "Keep nothing that cannot be pickled: no lambda, open file or generator."
    model, X, expect = fitted(estimator), unused_rows(), Expect(estimator, look)
    try:
        again = pickle.loads(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        expect.fail(f"the model cannot be pickled: {error}")
    scores = again.decision_function(X)
    expect.close(scores, model.decision_function(X), "the scores after pickling", REPEATED)
    with quiet():
        again.add_classes(new_class())
    expect.that("zz-new" in again.classes_, "add_classes after pickling adds none")
    expect.that("zz-new" not in model.classes_, "the copy shares its classes")


def check_n_jobs(estimator: Any) -> None:
    """`n_jobs` changes how long it takes, and no number.

    Else results could not be compared between machines.
    """
    if "n_jobs" not in estimator.get_params(deep=False):
        raise SkipTest("has no n_jobs")
    expect = Expect(estimator, "Cut the work into pieces that do not depend on n_jobs.")
    one, two = (fitted(estimator, n_jobs=n).decision_function(unused_rows()) for n in (1, 2))
    expect.close(two, one, "the scores with n_jobs=2, compared with n_jobs=1,", REPEATED)


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
    look = (
        "Take functions from array_api_compat.array_namespace(X), bring arrays to X with "
        "zslearn.base.move_like and to NumPy with zslearn.base.to_numpy."
    )
    expect, rows, data = Expect(estimator, look), unused_rows(), training_data()
    foreign = xp.asarray(unused_rows())
    numpys = fitted(estimator)
    model = fit(clone(estimator), data._replace(X=xp.asarray(data.X)))
    scores, expected = model.decision_function(foreign), numpys.decision_function(rows)
    kinds = type(foreign).__name__, type(scores).__name__
    expect.that(type(scores) is type(foreign), f"X of {kinds[0]} gives scores of {kinds[1]}")
    expect.close(scores, expected, f"the scores with {library}", 1e-6)
    what, predicted = f"what is predicted with {library}", model.predict(foreign)
    expect.same_choice(predicted, numpys.predict(rows), numpys, what, 1e-6)
    what = f"the scores of NumPy's rows by a model fitted with {library}"
    expect.close(model.decision_function(rows), expected, what, 1e-6)


# What describing classes may change, and what not.


def check_attributes_name_every_class(estimator: Any) -> None:
    """`classes_`, `seen_classes_`, `unseen_classes_` and `n_features_in_` say what was given.

    A user chooses candidates by them, and wrappers tell seen classes from unseen ones.
    """
    expect = Expect(estimator, "Leave these attributes to the base class.")
    model, data = fitted(estimator), problem()
    expect.equal(model.classes_, np.sort(data.signatures.index), "classes_")
    expect.equal(model.seen_classes_, np.sort(data.seen_classes), "seen_classes_")
    expect.equal(model.unseen_classes_, np.sort(data.unseen_classes), "unseen_classes_")
    width = data.X_train.shape[1]
    what = f"n_features_in_ is {model.n_features_in_}, and X has {width} columns"
    expect.that(model.n_features_in_ == width, what)


def check_order_of_classes(estimator: Any) -> None:
    """Signatures in another order give the same scores, to 1e-12 of the largest.

    Rows of a table have no order that means something; columns of scores follow `classes_`.
    """
    expect = Expect(estimator, "Find classes by their label, not by their row in a user's table.")
    first = fitted(estimator).decision_function(unused_rows())
    again = fitted(estimator, "shuffled").decision_function(unused_rows())
    expect.close(again, first, "the scores after shuffling the rows of signatures", REPEATED)


def check_renamed_labels(estimator: Any) -> None:
    """Other names for the classes, in the same order, rename the predictions and change nothing.

    A label is a name: nothing may be learned from it.
    """
    expect = Expect(estimator, "Work with positions of classes, training.y; labels are names only.")
    model = fitted(estimator, "renamed")
    first = fitted(estimator).predict(unused_rows())
    again = model.predict(unused_rows())
    renamed = np.asarray([new_names()[label] for label in first.tolist()])
    expect.same_choice(again, renamed, model, "what is predicted with numbers in place of names")


def check_unused_class(estimator: Any) -> None:
    """Describing fewer classes at `fit` leaves the scores of all others as they are.

    Unseen classes may come and go; the model is learned from the seen ones. With
    `signature_scale="all"` each described class counts by intention.
    """
    _skip_if_scaled_by_all(estimator)
    look = "Learn from training.signatures, the seen ones; synthesize each class by itself."
    kept = training_data("without late classes").signatures.index.to_numpy()
    first = fitted(estimator).decision_function(unused_rows(), classes=kept)
    model = fitted(estimator, "without late classes")
    scores = model.decision_function(unused_rows(), classes=kept)
    what = "the scores of the other classes, once some unseen ones are not described"
    Expect(estimator, look).close(scores, first, what)


def check_classes_are_independent(estimator: Any) -> None:
    """With `synthesizes_independently`, scores of a class do not depend on the other classes.

    A search then synthesizes the held-out classes of a fold alone, without the training classes.
    """
    if not getattr(estimator, "synthesizes_independently", False):
        raise SkipTest(
            "synthesizes_independently is False: all classes are always synthesized together"
        )
    look = (
        "synthesize must build each class from its own signature alone; otherwise do not set "
        "synthesizes_independently."
    )
    expect, data = Expect(estimator, look), training_data()
    some = fitted(estimator).unseen_classes_
    expected = fitted(estimator).decision_function(unused_rows(), classes=some)
    with quiet():
        grid = clone(estimator).fit_grid(
            data.X, data.y, signatures=data.signatures, settings=[{}], classes=some
        )
        ((_, model),) = list(grid)
    expect.equal(model.classes_, some, "classes_")
    scores = model.decision_function(unused_rows(), classes=some)
    expect.close(scores, expected, "the scores of the classes, once no others are described")


def check_described_later(estimator: Any) -> None:
    """A class that `add_classes` describes is as if it had been described at `fit`.

    Scores agree to 1e-12 of the largest: they must not depend on when a class was described.
    """
    _skip_if_scaled_by_all(estimator)
    look = "Keep what is learned apart from what is described; synthesize all classes together."
    expect, whole = Expect(estimator, look), fitted(estimator)
    model = copy.deepcopy(fitted(estimator, "without late classes"))
    with quiet():
        returned = model.add_classes(problem().signatures.loc[late_classes()])
    expect.that(returned is model, "add_classes does not return the estimator")
    expect.equal(model.classes_, whole.classes_, "classes_ after add_classes")
    later, at_fit = (m.decision_function(unused_rows()) for m in (model, whole))
    what = "the scores after add_classes, compared with describing all classes at fit,"
    expect.close(later, at_fit, what, REPEATED)


def check_described_by_name(estimator: Any) -> None:
    """Classes are described by attribute, or like another one, and forgotten again.

    Values by name give what rows give, and a class that is removed leaves nothing behind; one with
    training images is refused, and the model stays as it was.
    """
    _skip_if_scaled_by_all(estimator)
    look = "Leave add_classes and remove_classes to the base; override _remove where more is kept."
    expect, whole, table = Expect(estimator, look), fitted(estimator), problem().signatures
    model, late = copy.deepcopy(fitted(estimator, "without late classes")), late_classes()
    like, first = model.seen_classes_[0], table.columns[0]
    with quiet():
        model.add_classes({name: dict(table.loc[name].iloc[::-1]) for name in late})
        model.add_classes({"zz-like": {first: table.loc[late[0], first]}}, like=like)
    (row,) = model.signature_table_.arrays[0][model.classes_ == "zz-like"]
    expected = [table.loc[late[0], first], *table.loc[like].iloc[1:]]
    expect.equal(row, np.asarray(expected), "the signature of a class like another one")
    with quiet():
        returned = model.remove_classes(["zz-like"])
    expect.that(returned is model, "remove_classes does not return the estimator")
    expect.equal(model.classes_, whole.classes_, "classes_ after remove_classes")
    before = model.decision_function(unused_rows())
    what = "the scores of classes described by name, once another class was removed,"
    expect.close(before, whole.decision_function(unused_rows()), what, REPEATED)
    try:
        model.remove_classes([like])
    except ValueError:
        after = model.decision_function(unused_rows())
        expect.close(after, before, "the scores after a refusal", REPEATED)
    else:
        expect.fail("remove_classes removes a class with training images")


def check_several_views(estimator: Any) -> None:
    """Two kinds of signatures are accepted, together and for a class described later.

    A method receives them joined to one vector per class, or apart where it says
    `keep_views = True`.
    """
    look = "With keep_views = True, synthesize must handle SignatureViews; without, arrays only."
    frame, late, data = problem().signatures, late_classes(), training_data()

    def views(rows: Any) -> MultiSignatures:
        return MultiSignatures({"front": rows.iloc[:, :5], "back": rows.iloc[:, 5:]})

    model = fit(clone(estimator), data._replace(signatures=views(frame.drop(index=late))))
    with quiet():
        model.add_classes(views(frame.loc[late]))
    scores = model.decision_function(unused_rows())
    Expect(estimator, look).that(
        np.isfinite(scores).all() and scores.shape[1] == len(frame),
        f"MultiSignatures lead to scores of shape {scores.shape} that are not all finite numbers",
    )


def _skip_if_scaled_by_all(estimator: Any) -> None:
    for name, value in estimator.get_params(deep=True).items():
        if name.split("__")[-1] == "signature_scale" and isinstance(value, str) and value == "all":
            raise SkipTest('with signature_scale="all" every class described at fit counts')


def check_saving(estimator: Any) -> None:
    """A model that `zslearn.save` wrote and `zslearn.load` read gives the same scores.

    They agree to 1e-12 of the largest, and so do probabilities, where there are any, also after
    classes are added. A class from outside the library is registered first, as its users do.
    """
    look = (
        "Keep what fit learns in attributes that are numbers, texts, arrays, lists, dicts or "
        "estimators; call zslearn.persistence.register with other classes that you keep."
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
    added = copy.deepcopy(model)
    with quiet():
        added.add_classes(new_class())
        again.add_classes(new_class())
    _expect_same_model(expect, again, added, "after saving and add_classes")


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
    for what, named, before in (
        ("what is predicted", again.predict(X), model.predict(X)),
        ("what predict_top_k names", labels, known),
    ):
        expect.same_choice(named, before, model, f"{what} {when}", REPEATED)


# Parameters, documentation, errors, and what a fit leaves.


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
    n_passed = sum(r["status"] == "passed" for r in results)
    expect = Expect(estimator, "Look at its tags: what they rule out is not checked.")
    expect.that(n_passed > 30, f"only {n_passed} of scikit-learn's checks ran")


def check_documentation(estimator: Any) -> None:
    """The docstring names every hyper-parameter.

    `zslearn.base.inherit_docs` adds those that base classes document.
    """
    expect = Expect(estimator, 'Add a line "name : type, default=…" to its section Parameters.')
    doc = inspect.getdoc(type(estimator)) or ""
    for name in estimator.get_params(deep=False):
        named = re.search(rf"^(\w+, )*{name}(, \w+)* :", doc, re.M)
        expect.that(named, f"the docstring says nothing of the hyper-parameter {name!r}")


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
    cls = type(estimator)
    look = f"Look at {cls.__name__}._parameter_constraints, and decorate fit as the base does."
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
                named = name in str(error) and cls.__name__ in str(error)
                expect.that(named, f"{what} is refused without names: {error}")
            else:
                expect.fail(f"{what} is accepted")


def check_error_leaves_the_model(estimator: Any) -> None:
    """A `fit` that ends with an error leaves a fitted estimator as it was.

    Whatever the reason: labels that are too few, a class without signature, one class only,
    parameters that cannot be made. A service whose nightly fit fails goes on with the old model.
    """
    expect = Expect(estimator, "Change attributes only when all that can fail is done.")
    model = copy.deepcopy(fitted(estimator))
    before, expected = _state(model), model.decision_function(unused_rows())
    data, seen = training_data(), problem().seen_classes
    lacking = data.signatures.drop(index=seen[0])

    def fail_to_fit(what: str, wrong: TrainingData) -> None:
        try:
            fit(model, wrong)
        except (TypeError, ValueError):
            _expect_state(expect, model, before, what)
        else:
            expect.fail(f"fit succeeds although {what}")

    fail_to_fit("y is too short", data._replace(y=data.y[:-1]))
    fail_to_fit("a seen class has no signature", data._replace(signatures=lacking))
    fail_to_fit("y holds one class", data._replace(y=np.repeat(seen[:1], len(data.y))))
    wrong = data._replace(X=data.X[:, 1:], signatures=lacking)
    fail_to_fit("X has other columns, and a seen class no signature", wrong)
    innermost = estimator
    while hasattr(innermost, "estimator") and not hasattr(innermost, "synthesize"):
        innermost = innermost.estimator
    with patch.object(type(innermost), "synthesize", _refuse_to_synthesize):
        fail_to_fit("synthesize fails", data._replace(X=data.X[::-1] * 2.0))
    scores = model.decision_function(unused_rows())
    expect.close(scores, expected, "the scores after fits that failed", REPEATED)


def _refuse_to_synthesize(self: Any, *args: Any, **options: Any) -> Any:
    raise ValueError("refused on purpose, at the end of fit")


def _state(model: Any) -> dict[str, str]:
    """A digest of every attribute."""
    return {name: joblib.hash(value) for name, value in model.__getstate__().items()}


def _expect_state(expect: Expect, model: Any, before: dict[str, str], what: str) -> None:
    after = _state(model)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    expect.that(
        not changed, f"{what}, and these attributes are not as before: {', '.join(changed)}"
    )


def check_predicting_changes_nothing(estimator: Any) -> None:
    """Predicting writes to no attribute and not to X: `embed` and `synthesize` are pure.

    Threads predict with one model at the same time, and a search keeps rows that it has embedded.
    """
    expect = Expect(estimator, "embed and synthesize read attributes, and write to none or to X.")
    model, X = copy.deepcopy(fitted(estimator)), unused_rows()
    before = _state(model)
    model.predict(X)
    model.decision_function(X, classes=model.unseen_classes_)
    model.predict_top_k(X, 3)
    _expect_state(expect, model, before, "after predicting")
    expect.equal(X, unused_rows(), "X after predicting")
    with quiet():
        model.add_classes(new_class())
    after = _state(model)
    learned = {name for name in before if name.endswith("_")} - {"estimator_"}
    changed = sorted(name for name in learned & after.keys() if after[name] != before[name])
    expect.that(not changed, f"describing a class changes what was learned: {', '.join(changed)}")
