"""Methods recover the model that data were drawn from, where it is of their kind."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from zslearn.baselines import ALE, CCA, COSTA, ESZSL, SAE, SJE, DeViSE
from zslearn.datasets import make_zero_shot

# Class means that are linear in the signatures, and one scatter.
LINEAR = {"n_features": 64, "n_attributes": 16, "noise": 0.2, "nonlinearity": 0.0}
# Unseen signatures, and so class means, that are mixtures of seen ones.
MIXTURE = {**LINEAR, "noise": 0.13, "signature_kind": "mixture"}
FEW = {"n_features": 30, "n_attributes": 10, "noise": 0.15, "nonlinearity": 0}

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
    (ALE(), (60, 10), FEW),
    (SJE(), (60, 10), FEW),
    (DeViSE(), (60, 10), FEW),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("estimator", "sizes", "kind"), CASES, ids=lambda value: str(value)[:50])
def test_recovers_the_generating_model(estimator, sizes, kind, seed):
    data, truth = make_zero_shot(*sizes, **kind, random_state=seed, return_truth=True)
    test = data.X_test_unseen, data.y_test_unseen
    best = truth.score(*test, classes=data.unseen_classes)
    assert 0.7 < best < 0.98
    model = clone(estimator).fit(data.X_train, data.y_train, signatures=data.signatures)
    assert model.score(*test, classes=data.unseen_classes) >= 0.9 * best
