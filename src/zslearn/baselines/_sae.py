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

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.baselines._closed_form import (
    ClosedForm,
    Floats,
    class_moments,
    eigenbasis,
    weighted_rows,
)
from zslearn.scoring import ScoreFunction
from zslearn.utils import Array, move_like


class _Factors(NamedTuple):
    """Both sides of the equation in their eigenvectors."""

    s: Array  # eigenvalues of SSᵀ, without those that are zero
    U: Array
    v: Array  # eigenvalues of XXᵀ
    V: Array
    cross: Array  # Uᵀ S Xᵀ V
    mean: Array
    signature_mean: Floats


class SAE(ClosedForm):
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
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over. It has
        no influence on the predictions of this method but where signatures have several views.

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
    ESZSL : Another bilinear method in closed form, with a penalty on each side.

    Notes
    -----
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
        **ClosedForm._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "direction": [StrOptions({"semantic_to_feature", "feature_to_semantic"})],
        "center": [StrOptions({"both", "features", "signatures"}), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"center": [None, "both"], "alpha": [10.0**k for k in range(-6, 7)]},
        "fast": {"center": [None, "both"], "alpha": [10.0 ** (k / 2) for k in range(-8, 7)]},
    }
    grid_order: ClassVar[tuple[str, ...]] = ("center", "direction", "alpha")

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

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> _Factors:
        n_classes = len(signatures)
        moments = class_moments(X, y, n_classes, center=self.center in ("both", "features"))
        v, V, _ = eigenbasis(moments.gram)
        counts = np.bincount(y, minlength=n_classes)
        s, U, signature_mean = weighted_rows(
            signatures, counts, center=self.center in ("both", "signatures")
        )
        # S Xᵀ = Aᵀ (sums of the classes)
        left = move_like(((signatures - signature_mean) @ U).T, V)
        return _Factors(
            s=move_like(s, V),
            U=move_like(U, V),
            v=v,
            V=V,
            cross=left @ moments.class_sums @ V,
            mean=moments.mean,
            signature_mean=signature_mean,
        )

    def _factor_key(self) -> str | None:
        return self.center

    def _solve(self, factors: _Factors, signatures: Floats) -> None:
        xp = compat.array_namespace(factors.V)
        of_signatures, of_features = float(xp.sum(factors.s)), float(xp.sum(factors.v))
        self.alpha_ = float(self.alpha)
        if of_signatures > 0 and of_features > 0:
            self.alpha_ *= of_signatures / of_features
        denominator = factors.s[:, None] + self.alpha_ * factors.v[None, :]
        # Where both are zero so is the numerator.
        denominator = xp.where(denominator > 0, denominator, xp.ones_like(denominator))
        inner = (1 + self.alpha_) * factors.cross / denominator
        self.coef_ = factors.U @ inner @ xp.matrix_transpose(factors.V)
        self.mean_, self.signature_mean_ = factors.mean, factors.signature_mean

    def embedding_key(self) -> bool | None:
        """Whether features are centred, if they are compared as they are; else nothing is known."""
        if self.direction == "feature_to_semantic":
            return None
        return self.center in ("both", "features")

    def embed(self, X: Array) -> Array:
        """Take the mean from each row; with "feature_to_semantic" encode the rest, W(x − mean).

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_features or n_attributes)
            One row a sample.
        """
        centered = X - move_like(self.mean_, X)[None, :]
        if self.direction == "semantic_to_feature":
            return centered
        return centered @ compat.array_namespace(X).matrix_transpose(move_like(self.coef_, X))

    def synthesize(self, signatures: Floats) -> Array:
        """Decode each class, Wᵀa; with "feature_to_semantic" only take the mean from a.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_features or n_attributes)
            One row a class.
        """
        centered = move_like(signatures - self.signature_mean_, self.coef_)
        return centered @ self.coef_ if self.direction == "semantic_to_feature" else centered
