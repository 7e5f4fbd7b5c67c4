"""Confusions among classes as data: counts, shares, worst pairs, order and examples."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.metrics._class_signatures import signature_rows
from zslearn.metrics._validation import positions, unique
from zslearn.utils import Floats

# The best order of the leaves takes time that grows with the cube of the number of classes.
_MOST_ORDERED = 500


class ConfusedPair(NamedTuple):
    """Samples of one class that were taken for another.

    Attributes
    ----------
    true : label
        Their class.
    predicted : label
        The class that they were taken for.
    share : float
        The share of the samples of the class `true` that were.
    n_confused : int
        How many were.
    n_samples : int
        How many samples the class `true` has.
    """

    true: Any
    predicted: Any
    share: float
    n_confused: int
    n_samples: int


def count_confusions(
    rows: NDArray[np.intp], columns: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number of samples by true and predicted class, and of those taken for any other class.

    Parameters
    ----------
    rows, columns : ndarray of shape (n_samples,)
        Positions of the true and the predicted class; −1 for a predicted class that has none.
    n_classes : int
        Number of classes.

    Returns
    -------
    counts : ndarray of shape (n_classes, n_classes)
    n_other : ndarray of shape (n_classes,)
    """
    # Position −1 becomes the last column.
    cells = rows * (n_classes + 1) + np.where(columns < 0, n_classes, columns)
    counts = np.bincount(cells, minlength=n_classes * (n_classes + 1))
    counts = counts.reshape(n_classes, n_classes + 1)
    return counts[:, :-1], counts[:, -1]


def shares_of_classes(counts: NDArray[Any], n_samples: NDArray[Any]) -> Floats:
    """Each row divided by its number of samples; NaN for a class without a sample."""
    n_samples = n_samples[:, None]
    return np.where(n_samples > 0, counts / np.maximum(n_samples, 1), np.nan)


def find_worst_pairs(
    counts: NDArray[Any], n_samples: NDArray[Any], classes: NDArray[Any], n_pairs: int
) -> list[ConfusedPair]:
    """Pairs with the largest shares; see `UnseenConfusionDisplay.worst_pairs`."""
    confused = np.where(np.eye(len(classes), dtype=bool), 0, counts)
    shares = shares_of_classes(counts, n_samples)
    rows, columns = np.nonzero(confused)
    worst = np.lexsort((columns, rows, -confused[rows, columns], -shares[rows, columns]))[:n_pairs]
    labels = classes.tolist()
    return [
        ConfusedPair(
            labels[i], labels[j], float(shares[i, j]), int(confused[i, j]), int(n_samples[i])
        )
        for i, j in zip(rows[worst], columns[worst], strict=True)
    ]


def order_classes(
    classes: NDArray[Any], signatures: Any, order: Literal["similarity", "name"] | None
) -> NDArray[np.intp]:
    """Positions of the classes in the order of the picture."""
    if order not in ("similarity", "name", None):
        raise ValueError(f'order must be "similarity", "name" or None, got {order!r}.')
    if order == "similarity" and signatures is None:
        raise ValueError('order="similarity" needs signatures=.')
    by_name = positions(unique(classes), classes)
    if signatures is None or order == "name" or len(classes) < 3:
        return by_name
    # Imported here because it takes long.
    from scipy.cluster.hierarchy import leaves_list, linkage

    # Starting from the order of names, equal signatures stay in it.
    rows = signature_rows(signatures, classes[by_name])
    tree = linkage(rows, method="average", optimal_ordering=len(classes) <= _MOST_ORDERED)
    return by_name[leaves_list(tree)]


def pick_examples(
    pairs: list[ConfusedPair],
    classes: NDArray[Any],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    images: Any,
    n_examples: int,
) -> dict[tuple[Any, Any], list[Any]]:
    """Images of the worst pairs, and one of each class that was predicted wrongly there."""
    examples: dict[tuple[Any, Any], list[Any]] = {}
    labels = classes.tolist()
    for pair in pairs:
        true, predicted = labels.index(pair.true), labels.index(pair.predicted)
        found = np.flatnonzero((rows == true) & (columns == predicted))
        spread = np.linspace(0, len(found) - 1, min(n_examples, len(found))).round().astype(int)
        examples[pair.true, pair.predicted] = [images[int(i)] for i in found[spread]]
        # Of the class that it was taken for one that was recognised, if there is any.
        own = np.flatnonzero(rows == predicted)
        right = own[columns[own] == predicted]
        typical = (right if len(right) else own)[:1]
        examples[pair.predicted, pair.predicted] = [images[int(i)] for i in typical]
    return examples
