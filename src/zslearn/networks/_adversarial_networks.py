r"""Generators of features that are trained against a critic, given the signature of the class.

A generator G turns noise z and a signature a into features, a critic D tells them from real ones.
With features scaled to [0, 1] and :math:`\hat x` on the line between a real and a generated sample
the critic maximises

.. math:: \mathbb E[D(x, a)] - \mathbb E[D(G(z, a), a)]
          - \lambda\, \mathbb E\bigl[(\|\nabla_{\hat x} D(\hat x, a)\|_2 - 1)^2\bigr].

Both networks have one hidden layer of leaky ReLU :math:`\phi`. Its slope is constant in pieces, so
that the gradient of the critic :math:`D = w^\top \phi(h), h = W_x x + W_a a + b` can be written
down, :math:`\nabla_x D = W_x^\top (w \odot \phi'(h))`, and the penalty needs first derivatives
only. The critic has no last intercept, which would cancel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.networks._torch_training import Tensor
from zslearn.utils import Array

# Slope of the hidden layers on the negative side.
_SLOPE = 0.2
# Standard deviation of the first weights; intercepts begin at zero.
_FIRST_WEIGHTS = 0.02


class Sizes(NamedTuple):
    """Widths of the layers."""

    n_noise: int
    n_attributes: int
    hidden: int
    n_features: int


class Batch(NamedTuple):
    """What a step learns from."""

    X: Tensor  # scaled features
    y: Tensor
    signatures: Tensor  # of the class of each row


def layer(x: Array, weight: Array, intercept: Array) -> Array:
    """A layer, x W + b; of tensors in one operation."""
    if compat.is_torch_array(x):
        return intercept.addmm(x, weight)
    return x @ weight + intercept


def leaky(x: Array) -> Array:
    """The leaky ReLU of the hidden layers."""
    if compat.is_torch_array(x):
        import torch

        return torch.nn.functional.leaky_relu(x, _SLOPE)
    return np.maximum(x, _SLOPE * x)


def normal_layer(rng: np.random.Generator, n_in: int, n_out: int) -> list[NDArray[Any]]:
    """First weights and intercepts of a layer."""
    return [rng.normal(scale=_FIRST_WEIGHTS, size=(n_in, n_out)), np.zeros(n_out)]


def generator_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of a generator: two layers, of which the first takes noise and signature."""
    n_in = sizes.n_noise + sizes.n_attributes
    hidden = normal_layer(rng, n_in, sizes.hidden)
    return [*hidden, *normal_layer(rng, sizes.hidden, sizes.n_features)]


def generated(weights: list[Tensor], noise: Tensor, signatures: Tensor) -> Tensor:
    """Outputs of the generator's last layer, before they are squashed."""
    import torch

    hidden = leaky(layer(torch.cat([noise, signatures], dim=1), weights[0], weights[1]))
    return layer(hidden, weights[2], weights[3])


def critic_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of a critic: of the features, of the signature, intercepts, last layer."""
    of_features, _ = normal_layer(rng, sizes.n_features, sizes.hidden)
    of_signature, intercept = normal_layer(rng, sizes.n_attributes, sizes.hidden)
    last, _ = normal_layer(rng, sizes.hidden, 1)
    return [of_features, of_signature, intercept, last]


def critic_scores(weights: list[Tensor], X: Tensor, signatures: Tensor) -> Tensor:
    """D(x, a) of each row."""
    of_features, of_signature, intercept, last = weights
    hidden = layer(signatures, of_signature, intercept).addmm(X, of_features)
    return (leaky(hidden) @ last)[:, 0]


def critic_loss(
    weights: list[Tensor],
    real: Tensor,
    fake: Tensor,
    share: Tensor,
    signatures: Tensor,
    gradient_penalty: float,
) -> Tensor:
    """What a critic minimises.

    Parameters
    ----------
    weights : list of tensors
        As of :func:`critic_weights`.
    real, fake : tensor of shape (n, n_features)
        Scaled features, and generated ones.
    share : tensor of shape (n, 1)
        Where on the line between the two the gradient is taken: 1 is at the real one.
    signatures : tensor of shape (n, n_attributes)
        Of both.
    gradient_penalty : float
        λ.

    Returns
    -------
    tensor
        A number.
    """
    import torch

    of_features, of_signature, intercept, last = weights
    between = torch.lerp(fake, real, share)
    by_signature = layer(signatures, of_signature, intercept)
    n_rows = len(real)
    # One product for all three.
    hidden = by_signature.repeat(3, 1).addmm(torch.cat([real, fake, between]), of_features)
    scores = (leaky(hidden[: 2 * n_rows]) @ last)[:, 0]
    slopes = (hidden[2 * n_rows :].detach() > 0).to(hidden.dtype) * (1 - _SLOPE) + _SLOPE
    gradients = (slopes * last[:, 0]) @ of_features.T
    penalty = ((gradients.norm(dim=1) - 1) ** 2).mean()
    return scores[n_rows:].mean() - scores[:n_rows].mean() + gradient_penalty * penalty
