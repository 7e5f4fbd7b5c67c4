"""Signatures of some classes as rows of unit length, for the pictures that compare classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.metrics._validation import check_classes, check_same_kind, positions, unique
from zslearn.utils import Floats, name_some, to_numpy, unit_rows


def signature_rows(signatures: Any, classes: NDArray[Any]) -> Floats:
    """Signatures of `classes`, each divided by its length.

    Several views of a class stand side by side, each of unit length times the square root of its
    weight, so that squared distances are the weighted sum of the views'.

    Parameters
    ----------
    signatures : DataFrame, mapping or MultiSignatures
        What `fit` takes: one row or vector per class, with its label.
    classes : ndarray of shape (n_classes,)
        Labels of the wanted rows.

    Returns
    -------
    ndarray of shape (n_classes, n_attributes)
    """
    views = getattr(signatures, "views", None)
    if views is None:
        return _view_rows(signatures, classes)
    return np.hstack(
        [
            np.sqrt(signatures.weights[name]) * _view_rows(view, classes)
            for name, view in views.items()
        ]
    )


def _view_rows(view: Any, classes: NDArray[Any]) -> Floats:
    described, values = _labels_and_values(view)
    labels = check_classes(described, "signatures")
    check_same_kind("signatures", labels, "classes", classes)
    where = positions(classes, labels)
    if (where < 0).any():
        raise ValueError(
            f"signatures do not describe these classes: {name_some(unique(classes[where < 0]))}. "
            "Add a row for each."
        )
    try:
        rows = np.asarray([values[position] for position in where], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"signatures must be vectors of numbers of one length: {error}.") from None
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"signatures hold NaN or infinity for {name_some(classes[bad])}.")
    return unit_rows(rows)


def _labels_and_values(view: Any) -> tuple[list[Any], Any]:
    """Labels and one vector for each, of a frame of pandas or polars or of a mapping."""
    if isinstance(view, Mapping):
        return list(view), [to_numpy(vector) for vector in view.values()]
    if hasattr(view, "index") and hasattr(view, "to_numpy"):
        return view.index.tolist(), view.to_numpy()
    if "class" in getattr(view, "columns", ()):
        return view["class"].to_list(), view.drop("class").to_numpy()
    raise ValueError(
        "signatures must say which class each row describes: give a DataFrame whose index holds "
        "the labels, or a mapping label → vector."
    )
