"""Hyper-parameters that cannot be computed with, and computations that fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

from numpy.linalg import LinAlgError

# What lies between the inverse of this and this can be a number of float32, and its square one of
# float64.
_LARGEST = 1e30


def refuse_extreme_parameters(estimator: Any) -> None:
    """Refuse hyper-parameters so large or so small that nothing can be computed with them.

    Parameters
    ----------
    estimator : estimator
        Its hyper-parameters are of the right kinds.

    Raises
    ------
    ValueError
        Where one is not zero, finite, and beyond 1e±30.
    """
    for name, value in estimator.get_params(deep=False).items():
        if not isinstance(value, Real) or not math.isfinite(value) or value == 0:
            continue
        size = abs(float(value))
        if not 1 / _LARGEST <= size <= _LARGEST:
            raise ValueError(
                f"{name}={value:.0e} of {type(estimator).__name__} is too "
                f"{'large' if size > 1 else 'small'} to be computed with. "
                "Take a number between 1e-30 and 1e+30."
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
