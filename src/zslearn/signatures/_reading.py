"""Labels and rows of signatures, whatever a user gave them as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.signatures._views import MultiSignatures
from zslearn.utils import Floats, is_foreign, name_some, refuse_twins, suggest, to_numpy, warn_user

#: The column of a polars frame, which has no index, that holds the class labels.
LABEL_COLUMN = "class"


def label_array(values: Iterable[Any], where: str) -> NDArray[Any]:
    """Class labels as an array of one kind: str, bool, or numbers.

    Parameters
    ----------
    values : iterable
        The labels.
    where : str
        What they belong to, for the error message.

    Returns
    -------
    ndarray of shape (n_labels,)
        The labels; integers stay integers.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biufU":
        return values
    items = [v.item() if isinstance(v, np.generic) else v for v in values]
    kinds = {bool if isinstance(v, bool) else type(v) for v in items}
    if kinds <= {str}:
        return np.asarray(items, dtype=str)
    if kinds in ({bool}, {int}, {float}, {int, float}):
        return np.asarray(items)
    names = sorted(kind.__name__ for kind in kinds)
    raise ValueError(
        f"The class labels of {where} must be all strings, all numbers or all booleans; "
        f"found {', '.join(names)}."
    )


def label_kind(labels: NDArray[Any]) -> str:
    """Return "boolean", "number" or "string": labels of different kinds are never equal."""
    if labels.dtype.kind == "b":
        return "boolean"
    return "number" if labels.dtype.kind in "iuf" else "string"


def labels_in_order(signatures: Any) -> NDArray[Any]:
    """Labels of signatures that a user gave, in the order of their rows."""
    if isinstance(signatures, MultiSignatures):
        signatures = next(iter(signatures.views.values()))
    return labels_and_rows(signatures, None, "signatures")[0]


def labels_and_rows(
    signatures: Any, seen: NDArray[Any] | None, where: str
) -> tuple[NDArray[Any], Any, tuple[str, ...] | None]:
    """Labels, rows and attribute names of one view, whatever it came as."""
    if isinstance(signatures, pd.DataFrame):
        columns = _unique_columns(signatures.columns, where)
        return label_array(signatures.index, where), signatures, columns
    if isinstance(signatures, Mapping):
        if not signatures:
            raise ValueError(f"{where} is empty: describe at least the classes in y.")
        rows = list(signatures.values())
        if all(isinstance(row, pd.Series) for row in rows):
            columns = _unique_columns(rows[0].index, where)
            for label, row in signatures.items():
                if len(row) != len(rows[0]) or set(row.index) != set(columns):
                    raise ValueError(
                        f"The signature of {label!r} in {where} does not have the attributes of "
                        f"{next(iter(signatures))!r}: all Series must have one index."
                    )
            rows = [row.reindex(columns).to_numpy() for row in rows]
            return label_array(signatures, where), rows, columns
        return label_array(signatures, where), rows, None
    if type(signatures).__module__.partition(".")[0] == "polars":
        if LABEL_COLUMN not in getattr(signatures, "columns", ()):
            raise ValueError(
                f"{where} is a polars frame, which has no index: put the class labels into a "
                f"column named {LABEL_COLUMN!r}."
                f"{_class_column(getattr(signatures, 'columns', ()))}"
            )
        rest = signatures.drop(LABEL_COLUMN)
        labels = label_array(signatures[LABEL_COLUMN].to_list(), where)
        return labels, pd.DataFrame(rest.to_dict(as_series=False)), tuple(rest.columns)
    if seen is None:
        raise ValueError(
            f"{where} must say which class each row describes: give a DataFrame whose index "
            "holds the labels, or a mapping label → vector."
        )
    array = to_numpy(signatures) if is_foreign(signatures) else np.asarray(signatures)
    if array.ndim != 2:
        raise ValueError(f"{where} must have one row per class; got an array of {array.ndim} axes.")
    if len(array) != len(seen):
        if array.shape[1] == len(seen):
            raise ValueError(
                f"{where} looks transposed: it has {len(array)} rows and {len(seen)} columns, and "
                f"y has samples of {len(seen)} classes; give signatures.T."
            )
        raise ValueError(
            f"{where} is an array of {len(array)} rows, but y has samples of {len(seen)} classes. "
            "Rows of an array follow np.unique(y); to describe classes without samples give a "
            "DataFrame whose index holds the labels."
        )
    return seen, array, None


def sorted_without_duplicates(labels: NDArray[Any], where: str) -> NDArray[np.intp]:
    """The order of labels, none of which may occur twice, nor in two Unicode forms."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if twice.size:
        raise ValueError(
            f"{where} describes a class more than once: {name_some(twice.tolist())}. "
            "Keep one row per class."
        )
    if labels.dtype.kind == "U":
        refuse_twins(labels.tolist(), where)
    return order


def checked_rows(rows: Any, labels: NDArray[Any], where: str) -> Floats:
    """Rows as a finite float64 array; errors name the class."""
    if isinstance(rows, pd.DataFrame):
        not_numbers = [
            str(name)
            for name, dtype in rows.dtypes.items()
            if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))
        ]
        if not_numbers:
            raise ValueError(
                f"{where} has columns that are not numbers: {name_some(not_numbers)}. "
                "Drop them, or move the labels into the index."
            )
        array = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(rows, list):
        vectors = [
            _vector(row, label, where) for label, row in zip(labels.tolist(), rows, strict=True)
        ]
        width = vectors[0].shape
        for label, vector in zip(labels.tolist(), vectors, strict=True):
            if vector.ndim != 1 or vector.shape != width:
                raise ValueError(
                    f"The signature of {label!r} has shape {vector.shape}, "
                    f"that of {labels.tolist()[0]!r} {width}: all must be vectors of one length."
                )
        array = np.stack(vectors)
    else:
        try:
            array = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where} must be numbers: {error}.") from None
    if array.shape[1] == 0:
        raise ValueError(f"{where} has no attributes: each class needs at least one number.")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{where} contains NaN or infinity for {name_some(labels[bad].tolist())}. "
            "Fill in the missing values or leave the class out."
        )
    zero = ~array.any(axis=1)
    if zero.any():
        warn_user(
            f"The signature of {name_some(labels[zero].tolist())} in {where} is all zeros: "
            "nothing is known of such a class."
        )
    return array


def _vector(row: Any, label: Any, where: str) -> Floats:
    try:
        return np.asarray(to_numpy(row), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"The signature of {label!r} in {where} must hold numbers.") from None


def _class_column(columns: Iterable[str]) -> str:
    """Name the column that perhaps holds the labels."""
    near = suggest(LABEL_COLUMN, columns)
    return f" It has a column {near[0]!r}: rename it." if near else ""


def _unique_columns(names: pd.Index, where: str) -> tuple[Any, ...]:
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(
            f"{where} has attributes of the same name: {name_some(twice.unique())}. Name each once."
        )
    return tuple(names)
