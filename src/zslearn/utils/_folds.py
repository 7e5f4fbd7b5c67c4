"""Splitting classes, and samples within classes, at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def class_folds(
    n_classes: int, n_splits: int, rng: np.random.RandomState
) -> list[NDArray[np.intp]]:
    """Split classes 0 … n−1 at random into folds whose sizes differ by at most one.

    Parameters
    ----------
    n_classes : int
        How many classes.
    n_splits : int
        How many folds, at most `n_classes`.
    rng : numpy.random.RandomState
        The source of the permutation.

    Returns
    -------
    list of ndarray
        Positions of the classes of each fold.
    """
    return np.array_split(rng.permutation(n_classes), n_splits)


def hold_out_per_class(
    codes: NDArray[np.intp], share: float, rng: np.random.RandomState
) -> NDArray[np.bool_]:
    """Mark a share of the samples of each class at random, at least one where a class has two.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample, 0 … n_classes−1.
    share : float
        Between 0 and 1.
    rng : numpy.random.RandomState
        The source of the choice.

    Returns
    -------
    ndarray of bool of shape (n_samples,)
        True for the samples held out. Every class keeps at least one that is not.
    """
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(codes))
    # Samples class by class, shuffled within each class.
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    n_held = np.clip(np.round(share * counts).astype(int), 1, np.maximum(counts - 1, 0))
    held[order[rank < np.repeat(n_held, counts)]] = True
    return held
