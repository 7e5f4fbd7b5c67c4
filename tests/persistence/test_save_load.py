"""Loaded models equal the saved ones: labels, parts of scikit-learn, `about` and extras."""

from __future__ import annotations

import copy
import mmap
import multiprocessing
import os
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, SVR

import zslearn
from zslearn import persistence
from zslearn.baselines import ESZSL, HAT
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.metrics import per_class_accuracy
from zslearn.model_selection import ClassKFold, ZeroShotPipeline, ZeroShotSearchCV
from zslearn.networks import GeneratedFeatures
from zslearn.persistence import CannotSaveError
from zslearn.signatures import cluster_hierarchy
from zslearn.synthesis import EXEM, SynC

DATA = make_zero_shot(
    n_seen=6, n_unseen=3, n_features=7, n_attributes=5, samples_per_class=8, random_state=2
)
X = DATA.X_test_unseen


def fit(model, **options):
    return model.fit(DATA.X_train, DATA.y_train, **{"signatures": DATA.signatures, **options})


def again(model, path, **options):
    zslearn.save(model, path, **options)
    return zslearn.load(path)


def assert_same(loaded, model, rows=X):
    assert type(loaded) is type(model)
    assert np.array_equal(loaded.decision_function(rows), model.decision_function(rows))
    assert loaded.predict(rows).tolist() == model.predict(rows).tolist()
    for a, b in zip(loaded.predict_top_k(rows, k=3), model.predict_top_k(rows, k=3), strict=True):
        assert np.array_equal(a, b)
    if hasattr(model, "predict_proba"):
        assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.zsl"


def test_any_reader_of_safetensors_reads_it(path):
    model = fit(ESZSL())
    zslearn.save(model, path)
    arrays = load_file(path)
    assert any(np.array_equal(array, model.coef_) for array in arrays.values())
    with safe_open(path, "np") as file:
        assert set(file.metadata()) == {"zslearn"}
        assert set(file.keys()) == set(persistence.describe(path)["arrays"])


LABELS = [
    ["__metadata__", "../../x", "", "a" * 3000, "é", "e\u0301x", "日本", "\x1b[2J", "a\nb"],
    [-5, 3, 2**40, 7, 8, 9, 10, 11, 12],
    [f"{i}" * (i + 1) for i in range(9)],
]


@pytest.mark.parametrize(
    "model",
    [
        ZeroShotPipeline([("a", SimpleImputer()), ("b", PCA(4)), ("method", ESZSL())]),
        ZeroShotPipeline([("a", PowerTransformer()), ("method", SynC())]),
        ZeroShotPipeline([("a", QuantileTransformer(n_quantiles=10)), ("method", ESZSL())]),
        CalibratedStacking(make_pipeline(StandardScaler(), ESZSL()), temperature="cv", cv=2),
        ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0]}, cv=ClassKFold(2)),
        ZeroShotSearchCV(
            make_pipeline(StandardScaler(), CalibratedStacking(ESZSL(), bias=0.5)),
            {"calibratedstacking__estimator__alpha_features": [1.0, 10.0]},
            setting="gzsl",
            cv=2,
            temperature=2.0,
        ),
        EXEM(n_components=3, estimator=EXEM(n_components=2)),
        EXEM(n_components=3, regressor=Ridge()),
        EXEM(n_components=3, regressor=make_pipeline(StandardScaler(), Ridge())),
        EXEM(n_components=3, regressor=GaussianProcessRegressor()),
        HAT(hierarchy=cluster_hierarchy(DATA.signatures)),
        ESZSL(alpha_features=np.float32(2.0)),
        SynC(loss="struct", random_state=np.random.RandomState(3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_wrappers_and_parts_of_scikit_learn(path, model):
    model = fit(model)
    loaded = again(model, path)
    assert_same(loaded, model)
    new = pd.DataFrame([DATA.signatures.mean()], index=["new"])
    if isinstance(model, HAT):
        return
    assert_same(loaded.add_classes(new), model.add_classes(new))


def test_statistics_that_further_samples_add_to(path):
    half = len(DATA.y_train) // 2
    order = np.random.default_rng(0).permutation(len(DATA.y_train))
    rows, rest = order[:half], order[half:]
    model = EXEM(n_components=3).partial_fit(
        DATA.X_train[rows],
        DATA.y_train[rows],
        signatures=DATA.signatures,
    )
    loaded = again(model, path)
    for each in (model, loaded):
        each.partial_fit(DATA.X_train[rest], DATA.y_train[rest])
    assert_same(loaded, model)


def test_a_loaded_search_says_what_it_found_and_can_be_fitted_again(path):
    search = fit(ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0]}, cv=2))
    loaded = again(search, path)
    assert loaded.best_params_ == search.best_params_
    assert loaded.get_params(deep=False).keys() == search.get_params(deep=False).keys()
    pd.testing.assert_frame_equal(
        pd.DataFrame(loaded.cv_results_), pd.DataFrame(search.cv_results_)
    )
    assert isinstance(loaded.cv_results_["param_alpha_features"], np.ma.MaskedArray)
    assert_same(fit(loaded), fit(search))


def test_functions_of_the_library_and_registered_ones(path):
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0]}, cv=2, scoring=_accuracy)
    fit(search)
    with pytest.raises(CannotSaveError, match=r"ZeroShotSearchCV\.scoring is the function .*_accu"):
        zslearn.save(search, path)
    assert not path.exists()
    persistence.register(_accuracy, name="tests.accuracy")
    loaded = again(search, path)
    assert loaded.scoring is _accuracy


def _accuracy(estimator, rows, y, classes):
    return per_class_accuracy(y, estimator.predict(rows, classes=classes))


class Mine(ESZSL):
    """A method from elsewhere."""


def test_a_class_from_elsewhere_is_registered_by_its_user(path):
    model = fit(Mine())
    with pytest.raises(CannotSaveError, match=r"Mine, which model files cannot contain.*register"):
        zslearn.save(model, path)
    persistence.register(Mine, name="tests.Mine")
    assert_same(again(model, path), model)
    for wrong in (3, ESZSL()):
        with pytest.raises(TypeError, match="class or a function"):
            persistence.register(wrong)
    with pytest.raises(ValueError, match="is reserved"):
        persistence.register(Mine, name="zslearn.baselines.ESZSL")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            EXEM(n_components=3, regressor=KNeighborsRegressor(1)),
            r"EXEM\.regressor is an instance of sklearn\.\S+KNeighborsRegressor, which model files "
            r"cannot contain\. Of scikit-learn they support PCA, .*StandardScaler\. Use one of "
            r"these",
        ),
        (EXEM(n_components=3, regressor=MultiOutputRegressor(SVR())), "MultiOutputRegressor"),
        (
            ZeroShotPipeline([("a", FunctionTransformer(np.tanh)), ("method", ESZSL())]),
            "FunctionTransformer",
        ),
    ],
    ids=["neighbours", "machines", "function"],
)
def test_what_no_file_can_hold_is_named(path, model, message):
    path.write_text("before")
    with pytest.raises(CannotSaveError, match=message):
        zslearn.save(fit(model), path)
    assert path.read_text() == "before"


def test_only_fitted_zero_shot_estimators(path):
    with pytest.raises(TypeError, match="zero-shot estimator; got SVC"):
        zslearn.save(SVC(), path)
    with pytest.raises(TypeError, match="ZeroShotPipeline"):
        zslearn.save(make_pipeline(StandardScaler(), ESZSL()), path)
    with pytest.raises(NotFittedError):
        zslearn.save(ESZSL(), path)
    model = fit(ESZSL())
    model.set_params(alpha_features=-1.0)
    with pytest.raises(CannotSaveError, match="alpha_features"):
        zslearn.save(model, path)
    model.set_params(alpha_features=1.0).loop = model
    with pytest.raises(CannotSaveError, match=r"ESZSL\.loop contains itself"):
        zslearn.save(model, path)


def test_what_is_shared_is_written_once_and_shared_again(path):
    model = fit(ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())]))
    loaded = again(model, path)
    assert loaded.transformers_.steps[0][1] is loaded.steps[0][1]
    big = np.zeros((1000, 100))
    zslearn.save(model, path, extras={"a": big, "b": big})
    assert path.stat().st_size < 1.5 * big.nbytes
    extras = persistence.read_model(path).extras
    assert extras["a"] is extras["b"]


def test_what_travels_beside_a_model(path):
    extras = {
        "rows": DATA.X_train.astype(np.float32),
        "../names": np.array(["a", "bb"]),
        "objects": np.array(["a", None], dtype=object),
        "half": np.array([0.5], dtype=np.float16),
        "empty": np.empty((0, 3)),
        "nothing": np.array([], dtype="U4"),
        "number": np.array(3),
        "nan": np.array([np.nan, np.inf]),
        "big-endian": np.arange(3, dtype=">i4"),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "times": np.array([True, False]),
    }
    about = {"backbone": "none", "sizes": (1, 2), "share": np.float64(0.5), "names": {"a": None}}
    zslearn.save(fit(ESZSL()), path, about=about, extras=extras)
    file = persistence.read_model(path)
    assert file.about == {"backbone": "none", "sizes": [1, 2], "share": 0.5, "names": {"a": None}}
    assert list(file.extras) == list(extras)
    for name, array in extras.items():
        assert file.extras[name].dtype == array.dtype.newbyteorder("=")
        assert np.array_equal(file.extras[name], array, equal_nan=array.dtype.kind == "f")
    assert file.extras["columns"].flags.f_contiguous
    assert file.header == persistence.describe(path)
    assert file.header["extras"] == list(extras)
    assert file.header["about"] == file.about


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"about": {"x": float("nan")}}, ValueError, "about cannot be .*not JSON compliant"),
        ({"about": {"x": [object()]}}, TypeError, "about .*type object.*extras="),
        ({"about": [1]}, TypeError, "mapping"),
        ({"extras": {3: np.zeros(3)}}, TypeError, "extras"),
        ({"extras": {"x": np.zeros(3, "M8[s]")}}, CannotSaveError, "datetime64"),
        ({"extras": {"x": np.zeros(3, np.longdouble)}}, CannotSaveError, "longdouble|float128"),
    ],
)
def test_what_cannot_travel_is_named(path, options, kind, message):
    with pytest.raises(kind, match=message):
        zslearn.save(fit(ESZSL()), path, **options)
    assert not path.exists()


def test_a_header_is_read_without_the_arrays(path):
    model = fit(CalibratedStacking(ESZSL(alpha_features=3.0), bias=0.5))
    zslearn.save(model, path, about={"backbone": "x"})
    header = persistence.describe(path)
    assert header["method"] == "zslearn.calibration.CalibratedStacking"
    assert header["parameters"]["estimator"]["parameters"]["alpha_features"] == 3.0
    assert header["parameters"]["bias"] == 0.5
    assert header["classes"] == model.classes_.tolist()
    assert header["seen_classes"] == model.seen_classes_.tolist()
    assert header["n_features"] == 7
    assert header["library_version"] == zslearn.__version__
    assert header["format_version"] >= 2
    assert len(header["sha256"]) == 64


def test_no_place_of_this_machine_is_in_a_file(path, tmp_path):
    folder = tmp_path / "cache-of-mine"
    steps = [("scale", StandardScaler()), ("method", ESZSL())]
    pipeline = ZeroShotPipeline(steps, memory=str(folder))
    search = ZeroShotSearchCV(pipeline, {"method__alpha_features": [1.0]}, checkpoint=folder)
    loaded = again(fit(search), path)
    assert loaded.checkpoint is None
    assert loaded.estimator_.memory is None
    assert b"cache-of-mine" not in path.read_bytes()
    assert search.checkpoint == folder


def test_the_same_model_is_the_same_file(path, tmp_path):
    other = tmp_path / "other.zsl"
    model = fit(HAT(hierarchy=cluster_hierarchy(DATA.signatures)))
    zslearn.save(model, path)
    zslearn.save(zslearn.load(path), other)
    assert path.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_a_model_of_tensors(path):
    torch = pytest.importorskip("torch")
    for method in (ESZSL(), EXEM(n_components=3), GeneratedFeatures(n_generated=5)):
        model = method.fit(torch.asarray(DATA.X_train), DATA.y_train, signatures=DATA.signatures)
        plain = again(model, path)
        scores = model.decision_function(torch.asarray(X))
        assert isinstance(plain.class_scorer_.parameters, np.ndarray)
        np.testing.assert_allclose(plain.decision_function(X), scores.numpy(), rtol=1e-9, atol=1e-9)
        tensors = zslearn.load(path, device="cpu")
        assert torch.equal(tensors.decision_function(torch.asarray(X)), scores)
        kind = type(model.class_scorer_.parameters)
        assert isinstance(tensors.class_scorer_.parameters, kind)
        new = pd.DataFrame([DATA.signatures.mean()], index=["new"])
        a, b = (m.add_classes(new).decision_function(torch.asarray(X)) for m in (tensors, model))
        assert torch.equal(a, b)


# Files are whole or not there, whatever happens while they are written.


def test_classes_are_added_while_a_model_is_saved(path):
    model = fit(EXEM(n_components=3))
    new = pd.DataFrame(np.random.default_rng(0).random((60, 5)), columns=DATA.signatures.columns)

    def add():
        for i in range(60):
            model.add_classes(new.iloc[[i]].set_axis([f"new {i}"]))

    thread = threading.Thread(target=add)
    thread.start()
    numbers = []
    while thread.is_alive():
        numbers.append(len(again(model, path).classes_))
    thread.join()
    assert numbers == sorted(numbers)
    assert len(again(model, path).classes_) == 9 + 60


def _save_for_ever(path, started):
    model = fit(ESZSL())
    while True:
        zslearn.save(model, path, extras={"x": np.random.default_rng().standard_normal((300, 300))})
        started.set()


@pytest.mark.slow
def test_a_kill_in_the_middle_leaves_a_whole_file(path):
    context = multiprocessing.get_context("fork")
    for delay in (0.001, 0.004, 0.013):
        started = context.Event()
        process = context.Process(target=_save_for_ever, args=(path, started))
        process.start()
        started.wait(30)
        time.sleep(delay)
        process.kill()
        process.join()
        assert zslearn.load(path).predict(X).shape == (len(X),)


def test_an_error_in_the_middle_leaves_the_old_file(path, monkeypatch):
    model = fit(ESZSL())
    zslearn.save(model, path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        zslearn.save(model, path, about={"x": 1})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("labels", ["strings", "integers"])
@pytest.mark.parametrize("verify", [True, False])
def test_large_models_are_mapped_and_opened_without_reading(labels, verify, tmp_path, monkeypatch):
    monkeypatch.setattr("zslearn.persistence._container._MIN_MAPPED", 1)
    monkeypatch.setattr("zslearn.persistence._model_files._MAX_LISTED", 3)
    signatures, y = DATA.signatures, DATA.y_train
    if labels == "integers":
        number = {label: i for i, label in enumerate(signatures.index)}
        signatures, y = signatures.rename(index=number), np.asarray([number[label] for label in y])
    model = CalibratedStacking(EXEM(), bias=0.1).fit(DATA.X_train, y, signatures=signatures)
    new = -1 if labels == "integers" else "a new one"
    model.add_classes({new: signatures.iloc[0] + signatures.iloc[1]})
    path = tmp_path / "mapped.zsl"
    persistence.save(model, path)
    assert persistence.describe(path)["classes"] == model.classes_.tolist()
    loaded = persistence.load(path, verify=verify)
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    X = DATA.X_test_unseen
    np.testing.assert_allclose(
        loaded.decision_function(X), model.decision_function(X), rtol=1e-12, atol=1e-12
    )
    head = loaded.estimator_.class_scorer_.parameters
    while head.base is not None and isinstance(head.base, np.ndarray):
        head = head.base
    assert isinstance(head.base, memoryview | mmap.mmap)
    # A loaded model can be changed, and its file replaced.
    loaded.remove_classes([new])
    assert new not in loaded.classes_
    persistence.save(loaded, path)
    assert new not in persistence.load(path).classes_
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(persistence.ModelFileError, match="checksum"):
        persistence.load(path)


@pytest.mark.parametrize("write", [pickle.dumps, copy.deepcopy, "save"])
def test_a_saved_model_keeps_no_copy_of_its_classes(write, path):
    rng = np.random.default_rng(0)
    many = rng.standard_normal((10_000, DATA.signatures.shape[1]))
    more = pd.DataFrame(many, [f"class {i}" for i in range(100, 10_100)], DATA.signatures.columns)
    model = fit(ESZSL(), signatures=pd.concat([DATA.signatures, more]))
    model.add_classes({"new": DATA.signatures.sum()}).predict(X)
    head = model.class_scorer_.parameters.nbytes
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    _ = zslearn.save(model, path) if write == "save" else write(model) and None
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept < head / 2


@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_is_replaced_while_it_is_opened(verify, path, monkeypatch):
    old, new = fit(ESZSL()), fit(ESZSL(alpha_features=100.0))
    new.remove_classes(new.unseen_classes_[:1]).add_classes({"other": DATA.signatures.sum()})
    head = old.class_scorer_.parameters
    monkeypatch.setattr("zslearn.persistence._container._MIN_MAPPED", head.nbytes)
    zslearn.save(old, path)
    successors = [new]

    def open_and_replace(*args, **options):
        opened = safe_open(*args, **options)
        if successors:
            zslearn.save(successors.pop(), path)
        return opened

    monkeypatch.setattr("zslearn.persistence._container.safe_open", open_and_replace)
    loaded = zslearn.load(path, verify=verify)
    assert loaded.classes_.tolist() == new.classes_.tolist()
    assert_same(loaded, new)
