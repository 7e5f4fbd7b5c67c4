r"""Class means as a Gaussian process over signatures.

In each dimension j of the whitened space the mean of class c is

.. math:: \mu_{cj} = f_j(a_c) + \delta_{cj}, \qquad f_j \sim \mathcal{GP}(0, s_j^2 k), \quad
          \delta_{cj} \sim \mathcal N(0, \alpha s_j^2),

with :math:`k` a kernel of the signatures and :math:`\delta` what the signature does not tell.
Samples have unit variance, so that the mean of the :math:`n_c` samples of a seen class is
:math:`y_{cj} \sim \mathcal N(\mu_{cj}, 1 / n_c)`, and :math:`\mathrm{cov}(y_j) = s_j^2 A_j` with
:math:`A_j = K + \alpha I + N^{-1} / s_j^2` and N the diagonal matrix of the :math:`n_c`. One
eigendecomposition :math:`N^{1/2} (K + \alpha I) N^{1/2} = U \mathrm{diag}(m) U^\top` serves all
dimensions: with :math:`W = N^{1/2} U`,

.. math:: A_j^{-1} = W \, \mathrm{diag}\Bigl(\frac{1}{m_i + 1 / s_j^2}\Bigr) \, W^\top.

There are two layers: :math:`k` is the mean of the RBF kernel of the signatures and of the RBF
kernel between the class means that a first process predicts from it,

.. math:: k_2(a, a') = \tfrac12 k(a, a') + \tfrac12 \exp(-\gamma \|g(a) - g(a')\|^2),

with :math:`g(a)` the predicted mean, normalised to unit length and divided by the median distance
over the seen classes, as signatures are. So classes are also similar where their samples are
expected to look similar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.signatures._kernels import median_distance, rbf_similarity
from zslearn.signatures._views import Signatures

# The least signal variance, in units of the noise in a class mean.
_LEAST_SIGNAL = 1e-6
# Values of it that are tried, and steps from the best of them.
_CANDIDATES = 20
_NEWTON_STEPS = 8
_ROUNDING = 1e-12


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

    def __getitem__(self, rows: NDArray[Any]) -> ClassGaussians:
        return ClassGaussians(self.means[rows], self.variances[rows])

    def given(self, sizes: Floats, means: Floats) -> ClassGaussians:
        r"""The posterior after samples of unit variance, of which the number and means are given.

        Precisions add up: :math:`1 / v + n`; so do means, weighted by them,
        :math:`(m / v + n y) / (1 / v + n)`.
        """
        counts = sizes[:, None]
        # Both sides times the prior's variance, which may be next to nothing.
        denominator = 1 + counts * self.variances
        return ClassGaussians(
            (self.means + counts * self.variances * means) / denominator,
            self.variances / denominator,
        )


def basis(similarity: Floats, sizes: Floats, alpha: float) -> tuple[Floats, Floats]:
    r"""Eigenvalues m and W, which give :math:`A_j^{-1}` for every dimension."""
    roots = np.sqrt(sizes)
    scaled = roots[:, None] * similarity * roots
    scaled[np.diag_indices_from(scaled)] += alpha * sizes
    values, vectors = scipy.linalg.eigh(scaled)
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
    """A process conditioned on the means of the seen classes; kernels are given as tables."""

    alpha: float
    vectors: Floats  # W
    signal: Floats  # s²
    inverse: Floats  # A⁻¹ along W, one column per dimension
    coef: Floats  # A⁻¹ y

    @classmethod
    def of(cls, found: tuple[Floats, Floats], means: Floats, alpha: float) -> Self:
        """Condition on class means, from the :func:`basis` of the kernel between their classes."""
        values, vectors = found
        rotated = vectors.T @ means
        signal = signal_variances(rotated**2, values[:, None])
        inverse = 1 / (values[:, None] + 1 / signal)
        return cls(alpha, vectors, signal, inverse, vectors @ (inverse * rotated))

    def predict(self, kernel: Floats) -> ClassGaussians:
        r"""Distributions of the means of classes without samples.

        :math:`m_{uj} = k_u^\top A_j^{-1} y_j` and
        :math:`v_{uj} = s_j^2 (1 + \alpha - k_u^\top A_j^{-1} k_u)`.
        """
        explained = (kernel @ self.vectors) ** 2 @ self.inverse
        # At least the class's own part: rounding may leave less of a class like a seen one.
        free = np.maximum(1 + self.alpha - explained, self.alpha)
        return ClassGaussians(kernel @ self.coef, self.signal * free)

    def leave_one_out(self, kernel: Floats) -> ClassGaussians:
        r"""Distribution of the mean of each seen class, given the samples of all others.

        Without class c the inverse is, by its Schur complement,
        :math:`B = A^{-1} - A^{-1} e_c e_c^\top A^{-1} / [A^{-1}]_{cc}`, and with :math:`k_c` the
        kernel of that class and the others :math:`m_c = k_c^\top B y` and
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
    """What signatures tell of class means: a process over two layers of kernels."""

    kernel: SignatureKernel
    coef: Floats  # of the first process
    points: Floats  # what it predicts of the seen classes, in units of their median distance
    scale: float
    process: ClassProcess

    @classmethod
    def learn(
        cls,
        kernel: SignatureKernel,
        similarity: Floats,
        found: tuple[Floats, Floats],
        means: Floats,
        sizes: Floats,
        alpha: float,
    ) -> tuple[Self, ClassGaussians]:
        """The prior, and what it tells of each seen class without the samples of that class.

        `similarity` is the kernel among the seen classes, and `found` its :func:`basis`.
        """
        first = ClassProcess.of(found, means, alpha)
        points = unit_rows(similarity @ first.coef)
        scale = median_distance(points)
        points = points / scale
        among = (similarity + rbf_similarity(points, gamma=kernel.gamma)) / 2
        # A class without samples is predicted by the others, also in the first layer.
        alone = unit_rows(first.leave_one_out(similarity).means) / scale
        left_out = (similarity + rbf_similarity(alone, points, gamma=kernel.gamma)) / 2
        process = ClassProcess.of(basis(among, sizes, alpha), means, alpha)
        prior = cls(kernel, first.coef, points, scale, process)
        return prior, process.leave_one_out(np.asarray(left_out))

    def predict(self, signatures: Signatures) -> ClassGaussians:
        """Distributions of the means of classes without samples."""
        similarity = self.kernel(signatures)
        points = unit_rows(similarity @ self.coef) / self.scale
        above = np.asarray(rbf_similarity(points, self.points, gamma=self.kernel.gamma))
        return self.process.predict((similarity + above) / 2)


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
