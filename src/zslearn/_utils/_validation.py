"""Checks of user input: hyper-parameters, sample weights, and the columns of tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import validate_params

from zslearn._utils._array import Floats, evenly_spaced, take_rows, to_numpy
from zslearn._utils._messages import name_some, warn_user

# An area computed by the trapezoidal rule may exceed 1 by this much.
_ROUNDING = 1e-9


def is_share(value: Any) -> bool:
    """Whether a value is a number, not a bool, between 0 and 1 up to rounding."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_ROUNDING <= value <= 1 + _ROUNDING


def checked_weights(sample_weight: Any, *shapes: tuple[int, ...]) -> Floats:
    """Validate sample weights of one of the given shapes; a scalar gets the first one."""
    values = np.asarray(to_numpy(sample_weight))
    if values.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight must be numeric; got an array of {values.dtype}.")
    weights = values.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(shapes[0], float(weights))
    if weights.shape not in shapes:
        raise ValueError(
            f"sample_weight must have one number per sample, {shapes[0][0]} in all; "
            f"got shape {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight must be finite and non-negative.")
    if not weights.any(axis=0).all():
        raise ValueError("sample_weight is zero for all samples.")
    return weights


_Method = TypeVar("_Method", bound=Callable[..., Any])


def checks_parameters(*, also_of_inner: bool = False) -> Callable[[_Method], _Method]:
    """Decorate `fit` to validate the hyper-parameters by `_parameter_constraints` first.

    Errors about wrong arguments name the class of the estimator instead of the base class that
    defines `fit`.
    """
    check = _fit_context(prefer_skip_nested_validation=not also_of_inner)

    def decorate(fit: _Method) -> _Method:
        signature, checked = inspect.signature(fit), check(fit)
        parameters = list(signature.parameters.values())[1:]
        call = ", ".join(
            f"{p.name}=…" if p.kind is p.KEYWORD_ONLY else p.name
            for p in parameters
            if p.kind is not p.VAR_KEYWORD
        )

        @functools.wraps(fit)
        def checked_fit(estimator: Any, *args: Any, **options: Any) -> Any:
            try:
                signature.bind(estimator, *args, **options)
            except TypeError as error:
                name = type(estimator).__name__
                raise TypeError(f"{name}.fit: {error}; call it as fit({call}).") from None
            return checked(estimator, *args, **options)

        return cast(_Method, checked_fit)

    return decorate


def checks_arguments(constraints: dict[str, Any]) -> Callable[[_Method], _Method]:
    """Decorate a function to validate its arguments first."""
    return validate_params(constraints, prefer_skip_nested_validation=True)


# Units of columns.

#: Ways to scale columns; None does not scale them.
SCALINGS = ("standard", "robust", "range")
#: Key of the scaling in `attrs` of a DataFrame of signatures.
SCALING = "signature_scaling"
#: Columns dominate if each varies this many times as much as any other column…
_DOMINANCE = 3.0
#: … and they account for more than this fraction of the squared distances between rows.
_DOMINANT_SHARE = 0.5
#: Distance of the quartiles of a normal distribution, in standard deviations.
_QUARTILE_RANGE = 1.349
#: Number of rows from which the spread of columns is estimated.
_N_ROWS = 1000


def check_scaling(value: Any, name: str, *, auto: bool = False) -> None:
    """Refuse unknown ways to scale columns."""
    known = (None, *SCALINGS, *(["auto"] if auto else []))
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}.")


def some_rows(X: Any, rows: NDArray[np.intp] | None = None) -> Floats:
    """Evenly spaced rows of an array, enough to estimate the spread of its columns."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    sampled = rows[evenly_spaced(len(rows), _N_ROWS)]
    return np.asarray(to_numpy(take_rows(X, sampled)), dtype=np.float64)


def dominating_columns(rows: Floats) -> list[int]:
    """Columns that dominate the distances between rows because of their units.

    A large offset that all rows share does not count, since distances do not depend on it.
    """
    rows = rows[np.isfinite(rows).all(axis=1)] if rows.ndim == 2 else rows
    if len(rows) < 2 or rows.shape[-1] < 2:
        return []
    with np.errstate(all="ignore"):
        spread, extent = rows.std(axis=0), np.ptp(rows, axis=0)
    if not (np.isfinite(spread).all() and spread.any()):
        return []
    order = np.argsort(-spread, kind="stable")
    squares = (spread[order] / spread[order[0]]) ** 2
    shares = np.cumsum(squares) / squares.sum()
    for count in range(1, len(order) // 2 + 1):
        large, others = order[:count], order[count:]
        if (
            shares[count - 1] > _DOMINANT_SHARE
            and spread[others[0]] > 0
            and spread[large[-1]] >= _DOMINANCE * spread[others[0]]
            and extent[large].min() >= _DOMINANCE * extent[others].max()
        ):
            return sorted(large.tolist())
    return []


_scaling_is_chosen: ContextVar[bool] = ContextVar("scaling_is_chosen", default=False)


@contextmanager
def without_scaling_warning(is_chosen: bool) -> Iterator[None]:
    """Silence :func:`warn_of_dominating`, since the scaling was chosen by its effect."""
    token = _scaling_is_chosen.set(is_chosen)
    try:
        yield
    finally:
        _scaling_is_chosen.reset(token)


def warn_of_dominating(rows: Floats, names: Any, where: str, row_noun: str, remedy: str) -> bool:
    """Warn of columns that dominate the distances between rows; return whether there are any."""
    large = dominating_columns(rows)
    if large and not _scaling_is_chosen.get():
        warn_user(
            f"{where}: distances between {row_noun} depend almost only on "
            f"{columns_named(large, names)}, whose values are much larger than those of the other "
            f"columns. {remedy}"
        )
    return bool(large)


def units_of(rows: Floats, scaling: str) -> Floats:
    """Shift and scale of each column, as two rows."""
    # Powers of two are exact, and squares of numbers below 1 do not overflow.
    exponents = np.frexp(np.abs(rows).max(axis=0))[1]
    rows = np.ldexp(rows, -exponents)
    if scaling == "standard":
        shift, size = rows.mean(axis=0), rows.std(axis=0)
    elif scaling == "robust":
        low, shift, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        size = np.where(high > low, (high - low) / _QUARTILE_RANGE, rows.std(axis=0))
    else:
        shift, size = rows.min(axis=0), np.ptp(rows, axis=0)
    # Constant columns are not divided by a rounding error.
    is_constant = (np.ptp(rows, axis=0) == 0) | (size == 0)
    size = np.where(is_constant, 1.0, np.ldexp(size, exponents))
    return np.stack([np.ldexp(shift, exponents), size])


def in_units(rows: Any, units: Floats | None) -> Any:
    """Scale the columns of rows by `units`."""
    return rows if units is None else (rows - units[0]) / units[1]


def columns_named(positions: Sequence[int], names: Any) -> str:
    """Columns by name, or by position if they have none: "the column 'a'"."""
    plural = "s" if len(positions) > 1 else ""
    if names is None:
        return f"column{plural} {', '.join(map(str, positions[:5]))}"
    return f"the column{plural} {name_some(names[position] for position in positions)}"


# Columns of text that represent numbers.


def as_pandas(X: Any) -> pd.DataFrame:
    """Convert a table of pandas or polars, or an array, to a DataFrame of pandas."""
    if isinstance(X, pd.DataFrame):
        return X.copy(deep=False)
    if hasattr(X, "columns"):
        return pd.DataFrame({name: X[name].to_numpy() for name in X.columns})
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"A table has rows and columns; got shape {rows.shape}.")
    return pd.DataFrame(rows, columns=[f"column {place}" for place in range(rows.shape[1])])


#: Pairs of words that represent 0 and 1.
YES_NO = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"))


def numeric_columns(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Convert columns of yes and no, which a warning names, and of objects to numbers."""
    converted: dict[Any, Any] = {}
    words: list[Any] = []
    for place, (name, dtype) in enumerate(table.dtypes.items()):
        if pd.api.types.is_numeric_dtype(dtype):
            continue
        values = [None if is_missing(v) else v for v in table.iloc[:, place].tolist()]
        convert = as_numbers(value for value in values if value is not None)
        if convert is None:
            continue
        if any(isinstance(value, str) for value in values):
            words.append(name)
        converted[place] = np.array(
            [np.nan if value is None else convert(value) for value in values]
        )
    if not converted:
        return table
    if words:
        some = f"{len(words)} columns, such as" if len(words) > 1 else "the column"
        warn_user(f"{where}: yes and no are read as 1 and 0 in {some} {name_some(words, 3)}.")
    columns = {place: converted.get(place, table.iloc[:, place]) for place in range(table.shape[1])}
    numbers = pd.DataFrame(columns, index=table.index).set_axis(table.columns, axis=1)
    numbers.attrs = dict(table.attrs)
    return numbers


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, NA or NaT."""
    if isinstance(value, float):
        return value != value
    return value is None or value is pd.NA or value is pd.NaT


def as_numbers(values: Iterable[Any]) -> Any:
    """A function that converts the values of a column to numbers; None if there is none."""
    values = list(values)
    if not values:
        return None
    if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in values):
        return float
    if not all(isinstance(value, str) for value in values):
        return None
    words = {value.strip().casefold() for value in values}
    pair = next((pair for pair in YES_NO if words <= set(pair)), None)
    return None if pair is None else lambda value: float(pair.index(value.strip().casefold()))


def holds_numbers(values: Iterable[Any]) -> bool:
    """Whether values are numbers, possibly as text, or yes and no."""
    values = list(values)
    return as_numbers(values) is not None or all(map(_reads_as_number, values))


def not_numbers(table: pd.DataFrame) -> list[str]:
    """Names of the columns that are not numeric."""
    numeric = pd.api.types.is_numeric_dtype
    return [str(name) for name, dtype in table.dtypes.items() if not numeric(dtype)]


def refuse_text(table: pd.DataFrame, where: str, advice: str = "") -> None:
    """Refuse columns that are not numeric; the error quotes an example value."""
    others = not_numbers(table)
    if not others:
        return
    place = next(i for i, name in enumerate(table.columns) if str(name) == others[0])
    values = [value for value in table.iloc[:, place].tolist() if not is_missing(value)]
    # In a column of mostly numbers, or yes and no, quote a value that is neither.
    odd = [v for v in values if not _reads_as_number(v) and as_numbers([v]) is None]
    example = f" ({others[0]!r} has {name_some((odd or values)[:1])})" if values else ""
    if not advice and values and all(map(_reads_as_number, values)):
        advice = " They contain numbers as text: convert them to numbers."
    raise ValueError(
        f"{where}: columns {name_some(others)} are not numeric{example}."
        f"{advice or ' Drop them, or encode them as numbers.'}"
    )


def refuse_dates(X: Any, where: str = "X") -> None:
    """Refuse dates and durations, which NumPy would convert to numbers in its own unit."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        # `dtypes` is a Series in pandas and a list in polars.
        pairs = zip(X.columns, X.dtypes, strict=True)
        names = [str(name) for name, dtype in pairs if _is_date(dtype)]
        which = f"the columns {name_some(names)} contain" if names else ""
    else:
        dtype = getattr(X, "dtype", None)
        which = f"the array has dtype {dtype}:" if _is_date(dtype) else ""
    if which:
        raise ValueError(
            f"{where}: {which} dates or durations, not numbers. Drop them, or convert them to "
            "numbers, such as days since the first date."
        )


def _is_date(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas or polars is for dates, times or durations."""
    if hasattr(dtype, "is_temporal"):
        return bool(dtype.is_temporal())
    return getattr(dtype, "kind", "") in ("m", "M") or isinstance(dtype, pd.PeriodDtype)


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def refuse_missing(table: pd.DataFrame, array: Floats, where: str) -> None:
    """Refuse missing and infinite values; the error names columns or, if fewer, classes."""
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    columns, rows = np.flatnonzero(bad.any(axis=0)), np.flatnonzero(bad.any(axis=1))
    labels = name_some(table.index[rows].tolist())
    if len(columns) > len(rows):
        which = f"{labels} in {len(columns)} columns"
    else:
        classes = labels if len(rows) <= 3 else f"{len(rows)} of {len(array)} classes"
        which = f"{classes} in {columns_named(columns.tolist(), list(table.columns))}"
    raise ValueError(
        f"{where} contains NaN or infinity for {which}. Fill in the missing values, drop the "
        "columns, or drop the classes."
    )
