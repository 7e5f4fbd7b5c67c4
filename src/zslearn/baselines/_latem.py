r"""LatEm: latent embeddings for zero-shot classification.

The score is piecewise linear: the best of K bilinear maps, chosen anew for each pair of image and
class, :math:`F(x, a) = \max_k x^\top W_k a`. For each image one other class c is drawn at random,

.. math:: \min_W \sum_n \max\{0, 1 + F(x_n, a_c) - F(x_n, a_{y_n})\},

and the maps that won, for y and for c, take a step. With K = 1 the score is bilinear.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn.baselines._trajectory import RankingClassifier
from zslearn.scoring import ScoreFunction
from zslearn.solvers._ranking import Floats
from zslearn.solvers._ranking_descent import LatentDescent
from zslearn.utils import Array


class LatEm(RankingClassifier):
    """The best of several bilinear maps, learned by ranking against random negatives.

    Parameters
    ----------
    n_maps : int, default=2
        Number of maps, K.
    learning_rate : float, default=0.4
        Length of the steps. At 1 a sample moves the scores of its class and of its negative by
        about the margin: units of 1 / (mean ‖x‖² · mean ‖a‖²).
    max_iter : int, default=64
        Number of epochs.
    init_scale : float, default=0.1
        Standard deviation of the scores under the first maps, which are random, in units of the
        margin.
    batch_size : int, default=64
        Samples that share a step. An epoch achieves about the same for any size.
    power_t : float, default=0.0
        Epoch t takes steps of ``learning_rate / t**power_t``; 0 keeps the step constant, as in the
        original.
    scaling : {"center", "zscore"} or None, default="zscore"
        What is done to the prepared features: the mean is taken off; that, and each feature is
        brought to unit variance and all are divided by the largest absolute value, as in the
        original; nothing.
    early_stopping : bool, default=False
        Whether the number of epochs is chosen, up to `max_iter`, by the accuracy on seen classes
        that are held out; the method is then trained on all seen classes for that long. It needs
        five seen classes, and signatures that say something of the classes held out.
    validation_fraction : float, default=0.2
        Share of the seen classes held out by `early_stopping`, two at least.
    n_iter_no_change : int, default=10
        Epochs with a lower accuracy than the best after which `early_stopping` looks no
        further. Of equally good numbers of epochs the last is taken.
    random_state : int, RandomState instance or None, default=0
        Makes the first maps, shuffles the samples, draws the negatives, and chooses the classes
        held out.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    coef_ : array of shape (n_maps, n_features, n_attributes)
        The bilinear maps.
    mean_ : ndarray of shape (n_features,)
        What is taken from the prepared features.
    feature_weights_ : ndarray of shape (n_features,)
        What the centred features are multiplied by; 0 for a constant one under "zscore".
    validation_scores_ : list of float
        Accuracy on the classes held out after each epoch, with `early_stopping`; else empty.
    n_iter_ : int
        Number of epochs run on all seen classes.
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
    SJE : One map, and the worst class in place of a random one.

    Notes
    -----
    The original takes a step after each sample and may prune maps that win too rarely; here steps
    are taken by batches, and the number of maps is searched. There is no other penalty than the end
    of training.

    The margin is 1: another one would only scale the maps. Unlike methods of one map, this one
    depends on the origin of the signatures: centre those that have a large offset in common.

    References
    ----------
    Y. Xian, Z. Akata, G. Sharma, Q. Nguyen, M. Hein and B. Schiele, "Latent embeddings for
    zero-shot classification", CVPR 2016.

    Examples
    --------
    >>> from zslearn.baselines import LatEm
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = LatEm().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "max_dot"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingClassifier._parameter_constraints,
        "n_maps": [Interval(Integral, 1, None, closed="left")],
        "init_scale": [Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "early_stopping": [False],
            "scaling": ["zscore"],
            "n_maps": [2, 4, 6, 8, 10],
            "learning_rate": [4.0**k for k in range(-4, 3)],
            "max_iter": [8, 16, 32, 64, 128],
        },
        "fast": {
            "early_stopping": [False],
            "scaling": ["zscore"],
            "n_maps": [2, 4],
            "learning_rate": [0.4, 1.6, 6.4],
            "max_iter": [16, 32, 64],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("scaling", "n_maps", "learning_rate", "max_iter")

    def __init__(
        self,
        n_maps: int = 2,
        learning_rate: float = 0.4,
        max_iter: int = 64,
        *,
        init_scale: float = 0.1,
        batch_size: int = 64,
        power_t: float = 0.0,
        scaling: str | None = "zscore",
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_maps = n_maps
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.init_scale = init_scale
        self.batch_size = batch_size
        self.power_t = power_t
        self.scaling = scaling
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _descent(
        self, X: Floats, y: NDArray[np.intp], signatures: NDArray[np.float64]
    ) -> LatentDescent:
        options = self._options()
        size = float(np.einsum("nd,nd->", X, X, dtype=np.float64)) / len(X) or 1.0
        length = float(np.sum(signatures**2)) / len(signatures) or 1.0
        shape = (self.n_maps, X.shape[1], signatures.shape[1])
        start = options["rng"].standard_normal(shape) * (self.init_scale / np.sqrt(size * length))
        step = self.learning_rate / (size * length)
        return LatentDescent(X, y, signatures, start, step=step, **options)

    @staticmethod
    def _of_maps(coef: Array, signatures: Array) -> Array:
        xp = compat.array_namespace(coef)
        return xp.permute_dims(signatures @ xp.matrix_transpose(coef), (1, 0, 2))
