"""Hyper-parameters that cannot be computed with, and computations that fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

from numpy.linalg import LinAlgError

# What is not larger can be a number of float32, and its square one of float64.
_LARGEST = 1e30


def refuse_extreme_parameters(estimator: Any) -> None:
    """Refuse hyper-parameters so large that nothing can be computed with them.

    Small ones pass: a penalty below rounding is none.

    Parameters
    ----------
    estimator : estimator
        Its hyper-parameters are of the right kinds.

    Raises
    ------
    ValueError
        Where one is finite, and beyond ±1e30.
    """
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Real) and _LARGEST < abs(float(value)) < math.inf:
            raise ValueError(
                f"{name}={value:.0e} of {type(estimator).__name__} is too large to be computed "
                f"with. Take a number that is not beyond {_LARGEST:.0e}."
            )


@contextmanager
def numerical_failures_named(method: type) -> Iterator[None]:
    """Say which method could not learn where its arithmetic fails.

    Parameters
    ----------
    method : type
        The class of the estimator that learns.
    """
    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(
            f"{method.__name__} cannot learn from this: {str(error).rstrip('.')}. Regularise more, "
            "or look at the scale of X and of the signatures."
        ) from error
