r"""Base of the ranking methods: scaled features, a descent by epochs, early stopping by classes.

A sample of class y with the scores :math:`F_c` violates its ranking by
:math:`h_c = 1 + F_c - F_y` in every other class c where that is positive. The losses differ in
what they make of the violators; the slopes of a sample add up to zero over the classes.

A method says how it descends; here the descent is run. Estimators that differ in when it ends are
states of one and the same descent, which is run once for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._embedding import PreparedRows, for_many_passes
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.baselines._early_stopping import HeldOutClasses, on_one_path

#: An array of NumPy in any floating dtype: descents run in that of their rows.
AnyFloats = NDArray[np.floating[Any]]

# A feature that deviates by fewer rounding errors of its size than this is constant.
_CONSTANT = 10


class Scaling(NamedTuple):
    """What is done to features: the mean is taken off, and what is left multiplied by weights."""

    mean: Floats
    weights: Floats

    @classmethod
    def of(cls, X: AnyFloats, kind: str | None) -> Scaling:
        """Learn from rows: "center", "zscore" or None."""
        n_features = X.shape[1]
        if kind is None:
            return cls(np.zeros(n_features), np.ones(n_features))
        total = np.zeros(n_features)
        low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        for rows in _blocks(X):
            block = X[rows]
            total += block.sum(axis=0, dtype=np.float64)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        mean = total / len(X)
        # In units of each feature's size, so that squares neither overflow nor vanish.
        size = np.maximum(-low, high)
        unit = np.where(size > 0, size, 1.0)
        squares = np.zeros(n_features)
        for rows in _blocks(X):
            squares += np.sum(((X[rows] - mean) / unit) ** 2, axis=0)
        std = unit * np.sqrt(squares / len(X))
        varies = std > _CONSTANT * np.finfo(X.dtype).eps * unit
        if kind == "center":
            norm = float(np.linalg.norm(std))
            return cls(mean, np.full(n_features, 1 / norm if varies.any() else 1.0))
        weights = np.where(varies, 1 / np.where(varies, std, 1.0), 0.0)
        # Of centred features the largest is positive.
        largest = float(np.max((high - mean) * weights))
        return cls(mean, weights / largest if largest > 0 else weights)

    def __call__(self, X: Array) -> Array:
        """Scale rows of any library."""
        scaled = X - move_like(self.mean, X)[None, :]
        scaled *= move_like(self.weights, X)[None, :]
        return scaled


def _blocks(X: Any) -> list[slice]:
    """Rows that are read at a time."""
    return row_blocks(X.shape[0], row_bytes=2 * 8 * X.shape[1])


class ScaledRows:
    """Rows that are prepared and scaled as they are read, so that no copy of them is held."""

    def __init__(self, rows: Any, scaling: Scaling) -> None:
        self.rows, self.scaling = rows, scaling
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, which: slice | NDArray[np.intp]) -> AnyFloats:
        rows = self.rows[which] if isinstance(which, slice) else self.rows.take(which)
        scaled: AnyFloats = self.scaling(rows)
        return scaled


def mean_square(X: AnyFloats | ScaledRows) -> float:
    """Mean squared norm of rows; 1 where all are zero."""
    parts = (X[rows] for rows in _blocks(X))
    total = sum(float(np.einsum("nd,nd->", part, part, dtype=np.float64)) for part in parts)
    return total / len(X) or 1.0


def rank_weights(n_classes: int) -> Floats:
    """What each of k violators weighs in the rank-weighted loss: β_k / k, from k = 0 on."""
    k = np.arange(1, n_classes)
    return np.concatenate([[0.0], np.cumsum(1 / k) / k])


def slopes_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> AnyFloats:
    """Slopes of w_k Σ_c max(0, 1 + F_c − F_y), where k classes violate; k is taken as given."""
    rows = np.arange(len(y))
    violates = scores > (scores[rows, y] - 1)[:, None]
    violates[rows, y] = False
    slope = violates.astype(scores.dtype)
    n_violators = slope.sum(axis=1)
    if weights is not None:
        weight = weights.astype(scores.dtype)[n_violators.astype(np.intp)]
        slope *= weight[:, None]
        n_violators *= weight
    slope[rows, y] = -n_violators
    return slope


def slopes_of_worst(scores: AnyFloats, y: NDArray[np.intp]) -> AnyFloats:
    """Slopes of max(0, max_c 1 + F_c − F_y), the hinge of the worst violator."""
    rows = np.arange(len(y))
    excess = 1 + scores - scores[rows, y][:, None]
    excess[rows, y] = 0
    worst = excess.argmax(axis=1)
    violated = rows[excess[rows, worst] > 0]
    slope = np.zeros_like(scores)
    slope[violated, worst[violated]] = 1
    slope[violated, y[violated]] = -1
    return slope


class Descent(ABC):
    """Epochs of stochastic descent over shuffled batches of rows X of classes y.

    A step is taken down the sum of a batch's slopes, not their mean: what an epoch achieves then
    hardly depends on the size of the batches. Epoch t takes steps of `step` / t^power_t.
    """

    def __init__(
        self,
        X: AnyFloats | ScaledRows,
        y: NDArray[np.intp],
        step: float,
        power_t: float,
        batch_size: int,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.y, self.step = X, y, step
        self.power_t, self.batch_size, self.rng = power_t, batch_size, rng
        self.n_epochs = 0

    def epoch(self) -> None:
        """Visit every row once."""
        self.n_epochs += 1
        order = self.rng.permutation(len(self.y))
        step = self.step / self.n_epochs**self.power_t
        with one_blas_thread():
            self._visit(order, step)

    @property
    @abstractmethod
    def coef(self) -> AnyFloats:
        """What was learned."""

    @abstractmethod
    def _visit(self, order: NDArray[np.intp], step: float) -> None:
        """Visit rows in some order, and take a step down the loss of each batch of them."""


class BilinearDescent(Descent):
    r"""Descent on a loss of the scores :math:`X W A^\top`, from W = 0.

    Slopes add up to zero over the classes, and so W is the same whatever is added to all
    signatures: they are centred, for the sake of rounding. Each step adds to W columns in the span
    of the signatures. So :math:`W = U^\top Q^\top` with an orthonormal basis Q of that span, in
    which the signatures have the coordinates :math:`B = A Q`.
    """

    def __init__(
        self,
        X: AnyFloats | ScaledRows,
        y: NDArray[np.intp],
        signatures: Floats,
        slopes: Callable[[AnyFloats, NDArray[np.intp]], AnyFloats],
        step: float,
        **options: Any,
    ) -> None:
        super().__init__(X, y, step, **options)
        self.slopes = slopes
        centered = signatures - signatures.mean(axis=0)
        left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
        rounding = max(centered.shape) * np.finfo(np.float64).eps * sizes[0]
        rank = max(1, int(np.sum(sizes > rounding)))
        left, sizes = left[:, :rank], sizes[:rank]
        # As combinations of the signatures: where all of these are equal, the basis is zero.
        basis = (left / np.where(sizes > 0, sizes, 1.0)).T @ centered
        self.coordinates, self.basis = (left * sizes).astype(X.dtype), basis.astype(X.dtype)
        self.U = np.zeros((rank, X.shape[1]), dtype=X.dtype)

    @property
    def coef(self) -> AnyFloats:
        """W, of shape (n_features, n_attributes)."""
        return self.U.T @ self.basis

    def _visit(self, order: NDArray[np.intp], step: float) -> None:
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            X = self.X[rows]
            slope = self.slopes(X @ self.U.T @ self.coordinates.T, self.y[rows])
            change = slope @ self.coordinates * X.dtype.type(step)
            # Rows that violate nothing would add zeros.
            active = change.any(axis=1)
            self.U -= change[active].T @ X[active]


#: What `random_state` may be.
Seed = int | np.random.RandomState | None


@inherit_docs
@saves(
    coef_=Saved("n_features", "n_attributes"),
    mean_=Saved("n_features"),
    feature_weights_=Saved("n_features"),
    n_iter_=Saved(kind="int", least=0),
    validation_scores_=Saved(each=True, finite=False, optional=True),
)
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
    batch_size : int, default=64
        Samples that share a step. An epoch achieves about the same for any size.
    power_t : float, default=0.0
        Epoch t takes steps of ``learning_rate / t**power_t``; 0 keeps the step constant.
    scaling : {"center", "zscore"} or None, default="center"
        What is done to the prepared features: the mean is taken off; that, and each feature is
        brought to unit variance and all are divided by the largest value; nothing. An offset that
        all images share slows training down.
    early_stopping : bool, default=False
        Whether training ends, within `max_iter`, where seen classes that are held out are best
        distinguished; the method is then trained on all seen classes for that long. Of equally good
        ends the last is taken. It needs five seen classes, and signatures that say something of the
        classes held out.
    validation_fraction : float, default=0.2
        Share of the seen classes held out by `early_stopping`, two at least.
    n_iter_no_change : int, default=10
        Epochs with a lower accuracy than the best after which `early_stopping` looks no further.
    random_state : int, RandomState instance or None, default=0
        Shuffles the samples and chooses the classes held out; whatever else is random in a method
        comes from it, too.

    Attributes
    ----------
    coef_ : array
        The map or maps.
    mean_ : ndarray of shape (n_features,)
        What is taken from the prepared features.
    feature_weights_ : ndarray of shape (n_features,)
        What the centred features are multiplied by; 0 for a constant one under "zscore".
    validation_scores_ : list of float
        Per-class accuracy among the classes held out after each epoch, or step, with
        `early_stopping`; else empty.
    n_iter_ : int
        Number of epochs run on all seen classes.
    """

    describes_each_alone = True
    embedding_attributes = ("mean_", "feature_weights_")

    learning_rate: float
    max_iter: int
    batch_size: int
    power_t: float
    scaling: str | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    random_state: Seed

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

    def _descent(self, training: Training) -> Descent:
        """Begin a descent on scaled rows."""
        raise TypeError(f"{type(self).__name__} must define _descent(training).")

    @staticmethod
    def _of_maps(coef: Array, signatures: Array) -> Array:
        """Make the parameters of classes from the maps and their signatures."""
        raise TypeError("A ranking method must define _of_maps(coef, signatures).")

    def _options(self) -> dict[str, Any]:
        """What every descent takes."""
        return {
            "power_t": self.power_t,
            "batch_size": self.batch_size,
            "rng": check_random_state(self.random_state),
        }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Rows are scaled once per kind; variants along one descent share it."""
        rows = for_many_passes(training.rows)
        lazy = isinstance(rows, PreparedRows)
        host = training if lazy else replace(training, rows=to_numpy(rows))
        for same_scaling in group_by_params(variants, "scaling"):
            scaling = Scaling.of(host.rows, same_scaling[0].scaling)
            scaled = replace(host, rows=ScaledRows(rows, scaling) if lazy else scaling(host.rows))
            for group in on_one_path(same_scaling):
                ends = [variant._n_epochs(host) for variant in group]
                descent = group[0]._descent(scaled)
                for i in np.argsort(ends, kind="stable"):
                    while descent.n_epochs < ends[i]:
                        descent.epoch()
                    variant = group[i]
                    # The very same arrays: a search sees by them that variants embed equally.
                    variant.mean_, variant.feature_weights_ = scaling
                    variant.coef_ = move_like(descent.coef, training.rows[0:1, :])
                    variant.n_iter_ = ends[i]
                    yield variant

    def _n_epochs(self, training: Training) -> int:
        """How long to train on all seen classes."""
        self.validation_scores_: list[float] = []
        if not self.early_stopping:
            return self.max_iter
        rng = check_random_state(self.random_state)
        classes = HeldOutClasses.of(training, self.validation_fraction, rng)
        if classes is None:
            return self.max_iter
        kept, held = classes.kept, classes.held
        scaling = Scaling.of(kept.X, self.scaling)
        rows = scaling(held.X)
        signatures = held.signatures.astype(rows.dtype)
        descent = self._descent(replace(kept, rows=scaling(kept.X)))
        while (
            descent.n_epochs < self.max_iter
            and descent.n_epochs - classes.best < self.n_iter_no_change
        ):
            descent.epoch()
            classes.judge(rows, self._of_maps(descent.coef, signatures), self.score_function)
        self.validation_scores_ = classes.accuracies
        return classes.best

    def embed(self, X: Array) -> Array:
        """Scale features as the training features were."""
        return Scaling(self.mean_, self.feature_weights_)(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Make the parameters of each class."""
        return self._of_maps(self.coef_, move_like(signatures, self.coef_))


@inherit_docs
class OneMapRanking(RankingClassifier):
    """Base of ranking methods that learn one bilinear map W; `_descent` calls `_begin_descent`.

    Attributes
    ----------
    coef_ : array of shape (n_features, n_attributes)
        The bilinear map W.
    """

    def _begin_descent(
        self, training: Training, slopes: Callable[..., AnyFloats], steepest: float
    ) -> BilinearDescent:
        """Begin a descent whose steps are in units of the margin at the steepest slope.

        `steepest` is the sum of a sample's positive slopes, at most. The difference of two classes'
        scores changes by step · slope · ‖x‖² ‖a − a′‖², so that a step of 1 / (steepest · mean ‖x‖²
        · mean ‖a − a′‖²), over samples and over pairs of classes, changes it by about one.
        """
        X, signatures = training.X, training.signatures
        centered = signatures - signatures.mean(axis=0)
        distance = float(2 * np.sum(centered**2) / (len(signatures) - 1)) or 1.0
        step = self.learning_rate / (steepest * mean_square(X) * distance)
        return BilinearDescent(X, training.y, signatures, slopes, step, **self._options())

    @staticmethod
    def _of_maps(coef: Array, signatures: Array) -> Array:
        """W a of each signature a."""
        return signatures @ compat.array_namespace(coef).matrix_transpose(coef)

    @staticmethod
    def _grids(
        lowest_rate: float, fast_rates: list[float], fast_epochs: list[int]
    ) -> dict[str, dict[str, list[Any]]]:
        """Grids by name; learning rates of the first are powers of four, from the lowest on."""
        return {
            "paper": {
                "early_stopping": [False],
                "scaling": ["center", "zscore", None],
                "learning_rate": [lowest_rate * 4.0**k for k in range(8)],
                "max_iter": [1, 2, 4, 8, 16, 32, 64, 128],
            },
            "fast": {
                "early_stopping": [False],
                "scaling": ["center"],
                "learning_rate": fast_rates,
                "max_iter": fast_epochs,
            },
        }
