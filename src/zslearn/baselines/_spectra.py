"""Ridge regression and spectra that serve every penalty of a grid."""

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
    """(XᵀX + γI)⁻¹ XᵀY for any γ, where the columns of Y indicate the classes."""

    def __init__(self, moments: Moments) -> None:
        self.gram, self.class_sums, self.mean = moments

    def solve(self, alpha: float) -> Array:
        """Solution for one penalty, of shape (n_features, n_seen)."""
        xp = compat.array_namespace(self.gram)
        right = xp.matrix_transpose(self.class_sums)  # XᵀY
        if alpha > _rounding(self.gram, float(xp.linalg.trace(self.gram))):
            return solve_shifted(self.gram, alpha, right)
        # The penalty is below the rounding error of XᵀX: drop the directions of eigenvalue zero.
        values, vectors, _ = self._eigenbasis
        size = values + alpha
        nonzero = size > _rounding(vectors, float(xp.max(values)))
        weights = xp.where(nonzero, 1 / xp.where(nonzero, size, xp.ones_like(size)), 0 * size)
        return vectors @ (weights[:, None] * (xp.matrix_transpose(vectors) @ right))

    @cached_property
    def _eigenbasis(self) -> tuple[Array, Array, float]:
        return eigenbasis(self.gram)


def solve_shifted(matrix: Array, alpha: float, right: Array) -> Array:
    """(M + αI)⁻¹ B for a positive semi-definite M and α above its rounding error."""
    xp = compat.array_namespace(matrix)
    if isinstance(matrix, np.ndarray):
        shifted = matrix.copy()
        shifted.flat[:: len(matrix) + 1] += alpha
        # Cholesky's factorisation may fail by rounding; elimination below does not.
        with suppress(np.linalg.LinAlgError):
            factor = scipy.linalg.cho_factor(shifted, check_finite=False)
            return scipy.linalg.cho_solve(factor, right, check_finite=False)
    identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=compat.device(matrix))
    return xp.linalg.solve(matrix + alpha * identity, right)


def _rounding(gram: Array, size: float) -> float:
    """Rounding error of the eigenvalues of a matrix whose largest is `size`."""
    return float(gram.shape[0] * compat.array_namespace(gram).finfo(gram.dtype).eps * size)


def signature_spectrum(
    signatures: Floats, sizes: Floats, *, center: bool
) -> tuple[Floats, Floats, Floats]:
    """Eigenvalues and eigenvectors of Aᵀ diag(n) A for class sizes n, and the mean subtracted."""
    mean = np.zeros(signatures.shape[1])
    if center:
        mean = sizes @ signatures / sizes.sum()
    root = np.sqrt(sizes)[:, None] * (signatures - mean)
    _, values, rows = np.linalg.svd(root, full_matrices=False)
    # Centring leaves rounding errors of the size of the uncentred signatures.
    size = np.sqrt(sizes.sum()) * float(np.abs(signatures).max())
    rounding = max(root.shape) * np.finfo(float).eps * max(float(values[0]), size)
    rank = max(1, int((values > rounding).sum()))
    kept = np.where(values[:rank] > rounding, values[:rank], 0.0)
    return kept**2, rows[:rank].T, mean
