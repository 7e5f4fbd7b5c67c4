"""Hold out samples of each class at random."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray


def hold_out_per_class(
    codes: NDArray[np.intp], amount: float | int, rng: np.random.RandomState
) -> NDArray[np.bool_]:
    """Mark some samples of each class at random, at least one of a class that has two."""
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(codes))
    # Samples class by class, shuffled within each class.
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_count = isinstance(amount, Integral)
    wanted = np.full(len(counts), amount) if is_count else float(amount) * counts
    n_held = np.clip(np.round(wanted).astype(int), 1, np.maximum(counts - 1, 0))
    held[order[rank < np.repeat(n_held, counts)]] = True
    return held
