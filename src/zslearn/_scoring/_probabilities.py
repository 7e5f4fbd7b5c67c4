r"""Convert scores to probabilities by a softmax with temperature, and estimate the temperature.

.. math:: p(c \mid x) = \exp(f_c(x) / T) \big/ \textstyle\sum_{c'} \exp(f_{c'}(x) / T)

The temperature T scales scores, whose units depend on the method, to log-likelihoods. It does not
change the ranking of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Array, Floats

# Search range of the inverse temperature, relative to the inverse scale of the scores: from almost
# uniform to almost certain probabilities.
_RANGE = (1e-3, 1e3)


def softmax(scores: Array, temperature: float) -> Array:
    """Probabilities of classes from their scores."""
    xp = compat.array_namespace(scores)
    powers = xp.exp((scores - xp.max(scores, axis=1, keepdims=True)) / temperature)
    return powers / xp.sum(powers, axis=1, keepdims=True)


def best_temperature(scores: Floats, true: NDArray[np.intp]) -> float:
    r"""The temperature that maximises the likelihood of the labels.

    With β = 1/T it minimises the convex mean over the samples of

    .. math:: \log \sum_c \exp(\beta f_c) - \beta \sum_c q_c f_c,

    where q is 1 − ε at the true class plus ε spread evenly over all classes. As in Platt scaling,
    ε = 1 / (n + 2), so that T stays above 0 even if every sample is classified correctly.
    """
    from scipy.optimize import brentq  # slow to import

    # Relative to the best class, so that no exponential overflows.
    scores = scores - scores.max(axis=1, keepdims=True)
    scale = -float(scores.mean())
    if not np.isfinite(scale) or scale <= 0:
        return float("nan")
    scores /= scale
    smoothing = 1 / (len(scores) + 2)
    true_score = scores[np.arange(len(scores)), true].mean()
    target = (1 - smoothing) * true_score + smoothing * scores.mean()

    def slope(log_beta: float) -> float:
        # The derivative with respect to β is E_p[f] − E_q[f].
        powers = np.exp(np.exp(log_beta) * scores)
        expected = (powers * scores).sum(axis=1) / powers.sum(axis=1)
        return float(expected.mean() - target)

    lowest, highest = np.log(_RANGE)
    if slope(lowest) >= 0:
        return scale / _RANGE[0]
    if slope(highest) <= 0:
        return scale / _RANGE[1]
    return scale / float(np.exp(brentq(slope, lowest, highest, xtol=1e-6)))


def mean_temperature(temperatures: Sequence[float] | Floats) -> float:
    """Geometric mean of the finite temperatures; 1 if there are none."""
    finite = [temperature for temperature in temperatures if np.isfinite(temperature)]
    return float(np.exp(np.mean(np.log(finite)))) if finite else 1.0
