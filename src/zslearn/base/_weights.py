"""Sample weights: the mixin of methods that take them, and the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from zslearn._utils._array import Floats, take_rows
from zslearn._utils._validation import checked_weights, checks_parameters

if TYPE_CHECKING:
    from zslearn.base._classifier import ZeroShotClassifier

    _Method = ZeroShotClassifier
else:
    _Method = object


class AcceptsSampleWeight(_Method):
    """Mixin of methods whose `fit` takes `sample_weight`.

    Such a method reads `training.weights` and `training.sizes`. It stands before
    :class:`ZeroShotClassifier` among the bases.
    """

    @checks_parameters()
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features; see :meth:`ZeroShotClassifier.fit`.
        y : array-like of shape (n_samples,)
            Class labels: strings, integers or booleans.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts. A weight of 2 is a sample that is there twice, and a sample
            of weight 0 is not there: a class left without samples is not seen.

        Returns
        -------
        self
            The fitted method. After an error it is as it was.
        """
        return self._fit_validated(X, y, signatures, sample_weight)


def weighted_samples(
    X: Any, y: NDArray[Any], sample_weight: Any
) -> tuple[Any, NDArray[Any], Floats | None]:
    """Check the weights of samples, and leave out those that weigh nothing."""
    weights = check_weights(sample_weight, X)
    if weights is not None and not weights.all():
        there = np.flatnonzero(weights)
        X, y, weights = take_rows(X, there), y[there], weights[there]
    return X, y, weights


def fit_weighted(
    estimator: Any, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
) -> Any:
    """Fit an estimator, with weights where there are any."""
    if weights is None:
        return estimator.fit(X, y, signatures=signatures)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise _no_weights(estimator)
    return estimator.fit(X, y, signatures=signatures, sample_weight=weights)


def check_weights(sample_weight: Any, X: Any) -> Floats | None:
    """Weights of rows, of which one number stands for all; None where all are 1."""
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, X.shape[:1])
    return None if (weights == 1).all() else weights


def refuse_weights(estimator: ZeroShotClassifier) -> None:
    """Refuse weights where the method's objective has none."""
    if not isinstance(estimator, AcceptsSampleWeight):
        raise _no_weights(estimator)


def _no_weights(estimator: Any) -> TypeError:
    return TypeError(
        f"{type(estimator).__name__} cannot weigh samples; leave sample_weight out. Methods whose "
        "fit has the parameter can."
    )
