from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from sklearn.preprocessing import normalize

from zslearn.baselines import CCA
from zslearn.signatures import normalize_signatures


def _fit(problem, signatures=None, **setting):
    signatures = problem.signatures if signatures is None else signatures
    return CCA(**setting).fit(problem.X_train, problem.y_train, signatures=signatures)


def _sides(problem, feature_norm="l2"):
    """Centred features, and the centred signature of each sample's class."""
    X = problem.X_train
    if feature_norm == "l2":
        X = normalize(X)
    seen, codes = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])[codes]
    return X - X.mean(axis=0), A - A.mean(axis=0)


@pytest.mark.parametrize("alphas", [(0.0, 0.0), (0.3, 2.0), (10.0, 0.01)])
def test_solves_the_generalised_eigenproblem(problem, alphas):
    """(Cxx + γx)⁻¹ Cxa (Caa + γa)⁻¹ Cax p = ρ² p, and the constraints on either side."""
    model = _fit(problem, alpha_features=alphas[0], alpha_signatures=alphas[1])
    X, A = _sides(problem)
    n = len(X)

    def shrunk(C, alpha):
        values = np.linalg.eigvalsh(C)
        return C + alpha * values[values > 1e-12 * values[-1]].mean() * np.eye(len(C))

    Cxx, Caa = shrunk(X.T @ X / n, alphas[0]), shrunk(A.T @ A / n, alphas[1])
    Cxa = X.T @ A / n
    P, Q, rho = model.feature_weights_, model.signature_weights_, model.correlations_
    np.testing.assert_allclose(P.T @ Cxx @ P, np.eye(len(rho)), atol=1e-9)
    np.testing.assert_allclose(Q.T @ Caa @ Q, np.eye(len(rho)), atol=1e-9)
    np.testing.assert_allclose(Cxa @ Q, Cxx @ P * rho, atol=1e-10)
    squares = scipy.linalg.eigh(Cxa @ np.linalg.solve(Caa, Cxa.T), Cxx, eigvals_only=True)
    np.testing.assert_allclose(rho**2, squares[::-1][: len(rho)], atol=1e-10)


@pytest.mark.parametrize("power", [0.0, 1.5])
def test_scores_are_cosines_of_weighted_projections(problem, power):
    model = _fit(problem, power=power, n_components=4)
    X, _ = _sides(problem)
    A = normalize_signatures(problem.signatures.loc[model.seen_classes_]) - model.signature_mean_
    left = X @ model.feature_weights_ * model.correlations_**power
    right = A @ model.signature_weights_ * model.correlations_**power
    expected = normalize(left) @ normalize(right).T
    found = model.decision_function(problem.X_train, classes=model.seen_classes_)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_more_attributes_than_classes(problem):
    """Centred signatures leave one direction fewer than there are classes."""
    rng = np.random.default_rng(0)
    wide = np.tanh(problem.signatures @ rng.standard_normal((problem.signatures.shape[1], 40)))
    model = _fit(problem, signatures=wide, n_components=100)
    assert len(model.correlations_) == len(model.seen_classes_) - 1
    assert (np.diff(model.correlations_) <= 0).all()
    # Shrinkage lowers the correlation of every direction.
    bare = _fit(problem, signatures=wide, alpha_features=0.0, alpha_signatures=0.0)
    assert (bare.correlations_ > model.correlations_).all()
    assert bare.correlations_[0] < 1 + 1e-12


def test_twice_the_same_attributes_change_nothing(problem):
    """The unit of the shrinkage follows the eigenvalues, not the number of columns."""
    twice = pd.concat([problem.signatures, problem.signatures], axis=1)
    twice.columns = range(twice.shape[1])
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        _fit(problem, signatures=twice).decision_function(X),
        _fit(problem).decision_function(X),
        atol=1e-9,
    )
