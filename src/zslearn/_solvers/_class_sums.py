"""Sums, means and squared deviations of the samples of each class.

Everything is float64 on the device of the samples, whatever their library and dtype, and is
computed a block of rows at a time: memory depends on the classes and features, not on the samples.
Deviations are taken around the means of the classes in a second pass, so that nothing cancels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Array, Floats, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._device import block_budget

# Sums over samples that never lie in memory together, and rows of which only these are known.
#
# Counts, means and squared deviations of each class, and the products of deviations within the
# classes, are merged by the update of Chan, Golub and LeVeque, around the means of either side,
# so
# that nothing cancels. All that methods of class statistics or Gram matrices ask of their samples
# follows from them.


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
        """XᵀX and the sum of each class, around the mean of all samples or around zero."""
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
    """Merge means and squared deviations of the same classes in two sets of samples."""
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
        """Sums of squared deviations along directions, by one more pass over the samples."""


# Sums of one block of samples, to be added to those of the others.


def sum_block(X: Array, labels: NDArray[Any], weights: Floats | None = None) -> ClassSums:
    """Counts, means and scatter of the classes of some samples."""
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    # Rows of a class one after another: their sums are those of stretches of rows.
    order = np.argsort(codes, kind="stable")
    rows = np.asarray(to_numpy(X)[order], dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    # Around one sample, so that a large common offset does not cost digits.
    shift = rows[0].copy()
    rows -= shift
    sizes, weighted = counts.astype(np.float64), rows
    if weights is not None:
        weights = weights[order][:, None]
        sizes = np.add.reduceat(weights[:, 0], starts)
        weighted = rows * weights
    means = np.add.reduceat(weighted, starts, axis=0) / sizes[:, None]
    rows -= np.repeat(means, counts, axis=0)
    if weights is not None:
        rows *= np.sqrt(weights)
    squares = np.add.reduceat(rows * rows, starts, axis=0)
    return ClassSums(classes, counts.astype(np.int64), sizes, means + shift, squares, rows.T @ rows)


# A distance from the mean that is a smaller share of the mean's length is rounding error.
_ROUNDING = 1e-12


class Moments(NamedTuple):
    """Sums over samples.

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
    """XᵀX and the sum of each class, around the mean of all samples or around zero."""
    if isinstance(X, SummedRows):
        return Moments(*X.sums.moments(center=center))
    xp, device = compat.array_namespace(X), compat.device(X)
    n_features = X.shape[1]
    weight = None
    if sample_weight is not None:
        weight = xp.asarray(sample_weight, dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    if center:
        mean = _mean(X, weight)
    gram = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    sums = xp.zeros((n_classes, n_features), dtype=xp.float64, device=device)
    # A row as it comes, wide, and centred.
    width = 3 * n_features + (0 if weight is None else n_features)
    for rows, members in _member_blocks(X, y, n_classes, width=width):
        block = xp.astype(X[rows, :], xp.float64) - mean[None, :]
        weighted = block if weight is None else block * weight[rows][:, None]
        gram += xp.matrix_transpose(block) @ weighted
        sums += members @ weighted
    return Moments(gram, sums, mean)


def class_means(
    X: Array, y: NDArray[np.intp], n_classes: int, *, sample_weight: Floats | None = None
) -> Array:
    """Mean of the samples of each class."""
    if isinstance(X, SummedRows):
        return X.sums.means
    xp, device = compat.array_namespace(X), compat.device(X)
    sizes = np.bincount(y, weights=sample_weight, minlength=n_classes)
    share = xp.asarray(1.0 / np.where(sizes > 0, sizes, np.nan), device=device)
    # Sums around one sample, so that a large common offset does not cost digits.
    shift = xp.astype(X[0:1, :], xp.float64)
    sums = xp.zeros((n_classes, X.shape[1]), dtype=xp.float64, device=device)
    blocks = _member_blocks(X, y, n_classes, width=2 * X.shape[1], sample_weight=sample_weight)
    for rows, members in blocks:
        sums += members @ (xp.astype(X[rows, :], xp.float64) - shift)
    return sums * share[:, None] + shift


def deviation_blocks(
    X: Array,
    y: NDArray[np.intp],
    means: Array,
    components: Array | None = None,
    *,
    sample_weight: Floats | None = None,
) -> Iterator[tuple[slice, Array, Array]]:
    """Deviations of the samples from the mean of their class, a block of rows at a time."""
    xp, device = compat.array_namespace(X), compat.device(X)
    means = _double_like(means, X)
    width = 3 * X.shape[1]
    if components is not None:
        components = _double_like(components, X)
        width += 2 * components.shape[1]
    blocks = _member_blocks(X, y, means.shape[0], width=width, sample_weight=sample_weight)
    for rows, members in blocks:
        own = xp.take(means, xp.asarray(y[rows], device=device), axis=0)
        deviations = xp.astype(X[rows, :], xp.float64) - own
        yield rows, members, deviations if components is None else deviations @ components


def class_squares(
    X: Array,
    y: NDArray[np.intp],
    means: Array,
    components: Array | None = None,
    *,
    sample_weight: Floats | None = None,
) -> Array:
    """Sum of squared deviations of each class from its mean."""
    if isinstance(X, SummedRows):
        return X.sums.squares if components is None else X.squares_along(to_numpy(components))
    xp = compat.array_namespace(X)
    n_dims = X.shape[1] if components is None else components.shape[1]
    shape = means.shape[0], n_dims
    squares = xp.zeros(shape, dtype=xp.float64, device=compat.device(X))
    blocks = deviation_blocks(X, y, means, components, sample_weight=sample_weight)
    for _, members, deviations in blocks:
        squares += members @ (deviations * deviations)
    return squares


def class_sums(
    X: Array,
    y: NDArray[np.intp],
    classes: NDArray[Any],
    *,
    sample_weight: Floats | None = None,
) -> ClassSums:
    """Counts, means and scatter of all classes, in two passes over blocks of rows."""
    if isinstance(X, SummedRows):
        return X.sums
    xp, device = compat.array_namespace(X), compat.device(X)
    n_features = X.shape[1]
    means = class_means(X, y, len(classes), sample_weight=sample_weight)
    squares = xp.zeros_like(means)
    scatter = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    for rows, members, deviations in deviation_blocks(X, y, means):
        if sample_weight is not None:
            roots = xp.asarray(np.sqrt(sample_weight[rows]), device=device)
            deviations = deviations * roots[:, None]
        squares += members @ (deviations * deviations)
        scatter += xp.matrix_transpose(deviations) @ deviations
    sizes = np.bincount(y, weights=sample_weight, minlength=len(classes)).astype(np.float64)
    counts = np.bincount(y, minlength=len(classes)).astype(np.int64)
    return ClassSums(classes, counts, sizes, to_numpy(means), to_numpy(squares), to_numpy(scatter))


def mean_square_distance(X: Array) -> float:
    """Mean squared distance of the samples from their mean."""
    xp = compat.array_namespace(X)
    n_samples, n_features = X.shape
    mean = _mean(X, None)
    total = 0.0
    for rows in row_blocks(n_samples, 8 * 3 * n_features, block_budget(X[0:1, :])):
        deviations = xp.astype(X[rows, :], xp.float64) - mean[None, :]
        total += float(xp.sum(deviations * deviations))
    rounding = _ROUNDING**2 * float(xp.sum(mean * mean))
    if not np.isfinite(total):
        return float("inf")
    return total / n_samples if total > n_samples * rounding else 0.0


def _member_blocks(
    X: Array,
    y: NDArray[np.intp],
    n_classes: int,
    *,
    width: int,
    sample_weight: Floats | None = None,
) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows, `width` numbers per row in use, and the weight of each row in its class."""
    xp, device = compat.array_namespace(X), compat.device(X)
    labels = xp.asarray(y, device=device)
    classes = xp.arange(n_classes, device=device)
    for rows in row_blocks(X.shape[0], 8 * (width + n_classes), block_budget(X[0:1, :])):
        members = xp.astype(labels[rows][None, :] == classes[:, None], xp.float64)
        if sample_weight is not None:
            members *= xp.asarray(sample_weight[rows], device=device)[None, :]
        yield rows, members


def _mean(X: Array, weight: Array | None) -> Array:
    """Mean of all samples in float64."""
    xp = compat.array_namespace(X)
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=compat.device(X))
    for rows in row_blocks(X.shape[0], 8 * X.shape[1], block_budget(X[0:1, :])):
        if weight is None:
            total += xp.sum(X[rows, :], axis=0, dtype=xp.float64)
        else:
            total += weight[rows] @ xp.astype(X[rows, :], xp.float64)
    return total / (X.shape[0] if weight is None else xp.sum(weight))


def _double_like(values: Array, X: Array) -> Array:
    """The values in float64, in the namespace and on the device of `X`."""
    xp = compat.array_namespace(X)
    if compat.is_array_api_obj(values) and compat.array_namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=xp.float64, device=compat.device(X))
