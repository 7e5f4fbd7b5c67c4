"""One method on one data set, measured in both settings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn.calibration import CalibratedStacking
from zslearn.datasets import ZeroShotDataset
from zslearn.metrics import ausuc, generalized_accuracy, harmonic_mean
from zslearn.utils import to_numpy


@dataclass(frozen=True)
class Evaluation:
    """What was measured, and what later pictures are drawn from.

    Parameters
    ----------
    method : str
        Name of the method.
    accuracy : float
        Conventional setting: per-class accuracy on images of unseen classes, chosen among these.
    seen, unseen, harmonic : float
        Generalized setting without calibration: per-class accuracies on images of seen and of
        unseen classes, chosen among all, and their harmonic mean.
    calibrated_seen, calibrated_unseen, calibrated_harmonic : float
        The same at the factor `bias`.
    bias : float
        Calibration factor, found on the training data.
    ausuc : float
        Area under the seen–unseen accuracy curve.
    seconds : float
        Time to fit the method once.
    model : zero-shot estimator
        The method, fitted on all of the training part.
    y_true : ndarray of shape (n_samples,)
        Labels of the test images, seen classes first.
    scores : ndarray of shape (n_samples, n_classes)
        Scores of the test images; columns follow `model.classes_`.
    """

    method: str
    accuracy: float
    seen: float
    unseen: float
    harmonic: float
    calibrated_seen: float
    calibrated_unseen: float
    calibrated_harmonic: float
    bias: float
    ausuc: float
    seconds: float
    model: Any
    y_true: NDArray[Any]
    scores: NDArray[Any]

    def row(self) -> dict[str, Any]:
        """The numbers alone, as a row of a table."""
        hidden = ("model", "y_true", "scores")
        return {name: value for name, value in vars(self).items() if name not in hidden}


def evaluate(
    method: str,
    estimator: Any,
    data: ZeroShotDataset,
    *,
    n_jobs: int | None = None,
) -> Evaluation:
    """Fit a method on the training part and measure it on both test parts.

    Nothing is chosen on test images: the calibration factor comes from leaving out seen classes.

    Parameters
    ----------
    method : str
        Name of the method, for tables.
    estimator : zero-shot estimator
        The method; a clone is fitted.
    data : ZeroShotDataset
        The data set, with its active split.
    n_jobs : int, optional
        Folds of the calibration that are fitted at the same time.

    Returns
    -------
    Evaluation
        Every number, the fitted method and its scores.
    """
    start = time.perf_counter()
    model = clone(estimator).fit(data.X_train, data.y_train, signatures=data.signatures)
    seconds = time.perf_counter() - start
    calibrated = CalibratedStacking(estimator, n_jobs=n_jobs).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    y_true = np.concatenate([data.y_test_seen, data.y_test_unseen])
    scores = to_numpy(model.decision_function(X, classes=model.classes_))
    sides = {"classes": model.classes_, "seen_classes": model.seen_classes_}
    seen, unseen = generalized_accuracy(y_true, scores, **sides)
    calibrated_seen, calibrated_unseen = generalized_accuracy(
        y_true, scores, bias=calibrated.bias_, **sides
    )
    return Evaluation(
        method=method,
        accuracy=model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes),
        seen=seen,
        unseen=unseen,
        harmonic=float(harmonic_mean(seen, unseen)),
        calibrated_seen=calibrated_seen,
        calibrated_unseen=calibrated_unseen,
        calibrated_harmonic=float(harmonic_mean(calibrated_seen, calibrated_unseen)),
        bias=calibrated.bias_,
        ausuc=ausuc(y_true, scores, **sides),
        seconds=seconds,
        model=model,
        y_true=y_true,
        scores=scores,
    )
