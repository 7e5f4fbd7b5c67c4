"""Checks that the metrics share: labels, lists of classes, K, classes without samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import to_numpy
from zslearn._utils._messages import name_some

#: What to do with a class that has no sample.
Missing = Literal["error", "ignore", "zero"]


def check_labels(values: Any, name: str, *, ndim: int = 1) -> NDArray[Any]:
    """Labels as a NumPy array with `ndim` dimensions, at least one of them, none missing."""
    labels = to_numpy(values)
    if labels.dtype.kind in "US" and isinstance(values, (list, tuple)):
        # NumPy turns [1, "a"] into two strings; as objects labels stay what they are.
        labels = np.asarray(values, dtype=object)
    if labels.ndim != ndim:
        raise ValueError(
            f"{name} must be an array of labels with {ndim} dimension(s), got shape {labels.shape}."
        )
    if labels.size == 0:
        raise ValueError(f"{name} is empty: at least one label is needed.")
    if labels.dtype.kind in "fcOmM" and pd.isna(labels).any():
        raise ValueError(f"{name} holds a missing label (NaN or None).")
    return labels


def check_pair(
    y_true: ArrayLike, other: Any, name: str, *, ndim: int = 1
) -> tuple[NDArray[Any], NDArray[Any]]:
    """True labels and others, one entry per sample in either, that can be compared."""
    true, others = check_labels(y_true, "y_true"), check_labels(other, name, ndim=ndim)
    check_same_length(true, others, name)
    check_same_kind("y_true", true, name, others)
    return true, others


def check_classes(values: Any, name: str = "classes") -> NDArray[Any]:
    """Check a list of classes: labels, each of them once."""
    classes = check_labels(values, name)
    duplicated = label_index(classes).duplicated()
    if duplicated.any():
        raise ValueError(
            f"{name} holds a label more than once: {name_some(unique(classes[duplicated]))}."
        )
    return classes


def check_missing(missing: str) -> None:
    """Refuse an unknown way of treating classes without samples."""
    if missing not in get_args(Missing):
        raise ValueError(f"missing must be one of {get_args(Missing)}, got {missing!r}.")


def check_same_length(y_true: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Refuse an array that does not have one entry for each true label."""
    if len(y_true) != len(other):
        raise ValueError(
            f"y_true and {name} must have one entry per sample: got {len(y_true)} and {len(other)}."
        )


def check_same_kind(name_a: str, a: NDArray[Any], name_b: str, b: NDArray[Any]) -> None:
    """Refuse labels that can never be equal because only one side holds strings."""
    if _is_string(a).isdisjoint(_is_string(b)):
        raise ValueError(
            f"The labels of {name_a} and {name_b} cannot be compared: only one of them holds "
            f"strings (for example {a.flat[0]!r} and {b.flat[0]!r})."
        )


def _is_string(labels: NDArray[Any]) -> set[bool]:
    if labels.dtype.kind != "O":
        return {labels.dtype.kind in "US"}
    return {isinstance(label, str) for label in labels.flat}


def check_k(k: int | Sequence[int] | ArrayLike, *, upper: int | None = None) -> NDArray[np.intp]:
    """One or several K as an array, each a whole number from 1 up to `upper`."""
    values = np.atleast_1d(np.asarray(k, dtype=object))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"k must be a whole number or a non-empty sequence of them, got {k!r}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ValueError(f"k must be a whole number, got {value!r}.")
        if value < 1:
            raise ValueError(f"k must be at least 1, got {value}.")
        if upper is not None and value > upper:
            raise ValueError(f"k={value} needs as many columns in y_top, which has {upper}.")
    return values.astype(np.intp)


def label_index(labels: NDArray[Any]) -> pd.Index:
    """Labels as a pandas index: numbers as they are, everything else as Python objects."""
    return pd.Index(labels if labels.dtype.kind in "iuf" else labels.astype(object))


def positions(labels: NDArray[Any], classes: NDArray[Any] | pd.Index) -> NDArray[np.intp]:
    """Position of each label in `classes`, −1 where it is not among them."""
    index = classes if isinstance(classes, pd.Index) else label_index(classes)
    if labels.dtype.kind not in "iuf" or index.dtype == object:
        labels, index = labels.astype(object), index.astype(object)
    return index.get_indexer(pd.Index(labels, dtype=labels.dtype))


def unique(labels: NDArray[Any]) -> NDArray[Any]:
    """Distinct labels, sorted where they can be sorted, else in order of appearance."""
    try:
        return np.unique(labels)
    except TypeError:
        return label_index(labels).unique().to_numpy()


def check_top(
    y_true: ArrayLike, y_top: Any, k: int | Sequence[int] | ArrayLike
) -> tuple[NDArray[Any], NDArray[np.intp], pd.Index, NDArray[np.intp]]:
    """True labels, K, the distinct predicted labels, and their codes of shape (n_samples, K)."""
    true, ranked = check_pair(y_true, y_top, "y_top", ndim=2)
    ks = check_k(k, upper=ranked.shape[1])
    # Column by column: strings become Python objects here, and n × K of them are many.
    columns = list(ranked[:, : ks.max()].T)
    distinct = label_index(columns[0]).unique()
    for column in columns[1:]:
        distinct = distinct.append(label_index(column).unique()).unique()
    codes = np.column_stack([positions(column, distinct) for column in columns])
    in_order = np.sort(codes, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]).any(axis=1)
    if repeated.any():
        raise ValueError(
            f"y_top must hold different labels in a row: row {np.flatnonzero(repeated)[0]} "
            "holds one of them twice."
        )
    return true, ks, distinct, codes


def check_known(
    labels: NDArray[Any], classes: NDArray[Any], name: str = "y_true"
) -> NDArray[np.intp]:
    """Position of each label in `classes`; an error naming those that are not among them."""
    code = positions(labels, classes)
    if (code < 0).any():
        raise ValueError(
            f"{name} holds labels that are not in classes: {name_some(unique(labels[code < 0]))}."
        )
    return code


def check_present(counts: NDArray[Any], classes: NDArray[Any], missing: str) -> NDArray[np.bool_]:
    """Which classes have a sample; an error where `missing="error"` and one has none."""
    present = np.asarray(counts > 0)
    if missing == "error" and not present.all():
        raise ValueError(
            f"These classes have no sample in y_true: {name_some(classes[~present])}. "
            'Pass missing="ignore" to leave them out of the mean, or missing="zero" to count '
            "their accuracy as 0."
        )
    return present
