r"""What is known of classes: signatures, labelled samples and unlabelled samples in one posterior.

The mean of a class in the whitened space has a normal prior by its signature (`_gaussian_process`).
Labelled samples update it by Bayes' rule, each counted by a weight; so do unlabelled samples, times
the probability that they are of the class (`_unlabelled`). Other classes predict a class mean less
well than the process states: where few samples are known, the variance of the prior is multiplied,
in each dimension, by the ratio of the squared errors of the seen classes to the stated variances.

The means of the seen classes span the space, and each of them a direction that the others do not:
a further class has that part of its mean beyond the space, where its samples alone tell of it.

The score of a class is its log density at a sample, over that of the standard normal distribution
and divided by a temperature, plus its log prior,

.. math:: f_c(x) = \sum_j \frac{w_j}{T} \left(m_{cj} z_j - \tfrac12 m_{cj}^2\right) + \log \pi_c,

with a weight for each dimension. The log odds of a class fall with the share of the variance of its
mean that its samples leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._scorer import is_among
from zslearn._utils._array import Array, Floats
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.signatures._views import Signatures
from zslearn.synthesis._gaussian_process import ClassGaussians, ClassPrior
from zslearn.synthesis._unlabelled import UnlabelledSums, unlabelled_sums
from zslearn.synthesis._whitened_space import WhitenedSpace


@saved_part
@saves(
    labels=Saved("n_classes", kind="label"),
    counts=Saved("n_classes", above=0),
    means=Saved("n_classes", "n_dims"),
)
class ClassSamples(NamedTuple):
    """Samples of some classes: what they count, and their mean."""

    labels: NDArray[Any]  # sorted
    counts: Floats
    means: Floats

    def chosen(self, rows: NDArray[Any]) -> ClassSamples:
        """The samples of some of the classes."""
        return ClassSamples(*(part[rows] for part in self))

    def without(self, labels: NDArray[Any]) -> ClassSamples:
        """The samples of other classes."""
        return self.chosen(~is_among(self.labels, labels))

    def among(self, labels: NDArray[Any]) -> tuple[NDArray[np.intp], ClassSamples]:
        """Which of some classes have samples, and these, in the order of the classes."""
        rows = np.flatnonzero(is_among(labels, self.labels))
        return rows, self.chosen(np.searchsorted(self.labels, labels[rows]))

    def with_samples(self, labels: NDArray[Any], z: Floats, count: float = 1.0) -> ClassSamples:
        """With further samples, whatever their order; without them where `count` is -1."""
        every = np.union1d(self.labels, labels)
        known, new = np.searchsorted(every, self.labels), np.searchsorted(every, labels)
        counts, sums = np.zeros(len(every)), np.zeros((len(every), z.shape[1]))
        counts[known], sums[known] = self.counts, self.counts[:, None] * self.means
        np.add.at(counts, new, count)
        np.add.at(sums, new, count * z)
        left = counts > 0
        return ClassSamples(every[left], counts[left], sums[left] / counts[left, None])


def natural_parameters(means: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Coefficients of z and of 1 in the score of each class at temperature 1."""
    linear = means * weights
    return linear, -0.5 * (means * linear).sum(axis=1, keepdims=True)


def share_left(before: ClassGaussians, after: ClassGaussians) -> Floats:
    """The share of the variance of each class mean, over all dimensions, that samples leave."""
    total = before.variances.sum(axis=1)
    return after.variances.sum(axis=1) / np.where(total > 0, total, 1.0)


@saved_part
@saves(
    {
        "space.matrix": Saved("n_features", "n_dims"),
        "prior.coef": Saved("n_seen", "n_dims"),
        "prior.process.coef": Saved("n_seen", "n_dims"),
        "left_out.means": Saved("n_seen", "n_dims"),
        "samples.means": Saved("n_samples", "n_dims"),
        "unlabelled.means": Saved("n_unlabelled", "n_dims"),
        "beyond.means": Saved("n_beyond", "n_features"),
    },
    space=Saved(kind=WhitenedSpace),
    prior=Saved(kind=ClassPrior),
    classes=Saved("n_seen", kind="label"),
    few=Saved("n_seen", kind="bool"),
    exemplars=Saved("n_seen", "n_dims"),
    left_out=Saved(kind=ClassGaussians),
    variance_ratio=Saved("n_dims", least=0),
    axis_weights=Saved("n_dims", above=0),
    seen_weight=Saved(above=0),
    few_shot_weight=Saved(above=0),
    temperature=Saved(above=0),
    unseen_odds=Saved(above=0),
    samples=Saved(kind=ClassSamples),
    beyond=Saved(kind=ClassSamples),
    columns=Saved("n_beyond", "n_features"),
    unlabelled=Saved(kind=ClassSamples),
    undescribed=Saved("n_undescribed", kind="label"),
)
@dataclass(frozen=True, eq=False)
class ClassPosterior:
    """What is known of the mean of any class; it is never changed, but replaced by another one."""

    space: WhitenedSpace
    prior: ClassPrior
    classes: NDArray[Any]  # the seen ones
    few: NDArray[np.bool_]  # which of them have few samples
    exemplars: Floats  # means of their training samples
    left_out: ClassGaussians  # what the prior tells of each of them without its samples
    variance_ratio: Floats
    axis_weights: Floats
    seen_weight: float  # what a sample of a class with many samples counts, and of one with few
    few_shot_weight: float
    samples: ClassSamples
    beyond: ClassSamples  # centred features of classes with few samples
    columns: Floats  # what features are multiplied by for their products beyond the space
    unlabelled: ClassSamples
    undescribed: NDArray[Any]  # classes without a signature
    temperature: float = 1.0
    unseen_odds: float = 1.0

    @property
    def n_dims(self) -> int:
        """Dimensions of the whitened space."""
        return len(self.space.center)

    @property
    def spread(self) -> Floats:
        """Mean square of the means of the seen classes in each dimension."""
        return np.asarray((self.exemplars[~self.few] ** 2).mean(axis=0))

    # Other values.

    def with_samples(self, X: Floats, labels: NDArray[Any], undescribed: NDArray[Any]) -> Self:
        """After labelled samples, given by prepared features; some classes have no signature."""
        other = replace(self, undescribed=np.union1d(self.undescribed, undescribed))
        return other._counting(X, labels, 1.0)

    def without_samples(self, X: Floats, labels: NDArray[Any]) -> Self:
        """As if some of the labelled samples had never been there."""
        return self._counting(X, labels, -1.0)

    def _counting(self, X: Floats, labels: NDArray[Any], count: float) -> Self:
        other = replace(self, samples=self.samples.with_samples(labels, self.space(X), count))
        rows = ~is_among(labels, self.classes[~self.few])
        if self.space.beyond is None or not rows.any():
            return other
        before = self.beyond
        beyond = before.with_samples(labels[rows], self.space.centered(X[rows]), count)
        columns = np.empty_like(beyond.means)
        known, new = is_among(beyond.labels, before.labels), is_among(beyond.labels, labels)
        columns[known] = self.columns[np.searchsorted(before.labels, beyond.labels[known])]
        columns[new] = self.space.columns(beyond.means[new])
        return replace(other, beyond=beyond, columns=columns)

    def without(self, labels: NDArray[Any]) -> Self:
        """Without samples of some classes, labelled ones and those that were taken for theirs."""
        return replace(
            self,
            samples=self.samples.without(labels),
            beyond=self.beyond.without(labels),
            columns=self.columns[~is_among(self.beyond.labels, labels)],
            unlabelled=self.unlabelled.without(labels),
            undescribed=np.setdiff1d(self.undescribed, labels),
        )

    def without_unlabelled(self) -> Self:
        """As if there had been no unlabelled samples."""
        return replace(self, unlabelled=self.unlabelled.chosen(np.empty(0, dtype=np.intp)))

    def with_unlabelled(
        self, labels: NDArray[Any], sums: UnlabelledSums | None, weight: float
    ) -> Self:
        """After the samples that :meth:`unlabelled_sums` found, for the same classes."""
        if sums is None or not weight:
            return self
        return replace(self, unlabelled=ClassSamples(labels, weight * sums.counts, sums.means))

    def unlabelled_sums(
        self,
        blocks: Callable[[], Iterable[Array]],
        signatures: Signatures,
        labels: NDArray[Any],
        weight: float,
    ) -> UnlabelledSums | None:
        """What unlabelled samples in the space add up to for each class; None without any."""
        known, share = self.gaussians(signatures, labels)

        def scores(classes: ClassGaussians) -> tuple[Floats, Floats]:
            linear, constant = natural_parameters(classes.means, self.axis_weights)
            return linear / self.temperature, constant / self.temperature

        return unlabelled_sums(
            blocks,
            self._confirmed(known, share),
            share * np.log(self.unseen_odds),
            self.spread,
            weight,
            scores,
        )

    # What scores are made of.

    def embed(self, X: Array) -> Array:
        """Prepared features as rows (z, e, 1), with e their products beyond the space."""
        z = self.space(X, self.columns if len(self.columns) else None)
        xp = compat.array_namespace(z)
        return xp.concat([z, xp.ones_like(z[:, :1])], axis=1)

    def parameters(self, signatures: Signatures, labels: NDArray[Any] | None) -> Floats:
        """What embedded rows are multiplied by for the score of each class."""
        known, share = self.gaussians(signatures, labels)
        linear, constant = natural_parameters(known.means, self.axis_weights)
        further = np.zeros((len(linear), len(self.columns)))
        if labels is not None and len(self.columns):
            rows, few = self.beyond.among(labels)
            at = np.searchsorted(self.beyond.labels, few.labels)
            assert self.space.beyond is not None
            worth = self.space.beyond.signal * self.few_shot_weight * few.counts
            counted = worth / (1 + worth)
            further[rows, at] = counted
            squares = np.einsum("ij,ij->i", few.means, self.columns[at])
            constant[rows, 0] -= 0.5 * counted**2 * squares
        parameters = np.concatenate([linear, further, constant], axis=1) / self.temperature
        parameters[:, -1] += share * np.log(self.unseen_odds)
        return parameters

    def moved_from(self, before: Self, parameters: Floats) -> Floats:
        """Parameters under an earlier posterior with a column for each class that has one now."""
        wider = np.zeros((len(parameters), self.n_dims + len(self.columns) + 1))
        further = self.n_dims + np.searchsorted(self.beyond.labels, before.beyond.labels)
        wider[:, [*range(self.n_dims), *further, -1]] = parameters
        return wider

    def gaussians(
        self, signatures: Signatures, labels: NDArray[Any] | None
    ) -> tuple[ClassGaussians, Floats]:
        """What is known of the mean of each class, and the share of its odds of an unseen class.

        The share is 1 without samples, and 0 for classes with many of them in training.
        """
        known = self.prior.predict(signatures)
        share = np.ones(len(known.means))
        if labels is None:
            return known, share
        means, variances = known.means, known.variances
        rows, samples = self.samples.among(labels)
        if len(rows):
            prior, few = self._prior_of(samples.labels, known[rows])
            weights = np.where(few, self.few_shot_weight, self.seen_weight)
            found = prior.given(weights * samples.counts, samples.means)
            means[rows], variances[rows] = found.means, found.variances
            share[rows] = np.where(few, share_left(prior, found), 0.0)
        rows, samples = self.unlabelled.among(labels)
        if len(rows):
            prior = self._confirmed(known, share)[rows]
            found = prior.given(samples.counts, samples.means)
            means[rows], variances[rows] = found.means, found.variances
            share[rows] *= share_left(prior, found)
        return known, share

    def _prior_of(
        self, labels: NDArray[Any], described: ClassGaussians
    ) -> tuple[ClassGaussians, NDArray[np.bool_]]:
        """What is known of classes without their samples, and which of them have few."""
        means, variances = described.means, described.variances * self.variance_ratio
        few = np.ones(len(labels), dtype=bool)
        # A class of the training data is predicted by the others.
        trained = is_among(labels, self.classes)
        position = np.searchsorted(self.classes, labels[trained])
        few[trained] = self.few[position]
        means[trained] = self.left_out.means[position]
        variances[trained] = self.left_out.variances[position]
        variances[trained & few] *= self.variance_ratio
        unknown = is_among(labels, self.undescribed)
        means[unknown], variances[unknown] = 0.0, self.spread
        return ClassGaussians(means, variances), few

    def _confirmed(self, known: ClassGaussians, share: Floats) -> ClassGaussians:
        """With the variances that held-out classes confirm, where signatures alone are known."""
        ratio = np.where(share[:, None] == 1, self.variance_ratio, 1.0)
        return ClassGaussians(known.means, known.variances * ratio)
