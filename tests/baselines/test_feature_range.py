"""Features and signatures of any scale: finite scores, or one clear error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import ALE, CMT, DAP, IAP, SJE, SSE, CMTStar, DeViSE, LatEm
from zslearn.datasets import make_zero_shot

RANKING = [
    method(max_iter=2, scaling=scaling)
    for method in (ALE, DeViSE, SJE, LatEm)
    for scaling in ("center", "zscore", None)
]
METHODS = [
    *RANKING,
    DAP(1e-2),
    IAP(1e-2),
    IAP(1e-2, probabilities="platt"),
    CMT(5, max_iter=3),
    CMTStar(5, max_iter=3),
    CMTStar(5, max_iter=3, threshold="common"),
    SSE(max_iter=1, n_jobs=1),
]


@pytest.fixture(scope="module")
def small():
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=10, n_attributes=6, samples_per_class=6, random_state=0
    )


def _scores(method, data, scale, dtype=np.float64, **parameters):
    """Scores of a model whose features are scaled; a numerical warning is an error."""
    model = clone(method).set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        X = (scale * data.X_train).astype(dtype)
        model.fit(X, data.y_train, signatures=data.signatures)
        return model.decision_function((scale * data.X_test_unseen).astype(dtype))


def _is_refused_or_finite(method, data, power, dtype, largest_power):
    """Within the powers of ten up to one the scores are finite and differ; beyond, an error."""
    scale = float(f"1e{power}")
    if abs(power) > largest_power:
        with pytest.raises(ValueError, match="its square overflows or underflows. Rescale X"):
            _scores(method, data, scale, dtype, feature_norm=None)
        return
    scores = _scores(method, data, scale, dtype, feature_norm=None)
    assert np.isfinite(scores).all()
    assert np.ptp(scores, axis=1).max() > 0


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_features_and_signatures_of_any_scale(small, method):
    for power in (-320, -102, -96, 96, 102, 300):
        _is_refused_or_finite(method, small, power, np.float64, 97)
    for power in (-45, -14, 14, 37):
        _is_refused_or_finite(method, small, power, np.float32, 14)
    expected = _scores(method, small, 1.0)
    for power in (-300, 300):
        # Unit norm takes every scale of the features out.
        scores = _scores(method, small, float(f"1e{power}"))
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
        model = clone(method)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            signatures = small.signatures * float(f"1e{power}")
            model.fit(small.X_train, small.y_train, signatures=signatures)
            assert np.isfinite(model.decision_function(small.X_test_unseen)).all()
