"""Training of networks with torch: tensors, random numbers and the base classes of the methods.

The weights of a network are a plain list of arrays: tensors during training, NumPy arrays
afterwards, so that a fitted model needs neither torch nor a device. :func:`linear` and :func:`relu`
accept both: training and prediction share one forward pass.

NumPy draws the random numbers, since those of torch depend on the device and the precision. One
seed therefore gives the same model, up to rounding, on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._utils._saved import Saved, saves
from zslearn._utils._torch import training_device
from zslearn.base._classifier import ZeroShotClassifier, group_by_path
from zslearn.base._training import Training

#: A tensor of torch, which may not be installed.
Tensor = Any
Seed = int | np.random.RandomState | None
#: Yields the loss of each epoch and a function that returns the fitted attributes after it.
Run = Generator[tuple[float, Callable[[], dict[str, Any]]], None, None]

# Rows up to this size are moved to the device once, larger ones batch by batch.
_RESIDENT_BYTES = 4 << 30

#: Constraints of the hyper-parameters that every network has.
CONSTRAINTS: dict[str, list[Any]] = {
    "device": [StrOptions({"cpu", "cuda"}), None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}


def tensor_like(x: Any, like: Tensor) -> Tensor:
    """Convert an array to a tensor in the dtype and on the device of another."""
    import torch

    x = x if compat.is_torch_array(x) else torch.from_numpy(np.array(to_numpy(x)))
    return x.to(device=like.device, dtype=like.dtype)


def trainable(arrays: Sequence[NDArray[Any]], like: Tensor) -> list[Tensor]:
    """Convert arrays to tensors with gradients, in the dtype and on the device of another."""
    return [tensor_like(array, like).requires_grad_() for array in arrays]


def to_arrays(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Copy tensors to NumPy arrays."""
    return [np.array(to_numpy(value)) for value in tensors]


class DeviceRows:
    """Prepared features and class positions of samples, read in shuffled batches on a device."""

    def __init__(self, X: Array, y: NDArray[np.intp], device: str | None) -> None:
        import torch

        target = training_device(X, device)
        if not compat.is_torch_array(X):
            host = to_numpy(X)
            # torch does not share read-only memory.
            X = torch.from_numpy(host if host.flags.writeable else host.copy())
        size = X.element_size() * X.nelement()
        self._X = X.to(target) if size <= _RESIDENT_BYTES else X
        self._y = torch.from_numpy(np.asarray(y, dtype=np.int64)).to(target)
        #: An empty tensor in the precision and on the device of training.
        self.like = torch.empty(0, dtype=X.dtype, device=target)
        self.n_samples, self.n_features = (int(n) for n in X.shape)

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features and classes of each batch of one epoch."""
        import torch

        order = torch.from_numpy(rng.permutation(self.n_samples))
        for start in range(0, self.n_samples, size):
            rows = order[start : start + size]
            X = self._X[rows.to(self._X.device)].to(self.like.device)
            yield X, self._y[rows.to(self._y.device)]


def epochs(n_epochs: int, verbose: int, name: str) -> Iterator[int]:
    """Count epochs, with a progress bar if `verbose` is positive."""
    with progress_bar(verbose > 0, n_epochs, f"{name}: epochs") as advance:
        for epoch in range(n_epochs):
            yield epoch
            advance(1)


def descend(optimizer: Any, loss: Tensor) -> None:
    """Take one step of an optimiser, computing gradients of its own weights only."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=weights)
    optimizer.step()


def rng_and_seed(random_state: Any) -> tuple[np.random.Generator, int]:
    """A generator for all random numbers of a fit, and a seed that the model can keep."""
    first, second = check_random_state(random_state).randint(2**31 - 1, size=2).tolist()
    return np.random.default_rng(first), second


def uniform_layer(
    rng: np.random.Generator, n_in: int, n_out: int, limit: float | None = None
) -> list[NDArray[Any]]:
    """Initial weights within ± `limit` and zero intercepts; by default both as torch draws them."""
    if limit is not None:
        return [rng.uniform(-limit, limit, (n_in, n_out)), np.zeros(n_out)]
    limit = 1 / np.sqrt(n_in)
    return [rng.uniform(-limit, limit, (n_in, n_out)), rng.uniform(-limit, limit, n_out)]


def linear(x: Array, weight: Array, intercept: Array) -> Array:
    """A layer, x W + b, in the library and dtype and on the device of x."""
    if compat.is_torch_array(weight):
        return intercept.addmm(x, weight)
    return x @ move_like(weight, x) + move_like(intercept, x)[None, :]


def relu(x: Array, slope: float = 0.0) -> Array:
    """max(x, slope · x) for 0 ≤ slope < 1, in the library of x."""
    if compat.is_torch_array(x):
        import torch

        return torch.nn.functional.leaky_relu(x, slope)
    return compat.array_namespace(x).maximum(x, slope * x)


def with_intercept(X: Array) -> Array:
    """Append a column of ones."""
    xp = compat.array_namespace(X)
    return xp.concat([X, xp.ones_like(X[:, :1])], axis=1)


@inherit_docs
@saves(loss_curve_=Saved(None, finite=False), n_iter_=Saved(kind="int", least=0))
@dataclass(eq=False, repr=False)
class NetworkMethod(ZeroShotClassifier):
    """Base of zero-shot methods that train a network.

    Parameters
    ----------
    max_iter : int
        Number of epochs.
    device : {"cpu", "cuda"} or None, default=None
        Device for training; None uses a GPU if torch finds one. Tensors of torch stay on their own
        device. A fitted model is not tied to a device.
    verbose : int, default=0
        If positive, show a progress bar of the epochs.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial weights, the batches and the noise.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_epochs,)
        Mean loss of each epoch.
    n_iter_ : int
        Number of epochs.
    """

    _: KW_ONLY
    learning_rate: float
    max_iter: int
    device: str | None = None
    verbose: int = 0
    random_state: Seed = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        **CONSTRAINTS,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }


@inherit_docs
@dataclass(eq=False, repr=False)
class ScheduledMethod(NetworkMethod):
    """Base of methods whose training follows a schedule over `max_iter` and may stop early.

    A subclass defines `_epochs` and, for attributes that follow from the network, `_complete`.

    Parameters
    ----------
    stop_after : int, optional
        Epoch of the `max_iter` scheduled ones after which training stops. A search over it costs
        one run per fold.
    """

    _: KW_ONLY
    batch_size: int
    stop_after: int | None = None

    #: Hyper-parameters that the network does not depend on.
    _untrained: ClassVar[tuple[str, ...]] = ()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkMethod._parameter_constraints,
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "stop_after": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _epochs(self, training: Training) -> Run:
        """Train for `max_iter` epochs."""
        raise NotImplementedError

    def _complete(self, training: Training) -> None:
        """Compute fitted attributes that follow from the network."""

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Train once for all variants that differ in where training stops or in what follows it."""
        import_optional("torch", cls.__name__)
        for group in group_by_path(variants, *cls._untrained, "stop_after", "verbose"):
            stops = [
                min(variant.max_iter, variant.stop_after or variant.max_iter) for variant in group
            ]
            states = group[0]._train(training, stops)
            for variant, stop in zip(group, stops, strict=True):
                variant.__dict__.update(states[stop])
                variant._complete(training)
                yield variant

    def _train(self, training: Training, stops: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Fitted attributes after each number of epochs in `stops`."""
        states, curve = {}, np.empty(max(stops))
        with closing(self._epochs(training)) as run:
            for epoch in epochs(max(stops), self.verbose, type(self).__name__):
                curve[epoch], state = next(run)
                if epoch + 1 in stops:
                    losses = curve[: epoch + 1].copy()
                    states[epoch + 1] = {**state(), "loss_curve_": losses, "n_iter_": epoch + 1}
        return states
