from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from zslearn._solvers._platt import platt_scaling, platt_targets


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.random((80, 6)) < 0.3
    scores = (2 * Y + rng.standard_normal(Y.shape)) * np.array([1, 10, 0.1, 1, 1, 1]) + 3
    return scores, Y


def _loss(parameters, f, t):
    z = parameters[0] * f + parameters[1]
    return np.mean(np.logaddexp(0, z) - t * z)


def test_targets_are_platts():
    Y = np.array([[True], [True], [False], [False], [False]])
    np.testing.assert_allclose(platt_targets(Y)[:, 0], [3 / 4, 3 / 4, 1 / 5, 1 / 5, 1 / 5])
    known = np.array([[True], [False], [True], [True], [False]])
    np.testing.assert_allclose(platt_targets(Y, known)[:, 0][[0, 2]], [2 / 3, 1 / 4])


def test_sigmoids_are_the_minimum():
    scores, Y = _problem()
    slope, offset = platt_scaling(scores, Y)
    targets = platt_targets(Y)
    for m in range(Y.shape[1]):
        found = _loss((slope[m], offset[m]), scores[:, m], targets[:, m])
        best = minimize(_loss, (0.0, 0.0), (scores[:, m], targets[:, m]), method="Nelder-Mead")
        assert found <= best.fun + 1e-9


def test_entries_that_are_not_known_do_not_count():
    scores, Y = _problem()
    known = np.random.default_rng(1).random(Y.shape) < 0.7
    slope, offset = platt_scaling(np.where(known, scores, np.nan), Y, known)
    for m in range(Y.shape[1]):
        rows = known[:, m]
        alone = platt_scaling(scores[rows, m : m + 1], Y[rows, m : m + 1])
        np.testing.assert_allclose((slope[m], offset[m]), np.ravel(alone), rtol=1e-6)


def test_columns_without_both_outcomes_stay():
    scores, Y = _problem()
    Y[:, 2] = True
    slope, offset = platt_scaling(scores, Y)
    assert (slope[2], offset[2]) == (1.0, 0.0)
    slope, offset = platt_scaling(scores, np.zeros_like(Y))
    np.testing.assert_array_equal(slope, 1)
    np.testing.assert_array_equal(offset, 0)


def test_scores_that_mislead_lose_their_weight():
    scores, Y = _problem()
    slope, offset = platt_scaling(-scores, Y)
    np.testing.assert_array_equal(slope, 0)
    share = platt_targets(Y).mean(axis=0)
    np.testing.assert_allclose(1 / (1 + np.exp(-offset)), share)


def test_separated_and_constant_scores_stay_finite():
    Y = np.arange(20)[:, None] >= 10
    slope, offset = platt_scaling(np.where(Y, 1.0, -1.0), Y)
    np.testing.assert_allclose(slope + offset, np.log(11), rtol=1e-6)  # (N₊ + 1)/(N₊ + 2)
    slope, offset = platt_scaling(np.full((20, 1), 7.0), Y)
    assert np.isfinite([slope, offset]).all()
