"""Thresholds on statistics of held-out images, their error rates, and the base of the estimators.

Every class has the same weight, regardless of its number of images, and seen classes together have
the same weight as described ones. The two kinds have separate thresholds, since their scores
differ; the class predicted for an image determines its kind. Error rates are cross-fitted: classes
are divided into groups, and the thresholds applied to a group come from the other groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._probabilities import mean_temperature
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, block_budget, is_streamed, row_blocks, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._streams import read_blocks
from zslearn.calibration._folds import (
    FOLD_CONSTRAINTS,
    FoldScores,
    final_score_scale,
    rescaled,
    score_folds,
)
from zslearn.signatures._table import SignatureTable

# Maximum number of groups of classes for cross-fitting.
_MAX_GROUPS = 20
# Arrays of the size of a block's scores that are in memory at the same time.
_TABLES = 6


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    values=Saved("n_images"),
    classes=Saved("n_images", kind="int", least=0),
    described=Saved("n_images", kind="bool"),
    as_described=Saved("n_images", kind="bool"),
)
class HeldOut:
    """The statistic of each held-out image that is compared with a threshold."""

    values: Floats
    classes: NDArray[np.intp]
    described: NDArray[np.bool_]  # whether the fold was not trained on the image's class
    as_described: NDArray[np.bool_]  # whether it was not trained on the predicted class

    @classmethod
    def concatenate(cls, parts: Sequence[HeldOut]) -> Self:
        """The images of all folds; there may be none."""
        nothing = np.empty(0, dtype=bool)
        parts = [cls(np.empty(0), np.empty(0, dtype=np.intp), nothing, nothing), *parts]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(cls))
        return cls(*map(np.concatenate, columns))

    @property
    def weights(self) -> Floats:
        """Weights of the images, summing to 1; see the module's docstring."""
        if not len(self.values):
            return np.empty(0)
        cells, where, counts = np.unique(
            2 * self.classes + self.described, return_inverse=True, return_counts=True
        )
        kind = cells % 2
        of_kind = np.bincount(kind, minlength=2)[kind]
        weights: Floats = 1 / (counts * of_kind)[where]
        return weights / weights.sum()

    def subset(self, chosen: NDArray[np.bool_]) -> HeldOut:
        """Some of the images."""
        return HeldOut(*(getattr(self, field.name)[chosen] for field in fields(self)))


def thresholds_at(held_out: HeldOut, share: float) -> tuple[float, float]:
    """The largest thresholds (seen, described) with at most a share of the images below."""
    weights = held_out.weights
    found = []
    for kind in (False, True):
        own = held_out.as_described == kind
        # Without images of a kind, the threshold of all images applies.
        own = own if own.any() else np.ones_like(own)
        found.append(_quantile(held_out.values[own], weights[own], share))
    return found[0], found[1]


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """The largest value with at most a share of the weight strictly below it."""
    # The tolerances keep rounding in the share or the sum from excluding an image.
    if not len(values) or share < -1e-9:
        return float("-inf")
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    first = int(np.searchsorted(total, share * total[-1] * (1 + 1e-9), side="right"))
    return float(values[order[min(first, len(values) - 1)]])


def is_below(known: HeldOut, images: HeldOut, share: float) -> NDArray[np.bool_]:
    """Images below the threshold at a share, which is found without the images' own classes."""
    return cross_fitted_ranks(known, images, side="right") <= share + 1e-9


def cross_fitted_ranks(
    known: HeldOut, images: HeldOut, *, side: Literal["left", "right"] = "left"
) -> Floats:
    """The share of known images of the same predicted kind that lie below each image.

    Known images from the group of classes of the image are ignored. With ``side="right"``, equal
    values count as below.
    """
    n_groups = min(len(np.unique(known.classes)), _MAX_GROUPS)
    ranked = np.zeros(len(images.values))
    for group in range(n_groups):
        fitted = known.subset(known.classes % n_groups != group)
        weights = fitted.weights
        for kind in (False, True):
            same = fitted.as_described == kind
            same = same if same.any() else np.ones_like(same)
            order = np.argsort(fitted.values[same], kind="stable")
            values = fitted.values[same][order]
            total = np.concatenate([[0.0], np.cumsum(weights[same][order])])
            own = (images.classes % n_groups == group) & (images.as_described == kind)
            places = np.searchsorted(values, images.values[own], side=side)
            ranked[own] = total[places] / total[-1] if len(values) else 1.0
    return ranked


def rate_and_interval(
    happened: NDArray[np.bool_], held_out: HeldOut
) -> tuple[float, tuple[float, float]]:
    """The rate of an event, with a 95% confidence interval whose unit is the class.

    Images of one class are not independent. The variance of the rate over classes is converted to
    an effective number of trials for the exact binomial interval (Korn and Graubard, 1998). The
    interval refers to new classes drawn from the same population.
    """
    if not len(happened):
        return float("nan"), (float("nan"), float("nan"))
    from scipy.stats import beta, t  # imported late: SciPy loads slowly

    weights = held_out.weights
    rate = min(max(float(weights @ happened), 0.0), 1.0)
    deviations = np.bincount(held_out.classes, weights * (happened - rate))
    n_classes = len(np.unique(held_out.classes))
    trials = float(n_classes)
    if n_classes > 1:
        variance = n_classes / (n_classes - 1) * float((deviations**2).sum())
        tail = 0.975
        if variance > 1e-12 * rate * (1 - rate) > 0:
            trials = rate * (1 - rate) / variance
            trials *= (t.ppf(tail, max(len(happened) - 1, 1)) / t.ppf(tail, n_classes - 1)) ** 2
            trials = min(trials, float(len(happened)))
    successes, outside = rate * trials, 0.025
    low = 0.0 if rate <= 0 else float(beta.ppf(outside, successes, trials - successes + 1))
    high = 1.0 if rate >= 1 else float(beta.ppf(1 - outside, successes + 1, trials - successes))
    return rate, (low, high)


def share_outside(level: float, name: str) -> float:
    """The share of images that may fall outside at a confidence or coverage level."""
    if not 0 < level < 1:
        raise ValueError(f"{name} must be between 0 and 1; got {level!r}.")
    return 1 - level


def positive_or_one(scale: float) -> float:
    """A scale that can be divided by: 1 if it is zero or not finite."""
    return scale if np.isfinite(scale) and scale > 0 else 1.0


def log_odds(scores: Any, temperature: float) -> Floats:
    r"""Log odds of each class against an average rival, comparable between numbers of classes.

    .. math:: \log \frac{(n - 1) \, p_c}{1 - p_c} = f_c - \log \frac{1}{n - 1} \sum_{c' \ne c}
              \exp f_{c'}

    A class whose score is −∞ is not a candidate.
    """
    scaled = np.asarray(to_numpy(scores), dtype=np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    powers = np.exp(scaled)
    # For every class but the best, the rivals sum to at least 1: nothing cancels.
    rivals = np.maximum(powers.sum(axis=1, keepdims=True) - powers, np.finfo(np.float64).tiny)
    n_rivals = np.isfinite(scaled).sum(axis=1, keepdims=True) - 1
    return scaled - np.log(rivals) + np.log(np.maximum(n_rivals, 1))


def fold_temperatures(folds: list[FoldScores]) -> list[float]:
    """The temperature of each fold: the estimator's own, or estimated on the other folds."""
    own = [fold.own_temperature for fold in folds if fold.own_temperature is not None]
    if len(own) == len(folds):
        return own
    best, scales = np.asarray([(fold.temperature(), fold.scale) for fold in folds]).T
    others = ~np.eye(len(folds), dtype=bool) if len(folds) > 1 else np.ones((1, 1), dtype=bool)
    return [
        mean_temperature(rescaled(best[chosen], scales[chosen], scale))
        for chosen, scale in zip(others, scales, strict=True)
    ]


def _in_memory(fold: FoldScores) -> FoldScores:
    """The scores of a fold as a float64 NumPy array."""
    return replace(fold, scores=np.asarray(to_numpy(fold.scores), dtype=np.float64))


@inherit_docs
@saves(temperature_=Saved(above=0, optional=True))
@dataclass(eq=False, repr=False)
class HeldOutCalibration(ZeroShotMetaClassifier):
    """Base of estimators that are calibrated on the scores of held-out classes.

    A subclass has the hyper-parameters below and implements `_calibrate(folds, scale)`.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        Provides the scores, for instance a :class:`CalibratedStacking`.
    cv : int, splitter or list of (train, test), default=5
        Folds over the seen classes; see :class:`CalibratedStacking`.
    held_out : float, default=0.2
        Share of the images of each seen class that is held out, if `cv` is a number.
    n_jobs : int, optional
        Number of folds fitted in parallel, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Seed of the folds and of the held-out images, if `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    temperature_ : float
        Divisor that converts scores to log probabilities: that of the estimator, or estimated in
        the folds.
    """

    estimator: Any
    _: KW_ONLY
    cv: Any = 5
    held_out: float = 0.2
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = FOLD_CONSTRAINTS

    #: Whether unseen classes are candidates in the folds as well.
    _with_unseen: ClassVar[bool] = False

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, then calibrate on held-out classes."""
        super()._learn(X, y, signatures, weights)
        self._begin_calibration(SignatureTable.from_user(signatures, np.unique(y)))
        folds: list[FoldScores] = score_folds(
            self, X, y, signatures, weights, _in_memory, with_unseen=self._with_unseen
        )
        scale = final_score_scale(self.estimator_, X)
        self.temperature_: Any = self.estimator_.class_scorer_.temperature
        if self.temperature_ is None:
            best, scales = ([f.temperature() for f in folds], [f.scale for f in folds])
            self.temperature_ = mean_temperature(rescaled(best, scales, scale))
        self._calibrate(folds, positive_or_one(scale))

    def adapt(self, X: Any, **options: Any) -> Self:
        """Unsupported, because the measured rates would be invalid; adapt `estimator_` instead."""
        raise TypeError(
            f"The rates of {type(self).__name__} were measured on held-out classes and are invalid "
            "for an adapted model. Adapt the inner estimator, estimator_, instead."
        )

    def _begin_calibration(self, table: SignatureTable) -> None:
        """Validate hyper-parameters against the described classes before any fold is fitted."""

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        """Learn from the folds; the list is empty if no class can be held out."""
        raise NotImplementedError

    def _checked_blocks(self, X: Any) -> Iterator[Any]:
        """Validated features in blocks whose scores fit into memory."""
        if is_streamed(X):
            yield from read_blocks(self._check_stream(X))
            return
        X = self._check_features(X)
        if isinstance(X, EmbeddedRows):  # already a block
            yield X
            return
        row_bytes = _TABLES * 8 * len(self.classes_)
        yield from (X[rows, :] for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)))

    def _has_temperature(self) -> bool:
        return True

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        return (
            scorer if scorer.temperature is not None else scorer.at_temperature(self.temperature_)
        )
