r"""The space of Gaussian exemplars, and class means in it as a Gaussian process over signatures.

With :math:`\Sigma` the pooled covariance within the seen classes, along the principal components of
the samples, and :math:`\Sigma_\rho = (1 - \rho) \Sigma + \rho \bar\sigma^2 I` the same shrunk to
its mean variance, a sample becomes

.. math:: z = R^\top \Sigma_\rho^{-1/2} P (x - \bar x),

with P the components, :math:`\bar x` the mean of the class means, and R the principal axes of the
whitened class means. These lie in at most S − 1 dimensions; what is orthogonal to all of them
tells no two classes apart and is left out. Classes with few samples, beside others with many, have
no part in the space: their means are mostly noise.

Samples are then brought to a common norm r, the root of their mean squared norm. The mean of a
class follows from its statistics: a sample of class c has a squared norm of about
:math:`\|y_c\|^2 + t`, with :math:`y_c` the mean of the class and t the variance within classes
summed over the dimensions, so that the mean becomes :math:`r y_c / \sqrt{\|y_c\|^2 + t}`.

In each dimension j of this space the mean of class c is

.. math:: \mu_{cj} = f_j(a_c) + \delta_{cj}, \qquad f_j \sim \mathcal{GP}(0, s_j^2 k), \quad
          \delta_{cj} \sim \mathcal N(0, \alpha s_j^2),

with :math:`k` the RBF kernel of the signatures and :math:`\delta` what the signature does not tell.
Samples have unit variance, so that the mean of the :math:`n_c` samples of a seen class is
:math:`y_{cj} \sim \mathcal N(\mu_{cj}, 1 / n_c)`, and :math:`\mathrm{cov}(y_j) = s_j^2 A_j` with
:math:`A_j = K + \alpha I + N^{-1} / s_j^2` and N the diagonal matrix of the :math:`n_c`. One
eigendecomposition :math:`N^{1/2} (K + \alpha I) N^{1/2} = U \mathrm{diag}(m) U^\top` serves all
dimensions: with :math:`W = N^{1/2} U`,

.. math:: A_j^{-1} = W \, \mathrm{diag}\Bigl(\frac{1}{m_i + 1 / s_j^2}\Bigr) \, W^\top.

With two layers :math:`k` is the mean of that kernel and of the RBF kernel between the class means
that a first process predicts, so that classes are also similar where their samples are expected to
look similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn._utils._array import Array, Floats, move_like, scaled_rows, unit_rows
from zslearn._utils._files import saved_part
from zslearn._utils._messages import InputWarning, warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import ClassStatistics
from zslearn.base._training import Training
from zslearn.signatures._kernels import median_distance, rbf_similarity
from zslearn.signatures._views import Signatures
from zslearn.synthesis._exemplars import ExemplarSpaces

# Variances and singular values that are a smaller share of the largest are rounding error.
_ROUNDING = 1e-12
# So many samples of a class are few, where they are a smaller share of those of a usual class.
_FEW, _FEW_SHARE = 20, 0.75
# In fewer dimensions samples keep their norm, which then tells classes apart.
_FEWEST_DIMENSIONS = 8


@dataclass(frozen=True, eq=False)
class WhitenedSpace:
    """A map of features, and the class means in its image."""

    matrix: Floats  # (n_features, n_dims)
    offset: Floats  # taken from the product: the mean of the class means
    norm: float | None  # what samples are brought to next; None leaves them as they are
    center: Floats  # taken last: the mean of the class means again
    means: Floats  # of the seen classes; that of those with more than a few samples is zero
    own: Floats  # unit vectors that are orthogonal to what all these but one span; else zeros
    beyond: Beyond | None  # what the class means do not span
    centered: Floats  # prepared features of classes with few samples, less the center, scaled


@saved_part
@saves(
    center=Saved("n_features"),
    signal=Saved(least=0),
    _products=Saved("n_features", "n_features"),
)
class Beyond:
    """Whitened directions that are orthogonal to all class means, where a further class may lie.

    How far is seen from the mean of each class: its squared distance from the affine hull of the
    others, less the noise of its samples. `signal` is that divided by the noise of one sample.
    """

    def __init__(self, whitening: Floats, matrix: Floats, center: Floats, signal: float) -> None:
        self._whitening, self._matrix = whitening, matrix
        self.center, self.signal = center, signal
        self._products: Floats | None = None

    @property
    def products(self) -> Floats:
        """A matrix Q: prepared features x and x' less the center have the inner product xᵀ Q x'."""
        if self._products is None:
            self._products = self._whitening @ self._whitening.T - self._matrix @ self._matrix.T
        return self._products

    def __getstate__(self) -> dict[str, Any]:
        return {"center": self.center, "signal": self.signal, "_products": self.products}


def into_space(
    X: Array, matrix: Floats, offset: Floats, norm: float | None, center: Floats
) -> Array:
    """Take features of any library into a space; further columns of the matrix are kept behind."""
    z = X @ move_like(matrix, X) - move_like(offset, X)[None, :]
    if norm is None:
        return z
    n_dims = len(center)
    inside, largest, length = scaled_rows(z[:, :n_dims])
    inside = inside * norm - move_like(center, X)[None, :]
    if n_dims == len(offset):
        return inside
    further = z[:, n_dims:] / largest / length * norm
    return compat.array_namespace(z).concat([inside, further], axis=1)


def few_samples(sizes: Floats) -> NDArray[np.bool_]:
    """Which classes have few samples beside the others: their means say little of the space."""
    few = (sizes <= _FEW) & (sizes < _FEW_SHARE * np.median(sizes))
    # The others are to span a space.
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
        self._spaces: dict[Any, WhitenedSpace] = {}

    def space(self, width: int | None, shrinkage: float, common_norm: bool) -> WhitenedSpace:
        """The same object for the same arguments, so that samples are embedded once."""
        key = width, shrinkage, common_norm
        if key not in self._spaces:
            self._spaces[key] = self._space(*key)
        return self._spaces[key]

    def _space(self, width: int | None, shrinkage: float, common_norm: bool) -> WhitenedSpace:
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
        matrix, start = (vectors / roots) @ axes.T, center
        offset = center @ matrix
        if projection.components is not None:
            matrix = projection.components.T @ matrix
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
            whitening = vectors / roots
            if projection.components is not None:
                whitening = projection.components.T @ whitening
            beyond = Beyond(whitening, matrix, start, signal)
        centered = self.statistics.means[self.few] - start
        means = means @ axes.T
        norm, center = None, np.zeros(rank)
        if common_norm and rank >= _FEWEST_DIMENSIONS:
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
        return WhitenedSpace(matrix, offset, norm, center, means, own, beyond, centered)


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


# The least signal variance, in units of the noise in a class mean.
_LEAST_SIGNAL = 1e-6
# Values of it that are tried, and steps from the best of them.
_CANDIDATES = 20
_NEWTON_STEPS = 8


@saved_part
@saves(
    seen=Saved("n_seen", kind="signatures"),
    gamma=Saved(above=0),
)
class SignatureKernel:
    """RBF kernel between the seen classes."""

    gamma: float

    def __init__(self, seen: Signatures, gamma: float) -> None:
        self.seen = seen
        self.gamma = gamma
        self._similarity = np.asarray(rbf_similarity(seen, gamma=gamma))
        self._bases: dict[Any, tuple[Floats, Floats]] = {}

    def __call__(self, signatures: Signatures) -> Floats:
        """Kernel of shape (n_classes, n_seen)."""
        return np.asarray(rbf_similarity(signatures, self.seen, gamma=self.gamma))

    def left_out(self) -> Floats:
        """Kernel of each seen class, as if it had no samples, with all seen classes."""
        return self._similarity

    def basis(self, sizes: Floats, alpha: float) -> tuple[Floats, Floats]:
        """See :func:`_basis`; computed once, for every space of the same samples."""
        key = alpha, sizes.tobytes()
        if key not in self._bases:
            self._bases[key] = _basis(self._similarity, sizes, alpha)
        return self._bases[key]

    def __getstate__(self) -> dict[str, Any]:
        # The rest is needed while learning only.
        return {"seen": self.seen, "gamma": self.gamma}


@saved_part
@saves(
    {
        "below.seen": Saved("n_seen", kind="signatures"),
    },
    below=Saved(kind=SignatureKernel),
    coef=Saved("n_seen", "n_dims"),
    gamma=Saved(above=0),
    seen=Saved("n_seen", "n_dims"),
    scale=Saved(above=0),
)
class LayeredKernel:
    r"""Kernel of signatures and of the class means that they predict, half and half.

    .. math:: k_2(a, a') = \tfrac12 k(a, a') + \tfrac12 \exp(-\gamma \|g(a) - g(a')\|^2)

    with :math:`g(a)` the mean that a first process predicts, brought to unit length and divided by
    the median distance over the seen classes, as signatures are. The seen classes are predicted
    like all others, from a process that knows them.
    """

    gamma: float

    def __init__(self, first: ClassProcess) -> None:
        kernel = first.kernel
        self.below, self.coef, self.gamma = kernel, first.coef, kernel.gamma
        similarity = kernel.left_out()
        self.seen = unit_rows(similarity @ self.coef)
        self.scale = median_distance(self.seen)
        self.seen = self.seen / self.scale
        # A class without samples is predicted by the others, also in the first layer.
        alone = unit_rows(first.leave_one_out().means) / self.scale
        self._left_out = (similarity + rbf_similarity(alone, self.seen, gamma=self.gamma)) / 2
        self._similarity = (similarity + rbf_similarity(self.seen, gamma=self.gamma)) / 2

    def __call__(self, signatures: Signatures) -> Floats:
        """Kernel of shape (n_classes, n_seen)."""
        similarity = self.below(signatures)
        predicted = unit_rows(similarity @ self.coef) / self.scale
        return (similarity + np.asarray(rbf_similarity(predicted, self.seen, gamma=self.gamma))) / 2

    def left_out(self) -> Floats:
        """Kernel of each seen class, as if it had no samples, with all seen classes."""
        return np.asarray(self._left_out)

    def basis(self, sizes: Floats, alpha: float) -> tuple[Floats, Floats]:
        """See :func:`_basis`."""
        return _basis(self._similarity, sizes, alpha)

    def __getstate__(self) -> dict[str, Any]:
        # What is left out is needed while learning only.
        return {name: value for name, value in vars(self).items() if name[0] != "_"}


def _basis(similarity: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats]:
    r"""Eigenvalues m and W, of which :math:`A_j^{-1}` is made."""
    roots = np.sqrt(sizes)
    scaled = roots[:, None] * similarity * roots
    scaled[np.diag_indices_from(scaled)] += alpha * sizes
    values, vectors = scipy.linalg.eigh(scaled)
    return np.maximum(values, 0.0), roots[:, None] * vectors


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    means=Saved("n_classes", "n_dims"),
    variances=Saved("n_classes", "n_dims", least=0),
)
class ClassGaussians:
    """What is known of the mean of each of some classes: independent normal distributions."""

    means: Floats  # (n_classes, n_dims)
    variances: Floats


@saved_part
@saves(
    {
        "kernel.seen": Saved("n_seen", kind="signatures"),
    },
    kernel=Saved(kind=(SignatureKernel, LayeredKernel)),
    alpha=Saved(above=0),
    vectors=Saved("n_seen", "n_seen"),
    signal=Saved("n_dims", least=0),
    inverse=Saved("n_seen", "n_dims", least=0),
    coef=Saved("n_seen", "n_dims"),
)
class ClassProcess:
    """The process, conditioned on the means of the seen classes."""

    kernel: SignatureKernel | LayeredKernel
    coef: Floats

    def __init__(
        self,
        kernel: SignatureKernel | LayeredKernel,
        means: Floats,
        sizes: Floats,
        alpha: float,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        values, self.vectors = kernel.basis(sizes, alpha)
        rotated = self.vectors.T @ means
        self._spectrum = values[:, None]
        self.signal = signal_variances(rotated**2, self._spectrum)
        # A⁻¹ along W, one column per dimension.
        self.inverse = 1 / (self._spectrum + 1 / self.signal)
        self.coef = self.vectors @ (self.inverse * rotated)
        self._diagonal = self.vectors**2 @ self.inverse
        self._rotated, self._means, self._sizes = rotated, means, sizes
        self._latest: tuple[Signatures, ClassGaussians] | None = None

    def predict(self, signatures: Signatures) -> ClassGaussians:
        r"""Distributions of the means of classes without samples.

        :math:`m_{uj} = k_u^\top A_j^{-1} y_j` and
        :math:`v_{uj} = s_j^2 (1 + \alpha - k_u^\top A_j^{-1} k_u)`.
        """
        latest = getattr(self, "_latest", None)
        # Settings of one process describe the same classes.
        if latest is not None and latest[0] is signatures:
            return latest[1]
        kernel = self.kernel(signatures)
        explained = (kernel @ self.vectors) ** 2 @ self.inverse
        # At least the class's own part: rounding may leave less of a class like a seen one.
        free = np.maximum(1 + self.alpha - explained, self.alpha)
        predicted = ClassGaussians(kernel @ self.coef, self.signal * free)
        self._latest = signatures, predicted
        return predicted

    def __getstate__(self) -> dict[str, Any]:
        # The rest is needed while learning only.
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def leave_one_out(self) -> ClassGaussians:
        r"""Distribution of the mean of each seen class, given the samples of all others.

        Without class c the inverse is, by its Schur complement,
        :math:`B = A^{-1} - A^{-1} e_c e_c^\top A^{-1} / [A^{-1}]_{cc}`, and with :math:`k_c` the
        kernel of that class and the others :math:`m_c = k_c^\top B y` and
        :math:`v_c = s^2 (1 + \alpha - k_c^\top B k_c)`.
        """
        kernel = self.kernel.left_out().copy()
        np.fill_diagonal(kernel, 0.0)
        rotated = kernel @ self.vectors
        own = (rotated * self.vectors) @ self.inverse
        means = kernel @ self.coef - own * self.coef / self._diagonal
        explained = rotated**2 @ self.inverse - own**2 / self._diagonal
        free = np.maximum(1 + self.alpha - explained, self.alpha)
        return ClassGaussians(means, self.signal * free)

    def leave_one_out_error(self) -> float:
        """Mean squared distance of a class mean from what the other classes predict."""
        return float(((self._means - self.leave_one_out().means) ** 2).sum(axis=1).mean())

    def log_evidence(self) -> float:
        """Log density of the means of the seen classes, over all dimensions."""
        variances = self.signal * self._spectrum + 1
        terms = np.log(2 * np.pi * variances / self._sizes[:, None]) + self._rotated**2 / variances
        return -0.5 * float(terms.sum())


def posterior(prior: ClassGaussians, sizes: Floats, means: Floats) -> ClassGaussians:
    r"""What samples of unit variance add to the distribution of a class's mean.

    Precisions add up: :math:`1 / v + n`; so do means, weighted by them,
    :math:`(m / v + n y) / (1 / v + n)`.
    """
    counts = sizes[:, None]
    # Both sides times the prior's variance, which may be next to nothing.
    denominator = 1 + counts * prior.variances
    return ClassGaussians(
        (prior.means + counts * prior.variances * means) / denominator,
        prior.variances / denominator,
    )


def signal_variances(squares: Floats, spectrum: Floats) -> Floats:
    r"""The signal variance of each dimension under which the class means are most likely.

    Along W the class means are independent, with variances :math:`t_i = s^2 m_i + 1`. With
    :math:`w_i = s^2 m_i / t_i` and :math:`r_i = y_i^2 / t_i`, twice the log density has the
    derivatives by :math:`\log s^2`

    .. math:: g = \sum_i w_i (r_i - 1), \qquad g' = \sum_i w_i (1 - w_i) (r_i - 1) - w_i^2 r_i.

    It may have several maxima: the highest of a grid, by the sums of g along it, is followed by
    Newton's steps between its neighbours.
    """
    least = np.log(_LEAST_SIGNAL / float(spectrum.mean()))
    # Where s² m is above every y², all terms of g are negative.
    least_value = _ROUNDING * float(spectrum.max())
    most = (squares / np.maximum(spectrum, least_value)).max(axis=0)
    most = np.log(np.maximum(most, 2 * np.exp(least)))
    grid = least + np.linspace(0.0, 1.0, _CANDIDATES)[:, None] * (most - least)
    slopes = np.stack([_slope(row, squares, spectrum)[0] for row in grid])
    best = np.vstack([np.zeros_like(most), np.cumsum(slopes[1:] + slopes[:-1], axis=0)]).argmax(0)
    columns = np.arange(len(most))
    low = grid[np.maximum(best - 1, 0), columns]
    high = grid[np.minimum(best + 1, _CANDIDATES - 1), columns]
    found = grid[best, columns]
    for _ in range(_NEWTON_STEPS):
        slope, curvature = _slope(found, squares, spectrum)
        low, high = np.where(slope > 0, found, low), np.where(slope > 0, high, found)
        step = found - slope / np.where(curvature < 0, curvature, -1.0)
        # Half the interval where Newton's step leaves it, or where the density is not concave.
        inside = (curvature < 0) & (step >= low) & (step <= high)
        found = np.where(inside, step, (low + high) / 2)
    return np.exp(found)


def _slope(log_signal: Floats, squares: Floats, spectrum: Floats) -> tuple[Floats, Floats]:
    """The derivatives of :func:`signal_variances` in each dimension."""
    explained = np.exp(log_signal) * spectrum
    total = explained + 1
    w, r = explained / total, squares / total
    rest = w * (r - 1)
    return rest.sum(axis=0), (rest * (1 - w) - w * w * r).sum(axis=0)


def best_process(
    kernels: Sequence[SignatureKernel],
    means: Floats,
    sizes: Floats,
    alphas: Sequence[float],
    criterion: str,
) -> ClassProcess:
    """The process that seen classes alone speak for, without folds."""

    def value(process: ClassProcess) -> float:
        if criterion == "evidence":
            return process.log_evidence()
        return -process.leave_one_out_error()

    processes = (
        ClassProcess(kernel, means, sizes, alpha) for kernel in kernels for alpha in alphas
    )
    return max(processes, key=value)
