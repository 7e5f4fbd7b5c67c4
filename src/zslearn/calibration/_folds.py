"""Fit an estimator without some seen classes, and score the images of classes left out.

The one routine by which a search and every calibration leave out classes. In each fold some seen
classes are left out of training and stay among the candidates: they stand for the classes that are
described only. In the generalized setting images held aside of the other classes stand for images
of seen ones. From a fold's scores come the accuracies, the calibration factor, the temperature of
probabilities, and the scale of the scores, which is the unit of the last two.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._probabilities import best_temperature, mean_temperature
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, Floats, take_rows, to_numpy
from zslearn._utils._blocks import evenly_spaced
from zslearn._utils._folds import ClassKFold, GeneralizedClassKFold
from zslearn._utils._messages import InputWarning, no_user_warnings, warn_user
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotPipeline, as_zero_shot
from zslearn.metrics import seen_unseen_summary
from zslearn.signatures._table import SignatureTable

#: With fewer seen classes none can be left out: a fold leaves out two and trains on two.
FEWEST_CLASSES = 4
#: The weight of images without labels where nothing was chosen.
USUAL_UNLABELLED_WEIGHT = 0.1
# The scale of the scores is taken over no more training images than this.
_MOST_SCALE_ROWS = 500


class Fold(NamedTuple):
    """Rows to train on and to validate on."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    shots: int = 0  # how many samples of a held-out class are trained on
    unlabelled: str | None = None  # which rows are given without their labels, as in ClassKFold

    def left_out(self, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Classes that are not trained on, or validated and trained on by the shots at most."""
        kept, counts = np.unique(y[self.train], return_counts=True)
        few = np.intersect1d(kept[counts <= self.shots], y[self.test])
        return np.setdiff1d(classes, np.setdiff1d(kept, few))


def checked_folds(
    cv: Any, X: Any, y: NDArray[Any], estimator: Any, *, generalized: bool, **options: Any
) -> list[Fold]:
    """The folds over the seen classes; an error where one cannot serve its purpose."""
    if getattr(cv, "unlabelled", None) is not None and not hasattr(estimator, "adapt"):
        raise TypeError(
            f"{type(estimator).__name__} has no adapt: it cannot use the images without labels "
            "that the folds give."
        )
    splitter = GeneralizedClassKFold if generalized else ClassKFold
    if isinstance(cv, Integral):
        # At least two classes are left out in a fold: among one there is nothing to choose.
        cv = splitter(min(int(cv), len(np.unique(y)) // 2), **options)
    folds = cv.split(X, y) if hasattr(cv, "split") else cv
    given = getattr(cv, "shots", 0), getattr(cv, "unlabelled", None)
    checked = [Fold(np.asarray(train), np.asarray(test), *given) for train, test in folds]
    for number, fold in enumerate(checked):
        tested = np.unique(y[fold.test])
        left_out = fold.left_out(y, tested)
        kept = np.setdiff1d(y[fold.train], left_out)
        if len(kept) < 2 or len(left_out) == 0:
            raise ValueError(
                f"Fold {number} of cv trains on {len(kept)} classes and leaves out "
                f"{len(left_out)}; it must train on two or more and leave out whole classes. "
                f"Use {splitter.__name__}."
            )
        if generalized and len(left_out) == len(tested):
            raise ValueError(
                f"Fold {number} of cv validates no image of a class that it trains on, which "
                f"the generalized setting needs. Use {splitter.__name__}."
            )
        if not generalized and len(left_out) == 1:
            warn_user(f"Fold {number} of cv leaves out one class: it tells nothing.")
    return checked


#: Unseen classes that are candidates in the folds, at most: scores of a fold are held in memory.
MOST_UNSEEN = 1000


def seen_table(signatures: Any, seen: NDArray[Any], *, most_unseen: int = 0) -> SignatureTable:
    """Signatures of the seen classes, and of some unseen ones where these play a part."""
    with no_user_warnings():  # the fit on all classes warns
        table = SignatureTable.from_user(signatures, seen)
    rows = table.positions(seen)
    others = np.setdiff1d(np.arange(len(table.labels)), rows)
    step = -(-len(others) // max(most_unseen, 1))
    chosen = others[:: max(step, 1)][:most_unseen]
    return table.subset(np.sort(np.concatenate([rows, chosen])))


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Scores of a fold's validation images."""

    scores: Array  # a column per candidate, on its device
    true: NDArray[np.intp]  # the column of each image's class
    left_out: NDArray[np.bool_]  # which candidates the fold did not train on
    scale: float  # of the training images' scores; NaN where it was not asked for
    own_temperature: float | None  # the estimator's, where it has probabilities

    def conventional(self) -> FoldScores:
        """The images of classes left out, among these classes."""
        if self.left_out.all():
            return self
        rows, columns = np.flatnonzero(self.left_out[self.true]), np.flatnonzero(self.left_out)
        return FoldScores(
            to_numpy(self.scores)[np.ix_(rows, columns)],
            np.searchsorted(columns, self.true[rows]),
            self.left_out[columns],
            self.scale,
            self.own_temperature,
        )

    def accuracy(self) -> float:
        """Per-class accuracy; of equal scores the first class is predicted, on any device."""
        xp = compat.array_namespace(self.scores)
        n_classes = self.scores.shape[1]
        highest = xp.max(self.scores, axis=1, keepdims=True)
        columns = xp.arange(n_classes, device=compat.device(self.scores))[None, :]
        best = to_numpy(xp.min(xp.where(self.scores == highest, columns, n_classes), axis=1))
        counts = np.bincount(self.true, minlength=n_classes)
        hits = np.bincount(self.true[best == self.true], minlength=n_classes)
        return float((hits[counts > 0] / counts[counts > 0]).mean())

    def is_tied(self) -> bool:
        """Whether two or more classes score the same on every image, but for rounding."""
        if self.scores.shape[1] < 2:
            return False
        xp = compat.array_namespace(self.scores)
        highest, lowest = xp.max(self.scores, axis=1), xp.min(self.scores, axis=1)
        largest = xp.max(xp.abs(xp.stack([highest, lowest])))
        return bool(xp.all(highest - lowest <= 4 * xp.finfo(self.scores.dtype).eps * largest))

    def curve_summary(self) -> tuple[float, float, float]:
        """Area under the seen–unseen curve, its best harmonic mean, and the factor for it."""
        return seen_unseen_summary(
            self.true,
            self.scores,
            classes=np.arange(len(self.left_out)),
            seen_classes=np.flatnonzero(~self.left_out),
            missing="ignore",
        )

    def temperature(self, factor: float = 0.0) -> float:
        """The best temperature of the scores, those of seen classes lowered by the factor."""
        lowered = np.asarray(to_numpy(self.scores), dtype=np.float64) - factor * ~self.left_out
        return best_temperature(lowered, self.true)


class FoldImages:
    """The images of a fold: those of held-out classes or, if generalized, all that validate."""

    def __init__(
        self, X: Any, y: NDArray[Any], classes: NDArray[Any], fold: Fold, *, generalized: bool
    ) -> None:
        train, test = fold.train, fold.test
        left_out = np.isin(classes, fold.left_out(y, classes))
        self.unseen = classes[left_out]
        # Of a list of rows by hand some may be of classes that were trained on.
        unseen_rows = test[np.isin(y[test], self.unseen)]
        self.X_unseen, self.y_unseen = take_rows(X, unseen_rows), y[unseen_rows]
        self.left_out = left_out if generalized else left_out[left_out]
        self.classes = classes if generalized else self.unseen
        rows = test if generalized else unseen_rows
        self.true = np.searchsorted(self.classes, y[rows])
        self._images = _Rows(take_rows(X, rows) if generalized else self.X_unseen)
        self._pile: tuple[_Rows, NDArray[Any]] | None = None
        if fold.unlabelled is not None:
            among_all = fold.unlabelled == "gzsl"
            pile = self._images
            if among_all != generalized:
                pile = _Rows(take_rows(X, test) if among_all else self.X_unseen)
            self._pile = pile, classes if among_all else self.unseen
        self._trained = _Rows(take_rows(X, train[evenly_spaced(len(train), _MOST_SCALE_ROWS)]))

    def adapted(self, model: Any) -> Any:
        """A fitted estimator after the images that the fold gives without labels, if any."""
        if self._pile is None or getattr(model, "unlabelled_weight", 1) == 0:
            return model
        pile, candidates = self._pile
        return pile.given_to(model, candidates)

    def scores(self, model: Any, *, with_scale: bool) -> FoldScores:
        """Score the images by a fitted estimator."""
        rows, scorer = self._images.under(model)
        found = scorer.scores(rows, self.classes)
        scale = float("nan")
        if with_scale:
            rows, trained_by = self._trained.under(model)
            scale = score_scale(trained_by.scores(rows, model.seen_classes_))
        return FoldScores(found, self.true, self.left_out, scale, scorer.temperature)


class _Rows:
    """Features, embedded once for all estimators that embed or transform them in the same way."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self._rows = EmbeddedRows(X)
        self._transformed: tuple[Any, EmbeddedRows] | None = None

    def under(self, model: Any) -> tuple[EmbeddedRows, ClassScorer]:
        """The rows and the scorer for them; of a pipeline, after its transformers."""
        if not isinstance(model, ZeroShotPipeline):
            return self._rows, model.class_scorer_
        transformers = model.transformers_
        if self._transformed is None or self._transformed[0] is not transformers:
            self._transformed = transformers, EmbeddedRows(model.transform_rows(self._X))
        return self._transformed[1], model.steps[-1][1].class_scorer_

    def given_to(self, model: Any, candidates: NDArray[Any]) -> Any:
        """An adapted estimator, without what `adapt` reports if it can."""
        if hasattr(model, "_adapted_to"):
            return model._adapted_to(self._rows, candidates)
        return model.adapt(self._X, classes=candidates)


def score_folds(
    calibration: Any,
    X: Any,
    y: NDArray[Any],
    signatures: Any,
    weights: Floats | None,
    measure: Callable[[FoldScores], Any],
    *,
    with_scale: bool = True,
    with_unseen: bool = False,
) -> list[Any]:
    """What `measure` makes of the scores in each fold; empty where no class can be held out."""
    seen = np.unique(y)
    if signatures is None:
        return []
    if len(seen) < FEWEST_CLASSES:
        warn_user(
            f"{len(seen)} seen classes are too few to leave some out: nothing is calibrated. Give "
            f"at least {FEWEST_CLASSES} classes, or numbers for what is searched."
        )
        return []
    options = {"held_out": calibration.held_out, "random_state": calibration.random_state}
    folds = checked_folds(
        calibration.cv, X, y, as_zero_shot(calibration.estimator), generalized=True, **options
    )
    table = seen_table(signatures, seen, most_unseen=MOST_UNSEEN if with_unseen else 0)
    return list(
        Parallel(n_jobs=calibration.n_jobs)(
            delayed(_score_fold)(
                as_zero_shot(calibration.estimator), X, y, weights, fold, table, measure, with_scale
            )
            for fold in folds
        )
    )


def _score_fold(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    weights: Floats | None,
    fold: Fold,
    table: SignatureTable,
    measure: Callable[[FoldScores], Any],
    with_scale: bool,
) -> Any:
    """What `measure` makes of the scores in one fold."""
    train = fold.train
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on all of the data.
        warnings.simplefilter("ignore", InputWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        part = None if weights is None else weights[train]
        if getattr(estimator, "unlabelled_weight", None) == "cv":
            # What is found for `adapt` takes further fits.
            estimator.set_params(unlabelled_weight=USUAL_UNLABELLED_WEIGHT)
        fit_weighted(estimator, take_rows(X, train), y[train], table, part)
        images = FoldImages(X, y, table.labels, fold, generalized=True)
        return measure(images.scores(images.adapted(estimator), with_scale=with_scale))


def score_scale(scores: Any) -> float:
    """The standard deviation of an image's scores over the seen classes; the median over images."""
    return float(np.median(np.std(to_numpy(scores), axis=1)))


def final_score_scale(estimator: Any, X: Any) -> float:
    """The scale of the scores of an estimator that was fitted on all of the images."""
    rows = take_rows(X, evenly_spaced(X.shape[0], _MOST_SCALE_ROWS))
    with warnings.catch_warnings():
        # Said already when the estimator was fitted on these images.
        warnings.simplefilter("ignore", InputWarning)
        return score_scale(estimator.decision_function(rows, classes=estimator.seen_classes_))


def rescaled(
    values: Sequence[float] | Floats, scales: Sequence[float] | Floats, final: float
) -> Floats:
    r"""Factors or temperatures of folds in the units of the scores after training on all classes.

    A fold trains on fewer classes and images, and its scores may have another scale. With one
    classifier per class against all others, for instance, fewer classes make each of them stronger.
    So a value is kept as a multiple of the scale g of the scores,

    .. math:: b_k \, g / g_k.
    """
    found, folds = np.asarray(values, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    sound = np.isfinite(folds) & (folds > 0) & bool(np.isfinite(final) and final > 0)
    return found * np.where(sound, final, 1.0) / np.where(sound, folds, 1.0)


def mean_calibration(
    estimator: Any,
    X: Any,
    factors: Sequence[float] | Floats,
    temperatures: Sequence[float] | Floats,
    scales: Sequence[float] | Floats,
    *,
    rescale: bool,
) -> tuple[float, float]:
    """The mean factor of the folds, 0 without any, and temperature, at the final scores' scale."""
    final = final_score_scale(estimator, X) if rescale and len(scales) else math.nan
    found = rescaled(factors, scales, final)
    finite = found[np.isfinite(found)]
    factor = float(np.mean(finite)) if len(finite) else 0.0
    return factor, mean_temperature(rescaled(temperatures, scales, final))
