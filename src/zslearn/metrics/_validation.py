"""Validation of labels, lists of classes and K, shared by all metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import to_numpy
from zslearn._utils._messages import name_some

#: How to treat a class without samples.
Missing = Literal["error", "ignore", "zero"]


def check_labels(values: Any, name: str, *, ndim: int = 1) -> NDArray[Any]:
    """Labels as a non-empty NumPy array with `ndim` dimensions and no missing values."""
    labels = to_numpy(values)
    if labels.dtype.kind in "US" and isinstance(values, (list, tuple)):
        # NumPy would turn [1, "a"] into two strings.
        labels = np.asarray(values, dtype=object)
    if labels.ndim != ndim:
        raise ValueError(
            f"{name} must be an array of labels with {ndim} dimension(s), got shape {labels.shape}."
        )
    if labels.size == 0:
        raise ValueError(f"{name} is empty: at least one label is needed.")
    if labels.dtype.kind in "fcOmM" and pd.isna(labels).any():
        raise ValueError(f"{name} contains a missing label (NaN or None).")
    return labels


def check_pair(
    y_true: ArrayLike, other: Any, name: str, *, ndim: int = 1
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Validate true labels and other labels of the same samples."""
    true, others = check_labels(y_true, "y_true"), check_labels(other, name, ndim=ndim)
    check_same_length(true, others, name)
    check_same_kind("y_true", true, name, others)
    return true, others


def check_classes(values: Any, name: str = "classes") -> NDArray[Any]:
    """Validate a list of distinct classes."""
    classes = check_labels(values, name)
    duplicated = label_index(classes).duplicated()
    if duplicated.any():
        raise ValueError(
            f"{name} contains duplicate labels: {name_some(unique(classes[duplicated]))}."
        )
    return classes


def check_missing(missing: str) -> None:
    """Raise an error for an unknown value of `missing`."""
    if missing not in get_args(Missing):
        raise ValueError(f"missing must be one of {get_args(Missing)}, got {missing!r}.")


def check_same_length(y_true: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Raise an error unless both arrays have one entry per sample."""
    if len(y_true) != len(other):
        raise ValueError(
            f"y_true and {name} must have one entry per sample: got {len(y_true)} and {len(other)}."
        )


def check_same_kind(name_a: str, a: NDArray[Any], name_b: str, b: NDArray[Any]) -> None:
    """Raise an error if only one of two arrays contains strings, so that no labels are equal."""
    if _are_strings(a).isdisjoint(_are_strings(b)):
        raise ValueError(
            f"The labels of {name_a} and {name_b} cannot be compared: only one of them contains "
            f"strings (for example {a.flat[0]!r} and {b.flat[0]!r})."
        )


def _are_strings(labels: NDArray[Any]) -> set[bool]:
    """Whether labels are strings: one answer, or both if the labels are mixed."""
    if labels.dtype.kind != "O":
        return {labels.dtype.kind in "US"}
    return {isinstance(label, str) for label in labels.flat}


def check_k(
    k: int | Sequence[int] | ArrayLike, name: str = "k", *, upper: int | None = None
) -> NDArray[np.intp]:
    """One or several positive integers as an array."""
    values = np.atleast_1d(np.asarray(k, dtype=object))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be an integer or a non-empty sequence of them, got {k!r}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ValueError(f"{name} must be an integer, got {value!r}.")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
        if upper is not None and value > upper:
            raise ValueError(f"{name}={value} needs as many columns in y_top, which has {upper}.")
    return values.astype(np.intp)


def label_index(labels: NDArray[Any]) -> pd.Index:
    """Labels as a pandas index, of Python objects unless they are numbers."""
    return pd.Index(labels if labels.dtype.kind in "iuf" else labels.astype(object))


def positions(labels: NDArray[Any], classes: NDArray[Any] | pd.Index) -> NDArray[np.intp]:
    """Position of each label in `classes`, or −1."""
    index = classes if isinstance(classes, pd.Index) else label_index(classes)
    if labels.dtype.kind not in "iuf" or index.dtype == object:
        labels, index = labels.astype(object), index.astype(object)
    return index.get_indexer(pd.Index(labels, dtype=labels.dtype))


def unique(labels: NDArray[Any]) -> NDArray[Any]:
    """Distinct labels, sorted if possible, otherwise in order of appearance."""
    try:
        return np.unique(labels)
    except TypeError:
        return label_index(labels).unique().to_numpy()


def check_top(
    y_true: ArrayLike, y_top: Any, k: int | Sequence[int] | ArrayLike
) -> tuple[NDArray[Any], NDArray[np.intp], pd.Index, NDArray[np.intp]]:
    """Validated true labels and K, the distinct predictions, and their codes (n_samples, K)."""
    true, ranked = check_pair(y_true, y_top, "y_top", ndim=2)
    ks = check_k(k, upper=ranked.shape[1])
    # One column at a time, because strings become Python objects here.
    columns = list(ranked[:, : ks.max()].T)
    distinct = label_index(columns[0]).unique()
    for column in columns[1:]:
        distinct = distinct.append(label_index(column).unique()).unique()
    codes = np.column_stack([positions(column, distinct) for column in columns])
    in_order = np.sort(codes, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]).any(axis=1)
    if repeated.any():
        raise ValueError(
            "The labels in a row of y_top must be distinct: row "
            f"{np.flatnonzero(repeated)[0]} contains one of them twice."
        )
    return true, ks, distinct, codes


def check_known(
    labels: NDArray[Any], classes: NDArray[Any], name: str = "y_true"
) -> NDArray[np.intp]:
    """Position of each label in `classes`; raises an error for unknown labels."""
    code = positions(labels, classes)
    if (code < 0).any():
        raise ValueError(
            f"{name} contains labels that are not in classes: "
            f"{name_some(unique(labels[code < 0]))}."
        )
    return code


def check_present(counts: NDArray[Any], classes: NDArray[Any], missing: str) -> NDArray[np.bool_]:
    """Whether each class has samples; raises an error if one has none and `missing="error"`."""
    present = np.asarray(counts > 0)
    if missing == "error" and not present.all():
        raise ValueError(
            f"These classes have no samples in y_true: {name_some(classes[~present])}. "
            'Pass missing="ignore" to exclude them from the mean, or missing="zero" to count '
            "their accuracy as 0."
        )
    return present
