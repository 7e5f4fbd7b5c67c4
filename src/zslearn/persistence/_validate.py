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
from zslearn.signatures import SignatureTable, SignatureViews
from zslearn.utils import to_numpy

#: Features of an image at most.
_MOST_FEATURES = 2**26
#: Classes whose parameters are made for a trial.
_CLASSES_MADE = 3


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


def check_part(value: Any) -> None:
    """Refuse signatures that do not fit their classes, and classes that do not fit theirs.

    Parameters
    ----------
    value : object
        An object of a file, complete.

    Raises
    ------
    BadContentError
        What does not fit.
    """
    if isinstance(value, SignatureTable):
        _check_table(value)
    elif isinstance(value, SignatureViews):
        _check_views(value)
    if hasattr(value, "_described"):
        _check_described(value)


def _check_described(method: Any) -> None:
    """A method has parameters of each class that it describes, and can make them of signatures."""
    table = method._described.table
    parameters = getattr(method._described, "parameters", None)
    if parameters is None:
        # Described by another method, which is checked by itself.
        return
    n_classes = len(table.labels)
    if parameters.shape[0] != n_classes:
        raise BadContentError(
            f"its {type(method).__name__} has {parameters.shape[0]} rows of parameters for "
            f"{n_classes} classes"
        )
    if method._describing_trains:
        return
    some = slice(_CLASSES_MADE)
    described = table.normalized(method.signature_scale_, keep_views=method.keep_views)[some]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = method.synthesize(described, table.labels[some])
    if made.shape[1:] != parameters.shape[1:] or not np.isfinite(to_numpy(made)).all():
        raise BadContentError(
            f"its {type(method).__name__} makes other parameters of classes than it has"
        )


def _check_views(views: SignatureViews) -> None:
    if not isinstance(views.arrays, tuple) or len(views.arrays) != len(views.weights):
        raise BadContentError("the views of its signatures do not fit each other")
    _check_arrays(views.arrays, len(views.arrays[0]))


def _check_arrays(arrays: Any, n_rows: int) -> None:
    """Signatures of each view: floating, one row per class."""
    if not isinstance(arrays, tuple) or not arrays:
        raise BadContentError("its signatures are no views")
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.ndim != 2:
            raise BadContentError("its signatures are no table of numbers")
        if len(array) != n_rows:
            raise BadContentError(f"it has {len(array)} signatures for {n_rows} classes")


def _check_table(table: SignatureTable) -> None:
    check_labels(table.labels, "classes of its signatures")
    _check_arrays(table.arrays, len(table.labels))
    n_views = len(table.arrays)
    parts = (table.columns, table.names, table.weights, table.gamma_factors)
    if not all(isinstance(part, tuple) and len(part) == n_views for part in parts):
        raise BadContentError("the views of its signatures do not fit each other")
    if not all(isinstance(name, str) for name in table.names):
        raise BadContentError("the views of its signatures have no names")
    weights_fit = all(isinstance(weight, float) and weight >= 0 for weight in table.weights)
    if not weights_fit or abs(sum(table.weights) - 1) > 1e-9:
        raise BadContentError("the views of its signatures have no proper weights")
    if not all(isinstance(factor, float) and factor > 0 for factor in table.gamma_factors):
        raise BadContentError("the views of its signatures have no proper factors")
    if not isinstance(table.indicators, bool):
        raise BadContentError("its signatures do not say whether somebody gave them")
    for array, columns in zip(table.arrays, table.columns, strict=True):
        if columns is not None and len(columns) != array.shape[1]:
            raise BadContentError("its signatures have another number of attributes than of names")


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
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n_features,)):
        raise BadContentError("it has another number of features than of their names")
    scorer = model.class_scorer_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = to_numpy(scorer.scores(row))
        if scorer.temperature is not None:
            shares = to_numpy(scorer.probabilities(row))
            if not np.allclose(shares.sum(), 1.0):
                raise BadContentError("it gives no proper probabilities")
    if scores.shape != (1, n_classes) or not np.isfinite(scores).all():
        raise BadContentError("it gives no proper scores")
