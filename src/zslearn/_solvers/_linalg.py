"""Inverses of matrices that may be singular, and eigenvectors shared by a grid of penalties."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from zslearn._utils._array import Array, Floats


def pseudo_inverse(matrix: Floats, *, ridge: float = 0.0) -> Floats:
    r"""The inverse or pseudo-inverse of a matrix.

    Square matrices that are certainly regular are inverted by elimination, which is much faster
    than a singular value decomposition. With a ridge ρ, :math:`(M^\top M + \rho I)^{-1} M^\top`,
    which maps W to the minimiser V of :math:`\|M V - W\|^2 + \rho \|V\|^2`.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    n_rows, n_columns = matrix.shape
    if ridge:
        if n_rows < n_columns:
            return pseudo_inverse(matrix.T, ridge=ridge).T
        gram = matrix.T @ matrix
        gram.flat[:: n_columns + 1] += ridge
        return np.asarray(scipy.linalg.solve(gram, matrix.T, assume_a="pos"))
    if n_rows == n_columns:
        inverse = _by_elimination(matrix)
        if inverse is not None:
            return inverse
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.sum(values > values[0] * max(matrix.shape) * np.finfo(float).eps))
    return (right[:rank].T / values[:rank]) @ left[:, :rank].T


def _by_elimination(matrix: Floats) -> Floats | None:
    """The inverse, or None if the matrix may be singular.

    The condition number in the 1-norm, which is cheap to estimate, is within a factor n of that in
    the 2-norm.
    """
    n = len(matrix)
    factor, pivots, failed = lapack.dgetrf(matrix)
    if failed != 0:
        return None
    reciprocal, failed = lapack.dgecon(factor, np.linalg.norm(matrix, 1))
    if failed != 0 or not reciprocal > n**2 * np.finfo(float).eps:
        return None
    return np.asarray(scipy.linalg.lu_solve((factor, pivots), np.eye(n)))


def nonzero(x: Array) -> Array:
    """`x` with zeros replaced by ones, as a divisor."""
    xp = compat.array_namespace(x)
    return xp.where(x != 0, x, xp.ones_like(x))


def eigenbasis(gram: Array) -> tuple[Array, Array, float]:
    """Eigenvalues, eigenvectors, and the mean of the non-zero eigenvalues."""
    xp = compat.array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    resolution = gram.shape[0] * xp.finfo(gram.dtype).eps * xp.max(xp.abs(values))
    positive = values > resolution
    values = xp.where(positive, values, xp.zeros_like(values))
    rank = int(xp.sum(xp.astype(positive, xp.int64)))
    return values, vectors, float(xp.sum(values)) / rank if rank else 1.0
