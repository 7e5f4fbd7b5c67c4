r"""The expected gain of accuracy by the label of an image.

If image i shows class c, its label moves the mean of the class in each dimension by Bayes' rule,

.. math:: m_c' = m_c + g_c (z_i - m_c), \qquad g_c = \frac{t v_c}{1 + t v_c},

with v the variance of the mean and t the weight of a labelled image. Only the scores of this class
change. Where it becomes the best class of image j instead of class r, or r takes its place, the
probability that j is predicted correctly grows by

.. math:: G_{ic}(j) = \max(0, \pm [p'_c(z_j) - p'_r(z_j)]),

with p' the probabilities given the label, r the best other class, + if c is not predicted without
the label, and − if it is. The expected gain of accuracy over the n images of the pool is

.. math:: G_i = \frac1n \sum_c p_c(z_i) \sum_{j \neq i} G_{ic}(j).

Images are chosen one after the other. Each is then assumed to show its most probable class, which
moves the mean of the class and reduces its variance, so that further images of the class, and
similar images, gain less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from zslearn._utils._array import Floats, row_blocks
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior

# Classes that an image may show: the most probable ones above a probability.
_N_CLASSES, _LEAST_PROBABILITY = 3, 0.01
# Images whose gains are updated at once.
_UPDATED = 64


@dataclass(eq=False)
class LabelGains:
    """Expected gains by labels of images of a pool; `choose` changes the state."""

    z: Floats
    scores: Floats  # (n_images, n_classes): log probabilities up to a constant per image
    means: Floats
    responses: Floats  # g of each class and dimension
    weights: Floats  # of dimensions in the scores
    log_odds: Floats  # change of the log prior of each class by its next image

    @classmethod
    def of(
        cls,
        posterior: ClassPosterior,
        signatures: Signatures,
        labels: NDArray[Any],
        z: Floats,
        scores: Floats,
        temperature: float,
    ) -> Self:
        """Predict how classes respond to a labelled image; scores are divided by `temperature`."""
        now, share = posterior.gaussians(signatures, labels)
        # The response of the mean to a sample one unit away.
        samples = posterior.samples.updated(labels, now.means + 1, 1.0)
        after, next_share = replace(posterior, samples=samples).gaussians(signatures, labels)
        gains = cls(
            z,
            scores / temperature,
            now.means,
            np.clip(after.means - now.means, 0.0, 1.0),
            posterior.axis_weights / (posterior.temperature * temperature),
            (next_share - share) * np.log(posterior.unseen_odds) / temperature,
        )
        gains._compare()
        return gains

    def _compare(self) -> None:
        """Find the best classes of each image, and their probabilities."""
        n_best = min(_N_CLASSES, self.scores.shape[1])
        top = np.argpartition(-self.scores, n_best - 1, axis=1)[:, :n_best]
        best = np.take_along_axis(self.scores, top, axis=1)
        order = np.argsort(-best, axis=1, kind="stable")
        self.top = np.take_along_axis(top, order, axis=1)
        self.best = np.take_along_axis(best, order, axis=1)
        relative = np.exp(self.scores - self.best[:, :1])
        self.log_total = self.best[:, 0] + np.log(relative.sum(axis=1))
        self.probable = np.exp(self.best - self.log_total[:, None])

    def gains(self, rows: NDArray[np.intp]) -> Floats:
        """The sums over j of G for some images and each of their most probable classes."""
        out = np.zeros((len(rows), self.top.shape[1]))
        if self.scores.shape[1] == 1:
            return out
        top, likely = self.top[rows], self.probable[rows] >= _LEAST_PROBABILITY
        for column in np.unique(top[likely]):
            places = np.argwhere((top == column) & likely)
            for part in row_blocks(len(places), 32 * len(self.z)):
                i, k = places[part].T
                out[i, k] = self._gains_of(int(column), rows[i])
        return out / max(len(self.z), 1)

    def _gains_of(self, c: int, rows: NDArray[np.intp]) -> Floats:
        """The sums of G for some images if they show class c."""
        own, is_best = self.scores[:, c], self.top[:, 0] == c
        rival = np.where(is_best, self.best[:, 1], self.best[:, 0])
        # All other classes together have at least the score of the best of them.
        rest = np.log(np.maximum(1 - np.exp(own - self.log_total), np.finfo(float).tiny))
        rest = np.maximum(self.log_total + rest, rival)
        new = own[:, None] + self._change(c, rows)
        share = expit(new - rest[:, None])
        gain = share - np.exp(rival - rest)[:, None] * (1 - share)
        gain = np.maximum(np.where(is_best[:, None], -gain, gain), 0.0)
        gain[rows, np.arange(len(rows))] = 0.0
        return np.asarray(gain.sum(axis=0))

    def _change(self, c: int, rows: NDArray[np.intp]) -> Floats:
        """Changes of the scores of class c by the label of each of some images."""
        step = self.responses[c] * (self.z[rows] - self.means[c])
        linear = step * self.weights
        constant = self.log_odds[c] - ((self.means[c] + step / 2) * linear).sum(axis=1)
        return np.asarray(self.z @ linear.T + constant)

    def choose(self, of_pairs: Floats, n: int) -> tuple[NDArray[np.intp], Floats]:
        """Choose images by their gain, and update those of the others after each choice."""
        values = (self.probable * of_pairs).sum(axis=1)
        chosen: list[int] = []
        found: list[float] = []
        is_current = np.ones(len(values), dtype=bool)
        for _ in range(min(n, len(values))):
            # Gains rarely grow by the labels of other images: only the largest are computed again.
            while True:
                order = np.argsort(-values, kind="stable")[:_UPDATED]
                if is_current[order[0]]:
                    break
                old = order[~is_current[order]]
                values[old] = (self.probable[old] * self.gains(old)).sum(axis=1)
                is_current[old] = True
            row = int(order[0])
            chosen.append(row)
            found.append(float(values[row]))
            self._label(row)
            is_current[:] = False
            values[chosen], is_current[chosen] = -1.0, True
        return np.array(chosen, dtype=np.intp), np.array(found)

    def _label(self, row: int) -> None:
        """Assume that an image shows its most probable class."""
        c = int(self.top[row, 0])
        self.scores[:, c] += self._change(c, np.array([row]))[:, 0]
        self.means[c] += self.responses[c] * (self.z[row] - self.means[c])
        # The precision grows by t: 1 / g becomes 1 / g + 1.
        self.responses[c] /= 1 + self.responses[c]
        self.log_odds[c] = 0.0
        self._compare()
