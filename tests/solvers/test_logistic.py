from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from zslearn.solvers import logistic_path, softmax_path

ALPHAS = [1e-2, 1e-4, 1.0]


@pytest.fixture(scope="module")
def rows():
    """Rows away from the origin, noisy binary targets and classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12)) + 3
    scores = (X - 3) @ rng.standard_normal((12, 5)) + rng.standard_normal((200, 5))
    return X, (scores > 0.5).astype(float), scores.argmax(axis=1)


def _binary_objective(X, y, coef, intercept, alpha):
    f = X @ coef + intercept
    losses = np.logaddexp(0, f) - y * f
    return losses.mean() + alpha / 2 * coef @ coef


def _softmax_objective(X, y, coef, intercept, alpha):
    f = X @ coef.T + intercept
    losses = np.log(np.exp(f).sum(axis=1)) - f[np.arange(len(y)), y]
    return losses.mean() + alpha / 2 * np.sum(coef**2)


def _reference(X, y, alpha):
    model = LogisticRegression(
        C=1 / (alpha * len(X)), tol=1e-10, max_iter=10_000, solver="newton-cg"
    )
    return model.fit(X, y)


def test_binary_problems_are_those_of_scikit_learn(rows):
    X, Y, _ = rows
    results = logistic_path(X, Y, alphas=ALPHAS, tol=1e-10)
    assert [result.alpha for result in results] == ALPHAS
    for result in results:
        assert result.converged
        for m in range(Y.shape[1]):
            expected = _reference(X, Y[:, m], result.alpha)
            scale = np.abs(expected.coef_).max()
            np.testing.assert_allclose(result.coef[m], expected.coef_[0], atol=2e-4 * scale)
            np.testing.assert_allclose(result.intercept[m], expected.intercept_[0], rtol=1e-3)
            found = _binary_objective(X, Y[:, m], result.coef[m], result.intercept[m], result.alpha)
            best = _binary_objective(
                X, Y[:, m], expected.coef_[0], expected.intercept_[0], result.alpha
            )
            assert result.objective[m] == pytest.approx(found, rel=1e-12)
            assert found <= best * (1 + 1e-9)


def test_the_multinomial_problem_is_that_of_scikit_learn(rows):
    X, _, y = rows
    for result in softmax_path(X, y, alphas=ALPHAS, tol=1e-10):
        expected = _reference(X, y, result.alpha)
        assert result.converged
        scale = np.abs(expected.coef_).max()
        np.testing.assert_allclose(result.coef, expected.coef_, atol=2e-4 * scale)
        found = _softmax_objective(X, y, result.coef, result.intercept, result.alpha)
        assert result.objective[0] == pytest.approx(found, rel=1e-12)
        assert abs(result.intercept.sum()) < 1e-10
        np.testing.assert_allclose(result.coef.sum(axis=0), 0, atol=1e-6 * scale)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_the_gap_bounds_the_distance_to_the_minimum(rows, tol):
    X, Y, y = rows
    for alpha in (1e-1, 1e-3):
        (loose,), (tight,) = (logistic_path(X, Y, alphas=[alpha], tol=t) for t in (tol, 1e-12))
        assert (loose.gap <= tol * loose.objective).all()
        assert (loose.objective - tight.objective <= loose.gap + 1e-14).all()
        (loose,), (tight,) = (softmax_path(X, y, alphas=[alpha], tol=t) for t in (tol, 1e-12))
        assert (loose.objective - tight.objective <= loose.gap + 1e-14).all()


def test_weights_repeat_samples(rows):
    X, _, y = rows
    counts = np.random.default_rng(0).integers(0, 4, size=len(X))
    repeated = np.repeat(np.arange(len(X)), counts)
    (weighted,) = softmax_path(X, y, alphas=[0.01], tol=1e-11, sample_weight=counts)
    (expected,) = softmax_path(X[repeated], y[repeated], alphas=[0.01], tol=1e-11)
    np.testing.assert_allclose(weighted.coef, expected.coef, atol=1e-5)


def test_targets_may_be_probabilities(rows):
    """A target of ¾ is three samples of 1 and one of 0."""
    X, Y, _ = rows
    soft = np.where(Y[:, :2] == 1, 0.75, 0.25)
    (result,) = logistic_path(X, soft, alphas=[0.01], tol=1e-11)
    hard = np.concatenate([Y[:, :2]] * 3 + [1 - Y[:, :2]])
    (expected,) = logistic_path(np.tile(X, (4, 1)), hard, alphas=[0.01], tol=1e-11)
    np.testing.assert_allclose(result.coef, expected.coef, atol=1e-5)


def test_constant_features_and_far_away_ones(rows):
    X, Y, y = rows
    far = np.column_stack([X + 1e4, np.ones(len(X)), np.zeros(len(X))])
    (near,), (moved,) = (logistic_path(Z, Y, alphas=[0.01], tol=1e-9) for Z in (X, far))
    np.testing.assert_allclose(moved.coef[:, :-2], near.coef, atol=1e-3)
    np.testing.assert_allclose(moved.coef[:, -2:], 0, atol=1e-6)
    (near,), (moved,) = (softmax_path(Z, y, alphas=[0.01], tol=1e-9) for Z in (X, far))
    np.testing.assert_allclose(moved.coef[:, :-2], near.coef, atol=1e-3)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_arrays_of_other_libraries(rows, library):
    xp = pytest.importorskip(library)
    X, Y, y = rows
    for path, target in ((logistic_path, Y), (softmax_path, y)):
        (expected,) = path(X, target, alphas=[0.01], tol=1e-10)
        (found,) = path(xp.asarray(X), target, alphas=[0.01], tol=1e-10)
        assert type(found.coef) is type(xp.asarray(X))
        np.testing.assert_allclose(np.asarray(found.coef), expected.coef, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_samples=st.integers(2, 30),
    width=st.integers(1, 8),
    alpha=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_every_problem_is_solved(seed, n_samples, width, alpha, scale):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n_samples, width))
    y = np.arange(n_samples) % 2
    (binary,) = logistic_path(X, rng.permutation(y)[:, None], alphas=[alpha * scale**2])
    (multi,) = softmax_path(X, rng.permutation(y), alphas=[alpha * scale**2])
    assert binary.converged
    assert multi.converged


def test_tells_where_it_did_not_converge(rows):
    X, Y, _ = rows
    with pytest.warns(ConvergenceWarning, match="alpha"):
        (result,) = logistic_path(X, Y, alphas=[1e-4], tol=1e-12, max_iter=1)
    assert not result.converged
    assert result.n_iter == 1


def test_bad_input(rows):
    X, Y, y = rows
    with pytest.raises(ValueError, match="Column 1 of Y has one outcome"):
        logistic_path(X, np.column_stack([Y[:, 0], np.ones(len(X))]), alphas=[1.0])
    with pytest.raises(ValueError, match="one row per sample"):
        logistic_path(X, Y[:-1], alphas=[1.0])
    with pytest.raises(ValueError, match="0 and 1"):
        logistic_path(X, 2 * Y, alphas=[1.0])
    for alphas in ([0.0], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="alphas"):
            logistic_path(X, Y, alphas=alphas)
    with pytest.raises(ValueError, match="class 5"):
        softmax_path(X, y, 6, alphas=[1.0])
    with pytest.raises(ValueError, match="sample_weight"):
        softmax_path(X, y, alphas=[1.0], sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="non-negative"):
        softmax_path(X, y, alphas=[1.0], sample_weight=-np.ones(len(X)))
