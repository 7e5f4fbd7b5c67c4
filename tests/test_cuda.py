"""The same results on a GPU, and results that stay there. Skipped where there is none."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from sklearn.base import clone

from estimators import instances
from zslearn._scoring._blocks import class_scores, top_k
from zslearn._utils._array import to_numpy


def _torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return lambda x: torch.asarray(x, device="cuda")


def _cupy():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("needs a GPU")
    return cupy.asarray


@pytest.fixture(params=[_torch, _cupy], ids=["torch", "cupy"])
def to_gpu(request):
    return request.param()


@pytest.mark.parametrize("score", ["dot", "euclidean", "cosine", "max_dot"])
def test_scores(to_gpu, score):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 40))
    P = rng.standard_normal((5000, 2, 40) if score == "max_dot" else (5000, 40))
    bias = rng.standard_normal(5000)
    rows = to_gpu(X)
    scores = class_scores(rows, P, score=score, bias=bias)
    assert type(scores) is type(rows)
    assert scores.device == rows.device
    expected = class_scores(X, P, score=score, bias=bias)
    np.testing.assert_allclose(to_numpy(scores), expected, rtol=1e-9, atol=1e-9)
    for k in (1, 7):
        indices, values = top_k(rows, to_gpu(P), k, score=score, bias=bias)
        assert values.device == rows.device
        order, best = top_k(X, P, k, score=score, bias=bias)
        np.testing.assert_array_equal(to_numpy(indices), order)
        np.testing.assert_allclose(to_numpy(values), best, rtol=1e-9, atol=1e-9)


def test_ties(to_gpu):
    P = np.tile(np.eye(2), (3000, 1))
    for k in (1, 4):
        indices, _ = top_k(to_gpu(np.array([[1.0, 0.0], [0.0, 1.0]])), P, k)
        expected = [[0, 2, 4, 6][:k], [1, 3, 5, 7][:k]]
        np.testing.assert_array_equal(to_numpy(indices), expected)


@pytest.mark.parametrize("estimator", instances())
def test_estimators(to_gpu, estimator, problem):
    rows = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    options = {"y": problem.y_train, "signatures": problem.signatures}
    expected = clone(estimator).fit(problem.X_train, **options)
    model = clone(estimator).fit(to_gpu(problem.X_train), **options)
    scores = model.decision_function(to_gpu(rows))
    assert type(scores) is type(to_gpu(rows))
    assert scores.device == to_gpu(rows).device
    np.testing.assert_allclose(
        to_numpy(scores), expected.decision_function(rows), rtol=1e-5, atol=1e-6
    )
    # Asked with rows on the host.
    np.testing.assert_allclose(
        model.decision_function(rows), expected.decision_function(rows), rtol=1e-5, atol=1e-6
    )


def _waits(torch, function):
    """How often the host waits for the device."""
    import warnings

    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(warning.message) for warning in caught)


def test_no_block_is_waited_for(monkeypatch, block_bytes):
    to_gpu = _torch()
    import torch

    rng = np.random.default_rng(0)
    X, P = to_gpu(rng.standard_normal((4000, 8))), rng.standard_normal((500, 8))

    def find():
        top_k(X, P, 5, score="euclidean")

    find()  # the classes travel and are looked at once
    few = _waits(torch, find)
    monkeypatch.setattr("zslearn._utils._array._MAX_DEVICE_BLOCK", 1 << 20)
    block_bytes(1 << 20)
    # Twenty blocks, and as many questions as for one.
    assert _waits(torch, find) == few


def test_a_grid_of_exem(to_gpu):
    """ν-SVRs of a grid are solved on the device, and models of a search stay there."""
    from zslearn.datasets import make_zero_shot
    from zslearn.model_selection import ZeroShotSearchCV
    from zslearn.synthesis import EXEM

    data = make_zero_shot(n_seen=24, n_unseen=6, random_state=0)
    grid = {
        "n_components": [6, 12],
        "gamma": [0.25, 1.0, 4.0],
        "nu": [0.125, 0.5, 1.0],
        "C": [0.125, 1.0, 8.0],
    }
    options = {"y": data.y_train, "signatures": data.signatures}
    settings = [
        {"gamma": g, "C": C, "nu": nu}
        for g in (0.25, 4.0)
        for C in (0.25, 1.0, 4.0)
        for nu in (0.25, 0.5, 1.0)
    ]
    X = to_gpu(data.X_train)
    expected = dict(EXEM(tol=1e-4).fit_grid(data.X_train, **options, settings=settings))
    for index, model in EXEM(tol=1e-4).fit_grid(X, **options, settings=settings):
        assert type(model.regressor_.coef) is type(X)
        np.testing.assert_allclose(
            model.predicted_exemplars_, expected[index].predicted_exemplars_, atol=5e-3
        )
    searches = [
        ZeroShotSearchCV(EXEM(tol=1e-4), grid, cv=3).fit(rows, **options)
        for rows in (data.X_train, X)
    ]
    accuracies = [search.cv_results_["mean_test_accuracy"] for search in searches]
    np.testing.assert_allclose(*accuracies, atol=0.03)
    assert accuracies[0][searches[1].best_index_] >= accuracies[0].max() - 0.01


@pytest.mark.parametrize("distance", ["euclidean", "standardized"])
def test_peak_memory_of_fitting(distance, monkeypatch):
    to_gpu = _torch()
    import torch

    from zslearn.synthesis import EXEM

    monkeypatch.setattr("zslearn._utils._array._MAX_DEVICE_BLOCK", 1 << 26)
    rng = np.random.default_rng(0)
    y = np.arange(400_000) % 10
    X = to_gpu(rng.standard_normal((len(y), 256), dtype=np.float32))
    signatures = dict(enumerate(rng.standard_normal((10, 4))))
    model = EXEM(n_components=5, distance=distance, tol=1e-2)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model.fit(X, y, signatures=signatures)
    # No copy of the rows, which would be 400 MB: blocks of 64 MB, and what they are counted short.
    assert torch.cuda.max_memory_allocated() - before < 0.5 * X.nbytes


@pytest.mark.parametrize("score", ["dot", "euclidean"])
def test_peak_memory_of_scoring(score, monkeypatch):
    to_gpu = _torch()
    import torch

    budget = 1 << 26
    monkeypatch.setattr("zslearn._utils._array._MAX_DEVICE_BLOCK", budget)
    rng = np.random.default_rng(0)
    X = to_gpu(rng.standard_normal((100_000, 32), dtype=np.float32))
    P = to_gpu(rng.standard_normal((20_000, 32), dtype=np.float32))
    top_k(X[:1000], P, 5, score=score)  # libraries take memory on first use
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    indices, values = top_k(X, P, 5, score=score)
    peak = torch.cuda.max_memory_allocated() - before
    # A table of all scores would take 8 GB.
    assert peak < 4 * budget + indices.nbytes + values.nbytes


@pytest.mark.parametrize("name", ["SynC", "ConSE"])
def test_peak_memory_of_many_rows_by_classes(name, monkeypatch):
    to_gpu = _torch()
    import torch

    from zslearn.baselines import ConSE
    from zslearn.synthesis import SynC

    budget = 1 << 25
    monkeypatch.setattr("zslearn._utils._array._MAX_DEVICE_BLOCK", budget)
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._TABLE_BYTES", budget)
    rng = np.random.default_rng(0)
    n_classes = 500
    y = np.arange(100_000) % n_classes
    X = to_gpu(rng.standard_normal((len(y), 16), dtype=np.float32))
    signatures = dict(enumerate(rng.standard_normal((n_classes, 8))))
    model = {"SynC": SynC(tol=0.5), "ConSE": ConSE(tol=0.1)}[name]
    model.fit(X[:2000], y[:2000], signatures=signatures)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model.fit(X, y, signatures=signatures)
    # A table of all rows and classes would take 200 MB in single precision, 400 in double.
    assert torch.cuda.max_memory_allocated() - before < 5 * budget


def test_a_gpu_is_there_when_promised():
    """On the machine with a GPU, ZSLEARN_EXPECT_GPU=1 turns a silent skip into a failure."""
    import os

    if os.environ.get("ZSLEARN_EXPECT_GPU") != "1":
        pytest.skip("no GPU is promised here")
    assert importlib.util.find_spec("torch") is not None
    import torch

    assert torch.cuda.is_available()
