"""Answers for samples: the best classes of each, with probabilities and reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import to_numpy, unit_rows
from zslearn._utils._blocks import row_blocks
from zslearn.base import ClassScorer, Embedding, ZeroShotPredictor
from zslearn.inspection import Explanation, TrainingPictures, explain
from zslearn.persistence import ModelFile

#: How a class is known: by training samples, or by its description alone.
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
    """Name the best classes of each sample.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    X : array of shape (n_samples, n_features)
        Features.
    names : sequence of str
        Name of each sample.
    row_noun : str, default="image"
        Title of the column of names.
    classes : sequence of labels, optional
        The candidates; by default every described class.
    top : int, default=2
        Classes per sample; at least the runner-up is given, where there are two candidates.
    prior : mapping of label to float, optional
        Prior odds of classes; 1 for those that are not named.

    Returns
    -------
    DataFrame
        One row per sample: its name, "class", "known_by" ("seen", or "described only" for a class
        without training samples) and "probability", NaN where the model has none; the same for the
        second best as "runner_up", "runner_up_known_by", "runner_up_probability"; for further ones
        as "class_3", "known_by_3", "probability_3", …. A
        :class:`~zslearn.calibration.NoneOfThese` adds "none_of_these" ("class" is the nearest class
        all the same), a :class:`~zslearn.calibration.RankPredictor` the deepest node that is sure
        as "surely" and its "surely_probability", which ignores `prior`.

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
            values = {f"runner_up_{what}": column for what, column in values.items()}
            values = {"runner_up": values.pop("runner_up_class"), **values}
        elif rank > 1:
            values = {f"{what}_{rank + 1}": column for what, column in values.items()}
        columns |= values
    return pd.DataFrame(columns)


class RankedClasses(NamedTuple):
    """The best classes of each sample, best first: arrays of shape (n_samples, k).

    Probabilities are NaN where the model has none. `is_none` says whether a sample is of none of
    the candidates; it is None where the model cannot tell.
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
        See :func:`prediction_table`; of fewer candidates than `top` all are ranked.

    Returns
    -------
    RankedClasses
        What the model says of each sample.
    """
    labels = model.classes_ if classes is None else np.asarray(list(dict.fromkeys(classes)))
    # Models of other authors need not know of a prior.
    options = {"classes": labels} | ({} if prior is None else {"prior": prior})
    column = {label: i for i, label in enumerate(labels.tolist())}
    ranked = []
    for rows in row_blocks(len(X), 8 * (len(labels) + X.shape[1])):
        best, scores = model.predict_top_k(X[rows], min(top, len(labels)), **options)
        chances = np.full(best.shape, np.nan)
        if hasattr(model, "predict_proba"):
            places = np.array([[column[label] for label in row] for row in best.tolist()])
            of_all = to_numpy(model.predict_proba(X[rows], **options))
            chances = np.take_along_axis(of_all, places.astype(np.intp), axis=1)
        parts = [best, to_numpy(scores), chances]
        if hasattr(model, "is_none"):
            parts.append(model.is_none(X[rows], classes=labels))
        ranked.append(parts)
    whole = [np.concatenate(parts) for parts in zip(*ranked, strict=True)]
    return RankedClasses(whole[0], whole[1], whole[2], whole[3] if len(whole) > 3 else None)


def explain_predictions(
    file: ModelFile, X: NDArray[Any], *, classes: Sequence[Any] | None = None
) -> list[Explanation]:
    """Explain predictions of a model file, with the nearest training images that it knows.

    See :func:`zslearn.inspection.explain`, to which the file's model and images are given.
    """
    return explain(file.model, X, classes=classes, training=_training_pictures(file))


def _training_pictures(file: ModelFile) -> TrainingPictures | None:
    """The training images that a file knows; None where its record of them is not whole."""
    known, record = file.extras.get("training_features"), file.about.get("training")
    if known is None or not isinstance(record, Mapping):
        return None
    labels, names = record.get("labels"), record.get("images")
    if not isinstance(labels, list) or not isinstance(names, list):
        return None
    is_whole = (
        len(labels) == len(names)
        and known.shape == (len(names), file.model.n_features_in_)
        and known.dtype.kind == "f"
        and bool(np.isfinite(known).all())
        and all(isinstance(text, str) for text in [*labels, *names])
    )
    return TrainingPictures(known, np.asarray(labels), names) if is_whole and names else None


class PromptClassifier(ZeroShotPredictor):
    """Name the class whose text is nearest to the image; nothing is learned.

    The baseline for models that know images and text, without a single labelled image. It predicts
    as a fitted estimator does.

    Parameters
    ----------
    signatures : DataFrame of shape (n_classes, n_features) or (n_texts, n_features)
        Vectors of the classes in the space of the features, from :func:`text_features`. With
        several rows per class (`pool=None` there) the score of a class is the mean of its cosines.
    temperature : float, default=0.01
        Cosines are divided by it to become logarithms of probabilities; such models are trained
        to 0.01.

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
            raise ValueError("Rows of signatures are named by class, or class and sentence, once.")
        self.signatures = signatures
        self.temperature = temperature
        self.n_features_in_ = signatures.shape[1]
        self.seen_classes_ = signatures.index.to_numpy()[:0]

    @property
    def class_scorer_(self) -> ClassScorer:
        """Cosines of images and texts; of several texts of a class their mean."""
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
