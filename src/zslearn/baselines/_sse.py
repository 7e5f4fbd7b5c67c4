r"""SSE: semantic similarity embedding.

Every class, seen or unseen, is a mixture of the seen classes. From its signature a, with those of
the seen classes :math:`a_1, \dots, a_S`, the mixture pattern is

.. math:: z(a) = \arg\min_{z \in \Delta} \tfrac12 \Big\|a - \sum_c z_c a_c\Big\|^2
          + \tfrac{\gamma}{2} \|z\|^2, \quad \Delta = \{z \ge 0, \textstyle\sum_c z_c = 1\}.

An image is compared with a reference vector :math:`v_c` of each seen class,

.. math:: \phi(x, v) = \min(x, v) \ \text{("int")} \quad \text{or} \quad
          \phi(x, v) = \max(0, x - v) \ \text{("relu")},

and its score for a class is :math:`f(x, a) = \sum_c z_c(a) \langle w, \phi(x, v_c) \rangle`. The
weights w and the references V have a large margin: with :math:`\Delta_{ys} = \|a_y - a_s\|^2`,

.. math:: \min_{w, V} \frac{\alpha}{2} \|w\|^2
    + \frac{\rho}{2}\, \underset{c}{\mathrm{mean}}\, \|v_c\|^2
    + \lambda\, \underset{y \ne s}{\mathrm{mean}}\ \tfrac12
      [\Delta_{ys} - \bar f_y(a_y) + \bar f_y(a_s)]_+^2
    + \underset{n,\, s \ne y_n}{\mathrm{mean}}\ \tfrac12
      [\Delta_{y_n s} - f(x_n, a_{y_n}) + f(x_n, a_s)]_+^2,

where :math:`\bar f_y` is the mean score over the samples of class y. The first mean of hinges
aligns the classes, the second classifies the samples; w and V are optimised in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._embedding import PreparedRows
from zslearn._solvers._simplex import simplex_least_squares
from zslearn._utils._array import Array, Floats, is_foreign, move_like, take_rows, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._device import block_budget
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._jit import jit
from zslearn.base._class_statistics import class_means
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._training import Training
from zslearn.base._variants import group_by_params

# The compiled part of SSE's training; see :mod:`zslearn.baselines._sse`.
#
# Four rows and up to four classes at a time share what is loaded of either. Slopes go through the
# features in tiles, of which the cache nearest to the processor holds those that are worked on.
# This
# module is imported where it is first needed, as Numba and compiling take seconds.

# Features of a tile.
_TILE = 592


@jit()
def divided_rows(
    X: NDArray[Any], positions: NDArray[Any], divisors: NDArray[Any], out: NDArray[Any]
) -> None:
    """Rows by their positions, each divided by its number in double precision."""
    for i in range(len(positions)):
        row, divisor, to = X[positions[i]], divisors[positions[i]], out[i]
        for d in range(len(row)):
            to[d] = row[d] / divisor


@jit("the kernels of SSE", fast=True)
def responses(
    X: NDArray[Any], V: NDArray[Any], w: NDArray[Any], out: NDArray[Any], first: int, step: int
) -> None:
    """⟨w, min(x_n, v_c)⟩ for all classes and for rows, both of them multiples of four in number.

    The rows are the four from `first` on, and so on in steps.
    """
    zero = w[0] - w[0]
    for n in range(first, len(X), step):
        x0, x1, x2, x3 = X[n], X[n + 1], X[n + 2], X[n + 3]
        for c in range(0, len(V), 4):
            v0, v1, v2, v3 = V[c], V[c + 1], V[c + 2], V[c + 3]
            a0 = a1 = a2 = a3 = zero
            b0 = b1 = b2 = b3 = zero
            e0 = e1 = e2 = e3 = zero
            f0 = f1 = f2 = f3 = zero
            for d in range(len(w)):
                a0 += w[d] * min(x0[d], v0[d])
                a1 += w[d] * min(x1[d], v0[d])
                a2 += w[d] * min(x2[d], v0[d])
                a3 += w[d] * min(x3[d], v0[d])
                b0 += w[d] * min(x0[d], v1[d])
                b1 += w[d] * min(x1[d], v1[d])
                b2 += w[d] * min(x2[d], v1[d])
                b3 += w[d] * min(x3[d], v1[d])
                e0 += w[d] * min(x0[d], v2[d])
                e1 += w[d] * min(x1[d], v2[d])
                e2 += w[d] * min(x2[d], v2[d])
                e3 += w[d] * min(x3[d], v2[d])
                f0 += w[d] * min(x0[d], v3[d])
                f1 += w[d] * min(x1[d], v3[d])
                f2 += w[d] * min(x2[d], v3[d])
                f3 += w[d] * min(x3[d], v3[d])
            out[n, c], out[n, c + 1] = a0, b0
            out[n, c + 2], out[n, c + 3] = e0, f0
            out[n + 1, c], out[n + 1, c + 1] = a1, b1
            out[n + 1, c + 2], out[n + 1, c + 3] = e1, f1
            out[n + 2, c], out[n + 2, c + 1] = a2, b2
            out[n + 2, c + 2], out[n + 2, c + 3] = e2, f2
            out[n + 3, c], out[n + 3, c + 1] = a3, b3
            out[n + 3, c + 2], out[n + 3, c + 3] = e3, f3


@jit(fast=True)
def slope_in_w(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_nc g_nc min(x_n, v_c), added to out; rows by four, an even number of classes."""
    for first in range(0, len(out), _TILE):
        tile = slice(first, min(first + _TILE, len(out)))
        o = out[tile]
        for n in range(0, len(X), 4):
            x0, x1, x2, x3 = X[n, tile], X[n + 1, tile], X[n + 2, tile], X[n + 3, tile]
            for c in range(0, len(V), 2):
                v, u = V[c, tile], V[c + 1, tile]
                g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
                h0, h1, h2, h3 = G[n, c + 1], G[n + 1, c + 1], G[n + 2, c + 1], G[n + 3, c + 1]
                for d in range(len(o)):
                    o[d] += (
                        g0 * min(x0[d], v[d])
                        + g1 * min(x1[d], v[d])
                        + g2 * min(x2[d], v[d])
                        + g3 * min(x3[d], v[d])
                        + h0 * min(x0[d], u[d])
                        + h1 * min(x1[d], u[d])
                        + h2 * min(x2[d], u[d])
                        + h3 * min(x3[d], u[d])
                    )


@jit(fast={"nnan", "nsz", "contract"})
def slope_in_v(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_n g_nc [x_n > v_c] for each class, added to out: ∂min(x, v)/∂v = [x > v]; rows by eight."""
    zero = G[0, 0] - G[0, 0]
    for first in range(0, V.shape[1], _TILE):
        tile = slice(first, min(first + _TILE, V.shape[1]))
        for n in range(0, len(X), 8):
            x0, x1, x2, x3 = X[n, tile], X[n + 1, tile], X[n + 2, tile], X[n + 3, tile]
            x4, x5, x6, x7 = X[n + 4, tile], X[n + 5, tile], X[n + 6, tile], X[n + 7, tile]
            for c in range(len(V)):
                v, o = V[c, tile], out[c, tile]
                g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
                g4, g5, g6, g7 = G[n + 4, c], G[n + 5, c], G[n + 6, c], G[n + 7, c]
                for d in range(len(v)):
                    # Two sums: neither waits for all of the other.
                    a, b = o[d], g4 if x4[d] > v[d] else zero
                    a = a + g0 if x0[d] > v[d] else a
                    b = b + g5 if x5[d] > v[d] else b
                    a = a + g1 if x1[d] > v[d] else a
                    b = b + g6 if x6[d] > v[d] else b
                    a = a + g2 if x2[d] > v[d] else a
                    b = b + g7 if x7[d] > v[d] else b
                    a = a + g3 if x3[d] > v[d] else a
                    o[d] = a + b


@jit(fast={"contract", "reassoc"})
def hinges(
    F: NDArray[Any],
    y: NDArray[Any],
    margins: NDArray[Any],
    of_means: NDArray[Any],
    shares: NDArray[Any],
    out: NDArray[Any],
) -> float:
    """Σ_n share ½ Σ_s [Δ_s + f_s − f_y]₊² of the samples; `out` gets the slope in their scores F.

    `of_means`, the slope in the mean scores of each class, is added to that of its samples;
    `shares` is what a sample of each class counts.
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
        # As its own class a sample is not short of anything.
        short = max(margin[c], 0.0)
        o[c] = (of_mean[c] - (shorts - short)) * share
        total += 0.5 * (squares - short * short) * share
    return total


# The rows of SSE's training: scaled, by class; held where they are few, else read in each pass.

# A sorted copy of the rows is held up to so many blocks of memory.
_HELD_BLOCKS = 2
# The kernels take so many rows at a time; a line of the cache has so many bytes. What begins at one
# and fills whole ones is read in half the time.
ROWS = 16
_LINE = 64


def by_four(X: NDArray[Any]) -> NDArray[Any]:
    """Rows, with zeros below to make a multiple of four; the same where they are one."""
    if len(X) % 4 == 0:
        return np.ascontiguousarray(X)
    rows = np.zeros((-(-len(X) // 4) * 4, X.shape[1]), dtype=X.dtype)
    rows[: len(X)] = X
    return rows


def on_lines(shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
    """A table of zeros whose rows begin at lines of the cache."""
    dtype = np.dtype(dtype)
    per_line = _LINE // dtype.itemsize
    n_columns = -(-shape[1] // per_line) * per_line
    memory = np.zeros(shape[0] * n_columns + per_line, dtype=dtype)
    start = -memory.ctypes.data % _LINE // dtype.itemsize
    return memory[start : start + shape[0] * n_columns].reshape(shape[0], n_columns)


class DividedRows:
    """Rows divided by a number as they are read, in float32.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features) or PreparedRows
        Features of NumPy.
    scale : float
        What they are divided by.
    """

    def __init__(self, rows: Any, scale: float) -> None:
        self.rows, self.scale = rows, scale
        self.shape, self.dtype, self.device = rows.shape, np.dtype(np.float32), "cpu"
        self._source, divisors = _divisors(rows)
        self._divisors = None if divisors is None else scale * divisors

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """NumPy."""
        return np

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        which = key[0] if isinstance(key, tuple) else key
        if isinstance(which, slice):
            return np.asarray(self.rows[which, :] / self.scale, dtype=np.float32)
        out = np.empty((len(which), self.shape[1]), dtype=np.float32)
        self.gather(which, out)
        return out

    def gather(self, positions: NDArray[np.intp], out: NDArray[np.float32]) -> None:
        """Rows by their positions, into memory that there is."""
        if self._divisors is None:
            is_array = isinstance(self.rows, np.ndarray)
            rows = take_rows(self.rows, positions) if is_array else self.rows.take(positions)
            np.divide(rows, self.scale, out=out, casting="same_kind")
            return

        chosen = getattr(self.rows, "positions", None)
        positions = positions if chosen is None else chosen[positions]
        divided_rows(self._source, positions, self._divisors, out)


def _divisors(rows: Any) -> tuple[Any, Floats | None]:
    """Rows as they were given, and what each is divided by, where compiled code can do that."""
    is_array = isinstance(rows, np.ndarray)
    source = np.asarray(rows if is_array else rows.source)
    if not (source.flags.c_contiguous and source.dtype in (np.float32, np.float64)):
        return None, None
    return source, np.ones(len(source)) if is_array else rows.divisors


class SortedRows:
    """Rows in another order, with zeros below and beside them to fill steps of the kernels.

    They are read in slices.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or DividedRows
        Features.
    order : ndarray of int of shape (n_samples,)
        Positions of the rows.
    """

    def __init__(self, X: NDArray[Any] | DividedRows, order: NDArray[np.intp]) -> None:
        self.X, self.order, self.dtype = X, order, X.dtype
        self.shape = -(-len(order) // ROWS) * ROWS, on_lines((0, X.shape[1]), X.dtype).shape[1]
        self._held: NDArray[Any] | None = None
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        if size <= _HELD_BLOCKS * block_budget(order):
            held = on_lines(self.shape, self.dtype)
            for rows in self._blocks():
                self._read(rows, held[rows])
            self._held = held

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        if self._held is not None:
            return self._held[rows]
        out = on_lines((min(rows.stop, len(self)) - rows.start, self.shape[1]), self.dtype)
        self._read(rows, out)
        return out

    def _read(self, rows: slice, out: NDArray[Any]) -> None:
        """Rows by their places in the order, into zeros."""
        positions = self.order[rows]
        out = out[: len(positions), : self.X.shape[1]]
        if isinstance(self.X, DividedRows):
            self.X.gather(positions, out)
        else:
            out[...] = self.X[positions]

    def extent(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each feature."""
        width = self.X.shape[1]
        low, high = np.full(width, np.inf), np.full(width, -np.inf)
        for rows in self._blocks():
            block = self[rows][: max(0, len(self.order) - rows.start), :width]
            low = np.minimum(low, block.min(axis=0, initial=np.inf))
            high = np.maximum(high, block.max(axis=0, initial=-np.inf))
        return low, high

    def _blocks(self) -> list[slice]:
        return row_blocks(len(self), 4 * 8 * self.shape[1])


# The max-margin objective of SSE; :mod:`zslearn.baselines._sse` descends in it.
#
# With the mixture patterns of the seen classes as rows of Z, the responses
# :math:`e_{nc} = \langle w, \min(x_n, v_c) \rangle`, the scores :math:`F = E Z^\top`, the mean
# scores
# :math:`\bar F_{ys}` of class y's samples for class s, and the margins :math:`\Delta_{ys}`,
#
# .. math:: J(w, V) = \frac{\alpha}{2} \|w\|^2 + \frac{\rho}{2S} \sum_c \|v_c\|^2
#     + \frac{\lambda}{2S(S-1)} \sum_{y \ne s} [\Delta_{ys} + \bar F_{ys} - \bar F_{yy}]_+^2
#     + \frac{1}{2S(S-1)} \sum_y \frac{1}{N_y} \sum_{n \in y} \sum_{s \ne y}
#       [\Delta_{ys} + F_{ns} - F_{ny}]_+^2.
#
# A pass over all (sample, class, feature) triples is nearly all the cost there is. Scores are
# linear
# in w: one pass along a direction serves all trials of its length. Nothing larger than samples ×
# classes is kept.

# Rows are worked on in so many parts.
_PARTS = 8
# Rows that are added up in float32: with more of them the sum would lose digits.
_SUMMED_NARROWLY = 1024
# Where the hinges of some samples are so much higher, those of all are higher; how many samples
# that takes, and how many of each class on average.
_FAR = 0.03
_ENOUGH = 1024
_OF_EACH = 6
# Fewer rows are not worth a thread.
_SMALL = 1024


def intersection_responses(
    X: NDArray[Any], references: NDArray[Any], coef: NDArray[Any]
) -> NDArray[Any]:
    """⟨w, min(x, v_c)⟩ of each row and class."""
    n_classes = len(references)
    rows, references = by_four(X), by_four(references.astype(X.dtype))
    out = np.empty((len(rows), len(references)), dtype=X.dtype)
    responses(rows, references, coef.astype(X.dtype), out, 0, 4)
    return out[: len(X), :n_classes]


class _Few(NamedTuple):
    """Some of the samples."""

    rows: NDArray[np.intp]
    classes: NDArray[np.intp]  # those that are among them
    starts: NDArray[np.intp]  # where each of these begins
    shares: Floats  # what a sample of each class counts


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
        if not w.any():
            return np.zeros((len(self.y), len(V)), dtype=self.rows.dtype)
        E = np.empty((len(self.rows), -(-len(V) // 4) * 4), dtype=self.rows.dtype)
        self._respond(w, V, E, [(0, 4)])
        return self._mixed(E[: len(self.y), : len(V)])

    def promising_scores(self, w: Floats, V: Floats, F: NDArray[Any]) -> NDArray[Any] | None:
        """The scores, unless the samples in some rows show J to be far above that where they are F."""
        few = self._few
        # A penalty on V may fall by more than the hinges rise.
        if few is None or self.reference_alpha > 0:
            return self.scores(w, V)
        E = np.empty((len(self.rows), -(-len(V) // 4) * 4), dtype=self.rows.dtype)
        self._respond(w, V, E, [(0, ROWS)])
        found = self._mixed(E[few.rows, : len(V)])
        if self._loss_of_few(found) > (1 + _FAR) * self._loss_of_few(F[few.rows]):
            return None
        self._respond(w, V, E, [(first, ROWS) for first in range(4, ROWS, 4)])
        return self._mixed(E[: len(self.y), : len(V)])

    def _respond(
        self, w: Floats, V: Floats, E: NDArray[Any], places: list[tuple[int, int]]
    ) -> None:
        """The responses of rows: four from a first one on, and so on in steps."""
        narrow_V, narrow_w = self._narrow(V), self._narrow(w[None, :])[0]

        def part(rows: slice) -> None:
            for block in self._blocks(rows):
                for first, step in places:
                    responses(self.rows[block], narrow_V, narrow_w, E[block], first, step)

        self._map(part)

    def _mixed(self, E: NDArray[Any]) -> NDArray[Any]:
        """Scores from responses."""
        return E @ self.patterns.T.astype(E.dtype)

    @cached_property
    def _few(self) -> _Few | None:
        """Four of sixteen samples; None where these would be too few."""
        rows = np.flatnonzero(np.arange(len(self.y)) % ROWS < 4)
        classes, starts, counts = np.unique(self.y[rows], return_index=True, return_counts=True)
        if len(rows) < max(_ENOUGH, _OF_EACH * len(self.counts)):
            return None
        shares = np.zeros(len(self.counts))
        shares[classes] = 1 / counts
        return _Few(rows, classes, starts, shares)

    def _loss_of_few(self, F: NDArray[Any]) -> float:
        """The hinges as if these samples were all, up to a factor."""
        assert self._few is not None
        rows, classes, starts, shares = self._few
        means = np.add.reduceat(F, starts, axis=0, dtype=np.float64) * shares[classes, None]
        of_means, _ = _hinge(means, self.margins[classes], classes)
        nothing = np.zeros_like(self.margins)
        each = hinges(F, self.y[rows], self.margins, nothing, shares, np.empty_like(F))
        return float(self.alignment * of_means.sum() + each)

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
        means = np.add.reduceat(F, self.starts, axis=0) / self.counts[:, None]
        return _hinge(means, self.margins, np.arange(F.shape[1]))

    def _hinges(
        self, F: NDArray[Any], of_means: Floats
    ) -> Iterator[tuple[slice, float, NDArray[Any]]]:
        """The hinges of samples and their slope in the scores, some samples at a time."""
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
        slope = self._sum(slope_in_w, V, G, self.rows.shape[1:])[: len(w)]
        return slope + self.alpha * w

    def slope_in_v(self, w: Floats, V: Floats, G: NDArray[Any]) -> Floats:
        """∂J/∂V from the derivative in the responses."""
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


# The descent of SSE's training, in the weights w and the references V in turn.
#
# J of :mod:`zslearn.baselines._sse` is convex in w: a limited-memory quasi-Newton method
# descends. In V it is not even smooth; a projected subgradient step is taken if it lowers J, else
# none. So J never rises. A step that some of the samples show to be far too long is not tried on
# all.

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
    """Descend in w, then in V, and so on: the state after each descent in w, without an end."""
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


@inherit_docs
class SSE(ZeroShotClassifier):
    """Semantic similarity embedding: classes and images as mixtures of the seen classes.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of ‖z‖² in the mixture patterns: the larger, the more seen classes share in one.
        Signatures are in units of their median distance.
    alpha : float, default=1e-5
        Weight of ‖w‖², for features of unit mean square norm. Below some 1e-5 it hardly acts:
        the number of steps then limits w.
    alignment : float, default=1.0
        Weight λ of the classes' hinges, beside 1 for those of the samples; 0 leaves them out.
    reference_alpha : float, default=0.0
        Weight ρ of the references' mean square norm, for features of unit mean square norm. 0:
        the number of steps alone limits V.
    kernel : {"int", "relu"}, default="int"
        How images meet the references: the intersection min(x, v), meant for non-negative
        features such as histograms or the outputs of rectified units, though it is defined for
        all, or max(0, x − v). The predictions are the same; see Notes.
    max_iter : int, default=8
        Steps in V, each followed by a short descent in w. 0 leaves the references at the class
        means.
    tol : float, default=1e-3
        A descent in w ends when the gradient is below this share of that at w = 0.
    n_jobs : int, optional
        Threads. By default all cores, unlike scikit-learn's one: threads change no digit.

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
        The objective after each descent in w; it never rises.
    feature_scale_ : float
        The root mean square norm of the training samples.
    n_iter_ : int
        Steps in w and V together.

    See Also
    --------
    zslearn.solvers.simplex_least_squares : The mixture patterns.

    Notes
    -----
    As max(0, x − v) = x − min(x, v) and the weights of a pattern add up to one, the score of
    "relu" under w is that of "int" under −w plus ⟨w, x⟩, which is the same for all classes. So the
    two kernels are one model, trained once; only the embedding is written differently.

    What differs from the original: its hinges are not squared, and it sums them with weights λ₂
    (classes) and λ₃ (samples) against ½‖w‖². Here they are means, in which each class counts alike
    however many samples it has, and λ₃ corresponds to 1 / `alpha`, λ₂ to `alignment` / `alpha`. Its
    penalty λ₁ on V is `reference_alpha`, 0 by default, as V takes few steps. V stays within the
    range of the features, in the original it is non-negative, which is the same bound from below
    where the least feature is 0. Margins are squared distances of the signatures: of those with
    unit norm the original's 1 − ⟨a, a′⟩, but for the scale. Like the original's Algorithm 1 this
    one takes projected subgradient steps in V, but none that raises the objective.

    Training passes a few dozen times over all (sample, seen class, feature) triples.

    References
    ----------
    Z. Zhang and V. Saligrama, "Zero-shot learning via semantic similarity embedding", ICCV 2015.

    Examples
    --------
    >>> from zslearn.baselines import SSE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = SSE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    embedding_attributes = ("feature_scale_", "references_", "coef_", "kernel")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "alignment": [Interval(Real, 0, None, closed="left")],
        "reference_alpha": [Interval(Real, 0, None, closed="left")],
        "kernel": [StrOptions({"int", "relu"})],
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
        "fast": {
            "gamma": [0.3, 1.0, 3.0, 10.0],
            "alpha": [1e-5],
            "max_iter": [4, 8, 12],
        },
    }

    def __init__(
        self,
        gamma: float = 1.0,
        alpha: float = 1e-5,
        *,
        alignment: float = 1.0,
        reference_alpha: float = 0.0,
        kernel: str = "int",
        max_iter: int = 8,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.alignment = alignment
        self.reference_alpha = reference_alpha
        self.kernel = kernel
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that two features, as in its checks, are too few to score well."""
        tags = super().__sklearn_tags__()
        # One weight per feature serves all classes, and there is no bias.
        tags.classifier_tags.poor_score = True
        return tags

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """The samples serve all, patterns all of one `gamma`, and a descent all of its states."""
        objective, scale = _objective(training)
        signatures = training.signatures
        margins = cdist(signatures, signatures, "sqeuclidean")
        for same_gamma in group_by_params(variants, "gamma"):
            gamma = same_gamma[0].gamma
            patterns = simplex_least_squares(signatures, signatures, gamma=gamma).weights
            for group in group_by_params(
                same_gamma, "alpha", "alignment", "reference_alpha", "tol", "n_jobs"
            ):
                first = group[0]
                objective.describe(
                    patterns, margins, first.alpha, first.alignment, first.reference_alpha
                )
                for variant in _along_descent(objective, group):
                    variant.feature_scale_, variant.patterns_ = scale, patterns
                    variant._seen_signatures = signatures
                    yield variant

    def _take(self, state: Descent, history: list[float]) -> None:
        """Take over where the alternation is."""
        self.coef_ = state.w if self.kernel == "int" else -state.w
        self.references_ = state.V
        self.objective_ = state.value
        self.history_ = history
        self.n_iter_ = state.n_iter

    def embed(self, X: Array) -> Array:
        """Compare each row with the reference of every seen class: ⟨w, φ(x, v_c)⟩.

        Returns
        -------
        array of shape (n_samples, n_seen)
            The row's pattern over the seen classes.
        """
        X = X / self.feature_scale_
        if not is_foreign(X):
            responses = intersection_responses(X, self.references_, self.coef_)
            if self.kernel == "int":
                return responses
            return (X @ self.coef_.astype(X.dtype))[:, None] - responses
        xp = compat.array_namespace(X)
        references, coef = move_like(self.references_, X), move_like(self.coef_, X)
        columns = []
        for c in range(references.shape[0]):
            v = references[c, :][None, :]
            if self.kernel == "int":
                columns.append(xp.minimum(X, v) @ coef)
            else:
                columns.append(xp.clip(X - v, min=0.0) @ coef)
        return xp.stack(columns, axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Write each class as a mixture of the seen classes.

        Returns
        -------
        ndarray of shape (n_classes, n_seen)
            One pattern per row.
        """
        return simplex_least_squares(signatures, self._seen_signatures, gamma=self.gamma).weights


def _objective(training: Training) -> tuple[MarginObjective, float]:
    """The objective of the samples, in float32 and in units of their mean square norm."""
    rows = training.X_or_rows
    rows = rows if isinstance(rows, PreparedRows) else to_numpy(rows)
    blocks = row_blocks(rows.shape[0], row_bytes=2 * 8 * rows.shape[1])
    # By the largest entry first: squares of any scale are then finite.
    largest = max(float(np.abs(rows[block, :]).max()) for block in blocks) or 1.0
    squares = sum(
        float(np.sum((rows[block, :] / largest) ** 2, dtype=np.float64)) for block in blocks
    )
    scale = largest * float(np.sqrt(squares / rows.shape[0])) or 1.0
    return MarginObjective(DividedRows(rows, scale), training.y), scale


def _along_descent(objective: MarginObjective, variants: Sequence[SSE]) -> Iterator[Any]:
    """Variants that are states of one descent, the shortest first."""
    n_jobs = variants[0].n_jobs
    objective.n_jobs = joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)
    descent = alternate(objective, variants[0].tol)
    history: list[float] = []
    for variant in sorted(variants, key=lambda variant: variant.max_iter):
        while len(history) <= variant.max_iter:
            state = next(descent)
            history.append(state.value)
        variant._take(state, list(history))
        yield variant
