"""Memory that fitting needs beyond the given rows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from zslearn._scoring._embedding import PreparedRows
from zslearn.baselines import (
    ALE,
    CCA,
    CMT,
    COSTA,
    DAP,
    ESZSL,
    GFZSL,
    HAT,
    IAP,
    SAE,
    SJE,
    SSE,
    BiDiLEL,
    CMTStar,
    ConSE,
    DeViSE,
    LatEm,
)
from zslearn.synthesis import EXEM, ClassStatistics, GaussianEXEM, SynC


@pytest.fixture(scope="module")
def many_rows():
    """Rows of 25 MB; blocks and tables of features by features are small beside them."""
    rng = np.random.default_rng(0)
    n_classes, n_features = 12, 256
    y = np.arange(24_000) % n_classes
    signatures = rng.standard_normal((n_classes + 3, 6))
    means = signatures @ rng.standard_normal((6, n_features))
    X = rng.standard_normal((len(y), n_features), dtype=np.float32)
    X += means[y].astype(np.float32)
    return X, y, pd.DataFrame(signatures)


def _peak(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Memory that fitting may need beyond the rows, as a share of theirs.
METHODS = [
    (EXEM(n_components=8, tol=1e-2), 0.5),
    (EXEM(n_components=8, tol=1e-2, distance="standardized"), 0.5),
    (GaussianEXEM(), 0.6),
    (ESZSL(), 0.5),
    (SAE(), 0.5),
    (CCA(), 0.5),
    (COSTA(), 0.5),
    (GFZSL(), 0.5),
    (HAT("cluster"), 0.5),
    # All samples of one class, and their distances, in double precision.
    pytest.param(BiDiLEL(), 0.7, marks=pytest.mark.slow),
    (SynC(tol=0.5), 0.5),
    (SynC("cs", tol=0.5), 0.5),
    (SynC("struct", tol=0.5), 0.5),
    pytest.param(ConSE(tol=0.1), 0.5, marks=pytest.mark.slow),
    pytest.param(IAP(tol=0.1), 0.5, marks=pytest.mark.slow),
    (ALE(max_iter=1), 0.5),
    (SJE(max_iter=1), 0.5),
    (DeViSE(max_iter=1), 0.5),
    # Ten pairs of steps and gradients that L-BFGS remembers, and what it works with.
    (CMT(max_iter=2), 0.5),
    (CMTStar(max_iter=2), 0.5),
    (LatEm(max_iter=1), 0.5),
    (DAP(tol=0.1), 0.5),
    (SSE(max_iter=1, n_jobs=1), 0.5),
    (EXEM(n_components=8, tol=1e-2, estimator=ESZSL()), 0.5),
    (EXEM(n_components=8, tol=1e-2, estimator=SynC("cs", tol=0.5)), 0.5),
]


@pytest.mark.parametrize(("model", "share"), METHODS, ids=lambda value: str(value)[:40])
def test_peak_of_fit(model, share, many_rows, monkeypatch, block_bytes):
    X, y, signatures = many_rows
    block_bytes(1 << 21)
    monkeypatch.setattr("zslearn._solvers.svm._squared_hinge._TABLE_BYTES", 1 << 21)
    model.fit(X[:200], y[:200], signatures=signatures)  # what is compiled takes memory, too
    peak = _peak(lambda: model.fit(X, y, signatures=signatures))
    # Labels and codes of samples, 8 bytes each, are there besides.
    assert peak < share * X.nbytes + 4 * y.nbytes


@pytest.mark.parametrize(
    "model",
    [DAP(tol=0.1), CMT(50, max_iter=2), LatEm(max_iter=1), SSE(max_iter=1, n_jobs=1), ESZSL()],
    ids=lambda value: str(value)[:40],
)
def test_peak_of_fit_in_double_precision(model, many_rows, block_bytes):
    """Rows that are given in float64 are copied neither whole nor in single precision."""
    X, y, signatures = many_rows
    X, y = X[::2].astype(np.float64), y[::2]
    block_bytes(1 << 21)
    model.fit(X[:200], y[:200], signatures=signatures)
    peak = _peak(lambda: model.fit(X, y, signatures=signatures))
    assert peak < 0.5 * X.nbytes + 4 * y.nbytes


LAZY = [
    DAP(),
    DAP(calibration=None, alpha=1e-6),
    SSE(max_iter=2),
    SynC(),
    SynC("cs", random_state=0),
    SynC(penalize="v", n_phantoms=6, random_state=0),
    SynC(alpha=1e-6),
    ConSE(),
    IAP(),
    ALE(max_iter=3),
    SJE(max_iter=3, scaling="zscore"),
    DeViSE(max_iter=3, scaling=None),
    LatEm(max_iter=3),
    CMT(max_iter=5),
    CMTStar(max_iter=5, threshold="common"),
    HAT("cluster"),
    BiDiLEL(),
    EXEM(n_components=8, estimator=SynC()),
]


@pytest.mark.parametrize("model", LAZY, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_rows_that_are_prepared_as_they_are_read(model, dtype, many_rows, block_bytes):
    X, y, signatures = many_rows
    X, y = X[:1000].astype(dtype), y[:1000]
    models = []
    for budget in (1 << 30, 1 << 16):
        block_bytes(budget)
        models.append(clone(model).fit(X, y, signatures=signatures))
    held, read = (model.decision_function(X[:200]) for model in models)
    # As near as the two ways to a softmax, or to a machine, end to their optimum.
    scale = np.abs(held).max()
    np.testing.assert_allclose(read / scale, held / scale, atol=2e-3)
    assert np.corrcoef(read.ravel(), held.ravel())[0, 1] > 0.99999
    assert (read.argmax(axis=1) == held.argmax(axis=1)).mean() > 0.99


def test_rows_of_some_classes_hold_no_copy(many_rows, block_bytes):
    X, y, _ = many_rows
    block_bytes(1 << 18)
    rows = PreparedRows(X, "l2")
    rows.check()
    expected = rows.whole()
    some = np.flatnonzero(y < 5)
    chosen = rows.chosen(some).chosen(np.arange(100, 3000))
    peak = _peak(lambda: [chosen[start : start + 50] for start in range(0, 2900, 50)])
    assert peak < 0.25 * X.nbytes
    positions = some[100:3000]
    for _ in range(2):
        np.testing.assert_array_equal(chosen[7:90, 3:5], expected[positions][7:90, 3:5])
        np.testing.assert_array_equal(chosen.take(np.array([5, 2])), expected[positions[[5, 2]]])
        np.testing.assert_array_equal(chosen.whole(), expected[positions])
        rows.measure()
        chosen = rows.chosen(positions)
    lengths = rows._lengths
    rows.measure()  # was done
    assert rows._lengths[0] is lengths[0]


def test_statistics_hold_no_copy(many_rows, block_bytes):
    X, y, _ = many_rows
    block_bytes(1 << 21)
    assert _peak(lambda: ClassStatistics.from_samples(X, y)) < 0.5 * X.nbytes
