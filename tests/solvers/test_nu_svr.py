from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import NuSVR

from zslearn._solvers.nu_svr import _batched as batched
from zslearn._solvers.nu_svr._path import NuSVRResult, nu_svr_paths
from zslearn.solvers import nu_svr, nu_svr_path


def _kernel(points, gamma=0.3):
    return np.exp(-gamma * cdist(points, points, "sqeuclidean"))


def _problem(n=30, n_targets=6, seed=0, gamma=0.3, scale=1.0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    Y = np.sin(points @ rng.normal(size=(3, n_targets))) + 0.3 * rng.normal(size=(n, n_targets))
    return _kernel(points, gamma), scale * Y


def _objective(K, Y, coef):
    return 0.5 * np.einsum("id,ij,jd->d", coef, K, coef) - (Y * coef).sum(axis=0)


def _violation(K, y, beta, C, nu):
    """The optimality conditions, written down once more and slowly."""
    r = y - K @ beta
    up, down = r[beta < C], r[beta > -C]
    if np.abs(beta).sum() < C * nu * len(y) * (1 - 1e-10):
        return max(0.0, up.max() - down.min())
    above, below = r[beta > 0], r[beta < 0]
    return max(0.0, up.max() - above.min(), below.max() - down.min())


def _check(K, Y, fit, tol):
    """Constraints hold, the certificate is true and small."""
    n = len(K)
    assert np.abs(fit.coef).max() <= fit.C
    assert np.abs(fit.coef).sum(axis=0).max() <= fit.C * fit.nu * n * (1 + 1e-9)
    assert np.abs(fit.coef.sum(axis=0)).max() <= 1e-9 * fit.C * n
    true = [_violation(K, Y[:, j], fit.coef[:, j], fit.C, fit.nu) for j in range(Y.shape[1])]
    np.testing.assert_allclose(fit.violation, true, atol=1e-10 * np.abs(Y).max() * (1 + fit.C * n))
    assert fit.violation.max() <= tol


def _libsvm(K, y, C, nu, tol=1e-10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = NuSVR(kernel="precomputed", C=C, nu=nu, tol=tol, max_iter=500_000).fit(K, y)
    beta = np.zeros(len(K))
    beta[model.support_] = model.dual_coef_[0]
    return model, beta


def test_agrees_with_libsvm():
    grid = itertools.product([1e-6, 0.03, 1.0, 30.0], [1 / 256, 0.2, 0.5, 1.0], [0.02, 0.3, 5.0])
    for C, nu, gamma in grid:
        _check_against_libsvm(C, nu, gamma)


def _check_against_libsvm(C, nu, gamma):
    K, Y = _problem(gamma=gamma)
    fit = nu_svr(K, Y, C=C, nu=nu, tol=1e-10)
    _check(K, Y, fit, 1e-10)
    ours = _objective(K, Y, fit.coef)
    for j in range(Y.shape[1]):
        model, beta = _libsvm(K, Y[:, j], C, nu)
        theirs = _objective(K, Y[:, [j]], beta[:, None])[0]
        # LIBSVM keeps its kernel in single precision.
        assert ours[j] <= theirs + 1e-9 * (1 + abs(theirs))
        if model.fit_status_ == 0:
            np.testing.assert_allclose(ours[j], theirs, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(K @ fit.coef[:, j], K @ beta, atol=2e-4)
            inside = (np.abs(beta) > 1e-9 * C) & (np.abs(beta) < C * (1 - 1e-9))
            if (inside & (beta > 0)).any() and (inside & (beta < 0)).any():
                np.testing.assert_allclose(fit.intercept[j], model.intercept_[0], atol=2e-4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 25),
    C=st.sampled_from([1e-4, 0.1, 1.0, 100.0]),
    nu=st.floats(0.01, 1.0),
    equal_points=st.booleans(),
)
def test_certificate_is_true(seed, n, C, nu, equal_points):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 2))
    if equal_points:
        points[n // 2 :] = points[: n - n // 2]
    K, Y = _kernel(points), rng.normal(size=(n, 3))
    fit = nu_svr(K, Y, C=C, nu=nu, tol=1e-7)
    _check(K, Y, fit, 1e-7)
    # A share ν at least supports, at most lies outside of the tube.
    outside = np.abs(Y - fit.predict(K)) > fit.epsilon + 1e-5
    assert (outside.sum(axis=0) <= nu * n + 1e-6).all()
    wide = fit.epsilon > 1e-6
    assert (np.count_nonzero(fit.coef, axis=0)[wide] >= nu * n - 1e-6).all()


def test_singular_kernels():
    Y = np.random.default_rng(0).normal(size=(12, 3))
    rank_one = np.outer(np.arange(12.0), np.arange(12.0))
    for K in (np.ones((12, 12)), np.zeros((12, 12)), rank_one):
        _check(K, Y, nu_svr(K, Y, C=2.0, nu=0.4, tol=1e-9), 1e-9)


def test_constant_targets_need_no_support():
    K, Y = _problem()
    fit = nu_svr(K, np.full_like(Y, 2.5))
    assert not fit.coef.any()
    np.testing.assert_array_equal(fit.intercept, 2.5)
    assert not fit.violation.any()


def test_interpolates_where_the_constraints_allow():
    K, Y = _problem(n=15, gamma=20.0)
    fit = nu_svr(K, Y, C=1000.0, nu=1.0, tol=1e-10)
    np.testing.assert_allclose(fit.predict(K), Y, atol=1e-9)
    assert not fit.n_iter.any()


@pytest.mark.parametrize("C", [0.9, 1.2, 1.5])
def test_few_coefficients_at_their_bounds_need_no_solver(monkeypatch, C):
    """Targets that hold some at ±C are solved without a step; the others as ever."""
    monkeypatch.setattr("zslearn._solvers.nu_svr._path._FEW_POINTS", 10)
    K, Y = _problem(n=80, n_targets=40, gamma=20.0)
    fit = nu_svr(K, Y, C=C, nu=1.0, tol=1e-9)
    _check(K, Y, fit, 1e-9)
    at_bound = (np.abs(fit.coef) == C).any(axis=0)
    assert (at_bound & (fit.n_iter == 0)).any()
    monkeypatch.setattr("zslearn._solvers.nu_svr._path._FEW_POINTS", 10**9)
    other = nu_svr(K, Y, C=C, nu=1.0, tol=1e-9)
    assert other.n_iter[at_bound].all()
    np.testing.assert_allclose(fit.coef, other.coef, rtol=0, atol=1e-6)
    np.testing.assert_allclose(fit.intercept, other.intercept, rtol=0, atol=1e-8)


def test_held_coefficients_of_an_ill_conditioned_kernel(monkeypatch):
    monkeypatch.setattr("zslearn._solvers.nu_svr._path._FEW_POINTS", 10)
    K, Y = _problem(n=60, gamma=0.3)
    for fit in nu_svr_path(K, Y, C=[1e-3, 1.0, 1e3, 1e9], nu=[0.01, 0.3, 1.0], tol=1e-7):
        _check(K, Y, fit, 1e-7)


def test_path_agrees_with_single_settings_in_any_order():
    K, Y = _problem(n=40, scale=0.2)
    C, nu = [4.0, 0.03125, 1.0, 0.25], [1.0, 0.0625, 0.25, 0.5, 1 / 64]
    path = list(nu_svr_path(K, Y, C=C, nu=nu, tol=1e-9))
    assert [(fit.C, fit.nu) for fit in path] == list(itertools.product(sorted(C), sorted(nu)))
    for fit in path:
        _check(K, Y, fit, 1e-9)
        alone = nu_svr(K, Y, C=fit.C, nu=fit.nu, tol=1e-9)
        np.testing.assert_allclose(
            _objective(K, Y, fit.coef), _objective(K, Y, alone.coef), rtol=1e-8, atol=1e-9
        )
        np.testing.assert_allclose(K @ fit.coef, K @ alone.coef, atol=1e-4)


def test_threads_change_nothing():
    K, Y = _problem(n_targets=50)
    one, two = nu_svr(K, Y, n_jobs=1), nu_svr(K, Y, n_jobs=2)
    np.testing.assert_array_equal(one.coef, two.coef)


def test_reaches_1e_10_on_an_ill_conditioned_kernel():
    K, Y = _problem(n=80, gamma=0.005, scale=0.1)
    assert np.linalg.cond(K) > 1e12
    _check(K, Y, nu_svr(K, Y, C=32.0, nu=0.5, tol=1e-10), 1e-10)


def test_says_when_the_tolerance_is_missed():
    K, Y = _problem()
    with pytest.warns(ConvergenceWarning, match="miss tol=1e-06 after 3 steps"):
        fit = nu_svr(K, Y, C=0.3, tol=1e-6, max_iter=3)
    assert fit.violation.max() > 1e-6


@pytest.fixture
def one_torch_thread():
    # Arrays here are so small that threads only wait for each other.
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.slow
def test_batched_finishes_on_the_host():
    torch = pytest.importorskip("torch")
    K, Y = _problem(n=30, n_targets=3, gamma=0.05)
    fit = nu_svr(torch.asarray(K), torch.asarray(Y), C=2.0, nu=0.3, tol=1e-9)
    assert float(fit.violation.max()) <= 1e-9
    expected = nu_svr(K, Y, C=2.0, nu=0.3, tol=1e-9)
    np.testing.assert_allclose(fit.predict(torch.asarray(K)), expected.predict(K), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nu": 0.0}, r"nu must be in \(0, 1\]"),
        ({"nu": 1.5}, r"nu must be in \(0, 1\]"),
        ({"nu": float("nan")}, r"nu must be in \(0, 1\]"),
        ({"C": 0.0}, "C must be a positive number"),
        ({"C": float("inf")}, "C must be a positive number"),
        ({"tol": 0.0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"K": np.ones((3, 4))}, "K must be square"),
        ({"K": np.triu(np.ones((5, 5)))}, "K must be symmetric"),
        ({"K": np.full((5, 5), np.nan)}, "K contains NaN"),
        ({"Y": np.ones((4, 2))}, "Y has 4 rows"),
    ],
)
def test_bad_input(change, message):
    given = {"K": np.eye(5), "Y": np.ones((5, 2)), **change}
    with pytest.raises(ValueError, match=message):
        nu_svr(given.pop("K"), given.pop("Y"), **given)


# Several kernels at once: one batch that problems enter and leave.

GAMMAS = (0.05, 0.3, 5.0)
GRID = {"C": [0.03125, 0.125, 0.5, 2.0, 8.0], "nu": [1 / 64, 1 / 16, 0.25, 1.0]}


@pytest.fixture
def kernels_and_targets():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 3))
    Y = np.sin(points @ rng.normal(size=(3, 5))) + 0.3 * rng.normal(size=(30, 5))
    Y[:, 4] = 1.5  # a target that is constant
    squares = cdist(points, points, "sqeuclidean")
    return [np.exp(-gamma * squares) for gamma in GAMMAS], 0.3 * Y


def _as_torch(kernels, Y):
    torch = pytest.importorskip("torch")
    return [torch.asarray(K) for K in kernels], torch.asarray(Y)


def _check_paths(kernels, Y, found, tol):
    """Every pair of settings in its order, within the constraints, with a true certificate."""
    order = [(k, C, nu) for k in range(len(kernels)) for C in GRID["C"] for nu in GRID["nu"]]
    assert [(number, fit.C, fit.nu) for number, fit in found] == order
    for number, fit in found:
        arrays = (fit.coef, fit.intercept, fit.epsilon, fit.violation, fit.n_iter)
        on_host = NuSVRResult(fit.C, fit.nu, *(np.asarray(array)[..., :4] for array in arrays))
        _check(kernels[number], Y[:, :4], on_host, tol + 1e-9)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.slow
def test_kernels_together_agree_with_each_on_the_host(kernels_and_targets, library):
    kernels, Y = kernels_and_targets
    xp = pytest.importorskip(library)
    tensors = [xp.asarray(K) for K in kernels], xp.asarray(Y)
    found = list(nu_svr_paths(*tensors, **GRID, tol=1e-5))
    _check_paths(kernels, Y, found, 1e-5)
    assert all(type(fit.coef) is type(tensors[1]) for _, fit in found)
    exact = list(nu_svr_paths(kernels, Y, **GRID, tol=1e-8))
    assert [(n, fit.C, fit.nu) for n, fit in exact] == [(n, fit.C, fit.nu) for n, fit in found]
    for (number, fit), (_, other) in zip(exact, found, strict=True):
        K = kernels[number]
        np.testing.assert_allclose(
            K @ np.asarray(other.coef), K @ fit.coef, atol=1e-2 * np.abs(Y).max()
        )
        np.testing.assert_allclose(np.asarray(other.epsilon), fit.epsilon, atol=1e-3)


@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.slow
def test_a_small_batch_gives_the_same(kernels_and_targets, monkeypatch):
    kernels, Y = kernels_and_targets
    tensors = _as_torch(kernels, Y)
    whole = list(nu_svr_paths(*tensors, **GRID))
    # Seven problems at a time, and the solutions of four settings.
    monkeypatch.setattr(batched, "_BATCH_BYTES", 7 * 8 * 30)
    parts = list(nu_svr_paths(*tensors, **GRID))
    _check_paths(kernels, Y, parts, 1e-3)
    for (_, fit), (_, other) in zip(whole, parts, strict=True):
        np.testing.assert_allclose(np.asarray(other.coef), np.asarray(fit.coef), atol=1e-9)
        np.testing.assert_array_equal(np.asarray(other.n_iter), np.asarray(fit.n_iter))
    monkeypatch.setattr(batched, "_RESULT_BYTES", 4 * 8 * 30 * 5)
    _check_paths(kernels, Y, list(nu_svr_paths(*tensors, **GRID)), 1e-3)


def test_one_kernel_at_a_time_on_the_host(kernels_and_targets):
    kernels, Y = kernels_and_targets
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


@pytest.mark.usefixtures("one_torch_thread")
def test_singular_kernel_and_constant_targets(kernels_and_targets):
    kernels, Y = kernels_and_targets
    K = np.ones_like(kernels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(nu_svr_paths(*_as_torch([K, kernels[2]], Y), **GRID))
    _check_paths([K, kernels[2]], Y, found, 1e-3)
    for _, fit in found:
        np.testing.assert_allclose(np.asarray(fit.coef)[:, 4], 0.0, atol=1e-8)
        np.testing.assert_allclose(float(fit.intercept[4]), 0.45, atol=1e-6)


@pytest.mark.parametrize("bad", ["kernel", "targets"])
def test_numbers_that_are_not_finite(kernels_and_targets, bad):
    kernels, Y = kernels_and_targets
    if bad == "kernel":
        kernels[1][0, 0] = np.nan
    else:
        Y[0, 0] = np.inf
    with pytest.raises(ValueError, match="must be finite"):
        list(nu_svr_paths(*_as_torch(kernels, Y), **GRID))
