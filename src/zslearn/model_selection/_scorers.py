"""Scores by name, for a search; and one for scikit-learn's own cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from zslearn._utils._array import to_numpy
from zslearn.base._pipeline import ZeroShotPipeline


def unseen_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Per-class accuracy on the classes that an estimator did not see, among these alone.

    For `scoring` of scikit-learn's `cross_val_score`, `cross_validate` and `GridSearchCV`, with
    folds that leave out whole classes. It gives what :class:`ZeroShotSearchCV` measures in the
    conventional setting. Without it those functions call `score`, where all described classes are
    candidates: the accuracy on unseen classes in the generalized setting.

    Parameters
    ----------
    estimator : zero-shot estimator, or Pipeline that ends in one
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Image features.
    y : array-like of shape (n_samples,)
        Their labels. Samples of seen classes are left out.

    Returns
    -------
    float
        Between 0 and 1.

    See Also
    --------
    ClassKFold : Folds that leave out whole classes.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ClassKFold, unseen_accuracy_scorer
    >>> data = make_zero_shot(random_state=0)
    >>> accuracies = cross_val_score(
    ...     ESZSL(),
    ...     data.X_train,
    ...     data.y_train,
    ...     cv=ClassKFold(5),
    ...     scoring=unseen_accuracy_scorer,
    ...     params={"signatures": data.signatures},
    ... )
    >>> accuracies.shape
    (5,)
    """
    if isinstance(estimator, Pipeline) and not isinstance(estimator, ZeroShotPipeline):
        # By hand: scikit-learn's pipeline passes `classes` on only where nothing routes it.
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    labels = to_numpy(y)
    unseen = np.setdiff1d(labels, estimator.seen_classes_)
    if len(unseen) == 0:
        raise ValueError(
            "y holds classes only that the estimator was trained on. Leave out whole classes: "
            "cv=ClassKFold(5)."
        )
    if len(unseen) < len(np.unique(labels)):
        rows = np.flatnonzero(np.isin(labels, unseen))
        X, labels = _safe_indexing(X, rows), labels[rows]
    return estimator.score(X, labels, classes=unseen)


def known_scorers(scoring: Any, setting: str) -> dict[str, Any]:
    """Scores by name; those of the library by None, others by their callable."""
    if scoring is None:
        scoring = "accuracy" if setting == "zsl" else "ausuc"
    if isinstance(scoring, Mapping):
        chosen = dict(scoring)
    elif callable(scoring):
        chosen = {"score": scoring}
    else:
        words = [scoring] if isinstance(scoring, str) else list(scoring)
        chosen = {word if isinstance(word, str) else word.__name__: word for word in words}
    known = ("accuracy",) if setting == "zsl" else ("accuracy", "ausuc", "harmonic_mean")
    out: dict[str, Any] = {}
    for name, scorer in chosen.items():
        if callable(scorer):
            out[name] = scorer
        elif scorer in known:
            out[scorer] = None
        else:
            raise ValueError(
                f"scoring={scorer!r} is not known in the setting {setting!r}; use one of "
                f"{', '.join(known)}, or a callable (estimator, X, y, classes) → float."
            )
    if not out:
        raise ValueError("scoring is empty.")
    return out
