r"""SAE: a linear autoencoder whose code is the signature.

A linear encoder W maps features to signatures, and its transpose maps signatures back. With the
features of the samples as columns of X and the signatures of their classes as columns of S,

.. math:: \min_W \|X - W^\top S\|_F^2 + \lambda \|W X - S\|_F^2,

whose stationary point solves the Sylvester equation

.. math:: S S^\top W + \lambda W X X^\top = (1 + \lambda) S X^\top.

With :math:`S S^\top = U \mathrm{diag}(s) U^\top` and :math:`X X^\top = V \mathrm{diag}(v) V^\top`
the solution for every λ is

.. math:: W = U \Bigl[ \frac{(1 + \lambda)\, (U^\top S X^\top V)_{ij}}{s_i + \lambda v_j} \Bigr]
          V^\top.

The features may first be replaced by the scores of a ridge regression of the class indicators Y,
one column per sample: X becomes :math:`Y X^\top (X X^\top + \rho I)^{-1} X`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, Floats, move_like
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import Moments
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params
from zslearn.base._training import RowSpectrum, Training
from zslearn.baselines._spectra import ClassRidge, signature_spectrum


@inherit_docs
@saves(
    coef_=Saved("n_attributes", "n_reduced"),
    mean_=Saved("n_reduced"),
    signature_mean_=Saved("n_attributes"),
    reduction_=Saved("n_features", "n_reduced", optional=True),
    alpha_=Saved(least=0),
)
@dataclass(eq=False, repr=False)
class SAE(AcceptsSampleWeight, ZeroShotClassifier):
    """Semantic autoencoder: a linear autoencoder whose code is the signature, in closed form.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight λ of the encoder's error against the decoder's, in units of tr(SSᵀ) / tr(XXᵀ).
    direction : {"semantic_to_feature", "feature_to_semantic"}, default="semantic_to_feature"
        Whether to compare x with Wᵀa, several points better on most data, or Wx with a.
    center : {"both", "features", "signatures"} or None, default=None
        Which sides to centre over the training samples. None is the original method.
    alpha_reduction : float or None, default=None
        Penalty ρ, in units of XXᵀ, of the ridge regression whose scores of the seen classes replace
        the features; None keeps the features. The authors' program has 50 for CUB, on features that
        are not normalised.

    Attributes
    ----------
    coef_ : array of shape (n_attributes, n_features or n_seen)
        The encoder W.
    reduction_ : array of shape (n_features, n_seen) or None
        Map from features to scores of the seen classes.
    alpha_ : float
        λ in absolute units.
    mean_ : array of shape (n_features or n_seen,)
        Mean subtracted from the features, or from the scores that replace them.
    signature_mean_ : ndarray of shape (n_attributes,)
        Mean subtracted from the signatures.

    See Also
    --------
    ESZSL : Another bilinear method in closed form, with a penalty on each side.

    Notes
    -----
    Unlike in the original, λ is relative, so that one grid suits data in any units; both sides may
    be centred; and if SSᵀ and XXᵀ are both singular, the solution of least norm is taken. The
    authors' programs also standardise the similarities of each class over the test images.

    References
    ----------
    E. Kodirov, T. Xiang and S. Gong, "Semantic autoencoder for zero-shot learning", CVPR 2017.
    """

    alpha: float = 0.1
    _: KW_ONLY
    direction: str = "semantic_to_feature"
    center: str | None = None
    alpha_reduction: float | None = None

    score_function = "cosine"

    synthesizes_independently = True
    learns_from_sums = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "direction": [StrOptions({"semantic_to_feature", "feature_to_semantic"})],
        "center": [StrOptions({"both", "features", "signatures"}), None],
        "alpha_reduction": [Interval(Real, 0, None, closed="neither"), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "alpha_reduction": [None, 0.5, 5.0, 50.0],
            "center": [None, "both"],
            "alpha": [10.0**k for k in range(-6, 7)],
        },
        "fast": {
            "alpha_reduction": [None, 5.0],
            "center": [None, "both"],
            "alpha": [10.0 ** (k / 2) for k in range(-8, 7)],
        },
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the eigenvectors among all penalties."""
        moments = cache(lambda center: training.moments(center=center))
        for same_sides in group_by_params(variants, "center", "alpha_reduction"):
            first = same_sides[0]
            equation = _Sylvester(training, moments, first.center, first.alpha_reduction)
            # Variants with equal embeddings follow one another.
            for variant in sorted(same_sides, key=lambda variant: variant.direction):
                variant.alpha_ = float(variant.alpha) * equation.unit
                variant.coef_ = equation.solve(variant.alpha_)
                variant.mean_, variant.signature_mean_ = equation.mean, equation.signature_mean
                variant.reduction_ = equation.reduction
                yield variant

    @property
    def embedding_attributes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Attributes that `embed` depends on: the encoder only if features are encoded."""
        encoder = () if self.direction == "semantic_to_feature" else ("coef_",)
        return ("reduction_", "mean_", "direction", *encoder)

    def embed(self, X: Array) -> Array:
        """Centre features or the scores that replace them; encode for "feature_to_semantic"."""
        if self.reduction_ is not None:
            X = X @ move_like(self.reduction_, X)
        centered = X - move_like(self.mean_, X)[None, :]
        if self.direction == "semantic_to_feature":
            return centered
        return centered @ compat.array_namespace(X).matrix_transpose(move_like(self.coef_, X))

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Decode each signature to Wᵀa; for "feature_to_semantic" only centre it."""
        centered = move_like(signatures - self.signature_mean_, self.coef_)
        return centered @ self.coef_ if self.direction == "semantic_to_feature" else centered


class _Sylvester:
    """The Sylvester equation in the eigenvectors of both sides."""

    def __init__(
        self,
        training: Training,
        moments: Callable[[bool], Moments],
        center: str | None,
        alpha_reduction: float | None,
    ) -> None:
        signatures = training.signatures
        is_centered = center in ("both", "features")
        spectrum, self.reduction = _feature_side(moments, is_centered, alpha_reduction)
        s, U, self.signature_mean = signature_spectrum(
            signatures, training.sizes, center=center in ("both", "signatures")
        )
        self.v, self.V, self.mean = spectrum.values, spectrum.vectors, spectrum.mean
        self.s, self.U = move_like(s, self.V), move_like(U, self.V)
        # Uᵀ S Xᵀ V, where S Xᵀ = Aᵀ (class sums)
        left = move_like(((signatures - self.signature_mean) @ U).T, self.V)
        self.cross = left @ spectrum.class_sums @ self.V
        xp = compat.array_namespace(self.v)
        of_signatures, of_features = float(s.sum()), float(xp.sum(self.v))
        self.unit = 1.0
        if of_signatures > 0 and of_features > 0:
            self.unit = of_signatures / of_features

    def solve(self, alpha: float) -> Array:
        """W for a λ in absolute units."""
        xp = compat.array_namespace(self.V)
        denominator = self.s[:, None] + alpha * self.v[None, :]
        # If both eigenvalues are zero, so is the numerator.
        denominator = xp.where(denominator > 0, denominator, xp.ones_like(denominator))
        inner = (1 + alpha) * self.cross / denominator
        return self.U @ inner @ xp.matrix_transpose(self.V)


def _feature_side(
    moments: Callable[[bool], Moments], center: bool, alpha: float | None
) -> tuple[RowSpectrum, Array | None]:
    """Spectrum of the features, or of the seen classes' scores with the map to these."""
    if alpha is None:
        return RowSpectrum.of(moments(center)), None
    # (XXᵀ + ρI)⁻¹ XYᵀ: ridge regression of the class indicators.
    map_to_scores = ClassRidge(moments(False)).solve(alpha)
    gram, class_sums, mean = moments(center)
    gram = compat.array_namespace(gram).matrix_transpose(map_to_scores) @ gram @ map_to_scores
    reduced = Moments(gram, class_sums @ map_to_scores, mean @ map_to_scores)
    return RowSpectrum.of(reduced), map_to_scores
