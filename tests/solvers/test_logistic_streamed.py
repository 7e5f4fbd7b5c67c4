"""Binary regressions of rows that are made as they are read: those of rows that are held."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from zslearn._scoring._embedding import PreparedRows
from zslearn.solvers import logistic_path

ALPHAS = [1e-1, 1e-3, 1e-5]


def _problem(dtype=np.float64, n_samples=300, n_features=20, n_classes=9, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    X = rng.standard_normal((n_classes, n_features))[y]
    X = (X + rng.standard_normal(X.shape)).astype(dtype)
    has = rng.random((n_classes, 5)) < 0.5
    has[0], has[1] = True, False
    rows = PreparedRows(X, "l2")
    rows.check()
    rows.measure()
    return rows, y, has


@pytest.fixture
def small_blocks(block_bytes):
    block_bytes(1 << 14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_solutions(dtype, small_blocks):
    rows, y, has = _problem(dtype)
    options = {"alphas": ALPHAS, "tol": 1e-9}
    whole = logistic_path(rows.whole().astype(np.float64), has[y], **options)
    for a, b in zip(whole, logistic_path(rows, has, codes=y, **options), strict=True):
        assert b.converged
        assert (b.gap <= 1e-9 * np.minimum(b.objective, b.gain) + 1e-15).all()
        np.testing.assert_allclose(b.objective, a.objective, rtol=1e-6)
        scale = np.abs(a.coef).max()
        np.testing.assert_allclose(b.coef, a.coef, atol=1e-4 * scale)
        np.testing.assert_allclose(b.intercept, a.intercept, atol=1e-4 * scale)


def test_one_row_of_targets_for_each_sample(small_blocks):
    rows, y, has = _problem()
    soft = np.random.default_rng(2).random((len(y), 3))
    (a,), (b,) = (logistic_path(X, soft, alphas=[1e-2], tol=1e-10) for X in (rows, rows.whole()))
    np.testing.assert_allclose(a.coef, b.coef, atol=1e-5)
    # Codes of rows that are held.
    held = rows.whole()
    (shared,) = logistic_path(held, has, codes=y, alphas=[1e-2])
    (spread,) = logistic_path(held, has[y], alphas=[1e-2])
    np.testing.assert_allclose(shared.coef, spread.coef, rtol=1e-9, atol=1e-12)


def test_codes_are_checked():
    rows, y, has = _problem()
    for codes, match in ((y[1:], "one integer"), (y + 0.5, "one integer"), (y - 1, "rows of Y")):
        with pytest.raises(ValueError, match=match):
            logistic_path(rows, has, codes=codes, alphas=[1.0])
    with pytest.raises(ValueError, match="one outcome"):
        logistic_path(rows, np.ones((9, 1)), codes=y, alphas=[1.0])


def test_no_table_of_rows_by_problems(block_bytes):
    """One would take 24 MB here."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 8), dtype=np.float32), np.arange(20_000) % 7
    has = rng.random((7, 150)) < 0.5
    has[0], has[1] = True, False
    rows = PreparedRows(X, "l2")
    block_bytes(1 << 21)
    tracemalloc.start()
    try:
        logistic_path(rows, has, codes=y, alphas=[1.0], tol=1e-1)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
