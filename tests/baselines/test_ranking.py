"""ALE, DeViSE and SJE; what ranking methods share: epochs, grids, early stopping, scales."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import normalize

from zslearn.baselines import ALE, SJE, DeViSE, LatEm
from zslearn.signatures import normalize_signatures

METHODS = [ALE(), DeViSE(), SJE(), LatEm(max_iter=20)]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def _fit(method, problem, X=None, signatures=None, **parameters):
    X = problem.X_train if X is None else X
    signatures = problem.signatures if signatures is None else signatures
    return clone(method).set_params(**parameters).fit(X, problem.y_train, signatures=signatures)


# Weights of the k violators of a sample, the worst first.
WEIGHTS = {
    "ALE": lambda k: [sum(1 / i for i in range(1, k + 1)) / max(k, 1)] * k,
    "DeViSE": lambda k: [1.0] * k,
    "SJE": lambda k: [1.0][:k],
}


@pytest.mark.parametrize("n_attributes", [8, 20])
@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("method", [ALE(), DeViSE(), SJE()], ids=lambda m: type(m).__name__)
def test_trains_as_a_plain_loop_over_samples(problem, method, batch_size, n_attributes):
    """W itself, one sample and one violator at a time, without the span of the signatures."""
    options = {"learning_rate": 0.5, "max_iter": 3, "random_state": 4}
    spread = np.random.default_rng(0).normal(size=(8, n_attributes))
    signatures = problem.signatures @ spread + 1.0
    model = _fit(method, problem, signatures=signatures, batch_size=batch_size, **options)
    X = normalize(problem.X_train)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    weights = WEIGHTS[type(method).__name__]
    step = 0.5 / (sum(weights(len(A) - 1)) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), batch_size):
            change = np.zeros_like(W)
            for n in order[start : start + batch_size]:
                excess = 1 + X[n] @ W @ (A - A[y[n]]).T
                excess[y[n]] = -1
                violators = [c for c in np.argsort(-excess) if excess[c] > 0]
                for c, weight in zip(violators, weights(len(violators)), strict=False):
                    change += weight * np.outer(X[n], A[c] - A[y[n]])
            W -= step * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), X @ W @ A.T, atol=1e-9
    )


# Common to the ranking methods.


@every_method
@pytest.mark.parametrize("scaling", ["center", "zscore", None])
def test_scales_do_not_matter(problem, method, scaling):
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
