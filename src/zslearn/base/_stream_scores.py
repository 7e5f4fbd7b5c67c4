"""Scores of rows that do not lie in memory: collected from files, lazy for dask arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zslearn.base._dask import map_rows
from zslearn.base._streams import is_dask, stream_samples
from zslearn.base._summed_training import check_block_labels
from zslearn.metrics import HitCounts
from zslearn.scoring import ClassScorer, find_classes
from zslearn.utils import Array, to_numpy

if TYPE_CHECKING:
    from zslearn.base._predictor import ZeroShotPredictor


def stream_scores(scorer: ClassScorer, X: Any, classes: Any) -> Array:
    """Scores of all rows, as `decision_function` gives them.

    Parameters
    ----------
    scorer : ClassScorer
        Of the estimator.
    X : FeatureBlocks or dask array of shape (n_samples, n_features)
        Features.
    classes : array-like of labels or None
        The candidates.

    Returns
    -------
    ndarray or dask array of shape (n_samples, n_classes)
        One number per sample where two classes are described and none is named.
    """
    classes = _checked(classes, scorer)
    as_margin = classes is None and len(scorer.labels) == 2
    width = None if as_margin else len(scorer.labels if classes is None else classes)
    return _map(X, _scores, (scorer, classes, as_margin), width, _dtype(scorer, X))


def stream_probabilities(scorer: ClassScorer, X: Any, classes: Any) -> Array:
    """Probabilities of all rows, as `predict_proba` gives them; see :func:`stream_scores`."""
    classes = _checked(classes, scorer)
    width = len(scorer.labels if classes is None else classes)
    return _map(X, _probabilities, (scorer, classes), width, _dtype(scorer, X))


def stream_top_k(scorer: ClassScorer, X: Any, k: int, classes: Any) -> tuple[NDArray[Any], Array]:
    """The best classes of all rows, as `predict_top_k` gives them.

    Parameters
    ----------
    scorer : ClassScorer
        Of the estimator.
    X : FeatureBlocks or dask array of shape (n_samples, n_features)
        Features.
    k : int
        How many classes.
    classes : array-like of labels or None
        The candidates.

    Returns
    -------
    labels, scores : ndarray or dask array of shape (n_samples, k)
        Of a dask array both come from the same tasks: computed together, rows are scored once.
    """
    classes = _checked(classes, scorer)
    check_k(k, len(scorer.labels if classes is None else classes))
    # One record per row, so that labels and scores are made by one task.
    record = np.dtype([("label", scorer.labels.dtype, (k,)), ("score", _dtype(scorer, X), (k,))])
    found = _map(X, _top_k, (scorer, k, classes, record), None, record)
    return found["label"], found["score"]


def stream_accuracy(
    estimator: ZeroShotPredictor,
    scorer: ClassScorer,
    X: Any,
    y: Any,
    classes: Any,
    sample_weight: Any,
) -> float:
    """Per-class accuracy, from counts that are added up over the blocks; see `score`."""
    if hasattr(estimator, "is_none"):
        # What it predicts is not always the class of the best score.
        samples = stream_samples(X, y, sample_weight)
        counts: HitCounts = samples.reduce(_count_predicted, (estimator, classes))
    else:
        counts = stream_hits(scorer, X, y, 1, classes, sample_weight)
    estimator._check_true_labels(counts.classes, scorer, classes)
    if classes is None:
        estimator._warn_of_generalized(counts.classes)
    return counts.per_class_accuracy()


def stream_hits(
    scorer: ClassScorer, X: Any, y: Any, k: int, classes: Any = None, sample_weight: Any = None
) -> HitCounts:
    """Count at which rank the labels of rows are predicted.

    Parameters
    ----------
    scorer : ClassScorer
        Of an estimator.
    X : FeatureBlocks or dask array of shape (n_samples, n_features)
        Features.
    y : array-like or dask array of shape (n_samples,) or None
        Labels; None for those of a FeatureBlocks.
    k : int
        How many ranks.
    classes : array-like of labels, optional
        The candidates.
    sample_weight : array-like of shape (n_samples,), optional
        How much each sample counts.

    Returns
    -------
    HitCounts
        Of all rows. No more than one block of predictions is ever in memory.
    """
    classes = _checked(classes, scorer)
    check_k(k, len(scorer.labels if classes is None else classes))
    samples = stream_samples(X, y, sample_weight)
    counts: HitCounts = samples.reduce(count_block, (scorer, k, classes))
    return counts


def count_block(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> HitCounts | None:
    """Hits of one block, as :class:`StreamedSamples` adds them up."""
    scorer, k, classes = shared
    if not len(rows):
        return None
    top, _ = scorer.top_k(rows, k, classes)
    true = check_block_labels(labels, len(rows))
    return HitCounts.of(true, to_numpy(top), sample_weight=weights)


def _count_predicted(
    start: int, rows: Any, labels: Any, weights: Any, shared: Any
) -> HitCounts | None:
    """Hits of one block by what an estimator predicts; see :func:`count_block`."""
    estimator, classes = shared
    if not len(rows):
        return None
    predicted = estimator.predict(rows, classes=classes)
    true = check_block_labels(labels, len(rows))
    return HitCounts.of(true, predicted[:, None], sample_weight=weights)


def check_k(k: int, n_classes: int) -> None:
    """Refuse a number of classes that cannot be named."""
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be between 1 and the number of classes, {n_classes}; got {k}.")


def _checked(classes: Any, scorer: ClassScorer) -> NDArray[Any] | None:
    """Candidates that are described, before anything is read."""
    return None if classes is None else scorer.labels[find_classes(classes, scorer.labels)]


def _dtype(scorer: ClassScorer, X: Any) -> np.dtype[Any]:
    """Of the scores of such rows."""
    row = np.ones((1, X.shape[1]), dtype=X.dtype)
    return np.dtype(to_numpy(scorer.scores(row, scorer.labels[:1])).dtype)


def _map(
    X: Any, function: Callable[[Any, Any], Any], shared: Any, width: int | None, dtype: Any
) -> Any:
    """Apply a function to every block of rows."""
    if is_dask(X):
        return map_rows(X, function, shared, width=width, dtype=dtype)
    out = np.empty((X.shape[0],) if width is None else (X.shape[0], width), dtype=dtype)
    for start, rows, _ in X.blocks():
        out[start : start + len(rows)] = function(rows, shared)
    return out


def _scores(rows: Any, shared: Any) -> Any:
    scorer, classes, as_margin = shared
    scores = to_numpy(scorer.scores(rows, classes))
    return scores[:, 1] - scores[:, 0] if as_margin else scores


def _probabilities(rows: Any, shared: Any) -> Any:
    scorer, classes = shared
    return to_numpy(scorer.probabilities(rows, classes))


def _top_k(rows: Any, shared: Any) -> Any:
    scorer, k, classes, record = shared
    labels, scores = scorer.top_k(rows, k, classes)
    out = np.empty(len(rows), dtype=record)
    out["label"], out["score"] = labels, to_numpy(scores)
    return out
