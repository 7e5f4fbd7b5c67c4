r"""Placing points by their distances to fixed landmarks: Sammon's mapping with landmarks.

Each point b, on its own, minimises Sammon's error

.. math:: E(b) = \sum_j \frac{(\delta_j - d_j)^2}{\delta_j}, \qquad d_j = \|b - y_j\|,

for given distances :math:`\delta_j > 0` to the landmarks :math:`y_j`. With the unit vectors
:math:`u_j = (b - y_j) / d_j`,

.. math:: \nabla E = 2 \sum_j \Big(\frac{1}{\delta_j} - \frac{1}{d_j}\Big) (b - y_j), \qquad
          \nabla^2 E = 2 \Big(a I + \sum_j \frac{1}{d_j} u_j u_j^\top\Big), \quad
          a = \sum_j \Big(\frac{1}{\delta_j} - \frac{1}{d_j}\Big).

The second term is positive semi-definite, so that a Newton step with a kept positive goes
downhill; it is halved until E falls enough. A step of the majorisation,
:math:`b - \nabla E / (2 \sum_j 1/\delta_j)`, cannot raise E; it is taken where it lowers E more, as
it does near a landmark, whose large 1/d keeps the other short. All points move together, in the
affine span of the landmarks: outside of it the error could not tell a point from its mirror image.

E is not convex. Two starts are tried, and the better end is kept: the weighted mean of the
landmarks, and the triangulation that solves the equations of the squared distances by least
squares.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

from zslearn.utils import Floats, row_blocks

# Halvings of a Newton step, and what it must gain of the fall that its slope promises.
_HALVINGS = 12
_ARMIJO = 1e-4
# The least that a may be, as a share of Σ 1/δ.
_CURVATURE = 1e-3


class PlacementResult(NamedTuple):
    """Placed points and their certificate.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        Where they are.
    error : ndarray of shape (n_points,)
        Sammon's error of each.
    gradient : ndarray of shape (n_points,)
        Norm of its gradient over 2 Σ 1/δ and the root mean square distance of the landmarks from
        their mean: how far a step of the majorisation would still move the point.
    n_iter : int
        Newton steps.
    """

    points: Floats
    error: Floats
    gradient: Floats
    n_iter: int


def place_by_distances(
    landmarks: ArrayLike, distances: ArrayLike, *, tol: float = 1e-8, max_iter: int = 200
) -> PlacementResult:
    """Place points so that their distances to fixed landmarks are as given; see the module.

    Parameters
    ----------
    landmarks : array-like of shape (n_landmarks, n_dims)
        Fixed points.
    distances : array-like of shape (n_points, n_landmarks)
        What the distances should be, positive.
    tol : float, default=1e-8
        A point is left when its `gradient` is below this.
    max_iter : int, default=200
        Newton steps at most.

    Returns
    -------
    PlacementResult
        The points, in the affine span of the landmarks, with their certificates.

    Examples
    --------
    >>> from zslearn.solvers import place_by_distances
    >>> corners = [[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]]
    >>> place_by_distances(corners, [[5.0, 3.0, 4.0]]).points.round(6)
    array([[4., 3.]])
    """
    fixed: Floats = check_array(landmarks, dtype=np.float64, input_name="landmarks")
    wanted: Floats = check_array(distances, dtype=np.float64, input_name="distances")
    if wanted.shape[1] != len(fixed):
        raise ValueError(
            f"distances have {wanted.shape[1]} columns for {len(fixed)} landmarks: "
            "there must be one per landmark."
        )
    if not (wanted > 0).all():
        raise ValueError(
            "distances must be positive: a point at distance zero is the landmark itself."
        )
    center = fixed.mean(axis=0)
    left, sizes, axes = np.linalg.svd(fixed - center, full_matrices=False)
    rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
    if rank == 0:
        error = np.sum(wanted, axis=1)
        return PlacementResult(np.repeat(center[None], len(error), 0), error, 0 * error, 0)
    # In units of the landmarks' size, nothing over- or underflows.
    size = float(np.sqrt(np.sum(sizes[:rank] ** 2) / len(fixed)))
    flat = left[:, :rank] * (sizes[:rank] / size)
    # The Hessian of a point, and its differences to the landmarks.
    point_bytes = 8 * (rank * rank + len(flat) * rank)
    parts = [
        _place(flat, wanted[rows] / size, tol, max_iter)
        for rows in row_blocks(len(wanted), row_bytes=point_bytes)
    ]
    points, error, gradient = (np.concatenate([part[k] for part in parts]) for k in range(3))
    n_iter = max(part.n_iter for part in parts)
    return PlacementResult(center + size * points @ axes[:rank], size * error, gradient, n_iter)


def _place(landmarks: Floats, distances: Floats, tol: float, max_iter: int) -> PlacementResult:
    """The better end of two starts for each point."""
    ends = [
        _descend(landmarks, distances, start, tol, max_iter)
        for start in (_mean_start(landmarks, distances), _triangulated(landmarks, distances))
    ]
    # Where both ends are one but for rounding, the first.
    second = ends[1].error < ends[0].error * (1 - 1e-9)
    points = np.where(second[:, None], ends[1].points, ends[0].points)
    error = np.where(second, ends[1].error, ends[0].error)
    gradient = np.where(second, ends[1].gradient, ends[0].gradient)
    return PlacementResult(points, error, gradient, max(end.n_iter for end in ends))


def _mean_start(landmarks: Floats, distances: Floats) -> Floats:
    """Landmarks averaged with the weights 1/δ²: the nearer, the more."""
    weights = (distances.min(axis=1, keepdims=True) / distances) ** 2
    return (weights / weights.sum(axis=1, keepdims=True)) @ landmarks


def _triangulated(landmarks: Floats, distances: Floats) -> Floats:
    """Least squares for b in ‖y_j‖² − 2 y_jᵀb + ‖b‖² = δ_j², less its mean over j."""
    sides = (landmarks**2).sum(axis=1) - distances**2
    sides = (sides - sides.mean(axis=1, keepdims=True)) / 2
    return np.linalg.lstsq(landmarks, sides.T, rcond=1e-6)[0].T


def _errors(landmarks: Floats, distances: Floats, points: Floats) -> Floats:
    return np.sum((distances - cdist(points, landmarks)) ** 2 / distances, axis=1)


def _descend(
    landmarks: Floats, distances: Floats, points: Floats, tol: float, max_iter: int
) -> PlacementResult:
    """Newton steps for all points that are not at their minimum yet."""
    points = points.copy()
    error = _errors(landmarks, distances, points)
    gradient = np.empty(len(points))
    todo = np.arange(len(points))
    n_iter = 0
    while True:
        slope, step = _newton(landmarks, distances[todo], points[todo])
        weight = 2 * np.sum(1 / distances[todo], axis=1)
        gradient[todo] = np.linalg.norm(slope, axis=1) / weight
        moving = gradient[todo] > tol
        todo = todo[moving]
        if not len(todo) or n_iter == max_iter:
            return PlacementResult(points, error, gradient, n_iter)
        slope, step, weight = slope[moving], step[moving], weight[moving]
        moved, lower = _search(landmarks, distances[todo], points[todo], error[todo], slope, step)
        other = points[todo] - slope / weight[:, None]
        lower_there = _errors(landmarks, distances[todo], other)
        better = np.isnan(lower) | (lower_there < lower)
        points[todo] = np.where(better[:, None], other, moved)
        error[todo] = np.where(better, lower_there, lower)
        n_iter += 1


def _newton(landmarks: Floats, distances: Floats, points: Floats) -> tuple[Floats, Floats]:
    """The gradient of each point, and its Newton step with a kept positive."""
    between = np.maximum(cdist(points, landmarks), 1e-12)
    pull = 1 / distances - 1 / between
    total = pull.sum(axis=1)
    slope = 2 * (total[:, None] * points - pull @ landmarks)
    size = points.shape[1]
    hessian = np.empty((len(points), size, size))
    diagonal = np.arange(size)
    least = _CURVATURE * np.sum(1 / distances, axis=1)
    for i, point in enumerate(points):
        scaled = (point - landmarks) * (between[i] ** -1.5)[:, None]
        hessian[i] = 2 * (scaled.T @ scaled)
        hessian[i, diagonal, diagonal] += 2 * max(total[i], least[i])
    return slope, -np.linalg.solve(hessian, slope[:, :, None])[:, :, 0]


def _search(
    landmarks: Floats, distances: Floats, points: Floats, error: Floats, slope: Floats, step: Floats
) -> tuple[Floats, Floats]:
    """Halve each step until the error falls enough; the error is NaN where it never does."""
    fall = np.sum(slope * step, axis=1)
    moved, lower = points.copy(), np.full(len(points), np.nan)
    length = 1.0
    for _ in range(_HALVINGS):
        todo = np.flatnonzero(np.isnan(lower))
        if not len(todo):
            break
        trial = points[todo] + length * step[todo]
        value = _errors(landmarks, distances[todo], trial)
        good = value <= error[todo] + _ARMIJO * length * fall[todo]
        moved[todo[good]], lower[todo[good]] = trial[good], value[good]
        length /= 2
    return moved, lower
