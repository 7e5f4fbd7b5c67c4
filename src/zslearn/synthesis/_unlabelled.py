r"""What unlabelled images add to class means.

A few rounds of expectation and maximisation in the whitened space, from what is known of each
class without them. An image is of class c with the probability

.. math:: r_c(z) = e(z) \, \frac{\pi_c \, p_c(z)^{1/T}}{\sum_{c'} \pi_{c'} \, p_{c'}(z)^{1/T}},
          \qquad e(z) = \frac{(1 - b) \, q(z)}{(1 - b) \, q(z) + b \, \mathcal N(z; 0, 1 + w)},

with :math:`p_c` the density that classes are scored by, T the temperature, and e the probability
that any class explains the image: :math:`q(z) = \sum_c \pi_c \mathcal N(z; m_c, 1 + v_c)` against a
background as wide as all classes together (w is the variance of the means of the seen classes). The
image counts for :math:`t \, r_c` images of the class, with t its weight:

.. math:: m_c = \frac{m_{0c} / v_{0c} + t \sum_i r_c(z_i) z_i}{1 / v_{0c} + t \sum_i r_c(z_i)}.

Proportions :math:`\pi` and b are estimated with a prior. More rounds lose what signatures say: on
held-out classes three are as good as five and better than twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import array_api_compat as compat
import numpy as np

from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn.synthesis._gaussian_process import ClassGaussians

_ROUNDS = 3
# The share of images that no class explains before any is looked at, and the share of all images
# that this guess counts for; proportions of classes count for as many images as there are.
_BACKGROUND = 0.1
_BACKGROUND_WEIGHT = 0.1
# Powers of e stay within the range of float32.
_LARGEST_POWER = 80.0


@dataclass(frozen=True)
class UnlabelledSums:
    """What blocks of images add up to."""

    counts: Floats
    sums: Floats
    explained: float
    n: int

    @property
    def means(self) -> Floats:
        """Mean of the images of each class; zeros where it has none."""
        return self.sums / np.where(self.counts > 0, self.counts, 1.0)[:, None]

    def __add__(self, other: UnlabelledSums) -> UnlabelledSums:
        return UnlabelledSums(
            self.counts + other.counts,
            self.sums + other.sums,
            self.explained + other.explained,
            self.n + other.n,
        )


def unlabelled_sums(
    blocks: Callable[[], Iterable[Array]],
    prior: ClassGaussians,
    log_prior: Floats,
    width: Floats,
    weight: float,
    scores: Callable[[ClassGaussians], tuple[Floats, ...]],
) -> UnlabelledSums | None:
    """Responsibilities of the classes for all images, summed; None where there is no image.

    `blocks` reads the images in the whitened space again in every round; `scores` gives the
    coefficients of z and 1 in the score of each class.
    """
    classes, first = prior, np.exp(log_prior - np.logaddexp.reduce(log_prior))
    shares, background = first, _BACKGROUND
    outside = _log_densities(ClassGaussians(np.zeros_like(width)[None, :], width[None, :]))
    found: UnlabelledSums | None = None
    for _ in range(_ROUNDS):
        logs = np.log(shares), np.log(background) - np.log1p(-background)
        parts = scores(classes), _log_densities(classes), outside
        found = None
        for z in blocks():
            part = _expected(z, *parts, *logs)
            found = part if found is None else found + part
        if found is None:
            return None
        classes = prior.given(weight * found.counts, found.means)
        shares = (found.counts + found.n * first) / (found.counts.sum() + found.n)
        guess = _BACKGROUND_WEIGHT * found.n
        background = (found.n - found.explained + guess * _BACKGROUND) / (found.n + guess)
    return found


def _log_densities(classes: ClassGaussians) -> tuple[Floats, ...]:
    r"""Log densities with the uncertainty of the mean, as coefficients of z², z and 1.

    .. math:: \log \mathcal N(z; m, 1 + v) - \log \mathcal N(z; 0, 1) = \sum_j
              \tfrac12 \left(1 - \tfrac{1}{1 + v_j}\right) z_j^2 + \tfrac{m_j}{1 + v_j} z_j
              - \tfrac12 \left(\tfrac{m_j^2}{1 + v_j} + \log(1 + v_j)\right)
    """
    variances = 1 + classes.variances
    linear = classes.means / variances
    constant = -0.5 * (classes.means * linear + np.log(variances)).sum(axis=1, keepdims=True)
    return 0.5 * (1 - 1 / variances), linear, constant


def _expected(
    z: Array,
    scores: tuple[Floats, ...],
    inside: tuple[Floats, ...],
    outside: tuple[Floats, ...],
    log_shares: Floats,
    log_background: float,
) -> UnlabelledSums:
    """Sums of the responsibilities for a block of images."""
    xp = compat.array_namespace(z)
    shares = move_like(log_shares, z)[None, :]
    r = softmax(_values(z, scores) + shares, 1.0)
    within = _values(z, inside) + shares
    most = xp.max(within, axis=1, keepdims=True)
    within = most + xp.log(xp.sum(xp.exp(within - most), axis=1, keepdims=True))
    against = _values(z, outside) + log_background - within
    against = xp.clip(against, -_LARGEST_POWER, _LARGEST_POWER)
    explained = 1 / (1 + xp.exp(against))
    r = r * explained
    counts, sums = (to_numpy(part).astype(np.float64) for part in (xp.sum(r, axis=0), r.T @ z))
    return UnlabelledSums(counts, sums, float(xp.sum(explained)), z.shape[0])


def _values(z: Array, parts: tuple[Floats, ...]) -> Array:
    """Values from coefficients of z², if there are any, z and 1."""
    *square, linear, constant = (move_like(part, z) for part in parts)
    out = z @ linear.T + constant.T
    for factor in square:
        out = out + (z * z) @ factor.T
    return out
