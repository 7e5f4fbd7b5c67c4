"""Calibrated stacking: how far seen classes are held back in the generalized setting."""

from __future__ import annotations

import time
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from zslearn.base import ZeroShotMetaClassifier
from zslearn.metrics import best_harmonic_mean
from zslearn.signatures._table import SignatureTable
from zslearn.utils import InputWarning, take_rows, warn_user
from zslearn.utils._folds import class_folds, hold_out_per_class

__all__ = ["CalibratedStacking"]


class CalibratedStacking(ZeroShotMetaClassifier):
    r"""Lower the scores of the seen classes by a factor (the paper's eGZSLPredictCalib).

    .. math:: \hat y = \arg\max_{c \in \mathcal{T}} f_c(x) - b \, [c \in \mathcal{S}]

    A method that never saw an image of some classes prefers those it saw. The factor b balances
    that. It is found on the training data alone, by leaving out whole classes: a share of the
    images of every seen class is held aside; in each fold some seen classes play the unseen ones.
    The fold's factor is the one with the best harmonic mean of the accuracies on the images of the
    left-out classes and on the images held aside; b is the mean over the folds.

    Parameters
    ----------
    estimator : zero-shot estimator
        What gives the scores.
    bias : "cv" or float, default="cv"
        The factor b, or "cv" to find it as above.
    cv : int, default=5
        Number of folds over the seen classes; no more than there are seen classes.
    held_out : float, default=0.2
        Share of the images of each seen class that is held aside for "cv".
    n_jobs : int, optional
        Folds that are fitted at the same time, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Decides the folds and what is held aside.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    bias_ : float
        The factor. Without signatures, where no class can be left out and still be described, and
        with fewer than three seen classes, it is 0.
    fold_biases_ : ndarray of shape (n_folds,)
        The factor of each fold; empty when none was searched for.
    refit_time_ : float
        Seconds to fit `estimator_`.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.

    See Also
    --------
    zslearn.metrics.ausuc : Measures a method over all factors at once.

    References
    ----------
    W.-L. Chao, S. Changpinyo, B. Gong and F. Sha, "An empirical study and analysis of generalized
    zero-shot learning for object recognition in the wild", ECCV 2016.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.calibration import CalibratedStacking
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CalibratedStacking(ESZSL())
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.bias_ > 0
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"])],
        "bias": [StrOptions({"cv"}), Interval(Real, None, None, closed="neither")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        bias: str | float = "cv",
        cv: int = 5,
        held_out: float = 0.2,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.bias = bias
        self.cv = cv
        self.held_out = held_out
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Fit the estimator, and find the factor.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`.

        Returns
        -------
        self
            The fitted estimator.
        """
        X, y = self._check_training(X, y)
        start = time.perf_counter()
        self.estimator_ = clone(self.estimator).fit(X, y, signatures=signatures)
        self.refit_time_ = time.perf_counter() - start
        self.fold_biases_ = np.empty(0)
        if self.bias == "cv":
            self.fold_biases_ = self._search(X, y, described=signatures is not None)
            self.bias_ = float(self.fold_biases_.mean()) if self.fold_biases_.size else 0.0
        else:
            self.bias_ = float(self.bias)
        return self

    def _search(self, X: Any, y: NDArray[Any], *, described: bool) -> NDArray[np.float64]:
        """The best factor of each fold over the seen classes."""
        seen, codes = np.unique(y, return_inverse=True)
        if not described:
            return np.empty(0)
        if len(seen) < 3:
            warn_user(
                f"{len(seen)} seen classes are too few to leave one out: the calibration factor "
                "is 0. Give a number as bias, or more classes."
            )
            return np.empty(0)
        rng = check_random_state(self.random_state)
        held = hold_out_per_class(codes, self.held_out, rng)
        # Two classes at least must stay to train on.
        order = rng.permutation(len(seen))
        folds = class_folds(order, min(self.cv, len(seen)))
        folds = [fold[: len(seen) - 2] for fold in folds]
        table = self.estimator_._signature_table
        table = table.subset(table.positions(seen))
        biases = Parallel(n_jobs=self.n_jobs)(
            delayed(_fold_bias)(clone(self.estimator), X, y, held, seen[fold], table)
            for fold in folds
        )
        return np.asarray([bias for bias in biases if np.isfinite(bias)])

    def _seen_bias(self) -> float:
        return self.bias_


def _fold_bias(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    held: NDArray[np.bool_],
    left_out: NDArray[Any],
    table: SignatureTable,
) -> float:
    """Fit without the classes `left_out`; the factor of the best harmonic mean on the rest."""
    is_left_out = np.isin(y, left_out)
    train = np.flatnonzero(~is_left_out & ~held)
    # Unseen here: what was not held aside of the classes left out. Seen: what was, of the others.
    check = np.flatnonzero(is_left_out ^ held)
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on all of the data.
        warnings.simplefilter("ignore", InputWarning)
        estimator.fit(take_rows(X, train), y[train], signatures=table.as_user())
        scores = estimator.decision_function(take_rows(X, check), classes=table.labels)
    _, bias = best_harmonic_mean(
        y[check],
        scores,
        classes=table.labels,
        seen_classes=estimator.seen_classes_,
        missing="ignore",
    )
    return bias
