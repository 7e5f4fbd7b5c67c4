"""A path starts each penalty with the products that the one before ended with."""

from __future__ import annotations

import numpy as np
import pytest

from zslearn._solvers.svm._multiclass import multiclass_svm_objective, train_multiclass_svm
from zslearn._solvers.svm._rows import TrainingRows
from zslearn.solvers import multiclass_svm_path

ALPHAS = [2.0**-6, 2.0**-8, 2.0**-10]


def _samples(seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(200) % 6
    X = rng.standard_normal((6, 12))[y] + rng.standard_normal((200, 12))
    return X, y


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_solutions_with_fewer_products(library, weighted, monkeypatch):
    xp = pytest.importorskip(library)
    X, y = _samples()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    n_products = 0
    original = TrainingRows.scores

    def scores(self, coefficients):
        nonlocal n_products
        n_products += 1
        return original(self, coefficients)

    monkeypatch.setattr(TrainingRows, "scores", scores)
    options = {"alphas": ALPHAS, "tol": 1e-9, "sample_weight": weight}
    known = multiclass_svm_path(xp.asarray(X), y, **options)
    n_known, n_products = n_products, 0
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._KEPT_BYTES", 0)
    anew = multiclass_svm_path(xp.asarray(X), y, **options)
    assert n_products == n_known + len(ALPHAS) - 1
    for a, b in zip(known, anew, strict=True):
        assert a.converged
        assert a.n_iter == b.n_iter
        np.testing.assert_allclose(np.asarray(a.coef), np.asarray(b.coef), rtol=1e-7, atol=1e-10)
        assert a.objective == pytest.approx(b.objective, rel=1e-12)


def test_another_start_is_not_taken_for_the_last_point():
    X, y = _samples()
    rows = TrainingRows(X, y)
    first = train_multiclass_svm(rows, alpha=0.1)
    train_multiclass_svm(rows, alpha=1e-3)
    # The rows now know the second point; the start is the first, and no step is taken from it.
    again = train_multiclass_svm(rows, alpha=0.1, warm_start=first)
    assert again.n_iter == 0
    assert again.objective == pytest.approx(
        multiclass_svm_objective(X, y, first.coef, alpha=0.1), rel=1e-12
    )
    # Nor is it one that a solve with another mixing ended at.
    mixed = train_multiclass_svm(rows, alpha=0.1, mixing=2.0 * np.eye(6), warm_start=first)
    assert mixed.objective == pytest.approx(
        multiclass_svm_objective(X, y, mixed.coef, alpha=0.1 / 4), rel=1e-9
    )
