"""Scores of images and classes that were left out: what thresholds are found and measured on.

In each fold some seen classes are left out of training and stay among the candidates: they play the
classes that are described only. Images held aside of the other classes play images of seen ones.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from zslearn.base import fit_weighted
from zslearn.calibration._folds import FEWEST_CLASSES, Fold, checked_folds
from zslearn.calibration._units import score_spread
from zslearn.pipeline import as_zero_shot
from zslearn.scoring import best_temperature, mean_temperature, softmax
from zslearn.signatures import SignatureTable
from zslearn.utils import Floats, InputWarning, take_rows, to_numpy, warn_user


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Scores of a fold's validation images against every seen class.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Columns follow the sorted labels of the seen classes.
    true : ndarray of int of shape (n_samples,)
        The column of each image's class.
    left_out : ndarray of bool of shape (n_classes,)
        Which classes the fold did not train on.
    spread : float
        The spread of the scores of its training images, 1 where there is none.
    temperature : float or None
        The estimator's own, where it has probabilities.
    best : float
        The temperature under which these images' labels are most likely.
    """

    scores: Floats
    true: NDArray[np.intp]
    left_out: NDArray[np.bool_]
    spread: float
    temperature: float | None
    best: float


def held_out_scores(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    signatures: Any,
    weights: Floats | None,
    *,
    cv: Any,
    n_jobs: int | None,
    **options: Any,
) -> list[FoldScores]:
    """Fit an estimator in each fold and score what was left out.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        Not fitted; clones of it are.
    X, y : array of shape (n_samples, n_features), ndarray of shape (n_samples,)
        Training data.
    signatures : DataFrame, mapping, array or MultiSignatures, or None
        What is known of the classes. Only seen classes are looked at.
    weights : ndarray of shape (n_samples,) or None
        Sample weights.
    cv : int, splitter or list of (train, test)
        See :func:`checked_folds`.
    n_jobs : int or None
        Folds at the same time.
    **options : dict
        `held_out` and `random_state`, where `cv` is a number.

    Returns
    -------
    list of FoldScores
        One a fold; empty where no class can be left out and still be described.
    """
    seen = np.unique(y)
    if signatures is None:
        return []
    if len(seen) < FEWEST_CLASSES:
        warn_user(
            f"{len(seen)} seen classes are too few to leave some out: nothing is calibrated. Give "
            f"at least {FEWEST_CLASSES} classes."
        )
        return []
    folds = checked_folds(cv, X, y, generalized=True, **options)
    table = SignatureTable.from_user(signatures, seen)
    table = table.subset(table.positions(seen))
    return list(
        Parallel(n_jobs=n_jobs)(
            delayed(_of_fold)(as_zero_shot(estimator), X, y, weights, fold, table) for fold in folds
        )
    )


def _of_fold(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    weights: Floats | None,
    fold: Fold,
    table: SignatureTable,
) -> FoldScores:
    train, test = fold
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on all of the data.
        warnings.simplefilter("ignore", InputWarning)
        trained = take_rows(X, train)
        part = None if weights is None else weights[train]
        fit_weighted(estimator, trained, y[train], table.as_user(), part)
        scores = estimator.decision_function(take_rows(X, test), classes=table.labels)
    scores = np.asarray(to_numpy(scores), dtype=np.float64)
    true = table.positions(y[test])
    spread = score_spread(estimator, trained)
    return FoldScores(
        scores,
        true,
        ~np.isin(table.labels, estimator.seen_classes_),
        spread if np.isfinite(spread) and spread > 0 else 1.0,
        estimator.class_scorer_.temperature,
        best_temperature(scores, true),
    )


def fold_probabilities(folds: list[FoldScores]) -> list[Floats]:
    """Probabilities of each fold's images; a temperature comes from the other folds.

    Parameters
    ----------
    folds : list of FoldScores
        All folds.

    Returns
    -------
    list of ndarray of shape (n_samples, n_classes)
        One a fold.
    """
    probabilities = []
    for fold in folds:
        temperature = fold.temperature
        if temperature is None:
            others = [other for other in folds if other is not fold] or folds
            temperature = relative_temperature(others) * fold.spread
        probabilities.append(softmax(fold.scores, temperature))
    return probabilities


def relative_temperature(folds: list[FoldScores]) -> float:
    """The best temperature of all folds in units of the scores' spread.

    Parameters
    ----------
    folds : list of FoldScores
        The folds.

    Returns
    -------
    float
        The temperature over the spread; 1 without any.
    """
    return mean_temperature([fold.best / fold.spread for fold in folds])
