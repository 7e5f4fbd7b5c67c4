r"""Temperature and prior odds of unseen classes of Gaussian EXEM, estimated on training samples.

- Real samples have heavier tails than a Gaussian and classes differ in covariance, so that the log
  densities are overconfident. The temperature T maximises the likelihood of the labels of the
  training samples, scored once among the seen classes, each as if it had not been in the training
  data, and once among the means that the other classes predict.
- The mean of a class without samples is less certain. Without prior odds
  :math:`\pi_u / \pi_s` in its favour, its samples would be assigned to seen classes. In turn, each
  fifth of the seen classes takes the means that the other classes predict, and the training samples
  are classified among all classes. The odds maximise the harmonic mean of the accuracies of the two
  groups.

A training sample is closer to its class than a new one, since it is part of the mean of its class
and of the covariance :math:`\Sigma_\rho` that whitens it. With r its deviation from the mean of
its class and :math:`q = r^\top \Sigma_\rho^{-1} r`, removing it from the covariance of N samples
divides its products with class means by 1 − h, with the leverage :math:`h = (1 - \rho) q / N` (the
formula of Sherman and Morrison). Removing it from its class mean, in which it has the weight w,
changes its product with that mean by −w q / (1 − h). Part of q lies outside the space; it is
replaced by its mean over the samples.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats, row_blocks, to_numpy, unit_rows
from zslearn.base._training import Training, chosen_samples, content_keys
from zslearn.synthesis._class_posterior import natural_parameters
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._whitened_space import SpaceOfClasses, WhitenedSpace

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
_PRECISION = 1e-3


# Scores of samples against all seen classes are held in memory, so that more than 1,600 classes
# take fewer samples.
_MAX_SCORES, _FEWEST_SAMPLES = 1 << 24, 1000
# Bytes of rows whose intermediate results stay in the cache.
_CACHED_BYTES = 1 << 18


class TrainingSamples:
    """Up to 10,000 training samples of the classes with many samples, which `y` counts."""

    def __init__(self, training: Training, few_shot: NDArray[np.bool_]) -> None:
        rows, y, weights = training.subsample()
        size = max(_MAX_SCORES // len(few_shot), _FEWEST_SAMPLES)
        if len(y) > size:
            chosen = chosen_samples(content_keys(rows), y, size)
            rows, y, weights = rows.chosen(chosen), y[chosen], weights[chosen]
        used = ~few_shot[y]
        if not used.all():
            rows = rows.chosen(np.flatnonzero(used))
        self.y, self.weights = (np.cumsum(~few_shot) - 1)[y[used]], weights[used]
        self.n = len(self.y)
        # Each sample represents an equal share of all samples of its class.
        sizes = training.sizes[~few_shot]
        sampled = np.bincount(self.y, self.weights, len(sizes))
        self.shares = self.weights * (sizes / np.where(sampled > 0, sampled, 1.0))[self.y]

        @lru_cache(1)
        def whitened(space: WhitenedSpace) -> Floats:
            z = np.empty((self.n, len(space.center)))
            for part in row_blocks(self.n, 8 * rows.shape[1]):
                z[part] = to_numpy(space(rows[part, :]))
            return z

        self.whitened = whitened


def temperature_and_odds(
    samples: TrainingSamples,
    z: Floats,
    seen: SpaceOfClasses,
    prior: ClassGaussians,
    own: ClassGaussians,
    axis_weights: Floats,
) -> tuple[float, float]:
    """Estimate both from the samples z of :func:`held_out_samples`.

    `prior` contains the leave-one-out predictions of the seen classes, `own` their posterior.
    """
    y = samples.y
    seen_scores = _scores(z, own, axis_weights)
    blocks = row_blocks(len(z), z[:1].nbytes, _CACHED_BYTES)
    as_unseen = np.concatenate([seen.as_unseen(z[rows], y[rows]) for rows in blocks])
    unseen_scores = _scores(as_unseen, prior, axis_weights)
    temperature = likeliest_temperature(
        np.concatenate([seen_scores, unseen_scores]), np.tile(y, 2), np.tile(samples.shares, 2)
    )
    odds = balancing_odds(
        seen_scores / temperature, unseen_scores / temperature, y, samples.shares, own.means[:, 0]
    )
    return temperature, odds


def odds_at(odds: float, estimated_at: float, temperature: float) -> float:
    """Convert odds to another temperature than the one at which they were estimated."""
    return float(np.exp(np.clip(np.log(odds) * estimated_at / temperature, *_LOG_ODDS)))


def _scores(z: Floats, classes: ClassGaussians, axis_weights: Floats) -> Floats:
    linear, constant = natural_parameters(classes.means, axis_weights)
    return z @ linear.T + constant.T


def held_out_samples(
    samples: TrainingSamples,
    seen: SpaceOfClasses,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    seen_weight: float,
) -> Floats:
    r"""Whitened samples, moved to where they would be if they were not in the training data.

    With the prior :math:`m, v` of the mean y of n samples, removing a sample z of weight w leaves

    .. math:: m' = \frac{m / v + n y - w z}{1 / v + n - w}.

    The sample moves along the direction that only its class has, until its score for the mean with
    it is the score that it had for the mean without it; other scores hardly change.
    """
    every, out = samples.whitened(seen.space), np.empty((samples.n, means.shape[1]))
    own_means = prior.given(seen_weight * sizes, means).means
    has_own = (seen.own**2).sum(axis=1, keepdims=True) > 0
    directions = np.where(has_own, seen.own, unit_rows(means))
    for rows in row_blocks(samples.n, 8 * means.shape[1], _CACHED_BYTES):
        z, y = every[rows], samples.y[rows]
        deviations = z - means[y]
        outside = np.maximum(seen.deviation - (deviations**2).sum(axis=1), 0.0)
        outside /= 1 - seen.leverage
        z = means[y] + deviations / (1 - seen.leverage)
        counts, variances = seen_weight * sizes[y][:, None], prior.variances[y]
        removed = seen_weight * np.minimum(samples.weights[rows], 1.0)[:, None]
        remaining = np.maximum(counts - removed, 0.0)
        sums = (counts * means[y] - removed * z) * (remaining > 0)
        without = (prior.means[y] + variances * sums) / (1 + remaining * variances)
        shares = (removed * variances / (1 + remaining * variances)).mean(axis=1)
        with_it, along = own_means[y], directions[y]
        fallen = (with_it * (z - 0.5 * with_it) - without * (z - 0.5 * without)).sum(axis=1)
        products = (with_it * along).sum(axis=1)
        steps = (fallen + shares * outside) / np.where(products > 0, products, np.inf)
        out[rows] = z - steps[:, None] * along
    return out


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
        # The number of candidates at which the sample goes to a seen class.
        n_seen_at = np.searchsorted(_CANDIDATE_LOG_ODDS, threshold, side="right")
        seen_accuracy, unseen_accuracy = (
            np.cumsum(np.bincount(n_seen_at, hits, len(harmonic) + 1)) / max(total, 1e-300)
            for hits, total in (
                (seen_hits, shares[~unseen].sum()),
                (unseen_hits, shares[unseen].sum()),
            )
        )
        seen_accuracy = (seen_accuracy[-1] - seen_accuracy)[:-1]
        unseen_accuracy = unseen_accuracy[:-1]
        total = seen_accuracy + unseen_accuracy
        harmonic += 2 * seen_accuracy * unseen_accuracy / np.where(total > 0, total, 1.0)
    if harmonic.max() <= 0:
        return DEFAULT_ODDS
    return float(np.exp(_CANDIDATE_LOG_ODDS[harmonic >= _NEARLY_BEST * harmonic.max()].mean()))


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
    # Newton steps in log β within a bracket, since the derivative is monotonic. All but the last
    # are in half the precision, which takes a third of the time.
    single = scores.astype(np.float32)
    low, high = np.log(_RANGE)
    log_beta, step = (low + high) / 2, np.inf
    while high - low > _PRECISION and abs(step) > _PRECISION:
        value, slope = _derivatives(single, shares, log_beta)
        low, high = (log_beta, high) if value < target else (low, log_beta)
        step = (value - target) / slope if slope > 0 else np.inf
        inside = low <= log_beta - step <= high
        log_beta = log_beta - step if inside else (low + high) / 2
        step = step if inside else np.inf
    value, slope = _derivatives(scores, shares, log_beta)
    if abs(value - target) < _PRECISION * slope:
        log_beta -= (value - target) / slope
    return scale / float(np.exp(log_beta))


def _derivatives(scores: NDArray[Any], shares: Floats, log_beta: float) -> tuple[float, float]:
    """The expected score, and its derivative with respect to log β."""
    beta, (expected, squares) = scores.dtype.type(np.exp(log_beta)), np.empty((2, len(scores)))
    for rows in row_blocks(len(scores), scores[0].nbytes, _CACHED_BYTES):
        powers = np.exp(scores[rows] * beta)
        totals = powers.sum(axis=1)
        powers *= scores[rows]
        expected[rows] = powers.sum(axis=1) / totals
        squares[rows] = np.einsum("ij,ij->i", powers, scores[rows]) / totals
    return float(shares @ expected), float(np.exp(log_beta) * (shares @ (squares - expected**2)))
