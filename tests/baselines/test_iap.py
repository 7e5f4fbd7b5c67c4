from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from zslearn.baselines import IAP
from zslearn.datasets import make_zero_shot
from zslearn.signatures import binarize_signatures


def _fit(model, problem, **changes):
    options = {"signatures": problem.signatures, **changes}
    return model.fit(problem.X_train, problem.y_train, **options)


def test_is_the_product_of_probabilities(problem):
    binary = binarize_signatures(problem.signatures, classes=problem.seen_classes)
    model = _fit(IAP(0.01, calibration=None, tol=1e-10), problem, signatures=binary)
    X, rows = normalize(problem.X_train), normalize(problem.X_test_unseen)
    penalty = 0.01 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    classifier = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000)
    of_class = classifier.fit(X, problem.y_train).predict_proba(rows)
    seen = binary.loc[classifier.classes_].to_numpy()
    prior = seen.mean(axis=0)
    products = np.empty((len(rows), len(model.classes_)))
    for n, row in enumerate(of_class):
        p = [sum(row[y] for y in range(len(row)) if seen[y, m]) for m in range(seen.shape[1])]
        for i, c in enumerate(model.classes_):
            products[n, i] = math.prod(
                (q if a else 1 - q) / (pi if a else 1 - pi)
                for q, a, pi in zip(p, binary.loc[c], prior, strict=True)
            )
    found = softmax(model.decision_function(problem.X_test_unseen), axis=1)
    np.testing.assert_allclose(found, products / products.sum(axis=1, keepdims=True), atol=1e-4)


def test_softened_targets_are_further_samples(problem):
    """Softening adds two samples to each class, spread evenly over all classes."""
    model = _fit(IAP(0.01, calibration="targets", tol=1e-10), problem)
    X = normalize(problem.X_train)
    _, y, counts = np.unique(problem.y_train, return_inverse=True, return_counts=True)
    n = counts[y][:, None]
    target = np.where(np.arange(12) == y[:, None], (n + 2 / 12) / (n + 2), (2 / 12) / (n + 2))
    penalty = 0.01 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    reference = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000).fit(
        np.repeat(X, 12, axis=0), np.tile(np.arange(12), len(X)), sample_weight=target.ravel()
    )
    scale = np.abs(reference.coef_).max()
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-3 * scale)


def test_sigmoids_come_from_classes_held_out(problem):
    binary = binarize_signatures(problem.signatures, classes=problem.seen_classes)
    model = _fit(IAP(0.01, calibration="classes", tol=1e-10), problem, signatures=binary)
    X = normalize(problem.X_train)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    has = binary.loc[seen].to_numpy() == 1
    odds, known = np.zeros((len(X), 8)), np.zeros((len(X), 8), dtype=bool)
    for fold in np.array_split(np.random.RandomState(0).permutation(len(seen)), 3):
        held = np.isin(y, fold)
        rows = X[~held]
        penalty = 0.01 * ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()
        classifier = LogisticRegression(C=1 / (penalty * len(rows)), tol=1e-9, max_iter=10_000)
        p = classifier.fit(rows, y[~held]).predict_proba(X[held]) @ has[classifier.classes_]
        for m in range(8):
            share = has[y[~held], m].mean()
            if 0 < share < 1:
                odds[held, m] = logit(p[:, m]) + logit(has[y, m].mean()) - logit(share)
                known[held, m] = True
    for m in range(8):
        f, target = odds[known[:, m], m], has[y[known[:, m]], m]
        t = np.where(target, (target.sum() + 1) / (target.sum() + 2), 1 / ((~target).sum() + 2))
        residual = expit(model.slope_[m] * f + model.offset_[m]) - t
        assert abs(residual.mean()) < 1e-4
        slope = (residual * (f - f.mean())).mean() / f.std()
        assert abs(slope) < 1e-3 or (model.slope_[m] == 0 and slope > 0)
    assert (model.slope_ > 0).any()


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier whose scores are its features."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def _svm_scores(X, y, rows, alpha, to):
    """scikit-learn's linear machines, one class against the others, trained on some rows."""
    mean = X.mean(axis=0)
    unit = np.sqrt(((X - mean) ** 2).sum(axis=1).mean())
    Z, T = (X - mean) / unit, (to - mean) / unit
    scores = np.empty((len(to), y.max() + 1))
    for c in range(y.max() + 1):
        machine = LinearSVC(C=1 / (alpha * len(rows)), tol=1e-8, max_iter=100_000, dual=False)
        scores[:, c] = machine.fit(Z[rows], y[rows] == c).decision_function(T)
    return scores


def test_sigmoids_of_the_seen_classes_are_those_of_scikit_learn(problem):
    binary = binarize_signatures(problem.signatures, classes=problem.seen_classes)
    model = _fit(IAP(0.01, probabilities="platt", tol=1e-9), problem, signatures=binary)
    X, rows = normalize(problem.X_train), normalize(problem.X_test_unseen)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    # Each class is held out by thirds: a permutation, ordered by class, dealt out in turn.
    order = np.random.RandomState(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    held_out = np.empty((len(y), len(seen)))
    for part in range(3):
        held = order[part::3]
        rest = np.setdiff1d(order, held)
        held_out[held] = _svm_scores(X, y, rest, 0.01, X[held])
    calibrated = CalibratedClassifierCV(FrozenEstimator(_Given().fit(held_out, y)))
    calibrated.fit(held_out, y)
    p = calibrated.predict_proba(_svm_scores(X, y, np.arange(len(y)), 0.01, rows))
    has = binary.loc[seen].to_numpy() == 1
    expected = logit(p @ has) - logit(has.mean(axis=0))
    np.testing.assert_allclose(model.embed(rows), expected, atol=5e-3, rtol=5e-3)
    assert np.ptp(expected, axis=0).min() > 0.5


def test_a_class_of_one_sample_takes_the_sigmoid_of_the_others(problem):
    last = problem.seen_classes[-1]
    rows = np.r_[
        np.flatnonzero(problem.y_train != last), np.flatnonzero(problem.y_train == last)[:1]
    ]
    X, y = problem.X_train[rows], problem.y_train[rows]
    model = IAP(probabilities="platt").fit(X, y, signatures=problem.signatures)
    # Its log-odds are as low as those of the others for samples of other classes.
    odds = normalize(X) @ model.coef_.T + model.intercept_
    others = odds[y != last]
    assert others[:, -1].mean() < -1
    assert model.predict(X[-1:], classes=problem.seen_classes)[0] == last


def test_few_samples_of_each_class():
    X = np.eye(4)
    for n_samples in (2, 3, 4):
        y = np.arange(4) % 2 if n_samples == 4 else np.r_[0, np.ones(n_samples - 1, dtype=int)]
        model = IAP(probabilities="platt").fit(
            X[:n_samples], y, signatures=np.array([[1, 0], [0, 1]])
        )
        assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.slow
def test_thousands_of_attributes_and_sure_classes_do_not_underflow(dtype):
    data = make_zero_shot(
        n_seen=15,
        n_unseen=4,
        n_attributes=2000,
        n_features=20,
        samples_per_class=8,
        noise=0.05,
        signature_kind="binary",
        random_state=0,
    )
    model = IAP(1e-8, calibration=None, feature_norm=None).fit(
        data.X_train.astype(dtype), data.y_train, signatures=data.signatures
    )
    scores = model.decision_function(100 * data.X_test_seen.astype(dtype))
    assert scores.dtype == dtype
    assert np.isfinite(scores).all()
    assert model.score(data.X_test_seen, data.y_test_seen, classes=data.seen_classes) > 0.9
