from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.preprocessing import normalize

from zslearn.baselines import CMT
from zslearn.baselines._cmt import NetworkObjective
from zslearn.signatures import normalize_signatures


def _small(seed=0, n_classes=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=23)
    y[:n_classes] = np.arange(n_classes)
    return rng.standard_normal((23, 6)), y, rng.standard_normal((n_classes, 4))


def _units(rows):
    centered = rows - rows.mean(axis=0)
    return centered / np.sqrt((centered**2).sum(axis=1).mean())


def _objective(theta1, theta2, X, y, A, alpha):
    """The stated objective, sample by sample."""
    x, a = _units(X), _units(A)
    total = sum(
        np.sum((a[c] - theta2 @ np.tanh(theta1 @ row)) ** 2) for row, c in zip(x, y, strict=True)
    )
    return total / len(x) + alpha * (np.sum(theta1**2) + np.sum(theta2**2))


@pytest.mark.parametrize("budget", [1 << 20, 1000])
def test_value_and_gradient_are_those_of_the_stated_objective(budget, block_bytes):
    block_bytes(budget)
    X, y, A = _small()
    problem = NetworkObjective(X, y, A, 0.03)
    theta = np.random.default_rng(1).standard_normal((3, 6))

    def reduced(flat):
        second = problem.evaluate(flat).second
        return _objective(flat.reshape(3, 6), second.T, X, y, A, 0.03)

    found = problem.evaluate(theta.ravel())
    assert found.value == pytest.approx(reduced(theta.ravel()), rel=1e-12)
    numeric = approx_fprime(theta.ravel(), reduced, 1e-6)
    np.testing.assert_allclose(found.gradient, numeric, atol=1e-5)


@pytest.mark.parametrize(("offset", "digits"), [(3, 2e-6), (3000, 1e-9)])
def test_products_are_in_the_dtype_of_the_features(offset, digits):
    """In float32 to seven digits; features far from zero are multiplied in float64."""
    X, y, A = _small()
    X = (X + offset).astype(np.float32)
    wide, narrow = (NetworkObjective(rows, y, A, 0.03) for rows in (X.astype(float), X))
    theta = np.random.default_rng(1).standard_normal((3, 6))
    value, gradient = wide.evaluate(theta.ravel())[:2]
    again, slope = narrow.evaluate(theta.ravel())[:2]
    assert (again != value) == (offset == 3)
    assert again == pytest.approx(value, rel=digits)
    np.testing.assert_allclose(slope, gradient, atol=digits * np.abs(gradient).max())


def test_training_ends_where_the_gradient_vanishes(problem):
    model = CMT(hidden_size=8, alpha=0.01, max_iter=2000, tol=0.0)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = normalize(problem.X_train)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    inner = NetworkObjective(X, y, A, 0.01)
    theta = model.coefs_[0].T * inner.scale
    value, gradient = inner.evaluate(theta.ravel())[:2]
    assert np.abs(gradient).max() < 1e-5 * value


def test_embedding_is_the_network(problem):
    model = CMT(hidden_size=5).fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = normalize(problem.X_test_unseen)
    mapped = (
        np.tanh(X @ model.coefs_[0] + model.intercepts_[0]) @ model.coefs_[1] + model.intercepts_[1]
    )
    A = normalize_signatures(problem.signatures, scale=model.signature_scale_[0])
    distances = np.sqrt(((mapped[:, None] - A[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_unseen, classes=problem.signatures.index),
        -distances,
        atol=1e-7,
    )
