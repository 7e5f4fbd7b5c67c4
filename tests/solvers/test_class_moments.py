from __future__ import annotations

import numpy as np
import pytest

from zslearn.base._class_statistics import (
    class_means,
    class_moments,
    class_squares,
    mean_square_distance,
)
from zslearn.synthesis import ClassStatistics

N_CLASSES = 4


def _samples(offset=0.0, dtype=np.float64, n_samples=57, seed=0):
    """Samples of four classes in mixed order, each class present."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(N_CLASSES), rng.integers(N_CLASSES, size=n_samples - N_CLASSES)])
    rng.shuffle(y)
    return (rng.normal(size=(n_samples, 6)) + y[:, None] + offset).astype(dtype), y


def _plain(X, y, components=None):
    """Means, and sums of squared deviations from these, class by class in one step."""
    X = X.astype(np.longdouble)
    means = np.stack([X[y == c].mean(axis=0) for c in range(N_CLASSES)])
    deviations = X - means[y]
    if components is not None:
        deviations = deviations @ components
    squares = np.stack([(deviations[y == c] ** 2).sum(axis=0) for c in range(N_CLASSES)])
    return means.astype(float), deviations.astype(float), squares.astype(float)


@pytest.fixture(params=[None, 1, 1000], ids=["one block", "single rows", "small blocks"])
def budget(request, block_bytes):
    """Blocks of all rows, of single rows and of a few."""
    if request.param is not None:
        block_bytes(request.param)
    return request.param


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("with_components", [False, True])
@pytest.mark.usefixtures("budget")
def test_means_and_squares(dtype, with_components):
    X, y = _samples(dtype=dtype)
    components = np.random.default_rng(1).normal(size=(6, 3)) if with_components else None
    means, _, squares = _plain(X, y, components)
    found = class_means(X, y, N_CLASSES)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, means, rtol=1e-13)
    found_squares = class_squares(X, y, found, components)
    assert found_squares.dtype == np.float64
    np.testing.assert_allclose(found_squares, squares, rtol=1e-12)


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


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("budget")
def test_moments(center, weighted):
    X, y = _samples(dtype=np.float32)
    weight = np.random.default_rng(2).uniform(0.1, 2.0, size=len(y)) if weighted else None
    moments = class_moments(X, y, N_CLASSES, center=center, sample_weight=weight)
    wide = X.astype(np.float64)
    mean = np.average(wide, axis=0, weights=weight) if center else np.zeros(6)
    counted = (wide - mean) * (np.ones(len(y)) if weight is None else weight)[:, None]
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(moments.gram, (wide - mean).T @ counted, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        moments.class_sums, np.eye(N_CLASSES)[y].T @ counted, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mean_square_distance_is_the_sum_of_variances(budget, offset, dtype):
    X, _ = _samples(offset, dtype)
    expected = X.astype(np.longdouble).var(axis=0).sum()
    assert mean_square_distance(X) == pytest.approx(float(expected), rel=1e-9)


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
