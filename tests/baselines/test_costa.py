from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from zslearn.baselines import COSTA
from zslearn.datasets import make_zero_shot
from zslearn.signatures import normalize_signatures

SIMILARITIES = ["cosine", "rbf"]


def _fit(problem, signatures=None, **setting):
    signatures = problem.signatures if signatures is None else signatures
    return COSTA(**setting).fit(problem.X_train, problem.y_train, signatures=signatures)


@pytest.fixture(scope="module")
def uneven():
    """Classes of different sizes."""
    return make_zero_shot(
        n_seen=10,
        n_unseen=4,
        n_features=12,
        n_attributes=6,
        samples_per_class=30,
        imbalance=0.8,
        random_state=0,
    )


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_seen_classifiers_are_balanced_least_squares(uneven, alpha):
    """Ridge regressions of ±1 with an intercept, in which each class has the weight 1."""
    model = _fit(uneven, alpha=alpha)
    X = normalize(uneven.X_train)
    seen, codes, counts = np.unique(uneven.y_train, return_inverse=True, return_counts=True)
    weight = 1 / counts[codes]
    center = weight @ X / len(seen)
    G = (X - center).T @ (weight[:, None] * (X - center)) / len(seen)
    penalty = alpha * np.linalg.eigvalsh(G).mean() * len(seen)
    ridge = Ridge(alpha=penalty, solver="cholesky")
    for i in range(len(seen)):
        ridge.fit(X, np.where(codes == i, 1.0, -1.0), sample_weight=weight)
        # All classifiers are the same multiple of the regression's, 2/S.
        np.testing.assert_allclose(ridge.coef_, model.coef_[i] * 2 / len(seen), atol=1e-9)
        np.testing.assert_allclose(
            ridge.predict(X), (X - center) @ model.coef_[i] * 2 / len(seen) + 2 / len(seen) - 1
        )
    np.testing.assert_allclose(model.mean_, center, atol=1e-12)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_classes_are_weighted_sums_of_the_seen(problem, similarity, sharpness):
    model = _fit(problem, similarity=similarity, sharpness=sharpness)
    scale = model.signature_scale_[0]
    seen = normalize_signatures(problem.signatures.loc[model.seen_classes_], scale=scale)
    every = normalize_signatures(problem.signatures.loc[model.classes_], scale=scale)
    X = normalize(problem.X_test_unseen)
    scores = model.decision_function(problem.X_test_unseen)
    for column, a in enumerate(every):
        total, w = 0.0, np.zeros(X.shape[1])
        for b, classifier in zip(seen, model.coef_, strict=True):
            if similarity == "rbf":
                s = np.exp(-sharpness * np.sum((a - b) ** 2))
            else:
                p, q = a - seen.mean(axis=0), b - seen.mean(axis=0)
                s = max(p @ q / np.linalg.norm(p) / np.linalg.norm(q), 0.0) ** sharpness
            total, w = total + s, w + s * classifier
        np.testing.assert_allclose(scores[:, column], (X - model.mean_) @ w / total, atol=1e-10)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_sharp_similarity_gives_the_nearest_seen_classifier(problem, similarity):
    """Weights do not underflow, and a seen class gets its own classifier."""
    model = _fit(problem, similarity=similarity, sharpness=1e6)
    seen = normalize_signatures(problem.signatures.loc[model.seen_classes_])
    np.testing.assert_allclose(model.synthesize(seen), model.coef_, atol=1e-9)


def test_a_class_without_positive_cosines_weighs_all_classes_equally(problem):
    """The mean of the seen signatures has no positive cosine with any of them."""
    model = _fit(problem)
    mean = model.signatures_.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(model.synthesize(mean)[0], model.coef_.mean(axis=0), atol=1e-10)


def test_sample_weights_do_not_change_the_weight_of_a_class(problem):
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(problem.seen_classes))
    _, codes = np.unique(problem.y_train, return_inverse=True)
    data = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    weighted, plain = COSTA().fit(**data, sample_weight=weights[codes]), COSTA().fit(**data)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=0, atol=1e-10)
