"""Scores by which EXEM is tuned: distances of its exemplars, and accuracy on classes left out."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.utils.validation import check_is_fitted

from zslearn.scoring import FeaturePreparation, find_classes
from zslearn.signatures import label_array
from zslearn.solvers import class_means
from zslearn.synthesis._exem import EXEM
from zslearn.synthesis._exemplars import Projection
from zslearn.synthesis._statistics import ClassStatistics
from zslearn.utils import to_numpy


def exemplar_distance_score(
    estimator: EXEM, X: Any, y: Any, classes: Any = None, *, distance: str | None = None
) -> float:
    """CV-distance: how near predicted exemplars come to the real ones of held-out classes.

    Parameters
    ----------
    estimator : EXEM
        Fitted without the held-out classes, which it has signatures of.
    X : array-like of shape (n_samples, n_features)
        Samples of the held-out classes.
    y : array-like of shape (n_samples,)
        Their labels.
    classes : array-like of labels, optional
        Candidates; they do not matter for a distance and are taken for the sake of a common call.
    distance : {"euclidean", "standardized"}, optional
        By default the estimator's. "standardized" measures the distance of each class in units
        of the deviations within that class, as the authors' program does.

    Returns
    -------
    float
        The negative mean over the classes in `y` of the distance: the higher, the better.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, exemplar_distance_score
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> exemplar_distance_score(model, data.X_test_unseen, data.y_test_unseen) < 0
    True
    """
    check_is_fitted(estimator)
    X = estimator._check_features(X)
    labels = label_array(to_numpy(y), "y")
    distance = estimator.distance if distance is None else distance
    if distance not in ("euclidean", "standardized"):
        raise ValueError(f"distance must be 'euclidean' or 'standardized'; got {distance!r}.")
    prepared = FeaturePreparation(estimator.feature_norm)(X)
    if estimator._whitening is not None:
        prepared = estimator._whitening(prepared)
    held, codes = np.unique(labels, return_inverse=True)
    positions = find_classes(held, estimator.classes_)
    table = estimator._described.table
    described = table.normalized(estimator.signature_scale_, keep_views=True)
    predicted = estimator.predict_exemplars(described, table.labels)[positions]
    project = Projection(estimator.mean_, estimator.components_, estimator.exemplars_)
    if distance == "euclidean":
        # The projection is affine: of the samples of a class only the mean need be projected.
        means = to_numpy(class_means(prepared, codes, len(held)))
        difference = project(means) - predicted
    else:
        xp = compat.array_namespace(prepared)
        projected = project(xp.astype(prepared, xp.float64))
        statistics = ClassStatistics.of_prepared(projected, codes, held, factors=False)
        difference = statistics.means - predicted
        std = statistics.standard_deviations()
        # A class of one sample, or a dimension without deviation, has no unit of its own.
        with np.errstate(invalid="ignore"):
            usable = std > 0
        difference = difference / np.where(usable, std, 1.0)
    return -float(np.linalg.norm(difference, axis=1).mean())


def held_class_accuracy_score(estimator: Any, X: Any, y: Any, classes: Any = None) -> float:
    """CV-accuracy: per-class accuracy on held-out classes, among them alone.

    Parameters
    ----------
    estimator : zero-shot estimator
        Fitted without the held-out classes, which it has signatures of.
    X : array-like of shape (n_samples, n_features)
        Samples of the held-out classes.
    y : array-like of shape (n_samples,)
        Their labels.
    classes : array-like of labels, optional
        Candidates; by default the classes in `y`.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, held_class_accuracy_score
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> held_class_accuracy_score(model, data.X_test_unseen, data.y_test_unseen) > 0.5
    True
    """
    if classes is None:
        classes = np.unique(label_array(to_numpy(y), "y"))
    return estimator.score(X, y, classes=classes)
