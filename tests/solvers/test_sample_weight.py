"""Weights of rows in the multi-class solvers: a whole number counts a row that many times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from svm_objective import multiclass_svm_objective
from zslearn._solvers.svm._multiclass import loss_and_slope, train_multiclass_svm
from zslearn._solvers.svm._rows import TrainingRows
from zslearn.solvers import multiclass_svm, multiclass_svm_path

LOSSES = ["squared_hinge", "crammer_singer", "struct"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def make_rows(n_samples=70, n_features=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    X = rng.standard_normal((n_classes, n_features))[y] + rng.standard_normal((len(y), n_features))
    return X, y, rng.integers(0, 4, size=n_samples)


def options(loss, n_classes=4):
    if loss != "struct":
        return {"loss": loss}
    points = np.random.default_rng(1).standard_normal((n_classes, 2))
    margins = np.linalg.norm(points[:, None] - points[None], axis=2)
    return {"loss": "crammer_singer", "margins": margins}


@every_loss
@pytest.mark.parametrize("alpha", [1.0, 1e-2])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("shape", [(70, 6), (30, 90)], ids=["N > D", "N < D"])
def test_whole_weights_repeat_rows(loss, alpha, mixed, shape):
    X, y, counts = make_rows(*shape)
    mixing = np.random.default_rng(2).standard_normal((4, 3)) if mixed else None
    problem = options(loss) | {"alpha": alpha, "mixing": mixing, "n_classes": 4}
    problem |= {"tol": 1e-6, "max_iter": 20_000, "random_state": 0}
    weighted = multiclass_svm(X, y, sample_weight=counts, **problem)
    repeated = multiclass_svm(np.repeat(X, counts, axis=0), np.repeat(y, counts), **problem)
    assert weighted.converged
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-6)
    # Two solutions within their gaps of one minimum: ‖U − U′‖ ≤ 2 √(2 gap / α).
    gap = max(weighted.dual_gap, repeated.dual_gap)
    distance = np.linalg.norm(weighted.base - repeated.base)
    assert distance <= 2 * np.sqrt(2 * gap / alpha) + 1e-9 * np.linalg.norm(repeated.base)
    assert weighted.gain == pytest.approx(repeated.gain, rel=1e-3)


def test_whole_weights_repeat_rows_in_direct_steps(monkeypatch):
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._MAX_CG", 0)
    for shape in ((70, 6), (30, 90)):
        X, y, counts = make_rows(*shape)
        weighted, repeated = (
            multiclass_svm(*rows, alpha=1e-3, tol=1e-10, n_classes=4, **more)
            for rows, more in (
                ((X, y), {"sample_weight": counts}),
                ((np.repeat(X, counts, axis=0), np.repeat(y, counts)), {}),
            )
        )
        assert weighted.converged
        np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-4, atol=1e-5)


@every_loss
@pytest.mark.parametrize("single", [False, True])
def test_the_certificate_holds_against_another_minimiser(loss, single, monkeypatch):
    if single:  # visits and products in single precision
        monkeypatch.setattr("zslearn._solvers.svm._rows._SMALL", 0)
    X, y, _ = make_rows(40, 5)
    weights = np.random.default_rng(3).exponential(size=len(y))
    chosen, alpha = options(loss), 0.05
    margins = chosen.get("margins")

    def objective(flat):
        value, slope = loss_and_slope(
            X @ flat.reshape(4, 5).T, y, chosen["loss"], margins, sample_weight=weights
        )
        return value + alpha / 2 * flat @ flat, (slope.T @ X).ravel() + alpha * flat

    rough, fine = (
        multiclass_svm(X, y, alpha=alpha, sample_weight=weights, tol=tol, random_state=0, **chosen)
        for tol in (0.1, 1e-6)
    )
    found = min(
        minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000}).fun
        for start in (np.zeros(20), fine.coef.ravel(), rough.coef.ravel())
    )
    for result in (rough, fine):
        assert result.objective == pytest.approx(objective(result.coef.ravel())[0], rel=1e-9)
        assert result.objective == pytest.approx(
            multiclass_svm_objective(
                X, y, result.coef, alpha=alpha, sample_weight=weights, **chosen
            )
        )
        assert result.objective - result.dual_gap <= found * (1 + 1e-12)
    assert fine.objective - fine.dual_gap <= found <= rough.objective
    if loss == "squared_hinge":
        assert fine.objective == pytest.approx(found, rel=1e-5)


@every_loss
def test_slope_of_the_weighted_loss_is_its_derivative(loss):
    rng = np.random.default_rng(0)
    scores, y, weights = rng.standard_normal((8, 4)), np.arange(8) % 4, rng.random(8)
    chosen = options(loss)
    given = (y, chosen["loss"], chosen.get("margins"))
    step = 1e-6 * rng.standard_normal(scores.shape)
    ahead, behind = (
        loss_and_slope(scores + sign * step, *given, sample_weight=weights)[0] for sign in (1, -1)
    )
    slope = loss_and_slope(scores, *given, sample_weight=weights)[1]
    assert (ahead - behind) / 2 == pytest.approx(np.sum(slope * step), rel=1e-6)


@every_loss
def test_equal_weights_are_none(loss):
    X, y, _ = make_rows()
    assert TrainingRows(X, y, sample_weight=np.full(len(y), 3)).sample_weight is None
    problem = options(loss) | {"alpha": 0.1, "random_state": 0}
    plain = multiclass_svm(X, y, **problem)
    equal = multiclass_svm(X, y, sample_weight=np.full(len(y), 0.3), **problem)
    np.testing.assert_array_equal(equal.coef, plain.coef)


@every_loss
def test_scale_of_the_weights_does_not_matter_and_a_path_takes_them(loss):
    X, y, counts = make_rows()
    problem = options(loss) | {"tol": 1e-8, "random_state": 0}
    path = multiclass_svm_path(X, y, alphas=[0.01, 1.0], sample_weight=counts, **problem)
    rows = TrainingRows(X, y, sample_weight=7.5 * counts)
    assert rows.sample_weight.mean() == pytest.approx(1)
    for result in path:
        again = train_multiclass_svm(rows, alpha=result.alpha, **problem)
        assert again.objective == pytest.approx(result.objective, rel=1e-7)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@every_loss
def test_other_libraries(loss, library):
    xp = pytest.importorskip(library)
    X, y, counts = make_rows(30, 40)
    problem = options(loss) | {"alpha": 0.1, "tol": 1e-8, "random_state": 0, "n_classes": 4}
    expected = multiclass_svm(X, y, sample_weight=counts, **problem)
    found = multiclass_svm(xp.asarray(X), y, sample_weight=xp.asarray(counts), **problem)
    assert type(found.coef) is type(xp.asarray(X))
    np.testing.assert_allclose(np.asarray(found.coef), expected.coef, atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one number per sample, 70 in all"),
        (np.ones((70, 1)), "one number per sample"),
        (-np.ones(70), "finite and not negative"),
        (np.zeros(70), "zero for every sample"),
        (np.full(70, np.nan), "finite and not negative"),
        (np.full(70, np.inf), "finite and not negative"),
    ],
)
def test_bad_weights(weights, message):
    X, y, _ = make_rows()
    with pytest.raises(ValueError, match=message):
        multiclass_svm(X, y, alpha=1.0, sample_weight=weights)
