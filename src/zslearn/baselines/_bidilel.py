r"""BiDiLEL: bidirectional latent embedding.

Bottom-up, supervised locality preserving projection learns a latent space from the seen classes.
With the weights :math:`W_{ij} = \exp(-\|x_i - x_j\|^2 / 2h^2)` between samples of one class and 0
between others, :math:`D = \mathrm{diag}(W 1)` and :math:`L = D - W`, the projection P holds the
leading solutions of

.. math:: X^\top D X\, p = \lambda\, (X^\top L X + \alpha I)\, p, \qquad
          P^\top (X^\top L X + \alpha I) P = I.

The landmark of a seen class is the mean of its projected samples, :math:`b_c`. Top-down, Sammon's
mapping with fixed landmarks places a class of signature a,

.. math:: b(a) = \arg\min_b \sum_c \frac{(\delta_c - \|b - b_c\|)^2}{\delta_c}, \qquad
          \delta_c = \kappa\, \|a - a_c\|,

alone, or jointly with all other classes without landmarks, whose mutual distances then contribute
likewise. The class of the nearest landmark is predicted.

With :math:`d_c = \|b - b_c\|` and the unit vectors :math:`u_c = (b - b_c) / d_c`, Sammon's error
:math:`E(b)` has

.. math:: \nabla E = 2 \sum_c \Big(\frac{1}{\delta_c} - \frac{1}{d_c}\Big) (b - b_c), \qquad
          \nabla^2 E = 2 \Big(m I + \sum_c \frac{1}{d_c} u_c u_c^\top\Big), \quad
          m = \sum_c \Big(\frac{1}{\delta_c} - \frac{1}{d_c}\Big).

The second term is positive semi-definite: a Newton step with m bounded from below by a positive
number descends, and is halved until E decreases enough. The majorisation step
:math:`b - \nabla E / (2 \sum_c 1/\delta_c)` never increases E and is taken if it is better, as it
is near a landmark. Points stay in the affine span of the landmarks, since outside of it mirror
images have the same E. The better result from two starts is kept: the weighted mean of the
landmarks and the least-squares triangulation. Points placed jointly start from where each lies
alone; a trust-region Newton method optimises :math:`b_i \sqrt{m_i}` for all points, with
:math:`m_i` the sum of the weights of a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.spatial.distance import cdist, pdist
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, Floats, move_like, row_blocks, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import InputWarning, warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.signatures._kernels import squared_distances

# A scatter below this share of the sum of squares is rounding error.
_ROUNDING = 1e-12
# Maximum number of halvings of a Newton step, and the required share of the predicted decrease.
_MAX_HALVINGS = 12
_ARMIJO = 1e-4
# Maximum number of Newton steps.
_MAX_ITER = 200
# Tolerance of the gradient of Sammon's error, relative to its weights and the landmarks' size.
_TOL = 1e-8
# Lower bound of m, as a share of Σ 1/δ.
_MIN_CURVATURE = 1e-3
# Lower bound of δ in the weight 1/δ between two points placed jointly, relative to the mean
# distance, so that nearly equal points can still move.
_MIN_DISTANCE = 1e-3
# Signatures closer than this, relative to the mean distance, are equal.
_SAME = 1e-9


def scatters(training: Training) -> tuple[Floats, Floats, Floats]:
    """XᵀDX around its mean, XᵀLX and that mean, for the graph of pairs within classes."""
    xp, device = compat.array_namespace(training.rows), compat.device(training.rows)
    squared_width = _squared_width(training)
    n_features = training.rows.shape[1]
    total = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    smooth = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    weight = 0.0
    for members in by_class(training):
        points = xp.astype(training.take(members), xp.float64)
        # Memory per row: distances and weights to its class, and copies of the row.
        for rows in row_blocks(len(members), row_bytes=8 * (3 * len(members) + 3 * n_features)):
            block = points[rows, :]
            weights = xp.exp(-squared_distances(block, points) / (2 * squared_width))
            degrees = xp.sum(weights, axis=1)
            weighted = block * degrees[:, None]
            mean += xp.sum(weighted, axis=0)
            weight += float(xp.sum(degrees))
            total += xp.matrix_transpose(block) @ weighted
            smooth += xp.matrix_transpose(block) @ (weights @ points)
    mean = mean / weight
    rounding = _ROUNDING * float(xp.linalg.trace(total))
    # XᵀLX is invariant under translation; XᵀDX = Σ d_i (x_i − m)(x_i − m)ᵀ.
    centered = total - weight * mean[:, None] * mean[None, :]

    def clean(scatter: Array) -> Floats:
        """A symmetric matrix, or zeros if all samples, or those of each class, are equal."""
        symmetric = to_numpy(scatter + xp.matrix_transpose(scatter)) / 2
        return symmetric if np.trace(symmetric) > rounding else np.zeros_like(symmetric)

    return clean(centered), clean(total - smooth), to_numpy(mean)


def by_class(training: Training) -> list[NDArray[np.intp]]:
    """Positions of the samples of each seen class."""
    return [np.flatnonzero(training.y == position) for position in range(training.n_seen)]


def _squared_width(training: Training) -> float:
    """Mean squared distance over all pairs of samples of one class, or 1 if it is zero."""
    squares, pairs = 0.0, 0
    # The squared distances within a class sum to its size times its squared deviations.
    for members in by_class(training):
        squares += len(members) ** 2 * mean_square_distance(training.take(members))
        pairs += len(members) * (len(members) - 1) // 2
    return squares / pairs if squares > 0 else 1.0


def leading(total: Floats, local: Floats, alpha: float, n: int) -> tuple[Floats, Floats]:
    """The n leading solutions of XᵀDX p = λ (XᵀLX + αI) p, with fixed signs."""
    size = len(total)
    # If no two samples of a class differ, any penalty gives the same directions.
    unit = np.trace(local) / size or np.trace(total) / size or 1.0
    penalized = local + alpha * unit * np.eye(size)
    try:
        values, vectors = scipy.linalg.eigh(total, penalized, subset_by_index=[size - n, size - 1])
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            f"alpha={alpha} is too small: XᵀLX + αI is singular up to rounding. Use a larger alpha."
        ) from error
    vectors = vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    return values[::-1], vectors * np.sign(vectors[largest, np.arange(n)])


class Placement(NamedTuple):
    """Placed points and their certificate."""

    points: Floats
    error: Floats  # per point; two points share the error of their distance equally
    # Length of the next majorisation step, relative to the landmarks' root mean square distance
    # from their mean.
    gradient: Floats
    n_iter: int


def place_by_distances(
    landmarks: Floats, distances: Floats, *, among: Floats | None = None
) -> Placement:
    """Place points by their distances δ > 0 to fixed landmarks and, jointly, `among` each other."""
    center = landmarks.mean(axis=0)
    left, sizes, axes = np.linalg.svd(landmarks - center, full_matrices=False)
    rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
    if rank == 0:
        error = np.sum(distances, axis=1) + (0 if among is None else among.sum(axis=1) / 2)
        return Placement(np.repeat(center[None], len(error), 0), error, 0 * error, 0)
    # Scaling by the landmarks' size avoids over- and underflow.
    size = float(np.sqrt(np.sum(sizes[:rank] ** 2) / len(landmarks)))
    scaled, distances = left[:, :rank] * (sizes[:rank] / size), distances / size
    first, second = (_descend(scaled, distances, start) for start in starts(scaled, distances))
    # Prefer the first result if both are equal up to rounding.
    is_better = second.error < first.error * (1 - 1e-9)
    points = np.where(is_better[:, None], second.points, first.points)
    error = np.where(is_better, second.error, first.error)
    gradient = np.where(is_better, second.gradient, first.gradient)
    n_iter = max(first.n_iter, second.n_iter)
    if among is not None and len(distances) > 1:
        stress = JointStress(scaled, distances, among / size)
        points, error, gradient, n_iter = stress.descend(points)
    return Placement(center + size * points @ axes[:rank], size * error, gradient, n_iter)


def starts(landmarks: Floats, distances: Floats) -> tuple[Floats, Floats]:
    """Mean of the landmarks with weights 1/δ², and the triangulation of each point."""
    weights = (distances.min(axis=1, keepdims=True) / distances) ** 2
    mean = (weights / weights.sum(axis=1, keepdims=True)) @ landmarks
    # Least squares for b in ‖y_j‖² − 2 y_jᵀb + ‖b‖² = δ_j², minus its mean over j.
    sides = (landmarks**2).sum(axis=1) - distances**2
    sides = (sides - sides.mean(axis=1, keepdims=True)) / 2
    return mean, np.linalg.lstsq(landmarks, sides.T, rcond=1e-6)[0].T


def _distances(points: Floats, others: Floats) -> Floats:
    return np.maximum(cdist(points, others), 1e-12)


def _stress(
    points: Floats, others: Floats, targets: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Σ w (δ − d)² of each point, and its gradient."""
    distances = _distances(points, others)
    pull = weights * (1 - targets / distances)
    slope = 2 * (pull.sum(axis=1)[:, None] * points - pull @ others)
    return np.sum(weights * (targets - distances) ** 2, axis=1), slope


def _descend(landmarks: Floats, distances: Floats, points: Floats) -> Placement:
    """Newton steps for every point, independently, until convergence."""
    points, active, n_iter = points.copy(), np.arange(len(points)), 0
    error = _stress(points, landmarks, distances, 1 / distances)[0]
    gradient = np.empty(len(points))
    while True:
        weight = 2 * np.sum(1 / distances[active], axis=1)
        slope, step = newton_steps(landmarks, distances[active], points[active])
        gradient[active] = np.linalg.norm(slope, axis=1) / weight
        is_moving = gradient[active] > _TOL
        active = active[is_moving]
        if not len(active) or n_iter == _MAX_ITER:
            return Placement(points, error, gradient, n_iter)
        slope, step, targets = slope[is_moving], step[is_moving], distances[active]
        moved, moved_error = _search(landmarks, targets, points[active], error[active], slope, step)
        majorised = points[active] - slope / weight[is_moving][:, None]
        majorised_error = _stress(majorised, landmarks, targets, 1 / targets)[0]
        is_better = np.isnan(moved_error) | (majorised_error < moved_error)
        points[active] = np.where(is_better[:, None], majorised, moved)
        error[active] = np.where(is_better, majorised_error, moved_error)
        n_iter += 1


def newton_steps(landmarks: Floats, distances: Floats, points: Floats) -> tuple[Floats, Floats]:
    """Gradient and Newton step of each point, with m bounded from below."""
    between = _distances(points, landmarks)
    total = (1 / distances - 1 / between).sum(axis=1)
    total = np.maximum(total, _MIN_CURVATURE * np.sum(1 / distances, axis=1))
    slope = _stress(points, landmarks, distances, 1 / distances)[1]
    step = np.empty_like(points)
    for i, point in enumerate(points):
        scaled = (point - landmarks) * (between[i] ** -1.5)[:, None]
        hessian = 2 * (scaled.T @ scaled)
        hessian[np.diag_indices_from(hessian)] += 2 * total[i]
        # The matrix is symmetric; its transpose is in LAPACK's order and needs no copy.
        _, step[i], _ = lapack.dposv(hessian.T, -slope[i], overwrite_a=True)
    return slope, step


def _search(
    landmarks: Floats, distances: Floats, points: Floats, error: Floats, slope: Floats, step: Floats
) -> tuple[Floats, Floats]:
    """Halve each step until the error decreases enough; the error is NaN if it never does."""
    decrease = np.sum(slope * step, axis=1)
    moved, moved_error, length = points.copy(), np.full(len(points), np.nan), 1.0
    for _ in range(_MAX_HALVINGS):
        active = np.flatnonzero(np.isnan(moved_error))
        if not len(active):
            break
        trial, targets = points[active] + length * step[active], distances[active]
        value = _stress(trial, landmarks, targets, 1 / targets)[0]
        accepted = value <= error[active] + _ARMIJO * length * decrease[active]
        moved[active[accepted]], moved_error[active[accepted]] = trial[accepted], value[accepted]
        length /= 2
    return moved, moved_error


class JointStress:
    """Sammon's error of points placed jointly."""

    def __init__(self, landmarks: Floats, distances: Floats, among: Floats) -> None:
        n_points = len(distances)
        self.landmarks, self.distances, self.among = landmarks, distances, among
        self.weights = 1 / distances
        smallest = _MIN_DISTANCE * among.sum() / (n_points * (n_points - 1))
        self.among_weights = 1 / np.maximum(among, smallest)
        np.fill_diagonal(self.among_weights, 0.0)
        self.mass = self.weights.sum(axis=1) + self.among_weights.sum(axis=1)

    def value_and_slope(self, points: Floats) -> tuple[Floats, Floats]:
        """The error of each point, and the gradient of the sum."""
        error, slope = _stress(points, self.landmarks, self.distances, self.weights)
        shared, pull = _stress(points, points, self.among, self.among_weights)
        return error + shared / 2, slope + pull

    def curvature(self, points: Floats) -> Callable[[Floats], Floats]:
        """A function that multiplies a direction by the Hessian at some points."""
        fixed = _distances(points, self.landmarks)
        mutual = _distances(points, points)
        pull_fixed = self.weights * (1 - self.distances / fixed)
        pull_mutual = self.among_weights * (1 - self.among / mutual)
        bend_fixed = self.weights * self.distances / fixed**3
        bend_mutual = self.among_weights * self.among / mutual**3
        total = pull_fixed.sum(axis=1) + pull_mutual.sum(axis=1)

        def product(direction: Floats) -> Floats:
            along = np.sum(points * direction, axis=1)
            # (b − y)ᵀ(v − v_y), with v_y = 0 for landmarks.
            by_fixed = bend_fixed * (along[:, None] - direction @ self.landmarks.T)
            both = along[:, None] - direction @ points.T - points @ direction.T + along
            by_mutual = bend_mutual * both
            bend = by_fixed.sum(axis=1) + by_mutual.sum(axis=1)
            out = total[:, None] * direction - pull_mutual @ direction
            out += bend[:, None] * points - by_fixed @ self.landmarks - by_mutual @ points
            return 2 * out

        return product

    def descend(self, points: Floats) -> Placement:
        """Minimise the error from given points."""
        root = np.sqrt(self.mass)[:, None]
        latest: tuple[Floats, Callable[[Floats], Floats]] | None = None

        def value_and_slope(flat: Floats) -> tuple[float, Floats]:
            error, slope = self.value_and_slope(flat.reshape(points.shape) / root)
            return float(error.sum()), (slope / root).ravel()

        def hessian_product(flat: Floats, direction: Floats) -> Floats:
            nonlocal latest
            if latest is None or not np.array_equal(latest[0], flat):
                latest = flat.copy(), self.curvature(flat.reshape(points.shape) / root)
            return (latest[1](direction.reshape(points.shape) / root) / root).ravel()

        # Landmarks are of unit size.
        size = float(np.sqrt(self.mass.sum()))
        result = minimize(
            value_and_slope,
            (points * root).ravel(),
            jac=True,
            hessp=hessian_product,
            method="trust-ncg",
            options={
                "maxiter": _MAX_ITER,
                # Bounds the relative gradient of every point by `_TOL`.
                "gtol": 2 * _TOL * float(root.min()),
                "initial_trust_radius": 0.1 * size,
                "max_trust_radius": 10 * size,
            },
        )
        placed = result.x.reshape(points.shape) / root
        error, slope = self.value_and_slope(placed)
        gradient = np.linalg.norm(slope, axis=1) / (2 * self.mass)
        return Placement(placed, error, gradient, int(result.nit))


@inherit_docs
@saves(
    mean_=Saved("n_features"),
    components_=Saved("n_dims", "n_features"),
    eigenvalues_=Saved("n_dims"),
    landmarks_=Saved("n_seen", "n_dims"),
    distance_scale_=Saved(above=0),
    _same_within=Saved(least=0),
    _seen_signatures=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class BiDiLEL(ZeroShotClassifier):
    """Bidirectional latent embedding: projected samples and landmarks placed by signatures.

    Parameters
    ----------
    n_components : int or None, default=None
        Dimensions of the latent space, at most the number of features. None is one less than the
        number of seen classes.
    alpha : float, default=1.0
        Weight of the identity in the projection's denominator, in units of the mean diagonal entry
        of XᵀLX.
    latent_norm : {"l2"} or None, default="l2"
        Whether to normalise projected samples to unit length. One-dimensional samples, of which
        only the sign would remain, are never normalised.
    placement : {"alone", "joint"}, default="alone"
        "alone": place each class without samples by its distances to the seen classes, so that
        describing another class never moves it. "joint": place all of them together, as in the
        original, by their mutual distances as well; each class, including those of `add_classes`,
        moves the others, and the cost grows quadratically with their number.

    Attributes
    ----------
    components_ : ndarray of shape (n_dims, n_features)
        The projection, Pᵀ.
    mean_ : ndarray of shape (n_features,)
        Mean subtracted from samples before projection.
    eigenvalues_ : ndarray of shape (n_dims,)
        λ of each dimension, in descending order.
    landmarks_ : ndarray of shape (n_seen, n_dims)
        Landmarks of the seen classes.
    distance_scale_ : float
        κ, the ratio of the mean distance of two landmarks to that of two seen signatures.

    Notes
    -----
    A class with the signature of a seen class gets its landmark, as only that has a finite error
    for δ = 0. Seen classes that share a signature share the mean of their landmarks.

    Unlike in the original, each class is placed alone by default; the graph joins all samples of a
    class instead of nearest neighbours; samples are centred with the weights D; h, the root mean
    square distance of two samples of a class, and κ make the result independent of the scales of
    features and signatures; and there is no self-training on test samples.

    References
    ----------
    Q. Wang and K. Chen, "Zero-shot visual recognition via bidirectional latent embedding",
    International Journal of Computer Vision, 2017.
    """

    n_components: int | None = None
    alpha: float = 1.0
    _: KW_ONLY
    latent_norm: str | None = "l2"
    placement: str = "alone"

    embedding_attributes = ("mean_", "components_", "latent_norm")
    score_function = "euclidean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "latent_norm": [StrOptions({"l2"}), None],
        "placement": [StrOptions({"alone", "joint"})],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "placement": ["alone", "joint"],
            "latent_norm": ["l2", None],
            "alpha": [10.0**k for k in range(-3, 5)],
            "n_components": [10, 25, 50, 75, 100, 150, 200, 300, 500],
        },
        "fast": {
            "placement": ["alone", "joint"],
            "latent_norm": ["l2"],
            "alpha": [10.0**k for k in range(-1, 3)],
            "n_components": [25, 50, 100, 200],
        },
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the scatters, and one decomposition among all `n_components`."""
        n_features, default_width = training.rows.shape[1], training.n_seen - 1
        requested = variants[0].n_components
        if len(variants) == 1 and requested is not None and requested > n_features:
            warn_user(
                f"n_components={requested} is larger than the number of features; {n_features} "
                "components are used.",
                InputWarning,
            )
        semantic = pdist(training.signatures).mean()
        total, local, mean = scatters(training)
        for group in group_by_params(variants, "alpha"):
            widths = [min(variant.n_components or default_width, n_features) for variant in group]
            values, vectors = leading(total, local, group[0].alpha, max(widths))
            projections = {width: vectors[:, :width].T.copy() for width in widths}
            kinds = list(zip(widths, (variant.latent_norm for variant in group), strict=True))
            landmarks = _class_means(training, mean, projections[max(widths)], set(kinds))
            # Variants with equal embeddings and landmarks follow one another.
            for i in sorted(range(len(group)), key=lambda i: kinds.index(kinds[i])):
                variant, width = group[i], widths[i]
                variant.mean_, variant.components_ = mean, projections[width]
                variant.eigenvalues_ = values[:width].copy()
                variant.landmarks_ = landmarks[kinds[i]]
                variant._seen_signatures = training.signatures
                latent = pdist(variant.landmarks_).mean()
                # κ, or 1 if landmarks or signatures coincide.
                has_both = min(latent, semantic) > 0
                variant.distance_scale_ = float(latent / semantic) if has_both else 1.0
                variant._same_within = _SAME * float(semantic)
                yield variant

    def embed(self, X: Array) -> Array:
        """Project rows into the latent space."""
        return _scaled(_projected(X, self.mean_, self.components_), self.latent_norm)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Place the landmark of each class."""
        distances = cdist(signatures, self._seen_signatures)
        same = distances <= self._same_within
        has_landmark = same.any(axis=1)
        shares = same[has_landmark] / same[has_landmark].sum(axis=1, keepdims=True)
        landmarks = np.empty((len(signatures), self.landmarks_.shape[1]))
        landmarks[has_landmark] = shares @ self.landmarks_
        if not has_landmark.all():
            landmarks[~has_landmark] = self._place(signatures[~has_landmark])
        return landmarks

    def _place(self, signatures: Floats) -> Floats:
        """Place classes without samples by Sammon's mapping."""
        # Equal signatures share one point; sorting makes the result independent of their order.
        signatures, which = np.unique(signatures, axis=0, return_inverse=True)
        to_seen = self.distance_scale_ * cdist(signatures, self._seen_signatures)
        among = None
        if self.placement == "joint":
            among = self.distance_scale_ * cdist(signatures, signatures)
        return place_by_distances(self.landmarks_, to_seen, among=among).points[which.ravel()]


def _class_means(
    training: Training, mean: Floats, components: Floats, kinds: set[tuple[int, str | None]]
) -> dict[tuple[int, str | None], Floats]:
    """Mean projected sample of each seen class, by width and norm of the latent space."""
    xp = compat.array_namespace(training.rows)
    means: dict[tuple[int, str | None], list[Floats]] = {kind: [] for kind in kinds}
    # Projecting one class at a time limits memory.
    for members in by_class(training):
        latent = _projected(training.take(members), mean, components)
        for width, norm in kinds:
            points = _scaled(latent[:, :width], norm)
            means[width, norm].append(to_numpy(xp.mean(xp.astype(points, xp.float64), axis=0)))
    return {kind: np.stack(parts) for kind, parts in means.items()}


def _projected(X: Array, mean: Floats, components: Floats) -> Array:
    xp = compat.array_namespace(X)
    centered = X - move_like(mean, X)[None, :]
    return centered @ xp.matrix_transpose(move_like(components, X))


def _scaled(latent: Array, norm: str | None) -> Array:
    """Latent points, normalised to unit length if requested and in more than one dimension."""
    return latent if norm is None or latent.shape[1] == 1 else unit_rows(latent)
