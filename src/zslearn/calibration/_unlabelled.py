"""Images without labels: whether they are to be used, how far, and by which methods.

Their weight is chosen on seen classes that are left out of training, with their images
unlabelled. It must gain where the pile holds images of all candidates, and lose nothing where there
are few images, where half of the candidates are absent and where half of the images are of classes
that nobody described.
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
from zslearn._utils._array import Array, Floats, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import saved_part
from zslearn._utils._messages import warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotMetaClassifier, as_zero_shot
from zslearn.base._predictor import Fitted
from zslearn.base._training import is_empty
from zslearn.calibration._folds import (
    USUAL_UNLABELLED_WEIGHT,
    checked_folds,
    seen_table,
)

#: What is chosen from.
UNLABELLED_WEIGHTS = (0.03, 0.1, 0.3, 1.0)
# One of so many images is in a pile of few.
_SPARSE = 17


@saved_part
@saves(
    weight=Saved(least=0),
    before=Saved(),
    after=Saved(),
)
class WeightChoice(NamedTuple):
    """The weight that left-out classes chose, 0 for none, and their score without and with it."""

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
    """What images without labels did to a model.

    Attributes
    ----------
    accepted : bool
        Whether they were used. If not, the model is as it was.
    weight : float
        What each image counted for, at most; of images with labels, 1 is the most.
    score_before, score_after : float or None
        Of seen classes that were left out, without and with their images unlabelled: the accuracy
        among them, or the harmonic mean where seen classes were candidates. None where nothing was
        left out.
    n_samples : int
        Number of images.
    background_share : float or None
        Share of the images that no candidate explains; None where the method does not say.
    moved : Series
        How far the mean of each candidate moved, in standard deviations of its images.
    proportions : Series
        Share of each candidate in the images that some candidate explains.
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
        """What a choice and a pile came to: where candidates began and ended, and their images."""
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
    """The weight of images without labels; 0, with a warning, where they are not accepted."""
    if accept is not True and accept != "cv":
        raise ValueError(f'accept must be "cv" or True; got {accept!r}.')
    if given is not None:
        return given
    if choice is not None and choice.weight:
        return choice.weight
    if accept is True:
        return USUAL_UNLABELLED_WEIGHT
    why = (
        "Nothing says whether it would gain: it takes ten seen classes, about five images of each, "
        "to leave some out, in memory and in fit, not in the fits of a grid"
        if choice is None
        else f"Seen classes that were left out come to {choice.before:.3f} without and to "
        f"{choice.after:.3f} with their images unlabelled, or lose where there are few images, or "
        "half of the classes are absent or described by nobody"
    )
    warn_user(f"The model is not adapted. {why}. Give accept=True to adapt it all the same.")
    return 0.0


def without_history(model: Any) -> Any:
    """A model that was adapted, without the one that it was adapted from in turn."""
    if not hasattr(model, "adapted_from_"):
        return model
    copied = model._copy()
    attributes = dict(model._fitted.attributes)
    del attributes["adapted_from_"]
    copied._fitted = Fitted(attributes)
    return copied


class LeftOut(NamedTuple):
    """A model without some seen classes, and images of these and of others that it did not see."""

    described: NDArray[np.intp]  # positions of the classes that were left out
    trained: NDArray[np.intp]
    images: Floats  # of the classes left out, in the model's space
    y: NDArray[np.intp]
    others: Floats  # of the classes trained on
    other_y: NDArray[np.intp]


#: Scores of images for some classes, after adapting to them with some weight.
Scored = Callable[[Floats, NDArray[np.intp], float], Floats]


def choose_weight(folds: Iterable[tuple[LeftOut, Scored]]) -> dict[str, WeightChoice]:
    """The weight where the classes left out are "alone", and where "all" classes are candidates."""
    scores: dict[str, list[Floats]] = {"alone": [], "all": []}
    for fold, scored in folds:
        for setting, found in scores.items():
            if setting == "all" and not len(fold.other_y):
                # Too few images to hold some aside: nothing says what seen classes would lose.
                continue
            cases = list(_cases(fold, setting == "all"))
            found.append(
                np.array(
                    [[case.score(scored, t) for t in (0.0, *UNLABELLED_WEIGHTS)] for case in cases]
                )
            )
    return {setting: _chosen(np.array(found)) for setting, found in scores.items() if found}


def _chosen(scores: Floats) -> WeightChoice:
    """The best weight where the pile holds all candidates, of those that lose nothing elsewhere."""
    gains = scores[..., 1:] - scores[..., :1]
    mean = gains.mean(axis=0)
    error = gains.std(axis=0) / np.sqrt(max(len(gains) - 1, 1))
    allowed = (mean[0] > error[0]) & (mean[1:] >= -error[1:]).all(axis=0)
    best = int(np.where(allowed, mean[0], -np.inf).argmax())
    # Of a refusal, what would have been gained where the pile holds all.
    shown = best if allowed.any() else int(mean[0].argmax())
    before, after = scores[:, 0, 0].mean(), scores[:, 0, 1 + shown].mean()
    return WeightChoice(
        UNLABELLED_WEIGHTS[best] if allowed.any() else 0.0, float(before), float(after)
    )


class _Case(NamedTuple):
    """A pile without labels, the candidates, and which of its images are looked at."""

    fold: LeftOut
    pile: Floats
    y: NDArray[np.intp]
    candidates: NDArray[np.intp]

    def score(self, scored: Scored, weight: float) -> float:
        """Accuracy of the classes left out, or its harmonic mean with that of the others."""
        found = self.candidates[scored(self.pile, self.candidates, weight).argmax(axis=1)]
        there, codes = np.unique(self.y, return_inverse=True)
        right = np.bincount(codes, found == self.y) / np.bincount(codes)
        described = np.isin(there, self.fold.described)
        looked_at = np.isin(there, self.candidates)
        unseen = float(right[described & looked_at].mean())
        if described.all():
            return unseen
        seen = float(right[~described].mean())
        return 2 * seen * unseen / max(seen + unseen, 1e-300)


def _cases(fold: LeftOut, generalized: bool) -> Iterator[_Case]:
    """All candidates in the pile; few images; half of the candidates absent; half not described."""
    everything, half = fold.described, fold.described[::2]
    for present, described, step in (
        (everything, everything, 1),
        (everything, everything, _SPARSE),
        (half, everything, 1),
        (everything, half, 1),
    ):
        rows = np.flatnonzero(np.isin(fold.y, present))[::step]
        pile, y, candidates = fold.images[rows], fold.y[rows], described
        if generalized:
            pile = np.concatenate([pile, fold.others[::step]])
            y = np.concatenate([y, fold.other_y[::step]])
            candidates = np.sort(np.concatenate([described, fold.trained]))
        yield _Case(fold, pile, y, candidates)


# Methods that compare images with exemplars.

# Distances are divided by this share of their standard deviation over the classes.
_TEMPERATURE = 0.2
_ROUNDS = 3
# With fewer seen classes nothing is left out.
_FEWEST_CLASSES = 10


@inherit_docs
@saves(
    unlabelled_choices_=Saved(kind=WeightChoice, some_keys=("alone", "all")),
    adapted_from_=Saved(kind=ZeroShotMetaClassifier, optional=True),
    adaptation_=Saved(kind=Adaptation, optional=True),
    _moved=Saved(kind=pd.DataFrame),
)
class Adapted(ZeroShotMetaClassifier):
    r"""Move the exemplars of a method to images without labels, where left-out classes gain by it.

    For methods that compare an image with a point for each class: EXEM, CMT, BiDiLEL, CCA, SAE and
    others whose scores are distances or cosines. With e an embedded image and :math:`p_c` the point
    of a class, three rounds of

    .. math:: r_c \propto \exp(-\|e - p_c\|^2 / \tau), \qquad
              p_c \leftarrow \frac{p_{0c} + t \sum r_c e}{1 + t \sum r_c},

    with :math:`\tau` a fifth of the standard deviation of an image's squared distances from the
    classes. The weight t, or that nothing is to be moved, is found in `fit` on held-out seen
    classes. Methods that multiply (SynC, ESZSL and others) have no such points, and label
    propagation between images lost accuracy on left-out classes; they are refused.
    :meth:`zslearn.synthesis.GaussianEXEM.adapt` needs no wrapper. For labelled images there are
    :class:`~zslearn.baselines.GDA` and :class:`~zslearn.baselines.TipAdapter`.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        What is adapted.
    cv : int, splitter or list of (train, test), default=5
        Folds over the seen classes; see :class:`CalibratedStacking`.
    held_out : float, default=0.2
        Share of the images of each seen class that is held aside, where `cv` is a number.
    random_state : int, RandomState or None, default=0
        Decides the folds and what is held aside, where `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data.
    unlabelled_choices_ : dict of str to WeightChoice
        See :class:`zslearn.synthesis.GaussianEXEM`.
    adapted_from_, adaptation_
        After :meth:`adapt`: the model that was adapted, and what the images did.

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

    _moved: pd.DataFrame  # points of classes after images without labels, by label

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, and choose the weight of unlabelled images on held-out classes."""
        super()._learn(X, y, signatures, weights)
        _refuse_products(self.estimator_)
        self._moved = pd.DataFrame()
        self.unlabelled_choices_ = {}
        if signatures is not None and len(np.unique(y)) >= _FEWEST_CLASSES:
            left_out = self._left_out(X, y, signatures, weights)
            self.unlabelled_choices_ = choose_weight(left_out)

    def _left_out(
        self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
    ) -> Iterator[tuple[LeftOut, Scored]]:
        """Models without some of the seen classes, and images of these, embedded."""
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
            left = np.isin(seen, fold.left_out(y, seen))
            true = np.searchsorted(seen, y[fold.test])
            points = _points(scorer, scorer.embedding(take_rows(X, fold.test)))
            out = left[true]
            positions = np.flatnonzero(left), np.flatnonzero(~left)
            images = points[out], true[out], points[~out], true[~out]
            yield LeftOut(*positions, *images), partial(_scores_after, scorer)

    def adapt(self, X: Any, *, classes: Any = None, accept: str | bool = "cv") -> Self:
        """Move exemplars to unlabelled images; see :meth:`zslearn.synthesis.GaussianEXEM.adapt`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            Candidates that the images may be of; by default every class in `classes_`.
        accept : "cv" or True, default="cv"
            Whether left-out classes decide, or the images are used in any case.

        Returns
        -------
        Adapted
            An adapted copy, with `adaptation_` and `adapted_from_`; this model stays as it is.
        """
        check_is_fitted(self)
        state = self._frozen()
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
        """Forget classes, and where images without labels moved them."""
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


def _refuse_products(estimator: Any) -> None:
    """Methods without a point for each class cannot be adapted."""
    score = estimator.class_scorer_.score
    if score not in ("euclidean", "cosine"):
        raise TypeError(
            f"{type(estimator).__name__} multiplies images with a classifier of each class: there "
            "is no exemplar to move. Adapt EXEM, a method that compares by distance or cosine, or "
            "GaussianEXEM."
        )


def _points(scorer: ClassScorer, rows: Array) -> Floats:
    """Embedded images, or the points of classes, as they are compared."""
    points = np.asarray(to_numpy(rows), dtype=np.float64)
    return unit_rows(points) if scorer.score == "cosine" else points


def _move(images: Floats, start: Floats, weight: float) -> tuple[Floats, Floats]:
    """What images each class is taken for, and its point after some rounds."""
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
    scorer: ClassScorer, pile: Floats, candidates: NDArray[np.intp], weight: float
) -> Floats:
    """Scores of embedded images for some classes, after adapting to them."""
    points = _points(scorer, scorer.parameters)[candidates]
    if weight:
        points = _move(pile, points, weight)[1]
    bias = None if scorer.bias is None else scorer.bias[candidates]
    return np.asarray(class_scores(pile, points, score=scorer.score, bias=bias))
