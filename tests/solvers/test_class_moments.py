from __future__ import annotations

import numpy as np
import pytest

from zslearn.base._class_statistics import (
    class_means,
    class_moments,
    class_squares,
)
from zslearn.synthesis import ClassStatistics

N_CLASSES = 4


def _samples(offset=0.0, dtype=np.float64, n_samples=57, seed=0):
    """Samples of four classes in mixed order, each class present."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(N_CLASSES), rng.integers(N_CLASSES, size=n_samples - N_CLASSES)])
    rng.shuffle(y)
    return (rng.normal(size=(n_samples, 6)) + y[:, None] + offset).astype(dtype), y


@pytest.fixture(params=[None, 1, 1000], ids=["one block", "single rows", "small blocks"])
def budget(request, block_bytes):
    """Blocks of all rows, of single rows and of a few."""
    if request.param is not None:
        block_bytes(request.param)
    return request.param


def test_an_offset_costs_no_digits():
    X, y = _samples(offset=1e6, n_samples=20_000)
    X = X.astype(np.longdouble)
    exact = np.stack([X[y == c].mean(axis=0) for c in range(N_CLASSES)])
    found = class_means(X.astype(np.float64), y, N_CLASSES)
    # The last addition rounds by half a unit in the last place; sums around zero by several.
    assert np.max(np.abs(found - exact) / np.spacing(1e6)) < 0.55
    deviations = X - exact[y]
    squares = np.stack([(deviations[y == c] ** 2).sum(axis=0) for c in range(N_CLASSES)])
    found_squares = class_squares(X.astype(np.float64), y, found)
    np.testing.assert_allclose(found_squares, squares.astype(float), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_rows(budget, weighted):
    X, y = _samples(offset=1e5)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    labels = np.array(["a", "b", "c", "d"])
    found = ClassStatistics.of_rows(X, y, labels, weights=weights)
    expected = ClassStatistics.of_block(X, labels[y], weights)
    for name in ("classes", "counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("sizes", "means", "squares", "scatter"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    for center in (True, False):
        gram, sums, mean = found.moments(center=center)
        direct = class_moments(X, y, N_CLASSES, center=center, sample_weight=weights)
        np.testing.assert_allclose(gram, direct.gram, rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(sums, direct.class_sums, rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(mean, direct.mean, rtol=1e-12)
