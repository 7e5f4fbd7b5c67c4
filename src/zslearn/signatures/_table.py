"""Convert signatures in any form to a validated table sorted by label.

Signatures may be a pandas or polars DataFrame, a mapping, an array, or several views.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from zslearn._utils._array import Floats, is_foreign, to_numpy, unit_rows
from zslearn._utils._messages import (
    composed,
    did_you_mean,
    name_near_misses,
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
    in_units,
    is_missing,
    not_numbers,
    numeric_columns,
    refuse_dates,
    refuse_missing,
    refuse_text,
    units_of,
    warn_of_dominating,
)
from zslearn.signatures._kernels import median_distance
from zslearn.signatures._views import (
    MultiSignatures,
    SignatureViews,
    map_views,
    refuse_partial_views,
)

if TYPE_CHECKING:
    from zslearn.signatures._described import DescribedTables

#: The "scaling" of a view of taxa: its only column holds a number per taxon, which is 0 if the
#: class has none, and becomes a column of zeros and ones for every taxon of a seen class.
TAXA = "taxa"

#: Column of class labels in a polars DataFrame, which has no index.
LABEL_COLUMN = "class"


def label_array(values: Iterable[Any], where: str) -> NDArray[Any]:
    """Convert class labels to an array of strings, booleans or numbers; raise if they are mixed."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        kind = values.dtype.kind
        if kind in "biuU" or (kind == "f" and not np.isnan(values).any()):
            return values
    if isinstance(values, (pd.Index, pd.Series)) and not isinstance(values, pd.MultiIndex):
        array = values.to_numpy()
        if array.dtype.kind in "biu" or set(map(type, array)) == {str}:
            return array.astype(str) if array.dtype.kind == "O" else array
    items = list(map(_plain_label, values))
    missing = next((place for place, value in enumerate(items) if is_missing(value)), None)
    if missing is not None:
        raise ValueError(
            f"{where} has a missing label, {items[missing]!r} at position {missing}; name the "
            "class, or remove the row."
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
    # NumPy converts integers that fit no dtype to objects, or to floats that may be equal.
    if numbers.dtype.kind == "O" or (kinds == {int} and numbers.dtype.kind == "f"):
        raise ValueError(
            f"The class labels of {where} include integers that do not fit into one 64-bit type, "
            f"such as {max(items, key=abs)}; give them as strings."
        )
    return numbers


def _plain_label(value: Any) -> Any:
    """Convert scalars of array libraries, enum members and subclasses to Python's own types."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, Enum) and isinstance(value, (str, int, float)):
        value = value.value
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def sample_labels(y: Any) -> NDArray[Any]:
    """Convert the labels of samples to a one-dimensional array; raise if they are mixed."""
    if isinstance(y, (list, tuple)):
        # NumPy would convert a missing label or a number among strings to text.
        if y and all(isinstance(row, (list, tuple)) and len(row) == 1 for row in y):
            y = [row[0] for row in y]
        return label_array(y, "y")
    if isinstance(y, (str, bytes, Mapping, Set)) or not hasattr(y, "__len__"):
        raise ValueError(
            "y must be a list, an array or a Series with one label per sample; got "
            f"{'None' if y is None else f'a {type(y).__name__}'}."
        )
    y = to_numpy(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y must have one label per sample; got shape {y.shape}.")
    return label_array(y, "y")


def refuse_unusable_names(labels: Iterable[Any], where: str) -> None:
    """Raise if the name of a new class is empty or invisible."""
    for label in labels:
        if isinstance(label, str) and (fault := name_problem(label)):
            raise ValueError(f"{where} has a class named {label!a}, which {fault}.")


def label_kind(labels: NDArray[Any]) -> str:
    """Return "boolean", "number" or "string"; labels of different kinds are never equal."""
    if labels.dtype.kind == "b":
        return "boolean"
    return "number" if labels.dtype.kind in "iuf" else "string"


def labels_like(labels: NDArray[Any], others: NDArray[Any], whose: str, where: str) -> NDArray[Any]:
    """Convert labels to the dtype of others; raise if they can never be equal."""
    ours, theirs = label_kind(labels), label_kind(others)
    if ours != theirs:
        advice = "Use labels of one type."
        is_range = ours == "number" and np.array_equal(labels, np.arange(len(labels)))
        if is_range and whose == "signatures":
            advice = "They are row numbers; put the class labels into the index."
        raise ValueError(
            f"The labels of {whose} are {ours}s, but those of {where} are {theirs}s. {advice}"
        )
    if ours != "number" or labels.dtype == others.dtype:
        return labels
    with np.errstate(invalid="ignore"):
        cast = labels.astype(others.dtype)
    changed = [old for old, new in zip(labels.tolist(), cast.tolist(), strict=True) if old != new]
    if changed:
        raise ValueError(
            f"Labels of {whose} cannot be converted to {others.dtype}, the type of {where}: "
            f"{name_some(changed)}."
        )
    return cast


def is_ascii(labels: NDArray[Any]) -> bool:
    """Whether all labels consist of ASCII characters."""
    codes = np.ascontiguousarray(labels).view(np.uint32)
    return not len(codes) or bool(codes.max() < 128)


def is_among(labels: NDArray[Any], classes: Any) -> NDArray[np.bool_]:
    """Whether each label is among some classes."""
    members = to_numpy(classes)
    if label_kind(labels) != label_kind(members) or "O" in (labels.dtype.kind, members.dtype.kind):
        known = set(members.tolist())
        return np.asarray([label in known for label in labels.tolist()], dtype=bool)
    is_sorted = bool((members[1:] > members[:-1]).all())
    return find_sorted(labels, members if is_sorted else np.unique(members)) >= 0


def find_sorted(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.intp]:
    """Position of each value in a sorted array, −1 if it is not there."""
    if not len(known):
        return np.full(len(values), -1)
    with np.errstate(invalid="ignore"):
        # A wider type would convert the whole array.
        at = np.searchsorted(known, values.astype(known.dtype))
    return np.where(known.take(at, mode="clip") == values, at, -1)


def indexed_by_label(table: Any, label: str | None = None) -> Any:
    """A class table of pandas or polars with the labels in the index; anything else unchanged."""
    # polars need not be installed.
    if type(table).__module__.partition(".")[0] == "polars":
        name = next((n for n in (label, LABEL_COLUMN) if n in table.columns), table.columns[0])
        return pd.DataFrame(table.to_dict(as_series=False)).set_index(name)
    if isinstance(table, pd.DataFrame) and label in table.columns:
        return table.set_index(label)
    return table


def labels_in_order(signatures: Any) -> NDArray[Any]:
    """Return the labels of signatures in the order of their rows."""
    if isinstance(signatures, MultiSignatures):
        signatures = next(iter(signatures.views.values()))
    return label_array(as_frame(signatures, None, "signatures")[0].index, "signatures")


def as_frame(
    signatures: Any, seen: NDArray[Any] | None, where: str
) -> tuple[pd.DataFrame, tuple[Any, ...] | None]:
    """Convert one view to a DataFrame indexed by label; also return its attribute names, if any."""
    if isinstance(signatures, pd.DataFrame):
        return signatures, _unique_columns(signatures.columns, where)
    if isinstance(signatures, Mapping):
        return _mapping_as_frame(signatures, where)
    # polars need not be installed.
    if type(signatures).__module__.partition(".")[0] == "polars":
        if LABEL_COLUMN not in getattr(signatures, "columns", ()):
            near = suggest(LABEL_COLUMN, getattr(signatures, "columns", ()))
            hint = f" Rename the column {near[0]!r}." if near else ""
            raise ValueError(
                f"{where} is a polars DataFrame, which has no index; put the class labels into a "
                f"column named {LABEL_COLUMN!r}.{hint}"
            )
        columns = signatures.to_dict(as_series=False)
        return pd.DataFrame(columns, index=columns.pop(LABEL_COLUMN)), tuple(columns)
    if seen is None:
        raise ValueError(
            f"{where} must name the class of each row; give a DataFrame whose index holds the "
            "labels, or a mapping label → vector."
        )
    array = to_numpy(signatures) if is_foreign(signatures) else np.asarray(signatures)
    refuse_dates(array, where)
    if array.ndim != 2:
        raise ValueError(f"{where} must have one row per class; got shape {array.shape}.")
    if len(array) != len(seen):
        is_transposed = array.shape[1] == len(seen)
        raise ValueError(
            f"{where} looks transposed: it has {len(array)} rows and {len(seen)} columns, and "
            f"y has samples of {len(seen)} classes; pass signatures.T."
            if is_transposed
            else f"{where} is an array of {len(array)} rows, but y has samples of {len(seen)} "
            "classes. The rows of an array must follow np.unique(y); to describe classes without "
            "samples, give a DataFrame whose index holds the labels."
        )
    try:
        return pd.DataFrame(np.array(array, dtype=np.float64), index=seen), None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} must be numbers: {error}.") from None


def _mapping_as_frame(
    signatures: Mapping[Any, Any], where: str
) -> tuple[pd.DataFrame, tuple[Any, ...] | None]:
    """Convert a mapping label → vector, or label → Series with attributes in any order."""
    if not signatures:
        raise ValueError(f"{where} is empty; describe at least the classes in y.")
    first_label, first = next(iter(signatures.items()))
    columns, rows = None, list(signatures.values())
    if all(isinstance(row, pd.Series) for row in rows):
        columns = _unique_columns(first.index, where)
        for label, row in signatures.items():
            if len(row) != len(first) or set(row.index) != set(columns):
                raise ValueError(
                    f"The row of {label!r} in {where} has other attributes than that of "
                    f"{first_label!r}; all Series must have the same index."
                )
        rows = [row.reindex(columns).to_numpy() for row in rows]
    else:
        for place, (label, row) in enumerate(signatures.items()):
            refuse_dates(row, f"The row of {label!r} in {where}")
            try:
                rows[place] = np.asarray(to_numpy(row), dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"The row of {label!r} in {where} must contain numbers.") from None
            if rows[place].ndim != 1 or rows[place].shape != rows[0].shape:
                raise ValueError(
                    f"The row of {label!r} in {where} has shape {rows[place].shape}, that of "
                    f"{first_label!r} {rows[0].shape}; all must be vectors of the same length."
                )
    # As objects, labels that are not valid UTF-8 do not raise an obscure error in pandas.
    index = pd.Index(list(signatures), dtype=object, tupleize_cols=False)
    return pd.DataFrame(np.stack(rows), index, None if columns is None else first.index), columns


def finite_numbers(frame: pd.DataFrame, where: str) -> Floats:
    """Convert a table of signatures to floats; raise on text, missing and infinite values."""
    frame = numeric_columns(frame, where)
    if others := not_numbers(frame):
        advice = ""
        if isinstance(frame.index, pd.RangeIndex):
            advice = f" If {others[0]!r} holds the labels, use signatures.set_index({others[0]!r})."
        refuse_text(frame, where, advice)
    # What is given in single precision is kept in it; `in_units` computes in double precision.
    is_single = all(dtype == np.float32 for dtype in frame.dtypes)
    dtype = np.float32 if is_single else np.float64
    array: Floats = frame.to_numpy(dtype=dtype, na_value=np.nan)
    refuse_missing(frame, array, where)
    return array


def sorted_rows(
    frame: pd.DataFrame, where: str, known: SortedLabels | None = None
) -> tuple[NDArray[Any], Floats]:
    """Labels in order and their rows as numbers; raise if a label occurs more than once.

    `known` are the sorted labels of another table, which may have the same index.
    """
    if known is None or not known.source.is_(frame.index):
        known = SortedLabels.of(frame.index, where)
    return known.labels, finite_numbers(frame, where)[known.order]


class SortedLabels(NamedTuple):
    """The labels of an index in order."""

    source: pd.Index
    labels: NDArray[Any]
    order: NDArray[np.intp]

    @classmethod
    def of(cls, index: pd.Index, where: str) -> SortedLabels:
        """Sort labels; raise if one occurs more than once."""
        labels = label_array(index, where)
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if repeated.size:
            raise ValueError(
                f"{where} describes {name_some(repeated.tolist())} more than once; keep one row "
                "per class."
            )
        if labels.dtype.kind == "U" and not is_ascii(labels):
            refuse_equal_labels(labels.tolist(), where)
        return cls(index, ordered, order)


def with_scaling(signatures: Any, scaling: str | None) -> Any:
    """Copy signatures, with the scaling that a method applies to their columns when fitted."""
    check_scaling(scaling, SCALING)
    if isinstance(signatures, MultiSignatures):
        return map_views(signatures, lambda view: with_scaling(view, scaling))
    if _holds_taxa(signatures) or signatures.attrs.get(SCALING) == TAXA:
        return signatures
    signatures = signatures.copy(deep=False)
    signatures.attrs = {name: v for name, v in signatures.attrs.items() if name != SCALING}
    if scaling is not None:
        signatures.attrs[SCALING] = scaling
    return signatures


def _holds_taxa(frame: Any) -> bool:
    """Whether the only column of a view is categories of text, as of `taxonomy_signatures`."""
    if not isinstance(frame, pd.DataFrame) or frame.shape[1] != 1:
        return False
    dtype = frame.dtypes.iloc[0]
    return isinstance(dtype, pd.CategoricalDtype) and not pd.api.types.is_numeric_dtype(
        dtype.categories
    )


def _numbered_taxa(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace taxa by numbers that depend on their names alone, so that classes can be added."""
    column = frame.iloc[:, 0].cat
    numbered = np.asarray([*map(_taxon_number, column.categories), 0.0])[column.codes]
    numbered_frame = pd.DataFrame(numbered[:, None], frame.index, frame.columns)
    numbered_frame.attrs[SCALING] = TAXA
    return numbered_frame


def _taxon_number(name: Any) -> float:
    """An integer up to 2⁵², which is exact in double precision, different for different names."""
    digest = blake2b(str(name).encode(), digest_size=8).digest()
    return float(1 + (int.from_bytes(digest, "little") >> 12))


def _units_of_taxa(array: Floats) -> Floats:
    """The taxa of some classes in ascending order, in the form of the units of other columns."""
    known = np.sort(pd.unique(array[array > 0]))  # faster than np.unique
    return np.stack([known, np.ones_like(known)])


def _columns_of_taxa(array: Floats, known: Floats) -> NDArray[np.intp]:
    """The column of each class's taxon among the `known` ones.

    All other taxa have one column, which is the last; −1 is for no taxon and −2 for no view.
    """
    numbers = array[:, 0]
    places = find_sorted(numbers, known)
    places[places < 0] = len(known)
    places[numbers == 0] = -1
    places[np.isnan(numbers)] = -2
    return places


def _unique_columns(names: pd.Index, where: str) -> tuple[Any, ...]:
    repeated = names[names.duplicated()].unique()
    if len(repeated):
        raise ValueError(
            f"{where} has several attributes of the same name: {name_some(repeated)}; rename them."
        )
    return tuple(names)


@dataclass(frozen=True)
@saves(
    labels=Saved("n_classes", kind="label"),
    arrays=Saved("n_classes", None, each=True, finite=False),
    names=Saved(kind=str, each=True),
    weights=Saved(least=0, each=True),
    gamma_factors=Saved(above=0, each=True),
    indicators=Saved(kind=bool),
)
class SignatureTable:
    """Validated signatures: one row per class, sorted by label, one array per view.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        Sorted labels without duplicates.
    arrays : tuple of ndarray of shape (n_classes, n_attributes of the view)
        Finite values, in single precision if they were given so; a class that lacks the view has
        a row of NaN.
    columns : tuple of (tuple or None)
        Attribute names of each view, if any.
    names : tuple of str
        Names of the views; one empty name for a single view.
    weights : tuple of float
        Convex weights of the views.
    gamma_factors : tuple of float
        Factors of the kernel parameter γ in each view.
    indicators : bool
        Whether each class is described by its own indicator, because no signatures were given.
    scalings : tuple of (str or None)
        How the columns of each view are scaled; empty if none is.
    units : tuple of (ndarray of shape (2, n_attributes of the view) or None)
        Offset and scale of the columns of each view, computed from the seen classes.
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

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, since another thread may be adding what it computed from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_attributes(self) -> int:
        """Number of attributes in all views together."""
        return sum(
            array.shape[1] if known is None else len(known) + 1
            for array, known in zip(self.arrays, self._taxa, strict=True)
        )

    @property
    def _taxa(self) -> tuple[Floats | None, ...]:
        """Numbers of the taxa with a column of their own, in each view; None for other views."""
        none = (None,) * len(self.arrays)
        return tuple(
            unit[0] if scaling == TAXA and unit is not None else None
            for scaling, unit in zip(self.scalings or none, self.units or none, strict=True)
        )

    def _check_loaded(self) -> None:
        """Refuse views from a model file that do not fit each other."""
        n_views = len(self.arrays)
        parts = [self.columns, self.scalings or (None,) * n_views, self.units or (None,) * n_views]
        every = [*parts, self.arrays, self.names, self.weights, self.gamma_factors]
        if not all(isinstance(part, tuple) and len(part) == n_views for part in every):
            raise ValueError("the views of its signatures do not fit each other")
        if abs(sum(self.weights) - 1) > 1e-9:
            raise ValueError("the weights of its views do not sum to 1")
        refuse_partial_views(self.arrays)
        for array, columns, scaling, unit in zip(self.arrays, *parts, strict=True):
            if columns is not None and len(columns) != array.shape[1]:
                raise ValueError("its signatures have different numbers of attributes and of names")
            width: int | None = array.shape[1]
            if scaling == TAXA and width == 1 and unit is not None:
                width = None
            else:
                check_scaling(scaling, "scalings")
            if unit is not None and (Saved(2, width).problem(unit, {}) or not (unit[1] > 0).all()):
                raise ValueError("the columns of its signatures have invalid units")

    @classmethod
    def from_user(cls, signatures: Any, seen: NDArray[Any]) -> SignatureTable:
        """Read the signatures passed to `fit`, which must describe all `seen` classes.

        None describes each class by its own indicator; the rows of an array follow `seen`, which
        is sorted.
        """
        if signatures is None:
            return cls(seen, (np.eye(len(seen)),), (None,), indicators=True)
        if isinstance(signatures, cls):
            table = signatures
        else:
            table = cls.read(signatures, seen)
            table._check_not_transposed(seen)
        table = table.with_labels_like(seen, "y")
        missing = seen[~is_among(seen, table.labels)].tolist()
        if missing:
            spare = table.labels[~is_among(table.labels, seen)].tolist()
            near = name_near_misses(missing, spare, unknown_in="y", known_in="signatures")
            raise ValueError(
                f"{len(missing)} of the {len(seen)} classes in y have no signature: "
                f"{name_some(missing)}.{near or ' Add a row for each to signatures.'}"
            )
        return table

    @classmethod
    def from_new(cls, signatures: Any, known: DescribedTables, like: Any = None) -> SignatureTable:
        """Read the signatures passed to `add_classes`, with the attributes of `known`.

        Attributes that are not given are copied from `like`, a class of `known`.
        """
        schema = known.first
        if schema.indicators:
            raise ValueError(
                "The model was fitted without signatures, so that no class can be added. Fit again "
                "with signatures= for the classes in y."
            )
        if like is not None or _holds_mappings(signatures):
            signatures = schema.rows_by_name(signatures, *_defaults(known, like))
        table = signatures if isinstance(signatures, cls) else cls.read(signatures, None)
        if not len(table.labels):
            raise ValueError("signatures has no rows; describe at least one class.")
        table = table.with_labels_like(schema.labels, "the fitted classes")
        repeated = table.labels[known.find(table.labels) >= 0].tolist()
        if repeated:
            raise ValueError(
                f"The model already has the classes {name_some(repeated)}; add_classes accepts "
                "only new ones. Remove classes without training samples with remove_classes first, "
                "or fit again."
            )
        refuse_unusable_names(table.labels.tolist(), "signatures")
        known.check_labels(table.labels, "add_classes describes")
        return table.aligned_with(schema)

    @classmethod
    def read(
        cls,
        signatures: Any,
        seen: NDArray[Any] | None,
        where: str = "signatures",
        known: SortedLabels | None = None,
    ) -> SignatureTable:
        """Read signatures in any form, of any classes; errors call them `where`.

        The rows of an array follow the labels `seen`; arrays are not accepted if it is None.
        `known` are the sorted labels of another table.
        """
        if isinstance(signatures, MultiSignatures):
            return cls._read_views(signatures)
        frame, columns = as_frame(signatures, seen, where)
        frame = _numbered_taxa(frame) if _holds_taxa(frame) else frame
        labels, array = sorted_rows(frame, where, known)
        if array.shape[1] == 0:
            raise ValueError(f"{where} has no attributes; each class needs at least one number.")
        zero = ~array.any(axis=1)
        if zero.any():
            warn_user(
                f"The signature of {name_some(labels[zero].tolist())} in {where} is all zeros, "
                "which does not describe a class."
            )
        scaling = frame.attrs.get(SCALING)
        if scaling != TAXA:
            check_scaling(scaling, f"{where}.attrs[{SCALING!r}]")
        scalings = () if scaling is None else (scaling,)
        units = (_units_of_taxa(array),) if scaling == TAXA else ()
        return cls(labels, (array,), (columns,), scalings=scalings, units=units)

    @classmethod
    def _read_views(cls, signatures: MultiSignatures) -> SignatureTable:
        nested = [n for n, view in signatures.views.items() if isinstance(view, MultiSignatures)]
        if nested:
            raise ValueError(
                f"The view {nested[0]!r} is itself MultiSignatures; pass its views with the others."
            )
        tables, known = {}, None
        for name, view in signatures.views.items():
            where = f"the view {name!r} of signatures"
            # Sorting many labels takes most of the time.
            if isinstance(view, pd.DataFrame) and not (known and known.source.is_(view.index)):
                known = SortedLabels.of(view.index, where)
            tables[name] = cls.read(view, None, where, known)
        first_name, first = next(iter(tables.items()))
        described: set[Any] = set()
        for name, table in tables.items():
            table.with_labels_like(first.labels, f"the view {first_name!r}")
            if table.labels is first.labels or np.array_equal(table.labels, first.labels):
                continue
            described = described or set(first.labels.tolist())
            here = set(table.labels.tolist())
            near = name_near_misses(
                sorted(here - described),
                sorted(described - here),
                unknown_in=f"the view {name!r}",
                known_in=f"the view {first_name!r}",
            )
            if near:
                raise ValueError(
                    f"The views {first_name!r} and {name!r} describe different classes; only one "
                    f"of them has {name_some(sorted(here ^ described))}.{near}"
                )
        labels = first.labels
        if described:
            labels = np.unique(np.concatenate([table.labels for table in tables.values()]))
        scalings = tuple((table.scalings or (None,))[0] for table in tables.values())
        units = tuple((table.units or (None,))[0] for table in tables.values())
        return cls(
            labels,
            tuple(_spread(table.arrays[0], table.labels, labels) for table in tables.values()),
            tuple(table.columns[0] for table in tables.values()),
            tuple(tables),
            tuple(signatures.weights.values()),
            tuple(signatures.gamma_factors.values()),
            scalings=scalings if any(scalings) else (),
            units=units if any(scalings) else (),
        )

    def with_labels_like(self, labels: NDArray[Any], where: str) -> SignatureTable:
        """Convert the labels to the dtype of others; raise if they can never be equal."""
        return replace(self, labels=labels_like(self.labels, labels, "signatures", where))

    def check_complete(self, user: str) -> None:
        """Raise if a class lacks a view, on behalf of methods that need every view."""
        lacking = np.any([np.isnan(array).all(axis=1) for array in self.arrays], axis=0)
        if lacking.any():
            raise ValueError(
                f"{user} needs every view of each class, but a view is missing for "
                f"{name_some(self.labels[lacking].tolist())}. Describe these classes in all views, "
                "remove them, or use GaussianEXEM, which compares classes by their common views."
            )

    def _check_not_transposed(self, seen: NDArray[Any]) -> None:
        """Raise if the columns of a view, and not its rows, are the training classes."""
        if is_among(seen, self.labels).all():
            return
        wanted, rows = _normal_forms(seen.tolist()), _normal_forms(self.labels.tolist())
        for name, columns in zip(self.names, self.columns, strict=True):
            n_columns = len(wanted & _normal_forms(columns or ()))
            if n_columns > max(len(wanted & rows), len(wanted) // 2):
                raise ValueError(
                    f"{_view_named(name)} looks transposed: its columns are the classes; pass "
                    "signatures.T."
                )

    def aligned_with(self, known: SignatureTable) -> SignatureTable:
        """Reorder views and attributes to match another table."""
        if not set(self.names) <= set(known.names):
            raise ValueError(
                f"The new signatures have the views {list(self.names)}; those given to fit are "
                f"{list(known.names)}."
            )
        arrays = []
        own = zip(self.arrays, self.columns, self._taxa, strict=True)
        views = dict(zip(self.names, own, strict=True))
        for name, old, old_columns, taxa in zip(
            known.names, known.arrays, known.columns, known._taxa, strict=True
        ):
            if name not in views:
                # A taxonomy without a rank has no view of it: none of the classes has a taxon.
                missing = np.nan if taxa is None else 0.0
                arrays.append(np.full((len(self.labels), old.shape[1]), missing))
                continue
            array, columns, own_taxa = views[name]
            kinds = ["numbers" if each is None else "categories" for each in (own_taxa, taxa)]
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"{_view_named(name)} has {kinds[0]}; the signatures given to fit have "
                    f"{kinds[1]}."
                )
            if array.shape[1] != old.shape[1]:
                raise ValueError(
                    f"The new signatures have {array.shape[1]} attributes; those given to fit have "
                    f"{old.shape[1]}.{_differing_columns(columns, old_columns)}"
                )
            arrays.append(array[:, _column_order(columns, old_columns)])
        return replace(known, labels=self.labels, arrays=tuple(arrays))

    def attribute_names(self) -> list[Any]:
        """Return the attribute names of all views in turn; numbers for unnamed attributes."""
        names: list[Any] = []
        for view, columns, array in zip(self.names, self.columns, self.arrays, strict=True):
            of_view = range(array.shape[1]) if columns is None else columns
            names += [f"{view}: {name}" if view else name for name in of_view]
        return names

    def rows_by_name(self, signatures: Any, *defaults: float) -> Any:
        """Convert values given by attribute name to signatures; see :meth:`from_new`."""
        signatures = indexed_by_label(signatures)
        if isinstance(signatures, pd.DataFrame) and len(signatures):
            _unique_columns(signatures.columns, "signatures")
            given = [(label, dict(row)) for label, row in signatures.iterrows()]
        elif _holds_mappings(signatures, also=pd.Series):
            given = [(label, dict(row)) for label, row in signatures.items()]
        else:
            raise ValueError(
                "like= requires values by attribute: give a mapping label → {attribute: value}, or "
                "a DataFrame with some of the columns."
            )
        names, widths = self.attribute_names(), [array.shape[1] for array in self.arrays]
        is_taxon = np.repeat([taxa is not None for taxa in self._taxa], widths)
        taxa = list(itertools.compress(names, is_taxon))
        of_like = dict(zip(names, defaults, strict=False))
        rows = []
        for label, row in given:
            unknown = [name for name in row if name not in names]
            if unknown:
                raise ValueError(
                    f"{label!r} is described by the attribute {unknown[0]!r}, which the signatures "
                    f"given to fit do not have.{did_you_mean(unknown[0], names)}"
                )
            numbers = {n: _taxon_number(row[n]) for n in taxa if isinstance(row.get(n), str)}
            values = {**of_like, **row, **numbers}
            missing = [name for name in names if name not in values]
            if missing:
                raise ValueError(
                    f"{label!r} has no value for {name_some(missing)}; give all {len(names)} "
                    "attributes, or pass like= with a class to copy them from."
                )
            rows.append([_number(values[name], name, label) for name in names])
        described = label_array([label for label, _ in given], "signatures")
        arrays = tuple(np.split(np.asarray(rows), np.cumsum(widths)[:-1], axis=1))
        return replace(self, labels=described, arrays=arrays).as_user()

    def undescribed(self, labels: NDArray[Any]) -> SignatureTable:
        """Classes without a description, whose signatures are zeros, in the form of this table."""
        refuse_unusable_names(labels.tolist(), "y")
        arrays = tuple(np.zeros((len(labels), a.shape[1]), dtype=a.dtype) for a in self.arrays)
        return replace(self, labels=labels, arrays=arrays)

    def subset(self, rows: NDArray[np.intp] | slice) -> SignatureTable:
        """Select rows by ascending positions."""
        arrays = tuple(array[rows] for array in self.arrays)
        return replace(self, labels=self.labels[rows], arrays=arrays)

    def as_user(self) -> pd.DataFrame | MultiSignatures:
        """Convert the table to a form that `fit` accepts."""
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
        """Return the same views with other weights and factors of γ; None keeps them."""
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
        """Return the row numbers of labels, all of which must exist."""
        found = find_sorted(np.asarray(labels), self.labels)
        if (found < 0).any():
            raise KeyError(np.asarray(labels)[found < 0].tolist()[0])
        return found

    @cached_property
    def form_keys(self) -> NDArray[np.uint64]:
        """Sorted hashes of the labels, equal for labels that differ in case, space or form only."""
        return np.sort(form_keys(self.labels))

    @cached_property
    def _unit_products(self) -> tuple[Floats, NDArray[np.intp]]:
        """Products of the rows at unit length with a random vector, ascending, and their order."""
        rows = gen_batches(len(self.labels), _BATCH)
        products = np.concatenate([_products(self.unit_rows(part)) for part in rows])
        order = np.argsort(products, kind="stable")
        return products[order], order

    def unit_rows(self, rows: Any) -> list[Floats]:
        """Some rows at unit length, of each view with a weight; columns of taxa as numbers."""
        table, found = self.subset(rows), []
        for view, (known, weight) in enumerate(zip(self._taxa, self.weights, strict=True)):
            if weight > 0 and known is not None:
                columns = _columns_of_taxa(table.arrays[view], known)
                found.append(columns[:, None].astype(np.float64))
            elif weight > 0:
                found.append(unit_rows(table._view_in_units(view)))
        return found

    def equal_pairs(self, other: SignatureTable | None = None) -> list[tuple[Any, Any]]:
        """Pairs of labels with equal signatures of unit length, within or between tables.

        The second label is of `other`. Each row is compared with one row, or with some of the other
        table. `read` has already warned of signatures that are zero, which are left out.
        """
        (products, order), tolerance = self._unit_products, 1e-9 * self.n_attributes
        second = self if other is None else other
        if other is None:
            at = np.flatnonzero(np.diff(products) <= tolerance)
            rows = np.sort(np.column_stack([order[at], order[at + 1]]), axis=1)
        else:
            values, others = other._unit_products
            low = np.searchsorted(products, values - tolerance)
            counts = np.searchsorted(products, values + tolerance, side="right") - low
            counts = np.minimum(counts, _MOST_COMPARED)
            at = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            rows = np.column_stack([order[at], np.repeat(others, counts)])
        is_same = _are_equal(self.unit_rows(rows[:, 0]), second.unit_rows(rows[:, 1]))
        rows = rows[is_same]
        is_described = np.any([array[rows[:, 0]].any(axis=1) for array in self.arrays], axis=0)
        pairs = sorted(map(tuple, rows[is_described].tolist()))
        return [(self.labels[i].item(), second.labels[j].item()) for i, j in pairs]

    def warn_equal_signatures(self) -> None:
        """Warn of classes whose signatures of unit length are equal, and thus indistinguishable."""
        warn_of_equal(self.equal_pairs())

    def with_units(self, seen: NDArray[np.intp]) -> SignatureTable:
        """Compute the offset and scale of columns from the rows of the seen classes."""
        units: list[Floats | None] = []
        for array, scaling in zip(self.arrays, self.scalings, strict=False):
            rows = array[seen].astype(np.float64, copy=False)
            rows = rows[~np.isnan(rows).all(axis=1)]  # drop classes that lack the view
            if scaling == TAXA:
                units.append(_units_of_taxa(rows))
            else:
                units.append(units_of(rows, scaling) if scaling and len(rows) else None)
        return replace(self, units=tuple(units))

    def warn_of_units(self, seen: NDArray[np.intp]) -> None:
        """Warn of columns that are so large that they dominate all distances between classes."""
        scalings = self.scalings or (None,) * len(self.arrays)
        for array, scaling, columns, name in zip(
            self.arrays, scalings, self.columns, self.names, strict=True
        ):
            if not (scaling or self.indicators):
                remedy = (
                    "Scale the columns with signature_scaling='standard' (in Python: of "
                    "zslearn.signatures.attribute_signatures)."
                )
                warn_of_dominating(array[seen], columns, _view_named(name), "classes", remedy)

    def in_units(self) -> tuple[Floats, ...]:
        """Return the rows of each view, scaled by the units of the seen classes, if any."""
        return tuple(map(self._view_in_units, range(len(self.arrays))))

    def _view_in_units(self, view: int) -> Floats:
        array, known = self.arrays[view], self._taxa[view]
        if known is None:
            unit = self.units[view] if self.units else None
            scaled: Floats = in_units(array.astype(np.float64, copy=False), unit)
            return scaled
        columns = _columns_of_taxa(array, known)
        rows = np.zeros((len(columns), len(known) + 1))
        rows[columns >= 0, columns[columns >= 0]] = 1
        rows[columns == -2] = np.nan
        return rows

    def groups(self, apart: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """The first row of each group of equal signatures, and the group of each row.

        The labels `apart` are in groups of their own. None unless all views are of taxa.
        """
        keys = np.zeros(len(self.labels), dtype=np.int64)
        for array, known in zip(self.arrays, self._taxa, strict=True):
            if known is None:
                return None
            places = _columns_of_taxa(array, known) + 2
            keys = pd.factorize(keys * (len(known) + 3) + places)[0]
        alone = find_sorted(apart, self.labels)
        keys[alone[alone >= 0]] = len(keys) + np.arange(np.count_nonzero(alone >= 0))
        keys = pd.factorize(keys)[0]
        # Groups are numbered in the order of their first rows.
        return np.unique(keys, return_index=True)[1], keys

    def scales(self, rows: NDArray[np.intp] | slice) -> tuple[float, ...]:
        """Return the median distance in each view between the given rows at unit length."""
        views = [array[~np.isnan(array).all(axis=1)] for array in self.subset(rows).in_units()]
        return tuple(median_distance(unit_rows(array)) if len(array) else 1.0 for array in views)

    def normalized(self, scales: tuple[float, ...], *, keep_views: bool) -> Floats | SignatureViews:
        """Normalise rows to unit length and divide them by the scale of their view.

        With `keep_views`, several views stay separate; otherwise they are concatenated.
        """
        arrays = tuple(
            unit_rows(array) / scale for array, scale in zip(self.in_units(), scales, strict=True)
        )
        if len(arrays) == 1:
            return arrays[0]
        if not keep_views:
            self.check_complete("A method that needs signatures as vectors")
            return SignatureViews(arrays, self.weights).concatenate()
        # γ g ‖a − a′‖² is γ times the squared distance of rows multiplied by √g.
        roots = np.sqrt(self.gamma_factors).tolist()
        scaled = tuple(root * array for root, array in zip(roots, arrays, strict=True))
        return SignatureViews(scaled, self.weights)


def _defaults(known: DescribedTables, like: Any) -> list[float]:
    """The values of all attributes of a described class; empty without one."""
    if like is None:
        return []
    found = known.rows(like)
    if found is None:
        suggestion = did_you_mean(like, known.labels.tolist())
        raise ValueError(f"like={like!r} is not a class of the model.{suggestion}")
    return [float(value) for array in found for value in array]


def _number(value: Any, attribute: Any, label: Any) -> float:
    """Convert a value of a signature to a number."""
    read = as_numbers([value]) or float
    try:
        return read(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"The attribute {attribute!r} of {label!r} must be a number; got {value!r}."
        ) from None


def _holds_mappings(signatures: Any, also: type = Mapping) -> bool:
    """Whether signatures map each class to values by attribute."""
    return (
        isinstance(signatures, Mapping)
        and bool(signatures)
        and all(isinstance(row, (Mapping, also)) for row in signatures.values())
    )


def _spread(array: Floats, own: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """Place the rows of `own` labels among all labels; the others are NaN."""
    if len(own) == len(labels):
        return array
    spread = np.full((len(labels), array.shape[1]), np.nan)
    spread[np.searchsorted(labels, own)] = array
    return spread


#: Number of rows that are normalised at a time.
_BATCH = 1 << 14
#: Number of rows of another table that may be equal to a row and are compared with it.
_MOST_COMPARED = 16


def equal_rows(arrays: Sequence[Floats]) -> list[tuple[int, int]]:
    """Find pairs of rows that are equal up to rounding, each row with one equal row."""
    products = _products(arrays)
    order = np.argsort(products, kind="stable")
    near = np.flatnonzero(np.diff(products[order]) <= 1e-9 * sum(a.shape[1] for a in arrays))
    rows = np.sort(np.column_stack([order[near], order[near + 1]]), axis=1)
    pairs = ([array[rows[:, side]] for array in arrays] for side in (0, 1))
    return sorted(map(tuple, rows[_are_equal(*pairs)].tolist()))


def _products(arrays: Sequence[Floats]) -> Floats:
    """Products of rows with a random vector: equal for equal rows; missing views count as zeros."""
    rng = np.random.default_rng(0)
    products = np.zeros(len(arrays[0]))
    for array in arrays:
        products += np.nan_to_num(array @ rng.random(array.shape[1]))
    return products


def _are_equal(first: Sequence[Floats], second: Sequence[Floats]) -> NDArray[np.bool_]:
    """Whether rows are equal up to rounding in all views."""
    same = (
        np.isclose(a, b, rtol=0, atol=1e-10, equal_nan=True).all(axis=1)
        for a, b in zip(first, second, strict=True)
    )
    return np.logical_and.reduce(list(same))


def warn_of_equal(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Warn of pairs of classes with equal signatures."""
    if pairs:
        pairs_of = "pair" if len(pairs) == 1 else "pairs"
        warn_user(
            f"{len(pairs)} {pairs_of} of classes cannot be distinguished, because their "
            f"normalised signatures are equal: {name_some(pairs)}."
        )


def form_keys(labels: NDArray[Any]) -> NDArray[np.uint64]:
    """Hashes of labels, equal for strings that differ in case, spaces or Unicode form only."""
    if labels.dtype.kind != "U" or not len(labels):
        return np.empty(0, dtype=np.uint64)
    keys = [_form_keys(labels[part]) for part in gen_batches(len(labels), _BATCH)]
    return np.concatenate(keys)


def _form_keys(labels: NDArray[Any]) -> NDArray[np.uint64]:
    width = max(1, labels.dtype.itemsize // 4)
    codes = np.ascontiguousarray(labels).view(np.uint32).reshape(len(labels), -1).T
    # Case folding makes a letter at most three letters.
    factors = np.random.default_rng(0).integers(1 << 62, size=3 * width, dtype=np.uint64) * 2 + 1
    keys = np.zeros(len(labels), dtype=np.uint64)
    # Letters of ASCII with single spaces between words need no Python string.
    is_plain, after_space = np.ones(len(labels), dtype=bool), np.ones(len(labels), dtype=bool)
    for code, factor in zip(codes, factors, strict=False):
        is_space = code == ord(" ")
        is_plain &= (code < 128) & ((code > 32) | (code == 0) | is_space)
        is_plain &= ~(after_space & (is_space | (code == 0)))
        after_space = is_space
        is_upper = (code >= ord("A")) & (code <= ord("Z"))
        keys += np.where(is_upper, code + 32, code) * factor
    is_plain &= ~after_space
    for place in np.flatnonzero(~is_plain).tolist():
        form = " ".join(composed(str(labels[place])).split()).casefold()
        letters = np.frombuffer(form.encode("utf-32-le", "surrogatepass"), np.uint32)
        keys[place] = (letters * factors[: len(letters)]).sum(dtype=np.uint64)
    return keys


def _normal_forms(names: Iterable[Any]) -> set[str]:
    """Normalise names so that differences in spelling do not count."""
    return set(map(normal_form, names))


def _view_named(name: str) -> str:
    return f"the view {name!r} of signatures" if name else "signatures"


def _column_order(new: tuple[Any, ...] | None, old: tuple[Any, ...] | None) -> list[int] | slice:
    """Return the positions of the old attributes among the new; unnamed ones keep their order."""
    if new is None or old is None or new == old:
        return slice(None)
    if set(new) == set(old):
        places = {name: place for place, name in enumerate(new)}
        return [places[name] for name in old]
    if list(new) == list(range(len(new))) or list(old) == list(range(len(old))):
        return slice(None)
    raise ValueError(
        "The new signatures have other attributes than those given to fit."
        f"{_differing_columns(new, old)}"
    )


def _differing_columns(new: tuple[Any, ...] | None, old: tuple[Any, ...] | None) -> str:
    """Describe in which attributes two tables differ, if both have names."""
    if new is None or old is None:
        return ""
    in_new, in_old = set(new), set(old)
    only_new = [name for name in new if name not in in_old]
    only_old = [name for name in old if name not in in_new]
    near = name_near_misses(
        only_new, only_old, unknown_in="the new signatures", known_in="signatures given to fit"
    )
    return f" Only one of them has {name_some([*only_new, *only_old])}.{near}"
