"""What the library takes from scikit-learn's private parts, typed and in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.utils._param_validation import validate_params

_Method = TypeVar("_Method", bound=Callable[..., Any])


def checks_parameters(*, also_of_inner: bool = False) -> Callable[[_Method], _Method]:
    """Decorate `fit`: hyper-parameters are checked against `_parameter_constraints` first.

    Parameters
    ----------
    also_of_inner : bool, default=False
        Whether estimators that are fitted inside check theirs, too; a meta-estimator says so.

    Returns
    -------
    callable
        The decorator. It keeps the type of the method, which scikit-learn's own does not.
    """
    return _fit_context(prefer_skip_nested_validation=not also_of_inner)


def checks_arguments(constraints: dict[str, Any]) -> Callable[[_Method], _Method]:
    """Decorate a function: its arguments are checked first.

    Parameters
    ----------
    constraints : dict
        Name of each parameter → what it may be, in scikit-learn's terms.

    Returns
    -------
    callable
        The decorator. It keeps the type of the function, which scikit-learn's own does not.
    """
    return validate_params(constraints, prefer_skip_nested_validation=True)
