"""Measures on ImageNet's test sets, block by block: no more than a block of rows is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.metrics import hierarchical_precision_at_k
from zslearn.scoring import ClassScorer

FLAT_KS = (1, 2, 5, 10, 20)
HIERARCHICAL_KS = (2, 5, 10, 20)
# So many predictions wait until hierarchical precision is computed for all of them at once.
_WAITING = 100_000

#: Rows of features with the label of each.
Blocks = Iterable[tuple[NDArray[Any], NDArray[Any]]]


class SetMeasure:
    """Hits and precisions of one test set, whose classes are also the candidates.

    Parameters
    ----------
    classes : sequence of str
        The label space.
    hierarchy : DataFrame or None
        Child–parent pairs for hierarchical precision; None leaves it out.
    """

    def __init__(self, classes: Sequence[str], hierarchy: pd.DataFrame | None) -> None:
        self.classes = np.sort(np.asarray(classes))
        self.hierarchy = hierarchy
        self.flat_ks = [k for k in FLAT_KS if k <= len(self.classes)]
        self.deep_ks = [k for k in HIERARCHICAL_KS if k <= len(self.classes)]
        self.n_rows = 0
        self._hits = np.zeros(len(self.flat_ks))
        self._deep = np.zeros(len(self.deep_ks))
        self._right = np.zeros(len(self.classes))
        self._counts = np.zeros(len(self.classes))
        self._waiting: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._n_waiting = 0

    def add(self, scorer: ClassScorer, X: NDArray[Any], y: NDArray[Any]) -> None:
        """Count the rows of a block whose class is in the set."""
        inside = np.isin(y, self.classes)
        if not inside.any():
            return
        y = y[inside]
        n_top = max(*self.flat_ks, *self.deep_ks)
        top, _ = scorer.top_k(X[inside], n_top, self.classes)
        right = top == y[:, None]
        self.n_rows += len(y)
        self._hits += [right[:, :k].any(axis=1).sum() for k in self.flat_ks]
        place = np.searchsorted(self.classes, y)
        self._right += np.bincount(place, weights=right[:, 0], minlength=len(self.classes))
        self._counts += np.bincount(place, minlength=len(self.classes))
        if self.hierarchy is not None and self.deep_ks:
            self._waiting.append((y, top))
            self._n_waiting += len(y)
            if self._n_waiting >= _WAITING:
                self._flush()

    def _flush(self) -> None:
        if not self._waiting or self.hierarchy is None:
            return
        true = np.concatenate([y for y, _ in self._waiting])
        top = np.concatenate([t for _, t in self._waiting])
        precision = hierarchical_precision_at_k(
            true, top, self.deep_ks, hierarchy=self.hierarchy, classes=self.classes
        )
        self._deep += np.asarray(precision) * len(true)
        self._waiting, self._n_waiting = [], 0

    def metrics(self) -> dict[str, float]:
        """The measures of all rows that were counted.

        Returns
        -------
        dict
            By the names that records have.
        """
        if not self.n_rows:
            return {}
        self._flush()
        there = self._counts > 0
        found = {
            "per_class_accuracy": float((self._right[there] / self._counts[there]).mean()),
            "per_sample_accuracy": float(self._right.sum() / self.n_rows),
        }
        found |= {
            f"flat_hit_at_{k}": float(hits / self.n_rows)
            for k, hits in zip(self.flat_ks, self._hits, strict=True)
        }
        if self.hierarchy is not None:
            found |= {
                f"hierarchical_precision_at_{k}": float(total / self.n_rows)
                for k, total in zip(self.deep_ks, self._deep, strict=True)
            }
        return found

    def by_class(self) -> dict[str, float]:
        """Accuracy of each class of which there were rows."""
        there = np.flatnonzero(self._counts)
        share = self._right[there] / self._counts[there]
        return dict(zip(self.classes[there].tolist(), share.tolist(), strict=True))


def measure_sets(
    scorer: ClassScorer,
    blocks: Blocks,
    sets: Mapping[str, Sequence[str]],
    hierarchy: pd.DataFrame | None,
) -> dict[str, SetMeasure]:
    """Measure a method on several test sets in one pass over their rows.

    Parameters
    ----------
    scorer : ClassScorer
        Of the fitted method.
    blocks : iterable of (X, y)
        Rows of unseen classes.
    sets : mapping of str to sequence of str
        Classes of each test set.
    hierarchy : DataFrame or None
        Child–parent pairs for hierarchical precision.

    Returns
    -------
    dict
        Set → its measures.
    """
    measures = {name: SetMeasure(classes, hierarchy) for name, classes in sets.items()}
    for X, y in blocks:
        for measure in measures.values():
            measure.add(scorer, X, y)
    return measures
