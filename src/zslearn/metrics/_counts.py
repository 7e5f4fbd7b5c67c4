"""Hits by class and rank: counts that add up over blocks of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats
from zslearn.metrics._accuracy import harmonic_mean
from zslearn.metrics._validation import check_pair, check_same_kind, check_same_length, unique


@dataclass(frozen=True, eq=False)
class HitCounts:
    """How many samples of each class there are, and at which rank their label was predicted.

    Counts of blocks add up to those of all samples, so that predictions need not lie in memory
    together for their exact accuracies.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Labels that occur, sorted.
    n_samples : ndarray of shape (n_classes,)
        Weight of the samples of each class; their number without weights.
    hits : ndarray of shape (n_classes, n_top)
        Weight of those whose label is the best prediction, the second best, and so on.

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
        """Count the hits of some predictions.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_top : array-like of shape (n_samples, n_top) or (n_samples,)
            Predicted labels, best first; or the best alone.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts.

        Returns
        -------
        HitCounts
            Of these samples.
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
        is_hit = predicted == true[:, None]
        hits = np.zeros((len(classes), predicted.shape[1]))
        for rank, at in enumerate(is_hit.T):
            part = None if weights is None else weights[at]
            hits[:, rank] = np.bincount(codes[at], part, minlength=len(classes))
        n_samples = np.bincount(codes, weights, minlength=len(classes)).astype(np.float64)
        return cls(classes, n_samples, hits)

    def __add__(self, other: object) -> HitCounts:
        if not isinstance(other, HitCounts):
            return NotImplemented
        if self.hits.shape[1] != other.hits.shape[1]:
            raise ValueError(
                f"Counts of the best {self.hits.shape[1]} and of the best {other.hits.shape[1]} "
                "predictions do not add up."
            )
        check_same_kind("one side", self.classes, "the other", other.classes)
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
            Only these; those without samples are left out. By default all that occur.

        Returns
        -------
        float
            NaN where none of the classes has a sample.
        """
        there = self.n_samples > 0
        if classes is not None:
            there &= self._among(classes)
        if not there.any():
            return float("nan")
        return float((self.hits[there, 0] / self.n_samples[there]).mean())

    def _among(self, labels: Any) -> NDArray[np.bool_]:
        wanted = set(np.asarray(labels).tolist())
        return np.asarray([label in wanted for label in self.classes.tolist()], dtype=bool)

    def per_sample_accuracy(self) -> float:
        """Share of samples whose best prediction is right."""
        return self.flat_hit_at_k(1)

    def flat_hit_at_k(self, k: int) -> float:
        """Share of samples whose label is among the first `k` predictions (F@K).

        Parameters
        ----------
        k : int
            No more than were counted.

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
            Which F@K.
        seen_classes : array-like of labels, optional
            In the generalized setting: adds the per-class accuracies "seen" and "unseen" and their
            "harmonic" mean, where there are samples of both.

        Returns
        -------
        dict of str to float
            "n_samples", "per_class_accuracy", "per_sample_accuracy" and "flat_hit_at_<k>".
        """
        found = {
            "n_samples": float(self.n_samples.sum()),
            "per_class_accuracy": self.per_class_accuracy(),
            "per_sample_accuracy": self.per_sample_accuracy(),
        }
        found |= {f"flat_hit_at_{at}": self.flat_hit_at_k(at) for at in k if at > 1}
        if seen_classes is not None:
            is_seen = self._among(seen_classes)
            if is_seen.any() and not is_seen.all():
                seen = self.per_class_accuracy(self.classes[is_seen])
                unseen = self.per_class_accuracy(self.classes[~is_seen])
                mean = harmonic_mean(seen, unseen)
                found |= {"seen": seen, "unseen": unseen, "harmonic": mean}
        return found

    def as_dict(self) -> dict[str, Any]:
        """The counts as lists, which JSON can hold."""
        return {
            "classes": self.classes.tolist(),
            "n_samples": self.n_samples.tolist(),
            "hits": self.hits.tolist(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`as_dict` gave.

        Parameters
        ----------
        content : mapping
            With the same keys.

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
