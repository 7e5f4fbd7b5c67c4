from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from zslearn.baselines import ESZSL
from zslearn.signatures import normalize_signatures


def _prepared(problem, rows=slice(None)):
    X, y = problem.X_train[rows], problem.y_train[rows]
    X = normalize(X)
    seen = np.unique(y)
    A = normalize_signatures(problem.signatures.loc[seen])
    Y = np.where(y[:, None] == seen[None, :], 1.0, 0.0)
    return X, A, Y


@pytest.mark.parametrize("center", [None, "features", "signatures", "both"])
@pytest.mark.parametrize("columns", [slice(None), slice(0, 3)], ids=["d < S", "d << S"])
def test_solves_the_stated_equation(problem, center, columns):
    """(XᵀX + γI) W (AᵀA + λI) = XᵀYA, written out directly."""
    signatures = problem.signatures.iloc[:, columns]
    model = ESZSL(3.0, 0.5, center=center).fit(
        problem.X_train, problem.y_train, signatures=signatures
    )
    X, _, Y = _prepared(problem)
    A = normalize_signatures(signatures.loc[model.seen_classes_])
    if center in ("features", "both"):
        X = X - X.mean(axis=0)
    if center in ("signatures", "both"):
        A = A - A.mean(axis=0)
    left = (X.T @ X + 3.0 * np.eye(X.shape[1])) @ model.coef_ @ (A.T @ A + 0.5 * np.eye(A.shape[1]))
    np.testing.assert_allclose(left, X.T @ Y @ A, atol=1e-10)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=model.seen_classes_),
        X @ model.coef_ @ A.T,
        atol=1e-10,
    )


@pytest.mark.parametrize("penalties", [(1e-3, 1e-3), (10.0, 0.1), (1e6, 1e-3), (1e6, 1e3)])
def test_the_gradient_of_the_objective_vanishes(problem, penalties):
    """Term by term, at the corners of the widest grid too, relative to the largest term."""
    gamma, lam = penalties
    model = ESZSL(gamma, lam, center=None).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    X, A, Y = _prepared(problem)
    W = model.coef_
    terms = [
        X.T @ (X @ W @ A.T - Y) @ A,  # of ‖XWAᵀ − Y‖²
        gamma * W @ A.T @ A,  # of γ‖WAᵀ‖²
        lam * X.T @ X @ W,  # of λ‖XW‖²
        gamma * lam * W,  # of γλ‖W‖²
    ]
    largest = max(np.abs(X.T @ Y @ A).max(), *(np.abs(term).max() for term in terms))
    assert np.abs(sum(terms)).max() < 1e-11 * largest


@pytest.mark.parametrize("alpha", [1e-300, 1e-20, 1e-15])
def test_a_penalty_below_the_rounding_of_the_features(problem, alpha):
    """XᵀX is singular and the penalty below its rounding error: the solution of least norm."""
    twice = np.concatenate([problem.X_train, problem.X_train], axis=1)
    model = ESZSL(alpha, 0.5, center=None)
    model.fit(twice, problem.y_train, signatures=problem.signatures)
    X, A, Y = _prepared(problem)
    X = np.concatenate([X, X], axis=1) / np.sqrt(2)
    right = A @ np.linalg.inv(A.T @ A + 0.5 * np.eye(A.shape[1]))
    expected = np.linalg.pinv(X, rcond=1e-10) @ Y @ right
    np.testing.assert_allclose(model.coef_, expected, atol=1e-8 * np.abs(expected).max())


def test_more_attributes_than_classes(problem):
    rng = np.random.default_rng(0)
    wide = problem.signatures @ rng.standard_normal((problem.signatures.shape[1], 40))
    model = ESZSL(center=None).fit(problem.X_train, problem.y_train, signatures=wide)
    A = normalize_signatures(wide.loc[model.seen_classes_])
    X, _, Y = _prepared(problem)
    left = (X.T @ X + 10.0 * np.eye(X.shape[1])) @ model.coef_ @ (A.T @ A + 0.1 * np.eye(40))
    np.testing.assert_allclose(left, X.T @ Y @ A, atol=1e-9)
