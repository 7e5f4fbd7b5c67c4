"""Answers for images: the best classes of each, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import to_numpy, unit_rows
from zslearn._utils._blocks import row_blocks
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.inspection import Explanation, TrainingPictures, explain
from zslearn.persistence._model_files import ModelFile

#: What stands beside a class: there were images of it, or it is known by its description alone.
SEEN, DESCRIBED = "seen", "described only"


def prediction_table(
    model: Any,
    X: NDArray[Any],
    images: Sequence[str],
    *,
    classes: Sequence[Any] | None = None,
    top: int = 2,
    prior: Mapping[Any, float] | None = None,
) -> pd.DataFrame:
    """Name the best classes of each image.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    X : array of shape (n_images, n_features)
        Image features.
    images : sequence of str
        What each image is called.
    classes : sequence of labels, optional
        The candidates; by default every described class.
    top : int, default=2
        How many classes per image; at least the runner-up is given, where there are two.
    prior : mapping of label to float, optional
        Odds of classes before the images are looked at; 1 for those that are not named.

    Returns
    -------
    DataFrame
        One row per image: "image", "class", "known_by" ("seen", or "described only" for a class
        without training images) and "probability", which is NaN where the model has none; the same
        for the second best as "runner_up", "runner_up_known_by", "runner_up_probability"; and for
        further ones as "class_3", "known_by_3", "probability_3", …. Where the model can tell
        images of none of the candidates (:class:`~zslearn.calibration.NoneOfThese`), the column
        "none_of_these" says it, and "class" is the nearest class all the same. Where it names ranks
        (:class:`~zslearn.calibration.RankPredictor`), "surely" is the deepest node that is sure,
        and "surely_probability" its probability, without `prior`.

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
    columns: dict[str, Any] = {"image": list(images)}
    if ranked.is_none is not None:
        columns["none_of_these"] = ranked.is_none
    if hasattr(model, "predict_rank"):
        surely = model.predict_rank(X, classes=classes)
        columns |= {"surely": surely.nodes, "surely_probability": surely.probabilities}
    for rank, labels in enumerate(ranked.labels.T.tolist()):
        columns[_column("class", rank)] = labels
        columns[_column("known_by", rank)] = [SEEN if c in seen else DESCRIBED for c in labels]
        columns[_column("probability", rank)] = ranked.probabilities[:, rank]
    return pd.DataFrame(columns)


class RankedClasses(NamedTuple):
    """The best classes of each image, best first: tables of shape (n_images, k)."""

    labels: NDArray[Any]
    scores: NDArray[Any]
    # NaN where the model has none.
    probabilities: NDArray[Any]
    # Whether an image is of none of the candidates, where the model can tell.
    is_none: NDArray[np.bool_] | None


def rank_classes(
    model: Any,
    X: NDArray[Any],
    *,
    classes: Sequence[Any] | None = None,
    top: int = 5,
    prior: Mapping[Any, float] | None = None,
) -> RankedClasses:
    """The best classes of each image, among some or all; fewer where there are not so many."""
    labels = candidate_classes(model, classes)
    k = min(top, len(labels))
    # Models of other authors need not know of a prior.
    weighed = {} if prior is None else {"prior": prior}
    best, scores, chances, none = [], [], [], []
    for rows in row_blocks(len(X), 8 * (len(labels) + X.shape[1])):
        # Scores, probabilities and rejections need the same embedding of the images.
        block = EmbeddedRows(X[rows]) if isinstance(model, ZeroShotPredictor) else X[rows]
        found, values = model.predict_top_k(block, k, classes=labels, **weighed)
        best.append(found)
        scores.append(to_numpy(values))
        chances.append(_probabilities(model, block, labels, found, weighed))
        if hasattr(model, "is_none"):
            none.append(model.is_none(block, classes=labels))
    return RankedClasses(
        np.concatenate(best),
        np.concatenate(scores),
        np.concatenate(chances),
        np.concatenate(none) if none else None,
    )


def explain_predictions(
    file: ModelFile, X: NDArray[Any], *, classes: Sequence[Any] | None = None
) -> list[Explanation]:
    """Say why images are predicted as they are, with the training pictures that a file knows."""
    training = _training_pictures(file)
    candidates = candidate_classes(file.model, classes)
    return explain(file.model, X, classes=candidates, training=training)


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


def candidate_classes(model: Any, classes: Sequence[Any] | None = None) -> NDArray[Any]:
    """Labels to choose among, each once; classes that the model does not describe are refused."""
    known = model.classes_
    return known if classes is None else known[find_classes(list(dict.fromkeys(classes)), known)]


def _probabilities(
    model: Any,
    X: NDArray[Any] | EmbeddedRows,
    labels: NDArray[Any],
    best: NDArray[Any],
    weighed: Mapping[str, Any],
) -> NDArray[Any]:
    """Probabilities of the named classes, NaN where the model has none."""
    if not hasattr(model, "predict_proba"):
        return np.full(best.shape, np.nan)
    chances = to_numpy(model.predict_proba(X, classes=labels, **weighed))
    column = {label: i for i, label in enumerate(labels.tolist())}
    at = np.array([[column[label] for label in row] for row in best.tolist()], dtype=np.intp)
    return np.take_along_axis(chances, at, axis=1)


def _column(what: str, rank: int) -> str:
    if rank == 0:
        return what
    if rank == 1:
        return "runner_up" if what == "class" else f"runner_up_{what}"
    return f"{what}_{rank + 1}"


class PromptClassifier(ZeroShotPredictor):
    """Name the class whose text is nearest to the picture; nothing is learned.

    The baseline for models that know pictures and text: what their text side gives without a
    single labelled image. It predicts as a fitted estimator does.

    Parameters
    ----------
    signatures : DataFrame of shape (n_classes, n_features) or (n_texts, n_features)
        Vectors of the classes in the space of the features, as :func:`text_features` gives them.
        With several rows per class (`pool=None` there) the score of a class is the mean of the
        cosines with its texts.
    temperature : float, default=0.01
        What cosines are divided by to become logarithms of probabilities; 0.01 is what such models
        are trained to.

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
        if signatures.index.has_duplicates:
            raise ValueError("A class is described twice.")
        if signatures.index.nlevels > 2:
            raise ValueError("The rows of signatures are named by class, or by class and sentence.")
        self.signatures = signatures
        self.temperature = temperature
        self.n_features_in_ = signatures.shape[1]
        self.seen_classes_ = signatures.index.to_numpy()[:0]

    @property
    def class_scorer_(self) -> ClassScorer:
        """Cosines of pictures and texts; of several texts of a class their mean."""
        unit = unit_rows(self.signatures.to_numpy(dtype=np.float64))
        labels = self.signatures.index.get_level_values(0)
        texts = pd.DataFrame(unit, index=labels).groupby(level=0).mean()
        classes = texts.index.to_numpy()
        embedding = Embedding(unit_rows)
        return ClassScorer(classes, texts.to_numpy(), embedding, temperature=self.temperature)

    def _checked_scorer(self) -> ClassScorer:
        return self.class_scorer_

    def _has_temperature(self) -> bool:
        return True
