"""What a user gives as signatures, as one labelled table in the order of its labels.

Labels and rows are read from a DataFrame of pandas or polars, a mapping or an array, and checked
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import Floats, is_foreign, to_numpy, unit_rows
from zslearn._utils._messages import (
    did_you_mean,
    look_alikes,
    name_near_misses,
    name_pairs,
    name_problem,
    name_some,
    normal_form,
    refuse_equal_labels,
    suggest,
    warn_user,
)
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import (
    SCALING,
    as_numbers,
    check_scaling,
    columns_named,
    dominating_columns,
    in_units,
    is_missing,
    not_numbers,
    numeric_columns,
    refuse_dates,
    refuse_missing,
    refuse_text,
    units_of,
)
from zslearn.signatures._kernels import median_distance
from zslearn.signatures._views import MultiSignatures, SignatureViews

#: The column of a polars frame, which has no index, that holds the class labels.
LABEL_COLUMN = "class"


def label_array(values: Iterable[Any], where: str) -> NDArray[Any]:
    """Class labels as an array of one kind: str, bool, or numbers."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        kind = values.dtype.kind
        if kind in "biuU" or (kind == "f" and not np.isnan(values).any()):
            return values
    items = [_plain_label(value) for value in values]
    missing = next((place for place, value in enumerate(items) if is_missing(value)), None)
    if missing is not None:
        raise ValueError(
            f"{where} has a missing label, {items[missing]!r} at position {missing}: name the "
            "class, or leave the row out."
        )
    kinds = {type(value) for value in items}
    if kinds <= {str}:
        return np.asarray(items, dtype=str)
    if kinds not in ({bool}, {int}, {float}, {int, float}):
        raise ValueError(
            f"The class labels of {where} must be all strings, all numbers or all booleans; "
            f"found {', '.join(sorted(kind.__name__ for kind in kinds))}."
        )
    numbers = np.asarray(items)
    # Integers that no dtype holds become objects, or floats that may be equal.
    if numbers.dtype.kind == "O" or (kinds == {int} and numbers.dtype.kind == "f"):
        raise ValueError(
            f"The class labels of {where} are integers beyond 64 bits, or too far apart for "
            f"one type of them, such as {max(items, key=abs)}: write them as strings."
        )
    return numbers


def _plain_label(value: Any) -> Any:
    """A label as Python has it: scalars of array libraries, members of enums and subclasses."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, Enum) and isinstance(value, (str, int, float)):
        value = value.value
    plain = next((kind for kind in (str, bool, int, float) if isinstance(value, kind)), None)
    return value if plain is None else plain(value)


def sample_labels(y: Any) -> NDArray[Any]:
    """Labels of samples, one each, as an array of one kind."""
    if isinstance(y, (list, tuple)):
        # Item by item: NumPy would turn a missing label or a number among strings into text.
        if y and all(isinstance(row, (list, tuple)) and len(row) == 1 for row in y):
            y = [row[0] for row in y]
        return label_array(y, "y")
    if isinstance(y, (str, bytes, Mapping, Set)) or not hasattr(y, "__len__"):
        raise ValueError(
            "y must hold one label per sample, in their order: give a list, an array or a "
            f"Series; got {'None' if y is None else f'a {type(y).__name__}'}."
        )
    y = to_numpy(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y must hold one label per sample; got shape {y.shape}.")
    return label_array(y, "y")


def refuse_unusable_names(labels: Iterable[Any], where: str) -> None:
    """Refuse names of new classes that are empty or not visible, wherever a class is added."""
    for label in labels:
        if isinstance(label, str) and (fault := name_problem(label)):
            raise ValueError(f"{where} has a class named {label!a}, which {fault}.")


def label_kind(labels: NDArray[Any]) -> str:
    """Return "boolean", "number" or "string": labels of different kinds are never equal."""
    if labels.dtype.kind == "b":
        return "boolean"
    return "number" if labels.dtype.kind in "iuf" else "string"


def labels_like(labels: NDArray[Any], others: NDArray[Any], whose: str, where: str) -> NDArray[Any]:
    """Labels with the dtype of others; refuse what can never be equal."""
    ours, theirs = label_kind(labels), label_kind(others)
    if ours != theirs:
        advice = "Use labels of one type."
        counting = ours == "number" and np.array_equal(labels, np.arange(len(labels)))
        if counting and whose == "signatures":
            advice = "They only count the rows: put the class labels into the index."
        raise ValueError(
            f"The labels of {whose} are {ours}s, those of {where} are {theirs}s: "
            f"they can never be equal. {advice}"
        )
    if ours != "number" or labels.dtype == others.dtype:
        return labels
    with np.errstate(invalid="ignore"):
        cast = labels.astype(others.dtype)
    changed = [old for old, new in zip(labels.tolist(), cast.tolist(), strict=True) if old != new]
    if changed:
        raise ValueError(
            f"Labels of {whose} do not fit those of {where}, which are {others.dtype}: "
            f"{name_some(changed)}."
        )
    return cast


def labels_in_order(signatures: Any) -> NDArray[Any]:
    """Labels of signatures that a user gave, in the order of their rows."""
    if isinstance(signatures, MultiSignatures):
        signatures = next(iter(signatures.views.values()))
    return label_array(as_frame(signatures, None, "signatures")[0].index, "signatures")


def is_polars(signatures: Any) -> bool:
    """Whether signatures are a frame of polars, which need not be installed."""
    return type(signatures).__module__.partition(".")[0] == "polars"


def as_frame(
    signatures: Any, seen: NDArray[Any] | None, where: str
) -> tuple[pd.DataFrame, tuple[Any, ...] | None]:
    """One view as a frame of pandas whose index holds the labels, and its attribute names."""
    if isinstance(signatures, pd.DataFrame):
        return signatures, _unique_columns(signatures.columns, where)
    if isinstance(signatures, Mapping):
        return _mapping_as_frame(signatures, where)
    if is_polars(signatures):
        if LABEL_COLUMN not in getattr(signatures, "columns", ()):
            near = suggest(LABEL_COLUMN, getattr(signatures, "columns", ()))
            hint = f" It has a column {near[0]!r}: rename it." if near else ""
            raise ValueError(
                f"{where} is a polars frame, which has no index: put the class labels into a "
                f"column named {LABEL_COLUMN!r}.{hint}"
            )
        columns = signatures.to_dict(as_series=False)
        return pd.DataFrame(columns, index=columns.pop(LABEL_COLUMN)), tuple(columns)
    if seen is None:
        raise ValueError(
            f"{where} must say which class each row describes: give a DataFrame whose index "
            "holds the labels, or a mapping label → vector."
        )
    array = to_numpy(signatures) if is_foreign(signatures) else np.asarray(signatures)
    refuse_dates(array, where)
    if array.ndim != 2:
        raise ValueError(f"{where} must have one row per class; got an array of {array.ndim} axes.")
    if len(array) != len(seen):
        is_transposed = array.shape[1] == len(seen)
        raise ValueError(
            f"{where} looks transposed: it has {len(array)} rows and {len(seen)} columns, and "
            f"y has samples of {len(seen)} classes; give signatures.T."
            if is_transposed
            else f"{where} is an array of {len(array)} rows, but y has samples of {len(seen)} "
            "classes. Rows of an array follow np.unique(y); to describe classes without samples "
            "give a DataFrame whose index holds the labels."
        )
    try:
        return pd.DataFrame(np.array(array, dtype=np.float64), index=seen), None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} must be numbers: {error}.") from None


def _mapping_as_frame(
    signatures: Mapping[Any, Any], where: str
) -> tuple[pd.DataFrame, tuple[Any, ...] | None]:
    """A mapping label → Series, whose attributes may come in any order, or label → vector."""
    if not signatures:
        raise ValueError(f"{where} is empty: describe at least the classes in y.")
    first_label, first = next(iter(signatures.items()))
    columns, rows = None, list(signatures.values())
    if all(isinstance(row, pd.Series) for row in rows):
        columns = _unique_columns(first.index, where)
        for label, row in signatures.items():
            if len(row) != len(first) or set(row.index) != set(columns):
                raise ValueError(
                    f"The signature of {label!r} in {where} does not have the attributes of "
                    f"{first_label!r}: all Series must have one index."
                )
        rows = [row.reindex(columns).to_numpy() for row in rows]
    else:
        for place, (label, row) in enumerate(signatures.items()):
            refuse_dates(row, f"The signature of {label!r} in {where}")
            try:
                rows[place] = np.asarray(to_numpy(row), dtype=np.float64)
            except (TypeError, ValueError):
                message = f"The signature of {label!r} in {where} must hold numbers."
                raise ValueError(message) from None
            if rows[place].ndim != 1 or rows[place].shape != rows[0].shape:
                raise ValueError(
                    f"The signature of {label!r} in {where} has shape {rows[place].shape}, that of "
                    f"{first_label!r} {rows[0].shape}: all must be vectors of one length."
                )
    # Objects: strings of pandas must be valid UTF-8, of which its error would say nothing useful.
    index = pd.Index(list(signatures), dtype=object, tupleize_cols=False)
    return pd.DataFrame(np.stack(rows), index, None if columns is None else first.index), columns


def finite_numbers(frame: pd.DataFrame, where: str) -> Floats:
    """The numbers of a table of signatures; refuse text, and what is missing or infinite."""
    frame = numeric_columns(frame, where)
    others = not_numbers(frame)
    advice = ""
    if others and isinstance(frame.index, pd.RangeIndex):
        advice = f" If {others[0]!r} holds the labels, write signatures.set_index({others[0]!r})."
    refuse_text(frame, where, advice)
    array: Floats = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    refuse_missing(frame, array, where)
    return array


def with_scaling(signatures: Any, scaling: str | None) -> Any:
    """Signatures that say how their columns are brought to one unit when a method is fitted."""
    check_scaling(scaling, SCALING)
    if isinstance(signatures, MultiSignatures):
        views = {name: with_scaling(view, scaling) for name, view in signatures.views.items()}
        return MultiSignatures(views, signatures.weights, signatures.gamma_factors)
    signatures = signatures.copy(deep=False)
    signatures.attrs = {name: v for name, v in signatures.attrs.items() if name != SCALING}
    if scaling is not None:
        signatures.attrs[SCALING] = scaling
    return signatures


def _unique_columns(names: pd.Index, where: str) -> tuple[Any, ...]:
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(
            f"{where} has attributes of the same name: {name_some(twice.unique())}. Name each once."
        )
    return tuple(names)


@dataclass(frozen=True)
@saves(arrays=Saved(kind=tuple, finite=False))
class SignatureTable:
    """Signatures as given: one row per class, sorted by label, one array per view.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        Sorted, without duplicates.
    arrays : tuple of ndarray of shape (n_classes, n_attributes of the view)
        Float64 and finite, but for rows of NaN of classes that lack the view.
    columns : tuple of (tuple or None)
        Names of the attributes of each view, where there are any.
    names : tuple of str
        Names of the views; one empty name when the user gave a single view.
    weights : tuple of float
        Convex weights of the views.
    gamma_factors : tuple of float
        What γ of a kernel is multiplied by in each view, where views stay apart.
    indicators : bool
        Whether the user gave no signatures: each class is described by its own indicator.
    scalings : tuple of (str or None)
        How the columns of each view are brought to one unit; empty where all stay as they are.
    units : tuple of (ndarray of shape (2, n_attributes of the view) or None)
        What is taken from the columns of each view and what they are divided by then, as the seen
        classes of a fit have it.
    """

    labels: NDArray[Any]
    arrays: tuple[Floats, ...]
    columns: tuple[tuple[Any, ...] | None, ...]
    names: tuple[str, ...] = ("",)
    weights: tuple[float, ...] = (1.0,)
    gamma_factors: tuple[float, ...] = (1.0,)
    indicators: bool = False
    scalings: tuple[str | None, ...] = ()
    units: tuple[Floats | None, ...] = ()

    @property
    def n_attributes(self) -> int:
        """Width of a signature with its views side by side."""
        return sum(array.shape[1] for array in self.arrays)

    @classmethod
    def from_user(cls, signatures: Any, seen: NDArray[Any]) -> SignatureTable:
        """Read what was given to `fit`; it must describe every class of `seen`, the sorted labels.

        None describes each seen class by its own indicator; the rows of an array follow `seen`.
        """
        if signatures is None:
            return cls(seen, (np.eye(len(seen)),), (None,), indicators=True)
        if isinstance(signatures, cls):
            table = signatures
        else:
            table = cls.read(signatures, seen)
            table._refuse_transposed(seen.tolist())
        table = table.with_labels_like(seen, "y")
        known, wanted = dict.fromkeys(table.labels.tolist()), dict.fromkeys(seen.tolist())
        missing = [label for label in wanted if label not in known]
        if missing:
            spare = [label for label in known if label not in wanted]
            near = name_near_misses(missing, spare, unknown_in="y", known_in="signatures")
            raise ValueError(
                f"{len(missing)} of the {len(seen)} classes in y have no signature: "
                f"{name_some(missing)}.{near or ' Add a row for each to signatures.'}"
            )
        return table

    @classmethod
    def from_new(cls, signatures: Any, known: SignatureTable, like: Any = None) -> SignatureTable:
        """Read what was given to `add_classes`: further classes, by the attributes of `known`.

        `like` is the class of `known` that gives the values of attributes that are not named.
        """
        if known.indicators:
            raise ValueError(
                "fit was given no signatures, so that nothing can be said of a further class: fit "
                "again with signatures= for the classes in y."
            )
        if like is not None or _holds_mappings(signatures):
            signatures = known.rows_by_name(signatures, like)
        table = signatures if isinstance(signatures, cls) else cls.read(signatures, None)
        if table._labels_are_attributes_of(known):
            raise ValueError(
                "signatures looks transposed: its rows are the attributes given to fit; give "
                "signatures.T."
            )
        table = table.with_labels_like(known.labels, "the fitted classes")
        described = set(known.labels.tolist())
        again = [label for label in table.labels.tolist() if label in described]
        if again:
            raise ValueError(
                f"Already described: {name_some(again)}. add_classes takes new classes only. "
                "Remove one without training images first (remove_classes); else fit again."
            )
        refuse_equal_labels(
            [*known.labels.tolist(), *table.labels.tolist()], "signatures, with the fitted classes,"
        )
        refuse_unusable_names(table.labels.tolist(), "signatures")
        known._warn_of_look_alikes(table.labels, "add_classes describes")
        return table.aligned_with(known)

    @classmethod
    def read(
        cls, signatures: Any, seen: NDArray[Any] | None, where: str = "signatures"
    ) -> SignatureTable:
        """Read signatures in any form, whatever classes they describe.

        The rows of an array follow the labels `seen`; None refuses an array. Errors call the
        signatures `where`.
        """
        if isinstance(signatures, MultiSignatures):
            return cls._read_views(signatures)
        frame, columns = as_frame(signatures, seen, where)
        labels = label_array(frame.index, where)
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if twice.size:
            raise ValueError(
                f"{where} describes a class more than once: {name_some(twice.tolist())}. "
                "Keep one row per class."
            )
        if labels.dtype.kind == "U":
            refuse_equal_labels(labels.tolist(), where)
        array = finite_numbers(frame, where)
        if array.shape[1] == 0:
            raise ValueError(f"{where} has no attributes: each class needs at least one number.")
        zero = ~array.any(axis=1)
        if zero.any():
            warn_user(
                f"The signature of {name_some(labels[zero].tolist())} in {where} is all zeros: "
                "nothing is known of such a class."
            )
        scaling = frame.attrs.get(SCALING)
        check_scaling(scaling, f"{where}.attrs[{SCALING!r}]")
        scalings = () if scaling is None else (scaling,)
        return cls(ordered, (array[order],), (columns,), scalings=scalings)

    @classmethod
    def _read_views(cls, signatures: MultiSignatures) -> SignatureTable:
        nested = [n for n, view in signatures.views.items() if isinstance(view, MultiSignatures)]
        if nested:
            raise ValueError(
                f"The view {nested[0]!r} is itself MultiSignatures: put its views beside the "
                "others."
            )
        tables = {
            name: cls.read(view, None, where=f"the view {name!r} of signatures")
            for name, view in signatures.views.items()
        }
        first_name, first = next(iter(tables.items()))
        described = set(first.labels.tolist())
        for name, table in tables.items():
            table.with_labels_like(first.labels, f"the view {first_name!r}")
            here = set(table.labels.tolist())
            near = name_near_misses(
                sorted(here - described),
                sorted(described - here),
                unknown_in=f"the view {name!r}",
                known_in=f"the view {first_name!r}",
            )
            if near:
                raise ValueError(
                    f"The views {first_name!r} and {name!r} do not describe the same classes; "
                    f"only one of them has {name_some(sorted(here ^ described))}.{near}"
                )
        labels = np.unique(np.concatenate([table.labels for table in tables.values()]))
        scalings = tuple((table.scalings or (None,))[0] for table in tables.values())
        return cls(
            labels,
            tuple(_spread(table.arrays[0], table.labels, labels) for table in tables.values()),
            tuple(table.columns[0] for table in tables.values()),
            tuple(tables),
            tuple(signatures.weights.values()),
            tuple(signatures.gamma_factors.values()),
            scalings=scalings if any(scalings) else (),
        )

    def with_labels_like(self, labels: NDArray[Any], where: str) -> SignatureTable:
        """The same table with labels of the dtype of others; refuse what can never be equal."""
        return replace(self, labels=labels_like(self.labels, labels, "signatures", where))

    def refuse_lacking(self, who: str) -> None:
        """Refuse classes that lack a view, for those who need every view."""
        lacking = np.any([np.isnan(array).all(axis=1) for array in self.arrays], axis=0)
        if lacking.any():
            raise ValueError(
                f"{who} needs every view of each class: {name_some(self.labels[lacking].tolist())} "
                "lack one. Describe them in all views, leave them out, or take GaussianEXEM, which "
                "compares classes by the views that both have."
            )

    def _refuse_transposed(self, seen: list[Any]) -> None:
        """Refuse a view whose columns, and not its rows, are the classes of the training data."""
        if set(seen) <= set(self.labels.tolist()):
            return
        wanted, rows = _normal_forms(seen), _normal_forms(self.labels.tolist())
        for name, columns in zip(self.names, self.columns, strict=True):
            n_columns = len(wanted & _normal_forms(columns or ()))
            if n_columns > max(len(wanted & rows), len(wanted) // 2):
                raise ValueError(
                    f"{_view_named(name)} looks transposed: its columns are the classes; give "
                    "signatures.T."
                )

    def _labels_are_attributes_of(self, known: SignatureTable) -> bool:
        """Whether the rows are labelled by the attributes of another table."""
        rows = _normal_forms(self.labels.tolist())
        # Columns without names are numbers, as classes may be.
        named = [c for c in known.columns if c and list(c) != list(range(len(c)))]
        return any(2 * len(rows & names) > len(names) for names in map(_normal_forms, named))

    def aligned_with(self, known: SignatureTable) -> SignatureTable:
        """The same rows with views and attributes in the order of another table."""
        if not set(self.names) <= set(known.names):
            raise ValueError(
                f"The new signatures have the views {list(self.names)}; "
                f"fit saw {list(known.names)}."
            )
        arrays = []
        views = dict(zip(self.names, zip(self.arrays, self.columns, strict=True), strict=True))
        for name, old, old_columns in zip(known.names, known.arrays, known.columns, strict=True):
            if name not in views:
                arrays.append(np.full((len(self.labels), old.shape[1]), np.nan))
                continue
            array, columns = views[name]
            if array.shape[1] != old.shape[1]:
                raise ValueError(
                    f"The new signatures have {array.shape[1]} attributes; those given to fit have "
                    f"{old.shape[1]}.{_differing_columns(columns, old_columns)}"
                )
            arrays.append(array[:, _column_order(columns, old_columns)])
        return replace(known, labels=self.labels, arrays=tuple(arrays))

    def attribute_names(self) -> list[Any]:
        """What classes are described by, one view after the other: numbers where it has no name."""
        names: list[Any] = []
        for view, columns, array in zip(self.names, self.columns, self.arrays, strict=True):
            of_view = range(array.shape[1]) if columns is None else columns
            names += [f"{view}: {name}" if view else name for name in of_view]
        return names

    def rows_by_name(self, signatures: Any, like: Any = None) -> Any:
        """Rows of further classes whose values are given by attribute; see :meth:`from_new`."""
        if isinstance(signatures, pd.DataFrame):
            _unique_columns(signatures.columns, "signatures")
            given = [(label, dict(row)) for label, row in signatures.iterrows()]
        elif _holds_mappings(signatures, also=pd.Series):
            given = [(label, dict(row)) for label, row in signatures.items()]
        else:
            raise ValueError(
                "like= goes with values by attribute: give a mapping label → {attribute: value}, "
                "or a DataFrame with some of the columns."
            )
        names = self.attribute_names()
        start: dict[Any, float] = {}
        if like is not None:
            labels = self.labels.tolist()
            if like not in labels:
                raise ValueError(f"like={like!r} is not described.{did_you_mean(like, labels)}")
            of_like = np.concatenate([array[labels.index(like)] for array in self.arrays])
            start = dict(zip(names, of_like.tolist(), strict=True))
        rows = []
        for label, row in given:
            unknown = [name for name in row if name not in names]
            if unknown:
                raise ValueError(
                    f"signatures given to fit have no attribute {unknown[0]!r}, which {label!r} is "
                    f"described by.{did_you_mean(unknown[0], names)}"
                )
            values = {**start, **row}
            missing = [name for name in names if name not in values]
            if missing:
                raise ValueError(
                    f"{label!r} has no value for {name_some(missing)}: give all {len(names)} "
                    "attributes, or name a class to begin with by like=."
                )
            rows.append([_number(values[name], name, label) for name in names])
        described = label_array([label for label, _ in given], "signatures")
        ends = np.cumsum([array.shape[1] for array in self.arrays])[:-1]
        arrays = tuple(np.split(np.asarray(rows), ends, axis=1))
        return replace(self, labels=described, arrays=arrays).as_user()

    def union(self, other: SignatureTable) -> SignatureTable:
        """Both tables in one, sorted by label."""
        labels = np.concatenate([self.labels, other.labels])
        order = np.argsort(labels, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        arrays = []
        for a, b in zip(self.arrays, other.arrays, strict=True):
            both = np.empty((len(order), a.shape[1]), dtype=np.result_type(a, b))
            both[place[: len(a)]], both[place[len(a) :]] = a, b
            arrays.append(both)
        return replace(self, labels=labels[order], arrays=tuple(arrays))

    def with_undescribed(self, labels: NDArray[Any]) -> SignatureTable:
        """With classes of which nothing is known: their signatures are zeros."""
        if not len(labels):
            return self
        refuse_unusable_names(labels.tolist(), "y")
        self._warn_of_look_alikes(labels, "y names")
        arrays = tuple(np.zeros((len(labels), a.shape[1]), dtype=a.dtype) for a in self.arrays)
        return self.union(replace(self, labels=labels, arrays=arrays))

    def _warn_of_look_alikes(self, labels: NDArray[Any], what: str) -> None:
        """Warn of new labels that differ from those described where nobody sees it."""
        pairs = look_alikes(labels.tolist(), self.labels.tolist())
        if pairs:
            warn_user(
                f"{what} classes that look like those already described, and are others: "
                f"{name_pairs(pairs)}."
            )

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
        for frame, scaling in zip(frames, self.scalings, strict=False):
            frame.attrs |= {} if scaling is None else {SCALING: scaling}
        if self.names == ("",):
            return frames[0]
        views = dict(zip(self.names, (frame.dropna(how="all") for frame in frames), strict=True))
        return MultiSignatures(views, self.weights, self.gamma_factors)

    def reweighted(self, weights: Any, gamma_factors: Any) -> SignatureTable:
        """The same views under other weights and factors of γ; None leaves them."""
        views = MultiSignatures(
            dict.fromkeys(self.names),
            self.weights if weights is None else weights,
            self.gamma_factors if gamma_factors is None else gamma_factors,
        )
        return replace(
            self,
            weights=tuple(views.weights.values()),
            gamma_factors=tuple(views.gamma_factors.values()),
        )

    def positions(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Rows of the given labels, all of which must be there."""
        where = {label: i for i, label in enumerate(self.labels.tolist())}
        return np.asarray([where[label] for label in labels.tolist()], dtype=np.intp)

    def warn_equal_signatures(self, normalized: Floats | SignatureViews) -> None:
        """Warn of classes whose normalised signatures are equal: no method can tell them apart."""
        arrays = normalized.arrays if isinstance(normalized, SignatureViews) else (normalized,)
        # Of zeros, which say nothing, there is a warning where they are read.
        says_something = np.any([array.any(axis=1) for array in self.arrays], axis=0)
        pairs = [pair for pair in _equal_rows(arrays) if says_something[pair[0]]]
        if pairs:
            equal = [(self.labels[i].item(), self.labels[j].item()) for i, j in pairs]
            have = "class has" if len(equal) == 1 else "classes have"
            warn_user(
                f"{len(equal)} {have} the signature of another one once lengths are taken out, and "
                f"cannot be distinguished from it: {name_some(equal)}."
            )

    def measured(self, seen: NDArray[np.intp]) -> SignatureTable:
        """The table with the units that the rows of the seen classes give."""
        units: list[Floats | None] = []
        for array, scaling in zip(self.arrays, self.scalings, strict=False):
            rows = array[seen]
            rows = rows[~np.isnan(rows).all(axis=1)]  # without classes that lack the view
            units.append(units_of(rows, scaling) if scaling and len(rows) else None)
        return replace(self, units=tuple(units))

    def warn_of_units(self, seen: NDArray[np.intp]) -> None:
        """Warn of columns in such large units that they alone decide which classes are near."""
        scalings = self.scalings or (None,) * len(self.arrays)
        for array, scaling, columns, name in zip(
            self.arrays, scalings, self.columns, self.names, strict=True
        ):
            large = [] if scaling or self.indicators else dominating_columns(array[seen])
            if large:
                warn_user(
                    f"{_view_named(name)}: {columns_named(large, columns)} alone decides which "
                    "classes are near each other, since its numbers are so much larger than those "
                    "of the other columns. Bring the columns to one unit: signatures = "
                    "zslearn.signatures.attribute_signatures(signatures, "
                    "signature_scaling='standard')."
                )

    def in_units(self) -> tuple[Floats, ...]:
        """The rows of each view, in the units of the seen classes where these are used."""
        units = self.units or (None,) * len(self.arrays)
        return tuple(in_units(array, unit) for array, unit in zip(self.arrays, units, strict=True))

    def scales(self, rows: NDArray[np.intp] | slice) -> tuple[float, ...]:
        """Median distance of each view over the given rows, of signatures of unit norm."""
        there = [array[rows] for array in self.in_units()]
        there = [array[~np.isnan(array).all(axis=1)] for array in there]
        return tuple(median_distance(unit_rows(array)) if len(array) else 1.0 for array in there)

    def normalized(self, scales: tuple[float, ...], *, keep_views: bool) -> Floats | SignatureViews:
        """Unit rows divided by the scale of their view, as in the authors' program.

        Several views stay apart (`keep_views`), or become one vector per class.
        """
        arrays = tuple(
            unit_rows(array) / scale for array, scale in zip(self.in_units(), scales, strict=True)
        )
        if len(arrays) == 1:
            return arrays[0]
        if not keep_views:
            self.refuse_lacking("A method that takes signatures as vectors")
            return SignatureViews(arrays, self.weights).concatenate()
        # γ g ‖a − a′‖² is the distance of rows that are multiplied by the root of g.
        roots = np.sqrt(self.gamma_factors).tolist()
        scaled = tuple(root * array for root, array in zip(roots, arrays, strict=True))
        return SignatureViews(scaled, self.weights)


def _number(value: Any, attribute: Any, label: Any) -> float:
    """A value of a signature as a number; the error says whose it is."""
    read = as_numbers([value]) or float
    try:
        return read(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"The attribute {attribute!r} of {label!r} is no number: {value!r}."
        ) from None


def _holds_mappings(signatures: Any, also: type = Mapping) -> bool:
    """Whether signatures name the attributes of each class."""
    return (
        isinstance(signatures, Mapping)
        and bool(signatures)
        and all(isinstance(row, (Mapping, also)) for row in signatures.values())
    )


def _spread(array: Floats, own: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Rows of some of the labels among all of them; NaN for the others."""
    if len(own) == len(labels):
        return array
    spread = np.full((len(labels), array.shape[1]), np.nan)
    spread[np.searchsorted(labels, own)] = array
    return spread


def _equal_rows(arrays: Sequence[Floats]) -> list[tuple[int, int]]:
    """Pairs of rows that are equal but for rounding, each row with one of its twins."""
    rng = np.random.default_rng(0)
    # Equal rows have equal products with a random vector; NaN stands for a view that a class lacks.
    products = np.zeros(len(arrays[0]))
    for array in arrays:
        products += np.nan_to_num(array @ rng.random(array.shape[1]))
    order = np.argsort(products, kind="stable")
    near = np.flatnonzero(np.diff(products[order]) <= 1e-9 * sum(a.shape[1] for a in arrays))
    rows = np.sort(np.column_stack([order[near], order[near + 1]]), axis=1)
    differ = np.zeros(len(rows), dtype=bool)
    for array in arrays:
        first, second = array[rows[:, 0]], array[rows[:, 1]]
        is_same = np.isclose(first, second, rtol=0, atol=1e-10, equal_nan=True)
        differ |= ~is_same.all(axis=1)
    return sorted(map(tuple, rows[~differ].tolist()))


def _normal_forms(names: Iterable[Any]) -> set[str]:
    """Names in the form in which spelling does not count."""
    return set(map(normal_form, names))


def _view_named(name: str) -> str:
    return f"the view {name!r} of signatures" if name else "signatures"


def _column_order(new: tuple[Any, ...] | None, old: tuple[Any, ...] | None) -> list[int] | slice:
    """Where the old attributes stand among the new ones; unnamed ones keep their places."""
    if new is None or old is None or new == old:
        return slice(None)
    if set(new) == set(old):
        places = {name: place for place, name in enumerate(new)}
        return [places[name] for name in old]
    if list(new) == list(range(len(new))) or list(old) == list(range(len(old))):
        return slice(None)
    raise ValueError(
        "The attributes of the new signatures are not those given to fit."
        f"{_differing_columns(new, old)}"
    )


def _differing_columns(new: tuple[Any, ...] | None, old: tuple[Any, ...] | None) -> str:
    """Say in which attributes two tables differ, where both name them."""
    if new is None or old is None:
        return ""
    in_new, in_old = set(new), set(old)
    only_new = [name for name in new if name not in in_old]
    only_old = [name for name in old if name not in in_new]
    near = name_near_misses(
        only_new, only_old, unknown_in="the new signatures", known_in="signatures given to fit"
    )
    return f" They differ in {name_some([*only_new, *only_old])}.{near}"
