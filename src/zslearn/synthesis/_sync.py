r"""SynC: classifiers of unseen classes, synthesized from those of phantom classes.

Real classes with signatures :math:`a_c` and phantom classes with signatures :math:`b_r` form a
bipartite graph with the weights (eSynCSimForm, eSynCDist)

.. math:: s_{cr} = \frac{\exp\{-d(a_c, b_r)\}}{\sum_r \exp\{-d(a_c, b_r)\}}, \quad
          d(a, b) = \gamma\, (a - b)^\top \Sigma^{-1} (a - b),

and the classifier of every real class, seen or unseen, is a convex combination of the phantoms'
base classifiers (eSynCCombine), :math:`w_c = \sum_r s_{cr} v_r`. The base classifiers are learned
from the images of the seen classes (eSynCObj),

.. math:: \min_V \ell(X, y; W) + \frac{\alpha}{2} \|W\|_F^2, \quad W = S V.

With the seen classes themselves as phantoms S is square: W is trained directly, whatever γ is, and
:math:`V = S^+ W`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier
from zslearn.signatures import SignatureViews, normalized_similarity
from zslearn.solvers._multiclass_svm import SVMLoss, SVMResult, loss_and_slope, train
from zslearn.solvers._svm_rows import TrainingRows
from zslearn.synthesis._phantoms import (
    Floats,
    PhantomObjective,
    Views,
    combine,
    initial_combinations,
    metric_factor,
    side_by_side,
    view_arrays,
    with_arrays,
)
from zslearn.utils import Array, move_like, to_numpy

_LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}
# Learning phantoms alternates at most this often, and ends when the objective falls by less.
_ALTERNATIONS = 50
_FALL = 1e-4


class _Grids:
    """Grids that depend on the loss of a model; those of the class are for the default loss."""

    def __get__(
        self, model: SynC | None, owner: type[SynC] | None = None
    ) -> dict[str, dict[str, list[Any]]]:
        # The loss of "ovo" is a mean over the classes, too, so that its alphas are smaller.
        lowest, highest = (-20, -12) if model is None or model.loss == "ovo" else (-14, -8)
        return {
            "paper": {
                "gamma": [2.0**k for k in range(-5, 6)],
                "alpha": [2.0**k for k in range(-30, -7, 2)],
            },
            "fast": {
                "gamma": [2.0**k for k in range(-4, 4)],
                "alpha": [2.0**k for k in range(lowest, highest + 1, 2)],
            },
        }


class SynC(ZeroShotClassifier):
    """Synthesized classifiers: convex combinations of the base classifiers of phantom classes.

    Parameters
    ----------
    loss : {"ovo", "cs", "struct"}, default="ovo"
        "ovo": one class versus the others, squared hinge. "cs": Crammer and Singer's multi-class
        hinge. "struct": the same, with the distance of two classes' signatures as their margin.
    alpha : float, default=2**-12
        Weight of the penalty, the paper's λ. The paper searches 2^−30 … 2^−8.
    gamma : float, default=1.0
        Width of the similarities, the paper's 1/σ², in units of the median distance of the
        signatures. The paper searches 2^−5 … 2^5.
    n_phantoms : int, optional
        Number of phantom classes; by default one for each seen class.
    phantom_init : {"auto", "seen", "kmeans", "random"}, default="auto"
        The signatures of the phantoms. "seen": those of the seen classes, chosen at random where
        there are fewer phantoms. "kmeans": centroids of the seen classes, at most as many as
        these. "random": random convex combinations; with more phantoms than seen classes these
        come first. All are brought to the norm of the signatures. "auto" takes "seen", "kmeans" or
        "random" as there are as many, fewer or more phantoms than seen classes.
    learn_phantoms : bool, default=False
        Whether the phantoms' signatures are learned, too, starting from `phantom_init`.
    eta : float, default=1e-4
        Weight of the ℓ1 norm of the phantoms' coefficients β, with `learn_phantoms`.
    norm_penalty : float, default=1e-2
        Weight that keeps the norm of the phantoms near that of the signatures, the paper's γ, with
        `learn_phantoms`.
    penalize : {"w", "v"}, default="w"
        Whether the penalty is on the classifiers of the seen classes or on the base classifiers.
    metric : {"diag"}, array-like of shape (n_attributes, n_attributes) or None, default=None
        Σ⁻¹ in the distance of two signatures, which `gamma` multiplies: the identity; inverse
        variances of the attributes over the seen classes, in units that keep the mean squared
        distance; or a positive semi-definite matrix. With several views the last is not possible.
    tol : float, default=1e-4
        Relative duality gap at which training ends.
    max_iter : int, default=1000
        Largest number of Newton steps ("ovo") or passes over the samples ("cs", "struct").
    random_state : int, RandomState instance or None, default=None
        Seed of random phantoms, of k-means and of the order in which samples are visited.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    phantoms_ : ndarray of shape (n_phantoms, n_attributes) or SignatureViews
        Normalised signatures of the phantom classes, b.
    base_classifiers_ : array of shape (n_phantoms, n_features)
        Base classifiers of the phantom classes, V.
    coef_ : array of shape (n_seen, n_features)
        Trained classifiers of the seen classes, W.
    objective_ : float
        Value of the objective.
    dual_gap_ : float
        `objective_` is at most this far above its minimum over the base classifiers.
    n_iter_ : int
        Newton steps or passes over the samples, all solves together.
    history_ : list of float
        The objective after each step of the alternation with `learn_phantoms`, which never rises;
        else `objective_` alone.
    combinations_ : tuple of ndarray of shape (n_phantoms, n_seen)
        Coefficients β of the phantoms in the seen classes' signatures, one table a view.
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
    zslearn.solvers.multiclass_svm : The training of W.

    Notes
    -----
    Losses are means, over samples and for "ovo" also over classes, as in the authors' program; the
    paper writes sums. There is no intercept.

    References
    ----------
    S. Changpinyo, W.-L. Chao, B. Gong and F. Sha, "Classifier and Exemplar Synthesis for Zero-Shot
    Learning", IJCV 2020.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import SynC
    >>> data = make_zero_shot(random_state=0)
    >>> model = SynC(loss="struct", random_state=0)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    >>> model.dual_gap_ <= model.tol * model.objective_
    True
    """

    keep_views: ClassVar[bool] = True

    #: Grids by name; "fast" depends on the loss.
    grids = _Grids()
    grid_order: ClassVar[tuple[str, ...]] = ("gamma", "alpha")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "loss": [StrOptions(set(_LOSSES))],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_phantoms": [Interval(Integral, 1, None, closed="left"), None],
        "phantom_init": [StrOptions({"auto", "seen", "kmeans", "random"})],
        "learn_phantoms": ["boolean"],
        "eta": [Interval(Real, 0, None, closed="left")],
        "norm_penalty": [Interval(Real, 0, None, closed="left")],
        "penalize": [StrOptions({"w", "v"})],
        "metric": [StrOptions({"diag"}), "array-like", None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        loss: str = "ovo",
        alpha: float = 2.0**-12,
        gamma: float = 1.0,
        *,
        n_phantoms: int | None = None,
        phantom_init: str = "auto",
        learn_phantoms: bool = False,
        eta: float = 1e-4,
        norm_penalty: float = 1e-2,
        penalize: str = "w",
        metric: Any = None,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.gamma = gamma
        self.n_phantoms = n_phantoms
        self.phantom_init = phantom_init
        self.learn_phantoms = learn_phantoms
        self.eta = eta
        self.norm_penalty = norm_penalty
        self.penalize = penalize
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def fit_path(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        alphas: Sequence[float],
        gammas: Sequence[float],
    ) -> Iterator[Self]:
        """Fit every pair of `alpha` and `gamma`, sharing what they have in common.

        What depends on the samples alone is computed once. Where the phantoms are the seen classes
        and the penalty is on w, one training serves every `gamma`. Each training starts from the
        one for the next larger `alpha`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`fit`.
        alphas : sequence of float
            Values of `alpha`.
        gammas : sequence of float
            Values of `gamma`.

        Yields
        ------
        SynC
            A fitted copy for each pair, alphas descending, for each of them the gammas in the order
            given. The estimator itself is not changed.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import SynC
        >>> data = make_zero_shot(random_state=0)
        >>> path = SynC().fit_path(data.X_train, data.y_train, signatures=data.signatures,
        ...                        alphas=[2**-12, 2**-8], gammas=[0.5, 1.0])
        >>> [(model.alpha, model.gamma) for model in path]
        [(0.00390625, 0.5), (0.00390625, 1.0), (0.000244140625, 0.5), (0.000244140625, 1.0)]
        """
        if len(alphas) == 0 or len(gammas) == 0:
            raise ValueError("alphas and gammas must name at least one value each.")
        fresh = clone(self)
        base = fresh._begin(X, y, signatures)
        for model in fresh._path(base, alphas, list(dict.fromkeys(gammas))):
            model._describe(base.table)
            yield model

    def _path(
        self, base: Training, alphas: Sequence[float], gammas: Sequence[float]
    ) -> Iterator[Self]:
        """Every pair, not described yet: alphas descending, for each of them the gammas."""
        training = self._make_ready(base.X, base.y, base.signatures)
        last: dict[float, SVMResult | None] = {}
        solution: SVMResult | None = None
        for alpha in sorted(set(alphas), reverse=True):
            for gamma in gammas:
                model = self._variant({"alpha": alpha, "gamma": gamma})
                model._validate_params()
                start = solution if model._direct(training.n_seen) else last.get(gamma)
                if model.learn_phantoms:
                    start = None  # it belongs to other phantoms
                solution = last[gamma] = model._learn(training, start)
                yield model

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Settings of `alpha` and `gamma` alone share as `fit_path` does."""
        wanted: dict[tuple[float, float], list[int]] = {}
        for i, setting in enumerate(settings):
            pair = setting.get("alpha", self.alpha), setting.get("gamma", self.gamma)
            wanted.setdefault(pair, []).append(i)
        gammas = list(dict.fromkeys(gamma for _, gamma in wanted))
        for model in self._path(training, [alpha for alpha, _ in wanted], gammas):
            for i in wanted.get((model.alpha, model.gamma), ()):
                yield i, model

    def embedding_key(self) -> str:
        """Images are embedded as they are, whatever the setting."""
        return "x"

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Floats | SignatureViews) -> None:
        self._learn(self._make_ready(X, y, signatures), None)

    def _make_ready(
        self, X: Array, y: NDArray[np.intp], signatures: Floats | SignatureViews
    ) -> _Training:
        """What training starts from, whatever alpha and gamma are."""
        rng = check_random_state(self.random_state)
        n_seen = len(signatures)
        return _Training(
            rows=TrainingRows(X, y, n_seen),
            signatures=signatures,
            combinations=initial_combinations(
                signatures, self.n_phantoms or n_seen, self.phantom_init, rng
            ),
            rng=rng,
        )

    def synthesize(self, signatures: Floats | SignatureViews) -> Array:
        """Make the classifier of each class, Σ_r s_cr v_r (eSynCCombine).

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_features)
            One classifier a row.
        """
        similarities = self.similarities(signatures)
        return move_like(similarities, self.base_classifiers_) @ self.base_classifiers_

    def similarities(self, signatures: Floats | SignatureViews) -> Floats:
        """Weights of the bipartite graph between classes and phantoms (eSynCSimForm).

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_phantoms)
            Each row sums to one.
        """
        return normalized_similarity(
            self._stretched(signatures), self._stretched(self.phantoms_), gamma=self.gamma
        )

    # How it is done.

    def _learn(self, training: _Training, start: SVMResult | None) -> SVMResult:
        """Learn the base classifiers, and the phantoms where they are to be learned."""
        self._factors = self._metric_factors(training.signatures)
        self._set_phantoms(training.combinations, training)
        solution = self._solve(training, start)
        self.n_iter_ = solution.n_iter
        self.objective_ = solution.objective
        self.history_ = [solution.objective]
        if self.learn_phantoms:
            solution = self._alternate(training, solution)
        self.coef_ = solution.coef
        self.dual_gap_ = solution.dual_gap
        return solution

    def _solve(
        self, training: _Training, start: SVMResult | None, classifiers: Array = None
    ) -> SVMResult:
        """Learn the base classifiers of the present phantoms, starting from `classifiers`."""
        rows, direct = training.rows, self._direct(training.n_seen)
        synthesis = _Synthesis(self.similarities(training.signatures), self.penalize, direct)
        if start is not None and classifiers is not None:
            start = replace(start, base=rows.asarray(synthesis.forward) @ classifiers)
        if direct and start is not None and start.alpha == self.alpha:
            solution = start  # of another gamma
        else:
            solution = train(
                rows,
                alpha=self.alpha,
                loss=_LOSSES[self.loss],
                margins=self._margins(training.signatures),
                mixing=synthesis.mixing,
                tol=self.tol,
                max_iter=self.max_iter,
                warm_start=start,
                random_state=training.rng,
            )
        self.base_classifiers_ = rows.asarray(synthesis.back) @ solution.base
        return solution

    def _alternate(self, training: _Training, solution: SVMResult) -> SVMResult:
        """Minimise over the phantoms and the base classifiers in turn (eSynCSemObj)."""
        objective = PhantomObjective(
            training.signatures,
            self._factors,
            self.gamma,
            self.eta,
            self.norm_penalty,
            self._loss_of_similarities(training),
        )
        value = solution.objective + objective.penalties(self.combinations_)
        self.history_ = [value]
        for _ in range(_ALTERNATIONS):
            before = value
            betas, value = objective.descend(self.combinations_)
            if not value < before:
                value = before
                break
            self.history_.append(value)
            self._set_phantoms(betas, training)
            classifiers = self.base_classifiers_
            trial = self._solve(training, solution, classifiers)
            self.n_iter_ += trial.n_iter
            rest = objective.penalties(betas)
            if trial.objective + rest < value:
                solution, value = trial, trial.objective + rest
            else:
                # What was there is better by a part of the gap: it stays, under the new bound.
                self.base_classifiers_ = classifiers
                similarities = self.similarities(training.signatures)
                solution = replace(
                    trial,
                    coef=training.rows.asarray(similarities) @ classifiers,
                    objective=value - rest,
                    dual_gap=trial.dual_gap - (trial.objective + rest - value),
                )
            self.history_.append(value)
            if before - value <= _FALL * abs(value):
                break
            objective = replace(objective, loss=self._loss_of_similarities(training))
        self.objective_ = value
        return solution

    def _loss_of_similarities(
        self, training: _Training
    ) -> Callable[[Floats], tuple[float, Floats]]:
        """Loss and penalty as a function of S, the base classifiers fixed, with its gradient.

        The scores X (S V)ᵀ are (X Vᵀ) Sᵀ, so that the features are needed once only.
        """
        rows = training.rows
        loss, margins = _LOSSES[self.loss], self._margins(training.signatures)
        responses = to_numpy(rows.scores(rows.rotated(self.base_classifiers_)))
        V = to_numpy(self.base_classifiers_)
        gram = V @ V.T

        def evaluate(similarities: Floats) -> tuple[float, Floats]:
            value, slope = loss_and_slope(responses @ similarities.T, rows.y, loss, margins)
            slope = slope.T @ responses
            if self.penalize == "v":
                return value + 0.5 * self.alpha * float(np.trace(gram)), slope
            mixed = similarities @ gram
            value += 0.5 * self.alpha * float(np.sum(mixed * similarities))
            return value, slope + self.alpha * mixed

        return evaluate

    def _set_phantoms(self, combinations: Views, training: _Training) -> None:
        self.combinations_ = combinations
        self.phantoms_ = combine(combinations, training.signatures)

    def _direct(self, n_seen: int) -> bool:
        """Whether W is trained directly: the phantoms are the seen classes, the penalty is on w."""
        return (
            self.penalize == "w"
            and not self.learn_phantoms
            and self.n_phantoms in (None, n_seen)
            and self.phantom_init != "random"
        )

    def _margins(self, signatures: Floats | SignatureViews) -> Floats | None:
        """Δ(c, y) = ‖a_c − a_y‖ for "struct"; else None, which stands for 1."""
        if self.loss != "struct":
            return None
        vectors = side_by_side(signatures)
        return cdist(vectors, vectors)

    def _metric_factors(self, signatures: Floats | SignatureViews) -> Views:
        arrays = view_arrays(signatures)
        if len(arrays) > 1 and not (self.metric is None or isinstance(self.metric, str)):
            raise ValueError(
                "metric as a matrix is for signatures of one view; these have "
                f'{len(arrays)}. Use metric="diag" or None.'
            )
        return tuple(metric_factor(self.metric, array) for array in arrays)

    def _stretched(self, signatures: Floats | SignatureViews) -> Floats | SignatureViews:
        """Signatures in coordinates where the metric is the identity."""
        if self.metric is None:
            return signatures
        arrays = view_arrays(signatures)
        stretched = tuple(a @ factor for a, factor in zip(arrays, self._factors, strict=True))
        return with_arrays(stretched, signatures)


class _Training(NamedTuple):
    """What training starts from, whatever alpha and gamma are."""

    rows: TrainingRows
    signatures: Floats | SignatureViews
    combinations: Views
    rng: np.random.RandomState

    @property
    def n_seen(self) -> int:
        return len(self.signatures)


class _Synthesis:
    """W = S V as the solver takes it: W = M U with the penalty on U.

    With the singular value decomposition S = P Σ Oᵀ, cut at the rank of S,

    - a penalty on w makes M = P, U = Σ Oᵀ V, for ‖P U‖ = ‖U‖;
    - a penalty on v makes M = P Σ, U = Oᵀ V, as the smallest V of a W lies in the span of O;
    - where W is free, M is the identity and U = W.

    Then V = `back` U and U = `forward` V.

    Parameters
    ----------
    similarities : ndarray of shape (n_seen, n_phantoms)
        S.
    penalize : {"w", "v"}
        What the penalty is on.
    free : bool
        Whether W is trained freely even where S cannot make it.
    """

    def __init__(self, similarities: Floats, penalize: str, free: bool) -> None:
        left, values, right = np.linalg.svd(similarities, full_matrices=False)
        rank = int(np.sum(values > values[0] * max(similarities.shape) * np.finfo(float).eps))
        left, values, right = left[:, :rank], values[:rank], right[:rank]
        self.mixing: Floats | None
        if penalize == "v":
            self.mixing, self.back, self.forward = left * values, right.T, right
        elif free or rank == len(similarities):
            self.mixing, self.back, self.forward = None, (right.T / values) @ left.T, similarities
        else:
            self.mixing, self.back, self.forward = left, right.T / values, values[:, None] * right
