r"""Phantom classes: their initial signatures, and the optimisation that learns them.

A phantom class is a linear combination of the seen classes, :math:`b_r = \sum_c \beta_{rc} a_c`
(Eq. 8), or has a signature given by the user. Signatures of several views have one table of
coefficients per view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from zslearn._utils._array import Floats, to_numpy
from zslearn.signatures._kernels import normalized_similarity
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import (
    MultiSignatures,
    Signatures,
    side_by_side,
    view_arrays,
    with_arrays,
)

#: One array per view.
Views = tuple[Floats, ...]

# Smallest weight of either class in a random phantom.
_LEAST_SHARE = 0.25


def phantom_count(n_phantoms: float | None, n_seen: int) -> int:
    """Number of phantoms."""
    if n_phantoms is None:
        return n_seen
    if isinstance(n_phantoms, Integral):
        return int(n_phantoms)
    return max(1, round(float(n_phantoms) * n_seen))


def is_given(init: Any) -> bool:
    """Whether `phantom_init` contains signatures, and is not a name."""
    return not isinstance(init, str)


def given_phantoms(
    init: Any, n_phantoms: float | None, table: SignatureTable, scales: tuple[float, ...]
) -> Signatures:
    """Signatures given by the user, normalised like those of the classes."""
    has_views = table.names != ("",)
    if isinstance(init, Mapping) != has_views:
        raise ValueError(
            f"The signatures have the views {list(table.names)}: phantom_init must map each of "
            "them to its rows."
            if has_views
            else "The signatures have one view: phantom_init must be one table of rows."
        )
    views = {name: _numbered(rows) for name, rows in init.items()} if has_views else None
    signatures = _numbered(init) if views is None else MultiSignatures(views)
    try:
        phantoms = SignatureTable.read(signatures, None, where="phantom_init").aligned_with(table)
    except ValueError as error:
        raise ValueError(f"phantom_init cannot be used as signatures: {error}") from error
    count = len(phantoms.labels)
    if n_phantoms is not None and not (isinstance(n_phantoms, Integral) and n_phantoms == count):
        raise ValueError(
            f"phantom_init has {count} phantoms, but n_phantoms={n_phantoms}. Remove n_phantoms."
        )
    return phantoms.normalized(scales, keep_views=True)


def _numbered(rows: Any) -> pd.DataFrame:
    """Rows labelled by their number, which preserves their order."""
    if isinstance(rows, pd.DataFrame):
        return rows.reset_index(drop=True)
    array = np.asarray(to_numpy(rows))
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"phantom_init must be a table with one row per phantom; got shape {array.shape}."
        )
    return pd.DataFrame(array)


def initial_combinations(
    signatures: Signatures, n_phantoms: int, init: str, rng: np.random.RandomState
) -> Views:
    """Coefficients β of the initial phantoms, scaled to the norm of the signatures."""
    n_seen = len(signatures)
    if init == "auto":
        init = {-1: "kmeans", 0: "seen", 1: "random"}[int(np.sign(n_phantoms - n_seen))]
    if init != "random" and n_phantoms > n_seen:
        raise ValueError(
            f'phantom_init="{init}" provides at most one phantom per seen class ({n_seen}); for '
            f'{n_phantoms} phantoms use phantom_init="random".'
        )
    identity = np.eye(n_seen)
    if n_phantoms == n_seen and init != "random":
        return (identity,) * len(view_arrays(signatures))
    if init == "seen":
        mixture = identity[np.sort(rng.permutation(n_seen)[:n_phantoms])]
    elif init == "kmeans":
        mixture = _cluster_means(side_by_side(signatures), n_phantoms, rng)
    else:
        n_kept = n_seen if n_phantoms > n_seen else 0
        mixture = np.vstack([identity[:n_kept], _pairs(n_seen, n_phantoms - n_kept, rng)])
    return tuple(_to_norm(mixture, array) for array in view_arrays(signatures))


def _cluster_means(vectors: Floats, n_clusters: int, rng: np.random.RandomState) -> Floats:
    """Rows that average the classes of each cluster."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=10, random_state=rng).fit(vectors).labels_
    member = labels == np.arange(n_clusters)[:, None]
    # Equal signatures leave clusters empty, which then get a random class.
    empty = np.flatnonzero(~member.any(axis=1))
    member[empty, rng.permutation(len(vectors))[: len(empty)]] = True
    return member / member.sum(axis=1, keepdims=True)


def _pairs(n_seen: int, n_rows: int, rng: np.random.RandomState) -> Floats:
    """Random convex combinations of two classes each.

    Combinations of all classes would lie close to their mean. Neighbours on random circles of the
    classes are combined, so that all classes are used equally often.
    """
    mixture = np.zeros((n_rows, n_seen))
    for first in range(0, n_rows, n_seen):
        circle = rng.permutation(n_seen)
        share = rng.uniform(_LEAST_SHARE, 1 - _LEAST_SHARE, size=n_seen)
        rows = np.arange(first, min(first + n_seen, n_rows))
        place = rows - first
        mixture[rows, circle[place]] += share[place]
        mixture[rows, np.roll(circle, 1)[place]] += 1 - share[place]
    return mixture


def _to_norm(mixture: Floats, array: Floats) -> Floats:
    """Scale each non-zero combination to the norm of the signatures."""
    lengths = np.linalg.norm(mixture @ array, axis=1, keepdims=True)
    target = np.linalg.norm(array, axis=1).max()
    scale = np.divide(target, lengths, out=np.ones_like(lengths), where=lengths > 0)
    return mixture * scale


def combine(betas: Views, signatures: Signatures) -> Signatures:
    r"""The phantoms :math:`b_r = \sum_c \beta_{rc} a_c`, view by view."""
    arrays = tuple(beta @ array for beta, array in zip(betas, view_arrays(signatures), strict=True))
    return with_arrays(arrays, signatures)


def signature_norms(signatures: Signatures) -> tuple[float, ...]:
    """The norm h of the signatures of each view, equal for all non-zero rows."""
    return tuple(
        float(np.linalg.norm(array, axis=1).max(initial=0.0)) for array in view_arrays(signatures)
    )


@dataclass(frozen=True)
class PhantomObjective:
    r"""The objective of learned phantoms as a function of their coefficients β (Eq. 9).

    .. math:: g(S(\beta)) + \eta \sum_{rc} |\beta_{rc}|
              + \frac{\nu}{2} \sum_r (\|b_r\|^2 - h^2)^2, \quad b_r = \sum_c \beta_{rc} a_c,

    where g is the loss with the penalty on the classifiers, given by its gradient with respect to
    S, and ν is the paper's γ. Distances are :math:`\gamma \|(a - b) L\|^2`, with one factor L per
    view.
    """

    signatures: Signatures
    factors: Views
    gamma: float
    eta: float
    norm_penalty: float

    def similarities(self, betas: Views) -> tuple[Floats, Views]:
        """S and the contribution of each view to it (Eq. 2)."""
        weights = getattr(self.signatures, "weights", (1.0,))
        exponents = []
        for weight, beta, array, factor in zip(
            weights, betas, view_arrays(self.signatures), self.factors, strict=True
        ):
            classes, phantoms = array @ factor, beta @ array @ factor
            squares = cdist(classes, phantoms, "sqeuclidean")
            with np.errstate(divide="ignore"):
                exponents.append(np.log(weight) - self.gamma * squares)
        largest = np.max(exponents, axis=(0, 2))[:, None]
        parts = [np.exp(exponent - largest) for exponent in exponents]
        total = np.sum(parts, axis=(0, 2))[:, None]
        shares = tuple(part / total for part in parts)
        return np.sum(shares, axis=0), shares

    def gradients(self, betas: Views, slope: Floats) -> Views:
        """Gradient of the smooth part with respect to each β."""
        similarities, shares = self.similarities(betas)
        # ∂S_cr / ∂(−d_cr) of the normalised exponentials, before the factor of the view.
        slope = slope - np.sum(similarities * slope, axis=1, keepdims=True)
        gradients = []
        for share, beta, array, factor, norm in zip(
            shares,
            betas,
            view_arrays(self.signatures),
            self.factors,
            signature_norms(self.signatures),
            strict=True,
        ):
            phantoms = beta @ array
            flow = share * slope
            # Σ_c flow_cr · 2γ (a_c − b_r) L Lᵀ
            pull = flow.T @ array - np.sum(flow, axis=0)[:, None] * phantoms
            gradient = 2 * self.gamma * (pull @ factor) @ factor.T
            excess = np.sum(phantoms**2, axis=1, keepdims=True) - norm**2
            gradient += 2 * self.norm_penalty * excess * phantoms
            gradients.append(gradient @ array.T)
        return tuple(gradients)

    def penalties(self, betas: Views) -> float:
        """The ℓ1 and norm penalties of β."""
        arrays, norms = view_arrays(self.signatures), signature_norms(self.signatures)
        excess = [
            np.sum((beta @ array) ** 2, axis=1) - norm**2
            for beta, array, norm in zip(betas, arrays, norms, strict=True)
        ]
        norm_part = 0.5 * self.norm_penalty * float(sum(np.sum(e**2) for e in excess))
        return norm_part + self.eta * float(sum(np.sum(np.abs(beta)) for beta in betas))


def similarities_to(
    phantoms: Signatures, signatures: Signatures, factors: Views, gamma: float
) -> Floats:
    """Weights of the bipartite graph between classes and phantoms (Eq. 2)."""

    def stretched(rows: Signatures) -> Signatures:
        """Coordinates in which the metric is the identity."""
        if not factors:
            return rows
        pairs = zip(view_arrays(rows), factors, strict=True)
        return with_arrays(tuple(array @ factor for array, factor in pairs), rows)

    return normalized_similarity(stretched(signatures), stretched(phantoms), gamma=gamma)


def metric_factors(metric: Any, signatures: Signatures) -> Views:
    """One factor of the metric per view."""
    arrays = view_arrays(signatures)
    if len(arrays) > 1 and not (metric is None or isinstance(metric, str)):
        raise ValueError(
            f"metric can be a matrix only for a single view; the signatures have {len(arrays)}. "
            'Use metric="diag" or None.'
        )
    return tuple(metric_factor(metric, array) for array in arrays)


def metric_factor(metric: Any, array: Floats) -> Floats:
    r"""L with :math:`\Sigma^{-1} = L L^\top`, the metric of one view (Eq. 3)."""
    n_attributes = array.shape[1]
    if metric is None:
        return np.eye(n_attributes)
    if isinstance(metric, str):
        variance = array.var(axis=0)
        # Ignore attributes that are constant over the seen classes.
        varies = variance > 1e-12 * variance.max(initial=0.0)
        inverse = np.divide(1.0, variance, out=np.zeros(n_attributes), where=varies)
        # The mean squared distance is twice the sum of the variances.
        inverse *= variance.sum() / max(int(varies.sum()), 1)
        return np.diag(np.sqrt(inverse))
    matrix = np.asarray(metric, dtype=np.float64)
    if matrix.shape != (n_attributes, n_attributes):
        raise ValueError(
            f"metric must have the shape ({n_attributes}, {n_attributes}); got {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError("metric must be a finite and symmetric matrix.")
    values, vectors = np.linalg.eigh(matrix)
    if values[-1] <= 0 or values[0] < -1e-10 * values[-1]:
        raise ValueError(
            "metric must be positive semi-definite and not zero; its eigenvalues range from "
            f"{values[0]:.3g} to {values[-1]:.3g}."
        )
    return vectors * np.sqrt(np.maximum(values, 0))


# Length of the first step and of the longest step, relative to the norm of β.
_FIRST_STEP = 0.05
_LONGEST_STEP = 0.5
# Share of the decrease predicted by the quadratic model that a step must achieve.
_SUFFICIENT = 0.1
# Largest number of halvings of a step.
_HALVINGS = 25
# Steps that promise less than this share of a small decrease are not tried.
_NEGLIGIBLE = 0.1
# Number of consecutive small steps after which the descent has converged.
_SMALL_STEPS = 3


@dataclass(frozen=True)
class Point:
    """Coefficients, with the objective and its gradient."""

    betas: Views
    value: float  # of the whole objective
    gradients: Views  # of the smooth part
    extra: Any  # further results at this point, such as base classifiers


@dataclass(frozen=True)
class Descent:
    """Result of a descent."""

    point: Point  # the best coefficients
    values: tuple[float, ...]  # the objective after each step
    refused: bool  # whether `evaluate` refused points of the last step
    converged: bool = True


def descend(
    start: Point,
    evaluate: Callable[[Views, Any], Point | None],
    *,
    eta: float,
    steps: int,
    small_decrease: float,
) -> Descent:
    r"""Minimise an objective by proximal gradient descent.

    A step of length t goes to :math:`\beta' = \mathrm{soft}(\beta - t \nabla, t \eta)` and is
    accepted if the objective decreases by at least a share of :math:`\|\beta' - \beta\|^2 / 2t`;
    else t is halved. The next length follows the curvature along the step (Barzilai and Borwein).
    """
    highest = start.value
    point, values, n_small = start, list[float](), 0
    slope = _norm(steepest(point, eta))
    length = _FIRST_STEP * _norm(point.betas) / slope if slope > 0 else 0.0
    refused, converged = False, True
    for _ in range(steps):
        slope = _norm(steepest(point, eta))
        if slope == 0:
            break
        # A step is never longer than length · slope.
        length = min(length, _LONGEST_STEP * _norm(point.betas) / slope)
        least = _NEGLIGIBLE * small_decrease * (highest - point.value)
        trial, length, refused = _search(point, evaluate, eta, length, least)
        if trial is None:
            break
        is_small = point.value - trial.value <= small_decrease * (highest - trial.value)
        n_small = n_small + 1 if is_small else 0
        length = _next_length(point, trial, length)
        point = trial
        values.append(point.value)
        if n_small == _SMALL_STEPS:
            break
    else:
        converged = False
    return Descent(point, tuple(values), refused, converged)


def _search(
    point: Point,
    evaluate: Callable[[Views, Any], Point | None],
    eta: float,
    length: float,
    least: float,
) -> tuple[Point | None, float, bool]:
    """The next point, the length of the step, and whether longer steps were refused."""
    refused = False
    for _ in range(_HALVINGS):
        betas = tuple(
            soft_threshold(beta - length * gradient, length * eta)
            for beta, gradient in zip(point.betas, point.gradients, strict=True)
        )
        moved = _norm(_difference(betas, point.betas))
        if moved <= 1e-12 * _norm(point.betas) or moved**2 / (2 * length) < least:
            break
        trial = evaluate(betas, point.extra)
        refused = refused or trial is None
        if trial is not None and trial.value < point.value - _SUFFICIENT * moved**2 / (2 * length):
            return trial, length, refused
        length /= 2
    return None, length, refused


def _next_length(point: Point, trial: Point, length: float) -> float:
    """The inverse curvature along a step, within a factor of 10 of its length."""
    step = _difference(trial.betas, point.betas)
    change = _difference(trial.gradients, point.gradients)
    curvature = sum(float(np.sum(s * c)) for s, c in zip(step, change, strict=True))
    squared = _norm(step) ** 2
    if curvature * 10 * length <= squared:
        return 10 * length
    return max(squared / curvature, length / 10)


def steepest(point: Point, eta: float) -> Views:
    """The smallest subgradient of the objective, which is zero at a stationary point."""
    parts = []
    for beta, gradient in zip(point.betas, point.gradients, strict=True):
        part = gradient + eta * np.sign(beta)
        parts.append(np.where(beta == 0, soft_threshold(gradient, eta), part))
    return tuple(parts)


def soft_threshold(x: Floats, threshold: float) -> Floats:
    """The proximal operator of the ℓ1 norm."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def _difference(first: Views, second: Views) -> Views:
    return tuple(a - b for a, b in zip(first, second, strict=True))


def _norm(arrays: Views) -> float:
    return float(np.sqrt(sum(float(np.sum(array**2)) for array in arrays)))
