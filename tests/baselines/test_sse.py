from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.spatial.distance import cdist
from sklearn.preprocessing import normalize

from zslearn._solvers._simplex import project_to_simplex
from zslearn.base import InputWarning
from zslearn.baselines import SSE, _sse
from zslearn.baselines._sse import MarginObjective, alternate, responses
from zslearn.signatures import normalize_signatures
from zslearn.solvers import simplex_least_squares


def _fit(model, problem, **changes):
    data = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    return model.fit(**(data | changes))


def _objective(dtype=np.float64, n_samples=23, n_classes=4, n_features=6, alpha=0.02):
    """A small random problem with unsorted classes of different sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features)).astype(dtype)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_samples - n_classes)])
    y = rng.permutation(y)
    objective = MarginObjective(X, y, dtype=dtype)
    patterns = project_to_simplex(rng.normal(size=(n_classes, n_classes)))
    margins = cdist(*[rng.normal(size=(n_classes, 3))] * 2)
    objective.set_terms(patterns, margins, alpha)
    w, V = rng.normal(size=n_features), rng.normal(size=(n_classes, n_features))
    return objective, X / objective.scale, y, patterns, margins, w, V


def _by_loops(X, y, patterns, margins, alpha, w, V):
    """The objective, one constraint after another."""
    n_classes = len(V)

    def f(x, s):
        return sum(patterns[s, c] * sum(w * np.minimum(x, V[c])) for c in range(n_classes))

    total = 0.0
    for c in range(n_classes):
        scores = np.array([[f(x, s) for s in range(n_classes)] for x in X[y == c]])
        mean = scores.mean(axis=0)
        for s in range(n_classes):
            if s != c:
                total += 0.5 * max(0, margins[c, s] + mean[s] - mean[c]) ** 2
                short = np.maximum(0, margins[c, s] + scores[:, s] - scores[:, c])
                total += 0.5 * np.mean(short**2)
    penalty = 0.5 * alpha * np.sum(w**2)
    return total / (n_classes * (n_classes - 1)) + penalty


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_responses_by_a_loop(dtype):
    rng = np.random.default_rng(0)
    V, w = rng.normal(size=(3, 5)).astype(dtype), rng.normal(size=5).astype(dtype)
    for n_samples in (1, 3, 4, 9):
        X = rng.normal(size=(n_samples, 5)).astype(dtype)
        found = np.empty((n_samples, 3), dtype=dtype)
        responses(X, V, w, found)
        expected = [[sum(w * np.minimum(x, v)) for v in V] for x in X]
        np.testing.assert_allclose(found, expected, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_objective_by_loops():
    objective, X, y, patterns, margins, w, V = _objective()
    expected = _by_loops(X, y, patterns, margins, 0.02, w, V)
    assert objective.at(w, V).value == pytest.approx(expected, rel=1e-12)
    narrow = _objective(np.float32)[0]
    assert narrow.at(w, V).value == pytest.approx(expected, rel=1e-5)


def _check_slopes(objective, w, V):
    point = objective.at(w, V)
    numeric = approx_fprime(w, lambda w: objective.at(w, V).value, 1e-7)
    np.testing.assert_allclose(objective.slope_in_w(point), numeric, atol=1e-5)
    numeric = approx_fprime(V.ravel(), lambda v: objective.at(w, v.reshape(V.shape)).value, 1e-7)
    np.testing.assert_allclose(objective.slope_in_v(point).ravel(), numeric, atol=1e-5)


def test_slopes_by_finite_differences():
    """The kernels take four rows at a time."""
    for n_classes in (2, 3, 5):
        for n_samples in (8, 21, 23):
            objective, X, y, patterns, margins, w, V = _objective(
                n_samples=n_samples, n_classes=n_classes, n_features=5
            )
            expected = _by_loops(X, y, patterns, margins, 0.02, w, V)
            assert objective.at(w, V).value == pytest.approx(expected, rel=1e-12)
            _check_slopes(objective, w, V)


def test_blocks_and_threads_do_not_matter(monkeypatch):
    objective, *_, w, V = _objective(n_samples=50)
    point = objective.at(w, V)
    slopes = objective.slope_in_w(point), objective.slope_in_v(point)
    monkeypatch.setattr(_sse, "_BLOCK", 16)
    found = []
    for n_cached in (2, 0):
        monkeypatch.setattr(_sse, "_CACHED_BLOCKS", n_cached)
        for n_jobs in (1, 2):
            other = _objective(n_samples=50)[0]
            other.n_jobs = n_jobs
            again = other.at(w, V)
            found.append((again.value, other.slope_in_w(again), other.slope_in_v(again)))
            assert found[-1][0] == pytest.approx(point.value, rel=1e-12)
            np.testing.assert_allclose(found[-1][1], slopes[0], atol=1e-12)
            np.testing.assert_allclose(found[-1][2], slopes[1], atol=1e-12)
            np.testing.assert_array_equal(found[-1][2], found[0][2])


def test_the_descent_in_w_reaches_the_minimum(monkeypatch):
    monkeypatch.setattr(_sse, "_FIRST_STEPS", 500)
    objective, *_ = _objective()
    reached = next(alternate(objective, 1e-9))[0]
    np.testing.assert_array_equal(reached.V, objective.means)

    def value_and_slope(w):
        point = objective.at(w, reached.V)
        return point.value, objective.slope_in_w(point)

    best = minimize(value_and_slope, np.zeros(6), jac=True, tol=1e-12)
    assert reached.value == pytest.approx(best.fun, rel=1e-9)
    np.testing.assert_allclose(reached.w, best.x, atol=1e-5)


def test_the_objective_never_rises(problem):
    objective, *_ = _objective()
    values = [point.value for point, _ in islice(alternate(objective, 1e-6), 30)]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < 0.95 * values[0]
    model = _fit(SSE(max_iter=10), problem)
    assert len(model.history_) == 11
    assert (np.diff(model.history_) <= 0).all()
    assert model.history_[-1] == model.objective_


def test_references_stay_within_the_features(problem):
    model = _fit(SSE(max_iter=10), problem, X=np.abs(problem.X_train))
    assert model.references_.min() >= 0
    objective, X, *_ = _objective()
    *_, (last, _) = islice(alternate(objective, 1e-6), 60)
    low, high = X.min(axis=0), X.max(axis=0)
    assert ((low <= last.V) & (high >= last.V)).all()
    # Some references would have left the range.
    assert ((low == last.V) | (high == last.V)).any()


def test_the_objective_of_a_model_is_as_stated(problem):
    model = _fit(SSE(0.5, 1e-3, max_iter=2), problem)
    X = normalize(problem.X_train)
    assert model.feature_scale_ == pytest.approx(1.0)
    signatures = normalize_signatures(problem.signatures.loc[model.seen_classes_])
    patterns = simplex_least_squares(signatures, signatures, gamma=0.5).weights
    np.testing.assert_allclose(model.patterns_, patterns, atol=1e-12)
    margins = cdist(signatures, signatures) ** 2
    y = np.searchsorted(model.seen_classes_, problem.y_train)
    expected = _by_loops(X, y, patterns, margins, 1e-3, model.coef_, model.references_)
    assert model.objective_ == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("feature_norm", ["l2", None])
def test_score_is_as_stated(problem, feature_norm):
    model = _fit(SSE(0.1, feature_norm=feature_norm), problem)
    X = problem.X_test_unseen
    if feature_norm == "l2":
        X = normalize(X)
    X = X / model.feature_scale_
    scale = model.signature_scale_[0]
    seen, every = (
        normalize_signatures(problem.signatures.loc[labels], scale=scale)
        for labels in (model.seen_classes_, model.classes_)
    )
    Z = simplex_least_squares(every, seen, gamma=0.1).weights
    phi = np.minimum(X[:, None, :], model.references_[None, :, :])
    expected = np.einsum("uc,ncd,d->nu", Z, phi, model.coef_)
    np.testing.assert_allclose(model.decision_function(problem.X_test_unseen), expected, atol=1e-10)


def test_a_gamma_lost_in_rounding_is_named(problem):
    few = problem.signatures.iloc[:, :3]
    with pytest.raises(ValueError, match=r"gamma=1e-20 is too small"):
        _fit(SSE(gamma=1e-20), problem, signatures=few)


def test_equal_signatures_tie(problem):
    model = _fit(SSE(), problem)
    label = model.seen_classes_[2]
    copy = pd.DataFrame(problem.signatures.loc[[label]].to_numpy(), index=["copy"])
    copy.columns = problem.signatures.columns
    with pytest.warns(InputWarning):
        model.add_classes(copy)
    scores = model.decision_function(problem.X_test_seen, classes=[label, "copy"])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], atol=1e-12)


def test_two_classes_and_features_of_zeros():
    y = np.repeat(["a", "b"], 4)
    signatures = {"a": [0.0, 1.0], "b": [1.0, 0.0], "c": [1.0, 1.0]}
    X = np.repeat(np.eye(3)[:2], 4, axis=0)
    model = SSE().fit(X, y, signatures=signatures)
    np.testing.assert_array_equal(model.predict(X, classes=["a", "b"]), y)
    model = SSE(feature_norm=None).fit(np.zeros((8, 3)), y, signatures=signatures)
    np.testing.assert_array_equal(model.decision_function(X), np.zeros((8, 3)))
