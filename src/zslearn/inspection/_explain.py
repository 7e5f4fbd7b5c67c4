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
from zslearn.base._meta import ZeroShotPipeline, fitted_as_zero_shot
from zslearn.signatures._kernels import rbf_similarity
from zslearn.signatures._table import SignatureTable

# Where a class cannot be synthesised alone, each attribute needs the synthesis of all classes: only
# this many attributes are tried, those that differ most.
_MOST_APART = 12
# Parameters of a class synthesised alone and with all others are equal if they agree to this share.
_SAME = 1e-5
# An attribute: the number of its view, and its column there.
_Place = tuple[int, int]
_BY_WEIGHTS = "the weights by which the method makes the class"
_BY_SIGNATURES = "how near the descriptions are; the method has no weights of seen classes"


@dataclass(frozen=True)
class Prediction:
    """A class that an image may be of."""

    label: Any
    kind: str  # "seen" where the class had training images, else "described only"
    score: float
    probability: float | None  # among the candidates; None where the model has no temperature

    def __str__(self) -> str:
        chance = "" if self.probability is None else f", probability {self.probability:.2f}"
        return f"{plain(str(self.label))} ({self.kind}{chance})"


@dataclass(frozen=True)
class SeenShare:
    """A seen class that a described one was made from."""

    label: Any
    share: float  # those of all seen classes sum to 1


@dataclass(frozen=True)
class AttributeEffect:
    """An attribute that distinguishes the predicted class from the runner-up."""

    name: str
    value: float  # of the predicted class, as it was described
    runner_up_value: float
    #: How much the predicted class's score falls if it is described with the runner-up's value.
    effect: float


@dataclass(frozen=True)
class NearPicture:
    """A training picture near the image."""

    name: Any  # or its row
    label: Any
    distance: float  # between the two as the model embeds them


@dataclass(frozen=True)
class Explanation:
    """Why an image is predicted as it is.

    Parameters
    ----------
    predicted : Prediction
        The best class.
    runner_up : Prediction or None
        The second best; None where there is one candidate.
    rejected : bool
        Whether the model says "none of these" all the same.
    made_from : tuple of SeenShare
        Of a class that is described only, the seen classes with the largest shares in it.
    made_by : str
        What the shares are.
    attributes : tuple of AttributeEffect
        Of such a class, what distinguishes it from the runner-up, largest effect first.
    pictures : tuple of NearPicture
        The nearest training pictures, where these were given.
    """

    predicted: Prediction
    runner_up: Prediction | None
    rejected: bool = False
    made_from: tuple[SeenShare, ...] = ()
    made_by: str = ""
    attributes: tuple[AttributeEffect, ...] = ()
    pictures: tuple[NearPicture, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The explanation as dictionaries, lists, strings and numbers, as JSON has them.

        Returns
        -------
        dict
            Keys are the fields.
        """
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}

    def __str__(self) -> str:
        lines = [str(self.predicted)]
        if self.rejected:
            lines[0] = f"none of these; the nearest is {self.predicted}"
        if self.runner_up is not None:
            lines.append(f"  runner-up: {self.runner_up}")
        if self.made_from:
            parts = [f"{plain(str(part.label))} {part.share:.0%}" for part in self.made_from]
            lines.append(f"  made from: {', '.join(parts)} ({self.made_by})")
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
            lines.append(f"  nearest training pictures: {', '.join(parts)}")
        return "\n".join(lines)


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
    model: Any, X: Any, *, classes: Any = None, k: int = 3, training: TrainingPictures | None = None
) -> list[Explanation]:
    """Say of each image why it is predicted as it is.

    Of a predicted class without training images: which seen classes it was made from, and which
    attributes distinguish it from the runner-up. The effect of an attribute is how much the score
    falls when the method synthesises the class with the runner-up's value of it: what the model
    would do, not an approximation.

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
        embeds them. Examples added later for some classes do not change these distances.

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
    best, (method, rows) = _best_two(model, X, classes), _innermost(model, X)
    rejected = [False] * len(best)
    if hasattr(model, "is_none"):
        rejected = model.is_none(X, classes=classes).tolist()
    shares, made_by = _seen_shares(method, k)
    effects = _attribute_effects(best, method, rows, k)
    near: list[tuple[NearPicture, ...]] = [()] * len(best)
    if training is not None and k:
        near = _near_pictures(model, method, rows, training, k)
    return [
        Explanation(
            predicted,
            others[0] if others else None,
            rejected=rejected[row],
            made_from=shares.get(predicted.label, ()),
            made_by=made_by if predicted.label in shares else "",
            attributes=effects.get(row, ()),
            pictures=near[row],
        )
        for row, (predicted, *others) in enumerate(best)
    ]


def _best_two(model: Any, X: Array, classes: Any) -> list[list[Prediction]]:
    """The best class and the runner-up of each row."""
    scorer = model.class_scorer_
    candidates = scorer.labels if classes is None else to_numpy(classes)
    labels, scores = scorer.top_k(X, min(2, len(candidates)), classes)
    chances = None
    if scorer.temperature is not None:
        chances = to_numpy(scorer.probabilities(X, candidates))
    column = {label: place for place, label in enumerate(candidates.tolist())}
    seen = set(model.seen_classes_.tolist())
    return [
        [
            Prediction(
                label,
                "seen" if label in seen else "described only",
                score,
                None if chances is None else float(chances[row, column[label]]),
            )
            for label, score in zip(*of_row, strict=True)
        ]
        for row, of_row in enumerate(zip(labels.tolist(), to_numpy(scores).tolist(), strict=True))
    ]


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
        order = [c for c in np.argsort(-row, kind="stable")[:k] if row[c] > 0]
        if order:
            out[label] = tuple(SeenShare(names[c], float(row[c])) for c in order)
    return out, made_by


def _attribute_effects(
    best: list[list[Prediction]], method: Any, rows: Array, k: int
) -> dict[int, tuple[AttributeEffect, ...]]:
    """What distinguishes each row's class from the runner-up, where it is described only."""
    pairs: dict[tuple[Any, Any], list[int]] = {}
    for row, predictions in enumerate(best):
        if len(predictions) > 1 and predictions[0].kind != "seen" and k:
            pairs.setdefault((predictions[0].label, predictions[1].label), []).append(row)
    out = {}
    table: SignatureTable = method.signature_table_
    for pair, of_pair in pairs.items():
        own, other = table.positions(np.asarray(pair, dtype=table.labels.dtype)).tolist()
        some = take_rows(rows, np.asarray(of_pair))
        places = [
            (view, column)
            for view, array in enumerate(table.arrays)
            for column in np.flatnonzero(array[own] != array[other]).tolist()
        ]
        effects = _effects_alone(method, table, some, own, other, places)
        if effects is None:
            places = _most_different(table, own, other, places)
            effects = _effects_together(method, table, some, own, other, places)
        for row, of_row in zip(of_pair, effects, strict=True):
            order = np.argsort(-of_row, kind="stable")[:k]
            out[row] = tuple(
                AttributeEffect(
                    _attribute_name(table, *places[j]),
                    float(table.arrays[places[j][0]][own, places[j][1]]),
                    float(table.arrays[places[j][0]][other, places[j][1]]),
                    float(of_row[j]),
                )
                for j in order
                if of_row[j] > 0
            )
    return out


def _effects_alone(
    method: Any, table: SignatureTable, rows: Array, own: int, other: int, places: list[_Place]
) -> Floats | None:
    """How much the score falls with each attribute of the other class; all variants in one call.

    None where the parameters of a class depend on the other classes.
    """
    arrays = [np.repeat(array[[own]], 1 + len(places), axis=0) for array in table.arrays]
    for number, (view, column) in enumerate(places, start=1):
        arrays[view][number, column] = table.arrays[view][other, column]
    labels = np.repeat(table.labels[[own]], 1 + len(places))
    variants = replace(table, labels=labels, arrays=tuple(arrays))
    described = variants.normalized(method.signature_scale_, keep_views=method.keep_views)
    scorer = method.class_scorer_
    try:
        parameters = method.synthesize(described, labels)
    except TypeError:
        return None
    known = to_numpy(take_rows(scorer.parameters, np.asarray([own])))[0]
    first = to_numpy(take_rows(parameters, np.asarray([0])))[0]
    if known.shape != first.shape or not np.allclose(
        known, first, rtol=0, atol=_SAME * np.abs(known).max()
    ):
        return None
    nothing = {"bias": None, "precedence": None, "temperature": None}
    alone = replace(scorer, labels=np.arange(1 + len(places)), parameters=parameters, **nothing)
    scores = np.asarray(to_numpy(alone.scores(rows)), dtype=np.float64)
    return scores[:, :1] - scores[:, 1:]


def _effects_together(
    method: Any, table: SignatureTable, rows: Array, own: int, other: int, places: list[_Place]
) -> Floats:
    """The same where all classes are synthesised for each attribute."""
    label = table.labels[[own]]
    before = to_numpy(method.class_scorer_.scores(rows, label))[:, 0]
    effects = np.empty((len(before), len(places)))
    for number, (view, column) in enumerate(places):
        arrays = [array.copy() for array in table.arrays]
        arrays[view][own, column] = arrays[view][other, column]
        with warnings.catch_warnings():
            # That the class now equals another is what was asked for.
            warnings.simplefilter("ignore")
            variant = method._copy()
            variant._describe(replace(table, arrays=tuple(arrays)))
        effects[:, number] = before - to_numpy(variant.class_scorer_.scores(rows, label))[:, 0]
    return effects


def _most_different(
    table: SignatureTable, own: int, other: int, places: list[_Place]
) -> list[_Place]:
    """The attributes that differ most, in units of their deviation over the classes."""

    def distance(place: _Place) -> float:
        values: Floats = table.arrays[place[0]][:, place[1]]
        return float(abs(values[own] - values[other]) / max(values.std(), 1e-300))

    return sorted(sorted(places, key=distance, reverse=True)[:_MOST_APART])


def _attribute_name(table: SignatureTable, view: int, column: int) -> str:
    """The name of an attribute, with its view where there are several."""
    columns = table.columns[view]
    name = f"attribute {column}" if columns is None else str(columns[column])
    return f"{table.names[view]}: {name}" if table.names[view] else name


def _near_pictures(
    model: Any, method: Any, rows: Array, training: TrainingPictures, k: int
) -> list[tuple[NearPicture, ...]]:
    """The nearest training pictures of each row."""
    known = model._check_features(training.X)
    labels = to_numpy(training.y).ravel().tolist()
    names: list[Any] = list(range(len(labels)))
    if training.names is not None:
        # What JSON can hold.
        names = [name if isinstance(name, (str, int)) else str(name) for name in training.names]
    if not len(labels) == len(names) == known.shape[0]:
        raise ValueError(
            f"training has {known.shape[0]} rows, {len(labels)} labels and {len(names)} names: "
            "they must be as many."
        )
    embedding = method._image_space()
    pictures = embedding(_innermost(model, known)[1])
    k = min(k, len(labels))
    places, scores = top_k(embedding(rows), pictures, k, score="euclidean")
    distances = -to_numpy(scores)
    return [
        tuple(
            NearPicture(names[place], labels[place], abs(distance))
            for place, distance in zip(*pair, strict=True)
        )
        for pair in zip(to_numpy(places).tolist(), distances.tolist(), strict=True)
    ]
