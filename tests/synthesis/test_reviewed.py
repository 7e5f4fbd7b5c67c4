"""Regression tests for bugs that a review of SynC and EXEM found."""

from __future__ import annotations

import sys
import threading
import warnings

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import normalize

from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.baselines import ESZSL
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import MultiSignatures
from zslearn.solvers import multiclass_svm
from zslearn.synthesis import EXEM, SynC


@pytest.mark.parametrize("power", [-12, -16, -20])
@pytest.mark.slow
def test_classes_that_overlap_under_a_small_penalty(power):
    """A cold start ends at most 1 % above L-BFGS on subgradients."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 8
    X = rng.standard_normal((8, 12))[y] + 1.5 * rng.standard_normal((400, 12))
    X = normalize(X)
    alpha = 2.0**power

    def objective(flat):
        W = flat.reshape(8, 12)
        value, slope = loss_and_slope(X @ W.T, y, "crammer_singer", None)
        return value + alpha / 2 * np.sum(W * W), (slope.T @ X + alpha * W).ravel()

    start = 1e-3 * rng.standard_normal(8 * 12)
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).fun
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = multiclass_svm(X, y, alpha=alpha, loss="crammer_singer", random_state=0)
    assert ours.objective <= 1.01 * best


@pytest.mark.parametrize("order", [[None, "l2"], ["l2", None]], ids=str)
def test_a_search_over_how_the_inner_method_prepares_images(problem, order):
    X = problem.X_train * np.linspace(0.1, 10, len(problem.X_train))[:, None]
    model = EXEM(estimator=ESZSL(), feature_norm=None, n_components=10)
    grid = {"estimator__feature_norm": order}

    def accuracy(estimator, X, y, classes):
        return estimator.score(X, y, classes=classes)

    built_in, called = (
        ZeroShotSearchCV(model, grid, cv=3, scoring=scoring).fit(
            X, problem.y_train, signatures=problem.signatures
        )
        for scoring in ("accuracy", {"accuracy": accuracy})
    )
    np.testing.assert_allclose(
        built_in.cv_results_["mean_test_accuracy"], called.cv_results_["mean_test_accuracy"]
    )


def test_exemplars_asked_for_by_two_threads(problem):
    model = EXEM().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    parts = [problem.signatures.iloc[:8], problem.signatures.iloc[8:]]
    expected = [model.predict_exemplars(part) for part in parts]
    wrong = []

    def ask(i):
        for _ in range(300):
            if not np.array_equal(model.predict_exemplars(parts[i]), expected[i]):
                wrong.append(i)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(i,)) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_a_chunk_of_one_class_after_fit_is_no_model(problem):
    model = EXEM().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    rows = problem.y_train == problem.y_train[0]
    with pytest.warns(UserWarning, match="starts again from this batch"):
        model.partial_fit(
            problem.X_train[rows], problem.y_train[rows], signatures=problem.signatures
        )
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "exemplars_")
    for ask in (model.predict, model.predict_exemplars):
        with pytest.raises(NotFittedError):
            ask(problem.X_train)
    rest = ~rows
    model.partial_fit(problem.X_train[rest], problem.y_train[rest])
    whole = EXEM().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_unseen),
        whole.decision_function(problem.X_test_unseen),
        atol=1e-6,
    )


def test_one_named_view_in_chunks(problem):
    views = MultiSignatures({"a": problem.signatures})
    model = EXEM().partial_fit(problem.X_train[::2], problem.y_train[::2], signatures=views)
    model.partial_fit(problem.X_train[1::2], problem.y_train[1::2], signatures=views)
    new = MultiSignatures({"a": problem.signatures.iloc[:1].rename(index=str.upper) * 1.1})
    with pytest.warns(UserWarning, match="cannot be distinguished"):
        model.add_classes(new)


def test_exemplars_of_signatures_in_every_form(problem):
    frame = problem.signatures
    model = EXEM().fit(problem.X_train, problem.y_train, signatures=frame)
    expected = model.predict_exemplars(frame)
    table = pl.DataFrame({"class": list(frame.index)}).hstack(
        pl.DataFrame(frame.to_numpy(), schema=[str(name) for name in frame.columns])
    )
    np.testing.assert_array_equal(model.predict_exemplars(table), expected)
    views = MultiSignatures({"a": frame.iloc[::-1, :4], "b": frame.iloc[:, 4:]})
    model = EXEM().fit(problem.X_train, problem.y_train, signatures=views)
    # Rows follow the order of the first view.
    reverse = MultiSignatures({"a": frame.iloc[:, :4], "b": frame.iloc[:, 4:]})
    np.testing.assert_array_equal(
        model.predict_exemplars(views)[::-1], model.predict_exemplars(reverse)
    )
    with pytest.raises(NotFittedError):
        EXEM().predict_exemplars(frame.to_numpy())


def test_phantoms_of_equal_signatures_have_the_norm_of_all(problem):
    frame = problem.signatures.copy()
    few = frame.iloc[[0, 1, 2]].to_numpy()
    frame.iloc[:] = few[np.arange(len(frame)) % 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SynC(n_phantoms=6, random_state=0).fit(
            problem.X_train, problem.y_train, signatures=frame
        )
    norms = np.linalg.norm(model.phantoms_, axis=1)
    np.testing.assert_allclose(norms, norms[0])
    assert norms[0] > 0
