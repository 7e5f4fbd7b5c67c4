"""Samples that do not lie in memory: features on disk, and dask arrays.

Both are read a block at a time. What is wanted of all samples is computed for each block and added
up: in the order of the rows for files, by a tree of tasks for dask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from zslearn.utils import Floats, RowsInBlocks, is_foreign, to_numpy

#: What is computed for a block: (number of its first row, rows, labels, weights, shared) → what
#: adds up over blocks; None for nothing.
BlockFunction = Callable[[int, Any, Any, Any, Any], Any]


def is_dask(X: object) -> bool:
    """Whether `X` is a dask array."""
    return bool(compat.is_dask_array(X))


def is_streamed(X: object) -> bool:
    """Whether `X` is read a block at a time: a FeatureBlocks or a dask array."""
    return isinstance(X, RowsInBlocks) or is_dask(X)


def needs_rows(estimator: object, X: object) -> TypeError:
    """The error of an estimator that cannot learn from such features."""
    kind = "dask array" if is_dask(X) else type(X).__name__
    return TypeError(
        f"{type(estimator).__name__} needs the rows in memory: give an array, not a {kind}. What "
        "it has learned predicts either."
    )


def read_blocks(X: Any) -> Iterator[Any]:
    """Read the rows of a FeatureBlocks or a dask array into memory, a block at a time.

    Parameters
    ----------
    X : FeatureBlocks or dask array of shape (n_samples, n_features)
        Features; chunks of a dask array hold whole rows.

    Yields
    ------
    ndarray of shape (n_rows, n_features)
        Rows in their order; no block is empty.
    """
    if is_dask(X):
        found = (X.blocks[i].compute() for i in range(X.numblocks[0]))
    else:
        found = (block.rows for block in X.blocks())
    yield from (rows for rows in found if len(rows))


class StreamedSamples(ABC):
    """Rows, labels and weights of which one block at a time is in memory.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    weights : ndarray of shape (n_samples,) or None
        How much each sample counts, where they do not all count the same.
    """

    shape: tuple[int, int]
    weights: Floats | None

    @abstractmethod
    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Compute something for every block and add it up.

        Parameters
        ----------
        function : callable
            Of a module, so that other processes can have it.
        shared : object
            Given to every call; sent to a process once.

        Returns
        -------
        object
            The sum; None where no block gave anything.
        """


class DiskSamples(StreamedSamples):
    """Samples in files.

    Parameters
    ----------
    X : RowsInBlocks
        The files.
    y : array-like of shape (n_samples,) or None
        Labels; None takes those of the files.
    weights : ndarray of shape (n_samples,) or None
        Weights.
    """

    def __init__(self, X: RowsInBlocks, y: Any, weights: Floats | None) -> None:
        if y is None and not X.has_labels:
            raise ValueError(
                "X has no labels: give y, or labels= where the files are opened. (This estimator "
                "requires y to be passed, but the target y is None.)"
            )
        self._X, self.shape, self.weights = X, X.shape, weights
        # A memory map of labels stays one.
        self._y = None if y is None else to_numpy(y)
        for given in (self._y, weights):
            if given is not None:
                check_consistent_length(X, given)

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
    """Samples that `fit` was given, to be read a block at a time.

    Parameters
    ----------
    X : FeatureBlocks or dask array of shape (n_samples, n_features)
        Features.
    y : array-like or dask array of shape (n_samples,), optional
        Labels; a FeatureBlocks may have its own.
    sample_weight : array-like of shape (n_samples,), optional
        Weights, which come into memory.

    Returns
    -------
    StreamedSamples
        Nothing of the rows is read yet.
    """
    weights = _checked_weights(sample_weight)
    if isinstance(X, RowsInBlocks):
        return DiskSamples(X, y, weights)
    from zslearn.base._dask import DaskSamples

    return DaskSamples(X, y, weights)


def _checked_weights(sample_weight: Any) -> Floats | None:
    if sample_weight is None:
        return None
    values = to_numpy(sample_weight) if is_foreign(sample_weight) else np.asarray(sample_weight)
    if values.dtype.kind not in "biuf" or values.ndim != 1:
        raise TypeError(f"sample_weight must be one number per sample; got {values.dtype}.")
    weights: NDArray[np.float64] = values.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every sample; none is left to learn from.")
    return None if (weights == 1).all() else weights
