"""Pipelines of scikit-learn inside searches and calibration, and scores for its own searches."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.experiments import evaluate
from zslearn.model_selection import (
    ClassKFold,
    GeneralizedClassKFold,
    ZeroShotPipeline,
    ZeroShotSearchCV,
    unseen_accuracy_scorer,
)

GRID = {"pca__n_components": [5, 8], "eszsl__alpha_features": [1.0, 10.0, 100.0]}


class CountingScaler(StandardScaler):
    """Counts how often it is fitted and asked."""

    fits = 0
    transforms = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)

    def transform(self, X, copy=None):
        type(self).transforms += 1
        return super().transform(X, copy)


def _pipe():
    return make_pipeline(StandardScaler(), PCA(8), ESZSL())


def test_hyper_parameters_of_a_pipeline_stay(problem):
    given = (problem.X_train, problem.y_train)
    pipe = _pipe().set_params(transform_input=["X_val"], verbose=False)
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedStacking(pipe, bias=0.1).fit(*given, signatures=problem.signatures)
    assert model.estimator_.transform_input == ["X_val"]
    assert model.estimator_.transformers_.transform_input == ["X_val"]


def _fit(model, problem):
    return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


def _by_hand(pipe, X, y, signatures):
    pipe = clone(pipe)
    return pipe.fit(X, y, **{f"{pipe.steps[-1][0]}__signatures": signatures})


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_searched_pipeline_by_hand(problem, setting):
    folds = ClassKFold(3) if setting == "zsl" else GeneralizedClassKFold(3)
    search = ZeroShotSearchCV(_pipe(), GRID, setting=setting, cv=folds, scoring="accuracy")
    _fit(search, problem)
    X, y = problem.X_train, problem.y_train
    for number, (train, test) in enumerate(folds.split(X, y)):
        for j, setting_ in enumerate(search.cv_results_["params"]):
            pipe = _by_hand(
                clone(_pipe()).set_params(**setting_), X[train], y[train], problem.signatures
            )
            expected = unseen_accuracy_scorer(pipe, X[test], y[test])
            assert search.cv_results_[f"split{number}_test_accuracy"][j] == pytest.approx(expected)
    assert set(search.best_params_) == set(GRID)
    best = _by_hand(_pipe().set_params(**search.best_params_), X, y, problem.signatures)
    rows = problem.X_test_unseen
    classes = problem.unseen_classes
    np.testing.assert_array_equal(
        search.predict(rows, classes=classes), best.predict(rows, classes=classes)
    )
    seen = np.isin(search.classes_, search.seen_classes_)
    np.testing.assert_allclose(
        search.decision_function(rows), best.decision_function(rows) - search.bias_ * seen
    )


def test_the_best_estimator_is_a_fitted_pipeline(problem):
    search = _fit(ZeroShotSearchCV(_pipe(), GRID, cv=3), problem)
    best = search.best_estimator_
    assert isinstance(best, Pipeline)
    assert best.named_steps["pca"].n_components_ == search.best_params_["pca__n_components"]
    X, unseen = problem.X_test_unseen, problem.unseen_classes
    np.testing.assert_array_equal(best.predict(X), search.predict(X))
    labels, _ = best.predict_top_k(X, 2, classes=unseen)
    np.testing.assert_array_equal(labels[:, 0], best.predict(X, classes=unseen))
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))
    assert search.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="features"):
        search.predict(X[:, 1:])


def test_transformers_are_shared_by_settings_of_the_method(problem):
    grid = {"countingscaler__with_std": [True, False], "eszsl__alpha_features": [1.0, 10.0, 100.0]}
    CountingScaler.fits = CountingScaler.transforms = 0
    search = ZeroShotSearchCV(make_pipeline(CountingScaler(), ESZSL()), grid, cv=3)
    _fit(search, problem)
    # Two settings of the scaler in three folds, and once more on all of the data.
    assert CountingScaler.fits == 2 * 3 + 1
    # Calls by fit_transform, and for the validation images of every fold.
    assert CountingScaler.transforms == 2 * 3 * 2 + 1


def test_a_step_may_be_searched_itself(problem):
    grid = {"pca": ["passthrough", PCA(6)], "eszsl__alpha_features": [1.0, 10.0]}
    search = _fit(ZeroShotSearchCV(_pipe(), grid, cv=3, error_score="raise"), problem)
    assert len(search.cv_results_["params"]) == 4
    assert len(set(search.cv_results_["mean_test_accuracy"])) > 1
    method = {"eszsl": [ESZSL(1.0), ESZSL(100.0)]}
    search = _fit(ZeroShotSearchCV(_pipe(), method, cv=3), problem)
    assert search.best_estimator_[-1].alpha_features == search.best_params_["eszsl"].alpha_features


def test_named_grids_are_those_of_the_method(problem):
    search = ZeroShotSearchCV(make_pipeline(StandardScaler(), ESZSL()), "fast", cv=3)
    _fit(search, problem)
    assert set(search.best_params_) == {f"eszsl__{name}" for name in ESZSL.grids["fast"]}


def test_a_calibrated_pipeline_by_hand(problem):
    model = _fit(CalibratedStacking(_pipe(), temperature="cv"), problem)
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    plain = _by_hand(_pipe(), problem.X_train, problem.y_train, problem.signatures)
    seen = np.isin(model.classes_, model.seen_classes_)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(X) - model.bias_ * seen
    )
    assert model.bias_ > 0
    assert model.predict_proba(X).shape == (len(X), len(model.classes_))
    grid = {"eszsl__alpha_features": [ESZSL().alpha_features]}
    search = _fit(ZeroShotSearchCV(_pipe(), grid, setting="gzsl", temperature="cv"), problem)
    assert model.bias_ == pytest.approx(search.bias_)
    assert model.temperature_ == pytest.approx(search.temperature_)


def test_later_classes_of_a_pipeline(problem):
    late = problem.unseen_classes[:1]
    samples = problem.X_train, problem.y_train
    model = CalibratedStacking(_pipe(), bias=0.1)
    model.fit(*samples, signatures=problem.signatures.drop(index=late))
    model.add_classes(problem.signatures.loc[late])
    whole = CalibratedStacking(_pipe(), bias=0.1).fit(*samples, signatures=problem.signatures)
    X = problem.X_test_unseen
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X))


def test_calibration_inside_a_pipeline(problem):
    pipe = make_pipeline(StandardScaler(), CalibratedStacking(ESZSL(), bias=0.1))
    grid = {"calibratedstacking__estimator__alpha_features": [1.0, 100.0]}
    search = _fit(ZeroShotSearchCV(pipe, grid, cv=3), problem)
    assert not hasattr(search, "predict_proba")
    assert set(search.best_params_) == set(grid)
    pipe.set_params(calibratedstacking__temperature=0.5)
    search = _fit(ZeroShotSearchCV(pipe, grid, cv=3), problem)
    inner = search.best_estimator_[-1]
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        search.predict_proba(X), inner.predict_proba(search.best_estimator_.transform_rows(X))
    )


def test_other_parts_take_pipelines(problem):
    frames = make_pipeline(StandardScaler().set_output(transform="pandas"), ESZSL())
    arrays = make_pipeline(StandardScaler(), ESZSL())
    X = problem.X_test_unseen
    found = [_fit(CalibratedStacking(pipe, bias=0.0), problem) for pipe in (frames, arrays)]
    np.testing.assert_allclose(
        *(model.decision_function(X) for model in found), rtol=1e-9, atol=1e-12
    )
    alone = _fit(CalibratedStacking(make_pipeline(ESZSL()), bias=0.0), problem)
    plain = _fit(CalibratedStacking(ESZSL(), bias=0.0), problem)
    np.testing.assert_allclose(
        alone.decision_function(X), plain.decision_function(X), rtol=1e-9, atol=1e-12
    )
    assert evaluate(arrays, problem).metrics["ausuc"] > 0
    with sklearn.config_context(enable_metadata_routing=True):
        search = ZeroShotSearchCV(arrays, {"eszsl__alpha_features": [1.0, 10.0]}, cv=3)
        _fit(search, problem)
    assert set(search.predict(X, classes=problem.unseen_classes)) <= set(problem.unseen_classes)


def test_missing_values_before_an_imputer(problem):
    from sklearn.impute import SimpleImputer

    X = problem.X_train.copy()
    X[::7, 3] = np.nan
    pipe = make_pipeline(SimpleImputer(), ESZSL())
    search = ZeroShotSearchCV(pipe, {"eszsl__alpha_features": [10.0, 100.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, problem.y_train, signatures=problem.signatures)
        search.predict(X)


def test_a_pipeline_must_end_in_a_zero_shot_estimator(problem):
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    for model in (CalibratedStacking(pipe), ZeroShotSearchCV(pipe, {"pca": [1]})):
        with pytest.raises(TypeError, match="last step of the pipeline must be a zero-shot"):
            _fit(model, problem)
    with pytest.raises(ValueError, match="no hyper-parameter 'gamma'"):
        _fit(ZeroShotSearchCV(_pipe(), {"gamma": [1.0, 2.0]}), problem)


def test_an_error_leaves_a_fitted_pipeline(problem):
    model = _fit(ZeroShotPipeline(_pipe().steps), problem)
    X = problem.X_test_unseen
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="signature"):
        model.fit(X * 2, problem.y_test_unseen, signatures=problem.signatures.iloc[:1])
    np.testing.assert_array_equal(model.decision_function(X), before)


# Scores for scikit-learn's own searches


@pytest.mark.parametrize(
    "make", [ESZSL, lambda: make_pipeline(StandardScaler(), ESZSL())], ids=["method", "pipeline"]
)
def test_cross_val_score_gives_what_the_search_gives(problem, make):
    pipe = make()
    prefix = "eszsl__" if isinstance(pipe, Pipeline) else ""
    found = cross_val_score(
        pipe,
        problem.X_train,
        problem.y_train,
        cv=ClassKFold(4),
        scoring=unseen_accuracy_scorer,
        params={f"{prefix}signatures": problem.signatures},
    )
    grid = {f"{prefix}alpha_features": [ESZSL().alpha_features, 1.0]}
    search = _fit(ZeroShotSearchCV(pipe, grid, cv=ClassKFold(4)), problem)
    expected = [search.cv_results_[f"split{i}_test_accuracy"][0] for i in range(4)]
    np.testing.assert_allclose(found, expected)


def test_the_scorer_leaves_out_seen_classes(problem):
    search = GridSearchCV(
        ESZSL(),
        {"alpha_features": [1.0, 100.0]},
        cv=GeneralizedClassKFold(3),
        scoring=unseen_accuracy_scorer,
    ).fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    ours = ZeroShotSearchCV(
        ESZSL(),
        {"alpha_features": [1.0, 100.0]},
        setting="gzsl",
        scoring="accuracy",
        cv=GeneralizedClassKFold(3),
    )
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"],
        _fit(ours, problem).cv_results_["mean_test_accuracy"],
    )


def test_the_scorer_refuses_folds_over_samples(problem):
    model = _fit(ESZSL(), problem)
    with pytest.raises(ValueError, match="Hold out whole classes"):
        unseen_accuracy_scorer(model, problem.X_train, problem.y_train)
    with pytest.raises(ValueError, match="Hold out whole classes"):
        cross_val_score(
            ESZSL(),
            problem.X_train,
            problem.y_train,
            cv=KFold(3, shuffle=True, random_state=0),
            scoring=unseen_accuracy_scorer,
            params={"signatures": problem.signatures},
            error_score="raise",
        )
