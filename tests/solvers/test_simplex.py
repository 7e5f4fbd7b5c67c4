from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zslearn._solvers._simplex import project_to_simplex
from zslearn.solvers import simplex_least_squares

finite = st.floats(-50, 50, allow_nan=False, width=32)


def _objective(z, target, points, gamma):
    return 0.5 * np.sum((target - z @ points) ** 2) + 0.5 * gamma * np.sum(z**2)


def _by_supports(target, points, gamma):
    """The best of the solutions on every support that has no negative weight."""
    best = None
    for size in range(1, len(points) + 1):
        for support in itertools.combinations(range(len(points)), size):
            some = points[list(support)]
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = some @ some.T + gamma * np.eye(size)
            system[size, size] = 0
            found = np.linalg.solve(system, np.append(some @ target, 1.0))[:size]
            if (found >= 0).all():
                z = np.zeros(len(points))
                z[list(support)] = found
                value = _objective(z, target, points, gamma)
                if best is None or value < best[0]:
                    best = value, z
    return best[1]


@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("n_dims", [1, 3, 8])
def test_best_of_all_supports(gamma, n_dims):
    rng = np.random.default_rng(n_dims)
    points, targets = rng.normal(size=(6, n_dims)), 2 * rng.normal(size=(15, n_dims))
    result = simplex_least_squares(targets, points, gamma=gamma)
    for target, z in zip(targets, result.weights, strict=True):
        np.testing.assert_allclose(z, _by_supports(target, points, gamma), atol=1e-7)
    assert result.gap.max() < 1e-10


@given(
    arrays(np.float64, st.tuples(st.integers(1, 9), st.just(3)), elements=finite),
    arrays(np.float64, (4, 3), elements=finite),
    st.sampled_from([1e-6, 1e-2, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_any_points_have_a_certificate(points, targets, gamma):
    weights, gap, _ = simplex_least_squares(targets, points, gamma=gamma)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-9)
    scale = 1 + np.abs(points).max() ** 2 + np.abs(targets).max() ** 2
    assert gap.max() < 1e-9 * scale
    gradient = (weights @ points - targets) @ points.T + gamma * weights
    expected = (gradient * weights).sum(axis=1) - gradient.min(axis=1)
    np.testing.assert_allclose(gap, np.maximum(expected, 0), atol=1e-9 * scale)


def test_a_point_is_itself_and_a_large_gamma_is_even():
    points = np.random.default_rng(3).normal(size=(30, 40))
    near = simplex_least_squares(points, points, gamma=1e-9).weights
    np.testing.assert_allclose(near, np.eye(30), atol=1e-6)
    even = simplex_least_squares(points, points, gamma=1e9).weights
    np.testing.assert_allclose(even, 1 / 30, atol=1e-6)


def test_many_points_dense_and_sparse():
    rng = np.random.default_rng(4)
    points, targets = rng.normal(size=(150, 60)), rng.normal(size=(30, 60))
    for gamma in (1e-4, 1e-2, 1.0, 100.0):
        result = simplex_least_squares(targets, points, gamma=gamma)
        assert result.gap.max() < 1e-10


def test_blocks_of_targets_change_nothing(monkeypatch):
    rng = np.random.default_rng(5)
    points, targets = rng.normal(size=(8, 5)), rng.normal(size=(23, 5))
    whole = simplex_least_squares(targets, points, gamma=0.05).weights
    monkeypatch.setattr("zslearn._solvers._simplex._GUESS_BYTES", 2000)
    parts = simplex_least_squares(targets, points, gamma=0.05).weights
    np.testing.assert_allclose(parts, whole, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan])
def test_gamma_must_be_positive(gamma):
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        simplex_least_squares([[1.0]], [[1.0]], gamma=gamma)


def test_a_gamma_lost_in_rounding_is_named():
    points = np.random.default_rng(7).normal(size=(8, 2))
    with pytest.raises(ValueError, match=r"gamma=1e-25 is too small .* larger gamma"):
        simplex_least_squares(points, points, gamma=1e-25)


def test_spaces_must_agree():
    with pytest.raises(ValueError, match="same space"):
        simplex_least_squares([[1.0, 2.0]], [[1.0]])


@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 12)), elements=finite))
@settings(max_examples=100, deadline=None)
def test_projection_meets_its_optimality_conditions(rows):
    projected = project_to_simplex(rows)
    assert (projected >= 0).all()
    np.testing.assert_allclose(projected.sum(axis=1), 1, atol=1e-12)
    # The nearest point: rows − projected is the same on the support, and not larger elsewhere.
    rest = rows - projected
    for one, difference in zip(projected, rest, strict=True):
        level = difference[one > 0]
        assert np.ptp(level) < 1e-9
        assert (difference <= level.max() + 1e-9).all()
    np.testing.assert_allclose(project_to_simplex(projected), projected, atol=1e-12)
