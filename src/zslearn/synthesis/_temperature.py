r"""The temperature of Gaussian exemplars, and the odds of classes without samples.

Both are found on training samples.

- The temperature T. Real samples have heavier tails than a Gaussian, and classes differ in
  covariance, so that log densities claim more than they know. T is the one under which the labels
  of the training samples are most likely, each scored by the posterior of its own class mean
  without that sample, in closed form.
- The odds :math:`\pi_u / \pi_s` of a class without samples. Its mean is less certain: without a
  prior in its favour its samples go to seen classes. Each fifth of the seen classes in turn plays
  the unseen ones, with the means that the other classes predict, and the training samples are
  recognised among all. The odds are those with the largest harmonic mean of the accuracies of the
  two groups, drawn half the way to `USUAL_ODDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, take_rows, to_numpy
from zslearn.base._training import Training
from zslearn.synthesis._class_posterior import natural_parameters
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._whitened_space import WhitenedSpace

#: The odds where nothing tells them: the ratio of seen to unseen classes in five folds.
USUAL_ODDS = 4.0
#: Groups of seen classes, of which one at a time plays the unseen ones.
N_GROUPS = 5
#: Fewer seen classes than these tell nothing.
FEWEST_CLASSES = 2 * N_GROUPS
# Logarithms of odds to choose from, and the share of the best that counts as being as good.
_CANDIDATE_LOG_ODDS = np.linspace(-3.0, 12.0, 151)
_AS_GOOD = 0.995
# Logarithms of odds stay between these, whatever the temperature.
_LOG_ODDS = (-700.0, 700.0)
# The inverse temperature is looked for between these multiples of the inverse of the scores' scale.
_RANGE = (1e-3, 1e3)
_PRECISION = 1e-5


class TrainingSamples:
    """Some training samples of the classes with many samples; `y` counts these classes alone."""

    def __init__(self, training: Training, few: NDArray[np.bool_]) -> None:
        rows, y, weights = training.subsample()
        there = ~few[y]
        self.y, self.weights = (np.cumsum(~few) - 1)[y[there]], weights[there]
        self.n = len(self.y)
        # What each stands for: the samples of its class, however few of them are looked at.
        sizes = training.sizes[~few]
        looked_at = np.bincount(self.y, self.weights, len(sizes))
        self.stands_for = self.weights * (sizes / np.where(looked_at > 0, looked_at, 1.0))[self.y]
        chosen = take_rows(rows, np.flatnonzero(there))
        X = to_numpy(chosen).astype(np.float64) if self.n else None
        #: The samples in a space; those of the latest are kept.
        self.inside: Callable[[WhitenedSpace], Floats] = lru_cache(1)(lambda space: space(X))


def temperature_and_odds(
    samples: TrainingSamples,
    z: Floats,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    axis_weights: Floats,
    seen_weight: float,
) -> tuple[float, float]:
    """Both for samples z of the seen classes, of which `prior` holds what the others predict."""
    seen = prior.given(seen_weight * sizes, means)
    removed = seen_weight * np.minimum(samples.weights, 1.0)
    y, sizes = samples.y, seen_weight * sizes
    as_seen = held_out_scores(z, y, removed, prior, sizes, means, seen, axis_weights)
    temperature = likeliest_temperature(as_seen, y, samples.stands_for)
    as_unseen = _scores(z, prior, axis_weights)
    odds = unseen_odds_of(
        as_seen / temperature, as_unseen / temperature, y, samples.stands_for, means[:, 0]
    )
    return temperature, odds


def odds_at(odds: float, found_at: float, temperature: float) -> float:
    """The odds that keep the balance at another temperature than the one they were found at."""
    return float(np.exp(np.clip(np.log(odds) * found_at / temperature, *_LOG_ODDS)))


def _scores(z: Floats, classes: ClassGaussians, axis_weights: Floats) -> Floats:
    linear, constant = natural_parameters(classes.means, axis_weights)
    return z @ linear.T + constant.T


def held_out_scores(
    z: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    seen: ClassGaussians,
    axis_weights: Floats,
) -> Floats:
    r"""Scores of training samples, that of a sample's own class without the sample.

    With :math:`m, v` what the other classes tell of a class mean, a sample z of weight w leaves

    .. math:: m' = \frac{m / v + n y - w z}{1 / v + n - w}.
    """
    scores = _scores(z, seen, axis_weights)
    removed = weights[:, None]
    left = np.maximum(sizes[y][:, None] - removed, 0.0)
    sums = sizes[y][:, None] * means[y] - removed * z
    variances = prior.variances[y]
    own_means = (prior.means[y] + variances * sums * (left > 0)) / (1 + left * variances)
    scores[np.arange(len(y)), y] = (axis_weights * own_means * (z - 0.5 * own_means)).sum(axis=1)
    return scores


def unseen_odds_of(
    as_seen: Floats,
    as_unseen: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    positions: Floats,
) -> float:
    """The odds under which seen classes and those that play unseen ones are recognised equally."""
    n_seen = as_seen.shape[1]
    if n_seen < FEWEST_CLASSES:
        return USUAL_ODDS
    group = np.empty(n_seen, dtype=np.intp)
    group[np.argsort(positions, kind="stable")] = np.arange(n_seen) % N_GROUPS
    best_seen = np.stack([as_seen[:, group == k].max(axis=1) for k in range(N_GROUPS)], axis=1)
    best_unseen = np.stack([as_unseen[:, group == k].max(axis=1) for k in range(N_GROUPS)], axis=1)
    rows = np.arange(len(y))
    own_seen, own_unseen = as_seen[rows, y], as_unseen[rows, y]
    # Every class counts the same.
    shares = weights / np.bincount(y, weights, n_seen)[y]
    harmonic = np.zeros(len(_CANDIDATE_LOG_ODDS))
    for k in range(N_GROUPS):
        others = np.delete(best_seen, k, axis=1).max(axis=1)
        # A sample is taken for one of an unseen class where the log odds are above this.
        threshold = others - best_unseen[:, k]
        unseen = group[y] == k
        right_seen = shares * (~unseen & (own_seen >= others))
        right_unseen = shares * (unseen & (own_unseen >= best_unseen[:, k]))
        above = threshold[:, None] >= _CANDIDATE_LOG_ODDS
        seen_accuracy = right_seen @ above / max(shares[~unseen].sum(), 1e-300)
        unseen_accuracy = right_unseen @ ~above / max(shares[unseen].sum(), 1e-300)
        total = seen_accuracy + unseen_accuracy
        harmonic += 2 * seen_accuracy * unseen_accuracy / np.where(total > 0, total, 1.0)
    if harmonic.max() <= 0:
        return USUAL_ODDS
    found = _CANDIDATE_LOG_ODDS[harmonic >= _AS_GOOD * harmonic.max()].mean()
    return float(np.exp((found + np.log(USUAL_ODDS)) / 2))


def likeliest_temperature(scores: Floats, y: NDArray[np.intp], weights: Floats) -> float:
    r"""The temperature under which labels are most likely; 1 where scores tell nothing.

    It is where the derivative of :math:`\sum_i w_i (\beta \sum_c q_{ic} f_{ic} - \log \sum_c
    \exp \beta f_{ic})` by β = 1/T is zero. q is 1 − ε at the true class, plus ε spread over all,
    with ε = 1 / (n + 2), so that T stays above 0 where every sample is right.
    """
    shares = weights / weights.sum()
    scores = scores - scores.max(axis=1, keepdims=True)
    scale = -float(shares @ scores.mean(axis=1))
    if not np.isfinite(scale) or scale <= 0:
        return 1.0
    scores /= scale
    epsilon = 1 / (float(weights.sum()) + 2)
    wanted = (1 - epsilon) * float(shares @ scores[np.arange(len(y)), y]) - epsilon
    # Newton's steps by log β within a bracket: the slope rises with it.
    low, high = np.log(_RANGE)
    at = (low + high) / 2
    while high - low > _PRECISION:
        beta = np.exp(at)
        powers = np.exp(beta * scores)
        powers /= powers.sum(axis=1, keepdims=True)
        terms = powers * scores
        expected = terms.sum(axis=1)
        variance = np.einsum("ij,ij->i", terms, scores) - expected**2
        value, derivative = float(shares @ expected) - wanted, float(beta * (shares @ variance))
        low, high = (at, high) if value < 0 else (low, at)
        step = value / derivative if derivative > 0 else np.inf
        if abs(step) < _PRECISION:
            at = at - step
            break
        at = at - step if low < at - step < high else (low + high) / 2
    return scale / float(np.exp(at))
