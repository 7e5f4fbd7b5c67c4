from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zslearn._solvers._ranking import (
    BilinearDescent,
    hinge_of_all,
    hinge_of_worst,
    latent_hinge,
    rank_weights,
    slopes_of_all,
)
from zslearn.baselines import DeViSE
from zslearn.signatures import normalize_signatures


def _random_scores(n_samples=7, n_classes=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, n_classes)), rng.integers(n_classes, size=n_samples)


def test_loss_is_the_sum_over_violators():
    scores, y = _random_scores()
    expected = [
        sum(max(0.0, 1 + row[c] - row[own]) for c in range(len(row)) if c != own)
        for row, own in zip(scores, y, strict=True)
    ]
    np.testing.assert_allclose(hinge_of_all(scores, y)[0], expected)


LOSSES = {
    "DeViSE": hinge_of_all,
    "ALE": lambda scores, y: hinge_of_all(scores, y, rank_weights(scores.shape[1])),
    "SJE": hinge_of_worst,
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_slopes_are_differences_of_the_loss(loss):
    scores, y = _random_scores()
    slope = loss(scores, y)[1]
    for where in np.ndindex(*scores.shape):
        step = np.zeros_like(scores)
        step[where] = 1e-6
        change = loss(scores + step, y)[0].sum() - loss(scores - step, y)[0].sum()
        assert slope[where] == pytest.approx(change / 2e-6, abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@settings(max_examples=30, deadline=None)
@given(
    scores=hnp.arrays(np.intp, (4, 5), elements=st.integers(-3072, 3072)),
    y=hnp.arrays(np.intp, 4, elements=st.integers(0, 4)),
    shift=st.integers(-10, 10),
)
def test_properties_of_the_losses(loss, scores, y, shift):
    # Of 1/1024, so that a shift rounds nothing: it may not tie what was apart.
    scores = scores / 1024
    value, slope = loss(scores, y)
    assert (value >= 0).all()
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(loss(scores + shift, y)[0], value, atol=1e-9)
    # Far ahead of all others nothing is lost.
    scores[np.arange(4), y] += 100
    value, slope = loss(scores, y)
    assert not value.any()
    assert not slope.any()


def test_losses_of_one_violator_are_the_same():
    """With two classes every loss is the one hinge."""
    scores, y = _random_scores(n_classes=2)
    rows = np.arange(len(y))
    for loss in LOSSES.values():
        np.testing.assert_allclose(loss(scores, y)[0], hinge_of_all(scores, y)[0])
    own, other = scores[rows, y][:, None], scores[rows, 1 - y][:, None]
    np.testing.assert_allclose(latent_hinge(own, other)[0], hinge_of_all(scores, y)[0])


def _descent(X, y, A, **options):
    usual = {"step": 0.01, "power_t": 0.0, "batch_size": 8, "rng": np.random.RandomState(0)}
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


def test_float32_descends_as_float64():
    X, y, A = _random_problem()
    double, single = _descent(X, y, A), _descent(X.astype(np.float32), y, A)
    for _ in range(4):
        double.epoch()
        single.epoch()
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-5 * np.abs(double.coef).max())


def test_the_loss_falls():
    X, y, A = _random_problem()
    descent = _descent(X, y, A, power_t=0.5)
    losses = []
    for _ in range(30):
        losses.append(hinge_of_all(X @ descent.coef @ A.T, y)[0].mean())
        descent.epoch()
    assert losses[0] == A.shape[0] - 1
    assert losses[-1] < 0.7 * losses[0]


def test_trains_as_a_plain_loop_over_samples(problem):
    """W itself, a sample and a violator at a time, without the span of the signatures."""
    model = DeViSE(0.5, 3, batch_size=10, random_state=4, power_t=0.5)
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
    for epoch in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), 10):
            change = np.zeros_like(W)
            for n in order[start : start + 10]:
                for c in range(len(A)):
                    if c != y[n] and 1 + X[n] @ W @ (A[c] - A[y[n]]) > 0:
                        change += np.outer(X[n], A[c] - A[y[n]])
            W -= step / np.sqrt(epoch + 1) * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), X @ W @ A.T, atol=1e-9
    )
