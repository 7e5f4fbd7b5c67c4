"""Explanations of predictions, for any method, wrapper or pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.base import ZeroShotClassifier, is_streamed
from zslearn.inspection._counterfactual import Change, attribute_changes
from zslearn.inspection._explanation import (
    AttributeEffect,
    Explanation,
    NearPicture,
    Prediction,
    SeenShare,
)
from zslearn.pipeline import ZeroShotPipeline, fitted_as_zero_shot
from zslearn.scoring import top_k
from zslearn.signatures import rbf_similarity
from zslearn.utils import Array, Floats, take_rows, to_numpy

_BY_WEIGHTS = "the weights by which the method makes the class"
_BY_SIGNATURES = "how near the descriptions are; the method has no weights of seen classes"


@dataclass(frozen=True, eq=False)
class TrainingPictures:
    """Training images that an explanation may point to.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Image features, as given to `fit`.
    y : array-like of shape (n_samples,)
        Class labels.
    names : sequence of length n_samples, optional
        Names of the pictures, such as their files; by default their rows.
    """

    X: Any
    y: Any
    names: Any = None


def explain(
    model: Any,
    X: Any,
    *,
    classes: Any = None,
    k: int = 3,
    training: TrainingPictures | None = None,
) -> list[Explanation]:
    """Say of each image why it is predicted as it is.

    Of a predicted class that has no training images it says which seen classes it was made from,
    and which attributes told it from the runner-up. For the latter the class is given the
    runner-up's value of one attribute at a time and is made anew by the method: the effect of an
    attribute is how much the score falls. This is what the model would do, not an approximation.

    Parameters
    ----------
    model : fitted zero-shot estimator or Pipeline
        Any method, calibrated, searched, or in a pipeline.
    X : array-like of shape (n_samples, n_features)
        Image features.
    classes : array-like of labels, optional
        The candidates; by default every described class.
    k : int, default=3
        How many seen classes, attributes and pictures are named at most.
    training : TrainingPictures, optional
        Training images, for the nearest ones: by the Euclidean distance between images as the model
        embeds them.

    Returns
    -------
    list of Explanation
        One for each row. `str` gives it as text, `to_dict` for JSON.

    Examples
    --------
    >>> from zslearn import EXEM
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.inspection import TrainingPictures, explain
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> (why,) = explain(model, data.X_test_unseen[:1], classes=data.unseen_classes, k=2,
    ...                  training=TrainingPictures(data.X_train, data.y_train))
    >>> why.predicted.kind, why.predicted.label == data.y_test_unseen[0]
    ('described only', True)
    >>> len(why.made_from), len(why.attributes), len(why.pictures)
    (2, 2, 2)
    """
    if k < 0:
        raise ValueError(f"k must not be negative; got {k}.")
    model = fitted_as_zero_shot(model)
    if is_streamed(X):
        raise TypeError(
            "explain needs the rows in memory: give an array of the images to be explained, such "
            "as X[:10].compute() of a dask array."
        )
    X = model._check_features(X)
    best, method, rows = _Best.of(model, X, classes), *_innermost(model, X)
    shares, made_by = _seen_shares(method, k)
    changes = _attribute_effects(best, method, rows, k)
    near: list[tuple[NearPicture, ...]] = [()] * len(best.labels)
    if training is not None and k:
        near = _near_pictures(model, method, rows, training, k)
    out = []
    for row, (predicted, runner_up) in enumerate(best.predictions()):
        made = shares.get(predicted.label, ())
        out.append(
            Explanation(
                predicted,
                runner_up,
                rejected=bool(best.rejected[row]),
                made_from=made,
                made_by=made_by if made else "",
                attributes=changes.get(row, ()),
                pictures=near[row],
            )
        )
    return out


@dataclass(frozen=True, eq=False)
class _Best:
    """The best two classes of each row."""

    labels: NDArray[Any]
    scores: Floats
    chances: Floats | None
    seen: frozenset[Any]
    rejected: NDArray[np.bool_]

    @classmethod
    def of(cls, model: Any, X: Array, classes: Any) -> _Best:
        scorer = model.class_scorer_
        n_candidates = len(scorer.labels if classes is None else to_numpy(classes))
        labels, scores = scorer.top_k(X, min(2, n_candidates), classes)
        chances = None
        if scorer.temperature is not None:
            candidates = scorer.labels if classes is None else to_numpy(classes)
            where = {label: column for column, label in enumerate(candidates.tolist())}
            table = to_numpy(scorer.probabilities(X, candidates))
            columns = np.asarray([[where[label] for label in row] for row in labels.tolist()])
            chances = np.take_along_axis(table, columns, axis=1)
        rejected = np.zeros(len(labels), dtype=bool)
        if hasattr(model, "is_none"):
            rejected = model.is_none(X, classes=classes)
        seen = frozenset(model.seen_classes_.tolist())
        return cls(labels, to_numpy(scores), chances, seen, rejected)

    def predictions(self) -> list[tuple[Prediction, Prediction | None]]:
        """The best class and the runner-up of each row."""
        out = []
        for row, labels in enumerate(self.labels.tolist()):
            pair = [
                Prediction(
                    label,
                    "seen" if label in self.seen else "described only",
                    float(self.scores[row, place]),
                    None if self.chances is None else float(self.chances[row, place]),
                )
                for place, label in enumerate(labels)
            ]
            out.append((pair[0], pair[1] if len(pair) > 1 else None))
        return out


def _innermost(model: Any, X: Array) -> tuple[ZeroShotClassifier, Array]:
    """The method inside wrappers and pipelines, and the features as they reach it."""
    while not isinstance(model, ZeroShotClassifier):
        if isinstance(model, ZeroShotPipeline):
            X, model = model.transform_rows(X), model.steps[-1][1]
        else:
            model = model.estimator_
    return model, X


def _seen_shares(method: Any, k: int) -> tuple[dict[Any, tuple[SeenShare, ...]], str]:
    """The seen classes that each described class was made from, and what the shares are."""
    table, seen = method.signature_table_, method.seen_classes_
    is_seen = np.isin(table.labels, seen)
    if is_seen.all():
        return {}, ""
    described = table.normalized(method.signature_scale_, keep_views=method.keep_views)
    shares, made_by = method.seen_shares(described[~is_seen]), _BY_WEIGHTS
    if shares is None:
        whole = table.normalized(method.signature_scale_, keep_views=True)
        shares = rbf_similarity(whole[~is_seen], whole[is_seen], gamma=1.0)
        made_by = _BY_SIGNATURES
    total = np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    shares, out = shares / total, {}
    names = seen.tolist()
    for label, row in zip(table.labels[~is_seen].tolist(), shares, strict=True):
        order = np.argsort(-row, kind="stable")[:k]
        out[label] = tuple(SeenShare(names[c], float(row[c])) for c in order if row[c] > 0)
    return out, made_by


def _attribute_effects(
    best: _Best, method: Any, rows: Array, k: int
) -> dict[int, tuple[AttributeEffect, ...]]:
    """What told each row's class from the runner-up, where it is described only."""
    pairs: dict[tuple[Any, Any], list[int]] = {}
    for row, labels in enumerate(best.labels.tolist()):
        if len(labels) > 1 and labels[0] not in best.seen and k:
            pairs.setdefault((labels[0], labels[1]), []).append(row)
    out = {}
    for (label, other), of_pair in pairs.items():
        change = attribute_changes(method, take_rows(rows, np.asarray(of_pair)), label, other)
        for row, effects in zip(of_pair, change.effects, strict=True):
            out[row] = _largest_effects(change, effects, k)
    return out


def _largest_effects(change: Change, effects: Floats, k: int) -> tuple[AttributeEffect, ...]:
    """The attributes that speak most for the class."""
    order = np.argsort(-effects, kind="stable")[:k]
    return tuple(
        AttributeEffect(
            change.names[j],
            float(change.values[j]),
            float(change.other_values[j]),
            float(effects[j]),
        )
        for j in order
        if effects[j] > 0
    )


def _near_pictures(
    model: Any, method: Any, rows: Array, training: TrainingPictures, k: int
) -> list[tuple[NearPicture, ...]]:
    """The nearest training pictures of each row."""
    known = model._check_features(training.X)
    labels = to_numpy(training.y).ravel().tolist()
    names = list(range(len(labels))) if training.names is None else list(training.names)
    if not len(labels) == len(names) == known.shape[0]:
        raise ValueError(
            f"training has {known.shape[0]} rows, {len(labels)} labels and {len(names)} names: "
            "they must be as many."
        )
    embedding = method.class_scorer_.embedding
    pictures = embedding(_innermost(model, known)[1])
    k = min(k, len(labels))
    places, scores = top_k(embedding(rows), pictures, k, score="euclidean")
    distances = -to_numpy(scores)
    return [
        tuple(
            NearPicture(_plain(names[place]), labels[place], abs(float(distance)))
            for place, distance in zip(*pair, strict=True)
        )
        for pair in zip(to_numpy(places).tolist(), distances.tolist(), strict=True)
    ]


def _plain(name: Any) -> Any:
    """A name that JSON can hold."""
    return name if isinstance(name, (str, int)) else str(name)
