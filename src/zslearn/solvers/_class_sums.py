"""Sums over samples that never lie in memory together, and rows of which only these are known.

Counts, means and squared deviations of each class, and the products of deviations within the
classes, are merged by the update of Chan, Golub and LeVeque, around the means of either side, so
that nothing cancels. All that methods of class statistics or Gram matrices ask of their samples
follows from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Counts, means and scatter of classes; two objects add up as their samples do.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Labels, sorted.
    counts : ndarray of int of shape (n_classes,)
        Samples of each class.
    sizes : ndarray of shape (n_classes,)
        Weight of the samples of each class.
    means : ndarray of shape (n_classes, n_features)
        Mean of each class.
    squares : ndarray of shape (n_classes, n_features)
        Sums of squared deviations from the mean of the class.
    scatter : ndarray of shape (n_features, n_features)
        Products of deviations from the mean of the class, summed over all samples.
    """

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    sizes: Floats
    means: Floats
    squares: Floats
    scatter: Floats

    def __add__(self, other: object) -> ClassSums:
        if not isinstance(other, ClassSums):
            return NotImplemented
        if self.means.shape[1] != other.means.shape[1]:
            raise ValueError(
                f"Rows of {self.means.shape[1]} and of {other.means.shape[1]} features do not "
                "add up: every block needs the same width."
            )
        classes = np.union1d(self.classes, other.classes)
        a, b = self._spread(classes), other._spread(classes)
        means, squares, between = merge_deviations(
            a.sizes, a.means, a.squares, b.sizes, b.means, b.squares
        )
        return ClassSums(
            classes,
            a.counts + b.counts,
            a.sizes + b.sizes,
            means,
            squares,
            a.scatter + b.scatter + between.T @ between,
        )

    def _spread(self, classes: NDArray[Any]) -> ClassSums:
        """The same sums with a row for each of more classes, empty for the new ones."""
        if len(classes) == len(self.classes):
            return self
        rows = np.searchsorted(classes, self.classes)

        def wide(values: NDArray[Any]) -> NDArray[Any]:
            out = np.zeros((len(classes), *values.shape[1:]), dtype=values.dtype)
            out[rows] = values
            return out

        return ClassSums(
            classes,
            wide(self.counts),
            wide(self.sizes),
            wide(self.means),
            wide(self.squares),
            self.scatter,
        )

    def moments(self, *, center: bool) -> tuple[Floats, Floats, Floats]:
        """XᵀX and the sum of each class, around the mean of all samples or around zero.

        Parameters
        ----------
        center : bool
            Whether the mean of the samples is taken from them first.

        Returns
        -------
        gram, class_sums, mean : ndarray
            The same as :func:`class_moments` gives on the samples.
        """
        mean = np.zeros(self.means.shape[1])
        if center:
            mean = self.sizes @ self.means / self.sizes.sum()
        means = self.means - mean
        between = np.sqrt(self.sizes)[:, None] * means
        # Σ (x − m)(x − m)ᵀ = Σ within classes + Σ_c n_c (m_c − m)(m_c − m)ᵀ
        return self.scatter + between.T @ between, self.sizes[:, None] * means, mean


def merge_deviations(
    sizes_a: Floats,
    means_a: Floats,
    squares_a: Floats,
    sizes_b: Floats,
    means_b: Floats,
    squares_b: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Merge means and squared deviations of the same classes in two sets of samples.

    Parameters
    ----------
    sizes_a, sizes_b : ndarray of shape (n_classes,)
        Weight of the samples of each class in either set, not both zero.
    means_a, means_b : ndarray of shape (n_classes, n_features)
        Means; anything for a class without samples.
    squares_a, squares_b : ndarray of shape (n_classes, n_features)
        Sums of squared deviations.

    Returns
    -------
    means, squares : ndarray of shape (n_classes, n_features)
        Of both sets together.
    between : ndarray of shape (n_both, n_features)
        One row for each class that has samples in both: what `between.T @ between` adds to the
        products of deviations.
    """
    share = sizes_b / (sizes_a + sizes_b)
    delta = means_b - means_a
    weight = sizes_a * share
    both = weight > 0
    between = np.sqrt(weight[both])[:, None] * delta[both]
    means = means_a + share[:, None] * delta
    squares = squares_a + squares_b
    squares[both] += between**2
    return means, squares, between


class SummedRows(ABC):
    """Samples that lie elsewhere, in the place of `X`: only their sums are in memory.

    :func:`class_moments`, :func:`class_means` and :func:`class_squares` take it for `X`.

    Parameters
    ----------
    sums : ClassSums
        Of all samples.
    """

    def __init__(self, sums: ClassSums) -> None:
        self.sums = sums

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return int(self.sums.counts.sum()), self.sums.means.shape[1]

    @abstractmethod
    def squares_along(self, components: Floats) -> Floats:
        """Sums of squared deviations along directions, by one more pass over the samples.

        Parameters
        ----------
        components : ndarray of shape (n_features, n_dims)
            Directions as columns.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            For each class.
        """
