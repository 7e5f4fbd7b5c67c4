"""Features generated for unseen classes, and classifiers that learn from them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize

from zslearn.model_selection import GeneralizedClassKFold, TuningOptions
from zslearn.model_selection._tuning import tune_generator
from zslearn.networks import GaussianGenerator, GeneratedFeatures
from zslearn.solvers import softmax_path


class CountedGenerator(GaussianGenerator):
    """Counts how often any generator was fitted."""

    n_fits = 0

    def fit(self, X, y, signatures):
        type(self).n_fits += 1
        return super().fit(X, y, signatures)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)) + np.repeat(rng.normal(size=(4, 5)), 15, axis=0)


@pytest.fixture
def y():
    return np.repeat(np.arange(4), 15)


def _gaussian_classes(n_per_class=400):
    """Classes with means that are smooth in the signature, and one covariance."""
    rng = np.random.default_rng(1)
    signatures = rng.normal(size=(12, 3))
    root = np.array([[1.0, 0.5, 0.0], [0.0, 0.8, -0.3], [0.0, 0.0, 0.4]])
    means = signatures @ rng.normal(size=(3, 3))
    y = np.repeat(np.arange(12), n_per_class)
    return means[y] + rng.normal(size=(len(y), 3)) @ root, y, signatures, means, root.T @ root


# The Gaussian generator.


def test_gaussian_generator_recovers_a_known_gaussian():
    X, y, signatures, means, covariance = _gaussian_classes()
    model = GaussianGenerator(0.1, 1e-6, shrinkage=0.0).fit(X, y, signatures)
    # Without a penalty the regression interpolates: only the standard error of a mean remains.
    error = 5 * np.sqrt(np.diag(covariance) / 400)
    assert (np.abs(model.predict(signatures) - means) < error).all()
    n = 20_000
    drawn = model.sample(signatures[:2], n, random_state=0)
    assert drawn.shape == (2, n, 3)
    standard_error = np.sqrt(np.diag(covariance) / n)
    for rows, mean in zip(drawn, model.predict(signatures[:2]), strict=True):
        assert (np.abs(rows.mean(axis=0) - mean) < 5 * standard_error).all()
        # Sampling error of a covariance with 4,788 degrees of freedom and 20,000 draws.
        np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.12)


def test_covariance_is_pooled_and_shrunk(data, y):
    model = GaussianGenerator(shrinkage=0.25).fit(data, y, np.eye(4))
    deviations = np.concatenate([data[y == c] - data[y == c].mean(axis=0) for c in range(4)])
    pooled = deviations.T @ deviations / (60 - 4)
    expected = 0.75 * pooled + 0.25 * np.trace(pooled) / 5 * np.eye(5)
    np.testing.assert_allclose(model.root_.T @ model.root_, expected, atol=1e-12)


def test_noise_does_not_depend_on_the_other_classes():
    X, y, signatures, *_ = _gaussian_classes(20)
    model = GaussianGenerator().fit(X, y, signatures)
    together = model.sample(signatures, 5, random_state=3)
    np.testing.assert_allclose(model.sample(signatures[4:5], 5, random_state=3)[0], together[4])
    assert np.abs(model.sample(signatures, 5, random_state=4) - together).max() > 0.1


# Classifiers.


def test_nearest_mean_is_that_of_scikit_learn(data, y):
    """If no class is unseen, nothing is generated."""
    signatures = np.random.default_rng(0).normal(size=(4, 3))
    model = GeneratedFeatures(classifier="mean", feature_norm=None)
    predicted = model.fit(data, y, signatures=signatures).predict(data)
    assert (predicted == NearestCentroid().fit(data, y).predict(data)).all()


# The estimator.


def _fit(problem, *args, **options):
    model = GeneratedFeatures(*args, **{"n_generated": 20, **options})
    return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


@pytest.mark.parametrize("balanced", [False, True])
def test_softmax_over_real_and_generated_features(problem, balanced):
    model = _fit(problem, balanced=balanced, tol=1e-8, alpha=1e-2)
    labels = model.classes_
    seen = np.isin(labels, problem.seen_classes)
    table = problem.signatures.loc[labels].to_numpy()
    unit = normalize(table) / model.signature_scale_[0]
    generated = model.generate(unit[~seen])
    np.testing.assert_allclose(np.linalg.norm(generated, axis=1), 1)
    X = np.concatenate([model.X_, generated])
    y = np.concatenate(
        [np.flatnonzero(seen)[model.y_], np.repeat(np.flatnonzero(~seen), model.n_generated)]
    )
    weights = (1 / np.bincount(y))[y] if balanced else None
    alpha = 1e-2 * X.var(axis=0).sum()
    (result,) = softmax_path(X, y, alphas=[alpha], tol=1e-8, sample_weight=weights)
    rows = normalize(problem.X_test_unseen)
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_unseen),
        rows @ result.coef.T + result.intercept,
        atol=1e-4,
    )


@pytest.mark.parametrize("balanced", [False, True])
def test_logit_adjustment_minimises_the_adjusted_loss(data, y, balanced):
    """ZLA: log priors are added to the logits in training and not in prediction."""
    kept = np.r_[0:15, 15:27, 30:39]  # 15, 12 and 9 samples of three seen classes
    X, y, odds = data[kept], y[kept], 30.0
    signatures = np.random.default_rng(0).normal(size=(5, 3))
    options = {"n_generated": 4, "alpha": 0.01, "balanced": balanced, "tol": 1e-10}
    model = GeneratedFeatures(**options, seen_odds=odds, feature_norm=None)
    rows, codes = model.fit(X, y, signatures=pd.DataFrame(signatures))._samples(
        normalize(signatures) / model.signature_scale_[0], model.classes_
    )
    counts = np.bincount(codes)
    assert counts.tolist() == [15, 12, 9, 4, 4]
    seen = np.full(3, 1 / 3) if balanced else counts[:3] / 36
    log_priors = np.log(np.r_[odds / (1 + odds) * seen, np.full(2, 1 / (1 + odds) / 2)])
    weights = (1 / counts[codes] if balanced else np.ones(len(codes))) / len(codes)
    weights /= weights.sum()
    penalty = options["alpha"] * rows.var(axis=0).sum()

    def adjusted_loss(flat):
        coef, intercept = flat[:25].reshape(5, 5), flat[25:]
        logits = rows @ coef.T + intercept + log_priors
        losses = logsumexp(logits, axis=1) - logits[np.arange(len(codes)), codes]
        return weights @ losses + 0.5 * penalty * (coef**2).sum()

    best = minimize(adjusted_loss, np.zeros(30), options={"gtol": 1e-8}).x
    expected = X @ best[:25].reshape(5, 5).T + best[25:]
    found = model.decision_function(X)
    # A softmax determines its logits up to a constant.
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-3)


def test_seen_odds_act_as_a_calibration_factor(problem):
    scores = {odds: _fit(problem, balanced=True, seen_odds=odds) for odds in (1.0, 20.0, None)}
    scores = {odds: m.decision_function(problem.X_test_unseen) for odds, m in scores.items()}
    labels = np.sort(problem.signatures.index)
    seen = np.isin(labels, problem.seen_classes)
    change = scores[20.0] - scores[1.0]
    np.testing.assert_allclose(change[:, seen] - change[:, ~seen][:, :1], -np.log(20.0), atol=1e-5)
    # Equal shares of classes leave only their number.
    change = (scores[1.0] - scores[None])[0]
    ratio = np.log(seen.sum() / (~seen).sum())
    np.testing.assert_allclose(change[seen] - change[~seen][0], ratio, atol=1e-5)


def test_classifier_of_unseen_classes_alone(problem):
    model = _fit(problem)
    labels = np.sort(problem.unseen_classes)
    table = problem.signatures.loc[labels].to_numpy()
    unit = normalize(table) / model.signature_scale_[0]
    rows = model.synthesize(unit, labels)
    assert rows.shape == (len(labels), problem.X_train.shape[1] + 1)
    predicted = labels[(model.embed(model.generate(unit)) @ rows.T).argmax(axis=1)]
    assert (predicted == np.repeat(labels, model.n_generated)).mean() > 0.9


def test_adding_classes_trains_no_generator(problem):
    CountedGenerator.n_fits = 0
    late = problem.unseen_classes[:2]
    model = GeneratedFeatures(CountedGenerator(), n_generated=10)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures.drop(index=late))
    assert CountedGenerator.n_fits == 1
    fitted = model.generator_
    model.add_classes(problem.signatures.loc[late])
    assert CountedGenerator.n_fits == 1
    assert model.generator_ is fitted
    assert set(late) <= set(model.unseen_classes_)


def test_held_out_classes_choose_the_weights_of_generated_features(problem):
    options = TuningOptions("gzsl", "quick", GeneralizedClassKFold(2, random_state=0))
    search = tune_generator(GeneratedFeatures(GaussianGenerator()), problem, options)
    scores, balanced = (search.cv_results_[name] for name in ("mean_test_ausuc", "param_balanced"))
    of_each = [scores[balanced == choice].tolist() for choice in (False, True)]
    assert of_each[0] != of_each[1]
    assert search.best_params_["balanced"] == balanced[scores.argmax()]
