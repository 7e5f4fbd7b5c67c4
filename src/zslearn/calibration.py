"""Calibrated stacking: how far seen classes are held back in the generalized setting."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from zslearn.base import ZeroShotMetaClassifier
from zslearn.metrics import best_harmonic_mean
from zslearn.scoring import ClassScorer
from zslearn.signatures import SignatureTable
from zslearn.utils import (
    ClassKFold,
    Floats,
    GeneralizedClassKFold,
    InputWarning,
    checks_parameters,
    take_rows,
    warn_user,
)

__all__ = ["FEWEST_CLASSES", "CalibratedStacking", "Fold", "checked_folds", "mean_factor"]

#: With fewer seen classes none can be left out: a fold leaves out two and trains on two.
FEWEST_CLASSES = 4

#: Rows to train on and rows to validate on.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def checked_folds(
    cv: Any, X: Any, y: NDArray[Any], *, generalized: bool, **options: Any
) -> list[Fold]:
    """The folds over the seen classes by which hyper-parameters and the factor are found.

    Parameters
    ----------
    cv : int, splitter or list of (train, test)
        Number of folds, no more than leaves two classes to each; or a splitter; or the rows.
    X : array of shape (n_samples, n_features)
        Samples, for the splitter.
    y : ndarray of shape (n_samples,)
        Class labels.
    generalized : bool
        Whether images of the classes that a fold trains on are validated, too.
    **options : dict
        Passed to the splitter that a number stands for.

    Returns
    -------
    list of (train, test)
        Each fold leaves out whole classes and trains on two or more.
    """
    splitter = GeneralizedClassKFold if generalized else ClassKFold
    if isinstance(cv, Integral):
        # At least two classes are left out in a fold: among one there is nothing to choose.
        cv = splitter(min(int(cv), len(np.unique(y)) // 2), **options)
    folds = cv.split(X, y) if hasattr(cv, "split") else cv
    checked = [(np.asarray(train), np.asarray(test)) for train, test in folds]
    for number, (train, test) in enumerate(checked):
        kept, tested = np.unique(y[train]), np.unique(y[test])
        left_out = np.setdiff1d(tested, kept)
        if len(kept) < 2 or len(left_out) == 0:
            raise ValueError(
                f"Fold {number} of cv trains on {len(kept)} classes and leaves out "
                f"{len(left_out)}; it must train on two or more and leave out whole classes. "
                f"Use {splitter.__name__}."
            )
        if generalized and len(left_out) == len(tested):
            raise ValueError(
                f"Fold {number} of cv validates no image of a class that it trains on, which "
                f"the generalized setting needs. Use {splitter.__name__}."
            )
        if not generalized and len(left_out) == 1:
            warn_user(f"Fold {number} of cv leaves out one class: it tells nothing.")
    return checked


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
    cv : int, splitter or list of (train, test), default=5
        Number of folds over the seen classes, no more than leaves two classes to each; or a
        splitter such as :class:`~zslearn.model_selection.GeneralizedClassKFold`, or rows to train
        on and to validate on. :class:`~zslearn.model_selection.ZeroShotSearchCV` with the same
        folds finds the same factor.
    held_out : float, default=0.2
        Share of the images of each seen class that is held aside, where `cv` is a number.
    n_jobs : int, optional
        Folds that are fitted at the same time, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Decides the folds and what is held aside, where `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    bias_ : float
        The factor. Without signatures, where no class can be left out and still be described, and
        with fewer than four seen classes, it is 0.
    fold_biases_ : ndarray of shape (n_folds,)
        The factor of each fold, NaN or infinite where it has none; empty when none was searched.
    refit_time_ : float
        Seconds to fit `estimator_`.
    <attributes of every wrapper>

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
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        bias: str | float = "cv",
        cv: Any = 5,
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

    @checks_parameters(also_of_inner=True)
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
            The fitted estimator. After an error it is as it was.
        """
        with self._anew() as fresh:
            X, y = fresh._check_training(X, y)
            start = time.perf_counter()
            fresh.estimator_ = clone(self.estimator).fit(X, y, signatures=signatures)
            fresh.refit_time_ = time.perf_counter() - start
            fresh.fold_biases_ = np.empty(0)
            if self.bias == "cv":
                fresh.fold_biases_ = self._search(X, y, signatures)
                fresh.bias_ = mean_factor(fresh.fold_biases_)
            else:
                fresh.bias_ = float(self.bias)
        return self

    def _search(self, X: Any, y: NDArray[Any], signatures: Any) -> Floats:
        """The best factor of each fold over the seen classes."""
        seen = np.unique(y)
        if signatures is None:
            return np.empty(0)
        if len(seen) < FEWEST_CLASSES:
            warn_user(
                f"{len(seen)} seen classes are too few to leave some out: the calibration factor "
                f"is 0. Give a number as bias, or at least {FEWEST_CLASSES} classes."
            )
            return np.empty(0)
        options = {"held_out": self.held_out, "random_state": self.random_state}
        folds = checked_folds(self.cv, X, y, generalized=True, **options)
        table = SignatureTable.from_user(signatures, seen)
        table = table.subset(table.positions(seen))
        factors = Parallel(n_jobs=self.n_jobs)(
            delayed(_fold_factor)(clone(self.estimator), X, y, fold, table) for fold in folds
        )
        return np.asarray(factors)

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        return scorer.holding_back(self.seen_classes_, self.bias_)


def _fold_factor(
    estimator: Any, X: Any, y: NDArray[Any], fold: Fold, table: SignatureTable
) -> float:
    """Fit without the classes left out; the factor of the best harmonic mean on the rest."""
    train, test = fold
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on all of the data.
        warnings.simplefilter("ignore", InputWarning)
        estimator.fit(take_rows(X, train), y[train], signatures=table.as_user())
        scores = estimator.decision_function(take_rows(X, test), classes=table.labels)
    _, factor = best_harmonic_mean(
        y[test],
        scores,
        classes=table.labels,
        seen_classes=estimator.seen_classes_,
        missing="ignore",
    )
    return float(factor)
