"""Normalising signatures: unit rows, then units of the median distance."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.utils.validation import check_array

from zslearn.utils import unit_rows

SignatureNorm = Literal["l2", "l1", "zscore", "l2-zscore", "l1-zscore"]

# Up to here all distances are held at once (64 MiB); beyond, they are counted block by block.
_DENSE_CLASSES = 4096
_BINS = 1 << 16


def normalize_signatures(
    signatures: ArrayLike,
    *,
    norm: SignatureNorm | None = "l2",
    scale: float | None = None,
) -> NDArray[np.float64]:
    """Normalise each signature, then divide all of them by their median distance.

    Parameters
    ----------
    signatures : array-like of shape (n_classes, n_attributes)
        One row per class.
    norm : {"l2", "l1", "zscore", "l2-zscore", "l1-zscore"} or None, default="l2"
        What is done to the rows before scaling. "zscore" standardises each column (sample standard
        deviation); the two-part names do the one, then the other. A zero row or a constant column
        stays zero.
    scale : float, optional
        What to divide by. By default the median of the distances between the rows,
        see :func:`median_distance`.

    Returns
    -------
    ndarray of shape (n_classes, n_attributes)
        The normalised signatures, float64.

    See Also
    --------
    median_distance : The default scale.

    Examples
    --------
    >>> from zslearn.signatures import normalize_signatures
    >>> normalize_signatures([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]], scale=0.5)
    array([[1.2, 1.6],
           [2. , 0. ],
           [0. , 2. ]])
    """
    if norm is not None and norm not in get_args(SignatureNorm):
        raise ValueError(f"norm={norm!r} is not one of {get_args(SignatureNorm)} or None.")
    rows = check_array(signatures, dtype=np.float64, input_name="signatures")
    for step in norm.split("-") if norm else ():
        if step == "l2":
            rows = unit_rows(rows)
        elif step == "l1":
            total = np.abs(rows).sum(axis=1, keepdims=True)
            rows = rows / np.where(total > 0, total, 1.0)
        else:
            spread = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(rows.shape[1])
            rows = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if scale is None:
        scale = median_distance(rows)
    elif not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number; got {scale!r}.")
    return rows / scale


def median_distance(signatures: ArrayLike) -> float:
    """Median of the strictly positive Euclidean distances between rows.

    A row's distance to itself never counts, nor does the distance between two rows that are equal
    but for rounding (a 10⁻¹² of the longest row). Memory is bounded: many rows are counted into a
    histogram first, and only the distances of the bins around the middle are sorted.

    Parameters
    ----------
    signatures : array-like of shape (n_classes, n_attributes)
        One row per class.

    Returns
    -------
    float
        The median, or 1.0 when no two rows differ.

    Examples
    --------
    >>> from zslearn.signatures import median_distance
    >>> median_distance([[0.0], [1.0], [4.0]])
    3.0
    """
    rows = check_array(signatures, dtype=np.float64, input_name="signatures")
    if len(rows) <= _DENSE_CLASSES:
        distances = pdist(rows)
        distances = distances[distances > _noise(rows)]
        return float(np.median(distances)) if distances.size else 1.0
    return _median_of_blocks(rows)


def _noise(rows: NDArray[np.float64]) -> float:
    """Below this a distance is rounding error."""
    return 1e-12 * float(np.sqrt((rows**2).sum(axis=1).max()))


def _median_of_blocks(rows: NDArray[np.float64], block: int = 1024) -> float:
    """Median distance in two passes over blocks of rows: count into bins, then sort the middle."""

    def blocks() -> list[slice]:
        return [slice(start, start + block) for start in range(0, len(rows), block)]

    def counted(part: slice) -> NDArray[np.float64]:
        # Row i meets rows j > i only.
        distances = cdist(rows[part], rows[part.start :])
        distances = distances[np.triu(np.ones(distances.shape, dtype=bool), k=1)]
        return distances[distances > noise]

    noise = _noise(rows)
    # No distance exceeds twice the largest distance to the mean.
    top = 2 * np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).max())
    if top == 0:
        return 1.0
    counts = np.zeros(_BINS, dtype=np.int64)
    for part in blocks():
        counts += np.histogram(counted(part), bins=_BINS, range=(0.0, top))[0]
    upto = np.cumsum(counts)
    total = int(upto[-1])
    if total == 0:
        return 1.0
    ranks = ((total - 1) // 2, total // 2)  # the middle one, or the middle two
    first, last = (int(np.searchsorted(upto, rank, side="right")) for rank in ranks)
    edges = np.histogram_bin_edges([], bins=_BINS, range=(0.0, top))
    # One more bin on either side, against a rounding of the edges.
    low, high = edges[max(first - 1, 0)], edges[min(last + 2, _BINS)]
    below = 0
    middle = []
    for part in blocks():
        distances = counted(part)
        below += int((distances < low).sum())
        middle.append(distances[(distances >= low) & (distances <= high)])
    ordered = np.sort(np.concatenate(middle))
    return float((ordered[ranks[0] - below] + ordered[ranks[1] - below]) / 2)
