"""The training data of a method: prepared samples, signatures, and sums that methods share.

Inside of a `FitCache` sums over the rows and eigenvectors of their scatter are kept: searches of
several methods on the same folds go through the rows of a fold once. XᵀX around the mean of the
samples, and around zero, both follow from the scatter within classes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._embedding import FeaturePreparation, PreparedRows, refuse_extreme_features
from zslearn._solvers._linalg import eigenbasis
from zslearn._utils._array import (
    Array,
    Floats,
    is_symbolic,
    row_blocks,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import cached_fit, caches_fits, fingerprint
from zslearn._utils._messages import warn_user
from zslearn._utils._validation import columns_named, dominating_columns, some_rows
from zslearn.base._class_statistics import (
    ClassStatistics,
    Moments,
    SummedRows,
    class_moments,
    class_squares,
)
from zslearn.base._streams import StreamedSamples, check_block_labels
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import Signatures

# Sums that take fewer multiplications are not kept: computing them takes no longer than telling
# the rows from others does.
_WORTH_KEEPING = 1e9
# A larger table of features by features is not kept, in bytes: those of all folds would push each
# other out.
_LARGEST_TABLE = 1 << 26


class RowSpectrum(NamedTuple):
    """XᵀX of the training rows in its eigenvectors, and the sum of each class."""

    values: Array  # ascending; those that are zero but for rounding are exactly 0
    vectors: Array  # as columns
    class_sums: Array  # centred if the rows are
    mean: Array  # what was taken from each sample; zeros where the rows are not centred

    @classmethod
    def of(cls, moments: Moments) -> RowSpectrum:
        """Decompose sums over samples."""
        values, vectors, _ = eigenbasis(moments.gram)
        return cls(values, vectors, moments.class_sums, moments.mean)

    @property
    def unit(self) -> float:
        """Mean of the eigenvalues that are not zero; 1.0 where all are."""
        xp = compat.array_namespace(self.values)
        rank = int(xp.sum(xp.astype(self.values > 0, xp.int64)))
        return float(xp.sum(self.values)) / rank if rank else 1.0


#: About so many samples are looked at where a method needs no more than some.
MOST_CHOSEN_SAMPLES = 1000
# Features that tell one sample from another.
_KEY_FEATURES = 64


def content_keys(X: Array) -> NDArray[np.uint64]:
    """A number made of the content of each row, whatever its place, library and precision."""
    step = -(-X.shape[1] // _KEY_FEATURES)
    keys = np.empty(X.shape[0], dtype=np.uint64)
    for rows in row_blocks(X.shape[0], 8 * X.shape[1]):
        # Adding 0 makes -0 and 0 the same. Numbers that float32 cannot hold are all one.
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(to_numpy(X[rows, ::step]), dtype=np.float32) + 0.0
        words = values.view(np.uint32).astype(np.uint64)
        factors = np.random.default_rng(0).integers(1 << 63, size=words.shape[1], dtype=np.uint64)
        mixed = (words * (2 * factors + 1)).sum(axis=1, dtype=np.uint64)
        keys[rows] = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return keys


def chosen_samples(
    keys: NDArray[np.uint64], labels: NDArray[Any], most: int = MOST_CHOSEN_SAMPLES
) -> NDArray[np.intp]:
    """Positions of about so many samples, as many of each class, by class and key.

    They do not depend on the order of the samples. What is chosen among parts of the samples holds
    what is chosen among all, since all have no fewer classes.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    order = np.lexsort((keys, codes))
    starts = np.searchsorted(codes[order], np.arange(len(classes)))
    ranks = np.arange(len(order)) - starts[codes[order]]
    order = order[ranks < -(-most // len(classes))]
    if len(classes) > most:
        order = order[np.sort(np.argsort(keys[order], kind="stable")[:most])]
    return order


@inherit_docs
@dataclass(frozen=True, eq=False)
class Training:
    """What `fit` was given, made ready for a method.

    Parameters
    ----------
    rows : PreparedRows or array of shape (n_samples, n_features)
        The lazy form of the features: prepared as they are read, in slices of rows. Code that goes
        through them once reads these, and holds no copy.
    y : ndarray of shape (n_samples,)
        Position of each sample's class in `classes`: 0 … n_seen − 1.
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes; row y[i] is that of the class of X[i].
    classes : ndarray of shape (n_seen,)
        Labels of the seen classes, sorted.
    table : SignatureTable
        Every described class, with its signature as given.
    signature_scale : tuple of float
        What the signatures of each view are divided by.
    keep_views : bool
        Whether several views stay apart.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where there are any.
    weights : ndarray of shape (n_samples,) or None
        How much each sample counts, positive; 2.0 is a sample that is there twice. None: all count
        the same. Only a method that is an :class:`AcceptsSampleWeight` ever meets weights.
    is_whole : bool, default=True
        Whether these are all rows that a fit was given; see :attr:`keeps_sums`.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        The dense form: prepared once, in the namespace and on the device of those given, and held
        from then on.
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

    def X_for(self, norms: Collection[str | None]) -> Array:
        """Features for a method with one of these `feature_norm`.

        Those that were given where preparing them again gives the same, which needs no copy; else
        the prepared ones.
        """
        rows = self.rows
        same = rows.is_clean and rows.positions is None and set(norms) == {rows.norm}
        return rows.source if same else self.X

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
        """Weight of the samples of each seen class; their number where all count the same."""
        return np.bincount(self.y, weights=self.weights, minlength=self.n_seen).astype(np.float64)

    @property
    def keeps_sums(self) -> bool:
        """Whether sums and spectra of the rows are kept, for other methods that need the same.

        They are where these are all rows of a fit, many and not too wide. A method that solves by
        elimination, as that is faster for a few penalties, then has the eigenvectors for less.
        """
        if not (self.is_whole and len(self.y) > 0 and caches_fits(self.rows.source)):
            return False
        n_samples, n_features = self.rows.shape
        is_large = n_features**2 * (n_samples + n_features) >= _WORTH_KEEPING
        return bool(is_large and 8 * n_features**2 <= _LARGEST_TABLE)

    @cached_property
    def rows_key(self) -> str:
        """A digest of the rows, their classes and weights, for fits that depend on nothing else."""
        rows = self.rows.source, self.rows.norm, self.rows.positions
        return fingerprint(rows, self.y, self.n_seen, self.weights)

    @cached_property
    def sums(self) -> ClassStatistics:
        """Counts, means and scatter of the classes."""
        if not self.keeps_sums:
            return ClassStatistics.of_rows(self.rows, self.y, self.classes, weights=self.weights)

        def compute() -> dict[str, Any]:
            found = ClassStatistics.of_rows(self.rows, self.y, self.classes, weights=self.weights)
            return {name: getattr(found, name) for name in ("means", "squares", "scatter")}

        arrays: dict[str, Any] = cached_fit(("class sums", self.rows_key), compute)
        return ClassStatistics(self.classes, self.counts.astype(np.int64), self.sizes, **arrays)

    def release_sums(self) -> None:
        """Hold a table of features by features no longer, unless searches share it."""
        if not self.keeps_sums:
            self.__dict__.pop("sums", None)

    def moments(self, *, center: bool) -> Moments:
        """XᵀX and the sum of each class, around the mean of all samples or around zero.

        Parameters
        ----------
        center : bool
            Whether the mean of the samples is taken from them first.

        Returns
        -------
        Moments
            In float64 on the device of the rows.
        """
        if self.keeps_sums:
            return self.sums.moments(center=center)
        return class_moments(
            self.rows, self.y, self.n_seen, center=center, sample_weight=self.weights
        )

    def spectrum(self, *, center: bool) -> RowSpectrum:
        """XᵀX in its eigenvectors, and the sum of each class.

        Returns
        -------
        RowSpectrum
            In float64 on the device of the rows.
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
        """Warn of columns in units that are much larger than those of the others."""
        self.table.warn_of_units(self.table.positions(self.classes))
        source = getattr(self.rows, "source", None)
        if source is None or is_symbolic(source):
            return
        large = dominating_columns(some_rows(source))
        if large:
            warn_user(
                f"X: {columns_named(large, self.feature_names)} alone decides which samples are "
                "near each other, since its numbers are so much larger than those of the other "
                "features. Bring the features to one unit: "
                "sklearn.pipeline.make_pipeline(StandardScaler(), method)."
            )

    def all_signatures(self) -> Signatures:
        """Normalised signatures of every described class, in the order of `table.labels`."""
        return self.table.normalized(self.signature_scale, keep_views=self.keep_views)

    def subsample(self) -> tuple[Array, NDArray[np.intp], Floats]:
        """About a thousand samples at most, of all classes: their features, classes and weights.

        They are chosen by their content: another order of the samples leads to the same ones.
        """
        rows = np.arange(len(self.y))
        if len(rows) > MOST_CHOSEN_SAMPLES:
            rows = chosen_samples(self.keys(), self.y)
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        return self.take(rows), self.y[rows], weights

    def keys(self) -> NDArray[np.uint64]:
        """A number for each sample by which some are chosen, whatever their order."""
        keys = content_keys(self.rows.source)
        return keys if self.rows.positions is None else keys[self.rows.positions]

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Prepared features of some samples.

        Parameters
        ----------
        positions : ndarray of int
            Which samples.

        Returns
        -------
        array of shape (n_positions, n_features)
            One row per position.
        """
        return self.rows.take(positions)

    def subset(
        self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None
    ) -> Training:
        """The samples of some seen classes, as if there were no others.

        Parameters
        ----------
        positions : ndarray of int
            Ascending positions in `classes`.
        among : ndarray of int, optional
            Samples that are taken, as far as they are of these classes; by default all.

        Returns
        -------
        Training
            Its `y` counts these classes from 0; the scale of the signatures stays.
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


# Training data of which only sums are in memory.


class KeptSamples(NamedTuple):
    """Some of the samples."""

    keys: NDArray[np.uint64]
    rows: Floats
    labels: NDArray[Any]
    weights: Floats

    def chosen(self, keep_all: bool) -> KeptSamples:
        """Those of these that are kept."""
        if keep_all:
            return self
        chosen = chosen_samples(self.keys, self.labels)
        return KeptSamples._make(part[chosen] for part in self)


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of blocks of samples; two objects add up."""

    sums: ClassStatistics
    n_replaced: int  # numbers that were not finite and count as 0
    largest: float
    kept: KeptSamples
    keep_all: bool  # where they are few

    def __add__(self, other: Summary) -> Summary:
        kept = KeptSamples._make(map(np.concatenate, zip(self.kept, other.kept, strict=True)))
        return Summary(
            self.sums + other.sums,
            self.n_replaced + other.n_replaced,
            max(self.largest, other.largest),
            kept.chosen(self.keep_all),
            self.keep_all,
        )


class StreamedRows(SummedRows):
    """Rows of a stream whose sums are known; they are read again for what sums do not tell."""

    def __init__(
        self, samples: StreamedSamples, sums: ClassStatistics, feature_norm: str | None
    ) -> None:
        super().__init__(sums)
        self._samples, self._feature_norm = samples, feature_norm

    @property
    def dense(self) -> StreamedRows:
        """These rows: no array of them is in memory."""
        return self

    def squares_along(self, components: Floats) -> Floats:
        """Sums of squared deviations of each class along directions, by one more pass."""
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
        """Not known: the samples are not in memory."""
        raise TypeError("The samples are not in memory, nor are their labels.")

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of samples of each seen class."""
        return self.sums.counts.astype(np.intp)

    @property
    def sizes(self) -> Floats:
        """Weight of the samples of each seen class."""
        return self.sums.sizes

    def subset(
        self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None
    ) -> Training:
        """Not possible: the samples are not in memory."""
        raise TypeError("The samples are not in memory: some of the classes cannot be taken out.")

    def subsample(self) -> tuple[Array, NDArray[np.intp], Floats]:
        """Samples of all classes, which were kept when they were read."""
        assert self.kept is not None
        kept = self.kept
        return kept.rows, np.searchsorted(self.classes, kept.labels), kept.weights


def summarize(samples: StreamedSamples, feature_norm: str | None) -> Summary:
    """Read all samples once."""
    weights = samples.weights
    n_samples = samples.shape[0] if weights is None else int((weights > 0).sum())
    keep_all = n_samples <= MOST_CHOSEN_SAMPLES
    summary: Summary = samples.reduce(_summarize, (feature_norm, keep_all))
    prepare = FeaturePreparation(feature_norm)
    prepare.replaced = summary.n_replaced
    prepare.warn()
    if feature_norm is None:
        refuse_extreme_features(np.array([[summary.largest]]))
    return summary


def _summarize(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Summary | None:
    """What is kept of one block."""
    feature_norm, keep_all = shared
    labels = check_block_labels(labels, len(rows))
    if weights is not None and not weights.all():
        there = np.flatnonzero(weights)
        rows, labels, weights = rows[there], labels[there], weights[there]
    if not len(rows):
        return None
    prepare = FeaturePreparation(feature_norm)
    prepared = prepare(rows)
    sums = ClassStatistics.of_block(prepared, labels, weights)
    largest = 1.0 if feature_norm else float(np.abs(prepared).max())
    each = np.ones(len(rows)) if weights is None else weights
    host = np.asarray(to_numpy(prepared), dtype=np.float64)
    kept = KeptSamples(content_keys(rows), host, labels, each).chosen(keep_all)
    return Summary(sums, prepare.replaced, largest, kept, keep_all)


def _squares(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Floats:
    """Squared deviations of one block along directions."""
    feature_norm, classes, means, components = shared
    codes = np.searchsorted(classes, check_block_labels(labels, len(rows)))
    if weights is not None and not weights.all():
        there = np.flatnonzero(weights)
        rows, codes, weights = rows[there], codes[there], weights[there]
    if not len(rows):
        return np.zeros((len(classes), components.shape[1]))
    prepared = FeaturePreparation(feature_norm)(rows)
    return to_numpy(class_squares(prepared, codes, means, components, sample_weight=weights))
