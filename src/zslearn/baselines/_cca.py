r"""CCA: canonical correlations between features and the signatures of their classes.

With the covariances :math:`C_{xx}, C_{aa}` of the features and of the signatures of the samples'
classes, and :math:`C_{xa}` between them, directions of largest correlation solve

.. math:: \max_{p, q} \; \frac{p^\top C_{xa}\, q}
          {\sqrt{p^\top (C_{xx} + \gamma_x I)\, p} \sqrt{q^\top (C_{aa} + \gamma_a I)\, q}}.

All of them come from one singular value decomposition,

.. math:: (C_{xx} + \gamma_x I)^{-1/2} C_{xa} (C_{aa} + \gamma_a I)^{-1/2} = P\, \mathrm{diag}(\rho)
          Q^\top,

as the columns of :math:`(C_{xx} + \gamma_x I)^{-1/2} P` and
:math:`(C_{aa} + \gamma_a I)^{-1/2} Q`. Both projections are weighted by :math:`\rho^p` and meet by
their cosine.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn.baselines._closed_form import (
    ClosedForm,
    Floats,
    class_moments,
    eigenbasis,
    weighted_rows,
)
from zslearn.scoring import ScoreFunction
from zslearn.utils import Array, move_like, to_numpy


class _Factors:
    """Covariances in their eigenvectors; the latest decomposition is kept for the next setting."""

    def __init__(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> None:
        n_samples, n_classes = X.shape[0], len(signatures)
        moments = class_moments(X, y, n_classes, center=True)
        self.mean = moments.mean
        self.x, self.X, self.x_unit = eigenbasis(moments.gram / n_samples)
        counts = np.bincount(y, minlength=n_classes)
        values, vectors, self.signature_mean = weighted_rows(signatures, counts, center=True)
        self.a_unit = float(values.mean()) / n_samples or 1.0
        self.a, self.A = move_like(values / n_samples, self.X), move_like(vectors, self.X)
        right = move_like((signatures - self.signature_mean) @ vectors, self.X)
        xp = compat.array_namespace(self.X)
        self.cross = xp.matrix_transpose(moments.class_sums @ self.X) @ right / n_samples
        self._latest: tuple[tuple[float, float], tuple[Array, Array, Array]] | None = None

    def directions(self, reg_x: float, reg_a: float) -> tuple[Array, Array, Array]:
        """Projections of features and of signatures, one a column, and their correlations."""
        if self._latest is None or self._latest[0] != (reg_x, reg_a):
            self._latest = (reg_x, reg_a), self._decompose(reg_x, reg_a)
        return self._latest[1]

    def _decompose(self, reg_x: float, reg_a: float) -> tuple[Array, Array, Array]:
        xp = compat.array_namespace(self.X)
        x = _inverse_root(self.x, reg_x * self.x_unit)
        a = _inverse_root(self.a, reg_a * self.a_unit)
        P, rho, Qt = xp.linalg.svd(x[:, None] * self.cross * a[None, :], full_matrices=False)
        return (
            self.X @ (x[:, None] * P),
            self.A @ (a[:, None] * xp.matrix_transpose(Qt)),
            rho,
        )


class CCA(ClosedForm):
    """Regularised canonical correlation analysis between features and signatures.

    Parameters
    ----------
    n_components : int or None, default=None
        How many canonical directions; fewer where the data have a lower rank. None keeps all.
    reg_features : float, default=1.0
        Shrinkage of the features' covariance, in units of the mean of its eigenvalues that are not
        zero.
    reg_signatures : float, default=1.0
        Shrinkage of the signatures' covariance, in the like unit. From about 1000 on nothing
        changes any more: the signatures are then as good as not whitened.
    power : float, default=0.5
        The canonical correlations to this power weigh the directions on both sides. With 0.5 the
        projections meet by the product of what is expected of a sample given its class,
        E[u | v] = ρv, with the sample; 0 weighs all directions alike, as in the textbook.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over. It has
        no influence on the predictions of this method but where signatures have several views.

    Attributes
    ----------
    correlations_ : ndarray of shape (n_components,)
        The canonical correlations under the given shrinkage, descending.
    feature_weights_ : array of shape (n_features, n_components)
        Directions among the features: uncorrelated, of unit regularised variance.
    signature_weights_ : array of shape (n_attributes, n_components)
        Directions among the signatures.
    mean_ : array of shape (n_features,)
        Mean of the prepared features.
    signature_mean_ : ndarray of shape (n_attributes,)
        Mean over the samples of their normalised signatures.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.

    See Also
    --------
    SAE : One linear map both ways instead of a projection of either side.

    Notes
    -----
    What differs from the textbook: the weights of the directions, and the shrinkage on either side,
    without which signatures of more attributes than there are seen classes would be no more than
    the names of their classes. One eigendecomposition of either covariance serves every setting of
    a grid.

    References
    ----------
    H. Hotelling, "Relations between two sets of variates", Biometrika 28, 1936.

    D. R. Hardoon, S. Szedmak and J. Shawe-Taylor, "Canonical correlation analysis: an overview with
    application to learning methods", Neural Computation 16, 2004.

    Examples
    --------
    >>> from zslearn.baselines import CCA
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CCA().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "cosine"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClosedForm._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "reg_features": [Interval(Real, 0, None, closed="left")],
        "reg_signatures": [Interval(Real, 0, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "reg_features": [10.0**k for k in range(-4, 5)],
            "reg_signatures": [10.0**k for k in range(-4, 5)],
            "power": [0.0, 0.5, 1.0, 2.0],
            "n_components": [10, 30, 60, 100, None],
        },
        "fast": {
            "reg_features": [0.03, 0.3, 3.0, 30.0],
            "reg_signatures": [0.1, 1.0, 1000.0],
            "power": [0.0, 0.5],
            "n_components": [60, None],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = (
        "reg_features",
        "reg_signatures",
        "power",
        "n_components",
    )

    def __init__(
        self,
        n_components: int | None = None,
        *,
        reg_features: float = 1.0,
        reg_signatures: float = 1.0,
        power: float = 0.5,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.reg_features = reg_features
        self.reg_signatures = reg_signatures
        self.power = power
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> _Factors:
        return _Factors(X, y, signatures)

    def _solve(self, factors: _Factors, signatures: Floats) -> None:
        features, attributes, rho = factors.directions(self.reg_features, self.reg_signatures)
        correlations = to_numpy(rho)
        # A direction of no correlation says nothing; one is kept where there is no other.
        rank = max(1, int((correlations > 1e-12).sum()))
        n = rank if self.n_components is None else min(self.n_components, rank)
        self.correlations_ = correlations[:n]
        self.feature_weights_, self.signature_weights_ = features[:, :n], attributes[:, :n]
        self.mean_, self.signature_mean_ = factors.mean, factors.signature_mean

    def embed(self, X: Array) -> Array:
        """Project centred features onto the canonical directions, weighted by ρᵖ.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_components)
            One row a sample.
        """
        weights = self.feature_weights_ * self._importance(self.feature_weights_)
        return (X - move_like(self.mean_, X)[None, :]) @ move_like(weights, X)

    def synthesize(self, signatures: Floats) -> Array:
        """Project centred signatures onto the canonical directions, weighted by ρᵖ.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_components)
            One row a class.
        """
        weights = self.signature_weights_ * self._importance(self.signature_weights_)
        return move_like(signatures - self.signature_mean_, weights) @ weights

    def _importance(self, like: Array) -> Array:
        return move_like(self.correlations_**self.power, like)[None, :]


def _inverse_root(values: Array, shift: float) -> Array:
    """1/√(value + shift), and 0 for a direction in which there is nothing."""
    xp = compat.array_namespace(values)
    there = values > 0
    shifted = xp.where(there, values + shift, xp.ones_like(values))
    return xp.where(there, 1 / xp.sqrt(shifted), xp.zeros_like(values))
