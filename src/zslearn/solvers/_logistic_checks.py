"""What logistic regressions are given, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats, name_some, to_numpy


def checked_targets(Y: Any, n_samples: int, codes: Any) -> tuple[Floats, NDArray[np.intp]]:
    """Targets in double precision, and which row of them each sample has."""
    targets = np.asarray(to_numpy(Y), dtype=np.float64)
    places = np.arange(n_samples) if codes is None else np.asarray(to_numpy(codes))
    n_rows = n_samples if codes is None else len(targets)
    if targets.ndim != 2 or len(targets) != n_rows or targets.shape[1] == 0:
        raise ValueError(
            f"Y must have one row per sample, {n_samples} in all, and one column per problem; "
            f"got shape {targets.shape}."
        )
    if places.shape != (n_samples,) or places.dtype.kind not in "iu":
        raise ValueError(f"codes must hold one integer per sample, {n_samples} in all.")
    if not (places.min() >= 0 and places.max() < n_rows):
        raise ValueError(f"codes must be rows of Y, 0 … {n_rows - 1}.")
    if not ((targets >= 0) & (targets <= 1)).all():
        raise ValueError("Y must hold 0 and 1, or probabilities between them.")
    return targets, places


def checked_shares(y: NDArray[Any]) -> Floats:
    """Probabilities of classes in double precision."""
    shares = y.astype(np.float64)
    if not ((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1)):
        raise ValueError("The rows of y must be probabilities: non-negative, with a sum of one.")
    return shares


def checked_weights(sample_weight: Any, shape: tuple[int, int]) -> Floats:
    """Weights as columns that sum to one: a single one where all problems share them."""
    if sample_weight is None:
        return np.full((shape[0], 1), 1 / shape[0])
    weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in {shape, (shape[0], 1)}:
        raise ValueError(
            f"sample_weight must have one number per sample, {shape[0]} in all; "
            f"got shape {weights.shape}."
        )
    total = weights.sum(axis=0)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (total > 0).all()):
        raise ValueError("sample_weight must be non-negative, with a positive sum.")
    return weights / total


def refuse_one_sided(targets: Floats, places: NDArray[np.intp], weights: Floats) -> None:
    """Refuse problems whose samples, as far as they count, have one outcome."""
    mass = np.zeros((len(targets), weights.shape[1]))
    np.add.at(mass, places, weights)
    ones, zeros = (mass * targets).sum(axis=0), (mass * (1 - targets)).sum(axis=0)
    constant = np.flatnonzero((ones <= 0) | (zeros <= 0))
    if constant.size:
        raise ValueError(
            f"Column {name_some(constant.tolist())} of Y has one outcome only: its intercept has "
            "no minimum. Leave constant columns out."
        )
