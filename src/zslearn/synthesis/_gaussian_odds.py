r"""How much likelier a class without samples is than one with samples, from the seen classes.

A class without samples is predicted from its signature, and its mean is less certain: without a
prior in its favour its samples go to seen classes. How strong a prior is right depends on how much
signatures tell, which differs from data set to data set. It is found on the seen classes: each
fifth of them in turn is taken for unseen, with the means that the other classes predict, and the
training samples are recognised among all. The odds are those with the largest harmonic mean of the
accuracies of the two groups, drawn half the way to :data:`USUAL_ODDS`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats

#: The odds where nothing tells them: the ratio of seen to unseen classes in five folds.
USUAL_ODDS = 4.0
_GROUPS = 5
# Fewer seen classes than these tell nothing.
_FEWEST_CLASSES = 2 * _GROUPS
# Logarithms of odds to choose from, and the share of the best that counts as being as good.
_LOG_ODDS = np.linspace(-3.0, 12.0, 151)
_AS_GOOD = 0.995


def unseen_odds_of(
    as_seen: Floats,
    as_unseen: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    positions: Floats,
) -> float:
    """The odds under which seen classes and those taken for unseen are recognised alike.

    Parameters
    ----------
    as_seen : ndarray of shape (n_samples, n_seen)
        Log densities of training samples, that of a sample's own class without the sample.
    as_unseen : ndarray of shape (n_samples, n_seen)
        Log densities where the class has no samples.
    y : ndarray of shape (n_samples,)
        The column of each sample's class.
    weights : ndarray of shape (n_samples,)
        How much each sample counts.
    positions : ndarray of shape (n_seen,)
        A number that tells each class apart, such as its mean along the first axis: classes next to
        each other go to different fifths, whatever they are called.

    Returns
    -------
    float
        The odds.
    """
    n_seen = as_seen.shape[1]
    if n_seen < _FEWEST_CLASSES:
        return USUAL_ODDS
    group = np.empty(n_seen, dtype=np.intp)
    group[np.argsort(positions, kind="stable")] = np.arange(n_seen) % _GROUPS
    best_seen = np.stack([as_seen[:, group == k].max(axis=1) for k in range(_GROUPS)], axis=1)
    best_unseen = np.stack([as_unseen[:, group == k].max(axis=1) for k in range(_GROUPS)], axis=1)
    rows = np.arange(len(y))
    own_seen, own_unseen = as_seen[rows, y], as_unseen[rows, y]
    # Every class counts alike.
    shares = weights / np.bincount(y, weights, n_seen)[y]
    harmonic = np.zeros(len(_LOG_ODDS))
    for k in range(_GROUPS):
        others = np.delete(best_seen, k, axis=1).max(axis=1)
        # A sample is taken for one of an unseen class where the log odds are above this.
        threshold = others - best_unseen[:, k]
        unseen = group[y] == k
        right_seen = shares * (~unseen & (own_seen >= others))
        right_unseen = shares * (unseen & (own_unseen >= best_unseen[:, k]))
        above = threshold[:, None] >= _LOG_ODDS
        seen_accuracy = right_seen @ above / max(shares[~unseen].sum(), 1e-300)
        unseen_accuracy = right_unseen @ ~above / max(shares[unseen].sum(), 1e-300)
        total = seen_accuracy + unseen_accuracy
        harmonic += 2 * seen_accuracy * unseen_accuracy / np.where(total > 0, total, 1.0)
    if harmonic.max() <= 0:
        return USUAL_ODDS
    found = _LOG_ODDS[harmonic >= _AS_GOOD * harmonic.max()].mean()
    return float(np.exp((found + np.log(USUAL_ODDS)) / 2))
