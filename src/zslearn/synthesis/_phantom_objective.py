r"""The objective of learned phantoms as a function of their coefficients β.

.. math:: g(S(\beta)) + \eta \sum_{rc} |\beta_{rc}|
          + \frac{\nu}{2} \sum_r (\|b_r\|^2 - h^2)^2, \quad b_r = \sum_c \beta_{rc} a_c

(eSynCSemObj), where g is the loss with the penalty on the classifiers and ν the paper's γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from zslearn.signatures import Signatures, normalized_similarity, view_arrays, with_arrays
from zslearn.synthesis._phantoms import Views, signature_norms
from zslearn.utils import Floats


@dataclass(frozen=True)
class PhantomObjective:
    r"""What of eSynCSemObj depends on β; g enters by its gradient with respect to S.

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
    """

    signatures: Signatures
    factors: Views
    gamma: float
    eta: float
    norm_penalty: float

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

    def gradients(self, betas: Views, slope: Floats) -> Views:
        """Gradient with respect to each β of the part without the ℓ1 norm.

        Parameters
        ----------
        betas : tuple of ndarray of shape (n_phantoms, n_seen)
            Where.
        slope : ndarray of shape (n_seen, n_phantoms)
            Gradient of g with respect to S there.

        Returns
        -------
        tuple of ndarray of shape (n_phantoms, n_seen)
            One per view.
        """
        similarities, shares = self.similarities(betas)
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
            gradient += 2 * self.norm_penalty * excess * phantoms
            gradients.append(gradient @ array.T)
        return tuple(gradients)

    def norm_part(self, betas: Views) -> float:
        """What the norms of the phantoms cost."""
        arrays, norms = view_arrays(self.signatures), signature_norms(self.signatures)
        excess = [
            np.sum((beta @ array) ** 2, axis=1) - norm**2
            for beta, array, norm in zip(betas, arrays, norms, strict=True)
        ]
        return 0.5 * self.norm_penalty * float(sum(np.sum(e**2) for e in excess))

    def penalties(self, betas: Views) -> float:
        """What β costs beside the loss: the ℓ1 part and the norms."""
        sparsity = self.eta * float(sum(np.sum(np.abs(beta)) for beta in betas))
        return self.norm_part(betas) + sparsity


def similarities_to(
    phantoms: Signatures, signatures: Signatures, factors: Views, gamma: float
) -> Floats:
    """Weights of the bipartite graph between classes and phantoms (eSynCSimForm).

    Parameters
    ----------
    phantoms : ndarray of shape (n_phantoms, n_attributes) or SignatureViews
        Signatures b.
    signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
        Signatures a.
    factors : tuple of ndarray
        One factor L of the metric per view, Σ⁻¹ = L Lᵀ; none for the identity.
    gamma : float
        1/σ².

    Returns
    -------
    ndarray of shape (n_classes, n_phantoms)
        Each row sums to one.
    """

    def stretched(rows: Signatures) -> Signatures:
        """Signatures in coordinates where the metric is the identity."""
        if not factors:
            return rows
        pairs = zip(view_arrays(rows), factors, strict=True)
        return with_arrays(tuple(array @ factor for array, factor in pairs), rows)

    return normalized_similarity(stretched(signatures), stretched(phantoms), gamma=gamma)


def metric_factors(metric: Any, signatures: Signatures) -> Views:
    """One factor of the metric per view.

    Parameters
    ----------
    metric : {"diag"}, array-like or None
        Σ⁻¹; see :class:`SynC`.
    signatures : ndarray or SignatureViews
        Normalised signatures of the seen classes.

    Returns
    -------
    tuple of ndarray
        L with Σ⁻¹ = L Lᵀ.
    """
    arrays = view_arrays(signatures)
    if len(arrays) > 1 and not (metric is None or isinstance(metric, str)):
        raise ValueError(
            "metric as a matrix is for signatures of one view; these have "
            f'{len(arrays)}. Use metric="diag" or None.'
        )
    return tuple(metric_factor(metric, array) for array in arrays)


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
