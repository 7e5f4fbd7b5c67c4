"""Thresholds that a share of held-out images falls below, how well they hold, and who uses them.

Every class counts the same, however many images it has, and seen classes together count as much as
described ones. Scores of the two kinds differ, so that each has a threshold of its own: an image is
compared with that of the kind of the class predicted for it. A threshold is measured on classes
that had no part in it: the classes are dealt into groups, and those of a group are compared with
the thresholds of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, Interval

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._probabilities import mean_temperature, softmax
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, block_budget, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import saved_part
from zslearn._utils._saved import Saved, saves
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._training import is_streamed, read_blocks
from zslearn.calibration._folds import FoldScores, final_score_scale, rescaled, score_folds
from zslearn.signatures._table import SignatureTable

#: Groups of classes that are measured by the thresholds of the others.
_MOST_GROUPS = 20
# Tables of scores, probabilities and the like that are made of a block of rows.
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
    """Values of images that were held out, which a threshold cuts."""

    values: Floats
    classes: NDArray[np.intp]
    described: NDArray[np.bool_]  # whether the class of the image was known by description alone
    as_described: NDArray[np.bool_]  # whether the class predicted for the image was

    @property
    def weights(self) -> Floats:
        """What each image counts, 1 in all; see the module's docstring."""
        if not len(self.values):
            return np.empty(0)
        cells, where, counts = np.unique(
            2 * self.classes + self.described, return_inverse=True, return_counts=True
        )
        kind = cells % 2
        of_kind = np.bincount(kind, minlength=2)[kind]
        weights: Floats = 1 / (counts * of_kind)[where]
        return weights / weights.sum()

    def of(self, chosen: NDArray[np.bool_]) -> HeldOut:
        """Some of the images."""
        return HeldOut(*(getattr(self, field.name)[chosen] for field in fields(self)))


def joined(parts: Sequence[HeldOut]) -> HeldOut:
    """The images of all folds, which may be none."""
    nothing = np.empty(0, dtype=bool)
    parts = [HeldOut(np.empty(0), np.empty(0, dtype=np.intp), nothing, nothing), *parts]
    columns = ([getattr(part, field.name) for part in parts] for field in fields(HeldOut))
    return HeldOut(*map(np.concatenate, columns))


def thresholds_at(held_out: HeldOut, share: float) -> tuple[float, float]:
    """Thresholds below which no more than a share of the images lies."""
    weights = held_out.weights
    everything = _cut(held_out.values, weights, share)
    found = []
    for kind in (False, True):
        own = held_out.as_described == kind
        found.append(_cut(held_out.values[own], weights[own], share) if own.any() else everything)
    return found[0], found[1]


def _cut(values: Floats, weights: Floats, share: float) -> float:
    """The largest value with no more than a share of the weight strictly below it."""
    # Rounding in the share or in the sum is no reason to leave an image out.
    if not len(values) or share < -1e-9:
        return float("-inf")
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    first = int(np.searchsorted(total, share * total[-1] * (1 + 1e-9), side="right"))
    return float(values[order[min(first, len(values) - 1)]])


def cross_fitted(
    known: HeldOut, others: HeldOut, share: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which images lie below thresholds that were found without their class."""
    # Below the threshold lies an image with no more than the share at its value or below.
    first, second = (rank <= share + 1e-9 for rank in ranks(known, others, side="right"))
    return first, second


def ranks(
    known: HeldOut, others: HeldOut, *, side: Literal["left", "right"] = "left"
) -> tuple[Floats, Floats]:
    """The share of known images of the same predicted kind that lie below each image.

    Images of an image's own class do not count; with side="right" those of its value do. A
    threshold at any share is a cut of these numbers.
    """
    n_groups = min(len(np.unique(known.classes)), _MOST_GROUPS)
    out = [np.zeros(len(part.values)) for part in (known, others)]
    for group in range(n_groups):
        fitted = known.of(known.classes % n_groups != group)
        weights = fitted.weights
        for kind in (False, True):
            same = fitted.as_described == kind
            same = same if same.any() else np.ones_like(same)
            order = np.argsort(fitted.values[same], kind="stable")
            values = fitted.values[same][order]
            total = np.concatenate([[0.0], np.cumsum(weights[same][order])])
            for ranked, part in zip(out, (known, others), strict=True):
                own = (part.classes % n_groups == group) & (part.as_described == kind)
                places = np.searchsorted(values, part.values[own], side=side)
                ranked[own] = total[places] / total[-1] if len(values) else 1.0
    return out[0], out[1]


def rate_and_interval(
    happened: NDArray[np.bool_], held_out: HeldOut, *, level: float = 0.95
) -> tuple[float, tuple[float, float]]:
    """How often something happened, with an interval whose unit is the class.

    Images of one class are similar: twenty of them are not twenty independent trials. The variance
    is that of the classes' rates; it stands for an effective number of trials, with which the
    exact binomial interval is taken (Korn and Graubard, 1998). Classes drawn anew from where these
    came are what the interval is about.
    """
    if not len(happened):
        return float("nan"), (float("nan"), float("nan"))
    from scipy.stats import beta, t  # not before it is needed: SciPy loads slowly

    weights = held_out.weights
    rate = min(max(float(weights @ happened), 0.0), 1.0)
    apart = np.bincount(held_out.classes, weights * (happened - rate))
    n_classes = len(np.unique(held_out.classes))
    trials = float(n_classes)
    if n_classes > 1:
        variance = n_classes / (n_classes - 1) * float((apart**2).sum())
        tail = (1 + level) / 2
        if variance > 1e-12 * rate * (1 - rate) > 0:
            trials = rate * (1 - rate) / variance
            trials *= (t.ppf(tail, max(len(happened) - 1, 1)) / t.ppf(tail, n_classes - 1)) ** 2
            trials = min(trials, float(len(happened)))
    successes, outside = rate * trials, (1 - level) / 2
    low = 0.0 if rate <= 0 else float(beta.ppf(outside, successes, trials - successes + 1))
    high = 1.0 if rate >= 1 else float(beta.ppf(1 - outside, successes + 1, trials - successes))
    return rate, (low, high)


def share_outside(level: float, name: str) -> float:
    """The share of images that a level leaves out."""
    if not 0 < level < 1:
        raise ValueError(f"{name} must be between 0 and 1; got {level!r}.")
    return 1 - level


def sound(scale: float) -> float:
    """A scale to divide by: 1 where there is none."""
    return scale if np.isfinite(scale) and scale > 0 else 1.0


def _in_memory(fold: FoldScores) -> FoldScores:
    """A fold's scores as float64 of NumPy, whatever device the estimator is on."""
    return replace(fold, scores=np.asarray(to_numpy(fold.scores), dtype=np.float64))


def log_odds(scores: Any, temperature: float) -> Floats:
    r"""Logarithms of the odds of each class against an average rival, whatever their number.

    .. math:: \log \frac{(n - 1) \, p_c}{1 - p_c} = f_c - \log \frac{1}{n - 1} \sum_{c' \ne c}
              \exp f_{c'}

    A class whose score is −∞ is no candidate.
    """
    scaled = np.asarray(to_numpy(scores), dtype=np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    powers = np.exp(scaled)
    # Of any class but the best the rivals sum to 1 or more, so that nothing cancels.
    rivals = np.maximum(powers.sum(axis=1, keepdims=True) - powers, np.finfo(np.float64).tiny)
    n_rivals = np.isfinite(scaled).sum(axis=1, keepdims=True) - 1
    return scaled - np.log(rivals) + np.log(np.maximum(n_rivals, 1))


def fold_probabilities(folds: list[FoldScores]) -> list[Floats]:
    """Probabilities of each fold's images."""
    temperatures = fold_temperatures(folds)
    return [softmax(fold.scores, t) for fold, t in zip(folds, temperatures, strict=True)]


def fold_temperatures(folds: list[FoldScores]) -> list[float]:
    """The temperature of each fold: the estimator's own, or that of the other folds."""
    own = [fold.own_temperature for fold in folds if fold.own_temperature is not None]
    if len(own) == len(folds):
        return own
    best, scales = np.asarray([(fold.temperature(), fold.scale) for fold in folds]).T
    others = ~np.eye(len(folds), dtype=bool) if len(folds) > 1 else np.ones((1, 1), dtype=bool)
    return [
        mean_temperature(rescaled(best[chosen], scales[chosen], scale))
        for chosen, scale in zip(others, scales, strict=True)
    ]


def _shared_temperature(folds: list[FoldScores], scale: float) -> float:
    """The best temperature of all folds, at a scale of the scores."""
    scales = [fold.scale for fold in folds]
    return mean_temperature(rescaled([fold.temperature() for fold in folds], scales, scale))


@inherit_docs
@saves(
    temperature_=Saved(above=0, optional=True),
)
class HeldOutCalibration(ZeroShotMetaClassifier):
    """Fits an estimator, and has it score left-out classes in folds; a subclass looks at those.

    A subclass has the hyper-parameters below, and writes `_calibrate(folds, scale)`.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        What gives the scores, for instance a :class:`CalibratedStacking`.
    cv : int, splitter or list of (train, test), default=5
        Folds over the seen classes; see :class:`CalibratedStacking`.
    held_out : float, default=0.2
        Share of the images of each seen class that is held aside, where `cv` is a number.
    n_jobs : int, optional
        Folds that are fitted at the same time, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Decides the folds and what is held aside, where `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    temperature_ : float
        What scores are divided by to become logarithms of probabilities: the estimator's own, or
        found in the folds.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    #: Whether unseen classes are candidates in the folds, too.
    _with_unseen: ClassVar[bool] = False

    cv: Any
    held_out: float
    n_jobs: int | None
    random_state: Any

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, and calibrate on held-out classes."""
        super()._learn(X, y, signatures, weights)
        self._begin_calibration(SignatureTable.from_user(signatures, np.unique(y)))
        folds: list[FoldScores] = score_folds(
            self, X, y, signatures, weights, _in_memory, with_unseen=self._with_unseen
        )
        scale = final_score_scale(self.estimator_, X)
        self.temperature_ = self.estimator_.class_scorer_.temperature
        if self.temperature_ is None:
            self.temperature_ = _shared_temperature(folds, scale)
        self._calibrate(folds, sound(scale))

    temperature_: Any

    def adapt(self, X: Any, **options: Any) -> Self:
        """Not possible: a promised rate does not hold for an adapted model; see `estimator_`."""
        raise TypeError(
            f"What {type(self).__name__} promises was found on held-out classes and would not hold "
            "for an adapted model: adapt the estimator inside, estimator_."
        )

    def _begin_calibration(self, table: SignatureTable) -> None:
        """Check what depends on the described classes, before the folds are fitted."""

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        """Learn from the folds; empty where no class can be left out."""
        raise NotImplementedError

    def _checked_blocks(self, X: Any) -> Iterator[Any]:
        """Checked features, a block at a time: tables of all classes are made of each."""
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
