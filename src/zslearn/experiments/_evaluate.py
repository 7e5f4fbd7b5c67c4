"""One fitted method on the test parts of one data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.calibration import CalibratedStacking
from zslearn.datasets import ZeroShotDataset
from zslearn.metrics import (
    ausuc,
    best_harmonic_mean,
    flat_hit_at_k,
    generalized_accuracy,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)
from zslearn.utils import to_numpy


def measure_conventional(model: Any, data: ZeroShotDataset) -> dict[str, float]:
    """Measure a fitted method on images of unseen classes, chosen among these.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted on the training part.
    data : ZeroShotDataset
        The data set, with its active split.

    Returns
    -------
    dict of str to float
        "per_class_accuracy", "per_sample_accuracy", and "flat_hit_at_k" for k = 2, 5, 10 where
        there are as many classes.
    """
    k = min(10, len(data.unseen_classes))
    top, _ = model.predict_top_k(data.X_test_unseen, k, classes=data.unseen_classes)
    y_true = data.y_test_unseen
    found = {
        "per_class_accuracy": float(per_class_accuracy(y_true, top[:, 0])),
        "per_sample_accuracy": float(per_sample_accuracy(y_true, top[:, 0])),
    }
    for at in (2, 5, 10):
        if at <= k:
            found[f"flat_hit_at_{at}"] = float(flat_hit_at_k(y_true, top, at))
    return found


@dataclass(frozen=True)
class GeneralizedScores:
    """Scores of all test images against all classes.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
        Labels of the test images, those of seen classes first.
    scores : ndarray of shape (n_samples, n_classes)
        Scores without calibration; columns follow `classes`.
    classes, seen_classes : ndarray
        The candidates, and the seen ones among them.
    """

    y_true: NDArray[Any]
    scores: NDArray[Any]
    classes: NDArray[Any]
    seen_classes: NDArray[Any]

    @classmethod
    def of(cls, model: Any, data: ZeroShotDataset) -> GeneralizedScores:
        """Score the test parts of a data set by a method without calibration."""
        X = np.concatenate([data.X_test_seen, data.X_test_unseen])
        y_true = np.concatenate([data.y_test_seen, data.y_test_unseen])
        scores = to_numpy(model.decision_function(X, classes=model.classes_))
        return cls(y_true, scores, model.classes_, model.seen_classes_)

    def measure(self, bias: float) -> dict[str, float]:
        """Measure the generalized setting, without calibration and at a factor.

        Parameters
        ----------
        bias : float
            Calibration factor, found on the training data.

        Returns
        -------
        dict of str to float
            Accuracies "seen" and "unseen" and their "harmonic" mean; the same with the prefix
            ``"calibrated_"``; "ausuc"; and "harmonic_best", the curve's maximum, which no honest
            choice of the factor promises.
        """
        problem = vars(self)
        seen, unseen = generalized_accuracy(**problem)
        held_seen, held_unseen = generalized_accuracy(**problem, bias=bias)
        return {
            "seen": float(seen),
            "unseen": float(unseen),
            "harmonic": float(harmonic_mean(seen, unseen)),
            "calibrated_seen": float(held_seen),
            "calibrated_unseen": float(held_unseen),
            "calibrated_harmonic": float(harmonic_mean(held_seen, held_unseen)),
            "ausuc": float(ausuc(**problem)),
            "harmonic_best": float(best_harmonic_mean(**problem)[0]),
        }


@dataclass(frozen=True)
class Evaluation:
    """One method with given hyper-parameters, measured in both settings.

    Parameters
    ----------
    method : str
        Name of the method.
    metrics : dict of str to float
        See :func:`measure_conventional` and :meth:`GeneralizedScores.measure`.
    bias : float
        Calibration factor, found on the training data.
    seconds : float
        Time to fit the method once.
    model : zero-shot estimator
        Fitted on all of the training part.
    generalized : GeneralizedScores
        What curves are drawn from.
    """

    method: str
    metrics: dict[str, float]
    bias: float
    seconds: float
    model: Any
    generalized: GeneralizedScores


def evaluate(method: str, estimator: Any, data: ZeroShotDataset, *, cv: int = 5) -> Evaluation:
    """Fit a method as it is on the training part and measure it on both test parts.

    Nothing is chosen on test images: the calibration factor comes from leaving out seen classes.

    Parameters
    ----------
    method : str
        Name of the method, for tables.
    estimator : zero-shot estimator
        The method; a clone is fitted.
    data : ZeroShotDataset
        The data set, with its active split.
    cv : int
        Folds over the seen classes for the calibration factor.

    Returns
    -------
    Evaluation
        Every number, the fitted method and its scores.
    """
    stacked = CalibratedStacking(estimator, cv=cv).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    model, bias = stacked.estimator_, stacked.bias_
    generalized = GeneralizedScores.of(model, data)
    metrics = measure_conventional(model, data) | generalized.measure(bias)
    return Evaluation(method, metrics, bias, stacked.refit_time_, model, generalized)
