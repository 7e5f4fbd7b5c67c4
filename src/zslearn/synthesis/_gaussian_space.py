r"""The space of Gaussian exemplars: unit covariance within classes, axes along the class means.

With :math:`\Sigma` the pooled covariance within the seen classes, along the principal components of
the samples, and :math:`\Sigma_\rho = (1 - \rho) \Sigma + \rho \bar\sigma^2 I` the same shrunk to
its mean variance, a sample becomes

.. math:: z = R^\top \Sigma_\rho^{-1/2} P (x - \bar x),

with P the components, :math:`\bar x` the mean of the class means, and R the principal axes of the
whitened class means. These lie in at most S − 1 dimensions; what is orthogonal to all of them
tells no two classes apart and is left out.

Samples are then brought to a common norm r, the root of their mean squared norm. The mean of a
class follows from its statistics: a sample of class c has a squared norm of about
:math:`\|y_c\|^2 + t`, with :math:`y_c` the mean of the class and t the variance within classes
summed over the dimensions, so that the mean becomes :math:`r y_c / \sqrt{\|y_c\|^2 + t}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import scipy.linalg

from zslearn.base import Training
from zslearn.synthesis._exemplars import ExemplarSpaces
from zslearn.synthesis._statistics import ClassStatistics
from zslearn.synthesis._whitening import within_spectrum
from zslearn.utils import Array, Floats, InputWarning, move_like, unit_rows, warn_user

# Variances and singular values that are a smaller share of the largest are rounding error.
_ROUNDING = 1e-12
# In fewer dimensions samples keep their norm, which then tells classes apart.
_FEWEST_DIMENSIONS = 8


@dataclass(frozen=True, eq=False)
class WhitenedSpace:
    """A map of features, and the class means in its image.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_dims)
        From features to the space.
    offset : ndarray of shape (n_dims,)
        What is taken from the product: the mean of the class means.
    norm : float or None
        The norm that samples are brought to next; None leaves them as they are.
    center : ndarray of shape (n_dims,)
        What is taken last: the mean of the class means again.
    means : ndarray of shape (n_seen, n_dims)
        Means of the seen classes; their own mean is zero.
    """

    matrix: Floats
    offset: Floats
    norm: float | None
    center: Floats
    means: Floats

    @classmethod
    def of(
        cls, matrix: Floats, offset: Floats, means: Floats, sizes: Floats, within: float
    ) -> Self:
        """Bring samples to a common norm, that of an average sample.

        Parameters
        ----------
        matrix, offset, means : ndarray
            The space before.
        sizes : ndarray of shape (n_seen,)
            Weight of the samples of each class.
        within : float
            t: variance within classes, summed over the dimensions.

        Returns
        -------
        WhitenedSpace
            The space after.
        """
        squares = (means**2).sum(axis=1) + within
        norm = float(np.sqrt(sizes @ squares / sizes.sum()))
        scaled = means * (norm / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]
        center = scaled.mean(axis=0)
        return cls(matrix, offset, norm, center, scaled - center)


def into_space(
    X: Array, matrix: Floats, offset: Floats, norm: float | None, center: Floats
) -> Array:
    """Take features of any library into a space.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features.
    matrix, offset, norm, center : ndarray, ndarray, float or None, ndarray
        Of a :class:`WhitenedSpace`.

    Returns
    -------
    array of shape (n_samples, n_dims)
        Whitened samples.
    """
    z = X @ move_like(matrix, X) - move_like(offset, X)[None, :]
    return z if norm is None else unit_rows(z) * norm - move_like(center, X)[None, :]


class WhitenedSpaces:
    """Spaces of one set of samples, each computed once.

    Parameters
    ----------
    training : Training
        Samples and signatures; only the statistics are read.
    statistics : ClassStatistics
        Of the samples.
    widths : sequence of (int or None)
        Values of `n_components`.
    """

    def __init__(
        self, training: Training, statistics: ClassStatistics, widths: Sequence[int | None]
    ) -> None:
        self.statistics = statistics
        self._projections = ExemplarSpaces(training, statistics, widths)
        self._within = cache(self._decomposed)
        # The same object comes for the same arguments, so that samples are embedded once.
        self.space = cache(self._space)

    def _decomposed(self, width: int | None) -> tuple[Floats, Floats]:
        """The spectrum within classes along the components."""
        return within_spectrum(self.statistics, self._projections.projection(width).components)

    def _space(self, width: int | None, shrinkage: float, common_norm: bool) -> WhitenedSpace:
        projection = self._projections.projection(width)
        values, vectors = self._within(width)
        # The mean of the class means, not of the samples: every class counts alike from here on.
        center = projection.exemplars.mean(axis=0)
        means = (projection.exemplars - center) @ vectors
        variance = float(values.mean())
        between = float((means**2).mean())
        if variance <= _ROUNDING * between:
            warn_user(
                "There is no deviation within the seen classes to whiten by, as with one sample "
                "per class: GaussianEXEM takes that between them in its place.",
                InputWarning,
            )
            values, variance = np.zeros_like(values), between
        shrunk = (1 - shrinkage) * values + shrinkage * variance if variance > 0 else values + 1.0
        # With little shrinkage, a direction without any variance must not count for everything.
        roots = np.sqrt(np.maximum(shrunk, _ROUNDING * max(variance, float(shrunk.max()))))
        means = means / roots
        _, lengths, axes = scipy.linalg.svd(means, full_matrices=False)
        rank = max(1, int((lengths > np.sqrt(_ROUNDING) * lengths[0]).sum()))
        axes = _with_sign(axes[:rank])
        matrix = (vectors / roots) @ axes.T
        offset = center @ matrix
        if projection.components is not None:
            matrix = projection.components.T @ matrix
            offset = offset + projection.mean @ matrix
        means = means @ axes.T
        if not common_norm or rank < _FEWEST_DIMENSIONS:
            return WhitenedSpace(matrix, offset, None, np.zeros(rank), means)
        sizes = self.statistics.sizes
        share = max(float(sizes.sum()) - len(sizes), 1.0) / float(sizes.sum())
        within = share * float((axes**2 @ (values / roots**2)).sum())
        return WhitenedSpace.of(matrix, offset, means, sizes, within)


def _with_sign(rows: Floats) -> Floats:
    """Rows whose largest entry is positive, so that a decomposition leaves no choice."""
    largest = np.abs(rows).argmax(axis=1)
    signs = np.where(rows[np.arange(len(rows)), largest] < 0, -1.0, 1.0)
    return rows * signs[:, None]
