"""What the ranking methods share: scaled features, kept epochs, early stopping by classes.

A method says how it descends; here the descent is run. Estimators that differ in `max_iter` alone
are states of one and the same descent, which is run once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier
from zslearn.metrics import per_class_accuracy
from zslearn.scoring import class_scores
from zslearn.solvers._ranking import Floats
from zslearn.utils import Array, InputWarning, move_like, to_numpy, warn_user

# With fewer seen classes those held out would tell nothing.
_FEWEST_CLASSES = 5
# Rows that are widened to float64 at a time.
_BLOCK = 1024
# A feature that deviates by fewer rounding errors of its size than this is constant.
_CONSTANT = 10


class Scaling(NamedTuple):
    """What is done to features: the mean is taken off, and the rest multiplied.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        What is taken off.
    weights : ndarray of shape (n_features,)
        What the rest is multiplied by.
    """

    mean: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, X: Floats, kind: str | None) -> Scaling:
        """Learn from rows: "center", "zscore" or None.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        kind : {"center", "zscore"} or None
            See :class:`RankingClassifier`.

        Returns
        -------
        Scaling
            With weights of 0 for features that "zscore" finds constant.
        """
        n_features = X.shape[1]
        if kind is None:
            return cls(np.zeros(n_features), np.ones(n_features))
        mean = X.mean(axis=0, dtype=np.float64)
        # In units of each feature's size, so that squares neither overflow nor vanish.
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        size = np.maximum(-low, high)
        unit = np.where(size > 0, size, 1.0)
        squares = np.zeros(n_features)
        for start in range(0, len(X), _BLOCK):
            squares += np.sum(((X[start : start + _BLOCK] - mean) / unit) ** 2, axis=0)
        std = unit * np.sqrt(squares / len(X))
        varies = std > _CONSTANT * np.finfo(X.dtype).eps * unit
        if kind == "center":
            norm = float(np.linalg.norm(std))
            return cls(mean, np.full(n_features, 1 / norm if varies.any() else 1.0))
        weights = np.where(varies, 1 / np.where(varies, std, 1.0), 0.0)
        largest = float(np.max(np.maximum(mean - low, high - mean) * weights))
        return cls(mean, weights / largest if largest > 0 else weights)

    def __call__(self, X: Array) -> Array:
        """Scale rows of any library."""
        scaled = X - move_like(self.mean, X)[None, :]
        scaled *= move_like(self.weights, X)[None, :]
        return scaled


class RankingClassifier(ZeroShotClassifier):
    """Base of methods that learn bilinear maps by stochastic descent on a ranking loss.

    A method writes `_descent`, which begins a descent on scaled rows, and `_of_maps`, which makes
    the parameters of classes from its maps. Its hyper-parameters include those below.

    Parameters
    ----------
    learning_rate : float
        Length of the steps, in units in which the data's scale does not matter.
    max_iter : int
        Number of epochs.
    batch_size : int
        Samples that share a step.
    power_t : float
        Epoch t takes steps of learning_rate / t^power_t.
    scaling : {"center", "zscore"} or None
        What is done to the prepared features.
    early_stopping : bool
        Whether the number of epochs is chosen on seen classes that are held out.
    validation_fraction : float
        Share of the seen classes held out.
    n_iter_no_change : int
        Epochs with a lower accuracy than the best after which `early_stopping` looks no further.
    random_state : int, RandomState instance or None
        Shuffles the samples and chooses the classes held out.
    """

    learning_rate: float
    max_iter: int
    batch_size: int
    power_t: float
    scaling: str | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    random_state: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "power_t": [Interval(Real, 0, 1, closed="both")],
        "scaling": [StrOptions({"center", "zscore"}), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    # What a method writes.

    def _descent(self, X: Floats, y: NDArray[np.intp], signatures: NDArray[np.float64]) -> Any:
        """Begin a descent that has `epoch()`, `n_epochs` and the maps `coef`."""
        raise TypeError(f"{type(self).__name__} must define _descent(X, y, signatures).")

    @staticmethod
    def _of_maps(coef: Array, signatures: Array) -> Array:
        """Parameters of classes: W a of each signature a, for one map W."""
        return signatures @ compat.array_namespace(coef).matrix_transpose(coef)

    def _options(self) -> dict[str, Any]:
        """What every descent is told."""
        return {
            "power_t": self.power_t,
            "batch_size": self.batch_size,
            "rng": check_random_state(self.random_state),
        }

    # How it is done.

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: NDArray[np.float64]) -> None:
        rows = to_numpy(X)
        n_epochs = self.max_iter
        self.validation_scores_: list[float] = []
        if self.early_stopping:
            n_epochs = self._chosen_epochs(rows, y, signatures)
        scaling = Scaling.of(rows, self.scaling)
        descent = self._descent(scaling(rows), y, signatures)
        for _ in range(n_epochs):
            descent.epoch()
        self._take(descent, scaling, X)

    def _take(self, descent: Any, scaling: Scaling, like: Array) -> None:
        """The present state of a descent as what was learned."""
        self.mean_, self.feature_weights_ = scaling
        self.coef_ = move_like(descent.coef, like)
        self.n_iter_ = descent.n_epochs

    def _chosen_epochs(
        self, X: Floats, y: NDArray[np.intp], signatures: NDArray[np.float64]
    ) -> int:
        """The number of epochs after which classes held out are told apart best."""
        n_seen = len(signatures)
        if n_seen < _FEWEST_CLASSES:
            warn_user(
                f"early_stopping=True needs {_FEWEST_CLASSES} seen classes to hold some out, and "
                f"there are {n_seen}: all max_iter={self.max_iter} epochs are run.",
                InputWarning,
            )
            return self.max_iter
        n_held = int(np.clip(round(self.validation_fraction * n_seen), 2, n_seen - 2))
        order = check_random_state(self.random_state).permutation(n_seen)
        held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
        is_held = np.isin(y, held)
        training, truth = X[~is_held], y[is_held]
        scaling = Scaling.of(training, self.scaling)
        rows = scaling(X[is_held])
        descent = self._descent(
            scaling(training), np.searchsorted(kept, y[~is_held]), signatures[kept]
        )
        best, chosen = -1.0, 0
        while descent.n_epochs < self.max_iter and (
            descent.n_epochs - chosen < self.n_iter_no_change
        ):
            descent.epoch()
            described = self._of_maps(descent.coef, signatures[held].astype(rows.dtype))
            scores = class_scores(rows, described, score=self.score_function)
            accuracy = float(per_class_accuracy(truth, held[scores.argmax(axis=1)]))
            self.validation_scores_.append(accuracy)
            # Of equals the last: where classes held out cannot be told apart, nothing is cut short.
            if accuracy >= best:
                best, chosen = accuracy, descent.n_epochs
        return chosen

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Those that differ in `max_iter` alone share one descent."""
        groups: dict[Any, list[tuple[int, Self]]] = {}
        for i, one in enumerate(self._variants(settings)):
            given = one.get_params(deep=False)
            if not one.early_stopping:
                del given["max_iter"]
            groups.setdefault(tuple(given.values()), []).append((i, one))
        for key in list(groups):
            yield from self._fit_group(training, groups.pop(key))

    def _can_share(self, names: set[str]) -> bool:
        return not names & {"feature_norm", "signature_scale"}

    def _fit_group(
        self, training: Training, group: list[tuple[int, Self]]
    ) -> Iterator[tuple[int, Self]]:
        """Fit estimators that are states of one descent, the shortest first.

        The group is used up: no more than one fitted estimator is held.
        """
        group.sort(key=lambda item: item[1].max_iter)
        descent = None
        while group:
            i, one = group.pop(0)
            if one.early_stopping:
                one._fit(training.X, training.y, training.signatures)
            else:
                if descent is None:
                    rows = to_numpy(training.X)
                    scaling = Scaling.of(rows, one.scaling)
                    descent = one._descent(scaling(rows), training.y, training.signatures)
                while descent.n_epochs < one.max_iter:
                    descent.epoch()
                one.validation_scores_ = []
                one._take(descent, scaling, training.X)
            yield i, one

    def embedding_key(self) -> str:
        """How features are scaled: nothing else changes the embedding."""
        return str(self.scaling)

    def embed(self, X: Array) -> Array:
        """Scale features as the training features were.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_features)
            Scaled features.
        """
        return Scaling(self.mean_, self.feature_weights_)(X)

    def synthesize(self, signatures: NDArray[np.float64]) -> Array:
        """Make the parameters of each class.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_features), or (n_classes, n_maps, n_features)
            The classifiers of each class.
        """
        return self._of_maps(self.coef_, move_like(signatures, self.coef_))


def relative_step(X: Floats, signatures: NDArray[np.float64], steepest: float) -> float:
    """The step that moves a score difference by about one, the margin, at the steepest slope.

    The difference of two classes' scores changes by step · slope · ‖x‖² ‖a − a′‖²; both squares
    are taken by their mean, over samples and over pairs of classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Scaled rows.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures of the classes.
    steepest : float
        Sum of a sample's positive slopes, at most.

    Returns
    -------
    float
        1 / (steepest · mean ‖x‖² · mean ‖a − a′‖²).
    """
    n_classes = len(signatures)
    centered = signatures - signatures.mean(axis=0)
    distance = 2 * np.sum(centered**2) / (n_classes - 1)
    size = float(np.einsum("nd,nd->", X, X, dtype=np.float64)) / len(X)
    return 1 / (steepest * (size or 1.0) * (float(distance) or 1.0))
