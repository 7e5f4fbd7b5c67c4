"""Binary signatures: which attributes a class has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._messages import name_some
from zslearn.signatures._table import LABEL_COLUMN, as_frame, is_polars
from zslearn.signatures._views import MultiSignatures

BinaryKind = Literal["zero-one", "signs"]

# Two numbers of a row that differ by less than this share of the largest are one value; so are two
# numbers of a column, beside its mean.
_SAME = 1e-9


def binarize_signatures(
    signatures: Any, *, threshold: Literal["mean"] | float | ArrayLike = "mean", classes: Any = None
) -> Any:
    """Say of each class which attributes it has: 1 above a threshold, 0 elsewhere.

    Parameters
    ----------
    signatures : DataFrame, mapping, array of shape (n_classes, n_attributes) or MultiSignatures
        One row per class; a polars frame has the labels in its column "class". What is 0 and 1
        already comes back as it is. Of several views each is treated by itself.
    threshold : "mean", float or array-like of shape (n_attributes,), default="mean"
        "mean" is the mean of each attribute over `classes`; or one number for all attributes, or
        one a piece, by name where it is a Series and the attributes have names. An attribute counts
        as present where it is strictly above, by more than rounding for "mean".
    classes : array-like of labels, optional
        The classes that the mean is taken over, by label; by position in an array. Name the seen
        classes here, so that the description of an unseen class changes no other. By default all.

    Returns
    -------
    DataFrame, dict, ndarray or MultiSignatures
        As `signatures`, with the same labels and attribute names; 0 and 1 of type int8.

    See Also
    --------
    zslearn.baselines.DAP : Predicts binary attributes.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import binarize_signatures
    >>> strength = pd.DataFrame(
    ...     {"stripes": [80, 5, 10], "tail": [60, 70, 0]}, index=["zebra", "dog", "seal"]
    ... )
    >>> binarize_signatures(strength)
           stripes  tail
    zebra        1     1
    dog          0     1
    seal         0     0
    """
    if isinstance(signatures, MultiSignatures):
        views = {
            name: binarize_signatures(view, threshold=threshold, classes=classes)
            for name, view in signatures.views.items()
        }
        return MultiSignatures(views, signatures.weights, signatures.gamma_factors)
    positions = None if isinstance(signatures, Mapping) else np.arange(len(signatures))
    frame, columns = as_frame(signatures, positions, "signatures")
    rows = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if 0 in rows.shape:
        raise ValueError(f"signatures must have one row per class; got shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError("signatures contain NaN or infinity. Fill in the missing values first.")
    if isinstance(threshold, pd.Series) and columns is not None:
        threshold = _by_name(threshold, frame.columns)
    chosen = rows if classes is None else rows[_positions(classes, frame.index)]
    binary = pd.DataFrame(_above(rows, threshold, chosen), frame.index, frame.columns)
    if isinstance(signatures, pd.DataFrame):
        return binary
    if isinstance(signatures, Mapping):
        is_series = isinstance(next(iter(signatures.values())), pd.Series)
        vectors = [binary.iloc[i] if is_series else row for i, row in enumerate(binary.to_numpy())]
        return dict(zip(signatures, vectors, strict=True))
    if is_polars(signatures):
        found = {name: binary[name].to_numpy() for name in binary}
        found[LABEL_COLUMN] = signatures[LABEL_COLUMN]
        return type(signatures)(found).select(signatures.columns)
    return binary.to_numpy()


def binary_rows(rows: NDArray[np.float64], kind: BinaryKind) -> NDArray[np.bool_]:
    """Which rows are binary, whatever positive number each was divided by."""
    size = np.abs(rows)
    top = size.max(axis=1, keepdims=True)
    full = np.abs(size - top) <= _SAME * top
    if kind == "signs":
        return full.all(axis=1) & (top[:, 0] > 0)
    return (full & (rows >= 0) | (size <= _SAME * top)).all(axis=1)


def without_noise(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Binary rows with 0 for what :func:`binary_rows` counts as 0."""
    size = np.abs(rows)
    return np.where(size <= _SAME * size.max(axis=1, keepdims=True), 0.0, rows)


def mean_levels(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the columns, raised so far that rounding lifts no equal value above them."""
    return rows.mean(axis=0) + _SAME * np.abs(rows).max(axis=0)


def binary_kind(rows: NDArray[np.float64]) -> BinaryKind | None:
    """How all rows are binary, or None where they are not; see :func:`binary_rows`."""
    for kind in get_args(BinaryKind):
        if binary_rows(rows, kind).all():
            return kind
    return None


def refuse_mixed_signatures(
    signatures: NDArray[np.float64], kind: BinaryKind | None, labels: NDArray[Any], method: str
) -> None:
    """Refuse classes that are not binary where the seen classes are.

    Beside binary classes any strength above 0 would count as having the attribute.
    """
    if kind is None:
        return
    mixed = ~binary_rows(signatures, kind)
    if mixed.any():
        raise ValueError(
            "The seen classes have binary signatures, but these classes do not: "
            f"{name_some(labels[mixed].tolist())}. {method} needs all of them binary, or none: "
            "make them so with zslearn.signatures.binarize_signatures."
        )


def _above(
    rows: NDArray[np.float64], threshold: Any, chosen: NDArray[np.float64]
) -> NDArray[np.int8]:
    if isinstance(threshold, str):
        if threshold != "mean":
            raise ValueError(f'threshold must be "mean", a number or an array; got {threshold!r}.')
        if np.isin(rows, (0, 1)).all():
            return rows.astype(np.int8)
        levels = mean_levels(chosen)
    else:
        levels = np.asarray(threshold, dtype=np.float64)
        if levels.shape not in {(), (rows.shape[1],)} or not np.isfinite(levels).all():
            raise ValueError(
                f"threshold must be one finite number, or one for each of the {rows.shape[1]} "
                f"attributes; got {'a number' if not levels.shape else levels.shape}."
            )
    return (rows > levels).astype(np.int8)


def _by_name(threshold: pd.Series, names: pd.Index) -> NDArray[Any]:
    """Thresholds in the order of the attributes."""
    unknown = [name for name in names if name not in threshold.index]
    if unknown or len(threshold) != len(names) or not threshold.index.is_unique:
        has = f"it lacks {name_some(unknown)}" if unknown else f"it has {len(threshold)} entries"
        raise ValueError(f"threshold must name each of the {len(names)} attributes once; {has}.")
    return threshold.loc[list(names)].to_numpy()


def _positions(classes: Any, labels: Any) -> NDArray[np.intp]:
    where = {label: i for i, label in enumerate(labels)}
    wanted = np.asarray(classes).tolist()
    unknown = [label for label in wanted if label not in where]
    if unknown:
        raise ValueError(f"classes names what signatures do not describe: {name_some(unknown)}.")
    if not wanted:
        raise ValueError("classes is empty: name at least one, or leave it out.")
    return np.asarray([where[label] for label in wanted], dtype=np.intp)
