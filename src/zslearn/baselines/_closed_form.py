"""What the methods with a closed form share: moments of the samples, and grids that reuse factors.

Fitting such a method falls in two parts. The dear part, moments of the samples and their
factorisation, depends on few hyper-parameters; the cheap part takes the factors to a solution under
the penalties. A grid pays the first part once for all settings that agree on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.base import Training, ZeroShotClassifier
from zslearn.utils import Array

Floats = NDArray[np.float64]

# Rows that are widened to float64 at a time.
_BLOCK = 4096


class ClosedForm(ZeroShotClassifier):
    """Base of methods that are fitted in two parts, `_factor` and `_solve`.

    A method writes these two, and `_factor_key` where `_factor` depends on hyper-parameters. All
    hyper-parameters in `grid_order` may differ between the settings of a grid that share factors.
    """

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Any:
        """Take the samples to factors that any setting with the same `_factor_key` can solve."""
        raise TypeError(f"{type(self).__name__} must define _factor(X, y, signatures).")

    def _solve(self, factors: Any, signatures: Floats) -> None:
        """Set the fitted attributes from the factors, which stay as they are."""
        raise TypeError(f"{type(self).__name__} must define _solve(factors, signatures).")

    def _factor_key(self) -> Hashable:
        """What `_factor` depends on besides the data."""
        return None

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> None:
        self._solve(self._factor(X, y, signatures), signatures)

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Settings that can share their factors do."""
        keys = [one._factor_key() for one in self._variants(settings)]
        for key in dict.fromkeys(keys):
            factors = None
            for i in [i for i, other in enumerate(keys) if other == key]:
                # Made here, so that no more than one fitted estimator is held.
                one = self._variant(settings[i])
                if factors is None:
                    factors = one._factor(training.X, training.y, training.signatures)
                one._solve(factors, training.signatures)
                yield i, one


class Moments(NamedTuple):
    """Sums over the training samples.

    Parameters
    ----------
    gram : array of shape (n_features, n_features)
        XᵀX, of centred features if so asked.
    class_sums : array of shape (n_classes, n_features)
        The sum of the samples of each class, centred likewise.
    mean : array of shape (n_features,)
        What was taken from each sample; zeros where the features are not centred.
    """

    gram: Array
    class_sums: Array
    mean: Array


def class_moments(
    X: Array,
    y: NDArray[np.intp],
    n_classes: int,
    *,
    center: bool,
    sample_weight: Floats | None = None,
) -> Moments:
    """Moments in float64 on the device of `X`, a block of rows at a time.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features.
    y : ndarray of shape (n_samples,)
        Class positions.
    n_classes : int
        Number of classes.
    center : bool
        Whether the mean of the samples is taken from them first.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts, in the mean too; by default 1.

    Returns
    -------
    Moments
        The sums.
    """
    xp = compat.array_namespace(X)
    device = compat.device(X)
    n_samples, n_features = X.shape
    classes = xp.arange(n_classes, device=device)
    labels = xp.asarray(y, device=device)
    weight = None
    if sample_weight is not None:
        weight = xp.asarray(sample_weight, dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    if center and weight is None:
        mean = xp.sum(X, axis=0, dtype=xp.float64) / n_samples
    elif center:
        mean = _weighted_mean(X, weight)
    gram = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    sums = xp.zeros((n_classes, n_features), dtype=xp.float64, device=device)
    for rows in row_blocks(n_samples):
        block = xp.astype(X[rows, :], xp.float64) - mean[None, :]
        member = xp.astype(labels[rows][None, :] == classes[:, None], xp.float64)
        weighted = block if weight is None else block * weight[rows][:, None]
        gram = gram + xp.matrix_transpose(block) @ weighted
        sums = sums + member @ weighted
    return Moments(gram, sums, mean)


def _weighted_mean(X: Array, weight: Array) -> Array:
    xp = compat.array_namespace(X)
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=compat.device(X))
    for rows in row_blocks(X.shape[0]):
        total = total + weight[rows] @ xp.astype(X[rows, :], xp.float64)
    return total / xp.sum(weight)


def row_blocks(n_rows: int) -> list[slice]:
    """Slices of at most `_BLOCK` rows that cover all of them."""
    return [slice(start, min(start + _BLOCK, n_rows)) for start in range(0, n_rows, _BLOCK)]


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
        One a column.
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
    signatures: Floats, counts: NDArray[np.intp], *, center: bool
) -> tuple[Floats, Floats, Floats]:
    """Spectrum of the signatures as the samples carry them, without a row for each sample.

    With S the signature of each sample's class as a column, SSᵀ = Aᵀ diag(n) A for the signatures
    A and sizes n of the classes: the singular values of diag(√n) A are all that is needed.

    Parameters
    ----------
    signatures : ndarray of shape (n_classes, n_attributes)
        Normalised signatures.
    counts : ndarray of shape (n_classes,)
        Samples of each class.
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
        mean = counts @ signatures / counts.sum()
    root = np.sqrt(counts)[:, None] * (signatures - mean)
    _, values, rows = np.linalg.svd(root, full_matrices=False)
    # Centring leaves rounding of the size of what was taken.
    size = np.sqrt(counts.sum()) * float(np.abs(signatures).max())
    resolution = max(root.shape) * np.finfo(float).eps * max(float(values[0]), size)
    rank = max(1, int((values > resolution).sum()))
    kept = np.where(values[:rank] > resolution, values[:rank], 0.0)
    return kept**2, rows[:rank].T, mean
