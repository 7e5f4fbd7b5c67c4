"""What many methods begin with: sums over the training rows, and the eigenvectors of their scatter.

Inside of :func:`~zslearn.utils.keeping_fits` both are kept. Searches of several methods on the same
folds then go through the rows of a fold once, and decompose its scatter once, for all of them:
XᵀX around the mean of the samples, and around zero, both follow from the scatter within classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import array_api_compat as compat
import numpy as np

from zslearn._version import __version__
from zslearn.scoring import PreparedRows
from zslearn.solvers import ClassSums, Moments, class_moments, class_sums, eigenbasis
from zslearn.utils import Array, fingerprint, keeps_fits, kept_fit

if TYPE_CHECKING:
    from zslearn.base._training import Training


# Sums that take fewer multiplications are not kept: computing them takes no longer than telling
# the rows from others does.
_WORTH_KEEPING = 1e9
# A larger table of features by features is not kept, in bytes: those of all folds would not find
# room beside each other, and each would be gone before it is asked for again.
_LARGEST_TABLE = 1 << 26


class RowSpectrum(NamedTuple):
    """XᵀX of the training rows in its eigenvectors, and the sum of each class.

    Parameters
    ----------
    values : array of shape (n_features,)
        Eigenvalues, ascending; those that are zero but for rounding are exactly 0.
    vectors : array of shape (n_features, n_features)
        Eigenvectors as columns.
    class_sums : array of shape (n_seen, n_features)
        The sum of the samples of each class, centred if the rows are.
    mean : array of shape (n_features,)
        What was taken from each sample; zeros where the rows are not centred.
    """

    values: Array
    vectors: Array
    class_sums: Array
    mean: Array

    @classmethod
    def of(cls, moments: Moments) -> RowSpectrum:
        """Decompose sums over samples."""
        values, vectors, _ = eigenbasis(moments.gram)
        return cls(values, vectors, moments.class_sums, moments.mean)

    @property
    def unit(self) -> float:
        """Mean of the eigenvalues that are not zero; 1.0 where all are."""
        xp = compat.array_namespace(self.values)
        rank = int(xp.sum(xp.astype(self.values > 0, xp.int64)))
        return float(xp.sum(self.values)) / rank if rank else 1.0


def are_kept(training: Training) -> bool:
    """Whether sums of these rows are kept: those of all rows of a fit, if many and not too wide."""
    rows = training.rows
    source = rows.source if isinstance(rows, PreparedRows) else rows
    if not (training.is_whole and len(training.y) > 0 and keeps_fits(source)):
        return False
    n_samples, n_features = source.shape
    if 8 * n_features**2 > _LARGEST_TABLE:
        return False
    return bool(n_features**2 * (n_samples + n_features) >= _WORTH_KEEPING)


def digest_of(training: Training) -> str:
    """A digest of the rows, their classes and weights, for fits that depend on nothing else."""
    rows = training.rows
    if isinstance(rows, PreparedRows):
        rows = [rows.source, rows.norm, rows.positions]
    return fingerprint(rows, training.y, training.n_seen, training.weights)


def sums_of(training: Training) -> ClassSums:
    """See :attr:`Training.sums`."""

    def compute() -> ClassSums:
        return class_sums(
            training.rows, training.y, training.classes, sample_weight=training.weights
        )

    if not training.keeps_sums:
        return compute()
    names = "means", "squares", "scatter"
    arrays = kept_fit(
        ("class sums", __version__, training.rows_key),
        lambda: {name: getattr(sums, name) for sums in [compute()] for name in names},
    )
    counts = training.counts.astype(np.int64)
    return ClassSums(training.classes, counts, training.sizes, **arrays)


def moments_of(training: Training, *, center: bool) -> Moments:
    """See :meth:`Training.moments`."""
    if training.keeps_sums:
        return Moments(*training.sums.moments(center=center))
    return class_moments(
        training.rows, training.y, training.n_seen, center=center, sample_weight=training.weights
    )


def spectrum_of(training: Training, *, center: bool) -> RowSpectrum:
    """See :meth:`Training.spectrum`."""
    if not training.keeps_sums:
        return RowSpectrum.of(moments_of(training, center=center))
    arrays = kept_fit(
        ("spectrum", __version__, training.rows_key, center),
        lambda: RowSpectrum.of(moments_of(training, center=center))._asdict(),
    )
    return RowSpectrum(**arrays)
