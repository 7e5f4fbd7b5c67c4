"""Features and signatures of any scale and kind: finite scores, or one clear error."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from zslearn.base import InputWarning
from zslearn.baselines import (
    ALE,
    CCA,
    CMT,
    COSTA,
    DAP,
    GFZSL,
    HAT,
    IAP,
    SAE,
    SJE,
    SSE,
    BiDiLEL,
    CMTStar,
    DeViSE,
    LatEm,
)
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
    """Up to a power of ten the scores are finite and differ; beyond it, fit raises an error."""
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
        # Normalised features do not depend on the scale.
        scores = _scores(method, small, float(f"1e{power}"))
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6)
        model = clone(method)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            signatures = small.signatures * float(f"1e{power}")
            model.fit(small.X_train, small.y_train, signatures=signatures)
            assert np.isfinite(model.decision_function(small.X_test_unseen)).all()


CLOSED_FORMS = [
    CCA(),
    CCA(alpha_features=0.0, alpha_signatures=0.0),
    SAE(0.5),
    SAE(0.5, direction="feature_to_semantic"),
    COSTA(),
    COSTA(similarity="rbf"),
    GFZSL(),
    GFZSL(n_components=8, covariance="class"),
]
OTHERS = [
    SSE(max_iter=2, n_jobs=1),
    BiDiLEL(),
    BiDiLEL(latent_norm=None),
    BiDiLEL(placement="joint"),
    CMT(5, max_iter=10),
    CMTStar(5, max_iter=10),
]


@pytest.mark.parametrize("method", [*CLOSED_FORMS, *OTHERS], ids=repr)
def test_units_do_not_matter(problem, method):
    def scores(features, signatures):
        model = (
            clone(method)
            .set_params(feature_norm=None)
            .fit(
                features * problem.X_train,
                problem.y_train,
                signatures=signatures * problem.signatures,
            )
        )
        return model.decision_function(features * problem.X_test_unseen)

    expected = scores(1.0, 1.0)
    for found in (scores(1000.0, 1.0), scores(1.0, 1000.0)):
        np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))
        if method in CLOSED_FORMS:
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "method",
    [
        *CLOSED_FORMS,
        *OTHERS,
        SAE(center="both", alpha_reduction=0.1),
        GFZSL(covariance="class", kernel="linear", n_components=2),
        HAT("cluster"),
        *(kind(max_iter=3) for kind in (ALE, DeViSE, SJE, LatEm)),
    ],
    ids=repr,
)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 6), st.integers(1, 5), st.integers(1, 6))
def test_any_small_problem_has_finite_scores(method, seed, n_classes, n_attributes, n_features):
    """Equal classes, zeros and constants are among the draws."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=10)])
    signatures = rng.integers(-1, 2, size=(n_classes, n_attributes)).astype(float)
    X = rng.integers(-1, 2, size=(len(y), n_features)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        model = clone(method).fit(X, y, signatures=pd.DataFrame(signatures))
    assert np.isfinite(model.decision_function(X)).all()
