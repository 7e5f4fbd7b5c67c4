r"""Multi-class linear classifiers under the Crammer–Singer hinge: blocked dual ascent.

With margins :math:`\Delta_{yc} \ge 0`, :math:`\Delta_{yy} = 0`, and the classifiers of the C
classes as rows of :math:`W = M U`,

.. math:: \min_U \frac{1}{N} \sum_n \max_c (\Delta_{y_n c} + x_n^\top w_c - x_n^\top w_{y_n})
          + \frac{\alpha}{2} \|U\|_F^2.

The dual has a point :math:`p_n` of the simplex for each row,

.. math:: \max_p \frac{1}{N} \sum_n p_n^\top \Delta_{y_n} - \frac{\alpha}{2} \|U(p)\|_F^2, \quad
          U(p) = \frac{1}{\alpha N} \sum_n M^\top (e_{y_n} - p_n)\, x_n^\top,

and at U(p) the duality gap is the mean over the rows of
:math:`\max_c f_{nc} - p_n^\top f_n`, :math:`f_{nc} = \Delta_{y_n c} + x_n^\top w_c`.

Rows are visited in blocks. Matrix products give the scores of a block and its inner products;
then the dual points of its rows are improved one after another, each exactly, with the scores of
the others kept up to date through the inner products; a matrix product takes the sum of the changes
into U. So the ascent is that of single rows, at the speed of BLAS. Rows that are at their optimum
are left out until the next look at all of them, which also makes the certificate. Visits compute in
single precision until its rounding holds up the gap, then in double; the looks always do that.

From U = 0 a small :math:`\alpha` can take very many passes where classes overlap. An ascent that is
too slow to arrive is given up, and the rest of the passes comes down from larger :math:`\alpha`,
each solution the start of the next. The gap is measured against the objective and against what
training gains; see `_gain`. Where rows are weighted, N is the sum of the weights and each term
counts by its row's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from zslearn.solvers._gain import Goal
from zslearn.solvers._svm_ascent import PASSES, Ascent, Look
from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Floats, one_blas_thread

# Down to this gap visits may compute in single precision: U is made afresh at every look.
_SINGLE = 1e-5
# A gap of less than so many times the rounding of scores in single precision may be held up by it.
_ROUNDINGS = 10.0
# Mean squares of rows whose inner products single precision can hold.
_IN_RANGE = (1e-20, 1e20)
# Below this alpha, for rows of unit length, an ascent from U = 0 may be given up, judged by its
# pace after this share of the passes. The rest of them comes down to alpha from a larger one, by
# this factor at a time, each to a loose gap but the last.
_EASY = 2.0**-10
_TRIAL = 1 / 8
_STRIDE = 16.0
_LOOSE = 1e-2
# A gap that is this share of the objective at zero is as good as none.
_ROUNDING = 1e-12


class AscentResult(NamedTuple):
    """Where the ascent ended: U, the dual points, the certificate, passes over the rows."""

    base: Floats
    dual: Floats
    objective: float
    gap: float
    gain: float
    converged: bool
    n_iter: int


def crammer_singer(
    rows: TrainingRows,
    *,
    margins: Floats,
    alpha: float,
    mixing: Floats | None = None,
    tol: float,
    max_iter: int,
    start: Floats | None = None,
    rng: np.random.RandomState,
) -> AscentResult:
    """Maximise the dual; see the module.

    Parameters
    ----------
    rows : TrainingRows
        Features and labels; the features are brought to the host.
    margins : ndarray of shape (n_classes, n_classes)
        Δ, by the true class, then the other.
    alpha : float
        Weight of the penalty.
    mixing : ndarray of shape (n_classes, n_base), optional
        The matrix M; by default the identity.
    tol : float
        Duality gap to reach, as a share of the objective and of the gain.
    max_iter : int
        Largest number of passes over the rows, all attempts together.
    start : ndarray of shape (n_samples, n_classes), optional
        Dual points to start from, of any alpha; by default U is zero at the start.
    rng : numpy.random.RandomState
        The order in which rows are visited.

    Returns
    -------
    AscentResult
        U in the rotated space, with its certificate.
    """
    ascend = partial(_ascend, rows, margins=margins, mixing=mixing, rng=rng)
    easy = _EASY * rows.mean_square
    hard = start is None and alpha < easy
    found = ascend(alpha=alpha, tol=tol, max_iter=max_iter, start=start, may_give_up=hard)
    left = max_iter - found.n_iter
    if not hard or left == 0 or found.converged:
        return found
    again = _come_down(ascend, alpha=alpha, easy=easy, tol=tol, max_iter=left)
    better = min(found, again, key=lambda result: result.objective)
    tighter = max(found, again, key=lambda result: result.objective - result.gap)
    bound = tighter.objective - tighter.gap
    gap = max(0.0, min(better.gap, better.objective - bound))
    penalty = 0.5 * alpha * float(np.sum(better.base**2))
    goal = _goal(rows, margins, tol)
    state = better.objective, gap, penalty
    return AscentResult(
        better.base,
        tighter.dual,
        *state[:2],
        float(goal.gain(*state)),
        gap <= float(goal.wanted(*state)),
        found.n_iter + again.n_iter,
    )


def _goal(rows: TrainingRows, margins: Floats, tol: float) -> Goal:
    """The gap to reach. At U = 0 the objective is the mean of the rows' largest margins."""
    at_zero = float(np.average(margins.max(axis=1)[rows.y], weights=rows.sample_weight))
    return Goal(tol, at_zero, _ROUNDING * at_zero)


def _come_down(
    ascend: Callable[..., AscentResult], *, alpha: float, easy: float, tol: float, max_iter: int
) -> AscentResult:
    """Solve larger alphas first, each from the solution before, with equal shares of the passes."""
    alphas = [alpha]
    while alphas[0] < easy:
        alphas.insert(0, alphas[0] * _STRIDE)
    n_iter, dual = 0, None
    for position, value in enumerate(alphas):
        # What an easy alpha does not use is left to those that follow.
        passes = (max_iter - n_iter) // (len(alphas) - position)
        wanted = tol if value == alpha else max(tol, _LOOSE)
        found = ascend(alpha=value, tol=wanted, max_iter=passes, start=dual)
        n_iter, dual = n_iter + found.n_iter, found.dual
    return found._replace(n_iter=n_iter)


def _ascend(
    rows: TrainingRows,
    *,
    margins: Floats,
    alpha: float,
    mixing: Floats | None,
    tol: float,
    max_iter: int,
    start: Floats | None,
    rng: np.random.RandomState,
    may_give_up: bool = False,
) -> AscentResult:
    """Ascend from one start until the gap is reached, the passes are used up, or it is given up."""
    single = tol >= _SINGLE and _IN_RANGE[0] < rows.mean_square < _IN_RANGE[1]
    ascent = Ascent(rows, margins, alpha, mixing, start, single=single)
    goal = _goal(rows, margins, tol)
    # Two looks after the first are the least that a rate can be told from.
    judged_at = PASSES * max(2, round(_TRIAL * max_iter / PASSES))
    n_iter, given_up = 0, False
    best: Look | None = None
    base = ascent.target  # of the best, when there is one
    before = np.inf
    gaps: list[tuple[int, float]] = []
    exact = not ascent.may_glance
    while True:
        look = ascent.look(exact=exact)
        if look.gap > 0.5 * before and look.gap < _ROUNDINGS * ascent.rounding():
            # Where the objective is small so is the gap asked for.
            ascent.widen()
        before = look.gap
        if exact and (best is None or look.objective < best.objective):
            best, base = look, ascent.base.copy()
        state = _state(look, best if exact else look)
        gap, wanted = state[1], float(goal.wanted(*state))
        if gaps and gaps[-1][0] == n_iter:
            gaps.pop()
        gaps.append((n_iter, gap))
        if gap > wanted and may_give_up and n_iter >= judged_at:
            may_give_up = False
            given_up = _predicted(gaps, max_iter) > wanted
        if gap <= wanted or n_iter >= max_iter or given_up:
            if exact:
                gain = float(goal.gain(*state))
                return AscentResult(base, ascent.dual, *state[:2], gain, gap <= wanted, n_iter)
            exact = True  # what is reported is never a gap of single precision
            continue
        exact = not ascent.may_glance
        # More than can be gained, as the bound says so far, need not be known exactly.
        least = min(look.objective, float(goal.at_zero) - look.dual_value)
        open_rows = ascent.open_rows(look, max(tol * least, wanted))
        rounds = 1 if len(gaps) == 1 or _predicted(gaps, n_iter + 2 * PASSES) <= wanted else 2
        with one_blas_thread():
            for _ in range(rounds if ascent.likely is not None else 1):
                n_iter += ascent.improve(open_rows, min(PASSES, max_iter - n_iter), rng)


def _state(look: Look, best: Look | None) -> tuple[float, float, float]:
    """Objective, gap and penalty at the best point, whose gap the last look may bound, too."""
    if best is None or look.objective <= best.objective:
        return look.objective, max(look.gap, 0.0), look.penalty
    gap = min(look.gap, best.objective - look.dual_value)
    return best.objective, max(gap, 0.0), best.penalty


def _predicted(gaps: list[tuple[int, float]], n_iter: int) -> float:
    """The gap after so many passes, were it to fall as it did in the second half of the looks."""
    (first, before), (last, gap) = gaps[(len(gaps) - 1) // 2], gaps[-1]
    rate = (gap / before) ** (1 / (last - first))
    return gap * float(min(rate, 1.0)) ** (n_iter - last)
