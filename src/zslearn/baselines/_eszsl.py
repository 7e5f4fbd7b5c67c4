r"""ESZSL: bilinear least squares between features and signatures, in closed form.

With the features of the training samples as rows of X, the signatures of the seen classes as rows
of A and the class indicators :math:`Y \in \{0, 1\}^{N \times S}`, the bilinear score
:math:`x^\top W a` minimises

.. math::
    \min_W \|X W A^\top - Y\|_F^2 + \gamma \|W A^\top\|_F^2 + \lambda \|X W\|_F^2
    + \gamma \lambda \|W\|_F^2,

whose solution is :math:`W = (X^\top X + \gamma I)^{-1} X^\top Y A (A^\top A + \lambda I)^{-1}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, Floats, move_like
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.baselines._spectra import ClassRidge


@inherit_docs
@saves(
    coef_=Saved("n_features", "n_attributes"),
    mean_=Saved("n_features"),
    signature_mean_=Saved("n_attributes"),
)
@dataclass(eq=False, repr=False)
class ESZSL(AcceptsSampleWeight, ZeroShotClassifier):
    """Embarrassingly simple zero-shot learning: bilinear least squares in closed form.

    Parameters
    ----------
    alpha_features : float, default=10.0
        Penalty γ of the features, in units of XᵀX. The best value may be as large as 1e6.
    alpha_signatures : float, default=0.1
        Penalty λ of the signatures, in units of AᵀA.
    center : {"both", "features", "signatures"} or None, default="both"
        Which sides to centre: features over the training samples, signatures over the seen
        classes. None is the original method.

    Attributes
    ----------
    coef_ : array of shape (n_features, n_attributes)
        The bilinear map W.
    mean_ : array of shape (n_features,)
        Mean subtracted from the prepared features; zeros if they are not centred.
    signature_mean_ : ndarray of shape (n_attributes,)
        Mean subtracted from the normalised signatures; zeros if they are not centred.

    Notes
    -----
    Unlike the original, both sides are centred by default. Targets are 0 and 1, as in the authors'
    program; −1 and 1 would only double W if either side is centred, and otherwise add the product
    of the two means to the fit, which costs much accuracy.

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

    alpha_features: float = 10.0
    alpha_signatures: float = 0.1
    _: KW_ONLY
    center: str | None = "both"

    embedding_attributes = ("mean_",)
    synthesizes_independently = True
    learns_from_sums = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
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

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the moments among all penalties, and the feature side among `alpha_signatures`."""
        for same_center in group_by_params(variants, "center"):
            center = same_center[0].center
            features = ClassRidge(training.moments(center=center in ("features", "both")))
            signatures, mean = training.signatures, np.zeros(training.signatures.shape[1])
            if center in ("signatures", "both"):
                mean = signatures.mean(axis=0)
            for same_features in group_by_params(same_center, "alpha_features"):
                by_class = features.solve(same_features[0].alpha_features)
                for variant in same_features:
                    variant.mean_, variant.signature_mean_ = features.mean, mean
                    # W = (XᵀX + γI)⁻¹ XᵀY · A (AᵀA + λI)⁻¹
                    by_signature = _signature_side(signatures - mean, variant.alpha_signatures)
                    variant.coef_ = by_class @ move_like(by_signature, by_class)
                    yield variant

    def embed(self, X: Array) -> Array:
        """Subtract the mean of the training features."""
        return X - move_like(self.mean_, X)[None, :]

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Compute the classifier W a of each class."""
        xp = compat.array_namespace(self.coef_)
        centered = signatures - self.signature_mean_
        return move_like(centered, self.coef_) @ xp.matrix_transpose(self.coef_)


def _signature_side(signatures: Floats, alpha: float) -> Floats:
    """A (AᵀA + λI)⁻¹ = U s/(s² + λ) Vᵀ, where A = U s Vᵀ; zero where s is rounding error."""
    left, values, right = np.linalg.svd(signatures, full_matrices=False)
    nonzero = values > max(signatures.shape) * np.finfo(float).eps * values[0]
    factors = np.divide(values, values**2 + alpha, out=np.zeros_like(values), where=nonzero)
    return (left * factors) @ right
