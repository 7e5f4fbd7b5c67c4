"""Predictions for samples: ranked classes with probabilities and explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import row_blocks, to_numpy, unit_rows
from zslearn.base import ClassScorer, Embedding, ZeroShotPredictor
from zslearn.images._fitting import prepared
from zslearn.inspection import Explanation, TrainingPictures, explain
from zslearn.persistence import ModelFile

#: Whether the model knows a class from training samples or only from its description.
SEEN, DESCRIBED = "seen", "described only"


def prediction_table(
    model: Any,
    X: NDArray[Any],
    names: Sequence[str],
    *,
    row_noun: str = "image",
    classes: Sequence[Any] | None = None,
    top: int = 2,
    prior: Mapping[Any, float] | None = None,
) -> pd.DataFrame:
    """Tabulate the best classes of each sample.

    Parameters
    ----------
    model : zero-shot estimator
        A fitted model.
    X : array of shape (n_samples, n_features)
        Features.
    names : sequence of str
        Name of each sample.
    row_noun : str, default="image"
        Title of the column of names.
    classes : sequence of labels, optional
        The candidates, by default every described class.
    top : int, default=2
        Classes per sample, at least two if there are two candidates.
    prior : mapping of label to float, optional
        Prior odds of classes, 1 for classes not named.

    Returns
    -------
    DataFrame
        One row per sample: its name, "class", "known_by" ("seen", or "described only" for a class
        without training samples) and "probability", NaN if the model has none. The second best
        class has the columns "runner_up", "runner_up_known_by" and "runner_up_probability", further
        ones "class_3", "known_by_3", "probability_3" and so on. A
        :class:`~zslearn.calibration.NoneOfThese` adds "none_of_these" ("class" is then the nearest
        class), a :class:`~zslearn.calibration.RankPredictor` "surely", the deepest node of its
        hierarchy that reaches its confidence, and "surely_probability"; both ignore `prior`.

    Examples
    --------
    >>> from zslearn import EXEM
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.images import prediction_table
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> table = prediction_table(model, data.X_test_unseen[:2], ["a.png", "b.png"])
    >>> table[["image", "class", "known_by"]].shape
    (2, 3)
    """
    ranked = rank_classes(model, X, classes=classes, top=max(top, 2), prior=prior)
    seen = set(model.seen_classes_.tolist())
    columns: dict[str, Any] = {row_noun: list(names)}
    if ranked.is_none is not None:
        columns["none_of_these"] = ranked.is_none
    if hasattr(model, "predict_rank"):
        surely = model.predict_rank(X, classes=classes)
        columns |= {"surely": surely.nodes, "surely_probability": surely.probabilities}
    for rank, labels in enumerate(ranked.labels.T.tolist()):
        known = [SEEN if label in seen else DESCRIBED for label in labels]
        values = {"class": labels, "known_by": known, "probability": ranked.probabilities[:, rank]}
        if rank == 1:
            values = {f"runner_up_{name}": column for name, column in values.items()}
            values = {"runner_up": values.pop("runner_up_class"), **values}
        elif rank > 1:
            values = {f"{name}_{rank + 1}": column for name, column in values.items()}
        columns |= values
    return pd.DataFrame(columns)


class RankedClasses(NamedTuple):
    """The best classes of each sample, best first: arrays of shape (n_samples, k).

    Probabilities are NaN if the model has none. `is_none` marks samples that belong to none of the
    candidates; it is None if the model does not reject samples.
    """

    labels: NDArray[Any]
    scores: NDArray[Any]
    probabilities: NDArray[Any]
    is_none: NDArray[np.bool_] | None


def rank_classes(
    model: Any,
    X: NDArray[Any],
    *,
    classes: Sequence[Any] | None = None,
    top: int = 5,
    prior: Mapping[Any, float] | None = None,
) -> RankedClasses:
    """Rank the classes of each sample, with scores, probabilities and rejections.

    Parameters
    ----------
    model, X, classes, top, prior
        See :func:`prediction_table`; with fewer candidates than `top`, all are ranked.

    Returns
    -------
    RankedClasses
        Labels, scores and probabilities, best first.
    """
    labels = model.classes_ if classes is None else np.asarray(list(dict.fromkeys(classes)))
    # Models of other libraries may not accept a prior.
    options = {"classes": labels} | ({} if prior is None else {"prior": prior})
    column = {label: i for i, label in enumerate(labels.tolist())}
    ranked = []
    for rows in row_blocks(len(X), 8 * (len(labels) + X.shape[1])):
        best, scores = model.predict_top_k(X[rows], min(top, len(labels)), **options)
        probabilities = np.full(best.shape, np.nan)
        if hasattr(model, "predict_proba"):
            places = np.array([[column[label] for label in row] for row in best.tolist()])
            of_all = to_numpy(model.predict_proba(X[rows], **options))
            probabilities = np.take_along_axis(of_all, places.astype(np.intp), axis=1)
        parts = [best, to_numpy(scores), probabilities]
        if hasattr(model, "is_none"):
            parts.append(model.is_none(X[rows], classes=labels))
        ranked.append(parts)
    whole = [np.concatenate(parts) for parts in zip(*ranked, strict=True)]
    return RankedClasses(whole[0], whole[1], whole[2], whole[3] if len(whole) > 3 else None)


def explain_predictions(
    file: ModelFile, X: NDArray[Any], *, classes: Sequence[Any] | None = None
) -> list[Explanation]:
    """Explain predictions of a model file with :func:`zslearn.inspection.explain`.

    The nearest training images are included if the file has a valid record of them.
    """
    model, rows = prepared(file.model, X)
    return explain(model, rows, classes=classes, training=_training_pictures(file, model))


def _training_pictures(file: ModelFile, model: Any) -> TrainingPictures | None:
    """The training images recorded in a file, or None if the record is missing or damaged."""
    known = file.extras.get("training_features", np.empty(0))
    match file.about.get("training"):
        case {"labels": [_, *_] as labels, "images": [*names]} if (
            len(labels) == len(names)
            and known.shape == (len(names), model.n_features_in_)
            and known.dtype.kind == "f"
            and bool(np.isfinite(known).all())
            and all(isinstance(text, str) for text in [*labels, *names])
        ):
            return TrainingPictures(known, np.asarray(labels), names)
    return None


class PromptClassifier(ZeroShotPredictor):
    """Predict the class whose text is most similar to the image, without any training.

    The zero-shot baseline of image-text models such as CLIP. It needs no `fit`.

    Parameters
    ----------
    signatures : DataFrame of shape (n_classes, n_features) or (n_texts, n_features)
        Class vectors in the space of the features, from :func:`text_features`. With several rows
        per class (`pool=None`) the score of a class is the mean of its cosines.
    temperature : float, default=0.01
        Divisor that turns cosines into logits; 0.01 is what such models are trained to.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from zslearn.images import PromptClassifier
    >>> classes = pd.DataFrame(np.eye(2), index=["cat", "dog"])
    >>> PromptClassifier(classes).predict([[0.9, 0.2], [0.1, 3.0]]).tolist()
    ['cat', 'dog']
    """

    def __init__(self, signatures: pd.DataFrame, temperature: float = 0.01) -> None:
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} must be positive.")
        if signatures.index.has_duplicates or signatures.index.nlevels > 2:
            raise ValueError("The index of signatures= must be unique: class, or class and text.")
        self.signatures = signatures
        self.temperature = temperature
        self.n_features_in_ = signatures.shape[1]
        self.seen_classes_ = signatures.index.to_numpy()[:0]

    @property
    def class_scorer_(self) -> ClassScorer:
        """Cosines of images and class texts, averaged over the texts of a class."""
        unit = unit_rows(self.signatures.to_numpy(dtype=np.float64))
        labels = self.signatures.index.get_level_values(0)
        texts = pd.DataFrame(unit, index=labels).groupby(level=0).mean()
        embedding = Embedding(unit_rows)
        return ClassScorer(
            texts.index.to_numpy(), texts.to_numpy(), embedding, temperature=self.temperature
        )

    def _checked_scorer(self) -> ClassScorer:
        return self.class_scorer_

    def _has_temperature(self) -> bool:
        return True
