r"""CADA-VAE: features and signatures are encoded into one latent space; a softmax tells classes.

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
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._solvers._logistic import softmax_path
from zslearn._utils._array import Array, Floats, move_like, row_blocks, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._training import Training
from zslearn.networks import _torch_training as networks
from zslearn.networks._torch_training import (
    DeviceRows,
    ScheduledMethod,
    Tensor,
    linear,
    relu,
    uniform_layer,
)

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


def first_weights(
    rng: np.random.Generator,
    n_features: int,
    n_attributes: int,
    latent_size: int,
    encoder_sizes: tuple[int, int],
    decoder_sizes: tuple[int, int],
) -> Autoencoders:
    """Random weights; each pair of sizes is for features and for signatures."""
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
    """Latents of Gaussians: one number for all dimensions, times σ²."""
    xp = compat.array_namespace(gaussians.mean)
    return gaussians.mean + xp.exp(gaussians.log_variance) * noise


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
    """Mean loss of a batch."""
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


# The softmax need not be more exact than what the drawn latents leave open.
_SOFTMAX_TOL = 1e-4
_PENALTIES = [3e-3, 1e-3, 5e-4, 2e-4, 1e-4]


@inherit_docs
@saves(
    encoder_=Saved(
        each=(
            Saved("n_features", "n_hidden"),
            Saved("n_hidden"),
            Saved("n_hidden", "n_latent"),
            Saved("n_latent"),
            Saved("n_hidden", "n_latent"),
            Saved("n_latent"),
        )
    ),
    signature_encoder_=Saved(
        each=(
            Saved("n_attributes", "n_hidden_signature"),
            Saved("n_hidden_signature"),
            Saved("n_hidden_signature", "n_latent"),
            Saved("n_latent"),
            Saved("n_hidden_signature", "n_latent"),
            Saved("n_latent"),
        )
    ),
    decoders_=Saved(kind=list, each=True),
    feature_min_=Saved("n_features"),
    feature_range_=Saved("n_features"),
    seen_latents_=Saved("n_seen", "n_drawn", "n_latent"),
    latent_seed_=Saved(kind="int", least=0),
)
class CADAVAE(ScheduledMethod):
    """Aligned variational autoencoders of features and signatures, and a softmax on latents.

    Fitting needs the `torch` extra; a fitted method, also one that describes further classes, does
    not.

    Parameters
    ----------
    latent_size : int, default=64
        Dimensions of the latent space.
    encoder_sizes : tuple of two int, default=(1560, 1450)
        Hidden units of the encoders of features and of signatures.
    decoder_sizes : tuple of two int, default=(1660, 665)
        Hidden units of the decoders.
    divergence_weight : float, default=0.25
        β, the weight of the divergence for 2,048 features; proportionally less for fewer, whose
        errors sum to less. It grows over 93 % of the epochs.
    cross_weight : float, default=2.37
        γ, the weight of cross-alignment. It grows between 21 and 75 % of the epochs.
    distance_weight : float, default=8.13
        δ, the weight of distribution alignment, likewise for 2,048 features. It grows between 6 and
        22 % of the epochs.
    learning_rate : float, default=1.5e-4
        Step of Adam, in the form of AMSGrad.
    batch_size : int, default=50
        Samples of a step.
    max_iter : int, default=100
        Epochs.
    n_seen_latents : int, default=200
        Latents per seen class that the softmax learns from, drawn from the Gaussians of images.
    n_unseen_latents : int, default=400
        Latents per unseen class, drawn from the Gaussian of its signature. The more of them, the
        more often unseen classes are predicted.
    alpha : float, default=5e-4
        Weight of the softmax's ℓ2 penalty; see :func:`~zslearn.solvers.softmax_path`.

    Attributes
    ----------
    encoder_, signature_encoder_ : list of ndarray
        Weights and intercepts: of the hidden layer, of the means, of the log variances.
    decoders_ : tuple of two lists of ndarray
        Those of the decoders, of features and of signatures.
    feature_min_, feature_range_ : ndarray of shape (n_features,)
        Minimum and range by which features are scaled to [0, 1].
    seen_latents_ : ndarray of shape (n_seen, n_seen_latents, latent_size)
        Latents of training images.
    latent_seed_ : int
        Decides the latents, whenever classes are described.

    See Also
    --------
    ClassNorm : A network from signatures to prototypes, which trains faster.

    Notes
    -----
    The softmax is over all described classes, so that one more class changes the scores of the
    others: `add_classes` fits it again, on the same latents of the other classes. In the
    conventional setting the authors fit a softmax to unseen classes alone.

    As in the authors' program (github.com/edgarschnfld/CADA-VAE-PyTorch), signatures have unit norm
    and a latent is drawn with one number for all dimensions, times σ²; the paper has a number for
    each dimension, times σ. What differs from the program:

    - The softmax is the minimum of its penalised loss; the program stops Adam after a number of
      epochs that was fixed for each data set by validation.
    - Features have unit norm before each is scaled to [0, 1]; the program scales raw ones, as
      `feature_norm=None` does, and test images by their own ranges.
    - An epoch goes through all samples; the program draws every batch anew.

    References
    ----------
    E. Schönfeld, S. Ebrahimi, S. Sinha, T. Darrell and Z. Akata, "Generalized zero- and few-shot
    learning via aligned variational autoencoders", CVPR 2019.

    Examples
    --------
    >>> from zslearn.networks import CADAVAE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CADAVAE(16, encoder_sizes=(64, 64), decoder_sizes=(64, 64), learning_rate=2e-3)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.4
    True
    """

    _untrained: ClassVar[tuple[str, ...]] = ("alpha", "n_seen_latents", "n_unseen_latents")
    _synthesis_trains: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScheduledMethod._parameter_constraints,
        "latent_size": [Interval(Integral, 1, None, closed="left")],
        "encoder_sizes": [tuple, list],
        "decoder_sizes": [tuple, list],
        "divergence_weight": [Interval(Real, 0, None, closed="left")],
        "cross_weight": [Interval(Real, 0, None, closed="left")],
        "distance_weight": [Interval(Real, 0, None, closed="left")],
        "n_seen_latents": [Interval(Integral, 1, None, closed="left")],
        "n_unseen_latents": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "latent_size": [32, 64, 128],
            "distance_weight": [4.0, 8.13, 16.0],
            "alpha": _PENALTIES,
            "stop_after": [100, 75, 50, 25],
        },
        "fast": {"latent_size": [32, 64], "alpha": _PENALTIES, "stop_after": [100, 60]},
        "epochs": {"stop_after": [100, 80, 60, 40, 20]},
    }

    def __init__(
        self,
        latent_size: int = 64,
        *,
        encoder_sizes: tuple[int, int] = (1560, 1450),
        decoder_sizes: tuple[int, int] = (1660, 665),
        divergence_weight: float = 0.25,
        cross_weight: float = 2.37,
        distance_weight: float = 8.13,
        learning_rate: float = 1.5e-4,
        batch_size: int = 50,
        max_iter: int = 100,
        stop_after: int | None = None,
        n_seen_latents: int = 200,
        n_unseen_latents: int = 400,
        alpha: float = 5e-4,
        device: str | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.latent_size = latent_size
        self.encoder_sizes = encoder_sizes
        self.decoder_sizes = decoder_sizes
        self.divergence_weight = divergence_weight
        self.cross_weight = cross_weight
        self.distance_weight = distance_weight
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.stop_after = stop_after
        self.n_seen_latents = n_seen_latents
        self.n_unseen_latents = n_unseen_latents
        self.alpha = alpha
        self.device = device
        self.verbose = verbose
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _epochs(self, training: Training) -> networks.Run:
        """Change the weights of both autoencoders by Adam."""
        import torch

        rng, seed = networks.generator(self.random_state)
        xp = compat.array_namespace(training.X)
        smallest = to_numpy(xp.min(training.X, axis=0))
        width = to_numpy(xp.max(training.X, axis=0)) - smallest
        width = np.where(width > 0, width, np.ones_like(width))
        rows = DeviceRows(scale(training.X, smallest, width), training.y, self.device)
        signatures = networks.tensor(unit_rows(training.signatures), rows.like)
        start = first_weights(
            rng,
            rows.n_features,
            training.signatures.shape[1],
            self.latent_size,
            two_sizes("encoder_sizes", self.encoder_sizes),
            two_sizes("decoder_sizes", self.decoder_sizes),
        )
        weights = Autoencoders(*(networks.trainable(part, rows.like) for part in start))
        every = [w for part in weights for w in part]
        optimizer = torch.optim.Adam(every, lr=self.learning_rate, amsgrad=True, fused=True)

        def state() -> dict[str, Any]:
            encoder, signature_encoder, *decoders = (networks.learned(part) for part in weights)
            return {
                "encoder_": encoder,
                "signature_encoder_": signature_encoder,
                "decoders_": tuple(decoders),
                "feature_min_": smallest,
                "feature_range_": width,
                "latent_seed_": seed,
            }

        with networks.training_threads(self.batch_size * sum(w.numel() for w in every)):
            for epoch in range(self.max_iter):
                at = self._loss_weights(epoch, rows.n_features)
                losses = []
                for X, y in rows.batches(self.batch_size, rng):
                    drawn = rng.standard_normal((2, len(X), 1))
                    noise = networks.tensor(drawn, rows.like)
                    optimizer.zero_grad()
                    value = loss(weights, X, signatures[y], (noise[0], noise[1]), at)
                    value.backward()
                    optimizer.step()
                    losses.append(value.detach())
                yield float(torch.stack(losses).mean()), state

    @property
    def _rows_per_class(self) -> int:
        """Latents that are drawn to describe a class."""
        return int(self.n_unseen_latents)

    def _loss_weights(self, epoch: int, n_features: int) -> LossWeights:
        """β, γ and δ in an epoch."""
        progress, share = epoch / self.max_iter, n_features / _USUAL_FEATURES
        grown = [
            min(max((progress - start) / (end - start), 0.0), 1.0)
            for start, end in (_DIVERGENCE_TIME, _CROSS_TIME, _DISTANCE_TIME)
        ]
        return LossWeights(
            self.divergence_weight * share * grown[0],
            self.cross_weight * grown[1],
            self.distance_weight * share * grown[2],
        )

    def _complete(self, training: Training) -> None:
        """Draw latents of training images, the same number for each seen class."""
        rng = np.random.default_rng([self.latent_seed_, 0])
        gaussians = self._encode_images(training.X)
        latents = []
        for position in range(training.n_seen):
            members = rng.permutation(np.flatnonzero(training.y == position))
            members = np.resize(members, self.n_seen_latents)  # again from the first
            noise = rng.standard_normal((len(members), 1))
            chosen = Gaussians(*(part[members] for part in gaussians))
            latents.append(draw(chosen, noise.astype(chosen.mean.dtype)))
        self.seen_latents_ = np.stack(latents)

    def _encode_images(self, X: Array) -> Gaussians:
        """The Gaussian of each image, on the host."""
        n_hidden = self.encoder_[0].shape[1]
        parts = [
            encode(self.encoder_, scale(X[rows, :], self.feature_min_, self.feature_range_))
            for rows in row_blocks(X.shape[0], 8 * (X.shape[1] + n_hidden))
        ]
        return Gaussians(
            *(np.concatenate([to_numpy(p) for p in part]) for part in zip(*parts, strict=True))
        )

    def embed(self, X: Array) -> Array:
        """Means of the images' Gaussians, with a one behind for the intercept."""
        scaled = scale(X, self.feature_min_, self.feature_range_)
        return networks.with_intercept(encode(self.encoder_, scaled).mean)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Fit a softmax with intercepts to latents, of seen classes by images, else by signatures.

        Without `labels` all count as unseen.
        """
        n_classes = len(signatures)
        if n_classes < 2:  # nothing to tell apart
            return np.zeros((n_classes, self.seen_latents_.shape[2] + 1))
        latents = self._latents(signatures, labels)
        if not all(np.isfinite(part).all() for part in latents):
            raise ValueError(
                "CADAVAE draws NaN or infinite latents of these classes. Lower learning_rate, or "
                "look at the scale of X and of the signatures."
            )
        y = np.repeat(np.arange(n_classes), [len(part) for part in latents])
        (result,) = softmax_path(
            np.concatenate(latents), y, n_classes, alphas=[self.alpha], tol=_SOFTMAX_TOL
        )
        return np.column_stack([result.coef, result.intercept])

    def _latents(self, signatures: Floats, labels: NDArray[Any] | None) -> list[NDArray[Any]]:
        """Latents that stand for each class."""
        inputs = unit_rows(signatures).astype(self.seen_latents_.dtype)
        gaussians = encode(self.signature_encoder_, inputs)
        # The same for every class, so that one more class leaves the latents of others.
        rng = np.random.default_rng([self.latent_seed_, 1])
        noise = rng.standard_normal((int(self.n_unseen_latents), 1)).astype(inputs.dtype)
        positions = np.full(len(signatures), -1)
        if labels is not None:
            seen = np.isin(labels, self.seen_classes_)
            positions[seen] = np.searchsorted(self.seen_classes_, labels[seen])
        return [
            draw(Gaussians(*(part[[row]] for part in gaussians)), noise)
            if position < 0
            else self.seen_latents_[position]
            for row, position in enumerate(positions.tolist())
        ]
