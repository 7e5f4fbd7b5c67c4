r"""Phantom classes: where they start, and how their signatures are learned.

A phantom class is a linear combination of the seen classes, :math:`b_r = \sum_c \beta_{rc} a_c`.
Signatures of several views have one table of coefficients per view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from zslearn.signatures import Signatures, side_by_side, view_arrays, with_arrays
from zslearn.utils import Floats

#: One array per view.
Views = tuple[Floats, ...]

# Steps of the proximal method between two solves for the base classifiers.
_STEPS = 30
# Halvings of a step before the method gives up.
_HALVINGS = 30


def signature_norms(signatures: Signatures) -> tuple[float, ...]:
    """The norm h of the signatures of each view; all are equal but for zero rows."""
    return tuple(
        float(np.linalg.norm(array, axis=1).max(initial=0.0)) for array in view_arrays(signatures)
    )


def initial_combinations(
    signatures: Signatures,
    n_phantoms: int,
    init: str,
    rng: np.random.RandomState,
) -> Views:
    """Coefficients β of the first phantoms, scaled so that each b has the norm of the signatures.

    Parameters
    ----------
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes.
    n_phantoms : int
        How many phantoms, R.
    init : {"auto", "seen", "kmeans", "random"}
        "seen" are the seen classes, or R of them chosen at random; "kmeans" the centroids of R
        clusters of them; "random" convex combinations with random weights, and where R > S the
        seen classes come first. "auto" is the paper's choice: "seen" for R = S, "kmeans" for
        R < S, "random" for R > S.
    rng : numpy.random.RandomState
        Source of the choice.

    Returns
    -------
    tuple of ndarray of shape (n_phantoms, n_seen)
        One table per view.
    """
    n_seen = len(signatures)
    if init == "auto":
        init = {-1: "kmeans", 0: "seen", 1: "random"}[int(np.sign(n_phantoms - n_seen))]
    if init != "random" and n_phantoms > n_seen:
        raise ValueError(
            f'phantom_init="{init}" makes at most one phantom for each of the {n_seen} seen '
            f'classes; n_phantoms={n_phantoms} needs phantom_init="random".'
        )
    everyone = np.eye(n_seen)
    if n_phantoms == n_seen and init != "random":
        return (everyone,) * len(view_arrays(signatures))
    if init == "seen":
        mixture = everyone[np.sort(rng.permutation(n_seen)[:n_phantoms])]
    elif init == "kmeans":
        from sklearn.cluster import KMeans

        means = KMeans(n_phantoms, n_init=10, random_state=rng).fit(side_by_side(signatures))
        member = means.labels_ == np.arange(n_phantoms)[:, None]
        # Classes with equal signatures leave clusters empty: these take a seen class at random.
        empty = np.flatnonzero(~member.any(axis=1))
        member[empty, rng.permutation(n_seen)[: len(empty)]] = True
        mixture = member / member.sum(axis=1, keepdims=True)
    else:
        n_kept = n_seen if n_phantoms > n_seen else 0
        drawn = rng.dirichlet(np.ones(n_seen), size=n_phantoms - n_kept)
        mixture = np.vstack([everyone[:n_kept], drawn])
    return tuple(_to_norm(mixture, array) for array in view_arrays(signatures))


def _to_norm(mixture: Floats, array: Floats) -> Floats:
    """Scale each combination to the norm of the signatures; a zero combination stays."""
    lengths = np.linalg.norm(mixture @ array, axis=1, keepdims=True)
    target = np.linalg.norm(array, axis=1).max()
    scale = np.divide(target, lengths, out=np.ones_like(lengths), where=lengths > 0)
    return mixture * scale


def combine(betas: Views, signatures: Signatures) -> Signatures:
    r"""The phantoms :math:`b_r = \sum_c \beta_{rc} a_c`, view by view."""
    arrays = tuple(beta @ array for beta, array in zip(betas, view_arrays(signatures), strict=True))
    return with_arrays(arrays, signatures)


@dataclass(frozen=True)
class PhantomObjective:
    r"""The paper's objective (eSynCSemObj) as a function of β, the base classifiers fixed.

    .. math:: F(\beta) + \eta \sum |\beta_{rc}|, \quad
              F(\beta) = g(S(\beta)) + \frac{\nu}{2} \sum_r (\|b_r\|^2 - h^2)^2

    Parameters
    ----------
    signatures : ndarray or SignatureViews
        Normalised signatures of the seen classes, A.
    factors : tuple of ndarray
        L of each view, where the distance is :math:`\gamma \|(a - b) L\|^2`.
    gamma : float
        The paper's 1/σ².
    eta : float
        Weight of the ℓ1 norm.
    norm_penalty : float
        ν here, γ in the paper.
    loss : callable
        g: similarities S (n_seen, n_phantoms) → value, and its gradient with respect to S.
    """

    signatures: Signatures
    factors: Views
    gamma: float
    eta: float
    norm_penalty: float
    loss: Callable[[Floats], tuple[float, Floats]]

    def similarities(self, betas: Views) -> tuple[Floats, Views]:
        """S, and the share of each view in it (eSynCSimForm)."""
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

    def smooth(self, betas: Views) -> tuple[float, Views]:
        """F and its gradient with respect to each β."""
        similarities, shares = self.similarities(betas)
        value, slope = self.loss(similarities)
        # ∂S_cr / ∂(−d_cr) through the normalised exponentials, without the view's own share.
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
            value += 0.5 * self.norm_penalty * float(np.sum(excess**2))
            gradient += 2 * self.norm_penalty * excess * phantoms
            gradients.append(gradient @ array.T)
        return value, tuple(gradients)

    def sparsity(self, betas: Views) -> float:
        """The ℓ1 part."""
        return self.eta * float(sum(np.sum(np.abs(beta)) for beta in betas))

    def penalties(self, betas: Views) -> float:
        """What β costs beside the loss: the ℓ1 part and the norms."""
        arrays, norms = view_arrays(self.signatures), signature_norms(self.signatures)
        excess = [
            np.sum((beta @ array) ** 2, axis=1) - norm**2
            for beta, array, norm in zip(betas, arrays, norms, strict=True)
        ]
        norm_part = 0.5 * self.norm_penalty * float(sum(np.sum(e**2) for e in excess))
        return norm_part + self.sparsity(betas)

    def descend(self, betas: Views, steps: int = _STEPS) -> tuple[Views, float]:
        """Lower the objective by proximal gradient steps; it never rises.

        The length of a step is halved until the objective falls, and grows again after.

        Parameters
        ----------
        betas : tuple of ndarray
            Where to start.
        steps : int
            Largest number of steps.

        Returns
        -------
        betas : tuple of ndarray
            Where the steps ended.
        value : float
            The objective there.
        """
        value, gradients = self.smooth(betas)
        value += self.sparsity(betas)
        largest = max(float(np.abs(gradient).max()) for gradient in gradients)
        length = 0.1 / largest if largest > 0 else 1.0
        for _ in range(steps):
            for _ in range(_HALVINGS):
                trial = tuple(
                    soft_threshold(beta - length * gradient, length * self.eta)
                    for beta, gradient in zip(betas, gradients, strict=True)
                )
                new_value, new_gradients = self.smooth(trial)
                new_value += self.sparsity(trial)
                if new_value < value:
                    break
                length /= 2
            else:
                return betas, value
            fallen = value - new_value
            betas, value, gradients = trial, new_value, new_gradients
            length *= 2
            if fallen <= 1e-6 * abs(value):
                break
        return betas, value


def soft_threshold(x: Floats, threshold: float) -> Floats:
    """The proximal map of the ℓ1 norm."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def metric_factor(metric: Any, array: Floats) -> Floats:
    r"""L with :math:`\Sigma^{-1} = L L^\top`, the metric of the signatures of one view (eSynCDist).

    Parameters
    ----------
    metric : None, "diag" or array-like of shape (n_attributes, n_attributes)
        The identity; inverse variances over the seen classes, in units that keep their mean squared
        distance; or a symmetric positive semi-definite matrix.
    array : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.

    Returns
    -------
    ndarray of shape (n_attributes, rank)
        The factor.
    """
    n_attributes = array.shape[1]
    if metric is None:
        return np.eye(n_attributes)
    if isinstance(metric, str):
        variance = array.var(axis=0)
        # An attribute that does not vary over the seen classes says nothing about them.
        varies = variance > 1e-12 * variance.max(initial=0.0)
        inverse = np.divide(1.0, variance, out=np.zeros(n_attributes), where=varies)
        # The mean squared distance is twice the sum of the variances.
        inverse *= variance.sum() / max(int(varies.sum()), 1)
        return np.diag(np.sqrt(inverse))
    matrix = np.asarray(metric, dtype=np.float64)
    if matrix.shape != (n_attributes, n_attributes):
        raise ValueError(
            f"metric must be {n_attributes} × {n_attributes}, attribute by attribute; "
            f"got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise ValueError("metric must be a finite and symmetric matrix.")
    values, vectors = np.linalg.eigh(matrix)
    if values[-1] <= 0 or values[0] < -1e-10 * values[-1]:
        raise ValueError(
            "metric must be positive semi-definite and not zero; "
            f"its eigenvalues go from {values[0]:.3g} to {values[-1]:.3g}."
        )
    return vectors * np.sqrt(np.maximum(values, 0))
