"""Turn the columns of a table into numbers, and keep how this was done for further tables.

Every column has one of a few kinds:

====================  ==================================================================
number                the value; the median of the training rows where it is missing
yes/no                1 and 0
category              one column per frequent value, one for all rare ones together
date                  days, and the season as a point on a circle
dropped               constants, identifiers, copies of the label, free text
====================  ==================================================================

Whether a value is missing, dates, categories and yes/no columns are used only if they tell classes
apart on held-out rows: the mean of the other rows of the class must predict them better than the
mean of all other rows does.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._utils._array import Floats
from zslearn._utils._messages import name_near_misses, name_some, plain, warn_user
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._validation import (
    SCALINGS,
    YES_NO,
    as_pandas,
    checks_parameters,
    in_units,
    units_of,
)

#: Names that pandas gives to an index saved with a table.
_SAVED_INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__")
#: Names of columns that number or name the rows.
_ID_NAME = re.compile(r"(^|[\s_\-.])(id|uuid|guid|key|index|row|nr|no)$", re.IGNORECASE)
#: Texts that mean a missing value among numbers, without case.
_NO_VALUE = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "missing", "?", "-", "--"})
#: Formats of dates, tried in this order; "" is for columns that hold dates already.
_DATE_FORMATS = (
    *("", "ISO8601", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d"),
    *("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"),
)
#: Texts that one of them may fit.
_DATE = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|^(?:19|20)\d{6}$"
#: This share of the values must be numbers, or dates, for the column to hold them.
_MOSTLY = 0.95
#: Text with more distinct values than this share of the rows names or describes the rows.
_IDENTIFIER_SHARE = 0.5
#: A value of a category is rare below this share of the rows, and below this number of rows.
_RARE_SHARE, _RARE_ROWS = 0.01, 3
#: Gain of a column on held-out rows, besides chance, below which it is not used.
_LEAST_GAIN = 0.02
#: With fewer rows, no column can be shown to tell classes apart.
_FEWEST_COMPARED = 30
#: A table of fewer rows may count them by chance.
_FEWEST_ROWS = 5
#: Decimal signs, and what may separate groups of three digits then.
_SEPARATORS = {".": ",", ",": "."}
#: Numbers by decimal sign.
_NUMBERS = {
    sign: rf"[-+]?(([1-9]\d{{0,2}}(\{group}\d{{3}})+|\d+)(\{sign}\d*)?|\{sign}\d+)(e[-+]?\d+)?"
    for sign, group in _SEPARATORS.items()
}
_KINDS = ("number", "yes/no", "category", "date", "dropped")
_DATE_PARTS = ("days", "season (sine)", "season (cosine)")
_DAYS_OF_YEAR = 365.25


@saved_part
@dataclass(frozen=True)
class PreparedColumn:
    """How one column of a table becomes numbers."""

    name: str
    kind: str
    fill: float = 0.0  # for a missing number
    decimal: str = "."  # sign in numbers that are text
    n_missing: int = 0  # in the rows given to `fit`
    levels: tuple[str, ...] = ()  # values of a category, without case
    pools_others: bool = False  # whether the other values have a column, too
    date_format: str = ""
    indicates_missing: bool = False
    reason: str = ""  # why the column is dropped

    def __post_init__(self) -> None:
        texts = (self.name, self.kind, self.date_format, self.reason, *self.levels)
        is_valid = (
            all(isinstance(text, str) for text in texts)
            and self.kind in _KINDS
            and self.decimal in _NUMBERS
            and isinstance(self.n_missing, int)
            and self.date_format in _DATE_FORMATS
            and isinstance(self.levels, tuple)
            and isinstance(self.fill, float)
            and np.isfinite(self.fill)
        )
        if not is_valid:
            raise ValueError(f"the column {plain(self.name, 60)!r} is prepared in no known way")

    @property
    def outputs(self) -> list[str]:
        """Names of the columns of numbers."""
        names = [self.name]
        if self.kind == "category":
            names = [f"{self.name}: {level}" for level in self.levels]
            names += [f"{self.name}: other"] if self.pools_others else []
        elif self.kind == "date":
            names = [f"{self.name}: {part}" for part in _DATE_PARTS]
        elif self.kind == "dropped":
            names = []
        return names + ([f"{self.name}: missing"] if self.indicates_missing else [])

    @property
    def is_scaled(self) -> list[bool]:
        """Whether each output is a quantity; others are only centred."""
        n_indicators = int(self.indicates_missing)
        n_others = len(self.outputs) - n_indicators
        return [self.kind in ("number", "date")] * n_others + [False] * n_indicators

    def numbers(self, values: pd.Series, *, checks_text: bool = True) -> Floats:
        """Convert values to one column per output; `checks_text` warns of text among numbers."""
        found, is_missing = self._read(values)
        if checks_text:
            self._check_text(values, is_missing)
        return np.column_stack([found, is_missing]) if self.indicates_missing else found

    def _read(self, values: pd.Series) -> tuple[Floats, NDArray[np.bool_]]:
        """The outputs except the indicator, and where values are missing."""
        if self.kind == "category":
            texts = _texts(values)
            blocks = [texts == level for level in self.levels]
            if self.pools_others:
                blocks.append(~texts.isna() & ~texts.isin(self.levels))
            found = np.column_stack([np.asarray(block, dtype=np.float64) for block in blocks])
            return found, texts.isna().to_numpy()
        if self.kind == "date":
            days = _days(values, self.date_format)
            is_missing = np.isnan(days)
            angle = 2 * np.pi * np.where(is_missing, self.fill, days) / _DAYS_OF_YEAR
            # A missing date has no season: the middle of the circle.
            circle = np.where(is_missing, 0.0, [np.sin(angle), np.cos(angle)])
            return np.column_stack([np.where(is_missing, self.fill, days), *circle]), is_missing
        if self.kind == "yes/no":
            single = _as_yes_no(values)
        else:
            single = _as_numbers(values, self.decimal)
        is_missing = np.isnan(single)
        return np.where(is_missing, self.fill, single)[:, None], is_missing

    def _check_text(self, values: pd.Series, is_missing: NDArray[np.bool_]) -> None:
        """Warn of values of a column of numbers that are none; refuse a column without numbers."""
        if self.kind != "number" or _has_numbers(values) or not is_missing.any():
            return
        odd = _texts(values)[is_missing].dropna()
        if odd.empty:
            return
        if is_missing.all():
            raise ValueError(
                f"The column {self.name!r} must hold numbers, and has {name_some(odd.unique(), 1)}."
            )
        warn_user(
            f"The column {self.name!r} holds numbers except for {name_some(odd.unique(), 3)}, in "
            f"{len(odd)} rows; these are treated as missing."
        )


@saved_part
@saves(
    feature_names_in_=Saved(kind=np.ndarray),
    n_features_in_=Saved(kind="int", least=1, counts="n_columns"),
    columns_=Saved(kind=PreparedColumn, each=True, counts="n_columns"),
    shift_=Saved("n_outputs"),
    scale_=Saved("n_outputs", above=0),
)
@dataclass(eq=False, repr=False)
class TablePreparation(TransformerMixin, BaseEstimator):
    """Turn a table with numbers, categories, dates and missing values into an array of numbers.

    `fit` decides what happens to each column, and `transform` does the same to further tables,
    whose columns may come in any order. Numbers are scaled, and the median replaces missing ones.
    Yes and no become 1 and 0, categories one column per frequent value and one for all rare ones,
    dates the number of days and the season. Constants, identifiers and columns that copy the label
    are dropped. If `y` is given, dates, categories, yes/no columns and indicators of missing values
    are used only if they tell classes apart on held-out rows.

    Parameters
    ----------
    scaling : {"standard", "robust", "range"} or None, default="standard"
        Scale numbers to mean 0 and standard deviation 1, by median and interquartile range, or to
        the interval from 0 to 1. None keeps them. Otherwise columns of 1 and 0 are centred, not
        scaled.
    missing : {"median", "mean"}, default="median"
        What replaces a missing number.
    max_levels : int, default=30
        Values of a category with columns of their own.

    Attributes
    ----------
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns.
    columns_ : list of PreparedColumn
        What happens to each column.
    shift_, scale_ : ndarray of shape (n_outputs,)
        Subtracted from the numbers, and what they are then divided by.

    See Also
    --------
    zslearn.model_selection.TableClassifier : Chooses the scaling on held-out classes.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.datasets import TablePreparation
    >>> table = pd.DataFrame(
    ...     {"weight": [1.0, None, 3.0], "colour": ["red", "blue", "red"], "unit": ["g", "g", "g"]}
    ... )
    >>> prepare = TablePreparation(scaling=None).fit(table)
    >>> prepare.transform(table).tolist()
    [[1.0, 0.0, 1.0], [2.0, 1.0, 0.0], [3.0, 0.0, 1.0]]
    >>> print(prepare.summary())
    1 number, 1 category (2 columns); dropped: 'unit' (constant); 1 missing value is the median
    """

    _: KW_ONLY
    scaling: str | None = "standard"
    missing: str = "median"
    max_levels: int = 30

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "scaling": [StrOptions(set(SCALINGS)), None],
        "missing": [StrOptions({"median", "mean"})],
        "max_levels": [Interval(Integral, 1, None, closed="left")],
    }

    @checks_parameters()
    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what happens to each column.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_columns)
            A pandas or polars DataFrame, or an array of numbers.
        y : array-like of shape (n_rows,), optional
            Class labels.

        Returns
        -------
        self
            The fitted preparation.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, varying: Collection[Any] = ()) -> Self:
        """Fit, and keep `varying` columns even if they are constant in these rows."""
        table = _named(X)
        _refuse_repeated(table.columns)
        codes = None if y is None else pd.factorize(np.asarray(y))[0]
        self.columns_ = [
            self._choose(name, table[name], codes, name in varying) for name in table.columns
        ]
        if not any(column.outputs for column in self.columns_):
            dropped = "; ".join(f"{c.name!r} is dropped ({c.reason})" for c in self.columns_[:5])
            raise ValueError(f"No column can be used: {dropped or 'there is no other column'}.")
        self.feature_names_in_ = np.asarray([column.name for column in self.columns_], dtype=object)
        self.n_features_in_ = len(self.columns_)
        return self._set_units(self._unscaled(table, checks_text=False))

    def _changed(self, **attributes: Any) -> TablePreparation:
        """A fitted copy with other attributes."""
        other = clone(self)
        vars(other).update(vars(self) | attributes)
        return other

    @property
    def _units(self) -> Floats:
        """Shift and scale of the outputs."""
        return np.stack([self.shift_, self.scale_])

    def _without(self, name: str, reason: str) -> TablePreparation:
        """The same preparation with one more column dropped."""
        kept = [column.name != name for column in self.columns_ for _ in column.outputs]
        columns = [
            PreparedColumn(name, "dropped", reason=reason) if column.name == name else column
            for column in self.columns_
        ]
        return self._changed(columns_=columns, shift_=self.shift_[kept], scale_=self.scale_[kept])

    def transform(self, X: Any) -> Floats:
        """Convert a table to numbers.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_columns)
            A table with the columns given to `fit`, in any order; further ones are ignored. The
            columns of an array are in the order of `feature_names_in_`.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            Numbers without missing values.
        """
        check_is_fitted(self)
        scaled: Floats = in_units(self._unscaled(self._aligned(X)), self._units)
        is_single = getattr(X, "dtype", None) == np.float32
        return scaled.astype(np.float32) if is_single else scaled

    def _class_numbers(self, table: pd.DataFrame) -> pd.DataFrame:
        """The numbers of a class table, with the labels in the index."""
        try:
            rows = self.transform(table)
        except ValueError as error:
            raise ValueError(f"The class table: {error}") from error
        numbers = pd.DataFrame(
            rows, index=table.index, columns=self.get_feature_names_out().tolist()
        )
        numbers.attrs = dict(table.attrs)
        return numbers

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of numbers.

        Parameters
        ----------
        input_features : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        ndarray of shape (n_outputs,)
            Such as "weight" or "colour: red".
        """
        check_is_fitted(self)
        names = [name for column in self.columns_ for name in column.outputs]
        return np.asarray(names, dtype=object)

    def summary(self) -> str:
        """Return what happens to which columns, in one line.

        Returns
        -------
        str
            The kinds of columns, then those dropped, then missing values.
        """
        check_is_fitted(self)
        parts = []
        for kind, plural in (("number", "numbers"), ("yes/no", "yes/no"), ("date", "dates")):
            if count := sum(column.kind == kind for column in self.columns_):
                parts.append(f"{count} {kind if count == 1 else plural}")
        if levels := [len(c.outputs) for c in self.columns_ if c.kind == "category"]:
            nouns = "category" if len(levels) == 1 else "categories"
            parts.append(f"{len(levels)} {nouns} ({sum(levels)} columns)")
        text = ", ".join(parts)
        dropped: dict[str, list[str]] = {}
        for column in self.columns_:
            if column.kind == "dropped":
                dropped.setdefault(column.reason, []).append(column.name)
        if dropped:
            groups = (f"{name_some(names)} ({why})" for why, names in dropped.items())
            text += f"; dropped: {', '.join(groups)}"
        if n_missing := sum(column.n_missing for column in self.columns_):
            values = "1 missing value is" if n_missing == 1 else f"{n_missing} missing values are"
            text += f"; {values} the {self.missing}"
        if n := sum(column.indicates_missing for column in self.columns_):
            text += f", {n} of the columns with an indicator"
        return text

    def _check_loaded(self) -> None:
        """Refuse columns from a model file that do not fit the other attributes."""
        if len(self.shift_) != sum(len(column.outputs) for column in self.columns_):
            raise ValueError("the columns of a table have another number of units")
        if [column.name for column in self.columns_] != list(self.feature_names_in_):
            raise ValueError("the columns of a table have other names")

    def _set_units(self, rows: Floats) -> Self:
        """Compute offset and scale of the outputs."""
        self.shift_, self.scale_ = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        if self.scaling is not None:
            is_scaled = [scaled for column in self.columns_ for scaled in column.is_scaled]
            shift, scale = units_of(rows, self.scaling)
            self.shift_ = np.where(is_scaled, shift, rows.mean(axis=0))
            self.scale_ = np.where(is_scaled, scale, 1.0)
        return self

    def _unscaled(self, table: pd.DataFrame, *, checks_text: bool = True) -> Floats:
        """The numbers of a table with the columns of `fit`, in order."""
        blocks = [
            column.numbers(table.iloc[:, place], checks_text=checks_text)
            for place, column in enumerate(self.columns_)
            if column.outputs
        ]
        return np.column_stack(blocks)

    def _aligned(self, X: Any) -> pd.DataFrame:
        """Find the columns of `fit` in another table."""
        names = self.feature_names_in_.tolist()
        if not hasattr(X, "columns"):
            rows = np.asarray(X)
            if rows.ndim != 2 or rows.shape[1] != len(names):
                raise ValueError(
                    f"X has shape {rows.shape}, but the table given to fit has {len(names)} "
                    f"columns: {name_some(names)}."
                )
            return pd.DataFrame(rows, columns=names)
        table = _named(X)
        needed = [column.name for column in self.columns_ if column.outputs]
        if missing := [name for name in needed if name not in table.columns]:
            extra = [name for name in table.columns if name not in names]
            near = name_near_misses(missing, extra, unknown_in="the model", known_in="the table")
            raise ValueError(
                f"There are no columns {name_some(missing, len(missing))}; the table has "
                f"{name_some(table.columns)}.{near}"
            )
        table = table.loc[:, table.columns.isin(needed)]
        _refuse_repeated(table.columns)
        # A column that is dropped need not be there.
        return table.reindex(columns=names)

    def _choose(
        self, name: str, values: pd.Series, codes: NDArray[Any] | None, varies: bool
    ) -> PreparedColumn:
        """Decide what happens to one column."""

        def dropped(reason: str) -> PreparedColumn:
            return PreparedColumn(name, "dropped", reason=reason)

        filled = values.dropna()
        if len(filled) and isinstance(filled.iloc[0], (list, dict, tuple, np.ndarray)):
            kind = type(filled.iloc[0]).__name__
            raise ValueError(f"The column {name!r} holds a {kind} in each row; drop the column.")
        if _SAVED_INDEX.fullmatch(name) or counts_rows(values, name):
            return dropped("row numbers")
        texts = None if _has_numbers(values) or _has_dates(values) else _texts(values)
        if not len(filled) or (texts is not None and texts.isna().all()):
            return dropped("empty")
        if codes is not None and _is_copy(values if texts is None else texts, codes):
            return dropped("it encodes the class, which new samples do not have")
        column = self._choose_kind(name, values, texts, codes)
        if column.kind == "dropped":
            return column
        outputs, is_missing = column._read(values)
        if column.kind == "number":
            column._check_text(values, is_missing)
            column = replace(column, n_missing=int(is_missing.sum()))
        if codes is not None and is_missing.any() and tells_apart(is_missing[:, None], codes):
            column = replace(column, indicates_missing=True)
        is_constant = not column.indicates_missing and (np.ptp(outputs, axis=0) == 0).all()
        if is_constant and not varies:
            return dropped("constant")
        if (
            codes is not None
            and column.kind != "number"
            and not tells_apart(outputs, codes, undecided=True)
        ):
            return dropped("unrelated to the classes")
        return column

    def _choose_kind(
        self, name: str, values: pd.Series, texts: pd.Series | None, codes: NDArray[Any] | None
    ) -> PreparedColumn:
        """The column as a number, yes/no, date or category."""
        if texts is None and _has_dates(values):
            return self._as_date(name, values, "")
        if texts is not None and _is_yes_no(texts):
            fill = float(np.round(np.nanmean(_as_yes_no(values))))
            return PreparedColumn(name, "yes/no", fill)
        sign, unclear = (".", "") if texts is None else _decimal_sign(values)
        numbers = _as_numbers(values, sign)
        n_values = len(values.dropna()) if texts is None else int(texts.notna().sum())
        n_numbers = int((~np.isnan(numbers)).sum())
        if date_format := _date_format(values, numbers):
            return self._as_date(name, values, date_format)
        if texts is None or n_numbers >= _MOSTLY * n_values:
            if not n_numbers:
                return PreparedColumn(name, "dropped", reason="empty")
            if unclear:
                warn_user(
                    f"The commas of the column {name!r}, such as in {unclear!r}, are read as "
                    "thousands separators; replace decimal commas by points."
                )
            average = np.nanmedian if self.missing == "median" else np.nanmean
            return PreparedColumn(name, "number", float(average(numbers)), decimal=sign)
        if 2 * n_numbers > n_values:
            odd = texts[np.isnan(numbers) & texts.notna().to_numpy()]
            raise ValueError(
                f"The column {name!r} mixes numbers and text, such as "
                f"{name_some(odd.unique(), 2)}: correct these values, or drop the column."
            )
        counts = texts.value_counts()
        if len(counts) > _IDENTIFIER_SHARE * n_values and len(counts) > 2:
            return PreparedColumn(name, "dropped", reason="identifier or free text")
        least = max(_RARE_ROWS, _RARE_SHARE * len(texts)) if codes is not None else 1
        levels = sorted(counts.index[counts >= least][: self.max_levels])
        others = len(levels) < len(counts)
        return PreparedColumn(name, "category", levels=tuple(levels), pools_others=others)

    def _as_date(self, name: str, values: pd.Series, date_format: str) -> PreparedColumn:
        fill = float(np.nanmedian(_days(values, date_format)))
        return PreparedColumn(name, "date", fill, date_format=date_format)


def _named(X: Any) -> pd.DataFrame:
    """A table of pandas with text as the names of its columns."""
    table = as_pandas(X)
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _refuse_repeated(names: pd.Index) -> None:
    if not names.is_unique:
        twice = name_some(names[names.duplicated()].unique())
        raise ValueError(f"Several columns are called {twice}; rename them.")


def prepare_classes(
    table: pd.DataFrame, seen: Any, *, always: bool = True
) -> tuple[TablePreparation | None, pd.DataFrame]:
    """Turn a class table into numbers, as the rows of the seen classes decide.

    Unless `always`, a table of numbers without missing values is kept.
    """
    is_seen = table.index.isin(list(seen))
    is_number = pd.api.types.is_numeric_dtype
    if not always and all(map(is_number, table.dtypes)) and not table.isna().to_numpy().any():
        return None, table
    if not is_seen.any() or not table.index.is_unique or not table.shape[1]:
        return None, table
    varies = {str(name) for name, values in table.items() if values.astype(str).nunique() > 1}
    try:
        preparation = TablePreparation(scaling=None)._fit(table[is_seen], None, varies)
    except ValueError as error:
        is_text = not any(map(is_number, table.dtypes))
        how = "zslearn fit --describe (in Python: zslearn.signatures.text_signatures)"
        advice = f" Encode sentences with {how}." if is_text else ""
        raise ValueError(f"The class table: {error}{advice}") from error
    has_gaps = np.zeros(len(table), dtype=bool)
    for place, column in enumerate(preparation.columns_):
        if column.kind == "number":
            has_gaps |= column._read(table.iloc[:, place])[1]
    if has_gaps.any():
        lacking = name_some(table.index[np.flatnonzero(has_gaps)])
        warn_user(
            f"The class table lacks numbers of {lacking}: the median of "
            "the classes with samples replaces them. Add these numbers, or expect more errors."
        )
    return preparation, preparation._class_numbers(table)


def tells_apart(outputs: NDArray[Any], codes: NDArray[Any], *, undecided: bool = False) -> bool:
    r"""Whether columns differ between classes on held-out rows.

    Each row x of a class with n rows and mean m is predicted by the mean of the other rows,
    (n m − x) / (n − 1), and by that of all other rows. The share by which the squared errors of the
    first are smaller must exceed `_LEAST_GAIN` and twice its standard deviation by chance. With few
    rows the result is `undecided`.
    """
    X = np.asarray(outputs, dtype=np.float64)
    sizes = np.bincount(codes).astype(np.float64)
    kept = sizes[codes] > 1
    X, codes = X[kept], codes[kept]
    n_rows = len(X)
    if n_rows < _FEWEST_COMPARED:
        return undecided
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    sums = np.zeros((len(sizes), X.shape[1]))
    np.add.at(sums, codes, X)
    size = sizes[codes][:, None]
    of_class = ((X - (sums[codes] - X) / (size - 1)) ** 2).sum()
    of_all = ((X - (X.sum(axis=0) - X) / (n_rows - 1)) ** 2).sum()
    if not of_all:
        return False
    chance = 2 * np.sqrt(2 * len(np.unique(codes))) / n_rows
    return bool(1 - of_class / of_all > _LEAST_GAIN + chance)


def _has_numbers(values: pd.Series) -> bool:
    dtype = values.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _has_dates(values: pd.Series) -> bool:
    return pd.api.types.infer_dtype(values) in ("datetime", "datetime64", "date", "period")


def _texts(values: pd.Series) -> pd.Series:
    """Values as text without case and space around it; None where they are missing."""
    texts = values.astype(object).map(lambda v: " ".join(str(v).split()).casefold(), "ignore")
    return texts.mask(values.isna() | texts.isin(_NO_VALUE), None)


def _as_numbers(values: pd.Series, decimal: str) -> Floats:
    """Values as numbers; NaN where they are missing, infinite or something else."""
    if _has_numbers(values):
        found = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.where(np.isfinite(found), found, np.nan)
    values = values.astype(object).reset_index(drop=True)
    is_text = np.array([isinstance(value, str) for value in values], dtype=bool)
    texts = _texts(values.map(lambda v: int(v) if isinstance(v, (bool, np.bool_)) else v))
    found = np.array(pd.to_numeric(texts.mask(is_text), errors="coerce"), dtype=np.float64)
    # A number that cannot have the decimal sign of its column, such as "1,5", has the other.
    for sign in (decimal, _SEPARATORS[decimal]):
        is_number = is_text & texts.str.fullmatch(_NUMBERS[sign], na=False).to_numpy(bool)
        is_new = is_number & np.isnan(found)
        plain = texts[is_new].str.replace(_SEPARATORS[sign], "", regex=False)
        found[is_new] = pd.to_numeric(plain.str.replace(sign, ".", regex=False), errors="coerce")
    return np.where(np.isfinite(found), found, np.nan)


def _decimal_sign(values: pd.Series) -> tuple[str, str]:
    """The decimal sign of numbers that are text, and one of them if none has a single reading."""
    texts = _texts(values[[isinstance(value, str) for value in values]])
    point, comma = (texts.str.fullmatch(_NUMBERS[sign], na=False) for sign in ".,")
    n_points, n_commas = (point & ~comma).sum(), (comma & ~point).sum()
    if n_commas > n_points:
        return ",", ""
    unclear = texts[point & comma & texts.str.contains(",", regex=False, na=False)]
    return ".", "" if n_points or unclear.empty else unclear.iloc[0]


def _is_yes_no(texts: pd.Series) -> bool:
    words = set(texts.dropna())
    return any(words <= set(pair) for pair in YES_NO)


def _as_yes_no(values: pd.Series) -> Floats:
    """Yes and no, or 1 and 0, as numbers; NaN for anything else."""
    numbers = {word: float(place) for pair in YES_NO for place, word in enumerate(pair)}
    numbers |= {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0}
    return np.asarray(_texts(values).map(numbers), dtype=np.float64)


def _days(values: pd.Series, date_format: str) -> Floats:
    """Days since 1970; NaN where there is no date."""
    if pd.api.types.infer_dtype(values) == "period":
        values = pd.Series(pd.PeriodIndex(values).to_timestamp())
    if date_format == "" or _has_dates(values):
        dates = pd.to_datetime(values.astype(object), errors="coerce", utc=True)
    else:
        if _has_numbers(values):
            whole = values.where(values.isna(), values.round())
            values = whole.astype("Int64").astype(object).map(str, "ignore")
        texts = _texts(values).str.upper()
        dates = pd.to_datetime(texts, format=date_format, errors="coerce", utc=True)
    since = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(since, dtype=np.float64)


def _date_format(values: pd.Series, numbers: Floats) -> str:
    """The format of dates that most values have; empty if they are no dates."""
    if _has_numbers(values):
        # 20250103: an integer of eight digits that is always a date.
        whole = numbers[~np.isnan(numbers)]
        is_likely = (whole >= 19000101) & (whole <= 21001231) & (whole % 1 == 0)
        if not len(whole) or not is_likely.all():
            return ""
        return "" if np.isnan(_days(values.dropna(), "%Y%m%d")).any() else "%Y%m%d"
    texts = _texts(values).dropna()
    if not texts.str.contains(_DATE).mean() > _MOSTLY:
        return ""
    formats = _DATE_FORMATS[1:]
    return next((f for f in formats if (~np.isnan(_days(texts, f))).mean() >= _MOSTLY), "")


def counts_rows(values: pd.Series, name: str) -> bool:
    """Whether a column numbers the rows, in order or under the name of an identifier."""
    if len(values) < _FEWEST_ROWS or not _has_numbers(values) or values.isna().any():
        return False
    numbers = values.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all() or (numbers % 1).any():
        return False
    in_order = numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
    return in_order or (_ID_NAME.search(name) is not None and values.is_unique)


def copies_labels(values: NDArray[Any], codes: NDArray[Any]) -> bool:
    """Whether each class, by its number, has one value of its own."""
    of_class = np.empty(codes.max(initial=-1) + 1, dtype=values.dtype)
    of_class[codes] = values
    is_constant = (of_class[codes] == values).all()
    return bool(is_constant and len(pd.unique(of_class)) == len(of_class))


def _is_copy(values: pd.Series, codes: NDArray[Any]) -> bool:
    """Whether each class has one value of its own, a text or an integer."""
    if not 2 < codes.max() + 1 < len(codes) or values.isna().any():
        return False
    if not copies_labels(values.to_numpy(), codes):
        return False
    texts = _texts(pd.Series(values.unique())).str
    # Other numbers may be measurements that are the same for a class.
    return bool(texts.fullmatch(r"-?\d+(\.0)?").all() or not texts.fullmatch(r"[-+\d.e]+").all())
