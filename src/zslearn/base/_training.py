"""What a method learns from."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.base._row_sums import (
    RowSpectrum,
    are_kept,
    digest_of,
    moments_of,
    spectrum_of,
    sums_of,
)
from zslearn.scoring import PreparedRows
from zslearn.signatures import Signatures, SignatureTable
from zslearn.solvers import ClassSums, Moments
from zslearn.utils import Array, Floats, block_budget, take_rows

#: Rows of so many blocks, and no more, are prepared once and held.
COPIED_BLOCKS = 2
#: Samples that a method may look at where it needs no more than some, evenly spaced.
SPREAD_SAMPLES = 1000


def spread_positions(n_samples: int, most: int) -> NDArray[np.intp]:
    """Numbers of samples that are evenly spaced among all; of all where there are no more.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    most : int
        How many at most.

    Returns
    -------
    ndarray of int
        Ascending.
    """
    if n_samples <= most:
        return np.arange(n_samples)
    return np.linspace(0, n_samples - 1, most).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Training:
    """What `fit` was given, made ready for a method.

    Parameters
    ----------
    rows : array of shape (n_samples, n_features) or PreparedRows
        Prepared features, or features that are prepared as they are read. Code that goes through
        them in slices of rows reads these.
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
        Prepared features, in the namespace and on the device of those given; whoever asks for them
        holds a copy.
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

    @cached_property
    def X(self) -> Array:
        """All prepared features in one array."""
        return self.rows.whole() if isinstance(self.rows, PreparedRows) else self.rows

    @property
    def X_or_rows(self) -> Any:
        """All prepared features, or `rows` where there are so many that no copy is to be held.

        A solver that takes `rows` goes through them again and again, and prepares them each time.
        """
        if not isinstance(self.rows, PreparedRows) or "X" in vars(self) or self.rows.norm is None:
            return self.X
        if not isinstance(self.rows.source, np.ndarray):
            return self.X
        copy = math.prod(self.rows.shape) * np.dtype(self.rows.dtype).itemsize
        if copy <= COPIED_BLOCKS * block_budget(self.rows.source):
            return self.X
        self.rows.measure()
        return self.rows

    def is_prepared_by(self, norms: Collection[str | None]) -> bool:
        """Whether features as given become these, but for rounding, when they are prepared so.

        Parameters
        ----------
        norms : collection of ("l2" or None)
            Values of `feature_norm`.

        Returns
        -------
        bool
            False where a number was replaced.
        """
        return (
            isinstance(self.rows, PreparedRows)
            and self.rows.is_clean
            and self.rows.positions is None
            and set(norms) == {self.rows.norm}
        )

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

        A method that solves by elimination, as that is faster for a few penalties, then has the
        eigenvectors for less.
        """
        return are_kept(self)

    @cached_property
    def rows_key(self) -> str:
        """A digest of the rows, their classes and weights."""
        return digest_of(self)

    @cached_property
    def sums(self) -> ClassSums:
        """Counts, means and scatter of the classes."""
        return sums_of(self)

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
        return moments_of(self, center=center)

    def spectrum(self, *, center: bool) -> RowSpectrum:
        """XᵀX in its eigenvectors, and the sum of each class.

        Parameters
        ----------
        center : bool
            Whether the mean of the samples is taken from them first.

        Returns
        -------
        RowSpectrum
            In float64 on the device of the rows.
        """
        return spectrum_of(self, center=center)

    def every_signature(self) -> Signatures:
        """Normalised signatures of every described class, in the order of `table.labels`."""
        return self.table.normalized(self.signature_scale, keep_views=self.keep_views)

    def spread_samples(self) -> tuple[Array, NDArray[np.intp], Floats]:
        """A thousand samples at most, evenly spaced: their features, classes and weights."""
        rows = spread_positions(len(self.y), SPREAD_SAMPLES)
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        return self.take(rows), self.y[rows], weights

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
        if "X" in vars(self) or not isinstance(self.rows, PreparedRows):
            return take_rows(self.X, positions)
        return self.rows.take(positions)

    def _chosen(self, positions: NDArray[np.intp]) -> Any:
        """Some of the rows, prepared or to be prepared."""
        if "X" in vars(self) or not isinstance(self.rows, PreparedRows):
            return take_rows(self.X, positions)
        return self.rows.chosen(positions)

    def only(self, positions: NDArray[np.intp]) -> Training:
        """The samples of some seen classes, as if there were no others.

        Parameters
        ----------
        positions : ndarray of int
            Ascending positions in `classes`.

        Returns
        -------
        Training
            Its `y` counts these classes from 0; the scale of the signatures stays.
        """
        rows = np.flatnonzero(np.isin(self.y, positions))
        return replace(
            self,
            rows=self._chosen(rows),
            y=np.searchsorted(positions, self.y[rows]),
            signatures=self.signatures[positions],
            classes=self.classes[positions],
            weights=None if self.weights is None else self.weights[rows],
            is_whole=False,
        )
