from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from zslearn._scoring._probabilities import best_temperature
from zslearn._utils._folds import hold_out_per_class
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL, ConSE
from zslearn.calibration import CalibratedStacking
from zslearn.metrics import expected_calibration_error, generalized_accuracy, harmonic_mean
from zslearn.model_selection import (
    ClassKFold,
    GeneralizedClassKFold,
    ZeroShotPipeline,
    ZeroShotSearchCV,
)
from zslearn.synthesis import EXEM, GaussianEXEM, SynC


def _rows(problem):
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    y = np.concatenate([problem.y_test_seen, problem.y_test_unseen])
    return X, y


@pytest.mark.parametrize("bias", [-0.2, 0.0, 0.3])
def test_seen_scores_are_lowered_by_the_factor(problem, bias):
    given = (problem.X_train, problem.y_train)
    plain = ESZSL().fit(*given, signatures=problem.signatures)
    model = CalibratedStacking(ESZSL(), bias=bias).fit(*given, signatures=problem.signatures)
    X, y = _rows(problem)
    shift = np.where(np.isin(plain.classes_, plain.seen_classes_), bias, 0.0)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(X) - shift, atol=1e-12
    )
    assert model.bias_ == bias
    # The metric and the estimator mean the same factor.
    scores = plain.decision_function(X)
    options = {"classes": plain.classes_, "seen_classes": plain.seen_classes_}
    acc_seen, acc_unseen = generalized_accuracy(y, scores, bias=bias, **options)
    predicted = model.predict(X)
    for classes, accuracy in ((plain.seen_classes_, acc_seen), (plain.unseen_classes_, acc_unseen)):
        within = [np.mean(predicted[y == c] == c) for c in classes]
        assert np.mean(within) == pytest.approx(accuracy)


def test_the_factor_is_found_without_the_test_data(problem):
    model = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    assert model.fold_biases_.shape == (5,)
    plain = CalibratedStacking(ESZSL(), rescale_bias=False).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    assert plain.bias_ == pytest.approx(model.fold_biases_.mean())
    assert model.bias_ != plain.bias_
    # Signatures of the unseen classes do not enter.
    seen_only = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures.loc[problem.seen_classes]
    )
    assert seen_only.bias_ == pytest.approx(model.bias_, rel=1e-12)


class Shrinking(ESZSL):
    """Scores that the number of classes divides, as those of one against all others are."""

    @classmethod
    def _fit_many(cls, training, variants):
        for model in super()._fit_many(training, variants):
            model.coef_ = model.coef_ / training.n_seen**3
            yield model


def test_the_factor_is_in_units_of_the_final_scores(problem):
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    truth = CalibratedStacking(ESZSL()).fit(**samples)
    shrunk = CalibratedStacking(Shrinking()).fit(**samples)
    n_seen = len(problem.seen_classes)
    assert shrunk.bias_ == pytest.approx(truth.bias_ / n_seen**3, rel=1e-9)
    np.testing.assert_array_equal(
        shrunk.predict(problem.X_test_unseen), truth.predict(problem.X_test_unseen)
    )
    plain = CalibratedStacking(Shrinking(), rescale_bias=False).fit(**samples)
    assert plain.bias_ > 1.5 * shrunk.bias_
    search = ZeroShotSearchCV(
        Shrinking(), {"center": ["both"]}, setting="gzsl", cv=GeneralizedClassKFold(5)
    )
    assert search.fit(**samples).bias_ == pytest.approx(shrunk.bias_, rel=1e-9)


def test_the_temperature_is_in_units_of_the_final_scores(problem):
    """Scores in other units have the same probabilities, also where folds have their own."""
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    grid, options = {"center": ["both", "both"]}, {"temperature": "cv"}
    for wrap in (
        lambda method: CalibratedStacking(method, **options),
        lambda method: ZeroShotSearchCV(method, grid, setting="gzsl", **options),
        lambda method: ZeroShotSearchCV(method, grid, **options),
    ):
        truth, shrunk = wrap(ESZSL()).fit(**samples), wrap(Shrinking()).fit(**samples)
        ratio = len(problem.seen_classes) ** 3
        assert shrunk.temperature_ == pytest.approx(truth.temperature_ / ratio, rel=1e-4)
        chances = shrunk.predict_proba(problem.X_test_unseen)
        np.testing.assert_allclose(chances, truth.predict_proba(problem.X_test_unseen), rtol=1e-3)
    plain = CalibratedStacking(Shrinking(), rescale_bias=False, **options).fit(**samples)
    assert plain.temperature_ > 1.5 * shrunk.temperature_


def test_weights_reach_the_estimator_in_every_fold(problem):
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    weights = np.random.default_rng(0).uniform(0.1, 2, len(problem.y_train))
    seen = []

    class Watching(ESZSL):
        @classmethod
        def _fit_many(cls, training, variants):
            seen.append(training.weights)
            yield from super()._fit_many(training, variants)

    CalibratedStacking(Watching(), cv=3).fit(**samples, sample_weight=weights)
    assert len(seen) == 4
    assert np.array_equal(seen[0], weights)
    assert all(len(part) < len(weights) and np.isin(part, weights).all() for part in seen[1:])
    seen.clear()
    grid = {"alpha_features": [1.0, 10.0]}
    ZeroShotSearchCV(Watching(), grid, cv=3).fit(**samples, sample_weight=weights)
    assert len(seen) == 4
    assert np.array_equal(seen[-1], weights)
    with pytest.raises(TypeError, match="ConSE does not support sample_weight"):
        CalibratedStacking(ConSE()).fit(**samples, sample_weight=weights)


def test_calibration_helps_the_harmonic_mean(problem):
    X, y = _rows(problem)
    result = {}
    for bias in (0.0, "cv"):
        model = CalibratedStacking(ESZSL(), bias=bias).fit(
            problem.X_train, problem.y_train, signatures=problem.signatures
        )
        scores = model.decision_function(X)
        result[bias] = harmonic_mean(
            *generalized_accuracy(
                y, scores, classes=model.classes_, seen_classes=model.seen_classes_
            )
        )
    assert result["cv"] > result[0.0] + 0.05


def test_one_fold_by_hand(problem):
    """The search is what the docstring says: folds of classes, a share of each class aside."""
    from zslearn.metrics import best_harmonic_mean

    model = CalibratedStacking(ESZSL(), cv=4, held_out=0.3, random_state=5)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    rng = np.random.RandomState(5)
    seen, codes = np.unique(problem.y_train, return_inverse=True)
    held = hold_out_per_class(codes, 0.3, rng)
    folds = np.array_split(rng.permutation(len(seen)), 4)
    X, y = problem.X_train, problem.y_train
    for fold, bias in zip(folds, model.fold_biases_, strict=True):
        out = np.isin(codes, fold)
        inner = ESZSL().fit(
            X[~out & ~held], y[~out & ~held], signatures=problem.signatures.loc[seen]
        )
        check = (out & ~held) | (~out & held)
        expected = best_harmonic_mean(
            y[check],
            inner.decision_function(X[check]),
            classes=inner.classes_,
            seen_classes=inner.seen_classes_,
        )[1]
        assert bias == pytest.approx(expected)


def test_on_a_tie_the_unseen_class_wins():
    # Two seen classes and one unseen; a row orthogonal to everything scores 0 everywhere.
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.1, 0.0], [0.1, 1.0, 0.0]])
    y = np.array(["a", "b", "a", "b"])
    signatures = {"a": [1.0, 0.0], "b": [0.0, 1.0], "z": [1.0, 1.0]}
    inner = ESZSL(center=None, feature_norm=None)
    row = np.array([[0.0, 0.0, 1.0]])
    plain = clone(inner).fit(X, y, signatures=signatures)
    assert plain.predict(row) == ["a"]
    model = CalibratedStacking(inner, bias=0.0).fit(X, y, signatures=signatures)
    np.testing.assert_array_equal(model.decision_function(row), [[0.0, 0.0, 0.0]])
    assert model.predict(row) == ["z"]


def test_too_few_classes_to_leave_one_out():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), np.repeat(["a", "b"], 10)
    signatures = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    with pytest.warns(InputWarning, match="at least 4 seen classes; with 2"):
        model = CalibratedStacking(ESZSL()).fit(X, y, signatures=signatures)
    assert model.bias_ == 0.0


def test_four_classes_some_with_one_sample():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((13, 3)), np.array(list("aaaabbbbcdddd"))
    signatures = {label: rng.random(4) for label in "abcde"}
    model = CalibratedStacking(ESZSL(), cv=10).fit(X, y, signatures=signatures)
    assert np.isfinite(model.bias_)
    assert len(model.fold_biases_) == 2


@pytest.mark.parametrize(
    "method",
    [
        ESZSL(),
        pytest.param(SynC(), marks=pytest.mark.slow),
        pytest.param(EXEM(distance="standardized"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_factor_is_that_of_a_search(problem, method):
    """One rule: stacking and a search with one setting leave out the same classes."""
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    stacked = CalibratedStacking(method).fit(**samples)
    name = next(name for name in ("C", "alpha", "alpha_features") if hasattr(method, name))
    grid = {name: [getattr(method, name)]}
    search = ZeroShotSearchCV(method, grid, setting="gzsl").fit(**samples)
    assert stacked.bias_ == pytest.approx(search.bias_, rel=1e-9)
    X, _ = _rows(problem)
    np.testing.assert_array_equal(stacked.predict(X), search.predict(X))


def test_folds_may_be_given(problem):
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    folds = GeneralizedClassKFold(3, held_out=0.4, random_state=5)
    model = CalibratedStacking(ESZSL(), cv=folds).fit(**samples)
    assert len(model.fold_biases_) == 3
    rows = list(folds.split(None, problem.y_train))
    again = CalibratedStacking(ESZSL(), cv=rows).fit(**samples)
    assert model.bias_ == again.bias_
    with pytest.raises(ValueError, match="has no validation images of its training classes"):
        CalibratedStacking(ESZSL(), cv=ClassKFold(3)).fit(**samples)


def test_factor_and_temperature_are_kept_when_the_estimator_adapts(problem):
    given = (problem.X_train, problem.y_train)
    model = CalibratedStacking(GaussianEXEM(), bias=-0.5, temperature=2.0)
    model.fit(*given, signatures=problem.signatures)
    adapted = model.adapt(problem.X_test_unseen, accept=True)
    inside = model.estimator_.adapt(problem.X_test_unseen, accept=True)
    shift = np.where(np.isin(model.classes_, model.seen_classes_), -0.5, 0.0)
    X, _ = _rows(problem)
    scores = inside.decision_function(X) - shift
    np.testing.assert_allclose(adapted.decision_function(X), scores, atol=1e-9)
    np.testing.assert_allclose(adapted.predict_proba(X), softmax(scores / 2.0, axis=1), atol=1e-9)
    assert np.abs(model.decision_function(X) - scores).max() > 0.01


def test_nested_factors_add_up(problem):
    given = (problem.X_train, problem.y_train)
    inner = CalibratedStacking(ESZSL(), bias=0.1)
    both = CalibratedStacking(inner, bias=0.2).fit(*given, signatures=problem.signatures)
    once = CalibratedStacking(ESZSL(), bias=0.3).fit(*given, signatures=problem.signatures)
    X, _ = _rows(problem)
    np.testing.assert_allclose(both.decision_function(X), once.decision_function(X))


def test_input_warnings_are_given_once(problem):
    X = problem.X_train.copy()
    X[0, 0] = np.nan
    with pytest.warns(InputWarning) as caught:
        CalibratedStacking(ESZSL()).fit(X, problem.y_train, signatures=problem.signatures)
    assert len(caught) == 1


# Probabilities


def _fit(model, problem):
    return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


def _likelihood_loss(scores, true, temperature):
    scaled = scores / temperature
    top = scaled.max(axis=1, keepdims=True)
    normalizer = np.log(np.exp(scaled - top).sum(axis=1)) + top[:, 0]
    return np.mean(normalizer - scaled[np.arange(len(true)), true])


def test_the_best_temperature_by_brute_force():
    rng = np.random.default_rng(0)
    true = rng.integers(6, size=4000)
    scores = rng.normal(size=(4000, 6)) + 1.3 * (true[:, None] == np.arange(6))
    candidates = np.geomspace(0.1, 10, 401)
    losses = [_likelihood_loss(scores, true, t) for t in candidates]
    for scale in (1e-6, 1.0, 1e5):
        expected = scale * candidates[np.argmin(losses)]
        assert best_temperature(scale * scores, true) == pytest.approx(expected, rel=2e-2)


def test_probabilities_of_calibrated_stacking(problem):
    model = _fit(CalibratedStacking(ESZSL(), temperature="cv"), problem)
    unscaled = _fit(CalibratedStacking(ESZSL(), temperature="cv", rescale_bias=False), problem)
    mean = np.exp(np.log(model.fold_temperatures_).mean())
    assert unscaled.temperature_ == pytest.approx(mean)
    # The factor is the one without a temperature.
    assert model.bias_ == _fit(CalibratedStacking(ESZSL()), problem).bias_
    X, y = _rows(problem)
    chances = model.predict_proba(X)
    scores = model.decision_function(X)
    np.testing.assert_allclose(chances, softmax(scores / model.temperature_, axis=1))
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X))
    unseen = problem.unseen_classes[::-1]
    among = model.predict_proba(X, classes=unseen)
    np.testing.assert_allclose(among.sum(axis=1), 1.0)
    columns = np.searchsorted(model.classes_, unseen)
    share = chances[:, columns] / chances[:, columns].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(among, share)
    # They are more honest than probabilities of scores as they are.
    honest = expected_calibration_error(y, chances, classes=model.classes_)
    plain = expected_calibration_error(y, softmax(scores, axis=1), classes=model.classes_)
    assert honest < plain / 2


def test_a_fold_temperature_by_hand(problem):
    folds = GeneralizedClassKFold(3)
    model = _fit(CalibratedStacking(ESZSL(), temperature="cv", cv=folds), problem)
    fixed = _fit(CalibratedStacking(ESZSL(), bias=0.1, temperature="cv", cv=folds), problem)
    assert fixed.bias_ == 0.1
    assert len(fixed.fold_biases_) == 0
    X, y = problem.X_train, problem.y_train
    for number, (train, test) in enumerate(folds.split(X, y)):
        inner = ESZSL().fit(
            X[train], y[train], signatures=problem.signatures.loc[problem.seen_classes]
        )
        seen = np.isin(inner.classes_, inner.seen_classes_)
        true = np.searchsorted(inner.classes_, y[test])
        for stacked, factor in ((model, model.fold_biases_[number]), (fixed, 0.1)):
            scores = inner.decision_function(X[test]) - factor * seen
            assert stacked.fold_temperatures_[number] == pytest.approx(
                best_temperature(scores, true)
            )


def test_a_given_temperature_needs_no_folds(problem, monkeypatch):
    monkeypatch.setattr("zslearn.calibration._stacking.score_folds", None)
    model = _fit(CalibratedStacking(ESZSL(), bias=0.0, temperature=0.3), problem)
    assert model.temperature_ == 0.3
    X, _ = _rows(problem)
    expected = softmax(model.decision_function(X) / 0.3, axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected)


def test_without_a_temperature_there_are_no_probabilities(problem):
    for model, advice in (
        (ESZSL(), r"Fit CalibratedStacking\(ESZSL\(…\), temperature='cv'\)"),
        (CalibratedStacking(ESZSL()), r"Fit CalibratedStacking\(…, temperature='cv'\)"),
        (ZeroShotPipeline([("method", ESZSL())]), r"CalibratedStacking\(ZeroShotPipeline\(…\)"),
    ):
        _fit(model, problem)
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match=advice):
            model.predict_proba(problem.X_test_seen)
        with pytest.raises(ValueError, match=advice):
            model.predict_top_k(problem.X_test_seen, 2, proba=True)
    outer = CalibratedStacking(CalibratedStacking(ESZSL(), temperature=0.5), bias=0.0)
    _fit(outer, problem)
    assert outer.predict_proba(problem.X_test_seen).shape[1] == len(outer.classes_)
