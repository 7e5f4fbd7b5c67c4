"""Compute distances and similarities between signatures of one or several views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.utils.validation import check_array

from zslearn._utils._array import Array, floating, unit_rows
from zslearn._utils._messages import name_some, warn_user
from zslearn.signatures._views import SignatureViews, convex_weights

#: Up to this number of classes, all distances are in memory at once (64 MiB).
_DENSE_CLASSES = 4096
_BINS = 1 << 16


def normalize_signatures(
    signatures: ArrayLike, *, scale: float | None = None
) -> NDArray[np.float64]:
    """Normalise each signature to unit length, then divide all by their median distance.

    Parameters
    ----------
    signatures : array-like of shape (n_classes, n_attributes)
        One row per class. Zero rows stay zero.
    scale : float, optional
        The divisor; by default :func:`median_distance`.

    Returns
    -------
    ndarray of shape (n_classes, n_attributes)
        The normalised signatures in float64.
    """
    rows = unit_rows(check_array(signatures, dtype=np.float64, input_name="signatures"))
    if scale is None:
        scale = median_distance(rows)
    elif not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number; got {scale!r}.")
    return rows / scale


def median_distance(signatures: ArrayLike) -> float:
    """Compute the median of the positive Euclidean distances between rows; 1 if all rows are equal.

    Distances below 10⁻¹² times the norm of the longest row count as rounding errors between equal
    rows. Memory is bounded for any number of rows.

    Parameters
    ----------
    signatures : array-like of shape (n_classes, n_attributes)
        One row per class.

    Returns
    -------
    float
        The median.
    """
    rows = check_array(signatures, dtype=np.float64, input_name="signatures")
    noise = 1e-12 * float(np.sqrt((rows**2).sum(axis=1).max()))
    if len(rows) > _DENSE_CLASSES:
        return _median_of_blocks(rows, noise)
    distances = pdist(rows)
    distances = distances[distances > noise]
    return float(np.median(distances)) if distances.size else 1.0


def _median_of_blocks(rows: NDArray[np.float64], noise: float) -> float:
    """Compute the median in two passes over blocks: a histogram, then sorting its middle bins."""

    def blocks() -> Iterator[NDArray[np.float64]]:
        for start in range(0, len(rows), 1024):
            # Only pairs i < j.
            distances = cdist(rows[start : start + 1024], rows[start:])
            distances = distances[np.triu(np.ones(distances.shape, dtype=bool), k=1)]
            yield distances[distances > noise]

    # No distance exceeds twice the largest distance to the mean.
    top = 2 * np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).max())
    edges = np.linspace(0.0, top, _BINS + 1)
    counts = sum(np.histogram(distances, _BINS, (0.0, top))[0] for distances in blocks())
    upto = np.cumsum(counts)
    total = int(upto[-1])
    if total == 0:
        return 1.0
    ranks = ((total - 1) // 2, total // 2)  # equal if the number of distances is odd
    first, last = (int(np.searchsorted(upto, rank, side="right")) for rank in ranks)
    # One more bin on either side allows for rounding of the edges.
    low, high = edges[max(first - 1, 0)], edges[min(last + 2, _BINS)]
    below, middle = 0, []
    for distances in blocks():
        below += int((distances < low).sum())
        middle.append(distances[(distances >= low) & (distances <= high)])
    ordered = np.sort(np.concatenate(middle))
    return float((ordered[ranks[0] - below] + ordered[ranks[1] - below]) / 2)


def combine_signatures(
    tables: Sequence[pd.DataFrame], weights: Sequence[float] | None = None
) -> pd.DataFrame:
    """Concatenate signatures of several sources into one table.

    Each table is normalised over the common classes and multiplied by the square root of its
    weight, so that inner products are convex combinations of those of the sources. For methods that
    combine kernels, use :class:`MultiSignatures`.

    Parameters
    ----------
    tables : sequence of DataFrame
        One row per class; the index holds the labels. Classes that are not in every table are
        dropped with a warning.
    weights : sequence of float or None, default=None
        Non-negative weights, divided by their sum; by default equal.

    Returns
    -------
    DataFrame
        One row per class that all tables describe, in the order of the first table.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import combine_signatures
    >>> words = pd.DataFrame({"w": [1.0, -1.0]}, index=["cat", "dog"])
    >>> tree = pd.DataFrame({"a": [3.0, 0.0], "b": [0.0, 3.0]}, index=["dog", "cat"])
    >>> combine_signatures([words, tree], weights=[1, 3]).round(3)
         1: w   2: a   2: b
    cat  0.25  0.000  0.612
    dog -0.25  0.612  0.000
    """
    listed = list(tables)
    shares = tuple(convex_weights(weights, [str(i) for i in range(len(listed))]).values())
    for number, table in enumerate(listed, 1):
        if not table.index.is_unique:
            repeated = table.index[table.index.duplicated()].unique()
            raise ValueError(f"Table {number} describes {name_some(repeated)} more than once.")
    common = listed[0].index
    for table in listed[1:]:
        common = common[common.isin(table.index)]
    if not len(common):
        raise ValueError("The tables have no class in common.")
    every = pd.Index(dict.fromkeys(label for table in listed for label in table.index))
    dropped = every[~every.isin(common)].tolist()
    if dropped:
        warn_user(
            f"Dropped {len(dropped)} of {len(every)} classes that are not in every table: "
            f"{name_some(dropped)}."
        )
    arrays = tuple(
        normalize_signatures(table.loc[common].to_numpy(dtype=np.float64)) for table in listed
    )
    columns = [
        f"{number}: {column}" for number, table in enumerate(listed, 1) for column in table.columns
    ]
    rows = SignatureViews(arrays, shares).concatenate()
    return pd.DataFrame(rows, index=common, columns=columns)


#: Above this number of multiplications, the faster but less exact expansion is used.
_EXACT_WORK = 1e8


def squared_distances(a: Any, b: Any = None) -> Array:
    """Squared Euclidean distances between the rows of two arrays, or of one array.

    The result has the namespace and device of `a`, and float64 for NumPy, else the dtype of `a`.
    """
    is_same = b is None or b is a
    b = a if b is None else b
    xp = compat.array_namespace(a, b)
    if compat.is_numpy_namespace(xp):
        a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        if a.shape[0] * b.shape[0] * a.shape[1] <= _EXACT_WORK:
            return cdist(a, b, "sqeuclidean")
    a, b = floating(a), floating(b)
    # ‖a‖² + ‖b‖² − 2ab, relative to the mean of b to reduce cancellation.
    center = xp.mean(b, axis=0, keepdims=True)
    a, b = a - center, b - center
    squares = a @ xp.matrix_transpose(b)
    squares *= -2
    squares += xp.sum(a * a, axis=1)[:, None]
    squares += xp.sum(b * b, axis=1)[None, :]
    squares[squares < 0] = 0
    if is_same:
        eye = xp.eye(squares.shape[0], dtype=squares.dtype, device=compat.device(squares))
        squares = squares * (1 - eye)
    return squares


def rbf_similarity(a: Any, b: Any = None, *, gamma: float = 1.0) -> Array:
    r"""RBF kernel between signatures, :math:`\exp(-\gamma \|a - b\|^2)`.

    Kernels of several views are combined convexly,
    :math:`\sum_v w_v \exp(-\gamma \|a_v - b_v\|^2)`. Two classes are compared by the views that
    both have, with renormalised weights; without a common view their similarity is 0.

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
    """
    _check_gamma(gamma)
    if not isinstance(a, SignatureViews):
        squares = squared_distances(a, b)
        squares *= -gamma
        return compat.array_namespace(squares).exp(squares)
    total = shared = 0
    for weight, *views in _paired(a, b):
        similarity = rbf_similarity(*views, gamma=gamma)
        xp = compat.array_namespace(similarity)
        # A class that lacks the view has a row of NaN, and thus NaN distances.
        is_shared = ~xp.isnan(similarity)
        total = total + weight * xp.where(is_shared, similarity, xp.zeros_like(similarity))
        shared = shared + weight * xp.astype(is_shared, similarity.dtype)
    return total / xp.where(shared > 0, shared, xp.ones_like(shared))


def normalized_similarity(a: Any, b: Any = None, *, gamma: float = 1.0) -> Array:
    r"""RBF similarities normalised so that each row sums to one (Eq. 2).

    .. math:: s_{cr} = \frac{\exp\{-d(a_c, b_r)\}}{\sum_r \exp\{-d(a_c, b_r)\}},
              \quad d(a, b) = \gamma \|a - b\|^2

    Rows do not underflow for any `gamma`. Kernels of several views are combined first.

    Parameters
    ----------
    a, b, gamma
        See :func:`rbf_similarity`.

    Returns
    -------
    array of shape (n, m)
        The similarities.

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
        found = [
            np.log(weight) - gamma * squared_distances(own, other)
            for weight, own, other in _paired(a, b)
            if weight > 0
        ]
    else:
        found = [-gamma * squared_distances(a, b)]
    xp = compat.array_namespace(found[0])
    exponents = xp.stack(found)
    exponents = exponents - xp.max(exponents, axis=(0, 2), keepdims=True)
    total = xp.sum(xp.exp(exponents), axis=0)
    return total / xp.sum(total, axis=1, keepdims=True)


def _check_gamma(gamma: float) -> None:
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be a positive number; got {gamma!r}.")


def _paired(a: SignatureViews, b: SignatureViews | None) -> list[tuple[float, Array, Array]]:
    """Pair the views of both sides with their weights."""
    b = a if b is None else b
    if not isinstance(b, SignatureViews) or len(a.arrays) != len(b.arrays):
        raise ValueError("Both sides must have the same views.")
    return list(zip(a.weights, a.arrays, b.arrays, strict=True))
