"""Checks of arguments that several packages share: parameters, sample weights, fractions.

The decorators are scikit-learn's private ones, typed and in one place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import validate_params

from zslearn._utils._array import Floats, to_numpy

# An area by the trapezoid rule may end this far above 1.
_ROUNDING = 1e-9


def is_share(value: Any) -> bool:
    """Whether a value is a number between 0 and 1, up to rounding; a truth value is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_ROUNDING <= value <= 1 + _ROUNDING


def checked_weights(sample_weight: Any, *shapes: tuple[int, ...]) -> Floats:
    """Weights as float64 of one of some shapes, the first if they are one number for all."""
    values = np.asarray(to_numpy(sample_weight))
    if values.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight must be numbers; got an array of {values.dtype}.")
    weights = values.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(shapes[0], float(weights))
    if weights.shape not in shapes:
        raise ValueError(
            f"sample_weight must have one number per sample, {shapes[0][0]} in all; "
            f"got shape {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight must be finite and not negative.")
    if not weights.any(axis=0).all():
        raise ValueError("sample_weight is zero for every sample; none is left to learn from.")
    return weights


_Method = TypeVar("_Method", bound=Callable[..., Any])


def checks_parameters(*, also_of_inner: bool = False) -> Callable[[_Method], _Method]:
    """Decorate `fit`: hyper-parameters are checked against `_parameter_constraints` first.

    Wrong arguments are an error that names the estimator's own class, where Python would name the
    base that defines `fit`.
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
    """Decorate a function: its arguments are checked first."""
    return validate_params(constraints, prefer_skip_nested_validation=True)
