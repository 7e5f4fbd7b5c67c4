"""Methods recover the model that data were drawn from if it meets their assumptions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import (
    ALE,
    CCA,
    CMT,
    COSTA,
    DAP,
    ESZSL,
    HAT,
    IAP,
    SAE,
    SJE,
    SSE,
    BiDiLEL,
    ConSE,
    DeViSE,
)
from zslearn.datasets import load_xlsa17, make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV

# Classes with equal or zero signatures are drawn, too.
pytestmark = pytest.mark.filterwarnings("ignore::zslearn.base.InputWarning")

# Class means that are linear in the signatures, and one scatter.
LINEAR = {"n_features": 64, "n_attributes": 16, "noise": 0.2, "nonlinearity": 0.0}
# Unseen signatures, and so class means, that are mixtures of seen ones.
MIXTURE = {**LINEAR, "noise": 0.13, "signature_kind": "mixture"}
FEW = {"n_features": 30, "n_attributes": 10, "noise": 0.15, "nonlinearity": 0}
SMOOTH = {"n_features": 40, "n_attributes": 10, "noise": 0.18, "nonlinearity": 0.3}
# Binary attributes that add up.
BINARY = {"nonlinearity": 0.0, "signature_kind": "binary"}

CASES = [
    (ESZSL(feature_norm=None), (100, 20), LINEAR),
    (CCA(feature_norm=None), (100, 20), LINEAR),
    (SAE(feature_norm=None), (100, 20), LINEAR),
    (
        SAE(feature_norm=None, direction="feature_to_semantic", center="both"),
        (100, 20),
        LINEAR,
    ),
    (COSTA(feature_norm=None), (100, 20), MIXTURE),
    # A linear map preserves distances up to a factor, which is what the placement assumes.
    (
        BiDiLEL(16, feature_norm=None, latent_norm=None),
        (60, 8),
        {**MIXTURE, "noise": 0.17, "samples_per_class": 40},
    ),
    (ALE(), (60, 10), FEW),
    (SJE(), (60, 10), FEW),
    (DeViSE(), (60, 10), FEW),
    (
        CMT(hidden_size=50, alpha=1e-3, max_iter=20, feature_norm=None),
        (200, 10),
        {**SMOOTH, "samples_per_class": 20},
    ),
    # No attribute depends on the hierarchy: deeper levels get little weight.
    (
        HAT("cluster", depth_weight=0.125, category_weight=0.03, feature_norm=None),
        (150, 15),
        {**BINARY, "n_features": 60, "n_attributes": 12, "samples_per_class": 20, "noise": 0.2},
    ),
]
SEARCHES = [
    (
        ZeroShotSearchCV(DAP(), "fast", cv=3),
        (60, 10),
        {**BINARY, "n_attributes": 12, "n_features": 40, "noise": 0.22},
    ),
    (
        ZeroShotSearchCV(IAP(), {"alpha": [1e-4, 1e-3, 1e-2]}, cv=3),
        (100, 10),
        {**BINARY, "n_attributes": 10, "n_features": 40, "noise": 0.25},
    ),
    # As many attributes as seen classes, so that a signature determines its mixture.
    (
        ZeroShotSearchCV(ConSE(), "fast", cv=3),
        (40, 6),
        {**MIXTURE, "n_attributes": 40, "n_features": 60, "samples_per_class": 100, "noise": 0.15},
    ),
    (
        ZeroShotSearchCV(SSE(), {"gamma": [0.03, 0.3, 3.0], "max_iter": [0, 2]}, cv=3),
        (40, 8),
        {**MIXTURE, "n_attributes": 40, "samples_per_class": 60, "noise": 0.12},
    ),
]


def _accuracies(estimator, sizes, kind, seed):
    """Accuracy of a method and of the generating model among new signatures."""
    data, truth = make_zero_shot(*sizes, **kind, random_state=seed, return_truth=True)
    seen = set(data.signatures.loc[data.seen_classes].itertuples(index=False, name=None))
    new = [c for c in data.unseen_classes if tuple(data.signatures.loc[c]) not in seen]
    assert len(new) > 0.5 * len(data.unseen_classes)
    rows = np.isin(data.y_test_unseen, new)
    test = data.X_test_unseen[rows], data.y_test_unseen[rows]
    model = clone(estimator).fit(data.X_train, data.y_train, signatures=data.signatures)
    return model.score(*test, classes=new), truth.score(*test, classes=new)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("estimator", "sizes", "kind"), CASES, ids=lambda value: str(value)[:50])
def test_recovers_the_generating_model(estimator, sizes, kind, seed):
    found, best = _accuracies(estimator, sizes, kind, seed)
    assert 0.7 < best < 0.98
    assert found >= 0.9 * best


@pytest.mark.slow
@pytest.mark.parametrize(("search", "sizes", "kind"), SEARCHES, ids=lambda value: str(value)[:50])
def test_tuned_method_recovers_the_generating_model(search, sizes, kind):
    found, best = np.mean([_accuracies(search, sizes, kind, seed) for seed in range(3)], axis=0)
    assert 0.7 < best < 0.99
    assert found >= 0.9 * best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "lowest", "highest"),
    [
        (ALE(), 0.55, 0.65),
        (ESZSL(), 0.55, 0.62),
        (HAT("cluster"), 0.36, 0.48),
        (CMT(max_iter=6), 0.36, 0.48),
        (DAP(), 0.35, 0.48),
    ],
    ids=str,
)
def test_real_birds(data_folder, estimator, lowest, highest):
    """CUB, split ns, EfficientNet-Lite0 features, untuned."""
    data = load_xlsa17("CUB", folder=data_folder / "xlsa17", features="efficientnet_lite0.mat")
    model = clone(estimator).fit(data.X_train, data.y_train, signatures=data.signatures)
    accuracy = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert lowest < accuracy < highest
