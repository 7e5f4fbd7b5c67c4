r"""Posterior of class means, given signatures, labelled samples and unlabelled samples.

The signature of a class gives a normal prior of its mean in the whitened space
(`_gaussian_process`). Labelled samples update it by Bayes' rule, each with a weight; so do
unlabelled samples, weighted also by the probability that they belong to the class (`_unlabelled`).
Class means are predicted less accurately than the Gaussian process states. For classes with few or
no samples, the prior variance is therefore multiplied, per dimension, by the ratio of the squared
leave-one-out errors of the seen classes to the stated variances.

The means of the seen classes span the space. The mean of a further class also has a component
orthogonal to it, about which only samples of further classes inform: labelled ones about their own
class, unlabelled ones also about classes that are similar given the seen ones. With S the prior
covariance of this component between the candidates, n their effective numbers of unlabelled samples
and y the means of these, its posterior has

.. math:: m = S \, (S + \mathrm{diag}(1 / n))^{-1} y, \qquad
          V = S - S \, (S + \mathrm{diag}(1 / n))^{-1} S.

The score of a class is its log density at a sample relative to the standard normal distribution,
divided by a temperature, plus the log prior of the class,

.. math:: f_c(x) = \sum_j \frac{w_j}{T} \left(m_{cj} z_j - \tfrac12 m_{cj}^2\right) + \log \pi_c,

with a weight per dimension. The prior log odds of an unseen class shrink with the share of the
variance of its mean that remains after its samples (`odds_share`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Array, Floats
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.signatures._table import is_among
from zslearn.signatures._views import Signatures
from zslearn.synthesis._gaussian_process import ClassGaussians, ClassPrior
from zslearn.synthesis._unlabelled import (
    Assignment,
    Background,
    Mixture,
    UnlabelledSums,
    assigned,
)
from zslearn.synthesis._whitened_space import WhitenedSpace

# Weight of the overall variance ratio against that of each dimension, as a number of classes.
_RATIO_CLASSES = 10
# Share of the weight of unlabelled samples that they have orthogonally to the space.
_ORTHOGONAL_WEIGHT = 0.3
_LEAST_COUNT = 1e-9


@saved_part
@saves(
    labels=Saved("n_classes", kind="label"),
    counts=Saved("n_classes", above=0),
    means=Saved("n_classes", "n_dims"),
)
class ClassSamples(NamedTuple):
    """Effective number and mean of the samples of some classes."""

    labels: NDArray[Any]  # sorted
    counts: Floats
    means: Floats

    def subset(self, rows: NDArray[Any]) -> ClassSamples:
        """The samples of the classes in some rows."""
        return ClassSamples(*(part[rows] for part in self))

    def without(self, labels: NDArray[Any]) -> ClassSamples:
        """The samples of all classes but some."""
        return self.subset(~is_among(self.labels, labels))

    def among(self, labels: NDArray[Any]) -> tuple[NDArray[np.intp], ClassSamples]:
        """Positions of the classes that have samples, and these samples in the same order."""
        rows = np.flatnonzero(is_among(labels, self.labels))
        return rows, self.subset(np.searchsorted(self.labels, labels[rows]))

    def updated(self, labels: NDArray[Any], z: Floats, count: float) -> ClassSamples:
        """Samples added with `count=1`, or removed with `count=-1`."""
        every = np.union1d(self.labels, labels)
        known, new = np.searchsorted(every, self.labels), np.searchsorted(every, labels)
        counts, sums = np.zeros(len(every)), np.zeros((len(every), z.shape[1]))
        counts[known], sums[known] = self.counts, self.counts[:, None] * self.means
        np.add.at(counts, new, count)
        np.add.at(sums, new, count * z)
        present = counts > 0
        return ClassSamples(every[present], counts[present], sums[present] / counts[present, None])


def natural_parameters(means: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Coefficients of z and of 1 in the score of each class at temperature 1."""
    linear = means * weights
    return linear, -0.5 * (means * linear).sum(axis=1, keepdims=True)


def _variance_ratio(observed: Floats, predicted: Floats, n_classes: int) -> Floats:
    """Ratio of observed to predicted variances per dimension, shrunk to the overall ratio."""
    overall = float(observed.sum() / max(float(predicted.sum()), 1e-300))
    each = observed / np.maximum(predicted, 1e-300)
    return (n_classes * each + _RATIO_CLASSES * overall) / (n_classes + _RATIO_CLASSES)


def odds_share(prior: ClassGaussians, posterior: ClassGaussians) -> Floats:
    """The share of the log odds of unseen classes that applies to classes with few samples.

    It lies halfway between 1 and the share of the prior variance that remains. On held-out classes,
    smaller odds lower the accuracy of classes with images, and larger odds that of the others.
    """
    total = prior.variances.sum(axis=1)
    remaining = posterior.variances.sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.asarray((1 + remaining) / 2)


@saved_part
@saves(
    {
        "space.matrix": Saved("n_features", "n_dims"),
        "prior.coef": Saved("n_seen", "n_dims"),
        "prior.process.coef": Saved("n_seen", "n_dims"),
        "leave_one_out.means": Saved("n_seen", "n_dims"),
        "samples.means": Saved("n_samples", "n_dims"),
        "unlabelled.means": Saved("n_unlabelled", "n_dims"),
        "orthogonal.means": Saved("n_orthogonal", "n_features"),
        "unlabelled_orthogonal.means": Saved("n_unlabelled_orthogonal", "n_features"),
    },
    space=Saved(kind=WhitenedSpace),
    prior=Saved(kind=ClassPrior),
    classes=Saved("n_seen", kind="label"),
    few_shot=Saved("n_seen", kind="bool"),
    exemplars=Saved("n_seen", "n_dims"),
    leave_one_out=Saved(kind=ClassGaussians),
    variance_ratio=Saved("n_dims", least=0),
    axis_weights=Saved("n_dims", above=0),
    seen_weight=Saved(above=0),
    few_shot_weight=Saved(above=0),
    temperature=Saved(above=0),
    unseen_odds=Saved(above=0),
    samples=Saved(kind=ClassSamples),
    orthogonal=Saved(kind=ClassSamples),
    column_labels=Saved("n_columns", kind="label"),
    columns=Saved("n_columns", "n_features"),
    unlabelled=Saved(kind=ClassSamples),
    unlabelled_orthogonal=Saved(kind=ClassSamples, optional=True),
    undescribed=Saved("n_undescribed", kind="label"),
)
@dataclass(frozen=True, eq=False)
class ClassPosterior:
    """Posterior of the mean of any class; every update returns a new object."""

    space: WhitenedSpace
    prior: ClassPrior
    classes: NDArray[Any]  # the seen ones
    few_shot: NDArray[np.bool_]  # which of them have few samples
    exemplars: Floats  # means of their training samples
    leave_one_out: ClassGaussians  # prediction of each seen class without its samples
    variance_ratio: Floats
    axis_weights: Floats
    seen_weight: float  # weight of a sample of a class with many samples
    few_shot_weight: float  # and of one with few
    samples: ClassSamples
    orthogonal: ClassSamples  # centred features of classes with few samples
    column_labels: NDArray[Any]
    columns: Floats  # map features to products with the means of classes orthogonal to the space
    unlabelled: ClassSamples
    undescribed: NDArray[Any]  # classes without a signature
    temperature: float = 1.0
    unseen_odds: float = 1.0
    # Numbers and means of unlabelled samples that would inform about each class as all do.
    unlabelled_orthogonal: ClassSamples | None = None

    @property
    def n_dims(self) -> int:
        """Number of dimensions of the whitened space."""
        return len(self.space.center)

    @property
    def spread(self) -> Floats:
        """Mean square of the means of the seen classes in each dimension."""
        return np.asarray((self.exemplars[~self.few_shot] ** 2).mean(axis=0))

    # Updates

    def with_samples(self, X: Floats, labels: NDArray[Any], undescribed: NDArray[Any]) -> Self:
        """Add labelled samples, given by prepared features; some classes have no signature."""
        other = replace(self, undescribed=np.union1d(self.undescribed, undescribed))
        return other._with_counts(X, labels, 1.0)

    def without_samples(self, X: Floats, labels: NDArray[Any]) -> Self:
        """Remove labelled samples that were added before."""
        return self._with_counts(X, labels, -1.0)

    def _with_counts(self, X: Floats, labels: NDArray[Any], count: float) -> Self:
        other = replace(self, samples=self.samples.updated(labels, self.space(X), count))
        rows = self.is_orthogonal(labels)
        if self.space.complement is None or not rows.any():
            return other
        centered = np.asarray(self.space.centered(X[rows]))
        orthogonal = self.orthogonal.updated(labels[rows], centered, count)
        return replace(other, orthogonal=orthogonal).with_columns(self, labels[rows])

    def without_classes(self, labels: NDArray[Any]) -> Self:
        """Remove the labelled and unlabelled samples of some classes."""
        orthogonal = self.unlabelled_orthogonal
        other = replace(
            self,
            samples=self.samples.without(labels),
            orthogonal=self.orthogonal.without(labels),
            unlabelled=self.unlabelled.without(labels),
            unlabelled_orthogonal=orthogonal and orthogonal.without(labels),
            undescribed=np.setdiff1d(self.undescribed, labels),
        )
        return other.with_columns(self, labels)

    def without_unlabelled(self) -> Self:
        """Remove all unlabelled samples."""
        nothing = self.unlabelled.subset(np.empty(0, dtype=np.intp))
        other = replace(self, unlabelled=nothing, unlabelled_orthogonal=None)
        return other.with_columns(self, self.unlabelled.labels)

    def with_unlabelled(
        self, labels: NDArray[Any], assignment: Assignment | None, weight: float
    ) -> Self:
        """Replace the unlabelled samples by those that :meth:`assigned` returned."""
        if assignment is None or not weight:
            return self
        sums = assignment.sums
        other = replace(
            self,
            unlabelled=ClassSamples(labels, weight * sums.counts, sums.means[:, : self.n_dims]),
            unlabelled_orthogonal=assignment.orthogonal,
        )
        return other.with_columns(self, np.union1d(labels, self.unlabelled.labels))

    def unlabelled_rows(self, X: Array, n_columns: int) -> Array:
        """Samples in the space, followed by centred features if these many columns are worth it."""
        z, complement = self.space(X), self.space.complement
        if complement is None or not complement.signal or not 0 < n_columns <= X.shape[1]:
            return z
        return compat.array_namespace(z).concat([z, self.space.centered(X)], axis=1)

    def assigned(
        self,
        blocks: Callable[[], Iterable[Array]],
        signatures: Signatures,
        labels: NDArray[Any],
        weight: float,
        background: Background | None = None,
    ) -> Assignment | None:
        """Assign unlabelled samples to classes; None if there are no samples.

        `blocks` returns the results of :meth:`unlabelled_rows`.
        """
        rows = np.flatnonzero(self.is_orthogonal(labels))
        correlations = cache(lambda: self.prior.correlations(signatures[rows]))

        def orthogonal(sums: UnlabelledSums) -> ClassSamples | None:
            means, counts = sums.means[rows, self.n_dims :], weight * sums.counts[rows]
            if not means.size:
                return None
            return self._orthogonal_samples(labels[rows], counts, means, correlations())

        def scores(classes: ClassGaussians, sums: UnlabelledSums) -> tuple[Floats, Floats]:
            linear, constant = natural_parameters(classes.means, self.axis_weights)
            if (samples := orthogonal(sums)) is not None:
                means = replace(self, unlabelled_orthogonal=samples)._orthogonal_means(labels)
                columns = self.space.columns(means)
                linear = np.hstack([linear, columns])
                constant -= 0.5 * np.einsum("ij,ij->i", means, columns)[:, None]
            return linear / self.temperature, constant / self.temperature

        # The background if no classes can be held out.
        background = background or Background(0.0, 0.5 / self.temperature, 0.0)
        mixture = self.mixture(signatures, labels)
        found = assigned(blocks, mixture, weight, scores, background)
        return None if found is None else found._replace(orthogonal=orthogonal(found.sums))

    def mixture(self, signatures: Signatures, labels: NDArray[Any]) -> Mixture:
        """The distribution of samples before unlabelled ones are known."""
        gaussians, unseen_share = self.gaussians(signatures, labels)
        log_prior = unseen_share * np.log(self.unseen_odds)
        log_prior -= np.logaddexp.reduce(log_prior)
        return Mixture(self._with_ratio(gaussians, unseen_share), log_prior, self.spread)

    def calibrated(self, own: Floats, mean_error_weight: float) -> tuple[Self, Floats, Floats]:
        """Learn from the leave-one-out errors of the seen classes; also returns variances.

        These are the mean squared errors and their predicted variances, without the component that
        only the class itself spans (`own`), as further classes have it outside the space.
        """
        many = ~self.few_shot
        leave_one_out, means = self.leave_one_out[many], self.exemplars[many]
        sizes = self.samples.among(self.classes[many])[1].counts
        errors = means - leave_one_out.means
        inside = errors - (errors * own).sum(axis=1, keepdims=True) * own
        observed = (inside**2).mean(axis=0)
        predicted = (leave_one_out.variances + 1 / sizes[:, None]).mean(axis=0)
        other = replace(
            self,
            variance_ratio=_variance_ratio(observed, predicted, len(errors)),
            axis_weights=1 / (1 + mean_error_weight * (errors**2).mean(axis=0)),
        )
        return other, observed, predicted

    # Orthogonally to the space

    def is_orthogonal(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Which classes may have means outside the space: all but those that span it."""
        return ~is_among(labels, self.classes[~self.few_shot])

    def _orthogonal_samples(
        self, labels: NDArray[Any], counts: Floats, means: Floats, correlations: Floats
    ) -> ClassSamples:
        """What unlabelled samples reveal, as if each class had samples of its own alone."""
        assert self.space.complement is not None
        signal = self.space.complement.signal
        prior = signal * correlations
        noise = np.diag(1 / np.maximum(_ORTHOGONAL_WEIGHT * counts, _LEAST_COUNT))
        gain = np.linalg.solve(prior + noise, prior).T
        shares = np.maximum(1 - np.einsum("ij,ij->i", gain, prior) / signal, _LEAST_COUNT)
        counts = np.maximum((1 / shares - 1) / signal, _LEAST_COUNT)
        return ClassSamples(labels, counts, gain @ means / (signal * shares * counts)[:, None])

    def _orthogonal_means(self, labels: NDArray[Any]) -> Floats:
        """Posterior means as centred features, of which only the orthogonal component counts."""
        assert self.space.complement is not None
        counts, sums = np.zeros(len(labels)), np.zeros((len(labels), len(self.space.matrix)))
        few_shot = self.orthogonal, self.few_shot_weight
        for part, weight in (few_shot, (self.unlabelled_orthogonal, 1.0)):
            if part is not None:
                rows, own = part.among(labels)
                counts[rows] += weight * own.counts
                sums[rows] += weight * own.counts[:, None] * own.means
        signal = self.space.complement.signal
        return sums * (signal / (1 + signal * counts))[:, None]

    def with_columns(self, earlier: Self, changed: NDArray[Any]) -> Self:
        """Compute the columns of changed classes; others are those of an earlier posterior."""
        other, before = self.unlabelled_orthogonal or self.orthogonal, earlier.column_labels
        labels = np.union1d(self.orthogonal.labels, other.labels)
        columns = np.empty((len(labels), earlier.columns.shape[1]))
        known = is_among(labels, before) & ~is_among(labels, changed)
        columns[known] = earlier.columns[np.searchsorted(before, labels[known])]
        if not known.all():
            columns[~known] = self.space.columns(self._orthogonal_means(labels[~known]))
        return replace(self, column_labels=labels, columns=columns)

    # Scores

    def embed(self, X: Array) -> Array:
        """Prepared features as rows (z, e, 1), where e are products with `columns`."""
        z = self.space(X, self.columns if len(self.columns) else None)
        xp = compat.array_namespace(z)
        return xp.concat([z, xp.ones_like(z[:, :1])], axis=1)

    def parameters(self, signatures: Signatures, labels: NDArray[Any] | None) -> Floats:
        """Coefficients of embedded rows in the score of each class."""
        gaussians, unseen_share = self.gaussians(signatures, labels, all_variances=False)
        linear, constant = natural_parameters(gaussians.means, self.axis_weights)
        orthogonal = np.zeros((len(linear), len(self.columns)))
        if labels is not None and len(self.columns):
            rows = np.flatnonzero(is_among(labels, self.column_labels))
            places = np.searchsorted(self.column_labels, labels[rows])
            orthogonal[rows, places] = 1.0
            means = self._orthogonal_means(labels[rows])
            constant[rows, 0] -= 0.5 * np.einsum("ij,ij->i", means, self.columns[places])
        parameters = np.concatenate([linear, orthogonal, constant], axis=1)
        parameters /= self.temperature
        parameters[:, -1] += unseen_share * np.log(self.unseen_odds)
        return parameters

    def realigned(self, parameters: Floats, earlier: Self) -> Floats:
        """Parameters under an earlier posterior, with zeros in the columns added since."""
        wider = np.zeros((len(parameters), self.n_dims + len(self.columns) + 1))
        places = np.searchsorted(self.column_labels, earlier.column_labels)
        wider[:, [*range(self.n_dims), *(self.n_dims + places), -1]] = parameters
        return wider

    def gaussians(
        self, signatures: Signatures, labels: NDArray[Any] | None, *, all_variances: bool = True
    ) -> tuple[ClassGaussians, Floats]:
        """Posterior of each class mean, and the share of the unseen log odds that applies to it.

        The share is 1 without samples, and 0 for classes with many training samples. Variances cost
        as much as means; without `all_variances`, only those that determine means are computed.
        """
        uncertain = None
        if not all_variances:
            uncertain = np.zeros(len(signatures), dtype=bool)
            if labels is not None:
                uncertain = is_among(labels, self.samples.labels) & ~is_among(labels, self.classes)
                uncertain |= is_among(labels, self.unlabelled.labels)
        gaussians = self.prior.predict(signatures, uncertain)
        unseen_share = np.ones(len(gaussians.means))
        if labels is None:
            return gaussians, unseen_share
        means, variances = gaussians.means, gaussians.variances
        rows, samples = self.samples.among(labels)
        if len(rows):
            prior, few_shot = self._prior_of(samples.labels, gaussians[rows])
            weights = np.where(few_shot, self.few_shot_weight, self.seen_weight)
            posterior = prior.given(weights * samples.counts, samples.means)
            means[rows], variances[rows] = posterior.means, posterior.variances
            unseen_share[rows] = np.where(few_shot, odds_share(prior, posterior), 0.0)
        rows, samples = self.unlabelled.among(labels)
        if len(rows):
            prior = self._with_ratio(gaussians, unseen_share)[rows]
            posterior = prior.given(samples.counts, samples.means)
            means[rows], variances[rows] = posterior.means, posterior.variances
            unseen_share[rows] *= odds_share(prior, posterior)
        return gaussians, unseen_share

    def _prior_of(
        self, labels: NDArray[Any], described: ClassGaussians
    ) -> tuple[ClassGaussians, NDArray[np.bool_]]:
        """Prior of classes with samples, and which of them have few."""
        means, variances = described.means, described.variances * self.variance_ratio
        few_shot = np.ones(len(labels), dtype=bool)
        # The prior of a training class must not depend on its own samples.
        trained = is_among(labels, self.classes)
        position = np.searchsorted(self.classes, labels[trained])
        few_shot[trained] = self.few_shot[position]
        means[trained] = self.leave_one_out.means[position]
        variances[trained] = self.leave_one_out.variances[position]
        variances[trained & few_shot] *= self.variance_ratio
        unknown = is_among(labels, self.undescribed)
        means[unknown], variances[unknown] = 0.0, self.spread
        return ClassGaussians(means, variances), few_shot

    def _with_ratio(self, gaussians: ClassGaussians, unseen_share: Floats) -> ClassGaussians:
        """Multiply the variances of classes without samples by `variance_ratio`."""
        ratio = np.where(unseen_share[:, None] == 1, self.variance_ratio, 1.0)
        return ClassGaussians(gaussians.means, gaussians.variances * ratio)
