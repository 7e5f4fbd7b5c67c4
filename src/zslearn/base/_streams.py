"""Samples that do not lie in memory: files and dask arrays, read a block of rows at a time.

A result over all samples is computed block by block and added up: in the order of the rows for
files, by a tree of tasks for dask. Predictions are an array for files and lazy for dask arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from zslearn._scoring._blocks import check_k
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import Array, Floats, RowsInBlocks, is_dask, to_numpy
from zslearn._utils._optional import import_optional
from zslearn.base._class_statistics import check_weights
from zslearn.signatures._table import label_array

#: A function of a block, (number of its first row, rows, labels, weights, shared), whose results
#: can be added up over blocks; None is skipped.
BlockFunction = Callable[[int, Any, Any, Any, Any], Any]


def needs_rows(estimator: object, X: object) -> TypeError:
    """The error of an estimator that cannot learn from streamed features."""
    kind = "dask array" if is_dask(X) else type(X).__name__
    return TypeError(
        f"{type(estimator).__name__} needs all rows in memory to learn: pass an array, not a "
        f"{kind}. The fitted model can predict on either."
    )


def read_blocks(X: Any) -> Iterator[Any]:
    """Read the rows of a FeatureBlocks or a dask array into memory, a block at a time."""
    if is_dask(X):
        blocks = (X.blocks[i].compute() for i in range(X.numblocks[0]))
    else:
        blocks = (block.rows for block in X.blocks())
    yield from (rows for rows in blocks if len(rows))


class StreamedSamples(ABC):
    """Rows, labels and weights, of which one block at a time is in memory."""

    shape: tuple[int, int]
    weights: Floats | None  # None if all are 1

    @abstractmethod
    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Apply a function to every block and add up the results."""


class DiskSamples(StreamedSamples):
    """Samples in files; if `y` is None, their labels are read from the files."""

    def __init__(self, X: RowsInBlocks, y: Any, sample_weight: Any) -> None:
        if y is None and not X.has_labels:
            raise ValueError(
                "X has no labels: pass y, or labels= when opening the files. (This estimator "
                "requires y to be passed, but the target y is None.)"
            )
        self._X, self.shape = X, X.shape
        self.weights = check_weights(sample_weight, X)
        # A memory map of labels is not read into memory.
        self._y = None if y is None else to_numpy(y)
        if self._y is not None:
            check_consistent_length(X, self._y)

    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Process the blocks one after another, in the order of the rows."""
        total = None
        for start, rows, labels in self._X.blocks():
            part = slice(start, start + len(rows))
            labels = labels if self._y is None else self._y[part]
            weights = None if self.weights is None else self.weights[part]
            result = function(start, rows, labels, weights, shared)
            if result is not None:
                total = result if total is None else total + result
        return total


def stream_samples(X: Any, y: Any, sample_weight: Any = None) -> StreamedSamples:
    """The samples given to `fit`, to be read a block at a time."""
    kind = DiskSamples if isinstance(X, RowsInBlocks) else DaskSamples
    return kind(X, y, sample_weight)


# Number of results that one task adds up.
_FAN_IN = 8


class DaskSamples(StreamedSamples):
    """Samples of a dask array; chunks of columns are joined and unknown chunk sizes computed."""

    def __init__(self, X: Any, y: Any, sample_weight: Any) -> None:
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        self._X = with_known_rows(whole_rows(X))
        self.shape = self._X.shape
        if not self.shape[0]:
            raise ValueError(f"X of shape {self.shape} is empty: found 0 samples.")
        self._y = self._chunked(y, "y")
        self.weights = check_weights(sample_weight, self._X)
        self._w = None if self.weights is None else self._chunked(self.weights, "sample_weight")

    def _chunked(self, values: Any, name: str) -> Any:
        """Labels or weights as a dask array with the chunks of the rows."""
        if hasattr(values, "to_dask_array"):  # a series of a dask frame
            values = values.to_dask_array()
        in_memory = not hasattr(values, "dask")
        if in_memory:
            values = to_numpy(values)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(
                f"{name} should be a 1d array, got an array of shape {values.shape} instead."
            )
        values = values if in_memory else with_known_rows(values)
        if values.shape[0] != self.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X has "
                f"{self.shape[0]}, {name} has {values.shape[0]}."
            )
        if not in_memory:
            return values.rechunk((self._X.chunks[0],))
        array = import_optional("dask.array", "A dask array")
        return array.from_array(values, chunks=(self._X.chunks[0],), inline_array=False)

    def reduce(self, function: BlockFunction, shared: Any = None) -> Any:
        """Run one task per block, then add up the results in a tree of tasks."""
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
    results = [part for part in parts if part is not None]
    return sum(results[1:], start=results[0]) if results else None


def whole_rows(X: Any) -> Any:
    """Validate a dask array and rechunk it so that chunks contain whole rows."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of {X.ndim} axes instead.")
    if math.isnan(X.shape[1]):
        raise ValueError(
            "The number of columns of X is unknown: call X.compute_chunk_sizes(), or "
            "to_dask_array(lengths=True) if it comes from a DataFrame."
        )
    if X.shape[1] == 0:
        raise ValueError(f"X of shape {X.shape} is empty: found 0 features.")
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric; got a dask array of {X.dtype}.")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def with_known_rows(X: Any) -> Any:
    """The same dask array with known chunk sizes, which are computed if necessary."""
    if not any(math.isnan(size) for size in X.chunks[0]):
        return X
    # compute_chunk_sizes works in place, and the user's array must not change.
    return X.copy().compute_chunk_sizes()


def check_block_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    """Validate the labels of a block: one per row, all of one type."""
    values = to_numpy(labels)
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(
            f"A block of {n_rows} rows has labels of shape {values.shape}: pass one label per row."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: every sample needs a label.")
    if values.dtype.kind in "OS":
        values = label_array(values.astype(str) if values.dtype.kind == "S" else values, "y")
    check_classification_targets(values)
    return values


# Predictions for streamed rows.


def stream_scores(
    scorer: ClassScorer, X: Any, classes: Any, *, probabilities: bool = False
) -> Array:
    """Scores of all rows as in `decision_function`, or probabilities as in `predict_proba`."""
    classes = _candidates(classes, scorer)
    n_classes = len(scorer.labels if classes is None else classes)
    as_margin = classes is None and n_classes == 2 and not probabilities
    shared = scorer, classes, as_margin, probabilities
    return _map_blocks(
        X, _block_scores, shared, None if as_margin else n_classes, _score_dtype(scorer, X)
    )


def stream_top_k(
    scorer: ClassScorer, X: Any, k: int, classes: Any, *, proba: bool = False
) -> tuple[NDArray[Any], Array]:
    """The best classes of all rows as in `predict_top_k`."""
    classes = _candidates(classes, scorer)
    check_k(k, len(scorer.labels if classes is None else classes))
    # One record per row, so that one task computes both labels and scores.
    record = np.dtype(
        [("label", scorer.labels.dtype, (k,)), ("score", _score_dtype(scorer, X), (k,))]
    )
    best = _map_blocks(X, _block_top_k, (scorer, k, classes, proba, record), None, record)
    return best["label"], best["score"]


def _candidates(classes: Any, scorer: ClassScorer) -> NDArray[Any] | None:
    """Validate the candidates before any rows are read."""
    return None if classes is None else scorer.labels[find_classes(classes, scorer.labels)]


def _score_dtype(scorer: ClassScorer, X: Any) -> np.dtype[Any]:
    """The dtype of the scores of these rows."""
    row = np.ones((1, X.shape[1]), dtype=X.dtype)
    return np.dtype(to_numpy(scorer.scores(row, scorer.labels[:1])).dtype)


def _map_blocks(
    X: Any, function: Callable[[Any, Any], Any], shared: Any, width: int | None, dtype: Any
) -> Any:
    """Apply a function to every block of rows, lazily for dask arrays."""
    shape = () if width is None else (width,)
    if is_dask(X):
        dask = import_optional("dask", "A dask array")
        empty = np.empty((0, *shape), dtype=dtype)
        layout = {"drop_axis": 1} if width is None else {"chunks": (X.chunks[0], shape)}
        delayed = dask.delayed(shared, pure=False)
        apply = partial(_apply_to_rows, function, empty)
        return X.map_blocks(apply, shared=delayed, dtype=dtype, meta=empty, **layout)
    out = np.empty((X.shape[0], *shape), dtype=dtype)
    for start, rows, _ in X.blocks():
        out[start : start + len(rows)] = function(rows, shared)
    return out


def _apply_to_rows(
    function: Callable[..., Any], empty: NDArray[Any], rows: Any, *, shared: Any
) -> Any:
    """Apply a function to a block, which may have no rows."""
    if not rows.shape[0]:
        return empty
    return np.asarray(function(rows, shared)).astype(empty.dtype, copy=False)


def _block_scores(rows: Any, shared: Any) -> Any:
    """Scores, margins or probabilities of one block."""
    scorer, classes, as_margin, probabilities = shared
    if probabilities:
        return to_numpy(scorer.probabilities(rows, classes))
    scores = to_numpy(scorer.scores(rows, classes))
    return scores[:, 1] - scores[:, 0] if as_margin else scores


def _block_top_k(rows: Any, shared: Any) -> Any:
    """Records of the best classes of one block."""
    scorer, k, classes, proba, record = shared
    labels, scores = scorer.top_k(rows, k, classes, proba=proba)
    out = np.empty(len(rows), dtype=record)
    out["label"], out["score"] = labels, to_numpy(scores)
    return out
