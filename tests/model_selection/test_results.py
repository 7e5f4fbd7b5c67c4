"""Results of a search: columns as in scikit-learn, times, edges of the grid, a temperature."""

from __future__ import annotations

import time
import warnings
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from zslearn._scoring._probabilities import best_temperature
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration._folds import final_score_scale, rescaled
from zslearn.model_selection import ClassKFold, GridEdgeWarning, ZeroShotSearchCV
from zslearn.model_selection._grids import find_edges
from zslearn.synthesis import EXEM

GRID = [{"alpha_features": [0.1, 10.0], "center": [None, "both"]}, {"alpha_signatures": [3.0]}]


def _fit(search, problem):
    return search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


def test_columns_are_those_of_scikit_learn(problem):
    ours = _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=3, scoring=["accuracy"]), problem).cv_results_
    grid = [{"C": [0.1, 10.0], "loss": ["hinge", "squared_hinge"]}, {"tol": [3.0]}]
    theirs = GridSearchCV(LinearSVC(), grid, cv=3, scoring=["accuracy"], refit=False)
    theirs = theirs.fit(problem.X_train, problem.y_train).cv_results_
    names = {"C": "alpha_features", "loss": "center", "tol": "alpha_signatures"}
    renamed = {f"param_{names[k.removeprefix('param_')]}" if "param_" in k else k for k in theirs}
    assert set(ours) == renamed
    for name, column in theirs.items():
        if name.startswith("param_"):
            other = ours[f"param_{names[name.removeprefix('param_')]}"]
            assert isinstance(other, np.ma.MaskedArray)
            np.testing.assert_array_equal(other.mask, column.mask)
    assert ours["param_center"][:4].tolist() == [None, "both", None, "both"]
    assert ours["param_alpha_signatures"].tolist() == [None] * 4 + [3.0]


def test_ranks(problem):
    def score(estimator, X, y, classes):
        return {0.1: 2.0, 1.0: 5.0, 10.0: 5.0, 100.0: np.nan}[estimator.alpha_features]

    grid = {"alpha_features": [0.1, 1.0, 10.0, 100.0]}
    search = _fit(ZeroShotSearchCV(ESZSL(), grid, scoring=score, cv=3), problem)
    ranks = search.cv_results_["rank_test_score"]
    assert ranks.tolist() == [3, 1, 1, 4]
    assert ranks.dtype == np.int32
    assert search.best_index_ == 1


class Slow(ESZSL):
    """The first of the settings takes long, since it does what the others share."""

    @classmethod
    def _fit_many(cls, training, variants):
        time.sleep(0.2)
        for model in super()._fit_many(training, variants):
            time.sleep(0.02)
            yield model


def _slow_score(estimator, X, y, classes):
    time.sleep(0.05)
    return estimator.alpha_features


def test_times_tell_fitting_from_scoring(problem):
    search = ZeroShotSearchCV(Slow(), {"alpha_features": [1.0, 3.0]}, scoring=_slow_score, cv=2)
    results = _fit(search, problem).cv_results_
    first, second = results["mean_fit_time"]
    assert first >= 0.22
    assert second >= 0.02
    assert (results["mean_score_time"] >= 0.05).all()
    assert results["std_fit_time"].shape == results["std_score_time"].shape == (2,)


def test_without_a_search_there_are_columns_of_parameters(problem):
    with pytest.warns(InputWarning):
        search = ZeroShotSearchCV(ESZSL(), GRID).fit(problem.X_train, problem.y_train)
    assert search.cv_results_["param_alpha_features"][0] == 0.1
    assert search.edges_ == {}


# Edges


def _scored_by(function):
    def score(estimator, X, y, classes):
        return function(estimator)

    return score


def test_a_choice_on_the_edge_is_named(problem):
    grid = {"alpha_features": [1.0, 10.0, 100.0], "alpha_signatures": [0.1, 1.0, 10.0]}
    score = _scored_by(lambda e: np.log10(e.alpha_features) - abs(np.log10(e.alpha_signatures)))
    search = ZeroShotSearchCV(ESZSL(), grid, scoring=score, cv=3)
    expected = r"alpha_features=100.0 is the largest value of the grid: try larger ones\.$"
    with pytest.warns(GridEdgeWarning, match=expected) as caught:
        _fit(search, problem)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert search.edges_ == {"alpha_features": "largest"}
    both = clone(search).set_params(scoring=_scored_by(lambda e: -e.alpha_features))
    grid = {"alpha_features": grid["alpha_features"]}
    with pytest.warns(GridEdgeWarning, match="smallest value of the grid: try smaller"):
        _fit(both.set_params(grid=grid), problem)


@pytest.mark.parametrize(
    ("values", "score"),
    [
        # In the middle.
        ([1.0, 10.0, 100.0], lambda e: -abs(e.alpha_features - 10)),
        # Two values have no middle.
        ([1.0, 10.0], lambda e: e.alpha_features),
        ([1.0, 10.0, 10.0], lambda e: e.alpha_features),
        # A value further inside is as good.
        ([1.0, 10.0, 100.0], lambda e: 0.0),
    ],
)
def test_no_edge(problem, values, score):
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": values}, scoring=_scored_by(score), cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        assert _fit(search, problem).edges_ == {}


class Wanting(ESZSL):
    """A method with small grids."""

    grids: ClassVar = {
        name: {"alpha_features": [1.0, 10.0], "alpha_signatures": [0.1, 1.0, 10.0]}
        for name in ("fast", "paper")
    }


def test_a_methods_own_grid_grows_beyond_its_edges(problem):
    score = _scored_by(
        lambda e: -abs(np.log10(e.alpha_features) - 3) - np.log10(e.alpha_signatures)
    )
    search = ZeroShotSearchCV(Wanting(), "fast", scoring=score, cv=3)
    with warnings.catch_warnings():
        # Nobody gave its values.
        warnings.simplefilter("error", GridEdgeWarning)
        _fit(search, problem)
    assert search.edges_ == {"alpha_signatures": "smallest"}
    # Two steps to the best penalty of the features, four to where steps end for the other.
    assert search.best_params_ == pytest.approx(
        {"alpha_features": 1000.0, "alpha_signatures": 1e-5}
    )
    assert len(search.cv_results_["params"]) == 6 + search.n_extensions_
    assert search.n_extensions_ == 3 + 3 + 3 + 1
    assert search.estimator_.alpha_features == pytest.approx(1000.0)
    # A grid of the paper, one that is given, and none where none is wanted stay as they are.
    for change in ({"grid": "paper"}, {"grid": Wanting.grids["fast"]}, {"extensions": 0}):
        other = clone(search).set_params(**change)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", GridEdgeWarning)
            _fit(other, problem)
        assert len(caught) == ("grid" in change and not isinstance(change["grid"], str))
        assert other.n_extensions_ == 0
        assert other.best_params_ == {"alpha_features": 10.0, "alpha_signatures": 0.1}


def test_a_grid_that_grew_resumes_with_the_same_digits(problem, tmp_path):
    search = ZeroShotSearchCV(Wanting(), "fast", cv=3, checkpoint=tmp_path, setting="gzsl")
    first = _fit(clone(search), problem)
    again = _fit(clone(search), problem)
    np.testing.assert_array_equal(
        first.cv_results_["mean_test_ausuc"], again.cv_results_["mean_test_ausuc"]
    )
    assert first.bias_ == again.bias_


@pytest.mark.parametrize(
    ("name", "values", "best", "edges"),
    [
        ("nu", [0.2, 0.5, 1.0], 2, {}),  # a share
        ("nu", [0.2, 0.5, 1.0], 0, {"nu": "smallest"}),
        ("nu", [0.2, 0.5, 0.8], 2, {"nu": "largest"}),
        ("n_components", [1, 5, 9], 0, {}),
        ("n_components", [1, 5, 9], 2, {"n_components": "largest"}),
        ("n_components", [None, 5, 9], 2, {}),
        ("distance", ["euclidean", "standardized", "other"], 2, {}),
    ],
)
def test_bounds_of_the_method_are_no_edges(name, values, best, edges):
    mean = np.zeros(3)
    mean[best] = 1.0
    for prefix, estimator in (("", EXEM()), ("estimator__", ZeroShotSearchCV(EXEM(), {}))):
        settings = [{prefix + name: value} for value in values]
        found = find_edges(estimator, settings, best, mean)
        assert found == {prefix + key: edge for key, edge in edges.items()}


# Temperature


def test_a_search_finds_a_temperature(problem):
    grid = {"alpha_features": [10.0, 1000.0]}
    search = ZeroShotSearchCV(ESZSL(), grid, cv=ClassKFold(3), temperature="cv")
    _fit(search, problem)
    X, y = problem.X_train, problem.y_train
    for number, (train, test) in enumerate(ClassKFold(3).split(X, y)):
        held = np.unique(y[test])
        for j, setting in enumerate(search.cv_results_["params"]):
            model = ESZSL(**setting).fit(X[train], y[train], signatures=problem.signatures)
            scores = model.decision_function(X[test], classes=held)
            expected = best_temperature(scores, np.searchsorted(held, y[test]))
            found = search.cv_results_[f"split{number}_temperature"][j]
            assert found == pytest.approx(expected)
    chosen, scales = (
        [search.cv_results_[f"split{i}_{name}"][search.best_index_] for i in range(3)]
        for name in ("temperature", "score_scale")
    )
    final = final_score_scale(search.estimator_, X)
    expected = np.exp(np.mean(np.log(rescaled(chosen, scales, final))))
    assert search.temperature_ == pytest.approx(expected)
    assert "rank_temperature" not in search.cv_results_
    chances = search.predict_proba(problem.X_test_unseen, classes=problem.unseen_classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["object", "int"])
def test_temperatures_with_labels_of_other_kinds(problem, kind):
    labels = np.unique(problem.signatures.index)
    names = {label: i if kind == "int" else label for i, label in enumerate(labels)}
    y = np.asarray([names[label] for label in problem.y_train], dtype=kind)
    signatures = problem.signatures.rename(index=names)
    grid = {"alpha_features": [10.0, 1000.0]}
    for setting in ("zsl", "gzsl"):
        search = ZeroShotSearchCV(ESZSL(), grid, setting=setting, temperature="cv", cv=3)
        plain = _fit(clone(search), problem)
        renamed = search.fit(problem.X_train, y, signatures=signatures)
        assert renamed.temperature_ == pytest.approx(plain.temperature_)
