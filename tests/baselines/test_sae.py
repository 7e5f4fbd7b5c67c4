from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from zslearn.base import InputWarning
from zslearn.baselines import SAE
from zslearn.signatures import normalize_signatures

DIRECTIONS = ["semantic_to_feature", "feature_to_semantic"]


def _fit(problem, signatures=None, **setting):
    signatures = problem.signatures if signatures is None else signatures
    return SAE(**setting).fit(problem.X_train, problem.y_train, signatures=signatures)


def _columns(problem, signatures, center):
    """X and S as the equation has them: one column per sample."""
    X = normalize(problem.X_train)
    seen, codes = np.unique(problem.y_train, return_inverse=True)
    S = normalize_signatures(signatures.loc[seen])[codes]
    if center in ("both", "features"):
        X = X - X.mean(axis=0)
    if center in ("both", "signatures"):
        S = S - S.mean(axis=0)
    return X.T, S.T


@pytest.mark.parametrize("center", [None, "features", "signatures", "both"])
@pytest.mark.parametrize("alpha", [1e-3, 0.5, 1e3])
def test_solves_the_sylvester_equation(problem, center, alpha):
    """SSᵀW + λWXXᵀ = (1 + λ)SXᵀ: the residual, and SciPy's own solver."""
    model = _fit(problem, alpha=alpha, center=center)
    X, S = _columns(problem, problem.signatures, center)
    assert model.alpha_ == pytest.approx(alpha * np.sum(S**2) / np.sum(X**2))
    lam, W = model.alpha_, model.coef_
    right = (1 + lam) * S @ X.T
    np.testing.assert_allclose(
        S @ S.T @ W + lam * W @ X @ X.T, right, atol=1e-10 * np.abs(right).max()
    )
    expected = scipy.linalg.solve_sylvester(S @ S.T, lam * X @ X.T, right)
    np.testing.assert_allclose(W, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("center", [None, "both"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_reduced_features_are_ridge_scores_of_the_seen_classes(problem, direction, center):
    """The scores of scikit-learn's ridge regression of the indicators replace the features."""
    model = _fit(problem, direction=direction, center=center, alpha_reduction=2.0)
    seen = np.unique(problem.y_train)
    unit = [normalize(X) for X in (problem.X_train, problem.X_test_seen)]
    indicators = (problem.y_train[:, None] == seen).astype(float)
    ridge = Ridge(alpha=2.0, fit_intercept=False, solver="cholesky").fit(unit[0], indicators)
    train, test = (ridge.predict(X) for X in unit)
    np.testing.assert_allclose(model.reduction_, ridge.coef_.T, atol=1e-10)
    expected = SAE(direction=direction, center=center, feature_norm=None).fit(
        train, problem.y_train, signatures=problem.signatures
    )
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_seen), expected.decision_function(test), atol=1e-8
    )


def test_more_attributes_than_classes_and_a_constant_feature(problem):
    """SSᵀ and XXᵀ are singular: the equation still holds, by the solution of least norm."""
    rng = np.random.default_rng(0)
    wide = problem.signatures @ rng.standard_normal((problem.signatures.shape[1], 40))
    X = np.concatenate([problem.X_train, np.zeros((len(problem.X_train), 1))], axis=1)
    model = SAE(0.5).fit(X, problem.y_train, signatures=wide)
    X, S = _columns(problem, wide, None)
    X = np.concatenate([X, np.zeros((1, X.shape[1]))])
    lam, W = model.alpha_, model.coef_
    residual = S @ S.T @ W + lam * W @ X @ X.T - (1 + lam) * S @ X.T
    assert np.abs(residual).max() < 1e-9 * np.abs(S @ X.T).max()
    assert np.abs(W[:, -1]).max() < 1e-12


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("center", [None, "both"])
def test_scores_are_cosines(problem, direction, center):
    model = _fit(problem, direction=direction, center=center)
    X, _ = _columns(problem, problem.signatures, center)
    A = normalize_signatures(problem.signatures.loc[model.seen_classes_]) - model.signature_mean_
    left, right = (X.T, A @ model.coef_) if direction == DIRECTIONS[0] else (X.T @ model.coef_.T, A)
    expected = normalize(left) @ normalize(right).T
    found = model.decision_function(problem.X_train, classes=model.seen_classes_)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_equal_signatures_have_equal_scores(problem):
    """No direction remains among centred signatures: all scores are equal."""
    with pytest.warns(InputWarning, match="cannot be distinguished"):
        model = _fit(problem, signatures=problem.signatures * 0 + 1.0, center="both")
    np.testing.assert_allclose(model.decision_function(problem.X_test_unseen), 0.0, atol=1e-7)
