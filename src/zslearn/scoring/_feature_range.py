"""Features so large or so small that their squares cannot be computed with."""

from __future__ import annotations

import array_api_compat as compat

from zslearn.utils import Array

# The largest entry lies between the inverse of this and this: squares of what is in between, times
# a small penalty or a long step, neither overflow nor vanish.
_LARGEST_DOUBLE = 1e100
_LARGEST_SINGLE = 1e15


def refuse_extreme_features(X: Array, *, only_large: bool = False) -> None:
    """Refuse features whose squares overflow or vanish.

    Only features that were not brought to unit norm can be such.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features, of any library.
    only_large : bool, default=False
        Whether small ones pass: nothing can be learned from them, but they can be scored.

    Raises
    ------
    ValueError
        Where the largest absolute value is not zero and beyond 1e±100, in float32 1e±15.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.scoring import refuse_extreme_features
    >>> refuse_extreme_features(np.full((2, 3), 1e-200))
    Traceback (most recent call last):
        ...
    ValueError: The largest feature is 1e-200: its square cannot be computed with. ...
    """
    xp = compat.array_namespace(X)
    largest = max(abs(float(xp.max(X))), abs(float(xp.min(X))))
    limit = _LARGEST_DOUBLE if X.dtype == xp.float64 else _LARGEST_SINGLE
    if largest >= limit or (0 < largest <= 1 / limit and not only_large):
        raise ValueError(
            f"The largest feature is {largest:.0e}: its square cannot be computed with. "
            'Rescale X, or use feature_norm="l2".'
        )
