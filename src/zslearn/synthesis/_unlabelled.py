r"""Images without labels: what they add to class means.

A few rounds of expectation and maximisation in the whitened space, from what is known of each
class without them. An image is of class c with the probability

.. math:: r_c(z) = e(z) \, \frac{\pi_c \, p_c(z)^{1/T}}{\sum_{c'} \pi_{c'} \, p_{c'}(z)^{1/T}},
          \qquad e(z) = \frac{(1 - b) \, q(z)}{(1 - b) \, q(z) + b \, \mathcal N(z; 0, 1 + w)},

with :math:`p_c` the density that classes are scored by, T the temperature, and e the probability
that any class explains the image: :math:`q(z) = \sum_c \pi_c \mathcal N(z; m_c, 1 + v_c)` against a
background as wide as all classes together (w is the variance of the means of the seen classes). The
image counts for :math:`t \, r_c` images of the class, with t the weight in it:

.. math:: m_c = \frac{m_{0c} / v_{0c} + t \sum_i r_c(z_i) z_i}{1 / v_{0c} + t \sum_i r_c(z_i)}.

Proportions :math:`\pi` and b are estimated with a prior. More rounds lose what signatures say: on
left-out classes three are as good as five and better than twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import array_api_compat as compat
import numpy as np

from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn.synthesis._gaussian_process import ClassGaussians, posterior

_ROUNDS = 3
# The share of images that no class explains before any is looked at, and the share of all images
# that this guess counts for; proportions of classes count for as many images as there are.
_BACKGROUND = 0.1
_BACKGROUND_WEIGHT = 0.1
# Powers of e stay within the range of float32.
_LARGEST_POWER = 80.0


@dataclass(frozen=True)
class UnlabelledSums:
    """What is needed of blocks of images; two objects add up."""

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


#: Coefficients of (z²,) z and 1 in the log density of each class.
Densities = Callable[[ClassGaussians], tuple[Floats, ...]]


def unlabelled_sums(
    blocks: Callable[[], Iterable[Array]],
    prior: ClassGaussians,
    log_prior: Floats,
    width: Floats,
    weight: float,
    scored_by: Densities,
    inside: Densities,
) -> UnlabelledSums | None:
    """Responsibilities of the classes for all images, summed; None where there is no image.

    `blocks` reads the images in the whitened space, anew in every round.
    """
    classes, first = prior, np.exp(log_prior - np.logaddexp.reduce(log_prior))
    shares, background = first, _BACKGROUND
    outside = inside(ClassGaussians(np.zeros_like(width)[None, :], width[None, :]))
    found: UnlabelledSums | None = None
    for _ in range(_ROUNDS):
        logs = np.log(shares), np.log(background) - np.log1p(-background)
        parts = scored_by(classes), inside(classes), outside
        found = None
        for z in blocks():
            part = _expected(z, *parts, *logs)
            found = part if found is None else found + part
        if found is None:
            return None
        classes = posterior(prior, weight * found.counts, found.means)
        shares = (found.counts + found.n * first) / (found.counts.sum() + found.n)
        guess = _BACKGROUND_WEIGHT * found.n
        background = (found.n - found.explained + guess * _BACKGROUND) / (found.n + guess)
    return found


def _expected(
    z: Array,
    scored_by: tuple[Floats, ...],
    inside: tuple[Floats, ...],
    outside: tuple[Floats, ...],
    log_shares: Floats,
    log_background: float,
) -> UnlabelledSums:
    """Sums of the responsibilities for a block of images."""
    xp = compat.array_namespace(z)
    shares = move_like(log_shares, z)[None, :]
    r = softmax(_values(z, scored_by) + shares, 1.0)
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
    """Log densities of images from coefficients of z², if there are any, z and 1."""
    *square, linear, constant = (move_like(part, z) for part in parts)
    out = z @ linear.T + constant.T
    for factor in square:
        out = out + (z * z) @ factor.T
    return out
