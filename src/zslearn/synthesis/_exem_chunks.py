"""Learning from chunks of samples: only their statistics are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from zslearn.base import (
    ZeroShotClassifier,
    check_block_labels,
    is_streamed,
    stream_samples,
    weighted_samples,
)
from zslearn.signatures import SignatureTable, label_array
from zslearn.synthesis._statistics import ClassStatistics
from zslearn.utils import name_some, warn_user

if TYPE_CHECKING:
    from zslearn.synthesis._exem import EXEM


def _keeps_no_samples(model: EXEM) -> bool:
    if model.estimator is not None:
        raise AttributeError(
            "Statistics of samples are not enough with "
            f"estimator={type(model.estimator).__name__}(…), which learns from the samples: call "
            "fit with all of them, or leave estimator out."
        )
    if getattr(model, "whiten", None) is not None:
        raise AttributeError(
            f"Statistics of samples are not enough with whiten={model.whiten}, after which the "
            "samples are brought to unit norm one by one: call fit with all of them, or leave "
            "whiten out. GaussianEXEM whitens and learns from statistics."
        )
    return True


class LearnsFromChunks(ZeroShotClassifier):
    """What EXEM does with statistics in the place of samples.

    A subclass defines `_learn(training, statistics, variants)`.
    """

    estimator: Any
    distance: str
    n_components: int | None
    statistics_: ClassStatistics

    @available_if(_keeps_no_samples)
    def fit_statistics(self, statistics: ClassStatistics, *, signatures: Any = None) -> Self:
        """Learn from the statistics of samples instead of the samples.

        Parameters
        ----------
        statistics : ClassStatistics
            Of features prepared by this model's `feature_norm`. For distance="standardized" with a
            projection they must have been taken with `factors=True`.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            See :meth:`fit`.

        Returns
        -------
        self
            The fitted method; the same as `fit` gives on the samples.
        """
        self._validate_params()
        with self._anew() as fresh:
            fresh._learn_from(statistics, signatures, None)
        return self

    @available_if(_keeps_no_samples)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from one more chunk of samples; only their statistics are kept.

        The model is made anew from all chunks at every call. For many chunks it is cheaper to add
        up :class:`ClassStatistics` and to call :meth:`fit_statistics` once. What `fit` learned is
        not gone on with, as it keeps no statistics; a warning says so.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features; also a :class:`~zslearn.datasets.FeatureBlocks` or a dask array.
        y : array-like of shape (n_samples,)
            Class labels, of one class or more. There is a model once two classes have been seen.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; needed at the first call, later only for classes that have
            not been described yet.
        classes : array-like of labels, optional
            In place of `signatures` at the first call: every class there will be, each described by
            its own indicator.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts; see :meth:`fit`.

        Returns
        -------
        self
            The method. After an error it is as it was.
        """
        self._validate_params()
        known = getattr(self, "statistics_", None)
        if known is None and hasattr(self, "_described"):
            warn_user(
                "fit kept no statistics that a chunk could be added to: the model begins anew with "
                "this one. Begin with partial_fit to go on with it."
            )
        if known is not None:
            _ = self._check_stream(X) if is_streamed(X) else self._check_features(X)
        with self._anew() as fresh:
            statistics = fresh._chunk_statistics(X, y, sample_weight)
            names = getattr(fresh if known is None else self, "feature_names_in_", None)
            chunk = statistics.classes
            table = self._chunk_signatures(signatures, classes, chunk, first=known is None)
            total = statistics if known is None else known + statistics
            fresh._chunk_table = table
            if len(total.classes) < 2:
                fresh.statistics_ = total
                if names is not None:
                    fresh.feature_names_in_ = names
            else:
                fresh._learn_from(total, table.as_user(), names)
        return self

    def _chunk_statistics(self, X: Any, y: Any, sample_weight: Any) -> ClassStatistics:
        """Statistics of the samples of one chunk, which may itself come in blocks."""
        factors = self.distance == "standardized" and self.n_components is not None
        if is_streamed(X):
            samples = stream_samples(X, y, sample_weight)
            self.n_features_in_ = samples.shape[1]
            found: ClassStatistics = samples.reduce(_block_statistics, (self.feature_norm, factors))
            return found
        X, labels = self._check_training(X, y)
        X, labels, weights = weighted_samples(X, labels, sample_weight)
        classes, codes = np.unique(label_array(labels, "y"), return_inverse=True)
        return ClassStatistics.of_prepared(
            self._prepare(X), codes, classes, factors=factors, weights=weights
        )

    def _learn_from(
        self, statistics: ClassStatistics, signatures: Any, names: NDArray[Any] | None
    ) -> None:
        """Make the model from statistics."""
        no_rows = np.empty((0, statistics.n_features)), np.empty(0, dtype=np.intp)
        training = self._describe_training(signatures, statistics.classes, *no_rows, names)
        self._begin_with(training)
        for _ in self._learn(training, statistics, [self]):
            self.statistics_ = statistics
            self._describe(training.table)

    def _chunk_signatures(
        self, signatures: Any, classes: Any, chunk: NDArray[Any], *, first: bool
    ) -> SignatureTable:
        """All signatures so far and those given with this chunk; each class of it must be there."""
        if first:
            if signatures is None and classes is not None:
                every = np.unique(label_array(classes, "classes"))
                missing = np.setdiff1d(chunk, every)
                if missing.size:
                    raise ValueError(f"classes does not name {name_some(missing.tolist())} of y.")
                return SignatureTable.from_user(None, every)
            return SignatureTable.from_user(signatures, chunk)
        # Classes may have been added since the chunk before.
        table = self._described.table if hasattr(self, "_described") else self._chunk_table
        if signatures is not None:
            # An array can only describe the classes of this chunk.
            table = _joined(table, SignatureTable.read(signatures, chunk))
        described = set(table.labels.tolist())
        undescribed = [label for label in chunk.tolist() if label not in described]
        if undescribed:
            raise ValueError(
                f"No signature describes {name_some(undescribed)} of y: give it with this chunk. "
                "Nothing of the chunk was taken in."
            )
        return table


def _block_statistics(
    start: int, rows: Any, labels: Any, weights: Any, shared: Any
) -> ClassStatistics | None:
    """Statistics of one block of a chunk."""
    feature_norm, factors = shared
    if not len(rows) or (weights is not None and not weights.any()):
        return None
    return ClassStatistics.from_samples(
        rows,
        check_block_labels(labels, len(rows)),
        feature_norm=feature_norm,
        factors=factors,
        sample_weight=weights,
    )


def _joined(known: SignatureTable, new: SignatureTable) -> SignatureTable:
    """Earlier signatures and later ones; a class in both must be described alike."""
    new = new.with_labels_like(known.labels, "the chunks before").aligned_with(known)
    described = set(known.labels.tolist())
    again = np.asarray([label in described for label in new.labels.tolist()], dtype=bool)
    old = known.positions(new.labels[again])
    for ours, theirs in zip(known.arrays, new.arrays, strict=True):
        changed = (ours[old] != theirs[again]).any(axis=1)
        if changed.any():
            labels = new.labels[again][changed].tolist()
            raise ValueError(
                f"The signature of {name_some(labels)} is not the one given before: fit again to "
                "change a signature."
            )
    return known.union(new.subset(np.flatnonzero(~again)))
