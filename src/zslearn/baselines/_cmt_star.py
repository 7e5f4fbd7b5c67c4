r"""CMT*: CMT behind a gate that tells novel images from images of seen classes.

Each seen class has an isometric Gaussian around its signature, :math:`N(a_y, \sigma_y^2 I)`, in the
space that CMT maps images into. In the paper an image is novel if its density falls below the
threshold of every seen class. The threshold of a class lets a given share of its own training
images pass; since the Gaussian is isometric, that is a radius :math:`r_y` whatever
:math:`\sigma_y` is:

.. math:: x \text{ is novel} \iff \forall y: \|e(x) - a_y\| > r_y.

In the authors' program one cutoff serves all: with :math:`\pi_y` the share of the training images
that are of class y,

.. math:: x \text{ is novel} \iff \log \sum_y \pi_y N(e(x) | a_y, \sigma_y^2 I) < t.

An image that is not novel is compared with seen classes only, a novel one with unseen ones only.
Both are one inner product: up to a term of x alone

.. math:: -\|e - a\|^2 + g(x) \, [a \text{ is seen}]
          \simeq (2 e, 1, g(x)) \cdot (a, -\|a\|^2, [a \text{ is seen}]),

with :math:`g = \pm G`, where G exceeds any difference of two scores without it. Scores are divided
by G, so that a factor of calibrated stacking means the same in every fold: between −1 and 1 the
gate holds, beyond it is overruled.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._blocks import class_scores
from zslearn._scoring._classes import ScoreFunction
from zslearn._scoring._embedding import FeaturePreparation, for_many_passes
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._training import Training
from zslearn.baselines._cmt import CMT, Network
from zslearn.signatures._kernels import squared_distances

# Signatures that differ by no more than this share of the longest are those of one class.
_SAME = 1e-6
# The least variance of a class, as a share of the largest.
_LEAST_VARIANCE = 1e-6


@inherit_docs
@saves(
    radii_=Saved("n_seen", least=0, optional=True),
    variances_=Saved("n_seen", above=0, optional=True),
    shares_=Saved("n_seen", least=0, optional=True),
    gate_=Saved(),
    cutoff_=Saved(optional=True),
    _seen_signatures=Saved("n_seen", "n_attributes"),
)
class CMTStar(CMT):
    """CMT*, cross-modal transfer with novelty detection, for the generalized setting.

    Parameters
    ----------
    seen_share : float, default=0.8
        Share of the training images of each seen class that its threshold lets pass, or of all
        that the common one does. The smaller, the more images are novel.
    threshold : {"class", "common"}, default="class"
        Whether each seen class has a threshold of its own, as in the paper, or one cutoff holds for
        the density of all of them together, as in the authors' program.

    Attributes
    ----------
    radii_ : ndarray of shape (n_seen,)
        With `threshold="class"`: within this distance of its signature a class takes an image for
        one of its own.
    variances_ : ndarray of shape (n_seen,)
        With `threshold="common"`: the variance σ² of each seen class in every dimension.
    shares_ : ndarray of shape (n_seen,)
        With `threshold="common"`: the share π of each seen class in the training images.
    cutoff_ : float
        With `threshold="common"`: t, the log-density below which an image is novel.
    gate_ : float
        G, what scores are divided by.

    See Also
    --------
    CMT : Without the gate. Among unseen classes alone, or among seen ones, the two are the same.
    zslearn.calibration.CalibratedStacking : A factor in place of a gate.

    Notes
    -----
    The original classifies images that are not novel by a softmax regression on the features; here
    they go to the nearest seen signature. The program divides the squared distances within a class
    by the number of all training images, which makes σ² too small by the share of the class; here
    it is their mean. `synthesize` without labels takes a class for a seen one
    by its signature.

    Training images lie nearer to their signatures than others do, so that fewer than `seen_share`
    of new images of seen classes pass, as in the original. The gate moves the balance of seen and
    unseen classes; the area under the seen–unseen curve, which is over all balances, hardly
    depends on it.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning and A. Y. Ng, "Zero-shot learning through cross-modal
    transfer", NIPS 2013.

    Examples
    --------
    >>> from zslearn.baselines import CMTStar
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CMTStar().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> novel = model.is_novel(data.X_test_unseen)
    >>> set(model.predict(data.X_test_unseen)[novel]) <= set(data.unseen_classes)
    True
    """

    score_function: ScoreFunction = "dot"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CMT._parameter_constraints,
        "seen_share": [Interval(Real, 0, 1, closed="both")],
        "threshold": [StrOptions({"class", "common"})],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            **CMT.grids["paper"],
            "seen_share": [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-5, -2)],
            "max_iter": [24, 96],
            "seen_share": [0.2, 0.5, 0.8],
        },
    }
    _not_of_network: ClassVar[tuple[str, ...]] = ("seen_share", "threshold")

    def __init__(
        self,
        hidden_size: int = 100,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = False,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        seen_share: float = 0.8,
        threshold: str = "class",
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        super().__init__(
            hidden_size,
            alpha,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            tol=tol,
            random_state=random_state,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.seen_share = seen_share
        self.threshold = threshold

    def _sample_statistics(self, network: Network, training: Training) -> Floats:
        """Distance of each mapped training image to the signature of its own class."""
        X, y, signatures = for_many_passes(training.rows), training.y, training.signatures
        distances = []
        for rows in row_blocks(len(y), row_bytes=8 * (X.shape[1] + 3 * signatures.shape[1])):
            apart = to_numpy(network.embed(X[rows, :])) - signatures[y[rows]]
            distances.append(np.sqrt((apart**2).sum(axis=1)))
        return np.concatenate(distances)

    def _take(self, network: Network, training: Training, statistics: Floats) -> None:
        super()._take(network, training, statistics)
        self._seen_signatures: Floats = training.signatures
        if self.threshold == "class":
            own = (statistics[training.y == code] for code in range(training.n_seen))
            self.radii_ = np.asarray([_bound(distances, self.seen_share) for distances in own])
        else:
            self._learn_density(network, training, statistics)
        longest = float(np.sqrt((self._seen_signatures**2).sum(axis=1).max()))
        self.gate_ = _gate(network, longest)

    def _learn_density(self, network: Network, training: Training, own: Floats) -> None:
        """Learn the variances of the seen classes, and the cutoff of their common density."""
        X, n_attributes = for_many_passes(training.rows), training.signatures.shape[1]
        squares = np.bincount(training.y, weights=own**2, minlength=training.n_seen)
        variances = squares / (training.counts * n_attributes)
        # A class that is met exactly would take no image but its own.
        least = _LEAST_VARIANCE * variances.max() or 1.0
        self.variances_ = np.maximum(variances, least)
        self.shares_ = training.counts / len(training.y)
        width = 8 * (X.shape[1] + n_attributes + 4 * training.n_seen)
        densities = [
            to_numpy(self._log_density(network.embed(X[rows, :])))
            for rows in row_blocks(len(training.y), width)
        ]
        self.cutoff_ = -_bound(-np.concatenate(densities).astype(np.float64), self.seen_share)

    def _log_density(self, mapped: Array) -> Array:
        """The logarithm of Σ_y π_y N(e | a_y, σ_y² I), but for a constant."""
        xp = compat.array_namespace(mapped)
        distances = class_scores(mapped, self._seen_signatures, score="euclidean")
        variances = move_like(self.variances_, distances)[None, :]
        terms = -0.5 * (distances**2 / variances + mapped.shape[1] * xp.log(variances))
        terms = terms + move_like(np.log(self.shares_), distances)[None, :]
        largest = xp.max(terms, axis=1, keepdims=True)
        return xp.log(xp.sum(xp.exp(terms - largest), axis=1)) + largest[:, 0]

    def is_novel(self, X: Any) -> NDArray[np.bool_]:
        """Tell images that no seen class takes for one of its own.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
            True for novel images.
        """
        check_is_fitted(self)
        X = self._check_features(X)
        prepare = FeaturePreparation(self.feature_norm)
        # A row as it is prepared and mapped, and its distances to the seen classes.
        n_seen, n_attributes = self._seen_signatures.shape
        row_bytes = 8 * (X.shape[1] + n_attributes + 3 * n_seen)
        novel = [
            ~to_numpy(self._passes(CMT.embed(self, prepare(X[rows, :]))))
            for rows in row_blocks(X.shape[0], row_bytes)
        ]
        prepare.warn()
        return np.concatenate(novel)

    def _passes(self, mapped: Array) -> Array:
        """Whether a mapped image is near a seen class: within its radius, or above the cutoff."""
        xp = compat.array_namespace(mapped)
        if self.threshold == "common":
            return self._log_density(mapped) >= self.cutoff_
        distances = -class_scores(mapped, self._seen_signatures, score="euclidean")
        return xp.any(distances <= move_like(self.radii_, distances)[None, :], axis=1)

    def embed(self, X: Array) -> Array:
        """Map features beside the signatures, with the gate."""
        mapped = super().embed(X)
        xp = compat.array_namespace(mapped)
        ones = xp.ones_like(mapped[:, :1])
        gate = xp.where(self._passes(mapped)[:, None], ones, -ones)
        return xp.concat([2 * mapped / self.gate_, ones / self.gate_, gate], axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Signatures, with what the gate needs: (a, −‖a‖², 1 if seen else 0)."""
        squares = (signatures**2).sum(axis=1)
        if labels is not None:
            is_seen = np.isin(labels, self.seen_classes_)
        else:
            nearest = squared_distances(signatures, self._seen_signatures).min(axis=1)
            is_seen = nearest <= _SAME**2 * max(float(squares.max()), np.finfo(float).tiny)
        return np.column_stack([signatures, -squares, is_seen])


def _bound(values: Floats, share: float) -> float:
    """A bound that at least this share of the values is not above.

    It lies half way to the next value, so that rounding moves no image over the border.
    """
    inside = float(np.quantile(values, share, method="higher"))
    beyond = values[values > inside]
    outside = float(beyond.min()) if beyond.size else inside
    return max((inside + outside) / 2, inside + 1e-6 * abs(inside))


def _gate(network: Network, longest: float) -> float:
    """More than any two scores 2e·a − ‖a‖² can differ by.

    Hidden units lie between −1 and 1, which bounds e: no image can pass the gate by its score.
    """
    _, second = network.coefs
    by_unit = np.sqrt((second**2).sum(axis=1)).sum()
    by_spectrum = np.sqrt(len(second)) * np.linalg.norm(second, 2)
    reach = np.sqrt((network.intercepts[1] ** 2).sum()) + min(by_unit, by_spectrum)
    return float(1 + 2 * (2 * reach * longest + longest**2))
