r"""The max-margin training of SSE: kernels, objective, alternation.

With the mixture patterns of the seen classes as rows of Z, the responses
:math:`e_{nc} = \langle w, \min(x_n, v_c) \rangle`, the scores :math:`F = E Z^\top`, the mean scores
:math:`\bar F_{ys}` of class y's samples for class s, and the margins :math:`\Delta_{ys}`,

.. math:: J(w, V) = \frac{\alpha}{2} \|w\|^2 + \frac{\rho}{2S} \sum_c \|v_c\|^2
    + \frac{\lambda}{2S(S-1)} \sum_{y \ne s} [\Delta_{ys} + \bar F_{ys} - \bar F_{yy}]_+^2
    + \frac{1}{2S(S-1)} \sum_y \frac{1}{N_y} \sum_{n \in y} \sum_{s \ne y}
      [\Delta_{ys} + F_{ns} - F_{ny}]_+^2.

J is convex in w: a limited-memory quasi-Newton method descends. In V it is not even smooth; a
projected subgradient step is taken if it lowers J, else none. So J never rises.

A pass over all (sample, class, feature) triples is nearly all the cost there is. Scores are linear
in w: one pass along a direction serves all trials of its length. Nothing larger than samples ×
classes is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.baselines._sse_rows import ROWS, DividedRows, SortedRows, by_four, on_lines
from zslearn.solvers import class_means
from zslearn.utils import Floats, row_blocks

# Rows are worked on in so many parts.
_PARTS = 8
# Rows that are added up in float32: with more of them the sum would lose digits.
_SUMMED_NARROWLY = 1024
# Fewer rows are not worth a thread.
_SMALL = 1024
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


def intersection_responses(
    X: NDArray[Any], references: NDArray[Any], coef: NDArray[Any]
) -> NDArray[Any]:
    """⟨w, min(x, v_c)⟩ of each row and class.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    references : ndarray of shape (n_classes, n_features)
        The vectors v.
    coef : ndarray of shape (n_features,)
        The weights w.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        In the dtype of X.
    """
    from zslearn.baselines._sse_kernels import responses

    n_classes = len(references)
    rows, references = by_four(X), by_four(references.astype(X.dtype))
    out = np.empty((len(rows), len(references)), dtype=X.dtype)
    responses(rows, references, coef.astype(X.dtype), out)
    return out[: len(X), :n_classes]


class MarginObjective:
    """J of the module for one set of samples, in the dtype of these.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or DividedRows
        Features.
    y : ndarray of shape (n_samples,)
        Class positions 0 … S−1, each of which occurs.
    n_jobs : int, default=1
        Threads; they change no digit.
    """

    def __init__(self, X: NDArray[Any] | DividedRows, y: NDArray[np.intp], n_jobs: int = 1) -> None:
        order = np.argsort(y, kind="stable")
        self.rows, self.y = SortedRows(X, order), y[order]
        self.counts = np.bincount(y)
        self.starts = np.cumsum(self.counts) - self.counts
        self.n_jobs = n_jobs
        self.means: Floats = class_means(X, y, len(self.counts))
        self.low, self.high = self.rows.extent()

    def describe(
        self,
        patterns: Floats,
        margins: Floats,
        alpha: float,
        alignment: float = 1.0,
        reference_alpha: float = 0.0,
    ) -> None:
        """Take the mixture patterns Z, the margins Δ and the weights α, λ and ρ."""
        self.patterns, self.margins = patterns, margins
        self.alpha, self.alignment, self.reference_alpha = alpha, alignment, reference_alpha

    def value(self, w: Floats, V: Floats) -> tuple[float, NDArray[Any]]:
        """J, and its derivative in the responses E."""
        F = self.scores(w, V)
        return self.value_of(F, w, V), self.slope_in_responses(F)

    def scores(self, w: Floats, V: Floats) -> NDArray[Any]:
        """F, in the dtype of the rows; it is linear in w."""
        from zslearn.baselines._sse_kernels import responses

        dtype = self.rows.dtype
        if not w.any():
            return np.zeros((len(self.y), len(V)), dtype=dtype)
        narrow_V, narrow_w = self._narrow(V), self._narrow(w[None, :])[0]
        E = np.empty((len(self.rows), len(narrow_V)), dtype=dtype)
        mixing = self.patterns.T.astype(dtype)

        def part(rows: slice) -> None:
            for block in self._blocks(rows):
                responses(self.rows[block], narrow_V, narrow_w, E[block])

        self._map(part)
        return E[: len(self.y), : len(V)] @ mixing

    def _narrow(self, V: Floats) -> NDArray[Any]:
        """Vectors in the dtype of the rows and as wide as these, as many as a multiple of four."""
        out = on_lines((-(-len(V) // 4) * 4, self.rows.shape[1]), self.rows.dtype)
        out[: len(V), : V.shape[1]] = V
        return out

    def value_of(self, F: Floats, w: Floats, V: Floats) -> float:
        """J where the scores of w and V are F."""
        of_means, slope = self._of_means(F)
        each = sum(loss for _, loss, _ in self._hinges(F, slope))
        loss = (self.alignment * of_means.sum() + each) / self._n_pairs
        return float(loss + 0.5 * self.alpha * (w @ w) + self.penalty_of(V))

    def slope_in_responses(self, F: Floats) -> NDArray[Any]:
        """∂J/∂E where the scores are F, with zeros where the kernels need more rows or classes."""
        n_classes, dtype = F.shape[1], self.rows.dtype
        G = np.zeros((len(self.rows), -(-n_classes // 4) * 4), dtype=dtype)
        weights = (self.patterns / self._n_pairs).astype(dtype)
        for rows, _, slope in self._hinges(F, self._of_means(F)[1]):
            np.matmul(slope, weights, out=G[rows, :n_classes])
        return G

    def _of_means(self, F: Floats) -> tuple[Floats, Floats]:
        """The hinges of the mean scores of each class, and their slopes."""
        means = np.add.reduceat(F, self.starts, axis=0, dtype=np.float64) / self.counts[:, None]
        return _hinge(means, self.margins, np.arange(F.shape[1]))

    def _hinges(
        self, F: NDArray[Any], of_means: Floats
    ) -> Iterator[tuple[slice, float, NDArray[Any]]]:
        """The hinges of samples and their slope in the scores, some samples at a time."""
        from zslearn.baselines._sse_kernels import hinges

        shares = 1 / self.counts
        for rows in self._tables():
            slope = np.empty_like(F[rows])
            loss = hinges(
                F[rows], self.y[rows], self.margins, self.alignment * of_means, shares, slope
            )
            yield rows, loss, slope

    def _tables(self) -> list[slice]:
        """Samples of which tables of all classes are there at a time."""
        return row_blocks(len(self.y), 3 * 8 * len(self.counts))

    @property
    def _n_pairs(self) -> int:
        return len(self.counts) * (len(self.counts) - 1)

    def penalty_of(self, V: Floats) -> float:
        """The part of J that does not depend on w or on the samples."""
        return 0.5 * self.reference_alpha * float(np.sum(V * V)) / len(V)

    def slope_in_w(self, w: Floats, V: Floats, G: NDArray[Any]) -> Floats:
        """∂J/∂w from the derivative in the responses."""
        from zslearn.baselines._sse_kernels import slope_in_w

        slope = self._sum(slope_in_w, V, G, self.rows.shape[1:])[: len(w)]
        return slope + self.alpha * w

    def slope_in_v(self, w: Floats, V: Floats, G: NDArray[Any]) -> Floats:
        """∂J/∂V from the derivative in the responses."""
        from zslearn.baselines._sse_kernels import slope_in_v

        padded = -(-len(V) // 4) * 4, self.rows.shape[1]
        slope = self._sum(slope_in_v, V, G, padded)[: len(V), : V.shape[1]]
        return slope * w + self.reference_alpha / len(V) * V

    def _map(self, function: Callable[[slice], Any]) -> list[Any]:
        """Call for every part of the rows; the results come in the order of the parts."""
        per_part = -(-len(self.rows) // (ROWS * _PARTS)) * ROWS
        parts = [slice(at, at + per_part) for at in range(0, len(self.rows), per_part)]
        if self.n_jobs == 1 or len(self.rows) < _SMALL:
            return [function(rows) for rows in parts]
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return list(pool.map(function, parts))

    def _blocks(self, rows: slice) -> list[slice]:
        """Rows of a part that are read, and added up in their dtype, at a time."""
        stop = min(rows.stop, len(self.rows))
        starts = range(rows.start, stop, _SUMMED_NARROWLY)
        return [slice(start, min(start + _SUMMED_NARROWLY, stop)) for start in starts]

    def _sum(
        self, kernel: Callable[..., None], V: Floats, G: NDArray[Any], shape: tuple[int, ...]
    ) -> Floats:
        """Add up what a kernel makes of the rows: blocks in their dtype, all in float64."""
        narrow = self._narrow(V)

        def part(rows: slice) -> Floats:
            total = np.zeros(shape)
            for block in self._blocks(rows):
                out = on_lines((int(np.prod(shape[:-1])), shape[-1]), narrow.dtype).reshape(shape)
                kernel(self.rows[block], narrow, G[block], out)
                total += out
            return total

        return np.sum(self._map(part), axis=0)


def _hinge(scores: Floats, margins: Floats, y: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """½ Σ_s [Δ_s + f_s − f_y]₊² of each row, and the derivative in its scores."""
    at = np.arange(len(y))
    short = margins + scores - scores[at, y][:, None]
    np.maximum(short, 0, out=short)
    short[at, y] = 0
    loss = 0.5 * np.einsum("ns,ns->n", short, short)
    short[at, y] = -short.sum(axis=1)
    return loss, short


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
        trial = _Point.at(objective, w, inside)
        if trial.value <= point.value - _ARMIJO * float(np.sum(slope * (V - inside))):
            return trial, length
        length /= 2
    return None
