"""The problem that estimators are checked on, models that are fitted once, and comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import InputWarning
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._synthetic import make_zero_shot

#: What solvers that stop at a tolerance may leave between two fits, of the largest score.
SOLVER_TOLERANCE = 2e-4
#: What a different order of the same additions may leave, of the largest score.
ROUNDING = 1e-9
#: What repeating one computation may leave: BLAS may add in an order that depends on where the
#: arrays lie in memory.
REPEATED = 1e-12


@cache
def problem() -> ZeroShotDataset:
    """A small problem that every method can learn: 12 seen classes, 4 unseen."""
    return make_zero_shot(
        n_seen=12, n_unseen=4, n_features=20, n_attributes=8, samples_per_class=15, random_state=3
    )


def unused_rows() -> Floats:
    """Samples of all classes that no estimator is fitted on; a new array each time."""
    return np.concatenate([problem().X_test_seen, problem().X_test_unseen])


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


def training_data(change: str = "") -> TrainingData:
    """What `fit` is called with, by the name of the change made to it."""
    data = problem()
    # Copies: what an estimator under check writes to must not reach the next one.
    X, y, signatures = data.X_train.copy(), data.y_train.copy(), data.signatures.copy()
    if change == "shuffled":
        signatures = signatures.iloc[np.random.default_rng(0).permutation(len(signatures))]
    elif change == "renamed":
        y = np.asarray([new_names()[label] for label in y])
        signatures = signatures.rename(index=new_names())
    elif change == "without late classes":
        signatures = signatures.drop(index=late_classes())
    elif change == "float32":
        X = X.astype(np.float32)
    elif change == "small":  # for checks that fit many settings
        rows = np.concatenate([np.flatnonzero(y == c)[:6] for c in np.unique(y)])
        X, y = X[rows], y[rows]
    return TrainingData(X, y, signatures)


# What was computed of the estimator under check; another estimator empties it.
_kept: dict[Any, dict[str, Any]] = {}


def once(estimator: Any, key: str, compute: Callable[[], Any]) -> Any:
    """What a computation gives, the first time and again while the same estimator is checked."""
    owner = type(estimator), fingerprint(estimator)
    if owner not in _kept:
        _kept.clear()
    results = _kept.setdefault(owner, {})
    if key not in results:
        results[key] = compute()
    return results[key]


def fitted(estimator: Any, data: str = "", **settings: Any) -> Any:
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


def same_choices(
    actual: Any, expected: Any, model: Any, X: Any, tolerance: float = ROUNDING
) -> NDArray[np.bool_]:
    """Tell where labels of the rows of X are the same, or name classes that are almost a tie.

    Rounding decides between scores of the model that are nearer than `tolerance` of the largest.
    """
    actual, expected = to_numpy(actual), to_numpy(expected)
    scores, classes = to_numpy(model.decision_function(X)), pd.Index(to_numpy(model.classes_))

    def scores_of(labels: Any) -> Any:
        positions = classes.get_indexer(labels.ravel()).reshape(len(labels), -1)
        named = np.take_along_axis(scores, positions, axis=1)
        return np.where(positions < 0, np.nan, named).reshape(labels.shape)

    near = np.abs(scores_of(actual) - scores_of(expected)) <= tolerance * np.abs(scores).max()
    return np.asarray((actual == expected) | near)


@dataclass(frozen=True)
class Expect:
    """Comparisons that fail with the estimator, what is wrong, and what to look at."""

    estimator: Any
    look: str

    def fail(self, what: str) -> NoReturn:
        """Say which estimator, what is wrong, and what to look at."""
        raise AssertionError(f"{self.estimator!r}: {what}. {self.look}")

    def that(self, holds: Any, what: str) -> None:
        """Fail unless something holds."""
        if not holds:
            self.fail(what)

    def equal(self, actual: Any, expected: Any, what: str) -> None:
        """Fail unless two arrays, of labels or of numbers, are the same."""
        actual, expected = to_numpy(actual), to_numpy(expected)
        self._same_shape(actual, expected, what)
        self._all(actual == expected, actual, expected, what)

    def same_choice(
        self, actual: Any, expected: Any, model: Any, what: str, tolerance: float = ROUNDING
    ) -> None:
        """Fail unless labels of the unused rows are the same, but for ties of a model's scores."""
        actual, expected = to_numpy(actual), to_numpy(expected)
        self._same_shape(actual, expected, what)
        same = same_choices(actual, expected, model, unused_rows(), tolerance)
        self._all(same, actual, expected, what)

    def _all(self, same: Any, actual: Any, expected: Any, what: str) -> None:
        different = np.argwhere(~np.asarray(same))
        if len(different):
            where = tuple(int(i) for i in different[0])
            self.fail(
                f"{what} differs in {len(different)} of {actual.size} places, first at {where}: "
                f"{actual[where]} instead of {expected[where]}"
            )

    def close(self, actual: Any, expected: Any, what: str, tolerance: float = ROUNDING) -> None:
        """Fail unless two arrays of numbers agree to a share of the largest number."""
        actual = np.asarray(to_numpy(actual), dtype=np.float64)
        expected = np.asarray(to_numpy(expected), dtype=np.float64)
        self._same_shape(actual, expected, what)
        self.that(np.isfinite(actual).all(), f"{what} has NaN or infinity in it")
        difference = np.abs(actual - expected)
        scale = np.abs(expected).max()
        if difference.max() > tolerance * scale:
            where = tuple(int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
            self.fail(
                f"{what} differs by {difference.max() / scale:.1e} of the largest number, where "
                f"{tolerance:.0e} is allowed; at {where}, {actual[where]:.8g} instead of "
                f"{expected[where]:.8g}"
            )

    def _same_shape(self, actual: Any, expected: Any, what: str) -> None:
        self.that(
            actual.shape == expected.shape,
            f"{what} has shape {actual.shape}, not {expected.shape}",
        )
