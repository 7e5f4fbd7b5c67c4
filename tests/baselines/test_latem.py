from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from zslearn.baselines import LatEm
from zslearn.baselines._ranking import LatentDescent, Scaling
from zslearn.datasets import make_zero_shot
from zslearn.signatures import normalize_signatures


def _prepared(problem):
    X = normalize(problem.X_train)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    return X, y, normalize_signatures(problem.signatures.loc[seen]), seen


def _zscored(X):
    """The original's scaling: z-scores divided by the largest (not the largest absolute) one."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return Z / Z.max()


def _loop(X, y, A, n_maps, rate, epochs, batch_size, seed):
    """The method as written: explicit W_k, one sample at a time."""
    size, length = np.mean(np.sum(X**2, axis=1)), np.mean(np.sum(A**2, axis=1))
    rng = np.random.RandomState(seed)
    W = rng.standard_normal((n_maps, X.shape[1], A.shape[1])) * 0.1 / np.sqrt(size * length)
    for _ in range(epochs):
        order = rng.permutation(len(y))
        for start in range(0, len(y), batch_size):
            rows = order[start : start + batch_size]
            negatives = (y[rows] + rng.randint(1, len(A), size=len(rows))) % len(A)
            change = np.zeros_like(W)
            for n, c in zip(rows, negatives, strict=True):
                own, other = [X[n] @ w @ A[y[n]] for w in W], [X[n] @ w @ A[c] for w in W]
                if 1 + max(other) - max(own) > 0:
                    change[np.argmax(own)] += np.outer(X[n], A[y[n]])
                    change[np.argmax(other)] -= np.outer(X[n], A[c])
            W += rate / (size * length) * change
    return W


@pytest.mark.parametrize("n_maps", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_trains_as_a_plain_loop_over_samples(problem, n_maps, batch_size):
    model = LatEm(0.5, 4, n_maps=n_maps, batch_size=batch_size, random_state=5)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X, y, A, seen = _prepared(problem)
    X = _zscored(X)
    W = _loop(X, y, A, n_maps, 0.5, 4, batch_size, seed=5)
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-10)
    scores = np.max([X @ w @ A.T for w in W], axis=0)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), scores, atol=1e-9
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_go_to_the_first_map_and_a_margin_that_is_met_is_no_violation(dtype):
    """Integers, so that nothing is rounded: many scores tie and many margins are exactly met."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(-1, 2, size=(80, 5)).astype(dtype), rng.integers(4, size=80)
    A, start = np.eye(4, 3), rng.integers(-1, 2, size=(3, 5, 3)).astype(dtype)
    options = {"step": 0.5, "batch_size": 8}
    descent = LatentDescent(X, y, A, start, rng=np.random.RandomState(2), **options)
    for _ in range(3):
        descent.epoch()
    same, maps = np.random.RandomState(2), start.copy()
    tied = met = 0
    for _ in range(3):
        order = same.permutation(len(y))
        for first in range(0, len(y), 8):
            rows = order[first : first + 8]
            other = (y[rows] + same.randint(1, 4, size=len(rows))) % 4
            before = maps.copy()
            for row, own, negative in zip(rows, y[rows], other, strict=True):
                scores = np.einsum("d,kda,ca->ck", X[row], before, A)
                winner, rival = scores[own].argmax(), scores[negative].argmax()
                excess = 1 + scores[negative, rival] - scores[own, winner]
                tied += np.sum(scores[own] == scores[own, winner]) > 1
                met += excess == 0
                if excess > 0:
                    maps[winner] += 0.5 * np.outer(X[row], A[own])
                    maps[rival] -= 0.5 * np.outer(X[row], A[negative])
    assert tied > 20
    assert met > 5
    np.testing.assert_array_equal(descent.coef, maps)


@pytest.mark.parametrize("kind", ["zscore", "center"])
def test_features_that_do_not_vary_are_left_out(kind):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(20, 3)), np.full(20, 0.1), np.zeros(20)].astype(np.float32)
    scaled = Scaling.of(X, kind)(X)
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(scaled[:, 3:], 0, atol=1e-6)
    everywhere = np.full((7, 3), 0.1)
    np.testing.assert_allclose(Scaling.of(everywhere, kind)(everywhere), 0, atol=1e-15)


@pytest.mark.slow
def test_recovers_two_modes_where_one_map_does_not():
    """Images of a class come from one of two linear maps of its signature."""
    data, truth = make_zero_shot(
        120, 12, n_features=40, n_attributes=12, samples_per_class=20, noise=0.12, nonlinearity=0,
        n_modes=2, random_state=2, return_truth=True,
    )  # fmt: skip
    images, labels = data.X_test_unseen, data.y_test_unseen
    best = truth.score(images, labels, classes=data.unseen_classes)
    assert best < 0.98

    def accuracy(n_maps):
        model = LatEm(n_maps=n_maps, max_iter=32)
        model.fit(data.X_train, data.y_train, signatures=data.signatures)
        return model.score(images, labels, classes=data.unseen_classes)

    assert accuracy(2) >= 0.9 * best
    assert accuracy(1) < 0.85 * best
