from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from scipy.special import softmax
from scipy.stats import multivariate_normal

from zslearn._utils._messages import InputWarning
from zslearn.base._training import chosen_samples
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.metrics import expected_calibration_error
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.persistence import load, save
from zslearn.signatures import MultiSignatures, SignatureViews, rbf_similarity
from zslearn.synthesis import EXEM, ClassStatistics, GaussianEXEM, SynC
from zslearn.synthesis._gaussian import held_out_scores, likeliest_temperature, unseen_odds_of
from zslearn.synthesis._gaussian_process import (
    ClassProcess,
    LayeredKernel,
    SignatureKernel,
    few_samples,
    posterior,
    signal_variances,
)


@pytest.fixture(scope="module")
def problem():
    return make_zero_shot(random_state=0)


def _fit(problem, **params):
    return GaussianEXEM(**params).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )


def _prepared(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _conditioned(covariance, known, values, wanted):
    """Mean and covariance of some entries of a Gaussian vector, given others."""
    gain = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, wanted)]).T
    mean = gain @ values
    return mean, covariance[np.ix_(wanted, wanted)] - gain @ covariance[np.ix_(known, wanted)]


# The whitened space.


@pytest.mark.parametrize("n_components", [10, None])
def test_distances_are_those_of_mahalanobis(problem, n_components):
    rho = 0.3
    model = _fit(problem, n_components=n_components, shrinkage=rho, whitened_norm=False)
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


def _embedded_means(model, problem):
    z = model.embed(_prepared(problem.X_train))[:, :-1]
    return z, np.stack([z[problem.y_train == label].mean(axis=0) for label in model.seen_classes_])


def test_embedded_training_samples_have_the_exemplars_as_means(problem):
    model = _fit(problem, whitened_norm=False)
    assert model.norm_ is None
    np.testing.assert_allclose(_embedded_means(model, problem)[1], model.exemplars_, atol=1e-10)


def test_common_norm_and_its_means_from_statistics(problem):
    model = _fit(problem)
    z, means = _embedded_means(model, problem)
    np.testing.assert_allclose(np.linalg.norm(z + model.center_, axis=1), model.norm_)
    # The root of the mean squared norm before, and means to a few per cent.
    before = _fit(problem, whitened_norm=False)
    squares = (_embedded_means(before, problem)[0] ** 2).sum(axis=1)
    np.testing.assert_allclose(model.norm_, np.sqrt(squares.mean()))
    error = np.linalg.norm(model.exemplars_ - (means - means.mean(axis=0)))
    assert error < 0.06 * np.linalg.norm(means)
    assert error < np.linalg.norm(before.exemplars_ - (means - means.mean(axis=0)))


def test_few_dimensions_keep_their_norm(problem):
    rows = np.isin(problem.y_train, problem.seen_classes[:8])
    model = GaussianEXEM().fit(
        problem.X_train[rows], problem.y_train[rows], signatures=problem.signatures
    )
    assert model.norm_ is None


# The process against a direct Gaussian computation.


SIZES = np.array([1.0, 2.0, 5.0, 5.0, 9.0, 50.0, 3.0, 5.0, 4.0])


@pytest.fixture
def process():
    rng = np.random.default_rng(0)
    signatures, means = rng.normal(size=(9, 3)), 2 * rng.normal(size=(9, 4))
    return ClassProcess(SignatureKernel(signatures, 0.4), means, SIZES, 0.2), means


def _joint(process, j, signatures):
    """Covariance of (means of samples, true means) of the seen classes, then of new true means."""
    every = np.concatenate([process.kernel.seen, signatures])
    n_seen, s2 = len(process.kernel.seen), process.signal[j]
    true = s2 * (rbf_similarity(every, gamma=0.4) + 0.2 * np.eye(len(every)))
    order = [*range(n_seen), *range(len(every))]
    joint = true[np.ix_(order, order)]
    joint[:n_seen, :n_seen] += np.diag(1 / SIZES)
    return joint


def test_predictions_condition_the_joint_gaussian(process):
    process, means = process
    new = np.random.default_rng(1).normal(size=(3, 3))
    predicted = process.predict(new)
    for j in range(4):
        expected = _conditioned(_joint(process, j, new), np.arange(9), means[:, j], [18, 19, 20])
        np.testing.assert_allclose(predicted.means[:, j], expected[0], rtol=1e-8)
        np.testing.assert_allclose(predicted.variances[:, j], np.diag(expected[1]), rtol=1e-8)


def test_leaving_out_a_class_conditions_on_the_others(process):
    process, means = process
    left_out = process.leave_one_out()
    for j in range(4):
        joint = _joint(process, j, np.empty((0, 3)))
        for c in range(9):
            others = np.delete(np.arange(9), c)
            mean, variance = _conditioned(joint, others, means[others, j], [9 + c])
            np.testing.assert_allclose(left_out.means[c, j], mean[0], rtol=1e-8)
            np.testing.assert_allclose(left_out.variances[c, j], variance[0, 0], rtol=1e-6)
    errors = ((left_out.means - means) ** 2).sum(axis=1)
    np.testing.assert_allclose(process.leave_one_out_error(), errors.mean())


def test_posterior_of_a_seen_class_conditions_on_all(process):
    process, means = process
    seen = posterior(process.leave_one_out(), SIZES, means)
    for j in range(4):
        joint = _joint(process, j, np.empty((0, 3)))
        mean, covariance = _conditioned(joint, np.arange(9), means[:, j], np.arange(9, 18))
        np.testing.assert_allclose(seen.means[:, j], mean, rtol=1e-7)
        np.testing.assert_allclose(seen.variances[:, j], np.diag(covariance), rtol=1e-6)


def test_evidence_and_its_maximum(process):
    process, means = process
    kernel = rbf_similarity(process.kernel.seen, gamma=0.4) + 0.2 * np.eye(9)
    total = 0.0
    for j in range(4):

        def evidence(log_s2, y=means[:, j]):
            return multivariate_normal.logpdf(y, cov=np.exp(log_s2) * kernel + np.diag(1 / SIZES))

        best = minimize_scalar(lambda v: -evidence(v), bounds=(-8, 8), method="bounded")
        np.testing.assert_allclose(np.log(process.signal[j]), best.x, atol=1e-3)
        total += evidence(np.log(process.signal[j]))
    np.testing.assert_allclose(process.log_evidence(), total, rtol=1e-8)


def test_layered_kernel_is_half_that_of_predicted_means(process):
    process, means = process
    signatures = process.kernel.seen
    new = np.random.default_rng(1).normal(size=(3, 3))
    kernel = LayeredKernel(process)
    # Kernel ridge with a ridge of its own in each dimension, written out.
    below, across = (
        rbf_similarity(signatures, gamma=0.4),
        rbf_similarity(new, signatures, gamma=0.4),
    )
    coef = np.stack(
        [
            np.linalg.solve(below + np.diag(0.2 + 1 / (SIZES * signal)), means[:, j])
            for j, signal in enumerate(process.signal)
        ],
        axis=1,
    )
    seen, unseen = _prepared(below @ coef), _prepared(across @ coef)
    scale = np.median(cdist(seen, seen)[np.triu_indices(9, 1)])
    expected = (across + np.exp(-0.4 * (cdist(unseen, seen) / scale) ** 2)) / 2
    np.testing.assert_allclose(kernel(new), expected, rtol=1e-9)
    np.testing.assert_allclose(kernel._similarity, kernel(signatures), atol=1e-9)
    assert kernel.gamma == 0.4


def test_a_class_is_left_out_of_both_layers(process):
    first, means = process
    layered = LayeredKernel(first)
    second = ClassProcess(layered, means, SIZES, 0.2)
    left_out = second.leave_one_out()
    table = layered(first.kernel.seen)
    for c in range(9):
        others = np.delete(np.arange(9), c)
        # The kernel of the class, with the mean that the others predict in the first layer.
        below = rbf_similarity(first.kernel.seen, gamma=0.4)
        predicted = [
            below[c, others]
            @ np.linalg.solve(
                below[np.ix_(others, others)] + np.diag(0.2 + 1 / (SIZES[others] * s2)),
                means[others, j],
            )
            for j, s2 in enumerate(first.signal)
        ]
        point = _prepared(np.array([predicted])) / layered.scale
        row = (below[c] + np.exp(-0.4 * cdist(point, layered.seen)[0] ** 2)) / 2
        for j, s2 in enumerate(second.signal):
            inside = table[np.ix_(others, others)] + np.diag(0.2 + 1 / (SIZES[others] * s2))
            weights = np.linalg.solve(inside, row[others])
            np.testing.assert_allclose(left_out.means[c, j], weights @ means[others, j], rtol=1e-7)
            variance = s2 * (1.2 - weights @ row[others])
            np.testing.assert_allclose(left_out.variances[c, j], variance, rtol=1e-7)


def test_second_layer_tells_letters_apart_that_look_alike():
    """Signatures that are all as far apart from each other, of classes in two groups."""
    rng = np.random.default_rng(0)
    n, kinds = 24, 12
    # A class is one of 12 kinds, each its own attribute, in one of two forms. Kinds 0-5 look alike.
    kind, form = np.arange(n) % kinds, np.arange(n) // kinds
    signatures = np.concatenate([np.eye(kinds)[kind], 2 * np.eye(2)[form]], axis=1)
    looks = (
        rng.normal(size=(2, 30))[(kind >= 6).astype(int)] + 0.3 * rng.normal(size=(kinds, 30))[kind]
    )
    kernel = SignatureKernel(signatures, 0.5)
    layered = LayeredKernel(ClassProcess(kernel, looks - looks.mean(0), np.full(n, 50.0), 0.1))
    same, other = kernel(signatures)[0, 1], kernel(signatures)[0, 7]
    np.testing.assert_allclose(same, other)
    assert layered(signatures)[0, 1] > layered(signatures)[0, 7] + 0.1


def test_weight_scales_the_samples_of_seen_classes(problem):
    model, less = _fit(problem, seen_weight=1.0), _fit(problem, seen_weight=0.1)
    X, among = problem.X_test_unseen, {"classes": problem.unseen_classes}
    np.testing.assert_array_equal(model.predict(X, **among), less.predict(X, **among))
    prior = model._process.leave_one_out()
    sizes = np.full(20, 24.0)
    for fitted, share in ((model, 1.0), (less, 0.1)):
        expected = posterior(prior, share * sizes, model.exemplars_)
        np.testing.assert_allclose(fitted.seen_means_, expected.means)
    near = [np.linalg.norm(m.seen_means_ - m.exemplars_) for m in (model, less)]
    assert near[0] < near[1]


def test_settings_share_a_process_and_stay_apart(problem):
    settings = [{"seen_weight": t, "layers": n} for t in (1.0, 0.2) for n in (1, 2)]
    fitted = dict(
        GaussianEXEM().fit_grid(
            problem.X_train, problem.y_train, signatures=problem.signatures, settings=settings
        )
    )
    assert fitted[0]._process is fitted[2]._process
    assert fitted[0]._process is not fitted[1]._process
    X = problem.X_test_seen
    for index, setting in enumerate(settings):
        alone = _fit(problem, **setting)
        np.testing.assert_allclose(fitted[index].decision_function(X), alone.decision_function(X))


def test_no_signal_where_class_means_scatter_less_than_samples():
    signal = signal_variances(np.full((8, 1), 0.1), np.full((8, 1), 12.0))
    assert signal[0] < 1e-6


def test_the_likeliest_signal_of_several_maxima():
    """A strong signal in one direction of many, as where most class means are noise."""
    rng = np.random.default_rng(0)
    spectrum = np.concatenate([np.full(4, 1000.0), np.full(40, 0.05)])[:, None]
    squares = np.concatenate([np.full(4, 0.3), np.full(40, 4.0)])[:, None] * rng.uniform(
        0.5, 1.5, size=(44, 30)
    )
    found = np.log(signal_variances(squares, spectrum))

    def density(log_signal):
        total = np.exp(log_signal) * spectrum + 1
        return -(np.log(total) + squares / total).sum(axis=0)

    tried = np.stack([density(value) for value in np.linspace(-20, 8, 2001)])
    maxima = (tried[1:-1] > tried[:-2]) & (tried[1:-1] > tried[2:])
    assert (maxima.sum(axis=0) + (tried[0] > tried[1]) > 1).any()
    assert (density(found) >= tried.max(axis=0) - 1e-3).all()


def test_posterior_between_prediction_and_samples():
    rng = np.random.default_rng(2)
    kernel = SignatureKernel(rng.normal(size=(6, 2)), 1.0)
    means = rng.normal(size=(6, 3))
    predicted = ClassProcess(kernel, means, np.full(6, 5.0), 0.1).leave_one_out()
    few, many = (posterior(predicted, np.full(6, n), means) for n in (1e-6, 1e9))
    np.testing.assert_allclose(few.means, predicted.means, atol=1e-4)
    np.testing.assert_allclose(few.variances, predicted.variances, atol=1e-4)
    np.testing.assert_allclose(many.means, means, atol=1e-6)
    np.testing.assert_allclose(many.variances, 1e-9, rtol=1e-6)


def test_signal_of_class_means_that_are_known_exactly(process):
    process, means = process
    exact = ClassProcess(process.kernel, means, np.full(9, 1e12), 0.2)
    kernel = rbf_similarity(process.kernel.seen, gamma=0.4) + 0.2 * np.eye(9)
    # Without noise the maximum is known in closed form: yᵀ(K + αI)⁻¹y / S.
    expected = (means * np.linalg.solve(kernel, means)).sum(axis=0) / 9
    np.testing.assert_allclose(exact.signal, expected, rtol=1e-6)


# Scores and probabilities.


@pytest.mark.parametrize("variance", ["shared", "predictive"])
def test_scores_are_log_densities(problem, variance):
    model = _fit(problem, variance=variance, temperature=1.7, unseen_odds=3.0)
    means, variances = model.class_gaussians()
    X = problem.X_test_unseen[:6]
    z = _prepared(X) @ model.matrix_ - model.offset_
    z = model.norm_ * _prepared(z) - model.center_
    if variance == "shared":
        variances = np.zeros_like(variances)
    densities = np.stack(
        [
            multivariate_normal.logpdf(z, mean, np.diag(1 + spread))
            for mean, spread in zip(means, variances, strict=True)
        ],
        axis=1,
    )
    unseen = np.isin(model.classes_, problem.unseen_classes)
    expected = densities / 1.7 + np.log(3.0) * unseen
    scores = model.decision_function(X)
    shift = (scores - expected)[:, :1]
    np.testing.assert_allclose(scores - shift, expected, rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), softmax(expected, axis=1), atol=1e-10)


def test_seen_classes_have_their_posterior(problem):
    model = _fit(problem)
    means, variances = model.class_gaussians()
    seen = np.isin(model.classes_, model.seen_classes_)
    np.testing.assert_array_equal(means[seen], model.seen_means_)
    np.testing.assert_array_equal(variances[seen], model.seen_variances_)
    # 24 samples of each class, worth as many independent ones.
    assert (model.seen_variances_ <= 1 / (24 * model.seen_weight) + 1e-12).all()
    assert (variances[~seen] >= model.alpha_ * model.signal_variances_ * (1 - 1e-9)).all()


def test_balanced_odds_follow_the_described_classes(problem):
    classes = problem.unseen_classes
    one, all_of_them = classes[:1], _fit(problem, unseen_odds="balanced", temperature=1.0)
    by_hand = _fit(problem, unseen_odds=20 / 5, temperature=1.0)
    X = problem.X_test_unseen[:5]
    np.testing.assert_allclose(all_of_them.decision_function(X), by_hand.decision_function(X))
    fewer = problem.signatures.drop(index=classes[1:])
    model = GaussianEXEM(unseen_odds="balanced", temperature=1.0)
    model.fit(problem.X_train, problem.y_train, signatures=fewer)
    difference = model.decision_function(X, classes=one) - by_hand.decision_function(X, classes=one)
    np.testing.assert_allclose(difference, np.log(20 / 4), atol=1e-9)


def test_odds_move_the_choice_between_groups_only(problem):
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    low, high = _fit(problem, unseen_odds=1e-9), _fit(problem, unseen_odds=1e9)
    assert np.isin(low.predict(X), problem.seen_classes).mean() > 0.95
    assert np.isin(high.predict(X), problem.unseen_classes).mean() > 0.95
    among = {"classes": problem.unseen_classes}
    np.testing.assert_array_equal(low.predict(X, **among), high.predict(X, **among))


def test_doubt_is_the_variance_of_predictions(problem):
    model = _fit(problem, mean_error_weight=0.7, temperature=1.3, unseen_odds=1.0)
    plain = _fit(problem, temperature=1.3, unseen_odds=1.0)
    errors = (model._process.leave_one_out().means - model.exemplars_) ** 2
    variances = 1 + 0.7 * errors.mean(axis=0)
    np.testing.assert_allclose(model.axis_weights_, 1 / variances)
    np.testing.assert_array_equal(plain.axis_weights_, 1.0)
    means, _ = model.class_gaussians()
    X = problem.X_test_unseen[:6]
    z = model.embed(_prepared(X))[:, :-1]
    expected = np.stack(
        [multivariate_normal.logpdf(z, mean, np.diag(variances)) / 1.3 for mean in means], axis=1
    )
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8)
    assert np.abs(scores - plain.decision_function(X)).max() > 0.01


def test_doubt_pays_where_half_of_the_dimensions_are_not_described():
    """Class means of which signatures tell one half, and nothing of the other."""
    rng = np.random.default_rng(0)
    signatures = rng.normal(size=(60, 4))
    predictable = 2 * np.tanh(signatures @ rng.normal(size=(4, 10)))
    means = np.concatenate([predictable, 4 * rng.normal(size=(60, 10))], axis=1)
    y = np.repeat(np.arange(60), 12)
    X = means[y] + rng.normal(size=(len(y), 20))
    seen = y < 45
    accuracy = []
    for mean_error_weight in (0.0, 1.0):
        model = GaussianEXEM(
            mean_error_weight=mean_error_weight, layers=1, feature_norm=None, whitened_norm=False
        )
        model.fit(X[seen], y[seen], signatures=pd.DataFrame(signatures))
        accuracy.append(model.score(X[~seen], y[~seen], classes=np.arange(45, 60)))
    assert accuracy[1] > accuracy[0] + 0.03


def _scores_of_groups(shift, n=40, per_class=6, seed=0):
    """Samples whose own class stands out; a class without samples scores `shift` lower."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n), per_class)
    scores = rng.normal(size=(len(y), n))
    scores[np.arange(len(y)), y] += 5
    return scores, scores - shift + 0.1 * rng.normal(size=scores.shape), y


@pytest.mark.parametrize("shift", [-1.0, 0.0, 3.0, 6.0])
def test_odds_make_up_for_what_predictions_lack(shift):
    seen, unseen, y = _scores_of_groups(shift)
    odds = unseen_odds_of(seen, unseen, y, np.ones(len(y)), np.arange(40.0))
    # Half the way from 4 to what makes both kinds alike.
    assert np.log(odds) == pytest.approx((shift + np.log(4)) / 2, abs=0.4)


def test_odds_do_not_depend_on_names_nor_on_repeated_samples():
    seen, unseen, y = _scores_of_groups(2.0)
    positions = np.random.default_rng(1).normal(size=40)
    odds = unseen_odds_of(seen, unseen, y, np.ones(len(y)), positions)
    order = np.random.default_rng(2).permutation(40)
    renamed = np.argsort(order)[y]
    again = unseen_odds_of(
        seen[:, order], unseen[:, order], renamed, np.ones(len(y)), positions[order]
    )
    assert again == pytest.approx(odds)
    times = np.random.default_rng(3).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    repeated = unseen_odds_of(seen[rows], unseen[rows], y[rows], np.ones(len(rows)), positions)
    weighted = unseen_odds_of(seen, unseen, y, times.astype(float), positions)
    assert weighted == pytest.approx(repeated)


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


def test_doubt_is_ignored_where_variances_are_predicted(problem):
    model = _fit(problem, mean_error_weight=2.0, variance="predictive")
    np.testing.assert_array_equal(model.axis_weights_, 1.0)


def test_odds_are_the_usual_ones_where_nothing_tells_them():
    seen, unseen, y = _scores_of_groups(2.0, n=9)
    assert unseen_odds_of(seen, unseen, y, np.ones(len(y)), np.arange(9.0)) == 4.0
    wrong = np.where(np.eye(40)[np.arange(40)] > 0, -100.0, 0.0)
    assert unseen_odds_of(wrong, wrong, np.arange(40), np.ones(40), np.arange(40.0)) == 4.0


@pytest.mark.filterwarnings("ignore:Statistics do not tell")
def test_statistics_tell_no_odds(problem, monkeypatch):
    # Other tests may have had the warning already.
    monkeypatch.setattr("zslearn._utils._messages._SAID", set())
    statistics = ClassStatistics.from_samples(problem.X_train, problem.y_train)
    with pytest.warns(InputWarning, match="odds of unseen classes: they are 4"):
        model = GaussianEXEM(temperature=1.0).fit_statistics(
            statistics, signatures=problem.signatures
        )
    assert model.unseen_odds_ == 4.0
    assert _fit(problem, unseen_odds="balanced").unseen_odds_ is None


# The temperature.


def _samples(n_classes=12, n=20, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    signatures = rng.normal(size=(n_classes, 3))
    means = 1.5 * np.tanh(signatures @ rng.normal(size=(3, 6)))
    y = np.repeat(np.arange(n_classes), n)
    return rng, signatures, means, y, means[y] + scale * rng.normal(size=(len(y), 6))


@pytest.mark.parametrize("predictive", [False, True])
def test_held_out_scores_leave_the_sample_out(predictive):
    _, signatures, _, y, z = _samples()
    sizes = np.bincount(y).astype(float)
    observed = np.stack([z[y == c].mean(axis=0) for c in range(12)])
    process = ClassProcess(SignatureKernel(signatures, 0.3), observed, sizes, 0.1)
    prior = process.leave_one_out()
    seen = posterior(prior, sizes, observed)
    scores = held_out_scores(
        z, y, np.ones(len(y)), prior, sizes, observed, seen, predictive=predictive
    )
    standard = multivariate_normal(np.zeros(6))
    for i in (0, 37, 200):
        without = np.delete(z, i, axis=0)[np.delete(y, i) == y[i]].mean(axis=0)
        fewer, changed = sizes.copy(), observed.copy()
        fewer[y[i]] -= 1
        changed[y[i]] = without
        own = posterior(prior, fewer, changed)
        spread = 1 + (own.variances if predictive else 0 * own.variances)
        density = multivariate_normal(own.means[y[i]], np.diag(spread[y[i]]))
        expected = density.logpdf(z[i]) - standard.logpdf(z[i])
        np.testing.assert_allclose(scores[i, y[i]], expected, rtol=1e-9)


def test_temperature_of_samples_that_are_gaussian_is_one():
    found = []
    for seed in range(5):
        rng, signatures, _, y, z = _samples(20, 60, seed=seed)
        lower = np.linalg.cholesky(np.cov(rng.normal(size=(6, 30))))
        table = pd.DataFrame(signatures)
        # With next to no shrinkage, whitening takes out the covariance that samples have.
        model = GaussianEXEM(shrinkage=1e-6, feature_norm=None, whitened_norm=False)
        found.append(model.fit(z @ lower.T, y, signatures=table).temperature_)
    np.testing.assert_allclose(np.mean(found), 1.0, atol=0.1)


def test_likeliest_temperature_recovers_the_scale_of_scores():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(4000, 5))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    ones = np.ones(len(y))
    np.testing.assert_allclose(likeliest_temperature(3 * logits, y, ones), 3.0, rtol=0.1)
    assert likeliest_temperature(np.zeros((4, 3)), y[:4] % 3, ones[:4]) == 1.0
    # All right: the temperature is small, and above zero.
    sure = np.eye(3)[[0, 1, 2, 0]]
    assert 0 < likeliest_temperature(sure, np.array([0, 1, 2, 0]), ones[:4]) < 1


def test_probabilities_are_honest_about_fresh_seen_images(problem):
    model = _fit(problem)
    chances = model.predict_proba(problem.X_test_seen, classes=problem.seen_classes)
    assert set(problem.y_test_seen) <= set(problem.seen_classes)
    error = expected_calibration_error(
        problem.y_test_seen, chances, classes=problem.seen_classes, n_bins=5
    )
    assert error < 0.12


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
    chunks = GaussianEXEM(**options)
    for number, part in enumerate(parts):
        described = {"signatures": problem.signatures} if number == 0 else {}
        chunks.partial_fit(problem.X_train[part], y[part], **described)
    np.testing.assert_allclose(chunks.decision_function(X), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.filterwarnings("ignore:Statistics do not tell")
def test_statistics_tell_no_temperature(problem):
    statistics = ClassStatistics.from_samples(problem.X_train, problem.y_train)
    model = GaussianEXEM().fit_statistics(statistics, signatures=problem.signatures)
    assert model.temperature_ == 1.0
    among = {"classes": problem.unseen_classes}
    fitted = _fit(problem)
    assert fitted.temperature_ != 1.0
    X = problem.X_test_unseen
    np.testing.assert_array_equal(model.predict(X, **among), fitted.predict(X, **among))


@pytest.mark.parametrize("select", ["loo", "evidence"])
def test_select_takes_the_best_of_single_settings(problem, select):
    model = _fit(problem, select=select, layers=1)
    singles = [
        _fit(problem, gamma=gamma, alpha=alpha, layers=1)
        for gamma in (0.0625, 0.25, 1.0, 4.0, model.gamma_)
        for alpha in (0.003, 0.1, 1.0, model.alpha_)
    ]
    if select == "loo":
        assert model.loo_error_ == min(single.loo_error_ for single in singles)
    else:
        assert model.log_evidence_ == max(single.log_evidence_ for single in singles)


def test_rows_are_embedded_once_per_space(problem):
    from zslearn._scoring._embedding import EmbeddedRows

    grid = [
        {"shrinkage": rho, "gamma": gamma, "alpha": alpha}
        for gamma in (0.3, 1.0)
        for rho in (0.2, 0.8)
        for alpha in (0.1, 1.0)
    ]
    rows = EmbeddedRows(problem.X_test_unseen)
    for _, model in GaussianEXEM().fit_grid(
        problem.X_train, problem.y_train, signatures=problem.signatures, settings=grid
    ):
        model.class_scorer_.scores(rows)
    assert rows.n_embeddings == 2


def test_fast_grid_is_small():
    parts = GaussianEXEM.grids["fast"]
    assert sum(np.prod([len(values) for values in part.values()]) for part in parts) <= 280


def test_the_order_of_many_samples_changes_nothing():
    data = make_zero_shot(30, samples_per_class=50, n_features=20, random_state=0)
    models = [GaussianEXEM(), GaussianEXEM()]
    order = np.random.default_rng(0).permutation(len(data.y_train))
    models[0].fit(data.X_train, data.y_train, signatures=data.signatures)
    models[1].fit(data.X_train[order], data.y_train[order], signatures=data.signatures)
    assert len(order) > 1000
    for name in ("temperature_", "unseen_odds_"):
        first, second = (getattr(model, name) for model in models)
        assert second == pytest.approx(first, rel=1e-9)


def test_samples_are_chosen_in_parts_as_among_all():
    rng = np.random.default_rng(0)
    labels, keys = rng.integers(0, 7, 500), rng.integers(0, 2**63, 500).astype(np.uint64)
    for most in (3, 20, 100):
        chosen = chosen_samples(keys, labels, most)
        parts = [
            part[chosen_samples(keys[part], labels[part], most)]
            for part in np.array_split(rng.permutation(500), 6)
        ]
        kept = np.concatenate(parts)
        again = kept[chosen_samples(keys[kept], labels[kept], most)]
        np.testing.assert_array_equal(again, chosen)
        assert len(chosen) <= most + 7


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


def test_weights_are_repeated_rows_in_the_temperature_too(problem):
    y = np.asarray(problem.y_train)
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = GaussianEXEM().fit(
        problem.X_train, y, signatures=problem.signatures, sample_weight=weights
    )
    rows = np.repeat(np.arange(len(y)), weights)
    repeated = GaussianEXEM().fit(problem.X_train[rows], y[rows], signatures=problem.signatures)
    np.testing.assert_allclose(weighted.temperature_, repeated.temperature_, rtol=1e-5)
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-5
    )


def test_several_views(problem):
    frame = problem.signatures
    views = MultiSignatures({"a": frame.iloc[:, :8], "b": frame.iloc[:, 8:]}, weights=[3, 1])
    model = GaussianEXEM().fit(problem.X_train, problem.y_train, signatures=views)
    classes = problem.unseen_classes
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=classes) > 0.5


@pytest.mark.parametrize("variance", ["shared", "predictive"])
def test_torch_features(problem, variance):
    torch = pytest.importorskip("torch")
    model = _fit(problem, variance=variance)
    X = problem.X_test_unseen
    scores = model.decision_function(torch.tensor(X))
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(scores.numpy(), model.decision_function(X), rtol=1e-8, atol=1e-8)
    there = GaussianEXEM(variance=variance).fit(
        torch.tensor(problem.X_train), problem.y_train, signatures=problem.signatures
    )
    np.testing.assert_allclose(there.decision_function(X), model.decision_function(X), rtol=1e-6)


def test_a_pickled_model_predicts_the_same(problem):
    model = _fit(problem)
    again = pickle.loads(pickle.dumps(model))
    X = problem.X_test_unseen
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


# Extreme inputs.


@pytest.mark.parametrize("variance", ["shared", "predictive"])
@pytest.mark.parametrize("shrinkage", [1e-6, 0.6, 1.0])
def test_fewer_samples_than_dimensions(variance, shrinkage):
    data = make_zero_shot(n_seen=6, n_features=200, samples_per_class=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = _fit(data, variance=variance, shrinkage=shrinkage)
    scores = model.decision_function(data.X_test_unseen)
    assert np.isfinite(scores).all()
    # With six classes to learn from: above chance among five, on what was trained on.
    assert (model.predict(data.X_train, classes=data.seen_classes) == data.y_train).mean() > 0.5


def test_one_sample_per_class(problem):
    rows = np.unique(problem.y_train, return_index=True)[1]
    with pytest.warns(InputWarning, match="no deviation within"):
        model = GaussianEXEM().fit(
            problem.X_train[rows], problem.y_train[rows], signatures=problem.signatures
        )
    classes = problem.unseen_classes
    assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=classes) > 0.25


@pytest.mark.filterwarnings("ignore:There is no deviation")
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


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"shrinkage": 0.0}, "shrinkage"),
        ({"alpha": 0.0}, "alpha"),
        ({"layers": 3}, "layers"),
        ({"seen_weight": 0.0}, "seen_weight"),
        ({"seen_weight": 1.5}, "seen_weight"),
        ({"unseen_odds": "even"}, "unseen_odds"),
        ({"temperature": 0.0}, "temperature"),
        ({"select": "cv"}, "select"),
    ],
)
def test_wrong_parameters_are_named(problem, params, name):
    with pytest.raises(ValueError, match=name):
        _fit(problem, **params)


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


def _known_means(model):
    """What is known of the mean of each class, by label."""
    return dict(
        zip(model.classes_.tolist(), zip(*model.class_gaussians(), strict=True), strict=True)
    )


def _whitened(model, X):
    return model._whitened(X / np.linalg.norm(X, axis=1, keepdims=True))


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
    # What few samples say of the space is noise: it is that of the other classes.
    assert fitted.matrix_.shape == added.matrix_.shape


def test_examples_move_a_class_as_bayes_rule_asks(many_classes):
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    before = _known_means(model)
    label = data.unseen_classes[0]
    rows = np.flatnonzero(data.y_test_unseen == label)[:3]
    z = _whitened(model, data.X_test_unseen[rows])
    model.add_examples(data.X_test_unseen[rows], data.y_test_unseen[rows])
    after = _known_means(model)
    mean, variance = before[label]
    precision = 1 / (variance * model.variance_ratio_)
    n = 3 * model.few_shot_weight
    expected = (mean * precision + model.few_shot_weight * z.sum(axis=0)) / (precision + n)
    np.testing.assert_allclose(after[label][0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(after[label][1], 1 / (precision + n))
    for other in set(before) - {label}:
        np.testing.assert_allclose(before[other][0], after[other][0], atol=1e-12)
    # Its log odds fall with the variance that is left of its mean, over all dimensions.
    table = model._described.table
    described = table.normalized(model.signature_scale_, keep_views=True)
    left = model._gaussians(described, table.labels)[1][table.labels == label]
    assert left == pytest.approx(after[label][1].sum() / (1 / precision).sum())


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


@pytest.mark.parametrize("variance", ["shared", "predictive"])
@pytest.mark.parametrize("few_shot_weight", [0.05, 1.0])
def test_an_example_never_raises_the_distance_of_its_class(many_classes, few_shot_weight, variance):
    data = many_classes
    model = GaussianEXEM(few_shot_weight=few_shot_weight, variance=variance)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    # Of seen classes and unseen ones, one after the other.
    rng = np.random.default_rng(0)
    X = np.concatenate([data.X_test_unseen, data.X_test_seen])
    y = np.concatenate([data.y_test_unseen, data.y_test_seen])
    for row in rng.choice(len(y), 40, replace=False):
        before = _known_means(model)[y[row]][0]
        model.add_examples(X[[row]], y[[row]])
        after = _known_means(model)[y[row]][0]
        z = _whitened(model, X[[row]])[0]
        assert (np.abs(z - after) <= np.abs(z - before) + 1e-12).all()


def test_examples_reach_beyond_the_space(many_classes):
    """The score of a class has what its examples share with a sample where no seen class lies."""
    data = many_classes
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    before, n_dims = model.matrix_.copy(), model.matrix_.shape[1]
    given, _ = _few_of_unseen(data, 3)
    model.add_examples(data.X_test_unseen[given], data.y_test_unseen[given])
    assert model.matrix_.shape[1] == n_dims + len(data.unseen_classes)
    np.testing.assert_array_equal(model.matrix_[:, :n_dims], before)
    beyond = model._beyond
    X = data.X_test_unseen / np.linalg.norm(data.X_test_unseen, axis=1, keepdims=True)
    z = _whitened(model, data.X_test_unseen)
    # No seen class lies there.
    seen = data.X_train / np.linalg.norm(data.X_train, axis=1, keepdims=True)
    means = np.stack([seen[data.y_train == label].mean(axis=0) for label in model.seen_classes_])
    np.testing.assert_allclose((means - beyond.center) @ beyond.products, 0, atol=1e-8)
    lengths = np.linalg.norm(X @ before - model.offset_[:n_dims], axis=1, keepdims=True)
    r = (X - beyond.center) * model.norm_ / lengths
    values, vectors = np.linalg.eigh(beyond.products)
    r = r @ (vectors * np.sqrt(np.maximum(values, 0)))
    label = data.unseen_classes[2]
    own = given[data.y_test_unseen[given] == label]
    share = (
        beyond.signal * model.few_shot_weight * 3 / (1 + beyond.signal * model.few_shot_weight * 3)
    )
    further = share * r[own].mean(axis=0)
    mean = _known_means(model)[label][0]
    _, as_unseen = model._gaussians(
        model._described.table.normalized(model.signature_scale_, keep_views=True),
        model._described.table.labels,
    )
    expected = z @ mean - mean @ mean / 2 + r @ further - further @ further / 2
    expected = expected / model.temperature_ + as_unseen[model.classes_ == label] * np.log(
        model.unseen_odds_
    )
    found = model.decision_function(data.X_test_unseen, classes=[label])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


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
    assert parts._few.sum() == len(data.unseen_classes)
    np.testing.assert_allclose(
        parts.decision_function(data.X_test_unseen[rest]),
        whole.decision_function(data.X_test_unseen[rest]),
        rtol=1e-9,
        atol=1e-9,
    )


def test_variances_are_those_of_classes_that_had_no_part_in_the_space():
    """What is found for seen classes is near the error of classes that are really left out."""
    data = make_zero_shot(60, 20, samples_per_class=60, n_features=100, noise=0.3, random_state=0)
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    means, _ = model.class_gaussians()
    z, y = _whitened(model, data.X_test_unseen), data.y_test_unseen
    errors = [
        (z[y == label].mean(axis=0) - means[model.classes_ == label][0]) ** 2
        for label in data.unseen_classes
    ]
    found = float(np.mean(errors))
    assert 0.7 < found / model.found_variances_.mean() < 1.4


def test_medium_sizes_are_few_beside_the_usual_one():
    sizes = np.array([1.0, 20, 21, 29, 39, 39, 39, 39, 39])
    np.testing.assert_array_equal(few_samples(sizes), [True] * 2 + [False] * 7)
    np.testing.assert_array_equal(few_samples(np.array([13.0, 15, 20, 20])), [True] + [False] * 3)
    assert not few_samples(np.array([26.0, 47, 48, 60])).any()
    # Two classes at least span a space.
    assert not few_samples(np.array([1.0, 5])).any()


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
    with pytest.warns(UserWarning, match="look like those already described"):
        model.add_examples(X[:1], [f"{y[0]} "])


def test_a_further_chunk_forgets_classes_that_nobody_described(many_classes):
    data = many_classes
    model = GaussianEXEM(temperature=1.0, unseen_odds=1.0)
    model.partial_fit(data.X_train, data.y_train, signatures=data.signatures)
    classes = model.classes_.tolist()
    model.add_examples(data.X_test_unseen[:2], ["new", "other"])
    with pytest.raises(ValueError, match="No signature describes 'new'"):
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
    with pytest.raises(ValueError, match="Already described"):
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
    with pytest.raises(ValueError, match="known by nothing"):
        model.remove_examples(X[:1], ["by images alone"])
