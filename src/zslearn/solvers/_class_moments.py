"""Sums, means and squared deviations of the samples of each class.

Everything is float64 on the device of the samples, whatever their library and dtype, and is
computed a block of rows at a time: memory depends on the classes and features, not on the samples.
Deviations are taken around the means of the classes in a second pass, so that nothing cancels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._class_sums import ClassSums, SummedRows
from zslearn.utils import Array, Floats, block_budget, row_blocks, to_numpy

# A distance from the mean that is a smaller share of the mean's length is rounding error.
_ROUNDING = 1e-12


class Moments(NamedTuple):
    """Sums over samples.

    Parameters
    ----------
    gram : array of shape (n_features, n_features)
        XᵀX, of centred features if so asked.
    class_sums : array of shape (n_classes, n_features)
        The sum of the samples of each class, centred likewise.
    mean : array of shape (n_features,)
        What was taken from each sample; zeros where the features are not centred.
    """

    gram: Array
    class_sums: Array
    mean: Array


def class_moments(
    X: Array,
    y: NDArray[np.intp],
    n_classes: int,
    *,
    center: bool,
    sample_weight: Floats | None = None,
) -> Moments:
    """XᵀX and the sum of each class, around the mean of all samples or around zero.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, of any library of the array API standard.
    y : ndarray of shape (n_samples,)
        Class positions, from 0 to n_classes - 1.
    n_classes : int
        Number of classes.
    center : bool
        Whether the mean of the samples is taken from them first.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts, in the mean too; by default 1.

    Returns
    -------
    Moments
        In float64 on the device of `X`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import class_moments
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1])
    >>> moments = class_moments(X, y, 2, center=True)
    >>> moments.mean
    array([1., 2.])
    >>> moments.class_sums
    array([[-2.,  0.],
           [ 2.,  0.]])
    """
    if isinstance(X, SummedRows):
        return Moments(*X.sums.moments(center=center))
    xp, device = compat.array_namespace(X), compat.device(X)
    n_features = X.shape[1]
    weight = None
    if sample_weight is not None:
        weight = xp.asarray(sample_weight, dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    if center:
        mean = _mean(X, weight)
    gram = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    sums = xp.zeros((n_classes, n_features), dtype=xp.float64, device=device)
    # A row as it comes, wide, and centred.
    width = 3 * n_features + (0 if weight is None else n_features)
    for rows, members in _member_blocks(X, y, n_classes, width=width):
        block = xp.astype(X[rows, :], xp.float64) - mean[None, :]
        weighted = block if weight is None else block * weight[rows][:, None]
        gram += xp.matrix_transpose(block) @ weighted
        sums += members @ weighted
    return Moments(gram, sums, mean)


def class_means(
    X: Array, y: NDArray[np.intp], n_classes: int, *, sample_weight: Floats | None = None
) -> Array:
    """Mean of the samples of each class.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, at least one, of any library of the array API standard.
    y : ndarray of shape (n_samples,)
        Class positions, from 0 to n_classes - 1.
    n_classes : int
        Number of classes.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts; by default 1.

    Returns
    -------
    array of shape (n_classes, n_features)
        In float64 on the device of `X`; NaN for a class without samples.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import class_means
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1])
    >>> class_means(X, y, 2)
    array([[0., 2.],
           [3., 2.]])
    """
    if isinstance(X, SummedRows):
        return X.sums.means
    xp, device = compat.array_namespace(X), compat.device(X)
    sizes = np.bincount(y, weights=sample_weight, minlength=n_classes)
    share = xp.asarray(1.0 / np.where(sizes > 0, sizes, np.nan), device=device)
    # Sums around one sample, so that a large common offset does not cost digits.
    shift = xp.astype(X[0:1, :], xp.float64)
    sums = xp.zeros((n_classes, X.shape[1]), dtype=xp.float64, device=device)
    blocks = _member_blocks(X, y, n_classes, width=2 * X.shape[1], sample_weight=sample_weight)
    for rows, members in blocks:
        sums += members @ (xp.astype(X[rows, :], xp.float64) - shift)
    return sums * share[:, None] + shift


def deviation_blocks(
    X: Array,
    y: NDArray[np.intp],
    means: Array,
    components: Array | None = None,
    *,
    sample_weight: Floats | None = None,
) -> Iterator[tuple[slice, Array, Array]]:
    """Deviations of the samples from the mean of their class, a block of rows at a time.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, of any library of the array API standard.
    y : ndarray of shape (n_samples,)
        Class positions, from 0 to n_classes - 1.
    means : array of shape (n_classes, n_features)
        Mean of each class, as of `class_means`.
    components : array of shape (n_features, n_dims), optional
        Directions as columns; deviations are then along these.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts; by default 1.

    Yields
    ------
    rows : slice
        Which samples.
    members : array of shape (n_classes, n_rows)
        The weight of the sample where it is of the class, 0.0 elsewhere: `members @ values` sums
        the values of each class.
    deviations : array of shape (n_rows, n_features) or (n_rows, n_dims)
        In float64 on the device of `X`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import class_means, deviation_blocks
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1])
    >>> for rows, members, deviations in deviation_blocks(X, y, class_means(X, y, 2)):
    ...     print(rows, members.shape)
    ...     print(deviations)
    slice(0, 3, None) (2, 3)
    [[ 0. -1.]
     [ 0.  1.]
     [ 0.  0.]]
    """
    xp, device = compat.array_namespace(X), compat.device(X)
    means = _double_like(means, X)
    width = 3 * X.shape[1]
    if components is not None:
        components = _double_like(components, X)
        width += 2 * components.shape[1]
    blocks = _member_blocks(X, y, means.shape[0], width=width, sample_weight=sample_weight)
    for rows, members in blocks:
        own = xp.take(means, xp.asarray(y[rows], device=device), axis=0)
        deviations = xp.astype(X[rows, :], xp.float64) - own
        yield rows, members, deviations if components is None else deviations @ components


def class_squares(
    X: Array,
    y: NDArray[np.intp],
    means: Array,
    components: Array | None = None,
    *,
    sample_weight: Floats | None = None,
) -> Array:
    """Sum of squared deviations of each class from its mean.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, of any library of the array API standard.
    y : ndarray of shape (n_samples,)
        Class positions, from 0 to n_classes - 1.
    means : array of shape (n_classes, n_features)
        Mean of each class, as of `class_means`.
    components : array of shape (n_features, n_dims), optional
        Directions as columns; deviations are then along these.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts; by default 1.

    Returns
    -------
    array of shape (n_classes, n_features) or (n_classes, n_dims)
        In float64 on the device of `X`; 0 for a class without samples.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import class_means, class_squares
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1])
    >>> class_squares(X, y, class_means(X, y, 2))
    array([[0., 2.],
           [0., 0.]])
    """
    if isinstance(X, SummedRows):
        return X.sums.squares if components is None else X.squares_along(to_numpy(components))
    xp = compat.array_namespace(X)
    n_dims = X.shape[1] if components is None else components.shape[1]
    shape = means.shape[0], n_dims
    squares = xp.zeros(shape, dtype=xp.float64, device=compat.device(X))
    blocks = deviation_blocks(X, y, means, components, sample_weight=sample_weight)
    for _, members, deviations in blocks:
        squares += members @ (deviations * deviations)
    return squares


def class_sums(
    X: Array,
    y: NDArray[np.intp],
    classes: NDArray[Any],
    *,
    sample_weight: Floats | None = None,
) -> ClassSums:
    """Counts, means and scatter of all classes, in two passes over blocks of rows.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, of any library of the array API standard.
    y : ndarray of shape (n_samples,)
        Class positions, from 0 to n_classes - 1.
    classes : ndarray of shape (n_classes,)
        Labels, sorted.
    sample_weight : ndarray of shape (n_samples,), optional
        How much each sample counts, positive; by default 1.

    Returns
    -------
    ClassSums
        In float64 on the host.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import class_sums
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array([0, 0, 1])
    >>> class_sums(X, y, np.array(["a", "b"])).squares
    array([[0., 2.],
           [0., 0.]])
    """
    if isinstance(X, SummedRows):
        return X.sums
    xp, device = compat.array_namespace(X), compat.device(X)
    n_features = X.shape[1]
    means = class_means(X, y, len(classes), sample_weight=sample_weight)
    squares = xp.zeros_like(means)
    scatter = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    for rows, members, deviations in deviation_blocks(X, y, means):
        if sample_weight is not None:
            roots = xp.asarray(np.sqrt(sample_weight[rows]), device=device)
            deviations = deviations * roots[:, None]
        squares += members @ (deviations * deviations)
        scatter += xp.matrix_transpose(deviations) @ deviations
    sizes = np.bincount(y, weights=sample_weight, minlength=len(classes)).astype(np.float64)
    counts = np.bincount(y, minlength=len(classes)).astype(np.int64)
    return ClassSums(classes, counts, sizes, to_numpy(means), to_numpy(squares), to_numpy(scatter))


def mean_square_distance(X: Array) -> float:
    """Mean squared distance of the samples from their mean.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, at least one, of any library of the array API standard.

    Returns
    -------
    float
        Zero where all samples are equal but for rounding; infinite where squares overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import mean_square_distance
    >>> mean_square_distance(np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]))
    2.6666666666666665
    """
    xp = compat.array_namespace(X)
    n_samples, n_features = X.shape
    mean = _mean(X, None)
    total = 0.0
    for rows in row_blocks(n_samples, 8 * 3 * n_features, block_budget(X[0:1, :])):
        deviations = xp.astype(X[rows, :], xp.float64) - mean[None, :]
        total += float(xp.sum(deviations * deviations))
    rounding = _ROUNDING**2 * float(xp.sum(mean * mean))
    if not np.isfinite(total):
        return float("inf")
    return total / n_samples if total > n_samples * rounding else 0.0


def _member_blocks(
    X: Array,
    y: NDArray[np.intp],
    n_classes: int,
    *,
    width: int,
    sample_weight: Floats | None = None,
) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows, `width` numbers per row in use, and the weight of each row in its class."""
    xp, device = compat.array_namespace(X), compat.device(X)
    labels = xp.asarray(y, device=device)
    classes = xp.arange(n_classes, device=device)
    for rows in row_blocks(X.shape[0], 8 * (width + n_classes), block_budget(X[0:1, :])):
        members = xp.astype(labels[rows][None, :] == classes[:, None], xp.float64)
        if sample_weight is not None:
            members *= xp.asarray(sample_weight[rows], device=device)[None, :]
        yield rows, members


def _mean(X: Array, weight: Array | None) -> Array:
    """Mean of all samples in float64."""
    xp = compat.array_namespace(X)
    total = xp.zeros(X.shape[1], dtype=xp.float64, device=compat.device(X))
    for rows in row_blocks(X.shape[0], 8 * X.shape[1], block_budget(X[0:1, :])):
        if weight is None:
            total += xp.sum(X[rows, :], axis=0, dtype=xp.float64)
        else:
            total += weight[rows] @ xp.astype(X[rows, :], xp.float64)
    return total / (X.shape[0] if weight is None else xp.sum(weight))


def _double_like(values: Array, X: Array) -> Array:
    """The values in float64, in the namespace and on the device of `X`."""
    xp = compat.array_namespace(X)
    if compat.is_array_api_obj(values) and compat.array_namespace(values) is not xp:
        values = to_numpy(values)
    return xp.asarray(values, dtype=xp.float64, device=compat.device(X))
