"""The data of the checks, models that several checks share, and comparisons."""

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

# Tolerances, relative to the largest score.
#: Of two fits by solvers that stop at a tolerance.
SOLVER_TOLERANCE = 2e-4
#: Of sums in another order.
ROUNDING = 1e-9
#: Of a repeated computation, since the order of sums in BLAS may depend on memory addresses.
REPEATED = 1e-12


@cache
def problem() -> ZeroShotDataset:
    """A small problem that every method can learn: 12 seen classes, 4 unseen."""
    return make_zero_shot(
        n_seen=12, n_unseen=4, n_features=20, n_attributes=8, samples_per_class=15, random_state=3
    )


def unused_rows() -> Floats:
    """Test samples of all classes; a new array each time."""
    return np.concatenate([problem().X_test_seen, problem().X_test_unseen])


def scores_of(model: Any) -> Any:
    """Scores of the test samples against all classes."""
    return model.decision_function(unused_rows())


def new_names() -> dict[str, int]:
    """Numbers for the labels in the same order, so that random choices are the same."""
    return {label: 3 * i + 7 for i, label in enumerate(np.sort(problem().signatures.index))}


def late_classes() -> Any:
    """Unseen classes that some checks describe after `fit`."""
    return problem().unseen_classes[::2]


def add_class(model: Any) -> Any:
    """Add a class "zz-new" to a model and return it."""
    known = problem().signatures
    with quiet():
        return model.add_classes(pd.DataFrame([known.iloc[[0, 5, 9]].mean()], index=["zz-new"]))


class TrainingData(NamedTuple):
    """The arguments of `fit`."""

    X: Any
    y: Any
    signatures: Any


def training_data(change: str = "") -> TrainingData:
    """The arguments of `fit`, changed as named."""
    data = problem()
    # Copies, so that an estimator that modifies them does not affect the next one.
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


# Results for the estimator under check; another estimator clears them.
_kept: dict[Any, dict[str, Any]] = {}


def once(estimator: Any, key: str, compute: Callable[[], Any]) -> Any:
    """The result of a computation, cached while the same estimator is checked."""
    owner = type(estimator), fingerprint(estimator)
    if owner not in _kept:
        _kept.clear()
    results = _kept.setdefault(owner, {})
    if key not in results:
        results[key] = compute()
    return results[key]


def fitted(estimator: Any, data: str = "", **settings: Any) -> Any:
    """The estimator with some settings, fitted once for all checks, which must not change it."""

    def compute() -> Any:
        return fit(clone(estimator).set_params(**settings), training_data(data))

    return once(estimator, fingerprint(data, settings), compute)


def fit(estimator: Any, data: TrainingData) -> Any:
    """Fit without warnings."""
    with quiet():
        return estimator.fit(data.X, data.y, signatures=data.signatures)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of small problems and of solvers that stop early."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def same_choices(
    actual: Any, expected: Any, model: Any, X: Any, tolerance: float = ROUNDING
) -> NDArray[np.bool_]:
    """Whether labels are equal, or those of classes whose scores differ only by rounding."""
    actual, expected = to_numpy(actual), to_numpy(expected)
    scores, classes = to_numpy(model.decision_function(X)), pd.Index(to_numpy(model.classes_))

    def own_scores(labels: Any) -> Any:
        positions = classes.get_indexer(labels.ravel()).reshape(len(labels), -1)
        own = np.take_along_axis(scores, positions, axis=1)
        return np.where(positions < 0, np.nan, own).reshape(labels.shape)

    near = np.abs(own_scores(actual) - own_scores(expected)) <= tolerance * np.abs(scores).max()
    return np.asarray((actual == expected) | near)


@dataclass(frozen=True)
class Expect:
    """Comparisons whose errors name the estimator, the problem, and advice."""

    estimator: Any
    look: str

    def fail(self, what: str) -> NoReturn:
        """Raise an error."""
        raise AssertionError(f"{self.estimator!r}: {what}. {self.look}")

    def that(self, holds: Any, what: str) -> None:
        """Fail unless a condition holds."""
        if not holds:
            self.fail(what)

    def equal(self, actual: Any, expected: Any, what: str) -> None:
        """Fail unless two arrays are equal."""
        actual, expected = to_numpy(actual), to_numpy(expected)
        self._same_shape(actual, expected, what)
        self._all(actual == expected, actual, expected, what)

    def same_choice(
        self, actual: Any, expected: Any, model: Any, what: str, tolerance: float = ROUNDING
    ) -> None:
        """Fail unless predictions of the test samples are equal, except for ties."""
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
        """Fail unless two arrays agree to a tolerance relative to the largest number."""
        actual = np.asarray(to_numpy(actual), dtype=np.float64)
        expected = np.asarray(to_numpy(expected), dtype=np.float64)
        self._same_shape(actual, expected, what)
        self.that(np.isfinite(actual).all(), f"{what} contains NaN or infinity")
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
            actual.shape == expected.shape, f"{what} has shape {actual.shape}, not {expected.shape}"
        )
