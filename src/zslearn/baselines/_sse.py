r"""SSE: semantic similarity embedding, which represents classes as mixtures of the seen classes.

From the signature a of any class and those of the seen classes :math:`a_1, \dots, a_S`, its
mixture pattern is

.. math:: z(a) = \arg\min_{z \in \Delta} \tfrac12 \Big\|a - \sum_c z_c a_c\Big\|^2
          + \tfrac{\gamma}{2} \|z\|^2, \quad \Delta = \{z \ge 0, \textstyle\sum_c z_c = 1\}.

An image is compared with a reference vector :math:`v_c` of each seen class by
:math:`\phi(x, v) = \min(x, v)`, and its score for a class is
:math:`f(x, a) = \sum_c z_c(a) \langle w, \phi(x, v_c) \rangle`. With the mixture patterns of the
seen classes as rows of Z, the responses :math:`e_{nc} = \langle w, \min(x_n, v_c) \rangle`, the
scores :math:`F = E Z^\top`, the mean scores :math:`\bar F_{ys}` of class y's :math:`N_y` samples
for class s, and the margins :math:`\Delta_{ys} = \|a_y - a_s\|^2`, the weights w and references V
minimise

.. math:: J(w, V) = \frac{\alpha}{2} \|w\|^2
    + \frac{1}{2S(S-1)} \sum_{y \ne s} [\Delta_{ys} + \bar F_{ys} - \bar F_{yy}]_+^2
    + \frac{1}{2S(S-1)} \sum_y \frac{1}{N_y} \sum_{n \in y} \sum_{s \ne y}
      [\Delta_{ys} + F_{ns} - F_{ny}]_+^2.

The first hinges align the classes, the second classify the samples. J is convex in w, where L-BFGS
descends, but not even smooth in V, where a projected subgradient step is taken if it lowers J. Both
alternate, and J never increases. Nearly all the cost is in passes over the (sample, class, feature)
triples. Scores are linear in w, so that one pass serves all step sizes along a direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import array_api_compat as compat
import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval

from zslearn._scoring._embedding import PreparedRows, for_many_passes
from zslearn._solvers._simplex import simplex_least_squares
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    is_foreign,
    move_like,
    row_blocks,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import class_means
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training

# Rows per block and thread: summing more rows in float32 would lose digits.
_BLOCK = 1024
# A float32 copy of the rows, sorted by class, is cached if it fits into this number of memory
# blocks.
_CACHED_BLOCKS = 2
# Numbers of L-BFGS steps in w before the first step in V and after each, and of pairs in memory.
_FIRST_STEPS = 8
_STEPS = 2
_MEMORY = 8
# Length of the first step in V, relative to the distance of V from its mean.
_INITIAL_STEP = 0.2
# Maximum numbers of halvings of a step in V and of trials of a step in w.
_MAX_HALVINGS = 4
_MAX_TRIALS = 10
# Required share of the predicted decrease.
_ARMIJO = 1e-4

_T = TypeVar("_T")


@jit_inner()
def _four(n: int, size: int) -> Any:
    """Four positions from n on, clipped to the last one."""
    return n, min(n + 1, size - 1), min(n + 2, size - 1), min(n + 3, size - 1)


@jit("the kernels of SSE", fast=True)
def responses(X: NDArray[Any], V: NDArray[Any], w: NDArray[Any], out: NDArray[Any]) -> None:
    """⟨w, min(x_n, v_c)⟩ for each row and class; four rows share each load of v_c."""
    zero = w[0] - w[0]
    for n in range(0, len(X), 4):
        n0, n1, n2, n3 = _four(n, len(X))
        x0, x1, x2, x3 = X[n0], X[n1], X[n2], X[n3]
        for c in range(len(V)):
            v = V[c]
            e0 = e1 = e2 = e3 = zero
            for d in range(len(w)):
                e0 += w[d] * min(x0[d], v[d])
                e1 += w[d] * min(x1[d], v[d])
                e2 += w[d] * min(x2[d], v[d])
                e3 += w[d] * min(x3[d], v[d])
            out[n0, c], out[n1, c], out[n2, c], out[n3, c] = e0, e1, e2, e3


@jit(fast=True)
def slope_in_w(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Add Σ_nc g_nc min(x_n, v_c) to out; zero rows pad G to a multiple of four."""
    for n in range(0, len(X), 4):
        n0, n1, n2, n3 = _four(n, len(X))
        x0, x1, x2, x3 = X[n0], X[n1], X[n2], X[n3]
        for c in range(len(V)):
            v = V[c]
            g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
            for d in range(len(out)):
                out[d] += (
                    g0 * min(x0[d], v[d])
                    + g1 * min(x1[d], v[d])
                    + g2 * min(x2[d], v[d])
                    + g3 * min(x3[d], v[d])
                )


@jit(fast={"nnan", "nsz", "contract"})
def slope_in_v(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Add Σ_n g_nc [x_n > v_c] of each class to out, as ∂min(x, v)/∂v = [x > v]; G is padded."""
    zero = G[0, 0] - G[0, 0]
    for n in range(0, len(X), 4):
        n0, n1, n2, n3 = _four(n, len(X))
        x0, x1, x2, x3 = X[n0], X[n1], X[n2], X[n3]
        for c in range(len(V)):
            v, o = V[c], out[c]
            g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
            for d in range(len(v)):
                a = g0 if x0[d] > v[d] else zero
                b = g1 if x1[d] > v[d] else zero
                a += g2 if x2[d] > v[d] else zero
                b += g3 if x3[d] > v[d] else zero
                o[d] += a + b


@jit(fast={"contract", "reassoc"})
def hinges(
    F: NDArray[Any],
    y: NDArray[Any],
    margins: NDArray[Any],
    of_means: NDArray[Any],
    shares: NDArray[Any],
    out: NDArray[Any],
) -> float:
    """Σ_n share ½ Σ_s [Δ_s + f_s − f_y]₊² over samples; `out` gets the gradient in the scores F.

    `of_means`, the gradient in the mean scores of each class, is added to that of its samples.
    `shares` holds the weight of a sample of each class.
    """
    total = 0.0
    for n in range(len(y)):
        c = y[n]
        f, margin, of_mean, o = F[n], margins[c], of_means[c], out[n]
        own, share = f[c], shares[c]
        squares, shorts = 0.0, 0.0
        for s in range(len(f)):
            short = max(margin[s] + f[s] - own, 0.0)
            squares += short * short
            shorts += short
            o[s] = (short + of_mean[s]) * share
        # Exclude the hinge of the sample's own class.
        short = max(margin[c], 0.0)
        o[c] = (of_mean[c] - (shorts - short)) * share
        total += 0.5 * (squares - short * short) * share
    return total


class Point(NamedTuple):
    """Weights w, references V, sample scores F, J and its gradient in F."""

    w: Floats
    V: Floats
    F: NDArray[Any]
    value: float
    slope: NDArray[Any]


class MarginObjective:
    """The objective J, for features divided by their root mean square norm, `scale`.

    Rows are in float32 and sorted by class. Results do not depend on the number of threads.
    """

    def __init__(self, X: Any, y: NDArray[np.intp], dtype: Any = np.float32) -> None:
        self.order = np.argsort(y, kind="stable")
        self.X, self.y, self.dtype, self.n_jobs = X, y[self.order], np.dtype(dtype), 1
        self.counts = np.bincount(y)
        blocks = row_blocks(X.shape[0], row_bytes=2 * 8 * X.shape[1])
        squares = sum(float(np.sum(np.square(X[rows, :], dtype=np.float64))) for rows in blocks)
        self.scale = float(np.sqrt(squares / X.shape[0])) or 1.0
        self.means: Floats = class_means(X, y, len(self.counts)) / self.scale
        self.blocks = row_blocks(len(y), 1, _BLOCK)
        self._cached: list[NDArray[Any]] | None = None
        if len(y) * X.shape[1] * self.dtype.itemsize <= _CACHED_BLOCKS * block_budget(y):
            self._cached = [self._read(rows) for rows in self.blocks]
        extents = self._over_blocks(lambda rows, X: (X.min(axis=0), X.max(axis=0)))
        self.low: Floats = np.min([low for low, _ in extents], axis=0)
        self.high: Floats = np.max([high for _, high in extents], axis=0)

    def set_terms(self, patterns: Floats, margins: Floats, alpha: float) -> None:
        """Set the mixture patterns Z, the margins Δ and the penalty α."""
        self.patterns, self.margins, self.alpha = patterns, margins, alpha

    def _read(self, rows: slice) -> NDArray[Any]:
        """Scaled rows of a block of the samples sorted by class."""
        positions = self.order[rows]
        X = self.X[positions] if isinstance(self.X, np.ndarray) else self.X.take(positions)
        return np.ascontiguousarray(X / self.scale, dtype=self.dtype)

    def _over_blocks(self, function: Callable[[slice, NDArray[Any]], _T]) -> list[_T]:
        """Apply a function to each block of rows, in order."""

        def call(i: int) -> _T:
            rows = self.blocks[i]
            return function(rows, self._read(rows) if self._cached is None else self._cached[i])

        if self.n_jobs == 1 or len(self.blocks) == 1:
            return [call(i) for i in range(len(self.blocks))]
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return list(pool.map(call, range(len(self.blocks))))

    def scores(self, w: Floats, V: Floats) -> NDArray[Any]:
        """F, which is linear in w, in the dtype of the rows."""
        F = np.zeros((len(self.y), len(V)), dtype=self.dtype)
        if w.any():
            narrow_V, narrow_w = V.astype(self.dtype), w.astype(self.dtype)
            mixing = self.patterns.T.astype(self.dtype)

            def score(rows: slice, X: NDArray[Any]) -> None:
                E = np.empty((len(X), len(V)), dtype=self.dtype)
                responses(X, narrow_V, narrow_w, E)
                F[rows] = E @ mixing

            self._over_blocks(score)
        return F

    def at(self, w: Floats, V: Floats, F: NDArray[Any] | None = None) -> Point:
        """J and its gradient in F; the scores F are computed unless given."""
        F = self.scores(w, V) if F is None else F
        n_classes = len(V)
        starts = np.cumsum(self.counts) - self.counts
        means = np.add.reduceat(F, starts, axis=0, dtype=np.float64) / self.counts[:, None]
        of_means, shares = np.empty_like(means), np.ones(n_classes)
        none = np.zeros_like(self.margins)
        align = hinges(means, np.arange(n_classes), self.margins, none, shares, of_means)
        slope = np.empty_like(F)
        each = hinges(F, self.y, self.margins, of_means, 1 / self.counts, slope)
        loss = (align + each) / (n_classes * (n_classes - 1))
        return Point(w, V, F, loss + 0.5 * self.alpha * float(w @ w), slope)

    def slope_in_w(self, point: Point) -> Floats:
        """∂J/∂w."""
        return self._summed(slope_in_w, point, point.w.shape) + self.alpha * point.w

    def slope_in_v(self, point: Point) -> Floats:
        """∂J/∂V."""
        return self._summed(slope_in_v, point, point.V.shape) * point.w

    def _summed(self, kernel: Callable[..., None], point: Point, shape: tuple[int, ...]) -> Floats:
        """Sum the results of a kernel over the blocks in float64."""
        n_classes = len(point.V)
        narrow_V = point.V.astype(self.dtype)
        weights = (self.patterns / (n_classes * (n_classes - 1))).astype(self.dtype)

        def add(rows: slice, X: NDArray[Any]) -> NDArray[Any]:
            G = np.zeros((len(X) + 3, n_classes), dtype=self.dtype)
            np.matmul(point.slope[rows], weights, out=G[: len(X)])
            out = np.zeros(shape, dtype=self.dtype)
            kernel(X, narrow_V, G, out)
            return out

        total = np.zeros(shape)
        for part in self._over_blocks(add):
            total += part
        return total


def alternate(objective: MarginObjective, tol: float) -> Iterator[tuple[Point, int]]:
    """Descend in w and V in turn; yield the point after each descent in w, and the step count."""
    point = objective.at(np.zeros(objective.means.shape[1]), objective.means)
    slope = objective.slope_in_w(point)
    goal = tol * float(np.linalg.norm(slope))
    length = _INITIAL_STEP * float(np.linalg.norm(point.V - point.V.mean(axis=0)))
    n_iter, max_steps = 0, _FIRST_STEPS
    while True:
        point, steps = _descend_in_w(objective, point, slope, goal, max_steps)
        n_iter, max_steps = n_iter + steps, _STEPS
        yield point, max(1, n_iter)
        step = _step_in_v(objective, point, length)
        if step is None:
            length /= 2**_MAX_HALVINGS
        else:
            point, taken = step
            length = 2 * taken
            n_iter += 1
        slope = objective.slope_in_w(point)


def _descend_in_w(
    objective: MarginObjective, point: Point, slope: Floats, goal: float, max_steps: int
) -> tuple[Point, int]:
    """L-BFGS steps in w that each lower J, and their number."""
    pairs: list[tuple[Floats, Floats]] = []
    for n_iter in range(max_steps):
        if np.linalg.norm(slope) <= goal:
            return point, n_iter
        direction = -_inverse_hessian(pairs, slope)
        trial = _search_along(objective, point, slope, direction, is_first=not pairs)
        if trial is None:
            return point, n_iter
        moved, point = trial.w - point.w, trial
        del trial
        if n_iter + 1 < max_steps:
            new_slope = objective.slope_in_w(point)
            turned = new_slope - slope
            if moved @ turned > 0:
                pairs = [*pairs[1 - _MEMORY :], (moved, turned)]
            slope = new_slope
    return point, max_steps


def _search_along(
    objective: MarginObjective, point: Point, slope: Floats, direction: Floats, *, is_first: bool
) -> Point | None:
    """A point with lower J along a direction in w, or None."""
    derivative = float(slope @ direction)
    change = objective.scores(direction, point.V)
    # The first step would reach J = 0 if J were linear.
    step = -point.value / derivative if is_first else 1.0
    for _ in range(_MAX_TRIALS):
        F = step * change
        F += point.F
        trial = objective.at(point.w + step * direction, point.V, F)
        if trial.value <= point.value + _ARMIJO * step * derivative:
            return trial
        # Minimum of the interpolating parabola.
        curvature = trial.value - point.value - step * derivative
        step *= min(max(-0.5 * step * derivative / curvature, 0.1), 0.5)
    return None


def _inverse_hessian(pairs: list[tuple[Floats, Floats]], slope: Floats) -> Floats:
    """Two-loop recursion of L-BFGS: the estimate of H⁻¹ times the gradient."""
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
    objective: MarginObjective, point: Point, length: float
) -> tuple[Point, float] | None:
    """A projected subgradient step in V, halved until J decreases, or None."""
    slope = objective.slope_in_v(point)
    steepness = float(np.linalg.norm(slope))
    if steepness == 0:
        return None
    for _ in range(_MAX_HALVINGS):
        # Outside the range of the features, min(x, v) is constant in v or in x.
        inside = np.clip(point.V - length / steepness * slope, objective.low, objective.high)
        trial = objective.at(point.w, inside)
        if trial.value <= point.value - _ARMIJO * float(np.sum(slope * (point.V - inside))):
            return trial, length
        length /= 2
    return None


@inherit_docs
@saves(
    coef_=Saved("n_features"),
    feature_scale_=Saved(above=0),
    references_=Saved("n_seen", "n_features"),
    patterns_=Saved("n_seen", "n_seen"),
    history_=Saved(each=True, finite=False),
    objective_=Saved(finite=False),
    n_iter_=Saved(kind="int", least=0),
    _seen_signatures=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class SSE(ZeroShotClassifier):
    """Semantic similarity embedding: classes and images as mixtures of the seen classes.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of ‖z‖² in the mixture patterns; a larger weight mixes more seen classes.
    alpha : float, default=1e-5
        Weight of ‖w‖², for features of unit mean square norm. Below about 1e-5 the number of steps
        limits w.
    max_iter : int, default=8
        Number of steps in V, each followed by a short descent in w; 0 keeps the class means as
        references.
    tol : float, default=1e-3
        A descent in w stops when the gradient is below this share of that at w = 0.
    n_jobs : int, optional
        Number of threads; unlike in scikit-learn, all cores by default.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights w, for features divided by `feature_scale_`.
    references_ : ndarray of shape (n_seen, n_features)
        References V of the seen classes, likewise.
    patterns_ : ndarray of shape (n_seen, n_seen)
        Mixture patterns of the seen classes.
    objective_ : float
        Value of the objective.
    history_ : list of float
        The objective after each descent in w; it never increases.
    feature_scale_ : float
        The root mean square norm of the training samples.
    n_iter_ : int
        Total number of steps in w and V.

    See Also
    --------
    zslearn.solvers.simplex_least_squares : Computes mixture patterns.

    Notes
    -----
    The intersection min(x, v) is meant for non-negative features. The original's other kernel,
    max(0, x − v) = x − min(x, v), gives the same model: since a pattern sums to one, its score
    under −w differs by a term common to all classes.

    The original sums hinges that are not squared, with weights λ₂ (classes) and λ₃ (samples)
    against ½‖w‖². Here squared hinges are averaged with equal class weights, and λ₂ = λ₃
    corresponds to 1 / `alpha`. There is no penalty λ₁ on V, as V takes few steps, and V is bounded
    by the range of the features instead of by zero. Margins are squared distances of signatures,
    which for unit length equal the original's 1 − ⟨a, a′⟩ up to scale. Steps in V follow Algorithm
    1, but never increase the objective.

    References
    ----------
    Z. Zhang and V. Saligrama, "Zero-shot learning via semantic similarity embedding", ICCV 2015.
    """

    gamma: float = 1.0
    alpha: float = 1e-5
    _: KW_ONLY
    max_iter: int = 8
    tol: float = 1e-3
    n_jobs: int | None = None

    embedding_attributes = ("feature_scale_", "references_", "coef_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "gamma": [10.0**k for k in range(-4, 3)],
            "alpha": [10.0**k for k in range(-8, 0)],
            "max_iter": [0, 4, 8, 16, 32],
        },
        "fast": {"gamma": [0.3, 1.0, 3.0, 10.0], "alpha": [1e-5], "max_iter": [4, 8, 12]},
    }

    def __sklearn_tags__(self) -> Tags:
        """Declare poor scores in scikit-learn's checks, whose data have two features."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share samples, patterns of equal `gamma`, and one descent among all `max_iter`."""
        rows = for_many_passes(training.rows)
        rows = rows if isinstance(rows, PreparedRows) else to_numpy(rows)
        objective, signatures = MarginObjective(rows, training.y), training.signatures
        margins = cdist(signatures, signatures, "sqeuclidean")
        for same_gamma in group_by_params(variants, "gamma"):
            gamma = same_gamma[0].gamma
            patterns = simplex_least_squares(signatures, signatures, gamma=gamma).weights
            for group in group_by_params(same_gamma, "alpha", "tol", "n_jobs"):
                objective.set_terms(patterns, margins, group[0].alpha)
                n_jobs = -1 if group[0].n_jobs is None else group[0].n_jobs
                objective.n_jobs = joblib.effective_n_jobs(n_jobs)
                descent = alternate(objective, group[0].tol)
                history: list[float] = []
                for variant in sorted(group, key=lambda variant: variant.max_iter):
                    while len(history) <= variant.max_iter:
                        point, n_iter = next(descent)
                        history.append(point.value)
                    variant.coef_, variant.references_ = point.w, point.V
                    variant.objective_, variant.history_ = point.value, list(history)
                    variant.n_iter_, variant.feature_scale_ = n_iter, objective.scale
                    variant.patterns_, variant._seen_signatures = patterns, signatures
                    yield variant

    def embed(self, X: Array) -> Array:
        """Compute the responses ⟨w, min(x, v_c)⟩ of each row."""
        X = X / self.feature_scale_
        references, coef = move_like(self.references_, X), move_like(self.coef_, X)
        if is_foreign(X):
            xp = compat.array_namespace(X)
            classes = (references[c, :][None, :] for c in range(references.shape[0]))
            return xp.stack([xp.minimum(X, v) @ coef for v in classes], axis=1)
        out = np.empty((len(X), len(references)), dtype=X.dtype)
        responses(np.ascontiguousarray(X), references, coef, out)
        return out

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Compute the mixture pattern of each class."""
        return simplex_least_squares(signatures, self._seen_signatures, gamma=self.gamma).weights
