from __future__ import annotations

import numpy as np
import pytest

from zslearn.baselines import SJE
from zslearn.signatures import normalize_signatures
from zslearn.solvers._ranking import hinge_of_all, hinge_of_worst, worst_violator
from zslearn.solvers._ranking_descent import BilinearDescent, WorstViolatorDescent, up_and_down


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


def test_rows_that_meet_in_one_are_added():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 3))
    up, down = np.array([0, 0, 4, 2, 4, 4]), np.array([1, 4, 1, 1, 0, 2])
    table = rng.normal(size=(5, 3))
    expected = table.copy()
    for row, u, d in zip(rows, up, down, strict=True):
        expected[u] += 0.5 * row
        expected[d] -= 0.5 * row
    before = table.copy()
    touched, change = up_and_down(table, up, down, 0.5, rows)
    np.testing.assert_allclose(table, expected)
    np.testing.assert_array_equal(touched, [0, 1, 2, 4])
    np.testing.assert_allclose(table[touched] - before[touched], change)


def test_nothing_to_add_changes_nothing():
    table = np.ones((3, 2))
    none = np.zeros(0, dtype=np.intp)
    touched, _ = up_and_down(table, none, none, 0.5, np.zeros((0, 2)))
    assert len(touched) == 0
    np.testing.assert_array_equal(table, 1)


def test_sparse_steps_are_the_dense_ones():
    rng = np.random.default_rng(2)
    X, y, A = rng.normal(size=(40, 7)), rng.integers(5, size=40), rng.normal(size=(5, 4))
    options = {"step": 0.02, "power_t": 0.0, "batch_size": 8}
    sparse = WorstViolatorDescent(X, y, A, rng=np.random.RandomState(0), **options)
    dense = BilinearDescent(X, y, A, hinge_of_worst, rng=np.random.RandomState(0), **options)
    for _ in range(5):
        sparse.epoch()
        dense.epoch()
    np.testing.assert_allclose(sparse.coef, dense.coef, atol=1e-12)


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
