"""GDA and Tip-Adapter against their formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import normalize

from zslearn.baselines import CMT, ESZSL, GDA, SAE, LatEm, TipAdapter
from zslearn.model_selection import ClassKFold, TableClassifier, ZeroShotSearchCV


@pytest.fixture
def few(problem):
    """The training data and two images each of the first two unseen classes."""
    rows = [np.flatnonzero(problem.y_test_unseen == c)[:2] for c in problem.unseen_classes[:2]]
    X = np.concatenate([problem.X_train, problem.X_test_unseen[np.concatenate(rows)]])
    return X, np.concatenate([problem.y_train, np.repeat(problem.unseen_classes[:2], 2)])


def _gda(X, y, classes, rows):
    """The paper's formulas, around the mean of the class means."""
    means = np.stack([X[y == c].mean(axis=0) for c in classes])
    center = means.mean(axis=0)
    covariance = np.cov((X - means[np.searchsorted(classes, y)]).T)
    n, d = X.shape
    precision = d * np.linalg.inv((n - 1) * covariance + np.trace(covariance) * np.eye(d))
    means = means - center
    return (rows - center) @ precision @ means.T - 0.5 * ((means @ precision) * means).sum(axis=1)


def _tip_adapter(X, y, classes, rows):
    nearness = np.exp(-5.5 * (1 - rows @ X.T))
    return np.stack([nearness[:, y == c].mean(axis=1) for c in classes], axis=1)


@pytest.mark.parametrize(("method", "by_images"), [(GDA, _gda), (TipAdapter, _tip_adapter)])
def test_scores_by_description_and_by_images(problem, few, method, by_images):
    model = method(ESZSL(), weight=0.7).fit(*few, signatures=problem.signatures)
    seen, rows = np.unique(few[1]), problem.X_test_unseen
    by_description = model.estimator_.decision_function(rows)
    images = np.zeros_like(by_description)
    of_seen = by_images(normalize(few[0]), few[1], seen, normalize(rows))
    # Classes without images have the score of their description.
    images[:, np.searchsorted(model.classes_, seen)] = of_seen
    unit, unit_of_images = model.units_
    expected = by_description / unit + 0.7 * images / unit_of_images
    np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-9)
    means = np.stack([normalize(few[0])[few[1] == c].mean(axis=0) for c in seen])
    scores = model.estimator_.decision_function(means, classes=seen)
    assert unit == pytest.approx(np.median(scores.std(axis=1)))


def test_the_method_inside_may_learn_from_classes_with_many_images_alone(problem, few):
    model = GDA(ESZSL(), min_images=3).fit(*few, signatures=problem.signatures)
    alone = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    np.testing.assert_array_equal(model.seen_classes_, np.unique(few[1]))
    rows = problem.X_test_unseen
    scores = model.estimator_.decision_function(rows)
    np.testing.assert_allclose(scores, alone.decision_function(rows), atol=1e-9)


@pytest.mark.parametrize(
    "inner", [SAE(), CMT(max_iter=5), pytest.param(LatEm(max_iter=5), marks=pytest.mark.slow)]
)
def test_without_weight_any_method_predicts_as_alone(problem, few, inner):
    model = GDA(inner, weight=0.0).fit(*few, signatures=problem.signatures)
    rows = problem.X_test_unseen
    np.testing.assert_array_equal(model.predict(rows), model.estimator_.predict(rows))


def test_the_weight_is_tuned_on_held_out_classes_with_a_few_images(problem, few):
    """If descriptions belong to other classes, only images determine the prediction."""
    wrong = problem.signatures.copy()
    wrong[:] = np.random.default_rng(0).permutation(wrong.to_numpy())
    chosen = [
        ZeroShotSearchCV(GDA(), {"weight": [0.0, 0.1, 10.0]}, cv=ClassKFold(3, shots=4))
        .fit(*few, signatures=table)
        .best_params_["weight"]
        for table in (problem.signatures, wrong)
    ]
    assert chosen[0] > 0
    assert chosen[1] == 10.0


@pytest.mark.parametrize("method", [GDA, TipAdapter])
def test_the_default_description_is_fitted_on_tables(problem, method):
    table = pd.DataFrame(problem.X_train)
    model = TableClassifier(method(), scaling="standard", row_norm="l2")
    model.fit(table, problem.y_train, signatures=problem.signatures)
    assert model.score(table, problem.y_train, classes=problem.seen_classes) > 0.8
