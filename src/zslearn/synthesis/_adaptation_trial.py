r"""Try adaptation to unlabelled images on held-out seen classes.

The first :meth:`GaussianEXEM.adapt` does so, with whitened training images that `fit` keeps. In
turn, a fifth of the seen classes is hidden: the space loses the directions that only they span, the
Gaussian process is conditioned on the others, and some of their images become an unlabelled set.
The adapted model is scored on images outside the set. Six kinds of sets are tried: all candidates,
few images of each, half of the candidates absent, half of the images or all of them from classes
that are no candidates, and ten times as many images of some candidates as of others. Absent
candidates are also scored alone.

The same images determine how likely a candidate explains an image (`_unlabelled`). A given set is
compared with the kinds by what can be seen of it: the number of images per candidate, the share
that no candidate explains, and how evenly the others are distributed. It is used with a weight that
gains more than its standard error with the most similar kind, and loses with none that it may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from zslearn._utils._array import Floats
from zslearn._utils._messages import warn_user
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.calibration._folds import DEFAULT_UNLABELLED_WEIGHT
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior, ClassSamples
from zslearn.synthesis._gaussian_process import (
    ClassGaussians,
    ClassPrior,
    SignatureKernel,
    basis,
)
from zslearn.synthesis._temperature import FEWEST_CLASSES, N_GROUPS
from zslearn.synthesis._unlabelled import Assignment, Background
from zslearn.synthesis._whitened_space import (
    OWN_ROUNDING,
    OrthogonalComplement,
    WhitenedSpace,
    own_directions,
)

#: Weights of unlabelled images to choose from.
UNLABELLED_WEIGHTS = (0.03, 0.1, 0.3, 1.0)
#: Kinds of unlabelled sets, and of scored classes.
KINDS = (
    "all", "few", "half absent", "half absent, absent classes", "half foreign", "foreign only",
    "10 to 1",
)  # fmt: skip
# What each kind may lose: the images of the other classes say little of an absent class.
_TOLERATED = np.where(np.array(KINDS) == "half absent, absent classes", 0.01, 0.0)[:, None]
_FEW = 3  # images per class
# Parts of the held-out classes, one of which is no candidate when the background is learned.
_FOREIGN_PARTS = (2, 4, 10)
_DRAWS = 2
# Images of classes that are not hidden, in a set and outside it.
_MOST_OTHERS = 1000
# Differences between sets that look alike: of the decimal logarithm of the images per candidate, of
# the share that no candidate explains, and of the evenness of the proportions. The share is
# underestimated if classes are more alike than those of the trial: larger ones count half.
_ALIKE, _UNDERESTIMATED = np.array([0.5, 0.15, 0.15]), 2.0
# A set may be of a kind whose squared distance is less than this above the smallest.
_PLAUSIBLE = 4.6


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    accepted=Saved(kind=bool),
    weight=Saved(least=0),
    score_before=Saved(optional=True),
    score_after=Saved(optional=True),
    n_samples=Saved(kind="int", least=0),
    background_share=Saved(),
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
        Scores of held-out seen classes without and with unlabelled images, for the kind of set that
        looks most like this one, or that forbids adaptation: the accuracy among them, or the
        harmonic mean if seen classes were candidates. None if none were held out.
    n_samples : int
        Number of images.
    background_share : float
        Estimated share of the images that no candidate explains.
    moved : Series
        Distance by which the mean of each candidate moved, in standard deviations of its images.
    proportions : Series
        Estimated share of each candidate among the images that some candidate explains. They can be
        the `prior` of predictions for the images themselves.
    """

    accepted: bool
    weight: float
    score_before: float | None
    score_after: float | None
    n_samples: int
    background_share: float
    moved: pd.Series
    proportions: pd.Series


class Expectation(NamedTuple):
    """What held-out classes gained with the decisive kind of unlabelled set."""

    weight: float  # the best one, or 0 if none is accepted
    before: float
    after: float
    error: float  # standard error of the gain
    kind: str


@saved_part
@saves(
    background=Saved(kind=Background),
    before=Saved("n_kinds"),
    gains=Saved("n_kinds", "n_weights"),
    errors=Saved("n_kinds", "n_weights", least=0),
    looks=Saved("n_kinds", None),
)
class Trial(NamedTuple):
    """Scores of held-out classes, by kind of unlabelled set and weight."""

    background: Background
    before: Floats
    gains: Floats
    errors: Floats  # standard errors
    looks: Floats  # see `look`

    def expectation(self, assignment: Assignment | None) -> Expectation:
        """The weight that gains with the kind that looks most like a set, and never loses."""
        own = self.looks[0] if assignment is None else look(assignment)
        differences = (own - self.looks) / _ALIKE
        differences[:, 1] /= np.where(differences[:, 1] < 0, _UNDERESTIMATED, 1.0)
        distances = (differences**2).sum(axis=1)
        nearest, plausible = int(distances.argmin()), distances - distances.min() < _PLAUSIBLE
        tolerable = self.gains + _TOLERATED
        surely = tolerable - self.errors
        gains, loses = surely[nearest] > 0, (tolerable[plausible] < 0).any(axis=0)
        allowed = gains & ~loses
        worst_gains = np.where(plausible[:, None], surely, np.inf).min(axis=0)
        best = int(np.where(allowed | ~allowed.any(), worst_gains, -np.inf).argmax())
        kind = nearest
        if not allowed[best] and gains[best]:
            kind = int(np.where(plausible, tolerable[:, best], np.inf).argmin())
        before, gain = float(self.before[kind]), float(self.gains[kind, best])
        weight = UNLABELLED_WEIGHTS[best] if allowed[best] else 0.0
        error = float(self.errors[kind, best])
        return Expectation(weight, before, before + gain, error, KINDS[kind])

    def table(self) -> pd.DataFrame:
        """Score without unlabelled images and gain with each weight, by kind of set."""
        gains = pd.DataFrame(self.gains, KINDS, UNLABELLED_WEIGHTS)
        gains.insert(0, "score", self.before)
        return gains


def look(assignment: Assignment) -> Floats:
    """What can be seen of an unlabelled set, from its assignment with the default weight."""
    shares = np.maximum(assignment.proportions, 1e-300)
    evenness = np.exp(-(shares * np.log(shares)).sum()) / len(shares)
    return np.array([np.log10(assignment.n / len(shares)), assignment.unexplained, float(evenness)])


def accepted_weight(
    expectation: Expectation | None,
    accept: str | bool,
    given: float | None = None,
    *,
    measure: str = "accuracy",
) -> float:
    """The weight of unlabelled images; 0, with a warning, if they are not accepted."""
    if accept is not True and accept != "cv":
        raise ValueError(f'accept must be "cv" or True; got {accept!r}.')
    if given is not None:
        return given
    if expectation is not None and expectation.weight:
        return expectation.weight
    if accept is True:
        return DEFAULT_UNLABELLED_WEIGHT
    if expectation is None:
        reason = (
            "No classes were held out to test whether it helps: that takes ten seen classes with "
            "about five images each, in memory, and a model that was not fitted as part of a grid"
        )
    else:
        reason = (
            f'The set may be of the kind "{expectation.kind}". With such sets, the {measure} on '
            f"held-out seen classes is {expectation.before:.3f} without and "
            f"{expectation.after:.3f} ± {expectation.error:.3f} with adaptation"
        )
    warn_user(f"The model was not adapted. {reason}. Pass accept=True to adapt it anyway.")
    return 0.0


@saved_part
@saves(
    z=Saved("n_images", "n_dims"),
    y=Saved("n_images", kind="int", least=0),
    sizes=Saved("n_seen", above=0),
    trials=Saved(kind=Trial, some_keys=("alone", "all")),
)
@dataclass(eq=False)
class TrialImages:
    """Whitened training images of the classes with many samples, as if they were new.

    Copies of a model share this object and thus the results of the trial.
    """

    z: NDArray[np.float16]
    y: NDArray[np.intp]
    sizes: Floats  # training samples of each seen class
    trials: dict[str, Trial] = field(default_factory=dict)

    @classmethod
    def of(cls, z: Floats, y: NDArray[np.intp], sizes: Floats) -> Self:
        """Keep images in an order that does not depend on that of the training data."""
        order = np.lexsort((z[:, 0], y))
        largest = np.finfo(np.float16).max
        return cls(np.clip(z[order], -largest, largest).astype(np.float16), y[order], sizes)

    def trial(
        self, posterior: ClassPosterior, setting: str, mean_error_weight: float
    ) -> Trial | None:
        """The trial with held-out candidates "alone" or "all" classes; None with too few."""
        if (~posterior.few_shot).sum() < FEWEST_CLASSES:
            return None
        if setting not in self.trials:
            folds = list(self._folds(posterior, mean_error_weight))
            result = _trial(folds, setting)
            if result is None:
                return None
            # Other threads may be reading the dict.
            self.trials = {**self.trials, setting: result}
        return self.trials[setting]

    def _folds(self, posterior: ClassPosterior, mean_error_weight: float) -> Iterator[Fold]:
        """Hide each fifth of the classes with many samples in turn."""
        many = np.flatnonzero(~posterior.few_shot)
        order = many[np.argsort(posterior.exemplars[many, 0], kind="stable")]
        for k in range(N_GROUPS):
            held_out = np.sort(order[k::N_GROUPS])
            trained = np.setdiff1d(many, held_out)
            yield self._fold(posterior, held_out, trained, mean_error_weight)

    def _fold(
        self,
        posterior: ClassPosterior,
        held_out: NDArray[np.intp],
        trained: NDArray[np.intp],
        mean_error_weight: float,
    ) -> Fold:
        """The model as it would be without some classes, and all images in its space."""
        kernel, alpha = posterior.prior.kernel, posterior.prior.process.alpha
        means, signatures = posterior.exemplars, kernel.seen
        origin, whole = means[trained].mean(axis=0), posterior.space.complement
        _, lengths, axes = np.linalg.svd(means[trained] - origin, full_matrices=False)
        axes = axes[lengths > OWN_ROUNDING * lengths[0]].T
        points = (means[trained] - origin) @ axes
        sizes, norm, center = self.sizes[trained], posterior.space.norm, np.zeros(axes.shape[1])
        if norm is not None:
            squares = (points**2).sum(axis=1)
            within = max(norm**2 - float(sizes @ squares / sizes.sum()), 0.0)
            points = points * (norm / np.sqrt(squares + within))[:, None]
            center = points.mean(axis=0)
            points = points - center
        # The directions that only held-out classes span are orthogonal to the space of the others.
        complement = None
        if whole is not None and axes.shape[1] < len(origin):
            complement = OrthogonalComplement(origin, whole.signal, None)
        inner = SignatureKernel(signatures[trained], kernel.gamma)
        similarity = inner.among_seen()
        prior, leave_one_out = ClassPrior.learn(
            inner, similarity, basis(similarity, sizes, alpha), points, sizes, alpha
        )
        nothing = np.zeros((0, len(origin)))
        fold = replace(
            posterior,
            space=WhitenedSpace(axes, origin @ axes, norm, center, complement),
            prior=PriorOfClasses.of(prior, signatures, held_out),
            classes=trained,
            few_shot=np.zeros(len(trained), dtype=bool),
            exemplars=points,
            leave_one_out=leave_one_out,
            samples=ClassSamples(trained, sizes, points),
            orthogonal=ClassSamples(trained[:0], sizes[:0], nothing),
            column_labels=trained[:0],
            columns=nothing,
            unlabelled=ClassSamples(trained[:0], sizes[:0], points[:0]),
            undescribed=trained[:0],
        )
        fold = fold.calibrated(own_directions(points), mean_error_weight)[0]
        rows = fold.unlabelled_rows(self.z.astype(np.float64), len(held_out))
        if (outside := rows[:, axes.shape[1] :]).size:
            outside -= (outside @ axes) @ axes.T
        return Fold(fold, rows, self.y, held_out, trained)


@dataclass(frozen=True, eq=False)
class PriorOfClasses(ClassPrior):
    """A prior that is computed once, of classes that are known by number instead of signature."""

    gaussians: ClassGaussians
    held_out: NDArray[np.intp]
    among_held_out: Floats  # correlations

    @classmethod
    def of(cls, prior: ClassPrior, signatures: Signatures, held_out: NDArray[np.intp]) -> Self:
        """The prior of all classes, with the correlations between some."""
        correlations = prior.correlations(signatures[held_out])
        return cls(
            **vars(prior),
            gaussians=prior.predict(signatures),
            held_out=held_out,
            among_held_out=correlations,
        )

    def predict(
        self, signatures: Any, uncertain: NDArray[np.bool_] | None = None
    ) -> ClassGaussians:
        """The prior of some classes; see :meth:`ClassPrior.predict`."""
        means, variances = self.gaussians.means[signatures], self.gaussians.variances[signatures]
        if uncertain is not None:
            variances[~uncertain] = 0.0
        return ClassGaussians(means, variances)

    def correlations(self, signatures: Any) -> Floats:
        """Correlations between some of the held-out classes."""
        at = np.searchsorted(self.held_out, signatures)
        return self.among_held_out[np.ix_(at, at)]


@dataclass(frozen=True)
class Fold:
    """A model without some classes, and images of all of them as its `unlabelled_rows`.

    To its posterior, the number of a class is its signature.
    """

    posterior: ClassPosterior
    z: Floats
    y: NDArray[np.intp]
    held_out: NDArray[np.intp]
    trained: NDArray[np.intp]

    def assigned(
        self,
        rows: NDArray[np.intp],
        candidates: NDArray[np.intp],
        weight: float,
        background: Background,
    ) -> Assignment:
        """Assign some images to candidates."""
        z, signatures = self.z[rows], cast(Any, candidates)
        found = self.posterior.assigned(lambda: [z], signatures, candidates, weight, background)
        assert found is not None
        return found

    def score(
        self,
        assignment: Assignment | None,
        weight: float,
        candidates: NDArray[np.intp],
        rows: NDArray[np.intp],
    ) -> float:
        """Per-class accuracy of held-out candidates, or its harmonic mean with that of others."""
        posterior = self.posterior.with_unlabelled(candidates, assignment, weight)
        parameters = posterior.parameters(cast(Any, candidates), candidates)
        n_dims, images = posterior.n_dims, self.z[rows]
        scores = images[:, :n_dims] @ parameters[:, :n_dims].T + parameters[:, -1]
        if len(posterior.columns):
            scores += images[:, n_dims:] @ (parameters[:, n_dims:-1] @ posterior.columns).T
        y, right = self.y[rows], candidates[scores.argmax(axis=1)] == self.y[rows]
        totals, hits = np.bincount(y), np.bincount(y, right)
        shown = np.flatnonzero(totals)
        accuracies, is_new = hits[shown] / totals[shown], np.isin(shown, self.held_out)
        unseen = float(accuracies[is_new].mean())
        if is_new.all():
            return unseen
        seen = float(accuracies[~is_new].mean())
        return 2 * seen * unseen / max(seen + unseen, 1e-300)

    def sets(
        self, rng: np.random.Generator, setting: str
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]:
        """Rows in the set, candidates, and rows to score, for each of `KINDS`."""
        half, other = np.array_split(rng.permutation(self.held_out), 2)
        others = self.trained if setting == "all" else self.trained[:0]
        few_others = rng.permutation(others)[: len(others) // 2]
        # Every second image of each class, in random order, is in the set.
        order = rng.permutation(len(self.y))
        order = order[np.argsort(self.y[order], kind="stable")]
        y = self.y[order]
        rank = np.arange(len(y)) - np.searchsorted(y, y)
        is_new = np.isin(y, self.held_out)
        each = max(2 * _MOST_OTHERS // max(len(others), 1), 2)
        used = is_new | (np.isin(y, others) & (rank < each))
        order, y, rank = order[used], y[used], rank[used]
        inside, rank = rank % 2 == 0, rank // 2
        own, present = np.isin(y, other, invert=True), np.concatenate([half, few_others])
        is_present, foreign = np.isin(y, present), inside & ~own
        mixed = np.flatnonzero(inside & own)
        mixed = rng.permutation(mixed)[: max(int(foreign.sum()), 1)]
        everything = np.sort(np.concatenate([self.held_out, others]))
        candidates = np.sort(np.concatenate([half, others]))
        tested, tested_own = order[~inside], order[~inside & own]
        absent = order[~inside & ~is_present]
        yield order[inside], everything, tested
        yield order[inside & (rank < _FEW)], everything, tested
        yield order[inside & is_present], everything, tested
        yield order[inside & is_present], everything, absent
        yield np.concatenate([order[foreign], order[mixed]]), candidates, tested_own
        yield order[foreign], candidates, tested_own
        yield order[inside & (is_present | (rank % 10 == 0))], everything, tested


def _trial(folds: list[Fold], setting: str) -> Trial | None:
    """Adapt to unlabelled sets of all kinds, with each weight."""
    background = _background(folds, setting)
    scores, looks = [], []
    for number, fold in enumerate(folds):
        for draw in range(_DRAWS):
            rng = np.random.default_rng([number, draw])
            row = []
            for rows, candidates, tested in fold.sets(rng, setting):
                if not len(rows) or not len(tested):
                    return None
                parts = [fold.score(None, 0.0, candidates, tested)]
                for weight in UNLABELLED_WEIGHTS:
                    found = fold.assigned(rows, candidates, weight, background)
                    parts.append(fold.score(found, weight, candidates, tested))
                    if weight == DEFAULT_UNLABELLED_WEIGHT:
                        looks.append(look(found))
                row.append(parts)
            scores.append(row)
    table = np.array(scores)
    gains = table[..., 1:] - table[..., :1]
    return Trial(
        background,
        table[..., 0].mean(axis=0),
        gains.mean(axis=0),
        gains.std(axis=0) / np.sqrt(len(gains) - 1),
        np.array(looks).reshape(len(table), len(KINDS), -1).mean(axis=0),
    )


def _background(folds: list[Fold], setting: str) -> Background:
    """Learn how likely a candidate explains an image, from images of other held-out classes."""
    features, own_image, groups = [], [], []
    for fold in folds:
        others = fold.trained if setting == "all" else fold.trained[:0]
        # With more candidates, some candidate looks like any image.
        for n_parts in _FOREIGN_PARTS:
            for k in range(n_parts):
                foreign = fold.held_out[k::n_parts]
                own = np.sort(np.concatenate([np.setdiff1d(fold.held_out, foreign), others]))
                rows = np.flatnonzero(np.isin(fold.y, np.concatenate([own, foreign])))[::2]
                z = fold.z[rows, : fold.posterior.n_dims]
                found = fold.posterior.mixture(cast(Any, own), own).differences(z)
                is_own = np.isin(fold.y[rows], own)
                features.append(np.column_stack([found, np.full(len(rows), np.log(len(own)))]))
                own_image.append(is_own)
                groups.append(2 * n_parts + is_own)
    table, labels = np.concatenate(features), np.concatenate(own_image)
    table[:, 0] /= (scale := float(table[:, 0].std()) or 1.0)
    # Among all classes, their number hardly varies.
    table[:, 1] -= (usual := float(table[:, 1].mean()))
    table[:, 1] *= setting == "alone"
    # Every number of parts counts the same, and so do own and foreign images.
    codes = np.unique(np.concatenate(groups), return_inverse=True)[1]
    weights = len(codes) / np.bincount(codes)[codes]
    model = LogisticRegression().fit(table, labels, sample_weight=weights)
    level, (slope, growth) = float(model.intercept_[0]), model.coef_[0]
    if slope <= 0:
        return Background(0.0, 0.0, 0.0)
    growth = min(float(growth), 0.0)
    return Background(level - growth * usual, float(slope) / scale, growth)
