"""Fit an estimator without some of the seen classes, and score images of the held-out classes.

Searches and calibration share this routine. The held-out classes of a fold remain candidates and
stand for unseen classes. In the generalized setting, validation images of the training classes
stand for images of seen classes. The scores of a fold determine its accuracies, calibration factor,
temperature and score scale, in units of which factor and temperature are averaged over the folds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import array_api_compat as compat
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import column_or_1d

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._probabilities import best_temperature, mean_temperature
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, Floats, evenly_spaced, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._folds import hold_out_per_class
from zslearn._utils._messages import InputWarning, no_user_warnings, warn_user
from zslearn._utils._saved import saved_part
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotPipeline, as_zero_shot
from zslearn.metrics import per_class_accuracy
from zslearn.metrics._curve import seen_unseen_summary
from zslearn.signatures._table import SignatureTable

#: A fold trains on at least two classes and holds out at least two.
FEWEST_CLASSES = 4
#: Constraints of the hyper-parameters of estimators that hold out classes.
FOLD_CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
    "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
    "held_out": [Interval(Real, 0, 1, closed="neither")],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}
#: Weight of unlabelled images if none was chosen.
DEFAULT_UNLABELLED_WEIGHT = 0.3
#: Maximum number of unseen classes that are candidates in a fold, to limit memory.
MAX_UNSEEN = 1000
# Maximum number of training images from which the score scale is measured.
_MAX_SCALE_ROWS = 500

Remainder = Literal["spread", "drop"]


@saved_part
@dataclass(eq=False)
class ClassKFold:
    """Folds that hold out whole classes.

    A fold trains on the samples of all other classes and validates on the samples of its own.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shots : int, default=0
        Number of samples of each held-out class that remain in the training set, as for a class
        with a few labelled images; a fold validates on the others. Classes with at most this number
        of samples are in the training set of every fold.
    unlabelled : {"zsl", "gzsl"}, optional
        Unlabelled images to which a method adapts before a fold is scored: the validation images of
        held-out classes, with these classes as candidates ("zsl"), or all validation images, with
        all classes as candidates ("gzsl").
    remainder : {"spread", "drop"}, default="spread"
        Treatment of classes that do not divide evenly: "spread" makes some folds larger by one;
        "drop" never validates them, as the authors' program does.
    class_order : array-like of int, optional
        Positions in the sorted labels, in the order in which classes are assigned to folds; by
        default a random permutation.
    random_state : int, RandomState or None, default=0
        Seed of the permutation.

    Examples
    --------
    >>> from zslearn.model_selection import ClassKFold
    >>> y = ["ant", "bee", "cat", "ant", "cat", "dog"]
    >>> for train, test in ClassKFold(2, random_state=1).split(None, y):
    ...     print(train, test)
    [0 1 3] [2 4 5]
    [2 4 5] [0 1 3]
    """

    n_splits: int = 5
    _: KW_ONLY
    shots: int = 0
    unlabelled: Literal["zsl", "gzsl"] | None = None
    remainder: Remainder = "spread"
    class_order: ArrayLike | None = None
    random_state: Any = 0

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds; scikit-learn passes the arguments, which are ignored."""
        return self.n_splits

    def split(
        self, X: Any, y: Any, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the training and the validation rows of each fold.

        Parameters
        ----------
        X, groups : object
            Ignored; scikit-learn passes them.
        y : array-like of shape (n_samples,)
            Class labels.

        Yields
        ------
        train, test : ndarray of int
            Row numbers, ascending.
        """
        codes, rng = self._codes(y), check_random_state(self.random_state)
        held = self._held(codes, rng)
        shots = self.shots
        if isinstance(shots, bool) or not isinstance(shots, Integral) or shots < 0:
            raise ValueError(f"shots must be a number of samples, 0 or more; got {shots!r}.")
        if self.unlabelled not in (None, "zsl", "gzsl"):
            raise ValueError(f"unlabelled must be 'zsl', 'gzsl' or None; got {self.unlabelled!r}.")
        many = np.flatnonzero(np.bincount(codes[~held], minlength=codes.max() + 1) > shots)
        # A class with too few samples for the shots would look like a held-out class in every fold
        # if some of its samples were validation samples.
        held &= np.isin(codes, many)
        folds = self._folds(len(many), rng)
        # Drawn after the folds, so that these do not depend on the number of shots.
        given = hold_out_per_class(codes, shots, rng) if shots else np.zeros_like(held)
        for fold in folds:
            inside = np.isin(codes, many[fold])
            back = inside & given
            yield np.flatnonzero(~inside & ~held | back), np.flatnonzero((inside ^ held) & ~back)

    def _held(self, codes: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.bool_]:
        """Rows that validate the training classes and are in no training set."""
        return np.zeros(len(codes), dtype=bool)

    def _codes(self, y: Any) -> NDArray[np.intp]:
        return np.unique(column_or_1d(to_numpy(y)), return_inverse=True)[1]

    def _folds(self, n_classes: int, rng: np.random.RandomState) -> list[NDArray[np.intp]]:
        if self.remainder not in ("spread", "drop"):
            raise ValueError(f"remainder must be 'spread' or 'drop'; got {self.remainder!r}.")
        if not 2 <= self.n_splits <= n_classes:
            raise ValueError(
                f"n_splits must be between 2 and the number of classes, {n_classes}; "
                f"got {self.n_splits}."
            )
        if self.class_order is None:
            order = rng.permutation(n_classes)
        else:
            order = np.asarray(self.class_order)
            if not np.array_equal(np.sort(order), np.arange(n_classes)):
                raise ValueError(
                    f"class_order must be a permutation of 0 … {n_classes - 1}, the positions in "
                    f"the sorted labels of y; got {order.size} numbers."
                )
        if self.remainder == "drop":
            order = order[: n_classes - n_classes % self.n_splits]
        return np.array_split(order, self.n_splits)


@inherit_docs
@saved_part
@dataclass(eq=False)
class GeneralizedClassKFold(ClassKFold):
    """Folds that hold out whole classes, and some images of every other class.

    A share of the images of each class is held out of all training sets. A fold holds out whole
    classes and trains on the remaining images of the others. It validates on the remaining images
    of its held-out classes, which stand for unseen classes, and on the held-out images of the
    others, which stand for seen classes.

    Parameters
    ----------
    held_out : float, int or array-like of int, default=0.2
        Share of the images of each class that is held out, or their number per class, or the row
        numbers themselves.
    random_state : int, RandomState or None, default=0
        Seed of the held-out images and of the permutation.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.model_selection import GeneralizedClassKFold
    >>> y = np.repeat(["ant", "bee"], 5)
    >>> for train, test in GeneralizedClassKFold(2).split(None, y):
    ...     print(y[train].tolist(), y[test].tolist())
    ['ant', 'ant', 'ant', 'ant'] ['ant', 'bee', 'bee', 'bee', 'bee']
    ['bee', 'bee', 'bee', 'bee'] ['ant', 'ant', 'ant', 'ant', 'bee']
    """

    _: KW_ONLY
    held_out: float | int | ArrayLike = 0.2

    def _held(self, codes: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.bool_]:
        amount: Any = self.held_out
        is_number = isinstance(amount, Real) and not isinstance(amount, bool)
        if is_number:
            if amount <= 0 or (not isinstance(amount, Integral) and amount >= 1):
                raise ValueError(
                    f"held_out must be a share between 0 and 1, or a positive number of images; "
                    f"got {amount!r}."
                )
            return hold_out_per_class(codes, amount, rng)
        rows = np.asarray(amount)
        if (
            rows.dtype.kind not in "iu"
            or rows.size == 0
            or rows.min() < 0
            or rows.max() >= len(codes)
        ):
            raise ValueError(f"held_out must contain row numbers from 0 to {len(codes) - 1}.")
        held = np.zeros(len(codes), dtype=bool)
        held[rows] = True
        emptied = np.setdiff1d(codes, codes[~held])
        if emptied.size:
            raise ValueError(f"held_out leaves {emptied.size} classes without training images.")
        return held


class Fold(NamedTuple):
    """Rows to train on and to validate on."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    shots: int = 0  # training samples of each held-out class
    unlabelled: str | None = None  # which test rows are also the unlabelled set, as in ClassKFold

    def held_out(self, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
        """Classes without training samples, or validated classes with at most `shots` of them."""
        kept, counts = np.unique(y[self.train], return_counts=True)
        few = np.intersect1d(kept[counts <= self.shots], y[self.test])
        return np.setdiff1d(classes, np.setdiff1d(kept, few))


def checked_folds(
    cv: Any, X: Any, y: NDArray[Any], estimator: Any, *, generalized: bool, **options: Any
) -> list[Fold]:
    """The folds over the seen classes; raise an error for an invalid fold."""
    if getattr(cv, "unlabelled", None) is not None and not hasattr(estimator, "adapt"):
        raise TypeError(
            f"{type(estimator).__name__} has no adapt method and cannot use the unlabelled images "
            "of the folds."
        )
    splitter = GeneralizedClassKFold if generalized else ClassKFold
    if isinstance(cv, Integral):
        # With a single candidate, every prediction would be correct.
        cv = splitter(min(int(cv), len(np.unique(y)) // 2), **options)
    folds = cv.split(X, y) if hasattr(cv, "split") else cv
    given = getattr(cv, "shots", 0), getattr(cv, "unlabelled", None)
    checked = [Fold(np.asarray(train), np.asarray(test), *given) for train, test in folds]
    for number, fold in enumerate(checked):
        tested = np.unique(y[fold.test])
        held_out = fold.held_out(y, tested)
        kept = np.setdiff1d(y[fold.train], held_out)
        if len(kept) < 2 or len(held_out) == 0:
            raise ValueError(
                f"Fold {number} of cv trains on {len(kept)} classes and holds out {len(held_out)}: "
                "a fold must train on at least two classes and hold out at least one. Use "
                f"{splitter.__name__}."
            )
        if generalized and len(held_out) == len(tested):
            raise ValueError(
                f"Fold {number} of cv has no validation images of its training classes, which the "
                f"generalized setting requires. Use {splitter.__name__}."
            )
        if not generalized and len(held_out) == 1:
            warn_user(
                f"Fold {number} of cv holds out a single class: its accuracy is always perfect."
            )
    return checked


def seen_table(signatures: Any, seen: NDArray[Any], *, max_unseen: int = 0) -> SignatureTable:
    """Signatures of the seen classes and of up to `max_unseen` others."""
    with no_user_warnings():  # the fit on all classes warns
        table = SignatureTable.from_user(signatures, seen)
    rows = table.positions(seen)
    others = np.setdiff1d(np.arange(len(table.labels)), rows)
    step = -(-len(others) // max(max_unseen, 1))
    chosen = others[:: max(step, 1)][:max_unseen]
    return table.subset(np.sort(np.concatenate([rows, chosen])))


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Scores of a fold's validation images."""

    scores: Array  # a column per candidate, on its device
    true: NDArray[np.intp]  # the column of each image's class
    held_out: NDArray[np.bool_]  # candidates that the fold did not train on
    scale: float  # of the training images' scores; NaN if not requested
    own_temperature: float | None  # the estimator's, if it has probabilities

    def conventional(self) -> FoldScores:
        """Images of held-out classes, with these classes as the only candidates."""
        if self.held_out.all():
            return self
        rows, columns = np.flatnonzero(self.held_out[self.true]), np.flatnonzero(self.held_out)
        return FoldScores(
            to_numpy(self.scores)[np.ix_(rows, columns)],
            np.searchsorted(columns, self.true[rows]),
            self.held_out[columns],
            self.scale,
            self.own_temperature,
        )

    def accuracy(self) -> float:
        """Per-class accuracy; the first of equal scores wins, on any device."""
        xp = compat.array_namespace(self.scores)
        n_classes = self.scores.shape[1]
        highest = xp.max(self.scores, axis=1, keepdims=True)
        columns = xp.arange(n_classes, device=compat.device(self.scores))[None, :]
        best = to_numpy(xp.min(xp.where(self.scores == highest, columns, n_classes), axis=1))
        return float(per_class_accuracy(self.true, best))

    def is_tied(self) -> bool:
        """Whether all of several classes have the same score on every image, up to rounding."""
        if self.scores.shape[1] < 2:
            return False
        xp = compat.array_namespace(self.scores)
        highest, lowest = xp.max(self.scores, axis=1), xp.min(self.scores, axis=1)
        largest = xp.max(xp.abs(xp.stack([highest, lowest])))
        return bool(xp.all(highest - lowest <= 4 * xp.finfo(self.scores.dtype).eps * largest))

    def curve_summary(self) -> tuple[float, float, float]:
        """AUSUC, the best harmonic mean of the curve, and the factor that attains it."""
        return seen_unseen_summary(
            self.true,
            self.scores,
            classes=np.arange(len(self.held_out)),
            seen_classes=np.flatnonzero(~self.held_out),
            missing="ignore",
        )

    def temperature(self, factor: float = 0.0) -> float:
        """The best temperature after the scores of seen classes are lowered by a factor."""
        lowered = np.asarray(to_numpy(self.scores), dtype=np.float64) - factor * ~self.held_out
        return best_temperature(lowered, self.true)


class FoldImages:
    """Validation images of a fold; unless generalized, those of held-out classes only."""

    def __init__(
        self, X: Any, y: NDArray[Any], classes: NDArray[Any], fold: Fold, *, generalized: bool
    ) -> None:
        train, test = fold.train, fold.test
        held_out = np.isin(classes, fold.held_out(y, classes))
        self.unseen = classes[held_out]
        # A user's own list of rows may include images of training classes.
        unseen_rows = test[np.isin(y[test], self.unseen)]
        self.X_unseen, self.y_unseen = take_rows(X, unseen_rows), y[unseen_rows]
        self.held_out = held_out if generalized else held_out[held_out]
        self.classes = classes if generalized else self.unseen
        rows = test if generalized else unseen_rows
        self.true = np.searchsorted(self.classes, y[rows])
        self._images = _Rows(take_rows(X, rows) if generalized else self.X_unseen)
        self._unlabelled: tuple[_Rows, NDArray[Any]] | None = None
        if fold.unlabelled is not None:
            among_all = fold.unlabelled == "gzsl"
            images = self._images
            if among_all != generalized:
                images = _Rows(take_rows(X, test) if among_all else self.X_unseen)
            self._unlabelled = images, classes if among_all else self.unseen
        self._trained = _Rows(take_rows(X, train[evenly_spaced(len(train), _MAX_SCALE_ROWS)]))

    def adapted(self, model: Any) -> Any:
        """A fitted estimator after adapting to the unlabelled images of the fold, if any."""
        if self._unlabelled is None or getattr(model, "unlabelled_weight", 1) == 0:
            return model
        images, candidates = self._unlabelled
        return images.adapt(model, candidates)

    def scores(self, model: Any, *, with_scale: bool) -> FoldScores:
        """Score the images with a fitted estimator."""
        rows, scorer = self._images.for_model(model)
        found = scorer.scores(rows, self.classes)
        scale = float("nan")
        if with_scale:
            rows, trained_scorer = self._trained.for_model(model)
            scale = score_scale(trained_scorer.scores(rows, model.seen_classes_))
        return FoldScores(found, self.true, self.held_out, scale, scorer.temperature)


class _Rows:
    """Features that are embedded once for all estimators with the same embedding."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self._rows = EmbeddedRows(X)
        self._transformed: tuple[Any, EmbeddedRows] | None = None

    def for_model(self, model: Any) -> tuple[EmbeddedRows, ClassScorer]:
        """The rows, transformed if the model is a pipeline, and the scorer that takes them."""
        if not isinstance(model, ZeroShotPipeline):
            return self._rows, model.class_scorer_
        transformers = model.transformers_
        if self._transformed is None or self._transformed[0] is not transformers:
            self._transformed = transformers, EmbeddedRows(model.transform_rows(self._X))
        return self._transformed[1], model.steps[-1][1].class_scorer_

    def adapt(self, model: Any, candidates: NDArray[Any]) -> Any:
        """An adapted model, without the report of `adapt` if possible."""
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
    """`measure` of the scores of each fold; empty if no class can be held out."""
    seen = np.unique(y)
    if signatures is None:
        return []
    if len(seen) < FEWEST_CLASSES:
        warn_user(
            f"Calibration on held-out classes requires at least {FEWEST_CLASSES} seen classes; "
            f"with {len(seen)}, nothing is calibrated. Add classes, or set the values yourself."
        )
        return []
    options = {"held_out": calibration.held_out, "random_state": calibration.random_state}
    folds = checked_folds(
        calibration.cv, X, y, as_zero_shot(calibration.estimator), generalized=True, **options
    )
    table = seen_table(signatures, seen, max_unseen=MAX_UNSEEN if with_unseen else 0)
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
    """`measure` of the scores of one fold."""
    train = fold.train
    with warnings.catch_warnings():
        # The fit on all data has already warned.
        warnings.simplefilter("ignore", InputWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        part = None if weights is None else weights[train]
        if getattr(estimator, "unlabelled_weight", None) == "cv":
            # Tuning it in each fold would require further fits.
            estimator.set_params(unlabelled_weight=DEFAULT_UNLABELLED_WEIGHT)
        fit_weighted(estimator, take_rows(X, train), y[train], table, part)
        images = FoldImages(X, y, table.labels, fold, generalized=True)
        return measure(images.scores(images.adapted(estimator), with_scale=with_scale))


def score_scale(scores: Any) -> float:
    """Median over images of the standard deviation of an image's scores over the classes."""
    return float(np.median(np.std(to_numpy(scores), axis=1)))


def final_score_scale(estimator: Any, X: Any) -> float:
    """The score scale of an estimator that was fitted on all images."""
    rows = take_rows(X, evenly_spaced(X.shape[0], _MAX_SCALE_ROWS))
    with warnings.catch_warnings():
        # The fit on these images has already warned.
        warnings.simplefilter("ignore", InputWarning)
        return score_scale(estimator.decision_function(rows, classes=estimator.seen_classes_))


def rescaled(
    values: Sequence[float] | Floats, scales: Sequence[float] | Floats, final: float
) -> Floats:
    r"""Convert factors or temperatures of folds to the units of the final model's scores.

    A fold trains on fewer classes and images, which may change the scale of the scores. The scores
    of one-versus-rest classifiers, for instance, grow if there are fewer classes. The value of a
    fold is therefore converted in proportion to the scale g of the scores,

    .. math:: b_k \, g / g_k.
    """
    found, folds = np.asarray(values, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    valid = np.isfinite(folds) & (folds > 0) & bool(np.isfinite(final) and final > 0)
    return found * np.where(valid, final, 1.0) / np.where(valid, folds, 1.0)


def mean_calibration(
    estimator: Any,
    X: Any,
    factors: Sequence[float] | Floats,
    temperatures: Sequence[float] | Floats,
    scales: Sequence[float] | Floats,
    *,
    rescale: bool,
) -> tuple[float, float]:
    """Mean factor (0 without folds) and temperature of the folds, in units of the final scores."""
    final = final_score_scale(estimator, X) if rescale and len(scales) else math.nan
    found = rescaled(factors, scales, final)
    finite = found[np.isfinite(found)]
    factor = float(np.mean(finite)) if len(finite) else 0.0
    return factor, mean_temperature(rescaled(temperatures, scales, final))
