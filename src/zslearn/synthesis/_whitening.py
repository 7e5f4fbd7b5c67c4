r"""Features whitened by the covariance within the seen classes, for EXEM.

With :math:`\Sigma = V \mathrm{diag}(e) V^\top` the pooled covariance within classes and
:math:`\bar\sigma^2` the mean of its eigenvalues, features become

.. math:: z = \mathrm{diag}\bigl((1 - \rho) e + \rho \bar\sigma^2\bigr)^{-1/2} V^\top (x - \bar x)

and are brought to unit norm again. :math:`\bar x` is the mean of the class means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from zslearn.base import Training
from zslearn.synthesis._statistics import ClassStatistics
from zslearn.utils import Array, Floats, move_like, saved_part, unit_rows

# Variances that are a smaller share of the mean are rounding error.
_ROUNDING = 1e-12


def within_spectrum(
    statistics: ClassStatistics, components: Floats | None = None
) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of the pooled covariance within classes.

    Parameters
    ----------
    statistics : ClassStatistics
        Of prepared features.
    components : ndarray of shape (n_components, n_features), optional
        Directions along which the covariance is taken; by default those of the features.

    Returns
    -------
    values, vectors : ndarray
        Ascending; none is negative.
    """
    scatter = statistics.scatter
    if components is not None:
        scatter = components @ scatter @ components.T
    freedom = max(float(statistics.sizes.sum()) - len(statistics.classes), 1.0)
    values, vectors = scipy.linalg.eigh((scatter + scatter.T) / (2 * freedom))
    return np.maximum(values, 0.0), vectors


@saved_part
@dataclass(frozen=True, eq=False)
class Whitening:
    """A map from features to whitened ones of unit norm.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        What features are multiplied by.
    offset : ndarray of shape (n_features,)
        What is taken from the product.
    """

    matrix: Floats
    offset: Floats

    @classmethod
    def of(cls, statistics: ClassStatistics, shrinkage: float) -> Whitening:
        """The map that statistics of the seen classes tell.

        Parameters
        ----------
        statistics : ClassStatistics
            Of prepared features.
        shrinkage : float
            ρ, share of the mean variance, in (0, 1].

        Returns
        -------
        Whitening
            The map.
        """
        values, vectors = within_spectrum(statistics)
        # Without any deviation all directions count alike.
        mean = float(values.mean()) or 1.0
        shrunk = (1 - shrinkage) * values + shrinkage * mean
        matrix = vectors / np.sqrt(np.maximum(shrunk, _ROUNDING * mean))
        return cls(matrix, statistics.means.mean(axis=0) @ matrix)

    def __call__(self, X: Array) -> Array:
        """Whiten rows of any library, in their precision."""
        return unit_rows(X @ move_like(self.matrix, X) - move_like(self.offset, X)[None, :])

    def training(self, training: Training) -> tuple[Training, ClassStatistics]:
        """What a method learns from when features are whitened, and its statistics."""
        whitened = replace(training, rows=self(training.X))
        return whitened, ClassStatistics.of_sums(whitened.sums)
