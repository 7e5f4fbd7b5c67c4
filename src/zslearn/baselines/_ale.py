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

from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_ranking import (
    BilinearDescent,
    OneMapRanking,
    Seed,
    rank_weights,
    slopes_of_all,
)


@inherit_docs
class ALE(OneMapRanking):
    """Bilinear ranking that weights violators by the rank of the true class.

    Parameters
    ----------
    learning_rate : float, default=0.5
        Length of the steps. At 1 a sample that all other classes violate moves its score
        differences by about the margin: units of 1 / (β · mean ‖x‖² · mean ‖a − a′‖²), with β of
        S − 1 violators.
    max_iter : int, default=16
        Number of epochs.

    See Also
    --------
    DeViSE : Every violator counts the same.
    SJE : The worst violator alone.

    Notes
    -----
    The original takes a step after each sample, draws violators at random until one is found and
    estimates the rank from the number of draws; here the scores of a batch are there, the rank is
    counted and all violators take part. The weight β/k jumps where k does, and is taken as given in
    the slope. W starts at random in the original and at 0 here; features are centred unless
    `scaling=None`.
    There is no other penalty than the end of training: search `max_iter` together with
    `learning_rate`. The margin is 1 and W starts at 0: another margin would only scale W, as the
    step is in units of it. Signatures count by their differences alone: nothing changes when a
    vector is added to all.

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

    grids = OneMapRanking._grids(
        lowest_rate=4.0**-4, fast_rates=[0.0625, 0.25, 1.0, 4.0], fast_epochs=[2, 4, 8, 16, 32]
    )

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
        weights = rank_weights(training.n_seen)
        # β of S − 1 violators
        steepest = weights[-1] * (training.n_seen - 1)
        return self._begin_descent(training, partial(slopes_of_all, weights=weights), steepest)
