r"""Stochastic descent on ranking losses of bilinear scores.

With :math:`F_c = x^\top W a_c` each step adds to W columns in the span of the signatures, so that
:math:`W = W_0 + V^\top A` with one row of V for each class. A step then costs two products with
the S × D table V, whatever the number of attributes is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from zslearn.solvers._ranking import AnyFloats, hinge_of_worst, worst_violator
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
    step : float
        Length of the steps of the first epoch.
    power_t : float
        Epoch t takes steps of length step / t^power_t.
    batch_size : int
        Rows that share a step.
    rng : numpy.random.RandomState
        Shuffles the rows.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        step: float,
        power_t: float,
        batch_size: int,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.y = X, y
        self.step, self.power_t, self.batch_size, self.rng = step, power_t, batch_size, rng
        self.n_epochs = 0

    def epoch(self) -> None:
        """Visit every row once."""
        self.n_epochs += 1
        step = self.step / self.n_epochs**self.power_t
        self._visit_all(self.rng.permutation(len(self.y)), step)

    def _visit_all(self, order: NDArray[np.intp], step: float) -> None:
        """Visit rows in some order, a batch at a time."""
        with one_blas_thread():
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                self._descend(self.X[rows], self.y[rows], step)

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], step: float) -> None:
        """Take one step down the loss of a batch."""
        raise NotImplementedError


class BilinearDescent(Descent):
    r"""Descent on a loss of the scores :math:`X W A^\top`, from W = 0.

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
    loss : callable
        Takes scores and classes; gives losses and slopes.
    **options : object
        See :class:`Descent`.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        loss: Callable[[AnyFloats, NDArray[np.intp]], tuple[AnyFloats, AnyFloats]],
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.loss = loss
        self.signatures = (signatures - signatures.mean(axis=0)).astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.V = np.zeros((len(signatures), X.shape[1]), dtype=X.dtype)

    @property
    def coef(self) -> AnyFloats:
        """W, of shape (n_features, n_attributes)."""
        return self.V.T @ self.signatures

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], step: float) -> None:
        _, slope = self.loss((X @ self.V.T) @ self.gram, y)
        # Rows that violate nothing add zeros.
        active = slope.any(axis=1)
        self.V -= (step * slope[active]).T @ X[active]


class WorstViolatorDescent(BilinearDescent):
    """Descent on the loss of the worst violator, whose slope touches two classes per row.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures A.
    **options : object
        See :class:`Descent`.
    """

    def __init__(
        self, X: AnyFloats, y: NDArray[np.intp], signatures: Floats, **options: Any
    ) -> None:
        super().__init__(X, y, signatures, hinge_of_worst, **options)

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], step: float) -> None:
        loss, worst = worst_violator((X @ self.V.T) @ self.gram, y)
        active = loss > 0
        up_and_down(self.V, y[active], worst[active], step, X[active])


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
    **options : object
        See :class:`Descent`. The generator draws the negatives, too.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        start: AnyFloats,
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.signatures = signatures.astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.start = start.astype(X.dtype)
        n_maps, self.n_classes = len(start), len(signatures)
        self.P = self.signatures @ np.swapaxes(self.start, 1, 2)
        self.V = np.zeros((n_maps * self.n_classes, X.shape[1]), dtype=X.dtype)
        # What a batch changes, and a spare row: room that is used again and again.
        most = min(2 * self.batch_size, len(self.V))
        self._change = np.empty((most + 1, X.shape[1]), dtype=X.dtype)
        self._touched = np.empty(2 * len(self.V), dtype=np.intp)

    @property
    def coef(self) -> AnyFloats:
        """The maps, of shape (n_maps, n_features, n_attributes)."""
        V = self.V.reshape(len(self.start), self.n_classes, -1)
        return self.start + np.swapaxes(V, 1, 2) @ self.signatures

    def _visit_all(self, order: NDArray[np.intp], step: float) -> None:
        from zslearn.solvers._latent_steps import latent_epoch

        y = self.y[order]
        # The same numbers as if they were drawn batch by batch.
        other = self._negatives(y)
        for visited, X, rows in self._in_parts(order):
            latent_epoch(
                X, rows, y[visited], other[visited], self.P, self.V, self.gram, step,
                self.batch_size, self._change, self._touched,
            )  # fmt: skip

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


def up_and_down(
    table: AnyFloats,
    up: NDArray[np.intp],
    down: NDArray[np.intp],
    step: float,
    rows: AnyFloats,
) -> tuple[NDArray[np.intp], AnyFloats]:
    """Add each row to one row of a table and take it from another; several may meet in one.

    Parameters
    ----------
    table : ndarray of shape (n_targets, n_features)
        Changed in place.
    up : ndarray of int of shape (n_rows,)
        Row of the table that each is added to.
    down : ndarray of int of shape (n_rows,)
        Row of the table that each is taken from.
    step : float
        What the rows are multiplied by.
    rows : ndarray of shape (n_rows, n_features)
        What is added and taken.

    Returns
    -------
    touched : ndarray of int
        The rows of the table that changed, ascending.
    change : ndarray of shape (n_touched, n_features)
        What was added to them.
    """
    touched, position = np.unique(np.concatenate([up, down]), return_inverse=True)
    weights = np.repeat(np.asarray([step, -step], dtype=rows.dtype), len(rows))
    source = np.tile(np.arange(len(rows)), 2)
    spread = scipy.sparse.csr_array((weights, (position, source)), (len(touched), len(rows)))
    change = spread @ rows
    table[touched] += change
    return touched, change
