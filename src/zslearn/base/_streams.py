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
from zslearn._utils._array import Array, Floats, RowsInBlocks, is_dask, is_foreign, to_numpy
from zslearn._utils._optional import import_optional
from zslearn.base._class_statistics import check_weights
from zslearn.signatures._table import label_array

#: What is computed for a block: (number of its first row, rows, labels, weights, shared) → what
#: adds up over blocks; None for nothing.
BlockFunction = Callable[[int, Any, Any, Any, Any], Any]


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


# Predictions of rows that are read a block at a time: an array for files, lazy for dask arrays.


def stream_scores(
    scorer: ClassScorer, X: Any, classes: Any, *, probabilities: bool = False
) -> Array:
    """Scores of all rows, as `decision_function` gives them, or as `predict_proba` does."""
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
    """The best classes of all rows, as `predict_top_k` gives them."""
    classes = _candidates(classes, scorer)
    check_k(k, len(scorer.labels if classes is None else classes))
    # One record per row, so that labels and scores are made by one task.
    record = np.dtype(
        [("label", scorer.labels.dtype, (k,)), ("score", _score_dtype(scorer, X), (k,))]
    )
    found = _map_blocks(X, _block_top_k, (scorer, k, classes, proba, record), None, record)
    return found["label"], found["score"]


def _candidates(classes: Any, scorer: ClassScorer) -> NDArray[Any] | None:
    """Candidates that are described, before anything is read."""
    return None if classes is None else scorer.labels[find_classes(classes, scorer.labels)]


def _score_dtype(scorer: ClassScorer, X: Any) -> np.dtype[Any]:
    """The dtype of the scores of such rows."""
    row = np.ones((1, X.shape[1]), dtype=X.dtype)
    return np.dtype(to_numpy(scorer.scores(row, scorer.labels[:1])).dtype)


def _map_blocks(
    X: Any, function: Callable[[Any, Any], Any], shared: Any, width: int | None, dtype: Any
) -> Any:
    """Apply a function to every block of rows."""
    if is_dask(X):
        return map_rows(X, function, shared, width=width, dtype=dtype)
    out = np.empty((X.shape[0],) if width is None else (X.shape[0], width), dtype=dtype)
    for start, rows, _ in X.blocks():
        out[start : start + len(rows)] = function(rows, shared)
    return out


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
