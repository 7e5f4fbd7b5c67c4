r"""The two autoencoders of CADA-VAE, and the loss that they are trained with.

An encoder gives each input, features x or a signature a, a Gaussian of the latent space with mean
:math:`\mu` and variances :math:`\sigma^2`; a decoder brings a latent z back. With z drawn from the
Gaussian of x, and z' from that of its class's signature a, a sample costs

.. math:: & \|x - D_x(z)\|_1 + \|a - D_a(z')\|_1 && \text{(reconstruction)} \\
          & + \beta \, [\mathrm{KL}(x) + \mathrm{KL}(a)] && \text{(towards } N(0, I)) \\
          & + \gamma \, [\|x - D_x(z')\|_1 + \|a - D_a(z)\|_1] && \text{(cross-alignment)} \\
          & + \delta \, W_2(x, a) && \text{(distribution alignment)}

with :math:`\mathrm{KL} = \frac12 \sum_j (\mu_j^2 + \sigma_j^2 - 1 - \log \sigma_j^2)` and the
2-Wasserstein distance of two Gaussians with diagonal covariances,
:math:`W_2^2 = \|\mu - \mu'\|^2 + \|\sigma - \sigma'\|^2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.networks._torch_training import Tensor, linear, relu, uniform_layer
from zslearn.utils import Array, move_like, to_numpy

# When the weight of a term begins to grow and when it is reached, as shares of the epochs; the
# authors train for 100.
_DIVERGENCE_TIME = (0.0, 0.93)
_CROSS_TIME = (0.21, 0.75)
_DISTANCE_TIME = (0.06, 0.22)
# Errors are summed over features, the other terms are not; their weights are the authors', who have
# so many features.
_USUAL_FEATURES = 2048
# Weights begin at half of Glorot's limit.
_GAIN = 0.5
# Below the root of the distance, whose slope is infinite at zero.
_TINY = 1e-12


class Gaussians(NamedTuple):
    """Means and logarithms of variances, one row per input."""

    mean: Array
    log_variance: Array


class Autoencoders(NamedTuple):
    """Weights of the four networks, each a list of matrices and intercepts in turn."""

    encode_features: Sequence[Array]
    encode_signatures: Sequence[Array]
    decode_features: Sequence[Array]
    decode_signatures: Sequence[Array]


class LossWeights(NamedTuple):
    """β, γ and δ."""

    divergence: float
    cross: float
    distance: float


def warm_up(progress: float, start: float, end: float) -> float:
    """Share of its weight that a term has: none until `start`, all from `end`, linear between."""
    return min(max((progress - start) / (end - start), 0.0), 1.0)


def scheduled(full: LossWeights, progress: float, n_features: int) -> LossWeights:
    """The weights of the terms in the course of training.

    Parameters
    ----------
    full : LossWeights
        Those that are reached, beside 2,048 features.
    progress : float
        Share of the epochs that are over.
    n_features : int
        How many features there are.

    Returns
    -------
    LossWeights
        Those of the moment.
    """
    share = n_features / _USUAL_FEATURES
    return LossWeights(
        full.divergence * share * warm_up(progress, *_DIVERGENCE_TIME),
        full.cross * warm_up(progress, *_CROSS_TIME),
        full.distance * share * warm_up(progress, *_DISTANCE_TIME),
    )


def first_weights(
    rng: np.random.Generator,
    n_features: int,
    n_attributes: int,
    latent_size: int,
    encoder_sizes: tuple[int, int],
    decoder_sizes: tuple[int, int],
) -> Autoencoders:
    """Random weights; of each pair of sizes the first is that for features."""
    encoders, decoders = [], []
    for n_inputs, n_hidden in zip((n_features, n_attributes), encoder_sizes, strict=True):
        heads = [_layer(rng, n_hidden, latent_size) for _ in range(2)]
        encoders.append([*_layer(rng, n_inputs, n_hidden), *heads[0], *heads[1]])
    for n_inputs, n_hidden in zip((n_features, n_attributes), decoder_sizes, strict=True):
        decoders.append([*_layer(rng, latent_size, n_hidden), *_layer(rng, n_hidden, n_inputs)])
    return Autoencoders(*encoders, *decoders)


def _layer(rng: np.random.Generator, n_in: int, n_out: int) -> list[NDArray[Any]]:
    return uniform_layer(rng, n_in, n_out, limit=_GAIN * float(np.sqrt(6 / (n_in + n_out))))


def encode(weights: Sequence[Array], inputs: Array) -> Gaussians:
    """The Gaussian of each input."""
    hidden = relu(linear(inputs, weights[0], weights[1]))
    return Gaussians(linear(hidden, weights[2], weights[3]), linear(hidden, weights[4], weights[5]))


def decode(weights: Sequence[Array], latents: Array) -> Array:
    """What each latent stands for."""
    return linear(relu(linear(latents, weights[0], weights[1])), weights[2], weights[3])


def draw(gaussians: Gaussians, noise: Array) -> Array:
    """Latents of Gaussians.

    Parameters
    ----------
    gaussians : Gaussians
        One row per latent, or one row for all.
    noise : array of shape (n_latents, latent_size) or (n_latents, 1)
        Standard normal numbers. One for each dimension is multiplied by σ. A single one for all
        dimensions is multiplied by σ², as the authors' program has it.

    Returns
    -------
    array of shape (n_latents, latent_size)
        One row per latent.
    """
    xp = compat.array_namespace(gaussians.mean)
    power = 1.0 if noise.shape[1] == 1 else 0.5
    return gaussians.mean + xp.exp(power * gaussians.log_variance) * noise


def divergence(gaussians: Gaussians) -> Tensor:
    """Kullback–Leibler divergence of each Gaussian from the standard one."""
    mean, log_variance = gaussians
    return (mean**2 + log_variance.exp() - 1 - log_variance).sum(dim=1) / 2


def distance(first: Gaussians, second: Gaussians) -> Tensor:
    """2-Wasserstein distance of Gaussians with diagonal covariances, row by row."""
    deviations = (first.log_variance / 2).exp() - (second.log_variance / 2).exp()
    square = ((first.mean - second.mean) ** 2).sum(dim=1) + (deviations**2).sum(dim=1)
    return (square + _TINY).sqrt()


def loss(
    networks: Autoencoders,
    features: Tensor,
    signatures: Tensor,
    noise: tuple[Tensor, Tensor],
    weights: LossWeights,
) -> Tensor:
    """Mean loss of a batch.

    Parameters
    ----------
    networks : Autoencoders
        Their weights.
    features : tensor of shape (n_samples, n_features)
        Scaled features.
    signatures : tensor of shape (n_samples, n_attributes)
        The signature of each sample's class.
    noise : pair of tensors of shape (n_samples, latent_size) or (n_samples, 1)
        For the latents of features and of signatures; see :func:`draw`.
    weights : LossWeights
        β, γ and δ.

    Returns
    -------
    tensor
        A number.
    """
    of_features = encode(networks.encode_features, features)
    of_signatures = encode(networks.encode_signatures, signatures)
    z, z_signature = draw(of_features, noise[0]), draw(of_signatures, noise[1])

    def missed(from_features: Tensor, from_signatures: Tensor) -> Tensor:
        """ℓ1 errors of features and of signatures, decoded from these latents."""
        features_again = decode(networks.decode_features, from_features)
        signatures_again = decode(networks.decode_signatures, from_signatures)
        errors = (features_again - features).abs().sum(dim=1)
        return errors + (signatures_again - signatures).abs().sum(dim=1)

    total = missed(z, z_signature)
    total = total + weights.divergence * (divergence(of_features) + divergence(of_signatures))
    if weights.cross > 0:
        total = total + weights.cross * missed(z_signature, z)
    if weights.distance > 0:
        total = total + weights.distance * distance(of_features, of_signatures)
    return total.mean()


def feature_units(X: Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """Smallest value and range of each feature over the training samples; a range of 0 counts 1."""
    xp = compat.array_namespace(X)
    smallest, largest = to_numpy(xp.min(X, axis=0)), to_numpy(xp.max(X, axis=0))
    width = largest - smallest
    return smallest, np.where(width > 0, width, np.ones_like(width))


def scale(X: Array, smallest: NDArray[Any], width: NDArray[Any]) -> Array:
    """Features in units where those of training lie in [0, 1]."""
    return (X - move_like(smallest, X)[None, :]) / move_like(width, X)[None, :]


def two_sizes(name: str, sizes: Sequence[int]) -> tuple[int, int]:
    """Hidden units for features and for signatures."""
    if len(sizes) != 2 or not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"{name} must be two positive integers, for features and for signatures; got {sizes!r}."
        )
    return int(sizes[0]), int(sizes[1])
