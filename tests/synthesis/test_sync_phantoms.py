"""Phantom classes: where they start, and the gradients by which they are learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn.signatures import SignatureViews, normalized_similarity
from zslearn.synthesis import SynC
from zslearn.synthesis._phantoms import (
    PhantomObjective,
    combine,
    initial_combinations,
    metric_factor,
    soft_threshold,
)


def signatures(n=9, d=5, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, d))
    return A / np.linalg.norm(A, axis=1, keepdims=True) / 0.8


def views(n=9, seed=0):
    return SignatureViews((signatures(n, 5, seed), signatures(n, 3, seed + 1)), (0.6, 0.4))


@pytest.mark.parametrize(
    ("n_phantoms", "init"),
    [(4, "auto"), (4, "kmeans"), (4, "seen"), (4, "random"), (9, "random"), (15, "auto")],
)
@pytest.mark.parametrize("make", [signatures, views], ids=["one view", "two views"])
def test_phantoms_have_the_norm_of_signatures(n_phantoms, init, make):
    A = make()
    betas = initial_combinations(A, n_phantoms, init, np.random.RandomState(0))
    again = initial_combinations(A, n_phantoms, init, np.random.RandomState(0))
    phantoms = combine(betas, A)
    for beta, same in zip(betas, again, strict=True):
        assert beta.shape == (n_phantoms, 9)
        np.testing.assert_array_equal(beta, same)
    arrays = phantoms.arrays if make is views else (phantoms,)
    for array in arrays:
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1 / 0.8)


@pytest.mark.parametrize("init", ["auto", "seen", "kmeans"])
def test_as_many_phantoms_as_classes_are_the_classes(init):
    (beta,) = initial_combinations(signatures(), 9, init, np.random.RandomState(0))
    np.testing.assert_array_equal(beta, np.eye(9))


def test_more_phantoms_start_with_the_seen_classes():
    (beta,) = initial_combinations(signatures(), 12, "auto", np.random.RandomState(0))
    np.testing.assert_allclose(beta[:9], np.eye(9), atol=1e-15)
    assert np.all(beta[9:] > 0)


def test_kmeans_finds_the_clusters():
    centers = np.eye(3)
    rng = np.random.default_rng(0)
    A = np.repeat(centers, 4, axis=0) + 0.01 * rng.standard_normal((12, 3))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    betas = initial_combinations(A, 3, "auto", np.random.RandomState(0))
    phantoms = combine(betas, A)
    np.testing.assert_allclose(np.sort(phantoms.max(axis=1)), 1, atol=1e-3)
    assert {int(row.argmax()) for row in phantoms} == {0, 1, 2}


def objective(A, *, norm_penalty=0.3, eta=0.01, gamma=0.7, metric=None, seed=0):
    rng = np.random.default_rng(seed)
    arrays = A.arrays if isinstance(A, SignatureViews) else (A,)
    target = rng.random((len(A), 6))

    def loss(S):
        # Smooth, and not linear in S.
        return float(np.sum(np.sin(3 * S) * target)), 3 * np.cos(3 * S) * target

    factors = tuple(metric_factor(metric, array) for array in arrays)
    return PhantomObjective(A, factors, gamma, eta, norm_penalty, loss)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    gamma=st.sampled_from([0.05, 0.7, 5.0]),
    several=st.booleans(),
    metric=st.sampled_from([None, "diag"]),
)
def test_gradient_against_finite_differences(seed, gamma, several, metric):
    A = views(seed=seed) if several else signatures(seed=seed)
    problem = objective(A, gamma=gamma, metric=metric, seed=seed)
    rng = np.random.default_rng(seed)
    n_views = 2 if several else 1
    betas = tuple(0.5 * rng.standard_normal((6, 9)) for _ in range(n_views))
    step = tuple(rng.standard_normal((6, 9)) for _ in range(n_views))
    value, gradients = problem.smooth(betas)
    slope = sum(float(np.sum(g * s)) for g, s in zip(gradients, step, strict=True))

    def along(t):
        return problem.smooth(tuple(b + t * s for b, s in zip(betas, step, strict=True)))[0]

    h = 1e-5
    # Fourth order, so that the curvature does not hide an error.
    numeric = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    assert numeric == pytest.approx(slope, rel=1e-6, abs=1e-7)
    assert along(0.0) == value


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("gamma", [0.5, 2.0**10])
def test_similarities_are_those_of_the_estimator(several, gamma):
    A = views() if several else signatures()
    problem = objective(A, gamma=gamma)
    betas = initial_combinations(A, 6, "kmeans", np.random.RandomState(0))
    similarities, shares = problem.similarities(betas)
    expected = normalized_similarity(A, combine(betas, A), gamma=gamma)
    np.testing.assert_allclose(similarities, expected, atol=1e-12)
    np.testing.assert_allclose(np.sum(shares, axis=0), expected, atol=1e-12)


def test_descent_never_rises_and_ends_at_a_fixed_point():
    problem = objective(signatures())
    betas = initial_combinations(signatures(), 6, "kmeans", np.random.RandomState(0))
    value = problem.smooth(betas)[0] + problem.sparsity(betas)
    values = [value]
    for _ in range(60):
        betas, value = problem.descend(betas)
        values.append(value)
    assert np.all(np.diff(values) <= 0)
    assert values[-1] < values[0] - 0.1
    gradient = problem.smooth(betas)[1][0]
    moved = soft_threshold(betas[0] - 0.05 * gradient, 0.05 * problem.eta)
    assert np.abs(moved - betas[0]).max() < 5e-3


@pytest.mark.parametrize("loss", ["ovo", "cs", "struct"])
@pytest.mark.parametrize("penalize", ["w", "v"])
def test_learning_lowers_the_objective_monotonically(problem, loss, penalize):
    model = SynC(
        loss, learn_phantoms=True, n_phantoms=6, penalize=penalize, alpha=2.0**-8, random_state=0
    )
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    assert len(model.history_) >= 3
    assert np.all(np.diff(model.history_) <= 0)
    assert model.history_[-1] < model.history_[0] * (1 - 1e-3)
    fixed = SynC(loss, n_phantoms=6, penalize=penalize, alpha=2.0**-8, random_state=0)
    fixed.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    assert not np.allclose(model.phantoms_, fixed.phantoms_)
    np.testing.assert_allclose(
        model.phantoms_,
        model.combinations_[0]
        @ (SynC().fit(problem.X_train, problem.y_train, signatures=problem.signatures).phantoms_),
    )


def test_sparsity_and_norms_follow_their_weights(problem):
    def learned(**params):
        model = SynC(learn_phantoms=True, n_phantoms=6, penalize="v", random_state=0, **params)
        return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)

    sparse, dense = learned(eta=0.03), learned(eta=0.0)
    assert np.mean(sparse.combinations_[0] == 0) > np.mean(dense.combinations_[0] == 0)
    assert np.abs(sparse.combinations_[0]).sum() < np.abs(dense.combinations_[0]).sum()
    target = 1 / dense.signature_scale_[0]
    norms = [
        np.abs(np.linalg.norm(learned(eta=0.0, norm_penalty=w).phantoms_, axis=1) - target).max()
        for w in (0.0, 10.0)
    ]
    assert norms[1] < 0.5 * norms[0]
