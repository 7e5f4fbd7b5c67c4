r"""How SynC learns: base classifiers of given phantoms, and phantoms together with them.

The base classifiers V minimise :math:`\ell(X, y; S V)` with a penalty on W = S V or on V
(eSynCObj). Where the phantoms are learned, too, the objective is minimised over both
(eSynCSemObj); see :mod:`zslearn.synthesis._sync_phantoms`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from zslearn._version import __version__
from zslearn.base import Training
from zslearn.signatures import Signatures, side_by_side
from zslearn.solvers import (
    SVMLoss,
    SVMResult,
    TrainingRows,
    pseudo_inverse,
    train_multiclass_svm,
)
from zslearn.synthesis._phantom_descent import ScoreLoss
from zslearn.synthesis._phantom_objective import metric_factors, similarities_to
from zslearn.synthesis._phantoms import (
    Views,
    combinations_of,
    combine,
    given_phantoms,
    initial_combinations,
    is_given,
    phantom_count,
)
from zslearn.utils import Array, Floats, keeps_fits, kept_fit

LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}

#: Smaller ridges are lost in the rounding of SᵀS, whose largest eigenvalue is about one.
LEAST_RIDGE = 1e-12
# What inverses of similarities may take that are kept from one alpha to the next.
_KEPT_BYTES = 2**27


@dataclass(frozen=True)
class Learned:
    """What was learned under one setting.

    Parameters
    ----------
    solution : SVMResult
        The trained W.
    base_classifiers : array of shape (n_phantoms, n_features)
        V.
    phantoms : ndarray of shape (n_phantoms, n_attributes) or SignatureViews
        Normalised signatures of the phantoms.
    combinations : tuple of ndarray of shape (n_phantoms, n_seen) or None
        Coefficients β of the phantoms, one table per view; None where they were given.
    objective : float
        Value of the objective.
    history : tuple of float
        The objective after each step of learning phantoms.
    n_iter : int
        Steps of all solves together.
    """

    solution: SVMResult
    base_classifiers: Array
    phantoms: Signatures
    combinations: Views | None
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
        Its hyper-parameters other than alpha and gamma are read; `ridge`, `eta` and
        `norm_penalty`, which nothing here depends on, may be set anew.
    """

    def __init__(self, training: Training, model: Any) -> None:
        self.rng = check_random_state(model.random_state)
        self.rows = TrainingRows(
            training.X_or_rows, training.y, training.n_seen, sample_weight=training.weights
        )
        self.training = training
        self.signatures: Signatures = training.signatures
        self.phantoms, self.start = self._first_phantoms(training, model)
        self.chance = self.rng.get_state(legacy=False)
        self.factors = () if model.metric is None else metric_factors(model.metric, self.signatures)
        self.loss = LOSSES[model.loss]
        self.margins = _margins(self.signatures) if model.loss == "struct" else None
        self.weights: Floats | None = training.weights
        self.penalize = model.penalize
        self.tol, self.max_iter = model.tol, model.max_iter
        self.learn_phantoms, self.phantom_training = model.learn_phantoms, model.phantom_training
        self.ridge, self.eta, self.norm_penalty = model.ridge, model.eta, model.norm_penalty
        self._kept: dict[tuple[float, float], Synthesis] = {}
        #: Whether W is trained directly, whatever gamma is: the phantoms are the seen classes and
        #: the penalty is on w.
        self.direct = (
            model.penalize == "w"
            and not model.learn_phantoms
            and not is_given(model.phantom_init)
            and phantom_count(model.n_phantoms, training.n_seen) == training.n_seen
            and model.phantom_init != "random"
        )

    def _first_phantoms(self, training: Training, model: Any) -> tuple[Signatures, Views | None]:
        """The phantoms that training starts with, and their coefficients."""
        init = model.phantom_init
        if not is_given(init):
            count = phantom_count(model.n_phantoms, training.n_seen)
            start = initial_combinations(self.signatures, count, init, self.rng)
            return combine(start, self.signatures), start
        phantoms = given_phantoms(init, model.n_phantoms, training.table, training.signature_scale)
        if not model.learn_phantoms:
            return phantoms, None
        return phantoms, combinations_of(phantoms, self.signatures)

    @property
    def score_loss(self) -> ScoreLoss:
        """The loss as a function of the scores."""
        return ScoreLoss(self.rows.y, self.loss, self.margins, self.weights)

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
        if self.learn_phantoms:
            from zslearn.synthesis._sync_phantoms import learn_phantoms

            # Where phantoms end depends on the order of samples, too: each setting has the same.
            self.rng = np.random.RandomState()
            self.rng.set_state(self.chance)
            return learn_phantoms(self, alpha, gamma)
        synthesis = self._synthesis(gamma)
        if self.direct and start is not None and start.alpha == alpha:
            solution = start  # of another gamma
        else:
            solution = self.solve(alpha, synthesis, start)
        return Learned(
            solution,
            self.rows.asarray(synthesis.back) @ solution.base,
            self.phantoms,
            self.start,
            solution.objective,
            (solution.objective,),
            solution.n_iter,
        )

    def kept_path(self, alphas: Collection[float]) -> dict[float, SVMResult]:
        """Solutions that other searches need, too: those that no signature plays a part in.

        Parameters
        ----------
        alphas : collection of float
            Weights of the penalty.

        Returns
        -------
        dict of float to SVMResult
            By alpha; nothing where signatures matter, or outside of
            :func:`~zslearn.utils.keeping_fits`.
        """
        rows = self.training.X_or_rows
        if not (self.direct and self.margins is None and keeps_fits(rows)):
            return {}
        falling = sorted(alphas, reverse=True)
        parts = (
            "multiclass_svm", __version__, rows, self.training.y, self.weights, falling,
            self.loss, self.tol, self.max_iter, self.chance,
        )  # fmt: skip
        arrays = kept_fit(parts, lambda: _as_arrays(self._path(falling)))
        found = _from_arrays(arrays)
        for result in found:
            result.warn_of_gap(self.tol, self.max_iter)
        return {result.alpha: result for result in found}

    def _path(self, alphas: Sequence[float]) -> Iterator[SVMResult]:
        """Train W freely for each alpha, each from the solution before."""
        last: SVMResult | None = None
        for alpha in alphas:
            with warnings.catch_warnings():
                # Said of what is read, too.
                warnings.simplefilter("ignore", ConvergenceWarning)
                last = train_multiclass_svm(
                    self.rows,
                    alpha=alpha,
                    loss=self.loss,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    warm_start=last,
                    random_state=self.rng,
                )
            yield last

    def _synthesis(self, gamma: float) -> Synthesis:
        """How fixed phantoms make W; kept for the next alpha while there is room."""
        found = self._kept.get((gamma, self.ridge))
        if found is None:
            similarities = similarities_to(self.phantoms, self.signatures, self.factors, gamma)
            found = Synthesis(similarities, self.penalize, self.direct, self.ridge)
            if (len(self._kept) + 1) * 2 * similarities.nbytes <= _KEPT_BYTES:
                self._kept[gamma, self.ridge] = found
        return found

    def solve(
        self,
        alpha: float,
        synthesis: Synthesis,
        start: SVMResult | None,
        *,
        base: Array = None,
        tol: float | None = None,
    ) -> SVMResult:
        """Train W, from a solution of another problem or from other coefficients U.

        Parameters
        ----------
        alpha : float
            Weight of the penalty.
        synthesis : Synthesis
            How W is made.
        start : SVMResult or None
            A solution to begin with.
        base : array, optional
            U to begin with instead of that of `start`.
        tol : float, optional
            Gap to reach; by default that of the model.

        Returns
        -------
        SVMResult
            The solution.
        """
        if start is not None and base is not None:
            start = replace(start, base=base)
        return train_multiclass_svm(
            self.rows,
            alpha=alpha,
            loss=self.loss,
            margins=self.margins,
            mixing=synthesis.mixing,
            tol=self.tol if tol is None else tol,
            max_iter=self.max_iter,
            warm_start=start,
            random_state=self.rng,
        )


# What is kept of a solution; the dual points serve the next one only.
_KEPT = ("coef", "alpha", "objective", "dual_gap", "n_iter", "converged", "gain")


def _as_arrays(results: Iterable[SVMResult]) -> dict[str, NDArray[Any]]:
    """Solutions as arrays, one of each field."""
    rows = [[np.asarray(getattr(result, name)) for name in _KEPT] for result in results]
    return {
        name: np.stack(column) for name, column in zip(_KEPT, zip(*rows, strict=True), strict=True)
    }


def _from_arrays(arrays: dict[str, NDArray[Any]]) -> list[SVMResult]:
    """The solutions again, of which W is what was penalised."""
    found = []
    for coef, *numbers in zip(*(arrays[name] for name in _KEPT), strict=True):
        values = {name: number.item() for name, number in zip(_KEPT[1:], numbers, strict=True)}
        found.append(SVMResult(coef=coef, base=coef, **values))
    return found


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

    Then V = `back` U and U = `forward` V. With a ridge, V is what minimises
    ‖S V − W‖² + ridge · ‖V‖² instead.

    Parameters
    ----------
    similarities : ndarray of shape (n_seen, n_phantoms)
        S.
    penalize : {"w", "v"}
        What the penalty is on.
    free : bool
        Whether W is trained freely even where S cannot make it.
    ridge : float, default=0.0
        Weight of ‖V‖² where V is made of W.
    """

    def __init__(
        self, similarities: Floats, penalize: str, free: bool = False, ridge: float = 0.0
    ) -> None:
        self.mixing: Floats | None
        if free and penalize == "w":
            # Only V = S⁺ W is wanted, which costs less than singular vectors.
            self.mixing, self.forward = None, similarities
            self.back = pseudo_inverse(similarities, ridge=ridge)
            return
        left, values, right = np.linalg.svd(similarities, full_matrices=False)
        rank = int(np.sum(values > values[0] * max(similarities.shape) * np.finfo(float).eps))
        left, values, right = left[:, :rank], values[:rank], right[:rank]
        #: Orthonormal basis P of the W that S can make.
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
        """The largest singular value of S by its smallest within the rank."""
        return float(self.values[0] / self.values[-1])

    def rank(self, condition: float) -> int:
        """Number of singular values within a factor of the largest."""
        return int(np.sum(self.values * condition >= self.values[0]))
