"""The training data of a method: prepared samples, signatures, and sums that methods share.

Inside of a `FitCache` sums over the rows and eigenvectors of their scatter are kept: searches of
several methods on the same folds go through the rows of a fold once. XᵀX around the mean of the
samples, and around zero, both follow from the scatter within classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from zslearn._scoring._embedding import FeaturePreparation, PreparedRows, refuse_extreme_features
from zslearn._solvers._linalg import eigenbasis
from zslearn._utils._array import Array, Floats, is_foreign, is_symbolic, to_numpy
from zslearn._utils._blocks import RowsInBlocks, row_blocks
from zslearn._utils._columns import columns_named, dominating_columns, some_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import cached_fit, caches_fits, fingerprint
from zslearn._utils._messages import warn_user
from zslearn._utils._optional import import_optional
from zslearn.base._class_statistics import (
    ClassStatistics,
    Moments,
    SummedRows,
    check_weights,
    class_moments,
    class_squares,
)
from zslearn.signatures._table import SignatureTable, label_array
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

    def every_signature(self) -> Signatures:
        """Normalised signatures of every described class, in the order of `table.labels`."""
        return self.table.normalized(self.signature_scale, keep_views=self.keep_views)

    def some_samples(self) -> tuple[Array, NDArray[np.intp], Floats]:
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

    def only(self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None) -> Training:
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


# Samples that do not lie in memory, features on disk or dask arrays, are read a block at a time.
# What is wanted of all is computed for each block and added up: in the order of the rows for files,
# by a tree of tasks for dask.

#: What is computed for a block: (number of its first row, rows, labels, weights, shared) → what
#: adds up over blocks; None for nothing.
BlockFunction = Callable[[int, Any, Any, Any, Any], Any]


def is_dask(X: object) -> bool:
    """Whether `X` is a dask array."""
    return bool(compat.is_dask_array(X))


def is_streamed(X: object) -> bool:
    """Whether `X` is read a block at a time: a FeatureBlocks or a dask array."""
    return isinstance(X, RowsInBlocks) or is_dask(X)


def is_empty(X: Any) -> bool:
    """Whether features in memory have no row at all."""
    return not is_streamed(X) and np.shape(X)[:1] == (0,)


def needs_rows(estimator: object, X: object) -> TypeError:
    """The error of an estimator that cannot learn from such features."""
    kind = "dask array" if is_dask(X) else type(X).__name__
    return TypeError(
        f"{type(estimator).__name__} needs the rows in memory: give an array, not a {kind}. What "
        "it has learned predicts either."
    )


def read_blocks(X: Any) -> Iterator[Any]:
    """Read the rows of a FeatureBlocks or a dask array into memory, a block at a time."""
    if is_dask(X):
        found = (X.blocks[i].compute() for i in range(X.numblocks[0]))
    else:
        found = (block.rows for block in X.blocks())
    yield from (rows for rows in found if len(rows))


class StreamedSamples(ABC):
    """Rows, labels and weights of which one block at a time is in memory."""

    shape: tuple[int, int]
    weights: Floats | None  # None where all samples count the same

    @abstractmethod
    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Compute something for every block and add it up."""


class DiskSamples(StreamedSamples):
    """Samples in files; with `y` None their labels are those of the files."""

    def __init__(self, X: RowsInBlocks, y: Any, sample_weight: Any) -> None:
        if y is None and not X.has_labels:
            raise ValueError(
                "X has no labels: give y, or labels= where the files are opened. (This estimator "
                "requires y to be passed, but the target y is None.)"
            )
        self._X, self.shape = X, X.shape
        self.weights = check_weights(sample_weight, X)
        # A memory map of labels stays one.
        self._y = None if y is None else to_numpy(y)
        if self._y is not None:
            check_consistent_length(X, self._y)

    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Block after block, in the order of the rows."""
        total = None
        for start, rows, labels in self._X.blocks():
            part = slice(start, start + len(rows))
            labels = labels if self._y is None else self._y[part]
            weights = None if self.weights is None else self.weights[part]
            found = function(start, rows, labels, weights, shared)
            if found is not None:
                total = found if total is None else total + found
        return total


def stream_samples(X: Any, y: Any, sample_weight: Any = None) -> StreamedSamples:
    """Samples that `fit` was given, to be read a block at a time."""
    kind = DiskSamples if isinstance(X, RowsInBlocks) else DaskSamples
    return kind(X, y, sample_weight)


# Dask arrays of features: fitted by a tree of tasks, scored lazily, block by block.

# Results that are added up by one task.
_FAN_IN = 8


class DaskSamples(StreamedSamples):
    """Samples of a dask array; chunks of columns are joined, unknown sizes of chunks are found."""

    def __init__(self, X: Any, y: Any, sample_weight: Any) -> None:
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        self._X = with_known_rows(whole_rows(X))
        self.shape = self._X.shape
        if not self.shape[0]:
            raise ValueError(f"X of shape {self.shape} holds nothing: found 0 samples.")
        self._y = self._labels(y)
        self.weights = check_weights(sample_weight, self._X)
        self._w = None if self.weights is None else self._like_rows(self.weights, "sample_weight")

    def _labels(self, y: Any) -> Any:
        if not hasattr(y, "dask"):
            return self._like_rows(to_numpy(y) if is_foreign(y) else np.asarray(y), "y")
        if hasattr(y, "to_dask_array"):  # a series of a dask frame
            y = y.to_dask_array()
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
        y = with_known_rows(y)
        self._check_length(y.shape[0], "y")
        return y.rechunk((self._X.chunks[0],))

    def _like_rows(self, values: Any, name: str) -> Any:
        """An array in memory in the chunks of the rows."""
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(f"{name} should be a 1d array, got shape {values.shape} instead.")
        self._check_length(len(values), name)
        array = import_optional("dask.array", "A dask array")
        return array.from_array(values, chunks=(self._X.chunks[0],), inline_array=False)

    def _check_length(self, n_labels: int, name: str) -> None:
        if n_labels != self.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X has "
                f"{self.shape[0]}, {name} has {n_labels}."
            )

    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """A task per block, then sums of a few sums each, until one is left."""
        dask = import_optional("dask", "A dask array")
        shared = dask.delayed(shared, pure=False)
        of_block = dask.delayed(function, pure=False)
        n_blocks = self._X.numblocks[0]
        rows, labels = self._X.to_delayed().ravel(), self._y.to_delayed().ravel()
        weights = [None] * n_blocks if self._w is None else self._w.to_delayed().ravel()
        starts = np.cumsum([0, *self._X.chunks[0]]).tolist()
        parts = [
            of_block(starts[i], rows[i], labels[i], weights[i], shared)
            for i in range(n_blocks)
            if self._X.chunks[0][i]
        ]
        add = dask.delayed(_add, pure=False)
        while len(parts) > 1:
            parts = [add(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
        return parts[0].compute()


def _add(parts: list[Any]) -> Any:
    found = [part for part in parts if part is not None]
    return sum(found[1:], start=found[0]) if found else None


def whole_rows(X: Any) -> Any:
    """A dask array of real numbers with two axes, whose chunks hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of {X.ndim} axes instead.")
    if math.isnan(X.shape[1]):
        raise ValueError(
            "The number of columns of X is not known. Say it: X.compute_chunk_sizes(), or "
            "to_dask_array(lengths=True) where it comes from a frame."
        )
    if X.shape[1] == 0:
        raise ValueError(f"X of shape {X.shape} holds nothing: found 0 features.")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must be numbers; got a dask array of {X.dtype}.")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def with_known_rows(X: Any) -> Any:
    """The same dask array with known sizes of its chunks; they are computed where they are not."""
    if not any(math.isnan(size) for size in X.chunks[0]):
        return X
    # Of a copy: that of the user stays as it is.
    return X.copy().compute_chunk_sizes()


def map_rows(
    X: Any, function: Callable[..., Any], shared: Any, *, width: int | None, dtype: Any
) -> Any:
    """Apply a function to blocks of rows, lazily."""
    dask = import_optional("dask", "A dask array")
    shape = (0,) if width is None else (0, width)
    options: dict[str, Any] = {"dtype": dtype, "meta": np.empty(shape, dtype=dtype)}
    if width is None:
        options["drop_axis"] = 1
    else:
        options["chunks"] = (X.chunks[0], (width,))
    return X.map_blocks(
        partial(_of_rows, function, shape, dtype),
        shared=dask.delayed(shared, pure=False),
        **options,
    )


def _of_rows(
    function: Callable[..., Any], shape: tuple[int, ...], dtype: Any, rows: Any, *, shared: Any
) -> Any:
    """What a function makes of a block; a block without rows gives none."""
    if not rows.shape[0]:
        return np.empty(shape, dtype=dtype)
    return np.asarray(function(rows, shared)).astype(dtype, copy=False)


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

    def only(self, positions: NDArray[np.intp], among: NDArray[np.intp] | None = None) -> Training:
        """Not possible: the samples are not in memory."""
        raise TypeError("The samples are not in memory: some of the classes cannot be taken out.")

    def some_samples(self) -> tuple[Array, NDArray[np.intp], Floats]:
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


def check_block_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    """Labels of a block as an array of one kind, as many as there are rows."""
    values = to_numpy(labels)
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(
            f"A block of {n_rows} rows has labels of shape {values.shape}: give one per row."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: every sample needs a label.")
    if values.dtype.kind in "OS":
        values = label_array(values.astype(str) if values.dtype.kind == "S" else values, "y")
    check_classification_targets(values)
    return values
