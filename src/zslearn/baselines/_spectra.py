"""Least squares for every penalty of a grid, and the spectrum of signatures."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import array_api_compat as compat
import numpy as np
import scipy.linalg

from zslearn._solvers._linalg import eigenbasis
from zslearn._utils._array import Array, Floats
from zslearn.base._class_statistics import Moments


class ClassRidge:
    """(XᵀX + γI)⁻¹ XᵀY for any γ, with Y the indicators of the classes.

    Each penalty is solved for by elimination; one below the rounding of XᵀX in its eigenvectors,
    which tell what is zero.
    """

    def __init__(self, moments: Moments) -> None:
        self.gram, self.class_sums, self.mean = moments

    def solve(self, alpha: float) -> Array:
        """(XᵀX + γI)⁻¹ XᵀY, of shape (n_features, n_seen)."""
        xp = compat.array_namespace(self.gram)
        # XᵀY: the sum of each class as a column.
        right = xp.matrix_transpose(self.class_sums)
        if alpha > resolution(self.gram, float(xp.linalg.trace(self.gram))):
            return solve_shifted(self.gram, alpha, right)
        values, vectors, _ = self._eigenbasis
        size = values + alpha
        # Where neither is more than rounding there is nothing of XᵀY.
        there = size > resolution(vectors, float(xp.max(values)))
        size = xp.where(there, size, xp.ones_like(size))
        weights = xp.where(there, 1 / size, xp.zeros_like(size))
        return vectors @ (weights[:, None] * (xp.matrix_transpose(vectors) @ right))

    @cached_property
    def _eigenbasis(self) -> tuple[Array, Array, float]:
        return eigenbasis(self.gram)


def solve_shifted(matrix: Array, alpha: float, right: Array) -> Array:
    """(M + αI)⁻¹ times a matrix, for M without negative eigenvalues and α beyond its rounding."""
    xp = compat.array_namespace(matrix)
    if isinstance(matrix, np.ndarray):
        shifted = matrix.copy()
        shifted.flat[:: len(matrix) + 1] += alpha
        # Where rounding leaves it without a factor of Cholesky's, elimination does.
        with suppress(np.linalg.LinAlgError):
            factor = scipy.linalg.cho_factor(shifted, check_finite=False)
            return scipy.linalg.cho_solve(factor, right, check_finite=False)
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=compat.device(matrix))
    return xp.linalg.solve(matrix + alpha * identity, right)


def resolution(gram: Array, size: float) -> float:
    """What eigenvalues of a matrix that has none larger than `size` are computed to."""
    return float(gram.shape[0] * compat.array_namespace(gram).finfo(gram.dtype).eps * size)


def weighted_rows(
    signatures: Floats, sizes: Floats, *, center: bool
) -> tuple[Floats, Floats, Floats]:
    """Spectrum of the signatures as the samples carry them, without a row for each sample.

    With S the signature of each sample's class as a column, SSᵀ = Aᵀ diag(n) A for the signatures
    A and sizes n of the classes: the singular values of diag(√n) A are all that is needed.
    """
    mean = np.zeros(signatures.shape[1])
    if center:
        mean = sizes @ signatures / sizes.sum()
    root = np.sqrt(sizes)[:, None] * (signatures - mean)
    _, values, rows = np.linalg.svd(root, full_matrices=False)
    # Centring leaves rounding of the size of what was taken.
    size = np.sqrt(sizes.sum()) * float(np.abs(signatures).max())
    resolution = max(root.shape) * np.finfo(float).eps * max(float(values[0]), size)
    rank = max(1, int((values > resolution).sum()))
    kept = np.where(values[:rank] > resolution, values[:rank], 0.0)
    return kept**2, rows[:rank].T, mean
