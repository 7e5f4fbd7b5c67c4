"""The compiled selection of the best classes against a stable sort of all scores."""

from __future__ import annotations

import numpy as np
import pytest

from zslearn._scoring._blocks import class_scores, top_k


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr("zslearn._scoring._blocks.WORTH_COMPILED", 0)


def _sorted(scores, k):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


# Around the widths of runs and of what is looked at together, of tiles, and of lists.
SIZES = [1, 7, 16, 17, 100, 511, 513, 1000, 1024, 1025, 2100]
LENGTHS = [1, 3, 4, 5, 20, 32, 33, 64, 65, 300]


@pytest.mark.parametrize("n_classes", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_size_and_many_equals(n_classes, dtype):
    """Whole numbers score without rounding: most of them are equal to others."""
    rng = np.random.default_rng(n_classes)
    X, P = rng.integers(-2, 3, (40, 6)).astype(dtype), rng.integers(-2, 3, (n_classes, 6))
    full = X @ P.T.astype(dtype)
    biased = full + (np.arange(n_classes) % 3).astype(dtype)
    for k in sorted({min(k, n_classes) for k in LENGTHS}):
        for bias, scores in ((None, full), (np.arange(n_classes) % 3, biased)):
            indices, values = top_k(X, P.astype(dtype), k, bias=bias)
            order, best = _sorted(scores, k)
            np.testing.assert_array_equal(indices, order)
            np.testing.assert_array_equal(values, best)


@pytest.mark.parametrize("n_classes", [18, 600, 1000, 1500])
@pytest.mark.parametrize("biased", [False, True])
def test_distances(n_classes, biased):
    rng = np.random.default_rng(0)
    X, P = rng.standard_normal((30, 8)), rng.standard_normal((n_classes, 8))
    P[n_classes // 2 :] = P[: n_classes // 2]  # every class twice
    bias = rng.standard_normal(n_classes) if biased else None
    full = class_scores(X, P, score="euclidean", bias=bias)
    for k in (1, 5, 12, 17):
        indices, values = top_k(X, P, k, score="euclidean", bias=bias)
        order, best = _sorted(full, k)
        np.testing.assert_allclose(values, best, rtol=1e-12)
        # Two products with the same class may be rounded apart.
        modulus = n_classes if biased else n_classes // 2
        np.testing.assert_array_equal(indices % modulus, order % modulus)


@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "infinite"])
@pytest.mark.parametrize("k", [1, 4, 20, 64])
def test_orders_that_defeat_a_threshold(order, k):
    scores = np.arange(1500, dtype=np.float32)
    scores = {
        "ascending": scores,
        "descending": -scores,
        "equal": np.zeros_like(scores),
        "infinite": np.where(scores % 7 == 0, scores, -np.inf).astype(np.float32),
    }[order]
    # A bias carries infinities that products could not.
    indices, values = top_k(np.ones((3, 1), np.float32), np.zeros((1500, 1)), k, bias=scores)
    expected, best = _sorted(np.tile(scores, (3, 1)), k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, best)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_rows_that_are_not_numbers_are_told(k):
    X = np.ones((5, 3), np.float32)
    X[2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        top_k(X, np.eye(50, 3, dtype=np.float32), k)
