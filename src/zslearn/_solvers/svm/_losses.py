"""The losses of linear multi-class classifiers, as functions of the scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, to_numpy

SVMLoss = Literal["squared_hinge", "crammer_singer"]
#: What SynC and the targets of graph methods call them.
LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}


def loss_and_slope(
    scores: Floats,
    y: NDArray[np.intp],
    loss: SVMLoss,
    margins: Any = None,
    *,
    sample_weight: Floats | None = None,
    smoothing: float = 0.0,
    dual: Floats | None = None,
) -> tuple[float, Floats]:
    """The loss and its slope in the scores; of a hinge, of a soft maximum, or of dual points."""
    every, n_classes = np.arange(len(y)), scores.shape[1]
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    shares = (weights / weights.sum())[:, None]
    if loss == "squared_hinge":
        # −s·max(0, 1 − s·score): negative where the true class should score higher.
        slope = np.maximum(1 + scores, 0)
        slope[every, y] = -np.maximum(1 - scores[every, y], 0)
        weight = shares / n_classes
        return float(np.sum(weight * slope**2)), 2 * weight * slope
    violations = scores + checked_margins(margins, n_classes)[y] - scores[every, y][:, None]
    worst = violations.argmax(axis=1)
    value = float(np.sum(shares[:, 0] * violations[every, worst]))
    if dual is not None:
        slope = np.array(dual, dtype=np.float64)
    elif smoothing > 0:
        slope = np.exp((violations - violations[every, worst][:, None]) / smoothing)
        slope /= slope.sum(axis=1, keepdims=True)
    else:
        slope = np.zeros_like(scores)
        slope[every, worst] = 1.0
    slope[every, y] -= 1.0
    return value, shares * slope


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
