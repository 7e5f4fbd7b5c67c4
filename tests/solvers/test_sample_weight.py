"""Weights of rows in the multi-class solvers: a whole number counts a row that many times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from svm_objective import multiclass_svm_objective
from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.solvers import multiclass_svm

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


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one number per sample, 70 in all"),
        (np.ones((70, 1)), "one number per sample"),
        (-np.ones(70), "finite and non-negative"),
        (np.zeros(70), "zero for all samples"),
        (np.full(70, np.nan), "finite and non-negative"),
        (np.full(70, np.inf), "finite and non-negative"),
    ],
)
def test_bad_weights(weights, message):
    X, y, _ = make_rows()
    with pytest.raises(ValueError, match=message):
        multiclass_svm(X, y, alpha=1.0, sample_weight=weights)
