"""ONNX files: every estimator, and what onnxruntime makes of them."""

from __future__ import annotations

import json
import re
import sys
import warnings

import array_api_compat as compat
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from estimators import instances
from zslearn._utils._array import move_like
from zslearn.base import ZeroShotClassifier
from zslearn.baselines import ESZSL, GDA, SAE, CMTStar, LatEm, TipAdapter
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotPipeline
from zslearn.persistence import ExportError, export_onnx
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

onnx = pytest.importorskip("onnx")
pytest.importorskip("ndonnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=8, n_unseen=4, n_features=20, n_attributes=8, samples_per_class=8, random_state=3
    )


def _fit(estimator, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(data.X_train, data.y_train, signatures=data.signatures, **options)


def _run(path, X, names=("scores", "label")):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(list(names), {"X": np.asarray(X, dtype=np.float32)})


def _rows(data):
    return np.concatenate([data.X_test_seen, data.X_test_unseen]).astype(np.float32)


def _check_file(path, model, X):
    scores, labels = _run(path, X)
    expected = model.decision_function(X, classes=model.classes_)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, atol=2e-4 * scale, rtol=0)
    ordered = np.sort(expected, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-3 * scale
    assert clear.mean() > 0.5
    assert labels[clear].tolist() == model.predict(X)[clear].tolist()


# Settings of training alone, and tables, whose preparation is not exported.
LEARNED = re.compile(
    "signature_scale|loss=|penalize=|metric=|phantoms=|gamma=.learned|=gp|ExemplarMLP|"
    "targets=s|targets=c|placement=|TableClassifier"
)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [e for e in instances() if not LEARNED.search(e.id)])
def test_every_estimator(estimator, data, tmp_path):
    _check_export(estimator, data, tmp_path)


# One of each score, and of each kind of embedding.
@pytest.mark.parametrize(
    "estimator",
    [SynC(), EXEM(), GaussianEXEM(), LatEm(max_iter=2), CMTStar(max_iter=5), SAE()],
    ids=str,
)
def test_every_kind_of_method(estimator, data, tmp_path):
    _check_export(estimator, data, tmp_path)


def _check_export(estimator, data, tmp_path):
    model = _fit(clone(estimator), data)
    path = export_onnx(model, tmp_path / "model.onnx")
    # One row, and another number of rows than the check in the function had.
    for X in (_rows(data), _rows(data)[:1]):
        if len(X) > 1:
            _check_file(path, model, X)
        assert _run(path, X)[0].shape == (len(X), len(model.classes_))


def test_transformers_are_written_as_they_are(data, tmp_path):
    steps = [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        RobustScaler(with_centering=False, with_scaling=False),
        MinMaxScaler(feature_range=(-1, 2), clip=True),
        MaxAbsScaler(),
        Normalizer(),
        PCA(6),
        PCA(6, whiten=True),
        TruncatedSVD(6),
        "passthrough",
    ]
    for step in steps:
        pipeline = ZeroShotPipeline([("step", step), ("method", ESZSL())])
        model = _fit(CalibratedStacking(pipeline, bias=0.1), data)
        _check_file(export_onnx(model, tmp_path / "model.onnx"), model, _rows(data))


@pytest.mark.parametrize("wrapper", [GDA, TipAdapter])
def test_a_few_images_over_a_pipeline(wrapper, data, tmp_path):
    model = wrapper(ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())]))
    model = _fit(CalibratedStacking(model, bias=0.1), data)
    _check_file(export_onnx(model, tmp_path / "model.onnx"), model, _rows(data))


def test_a_plain_pipeline_of_scikit_learn(data, tmp_path):
    scaler = StandardScaler().fit(data.X_train)
    method = ESZSL().fit(scaler.transform(data.X_train), data.y_train, signatures=data.signatures)
    path = export_onnx(Pipeline([("a", scaler), ("b", method)]), tmp_path / "model.onnx")
    scores, _ = _run(path, _rows(data))
    expected = method.decision_function(scaler.transform(_rows(data)))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_step_that_is_not_written_is_named(data, tmp_path):
    model = _fit(ZeroShotPipeline([("odd", FunctionTransformer(np.tanh)), ("m", ESZSL())]), data)
    with pytest.raises(ExportError, match=r"ZeroShotPipeline\(ESZSL\).*FunctionTransformer"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class _Base(ZeroShotClassifier):
    """A method whose embedding is under test."""

    def __init__(self, feature_norm="l2", signature_scale="seen"):
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, training):
        self.matrix_ = np.linspace(-1, 1, 20 * 8).reshape(20, 8)

    def synthesize(self, signatures, labels=None):
        return np.asarray(signatures)


class _UsesNumPy(_Base):
    def embed(self, X):
        return np.tanh(X) @ self.matrix_


class _LooksAtNumbers(_Base):
    def embed(self, X):
        xp = compat.array_namespace(X)
        return (X if bool(xp.sum(X, axis=1) > 0) else -X) @ move_like(self.matrix_, X)


class _CountsRows(_Base):
    def embed(self, X):
        return X @ move_like(self.matrix_, X) * float(X.shape[0])


@pytest.mark.parametrize("method", [_UsesNumPy, _LooksAtNumbers, _CountsRows])
def test_what_cannot_be_written_is_said(method, data, tmp_path):
    model = _fit(method(), data)
    message = f"{method.__name__} cannot be exported to ONNX: .*array API standard"
    with pytest.raises(ExportError, match=message):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_scores_that_differ_are_refused(data, tmp_path, monkeypatch):
    model = _fit(ESZSL(), data)
    scores = model.decision_function
    monkeypatch.setattr(model, "decision_function", lambda X, **options: 2 * scores(X, **options))
    with pytest.raises(ExportError, match="scores differ from those of the model"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_numbers_that_are_not_finite_count_as_zero(data, tmp_path):
    model = _fit(ESZSL(), data)
    path = export_onnx(model, tmp_path / "model.onnx")
    X = _rows(data)[:3]
    X[0, :3], X[1, 0], X[2] = np.nan, np.inf, 0
    with pytest.warns(UserWarning, match="NaN or infinite"):
        expected = model.decision_function(X)
    np.testing.assert_allclose(_run(path, X)[0], expected, atol=1e-5)


def test_ties_and_labels_that_are_numbers(data, tmp_path):
    names = {label: i - 3 for i, label in enumerate(data.signatures.index)}
    y = np.asarray([names[label] for label in data.y_train])
    described = data.signatures.rename(index=names)
    # An unseen class with the signature of a seen one: on a tie the unseen one wins.
    described.loc[100] = described.loc[y[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CalibratedStacking(ESZSL(), bias=0.0).fit(data.X_train, y, signatures=described)
    path = export_onnx(model, tmp_path / "model.onnx")
    own = data.X_train[y == y[0]].astype(np.float32)
    labels = _run(path, own, ["label"])[0]
    assert labels.dtype == np.int64
    assert 100 in labels.tolist()
    assert labels.tolist() == model.predict(own).tolist()


def test_metadata_and_probabilities(data, tmp_path):
    model = _fit(CalibratedStacking(EXEM(6), bias=0.2, temperature=0.3), data)
    path = export_onnx(model, tmp_path / "new folder" / "model.onnx")
    props = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert json.loads(props["classes"]) == model.classes_.tolist()
    seen = [label in model.seen_classes_ for label in model.classes_]
    assert json.loads(props["seen"]) == seen
    assert props["method"] == "CalibratedStacking(EXEM)"
    (chances,) = _run(path, _rows(data), ["probabilities"])
    np.testing.assert_allclose(chances, model.predict_proba(_rows(data)), atol=1e-4)


@pytest.mark.parametrize("statistic", ["max", "margin", "probability"])
def test_none_of_these(statistic, data, tmp_path):
    model = NoneOfThese(ESZSL(), statistic=statistic, false_alarm_rate=0.4, cv=3)
    model = _fit(model, data)
    labels = _run(export_onnx(model, tmp_path / "model.onnx"), _rows(data))[1]
    expected = model.predict(_rows(data))
    assert 0.1 < (expected == "none of these").mean() < 0.9
    # A row that lies on the threshold may fall to either side.
    assert (labels == expected).mean() > 0.98


def test_none_label_must_be_a_label(data, tmp_path):
    model = _fit(NoneOfThese(ESZSL(), none_label=None, cv=3), data)
    with pytest.raises(ExportError, match="none_label is None"):
        export_onnx(model, tmp_path / "model.onnx")


def test_what_is_no_model(tmp_path):
    with pytest.raises(TypeError, match="fitted zero-shot estimator"):
        export_onnx(StandardScaler(), tmp_path / "x.onnx")
    with pytest.raises(Exception, match="not fitted"):
        export_onnx(ESZSL(), tmp_path / "x.onnx")
    with pytest.raises(TypeError, match="zero-shot estimator"):
        export_onnx(make_pipeline(StandardScaler(), PCA()), tmp_path / "x.onnx")


def test_missing_package_names_the_extra(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ndonnx", None)
    with pytest.raises(ImportError, match=r"zslearn\[onnx\]"):
        export_onnx(_fit(ESZSL(), data), tmp_path / "x.onnx")
