r"""SJE: structured joint embedding.

A bilinear score :math:`F(x, a) = x^\top W a` is learned as a structured support vector machine: the
class y of an image must score higher than the best of the others by a margin,

.. math:: \min_W \sum_n \max\{0, \max_{c \ne y_n} 1 + F(x_n, a_c) - F(x_n, a_{y_n})\},

by stochastic descent that is ended early.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zslearn.baselines._trajectory import RankingClassifier, relative_step
from zslearn.solvers._ranking import Floats
from zslearn.solvers._ranking_descent import WorstViolatorDescent


class SJE(RankingClassifier):
    """Bilinear ranking against the worst violator alone.

    Parameters
    ----------
    learning_rate : float, default=0.125
        Length of the steps. At 1 a sample moves its difference to the worst violator by about
        the margin: units of 1 / (mean ‖x‖² · mean ‖a − a′‖²).
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
    ALE : All violators, weighted by the rank of the true class.
    DeViSE : All violators count the same.

    Notes
    -----
    The original also learns weights of several kinds of signatures; here several views are put side
    by side. There is no other penalty than the end of training.

    The margin is 1 and W starts at 0: another margin would only scale W, as the step is in units of
    it. Signatures count by their differences alone: nothing changes when a vector is added to all.

    References
    ----------
    Z. Akata, S. Reed, D. Walter, H. Lee and B. Schiele, "Evaluation of output embeddings for
    fine-grained image classification", CVPR 2015.

    Examples
    --------
    >>> from zslearn.baselines import SJE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = SJE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "early_stopping": [False],
            "scaling": ["center", "zscore", None],
            "learning_rate": [4.0**k for k in range(-5, 3)],
            "max_iter": [1, 2, 4, 8, 16, 32, 64, 128],
        },
        "fast": {
            "early_stopping": [False],
            "scaling": ["center"],
            "learning_rate": [0.015625, 0.0625, 0.25, 1.0],
            "max_iter": [2, 4, 8, 16, 32],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("scaling", "learning_rate", "max_iter")

    def __init__(
        self,
        learning_rate: float = 0.125,
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
    ) -> WorstViolatorDescent:
        step = self.learning_rate * relative_step(X, signatures, steepest=1)
        return WorstViolatorDescent(X, y, signatures, step=step, **self._options())
