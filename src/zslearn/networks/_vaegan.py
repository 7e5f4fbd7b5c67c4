r"""f-VAEGAN-D2 in its inductive form: a variational autoencoder and a GAN share the generator.

An encoder E makes Gaussian noise :math:`q(z \mid x, a)` of a sample, from which the generator must
reconstruct the sample; and what the generator makes of standard normal noise must pass the critic,

.. math:: \min_{G, E} \; \mathbb E\bigl[\mathrm{KL}(q(z \mid x, a) \,\|\, \mathcal N(0, I))
          - \log p(x \mid G(z, a))\bigr] - \gamma\, \mathbb E[D(G(z, a), a)],

with features scaled to [0, 1], a sigmoid in the last layer and the binary cross-entropy as
:math:`-\log p`. What the critic D minimises: see `_adversarial_networks`. The second critic of the
original, D2, learns from unlabelled images of unseen classes, which the inductive form does not
see.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Array
from zslearn.networks._adversarial import (
    AdversarialGenerator,
    Batch,
    Sizes,
    critic_scores,
    generated,
    layer,
    leaky,
    normal_layer,
)
from zslearn.networks._torch_training import Tensor

# An encoder has no opponent: Adam's usual memory.
_ENCODER_BETAS = (0.9, 0.999)


class VAEGANGenerator(AdversarialGenerator):
    """Generate features by a VAE and a GAN with one decoder (f-VAEGAN-D2, inductive).

    Needs the `torch` extra to fit.

    Parameters
    ----------
    hidden_size : int, default=4096
        Hidden units of encoder, generator and critic.
    n_noise : int, optional
        Width of the noise; by default that of a signature.
    gradient_penalty : float, default=10.0
        λ, how much the critic's slope must be one.
    n_critic : int, default=5
        Steps of the critic for one of the generator.
    adversarial : float, default=10.0
        γ, how much features must pass the critic.
    n_epochs : int, default=300
        How often the generator has as many batches as make up the training data. A search over it,
        as `generator__n_epochs`, costs one run per fold: the run goes on, and its state at each
        number is scored on the classes left out.
    batch_size : int, default=64
        Rows of a batch.
    learning_rate : float, default=1e-4
        Step of Adam.
    device : {"cpu", "cuda"} or None, default=None
        Where the networks are trained. None is a GPU where torch finds one, else the CPU. A tensor
        of torch is trained with where it lies. A fitted generator is on no device.
    verbose : int, default=0
        Above 0, a bar shows how many epochs are done.
    random_state : int, RandomState or None, default=None
        Decides the first weights, the batches and the noise. Inside :class:`GeneratedFeatures` None
        stands for the seed of that.

    Attributes
    ----------
    weights_ : list of four ndarrays
        Weights and intercepts of the generator's two layers; the first takes noise, then signature.
    lowest_ : ndarray of shape (n_features,)
        Smallest training feature; generated ones are scaled back by it.
    width_ : ndarray of shape (n_features,)
        Largest minus smallest training feature, 1 where they are equal.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on what it generates.
    WGANGenerator : Without autoencoder.

    Notes
    -----
    The number of epochs, γ, the layers of the encoder and the cross-entropy are those of a later
    program by others, TF-VAEGAN, for CUB. An epoch of that goes through the data twice; its critic
    sees reconstructions in place of features made of standard normal noise, and λ changes as it
    trains.

    References
    ----------
    Y. Xian, S. Sharma, B. Schiele and Z. Akata, "f-VAEGAN-D2: a feature generating framework for
    any-shot learning", CVPR 2019.

    S. Narayan, A. Gupta, F. S. Khan, C. G. M. Snoek and L. Shao, "Latent embedding feedback and
    discriminative features for zero-shot classification", ECCV 2020.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdversarialGenerator._parameter_constraints,
        "adversarial": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"n_epochs": [300, 250, 200, 150, 100, 75, 50, 25]},
        "fast": {"n_epochs": [300, 200, 100, 50]},
    }

    def __init__(
        self,
        hidden_size: int = 4096,
        *,
        n_noise: int | None = None,
        gradient_penalty: float = 10.0,
        n_critic: int = 5,
        adversarial: float = 10.0,
        n_epochs: int = 300,
        batch_size: int = 64,
        learning_rate: float = 1e-4,
        device: str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.hidden_size = hidden_size
        self.n_noise = n_noise
        self.gradient_penalty = gradient_penalty
        self.n_critic = n_critic
        self.adversarial = adversarial
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _other_weights(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        return encoder_weights(rng, sizes)

    def _other_group(self, weights: list[Tensor]) -> dict[str, Any]:
        return {"params": weights, "betas": _ENCODER_BETAS}

    def _squash(self, x: Array) -> Array:
        return x.sigmoid() if hasattr(x, "sigmoid") else _sigmoid(x)

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        def loss(
            weights: list[Tensor],
            others: list[Tensor],
            critic: list[Tensor],
            batch: Batch,
            draw: Callable[[], Tensor],
        ) -> Tensor:
            return vaegan_loss(weights, others, critic, batch, draw(), draw(), self.adversarial)

        return loss


def encoder_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of an encoder: two hidden layers, then means and log variances."""
    wide, narrow, n_noise = sizes.hidden, 2 * sizes.n_noise, sizes.n_noise
    return [
        *normal_layer(rng, sizes.n_features + sizes.n_attributes, wide),
        *normal_layer(rng, wide, narrow),
        *normal_layer(rng, narrow, n_noise),
        *normal_layer(rng, narrow, n_noise),
    ]


def encoded(weights: list[Tensor], X: Tensor, signatures: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log variances of the noise that a sample stands for."""
    import torch

    hidden = leaky(layer(torch.cat([X, signatures], dim=1), *weights[:2]))
    hidden = leaky(layer(hidden, *weights[2:4]))
    return layer(hidden, *weights[4:6]), layer(hidden, *weights[6:8])


def vaegan_loss(
    weights: list[Tensor],
    encoder: list[Tensor],
    critic: list[Tensor],
    batch: Batch,
    deviation: Tensor,
    noise: Tensor,
    adversarial: float,
) -> Tensor:
    """What generator and encoder minimise."""
    import torch

    mean, log_variance = encoded(encoder, batch.X, batch.signatures)
    code = mean + deviation * torch.exp(0.5 * log_variance)
    reconstructed = torch.nn.functional.binary_cross_entropy_with_logits(
        generated(weights, code, batch.signatures), batch.X, reduction="sum"
    )
    # KL(N(m, v) ‖ N(0, 1)) = ½ (m² + v − 1 − log v)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    fake = generated(weights, noise, batch.signatures).sigmoid()
    passed = critic_scores(critic, fake, batch.signatures).mean()
    return (reconstructed + divergence) / len(batch.X) - adversarial * passed


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))
