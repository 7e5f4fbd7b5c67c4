"""Explanations of predictions, for any method, wrapper or pipeline."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from zslearn._scoring._blocks import top_k
from zslearn._utils._array import Array, Floats, is_streamed, take_rows, to_numpy
from zslearn._utils._messages import plain
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._meta import fitted_as_zero_shot
from zslearn.signatures._kernels import rbf_similarity
from zslearn.signatures._table import SignatureTable

# Number of attributes to try if each of them requires the synthesis of all classes.
_MAX_JOINT_ATTRIBUTES = 12
# Relative tolerance for the parameters of a class synthesised alone and with all other classes.
_SAME_PARAMETERS = 1e-5
# An attribute: the index of its view, and its column in the view.
_Attribute = tuple[int, int]
_METHOD_WEIGHTS = "weights of the method"
_SIGNATURE_SIMILARITIES = "similarities of the signatures, as the method has no weights"


@dataclass(frozen=True)
class Prediction:
    """A predicted class and its score."""

    label: Any
    kind: str  # "seen" if the class had training images, otherwise "described only"
    score: float
    probability: float | None  # among the candidates; None if the model has no temperature

    def __str__(self) -> str:
        probability = "" if self.probability is None else f", probability {self.probability:.2f}"
        return f"{plain(str(self.label))} ({self.kind}{probability})"


@dataclass(frozen=True)
class SeenShare:
    """The share of a seen class in a class that is only described."""

    label: Any
    share: float  # the shares of all seen classes sum to 1


@dataclass(frozen=True)
class AttributeEffect:
    """An attribute that distinguishes the predicted class from the runner-up."""

    name: str
    value: float  # of the predicted class
    runner_up_value: float
    #: Decrease of the score if the predicted class had the runner-up's value.
    effect: float


@dataclass(frozen=True)
class NearPicture:
    """A training picture near the explained image."""

    name: Any  # its row number if it has no name
    label: Any
    distance: float  # between the embedded images


@dataclass(frozen=True)
class Explanation:
    """Why an image is predicted as its class.

    Parameters
    ----------
    predicted : Prediction
        The best class.
    runner_up : Prediction or None
        The second-best class; None if there is only one candidate.
    rejected : bool
        Whether the model answers "none of these" instead of the best class.
    built_from : tuple of SeenShare
        For a class that is only described: the seen classes with the largest shares in it.
    share_kind : str
        The quantity that the shares measure.
    attributes : tuple of AttributeEffect
        For such a class: attributes that distinguish it from the runner-up, largest effect first.
    pictures : tuple of NearPicture
        The nearest training pictures, if any were passed.
    """

    predicted: Prediction
    runner_up: Prediction | None
    rejected: bool = False
    built_from: tuple[SeenShare, ...] = ()
    share_kind: str = ""
    attributes: tuple[AttributeEffect, ...] = ()
    pictures: tuple[NearPicture, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as nested dictionaries and lists, ready for JSON.

        Returns
        -------
        dict
            The fields by name.
        """
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}

    def __str__(self) -> str:
        lines = [str(self.predicted)]
        if self.rejected:
            lines[0] = f"none of these; the nearest is {self.predicted}"
        if self.runner_up is not None:
            lines.append(f"  runner-up: {self.runner_up}")
        if self.built_from:
            parts = [f"{plain(str(part.label))} {part.share:.0%}" for part in self.built_from]
            lines.append(f"  built from: {', '.join(parts)} ({self.share_kind})")
        if self.attributes and self.runner_up is not None:
            parts = [
                f"{plain(part.name)}: {part.value:.3g} against {part.runner_up_value:.3g} "
                f"({part.effect:+.2g})"
                for part in self.attributes
            ]
            rival = plain(str(self.runner_up.label))
            lines.append(f"  distinguished from {rival} by: {'; '.join(parts)}")
        if self.pictures:
            parts = [
                f"{plain(str(picture.name))} ({plain(str(picture.label))}, {picture.distance:.2f})"
                for picture in self.pictures
            ]
            lines.append(f"  nearest training samples: {', '.join(parts)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class TrainingPictures:
    """Training images that an explanation can refer to.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Image features, as passed to `fit`.
    y : array-like of shape (n_samples,)
        Class labels.
    names : sequence of length n_samples, optional
        Names of the images, such as file names; by default their row numbers.
    """

    X: Any
    y: Any
    names: Any = None


def explain(
    model: Any, X: Any, *, classes: Any = None, k: int = 3, training: TrainingPictures | None = None
) -> list[Explanation]:
    """Explain the prediction of each image.

    For a predicted class without training images, the explanation lists the seen classes that it
    was built from, and the attributes that distinguish it from the runner-up. The effect of an
    attribute is the exact decrease of the score when the method synthesises the class with the
    runner-up's value of the attribute.

    Parameters
    ----------
    model : fitted zero-shot estimator or Pipeline
        Any method, also calibrated, tuned by a search, or in a pipeline.
    X : array-like of shape (n_samples, n_features)
        Image features.
    classes : array-like of labels, optional
        Candidate classes; by default all described classes.
    k : int, default=3
        Maximum number of seen classes, of attributes, and of pictures.
    training : TrainingPictures, optional
        Training images, of which the nearest are reported by Euclidean distance in the embedding.
        Examples added after `fit` do not change these distances.

    Returns
    -------
    list of Explanation
        One per row. Use `str` for text and `to_dict` for JSON.

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
    >>> len(why.built_from), len(why.attributes), len(why.pictures)
    (2, 2, 2)
    """
    if k < 0:
        raise ValueError(f"k must not be negative; got {k}.")
    model = fitted_as_zero_shot(model)
    if is_streamed(X):
        raise TypeError(
            "explain needs the rows of X in memory: pass an array, such as X[:10].compute() for a "
            "dask array."
        )
    predictions = _best_two(model, model._check_features(X), classes)
    method, rows = _innermost(model, X)
    rejected = [False] * len(predictions)
    if hasattr(model, "is_none"):
        rejected = model.is_none(X, classes=classes).tolist()
    shares, share_kind = _seen_shares(method, k)
    effects = _attribute_effects(predictions, method, rows, k)
    near: list[tuple[NearPicture, ...]] = [()] * len(predictions)
    if training is not None and k:
        near = _near_pictures(model, method, rows, training, k)
    return [
        Explanation(
            predicted,
            others[0] if others else None,
            rejected=rejected[row],
            built_from=shares.get(predicted.label, ()),
            share_kind=share_kind if predicted.label in shares else "",
            attributes=effects.get(row, ()),
            pictures=near[row],
        )
        for row, (predicted, *others) in enumerate(predictions)
    ]


def _best_two(model: Any, X: Array, classes: Any) -> list[list[Prediction]]:
    """The best class and the runner-up of each row."""
    scorer = model.class_scorer_
    candidates = scorer.labels if classes is None else to_numpy(classes)
    n_best = min(2, len(candidates))
    labels, scores = scorer.top_k(X, n_best, classes)
    probabilities = np.full(labels.shape, None)
    if scorer.temperature is not None:
        probabilities = to_numpy(scorer.top_k(X, n_best, classes, proba=True)[1])
    seen = set(model.seen_classes_.tolist())
    columns = (x.tolist() for x in (labels, to_numpy(scores), probabilities))
    return [
        [
            Prediction(label, "seen" if label in seen else "described only", score, probability)
            for label, score, probability in zip(*row, strict=True)
        ]
        for row in zip(*columns, strict=True)
    ]


def _innermost(model: Any, X: Any) -> tuple[ZeroShotClassifier, Array]:
    """The method inside wrappers and pipelines, and its input features."""
    while not isinstance(model, ZeroShotClassifier):
        X, model = model._inner_features(X), model._inner
    return model, model._check_features(X)


def _seen_shares(method: Any, k: int) -> tuple[dict[Any, tuple[SeenShare, ...]], str]:
    """The largest shares of seen classes in each described class, and the quantity they measure."""
    table, seen = method.signature_table_, method.seen_classes_
    is_seen = np.isin(table.labels, seen)
    if is_seen.all():
        return {}, ""
    described = table.normalized(method.signature_scale_, keep_views=method.keep_views)
    shares, share_kind = method.seen_shares(described[~is_seen]), _METHOD_WEIGHTS
    if shares is None:
        described = table.normalized(method.signature_scale_, keep_views=True)
        shares = rbf_similarity(described[~is_seen], described[is_seen], gamma=1.0)
        share_kind = _SIGNATURE_SIMILARITIES
    total = np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    names, largest = seen.tolist(), {}
    for label, row in zip(table.labels[~is_seen].tolist(), shares / total, strict=True):
        order = [c for c in np.argsort(-row, kind="stable")[:k] if row[c] > 0]
        if order:
            largest[label] = tuple(SeenShare(names[c], float(row[c])) for c in order)
    return largest, share_kind


def _attribute_effects(
    predictions: list[list[Prediction]], method: Any, rows: Array, k: int
) -> dict[int, tuple[AttributeEffect, ...]]:
    """The attributes that distinguish a described class from the runner-up, by row."""
    pairs: dict[tuple[Any, Any], list[int]] = {}
    for row, best in enumerate(predictions):
        if len(best) > 1 and best[0].kind != "seen" and k:
            pairs.setdefault((best[0].label, best[1].label), []).append(row)
    found = {}
    table: SignatureTable = method.signature_table_
    for pair, rows_of_pair in pairs.items():
        own, other = table.positions(np.asarray(pair, dtype=table.labels.dtype)).tolist()
        images = take_rows(rows, np.asarray(rows_of_pair))
        attributes = [
            (view, column)
            for view, array in enumerate(table.arrays)
            for column in np.flatnonzero(array[own] != array[other]).tolist()
        ]
        effects = _effects_alone(method, table, images, own, other, attributes)
        if effects is None:
            attributes = _most_different(table, own, other, attributes)
            effects = _effects_jointly(method, table, images, own, other, attributes)
        for row, effects_of_row in zip(rows_of_pair, effects, strict=True):
            found[row] = tuple(
                AttributeEffect(
                    _attribute_name(table, view, column),
                    float(table.arrays[view][own, column]),
                    float(table.arrays[view][other, column]),
                    float(effects_of_row[j]),
                )
                for j in np.argsort(-effects_of_row, kind="stable")[:k]
                for view, column in [attributes[j]]
                if effects_of_row[j] > 0
            )
    return found


def _effects_alone(
    method: Any,
    table: SignatureTable,
    images: Array,
    own: int,
    other: int,
    attributes: list[_Attribute],
) -> Floats | None:
    """Effects from synthesising all variants of the class at once, without the other classes.

    None if the parameters of a class depend on the other classes.
    """
    arrays = [np.repeat(array[[own]], 1 + len(attributes), axis=0) for array in table.arrays]
    for number, (view, column) in enumerate(attributes, start=1):
        arrays[view][number, column] = table.arrays[view][other, column]
    labels = np.repeat(table.labels[[own]], 1 + len(attributes))
    variants = replace(table, labels=labels, arrays=tuple(arrays))
    described = variants.normalized(method.signature_scale_, keep_views=method.keep_views)
    scorer = method.class_scorer_
    try:
        parameters = method.synthesize(described, labels)
    except TypeError:
        return None
    fitted = to_numpy(take_rows(scorer.parameters, np.asarray([own])))[0]
    alone = to_numpy(take_rows(parameters, np.asarray([0])))[0]
    tolerance = _SAME_PARAMETERS * np.abs(fitted).max()
    if fitted.shape != alone.shape or not np.allclose(fitted, alone, rtol=0, atol=tolerance):
        return None
    plain_scorer = replace(
        scorer,
        labels=np.arange(1 + len(attributes)),
        parameters=parameters,
        bias=None,
        precedence=None,
        temperature=None,
        same_as=None,
    )
    scores = np.asarray(to_numpy(plain_scorer.scores(images)), dtype=np.float64)
    return scores[:, :1] - scores[:, 1:]


def _effects_jointly(
    method: Any,
    table: SignatureTable,
    images: Array,
    own: int,
    other: int,
    attributes: list[_Attribute],
) -> Floats:
    """Effects from synthesising all classes for each attribute."""
    label = table.labels[[own]]
    before = to_numpy(method.class_scorer_.scores(images, label))[:, 0]
    effects = np.empty((len(before), len(attributes)))
    for number, (view, column) in enumerate(attributes):
        arrays = [array.copy() for array in table.arrays]
        arrays[view][own, column] = arrays[view][other, column]
        with warnings.catch_warnings():
            # The changed class may equal another one.
            warnings.simplefilter("ignore")
            variant = method._copy()
            variant._describe(replace(table, arrays=tuple(arrays)))
        effects[:, number] = before - to_numpy(variant.class_scorer_.scores(images, label))[:, 0]
    return effects


def _most_different(
    table: SignatureTable, own: int, other: int, attributes: list[_Attribute]
) -> list[_Attribute]:
    """The attributes that differ most, in units of their standard deviation over the classes."""

    def distance(attribute: _Attribute) -> float:
        view, column = attribute
        values: Floats = table.arrays[view][:, column]
        return float(abs(values[own] - values[other]) / max(values.std(), 1e-300))

    return sorted(sorted(attributes, key=distance, reverse=True)[:_MAX_JOINT_ATTRIBUTES])


def _attribute_name(table: SignatureTable, view: int, column: int) -> str:
    """The name of an attribute, preceded by that of its view if there are several views."""
    columns = table.columns[view]
    name = f"attribute {column}" if columns is None else str(columns[column])
    return f"{table.names[view]}: {name}" if table.names[view] else name


def _near_pictures(
    model: Any, method: Any, rows: Array, training: TrainingPictures, k: int
) -> list[tuple[NearPicture, ...]]:
    """The nearest training pictures of each row."""
    features = _innermost(model, training.X)[1]
    labels = to_numpy(training.y).ravel().tolist()
    names: list[Any] = list(range(len(labels)))
    if training.names is not None:
        # Paths and other objects become strings, which JSON supports.
        names = [name if isinstance(name, (str, int)) else str(name) for name in training.names]
    if not len(labels) == len(names) == features.shape[0]:
        raise ValueError(
            f"training must have one label and one name per row: got {features.shape[0]} rows, "
            f"{len(labels)} labels and {len(names)} names."
        )
    embedding = method._image_space()
    embedded = embedding(features)
    positions, scores = top_k(embedding(rows), embedded, min(k, len(labels)), score="euclidean")
    distances = np.abs(to_numpy(scores))
    return [
        tuple(
            NearPicture(names[position], labels[position], distance)
            for position, distance in zip(*row, strict=True)
        )
        for row in zip(to_numpy(positions).tolist(), distances.tolist(), strict=True)
    ]
