"""Reject images that belong to none of the described classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._meta import inner_has
from zslearn.calibration._folds import FoldScores
from zslearn.calibration._thresholds import (
    HeldOut,
    HeldOutCalibration,
    cross_fitted_ranks,
    fold_temperatures,
    is_below,
    log_odds,
    positive_or_one,
    rate_and_interval,
    thresholds_at,
)
from zslearn.signatures._table import SignatureTable, label_kind, sample_labels


@inherit_docs
@saves(
    temperature_=Saved(above=0),
    threshold_=Saved(keys=("seen", "described"), finite=False),
    none_label_=Saved(kind=(str, Real), none=True),
    false_alarm_rate_=Saved(finite=False),
    false_alarm_interval_=Saved(each=True, finite=False),
    false_alarm_rates_=Saved(keys=("seen", "described"), finite=False),
    detection_rate_=Saved(finite=False),
    detection_interval_=Saved(each=True, finite=False),
    auroc_=Saved(finite=False),
    false_alarm_curve_=Saved("n_points"),
    detection_curve_=Saved("n_points"),
)
@dataclass(eq=False, repr=False)
class NoneOfThese(HeldOutCalibration):
    r"""Predict "none of these" if no described class fits well enough.

    An image is rejected if a statistic of its scores is below a threshold. The threshold follows
    from the accepted rate of false alarms, the share of images of described classes that are
    rejected, and is estimated on the training data. A share of the images of every seen class is
    held out, and in each fold some classes are held out of training. Each image of a held-out class
    is scored twice: with its class among the candidates it stands for an image of a described
    class, without it for an image of none of the candidates. Up to 1,000 unseen classes are
    candidates in every fold, as in use.

    Images predicted as a seen class and as a described one have separate thresholds, since scores
    of seen classes are higher. All classes have the same weight in a rate, and seen classes
    together have the same weight as described ones.

    Parameters
    ----------
    false_alarm_rate : float, default=0.05
        Share of images of described classes that may be rejected.
    statistic : {"margin", "max", "probability"}, default="max"
        Compared with the threshold: the best score minus the second, the best score, or the log
        odds of the best class against an average rival, log((n − 1) p / (1 − p)). Unlike the
        probability p, they do not decrease with the number of candidates n.
    none_label : "auto", str, int or None, default="auto"
        The prediction for a rejected image. "auto" is "none of these" if labels are strings; −1, or
        less than the smallest label, if they are numbers; None if they are booleans.

    Attributes
    ----------
    threshold_ : dict of str to float
        Rejection threshold of images predicted as a "seen" class, and as a "described" one. −∞
        without signatures and with fewer than four seen classes: nothing is rejected.
    none_label_ : object
        The prediction for rejected images.
    false_alarm_rate_ : float
        Cross-fitted share of held-out images of described classes that are rejected, by thresholds
        found without their class; NaN if nothing was held out.
    false_alarm_interval_ : tuple of float
        Its 95 % interval, with the class as the unit.
    false_alarm_rates_ : dict of str to float
        The same for images of "seen" classes and of "described" ones.
    detection_rate_ : float
        Cross-fitted share of images of none of the candidates that are rejected.
    detection_interval_ : tuple of float
        Its 95 % interval.
    auroc_ : float
        Probability that an image of none of the candidates ranks below one of a described class
        among images of the same predicted kind: 0.5 is chance, 1 perfect.
    false_alarm_curve_, detection_curve_ : ndarray of shape (n_points,)
        Both rates over all thresholds, ascending.

    See Also
    --------
    RankPredictor : Predicts the deepest ancestor that is probable enough.
    CalibratedStacking : Lowers the scores of seen classes, and can be the estimator here.

    References
    ----------
    E. L. Korn and B. I. Graubard, "Confidence intervals for proportions with small expected number
    of positive counts estimated from survey data", Survey Methodology 24, 1998.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.calibration import NoneOfThese
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> described = data.signatures.drop(index=data.unseen_classes[:1])
    >>> model = NoneOfThese(ESZSL(), false_alarm_rate=0.1)
    >>> model = model.fit(data.X_train, data.y_train, signatures=described)
    >>> foreign = data.y_test_unseen == data.unseen_classes[0]
    >>> rejected = model.is_none(data.X_test_unseen)
    >>> bool(rejected[foreign].mean() > rejected[~foreign].mean())
    True
    """

    _: KW_ONLY
    false_alarm_rate: float = 0.05
    statistic: str = "max"
    none_label: Any = "auto"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HeldOutCalibration._parameter_constraints,
        "false_alarm_rate": [Interval(Real, 0, 1, closed="neither")],
        "statistic": [StrOptions({"margin", "max", "probability"})],
        "none_label": [str, Real, None],
    }

    # With more candidates the best score is higher, so that too few images would be rejected.
    _with_unseen: ClassVar[bool] = True

    def is_none(self, X: Any, *, classes: Any = None) -> NDArray[np.bool_]:
        """Detect images that belong to none of the candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default all of `classes_`, for which the thresholds were estimated.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
            True for rejected images.
        """
        return self._decide(X, classes)[1]

    def predict(self, X: Any, *, classes: Any = None, prior: Any = None) -> NDArray[Any]:
        """Predict the best class of each sample, or `none_label_` for rejected samples.

        Rejection does not depend on `prior`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels, and `none_label_` for rejected samples.
        """
        check_is_fitted(self)
        state = self._snapshot()
        labels, rejected = state._decide(X, classes)
        if prior is not None:
            labels = super(NoneOfThese, state).predict(X, classes=classes, prior=prior)
        if max(self.threshold_.values()) == -np.inf:
            return labels
        if labels.dtype.kind == "O" or self.none_label_ is None:
            labels = labels.astype(object)
            labels[rejected] = self.none_label_
            return labels
        if labels.dtype.kind == "u":  # the label may be negative
            labels = labels.astype(np.int64)
        return np.where(rejected, np.asarray(self.none_label_), labels)

    def threshold_of(self, labels: Any) -> Floats:
        """Return the threshold of images that are predicted as given classes.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Described classes.

        Returns
        -------
        ndarray of shape (n,)
            One threshold each.
        """
        seen = np.isin(to_numpy(labels), self.seen_classes_)
        return np.where(seen, self.threshold_["seen"], self.threshold_["described"])

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes; `none_label_` is refused as a name."""
        check_is_fitted(self)
        labels = signatures if isinstance(signatures, Mapping) else getattr(signatures, "index", ())
        if not callable(labels):
            self._refuse_none_label(labels)
        return super().add_classes(signatures, like=like)

    @inner_has("add_examples")
    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Add labelled samples to the inner estimator; `none_label_` is refused as a label."""
        y = sample_labels(y)
        self._refuse_none_label(y.tolist())
        return super().add_examples(X, y, signatures=signatures)

    def _refuse_none_label(self, labels: Any) -> None:
        if self.none_label_ in list(labels):
            raise ValueError(
                f"{self.none_label_!r} is the prediction for rejected images: give the class "
                "another name."
            )

    def _decide(self, X: Any, classes: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The best class of each sample, and whether the sample is rejected."""
        scorer = self._checked_scorer()
        parts = [self._decide_block(scorer, rows, classes) for rows in self._checked_blocks(X)]
        labels, rejected = zip(*parts, strict=True)
        return np.concatenate(labels), np.concatenate(rejected)

    def _decide_block(
        self, scorer: ClassScorer, X: Any, classes: Any
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        n_candidates = len(scorer.labels if classes is None else to_numpy(classes))
        labels, best = scorer.top_k(X, min(2, n_candidates), classes)
        values = np.asarray(to_numpy(best), dtype=np.float64)
        if self.statistic == "probability":
            odds = log_odds(scorer.scores(X, classes), self.temperature_)
            values = odds.max(axis=1, keepdims=True)
        statistic = _statistics(values, self.statistic)
        return labels[:, 0], statistic < self.threshold_of(labels[:, 0])

    def _begin_calibration(self, table: SignatureTable) -> None:
        self.none_label_ = self.none_label
        if self.none_label == "auto":
            self.none_label_ = _automatic_label(table.labels)
        if self.none_label_ in set(table.labels.tolist()):
            raise ValueError(
                f"none_label={self.none_label_!r} is the label of a described class: choose "
                "another."
            )

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        by_odds = self.statistic == "probability"
        temperatures = fold_temperatures(folds) if by_odds else [1.0] * len(folds)
        known_parts, foreign_parts = [], []
        for fold, temperature in zip(folds, temperatures, strict=True):
            known_parts.append(self._statistics_of(fold, fold.scores, fold.true, temperature))
            # Images of held-out classes, now without their class among the candidates.
            is_held_out = fold.held_out[fold.true]
            scores, true = fold.scores[is_held_out], fold.true[is_held_out]
            scores[np.arange(len(scores)), true] = -np.inf
            foreign_parts.append(self._statistics_of(fold, scores, true, temperature))
        known, foreign = map(HeldOut.concatenate, (known_parts, foreign_parts))
        share = float(self.false_alarm_rate)
        unit = 1.0 if by_odds else scale
        seen, described = thresholds_at(known, share)
        self.threshold_ = {"seen": seen * unit, "described": described * unit}
        alarms, detections = (is_below(known, images, share) for images in (known, foreign))
        self.false_alarm_rate_, self.false_alarm_interval_ = rate_and_interval(alarms, known)
        self.false_alarm_rates_ = {
            name: rate_and_interval(alarms[own], known.subset(own))[0]
            for name, own in (("seen", ~known.described), ("described", known.described))
        }
        self.detection_rate_, self.detection_interval_ = rate_and_interval(detections, foreign)
        self._measure_curve(known, foreign)

    def _statistics_of(
        self, fold: FoldScores, scores: Floats, true: NDArray[np.intp], temperature: float
    ) -> HeldOut:
        """The statistic of each image of a fold, in units of the fold's scores."""
        if self.statistic == "probability":
            table = log_odds(scores, temperature)
        else:
            table = scores / positive_or_one(fold.scale)
        best = -np.sort(-table, axis=1)[:, :2]
        predicted = table.argmax(axis=1)
        values = _statistics(best, self.statistic)
        return HeldOut(values, true, fold.held_out[true], fold.held_out[predicted])

    def _measure_curve(self, known: HeldOut, foreign: HeldOut) -> None:
        """Measure both rates over all thresholds."""
        if not len(known.values):
            self.auroc_ = float("nan")
            self.false_alarm_curve_ = self.detection_curve_ = np.empty(0)
            return
        from sklearn.metrics import roc_auc_score, roc_curve

        depth = -np.concatenate([cross_fitted_ranks(known, part) for part in (known, foreign)])
        is_foreign = np.repeat([0, 1], [len(known.values), len(foreign.values)])
        weights = np.concatenate([known.weights, foreign.weights])
        self.auroc_ = float(roc_auc_score(is_foreign, depth, sample_weight=weights))
        curve = roc_curve(is_foreign, depth, sample_weight=weights)
        self.false_alarm_curve_, self.detection_curve_ = curve[0], curve[1]

    def _check_true_labels(self, y: NDArray[Any], scorer: ClassScorer, classes: Any) -> None:
        """Also accept images of none of the candidates."""
        y = y.ravel()
        known = np.asarray([label != self.none_label_ for label in y.tolist()], dtype=bool)
        super()._check_true_labels(y[known], scorer, classes)


def _statistics(best: Floats, statistic: str) -> Floats:
    """The statistic of each row from its best value and, for a margin, its second best."""
    if statistic != "margin":
        return best[:, 0]
    # A single candidate has no rival and is never rejected.
    return best[:, 0] - best[:, 1] if best.shape[1] > 1 else np.full(len(best), np.inf)


def _automatic_label(classes: NDArray[Any]) -> Any:
    """A label that no class has."""
    kind = label_kind(classes)
    if kind == "string":
        return "none of these"
    return min(-1, int(classes.min()) - 1) if kind == "number" else None
