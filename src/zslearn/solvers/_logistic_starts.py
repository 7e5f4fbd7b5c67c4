"""Where Newton's method for a softmax starts: at the best point of a plane; see `_logistic`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from zslearn.solvers._logistic_losses import SoftmaxLoss
from zslearn.utils import Array, Floats, to_numpy

# Newton steps on the plane at most; a change of lengths that ends them.
_MAX_STEPS = 5
_SMALL = 0.05

#: Coefficients, intercepts, scores.
Place = tuple[Array, Array, Array]


def best_on_plane(loss: SoftmaxLoss, alpha: float, place: Place, steps: Sequence[Place]) -> Place:
    """The best place that some steps lead to, by Newton's method in their lengths.

    Tables of rows by classes are all that it takes, no product with the rows.

    Parameters
    ----------
    loss : SoftmaxLoss
        Without the penalty.
    alpha : float
        Weight of the penalty.
    place : (coef, intercept, scores)
        Where it begins.
    steps : sequence of (coef, intercept, scores)
        Changes of these.

    Returns
    -------
    (coef, intercept, scores)
        With an objective that is no higher than where it begins.
    """
    xp = loss.xp
    vectors = xp.stack([xp.reshape(x[0], (-1,)) for x in (place, *steps)])
    squares = alpha * to_numpy(vectors @ xp.matrix_transpose(vectors)).astype(np.float64)
    moves = [step[2] for step in steps]
    lengths, best, lowest = np.zeros(len(steps)), np.zeros(len(steps)), np.inf
    for _ in range(_MAX_STEPS):
        value, first, second = _plane(loss, place[2], moves, lengths)
        at = np.concatenate([[1.0], lengths])
        value += 0.5 * at @ squares @ at
        # Newton's method may overshoot: half of the way back is below, as the objective is convex.
        if not value <= lowest:
            lengths = 0.5 * (lengths + best)
            continue
        best, lowest = lengths, value
        first, second = first + squares[1:] @ at, second + squares[1:, 1:]
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            break
        change = -np.linalg.lstsq(second, first, rcond=1e-10)[0]
        if np.abs(change).max() < _SMALL * (1 + np.abs(lengths).max()):
            break
        lengths = lengths + change
    coef, intercept, scores = place
    for length, step in zip(best.tolist(), steps, strict=True):
        coef, intercept = coef + length * step[0], intercept + length * step[1]
        scores = scores + length * step[2]
    return coef, intercept, scores


def _plane(
    loss: SoftmaxLoss, scores: Array, moves: Sequence[Array], lengths: Floats
) -> tuple[float, Floats, Floats]:
    """The loss where scores have changed along several moves, by so much of each.

    Parameters
    ----------
    loss : SoftmaxLoss
        Which it is.
    scores : array of shape (n_samples, n_classes)
        Before.
    moves : sequence of k arrays of shape (n_samples, n_classes)
        Changes.
    lengths : ndarray of shape (k,)
        What is taken of each.

    Returns
    -------
    value : float
        The loss.
    first : ndarray of shape (k,)
        Its derivatives in the lengths.
    second : ndarray of shape (k, k)
        Their derivatives: covariances of the changes under p.
    """
    xp, k = loss.xp, len(moves)
    value, first, second = 0.0, np.zeros(k), np.zeros((k, k))
    for rows in loss.blocks():
        weights, targets = loss.weights[rows, :], loss.targets[rows, :]
        changes = [move[rows, :] for move in moves]
        block = scores[rows, :]
        for length, change in zip(lengths.tolist(), changes, strict=True):
            block = block + length * change
        top = xp.max(block, axis=1, keepdims=True)
        powers = xp.exp(block - top)
        total = xp.sum(powers, axis=1, keepdims=True)
        wanted = xp.vecdot(targets, block)[:, None]
        value += float(xp.sum(weights * (xp.log(total) + top - wanted)))
        shares = powers / total
        apart = []
        for i, change in enumerate(changes):
            mean = xp.vecdot(shares, change)[:, None]
            first[i] += float(xp.sum(weights * (mean - xp.vecdot(targets, change)[:, None])))
            apart.append(change - mean)
        shares = shares * weights
        for i, j in combinations_with_replacement(range(k), 2):
            second[i, j] += float(xp.sum(xp.vecdot(shares * apart[i], apart[j])))
    return value, first, np.triu(second) + np.triu(second, 1).T
