r"""SynC: synthesise classifiers of unseen classes from those of phantom classes.

Real classes with signatures :math:`a_c` and phantom classes with signatures :math:`b_r` form a
bipartite graph with the weights (Eqs. 2 and 3)

.. math:: s_{cr} = \frac{\exp\{-d(a_c, b_r)\}}{\sum_r \exp\{-d(a_c, b_r)\}}, \quad
          d(a, b) = \gamma\, (a - b)^\top \Sigma^{-1} (a - b),

and the classifier of every real class, seen or unseen, is a convex combination of the phantoms'
base classifiers, :math:`w_c = \sum_r s_{cr} v_r` (Eq. 5). The base classifiers are learned from
the samples of the seen classes (Eq. 6),

.. math:: \min_V \ell(X, y; W) + \frac{\alpha}{2} \|W\|_F^2, \quad W = S V.

If the phantoms are the seen classes themselves, S is square: W is then trained directly, whatever γ
is, and :math:`V = S^+ W`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from zslearn._scoring._embedding import PreparedRows, for_many_passes
from zslearn._solvers._linalg import pseudo_inverse
from zslearn._solvers.svm._multiclass import LOSSES, SVMResult, loss_and_slope, train_multiclass_svm
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, Floats, move_like, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import cached_results, caches_fits
from zslearn._utils._messages import warn_user
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import some_rows
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params_except
from zslearn.base._training import Training
from zslearn.signatures._views import Signatures, side_by_side, view_arrays, with_arrays
from zslearn.synthesis._phantoms import (
    Descent,
    PhantomObjective,
    Point,
    Views,
    combine,
    descend,
    given_phantoms,
    initial_combinations,
    is_given,
    metric_factors,
    phantom_count,
    signature_norms,
    similarities_to,
)

# Smaller ridges are lost in rounding of SᵀS, whose largest eigenvalue is about one.
_LEAST_RIDGE = 1e-12
# Memory for inverses of similarities that several alphas share.
_SYNTHESES_BYTES = 2**27
# Bounds of the penalty, for rows of unit length, between which training beats chance; measured on
# synthetic features of 1e-20 to 1e12 times their usual scale.
_PENALTIES = {"ovo": (1e-29, np.inf), "cs": (1e-20, 1e13), "struct": (1e-20, 1e13)}
# Cached parts of a solution. The dual variables only serve the next one.
_CACHED = ("coef", "alpha", "objective", "dual_gap", "n_iter", "converged", "gain")


@dataclass(frozen=True)
class Learned:
    """Result of one setting."""

    solution: SVMResult  # the trained W
    base_classifiers: Array  # V
    phantoms: Signatures  # normalised
    combinations: Views | None  # β of the phantoms; None if these were given
    objective: float
    history: tuple[float, ...]  # the objective after each step of learning phantoms
    n_iter: int  # over all solves


class SynCProblem:
    """Rows, initial phantoms and solver options, which variants on one path share."""

    def __init__(self, training: Training, model: Any) -> None:
        self.rng = check_random_state(model.random_state)
        self.rows = TrainingRows(
            for_many_passes(training.rows),
            training.y,
            training.n_seen,
            sample_weight=training.weights,
        )
        self.training = training
        self.signatures: Signatures = training.signatures
        init = model.phantom_init
        self.start: Views | None = None
        if is_given(init):
            table, scale = training.table, training.signature_scale
            self.phantoms = given_phantoms(init, model.n_phantoms, table, scale)
        else:
            count = phantom_count(model.n_phantoms, training.n_seen)
            self.start = initial_combinations(self.signatures, count, init, self.rng)
            self.phantoms = combine(self.start, self.signatures)
        self.rng_state = self.rng.get_state(legacy=False)
        self.factors = () if model.metric is None else metric_factors(model.metric, self.signatures)
        self.loss = LOSSES[model.loss]
        #: Δ(c, y) = ‖a_c − a_y‖ of the scaled or unit-length signatures.
        self.margins: Floats | None = None
        if model.loss == "struct":
            arrays = view_arrays(self.signatures)
            if model.margin == "unit":
                arrays = tuple(map(unit_rows, arrays))
            vectors = side_by_side(with_arrays(arrays, self.signatures))
            self.margins = cdist(vectors, vectors)
        self.weights: Floats | None = training.weights
        self.penalize = model.penalize
        self.tol, self.max_iter = model.tol, model.max_iter
        self.learn_phantoms = model.learn_phantoms
        self._syntheses: dict[tuple[float, float], Synthesis] = {}
        #: Whether W is trained directly, independently of gamma.
        self.direct = (
            model.penalize == "w"
            and not model.learn_phantoms
            and self.start is not None
            and len(self.phantoms) == training.n_seen
            and init != "random"
        )

    def learn(self, model: SynC, start: SVMResult | None) -> Learned:
        """Learn the base classifiers of a variant, and its phantoms with `learn_phantoms`."""
        if self.learn_phantoms:
            # Learned phantoms depend on the order of samples, which must not depend on the grid.
            self.rng = np.random.RandomState()
            self.rng.set_state(self.rng_state)
            return _PhantomLearner(self, model).learn()
        synthesis = self._synthesis(model.gamma, model.ridge)
        if self.direct and start is not None and start.alpha == model.alpha:
            solution = start  # of another gamma
        else:
            solution = self.solve(model.alpha, synthesis, start)
        return Learned(
            solution,
            self.rows.asarray(synthesis.back) @ solution.base,
            self.phantoms,
            self.start,
            solution.objective,
            (solution.objective,),
            solution.n_iter,
        )

    def cached_path(self, alphas: Collection[float]) -> dict[float, SVMResult]:
        """Solutions that do not depend on signatures, read from or written to the cache."""
        if not self.direct or self.margins is not None:
            return {}
        rows = for_many_passes(self.training.rows)
        if not caches_fits(rows):
            return {}
        falling = sorted(alphas, reverse=True)
        parts = (
            "multiclass_svm", rows, self.training.y, self.weights, falling,
            self.loss, self.tol, self.max_iter, self.rng_state,
        )  # fmt: skip
        solutions: dict[float, SVMResult] = {}
        for values in cached_results(parts, lambda: self._path(falling), _CACHED):
            # The penalty is on W itself.
            result = SVMResult(base=values["coef"], **values)
            result.warn_of_gap(self.tol, self.max_iter)
            solutions[result.alpha] = result
        return solutions

    def _path(self, alphas: Sequence[float]) -> Iterator[SVMResult]:
        """Train W without constraints for each alpha, starting from the previous solution."""
        last: SVMResult | None = None
        for alpha in alphas:
            with warnings.catch_warnings():
                # Issued later, also for cached solutions.
                warnings.simplefilter("ignore", ConvergenceWarning)
                last = self.solve(alpha, None, last)
            yield last

    def _synthesis(self, gamma: float, ridge: float) -> Synthesis:
        """The map from base classifiers to W, shared by all alphas if memory permits."""
        synthesis = self._syntheses.get((gamma, ridge))
        if synthesis is None:
            similarities = similarities_to(self.phantoms, self.signatures, self.factors, gamma)
            synthesis = Synthesis(similarities, self.penalize, self.direct, ridge)
            if (len(self._syntheses) + 1) * 2 * similarities.nbytes <= _SYNTHESES_BYTES:
                self._syntheses[gamma, ridge] = synthesis
        return synthesis

    def solve(
        self,
        alpha: float,
        synthesis: Synthesis | None,
        start: SVMResult | None,
        *,
        base: Array = None,
    ) -> SVMResult:
        """Train W, starting from another solution or its replaced coefficients U."""
        if start is not None and base is not None:
            start = replace(start, base=base)
        return train_multiclass_svm(
            self.rows,
            alpha=alpha,
            loss=self.loss,
            margins=self.margins,
            mixing=None if synthesis is None else synthesis.mixing,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=start,
            random_state=self.rng,
        )


def _refuse_scale(training: Training, model: Any) -> None:
    """Raise if the scale of the features loses the loss or the penalty in rounding."""
    if model.feature_norm is not None or not isinstance(training.rows, PreparedRows):
        return
    # Features c·X at alpha are equivalent to X at alpha / c². The median is robust to outliers.
    square = float(np.median((some_rows(training.rows.source) ** 2).sum(axis=1))) or 1.0
    alpha, (least, largest) = model.alpha, _PENALTIES[model.loss]
    is_usable = [least < penalty < largest for penalty in (alpha, alpha / square)]
    if is_usable == [True, False]:
        raise ValueError(
            f"The rows of X have a length of about {np.sqrt(square):.0e}, for which alpha="
            f"{alpha:.3g} of {type(model).__name__} is too "
            f"{'small' if square > 1 else 'large'} to learn. Divide X by that length, or set "
            "feature_norm='l2'."
        )


class Synthesis:
    """W = S V in the form of the solver: W = M U with the penalty on U.

    With the singular value decomposition S = P Σ Oᵀ, truncated to the rank of S,

    - a penalty on w gives M = P and U = Σ Oᵀ V, since ‖P U‖ = ‖U‖;
    - a penalty on v gives M = P Σ and U = Oᵀ V, since the smallest V of a W lies in the span of O;
    - with unconstrained W, M is the identity and U = W.

    Then V = `back` U and U = `forward` V. With a ridge, V minimises ‖S V − W‖² + ridge · ‖V‖²
    instead.
    """

    def __init__(
        self, similarities: Floats, penalize: str, free: bool = False, ridge: float = 0.0
    ) -> None:
        self.mixing: Floats | None
        if free and penalize == "w":
            # V = S⁺ W costs less than singular vectors.
            self.mixing, self.forward = None, similarities
            self.back = pseudo_inverse(similarities, ridge=ridge)
            return
        left, values, right = np.linalg.svd(similarities, full_matrices=False)
        rank = int(np.sum(values > values[0] * max(similarities.shape) * np.finfo(float).eps))
        left, values, right = left[:, :rank], values[:rank], right[:rank]
        #: Orthonormal basis P of the range of S.
        self.range = left
        self.values = values
        if penalize == "v":
            self.mixing, self.back, self.forward = left * values, right.T, right
        elif rank == len(similarities):
            self.mixing, self.back, self.forward = None, (right.T / values) @ left.T, similarities
        else:
            self.mixing, self.back, self.forward = left, right.T / values, values[:, None] * right
        if ridge:
            smoothed = pseudo_inverse(similarities, ridge=ridge)
            self.back = smoothed if self.mixing is None else smoothed @ self.mixing

    @property
    def condition(self) -> float:
        """Ratio of the largest to the smallest singular value within the rank."""
        return float(self.values[0] / self.values[-1])

    def rank(self, condition: float) -> int:
        """Number of singular values within a given factor of the largest."""
        return int(np.sum(self.values * condition >= self.values[0]))


# A step is small if it lowers the objective by less than this share of the total decrease so far.
_SMALL_DECREASE = 3e-4
# Largest condition number of S, beyond which phantoms cannot be distinguished.
_LARGEST_CONDITION = 1e7
# With a penalty on v, consider the directions in which the initial classifiers of seen classes
# differ by at least the first share of their largest difference. In half of them, learned
# classifiers must differ by at least the second share of the initial difference.
_RELEVANT_DIFFERENCE = 0.01
_LEAST_DIFFERENCE = 0.05
# Phantoms have collapsed below this share of the norm of the signatures.
_COLLAPSED = 0.2


class _Trained(NamedTuple):
    """Base classifiers of some phantoms."""

    solution: SVMResult
    classifiers: Array


class _PhantomLearner:
    r"""Learns phantoms together with their base classifiers (Eq. 9).

    It takes proximal gradient steps on :math:`\varphi(\beta) = \min_V F(V, \beta)`. Each trial
    step solves for its base classifiers and is judged by the objective with these. By the envelope
    theorem the gradient of φ is that of F at the best V, for Crammer–Singer with the slope of the
    dual solution. With a penalty on w, stationarity in V reads :math:`S^\top G = 0` for the
    gradient G with respect to W. The part of G in the range of S is therefore solver error and is
    removed; if S has full row rank, nothing remains and the data do not move β.
    """

    def __init__(self, problem: SynCProblem, model: SynC) -> None:
        assert problem.start is not None
        self.problem, self.alpha = problem, model.alpha
        self.eta, self.norm_penalty = model.eta, model.norm_penalty
        self.start: Views = problem.start
        self.n_iter = 0
        self.objective = PhantomObjective(
            problem.signatures,
            problem.factors or metric_factors(None, problem.signatures),
            model.gamma,
            model.eta,
            model.norm_penalty,
        )
        first = self._synthesis(self.start)
        #: Whether every W can be represented, at the same penalty for all β.
        self.free = first.mixing is None
        self.condition = max(_LARGEST_CONDITION, 10 * first.condition)
        self.first_rank = len(first.values)
        #: Differences that classifiers must keep; see `_require_differences`.
        self.n_directions, self.least_difference = 0, 0.0

    def learn(self) -> Learned:
        """Learn phantoms and base classifiers."""
        start = self._solved(self.start, None)
        self._require_differences(start.extra)

        def evaluate(betas: Views, before: _Trained) -> Point | None:
            # Where S loses rank, the objective with a penalty on w is discontinuous.
            may_lose_rank = self.problem.penalize == "v"
            if not may_lose_rank and self._synthesis(betas).rank(self.condition) < self.first_rank:
                return None
            point = self._solved(betas, before)
            if self.n_directions:
                differences = self._differences(betas, point.extra.classifiers)
                if differences[self.n_directions - 1] < self.least_difference:
                    return None
            return point

        steps = self.problem.max_iter
        descent = descend(
            start, evaluate, eta=self.eta, steps=steps, small_decrease=_SMALL_DECREASE
        )
        self._warn(descent)
        point = descent.point
        return Learned(
            point.extra.solution,
            point.extra.classifiers,
            combine(point.betas, self.problem.signatures),
            point.betas,
            point.value,
            (start.value, *descent.values),
            self.n_iter,
        )

    def _synthesis(self, betas: Views) -> Synthesis:
        return Synthesis(self.objective.similarities(betas)[0], self.problem.penalize)

    def _require_differences(self, start: _Trained) -> None:
        """Set how much classifiers must keep differing, with a penalty on v.

        The objective is then continuous where S loses rank. At β = 0 all base classifiers are equal
        and the data do not move β: for every eta > 0 this is a local minimum, and for a large eta
        the only one that learning reaches, although all classes coincide there.
        """
        if self.problem.penalize == "w":
            return
        differences = self._differences(self.start, start.classifiers)
        n_directions = int(np.sum(differences > max(_RELEVANT_DIFFERENCE * differences[0], 1e-12)))
        self.n_directions = (n_directions + 1) // 2
        if self.n_directions:
            self.least_difference = _LEAST_DIFFERENCE * float(differences[self.n_directions - 1])

    def _differences(self, betas: Views, classifiers: Array) -> Floats:
        """Singular values of the centred rows of W = S V, which measure how classifiers differ."""
        W = self.objective.similarities(betas)[0] @ to_numpy(classifiers)
        differences: Floats = np.linalg.svd(W - W.mean(axis=0), compute_uv=False)
        return differences

    def _solved(self, betas: Views, before: _Trained | None) -> Point:
        """The point with the best base classifiers, and the gradient of φ there."""
        problem, rows = self.problem, self.problem.rows
        synthesis, base = self._synthesis(betas), None
        if before is not None and problem.penalize == "v":
            base = rows.asarray(synthesis.forward) @ before.classifiers
        elif before is not None:
            # With a penalty on w, the new W is close to the old one even if V is not.
            base = before.solution.coef
            if synthesis.mixing is not None:
                base = rows.asarray(synthesis.mixing.T) @ base
        start = None if before is None else before.solution
        solution = problem.solve(self.alpha, synthesis, start, base=base)
        self.n_iter += solution.n_iter
        trained = _Trained(solution, rows.asarray(synthesis.back) @ solution.base)
        return Point(
            betas,
            trained.solution.objective + self.objective.penalties(betas),
            self.objective.gradients(betas, self._slope(synthesis, trained)),
            trained,
        )

    def _slope(self, synthesis: Synthesis, trained: _Trained) -> Floats:
        """Gradient with respect to S at the best base classifiers."""
        problem, rows = self.problem, self.problem.rows
        V = to_numpy(trained.classifiers)
        if synthesis.mixing is None:
            return np.zeros((rows.n_classes, len(V)))
        W = to_numpy(trained.solution.coef)
        scores = to_numpy(rows.scores(rows.rotated(trained.solution.coef)))
        responses = to_numpy(rows.scores(rows.rotated(trained.classifiers)))
        _, slope = loss_and_slope(
            scores,
            rows.y,
            problem.loss,
            problem.margins,
            sample_weight=problem.weights,
            dual=trained.solution.dual,
        )
        slope = slope.T @ responses
        if problem.penalize == "v":
            return slope
        slope += self.alpha * W @ V.T
        return slope - synthesis.range @ (synthesis.range.T @ slope)

    def _warn(self, descent: Descent) -> None:
        """Warn if the data did not determine the phantoms, or if learning did not converge."""
        if self.free:
            warn_user(
                "learn_phantoms=True: these phantoms can represent every W, so that with "
                'penalize="w" they follow eta and norm_penalty, not the data. Use fewer phantoms '
                '(n_phantoms=0.6) or penalize="v".'
            )
        if descent.refused or self._has_collapsed(descent.point.betas):
            what = f"The phantoms have shrunk to less than {_COLLAPSED} of the signatures' norm"
            if descent.refused:
                what = "Learning stopped before the phantoms became indistinguishable"
            warn_user(
                f"{what}: eta={self.eta:.3g} outweighs norm_penalty={self.norm_penalty:.3g} and "
                "the data. Decrease eta or increase norm_penalty.",
                ConvergenceWarning,
            )
        if not descent.converged:
            warn_user(
                f"Learning the phantoms stopped after max_iter={self.problem.max_iter} steps "
                "without converging. Increase max_iter.",
                ConvergenceWarning,
            )

    def _has_collapsed(self, betas: Views) -> bool:
        """Whether all phantoms are much shorter than the signatures."""
        phantoms = view_arrays(combine(betas, self.problem.signatures))
        norms = signature_norms(self.problem.signatures)
        return all(
            np.linalg.norm(rows, axis=1).max() < _COLLAPSED * norm
            for rows, norm in zip(phantoms, norms, strict=True)
        )


class _Grids:
    """Grids that depend on the loss and the penalty; the class has those of the defaults."""

    def __get__(self, model: SynC | None, owner: type[SynC] | None = None) -> dict[str, Any]:
        phantoms = {"eta": [1e-6, 1e-5, 1e-4], "norm_penalty": [1e-4, 1e-3, 1e-2]}
        if model is not None and model.penalize == "v":
            # The base classifiers of a given W grow as gamma falls, and the best alpha falls with
            # it over more orders of magnitude than with a penalty on w.
            return {
                "paper": {"gamma": _powers(-5, 5), "alpha": _powers(-48, -8, 2)},
                "fast": {"gamma": _powers(-3, 2), "alpha": _powers(-40, -8, 4)},
                # Held-out classes of CUB chose 2^−34 at 2^−2 and 2^−28 at 1. Training takes many
                # times as long with smaller alphas and larger gammas.
                "quick": [
                    {"gamma": [2.0**-2], "alpha": [2.0**-34, 2.0**-28]},
                    {"gamma": [1.0], "alpha": [2.0**-28, 2.0**-22]},
                ],
                "phantoms": phantoms,
            }
        # The loss of "ovo" is also averaged over classes, so that its alphas are smaller.
        lowest, highest = (-20, -12) if model is None or model.loss == "ovo" else (-14, -8)
        return {
            "paper": {"gamma": _powers(-5, 5), "alpha": _powers(-30, -8, 2)},
            "fast": {"gamma": _powers(-4, 3), "alpha": _powers(lowest, highest, 2)},
            "phantoms": phantoms,
        }


def _powers(lowest: int, highest: int, step: int = 1) -> list[float]:
    """Powers of two, both ends included."""
    return [2.0**k for k in range(lowest, highest + 1, step)]


@inherit_docs
@saves(
    phantoms_=Saved("n_phantoms", kind="signatures"),
    base_classifiers_=Saved("n_phantoms", "n_features"),
    coef_=Saved("n_seen", "n_features"),
    combinations_=Saved("n_phantoms", "n_seen", each=True),
    objective_=Saved(finite=False),
    dual_gap_=Saved(finite=False),
    history_=Saved(kind=object, each=True, finite=False),
    n_iter_=Saved(kind="int", least=0),
    _factors=Saved(None, None, each=True),
)
@dataclass(eq=False, repr=False)
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
        Number of phantom classes as an int, or, up to 10.0, as a float share of the seen classes,
        which adapts to the smaller folds of a cross-validation. By default one per seen class.
    phantom_init : {"auto", "seen", "kmeans", "random"}, array-like, DataFrame or mapping, \
            default="auto"
        Signatures of the phantoms. "seen": those of (a random subset of) the seen classes.
        "kmeans": centroids of the seen classes. "random": random convex combinations of two classes
        each, after the seen classes if there are more phantoms than these. All are scaled to the
        norm of the signatures. "auto" chooses "seen", "kmeans" or "random" for as many, fewer or
        more phantoms than seen classes. Or signatures, one row per phantom, with several views as a
        mapping from view to rows. They are normalised like those of the classes, so that
        `phantoms_` passed here lose their learned norms.
    learn_phantoms : bool, default=False
        Whether to learn the signatures of the phantoms as well, starting from `phantom_init`. Each
        step solves for the base classifiers to `tol`.
    eta : float, default=1e-4
        Weight of the ℓ1 norm of the phantoms' coefficients β, with `learn_phantoms`.
    norm_penalty : float, default=1e-2
        Weight of the penalty that keeps phantoms near the norm of the signatures, the paper's γ,
        with `learn_phantoms`.
    penalize : {"w", "v"}, default="w"
        Whether the penalty is on the classifiers of the seen classes or on the base classifiers.
    margin : {"scaled", "unit"}, default="scaled"
        With "struct": signatures whose distances are the margins, in units of their median distance
        ("scaled", as in the authors' program) or of unit length ("unit", as in the paper). With one
        view and the scale m, "unit" at `alpha` gives m times the classifiers of "scaled" at
        m · `alpha`.
    ridge : float, default=0.0
        With `penalize="w"` and fixed phantoms: V minimises ‖S V − W‖² + ridge · ‖V‖². 0 is the
        paper's V = S⁺ W, which becomes huge, and noise for unseen classes, if signatures lie close
        together, such as those of a hierarchy; 1e-10 to 1e-4 prevents this.
    metric : {"diag"}, array-like of shape (n_attributes, n_attributes) or None, default=None
        Σ⁻¹ in the distance of two signatures: the identity (None); inverse variances of the
        attributes over the seen classes, scaled to preserve the mean squared distance ("diag"); or,
        for a single view, a positive semi-definite matrix.
    tol : float, default=1e-4
        Duality gap at which training stops, relative to the objective and to its decrease from
        W = 0.
    max_iter : int, default=4000
        Largest number of Newton steps ("ovo") or passes over the samples ("cs", "struct") per
        solve, and of steps that learn phantoms.
    random_state : int, RandomState instance or None, default=0
        Seed of random phantoms, of k-means and of the order of samples in the solver.

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
        Upper bound of the distance from `objective_` to its minimum over the base classifiers.
    n_iter_ : int
        Newton steps or passes over the samples in all solves.
    history_ : list of float
        The objective after each step that learns phantoms, never increasing; else `objective_`
        alone.
    combinations_ : tuple of ndarray of shape (n_phantoms, n_seen) or None
        Coefficients β of the phantoms in the signatures of the seen classes, one table per view;
        None if the phantoms were given.

    See Also
    --------
    zslearn.solvers.multiclass_svm : Trains W.

    Notes
    -----
    Losses are means, over samples and for "ovo" also over classes, as in the authors' program; the
    paper writes sums. There is no intercept.

    With `learn_phantoms` the problem is not convex: a sample weight of 2 and a repeated sample give
    the same objective, but may lead to different local minima, above all with "cs" and "struct",
    whose solver visits samples in random order.

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

    loss: str = "ovo"
    alpha: float = 2.0**-12
    gamma: float = 1.0
    _: KW_ONLY
    n_phantoms: int | float | None = None
    phantom_init: Any = "auto"
    learn_phantoms: bool = False
    eta: float = 1e-4
    norm_penalty: float = 1e-2
    penalize: str = "w"
    margin: str = "scaled"
    ridge: float = 0.0
    metric: Any = None
    tol: float = 1e-4
    max_iter: int = 4000
    random_state: int | np.random.RandomState | None = 0

    embedding_attributes = ()
    synthesizes_independently = True
    keep_views: ClassVar[bool] = True
    path_parameters: ClassVar[tuple[str, ...]] = ("alpha", "gamma", "ridge", "eta", "norm_penalty")
    #: "phantoms" is for the second step of the paper's tuning, with `learn_phantoms`.
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
        "eta": [Interval(Real, 0, None, closed="left")],
        "norm_penalty": [Interval(Real, 0, None, closed="left")],
        "penalize": [StrOptions({"w", "v"})],
        "margin": [StrOptions({"scaled", "unit"})],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "metric": [StrOptions({"diag"}), "array-like", None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.ridge and (self.penalize == "v" or self.learn_phantoms):
            raise ValueError('ridge needs penalize="w" and learn_phantoms=False; set it to 0.')
        if self.learn_phantoms and is_given(self.phantom_init):
            raise ValueError(
                "learn_phantoms=True cannot start from given phantoms: it learns combinations of "
                'the seen classes. Set phantom_init to "auto" or another strategy.'
            )
        if 0 < self.ridge < _LEAST_RIDGE:
            raise ValueError(f"ridge must be 0 or at least {_LEAST_RIDGE}; got {self.ridge:.3g}.")

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Start each training from the solution for the next larger alpha."""
        if len(variants) == 1:  # in a grid, other settings score higher
            _refuse_scale(training, variants[0])
        for group in group_by_params_except(variants, *cls.path_parameters):
            problem = SynCProblem(training, group[0])
            cached = problem.cached_path({variant.alpha for variant in group})
            latest: dict[float | None, SVMResult] = {}
            for variant in sorted(group, key=lambda variant: -variant.alpha):
                # If W is trained directly, one solution serves every gamma. Solutions for other
                # phantoms cannot serve as a start for learned ones.
                path = None if problem.direct else variant.gamma
                start = None if variant.learn_phantoms else latest.get(path)
                learned = problem.learn(variant, cached.get(variant.alpha, start))
                latest[path] = learned.solution
                variant._set_learned(learned, problem)
                yield variant

    def _set_learned(self, learned: Learned, problem: SynCProblem) -> None:
        """Set the fitted attributes."""
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
        """Synthesise the classifier of each class, Σ_r s_cr v_r (Eq. 5)."""
        similarities = self.similarities(signatures)
        return move_like(similarities, self.base_classifiers_) @ self.base_classifiers_

    def similarities(self, signatures: Signatures) -> Floats:
        """Weights of the bipartite graph between classes and phantoms (Eq. 2).

        Returns
        -------
        ndarray of shape (n_classes, n_phantoms)
            Each row sums to one.
        """
        return similarities_to(self.phantoms_, signatures, self._factors, self.gamma)

    def seen_shares(self, signatures: Signatures) -> Floats | None:
        """Similarities to phantoms times the coefficients of these; None for given phantoms."""
        if self.combinations_ is None:
            return None
        mixture = np.mean([np.abs(to_numpy(part)) for part in self.combinations_], axis=0)
        shares: Floats = self.similarities(signatures) @ mixture
        return shares
