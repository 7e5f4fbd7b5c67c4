"""The state of the dual ascent of Crammer–Singer: its points, the U they make, looks and visits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Floats, row_blocks

# Rows that are visited together: their inner products must stay cheap beside their scores, and what
# is compiled must return within about a second, which for very many classes takes fewer rows.
_VISITED_TOGETHER = 128
_OPERATIONS = 1 << 29
# Visits to each row of a block while its scores are at hand.
_SWEEPS = 3
# Passes over the open rows between two looks at all rows.
PASSES = 4
# Classes without weight that a row's visits keep an eye on, those that score highest.
_SPARE = 8
# A product with single classifiers takes as long as one with so many times as many at once.
_SINGLE_PRODUCTS = 6
# Bytes of inner products of blocks that may be kept from one pass to the next.
_KEPT_PRODUCTS = 1 << 26


class Look(NamedTuple):
    """What a look at all rows tells."""

    objective: float
    dual_value: float
    gap: float
    row_gaps: Floats
    penalty: float


class Ascent:
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
        #: Classes that may soon have weight, row after row, and where those of each row start.
        self.likely: tuple[NDArray[np.int32], NDArray[np.intp]] | None = None
        # From U = 0 the margins alone do not tell which classes will.
        self.is_fresh = start is None
        #: Whether classes are so many that some may be left out.
        self.has_many = mixing is None and rows.n_classes > _SINGLE_PRODUCTS * _SPARE
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
            if self._is_few(int(np.count_nonzero(self.dual[rows])), self.dual[rows].size):
                from zslearn.solvers._svm_few_classes import add_pulls

                block = np.ascontiguousarray(self.X[rows])
                add_pulls(block, self.y[rows], self.dual[rows], self._weights_of(rows), total)
                continue
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

    def _is_few(self, count: int, size: int) -> bool:
        """Whether entries of a table of rows by classes are better treated one by one."""
        return self.has_many and _SINGLE_PRODUCTS * count <= size

    def _weights_of(self, rows: slice | NDArray[np.intp]) -> Floats:
        """How much some rows count."""
        return np.ones(len(self.y[rows])) if self.weights is None else self.weights[rows]

    def _weigh(self, table: Floats, rows: slice | NDArray[np.intp]) -> Floats:
        """What belongs to some rows, times how much they count."""
        return table if self.weights is None else table * self.weights[rows, None]

    def _sum(self, by_row: Floats) -> float:
        """The sum over rows, each as often as it counts."""
        return float(np.sum(by_row) if self.weights is None else self.weights @ by_row)

    def _block(self, rows: slice | NDArray[np.intp]) -> Floats:
        return self.X[rows].astype(np.float64, copy=False)

    @property
    def may_glance(self) -> bool:
        """Whether looks in single precision save time: then visits take less than looks."""
        return self.has_many and self.dtype == np.float32

    def look(self, *, exact: bool = True) -> Look:
        """Objective and gap at U(p), which is made afresh: rounding does not pile up.

        Otherwise they are those of single precision, at U as visits have left it.
        """
        rows_of = self._block if exact else self.visited.__getitem__
        if exact or not hasattr(self, "base"):
            self.base = self._make_base()
        coefficients = self._coefficients().astype(np.float64 if exact else self.dtype, copy=False)
        row_gaps, losses, linear = (np.empty(len(self.y)) for _ in range(3))
        likely = []
        for rows in self._blocks():
            labels = self.y[rows]
            margins = self.margins[labels]
            scores = (rows_of(rows) @ coefficients.T).astype(np.float64, copy=False)
            own = scores[np.arange(len(labels)), labels]
            scores += margins
            top = scores.max(axis=1)
            row_gaps[rows] = top - np.einsum("nc,nc->n", self.dual[rows], scores)
            losses[rows] = top - own
            linear[rows] = np.einsum("nc,nc->n", self.dual[rows], margins)
            if self.has_many and not self.is_fresh:
                from zslearn.solvers._svm_few_classes import likely_classes

                likely.append(likely_classes(scores, self.dual[rows], _SPARE))
        self._keep(likely)
        n = len(self.y)
        penalty = 0.5 * self.alpha * float(np.sum(self.base * self.base))
        return Look(
            self._sum(losses) / n + penalty,
            self._sum(linear) / n - penalty,
            self._sum(np.maximum(row_gaps, 0)) / n,
            row_gaps,
            penalty,
        )

    def _keep(self, likely: list[tuple[NDArray[np.int32], NDArray[np.intp]]]) -> None:
        """Keep the likely classes of all rows where they are few."""
        self.likely = None
        if likely:
            classes = np.concatenate([found for found, _ in likely])
            counts = np.concatenate([found for _, found in likely])
            if self._is_few(len(classes), self.dual.size):
                self.likely = classes, np.concatenate([[0], np.cumsum(counts)])

    def rounding(self) -> float:
        """How far the scores of a visit may be off, were all classifiers as long as the longest."""
        if self.dtype == np.float64:
            return 0.0
        lengths = np.linalg.norm(self._coefficients(), axis=1)
        return float(np.finfo(self.dtype).eps) * self.length * float(lengths.max())

    def widen(self) -> None:
        """Compute in double precision from now on."""
        self.visited, self.dtype = self.X, np.dtype(np.float64)

    def open_rows(self, look: Look, wanted: float) -> NDArray[np.intp]:
        """Rows that are not at their optimum, or between classes, where others move them."""
        bound = 0.1 * min(wanted, look.gap)
        between = self.dual.max(axis=1) < 1
        return np.flatnonzero(between | (look.row_gaps > bound))

    def improve(
        self, open_rows: NDArray[np.intp], n_passes: int, rng: np.random.RandomState
    ) -> int:
        """Visit some rows so many times, or fewer until a look tells more; how often is said."""
        if self.likely is not None:
            self._visit_likely(open_rows, n_passes, rng, *self.likely)
            return n_passes
        if self.is_fresh and self.has_many:
            n_passes = 1
        for _ in range(n_passes):
            self._visit(rng.permutation(open_rows))
        self.is_fresh = False
        return n_passes

    def _visit(self, order: NDArray[np.intp]) -> None:
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

    def _visit_likely(
        self,
        open_rows: NDArray[np.intp],
        n_passes: int,
        rng: np.random.RandomState,
        classes: NDArray[np.int32],
        starts: NDArray[np.intp],
    ) -> None:
        """Improve the dual points of some rows within their likely classes, block by block.

        Blocks stay the same, so that their inner products serve all passes; their order changes.
        """
        from zslearn.solvers._svm_few_classes import improve_few

        base = self.base.astype(self.dtype)
        order = rng.permutation(open_rows)
        blocks = [
            order[first : first + _VISITED_TOGETHER]
            for first in range(0, len(order), _VISITED_TOGETHER)
        ]
        room = len(order) * _VISITED_TOGETHER * self.dtype.itemsize <= _KEPT_PRODUCTS
        products: dict[int, NDArray[Any]] = {}
        for _ in range(n_passes):
            for number in rng.permutation(len(blocks)).tolist():
                rows = blocks[number]
                X, places, gram = self._few_rows(rows, products.get(number))
                if room:
                    products[number] = gram
                steps = self.scale * self._weights_of(rows)
                improve_few(
                    X, places, rows, self.y, classes, starts, steps, gram, self.margins, base,
                    self.dual, _SWEEPS,
                )  # fmt: skip
        self.base = base.astype(np.float64)

    def _few_rows(
        self, rows: NDArray[np.intp], gram: NDArray[Any] | None
    ) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[Any]]:
        """Where some rows are: an array, their places in it, and their inner products."""
        X, places = self.visited, rows
        if gram is None or not isinstance(X, np.ndarray) or X.dtype != self.dtype:
            X, places = self.visited[rows].astype(self.dtype, copy=False), np.arange(len(rows))
            gram = X @ X.T if gram is None else gram
        return X, places, gram
