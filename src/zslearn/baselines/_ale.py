r"""ALE: attribute label embedding.

A bilinear score :math:`F(x, a) = x^\top W a` is learned such that the class y of an image ranks
first. With :math:`h_c = \max\{0, 1 + F(x, a_c) - F(x, a_y)\}` and k the number of classes that
violate the margin, which is a bound on the rank of y,

.. math:: \min_W \sum_n \frac{\beta_k}{k} \sum_{c \ne y_n} h_c, \quad \beta_k = \sum_{i=1}^k 1/i,

so that a lower rank costs most near the top. With weights of 1 in place of :math:`\beta_k / k` it
is DeViSE's loss.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zslearn.baselines._trajectory import RankingClassifier, relative_step
from zslearn.solvers._ranking import Floats, hinge_of_all, rank_weights
from zslearn.solvers._ranking_descent import BilinearDescent


class ALE(RankingClassifier):
    """Bilinear ranking that weights violators by the rank of the true class.

    Parameters
    ----------
    learning_rate : float, default=0.5
        Length of the steps. At 1 a sample that all other classes violate moves its score
        differences by about the margin: units of 1 / (β · mean ‖x‖² · mean ‖a − a′‖²), with β of
        S − 1 violators.
    max_iter : int, default=16
        Number of epochs; the only thing that keeps the method from fitting the seen classes too
        well, and to be searched with `learning_rate`.
    batch_size : int, default=64
        Samples that share a step. An epoch achieves about the same for any size.
    power_t : float, default=0.0
        Epoch t takes steps of ``learning_rate / t**power_t``; 0 keeps the step constant, as in the
        original.
    scaling : {"center", "zscore"} or None, default="center"
        What is done to the prepared features: the mean is taken off; that, and each feature is
        brought to unit variance; nothing. An offset that all images share slows training down.
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
        Shuffles the samples, and chooses the classes held out.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    coef_ : array of shape (n_features, n_attributes)
        The bilinear map W.
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
    DeViSE : Every violator counts the same.
    SJE : The worst violator alone.

    Notes
    -----
    The original draws violators at random until one is found and estimates the rank from the number
    of draws; here the scores of a batch are there, and the rank is counted. The weight β/k jumps
    where k does, and is taken as given in the slope. There is no other penalty than the end of
    training.

    The margin is 1 and W starts at 0: another margin would only scale W, as the step is in units of
    it. Signatures count by their differences alone: nothing changes when a vector is added to all.

    References
    ----------
    Z. Akata, F. Perronnin, Z. Harchaoui and C. Schmid, "Label-embedding for image classification",
    IEEE TPAMI 2016.

    Examples
    --------
    >>> from zslearn.baselines import ALE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = ALE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "early_stopping": [False],
            "scaling": ["center", "zscore", None],
            "learning_rate": [4.0**k for k in range(-4, 4)],
            "max_iter": [1, 2, 4, 8, 16, 32, 64, 128],
        },
        "fast": {
            "early_stopping": [False],
            "scaling": ["center"],
            "learning_rate": [0.0625, 0.25, 1.0, 4.0],
            "max_iter": [2, 4, 8, 16, 32],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("scaling", "learning_rate", "max_iter")

    def __init__(
        self,
        learning_rate: float = 0.5,
        max_iter: int = 16,
        *,
        batch_size: int = 64,
        power_t: float = 0.0,
        scaling: str | None = "center",
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
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
    ) -> BilinearDescent:
        weights = rank_weights(len(signatures))
        # β of S − 1 violators
        steepest = weights[-1] * (len(signatures) - 1)
        step = self.learning_rate * relative_step(X, signatures, steepest)
        loss = partial(hinge_of_all, weights=weights)
        return BilinearDescent(X, y, signatures, loss, step=step, **self._options())
