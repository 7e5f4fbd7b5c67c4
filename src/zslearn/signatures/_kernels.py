"""Distances and similarities between signatures, of one view or of several."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.spatial.distance import cdist

from zslearn.signatures._views import SignatureViews
from zslearn.utils import Array, floating

# Above this many multiplications BLAS is worth the digits that the expansion loses.
_EXACT_WORK = 2e9


def squared_distances(a: Any, b: Any = None) -> Array:
    """Squared Euclidean distances between the rows of two arrays.

    Parameters
    ----------
    a : array of shape (n, n_attributes)
        NumPy, torch, CuPy or any array of the array API standard.
    b : array of shape (m, n_attributes), optional
        By default `a` itself, with a diagonal of exact zeros.

    Returns
    -------
    array of shape (n, m)
        In the namespace and on the device of `a`; float64 for NumPy, else of the dtype of `a`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import squared_distances
    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[ 0., 25.],
           [25.,  0.]])
    """
    same = b is None or b is a
    b = a if b is None else b
    xp = compat.array_namespace(a, b)
    if compat.is_numpy_namespace(xp):
        a, b = (np.asarray(side, dtype=np.float64) for side in (a, b))
        if a.shape[0] * b.shape[0] * a.shape[1] <= _EXACT_WORK:
            return cdist(a, b, "sqeuclidean")
    a, b = floating(a), floating(b)
    # ‖a‖² + ‖b‖² − 2ab, around the mean of b so that less cancels.
    center = xp.mean(b, axis=0, keepdims=True)
    a, b = a - center, b - center
    squares = (
        xp.sum(a * a, axis=1)[:, None]
        + xp.sum(b * b, axis=1)[None, :]
        - 2 * a @ xp.matrix_transpose(b)
    )
    squares = xp.where(squares > 0, squares, xp.zeros_like(squares))
    if same:
        eye = xp.eye(squares.shape[0], dtype=squares.dtype, device=compat.device(squares))
        squares = squares * (1 - eye)
    return squares


def rbf_similarity(a: Any, b: Any = None, *, gamma: float = 1.0) -> Array:
    r"""RBF kernel between signatures, :math:`\exp(-\gamma \|a - b\|^2)`.

    For signatures of several views the kernels are combined convexly,
    :math:`\sum_v w_v \exp(-\gamma \|a_v - b_v\|^2)`.

    Parameters
    ----------
    a : array of shape (n, n_attributes) or SignatureViews
        Normalised signatures.
    b : array of shape (m, n_attributes) or SignatureViews, optional
        By default `a` itself.
    gamma : float, default=1.0
        The paper's 1/σ².

    Returns
    -------
    array of shape (n, m)
        The similarities.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import rbf_similarity
    >>> rbf_similarity(np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    _check_gamma(gamma)
    if isinstance(a, SignatureViews):
        parts = [
            weight * rbf_similarity(a_view, b_view, gamma=gamma)
            for weight, a_view, b_view in _paired(a, b)
        ]
        return sum(parts[1:], start=parts[0])
    squares = squared_distances(a, b)
    return compat.array_namespace(squares).exp(-gamma * squares)


def normalized_similarity(a: Any, b: Any = None, *, gamma: float = 1.0) -> Array:
    r"""RBF similarities whose rows sum to one (the paper's eSynCSimForm).

    .. math:: s_{cr} = \frac{\exp\{-d(a_c, b_r)\}}{\sum_r \exp\{-d(a_c, b_r)\}},
              \quad d(a, b) = \gamma \|a - b\|^2

    The largest exponent of a row is taken out first, so that a row does not vanish however large
    `gamma` is. Kernels of several views are combined before the rows are normalised.

    Parameters
    ----------
    a : array of shape (n, n_attributes) or SignatureViews
        Normalised signatures.
    b : array of shape (m, n_attributes) or SignatureViews, optional
        By default `a` itself.
    gamma : float, default=1.0
        The paper's 1/σ².

    Returns
    -------
    array of shape (n, m)
        The similarities; each row sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import normalized_similarity
    >>> normalized_similarity(np.array([[0.0], [1.0]]), gamma=2.0**10)
    array([[1., 0.],
           [0., 1.]])
    """
    _check_gamma(gamma)
    if isinstance(a, SignatureViews):
        exponents = [
            np.log(weight) - gamma * squared_distances(a_view, b_view)
            for weight, a_view, b_view in _paired(a, b)
            if weight > 0
        ]
    else:
        exponents = [-gamma * squared_distances(a, b)]
    xp = compat.array_namespace(exponents[0])
    largest = exponents[0]
    for exponent in exponents[1:]:
        largest = xp.maximum(largest, exponent)
    largest = xp.max(largest, axis=1, keepdims=True)
    parts = [xp.exp(exponent - largest) for exponent in exponents]
    total = sum(parts[1:], start=parts[0])
    return total / xp.sum(total, axis=1, keepdims=True)


def _paired(a: SignatureViews, b: SignatureViews | None) -> list[tuple[float, Array, Array]]:
    if b is None:
        b = a
    if not isinstance(b, SignatureViews) or len(a.arrays) != len(b.arrays):
        raise ValueError("Both sides must have the same views.")
    return list(zip(a.weights, a.arrays, b.arrays, strict=True))


def _check_gamma(gamma: float) -> None:
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be a positive number; got {gamma!r}.")
