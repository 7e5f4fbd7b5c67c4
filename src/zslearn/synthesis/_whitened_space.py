r"""The space of Gaussian exemplars: features whitened by the covariance within the seen classes.

With :math:`\Sigma` the pooled covariance within the seen classes, along the principal components of
the samples, and :math:`\Sigma_\rho = (1 - \rho) \Sigma + \rho \bar\sigma^2 I` the same shrunk to
its mean variance, a sample becomes

.. math:: z = R^\top \Sigma_\rho^{-1/2} P (x - \bar x),

with P the components, :math:`\bar x` the mean of the class means, and R the principal axes of the
whitened class means. These lie in at most S − 1 dimensions; what is orthogonal to all of them
tells no two classes apart and is left out. Classes with few samples, beside others with many, have
no part in the space: their means are mostly noise.

Samples are then scaled to a common norm r, the root of their mean squared norm. The mean of a
class follows from its statistics: a sample of class c has a squared norm of about
:math:`\|y_c\|^2 + t`, with :math:`y_c` the mean of the class and t the variance within classes
summed over the dimensions, so that the mean becomes :math:`r y_c / \sqrt{\|y_c\|^2 + t}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn._utils._array import Array, Floats, move_like, scaled_rows, unit_rows
from zslearn._utils._messages import InputWarning, warn_user
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._class_statistics import ClassStatistics
from zslearn.base._training import Training
from zslearn.synthesis._exemplars import ExemplarSpaces

# Variances and singular values that are a smaller share of the largest are rounding error.
_ROUNDING = 1e-12
# A class has few samples if it has at most so many, and less than this share of the median.
_FEW, _FEW_SHARE = 20, 0.75
# In fewer dimensions samples keep their norm, which then tells classes apart.
_FEWEST_DIMENSIONS = 8


@saved_part
@saves(
    center=Saved("n_features"),
    signal=Saved(least=0),
    whitening=Saved("n_features", None),
)
@dataclass(frozen=True, eq=False)
class Beyond:
    """Whitened directions that are orthogonal to all class means, where a further class may lie."""

    center: Floats  # prepared features
    # How far, from the squared distance of each class mean from the affine hull of the others,
    # less the noise of its samples, in units of the variance of one sample.
    signal: float
    whitening: Floats


@saved_part
@saves(
    {"beyond.center": Saved("n_features")},
    matrix=Saved("n_features", "n_dims"),
    offset=Saved("n_dims"),
    norm=Saved(above=0, optional=True),
    center=Saved("n_dims"),
    beyond=Saved(kind=Beyond, optional=True),
)
@dataclass(frozen=True, eq=False)
class WhitenedSpace:
    """A map of prepared features of any library."""

    matrix: Floats
    offset: Floats  # subtracted from the product: the mean of the class means
    norm: float | None  # what samples are scaled to next; None leaves them as they are
    center: Floats  # subtracted last: the mean of the class means again
    beyond: Beyond | None  # what the class means do not span

    def __call__(self, X: Array, columns: Floats | None = None) -> Array:
        """Samples in the space, and their products with columns that lie beyond it."""
        matrix, offset = self.matrix, self.offset
        if columns is not None and self.beyond is not None:
            matrix = np.concatenate([matrix, columns.T], axis=1)
            offset = np.concatenate([offset, columns @ self.beyond.center])
        z = X @ move_like(matrix, X) - move_like(offset, X)[None, :]
        if self.norm is None:
            return z
        n_dims = len(self.center)
        inside, largest, length = scaled_rows(z[:, :n_dims])
        inside = inside * self.norm - move_like(self.center, X)[None, :]
        further = z[:, n_dims:] / largest / length * self.norm
        return compat.array_namespace(z).concat([inside, further], axis=1)

    def centered(self, X: Floats) -> Floats:
        """Prepared features around the centre, scaled as the samples in the space are."""
        assert self.beyond is not None
        centered = X - self.beyond.center
        if self.norm is None:
            return centered
        return centered * self.norm / np.multiply(*scaled_rows(X @ self.matrix - self.offset)[1:])

    def columns(self, centered: Floats) -> Floats:
        """Rows q whose products with features are inner products beyond the space."""
        assert self.beyond is not None
        whitening, matrix = self.beyond.whitening, self.matrix
        return (centered @ whitening) @ whitening.T - (centered @ matrix) @ matrix.T


@dataclass(frozen=True, eq=False)
class SpaceOfClasses:
    """A space, and the seen classes in it."""

    space: WhitenedSpace
    means: Floats
    own: Floats  # unit vectors orthogonal to all other classes with many samples; else zeros
    centered: Floats  # means of classes with few samples, as `WhitenedSpace.centered` gives them


def few_samples(sizes: Floats) -> NDArray[np.bool_]:
    """Which classes have few samples beside the others: their means say little of the space."""
    few = (sizes <= _FEW) & (sizes < _FEW_SHARE * np.median(sizes))
    # The others must span a space.
    return few if (~few).sum() >= 2 else np.zeros_like(few)


class WhitenedSpaces:
    """Spaces of one set of samples, each computed once."""

    def __init__(
        self, training: Training, statistics: ClassStatistics, widths: Sequence[int | None]
    ) -> None:
        self.statistics = statistics
        self.few = few_samples(statistics.sizes)
        self._projections = ExemplarSpaces(training, statistics, widths)
        self._within: dict[int | None, tuple[Floats, Floats]] = {}
        self._spaces: dict[tuple[int | None, float], SpaceOfClasses] = {}

    def space(self, width: int | None, shrinkage: float) -> SpaceOfClasses:
        """The same object for the same width and shrinkage, so that samples are embedded once."""
        if (width, shrinkage) not in self._spaces:
            self._spaces[width, shrinkage] = self._space(width, shrinkage)
        return self._spaces[width, shrinkage]

    def _space(self, width: int | None, shrinkage: float) -> SpaceOfClasses:
        projection = self._projections.projection(width)
        if width not in self._within:
            self._within[width] = self.statistics.within_spectrum(projection.components)
        values, vectors = self._within[width]
        # The mean of the class means, not of the samples: every class counts the same from here on.
        many = ~self.few
        center = projection.exemplars[many].mean(axis=0)
        means = (projection.exemplars - center) @ vectors
        variance = float(values.mean())
        between = float((means[many] ** 2).mean())
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
        u, lengths, axes = scipy.linalg.svd(means[many], full_matrices=False)
        rank = max(1, int((lengths > np.sqrt(_ROUNDING) * lengths[0]).sum()))
        axes = _oriented(axes[:rank], means[many])
        whitening, start = vectors / roots, center
        matrix = whitening @ axes.T
        offset = center @ matrix
        if projection.components is not None:
            whitening, matrix = (
                projection.components.T @ whitening,
                projection.components.T @ matrix,
            )
            offset = offset + projection.mean @ matrix
            start = projection.mean + center @ projection.components
        sizes, noise = self.statistics.sizes, values / roots**2
        within = float((axes**2 @ noise).sum())
        rest = float(noise.sum()) - within
        # Whether each class has a direction of its own, which the others do not span.
        apart = 2 < rank + 1 == many.sum()
        beyond = None
        if apart and rank < len(noise) and rest > _ROUNDING * within:
            distances = 1 / ((u[:, :rank] / lengths[:rank]) ** 2).sum(axis=1)
            signal = max(0.0, float((distances / rest - 1 / sizes[many]).mean()))
            beyond = Beyond(start, signal, whitening)
        centered, means = self.statistics.means[self.few] - start, means @ axes.T
        norm, center = None, np.zeros(rank)
        if rank >= _FEWEST_DIMENSIONS:
            share = max(float(sizes.sum()) - len(sizes), 1.0) / float(sizes.sum())
            # The mean of few samples has a good part of their own deviation in it.
            left = np.where(self.few, 1 - 1 / np.maximum(sizes, 1.0), 1.0)
            squares = (means**2).sum(axis=1) + share * within * left
            norm = float(np.sqrt(sizes[many] @ squares[many] / sizes[many].sum()))
            factors = (norm / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]
            scaled, centered = means * factors, centered * factors[self.few]
            center = scaled[many].mean(axis=0)
            means = scaled - center
        own = np.zeros_like(means[many])
        if apart:
            own = unit_rows(np.linalg.pinv(means[many], rcond=np.sqrt(_ROUNDING)).T)
        space = WhitenedSpace(matrix, offset, norm, center, beyond)
        return SpaceOfClasses(space, means, own, centered)


def _oriented(axes: Floats, means: Floats) -> Floats:
    """Axes along which class means have a long tail on the positive side.

    A decomposition leaves the sign open. The tail does not depend on the basis that the axes are
    given in, as their entries do; where there is none, the largest entry is positive.
    """
    along = means @ axes.T
    tails = (along**3).sum(axis=0)
    has_tail = np.abs(tails) > _ROUNDING**0.5 * (np.abs(along) ** 3).sum(axis=0)
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    signs = np.where(np.where(has_tail, tails, largest) < 0, -1.0, 1.0)
    return axes * signs[:, None]
