"""Crammer–Singer among many classes, where visits go to the few that compete for a row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from svm_objective import multiclass_svm_objective
from zslearn._solvers.svm import _crammer_singer as ascent
from zslearn._solvers.svm._crammer_singer import (
    add_pulls,
    candidate_classes,
    improve_candidates,
    improve_dual,
)
from zslearn._solvers.svm._rows import TrainingRows
from zslearn.solvers import multiclass_svm, multiclass_svm_path

N_CLASSES = 120


def make_rows(n_samples=720, n_features=40, n_classes=N_CLASSES, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    X = rng.standard_normal((n_classes, n_features))[y]
    X += 0.8 * rng.standard_normal(X.shape)
    margins = rng.uniform(0.5, 1.5, (n_classes, n_classes)) * (1 - np.eye(n_classes))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, margins


def count_visits(monkeypatch):
    """How often few classes were visited, and all."""
    counts = {"_visit": 0, "_visit_candidates": 0}
    for name in counts:
        original = getattr(ascent.Ascent, name)

        def visit(self, *args, name=name, original=original):
            counts[name] += 1
            return original(self, *args)

        monkeypatch.setattr(ascent.Ascent, name, visit)
    return counts


@pytest.mark.slow
def test_liblinear_among_many_classes(monkeypatch):
    X, y, _ = make_rows()
    counts = count_visits(monkeypatch)
    alpha = 2.0**-8
    found = multiclass_svm(X, y, loss="crammer_singer", alpha=alpha, tol=1e-7, random_state=0)
    assert found.converged
    assert counts["_visit"] <= 2  # the first, from zero
    assert counts["_visit_candidates"] > 1
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
def test_as_with_all_classes(single, weighted, monkeypatch):
    """Classes that are left out of visits are not left out of the solution."""
    if single:
        monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 1)
    X, y, margins = make_rows(seed=1)
    weight = np.random.default_rng(2).uniform(0.2, 3, len(y)) if weighted else None
    options = {"alphas": [2.0**-6, 2.0**-9], "margins": margins, "sample_weight": weight}
    options |= {"loss": "crammer_singer", "tol": 1e-5, "random_state": 0}
    rows = X.astype(np.float32) if single else X
    counts = count_visits(monkeypatch)
    few = multiclass_svm_path(rows, y, **options)
    assert counts["_visit_candidates"] > 1
    monkeypatch.setattr(ascent, "_SPARE", N_CLASSES)
    counts["_visit_candidates"] = 0
    whole = multiclass_svm_path(rows, y, **options)
    assert counts["_visit_candidates"] == 0
    for a, b in zip(few, whole, strict=True):
        assert a.converged
        assert a.relative_gap <= 1e-5
        assert abs(a.objective - b.objective) <= max(a.dual_gap, b.dual_gap)
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


def test_rows_read_anew_and_products_not_kept(monkeypatch):
    """Memory beyond the limit is not taken; nothing else changes."""
    X, y, margins = make_rows(seed=3)
    options = {"alpha": 2.0**-7, "loss": "crammer_singer", "margins": margins, "tol": 1e-6}
    kept = multiclass_svm(X, y, random_state=0, **options)
    monkeypatch.setattr(ascent, "_KEPT_PRODUCTS", 0)
    anew = multiclass_svm(X, y, random_state=0, **options)
    np.testing.assert_array_equal(kept.coef, anew.coef)


def test_dense_dual_points_are_visited_whole():
    """Where weight is on many classes, no class is left out."""
    X, y, margins = make_rows()
    rows = TrainingRows(X, y, N_CLASSES)
    start = np.full((len(y), N_CLASSES), 1 / N_CLASSES)
    state = ascent.Ascent(rows, margins, 0.01, None, start, single=False)
    state.evaluate()
    assert state.candidates is None


def test_likely_classes():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 20))
    dual = np.where(rng.random((50, 20)) < 0.2, rng.random((50, 20)), 0.0)
    dual[0], dual[1] = 0.0, 1.0
    classes, counts = candidate_classes(values, dual, 4)
    for i, found in enumerate(np.split(classes, np.cumsum(counts)[:-1])):
        weighty = np.flatnonzero(dual[i])
        others = np.setdiff1d(np.argsort(-values[i], kind="stable"), weighty, assume_unique=True)
        assert sorted(found) == sorted([*weighty, *others[:4]])


def test_with_all_classes_few_are_all():
    """Each row is improved as by the visits to all classes, and U with it."""
    X, y, margins = make_rows(n_samples=40, n_classes=7)
    rng = np.random.default_rng(1)
    dual = rng.dirichlet(np.ones(7), 40)
    weights = rng.uniform(0.5, 2, 40)
    alpha = 0.05
    scale = 1 / (alpha * len(y))
    target = np.eye(7)[y]
    base = scale * (weights[:, None] * (target - dual)).T @ X
    expected = dual.copy()
    gram = scale * weights[:, None] * (X @ X.T)
    improve_dual(X @ base.T, gram, expected, margins[y], np.zeros((0, 0)), 2)
    rows = np.arange(40)
    classes, starts = np.tile(np.arange(7, dtype=np.int32), 40), 7 * np.arange(41)
    improve_candidates(
        X, rows, rows, y, classes, starts, scale * weights, X @ X.T, margins, base, dual, 2
    )
    np.testing.assert_allclose(dual, expected, atol=1e-10)
    total = np.zeros((7, X.shape[1]))
    add_pulls(X, y, dual, weights, total)
    np.testing.assert_allclose(total, (weights[:, None] * (target - dual)).T @ X, atol=1e-10)
    np.testing.assert_allclose(base, scale * total, atol=1e-9)
