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

Points may also be placed together, with given distances among them as well,

.. math:: E(b_1, \dots, b_n) = \sum_i E(b_i) + \sum_{i < k}
          \frac{(\delta_{ik} - \|b_i - b_k\|)^2}{\delta_{ik}}.

The descent starts where each lies on its own, and goes by Newton steps in a region of trust, each
by conjugate gradients, in the variables :math:`b_i \sqrt{m_i}`, with :math:`m_i` the sum of the
weights of a point: in these a step of the majorisation has the same length for all points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

from zslearn._utils._array import Floats
from zslearn._utils._blocks import row_blocks

# Halvings of a Newton step, and what it must gain of the fall that its slope promises.
_HALVINGS = 12
_ARMIJO = 1e-4
# The least that a may be, as a share of Σ 1/δ.
_CURVATURE = 1e-3
# The weight 1/δ between two points placed together is at most that of this share of their mean
# distance: nearly equal points would hold each other fast.
_NEAREST = 1e-3


class PlacementResult(NamedTuple):
    """Placed points and their certificate.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_dims)
        Where they are.
    error : ndarray of shape (n_points,)
        Sammon's error of each; the error between two points placed together is divided equally
        between them.
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
    landmarks: ArrayLike,
    distances: ArrayLike,
    *,
    among: ArrayLike | None = None,
    start: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> PlacementResult:
    """Place points so that their distances to fixed landmarks are as given; see the module."""
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
    between = None if among is None else _checked_among(among, len(wanted))
    center = fixed.mean(axis=0)
    left, sizes, axes = np.linalg.svd(fixed - center, full_matrices=False)
    rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
    if rank == 0:
        error = np.sum(wanted, axis=1) + (0 if between is None else between.sum(axis=1) / 2)
        return PlacementResult(np.repeat(center[None], len(error), 0), error, 0 * error, 0)
    # In units of the landmarks' size, nothing over- or underflows.
    size = float(np.sqrt(np.sum(sizes[:rank] ** 2) / len(fixed)))
    flat = left[:, :rank] * (sizes[:rank] / size)
    if between is not None and start is not None and len(wanted) > 1:
        begun = check_array(start, dtype=np.float64, input_name="start")
        if begun.shape != (len(wanted), fixed.shape[1]):
            raise ValueError(
                f"start has shape {begun.shape}; one point per row of distances, in the dimensions "
                f"of the landmarks, is {(len(wanted), fixed.shape[1])}."
            )
        points = (begun - center) @ axes[:rank].T
        points, n_iter = points / size, 0
    else:
        points, error, gradient, n_iter = _place_each(flat, wanted / size, tol, max_iter)
    if between is not None and len(wanted) > 1:
        stress = _JointStress(flat, wanted / size, between / size)
        points, error, gradient, steps = stress.descend(points, tol, max_iter)
        n_iter += steps
    return PlacementResult(center + size * points @ axes[:rank], size * error, gradient, n_iter)


def _place_each(landmarks: Floats, distances: Floats, tol: float, max_iter: int) -> PlacementResult:
    """Each point on its own, some at a time."""
    # The Hessian of a point, and its differences to the landmarks.
    rank = landmarks.shape[1]
    point_bytes = 8 * (rank * rank + len(landmarks) * rank)
    parts = [
        _place(landmarks, distances[rows], tol, max_iter)
        for rows in row_blocks(len(distances), row_bytes=point_bytes)
    ]
    points, error, gradient = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return PlacementResult(points, error, gradient, max(part.n_iter for part in parts))


def _checked_among(among: ArrayLike, n_points: int) -> Floats:
    """Distances among the points, with zeros on the diagonal."""
    between: Floats = check_array(among, dtype=np.float64, input_name="among", copy=True)
    if between.shape != (n_points, n_points):
        raise ValueError(
            f"among has the shape {between.shape} for {n_points} points: there must be one row and "
            "one column per point."
        )
    np.fill_diagonal(between, 0.0)
    apart = ~np.eye(n_points, dtype=bool)
    if not (between[apart] > 0).all() or not np.allclose(between, between.T, rtol=1e-9, atol=0):
        raise ValueError(
            "among must be symmetric, and positive but on the diagonal: points at distance zero "
            "are one point."
        )
    return between


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
    least = _CURVATURE * np.sum(1 / distances, axis=1)
    step = np.empty_like(points)
    for i, point in enumerate(points):
        hessian = _hessian(point - landmarks, between[i] ** -3, max(total[i], least[i]))
        # Symmetric: its transpose, in the order of LAPACK, is not copied.
        _, step[i], _ = lapack.dposv(hessian.T, -slope[i], overwrite_a=True)
    return slope, step


def _hessian(apart: Floats, curvatures: Floats, a: float) -> Floats:
    """2 (a I + Σ_j κ_j (b − y_j) (b − y_j)ᵀ), positive definite."""
    scaled = apart * np.sqrt(curvatures)[:, None]
    hessian: Floats = 2 * (scaled.T @ scaled)
    diagonal = np.arange(len(hessian))
    hessian[diagonal, diagonal] += 2 * a
    return hessian


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


class _JointStress:
    """Sammon's error of points placed together, and its descent; see the module."""

    def __init__(self, landmarks: Floats, distances: Floats, among: Floats) -> None:
        n_points = len(distances)
        self.landmarks, self.distances, self.among = landmarks, distances, among
        self.weights = 1 / distances
        nearest = _NEAREST * among.sum() / (n_points * (n_points - 1))
        self.among_weights = 1 / np.maximum(among, nearest)
        np.fill_diagonal(self.among_weights, 0.0)
        self.mass = self.weights.sum(axis=1) + self.among_weights.sum(axis=1)

    def value_and_slope(self, points: Floats) -> tuple[Floats, Floats]:
        """The error of each point, and the gradient of their sum."""
        error, slope = np.empty(len(points)), np.empty_like(points)
        row_bytes = 8 * 4 * (len(self.landmarks) + len(points))
        for rows in row_blocks(len(points), row_bytes=row_bytes):
            block = points[rows]
            error[rows], slope[rows] = _pull(
                block, self.landmarks, self.distances[rows], self.weights[rows]
            )
            shared, pull = _pull(block, points, self.among[rows], self.among_weights[rows])
            error[rows] += shared / 2
            slope[rows] += pull
        return error, slope

    def curvature(self, points: Floats) -> Callable[[Floats], Floats]:
        """The product of the Hessian at some points with a direction."""
        held = []
        for others, wanted, weights in (
            (self.landmarks, self.distances, self.weights),
            (points, self.among, self.among_weights),
        ):
            between = np.maximum(cdist(points, others), 1e-12)
            held.append((weights * (1 - wanted / between), weights * wanted / between**3))
        (to_fixed, bend_fixed), (to_moving, bend_moving) = held
        total = to_fixed.sum(axis=1) + to_moving.sum(axis=1)
        row_bytes = 8 * 4 * (len(self.landmarks) + len(points))
        blocks = row_blocks(len(points), row_bytes=row_bytes)

        def product(direction: Floats) -> Floats:
            along = np.sum(points * direction, axis=1)
            out = total[:, None] * direction - to_moving @ direction
            for rows in blocks:
                block, there = points[rows], direction[rows]
                # (b − y)ᵀ(v − v_y), with v_y = 0 for landmarks.
                fixed = bend_fixed[rows] * (along[rows, None] - there @ self.landmarks.T)
                both = along[rows, None] - there @ points.T - block @ direction.T + along
                moving = bend_moving[rows] * both
                bend = fixed.sum(axis=1) + moving.sum(axis=1)
                out[rows] += bend[:, None] * block - fixed @ self.landmarks - moving @ points
            return 2 * out

        return product

    def descend(self, points: Floats, tol: float, max_iter: int) -> PlacementResult:
        """Newton steps until no point would move by more than `tol` in one of the majorisation."""
        root = np.sqrt(self.mass)[:, None]
        last: tuple[Floats, Callable[[Floats], Floats]] | None = None

        def scaled(flat: Floats) -> tuple[float, Floats]:
            error, slope = self.value_and_slope(flat.reshape(points.shape) / root)
            return float(error.sum()), (slope / root).ravel()

        def bent(flat: Floats, direction: Floats) -> Floats:
            nonlocal last
            if last is None or not np.array_equal(last[0], flat):
                last = flat.copy(), self.curvature(flat.reshape(points.shape) / root)
            return (last[1](direction.reshape(points.shape) / root) / root).ravel()

        # Landmarks are of unit size.
        size = float(np.sqrt(self.mass.sum()))
        found = minimize(
            scaled,
            (points * root).ravel(),
            jac=True,
            hessp=bent,
            method="trust-ncg",
            options={
                "maxiter": max_iter,
                # Where the whole scaled gradient is this small, the step of every point is.
                "gtol": 2 * tol * float(root.min()),
                "initial_trust_radius": 0.1 * size,
                "max_trust_radius": 10 * size,
            },
        )
        placed = found.x.reshape(points.shape) / root
        error, slope = self.value_and_slope(placed)
        gradient = np.linalg.norm(slope, axis=1) / (2 * self.mass)
        return PlacementResult(placed, error, gradient, int(found.nit))


def _pull(points: Floats, others: Floats, wanted: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Σ w (δ − d)² for each point, and its gradient."""
    between = np.maximum(cdist(points, others), 1e-12)
    pull = weights * (1 - wanted / between)
    slope = 2 * (pull.sum(axis=1)[:, None] * points - pull @ others)
    return np.sum(weights * (wanted - between) ** 2, axis=1), slope
