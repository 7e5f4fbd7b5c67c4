r"""SAE: a semantic autoencoder.

A linear encoder W takes features to signatures, and its transpose takes signatures back. With the
features of the samples as columns of X and the signatures of their classes as columns of S,

.. math:: \min_W \|X - W^\top S\|_F^2 + \lambda \|W X - S\|_F^2,

whose stationary point solves the Sylvester equation

.. math:: S S^\top W + \lambda W X X^\top = (1 + \lambda) S X^\top.

With :math:`S S^\top = U \mathrm{diag}(s) U^\top` and :math:`X X^\top = V \mathrm{diag}(v) V^\top`
the solution for any λ is

.. math:: W = U \Bigl[ \frac{(1 + \lambda)\, (U^\top S X^\top V)_{ij}}{s_i + \lambda v_j} \Bigr]
          V^\top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier, alike
from zslearn.baselines._spectra import eigenbasis, weighted_rows
from zslearn.scoring import ScoreFunction
from zslearn.solvers import class_moments
from zslearn.utils import Array, Floats, move_like


class SAE(ZeroShotClassifier):
    """A linear autoencoder whose code is the signature, in closed form.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of the encoder's error against the decoder's: λ of the paper that introduced the
        method, in units of tr(SSᵀ) / tr(XXᵀ). So it depends neither on the unit of the features nor
        on that of the signatures.
    direction : {"semantic_to_feature", "feature_to_semantic"}, default="semantic_to_feature"
        Where an image and a class meet: among the features, x against Wᵀa, which is several
        points better on most data; or among the signatures, Wx against a.
    center : {"both", "features", "signatures"} or None, default=None
        What has its mean over the training samples taken from it. None is the original method.
    <parameters of every method>

    Attributes
    ----------
    coef_ : array of shape (n_attributes, n_features)
        The encoder W.
    alpha_ : float
        λ of the equation, in its own units.
    mean_ : array of shape (n_features,)
        What is taken from the prepared features; zeros where they are not centred.
    signature_mean_ : ndarray of shape (n_attributes,)
        What is taken from the normalised signatures; zeros where they are not centred.
    <attributes of every method>

    See Also
    --------
    ESZSL : Another bilinear method in closed form, with a penalty on each side.

    Notes
    -----
    `signature_scale` has no influence on the predictions but where signatures have several views.

    What differs from the original: λ is relative, so that one grid serves data of any unit; both
    sides may be centred; where SSᵀ and XXᵀ are both singular the solution of least norm is taken.
    One eigendecomposition of either side serves every λ of a grid.

    References
    ----------
    E. Kodirov, T. Xiang and S. Gong, "Semantic autoencoder for zero-shot learning", CVPR 2017.

    Examples
    --------
    >>> from zslearn.baselines import SAE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = SAE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "cosine"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "direction": [StrOptions({"semantic_to_feature", "feature_to_semantic"})],
        "center": [StrOptions({"both", "features", "signatures"}), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"center": [None, "both"], "alpha": [10.0**k for k in range(-6, 7)]},
        "fast": {"center": [None, "both"], "alpha": [10.0 ** (k / 2) for k in range(-8, 7)]},
    }

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        direction: str = "semantic_to_feature",
        center: str | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha = alpha
        self.direction = direction
        self.center = center
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """The eigenvectors serve every penalty."""
        for same_center in alike(variants, "center"):
            equation = _Sylvester(training, same_center[0].center)
            # Those that embed alike follow one another.
            for variant in sorted(same_center, key=lambda variant: variant.direction):
                variant.alpha_ = float(variant.alpha) * equation.unit
                variant.coef_ = equation.solve(variant.alpha_)
                variant.mean_, variant.signature_mean_ = equation.mean, equation.signature_mean
                yield variant

    def embed(self, X: Array) -> Array:
        """Take the mean from each row; with "feature_to_semantic" encode the rest, W(x − mean).

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_features or n_attributes)
            One row per sample.
        """
        centered = X - move_like(self.mean_, X)[None, :]
        if self.direction == "semantic_to_feature":
            return centered
        return centered @ compat.array_namespace(X).matrix_transpose(move_like(self.coef_, X))

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Decode each class, Wᵀa; with "feature_to_semantic" only take the mean from a.

        <parameters of synthesize>

        Returns
        -------
        array of shape (n_classes, n_features or n_attributes)
            One row per class.
        """
        centered = move_like(signatures - self.signature_mean_, self.coef_)
        return centered @ self.coef_ if self.direction == "semantic_to_feature" else centered


class _Sylvester:
    """The equation with both sides in their eigenvectors.

    Attributes
    ----------
    unit : float
        tr(SSᵀ) / tr(XXᵀ), the unit of λ.
    mean, signature_mean : array of shape (n_features,), ndarray of shape (n_attributes,)
        What is taken from features and signatures.
    """

    def __init__(self, training: Training, center: str | None) -> None:
        X, y, signatures = training.X, training.y, training.signatures
        moments = class_moments(X, y, training.n_seen, center=center in ("both", "features"))
        s, U, self.signature_mean = weighted_rows(
            signatures, training.counts, center=center in ("both", "signatures")
        )
        self.mean = moments.mean
        self.v, self.V, _ = eigenbasis(moments.gram)
        self.s, self.U = move_like(s, self.V), move_like(U, self.V)
        # Uᵀ S Xᵀ V, where S Xᵀ = Aᵀ (sums of the classes)
        left = move_like(((signatures - self.signature_mean) @ U).T, self.V)
        self.cross = left @ moments.class_sums @ self.V
        xp = compat.array_namespace(self.v)
        of_signatures, of_features = float(s.sum()), float(xp.sum(self.v))
        self.unit = 1.0
        if of_signatures > 0 and of_features > 0:
            self.unit = of_signatures / of_features

    def solve(self, alpha: float) -> Array:
        """W for a λ in the equation's own units."""
        xp = compat.array_namespace(self.V)
        denominator = self.s[:, None] + alpha * self.v[None, :]
        # Where both are zero so is the numerator.
        denominator = xp.where(denominator > 0, denominator, xp.ones_like(denominator))
        inner = (1 + alpha) * self.cross / denominator
        return self.U @ inner @ xp.matrix_transpose(self.V)
