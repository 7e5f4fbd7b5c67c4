"""CADA-VAE: its losses against closed forms and finite differences, and what it learns."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from zslearn.networks import CADAVAE

torch = pytest.importorskip("torch")

from zslearn.networks import _cada_vae as vae  # noqa: E402

TINY = {
    "latent_size": 8,
    "encoder_sizes": (32, 32),
    "decoder_sizes": (32, 32),
    "learning_rate": 1e-2,
    "max_iter": 20,
    "batch_size": 32,
    "n_seen_latents": 20,
    "n_unseen_latents": 40,
}


@pytest.fixture(scope="module")
def data(problem):
    return problem


def _fit(data, **options):
    model = CADAVAE(**{**TINY, **options})
    return model.fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.fixture(scope="module")
def model(data):
    return _fit(data)


def _gaussians(seed, rows=5, width=3):
    rng = np.random.default_rng(seed)
    return vae.Gaussians(*(torch.tensor(rng.normal(size=(rows, width))) for _ in range(2)))


def _problem(seed=0):
    rng = np.random.default_rng(seed)
    networks = vae.initial_weights(rng, (6, 4), 3, (5, 7), (8, 5))
    # Random intercepts instead of zero.
    networks = vae.Autoencoders(
        *([w + 0.1 * rng.normal(size=w.shape) for w in part] for part in networks)
    )
    features, signatures = rng.random((9, 6)), rng.random((9, 4))
    return networks, features, signatures, rng.standard_normal((2, 9, 1))


def _as_tensors(networks):
    return vae.Autoencoders(*([torch.tensor(w) for w in part] for part in networks))


def test_loss_against_numpy():
    networks, x, a, noise = _problem()
    weights = vae.LossWeights(0.3, 2.0, 5.0)

    def encoded(part, inputs):
        hidden = np.maximum(inputs @ part[0] + part[1], 0)
        return hidden @ part[2] + part[3], hidden @ part[4] + part[5]

    def decoded(part, z):
        return np.maximum(z @ part[0] + part[1], 0) @ part[2] + part[3]

    (m, v), (k, u) = encoded(networks[0], x), encoded(networks[1], a)
    z, w = m + np.exp(v) * noise[0], k + np.exp(u) * noise[1]
    expected = 0.0
    for i in range(len(x)):
        expected += np.abs(decoded(networks[2], z)[i] - x[i]).sum()
        expected += np.abs(decoded(networks[3], w)[i] - a[i]).sum()
        for mean, log_variance in ((m[i], v[i]), (k[i], u[i])):
            kl = 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
            expected += 0.3 * kl
        expected += 2.0 * np.abs(decoded(networks[2], w)[i] - x[i]).sum()
        expected += 2.0 * np.abs(decoded(networks[3], z)[i] - a[i]).sum()
        square = np.sum((m[i] - k[i]) ** 2) + np.sum((np.exp(v[i] / 2) - np.exp(u[i] / 2)) ** 2)
        expected += 5.0 * np.sqrt(square)
    tensors = [torch.tensor(part) for part in (x, a, noise)]
    found = vae.loss(_as_tensors(networks), *tensors[:2], tuple(tensors[2]), weights)
    assert float(found) == pytest.approx(expected / len(x), rel=1e-9)


def test_gradient_where_both_gaussians_are_the_same():
    gaussians = _gaussians(0)
    mean = gaussians.mean.clone().requires_grad_()
    vae.distance(vae.Gaussians(mean, gaussians.log_variance), gaussians).sum().backward()
    assert torch.isfinite(mean.grad).all()


def test_warm_up_as_published():
    """Of 100 epochs: β over 0–93, cross-alignment over 21–75, distance over 6–22."""
    model = CADAVAE()
    for epoch, divergence, cross, distance in (
        (0, 0.0, 0.0, 0.0),
        (6, 6 / 93, 0.0, 0.0),
        (14, 14 / 93, 0.0, 0.5),
        (48, 48 / 93, 0.5, 1.0),
        (75, 75 / 93, 1.0, 1.0),
        (99, 1.0, 1.0, 1.0),
    ):
        weights = model._loss_weights(epoch, 2048)
        expected = (0.25 * divergence, 2.37 * cross, 8.13 * distance)
        np.testing.assert_allclose(weights, expected, atol=1e-12)
    fewer, usual = model._loss_weights(99, 512), model._loss_weights(99, 2048)
    np.testing.assert_allclose(np.divide(fewer, usual), [0.25, 1, 0.25])


def test_embedding_is_the_mean_of_the_scaled_features(model, data):
    X = normalize(data.X_train)
    scaled = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    W, b, M, m = model.encoder_[:4]
    expected = np.maximum(scaled @ W + b, 0) @ M + m
    embedded = model.embed(X)
    np.testing.assert_allclose(embedded[:, :-1], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(embedded[:, -1], 1)


def test_parameters_are_a_softmax_on_the_latents(model):
    """The softmax of scikit-learn on the same latent vectors."""
    described = model._described.table.normalized(model.signature_scale_, keep_views=False)
    unit = normalize(described)
    W, b, M, m, V, v = model.signature_encoder_
    hidden = np.maximum(unit @ W + b, 0)
    mean, deviation = hidden @ M + m, np.exp(hidden @ V + v)
    numbers = np.random.default_rng([model.latent_seed_, 1]).standard_normal((40, 1))
    latents, y = [], []
    for row, label in enumerate(model.classes_):
        seen = np.flatnonzero(model.seen_classes_ == label)
        drawn = model.seen_latents_[seen[0]] if len(seen) else mean[row] + deviation[row] * numbers
        latents.append(drawn)
        y += [row] * len(drawn)
    assert [len(part) for part in latents].count(20) == 12
    X = np.concatenate(latents)
    C = 1 / (model.alpha * len(X))
    reference = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    parameters = model.class_scorer_.parameters
    expected = X @ reference.coef_.T + reference.intercept_
    found = X @ parameters[:, :-1].T + parameters[:, -1]
    error = (found - found.mean(axis=1)[:, None]) - (expected - expected.mean(axis=1)[:, None])
    assert np.abs(error).max() < 0.03 * np.abs(expected).max()


def test_describing_a_class_leaves_the_autoencoders_and_the_other_latents(data):
    late = data.unseen_classes[:1]
    known = data.signatures.drop(index=late)
    model = CADAVAE(**TINY).fit(data.X_train, data.y_train, signatures=known)
    weights = [w.copy() for w in model.encoder_ + model.signature_encoder_]
    described = model._described.table.normalized(model.signature_scale_, keep_views=False)
    before = dict(zip(model.classes_, model._latents(described, model.classes_), strict=True))
    model.add_classes(data.signatures.loc[late])
    for old, new in zip(weights, model.encoder_ + model.signature_encoder_, strict=True):
        np.testing.assert_array_equal(old, new)
    described = model._described.table.normalized(model.signature_scale_, keep_views=False)
    after = dict(zip(model.classes_, model._latents(described, model.classes_), strict=True))
    for label, latents in before.items():
        np.testing.assert_allclose(after[label], latents, rtol=1e-12)


def test_more_unseen_latents_favour_unseen_classes(model, data):
    more = _fit(data, n_unseen_latents=2000)
    unseen = [np.isin(m.predict(data.X_test_seen), m.unseen_classes_).mean() for m in (model, more)]
    assert unseen[1] > unseen[0]


def test_learns(model, data):
    assert model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.4
    assert model.score(data.X_test_seen, data.y_test_seen, classes=data.seen_classes) > 0.25


@pytest.mark.parametrize("name", ["encoder_sizes", "decoder_sizes"])
@pytest.mark.parametrize("sizes", [(3,), (3, 0), (3, 4.5), (1, 2, 3)])
def test_wrong_sizes(data, name, sizes):
    with pytest.raises(ValueError, match=f"{name} must be two positive integers"):
        _fit(data, **{name: sizes})


def test_without_torch(monkeypatch, data):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"CADAVAE needs torch.*zslearn\[torch\]"):
        _fit(data)
