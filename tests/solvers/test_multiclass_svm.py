"""The multi-class solver against LIBLINEAR, the authors' program, and its own certificate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from svm_objective import multiclass_svm_objective
from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.solvers import multiclass_svm, multiclass_svm_path

LOSSES = ["squared_hinge", "crammer_singer"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def make_rows(n_samples=120, n_features=9, n_classes=5, spread=0.6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    means = rng.standard_normal((n_classes, n_features))
    X = means[y] + spread * rng.standard_normal((n_samples, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def solve(X, y, *, loss, alpha=0.01, tol=1e-8, **changes):
    return multiclass_svm(
        X, y, loss=loss, alpha=alpha, tol=tol, max_iter=20_000, random_state=0, **changes
    )


# Outside references.


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(120, 9), (40, 90)], ids=["N > D", "N < D"])
def test_squared_hinge_is_liblinear_class_by_class(shape, seed):
    X, y = make_rows(*shape, seed=seed)
    n_samples, n_classes = len(y), 5
    alpha = 2.0**-6
    result = solve(X, y, loss="squared_hinge", alpha=alpha, tol=1e-10)
    # LIBLINEAR: ½‖w‖² + C Σ max(0, …)²; ours divided by α.
    C = 1 / (alpha * n_samples * n_classes)
    for c in range(n_classes):
        peer = LinearSVC(
            C=C, loss="squared_hinge", dual=True, fit_intercept=False, tol=1e-10, max_iter=100_000
        ).fit(X, y == c)
        np.testing.assert_allclose(result.coef[c], peer.coef_[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(120, 9), (40, 90)], ids=["N > D", "N < D"])
def test_crammer_singer_is_liblinear(shape, seed):
    X, y = make_rows(*shape, seed=seed)
    alpha = 2.0**-6
    result = solve(X, y, loss="crammer_singer", alpha=alpha, tol=1e-10)
    peer = LinearSVC(
        C=1 / (alpha * len(y)),
        multi_class="crammer_singer",
        fit_intercept=False,
        tol=1e-8,
        max_iter=100_000,
    ).fit(X, y)
    theirs = multiclass_svm_objective(X, y, peer.coef_, loss="crammer_singer", alpha=alpha)
    assert result.objective <= theirs + 1e-12
    assert result.objective >= theirs - 1e-6 * theirs
    np.testing.assert_allclose(result.coef, peer.coef_, atol=2e-3)


@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("name", ["OVO", "CS", "struct"])
@pytest.mark.slow
def test_golden_training(golden_arrays, name, row):
    data, trained = golden_arrays("tiny_ps_data"), golden_arrays("tiny_ps_trainW")
    train = data["tr_loc"] - 1
    X = data["X"][train].astype(np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    seen, y = np.unique(data["Y"][train], return_inverse=True)
    margins = None
    if name == "struct":
        margins = golden_arrays("tiny_ps_sig")["Sig_dist"][np.ix_(seen - 1, seen - 1)]
        np.fill_diagonal(margins, 0)
    problem = {
        "loss": "squared_hinge" if name == "OVO" else "crammer_singer",
        "alpha": float(trained["lam"][row]),
        "margins": margins,
    }
    column = trained["rec_columns"].tolist().index(name)
    value, golden = trained["rec_fval"][row, column], trained[f"W_{name}"][row]
    assert multiclass_svm_objective(X, y, golden, **problem) == pytest.approx(value, rel=1e-13)
    result = solve(X, y, tol=1e-9, **problem)
    assert result.objective <= value + 1e-9
    if name == "OVO":
        assert result.objective == pytest.approx(value, abs=1e-9)
        distance = np.linalg.norm(result.coef - golden) / np.linalg.norm(golden)
        assert distance < 2e-4


# The certificate.


@every_loss
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_samples=st.integers(4, 60),
    n_features=st.integers(1, 30),
    n_classes=st.integers(2, 6),
    alpha=st.sampled_from([1e-4, 1e-2, 1.0, 100.0]),
    mixed=st.booleans(),
)
def test_gap_bounds_the_distance_to_the_minimum(
    loss, seed, n_samples, n_features, n_classes, alpha, mixed
):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    y = rng.integers(0, n_classes, n_samples)
    margins = None
    if loss == "crammer_singer":
        points = rng.standard_normal((n_classes, 2))
        margins = np.linalg.norm(points[:, None] - points[None], axis=2)
    mixing = rng.standard_normal((n_classes, 3)) if mixed else None
    problem = {"loss": loss, "alpha": alpha, "margins": margins, "mixing": mixing}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        rough = multiclass_svm(
            X, y, n_classes=n_classes, tol=0.1, max_iter=5, random_state=0, **problem
        )
        fine = multiclass_svm(
            X, y, n_classes=n_classes, tol=1e-7, max_iter=3000, random_state=1, **problem
        )
    assert rough.objective - rough.dual_gap <= fine.objective * (1 + 1e-9)
    assert fine.objective - fine.dual_gap <= rough.objective * (1 + 1e-9)
    # The reported objective is that of the returned solution.
    penalty = 0.5 * alpha * np.sum(rough.base**2)
    value = loss_and_slope(X @ rough.coef.T, y, loss, margins)[0] + penalty
    assert rough.objective == pytest.approx(value, rel=1e-9)


@every_loss
def test_no_other_minimiser_finds_less(loss):
    X, y = make_rows(60, 6, 4)
    mixing = np.random.default_rng(0).standard_normal((4, 3))
    result = solve(X, y, loss=loss, mixing=mixing)

    def objective(flat):
        base = flat.reshape(3, 6)
        value, slope = loss_and_slope(X @ (mixing @ base).T, y, loss)
        gradient = mixing.T @ slope.T @ X + 0.01 * base
        return value + 0.005 * np.sum(base**2), gradient.ravel()

    for seed in range(3):
        start = np.random.default_rng(seed).standard_normal(18)
        found = minimize(objective, start, jac=True, method="L-BFGS-B")
        assert result.objective <= found.fun + 1e-9
    if loss == "squared_hinge":
        np.testing.assert_allclose(result.base.ravel(), found.x, atol=1e-3)


@every_loss
@pytest.mark.parametrize("alpha", [2.0**-30, 2.0**-20])
def test_nearly_no_penalty(loss, alpha):
    X, y = make_rows(90, 40, 6)
    # At 2^-30 the ascent of Crammer–Singer may stay a little above a gap of 1e-3.
    result = multiclass_svm(X, y, loss=loss, alpha=alpha, tol=5e-3, max_iter=20_000, random_state=0)
    assert result.converged
    assert np.all((X @ result.coef.T).argmax(axis=1) == y)


@pytest.mark.parametrize("max_iter", [1, 7, 60, 300])
@pytest.mark.parametrize("power", [-12, -16, -24])
@pytest.mark.slow
def test_all_attempts_share_the_passes(power, max_iter):
    """If classes overlap, the ascent restarts from larger penalties; every pass is counted."""
    X, y = make_rows(400, 12, 8, spread=1.5)
    problem = {"loss": "crammer_singer", "alpha": 2.0**power}
    with pytest.warns(ConvergenceWarning, match=f"after {max_iter} iterations"):
        result = multiclass_svm(X, y, max_iter=max_iter, random_state=0, **problem)
    assert result.n_iter == max_iter
    assert result.objective == pytest.approx(
        multiclass_svm_objective(X, y, result.coef, **problem), rel=1e-9
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer = multiclass_svm(X, y, max_iter=4 * max_iter, random_state=0, **problem)
    assert result.objective - result.dual_gap <= longer.objective * (1 + 1e-9)
    assert longer.objective - longer.dual_gap <= result.objective * (1 + 1e-9)


def test_a_small_penalty_is_reached_from_larger_ones():
    X, y = make_rows(400, 12, 8, spread=1.5)
    problem = {"loss": "crammer_singer", "alpha": 2.0**-20, "max_iter": 400, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        result = multiclass_svm(X, y, **problem)
    assert result.relative_gap < 0.05  # straight from zero it stays above a half


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("alpha", "tol"), [(2.0**-26, 1e-3), (2.0**-10, 1e-7)])
@pytest.mark.slow
def test_single_precision_does_not_hold_up_the_gap(dtype, alpha, tol):
    """Rows enough for visits in single precision; an objective, or a gap, below its rounding."""
    X, y = make_rows(1100, 1024, 20, spread=2.0)
    result = multiclass_svm(
        X.astype(dtype), y, loss="crammer_singer", alpha=alpha, tol=tol, max_iter=60, random_state=0
    )
    assert result.dual_gap <= tol * result.objective
    assert result.objective == pytest.approx(
        multiclass_svm_objective(
            X.astype(dtype), y, result.coef, loss="crammer_singer", alpha=alpha
        )
    )


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_units_that_single_precision_cannot_hold(unit):
    X, y = make_rows(1100, 1024, 20, spread=2.0)
    given = {"loss": "crammer_singer", "tol": 1e-4, "max_iter": 60, "random_state": 0}
    result = multiclass_svm(unit * X, y, alpha=2.0**-10 * unit**2, **given)
    expected = multiclass_svm(X, y, alpha=2.0**-10, **given)
    assert result.converged
    assert result.objective == pytest.approx(expected.objective, rel=2e-4)


# Properties.


@every_loss
def test_path_equals_single_solves(loss):
    X, y = make_rows()
    alphas = [0.003, 1.0, 0.1, 0.003]
    path = multiclass_svm_path(X, y, loss=loss, alphas=alphas, tol=1e-8, random_state=0)
    assert [result.alpha for result in path] == alphas
    for result in path:
        single = solve(X, y, loss=loss, alpha=result.alpha)
        assert result.objective == pytest.approx(single.objective, rel=1e-7)
        np.testing.assert_allclose(result.coef, single.coef, atol=2e-3)


def test_warm_start_saves_passes():
    X, y = make_rows(400, 20)
    cold = solve(X, y, loss="crammer_singer", alpha=2.0**-10, tol=1e-6)
    near = solve(X, y, loss="crammer_singer", alpha=2.0**-9, tol=1e-6)
    warm = solve(X, y, loss="crammer_singer", alpha=2.0**-10, tol=1e-6, warm_start=near)
    again = solve(X, y, loss="crammer_singer", alpha=2.0**-10, tol=1e-6, warm_start=warm)
    assert warm.n_iter < cold.n_iter
    assert again.n_iter == 0


@every_loss
def test_float32_rows(loss, monkeypatch, block_bytes):
    monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 0)
    block_bytes(3000)
    X, y = make_rows()
    single = solve(X.astype(np.float32), y, loss=loss, tol=1e-6)
    double = solve(X.astype(np.float32).astype(np.float64), y, loss=loss)
    assert single.converged
    assert single.objective == pytest.approx(double.objective, rel=2e-6)
    np.testing.assert_allclose(single.coef, double.coef, atol=5e-3)


@every_loss
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(loss, mixed, library):
    xp = pytest.importorskip(library)
    X, y = make_rows(40, 50)
    mixing = np.random.default_rng(0).standard_normal((5, 3)) if mixed else None
    expected = solve(X, y, loss=loss, mixing=mixing)
    result = solve(xp.asarray(X), y, loss=loss, mixing=mixing)
    assert type(result.coef) is type(xp.asarray(X))
    assert result.objective == pytest.approx(expected.objective, rel=1e-7)
    np.testing.assert_allclose(np.asarray(result.coef), expected.coef, atol=1e-4)


# Odd input.


@every_loss
def test_class_with_one_sample_or_none(loss):
    X, y = make_rows()
    y[y == 4] = 3
    y[0] = 4
    result = solve(X, y, loss=loss, n_classes=6)
    assert result.coef.shape == (6, 9)
    assert result.converged


@every_loss
def test_zero_row(loss):
    X, y = make_rows()
    X[3] = 0
    result = solve(X, y, loss=loss)
    assert result.converged
    np.testing.assert_allclose(
        result.objective,
        multiclass_svm_objective(X, y, result.coef, loss=loss, alpha=0.01),
        rtol=1e-12,
    )


@every_loss
def test_warns_with_what_to_change(loss):
    X, y = make_rows(100, 30)
    with pytest.warns(ConvergenceWarning, match=r"Increase max_iter=1, alph"):
        result = multiclass_svm(X, y, loss=loss, alpha=1e-6, tol=1e-9, max_iter=1, random_state=0)
    assert not result.converged
    assert result.relative_gap > 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive"),
        ({"alpha": -1.0}, "alpha must be a positive"),
        ({"alpha": np.inf}, "alpha must be a positive"),
        ({"loss": "hinge"}, "is not one of"),
        ({"margins": np.ones((5, 5))}, "diagonal of zeros"),
        ({"margins": np.zeros((4, 4)), "n_classes": 5}, "5 × 5"),
        ({"mixing": np.ones((4, 2)), "n_classes": 5}, "one row per class"),
        ({"n_classes": 3}, "Labels must lie in"),
        ({"y": np.zeros(120, dtype=int)}, "at least two"),
        ({"y": np.zeros(120)}, "one integer per row"),
        ({"y": np.zeros(7, dtype=int)}, "one integer per row"),
        ({"X": np.ones(120)}, "table of rows"),
    ],
)
def test_bad_input(changes, message):
    X, y = make_rows()
    given_ = {"X": X, "y": y, "alpha": 0.1, "loss": "crammer_singer", **changes}
    with pytest.raises(ValueError, match=message):
        multiclass_svm(given_.pop("X"), given_.pop("y"), **given_)
