r"""CMT: images are mapped into the space of signatures by a two-layer network.

.. math:: \min_{\theta} \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right),

and an image belongs to the class whose signature is nearest to where it is mapped. Features x and
signatures a are measured from their means over the training samples and the seen classes, in units
of their root mean square norm. For a given :math:`\theta_1` the best :math:`\theta_2` is a ridge
regression on the hidden units,

.. math:: \theta_2^\top = \left(\tfrac{1}{N} H^\top H + \alpha I\right)^{-1}
          \tfrac{1}{N} H^\top A_y, \quad H = \tanh(X \theta_1^\top),

so that L-BFGS searches :math:`\theta_1` alone (variable projection); the gradient there is that of
the objective at the best :math:`\theta_2`. Only HᵀH, the sums of H over each class and the
signatures of the classes enter, so that the number of attributes hardly counts.

With intercepts the network is :math:`\theta_2 \tanh(\theta_1 x + b_1) + b_2`; they are not
penalised. The best :math:`b_2` brings the mean output to the mean target, which comes to centring H
and :math:`A_y` over the samples; :math:`b_1` is searched as one more column of :math:`\theta_1`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from zslearn._scoring._classes import ScoreFunction
from zslearn._scoring._embedding import for_many_passes
from zslearn._utils._array import Array, Floats, block_budget, move_like, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._training import Training
from zslearn.baselines._early_stopping import HeldOutClasses, on_one_path

# The hidden units of all samples are held between the two passes of an evaluation, up to so many
# blocks of memory; beyond, they are computed twice.
_HELD_BLOCKS = 2
# A mean of so many times the deviations costs float32 a digit.
_FAR = 16


class Network(NamedTuple):
    """Weights in the units of prepared features and normalised signatures."""

    coefs: tuple[Floats, Floats]  # (n_features, n_hidden), (n_hidden, n_attributes)
    intercepts: tuple[Floats, Floats]  # (n_hidden,), (n_attributes,)
    n_iter: int  # steps that led here

    def embed(self, X: Array) -> Array:
        """Map features to the space of signatures, on their device."""
        xp = compat.array_namespace(X)
        first, second = (move_like(coef, X) for coef in self.coefs)
        inner, outer = (move_like(intercept, X)[None, :] for intercept in self.intercepts)
        return xp.tanh(X @ first + inner) @ second + outer


class Evaluation(NamedTuple):
    """The objective for one first layer: its value at the best second layer, θ₂ᵀ and b₂."""

    value: float
    gradient: Floats
    second: Floats
    intercept: Floats


class NetworkObjective:
    """The objective over θ₁ alone, for one set of training samples on any device.

    The two products with X, nearly all of the cost, are computed in the dtype of X; all else, and
    what is added up over the samples, in float64.
    """

    def __init__(
        self,
        X: Array,
        y: NDArray[np.intp],
        signatures: Floats,
        alpha: float,
        *,
        fit_intercept: bool = False,
    ) -> None:
        self.X, self.alpha, self.fit_intercept = X, alpha, fit_intercept
        self.n_samples, self.n_features = X.shape
        self._xp = compat.array_namespace(X)
        # A row in float64 with what is computed from it, and which class it is of.
        self._blocks = row_blocks(self.n_samples, 8 * (2 * self.n_features + len(signatures)))
        self._labels = self._xp.asarray(y, device=compat.device(X))
        self._take_feature_units()
        self._take_targets(signatures, np.bincount(y, minlength=len(signatures)) / self.n_samples)

    def _take_feature_units(self) -> None:
        """Mean of the features, root mean square distance from it, and the dtype of products."""
        xp = self._xp
        total = sum(xp.sum(self.X[rows, :], axis=0, dtype=xp.float64) for rows in self._blocks)
        self.mean: Floats = to_numpy(total / self.n_samples)
        self.scale = float(np.sqrt(mean_square_distance(self.X))) or 1.0
        # float32 for features in it, unless their mean would drown what they deviate by.
        far = float(np.linalg.norm(self.mean)) > _FAR * self.scale
        self._dtype = xp.float64 if far or self.X.dtype != xp.float32 else xp.float32

    def _take_targets(self, signatures: Floats, shares: Floats) -> None:
        """Signatures in their units, and what outputs are measured from where b₂ is free."""
        self.signature_mean = signatures.mean(axis=0)
        centered = signatures - self.signature_mean
        self.signature_scale = float(np.sqrt((centered**2).sum(axis=1).mean())) or 1.0
        self.targets = centered / self.signature_scale
        self._target_mean = shares @ self.targets * self.fit_intercept
        self._target_norm = float(shares @ (self.targets**2).sum(axis=1))
        self._target_norm -= float(self._target_mean @ self._target_mean)

    def start(self, n_hidden: int, rng: np.random.RandomState) -> Floats:
        """Random first weights; their rows have about unit norm. Intercepts begin at zero."""
        weights = rng.normal(size=(n_hidden, self.n_features)) / np.sqrt(self.n_features)
        return np.pad(weights, [(0, 0), (0, int(self.fit_intercept))])

    def evaluate(self, flat: Floats) -> Evaluation:
        """J at the best θ₂, and its gradient for θ₁."""
        theta = flat.reshape(-1, self.n_features + self.fit_intercept)
        held: dict[int, Array] = {}
        gram, sums = self._hidden_products(theta, held)
        second, intercept = self._second_layer(gram, sums)
        # At the best θ₂ the error and its penalty are ‖A_y‖²/N − ⟨θ₂ᵀ, HᵀA_y/N⟩.
        explained = float(np.sum(second * self._right_side(sums)))
        decayed = theta * (np.arange(theta.shape[1]) < self.n_features)
        value = self._target_norm - explained + self.alpha * float(np.sum(decayed**2))
        slope = self._slope(theta, second, intercept, held)
        return Evaluation(value, (slope + 2 * self.alpha * decayed).ravel(), second, intercept)

    def _first_layer(self, theta: Floats) -> tuple[Floats, Floats]:
        """θ₁ in the units of X, and the intercept with what centring adds."""
        first = theta[:, : self.n_features] / self.scale
        offset = -first @ self.mean
        return first, offset + theta[:, self.n_features] if self.fit_intercept else offset

    def _hidden(self, features: Array, theta: Floats) -> Array:
        """H of some rows."""
        xp, device = self._xp, compat.device(features)
        weights, offset = self._first_layer(theta)
        first = xp.asarray(weights, dtype=self._dtype, device=device)
        inner = xp.astype(features @ xp.matrix_transpose(first), xp.float64, copy=False)
        return xp.tanh(inner + xp.asarray(offset, device=device)[None, :])

    def _features(self, rows: slice) -> Array:
        return self._xp.astype(self.X[rows, :], self._dtype, copy=False)

    def _hidden_products(
        self, theta: Floats, held: dict[int, Array] | None = None
    ) -> tuple[Floats, Floats]:
        """HᵀH and the sums of H over each class; blocks of H are put into `held` where they fit."""
        xp = self._xp
        fits = 8 * self.n_samples * len(theta) <= _HELD_BLOCKS * block_budget(self._labels)
        classes = xp.arange(len(self.targets), device=compat.device(self._labels))
        gram: Any = 0.0
        sums: Any = 0.0
        for rows in self._blocks:
            H = self._hidden(self._features(rows), theta)
            gram = gram + xp.matrix_transpose(H) @ H
            members = xp.astype(self._labels[rows][None, :] == classes[:, None], xp.float64)
            sums = sums + members @ H
            if held is not None and fits:
                held[rows.start] = H
        return to_numpy(gram), to_numpy(sums)

    def _second_layer(self, gram: Floats, sums: Floats) -> tuple[Floats, Floats]:
        """θ₂ᵀ = (HᵀH/N + αI)⁻¹ HᵀA/N with H centred where b₂ is free, and b₂."""
        mean = self._hidden_mean(sums)
        ridge = gram / self.n_samples - np.outer(mean, mean)
        ridge[np.diag_indices_from(ridge)] += self.alpha
        if not np.isfinite(ridge).all():
            raise FloatingPointError("the weights are no longer finite numbers")
        second = scipy.linalg.solve(ridge, self._right_side(sums), assume_a="pos")
        return second, self._target_mean - mean @ second

    def _hidden_mean(self, sums: Floats) -> Floats:
        """What H is measured from."""
        return sums.sum(axis=0) / self.n_samples * self.fit_intercept

    def _right_side(self, sums: Floats) -> Floats:
        """HᵀA/N, of what H and A are beyond their means."""
        products = sums.T @ self.targets / self.n_samples
        return products - np.outer(self._hidden_mean(sums), self._target_mean)

    def _slope(
        self, theta: Floats, second: Floats, intercept: Floats, held: Mapping[int, Array]
    ) -> Floats:
        """2/N (E θ₂ ∘ (H² − 1))ᵀ X with E = A_y − H θ₂ᵀ − b₂, and for b₁ beside it."""
        xp = self._xp
        outer, wanted = (
            xp.asarray(table, device=compat.device(self._labels))
            for table in (second @ second.T, (self.targets - intercept) @ second.T)
        )
        slope: Any = 0.0
        total: Any = 0.0
        for rows in self._blocks:
            features = self._features(rows)
            H = held[rows.start] if rows.start in held else self._hidden(features, theta)
            back = xp.take(wanted, self._labels[rows], axis=0) - H @ outer
            back *= H * H - 1
            product = xp.matrix_transpose(xp.astype(back, self._dtype, copy=False)) @ features
            slope = slope + xp.astype(product, xp.float64, copy=False)
            total = total + xp.sum(back, axis=0)
        sums = to_numpy(total)[:, None]
        for_weights = (to_numpy(slope) - sums * self.mean) / self.scale
        columns = [for_weights, sums] if self.fit_intercept else [for_weights]
        return np.hstack(columns) * (2 / self.n_samples)

    def network(self, n_iter: int, flat: Floats, found: Evaluation) -> Network:
        """The network of first weights and the best second ones, which were found for them."""
        first, inner = self._first_layer(flat.reshape(-1, self.n_features + self.fit_intercept))
        outer = self.signature_mean + self.signature_scale * found.intercept
        return Network((first.T, found.second * self.signature_scale), (inner, outer), n_iter)


def train(
    objective: NetworkObjective,
    start: Floats,
    stops: Collection[int],
    tol: float,
    watch: Callable[[Network], None] | None = None,
) -> dict[int, Network]:
    """Networks after some numbers of L-BFGS steps, or the last; each step calls `watch`."""
    networks: dict[int, Network] = {}
    n_iter = 0
    evaluated: tuple[Floats, Evaluation] = start.ravel(), objective.evaluate(start.ravel())

    def value_and_gradient(flat: Floats) -> tuple[float, Floats]:
        nonlocal evaluated
        if not np.array_equal(flat, evaluated[0]):
            evaluated = flat.copy(), objective.evaluate(flat)
        return evaluated[1].value, evaluated[1].gradient

    def after_step(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        nonlocal n_iter
        n_iter += 1
        if n_iter in stops or watch is not None:
            value_and_gradient(intermediate_result.x)
            networks[n_iter] = objective.network(n_iter, *evaluated)
            if watch is not None:
                watch(networks[n_iter])

    found = scipy.optimize.minimize(
        value_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={
            "maxiter": max(stops),
            "maxfun": 20 * max(stops) + 20,
            "ftol": tol,
            "gtol": 0.0,
        },
    )
    if n_iter not in networks:
        value_and_gradient(found.x)
        networks[n_iter] = objective.network(n_iter, *evaluated)
    return {stop: networks[min(stop, n_iter)] for stop in stops}


@inherit_docs
@saves(
    coefs_=Saved(None, None, each=True),
    intercepts_=Saved(None, each=True),
    n_iter_=Saved(kind="int", least=0),
    validation_scores_=Saved(each=True, finite=False, optional=True),
)
class CMT(ZeroShotClassifier):
    """Cross-modal transfer: a two-layer network from features to signatures, nearest signature.

    Parameters
    ----------
    hidden_size : int, default=100
        Hidden units.
    alpha : float, default=1e-4
        Weight decay, in units of features and signatures of unit root mean square norm.
    fit_intercept : bool, default=False
        Whether each layer has an intercept of its own. Without, it has what centring of features
        and of signatures comes to.
    max_iter : int, default=40
        Steps of L-BFGS at most. Stopping early regularises; a search trains once for all values.
    early_stopping : bool, default=False
        Whether training ends, within `max_iter`, where seen classes that are held out are best
        distinguished; the method is then trained on all seen classes for that long. Of equally good
        ends the last is taken. It needs five seen classes, and signatures that say something of the
        classes held out.
    validation_fraction : float, default=0.2
        Share of the seen classes held out by `early_stopping`, two at least.
    tol : float, default=1e-6
        Training ends when a step lowers the objective by less than this share of it.
    random_state : int, RandomState instance or None, default=0
        Decides the first weights, and what is held out.

    Attributes
    ----------
    coefs_ : tuple of ndarray
        θ₁ᵀ of shape (n_features, hidden_size), θ₂ᵀ of shape (hidden_size, n_attributes).
    intercepts_ : tuple of ndarray
        Of each layer: what centring comes to, and with `fit_intercept` what was learned besides.
    n_iter_ : int
        Steps of L-BFGS.
    validation_scores_ : list of float
        Per-class accuracy among the classes held out after each epoch, or step, with
        `early_stopping`; else empty.

    See Also
    --------
    CMTStar : With the gate that tells novel images from seen ones.

    Notes
    -----
    The paper states the sum of squared errors alone. The authors' program
    (github.com/mganjoo/zslearning) adds weight decay of 1e-4, of features and word vectors in its
    own units, intercepts in both layers (here `fit_intercept=True`; there decayed, too, here not),
    and a penalty that keeps the mean activation of the hidden units at a given level, which is left
    out here. θ₂ is solved for exactly in each step of L-BFGS; the program searches both layers.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning and A. Y. Ng, "Zero-shot learning through cross-modal
    transfer", NIPS 2013.

    Examples
    --------
    >>> from zslearn.baselines import CMT
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CMT().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    describes_each_alone = True
    score_function: ScoreFunction = "euclidean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "hidden_size": [50, 100, 200, 400],
            "alpha": [10.0**k for k in range(-6, 0)],
            "max_iter": [5, 10, 20, 40, 80, 160],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-5, -2)],
            "max_iter": [3, 6, 12, 24, 48, 96],
        },
    }
    #: Hyper-parameters of what is learned besides the network.
    _not_of_network: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        hidden_size: int = 100,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = False,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.hidden_size = hidden_size
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """One path of training serves all variants that only leave it at different steps."""
        for group in on_one_path(variants, *cls._not_of_network):
            stops = []
            for variant in group:
                rng = check_random_state(variant.random_state)
                # The same for all of a group.
                seed = rng.randint(2**31 - 1)
                stops.append(variant._stop(training, seed, rng))
            networks = group[0]._train(training, seed, stops)
            statistics: dict[int, Any] = {}
            for variant, stop in zip(group, stops, strict=True):
                if stop not in statistics:
                    statistics[stop] = variant._sample_statistics(networks[stop], training)
                variant._take(networks[stop], training, statistics[stop])
                yield variant

    def _train(
        self,
        training: Training,
        seed: int,
        stops: Collection[int],
        watch: Callable[[Network], None] | None = None,
    ) -> dict[int, Network]:
        """Networks after some numbers of steps from the start that a seed gives."""
        objective = NetworkObjective(
            for_many_passes(training.rows),
            training.y,
            training.signatures,
            self.alpha,
            fit_intercept=self.fit_intercept,
        )
        start = objective.start(self.hidden_size, np.random.RandomState(seed))
        return train(objective, start, stops, self.tol, watch)

    def _stop(self, training: Training, seed: int, rng: np.random.RandomState) -> int:
        """The number of steps; with `early_stopping`, where classes held out fare best."""
        self.validation_scores_: list[float] = []
        if not self.early_stopping:
            return self.max_iter
        classes = HeldOutClasses.of(training, self.validation_fraction, rng)
        if classes is None:
            return self.max_iter
        held = classes.held

        def watch(network: Network) -> None:
            classes.judge(held.X, held.signatures, "euclidean", network.embed)

        self._train(classes.kept, seed, [self.max_iter], watch)
        self.validation_scores_ = classes.accuracies
        # Without any step there was nothing to choose from.
        return classes.best or self.max_iter

    def _sample_statistics(self, network: Network, training: Training) -> Any:
        """What variants of one network share of what else they learn from the samples."""
        return None

    def _take(self, network: Network, training: Training, statistics: Any) -> None:
        """Take over a network; what else is learned from the samples is learned here."""
        self.coefs_ = network.coefs
        self.intercepts_ = network.intercepts
        self.n_iter_ = network.n_iter

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures."""
        return Network(self.coefs_, self.intercepts_, self.n_iter_).embed(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Signatures are the parameters as they are."""
        return signatures
