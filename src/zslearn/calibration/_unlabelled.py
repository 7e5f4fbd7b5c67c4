"""Unlabelled images: whether to use them, with what weight, and for which methods.

The weight is chosen on held-out seen classes whose images serve as the unlabelled set. It must
raise accuracy if the set holds images of all candidates, and must not lower it if there are few
images, if half of the candidates are absent, or if half of the images show undescribed classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, Interval
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
    USUAL_UNLABELLED_WEIGHT,
    checked_folds,
    seen_table,
)

#: Weights to choose from.
UNLABELLED_WEIGHTS = (0.03, 0.1, 0.3, 1.0)
# A set of few images has one of so many.
_SPARSE = 17


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
        """Summarise the points of the candidates before and after, and their numbers of images."""
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
        return USUAL_UNLABELLED_WEIGHT
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
    attributes = dict(model._fitted.attributes)
    del attributes["adapted_from_"]
    copied._fitted = Fitted(attributes)
    return copied


class LeftOut(NamedTuple):
    """A model without some seen classes, and images of all classes that it was not fitted on."""

    described: NDArray[np.intp]  # positions of the held-out classes
    trained: NDArray[np.intp]
    images: Floats  # of the held-out classes, embedded
    y: NDArray[np.intp]
    others: Floats  # of the training classes
    other_y: NDArray[np.intp]


#: Scores images for some classes, after adapting to these images with a weight.
Scored = Callable[[Floats, NDArray[np.intp], float], Floats]


def choose_weight(folds: Iterable[tuple[LeftOut, Scored]]) -> dict[str, WeightChoice]:
    """The weight if only held-out classes are candidates ("alone") and if "all" classes are."""
    scores: dict[str, list[Floats]] = {"alone": [], "all": []}
    for fold, scored in folds:
        for setting, found in scores.items():
            if setting == "all" and not len(fold.other_y):
                # Too few images to hold some out and measure what seen classes would lose.
                continue
            cases = list(_cases(fold, setting == "all"))
            found.append(
                np.array(
                    [[case.score(scored, t) for t in (0.0, *UNLABELLED_WEIGHTS)] for case in cases]
                )
            )
    return {setting: _chosen(np.array(found)) for setting, found in scores.items() if found}


def _chosen(scores: Floats) -> WeightChoice:
    """The best weight for a set with all candidates, of those that lose nothing in other cases."""
    gains = scores[..., 1:] - scores[..., :1]
    mean = gains.mean(axis=0)
    error = gains.std(axis=0) / np.sqrt(max(len(gains) - 1, 1))
    allowed = (mean[0] > error[0]) & (mean[1:] >= -error[1:]).all(axis=0)
    best = int(np.where(allowed, mean[0], -np.inf).argmax())
    # If refused, report the gain for a set with all candidates.
    shown = best if allowed.any() else int(mean[0].argmax())
    before, after = scores[:, 0, 0].mean(), scores[:, 0, 1 + shown].mean()
    return WeightChoice(
        UNLABELLED_WEIGHTS[best] if allowed.any() else 0.0, float(before), float(after)
    )


class _Case(NamedTuple):
    """An unlabelled set with the true labels of its images, and the candidates."""

    fold: LeftOut
    images: Floats
    y: NDArray[np.intp]
    candidates: NDArray[np.intp]

    def score(self, scored: Scored, weight: float) -> float:
        """Accuracy of the held-out classes, or its harmonic mean with that of the others."""
        found = self.candidates[scored(self.images, self.candidates, weight).argmax(axis=1)]
        present, codes = np.unique(self.y, return_inverse=True)
        right = np.bincount(codes, found == self.y) / np.bincount(codes)
        described = np.isin(present, self.fold.described)
        is_candidate = np.isin(present, self.candidates)
        unseen = float(right[described & is_candidate].mean())
        if described.all():
            return unseen
        seen = float(right[~described].mean())
        return 2 * seen * unseen / max(seen + unseen, 1e-300)


def _cases(fold: LeftOut, generalized: bool) -> Iterator[_Case]:
    """Sets with all candidates; few images; half of the candidates absent; half undescribed."""
    everything, half = fold.described, fold.described[::2]
    for present, described, step in (
        (everything, everything, 1),
        (everything, everything, _SPARSE),
        (half, everything, 1),
        (everything, half, 1),
    ):
        rows = np.flatnonzero(np.isin(fold.y, present))[::step]
        images, y, candidates = fold.images[rows], fold.y[rows], described
        if generalized:
            images = np.concatenate([images, fold.others[::step]])
            y = np.concatenate([y, fold.other_y[::step]])
            candidates = np.sort(np.concatenate([described, fold.trained]))
        yield _Case(fold, images, y, candidates)


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
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
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
            self.unlabelled_choices_ = choose_weight(self._trials(X, y, signatures, weights))

    def _trials(
        self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
    ) -> Iterator[tuple[LeftOut, Scored]]:
        """Yield models without some of the seen classes, and embedded images of these."""
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
            left = np.isin(seen, fold.held_out(y, seen))
            true = np.searchsorted(seen, y[fold.test])
            points = _points(scorer, scorer.embedding(take_rows(X, fold.test)))
            out = left[true]
            positions = np.flatnonzero(left), np.flatnonzero(~left)
            images = points[out], true[out], points[~out], true[~out]
            yield LeftOut(*positions, *images), partial(_scores_after, scorer)

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
        known = is_among(labels, self.seen_classes_)
        choice = self.unlabelled_choices_.get("all" if known.any() else "alone")
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
        """Remove classes that have no training images, and their adapted points."""
        super().remove_classes(labels)

        def keep(changed: Self) -> None:
            changed._moved = changed._moved[changed._moved.index.isin(changed.classes_)]

        return self._change(keep)

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


def _scores_after(
    scorer: ClassScorer, images: Floats, candidates: NDArray[np.intp], weight: float
) -> Floats:
    """Scores of embedded images for some classes, after adapting to these images."""
    points = _points(scorer, scorer.parameters)[candidates]
    if weight:
        points = _move(images, points, weight)[1]
    bias = None if scorer.bias is None else scorer.bias[candidates]
    return np.asarray(class_scores(images, points, score=scorer.score, bias=bias))
