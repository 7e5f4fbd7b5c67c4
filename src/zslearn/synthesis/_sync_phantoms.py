r"""Learning phantoms together with their base classifiers (eSynCSemObj).

Both ways lower the same objective F(V, β) and never raise it.

- "exact": proximal gradient steps on :math:`\varphi(\beta) = \min_V F(V, \beta)`. The base
  classifiers of each trial step are solved for, and the step is judged by the objective with these.
  By the envelope theorem the gradient of φ is that of F at the best V, for Crammer–Singer with the
  slope of the dual solution. With a penalty on w, stationarity in V reads :math:`S^\top G = 0` for
  the gradient G with respect to W: what of G lies in the range of S is an error of the solver, and
  is taken out. Where S can make every W, nothing is left: the data do not move β.
- "truncated": steps on β with V fixed, and V trained in turn, at first to a loose tolerance. While
  V is unfinished the data move β also where at an exact V they cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from zslearn.signatures import view_arrays
from zslearn.solvers import SVMResult
from zslearn.synthesis._phantom_descent import Descent, Point, descend
from zslearn.synthesis._phantom_objective import PhantomObjective, metric_factors
from zslearn.synthesis._phantoms import Views, combine, signature_norms
from zslearn.synthesis._sync_training import Learned, SynCProblem, Synthesis
from zslearn.utils import Array, Floats, to_numpy, warn_user

# Learning takes at most this many steps ("exact") or rounds ("truncated"), and ends when one lowers
# the objective by less than this share of it.
_STEPS = 60
_FALL = 1e-4
# Truncated rounds in a row that lower it by less, after which learning ends.
_SMALL_ROUNDS = 3
# Steps on β between two solves for V, when truncated.
_INNER_STEPS = 10
# The first tolerance of truncated solves, and its factor from round to round.
_LOOSE = 0.3
_TIGHTEN = 0.5
# Smoothing of Crammer–Singer's hinge in the first round, as a share of the mean margin, and its
# factor from round to round.
_SMOOTHING = 0.1
_SHARPEN = 0.7
# The condition number of S may grow up to here; beyond it phantoms cannot be told apart.
_CONDITION = 1e7
# Below this share of the signatures' norm the phantoms have shrunk away.
_SHRUNK = 0.2


@dataclass(frozen=True)
class _Trained:
    """Base classifiers of some phantoms."""

    solution: SVMResult
    classifiers: Array


def learn_phantoms(problem: SynCProblem, alpha: float, gamma: float) -> Learned:
    """Learn phantoms and base classifiers; see the module.

    Parameters
    ----------
    problem : SynCProblem
        Samples, signatures and hyper-parameters.
    alpha : float
        Weight of the penalty.
    gamma : float
        1/σ² of the similarities.

    Returns
    -------
    Learned
        The base classifiers are exact for the phantoms, whatever the way.
    """
    learner = _Learner(problem, alpha, gamma)
    descent = learner.exact() if problem.phantom_training == "exact" else learner.truncated()
    learner.warn(descent)
    point = descent.point
    return Learned(
        point.extra.solution,
        point.extra.classifiers,
        combine(point.betas, problem.signatures),
        point.betas,
        point.value,
        descent.values,
        learner.n_iter,
    )


class _Learner:
    def __init__(self, problem: SynCProblem, alpha: float, gamma: float) -> None:
        assert problem.start is not None
        self.problem, self.alpha = problem, alpha
        self.start: Views = problem.start
        self.n_iter = 0
        self.objective = PhantomObjective(
            problem.signatures,
            problem.factors or metric_factors(None, problem.signatures),
            gamma,
            problem.eta,
            problem.norm_penalty,
        )
        first = self._synthesis(self.start)
        #: Whether every W can be made, and costs the same however it is made.
        self.free = first.mixing is None
        self.condition = max(_CONDITION, 10 * first.condition)
        # With a penalty on w the objective jumps up where S loses rank; with one on v phantoms may
        # fall together, but not all of them.
        self.least_rank = (
            len(first.values) if problem.penalize == "w" else min(2, len(first.values))
        )

    def exact(self) -> Descent[_Trained]:
        """Steps on β, each with its base classifiers solved for."""
        start = self._solved(self.start, None)

        def evaluate(betas: Views, before: _Trained) -> Point[_Trained] | None:
            return None if self._degenerate(betas) else self._solved(betas, before)

        descent = descend(start, evaluate, eta=self.problem.eta, steps=_STEPS, fall=_FALL)
        return replace(descent, values=(start.value, *descent.values))

    def truncated(self) -> Descent[_Trained]:
        """Steps on β and on V in turn, V at first to a loose tolerance."""
        problem, loose = self.problem, max(_LOOSE, self.problem.tol)
        margins = problem.margins
        smoothing = _SMOOTHING * (1.0 if margins is None else float(margins.mean()))
        betas, refused, n_small = self.start, False, 0
        trained = self._train(betas, None, loose)
        values = [trained.solution.objective + self.objective.penalties(betas)]
        for _ in range(_STEPS):
            before = values[-1]
            evaluate = self._with_classifiers(trained, smoothing)
            first = evaluate(betas, trained)
            if first is None:
                break
            first = replace(first, value=values[-1])
            inner = descend(first, evaluate, eta=problem.eta, steps=_INNER_STEPS, fall=_FALL)
            betas, refused = inner.point.betas, inner.refused
            values += inner.values
            again = self._train(betas, trained, loose)
            value = again.solution.objective + self.objective.penalties(betas)
            if value < values[-1]:
                trained = again
                values.append(value)
            smoothing *= _SHARPEN
            is_small = before - values[-1] <= _FALL * abs(values[-1])
            n_small = n_small + 1 if loose <= problem.tol and is_small else 0
            if n_small == _SMALL_ROUNDS:
                break
            loose = max(loose * _TIGHTEN, problem.tol)
        point = self._solved(betas, trained)
        if point.value > values[-1]:
            point = self._kept(point, trained.classifiers, values[-1])
        return Descent(point, (*values, point.value), refused)

    def _synthesis(self, betas: Views) -> Synthesis:
        return Synthesis(self.objective.similarities(betas)[0], self.problem.penalize)

    def _degenerate(self, betas: Views) -> bool:
        """Whether phantoms have become too alike to make the classifiers that they could make."""
        return self._synthesis(betas).rank(self.condition) < self.least_rank

    def _train(self, betas: Views, before: _Trained | None, tol: float) -> _Trained:
        """Base classifiers within a tolerance, beginning with those of other phantoms."""
        synthesis, rows = self._synthesis(betas), self.problem.rows
        start, base = None, None
        if before is not None:
            start = before.solution
            base = rows.asarray(synthesis.forward) @ before.classifiers
        solution = self.problem.solve(self.alpha, synthesis, start, base=base, tol=tol)
        self.n_iter += solution.n_iter
        return _Trained(solution, rows.asarray(synthesis.back) @ solution.base)

    def _solved(self, betas: Views, before: _Trained | None) -> Point[_Trained]:
        """The point with the best base classifiers, and the gradient of φ there."""
        problem, rows = self.problem, self.problem.rows
        synthesis = self._synthesis(betas)
        start, base = None, None
        if before is not None:
            start = before.solution
            # Where the penalty is on w the old W is near the new one, also where V is not.
            base = (
                rows.asarray(synthesis.forward) @ before.classifiers
                if problem.penalize == "v"
                else start.coef
                if synthesis.mixing is None
                else rows.asarray(synthesis.mixing.T) @ start.coef
            )
        solution = problem.solve(self.alpha, synthesis, start, base=base)
        self.n_iter += solution.n_iter
        trained = _Trained(solution, rows.asarray(synthesis.back) @ solution.base)
        slope = self._slope(synthesis, trained)
        return Point(
            betas,
            solution.objective + self.objective.penalties(betas),
            self.objective.gradients(betas, slope),
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
        slope = problem.score_loss(scores, dual=trained.solution.dual)[1].T @ responses
        if problem.penalize == "v":
            return slope
        slope += self.alpha * W @ V.T
        return slope - synthesis.range @ (synthesis.range.T @ slope)

    def _with_classifiers(
        self, trained: _Trained, smoothing: float
    ) -> Callable[[Views, _Trained], Point[_Trained] | None]:
        """The objective as a function of β, the base classifiers fixed.

        The scores X (S V)ᵀ are (X Vᵀ) Sᵀ, so that the features are needed once only.
        """
        problem, rows = self.problem, self.problem.rows
        responses = to_numpy(rows.scores(rows.rotated(trained.classifiers)))
        V = to_numpy(trained.classifiers)
        gram = V @ V.T

        def evaluate(betas: Views, extra: _Trained) -> Point[_Trained] | None:
            if self._degenerate(betas):
                return None
            similarities = self.objective.similarities(betas)[0]
            value, slope = problem.score_loss(responses @ similarities.T, smoothing=smoothing)
            slope = slope.T @ responses
            if problem.penalize == "v":
                value += 0.5 * self.alpha * float(np.trace(gram))
            else:
                mixed = similarities @ gram
                value += 0.5 * self.alpha * float(np.sum(mixed * similarities))
                slope += self.alpha * mixed
            return Point(
                betas,
                value + self.objective.penalties(betas),
                self.objective.gradients(betas, slope),
                extra,
            )

        return evaluate

    def _kept(self, point: Point[_Trained], classifiers: Array, value: float) -> Point[_Trained]:
        """Base classifiers that are better than solved ones by a part of the gap: they stay."""
        solution = point.extra.solution
        similarities = self.objective.similarities(point.betas)[0]
        kept = replace(
            solution,
            coef=self.problem.rows.asarray(similarities) @ classifiers,
            objective=solution.objective - (point.value - value),
            dual_gap=solution.dual_gap - (point.value - value),
        )
        return replace(point, value=value, extra=_Trained(kept, classifiers))

    def warn(self, descent: Descent[_Trained]) -> None:
        """Say where learning could not do what was asked for."""
        problem = self.problem
        if self.free and problem.phantom_training == "exact":
            warn_user(
                "learn_phantoms=True: with these phantoms every W can be made, so that with "
                'penalize="w" and phantom_training="exact" the data do not move them, eta and '
                'norm_penalty alone do. Use fewer phantoms (n_phantoms=0.6), penalize="v" or '
                'phantom_training="truncated".'
            )
        phantoms = view_arrays(combine(descent.point.betas, problem.signatures))
        norms = signature_norms(problem.signatures)
        shrunk = all(
            np.linalg.norm(rows, axis=1).max() < _SHRUNK * norm
            for rows, norm in zip(phantoms, norms, strict=True)
        )
        if shrunk or descent.refused:
            warn_user(
                f"The phantoms {'have shrunk' if shrunk else 'are falling'} together: "
                f"eta={problem.eta:.3g} outweighs norm_penalty={problem.norm_penalty:.3g} and what "
                "the data say. Learning ended before they became one. Lower eta or raise "
                "norm_penalty.",
                ConvergenceWarning,
            )
