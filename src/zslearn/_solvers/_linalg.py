"""Eigenvectors that serve every penalty of a grid."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import array_api_compat as compat
import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from zslearn._utils._array import Array, Floats

# The pseudo-inverse of a matrix, by elimination where that is certain to be the inverse.

# Columns of the inverse that are solved for at a time, so that signals are heard between them.
_COLUMNS = 256
# Below this many rows a decomposition takes less than a second.
_SMALL = 1000

_Result = TypeVar("_Result")


def pseudo_inverse(matrix: Floats, *, ridge: float = 0.0) -> Floats:
    r"""Invert a matrix; of a singular one, its pseudo-inverse.

    A square matrix that is certain to be regular is inverted by elimination, which takes a small
    part of the time of a singular value decomposition. Ctrl-C is heard meanwhile.

    With a ridge ρ, :math:`(M^\top M + \rho I)^{-1} M^\top`: what makes of W the V that minimises
    :math:`\|M V - W\|^2 + \rho \|V\|^2`.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    n_rows, n_columns = matrix.shape
    if ridge:
        return _with_ridge(matrix, ridge)
    if n_rows == n_columns:
        inverse = _by_elimination(matrix)
        if inverse is not None:
            return inverse
    left, values, right = heard(
        lambda: np.linalg.svd(matrix, full_matrices=False), when=min(matrix.shape) > _SMALL
    )
    rank = int(np.sum(values > values[0] * max(matrix.shape) * np.finfo(float).eps))
    return (right[:rank].T / values[:rank]) @ left[:, :rank].T


def _with_ridge(matrix: Floats, ridge: float) -> Floats:
    """(MᵀM + ρI)⁻¹ Mᵀ, or the same as Mᵀ (MMᵀ + ρI)⁻¹ where that is smaller."""
    n_rows, n_columns = matrix.shape
    if n_rows < n_columns:
        return _with_ridge(matrix.T, ridge).T
    gram = matrix.T @ matrix
    gram.flat[:: n_columns + 1] += ridge
    found: Floats = heard(
        lambda: scipy.linalg.solve(gram, matrix.T, assume_a="pos"), when=n_columns > _SMALL
    )
    return found


def _by_elimination(matrix: Floats) -> Floats | None:
    """The inverse; None where the matrix may be singular.

    The condition in the 1-norm, which costs little to estimate, is within a factor n of that in the
    2-norm: no singular value counts as zero above n² roundings.
    """
    n = len(matrix)
    norm = np.linalg.norm(matrix, 1)
    factor, pivots, failed = heard(lambda: lapack.dgetrf(matrix), when=n > _SMALL)
    if failed != 0:
        return None
    reciprocal, failed = lapack.dgecon(factor, norm)
    if failed != 0 or not reciprocal > n**2 * np.finfo(float).eps:
        return None
    inverse = np.empty((n, n))
    for start in range(0, n, _COLUMNS):
        columns = np.eye(n, min(_COLUMNS, n - start), -start)
        inverse[:, start : start + _COLUMNS] = scipy.linalg.lu_solve((factor, pivots), columns)
    return inverse


def heard(function: Callable[[], _Result], *, when: bool = True) -> _Result:
    """Call a function that takes long and hears no signal, so that Ctrl-C is heard at once.

    It runs on a thread of its own, which an interrupted caller leaves behind.
    """
    if not when or threading.current_thread() is not threading.main_thread():
        return function()
    found: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:  # handed to the caller
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]


def eigenbasis(gram: Array) -> tuple[Array, Array, float]:
    """Eigenvalues, eigenvectors and the mean of the eigenvalues that are not zero."""
    xp = compat.array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    resolution = gram.shape[0] * xp.finfo(gram.dtype).eps * xp.max(xp.abs(values))
    positive = values > resolution
    values = xp.where(positive, values, xp.zeros_like(values))
    rank = int(xp.sum(xp.astype(positive, xp.int64)))
    return values, vectors, float(xp.sum(values)) / rank if rank else 1.0
