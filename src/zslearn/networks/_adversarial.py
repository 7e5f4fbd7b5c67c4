r"""Generators of features that are trained against a critic: f-CLSWGAN and f-VAEGAN-D2.

A generator G turns noise z and a signature a into features, a critic D tells them from real ones.
With features scaled to [0, 1] and :math:`\hat x` on the line between a real and a generated sample
the critic maximises

.. math:: \mathbb E[D(x, a)] - \mathbb E[D(G(z, a), a)]
          - \lambda\, \mathbb E\bigl[(\|\nabla_{\hat x} D(\hat x, a)\|_2 - 1)^2\bigr].

Both networks have one hidden layer of leaky ReLU :math:`\phi`. Its slope is constant in pieces, so
that the gradient of the critic :math:`D = w^\top \phi(h), h = W_x x + W_a a + b` can be written
down, :math:`\nabla_x D = W_x^\top (w \odot \phi'(h))`, and the penalty needs first derivatives
only. The critic has no last intercept, which would cancel.

The generator of f-CLSWGAN must pass the critic and be recognised as the class by a softmax
regression p that was trained on the real features of the seen classes,

.. math:: \min_G \; -\mathbb E[D(G(z, a), a)] - \beta\, \mathbb E[\log p(y \mid G(z, a))].

That of f-VAEGAN-D2, in its inductive form, shares its weights with a variational autoencoder: an
encoder E makes Gaussian noise :math:`q(z \mid x, a)` of a sample, from which the generator must
reconstruct the sample,

.. math:: \min_{G, E} \; \mathbb E\bigl[\mathrm{KL}(q(z \mid x, a) \,\|\, \mathcal N(0, I))
          - \log p(x \mid G(z, a))\bigr] - \gamma\, \mathbb E[D(G(z, a), a)],

with a sigmoid in the last layer and the binary cross-entropy as :math:`-\log p`. The second critic
of the original, D2, learns from unlabelled images of unseen classes, which the inductive form does
not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from types import ModuleType
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from zslearn._solvers._logistic import softmax_path
from zslearn._utils._array import Array, Floats, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import checks_parameters
from zslearn.networks._torch_training import (
    CONSTRAINTS,
    Tensor,
    epochs,
    generator,
    learned,
    linear,
    need_torch,
    relu,
    tensor,
    trainable,
    training_device,
    training_threads,
)

# λ of the gradient penalty.
_GRADIENT_PENALTY = 10.0
# Slope of the hidden layers on the negative side.
_SLOPE = 0.2
# Standard deviation of the first weights; intercepts begin at zero.
_FIRST_WEIGHTS = 0.02
# What Adam forgets: generator and critic chase each other, and little momentum helps. An encoder
# has no opponent.
_BETAS = (0.5, 0.999)
_ENCODER_BETAS = (0.9, 0.999)
# Penalty of the softmax regression that judges generated features, which are scaled to [0, 1]. On
# held-out samples of the seen classes of CUB, 3e-4, 1e-4 and 3e-5 are right on 76.0, 75.8 and
# 75.8 %, with log losses of 1.00, 0.90 and 0.87.
_JUDGE_ALPHA = 1e-4
_JUDGE_TOL = 1e-3


class Sizes(NamedTuple):
    """Widths of the layers; the noise is as wide as a signature."""

    n_attributes: int
    hidden: int
    n_features: int


class Batch(NamedTuple):
    """What a step learns from."""

    X: Tensor  # scaled features
    y: Tensor
    signatures: Tensor  # of the class of each row


def normal_layer(rng: np.random.Generator, n_in: int, n_out: int) -> list[NDArray[Any]]:
    """First weights and intercepts of a layer."""
    return [rng.normal(scale=_FIRST_WEIGHTS, size=(n_in, n_out)), np.zeros(n_out)]


def generator_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of a generator: two layers, of which the first takes noise and signature."""
    hidden = normal_layer(rng, 2 * sizes.n_attributes, sizes.hidden)
    return [*hidden, *normal_layer(rng, sizes.hidden, sizes.n_features)]


def generated(weights: list[Tensor], noise: Tensor, signatures: Tensor) -> Tensor:
    """Outputs of the generator's last layer, before they are squashed."""
    import torch

    hidden = relu(linear(torch.cat([noise, signatures], dim=1), weights[0], weights[1]), _SLOPE)
    return linear(hidden, weights[2], weights[3])


def critic_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of a critic: of the features, of the signature, intercepts, last layer."""
    of_features, _ = normal_layer(rng, sizes.n_features, sizes.hidden)
    of_signature, intercept = normal_layer(rng, sizes.n_attributes, sizes.hidden)
    last, _ = normal_layer(rng, sizes.hidden, 1)
    return [of_features, of_signature, intercept, last]


def critic_scores(weights: list[Tensor], X: Tensor, signatures: Tensor) -> Tensor:
    """D(x, a) of each row."""
    of_features, of_signature, intercept, last = weights
    hidden = linear(signatures, of_signature, intercept).addmm(X, of_features)
    return (relu(hidden, _SLOPE) @ last)[:, 0]


def critic_loss(
    weights: list[Tensor],
    real: Tensor,
    fake: Tensor,
    share: Tensor,
    signatures: Tensor,
) -> Tensor:
    """What a critic minimises."""
    import torch

    of_features, of_signature, intercept, last = weights
    between = torch.lerp(fake, real, share)
    by_signature = linear(signatures, of_signature, intercept)
    n_rows = len(real)
    # One product for all three.
    hidden = by_signature.repeat(3, 1).addmm(torch.cat([real, fake, between]), of_features)
    scores = (relu(hidden[: 2 * n_rows], _SLOPE) @ last)[:, 0]
    slopes = (hidden[2 * n_rows :].detach() > 0).to(hidden.dtype) * (1 - _SLOPE) + _SLOPE
    gradients = (slopes * last[:, 0]) @ of_features.T
    penalty = ((gradients.norm(dim=1) - 1) ** 2).mean()
    return scores[n_rows:].mean() - scores[:n_rows].mean() + _GRADIENT_PENALTY * penalty


@saves(
    weights_=Saved(
        each=(
            Saved("n_inputs", "n_hidden"),
            Saved("n_hidden"),
            Saved("n_hidden", "n_features"),
            Saved("n_features"),
        )
    ),
    lowest_=Saved("n_features"),
    width_=Saved("n_features", least=0),
)
class AdversarialGenerator(BaseEstimator):
    """Base of generators that are trained against a critic.

    A subclass says what is trained with the generator, what its loss is, and how outputs become
    scaled features. Training is in single precision. Noise is drawn on the device: a generator
    meets some hundred million numbers, which NumPy would draw too slowly.

    Parameters
    ----------
    hidden_size : int, default=4096
        Hidden units of each network.
    n_critic : int, default=5
        Steps of the critic for one of the generator.
    batch_size : int, default=64
        Rows of a batch.
    learning_rate : float, default=1e-4
        Step of Adam.
    device : {"cpu", "cuda"} or None, default=None
        Where the networks are trained; None is a GPU where torch finds one, else the CPU. For
        tensors of torch, their own device. A fitted generator is on no device.
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
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_critic": [Interval(Integral, 1, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        hidden_size: int = 4096,
        *,
        n_epochs: int,
        n_critic: int = 5,
        batch_size: int = 64,
        learning_rate: float = 1e-4,
        device: str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.hidden_size = hidden_size
        self.n_epochs = n_epochs
        self.n_critic = n_critic
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _first_encoder(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        """First weights of an encoder that is trained with the generator; by default none."""
        return []

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """The loss of weights, encoder, critic, batch and `draw()`, noise for its rows."""
        raise NotImplementedError

    def _squash(self, x: Array) -> Array:
        """Outputs of the last layer as scaled features; works in NumPy and torch."""
        raise NotImplementedError

    def fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Self:
        """Learn from features of the seen classes."""
        (fitted,) = self.fit_stages(X, y, signatures, [self.n_epochs])
        self.__dict__.update(fitted.__dict__)
        return self

    @checks_parameters()
    def fit_stages(
        self, X: Array, y: NDArray[np.intp], signatures: Floats, n_epochs: Sequence[int]
    ) -> list[Self]:
        """Learn as :meth:`fit` does, for several numbers of epochs, in one run."""
        models = [clone(self).set_params(n_epochs=n) for n in n_epochs]
        torch = need_torch(type(self).__name__)
        place = training_device(X, self.device)
        if not compat.is_torch_array(X):
            X = torch.from_numpy(np.array(to_numpy(X), dtype=np.float32))
        X = X.detach().to(device=place, dtype=torch.float32)
        lowest, highest = X.amin(dim=0), X.amax(dim=0)
        width = torch.where(highest > lowest, highest - lowest, torch.ones_like(lowest))
        scaled, last = (X - lowest) / width, max(model.n_epochs for model in models)
        run = self._train(torch, scaled, np.asarray(y), unit_rows(signatures), last)
        for epoch, weights in enumerate(run, start=1):
            for model in models:
                if model.n_epochs == epoch:
                    model.weights_ = learned(weights)
                    model.lowest_, model.width_ = learned([lowest, width])
        if not all(np.isfinite(array).all() for model in models for array in model.weights_):
            raise ValueError(
                f"{type(self).__name__} diverged: its weights are not finite. Lower "
                f"learning_rate={self.learning_rate}."
            )
        return models

    def _train(
        self,
        torch: ModuleType,
        X: Tensor,
        y: NDArray[np.intp],
        signatures: Floats,
        n_epochs: int,
    ) -> Iterator[list[Tensor]]:
        """Train on scaled features; the generator's weights after each epoch."""
        n_attributes = signatures.shape[1]
        sizes = Sizes(n_attributes, self.hidden_size, int(X.shape[1]))
        rng, seed = generator(self.random_state)
        weights = trainable(generator_weights(rng, sizes), X)
        encoder = trainable(self._first_encoder(rng, sizes), X)
        critic = trainable(critic_weights(rng, sizes), X)
        groups: list[dict[str, Any]] = [{"params": weights}]
        if encoder:
            groups.append({"params": encoder, "betas": _ENCODER_BETAS})
        # On a GPU one kernel updates all weights, and can be recorded.
        adam = partial(
            torch.optim.Adam,
            lr=self.learning_rate,
            betas=_BETAS,
            fused=X.is_cuda,
            capturable=X.is_cuda,
        )
        optimizer, critic_optimizer = adam(groups), adam(critic)
        loss_of = self._loss_on(X, y)
        draw = _Draws(X, torch.as_tensor(y, device=X.device), tensor(signatures, X), seed)
        size, shape = self.batch_size, (self.batch_size, n_attributes)

        def step() -> None:
            for _ in range(self.n_critic):
                batch = draw.batch(size)
                with torch.no_grad():
                    fake = generated(weights, draw.normal(shape), batch.signatures)
                    fake = self._squash(fake)
                args = batch.X, fake, draw.uniform((size, 1)), batch.signatures
                _descend(critic_optimizer, critic_loss(critic, *args))
            # The critic's last batch serves the generator, too.
            loss = loss_of(weights, encoder, critic, batch, lambda: draw.normal(shape))
            _descend(optimizer, loss)

        work = size * sizes.hidden * (sizes.n_features + n_attributes)
        with training_threads(work):
            repeat = Repeated(step, draw.source) if X.is_cuda else step
            for _ in epochs(n_epochs, self.verbose, type(self).__name__):
                for _ in range(-(-len(X) // size)):
                    repeat()
                yield weights

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Array:
        """Draw features of classes; torch is not needed."""
        check_is_fitted(self)
        first, intercept, last, last_intercept = self.weights_
        described = np.asarray(unit_rows(signatures), dtype=np.float32)
        n_noise = described.shape[1]
        if len(first) != 2 * n_noise:
            raise ValueError(
                f"The generator learned from signatures of {len(first) // 2} attributes; got "
                f"{n_noise}."
            )
        noise = check_random_state(random_state).normal(size=(n_samples, n_noise))
        by_noise = noise.astype(np.float32) @ first[:n_noise]
        by_signature = described @ first[n_noise:] + intercept
        out = np.empty((len(described), n_samples, len(self.lowest_)), dtype=np.float32)
        for position, shift in enumerate(by_signature):
            hidden = relu(by_noise + shift, _SLOPE)
            scaled = self._squash(linear(hidden, last, last_intercept))
            out[position] = self.lowest_ + self.width_ * scaled
        return out


class _Draws:
    """Random batches and noise, drawn on the device of the rows."""

    def __init__(self, X: Tensor, y: Tensor, signatures: Tensor, seed: int) -> None:
        import torch

        self.X, self.y, self.signatures = X, y, signatures
        self.source = torch.Generator(device=X.device).manual_seed(seed)
        options = {"generator": self.source, "device": X.device}
        self.integers = partial(torch.randint, **options)
        #: Standard normal numbers, and numbers between 0 and 1, of a shape.
        self.normal, self.uniform = partial(torch.randn, **options), partial(torch.rand, **options)

    def batch(self, size: int) -> Batch:
        """Samples at random, with replacement."""
        rows = self.integers(len(self.X), (size,))
        y = self.y[rows]
        return Batch(self.X[rows], y, self.signatures[y])


class Repeated:
    """A step of training that a GPU records once and then repeats by itself.

    The step is many small operations; starting each from Python takes longer than computing it.
    `step` reads nothing but tensors that stay where they are, and random numbers from `source`.
    """

    #: Steps that run as usual: what is recorded must have run before.
    n_first = 3
    #: Whether steps are recorded at all.
    records = True

    def __init__(self, step: Callable[[], None], source: Any) -> None:
        self.step, self.source = step, source
        self.n_done = 0
        self.graph: Any = None

    def __call__(self) -> None:
        """Do one step."""
        from torch import cuda

        self.n_done += 1
        if not self.records:
            self.step()
            return
        if self.n_done <= self.n_first:
            # On a stream of its own, as recording demands of what ran before.
            aside = cuda.Stream()
            aside.wait_stream(cuda.current_stream())
            with cuda.stream(aside):
                self.step()
            cuda.current_stream().wait_stream(aside)
            return
        if self.graph is None:
            self.graph = cuda.CUDAGraph()
            self.graph.register_generator_state(self.source)
            with cuda.graph(self.graph):
                self.step()
        self.graph.replay()


def _descend(optimizer: Any, loss: Tensor) -> None:
    """One step of an optimiser; nothing but its own weights gets a gradient."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=weights)
    optimizer.step()


@inherit_docs
class WGANGenerator(AdversarialGenerator):
    """Generate features by a Wasserstein GAN (f-CLSWGAN); needs the `torch` extra to fit.

    The defaults are those published for CUB; for SUN take 40 epochs, a learning rate of 2e-4 and
    400 features per class, for AWA 30 epochs and 1e-5.

    Parameters
    ----------
    classification : float, default=0.01
        β, how much generated features must be recognised.
    n_epochs : int, default=56
        Epochs of the generator. A search over it, as `generator__n_epochs`, costs one run per fold.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on what it generates.
    VAEGANGenerator : Adds a variational autoencoder.

    Notes
    -----
    Networks, first weights, losses and the order of steps are those of the authors' program. What
    differs, inside :class:`GeneratedFeatures`:

    - Features have unit norm before each is scaled to [0, 1]; the program scales raw ones, as
      `feature_norm=None` does. Generated features are scaled back, and normalised where the real
      ones are, before a classifier learns from them; the program's learns from scaled ones.
    - The softmax regression p and the last classifier are minima of penalised losses; the program
      takes 50 and 25 epochs of Adam, and in the conventional setting trains the latter on the
      unseen classes alone.
    - A batch is drawn with replacement. The critic has no last intercept, which would cancel.

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
        n_critic: int = 5,
        classification: float = 0.01,
        n_epochs: int = 56,
        batch_size: int = 64,
        learning_rate: float = 1e-4,
        device: str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            hidden_size,
            n_epochs=n_epochs,
            n_critic=n_critic,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.classification = classification

    def _squash(self, x: Array) -> Array:
        return x.clip(min=0)

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """The judge is trained first, on real features."""
        (result,) = softmax_path(X, y, alphas=[_JUDGE_ALPHA], tol=_JUDGE_TOL)
        judge = result.coef.T.to(X.dtype), result.intercept.to(X.dtype)
        return lambda weights, _, critic, batch, draw: wgan_loss(
            weights, critic, judge, batch, draw(), self.classification
        )


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
    recognised = torch.nn.functional.cross_entropy(linear(fake, *judge), batch.y)
    return classification * recognised - critic_scores(critic, fake, batch.signatures).mean()


@inherit_docs
class VAEGANGenerator(AdversarialGenerator):
    """Generate features by a VAE and a GAN with one decoder (f-VAEGAN-D2, inductive).

    Needs the `torch` extra to fit.

    Parameters
    ----------
    adversarial : float, default=10.0
        γ, how much features must pass the critic.
    n_epochs : int, default=300
        Epochs of the generator; see :class:`WGANGenerator`.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on what it generates.
    WGANGenerator : Without autoencoder.

    Notes
    -----
    The number of epochs, γ, the layers of the encoder and the cross-entropy are those of a later
    program by others, TF-VAEGAN, for CUB. An epoch of that goes through the data twice; its critic
    sees reconstructions instead of features generated from standard normal noise, and λ changes as
    it trains. Features are scaled and classified as with :class:`WGANGenerator`.

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
        n_critic: int = 5,
        adversarial: float = 10.0,
        n_epochs: int = 300,
        batch_size: int = 64,
        learning_rate: float = 1e-4,
        device: str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            hidden_size,
            n_epochs=n_epochs,
            n_critic=n_critic,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.adversarial = adversarial

    def _first_encoder(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        return encoder_weights(rng, sizes)

    def _squash(self, x: Array) -> Array:
        # 1 / (1 + exp(−x)), without overflow.
        return x.sigmoid() if hasattr(x, "sigmoid") else 0.5 * (1.0 + np.tanh(0.5 * x))

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        return lambda weights, encoder, critic, batch, draw: vaegan_loss(
            weights, encoder, critic, batch, draw(), draw(), self.adversarial
        )


def encoder_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """First weights of an encoder: two hidden layers, then means and log variances."""
    wide, n_noise, narrow = sizes.hidden, sizes.n_attributes, 2 * sizes.n_attributes
    return [
        *normal_layer(rng, sizes.n_features + sizes.n_attributes, wide),
        *normal_layer(rng, wide, narrow),
        *normal_layer(rng, narrow, n_noise),
        *normal_layer(rng, narrow, n_noise),
    ]


def encoded(weights: list[Tensor], X: Tensor, signatures: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log variances of the noise that a sample stands for."""
    import torch

    hidden = relu(linear(torch.cat([X, signatures], dim=1), *weights[:2]), _SLOPE)
    hidden = relu(linear(hidden, *weights[2:4]), _SLOPE)
    return linear(hidden, *weights[4:6]), linear(hidden, *weights[6:8])


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
