"""The training data of a method: prepared samples, signatures, and sums shared between methods.

Within a `FitCache`, sums over the rows and the eigenvectors of their scatter are cached, so that
searches of several methods on the same folds read the rows of each fold once. XᵀX, both around the
mean of the samples and around zero, follows from the scatter within classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._embedding import FeaturePreparation, PreparedRows, refuse_extreme_features
from zslearn._solvers._linalg import eigenbasis
from zslearn._utils._array import Array, Floats, is_symbolic, row_blocks, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import cached_fit, caches_fits, fingerprint
from zslearn._utils._validation import some_rows, warn_of_dominating
from zslearn.base._class_statistics import (
    ClassStatistics,
    Moments,
    SummedRows,
    class_moments,
    class_squares,
    drop_zero_weights,
)
from zslearn.base._streams import StreamedSamples, check_block_labels
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import Signatures

# Sums that take fewer multiplications are not cached, since hashing the rows takes just as long.
_MIN_CACHED_OPERATIONS = 1e9
# Larger matrices of features by features, in bytes, would evict each other from the cache.
_MAX_CACHED_MATRIX = 1 << 26


class RowSpectrum(NamedTuple):
    """The eigendecomposition of XᵀX of the training rows, and the sum of each class."""

    values: Array  # ascending; eigenvalues within rounding of zero are exactly 0
    vectors: Array  # as columns
    class_sums: Array  # centred if the rows are
    mean: Array  # subtracted from each sample; zeros if the rows are not centred

    @classmethod
    def of(cls, moments: Moments) -> RowSpectrum:
        """Decompose XᵀX."""
        values, vectors, _ = eigenbasis(moments.gram)
        return cls(values, vectors, moments.class_sums, moments.mean)

    @property
    def unit(self) -> float:
        """Mean of the nonzero eigenvalues; 1.0 if there are none."""
        xp = compat.array_namespace(self.values)
        rank = int(xp.sum(xp.astype(self.values > 0, xp.int64)))
        return float(xp.sum(self.values)) / rank if rank else 1.0


#: Approximate size of a subsample.
SUBSAMPLE_SIZE = 10_000
# Number of features that are hashed.
_HASHED_FEATURES = 64


def content_keys(X: Array) -> NDArray[np.uint64]:
    """Hash the content of each row, regardless of its position, library and precision."""
    step = -(-X.shape[1] // _HASHED_FEATURES)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    for rows in row_blocks(X.shape[0], 32 * _HASHED_FEATURES):
        # Adding 0 turns -0 into 0; values beyond float32 all become infinity.
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(to_numpy(X[rows, ::step]), dtype=np.float32) + 0.0
        words = values.view(np.uint32).astype(np.uint64)
        factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
        mixed = (words * (2 * factors + 1)).sum(axis=1, dtype=np.uint64)
        keys[rows] = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return keys


def chosen_samples(
    keys: NDArray[np.uint64], labels: NDArray[Any], size: int = SUBSAMPLE_SIZE
) -> NDArray[np.intp]:
    """Positions of about `size` samples, the same number of each class, by class and key.

    The choice does not depend on the order of the samples. The choices from parts of the samples
    together contain the choice from all samples, because a part has no more classes.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    order = np.argsort(keys, kind="stable")
    # Integers of 16 bits are sorted in linear time.
    narrow = codes.astype(np.min_scalar_type(len(classes)))
    order = order[np.argsort(narrow[order], kind="stable")]
    starts = np.searchsorted(codes[order], np.arange(len(classes)))
    ranks = np.arange(len(order)) - starts[codes[order]]
    order = order[ranks < -(-size // len(classes))]
    if len(classes) > size:
        order = order[np.sort(np.argsort(keys[order], kind="stable")[:size])]
    return order


@inherit_docs
@dataclass(frozen=True, eq=False)
class Training:
    """The prepared arguments of `fit`.

    Parameters
    ----------
    rows : PreparedRows or array of shape (n_samples, n_features)
        The features in lazy form: slices of rows are prepared when they are read. Code that reads
        them only once uses this form and stores no copy.
    y : ndarray of shape (n_samples,)
        Position of each sample's class in `classes`: 0 … n_seen − 1.
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes; row y[i] is that of the class of X[i].
    classes : ndarray of shape (n_seen,)
        Labels of the seen classes, sorted.
    table : SignatureTable
        All described classes, with their signatures as given.
    signature_scale : tuple of float
        The number by which the signatures of each view are divided.
    keep_views : bool
        Whether several views remain separate.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, if there are any.
    weights : ndarray of shape (n_samples,) or None
        Positive weight of each sample; None if all weights are 1. Only methods that derive from
        :class:`AcceptsSampleWeight` receive weights.
    is_whole : bool, default=True
        Whether these are all rows given to `fit`; see :attr:`keeps_sums`.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        The features in dense form: prepared once, of the library and on the device of the given
        array, and cached.
    """

    rows: Any
    y: NDArray[np.intp]
    signatures: Any
    classes: NDArray[Any]
    table: SignatureTable
    signature_scale: tuple[float, ...]
    keep_views: bool = False
    feature_names: NDArray[Any] | None = None
    weights: Floats | None = None
    is_whole: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.rows, PreparedRows) and compat.is_array_api_obj(self.rows):
            object.__setattr__(self, "rows", PreparedRows.of_prepared(self.rows))

    @property
    def X(self) -> Array:
        """All prepared features in one array."""
        return self.rows.dense

    @property
    def n_seen(self) -> int:
        """Number of seen classes."""
        return len(self.classes)

    @property
    def labels(self) -> NDArray[Any]:
        """Label of each sample."""
        return self.classes[self.y]

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of samples of each seen class."""
        return np.bincount(self.y, minlength=self.n_seen)

    @property
    def sizes(self) -> Floats:
        """Total weight of the samples of each seen class."""
        return np.bincount(self.y, weights=self.weights, minlength=self.n_seen).astype(np.float64)

    @property
    def keeps_sums(self) -> bool:
        """Whether sums and spectra of the rows are cached for other methods.

        This holds for all rows of a fit, if they are many and not too wide.
        """
        if not (self.is_whole and len(self.y) > 0 and caches_fits(self.rows.source)):
            return False
        n_samples, n_features = self.rows.shape
        is_large = n_features**2 * (n_samples + n_features) >= _MIN_CACHED_OPERATIONS
        return bool(is_large and 8 * n_features**2 <= _MAX_CACHED_MATRIX)

    @cached_property
    def rows_key(self) -> str:
        """A digest of the rows, their classes and weights, as the key of cached results."""
        rows = self.rows.source, self.rows.norm, self.rows.positions
        return fingerprint(rows, self.y, self.n_seen, self.weights)

    @cached_property
    def sums(self) -> ClassStatistics:
        """Counts, means and scatter of the classes."""
        if not self.keeps_sums:
            return ClassStatistics.of_rows(self.rows, self.y, self.classes, weights=self.weights)

        def compute() -> dict[str, Any]:
            sums = ClassStatistics.of_rows(self.rows, self.y, self.classes, weights=self.weights)
            return {name: getattr(sums, name) for name in ("means", "squares", "scatter")}

        arrays: dict[str, Any] = cached_fit(("class sums", self.rows_key), compute)
        return ClassStatistics(self.classes, self.counts.astype(np.int64), self.sizes, **arrays)

    def moments(self, *, center: bool) -> Moments:
        """XᵀX and the sum of each class, around the mean of all samples or around zero.

        Parameters
        ----------
        center : bool
            Whether the mean of the samples is subtracted first.

        Returns
        -------
        Moments
            Sums in float64 on the device of the rows.
        """
        if self.keeps_sums:
            return self.sums.moments(center=center)
        return class_moments(
            self.rows, self.y, self.n_seen, center=center, sample_weight=self.weights
        )

    def spectrum(self, *, center: bool) -> RowSpectrum:
        """The eigendecomposition of XᵀX, and the sum of each class.

        Returns
        -------
        RowSpectrum
            The decomposition in float64 on the device of the rows.
        """
        if not self.keeps_sums:
            return RowSpectrum.of(self.moments(center=center))
        return RowSpectrum(
            **cached_fit(
                ("spectrum", self.rows_key, center),
                lambda: RowSpectrum.of(self.moments(center=center))._asdict(),
            )
        )

    def warn_of_units(self) -> None:
        """Warn of columns whose values are much larger than those of all others."""
        self.table.warn_of_units(self.table.positions(self.classes))
        source = getattr(self.rows, "source", None)
        if source is None or is_symbolic(source):
            return
        remedy = (
            "Standardise the features with feature_scaling='standard' (in Python: with "
            "TableClassifier, or with StandardScaler in a pipeline)."
        )
        warn_of_dominating(some_rows(source), self.feature_names, "X", "samples", remedy)

    def all_signatures(self) -> Signatures:
        """Normalised signatures of all described classes, in the order of `table.labels`."""
        return self.table.normalized(self.signature_scale, keep_views=self.keep_views)

    def subsample(self) -> tuple[PreparedRows, NDArray[np.intp], Floats]:
        """Features, classes and weights of at most about 10,000 samples of all classes.

        The choice depends on the content of the samples, not on their order.
        """
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        if len(self.y) <= SUBSAMPLE_SIZE:
            return self.rows, self.y, weights
        rows = chosen_samples(self.keys(), self.y)
        return self.rows.chosen(rows), self.y[rows], weights[rows]

    def keys(self) -> NDArray[np.uint64]:
        """A hash of each sample, by which subsamples are chosen regardless of the order."""
        keys = content_keys(self.rows.source)
        return keys if self.rows.positions is None else keys[self.rows.positions]

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Prepared features of some samples.

        Parameters
        ----------
        positions : ndarray of int
            Positions of the samples.

        Returns
        -------
        array of shape (n_positions, n_features)
            One row per position.
        """
        return self.rows.take(positions)

    def subset(
        self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None
    ) -> Training:
        """The training data restricted to some seen classes.

        Parameters
        ----------
        positions : ndarray of int
            Ascending positions in `classes`.
        among : ndarray of int, optional
            The samples to choose from; by default all.

        Returns
        -------
        Training
            Training data in which `y` numbers these classes from 0. The scale of the signatures
            does not change.
        """
        rows = np.arange(len(self.y)) if among is None else among
        rows = rows[np.isin(self.y[rows], positions)]
        return replace(
            self,
            rows=self.rows.chosen(rows),
            y=np.searchsorted(positions, self.y[rows]),
            signatures=self.signatures[positions],
            classes=self.classes[positions],
            weights=None if self.weights is None else self.weights[rows],
            is_whole=False,
        )


# Training data of which only sums are in memory: streamed samples.


class KeptSamples(NamedTuple):
    """A subsample of streamed samples."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.float32]
    labels: NDArray[Any]
    weights: Floats

    def chosen(self, keep_all: bool) -> KeptSamples:
        """The subsample of these samples, or all of them."""
        if keep_all:
            return self
        positions = chosen_samples(self.keys, self.labels)
        return KeptSamples._make(part[positions] for part in self)


@dataclass(frozen=True, eq=False)
class Summary:
    """Sums over blocks of samples, which can be added up."""

    sums: ClassStatistics
    n_replaced: int  # non-finite values that were replaced by 0
    largest: float
    kept: KeptSamples
    keep_all: bool  # if there are few samples

    def __add__(self, other: Summary) -> Summary:
        pairs: Iterable[tuple[Any, Any]] = zip(self.kept, other.kept, strict=True)
        kept = KeptSamples._make(np.concatenate(pair) for pair in pairs)
        return Summary(
            self.sums + other.sums,
            self.n_replaced + other.n_replaced,
            max(self.largest, other.largest),
            kept.chosen(self.keep_all),
            self.keep_all,
        )


class StreamedRows(SummedRows):
    """Streamed rows whose sums are known; other quantities need another pass."""

    def __init__(
        self, samples: StreamedSamples, sums: ClassStatistics, feature_norm: str | None
    ) -> None:
        super().__init__(sums)
        self._samples, self._feature_norm = samples, feature_norm

    @property
    def dense(self) -> StreamedRows:
        """These rows, which are never all in memory."""
        return self

    def squares_along(self, components: Floats) -> Floats:
        """Sums of squared deviations of each class along directions."""
        shared = self._feature_norm, self.sums.classes, self.sums.means, components
        return np.asarray(self._samples.reduce(_squares, shared))


@dataclass(frozen=True, eq=False)
class SummedTraining(Training):
    """A :class:`Training` whose `X` is a :class:`StreamedRows` and whose `y` is empty."""

    kept: KeptSamples | None = None

    @property
    def sums(self) -> ClassStatistics:
        """Counts, means and scatter of the classes."""
        return self.X.sums

    @property
    def labels(self) -> NDArray[Any]:
        """Unavailable, since the samples are not in memory."""
        raise TypeError("The labels of streamed samples are not in memory.")

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of samples of each seen class."""
        return self.sums.counts.astype(np.intp)

    @property
    def sizes(self) -> Floats:
        """Total weight of the samples of each seen class."""
        return self.sums.sizes

    def subset(
        self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None
    ) -> Training:
        """Unavailable, since the samples are not in memory."""
        raise TypeError("Streamed samples are not in memory, so classes cannot be selected.")

    def subsample(self) -> tuple[PreparedRows, NDArray[np.intp], Floats]:
        """Features, classes and weights of the samples that were kept during the first pass."""
        assert self.kept is not None
        kept, rows = self.kept, PreparedRows.of_prepared(self.kept.rows)
        return rows, np.searchsorted(self.classes, kept.labels), kept.weights


def summarize(samples: StreamedSamples, feature_norm: str | None) -> Summary:
    """Sum up all samples in one pass."""
    weights = samples.weights
    n_samples = samples.shape[0] if weights is None else int((weights > 0).sum())
    summary: Summary = samples.reduce(_summarize, (feature_norm, n_samples <= SUBSAMPLE_SIZE))
    prepare = FeaturePreparation(feature_norm)
    prepare.replaced = summary.n_replaced
    prepare.warn()
    if feature_norm is None:
        refuse_extreme_features(np.array([[summary.largest]]))
    return summary


def _summarize(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Summary | None:
    """Sum up one block of samples."""
    feature_norm, keep_all = shared
    labels = check_block_labels(labels, len(rows))
    rows, labels, weights = drop_zero_weights(rows, labels, weights)
    if not len(rows):
        return None
    prepare = FeaturePreparation(feature_norm)
    prepared = prepare(rows)
    sums = ClassStatistics.of_block(prepared, labels, weights)
    largest = 1.0 if feature_norm else float(np.abs(prepared).max())
    host = np.asarray(to_numpy(prepared), dtype=np.float32)
    each = np.ones(len(rows)) if weights is None else weights
    kept = KeptSamples(content_keys(rows), host, labels, each).chosen(keep_all)
    return Summary(sums, prepare.replaced, largest, kept, keep_all)


def _squares(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Floats:
    """Sums of squared deviations of one block along directions."""
    feature_norm, classes, means, components = shared
    codes = np.searchsorted(classes, check_block_labels(labels, len(rows)))
    rows, codes, weights = drop_zero_weights(rows, codes, weights)
    if not len(rows):
        return np.zeros((len(classes), components.shape[1]))
    prepared = FeaturePreparation(feature_norm)(rows)
    return to_numpy(class_squares(prepared, codes, means, components, sample_weight=weights))
