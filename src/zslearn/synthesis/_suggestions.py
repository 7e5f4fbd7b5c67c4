r"""Suggest which images to label next, and what would help each class.

Images are ranked by the gain of accuracy that is expected from their label. If image i shows class
c, its label moves the mean of the class in each dimension by Bayes' rule,

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
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import (
    Floats,
    evenly_spaced,
    is_dask,
    is_streamed,
    row_blocks,
    take_rows,
    to_numpy,
)
from zslearn.base._streams import read_blocks, stream_top_k, with_known_rows
from zslearn.signatures._attributes import IndistinctPair, indistinct_pairs
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior

if TYPE_CHECKING:
    from zslearn.synthesis._gaussian import GaussianEXEM

# A larger pool is represented by this number of images, or fewer with many classes.
_MAX_IMAGES, _MAX_SCORES = 5000, 1 << 23
# A class is found in the pool if it has an image of at least this probability, and a label of it
# helps if at least this number of images is expected to be predicted correctly by it.
_LIKELY, _LEAST_IMAGES = 0.5, 0.05


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Images to label next, and what would help each class most.

    Attributes
    ----------
    rows : ndarray of int of shape (n_suggested,)
        Rows of the pool, the most valuable first.
    gains : ndarray of shape (n_suggested,)
        Expected gain of accuracy over the other images of the pool by the label of each row, given
        the labels of the rows before.
    labels : ndarray of shape (n_suggested,)
        The predicted class of each row.
    probabilities : ndarray of shape (n_suggested,)
        The probability of this class.
    classes : DataFrame
        One row per candidate class, the most valuable first: "gain", the expected gain of accuracy
        by the label of an image of the class; "images", the expected number of its images in the
        pool; "labelled", the number of its labelled images; "uncertainty", the variance of its mean
        relative to that of the means of all seen classes; "same_attributes", a class with
        indistinguishable attributes, or None; and "advice", what helps most: "image" for the
        label of an image, "description" for a better description, or "none". A description is
        advised for a class without labelled images if its attributes are those of another, or if
        no image of the pool is likely to show it.
    indistinct : list of IndistinctPair
        Pairs of candidates with indistinguishable attributes; see
        :func:`zslearn.signatures.indistinct_pairs`.
    """

    rows: NDArray[np.intp]
    gains: Floats
    labels: NDArray[Any]
    probabilities: Floats
    classes: pd.DataFrame
    indistinct: list[IndistinctPair]


def suggest(model: GaussianEXEM, X: Any, n: int, classes: Any, scorer: ClassScorer) -> Suggestions:
    """Suggest rows of `X`, with the bias and temperature of the scorer of a wrapper."""
    own = model.class_scorer_
    scorer = replace(own, bias=scorer.bias, temperature=scorer.temperature or own.temperature)
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a positive integer; got {n!r}.")
    if is_dask(X):
        X = with_known_rows(X)
    candidates = np.arange(len(scorer.labels))
    if classes is not None:
        candidates = np.sort(find_classes(classes, scorer.labels))
    labels, n_rows = scorer.labels[candidates], X.shape[0]
    n_images = max(int(n), min(_MAX_IMAGES, _MAX_SCORES // len(labels)))
    rows = np.arange(n_rows)
    if n_rows > n_images:
        rows = _representative(X, n_images, labels, scorer)
    posterior, parameters = model.posterior_, scorer.parameters[candidates]
    embedded = np.empty((0, parameters.shape[1]))
    if n_rows:
        embedded = np.asarray(to_numpy(scorer.embedding(_rows(X, rows))), dtype=np.float64)
    scores = embedded @ parameters.T + (0.0 if scorer.bias is None else scorer.bias[candidates])
    z, temperature = embedded[:, : posterior.n_dims], scorer._temperature()
    signatures = model._normalized(model.signature_table_.subset(candidates))
    state = _LabelGains.of(posterior, signatures, labels, z, scores, temperature)
    top, probable, gains = state.top, state.probable, state.gains(np.arange(len(rows)))
    chosen, expected = state.choose(gains, int(n))
    pairs = _indistinct(model, labels)
    table = _class_table(posterior, signatures, labels, top, probable, gains, pairs)
    table["images"] *= n_rows / max(len(rows), 1)
    return Suggestions(
        rows[chosen], expected, labels[top[chosen, 0]], probable[chosen, 0], table, pairs
    )


def _representative(
    X: Any, n_images: int, labels: NDArray[Any], scorer: ClassScorer
) -> NDArray[np.intp]:
    """Rows evenly spaced by predicted class and probability, whatever the order of the rows."""
    find = stream_top_k if is_streamed(X) else type(scorer).top_k
    found = find(scorer, X, 1, labels, proba=True)
    label, probability = (np.asarray(to_numpy(part))[:, 0] for part in found)
    order = np.lexsort((probability, label))
    return np.sort(order[evenly_spaced(len(order), n_images)])


def _rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of features in memory, or on disk."""
    if not is_streamed(X):
        return X if len(rows) == X.shape[0] else take_rows(X, rows)
    start, parts = 0, [np.empty((0, X.shape[1]))]
    for block in read_blocks(X):
        inside = rows[(rows >= start) & (rows < start + len(block))] - start
        parts.append(to_numpy(block[inside]))
        start += len(block)
    return np.concatenate(parts)


def _class_table(
    posterior: ClassPosterior,
    signatures: Signatures,
    labels: NDArray[Any],
    top: NDArray[np.intp],
    probable: Floats,
    gains: Floats,
    pairs: list[IndistinctPair],
) -> pd.DataFrame:
    """Expected gains and advice by class; rows of `top`, `probable` and `gains` are images."""
    gaussians, share = posterior.gaussians(signatures, labels)
    # The prior variance of a class is multiplied by the ratio once the class has samples.
    ratio = np.where(share == 1, posterior.variance_ratio.mean(), 1.0)
    uncertainty = ratio * gaussians.variances.sum(axis=1) / posterior.spread.sum()
    same: dict[Any, Any] = {}
    for pair in pairs:
        same.setdefault(pair.first, pair.second)
        same.setdefault(pair.second, pair.first)
    n_classes, images = len(labels), probable.ravel()
    expected, gain, likely = np.zeros((3, n_classes))
    np.add.at(expected, top.ravel(), images)
    np.add.at(gain, top.ravel(), images * gains.ravel())
    np.maximum.at(likely, top.ravel(), images)
    gain /= np.where(expected > 0, expected, 1.0)
    samples = posterior.samples
    labelled = pd.Series(samples.counts, samples.labels).reindex(labels, fill_value=0.0)
    same_attributes = [same.get(label) for label in labels.tolist()]
    is_vague = (likely < _LIKELY) | [other is not None for other in same_attributes]
    needs_description = (labelled.to_numpy() == 0) & is_vague
    advice = np.where(gain * len(top) >= _LEAST_IMAGES, "image", "none")
    columns = {
        "gain": gain,
        "images": expected,
        "labelled": labelled.to_numpy().round().astype(np.intp),
        "uncertainty": uncertainty,
        "same_attributes": pd.Series(same_attributes, dtype=object).to_numpy(),
        "advice": np.where(needs_description, "description", advice),
    }
    found = pd.DataFrame(columns, index=pd.Index(labels, name="class"))
    return found.sort_values("gain", ascending=False, kind="stable")


def _indistinct(model: GaussianEXEM, labels: NDArray[Any]) -> list[IndistinctPair]:
    """Pairs of candidates with indistinguishable attributes."""
    table = model._signatures_so_far()
    names = [
        name if not view else f"{view}: {name}"
        for view, array, columns in zip(table.names, table.arrays, table.columns, strict=True)
        for name in (range(array.shape[1]) if columns is None else columns)
    ]
    numbers = pd.DataFrame(np.hstack(table.arrays), pd.Index(table.labels.tolist()), names)
    numbers = numbers.fillna(0.0)
    known = model.posterior_.samples.labels.tolist()
    candidates = set(labels.tolist())
    found = indistinct_pairs(numbers, numbers, seen_classes=known)
    return [pair for pair in found if {pair.first, pair.second} <= candidates]


# Classes that an image may show: the most probable ones above a probability.
_N_CLASSES, _LEAST_PROBABILITY = 3, 0.01
# Images whose gains are updated at once.
_UPDATED = 64


@dataclass(eq=False)
class _LabelGains:
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
