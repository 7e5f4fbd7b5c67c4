r"""Temperature and prior odds of unseen classes of Gaussian EXEM, estimated on training samples.

- Real samples have heavier tails than a Gaussian and classes differ in covariance, so that the log
  densities are overconfident. The temperature T maximises the likelihood of the labels of the
  training samples, each scored without its contribution to its class mean, in closed form.
- The mean of a class without samples is less certain. Without prior odds
  :math:`\pi_u / \pi_s` in its favour, its samples would be assigned to seen classes. In turn, each
  fifth of the seen classes takes the means that the other classes predict, and the training samples
  are classified among all classes. The odds maximise the harmonic mean of the accuracies of the two
  groups; on a log scale they are then moved halfway to `DEFAULT_ODDS`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, take_rows, to_numpy
from zslearn.base._training import Training
from zslearn.synthesis._class_posterior import natural_parameters
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._whitened_space import WhitenedSpace

#: The odds if they cannot be estimated: the ratio of seen to unseen classes in five folds.
DEFAULT_ODDS = 4.0
#: Groups of seen classes, one of which at a time replaces the unseen classes.
N_GROUPS = 5
#: With fewer seen classes the odds are not estimated.
FEWEST_CLASSES = 2 * N_GROUPS
# Candidate log odds; those that reach this share of the best harmonic mean are averaged.
_CANDIDATE_LOG_ODDS = np.linspace(-3.0, 12.0, 151)
_NEARLY_BEST = 0.995
# Bounds of log odds at any temperature.
_LOG_ODDS = (-700.0, 700.0)
# Bounds of the inverse temperature, times the scale of the scores.
_RANGE = (1e-3, 1e3)
_PRECISION = 1e-5


class TrainingSamples:
    """Up to a thousand training samples of the classes with many samples, which `y` counts."""

    def __init__(self, training: Training, few_shot: NDArray[np.bool_]) -> None:
        rows, y, weights = training.subsample()
        used = ~few_shot[y]
        self.y, self.weights = (np.cumsum(~few_shot) - 1)[y[used]], weights[used]
        self.n = len(self.y)
        # Each sample represents an equal share of all samples of its class.
        sizes = training.sizes[~few_shot]
        sampled = np.bincount(self.y, self.weights, len(sizes))
        self.shares = self.weights * (sizes / np.where(sampled > 0, sampled, 1.0))[self.y]
        X = to_numpy(take_rows(rows, np.flatnonzero(used))).astype(np.float64) if self.n else None

        @lru_cache(1)
        def whitened(space: WhitenedSpace) -> Floats:
            return space(X)

        self.whitened = whitened


def temperature_and_odds(
    samples: TrainingSamples,
    space: WhitenedSpace,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    axis_weights: Floats,
    seen_weight: float,
) -> tuple[float, float]:
    """Estimate both; `prior` contains the leave-one-out predictions of the seen classes."""
    z, y = samples.whitened(space), samples.y
    counts = seen_weight * sizes
    removed = seen_weight * np.minimum(samples.weights, 1.0)
    seen = prior.given(counts, means)
    seen_scores = held_out_scores(z, y, removed, prior, counts, means, seen, axis_weights)
    temperature = likeliest_temperature(seen_scores, y, samples.shares)
    unseen_scores = _scores(z, prior, axis_weights)
    odds = balancing_odds(
        seen_scores / temperature, unseen_scores / temperature, y, samples.shares, means[:, 0]
    )
    return temperature, odds


def odds_at(odds: float, estimated_at: float, temperature: float) -> float:
    """Convert odds to another temperature than the one at which they were estimated."""
    return float(np.exp(np.clip(np.log(odds) * estimated_at / temperature, *_LOG_ODDS)))


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
    r"""Scores of training samples, where the sample is removed from the mean of its own class.

    With the prior :math:`m, v` of a class mean, removing a sample z of weight w leaves

    .. math:: m' = \frac{m / v + n y - w z}{1 / v + n - w}.
    """
    scores = _scores(z, seen, axis_weights)
    removed = weights[:, None]
    remaining = np.maximum(sizes[y][:, None] - removed, 0.0)
    sums = sizes[y][:, None] * means[y] - removed * z
    variances = prior.variances[y]
    own_means = (prior.means[y] + variances * sums * (remaining > 0)) / (1 + remaining * variances)
    scores[np.arange(len(y)), y] = (axis_weights * own_means * (z - 0.5 * own_means)).sum(axis=1)
    return scores


def balancing_odds(
    seen_scores: Floats,
    unseen_scores: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    positions: Floats,
) -> float:
    """Estimate the odds from the scores of each class as a seen and as an unseen one."""
    n_seen = seen_scores.shape[1]
    if n_seen < FEWEST_CLASSES:
        return DEFAULT_ODDS
    group = np.empty(n_seen, dtype=np.intp)
    group[np.argsort(positions, kind="stable")] = np.arange(n_seen) % N_GROUPS
    members = [group == k for k in range(N_GROUPS)]
    best_seen = np.stack([seen_scores[:, own].max(axis=1) for own in members], axis=1)
    best_unseen = np.stack([unseen_scores[:, own].max(axis=1) for own in members], axis=1)
    rows = np.arange(len(y))
    own_seen, own_unseen = seen_scores[rows, y], unseen_scores[rows, y]
    # Every class counts the same.
    shares = weights / np.bincount(y, weights, n_seen)[y]
    harmonic = np.zeros(len(_CANDIDATE_LOG_ODDS))
    for k in range(N_GROUPS):
        others = np.delete(best_seen, k, axis=1).max(axis=1)
        # With larger log odds the sample is assigned to an unseen class.
        threshold = others - best_unseen[:, k]
        unseen = group[y] == k
        seen_hits = shares * (~unseen & (own_seen >= others))
        unseen_hits = shares * (unseen & (own_unseen >= best_unseen[:, k]))
        above = threshold[:, None] >= _CANDIDATE_LOG_ODDS
        seen_accuracy = seen_hits @ above / max(shares[~unseen].sum(), 1e-300)
        unseen_accuracy = unseen_hits @ ~above / max(shares[unseen].sum(), 1e-300)
        total = seen_accuracy + unseen_accuracy
        harmonic += 2 * seen_accuracy * unseen_accuracy / np.where(total > 0, total, 1.0)
    if harmonic.max() <= 0:
        return DEFAULT_ODDS
    best = _CANDIDATE_LOG_ODDS[harmonic >= _NEARLY_BEST * harmonic.max()].mean()
    return float(np.exp((best + np.log(DEFAULT_ODDS)) / 2))


def likeliest_temperature(scores: Floats, y: NDArray[np.intp], weights: Floats) -> float:
    r"""The temperature that maximises the likelihood of the labels; 1 if all scores are equal.

    It is the root of the derivative of :math:`\sum_i w_i (\beta \sum_c q_{ic} f_{ic} - \log \sum_c
    \exp \beta f_{ic})` with respect to β = 1/T. q is 1 − ε at the true class, plus ε spread over
    all classes, with ε = 1 / (n + 2), so that T stays above 0 if every sample is correct.
    """
    shares = weights / weights.sum()
    scores = scores - scores.max(axis=1, keepdims=True)
    scale = -float(shares @ scores.mean(axis=1))
    if not np.isfinite(scale) or scale <= 0:
        return 1.0
    scores /= scale
    epsilon = 1 / (float(weights.sum()) + 2)
    target = (1 - epsilon) * float(shares @ scores[np.arange(len(y)), y]) - epsilon
    # Newton steps in log β within a bracket, since the derivative is monotonic.
    low, high = np.log(_RANGE)
    log_beta = (low + high) / 2
    while high - low > _PRECISION:
        beta = np.exp(log_beta)
        powers = np.exp(beta * scores)
        powers /= powers.sum(axis=1, keepdims=True)
        terms = powers * scores
        expected = terms.sum(axis=1)
        variance = np.einsum("ij,ij->i", terms, scores) - expected**2
        value, slope = float(shares @ expected) - target, float(beta * (shares @ variance))
        low, high = (log_beta, high) if value < 0 else (low, log_beta)
        step = value / slope if slope > 0 else np.inf
        if abs(step) < _PRECISION:
            log_beta -= step
            break
        log_beta = log_beta - step if low < log_beta - step < high else (low + high) / 2
    return scale / float(np.exp(log_beta))
