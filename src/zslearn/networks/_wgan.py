r"""f-CLSWGAN: features from a Wasserstein GAN that must also be recognised as their class.

.. math:: \min_G \; -\mathbb E[D(G(z, a), a)] - \beta\, \mathbb E[\log p(y \mid G(z, a))],

where p is a softmax regression trained on the real features of the seen classes. What the critic D
minimises: see `_adversarial_networks`.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._solvers.logistic import softmax_path
from zslearn._utils._array import Array
from zslearn.networks._adversarial import (
    AdversarialGenerator,
    Batch,
    critic_scores,
    generated,
    layer,
)
from zslearn.networks._torch_training import Tensor

# Penalty of the softmax regression that judges generated features, which are scaled to [0, 1]. On
# held-out samples of the seen classes of CUB, 3e-4, 1e-4 and 3e-5 are right on 76.0, 75.8 and
# 75.8 %, with log losses of 1.00, 0.90 and 0.87.
_JUDGE_ALPHA = 1e-4
_JUDGE_TOL = 1e-3


class WGANGenerator(AdversarialGenerator):
    """Generate features by a Wasserstein GAN (f-CLSWGAN); needs the `torch` extra to fit.

    The defaults are those published for CUB; for SUN take 40 epochs, a learning rate of 2e-4 and
    400 features per class, for AWA 30 epochs and 1e-5.

    Parameters
    ----------
    hidden_size : int, default=4096
        Hidden units of generator and critic.
    n_noise : int, optional
        Width of the noise; by default that of a signature.
    gradient_penalty : float, default=10.0
        λ, how much the critic's slope must be one.
    n_critic : int, default=5
        Steps of the critic for one of the generator.
    classification : float, default=0.01
        β, how much generated features must be recognised.
    n_epochs : int, default=56
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
    VAEGANGenerator : Adds a variational autoencoder.

    References
    ----------
    Y. Xian, T. Lorenz, B. Schiele and Z. Akata, "Feature generating networks for zero-shot
    learning", CVPR 2018.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdversarialGenerator._parameter_constraints,
        "classification": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"n_epochs": [56, 49, 42, 35, 28, 21, 14, 7]},
        "fast": {"n_epochs": [56, 42, 28, 14]},
    }

    def __init__(
        self,
        hidden_size: int = 4096,
        *,
        n_noise: int | None = None,
        gradient_penalty: float = 10.0,
        n_critic: int = 5,
        classification: float = 0.01,
        n_epochs: int = 56,
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
        self.classification = classification
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _squash(self, x: Array) -> Array:
        return x.clip(min=0)

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """The judge is trained first, on real features."""
        (result,) = softmax_path(X, y, alphas=[_JUDGE_ALPHA], tol=_JUDGE_TOL)
        judge = result.coef.T.to(X.dtype), result.intercept.to(X.dtype)

        def loss(
            weights: list[Tensor],
            others: list[Tensor],
            critic: list[Tensor],
            batch: Batch,
            draw: Callable[[], Tensor],
        ) -> Tensor:
            return wgan_loss(weights, critic, judge, batch, draw(), self.classification)

        return loss


def wgan_loss(
    weights: list[Tensor],
    critic: list[Tensor],
    judge: tuple[Tensor, Tensor],
    batch: Batch,
    noise: Tensor,
    classification: float,
) -> Tensor:
    """What the generator minimises."""
    import torch

    fake = generated(weights, noise, batch.signatures).clip(min=0)
    recognised = torch.nn.functional.cross_entropy(layer(fake, *judge), batch.y)
    return classification * recognised - critic_scores(critic, fake, batch.signatures).mean()
