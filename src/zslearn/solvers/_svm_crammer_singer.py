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
from numpy.typing import NDArray

from zslearn.solvers._gain import Goal
from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Floats, one_blas_thread, row_blocks

# Rows that are visited together: their inner products must stay cheap beside their scores, and what
# is compiled must return within about a second, which for very many classes takes fewer rows.
_VISITED_TOGETHER = 128
_OPERATIONS = 1 << 29
# Visits to each row of a block while its scores are at hand.
_SWEEPS = 3
# Passes over the open rows between two looks at all rows.
_PASSES = 4
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
    ascent = _Ascent(rows, margins, alpha, mixing, start, single=single)
    goal = _goal(rows, margins, tol)
    # Two looks after the first are the least that a rate can be told from.
    judged_at = max(2, round(_TRIAL * max_iter / _PASSES)) if may_give_up else None
    n_iter = 0
    best: tuple[float, float, Floats] | None = None
    before = np.inf
    gaps: list[float] = []
    while True:
        look = ascent.look()
        if look.gap > 0.5 * before and look.gap < _ROUNDINGS * ascent.rounding():
            # Where the objective is small so is the gap asked for.
            ascent.widen()
        before = look.gap
        if best is None or look.objective < best[0]:
            best = look.objective, look.penalty, ascent.base.copy()
        gap = min(look.gap, best[0] - look.dual_value) if best[0] < look.objective else look.gap
        gap = max(gap, 0.0)
        gaps.append(gap)
        state = best[0], gap, best[1]
        wanted = float(goal.wanted(*state))
        done = gap <= wanted or n_iter >= max_iter
        if not done and len(gaps) - 1 == judged_at:
            done = _predicted(gaps, (max_iter - n_iter) / _PASSES) > wanted
        if done:
            gain = float(goal.gain(*state))
            return AscentResult(best[2], ascent.dual, *state[:2], gain, gap <= wanted, n_iter)
        # More than can be gained, as the bound says so far, need not be known exactly.
        least = min(look.objective, float(goal.at_zero) - look.dual_value)
        open_rows = ascent.open_rows(look, max(tol * least, wanted))
        with one_blas_thread():
            for _ in range(min(_PASSES, max_iter - n_iter)):
                ascent.visit(rng.permutation(open_rows))
                n_iter += 1


def _predicted(gaps: list[float], looks: float) -> float:
    """The gap after so many more looks, were it to fall as it did in the second half of them."""
    middle = (len(gaps) - 1) // 2
    rate = (gaps[-1] / gaps[middle]) ** (1 / (len(gaps) - 1 - middle))
    return gaps[-1] * min(rate, 1.0) ** looks


class _Look(NamedTuple):
    """What a look at all rows tells."""

    objective: float
    dual_value: float
    gap: float
    row_gaps: Floats
    penalty: float


class _Ascent:
    """The dual points and the U they make."""

    def __init__(
        self,
        rows: TrainingRows,
        margins: Floats,
        alpha: float,
        mixing: Floats | None,
        start: Floats | None,
        *,
        single: bool,
    ) -> None:
        self.X, self.y = rows.host, rows.y
        self.visited = rows.host_single if single else self.X
        self.dtype = self.visited.dtype if single else np.dtype(np.float64)
        self.length = float(np.sqrt(rows.mean_square))
        self.alpha, self.margins, self.mixing = alpha, margins, mixing
        self.kernel = np.zeros((0, 0)) if mixing is None else mixing @ mixing.T
        self.weights = rows.sample_weight
        self.target = np.eye(rows.n_classes)
        self.scale = 1.0 / (alpha * len(self.y))
        if start is None:
            self.dual = self.target[self.y]
        else:
            self.dual = start.copy()
            self._rescale()

    def _rescale(self) -> None:
        """Move the dual points towards those of U = 0, as far as the dual value rises.

        Along e_y + t(p − e_y) the value is a t − b t². At the optimum a = 2b; points that are near
        it stay as they are, with their zeros.
        """
        base = self._make_base()
        linear = self._sum(
            np.concatenate(
                [
                    np.einsum("nc,nc->n", self.dual[rows], self.margins[self.y[rows]])
                    for rows in self._blocks()
                ]
            )
        ) / len(self.y)
        quadratic = 0.5 * self.alpha * float(np.sum(base * base))
        if linear < 1.5 * quadratic:
            share = linear / (2 * quadratic)
            self.dual *= share
            self.dual[np.arange(len(self.y)), self.y] += 1 - share

    def _make_base(self) -> Floats:
        """U(p), afresh."""
        total = np.zeros((len(self.target), self.X.shape[1]))
        for rows in self._blocks():
            pull = self._weigh(self.target[self.y[rows]] - self.dual[rows], rows)
            total += pull.T @ self._block(rows)
        return self.scale * self._unmix(total)

    def _blocks(self) -> list[slice]:
        """Rows that are looked at together: in double precision, with their scores and margins."""
        width = self.X.shape[1] + 3 * len(self.target)
        return row_blocks(len(self.y), row_bytes=8 * width)

    def _unmix(self, by_class: Floats) -> Floats:
        return by_class if self.mixing is None else self.mixing.T @ by_class

    def _coefficients(self) -> Floats:
        return self.base if self.mixing is None else self.mixing @ self.base

    def _weigh(self, table: Floats, rows: slice | NDArray[np.intp]) -> Floats:
        """What belongs to some rows, times how much they count."""
        return table if self.weights is None else table * self.weights[rows, None]

    def _sum(self, by_row: Floats) -> float:
        """The sum over rows, each as often as it counts."""
        return float(np.sum(by_row) if self.weights is None else self.weights @ by_row)

    def _block(self, rows: slice | NDArray[np.intp]) -> Floats:
        return self.X[rows].astype(np.float64, copy=False)

    def look(self) -> _Look:
        """Objective and gap at U(p), which is made afresh: rounding does not pile up."""
        self.base = self._make_base()
        coefficients = self._coefficients()
        row_gaps, losses, linear = (np.empty(len(self.y)) for _ in range(3))
        for rows in self._blocks():
            labels = self.y[rows]
            margins = self.margins[labels]
            scores = self._block(rows) @ coefficients.T
            own = scores[np.arange(len(labels)), labels]
            scores += margins
            top = scores.max(axis=1)
            row_gaps[rows] = top - np.einsum("nc,nc->n", self.dual[rows], scores)
            losses[rows] = top - own
            linear[rows] = np.einsum("nc,nc->n", self.dual[rows], margins)
        n = len(self.y)
        penalty = 0.5 * self.alpha * float(np.sum(self.base * self.base))
        return _Look(
            self._sum(losses) / n + penalty,
            self._sum(linear) / n - penalty,
            self._sum(np.maximum(row_gaps, 0)) / n,
            row_gaps,
            penalty,
        )

    def rounding(self) -> float:
        """How far the scores of a visit may be off, were all classifiers as long as the longest."""
        if self.dtype == np.float64:
            return 0.0
        lengths = np.linalg.norm(self._coefficients(), axis=1)
        return float(np.finfo(self.dtype).eps) * self.length * float(lengths.max())

    def widen(self) -> None:
        """Compute in double precision from now on."""
        self.visited, self.dtype = self.X, np.dtype(np.float64)

    def open_rows(self, look: _Look, wanted: float) -> NDArray[np.intp]:
        """Rows that are not at their optimum, or between classes, where others move them."""
        bound = 0.1 * min(wanted, look.gap)
        between = self.dual.max(axis=1) < 1
        return np.flatnonzero(between | (look.row_gaps > bound))

    def visit(self, order: NDArray[np.intp]) -> None:
        """Improve the dual points of some rows, block by block."""
        from zslearn.solvers._svm_dual_points import improve_dual

        dtype = self.dtype
        mixing = None if self.mixing is None else self.mixing.astype(dtype)
        base = self.base.astype(dtype)
        affordable = int((_OPERATIONS / (_SWEEPS * len(self.target))) ** 0.5)
        together = min(_VISITED_TOGETHER, max(affordable, 1))
        for start in range(0, len(order), together):
            rows = order[start : start + together]
            block = self.visited[rows].astype(dtype, copy=False)
            scores = block @ (base if mixing is None else mixing @ base).T
            dual = self.dual[rows]
            gram = self._weigh(self.scale * (block @ block.T).astype(np.float64), rows)
            margins = self.margins[self.y[rows]]
            improve_dual(scores.astype(np.float64), gram, dual, margins, self.kernel, _SWEEPS)
            change = self._weigh(self.dual[rows] - dual, rows).astype(dtype)
            self.dual[rows] = dual
            moved = change.T @ block
            base += self.scale * (moved if mixing is None else mixing.T @ moved)
        self.base = base.astype(np.float64)
