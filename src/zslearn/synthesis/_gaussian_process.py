r"""Class means as a Gaussian process over signatures.

In each dimension j of the whitened space the mean of class c is

.. math:: \mu_{cj} = f_j(a_c) + \delta_{cj}, \qquad f_j \sim \mathcal{GP}(0, s_j^2 k), \quad
          \delta_{cj} \sim \mathcal N(0, \alpha s_j^2),

where :math:`k` is a kernel of the signatures and :math:`\delta` the part of the mean that the
signature does not explain. Samples have unit variance, so that the mean of the :math:`n_c` samples
of a seen class is
:math:`y_{cj} \sim \mathcal N(\mu_{cj}, 1 / n_c)`, and :math:`\mathrm{cov}(y_j) = s_j^2 A_j` with
:math:`A_j = K + \alpha I + N^{-1} / s_j^2` and N the diagonal matrix of the :math:`n_c`. One
eigendecomposition :math:`N^{1/2} (K + \alpha I) N^{1/2} = U \mathrm{diag}(m) U^\top` serves all
dimensions: with :math:`W = N^{1/2} U`,

.. math:: A_j^{-1} = W \, \mathrm{diag}\Bigl(\frac{1}{m_i + 1 / s_j^2}\Bigr) \, W^\top.

The kernel has two layers: :math:`k` is the mean of the RBF kernel of the signatures and the RBF
kernel of the class means that a first process predicts,

.. math:: k_2(a, a') = \tfrac12 k(a, a') + \tfrac12 \exp(-\gamma \|g(a) - g(a')\|^2),

where :math:`g(a)` is the predicted mean, normalised to unit length and divided by the median
distance over the seen classes, as signatures are. Classes are thus also similar if their samples
are expected to look similar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.signatures._kernels import median_distance, rbf_similarity
from zslearn.signatures._views import Signatures

# The smallest signal variance, in units of the noise in a class mean.
_LEAST_SIGNAL = 1e-6
# Distance of signal variances on the grid, in logarithms.
_GRID_STEP = 0.1
_ROUNDING = 1e-12


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    means=Saved("n_classes", "n_dims"),
    variances=Saved("n_classes", "n_dims", least=0),
)
class ClassGaussians:
    """Independent normal distributions of class means."""

    means: Floats  # (n_classes, n_dims)
    variances: Floats

    def __getitem__(self, rows: NDArray[Any]) -> ClassGaussians:
        return ClassGaussians(self.means[rows], self.variances[rows])

    def given(self, sizes: Floats, means: Floats) -> ClassGaussians:
        r"""The posterior given the numbers and means of samples of unit variance.

        The precision is :math:`1 / v + n` and the mean :math:`(m / v + n y) / (1 / v + n)`.
        """
        counts = sizes[:, None]
        # Multiplied by the prior variance, which may be close to zero.
        denominator = 1 + counts * self.variances
        return ClassGaussians(
            (self.means + counts * self.variances * means) / denominator,
            self.variances / denominator,
        )


def basis(similarity: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats]:
    r"""Eigenvalues m and basis W, from which :math:`A_j^{-1}` follows for every dimension."""
    roots = np.sqrt(sizes)
    scaled = roots[:, None] * similarity * roots
    scaled[np.diag_indices_from(scaled)] += alpha * sizes
    values, vectors = scipy.linalg.eigh(scaled, driver="evd")
    return np.maximum(values, 0.0), roots[:, None] * vectors


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    alpha=Saved(above=0),
    vectors=Saved("n_seen", "n_seen"),
    signal=Saved("n_dims", least=0),
    inverse=Saved("n_seen", "n_dims", least=0),
    coef=Saved("n_seen", "n_dims"),
)
class ClassProcess:
    """A Gaussian process conditioned on the means of the seen classes."""

    alpha: float
    vectors: Floats  # W
    signal: Floats  # s²
    inverse: Floats  # A⁻¹ in the basis W, one column per dimension
    coef: Floats  # A⁻¹ y

    @classmethod
    def of(cls, spectrum: tuple[Floats, Floats], means: Floats, alpha: float) -> Self:
        """Condition on class means; `spectrum` is the :func:`basis` of the kernel."""
        values, vectors = spectrum
        rotated = vectors.T @ means
        signal = signal_variances(rotated**2, values)
        inverse = 1 / (values[:, None] + 1 / signal)
        return cls(alpha, vectors, signal, inverse, vectors @ (inverse * rotated))

    def predict(self, kernel: Floats, uncertain: NDArray[np.bool_] | None = None) -> ClassGaussians:
        r"""Predict the means of classes without samples.

        :math:`m_{uj} = k_u^\top A_j^{-1} y_j` and
        :math:`v_{uj} = s_j^2 (1 + \alpha - k_u^\top A_j^{-1} k_u)`, the latter for `uncertain`
        classes alone; variances of the others are 0.
        """
        means = kernel @ self.coef
        rows = np.ones(len(means), dtype=bool) if uncertain is None else uncertain
        explained = (kernel[rows] @ self.vectors) ** 2 @ self.inverse
        variances = np.zeros_like(means)
        # Rounding must not take away the part that signatures do not explain.
        variances[rows] = self.signal * np.maximum(1 + self.alpha - explained, self.alpha)
        return ClassGaussians(means, variances)

    def leave_one_out(self, kernel: Floats) -> ClassGaussians:
        r"""Predict the mean of each seen class from the samples of all others.

        Without class c the inverse is, by its Schur complement,
        :math:`B = A^{-1} - A^{-1} e_c e_c^\top A^{-1} / [A^{-1}]_{cc}`. With :math:`k_c` the kernel
        between that class and the others, :math:`m_c = k_c^\top B y` and
        :math:`v_c = s^2 (1 + \alpha - k_c^\top B k_c)`.
        """
        kernel = kernel.copy()
        np.fill_diagonal(kernel, 0.0)
        rotated, diagonal = kernel @ self.vectors, self.vectors**2 @ self.inverse
        own = (rotated * self.vectors) @ self.inverse
        means = kernel @ self.coef - own * self.coef / diagonal
        explained = rotated**2 @ self.inverse - own**2 / diagonal
        free = np.maximum(1 + self.alpha - explained, self.alpha)
        return ClassGaussians(means, self.signal * free)


@saved_part
@saves(
    seen=Saved("n_seen", kind="signatures"),
    gamma=Saved(above=0),
)
@dataclass(frozen=True, eq=False)
class SignatureKernel:
    """RBF kernel between any classes and the seen ones."""

    seen: Signatures
    gamma: float

    def __call__(self, signatures: Signatures) -> Floats:
        """Kernel of shape (n_classes, n_seen)."""
        return np.asarray(rbf_similarity(signatures, self.seen, gamma=self.gamma))

    def weighted(self, signatures: Signatures) -> Signatures:
        """Transform signatures so that the kernel is a plain RBF kernel."""
        return signatures

    def among_seen(self) -> Floats:
        """Kernel of shape (n_seen, n_seen)."""
        return np.asarray(rbf_similarity(self.seen, gamma=self.gamma))


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    {
        "kernel.seen": Saved("n_seen", kind="signatures"),
        "process.coef": Saved("n_seen", "n_dims"),
    },
    kernel=Saved(kind=SignatureKernel),
    coef=Saved("n_seen", "n_dims"),
    points=Saved("n_seen", "n_dims"),
    scale=Saved(above=0),
    process=Saved(kind=ClassProcess),
)
class ClassPrior:
    """Prior of class means given signatures: a process over two layers of kernels."""

    kernel: SignatureKernel
    coef: Floats  # of the first process
    points: Floats  # its predictions for the seen classes, in units of their median distance
    scale: float
    process: ClassProcess

    @classmethod
    def learn(
        cls,
        kernel: SignatureKernel,
        similarity: Floats,
        spectrum: tuple[Floats, Floats],
        means: Floats,
        sizes: Floats,
        alpha: float,
    ) -> tuple[Self, ClassGaussians]:
        """The prior, and its leave-one-out predictions of the seen classes.

        `similarity` is the kernel among the seen classes, and `spectrum` its :func:`basis`.
        """
        first = ClassProcess.of(spectrum, means, alpha)
        points = unit_rows(similarity @ first.coef)
        scale = median_distance(points)
        points = points / scale
        seen_kernel = (similarity + rbf_similarity(points, gamma=kernel.gamma)) / 2
        process = ClassProcess.of(basis(seen_kernel, sizes, alpha), means, alpha)
        # The held-out class must be predicted by the others in the first layer as well.
        held_out = unit_rows(first.leave_one_out(similarity).means) / scale
        held_out_kernel = (similarity + rbf_similarity(held_out, points, gamma=kernel.gamma)) / 2
        prior = cls(kernel, first.coef, points, scale, process)
        return prior, process.leave_one_out(np.asarray(held_out_kernel))

    def predict(
        self, signatures: Signatures, uncertain: NDArray[np.bool_] | None = None
    ) -> ClassGaussians:
        """Predict the means of classes without samples; see :meth:`ClassProcess.predict`."""
        return self.process.predict(self._kernel(signatures)[0], uncertain)

    def correlations(self, signatures: Signatures) -> Floats:
        """Correlations between the means of classes without samples, given the seen classes."""
        kernel, points = self._kernel(signatures)
        among = replace(self.kernel, seen=self.kernel.weighted(signatures))(signatures)
        among = (among + np.asarray(rbf_similarity(points, gamma=self.kernel.gamma))) / 2
        across = kernel @ self.process.vectors
        among -= (across * self.process.inverse.mean(axis=1)) @ across.T
        among[np.diag_indices_from(among)] += self.process.alpha
        deviations = np.sqrt(np.maximum(np.diag(among), self.process.alpha))
        return np.asarray(among / deviations / deviations[:, None])

    def _kernel(self, signatures: Signatures) -> tuple[Floats, Floats]:
        """Both layers of the kernel between classes and the seen ones, and the second's points."""
        similarity = self.kernel(signatures)
        points = unit_rows(similarity @ self.coef) / self.scale
        second = np.asarray(rbf_similarity(points, self.points, gamma=self.kernel.gamma))
        similarity += second
        similarity /= 2
        return similarity, points


def signal_variances(squares: Floats, values: Floats) -> Floats:
    r"""The maximum-likelihood signal variance of each dimension, from the squares of W^T y.

    In the basis W the class means are independent, with variances :math:`t_i = s^2 m_i + 1`, so
    that twice the log density is :math:`-\sum_i \log t_i + y_i^2 / t_i` up to a constant. It may
    have several maxima. A parabola through its neighbours refines the highest point of a grid.
    """
    least = np.log(_LEAST_SIGNAL / float(values.mean()))
    # If s² m exceeds every y², the density decreases: no maximum lies beyond.
    floored = np.maximum(values, _ROUNDING * float(values.max()))
    largest = np.log(max(float((squares.max(axis=1) / floored).max()), 1e-300))
    grid = np.arange(least, max(least, largest) + 3 * _GRID_STEP, _GRID_STEP)
    totals = 1 + np.exp(grid)[:, None] * values
    densities = -np.log(totals).sum(axis=1)[:, None] - (1 / totals) @ squares
    best = densities.argmax(axis=0)
    inner = np.clip(best, 1, len(grid) - 2)
    columns = np.arange(len(best))
    below, top, above = (densities[inner + k, columns] for k in (-1, 0, 1))
    curvature = below - 2 * top + above
    step = np.where(curvature < 0, (below - above) / np.where(curvature < 0, curvature, -1.0), 0.0)
    return np.exp(grid[best] + _GRID_STEP * np.where(best == inner, 0.5 * step, 0.0))
