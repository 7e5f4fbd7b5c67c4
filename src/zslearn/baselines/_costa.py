r"""COSTA: classifiers of new classes as similarity-weighted sums of the seen classes' classifiers.

The seen classes have one-against-all least-squares classifiers in which each class has the same
total weight. With the class means :math:`m_c`, their mean :math:`\bar m`, and G, the mean over
classes of the mean outer product of deviations from :math:`\bar m`,

.. math:: w_c = \arg\min_w \; \frac{1}{S} \sum_{c'} \frac{1}{N_{c'}} \sum_{n \in c'}
          \bigl( w^\top (x_n - \bar m) + b - t_n \bigr)^2 + \lambda \|w\|^2
          \;\propto\; (G + \lambda I)^{-1} (m_c - \bar m),

where t is 1 for the class and −1 for the others. Any class, seen or unseen, then has the classifier

.. math:: w(a) = \sum_{c \in \text{seen}} s(a, a_c)\, w_c, \qquad \sum_c s(a, a_c) = 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, Floats, move_like, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import class_moments
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params
from zslearn.base._training import RowSpectrum, Training
from zslearn.signatures._kernels import normalized_similarity


@inherit_docs
@saves(
    coef_=Saved("n_seen", "n_features"),
    mean_=Saved("n_features"),
    signatures_=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class COSTA(AcceptsSampleWeight, ZeroShotClassifier):
    """Sum the classifiers of the seen classes, weighted by the similarity of signatures.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty of the seen classes' classifiers, in units of the mean non-zero eigenvalue of the
        features' scatter.
    similarity : {"cosine", "rbf"}, default="cosine"
        "cosine": the cosine around the mean of the seen signatures, clipped at 0 and raised to
        the power `sharpness`. "rbf": exp(−sharpness ‖a − b‖²), in units of the median distance of
        signatures. Similarities to the seen classes are divided by their sum.
    sharpness : float, default=1.0
        Sharpness of the similarity: the larger, the fewer seen classes contribute.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Classifiers of the seen classes.
    mean_ : array of shape (n_features,)
        Mean of the class means of the prepared features.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.

    See Also
    --------
    zslearn.synthesis.SynC : Learns the phantom classifiers that it combines.

    Notes
    -----
    Similarity is measured between signatures; the original counts co-occurrences of labels, learns
    their weights and also uses negative ones. The classifiers are least squares instead of support
    vector machines, so that one eigendecomposition of G serves every setting of a grid. The
    classifier of a seen class is a weighted sum as well.

    References
    ----------
    T. Mensink, E. Gavves and C. G. M. Snoek, "COSTA: co-occurrence statistics for zero-shot
    classification", CVPR 2014.
    """

    alpha: float = 1.0
    _: KW_ONLY
    similarity: str = "cosine"
    sharpness: float = 1.0

    synthesizes_independently = True
    embedding_attributes = ("mean_",)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
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

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the eigenvectors among all settings, and classifiers among those of one penalty."""
        spectrum = _balanced_spectrum(training)
        values, unit = spectrum.values / training.n_seen, spectrum.unit / training.n_seen
        # The sample weights of each class sum to one: class sums are class means, less m̄.
        means = spectrum.class_sums @ spectrum.vectors
        for same_alpha in group_by_params(variants, "alpha"):
            # (G + λI)⁻¹ (m_c − m̄), one row per class.
            shrunk = means / (values + same_alpha[0].alpha * unit)[None, :]
            classifiers = shrunk @ spectrum.vectors.T
            for variant in same_alpha:
                variant.coef_, variant.mean_ = classifiers, spectrum.mean
                variant.signatures_ = training.signatures
                yield variant

    def embed(self, X: Array) -> Array:
        """Subtract the mean of the class means."""
        return X - move_like(self.mean_, X)[None, :]

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Sum the seen classes' classifiers, weighted by similarity."""
        return move_like(self._weights(signatures), self.coef_) @ self.coef_

    def seen_shares(self, signatures: Floats) -> Floats | None:
        """Weights of the seen classes' classifiers."""
        return np.abs(self._weights(signatures))

    def _weights(self, signatures: Floats) -> Floats:
        if self.similarity == "rbf":
            return normalized_similarity(signatures, self.signatures_, gamma=self.sharpness)
        return _cosine_weights(signatures, self.signatures_, self.sharpness)


def _balanced_spectrum(training: Training) -> RowSpectrum:
    """Spectrum of the scatter in which the samples of each class have a total weight of one."""
    sizes = training.sizes
    if training.weights is None and np.ptp(sizes) == 0:
        # All samples have the same weight: this scatter is shared with other methods.
        spectrum, share = training.spectrum(center=True), 1.0 / float(sizes[0])
        return spectrum._replace(
            values=share * spectrum.values, class_sums=share * spectrum.class_sums
        )
    weight = (1.0 / sizes)[training.y]
    if training.weights is not None:
        weight = weight * training.weights
    return RowSpectrum.of(
        class_moments(training.rows, training.y, training.n_seen, center=True, sample_weight=weight)
    )


def _cosine_weights(signatures: Floats, seen: Floats, power: float) -> Floats:
    """Cosines around the mean of the seen signatures, raised to a power; rows sum to one."""
    center = seen.mean(axis=0)
    cosines = unit_rows(signatures - center) @ unit_rows(seen - center).T
    largest = cosines.max(axis=1, keepdims=True)
    # Dividing by the largest cosine first avoids underflow for large powers. A class without any
    # positive cosine weighs all seen classes equally.
    ratio = np.clip(cosines / np.where(largest > 0, largest, 1.0), 0.0, None) ** power
    weights = np.where(largest > 0, ratio, 1.0)
    return weights / weights.sum(axis=1, keepdims=True)
