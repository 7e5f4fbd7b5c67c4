"""The factor and the temperature of all folds, in the units of the scores they are meant for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.scoring import mean_temperature
from zslearn.utils import Floats, InputWarning, take_rows, to_numpy

# The spread of the scores is taken over no more training images than this.
_MOST_SPREAD_ROWS = 500


def mean_factor(factors: Sequence[float] | Floats) -> float:
    """The calibration factor of all folds: the mean of theirs, 0 without any.

    Parameters
    ----------
    factors : sequence of float
        The factor with the best harmonic mean in each fold; NaN or infinite where there is none.

    Returns
    -------
    float
        The factor.
    """
    finite = [factor for factor in factors if np.isfinite(factor)]
    return float(np.mean(finite)) if finite else 0.0


def some_rows(n_rows: int) -> NDArray[np.intp]:
    """Rows that the spread is taken over: all, or so many of them, evenly spaced."""
    return np.linspace(0, n_rows - 1, min(n_rows, _MOST_SPREAD_ROWS)).astype(np.intp)


def spread(scores: Any) -> float:
    """The standard deviation of an image's scores over the seen classes; the median over images.

    Parameters
    ----------
    scores : array of shape (n_samples, n_seen)
        Scores of training images.

    Returns
    -------
    float
        The spread: a scale of the scores that hardly depends on the number of classes.
    """
    return float(np.median(np.std(to_numpy(scores), axis=1)))


def score_spread(estimator: Any, X: Any) -> float:
    """The spread of a fitted estimator's scores.

    Parameters
    ----------
    estimator : zero-shot estimator
        Fitted.
    X : array of shape (n_samples, n_features)
        What it was fitted on.

    Returns
    -------
    float
        It depends on the seen classes alone, not on what else is described.
    """
    rows = take_rows(X, some_rows(X.shape[0]))
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on these images.
        warnings.simplefilter("ignore", InputWarning)
        return spread(estimator.decision_function(rows, classes=estimator.seen_classes_))


def rescaled(
    factors: Sequence[float] | Floats, spreads: Sequence[float] | Floats, final: float
) -> Floats:
    r"""Factors of folds in the units of the scores after training on all classes.

    A fold trains on fewer classes and images, and its scores may have another scale. With one
    classifier per class against all others, for instance, fewer classes make each of them stronger.
    So a factor is kept as a multiple of the spread g of the scores,

    .. math:: b_k \, g / g_k.

    Parameters
    ----------
    factors : sequence of float
        The best factor of each fold.
    spreads : sequence of float
        The spread of the scores in each fold; see :func:`spread`.
    final : float
        That of the estimator fitted on all of the data.

    Returns
    -------
    ndarray of shape (n_folds,)
        The factors; as they are where a spread is 0 or not finite.
    """
    values, folds = np.asarray(factors, dtype=np.float64), np.asarray(spreads, dtype=np.float64)
    sound = np.isfinite(folds) & (folds > 0) & bool(np.isfinite(final) and final > 0)
    return values * np.where(sound, final, 1.0) / np.where(sound, folds, 1.0)


def chosen_temperature(wanted: str | float | None, temperatures: Sequence[float] | Floats) -> Any:
    """The temperature that a wrapper predicts with.

    Parameters
    ----------
    wanted : "cv", float or None
        The wrapper's hyper-parameter.
    temperatures : sequence of float
        The best temperature in each fold.

    Returns
    -------
    float or None
        None where none is wanted.
    """
    if wanted == "cv":
        return mean_temperature(temperatures)
    return None if wanted is None else float(wanted)
