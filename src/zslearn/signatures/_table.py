"""What a user gives as signatures, as one labelled table in the order of its labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.signatures._normalize import median_distance
from zslearn.signatures._views import MultiSignatures, SignatureViews
from zslearn.utils import InputWarning, is_foreign, name_some, to_numpy, unit_rows

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


@dataclass(frozen=True)
class SignatureTable:
    """Signatures as given: one row a class, sorted by label, one array a view.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        Sorted, without duplicates.
    arrays : tuple of ndarray of shape (n_classes, n_attributes of the view)
        Finite, float64.
    columns : tuple of (tuple of str or None)
        Names of the attributes of each view, where there are any.
    names : tuple of str
        Names of the views; one empty name when the user gave a single view.
    weights : tuple of float
        Convex weights of the views.
    """

    labels: NDArray[Any]
    arrays: tuple[NDArray[np.float64], ...]
    columns: tuple[tuple[str, ...] | None, ...]
    names: tuple[str, ...] = ("",)
    weights: tuple[float, ...] = (1.0,)

    @classmethod
    def from_user(cls, signatures: Any, seen: NDArray[Any]) -> SignatureTable:
        """Read what was given to `fit`; it must describe every class of `seen`.

        Parameters
        ----------
        signatures : None, DataFrame, mapping, array or MultiSignatures
            None describes each seen class by its own indicator; the rows of an array follow `seen`.
        seen : ndarray of shape (n_seen,)
            Sorted labels of the training data.

        Returns
        -------
        SignatureTable
            Rows for the seen classes and every further class.
        """
        if signatures is None:
            return cls(seen, (np.eye(len(seen)),), (None,))
        table = cls._read(signatures, seen)
        table._check_kind(seen, "y")
        known = set(table.labels.tolist())
        missing = [label for label in seen.tolist() if label not in known]
        if missing:
            raise ValueError(
                f"{len(missing)} of the {len(seen)} classes in y have no signature: "
                f"{name_some(missing)}. Add a row for each to signatures."
            )
        return table

    @classmethod
    def from_new(cls, signatures: Any, known: SignatureTable) -> SignatureTable:
        """Read what was given to `add_classes`: labelled rows that fit the table `known`.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            Classes that `known` does not describe, with the same attributes.
        known : SignatureTable
            What is described already.

        Returns
        -------
        SignatureTable
            The new rows alone, columns in the order of `known`.
        """
        table = cls._read(signatures, None)
        table._check_kind(known.labels, "the fitted classes")
        described = set(known.labels.tolist())
        again = [label for label in table.labels.tolist() if label in described]
        if again:
            raise ValueError(
                f"Already described: {name_some(again)}. add_classes takes new classes only; "
                "fit again to change a signature."
            )
        return table._aligned_with(known)

    @classmethod
    def _read(cls, signatures: Any, seen: NDArray[Any] | None) -> SignatureTable:
        if isinstance(signatures, MultiSignatures):
            return cls._read_views(signatures)
        where = "signatures"
        labels, rows, columns = _labels_and_rows(signatures, seen, where)
        order = _sorted_without_duplicates(labels, where)
        array = _checked_rows(rows, labels, where)
        return cls(labels[order], (array[order],), (columns,))

    @classmethod
    def _read_views(cls, signatures: MultiSignatures) -> SignatureTable:
        tables = {name: cls._read(view, None) for name, view in signatures.views.items()}
        first_name, first = next(iter(tables.items()))
        described = set(first.labels.tolist())
        for name, table in tables.items():
            odd = described ^ set(table.labels.tolist())
            if odd:
                raise ValueError(
                    f"The views {first_name!r} and {name!r} do not describe the same classes; "
                    f"only one of them has {name_some(sorted(odd))}."
                )
        return cls(
            first.labels,
            tuple(table.arrays[0] for table in tables.values()),
            tuple(table.columns[0] for table in tables.values()),
            tuple(tables),
            tuple(signatures.weights[name] for name in tables),
        )

    def _check_kind(self, labels: NDArray[Any], where: str) -> None:
        ours, theirs = label_kind(self.labels), label_kind(labels)
        if ours != theirs:
            raise ValueError(
                f"The labels of signatures are {ours}s, those of {where} are {theirs}s: "
                "they can never be equal. Use labels of one type."
            )

    def _aligned_with(self, known: SignatureTable) -> SignatureTable:
        if self.names != known.names:
            raise ValueError(
                f"The new signatures have the views {list(self.names)}; "
                f"fit saw {list(known.names)}."
            )
        arrays = []
        for array, columns, old, old_columns in zip(
            self.arrays, self.columns, known.arrays, known.columns, strict=True
        ):
            if array.shape[1] != old.shape[1]:
                raise ValueError(
                    f"The new signatures have {array.shape[1]} attributes; "
                    f"those given to fit have {old.shape[1]}."
                )
            if columns and old_columns and columns != old_columns:
                if set(columns) != set(old_columns):
                    odd = sorted(set(columns) ^ set(old_columns))
                    raise ValueError(
                        "The attributes of the new signatures are not those given to fit; "
                        f"they differ in {name_some(odd)}."
                    )
                array = array[:, [columns.index(name) for name in old_columns]]
            arrays.append(array)
        return replace(self, arrays=tuple(arrays), columns=known.columns, weights=known.weights)

    def union(self, other: SignatureTable) -> SignatureTable:
        """Both tables in one, sorted by label."""
        labels = np.concatenate([self.labels, other.labels])
        order = np.argsort(labels, kind="stable")
        arrays = tuple(
            np.concatenate([a, b])[order] for a, b in zip(self.arrays, other.arrays, strict=True)
        )
        return replace(self, labels=labels[order], arrays=arrays)

    def subset(self, rows: NDArray[np.intp]) -> SignatureTable:
        """Some rows of the table, given by ascending positions."""
        arrays = tuple(array[rows] for array in self.arrays)
        return replace(self, labels=self.labels[rows], arrays=arrays)

    def as_user(self) -> pd.DataFrame | MultiSignatures:
        """The table in the form that `fit` takes."""
        frames = [
            pd.DataFrame(array, index=self.labels, columns=columns)
            for array, columns in zip(self.arrays, self.columns, strict=True)
        ]
        if len(frames) == 1:
            return frames[0]
        return MultiSignatures(dict(zip(self.names, frames, strict=True)), self.weights)

    def positions(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Rows of the given labels, all of which must be there."""
        where = {label: i for i, label in enumerate(self.labels.tolist())}
        return np.asarray([where[label] for label in labels.tolist()], dtype=np.intp)

    def scales(self, rows: NDArray[np.intp] | slice) -> tuple[float, ...]:
        """Median distance of each view over the given rows, of signatures of unit norm."""
        return tuple(median_distance(unit_rows(array[rows])) for array in self.arrays)

    def normalized(
        self, scales: tuple[float, ...], *, keep_views: bool
    ) -> NDArray[np.float64] | SignatureViews:
        """Unit rows divided by the scale of their view, as in the authors' program.

        Parameters
        ----------
        scales : tuple of float
            One a view.
        keep_views : bool
            Whether several views stay apart, or become one vector a class.

        Returns
        -------
        ndarray or SignatureViews
            An array when there is one view or the views are concatenated.
        """
        arrays = tuple(
            unit_rows(array) / scale for array, scale in zip(self.arrays, scales, strict=True)
        )
        if len(arrays) == 1:
            return arrays[0]
        views = SignatureViews(arrays, self.weights)
        return views if keep_views else views.concatenate()


def _labels_and_rows(
    signatures: Any, seen: NDArray[Any] | None, where: str
) -> tuple[NDArray[Any], Any, tuple[str, ...] | None]:
    """Labels, rows and attribute names of one view, whatever it came as."""
    if isinstance(signatures, pd.DataFrame):
        names = signatures.columns
        columns = tuple(names) if all(isinstance(c, str) for c in names) else None
        return label_array(signatures.index, where), signatures, columns
    if isinstance(signatures, Mapping):
        if not signatures:
            raise ValueError(f"{where} is empty: describe at least the classes in y.")
        return label_array(signatures, where), list(signatures.values()), None
    if type(signatures).__module__.partition(".")[0] == "polars":
        if LABEL_COLUMN not in getattr(signatures, "columns", ()):
            raise ValueError(
                f"{where} is a polars frame, which has no index: put the class labels into a "
                f"column named {LABEL_COLUMN!r}."
            )
        rest = signatures.drop(LABEL_COLUMN)
        labels = label_array(signatures[LABEL_COLUMN].to_list(), where)
        return labels, pd.DataFrame(rest.to_dict(as_series=False)), tuple(rest.columns)
    if seen is None:
        raise ValueError(
            f"{where} must say which class each row describes: give a DataFrame whose index "
            "holds the labels, or a mapping label → vector."
        )
    rows = to_numpy(signatures) if is_foreign(signatures) else np.asarray(signatures)
    if rows.ndim != 2:
        raise ValueError(f"{where} must have one row a class; got an array of {rows.ndim} axes.")
    if len(rows) != len(seen):
        raise ValueError(
            f"{where} is an array of {len(rows)} rows, but y has samples of {len(seen)} classes. "
            "Rows of an array follow np.unique(y); to describe classes without samples give a "
            "DataFrame whose index holds the labels."
        )
    return seen, rows, None


def _sorted_without_duplicates(labels: NDArray[Any], where: str) -> NDArray[np.intp]:
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if twice.size:
        raise ValueError(
            f"{where} describes a class more than once: {name_some(twice.tolist())}. "
            "Keep one row a class."
        )
    return order


def _checked_rows(rows: Any, labels: NDArray[Any], where: str) -> NDArray[np.float64]:
    """Rows as a finite float64 array; errors name the class."""
    if isinstance(rows, pd.DataFrame):
        odd = [
            str(name)
            for name, dtype in rows.dtypes.items()
            if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype))
        ]
        if odd:
            raise ValueError(
                f"{where} has columns that are not numbers: {name_some(odd)}. "
                "Drop them, or move the labels into the index."
            )
        array = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    elif isinstance(rows, list):
        vectors = [np.asarray(to_numpy(row), dtype=np.float64) for row in rows]
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
        warnings.warn(
            f"The signature of {name_some(labels[zero].tolist())} is all zeros: "
            "nothing is known of such a class.",
            InputWarning,
            stacklevel=2,
        )
    return array
