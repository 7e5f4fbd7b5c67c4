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

# A step ("exact") or round ("truncated") that lowers the objective by less than this share of its
# whole fall so far is small.
_FALL = 3e-4
# Truncated rounds in a row that are small, after which learning ends.
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
# With a penalty on v: in half of the directions in which the classifiers of the seen classes differ
# at the start (by at least the first share of their largest difference) they go on to differ by at
# least the second share of what they did.
_DIRECTION = 0.01
_LEAST_SPREAD = 0.05
# Below this share of the signatures' norm the phantoms have shrunk away.
_SHRUNK = 0.2


@dataclass(frozen=True)
class _Trained:
    """Base classifiers of some phantoms."""

    solution: SVMResult
    classifiers: Array


@dataclass(frozen=True)
class _Round:
    """Where a truncated round ended, and the number of values until then."""

    betas: Views
    trained: _Trained
    n_values: int


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
        self.first_rank = len(first.values)
        #: What `_spread` must reach; set by `_demand_spread`.
        self.n_directions, self.least_spread = 0, 0.0

    def exact(self) -> Descent[_Trained]:
        """Steps on β, each with its base classifiers solved for."""
        problem, start = self.problem, self._solved(self.start, None)
        self._demand_spread(start.extra)

        def evaluate(betas: Views, before: _Trained) -> Point[_Trained] | None:
            if self._singular(betas):
                return None
            point = self._solved(betas, before)
            return None if self._alike(betas, point.extra) else point

        descent = descend(start, evaluate, eta=problem.eta, steps=problem.max_iter, fall=_FALL)
        return replace(descent, values=(start.value, *descent.values))

    def truncated(self) -> Descent[_Trained]:
        """Steps on β and on V in turn, V at first to a loose tolerance."""
        problem, margins = self.problem, self.problem.margins
        # With a penalty on v a loose V does not tell whether classes become one.
        loose = problem.tol if problem.penalize == "v" else max(_LOOSE, problem.tol)
        smoothing = _SMOOTHING * (1.0 if margins is None else float(margins.mean()))
        betas, steps = self.start, _INNER_STEPS
        refused, converged, n_small = False, False, 0
        trained = self._train(betas, None, loose)
        self._demand_spread(trained)
        values = [trained.solution.objective + self.objective.penalties(betas)]
        rounds = [_Round(betas, trained, len(values))]
        for _ in range(problem.max_iter):
            before = values[-1]
            evaluate = self._with_classifiers(trained, smoothing)
            first = evaluate(betas, trained)
            assert first is not None
            inner = descend(
                replace(first, value=before),
                evaluate,
                eta=problem.eta,
                steps=steps,
                fall=_FALL,
                highest=values[0],
            )
            again = self._train(inner.point.betas, trained, loose)
            refused = inner.refused
            if self._alike(inner.point.betas, again):
                # The round is undone and goes less far.
                steps, refused = steps // 2, True
                if steps:
                    continue
                converged = True
                break
            betas = inner.point.betas
            values += inner.values
            value = again.solution.objective + self.objective.penalties(betas)
            if value < values[-1]:
                trained = again
                values.append(value)
            rounds.append(_Round(betas, trained, len(values)))
            smoothing *= _SHARPEN
            is_small = before - values[-1] <= _FALL * (values[0] - values[-1])
            n_small = n_small + 1 if loose <= problem.tol and is_small else 0
            if n_small == _SMALL_ROUNDS:
                converged = True
                break
            loose = max(loose * _TIGHTEN, problem.tol)
        point, values, n_undone = self._finished(rounds, values)
        return Descent(point, (*values, point.value), refused or n_undone > 0, converged)

    def _finished(
        self, rounds: list[_Round], values: list[float]
    ) -> tuple[Point[_Trained], list[float], int]:
        """The last round with its base classifiers solved for, unless these make classes alike.

        Then the round before, and so on; how many were undone is said, too.
        """
        for n_undone, last in enumerate(reversed(rounds)):
            point = self._solved(last.betas, last.trained)
            if n_undone == len(rounds) - 1 or not self._alike(last.betas, point.extra):
                break
        values = values[: last.n_values]
        if point.value > values[-1]:
            point = self._kept(point, last.trained.classifiers, values[-1])
        return point, values, n_undone

    def _synthesis(self, betas: Views) -> Synthesis:
        return Synthesis(self.objective.similarities(betas)[0], self.problem.penalize)

    def _singular(self, betas: Views) -> bool:
        """Whether S has lost rank. With a penalty on w the objective jumps up there."""
        if self.problem.penalize == "v":
            return False
        return self._synthesis(betas).rank(self.condition) < self.first_rank

    def _demand_spread(self, start: _Trained) -> None:
        """With a penalty on v: how much classifiers must differ, from what they do at the start.

        The objective does not jump where S loses rank. At β = 0 all base classifiers are equal and
        the data do not move β, so that for every eta > 0 it is a local minimum; with a large eta it
        is the only one that learning finds, and there all classes are one.
        """
        if self.problem.penalize == "w":
            return
        spread = self._spread(self.start, start.classifiers)
        n_directions = int(np.sum(spread > max(_DIRECTION * spread[0], 1e-12)))
        self.n_directions = (n_directions + 1) // 2
        if self.n_directions:
            self.least_spread = _LEAST_SPREAD * float(spread[self.n_directions - 1])

    def _alike(self, betas: Views, trained: _Trained) -> bool:
        """Whether the classifiers of the seen classes have become too much alike."""
        if self.n_directions == 0:
            return False
        spread = self._spread(betas, trained.classifiers)
        return bool(spread[self.n_directions - 1] < self.least_spread)

    def _spread(self, betas: Views, classifiers: Array) -> Floats:
        """Singular values of W = S V less its mean row: how much classifiers differ."""
        W = self.objective.similarities(betas)[0] @ to_numpy(classifiers)
        spread: Floats = np.linalg.svd(W - W.mean(axis=0), compute_uv=False)
        return spread

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
            if self._singular(betas) or self._alike(betas, trained):
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
        if descent.refused:
            what = f"are falling together. {self._why_stopped(descent.point)}"
        elif self._shrunk(descent.point.betas):
            what = f"have shrunk to less than {_SHRUNK} of the signatures' norm."
        else:
            what = ""
        if what:
            warn_user(
                f"The phantoms {what} eta={problem.eta:.3g} outweighs "
                f"norm_penalty={problem.norm_penalty:.3g} and what the data say: lower eta or "
                "raise norm_penalty.",
                ConvergenceWarning,
            )
        if not descent.converged:
            warn_user(
                f"Learning the phantoms took max_iter={problem.max_iter} steps, and the objective "
                "still falls. Raise max_iter.",
                ConvergenceWarning,
            )

    def _shrunk(self, betas: Views) -> bool:
        """Whether no phantom is nearly as long as the signatures."""
        phantoms = view_arrays(combine(betas, self.problem.signatures))
        norms = signature_norms(self.problem.signatures)
        return all(
            np.linalg.norm(rows, axis=1).max() < _SHRUNK * norm
            for rows, norm in zip(phantoms, norms, strict=True)
        )

    def _why_stopped(self, point: Point[_Trained]) -> str:
        """What the steps that were refused would have made."""
        if self.problem.penalize == "w":
            return "Learning stopped before S became singular, where they cannot be told apart."
        reason = (
            "Learning stopped, not at a minimum, before the classifiers of the seen classes "
            f"differed by less than {_LEAST_SPREAD} of what they did at first."
        )
        zero = self._solved(tuple(np.zeros_like(beta) for beta in point.betas), None).value
        if zero < point.value:
            reason += (
                f" The objective is {point.value:.4g} there, and {zero:.4g} at β = 0, where all "
                "classes have one classifier."
            )
        return reason
