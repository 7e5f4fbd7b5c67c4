"""Whether a model from a file can be: its parts fit each other, and it predicts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from zslearn.base import ZeroShotPredictor
from zslearn.persistence._errors import BadContentError
from zslearn.utils import to_numpy

#: Features of an image at most.
_MOST_FEATURES = 2**26


def check_model(model: Any) -> None:
    """Refuse a model whose parts do not fit, or that cannot score an image.

    Parameters
    ----------
    model : object
        Of a file.

    Raises
    ------
    BadContentError
        What does not fit.
    """
    if not isinstance(model, ZeroShotPredictor):
        raise BadContentError(f"it holds a {type(model).__name__}, which is no zero-shot estimator")
    try:
        check_is_fitted(model, "class_scorer_")
    except NotFittedError:
        raise BadContentError(f"its {type(model).__name__} has learned nothing") from None
    scorer = model.class_scorer_
    labels, parameters = scorer.labels, scorer.parameters
    check_labels(labels, "its classes")
    check_labels(model.seen_classes_, "its seen classes")
    if not set(model.seen_classes_.tolist()) <= set(labels.tolist()):
        raise BadContentError("it does not describe every class that it has seen")
    n_classes = len(labels)
    if n_classes < 2 or parameters.shape[0] != n_classes:
        raise BadContentError(f"it has {parameters.shape[0]} classifiers for {n_classes} classes")
    for extra in (scorer.bias, scorer.precedence):
        if extra is not None and extra.shape != (n_classes,):
            raise BadContentError(f"it has {len(extra)} factors for {n_classes} classes")
    _probe(model, n_classes)


def check_labels(labels: Any, what: str) -> None:
    """Labels are a sorted array without duplicates, of texts, whole numbers or booleans."""
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "UOiubf":
        raise BadContentError(f"{what} are no list of labels")
    if labels.dtype.kind == "O" and not all(isinstance(label, str) for label in labels):
        raise BadContentError(f"{what} are no list of labels")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise BadContentError(f"{what} are no list of labels")
    if len(labels) > 1 and not (labels[:-1] < labels[1:]).all():
        raise BadContentError(f"{what} are not in order, or some come twice")


def _probe(model: Any, n_classes: int) -> None:
    """Score one image: what has a wrong shape or type shows here, and not when it is used."""
    n_features = model.n_features_in_
    if type(n_features) is not int or not 0 < n_features <= _MOST_FEATURES:
        raise BadContentError(f"it has no proper number of features: {n_features!r:.40}")
    row: NDArray[np.float64] = np.linspace(0.5, 1.0, n_features)[None, :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = to_numpy(model.class_scorer_.scores(row))
    if scores.shape != (1, n_classes) or not np.isfinite(scores).all():
        raise BadContentError("it gives no proper scores")
