"""Signatures of some classes, and distances between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from zslearn.datasets import ZeroShotDataset
from zslearn.utils import Floats, unit_rows


def of_classes(signatures: Any, classes: Sequence[Any]) -> Any:
    """Signatures of some classes, of one kind or of several."""
    views = getattr(signatures, "views", None)
    if views is None:
        return signatures.loc[list(classes)]
    kept = {name: view.loc[list(classes)] for name, view in views.items()}
    return type(signatures)(kept, signatures.weights, signatures.gamma_factors)


def class_distances(rows: ArrayLike) -> Floats:
    """Euclidean distances between rows, one per class."""
    found = np.asarray(rows, dtype=np.float64)
    return cdist(found, found)


def signature_distances(
    signatures: Any, classes: Sequence[Any], others: Sequence[Any] | None = None
) -> Floats:
    """Distances between signatures of unit norm.

    Parameters
    ----------
    signatures : DataFrame or MultiSignatures
        One row per class. Of several kinds the distance is the root of the weighted mean of
        squares.
    classes, others : sequence
        Labels of rows and columns; without `others` those of `classes` twice.

    Returns
    -------
    ndarray of shape (n_classes, n_others)
    """
    others = classes if others is None else others
    views = getattr(signatures, "views", None)
    if views is None:
        sides = [
            unit_rows(signatures.loc[list(side)].to_numpy(dtype=np.float64))
            for side in (classes, others)
        ]
        return np.asarray(cdist(*sides), dtype=np.float64)
    squares = [
        signatures.weights[name] * signature_distances(view, classes, others) ** 2
        for name, view in views.items()
    ]
    return np.sqrt(np.sum(squares, axis=0))


def nearest_seen(data: ZeroShotDataset) -> pd.DataFrame:
    """Of each unseen class the nearest seen one by signatures, and its distance.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.

    Returns
    -------
    DataFrame
        Index: the unseen classes; columns `distance` and `nearest`.
    """
    unseen, seen = data.unseen_classes.tolist(), data.seen_classes.tolist()
    distances = signature_distances(data.signatures, unseen, seen)
    nearest = distances.argmin(axis=1)
    return pd.DataFrame(
        {
            "distance": distances[np.arange(len(unseen)), nearest],
            "nearest": [seen[i] for i in nearest],
        },
        index=pd.Index(unseen, dtype=object),
    )
