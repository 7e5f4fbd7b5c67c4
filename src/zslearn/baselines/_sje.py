r"""SJE: structured joint embedding.

A bilinear score :math:`F(x, a) = x^\top W a` is learned as a structured support vector machine: the
class y of an image must score higher than the best of the others by a margin,

.. math:: \min_W \sum_n \max\{0, \max_{c \ne y_n} 1 + F(x_n, a_c) - F(x_n, a_{y_n})\},

by stochastic descent that is ended early.
"""

from __future__ import annotations

from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_ranking import BilinearDescent, OneMapRanking, Seed, slopes_of_worst


@inherit_docs
class SJE(OneMapRanking):
    """Bilinear ranking against the worst violator alone.

    Parameters
    ----------
    learning_rate : float, default=0.125
        Length of the steps. At 1 a sample moves its difference to the worst violator by about
        the margin: units of 1 / (mean ‖x‖² · mean ‖a − a′‖²).
    max_iter : int, default=16
        Number of epochs.

    See Also
    --------
    ALE : All violators, weighted by the rank of the true class.
    DeViSE : All violators count the same.

    Notes
    -----
    For several kinds of signatures the original learns a map each and adds their scores up with
    weights α_k, which it searches on validation classes. Here several views are put side by side
    under one map, and the weights of :class:`~zslearn.signatures.MultiSignatures` take the place of
    α_k; `with_weights` gives others to try. The original takes a step after each sample.
    On the end of training, the margin and signatures see :class:`ALE`.

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

    grids = OneMapRanking._grids(
        lowest_rate=4.0**-5, fast_rates=[0.015625, 0.0625, 0.25, 1.0], fast_epochs=[2, 4, 8, 16, 32]
    )

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
        random_state: Seed = 0,
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

    def _descent(self, training: Training) -> BilinearDescent:
        return self._begin_descent(training, slopes_of_worst, steepest=1)
