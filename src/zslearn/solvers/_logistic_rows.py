"""The rows of logistic regressions as Newton's method multiplies them: less their mean, rotated."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Array, block_budget, one_blas_thread, row_blocks

# Rows that are centred at a time may take so much.
_COPY_BYTES = 1 << 26
# So much of the scatter between classes counts beside that within them. Where a class is in doubt
# rows lie close together: its curvature is that of the scatter within. Where there is little of
# this, as with one row per class, a part of the rest keeps the preconditioner from being blind.
_BETWEEN = 0.1
# A mean of so much, beside the rows, is rounding.
_CENTRED = 1e-6


class CentredRows:
    """Rows less their mean, which the intercepts take up.

    Parameters
    ----------
    rows : TrainingRows
        The rows; where their labels tell classes apart, so does the preconditioner.
    spectrum : (values, vectors), optional
        That of rows like these, to be taken for theirs.
    turned : array of shape (n_samples, n_features), optional
        The rows in these vectors in single precision, all of them less any vector.
    """

    def __init__(
        self,
        rows: TrainingRows,
        spectrum: tuple[Array, Array] | None = None,
        turned: Array | None = None,
    ) -> None:
        self.rows, self.xp, self._given = rows, rows.xp, spectrum
        self._given_rows = None if spectrum is None else turned

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, as a row."""
        n_samples = self.rows.shape[0]
        return self.rows.combine(self.rows.asarray(self.xp.ones((n_samples, 1)))) / n_samples

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the rows' covariance, most of it within classes.

        In float64, though computed in the precision of the rows: these serve as preconditioner.
        """
        if self._given is not None:
            return self._given
        xp, single = self.xp, self.rows.single
        mean = xp.astype(self.mean, single.dtype)
        gram = 0.0
        for rows in self._blocks(single):
            centered = single[rows, :] - mean
            gram = gram + xp.astype(xp.matrix_transpose(centered) @ centered, xp.float64)
        gram = (gram - (1 - _BETWEEN) * self._between()) / single.shape[0]
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(xp.astype(gram, single.dtype))
        values, vectors = xp.astype(values, xp.float64), xp.astype(vectors, xp.float64)
        return xp.where(values > 0, values, xp.zeros_like(values)), vectors

    def _between(self) -> Array:
        """Scatter of the class means, each as often as it has rows."""
        xp, y = self.xp, self.rows.y
        present, codes = np.unique(y, return_inverse=True)
        counts = self.rows.asarray(np.bincount(codes))[:, None]
        member = self.rows.asarray(np.eye(len(present))[codes])
        means = self.combine(member) / xp.sqrt(counts)
        return xp.matrix_transpose(means) @ means

    @cached_property
    def single(self) -> Array:
        """The rows in the eigenvectors, in single precision unless they are few."""
        given = self._given_rows
        if given is None or given.dtype != self.rows.single.dtype:
            return self._turned(self.rows.single)
        mean = self.xp.sum(given, axis=0, keepdims=True, dtype=self.xp.float64) / given.shape[0]
        # Those of all rows are centred already, but for rounding.
        if float(self.xp.max(self.xp.abs(mean))) <= _CENTRED * self.rows.mean_square**0.5:
            return given
        return given - self.xp.astype(mean, given.dtype)

    @cached_property
    def double(self) -> Array:
        """The rows in the eigenvectors, in double precision."""
        return self._turned(self.rows.double)

    def _turned(self, X: Array) -> Array:
        dtype, astype = X.dtype, self.xp.astype
        mean, vectors = astype(self.mean, dtype), astype(self.spectrum[1], dtype)
        out = self.xp.empty(X.shape, dtype=dtype, device=self.rows.device)
        for rows in self._blocks(X):
            out[rows, :] = (X[rows, :] - mean) @ vectors
        return out

    def _blocks(self, X: Array) -> list[slice]:
        """Rows a few at a time; all at once where they are few."""
        return row_blocks(X.shape[0], 2 * 8 * X.shape[1], max(block_budget(X), _COPY_BYTES))

    def scores(self, coef: Array) -> Array:
        """Inner products of the centred rows with coefficients, in float64."""
        return self.rows.scores(coef) - self.mean @ self.xp.matrix_transpose(coef)

    def combine(self, weights: Array) -> Array:
        """Sums of the centred rows under weights, in float64."""
        total = self.xp.sum(weights, axis=0)[:, None]
        return self.rows.combine(weights) - total * self.mean

    @cached_property
    def rounding(self) -> float:
        """The rounding of a sum of rows under weights that add up to one."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)
