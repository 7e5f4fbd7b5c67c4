"""Adaptation to unlabelled images: whether to use them, and with what weight.

The weight is chosen on held-out seen classes whose images serve as the unlabelled set. It must
raise accuracy if the set holds images of all candidates, and must not lower it if there are few
images, if half of the candidates are absent, or if half of the images show undescribed classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._blocks import class_scores
from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer, find_classes, identical_rows, is_among
from zslearn._utils._array import Array, Floats, is_empty, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import warn_user
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotMetaClassifier, as_zero_shot
from zslearn.base._predictor import Fitted
from zslearn.calibration._folds import (
    DEFAULT_UNLABELLED_WEIGHT,
    FOLD_CONSTRAINTS,
    checked_folds,
    seen_table,
)

#: Weights to choose from.
UNLABELLED_WEIGHTS = (0.03, 0.1, 0.3, 1.0)
# A small set contains one in so many images.
_FEW_IMAGES_STEP = 17


@saved_part
@saves(
    weight=Saved(least=0),
    before=Saved(),
    after=Saved(),
)
class WeightChoice(NamedTuple):
    """The weight chosen on held-out classes, 0 for none, and their scores without and with it."""

    weight: float
    before: float
    after: float


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    accepted=Saved(kind=bool),
    weight=Saved(least=0),
    score_before=Saved(optional=True),
    score_after=Saved(optional=True),
    n_samples=Saved(kind="int", least=0),
    background_share=Saved(optional=True),
    moved=Saved(kind=pd.Series),
    proportions=Saved(kind=pd.Series),
)
class Adaptation:
    """How unlabelled images changed a model.

    Attributes
    ----------
    accepted : bool
        Whether they were used. If not, the model is unchanged.
    weight : float
        Largest weight of an image; that of a labelled image is 1.
    score_before, score_after : float or None
        Scores of held-out seen classes without and with their unlabelled images: the accuracy among
        them, or the harmonic mean if seen classes were candidates. None if none were held out.
    n_samples : int
        Number of images.
    background_share : float or None
        Share of the images that no candidate explains; None if the method does not estimate it.
    moved : Series
        Distance by which the mean of each candidate moved, in standard deviations of its images.
    proportions : Series
        Share of each candidate among the images that some candidate explains.
    """

    accepted: bool
    weight: float
    score_before: float | None
    score_after: float | None
    n_samples: int
    background_share: float | None
    moved: pd.Series
    proportions: pd.Series

    @classmethod
    def of(
        cls,
        choice: WeightChoice | None,
        weight: float,
        n_samples: int,
        background_share: float | None,
        *,
        labels: NDArray[Any],
        start: Floats,
        end: Floats,
        counts: Floats,
    ) -> Self:
        """Summarise the points of the candidates before and after, and their image counts."""
        return cls(
            accepted=bool(weight),
            weight=weight,
            score_before=None if choice is None else choice.before,
            score_after=None if choice is None else choice.after,
            n_samples=n_samples,
            background_share=background_share,
            moved=pd.Series(np.sqrt(((end - start) ** 2).sum(axis=1)), labels),
            proportions=pd.Series(counts / max(counts.sum(), 1e-300), labels),
        )


def accepted_weight(
    choice: WeightChoice | None, accept: str | bool, given: float | None = None
) -> float:
    """The weight of unlabelled images; 0, with a warning, if they are not accepted."""
    if accept is not True and accept != "cv":
        raise ValueError(f'accept must be "cv" or True; got {accept!r}.')
    if given is not None:
        return given
    if choice is not None and choice.weight:
        return choice.weight
    if accept is True:
        return DEFAULT_UNLABELLED_WEIGHT
    reason = (
        "No classes were held out to test whether it helps: that takes ten seen classes with about "
        "five images each, in memory, and a model that was not fitted as part of a grid"
        if choice is None
        else f"Held-out seen classes score {choice.before:.3f} without and {choice.after:.3f} with "
        "their unlabelled images, or lose if there are few images, or if half of the classes are "
        "absent or undescribed"
    )
    warn_user(f"The model was not adapted. {reason}. Pass accept=True to adapt it anyway.")
    return 0.0


def without_history(model: Any) -> Any:
    """An adapted model without its own `adapted_from_`."""
    if not hasattr(model, "adapted_from_"):
        return model
    copied = model._copy()
    attributes = model._fitted.attributes
    copied._fitted = Fitted({k: v for k, v in attributes.items() if k != "adapted_from_"})
    return copied


class HeldOutFold(NamedTuple):
    """Images that the model of a fold was not trained on, and positions of their classes."""

    held_out: NDArray[np.intp]
    trained: NDArray[np.intp]
    images: Floats  # of the held-out classes, embedded
    y: NDArray[np.intp]
    others: Floats  # of the training classes
    other_y: NDArray[np.intp]


#: (images, classes, weight) → scores after adapting to these images.
AdaptedScores = Callable[[Floats, NDArray[np.intp], float], Floats]


def choose_weight(folds: Iterable[tuple[HeldOutFold, AdaptedScores]]) -> dict[str, WeightChoice]:
    """Choose the weight if only held-out classes are candidates ("alone"), and for "all"."""
    results: dict[str, list[Floats]] = {"alone": [], "all": []}
    for fold, adapted_scores in folds:
        for setting, of_folds in results.items():
            # With few images, none show what seen classes would lose.
            if setting == "alone" or len(fold.other_y):
                of_folds.append(_case_scores(fold, adapted_scores, setting == "all"))
    return {
        setting: best_choice(np.array(of_folds))
        for setting, of_folds in results.items()
        if of_folds
    }


def best_choice(scores: Floats) -> WeightChoice:
    """The weight with the largest gain in the first case that loses nothing in the others.

    The axes of `scores` are folds, cases and weights, of which the first is 0.
    """
    gains = scores[..., 1:] - scores[..., :1]
    mean = gains.mean(axis=0)
    error = gains.std(axis=0) / np.sqrt(max(len(gains) - 1, 1))
    allowed = (mean[0] > error[0]) & (mean[1:] >= -error[1:]).all(axis=0)
    # If no weight is allowed, report the largest gain.
    best = int(np.where(allowed | ~allowed.any(), mean[0], -np.inf).argmax())
    before, after = scores[:, 0, 0].mean(), scores[:, 0, 1 + best].mean()
    weight = UNLABELLED_WEIGHTS[best] if allowed.any() else 0.0
    return WeightChoice(weight, float(before), float(after))


def _case_scores(fold: HeldOutFold, adapted_scores: AdaptedScores, generalized: bool) -> Floats:
    """Scores of a fold by case and weight.

    The cases are sets with images of all candidates, with few images, without images of half of the
    candidates, and with half of the images from classes that are no candidates.
    """
    everything, half = fold.held_out, fold.held_out[::2]
    rows = []
    for present, candidates, step in (
        (everything, everything, 1),
        (everything, everything, _FEW_IMAGES_STEP),
        (half, everything, 1),
        (everything, half, 1),
    ):
        chosen = np.flatnonzero(np.isin(fold.y, present))[::step]
        images, y = fold.images[chosen], fold.y[chosen]
        if generalized:
            images = np.concatenate([images, fold.others[::step]])
            y = np.concatenate([y, fold.other_y[::step]])
            candidates = np.sort(np.concatenate([candidates, fold.trained]))
        row = []
        for weight in (0.0, *UNLABELLED_WEIGHTS):
            predicted = candidates[adapted_scores(images, candidates, weight).argmax(axis=1)]
            row.append(_accuracy(y, predicted, np.isin(y, fold.held_out), candidates))
        rows.append(row)
    return np.array(rows)


def _accuracy(
    y: NDArray[np.intp],
    predicted: NDArray[np.intp],
    is_held_out: NDArray[np.bool_],
    candidates: NDArray[np.intp],
) -> float:
    """Per-class accuracy of held-out candidates, or its harmonic mean with that of the others."""

    def mean(rows: NDArray[np.bool_]) -> float:
        _, codes = np.unique(y[rows], return_inverse=True)
        right = (predicted == y)[rows]
        return float((np.bincount(codes, right) / np.bincount(codes)).mean())

    unseen = mean(is_held_out & np.isin(y, candidates))
    if is_held_out.all():
        return unseen
    seen = mean(~is_held_out)
    return 2 * seen * unseen / max(seen + unseen, 1e-300)


# Methods that compare images with exemplars

# Temperature of the responsibilities, in standard deviations of an image's distances.
_TEMPERATURE = 0.2
_ROUNDS = 3
# With fewer seen classes none are held out.
_FEWEST_CLASSES = 10


@inherit_docs
@saves(
    unlabelled_choices_=Saved(kind=WeightChoice, some_keys=("alone", "all")),
    adapted_from_=Saved(kind=ZeroShotMetaClassifier, optional=True),
    adaptation_=Saved(kind=Adaptation, optional=True),
    _moved=Saved(kind=pd.DataFrame),
)
class Adapted(ZeroShotMetaClassifier):
    r"""Adapt the exemplars of a method to unlabelled images if that helps held-out classes.

    For methods that compare an image with a point for each class: EXEM, CMT, BiDiLEL, CCA, SAE and
    others whose scores are distances or cosines. For an embedded image e and the point :math:`p_c`
    of a class, three rounds of

    .. math:: r_c \propto \exp(-\|e - p_c\|^2 / \tau), \qquad
              p_c \leftarrow \frac{p_{0c} + t \sum r_c e}{1 + t \sum r_c},

    are computed, where :math:`\tau` is a fifth of the standard deviation of an image's squared
    distances from the classes. `fit` chooses the weight t, possibly 0, on held-out seen classes.
    Linear classifiers (SynC, ESZSL and others) have no such points and are refused.
    :meth:`zslearn.synthesis.GaussianEXEM.adapt` needs no wrapper. For labelled images see
    :class:`~zslearn.baselines.GDA` and :class:`~zslearn.baselines.TipAdapter`.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        The method to adapt.
    cv : int, splitter or list of (train, test), default=5
        Folds over the seen classes; see :class:`CalibratedStacking`.
    held_out : float, default=0.2
        Share of the images of each seen class that is held out, if `cv` is a number.
    random_state : int, RandomState or None, default=0
        Seed of the folds and of the held-out images, if `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    unlabelled_choices_ : dict of str to WeightChoice
        See :class:`zslearn.synthesis.GaussianEXEM`.
    adapted_from_, adaptation_
        Set by :meth:`adapt`: the model before, and a report of the changes.

    Examples
    --------
    >>> from zslearn import EXEM
    >>> from zslearn.calibration import Adapted
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = Adapted(EXEM()).fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    >>> adapted.adaptation_.n_samples
    150
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: FOLD_CONSTRAINTS[name] for name in ("estimator", "cv", "held_out", "random_state")
    }

    def __init__(
        self, estimator: Any, *, cv: Any = 5, held_out: float = 0.2, random_state: Any = 0
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.held_out = held_out
        self.random_state = random_state

    _moved: pd.DataFrame  # adapted points of classes, by label

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, then choose the weight of unlabelled images on held-out classes."""
        super()._learn(X, y, signatures, weights)
        _refuse_classifiers(self.estimator_)
        self._moved = pd.DataFrame()
        self.unlabelled_choices_ = {}
        if signatures is not None and len(np.unique(y)) >= _FEWEST_CLASSES:
            self.unlabelled_choices_ = choose_weight(self._folds(X, y, signatures, weights))

    def _folds(
        self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
    ) -> Iterator[tuple[HeldOutFold, AdaptedScores]]:
        """Fit models without some of the seen classes, and embed images of all classes."""
        seen = np.unique(y)
        table = seen_table(signatures, seen)
        options = {"held_out": self.held_out, "random_state": self.random_state}
        for fold in checked_folds(self.cv, X, y, self, generalized=True, **options):
            model = as_zero_shot(self.estimator)
            part = None if weights is None else weights[fold.train]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit_weighted(model, take_rows(X, fold.train), y[fold.train], table, part)
            scorer = model.class_scorer_
            held_out = np.isin(seen, fold.held_out(y, seen))
            true = np.searchsorted(seen, y[fold.test])
            points = _points(scorer, scorer.embedding(take_rows(X, fold.test)))
            own = held_out[true]
            positions = np.flatnonzero(held_out), np.flatnonzero(~held_out)
            images = points[own], true[own], points[~own], true[~own]
            yield HeldOutFold(*positions, *images), partial(_adapted_scores, scorer)

    def adapt(self, X: Any, *, classes: Any = None, accept: str | bool = "cv") -> Self:
        """Adapt exemplars to unlabelled images; see :meth:`zslearn.synthesis.GaussianEXEM.adapt`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            Classes that the images may belong to; by default every class in `classes_`.
        accept : "cv" or True, default="cv"
            "cv": use the images if held-out classes gained by theirs; True: use them anyway.

        Returns
        -------
        Adapted
            An adapted copy, with `adaptation_` and `adapted_from_`; this model is unchanged.
        """
        check_is_fitted(self)
        state = self._snapshot()
        scorer = state.estimator_.class_scorer_
        places = np.arange(len(scorer.labels))
        if classes is not None:
            places = np.sort(find_classes(classes, scorer.labels))
        labels = scorer.labels[places]
        with_seen = is_among(labels, self.seen_classes_).any()
        choice = self.unlabelled_choices_.get("all" if with_seen else "alone")
        weight = accepted_weight(choice, accept)
        start = _points(scorer, scorer.parameters)[places]
        counts, points, n_samples = np.zeros(len(places)), start, 0
        if not is_empty(X):
            images = _points(scorer, scorer.embedding(self._check_features(X)))
            counts, points = _move(images, start, weight)
            n_samples = len(images)
        adaptation = Adaptation.of(
            choice, weight, n_samples, None, labels=labels, start=start, end=points, counts=counts
        )
        moved = pd.DataFrame(points, labels) if weight else pd.DataFrame()
        return state._with(
            _moved=moved, adapted_from_=without_history(state), adaptation_=adaptation
        )

    def remove_classes(self, labels: Any) -> Self:
        """Remove classes without training images, and their adapted points."""
        super().remove_classes(labels)

        def forget(changed: Self) -> None:
            changed._moved = changed._moved[changed._moved.index.isin(changed.classes_)]

        return self._change(forget)

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if not len(self._moved):
            return scorer
        parameters = _points(scorer, scorer.parameters).copy()
        places = pd.Index(self._moved.index).get_indexer(pd.Index(scorer.labels))
        parameters[places >= 0] = self._moved.to_numpy()[places[places >= 0]]
        same_as = None if scorer.same_as is None else identical_rows(parameters)
        return replace(scorer, parameters=parameters, same_as=same_as)


def _refuse_classifiers(estimator: Any) -> None:
    """Refuse methods without a point for each class."""
    score = estimator.class_scorer_.score
    if score not in ("euclidean", "cosine"):
        raise TypeError(
            f"{type(estimator).__name__} has linear classifiers and no exemplar to move. Adapt "
            "EXEM, GaussianEXEM or another method whose scores are distances or cosines."
        )


def _points(scorer: ClassScorer, rows: Array) -> Floats:
    """Embedded images or points of classes, normalised to unit length for cosines."""
    points = np.asarray(to_numpy(rows), dtype=np.float64)
    return unit_rows(points) if scorer.score == "cosine" else points


def _move(images: Floats, start: Floats, weight: float) -> tuple[Floats, Floats]:
    """The expected number of images of each class, and its point after all rounds."""
    points, scale = start, None
    for _ in range(_ROUNDS):
        distances = cdist(images, points, "sqeuclidean")
        if scale is None:
            scale = float(np.median(distances.std(axis=1))) or 1.0
        shares = softmax(-distances, _TEMPERATURE * scale)
        counts = shares.sum(axis=0)
        points = (start + weight * (shares.T @ images)) / (1 + weight * counts)[:, None]
    return counts, points


def _adapted_scores(
    scorer: ClassScorer, images: Floats, candidates: NDArray[np.intp], weight: float
) -> Floats:
    """Scores of embedded images for some classes, after adapting to these images."""
    points = _points(scorer, scorer.parameters)[candidates]
    if weight:
        points = _move(images, points, weight)[1]
    bias = None if scorer.bias is None else scorer.bias[candidates]
    return np.asarray(class_scores(images, points, score=scorer.score, bias=bias))
