r"""CMT*: CMT behind a gate that tells novel images from images of seen classes.

Each seen class has an isometric Gaussian around its signature, :math:`N(a_y, \sigma_y^2 I)`, in the
space that CMT maps images into. An image is novel if its density falls below the threshold of every
seen class. The threshold of a class lets a given share of its own training images pass; since the
Gaussian is isometric, that is a radius :math:`r_y` whatever :math:`\sigma_y` is:

.. math:: x \text{ is novel} \iff \forall y: \|e(x) - a_y\| > r_y.

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
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from zslearn.base import Training
from zslearn.baselines._cmt import CMT
from zslearn.baselines._cmt_network import Network
from zslearn.scoring import FeaturePreparation, ScoreFunction, class_scores
from zslearn.signatures import squared_distances
from zslearn.utils import Array, Floats, move_like, row_blocks, to_numpy

# Signatures that differ by no more than this share of the longest are those of one class.
_SAME = 1e-6


class CMTStar(CMT):
    """CMT*, cross-modal transfer with novelty detection, for the generalized setting.

    Parameters
    ----------
    <parameters of CMT>
    seen_share : float, default=0.8
        Share of the training images of each seen class that its threshold lets pass. The smaller,
        the more images are novel.
    <parameters of every method>

    Attributes
    ----------
    radii_ : ndarray of shape (n_seen,)
        Within this distance of its signature a class takes an image for one of its own.
    gate_ : float
        G, what scores are divided by.
    <attributes of CMT>
    <attributes of every method>

    See Also
    --------
    CMT : Without the gate. Among unseen classes alone, or among seen ones, the two are the same.
    zslearn.calibration.CalibratedStacking : A factor in place of a gate.

    Notes
    -----
    The original classifies images that are not novel by a softmax regression on the features; here
    they go to the nearest seen signature. `synthesize` without labels takes a class for a seen one
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
    _beside_network: ClassVar[tuple[str, ...]] = ("seen_share",)

    def __init__(
        self,
        hidden_size: int = 100,
        alpha: float = 1e-4,
        *,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        seen_share: float = 0.8,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        super().__init__(
            hidden_size,
            alpha,
            max_iter=max_iter,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            tol=tol,
            random_state=random_state,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.seen_share = seen_share

    def _take(self, network: Network, training: Training) -> None:
        super()._take(network, training)
        self._seen_signatures: Floats = training.signatures
        distances = _own_distances(network, training)
        self.radii_ = np.asarray(
            [
                _radius(distances[training.y == code], self.seen_share)
                for code in range(training.n_seen)
            ]
        )
        longest = float(np.sqrt((self._seen_signatures**2).sum(axis=1).max()))
        self.gate_ = _gate(network, longest)

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
        check_is_fitted(self, "class_scorer_")
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
        """Whether a mapped image lies within the radius of some seen class."""
        xp = compat.array_namespace(mapped)
        distances = -class_scores(mapped, self._seen_signatures, score="euclidean")
        return xp.any(distances <= move_like(self.radii_, distances)[None, :], axis=1)

    def embed(self, X: Array) -> Array:
        """Map features beside the signatures, with the gate.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_attributes + 2)
            (2e, 1, g) / G.
        """
        mapped = super().embed(X)
        xp = compat.array_namespace(mapped)
        ones = xp.ones_like(mapped[:, :1])
        gate = xp.where(self._passes(mapped)[:, None], ones, -ones)
        return xp.concat([2 * mapped / self.gate_, ones / self.gate_, gate], axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Signatures, with their squared norm and whether they are those of seen classes.

        <parameters of synthesize>

        Returns
        -------
        ndarray of shape (n_classes, n_attributes + 2)
            (a, −‖a‖², 1 if seen else 0).
        """
        if labels is not None:
            return _beside(signatures, np.isin(labels, self.seen_classes_))
        nearest = squared_distances(signatures, self._seen_signatures).min(axis=1)
        longest = max(float((signatures**2).sum(axis=1).max()), np.finfo(float).tiny)
        return _beside(signatures, nearest <= _SAME**2 * longest)


def _beside(signatures: Floats, is_seen: NDArray[np.bool_]) -> Floats:
    """(a, −‖a‖², [a is seen])."""
    squares = (signatures**2).sum(axis=1)
    return np.column_stack([signatures, -squares, is_seen])


def _own_distances(network: Network, training: Training) -> Floats:
    """Distance of each mapped training image to the signature of its own class."""
    X, y, signatures = training.X, training.y, training.signatures
    distances = []
    for rows in row_blocks(len(y), row_bytes=8 * (X.shape[1] + 3 * signatures.shape[1])):
        apart = to_numpy(network.embed(X[rows, :])) - signatures[y[rows]]
        distances.append(np.sqrt((apart**2).sum(axis=1)))
    return np.concatenate(distances)


def _radius(distances: Floats, share: float) -> float:
    """A radius that at least this share of the distances lies within.

    It lies half way to the next distance, so that rounding moves no image over the border.
    """
    inside = float(np.quantile(distances, share, method="higher"))
    beyond = distances[distances > inside]
    outside = float(beyond.min()) if beyond.size else inside
    return max((inside + outside) / 2, inside * (1 + 1e-6))


def _gate(network: Network, longest: float) -> float:
    """More than any two scores 2e·a − ‖a‖² can differ by.

    Hidden units lie between −1 and 1, which bounds e: no image can pass the gate by its score.
    """
    _, second = network.coefs
    by_unit = np.sqrt((second**2).sum(axis=1)).sum()
    by_spectrum = np.sqrt(len(second)) * np.linalg.norm(second, 2)
    reach = np.sqrt((network.intercepts[1] ** 2).sum()) + min(by_unit, by_spectrum)
    return float(1 + 2 * (2 * reach * longest + longest**2))
