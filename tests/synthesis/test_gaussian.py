"""Gaussian EXEM against direct computations, and what it makes of labelled samples."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist, pdist
from scipy.special import softmax
from scipy.stats import multivariate_normal

from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.metrics import best_harmonic_mean
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.persistence import load, save
from zslearn.signatures import MultiSignatures, SignatureViews, rbf_similarity
from zslearn.synthesis import EXEM, ClassStatistics, GaussianEXEM, SynC
from zslearn.synthesis._gaussian_process import signal_variances


@pytest.fixture(scope="module")
def problem():
    return make_zero_shot(random_state=0)


def _fit(problem, **params):
    return GaussianEXEM(**params).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )


def _prepared(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _known_means(model):
    """The posterior of the mean of each class, by label."""
    return dict(
        zip(model.classes_.tolist(), zip(*model.class_gaussians(), strict=True), strict=True)
    )


# The whitened space.


@pytest.mark.parametrize("n_components", [6, None])
def test_distances_are_those_of_mahalanobis(n_components):
    """In few dimensions, where samples keep their norm."""
    problem = make_zero_shot(n_seen=9 if n_components else 8, random_state=0)
    rho = 0.3
    model = _fit(problem, n_components=n_components, shrinkage=rho)
    X, y = _prepared(problem.X_train), np.asarray(problem.y_train)
    if n_components is not None:
        centered = X - X.mean(axis=0)
        X = centered @ np.linalg.svd(centered, full_matrices=False)[2][:n_components].T
    classes = np.unique(y)
    means = np.stack([X[y == label].mean(axis=0) for label in classes])
    deviations = X - means[np.searchsorted(classes, y)]
    within = deviations.T @ deviations / (len(X) - len(classes))
    shrunk = (1 - rho) * within + rho * np.trace(within) / len(within) * np.eye(len(within))
    expected = cdist(means, means, "mahalanobis", VI=np.linalg.inv(shrunk))
    np.testing.assert_allclose(cdist(model.exemplars_, model.exemplars_), expected, atol=1e-8)
    np.testing.assert_allclose(model.exemplars_.mean(axis=0), 0, atol=1e-10)
    assert model.exemplars_.shape[1] == min(len(classes) - 1, X.shape[1])
    z = model.whiten(problem.X_train)
    means = np.stack([z[problem.y_train == label].mean(axis=0) for label in classes])
    np.testing.assert_allclose(means, model.exemplars_, atol=1e-10)


def test_common_norm_and_its_means_from_statistics(problem):
    model = _fit(problem)
    z = model.whiten(problem.X_train)
    space = model.posterior_.space
    np.testing.assert_allclose(np.linalg.norm(z + space.center, axis=1), space.norm)
    # The root of the mean squared norm before, and means to a few per cent.
    before = _prepared(problem.X_train) @ space.matrix - space.offset
    np.testing.assert_allclose(space.norm, np.sqrt((before**2).sum(axis=1).mean()))
    means = np.stack([z[problem.y_train == label].mean(axis=0) for label in model.seen_classes_])
    error = np.linalg.norm(model.exemplars_ - (means - means.mean(axis=0)))
    assert error < 0.06 * np.linalg.norm(means)


# Class means against a direct computation.


def _likeliest_signals(kernel, means, sizes, alpha):
    """The signal variance of each dimension with the largest evidence, by a dense search."""
    covariance, noise = kernel + alpha * np.eye(len(kernel)), np.diag(1 / sizes)
    found = []
    for y in means.T:

        def cost(log_s2, y=y):
            return -multivariate_normal.logpdf(y, cov=np.exp(log_s2) * covariance + noise)

        grid = np.linspace(-16, 8, 97)
        best = grid[np.argmin([cost(value) for value in grid])]
        options = {"xatol": 1e-9}
        bounds = (best - 0.3, best + 0.3)
        found.append(minimize_scalar(cost, bounds=bounds, method="bounded", options=options).x)
    return np.exp(found)


def _conditioned(table, row, means, sizes, alpha, signals):
    """Means and variances of one class in each dimension, from its kernel with others."""
    found = []
    for s2, y in zip(signals, means.T, strict=True):
        inside = s2 * (table + alpha * np.eye(len(table))) + np.diag(1 / sizes)
        weights = np.linalg.solve(inside, s2 * row)
        found.append((weights @ y, s2 * (1 + alpha) - s2 * weights @ row))
    return np.array(found).T


def test_class_means_follow_their_definition():
    """A process over two layers of kernels, and what the samples of a seen class add to it."""
    data = make_zero_shot(10, 3, n_features=6, random_state=1)
    gamma, alpha, trusted = 0.4, 0.2, 0.5
    model = _fit(data, gamma=gamma, alpha=alpha, seen_weight=trusted)
    means, order = model.exemplars_, [*model.seen_classes_, *model.unseen_classes_]
    n, sizes = len(means), np.unique(data.y_train, return_counts=True)[1].astype(float)
    rows = _prepared(data.signatures.loc[order].to_numpy())
    rows = rows / np.median(pdist(rows[:n]))
    kernel = np.exp(-gamma * cdist(rows, rows[:n]) ** 2)
    first = _likeliest_signals(kernel[:n], means, sizes, alpha)

    def predicted(row, others):
        table = kernel[np.ix_(others, others)]
        found = _conditioned(table, row[others], means[others], sizes[others], alpha, first)
        return found[0]

    everyone = np.arange(n)
    points = _prepared(np.stack([predicted(row, everyone) for row in kernel]))
    scale = np.median(pdist(points[:n]))
    above = np.exp(-gamma * (cdist(points, points[:n]) / scale) ** 2)
    table = (kernel + above) / 2
    second = _likeliest_signals(table[:n], means, sizes, alpha)
    expected = []
    for c, row in enumerate(table):
        if c >= n:
            expected.append(_conditioned(table[:n], row, means, sizes, alpha, second))
            continue
        # Predicted by the others in both layers, then moved by its own samples.
        others = np.delete(everyone, c)
        point = _prepared(predicted(kernel[c], others)[None, :])
        own = (kernel[c] + np.exp(-gamma * (cdist(point, points[:n]) / scale)[0] ** 2)) / 2
        inside = table[np.ix_(others, others)]
        mean, variance = _conditioned(
            inside, own[others], means[others], sizes[others], alpha, second
        )
        precision = 1 / variance + trusted * sizes[c]
        mean = (mean / variance + trusted * sizes[c] * means[c]) / precision
        expected.append((mean, 1 / precision))
    known = _known_means(model)
    for label, (mean, variance) in zip(order, expected, strict=True):
        # Signal variances are refined by a parabola on a grid.
        np.testing.assert_allclose(known[label][0], mean, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(known[label][1], variance, rtol=2e-3, atol=2e-4)


def test_signal_variances_are_the_highest_of_several_maxima():
    rng = np.random.default_rng(0)
    values = np.geomspace(0.01, 1e3, 30)
    squares = rng.exponential(size=(30, 200)) * np.geomspace(1e-2, 1e4, 200)
    squares[rng.random(squares.shape) < 0.8] = 0.0
    found = signal_variances(squares, values)
    grid = np.exp(np.linspace(np.log(1e-6 / values.mean()), 25, 4000))

    def densities(signals):
        totals = 1 + signals[..., None] * values[:, None, None].T
        return -(np.log(totals) + squares.T / totals).sum(axis=-1)

    best = np.stack([densities(np.full(200, signal)) for signal in grid]).max(axis=0)
    np.testing.assert_allclose(densities(found), best, atol=2e-3)


def test_no_signal_where_class_means_scatter_less_than_samples():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 12)
    X, signatures = rng.normal(size=(len(y), 8)), pd.DataFrame(rng.normal(size=(24, 3)))
    model = GaussianEXEM(feature_norm=None).fit(X, y, signatures=signatures)
    means, _ = model.class_gaussians()
    assert (np.abs(means[20:]).max(axis=0) < 1e-5).sum() >= 4


# Scores and probabilities.


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_scores_are_log_densities(problem, weight):
    model = _fit(problem, mean_error_weight=weight, temperature=1.7, unseen_odds=3.0)
    left_out = model.posterior_.leave_one_out.means
    variances = 1 + weight * ((left_out - model.exemplars_) ** 2).mean(axis=0)
    X = problem.X_test_unseen[:6]
    densities = np.stack(
        [
            multivariate_normal.logpdf(model.whiten(X), mean, np.diag(variances))
            for mean in model.class_gaussians()[0]
        ],
        axis=1,
    )
    unseen = np.isin(model.classes_, problem.unseen_classes)
    expected = densities / 1.7 + np.log(3.0) * unseen
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), softmax(expected, axis=1), atol=1e-10)


def test_odds_move_the_choice_between_groups_only(problem):
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    low, high = _fit(problem, unseen_odds=1e-9), _fit(problem, unseen_odds=1e9)
    assert np.isin(low.predict(X), problem.seen_classes).mean() > 0.95
    assert np.isin(high.predict(X), problem.unseen_classes).mean() > 0.95
    among = {"classes": problem.unseen_classes}
    np.testing.assert_array_equal(low.predict(X, **among), high.predict(X, **among))


@pytest.mark.parametrize("factor", [1e-6, 0.1, 30.0, 1e6])
def test_a_temperature_that_is_given_leaves_the_balance_as_it_is(problem, factor):
    found = _fit(problem)
    model = _fit(problem, temperature=factor * found.temperature_)
    assert np.log(model.unseen_odds_) == pytest.approx(
        np.clip(np.log(found.unseen_odds_) / factor, -700, 700)
    )
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    if factor > 1e-3:
        np.testing.assert_array_equal(model.predict(X), found.predict(X))
    assert np.isfinite(model.decision_function(X)).all()


def test_mean_errors_pay_where_half_of_the_dimensions_are_not_described():
    """Class means of which signatures tell one half, and nothing of the other."""
    rng = np.random.default_rng(0)
    signatures = rng.normal(size=(60, 4))
    predictable = 2 * np.tanh(signatures @ rng.normal(size=(4, 10)))
    means = np.concatenate([predictable, 4 * rng.normal(size=(60, 10))], axis=1)
    y = np.repeat(np.arange(60), 12)
    X = means[y] + rng.normal(size=(len(y), 20))
    seen = y < 45
    accuracy = []
    for weight in (0.0, 1.0):
        model = GaussianEXEM(mean_error_weight=weight, gamma=0.25, feature_norm=None)
        model.fit(X[seen], y[seen], signatures=pd.DataFrame(signatures))
        accuracy.append(model.score(X[~seen], y[~seen], classes=np.arange(45, 60)))
    assert accuracy[1] > accuracy[0] + 0.1


def test_odds_balance_seen_and_unseen_classes():
    data = make_zero_shot(40, 10, nonlinearity=1.0, random_state=0)
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    y = np.concatenate([data.y_test_seen, data.y_test_unseen])
    model = _fit(data)
    kinds = {"classes": model.classes_, "seen_classes": data.seen_classes}
    best = best_harmonic_mean(y, model.decision_function(X), **kinds)[0]
    seen = model.score(data.X_test_seen, data.y_test_seen, classes=model.classes_)
    unseen = model.score(data.X_test_unseen, data.y_test_unseen, classes=model.classes_)
    assert 2 * seen * unseen / (seen + unseen) > 0.9 * best


@pytest.mark.filterwarnings("ignore:Statistics do not tell")
def test_statistics_tell_neither_temperature_nor_odds(problem, warn_again):
    statistics = ClassStatistics.from_samples(problem.X_train, problem.y_train)
    with pytest.warns(InputWarning, match="odds of unseen classes, which are set to 4"):
        GaussianEXEM(temperature=1.0).fit_statistics(statistics, signatures=problem.signatures)
    model = GaussianEXEM().fit_statistics(statistics, signatures=problem.signatures)
    assert (model.temperature_, model.unseen_odds_) == (1.0, 4.0)
    fitted, among = _fit(problem), {"classes": problem.unseen_classes}
    assert fitted.temperature_ != 1.0
    X = problem.X_test_unseen
    np.testing.assert_array_equal(model.predict(X, **among), fitted.predict(X, **among))
    few = make_zero_shot(9, random_state=0)
    assert _fit(few, temperature=1.0).unseen_odds_ == pytest.approx(4.0 ** _fit(few).temperature_)


@pytest.mark.parametrize("shrinkage", [0.05, 0.5])
def test_temperature_is_that_of_samples_outside_the_training_data(shrinkage):
    """Also where the samples of a class are fewer than the features that their whitening needs."""
    data = make_zero_shot(
        60, 5, n_features=300, samples_per_class=40, nonlinearity=1.0, noise=0.5, random_state=0
    )
    classes, S = data.seen_classes, data.signatures.loc[data.seen_classes]
    X, y = data.X_train, data.y_train
    codes = np.searchsorted(classes, y)
    held_out, fresh = codes % 5 == 0, np.arange(len(y)) % 3 == 0
    train = ~held_out & ~fresh
    model = GaussianEXEM(shrinkage=shrinkage).fit(X[train], y[train], signatures=S)
    scores, right = [], []
    for own in (fresh & ~held_out, held_out):
        among = np.unique(y[own])
        scores.append(model.temperature_ * model.decision_function(X[own], classes=among))
        right.append(np.searchsorted(among, y[own]))

    def cost(log_t):
        rows = [softmax(part / np.exp(log_t), axis=1) for part in scores]
        chosen = [row[np.arange(len(own)), own] for row, own in zip(rows, right, strict=True)]
        return -sum(np.log(part).mean() for part in chosen)

    best = np.exp(minimize_scalar(cost, bounds=(-3, 4), method="bounded").x)
    assert model.temperature_ == pytest.approx(best, rel=0.25)


def test_samples_are_scored_as_if_they_were_not_in_the_training_data():
    """Every sample taken out of its class mean and covariance, by hand."""
    data = make_zero_shot(12, 3, n_features=20, samples_per_class=15, random_state=0)
    rho, weight, expected = 0.3, 0.7, []
    model = _fit(data, seen_weight=weight, shrinkage=rho, feature_norm=None)
    X, codes = np.asarray(data.X_train, float), np.searchsorted(data.seen_classes, data.y_train)
    n, sizes = len(X), np.bincount(codes).astype(float)
    means = np.stack([X[codes == c].mean(axis=0) for c in range(12)])
    scatter = np.cov((X - means[codes]).T, bias=True) * n / (n - 12)
    shrunk = (1 - rho) * scatter + rho * np.trace(scatter) / 20 * np.eye(20)
    mean_q = np.trace(np.linalg.solve(shrunk, scatter))
    images = model._trial_images
    posterior = model.posterior_
    prior, exemplars = posterior.leave_one_out, posterior.exemplars
    own = prior.given(weight * sizes, exemplars)
    z = model.whiten(X)
    leverage = (1 - rho) * mean_q / n
    for row, c in zip(z, codes, strict=True):
        moved = exemplars[c] + (row - exemplars[c]) / (1 - leverage)
        outside = max(mean_q - ((row - exemplars[c]) ** 2).sum(), 0) / (1 - leverage)
        count, removed = weight * sizes[c], weight
        precision = 1 / prior.variances[c] + count - removed
        without = prior.means[c] / prior.variances[c] + count * exemplars[c] - removed * moved
        without = without / precision
        score = without @ moved - 0.5 * without @ without
        expected.append(score - (removed / precision).mean() * outside)
    kept, own_means = images.z.astype(float), own.means[images.y]
    found = (kept * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(axis=1)
    expected = np.array(expected)
    for c in range(12):
        # They are kept in half precision, in another order.
        pairs = np.sort(found[images.y == c]), np.sort(expected[codes == c])
        np.testing.assert_allclose(*pairs, atol=0.05)


# How settings share work, and what the methods around do.


def test_statistics_in_place_of_samples(problem):
    X, y = problem.X_test_unseen, np.asarray(problem.y_train)
    options = {"temperature": 2.0, "unseen_odds": 3.0, "mean_error_weight": 1.0, "n_components": 12}
    expected = _fit(problem, **options).decision_function(X)
    parts = [np.arange(len(y))[i::3] for i in range(3)]
    statistics = sum(ClassStatistics.from_samples(problem.X_train[p], y[p]) for p in parts)
    by_statistics = GaussianEXEM(**options).fit_statistics(
        statistics, signatures=problem.signatures
    )
    np.testing.assert_allclose(by_statistics.decision_function(X), expected, rtol=1e-7, atol=1e-7)


def test_the_order_of_many_samples_changes_nothing():
    data = make_zero_shot(30, samples_per_class=50, n_features=20, random_state=0)
    models = [GaussianEXEM(), GaussianEXEM()]
    order = np.random.default_rng(0).permutation(len(data.y_train))
    models[0].fit(data.X_train, data.y_train, signatures=data.signatures)
    models[1].fit(data.X_train[order], data.y_train[order], signatures=data.signatures)
    assert len(order) > 1000
    for name in ("temperature_", "unseen_odds_"):
        first, second = (getattr(model, name) for model in models)
        assert second == pytest.approx(first, rel=1e-6)


def test_search_and_wrappers_keep_probabilities(problem):
    data = problem.X_train, problem.y_train
    search = ZeroShotSearchCV(GaussianEXEM(), {"gamma": [0.25, 1.0]}, cv=3)
    search.fit(*data, signatures=problem.signatures)
    calibrated = CalibratedStacking(GaussianEXEM(), cv=3).fit(*data, signatures=problem.signatures)
    for model in (search, calibrated):
        chances = model.predict_proba(problem.X_test_unseen)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        predicted = model.classes_[chances.argmax(axis=1)]
        np.testing.assert_array_equal(predicted, model.predict(problem.X_test_unseen))


# Extreme inputs.


@pytest.mark.parametrize("shrinkage", [1e-6, 0.6, 1.0])
def test_fewer_samples_than_dimensions(shrinkage):
    data = make_zero_shot(n_seen=6, n_features=200, samples_per_class=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = _fit(data, shrinkage=shrinkage)
    scores = model.decision_function(data.X_test_unseen)
    assert np.isfinite(scores).all()
    # With six classes to learn from: above chance among five, on what was trained on.
    assert (model.predict(data.X_train, classes=data.seen_classes) == data.y_train).mean() > 0.5


def test_one_sample_per_class(problem):
    rows = np.unique(problem.y_train, return_index=True)[1]
    with pytest.warns(InputWarning, match="no variance within"):
        model = GaussianEXEM().fit(
            problem.X_train[rows], problem.y_train[rows], signatures=problem.signatures
        )
    classes = problem.unseen_classes
    assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=classes) > 0.25


@pytest.mark.filterwarnings("ignore:The seen classes have no variance")
def test_constant_features(problem):
    X = np.ones_like(problem.X_train)
    model = GaussianEXEM().fit(X, problem.y_train, signatures=problem.signatures)
    assert np.isfinite(model.decision_function(X[:3])).all()
    assert np.isfinite(model.predict_proba(problem.X_test_unseen)).all()


def test_some_constant_features_change_nothing(problem):
    options = {"feature_norm": None, "temperature": 1.0, "shrinkage": 1e-4, "n_components": 30}
    wide = np.concatenate([problem.X_train, np.full((len(problem.X_train), 3), 7.0)], axis=1)
    model = GaussianEXEM(**options).fit(wide, problem.y_train, signatures=problem.signatures)
    test = np.concatenate([problem.X_test_unseen, np.full((len(problem.X_test_unseen), 3), 7.0)], 1)
    np.testing.assert_allclose(
        model.decision_function(test),
        _fit(problem, **options).decision_function(problem.X_test_unseen),
        rtol=1e-5,
        atol=1e-5,
    )


def test_two_classes(problem):
    rows = np.isin(problem.y_train, problem.seen_classes[:2])
    X, y = problem.X_train[rows], np.asarray(problem.y_train)[rows]
    model = GaussianEXEM().fit(X, y, signatures=problem.signatures)
    assert model.exemplars_.shape[1] == 1
    assert (model.predict(X, classes=problem.seen_classes[:2]) == y).mean() > 0.9
    assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()


def test_signatures_that_are_all_alike(problem):
    alike = problem.signatures * 0 + 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianEXEM().fit(problem.X_train, problem.y_train, signatures=alike)
    assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()
    seen = problem.seen_classes
    assert model.score(problem.X_test_seen, problem.y_test_seen, classes=seen) > 0.5


# Few samples of a class.


@pytest.fixture(scope="module")
def many_classes():
    return make_zero_shot(30, 8, samples_per_class=50, n_features=40, noise=0.35, random_state=3)


def _few_of_unseen(data, k, draw=0):
    """Rows of so many samples of each unseen class, and all other rows."""
    order = np.random.default_rng(draw).permutation(len(data.y_test_unseen))
    labels = data.y_test_unseen[order]
    given = np.concatenate([order[labels == label][:k] for label in data.unseen_classes])
    return given, np.setdiff1d(order, given)


def _accuracy(model, data, rows):
    return model.score(
        data.X_test_unseen[rows], data.y_test_unseen[rows], classes=data.unseen_classes
    )


def test_a_few_samples_help_and_are_few_beside_many(many_classes):
    data = many_classes
    found = {}
    for k in (0, 1, 5):
        for draw in range(3):
            given, rest = _few_of_unseen(data, k, draw)
            X = np.concatenate([data.X_train, data.X_test_unseen[given]])
            y = np.concatenate([data.y_train, data.y_test_unseen[given]])
            fitted = GaussianEXEM().fit(X, y, signatures=data.signatures)
            added = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
            if k:
                added.add_examples(data.X_test_unseen[given], data.y_test_unseen[given])
            scores = _accuracy(fitted, data, rest), _accuracy(added, data, rest)
            found.setdefault(k, []).append(scores)
    zero, one, five = (np.mean(found[k], axis=0) for k in (0, 1, 5))
    assert (one >= zero).all()
    assert (five > zero).all()
    # Few samples do not change the space, which is that of the other classes.
    assert fitted.exemplars_.shape[1] == added.exemplars_.shape[1]


def test_examples_move_a_class_as_bayes_rule_asks(many_classes):
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    before = _known_means(model)
    label = data.unseen_classes[0]
    rows = np.flatnonzero(data.y_test_unseen == label)[:3]
    z = model.whiten(data.X_test_unseen[rows])
    model.add_examples(data.X_test_unseen[rows], data.y_test_unseen[rows])
    after = _known_means(model)
    mean, variance = before[label]
    precision = 1 / (variance * model.posterior_.variance_ratio)
    n = 3 * model.few_shot_weight
    expected = (mean * precision + model.few_shot_weight * z.sum(axis=0)) / (precision + n)
    np.testing.assert_allclose(after[label][0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(after[label][1], 1 / (precision + n))
    for other in set(before) - {label}:
        np.testing.assert_allclose(before[other][0], after[other][0], atol=1e-12)
    # Its log odds fall, halfway, with the variance that remains of its mean.
    table = model.signature_table_
    described = table.normalized(model.signature_scale_, keep_views=True)
    left = model.posterior_.gaussians(described, table.labels)[1][table.labels == label]
    remaining = after[label][1].sum() / (1 / precision).sum()
    assert left == pytest.approx((1 + remaining) / 2)


def test_a_removed_class_leaves_none_of_its_examples(many_classes):
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    before = model.decision_function(data.X_test_unseen)
    label = data.unseen_classes[0]
    rows = np.flatnonzero(data.y_test_unseen == label)[:3]
    model.add_examples(data.X_test_unseen[rows], np.repeat([label, "zz"], [2, 1]))
    model.remove_classes([label, "zz"]).add_classes(data.signatures.loc[[label]])
    np.testing.assert_allclose(model.decision_function(data.X_test_unseen), before, atol=1e-9)


def test_the_order_of_examples_does_not_matter(many_classes):
    data = many_classes
    given, rest = _few_of_unseen(data, 4)
    models = [
        GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures) for _ in range(2)
    ]
    models[0].add_examples(data.X_test_unseen[given], data.y_test_unseen[given])
    for row in given[::-1]:
        models[1].add_examples(data.X_test_unseen[[row]], data.y_test_unseen[[row]])
    first, second = (model.decision_function(data.X_test_unseen[rest]) for model in models)
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


@pytest.fixture
def small_tables(monkeypatch):
    """Tables of classes that are not merged even if they are small."""
    monkeypatch.setattr("zslearn.signatures._described._SMALL", 0)


_CHANGES = [
    "describe", "remove", "label", "take back", "describe and label", "name", "copy", "save",
]  # fmt: skip


@pytest.mark.usefixtures("small_tables")
@given(changes=st.lists(st.sampled_from(_CHANGES), min_size=5, max_size=20), rng=st.randoms())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_of_changes_equals_one_fit_and_one_call(changes, rng, tmp_path):
    data = make_zero_shot(12, 10, n_features=30, samples_per_class=6, random_state=0)
    S, X, y = data.signatures, data.X_test_unseen, data.y_test_unseen
    seen, described = list(data.seen_classes), set(data.unseen_classes[:2])
    named: set[str] = set()
    samples: list[int] = []

    def fit():
        table = S.loc[rng.sample(rows := [*seen, *sorted(described)], len(rows))]
        return GaussianEXEM().fit(data.X_train, data.y_train, signatures=table)

    def some(items, most=4):
        items = sorted(items)
        return rng.sample(items, min(rng.randint(1, most), len(items)))

    model = fit()
    for change in changes:
        present = described | named
        new = some(set(data.unseen_classes) - present)
        if change == "copy":
            model = copy.deepcopy(model)
        elif change == "save":
            save(model, tmp_path / "model.zsl")
            model = load(tmp_path / "model.zsl", verify=rng.random() < 0.5)
        elif change == "remove" and present:
            old = some(present)
            model.remove_classes(old)
            described, named = described - set(old), named - set(old)
            samples = [row for row in samples if y[row] not in old]
        elif change == "take back" and samples:
            # A class without a signature keeps its samples.
            rows = some([row for row in samples if y[row] in described])
            if rows:
                model.remove_examples(X[rows], y[rows])
                samples = [row for row in samples if row not in rows]
        elif change == "describe" and new:
            model.add_classes(S.loc[new])
            described |= set(new)
        elif change in ("label", "describe and label", "name"):
            labels = {"label": present, "name": new[:1]}.get(change, new)
            rows = some(set(np.flatnonzero(np.isin(y, list(labels)))) - set(samples))
            if rows:
                signatures = S.loc[new] if change == "describe and label" else None
                model.add_examples(X[rows], y[rows], signatures=signatures)
                samples += rows
                named |= set(labels) if change == "name" else set()
                described |= set(new) if change == "describe and label" else set()
    expected = fit()
    if samples:
        rows = rng.sample(samples, len(samples))
        expected.add_examples(X[rows], y[rows])
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.unseen_classes_.tolist() == expected.unseen_classes_.tolist()
    found, best = model.predict_top_k(X, 3), expected.predict_top_k(X, 3)
    np.testing.assert_array_equal(found[0], best[0])
    for a, b in (
        (found[1], best[1]),
        (model.decision_function(X), expected.decision_function(X)),
        *zip(model.class_gaussians(), expected.class_gaussians(), strict=True),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("few_shot_weight", [0.05, 1.0])
def test_an_example_never_raises_the_distance_of_its_class(many_classes, few_shot_weight):
    data = many_classes
    model = GaussianEXEM(few_shot_weight=few_shot_weight)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    # Of seen classes and unseen ones, one after the other.
    rng = np.random.default_rng(0)
    X = np.concatenate([data.X_test_unseen, data.X_test_seen])
    y = np.concatenate([data.y_test_unseen, data.y_test_seen])
    for row in rng.choice(len(y), 40, replace=False):
        before = _known_means(model)[y[row]][0]
        model.add_examples(X[[row]], y[[row]])
        after = _known_means(model)[y[row]][0]
        z = model.whiten(X[[row]])[0]
        assert (np.abs(z - after) <= np.abs(z - before) + 1e-12).all()


def test_examples_reach_beyond_the_space(many_classes):
    """The score of a class has what its examples share with a sample where no seen class lies."""
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    space = model.posterior_.space
    given, _ = _few_of_unseen(data, 3)
    model.add_examples(data.X_test_unseen[given], data.y_test_unseen[given])
    assert model.posterior_.space is space
    X, seen = _prepared(data.X_test_unseen), _prepared(data.X_train)
    # Whitened directions that are orthogonal to the means of the seen classes.
    means = np.stack([seen[data.y_train == label].mean(axis=0) for label in model.seen_classes_])
    whitened = (means - space.complement.center) @ space.complement.whitening
    axes = np.linalg.svd(whitened)[2][len(means) - 1 :].T
    lengths = np.linalg.norm(X @ space.matrix - space.offset, axis=1, keepdims=True)
    r = (X - space.complement.center) @ space.complement.whitening @ axes * space.norm / lengths
    label = data.unseen_classes[2]
    own = given[data.y_test_unseen[given] == label]
    worth = space.complement.signal * model.few_shot_weight * 3
    further = worth / (1 + worth) * r[own].mean(axis=0)
    mean, z = _known_means(model)[label][0], model.whiten(data.X_test_unseen)
    inside = z @ mean - mean @ mean / 2 + r @ further - further @ further / 2
    found = model.decision_function(data.X_test_unseen, classes=[label])[:, 0]
    # The rest is the log prior, the same for all samples.
    left = found - inside / model.temperature_
    np.testing.assert_allclose(left, left[0], atol=1e-8)
    assert 0 < left[0] < np.log(model.unseen_odds_)


def test_chunks_learn_what_all_samples_at_once_do_whatever_the_sizes(many_classes):
    data = many_classes
    given, rest = _few_of_unseen(data, 3)
    X = np.concatenate([data.X_train, data.X_test_unseen[given]])
    y = np.concatenate([data.y_train, data.y_test_unseen[given]])
    whole = GaussianEXEM(temperature=2.0, unseen_odds=3.0).fit(X, y, signatures=data.signatures)
    parts = GaussianEXEM(temperature=2.0, unseen_odds=3.0)
    order = np.random.default_rng(0).permutation(len(y))
    for chunk in np.array_split(order, 7):
        parts.partial_fit(X[chunk], y[chunk], classes=np.unique(y), signatures=data.signatures)
    np.testing.assert_allclose(
        parts.decision_function(data.X_test_unseen[rest]),
        whole.decision_function(data.X_test_unseen[rest]),
        rtol=1e-9,
        atol=1e-9,
    )


def test_variances_are_those_of_classes_that_had_no_part_in_the_space():
    """The estimate for seen classes is close to the error of held-out classes."""
    data = make_zero_shot(60, 20, samples_per_class=60, n_features=100, noise=0.3, random_state=0)
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    means, _ = model.class_gaussians()
    z, y = model.whiten(data.X_test_unseen), data.y_test_unseen
    errors = [
        (z[y == label].mean(axis=0) - means[model.classes_ == label][0]) ** 2
        for label in data.unseen_classes
    ]
    found = float(np.mean(errors))
    assert 0.7 < found / model.observed_variances_.mean() < 1.4


def test_examples_of_classes_that_are_new(many_classes, tmp_path):
    data = many_classes
    model = GaussianEXEM().fit(
        data.X_train, data.y_train, signatures=data.signatures.loc[data.seen_classes]
    )
    described, unknown = data.unseen_classes[:2]
    rows = np.flatnonzero(np.isin(data.y_test_unseen, [described, unknown]))
    given, rest = rows[::2], rows[1::2]
    model.add_examples(
        data.X_test_unseen[given],
        data.y_test_unseen[given],
        signatures=data.signatures.loc[[described]],
    )
    assert {described, unknown} <= set(model.classes_.tolist())
    pair = [described, unknown]
    assert model.score(data.X_test_unseen[rest], data.y_test_unseen[rest], classes=pair) > 0.8
    save(model, tmp_path / "model.zsl")
    again = load(tmp_path / "model.zsl")
    np.testing.assert_array_equal(
        again.decision_function(data.X_test_unseen), model.decision_function(data.X_test_unseen)
    )
    more = rest[:1]
    for m in (model, again):
        m.add_examples(data.X_test_unseen[more], data.y_test_unseen[more])
    np.testing.assert_allclose(
        again.decision_function(data.X_test_unseen), model.decision_function(data.X_test_unseen)
    )


def test_classes_that_nobody_described_are_told_apart_by_their_images(many_classes):
    data = many_classes
    seen = data.signatures.loc[data.seen_classes]
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=seen)
    rows = np.isin(data.y_test_unseen, data.unseen_classes[:2])
    X, y = data.X_test_unseen[rows], data.y_test_unseen[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no word of equal signatures
        model.add_examples(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2], classes=data.unseen_classes[:2]) > 0.8
    with pytest.warns(UserWarning, match="look like existing ones"):
        model.add_examples(X[:1], [f"{y[0]} "])


def test_a_further_chunk_forgets_classes_that_nobody_described(many_classes):
    data = many_classes
    model = GaussianEXEM(temperature=1.0, unseen_odds=1.0)
    model.partial_fit(data.X_train, data.y_train, signatures=data.signatures)
    classes = model.classes_.tolist()
    model.add_examples(data.X_test_unseen[:2], ["new", "other"])
    with pytest.raises(ValueError, match="'new' in y has no signature"):
        model.partial_fit(data.X_test_unseen[:2], ["new", "new"])
    model.partial_fit(data.X_train[:2], data.y_train[:2])
    assert model.classes_.tolist() == classes
    # Once it is described, a class is one of the others.
    row = data.signatures.iloc[:2].mean().to_frame("new").T
    model.add_examples(data.X_test_unseen[:1], ["new"])
    model.partial_fit(data.X_test_unseen[:2], ["new", "new"], signatures=row)
    assert model.classes_.tolist() == sorted([*classes, "new"])


@pytest.mark.parametrize("labels", [[1, 2], ["a", "b"], [1.5, 2.0]])
def test_examples_with_labels_of_another_kind(many_classes, labels):
    data = many_classes
    numbers = dict(zip(data.signatures.index, range(len(data.signatures)), strict=True))
    names = [numbers[label] for label in data.y_train.tolist()]
    signatures = data.signatures.set_axis(list(numbers.values()))
    model = GaussianEXEM()
    if labels == [1, 2]:
        model.fit(data.X_train, data.y_train, signatures=data.signatures)
    else:
        model.fit(data.X_train, names, signatures=signatures)
    classes = model.classes_
    with pytest.raises(ValueError, match="abels of y"):
        model.add_examples(data.X_test_unseen[:2], labels)
    np.testing.assert_array_equal(model.classes_, classes)


def test_examples_that_are_refused_change_nothing(many_classes):
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    before = model.decision_function(data.X_test_unseen)
    with pytest.raises(ValueError, match="features"):
        model.add_examples(data.X_test_unseen[:1, :-1], data.y_test_unseen[:1])
    with pytest.raises(ValueError, match="inconsistent"):
        model.add_examples(data.X_test_unseen[:2], data.y_test_unseen[:1])
    with pytest.raises(ValueError, match="already has the classes"):
        model.add_examples(
            data.X_test_unseen[:1], data.y_test_unseen[:1], signatures=data.signatures.iloc[:1]
        )
    np.testing.assert_array_equal(model.decision_function(data.X_test_unseen), before)


# Views that some classes lack.


@pytest.fixture(scope="module")
def uneven(many_classes):
    """Two views, each of half of the attributes; some classes lack the one, some the other."""
    frame = many_classes.signatures
    seen, unseen = many_classes.seen_classes, many_classes.unseen_classes
    first = frame.iloc[:, :8].drop(index=[*seen[1:4], unseen[1]])
    second = frame.iloc[:, 8:].drop(index=[*seen[10:20], unseen[0]])
    return MultiSignatures({"first": first, "second": second}, weights=[1, 2])


def test_classes_may_lack_views(many_classes, uneven, tmp_path):
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=uneven)
    assert set(model.classes_) == set(data.signatures.index)
    known = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert known > 2 / len(data.unseen_classes)
    # Described later, with one of the views; the other is none of the model's business.
    seen_only = MultiSignatures(
        {
            name: view.drop(index=data.unseen_classes, errors="ignore")
            for name, view in uneven.views.items()
        },
        uneven.weights,
    )
    later = GaussianEXEM().fit(data.X_train, data.y_train, signatures=seen_only)
    for label in data.unseen_classes:
        own = {n: v.loc[[label]] for n, v in uneven.views.items() if label in v.index}
        later.add_classes(MultiSignatures(own))
    expected = model.decision_function(data.X_test_unseen)
    np.testing.assert_allclose(later.decision_function(data.X_test_unseen), expected, atol=1e-9)
    save(later, tmp_path / "model.zsl")
    again = load(tmp_path / "model.zsl")
    np.testing.assert_array_equal(
        again.decision_function(data.X_test_unseen), later.decision_function(data.X_test_unseen)
    )
    more = again.signature_table_.as_user()
    refitted = GaussianEXEM().fit(data.X_train, data.y_train, signatures=more)
    np.testing.assert_allclose(refitted.decision_function(data.X_test_unseen), expected, atol=1e-9)


def test_the_kernel_of_views_that_both_classes_have():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    first[[0, 1]], second[[1, 2]] = np.nan, np.nan
    found = rbf_similarity(SignatureViews((first, second), (0.25, 0.75)))
    assert found[0, 2] == 0  # nothing to compare
    np.testing.assert_allclose(found[0, 3], rbf_similarity(second)[0, 3])
    np.testing.assert_allclose(found[2, 3], rbf_similarity(first)[2, 3])
    np.testing.assert_allclose(np.diag(found), [1, 0, 1, 1])


def test_other_methods_name_the_classes_that_lack_a_view(many_classes, uneven):
    data = many_classes
    label = repr(str(data.seen_classes[1]))
    for method in (EXEM(), ESZSL(), SynC()):
        with pytest.raises(ValueError, match=rf"{type(method).__name__}.*{label}.*GaussianEXEM"):
            method.fit(data.X_train, data.y_train, signatures=uneven)


@pytest.mark.parametrize("wrap", [lambda model: model, CalibratedStacking])
def test_examples_are_taken_back(many_classes, wrap):
    data = many_classes
    model = wrap(GaussianEXEM())
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    X = np.concatenate([data.X_test_unseen, data.X_test_seen])
    y = np.concatenate([data.y_test_unseen, data.y_test_seen])
    rows = np.random.default_rng(0).permutation(len(y))[:20]
    first, others = rows[:6], rows[6:]
    before = model.decision_function(X)
    model.add_examples(X[others], y[others])
    kept = model.decision_function(X)
    model.add_examples(X[first], y[first]).remove_examples(X[first], y[first])
    np.testing.assert_allclose(model.decision_function(X), kept, rtol=1e-9, atol=1e-9)
    model.remove_examples(X[others], y[others])
    np.testing.assert_allclose(model.decision_function(X), before, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="Fewer samples of 'class"):
        model.remove_examples(data.X_test_unseen[:1], data.y_test_unseen[:1])
    model.add_examples(X[:1], ["by images alone"])
    with pytest.raises(ValueError, match="has no signature and would"):
        model.remove_examples(X[:1], ["by images alone"])


def test_examples_of_all_classes_at_once(tiny):
    model = GaussianEXEM().fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
    one_by_one = copy.deepcopy(model)
    rows = [np.flatnonzero(tiny.y == label)[0] for label in model.classes_]
    X, y = tiny.X[rows], tiny.y[rows]
    model.add_examples(X, y)
    for i in range(len(rows)):
        one_by_one.add_examples(X[i : i + 1], y[i : i + 1])
    assert model.classes_.tolist() == one_by_one.classes_.tolist()
    np.testing.assert_allclose(
        model.decision_function(tiny.X), one_by_one.decision_function(tiny.X), rtol=1e-6, atol=1e-9
    )
