r"""How SynC learns: base classifiers of given phantoms, and phantoms and classifiers in turn.

The base classifiers V minimise :math:`\ell(X, y; S V)` with a penalty on W = S V or on V
(eSynCObj). Where the phantoms are learned, too, both are minimised over in turn (eSynCSemObj).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from zslearn.base import Training
from zslearn.signatures import (
    Signatures,
    normalized_similarity,
    side_by_side,
    view_arrays,
    with_arrays,
)
from zslearn.solvers import (
    SVMLoss,
    SVMResult,
    TrainingRows,
    loss_and_slope,
    train_multiclass_svm,
)
from zslearn.synthesis._phantoms import (
    PhantomObjective,
    Views,
    combine,
    initial_combinations,
    metric_factor,
)
from zslearn.utils import Array, Floats, to_numpy

LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}
# Learning phantoms alternates at most this often, and ends when the objective falls by less.
_ALTERNATIONS = 50
_FALL = 1e-4


def similarities_to(
    phantoms: Signatures, signatures: Signatures, factors: Views, gamma: float
) -> Floats:
    """Weights of the bipartite graph between classes and phantoms (eSynCSimForm).

    Parameters
    ----------
    phantoms : ndarray of shape (n_phantoms, n_attributes) or SignatureViews
        Signatures b.
    signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
        Signatures a.
    factors : tuple of ndarray
        One factor L of the metric per view, Σ⁻¹ = L Lᵀ; none for the identity.
    gamma : float
        1/σ².

    Returns
    -------
    ndarray of shape (n_classes, n_phantoms)
        Each row sums to one.
    """

    def stretched(rows: Signatures) -> Signatures:
        """Signatures in coordinates where the metric is the identity."""
        if not factors:
            return rows
        pairs = zip(view_arrays(rows), factors, strict=True)
        return with_arrays(tuple(array @ factor for array, factor in pairs), rows)

    return normalized_similarity(stretched(signatures), stretched(phantoms), gamma=gamma)


@dataclass(frozen=True)
class Learned:
    """What was learned under one setting.

    Parameters
    ----------
    solution : SVMResult
        The trained W.
    base_classifiers : array of shape (n_phantoms, n_features)
        V.
    combinations : tuple of ndarray of shape (n_phantoms, n_seen)
        Coefficients β of the phantoms, one table per view.
    objective : float
        Value of the objective.
    history : tuple of float
        The objective after each step of the alternation.
    n_iter : int
        Steps of all solves together.
    """

    solution: SVMResult
    base_classifiers: Array
    combinations: Views
    objective: float
    history: tuple[float, ...]
    n_iter: int


class SynCProblem:
    """What training starts from, whatever alpha and gamma are.

    Parameters
    ----------
    training : Training
        Samples and signatures of the seen classes.
    model : SynC
        Its hyper-parameters other than alpha and gamma are read.
    """

    def __init__(self, training: Training, model: Any) -> None:
        self.rng = check_random_state(model.random_state)
        self.rows = TrainingRows(training.X, training.y, training.n_seen)
        self.signatures: Signatures = training.signatures
        self.start = initial_combinations(
            self.signatures, model.n_phantoms or training.n_seen, model.phantom_init, self.rng
        )
        self.factors = () if model.metric is None else metric_factors(model.metric, self.signatures)
        self.loss = LOSSES[model.loss]
        self.margins = _margins(self.signatures) if model.loss == "struct" else None
        self.penalize = model.penalize
        self.options = {"tol": model.tol, "max_iter": model.max_iter}
        self.learn_phantoms = model.learn_phantoms
        self.eta, self.norm_penalty = model.eta, model.norm_penalty
        #: Whether W is trained directly, whatever gamma is: the phantoms are the seen classes and
        #: the penalty is on w.
        self.direct = (
            model.penalize == "w"
            and not model.learn_phantoms
            and model.n_phantoms in (None, training.n_seen)
            and model.phantom_init != "random"
        )

    def learn(self, alpha: float, gamma: float, start: SVMResult | None) -> Learned:
        """Learn the base classifiers, and the phantoms where they are to be learned.

        Parameters
        ----------
        alpha : float
            Weight of the penalty.
        gamma : float
            1/σ² of the similarities.
        start : SVMResult or None
            A solution of another setting to begin with.

        Returns
        -------
        Learned
            The solution and its value.
        """
        similarities = self.similarities(self.start, gamma)
        solution, classifiers = self._solve(alpha, similarities, start)
        learned = Learned(
            solution,
            classifiers,
            self.start,
            solution.objective,
            (solution.objective,),
            solution.n_iter,
        )
        return self._alternate(alpha, gamma, learned) if self.learn_phantoms else learned

    def similarities(self, combinations: Views, gamma: float) -> Floats:
        """S between the seen classes and phantoms."""
        phantoms = combine(combinations, self.signatures)
        return similarities_to(phantoms, self.signatures, self.factors, gamma)

    def _solve(
        self,
        alpha: float,
        similarities: Floats,
        start: SVMResult | None,
        classifiers: Array = None,
    ) -> tuple[SVMResult, Array]:
        """W and V for given similarities, starting from a solution, or its W for `classifiers`."""
        synthesis = Synthesis(similarities, self.penalize, self.direct)
        if start is not None and classifiers is not None:
            start = replace(start, base=self.rows.asarray(synthesis.forward) @ classifiers)
        if self.direct and start is not None and start.alpha == alpha:
            solution = start  # of another gamma
        else:
            solution = train_multiclass_svm(
                self.rows,
                alpha=alpha,
                loss=self.loss,
                margins=self.margins,
                mixing=synthesis.mixing,
                warm_start=start,
                random_state=self.rng,
                **self.options,
            )
        return solution, self.rows.asarray(synthesis.back) @ solution.base

    def _alternate(self, alpha: float, gamma: float, learned: Learned) -> Learned:
        """Minimise over the phantoms and the base classifiers in turn (eSynCSemObj)."""
        solution, classifiers = learned.solution, learned.base_classifiers
        combinations, n_iter = learned.combinations, learned.n_iter
        objective = PhantomObjective(
            self.signatures,
            self.factors or metric_factors(None, self.signatures),
            gamma,
            self.eta,
            self.norm_penalty,
            self._loss_of_similarities(alpha, classifiers),
        )
        value = solution.objective + objective.penalties(combinations)
        history = [value]
        for _ in range(_ALTERNATIONS):
            before = value
            betas, value = objective.descend(combinations)
            if not value < before:
                value = before
                break
            history.append(value)
            combinations = betas
            similarities = self.similarities(combinations, gamma)
            trial, trial_classifiers = self._solve(alpha, similarities, solution, classifiers)
            n_iter += trial.n_iter
            rest = objective.penalties(combinations)
            if trial.objective + rest < value:
                solution, classifiers = trial, trial_classifiers
                value = trial.objective + rest
            else:
                # What was there is better by a part of the gap: it stays, under the new bound.
                solution = replace(
                    trial,
                    coef=self.rows.asarray(similarities) @ classifiers,
                    objective=value - rest,
                    dual_gap=trial.dual_gap - (trial.objective + rest - value),
                )
            history.append(value)
            if before - value <= _FALL * abs(value):
                break
            objective = replace(objective, loss=self._loss_of_similarities(alpha, classifiers))
        return Learned(solution, classifiers, combinations, value, tuple(history), n_iter)

    def _loss_of_similarities(
        self, alpha: float, classifiers: Array
    ) -> Callable[[Floats], tuple[float, Floats]]:
        """Loss and penalty as a function of S, the base classifiers fixed, with its gradient.

        The scores X (S V)ᵀ are (X Vᵀ) Sᵀ, so that the features are needed once only.
        """
        rows = self.rows
        responses = to_numpy(rows.scores(rows.rotated(classifiers)))
        V = to_numpy(classifiers)
        gram = V @ V.T

        def evaluate(similarities: Floats) -> tuple[float, Floats]:
            value, slope = loss_and_slope(
                responses @ similarities.T, rows.y, self.loss, self.margins
            )
            slope = slope.T @ responses
            if self.penalize == "v":
                return value + 0.5 * alpha * float(np.trace(gram)), slope
            mixed = similarities @ gram
            value += 0.5 * alpha * float(np.sum(mixed * similarities))
            return value, slope + alpha * mixed

        return evaluate


def metric_factors(metric: Any, signatures: Signatures) -> Views:
    """One factor of the metric per view.

    Parameters
    ----------
    metric : {"diag"}, array-like or None
        Σ⁻¹; see :class:`SynC`.
    signatures : ndarray or SignatureViews
        Normalised signatures of the seen classes.

    Returns
    -------
    tuple of ndarray
        L with Σ⁻¹ = L Lᵀ.
    """
    arrays = view_arrays(signatures)
    if len(arrays) > 1 and not (metric is None or isinstance(metric, str)):
        raise ValueError(
            "metric as a matrix is for signatures of one view; these have "
            f'{len(arrays)}. Use metric="diag" or None.'
        )
    return tuple(metric_factor(metric, array) for array in arrays)


def _margins(signatures: Signatures) -> Floats:
    """Δ(c, y) = ‖a_c − a_y‖."""
    vectors = side_by_side(signatures)
    return cdist(vectors, vectors)


class Synthesis:
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
