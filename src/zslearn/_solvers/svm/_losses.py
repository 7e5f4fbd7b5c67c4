"""The losses of linear multi-class classifiers, as functions of the scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, to_numpy

SVMLoss = Literal["squared_hinge", "crammer_singer"]


def loss_and_slope(
    scores: Floats,
    y: NDArray[np.intp],
    loss: SVMLoss,
    margins: Any = None,
    *,
    sample_weight: Floats | None = None,
) -> tuple[float, Floats]:
    """The loss part of the objective, and its (sub)gradient with respect to the scores."""
    n_samples, n_classes = scores.shape
    every = np.arange(n_samples)
    weights = np.ones(n_samples) if sample_weight is None else sample_weight
    weights = weights / weights.sum()
    if loss == "squared_hinge":
        # −s·max(0, 1 − s·score): negative where the true class should score higher.
        slope = np.maximum(1 + scores, 0)
        slope[every, y] = -np.maximum(1 - scores[every, y], 0)
        value = weights @ np.einsum("nc,nc->n", slope, slope) / n_classes
        return float(value), slope * (2 / n_classes * weights)[:, None]
    violations = scores + checked_margins(margins, n_classes)[y] - scores[every, y][:, None]
    worst = violations.argmax(axis=1)
    slope = np.zeros_like(scores)
    slope[every, worst] += weights
    slope[every, y] -= weights
    return float(weights @ violations[every, worst]), slope


def checked_margins(margins: Any, n_classes: int) -> Floats:
    """Margins as a table of floats, 1 by default; refuse those that no loss can have."""
    if margins is None:
        return 1.0 - np.eye(n_classes)
    margins = np.asarray(to_numpy(margins), dtype=np.float64)
    if margins.shape != (n_classes, n_classes):
        raise ValueError(
            f"margins must be {n_classes} × {n_classes}, true class by class; "
            f"got shape {margins.shape}."
        )
    if not np.isfinite(margins).all() or margins.min() < 0 or np.diagonal(margins).any():
        raise ValueError("margins must be finite and non-negative, with a diagonal of zeros.")
    return margins
