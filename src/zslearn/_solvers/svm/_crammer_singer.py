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

Rows are visited in blocks. Matrix products give the scores and inner products of a block; then the
dual points of its rows are improved one after another, each exactly, and the inner products keep
the scores of the others up to date. This is the ascent of single rows at the speed of BLAS. Rows at
their optimum are skipped until the next evaluation of the gap, which covers all rows. Visits use
single precision until its rounding limits the gap; the certificate always uses double precision.

At the optimum the dual point of a row has weight on a handful of classes. With many classes, visits
between two evaluations are therefore restricted to candidates: the classes with weight, and a few
with the next highest scores.

If classes overlap, an ascent from U = 0 can take very many passes for a small :math:`\alpha`. Such
an ascent is abandoned, and the remaining passes approach :math:`\alpha` from larger values, each
solution starting from the previous one. `_stopping` defines the tolerance. With sample weights, N
is their sum and each term has the weight of its row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn._solvers._stopping import StoppingRule
from zslearn._solvers.svm._rows import Solution, TrainingRows
from zslearn._utils._array import Floats, row_blocks
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._processes import one_blas_thread

# Rows visited together: their inner products must be cheap relative to their scores, and compiled
# calls must return within about a second, so that fewer rows are visited with very many classes.
_VISITED_TOGETHER = 128
_OPERATIONS = 1 << 29
# Visits of each row while the scores of its block are available.
_SWEEPS = 3
# Passes over the open rows between two evaluations of the gap.
PASSES = 4
# Candidates of a row without weight: the classes with the highest scores.
_SPARE = 8
# A product with single classifiers takes as long as one with this many times as many at once.
_SINGLE_PRODUCTS = 6
# Bytes of inner products that are kept between passes.
_KEPT_PRODUCTS = 1 << 26
# Pairs of classes exchanged in one visit of a row with a mixing matrix.
_PAIRS = 16
# Columns of U that are summed together, so that those of all classes fit in the cache.
_COLUMNS = 512
# Smallest tolerance for which visits may use single precision; every evaluation recomputes U.
_SINGLE = 1e-5
# Rounding of scores in single precision may limit a gap below this multiple of it.
_ROUNDINGS = 10.0
# Mean squared norms of rows whose inner products single precision can represent.
_IN_RANGE = (1e-20, 1e20)
# Below this alpha, for rows of unit length, an ascent from U = 0 may be given up, judged by its
# progress after this fraction of the passes. The next ascents divide alpha by this factor each
# time; all but the last one stop at a loose gap.
_EASY = 2.0**-10
_TRIAL = 1 / 8
_STRIDE = 16.0
_LOOSE = 1e-2
# A gap of this fraction of the objective at zero is a rounding error.
_ROUNDING = 1e-12


class _Evaluation(NamedTuple):
    """Objective, dual value, gap and penalty at U(p), and the gap of each row."""

    objective: float
    dual_value: float
    gap: float
    row_gaps: Floats
    penalty: float


class Ascent:
    """The dual points p, and U(p)."""

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
        weights = rows.sample_weight
        self.weights = np.ones(len(self.y)) if weights is None else weights
        self.target = np.eye(rows.n_classes)
        #: Candidates of all rows, and the position of the first candidate of each row.
        self.candidates: tuple[NDArray[np.int32], NDArray[np.intp]] | None = None
        # From U = 0, margins alone do not determine candidates.
        self.is_fresh = start is None
        #: Whether the number of classes is large enough for candidates.
        self.has_many = mixing is None and rows.n_classes > _SINGLE_PRODUCTS * _SPARE
        self.scale = 1.0 / (alpha * len(self.y))
        if start is None:
            self.dual = self.target[self.y]
        else:
            self.dual = start.copy()
            self._rescale()

    def _rescale(self) -> None:
        """Move the dual points towards those of U = 0 while the dual value rises.

        Along e_y + t(p − e_y) it is a t − b t². Points near the optimum, a = 2b, keep their zeros.
        """
        base = self._compute_base()
        linear = 0.0
        for rows in self._blocks():
            gained = np.einsum("nc,nc->n", self.dual[rows], self.margins[self.y[rows]])
            linear += float(self.weights[rows] @ gained) / len(self.y)
        quadratic = 0.5 * self.alpha * float(np.sum(base * base))
        if linear < 1.5 * quadratic:
            share = linear / (2 * quadratic)
            self.dual *= share
            self.dual[np.arange(len(self.y)), self.y] += 1 - share

    def _compute_base(self) -> Floats:
        """U(p), recomputed."""
        total = np.zeros((len(self.target), self.X.shape[1]))
        for rows in self._blocks():
            dual, weights, labels = self.dual[rows], self.weights[rows], self.y[rows]
            if self._is_few(int(np.count_nonzero(dual)), dual.size):
                add_pulls(np.ascontiguousarray(self.X[rows]), labels, dual, weights, total)
                continue
            pull = weights[:, None] * (self.target[labels] - dual)
            total += pull.T @ self.X[rows].astype(np.float64, copy=False)
        return self.scale * (total if self.mixing is None else self.mixing.T @ total)

    def _blocks(self) -> list[slice]:
        """Blocks of rows in double precision, with their scores and margins."""
        width = self.X.shape[1] + 3 * len(self.target)
        return row_blocks(len(self.y), row_bytes=8 * width)

    def _coefficients(self) -> Floats:
        return self.base if self.mixing is None else self.mixing @ self.base

    def _is_few(self, count: int, size: int) -> bool:
        """Whether `count` of `size` entries are few enough to be treated one by one."""
        return self.has_many and _SINGLE_PRODUCTS * count <= size

    def evaluate(self) -> _Evaluation:
        """Objective and gap at U(p), which is recomputed so that rounding does not accumulate."""
        self.base = self._compute_base()
        coefficients = self._coefficients()
        row_gaps, losses, linear = (np.empty(len(self.y)) for _ in range(3))
        candidates = []
        for rows in self._blocks():
            labels = self.y[rows]
            margins = self.margins[labels]
            scores = self.X[rows].astype(np.float64, copy=False) @ coefficients.T
            own = scores[np.arange(len(labels)), labels]
            scores += margins
            top = scores.max(axis=1)
            row_gaps[rows] = top - np.einsum("nc,nc->n", self.dual[rows], scores)
            losses[rows] = top - own
            linear[rows] = np.einsum("nc,nc->n", self.dual[rows], margins)
            if self.has_many and not self.is_fresh:
                candidates.append(candidate_classes(scores, self.dual[rows], _SPARE))
        self.candidates = None
        if candidates:
            classes, counts = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
            if self._is_few(len(classes), self.dual.size):
                self.candidates = classes, np.concatenate([[0], np.cumsum(counts)])
        shares = self.weights / len(self.y)
        penalty = 0.5 * self.alpha * float(np.sum(self.base * self.base))
        return _Evaluation(
            float(shares @ losses) + penalty,
            float(shares @ linear) - penalty,
            float(shares @ np.maximum(row_gaps, 0)),
            row_gaps,
            penalty,
        )

    def rounding(self) -> float:
        """Bound of the rounding error of scores in visits."""
        if self.dtype == np.float64:
            return 0.0
        lengths = np.linalg.norm(self._coefficients(), axis=1)
        return float(np.finfo(self.dtype).eps) * self.length * float(lengths.max())

    def open_rows(self, found: _Evaluation, wanted: float) -> NDArray[np.intp]:
        """Rows that are not at their optimum, or whose dual point is no vertex."""
        bound = 0.1 * min(wanted, found.gap)
        between = self.dual.max(axis=1) < 1
        return np.flatnonzero(between | (found.row_gaps > bound))

    def improve(
        self, open_rows: NDArray[np.intp], n_passes: int, rng: np.random.RandomState
    ) -> int:
        """Visit some rows `n_passes` times, the first time once if there are many classes."""
        if self.candidates is not None:
            self._visit_candidates(open_rows, n_passes, rng, *self.candidates)
            return n_passes
        if self.is_fresh and self.has_many:
            n_passes = 1
        for _ in range(n_passes):
            self._visit(rng.permutation(open_rows))
        self.is_fresh = False
        return n_passes

    def _visit(self, order: NDArray[np.intp]) -> None:
        """Improve the dual points of some rows, block by block."""
        dtype = self.dtype
        mixing = None if self.mixing is None else self.mixing.astype(dtype)
        base = self.base.astype(dtype)
        affordable = int((_OPERATIONS / (_SWEEPS * len(self.target))) ** 0.5)
        together = min(_VISITED_TOGETHER, max(affordable, 1))
        for start in range(0, len(order), together):
            rows = order[start : start + together]
            weights = self.weights[rows, None]
            block = self.visited[rows].astype(dtype, copy=False)
            scores = block @ (base if mixing is None else mixing @ base).T
            dual = self.dual[rows]
            gram = weights * (self.scale * (block @ block.T).astype(np.float64))
            margins = self.margins[self.y[rows]]
            improve_dual(scores.astype(np.float64), gram, dual, margins, self.kernel, _SWEEPS)
            change = (weights * (self.dual[rows] - dual)).astype(dtype)
            self.dual[rows] = dual
            moved = change.T @ block
            base += self.scale * (moved if mixing is None else mixing.T @ moved)
        self.base = base.astype(np.float64)

    def _visit_candidates(
        self,
        open_rows: NDArray[np.intp],
        n_passes: int,
        rng: np.random.RandomState,
        classes: NDArray[np.int32],
        starts: NDArray[np.intp],
    ) -> None:
        """Improve dual points within candidates, in the same blocks in all passes."""
        base = self.base.astype(self.dtype)
        order = rng.permutation(open_rows)
        blocks = [order[rows] for rows in row_blocks(len(order), 1, _VISITED_TOGETHER)]
        keeps_products = len(order) * _VISITED_TOGETHER * self.dtype.itemsize <= _KEPT_PRODUCTS
        products: dict[int, NDArray[Any]] = {}
        for _ in range(n_passes):
            for number in rng.permutation(len(blocks)).tolist():
                rows = blocks[number]
                X, places, gram = self.visited, rows, products.get(number)
                if gram is None or not isinstance(X, np.ndarray) or X.dtype != self.dtype:
                    X, places = X[rows].astype(self.dtype, copy=False), np.arange(len(rows))
                    gram = X @ X.T if gram is None else gram
                if keeps_products:
                    products[number] = gram
                improve_candidates(
                    X, places, rows, self.y, classes, starts, self.scale * self.weights[rows],
                    gram, self.margins, base, self.dual, _SWEEPS,
                )  # fmt: skip
        self.base = base.astype(np.float64)


@jit("the Crammer–Singer solver")
def improve_dual(
    scores: Floats, gram: Floats, dual: Floats, margins: Floats, kernel: Floats, sweeps: int
) -> None:
    """Improve the dual points of a block in place, row after row.

    `scores` are kept up to date. `gram` contains inner products of the rows over αN, multiplied by
    the weight of the row. If `kernel` is empty, the best point of a row is a projection onto the
    simplex; otherwise pairs of classes exchange weight.
    """
    n_rows, n_classes = scores.shape
    mixed = kernel.shape[0] > 0
    value = np.empty(n_classes)
    pull = np.empty(n_classes)
    for _ in range(sweeps):
        largest = 0.0
        for i in range(n_rows):
            for c in range(n_classes):
                value[c] = margins[i, c] + scores[i, c]
            if mixed:
                changed = _exchange(value, dual[i], gram[i, i], kernel, pull)
            else:
                changed = project_dual(value, dual[i], gram[i, i], pull)
            if changed == 0.0:
                continue
            largest = max(largest, changed)
            for j in range(n_rows):
                weight = gram[i, j]
                for c in range(n_classes):
                    scores[j, c] -= weight * pull[c]
        if largest < 1e-12:
            break


@jit()
def project_dual(value: Floats, dual: Floats, curvature: float, change: Floats) -> float:
    """Maximise δᵀf − q/2‖δ‖² over the simplex p + δ: the projection of p + f/q."""
    n_classes = value.shape[0]
    best = 0
    for c in range(n_classes):
        if value[c] > value[best]:
            best = c
    # The vertex of the largest value is optimal.
    if dual[best] == 1.0:
        return 0.0
    if curvature <= 0.0:
        for c in range(n_classes):
            change[c] = -dual[c]
            dual[c] = 0.0
        change[best] += 1.0
        dual[best] = 1.0
        return 1.0
    # Michelot: subtract the mean excess over 1, drop negative entries, and repeat.
    top = value[best]
    total, count = 0.0, n_classes
    for c in range(n_classes):
        change[c] = dual[c] + (value[c] - top) / curvature
        total += change[c]
    threshold = (total - 1.0) / count
    while True:
        total, kept = 0.0, 0
        for c in range(n_classes):
            if change[c] > threshold:
                total += change[c]
                kept += 1
        # Because of rounding a class at the threshold may return; stop unless the count decreases.
        if kept >= count:
            break
        threshold = (total - 1.0) / kept
        count = kept
    largest = 0.0
    for c in range(n_classes):
        point = change[c] - threshold
        if point < 0.0:
            point = 0.0
        change[c] = point - dual[c]
        dual[c] = point
        largest = max(largest, abs(change[c]))
    return largest


@jit_inner()
def _exchange(value: Floats, dual: Floats, norm: float, kernel: Floats, pull: Floats) -> float:
    """Move weight from the worst class in use to the best class, a few times over."""
    n_classes = value.shape[0]
    largest = 0.0
    for c in range(n_classes):
        pull[c] = 0.0
    for _ in range(_PAIRS):
        best, worst = 0, -1
        for c in range(n_classes):
            if value[c] > value[best]:
                best = c
            if dual[c] > 0.0 and (worst < 0 or value[c] < value[worst]):
                worst = c
        gain = value[best] - value[worst]
        if gain <= 1e-15 * (1.0 + abs(value[best])):
            break
        curvature = norm * (kernel[best, best] + kernel[worst, worst] - 2 * kernel[best, worst])
        moved = dual[worst]
        if curvature * moved > gain:
            moved = gain / curvature
        dual[best] += moved
        dual[worst] -= moved
        largest = max(largest, moved)
        for c in range(n_classes):
            step = moved * (kernel[c, best] - kernel[c, worst])
            pull[c] += step
            value[c] -= norm * step
    return largest


@jit("the Crammer–Singer solver's choice of classes")
def candidate_classes(
    values: Floats, dual: Floats, spare: int
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Classes of each row with weight or with the highest scores, and their number per row."""
    n_rows, n_classes = values.shape
    counts = np.empty(n_rows, np.intp)
    total = 0
    for i in range(n_rows):
        weighty = 0
        for c in range(n_classes):
            if dual[i, c] > 0.0:
                weighty += 1
        counts[i] = min(weighty + spare, n_classes)
        total += counts[i]
    classes = np.empty(total, np.int32)
    best = np.empty(spare, np.int32)
    position = 0
    for i in range(n_rows):
        found = 0
        for c in range(n_classes):
            if dual[i, c] > 0.0:
                classes[position] = c
                position += 1
            elif found < spare or values[i, c] > values[i, best[found - 1]]:
                if found < spare:
                    found += 1
                place = found - 1
                while place > 0 and values[i, best[place - 1]] < values[i, c]:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = c
        for place in range(found):
            classes[position] = best[place]
            position += 1
    return classes, counts


@jit("the Crammer–Singer solver for many classes")
def improve_candidates(
    X: Any,
    places: NDArray[np.intp],
    rows: NDArray[np.intp],
    labels: NDArray[np.intp],
    classes: NDArray[np.int32],
    starts: NDArray[np.intp],
    steps: Floats,
    gram: Any,
    margins: Floats,
    base: Any,
    dual: Floats,
    sweeps: int,
) -> None:
    """Improve the dual points of some rows within their candidates, and U with them.

    `places` are the positions of the rows in `X`, and `rows` those in `labels`, `dual` and
    `starts`, the starts of their `classes`. `gram` contains inner products of the rows, `steps`
    their weights over αN.
    """
    n_rows, n_classes = len(rows), len(margins)
    value, point, change = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    # By class, so that updates of all rows are contiguous in memory.
    scores = np.empty((n_classes, n_rows))
    n_candidates = 0
    for i in range(n_rows):
        n_candidates += starts[rows[i] + 1] - starts[rows[i]]
    before = np.empty(n_candidates)
    position = 0
    for i in range(n_rows):
        row = rows[i]
        for c in classes[starts[row] : starts[row + 1]]:
            scores[c, i] = _inner_product(X[places[i]], base[c])
            before[position] = dual[row, c]
            position += 1
    for _ in range(sweeps):
        largest = 0.0
        for i in range(n_rows):
            row = rows[i]
            likely = classes[starts[row] : starts[row + 1]]
            count = len(likely)
            for k in range(count):
                value[k] = margins[labels[row], likely[k]] + scores[likely[k], i]
                point[k] = dual[row, likely[k]]
            curvature = steps[i] * gram[i, i]
            changed = project_dual(value[:count], point[:count], curvature, change[:count])
            if changed == 0.0:
                continue
            largest = max(largest, changed)
            for k in range(count):
                if change[k] != 0.0:
                    dual[row, likely[k]] = point[k]
                    _add(-steps[i] * change[k], gram[i], scores[likely[k]])
        if largest < 1e-12:
            break
    position = 0
    for i in range(n_rows):
        row = rows[i]
        for c in classes[starts[row] : starts[row + 1]]:
            moved = dual[row, c] - before[position]
            position += 1
            if moved != 0.0:
                _add(-steps[i] * moved, X[places[i]], base[c])


@jit("the Crammer–Singer solver's sums")
def add_pulls(
    X: Any, labels: NDArray[np.intp], dual: Floats, weights: Floats, total: Floats
) -> None:
    """Add Σ_n (e_{y_n} − p_n) x_nᵀ of some rows, multiplied by their weights."""
    n_rows, n_classes = dual.shape
    for first in range(0, X.shape[1], _COLUMNS):
        columns = slice(first, min(first + _COLUMNS, X.shape[1]))
        for i in range(n_rows):
            for c in range(n_classes):
                pull = -dual[i, c]
                if c == labels[i]:
                    pull += 1.0
                if pull != 0.0:
                    _add(weights[i] * pull, X[i, columns], total[c, columns])


@jit_inner(fast=True)
def _inner_product(x: Any, w: Any) -> float:
    total = x[0] * w[0]
    for d in range(1, x.shape[0]):
        total += x[d] * w[d]
    return total


@jit_inner(fast=True)
def _add(factor: float, x: Any, total: Any) -> None:
    # In the precision of the sum, so that a loop in single precision is not promoted.
    share = total.dtype.type(factor)
    for d in range(x.shape[0]):
        total[d] += share * x[d]


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
) -> Solution:
    """Maximise the dual; see the module."""
    ascend = partial(_ascend, rows, margins=margins, mixing=mixing, rng=rng)
    easy = _EASY * rows.mean_square
    hard = start is None and alpha < easy
    found = ascend(alpha=alpha, tol=tol, max_iter=max_iter, start=start, may_give_up=hard)
    left = max_iter - found.n_iter
    if not hard or left == 0 or found.converged:
        return found
    again = _come_down(ascend, alpha=alpha, easy=easy, tol=tol, max_iter=left)
    better = min(found, again, key=lambda result: result.objective)
    tighter = max(found, again, key=lambda result: result.objective - result.dual_gap)
    bound = tighter.objective - tighter.dual_gap
    gap = max(0.0, min(better.dual_gap, better.objective - bound))
    penalty = 0.5 * alpha * float(np.sum(better.base**2))
    rule = _stopping_rule(rows, margins, tol)
    state = better.objective, gap, penalty
    return Solution(
        better.base,
        *state[:2],
        float(rule.gain(*state)),
        gap <= float(rule.wanted(*state)),
        found.n_iter + again.n_iter,
        tighter.dual,
    )


def _stopping_rule(rows: TrainingRows, margins: Floats, tol: float) -> StoppingRule:
    """The gap to reach. At U = 0 the objective is the mean of the rows' largest margins."""
    at_zero = float(np.average(margins.max(axis=1)[rows.y], weights=rows.sample_weight))
    return StoppingRule(tol, at_zero, _ROUNDING * at_zero)


def _come_down(
    ascend: Callable[..., Solution], *, alpha: float, easy: float, tol: float, max_iter: int
) -> Solution:
    """Solve larger alphas first, each from the previous solution, sharing the passes equally."""
    alphas = [alpha]
    while alphas[0] < easy:
        alphas.insert(0, alphas[0] * _STRIDE)
    n_iter, dual = 0, None
    for position, value in enumerate(alphas):
        # Passes that an easy alpha does not use remain for the next ones.
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
) -> Solution:
    """Ascend from one start until the gap is reached or the passes end, or abandon the ascent."""
    single = tol >= _SINGLE and _IN_RANGE[0] < rows.mean_square < _IN_RANGE[1]
    ascent = Ascent(rows, margins, alpha, mixing, start, single=single)
    rule = _stopping_rule(rows, margins, tol)
    # The rate can be estimated from the second evaluation after the first.
    judged_at = PASSES * max(2, round(_TRIAL * max_iter / PASSES))
    n_iter, given_up, before = 0, False, np.inf
    best: _Evaluation | None = None
    gaps: list[tuple[int, float]] = []
    while True:
        found = ascent.evaluate()
        if found.gap > 0.5 * before and found.gap < _ROUNDINGS * ascent.rounding():
            # The required gap is small if the objective is small.
            ascent.visited, ascent.dtype = ascent.X, np.dtype(np.float64)
        before = found.gap
        if best is None or found.objective < best.objective:
            best, base = found, ascent.base.copy()
        gap = found.gap
        if found is not best:
            # The last dual value may bound the gap of the best point.
            gap = max(0.0, min(gap, best.objective - found.dual_value))
        state = best.objective, gap, best.penalty
        wanted = float(rule.wanted(*state))
        gaps.append((n_iter, gap))
        if gap > wanted and may_give_up and n_iter >= judged_at:
            may_give_up = False
            given_up = _predicted(gaps, max_iter) > wanted
        if gap <= wanted or n_iter >= max_iter or given_up:
            gain = float(rule.gain(*state))
            return Solution(base, *state[:2], gain, gap <= wanted, n_iter, ascent.dual)
        # Rows are selected by an upper bound of the gain, which is sufficient.
        least = min(found.objective, float(rule.at_zero) - found.dual_value)
        open_rows = ascent.open_rows(found, max(tol * least, wanted))
        # If visits are cheaper than evaluations, visit twice as often while the goal is far.
        is_far = len(gaps) > 1 and _predicted(gaps, n_iter + 2 * PASSES) > wanted
        with one_blas_thread():
            for _ in range(2 if is_far and ascent.candidates is not None else 1):
                n_iter += ascent.improve(open_rows, min(PASSES, max_iter - n_iter), rng)


def _predicted(gaps: list[tuple[int, float]], n_iter: int) -> float:
    """The gap after `n_iter` passes, extrapolated from the second half of the passes so far."""
    (first, before), (last, gap) = gaps[(len(gaps) - 1) // 2], gaps[-1]
    rate = (gap / before) ** (1 / (last - first))
    return gap * float(min(rate, 1.0)) ** (n_iter - last)
