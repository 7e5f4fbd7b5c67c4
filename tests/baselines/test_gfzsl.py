from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from zslearn.baselines import GFZSL
from zslearn.datasets import make_zero_shot
from zslearn.signatures import normalize_signatures


def _fit(problem, signatures=None, **setting):
    signatures = problem.signatures if signatures is None else signatures
    return GFZSL(**setting).fit(problem.X_train, problem.y_train, signatures=signatures)


def _log_densities(model, X, signatures):
    """Log densities by SciPy, in the units of the features."""
    means, variances = model._gaussians(signatures)
    rows = X - model.mean_
    if model.components_ is not None:
        rows = rows @ model.components_
    return np.stack(
        [
            norm.logpdf(rows, loc=mean * model.std_, scale=np.sqrt(variance) * model.std_).sum(1)
            for mean, variance in zip(means, variances, strict=True)
        ],
        axis=1,
    )


@pytest.mark.parametrize("n_components", [None, 6])
@pytest.mark.parametrize("kernel", ["quadratic", "linear"])
def test_scores_differ_as_scipys_log_densities(problem, kernel, n_components):
    model = _fit(
        problem, covariance="class", kernel=kernel, n_components=n_components, alpha_variance=0.01
    )
    scale = model.signature_scale_[0]
    A = normalize_signatures(problem.signatures.loc[model.classes_], scale=scale)
    _, variances = model._gaussians(A)
    assert variances.std(axis=0).min() > 1e-3  # the square term has something to say
    expected = _log_densities(model, normalize(problem.X_test_unseen), A)
    scores = model.decision_function(problem.X_test_unseen)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-10)


def test_statistics_of_the_seen_classes(problem):
    """Means, pooled deviation and shrunk variances, class by class."""
    model = _fit(problem, covariance="class", variance_prior=7.0)
    X = normalize(problem.X_train)
    groups = [X[problem.y_train == label] for label in model.seen_classes_]
    pooled = sum(((g - g.mean(axis=0)) ** 2).sum(axis=0) for g in groups)
    pooled = pooled / (len(X) - len(groups))
    np.testing.assert_allclose(model.std_, np.sqrt(pooled))
    for i, group in enumerate(groups):
        np.testing.assert_allclose(
            model.class_means_[i] * model.std_ + model.mean_, group.mean(axis=0), atol=1e-12
        )
        variance = (len(group) * group.var(axis=0) + 7.0 * pooled) / (len(group) + 7.0)
        np.testing.assert_allclose(np.exp(model.class_log_variances_[i]) * pooled, variance)


def _explicit(kernel, A):
    """Features whose inner product is the kernel."""
    if kernel == "linear":
        return A
    products = (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)
    return np.concatenate([np.ones((len(A), 1)), np.sqrt(2) * A, products], axis=1)


@pytest.mark.parametrize("kernel", ["quadratic", "linear"])
def test_regression_is_ridge_on_explicit_features(problem, kernel):
    """With an intercept that is not penalised, for the means and for the log variances."""
    model = _fit(problem, covariance="class", alpha_mean=0.3, alpha_variance=2.0, kernel=kernel)
    scale = model.signature_scale_[0]
    seen, unseen = (
        _explicit(kernel, normalize_signatures(problem.signatures.loc[classes], scale=scale))
        for classes in (model.seen_classes_, problem.unseen_classes)
    )
    values = np.linalg.svd(seen - seen.mean(axis=0), compute_uv=False) ** 2
    unit = values[values > 1e-10 * values[0]].mean()
    mean, variance = model._gaussians(
        normalize_signatures(problem.signatures.loc[problem.unseen_classes], scale=scale)
    )
    for alpha, targets, found in (
        (0.3, model.class_means_, mean),
        (2.0, model.class_log_variances_, np.log(variance)),
    ):
        ridge = Ridge(alpha=alpha * unit, solver="svd").fit(seen, targets)
        np.testing.assert_allclose(found, ridge.predict(unseen), atol=1e-9)


@pytest.mark.parametrize("n_components", [None, 6])
def test_isotropic_is_the_nearest_predicted_mean(problem, n_components):
    """Scores are negative squared distances up to a factor and a constant per row."""
    model = _fit(problem, n_components=n_components)
    scale = model.signature_scale_[0]
    A = normalize_signatures(problem.signatures.loc[model.classes_], scale=scale)
    means = model._gaussians(A)[0] * model.std_
    rows = normalize(problem.X_test_unseen) - model.mean_
    if n_components is not None:
        rows = rows @ model.components_
    distances = cdist(rows, means, "sqeuclidean")
    assert np.ptp(model.std_) == 0
    expected = -distances / (2 * model.std_[0] ** 2)
    scores = model.decision_function(problem.X_test_unseen)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-9)
    np.testing.assert_array_equal(
        model.predict(problem.X_test_unseen), model.classes_[distances.argmin(axis=1)]
    )


@pytest.mark.parametrize("covariance", ["class", "isotropic"])
@pytest.mark.parametrize("n_components", [None, 8])
def test_the_origin_does_not_matter(problem, n_components, covariance):
    """The squares of features far from the origin would lose a small variance."""

    def scores(unit, origin):
        model = GFZSL(feature_norm=None, n_components=n_components, covariance=covariance)
        X = unit * problem.X_train + origin
        model.fit(X, problem.y_train, signatures=problem.signatures)
        return model.decision_function(unit * problem.X_test_unseen + origin)

    np.testing.assert_allclose(scores(1e-3, 100.0), scores(1.0, 0.0), rtol=1e-5, atol=1e-5)


def test_single_precision_at_many_features():
    data = make_zero_shot(40, 10, n_features=1280, samples_per_class=8, noise=0.3, random_state=0)
    given_data = {"y": data.y_train, "signatures": data.signatures}
    X_train, X = (rows.astype(np.float32) for rows in (data.X_train, data.X_test_unseen))
    single = GFZSL(covariance="class").fit(X_train, **given_data)
    double = GFZSL(covariance="class").fit(X_train.astype(np.float64), **given_data)
    expected = double.decision_function(X.astype(np.float64))
    scores = single.decision_function(X)
    assert scores.dtype == np.float32
    margin = -np.sort(-expected, axis=1)
    off = np.abs(scores - expected).max()
    assert off < 0.02  # nats, of scores of hundreds
    clear = margin[:, 0] - margin[:, 1] > 2 * off
    np.testing.assert_array_equal(scores.argmax(1)[clear], expected.argmax(1)[clear])


def test_a_variance_never_leaves_its_bounds(problem):
    """A signature far from all others gives no degenerate Gaussian."""
    model = _fit(
        problem, covariance="class", alpha_mean=1e-6, alpha_variance=1e-6, variance_prior=0.0
    )
    far = 50 * model.signatures_[:2]
    _, variances = model._gaussians(far)
    assert variances.min() >= 1e-2 - 1e-12
    assert variances.max() <= 1e2 + 1e-9


@pytest.mark.parametrize("n_components", [None, 3])
def test_one_sample_per_class_and_a_constant_feature(n_components):
    """Without a variance within classes, that between them replaces it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.standard_normal((6, 4)), np.full((6, 1), 0.1)], axis=1)
    model = GFZSL(
        feature_norm=None, covariance="class", n_components=n_components, variance_prior=0.0
    )
    model.fit(X, np.arange(6), signatures=pd.DataFrame(rng.standard_normal((8, 3))))
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_recovers_the_generating_model(seed):
    """Means and log variances that are linear in the signatures."""
    data, truth = make_zero_shot(
        150,
        20,
        n_features=32,
        samples_per_class=60,
        n_attributes=16,
        noise=0.4,
        scatter="attributes",
        nonlinearity=0.0,
        random_state=seed,
        return_truth=True,
    )
    model = GFZSL(alpha_variance=0.1, covariance="class", kernel="linear", feature_norm=None)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    test = data.X_test_unseen, data.y_test_unseen
    best = truth.score(*test, classes=data.unseen_classes)
    assert 0.7 < best < 0.98
    assert model.score(*test, classes=data.unseen_classes) >= 0.9 * best
    # The means alone do not suffice.
    for setting in ({"alpha_variance": 1e6}, {"covariance": "isotropic"}):
        equal = clone(model).set_params(**setting)
        equal.fit(data.X_train, data.y_train, signatures=data.signatures)
        assert equal.score(*test, classes=data.unseen_classes) < 0.6 * best


def _mixture_by_hand(z, mean, variance, covariance):
    """Twenty rounds for a mixture, in which each predicted Gaussian counts as one image."""
    first, first_variance, sizes = mean, variance, np.ones(len(mean))
    for _ in range(20):
        logs = norm.logpdf(z[:, None], mean, np.sqrt(variance)).sum(axis=2) + np.log(sizes)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        sizes = shares.sum(axis=0) + 1
        mean = (shares.T @ z + first) / sizes[:, None]
        squares = np.einsum("nc,ncd->cd", shares, (z[:, None] - mean) ** 2)
        squares += first_variance + (first - mean) ** 2
        if covariance == "class":
            variance = squares / sizes[:, None]
        else:
            pooled = squares.sum(axis=0) / sizes.sum()
            variance = np.broadcast_to(pooled.mean(), mean.shape)
    return mean, variance


@pytest.mark.parametrize("covariance", ["class", "isotropic"])
def test_adapting_is_expectation_maximisation(problem, covariance):
    model = _fit(problem, covariance=covariance, n_components=6)
    pile, unseen = problem.X_test_unseen, np.sort(problem.unseen_classes)
    before = model.decision_function(pile)
    adapted = model.adapt(pile, classes=problem.unseen_classes)
    np.testing.assert_array_equal(model.decision_function(pile), before)
    A = normalize_signatures(problem.signatures.loc[unseen], scale=model.signature_scale_[0])
    z = model.embed(normalize(pile))[:, 6:-1]
    mean, variance = _mixture_by_hand(z, *model._gaussians(A), covariance)
    rows = np.searchsorted(adapted.adapted_classes_, unseen)
    np.testing.assert_allclose(adapted.adapted_means_[rows], mean, atol=1e-9)
    np.testing.assert_allclose(adapted.adapted_variances_[rows], variance, rtol=1e-7)
    # Classes that were not candidates, or are described later, keep their scores.
    seen = problem.seen_classes
    later = problem.signatures.iloc[:2].mean().to_frame("zz-new").T
    scores = adapted.add_classes(later).decision_function(pile, classes=[*seen, "zz-new"])
    expected = model.add_classes(later).decision_function(pile, classes=[*seen, "zz-new"])
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    assert adapted.score(pile, problem.y_test_unseen, classes=unseen) > 0.5
