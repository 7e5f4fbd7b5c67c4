r"""How far the densities of Gaussian exemplars are to be trusted, from the training samples.

Real samples have heavier tails than a Gaussian, and classes differ in covariance, so that the log
densities claim more than they know. Divided by a temperature T they are honest. It is the one under
which the labels of the training samples are most likely, each of them scored by a model of its own
class that has not seen it: the posterior of the class mean without that sample, in closed form.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from zslearn.base import Training
from zslearn.synthesis._gaussian_odds import USUAL_ODDS, unseen_odds_of
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._gaussian_space import WhitenedSpace, into_space
from zslearn.utils import Floats, to_numpy, warn_once

# The inverse temperature is looked for between these multiples of the inverse of the scores' scale.
_RANGE = (1e-3, 1e3)
# Logarithms of odds stay between these, whatever the temperature.
_LOG_ODDS = (-700.0, 700.0)


class TrainingSamples:
    """Training samples that the temperature is found from; those of one space are kept.

    Parameters
    ----------
    training : Training
        What a method is fitted on.
    """

    def __init__(self, training: Training) -> None:
        rows, self.y, self.weights = training.spread_samples()
        self.n = len(self.y)
        self._X = to_numpy(rows).astype(np.float64) if self.n else None
        self._latest: tuple[WhitenedSpace, Floats] | None = None

    def inside(self, space: WhitenedSpace) -> Floats:
        """The samples in a space."""
        if self._latest is None or self._latest[0] is not space:
            z = into_space(self._X, space.matrix, space.offset, space.norm, space.center)
            self._latest = space, z
        return self._latest[1]


def natural_parameters(
    classes: ClassGaussians, *, predictive: bool, axis_weights: Floats | float = 1.0
) -> tuple[Floats, ...]:
    r"""Log densities of samples as a product, over that of the standard normal distribution.

    .. math:: \log \mathcal N(z; m, 1 + v) - \log \mathcal N(z; 0, 1) = \sum_j
              \tfrac12 \left(1 - \tfrac{1}{1 + v_j}\right) z_j^2 + \tfrac{m_j}{1 + v_j} z_j
              - \tfrac12 \left(\tfrac{m_j^2}{1 + v_j} + \log(1 + v_j)\right)

    Parameters
    ----------
    classes : ClassGaussians
        What is known of the class means.
    predictive : bool
        Whether their variances count; without them the first term is zero and left out.
    axis_weights : ndarray of shape (n_dims,) or float
        Where variances do not count: the inverse of the variance of samples in each dimension.

    Returns
    -------
    tuple of ndarray
        Factors of z², unless all are zero, of z, and of 1; one row per class.
    """
    means = classes.means
    if not predictive:
        linear = means * axis_weights
        return linear, -0.5 * (means * linear).sum(axis=1, keepdims=True)
    variances = 1 + classes.variances
    linear = means / variances
    constant = -0.5 * (means * linear + np.log(variances)).sum(axis=1, keepdims=True)
    return 0.5 * (1 - 1 / variances), linear, constant


def log_densities(
    z: Floats, classes: ClassGaussians, *, predictive: bool, axis_weights: Floats | float = 1.0
) -> Floats:
    """Log densities of samples under each class, over those of the standard normal distribution.

    Parameters
    ----------
    z : ndarray of shape (n_samples, n_dims)
        Whitened samples.
    classes : ClassGaussians
        What is known of the class means.
    predictive : bool
        Whether their variances count.
    axis_weights : ndarray of shape (n_dims,) or float
        See :func:`natural_parameters`.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Log densities.
    """
    *square, linear, constant = natural_parameters(
        classes, predictive=predictive, axis_weights=axis_weights
    )
    out = z @ linear.T + constant.T
    for factor in square:
        out += (z * z) @ factor.T
    return out


def held_out_scores(
    z: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    seen: ClassGaussians,
    *,
    predictive: bool,
    axis_weights: Floats | float = 1.0,
) -> Floats:
    r"""Scores of training samples, that of a sample's own class without the sample.

    With :math:`m, v` what the other classes tell of a class mean, a sample z of weight w leaves

    .. math:: m' = \frac{m / v + n y - w z}{1 / v + n - w}, \qquad v' = \frac{1}{1 / v + n - w}.

    Parameters
    ----------
    z : ndarray of shape (n_samples, n_dims)
        Whitened samples.
    y : ndarray of shape (n_samples,)
        Positions of their classes.
    weights : ndarray of shape (n_samples,)
        How much of the weight of its class goes with each sample.
    prior : ClassGaussians
        Of the class means, each without the samples of the class.
    sizes, means : ndarray
        Weight and mean of the samples of each class.
    seen : ClassGaussians
        Of the class means, with all samples.
    predictive : bool
        Whether variances count.
    axis_weights : ndarray of shape (n_dims,) or float
        See :func:`natural_parameters`.

    Returns
    -------
    ndarray of shape (n_samples, n_seen)
        The scores.
    """
    scores = log_densities(z, seen, predictive=predictive, axis_weights=axis_weights)
    removed = weights[:, None]
    left = np.maximum(sizes[y][:, None] - removed, 0.0)
    sums = sizes[y][:, None] * means[y] - removed * z
    variances = prior.variances[y]
    denominator = 1 + left * variances
    own_means = (prior.means[y] + variances * sums * (left > 0)) / denominator
    if predictive:
        spread = 1 + variances / denominator
        own = 0.5 * (z**2 - (z - own_means) ** 2 / spread - np.log(spread)).sum(axis=1)
    else:
        own = (axis_weights * own_means * (z - 0.5 * own_means)).sum(axis=1)
    scores[np.arange(len(y)), y] = own
    return scores


class HeldOutSamples:
    """Training samples, each scored without itself: what tells the temperature and the odds.

    Parameters
    ----------
    samples : TrainingSamples
        The samples.
    space : WhitenedSpace
        Where they are scored.
    prior, seen : ClassGaussians
        Of the class means: each without the samples of the class, and with them.
    sizes : ndarray of shape (n_seen,)
        Weight of the samples of each class, in independent samples.
    trust : float
        How many of these a sample is worth.
    predictive : bool
        Whether variances count.
    axis_weights : ndarray of shape (n_dims,)
        See :func:`natural_parameters`.
    """

    def __init__(
        self,
        samples: TrainingSamples,
        space: WhitenedSpace,
        prior: ClassGaussians,
        seen: ClassGaussians,
        sizes: Floats,
        trust: float,
        *,
        predictive: bool,
        axis_weights: Floats,
    ) -> None:
        self._samples, self._space = samples, space
        self._prior, self._seen, self._sizes, self._trust = prior, seen, sizes, trust
        self._how: dict[str, Any] = {"predictive": predictive, "axis_weights": axis_weights}
        self._has_warned = False

    @cached_property
    def _scores(self) -> Floats:
        samples = self._samples
        return held_out_scores(
            samples.inside(self._space), samples.y, self._trust * np.minimum(samples.weights, 1.0),
            self._prior, self._sizes, self._space.means, self._seen, **self._how,
        )  # fmt: skip

    @cached_property
    def _likeliest(self) -> float:
        return likeliest_temperature(self._scores, self._samples.y, self._samples.weights)

    def temperature(self, wanted: str | float) -> float:
        """The temperature, as the parameter of the method wants it."""
        if not isinstance(wanted, str):
            return float(wanted)
        if self._samples.n:
            return self._likeliest
        warn_once(
            "Statistics do not tell the temperature of GaussianEXEM: it is 1. Give the one that "
            "fit finds on samples (temperature_) as temperature=, and unseen_odds_ as unseen_odds=."
        )
        self._has_warned = True
        return 1.0

    def odds(self, wanted: str | float, temperature: float) -> float | None:
        """The odds of classes without samples, as the parameter of the method wants them."""
        if wanted == "balanced":
            return None
        if not isinstance(wanted, str):
            return float(wanted)
        if not self._samples.n:
            if not self._has_warned:
                warn_once(
                    f"Statistics do not tell the odds of unseen classes: they are {USUAL_ODDS:g}. "
                    "Give those that fit finds on samples (unseen_odds_) as unseen_odds=."
                )
            return USUAL_ODDS
        unseen = log_densities(self._samples.inside(self._space), self._prior, **self._how)
        # Found at the temperature that the samples tell, whichever is used.
        odds = unseen_odds_of(
            self._scores / self._likeliest,
            unseen / self._likeliest,
            self._samples.y,
            self._samples.weights,
            self._space.means[:, 0],
        )
        return float(np.exp(np.clip(np.log(odds) * self._likeliest / temperature, *_LOG_ODDS)))


def likeliest_temperature(scores: Floats, y: NDArray[np.intp], weights: Floats) -> float:
    r"""The temperature under which labels are most likely; 1 where scores tell nothing.

    With β = 1/T, the derivative of :math:`\sum_i w_i (\beta \sum_c q_{ic} f_{ic} - \log \sum_c
    \exp \beta f_{ic})` is brought to zero. q is 1 − ε at the true class, plus ε spread over all,
    with ε = 1 / (n + 2), so that T stays above 0 where every sample is right.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Log densities.
    y : ndarray of shape (n_samples,)
        The column of each sample's class.
    weights : ndarray of shape (n_samples,)
        How much each sample counts.

    Returns
    -------
    float
        The temperature.
    """
    shares = weights / weights.sum()
    scores = scores - scores.max(axis=1, keepdims=True)
    scale = -float(shares @ scores.mean(axis=1))
    if not np.isfinite(scale) or scale <= 0:
        return 1.0
    scores /= scale
    epsilon = 1 / (float(weights.sum()) + 2)
    wanted = (1 - epsilon) * float(shares @ scores[np.arange(len(y)), y]) - epsilon

    def slope(log_beta: float) -> float:
        powers = np.exp(np.exp(log_beta) * scores)
        expected = (powers * scores).sum(axis=1) / powers.sum(axis=1)
        return float(shares @ expected) - wanted

    low, high = np.log(_RANGE)
    if slope(low) >= 0:
        return scale / _RANGE[0]
    if slope(high) <= 0:
        return scale / _RANGE[1]
    return scale / float(np.exp(brentq(slope, low, high, xtol=1e-5)))
