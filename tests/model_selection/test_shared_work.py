"""What `fit_grid` shares between settings changes nothing: each is as if fitted alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import ESZSL
from zslearn.experiments import METHODS
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.synthesis import EXEM, SynC

CASES = [
    (ESZSL(), [{"alpha_features": a, "center": c} for a in (1.0, 9.0) for c in (None, "both")]),
    (SynC(tol=1e-9), [{"gamma": g, "alpha": a} for g in (0.5, 4.0) for a in (2**-8, 2**-5)]),
    (SynC(tol=1e-9), [{"alpha": 2**-8}, {"alpha": 2**-5}]),
    (SynC(tol=1e-9, penalize="v"), [{"gamma": g, "alpha": 2**-7} for g in (0.5, 2.0)]),
    (SynC("cs", tol=1e-9, random_state=0), [{"gamma": g, "alpha": 2**-6} for g in (0.5, 2.0)]),
    (
        EXEM(n_components=10),
        [
            {"n_components": d, "gamma": g, "nu": n, "C": c}
            for d in (4, 8)
            for g in (0.5, 2.0)
            for n in (0.25, 1.0)
            for c in (0.5, 4.0)
        ],
    ),
    (
        EXEM(n_components=6, estimator=SynC(tol=1e-9)),
        [{"estimator__gamma": g, "estimator__alpha": 2**-7} for g in (0.5, 2.0)],
    ),
]


@pytest.mark.parametrize(("estimator", "settings"), CASES, ids=lambda value: str(value)[:40])
def test_fit_grid_is_as_if_alone(problem, estimator, settings):
    given = {"signatures": problem.signatures}
    found = {}
    for i, model in clone(estimator).fit_grid(
        problem.X_train, problem.y_train, settings=settings, **given
    ):
        assert i not in found
        found[i] = model.decision_function(problem.X_test_unseen), model.get_params()
    assert sorted(found) == list(range(len(settings)))
    for i, setting in enumerate(settings):
        alone = clone(estimator).set_params(**setting)
        alone.fit(problem.X_train, problem.y_train, **given)
        scores = alone.decision_function(problem.X_test_unseen)
        scale = np.abs(scores).max()
        np.testing.assert_allclose(found[i][0], scores, atol=2e-4 * scale)
        for name, value in setting.items():
            assert found[i][1][name] == value


@pytest.mark.parametrize("estimator", [SynC(tol=1e-9), EXEM(n_components=8)], ids=str)
def test_searched_scores_are_those_of_single_fits(problem, estimator):
    grid = {"gamma": [0.5, 2.0]}
    search = ZeroShotSearchCV(estimator, grid, cv=ClassKFold(3))
    search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    for i, setting in enumerate(search.cv_results_["params"]):
        accuracies = []
        for train, test in ClassKFold(3).split(None, problem.y_train):
            model = clone(estimator).set_params(**setting)
            X, y = problem.X_train, problem.y_train
            model.fit(X[train], y[train], signatures=problem.signatures.loc[problem.seen_classes])
            accuracies.append(model.score(X[test], y[test], classes=np.unique(y[test])))
        assert search.cv_results_["mean_test_accuracy"][i] == pytest.approx(np.mean(accuracies))


def test_ties_are_settled_in_the_papers_order():
    settings = ZeroShotSearchCV(SynC(), "paper")
    from zslearn.model_selection._grid import expand

    first, second = expand(SynC(), settings.grid)[:2]
    assert first == {"gamma": 2.0**-5, "alpha": 2.0**-30}
    assert second == {"gamma": 2.0**-5, "alpha": 2.0**-28}
    first, second = expand(EXEM(), "paper")[:2]
    assert first == {"n_components": 500, "gamma": 2.0**-4, "nu": 2.0**-8, "C": 2.0**-5}
    assert second["C"] == 2.0**-4


def test_the_papers_grids_and_the_fast_ones():
    from zslearn.model_selection._grid import expand

    assert len(expand(SynC(), "paper")) == 132
    assert len(expand(EXEM(), "paper")) == 11 * 9 * 9 * 2
    for method in METHODS.values():
        estimator = method.make()
        assert len(expand(estimator, "fast")) <= 60
        inner = getattr(estimator, "estimator", None)
        if inner is not None:
            assert len(expand(inner, "fast")) <= 60
