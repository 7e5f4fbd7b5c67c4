"""Eigenvectors that serve every penalty of a grid."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np

from zslearn.utils import Array, Floats


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
    """
    xp = compat.array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    resolution = gram.shape[0] * xp.finfo(gram.dtype).eps * xp.max(xp.abs(values))
    positive = values > resolution
    values = xp.where(positive, values, xp.zeros_like(values))
    rank = int(xp.sum(xp.astype(positive, xp.int64)))
    return values, vectors, float(xp.sum(values)) / rank if rank else 1.0


def weighted_rows(
    signatures: Floats, sizes: Floats, *, center: bool
) -> tuple[Floats, Floats, Floats]:
    """Spectrum of the signatures as the samples carry them, without a row for each sample.

    With S the signature of each sample's class as a column, SSᵀ = Aᵀ diag(n) A for the signatures
    A and sizes n of the classes: the singular values of diag(√n) A are all that is needed.

    Parameters
    ----------
    signatures : ndarray of shape (n_classes, n_attributes)
        Normalised signatures.
    sizes : ndarray of shape (n_classes,)
        Weight of the samples of each class; their number where all count the same.
    center : bool
        Whether the mean over the samples is taken from the signatures first.

    Returns
    -------
    values : ndarray of shape (rank,)
        Eigenvalues of SSᵀ, largest first, at least one; those that are zero are left out.
    vectors : ndarray of shape (n_attributes, rank)
        Eigenvectors.
    mean : ndarray of shape (n_attributes,)
        What was taken from each signature.
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
