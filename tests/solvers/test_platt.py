from __future__ import annotations

import numpy as np

from zslearn._solvers._platt import platt_scaling, platt_targets


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.random((80, 6)) < 0.3
    scores = (2 * Y + rng.standard_normal(Y.shape)) * np.array([1, 10, 0.1, 1, 1, 1]) + 3
    return scores, Y


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
