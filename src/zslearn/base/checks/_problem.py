"""The problem that estimators are checked on, models that are fitted once, and comparisons."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._files import fingerprint
from zslearn._utils._messages import InputWarning
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._synthetic import make_zero_shot

#: Models of one estimator that are kept at a time.
_MOST_KEPT = 48

#: What solvers that stop at a tolerance may leave between two fits, of the largest score.
SOLVER_TOLERANCE = 2e-4
#: What a different order of the same additions may leave, of the largest score.
ROUNDING = 1e-9


@cache
def problem() -> ZeroShotDataset:
    """A small problem that every method can learn: 12 seen classes, 4 unseen."""
    return make_zero_shot(
        n_seen=12, n_unseen=4, n_features=20, n_attributes=8, samples_per_class=15, random_state=3
    )


def unused_rows() -> Floats:
    """Samples of all classes that no estimator is fitted on; a new array each time."""
    data = problem()
    return np.concatenate([data.X_test_seen, data.X_test_unseen])


def new_names() -> dict[str, int]:
    """Numbers for the labels, in the same order, so that even random choices are the same."""
    return {label: 3 * i + 7 for i, label in enumerate(np.sort(problem().signatures.index))}


def late_classes() -> Any:
    """Unseen classes that some checks describe after `fit`."""
    return problem().unseen_classes[::2]


def new_class() -> pd.DataFrame:
    """The signature of a class that the problem does not have."""
    known = problem().signatures
    return pd.DataFrame([known.iloc[[0, 5, 9]].mean()], index=["zz-new"])


class TrainingData(NamedTuple):
    """What `fit` is called with."""

    X: Any
    y: Any
    signatures: Any


def _as_it_is() -> TrainingData:
    data = problem()
    # Copies: what an estimator under check writes to must not reach the next one.
    return TrainingData(data.X_train.copy(), data.y_train.copy(), data.signatures.copy())


def _shuffled() -> TrainingData:
    whole = _as_it_is()
    order = np.random.default_rng(0).permutation(len(whole.signatures))
    return whole._replace(signatures=whole.signatures.iloc[order])


def _renamed() -> TrainingData:
    whole, names = _as_it_is(), new_names()
    y = np.asarray([names[label] for label in whole.y])
    return TrainingData(whole.X, y, whole.signatures.rename(index=names))


def _without_late() -> TrainingData:
    whole = _as_it_is()
    return whole._replace(signatures=whole.signatures.drop(index=late_classes()))


def _single_precision() -> TrainingData:
    whole = _as_it_is()
    return whole._replace(X=whole.X.astype(np.float32))


def _small() -> TrainingData:
    whole = _as_it_is()
    rows = np.concatenate([np.flatnonzero(whole.y == c)[:6] for c in np.unique(whole.y)])
    return whole._replace(X=whole.X[rows], y=whole.y[rows])


_DATA: dict[str, Callable[[], TrainingData]] = {
    "as it is": _as_it_is,
    "shuffled": _shuffled,
    "renamed": _renamed,
    "without late classes": _without_late,
    "float32": _single_precision,
    # For checks that fit many settings.
    "small": _small,
}


def training_data(name: str = "as it is") -> TrainingData:
    """What `fit` is called with, by the name of the change made to it."""
    return _DATA[name]()


class _Kept:
    """What was computed of the estimator under check; another estimator empties it."""

    def __init__(self) -> None:
        self._owner: tuple[type, str] | None = None
        self._results: OrderedDict[str, Any] = OrderedDict()

    def get(self, estimator: Any, key: str, compute: Callable[[], Any]) -> Any:
        owner = type(estimator), fingerprint(estimator)
        if owner != self._owner:
            self._owner = owner
            self._results.clear()
        if key not in self._results:
            self._results[key] = compute()
        self._results.move_to_end(key)
        while len(self._results) > _MOST_KEPT:
            self._results.popitem(last=False)
        return self._results[key]


_KEPT = _Kept()


def once(estimator: Any, key: str, compute: Callable[[], Any]) -> Any:
    """What a computation gives, the first time and again while the same estimator is checked."""
    return _KEPT.get(estimator, key, compute)


def fitted(estimator: Any, data: str = "as it is", **settings: Any) -> Any:
    """The estimator under some settings, fitted once for all checks: never change it."""

    def compute() -> Any:
        return fit(clone(estimator).set_params(**settings), training_data(data))

    return once(estimator, fingerprint(data, settings), compute)


def fit(estimator: Any, data: TrainingData) -> Any:
    """Fit without the warnings that a small problem gives rise to."""
    with quiet():
        return estimator.fit(data.X, data.y, signatures=data.signatures)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of components beyond the rank, or of solvers that stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def is_scaled_by_all(estimator: Any) -> bool:
    """Whether every class described at `fit` counts for the scale of the signatures."""
    return any(
        name.split("__")[-1] == "signature_scale" and isinstance(value, str) and value == "all"
        for name, value in estimator.get_params(deep=True).items()
    )


def fail(estimator: Any, what: str, look: str) -> NoReturn:
    """Say which estimator, what is wrong, and what to look at."""
    raise AssertionError(f"{estimator!r}: {what}. {look}")


def require(holds: bool, estimator: Any, what: str, look: str) -> None:
    """Fail unless something holds."""
    if not holds:
        fail(estimator, what, look)


def require_equal(estimator: Any, actual: Any, expected: Any, what: str, look: str) -> None:
    """Fail unless two arrays, of labels or of numbers, are the same."""
    actual, expected = to_numpy(actual), to_numpy(expected)
    if actual.shape != expected.shape:
        fail(estimator, f"{what} has shape {actual.shape}, not {expected.shape}", look)
    different = np.argwhere(actual != expected)
    if len(different):
        where = tuple(int(i) for i in different[0])
        fail(
            estimator,
            f"{what} differs in {len(different)} of {actual.size} places, first at {where}: "
            f"{actual[where]} instead of {expected[where]}",
            look,
        )


def require_close(
    estimator: Any, actual: Any, expected: Any, what: str, look: str, tolerance: float
) -> None:
    """Fail unless two arrays of numbers agree to a share of the largest number."""
    actual = np.asarray(to_numpy(actual), dtype=np.float64)
    expected = np.asarray(to_numpy(expected), dtype=np.float64)
    if actual.shape != expected.shape:
        fail(estimator, f"{what} has shape {actual.shape}, not {expected.shape}", look)
    if not np.isfinite(actual).all():
        fail(estimator, f"{what} has NaN or infinity in it", look)
    difference = np.abs(actual - expected)
    scale = np.abs(expected).max()
    if difference.max() > tolerance * scale:
        where = tuple(int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
        fail(
            estimator,
            f"{what} differs by {difference.max() / scale:.1e} of the largest number, where "
            f"{tolerance:.0e} is allowed; at {where}, {actual[where]:.8g} instead of "
            f"{expected[where]:.8g}",
            look,
        )
