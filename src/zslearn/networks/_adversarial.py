r"""Feature generators trained against a critic: f-CLSWGAN and f-VAEGAN-D2.

A generator G maps noise z and a signature a to features; a critic D distinguishes generated from
real features.
With features scaled to [0, 1] and :math:`\hat x` on the line between a real and a generated sample,
the critic maximises

.. math:: \mathbb E[D(x, a)] - \mathbb E[D(G(z, a), a)]
          - \lambda\, \mathbb E\bigl[(\|\nabla_{\hat x} D(\hat x, a)\|_2 - 1)^2\bigr].

Both networks have one hidden layer of leaky ReLU :math:`\phi`. As its slope is piecewise constant,
the gradient of the critic :math:`D = w^\top \phi(h), h = W_x x + W_a a + b` has the closed form
:math:`\nabla_x D = W_x^\top (w \odot \phi'(h))`, and the penalty needs first derivatives only. The
critic has no last intercept, which would cancel.

The generator of f-CLSWGAN is trained to satisfy the critic and to be recognised as the class by a
softmax regression p, the judge, that is trained on the real features of the seen classes,

.. math:: \min_G \; -\mathbb E[D(G(z, a), a)] - \beta\, \mathbb E[\log p(y \mid G(z, a))].

That of f-VAEGAN-D2, in its inductive form, is also the decoder of a variational autoencoder, whose
encoder E maps a sample to Gaussian noise :math:`q(z \mid x, a)`,

.. math:: \min_{G, E} \; \mathbb E\bigl[\mathrm{KL}(q(z \mid x, a) \,\|\, \mathcal N(0, I))
          - \log p(x \mid G(z, a))\bigr] - \gamma\, \mathbb E[D(G(z, a), a)],

with a sigmoid in the last layer and the binary cross-entropy as :math:`-\log p`. The second critic
of the original, D2, learns from unlabelled images of unseen classes and has no part in the
inductive form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
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
from zslearn._utils._optional import import_optional
from zslearn._utils._saved import Saved, saves
from zslearn._utils._torch import training_device, training_threads
from zslearn._utils._validation import checks_parameters
from zslearn.networks._torch_training import (
    CONSTRAINTS,
    Tensor,
    descend,
    epochs,
    linear,
    relu,
    rng_and_seed,
    tensor_like,
    to_arrays,
    trainable,
)

# λ of the gradient penalty.
_GRADIENT_PENALTY = 10.0
# Slope of the leaky ReLU below zero.
_SLOPE = 0.2
# Standard deviation of the initial weights; intercepts start at zero.
_INIT_STD = 0.02
# β₁ and β₂ of Adam. Generator and critic change together, for which little momentum works best; an
# encoder has no opponent.
_BETAS = (0.5, 0.999)
_ENCODER_BETAS = (0.9, 0.999)
# Penalty of the judge. On held-out samples of the seen classes of CUB, 3e-4, 1e-4 and 3e-5 give
# accuracies of 76.0, 75.8 and 75.8 % and log losses of 1.00, 0.90 and 0.87.
_JUDGE_ALPHA = 1e-4
_JUDGE_TOL = 1e-3


class Sizes(NamedTuple):
    """Widths of the layers; the noise is as wide as a signature."""

    n_attributes: int
    hidden: int
    n_features: int


class Batch(NamedTuple):
    """Scaled features of samples, their classes and the signatures of these."""

    X: Tensor
    y: Tensor
    signatures: Tensor


def normal_layer(rng: np.random.Generator, n_in: int, n_out: int) -> list[NDArray[Any]]:
    """Initial weights and intercepts of a layer."""
    return [rng.normal(scale=_INIT_STD, size=(n_in, n_out)), np.zeros(n_out)]


def generator_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """Initial weights of a generator, whose first layer takes noise and signature."""
    hidden = normal_layer(rng, 2 * sizes.n_attributes, sizes.hidden)
    return [*hidden, *normal_layer(rng, sizes.hidden, sizes.n_features)]


def generated(weights: list[Tensor], noise: Tensor, signatures: Tensor) -> Tensor:
    """Outputs of the generator before the activation of the last layer."""
    import torch

    hidden = relu(linear(torch.cat([noise, signatures], dim=1), *weights[:2]), _SLOPE)
    return linear(hidden, *weights[2:])


def critic_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """Initial weights of a critic: for features and for signatures, intercepts, last layer."""
    for_features, _ = normal_layer(rng, sizes.n_features, sizes.hidden)
    for_signatures, intercept = normal_layer(rng, sizes.n_attributes, sizes.hidden)
    last, _ = normal_layer(rng, sizes.hidden, 1)
    return [for_features, for_signatures, intercept, last]


def critic_scores(weights: list[Tensor], X: Tensor, signatures: Tensor) -> Tensor:
    """D(x, a) of each row."""
    for_features, for_signatures, intercept, last = weights
    hidden = linear(signatures, for_signatures, intercept).addmm(X, for_features)
    return (relu(hidden, _SLOPE) @ last)[:, 0]


def critic_loss(
    weights: list[Tensor], real: Tensor, fake: Tensor, share: Tensor, signatures: Tensor
) -> Tensor:
    """Loss of a critic."""
    import torch

    for_features, for_signatures, intercept, last = weights
    between = torch.lerp(fake, real, share)
    by_signature = linear(signatures, for_signatures, intercept)
    n_rows = len(real)
    # One matrix product serves all three.
    hidden = by_signature.repeat(3, 1).addmm(torch.cat([real, fake, between]), for_features)
    scores = (relu(hidden[: 2 * n_rows], _SLOPE) @ last)[:, 0]
    slopes = (hidden[2 * n_rows :].detach() > 0).to(hidden.dtype) * (1 - _SLOPE) + _SLOPE
    gradients = (slopes * last[:, 0]) @ for_features.T
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
@dataclass(eq=False, repr=False)
class AdversarialGenerator(BaseEstimator):
    """Base of generators that are trained against a critic.

    A subclass defines `_loss_on`, `_activate` and, if it trains an encoder, `_encoder_weights`.
    Training is in single precision. torch draws the noise, on the device: NumPy would be too slow
    for the hundreds of millions of numbers.

    Parameters
    ----------
    hidden_size : int, default=4096
        Number of hidden units of each network.
    n_critic : int, default=5
        Steps of the critic per step of the generator.
    batch_size : int, default=64
        Samples per step.
    learning_rate : float, default=1e-4
        Learning rate of Adam.
    device : {"cpu", "cuda"} or None, default=None
        Device for training; None uses a GPU if torch finds one. Tensors of torch stay on their own
        device. A fitted generator is not tied to a device.
    verbose : int, default=0
        If positive, show a progress bar of the epochs.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, the batches and the noise. Inside :class:`GeneratedFeatures`,
        None means the seed of that estimator.

    Attributes
    ----------
    weights_ : list of four ndarrays
        Weights and intercepts of the generator's two layers; the first takes noise, then signature.
    lowest_ : ndarray of shape (n_features,)
        Minimum of each training feature.
    width_ : ndarray of shape (n_features,)
        Range of each training feature, 1 for a constant one.
    """

    hidden_size: int = 4096
    _: KW_ONLY
    n_epochs: int
    n_critic: int = 5
    batch_size: int = 64
    learning_rate: float = 1e-4
    device: str | None = None
    verbose: int = 0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_critic": [Interval(Integral, 1, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
    }

    def _encoder_weights(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        """Initial weights of an encoder that is trained with the generator; none by default."""
        return []

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """The generator's loss, a function of weights, encoder, critic, batch and `draw()`."""
        raise NotImplementedError

    def _activate(self, x: Array) -> Array:
        """Activation of the last layer, for NumPy arrays and tensors."""
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
        """Fit in one run for several numbers of epochs."""
        models = [clone(self).set_params(n_epochs=n) for n in n_epochs]
        torch = import_optional("torch", type(self).__name__)
        device = training_device(X, self.device)
        if not compat.is_torch_array(X):
            X = torch.from_numpy(np.array(to_numpy(X), dtype=np.float32))
        X = X.detach().to(device=device, dtype=torch.float32)
        lowest, highest = X.amin(dim=0), X.amax(dim=0)
        width = torch.where(highest > lowest, highest - lowest, torch.ones_like(lowest))
        scaled = (X - lowest) / width
        run = self._train(scaled, np.asarray(y), unit_rows(signatures), max(n_epochs))
        for epoch, weights in enumerate(run, start=1):
            for model in models:
                if model.n_epochs == epoch:
                    model.weights_ = to_arrays(weights)
                    model.lowest_, model.width_ = to_arrays([lowest, width])
        if not all(np.isfinite(array).all() for model in models for array in model.weights_):
            raise ValueError(
                f"{type(self).__name__} diverged: its weights are not finite. Lower "
                f"learning_rate={self.learning_rate}."
            )
        return models

    def _train(
        self, X: Tensor, y: NDArray[np.intp], signatures: Floats, n_epochs: int
    ) -> Iterator[list[Tensor]]:
        """Train on scaled features; yield the generator's weights after each epoch."""
        import torch

        n_attributes = signatures.shape[1]
        sizes = Sizes(n_attributes, self.hidden_size, int(X.shape[1]))
        rng, seed = rng_and_seed(self.random_state)
        weights = trainable(generator_weights(rng, sizes), X)
        encoder = trainable(self._encoder_weights(rng, sizes), X)
        critic = trainable(critic_weights(rng, sizes), X)
        groups: list[dict[str, Any]] = [{"params": weights}]
        if encoder:
            groups.append({"params": encoder, "betas": _ENCODER_BETAS})
        # On a GPU one kernel updates all weights, and the step can be recorded.
        adam = partial(
            torch.optim.Adam,
            lr=self.learning_rate,
            betas=_BETAS,
            fused=X.is_cuda,
            capturable=X.is_cuda,
        )
        optimizer, critic_optimizer = adam(groups), adam(critic)
        loss_of = self._loss_on(X, y)
        draw = _Draws(X, torch.as_tensor(y, device=X.device), tensor_like(signatures, X), seed)
        size, shape = self.batch_size, (self.batch_size, n_attributes)

        def step() -> None:
            for _ in range(self.n_critic):
                batch = draw.batch(size)
                with torch.no_grad():
                    fake = generated(weights, draw.normal(shape), batch.signatures)
                    fake = self._activate(fake)
                args = batch.X, fake, draw.uniform((size, 1)), batch.signatures
                descend(critic_optimizer, critic_loss(critic, *args))
            # The generator uses the critic's last batch.
            loss = loss_of(weights, encoder, critic, batch, lambda: draw.normal(shape))
            descend(optimizer, loss)

        work = size * sizes.hidden * (sizes.n_features + n_attributes)
        with training_threads(work):
            repeat = Repeated(step, draw.source) if X.is_cuda else step
            for _ in epochs(n_epochs, self.verbose, type(self).__name__):
                for _ in range(-(-len(X) // size)):
                    repeat()
                yield weights

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Array:
        """Draw features of classes, of shape (n_classes, n_samples, n_features), without torch."""
        check_is_fitted(self)
        first, intercept, last, last_intercept = self.weights_
        described = np.asarray(unit_rows(signatures), dtype=np.float32)
        n_noise = described.shape[1]
        if len(first) != 2 * n_noise:
            raise ValueError(
                f"The generator was fitted on signatures of {len(first) // 2} attributes; got "
                f"{n_noise}."
            )
        noise = check_random_state(random_state).normal(size=(n_samples, n_noise))
        by_noise = noise.astype(np.float32) @ first[:n_noise]
        by_signature = described @ first[n_noise:] + intercept
        out = np.empty((len(described), n_samples, len(self.lowest_)), dtype=np.float32)
        for position, shift in enumerate(by_signature):
            hidden = relu(by_noise + shift, _SLOPE)
            scaled = self._activate(linear(hidden, last, last_intercept))
            out[position] = self.lowest_ + self.width_ * scaled
        return out


class _Draws:
    """Random batches and noise, drawn on the device of the samples."""

    def __init__(self, X: Tensor, y: Tensor, signatures: Tensor, seed: int) -> None:
        import torch

        self.X, self.y, self.signatures = X, y, signatures
        self.source = torch.Generator(device=X.device).manual_seed(seed)
        options = {"generator": self.source, "device": X.device}
        self.integers = partial(torch.randint, **options)
        #: Functions that draw numbers of a given shape.
        self.normal, self.uniform = partial(torch.randn, **options), partial(torch.rand, **options)

    def batch(self, size: int) -> Batch:
        """Draw samples with replacement."""
        rows = self.integers(len(self.X), (size,))
        y = self.y[rows]
        return Batch(self.X[rows], y, self.signatures[y])


class Repeated:
    """A training step that is recorded on a GPU once and then replayed.

    Launching the many small operations of a step from Python takes longer than computing them.
    `step` may only read tensors that stay in place and draw random numbers from `source`.
    """

    #: Number of steps before the recording, as CUDA graphs require.
    n_first = 3
    #: Whether to record the step at all.
    records = True

    def __init__(self, step: Callable[[], None], source: Any) -> None:
        self.step, self.source = step, source
        self.n_done = 0
        self.graph: Any = None

    def __call__(self) -> None:
        """Run one step."""
        from torch import cuda

        self.n_done += 1
        if not self.records:
            self.step()
        elif self.n_done <= self.n_first:
            # Steps before a recording must run on another stream.
            stream = cuda.Stream()
            stream.wait_stream(cuda.current_stream())
            with cuda.stream(stream):
                self.step()
            cuda.current_stream().wait_stream(stream)
        else:
            if self.graph is None:
                self.graph = cuda.CUDAGraph()
                self.graph.register_generator_state(self.source)
                with cuda.graph(self.graph):
                    self.step()
            self.graph.replay()


@inherit_docs
@dataclass(eq=False, repr=False)
class WGANGenerator(AdversarialGenerator):
    """Generate features by a Wasserstein GAN (f-CLSWGAN).

    Fitting needs the `torch` extra. The defaults are those published for CUB. For SUN use 40
    epochs, a learning rate of 2e-4 and 400 features per class; for AWA 30 epochs and 1e-5.

    Parameters
    ----------
    classification : float, default=0.01
        β, weight of the classification loss of generated features.
    n_epochs : int, default=56
        Number of epochs. A search over `generator__n_epochs` costs one run per fold.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on generated features.
    VAEGANGenerator : Adds a variational autoencoder.

    Notes
    -----
    Networks, initial weights, losses and the order of steps are those of the authors' program.
    Inside :class:`GeneratedFeatures` there are these differences:

    - Features are normalised to unit length before they are scaled to [0, 1]; the program scales
      raw features, as `feature_norm=None` does. Generated features are scaled back, and normalised
      like the real ones, before a classifier is trained; the program trains it on scaled features.
    - The judge and the final classifier minimise penalised losses; the program trains them for 50
      and 25 epochs of Adam, and in the conventional setting the latter on the unseen classes alone.
    - Batches are drawn with replacement. The critic has no last intercept, which would cancel.

    References
    ----------
    Y. Xian, T. Lorenz, B. Schiele and Z. Akata, "Feature generating networks for zero-shot
    learning", CVPR 2018.
    """

    _: KW_ONLY
    classification: float = 0.01
    n_epochs: int = 56

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdversarialGenerator._parameter_constraints,
        "classification": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"n_epochs": [56, 49, 42, 35, 28, 21, 14, 7]},
        "fast": {"n_epochs": [56, 42, 28, 14]},
    }

    def _activate(self, x: Array) -> Array:
        return x.clip(min=0)

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """Train the judge on real features."""
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
    """Loss of the generator of f-CLSWGAN."""
    import torch

    fake = generated(weights, noise, batch.signatures).clip(min=0)
    misclassified = torch.nn.functional.cross_entropy(linear(fake, *judge), batch.y)
    return classification * misclassified - critic_scores(critic, fake, batch.signatures).mean()


@inherit_docs
@dataclass(eq=False, repr=False)
class VAEGANGenerator(AdversarialGenerator):
    """Generate features by a VAE and a GAN that share a decoder (f-VAEGAN-D2, inductive).

    Fitting needs the `torch` extra.

    Parameters
    ----------
    adversarial : float, default=10.0
        γ, weight of the critic's score.
    n_epochs : int, default=300
        Number of epochs; see :class:`WGANGenerator`.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on generated features.
    WGANGenerator : Has no autoencoder.

    Notes
    -----
    The number of epochs, γ, the layers of the encoder and the cross-entropy are those of TF-VAEGAN,
    a later program by other authors, for CUB. There an epoch visits the data twice, the critic sees
    reconstructions instead of features generated from standard normal noise, and λ changes during
    training. Features are scaled and classified as with :class:`WGANGenerator`.

    References
    ----------
    Y. Xian, S. Sharma, B. Schiele and Z. Akata, "f-VAEGAN-D2: a feature generating framework for
    any-shot learning", CVPR 2019.

    S. Narayan, A. Gupta, F. S. Khan, C. G. M. Snoek and L. Shao, "Latent embedding feedback and
    discriminative features for zero-shot classification", ECCV 2020.
    """

    _: KW_ONLY
    adversarial: float = 10.0
    n_epochs: int = 300

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdversarialGenerator._parameter_constraints,
        "adversarial": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"n_epochs": [300, 250, 200, 150, 100, 75, 50, 25]},
        "fast": {"n_epochs": [300, 200, 100, 50]},
    }

    def _encoder_weights(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        return encoder_weights(rng, sizes)

    def _activate(self, x: Array) -> Array:
        # 1 / (1 + exp(−x)), without overflow.
        return x.sigmoid() if hasattr(x, "sigmoid") else 0.5 * (1.0 + np.tanh(0.5 * x))

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        return lambda weights, encoder, critic, batch, draw: vaegan_loss(
            weights, encoder, critic, batch, draw(), draw(), self.adversarial
        )


def encoder_weights(rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
    """Initial weights of an encoder: two hidden layers, then means and log variances."""
    wide, n_noise, narrow = sizes.hidden, sizes.n_attributes, 2 * sizes.n_attributes
    return [
        *normal_layer(rng, sizes.n_features + sizes.n_attributes, wide),
        *normal_layer(rng, wide, narrow),
        *normal_layer(rng, narrow, n_noise),
        *normal_layer(rng, narrow, n_noise),
    ]


def encoded(weights: list[Tensor], X: Tensor, signatures: Tensor) -> tuple[Tensor, Tensor]:
    """Means and log variances of the noise that encodes each sample."""
    import torch

    hidden = relu(linear(torch.cat([X, signatures], dim=1), *weights[:2]), _SLOPE)
    hidden = relu(linear(hidden, *weights[2:4]), _SLOPE)
    return linear(hidden, *weights[4:6]), linear(hidden, *weights[6:])


def vaegan_loss(
    weights: list[Tensor],
    encoder: list[Tensor],
    critic: list[Tensor],
    batch: Batch,
    deviation: Tensor,
    noise: Tensor,
    adversarial: float,
) -> Tensor:
    """Loss of the generator and encoder of f-VAEGAN-D2."""
    import torch

    mean, log_variance = encoded(encoder, batch.X, batch.signatures)
    code = mean + deviation * torch.exp(0.5 * log_variance)
    reconstruction = torch.nn.functional.binary_cross_entropy_with_logits(
        generated(weights, code, batch.signatures), batch.X, reduction="sum"
    )
    # KL(N(m, v) ‖ N(0, 1)) = ½ (m² + v − 1 − log v)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    fake = generated(weights, noise, batch.signatures).sigmoid()
    critic_score = critic_scores(critic, fake, batch.signatures).mean()
    return (reconstruction + divergence) / len(batch.X) - adversarial * critic_score
