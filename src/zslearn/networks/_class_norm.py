r"""Class-Norm: a network predicts the prototype of a class from its signature.

.. math:: p(a) = \mathrm{ReLU}\bigl(W_3\, N(\mathrm{ReLU}(N(W_2\, \mathrm{ReLU}(W_1 a))))\bigr),
          \qquad N(h) = \frac{h - \mu}{\sigma^2 + \varepsilon},

omitting intercepts, where :math:`\mu` and :math:`\sigma^2` are the mean and the variance of each
unit over the seen classes. (As in the authors' program, units are divided by the variance, not by
its root.) Training minimises the cross-entropy over the seen classes of the logits
:math:`s \cos(x, p(a_c))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Array, Floats, unit_rows
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
)

# Added to variances, so that a unit that is constant over the classes becomes zero.
_EPSILON = 1e-5
# Weight of the latest step in the running statistics.
_MOMENTUM = 0.1
# Share of the epochs after which the learning rate is divided by ten.
_DECAY_AFTER = 0.5


class Moments(NamedTuple):
    """Mean and variance of units over classes."""

    mean: Array
    variance: Array

    @classmethod
    def of(cls, hidden: Array) -> Moments:
        """Compute them from one row per class, with Bessel's correction."""
        xp = compat.array_namespace(hidden)
        return cls(xp.mean(hidden, axis=0), xp.var(hidden, axis=0, correction=1))

    def updated(self, latest: Moments) -> Moments:
        """Running statistics after another step."""
        pairs = zip(self, latest, strict=True)
        return Moments(*((1 - _MOMENTUM) * old + _MOMENTUM * new.detach() for old, new in pairs))

    def standardize(self, hidden: Array) -> Array:
        """Subtract the mean and divide by the variance."""
        return (hidden - self.mean[None, :]) / (self.variance[None, :] + _EPSILON)


def prototypes(
    weights: Sequence[Array],
    signatures: Array,
    rectify: bool,
    running: Sequence[Moments] | None = None,
) -> tuple[Array, list[Moments]]:
    """Prototypes of classes and the moments used: given ones, or those of these classes."""
    hidden = linear(relu(linear(signatures, *weights[:2])), *weights[2:4])
    first = Moments.of(hidden) if running is None else running[0]
    hidden = relu(first.standardize(hidden))
    second = Moments.of(hidden) if running is None else running[1]
    out = linear(second.standardize(hidden), *weights[4:])
    return relu(out) if rectify else out, [first, second]


def loss(
    weights: Sequence[Tensor], signatures: Tensor, X: Tensor, y: Tensor, scale: float, rectify: bool
) -> tuple[Tensor, list[Moments]]:
    """Mean cross-entropy of a batch over the seen classes, and the moments of the units."""
    from torch.nn.functional import cross_entropy, normalize

    predicted, used = prototypes(weights, signatures, rectify)
    return cross_entropy(scale * (X @ normalize(predicted, dim=1).T), y), used


@inherit_docs
@saves(
    weights_=Saved(None, ..., each=True),
    moments_=Saved(kind=object, each=True),
    rectify_=Saved(kind=bool),
)
@dataclass(eq=False, repr=False)
class ClassNorm(ScheduledMethod):
    """Class normalisation: a three-layer network predicts class prototypes from signatures.

    Scores are cosines. Fitting needs the `torch` extra; a fitted model does not.

    Parameters
    ----------
    hidden_size : int, default=1024
        Number of units of each of the two hidden layers.
    logit_scale : float, default=25.0
        Factor of the cosines in the softmax of training.
    alpha : float, default=1e-4
        Weight decay, as Adam's `weight_decay` in torch.
    learning_rate : float, default=5e-4
        Learning rate of Adam; a tenth of it in the second half of the epochs.
    batch_size : int, default=256
        Samples per step. Every step covers all seen classes.
    max_iter : int, default=50
        Number of epochs.

    Attributes
    ----------
    weights_ : list of ndarray
        Weights, one row per input, and intercepts of the three layers in turn.
    moments_ : list of tuple
        Running mean and variance of the units of the second layer, before and after its ReLU.
    rectify_ : bool
        Whether prototypes pass through a ReLU, as in the original, whose features are not negative:
        true if the training features are not either.

    See Also
    --------
    CADAVAE : Encodes images and signatures into one latent space.

    Notes
    -----
    Training standardises over the seen classes, with gradients through mean and variance;
    prediction uses running averages of both, as in the authors' program
    (github.com/universome/class-norm), so that describing another class never changes the others.

    Features are normalised to unit length for any `feature_norm`. The authors multiply the
    scores of seen classes by 1 for CUB and by 0.95 elsewhere;
    :class:`~zslearn.calibration.CalibratedStacking` chooses such a factor by cross-validation.

    References
    ----------
    I. Skorokhodov and M. Elhoseiny, "Class normalization for (continual)? generalized zero-shot
    learning", ICLR 2021.

    Examples
    --------
    >>> from zslearn.networks import ClassNorm
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = ClassNorm(hidden_size=64)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.4
    True
    """

    hidden_size: int = 1024
    _: KW_ONLY
    logit_scale: float = 25.0
    alpha: float = 1e-4
    learning_rate: float = 5e-4
    batch_size: int = 256
    max_iter: int = 50

    embedding_attributes = ()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ScheduledMethod._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "logit_scale": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "logit_scale": [10.0, 15.0, 25.0, 40.0],
            "alpha": [0.0, 1e-5, 1e-4, 1e-3],
            "learning_rate": [2e-4, 5e-4, 1e-3],
            "stop_after": [50, 40, 30, 20, 15, 10, 5],
        },
        "fast": {
            "logit_scale": [15.0, 25.0, 40.0],
            "alpha": [1e-4, 1e-3],
            "stop_after": [50, 30, 20, 10],
        },
        "epochs": {"stop_after": [50, 40, 30, 20, 15, 10, 5]},
    }

    def _initial_weights(self, rng: np.random.Generator, training: Training) -> list[NDArray[Any]]:
        """Layers as torch initialises them, but a narrower last one (Eq. 10 of the paper)."""
        n_attributes, n_features = training.signatures.shape[1], training.X.shape[1]
        widths = [n_attributes, self.hidden_size, self.hidden_size, n_features]
        weights = [part for pair in pairwise(widths) for part in uniform_layer(rng, *pair)]
        limit = np.sqrt(3 / (self.hidden_size * n_features))
        weights[4] = rng.uniform(-limit, limit, (self.hidden_size, n_features))
        return weights

    def _epochs(self, training: Training) -> Run:
        import torch

        rng, _ = rng_and_seed(self.random_state)
        xp = compat.array_namespace(training.X)
        rectify = bool(xp.all(training.X >= 0))
        rows = DeviceRows(self.embed(training.X), training.y, self.device)
        signatures = tensor_like(_scaled(training.signatures), rows.like)
        weights = trainable(self._initial_weights(rng, training), rows.like)
        optimizer = torch.optim.Adam(
            weights, lr=self.learning_rate, weight_decay=self.alpha, fused=True
        )
        running = [
            Moments(torch.zeros_like(weights[3]), torch.ones_like(weights[3])) for _ in range(2)
        ]

        def state() -> dict[str, Any]:
            moments = [tuple(to_arrays(part)) for part in running]
            return {"weights_": to_arrays(weights), "moments_": moments, "rectify_": rectify}

        with training_threads(len(signatures) * sum(w.numel() for w in weights)):
            for epoch in range(self.max_iter):
                if epoch == int(_DECAY_AFTER * self.max_iter):
                    optimizer.param_groups[0]["lr"] = 0.1 * self.learning_rate
                losses = []
                for X, y in rows.batches(self.batch_size, rng):
                    value, used = loss(weights, signatures, X, y, self.logit_scale, rectify)
                    descend(optimizer, value)
                    running = [old.updated(new) for old, new in zip(running, used, strict=True)]
                    losses.append(value.detach())
                yield float(torch.stack(losses).mean()), state

    def embed(self, X: Array) -> Array:
        """Normalise features to unit length."""
        return X if self.feature_norm == "l2" else unit_rows(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Predict prototypes of unit length."""
        running = [Moments(*(np.asarray(part, np.float64) for part in m)) for m in self.moments_]
        predicted, _ = prototypes(self.weights_, _scaled(signatures), self.rectify_, running)
        return unit_rows(predicted)


def _scaled(signatures: Floats) -> Floats:
    """Signatures of length √d, whose entries have a mean square of one."""
    scaled: Floats = np.sqrt(signatures.shape[1]) * unit_rows(signatures)
    return scaled
