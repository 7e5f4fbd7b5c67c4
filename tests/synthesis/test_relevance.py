"""Weights of views and directions by the leave-one-out error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad

from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.persistence import load, save
from zslearn.signatures import MultiSignatures, SignatureViews
from zslearn.synthesis import GaussianEXEM
from zslearn.synthesis._relevance import _Objective, leave_one_out_slope


@pytest.fixture(scope="module")
def problem():
    return make_zero_shot(random_state=0)


@pytest.fixture(scope="module")
def views(problem):
    noise = np.random.default_rng(0).normal(size=problem.signatures.shape)
    noise = pd.DataFrame(noise, index=problem.signatures.index)
    return MultiSignatures({"good": problem.signatures, "noise": noise})


def _means(rng, n=12):
    views = SignatureViews((rng.normal(size=(n, 4)), rng.normal(size=(n, 20))), (0.7, 0.3))
    return views, rng.normal(size=(n, 5)), rng.integers(5, 30, n).astype(float)


def test_gradient_is_that_of_differences():
    rng = np.random.default_rng(1)
    objective = _Objective(*_means(rng))
    for _ in range(3):
        theta = objective.start + 0.3 * rng.normal(size=len(objective.start))
        error = check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], theta)
        assert error < 1e-5 * max(1.0, np.linalg.norm(objective(theta)[1]))


def test_error_is_that_of_leaving_each_class_out():
    rng = np.random.default_rng(2)
    signatures, means, _ = _means(rng)
    rows = signatures.arrays[0]
    kernel, noise = np.exp(-((rows[:, None] - rows) ** 2).sum(-1)), rng.uniform(0.1, 1, len(rows))
    total = 0.0
    for c in range(len(rows)):
        rest = np.delete(np.arange(len(rows)), c)
        inner = kernel[np.ix_(rest, rest)] + np.diag(noise[rest])
        total += ((means[c] - kernel[c, rest] @ np.linalg.solve(inner, means[rest])) ** 2).sum()
    assert leave_one_out_slope(kernel, means, noise)[0] == pytest.approx(total)


def test_classes_may_lack_views(problem, views):
    good, noise = views.views.values()
    lacking = {"good": good.drop(index=good.index[:2]), "noise": noise.drop(index=noise.index[2:4])}
    model = GaussianEXEM(gamma="learned")
    model.fit(problem.X_train, problem.y_train, signatures=MultiSignatures(lacking))
    assert model.view_weights_[0] > 0.6
    X, y, unseen = problem.X_test_unseen, problem.y_test_unseen, problem.unseen_classes
    assert model.score(X, y, classes=unseen) > 0.5


def test_view_of_noise_counts_for_little(problem, views):
    model = GaussianEXEM(gamma="learned").fit(problem.X_train, problem.y_train, signatures=views)
    equal = GaussianEXEM().fit(problem.X_train, problem.y_train, signatures=views)
    assert model.view_weights_.sum() == pytest.approx(1)
    assert model.view_weights_[0] > 0.6
    assert model.observed_variances_.sum() < equal.observed_variances_.sum()
    among = problem.unseen_classes
    scores = [
        m.score(problem.X_test_unseen, problem.y_test_unseen, classes=among) for m in (model, equal)
    ]
    assert scores[0] >= scores[1]


def test_saved_model_takes_new_classes(problem, views, tmp_path):
    some, last = views.index[:-1], views.index[-1:]
    told = MultiSignatures({name: view.loc[some] for name, view in views.views.items()})
    keep = np.isin(problem.y_train, some)
    model = GaussianEXEM(gamma="learned")
    model.fit(problem.X_train[keep], problem.y_train[keep], signatures=told)
    save(model, tmp_path / "model.zsl")
    again = load(tmp_path / "model.zsl")
    new = MultiSignatures({name: view.loc[last] for name, view in views.views.items()})
    for one in (model, again):
        one.add_classes(new)
    np.testing.assert_allclose(
        again.decision_function(problem.X_test_unseen),
        model.decision_function(problem.X_test_unseen),
    )


def test_search_chooses_against_equal_weights(problem, views):
    search = ZeroShotSearchCV(GaussianEXEM(), {"gamma": [1.0, "learned"]})
    search.fit(problem.X_train, problem.y_train, signatures=views)
    assert search.best_params_ == {"gamma": "learned"}
