r"""The max-margin objective of SSE; :mod:`zslearn.baselines._sse_descent` descends in it.

With the mixture patterns of the seen classes as rows of Z, the responses
:math:`e_{nc} = \langle w, \min(x_n, v_c) \rangle`, the scores :math:`F = E Z^\top`, the mean scores
:math:`\bar F_{ys}` of class y's samples for class s, and the margins :math:`\Delta_{ys}`,

.. math:: J(w, V) = \frac{\alpha}{2} \|w\|^2 + \frac{\rho}{2S} \sum_c \|v_c\|^2
    + \frac{\lambda}{2S(S-1)} \sum_{y \ne s} [\Delta_{ys} + \bar F_{ys} - \bar F_{yy}]_+^2
    + \frac{1}{2S(S-1)} \sum_y \frac{1}{N_y} \sum_{n \in y} \sum_{s \ne y}
      [\Delta_{ys} + F_{ns} - F_{ny}]_+^2.

A pass over all (sample, class, feature) triples is nearly all the cost there is. Scores are linear
in w: one pass along a direction serves all trials of its length. Nothing larger than samples ×
classes is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
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
        """The scores, unless the samples in some rows show J to be far above that where they are F.

        Parameters
        ----------
        w, V : ndarray
            Weights and references.
        F : ndarray of shape (n_samples, n_classes)
            Scores under these weights and other references.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or None
            As :meth:`scores`.
        """
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
        from zslearn.baselines._sse_kernels import responses

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
        from zslearn.baselines._sse_kernels import hinges

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
