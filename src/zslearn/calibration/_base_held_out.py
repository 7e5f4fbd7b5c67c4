"""Base of wrappers that find thresholds on classes left out of training."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, Interval

from zslearn.base import (
    ZeroShotMetaClassifier,
    fit_weighted,
    is_streamed,
    read_blocks,
    weighted_samples,
)
from zslearn.calibration._held_out import FoldScores, held_out_scores, relative_temperature
from zslearn.calibration._units import score_spread
from zslearn.pipeline import as_zero_shot
from zslearn.scoring import ClassScorer
from zslearn.signatures import SignatureTable
from zslearn.utils import checks_parameters


class HeldOutCalibration(ZeroShotMetaClassifier):
    """Fits an estimator, and has it score left-out classes in folds; a subclass looks at those.

    A subclass has the hyper-parameters `estimator`, `cv`, `held_out`, `n_jobs` and `random_state`,
    and writes `_calibrate(folds, spread)`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    cv: Any
    held_out: float
    n_jobs: int | None
    random_state: Any

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the estimator, and calibrate on classes that are left out in turn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`. Without signatures no
            class can be left out and still be described, and nothing is calibrated.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts in training, for an estimator whose `fit` takes it.

        Returns
        -------
        self
            The fitted estimator. After an error it is as it was.
        """
        with self._anew() as fresh:
            X, y = fresh._check_training(X, y)
            X, y, weights = weighted_samples(X, y, sample_weight)
            estimator = as_zero_shot(self.estimator)
            fresh.estimator_ = fit_weighted(estimator, X, y, signatures, weights)
            fresh._begin_calibration(SignatureTable.from_user(signatures, np.unique(y)))
            folds = held_out_scores(
                self.estimator,
                X,
                y,
                signatures,
                weights,
                cv=self.cv,
                n_jobs=self.n_jobs,
                held_out=self.held_out,
                random_state=self.random_state,
            )
            spread = score_spread(fresh.estimator_, X)
            spread = spread if np.isfinite(spread) and spread > 0 else 1.0
            # Scores of folds, which train on less, may have another scale.
            fresh.temperature_ = fresh.estimator_.class_scorer_.temperature
            if fresh.temperature_ is None:
                fresh.temperature_ = relative_temperature(folds) * spread if folds else 1.0
            fresh._calibrate(folds, spread)
        return self

    temperature_: float

    def _begin_calibration(self, table: SignatureTable) -> None:
        """Check what depends on the described classes, before the folds are fitted."""

    def _calibrate(self, folds: list[FoldScores], spread: float) -> None:
        """Learn from the folds; empty where no class can be left out."""
        raise NotImplementedError

    def _checked_blocks(self, X: Any) -> Iterator[Any]:
        """Checked features: all of them where they lie in memory, else a block at a time."""
        if is_streamed(X):
            yield from read_blocks(self._check_stream(X))
        else:
            yield self._check_features(X)

    def _has_temperature(self) -> bool:
        return True

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        return (
            scorer if scorer.temperature is not None else scorer.at_temperature(self.temperature_)
        )
