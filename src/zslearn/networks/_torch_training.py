"""What methods that train a network with torch have in common.

A network is a plain list of arrays: tensors while it is trained, NumPy arrays afterwards, so that a
fitted method needs no torch and lives on no device. :func:`linear` and :func:`relu` work on either,
so that training and prediction run the same forward pass.

All random numbers are NumPy's: torch draws others on a GPU than on the CPU, and others again in
single precision. One seed leads to one model, up to rounding, wherever it is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from types import ModuleType
from typing import Any, TypeVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, move_like, to_numpy
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn.base._variants import group_by_params_except

#: A tensor of torch, which may not be installed.
Tensor = Any
_Variant = TypeVar("_Variant")

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
#: The constraint of `stop_after`, where training follows a schedule.
STOP_CONSTRAINT: dict[str, list[Any]] = {
    "stop_after": [Interval(Integral, 1, None, closed="left"), None]
}


def need_torch(name: str) -> ModuleType:
    """Torch, or an error that names the extra which brings it."""
    return import_optional("torch", name)


def training_device(X: Array, device: str | None) -> Any:
    """Where a network is trained: beside the rows where they are a tensor, else as was said."""
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
    """Training rows, and the samples' classes, for a network that takes them batch by batch.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features, of any library, float32 or float64: the network is trained in this
        precision.
    y : ndarray of shape (n_samples,)
        Positions in the seen classes.
    device : {"cpu", "cuda"} or None
        See :func:`training_device`.

    Attributes
    ----------
    like : tensor
        An empty one, in the dtype and on the device of training.
    """

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
        self.like = torch.empty(0, dtype=X.dtype, device=place)
        self.n_samples, self.n_features = (int(n) for n in X.shape)

    def take(self, rows: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        """Some rows and their classes, on the device."""
        import torch

        chosen = torch.from_numpy(rows)
        X = self._X[chosen.to(self._X.device)].to(self.like.device)
        return X, self._y[chosen.to(self._y.device)]

    def batches(
        self, size: int, rng: np.random.Generator, *, drop_last: bool = False
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch: every row once, in random order."""
        order = rng.permutation(self.n_samples)
        for start in range(0, self.n_samples, size):
            rows = order[start : start + size]
            if drop_last and start > 0 and len(rows) < size:
                return
            yield self.take(rows)


def epochs(n_epochs: int, verbose: int, what: str) -> Iterator[int]:
    """Count epochs, with a bar where one is asked for. Ctrl-C ends training between two batches."""
    with progress_bar(verbose > 0, n_epochs, f"{what}: epochs") as advance:
        for epoch in range(n_epochs):
            yield epoch
            advance(1)


def last_epoch(model: Any) -> int:
    """How many epochs a network is trained for: `max_iter`, or fewer where `stop_after` says so."""
    return int(min(model.max_iter, model.stop_after or model.max_iter))


def shared_runs(variants: Sequence[_Variant], *names: str) -> Iterator[list[_Variant]]:
    """Group estimators that one training run serves."""
    for group in group_by_params_except(variants, *names):
        if isinstance(group[0].random_state, Integral):  # type: ignore[attr-defined]
            yield group
        else:
            yield from ([variant] for variant in group)


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
    """Arrays as tensors that an optimiser may change, in the dtype and on the device of another."""
    return [tensor(array, like).requires_grad_() for array in arrays]


def learned(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Tensors as NumPy arrays of their own, on the host."""
    return [np.array(to_numpy(value)) for value in tensors]


def linear(x: Array, weight: Array, intercept: Array) -> Array:
    """A layer, x W + b, in the library, the dtype and on the device of x."""
    if not compat.is_torch_array(weight):
        weight, intercept = move_like(weight, x), move_like(intercept, x)
    return x @ weight + intercept[None, :]


def relu(x: Array, slope: float = 0.0) -> Array:
    """The larger of x and slope · x, in the library of x, for 0 ≤ slope < 1."""
    if compat.is_torch_array(x) and not slope:
        return x.relu()
    xp = compat.array_namespace(x)
    return xp.maximum(x, slope * x)


@contextmanager
def training_threads(work: int) -> Iterator[None]:
    """One thread of torch where a step is so small that a second costs more than it saves."""
    import torch

    before = torch.get_num_threads()
    try:
        if work < _ONE_THREAD_WORK:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
