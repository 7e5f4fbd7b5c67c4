r"""CMT: images are mapped into the space of signatures by a two-layer network.

.. math:: \min_{\theta} \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right),

and an image belongs to the class whose signature is nearest to where it is mapped. How θ is found
is told in :mod:`zslearn.baselines._cmt_network`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from zslearn.base import Training, ZeroShotClassifier
from zslearn.baselines._cmt_network import Floats, Network, NetworkProblem, train
from zslearn.metrics import per_class_accuracy
from zslearn.scoring import ScoreFunction, class_scores
from zslearn.utils import Array, take_rows, to_numpy

# With fewer seen classes none is held out for early stopping.
_FEWEST_TO_HOLD_OUT = 5


class CMT(ZeroShotClassifier):
    """Cross-modal transfer: a two-layer network from features to signatures, nearest signature.

    Parameters
    ----------
    hidden_size : int, default=100
        Hidden units.
    alpha : float, default=1e-4
        Weight decay, in units of features and signatures of unit root mean square norm.
    max_iter : int, default=40
        Steps of L-BFGS at most. Stopping early regularises; a search trains once for all values.
    early_stopping : bool, default=False
        Whether the number of steps is chosen on seen classes that are held out. The network is then
        trained again, on all of them. With fewer than five seen classes it has no effect; it needs
        signatures that say something of the classes held out.
    validation_fraction : float, default=0.2
        Share of the seen classes that is held out, with `early_stopping`.
    tol : float, default=1e-6
        Training ends when a step lowers the objective by less than this share of it.
    random_state : int, RandomState or None, default=0
        Decides the first weights, and what is held out.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    coefs_ : tuple of ndarray
        θ₁ᵀ of shape (n_features, hidden_size), θ₂ᵀ of shape (hidden_size, n_attributes).
    intercepts_ : tuple of ndarray
        What centring of features and of signatures comes to, in each layer.
    n_iter_ : int
        Steps of L-BFGS.
    validation_curve_ : ndarray of shape (n_steps,)
        With `early_stopping`: per-class accuracy among the classes held out, after each step.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.

    See Also
    --------
    CMTStar : With the gate that tells novel images from seen ones.

    Notes
    -----
    The original minimises a sum without weight decay and has no intercepts; here features and
    signatures are centred, which gives each layer an intercept, though not a free one. θ₂ is solved
    for exactly in each step of L-BFGS; the original searches both layers.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
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
    grid_order: ClassVar[tuple[str, ...]] = ("hidden_size", "alpha", "max_iter")
    #: Hyper-parameters whose settings share one path of training.
    _along_path: ClassVar[tuple[str, ...]] = ("max_iter",)

    def __init__(
        self,
        hidden_size: int = 100,
        alpha: float = 1e-4,
        *,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        tol: float = 1e-6,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.hidden_size = hidden_size
        self.alpha = alpha
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> None:
        rng = check_random_state(self.random_state)
        if hasattr(self, "validation_curve_"):
            del self.validation_curve_
        stop = self.max_iter
        seed = rng.randint(2**31 - 1)
        if self.early_stopping and len(signatures) >= _FEWEST_TO_HOLD_OUT:
            stop = self._best_stop(X, y, signatures, seed, rng)
        network = self._path(X, y, signatures, [stop], seed)[stop]
        self._take(network, X, y, signatures)

    def _path(
        self,
        X: Array,
        y: NDArray[np.intp],
        signatures: Floats,
        stops: Sequence[int],
        seed: int,
        watch: Any = None,
    ) -> dict[int, Network]:
        """Networks after some numbers of steps, along one path of training."""
        problem = NetworkProblem(X, y, signatures, self.alpha)
        start = problem.start(self.hidden_size, np.random.RandomState(seed))
        return train(problem, start, stops, self.tol, watch)

    def _best_stop(
        self,
        X: Array,
        y: NDArray[np.intp],
        signatures: Floats,
        seed: int,
        rng: np.random.RandomState,
    ) -> int:
        """The number of steps after which classes that were held out are told apart best."""
        n_seen = len(signatures)
        n_held = int(np.clip(round(self.validation_fraction * n_seen), 2, n_seen - 2))
        held = np.sort(rng.permutation(n_seen)[:n_held])
        kept = np.setdiff1d(np.arange(n_seen), held)
        is_held = np.isin(y, held)
        unseen_X, unseen_y = take_rows(X, np.flatnonzero(is_held)), y[is_held]
        curve: list[float] = []

        def watch(network: Network) -> None:
            scores = class_scores(
                unseen_X, signatures[held], score="euclidean", embed=network.embed
            )
            best = held[to_numpy(scores).argmax(axis=1)]
            curve.append(float(per_class_accuracy(unseen_y, best)))

        rows = np.flatnonzero(~is_held)
        codes = np.searchsorted(kept, y[rows])
        self._path(take_rows(X, rows), codes, signatures[kept], [self.max_iter], seed, watch)
        self.validation_curve_ = np.asarray(curve)
        return 1 + int(np.argmax(curve)) if curve else self.max_iter

    def _take(self, network: Network, X: Array, y: NDArray[np.intp], signatures: Floats) -> None:
        """Take over a network; what else is learned from the samples is learned here."""
        self.coefs_ = network.coefs
        self.intercepts_ = network.intercepts
        self.n_iter_ = network.n_iter

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Those that differ in `max_iter` share one training."""
        groups: dict[tuple[Any, ...], dict[int, Self]] = {}
        for i, one in enumerate(self._variants(settings)):
            groups.setdefault((one.hidden_size, one.alpha, one.tol), {})[i] = one
        for key in list(groups):
            yield from self._fit_group(groups.pop(key), training)

    def _can_share(self, names: set[str]) -> bool:
        shared = names <= {"hidden_size", "alpha", "tol", *self._along_path}
        return shared and not self.early_stopping and isinstance(self.random_state, Integral)

    def _fit_group(self, group: dict[int, Self], training: Training) -> Iterator[tuple[int, Self]]:
        """Settings along one path of training."""
        first = next(iter(group.values()))
        stops = sorted({one.max_iter for one in group.values()})
        given = training.X, training.y, training.signatures
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        networks = first._path(*given, stops, seed)
        # One fitted estimator is held at a time.
        for i in list(group):
            one = group.pop(i)
            one._take(networks[one.max_iter], *given)
            yield i, one

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_attributes)
            θ₂ tanh(θ₁ x), with the intercepts.
        """
        return Network(self.coefs_, self.intercepts_, self.n_iter_).embed(X)

    def synthesize(self, signatures: Floats) -> Array:
        """Signatures are the parameters as they are.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_attributes)
            The same.
        """
        return signatures
