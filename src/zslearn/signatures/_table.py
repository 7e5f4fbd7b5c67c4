"""What a user gives as signatures, as one labelled table in the order of its labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.signatures._normalize import median_distance
from zslearn.signatures._views import MultiSignatures, SignatureViews
from zslearn.utils import is_foreign, name_some, to_numpy, unit_rows, warn_user

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
    columns : tuple of (tuple or None)
        Names of the attributes of each view, where there are any.
    names : tuple of str
        Names of the views; one empty name when the user gave a single view.
    weights : tuple of float
        Convex weights of the views.
    """

    labels: NDArray[Any]
    arrays: tuple[NDArray[np.float64], ...]
    columns: tuple[tuple[Any, ...] | None, ...]
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
        table = cls._read(signatures, seen)._with_labels_like(seen, "y")
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
        table = cls._read(signatures, None)._with_labels_like(known.labels, "the fitted classes")
        described = set(known.labels.tolist())
        again = [label for label in table.labels.tolist() if label in described]
        if again:
            raise ValueError(
                f"Already described: {name_some(again)}. add_classes takes new classes only; "
                "fit again to change a signature."
            )
        return table._aligned_with(known)

    @classmethod
    def _read(
        cls, signatures: Any, seen: NDArray[Any] | None, where: str = "signatures"
    ) -> SignatureTable:
        if isinstance(signatures, MultiSignatures):
            return cls._read_views(signatures)
        labels, rows, columns = _labels_and_rows(signatures, seen, where)
        order = _sorted_without_duplicates(labels, where)
        array = _checked_rows(rows, labels, where)
        return cls(labels[order], (array[order],), (columns,))

    @classmethod
    def _read_views(cls, signatures: MultiSignatures) -> SignatureTable:
        tables: dict[str, SignatureTable] = {}
        for name, view in signatures.views.items():
            if isinstance(view, MultiSignatures):
                raise ValueError(
                    f"The view {name!r} is itself MultiSignatures: put its views beside the others."
                )
            tables[name] = cls._read(view, None, where=f"the view {name!r} of signatures")
        first_name, first = next(iter(tables.items()))
        described = set(first.labels.tolist())
        for name, table in tables.items():
            table._with_labels_like(first.labels, f"the view {first_name!r}")
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

    def _with_labels_like(self, labels: NDArray[Any], where: str) -> SignatureTable:
        """The same table with labels of the dtype of others; refuse what can never be equal."""
        ours, theirs = label_kind(self.labels), label_kind(labels)
        if ours != theirs:
            raise ValueError(
                f"The labels of signatures are {ours}s, those of {where} are {theirs}s: "
                "they can never be equal. Use labels of one type."
            )
        if ours != "number" or self.labels.dtype == labels.dtype:
            return self
        with np.errstate(invalid="ignore"):
            cast = self.labels.astype(labels.dtype)
        changed = [
            old for old, new in zip(self.labels.tolist(), cast.tolist(), strict=True) if old != new
        ]
        if changed:
            raise ValueError(
                f"Labels of signatures do not fit those of {where}, which are {labels.dtype}: "
                f"{name_some(changed)}."
            )
        return replace(self, labels=cast)

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
            arrays.append(array[:, _column_order(columns, old_columns)])
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
        if self.names == ("",):
            return frames[0]
        return MultiSignatures(dict(zip(self.names, frames, strict=True)), self.weights)

    def positions(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Rows of the given labels, all of which must be there."""
        where = {label: i for i, label in enumerate(self.labels.tolist())}
        return np.asarray([where[label] for label in labels.tolist()], dtype=np.intp)

    def warn_of_twins(self, normalized: NDArray[np.float64] | SignatureViews) -> None:
        """Warn of classes whose normalised signatures are equal: no method can tell them apart."""
        views = normalized.arrays if isinstance(normalized, SignatureViews) else (normalized,)
        first: dict[bytes, Any] = {}
        twins = []
        for label, *rows in zip(self.labels.tolist(), *(v.round(10) for v in views), strict=True):
            key = b"".join((row + 0.0).tobytes() for row in rows)  # −0 and 0 are equal
            if first.setdefault(key, label) != label:
                twins.append((first[key], label))
        if twins:
            warn_user(
                f"{len(twins)} classes have the signature of another one once their length is "
                f"taken out, and cannot be told from it: {name_some(twins)}."
            )

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
        raise ValueError(f"{where} must have one row a class; got an array of {array.ndim} axes.")
    if len(array) != len(seen):
        raise ValueError(
            f"{where} is an array of {len(array)} rows, but y has samples of {len(seen)} classes. "
            "Rows of an array follow np.unique(y); to describe classes without samples give a "
            "DataFrame whose index holds the labels."
        )
    return seen, array, None


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


def _vector(row: Any, label: Any, where: str) -> NDArray[np.float64]:
    try:
        return np.asarray(to_numpy(row), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"The signature of {label!r} in {where} must hold numbers.") from None


def _unique_columns(names: pd.Index, where: str) -> tuple[Any, ...]:
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(
            f"{where} has attributes of the same name: {name_some(twice.unique())}. Name each once."
        )
    return tuple(names)


def _column_order(new: tuple[Any, ...] | None, old: tuple[Any, ...] | None) -> list[int] | slice:
    """Where the old attributes stand among the new ones; unnamed ones keep their places."""
    if new is None or old is None or new == old:
        return slice(None)
    if set(new) == set(old):
        return [new.index(name) for name in old]
    if list(new) == list(range(len(new))) or list(old) == list(range(len(old))):
        return slice(None)
    odd = [name for name in (*new, *old) if (name in new) != (name in old)]
    raise ValueError(
        "The attributes of the new signatures are not those given to fit; "
        f"they differ in {name_some(odd)}."
    )
