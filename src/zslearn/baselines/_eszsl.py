r"""ESZSL: an embarrassingly simple approach to zero-shot learning.

A bilinear score :math:`x^\top W a` is learned by regularised least squares. With the features of
the training samples as rows of X, the signatures of the seen classes as rows of A and
:math:`Y \in \{-1, 1\}^{N \times S}`,

.. math::
    \min_W \|X W A^\top - Y\|_F^2 + \gamma \|W A^\top\|_F^2 + \lambda \|X W\|_F^2
    + \gamma \lambda \|W\|_F^2,

which has the closed form
:math:`W = (X^\top X + \gamma I)^{-1} X^\top Y A (A^\top A + \lambda I)^{-1}`.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.baselines._closed_form import ClosedForm, Floats, class_moments
from zslearn.utils import Array, move_like


class _Factors(NamedTuple):
    """XᵀX in its eigenvectors, and XᵀY in these."""

    values: Array
    vectors: Array
    rotated: Array
    mean: Array


class ESZSL(ClosedForm):
    """Bilinear least squares between features and signatures, in closed form.

    Parameters
    ----------
    alpha_features : float, default=10.0
        Penalty on the features' side, γ of the paper that introduced the method, in units of
        XᵀX. The optimum may be large: search up to 1e6.
    alpha_signatures : float, default=0.1
        Penalty on the signatures' side, λ of that paper, in units of AᵀA.
    center : {"both", "features", "signatures"} or None, default="both"
        What has the mean over the training samples, or over the seen classes, taken from it. On
        features of modern networks accuracy depends a great deal on centring at least one side;
        None is the original method.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    coef_ : array of shape (n_features, n_attributes)
        The bilinear map W.
    mean_ : array of shape (n_features,)
        What is taken from the prepared features; zeros where they are not centred.
    signature_mean_ : ndarray of shape (n_attributes,)
        What is taken from the normalised signatures; zeros where they are not centred.
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

    References
    ----------
    B. Romera-Paredes and P. H. S. Torr, "An embarrassingly simple approach to zero-shot learning",
    ICML 2015.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClosedForm._parameter_constraints,
        "alpha_features": [Interval(Real, 0, None, closed="neither")],
        "alpha_signatures": [Interval(Real, 0, None, closed="neither")],
        "center": [StrOptions({"both", "features", "signatures"}), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "center": [None, "both"],
            "alpha_features": [10.0**k for k in range(-3, 7)],
            "alpha_signatures": [10.0**k for k in range(-3, 4)],
        },
        "fast": {
            "center": ["both"],
            "alpha_features": [10.0**k for k in range(-2, 5)],
            "alpha_signatures": [10.0**k for k in range(-3, 3)],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("center", "alpha_features", "alpha_signatures")

    def __init__(
        self,
        alpha_features: float = 10.0,
        alpha_signatures: float = 0.1,
        *,
        center: str | None = "both",
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha_features = alpha_features
        self.alpha_signatures = alpha_signatures
        self.center = center
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> None:
        gram, targets, self.mean_ = self._feature_side(X, y, len(signatures))
        xp = compat.array_namespace(gram)
        if self.alpha_features <= _resolution(gram, float(xp.linalg.trace(gram))):
            # The penalty is below the rounding of XᵀX: its eigenvectors tell what is zero.
            self._solve(_rotated(gram, targets, self.mean_), signatures)
            return
        ridge = self.alpha_features * xp.eye(
            gram.shape[0], dtype=gram.dtype, device=compat.device(gram)
        )
        # For one penalty a solution is cheaper than eigenvectors.
        self._combine(xp.linalg.solve(gram + ridge, targets), signatures)

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> _Factors:
        return _rotated(*self._feature_side(X, y, len(signatures)))

    def _factor_key(self) -> bool:
        return self.embedding_key()

    def _solve(self, factors: _Factors, signatures: Floats) -> None:
        self.mean_ = factors.mean
        xp = compat.array_namespace(factors.values)
        # (XᵀX + γI)⁻¹ in the eigenvectors of XᵀX. Where neither is more than rounding there is
        # nothing of XᵀY.
        size = factors.values + self.alpha_features
        there = size > _resolution(factors.vectors, float(xp.max(factors.values)))
        rotated = xp.where(there[:, None], factors.rotated, xp.zeros_like(factors.rotated))
        shrunk = rotated / xp.where(there, size, xp.ones_like(size))[:, None]
        self._combine(factors.vectors @ shrunk, signatures)

    def embedding_key(self) -> bool:
        """Whether the mean is taken from the features: nothing else changes the embedding."""
        return self.center in ("features", "both")

    def _feature_side(
        self, X: Array, y: NDArray[np.intp], n_classes: int
    ) -> tuple[Array, Array, Array]:
        """XᵀX, XᵀY and the mean."""
        gram, class_sums, mean = class_moments(X, y, n_classes, center=self.embedding_key())
        xp = compat.array_namespace(gram)
        # XᵀY with Y in {−1, 1}: twice the sum of a class less the sum of all.
        targets = 2 * class_sums - xp.sum(class_sums, axis=0, keepdims=True)
        return gram, xp.matrix_transpose(targets), mean

    def _combine(self, by_class: Array, signatures: Floats) -> None:
        """W = (XᵀX + γI)⁻¹ XᵀY · A (AᵀA + λI)⁻¹ from its left half."""
        self.signature_mean_ = np.zeros(signatures.shape[1])
        if self.center in ("signatures", "both"):
            self.signature_mean_ = signatures.mean(axis=0)
        by_signature = _signature_side(signatures - self.signature_mean_, self.alpha_signatures)
        self.coef_ = by_class @ move_like(by_signature, by_class)

    def embed(self, X: Array) -> Array:
        """Take the mean of the training features from each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_features)
            Centred features.
        """
        return X - move_like(self.mean_, X)[None, :]

    def synthesize(self, signatures: Floats) -> Array:
        """Make the classifier W a of each class.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_features)
            One classifier a row.
        """
        xp = compat.array_namespace(self.coef_)
        centered = signatures - self.signature_mean_
        return move_like(centered, self.coef_) @ xp.matrix_transpose(self.coef_)


def _resolution(gram: Array, size: float) -> float:
    """What eigenvalues of a matrix that has none larger than `size` are computed to."""
    return float(gram.shape[0] * compat.array_namespace(gram).finfo(gram.dtype).eps * size)


def _rotated(gram: Array, targets: Array, mean: Array) -> _Factors:
    """Eigenvalues and eigenvectors of XᵀX, and XᵀY in these."""
    xp = compat.array_namespace(gram)
    values, vectors = xp.linalg.eigh(gram)
    return _Factors(xp.clip(values, min=0), vectors, xp.matrix_transpose(vectors) @ targets, mean)


def _signature_side(signatures: Floats, alpha: float) -> Floats:
    """A (AᵀA + λI)⁻¹ = (AAᵀ + λI)⁻¹ A, by the smaller of the two matrices."""
    n_classes, n_attributes = signatures.shape
    if n_attributes <= n_classes:
        gram = signatures.T @ signatures + alpha * np.eye(n_attributes)
        return scipy.linalg.solve(gram, signatures.T, assume_a="pos").T
    gram = signatures @ signatures.T + alpha * np.eye(n_classes)
    return scipy.linalg.solve(gram, signatures, assume_a="pos")
