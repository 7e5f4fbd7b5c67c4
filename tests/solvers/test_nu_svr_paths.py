"""ν-SVR over several kernels at once: one batch that problems enter and leave."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from zslearn._solvers.nu_svr import _batched as batched
from zslearn._solvers.nu_svr._path import nu_svr_paths
from zslearn.solvers import nu_svr_path

GAMMAS = (0.05, 0.3, 5.0)
GRID = {"C": [0.03125, 0.125, 0.5, 2.0, 8.0], "nu": [1 / 64, 1 / 16, 0.25, 1.0]}


@pytest.fixture(autouse=True)
def one_torch_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 3))
    Y = np.sin(points @ rng.normal(size=(3, 5))) + 0.3 * rng.normal(size=(30, 5))
    Y[:, 4] = 1.5  # a target that is constant
    squares = cdist(points, points, "sqeuclidean")
    return [np.exp(-gamma * squares) for gamma in GAMMAS], 0.3 * Y


def _as_torch(kernels, Y):
    import torch

    return [torch.asarray(K) for K in kernels], torch.asarray(Y)


def _violation(K, y, beta, C, nu):
    """The optimality conditions, written down once more and slowly."""
    r = y - K @ beta
    up, down = r[beta < C], r[beta > -C]
    if np.abs(beta).sum() < C * nu * len(y) * (1 - 1e-10):
        return max(0.0, up.max() - down.min())
    above, below = r[beta > 0], r[beta < 0]
    return max(0.0, up.max() - above.min(), below.max() - down.min())


def _check(kernels, Y, found, tol):
    """Every pair of settings in its order, within the constraints, with a true certificate."""
    order = [(k, C, nu) for k in range(len(kernels)) for C in GRID["C"] for nu in GRID["nu"]]
    assert [(number, fit.C, fit.nu) for number, fit in found] == order
    n = len(Y)
    for number, fit in found:
        K, coef = kernels[number], np.asarray(fit.coef)
        assert coef.shape == Y.shape
        assert np.abs(coef).max() <= fit.C
        assert np.abs(coef).sum(axis=0).max() <= fit.C * fit.nu * n * (1 + 1e-9)
        assert np.abs(coef.sum(axis=0)).max() <= 1e-9 * fit.C * n
        for j in range(Y.shape[1] - 1):
            true = _violation(K, Y[:, j], coef[:, j], fit.C, fit.nu)
            assert true <= tol + 1e-9
            np.testing.assert_allclose(np.asarray(fit.violation)[j], true, atol=1e-9)


@pytest.mark.slow
def test_kernels_together_agree_with_each_on_the_host(problem):
    kernels, Y = problem
    tensors = _as_torch(kernels, Y)
    found = list(nu_svr_paths(*tensors, **GRID, tol=1e-5))
    _check(kernels, Y, found, 1e-5)
    exact = list(nu_svr_paths(kernels, Y, **GRID, tol=1e-8))
    assert [(n, fit.C, fit.nu) for n, fit in exact] == [(n, fit.C, fit.nu) for n, fit in found]
    for (number, fit), (_, other) in zip(exact, found, strict=True):
        K = kernels[number]
        np.testing.assert_allclose(
            K @ np.asarray(other.coef), K @ fit.coef, atol=1e-2 * np.abs(Y).max()
        )
        np.testing.assert_allclose(np.asarray(other.epsilon), fit.epsilon, atol=1e-3)


@pytest.mark.slow
def test_a_small_batch_gives_the_same(problem, monkeypatch):
    kernels, Y = problem
    tensors = _as_torch(kernels, Y)
    whole = list(nu_svr_paths(*tensors, **GRID))
    # Seven problems at a time, and the solutions of four settings.
    monkeypatch.setattr(batched, "_BATCH_BYTES", 7 * 8 * 30)
    parts = list(nu_svr_paths(*tensors, **GRID))
    _check(kernels, Y, parts, 1e-3)
    for (_, fit), (_, other) in zip(whole, parts, strict=True):
        np.testing.assert_allclose(np.asarray(other.coef), np.asarray(fit.coef), atol=1e-9)
        np.testing.assert_array_equal(np.asarray(other.n_iter), np.asarray(fit.n_iter))
    monkeypatch.setattr(batched, "_RESULT_BYTES", 4 * 8 * 30 * 5)
    _check(kernels, Y, list(nu_svr_paths(*tensors, **GRID)), 1e-3)


def test_one_kernel_at_a_time_on_the_host(problem):
    kernels, Y = problem
    asked = []

    def lazily():
        for number, K in enumerate(kernels):
            asked.append(number)
            yield K

    paths = nu_svr_paths(lazily(), Y, C=[0.5], nu=[0.25, 1.0], tol=1e-6)
    number, fit = next(paths)
    assert (number, asked) == (0, [0])
    first = next(iter(nu_svr_path(kernels[0], Y, C=[0.5], nu=[0.25, 1.0], tol=1e-6)))
    np.testing.assert_array_equal(fit.coef, first.coef)
    assert [n for n, _ in paths] == [0, 1, 1, 2, 2]


def test_singular_kernel_and_constant_targets(problem):
    kernels, Y = problem
    K = np.ones_like(kernels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(nu_svr_paths(*_as_torch([K, kernels[2]], Y), **GRID))
    _check([K, kernels[2]], Y, found, 1e-3)
    for _, fit in found:
        np.testing.assert_allclose(np.asarray(fit.coef)[:, 4], 0.0, atol=1e-8)
        np.testing.assert_allclose(float(fit.intercept[4]), 0.45, atol=1e-6)


@pytest.mark.parametrize("bad", ["kernel", "targets"])
def test_numbers_that_are_not_finite(problem, bad):
    kernels, Y = problem
    if bad == "kernel":
        kernels[1][0, 0] = np.nan
    else:
        Y[0, 0] = np.inf
    with pytest.raises(ValueError, match="must be finite"):
        list(nu_svr_paths(*_as_torch(kernels, Y), **GRID))
