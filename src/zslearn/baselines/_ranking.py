r"""ALE, DeViSE, SJE and LatEm: bilinear maps learned by stochastic descent on a ranking loss.

With the scores :math:`F_c = x^\top W a_c` of a sample of class y, the hinge of every other class c
is :math:`h_c = \max\{0, 1 + F_c - F_y\}`. With k violating classes, :math:`h_c > 0`, which bounds
the rank of y, the losses of a sample are

.. math:: \text{ALE:} \; \frac{\beta_k}{k} \sum_{c \ne y} h_c, \quad \beta_k = \sum_{i=1}^k 1/i;
   \qquad \text{DeViSE:} \; \sum_{c \ne y} h_c; \qquad \text{SJE:} \; \max_{c \ne y} h_c.

LatEm's score is piecewise linear, the maximum over K maps,
:math:`F(x, a) = \max_k x^\top W_k a`. For each image another class c is drawn at random. Its loss
is :math:`h_c`, and the maps that attain the scores of y and c are updated. Early stopping is the
only regularisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._embedding import PreparedRows, for_many_passes
from zslearn._utils._array import Array, Floats, move_like, row_blocks, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params, group_by_path
from zslearn.base._training import Training

#: A NumPy array in any floating dtype: a descent runs in the dtype of its rows.
AnyFloats = NDArray[np.floating[Any]]
Seed = int | np.random.RandomState | None

# LatEm: standard deviation of the scores under the random initial maps, in units of the margin.
_INIT_SCALE = 0.1
# A feature is constant if its standard deviation is below this many rounding errors.
_CONSTANT = 10


class Scaling(NamedTuple):
    """Subtracts the mean from features, then multiplies them by weights."""

    mean: Floats
    weights: Floats

    @classmethod
    def of(cls, X: AnyFloats, kind: str | None) -> Scaling:
        """Estimate from rows, for "center", "zscore" or None."""
        n_features = X.shape[1]
        if kind is None:
            return cls(np.zeros(n_features), np.ones(n_features))
        blocks = _blocks(X)
        mean = sum(X[rows].sum(axis=0, dtype=np.float64) for rows in blocks) / len(X)
        if kind == "center":
            scale = np.sqrt(mean_square_distance(X)) or 1.0
            return cls(mean, np.full(n_features, 1 / scale))
        low = np.min([X[rows].min(axis=0) for rows in blocks], axis=0)
        high = np.max([X[rows].max(axis=0) for rows in blocks], axis=0)
        # Dividing by the largest magnitude of each feature keeps squares from over- or underflow.
        unit = np.maximum(-low, high).astype(np.float64)
        unit[unit == 0] = 1.0
        squares = sum(np.sum(((X[rows] - mean) / unit) ** 2, axis=0) for rows in blocks)
        std = unit * np.sqrt(squares / len(X))
        varies = std > _CONSTANT * np.finfo(X.dtype).eps * unit
        weights = np.divide(1, std, out=np.zeros(n_features), where=varies)
        # The largest value of a centred feature is positive.
        largest = float(np.max((high - mean) * weights))
        return cls(mean, weights / largest if largest > 0 else weights)

    def __call__(self, X: Array) -> Array:
        """Scale rows of any array library."""
        scaled = X - move_like(self.mean, X)[None, :]
        scaled *= move_like(self.weights, X)[None, :]
        return scaled


def _blocks(X: Any) -> list[slice]:
    return row_blocks(X.shape[0], row_bytes=2 * 8 * X.shape[1])


class ScaledRows:
    """Rows that are prepared and scaled whenever they are read, without a copy in memory."""

    def __init__(self, rows: Any, scaling: Scaling) -> None:
        self.rows, self.scaling = rows, scaling
        self.shape, self.dtype = rows.shape, rows.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def dense(self) -> ScaledRows:
        """These rows, since there is no dense copy."""
        return self

    def __getitem__(self, index: slice | NDArray[np.intp]) -> AnyFloats:
        rows = self.rows[index] if isinstance(index, slice) else self.rows.take(index)
        scaled: AnyFloats = self.scaling(rows)
        return scaled


def mean_square(X: AnyFloats | ScaledRows) -> float:
    """Mean squared norm of rows; 1 if all are zero."""
    parts = (X[rows] for rows in _blocks(X))
    total = sum(float(np.einsum("nd,nd->", part, part, dtype=np.float64)) for part in parts)
    return total / len(X) or 1.0


def rank_weights(n_classes: int) -> Floats:
    """Weight β_k / k of each of k violators in ALE's loss, k from 0 on."""
    k = np.arange(1, n_classes)
    return np.concatenate([[0.0], np.cumsum(1 / k) / k])


def slopes_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> AnyFloats:
    """Gradient of w_k Σ_c max(0, 1 + F_c − F_y) in the scores, for k violators (at fixed k)."""
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
    """Gradient of max(0, max_c 1 + F_c − F_y) in the scores."""
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

    A step follows the sum over a batch, not its mean: epochs hardly depend on the batch size.
    """

    def __init__(
        self,
        X: AnyFloats | ScaledRows,
        y: NDArray[np.intp],
        step: float,
        batch_size: int,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.y, self.step = X, y, step
        self.batch_size, self.rng = batch_size, rng
        self.n_epochs = 0

    def epoch(self) -> None:
        """Visit every row once."""
        self.n_epochs += 1
        with one_blas_thread():
            self._visit(self.rng.permutation(len(self.y)))

    @property
    @abstractmethod
    def coef(self) -> AnyFloats:
        """The learned maps."""

    @abstractmethod
    def _visit(self, order: NDArray[np.intp]) -> None:
        """Visit rows in the given order, with one step per batch."""


class BilinearDescent(Descent):
    r"""Descent on a loss of the scores :math:`X W A^\top`, from W = 0.

    Gradients sum to zero over the classes: the mean of the signatures has no effect, and centring
    them reduces rounding. Every step stays in the span of the signatures, :math:`W = U^\top Q^\top`
    with an orthonormal basis Q of that span, in which the signatures have the coordinates
    :math:`B = A Q`.
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
        # As combinations of the signatures: zero if all signatures are equal.
        basis = (left / np.where(sizes > 0, sizes, 1.0)).T @ centered
        self.coordinates, self.basis = (left * sizes).astype(X.dtype), basis.astype(X.dtype)
        self.U = np.zeros((rank, X.shape[1]), dtype=X.dtype)

    @property
    def coef(self) -> AnyFloats:
        """W, of shape (n_features, n_attributes)."""
        return self.U.T @ self.basis

    def _visit(self, order: NDArray[np.intp]) -> None:
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            X = self.X[rows]
            slope = self.slopes(X @ self.U.T @ self.coordinates.T, self.y[rows])
            change = slope @ self.coordinates * X.dtype.type(self.step)
            # Rows without violators have zero gradients.
            active = change.any(axis=1)
            self.U -= change[active].T @ X[active]


@inherit_docs
@saves(
    coef_=Saved("n_features", "n_attributes"),
    mean_=Saved("n_features"),
    feature_weights_=Saved("n_features"),
    n_iter_=Saved(kind="int", least=0),
)
@dataclass(eq=False, repr=False)
class RankingClassifier(ZeroShotClassifier):
    """Base of methods that learn bilinear maps by stochastic descent on a ranking loss.

    A subclass defines `_descent`, which starts a descent on scaled rows, and `_class_parameters`.

    Parameters
    ----------
    learning_rate : float
        Step size, relative to the scale of features and signatures.
    max_iter : int
        Number of epochs. A search trains once for all values.
    batch_size : int, default=64
        Samples per step; has little effect on an epoch.
    scaling : {"center", "zscore"} or None, default="center"
        Scaling of the prepared features. "center": subtract the mean. "zscore": standardise each
        feature and divide all by the largest value. An offset common to all images slows training.
    random_state : int, RandomState instance or None, default=0
        Seed of the order of the samples and of any other random numbers.

    Attributes
    ----------
    coef_ : array of shape (n_features, n_attributes)
        The bilinear map W.
    mean_ : ndarray of shape (n_features,)
        Mean subtracted from the prepared features.
    feature_weights_ : ndarray of shape (n_features,)
        Factors of the centred features; 0 for a constant feature with "zscore".
    n_iter_ : int
        Number of epochs.
    """

    learning_rate: float = 0.5
    max_iter: int = 16
    _: KW_ONLY
    batch_size: int = 64
    scaling: str | None = "center"
    random_state: Seed = 0

    synthesizes_independently = True
    embedding_attributes = ("mean_", "feature_weights_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "scaling": [StrOptions({"center", "zscore"}), None],
        "random_state": ["random_state"],
    }

    def _descent(self, training: Training) -> Descent:
        """Start a descent on scaled rows."""
        raise NotImplementedError

    @staticmethod
    def _class_parameters(coef: Array, signatures: Array) -> Array:
        """Compute class parameters from the maps and the signatures."""
        raise NotImplementedError

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Scale rows once per kind; variants that differ in `max_iter` share one descent."""
        rows = for_many_passes(training.rows)
        is_lazy = isinstance(rows, PreparedRows)
        rows = rows if is_lazy else to_numpy(rows)
        for same_scaling in group_by_params(variants, "scaling"):
            scaling = Scaling.of(rows, same_scaling[0].scaling)
            scaled_rows = ScaledRows(rows, scaling) if is_lazy else scaling(rows)
            scaled = replace(training, rows=scaled_rows)
            for group in group_by_path(same_scaling, "max_iter"):
                descent = group[0]._descent(scaled)
                for variant in sorted(group, key=lambda variant: variant.max_iter):
                    while descent.n_epochs < variant.max_iter:
                        descent.epoch()
                    # A search recognises equal embeddings by identical arrays.
                    variant.mean_, variant.feature_weights_ = scaling
                    variant.coef_ = move_like(descent.coef, training.rows[0:1, :])
                    variant.n_iter_ = variant.max_iter
                    yield variant

    def embed(self, X: Array) -> Array:
        """Scale features as the training features."""
        return Scaling(self.mean_, self.feature_weights_)(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Compute the parameters of each class."""
        return self._class_parameters(self.coef_, move_like(signatures, self.coef_))


@inherit_docs
class BilinearRanking(RankingClassifier):
    """Base of ALE, DeViSE and SJE, which learn one bilinear map W."""

    def _start(
        self, training: Training, slopes: Callable[..., AnyFloats], steepest: float
    ) -> BilinearDescent:
        """Start a descent; `steepest` is the largest sum of a sample's positive slopes."""
        # A step changes the difference of two scores by step · slope · ‖x‖² ‖a − a′‖²: about one
        # for a learning rate of 1, the steepest slope and mean norms.
        X, signatures = training.X, training.signatures
        centered = signatures - signatures.mean(axis=0)
        distance = float(2 * np.sum(centered**2) / (len(signatures) - 1)) or 1.0
        step = self.learning_rate / (steepest * mean_square(X) * distance)
        rng = check_random_state(self.random_state)
        return BilinearDescent(
            X, training.y, signatures, slopes, step, batch_size=self.batch_size, rng=rng
        )

    @staticmethod
    def _class_parameters(coef: Array, signatures: Array) -> Array:
        """W a of each signature a."""
        return signatures @ compat.array_namespace(coef).matrix_transpose(coef)


def _grids(
    lowest_rate: float, fast_rates: list[float], fast_epochs: list[int]
) -> dict[str, dict[str, list[Any]]]:
    """Grids by name; the learning rates of "paper" are eight powers of four."""
    return {
        "paper": {
            "scaling": ["center", "zscore", None],
            "learning_rate": [lowest_rate * 4.0**k for k in range(8)],
            "max_iter": [1, 2, 4, 8, 16, 32, 64, 128],
        },
        "fast": {"scaling": ["center"], "learning_rate": fast_rates, "max_iter": fast_epochs},
    }


@inherit_docs
class ALE(BilinearRanking):
    """Attribute label embedding: violators weighted by the rank of the true class.

    Parameters
    ----------
    learning_rate : float, default=0.5
        Step size in units of 1 / (β · mean ‖x‖² · mean ‖a − a′‖²), with β of S − 1 violators. At 1
        a sample that every other class violates changes its score differences by about the margin.
    max_iter : int, default=16
        Number of epochs.

    See Also
    --------
    DeViSE : Weights all violators equally.
    SJE : Considers the worst violator only.

    Notes
    -----
    The original takes a step after each sample, draws violators at random until one is found and
    estimates the rank from the number of draws; here all classes of a batch are scored, the rank is
    counted and all violators contribute. The gradient takes the weight β/k as constant. The
    original initialises W at random; here W starts at 0, and features are centred by default.

    Early stopping is the only regularisation: search `max_iter` together with `learning_rate`.
    A margin other than 1 would only scale W. Adding a vector to all signatures has no effect.

    References
    ----------
    Z. Akata, F. Perronnin, Z. Harchaoui and C. Schmid, "Label-embedding for image classification",
    IEEE TPAMI 2016.

    Examples
    --------
    >>> from zslearn.baselines import ALE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = ALE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids = _grids(4.0**-4, [0.0625, 0.25, 1.0, 4.0], [2, 4, 8, 16, 32])

    def _descent(self, training: Training) -> BilinearDescent:
        weights = rank_weights(training.n_seen)
        steepest = weights[-1] * (training.n_seen - 1)  # β of S − 1 violators
        return self._start(training, partial(slopes_of_all, weights=weights), steepest)


@inherit_docs
@dataclass(eq=False, repr=False)
class DeViSE(BilinearRanking):
    """Deep visual-semantic embedding on given features: all violators weighted equally.

    Parameters
    ----------
    learning_rate : float, default=1.0
        Step size in units of 1 / ((S − 1) · mean ‖x‖² · mean ‖a − a′‖²); see :class:`ALE`.
    max_iter : int, default=32
        Number of epochs.

    See Also
    --------
    ALE : Weights violators by the rank of the true class.
    SJE : Considers the worst violator only.

    Notes
    -----
    The original also learns the image network, normalises signatures to unit length, draws
    violators at random until the first is found, has a margin of 0.1 and adapts its steps. Here
    features are given and centred, all violators count, as in later comparisons, and steps are
    constant; the margin only scales W. See :class:`ALE` on early stopping.

    References
    ----------
    A. Frome, G. S. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato and T. Mikolov, "DeViSE: a
    deep visual-semantic embedding model", NIPS 2013.
    """

    learning_rate: float = 1.0
    max_iter: int = 32

    grids = _grids(4.0**-3, [0.5, 2.0, 8.0], [4, 8, 16, 32, 64])

    def _descent(self, training: Training) -> BilinearDescent:
        return self._start(training, slopes_of_all, steepest=training.n_seen - 1)


@inherit_docs
@dataclass(eq=False, repr=False)
class SJE(BilinearRanking):
    """Structured joint embedding: a hinge on the worst violator only.

    Parameters
    ----------
    learning_rate : float, default=0.125
        Step size in units of 1 / (mean ‖x‖² · mean ‖a − a′‖²). At 1 a sample changes its difference
        to the worst violator by about the margin.
    max_iter : int, default=16
        Number of epochs.

    See Also
    --------
    ALE : Considers all violators, weighted by the rank of the true class.
    DeViSE : Weights all violators equally.

    Notes
    -----
    For several kinds of signatures the original learns one map each and adds their scores with
    weights α_k, searched on validation classes. Here views are concatenated under one map, and the
    weights of :class:`~zslearn.signatures.MultiSignatures` replace α_k. The original takes a step
    after each sample. See :class:`ALE` on early stopping and the margin.

    References
    ----------
    Z. Akata, S. Reed, D. Walter, H. Lee and B. Schiele, "Evaluation of output embeddings for
    fine-grained image classification", CVPR 2015.
    """

    learning_rate: float = 0.125

    grids = _grids(4.0**-5, [0.015625, 0.0625, 0.25, 1.0], [2, 4, 8, 16, 32])

    def _descent(self, training: Training) -> BilinearDescent:
        return self._start(training, slopes_of_worst, steepest=1)


@jit("the descent of LatEm")
def visit_rows(
    X: Any,
    rows: Any,
    y: Any,
    negatives: Any,
    step: Any,
    batch_size: int,
    gram: Any,
    P: Any,
    V: Any,
    change: Any,
) -> None:
    """Visit rows of X in order; a row whose negative violates the margin takes a step."""
    # `P` holds the classifiers under each map, (n_maps, n_classes, n_features), and `V` the sum of
    # all steps; both are updated after each batch. `change` is a zeroed buffer.
    is_changed = np.zeros(P.shape[:2], dtype=np.bool_)
    for start in range(0, len(rows), batch_size):
        for n in range(start, min(start + batch_size, len(rows))):
            row = X[rows[n]]
            other, other_map = _best(P, negatives[n], row, np.inf)
            own, own_map = _best(P, y[n], row, 1 + other)
            if 1 + other - own > 0:
                is_changed[own_map, y[n]] = is_changed[other_map, negatives[n]] = True
                _add(change[own_map, y[n]], step, row)
                _add(change[other_map, negatives[n]], -step, row)
        for k in range(len(P)):
            classes = np.flatnonzero(is_changed[k])
            for c in range(P.shape[1]):
                for t in classes:
                    _add(P[k, c], gram[c, t], change[k, t])
            for t in classes:
                V[k, t] += change[k, t]
                change[k, t] = 0
            is_changed[k] = False


@jit_inner(fast={"contract", "reassoc"})
def _best(P: Any, of_class: int, row: Any, sufficient: float) -> Any:
    """The largest score of a class and its map, or the first score of at least `sufficient`."""
    best, best_map = 0.0, 0
    for k in range(P.shape[0]):
        classifier, score = P[k, of_class], row[0] - row[0]
        for d in range(len(row)):
            score += classifier[d] * row[d]
        if k == 0 or score > best:
            best, best_map = score, k
        if best >= sufficient:
            break
    return best, best_map


@jit_inner(fast={"contract"})
def _add(total: Any, weight: Any, row: Any) -> None:
    for d in range(len(row)):
        total[d] += weight * row[d]


class LatentDescent(Descent):
    r"""Descent on the ranking loss of :math:`\max_k x^\top W_k a`, for K maps at once.

    Steps add combinations of the signatures to each map: :math:`W_k = W_{k0} + V_k^\top A`, with
    one row of :math:`V_k` per class. The classifiers :math:`P_k = A W_k^\top` are kept up to date.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        start: AnyFloats,
        step: float,
        **options: Any,
    ) -> None:
        super().__init__(X, y, step, **options)
        self.signatures = signatures.astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.start = start.astype(X.dtype)
        self.P = self.signatures @ np.swapaxes(self.start, 1, 2)
        self.V, self._change = np.zeros_like(self.P), np.zeros_like(self.P)

    @property
    def coef(self) -> AnyFloats:
        """The maps, of shape (n_maps, n_features, n_attributes)."""
        return self.start + np.swapaxes(self.V, 1, 2) @ self.signatures

    def _visit(self, order: NDArray[np.intp]) -> None:
        n_classes = len(self.signatures)
        y = self.y[order]
        # Draw another class for each row, uniformly.
        negatives = (y + self.rng.randint(1, n_classes, size=len(y))) % n_classes
        tables = self.gram, self.P, self.V, self._change
        options = self.X.dtype.type(self.step), self.batch_size, *tables
        if isinstance(self.X, np.ndarray):
            visit_rows(self.X, order, y, negatives, *options)
            return
        for start in range(0, len(order), self.batch_size):
            batch = slice(start, start + self.batch_size)
            X = self.X[order[batch]]
            visit_rows(X, np.arange(len(X)), y[batch], negatives[batch], *options)


@inherit_docs
@saves(coef_=Saved("n_maps", "n_features", "n_attributes"))
@dataclass(eq=False, repr=False)
class LatEm(RankingClassifier):
    """Latent embeddings: the best of several bilinear maps, ranked against random negatives.

    Parameters
    ----------
    n_maps : int, default=2
        Number of maps, K.
    learning_rate : float, default=0.4
        Step size in units of 1 / (mean ‖x‖² · mean ‖a‖²). At 1 a sample changes the scores of its
        class and of its negative by about the margin.
    max_iter : int, default=128
        Number of epochs; 150 in the original.
    scaling : {"center", "zscore"} or None, default="zscore"
        Scaling of the prepared features; see :class:`ALE`.

    Attributes
    ----------
    coef_ : array of shape (n_maps, n_features, n_attributes)
        The bilinear maps.

    See Also
    --------
    SJE : One map, and the worst class instead of a random one.

    Notes
    -----
    The original takes a step after each sample and may prune maps that rarely win; here a step
    covers a batch, and the number of maps is searched. Features are scaled as in the original, to
    z-scores divided by the largest. Early stopping is the only regularisation.

    Initial maps and negatives are random: on CUB the accuracy has a standard deviation of 1.6
    points over five values of `random_state`. Compare several.

    A margin other than 1 would only scale the maps. Unlike methods with one map, this one depends
    on the origin of the signatures: centre them if they have a large common offset.

    References
    ----------
    Y. Xian, Z. Akata, G. Sharma, Q. Nguyen, M. Hein and B. Schiele, "Latent embeddings for
    zero-shot classification", CVPR 2016.
    """

    learning_rate: float = 0.4
    max_iter: int = 128
    _: KW_ONLY
    n_maps: int = 2
    scaling: str | None = "zscore"

    score_function = "max_dot"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingClassifier._parameter_constraints,
        "n_maps": [Interval(Integral, 1, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "scaling": ["zscore"],
            "n_maps": [2, 4, 6, 8, 10],
            "learning_rate": [4.0**k for k in range(-4, 3)],
            "max_iter": [8, 16, 32, 64, 128, 192],
        },
        "fast": {
            "scaling": ["zscore"],
            "n_maps": [2, 4],
            "learning_rate": [0.4, 1.6, 6.4],
            "max_iter": [50, 100, 150],
        },
    }

    def _descent(self, training: Training) -> LatentDescent:
        X, signatures = training.X, training.signatures
        unit = mean_square(X) * mean_square(signatures)
        rng = check_random_state(self.random_state)
        shape = (self.n_maps, X.shape[1], signatures.shape[1])
        start = rng.standard_normal(shape) * (_INIT_SCALE / np.sqrt(unit))
        step = self.learning_rate / unit
        return LatentDescent(
            X, training.y, signatures, start, step, batch_size=self.batch_size, rng=rng
        )

    @staticmethod
    def _class_parameters(coef: Array, signatures: Array) -> Array:
        xp = compat.array_namespace(coef)
        return xp.permute_dims(signatures @ xp.matrix_transpose(coef), (1, 0, 2))
