r"""Assign unlabelled images to classes by expectation maximisation.

Rounds start from the posterior of each class without the images. In the whitened space, an image
belongs to class c with the probability

.. math:: r_c(z) = e(z) \, \frac{\rho_c \pi_c \, p_c(z)^{1/\tau}}
          {\sum_{c'} \rho_{c'} \pi_{c'} \, p_{c'}(z)^{1/\tau}},

where :math:`p_c` is the density that scores the class, τ a temperature below that of predictions,
and :math:`\pi_c` the proportion of the class, with a Dirichlet prior worth ten images per class.

- e is the probability that some candidate explains the image. It is logistic in d, the log density
  under all candidates relative to a background as wide as all classes together (w is the variance
  of the means of the seen classes):

  .. math:: d(z) = \log \frac{\sum_c \pi_{0c} \mathcal N(z; m_{0c}, 1 + v_{0c})}
            {\mathcal N(z; 0, 1 + w)}, \qquad
            e(z) = \sigma\bigl(a + b \, d(z) + c \log C - \log \tfrac{f}{1 - f}\bigr).

  Held-out classes determine a, b and c (`_adaptation_trial`), and the images the share f that none
  of the C candidates explains.
- :math:`\rho_c` is the probability that images of class c are present at all, integrated over. It
  follows from the evidence of the images for a mixture with the class against one without it,
  :math:`\rho_c = \sigma\bigl(\max(0, n \log(1 - n_c / n) - \sum_i \log(1 - r_c(z_i)))\bigr)` with
  :math:`n_c = \sum_i r_c(z_i)` and :math:`n = \sum_c n_c`. If candidates explain all images, the
  difference is never negative, by Jensen's inequality. Otherwise it would be for a class to which
  almost all explained images belong.

An image counts as :math:`t \, r_c` samples of the class, with t its weight:

.. math:: m_c = \frac{m_{0c} / v_{0c} + t \sum_i r_c(z_i) z_i}{1 / v_{0c} + t \sum_i r_c(z_i)}.

The mean of a class without labelled samples also has a component orthogonal to the space
(`_class_posterior`), which is 0 in the first round. On held-out classes two rounds are as accurate
as three, and more accurate than five, which forget the signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.special import expit

from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.synthesis._gaussian_process import ClassGaussians

if TYPE_CHECKING:
    from zslearn.synthesis._class_posterior import ClassSamples

_ROUNDS = 2
# Images per class that the prior of the proportions is worth.
_PRIOR_IMAGES = 10.0
# The temperature of the responsibilities, as a share of that of predictions: means become more
# certain from round to round.
_SHARPNESS = 0.7
# Prior share of images that no candidate explains, worth one image, and its largest value.
_UNEXPLAINED, _MOST_UNEXPLAINED = 0.1, 0.95
_SHARE_STEPS = 50
# Responsibilities are at most 1 minus this, so that the evidence for a class is finite.
_ROUNDING = 1e-6


@saved_part
@saves(level=Saved(), slope=Saved(least=0), growth=Saved())
class Background(NamedTuple):
    """The log odds that one of C candidates explains an image, before the share f."""

    level: float  # a
    slope: float  # b
    growth: float  # c

    def explained(self, differences: Floats, n_classes: int) -> tuple[Floats, float]:
        """The probability that some candidate explains each image, and the share that none does."""
        odds = self.level + self.slope * differences + self.growth * np.log(n_classes)
        share = _UNEXPLAINED
        for _ in range(_SHARE_STEPS):
            explained = expit(odds + np.log((1 - share) / share))
            share = ((1 - explained).sum() + _UNEXPLAINED) / (len(odds) + 1)
            share = min(float(share), _MOST_UNEXPLAINED)
        return explained, share


class UnlabelledSums(NamedTuple):
    """Sums over images, weighted by the probability that they belong to each class."""

    counts: Floats
    sums: Floats
    evidence: Floats  # minus the sum of log(1 - r)

    @classmethod
    def empty(cls, n_classes: int, n_dims: int) -> UnlabelledSums:
        """Sums over no images."""
        return cls(np.zeros(n_classes), np.zeros((n_classes, n_dims)), np.zeros(n_classes))

    @property
    def means(self) -> Floats:
        """Mean of the images of each class; zeros for a class without images."""
        return self.sums / np.where(self.counts > 0, self.counts, 1.0)[:, None]

    @property
    def presence(self) -> Floats:
        """The probability that images of each class are present."""
        total = max(float(self.counts.sum()), _ROUNDING)
        shares = np.minimum(self.counts / total, 1 - _ROUNDING)
        return np.asarray(expit(np.maximum(self.evidence + total * np.log1p(-shares), 0.0)))


class Assignment(NamedTuple):
    """Unlabelled images assigned to classes."""

    sums: UnlabelledSums
    proportions: Floats  # of the classes among the explained images
    unexplained: float  # share of the images that no class explains
    n: int
    orthogonal: ClassSamples | None = None  # what the images reveal orthogonally to the space


class Mixture(NamedTuple):
    """The distribution of images before the set is known."""

    classes: ClassGaussians
    log_shares: Floats
    width: Floats  # variance of class means, of the background

    def differences(self, z: Array) -> Floats:
        """Log density of each image under all classes, less that under the background."""
        xp = compat.array_namespace(z)
        shares = move_like(self.log_shares, z)[None, :]
        inside = _evaluate(z, _log_densities(self.classes)) + shares
        largest = xp.max(inside, axis=1, keepdims=True)
        inside = largest + xp.log(xp.sum(xp.exp(inside - largest), axis=1, keepdims=True))
        wide = ClassGaussians(np.zeros_like(self.width)[None, :], self.width[None, :])
        outside = _evaluate(z, _log_densities(wide))
        return np.asarray(to_numpy(inside - outside)[:, 0], dtype=np.float64)


def assigned(
    blocks: Callable[[], Iterable[Array]],
    mixture: Mixture,
    weight: float,
    scores: Callable[[ClassGaussians, UnlabelledSums], tuple[Floats, ...]],
    background: Background,
) -> Assignment | None:
    """Assign images to classes; None if there are no images.

    Every round calls `blocks` to read the whitened images again, whose rows may continue after the
    dimensions of the mixture. `scores` returns the coefficients of a row and of 1 in the tempered
    log density of each class, given the sums of the previous round.
    """
    prior = classes = mixture.classes
    log_shares, (n_classes, n_dims) = mixture.log_shares, prior.means.shape
    prior_images = _PRIOR_IMAGES * n_classes * np.exp(log_shares)
    differences, width = [], n_dims
    for z in blocks():
        differences.append(mixture.differences(z[:, :n_dims]))
        width = z.shape[1]
    if not differences:
        return None
    explained, unexplained = background.explained(np.concatenate(differences), n_classes)
    total = UnlabelledSums.empty(n_classes, width)
    for _ in range(_ROUNDS):
        coefficients = tuple(part / _SHARPNESS for part in scores(classes, total))
        total, start = UnlabelledSums.empty(n_classes, width), 0
        for z in blocks():
            stop = start + z.shape[0]
            part = _expected(z, coefficients, log_shares, explained[start:stop])
            total, start = UnlabelledSums(*map(np.add, total, part)), stop
        classes = prior.given(weight * total.counts, total.means[:, :n_dims])
        shares = (total.counts + prior_images) * total.presence
        log_shares = np.log(shares) - np.log(shares.sum())
    proportions = (total.counts + np.exp(mixture.log_shares)) * total.presence
    return Assignment(total, proportions / proportions.sum(), unexplained, len(explained))


def _log_densities(classes: ClassGaussians) -> tuple[Floats, ...]:
    r"""Log densities that include the uncertainty of the mean, as coefficients of z², z and 1.

    .. math:: \log \mathcal N(z; m, 1 + v) - \log \mathcal N(z; 0, 1) = \sum_j
              \tfrac12 \left(1 - \tfrac{1}{1 + v_j}\right) z_j^2 + \tfrac{m_j}{1 + v_j} z_j
              - \tfrac12 \left(\tfrac{m_j^2}{1 + v_j} + \log(1 + v_j)\right)
    """
    variances = 1 + classes.variances
    linear = classes.means / variances
    constant = -0.5 * (classes.means * linear + np.log(variances)).sum(axis=1, keepdims=True)
    return 0.5 * (1 - 1 / variances), linear, constant


def _expected(
    z: Array, scores: tuple[Floats, ...], log_shares: Floats, explained: Floats
) -> UnlabelledSums:
    """Sums of the responsibilities for a block of images."""
    xp = compat.array_namespace(z)
    shares = move_like(log_shares, z)[None, :]
    r = softmax(_evaluate(z, scores) + shares, 1.0) * move_like(explained, z)[:, None]
    evidence = -xp.log1p(-xp.clip(r, None, 1 - _ROUNDING))
    parts = xp.sum(r, axis=0), r.T @ z, xp.sum(evidence, axis=0)
    return UnlabelledSums(*(to_numpy(part).astype(np.float64) for part in parts))


def _evaluate(z: Array, coefficients: tuple[Floats, ...]) -> Array:
    """Evaluate coefficients of z² (optional), z and 1 at each image."""
    *square, linear, constant = (move_like(part, z) for part in coefficients)
    out = z @ linear.T + constant.T
    for factor in square:
        out = out + (z * z) @ factor.T
    return out
