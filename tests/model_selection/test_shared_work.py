"""What `fit_grid` shares between settings changes nothing: each is as if fitted alone.

`zslearn.base.checks` checks it for every method, over its own grid and other values of
any hyper-parameter. Here are settings that those do not reach: widths that differ, and hyper-
parameters of a method within another one.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import CCA, GFZSL, BiDiLEL
from zslearn.model_selection import METHODS, ClassKFold, ZeroShotSearchCV
from zslearn.model_selection._grids import expand
from zslearn.synthesis import EXEM, SynC

CASES = [
    (SynC(tol=1e-9, penalize="v"), [{"gamma": g, "alpha": 2**-7} for g in (0.5, 2.0)]),
    (SynC("cs", tol=1e-9, random_state=0), [{"gamma": g, "alpha": 2**-6} for g in (0.5, 2.0)]),
    (
        EXEM(n_components=10),
        [
            {"n_components": d, "gamma": g, "nu": n, "C": c, "distance": distance}
            for d in (4, 8)
            for g in (0.5, 2.0)
            for n in (0.25, 1.0)
            for c in (0.5, 4.0)
            for distance in ("euclidean", "standardized")
        ],
    ),
    (
        EXEM(n_components=6, estimator=SynC(tol=1e-9)),
        [
            {"n_components": d, "estimator__gamma": g, "estimator__alpha": 2**-7}
            for d in (4, 6)
            for g in (0.5, 2.0)
        ],
    ),
    (CCA(), [{"n_components": d, "power": p} for d in (2, 4, None) for p in (0.0, 1.0)]),
    (BiDiLEL(), [{"n_components": d, "latent_norm": n} for d in (2, 4) for n in ("l2", None)]),
    (GFZSL(), [{"n_components": d, "alpha_mean": a} for d in (4, 8, None) for a in (0.1, 1.0)]),
]


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
    first, second = expand(SynC(), "paper")[:2]
    assert first == {"gamma": 2.0**-5, "alpha": 2.0**-30}
    assert second == {"gamma": 2.0**-5, "alpha": 2.0**-28}
    first, second = expand(EXEM(), "paper")[:2]
    assert first == {"n_components": 500, "gamma": 2.0**-4, "nu": 2.0**-8, "C": 2.0**-5}
    assert second["C"] == 2.0**-4


def test_the_first_key_of_a_grid_changes_slowest():
    settings = expand(SynC(), {"alpha": [1.0, 2.0], "gamma": [3.0, 4.0]})
    assert [tuple(setting.values()) for setting in settings] == [
        (1.0, 3.0),
        (1.0, 4.0),
        (2.0, 3.0),
        (2.0, 4.0),
    ]
    assert [list(setting) for setting in settings] == 4 * [["alpha", "gamma"]]


def test_the_papers_grids_and_the_fast_ones():
    assert len(expand(SynC(), "paper")) == 132
    assert len(expand(EXEM(), "paper")) == 11 * 9 * 9 * 2
    for method in METHODS.values():
        estimator = method.make()
        assert len(expand(estimator, "fast")) <= 280
        inner = getattr(estimator, "estimator", None)
        if inner is not None:
            assert len(expand(inner, "fast")) <= 60
