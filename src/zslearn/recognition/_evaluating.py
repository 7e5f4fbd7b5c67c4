"""How good a saved model is on images with labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.features import ImageFeatures
from zslearn.metrics import harmonic_mean, per_class_accuracy
from zslearn.utils import name_near_misses, name_some, warn_user


@dataclass(frozen=True)
class RecognitionScores:
    """What a model got right.

    Parameters
    ----------
    n_images : dict of str to int
        Number of images of "seen" and of "unseen" classes.
    metrics : dict of str to float
        "seen" and "unseen": per-class accuracies among all described classes, and their "harmonic"
        mean; "unseen_among_unseen": that of unseen classes among these; each also with the ending
        "_top_5". What there are no images for is not there.
    """

    n_images: dict[str, int]
    metrics: dict[str, float]


def evaluate_images(
    model: Any, features: ImageFeatures, *, training_digests: Iterable[str] = ()
) -> RecognitionScores:
    """Measure a model on images with labels.

    A model that may say "none of these" is measured by the nearest class.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    features : ImageFeatures
        With labels, all of which the model describes.
    training_digests : iterable of str, default=()
        Digests of the images that the model was trained on: a warning says if some are measured.

    Returns
    -------
    RecognitionScores
        Accuracies of seen and unseen classes.

    Raises
    ------
    ValueError
        There are no labels, or the model knows nothing of one of them.

    Examples
    --------
    >>> from zslearn import EXEM
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.features import ImageFeatures
    >>> from zslearn.recognition import evaluate_images
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> names = tuple(map(str, range(len(data.y_test_unseen))))
    >>> features = ImageFeatures(data.X_test_unseen, data.y_test_unseen, names)
    >>> scores = evaluate_images(model, features)
    >>> scores.metrics["unseen_among_unseen"] > 0.5
    True
    """
    if features.y is None:
        raise ValueError(
            "The images have no labels, so that nobody knows what is right: put each into a folder "
            "of its class, or give a table (.csv) with the columns path and label."
        )
    known = model.classes_.tolist()
    present = list(dict.fromkeys(features.y.tolist()))
    if outside := [label for label in present if label not in set(known)]:
        near = name_near_misses(
            outside, known, unknown_in="the list of images", known_in="the model"
        )
        raise ValueError(
            f"There are images of {name_some(outside)}, which the model does not describe; "
            f"describe these classes (add-class), or leave their images out.{near}"
        )
    _warn_of_training_images(features, set(training_digests))
    is_seen = np.isin(features.y, model.seen_classes_)
    metrics: dict[str, float] = {}
    for part, rows in (("seen", is_seen), ("unseen", ~is_seen)):
        if rows.any():
            metrics |= _measure(model, features.X[rows], features.y[rows], None, part)
    if "seen" in metrics and "unseen" in metrics:
        metrics["harmonic"] = float(harmonic_mean(metrics["seen"], metrics["unseen"]))
    if (~is_seen).any():
        X, y = features.X[~is_seen], features.y[~is_seen]
        metrics |= _measure(model, X, y, model.unseen_classes_, "unseen_among_unseen")
    return RecognitionScores({"seen": int(is_seen.sum()), "unseen": int((~is_seen).sum())}, metrics)


def _measure(
    model: Any, X: NDArray[Any], y: NDArray[Any], classes: Any, name: str
) -> dict[str, float]:
    n_classes = len(model.classes_ if classes is None else classes)
    top, _ = model.predict_top_k(X, min(5, n_classes), classes=classes)
    found = {name: float(per_class_accuracy(y, top[:, 0]))}
    if n_classes > 5:
        # An image counts as right where its class is among the five.
        is_hit = (top == y[:, None]).any(axis=1)
        found[f"{name}_top_5"] = float(per_class_accuracy(y, np.where(is_hit, y, top[:, 0])))
    return found


def _warn_of_training_images(features: ImageFeatures, trained: set[str]) -> None:
    again = [name for name, text in zip(features.images, features.digests) if text in trained]  # noqa: B905
    if again:
        warn_user(
            f"{len(again)} of {len(features)} images were trained on, such as "
            f"{name_some(again, 2)}: accuracies on these say nothing of new images."
        )
