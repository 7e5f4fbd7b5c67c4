r"""Stochastic descent on ranking losses of bilinear scores.

With :math:`F_c = x^\top W a_c` each step adds to W columns in the span of the signatures. So
:math:`W = U^\top Q^\top` with an orthonormal basis Q of that span, in which the signatures have the
coordinates :math:`B = A Q`, and a step costs two products with a table U of as many rows as the
signatures have dimensions, or, for several maps, :math:`W = W_0 + V^\top A` with one row of V for
each class. Descents that differ in the length of their steps alone visit the same rows: they are
made side by side, as one product with the tables of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._ranking import AnyFloats
from zslearn.utils import Floats, one_blas_thread, row_blocks

# Rows that are made as they are read stay in cache from one pass over them to the next.
_CACHED_BYTES = 1 << 19


class Descent:
    """Epochs of stochastic descent over shuffled batches.

    A step is taken down the sum of a batch's slopes, not their mean: what an epoch achieves then
    hardly depends on the size of the batches.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, of which each epoch visits every one; or rows that are made as they are read, with the
        shape and the dtype of an array, by positions.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    power_t : float
        Epoch t takes steps that are shorter than those of the first by t^power_t.
    batch_size : int
        Rows that share a step.
    rng : numpy.random.RandomState
        Shuffles the rows.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        power_t: float,
        batch_size: int,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.y = X, y
        self.power_t, self.batch_size, self.rng = power_t, batch_size, rng
        self.n_epochs = 0

    def epoch(self) -> None:
        """Visit every row once."""
        self.n_epochs += 1
        self._visit_all(self.rng.permutation(len(self.y)), self.n_epochs**self.power_t)

    @property
    def coef(self) -> AnyFloats:
        """What was learned; of several descents by the first."""
        return self.coef_of(0)

    def coef_of(self, path: int) -> AnyFloats:
        """What one of the descents has learned, by its number; it must still be followed."""
        raise NotImplementedError

    def follow(self, paths: Sequence[int]) -> None:
        """Go on with some of the descents only, by their numbers."""

    def _visit_all(self, order: NDArray[np.intp], shorter: float) -> None:
        """Visit rows in some order, a batch at a time, in steps shorter by a factor."""
        with one_blas_thread():
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                self._descend(self.X[rows], self.y[rows], shorter)

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], shorter: float) -> None:
        """Take one step down the loss of a batch."""
        raise NotImplementedError


class BilinearDescent(Descent):
    r"""Descents on a loss of the scores :math:`X W A^\top`, from W = 0, side by side.

    Slopes add up to zero over the classes, and so W is the same whatever is added to all
    signatures: they are centred, for the sake of rounding.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures A.
    slopes : callable
        Takes scores and classes; gives the slopes of the loss.
    step : float or sequence of float
        Length of the steps of the first epoch, of each descent.
    **options : object
        See :class:`Descent`.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        slopes: Callable[[AnyFloats, NDArray[np.intp]], AnyFloats],
        step: float | Sequence[float],
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.slopes = slopes
        self.steps: Floats = np.atleast_1d(np.asarray(step, dtype=np.float64))
        self.paths = list(range(len(self.steps)))
        coordinates, self.basis = _in_their_span(signatures - signatures.mean(axis=0), X.dtype)
        self.coordinates = coordinates
        self.U = np.zeros((len(self.steps) * coordinates.shape[1], X.shape[1]), dtype=X.dtype)

    def coef_of(self, path: int) -> AnyFloats:
        """W of one of the descents, of shape (n_features, n_attributes)."""
        return self._tables()[self.paths.index(path)].T @ self.basis

    def follow(self, paths: Sequence[int]) -> None:
        """Go on with some of the descents only, by their numbers."""
        if list(paths) != self.paths:
            kept = [self.paths.index(path) for path in paths]
            self.U = self._tables()[kept].reshape(-1, self.U.shape[1])
            self.steps, self.paths = self.steps[kept], list(paths)

    def _tables(self) -> AnyFloats:
        return self.U.reshape(len(self.paths), -1, self.U.shape[1])

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], shorter: float) -> None:
        # One row for each sample and descent.
        scores = (X @ self.U.T).reshape(-1, self.coordinates.shape[1]) @ self.coordinates.T
        slope = self.slopes(scores, np.repeat(y, len(self.paths)))
        steps = np.tile((self.steps / shorter).astype(X.dtype), len(X))
        change = ((slope @ self.coordinates) * steps[:, None]).reshape(len(X), -1)
        # Rows that violate nothing would add zeros.
        active = change.any(axis=1)
        if not active.all():
            change, X = change[active], X[active]
        self.U -= change.T @ X


def _in_their_span(vectors: Floats, dtype: Any) -> tuple[AnyFloats, AnyFloats]:
    """Coordinates of vectors in an orthonormal basis of their span, and its rows."""
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    rounding = max(vectors.shape) * np.finfo(np.float64).eps * sizes[0]
    rank = max(1, int(np.sum(sizes > rounding)))
    left, sizes = left[:, :rank], sizes[:rank]
    # As combinations of the vectors: where all of these are zero, the basis is exactly so.
    basis = (left / np.where(sizes > 0, sizes, 1.0)).T @ vectors
    return (left * sizes).astype(dtype), basis.astype(dtype)


class LatentDescent(Descent):
    r"""Descent on :func:`latent_hinge` of the scores :math:`X W_k A^\top`, K maps at once.

    The classifiers :math:`P_k = A W_k^\top` of all classes are kept up to date, besides the maps:
    a row then costs no more for the maps that it does not change than their two inner products.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures A.
    start : ndarray of shape (n_maps, n_features, n_attributes)
        The maps to begin with.
    step : float
        Length of the steps of the first epoch.
    **options : object
        See :class:`Descent`. The generator draws the negatives, too.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        start: AnyFloats,
        step: float,
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.step = step
        self.signatures = signatures.astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.start = start.astype(X.dtype)
        n_maps, self.n_classes = len(start), len(signatures)
        self.P = self.signatures @ np.swapaxes(self.start, 1, 2)
        self.V = np.zeros((n_maps * self.n_classes, X.shape[1]), dtype=X.dtype)
        # What a batch changes: room that is used again and again.
        most = min(2 * self.batch_size, len(self.V))
        self._change = np.empty((most, X.shape[1]), dtype=X.dtype)
        self._touched = np.empty(2 * len(self.V), dtype=np.intp)
        # The map that won for each row's own class when it was last visited.
        self._winners = np.zeros(len(y), dtype=np.intp)

    def coef_of(self, path: int) -> AnyFloats:
        """The maps, of shape (n_maps, n_features, n_attributes)."""
        V = self.V.reshape(len(self.start), self.n_classes, -1)
        return self.start + np.swapaxes(V, 1, 2) @ self.signatures

    def _visit_all(self, order: NDArray[np.intp], shorter: float) -> None:
        from zslearn.solvers._latent_steps import latent_epoch

        y = self.y[order]
        # The same numbers as if they were drawn batch by batch.
        other = self._negatives(y)
        winners = self._winners[order]
        for visited, X, rows in self._in_parts(order):
            latent_epoch(
                X, rows, y[visited], other[visited], winners[visited], self.P, self.V, self.gram,
                self.step / shorter, self.batch_size, self._change, self._touched,
            )  # fmt: skip
        self._winners[order] = winners

    def _in_parts(
        self, order: NDArray[np.intp]
    ) -> Iterator[tuple[slice, AnyFloats, NDArray[np.intp]]]:
        """Which are visited at a time, an array that holds their rows, and where they lie in it.

        All at once where X is an array; else some batches, which are read in the order of visits.
        """
        if isinstance(self.X, np.ndarray):
            yield slice(0, len(order)), self.X, order
            return
        batch_bytes = self.batch_size * self.X.shape[1] * self.X.dtype.itemsize
        for batches in row_blocks(-(-len(order) // self.batch_size), batch_bytes, _CACHED_BYTES):
            visited = slice(batches.start * self.batch_size, batches.stop * self.batch_size)
            X = self.X[order[visited]]
            yield visited, X, np.arange(len(X))

    def _negatives(self, y: NDArray[np.intp]) -> NDArray[np.intp]:
        """Another class for each row, drawn evenly."""
        return (y + self.rng.randint(1, self.n_classes, size=len(y))) % self.n_classes
