"""Prediction sets that contain the true class at a given rate, also for unseen classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from math import ceil
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_consistent_length

from zslearn._scoring._scorer import find_classes
from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.calibration._folds import FoldScores
from zslearn.calibration._thresholds import (
    HeldOut,
    HeldOutCalibration,
    fold_temperatures,
    is_below,
    log_odds,
    rate_and_interval,
    share_outside,
    thresholds_at,
)
from zslearn.signatures._table import is_among

# Kinds of candidates that have a threshold of their own.
_KINDS = ("seen", "described", "alone")


@inherit_docs
class BaseSetPredictor(HeldOutCalibration):
    """Base of estimators that predict sets of classes; a subclass implements `_set_members`."""

    def predict_sets(
        self, X: Any, *, classes: Any = None, coverage: float | None = None
    ) -> list[NDArray[Any]]:
        """Predict the set of classes that each sample may belong to.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`.
        coverage : float, optional
            Share of sets that contain the true class; by default that of the estimator. Changing it
            requires no refit.

        Returns
        -------
        list of ndarray
            The labels of each sample's set, the most probable first.
        """
        state, sets = self._snapshot(), []
        labels = state._candidates(classes)
        for values, inside in state._set_members(X, labels, coverage):
            for row, chosen in zip(values, inside, strict=True):
                places = np.flatnonzero(chosen)
                sets.append(labels[places[np.argsort(-row[places], kind="stable")]])
        return sets

    def coverage_report(
        self, X: Any, y: Any, *, classes: Any = None, coverage: float | None = None
    ) -> pd.DataFrame:
        """Measure how often sets contain the true class, and their size.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            True labels.

        Returns
        -------
        DataFrame
            A row per class in `y`: "coverage", the share of its samples whose set contains it, and
            "size", the mean size of their sets. Coverage is guaranteed for the mean over the rows.
        """
        state, true = self._snapshot(), to_numpy(y)
        labels = state._candidates(classes)
        check_consistent_length(X, true)
        state._check_true_labels(true, state.class_scorer_, classes)
        places = pd.Index(labels).get_indexer(pd.Index(true))
        found, start = [], 0
        for _, inside in state._set_members(X, labels, coverage):
            own = np.arange(len(inside)), places[start : start + len(inside)]
            found.append(np.column_stack([inside[own], inside.sum(axis=1)]))
            start += len(inside)
        frame = pd.DataFrame(np.concatenate(found), columns=["coverage", "size"])
        return frame.groupby(true).mean()

    def _candidates(self, classes: Any) -> NDArray[Any]:
        """Labels of the candidates, in the order of `classes_`."""
        labels = self._checked_scorer().labels
        return labels if classes is None else labels[np.sort(find_classes(classes, labels))]

    def _set_members(
        self, X: Any, labels: NDArray[Any], coverage: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        """Yield, per block of rows, values that rank the candidates and which are in the set."""
        raise NotImplementedError


@inherit_docs
@saves(
    temperature_=Saved(above=0),
    threshold_=Saved(keys=_KINDS, finite=False),
    coverage_=Saved(keys=_KINDS, finite=False),
    coverage_interval_=Saved(kind=tuple, keys=_KINDS, finite=False),
    class_coverage_=Saved("n_seen", keys=_KINDS, finite=False),
    held_out_=Saved(kind=HeldOut, keys=_KINDS),
)
@dataclass(eq=False, repr=False)
class PredictionSets(BaseSetPredictor):
    r"""Predict sets of classes with guaranteed coverage.

    The guarantee applies to unseen classes: on average over newly described classes, the set of an
    image contains its class with at least the probability `coverage`. The unit of calibration is
    therefore the class, not the image. In each fold some seen classes are held out of training and
    described by their signatures only; a new class is assumed to come from the same distribution.
    A set contains the best class, and each class c whose odds against an average rival reach a
    threshold,

    .. math:: \log \frac{(n - 1) \, p(c \mid x)}{1 - p(c \mid x)} \ge t,

    with n candidates. (Probabilities are unsuitable, because they decrease as n grows.) Each of K
    held-out classes has the weight 1 / (K + 1) in the quantile t, divided among its images, and the
    new class has the remaining weight, at −∞ (hierarchical conformal prediction).

    Seen candidates have a threshold of their own, found on held-out images of seen classes, so that
    images of both kinds are covered. A third threshold applies if all candidates are described
    classes.

    Parameters
    ----------
    coverage : float, default=0.9
        Share of sets that contain the true class. It requires at least coverage / (1 − coverage)
        seen classes: 9 for 0.9, 19 for 0.95. With fewer, or without signatures, a set contains
        every candidate.

    Attributes
    ----------
    threshold_ : dict of str to float
        Smallest log odds of a "seen" candidate, of a "described" one, and of a described one if
        all candidates are ("alone"). −∞ if the coverage cannot be guaranteed.
    coverage_ : dict of str to float
        Cross-fitted coverage of held-out images, by thresholds found without their class; NaN if
        nothing was held out. Keys as in `threshold_`.
    coverage_interval_ : dict of str to tuple of float
        Its 95 % interval, with the class as the unit.
    class_coverage_ : dict of str to ndarray of shape (n_seen,)
        The same for each class in `seen_classes_`; NaN if none of its images was held out.
    held_out_ : dict of str to HeldOut
        Log odds of the true class of each held-out image among the candidates of its fold.

    See Also
    --------
    RankPredictor : Predicts sets that are all the classes below one node of a hierarchy.
    NoneOfThese : Rejects images that no described class fits.

    Notes
    -----
    The thresholds come from models that were trained without some classes. The final model is
    slightly better, so its sets contain the true class slightly more often. Each image is assumed
    to show one class.

    References
    ----------
    Y. Lee, R. F. Barber and R. Willett, "Distribution-free inference with hierarchical data", 2023.

    M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with bounded error
    levels", Journal of the American Statistical Association 114, 2019.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.calibration import PredictionSets
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = PredictionSets(ESZSL(), coverage=0.9)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> sets = model.predict_sets(data.X_test_unseen, classes=data.unseen_classes)
    >>> sets[0].tolist()
    ['class 07']
    """

    _: KW_ONLY
    coverage: float = 0.9

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HeldOutCalibration._parameter_constraints,
        "coverage": [Interval(Real, 0, 1, closed="neither")],
    }

    def _set_members(
        self, X: Any, labels: NDArray[Any], coverage: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        scorer = self.class_scorer_
        thresholds = self._thresholds(self.coverage if coverage is None else coverage)
        seen = is_among(labels, self.seen_classes_)
        described = thresholds["described" if seen.any() else "alone"]
        own = np.where(seen, thresholds["seen"], described)
        for rows in self._checked_blocks(X):
            odds = log_odds(scorer.scores(rows, labels), self.temperature_)
            yield odds, odds >= np.minimum(own, odds.max(axis=1, keepdims=True))

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        parts: dict[str, list[HeldOut]] = {name: [] for name in _KINDS}
        for fold, temperature in zip(folds, fold_temperatures(folds), strict=True):
            for name, part in _calibration_odds(fold, temperature):
                parts[name].append(part)
        self.held_out_ = {name: HeldOut.concatenate(found) for name, found in parts.items()}
        self.threshold_ = self._thresholds(self.coverage)
        if folds and self.threshold_["described"] == -np.inf:
            warn_user(
                f"{len(np.unique(self.held_out_['described'].classes))} held-out classes are too "
                f"few to guarantee a coverage of {self.coverage}: sets contain every candidate. At "
                f"least {ceil(self.coverage / (1 - self.coverage) - 1e-9)} are required."
            )
        self.coverage_, self.coverage_interval_, self.class_coverage_ = {}, {}, {}
        n_seen = len(self.seen_classes_)
        for name, held in self.held_out_.items():
            covered = ~is_below(held, held, _share(held, self.coverage))
            self.coverage_[name], self.coverage_interval_[name] = rate_and_interval(covered, held)
            of_classes = pd.Series(covered, dtype=float).groupby(held.classes).mean()
            self.class_coverage_[name] = of_classes.reindex(range(n_seen)).to_numpy()

    def _thresholds(self, coverage: float) -> dict[str, float]:
        """The thresholds at a coverage."""
        return {
            name: thresholds_at(held, _share(held, coverage))[0]
            for name, held in self.held_out_.items()
        }


def _calibration_odds(fold: FoldScores, temperature: float) -> Iterator[tuple[str, HeldOut]]:
    """Log odds of the true classes of a fold's images, by kind of candidate."""
    described = fold.held_out[fold.true]
    held = HeldOut(_true_log_odds(fold, temperature), fold.true, described, described)
    yield "seen", held.subset(~described)
    yield "described", held.subset(described)
    alone = fold.conventional()
    if len(alone.held_out) > 1:
        yield "alone", replace(held.subset(described), values=_true_log_odds(alone, temperature))


def _true_log_odds(fold: FoldScores, temperature: float) -> Floats:
    """Log odds of each image's class."""
    return log_odds(fold.scores, temperature)[np.arange(len(fold.true)), fold.true]


def _share(held: HeldOut, coverage: float) -> float:
    """The share of the held-out weight that may lie below a threshold; negative if none may.

    A new class is one of K + 1, and all of its images count as below. That leaves the share
    1 − coverage (K + 1) / K of the weight of the K held-out classes.
    """
    n_classes = max(len(np.unique(held.classes)), 1)
    return share_outside(coverage, "coverage") - coverage / n_classes
