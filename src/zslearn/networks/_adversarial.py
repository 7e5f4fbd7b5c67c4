"""How a generator of features and its critic are trained; see `_adversarial_networks`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

from zslearn._utils._array import Array, Floats, to_numpy, unit_rows
from zslearn._utils._validation import checks_parameters
from zslearn.networks._torch_training import (
    CONSTRAINTS,
    Tensor,
    epochs,
    generator,
    learned,
    need_torch,
    tensor,
    trainable,
    training_device,
    training_threads,
)

# Generators of features that are trained against a critic, given the signature of the class.
#
# A generator G turns noise z and a signature a into features, a critic D tells them from real
# ones.
# With features scaled to [0, 1] and :math:`\hat x` on the line between a real and a generated
# sample
# the critic maximises
#
# .. math:: \mathbb E[D(x, a)] - \mathbb E[D(G(z, a), a)]
#           - \lambda\, \mathbb E\bigl[(\|\nabla_{\hat x} D(\hat x, a)\|_2 - 1)^2\bigr].
#
# Both networks have one hidden layer of leaky ReLU :math:`\phi`. Its slope is constant in
# pieces, so
# that the gradient of the critic :math:`D = w^\top \phi(h), h = W_x x + W_a a + b` can be written
# down, :math:`\nabla_x D = W_x^\top (w \odot \phi'(h))`, and the penalty needs first derivatives
# only. The critic has no last intercept, which would cancel.

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
    """What a critic minimises."""
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


# What Adam forgets: generator and critic chase each other, and little momentum helps.
_BETAS = (0.5, 0.999)


def adam(torch: ModuleType, groups: list[dict[str, Any]], learning_rate: float) -> Any:
    """Adam over groups of weights; on a GPU one kernel updates all, and can be recorded."""
    on_gpu = groups[0]["params"][0].is_cuda
    return torch.optim.Adam(groups, lr=learning_rate, betas=_BETAS, fused=on_gpu, capturable=on_gpu)


class AdversarialGenerator(BaseEstimator):
    """Base of generators that are trained against a critic.

    A subclass has the hyper-parameters below besides its own, and says what is trained with the
    generator, what its loss is, and how outputs become scaled features. Training is in single
    precision. The noise is drawn on the device: a generator meets some hundred million numbers, for
    which it would wait if NumPy drew them.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "n_noise": [Interval(Integral, 1, None, closed="left"), None],
        "gradient_penalty": [Interval(Real, 0, None, closed="left")],
        "n_critic": [Interval(Integral, 1, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
    }

    hidden_size: int
    n_noise: int | None
    gradient_penalty: float
    n_critic: int
    n_epochs: int
    batch_size: int
    learning_rate: float
    device: str | None
    verbose: int
    random_state: Any

    # What a subclass writes.

    def _other_weights(self, rng: np.random.Generator, sizes: Sizes) -> list[NDArray[Any]]:
        """First weights of what is trained with the generator."""
        return []

    def _other_group(self, weights: list[Tensor]) -> dict[str, Any]:
        """How these are trained, as a group of an optimiser."""
        return {"params": weights}

    def _loss_on(self, X: Tensor, y: NDArray[np.intp]) -> Callable[..., Tensor]:
        """The generator's loss: a function of its weights, others, critic, batch and `draw`.

        `draw()` gives noise for the rows of a batch.
        """
        raise NotImplementedError

    def _squash(self, x: Array) -> Array:
        """Outputs of the last layer as scaled features; works in NumPy and torch."""
        raise NotImplementedError

    # What a user calls.

    @checks_parameters()
    def fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Self:
        """Learn from features of the seen classes."""
        self._stages(X, y, signatures, [self])
        return self

    @checks_parameters()
    def fit_stages(
        self, X: Array, y: NDArray[np.intp], signatures: Floats, n_epochs: Sequence[int]
    ) -> list[Self]:
        """Learn as :meth:`fit` does, for several numbers of epochs, in one run."""
        copies = [clone(self).set_params(n_epochs=n) for n in n_epochs]
        return self._stages(X, y, signatures, copies)

    def _stages(
        self, X: Array, y: NDArray[np.intp], signatures: Floats, models: Sequence[Self]
    ) -> list[Self]:
        """Train one network, and give each model its state after the model's epochs."""
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
                    model._take(learned(weights), *learned([lowest, width]))
        return list(models)

    def _take(self, weights: list[NDArray[Any]], lowest: NDArray[Any], width: NDArray[Any]) -> None:
        """Take over a trained network, unless it is none."""
        if not all(np.isfinite(array).all() for array in weights):
            raise ValueError(
                f"{type(self).__name__} diverged: its weights are not finite. Lower "
                f"learning_rate={self.learning_rate}."
            )
        self.weights_, self.lowest_, self.width_ = weights, lowest, width

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
        sizes = Sizes(self.n_noise or n_attributes, n_attributes, self.hidden_size, int(X.shape[1]))
        rng, seed = generator(self.random_state)
        weights = trainable(generator_weights(rng, sizes), X)
        others = trainable(self._other_weights(rng, sizes), X)
        critic = trainable(critic_weights(rng, sizes), X)
        groups = [{"params": weights}, *([self._other_group(others)] if others else [])]
        optimizer = adam(torch, groups, self.learning_rate)
        critic_optimizer = adam(torch, [{"params": critic}], self.learning_rate)
        loss_of = self._loss_on(X, y)
        draw = _Draws(torch, X, torch.as_tensor(y, device=X.device), tensor(signatures, X), seed)
        size, shape = self.batch_size, (self.batch_size, sizes.n_noise)

        def step() -> None:
            for _ in range(self.n_critic):
                batch = draw.batch(size)
                with torch.no_grad():
                    fake = generated(weights, draw.normal(shape), batch.signatures)
                    fake = self._squash(fake)
                args = batch.X, fake, draw.uniform((size, 1)), batch.signatures
                _descend(critic_optimizer, critic_loss(critic, *args, self.gradient_penalty))
            # The critic's last batch serves the generator, too.
            loss = loss_of(weights, others, critic, batch, lambda: draw.normal(shape))
            _descend(optimizer, loss)

        work = size * sizes.hidden * (sizes.n_features + n_attributes)
        with training_threads(work):
            repeat = Repeated(torch, step, draw.source) if X.is_cuda else step
            for _ in epochs(n_epochs, self.verbose, type(self).__name__):
                for _ in range(-(-len(X) // size)):
                    repeat()
                yield weights

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Array:
        """Draw features of classes; torch is not needed."""
        check_is_fitted(self)
        first, intercept, last, last_intercept = self.weights_
        described = np.asarray(unit_rows(signatures), dtype=np.float32)
        n_noise = len(first) - described.shape[1]
        noise = check_random_state(random_state).normal(size=(n_samples, n_noise))
        by_noise = noise.astype(np.float32) @ first[:n_noise]
        by_signature = described @ first[n_noise:] + intercept
        out = np.empty((len(described), n_samples, len(self.lowest_)), dtype=np.float32)
        for position, shift in enumerate(by_signature):
            hidden = leaky(by_noise + shift)
            scaled = self._squash(layer(hidden, last, last_intercept))
            out[position] = self.lowest_ + self.width_ * scaled
        return out


class _Draws:
    """Random batches and noise, drawn on the device of the rows."""

    def __init__(
        self, torch: ModuleType, X: Tensor, y: Tensor, signatures: Tensor, seed: int
    ) -> None:
        self.torch, self.X, self.y, self.signatures = torch, X, y, signatures
        self.source = torch.Generator(device=X.device).manual_seed(seed)
        self.options = {"generator": self.source, "device": X.device}

    def batch(self, size: int) -> Batch:
        """Samples at random, with replacement."""
        rows = self.torch.randint(len(self.X), (size,), **self.options)
        y = self.y[rows]
        return Batch(self.X[rows], y, self.signatures[y])

    def normal(self, shape: tuple[int, int]) -> Tensor:
        """Standard normal numbers."""
        return self.torch.randn(shape, **self.options)

    def uniform(self, shape: tuple[int, int]) -> Tensor:
        """Numbers between 0 and 1."""
        return self.torch.rand(shape, **self.options)


class Repeated:
    """A step of training that a GPU records once and then repeats by itself.

    The step is many small operations; starting each from Python takes longer than computing it.
    The first steps run as usual, since what is recorded must have run before.

    Parameters
    ----------
    torch : module
        Torch.
    step : callable
        Takes and returns nothing, and reads nothing but tensors that stay where they are.
    source : torch.Generator
        What the step draws random numbers from.
    """

    #: Steps that run as usual.
    n_first = 3
    #: Whether steps are recorded at all.
    records = True

    def __init__(self, torch: ModuleType, step: Callable[[], None], source: Any) -> None:
        self.torch, self.step, self.source = torch, step, source
        self.n_done = 0
        self.graph: Any = None

    def __call__(self) -> None:
        """Do one step."""
        self.n_done += 1
        if not self.records:
            self.step()
            return
        if self.n_done <= self.n_first:
            self._aside(self.step)
            return
        if self.graph is None:
            self.graph = self.torch.cuda.CUDAGraph()
            self.graph.register_generator_state(self.source)
            with self.torch.cuda.graph(self.graph):
                self.step()
        self.graph.replay()

    def _aside(self, step: Callable[[], None]) -> None:
        """Run on a stream of its own, as recording demands of what ran before."""
        cuda = self.torch.cuda
        aside = cuda.Stream()
        aside.wait_stream(cuda.current_stream())
        with cuda.stream(aside):
            step()
        cuda.current_stream().wait_stream(aside)


def _descend(optimizer: Any, loss: Tensor) -> None:
    """One step of an optimiser; nothing but its own weights gets a gradient."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=weights)
    optimizer.step()
