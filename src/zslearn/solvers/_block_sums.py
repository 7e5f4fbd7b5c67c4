"""Sums of one block of samples, to be added to those of the others."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._class_moments import class_means, deviation_blocks
from zslearn.solvers._class_sums import ClassSums
from zslearn.utils import Array, Floats, to_numpy


def sum_block(X: Array, labels: NDArray[Any], weights: Floats | None = None) -> ClassSums:
    """Counts, means and scatter of the classes of some samples.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, at least one, of any library of the array API standard.
    labels : ndarray of shape (n_samples,)
        Their classes, of one kind.
    weights : ndarray of shape (n_samples,), optional
        How much each sample counts, positive; by default 1.

    Returns
    -------
    ClassSums
        Of these classes; they add up over blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import sum_block
    >>> X, y = np.array([[0.0, 1.0], [0.0, 3.0], [3.0, 2.0]]), np.array(["a", "a", "b"])
    >>> (sum_block(X[:1], y[:1]) + sum_block(X[1:], y[1:])).means
    array([[0., 2.],
           [3., 2.]])
    """
    classes, codes = np.unique(labels, return_inverse=True)
    xp, device = compat.array_namespace(X), compat.device(X)
    means = class_means(X, codes, len(classes), sample_weight=weights)
    squares = xp.zeros_like(means)
    scatter = xp.zeros((X.shape[1], X.shape[1]), dtype=xp.float64, device=device)
    for rows, members, deviations in deviation_blocks(X, codes, means):
        if weights is not None:
            deviations = deviations * xp.asarray(np.sqrt(weights[rows]), device=device)[:, None]
        squares += members @ (deviations * deviations)
        scatter += xp.matrix_transpose(deviations) @ deviations
    counts = np.bincount(codes, minlength=len(classes)).astype(np.int64)
    sizes = np.bincount(codes, weights, minlength=len(classes)).astype(np.float64)
    return ClassSums(
        classes, counts, sizes, to_numpy(means), to_numpy(squares), to_numpy(scatter)
    )
