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

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from zslearn.base import (
    AcceptsSampleWeight,
    Training,
    ZeroShotClassifier,
    alike_but_for,
    fit_together,
)
from zslearn.signatures import Signatures
from zslearn.solvers import SVMResult
from zslearn.synthesis._phantom_objective import similarities_to
from zslearn.synthesis._sync_training import LEAST_RIDGE, LOSSES, Learned, SynCProblem
from zslearn.utils import Array, Floats, move_like, to_numpy


class _Grids:
    """Grids that depend on the loss and the penalty; those of the class are for the defaults."""

    def __get__(self, model: SynC | None, owner: type[SynC] | None = None) -> dict[str, Any]:
        phantoms = {"eta": [1e-6, 1e-5, 1e-4], "norm_penalty": [1e-4, 1e-3, 1e-2]}
        if model is not None and model.penalize == "v":
            # The smaller gamma, the larger are base classifiers that make the same W, and the
            # smaller the best alpha: it spans more orders of magnitude than with a penalty on w.
            return {
                "paper": {"gamma": _powers(-5, 5), "alpha": _powers(-48, -8, 2)},
                "fast": {"gamma": _powers(-3, 2), "alpha": _powers(-40, -8, 4)},
                # On CUB held-out classes chose 2^−34 at 2^−2 and 2^−28 at 1. Smaller alphas take
                # many times as long to train, and so do those at larger gammas.
                "quick": [
                    {"gamma": [2.0**-2], "alpha": [2.0**-34, 2.0**-28]},
                    {"gamma": [1.0], "alpha": [2.0**-28, 2.0**-22]},
                ],
                "phantoms": phantoms,
            }
        # The loss of "ovo" is a mean over the classes, too, so that its alphas are smaller.
        lowest, highest = (-20, -12) if model is None or model.loss == "ovo" else (-14, -8)
        return {
            "paper": {"gamma": _powers(-5, 5), "alpha": _powers(-30, -8, 2)},
            "fast": {"gamma": _powers(-4, 3), "alpha": _powers(lowest, highest, 2)},
            "phantoms": phantoms,
        }


def _powers(lowest: int, highest: int, step: int = 1) -> list[float]:
    """Powers of two, both ends included."""
    return [2.0**k for k in range(lowest, highest + 1, step)]


class SynC(AcceptsSampleWeight, ZeroShotClassifier):
    """Synthesized classifiers: convex combinations of the base classifiers of phantom classes.

    Parameters
    ----------
    loss : {"ovo", "cs", "struct"}, default="ovo"
        "ovo": one class versus the others, squared hinge. "cs": Crammer and Singer's multi-class
        hinge. "struct": the same, with the distance of two classes' signatures as their margin.
    alpha : float, default=2**-12
        Weight of the penalty, the paper's λ. The paper searches 2^−30 … 2^−8. With `penalize="v"`
        the best values are much smaller, down to 2^−40.
    gamma : float, default=1.0
        Width of the similarities, the paper's 1/σ², in units of the median distance of the
        signatures. The paper searches 2^−5 … 2^5.
    n_phantoms : int or float, optional
        Number of phantom classes; by default one for each seen class. An int is that number. A
        float, up to 10.0, is a share of the seen classes: 0.6 means 60 for 100 of them, 1.0 as many
        as there are, 1 a single one. A share means the same in a fold of a cross-validation, which
        has fewer seen classes.
    phantom_init : {"auto", "seen", "kmeans", "random"}, array-like, DataFrame or mapping, \
            default="auto"
        The signatures of the phantoms. "seen": those of the seen classes, chosen at random where
        there are fewer phantoms. "kmeans": centroids of the seen classes, at most as many as
        these. "random": random convex combinations of two classes each; with more phantoms than
        seen classes these come first. All are brought to the norm of the signatures. "auto" takes
        "seen", "kmeans" or "random" as there are as many, fewer or more phantoms than seen classes.
        Or signatures, one row per phantom with the attributes of the classes, which are normalised
        as those of the classes are; with several views a mapping of each view's name to its rows.
        The length of a row is lost: `phantoms_` that were learned, given here, keep their
        directions, but not the norms that they had learned.
    learn_phantoms : bool, default=False
        Whether the phantoms' signatures are learned, too, starting from `phantom_init`.
    phantom_training : {"exact", "truncated"}, default="exact"
        How phantoms are learned. "exact": for each step that they take, the base classifiers are
        solved for to `tol`. "truncated": both are improved in turn, the base classifiers at first
        loosely; the last ones are solved for to `tol`.
    eta : float, default=1e-4
        Weight of the ℓ1 norm of the phantoms' coefficients β, with `learn_phantoms`.
    norm_penalty : float, default=1e-2
        Weight that keeps the norm of the phantoms near that of the signatures, the paper's γ, with
        `learn_phantoms`.
    penalize : {"w", "v"}, default="w"
        Whether the penalty is on the classifiers of the seen classes or on the base classifiers.
    ridge : float, default=0.0
        With `penalize="w"` and fixed phantoms: V minimises ‖S V − W‖² + ridge · ‖V‖². 0 is the
        paper's V = S⁺ W. Where signatures lie close together, as those of a hierarchy do, that V
        is huge and what it makes of unseen classes is noise; 1e-10 to 1e-4 prevents it.
    metric : {"diag"}, array-like of shape (n_attributes, n_attributes) or None, default=None
        Σ⁻¹ in the distance of two signatures, which `gamma` multiplies: the identity; inverse
        variances of the attributes over the seen classes, in units that keep the mean squared
        distance; or a positive semi-definite matrix. With several views the last is not possible.
    tol : float, default=1e-4
        Duality gap at which training ends, as a share of the objective and of what training gains:
        of the objective at W = 0 less the minimum.
    max_iter : int, default=4000
        Largest number of Newton steps ("ovo") or passes over the samples ("cs", "struct") of each
        solve, and of steps or rounds with `learn_phantoms`.
    random_state : int, RandomState instance or None, default=0
        Seed of random phantoms, of k-means and of the order in which samples are visited.
    <parameters of every method>

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
        The objective after each step with `learn_phantoms`, which never rises; else `objective_`
        alone.
    combinations_ : tuple of ndarray of shape (n_phantoms, n_seen) or None
        Coefficients β of the phantoms in the seen classes' signatures, one table per view; None
        where `phantom_init` gives the signatures and they are not learned.
    <attributes of every method>

    See Also
    --------
    zslearn.solvers.multiclass_svm : The training of W.

    Notes
    -----
    Losses are means, over samples and for "ovo" also over classes, as in the authors' program; the
    paper writes sums. There is no intercept.

    With `learn_phantoms` the problem is not convex. A sample weight of 2 and a sample that is there
    twice then give the same objective, but learning may end in different minima of it, above all
    with "cs" and "struct", whose solver visits samples in random order.

    References
    ----------
    S. Changpinyo, W.-L. Chao, B. Gong and F. Sha, "Classifier and Exemplar Synthesis for Zero-Shot
    Learning", IJCV 2020.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import SynC
    >>> data = make_zero_shot(random_state=0)
    >>> model = SynC(loss="struct")
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    >>> model.dual_gap_ <= model.tol * model.objective_
    True
    """

    keep_views: ClassVar[bool] = True
    #: Grids by name; those of alpha depend on the loss and on what is penalised. "phantoms" is for
    #: the second step of the paper's tuning, with `learn_phantoms`.
    grids = _Grids()

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "n_phantoms": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 10, closed="right"),
            None,
        ],
        "phantom_init": [StrOptions({"auto", "seen", "kmeans", "random"}), "array-like", Mapping],
        "learn_phantoms": ["boolean"],
        "phantom_training": [StrOptions({"exact", "truncated"})],
        "eta": [Interval(Real, 0, None, closed="left")],
        "norm_penalty": [Interval(Real, 0, None, closed="left")],
        "penalize": [StrOptions({"w", "v"})],
        "ridge": [Interval(Real, 0, None, closed="left")],
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
        n_phantoms: int | float | None = None,
        phantom_init: Any = "auto",
        learn_phantoms: bool = False,
        phantom_training: str = "exact",
        eta: float = 1e-4,
        norm_penalty: float = 1e-2,
        penalize: str = "w",
        ridge: float = 0.0,
        metric: Any = None,
        tol: float = 1e-4,
        max_iter: int = 4000,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.gamma = gamma
        self.n_phantoms = n_phantoms
        self.phantom_init = phantom_init
        self.learn_phantoms = learn_phantoms
        self.phantom_training = phantom_training
        self.eta = eta
        self.norm_penalty = norm_penalty
        self.penalize = penalize
        self.ridge = ridge
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.ridge and (self.penalize == "v" or self.learn_phantoms):
            raise ValueError('ridge is for penalize="w" and learn_phantoms=False; set it to 0.')
        if 0 < self.ridge < LEAST_RIDGE:
            raise ValueError(f"ridge={self.ridge:.3g} is lost in rounding: 0, or {LEAST_RIDGE}.")

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
        variants = [
            clone(self).set_params(alpha=alpha, gamma=gamma)
            for alpha in sorted(set(alphas), reverse=True)
            for gamma in dict.fromkeys(gammas)
        ]
        for _, model in fit_together(variants, X, y, signatures=signatures):
            yield model

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Each training starts from the one for the next larger alpha; see `fit_path`."""
        for group in alike_but_for(variants, "alpha", "gamma", "ridge", "eta", "norm_penalty"):
            problem = SynCProblem(training, group[0])
            kept = problem.kept_path({variant.alpha for variant in group})
            latest: dict[float | None, SVMResult] = {}
            for variant in sorted(group, key=lambda variant: -variant.alpha):
                # One training serves every gamma where W is trained directly. Learned phantoms are
                # not those that another solution belongs to.
                similar = None if problem.direct else variant.gamma
                start = None if variant.learn_phantoms else latest.get(similar)
                start = kept.get(variant.alpha, start)
                problem.ridge = variant.ridge
                problem.eta, problem.norm_penalty = variant.eta, variant.norm_penalty
                learned = problem.learn(variant.alpha, variant.gamma, start)
                latest[similar] = learned.solution
                variant._take(learned, problem)
                yield variant

    def _take(self, learned: Learned, problem: SynCProblem) -> None:
        """Take over what was learned."""
        self._factors = problem.factors
        self.combinations_ = learned.combinations
        self.phantoms_ = learned.phantoms
        self.base_classifiers_ = learned.base_classifiers
        self.coef_ = learned.solution.coef
        self.objective_ = learned.objective
        self.dual_gap_ = learned.solution.dual_gap
        self.history_ = list(learned.history)
        self.n_iter_ = learned.n_iter

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Make the classifier of each class, Σ_r s_cr v_r (eSynCCombine).

        <parameters of synthesize>

        Returns
        -------
        array of shape (n_classes, n_features)
            One classifier per row.
        """
        similarities = self.similarities(signatures)
        return move_like(similarities, self.base_classifiers_) @ self.base_classifiers_

    def similarities(self, signatures: Signatures) -> Floats:
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
        return similarities_to(self.phantoms_, signatures, self._factors, self.gamma)

    def seen_shares(self, signatures: Signatures) -> Floats | None:
        """The similarities to the phantoms, times what each phantom has of the seen classes.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_seen) or None
            None where the phantoms were given and are no combinations of seen classes.
        """
        if self.combinations_ is None:
            return None
        mixture = np.mean([np.abs(to_numpy(part)) for part in self.combinations_], axis=0)
        shares: Floats = self.similarities(signatures) @ mixture
        return shares
