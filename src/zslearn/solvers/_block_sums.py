"""Sums of one block of samples, to be added to those of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._class_sums import ClassSums
from zslearn.utils import Array, Floats, to_numpy


def sum_block(X: Array, labels: NDArray[Any], weights: Floats | None = None) -> ClassSums:
    """Counts, means and scatter of the classes of some samples.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Samples, at least one, which take a copy in float64.
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
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    # Rows of a class one after another: their sums are those of stretches of rows.
    order = np.argsort(codes, kind="stable")
    rows = np.asarray(to_numpy(X)[order], dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    # Around one sample, so that a large common offset does not cost digits.
    shift = rows[0].copy()
    rows -= shift
    sizes, weighted = counts.astype(np.float64), rows
    if weights is not None:
        weights = weights[order][:, None]
        sizes = np.add.reduceat(weights[:, 0], starts)
        weighted = rows * weights
    means = np.add.reduceat(weighted, starts, axis=0) / sizes[:, None]
    rows -= np.repeat(means, counts, axis=0)
    if weights is not None:
        rows *= np.sqrt(weights)
    squares = np.add.reduceat(rows * rows, starts, axis=0)
    return ClassSums(classes, counts.astype(np.int64), sizes, means + shift, squares, rows.T @ rows)
