from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.spatial.distance import cdist

from zslearn.baselines._bidilel import (
    place_by_distances,
    starts,
)


def _error(point, landmarks, distances):
    return np.sum((distances - np.linalg.norm(point - landmarks, axis=1)) ** 2 / distances)


def _problem(n_landmarks=12, n_dims=5, n_points=7, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    landmarks = rng.normal(size=(n_landmarks, n_dims))
    points = rng.normal(size=(n_points, n_dims))
    distances = cdist(points, landmarks) * np.exp(noise * rng.normal(size=(n_points, n_landmarks)))
    return landmarks, points, distances


def test_distances_of_a_point_give_the_point():
    landmarks, points, distances = _problem(noise=0.0)
    result = place_by_distances(landmarks, distances)
    np.testing.assert_allclose(result.points, points, atol=1e-6)
    assert result.error.max() < 1e-12


@pytest.mark.parametrize("n_dims", [2, 3, 11])
def test_as_good_as_scipy_from_both_starts(n_dims):
    landmarks, _, distances = _problem(n_dims=n_dims, noise=0.5, seed=n_dims)
    result = place_by_distances(landmarks, distances)
    assert result.gradient.max() <= 1e-8
    for i, wanted in enumerate(distances):
        assert result.error[i] == pytest.approx(_error(result.points[i], landmarks, wanted))
        for start in starts(landmarks, distances):
            found = minimize(_error, start[i], args=(landmarks, wanted))
            assert result.error[i] <= found.fun + 1e-6


def _place_together(landmarks, distances, among):
    return place_by_distances(landmarks, distances, among=among)


def _joint_error(flat, landmarks, distances, among):
    points = flat.reshape(len(distances), -1)
    upper = np.triu_indices(len(points), 1)
    to_landmarks = np.sum((distances - cdist(points, landmarks)) ** 2 / distances)
    return to_landmarks + np.sum((among[upper] - cdist(points, points)[upper]) ** 2 / among[upper])


def _joint_problem(noise, **sizes):
    landmarks, points, distances = _problem(noise=noise, **sizes)
    wrong = np.exp(noise * np.random.default_rng(1).normal(size=(len(points), len(points))))
    return landmarks, points, distances, cdist(points, points) * np.sqrt(wrong * wrong.T)


def test_true_distances_give_the_points_together_too():
    landmarks, points, distances, among = _joint_problem(noise=0.0)
    result = _place_together(landmarks, distances, among)
    np.testing.assert_allclose(result.points, points, atol=1e-6)
    assert result.error.max() < 1e-12


@pytest.mark.parametrize("n_dims", [2, 5, 11])
def test_together_as_good_as_scipy_from_the_points_placed_alone(n_dims):
    landmarks, _, distances, among = _joint_problem(noise=0.5, n_dims=n_dims)
    alone = place_by_distances(landmarks, distances)
    result = _place_together(landmarks, distances, among)
    arguments = landmarks, distances, among
    assert result.error.sum() == pytest.approx(_joint_error(result.points, *arguments))
    found = minimize(_joint_error, alone.points.ravel(), args=arguments)
    assert result.error.sum() <= found.fun + 1e-6
    assert result.error.sum() < _joint_error(alone.points, *arguments) - 1e-3
    assert result.gradient.max() <= 1e-7
    numeric = approx_fprime(result.points.ravel(), _joint_error, 1e-7, *arguments)
    assert np.abs(numeric).max() < 1e-4


def test_points_together_that_are_nearly_one():
    """The weight of a tiny distance is bounded, so that the other points still converge."""
    landmarks, _, distances, among = _joint_problem(noise=0.3)
    distances[1], among[1], among[:, 1] = distances[0], among[0], among[:, 0]
    among[0, 1] = among[1, 0] = 1e-12
    result = _place_together(landmarks, distances, among)
    assert np.linalg.norm(result.points[0] - result.points[1]) < 1e-6
    assert result.gradient.max() < 1e-6


def test_points_stay_in_the_span_of_the_landmarks():
    landmarks, _, distances = _problem(n_landmarks=4, n_dims=9, noise=0.8)
    result = place_by_distances(landmarks, distances)
    span = (landmarks - landmarks.mean(axis=0))[:3]
    rest = result.points - landmarks.mean(axis=0)
    rest = rest - rest @ np.linalg.pinv(span) @ span
    np.testing.assert_allclose(rest, 0, atol=1e-10)


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 6), st.floats(0, 2))
@settings(max_examples=60, deadline=None)
def test_any_distances_have_a_certificate(seed, n_landmarks, n_dims, noise):
    landmarks, _, distances = _problem(n_landmarks, n_dims, 4, seed, noise)
    result = place_by_distances(landmarks, distances)
    assert np.isfinite(result.points).all()
    # In few dimensions a minimum may lie on a landmark, where the error has a kink.
    on_a_landmark = cdist(result.points, landmarks).min(axis=1) < 1e-6
    assert (result.gradient[~on_a_landmark] < 1e-6).all()


@pytest.mark.parametrize(("n_landmarks", "seed", "noise"), [(5, 9456, 0.6642), (3, 7899, 0.4429)])
def test_points_that_pass_a_landmark_converge(n_landmarks, seed, noise):
    """Newton steps close to a landmark are short: once, 200 of them were not enough."""
    landmarks, _, distances = _problem(n_landmarks, 1, 4, seed, noise)
    result = place_by_distances(landmarks, distances)
    assert result.gradient.max() < 1e-8
    assert result.n_iter < 100


def test_scale_and_origin_do_not_matter():
    landmarks, _, distances = _problem()
    first = place_by_distances(landmarks, distances)
    large = place_by_distances(1e150 * landmarks, 1e150 * distances)
    np.testing.assert_allclose(large.points, 1e150 * first.points, rtol=1e-6)
    moved = place_by_distances(landmarks + 7, distances)
    np.testing.assert_allclose(moved.points, first.points + 7, atol=1e-6)


def test_landmarks_in_one_place():
    result = place_by_distances(np.ones((3, 2)), np.full((2, 3), 0.5))
    np.testing.assert_array_equal(result.points, np.ones((2, 2)))
