"""Checks over every estimator: scikit-learn's, and what a zero-shot estimator must do besides."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from estimators import (
    EXPECTED_FAILURES,
    all_estimators,
    expected_failed_checks,
    instances,
)

every_estimator = pytest.mark.parametrize("estimator", instances())


@every_estimator
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            estimator,
            expected_failed_checks=expected_failed_checks(estimator),
            on_skip=None,
            on_fail=None,
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40


def test_every_expected_failure_is_of_an_estimator():
    assert set(EXPECTED_FAILURES) <= set(all_estimators())


def _fit(estimator, problem, **changes):
    given = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    given.update(changes)
    return clone(estimator).fit(given["X"], given["y"], signatures=given["signatures"])


def _all_rows(problem):
    return np.concatenate([problem.X_test_seen, problem.X_test_unseen])


@every_estimator
def test_attributes_name_every_class(estimator, problem):
    model = _fit(estimator, problem)
    np.testing.assert_array_equal(model.classes_, np.sort(problem.signatures.index))
    np.testing.assert_array_equal(model.seen_classes_, np.sort(problem.seen_classes))
    np.testing.assert_array_equal(model.unseen_classes_, np.sort(problem.unseen_classes))
    assert model.n_features_in_ == problem.X_train.shape[1]


@every_estimator
def test_better_than_chance(estimator, problem):
    model = _fit(estimator, problem)
    unseen = problem.unseen_classes
    accuracy = model.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen)
    assert accuracy > 1.5 / len(unseen)
    seen = problem.seen_classes
    accuracy = model.score(problem.X_test_seen, problem.y_test_seen, classes=seen)
    assert accuracy > 3 / len(seen)


@every_estimator
def test_permuting_class_order_changes_nothing(estimator, problem):
    rng = np.random.default_rng(0)
    shuffled = problem.signatures.iloc[rng.permutation(len(problem.signatures))]
    X = _all_rows(problem)
    first = _fit(estimator, problem).decision_function(X)
    again = _fit(estimator, problem, signatures=shuffled).decision_function(X)
    np.testing.assert_array_equal(first, again)


@every_estimator
def test_renaming_labels_renames_predictions(estimator, problem):
    # The new names sort in the same order, so that even random choices are the same.
    old = np.sort(problem.signatures.index)
    new = {label: i * 3 + 7 for i, label in enumerate(old)}
    renamed = problem.signatures.rename(index=new)
    X = _all_rows(problem)
    first = _fit(estimator, problem).predict(X)
    y = np.asarray([new[label] for label in problem.y_train])
    again = _fit(estimator, problem, y=y, signatures=renamed).predict(X)
    np.testing.assert_array_equal([new[label] for label in first], again)


@every_estimator
def test_an_unused_class_changes_no_other_score(estimator, problem):
    if getattr(estimator, "signature_scale", "seen") == "all":
        pytest.skip("with signature_scale='all' every described class counts")
    fewer = problem.signatures.drop(index=problem.unseen_classes[0])
    X = _all_rows(problem)
    kept = fewer.index.to_numpy()
    first = _fit(estimator, problem).decision_function(X, classes=kept)
    again = _fit(estimator, problem, signatures=fewer).decision_function(X, classes=kept)
    np.testing.assert_allclose(first, again, rtol=1e-9, atol=1e-11)


@every_estimator
def test_restricting_candidates(estimator, problem):
    model = _fit(estimator, problem)
    X = _all_rows(problem)
    chosen = model.classes_[[7, 0, 11]]
    scores = model.decision_function(X, classes=chosen)
    full = model.decision_function(X)
    np.testing.assert_allclose(scores, full[:, [7, 0, 11]], rtol=1e-9, atol=1e-11)
    predicted = model.predict(X, classes=chosen)
    assert set(predicted) <= set(chosen)
    best = chosen[np.argmax(scores, axis=1)]
    margin = np.sort(scores, axis=1)
    clear = margin[:, -1] - margin[:, -2] > 1e-9
    np.testing.assert_array_equal(predicted[clear], best[clear])
    np.testing.assert_array_equal(predicted, model.predict(X, classes=chosen[::-1]))


@every_estimator
def test_describing_a_class_later_equals_describing_it_at_fit(estimator, problem):
    if getattr(estimator, "signature_scale", "seen") == "all":
        pytest.skip("with signature_scale='all' every class described at fit counts")
    X = _all_rows(problem)
    whole = _fit(estimator, problem)
    late = problem.unseen_classes[::2]
    model = _fit(estimator, problem, signatures=problem.signatures.drop(index=late))
    assert model.add_classes(problem.signatures.loc[late]) is model
    np.testing.assert_array_equal(model.classes_, whole.classes_)
    np.testing.assert_array_equal(model.decision_function(X), whole.decision_function(X))


@every_estimator
def test_top_k_agrees_with_the_matrix(estimator, problem):
    model = _fit(estimator, problem)
    X = _all_rows(problem)
    labels, scores = model.predict_top_k(X, k=3)
    full = model.decision_function(X)
    np.testing.assert_allclose(scores, -np.sort(-full, axis=1)[:, :3], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X))
    assert all(len(set(row)) == 3 for row in labels)


@every_estimator
def test_float32_agrees_with_float64(estimator, problem):
    X = _all_rows(problem)
    double = _fit(estimator, problem).decision_function(X)
    single = _fit(estimator, problem, X=problem.X_train.astype(np.float32))
    single = single.decision_function(X.astype(np.float32))
    assert single.dtype == np.float32
    scale = np.abs(double).max()
    np.testing.assert_allclose(single, double, atol=2e-3 * scale)


@every_estimator
def test_n_jobs_changes_nothing(estimator, problem):
    if "n_jobs" not in estimator.get_params():
        pytest.skip("has no n_jobs")
    X = _all_rows(problem)
    one = _fit(clone(estimator).set_params(n_jobs=1), problem).decision_function(X)
    two = _fit(clone(estimator).set_params(n_jobs=2), problem).decision_function(X)
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


@every_estimator
def test_pickling(estimator, problem):
    model = _fit(estimator, problem)
    copy = pickle.loads(pickle.dumps(model))
    X = _all_rows(problem)
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    new = pd.DataFrame([problem.signatures.iloc[0]], index=["zz-new"])
    assert "zz-new" in copy.add_classes(new).classes_
    assert "zz-new" not in model.classes_


@every_estimator
def test_repeatable(estimator, problem):
    X = _all_rows(problem)
    first = _fit(estimator, problem).decision_function(X)
    np.testing.assert_array_equal(first, _fit(estimator, problem).decision_function(X))


@every_estimator
def test_wide_and_memory_mapped_rows_give_the_same(estimator, problem, tmp_path, monkeypatch):
    model = _fit(estimator, problem)
    X = _all_rows(problem)
    whole = model.predict(X)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("zslearn.scoring._BLOCK_BYTES", 20_000)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(model.predict(mapped), whole)


@every_estimator
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_arrays_of_other_libraries(estimator, problem, library):
    xp = pytest.importorskip(library)
    X = _all_rows(problem)
    expected = _fit(estimator, problem)
    model = _fit(estimator, problem, X=xp.asarray(problem.X_train))
    scores = model.decision_function(xp.asarray(X))
    assert type(scores) is type(xp.asarray(X))
    np.testing.assert_allclose(
        np.asarray(scores), expected.decision_function(X), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_array_equal(model.predict(xp.asarray(X)), expected.predict(X))
    # Fitted on one library, asked with another.
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(X), rtol=1e-6, atol=1e-8
    )
