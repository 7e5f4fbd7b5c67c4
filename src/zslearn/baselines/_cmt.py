r"""CMT: images are mapped into the space of signatures by a two-layer network.

.. math:: \min_{\theta} \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right),

and an image belongs to the class whose signature is nearest to where it is mapped. How θ is found
is told in :mod:`zslearn.baselines._cmt_network`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from zslearn._version import __version__
from zslearn.base import Training, ZeroShotClassifier
from zslearn.baselines import _early_stopping
from zslearn.baselines._cmt_network import Network, NetworkProblem
from zslearn.baselines._cmt_path import Descents, TrainedPath, with_halves
from zslearn.baselines._early_stopping import HeldOutClasses, on_one_path
from zslearn.scoring import ScoreFunction
from zslearn.utils import Array, Floats, keeps_fits, kept_fit

_PARAMETERS = f"""
hidden_size : int, default=100
    Hidden units.
alpha : float, default=1e-4
    Weight decay, in units of features and signatures of unit root mean square norm.
fit_intercept : bool, default=False
    Whether each layer has an intercept of its own. Without, it has what centring of features and
    of signatures comes to.
max_iter : int, default=40
    Steps of L-BFGS at most. Stopping early regularises; a search trains once for all values.
{_early_stopping.PARAMETERS.strip()}
tol : float, default=1e-6
    Training ends when a step lowers the objective by less than this share of it.
random_state : int, RandomState instance or None, default=0
    Decides the first weights, and what is held out.
"""

_ATTRIBUTES = f"""
coefs_ : tuple of ndarray
    θ₁ᵀ of shape (n_features, hidden_size), θ₂ᵀ of shape (hidden_size, n_attributes).
intercepts_ : tuple of ndarray
    Of each layer: what centring comes to, and with `fit_intercept` what was learned besides.
n_iter_ : int
    Steps of L-BFGS.
{_early_stopping.ATTRIBUTES.strip()}
"""


class CMT(ZeroShotClassifier):
    """Cross-modal transfer: a two-layer network from features to signatures, nearest signature.

    Parameters
    ----------
    <parameters of CMT>
    <parameters of every method>

    Attributes
    ----------
    <attributes of CMT>
    <attributes of every method>

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

    score_function: ScoreFunction = "euclidean"

    _doc_parts: ClassVar[Mapping[str, str]] = {
        **ZeroShotClassifier._doc_parts,
        "parameters of CMT": _PARAMETERS,
        "attributes of CMT": _ATTRIBUTES,
    }

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
    _beside_network: ClassVar[tuple[str, ...]] = ()

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
        """One path of training serves all variants that only leave it at different steps.

        Paths that differ in alpha alone are trained side by side.
        """
        plans: dict[Any, list[tuple[list[Self], list[int]]]] = {}
        for group in on_one_path(variants, *cls._beside_network):
            stops = []
            for variant in group:
                rng = check_random_state(variant.random_state)
                # The same for all of a group.
                seed = rng.randint(2**31 - 1)
                stops.append(variant._stop(training, seed, rng))
            first = group[0]
            kind = seed, first.hidden_size, first.fit_intercept, first.tol, max(stops)
            plans.setdefault(kind, []).append((group, stops))
        for (seed, *_), plan in plans.items():
            problem = plan[0][0][0]._problem(training)
            descents = plan[0][0][0]._descents(problem, seed)
            for group, stops in plan:
                descents.add(group[0].alpha, stops)
            for group, stops in plan:
                networks = group[0]._networks(training, descents, stops)
                beside: dict[int, Any] = {}
                for variant, stop in zip(group, stops, strict=True):
                    if stop not in beside:
                        beside[stop] = variant._beside(networks[stop], training)
                    variant._take(networks[stop], training, beside[stop])
                    yield variant

    def _problem(self, training: Training) -> NetworkProblem:
        """What is minimised."""
        return NetworkProblem(
            training.X_or_rows,
            training.y,
            training.signatures,
            self.alpha,
            fit_intercept=self.fit_intercept,
        )

    def _descents(self, problem: NetworkProblem, seed: int) -> Descents:
        start = problem.start(self.hidden_size, np.random.RandomState(seed))
        return Descents(problem, start, self.tol)

    def _networks(
        self, training: Training, descents: Descents, stops: Collection[int]
    ) -> dict[int, Network]:
        """Networks after some numbers of steps, along one path of training."""
        rows = training.X_or_rows
        if not keeps_fits(rows):
            return descents.path(self.alpha).at(stops)
        # CMT* has the same network beside what else it learns, and the other setting may choose
        # another of its steps.
        parts = "CMT's networks", __version__, rows, training.y, training.signatures
        path = kept_fit(
            (*parts, descents.start, self.alpha, self.fit_intercept, self.tol),
            lambda: descents.path(self.alpha, with_halves).arrays(),
            lambda arrays: TrainedPath.of(arrays).has(stops),
        )
        descents.forget(self.alpha)
        return TrainedPath.of(path).at(stops)

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

        descents = self._descents(self._problem(classes.kept), seed)
        descents.add(self.alpha, [self.max_iter])
        descents.path(self.alpha, watch=watch)
        self.validation_scores_ = classes.accuracies
        # Without any step there was nothing to choose from.
        return classes.best or self.max_iter

    def _beside(self, network: Network, training: Training) -> Any:
        """What variants of one network share of what else they learn from the samples."""
        return None

    def _take(self, network: Network, training: Training, beside: Any) -> None:
        """Take over a network; what else is learned from the samples is learned here."""
        self.coefs_ = network.coefs
        self.intercepts_ = network.intercepts
        self.n_iter_ = network.n_iter

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_attributes)
            θ₂ tanh(θ₁ x), with the intercepts.
        """
        return Network(self.coefs_, self.intercepts_, self.n_iter_).embed(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Signatures are the parameters as they are.

        <parameters of synthesize>

        Returns
        -------
        ndarray of shape (n_classes, n_attributes)
            The same.
        """
        return signatures
