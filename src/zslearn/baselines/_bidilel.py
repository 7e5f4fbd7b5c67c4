r"""BiDiLEL: bidirectional latent embedding.

Bottom-up, a latent space is learned from the samples of the seen classes by supervised locality
preserving projection. With the weights :math:`W_{ij} = \exp(-\|x_i - x_j\|^2 / 2h^2)` between
samples of the same class and 0 between others, :math:`D = \mathrm{diag}(W 1)` and
:math:`L = D - W`, the projection P holds the leading solutions of

.. math:: X^\top D X\, p = \lambda\, (X^\top L X + \alpha I)\, p, \qquad
          P^\top (X^\top L X + \alpha I) P = I.

The landmark of a seen class is the mean of its projected samples, :math:`b_c`. Top-down, a class
with signature a is placed where its distances to the landmarks are those of the signatures
(Sammon's mapping, the landmarks fixed),

.. math:: b(a) = \arg\min_b \sum_c \frac{(\delta_c - \|b - b_c\|)^2}{\delta_c}, \qquad
          \delta_c = \kappa\, \|a - a_c\|,

on its own or together with all classes that have no landmark, whose distances to one another then
count likewise, and a sample belongs to the class of the nearest landmark.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._classes import ScoreFunction
from zslearn._solvers._sammon import place_by_distances
from zslearn._utils._array import Array, Floats, move_like, to_numpy, unit_rows
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import InputWarning, warn_user
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._training import Training
from zslearn.base._variants import group_by_params

# The projection of BiDiLEL: scatters over the graph within classes, and leading directions.

# A scatter that is a smaller share of the sum of squares is rounding.
_ROUNDING = 1e-12
# Classes of fewer rows than the first wait for others to enter the scatters, up to the second.
_FEW_ROWS, _ROWS_TOGETHER = 128, 512
# Scatters are symmetric: of so many features at a time, what lies below the diagonal is left out.
_PART = 256


def scatters(training: Training) -> tuple[Floats, Floats, Floats]:
    """XᵀDX around its mean, XᵀLX, and that mean, from the graph of pairs within classes."""
    xp, device = compat.array_namespace(training.rows), compat.device(training.rows)
    squared_width = _squared_width(training)
    n_features = training.rows.shape[1]
    total = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    smooth = xp.zeros((n_features, n_features), dtype=xp.float64, device=device)
    mean = xp.zeros(n_features, dtype=xp.float64, device=device)
    weight = 0.0
    waiting: list[tuple[Array, Array, Array]] = []
    for members in by_class(training):
        points = xp.astype(training.take(members), xp.float64)
        # Of a row: its distances and weights to the class, itself centred, weighted and smoothed.
        for rows in row_blocks(len(members), row_bytes=8 * (3 * len(members) + 3 * n_features)):
            block = points[rows, :]
            weights = xp.exp(-_squared_distances(block, points) / (2 * squared_width))
            degrees = xp.sum(weights, axis=1)
            weighted = block * degrees[:, None]
            mean += xp.sum(weighted, axis=0)
            weight += float(xp.sum(degrees))
            # Products of many rows: each goes through two tables of features².
            waiting.append((block, weighted, weights @ points))
            n_waiting = sum(part[0].shape[0] for part in waiting)
            if len(members) >= _FEW_ROWS or n_waiting >= _ROWS_TOGETHER:
                _add_products(waiting, total, smooth)
    _add_products(waiting, total, smooth)
    mean = mean / weight
    rounding = _ROUNDING * float(xp.linalg.trace(total))
    local = total - smooth
    # Σ d_i (x_i − m)(x_i − m)ᵀ; L does not change when all samples move.
    total = total - weight * mean[:, None] * mean[None, :]
    # Where no two samples differ, or no two of a class, rounding is all that is left.
    scatters = (_whole(to_numpy(total)), _whole(to_numpy(local)))
    total, local = (s if np.trace(s) > rounding else np.zeros_like(s) for s in scatters)
    return total, local, to_numpy(mean)


def _add_products(waiting: list[tuple[Array, Array, Array]], total: Array, smooth: Array) -> None:
    """Add to XᵀDX and XᵀWX, on and above the diagonal, what rows wait to add, and forget them."""
    if waiting:
        xp = compat.array_namespace(total)
        rows, weighted, smoothed = (
            parts[0] if len(parts) == 1 else xp.concat(parts)
            for parts in zip(*waiting, strict=True)
        )
        for start in range(0, rows.shape[1], _PART):
            part = slice(start, min(start + _PART, rows.shape[1]))
            across = xp.matrix_transpose(rows[:, part])
            total[part, start:] += across @ weighted[:, start:]
            smooth[part, start:] += across @ smoothed[:, start:]
        waiting.clear()


def _whole(upper: Floats) -> Floats:
    """A symmetric matrix of which parts below the diagonal were not computed."""
    above = np.triu(upper)
    return above + np.triu(above, 1).T


def by_class(training: Training) -> list[NDArray[np.intp]]:
    """Positions of the samples of each seen class."""
    return [np.flatnonzero(training.y == position) for position in range(training.n_seen)]


def _squared_width(training: Training) -> float:
    """Mean squared distance of two samples of the same class, over all such pairs; 1 without any.

    The squared distances of the pairs of a class sum to its size times its squared deviations.
    """
    squares, pairs = 0.0, 0
    for members in by_class(training):
        squares += len(members) ** 2 * mean_square_distance(training.take(members))
        pairs += len(members) * (len(members) - 1) // 2
    return squares / pairs if squares > 0 else 1.0


def _squared_distances(a: Array, b: Array) -> Array:
    xp = compat.array_namespace(a)
    center = xp.mean(b, axis=0, keepdims=True)
    a, b = a - center, b - center
    squares = xp.sum(a * a, axis=1)[:, None] + xp.sum(b * b, axis=1)[None, :]
    return xp.clip(squares - 2 * (a @ xp.matrix_transpose(b)), min=0.0)


def leading(total: Floats, local: Floats, alpha: float, n: int) -> tuple[Floats, Floats]:
    """The n leading solutions of XᵀDX p = λ (XᵀLX + αI) p, the signs fixed."""
    size = len(total)
    # Where no two samples of a class differ, any penalty gives the same directions.
    unit = np.trace(local) / size or np.trace(total) / size or 1.0
    penalized = local + alpha * unit * np.eye(size)
    try:
        values, vectors = scipy.linalg.eigh(
            total,
            penalized,
            subset_by_index=[size - n, size - 1],
        )
    except scipy.linalg.LinAlgError as error:
        raise ValueError(
            f"alpha={alpha} is too small: XᵀLX + αI cannot be told from a singular matrix. "
            "Take a larger alpha."
        ) from error
    vectors = vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    return values[::-1], vectors * np.sign(vectors[largest, np.arange(n)])


# Nearer than this to a seen class, in units of the seen classes' mean distance, a signature is
# that class's.
_SAME = 1e-9


@inherit_docs
class BiDiLEL(ZeroShotClassifier):
    """Bidirectional latent embedding: projected samples meet landmarks placed by the signatures.

    Parameters
    ----------
    n_components : int or None, default=None
        Dimensions of the latent space; by default one less than there are seen classes. More than
        there are features are clipped, with a warning unless it is the default.
    alpha : float, default=1.0
        Weight of the identity in the denominator of the projection, in units of the mean of the
        diagonal of XᵀLX.
    latent_norm : {"l2"} or None, default="l2"
        Whether projected samples are brought to unit norm before landmarks are made and compared.
        In one dimension they never are: nothing but a sign would be left.
    placement : {"alone", "joint"}, default="alone"
        How classes that are described and have no samples are placed. "alone": each by its
        distances to the seen classes, so that describing another class never moves it. "joint": all
        of them together, as in the original, so that their distances to one another count too:
        another description of one moves all. Classes of `add_classes` are placed together with
        those that were described before, as if all had been described at `fit`. It costs time and
        memory that grow with the square of their number.
    tol : float, default=1e-8
        A placement ends when the gradient of Sammon's error, relative to the sum of its weights
        and to the size of the configuration, is below this.

    Attributes
    ----------
    components_ : ndarray of shape (n_dims, n_features)
        The projection, Pᵀ.
    mean_ : ndarray of shape (n_features,)
        What is taken from samples before they are projected.
    eigenvalues_ : ndarray of shape (n_dims,)
        λ of each dimension, descending.
    landmarks_ : ndarray of shape (n_seen, n_dims)
        Landmarks of the seen classes.
    distance_scale_ : float
        κ, the ratio of the mean distance of two landmarks to that of two seen signatures.

    Notes
    -----
    A seen class, or a class with the signature of one, has that class's own landmark: with δ = 0
    nothing else has a finite error. Seen classes that share a signature share the mean of their
    landmarks.

    What differs from the original: each class is placed on its own by default, see `placement`. The
    graph of the projection joins all samples of a class, where that of the original (supervised
    locality preserving projection on a graph of nearest neighbours) joins a sample to its nearest
    neighbours in the class. Samples are centred with the weights D. The width h is the root mean
    square distance of two samples of a class and κ puts both kinds of distances into one unit, so
    that no scale of features or signatures matters. There is no self-training on test samples.

    Learning costs two products of samples × features² and one decomposition; placing a class costs
    about ten solutions of a system in as many unknowns as the latent space has dimensions, at most
    one less than there are seen classes.

    References
    ----------
    Q. Wang and K. Chen, "Zero-shot visual recognition via bidirectional latent embedding",
    International Journal of Computer Vision, 2017.

    Examples
    --------
    >>> from zslearn.baselines import BiDiLEL
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = BiDiLEL().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    embedding_attributes = ("mean_", "components_", "latent_norm")
    score_function: ScoreFunction = "euclidean"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "latent_norm": [StrOptions({"l2"}), None],
        "placement": [StrOptions({"alone", "joint"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
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

    def __init__(
        self,
        n_components: int | None = None,
        alpha: float = 1.0,
        *,
        latent_norm: str | None = "l2",
        placement: str = "alone",
        tol: float = 1e-8,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.latent_norm = latent_norm
        self.placement = placement
        self.tol = tol
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """The scatters serve all settings, one decomposition every `n_components`."""
        if len(variants) == 1:  # a grid may well name more dimensions than there are
            variants[0]._warn_of_width()
        total, local, mean = scatters(training)
        for group in group_by_params(variants, "alpha"):
            widths = [variant._width(training) for variant in group]
            values, vectors = leading(total, local, group[0].alpha, max(widths))
            projections = {width: vectors[:, :width].T.copy() for width in widths}
            kinds = list(zip(widths, (variant.latent_norm for variant in group), strict=True))
            landmarks = _class_means(training, mean, projections[max(widths)], set(kinds))
            # Variants that embed alike, and whose landmarks are the same, one after another.
            for i in sorted(range(len(group)), key=lambda i: kinds.index(kinds[i])):
                variant, width = group[i], widths[i]
                variant.mean_, variant.components_ = mean, projections[width]
                variant.eigenvalues_ = values[:width].copy()
                variant.landmarks_ = landmarks[kinds[i]]
                variant._take_scale(training)
                yield variant

    def _warn_of_width(self) -> None:
        if self.n_components is not None and self.n_components > self.n_features_in_:
            warn_user(
                f"n_components={self.n_components} is more than the {self.n_features_in_} "
                "features; as many as these are used.",
                InputWarning,
            )

    def _width(self, training: Training) -> int:
        """Dimensions of the latent space, as far as there are features."""
        wanted = training.n_seen - 1 if self.n_components is None else self.n_components
        return min(wanted, training.rows.shape[1])

    def _take_scale(self, training: Training) -> None:
        """Bring the distances of signatures to those of the landmarks: κ."""
        self._seen_signatures = training.signatures
        semantic, latent = pdist(training.signatures).mean(), pdist(self.landmarks_).mean()
        # Without a distance of either kind there is nothing to bring into one unit.
        self.distance_scale_ = float(latent / semantic) if min(latent, semantic) > 0 else 1.0
        self._same_within = _SAME * float(semantic)

    def embed(self, X: Array) -> Array:
        """Project each row into the latent space.

        Returns
        -------
        array of shape (n_samples, n_dims)
            Latent points, of unit norm with `latent_norm="l2"` in more than one dimension.
        """
        return _scaled(_projected(X, self.mean_, self.components_), self.latent_norm)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Place the landmark of each class.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            One landmark per row.
        """
        distances = cdist(signatures, self._seen_signatures)
        same = distances <= self._same_within
        known = same.any(axis=1)
        shares = same[known] / same[known].sum(axis=1, keepdims=True)
        landmarks = np.empty((len(signatures), self.landmarks_.shape[1]))
        landmarks[known] = shares @ self.landmarks_
        if not known.all():
            landmarks[~known] = self._place(signatures[~known])
        return landmarks

    def _place(self, signatures: Floats) -> Floats:
        """Landmarks of classes without samples, by Sammon's mapping."""
        # Twins are one point, and the order of the classes is not to matter.
        signatures, which = np.unique(signatures, axis=0, return_inverse=True)
        to_seen = self.distance_scale_ * cdist(signatures, self._seen_signatures)
        alone = _alone.placed(self.landmarks_, to_seen, self.tol)
        if self.placement == "joint":
            among = self.distance_scale_ * cdist(signatures, signatures)
            together = place_by_distances(
                self.landmarks_, to_seen, among=among, start=alone, tol=self.tol
            )
            alone = together.points
        return alone[which.ravel()]


class _LastPlacement:
    """Points placed each on its own, of the last landmarks: both kinds of placement need them."""

    def __init__(self) -> None:
        self._last: tuple[Callable[[], Floats | None], Floats, float, Floats] | None = None

    def placed(self, landmarks: Floats, distances: Floats, tol: float) -> Floats:
        """Where the points are; the last are found again by the very same landmarks."""
        last = self._last
        is_known = last is not None and last[0]() is landmarks and last[2] == tol
        if last is not None and is_known and np.array_equal(last[1], distances):
            return last[3]
        points = place_by_distances(landmarks, distances, tol=tol).points
        self._last = weakref.ref(landmarks), distances, tol, points
        return points


_alone = _LastPlacement()


def _class_means(
    training: Training, mean: Floats, components: Floats, kinds: set[tuple[int, str | None]]
) -> dict[tuple[int, str | None], Floats]:
    """Means of the projected samples of each seen class, by width and norm of the latent space."""
    xp = compat.array_namespace(training.rows)
    means: dict[tuple[int, str | None], list[Floats]] = {kind: [] for kind in kinds}
    # A class at a time: what is projected is as large as the rows themselves.
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
    """Latent points, in more than one dimension of unit norm if that is wanted."""
    return latent if norm is None or latent.shape[1] == 1 else unit_rows(latent)
