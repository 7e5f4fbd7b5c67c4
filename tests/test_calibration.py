from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.metrics import generalized_accuracy, harmonic_mean
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import EXEM, SynC
from zslearn.utils import InputWarning
from zslearn.utils._folds import class_folds, hold_out_per_class


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
    assert model.bias_ == pytest.approx(model.fold_biases_.mean())
    # Signatures of the unseen classes do not enter.
    seen_only = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures.loc[problem.seen_classes]
    )
    assert seen_only.bias_ == pytest.approx(model.bias_, rel=1e-12)


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
    folds = class_folds(rng.permutation(len(seen)), 4)
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
    with pytest.warns(InputWarning, match="2 seen classes are too few"):
        model = CalibratedStacking(ESZSL()).fit(X, y, signatures=signatures)
    assert model.bias_ == 0.0


def test_four_classes_some_with_one_sample():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((13, 3)), np.array(list("aaaabbbbcdddd"))
    signatures = {label: rng.random(4) for label in "abcde"}
    model = CalibratedStacking(ESZSL(), cv=10).fit(X, y, signatures=signatures)
    assert np.isfinite(model.bias_)
    assert len(model.fold_biases_) == 2


@pytest.mark.parametrize("method", [ESZSL(), SynC(), EXEM(distance="standardized")], ids=str)
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
    with pytest.raises(ValueError, match="validates no image of a class that it trains on"):
        CalibratedStacking(ESZSL(), cv=ClassKFold(3)).fit(**samples)


def test_several_views_and_later_classes(problem):
    frame = problem.signatures
    late = problem.unseen_classes[:1]

    def views(rows):
        return MultiSignatures({"a": rows.iloc[:, :4], "b": rows.iloc[:, 4:]}, [0.2, 0.8])

    model = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=views(frame.drop(index=late))
    )
    model.add_classes(views(frame.loc[late]))
    assert set(late) <= set(model.unseen_classes_)
    assert model.class_scorer_.bias[np.isin(model.classes_, late)] == 0.0


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


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_hold_out_per_class(share):
    codes = np.repeat(np.arange(5), [1, 2, 3, 10, 100])
    held = hold_out_per_class(codes, share, np.random.RandomState(0))
    for c, count in enumerate([1, 2, 3, 10, 100]):
        n = held[codes == c].sum()
        assert n < count
        assert n == 0 if count == 1 else n >= 1
        assert abs(n - share * count) <= 1


def test_class_folds_cover_every_class_once():
    order = np.random.RandomState(0).permutation(17)
    folds = class_folds(order, 5)
    assert sorted(np.concatenate(folds)) == list(range(17))
    assert {len(fold) for fold in folds} == {3, 4}
    dropped = class_folds(order, 5, drop_remainder=True)
    assert [len(fold) for fold in dropped] == [3] * 5
    np.testing.assert_array_equal(np.concatenate(dropped), order[:15])
