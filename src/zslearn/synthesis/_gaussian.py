r"""Gaussian exemplars: class means as a Gaussian process over signatures, in a whitened space.

EXEM predicts one point per class. Here each class is a Gaussian: features are whitened by the
pooled covariance within the seen classes, and what is known of the mean of a class is a normal
distribution, that of a Gaussian process over the signatures. A seen class adds its own samples to
it. The score of a class is its log density at the sample, divided by a temperature, plus the log of
its prior:

.. math:: f_c(x) = \log \mathcal N(z; m_c, 1 + v_c) / T + \log \pi_c.

The space and the process are in `_gaussian_process`. Two numbers are found on training samples:

- The temperature T. Real samples have heavier tails than a Gaussian, and classes differ in
  covariance, so that log densities claim more than they know. T is the one under which the labels
  of the training samples are most likely, each scored by the posterior of its own class mean
  without that sample, in closed form.
- The odds :math:`\pi_u / \pi_s` of a class without samples. Its mean is less certain: without a
  prior in its favour its samples go to seen classes. Each fifth of the seen classes in turn is
  taken for unseen, with the means that the other classes predict, and the training samples are
  recognised among all. The odds are those with the largest harmonic mean of the accuracies of the
  two groups, drawn half the way to `USUAL_ODDS`.

Few samples of a class, in training or by :meth:`GaussianEXEM.add_examples`, move its mean away from
what its signature says, by Bayes' rule. The error of means that other classes predict is not what
the process states; in each dimension the seen classes tell a factor, `variance_ratio_`. They span
the space, and each of them a direction that the others do not: a further class has that part of its
mean beyond the space, where its samples alone tell of it (`Beyond`). The log odds fall with what is
left of the variance of the mean. Images without labels do the same within the space, as far as they
are taken for those of a class (`_unlabelled`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes, is_among
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    scaled_rows,
    take_rows,
    to_numpy,
)
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import saved_part
from zslearn._utils._messages import name_some, warn_once
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import ClassStatistics
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params_except
from zslearn.base._streams import is_empty, is_streamed, needs_rows, read_blocks
from zslearn.base._training import Training, chosen_samples
from zslearn.calibration._folds import USUAL_UNLABELLED_WEIGHT
from zslearn.calibration._unlabelled import (
    UNLABELLED_WEIGHTS,
    Adaptation,
    LeftOut,
    Scored,
    WeightChoice,
    accepted_weight,
    choose_weight,
    without_history,
)
from zslearn.signatures._table import SignatureTable, labels_like, sample_labels
from zslearn.signatures._views import Signatures
from zslearn.synthesis._exem import LearnsFromStatistics
from zslearn.synthesis._gaussian_process import (
    Beyond,
    ClassGaussians,
    ClassProcess,
    LayeredKernel,
    SignatureKernel,
    WhitenedSpace,
    WhitenedSpaces,
    best_process,
    into_space,
    posterior,
)
from zslearn.synthesis._relevance import RelevantKernel, relevant_kernel
from zslearn.synthesis._unlabelled import UnlabelledSums, unlabelled_sums

#: The odds where nothing tells them: the ratio of seen to unseen classes in five folds.
USUAL_ODDS = 4.0
_GROUPS = 5
# Fewer seen classes than these tell nothing.
_FEWEST_CLASSES = 2 * _GROUPS
# Logarithms of odds to choose from, and the share of the best that counts as being as good.
_CANDIDATE_LOG_ODDS = np.linspace(-3.0, 12.0, 151)
_AS_GOOD = 0.995


def unseen_odds_of(
    as_seen: Floats,
    as_unseen: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    positions: Floats,
) -> float:
    """The odds under which seen classes and those taken for unseen are recognised equally well."""
    n_seen = as_seen.shape[1]
    if n_seen < _FEWEST_CLASSES:
        return USUAL_ODDS
    group = np.empty(n_seen, dtype=np.intp)
    group[np.argsort(positions, kind="stable")] = np.arange(n_seen) % _GROUPS
    best_seen = np.stack([as_seen[:, group == k].max(axis=1) for k in range(_GROUPS)], axis=1)
    best_unseen = np.stack([as_unseen[:, group == k].max(axis=1) for k in range(_GROUPS)], axis=1)
    rows = np.arange(len(y))
    own_seen, own_unseen = as_seen[rows, y], as_unseen[rows, y]
    # Every class counts the same.
    shares = weights / np.bincount(y, weights, n_seen)[y]
    harmonic = np.zeros(len(_CANDIDATE_LOG_ODDS))
    for k in range(_GROUPS):
        others = np.delete(best_seen, k, axis=1).max(axis=1)
        # A sample is taken for one of an unseen class where the log odds are above this.
        threshold = others - best_unseen[:, k]
        unseen = group[y] == k
        right_seen = shares * (~unseen & (own_seen >= others))
        right_unseen = shares * (unseen & (own_unseen >= best_unseen[:, k]))
        above = threshold[:, None] >= _CANDIDATE_LOG_ODDS
        seen_accuracy = right_seen @ above / max(shares[~unseen].sum(), 1e-300)
        unseen_accuracy = right_unseen @ ~above / max(shares[unseen].sum(), 1e-300)
        total = seen_accuracy + unseen_accuracy
        harmonic += 2 * seen_accuracy * unseen_accuracy / np.where(total > 0, total, 1.0)
    if harmonic.max() <= 0:
        return USUAL_ODDS
    found = _CANDIDATE_LOG_ODDS[harmonic >= _AS_GOOD * harmonic.max()].mean()
    return float(np.exp((found + np.log(USUAL_ODDS)) / 2))


@saved_part
@saves(
    labels=Saved("n_classes", kind="label"),
    counts=Saved("n_classes", above=0),
    means=Saved("n_classes", "n_dims"),
)
class ClassExamples(NamedTuple):
    """Samples of some classes in the whitened space: what they count, and their mean."""

    labels: NDArray[Any]  # sorted
    counts: Floats
    means: Floats

    def with_samples(self, labels: NDArray[Any], z: Floats, count: float = 1.0) -> ClassExamples:
        """With further samples, whatever their order; without them where `count` is -1."""
        every = np.union1d(self.labels, labels)
        known, new = np.searchsorted(every, self.labels), np.searchsorted(every, labels)
        counts, sums = np.zeros(len(every)), np.zeros((len(every), z.shape[1]))
        counts[known], sums[known] = self.counts, self.counts[:, None] * self.means
        np.add.at(counts, new, count)
        np.add.at(sums, new, count * z)
        left = counts > 0
        return ClassExamples(every[left], counts[left], sums[left] / counts[left, None])


# Training images that are kept to try adapting on, about, and how many of these are for testing.
_MOST_IMAGES = 10_000
_TESTED_EVERY = 5


@saved_part
@saves(
    scaled=Saved("n_images", "n_features"),
    units=Saved("n_images", 1, above=0),
    y=Saved("n_images", kind="int", least=0),
    weights=Saved("n_images", above=0, optional=True),
    choices=Saved(kind=WeightChoice, some_keys=("alone", "all"), optional=True),
)
@dataclass(eq=False)
class KeptImages:
    """Prepared features of training images, ordered by class and content, to try adapting on.

    Features rather than whitened images: the covariance and the class means that whiten an image
    have to be learned without it, or it looks nearer to its class than a new image would. Copies of
    a model share this object, so that the trial is made once for all of them.
    """

    scaled: NDArray[np.float16]  # at most 1 in each row
    units: Floats
    y: NDArray[np.intp]
    weights: Floats | None
    choices: dict[str, WeightChoice] | None = None  # what the trial led to, once it was made

    @classmethod
    def of(cls, training: Training) -> KeptImages:
        """About 10,000 images of all classes."""
        most = max(_MOST_IMAGES, 2 * training.n_seen)
        rows = chosen_samples(training.keys(), training.y, most)
        scaled = np.empty((len(rows), training.rows.shape[1]), dtype=np.float16)
        units = np.empty((len(rows), 1))
        for part in row_blocks(len(rows), 16 * scaled.shape[1]):
            X = to_numpy(training.take(rows[part]))
            largest = np.abs(X).max(axis=1, keepdims=True)
            units[part] = np.where(largest > 0, largest, 1.0)
            scaled[part] = X / units[part]
        weights = None if training.weights is None else training.weights[rows]
        return cls(scaled, units, training.y[rows], weights)

    def training(
        self, table: SignatureTable, classes: NDArray[Any], scale: tuple[float, ...]
    ) -> Training:
        """The images beside the signatures of their classes, as `fit` has them."""
        table = table.subset(table.positions(classes))
        signatures = table.normalized(scale, keep_views=True)
        rows = self.scaled.astype(np.float64) * self.units
        return Training(
            rows, self.y, signatures, classes, table, scale, keep_views=True, weights=self.weights
        )


# The inverse temperature is looked for between these multiples of the inverse of the scores' scale.
_RANGE = (1e-3, 1e3)
_PRECISION = 1e-5
# Logarithms of odds stay between these, whatever the temperature.
_LOG_ODDS = (-700.0, 700.0)


class TrainingSamples:
    """Training samples that the temperature is found from; those of one space are kept.

    They are of classes with more than a few samples, and `y` counts these alone.
    """

    def __init__(self, training: Training, few: NDArray[np.bool_]) -> None:
        rows, y, weights = training.some_samples()
        there = ~few[y]
        self.y, self.weights = (np.cumsum(~few) - 1)[y[there]], weights[there]
        self.n = len(self.y)
        # What each stands for: the samples of its class, however few of them are looked at.
        sizes = training.sizes[~few]
        looked_at = np.bincount(self.y, self.weights, len(sizes))
        self.stands_for = self.weights * (sizes / np.where(looked_at > 0, looked_at, 1.0))[self.y]
        rows = take_rows(rows, np.flatnonzero(there))
        self._X = to_numpy(rows).astype(np.float64) if self.n else None
        self._latest: tuple[WhitenedSpace, Floats] | None = None

    def inside(self, space: WhitenedSpace) -> Floats:
        """The samples in a space."""
        if self._latest is None or self._latest[0] is not space:
            z = into_space(self._X, space.matrix, space.offset, space.norm, space.center)
            self._latest = space, z
        return self._latest[1]


def natural_parameters(
    classes: ClassGaussians, *, predictive: bool, axis_weights: Floats | float = 1.0
) -> tuple[Floats, ...]:
    r"""Log densities of samples as a product, over that of the standard normal distribution.

    .. math:: \log \mathcal N(z; m, 1 + v) - \log \mathcal N(z; 0, 1) = \sum_j
              \tfrac12 \left(1 - \tfrac{1}{1 + v_j}\right) z_j^2 + \tfrac{m_j}{1 + v_j} z_j
              - \tfrac12 \left(\tfrac{m_j^2}{1 + v_j} + \log(1 + v_j)\right)
    """
    means = classes.means
    if not predictive:
        linear = means * axis_weights
        return linear, -0.5 * (means * linear).sum(axis=1, keepdims=True)
    variances = 1 + classes.variances
    linear = means / variances
    constant = -0.5 * (means * linear + np.log(variances)).sum(axis=1, keepdims=True)
    return 0.5 * (1 - 1 / variances), linear, constant


def log_densities(
    z: Floats, classes: ClassGaussians, *, predictive: bool, axis_weights: Floats | float = 1.0
) -> Floats:
    """Log densities of samples under each class, over those of the standard normal distribution."""
    *square, linear, constant = natural_parameters(
        classes, predictive=predictive, axis_weights=axis_weights
    )
    out = z @ linear.T + constant.T
    for factor in square:
        out += (z * z) @ factor.T
    return out


def held_out_scores(
    z: Floats,
    y: NDArray[np.intp],
    weights: Floats,
    prior: ClassGaussians,
    sizes: Floats,
    means: Floats,
    seen: ClassGaussians,
    *,
    predictive: bool,
    axis_weights: Floats | float = 1.0,
) -> Floats:
    r"""Scores of training samples, that of a sample's own class without the sample.

    With :math:`m, v` what the other classes tell of a class mean, a sample z of weight w leaves

    .. math:: m' = \frac{m / v + n y - w z}{1 / v + n - w}, \qquad v' = \frac{1}{1 / v + n - w}.
    """
    scores = log_densities(z, seen, predictive=predictive, axis_weights=axis_weights)
    removed = weights[:, None]
    left = np.maximum(sizes[y][:, None] - removed, 0.0)
    sums = sizes[y][:, None] * means[y] - removed * z
    variances = prior.variances[y]
    denominator = 1 + left * variances
    own_means = (prior.means[y] + variances * sums * (left > 0)) / denominator
    if predictive:
        spread = 1 + variances / denominator
        own = 0.5 * (z**2 - (z - own_means) ** 2 / spread - np.log(spread)).sum(axis=1)
    else:
        own = (axis_weights * own_means * (z - 0.5 * own_means)).sum(axis=1)
    scores[np.arange(len(y)), y] = own
    return scores


def likeliest_temperature(scores: Floats, y: NDArray[np.intp], weights: Floats) -> float:
    r"""The temperature under which labels are most likely; 1 where scores tell nothing.

    With β = 1/T, the derivative of :math:`\sum_i w_i (\beta \sum_c q_{ic} f_{ic} - \log \sum_c
    \exp \beta f_{ic})` is brought to zero. q is 1 − ε at the true class, plus ε spread over all,
    with ε = 1 / (n + 2), so that T stays above 0 where every sample is right.
    """
    shares = weights / weights.sum()
    scores = scores - scores.max(axis=1, keepdims=True)
    scale = -float(shares @ scores.mean(axis=1))
    if not np.isfinite(scale) or scale <= 0:
        return 1.0
    scores /= scale
    epsilon = 1 / (float(weights.sum()) + 2)
    wanted = (1 - epsilon) * float(shares @ scores[np.arange(len(y)), y]) - epsilon

    def slope(log_beta: float) -> tuple[float, float]:
        """What is brought to zero, and its derivative by log β: β times the variance."""
        beta = np.exp(log_beta)
        powers = np.exp(beta * scores)
        powers /= powers.sum(axis=1, keepdims=True)
        terms = powers * scores
        expected = terms.sum(axis=1)
        variance = np.einsum("ij,ij->i", terms, scores) - expected**2
        return float(shares @ expected) - wanted, float(beta * (shares @ variance))

    return scale / float(np.exp(_root(slope, *np.log(_RANGE))))


def _root(function: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Where a rising function, given with its derivative, is zero: Newton's steps in a bracket.

    The bound that is nearest where the function is zero nowhere between them.
    """
    at = (low + high) / 2
    while high - low > _PRECISION:
        value, derivative = function(at)
        low, high = (at, high) if value < 0 else (low, at)
        step = value / derivative if derivative > 0 else np.inf
        if abs(step) < _PRECISION:
            return at - step
        at = at - step if low < at - step < high else (low + high) / 2
    return at


# So many classes would have to agree with the mean over all dimensions to halve its weight.
_RATIO_CLASSES = 10


def _confirmed_ratio(found: Floats, stated: Floats, n_classes: int) -> Floats:
    """Squared errors by the variances that were stated for them, in each dimension.

    With few classes drawn to the ratio over all dimensions.
    """
    overall = float(found.sum() / max(float(stated.sum()), 1e-300))
    each = found / np.maximum(stated, 1e-300)
    return (n_classes * each + _RATIO_CLASSES * overall) / (n_classes + _RATIO_CLASSES)


def _share_left(before: ClassGaussians, after: ClassGaussians) -> Floats:
    """The share of the variance of each class mean, over all dimensions, that samples leave."""
    total = before.variances.sum(axis=1)
    return after.variances.sum(axis=1) / np.where(total > 0, total, 1.0)


# What `select` chooses from.
_GAMMAS = tuple(2.0**k for k in range(-4, 3))
_ALPHAS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_AFTER_THE_PROCESS = (
    *(
        "variance",
        "mean_error_weight",
        "seen_weight",
        "unlabelled_weight",
        "unseen_odds",
        "temperature",
    ),
)
# Groups of seen classes, of five, that are held out to choose the weight of unlabelled images.
_LEFT_OUT = 3


@inherit_docs
@saves(
    {
        "_process.coef": Saved("n_seen", "n_dims"),
        "_prior.means": Saved("n_seen", "n_dims"),
        "_examples.means": Saved("n_examples", "n_dims"),
        "_unlabelled.means": Saved("n_unlabelled", "n_dims"),
        "_centered.means": Saved("n_centered", "n_features"),
        "_beyond.center": Saved("n_features"),
        "_kept.scaled": Saved("n_kept", "n_features"),
        "_kept.y": Saved("n_kept", kind="int", least=0, into="n_seen"),
    },
    matrix_=Saved("n_features", "n_columns"),
    offset_=Saved("n_columns"),
    norm_=Saved(above=0, optional=True),
    center_=Saved("n_dims"),
    exemplars_=Saved("n_seen", "n_dims"),
    seen_means_=Saved("n_seen", "n_dims"),
    seen_variances_=Saved("n_seen", "n_dims", least=0),
    signal_variances_=Saved("n_dims", least=0),
    stated_variances_=Saved("n_dims", least=0),
    found_variances_=Saved("n_dims", least=0),
    variance_ratio_=Saved("n_dims", least=0),
    axis_weights_=Saved("n_dims", above=0),
    gamma_=Saved(above=0),
    alpha_=Saved(above=0),
    view_weights_=Saved("n_views", least=0, optional=True),
    log_evidence_=Saved(),
    loo_error_=Saved(least=0),
    temperature_=Saved(above=0),
    unseen_odds_=Saved(above=0, optional=True),
    _kept=Saved(kind=KeptImages, optional=True),
    adapted_from_=Saved(kind=ZeroShotClassifier, optional=True),
    adaptation_=Saved(kind=Adaptation, optional=True),
    _process=Saved(kind=ClassProcess),
    _prior=Saved(kind=ClassGaussians),
    _few=Saved("n_seen", kind="bool"),
    _examples=Saved(kind=ClassExamples),
    _unlabelled=Saved(kind=ClassExamples),
    _centered=Saved(kind=ClassExamples),
    _undescribed=Saved("n_undescribed", kind="label"),
    _beyond=Saved(kind=Beyond, optional=True),
)
class GaussianEXEM(AcceptsSampleWeight, LearnsFromStatistics):
    r"""Gaussian exemplars: predict the mean of each class, and how sure that prediction is.

    Features are whitened by the covariance within the seen classes. There the mean of a class
    follows a Gaussian process over the signatures; that of a seen class also follows its own
    samples. All is linear algebra on the statistics of the classes: a model of 150 classes is
    learned in a second. The scores are log probabilities, and :meth:`predict_proba` needs no
    wrapper.

    Parameters
    ----------
    n_components : int or None, default=None
        Principal components of the samples that are whitened; None takes the features as they are.
        More than the samples have are clipped, with a warning.
    shrinkage : float, default=0.5
        ρ in (0, 1]: share of the mean variance in the covariance within classes. With 1 all
        directions count the same.
    gamma : float, default=1.0
        Width of the RBF kernel between signatures, 1/σ².
    alpha : float, default=0.1
        Variance of what the signature does not tell of a class mean, in units of the variance of
        what it tells.
    layers : {1, 2}, default=2
        With 2 the kernel between classes is half that of their signatures and half that of the
        class means that a first process predicts: signatures that differ may describe classes that
        look similar. With 1 it is that of the signatures alone.
    seen_weight : float, default=0.3
        How many independent samples a sample of a seen class is worth, in (0, 1]. Less than 1 where
        samples are near copies of one another, or classes differ in covariance: its signature then
        counts for more in the mean of a seen class. Unseen classes do not depend on it.
    few_shot_weight : float, default=0.6
        The same for a sample of a class with few samples, in training or by :meth:`add_examples`.
        A search finds it where its folds give some samples of the classes that are left out back.
    unlabelled_weight : "cv" or float, default="cv"
        The same for an unlabelled image, times the probability that it is of the class; used by
        :meth:`adapt` alone, which leaves the model as it is with 0. "cv" chooses it at the first
        :meth:`adapt`, on seen classes that are held out. `fit` keeps the features of about 10,000
        training images in float16 for that, which are saved with the model; with a number it keeps
        none, nor do the fits of a grid. A search chooses it where its folds give the images of
        held-out classes without labels.
    whitened_norm : bool, default=True
        Whether whitened samples are brought to a common norm. In fewer than eight dimensions, that
        is with fewer than nine seen classes, they never are.
    select : {"loo", "evidence", "views"} or None, default=None
        Choose `gamma` and `alpha` on the seen classes without folds, in place of those given:
        by the least squared error of class means that all other classes predict, in closed form,
        or by the largest evidence. See the user guide: of the two "loo" is the better. "views"
        learns more by that error: the weight and the width of each view of
        :class:`~zslearn.signatures.MultiSignatures`, a factor for each direction of its vectors,
        and `alpha`; see :ref:`words`.
    variance : {"shared", "predictive"}, default="shared"
        Whether all classes have the covariance of the samples, so that the nearest class mean
        wins, or what is not known of the class mean is added to it.
    mean_error_weight : float, default=0.0
        How much of the error of predicted class means is added to the variance of samples, which is
        1: a dimension in which the mean of a class is far from what the other classes predict then
        counts for less. The error is the squared one, averaged over the seen classes, each
        predicted by the others. Ignored with variance="predictive", which adds what is not known
        of each class.
    unseen_odds : float, "samples" or "balanced", default="samples"
        How much likelier a class without samples is than one with samples, before the sample is
        looked at; 1: they are equally likely. "samples" finds it on a thousand training samples at
        most: each fifth of the seen classes in turn has the means that all other classes predict,
        and what balances it with the others is drawn halfway to 4, the ratio in five folds over
        classes. With fewer than ten seen classes, or from statistics alone, it is 4. "balanced"
        takes the number of seen classes over that of unseen ones, as the harmonic mean of their
        accuracies does; a class with few samples counts among the latter. It then depends on how
        many classes are described.
    temperature : "samples" or float, default="samples"
        What log densities are divided by. "samples" takes the temperature under which the labels of
        a thousand training samples at most are likeliest, each scored without itself. Statistics
        alone do not tell it: with :meth:`fit_statistics` and :meth:`partial_fit` it is then 1.

    Attributes
    ----------
    matrix_ : ndarray of shape (n_features, n_dims + n_few)
        From prepared features to the whitened space, of at most n_seen − 1 dimensions, and to their
        products with what the means of classes with a few samples have beyond it.
    offset_ : ndarray of shape (n_dims + n_few,)
        What is taken from the product.
    norm_ : float or None
        The norm that whitened samples are brought to; None where they keep theirs.
    center_ : ndarray of shape (n_dims,)
        What is taken from them last.
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Means of the samples of the seen classes, in the whitened space.
    seen_means_, seen_variances_ : ndarray of shape (n_seen, n_dims)
        What signatures and samples together tell of the means of the seen classes.
    signal_variances_ : ndarray of shape (n_dims,)
        Variance of the process in each dimension.
    gamma_, alpha_ : float
        Those used: given, or chosen by `select`; with "views" γ is 1 and in the widths.
    view_weights_ : ndarray of shape (n_views,)
        With select="views": the weights of the views, of sum one.
    log_evidence_ : float
        Log density of the means of the seen classes; with two layers the kernel knows them.
    loo_error_ : float
        Mean squared distance of a seen class's mean from what the other classes predict.
    axis_weights_ : ndarray of shape (n_dims,)
        How much each dimension counts: all the same, unless there is `mean_error_weight`.
    stated_variances_, found_variances_ : ndarray of shape (n_dims,)
        What the process states for the distance of a seen class's mean from what the other classes
        predict, and the squared distances, both averaged over the classes. The direction that no
        other class spans does not count: what a further class has there lies beyond the space.
    variance_ratio_ : ndarray of shape (n_dims,)
        The second by the first, drawn to their ratio over all dimensions where there are few
        classes. The variance of a class with a few samples is multiplied by it.
    unlabelled_choices_ : dict of str to WeightChoice
        For candidates without labelled images "alone", and for "all" classes: the weight in
        unlabelled images that held-out classes choose, 0 where they lose by it, and their score
        without and with it. The first :meth:`adapt` finds it. Empty where nothing can be held out.
    adapted_from_ : GaussianEXEM
        After :meth:`adapt`: the model that was adapted, as it was then, without the model that it
        had been adapted from in turn.
    adaptation_ : Adaptation
        After :meth:`adapt`: what the images did.
    temperature_ : float
        The temperature.
    unseen_odds_ : float or None
        The odds used; None where they depend on what is described.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: what is known of the samples so far.

    See Also
    --------
    EXEM : Points in place of Gaussians; the paper's.
    zslearn.baselines.GFZSL : Regresses means and variances of features, one by one.
    zslearn.metrics.VarianceDisplay : Shows the variances that are stated and those that are found.

    Notes
    -----
    A seen class is recognised by its label: without labels :meth:`synthesize` predicts every class
    from its signature alone.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import GaussianEXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    >>> chances = model.predict_proba(data.X_test_unseen, classes=data.unseen_classes)
    >>> bool(abs(chances.sum(axis=1) - 1).max() < 1e-9)
    True
    """

    embedding_attributes = ("matrix_", "offset_", "norm_", "center_", "variance")
    keep_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "shrinkage": [Interval(Real, 0, 1, closed="right")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "layers": [Options(Integral, {1, 2})],
        "seen_weight": [Interval(Real, 0, 1, closed="right")],
        "few_shot_weight": [Interval(Real, 0, 1, closed="right")],
        "unlabelled_weight": [StrOptions({"cv"}), Interval(Real, 0, 1, closed="both")],
        "whitened_norm": ["boolean"],
        "select": [StrOptions({"loo", "evidence", "views"}), None],
        "variance": [StrOptions({"shared", "predictive"})],
        "mean_error_weight": [Interval(Real, 0, None, closed="left")],
        "unseen_odds": [
            StrOptions({"samples", "balanced"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "temperature": [StrOptions({"samples"}), Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, Any]] = {
        "paper": {
            "layers": [2, 1],
            "shrinkage": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
            "gamma": [2.0**k for k in range(-3, 3)],
            "alpha": [0.01, 0.03, 0.1, 0.3, 1.0],
            "seen_weight": [0.3, 0.1, 0.03, 1.0],
            "mean_error_weight": [0.0, 0.3, 1.0, 3.0],
        },
        "fast": [
            {
                "layers": [2],
                "shrinkage": [0.1, 0.3, 0.5, 0.7, 0.9],
                "gamma": [1.0, 0.5, 0.25, 0.125],
                "alpha": [0.1, 0.3, 0.03, 0.01],
                "seen_weight": [0.3, 0.1, 0.03],
            },
            {"layers": [1], "shrinkage": [0.3, 0.6], "gamma": [0.5], "alpha": [0.1, 0.03]},
            {
                "layers": [1, 2],
                "mean_error_weight": [0.3, 3.0],
                "shrinkage": [0.3, 0.6],
                "gamma": [0.5, 1.0],
                "alpha": [0.1, 0.03],
            },
        ],
    }

    learns_from_sums = True

    # What learning from chunks asks of EXEM.
    estimator: Any = None
    distance: str = "euclidean"

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: float = 0.5,
        gamma: float = 1.0,
        alpha: float = 0.1,
        *,
        layers: int = 2,
        seen_weight: float = 0.3,
        few_shot_weight: float = 0.6,
        unlabelled_weight: str | float = "cv",
        whitened_norm: bool = True,
        select: str | None = None,
        variance: str = "shared",
        mean_error_weight: float = 0.0,
        unseen_odds: str | float = "samples",
        temperature: str | float = "samples",
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.gamma = gamma
        self.alpha = alpha
        self.layers = layers
        self.seen_weight = seen_weight
        self.few_shot_weight = few_shot_weight
        self.unlabelled_weight = unlabelled_weight
        self.whitened_norm = whitened_norm
        self.select = select
        self.variance = variance
        self.mean_error_weight = mean_error_weight
        self.unseen_odds = unseen_odds
        self.temperature = temperature
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Statistics, whitening and eigenvectors of kernels are shared."""
        for model in cls._learn(training, training.sums, variants):
            if len(variants) == 1 and model.unlabelled_weight == "cv" and len(training.y):
                model._kept = KeptImages.of(training)
            yield model

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Learn from statistics of the samples; a space at a time, so that rows embed once."""
        spaces = WhitenedSpaces(training, statistics, [model.n_components for model in variants])
        kernel = cache(partial(SignatureKernel, training.signatures))
        samples = TrainingSamples(training, spaces.few)
        same_process = group_by_params_except(variants, *_AFTER_THE_PROCESS)
        for models in sorted(same_process, key=lambda models: models[0]._of_space()):
            first = models[0]
            space = spaces.space(first.n_components, first.shrinkage, first.whitened_norm)
            if len(variants) == 1 and space.beyond is not None:
                # Not left to the first examples; settings of a search may do without.
                _ = space.beyond.products
            worth = statistics.sizes * np.where(spaces.few, first.few_shot_weight, 1.0)
            process = first._process_of(kernel, space.means, worth)
            prior = process.leave_one_out()
            for model in models:
                examples = ClassExamples(statistics.classes, statistics.sizes, space.means)
                model._take(space, process, prior, examples, spaces.few, samples)
                yield model

    def _check_views(self, table: SignatureTable) -> None:
        """Classes may lack views: the kernel compares those that both have."""

    def _of_space(self) -> tuple[Any, ...]:
        return self.n_components or 0, self.shrinkage, self.whitened_norm

    def _process_of(
        self, kernel: Callable[[float], SignatureKernel], means: Floats, sizes: Floats
    ) -> ClassProcess:
        """The process, with as many layers as wanted; `select` looks at the first."""
        if self.select is None:
            process = ClassProcess(kernel(self.gamma), means, sizes, self.alpha)
        elif self.select == "views":
            relevant, alpha = relevant_kernel(kernel(1.0).seen, means, sizes)
            process = ClassProcess(relevant, means, sizes, alpha)
        else:
            kernels = [kernel(gamma) for gamma in _GAMMAS]
            process = best_process(kernels, means, sizes, _ALPHAS, self.select)
        if self.layers == 1:
            return process
        return ClassProcess(LayeredKernel(process), means, sizes, process.alpha)

    def _take(
        self,
        space: WhitenedSpace,
        process: ClassProcess,
        prior: ClassGaussians,
        examples: ClassExamples,
        few: NDArray[np.bool_],
        samples: TrainingSamples,
    ) -> None:
        """Take over the process; `prior` is what it says of each seen class without that class."""
        self._process, self._prior, self._examples, self._few = process, prior, examples, few
        self._undescribed = examples.labels[:0]
        self._unlabelled = ClassExamples(examples.labels[:0], np.empty(0), space.means[:0])
        self._kept: KeptImages | None = None
        self.matrix_, self.offset_, self.exemplars_ = space.matrix, space.offset, space.means
        self.norm_, self.center_ = space.norm, space.center
        self._beyond = space.beyond
        self._centered = ClassExamples(examples.labels[few], examples.counts[few], space.centered)
        self._reach_beyond(self._centered.labels, self._centered.labels[:0])
        self.signal_variances_ = process.signal
        self.gamma_, self.alpha_ = float(process.kernel.gamma), float(process.alpha)
        first = getattr(process.kernel, "below", process.kernel)
        if isinstance(first, RelevantKernel):
            self.view_weights_ = np.array(first.weights)
        self.log_evidence_ = process.log_evidence()
        many = ~few
        errors = (space.means - prior.means)[many]
        # The direction that a class alone spans: of a further class, this lies beyond the space.
        inside = errors - (errors * space.own).sum(axis=1, keepdims=True) * space.own
        self.found_variances_, errors = (inside**2).mean(axis=0), errors**2
        self.loo_error_ = float(errors.sum(axis=1).mean())
        stated = (prior.variances + 1 / examples.counts[:, None])[many].mean(axis=0)
        self.stated_variances_ = stated
        self.variance_ratio_ = _confirmed_ratio(self.found_variances_, stated, len(errors))
        predictive = self.variance == "predictive"
        self.axis_weights_ = 1 / (
            1 + (0.0 if predictive else self.mean_error_weight) * errors.mean(axis=0)
        )
        sizes = examples.counts[many] * self.seen_weight
        known = ClassGaussians(prior.means[many], prior.variances[many])
        seen = posterior(known, sizes, space.means[many])
        self._find_temperature_and_odds(samples, space, known, seen, sizes)
        seen, _ = self._with_examples(prior, prior, self.seen_classes_)
        self.seen_means_, self.seen_variances_ = seen.means, seen.variances

    def _find_temperature_and_odds(
        self,
        samples: TrainingSamples,
        space: WhitenedSpace,
        prior: ClassGaussians,
        seen: ClassGaussians,
        sizes: Floats,
    ) -> None:
        """Take the temperature and the odds that are given, or find them on the samples."""
        finds_temperature, finds_odds = self.temperature == "samples", self.unseen_odds == "samples"
        self.temperature_ = 1.0 if finds_temperature else float(self.temperature)
        self.unseen_odds_: float | None = USUAL_ODDS
        if not finds_odds:
            self.unseen_odds_ = None if self.unseen_odds == "balanced" else float(self.unseen_odds)
        if not (finds_temperature or finds_odds):
            return
        if not samples.n:
            what = (
                "the temperature of GaussianEXEM: it is 1. Give the one that fit finds on samples "
                "(temperature_) as temperature=, and unseen_odds_ as unseen_odds=."
                if finds_temperature
                else f"the odds of unseen classes: they are {USUAL_ODDS:g}. Give those that fit "
                "finds on samples (unseen_odds_) as unseen_odds=."
            )
            warn_once(f"Statistics do not tell {what}")
            return
        y, z, means = samples.y, samples.inside(space), space.means[~self._few]
        how: dict[str, Any] = {
            "predictive": self.variance == "predictive",
            "axis_weights": self.axis_weights_,
        }
        worth = self.seen_weight * np.minimum(samples.weights, 1.0)
        as_seen = held_out_scores(z, y, worth, prior, sizes, means, seen, **how)
        likeliest = likeliest_temperature(as_seen, y, samples.stands_for)
        if finds_temperature:
            self.temperature_ = likeliest
        if finds_odds:
            as_unseen = log_densities(z, prior, **how)
            # Found at the temperature that the samples tell, whichever is used.
            odds = unseen_odds_of(
                as_seen / likeliest, as_unseen / likeliest, y, samples.stands_for, means[:, 0]
            )
            log_odds = np.log(odds) * likeliest / self.temperature_
            self.unseen_odds_ = float(np.exp(np.clip(log_odds, *_LOG_ODDS)))

    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Take in labelled samples of any classes, without learning anything else again.

        Each moves the mean of its class, from what the signature says of it, as Bayes' rule asks.
        The order of samples and calls does not matter. :meth:`fit` and :meth:`partial_fit` begin
        without what was added.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Their labels. A class that is neither described nor in `signatures` is known by these
            samples alone: before them, its mean is like those of the seen classes.
        signatures : DataFrame, mapping or MultiSignatures, optional
            Signatures of classes that are not in `classes_`; see :meth:`add_classes`.

        Returns
        -------
        self
            The method. After an error it is as it was.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        """
        given, prepared = self._labelled_samples(X, y)

        def take(changed: Self) -> None:
            table = known = changed._described.table
            before = changed._centered.labels
            if signatures is not None:
                table = table.union(SignatureTable.from_new(signatures, table))
            unknown = np.setdiff1d(given, table.labels)
            table = table.with_undescribed(unknown)
            changed._examples = changed._examples.with_samples(given, changed._whitened(prepared))
            changed._add_beyond(prepared, given)
            changed._undescribed = np.union1d(changed._undescribed, unknown)
            if len(table.labels) > len(known.labels) or changed.unseen_odds_ is None:
                changed._describe(table)
            else:
                changed._describe_again(np.unique(given), before)

        return self._change(take)

    def remove_examples(self, X: Any, y: Any) -> Self:
        """Take back labelled samples that :meth:`add_examples` took in.

        The model is as if they had never been added, up to rounding. An adaptation to unlabelled
        images that was made in between stays as it is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features that were given to :meth:`add_examples`.
        y : array-like of shape (n_samples,)
            The labels that were given with them.

        Returns
        -------
        self
            The method. After an error it is as it was.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        >>> model = model.remove_examples(data.X_test_unseen[:1], data.y_test_unseen[:1])
        """
        given, prepared = self._labelled_samples(X, y)

        def take(changed: Self) -> None:
            known, table = changed._examples, changed._described.table
            counts = dict(zip(known.labels.tolist(), known.counts.tolist(), strict=True))
            given_counts = Counter(given.tolist())
            if lacking := [c for c, n in given_counts.items() if n > counts.get(c, 0)]:
                raise ValueError(
                    f"Fewer samples of {name_some(lacking)} were added than are to be removed: "
                    "give samples that add_examples was given."
                )
            changed._examples = known.with_samples(given, changed._whitened(prepared), -1.0)
            gone = np.setdiff1d(changed._undescribed, changed._examples.labels)
            if gone.size:
                raise ValueError(
                    f"{name_some(gone.tolist())} would be known by nothing: such a class can be "
                    "removed as a whole (remove_classes)."
                )
            changed._add_beyond(prepared, given, -1.0)
            described = table.normalized(self.signature_scale_, keep_views=True)
            changed._describe(table, described)

        return self._change(take)

    def _labelled_samples(self, X: Any, y: Any) -> tuple[NDArray[Any], Floats]:
        """Labels like those of the model, and prepared features."""
        check_is_fitted(self)
        if is_streamed(X):
            raise needs_rows(self, X)
        X, given = self._check_features(X), sample_labels(y)
        check_consistent_length(X, given)
        given = labels_like(given, self.classes_, "y", "the fitted classes")
        return given, np.asarray(to_numpy(self._prepare(X).whole()), dtype=np.float64)

    def adapt(self, X: Any, *, classes: Any = None, accept: str | bool = "cv") -> Self:
        """Adapt the means of classes to unlabelled images.

        The images may be of any of the candidates, in any proportion, and of none of them. An
        adapted model takes in labelled samples and describes further classes as any other, without
        looking at the images again; adapting it to other images begins with what was known before
        the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: an array of any library, a :class:`~zslearn.datasets.FeatureBlocks` or a
            dask array, which are read three times, a block at a time.
        classes : array-like of labels, optional
            Candidates that the images may be of; by default every class in `classes_`.
        accept : "cv" or True, default="cv"
            "cv" uses the images only if seen classes that are held out gain by theirs; a warning
            reports where they do not. The first call tries it, and its result is kept. With True,
            or a number as `unlabelled_weight`, the images are always used.

        Returns
        -------
        GaussianEXEM
            An adapted copy, with `adaptation_` and `adapted_from_`; this model stays as it is.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(n_seen=40, random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
        >>> adapted.adaptation_.accepted
        True
        """
        check_is_fitted(self)
        state = self._frozen()
        table = state._described.table
        candidates = (
            table.labels
            if classes is None
            else table.labels[np.sort(find_classes(classes, table.labels))]
        )
        known = is_among(candidates, state.seen_classes_[~state._few])
        choice = state._trial_choices().get("all" if known.any() else "alone")
        given = None if state.unlabelled_weight == "cv" else float(state.unlabelled_weight)
        weight = accepted_weight(choice, accept, given)
        original = state._copy()
        original._unlabelled = ClassExamples(candidates[:0], np.empty(0), state.exemplars_[:0])
        signatures = table.subset(table.positions(candidates)).normalized(
            state.signature_scale_, keep_views=True
        )
        before, _ = original._gaussians(signatures, candidates)
        sums = original._unlabelled_sums(
            partial(state._whitened_blocks, X),
            signatures,
            candidates,
            weight or UNLABELLED_WEIGHTS[0],
        )
        adapted = original._copy()
        if sums is not None and weight:
            adapted._unlabelled = ClassExamples(candidates, weight * sums.counts, sums.means)
        after, _ = adapted._gaussians(signatures, candidates)
        adapted._describe(table)
        adapted.adapted_from_ = without_history(state)
        adapted.adaptation_ = Adaptation.of(
            choice,
            weight,
            0 if sums is None else sums.n,
            0.0 if sums is None else 1 - sums.explained / sums.n,
            labels=candidates,
            start=before.means,
            end=after.means,
            counts=np.zeros(len(candidates)) if sums is None else sums.counts,
        )
        return adapted._settled()

    def _whitened_blocks(self, X: Any) -> Iterator[Array]:
        """Images in the whitened space, a block at a time."""
        if is_streamed(X):
            blocks = read_blocks(self._check_stream(X))
        elif is_empty(X):
            return
        else:
            X = self._check_features(X)
            row_bytes = 8 * (X.shape[1] + 4 * (len(self.classes_) + self.matrix_.shape[1]))
            blocks = (X[rows, :] for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)))
        for rows in blocks:
            yield self._whitened(self._prepare(rows).whole())

    def _unlabelled_sums(
        self,
        blocks: Callable[[], Iterable[Array]],
        signatures: Signatures,
        labels: NDArray[Any],
        weight: float,
    ) -> UnlabelledSums | None:
        """What images without labels add up to, for these classes."""
        known, as_unseen = self._gaussians(signatures, labels)
        predictive = self.variance == "predictive"

        def scored_by(classes: ClassGaussians) -> tuple[Floats, ...]:
            parts = natural_parameters(
                classes, predictive=predictive, axis_weights=self.axis_weights_
            )
            return tuple(part / self.temperature_ for part in parts)

        return unlabelled_sums(
            blocks,
            self._confirmed(known, as_unseen),
            as_unseen * self._log_odds(as_unseen),
            (self.exemplars_[~self._few] ** 2).mean(axis=0),
            weight,
            scored_by,
            partial(natural_parameters, predictive=True),
        )

    @property
    def unlabelled_choices_(self) -> dict[str, WeightChoice]:
        """What held-out classes chose in the trial that the first `adapt` makes."""
        if self._kept is None:
            return {}
        if self._kept.choices is None:
            # Not computed here: notebooks read every attribute of what they show.
            raise AttributeError("unlabelled_choices_ is there once adapt was called.")
        return self._kept.choices

    def _trial_choices(self) -> dict[str, WeightChoice]:
        """The same; the trial is made if there was none yet."""
        if self._kept is not None and self._kept.choices is None:
            self._kept.choices = choose_weight(self._left_out())
        return self.unlabelled_choices_

    def _left_out(self) -> Iterator[tuple[LeftOut, Scored]]:
        """Models of the same setting without some of the seen classes, and images of these."""
        many = np.flatnonzero(~self._few)
        if self._kept is None or len(many) < _FEWEST_CLASSES:
            return
        training = self._kept.training(
            self._described.table, self.seen_classes_, self.signature_scale_
        )
        y = training.y
        # Images are ordered by class: one of so many is for testing.
        rank = np.arange(len(y)) - np.searchsorted(y, y)
        is_tested = rank % _TESTED_EVERY == _TESTED_EVERY - 1
        order = many[np.argsort(self.exemplars_[many, 0], kind="stable")]
        for k in range(_LEFT_OUT):
            described = np.sort(order[k::_GROUPS])
            trained = np.setdiff1d(np.arange(len(self._few)), described)
            left = np.isin(y, described)
            part = training.only(trained, np.flatnonzero(~left & ~is_tested))
            model = clone(self)
            model._take_training(part)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in self._learn(part, part.sums, [model]):
                    pass
            images, others = (
                model._within_and_beyond(training.take(np.flatnonzero(which)))
                for which in (left, ~left & is_tested)
            )
            scored = partial(model._scores_after, training.signatures, training.classes)
            yield LeftOut(described, trained, images, y[left], others, y[~left & is_tested]), scored

    def _scores_after(
        self,
        signatures: Signatures,
        labels: NDArray[Any],
        pile: Floats,
        candidates: NDArray[np.intp],
        weight: float,
    ) -> Floats:
        """Scores of whitened images for some classes, after adapting to them."""
        signatures, labels = signatures[candidates], labels[candidates]
        adapted = self
        if weight:
            adapted = self._after(pile[:, : len(self.center_)], signatures, labels, weight)
        return np.asarray(self._of_whitened(pile) @ adapted.synthesize(signatures, labels).T)

    def _after(self, z: Array, signatures: Signatures, labels: NDArray[Any], weight: float) -> Self:
        """A copy adapted to whitened images; its classes are not described anew."""
        sums = self._unlabelled_sums(lambda: [z], signatures, labels, weight)
        adapted = self._copy()
        if sums is not None:
            adapted._unlabelled = ClassExamples(labels, weight * sums.counts, sums.means)
        return adapted

    def _adapted_to(self, rows: EmbeddedRows, classes: NDArray[Any]) -> Self:
        """As :meth:`adapt`, for a search: rows are embedded once, and nothing is reported."""
        table, n_dims = self._described.table, len(self.center_)
        table = table.subset(table.positions(np.sort(classes)))
        described = table.normalized(self.signature_scale_, keep_views=True)
        weight = (
            USUAL_UNLABELLED_WEIGHT
            if self.unlabelled_weight == "cv"
            else float(self.unlabelled_weight)
        )
        first = n_dims if self.variance == "predictive" else 0
        z = rows.embedded_by(self._embedding())[:, first : first + n_dims]
        adapted = self._after(z, described, table.labels, weight)
        adapted._describe(self._described.table)
        return adapted._settled()

    def _describe_again(self, labels: NDArray[Any], before: NDArray[Any]) -> None:
        """Make the parameters of some described classes anew; `before` had a column each."""
        table, parameters = self._described.table, self._described.parameters
        rows = table.positions(labels)
        signatures = table.subset(rows).normalized(self.signature_scale_, keep_views=True)
        new = self.synthesize(signatures, labels)
        wider = np.zeros((len(parameters), new.shape[1]))
        first = new.shape[1] - 1 - (self.matrix_.shape[1] - len(self.center_))
        wider[:, :first], wider[:, -1] = parameters[:, :first], parameters[:, -1]
        if first < parameters.shape[1] - 1:
            at = first + np.searchsorted(self._centered.labels, before)
            wider[:, at] = parameters[:, first:-1]
        wider[rows] = new
        self._described = type(self._described)(table, wider)

    def _add_beyond(self, X: Floats, labels: NDArray[Any], count: float = 1.0) -> None:
        """Take in what samples have beyond the space, of classes with a few of them."""
        there = ~is_among(labels, self.seen_classes_[~self._few])
        if self._beyond is None or not there.any():
            return
        X, labels, before = X[there], labels[there], self._centered.labels
        centered = X - self._beyond.center
        if self.norm_ is not None:
            n_dims = len(self.center_)
            z = X @ self.matrix_[:, :n_dims] - self.offset_[:n_dims]
            centered = centered * self.norm_ / np.multiply(*scaled_rows(z)[1:])
        self._centered = self._centered.with_samples(labels, centered, count)
        self._reach_beyond(np.unique(labels), before)

    def _reach_beyond(self, labels: NDArray[Any], before: NDArray[Any]) -> None:
        """Make the columns of some classes; those of the classes `before` are there."""
        if self._beyond is None or not len(labels):
            return
        n_dims, now = len(self.center_), self._centered.labels
        stays, labels = is_among(before, now), labels[is_among(labels, now)]
        matrix = np.empty((len(self.matrix_), n_dims + len(now)))
        offset = np.empty(matrix.shape[1])
        old = [*range(n_dims), *(n_dims + np.flatnonzero(stays))]
        kept = [*range(n_dims), *(n_dims + np.searchsorted(now, before[stays]))]
        matrix[:, kept], offset[kept] = self.matrix_[:, old], self.offset_[old]
        at = np.searchsorted(now, labels)
        columns = self._beyond.products @ self._centered.means[at].T
        matrix[:, n_dims + at], offset[n_dims + at] = columns, self._beyond.center @ columns
        self.matrix_, self.offset_ = matrix, offset

    def _remove(self, labels: NDArray[Any], kept: NDArray[np.intp]) -> None:
        """Drop the samples of some classes, labelled ones and those that were taken for theirs."""
        width = self.matrix_.shape[1]
        if self._beyond is not None:
            further = ~is_among(self._centered.labels, labels)
            columns = np.concatenate([np.ones(len(self.center_), dtype=bool), further])
            # In C order, as it was: products do not round alike in both.
            self.matrix_ = np.ascontiguousarray(self.matrix_[:, columns])
            self.offset_ = self.offset_[columns]
        self._examples, self._centered, self._unlabelled = (
            ClassExamples(*(part[~is_among(known.labels, labels)] for part in known))
            for known in (self._examples, self._centered, self._unlabelled)
        )
        self._undescribed = np.setdiff1d(self._undescribed, labels)
        if self.matrix_.shape[1] == width:
            super()._remove(labels, kept)
        else:
            # Fewer columns of the embedding are fewer parameters of every class.
            table = self._described.table.subset(kept)
            self._describe(table, self._normalized(table))

    @property
    def describes_each_alone(self) -> bool:  # type: ignore[override]
        """Whether the odds of a class do not depend on how many are described."""
        if hasattr(self, "unseen_odds_"):
            return self.unseen_odds_ is not None
        return self.unseen_odds != "balanced"

    def _signatures_so_far(self) -> SignatureTable:
        table = super()._signatures_so_far()
        return table.subset(np.flatnonzero(~is_among(table.labels, self._undescribed)))

    def _whitened(self, X: Array) -> Array:
        """Prepared features in the whitened space."""
        n_dims = len(self.center_)
        matrix, offset = self.matrix_[:, :n_dims], self.offset_[:n_dims]
        return into_space(X, matrix, offset, self.norm_, self.center_)

    def embed(self, X: Array) -> Array:
        """Whitened samples z as (z, e, 1), or as (z², z, e, 1) with variance="predictive".

        e are their products with what lies beyond the space of the means of classes with few
        samples, of which there may be none.
        """
        return self._of_whitened(self._within_and_beyond(X))

    def _within_and_beyond(self, X: Array) -> Array:
        """Samples in the space, and their products with what lies beyond it."""
        return into_space(X, self.matrix_, self.offset_, self.norm_, self.center_)

    def _of_whitened(self, z: Array) -> Array:
        """Samples in the space and beyond it, as their product with the parameters needs them."""
        xp, n_dims = compat.array_namespace(z), len(self.center_)
        squares = [z[:, :n_dims] ** 2] if self.variance == "predictive" else []
        return xp.concat([*squares, z, xp.ones_like(z[:, :1])], axis=1)

    def _image_space(self) -> Embedding:
        # The columns e of `embed` change with the examples of other classes.
        return Embedding(self._whitened, (self.feature_norm,))

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Natural parameters of each class's Gaussian, over the temperature, with its log prior.

        Returns
        -------
        ndarray of shape (n_classes, n_dims + 1) or (n_classes, 2 * n_dims + 1)
            One row per class.
        """
        classes, as_unseen = self._gaussians(signatures, labels)
        parts = natural_parameters(
            classes, predictive=self.variance == "predictive", axis_weights=self.axis_weights_
        )
        parts = self._with_residuals(parts, labels)
        parameters = np.concatenate(parts, axis=1) / self.temperature_
        parameters[:, -1] += as_unseen * self._log_odds(as_unseen)
        return parameters

    def _log_odds(self, as_unseen: Floats) -> float:
        """Log odds of a class without samples."""
        odds = self.unseen_odds_
        if odds is None:
            # A class counts among the unseen ones whatever samples were added since.
            odds = (~self._few).sum() / max(int((as_unseen > 0).sum()), 1)
        return float(np.log(odds))

    def _with_residuals(
        self, parts: tuple[Floats, ...], labels: NDArray[Any] | None
    ) -> tuple[Floats, ...]:
        """Natural parameters, with those of what lies beyond the space."""
        n_further = self.matrix_.shape[1] - len(self.center_)
        if not n_further:
            return parts
        *first, constant = parts
        further, constant = np.zeros((len(constant), n_further)), constant.copy()
        if labels is not None and self._beyond is not None:
            few = self._centered
            rows = np.flatnonzero(is_among(labels, few.labels))
            at = np.searchsorted(few.labels, labels[rows])
            worth = self._beyond.signal * self.few_shot_weight * few.counts[at]
            share = worth / (1 + worth)
            further[rows, at] = share
            columns = self.matrix_[:, len(self.center_) + at]
            squares = np.einsum("ij,ji->i", few.means[at], columns)
            constant[rows, 0] -= 0.5 * share**2 * squares
        return (*first, further, constant)

    def _gaussians(
        self, signatures: Signatures, labels: NDArray[Any] | None
    ) -> tuple[ClassGaussians, Floats]:
        """What is known of the mean of each class, and how far it is as if it had no samples."""
        described = self._process.predict(signatures)
        if labels is None:
            return described, np.ones(len(described.means))
        confirmed = ClassGaussians(described.means, described.variances * self.variance_ratio_)
        known, as_unseen = self._with_examples(described, confirmed, labels)
        rows = np.flatnonzero(is_among(labels, self._unlabelled.labels))
        if len(rows):
            at = np.searchsorted(self._unlabelled.labels, labels[rows])
            prior = self._confirmed(known, as_unseen)
            prior = ClassGaussians(prior.means[rows], prior.variances[rows])
            counts = self._unlabelled.counts[at]
            found = posterior(prior, counts, self._unlabelled.means[at])
            known.means[rows], known.variances[rows] = found.means, found.variances
            as_unseen[rows] *= _share_left(prior, found)
        return known, as_unseen

    def _confirmed(self, known: ClassGaussians, as_unseen: Floats) -> ClassGaussians:
        """With the variances that left-out classes confirm, where signatures alone are known."""
        ratio = np.where(as_unseen[:, None] == 1, self.variance_ratio_, 1.0)
        return ClassGaussians(known.means, known.variances * ratio)

    def _with_examples(
        self, described: ClassGaussians, prior: ClassGaussians, labels: NDArray[Any]
    ) -> tuple[ClassGaussians, Floats]:
        """What samples add to what signatures say; `prior` is that of classes with few of them.

        The second array is the share of the variance that samples leave: 1 without any, and 0 for
        classes with more than a few samples in training, which decide what odds make up for.
        """
        means, variances = described.means.copy(), described.variances.copy()
        as_unseen = np.ones(len(labels))
        rows = np.flatnonzero(is_among(labels, self._examples.labels))
        if not len(rows):
            return ClassGaussians(means, variances), as_unseen
        at = np.searchsorted(self._examples.labels, labels[rows])
        counts = self._examples.counts[at]
        m, v = prior.means[rows].copy(), prior.variances[rows].copy()
        # A class of the training data is predicted by the others.
        trained = is_among(labels[rows], self.seen_classes_)
        position = np.searchsorted(self.seen_classes_, labels[rows][trained])
        few = np.ones(len(rows), dtype=bool)
        few[trained] = self._few[position]
        m[trained], v[trained] = self._prior.means[position], self._prior.variances[position]
        v[trained & few] *= self.variance_ratio_
        unknown = is_among(labels[rows], self._undescribed)
        m[unknown], v[unknown] = 0.0, (self.exemplars_[~self._few] ** 2).mean(axis=0)
        worth = np.where(few, self.few_shot_weight, self.seen_weight) * counts
        known = ClassGaussians(m, v)
        found = posterior(known, worth, self._examples.means[at])
        means[rows], variances[rows] = found.means, found.variances
        as_unseen[rows] = np.where(few, _share_left(known, found), 0.0)
        return ClassGaussians(means, variances), as_unseen

    def class_gaussians(self) -> tuple[Floats, Floats]:
        """What is known of the mean of each described class, in the whitened space.

        Returns
        -------
        means, variances : ndarray of shape (n_classes, n_dims)
            Rows follow `classes_`. A sample of the class adds a variance of 1.
        """
        check_is_fitted(self)
        table = self._described.table
        signatures = table.normalized(self.signature_scale_, keep_views=True)
        classes, _ = self._gaussians(signatures, table.labels)
        return classes.means, classes.variances

    def _has_temperature(self) -> bool:
        return True

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        # Parameters are divided by the temperature already: scores are log probabilities.
        return super()._scorer(labels, parameters).at_temperature(1.0)
