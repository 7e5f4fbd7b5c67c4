"""Splitting classes, and samples within classes, at random."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray


def class_folds(
    order: NDArray[np.intp], n_splits: int, *, drop_remainder: bool = False
) -> list[NDArray[np.intp]]:
    """Cut an order of classes into consecutive folds.

    Parameters
    ----------
    order : ndarray of shape (n_classes,)
        Classes in the order in which they are dealt.
    n_splits : int
        How many folds, at most `n_classes`.
    drop_remainder : bool, default=False
        Whether all folds get floor(n_classes / n_splits) classes and the last classes are in none,
        as in the authors' program; otherwise the sizes differ by at most one.

    Returns
    -------
    list of ndarray
        The classes of each fold.
    """
    if not drop_remainder:
        return np.array_split(order, n_splits)
    size = len(order) // n_splits
    return [order[i * size : (i + 1) * size] for i in range(n_splits)]


def hold_out_per_class(
    codes: NDArray[np.intp], amount: float | int, rng: np.random.RandomState
) -> NDArray[np.bool_]:
    """Mark some samples of each class at random, at least one where a class has two.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample, 0 … n_classes−1.
    amount : float or int
        A share between 0 and 1, or a number of samples.
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
    is_count = isinstance(amount, Integral)
    wanted = np.full(len(counts), amount) if is_count else float(amount) * counts
    n_held = np.clip(np.round(wanted).astype(int), 1, np.maximum(counts - 1, 0))
    held[order[rank < np.repeat(n_held, counts)]] = True
    return held
