"""ALE, DeViSE and SJE; what ranking methods share: epochs, grids, early stopping, scales."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.preprocessing import normalize

from zslearn.baselines import ALE, SJE, DeViSE, LatEm
from zslearn.baselines._ranking import (
    BilinearDescent,
    rank_weights,
    slopes_of_all,
    slopes_of_worst,
)
from zslearn.signatures import normalize_signatures

METHODS = [ALE(), DeViSE(), SJE(), LatEm(max_iter=20)]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def _fit(method, problem, X=None, signatures=None, **parameters):
    X = problem.X_train if X is None else X
    signatures = problem.signatures if signatures is None else signatures
    return clone(method).set_params(**parameters).fit(X, problem.y_train, signatures=signatures)


# Losses.


def _violations(scores, y):
    """max(0, 1 + F_c − F_y), 0 for the own class."""
    rows = np.arange(len(y))
    short = np.maximum(1 + scores - scores[rows, y][:, None], 0)
    short[rows, y] = 0
    return short


def _rank_weighted(scores, y):
    short = _violations(scores, y)
    k = (short > 0).sum(axis=1)
    beta = np.array([sum(1 / i for i in range(1, n + 1)) / max(n, 1) for n in k])
    return beta * short.sum(axis=1)


# The loss, written out, and its slopes.
LOSSES = {
    "DeViSE": (lambda scores, y: _violations(scores, y).sum(axis=1), slopes_of_all),
    "ALE": (
        _rank_weighted,
        lambda scores, y: slopes_of_all(scores, y, rank_weights(scores.shape[1])),
    ),
    "SJE": (lambda scores, y: _violations(scores, y).max(axis=1), slopes_of_worst),
}
every_loss = pytest.mark.parametrize(("loss", "slopes"), LOSSES.values(), ids=LOSSES)


@every_loss
def test_slopes_are_differences_of_the_loss(loss, slopes):
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(7, 6)), rng.integers(6, size=7)
    slope = slopes(scores, y)
    for where in np.ndindex(*scores.shape):
        step = np.zeros_like(scores)
        step[where] = 1e-6
        change = loss(scores + step, y).sum() - loss(scores - step, y).sum()
        assert slope[where] == pytest.approx(change / 2e-6, abs=1e-7)


@every_loss
@settings(max_examples=30, deadline=None)
@given(
    scores=hnp.arrays(np.intp, (4, 5), elements=st.integers(-3072, 3072)),
    y=hnp.arrays(np.intp, 4, elements=st.integers(0, 4)),
    shift=st.integers(-10, 10),
)
def test_properties_of_the_slopes(loss, slopes, scores, y, shift):
    # Multiples of 1/1024, so that a shift is exact and creates no ties.
    scores = scores / 1024
    slope = slopes(scores, y)
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(slopes(scores + shift, y), slope, atol=1e-9)
    # A class far ahead of all others has no loss.
    scores[np.arange(4), y] += 100
    assert not slopes(scores, y).any()


# Weights of the k violators of a sample, the worst first.
WEIGHTS = {
    "ALE": lambda k: [sum(1 / i for i in range(1, k + 1)) / max(k, 1)] * k,
    "DeViSE": lambda k: [1.0] * k,
    "SJE": lambda k: [1.0][:k],
}


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("method", [ALE(), DeViSE(), SJE()], ids=lambda m: type(m).__name__)
def test_trains_as_a_plain_loop_over_samples(problem, method, batch_size):
    """W itself, one sample and one violator at a time, without the span of the signatures."""
    options = {"learning_rate": 0.5, "max_iter": 3, "random_state": 4}
    model = _fit(method, problem, batch_size=batch_size, **options)
    X = normalize(problem.X_train)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    weights = WEIGHTS[type(method).__name__]
    step = 0.5 / (sum(weights(len(A) - 1)) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), batch_size):
            change = np.zeros_like(W)
            for n in order[start : start + batch_size]:
                excess = 1 + X[n] @ W @ (A - A[y[n]]).T
                excess[y[n]] = -1
                violators = [c for c in np.argsort(-excess) if excess[c] > 0]
                for c, weight in zip(violators, weights(len(violators)), strict=False):
                    change += weight * np.outer(X[n], A[c] - A[y[n]])
            W -= step * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), X @ W @ A.T, atol=1e-9
    )


def _descent(X, y, A, **options):
    usual = {"step": 0.01, "batch_size": 8, "rng": np.random.RandomState(0)}
    return BilinearDescent(X, y, A, slopes_of_all, **(usual | options))


def _random_problem(n_samples=40, n_features=7, n_classes=5, n_attributes=4):
    rng = np.random.default_rng(1)
    return (
        rng.normal(size=(n_samples, n_features)),
        rng.integers(n_classes, size=n_samples),
        rng.normal(size=(n_classes, n_attributes)),
    )


def test_a_common_offset_of_signatures_does_not_matter():
    X, y, A = _random_problem()
    first, again = _descent(X, y, A), _descent(X, y, A + 5.0)
    for _ in range(4):
        first.epoch()
        again.epoch()
    np.testing.assert_allclose(again.coef, first.coef, atol=1e-12)


def test_the_loss_falls():
    X, y, A = _random_problem()
    descent = _descent(X, y, A)
    losses = []
    for _ in range(30):
        losses.append(_violations(X @ descent.coef @ A.T, y).sum(axis=1).mean())
        descent.epoch()
    assert losses[0] == A.shape[0] - 1
    assert losses[-1] < 0.7 * losses[0]


def test_signatures_in_a_plane_are_trained_exactly():
    """Steps are taken in the span of the signatures."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 7)), rng.integers(6, size=40)
    A = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 9)) + 4.0
    descent = BilinearDescent(
        X, y, A, slopes_of_worst, 0.02, batch_size=40, rng=np.random.RandomState(0)
    )
    assert descent.U.shape == (2, 7)
    W = np.zeros((7, 9))
    for _ in range(4):
        slope = slopes_of_worst(X @ W @ A.T, y)
        W -= 0.02 * X.T @ slope @ A
        descent.epoch()
    np.testing.assert_allclose(descent.coef, W, atol=1e-11)


def test_equal_signatures_leave_the_map_at_zero():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(10, 3)), rng.integers(4, size=10)
    descent = BilinearDescent(
        X, y, np.ones((4, 2)), slopes_of_all, 0.1, batch_size=5,
        rng=np.random.RandomState(0),
    )  # fmt: skip
    descent.epoch()
    np.testing.assert_array_equal(descent.coef, 0)


# Common to the ranking methods.


@every_method
@pytest.mark.parametrize("scaling", ["center", "zscore", None])
def test_scales_do_not_matter(problem, method, scaling):
    first = _fit(method, problem, scaling=scaling, feature_norm=None)
    again = _fit(
        method, problem, scaling=scaling, feature_norm=None,
        X=1024 * problem.X_train, signatures=1000 * problem.signatures,
    )  # fmt: skip
    np.testing.assert_allclose(
        again.decision_function(1024 * problem.X_test_unseen),
        first.decision_function(problem.X_test_unseen),
        rtol=1e-6, atol=1e-8,
    )  # fmt: skip
    stretched = _fit(method, problem, scaling=scaling, feature_norm=None, signature_scale=0.01)
    np.testing.assert_array_equal(
        stretched.predict(problem.X_test_unseen), first.predict(problem.X_test_unseen)
    )


@every_method
def test_two_classes_and_samples_that_are_all_the_same(method):
    y = np.array(["a", "a", "b", "b"])
    signatures = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    model = clone(method).fit(np.ones((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()
    model = clone(method).fit(np.zeros((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()
