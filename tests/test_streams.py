"""Methods fit and score features on disk as they do in memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from zslearn.base import InputWarning
from zslearn.base.checks._problem import same_choices
from zslearn.baselines import ALE, CCA, ESZSL, GFZSL, SAE
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import EXEM, GaussianEXEM

#: All that learn from sums, in settings that ask for different ones.
METHODS = [
    ESZSL(),
    ESZSL(center=None),
    SAE(),
    SAE(alpha_reduction=5.0, center="both"),
    GFZSL(),
    GFZSL(covariance="class"),
    GFZSL(covariance="class", n_components=8),
    CCA(),
    EXEM(),
    EXEM(n_components=None, distance="standardized"),
    EXEM(n_components=6, distance="standardized"),
    GaussianEXEM(),
    GaussianEXEM(n_components=8),
]
DATA = make_zero_shot(n_seen=12, random_state=0)
TEST = DATA.X_test_unseen


def _blocks(X=DATA.X_train, y=DATA.y_train, rows=37):
    return FeatureBlocks(X, y, block_bytes=rows * X.shape[1] * X.dtype.itemsize)


def _rows(X):
    return FeatureBlocks(X, block_bytes=13 * X.shape[1] * X.dtype.itemsize)


def _fit(model, X, y, **options):
    return model.fit(X, y, signatures=DATA.signatures, **options)


def _close(found, expected, tolerance=1e-10):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("model", METHODS, ids=str)
def test_fitted_from_blocks_as_in_memory(model):
    # Samples for the temperature are kept in single precision.
    tolerance = 1e-6 if isinstance(model, GaussianEXEM) else 1e-10
    expected = _fit(model, DATA.X_train, DATA.y_train).decision_function(TEST)
    _close(_fit(model, _blocks(), None).decision_function(TEST), expected, tolerance)
    # Labels given apart are taken in the place of those of the files.
    upside_down = _blocks(y=DATA.y_train[::-1])
    _close(_fit(model, upside_down, DATA.y_train).decision_function(TEST), expected, tolerance)


@pytest.mark.parametrize("model", METHODS, ids=str)
def test_weights(model):
    weights = np.random.default_rng(0).integers(0, 3, len(DATA.y_train)).astype(float)
    expected = _fit(model, DATA.X_train, DATA.y_train, sample_weight=weights)
    found = _fit(model, _blocks(), None, sample_weight=weights)
    _close(found.decision_function(TEST), expected.decision_function(TEST))


def test_more_samples_than_a_temperature_is_found_from():
    data = make_zero_shot(n_seen=12, samples_per_class=1100, random_state=0)
    assert len(data.X_train) > 10_000
    model = GaussianEXEM()
    expected = model.fit(data.X_train, data.y_train, signatures=data.signatures).temperature_
    blocks = _blocks(data.X_train, data.y_train, rows=101)
    found = model.fit(blocks, None, signatures=data.signatures).temperature_
    assert found == pytest.approx(expected, rel=1e-5)


def test_everything_is_predicted_from_blocks():
    model = _fit(GaussianEXEM(), DATA.X_train, DATA.y_train)
    test = _rows(TEST)
    some = DATA.unseen_classes[::-1]
    for classes in (None, some):
        _close(
            model.decision_function(test, classes=classes),
            model.decision_function(TEST, classes=classes),
        )
        _close(
            model.predict_proba(test, classes=classes), model.predict_proba(TEST, classes=classes)
        )
        labels, scores = model.predict_top_k(test, 3, classes=classes)
        expected = model.predict_top_k(TEST, 3, classes=classes)
        assert same_choices(labels, expected[0], model, TEST).all()
        _close(scores, expected[1])
        chances = model.predict_top_k(test, 3, classes=classes, proba=True)[1]
        _close(chances, model.predict_top_k(TEST, 3, classes=classes, proba=True)[1])
        assert same_choices(
            model.predict(test, classes=classes), expected[0][:, 0], model, TEST
        ).all()
    y = DATA.y_test_unseen
    expected = model.score(TEST, y, classes=some)
    assert model.score(test, y, classes=some) == pytest.approx(expected, abs=1e-12)


def test_wrappers_predict_blocks():
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0]}, setting="gzsl", cv=3)
    search = _fit(search, DATA.X_train, DATA.y_train)
    assert same_choices(search.predict(_rows(TEST)), search.predict(TEST), search, TEST).all()


@pytest.mark.parametrize(
    "model",
    [
        ALE(),
        EXEM(estimator=ESZSL()),
        CalibratedStacking(ESZSL()),
        ZeroShotSearchCV(ESZSL(), "fast"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_others_say_that_they_need_the_rows(model):
    with pytest.raises(TypeError, match="memory"):
        _fit(model, _blocks(), None)


def test_one_grid_from_one_pass():
    class Counted(FeatureBlocks):
        passes = 0

        def blocks(self, start=0):
            self.passes += 1
            return super().blocks(start)

    blocks = Counted(DATA.X_train, DATA.y_train, block_bytes=5000)
    settings = [{"alpha_features": 10.0**k} for k in range(4)]
    fitted = dict(ESZSL().fit_grid(blocks, None, signatures=DATA.signatures, settings=settings))
    assert blocks.passes == 1
    for index, setting in enumerate(settings):
        alone = _fit(ESZSL(**setting), DATA.X_train, DATA.y_train)
        _close(fitted[index].decision_function(TEST), alone.decision_function(TEST))
    EXEM().fit(blocks, None, signatures=DATA.signatures)
    assert blocks.passes == 2


@pytest.mark.parametrize("distance", ["euclidean", "standardized"])
def test_partial_fit_of_blocks(distance):
    half = len(DATA.X_train) // 2
    model = EXEM(n_components=6, distance=distance)
    parts = [(DATA.X_train[:half], DATA.y_train[:half]), (DATA.X_train[half:], DATA.y_train[half:])]
    expected = _fit(model, DATA.X_train, DATA.y_train).decision_function(TEST)
    chunked = EXEM(n_components=6, distance=distance)
    for X, y in parts:
        chunked.partial_fit(_blocks(X, y), None, signatures=DATA.signatures)
    _close(chunked.decision_function(TEST), expected)


def test_what_is_not_finite_counts_as_zero_where_it_is_let_through():
    X = DATA.X_train.copy()
    X[5, 2], X[70, 0] = np.nan, np.inf
    with pytest.warns(InputWarning, match="contains 2 NaN"):
        expected = _fit(ESZSL(), X, DATA.y_train).decision_function(TEST)
    blocks = FeatureBlocks(X, DATA.y_train, block_bytes=3000, allow_nan=True)
    with pytest.warns(InputWarning, match="contains 2 NaN"):
        found = _fit(ESZSL(), blocks, None)
    _close(found.decision_function(TEST), expected)
    with pytest.raises(ValueError, match="NaN or infinity"):
        _fit(ESZSL(feature_norm=None), blocks, None)
    with pytest.raises(ValueError, match="row 5 contains NaN"):
        _fit(ESZSL(), _blocks(X), None)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_features_that_cannot_be_computed_with(scale):
    with pytest.raises(ValueError, match="its square overflows"):
        _fit(ESZSL(feature_norm=None), _blocks(DATA.X_train * scale), None)


def test_bad_input_is_said_clearly():
    with pytest.raises(ValueError, match="X has no labels"):
        _fit(ESZSL(), _blocks(y=None), None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        _fit(ESZSL(), _blocks(), DATA.y_train[:-1])
    with pytest.raises(ValueError, match="only one class"):
        _fit(ESZSL(), _blocks(), np.full(len(DATA.y_train), DATA.seen_classes[0]))
    with pytest.raises(ValueError, match="Unknown label type"):
        ESZSL().fit(_blocks(), np.linspace(0, 1, len(DATA.y_train)))
    mixed = DATA.y_train.astype(object)
    mixed[40:] = 3
    with pytest.raises(ValueError, match="strings"):
        _fit(ESZSL(), _blocks(), mixed)
    model = _fit(ESZSL(), DATA.X_train, DATA.y_train)
    with pytest.raises(ValueError, match=r"X has 3 features, but ESZSL is expecting \d+"):
        model.predict(_rows(TEST[:, :3]))
    with pytest.raises(ValueError, match="k must be between 1"):
        model.predict_top_k(_rows(TEST), 1000)
    with pytest.raises(ValueError, match="unknown classes"):
        model.predict(_rows(TEST), classes=["no such class"])
    with pytest.raises(ValueError, match="not in classes"):
        model.score(_rows(TEST), DATA.y_test_unseen, classes=DATA.unseen_classes[:2])


def test_after_an_error_the_model_is_as_it_was():
    model = _fit(ESZSL(), DATA.X_train, DATA.y_train)
    expected = model.decision_function(TEST)
    bad = DATA.X_train.copy()
    bad[-1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        _fit(model, _blocks(bad), None)
    assert np.array_equal(model.decision_function(TEST), expected)


# Memory

SMALL_MACHINE = """
import resource, sys
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from zslearn.baselines import ESZSL
from zslearn.datasets import FeatureBlocks
from zslearn.experiments import evaluate, write_top_k
from zslearn.synthesis import EXEM

folder = sys.argv[1]
signatures = pd.DataFrame(np.random.default_rng(0).standard_normal((20, 5)))
few = FeatureBlocks(np.random.default_rng(0).standard_normal((100, 128)), np.arange(100) % 20)
for method in (ESZSL(), EXEM(n_components=10, tol=1e-3)):
    method.fit(few, None, signatures=signatures)  # all that is loaded once is loaded

taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 96 * 2**20,) * 2)
X = FeatureBlocks.open(
    folder + "/X.npy", labels=folder + "/y.npy", block_bytes=2**21
)
try:
    np.empty(X.shape, dtype=np.float32).fill(1)
except MemoryError:
    print("limited")
model = EXEM(n_components=10, tol=1e-3).fit(X, None, signatures=signatures)
model = ESZSL().fit(X, None, signatures=signatures)
print(round(evaluate(model, X, k=[1]).metrics["per_sample_accuracy"], 3))
out = write_top_k(model, X, folder + "/out", k=3)
print(sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of address space")
def test_files_larger_than_memory_are_fitted_and_scored(tmp_path):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(20), 1000)
    X = (rng.standard_normal((20, 128))[y] + rng.standard_normal((len(y), 128))).astype(np.float32)
    shape = (15 * len(y), 128)  # 154 MB, and 96 MiB are left to the process
    file = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=shape)
    for part in range(15):
        file[part * len(y) : (part + 1) * len(y)] = X
    file.flush()
    del file
    np.save(tmp_path / "y.npy", np.tile(y, 15))
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SMALL_MACHINE), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    limited, accuracy, written = run.stdout.splitlines()
    assert limited == "limited"
    assert float(accuracy) > 0.8
    assert written == "300000"
