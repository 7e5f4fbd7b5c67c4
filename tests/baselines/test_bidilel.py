from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.preprocessing import normalize

from zslearn.base import InputWarning
from zslearn.baselines import BiDiLEL
from zslearn.signatures import normalize_signatures


def _fit(model, problem, **changes):
    X = changes.get("X", problem.X_train)
    return model.fit(X, problem.y_train, signatures=changes.get("signatures", problem.signatures))


def _explicit(X, y):
    """Graph, degrees and Laplacian of all samples, written out."""
    squares = squareform(pdist(X, "sqeuclidean"))
    same = y[:, None] == y[None, :]
    width = squares[same & ~np.eye(len(y), dtype=bool)].mean()
    W = np.where(same, np.exp(-squares / (2 * width)), 0.0)
    D = np.diag(W.sum(axis=1))
    return D, D - W


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_projection_solves_the_explicit_eigenproblem(problem, alpha):
    model = _fit(BiDiLEL(6, alpha), problem)
    X, y = normalize(problem.X_train), problem.y_train
    D, L = _explicit(X, y)
    mean = D.sum(axis=1) @ X / D.sum()
    total = (X - mean).T @ D @ (X - mean)
    local = X.T @ L @ X
    penalized = local + alpha * np.trace(local) / len(local) * np.eye(len(local))
    values, vectors = scipy.linalg.eigh(total, penalized)
    np.testing.assert_allclose(model.mean_, mean, atol=1e-12)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:6], rtol=1e-8)
    P = model.components_.T
    np.testing.assert_allclose(P.T @ penalized @ P, np.eye(6), atol=1e-8)
    np.testing.assert_allclose(total @ P, penalized @ P * model.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(np.abs(P), np.abs(vectors[:, ::-1][:, :6]), atol=1e-7)


@pytest.mark.parametrize("latent_norm", ["l2", None])
def test_scores_are_distances_to_landmarks(problem, latent_norm):
    model = _fit(BiDiLEL(6, latent_norm=latent_norm), problem)

    def embed(X):
        latent = (normalize(X) - model.mean_) @ model.components_.T
        return latent if latent_norm is None else normalize(latent)

    seen = model.seen_classes_
    latent = embed(problem.X_train)
    means = np.stack([latent[problem.y_train == c].mean(axis=0) for c in seen])
    np.testing.assert_allclose(model.landmarks_, means, atol=1e-10)
    scores = model.decision_function(problem.X_test_seen, classes=seen)
    np.testing.assert_allclose(scores, -cdist(embed(problem.X_test_seen), means), atol=1e-6)


def test_a_seen_class_has_its_own_landmark_and_so_has_its_copy(problem):
    model = _fit(BiDiLEL(), problem)
    label = model.seen_classes_[3]
    copy = pd.DataFrame(2 * problem.signatures.loc[[label]].to_numpy(), index=["copy"])
    copy.columns = problem.signatures.columns
    with pytest.warns(InputWarning):
        model.add_classes(copy)
    X = problem.X_test_seen
    scores = model.decision_function(X, classes=[label, "copy"])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-9)


def test_seen_copys_share_the_mean_of_their_landmarks(problem):
    signatures = problem.signatures.copy()
    first, second = np.sort(problem.seen_classes)[:2]
    signatures.loc[second] = signatures.loc[first]
    with pytest.warns(InputWarning):
        model = _fit(BiDiLEL(), problem, signatures=signatures)
    described = normalize_signatures(signatures.loc[model.seen_classes_])
    placed = model.synthesize(described)
    np.testing.assert_allclose(placed[0], model.landmarks_[:2].mean(axis=0))
    np.testing.assert_allclose(placed[1], placed[0])
    np.testing.assert_allclose(placed[2:], model.landmarks_[2:])


def test_an_almost_seen_class_is_near_its_landmark(problem):
    model = _fit(BiDiLEL(), problem)
    described = normalize_signatures(problem.signatures.loc[model.seen_classes_])
    nearly = described[:1] + 1e-5 * np.random.default_rng(0).normal(size=described[:1].shape)
    away = np.linalg.norm(model.synthesize(nearly) - model.landmarks_[:1])
    assert 0 < away < 1e-3 * pdist(model.landmarks_).mean()


def _seen_and_unseen(model, problem):
    scale = model.signature_scale_[0]
    return [
        normalize_signatures(problem.signatures.loc[labels], scale=scale)
        for labels in (model.seen_classes_, model.unseen_classes_)
    ]


def test_unseen_landmarks_minimise_sammons_error(problem):
    model = _fit(BiDiLEL(5), problem)
    A, B = _seen_and_unseen(model, problem)
    delta = model.distance_scale_ * cdist(B, A)
    assert model.distance_scale_ == pytest.approx(pdist(model.landmarks_).mean() / pdist(A).mean())
    placed = model.synthesize(B)

    def error(points):
        return np.sum((cdist(points, model.landmarks_) - delta) ** 2 / delta, axis=1)

    best, rng = error(placed), np.random.default_rng(0)
    for _ in range(50):
        step = 1e-3 * rng.normal(size=placed.shape)
        assert (error(placed + step) > best - 1e-12).all()


def test_joint_placement_minimises_the_error_of_all_pairs(problem):
    model = _fit(BiDiLEL(5, placement="joint"), problem)
    A, B = _seen_and_unseen(model, problem)
    to_seen, among = (model.distance_scale_ * cdist(B, other) for other in (A, B))
    upper = np.triu_indices(len(B), 1)

    def error(points):
        return np.sum((cdist(points, model.landmarks_) - to_seen) ** 2 / to_seen) + np.sum(
            (cdist(points, points)[upper] - among[upper]) ** 2 / among[upper]
        )

    placed = model.synthesize(B)
    alone = _fit(BiDiLEL(5), problem).synthesize(B)
    assert error(placed) < error(alone)
    best, rng = error(placed), np.random.default_rng(0)
    for _ in range(50):
        assert error(placed + 1e-3 * rng.normal(size=placed.shape)) > best


def test_joint_placement_does_not_depend_on_the_order_nor_on_when(problem):
    model = _fit(BiDiLEL(placement="joint"), problem)
    X = problem.X_test_unseen
    expected = model.decision_function(X)
    late = model.unseen_classes_[1:3]
    fewer = _fit(
        BiDiLEL(placement="joint"), problem, signatures=problem.signatures.drop(index=late)
    )
    left = fewer.classes_
    before = fewer.decision_function(X)
    fewer.add_classes(problem.signatures.loc[late])
    np.testing.assert_allclose(fewer.decision_function(X), expected, rtol=1e-9)
    # Landmarks of the other unseen classes have moved; those of seen classes have not.
    now = fewer.decision_function(X, classes=left)
    seen = np.isin(left, model.seen_classes_)
    np.testing.assert_allclose(now[:, seen], before[:, seen], rtol=1e-12)
    assert np.abs(now[:, ~seen] - before[:, ~seen]).max() > 1e-3


def test_equal_signatures_placed_jointly_share_a_landmark(problem):
    signatures = problem.signatures.copy()
    first, second = np.sort(problem.unseen_classes)[:2]
    signatures.loc[second] = signatures.loc[first]
    with pytest.warns(InputWarning):
        model = _fit(BiDiLEL(placement="joint"), problem, signatures=signatures)
    scores = model.decision_function(problem.X_test_unseen, classes=[first, second])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-9)
    assert np.isfinite(scores).all()


def test_one_unseen_class_is_placed_jointly_as_alone(problem):
    kept = [*problem.seen_classes, problem.unseen_classes[0]]
    scores = [
        _fit(
            BiDiLEL(placement=placement), problem, signatures=problem.signatures.loc[kept]
        ).decision_function(problem.X_test_unseen)
        for placement in ("joint", "alone")
    ]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_an_alpha_lost_in_rounding_is_named():
    rng = np.random.default_rng(0)
    X, signatures = rng.normal(size=(20, 50)), rng.normal(size=(4, 6))
    with pytest.raises(ValueError, match=r"alpha=1e-20 is too small"):
        BiDiLEL(alpha=1e-20).fit(X, np.repeat(np.arange(4), 5), signatures=signatures)


def test_more_components_than_features_are_clipped(problem):
    with pytest.warns(InputWarning, match="n_components=50 is larger"):
        model = _fit(BiDiLEL(50), problem)
    assert model.components_.shape == (20, 20)


def test_one_dimension_keeps_more_than_a_sign():
    """Two seen classes span a line; every class placed along it must be predictable."""
    rng = np.random.default_rng(0)
    centers = np.array([0.0, 4.0, 1.3, 2.7])
    X = centers[:, None, None] * np.eye(3)[0] + 0.1 * rng.normal(size=(4, 20, 3))
    y = np.repeat(np.arange(4), 20)
    angles = centers / 8
    signatures = dict(enumerate(np.c_[np.cos(angles), np.sin(angles)]))
    model = BiDiLEL(feature_norm=None).fit(
        X[:2].reshape(-1, 3), np.repeat([0, 1], 20), signatures=signatures
    )
    assert model.components_.shape == (1, 3)
    np.testing.assert_array_equal(model.predict(X.reshape(-1, 3)), y)


def test_one_sample_per_class():
    rng = np.random.default_rng(0)
    X, signatures = rng.normal(size=(5, 4)), rng.normal(size=(7, 3))
    model = BiDiLEL(feature_norm=None).fit(X, np.arange(5), signatures=dict(enumerate(signatures)))
    np.testing.assert_array_equal(model.predict(X, classes=np.arange(5)), np.arange(5))


@pytest.mark.filterwarnings("error")
def test_samples_of_a_class_that_are_equal_but_for_rounding():
    """Without distances to weight pairs by, all samples have the same weight."""
    rows = np.array([[0.1, 0.7, 0.3], [0.3, 0.2, 0.9], [0.7, 0.1, 0.1]])
    y = np.repeat(np.arange(3), 10)
    X = rows[y]
    X[:5] = np.nextafter(X[:5], 1)
    model = BiDiLEL(feature_norm=None).fit(X, y, signatures=np.eye(3))
    np.testing.assert_allclose(model.mean_, rows.mean(axis=0), atol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), np.arange(3))
