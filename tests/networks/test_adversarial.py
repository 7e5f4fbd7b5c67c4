"""Generators trained against a critic: gradients, learned distributions and fitted attributes."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import normalize

from zslearn.networks import GeneratedFeatures, VAEGANGenerator, WGANGenerator
from zslearn.networks._adversarial import (
    Batch,
    Sizes,
    critic_loss,
    critic_scores,
    critic_weights,
    encoded,
    encoder_weights,
    generated,
    generator_weights,
    vaegan_loss,
    wgan_loss,
)

torch = pytest.importorskip("torch")

SIZES = Sizes(n_attributes=3, hidden=6, n_features=4)
TINY = {"hidden_size": 16, "n_epochs": 2, "n_critic": 2, "batch_size": 16}
KINDS = [WGANGenerator, VAEGANGenerator]


def _tensors(arrays):
    # Larger than initial weights, so that no derivative is lost in rounding.
    return [torch.tensor(20 * array + 0.01).requires_grad_() for array in arrays]


@pytest.fixture
def networks():
    rng = np.random.default_rng(0)
    made = generator_weights(rng, SIZES), encoder_weights(rng, SIZES), critic_weights(rng, SIZES)
    return [_tensors(arrays) for arrays in made]


@pytest.fixture
def batch():
    rng = np.random.default_rng(1)
    X, y = torch.tensor(rng.uniform(size=(5, 4))), torch.tensor([0, 1, 2, 0, 1])
    return Batch(X, y, torch.tensor(rng.normal(size=(5, 3))))


def _normal(*shape):
    return torch.tensor(np.random.default_rng(2).normal(size=shape))


def _with_derivatives_of_second_order(weights, real, fake, share, signatures):
    """The critic's loss as in the paper, with second-order derivatives by torch."""
    between = (share * real + (1 - share) * fake).requires_grad_()
    (gradient,) = torch.autograd.grad(
        critic_scores(weights, between, signatures).sum(), between, create_graph=True
    )
    loss = critic_scores(weights, fake, signatures) - critic_scores(weights, real, signatures)
    return loss.mean() + 10.0 * ((gradient.norm(dim=1) - 1) ** 2).mean()


def test_gradient_penalty_is_that_of_torch(networks, batch):
    _, _, critic = networks
    args = batch.X, _normal(5, 4), torch.rand((5, 1)).double(), batch.signatures
    ours, theirs = critic_loss(critic, *args), _with_derivatives_of_second_order(critic, *args)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, critic), torch.autograd.grad(theirs, critic), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_wgan_loss_against_finite_differences(networks, batch):
    weights, _, critic = networks
    judge = _normal(4, 3), _normal(3)

    def loss(*weights):
        return wgan_loss(list(weights), critic, judge, batch, _normal(5, 3), 0.5)

    assert torch.autograd.gradcheck(loss, weights)


def test_vaegan_loss_against_finite_differences(networks, batch):
    weights, encoder, critic = networks

    def loss(*both):
        parts = list(both[:4]), list(both[4:])
        return vaegan_loss(*parts, critic, batch, _normal(5, 3), _normal(5, 3) + 1, 10.0)

    assert torch.autograd.gradcheck(loss, [*weights, *encoder])


def test_vaegan_loss_against_distributions(networks, batch):
    weights, encoder, critic = networks
    deviation = _normal(5, 3)
    mean, log_variance = encoded(encoder, batch.X, batch.signatures)
    code = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    standard = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    divergence = torch.distributions.kl_divergence(code, standard).sum(dim=1)
    made = generated(weights, mean + deviation * code.stddev, batch.signatures).sigmoid()
    entropy = -(batch.X * made.log() + (1 - batch.X) * (1 - made).log()).sum(dim=1)
    actual = vaegan_loss(weights, encoder, critic, batch, deviation, deviation, 0.0)
    torch.testing.assert_close(actual, (entropy + divergence).mean())


def _classes(n_per_class=150):
    """Six classes, a Gaussian each: features, positions, signatures, means, deviations."""
    rng = np.random.default_rng(0)
    signatures = rng.uniform(size=(6, 5))
    unit = normalize(signatures)
    means, y = 3 * unit @ rng.normal(size=(5, 30)), np.repeat(np.arange(6), n_per_class)
    std = rng.uniform(0.3, 1.0, 30)
    return means[y] + rng.normal(size=(len(y), 30)) * std, y, signatures, means, std


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [WGANGenerator(1024, classification=0.0), VAEGANGenerator(1024)],
    ids=["wgan", "vaegan"],
)
def test_known_gaussians_are_learned(model):
    X, y, signatures, means, std = _classes()
    # Noise as wide as this signature is enough for a spread in 30 dimensions.
    signatures = np.pad(signatures, [(0, 0), (0, 11)])
    model.set_params(learning_rate=3e-4, n_epochs=60, random_state=0)
    drawn = model.fit(X, y, signatures).sample(signatures, 1000, random_state=1)
    found, center = drawn.mean(axis=1), means.mean(axis=0)
    around = [(rows - rows.mean(axis=0)).ravel() for rows in (found, means)]
    assert np.corrcoef(*around)[0, 1] > 0.9
    # Half the error of predicting the mean of all classes.
    assert np.linalg.norm(found - means) < 0.5 * np.linalg.norm(means - center)
    # The variance is learned last and is still too small after so few steps.
    ratio = np.median(drawn.var(axis=1).mean(axis=0) / std**2)
    assert 0.2 < ratio < 2


@pytest.mark.parametrize("kind", KINDS)
def test_sampling_needs_no_torch_and_follows_the_network(kind, monkeypatch):
    X, y, signatures, *_ = _classes(20)
    model = pickle.loads(pickle.dumps(kind(**TINY, random_state=0).fit(X, y, signatures)))
    assert all(type(array) is np.ndarray for array in model.weights_)
    assert type(model.lowest_) is type(model.width_) is np.ndarray
    noise = torch.tensor(np.random.RandomState(7).normal(size=(6, 5)), dtype=torch.float32)
    unit = signatures[:1] / np.linalg.norm(signatures[0])
    described = torch.tensor(unit, dtype=torch.float32).repeat(6, 1)
    scaled = model._activate(generated([torch.tensor(w) for w in model.weights_], noise, described))
    expected = model.lowest_ + model.width_ * scaled.numpy()
    monkeypatch.setitem(sys.modules, "torch", None)
    drawn = model.sample(signatures[:1], 6, random_state=7)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_is_an_error(kind):
    X, y, signatures, *_ = _classes(20)
    with pytest.raises(ValueError, match=rf"{kind.__name__} diverged.*learning_rate"):
        kind(**TINY | {"learning_rate": 1e30}).fit(X, y, signatures)


def test_constant_features_stay_constant():
    X, y, signatures, *_ = _classes(20)
    X = np.column_stack([X, np.full(len(X), 3.0)])
    model = VAEGANGenerator(**TINY, random_state=0).fit(X, y, signatures)
    assert model.width_[30] == 1
    assert np.isfinite(model.sample(signatures, 4, random_state=0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_unseen_classes_are_recognised(kind, problem):
    generator = kind(64, n_epochs=150, learning_rate=2e-3, n_critic=3, batch_size=32)
    model = GeneratedFeatures(generator, "mean", n_generated=50)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    accuracy = model.score(
        problem.X_test_unseen, problem.y_test_unseen, classes=problem.unseen_classes
    )
    assert accuracy > 2 / len(problem.unseen_classes)


def test_seed_of_the_estimator_is_that_of_the_generator(problem):
    def weights(generator, seed):
        model = GeneratedFeatures(clone(generator), "mean", n_generated=2, random_state=seed)
        model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
        return model.generator_.weights_[0]

    free, fixed = WGANGenerator(**TINY), WGANGenerator(**TINY, random_state=3)
    assert np.abs(weights(free, 0) - weights(free, 1)).max() > 0
    np.testing.assert_array_equal(weights(fixed, 0), weights(fixed, 1))
