"""What EXEM needs of the samples: sums that add up, whatever the chunks they came in.

Counts, means and squared deviations of each class, and the pooled scatter within the classes, are
all that the projection and the exemplars are made of. Two sets of samples are merged by the update
of Chan, Golub and LeVeque, around the means of either, so that nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from zslearn._scoring._embedding import PreparedRows
from zslearn._solvers._class_sums import (
    ClassSums,
    SummedRows,
    class_sums,
    deviation_blocks,
    merge_deviations,
)
from zslearn._utils._array import Array, Floats, is_foreign, move_like, to_numpy, unit_rows
from zslearn._utils._device import on_device
from zslearn._utils._files import saved_part
from zslearn.base._training import RowSpectrum, Training
from zslearn.base._weights import weighted_samples
from zslearn.signatures._table import label_array, label_kind

# The largest eigenvalues of a symmetric matrix, on the host or beside other arrays.


def largest_eigenpairs(matrix: Floats, n: int, like: Array = None) -> tuple[Floats, Floats]:
    """The largest eigenvalues of a symmetric matrix with their vectors."""
    last = len(matrix) - 1
    if like is not None and on_device(like):
        # All of them: a device is faster at that than the host is at some.
        xp = compat.array_namespace(like)
        found = xp.linalg.eigh(xp.asarray(matrix, device=compat.device(like)))
        values, vectors = (to_numpy(part[..., last - n + 1 :]) for part in found)
    else:
        values, vectors = scipy.linalg.eigh(
            matrix, subset_by_index=(last - n + 1, last), driver="evr"
        )
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1].T)


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Counts, means and scatter of classes; objects add up as their samples do.

    Memory depends on the number of classes and features, not of samples. Everything is float64
    on the host, whatever the samples are.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Labels, sorted.
    counts : ndarray of shape (n_classes,)
        Samples of each class.
    means : ndarray of shape (n_classes, n_features)
        Mean of each class.
    squares : ndarray of shape (n_classes, n_features)
        Sums of squared deviations from the mean of the class.
    scatter : ndarray of shape (n_features, n_features)
        Products of deviations from the mean of the class, summed over all samples.
    factors : tuple of ndarray of shape (rank, n_features), optional
        For each class a matrix F with FᵀF the scatter of that class alone. Only these give the
        deviation of a class along any direction, as the standardised distance after PCA needs;
        they take up to min(samples, features) rows per class.
    weights : ndarray of shape (n_classes,), optional
        Weight of the samples of each class, where they do not all count the same.

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
    >>> rest = ClassStatistics.from_samples(X[1:], y[1:], feature_norm=None)
    >>> (first + rest).squares
    array([[0., 2.],
           [0., 0.]])
    """

    classes: NDArray[Any]
    counts: NDArray[np.int64]
    means: Floats
    squares: Floats
    scatter: Floats
    factors: tuple[Floats, ...] | None = None
    weights: Floats | None = None

    @classmethod
    def from_samples(
        cls,
        X: Any,
        y: Any,
        *,
        feature_norm: str | None = "l2",
        factors: bool = False,
        sample_weight: Any = None,
    ) -> Self:
        """Take the statistics of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features, of any library.
        y : array-like of shape (n_samples,)
            Class labels.
        feature_norm : {"l2"} or None, default="l2"
            Whether each sample is brought to unit norm first, and NaN and infinity to 0.
        factors : bool, default=False
            Whether the scatter of each class is kept.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts; 2 is a sample that is there twice, 0 one that is not.

        Returns
        -------
        ClassStatistics
            Of the classes in `y`.
        """
        if not is_foreign(X):
            X = check_array(X, ensure_all_finite=False, input_name="X")
        labels = label_array(to_numpy(y) if is_foreign(y) else column_or_1d(y), "y")
        check_consistent_length(X, labels)
        X, labels, weights = weighted_samples(X, labels, sample_weight)
        prepared = PreparedRows(X, feature_norm)
        prepared.check()
        classes, codes = np.unique(labels, return_inverse=True)
        return cls.of_prepared(prepared, codes, classes, factors=factors, weights=weights)

    @classmethod
    def of_prepared(
        cls,
        X: Array,
        codes: NDArray[np.intp],
        classes: NDArray[Any],
        *,
        factors: bool,
        weights: Floats | None = None,
    ) -> Self:
        """Take the statistics of prepared features, in a few passes over blocks of rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features, of any library.
        codes : ndarray of shape (n_samples,)
            Position of each sample's class in `classes`.
        classes : ndarray of shape (n_classes,)
            Labels, sorted.
        factors : bool
            Whether the scatter of each class is kept.
        weights : ndarray of shape (n_samples,), optional
            How much each sample counts, positive.

        Returns
        -------
        ClassStatistics
            Of these classes.
        """
        found = cls.of_sums(class_sums(X, codes, classes, sample_weight=weights))
        if not factors or isinstance(X, SummedRows):
            return found
        return replace(found, factors=_factors(X, codes, found.means, weights))

    @classmethod
    def of_sums(cls, sums: ClassSums) -> Self:
        """Take over the sums of samples.

        Parameters
        ----------
        sums : ClassSums
            Of prepared features.

        Returns
        -------
        ClassStatistics
            Without the scatter of single classes.
        """
        weights = None if np.array_equal(sums.sizes, sums.counts) else sums.sizes
        return cls(
            sums.classes, sums.counts, sums.means, sums.squares, sums.scatter, weights=weights
        )

    @property
    def sizes(self) -> Floats:
        """Weight of each class; the number of its samples where all count the same."""
        return self.counts.astype(np.float64) if self.weights is None else self.weights

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

    @property
    def total_scatter(self) -> Floats:
        """Products of deviations from the mean of all samples, summed over them."""
        between = np.sqrt(self.sizes)[:, None] * (self.means - self.mean)
        return self.scatter + between.T @ between

    def standard_deviations(self, components: Floats | None = None) -> Floats:
        """Sample standard deviation (ddof=1) of each class; NaN for a class of one sample.

        Parameters
        ----------
        components : ndarray of shape (n_components, n_features), optional
            Directions; by default the features themselves.

        Returns
        -------
        ndarray of shape (n_classes, n_components or n_features)
            The deviations.
        """
        if components is None:
            squares = self.squares
        elif self.factors is None:
            raise ValueError(
                "These statistics hold no scatter of single classes, which deviations after a "
                "projection need: take them with factors=True."
            )
        else:
            squares = np.stack([((f @ components.T) ** 2).sum(axis=0) for f in self.factors])
        freedom = np.where(self.sizes > 1, self.sizes - 1, np.nan)
        return np.sqrt(squares / freedom[:, None])

    def principal_components(
        self, n_components: int, *, like: Array = None, spectrum: RowSpectrum | None = None
    ) -> tuple[Floats, Floats]:
        """Directions of the largest variance around the mean of all samples.

        Parameters
        ----------
        n_components : int
            How many; fewer are returned where the samples have a lower rank, but at least one.
        like : array, optional
            Where it lies on a device, they are computed there.
        spectrum : RowSpectrum, optional
            That of the centred samples, where it is known.

        Returns
        -------
        components : ndarray of shape (n_components, n_features)
            Orthonormal rows, largest variance first; the largest entry of each is positive.
        variances : ndarray of shape (n_components,)
            Variances along them (ddof=1).
        """
        n = min(n_components, self.n_features, max(self.n_samples - 1, 1))
        if spectrum is None:
            values, components = largest_eigenpairs(self.total_scatter, n, like)
        else:
            values = spectrum.values[::-1][:n]
            components = np.ascontiguousarray(spectrum.vectors[:, ::-1][:, :n].T)
        resolution = np.finfo(float).eps * max(self.n_samples, self.n_features)
        rank = max(1, int((values > resolution * values[0]).sum()))
        components = components[:rank]
        largest = np.abs(components).argmax(axis=1)
        components = components * np.sign(components[np.arange(rank), largest])[:, None]
        total = float(self.sizes.sum())
        return components, np.maximum(values[:rank], 0.0) / (total - 1 if total > 1 else 1)

    def __add__(self, other: object) -> ClassStatistics:
        if not isinstance(other, ClassStatistics):
            return NotImplemented
        if self.n_features != other.n_features:
            raise ValueError(
                f"Statistics of {self.n_features} and of {other.n_features} features do not add up."
            )
        if label_kind(self.classes) != label_kind(other.classes):
            raise ValueError(
                f"Labels of one side are {label_kind(self.classes)}s, of the other "
                f"{label_kind(other.classes)}s: use labels of one type."
            )
        if (self.factors is None) != (other.factors is None):
            raise ValueError("Only one side holds the scatter of each class: take both alike.")
        classes = np.union1d(self.classes, other.classes)
        a, b = self._spread(classes), other._spread(classes)
        means, squares, between = merge_deviations(
            a.sizes, a.means, a.squares, b.sizes, b.means, b.squares
        )
        factors = None
        if a.factors is not None and b.factors is not None:
            correction = np.zeros_like(means)
            correction[(a.sizes > 0) & (b.sizes > 0)] = between
            factors = tuple(
                _compact(np.concatenate([f, g, row[None, :]])) if row.any() else _compact_pair(f, g)
                for f, g, row in zip(a.factors, b.factors, correction, strict=True)
            )
        return ClassStatistics(
            classes,
            a.counts + b.counts,
            means,
            squares,
            a.scatter + b.scatter + between.T @ between,
            factors,
            None if a.weights is None and b.weights is None else a.sizes + b.sizes,
        )

    def __radd__(self, other: object) -> ClassStatistics:
        # So that sum() works, which begins with 0.
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented

    def _spread(self, classes: NDArray[Any]) -> ClassStatistics:
        """The same statistics with a row for each of more classes, empty for the new ones."""
        rows = np.searchsorted(classes, self.classes)

        def wide(values: NDArray[Any]) -> NDArray[Any]:
            out = np.zeros((len(classes), *values.shape[1:]), dtype=values.dtype)
            out[rows] = values
            return out

        factors = None
        if self.factors is not None:
            spread = [np.zeros((0, self.n_features))] * len(classes)
            for row, factor in zip(rows, self.factors, strict=True):
                spread[row] = factor
            factors = tuple(spread)
        return ClassStatistics(
            classes,
            wide(self.counts),
            wide(self.means),
            wide(self.squares),
            self.scatter,
            factors,
            None if self.weights is None else wide(self.weights),
        )


def ideal_signatures(X: Any, y: Any, *, feature_norm: str | None = "l2") -> pd.DataFrame:
    """Class means of real features, as signatures: the paper's upper bound.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Image features of every class that is to be described, unseen ones too.
    y : array-like of shape (n_samples,)
        Class labels.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm first.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        One row per class, index: class labels.

    Examples
    --------
    >>> from zslearn.synthesis import ideal_signatures
    >>> ideal_signatures([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], ["a", "a", "b"])
         0    1
    a  0.5  0.5
    b  0.0  1.0
    """
    statistics = ClassStatistics.from_samples(X, y, feature_norm=feature_norm)
    return pd.DataFrame(statistics.means, index=statistics.classes)


def _factors(
    X: Array, codes: NDArray[np.intp], means: Floats, weights: Floats | None
) -> tuple[Floats, ...]:
    """For each class a factor of its scatter."""
    kept: list[list[Floats]] = [[] for _ in means]
    for rows, _, deviations in deviation_blocks(X, codes, means):
        host, block_codes = to_numpy(deviations), codes[rows]
        if weights is not None:
            host = host * np.sqrt(weights[rows])[:, None]
        for code in np.unique(block_codes):
            kept[code].append(host[block_codes == code])
    return tuple(_compact(np.concatenate(parts)) for parts in kept)


def _compact(rows: Floats) -> Floats:
    """A factor of the same scatter with no more rows than columns, and no sample among them."""
    if len(rows) < 2:
        return rows
    (factor,) = scipy.linalg.qr(rows, mode="r")
    return np.asarray(factor[: rows.shape[1]], dtype=np.float64)


def _compact_pair(first: Floats, second: Floats) -> Floats:
    """Factor of two scatters around one mean, of which one is often empty."""
    if not len(first) or not len(second):
        return second if not len(first) else first
    return _compact(np.concatenate([first, second]))


# Features whitened by the covariance within the seen classes, for EXEM.
#
# With :math:`\Sigma = V \mathrm{diag}(e) V^\top` the pooled covariance within classes and
# :math:`\bar\sigma^2` the mean of its eigenvalues, features become
#
# .. math:: z = \mathrm{diag}\bigl((1 - \rho) e + \rho \bar\sigma^2\bigr)^{-1/2} V^\top (x - \bar
# x)
#
# and are brought to unit norm again. :math:`\bar x` is the mean of the class means.

# Variances that are a smaller share of the mean are rounding error.
_ROUNDING = 1e-12


def within_spectrum(
    statistics: ClassStatistics, components: Floats | None = None
) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of the pooled covariance within classes."""
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
        """The map that statistics of the seen classes tell."""
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
