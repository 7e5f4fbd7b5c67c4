r"""CADA-VAE: features and signatures are encoded into one latent space, where a softmax classifies.

An encoder maps an input, features x or a signature a, to a Gaussian in the latent space with mean
:math:`\mu` and variances :math:`\sigma^2`; a decoder maps a latent vector z back. With z drawn from
the Gaussian of x, and z' from that of the signature a of its class, the loss of a sample is

.. math:: & \|x - D_x(z)\|_1 + \|a - D_a(z')\|_1 && \text{(reconstruction)} \\
          & + \beta \, [\mathrm{KL}(x) + \mathrm{KL}(a)] && \text{(divergence from } N(0, I)) \\
          & + \gamma \, [\|x - D_x(z')\|_1 + \|a - D_a(z)\|_1] && \text{(cross-alignment)} \\
          & + \delta \, W_2(x, a) && \text{(distribution alignment)}

with :math:`\mathrm{KL} = \frac12 \sum_j (\mu_j^2 + \sigma_j^2 - 1 - \log \sigma_j^2)` and the
2-Wasserstein distance of two Gaussians with diagonal covariances,
:math:`W_2^2 = \|\mu - \mu'\|^2 + \|\sigma - \sigma'\|^2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
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
from zslearn._utils._torch import training_threads
from zslearn.base._training import Training
from zslearn.networks._torch_training import (
    DeviceRows,
    Run,
    ScheduledMethod,
    Tensor,
    descend,
    linear,
    relu,
    rng_and_seed,
    tensor_like,
    to_arrays,
    trainable,
    uniform_layer,
    with_intercept,
)

# The weight of a term grows linearly between these shares of the epochs, as in the authors' program
# of 100 epochs.
_DIVERGENCE_RAMP = (0.0, 0.93)
_CROSS_RAMP = (0.21, 0.75)
_DISTANCE_RAMP = (0.06, 0.22)
# Number of features for which the authors chose the weights: errors are sums over features, the
# other terms are not.
_REFERENCE_FEATURES = 2048
# Initial weights, as a share of Glorot's limit.
_GAIN = 0.5
# Added under the root of the distance, whose slope is infinite at zero.
_TINY = 1e-12
# The drawn latent vectors limit the accuracy of the softmax more than this gap does.
_SOFTMAX_TOL = 1e-4


class Gaussians(NamedTuple):
    """Means and log variances, one row per input."""

    mean: Array
    log_variance: Array

    def draw(self, noise: Array) -> Array:
        """Latent vectors μ + σ² · noise."""
        return self.mean + compat.array_namespace(self.mean).exp(self.log_variance) * noise

    def take(self, rows: Any) -> Gaussians:
        """The Gaussians of some rows."""
        return Gaussians(self.mean[rows], self.log_variance[rows])


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


def initial_weights(
    rng: np.random.Generator,
    input_sizes: tuple[int, int],
    latent_size: int,
    encoder_sizes: tuple[int, int],
    decoder_sizes: tuple[int, int],
) -> Autoencoders:
    """Random weights; each pair of sizes is for features and for signatures."""

    def layer(n_in: int, n_out: int) -> list[NDArray[Any]]:
        return uniform_layer(rng, n_in, n_out, limit=_GAIN * float(np.sqrt(6 / (n_in + n_out))))

    encoders, decoders = [], []
    for n_inputs, n_hidden in zip(input_sizes, encoder_sizes, strict=True):
        means, log_variances = layer(n_hidden, latent_size), layer(n_hidden, latent_size)
        encoders.append([*layer(n_inputs, n_hidden), *means, *log_variances])
    for n_inputs, n_hidden in zip(input_sizes, decoder_sizes, strict=True):
        decoders.append([*layer(latent_size, n_hidden), *layer(n_hidden, n_inputs)])
    return Autoencoders(*encoders, *decoders)


def encode(weights: Sequence[Array], inputs: Array) -> Gaussians:
    """The Gaussian of each input."""
    hidden = relu(linear(inputs, *weights[:2]))
    return Gaussians(linear(hidden, *weights[2:4]), linear(hidden, *weights[4:]))


def decode(weights: Sequence[Array], latents: Array) -> Array:
    """Reconstruct inputs from latent vectors."""
    return linear(relu(linear(latents, *weights[:2])), *weights[2:])


def divergence(gaussians: Gaussians) -> Tensor:
    """Kullback–Leibler divergence of each Gaussian from the standard normal."""
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
    z, z_signature = of_features.draw(noise[0]), of_signatures.draw(noise[1])

    def error(for_features: Tensor, for_signatures: Tensor) -> Tensor:
        """ℓ1 errors of features and signatures reconstructed from these latent vectors."""
        decoded_features = decode(networks.decode_features, for_features)
        decoded_signatures = decode(networks.decode_signatures, for_signatures)
        errors = (decoded_features - features).abs().sum(dim=1)
        return errors + (decoded_signatures - signatures).abs().sum(dim=1)

    total = error(z, z_signature)
    total = total + weights.divergence * (divergence(of_features) + divergence(of_signatures))
    if weights.cross > 0:
        total = total + weights.cross * error(z_signature, z)
    if weights.distance > 0:
        total = total + weights.distance * distance(of_features, of_signatures)
    return total.mean()


def scale(X: Array, smallest: NDArray[Any], width: NDArray[Any]) -> Array:
    """Scale features so that the training features lie in [0, 1]."""
    return (X - move_like(smallest, X)[None, :]) / move_like(width, X)[None, :]


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, int]:
    """Numbers of hidden units for features and for signatures."""
    if len(sizes) != 2 or not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"{name} must be two positive integers, for features and for signatures; got {sizes!r}."
        )
    return int(sizes[0]), int(sizes[1])


def _saved_encoder(n_inputs: str, n_hidden: str) -> Saved:
    """Declare the arrays of an encoder."""
    head = Saved(n_hidden, "n_latent"), Saved("n_latent")
    return Saved(each=(Saved(n_inputs, n_hidden), Saved(n_hidden), *head, *head))


_PENALTIES = [3e-3, 1e-3, 5e-4, 2e-4, 1e-4]


@inherit_docs
@saves(
    encoder_=_saved_encoder("n_features", "n_hidden"),
    signature_encoder_=_saved_encoder("n_attributes", "n_hidden_signature"),
    decoders_=Saved(kind=list, each=True),
    feature_min_=Saved("n_features"),
    feature_range_=Saved("n_features"),
    seen_latents_=Saved("n_seen", "n_drawn", "n_latent"),
    latent_seed_=Saved(kind="int", least=0),
)
@dataclass(eq=False, repr=False)
class CADAVAE(ScheduledMethod):
    """Aligned variational autoencoders of features and signatures, and a softmax classifier.

    Fitting needs the `torch` extra; a fitted model and describing further classes do not.

    Parameters
    ----------
    latent_size : int, default=64
        Dimensions of the latent space.
    encoder_sizes : tuple of two int, default=(1560, 1450)
        Numbers of hidden units of the encoders of features and of signatures.
    decoder_sizes : tuple of two int, default=(1660, 665)
        Numbers of hidden units of the decoders.
    divergence_weight : float, default=0.25
        β, weight of the divergence for 2,048 features, scaled in proportion to their number. It
        grows over 93 % of the epochs.
    cross_weight : float, default=2.37
        γ, weight of cross-alignment. It grows between 21 and 75 % of the epochs.
    distance_weight : float, default=8.13
        δ, weight of distribution alignment, scaled as `divergence_weight`. It grows between 6 and
        22 % of the epochs.
    learning_rate : float, default=1.5e-4
        Learning rate of Adam (AMSGrad).
    batch_size : int, default=50
        Samples per step.
    max_iter : int, default=100
        Number of epochs.
    n_seen_latents : int, default=200
        Latent vectors per seen class for the softmax, drawn from the Gaussians of training images.
    n_unseen_latents : int, default=400
        Latent vectors per unseen class, drawn from the Gaussian of its signature. A larger number
        favours unseen classes.
    alpha : float, default=5e-4
        Weight of the softmax's ℓ2 penalty; see :func:`~zslearn.solvers.softmax_path`.

    Attributes
    ----------
    encoder_, signature_encoder_ : list of ndarray
        Weights and intercepts of the hidden layer, of the means and of the log variances.
    decoders_ : tuple of two lists of ndarray
        Weights and intercepts of the decoders of features and of signatures.
    feature_min_, feature_range_ : ndarray of shape (n_features,)
        Minimum and range by which features are scaled to [0, 1].
    seen_latents_ : ndarray of shape (n_seen, n_seen_latents, latent_size)
        Latent vectors of training images.
    latent_seed_ : int
        Seed of the latent vectors.

    See Also
    --------
    ClassNorm : Predicts prototypes from signatures, and trains faster.

    Notes
    -----
    The softmax covers all described classes, so that adding a class changes the scores of the
    others: `add_classes` fits it again, on the same latent vectors of the other classes. In the
    conventional setting the authors fit a softmax to the unseen classes alone.

    As in the authors' program (github.com/edgarschnfld/CADA-VAE-PyTorch), signatures are normalised
    to unit length, and one random number for all dimensions is multiplied by σ²; the paper draws
    one per dimension and multiplies by σ. Unlike in the program:

    - The softmax minimises a penalised loss; the program stops Adam after a number of epochs chosen
      per data set on validation data.
    - Features are normalised to unit length before they are scaled to [0, 1]; the program scales
      raw features, as `feature_norm=None` does, and test images by their own ranges.
    - An epoch visits every sample once; the program draws batches independently.

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

    latent_size: int = 64
    _: KW_ONLY
    encoder_sizes: tuple[int, int] = (1560, 1450)
    decoder_sizes: tuple[int, int] = (1660, 665)
    divergence_weight: float = 0.25
    cross_weight: float = 2.37
    distance_weight: float = 8.13
    learning_rate: float = 1.5e-4
    batch_size: int = 50
    max_iter: int = 100
    n_seen_latents: int = 200
    n_unseen_latents: int = 400
    alpha: float = 5e-4

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

    def _epochs(self, training: Training) -> Run:
        import torch

        rng, seed = rng_and_seed(self.random_state)
        xp = compat.array_namespace(training.X)
        smallest = to_numpy(xp.min(training.X, axis=0))
        width = to_numpy(xp.max(training.X, axis=0)) - smallest
        width = np.where(width > 0, width, np.ones_like(width))
        rows = DeviceRows(scale(training.X, smallest, width), training.y, self.device)
        signatures = tensor_like(unit_rows(training.signatures), rows.like)
        start = initial_weights(
            rng,
            (rows.n_features, training.signatures.shape[1]),
            self.latent_size,
            check_sizes("encoder_sizes", self.encoder_sizes),
            check_sizes("decoder_sizes", self.decoder_sizes),
        )
        networks = Autoencoders(*(trainable(part, rows.like) for part in start))
        parameters = [weight for part in networks for weight in part]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, amsgrad=True, fused=True)

        def state() -> dict[str, Any]:
            encoder, signature_encoder, *decoders = (to_arrays(part) for part in networks)
            return {
                "encoder_": encoder,
                "signature_encoder_": signature_encoder,
                "decoders_": tuple(decoders),
                "feature_min_": smallest,
                "feature_range_": width,
                "latent_seed_": seed,
            }

        with training_threads(self.batch_size * sum(weight.numel() for weight in parameters)):
            for epoch in range(self.max_iter):
                weights = self._loss_weights(epoch, rows.n_features)
                losses = []
                for X, y in rows.batches(self.batch_size, rng):
                    noise = tensor_like(rng.standard_normal((2, len(X), 1)), rows.like)
                    value = loss(networks, X, signatures[y], (noise[0], noise[1]), weights)
                    descend(optimizer, value)
                    losses.append(value.detach())
                yield float(torch.stack(losses).mean()), state

    @property
    def _rows_per_class(self) -> int:
        return int(self.n_unseen_latents)

    def _loss_weights(self, epoch: int, n_features: int) -> LossWeights:
        """β, γ and δ in an epoch."""
        progress, share = epoch / self.max_iter, n_features / _REFERENCE_FEATURES
        growth = [
            min(max((progress - start) / (end - start), 0.0), 1.0)
            for start, end in (_DIVERGENCE_RAMP, _CROSS_RAMP, _DISTANCE_RAMP)
        ]
        return LossWeights(
            self.divergence_weight * share * growth[0],
            self.cross_weight * growth[1],
            self.distance_weight * share * growth[2],
        )

    def _complete(self, training: Training) -> None:
        """Draw the same number of latent vectors for each seen class."""
        rng = np.random.default_rng([self.latent_seed_, 0])
        gaussians = self._encode_images(training.X)
        latents = []
        for position in range(training.n_seen):
            members = rng.permutation(np.flatnonzero(training.y == position))
            # Repeats images of a class that has too few.
            members = np.resize(members, self.n_seen_latents)
            noise = rng.standard_normal((len(members), 1))
            latents.append(gaussians.take(members).draw(noise.astype(gaussians.mean.dtype)))
        self.seen_latents_ = np.stack(latents)

    def _encode_images(self, X: Array) -> Gaussians:
        """The Gaussian of each image, as NumPy arrays."""
        n_hidden = self.encoder_[0].shape[1]
        parts = [
            encode(self.encoder_, scale(X[rows, :], self.feature_min_, self.feature_range_))
            for rows in row_blocks(X.shape[0], 8 * (X.shape[1] + n_hidden))
        ]
        return Gaussians(
            *(np.concatenate([to_numpy(p) for p in part]) for part in zip(*parts, strict=True))
        )

    def embed(self, X: Array) -> Array:
        """Encode features to the means of their Gaussians, and append a 1 for the intercept."""
        scaled = scale(X, self.feature_min_, self.feature_range_)
        return with_intercept(encode(self.encoder_, scaled).mean)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Fit a softmax with intercepts to the latent vectors of all classes.

        Without `labels` all classes count as unseen.
        """
        n_classes = len(signatures)
        if n_classes < 2:
            return np.zeros((n_classes, self.seen_latents_.shape[2] + 1))
        latents = self._latents(signatures, labels)
        if not all(np.isfinite(part).all() for part in latents):
            raise ValueError(
                "CADAVAE draws NaN or infinite latent vectors for these classes. Lower "
                "learning_rate, or check the scale of X and of the signatures."
            )
        y = np.repeat(np.arange(n_classes), [len(part) for part in latents])
        (result,) = softmax_path(
            np.concatenate(latents), y, n_classes, alphas=[self.alpha], tol=_SOFTMAX_TOL
        )
        return np.column_stack([result.coef, result.intercept])

    def _latents(self, signatures: Floats, labels: NDArray[Any] | None) -> list[NDArray[Any]]:
        """Latent vectors of each class: drawn for images of seen ones, else for the signature."""
        inputs = unit_rows(signatures).astype(self.seen_latents_.dtype)
        gaussians = encode(self.signature_encoder_, inputs)
        # Classes share the noise, so that describing another class does not change their vectors.
        rng = np.random.default_rng([self.latent_seed_, 1])
        noise = rng.standard_normal((int(self.n_unseen_latents), 1)).astype(inputs.dtype)
        latents = [gaussians.take([row]).draw(noise) for row in range(len(inputs))]
        if labels is not None:
            for row in np.flatnonzero(np.isin(labels, self.seen_classes_)).tolist():
                latents[row] = self.seen_latents_[np.searchsorted(self.seen_classes_, labels[row])]
        return latents
