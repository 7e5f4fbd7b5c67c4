r"""Ranking losses of a table of scores, with their slopes.

A sample of class y with the scores :math:`F_c` violates its ranking by
:math:`h_c = 1 + F_c - F_y` in every other class c where that is positive. The losses here differ in
what they make of the violators; each function gives the loss of every sample and its slope with
respect to the scores. The slopes of a sample add up to zero, so that nothing changes when one
number is added to all of its scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import Floats

#: An array of NumPy in any floating dtype, on the host: descents run in that of their rows.
AnyFloats = NDArray[np.floating[Any]]


def rank_weights(n_classes: int) -> Floats:
    r"""What each of k violators weighs in the rank-weighted loss: :math:`\beta_k / k`.

    Parameters
    ----------
    n_classes : int
        Number of classes S.

    Returns
    -------
    ndarray of shape (n_classes,)
        For k = 0 … S−1, with :math:`\beta_k = \sum_{i \le k} 1/i`; 0 for k = 0.

    Examples
    --------
    >>> from zslearn.solvers import rank_weights
    >>> rank_weights(3)
    array([0.  , 1.  , 0.75])
    """
    k = np.arange(1, n_classes)
    return np.concatenate([[0.0], np.cumsum(1 / k) / k])


def hinge_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> tuple[AnyFloats, AnyFloats]:
    r"""All violators: :math:`w_k \sum_c \max(0, 1 + F_c - F_y)`, where k of them violate.

    The number of violators changes by jumps, so that the slope takes it as given.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores F.
    y : ndarray of int of shape (n_samples,)
        The class of each sample.
    weights : ndarray of shape (n_classes,), optional
        w by the number of violators; by default 1.

    Returns
    -------
    loss : ndarray of shape (n_samples,)
        Loss of each sample.
    slope : ndarray of shape (n_samples, n_classes)
        Its derivative with respect to the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import hinge_of_all
    >>> loss, slope = hinge_of_all(np.array([[1.0, 0.5, -2.0]]), np.array([0]))
    >>> loss
    array([0.5])
    >>> slope
    array([[-1.,  1.,  0.]])
    """
    slope = slopes_of_all(scores, y, weights)
    others = slope.copy()
    others[np.arange(len(y)), y] = 0
    return np.sum(others * _excess(scores, y), axis=1, where=others > 0), slope


def slopes_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> AnyFloats:
    """The slopes of :func:`hinge_of_all`, without the loss.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores F.
    y : ndarray of int of shape (n_samples,)
        The class of each sample.
    weights : ndarray of shape (n_classes,), optional
        w by the number of violators; by default 1.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The derivative of the loss with respect to the scores.
    """
    rows = np.arange(len(y))
    violates = scores > (scores[rows, y] - 1)[:, None]
    violates[rows, y] = False
    slope = violates.astype(scores.dtype)
    n_violators = slope.sum(axis=1)
    if weights is not None:
        weight = weights.astype(scores.dtype)[n_violators.astype(np.intp)]
        slope *= weight[:, None]
        n_violators *= weight
    slope[rows, y] = -n_violators
    return slope


def hinge_of_worst(scores: AnyFloats, y: NDArray[np.intp]) -> tuple[AnyFloats, AnyFloats]:
    r"""The worst violator: :math:`\max(0, \max_{c \ne y} 1 + F_c - F_y)`.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores F.
    y : ndarray of int of shape (n_samples,)
        The class of each sample.

    Returns
    -------
    loss : ndarray of shape (n_samples,)
        Loss of each sample.
    slope : ndarray of shape (n_samples, n_classes)
        Its derivative with respect to the scores.
    """
    loss, worst = worst_violator(scores, y)
    slope = np.zeros_like(scores)
    rows = np.flatnonzero(loss > 0)
    slope[rows, worst[rows]] = 1
    slope[rows, y[rows]] = -1
    return loss, slope


def slopes_of_worst(scores: AnyFloats, y: NDArray[np.intp]) -> AnyFloats:
    """The slopes of :func:`hinge_of_worst`, without the loss.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores F.
    y : ndarray of int of shape (n_samples,)
        The class of each sample.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The derivative of the loss with respect to the scores.
    """
    return hinge_of_worst(scores, y)[1]


def worst_violator(scores: AnyFloats, y: NDArray[np.intp]) -> tuple[AnyFloats, NDArray[np.intp]]:
    """Loss of each sample, and the class besides its own that scores highest.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Scores F.
    y : ndarray of int of shape (n_samples,)
        The class of each sample.

    Returns
    -------
    loss : ndarray of shape (n_samples,)
        Loss of each sample.
    worst : ndarray of int of shape (n_samples,)
        The first of the highest scoring classes.
    """
    excess = _excess(scores, y)
    rows = np.arange(len(y))
    excess[rows, y] = -np.inf
    worst = excess.argmax(axis=1)
    return np.maximum(excess[rows, worst], 0), worst


def latent_hinge(
    own: AnyFloats, other: AnyFloats
) -> tuple[AnyFloats, NDArray[np.intp], NDArray[np.intp]]:
    r"""One negative under several maps: :math:`\max(0, 1 + \max_k F_{kc} - \max_k F_{ky})`.

    Where the loss is positive, its slope is −1 at the winning map of the own class and 1 at the
    winning map of the negative.

    Parameters
    ----------
    own : ndarray of shape (n_samples, n_maps)
        Scores of each sample's own class.
    other : ndarray of shape (n_samples, n_maps)
        Scores of its negative.

    Returns
    -------
    loss : ndarray of shape (n_samples,)
        Loss of each sample.
    own_map : ndarray of int of shape (n_samples,)
        The map under which the own class scores highest.
    other_map : ndarray of int of shape (n_samples,)
        The same of the negative.
    """
    own_map, other_map = own.argmax(axis=1), other.argmax(axis=1)
    rows = np.arange(len(own))
    return np.maximum(1 + other[rows, other_map] - own[rows, own_map], 0), own_map, other_map


def _excess(scores: AnyFloats, y: NDArray[np.intp]) -> AnyFloats:
    """1 + F_c − F_y; 1 for the own class."""
    return 1 + scores - scores[np.arange(len(y)), y][:, None]
