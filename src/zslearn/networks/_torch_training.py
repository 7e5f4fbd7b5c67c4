"""What methods that train a network with torch have in common.

A network is a plain list of arrays: tensors while it is trained, NumPy arrays afterwards, so that a
fitted method needs no torch and lives on no device. :func:`linear` and :func:`relu` work on either,
so that training and prediction run the same forward pass.

All random numbers are NumPy's: torch draws others on a GPU than on the CPU, and others again in
single precision. One seed leads to one model, up to rounding, wherever it is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from numbers import Integral, Real
from types import ModuleType
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._blocks import ScoreFunction
from zslearn._utils._array import Array, move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import ZeroShotClassifier, group_by_path
from zslearn.base._training import Training

#: A tensor of torch, which may not be installed.
Tensor = Any
#: The loss of each epoch of a run, and what gives the fitted attributes after it.
Run = Generator[tuple[float, Callable[[], dict[str, Any]]], None, None]

# Rows up to this size move to the device once; larger ones batch by batch.
_RESIDENT_BYTES = 4 << 30
# Below so many multiplications a step, a second thread costs more than it saves.
_ONE_THREAD_WORK = 1_000_000

#: Constraints of the hyper-parameters that every network has.
CONSTRAINTS: dict[str, list[Any]] = {
    "device": [StrOptions({"cpu", "cuda"}), None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}


def need_torch(name: str) -> ModuleType:
    """Torch, or an error that names the extra to install."""
    return import_optional("torch", name)


def training_device(X: Array, device: str | None) -> Any:
    """The device of the rows where they are a tensor, else the given or the default one."""
    import torch

    if compat.is_torch_array(X):
        return X.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError('device="cuda", but torch finds no GPU. Take "cpu" or None.')
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def tensor(x: Any, like: Tensor) -> Tensor:
    """Numbers as a tensor in the dtype and on the device of another."""
    import torch

    x = x if compat.is_torch_array(x) else torch.from_numpy(np.array(to_numpy(x)))
    return x.to(device=like.device, dtype=like.dtype)


class DeviceRows:
    """Prepared features and classes of samples, for a network that takes them batch by batch."""

    def __init__(self, X: Array, y: NDArray[np.intp], device: str | None) -> None:
        import torch

        place = training_device(X, device)
        if not compat.is_torch_array(X):
            host = to_numpy(X)
            # torch refuses to share what may not be written to.
            X = torch.from_numpy(host if host.flags.writeable else host.copy())
        size = X.element_size() * X.nelement()
        self._X = X.to(place) if size <= _RESIDENT_BYTES else X
        self._y = torch.from_numpy(np.asarray(y, dtype=np.int64)).to(place)
        #: An empty tensor in the precision and on the device of training.
        self.like = torch.empty(0, dtype=X.dtype, device=place)
        self.n_samples, self.n_features = (int(n) for n in X.shape)

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch: rows and their classes on the device, every row once, in random order."""
        import torch

        order = torch.from_numpy(rng.permutation(self.n_samples))
        for start in range(0, self.n_samples, size):
            rows = order[start : start + size]
            X = self._X[rows.to(self._X.device)].to(self.like.device)
            yield X, self._y[rows.to(self._y.device)]


def epochs(n_epochs: int, verbose: int, what: str) -> Iterator[int]:
    """Count epochs, with a bar where one is asked for. Ctrl-C ends training between two batches."""
    with progress_bar(verbose > 0, n_epochs, f"{what}: epochs") as advance:
        for epoch in range(n_epochs):
            yield epoch
            advance(1)


def generator(random_state: Any) -> tuple[np.random.Generator, int]:
    """A source of all random numbers of a fit, and a seed that can be kept for later."""
    first, second = check_random_state(random_state).randint(2**31 - 1, size=2).tolist()
    return np.random.default_rng(first), second


def uniform_layer(
    rng: np.random.Generator, n_in: int, n_out: int, limit: float | None = None
) -> list[NDArray[Any]]:
    """First weights and intercepts of a layer."""
    if limit is not None:
        return [rng.uniform(-limit, limit, (n_in, n_out)), np.zeros(n_out)]
    usual = 1 / np.sqrt(n_in)
    return [rng.uniform(-usual, usual, (n_in, n_out)), rng.uniform(-usual, usual, n_out)]


def trainable(arrays: Sequence[NDArray[Any]], like: Tensor) -> list[Tensor]:
    """Arrays as tensors with gradients, in the dtype and on the device of another."""
    return [tensor(array, like).requires_grad_() for array in arrays]


def learned(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Tensors as NumPy arrays of their own, on the host."""
    return [np.array(to_numpy(value)) for value in tensors]


def linear(x: Array, weight: Array, intercept: Array) -> Array:
    """A layer, x W + b, in the library, the dtype and on the device of x."""
    if compat.is_torch_array(weight):
        return intercept.addmm(x, weight)
    return x @ move_like(weight, x) + move_like(intercept, x)[None, :]


def relu(x: Array, slope: float = 0.0) -> Array:
    """The larger of x and slope · x, in the library of x, for 0 ≤ slope < 1."""
    if compat.is_torch_array(x):
        import torch

        return torch.nn.functional.leaky_relu(x, slope)
    return compat.array_namespace(x).maximum(x, slope * x)


@contextmanager
def training_threads(work: int) -> Iterator[None]:
    """Use one thread of torch where a step is so small that a second costs more than it saves."""
    import torch

    before = torch.get_num_threads()
    try:
        if work < _ONE_THREAD_WORK:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


def with_intercept(X: Array) -> Array:
    """Rows with a 1 behind them."""
    xp = compat.array_namespace(X)
    return xp.concat([X, xp.ones_like(X[:, :1])], axis=1)


@inherit_docs
class NetworkMethod(ZeroShotClassifier):
    """Base of zero-shot methods that train a network; images meet classes by the inner product.

    Parameters
    ----------
    device : {"cpu", "cuda"} or None, default=None
        Where the network is trained; None is a GPU where torch finds one, else the CPU. For tensors
        of torch, their own device. A fitted method is on no device.
    verbose : int, default=0
        Above 0, a bar shows how many epochs are done.
    random_state : int, RandomState instance or None, default=0
        Decides the first weights, the batches and the noise.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (n_epochs,)
        Mean loss of each epoch.
    n_iter_ : int
        Epochs.
    """

    score_function: ScoreFunction = "dot"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        **CONSTRAINTS,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    learning_rate: float
    max_iter: int
    device: str | None
    verbose: int
    random_state: Any


@inherit_docs
@saves(
    loss_curve_=Saved(None, finite=False),
    n_iter_=Saved(kind="int", least=0),
)
class ScheduledMethod(NetworkMethod):
    """Base of methods whose training follows a schedule over `max_iter` and may end before.

    Parameters
    ----------
    max_iter : int
        Epochs.
    stop_after : int, optional
        Epochs of the `max_iter` that training is planned for after which it ends. A search over it
        costs one run per fold.
    """

    #: Hyper-parameters on which the network does not depend.
    _untrained: ClassVar[tuple[str, ...]] = ()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkMethod._parameter_constraints,
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "stop_after": [Interval(Integral, 1, None, closed="left"), None],
    }

    batch_size: int
    stop_after: int | None

    def _epochs(self, training: Training) -> Run:
        """Train for `max_iter` epochs."""
        raise NotImplementedError

    def _complete(self, training: Training) -> None:
        """Compute fitted attributes that follow from the network."""

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """One run serves all variants that differ in where it stops, or in what follows it."""
        need_torch(cls.__name__)
        for models in group_by_path(variants, *cls._untrained, "stop_after", "verbose"):
            stops = [min(m.max_iter, m.stop_after or m.max_iter) for m in models]
            states = models[0]._train(training, stops)
            for model, stop in zip(models, stops, strict=True):
                model.__dict__.update(states[stop])
                model._complete(training)
                yield model

    def _train(self, training: Training, stops: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Fitted attributes after each of some counts of epochs, in one run."""
        states, curve = {}, np.empty(max(stops))
        with closing(self._epochs(training)) as run:
            for epoch in epochs(max(stops), self.verbose, type(self).__name__):
                curve[epoch], state = next(run)
                if epoch + 1 in stops:
                    losses = curve[: epoch + 1].copy()
                    states[epoch + 1] = {**state(), "loss_curve_": losses, "n_iter_": epoch + 1}
        return states
