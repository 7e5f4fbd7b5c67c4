"""The descent of SSE's training, in the weights w and the references V in turn.

J of :mod:`zslearn.baselines._sse_training` is convex in w: a limited-memory quasi-Newton method
descends. In V it is not even smooth; a projected subgradient step is taken if it lowers J, else
none. So J never rises. A step that some of the samples show to be far too long is not tried on all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zslearn.baselines._sse_training import MarginObjective
from zslearn.utils import Floats

# Quasi-Newton steps in w before the first step in V and after each, and how many are remembered.
_FIRST_STEPS = 8
_STEPS = 2
_MEMORY = 8
# The first step in V, as a share of the distance of V to its mean; how often a step is halved.
_STRIDE = 0.2
_HALVINGS = 4
_ARMIJO = 1e-4
# How often a step in w is shortened.
_TRIALS = 10


class Descent(NamedTuple):
    """Where the alternation is.

    Parameters
    ----------
    w : ndarray of shape (n_features,)
        Weights.
    V : ndarray of shape (n_classes, n_features)
        Reference vectors.
    value : float
        J.
    n_iter : int
        Steps so far, in w and in V.
    """

    w: Floats
    V: Floats
    value: float
    n_iter: int


def alternate(objective: MarginObjective, tol: float) -> Iterator[Descent]:
    """Descend in w, then in V, and so on: the state after each descent in w, without an end.

    Parameters
    ----------
    objective : MarginObjective
        J.
    tol : float
        A descent in w ends when the gradient has fallen below this share of that at w = 0.

    Yields
    ------
    Descent
        The first with V at the class means, each later one after one more step in V.
    """
    point = _Point.at(objective, np.zeros(objective.means.shape[1]), objective.means)
    slope = point.slope_in_w(objective)
    goal = tol * float(np.linalg.norm(slope))
    length = _STRIDE * float(np.linalg.norm(point.V - point.V.mean(axis=0)))
    n_iter, allowed = 0, _FIRST_STEPS
    while True:
        point, steps = _descend_in_w(objective, point, slope, goal, allowed)
        n_iter, allowed = n_iter + steps, _STEPS
        yield Descent(point.w, point.V, point.value, max(1, n_iter))
        step = _step_in_v(objective, point, length)
        if step is None:
            length /= 2**_HALVINGS
        else:
            point, taken = step
            length = 2 * taken
            n_iter += 1
        slope = point.slope_in_w(objective)


class _Point(NamedTuple):
    """Weights, references, their scores F, and J."""

    w: Floats
    V: Floats
    F: Floats
    value: float

    @classmethod
    def at(
        cls, objective: MarginObjective, w: Floats, V: Floats, F: Floats | None = None
    ) -> _Point:
        F = objective.scores(w, V) if F is None else F
        return cls(w, V, F, objective.value_of(F, w, V))

    def slope_in_w(self, objective: MarginObjective) -> Floats:
        return objective.slope_in_w(self.w, self.V, objective.slope_in_responses(self.F))


def _descend_in_w(
    objective: MarginObjective, point: _Point, slope: Floats, goal: float, allowed: int
) -> tuple[_Point, int]:
    """A few quasi-Newton steps in w, each with a lower J, and how many they are."""
    pairs: list[tuple[Floats, Floats]] = []
    for n_iter in range(allowed):
        if np.linalg.norm(slope) <= goal:
            return point, n_iter
        direction = -_inverse_hessian(pairs, slope)
        trial = _search_along(objective, point, slope, direction, is_first=not pairs)
        if trial is None:
            return point, n_iter
        moved, point = trial.w - point.w, trial
        del trial
        if n_iter + 1 < allowed:
            after = point.slope_in_w(objective)
            turned = after - slope
            if moved @ turned > 0:
                pairs = [*pairs[1 - _MEMORY :], (moved, turned)]
            slope = after
    return point, allowed


def _search_along(
    objective: MarginObjective, point: _Point, slope: Floats, direction: Floats, *, is_first: bool
) -> _Point | None:
    """A point along a direction in w where J is lower; None where none is found.

    F is linear in w: one pass over the samples serves all trials.
    """
    fall = float(slope @ direction)
    change = objective.scores(direction, point.V)
    # The first step would bring J, as far as it depends on w, to zero if it fell along a line.
    step = (objective.penalty_of(point.V) - point.value) / fall if is_first else 1.0
    for _ in range(_TRIALS):
        w, F = point.w + step * direction, step * change
        F += point.F
        trial = _Point.at(objective, w, point.V, F)
        if trial.value <= point.value + _ARMIJO * step * fall:
            return trial
        # The minimum of the parabola through what is known.
        curvature = trial.value - point.value - step * fall
        step *= min(max(-0.5 * step * fall / curvature, 0.1), 0.5)
    return None


def _inverse_hessian(pairs: list[tuple[Floats, Floats]], slope: Floats) -> Floats:
    """The limited-memory BFGS estimate of H⁻¹ times the gradient, by its two loops."""
    out, shares = slope.copy(), []
    for moved, turned in reversed(pairs):
        share = (moved @ out) / (moved @ turned)
        out -= share * turned
        shares.append(share)
    if pairs:
        moved, turned = pairs[-1]
        out *= (moved @ turned) / (turned @ turned)
    for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
        out += (share - (turned @ out) / (moved @ turned)) * moved
    return out


def _step_in_v(
    objective: MarginObjective, point: _Point, length: float
) -> tuple[_Point, float] | None:
    """A projected subgradient step in V, halved until J falls; None where it does not."""
    w, V = point.w, point.V
    slope = objective.slope_in_v(w, V, objective.slope_in_responses(point.F))
    steepness = float(np.linalg.norm(slope))
    if steepness == 0:
        return None
    for _ in range(_HALVINGS):
        # Beyond the features that occur, min(x, v) no longer depends on v, or no longer on x.
        inside = np.clip(V - length / steepness * slope, objective.low, objective.high)
        F = objective.promising_scores(w, inside, point.F)
        if F is None:
            length /= 2
            continue
        trial = _Point.at(objective, w, inside, F)
        if trial.value <= point.value - _ARMIJO * float(np.sum(slope * (V - inside))):
            return trial, length
        length /= 2
    return None
