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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from zslearn.solvers._svm_rows import TrainingRows, one_blas_thread

Floats = NDArray[np.float64]

# Rows of a block: their inner products must stay cheap beside their scores.
_BLOCK = 128
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
# Rows looked at together.
_LOOK = 2048
# Pairs of classes exchanged in one visit of a row, where classes are mixed.
_PAIRS = 16
# Below this alpha, for rows of unit length, an ascent that did not arrive is tried once more from
# the solution, at a loose gap, of an alpha so many times larger.
_EASY = 2.0**-10
_STRIDE = 16.0
_LOOSE = 1e-2


class AscentResult(NamedTuple):
    """Where the ascent ended: U, the dual points, objective, duality gap, passes over the rows."""

    base: Floats
    dual: Floats
    objective: float
    gap: float
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
        Relative duality gap to reach.
    max_iter : int
        Largest number of passes over the rows.
    start : ndarray of shape (n_samples, n_classes), optional
        Dual points to start from, of any alpha; by default U is zero at the start.
    rng : numpy.random.RandomState
        The order in which rows are visited.

    Returns
    -------
    AscentResult
        U in the rotated space, with its certificate.
    """
    given: dict[str, Any] = {"margins": margins, "mixing": mixing, "max_iter": max_iter, "rng": rng}
    found = _ascend(rows, alpha=alpha, tol=tol, start=start, **given)
    if found.gap <= tol * found.objective or start is not None:
        return found
    if alpha >= _EASY * rows.mean_square:
        return found
    # From U = 0 a small alpha can take very many passes where classes overlap: come down to it from
    # a larger one, and keep the better of the two.
    larger = crammer_singer(rows, alpha=alpha * _STRIDE, tol=max(tol, _LOOSE), **given)
    again = _ascend(rows, alpha=alpha, tol=tol, start=larger.dual, **given)
    better = min(found, again, key=lambda result: result.objective)
    return better._replace(n_iter=found.n_iter + larger.n_iter + again.n_iter)


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
) -> AscentResult:
    """Ascend from one start until the gap is reached or the passes are used up."""
    single = tol >= _SINGLE and _IN_RANGE[0] < rows.mean_square < _IN_RANGE[1]
    ascent = _Ascent(rows, margins, alpha, mixing, start, single=single)
    n_iter = 0
    best: tuple[float, Floats] | None = None
    before = np.inf
    while True:
        look = ascent.look()
        if look.gap > 0.5 * before and look.gap < _ROUNDINGS * ascent.rounding():
            # Where the objective is small so is the gap asked for.
            ascent.widen()
        before = look.gap
        if best is None or look.objective < best[0]:
            best = look.objective, ascent.base.copy()
        gap = min(look.gap, best[0] - look.dual_value) if best[0] < look.objective else look.gap
        if gap <= tol * best[0] or n_iter >= max_iter:
            return AscentResult(best[1], ascent.dual, best[0], max(gap, 0.0), n_iter)
        open_rows = ascent.open_rows(look, tol)
        with one_blas_thread():
            for _ in range(min(_PASSES, max_iter - n_iter)):
                ascent.visit(rng.permutation(open_rows))
                n_iter += 1


class _Look(NamedTuple):
    """What a look at all rows tells."""

    objective: float
    dual_value: float
    gap: float
    row_gaps: Floats


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
        linear = sum(
            float(np.sum(self.dual[rows] * self.margins[self.y[rows]]))
            for rows in _slices(len(self.y))
        ) / len(self.y)
        quadratic = 0.5 * self.alpha * float(np.sum(base * base))
        if linear < 1.5 * quadratic:
            share = linear / (2 * quadratic)
            self.dual *= share
            self.dual[np.arange(len(self.y)), self.y] += 1 - share

    def _make_base(self) -> Floats:
        """U(p), afresh."""
        total = np.zeros((len(self.target), self.X.shape[1]))
        for rows in _slices(len(self.y)):
            total += (self.target[self.y[rows]] - self.dual[rows]).T @ self._block(rows)
        return self.scale * self._unmix(total)

    def _unmix(self, by_class: Floats) -> Floats:
        return by_class if self.mixing is None else self.mixing.T @ by_class

    def _coefficients(self) -> Floats:
        return self.base if self.mixing is None else self.mixing @ self.base

    def _block(self, rows: slice | NDArray[np.intp]) -> Floats:
        return self.X[rows].astype(np.float64, copy=False)

    def look(self) -> _Look:
        """Objective and gap at U(p), which is made afresh: rounding does not pile up."""
        self.base = self._make_base()
        coefficients = self._coefficients()
        loss = linear = 0.0
        row_gaps = np.empty(len(self.y))
        for rows in _slices(len(self.y)):
            labels = self.y[rows]
            margins = self.margins[labels]
            scores = self._block(rows) @ coefficients.T
            own = scores[np.arange(len(labels)), labels]
            scores += margins
            top = scores.max(axis=1)
            row_gaps[rows] = top - np.einsum("nc,nc->n", self.dual[rows], scores)
            loss += float(np.sum(top - own))
            linear += float(np.sum(self.dual[rows] * margins))
        n = len(self.y)
        penalty = 0.5 * self.alpha * float(np.sum(self.base * self.base))
        gap = float(np.sum(np.maximum(row_gaps, 0))) / n
        return _Look(loss / n + penalty, linear / n - penalty, gap, row_gaps)

    def rounding(self) -> float:
        """How far the scores of a visit may be off, were all classifiers as long as the longest."""
        if self.dtype == np.float64:
            return 0.0
        lengths = np.linalg.norm(self._coefficients(), axis=1)
        return float(np.finfo(self.dtype).eps) * self.length * float(lengths.max())

    def widen(self) -> None:
        """Compute in double precision from now on."""
        self.visited, self.dtype = self.X, np.dtype(np.float64)

    def open_rows(self, look: _Look, tol: float) -> NDArray[np.intp]:
        """Rows that are not at their optimum, or between classes, where others move them."""
        bound = 0.1 * min(tol * look.objective, look.gap)
        between = self.dual.max(axis=1) < 1
        return np.flatnonzero(between | (look.row_gaps > bound))

    def visit(self, order: NDArray[np.intp]) -> None:
        """Improve the dual points of the given rows, block by block."""
        dtype = self.dtype
        mixing = None if self.mixing is None else self.mixing.astype(dtype)
        base = self.base.astype(dtype)
        for start in range(0, len(order), _BLOCK):
            rows = order[start : start + _BLOCK]
            block = self.visited[rows].astype(dtype, copy=False)
            scores = block @ (base if mixing is None else mixing @ base).T
            dual = self.dual[rows]
            gram = self.scale * (block @ block.T).astype(np.float64)
            margins = self.margins[self.y[rows]]
            _improve(scores.astype(np.float64), gram, dual, margins, self.kernel, _SWEEPS)
            change = (self.dual[rows] - dual).astype(dtype)
            self.dual[rows] = dual
            moved = change.T @ block
            base += self.scale * (moved if mixing is None else mixing.T @ moved)
        self.base = base.astype(np.float64)


def _slices(n: int) -> list[slice]:
    return [slice(start, min(start + _LOOK, n)) for start in range(0, n, _LOOK)]


@njit(cache=True, nogil=True)
def _improve(
    scores: Floats, gram: Floats, dual: Floats, margins: Floats, kernel: Floats, sweeps: int
) -> None:
    """Improve the dual points of a block in place, row after row.

    `scores` are kept up to date; `gram` holds inner products of the rows over αN. Without `kernel`
    (of no size) the best point of a row is a projection onto the simplex; with it, pairs of classes
    exchange weight.
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
                changed = _project(value, dual[i], gram[i, i], pull)
            if changed == 0.0:
                continue
            largest = max(largest, changed)
            for j in range(n_rows):
                weight = gram[i, j]
                for c in range(n_classes):
                    scores[j, c] -= weight * pull[c]
        if largest < 1e-12:
            break


@njit(cache=True, nogil=True)
def _project(value: Floats, dual: Floats, curvature: float, change: Floats) -> float:
    """Maximise δᵀf − q/2‖δ‖² over the simplex p + δ: the projection of p + f/q."""
    n_classes = value.shape[0]
    best = 0
    for c in range(n_classes):
        if value[c] > value[best]:
            best = c
    # At a vertex of the largest value there is nothing to gain.
    if dual[best] == 1.0:
        return 0.0
    if curvature <= 0.0:
        for c in range(n_classes):
            change[c] = -dual[c]
            dual[c] = 0.0
        change[best] += 1.0
        dual[best] = 1.0
        return 1.0
    # Michelot: subtract the mean excess over 1, drop what falls below zero, repeat.
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
        # Rounding may bring back a class at the threshold: the count must fall, or all is done.
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


@njit(cache=True, nogil=True)
def _exchange(value: Floats, dual: Floats, norm: float, kernel: Floats, pull: Floats) -> float:
    """Move weight from the worst class in use to the best class, a few times over."""
    n_classes = value.shape[0]
    pull[:] = 0.0
    largest = 0.0
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
