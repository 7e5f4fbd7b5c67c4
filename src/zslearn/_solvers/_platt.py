r"""Platt scaling: a sigmoid from scores to probabilities, for many score columns at once.

For each column, with targets :math:`t = (N_+ + 1) / (N_+ + 2)` for positives and
:math:`1 / (N_- + 2)` for negatives,

.. math:: \min_{a \ge 0, b} \sum_n \log(1 + e^{a f_n + b}) - t_n (a f_n + b).

The targets lie inside (0, 1), so that the minimum exists even where scores separate the outcomes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, row_blocks

_MAX_ITER = 50
# Bytes of a table of all samples and some columns.
_CACHE_BYTES = 1 << 18


def platt_targets(
    Y: NDArray[np.bool_],
    known: NDArray[np.bool_] | None = None,
    *,
    counts: NDArray[np.intp] | None = None,
) -> Floats:
    """Target probabilities of positives and negatives: (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2)."""
    known = np.ones(Y.shape, dtype=bool) if known is None else known
    counts = np.ones(len(Y), dtype=np.intp) if counts is None else counts
    positive, negative = counts @ (Y & known), counts @ (~Y & known)
    return np.where(Y, (positive + 1) / (positive + 2), 1 / (negative + 2))


def platt_scaling(
    scores: Floats, Y: NDArray[np.bool_], known: NDArray[np.bool_] | None = None
) -> tuple[Floats, Floats]:
    """Fit a sigmoid to each column of scores."""
    known = np.ones(Y.shape, dtype=bool) if known is None else known
    fit = ((Y & known).any(axis=0)) & ((~Y & known).any(axis=0))
    slope, offset = np.ones(Y.shape[1]), np.zeros(Y.shape[1])
    if not fit.any():
        return slope, offset
    targets = platt_targets(Y, known)
    places = np.flatnonzero(fit)
    # A few columns at a time stay in the cache.
    for block in row_blocks(len(places), 8 * len(Y), _CACHE_BYTES):
        some = places[block]
        slope[some], offset[some] = _fitted(scores[:, some], targets[:, some], known[:, some])
    return slope, offset


def _fitted(scores: Floats, targets: Floats, known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Slopes and offsets of columns that have both outcomes."""
    weights = known / known.sum(axis=0)
    values = np.where(known, scores, 0.0)
    # Standardised scores make Newton's equations well conditioned.
    mean = (weights * values).sum(axis=0)
    scale = np.sqrt((weights * (values - mean) ** 2).sum(axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    a, b = _newton((values - mean) / scale, targets, weights)
    return a / scale, b - a * mean / scale


def _newton(z: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Slopes and offsets for standardised scores; zero instead of negative slopes."""
    share = (weights * targets).sum(axis=0)
    flat = np.log(share) - np.log1p(-share)
    a, b = np.zeros_like(share), flat.copy()
    value, p = _values(a * z + b, targets, weights)
    for _ in range(_MAX_ITER):
        r, w = weights * (p - targets), weights * p * (1 - p)
        ga, gb = (r * z).sum(axis=0), r.sum(axis=0)
        haa, hab, hbb = (w * z * z).sum(axis=0), (w * z).sum(axis=0), w.sum(axis=0)
        haa, hbb = haa + 1e-12, hbb + 1e-12
        det = haa * hbb - hab**2
        da, db = (hab * gb - hbb * ga) / det, (hab * ga - haa * gb) / det
        improvement = -(ga * da + gb * db)
        if (improvement <= 1e-12 * value).all():
            break
        length = np.ones_like(a)
        for _ in range(30):
            renewed, q = _values((a + length * da) * z + b + length * db, targets, weights)
            worse = renewed > value * (1 + 1e-14)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        a, b, value, p = a + length * da, b + length * db, renewed, q
    return np.maximum(a, 0), np.where(a < 0, flat, b)


def _values(f: Floats, targets: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Losses of the columns, and probabilities."""
    small = np.exp(-np.abs(f))
    loss = np.log1p(small) + np.maximum(f, 0) - targets * f
    return (weights * loss).sum(axis=0), np.where(f < 0, small, 1.0) / (1 + small)
