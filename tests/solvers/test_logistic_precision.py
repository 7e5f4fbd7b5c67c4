"""Steps in single precision, certificates in double; problems that are solved are left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from zslearn._solvers.logistic import _losses as logistic_rows
from zslearn._solvers.logistic import _newton as directions
from zslearn._solvers.logistic import _newton as logistic_newton
from zslearn._solvers.logistic._sharing import softmax_spectrum
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


def test_steps_that_are_not_exact_do_not_pass_for_solutions(rows, monkeypatch):
    """The rows of the steps are far off: what looks solved is not, and is solved all the same."""
    X, y, Y = rows
    alphas = ALPHAS[:4]
    exact = softmax_path(X, y, alphas=alphas), logistic_path(X, Y, alphas=alphas)
    measured = logistic_newton.Newton._measured
    unsolved = []

    def wrong(self):
        turned = self._turned(self.rows.single)
        rng = np.random.default_rng(0)
        return turned * (1 + 3e-4 * rng.standard_normal(turned.shape)).astype(np.float32)

    def noted(self, *arguments):
        point = measured(self, *arguments)
        unsolved.append((point.gap > point.wanted).any())
        return point

    monkeypatch.setattr(logistic_newton.Newton, "_measured", noted)
    monkeypatch.setattr(logistic_rows.CentredRows, "single", property(wrong))
    found = softmax_path(X, y, alphas=alphas), logistic_path(X, Y, alphas=alphas)
    assert any(unsolved)
    for path, expected in zip(found, exact, strict=True):
        for one, other in zip(path, expected, strict=True):
            assert one.converged
            np.testing.assert_allclose(one.objective, other.objective, rtol=1e-5)


def test_problems_left_out_of_products_are_those_alone(rows, monkeypatch):
    """Of columns of differing difficulty some end early; each is what it is alone."""
    X, _, Y = rows
    hard = (X[:, :3] > np.quantile(X[:, :3], [0.5, 0.9, 0.98], axis=0).diagonal()).astype(float)
    targets = np.column_stack([Y, hard])
    taken = []
    take = directions._State.take

    def noted(self, columns):
        taken.append(len(columns))
        return take(self, columns)

    monkeypatch.setattr(directions._State, "take", noted)
    for together in logistic_path(X, targets, alphas=[1e-2, 1e-4], tol=1e-8):
        for column in range(targets.shape[1]):
            (alone,) = logistic_path(
                X, targets[:, column : column + 1], alphas=[together.alpha], tol=1e-8
            )
            scale = np.abs(alone.coef).max()
            np.testing.assert_allclose(together.coef[column], alone.coef[0], atol=2e-3 * scale)
            assert together.objective[column] == pytest.approx(alone.objective[0], rel=1e-7)
    assert taken
    assert min(taken) < targets.shape[1]


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


def test_penalties_that_rise_and_repeat(rows):
    X, y, _ = rows
    alphas = [1e-3, 1e-1, 1e-3, 1e-4]
    found = softmax_path(X, y, alphas=alphas, tol=1e-6)
    assert [result.alpha for result in found] == alphas
    np.testing.assert_allclose(found[0].coef, found[2].coef)
    assert softmax_path(X, y, alphas=[]) == []


def _clusters(n_features=60, n_classes=8, n_each=60):
    """Rows of many directions, of which few vary much."""
    rng = np.random.default_rng(0)
    scale = 0.5 ** np.arange(n_features) + 0.02
    means = rng.normal(size=(n_classes, n_features)) * scale
    y = np.repeat(np.arange(n_classes), n_each)
    return means[y] + rng.normal(size=(len(y), n_features)) * scale, y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("soft", [0.0, 2.0])
def test_directions_that_are_left_out_change_no_solution(monkeypatch, dtype, soft):
    monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 0)
    X, y = _clusters()
    options = {"alphas": [1e-1, 1e-3, 1e-5], "pseudo_counts": soft}
    exact = softmax_path(X, y, tol=1e-11, **options)
    left_out = []
    apart = directions.NewtonEquation._solve_apart
    monkeypatch.setattr(
        directions.NewtonEquation,
        "_solve_apart",
        lambda self, *args: left_out.append(self.n_flat) or apart(self, *args),
    )
    found = softmax_path(X.astype(dtype), y, tol=1e-7, **options)
    assert max(left_out) >= 50  # nearly all under a large penalty
    for result, expected in zip(found, exact, strict=True):
        assert result.converged
        objective = expected.objective[0]
        assert result.gap[0] <= 1e-7 * objective
        assert abs(result.objective[0] - objective) <= 1e-6 * objective


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_spectrum_of_more_classes_changes_no_solution(dtype):
    X, y = _clusters()
    X = X.astype(dtype)
    spectrum = softmax_spectrum(X, y)
    some = y < 5
    for rows, labels in ((X, y), (X[some], y[some])):
        alphas = [1e-2, 1e-4]
        found = softmax_path(rows, labels, alphas=alphas, tol=1e-8, spectrum=spectrum)
        expected = softmax_path(rows, labels, alphas=alphas, tol=1e-8)
        for result, other in zip(found, expected, strict=True):
            assert result.converged
            np.testing.assert_allclose(result.objective, other.objective, rtol=2e-8)
    np.testing.assert_array_equal(spectrum[0], np.sort(spectrum[0]))


def test_few_rows_have_no_spectrum_to_share():
    X, y = _clusters(n_each=3)
    assert softmax_spectrum(X, y) is None
    found = softmax_path(X, y, alphas=[1e-2], spectrum=softmax_spectrum(*_clusters()))
    expected = softmax_path(X, y, alphas=[1e-2])
    np.testing.assert_array_equal(found[0].coef, expected[0].coef)
