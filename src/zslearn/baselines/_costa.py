r"""COSTA: classifiers of new classes as weighted sums of those of the seen classes.

The classifiers of the seen classes are least squares, one against all, each class counting alike.
With the class means :math:`m_c`, the mean :math:`\bar m` of these, and the mean G over the classes
of the products of deviations from :math:`\bar m`,

.. math:: w_c = \arg\min_w \; \frac{1}{S} \sum_{c'} \frac{1}{N_{c'}} \sum_{n \in c'}
          \bigl( w^\top (x_n - \bar m) + b - t_n \bigr)^2 + \lambda \|w\|^2
          \;\propto\; (G + \lambda I)^{-1} (m_c - \bar m),

where t is 1 for the class and −1 for the rest. Any class, seen or unseen, then has

.. math:: w(a) = \sum_{c \in \text{seen}} s(a, a_c)\, w_c, \qquad \sum_c s(a, a_c) = 1.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.baselines._closed_form import ClosedForm, Floats, class_moments, eigenbasis
from zslearn.signatures import normalized_similarity
from zslearn.utils import Array, move_like, unit_rows


class _Factors(NamedTuple):
    """The scatter G in its eigenvectors, and the class means in these."""

    values: Array
    vectors: Array
    unit: float
    rotated: Array  # (m_c − m̄) in the eigenvectors, one class a row
    mean: Array


class COSTA(ClosedForm):
    """Classifiers of the seen classes, summed by the similarity of signatures.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of the seen classes' classifiers, in units of the mean of the eigenvalues of the
        features' scatter that are not zero.
    similarity : {"cosine", "rbf"}, default="cosine"
        How alike two signatures are: the cosine around the mean of the seen signatures, 0 where it
        is negative, to the power `sharpness`; or exp(−sharpness ‖a − b‖²), in units of the median
        distance of signatures. Similarities to the seen classes are divided by their sum.
    sharpness : float, default=1.0
        The larger, the fewer seen classes count.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Classifiers of the seen classes.
    mean_ : array of shape (n_features,)
        Mean of the class means of the prepared features.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.
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
    zslearn.synthesis.SynC : Sums phantom classifiers that are learned for that purpose.

    Notes
    -----
    What differs from the original: similarity is that of signatures, where the original counts how
    often labels occur together; the classifiers are least squares in place of support vector
    machines, so that one eigendecomposition of G serves every setting of a grid; and a seen class
    is weighted as any other, so that what a class is predicted by depends on its signature alone.
    A seen class whose signature is far from the others has nearly its own classifier.

    References
    ----------
    T. Mensink, E. Gavves and C. G. M. Snoek, "COSTA: co-occurrence statistics for zero-shot
    classification", CVPR 2014.

    Examples
    --------
    >>> from zslearn.baselines import COSTA
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = COSTA().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.3
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClosedForm._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "similarity": [StrOptions({"cosine", "rbf"})],
        "sharpness": [Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "similarity": ["cosine", "rbf"],
            "alpha": [10.0**k for k in range(-4, 5)],
            "sharpness": [2.0**k for k in range(-5, 7)],
        },
        "fast": {
            "similarity": ["cosine", "rbf"],
            "alpha": [10.0**k for k in range(-2, 2)],
            "sharpness": [2.0**k for k in range(-1, 6)],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("similarity", "alpha", "sharpness")

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        similarity: str = "cosine",
        sharpness: float = 1.0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha = alpha
        self.similarity = similarity
        self.sharpness = sharpness
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> _Factors:
        n_classes = len(signatures)
        weight = 1.0 / np.bincount(y, minlength=n_classes)
        moments = class_moments(X, y, n_classes, center=True, sample_weight=weight[y])
        values, vectors, unit = eigenbasis(moments.gram / n_classes)
        # Sums of samples that weigh 1/N_c are the means of their classes, here less m̄.
        return _Factors(values, vectors, unit, moments.class_sums @ vectors, moments.mean)

    def _solve(self, factors: _Factors, signatures: Floats) -> None:
        xp = compat.array_namespace(factors.vectors)
        shrunk = factors.rotated / (factors.values + self.alpha * factors.unit)[None, :]
        self.coef_ = shrunk @ xp.matrix_transpose(factors.vectors)
        self.mean_ = factors.mean
        self.signatures_ = signatures

    def embedding_key(self) -> bool:
        """The embedding is the same for all settings."""
        return True

    def embed(self, X: Array) -> Array:
        """Take the mean of the class means from each row.

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
        """Sum the seen classes' classifiers by similarity.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_features)
            One classifier a row.
        """
        if self.similarity == "rbf":
            weights = normalized_similarity(signatures, self.signatures_, gamma=self.sharpness)
        else:
            weights = _cosine_weights(signatures, self.signatures_, self.sharpness)
        return move_like(weights, self.coef_) @ self.coef_


def _cosine_weights(signatures: Floats, seen: Floats, power: float) -> Floats:
    """Cosines around the mean of the seen signatures to a power; each row sums to one.

    A class that has no seen class on its side is like all of them alike.
    """
    center = seen.mean(axis=0)
    cosines = unit_rows(signatures - center) @ unit_rows(seen - center).T
    largest = cosines.max(axis=1, keepdims=True)
    # The largest is taken out first, so that a row does not vanish however large the power is.
    ratio = np.clip(cosines / np.where(largest > 0, largest, 1.0), 0.0, None) ** power
    weights = np.where(largest > 0, ratio, 1.0)
    return weights / weights.sum(axis=1, keepdims=True)
