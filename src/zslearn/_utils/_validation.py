"""What the library takes from scikit-learn's private parts, typed and in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.utils._param_validation import validate_params

# Arguments that must be named: who forgets it is told which name.

_Class = TypeVar("_Class", bound=type)


def names_keywords(cls: _Class) -> _Class:
    """Decorate a class: its public methods say which keyword a positional argument lacks.

    Python says that `fit` "takes 3 positional arguments but 4 were given"; a decorated class says
    "signatures= is a keyword: fit(X, y, signatures=…)". Signatures, types and documentation of the
    methods stay.
    """
    for name, member in list(vars(cls).items()):
        # scikit-learn's available_if keeps the method in a descriptor.
        method = getattr(member, "fn", member)
        if name.startswith("_") or not isinstance(method, FunctionType):
            continue
        keywords = _keyword_only(method)
        if not keywords:
            continue
        if method is member:
            setattr(cls, name, _naming(method, keywords[0]))
        else:
            member.fn = _naming(method, keywords[0])
    return cls


def _keyword_only(method: FunctionType) -> list[str]:
    """Keyword-only parameters of a method that takes a fixed number of positional ones."""
    parameters = inspect.signature(method).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return []
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


def _naming(method: FunctionType, keyword: str) -> Any:
    """The method, with another error for one positional argument too many."""
    parameters = inspect.signature(method).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    shown = ", ".join([*positional[1:], f"{keyword}=…"])

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        if len(args) > len(positional):
            raise TypeError(f"{keyword}= is a keyword: {method.__name__}({shown}).")
        return method(*args, **options)

    return call


# Numbers from files.

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
