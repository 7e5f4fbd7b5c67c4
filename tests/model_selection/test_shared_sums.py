"""Sums and spectra of training rows, and ν-SVRs, that searches of several methods share."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from zslearn._utils._fit_cache import FitCache
from zslearn.base import _training
from zslearn.baselines import CCA, COSTA, ESZSL, GFZSL, HAT, SAE
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import EXEM, GaussianEXEM, _exemplars

# Each with a grid of which every part of the method is asked.
SEARCHES = {
    "ESZSL": (ESZSL(), {"center": ["both", None], "alpha_features": [1e-14, 0.1, 10.0]}),
    "SAE": (SAE(), {"center": ["both", None], "alpha_reduction": [None, 5.0], "alpha": [0.1, 1]}),
    "CCA": (CCA(), {"alpha_features": [0.3, 3.0]}),
    "COSTA": (COSTA(), {"alpha": [0.1, 1.0]}),
    "GFZSL": (GFZSL(), {"n_components": [None, 3, 9], "covariance": ["class", "isotropic"]}),
    "HAT": (HAT("cluster"), {"alpha": [1e-3, 1e-2]}),
    "EXEM": (EXEM(), {"n_components": [None, 5, 20], "gamma": [0.5, 1.0]}),
    "EXEM (1NNs)": (EXEM(10, distance="standardized"), {"C": [0.5, 1.0]}),
    "EXEM (ESZSL)": (EXEM(10, estimator=ESZSL()), {"estimator__alpha_features": [1.0, 10.0]}),
    "EXEM (whitened)": (EXEM(10), {"whiten": [0.3, 0.6]}),
    "Gaussian EXEM": (GaussianEXEM(), {"n_components": [None, 10], "gamma": [0.5, 1.0]}),
}


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(random_state=0)


@pytest.fixture(autouse=True)
def everything_is_kept(monkeypatch):
    """However small it is."""
    monkeypatch.setattr(_training, "_MIN_CACHED_OPERATIONS", 0)
    monkeypatch.setattr(_exemplars, "_MIN_CACHED_WORK", 0)


def _search(data, name, memory, **options):
    estimator, grid = SEARCHES[name]
    search = ZeroShotSearchCV(clone(estimator), grid, memory=memory, cv=3, **options)
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def _scores(search, data):
    return search.decision_function(data.X_test_unseen)


@pytest.mark.parametrize("setting", ["zsl", pytest.param("gzsl", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_model_is_the_same_but_for_rounding(name, setting, data, tmp_path):
    alone = _search(data, name, None, setting=setting)
    first = _search(data, name, tmp_path, setting=setting)
    again = _search(data, name, tmp_path, setting=setting)
    assert alone.best_params_ == first.best_params_ == again.best_params_
    expected = _scores(alone, data)
    # Cached sums equal the computed ones to the last digit.
    np.testing.assert_array_equal(_scores(again, data), _scores(first, data))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(_scores(first, data) / scale, expected / scale, atol=1e-6)
    column = "mean_test_accuracy" if setting == "zsl" else "mean_test_ausuc"
    np.testing.assert_allclose(first.cv_results_[column], alone.cv_results_[column], atol=1e-3)
    # Three folds, and the last fit where it needs what is kept.
    assert again.n_read_fits_ >= 3


def test_methods_share_one_decomposition(data, tmp_path):
    _search(data, "CCA", tmp_path)
    files = {path.name for path in tmp_path.glob("fit-*.npz")}
    assert len(files) == 8  # sums and spectrum of three folds, and of all rows
    for name in ("COSTA", "GFZSL", "HAT", "SAE"):
        assert _search(data, name, tmp_path).n_read_fits_ >= 3
        assert {path.name for path in tmp_path.glob("fit-*.npz")} == files


def test_classes_of_unequal_sizes_have_their_own_scatter(data, tmp_path):
    rows = np.flatnonzero((data.y_train != data.y_train[0]) | (np.arange(len(data.y_train)) % 2))
    X, y = data.X_train[rows], data.y_train[rows]
    found = []
    for folder in (None, tmp_path):
        with FitCache(folder):
            model = COSTA().fit(X, y, signatures=data.signatures)
            found.append(model.decision_function(data.X_test_unseen[:50]))
    np.testing.assert_array_equal(*found)
    assert not list(tmp_path.iterdir())


def test_other_rows_labels_and_norms_are_not_shared(data, tmp_path):
    X, y = data.X_train, data.y_train
    moved = X.copy()
    moved[0, 0] += 1e-6
    swapped = y.copy()
    first, other = 0, int(np.flatnonzero(y != y[0])[0])
    swapped[[first, other]] = swapped[[other, first]]
    with FitCache(tmp_path) as kept:
        CCA().fit(X, y, signatures=data.signatures)
        for model, rows, labels in (
            (CCA(feature_norm=None), X, y),
            (CCA(), moved, y),
            (CCA(), X, swapped),
        ):
            model.fit(rows, labels, signatures=data.signatures)
        assert kept.n_read == 0
        CCA().fit(X.copy(), y, signatures=data.signatures)
        assert kept.n_read == 1


def test_searches_of_exem_share_regressors(data, tmp_path):
    one = _search(data, "EXEM (1NNs)", tmp_path)
    grid = SEARCHES["EXEM (1NNs)"][1]
    nearest = ZeroShotSearchCV(EXEM(10), grid, memory=tmp_path, cv=3)
    nearest.fit(data.X_train, data.y_train, signatures=data.signatures)
    # Sums, spectrum and regressors of three folds; the last fit has at least its sums in common.
    assert nearest.n_read_fits_ >= 10
    assert one.n_read_fits_ == 0
    expected = ZeroShotSearchCV(EXEM(10), grid, cv=3)
    expected.fit(data.X_train, data.y_train, signatures=data.signatures)
    np.testing.assert_allclose(_scores(nearest, data), _scores(expected, data), atol=1e-7)
    model = nearest.best_estimator_
    assert model.violation_.max() <= model.tol


def test_regressors_that_miss_their_tolerance_say_so_again(data, tmp_path):
    model = EXEM(C=0.01, nu=0.5, max_iter=1)
    with FitCache(tmp_path):
        for _ in range(2):
            with pytest.warns(ConvergenceWarning, match="miss tol"):
                clone(model).fit(data.X_train, data.y_train, signatures=data.signatures)


def test_more_features_than_samples(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((24, 60)), np.repeat(np.arange(6), 4)
    signatures = pd.DataFrame(rng.standard_normal((8, 5)))
    for estimator, _ in SEARCHES.values():
        found = []
        for folder in (None, tmp_path):
            with FitCache(folder):
                model = clone(estimator).fit(X, y, signatures=signatures)
                found.append(model.decision_function(X[:5] + 0.1))
        scale = np.abs(found[0]).max()
        np.testing.assert_allclose(found[1] / scale, found[0] / scale, atol=1e-6)
