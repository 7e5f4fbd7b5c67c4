"""What fitting holds beyond the rows it is given."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from zslearn.baselines import CCA, COSTA, ESZSL, GFZSL, SAE
from zslearn.synthesis import EXEM, ClassStatistics, GaussianEXEM, SynC


@pytest.fixture(scope="module")
def many_rows():
    """Rows of 25 MB; blocks and tables of features by features are small beside them."""
    rng = np.random.default_rng(0)
    n_classes, n_features = 12, 64
    y = np.arange(100_000) % n_classes
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


METHODS = [
    (EXEM(n_components=8, tol=1e-2), 0.5),
    (EXEM(n_components=8, tol=1e-2, distance="standardized"), 0.5),
    (GaussianEXEM(), 0.5),
    (ESZSL(), 0.5),
    (SAE(), 0.5),
    (CCA(), 0.5),
    (COSTA(), 0.5),
    (GFZSL(), 0.5),
    # One prepared copy, and tables of a few classes at a time.
    (SynC(tol=0.5), 1.7),
]


@pytest.mark.parametrize(("model", "share"), METHODS, ids=lambda value: str(value)[:40])
def test_peak_of_fit(model, share, many_rows, monkeypatch):
    X, y, signatures = many_rows
    monkeypatch.setattr("zslearn.utils._blocks.BLOCK_BYTES", 1 << 21)
    monkeypatch.setattr("zslearn.solvers._svm_squared_hinge._TABLE_BYTES", 1 << 21)
    model.fit(X[:200], y[:200], signatures=signatures)  # what is compiled takes memory, too
    peak = _peak(lambda: model.fit(X, y, signatures=signatures))
    # Labels and codes of samples, 8 bytes each, are there besides.
    assert peak < share * X.nbytes + 4 * y.nbytes


def test_statistics_hold_no_copy(many_rows, monkeypatch):
    X, y, _ = many_rows
    monkeypatch.setattr("zslearn.utils._blocks.BLOCK_BYTES", 1 << 21)
    assert _peak(lambda: ClassStatistics.from_samples(X, y)) < 0.5 * X.nbytes


def test_blocks_change_no_choice(many_rows, monkeypatch):
    X, y, signatures = many_rows
    X, y = X[:3000].astype(np.float64), y[:3000]
    models = []
    for budget in (1 << 30, 1 << 16):
        monkeypatch.setattr("zslearn.utils._blocks.BLOCK_BYTES", budget)
        models.append(EXEM(n_components=8).fit(X, y, signatures=signatures))
    whole, parts = models
    np.testing.assert_allclose(whole.exemplars_, parts.exemplars_, atol=1e-10)
    np.testing.assert_allclose(
        whole.decision_function(X[:50]), parts.decision_function(X[:50]), atol=1e-6
    )
