"""ALE, DeViSE and SJE; what ranking methods share: epochs, grids, early stopping, scales."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from zslearn._utils._messages import InputWarning
from zslearn.baselines import ALE, SJE, DeViSE, LatEm
from zslearn.baselines._ranking import (
    BilinearDescent,
    rank_weights,
    slopes_of_all,
    slopes_of_worst,
)
from zslearn.datasets import load_xlsa17
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
    # Of 1/1024, so that a shift rounds nothing: it may not tie what was apart.
    scores = scores / 1024
    slope = slopes(scores, y)
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(slopes(scores + shift, y), slope, atol=1e-9)
    # Far ahead of all others nothing is lost.
    scores[np.arange(4), y] += 100
    assert not slopes(scores, y).any()


def test_ale_trains_as_a_plain_loop_over_samples(problem):
    model = _fit(ALE(0.5, 3, batch_size=10, random_state=4), problem)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    step = 0.5 / (sum(1 / i for i in range(1, len(A))) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), 10):
            change = np.zeros_like(W)
            for n in order[start : start + 10]:
                violators = [
                    c for c in range(len(A)) if c != y[n] and 1 + X[n] @ W @ (A[c] - A[y[n]]) > 0
                ]
                weight = sum(1 / i for i in range(1, len(violators) + 1)) / max(len(violators), 1)
                for c in violators:
                    change += weight * np.outer(X[n], A[c] - A[y[n]])
            W -= step * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)


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


def test_what_all_signatures_share_changes_nothing():
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


def test_devise_trains_as_a_plain_loop_over_samples(problem):
    """W itself, a sample and a violator at a time, without the span of the signatures."""
    model = DeViSE(0.5, 3, batch_size=10, random_state=4)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    step = 0.5 / ((len(A) - 1) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), 10):
            change = np.zeros_like(W)
            for n in order[start : start + 10]:
                for c in range(len(A)):
                    if c != y[n] and 1 + X[n] @ W @ (A[c] - A[y[n]]) > 0:
                        change += np.outer(X[n], A[c] - A[y[n]])
            W -= step * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), X @ W @ A.T, atol=1e-9
    )


def test_signatures_that_lie_in_a_plane_lose_nothing():
    """Steps are taken in the span of the signatures, whatever their number of columns is."""
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


def test_equal_signatures_teach_nothing():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(10, 3)), rng.integers(4, size=10)
    descent = BilinearDescent(
        X, y, np.ones((4, 2)), slopes_of_all, 0.1, batch_size=5,
        rng=np.random.RandomState(0),
    )  # fmt: skip
    descent.epoch()
    np.testing.assert_array_equal(descent.coef, 0)


def test_sje_trains_as_a_plain_loop_over_samples(problem):
    model = SJE(0.3, 3, batch_size=1, scaling=None, random_state=4)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        for n in rng.permutation(len(y)):
            scores = 1 + X[n] @ W @ (A - A[y[n]]).T
            scores[y[n]] = -np.inf
            worst = int(np.argmax(scores))
            if scores[worst] > 0:
                W += 0.3 / np.mean(pairs) * np.outer(X[n], A[y[n]] - A[worst])
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)


@pytest.mark.slow
def test_real_birds(data_folder):
    """CUB, split ns: ALE on EfficientNet-Lite0 features, untuned defaults."""
    data = load_xlsa17("CUB", folder=data_folder / "xlsa17", features="efficientnet_lite0.mat")
    model = ALE().fit(data.X_train, data.y_train, signatures=data.signatures)
    accuracy = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert 0.55 < accuracy < 0.65


# What the ranking methods share.


@every_method
@pytest.mark.parametrize("scaling", ["center", "zscore", None])
def test_scales_change_nothing(problem, method, scaling):
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
def test_unusual_signatures(problem, method):
    rng = np.random.default_rng(0)
    names = problem.signatures.index
    single = pd.DataFrame(rng.normal(size=(len(names), 1)) ** 2 + 0.5, index=names)
    equal = problem.signatures.copy()
    equal.iloc[1] = equal.iloc[0]
    flat = problem.signatures.assign(constant=3.0, zero=0.0)
    alike = pd.DataFrame(np.ones((len(names), 3)), index=names)
    binary = (problem.signatures > 0).astype(float)
    for signatures in (single, equal, flat, alike, binary):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            model = _fit(method, problem, signatures=signatures, max_iter=3)
        assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()


@every_method
def test_two_classes_and_samples_that_are_all_the_same(method):
    y = np.array(["a", "a", "b", "b"])
    signatures = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    model = clone(method).fit(np.ones((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()
    model = clone(method).fit(np.zeros((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()
