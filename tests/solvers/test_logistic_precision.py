"""Steps in single precision, certificates in double."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from zslearn.solvers import logistic_path, softmax_path

ALPHAS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]


@pytest.fixture
def rows(monkeypatch):
    """Rows in single precision of twelve classes that overlap, and attributes of the classes."""
    monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 0)
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(12), 25)
    means = rng.standard_normal((12, 20))
    X = (means[y] + 0.8 * rng.standard_normal((len(y), 20)) + 2).astype(np.float32)
    has = rng.random((12, 7)) < np.linspace(0.2, 0.8, 7)
    has[0], has[1] = True, False
    return X, y, has[y].astype(float)


def _softmax_gap(X, y, result):
    X = X.astype(float)
    residual = softmax(X @ result.coef.T + result.intercept, axis=1)
    residual[np.arange(len(y)), y] -= 1
    # Intercepts are at their minimum, but for a little; rows may be moved.
    assert np.abs(residual.mean(axis=0)).max() < 1e-4
    gradient = residual.T @ (X - X.mean(axis=0)) / len(X) + result.alpha * result.coef
    return np.sum(gradient**2) / (2 * result.alpha)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-9])
def test_the_gap_of_a_softmax_regression_is_measured_in_double_precision(rows, tol):
    X, y, _ = rows
    for result in softmax_path(X, y, alphas=ALPHAS, tol=tol):
        assert result.converged
        assert result.gap[0] <= tol * min(result.objective[0], result.gain[0]) * (1 + 1e-9)
        noise = 1e-13 / result.alpha
        assert result.gap[0] == pytest.approx(_softmax_gap(X, y, result), rel=1e-4, abs=noise)
        scores = X.astype(float) @ result.coef.T + result.intercept
        loss = -log_softmax(scores, axis=1)[np.arange(len(y)), y].mean()
        expected = loss + result.alpha / 2 * np.sum(result.coef**2)
        assert result.objective[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-9])
def test_the_gaps_of_binary_regressions_are_measured_in_double_precision(rows, tol):
    X, _, Y = rows
    for result in logistic_path(X, Y, alphas=ALPHAS, tol=tol):
        assert result.converged
        residual = expit(X.astype(float) @ result.coef.T + result.intercept) - Y
        centred = X.astype(float) - X.mean(axis=0, dtype=float)
        gradient = residual.T @ centred / len(X) + result.alpha * result.coef
        gaps = np.sum(gradient**2, axis=1) / (2 * result.alpha)
        np.testing.assert_allclose(result.gap, gaps, rtol=1e-4, atol=1e-13 / result.alpha)


def test_problems_that_are_set_aside_are_those_alone(rows):
    """Of columns of differing difficulty some end early; each is what it is alone."""
    X, _, Y = rows
    hard = (X[:, :3] > np.quantile(X[:, :3], [0.5, 0.9, 0.98], axis=0).diagonal()).astype(float)
    targets = np.column_stack([Y, hard])
    for together in logistic_path(X, targets, alphas=[1e-2, 1e-4], tol=1e-8):
        for column in range(targets.shape[1]):
            (alone,) = logistic_path(
                X, targets[:, column : column + 1], alphas=[together.alpha], tol=1e-8
            )
            scale = np.abs(alone.coef).max()
            np.testing.assert_allclose(together.coef[column], alone.coef[0], atol=2e-3 * scale)
            assert together.objective[column] == pytest.approx(alone.objective[0], rel=1e-7)


@pytest.mark.parametrize("n_features", [5, 40], ids=["tall", "wide"])
def test_one_row_per_class(n_features):
    """There is no scatter within classes."""
    X = np.random.default_rng(1).standard_normal((12, n_features))
    y = np.arange(12)
    for result in softmax_path(X, y, alphas=[1.0, 1e-2, 1e-4], tol=1e-9):
        assert result.converged
        C = 1 / (result.alpha * len(X))
        expected = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
        scale = np.abs(expected.coef_).max()
        np.testing.assert_allclose(result.coef, expected.coef_, atol=2e-3 * scale)
