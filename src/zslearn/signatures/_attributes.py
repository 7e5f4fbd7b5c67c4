"""Signatures from attributes: what a table of them holds, their units, and binary ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._validation import (
    SCALING,
    columns_named,
    dominating_columns,
    not_numbers,
    numeric_columns,
    refuse_text,
)
from zslearn.signatures._table import as_frame, with_scaling
from zslearn.signatures._views import MultiSignatures

Missing = Literal["error", "mean", "drop"]


@dataclass(frozen=True)
class _AttributeReport:
    """What is in a table of attributes."""

    n_classes: int
    n_attributes: int
    #: "binary" where columns hold two values, 0 and 1 or −1 and 1, "continuous" with any numbers,
    #: "mixed" with some of either. Constant and empty columns do not count.
    kind: str
    constant: list[str]  # columns with one value: they say nothing of a class
    empty: list[str]  # columns without any value
    missing: dict[str, int]  # columns that lack values, and how many

    def __str__(self) -> str:
        lines = [f"{self.n_classes} classes, {self.n_attributes} attributes, {self.kind}"]
        if self.constant:
            lines.append(f"constant: {len(self.constant)}, {name_some(self.constant)}")
        if self.empty:
            lines.append(f"empty: {len(self.empty)}, {name_some(self.empty)}")
        if self.missing:
            worst = sorted(self.missing, key=lambda name: -self.missing[name])
            listed = ", ".join(f"{plain(name)} ({self.missing[name]})" for name in worst[:5])
            more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
            lines.append(f"with missing values: {len(self.missing)}, {listed}{more}")
        return "\n".join(lines)


def attribute_report(table: pd.DataFrame) -> _AttributeReport:
    """Say what is in a table of attributes, and what is wrong with it.

    Parameters
    ----------
    table : DataFrame
        As of :func:`attribute_signatures`.

    Returns
    -------
    AttributeReport
        Numbers of classes and attributes, `kind`, `constant` columns, `empty` ones and those with
        `missing` values; `str` gives it as text.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import attribute_report
    >>> table = pd.DataFrame({"stripes": [1, 0, None], "legs": [1, 1, 1]},
    ...                      index=["zebra", "horse", "okapi"])
    >>> print(attribute_report(table))
    3 classes, 2 attributes, binary
    constant: 1, 'legs'
    with missing values: 1, stripes (1)
    """
    numbers = _numbers(table)
    empty = [str(name) for name, column in numbers.items() if column.isna().all()]
    constant = [str(name) for name, column in numbers.items() if column.nunique() == 1]
    kinds = {
        "binary" if set(column.dropna()) in ({0, 1}, {-1, 1}) else "continuous"
        for _, column in numbers.items()
        if column.nunique() > 1
    }
    n_missing = numbers.isna().sum()
    kind = kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "constant"
    missing = {str(name): int(count) for name, count in n_missing.items() if count}
    return _AttributeReport(*table.shape, kind, constant, empty, missing)


def attribute_signatures(
    table: pd.DataFrame,
    *,
    missing: Missing = "error",
    drop_constant: bool = False,
    signature_scaling: str | None = None,
) -> pd.DataFrame:
    """Make signatures of a table of attributes, continuous or binary.

    Parameters
    ----------
    table : DataFrame
        One row per class, in numbers, truth values, or yes and no; the index holds the labels.
    missing : {"error", "mean", "drop"}, default="error"
        What becomes of missing values: an error that names the columns, the mean of the column, or
        the column is left out.
    drop_constant : bool, default=False
        Whether columns with one value are left out. They say nothing of a class, but count for the
        norm of its signature. Where they are kept, a warning names them.
    signature_scaling : {"standard", "range"} or None, default=None
        How columns in different units, such as yes and no beside kilograms, are scaled: to mean 0
        and deviation 1 over the seen classes, or from 0 to 1 there. None leaves them.

    Returns
    -------
    DataFrame
        The attributes as numbers, without missing values. They stay in their units:
        ``attrs["signature_scaling"]`` says what a method does with them, and with those of classes
        that are described later, once it is fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import attribute_signatures
    >>> table = pd.DataFrame({"stripes": [1, 0, 0], "weight_kg": [300, 0.02, 5000]},
    ...                      index=["zebra", "mouse", "elephant"])
    >>> attribute_signatures(table, signature_scaling="standard").attrs
    {'signature_scaling': 'standard'}
    """
    if missing not in ("error", "mean", "drop"):
        raise ValueError(f"missing={missing!r}; there are 'error', 'mean' and 'drop'.")
    numbers = _numbers(table)
    report = attribute_report(numbers)
    lacking = report.missing
    if lacking and missing == "error":
        raise ValueError(
            f"Attributes lack values in {len(lacking)} of {report.n_attributes} columns: "
            f"{name_some(lacking)}. Fill them in, or say missing='mean' or missing='drop'."
        )
    left_out = set(lacking) if missing == "drop" else set(report.empty)
    if drop_constant:
        left_out |= set(report.constant)
    elif report.constant:
        warn_user(
            f"{len(report.constant)} attributes are the same for all classes: "
            f"{name_some(report.constant)}."
        )
    numbers = numbers[[name for name in numbers if name not in left_out]]
    if not numbers.shape[1]:
        raise ValueError("No attribute is left.")
    numbers = numbers.fillna(numbers.mean())
    return with_scaling(
        numbers.rename_axis(index=str(table.index.names[0] or "class")), signature_scaling
    )


def scale_signatures(
    signatures: pd.DataFrame,
    scaling: str | None = "auto",
    *,
    seen_classes: Iterable[Any] | None = None,
    where: str = "signatures",
) -> pd.DataFrame:
    """Say how columns of signatures in different units are scaled when a method is fitted.

    Parameters
    ----------
    signatures : DataFrame
        One row per class.
    scaling : {"auto", "standard", "range"} or None, default="auto"
        As `signature_scaling` of :func:`attribute_signatures`. "auto" keeps what the table says,
        else is "standard" where a few columns have numbers so much larger than the others that they
        alone decide which classes are near, which a warning names; else None.
    seen_classes : iterable of labels or None, default=None
        The classes whose rows "auto" looks at; by default all.
    where : str, default="signatures"
        Name of the table, for messages.

    Returns
    -------
    DataFrame
        The same numbers; ``attrs["signature_scaling"]`` holds the scaling.
    """
    if scaling == "auto":
        if SCALING in signatures.attrs:
            return signatures
        is_seen = signatures.index.isin(
            list(signatures.index if seen_classes is None else seen_classes)
        )
        rows = numeric_columns(signatures[is_seen], where)
        large = [] if not_numbers(rows) else dominating_columns(rows.to_numpy(dtype=np.float64))
        scaling = "standard" if large else None
        if large:
            warn_user(
                f"{where}: {columns_named(large, rows.columns)} of the signatures has numbers so "
                "much larger than the other columns that it alone would decide which classes are "
                "near each other. All columns are brought to mean 0 and deviation 1 over the "
                "seen classes; signature_scaling=None leaves them."
            )
    return with_scaling(signatures, scaling)


def _numbers(table: Any) -> pd.DataFrame:
    """The table in float64, its columns named by strings; refuse what is no table of attributes."""
    if not isinstance(table, pd.DataFrame) or not table.size:
        raise ValueError("Attributes must be a DataFrame with one row per class; it is empty.")
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()].unique()
        raise ValueError(f"Attributes describe {name_some(twice)} more than once.")
    names = [str(name) for name in table.columns]
    if len(set(names)) != len(names):
        raise ValueError("Two columns of attributes have one name.")
    table = numeric_columns(table, "attributes")
    refuse_text(table, "attributes")
    columns = {
        str(name): column.to_numpy(dtype=np.float64, na_value=np.nan)
        for name, column in table.items()
    }
    numbers = pd.DataFrame(columns, index=table.index)
    for name, column in numbers.items():
        if np.isinf(column).any():
            label = table.index[int(np.isinf(column).argmax())]
            raise ValueError(f"The attribute {name!r} of {name_some([label])} is infinite.")
    return numbers


# Binary signatures.

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
    DataFrame, ndarray or MultiSignatures
        0 and 1 of type int8, as an array where `signatures` is one.

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
    if isinstance(threshold, str) and threshold != "mean":
        raise ValueError(f'threshold must be "mean", a number or an array; got {threshold!r}.')
    chosen = rows if classes is None else rows[_positions(classes, frame.index)]
    if isinstance(threshold, str):
        is_binary = np.isin(rows, (0, 1)).all()
        binary = rows if is_binary else rows > mean_levels(chosen)
    else:
        if isinstance(threshold, pd.Series) and columns is not None:
            threshold = _by_name(threshold, frame.columns)
        levels = np.asarray(threshold, dtype=np.float64)
        if levels.shape not in {(), (rows.shape[1],)} or not np.isfinite(levels).all():
            raise ValueError(
                f"threshold must be one finite number, or one for each of the {rows.shape[1]} "
                f"attributes; got {'a number' if not levels.shape else levels.shape}."
            )
        binary = rows > levels
    found = pd.DataFrame(binary.astype(np.int8), frame.index, frame.columns)
    return found if columns is not None or isinstance(signatures, Mapping) else found.to_numpy()


def _by_name(threshold: pd.Series, names: pd.Index) -> NDArray[Any]:
    """Thresholds in the order of the attributes."""
    unknown = [name for name in names if name not in threshold.index]
    if unknown or len(threshold) != len(names) or not threshold.index.is_unique:
        has = f"it lacks {name_some(unknown)}" if unknown else f"it has {len(threshold)} entries"
        raise ValueError(f"threshold must name each of the {len(names)} attributes once; {has}.")
    return threshold.loc[list(names)].to_numpy()


def _positions(classes: Any, labels: pd.Index) -> NDArray[np.intp]:
    """Rows of the classes that a mean is taken over."""
    where = {label: i for i, label in enumerate(labels)}
    wanted = np.asarray(classes).tolist()
    unknown = [label for label in wanted if label not in where]
    if unknown:
        raise ValueError(f"classes names what signatures do not describe: {name_some(unknown)}.")
    if not wanted:
        raise ValueError("classes is empty: name at least one, or leave it out.")
    return np.asarray([where[label] for label in wanted], dtype=np.intp)


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
