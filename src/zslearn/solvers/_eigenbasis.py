"""Eigenvectors that serve every penalty of a grid."""

from __future__ import annotations

import array_api_compat as compat

from zslearn.utils import Array


def eigenbasis(gram: Array) -> tuple[Array, Array, float]:
    """Eigenvalues, eigenvectors and the mean of the eigenvalues that are not zero.

    Parameters
    ----------
    gram : array of shape (n, n)
        Symmetric, no negative eigenvalues but by rounding.

    Returns
    -------
    values : array of shape (n,)
        Those that are zero but for rounding are exactly 0.
    vectors : array of shape (n, n)
        Eigenvectors as columns.
    mean : float
        The unit of relative penalties; 1.0 where all eigenvalues are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import eigenbasis
    >>> values, vectors, mean = eigenbasis(np.diag([0.0, 2.0, 4.0]))
    >>> values, mean
    (array([0., 2., 4.]), 3.0)
    """
    xp = compat.array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    resolution = gram.shape[0] * xp.finfo(gram.dtype).eps * xp.max(xp.abs(values))
    positive = values > resolution
    values = xp.where(positive, values, xp.zeros_like(values))
    rank = int(xp.sum(xp.astype(positive, xp.int64)))
    return values, vectors, float(xp.sum(values)) / rank if rank else 1.0
