r"""DeViSE: a deep visual-semantic embedding model, on given features.

A bilinear score :math:`F(x, a) = x^\top W a` is learned such that the class y of an image ranks
above all others by a margin. Every violator counts:

.. math:: \min_W \sum_n \sum_{c \ne y_n} \max\{0, 1 + F(x_n, a_c) - F(x_n, a_{y_n})\}.
"""

from __future__ import annotations

from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_ranking import BilinearDescent, OneMapRanking, Seed, slopes_of_all


@inherit_docs
class DeViSE(OneMapRanking):
    """Bilinear ranking in which every class that violates the margin counts.

    Parameters
    ----------
    learning_rate : float, default=1.0
        Length of the steps. At 1 a sample that all other classes violate moves its score
        differences by about the margin: units of 1 / ((S − 1) · mean ‖x‖² · mean ‖a − a′‖²).
    max_iter : int, default=32
        Number of epochs.

    See Also
    --------
    ALE : The violators weighted by the rank of the true class.
    SJE : The worst violator alone.

    Notes
    -----
    The original learns the image network as well, brings signatures to unit norm, draws violators
    at random until the first is found, has a margin of 0.1, and takes adaptive steps. Here the
    features are given and centred, all violators count, as in later comparisons, and steps are
    constant; the margin only scales W.
    On the end of training, the margin and signatures see :class:`ALE`.

    References
    ----------
    A. Frome, G. S. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato and T. Mikolov, "DeViSE: a
    deep visual-semantic embedding model", NIPS 2013.

    Examples
    --------
    >>> from zslearn.baselines import DeViSE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = DeViSE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids = OneMapRanking._grids(
        lowest_rate=4.0**-3, fast_rates=[0.5, 2.0, 8.0], fast_epochs=[4, 8, 16, 32, 64]
    )

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 32,
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
        return self._begin_descent(training, slopes_of_all, steepest=training.n_seen - 1)
