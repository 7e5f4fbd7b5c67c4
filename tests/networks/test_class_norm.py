"""Class-Norm: its parts against NumPy and finite differences, and accuracy."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from zslearn.datasets import make_zero_shot
from zslearn.networks import ClassNorm

torch = pytest.importorskip("torch")

from zslearn.networks import _class_norm as cn  # noqa: E402
from zslearn.networks import _torch_training as networks  # noqa: E402

TINY = {"hidden_size": 24, "learning_rate": 5e-3, "batch_size": 32, "max_iter": 15}


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=12, n_unseen=4, n_features=20, n_attributes=8, random_state=3)


@pytest.fixture(scope="module")
def model(data):
    return ClassNorm(**TINY).fit(data.X_train, data.y_train, signatures=data.signatures)


def _weights(rng, sizes=(5, 7, 7, 6)):
    layers = pairwise(sizes)
    return [part for a, b in layers for part in (rng.normal(size=(a, b)), rng.normal(size=b))]


def _prototypes_by_hand(weights, signatures):
    """The formula of the module, in NumPy."""
    W1, b1, W2, b2, W3, b3 = weights
    hidden = np.maximum(signatures @ W1 + b1, 0) @ W2 + b2
    for activate in (lambda h: np.maximum(h, 0), lambda h: h):
        # The units are divided by their variance, not by its root.
        scale = hidden.var(axis=0, ddof=1) + 1e-5
        hidden = activate((hidden - hidden.mean(axis=0)) / scale)
    return np.maximum(hidden @ W3 + b3, 0)


def test_loss_against_numpy():
    rng = np.random.default_rng(2)
    weights, signatures, X = _weights(rng), rng.normal(size=(4, 5)), rng.random((6, 6))
    X = normalize(X)
    y = np.array([0, 1, 2, 3, 0, 2])
    made = _prototypes_by_hand(weights, signatures)
    logits = 25 * X @ normalize(made).T
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(6), y])
    tensors = [torch.tensor(part) for part in (signatures, X, y)]
    found, _ = cn.loss([torch.tensor(w) for w in weights], *tensors, 25.0, True)
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_running_statistics():
    """After n equal steps, 0.9ⁿ of the initial value remains."""
    moments = cn.Moments(torch.zeros(1), torch.ones(1))
    for _ in range(5):
        moments = moments.updated(cn.Moments(torch.tensor([2.0]), torch.tensor([3.0])))
    assert float(moments.mean) == pytest.approx(2 * (1 - 0.9**5))
    assert float(moments.variance) == pytest.approx(0.9**5 + 3 * (1 - 0.9**5))


def test_parameters_are_prototypes_by_running_statistics(model, data):
    """Prototypes by hand; without a ReLU, since features may be negative."""
    assert model.rectify_ is False
    signatures = data.signatures.loc[model.classes_].to_numpy()
    signatures = normalize(signatures)
    W1, b1, W2, b2, W3, b3 = model.weights_
    (mean, variance), (mean2, variance2) = model.moments_
    hidden = np.maximum(signatures * np.sqrt(8) @ W1 + b1, 0) @ W2 + b2
    hidden = np.maximum((hidden - mean) / (variance + 1e-5), 0)
    made = (hidden - mean2) / (variance2 + 1e-5) @ W3 + b3
    made = normalize(made)
    np.testing.assert_allclose(model.class_scorer_.parameters, made, rtol=1e-8, atol=1e-10)
    X = normalize(data.X_test_seen)
    np.testing.assert_allclose(model.decision_function(data.X_test_seen), X @ made.T, atol=1e-10)


def test_rectified_where_features_are_not_negative(data):
    X = np.abs(data.X_train)
    model = ClassNorm(**TINY).fit(X, data.y_train, signatures=data.signatures)
    assert model.rectify_ is True
    assert (model.class_scorer_.parameters >= 0).all()


def test_features_of_any_norm(data):
    """Scores are cosines: with feature_norm=None the length of a row does not matter either."""
    model = ClassNorm(**TINY, feature_norm=None)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    X = data.X_test_seen
    np.testing.assert_allclose(model.decision_function(7 * X), model.decision_function(X))


def test_learns(model, data):
    assert model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]


def test_missing_gpu_is_reported(monkeypatch, data):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="torch finds no GPU"):
        ClassNorm(device="cuda").fit(data.X_train, data.y_train, signatures=data.signatures)
    assert networks.training_device(data.X_train, None) == torch.device("cpu")


def test_importing_the_methods_loads_no_torch():
    code = (
        "import sys, zslearn.networks, zslearn.experiments\n"
        "for name in ('Class-Norm', 'CADA-VAE'):\n"
        "    method = zslearn.model_selection.find_method(name)\n"
        "    assert not method.in_default\n"
        "    method.definition()\n"
        "assert 'torch' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
