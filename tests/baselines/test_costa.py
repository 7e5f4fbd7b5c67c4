from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from zslearn.baselines import COSTA
from zslearn.datasets import make_zero_shot
from zslearn.signatures import normalize_signatures
from zslearn.synthesis import EXEM

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
    """Ridge regression of ±1 with an intercept, each class weighing 1, one class after another."""
    model = _fit(uneven, alpha=alpha)
    X = uneven.X_train / np.linalg.norm(uneven.X_train, axis=1, keepdims=True)
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
    X = problem.X_test_unseen / np.linalg.norm(problem.X_test_unseen, axis=1, keepdims=True)
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
    """However sharp, weights do not vanish; a seen class then has its own classifier."""
    model = _fit(problem, similarity=similarity, sharpness=1e6)
    seen = normalize_signatures(problem.signatures.loc[model.seen_classes_])
    np.testing.assert_allclose(model.synthesize(seen), model.coef_, atol=1e-9)


def test_a_class_on_no_side_is_like_all_alike(problem):
    """No seen class has a positive cosine with the mean of the seen signatures itself."""
    model = _fit(problem)
    mean = model.signatures_.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(model.synthesize(mean)[0], model.coef_.mean(axis=0), atol=1e-10)


def test_blocks_of_rows_change_nothing(problem, monkeypatch):
    whole = _fit(problem).decision_function(problem.X_test_unseen)
    monkeypatch.setattr("zslearn.baselines._closed_form._BLOCK", 7)
    parts = _fit(problem).decision_function(problem.X_test_unseen)
    np.testing.assert_allclose(parts, whole, rtol=1e-8, atol=1e-9)


def test_a_grid_is_as_if_each_was_fitted_alone(problem):
    listed = [
        {"similarity": kind, "alpha": a, "sharpness": s}
        for s in (0.5, 4.0)
        for a in (0.1, 10.0)
        for kind in SIMILARITIES
    ]
    given_data = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    fitted = dict(COSTA().fit_grid(**given_data, settings=listed))
    assert sorted(fitted) == list(range(len(listed)))
    for i, setting in enumerate(listed):
        assert fitted[i].get_params() == COSTA(**setting).get_params()
        alone = _fit(problem, **setting).decision_function(problem.X_test_unseen)
        np.testing.assert_array_equal(fitted[i].decision_function(problem.X_test_unseen), alone)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_units_change_no_prediction(problem, similarity):
    def scores(features, signatures):
        model = COSTA(feature_norm=None, similarity=similarity).fit(
            features * problem.X_train, problem.y_train, signatures=signatures * problem.signatures
        )
        return model.decision_function(features * problem.X_test_unseen)

    expected = scores(1.0, 1.0)
    np.testing.assert_allclose(scores(1000.0, 1.0), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scores(1.0, 1000.0), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore::zslearn.utils.InputWarning")
@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(2, 6),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from(SIMILARITIES),
)
def test_any_small_problem_has_finite_scores(seed, n_classes, d, n_features, similarity):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=10)])
    signatures = rng.integers(-1, 2, size=(n_classes, d)).astype(float)
    X = rng.integers(-1, 2, size=(len(y), n_features)).astype(float)
    model = COSTA(similarity=similarity)
    model.fit(X, y, signatures=pd.DataFrame(signatures, index=range(n_classes)))
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"similarity": "dot"}, {"sharpness": 0.0}])
def test_wrong_hyper_parameters_are_named(problem, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        _fit(problem, **wrong)


def test_under_exemplars(problem):
    model = EXEM(estimator=COSTA(), n_components=8).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    unseen = problem.unseen_classes
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen) > 0.5


@pytest.mark.parametrize("seed", [0, 1])
def test_recovers_the_generating_model(seed):
    """Unseen signatures, and so class means, that are mixtures of seen ones."""
    data, truth = make_zero_shot(
        100,
        20,
        n_features=64,
        n_attributes=16,
        noise=0.13,
        signature_kind="mixture",
        nonlinearity=0.0,
        random_state=seed,
        return_truth=True,
    )
    model = COSTA(feature_norm=None)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    test = data.X_test_unseen, data.y_test_unseen
    best = truth.score(*test, classes=data.unseen_classes)
    assert 0.7 < best < 0.98
    assert model.score(*test, classes=data.unseen_classes) >= 0.9 * best
