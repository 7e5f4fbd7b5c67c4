"""Suggest which images to label next, and what would help each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import (
    Floats,
    evenly_spaced,
    is_dask,
    is_streamed,
    take_rows,
    to_numpy,
)
from zslearn.base._streams import read_blocks, stream_top_k, with_known_rows
from zslearn.signatures._attributes import IndistinctPair, indistinct_pairs
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior
from zslearn.synthesis._label_gains import LabelGains

if TYPE_CHECKING:
    from zslearn.synthesis._gaussian import GaussianEXEM

# A larger pool is represented by this number of images, or fewer with many classes.
_MAX_IMAGES, _MAX_SCORES = 5000, 1 << 23
# A class is found in the pool if it has an image of at least this probability, and a label of it
# helps if at least this number of images is expected to be predicted correctly by it.
_LIKELY, _LEAST_IMAGES = 0.5, 0.05


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Images to label next, and what would help each class most.

    Attributes
    ----------
    rows : ndarray of int of shape (n_suggested,)
        Rows of the pool, the most valuable first.
    gains : ndarray of shape (n_suggested,)
        Expected gain of accuracy over the other images of the pool by the label of each row, given
        the labels of the rows before.
    labels : ndarray of shape (n_suggested,)
        The predicted class of each row.
    probabilities : ndarray of shape (n_suggested,)
        The probability of this class.
    classes : DataFrame
        One row per candidate class, the most valuable first: "gain", the expected gain of accuracy
        by the label of an image of the class; "images", the expected number of its images in the
        pool; "labelled", the number of its labelled images; "uncertainty", the variance of its mean
        relative to that of the means of all seen classes; "same_attributes", a class with
        indistinguishable attributes, or None; and "advice", what helps most: "image" for the
        label of an image, "description" for a better description, or "none". A description is
        advised for a class without labelled images if its attributes are those of another, or if
        no image of the pool is likely to show it.
    indistinct : list of IndistinctPair
        Pairs of candidates with indistinguishable attributes; see
        :func:`zslearn.signatures.indistinct_pairs`.
    """

    rows: NDArray[np.intp]
    gains: Floats
    labels: NDArray[Any]
    probabilities: Floats
    classes: pd.DataFrame
    indistinct: list[IndistinctPair]


def suggest(model: GaussianEXEM, X: Any, n: int, classes: Any, scorer: ClassScorer) -> Suggestions:
    """Suggest rows of `X`, with the bias and temperature of the scorer of a wrapper."""
    own = model.class_scorer_
    scorer = replace(own, bias=scorer.bias, temperature=scorer.temperature or own.temperature)
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a positive integer; got {n!r}.")
    if is_dask(X):
        X = with_known_rows(X)
    candidates = np.arange(len(scorer.labels))
    if classes is not None:
        candidates = np.sort(find_classes(classes, scorer.labels))
    labels, n_rows = scorer.labels[candidates], X.shape[0]
    n_images = max(int(n), min(_MAX_IMAGES, _MAX_SCORES // len(labels)))
    rows = np.arange(n_rows)
    if n_rows > n_images:
        rows = _representative(X, n_images, labels, scorer)
    posterior, parameters = model.posterior_, scorer.parameters[candidates]
    embedded = np.empty((0, parameters.shape[1]))
    if n_rows:
        embedded = np.asarray(to_numpy(scorer.embedding(_rows(X, rows))), dtype=np.float64)
    scores = embedded @ parameters.T + (0.0 if scorer.bias is None else scorer.bias[candidates])
    z, temperature = embedded[:, : posterior.n_dims], scorer._temperature()
    signatures = model._normalized(model.signature_table_.subset(candidates))
    state = LabelGains.of(posterior, signatures, labels, z, scores, temperature)
    top, probable, gains = state.top, state.probable, state.gains(np.arange(len(rows)))
    chosen, expected = state.choose(gains, int(n))
    pairs = _indistinct(model, labels)
    table = _class_table(posterior, signatures, labels, top, probable, gains, pairs)
    table["images"] *= n_rows / max(len(rows), 1)
    return Suggestions(
        rows[chosen], expected, labels[top[chosen, 0]], probable[chosen, 0], table, pairs
    )


def _representative(
    X: Any, n_images: int, labels: NDArray[Any], scorer: ClassScorer
) -> NDArray[np.intp]:
    """Rows evenly spaced by predicted class and probability, whatever the order of the rows."""
    find = stream_top_k if is_streamed(X) else type(scorer).top_k
    found = find(scorer, X, 1, labels, proba=True)
    label, probability = (np.asarray(to_numpy(part))[:, 0] for part in found)
    order = np.lexsort((probability, label))
    return np.sort(order[evenly_spaced(len(order), n_images)])


def _rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of features in memory, or on disk."""
    if not is_streamed(X):
        return X if len(rows) == X.shape[0] else take_rows(X, rows)
    start, parts = 0, [np.empty((0, X.shape[1]))]
    for block in read_blocks(X):
        inside = rows[(rows >= start) & (rows < start + len(block))] - start
        parts.append(to_numpy(block[inside]))
        start += len(block)
    return np.concatenate(parts)


def _class_table(
    posterior: ClassPosterior,
    signatures: Signatures,
    labels: NDArray[Any],
    top: NDArray[np.intp],
    probable: Floats,
    gains: Floats,
    pairs: list[IndistinctPair],
) -> pd.DataFrame:
    """Expected gains and advice by class; rows of `top`, `probable` and `gains` are images."""
    gaussians, share = posterior.gaussians(signatures, labels)
    # The prior variance of a class is multiplied by the ratio once the class has samples.
    ratio = np.where(share == 1, posterior.variance_ratio.mean(), 1.0)
    uncertainty = ratio * gaussians.variances.sum(axis=1) / posterior.spread.sum()
    same: dict[Any, Any] = {}
    for pair in pairs:
        same.setdefault(pair.first, pair.second)
        same.setdefault(pair.second, pair.first)
    n_classes, images = len(labels), probable.ravel()
    expected, gain, likely = np.zeros((3, n_classes))
    np.add.at(expected, top.ravel(), images)
    np.add.at(gain, top.ravel(), images * gains.ravel())
    np.maximum.at(likely, top.ravel(), images)
    gain /= np.where(expected > 0, expected, 1.0)
    samples = posterior.samples
    labelled = pd.Series(samples.counts, samples.labels).reindex(labels, fill_value=0.0)
    same_attributes = [same.get(label) for label in labels.tolist()]
    is_vague = (likely < _LIKELY) | [other is not None for other in same_attributes]
    needs_description = (labelled.to_numpy() == 0) & is_vague
    advice = np.where(gain * len(top) >= _LEAST_IMAGES, "image", "none")
    columns = {
        "gain": gain,
        "images": expected,
        "labelled": labelled.to_numpy().round().astype(np.intp),
        "uncertainty": uncertainty,
        "same_attributes": pd.Series(same_attributes, dtype=object).to_numpy(),
        "advice": np.where(needs_description, "description", advice),
    }
    found = pd.DataFrame(columns, index=pd.Index(labels, name="class"))
    return found.sort_values("gain", ascending=False, kind="stable")


def _indistinct(model: GaussianEXEM, labels: NDArray[Any]) -> list[IndistinctPair]:
    """Pairs of candidates with indistinguishable attributes."""
    table = model._signatures_so_far()
    names = [
        name if not view else f"{view}: {name}"
        for view, array, columns in zip(table.names, table.arrays, table.columns, strict=True)
        for name in (range(array.shape[1]) if columns is None else columns)
    ]
    numbers = pd.DataFrame(np.hstack(table.arrays), pd.Index(table.labels.tolist()), names)
    numbers = numbers.fillna(0.0)
    known = model.posterior_.samples.labels.tolist()
    candidates = set(labels.tolist())
    found = indistinct_pairs(numbers, numbers, seen_classes=known)
    return [pair for pair in found if {pair.first, pair.second} <= candidates]
