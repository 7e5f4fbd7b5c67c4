r"""Thresholds that a share of what was held out falls below, and how well they hold.

Every class counts the same, however many images it has, and seen classes together count as much as
described ones. Scores of the two kinds differ, so that each has a threshold of its own: an image is
compared with that of the kind of the class predicted for it.

A threshold is measured on classes that had no part in it: the classes are dealt into groups, and
those of a group meet the thresholds of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats

#: Groups of classes that are measured by the thresholds of the others.
_MOST_GROUPS = 20


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Values of images that were held out.

    Parameters
    ----------
    values : ndarray of shape (n,)
        What a threshold cuts.
    classes : ndarray of int of shape (n,)
        The class of each image.
    described : ndarray of bool of shape (n,)
        Whether that class was known by its description alone.
    as_described : ndarray of bool of shape (n,)
        Whether the class predicted for the image was so.
    """

    values: Floats
    classes: NDArray[np.intp]
    described: NDArray[np.bool_]
    as_described: NDArray[np.bool_]

    @property
    def weights(self) -> Floats:
        """What each image counts, 1 in all; see the head of this module."""
        if not len(self.values):
            return np.empty(0)
        cells, where, counts = np.unique(
            2 * self.classes + self.described, return_inverse=True, return_counts=True
        )
        kind = cells % 2
        of_kind = np.bincount(kind, minlength=2)[kind]
        weights: Floats = 1 / (counts * of_kind)[where]
        return weights / weights.sum()

    def of(self, chosen: NDArray[np.bool_]) -> HeldOut:
        """Some of the images."""
        return HeldOut(
            self.values[chosen],
            self.classes[chosen],
            self.described[chosen],
            self.as_described[chosen],
        )


def joined(parts: Sequence[HeldOut]) -> HeldOut:
    """The images of all folds."""
    return HeldOut(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.classes for part in parts]),
        np.concatenate([part.described for part in parts]),
        np.concatenate([part.as_described for part in parts]),
    )


def thresholds_at(held_out: HeldOut, share: float) -> tuple[float, float]:
    """Thresholds below which no more than a share of the images lies.

    Parameters
    ----------
    held_out : HeldOut
        The images.
    share : float
        Between 0 and 1; of the images predicted as a seen class, and as a described one.

    Returns
    -------
    seen, described : float
        The threshold of each kind. A kind that was never predicted has that of all images, and
        −∞ where there is none.
    """
    weights = held_out.weights
    everything = _cut(held_out.values, weights, share)
    found = []
    for kind in (False, True):
        own = held_out.as_described == kind
        found.append(_cut(held_out.values[own], weights[own], share) if own.any() else everything)
    return found[0], found[1]


def _cut(values: Floats, weights: Floats, share: float) -> float:
    """The largest value with no more than a share of the weight strictly below it."""
    if not len(values):
        return float("-inf")
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    # Rounding in the sum is no reason to leave an image out.
    first = int(np.searchsorted(total, share * total[-1] * (1 + 1e-9), side="right"))
    return float(values[order[min(first, len(values) - 1)]])


def below(
    values: Floats, as_described: NDArray[np.bool_], thresholds: tuple[float, float]
) -> NDArray[np.bool_]:
    """Which values lie below the threshold of their kind.

    Parameters
    ----------
    values : ndarray of shape (n,)
        What a threshold cuts.
    as_described : ndarray of bool of shape (n,)
        Whether the predicted class is described only.
    thresholds : tuple of float
        Of seen and of described classes.

    Returns
    -------
    ndarray of bool of shape (n,)
        True below.
    """
    return values < np.where(as_described, thresholds[1], thresholds[0])


def cross_fitted(
    known: HeldOut, others: HeldOut, share: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which images lie below thresholds that were found without their class.

    Parameters
    ----------
    known : HeldOut
        What thresholds are found on.
    others : HeldOut
        Further images that meet the same thresholds.
    share : float
        See :func:`thresholds_at`.

    Returns
    -------
    below_known, below_others : ndarray of bool
        One for each image.
    """
    n_groups = min(len(np.unique(known.classes)), _MOST_GROUPS)
    flags = [np.zeros(len(part.values), dtype=bool) for part in (known, others)]
    for group in range(n_groups):
        thresholds = thresholds_at(known.of(known.classes % n_groups != group), share)
        for flag, part in zip(flags, (known, others), strict=True):
            own = part.classes % n_groups == group
            flag[own] = below(part.values[own], part.as_described[own], thresholds)
    return flags[0], flags[1]


def ranks(known: HeldOut, others: HeldOut) -> tuple[Floats, Floats]:
    """The share of known images of the same predicted kind that lie below each image.

    Images of an image's own class do not count. A threshold at any share is a cut of these numbers.

    Parameters
    ----------
    known, others : HeldOut
        See :func:`cross_fitted`.

    Returns
    -------
    of_known, of_others : ndarray
        Between 0 and 1.
    """
    n_groups = min(len(np.unique(known.classes)), _MOST_GROUPS)
    out = [np.zeros(len(part.values)) for part in (known, others)]
    for group in range(n_groups):
        rest = known.of(known.classes % n_groups != group)
        weights = rest.weights
        for kind in (False, True):
            same = rest.as_described == kind
            same = same if same.any() else np.ones_like(same)
            order = np.argsort(rest.values[same], kind="stable")
            values = rest.values[same][order]
            total = np.concatenate([[0.0], np.cumsum(weights[same][order])])
            for ranked, part in zip(out, (known, others), strict=True):
                own = (part.classes % n_groups == group) & (part.as_described == kind)
                places = np.searchsorted(values, part.values[own], side="left")
                ranked[own] = total[places] / total[-1]
    return out[0], out[1]


def rate_and_interval(
    happened: NDArray[np.bool_], held_out: HeldOut, *, level: float = 0.95
) -> tuple[float, tuple[float, float]]:
    """How often something happened, with an interval whose unit is the class.

    Images of one class are alike: twenty of them are not twenty independent trials. The variance
    is that of the classes' rates; it stands for an effective number of trials, with which the
    exact binomial interval is taken (Korn and Graubard, 1998). Classes drawn anew from where these
    came are what the interval is about.

    Parameters
    ----------
    happened : ndarray of bool of shape (n,)
        One for each image.
    held_out : HeldOut
        The images; they count as :class:`HeldOut` weighs them.
    level : float, default=0.95
        How often such an interval covers the rate.

    Returns
    -------
    rate : float
        NaN without images.
    interval : tuple of float
        Its ends.
    """
    if not len(happened):
        return float("nan"), (float("nan"), float("nan"))
    from scipy.stats import beta, t  # not before it is needed: SciPy loads slowly

    weights = held_out.weights
    rate = min(max(float(weights @ happened), 0.0), 1.0)
    apart = np.bincount(held_out.classes, weights * (happened - rate))
    n_classes = len(np.unique(held_out.classes))
    trials = float(n_classes)
    if n_classes > 1:
        variance = n_classes / (n_classes - 1) * float((apart**2).sum())
        tail = (1 + level) / 2
        if variance > 1e-12 * rate * (1 - rate) > 0:
            trials = rate * (1 - rate) / variance
            trials *= (t.ppf(tail, max(len(happened) - 1, 1)) / t.ppf(tail, n_classes - 1)) ** 2
            trials = min(trials, float(len(happened)))
    successes, outside = rate * trials, (1 - level) / 2
    low = 0.0 if rate <= 0 else float(beta.ppf(outside, successes, trials - successes + 1))
    high = 1.0 if rate >= 1 else float(beta.ppf(1 - outside, successes + 1, trials - successes))
    return rate, (low, high)
