"""Hits by class and rank, which can be summed over blocks of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats
from zslearn.metrics._accuracy import harmonic_mean
from zslearn.metrics._validation import (
    check_pair,
    check_same_kind,
    check_same_length,
    label_index,
    unique,
)


@dataclass(frozen=True, eq=False)
class HitCounts:
    """Number of samples of each class, and the ranks at which their labels were predicted.

    The sum of the counts of several blocks gives the exact accuracies of all samples, without all
    predictions in memory.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted labels of the samples.
    n_samples : ndarray of shape (n_classes,)
        Number, or total weight, of the samples of each class.
    hits : ndarray of shape (n_classes, n_top)
        Number, or weight, of the samples whose label is the best, second best, … prediction.

    Examples
    --------
    >>> from zslearn.metrics import HitCounts
    >>> first = HitCounts.of(["cat", "owl"], [["cat", "dog"], ["emu", "owl"]])
    >>> both = first + HitCounts.of(["cat"], [["dog", "cat"]])
    >>> both.flat_hit_at_k(1), both.flat_hit_at_k(2), both.per_class_accuracy()
    (0.3333333333333333, 1.0, 0.25)
    """

    classes: NDArray[Any]
    n_samples: Floats
    hits: Floats

    @classmethod
    def of(
        cls, y_true: ArrayLike, y_top: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Count the hits of predictions.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_top : array-like of shape (n_samples, n_top) or (n_samples,)
            Predicted labels, best first, or only the best.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        HitCounts
            The counts of these samples.
        """
        predicted = np.asarray(y_top)
        if predicted.ndim == 1:
            predicted = predicted[:, None]
        true, predicted = check_pair(y_true, predicted, "y_top", ndim=2)
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            check_same_length(true, weights, "sample_weight")
        classes = unique(true)
        codes = np.searchsorted(classes, true.astype(classes.dtype, copy=False))
        hits = np.zeros((len(classes), predicted.shape[1]))
        for rank, is_hit in enumerate((predicted == true[:, None]).T):
            hit_weights = None if weights is None else weights[is_hit]
            hits[:, rank] = np.bincount(codes[is_hit], hit_weights, minlength=len(classes))
        n_samples = np.bincount(codes, weights, minlength=len(classes)).astype(np.float64)
        return cls(classes, n_samples, hits)

    def __add__(self, other: object) -> HitCounts:
        if not isinstance(other, HitCounts):
            return NotImplemented
        if self.hits.shape[1] != other.hits.shape[1]:
            raise ValueError(
                f"Cannot add counts of the {self.hits.shape[1]} and of the {other.hits.shape[1]} "
                "best predictions."
            )
        check_same_kind("the first", self.classes, "the second counts", other.classes)
        classes = np.union1d(self.classes, other.classes)
        n_samples = np.zeros(len(classes))
        hits = np.zeros((len(classes), self.hits.shape[1]))
        for part in (self, other):
            rows = np.searchsorted(classes, part.classes)
            n_samples[rows] += part.n_samples
            hits[rows] += part.hits
        return HitCounts(classes, n_samples, hits)

    def per_class_accuracy(self, classes: Any = None) -> float:
        """Mean over classes of the share of samples whose best prediction is right.

        Parameters
        ----------
        classes : array-like of labels, optional
            Classes to average over, by default all; those without samples are ignored.

        Returns
        -------
        float
            NaN if none of the classes has a sample.
        """
        present = self.n_samples > 0
        if classes is not None:
            present &= self._is_among(classes)
        if not present.any():
            return float("nan")
        return float((self.hits[present, 0] / self.n_samples[present]).mean())

    def _is_among(self, labels: Any) -> NDArray[np.bool_]:
        """Whether each class is among some labels."""
        return label_index(self.classes).isin(np.asarray(labels).tolist())

    def per_sample_accuracy(self) -> float:
        """Share of samples whose best prediction is correct."""
        return self.flat_hit_at_k(1)

    def flat_hit_at_k(self, k: int) -> float:
        """Share of samples whose label is among the `k` best predictions (F@K).

        Parameters
        ----------
        k : int
            At most the number of predictions that were counted.

        Returns
        -------
        float
            Between 0 and 1.
        """
        if not 1 <= k <= self.hits.shape[1]:
            raise ValueError(f"k must be between 1 and {self.hits.shape[1]}, got {k}.")
        return float(self.hits[:, :k].sum() / self.n_samples.sum())

    def measure(self, k: Sequence[int] = (1,), seen_classes: Any = None) -> dict[str, float]:
        """All accuracies by name.

        Parameters
        ----------
        k : sequence of int, default=(1,)
            Values of K for F@K.
        seen_classes : array-like of labels, optional
            For the generalized setting: adds the per-class accuracies "seen" and "unseen" and their
            "harmonic" mean if there are samples of both.

        Returns
        -------
        dict of str to float
            "n_samples", "per_class_accuracy", "per_sample_accuracy" and "flat_hit_at_<k>".
        """
        accuracies = {
            "n_samples": float(self.n_samples.sum()),
            "per_class_accuracy": self.per_class_accuracy(),
            "per_sample_accuracy": self.per_sample_accuracy(),
        }
        accuracies |= {
            f"flat_hit_at_{n_top}": self.flat_hit_at_k(n_top) for n_top in k if n_top > 1
        }
        if seen_classes is not None:
            is_seen = self._is_among(seen_classes)
            if is_seen.any() and not is_seen.all():
                seen = self.per_class_accuracy(self.classes[is_seen])
                unseen = self.per_class_accuracy(self.classes[~is_seen])
                mean = harmonic_mean(seen, unseen)
                accuracies |= {"seen": seen, "unseen": unseen, "harmonic": mean}
        return accuracies

    def as_dict(self) -> dict[str, Any]:
        """The counts as lists, ready for JSON."""
        return {
            "classes": self.classes.tolist(),
            "n_samples": self.n_samples.tolist(),
            "hits": self.hits.tolist(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Restore counts from the result of :meth:`as_dict`.

        Parameters
        ----------
        content : mapping
            The result of `as_dict`.

        Returns
        -------
        HitCounts
            The same counts.
        """
        counts = cls(
            np.asarray(content["classes"]),
            np.asarray(content["n_samples"], dtype=np.float64),
            np.asarray(content["hits"], dtype=np.float64),
        )
        if not len(counts.classes) == len(counts.n_samples) == len(counts.hits):
            raise ValueError("Counts must have one row per class.")
        return counts
