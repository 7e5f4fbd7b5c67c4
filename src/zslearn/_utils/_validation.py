"""What the library takes from scikit-learn's private parts, typed and in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.utils._param_validation import validate_params

# An area by the trapezoid rule may end this far above 1.
_ROUNDING = 1e-9


def is_share(value: Any) -> bool:
    """Whether a value is a number between 0 and 1, up to rounding; a truth value is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_ROUNDING <= value <= 1 + _ROUNDING


_Method = TypeVar("_Method", bound=Callable[..., Any])


def checks_parameters(*, also_of_inner: bool = False) -> Callable[[_Method], _Method]:
    """Decorate `fit`: hyper-parameters are checked against `_parameter_constraints` first."""
    return _fit_context(prefer_skip_nested_validation=not also_of_inner)


def checks_arguments(constraints: dict[str, Any]) -> Callable[[_Method], _Method]:
    """Decorate a function: its arguments are checked first."""
    return validate_params(constraints, prefer_skip_nested_validation=True)
