r"""Images without labels: what they add to class means, and whether they are to be listened to.

A few rounds of expectation and maximisation in the whitened space, from what is known of each
class without them. An image is of class c with the probability

.. math:: r_c(z) = e(z) \, \frac{\pi_c \, p_c(z)^{1/T}}{\sum_{c'} \pi_{c'} \, p_{c'}(z)^{1/T}},
          \qquad e(z) = \frac{(1 - b) \, q(z)}{(1 - b) \, q(z) + b \, \mathcal N(z; 0, 1 + w)},

with :math:`p_c` the density that classes are scored by, T the temperature, and e the probability
that any class explains the image: :math:`q(z) = \sum_c \pi_c \mathcal N(z; m_c, 1 + v_c)` against a
background as wide as all classes together (w is the variance of the means of the seen classes). The
image counts for :math:`t \, r_c` images of the class, with t the trust in it:

.. math:: m_c = \frac{m_{0c} / v_{0c} + t \sum_i r_c(z_i) z_i}{1 / v_{0c} + t \sum_i r_c(z_i)}.

Proportions :math:`\pi` and b are estimated with a prior. More rounds lose what signatures say: on
left-out classes three are as good as five and better than twenty.

The trust is chosen on seen classes that are left out of the space and the process, with their
images unlabelled. It must gain where the pile holds images of all candidates, and lose nothing
where half of the candidates are absent and where half of the images are of classes that nobody
described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._files import saved_part
from zslearn.synthesis._gaussian_process import ClassGaussians, posterior

#: What is chosen from.
TRUSTS = (0.03, 0.1, 0.3, 1.0)
_ROUNDS = 3
# The share of images that no class explains before any is looked at, and the share of all images
# that this guess counts for; proportions of classes count for as many images as there are.
_BACKGROUND = 0.1
_BACKGROUND_WEIGHT = 0.1
# Powers of e stay within the range of float32.
_LARGEST_POWER = 80.0


@saved_part
class TrustChoice(NamedTuple):
    """The trust that left-out classes chose, 0 for none, and their score without and with it."""

    trust: float
    before: float
    after: float


@saved_part
@dataclass(frozen=True, eq=False)
class Adaptation:
    """What images without labels did to a model.

    Attributes
    ----------
    accepted : bool
        Whether they were listened to. If not, the model is as it was.
    trust : float
        What each image counted for, at most; of images with labels, 1 is the most.
    score_before, score_after : float
        Of seen classes that were left out, without and with their images unlabelled: the accuracy
        among them, or the harmonic mean where seen classes were candidates. NaN where nothing was
        left out.
    n_samples : int
        Number of images.
    unexplained : float
        Share of the images that no candidate explains.
    moved : Series
        How far the mean of each candidate moved, in standard deviations of its images.
    proportions : Series
        Share of each candidate in the images that some candidate explains.
    """

    accepted: bool
    trust: float
    score_before: float
    score_after: float
    n_samples: int
    unexplained: float
    moved: pd.Series
    proportions: pd.Series


@dataclass(frozen=True)
class PileSums:
    """What is needed of blocks of images; two objects add up."""

    counts: Floats
    sums: Floats
    explained: float
    n: int

    @property
    def means(self) -> Floats:
        """Mean of the images of each class; zeros where it has none."""
        return self.sums / np.where(self.counts > 0, self.counts, 1.0)[:, None]

    def __add__(self, other: PileSums) -> PileSums:
        return PileSums(
            self.counts + other.counts,
            self.sums + other.sums,
            self.explained + other.explained,
            self.n + other.n,
        )


#: Coefficients of (z²,) z and 1 in the log density of each class.
Densities = Callable[[ClassGaussians], tuple[Floats, ...]]


def pile_sums(
    blocks: Callable[[], Iterable[Array]],
    prior: ClassGaussians,
    log_prior: Floats,
    width: Floats,
    trust: float,
    scored_by: Densities,
    inside: Densities,
) -> PileSums | None:
    """Responsibilities of the classes for all images, summed; None where there is no image.

    `blocks` reads the images in the whitened space, anew in every round.
    """
    classes, first = prior, np.exp(log_prior - np.logaddexp.reduce(log_prior))
    shares, background = first, _BACKGROUND
    outside = inside(ClassGaussians(np.zeros_like(width)[None, :], width[None, :]))
    found: PileSums | None = None
    for _ in range(_ROUNDS):
        logs = np.log(shares), np.log(background) - np.log1p(-background)
        parts = scored_by(classes), inside(classes), outside
        found = None
        for z in blocks():
            part = _expected(z, *parts, *logs)
            found = part if found is None else found + part
        if found is None:
            return None
        classes = posterior(prior, trust * found.counts, found.means)
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
) -> PileSums:
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
    return PileSums(counts, sums, float(xp.sum(explained)), z.shape[0])


def _values(z: Array, parts: tuple[Floats, ...]) -> Array:
    """Log densities of images from coefficients of z², if there are any, z and 1."""
    *square, linear, constant = (move_like(part, z) for part in parts)
    out = z @ linear.T + constant.T
    for factor in square:
        out = out + (z * z) @ factor.T
    return out


# Whether to listen to them, and how far.


class LeftOut(NamedTuple):
    """A model without some seen classes, and images of these and of others that it did not see."""

    described: NDArray[np.intp]  # positions of the classes that were left out
    trained: NDArray[np.intp]
    images: Floats  # of the classes left out, in the whitened space
    y: NDArray[np.intp]
    others: Floats  # of the classes trained on
    other_y: NDArray[np.intp]


#: Scores of images for some classes, once they have been listened to with some trust.
Scored = Callable[[Floats, NDArray[np.intp], float], Floats]


def choose_trust(folds: Iterable[tuple[LeftOut, Scored]]) -> dict[str, TrustChoice]:
    """The trust where the classes left out are "alone", and where "all" classes are candidates."""
    scores: dict[str, list[Floats]] = {"alone": [], "all": []}
    for fold, scored in folds:
        for setting, found in scores.items():
            cases = list(_cases(fold, setting == "all"))
            found.append(
                np.array([[case.score(scored, t) for t in (0.0, *TRUSTS)] for case in cases])
            )
    return {setting: _chosen(np.array(found)) for setting, found in scores.items() if found}


def _chosen(scores: Floats) -> TrustChoice:
    """The best trust where all candidates are in the pile, of those that lose nothing elsewhere."""
    gains = scores[..., 1:] - scores[..., :1]
    mean = gains.mean(axis=0)
    error = gains.std(axis=0) / np.sqrt(max(len(gains) - 1, 1))
    allowed = (mean[0] > error[0]) & (mean[1:] >= -error[1:]).all(axis=0)
    best = int(np.where(allowed, mean[0], -np.inf).argmax())
    # Of a refusal, what would have been gained where the pile holds all.
    shown = best if allowed.any() else int(mean[0].argmax())
    before, after = scores[:, 0, 0].mean(), scores[:, 0, 1 + shown].mean()
    return TrustChoice(TRUSTS[best] if allowed.any() else 0.0, float(before), float(after))


class _Case(NamedTuple):
    """A pile without labels, the candidates, and which of its images are looked at."""

    fold: LeftOut
    pile: Floats
    y: NDArray[np.intp]
    candidates: NDArray[np.intp]

    def score(self, scored: Scored, trust: float) -> float:
        """Accuracy of the classes left out, or its harmonic mean with that of the others."""
        found = self.candidates[scored(self.pile, self.candidates, trust).argmax(axis=1)]
        there, codes = np.unique(self.y, return_inverse=True)
        right = np.bincount(codes, found == self.y) / np.bincount(codes)
        described = np.isin(there, self.fold.described)
        looked_at = np.isin(there, self.candidates)
        unseen = float(right[described & looked_at].mean())
        if described.all():
            return unseen
        seen = float(right[~described].mean())
        return 2 * seen * unseen / max(seen + unseen, 1e-300)


def _cases(fold: LeftOut, generalized: bool) -> Iterator[_Case]:
    """All candidates in the pile; half of those left out absent; half of them not described."""
    half = fold.described[::2]
    for present, described in (
        (fold.described, fold.described),
        (half, fold.described),
        (fold.described, half),
    ):
        rows = np.flatnonzero(np.isin(fold.y, present))
        pile, y, candidates = fold.images[rows], fold.y[rows], described
        if generalized:
            pile, y = np.concatenate([pile, fold.others]), np.concatenate([y, fold.other_y])
            candidates = np.sort(np.concatenate([described, fold.trained]))
        yield _Case(fold, pile, y, candidates)
