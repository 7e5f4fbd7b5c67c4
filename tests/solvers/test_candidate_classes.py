"""Crammer–Singer among many classes, where visits go to the few that compete for a row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from svm_objective import multiclass_svm_objective
from zslearn.solvers import multiclass_svm, multiclass_svm_path

N_CLASSES = 120


def make_rows(n_samples=720, n_features=40, n_classes=N_CLASSES, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    X = rng.standard_normal((n_classes, n_features))[y]
    X += 0.8 * rng.standard_normal(X.shape)
    margins = rng.uniform(0.5, 1.5, (n_classes, n_classes)) * (1 - np.eye(n_classes))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, margins


@pytest.mark.slow
def test_liblinear_among_many_classes():
    X, y, _ = make_rows()
    alpha = 2.0**-8
    found = multiclass_svm(X, y, loss="crammer_singer", alpha=alpha, tol=1e-7, random_state=0)
    assert found.converged
    peer = LinearSVC(
        C=1 / (alpha * len(y)), multi_class="crammer_singer", fit_intercept=False, tol=1e-6,
        max_iter=100_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    ours, theirs = (
        multiclass_svm_objective(X, y, coef, alpha=alpha, loss="crammer_singer")
        for coef in (found.coef, peer.coef_)
    )
    assert ours == pytest.approx(found.objective, rel=1e-12)
    assert theirs - found.dual_gap - 1e-9 <= ours <= theirs + 1e-7


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_the_certificate_by_hand(single, weighted, monkeypatch):
    """Classes that are no longer visited remain part of the solution."""
    if single:
        monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 1)
    X, y, margins = make_rows(seed=1)
    weight = np.random.default_rng(2).uniform(0.2, 3, len(y)) if weighted else None
    options = {"alphas": [2.0**-6, 2.0**-9], "margins": margins, "sample_weight": weight}
    options |= {"loss": "crammer_singer", "tol": 1e-5, "random_state": 0}
    rows = X.astype(np.float32) if single else X
    for a in multiclass_svm_path(rows, y, **options):
        assert a.converged
        assert a.relative_gap <= 1e-5
        np.testing.assert_allclose(a.dual.sum(axis=1), 1, atol=1e-9)
        assert a.dual.min() >= 0
        objective = multiclass_svm_objective(
            rows, y, a.coef, alpha=a.alpha, loss="crammer_singer", margins=margins,
            sample_weight=weight,
        )  # fmt: skip
        assert objective == pytest.approx(a.objective, rel=1e-9)
        # The dual points make a lower bound; in double precision, whatever visits compute in.
        counts_of = np.ones(len(y)) if weight is None else weight / weight.mean()
        pull = counts_of[:, None] * (np.eye(N_CLASSES)[y] - a.dual)
        U = pull.T @ rows.astype(np.float64) / (a.alpha * len(y))
        linear = counts_of @ np.einsum("nc,nc->n", a.dual, margins[y]) / len(y)
        bound = linear - 0.5 * a.alpha * np.sum(U**2)
        assert a.objective - bound <= a.dual_gap + 1e-12
