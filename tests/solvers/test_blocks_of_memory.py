"""Solvers that hold no table of all rows by all classes: the same solutions, within a budget."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from zslearn.solvers import multiclass_svm, multiclass_svm_path, softmax_path


def _samples(n_samples=240, n_features=15, n_classes=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    means = rng.standard_normal((n_classes, n_features))
    return means[y] + rng.standard_normal((n_samples, n_features)), y


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_in_blocks(library, weighted, monkeypatch):
    xp = pytest.importorskip(library)
    X, y = _samples()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    options = {"alphas": [1e-3, 1e-1], "tol": 1e-9, "sample_weight": weight}
    whole = multiclass_svm_path(xp.asarray(X), y, **options)
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._TABLE_BYTES", 1)
    # Three classes at a time.
    monkeypatch.setattr(
        "zslearn._solvers.svm._squared_hinge._TABLES", X.nbytes // 4 // 8 // 240 // 3
    )
    parts = multiclass_svm_path(xp.asarray(X), y, **options)
    for a, b in zip(whole, parts, strict=True):
        assert b.converged
        assert b.objective == pytest.approx(a.objective, rel=1e-8)
        np.testing.assert_allclose(np.asarray(b.coef), np.asarray(a.coef), rtol=1e-3, atol=1e-4)
        assert b.dual_gap <= 1e-9 * min(b.objective, b.gain) * (1 + 1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("pseudo_counts", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_without_tables(library, pseudo_counts, weighted, block_bytes):
    xp = pytest.importorskip(library)
    X, y = _samples()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    options = {"alphas": [1e-4, 1e-2, 1.0], "tol": 1e-9, "sample_weight": weight}
    options["pseudo_counts"] = pseudo_counts
    whole = softmax_path(X, y, **options)
    block_bytes(20_000)
    streamed = softmax_path(xp.asarray(X), y, **options)
    for a, b in zip(whole, streamed, strict=True):
        assert b.converged
        assert type(b.coef) is type(xp.asarray(X))
        np.testing.assert_allclose(b.objective, a.objective, rtol=1e-8)
        scale = np.abs(a.coef).max()
        np.testing.assert_allclose(np.asarray(b.coef), a.coef, atol=1e-4 * scale)
        np.testing.assert_allclose(np.asarray(b.intercept), a.intercept, atol=1e-3)
        np.testing.assert_allclose(np.asarray(b.coef).sum(axis=0), 0, atol=1e-9)


def test_softmax_names_classes_without_rows_when_softened():
    with pytest.raises(ValueError, match="belongs to class 1"):
        softmax_path(np.eye(3), np.array([0, 2, 2]), alphas=[1.0], pseudo_counts=2.0)


def test_memory_of_many_rows_by_classes(monkeypatch, block_bytes):
    """Neither solver holds a table of rows by classes, which would take 48 MB here."""
    n_samples, n_classes = 20_000, 300
    X, y = _samples(n_samples, 8, n_classes)
    X = X.astype(np.float32)
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._TABLE_BYTES", 1 << 23)
    block_bytes(1 << 22)
    for train in (
        lambda: softmax_path(X, y, n_classes, alphas=[1.0], tol=1e-1),
        lambda: multiclass_svm(X, y, alpha=1.0, tol=1e-1),
    ):
        tracemalloc.start()
        train()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 24 << 20
