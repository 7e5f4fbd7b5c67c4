"""Base of methods that learn from class statistics, at once or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from zslearn._utils._array import is_streamed
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import ClassStatistics, weighted_samples
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier
from zslearn.base._streams import check_block_labels, stream_samples
from zslearn.base._training import Training
from zslearn.signatures._described import DescribedTables
from zslearn.signatures._table import SignatureTable, label_array


def _statistics_are_enough(model: LearnsFromStatistics) -> bool:
    reason = model._needs_samples()
    if reason is not None:
        raise AttributeError(f"{type(model).__name__} cannot learn from statistics {reason}")
    return True


@saves(
    {"statistics_.means": Saved("n_seen", "n_features", optional=True)},
    statistics_=Saved(kind=ClassStatistics, optional=True),
    _table_so_far=Saved(kind=SignatureTable, optional=True),
)
class LearnsFromStatistics(AcceptsSampleWeight, ZeroShotClassifier):
    """Base of methods that learn from class statistics; a subclass implements `_learn`."""

    statistics_: ClassStatistics

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Fit estimators to statistics; `training` may have no samples of its own."""
        raise NotImplementedError

    def _needs_samples(self) -> str | None:
        """Why the current hyper-parameters need samples; None if statistics suffice."""
        return None

    def _needs_factors(self) -> bool:
        """Whether the scatter of each class is needed."""
        return False

    @available_if(_statistics_are_enough)
    def fit_statistics(self, statistics: ClassStatistics, *, signatures: Any = None) -> Self:
        """Learn from class statistics instead of samples.

        Parameters
        ----------
        statistics : ClassStatistics
            Statistics of features prepared with the `feature_norm` of this model. For
            ``distance="standardized"`` with a projection they need ``factors=True``.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            See :meth:`fit`.

        Returns
        -------
        self
            The fitted method, as `fit` on the samples gives it.
        """
        self._validate_params()
        fresh = self._fresh_copy()
        fresh._learn_from(statistics, signatures, None)
        return self._set_fitted(fresh)

    @available_if(_statistics_are_enough)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from a further batch of samples, of which only the statistics are kept.

        Every call rebuilds the model from all batches. For many batches it is faster to add up
        :class:`ClassStatistics` and to call :meth:`fit_statistics` once. A model from `fit` cannot
        be continued, because `fit` keeps no statistics; a warning reports this.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features; also a :class:`~zslearn.datasets.FeatureBlocks` or a dask array.
        y : array-like of shape (n_samples,)
            Class labels. The model can predict after batches of at least two classes.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            Signatures of the classes; required at the first call, later only for new classes.
        classes : array-like of labels, optional
            Instead of `signatures` at the first call: all classes of all batches, each described by
            its own indicator.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples; see :meth:`fit`.

        Returns
        -------
        self
            The method, unchanged after an error.
        """
        self._validate_params()
        known = getattr(self, "statistics_", None)
        if known is None and hasattr(self, "_described"):
            warn_user(
                "fit keeps no statistics, so partial_fit starts again from this batch. To continue "
                "a model, call partial_fit from the first batch on."
            )
        if known is not None:
            _ = self._check_stream(X) if is_streamed(X) else self._check_features(X)
        fresh = self._fresh_copy()
        statistics = fresh._statistics_of(X, y, sample_weight)
        names = getattr(fresh if known is None else self, "feature_names_in_", None)
        table = self._table_with(signatures, classes, statistics.classes, first=known is None)
        total = statistics if known is None else known + statistics
        fresh._table_so_far = table
        if len(total.classes) < 2:
            fresh.statistics_ = total
            if names is not None:
                fresh.feature_names_in_ = names
        else:
            fresh._learn_from(total, table, names)
        return self._set_fitted(fresh)

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        # Without a name for the sums, `_learn` can free them.
        return cls._learn(training, training.sums, variants)

    def _statistics_of(self, X: Any, y: Any, sample_weight: Any) -> ClassStatistics:
        """Statistics of one batch, which may be read in blocks."""
        options = {"feature_norm": self.feature_norm, "factors": self._needs_factors()}
        if is_streamed(X):
            samples = stream_samples(X, y, sample_weight)
            self.n_features_in_ = samples.shape[1]
            statistics: ClassStatistics = samples.reduce(_block_statistics, options)
            return statistics
        X, labels = self._check_training(X, y)
        X, labels, weights = weighted_samples(X, labels, sample_weight)
        classes, codes = np.unique(label_array(labels, "y"), return_inverse=True)
        return ClassStatistics.of_rows(
            self._prepare(X), codes, classes, factors=self._needs_factors(), weights=weights
        )

    def _learn_from(
        self, statistics: ClassStatistics, signatures: Any, names: NDArray[Any] | None
    ) -> None:
        """Build the model from statistics."""
        if not np.isfinite(statistics.scatter).all():
            raise ValueError(
                "The sums of squares of the features are not finite. Divide the features of all "
                "batches by a large number."
            )
        no_rows = np.empty((0, statistics.n_features)), np.empty(0, dtype=np.intp)
        training = self._describe_training(signatures, statistics.classes, *no_rows, names)
        self._set_training_attributes(training)
        for _ in self._learn(training, statistics, [self]):
            self.statistics_ = statistics
            self._describe(training.table)

    def _table_with(
        self, signatures: Any, classes: Any, batch: NDArray[Any], *, first: bool
    ) -> SignatureTable:
        """Signatures known so far and those of this batch, which must cover its classes."""
        if first:
            if signatures is None and classes is not None:
                every = np.unique(label_array(classes, "classes"))
                missing = np.setdiff1d(batch, every)
                if missing.size:
                    raise ValueError(
                        f"classes does not contain {name_some(missing.tolist())} of y."
                    )
                return SignatureTable.from_user(None, every)
            return SignatureTable.from_user(signatures, batch)
        # Classes may have been added since the previous batch.
        table = self._signatures_so_far() if hasattr(self, "_described") else self._table_so_far
        if signatures is not None:
            # An array can only describe the classes of this batch.
            table = _join_tables(table, SignatureTable.read(signatures, batch))
        undescribed = np.setdiff1d(batch, table.labels).tolist()
        if undescribed:
            raise ValueError(
                f"{name_some(undescribed)} in y has no signature. Pass it with this batch, which "
                "was ignored."
            )
        return table

    def _signatures_so_far(self) -> SignatureTable:
        """Signatures of every class that has one."""
        return self._described.table


def _block_statistics(
    start: int, rows: Any, labels: Any, weights: Any, options: dict[str, Any]
) -> ClassStatistics | None:
    """Statistics of one block of a batch."""
    if not len(rows) or (weights is not None and not weights.any()):
        return None
    labels = check_block_labels(labels, len(rows))
    return ClassStatistics.from_samples(rows, labels, sample_weight=weights, **options)


def _join_tables(known: SignatureTable, new: SignatureTable) -> SignatureTable:
    """Union of two tables, in which common classes must have equal signatures."""
    new = new.with_labels_like(known.labels, "the earlier batches").aligned_with(known)
    again = np.isin(new.labels, known.labels)
    old = known.positions(new.labels[again])
    for ours, theirs in zip(known.arrays, new.arrays, strict=True):
        changed = (ours[old] != theirs[again]).any(axis=1)
        if changed.any():
            labels = new.labels[again][changed].tolist()
            raise ValueError(
                f"The signature of {name_some(labels)} differs from the one given earlier. Call "
                "fit to change a signature."
            )
    return DescribedTables((known, new.subset(np.flatnonzero(~again)))).table
