r"""CCA: canonical correlations between features and the signatures of their classes.

With the covariances :math:`C_{xx}, C_{aa}` of the features and of the signatures of the samples'
classes, and their cross-covariance :math:`C_{xa}`, the directions of largest correlation solve

.. math:: \max_{p, q} \; \frac{p^\top C_{xa}\, q}
          {\sqrt{p^\top (C_{xx} + \gamma_x I)\, p} \sqrt{q^\top (C_{aa} + \gamma_a I)\, q}}.

They follow from one singular value decomposition,

.. math:: (C_{xx} + \gamma_x I)^{-1/2} C_{xa} (C_{aa} + \gamma_a I)^{-1/2} = P\, \mathrm{diag}(\rho)
          Q^\top,

as the columns of :math:`(C_{xx} + \gamma_x I)^{-1/2} P` and
:math:`(C_{aa} + \gamma_a I)^{-1/2} Q`. Both projections are weighted by :math:`\rho^p`, and the
score is their cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.baselines._spectra import signature_spectrum


@inherit_docs
@saves(
    mean_=Saved("n_features"),
    signature_mean_=Saved("n_attributes"),
    feature_weights_=Saved("n_features", "n_dims"),
    signature_weights_=Saved("n_attributes", "n_dims"),
    correlations_=Saved("n_dims"),
)
@dataclass(eq=False, repr=False)
class CCA(AcceptsSampleWeight, ZeroShotClassifier):
    """Regularised canonical correlation analysis between features and signatures.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of canonical directions, at most the rank of the data. None keeps all.
    alpha_features, alpha_signatures : float, default=1.0
        Shrinkage of each covariance, in units of its mean non-zero eigenvalue. With an
        `alpha_signatures` of 1000 or more, the signatures are hardly whitened.
    power : float, default=0.5
        Power of the canonical correlations that weights the directions on both sides. 0.5 compares
        a sample with its expectation given the class, E[u | v] = ρv; 0 gives all directions equal
        weight, as in the textbook.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_components,)
        The regularised canonical correlations, in descending order.
    feature_weights_, signature_weights_ : array of shape (n_features or n_attributes, n_components)
        Directions on either side: uncorrelated, of unit regularised variance.
    mean_, signature_mean_ : array of shape (n_features,) and (n_attributes,)
        Means over the samples.

    See Also
    --------
    SAE : One linear map in both directions instead of two projections.

    Notes
    -----
    `signature_scale` affects predictions only if signatures have several views.

    Unlike the textbook method, directions are weighted, and both covariances are shrunk: without
    shrinkage, signatures with more attributes than there are seen classes would only encode class
    identity.

    References
    ----------
    H. Hotelling, "Relations between two sets of variates", Biometrika 28, 1936.

    D. R. Hardoon, S. Szedmak and J. Shawe-Taylor, "Canonical correlation analysis: an overview with
    application to learning methods", Neural Computation 16, 2004.
    """

    n_components: int | None = None
    _: KW_ONLY
    alpha_features: float = 1.0
    alpha_signatures: float = 1.0
    power: float = 0.5

    score_function = "cosine"

    synthesizes_independently = True
    learns_from_sums = True
    embedding_attributes = ("mean_", "feature_weights_", "correlations_", "power")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha_features": [Interval(Real, 0, None, closed="left")],
        "alpha_signatures": [Interval(Real, 0, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "alpha_features": [10.0**k for k in range(-4, 5)],
            "alpha_signatures": [10.0**k for k in range(-4, 5)],
            "power": [0.0, 0.5, 1.0, 2.0],
            "n_components": [10, 30, 60, 100, None],
        },
        "fast": {
            "alpha_features": [0.03, 0.3, 3.0, 30.0],
            "alpha_signatures": [0.1, 1.0, 1000.0],
            "power": [0.0, 0.5],
            "n_components": [60, None],
        },
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the covariances, and one decomposition among settings of equal shrinkage."""
        covariances = _Covariances(training)
        for same_shrinkage in group_by_params(variants, "alpha_features", "alpha_signatures"):
            first = same_shrinkage[0]
            directions = covariances.decompose(first.alpha_features, first.alpha_signatures)
            for same_width in group_by_params(same_shrinkage, "n_components"):
                leading = directions.first(same_width[0].n_components)
                for variant in same_width:
                    variant.feature_weights_ = leading.features
                    variant.signature_weights_ = leading.signatures
                    variant.correlations_ = leading.correlations
                    variant.mean_ = covariances.mean
                    variant.signature_mean_ = covariances.signature_mean
                    yield variant

    def embed(self, X: Array) -> Array:
        """Project centred features onto the canonical directions, weighted by ρᵖ."""
        weights = self.feature_weights_ * self._importance(self.feature_weights_)
        return (X - move_like(self.mean_, X)[None, :]) @ move_like(weights, X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Project centred signatures onto the canonical directions, weighted by ρᵖ."""
        weights = self.signature_weights_ * self._importance(self.signature_weights_)
        return move_like(signatures - self.signature_mean_, weights) @ weights

    def _importance(self, like: Array) -> Array:
        return move_like(self.correlations_**self.power, like)[None, :]


class _Directions(NamedTuple):
    """Directions among the features and among the signatures, as columns."""

    features: Array
    signatures: Array
    correlations: Floats

    def first(self, n_components: int | None) -> _Directions:
        """The first directions; None keeps those with a non-zero correlation, at least one."""
        n = max(1, int((self.correlations > 1e-12).sum()))
        if n_components is not None:
            n = min(n, n_components)
        return _Directions(self.features[:, :n], self.signatures[:, :n], self.correlations[:n])


class _Covariances:
    """Covariances of features and signatures in the bases of their eigenvectors."""

    def __init__(self, training: Training) -> None:
        sizes, signatures = training.sizes, training.signatures
        n_samples = float(sizes.sum())
        spectrum = training.spectrum(center=True)
        self.mean, self.X = spectrum.mean, spectrum.vectors
        self.x, self.x_unit = spectrum.values / n_samples, spectrum.unit / n_samples
        values, vectors, self.signature_mean = signature_spectrum(signatures, sizes, center=True)
        self.a_unit = float(values.mean()) / n_samples or 1.0
        self.a, self.A = move_like(values / n_samples, self.X), move_like(vectors, self.X)
        right = move_like((signatures - self.signature_mean) @ vectors, self.X)
        xp = compat.array_namespace(self.X)
        self.cross = xp.matrix_transpose(spectrum.class_sums @ self.X) @ right / n_samples

    def decompose(self, alpha_x: float, alpha_a: float) -> _Directions:
        """All canonical directions for a relative shrinkage of either side."""
        xp = compat.array_namespace(self.X)
        x = _inverse_root(self.x, alpha_x * self.x_unit)
        a = _inverse_root(self.a, alpha_a * self.a_unit)
        P, rho, Qt = xp.linalg.svd(x[:, None] * self.cross * a[None, :], full_matrices=False)
        Q = xp.matrix_transpose(Qt)
        return _Directions(self.X @ (x[:, None] * P), self.A @ (a[:, None] * Q), to_numpy(rho))


def _inverse_root(values: Array, shift: float) -> Array:
    """1/√(value + shift), or 0 for an eigenvalue of 0."""
    xp = compat.array_namespace(values)
    nonzero = values > 0
    shifted = xp.where(nonzero, values + shift, xp.ones_like(values))
    return xp.where(nonzero, 1 / xp.sqrt(shifted), xp.zeros_like(values))
