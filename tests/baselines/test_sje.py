from __future__ import annotations

import numpy as np
import pytest

from zslearn._solvers._ranking import (
    BilinearDescent,
    hinge_of_all,
    hinge_of_worst,
    slopes_of_all,
    slopes_of_worst,
    worst_violator,
)
from zslearn.baselines import SJE
from zslearn.signatures import normalize_signatures


def test_loss_is_that_of_the_worst_violator():
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(9, 6)), rng.integers(6, size=9)
    loss, slope = hinge_of_worst(scores, y)
    for n, (row, own) in enumerate(zip(scores, y, strict=True)):
        others = [c for c in range(6) if c != own]
        worst = max(others, key=lambda c: row[c])
        assert loss[n] == pytest.approx(max(0.0, 1 + row[worst] - row[own]))
        expected = np.zeros(6)
        if loss[n] > 0:
            expected[worst], expected[own] = 1, -1
        np.testing.assert_array_equal(slope[n], expected)
    np.testing.assert_array_equal(worst_violator(scores, y)[0], loss)
    assert (loss <= hinge_of_all(scores, y)[0] + 1e-12).all()


@pytest.mark.parametrize("loss", [hinge_of_all, hinge_of_worst])
def test_descents_side_by_side_are_those_of_each_alone(loss):
    rng = np.random.default_rng(2)
    X, y, A = rng.normal(size=(40, 7)), rng.integers(5, size=40), rng.normal(size=(5, 4))
    slopes = {hinge_of_all: slopes_of_all, hinge_of_worst: slopes_of_worst}[loss]
    steps = [0.02, 0.3, 0.001]

    def begin(step):
        options = {"power_t": 0.5, "batch_size": 8, "rng": np.random.RandomState(0)}
        return BilinearDescent(X, y, A, slopes, step, **options)

    together, alone = begin(steps), [begin(step) for step in steps]
    for epoch in range(5):
        # The second ends after three epochs.
        followed = [0, 1, 2] if epoch < 3 else [0, 2]
        together.follow(followed)
        together.epoch()
        for path in followed:
            alone[path].epoch()
            np.testing.assert_allclose(together.coef_of(path), alone[path].coef, atol=1e-12)


def test_signatures_that_lie_in_a_plane_lose_nothing():
    """Steps are taken in the span of the signatures, whatever their number of columns is."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 7)), rng.integers(6, size=40)
    A = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 9)) + 4.0
    descent = BilinearDescent(
        X, y, A, slopes_of_worst, 0.02, power_t=0.0, batch_size=40, rng=np.random.RandomState(0)
    )
    assert descent.U.shape == (2, 7)
    W = np.zeros((7, 9))
    for _ in range(4):
        slope = hinge_of_worst(X @ W @ A.T, y)[1]
        W -= 0.02 * X.T @ slope @ A
        descent.epoch()
    np.testing.assert_allclose(descent.coef, W, atol=1e-11)


def test_equal_signatures_teach_nothing():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(10, 3)), rng.integers(4, size=10)
    descent = BilinearDescent(
        X, y, np.ones((4, 2)), slopes_of_all, 0.1, power_t=0.0, batch_size=5,
        rng=np.random.RandomState(0),
    )  # fmt: skip
    descent.epoch()
    np.testing.assert_array_equal(descent.coef, 0)


def test_trains_as_a_plain_loop_over_samples(problem):
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
