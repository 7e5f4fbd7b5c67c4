"""The largest eigenvalues of a symmetric matrix, on the host or beside other arrays."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
import scipy.linalg

from zslearn.utils import Array, Floats, on_device, to_numpy


def largest_eigenpairs(matrix: Floats, n: int, like: Array = None) -> tuple[Floats, Floats]:
    """The largest eigenvalues of a symmetric matrix with their vectors.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        Symmetric.
    n : int
        How many.
    like : array, optional
        Where it lies on a device, it is computed there.

    Returns
    -------
    values : ndarray of shape (n,)
        Descending.
    vectors : ndarray of shape (n, n_features)
        One row per value.
    """
    last = len(matrix) - 1
    if like is not None and on_device(like):
        # All of them: a device is faster at that than the host is at some.
        xp = compat.array_namespace(like)
        found = xp.linalg.eigh(xp.asarray(matrix, device=compat.device(like)))
        values, vectors = (to_numpy(part[..., last - n + 1 :]) for part in found)
    else:
        values, vectors = scipy.linalg.eigh(
            matrix, subset_by_index=(last - n + 1, last), driver="evr"
        )
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1].T)
