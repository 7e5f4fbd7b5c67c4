"""Weights of samples in the methods that have a closed form."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import CCA, COSTA, ESZSL, GFZSL, SAE

METHODS = [
    *(ESZSL(center=center) for center in ("both", "features", "signatures", None)),
    *(SAE(center=center) for center in (None, "both")),
    SAE(alpha_reduction=2.0, direction="feature_to_semantic"),
    CCA(),
    *(GFZSL(covariance=kind) for kind in ("isotropic", "pooled", "class")),
    GFZSL(covariance="class", alpha_variance=0.1, n_components=8),
    COSTA(),
    COSTA(similarity="rbf"),
]


def _fit(method, problem, rows, weights=None):
    return clone(method).fit(
        problem.X_train[rows],
        problem.y_train[rows],
        signatures=problem.signatures,
        sample_weight=weights,
    )


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_whole_weight_is_a_repeated_row(problem, method):
    """Zero among them; every class keeps some sample."""
    n_samples = len(problem.y_train)
    weights = np.random.default_rng(0).integers(0, 4, size=n_samples)
    weights[np.unique(problem.y_train, return_index=True)[1]] = 1
    weighted = _fit(method, problem, slice(None), weights)
    repeated = _fit(method, problem, np.repeat(np.arange(n_samples), weights))
    found, expected = (m.decision_function(problem.X_test_unseen) for m in (weighted, repeated))
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * size)
    plain = _fit(method, problem, slice(None)).decision_function(problem.X_test_unseen)
    assert np.abs(plain - expected).max() > 1e-4 * size  # the weights have something to say


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_weights_of_one_are_none(problem, method):
    ones = _fit(method, problem, slice(None), np.ones(len(problem.y_train)))
    plain = _fit(method, problem, slice(None))
    expected = plain.decision_function(problem.X_test_unseen)
    np.testing.assert_allclose(
        ones.decision_function(problem.X_test_unseen), expected, atol=1e-9 * np.abs(expected).max()
    )


def test_costa_does_not_change_where_all_samples_of_a_class_weigh_the_same(problem):
    """Each class counts alike, whatever its samples weigh."""
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(problem.seen_classes))
    _, codes = np.unique(problem.y_train, return_inverse=True)
    weighted = _fit(COSTA(), problem, slice(None), weights[codes])
    plain = _fit(COSTA(), problem, slice(None))
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=0, atol=1e-10)
