"""A gap is small beside what training gains, not beside an objective that hardly moves.

References are SciPy's general minimisers: L-BFGS for smooth losses, and SLSQP for Crammer–Singer,
written as a quadratic programme with one slack per row.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.exceptions import ConvergenceWarning

from svm_objective import multiclass_svm_objective
from zslearn import SynC
from zslearn.datasets import load_glyphs
from zslearn.solvers import logistic_path, multiclass_svm, multiclass_svm_path, softmax_path

TOLERANCES = [3e-3, 1e-4]


def make_rows(n_classes=6, per_class=4, n_features=3, seed=0):
    """Whitened rows of unit length: classes differ a little."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.standard_normal((n_classes, n_features))[y]
    X = X + 0.3 * rng.standard_normal((len(y), n_features))
    X = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def make_margins(n_classes=6):
    points = np.random.default_rng(1).standard_normal((n_classes, 2))
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def smooth_minimum(objective, n_parameters):
    """Least value of a smooth function, from zero and from elsewhere."""
    rng = np.random.default_rng(0)
    options = {"maxiter": 20_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-12}
    starts = np.zeros(n_parameters), 1e-3 * rng.standard_normal(n_parameters)
    return min(
        minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun
        for start in starts
    )


def crammer_singer_minimum(X, y, alpha, margins, unit):
    """Least value, with the slacks as variables; classifiers in a unit of about their size."""
    n_samples, n_features = X.shape
    n_classes, width = len(margins), len(margins) * n_features
    rows = []
    for n in range(n_samples):
        for c in range(n_classes):
            row = np.zeros(width + n_samples)
            row[y[n] * n_features : (y[n] + 1) * n_features] += unit * X[n]
            row[c * n_features : (c + 1) * n_features] -= unit * X[n]
            row[width + n] = 1
            rows.append(row)
    bounds = LinearConstraint(np.array(rows), margins[y].ravel(), np.inf)

    def objective(v):
        gradient = np.concatenate([alpha * unit**2 * v[:width], np.full(n_samples, 1 / n_samples)])
        return v[width:].mean() + alpha / 2 * unit**2 * v[:width] @ v[:width], gradient

    start = np.concatenate([np.zeros(width), margins[y].max(axis=1)])
    found = minimize(
        objective, start, jac=True, method="SLSQP", constraints=bounds,
        options={"ftol": 1e-16, "maxiter": 1000},
    )  # fmt: skip
    coef = unit * found.x[:width].reshape(n_classes, n_features)
    return multiclass_svm_objective(X, y, coef, alpha=alpha, loss="crammer_singer", margins=margins)


def squared_hinge_minimum(X, y, alpha, n_classes):
    signs = np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0)

    def objective(flat):
        coef = flat.reshape(n_classes, -1)
        residual = np.maximum(1 - signs * (X @ coef.T), 0)
        gradient = -2 / residual.size * (signs * residual).T @ X + alpha * coef
        return np.mean(residual**2) + alpha / 2 * flat @ flat, gradient.ravel()

    return smooth_minimum(objective, n_classes * X.shape[1])


def assert_gained(result, at_zero, least, tol):
    """Nearly all that can be gained is gained, and what is said of it is true."""
    gained = at_zero - least
    assert 0 < gained < tol * at_zero, "the case must be one of little gain"
    assert result.converged
    assert np.abs(result.coef).max() > 0
    objective, gap, gain = (float(np.ravel(v)[0]) for v in (
        result.objective, getattr(result, "dual_gap", getattr(result, "gap", None)), result.gain
    ))  # fmt: skip
    assert objective - least <= 1.001 * tol * gained
    assert gap <= 1.001 * tol * gained
    assert (1 - 3 * tol**0.5) * gained <= gain <= gained * (1 + 1e-4)


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("power", [0, 4, 9])
def test_squared_hinge(power, tol):
    X, y = make_rows()
    alpha = 2.0**power * 0.05 / tol
    result = multiclass_svm(X, y, alpha=alpha, tol=tol)
    assert_gained(result, 1.0, squared_hinge_minimum(X, y, alpha, 6), tol)


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("struct", [False, True])
def test_crammer_singer(struct, tol):
    X, y = make_rows(n_features=5)
    margins = make_margins() if struct else 1 - np.eye(6)
    alpha = 1 / tol
    result = multiclass_svm(
        X, y, alpha=alpha, tol=tol, loss="crammer_singer", margins=margins, random_state=0
    )
    at_zero = margins.max(axis=1)[y].mean()
    least = crammer_singer_minimum(X, y, alpha, margins, unit=1 / alpha)
    assert_gained(result, at_zero, least, tol)


@pytest.mark.parametrize("tol", TOLERANCES)
def test_logistic(tol):
    X, y = make_rows()
    alpha = 0.3 / tol
    target = (y == 0).astype(float)

    def binary(flat):
        f = X @ flat[:-1] + flat[-1]
        slope = (1 / (1 + np.exp(-f)) - target) / len(y)
        value = np.mean(np.logaddexp(0, f) - target * f) + alpha / 2 * flat[:-1] @ flat[:-1]
        return value, np.append(slope @ X + alpha * flat[:-1], slope.sum())

    def softmax(flat):
        coef, intercept = flat[:-6].reshape(6, -1), flat[-6:]
        f = X @ coef.T + intercept
        top = np.log(np.exp(f).sum(axis=1))
        slope = (np.exp(f - top[:, None]) - np.eye(6)[y]) / len(y)
        value = np.mean(top - f[np.arange(len(y)), y]) + alpha / 2 * np.sum(coef**2)
        return value, np.append(slope.T @ X + alpha * coef, slope.sum(axis=0))

    (result,) = logistic_path(X, target[:, None], alphas=[alpha], tol=tol)
    p = target.mean()
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    assert_gained(result, entropy, smooth_minimum(binary, 4), tol)
    (result,) = softmax_path(X, y, alphas=[alpha], tol=tol)
    assert_gained(result, np.log(6), smooth_minimum(softmax, 6 * 3 + 6), tol)


def test_a_binary_problem_of_little_gain_beside_one_of_much():
    X, y = make_rows()
    Y = np.column_stack([X[:, 0] > 0, y == 0])
    alone = [logistic_path(X, Y[:, [m]], alphas=[10.0], tol=1e-3)[0] for m in range(2)]
    (result,) = logistic_path(X, Y, alphas=[10.0], tol=1e-3)
    assert result.converged
    for m in range(2):
        np.testing.assert_allclose(result.coef[m], alone[m].coef[0], rtol=0.1)
        assert result.gain[m] == pytest.approx(alone[m].gain[0], rel=0.1)


@pytest.mark.parametrize("loss", ["squared_hinge", "crammer_singer"])
def test_along_a_path(loss):
    """A start that is optimal for a larger penalty is still improved."""
    X, y = make_rows(n_features=5)
    alphas = [4e3, 2e3, 1e3]
    for result in multiclass_svm_path(X, y, alphas=alphas, loss=loss, tol=1e-2, random_state=0):
        exact = multiclass_svm(X, y, alpha=result.alpha, loss=loss, tol=1e-5, random_state=0)
        assert result.converged
        assert np.linalg.norm(result.coef - exact.coef) <= 0.2 * np.linalg.norm(exact.coef)


def _nothing_to_learn():
    """Rows of which nothing can be learned: zeros, or every class has each row."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 8)
    yield np.zeros((40, 4)), y
    rows = rng.standard_normal((8, 4))
    yield np.tile(rows - rows.mean(axis=0), (5, 1)), y


@pytest.mark.parametrize("tol", [3e-3, 1e-6])
def test_where_nothing_can_be_gained(tol):
    for X, y in _nothing_to_learn():
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            results = [
                multiclass_svm(X, y, alpha=0.01, loss=loss, tol=tol, max_iter=100, random_state=0)
                for loss in ("squared_hinge", "crammer_singer")
            ]
            results += logistic_path(X, np.eye(5)[y], alphas=[0.01], tol=tol)
            results += softmax_path(X, y, alphas=[0.01], tol=tol)
        for result in results:
            assert result.converged
            assert np.abs(result.coef).max() < 1e-12


@pytest.mark.slow
def test_whitened_glyphs():
    """Many classes, whitened features: the objective falls by less than its tolerance."""
    data = load_glyphs()
    X = np.asarray(data.X_train, dtype=float)
    X, test = X - X.mean(axis=0), data.X_test_unseen - X.mean(axis=0)
    variances, axes = np.linalg.eigh(X.T @ X)
    projection = axes[:, -400:] / np.sqrt(variances[-400:])
    accuracies = {}
    for tol in (3e-3, 1e-6):
        model = SynC(tol=tol).fit(X @ projection, data.y_train, signatures=data.signatures)
        assert 1 - model.objective_ < 3e-3
        accuracies[tol] = model.score(
            test @ projection, data.y_test_unseen, classes=data.unseen_classes
        )
    assert accuracies[3e-3] > 0.3
    assert accuracies[3e-3] == pytest.approx(accuracies[1e-6], abs=0.01)
