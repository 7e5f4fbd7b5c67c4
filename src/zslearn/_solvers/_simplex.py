r"""Points as mixtures of other points: exact least squares over the simplex.

For each target a and the points :math:`p_1, \dots, p_S`,

.. math:: \min_z \tfrac12 \Big\|a - \sum_c z_c p_c\Big\|^2 + \tfrac{\gamma}{2} \|z\|^2
          \quad \text{with} \quad z \ge 0,\ \sum_c z_c = 1.

With :math:`\gamma > 0` the solution is unique. Since the weights sum to one, all points may be
shifted; centring them gives the best conditioned matrix :math:`K = P P^\top + \gamma I`.
Accelerated projected gradients, for all targets together, guess which weights are positive. A
primal active-set method then finds the solution in finitely many steps: it solves the problem on
the positive weights and steps towards this solution until a weight would become negative; if none
does, it adds the weight with the smallest gradient.

For the gradient g at z, the certificate :math:`g^\top z - \min_c g_c` (the duality gap) is an upper
bound of the difference between the objective and its minimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from zslearn._utils._array import Floats, row_blocks

# Number of projected-gradient steps. Targets are processed in blocks that fit into the cache.
_GUESS = 60
_GUESS_BYTES = 1 << 22
# Relative rounding error of the gradient.
_ROUNDING = 1e-13


class SimplexResult(NamedTuple):
    """Mixture weights and their certificate.

    Parameters
    ----------
    weights : ndarray of shape (n_targets, n_points)
        Non-negative; each row sums to one.
    gap : ndarray of shape (n_targets,)
        Upper bound of the difference between the objective of a row and its minimum.
    n_iter : int
        Largest number of active-set steps of a target.
    """

    weights: Floats
    gap: Floats
    n_iter: int


def project_to_simplex(rows: Floats) -> Floats:
    """The nearest point of the probability simplex to each row, by sorting."""
    # The projection is invariant to shifts of a row; this one avoids rounding errors.
    rows = rows - rows.max(axis=1, keepdims=True)
    descending = -np.sort(-rows, axis=1)
    counts = np.arange(1, rows.shape[1] + 1)
    thresholds = (np.cumsum(descending, axis=1) - 1) / counts
    n_positive = np.sum(descending > thresholds, axis=1)
    threshold = np.take_along_axis(thresholds, n_positive[:, None] - 1, axis=1)
    return np.maximum(rows - threshold, 0.0)


def simplex_least_squares(
    targets: ArrayLike, points: ArrayLike, *, gamma: float = 1e-2
) -> SimplexResult:
    """Find the mixture of the points that is nearest to each target.

    Parameters
    ----------
    targets : array-like of shape (n_targets, n_dims)
        Points to approximate.
    points : array-like of shape (n_points, n_dims)
        Points to mix.
    gamma : float, default=1e-2
        Positive penalty on the squared norm of the mixture weights. Identical points get equal
        weights; a larger gamma makes all weights more even.

    Returns
    -------
    SimplexResult
        Weights, duality gaps and the number of steps.

    Examples
    --------
    >>> from zslearn.solvers import simplex_least_squares
    >>> result = simplex_least_squares([[0.25], [3.0]], [[0.0], [1.0]], gamma=1e-9)
    >>> result.weights.round(3)
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be a positive number; got {gamma!r}.")
    goals: Floats = check_array(targets, dtype=np.float64, input_name="targets")
    mixed: Floats = check_array(points, dtype=np.float64, input_name="points")
    if goals.shape[1] != mixed.shape[1]:
        raise ValueError(
            f"targets have {goals.shape[1]} columns and points {mixed.shape[1]}: "
            "both must lie in the same space."
        )
    n_points = len(mixed)
    steps = 20 * n_points + 100
    center = mixed.mean(axis=0)
    mixed = mixed - center
    gram = mixed @ mixed.T + gamma * np.eye(n_points)
    weights = np.empty((len(goals), n_points))
    gap = np.empty(len(goals))
    max_steps = 0
    # The guess needs about eight numbers for each weight.
    for rows in row_blocks(len(goals), row_bytes=8 * 8 * n_points, budget=_GUESS_BYTES):
        products = (goals[rows] - center) @ mixed.T
        weights[rows] = _guess(gram, products)
        try:
            n_iter = [
                _active_set(gram, product, z, steps)
                for product, z in zip(products, weights[rows], strict=True)
            ]
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"gamma={gamma} is too small relative to the squared distances of the points from "
                f"their centre, {np.mean(np.sum(mixed**2, axis=1)):.3g} on average: the solution "
                "is not determined. Use a larger gamma."
            ) from error
        max_steps = max(max_steps, *n_iter)
        gradient = weights[rows] @ gram - products
        gap[rows] = np.sum(gradient * weights[rows], axis=1) - gradient.min(axis=1)
    return SimplexResult(weights, np.maximum(gap, 0.0), max_steps)


def _guess(gram: Floats, products: Floats) -> Floats:
    """Accelerated projected gradient on ½ zᵀKz − qᵀz, a fixed number of steps."""
    largest = float(np.linalg.eigvalsh(gram)[-1])
    here = np.full_like(products, 1.0 / len(gram))
    ahead, pace = here, 1.0
    for _ in range(_GUESS):
        there = project_to_simplex(ahead - (ahead @ gram - products) / largest)
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = there + (pace - 1) / faster * (there - here)
        here, pace = there, faster
    return here


def _active_set(gram: Floats, product: Floats, z: Floats, max_iter: int) -> int:
    """Solve one row in place, from a feasible z."""
    slack = _ROUNDING * max(float(gram.diagonal().max()), float(np.abs(product).max()))
    free = z > 0
    for n_iter in range(max_iter):
        where = np.flatnonzero(free)
        here, best = z[where], _on_support(gram, product, where)
        falling = np.flatnonzero(best < 0)
        steps = here[falling] / (here[falling] - best[falling])
        if steps.size and steps.min() < 1:
            reached = here + steps.min() * (best - here)
            # The weight that limits the step, and others that reach zero with it.
            reached[falling[steps.argmin()]] = 0.0
            ended = falling[reached[falling] <= 0]
            reached[ended] = 0.0
            z[where] = reached
            free[where[ended]] = False
            continue
        z[where] = best
        # Add the weight with the smallest gradient.
        gradient = gram @ z - product
        outside = np.where(free, np.inf, gradient)
        which = int(outside.argmin())
        if not outside[which] < gradient @ z - slack:
            return n_iter + 1
        free[which] = True
    return max_iter


def _on_support(gram: Floats, product: Floats, where: NDArray[np.intp]) -> Floats:
    """Minimise over the support: Kz = q + μ1, with μ such that the weights sum to one."""
    sides = np.column_stack([product[where], np.ones(len(where))])
    solved = np.linalg.solve(gram[np.ix_(where, where)], sides)
    level = (1.0 - solved[:, 0].sum()) / solved[:, 1].sum()
    return solved[:, 0] + level * solved[:, 1]
