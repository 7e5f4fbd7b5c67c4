r"""CMT and CMT*: a two-layer network maps images into the space of signatures.

.. math:: \min_{\theta} \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right),

and the class of the nearest signature is predicted. Features x and signatures a are centred, over
the training samples and the seen classes, and have unit root mean square norm. For a given
:math:`\theta_1` the best :math:`\theta_2` is a ridge regression on the hidden units,

.. math:: \theta_2^\top = \left(\tfrac{1}{N} H^\top H + \alpha I\right)^{-1}
          \tfrac{1}{N} H^\top A_y, \quad H = \tanh(X \theta_1^\top),

so that L-BFGS optimises :math:`\theta_1` alone (variable projection); its gradient is that of the
objective at the best :math:`\theta_2`. Only HᵀH and the class sums of H enter, so that the cost
hardly depends on the number of attributes.

CMT* adds a gate between seen and novel images, from an isotropic Gaussian
:math:`N(a_y, \sigma_y^2 I)` around the signature of each seen class. In the paper an image is novel
if its density is below the threshold of every seen class. The threshold lets a given share of the
class's training images pass, which for any :math:`\sigma_y` is a radius :math:`r_y`:

.. math:: x \text{ is novel} \iff \forall y: \|e(x) - a_y\| > r_y.

The authors' program has one cutoff instead, with the share :math:`\pi_y` of class y among the
training images:

.. math:: x \text{ is novel} \iff \log \sum_y \pi_y N(e(x) | a_y, \sigma_y^2 I) < t.

Novel images are compared with unseen classes only, others with seen classes only. Both are one
inner product: up to a term of x alone

.. math:: -\|e - a\|^2 + g(x) \, [a \text{ is seen}]
          \simeq (2 e, 1, g(x)) \cdot (a, -\|a\|^2, [a \text{ is seen}]),

with :math:`g = \pm G`, where G exceeds the difference of any two scores without it. Scores are
divided by G, so that a calibration factor within [−1, 1] never overrules the gate, and a larger one
always does.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._blocks import class_scores
from zslearn._scoring._embedding import for_many_passes
from zslearn._utils._array import Array, Floats, block_budget, move_like, row_blocks, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params, group_by_path
from zslearn.base._training import Training
from zslearn.signatures._kernels import squared_distances

# Hidden units of all samples are cached between the two passes of an evaluation if they fit into
# this number of memory blocks, and computed twice otherwise.
_CACHED_BLOCKS = 2
# A mean larger than this multiple of the deviations would cost float32 a digit.
_LARGE_MEAN = 16
# CMT*: relative distance below which signatures belong to the same class.
_SAME = 1e-6
# CMT*: lower bound of the variance of a class, relative to the largest one.
_MIN_VARIANCE = 1e-6


class Network(NamedTuple):
    """Weights in the units of prepared features and normalised signatures."""

    coefs: tuple[Floats, Floats]  # (n_features, n_hidden), (n_hidden, n_attributes)
    intercepts: tuple[Floats, Floats]  # (n_hidden,), (n_attributes,)
    n_iter: int


class Evaluation(NamedTuple):
    """The objective and its gradient in θ₁ at the best second layer, θ₂ᵀ."""

    value: float
    gradient: Floats
    second: Floats


class NetworkObjective:
    """The objective over θ₁; products with X are in its dtype, everything else in float64."""

    def __init__(self, X: Array, y: NDArray[np.intp], signatures: Floats, alpha: float) -> None:
        self.X, self.alpha = X, alpha
        self.n_samples, self.n_features = X.shape
        xp = self._xp = compat.array_namespace(X)
        # Memory per row: float64 copy, products and class indicator.
        self._blocks = row_blocks(self.n_samples, 8 * (2 * self.n_features + len(signatures)))
        self._labels = xp.asarray(y, device=compat.device(X))
        total = sum(xp.sum(X[rows, :], axis=0, dtype=xp.float64) for rows in self._blocks)
        self.mean: Floats = to_numpy(total / self.n_samples)
        self.scale = float(np.sqrt(mean_square_distance(X))) or 1.0
        # float32 features stay in float32 unless their mean would cost precision.
        has_large_mean = float(np.linalg.norm(self.mean)) > _LARGE_MEAN * self.scale
        is_single = X.dtype == xp.float32 and not has_large_mean
        self._dtype = xp.float32 if is_single else xp.float64
        self.signature_mean = signatures.mean(axis=0)
        centered = signatures - self.signature_mean
        self.signature_scale = float(np.sqrt((centered**2).sum(axis=1).mean())) or 1.0
        self.targets = centered / self.signature_scale
        shares = np.bincount(y, minlength=len(signatures)) / self.n_samples
        self._target_norm = float(shares @ (self.targets**2).sum(axis=1))

    def start(self, n_hidden: int, rng: np.random.RandomState) -> Floats:
        """Random initial weights, with rows of about unit length."""
        return rng.normal(size=(n_hidden, self.n_features)) / np.sqrt(self.n_features)

    def evaluate(self, flat: Floats) -> Evaluation:
        """The objective at the best θ₂, and its gradient in θ₁."""
        theta = flat.reshape(-1, self.n_features)
        cache: dict[int, Array] = {}
        gram, sums = self._hidden_products(theta, cache)
        # θ₂ᵀ = (HᵀH/N + αI)⁻¹ HᵀA/N
        products = sums.T @ self.targets / self.n_samples
        ridge = gram / self.n_samples
        ridge[np.diag_indices_from(ridge)] += self.alpha
        if not np.isfinite(ridge).all():
            raise FloatingPointError("the weights are no longer finite")
        second = scipy.linalg.solve(ridge, products, assume_a="pos")
        # At the best θ₂ the error and its penalty sum to ‖A_y‖²/N − ⟨θ₂ᵀ, HᵀA_y/N⟩.
        explained = float(np.sum(second * products))
        value = self._target_norm - explained + self.alpha * float(np.sum(theta**2))
        slope = self._slope(theta, second, cache) + 2 * self.alpha * theta
        return Evaluation(value, slope.ravel(), second)

    def first_layer(self, theta: Floats) -> tuple[Floats, Floats]:
        """θ₁ in the units of X, and the intercept that results from centring."""
        first = theta / self.scale
        return first, -first @ self.mean

    def _hidden(self, rows: slice, theta: Floats) -> Array:
        """H of a block of rows."""
        xp, device = self._xp, compat.device(self._labels)
        weights, offset = self.first_layer(theta)
        first = xp.asarray(weights, dtype=self._dtype, device=device)
        inner = xp.astype(self._features(rows) @ xp.matrix_transpose(first), xp.float64, copy=False)
        return xp.tanh(inner + xp.asarray(offset, device=device)[None, :])

    def _features(self, rows: slice) -> Array:
        return self._xp.astype(self.X[rows, :], self._dtype, copy=False)

    def _hidden_products(self, theta: Floats, cache: dict[int, Array]) -> tuple[Floats, Floats]:
        """HᵀH and the class sums of H; blocks of H are cached if they fit into memory."""
        xp = self._xp
        fits = 8 * self.n_samples * len(theta) <= _CACHED_BLOCKS * block_budget(self._labels)
        classes = xp.arange(len(self.targets), device=compat.device(self._labels))
        gram: Any = 0.0
        sums: Any = 0.0
        for rows in self._blocks:
            H = self._hidden(rows, theta)
            gram = gram + xp.matrix_transpose(H) @ H
            members = xp.astype(self._labels[rows][None, :] == classes[:, None], xp.float64)
            sums = sums + members @ H
            if fits:
                cache[rows.start] = H
        return to_numpy(gram), to_numpy(sums)

    def _slope(self, theta: Floats, second: Floats, cache: dict[int, Array]) -> Floats:
        """2/N (E θ₂ ∘ (H² − 1))ᵀ X with E = A_y − H θ₂ᵀ."""
        xp = self._xp
        outer, targets = (
            xp.asarray(table, device=compat.device(self._labels))
            for table in (second @ second.T, self.targets @ second.T)
        )
        slope: Any = 0.0
        total: Any = 0.0
        for rows in self._blocks:
            H = cache[rows.start] if rows.start in cache else self._hidden(rows, theta)
            back = xp.take(targets, self._labels[rows], axis=0) - H @ outer
            back *= H * H - 1
            narrow = xp.astype(back, self._dtype, copy=False)
            product = xp.matrix_transpose(narrow) @ self._features(rows)
            slope = slope + xp.astype(product, xp.float64, copy=False)
            total = total + xp.sum(back, axis=0)
        centered = to_numpy(slope) - to_numpy(total)[:, None] * self.mean
        return centered / self.scale * (2 / self.n_samples)

    def network(self, n_iter: int, flat: Floats) -> Network:
        """The network of a first layer and its best second layer."""
        first, inner = self.first_layer(flat.reshape(-1, self.n_features))
        second = self.evaluate(flat).second * self.signature_scale
        return Network((first.T, second), (inner, self.signature_mean), n_iter)


def train(
    objective: NetworkObjective, start: Floats, stops: Collection[int], tol: float
) -> dict[int, Network]:
    """Networks after each number of L-BFGS steps in `stops`, or after the last step taken."""
    points: dict[int, Floats] = {}
    steps, max_iter = itertools.count(1), max(stops)

    def after_step(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        n_iter = next(steps)
        if n_iter in stops:
            points[n_iter] = intermediate_result.x.copy()

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        value, gradient, _ = objective.evaluate(flat)
        return value, gradient

    result = scipy.optimize.minimize(
        value_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "ftol": tol, "gtol": 0.0},
    )
    last = objective.network(int(result.nit), result.x)
    return {
        stop: objective.network(stop, points[stop]) if stop in points else last for stop in stops
    }


@inherit_docs
@saves(
    coefs_=Saved(None, None, each=True),
    intercepts_=Saved(None, each=True),
    n_iter_=Saved(kind="int", least=0),
)
@dataclass(eq=False, repr=False)
class CMT(ZeroShotClassifier):
    """Cross-modal transfer: a two-layer network from features to the nearest signature.

    Parameters
    ----------
    hidden_size : int, default=100
        Number of hidden units.
    alpha : float, default=1e-4
        Weight decay, for features and signatures of unit root mean square norm.
    max_iter : int, default=40
        Maximum number of L-BFGS steps. Early stopping regularises; a search over it trains once.
    tol : float, default=1e-6
        Relative decrease of the objective below which training stops.
    random_state : int, RandomState instance or None, default=0
        Seed of the initial weights.

    Attributes
    ----------
    coefs_ : tuple of ndarray
        θ₁ᵀ of shape (n_features, hidden_size), θ₂ᵀ of shape (hidden_size, n_attributes).
    intercepts_ : tuple of ndarray
        Intercepts of both layers, which follow from centring.
    n_iter_ : int
        Number of L-BFGS steps.

    See Also
    --------
    CMTStar : Adds a gate between seen and novel images.

    Notes
    -----
    The paper's objective is the sum of squared errors only. The authors' program
    (github.com/mganjoo/zslearning) adds weight decay of 1e-4 in the units of the data, and learned
    intercepts and a penalty on the mean activation of the hidden units, both omitted here. It
    optimises both layers; here each step of L-BFGS solves for θ₂ exactly.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning and A. Y. Ng, "Zero-shot learning through cross-modal
    transfer", NIPS 2013.
    """

    hidden_size: int = 100
    alpha: float = 1e-4
    _: KW_ONLY
    max_iter: int = 40
    tol: float = 1e-6
    random_state: int | np.random.RandomState | None = 0

    synthesizes_independently = True
    score_function = "euclidean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "hidden_size": [50, 100, 200, 400],
            "alpha": [10.0**k for k in range(-6, 0)],
            "max_iter": [5, 10, 20, 40, 80, 160],
        },
        "fast": {"alpha": [10.0**k for k in range(-5, -2)], "max_iter": [3, 6, 12, 24, 48, 96]},
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Train once for all variants that differ in `max_iter` and in the gate only."""
        X = for_many_passes(training.rows)
        for group in group_by_path(variants, "max_iter", "seen_share", "threshold"):
            first = group[0]
            objective = NetworkObjective(X, training.y, training.signatures, first.alpha)
            seed = check_random_state(first.random_state).randint(2**31 - 1)
            start = objective.start(first.hidden_size, np.random.RandomState(seed))
            networks = train(objective, start, {v.max_iter for v in group}, first.tol)
            for same_network in group_by_params(group, "max_iter"):
                network = networks[same_network[0].max_iter]
                for variant in same_network:
                    variant.coefs_, variant.intercepts_, variant.n_iter_ = network
                cls._learn_gates(training, same_network)
                yield from same_network

    @classmethod
    def _learn_gates(cls, training: Training, variants: Sequence[Self]) -> None:
        """Learn the gates of CMT* for variants with the same network."""

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures."""
        xp = compat.array_namespace(X)
        first, second = (move_like(coef, X) for coef in self.coefs_)
        inner, outer = (move_like(intercept, X)[None, :] for intercept in self.intercepts_)
        return xp.tanh(X @ first + inner) @ second + outer

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Return the signatures."""
        return signatures


@inherit_docs
@saves(
    radii_=Saved("n_seen", least=0, optional=True),
    variances_=Saved("n_seen", above=0, optional=True),
    shares_=Saved("n_seen", least=0, optional=True),
    gate_=Saved(),
    cutoff_=Saved(optional=True),
    _seen_signatures=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class CMTStar(CMT):
    """CMT*: cross-modal transfer with novelty detection, for the generalized setting.

    Parameters
    ----------
    seen_share : float, default=0.8
        Share of each seen class's training images within its threshold, or of all training images
        above the common cutoff. A smaller share makes more images novel.
    threshold : {"class", "common"}, default="class"
        One threshold per seen class, as in the paper, or one cutoff for the density of all seen
        classes, as in the authors' program.

    Attributes
    ----------
    radii_ : ndarray of shape (n_seen,)
        Radius r of each seen class, with `threshold="class"`.
    variances_, shares_ : ndarray of shape (n_seen,)
        σ² and π of each seen class, with `threshold="common"`.
    cutoff_ : float
        Log-density t below which an image is novel, with `threshold="common"`.
    gate_ : float
        G, by which scores are divided.

    See Also
    --------
    CMT : Has no gate; gives the same predictions among seen or among unseen classes only.
    zslearn.calibration.CalibratedStacking : Replaces the gate by a calibration factor.

    Notes
    -----
    The original classifies images of seen classes by a softmax regression on the features; here
    the nearest seen signature decides. The program divides squared distances within a class by the
    number of all training images; here σ² is their mean. `synthesize` without labels recognises
    seen classes by their signatures.

    A smaller share of new images of seen classes passes, since training images lie closer to their
    signatures. The area under the seen–unseen curve hardly depends on the gate.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning and A. Y. Ng, "Zero-shot learning through cross-modal
    transfer", NIPS 2013.

    Examples
    --------
    >>> from zslearn.baselines import CMTStar
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CMTStar().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> novel = model.is_novel(data.X_test_unseen)
    >>> set(model.predict(data.X_test_unseen)[novel]) <= set(data.unseen_classes)
    True
    """

    _: KW_ONLY
    seen_share: float = 0.8
    threshold: str = "class"

    score_function = "dot"  # type: ignore[assignment]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CMT._parameter_constraints,
        "seen_share": [Interval(Real, 0, 1, closed="both")],
        "threshold": [StrOptions({"class", "common"})],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            **CMT.grids["paper"],
            "seen_share": [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-5, -2)],
            "max_iter": [24, 96],
            "seen_share": [0.2, 0.5, 0.8],
        },
    }

    @classmethod
    def _learn_gates(cls, training: Training, variants: Sequence[Self]) -> None:
        network, signatures = variants[0], training.signatures
        X, n_attributes = for_many_passes(training.rows), signatures.shape[1]
        distances = []
        for rows in row_blocks(len(training.y), row_bytes=8 * (X.shape[1] + 3 * n_attributes)):
            errors = to_numpy(CMT.embed(network, X[rows, :])) - signatures[training.y[rows]]
            distances.append(np.sqrt((errors**2).sum(axis=1)))
        own = np.concatenate(distances)
        longest = float(np.sqrt((signatures**2).sum(axis=1).max()))
        for variant in variants:
            variant._seen_signatures = signatures
            variant.gate_ = _gate(network.coefs_[1], network.intercepts_[1], longest)
            if variant.threshold == "class":
                of_class = (own[training.y == code] for code in range(training.n_seen))
                variant.radii_ = np.asarray([_bound(d, variant.seen_share) for d in of_class])
            else:
                variant._learn_density(X, training, own)

    def _learn_density(self, X: Array, training: Training, own: Floats) -> None:
        """Estimate the variances of the seen classes and the cutoff of their mixture density."""
        n_attributes = training.signatures.shape[1]
        squares = np.bincount(training.y, weights=own**2, minlength=training.n_seen)
        variances = squares / (training.counts * n_attributes)
        # A class whose images all coincide with its signature would match no other image.
        self.variances_ = np.maximum(variances, _MIN_VARIANCE * variances.max() or 1.0)
        self.shares_ = training.counts / len(training.y)
        row_bytes = 8 * (X.shape[1] + n_attributes + 4 * training.n_seen)
        densities = [
            to_numpy(self._log_density(CMT.embed(self, X[rows, :])))
            for rows in row_blocks(len(training.y), row_bytes)
        ]
        self.cutoff_ = -_bound(-np.concatenate(densities).astype(np.float64), self.seen_share)

    def _log_density(self, mapped: Array) -> Array:
        """Log of Σ_y π_y N(e | a_y, σ_y² I), up to a constant."""
        xp = compat.array_namespace(mapped)
        distances = class_scores(mapped, self._seen_signatures, score="euclidean")
        variances = move_like(self.variances_, distances)[None, :]
        terms = -0.5 * (distances**2 / variances + mapped.shape[1] * xp.log(variances))
        terms = terms + move_like(np.log(self.shares_), distances)[None, :]
        largest = xp.max(terms, axis=1, keepdims=True)
        return xp.log(xp.sum(xp.exp(terms - largest), axis=1)) + largest[:, 0]

    def is_novel(self, X: Any) -> NDArray[np.bool_]:
        """Detect novel images: those below the threshold of every seen class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
            True for novel images.
        """
        check_is_fitted(self, "class_scorer_")
        X = self._check_features(X)
        # Memory per row: prepared features, mapped features and distances to the seen classes.
        n_seen, n_attributes = self._seen_signatures.shape
        row_bytes = 8 * (X.shape[1] + n_attributes + 3 * n_seen)
        with self.class_scorer_.embedding.over_blocks() as embed:
            gates = [to_numpy(embed(X[r, :])[:, -1]) for r in row_blocks(X.shape[0], row_bytes)]
        return np.concatenate(gates) < 0

    def _passes(self, mapped: Array) -> Array:
        """Whether a mapped image is within the radius of a seen class, or above the cutoff."""
        xp = compat.array_namespace(mapped)
        if self.threshold == "common":
            return self._log_density(mapped) >= self.cutoff_
        distances = -class_scores(mapped, self._seen_signatures, score="euclidean")
        return xp.any(distances <= move_like(self.radii_, distances)[None, :], axis=1)

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures, and append the gate: (2e, 1, g) / G."""
        mapped = super().embed(X)
        xp = compat.array_namespace(mapped)
        ones = xp.ones_like(mapped[:, :1])
        gate = xp.where(self._passes(mapped)[:, None], ones, -ones)
        return xp.concat([2 * mapped / self.gate_, ones / self.gate_, gate], axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Extend each signature for the gate: (a, −‖a‖², 1 if the class is seen else 0)."""
        squares = (signatures**2).sum(axis=1)
        if labels is not None:
            is_seen = np.isin(labels, self.seen_classes_)
        else:
            nearest = squared_distances(signatures, self._seen_signatures).min(axis=1)
            is_seen = nearest <= _SAME**2 * max(float(squares.max()), np.finfo(float).tiny)
        return np.column_stack([signatures, -squares, is_seen])


def _bound(values: Floats, share: float) -> float:
    """An upper bound of at least this share of the values."""
    inside = float(np.quantile(values, share, method="higher"))
    outside = float(np.min(values, where=values > inside, initial=np.inf))
    # Halfway to the next value, rounding errors move no image across the bound.
    midpoint = (inside + outside) / 2 if np.isfinite(outside) else inside
    return max(midpoint, inside + 1e-6 * abs(inside))


def _gate(second: Floats, intercept: Floats, longest: float) -> float:
    """An upper bound of the difference of any two scores 2e·a − ‖a‖²."""
    # Hidden units lie within [−1, 1], which bounds e.
    by_unit = np.sqrt((second**2).sum(axis=1)).sum()
    by_spectrum = np.sqrt(len(second)) * np.linalg.norm(second, 2)
    reach = np.sqrt((intercept**2).sum()) + min(by_unit, by_spectrum)
    return float(1 + 2 * (2 * reach * longest + longest**2))
