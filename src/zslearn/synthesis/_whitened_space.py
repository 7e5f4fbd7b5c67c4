r"""The whitened space of Gaussian EXEM.

With :math:`\Sigma` the pooled covariance within the seen classes along the principal components of
the samples, and :math:`\Sigma_\rho = (1 - \rho) \Sigma + \rho \bar\sigma^2 I` the same matrix
shrunk to its mean variance, a sample becomes

.. math:: z = R^\top \Sigma_\rho^{-1/2} P (x - \bar x),

where P are the components, :math:`\bar x` is the mean of the class means, and R the principal axes
of the whitened class means. These span at most S − 1 dimensions; directions orthogonal to all of
them do not separate any two seen classes and are dropped. Classes with few samples do not influence
the space, because their means are mostly noise.

Samples are then scaled to a common norm r, the root of their mean squared norm. Class means follow
from the statistics alone: samples of class c have a squared norm of about :math:`\|y_c\|^2 + t`,
where :math:`y_c` is the mean of the class and t the total variance within classes, so that the mean
becomes :math:`r y_c / \sqrt{\|y_c\|^2 + t}`.
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
from zslearn.synthesis._exemplars import ExemplarSpaces, Projection

# Variances and singular values below this share of the largest are rounding error.
_ROUNDING = 1e-12
#: Singular values of class means below this share of the largest are rounding error.
OWN_ROUNDING = np.sqrt(_ROUNDING)
# A class has few samples if it has at most this number, and less than this share of the median.
_FEW, _FEW_SHARE = 20, 0.75
# Upper bound of the mean leverage, which samples that span no more than themselves exceed.
_LARGEST_LEVERAGE = 0.9
# In fewer dimensions samples keep their norm, which then separates classes.
_FEWEST_DIMENSIONS = 8


@saved_part
@saves(
    center=Saved("n_features"),
    signal=Saved(least=0),
    whitening=Saved("n_features", None, optional=True),
)
@dataclass(frozen=True, eq=False)
class OrthogonalComplement:
    """Whitened directions orthogonal to all means of seen classes."""

    center: Floats  # of the prepared features
    # Variance of class means in these directions, in units of the variance of a sample: the squared
    # distance of each class mean from the affine hull of the others, less the sampling noise.
    signal: float
    whitening: Floats | None  # None if features are whitened, without their part in the space


@saved_part
@saves(
    {"complement.center": Saved("n_features")},
    matrix=Saved("n_features", "n_dims"),
    offset=Saved("n_dims"),
    norm=Saved(above=0, optional=True),
    center=Saved("n_dims"),
    complement=Saved(kind=OrthogonalComplement, optional=True),
)
@dataclass(frozen=True, eq=False)
class WhitenedSpace:
    """A map of prepared features of any array library."""

    matrix: Floats
    offset: Floats  # subtracted from the product: the mean of the class means
    norm: float | None  # to which samples are scaled next; None keeps their norm
    center: Floats  # subtracted last: the mean of the class means after scaling
    complement: OrthogonalComplement | None

    def __call__(self, X: Array, columns: Floats | None = None) -> Array:
        """Samples in the space, and their products with `columns` of the complement."""
        matrix, offset = self.matrix, self.offset
        if columns is not None and self.complement is not None:
            matrix = np.concatenate([matrix, columns.T], axis=1)
            offset = np.concatenate([offset, columns @ self.complement.center])
        z = X @ move_like(matrix, X) - move_like(offset, X)[None, :]
        if self.norm is None:
            return z
        n_dims = len(self.center)
        inside, largest, length = scaled_rows(z[:, :n_dims])
        inside = inside * self.norm - move_like(self.center, X)[None, :]
        products = z[:, n_dims:] / largest / length * self.norm
        return compat.array_namespace(z).concat([inside, products], axis=1)

    def centered(self, X: Array) -> Array:
        """Centred features, scaled like the samples in the space."""
        assert self.complement is not None
        centered = X - move_like(self.complement.center, X)[None, :]
        if self.norm is None:
            return centered
        z = X @ move_like(self.matrix, X) - move_like(self.offset, X)[None, :]
        _, largest, length = scaled_rows(z)
        return centered * (self.norm / largest / length)

    def columns(self, centered: Floats) -> Floats:
        """Rows whose products with features are inner products in the complement."""
        assert self.complement is not None
        whitening, matrix = self.complement.whitening, self.matrix
        if whitening is None:
            return centered
        return (centered @ whitening) @ whitening.T - (centered @ matrix) @ matrix.T


@dataclass(frozen=True, eq=False)
class SpaceOfClasses:
    """A whitened space, and the seen classes in it."""

    space: WhitenedSpace
    means: Floats
    own: Floats  # unit vectors orthogonal to all other classes with many samples, or zeros
    centered: Floats  # means of classes with few samples, as from `WhitenedSpace.centered`
    deviation: float  # mean squared deviation of a sample from its class, all directions whitened
    leverage: float  # mean influence of a sample on the covariance that whitens it

    def as_unseen(self, z: Floats, y: NDArray[np.intp]) -> Floats:
        """Samples without the component that only their own class spans, at the common norm."""
        own = self.own[y]
        z = z - (z * own).sum(axis=1, keepdims=True) * own
        if self.space.norm is None:
            return z
        return np.asarray(unit_rows(z + self.space.center) * self.space.norm - self.space.center)


def own_directions(means: Floats) -> Floats:
    """Unit vectors orthogonal to all other classes, or zeros if classes are dependent."""
    if not 2 < means.shape[1] + 1 == len(means):
        return np.zeros_like(means)
    q, r = scipy.linalg.qr(means, mode="economic")
    if np.abs(np.diag(r)).min() <= OWN_ROUNDING * np.abs(r[0, 0]):
        return np.asarray(unit_rows(np.linalg.pinv(means, rcond=OWN_ROUNDING).T))
    # The pseudo-inverse of independent columns, which takes a quarter of the time.
    return np.asarray(unit_rows(scipy.linalg.solve_triangular(r, q.T).T))


def few_samples(sizes: Floats) -> NDArray[np.bool_]:
    """Classes that have so few samples, compared with the others, that their means are noise."""
    few = (sizes <= _FEW) & (sizes < _FEW_SHARE * np.median(sizes))
    # At least two classes must span the space.
    return few if (~few).sum() >= 2 else np.zeros_like(few)


class WhitenedSpaces:
    """Whitened spaces of one training set, each computed once."""

    def __init__(
        self, training: Training, statistics: ClassStatistics, widths: Sequence[int | None]
    ) -> None:
        self.statistics = statistics
        self.few = few_samples(statistics.sizes)
        self._projections = ExemplarSpaces(training, statistics, widths)
        self._within: dict[int | None, tuple[Floats, Floats]] = {}
        self._spaces: dict[tuple[int | None, float], SpaceOfClasses] = {}

    def space(self, width: int | None, shrinkage: float) -> SpaceOfClasses:
        """The same object for the same arguments, so that samples are embedded once."""
        if (width, shrinkage) not in self._spaces:
            projection = self._projections.projection(width)
            if width not in self._within:
                self._within[width] = self.statistics.within_spectrum(projection.components)
            space = self._space(projection, *self._within[width], shrinkage)
            self._spaces[width, shrinkage] = space
        return self._spaces[width, shrinkage]

    def _space(
        self, projection: Projection, variances: Floats, vectors: Floats, shrinkage: float
    ) -> SpaceOfClasses:
        many = ~self.few
        # The mean of the class means, not of the samples: classes weigh the same from here on.
        center = projection.exemplars[many].mean(axis=0)
        means = (projection.exemplars - center) @ vectors
        variances, deviations = _shrunk(variances, float((means[many] ** 2).mean()), shrinkage)
        means = means / deviations
        u, lengths, axes = _principal_axes(means[many])
        rank, axes = len(axes), _oriented(axes, means[many])
        whitening, feature_center = vectors / deviations, center
        matrix = whitening @ axes.T
        offset = center @ matrix
        if projection.components is not None:
            whitening = projection.components.T @ whitening
            matrix = projection.components.T @ matrix
            offset = offset + projection.mean @ matrix
            feature_center = projection.mean + center @ projection.components
        # Variance of a sample inside and outside the space.
        sizes, noise = self.statistics.sizes, variances / deviations**2
        within = float((axes**2 @ noise).sum())
        outside = float(noise.sum()) - within
        # Whether each class has a direction that the others do not span.
        independent = 2 < rank + 1 == many.sum()
        complement = None
        if independent and rank < len(noise) and outside > _ROUNDING * within:
            distances = 1 / ((u / lengths) ** 2).sum(axis=1)
            signal = max(0.0, float((distances / outside - 1 / sizes[many]).mean()))
            complement = OrthogonalComplement(feature_center, signal, whitening)
        centered, means = self.statistics.means[self.few] - feature_center, means @ axes.T
        norm, center = None, np.zeros(rank)
        if rank >= _FEWEST_DIMENSIONS:
            share = max(float(sizes.sum()) - len(sizes), 1.0) / float(sizes.sum())
            # The mean of few samples already contains a good part of their deviations.
            remaining = np.where(self.few, 1 - 1 / np.maximum(sizes, 1.0), 1.0)
            squares = (means**2).sum(axis=1) + share * within * remaining
            norm = float(np.sqrt(sizes[many] @ squares[many] / sizes[many].sum()))
            factors = (norm / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]
            scaled, centered = means * factors, centered * factors[self.few]
            center = scaled[many].mean(axis=0)
            means = scaled - center
        own = own_directions(means[many])
        space = WhitenedSpace(matrix, offset, norm, center, complement)
        deviation = within + outside
        leverage = min((1 - shrinkage) * deviation / float(sizes.sum()), _LARGEST_LEVERAGE)
        return SpaceOfClasses(space, means, own, centered, deviation, leverage)


def _shrunk(variances: Floats, between: float, shrinkage: float) -> tuple[Floats, Floats]:
    """Variances within classes, and the deviations to divide by after shrinkage."""
    mean = float(variances.mean())
    if mean <= _ROUNDING * between:
        warn_user(
            "The seen classes have no variance within them, as with one sample per class: "
            "GaussianEXEM whitens by the variance between classes instead.",
            InputWarning,
        )
        variances, mean = np.zeros_like(variances), between
    shrunk = (1 - shrinkage) * variances + shrinkage * mean if mean > 0 else variances + 1.0
    # With little shrinkage, a direction without variance must not dominate.
    return variances, np.sqrt(np.maximum(shrunk, _ROUNDING * max(mean, float(shrunk.max()))))


def _principal_axes(means: Floats) -> tuple[Floats, Floats, Floats]:
    """Singular vectors and values of class means, without those that are rounding error."""
    if len(means) <= means.shape[1]:
        # The inner products take a third of the time, but square the condition number.
        squares, u = scipy.linalg.eigh(means @ means.T, driver="evd")
        kept = squares > OWN_ROUNDING * squares[-1]
        if kept.any() and not (~kept & (squares > _ROUNDING * squares[-1])).any():
            lengths, u = np.sqrt(squares[kept][::-1]), u[:, kept][:, ::-1]
            return u, lengths, (u / lengths).T @ means
    u, lengths, axes = scipy.linalg.svd(means, full_matrices=False)
    rank = max(1, int((lengths > OWN_ROUNDING * lengths[0]).sum()))
    return u[:, :rank], lengths[:rank], axes[:rank]


def _oriented(axes: Floats, means: Floats) -> Floats:
    """Flip axes so that the class means have their long tail on the positive side.

    The sign is otherwise arbitrary. Unlike the entries of an axis, the tail does not depend on the
    basis; without a tail, the largest entry becomes positive.
    """
    along = means @ axes.T
    cubes = along * along * along
    tails = cubes.sum(axis=0)
    has_tail = np.abs(tails) > _ROUNDING**0.5 * np.abs(cubes).sum(axis=0)
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    signs = np.where(np.where(has_tail, tails, largest) < 0, -1.0, 1.0)
    return axes * signs[:, None]
