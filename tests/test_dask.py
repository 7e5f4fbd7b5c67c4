"""Dask arrays: fitted by a tree of tasks, scored lazily, equal to one machine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from test_streams import DATA, METHODS, TEST
from zslearn.base.checks._problem import same_choices
from zslearn.baselines import ALE, ESZSL, ConSE
from zslearn.calibration import CalibratedStacking
from zslearn.experiments import evaluate
from zslearn.metrics import flat_hit_at_k, per_class_accuracy
from zslearn.model_selection import ZeroShotPipeline
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")

X, Y = DATA.X_train, DATA.y_train


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="sync"):
        yield


def _fit(model, X, y, **options):
    return model.fit(X, y, signatures=DATA.signatures, **options)


def _close(found, expected):
    assert np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


def _unknown(array):
    """The same rows in chunks of unknown sizes, one of them empty."""
    keep = da.from_array(np.ones(len(array), dtype=bool), chunks=array.chunks[0])
    found = array[keep]
    assert math.isnan(found.shape[0])
    return found


@pytest.mark.parametrize("model", METHODS, ids=str)
def test_fitted_as_on_one_machine(model):
    expected = _fit(model, X, Y).decision_function(TEST)
    rows = da.from_array(X, chunks=(41, X.shape[1]))
    labels = da.from_array(Y, chunks=50)
    _close(_fit(model, rows, labels).decision_function(TEST), expected)


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        Y.tolist(),
        da.from_array(Y, chunks=7),
        da.from_array(Y[:, None], chunks=(30, 1)),
        _unknown(da.from_array(Y, chunks=41)),
        da.from_array(Y.astype(object), chunks=100),
    ],
    ids=["array", "list", "chunks", "column", "unknown", "objects"],
)
@pytest.mark.parametrize("kind", ["columns", "unknown", "empty"])
def test_chunks_of_every_kind(kind, labels):
    rows = da.from_array(X, chunks=(41, X.shape[1]))
    if kind == "columns":
        rows = rows.rechunk((41, 3))
    elif kind == "unknown":
        rows = _unknown(rows)
        before = rows.chunks
    else:
        rows = da.from_array(X, chunks=((0, 60, 0, 228, 0), (X.shape[1],)))
        assert 0 in rows.chunks[0]
    found = _fit(GaussianEXEM(), rows, labels)
    _close(found.decision_function(TEST), _fit(GaussianEXEM(), X, Y).decision_function(TEST))
    if kind == "unknown":
        assert np.isnan(rows.chunks[0]).all(), "the array of the user was changed"
        assert rows.chunks[1] == before[1]


def test_weights():
    weights = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    rows = da.from_array(X, chunks=(41, -1))
    expected = _fit(ESZSL(), X, Y, sample_weight=weights).decision_function(TEST)
    for given in (weights, da.from_array(weights, chunks=10)):
        _close(_fit(ESZSL(), rows, Y, sample_weight=given).decision_function(TEST), expected)
    with pytest.raises(ValueError, match="one number per sample"):
        _fit(ESZSL(), rows, Y, sample_weight=weights[1:])
    expected = _fit(ESZSL(), X, Y, sample_weight=2.0).decision_function(TEST)
    _close(_fit(ESZSL(), rows, Y, sample_weight=2.0).decision_function(TEST), expected)


@pytest.mark.parametrize(
    "model",
    [ALE(max_iter=20), ConSE(), SynC(), EXEM(estimator=ESZSL()), CalibratedStacking(ESZSL())],
    ids=lambda model: type(model).__name__,
)
def test_every_method_scores_lazily(model):
    model = _fit(model, X, Y)
    computed = []

    def noted(block):
        if len(block):
            computed.append(len(block))
        return block

    test = da.from_array(TEST, chunks=(70, 4)).map_blocks(noted, meta=np.empty((0, 0)))
    some = DATA.unseen_classes[::-1]
    lazy = {
        "scores": model.decision_function(test),
        "of some": model.decision_function(test, classes=some),
        "labels": model.predict(test),
        "top": model.predict_top_k(test, 3, classes=some)[0],
        "top scores": model.predict_top_k(test, 3, classes=some)[1],
    }
    assert not computed, "something was computed before it was asked for"
    expected = {
        "scores": model.decision_function(TEST),
        "of some": model.decision_function(TEST, classes=some),
        "labels": model.predict(TEST),
        "top": model.predict_top_k(TEST, 3, classes=some)[0],
        "top scores": model.predict_top_k(TEST, 3, classes=some)[1],
    }
    for name, array in lazy.items():
        assert isinstance(array, da.Array), name
        assert array.shape == expected[name].shape, name
        found = array.compute()
        assert found.dtype == array.dtype, name
        if expected[name].dtype.kind == "f":
            _close(found, expected[name])
        else:
            assert same_choices(found, expected[name], model, TEST).all()


def test_probabilities_and_two_classes():
    model = _fit(GaussianEXEM(), X, Y)
    chances = model.predict_proba(da.from_array(TEST, chunks=(70, -1)))
    _close(chances.compute(), model.predict_proba(TEST))
    keep = np.isin(Y, DATA.seen_classes[:2])
    two = ESZSL().fit(X[keep], Y[keep])
    found = two.decision_function(da.from_array(X[keep], chunks=(9, -1)))
    assert found.shape == (keep.sum(),)
    _close(found.compute(), two.decision_function(X[keep]))


def test_labels_and_scores_are_computed_once_together():
    model = _fit(ESZSL(), X, Y)
    seen = []

    def noted(block):
        seen.append(len(block))
        return block

    test = da.from_array(TEST, chunks=(50, -1)).map_blocks(noted, meta=np.empty((0, 0)))
    dask.compute(*model.predict_top_k(test, 3))
    assert seen == [50, 50, 50]


def test_accuracies_are_merged_from_counts():
    model = _fit(ESZSL(), X, Y)
    rows = da.from_array(np.concatenate([DATA.X_test_seen, TEST]), chunks=(33, 4))
    y = np.concatenate([DATA.y_test_seen, DATA.y_test_unseen])
    top, _ = model.predict_top_k(rows.compute(), 5)
    for labels in (y, da.from_array(y, chunks=40)):
        found = evaluate(model, rows, labels, k=[1, 2, 5, 1000]).metrics
        assert found["n_samples"] == len(y)
        assert found["per_class_accuracy"] == pytest.approx(per_class_accuracy(y, top[:, 0]))
        assert found["flat_hit_at_5"] == pytest.approx(flat_hit_at_k(y, top, 5))
        assert "flat_hit_at_1000" not in found
        seen = np.isin(y, DATA.seen_classes)
        assert found["seen"] == pytest.approx(per_class_accuracy(y[seen], top[seen, 0]))
    with pytest.raises(ValueError, match="features on disk"):
        evaluate(model, rows, y, checkpoint="x")


def test_bad_input_is_said_clearly():
    rows = da.from_array(X, chunks=(41, -1))
    with pytest.raises(TypeError, match=r"ALE needs all rows in memory.*X\.compute\(\)"):
        _fit(ALE(), rows, Y)
    with pytest.raises(TypeError, match="CalibratedStacking needs all rows in memory"):
        _fit(CalibratedStacking(ESZSL()), rows, Y)
    with pytest.raises(ValueError, match="requires y"):
        _fit(ESZSL(), rows, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: X has 288, y has 287"):
        _fit(ESZSL(), rows, Y[1:])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        _fit(ESZSL(), rows, da.from_array(Y, chunks=10)[1:])
    with pytest.raises(ValueError, match="1d array"):
        _fit(ESZSL(), rows, da.from_array(np.stack([Y, Y], axis=1), chunks=10))
    with pytest.raises(ValueError, match="Expected 2D array"):
        _fit(ESZSL(), rows[:, 0], Y)
    with pytest.raises(ValueError, match="Complex data"):
        _fit(ESZSL(), rows + 1j, Y)
    with pytest.raises(ValueError, match="found 0 samples"):
        _fit(ESZSL(), rows[:0], Y[:0])
    with pytest.raises(ValueError, match="must be numeric"):
        _fit(ESZSL(), rows.astype(str), Y)
    model = _fit(ESZSL(), X, Y)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict(rows[:, :2])
    with pytest.raises(ValueError, match="unknown classes"):
        model.predict(rows, classes=["no such class"])
    with pytest.raises(ValueError, match="k must be between"):
        model.predict_top_k(rows, 0)


def test_partial_fit_goes_on_with_dask_arrays():
    model = EXEM(n_components=6)
    half = len(X) // 2
    model.partial_fit(X[:half], Y[:half], signatures=DATA.signatures)
    model.partial_fit(da.from_array(X[half:], chunks=(30, -1)), Y[half:])
    _close(model.decision_function(TEST), _fit(EXEM(n_components=6), X, Y).decision_function(TEST))


def test_pipelines_score_lazily_and_say_that_they_need_the_rows():
    pipeline = ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())])
    rows = da.from_array(X, chunks=(41, -1))
    with pytest.raises(TypeError, match="ZeroShotPipeline needs all rows in memory"):
        _fit(pipeline, rows, Y)
    model = _fit(pipeline, X, Y)
    test = da.from_array(TEST, chunks=(70, 4))
    assert same_choices(model.predict(test).compute(), model.predict(TEST), model, TEST).all()
