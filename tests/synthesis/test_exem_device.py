"""EXEM with samples on a device, simulated by torch on the CPU."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from zslearn import load, save
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import EXEM
from zslearn.synthesis import _exemplars as exemplars

torch = pytest.importorskip("torch")

GRID = {
    "n_components": [6, 12],
    "gamma": [0.25, 1.0, 4.0],
    "nu": [0.125, 0.5, 1.0],
    "C": [0.125, 1.0, 8.0],
}


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=24, n_unseen=6, random_state=0)


@pytest.fixture
def paths(monkeypatch):
    """Array types of the targets of all ν-SVRs."""
    asked = []
    solve = exemplars._solve_paths

    def watched(signatures, gammas, Y, **options):
        asked.append(type(Y))
        return solve(signatures, gammas, Y, **options)

    monkeypatch.setattr(exemplars, "_solve_paths", watched)
    return asked


def _grid(model, X, data):
    settings = list(ParameterGrid(GRID))
    return dict(model.fit_grid(X, data.y_train, signatures=data.signatures, settings=settings))


@pytest.mark.slow
@pytest.mark.usefixtures("tensors_on_device")
@pytest.mark.parametrize("distance", ["euclidean", "standardized"])
def test_a_grid_is_solved_beside_the_samples(data, paths, distance):
    model = EXEM(tol=1e-4, distance=distance)
    host = _grid(model, data.X_train, data)
    device = _grid(model, torch.asarray(data.X_train), data)
    assert paths == [np.ndarray, torch.Tensor]
    for index, expected in host.items():
        found = device[index]
        assert isinstance(found.predicted_exemplars_, np.ndarray)
        np.testing.assert_allclose(
            found.predicted_exemplars_, expected.predicted_exemplars_, atol=5e-3
        )
        table = data.signatures.loc[data.unseen_classes]
        assert isinstance(found.predict_exemplars(table), np.ndarray)
        assert found.violation_.max() <= 1e-4
        assert found.support_.shape == expected.support_.shape
        assert found.n_iter_ >= 1
        assert found.seen_shares(np.asarray(found.regressor_.signatures)).shape[1] == 24
        X = data.X_test_unseen
        scores = found.decision_function(torch.asarray(X), classes=data.unseen_classes)
        wanted = expected.decision_function(X, classes=data.unseen_classes)
        np.testing.assert_allclose(scores.numpy(), wanted, atol=0.05 * np.abs(wanted).max())
        # Host rows reach the tolerance, too.
        again = found.decision_function(X, classes=data.unseen_classes)
        np.testing.assert_allclose(again, scores.numpy(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("tensors_on_device")
def test_search_chooses_the_same(data, paths):
    searches = {}
    for name, X in (("host", data.X_train), ("device", torch.asarray(data.X_train))):
        search = ZeroShotSearchCV(EXEM(tol=1e-4), GRID, cv=3)
        searches[name] = search.fit(X, data.y_train, signatures=data.signatures)
    assert torch.Tensor in paths
    host, device = searches["host"], searches["device"]
    key = "mean_test_accuracy"
    # A prediction or two may change within the tolerance.
    np.testing.assert_allclose(device.cv_results_[key], host.cv_results_[key], atol=0.03)
    best = host.cv_results_[key]
    assert best[device.best_index_] >= best.max() - 0.01


@pytest.mark.slow
@pytest.mark.usefixtures("tensors_on_device")
def test_models_of_a_device_are_saved(data, tmp_path):
    model = _grid(EXEM(tol=1e-3), torch.asarray(data.X_train), data)[0]
    expected = model.predict(data.X_test_unseen, classes=data.unseen_classes)
    save(model, tmp_path / "model.zsl")
    for other in (load(tmp_path / "model.zsl"), pickle.loads(pickle.dumps(model))):
        assert isinstance(other.regressor_.coef, np.ndarray)
        found = other.predict(data.X_test_unseen, classes=data.unseen_classes)
        np.testing.assert_array_equal(found, expected)


def test_which_classes_are_described_changes_no_score(data):
    settings = [{"C": 0.5}, {"C": 2.0}]
    options = {"signatures": data.signatures, "settings": settings}
    some = dict(EXEM().fit_grid(data.X_train, data.y_train, classes=data.unseen_classes, **options))
    for index, model in EXEM().fit_grid(data.X_train, data.y_train, **options):
        np.testing.assert_array_equal(some[index].classes_, np.sort(data.unseen_classes))
        np.testing.assert_allclose(
            some[index].decision_function(data.X_test_unseen),
            model.decision_function(data.X_test_unseen, classes=np.sort(data.unseen_classes)),
            rtol=1e-12,
        )
