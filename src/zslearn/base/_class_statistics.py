"""Counts, means and scatter of the samples of each class.

All sums are float64 on the device of the samples and are computed a block of rows at a time, so
that memory depends on the number of classes and features, not of samples. Deviations from the class
means are summed in a second pass. Statistics of two sets of samples are merged by the update of
Chan, Golub and LeVeque, which avoids cancellation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length

from zslearn._scoring._embedding import PreparedRows
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    is_foreign,
    move_like,
    on_device,
    row_blocks,
    take_rows,
    to_numpy,
)
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._validation import checked_weights, refuse_dates
from zslearn.signatures._table import label_kind, sample_labels

# Deviations smaller than this fraction of the mean's length are rounding errors.
_ROUNDING = 1e-12


class Moments(NamedTuple):
    """Sums over samples, whose features may be centred."""

    gram: Array  # XᵀX
    class_sums: Array  # the sum of the samples of each class
    mean: Array  # subtracted from each sample; zeros if the features are not centred


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    classes=Saved("n_classes", kind="label"),
    counts=Saved("n_classes", kind="int", least=1),
    sizes=Saved("n_classes", above=0),
    means=Saved("n_classes", "n_features"),
    squares=Saved("n_classes", "n_features", least=0),
    scatter=Saved("n_features", "n_features"),
    factors=Saved(None, "n_features", each=True, optional=True),
)
class ClassStatistics:
    """Counts, means and scatter of classes; statistics of several batches can be added up.

    Memory depends on the number of classes and features, not of samples. All arrays are NumPy
    arrays in float64, regardless of the samples.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Labels, sorted.
    counts : ndarray of shape (n_classes,)
        Number of samples of each class.
    sizes : ndarray of shape (n_classes,)
        Total weight of the samples of each class; their number if all weights are 1.
    means : ndarray of shape (n_classes, n_features)
        Mean of each class.
    squares : ndarray of shape (n_classes, n_features)
        Sums of squared deviations from the mean of the class.
    scatter : ndarray of shape (n_features, n_features)
        Products of deviations from the mean of the class, summed over all samples.
    factors : tuple of ndarray of shape (rank, n_features), optional
        For each class a matrix F such that FᵀF is the scatter of that class, with up to
        min(n_samples, n_features) rows. Required for standard deviations along arbitrary
        directions, such as for the standardised distance after PCA.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.synthesis import ClassStatistics
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [2.0, 2.0]]), ["a", "a", "b"]
    >>> whole = ClassStatistics.from_samples(X, y, feature_norm=None)
    >>> whole.means
    array([[0., 2.],
           [2., 2.]])
    >>> first = ClassStatistics.from_samples(X[:1], y[:1], feature_norm=None)
    >>> others = ClassStatistics.from_samples(X[1:], y[1:], feature_norm=None)
    >>> (first + others).squares
    array([[0., 2.],
           [0., 0.]])
    """

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    sizes: Floats
    means: Floats
    squares: Floats
    scatter: Floats
    factors: tuple[Floats, ...] | None = None

    @classmethod
    def from_samples(
        cls,
        X: Any,
        y: Any,
        *,
        feature_norm: str | None = "l2",
        factors: bool = False,
        sample_weight: Any = None,
    ) -> ClassStatistics:
        """Compute the statistics of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features, of any library.
        y : array-like of shape (n_samples,)
            Class labels.
        feature_norm : {"l2"} or None, default="l2"
            Whether to scale each sample to unit length first and to replace NaN and infinity by 0.
        factors : bool, default=False
            Whether to keep the scatter of each class.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample; 2 is equivalent to repeating it, 0 to dropping it.

        Returns
        -------
        ClassStatistics
            Statistics of the classes in `y`.
        """
        if not is_foreign(X):
            refuse_dates(X)
            X = check_array(X, ensure_all_finite=False, input_name="X")
        labels = sample_labels(y)
        check_consistent_length(X, labels)
        X, labels, weights = weighted_samples(X, labels, sample_weight)
        prepared = PreparedRows(X, feature_norm)
        prepared.check()
        classes, codes = np.unique(labels, return_inverse=True)
        return cls.of_rows(prepared, codes, classes, factors=factors, weights=weights)

    @classmethod
    def of_rows(
        cls,
        X: Array,
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        *,
        factors: bool = False,
        weights: Floats | None = None,
    ) -> ClassStatistics:
        """Statistics of prepared features; `codes` are the positions of their classes."""
        if isinstance(X, SummedRows):
            return X.sums
        xp, device = compat.array_namespace(X), compat.device(X)
        n_classes, n_features = len(classes), X.shape[1]
        means = class_means(X, codes, n_classes, sample_weight=weights)
        squares = xp.zeros_like(means)
        scatter = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
        kept: list[list[Floats]] = [[] for _ in classes]
        for rows, members, deviations in deviation_blocks(X, codes, means):
            if weights is not None:
                roots = xp.asarray(np.sqrt(weights[rows]), device=device)
                deviations = deviations * roots[:, None]
            squares += members @ (deviations * deviations)
            scatter += xp.matrix_transpose(deviations) @ deviations
            if factors:
                host = to_numpy(deviations)
                for code in np.unique(codes[rows]):
                    kept[code].append(host[codes[rows] == code])
        return cls(
            classes,
            np.bincount(codes, minlength=n_classes).astype(np.int64),
            np.bincount(codes, weights=weights, minlength=n_classes).astype(np.float64),
            to_numpy(means),
            to_numpy(squares),
            to_numpy(scatter),
            tuple(_compact(parts) for parts in kept) if factors else None,
        )

    @classmethod
    def of_block(cls, X: Array, labels: NDArray[Any], weights: Floats | None = None) -> Self:
        """Statistics of one block of samples in memory."""
        classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        # Sorted by class, so that class sums are sums over contiguous rows.
        order = np.argsort(codes, kind="stable")
        rows = np.asarray(to_numpy(X)[order], dtype=np.float64)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        # Sums relative to one sample, so that a large common offset does not cost precision.
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
        return cls(classes, counts.astype(np.int64), sizes, means + shift, squares, rows.T @ rows)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.means.shape[1]

    @property
    def mean(self) -> Floats:
        """Mean of all samples."""
        return np.asarray(self.sizes @ self.means / self.sizes.sum(), dtype=np.float64)

    def moments(self, *, center: bool) -> Moments:
        """XᵀX and the sum of each class, around the mean of all samples or around zero."""
        mean = self.mean if center else np.zeros(self.n_features)
        means = self.means - mean
        between = np.sqrt(self.sizes)[:, None] * means
        # Σ (x − m)(x − m)ᵀ = Σ within classes + Σ_c n_c (m_c − m)(m_c − m)ᵀ
        return Moments(self.scatter + between.T @ between, self.sizes[:, None] * means, mean)

    def standard_deviations(self, components: Floats | None = None) -> Floats:
        """Sample standard deviation (ddof=1) of each class; NaN for a class of one sample.

        Parameters
        ----------
        components : ndarray of shape (n_components, n_features), optional
            Directions; by default the features themselves.

        Returns
        -------
        ndarray of shape (n_classes, n_components or n_features)
            Standard deviations.
        """
        if components is None:
            squares = self.squares
        elif self.factors is None:
            raise ValueError(
                "These statistics lack the scatter of each class, which standard deviations after "
                "a projection require: compute them with factors=True."
            )
        else:
            squares = np.stack([((f @ components.T) ** 2).sum(axis=0) for f in self.factors])
        freedom = np.where(self.sizes > 1, self.sizes - 1, np.nan)
        return np.sqrt(squares / freedom[:, None])

    def principal_components(
        self, n_components: int, *, like: Array = None, spectrum: Any = None
    ) -> tuple[Floats, Floats]:
        """Principal components of all samples.

        Parameters
        ----------
        n_components : int
            Number of components; at least one and at most the rank of the samples is returned.
        like : array, optional
            If this array is on a device, the components are computed there.
        spectrum : RowSpectrum, optional
            The spectrum of the centred samples, if it is known.

        Returns
        -------
        components : ndarray of shape (n_components, n_features)
            Orthonormal rows, largest variance first; the largest entry of each is positive.
        variances : ndarray of shape (n_components,)
            Variances along them (ddof=1).
        """
        n, last = min(n_components, self.n_features, max(self.n_samples - 1, 1)), self.n_features
        if spectrum is not None:
            values, vectors = spectrum.values[last - n :], spectrum.vectors[:, last - n :]
        elif like is not None and on_device(like):
            # A device computes all eigenvectors faster than the host computes some.
            xp, scatter = compat.array_namespace(like), self.moments(center=True).gram
            decomposition = xp.linalg.eigh(xp.asarray(scatter, device=compat.device(like)))
            values, vectors = (to_numpy(part[..., last - n :]) for part in decomposition)
        else:
            values, vectors = scipy.linalg.eigh(
                self.moments(center=True).gram, subset_by_index=(last - n, last - 1), driver="evr"
            )
        values, components = values[::-1], np.ascontiguousarray(vectors[:, ::-1].T)
        resolution = np.finfo(float).eps * max(self.n_samples, self.n_features)
        rank = max(1, int((values > resolution * values[0]).sum()))
        components = components[:rank]
        largest = np.abs(components).argmax(axis=1)
        components = components * np.sign(components[np.arange(rank), largest])[:, None]
        total = float(self.sizes.sum())
        return components, np.maximum(values[:rank], 0.0) / (total - 1 if total > 1 else 1)

    def within_spectrum(self, components: Floats | None = None) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the pooled covariance within classes."""
        scatter = self.scatter
        if components is not None:
            scatter = components @ scatter @ components.T
        freedom = max(float(self.sizes.sum()) - len(self.classes), 1.0)
        values, vectors = scipy.linalg.eigh((scatter + scatter.T) / (2 * freedom), driver="evd")
        return np.maximum(values, 0.0), vectors

    def __add__(self, other: object) -> ClassStatistics:
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        if self.n_features != other.n_features:
            raise ValueError(
                f"Statistics of {self.n_features} and of {other.n_features} features cannot be "
                "added up."
            )
        if label_kind(self.classes) != label_kind(other.classes):
            raise ValueError(
                f"The labels are {label_kind(self.classes)}s in one and "
                f"{label_kind(other.classes)}s in the other: use labels of one type."
            )
        if (self.factors is None) != (other.factors is None):
            raise ValueError(
                "Only one of the statistics has the scatter of each class: compute either both "
                "or none with factors=True."
            )
        classes = np.union1d(self.classes, other.classes)
        a, b = self._with_classes(classes), other._with_classes(classes)
        sizes = a.sizes + b.sizes
        share = b.sizes / sizes
        delta = b.means - a.means
        # The distance between the two means of a class adds to its scatter.
        between = np.sqrt(a.sizes * share)[:, None] * delta
        factors = None
        if a.factors is not None and b.factors is not None:
            factors = tuple(
                _compact([f, g, row[None, :]]) if len(f) and len(g) else f if len(f) else g
                for f, g, row in zip(a.factors, b.factors, between, strict=True)
            )
        return ClassStatistics(
            classes,
            a.counts + b.counts,
            sizes,
            a.means + share[:, None] * delta,
            a.squares + b.squares + between**2,
            a.scatter + b.scatter + between.T @ between,
            factors,
        )

    def __radd__(self, other: object) -> ClassStatistics:
        # Supports sum(), which starts with 0.
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented

    def _with_classes(self, classes: NDArray[Any]) -> ClassStatistics:
        """The same statistics with empty rows for further classes."""
        if len(classes) == len(self.classes):
            return self
        rows = np.searchsorted(classes, self.classes)

        def expanded(values: NDArray[Any]) -> NDArray[Any]:
            out = np.zeros((len(classes), *values.shape[1:]), dtype=values.dtype)
            out[rows] = values
            return out

        factors = None
        if self.factors is not None:
            by_row = dict(zip(rows.tolist(), self.factors, strict=True))
            empty = np.zeros((0, self.n_features))
            factors = tuple(by_row.get(row, empty) for row in range(len(classes)))
        return replace(
            self,
            classes=classes,
            counts=expanded(self.counts),
            sizes=expanded(self.sizes),
            means=expanded(self.means),
            squares=expanded(self.squares),
            factors=factors,
        )


def _compact(parts: list[Floats]) -> Floats:
    """A factor of the same scatter with at most as many rows as columns and no raw samples."""
    rows = np.concatenate(parts)
    if len(rows) < 2:
        return rows
    (factor,) = scipy.linalg.qr(rows, mode="r")
    return np.asarray(factor[: rows.shape[1]], dtype=np.float64)


class SummedRows(ABC):
    """A stand-in for `X` when only sums of the samples are in memory.

    :func:`class_moments`, :func:`class_means` and :func:`class_squares` accept it as `X`.
    """

    def __init__(self, sums: ClassStatistics) -> None:
        self.sums = sums

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return int(self.sums.counts.sum()), self.sums.means.shape[1]

    @abstractmethod
    def squares_along(self, components: Floats) -> Floats:
        """Sums of squared deviations along directions, from another pass over the samples."""


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
        return X.sums.moments(center=center)
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
    # Each row is in memory as given, in float64, and centred.
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
    # Sums relative to one sample, so that a large common offset does not cost precision.
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
    """Deviations of the samples from their class means, a block of rows at a time."""
    xp, device = compat.array_namespace(X), compat.device(X)
    means = move_like(means, X, xp.float64)
    width = 3 * X.shape[1]
    if components is not None:
        components = move_like(components, X, xp.float64)
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


def mean_square_distance(X: Array) -> float:
    """Mean squared distance of the samples from their mean."""
    xp = compat.array_namespace(X)
    n_samples, n_features = X.shape
    mean = _mean(X, None)
    total = 0.0
    for rows in row_blocks(n_samples, 8 * 3 * n_features, block_budget(X)):
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
    """Blocks of rows, each needing memory for `width` numbers, with their class indicators."""
    xp, device = compat.array_namespace(X), compat.device(X)
    labels = xp.asarray(y, device=device)
    classes = xp.arange(n_classes, device=device)
    for rows in row_blocks(X.shape[0], 8 * (width + n_classes), block_budget(X)):
        members = xp.astype(labels[rows][None, :] == classes[:, None], xp.float64)
        if sample_weight is not None:
            members *= xp.asarray(sample_weight[rows], device=device)[None, :]
        yield rows, members


def _mean(X: Array, weight: Array | None) -> Array:
    """Mean of all samples in float64."""
    xp = compat.array_namespace(X)
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=compat.device(X))
    for rows in row_blocks(X.shape[0], 8 * X.shape[1], block_budget(X)):
        if weight is None:
            total += xp.sum(X[rows, :], axis=0, dtype=xp.float64)
        else:
            total += weight[rows] @ xp.astype(X[rows, :], xp.float64)
    return total / (X.shape[0] if weight is None else xp.sum(weight))


def check_weights(sample_weight: Any, X: Any) -> Floats | None:
    """Validate sample weights; None if all are 1."""
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, X.shape[:1])
    return None if (weights == 1).all() else weights


def drop_zero_weights(
    X: Any, y: NDArray[Any], weights: Floats | None
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Drop the samples whose weight is zero."""
    if weights is None or weights.all():
        return X, y, weights
    rows = np.flatnonzero(weights)
    return take_rows(X, rows), y[rows], weights[rows]


def weighted_samples(
    X: Any, y: NDArray[Any], sample_weight: Any
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Validate sample weights, and drop the samples whose weight is zero."""
    return drop_zero_weights(X, y, check_weights(sample_weight, X))
