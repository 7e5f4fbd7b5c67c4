"""What softmax regressions share, and where they start: solutions are the same within tolerance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from zslearn._solvers.logistic import _newton as logistic_newton
from zslearn._solvers.logistic._losses import SoftmaxLoss
from zslearn._solvers.logistic._newton import best_on_plane
from zslearn._solvers.logistic._sharing import softmax_spectrum, turned_rows
from zslearn.solvers import softmax_path

ALPHAS = [1e-4, 1e-1, 1e-3, 1e-2]


@pytest.fixture(params=[np.float32, np.float64])
def clusters(request, monkeypatch):
    """Rows of nine classes that overlap, in single precision or not."""
    monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 0)
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(9), 20)
    X = rng.standard_normal((9, 15))[y] + 0.9 * rng.standard_normal((len(y), 15)) + 1.0
    return X.astype(request.param), y


def _assert_same(found, expected, tol):
    for result, other in zip(found, expected, strict=True):
        assert result.converged
        assert result.alpha == other.alpha
        np.testing.assert_allclose(result.objective, other.objective, rtol=2 * tol)


@pytest.fixture
def newton_steps(monkeypatch):
    """Counts the steps that are taken."""
    steps, stepped = [], logistic_newton.Newton._stepped
    monkeypatch.setattr(
        logistic_newton.Newton,
        "_stepped",
        lambda self, *args, **options: steps.append(1) or stepped(self, *args, **options),
    )
    return steps


def test_turned_rows_of_all_or_some_change_no_solution(clusters):
    X, y = clusters
    spectrum = softmax_spectrum(X, y)
    turned = turned_rows(X, spectrum)
    assert turned.shape == X.shape
    before = turned.copy()
    for some in (np.arange(len(y)), np.flatnonzero(y < 6)):
        options = {"alphas": ALPHAS, "tol": 1e-7, "spectrum": spectrum}
        found = softmax_path(X[some], y[some], turned=turned[some], **options)
        _assert_same(found, softmax_path(X[some], y[some], **options), 1e-7)
    np.testing.assert_array_equal(turned, before)


def test_turned_rows_are_none_where_nothing_would_use_them(clusters, monkeypatch):
    X, y = clusters
    spectrum = softmax_spectrum(X, y)
    assert turned_rows(X, None) is None
    monkeypatch.setattr("zslearn._solvers.logistic._sharing._TURNED_BYTES", 10)
    assert turned_rows(X, spectrum) is None


def test_guides_change_no_solution_and_spare_steps(clusters, newton_steps):
    X, y = clusters
    soft = softmax_path(X, y, alphas=ALPHAS, tol=1e-4, pseudo_counts=1.0)
    newton_steps.clear()
    alone = softmax_path(X, y, alphas=ALPHAS, tol=1e-4)
    n_alone = len(newton_steps)
    newton_steps.clear()
    guided = softmax_path(X, y, alphas=ALPHAS, tol=1e-4, guides=soft)
    assert len(newton_steps) < n_alone
    _assert_same(guided, alone, 1e-4)


def test_guides_of_more_classes(clusters):
    X, y = clusters
    some, classes = y < 6, np.arange(6)
    all_classes = softmax_path(X, y, alphas=ALPHAS, tol=1e-5)
    guides = [replace(r, coef=r.coef[classes], intercept=r.intercept[classes]) for r in all_classes]
    found = softmax_path(X[some], y[some], alphas=ALPHAS, tol=1e-5, guides=guides)
    _assert_same(found, softmax_path(X[some], y[some], alphas=ALPHAS, tol=1e-5), 1e-5)


def test_guides_that_lead_astray_do_no_harm(clusters):
    X, y = clusters
    expected = softmax_path(X, y, alphas=ALPHAS, tol=1e-6)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e3):
        wrong = [
            replace(r, coef=scale * rng.standard_normal(r.coef.shape), intercept=-r.intercept)
            for r in expected
        ]
        found = softmax_path(X, y, alphas=ALPHAS, tol=1e-6, guides=wrong)
        _assert_same(found, expected, 1e-6)


def test_one_guide_for_each_penalty(clusters):
    X, y = clusters
    guides = softmax_path(X, y, alphas=[1e-2])
    with pytest.raises(ValueError, match="one guide for each of the 4 alphas; got 1"):
        softmax_path(X, y, alphas=ALPHAS, guides=guides)


@pytest.mark.parametrize("n_steps", [1, 2, 3])
@pytest.mark.parametrize("size", [0.1, 30.0])
def test_the_best_place_on_a_plane_by_scipy(n_steps, size, monkeypatch):
    monkeypatch.setattr("zslearn._solvers.logistic._newton._MAX_STEPS", 60)
    monkeypatch.setattr("zslearn._solvers.logistic._newton._SMALL", 1e-7)
    monkeypatch.setattr("zslearn._solvers.logistic._losses._CACHE_BYTES", 200)
    rng = np.random.default_rng(n_steps)
    n, n_classes, width, alpha = 40, 4, 3, 0.05
    targets = np.eye(n_classes)[rng.integers(n_classes, size=n)]
    weights = rng.random((n, 1))
    weights[3] = 0
    weights /= weights.sum()
    X = rng.standard_normal((n, width))

    def place(scale):
        coef, shift = scale * rng.standard_normal((n_classes, width)), rng.standard_normal((1, 4))
        return coef, shift, X @ coef.T + shift

    start, steps = place(1.0), [place(size) for _ in range(n_steps)]

    def objective(coef, _, scores):
        loss = logsumexp(scores, axis=1) - (targets * scores).sum(axis=1)
        return weights[:, 0] @ loss + 0.5 * alpha * np.sum(coef**2)

    def along(lengths):
        moved = zip(start, *steps, strict=True)
        return [x + sum(t * s for t, s in zip(lengths, ss, strict=True)) for x, *ss in moved]

    found = best_on_plane(SoftmaxLoss(targets, weights), alpha, start, steps)
    best = minimize(lambda t: objective(*along(t)), np.zeros(n_steps), tol=1e-12)
    assert objective(*found) == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(found[2], X @ found[0].T + found[1], atol=1e-9)


def test_a_start_is_never_worse_than_where_it_begins():
    """Two steps of Newton's method from far away overshoot."""
    targets = np.array([[1.0, 0.0], [0.0, 1.0]])
    loss = SoftmaxLoss(targets, np.full((2, 1), 0.5))
    start = np.zeros((2, 1)), np.zeros((1, 2)), np.array([[9.0, 0.0], [0.0, 9.0]])
    step = np.ones((2, 1)), np.zeros((1, 2)), np.array([[-60.0, 0.0], [0.0, -60.0]])
    coef, _, scores = best_on_plane(loss, 1e-3, start, [step])
    value = loss.values(scores)[0] + 0.5e-3 * np.sum(coef**2)
    assert value <= loss.values(start[2])[0]
