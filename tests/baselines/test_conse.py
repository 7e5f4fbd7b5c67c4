from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from zslearn.baselines import ConSE
from zslearn.signatures import normalize_signatures


def _fit(model, problem):
    return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


@pytest.mark.parametrize("n_top", [1, 3, 12, 50])
def test_is_the_loop_over_the_most_probable_classes(problem, n_top):
    model = _fit(ConSE(n_top, 0.01, tol=1e-10), problem)
    X, rows = normalize(problem.X_train), normalize(problem.X_test_unseen)
    penalty = 0.01 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    classifier = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000)
    probabilities = classifier.fit(X, problem.y_train).predict_proba(rows)
    A = normalize_signatures(problem.signatures.loc[classifier.classes_])
    candidates = normalize_signatures(problem.signatures.loc[model.classes_], scale=1.0)
    expected = np.zeros((len(rows), len(candidates)))
    for n, row in enumerate(probabilities):
        best = sorted(range(len(row)), key=lambda c, row=row: -row[c])[:n_top]
        point = sum(row[c] * A[c] for c in best) / sum(row[c] for c in best)
        np.testing.assert_allclose(model.embed(rows[n : n + 1])[0], point, atol=1e-4)
        for c, candidate in enumerate(candidates):
            expected[n, c] = point @ candidate / np.linalg.norm(point) / np.linalg.norm(candidate)
    np.testing.assert_allclose(model.decision_function(problem.X_test_unseen), expected, atol=1e-4)


def test_one_class_at_the_top_is_its_signature(problem):
    model = _fit(ConSE(1), problem)
    rows = normalize(problem.X_test_unseen)
    for point in model.embed(rows):
        assert np.isclose(model.seen_signatures_, point).all(axis=1).any()


def test_far_rows_do_not_overflow(problem):
    model = ConSE(feature_norm=None).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    scores = model.decision_function(1e6 * problem.X_test_unseen)
    assert np.isfinite(scores).all()


def test_all_that_tie_for_the_last_place_count(problem):
    model = _fit(ConSE(2), problem)
    model.coef_[...] = 0.0
    model.intercept_[...] = 0.0
    model.intercept_[3] = 5.0
    shares = np.full(12, 1.0)
    shares[3] = np.exp(5.0)
    np.testing.assert_allclose(
        model.embed(normalize(problem.X_test_unseen))[0],
        shares / shares.sum() @ model.seen_signatures_,
    )
