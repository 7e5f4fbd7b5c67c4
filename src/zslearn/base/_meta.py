"""Base of wrappers: estimators that fit another zero-shot estimator and predict through it."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._scorer import ClassScorer
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.signatures._table import SignatureTable


class ZeroShotMetaClassifier(MetaEstimatorMixin, ZeroShotPredictor):
    """Base of estimators that fit another zero-shot estimator and predict through it.

    A subclass defines `fit` and `_wrap`, which makes its scorer from the inner one. `fit` checks
    what it was given by `_check_training(X, y)` and leaves the fitted inner estimator in
    `estimator_`; inside `with self._anew() as fresh` it works on a copy, which is taken over unless
    an error ends it.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    estimator: Any
    estimator_: Any

    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the inner estimator, and find what this one adds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts in training, for an estimator whose `fit` takes it.

        Returns
        -------
        self
            The fitted estimator. After an error it is as it was.
        """
        raise NotImplementedError

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        """Make the scorer of this estimator from that of the inner one; here the same."""
        return scorer

    @property
    def class_scorer_(self) -> ClassScorer:
        """What predictions work on, made from the inner estimator's at this moment."""
        return self._wrap(self.estimator_.class_scorer_)

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self.estimator_.seen_classes_

    def add_classes(self, signatures: Any) -> Self:
        """Describe further classes to the inner estimator.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            See :meth:`ZeroShotClassifier.add_classes`.

        Returns
        -------
        self
            The estimator, which now also predicts these classes.
        """
        check_is_fitted(self, "estimator_")
        self.estimator_.add_classes(signatures)
        return self

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of every described class, as the inner method has them."""
        return self.estimator_.signature_table_

    def describing(self, table: SignatureTable) -> Self:
        """A copy that describes other classes; what was learned is shared, and nothing is changed.

        Parameters
        ----------
        table : SignatureTable
            Every class that the copy describes; see :meth:`ZeroShotClassifier.describing`.

        Returns
        -------
        estimator
            The copy.
        """
        check_is_fitted(self, "estimator_")
        other: Any = copy.copy(self)
        other.estimator_ = self.estimator_.describing(table)
        return other

    def __sklearn_tags__(self) -> Tags:
        """Take over what the inner estimator says of its input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags
