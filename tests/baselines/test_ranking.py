"""ALE, DeViSE and SJE; what ranking methods share: epochs, grids, early stopping, scales."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from zslearn._utils._messages import InputWarning
from zslearn.baselines import ALE, SJE, DeViSE, LatEm
from zslearn.baselines._base_ranking import (
    BilinearDescent,
    RankingClassifier,
    rank_weights,
    slopes_of_all,
    slopes_of_worst,
)
from zslearn.datasets import load_xlsa17
from zslearn.model_selection._search import expand
from zslearn.signatures import normalize_signatures

METHODS = [ALE(), DeViSE(), SJE(), LatEm(max_iter=20)]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


def _fit(method, problem, X=None, signatures=None, **parameters):
    X = problem.X_train if X is None else X
    signatures = problem.signatures if signatures is None else signatures
    return clone(method).set_params(**parameters).fit(X, problem.y_train, signatures=signatures)


# Losses.


def _violations(scores, y):
    """max(0, 1 + F_c − F_y), 0 for the own class."""
    rows = np.arange(len(y))
    short = np.maximum(1 + scores - scores[rows, y][:, None], 0)
    short[rows, y] = 0
    return short


def _rank_weighted(scores, y):
    short = _violations(scores, y)
    k = (short > 0).sum(axis=1)
    beta = np.array([sum(1 / i for i in range(1, n + 1)) / max(n, 1) for n in k])
    return beta * short.sum(axis=1)


# The loss, written out, and its slopes.
LOSSES = {
    "DeViSE": (lambda scores, y: _violations(scores, y).sum(axis=1), slopes_of_all),
    "ALE": (
        _rank_weighted,
        lambda scores, y: slopes_of_all(scores, y, rank_weights(scores.shape[1])),
    ),
    "SJE": (lambda scores, y: _violations(scores, y).max(axis=1), slopes_of_worst),
}
every_loss = pytest.mark.parametrize(("loss", "slopes"), LOSSES.values(), ids=LOSSES)


@every_loss
def test_slopes_are_differences_of_the_loss(loss, slopes):
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(7, 6)), rng.integers(6, size=7)
    slope = slopes(scores, y)
    for where in np.ndindex(*scores.shape):
        step = np.zeros_like(scores)
        step[where] = 1e-6
        change = loss(scores + step, y).sum() - loss(scores - step, y).sum()
        assert slope[where] == pytest.approx(change / 2e-6, abs=1e-7)


@every_loss
@settings(max_examples=30, deadline=None)
@given(
    scores=hnp.arrays(np.intp, (4, 5), elements=st.integers(-3072, 3072)),
    y=hnp.arrays(np.intp, 4, elements=st.integers(0, 4)),
    shift=st.integers(-10, 10),
)
def test_properties_of_the_slopes(loss, slopes, scores, y, shift):
    # Of 1/1024, so that a shift rounds nothing: it may not tie what was apart.
    scores = scores / 1024
    slope = slopes(scores, y)
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(slopes(scores + shift, y), slope, atol=1e-9)
    # Far ahead of all others nothing is lost.
    scores[np.arange(4), y] += 100
    assert not slopes(scores, y).any()


def test_weights():
    np.testing.assert_allclose(rank_weights(4), [0, 1, 1.5 / 2, (1 + 1 / 2 + 1 / 3) / 3])


def test_ale_trains_as_a_plain_loop_over_samples(problem):
    model = _fit(ALE(0.5, 3, batch_size=10, random_state=4), problem)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    step = 0.5 / (sum(1 / i for i in range(1, len(A))) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), 10):
            change = np.zeros_like(W)
            for n in order[start : start + 10]:
                violators = [
                    c for c in range(len(A)) if c != y[n] and 1 + X[n] @ W @ (A[c] - A[y[n]]) > 0
                ]
                weight = sum(1 / i for i in range(1, len(violators) + 1)) / max(len(violators), 1)
                for c in violators:
                    change += weight * np.outer(X[n], A[c] - A[y[n]])
            W -= step * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)


def _descent(X, y, A, **options):
    usual = {"step": 0.01, "power_t": 0.0, "batch_size": 8, "rng": np.random.RandomState(0)}
    return BilinearDescent(X, y, A, slopes_of_all, **(usual | options))


def _random_problem(n_samples=40, n_features=7, n_classes=5, n_attributes=4):
    rng = np.random.default_rng(1)
    return (
        rng.normal(size=(n_samples, n_features)),
        rng.integers(n_classes, size=n_samples),
        rng.normal(size=(n_classes, n_attributes)),
    )


def test_what_all_signatures_share_changes_nothing():
    X, y, A = _random_problem()
    first, again = _descent(X, y, A), _descent(X, y, A + 5.0)
    for _ in range(4):
        first.epoch()
        again.epoch()
    np.testing.assert_allclose(again.coef, first.coef, atol=1e-12)


def test_float32_descends_as_float64():
    X, y, A = _random_problem()
    double, single = _descent(X, y, A), _descent(X.astype(np.float32), y, A)
    for _ in range(4):
        double.epoch()
        single.epoch()
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, double.coef, atol=1e-5 * np.abs(double.coef).max())


def test_the_loss_falls():
    X, y, A = _random_problem()
    descent = _descent(X, y, A, power_t=0.5)
    losses = []
    for _ in range(30):
        losses.append(_violations(X @ descent.coef @ A.T, y).sum(axis=1).mean())
        descent.epoch()
    assert losses[0] == A.shape[0] - 1
    assert losses[-1] < 0.7 * losses[0]


def test_devise_trains_as_a_plain_loop_over_samples(problem):
    """W itself, a sample and a violator at a time, without the span of the signatures."""
    model = DeViSE(0.5, 3, batch_size=10, random_state=4, power_t=0.5)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    X = X - X.mean(axis=0)
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    step = 0.5 / ((len(A) - 1) * np.mean(pairs))
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for epoch in range(3):
        order = rng.permutation(len(y))
        for start in range(0, len(y), 10):
            change = np.zeros_like(W)
            for n in order[start : start + 10]:
                for c in range(len(A)):
                    if c != y[n] and 1 + X[n] @ W @ (A[c] - A[y[n]]) > 0:
                        change += np.outer(X[n], A[c] - A[y[n]])
            W -= step / np.sqrt(epoch + 1) * change
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=seen), X @ W @ A.T, atol=1e-9
    )


def test_signatures_that_lie_in_a_plane_lose_nothing():
    """Steps are taken in the span of the signatures, whatever their number of columns is."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 7)), rng.integers(6, size=40)
    A = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 9)) + 4.0
    descent = BilinearDescent(
        X, y, A, slopes_of_worst, 0.02, power_t=0.0, batch_size=40, rng=np.random.RandomState(0)
    )
    assert descent.U.shape == (2, 7)
    W = np.zeros((7, 9))
    for _ in range(4):
        slope = slopes_of_worst(X @ W @ A.T, y)
        W -= 0.02 * X.T @ slope @ A
        descent.epoch()
    np.testing.assert_allclose(descent.coef, W, atol=1e-11)


def test_equal_signatures_teach_nothing():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(10, 3)), rng.integers(4, size=10)
    descent = BilinearDescent(
        X, y, np.ones((4, 2)), slopes_of_all, 0.1, power_t=0.0, batch_size=5,
        rng=np.random.RandomState(0),
    )  # fmt: skip
    descent.epoch()
    np.testing.assert_array_equal(descent.coef, 0)


def test_sje_trains_as_a_plain_loop_over_samples(problem):
    model = SJE(0.3, 3, batch_size=1, scaling=None, random_state=4)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = problem.X_train / np.linalg.norm(problem.X_train, axis=1, keepdims=True)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    A = normalize_signatures(problem.signatures.loc[seen])
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(A) for b in A[:i]]
    rng = np.random.RandomState(4)
    W = np.zeros((X.shape[1], A.shape[1]))
    for _ in range(3):
        for n in rng.permutation(len(y)):
            scores = 1 + X[n] @ W @ (A - A[y[n]]).T
            scores[y[n]] = -np.inf
            worst = int(np.argmax(scores))
            if scores[worst] > 0:
                W += 0.3 / np.mean(pairs) * np.outer(X[n], A[y[n]] - A[worst])
    np.testing.assert_allclose(model.coef_, W, rtol=1e-8, atol=1e-11)


@pytest.mark.slow
def test_real_birds(data_folder):
    """CUB, split ns: ALE on EfficientNet-Lite0 features, untuned defaults."""
    data = load_xlsa17("CUB", folder=data_folder / "xlsa17", features="efficientnet_lite0.mat")
    model = ALE().fit(data.X_train, data.y_train, signatures=data.signatures)
    accuracy = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert 0.55 < accuracy < 0.65


# What the ranking methods share.


def _count_descents(monkeypatch):
    """A list that grows with each descent of ALE that begins."""
    started = []
    descent = ALE._descent
    monkeypatch.setattr(ALE, "_descent", lambda *args: started.append(1) or descent(*args))
    return started


def _fit_grid(method, problem, settings):
    return method.fit_grid(
        problem.X_train, problem.y_train, signatures=problem.signatures, settings=settings
    )


def test_epochs_are_shared(problem, monkeypatch):
    started = _count_descents(monkeypatch)
    settings = [{"max_iter": n, "learning_rate": r} for r in (0.1, 1.0) for n in (9, 1, 4)]
    models = _fit_grid(ALE(), problem, settings)
    found = [(model.n_iter_, model.learning_rate) for _, model in models]
    assert found == [(n, rate) for rate in (0.1, 1.0) for n in (1, 4, 9)]
    assert len(started) == 2


def test_ends_that_were_chosen_lie_on_the_same_descent(problem, monkeypatch):
    settings = [
        {"early_stopping": True, "max_iter": 9},
        {"early_stopping": True, "max_iter": 9, "validation_fraction": 0.5},
        {"max_iter": 5},
    ]
    alone = [_fit(ALE(), problem, **setting) for setting in settings]
    started = _count_descents(monkeypatch)
    for i, model in _fit_grid(ALE(), problem, settings):
        assert model.n_iter_ == alone[i].n_iter_
        assert model.validation_scores_ == alone[i].validation_scores_
        np.testing.assert_allclose(model.coef_, alone[i].coef_, rtol=1e-9, atol=1e-12)
    # One for each that holds classes out, one on all classes.
    assert len(started) == 3


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)])
def test_chance_that_cannot_be_repeated_is_not_shared(problem, monkeypatch, random_state):
    started = _count_descents(monkeypatch)
    model = ALE(random_state=random_state)
    assert len(list(_fit_grid(model, problem, [{"max_iter": n} for n in (1, 2, 3)]))) == 3
    assert len(started) == 3


def test_features_are_scaled_once_per_kind(problem):
    settings = [{"scaling": s, "learning_rate": r} for r in (0.1, 1.0) for s in ("center", None)]
    models = dict(_fit_grid(ALE(), problem, settings))
    for name in ("mean_", "feature_weights_"):
        assert getattr(models[0], name) is getattr(models[2], name)
        assert getattr(models[1], name) is getattr(models[3], name)
        assert getattr(models[0], name) is not getattr(models[1], name)


@every_method
def test_grids_search_the_number_of_epochs(method):
    for name in ("paper", "fast"):
        settings = expand(method, name)
        assert not any(setting["early_stopping"] for setting in settings)
        assert len({setting["max_iter"] for setting in settings}) >= 3
    assert len(expand(method, "fast")) <= 20


def test_grid_of_the_paper():
    rates = expand(ALE(), "paper")
    assert len(rates) == 3 * 8 * 8
    assert rates[0]["learning_rate"] == 4.0**-4
    assert rates[-1]["learning_rate"] == 4.0**3


@every_method
def test_early_stopping_chooses_the_epochs(problem, method):
    model = _fit(method, problem, early_stopping=True, max_iter=12, n_iter_no_change=4)
    scores = model.validation_scores_
    assert model.n_iter_ == max(i for i, s in enumerate(scores, 1) if s == max(scores))
    assert len(scores) == min(12, model.n_iter_ + 4)
    same = _fit(method, problem, max_iter=model.n_iter_)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9, atol=1e-12)
    assert same.validation_scores_ == []


def test_classes_held_out_are_whole_and_not_trained_on(problem, monkeypatch):
    calls = []
    descent = ALE._descent

    def spy(self, training):
        calls.append((len(training.X), np.unique(training.y).tolist(), training.n_seen))
        return descent(self, training)

    monkeypatch.setattr(ALE, "_descent", spy)
    _fit(ALE(), problem, early_stopping=True, validation_fraction=0.25)
    # 12 seen classes of 12 samples, of which 3 are held out at first.
    assert calls == [(108, list(range(9)), 9), (144, list(range(12)), 12)]


@every_method
def test_too_few_classes_to_hold_any_out(problem, method):
    few = np.isin(problem.y_train, np.unique(problem.y_train)[:4])
    model = clone(method).set_params(early_stopping=True, max_iter=3)
    with pytest.warns(InputWarning, match="early_stopping=True needs 5 seen classes"):
        model.fit(problem.X_train[few], problem.y_train[few], signatures=problem.signatures)
    assert model.n_iter_ == 3


def test_without_descriptions_nothing_is_cut_short(problem):
    """Indicators say nothing of classes held out: all epochs are equal, the last is taken."""
    model = ALE(early_stopping=True, max_iter=15).fit(problem.X_train, problem.y_train)
    assert model.n_iter_ == 15


@every_method
@pytest.mark.parametrize("scaling", ["center", "zscore", None])
def test_scales_change_nothing(problem, method, scaling):
    first = _fit(method, problem, scaling=scaling, feature_norm=None)
    again = _fit(
        method, problem, scaling=scaling, feature_norm=None,
        X=1024 * problem.X_train, signatures=1000 * problem.signatures,
    )  # fmt: skip
    np.testing.assert_allclose(
        again.decision_function(1024 * problem.X_test_unseen),
        first.decision_function(problem.X_test_unseen),
        rtol=1e-6, atol=1e-8,
    )  # fmt: skip
    stretched = _fit(method, problem, scaling=scaling, feature_norm=None, signature_scale=0.01)
    np.testing.assert_array_equal(
        stretched.predict(problem.X_test_unseen), first.predict(problem.X_test_unseen)
    )


@every_method
def test_other_seeds_give_other_maps_of_the_same_quality(problem, method):
    first, other = _fit(method, problem), _fit(method, problem, random_state=1)
    assert not np.allclose(first.coef_, other.coef_)
    unseen = problem.X_test_unseen, problem.y_test_unseen
    accuracies = [m.score(*unseen, classes=problem.unseen_classes) for m in (first, other)]
    assert abs(accuracies[0] - accuracies[1]) < 0.3


@every_method
def test_a_generator_as_seed_gives_what_its_seed_gives(problem, method):
    ours = _fit(method, problem, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(ours.coef_, _fit(method, problem, random_state=3).coef_)


@every_method
def test_unusual_signatures(problem, method):
    rng = np.random.default_rng(0)
    names = problem.signatures.index
    single = pd.DataFrame(rng.normal(size=(len(names), 1)) ** 2 + 0.5, index=names)
    equal = problem.signatures.copy()
    equal.iloc[1] = equal.iloc[0]
    flat = problem.signatures.assign(constant=3.0, zero=0.0)
    alike = pd.DataFrame(np.ones((len(names), 3)), index=names)
    binary = (problem.signatures > 0).astype(float)
    for signatures in (single, equal, flat, alike, binary):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InputWarning)
            model = _fit(method, problem, signatures=signatures, max_iter=3)
        assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()


@every_method
def test_two_classes_and_samples_that_are_all_the_same(method):
    y = np.array(["a", "a", "b", "b"])
    signatures = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]}
    model = clone(method).fit(np.ones((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()
    model = clone(method).fit(np.zeros((4, 3)), y, signatures=signatures)
    assert np.isfinite(model.decision_function(np.eye(3))).all()


def test_a_method_must_say_how_it_descends(problem):
    class Nothing(RankingClassifier):
        def __init__(self):
            vars(self).update(vars(ALE()))

    with pytest.raises(TypeError, match="must define _descent"):
        Nothing().fit(problem.X_train, problem.y_train)
