"""Build signatures from attribute tables: report, scale and binarise them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._validation import (
    SCALING,
    is_missing,
    not_numbers,
    numeric_columns,
    refuse_text,
    warn_of_dominating,
)
from zslearn.signatures._table import (
    as_frame,
    equal_rows,
    finite_numbers,
    indexed_by_label,
    with_scaling,
)
from zslearn.signatures._views import MultiSignatures, map_views

Missing = Literal["error", "mean", "drop"]


class IndistinctPair(NamedTuple):
    """Two indistinguishable classes, and the attributes in which they differ."""

    first: Any
    second: Any
    attributes: list[str]

    def __str__(self) -> str:
        names = f"differ only in {name_some(self.attributes, 3)}" if self.attributes else "equal"
        return f"{name_some([self.first])} and {name_some([self.second])} ({names})"


@dataclass(frozen=True)
class _AttributeReport:
    """Summary of an attribute table."""

    n_classes: int
    n_attributes: int
    #: "binary" if every column holds 0 and 1 or −1 and 1, "continuous" if none does, else "mixed".
    #: Constant and empty columns do not count.
    kind: str
    constant: list[str]  # columns with a single value
    empty: list[str]  # columns without values
    missing: dict[str, int]  # column → number of missing values
    #: Pairs of indistinguishable classes, and the attributes in which they differ.
    indistinct: list[IndistinctPair]

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
        if self.indistinct:
            pairs, n_more = ", ".join(map(str, self.indistinct[:5])), len(self.indistinct) - 5
            lines.append(f"indistinguishable: {pairs}" + f" and {n_more} more" * (n_more > 0))
        return "\n".join(lines)


def attribute_report(
    table: pd.DataFrame, *, seen_classes: Iterable[Any] | None = None
) -> _AttributeReport:
    """Summarise an attribute table and its problems.

    Parameters
    ----------
    table : DataFrame
        See :func:`attribute_signatures`.
    seen_classes : iterable of labels or None, default=None
        The classes with training samples, from which a method learns what attributes mean.

    Returns
    -------
    AttributeReport
        Its attributes are `n_classes`, `n_attributes`, `kind`, the columns that are `constant` or
        `empty` or have `missing` values, and `indistinct`: pairs of classes with equal attributes,
        or which differ only in attributes that do not vary over the seen classes, and the names of
        these. ``str(report)`` is a readable summary.

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
    filled = numbers.fillna(numbers.mean()).fillna(0.0)
    indistinct = indistinct_pairs(numbers, filled, seen_classes=seen_classes)
    return _AttributeReport(*numbers.shape, kind, constant, empty, missing, indistinct)


def indistinct_pairs(
    table: pd.DataFrame, numbers: pd.DataFrame, *, seen_classes: Iterable[Any] | None = None
) -> list[IndistinctPair]:
    """Find pairs of classes that no method can distinguish by their attributes.

    A method learns the meaning of an attribute from classes with samples: a difference of two
    classes outside the span of the differences between seen classes has no known effect.

    Parameters
    ----------
    table : DataFrame
        One row per class.
    numbers : DataFrame
        The same classes in the same order, as numbers without missing values.
    seen_classes : iterable of labels or None, default=None
        The classes with samples; by default all.

    Returns
    -------
    list of IndistinctPair
        The pairs, and the columns of `table` in which they differ.
    """
    rows = numbers.to_numpy(dtype=np.float64)
    is_seen = np.ones(len(rows), bool)
    if seen_classes is not None:
        is_seen = numbers.index.isin(list(seen_classes))
    if not is_seen.any():
        return []
    spread = rows.std(axis=0)
    rows = (rows - rows[is_seen].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, sizes, directions = np.linalg.svd(rows[is_seen], full_matrices=False)
    known = directions[sizes > _TOLERANCE * max(1.0, sizes.max(initial=0.0))]
    pairs = []
    for i, j in equal_rows([rows @ known.T]):
        if is_seen[i] and is_seen[j] and seen_classes is not None:
            continue
        first, second = (table.iloc[place] for place in (i, j))
        differ = [
            str(name)
            for name in table.columns
            if first[name] != second[name]
            and not (is_missing(first[name]) and is_missing(second[name]))
        ]
        pairs.append(IndistinctPair(numbers.index[i], numbers.index[j], differ))
    return pairs


def attribute_signatures(
    table: pd.DataFrame,
    *,
    missing: Missing = "error",
    drop_constant: bool = False,
    signature_scaling: str | None = None,
) -> pd.DataFrame:
    """Build signatures from a table of continuous or binary attributes.

    Parameters
    ----------
    table : DataFrame
        One row per class with numbers, booleans, or yes and no; the index holds the labels.
    missing : {"error", "mean", "drop"}, default="error"
        How to treat missing values: raise an error that names the columns, fill in the column mean,
        or drop the column.
    drop_constant : bool, default=False
        Whether to drop columns with a single value. They do not distinguish classes, but contribute
        to the norm of a signature. If they are kept, a warning names them.
    signature_scaling : {"standard", "range"} or None, default=None
        How columns in different units, such as yes/no and kilograms, are scaled: "standard" to mean
        0 and standard deviation 1 over the seen classes, "range" to the interval from 0 to 1.

    Returns
    -------
    DataFrame
        The attributes as numbers in their original units, without missing values. A method applies
        the scaling in ``attrs["signature_scaling"]`` when it is fitted, and again to classes that
        are added later.

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
        raise ValueError(f"missing={missing!r} must be 'error', 'mean' or 'drop'.")
    numbers = _numbers(table)
    report = attribute_report(numbers)
    if report.missing and missing == "error":
        raise ValueError(
            f"Attributes have missing values in {len(report.missing)} of {report.n_attributes} "
            f"columns: {name_some(report.missing)}. Fill them in, or pass missing='mean' or "
            "missing='drop'."
        )
    dropped = set(report.missing if missing == "drop" else report.empty)
    if drop_constant:
        dropped |= set(report.constant)
    elif report.constant:
        warn_user(
            f"{len(report.constant)} attributes are the same for all classes: "
            f"{name_some(report.constant)}."
        )
    numbers = numbers.drop(columns=list(dropped))
    if not numbers.shape[1]:
        raise ValueError("All attributes were dropped.")
    numbers = numbers.fillna(numbers.mean())
    return with_scaling(
        numbers.rename_axis(index=str(numbers.index.names[0] or "class")), signature_scaling
    )


def scale_signatures(
    signatures: pd.DataFrame,
    scaling: str | None = "auto",
    *,
    seen_classes: Iterable[Any] | None = None,
    where: str = "signatures",
) -> pd.DataFrame:
    """Set how signature columns in different units are scaled when a method is fitted.

    Parameters
    ----------
    signatures : DataFrame
        One row per class.
    scaling : {"auto", "standard", "range"} or None, default="auto"
        See `signature_scaling` of :func:`attribute_signatures`. "auto" keeps the scaling that the
        table already has. Otherwise it chooses "standard", with a warning, if a few columns are so
        much larger than the others that they would dominate all distances between classes.
    seen_classes : iterable of labels or None, default=None
        The classes whose rows "auto" considers; by default all.
    where : str, default="signatures"
        Name of the table in messages.

    Returns
    -------
    DataFrame
        The same numbers; ``attrs["signature_scaling"]`` holds the scaling.
    """
    signatures = indexed_by_label(signatures)
    if scaling == "auto":
        if SCALING in signatures.attrs:
            return signatures
        is_seen = signatures.index.isin(
            list(signatures.index if seen_classes is None else seen_classes)
        )
        rows = numeric_columns(signatures[is_seen], where)
        remedy = (
            "All columns of the signatures are standardised over the seen classes; pass "
            "signature_scaling=None to leave them unchanged."
        )
        is_large = not not_numbers(rows) and warn_of_dominating(
            rows.to_numpy(dtype=np.float64), rows.columns, where, "classes", remedy
        )
        scaling = "standard" if is_large else None
    return with_scaling(signatures, scaling)


def _numbers(table: Any) -> pd.DataFrame:
    """Validate an attribute table and convert it to float64, with strings as column names."""
    table = indexed_by_label(table)
    if not isinstance(table, pd.DataFrame) or not table.size:
        raise ValueError("Attributes must be a DataFrame with one row per class; it is empty.")
    if not table.index.is_unique:
        repeated = table.index[table.index.duplicated()].unique()
        raise ValueError(f"Attributes describe {name_some(repeated)} more than once.")
    numbers = numeric_columns(table, "attributes")
    refuse_text(numbers, "attributes")
    numbers = pd.DataFrame(
        numbers.to_numpy(dtype=np.float64, na_value=np.nan),
        index=table.index,
        columns=[str(name) for name in table.columns],
    )
    if not numbers.columns.is_unique:
        raise ValueError("Two attribute columns have the same name.")
    if (infinite := np.argwhere(np.isinf(numbers.to_numpy()))).size:
        row, column = infinite[0]
        raise ValueError(
            f"The attribute {numbers.columns[column]!r} of {name_some([table.index[row]])} is "
            "infinite."
        )
    return numbers


BinaryKind = Literal["zero-one", "signs"]

#: Values of a row that differ by less than this share of the largest one count as equal.
_TOLERANCE = 1e-9


def binarize_signatures(
    signatures: Any, *, threshold: Literal["mean"] | float = "mean", classes: Any = None
) -> Any:
    """Binarise signatures: 1 for attributes above a threshold, else 0.

    Parameters
    ----------
    signatures : DataFrame, mapping, array of shape (n_classes, n_attributes) or MultiSignatures
        One row per class; a polars DataFrame has the labels in its column "class". Signatures that
        are already 0 and 1 are unchanged. Each view of several is binarised separately.
    threshold : "mean" or float, default="mean"
        The mean of each attribute over `classes`, or one number for all attributes. Values must be
        strictly above the threshold, for "mean" by more than rounding errors.
    classes : array-like of labels, optional
        The classes to average over, by label, or by position for an array. By default all; pass the
        seen classes so that unseen ones do not affect the result.

    Returns
    -------
    DataFrame, ndarray or MultiSignatures
        0 and 1 in int8; an array if `signatures` is one.

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
        return map_views(
            signatures, lambda view: binarize_signatures(view, threshold=threshold, classes=classes)
        )
    positions = None if isinstance(signatures, Mapping) else np.arange(len(signatures))
    frame, columns = as_frame(signatures, positions, "signatures")
    rows = finite_numbers(frame, "signatures")
    if 0 in rows.shape:
        raise ValueError(f"signatures must have one row per class; got shape {rows.shape}.")
    if threshold != "mean" and not (isinstance(threshold, Real) and np.isfinite(threshold)):
        raise ValueError(f'threshold must be "mean" or a finite number; got {threshold!r}.')
    averaged = rows
    if classes is not None:
        wanted = np.asarray(classes).tolist()
        if not wanted:
            raise ValueError("classes is empty; name at least one class, or omit it.")
        if unknown := [label for label in wanted if label not in frame.index]:
            raise ValueError(f"signatures do not describe these classes: {name_some(unknown)}.")
        averaged = rows[frame.index.get_indexer(wanted)]
    if threshold != "mean":
        binary = rows > threshold
    else:
        is_binary = np.isin(rows, (0, 1)).all()
        binary = rows if is_binary else rows > mean_levels(averaged)
    result = pd.DataFrame(binary.astype(np.int8), frame.index, frame.columns)
    return result if columns is not None or isinstance(signatures, Mapping) else result.to_numpy()


def binary_rows(rows: NDArray[np.float64], kind: BinaryKind) -> NDArray[np.bool_]:
    """Whether each row is a positive multiple of a binary vector."""
    size = np.abs(rows)
    top = size.max(axis=1, keepdims=True)
    is_full = np.abs(size - top) <= _TOLERANCE * top
    if kind == "signs":
        return is_full.all(axis=1) & (top[:, 0] > 0)
    return (is_full & (rows >= 0) | (size <= _TOLERANCE * top)).all(axis=1)


def without_noise(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace the values of binary rows that :func:`binary_rows` counts as 0 by exact zeros."""
    size = np.abs(rows)
    return np.where(size <= _TOLERANCE * size.max(axis=1, keepdims=True), 0.0, rows)


def mean_levels(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Column means, raised slightly so that rounding lifts no equal value above them."""
    return rows.mean(axis=0) + _TOLERANCE * np.abs(rows).max(axis=0)


def binary_kind(rows: NDArray[np.float64]) -> BinaryKind | None:
    """Return the kind of binary rows if all rows are of it, else None."""
    for kind in get_args(BinaryKind):
        if binary_rows(rows, kind).all():
            return kind
    return None


def refuse_mixed_signatures(
    signatures: NDArray[np.float64], kind: BinaryKind | None, labels: NDArray[Any], method: str
) -> None:
    """Raise if some classes are not binary although the seen classes are.

    Next to binary classes, any positive strength would count as having the attribute.
    """
    if kind is None:
        return
    mixed = ~binary_rows(signatures, kind)
    if mixed.any():
        raise ValueError(
            "The seen classes have binary signatures, but these classes do not: "
            f"{name_some(labels[mixed].tolist())}. {method} needs either all or none of them "
            "binary; convert them with zslearn.signatures.binarize_signatures."
        )
