r"""DAP, IAP and ConSE: from probabilities of attributes, or of the seen classes, to other classes.

In DAP and IAP, with binary signatures :math:`a^c`, attributes taken as independent given the image,
and classes taken as equally probable,

.. math:: \log p(c | x) = \sum_m \log p(a_m^c | x) - \log p(a_m^c) + \text{const}
          = \sum_m a_m^c \left(\operatorname{logit} p(a_m | x) - \operatorname{logit} p(a_m)\right)
          + \text{const}(x).

What is dropped on the right, :math:`\sum_m \log(1 - p(a_m | x)) - \log(1 - p(a_m))`, depends on the
image alone and shifts all its scores equally. So `embed` gives the log-odds of the attributes minus
those of the prior :math:`p(a_m)`, the share of the seen classes that have the attribute;
`synthesize` gives the binary signature, and the score is their inner product; no product of
hundreds of probabilities, which would underflow, is ever formed.

DAP, direct attribute prediction, has one logistic regression per attribute, on the binary
signatures of the samples' classes,

.. math:: \min \frac{1}{N} \sum_n \log(1 + e^{f_{nm}}) - a_m^{y_n} f_{nm}
          + \frac{\alpha v}{2} \|w_m\|^2, \qquad f_{nm} = w_m^\top x_n + b_m,

with v the features' mean squared distance from their mean. IAP, indirect attribute prediction, has
classifiers of the seen classes,

.. math:: p(a_m | x) = \sum_y p(a_m | y)\, p(y | x), \qquad p(a_m | y) \in \{0, 1\},

either one softmax regression,

.. math:: \min \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

or a linear support vector machine of each class y against all others. With :math:`s_{ny} = 1` for
the samples of y, −1 for others, and features measured from their mean,

.. math:: \min \frac{1}{N} \sum_n \max(0, 1 - s_{ny} f_{ny})^2
          + \frac{\alpha}{2} \left(v \|w_y\|^2 + b_y^2\right).

Platt's sigmoid turns its scores into probabilities, :math:`p(y | x) = 1 / (1 + e^{-(A_y f_y +
B_y)})`. It is fitted to the scores of samples that were held out in turn, a part of each class at a
time; the machines themselves are trained on all. Their probabilities are divided by their sum,
which the odds of an attribute do not depend on.

ConSE, convex combination of semantic embeddings, takes the softmax regression, too. An image lies
where the T most probable seen classes lie, averaged by their probability,

.. math:: e(x) = \sum_{t=1}^T \frac{p(y_t | x)}{\sum_{s=1}^T p(y_s | x)}\, a_{y_t},

and belongs to the class whose signature has the largest cosine with e(x).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._blocks import ScoreFunction
from zslearn._scoring._embedding import for_many_passes
from zslearn._solvers._logistic import LogisticResult, logistic_path, softmax_path
from zslearn._solvers._platt import platt_scaling, platt_targets
from zslearn._solvers.svm._multiclass import multiclass_svm_path
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._folds import class_folds
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params, group_by_params_except
from zslearn.base._training import Training
from zslearn.signatures._attributes import (
    BinaryKind,
    binary_kind,
    mean_levels,
    refuse_mixed_signatures,
    without_noise,
)
from zslearn.signatures._views import Signatures, view_arrays

# Folds over the seen classes, or over the samples, by which log-odds are calibrated.
_FOLDS = 3

#: Coefficients and intercepts of linear models, beside the training rows.
LinearModels = tuple[Array, Array]


def seen_path(
    training: Training, alphas: Sequence[float], *, tol: float, soften: bool = False
) -> list[LogisticResult]:
    """Fit a softmax regression of the seen classes for each penalty."""
    unit = mean_square_distance(training.rows) or 1.0
    return softmax_path(
        for_many_passes(training.rows),
        training.y,
        training.n_seen,
        alphas=[unit * a for a in alphas],
        tol=tol,
        pseudo_counts=2.0 if soften else 0.0,
    )


def linear_scores(X: Array, coef: Array, intercept: Array) -> Array:
    """W x + b: log-odds, or of a softmax log-probabilities up to a number for each row."""
    xp = compat.array_namespace(X)
    return X @ xp.matrix_transpose(move_like(coef, X)) + move_like(intercept, X)


@inherit_docs
@saves(
    coef_=Saved("n_outputs", "n_features"),
    intercept_=Saved("n_outputs"),
    attributes_=Saved("n_varying", kind="int", least=0, into="n_attributes"),
    prior_=Saved("n_varying", least=0),
    slope_=Saved("n_varying"),
    offset_=Saved("n_varying"),
    thresholds_=Saved("n_attributes"),
    _kinds=Saved(kind=list),
    _seen_binary=Saved("n_seen", "n_varying", kind="bool"),
)
class AttributeClassifier(ZeroShotClassifier):
    """Base of methods that predict binary attributes.

    A subclass defines `_path`, linear models for several penalties, and, where their scores are not
    the log-odds of the attributes, `_log_odds`.

    Parameters
    ----------
    tol : float, default=1e-4
        Relative optimality gap of the linear models.
    random_state : int, RandomState instance or None, default=0
        Decides which classes or samples are held out together.

    Attributes
    ----------
    slope_, offset_ : ndarray of shape (n_kept,)
        The sigmoid of each attribute: calibrated log-odds are slope · log-odds + offset.
    prior_ : ndarray of shape (n_kept,)
        Share of the seen classes that have the attribute.
    thresholds_ : ndarray of shape (n_attributes,)
        Above these normalised values an attribute is present; learned from the seen classes, 0
        where their signatures are binary.
    attributes_ : ndarray of shape (n_kept,)
        Positions of the attributes that are used: those that vary among the seen classes.
    """

    describes_each_alone = True
    keep_views: ClassVar[bool] = True
    path_parameters: ClassVar[tuple[str, ...]] = ("alpha",)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "calibration": [StrOptions({"classes", "targets"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        calibration: str | None = "targets",
        tol: float = 1e-4,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha = alpha
        self.calibration = calibration
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """Linear models for several penalties; `soften` asks for targets within (0, 1)."""
        raise NotImplementedError

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Log-odds of attributes, which classes have as `has` says; here the scores themselves."""
        return scores

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Penalties share a path of warm starts."""
        for variant in variants:
            variant._learn_attributes(training.signatures)
        # From here on the attributes of the classes replace their signatures.
        training = replace(training, signatures=variants[0]._seen_binary)
        for group in group_by_params_except(variants, *cls.path_parameters):
            first, alphas = group[0], [variant.alpha for variant in group]
            models = first._path(training, alphas, soften=first.calibration == "targets")
            sigmoids = first._sigmoids(training, alphas)
            for variant, model, sigmoid in zip(group, models, sigmoids, strict=True):
                variant.coef_, variant.intercept_ = model
                variant.slope_, variant.offset_ = sigmoid
                yield variant

    def _learn_attributes(self, signatures: Signatures) -> None:
        """Learn which attributes the seen classes have; drop what all or none of them have."""
        views = view_arrays(signatures)
        self._kinds: list[BinaryKind | None] = [binary_kind(view) for view in views]
        self.thresholds_ = np.concatenate(
            [
                mean_levels(view) if kind is None else np.zeros(view.shape[1])
                for view, kind in zip(views, self._kinds, strict=True)
            ]
        )
        has = self._has(signatures)
        self.attributes_ = _varying(has)
        if not len(self.attributes_):
            raise ValueError(
                f"{type(self).__name__} needs attributes that some seen classes have and others "
                f"lack; all {has.shape[1]} attributes are the same for all of them. "
                "Describe the classes by attributes that differ, or set the thresholds with "
                "zslearn.signatures.binarize_signatures."
            )
        self._seen_binary = has[:, self.attributes_]
        self.prior_ = self._seen_binary.mean(axis=0)

    def _has(self, signatures: Signatures) -> NDArray[np.bool_]:
        """Which attributes each class has, of all attributes."""
        views = [
            view if kind is None else without_noise(view)
            for view, kind in zip(view_arrays(signatures), self._kinds, strict=True)
        ]
        return np.concatenate(views, axis=1) > self.thresholds_

    def _sigmoids(self, training: Training, alphas: Sequence[float]) -> list[tuple[Floats, Floats]]:
        """Slopes and offsets for each penalty, from the log-odds of classes that were held out."""
        n_seen, n_attributes = training.signatures.shape
        if self.calibration != "classes":
            return [(np.ones(n_attributes), np.zeros(n_attributes)) for _ in alphas]
        has = training.signatures[training.y]
        known = np.zeros(has.shape, dtype=bool)
        odds = [np.zeros(has.shape, dtype=np.float32) for _ in alphas]
        order = check_random_state(self.random_state).permutation(n_seen)
        for fold in class_folds(order, min(_FOLDS, n_seen)):
            rest = training.only(np.setdiff1d(order, fold))
            # What does not vary among the other classes cannot be learned from them.
            columns = _varying(rest.signatures)
            if not len(columns):
                continue
            rest = replace(rest, signatures=rest.signatures[:, columns])
            # Held-out classes change how frequent an attribute is, against themselves: evidence is
            # counted from there.
            shift = _logit(has[:, columns].mean(axis=0))
            shift -= _logit(rest.signatures[rest.y].mean(axis=0))
            held = np.flatnonzero(np.isin(training.y, fold))
            rows, cells = training.take(held), np.ix_(held, columns)
            known[cells] = True
            models = self._path(rest, alphas, soften=False)
            for table, model in zip(odds, models, strict=True):
                scores = linear_scores(rows, *model)
                table[cells] = to_numpy(self._log_odds(scores, rest.signatures)) + shift
        return [platt_scaling(table.astype(np.float64), has, known) for table in odds]

    def embed(self, X: Array) -> Array:
        """Give the log-odds of each attribute, less those of its prior."""
        scores = linear_scores(X, self.coef_, self.intercept_)
        odds = self._log_odds(scores, self._seen_binary)
        offset = self.offset_ - _logit(self.prior_)
        return odds * move_like(self.slope_, odds) + move_like(offset, odds)

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Floats:
        """Say which attributes a class has."""
        if labels is not None:
            for view, kind in zip(view_arrays(signatures), self._kinds, strict=True):
                refuse_mixed_signatures(view, kind, labels, type(self).__name__)
        return self._has(signatures)[:, self.attributes_].astype(np.float64)


def _varying(has: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The attributes that some classes have and others lack."""
    return np.flatnonzero(has.any(axis=0) & ~has.all(axis=0))


def _logit(share: Floats) -> Floats:
    """Log-odds of probabilities."""
    return np.log(share) - np.log1p(-share)


@inherit_docs
class DAP(AttributeClassifier):
    """Direct attribute prediction: attributes first, then the class that has them.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the attributes' logistic regressions, in units of the features' variance.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": regressions are trained on
        Platt's targets, (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2), instead of 1 and 0. "classes": Platt's
        sigmoid is fitted to the log-odds of held-out seen classes, a third at a time, so that an
        attribute that does not carry over to other classes loses its weight; this takes three times
        as long, and needs many seen classes. None: neither.

    Attributes
    ----------
    coef_ : array of shape (n_kept, n_features)
        Coefficients of the attributes' regressions.
    intercept_ : array of shape (n_kept,)
        Their intercepts.

    See Also
    --------
    IAP : Predicts the seen classes first, and attributes from these.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    Binary signatures are taken as they are: 0 and 1, or −1 and 1. In other signatures an attribute
    is present where the normalised value is above its mean over the seen classes. Classes with the
    same attributes after that have the same scores. Of several views all attributes count the same:
    the weights of :class:`~zslearn.signatures.MultiSignatures` are not used.

    The original has support vector machines, with a sum of χ² kernels of several features, and
    Platt scaling on held-out samples; here it is linear logistic regression, with classes held out
    for sigmoids, as it is to classes that attributes carry over.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from zslearn.baselines import DAP
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = DAP().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "calibration": [None, "targets", "classes"],
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
        },
        "fast": {"alpha": [10.0 ** (k / 2) for k in range(-10, -3)]},
    }

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One regression per attribute; `soften` asks for Platt's targets."""
        has = training.signatures
        targets = platt_targets(has, counts=training.counts) if soften else has
        unit = mean_square_distance(training.rows) or 1.0
        results = logistic_path(
            for_many_passes(training.rows),
            targets,
            codes=training.y,
            alphas=[unit * a for a in alphas],
            tol=self.tol,
        )
        return [(result.coef, result.intercept) for result in results]


@inherit_docs
class IAP(AttributeClassifier):
    """Indirect attribute prediction: seen classes first, then attributes, then the class.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the seen classes' classifiers, in units of the features' variance.
    probabilities : {"softmax", "platt"}, default="softmax"
        What gives the probabilities of the seen classes: one softmax regression, or a linear
        support vector machine of each class against the others, with Platt's sigmoid, which is
        fitted to held-out samples; this takes several times as long.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": the softmax regression is trained
        on softened targets, as if two more samples of each class were spread evenly over all
        classes. "classes": as for :class:`DAP`. None: neither.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes' logits, or of their log-odds under the sigmoids.
    intercept_ : array of shape (n_seen,)
        Their intercepts.

    See Also
    --------
    DAP : Predicts attributes directly; how signatures become binary is described there.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    The paper of 2009 has a softmax regression, without softened targets or sigmoids: that is
    `calibration=None`. The one of 2014 has a support vector machine for each class against the
    others, with Platt's sigmoids: that is `probabilities="platt"`, though its kernel is a sum of χ²
    kernels of several features and its hinge is not squared, where here machines are linear.
    Probabilities below 1e-307 of the largest count as that.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Learning to detect unseen object classes by
    between-class attribute transfer", CVPR 2009.

    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "calibration": [None, "targets", "classes"],
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
        },
        "fast": {
            "calibration": ["targets", "classes"],
            "alpha": [10.0**k for k in (-5.5, -5, -4.5, -4, -3, -2)],
        },
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeClassifier._parameter_constraints,
        "probabilities": [StrOptions({"softmax", "platt"})],
    }

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        probabilities: str = "softmax",
        calibration: str | None = "targets",
        tol: float = 1e-4,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        super().__init__(
            alpha,
            calibration=calibration,
            tol=tol,
            random_state=random_state,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.probabilities = probabilities

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One softmax regression of the seen classes, or one machine for each."""
        if self.probabilities == "softmax":
            results = seen_path(training, alphas, tol=self.tol, soften=soften)
            return [(result.coef, result.intercept) for result in results]
        return _platt_path(training, alphas, tol=self.tol, random_state=self.random_state)

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Sum p(y|x) over the classes with the attribute and over the others, in logarithms."""
        xp = compat.array_namespace(scores)
        wide = xp.astype(scores, xp.float64)
        if self.probabilities == "platt":
            # log p = −log(1 + e^−f)
            wide = xp.clip(wide, max=0.0) - xp.log1p(xp.exp(-xp.abs(wide)))
        shares = xp.exp(wide - xp.max(wide, axis=1, keepdims=True))
        tiny = float(xp.finfo(xp.float64).smallest_normal)
        with_it = move_like(has.astype(np.float64), shares)
        present = xp.log(xp.clip(shares @ with_it, min=tiny))
        absent = xp.log(xp.clip(shares @ (1 - with_it), min=tiny))
        return xp.astype(present - absent, scores.dtype)


def _platt_path(
    training: Training, alphas: Sequence[float], *, tol: float, random_state: Any
) -> list[LinearModels]:
    """Train one machine per seen class with its sigmoid, for each penalty."""
    X, y, n_seen = training.X, training.y, training.n_seen
    xp = compat.array_namespace(X)
    mean, unit = xp.mean(X, axis=0), float(np.sqrt(mean_square_distance(X) or 1.0))
    centered = (X - mean[None, :]) / unit
    rows = xp.concat([centered, xp.ones_like(centered[:, :1])], axis=1)

    def machines(which: NDArray[np.intp]) -> list[Array]:
        # The solver takes the mean over the classes, too.
        shared = [alpha / n_seen for alpha in alphas]
        found = multiclass_svm_path(
            take_rows(rows, which), y[which], alphas=shared, n_classes=n_seen, tol=tol
        )
        return [result.coef for result in found]

    own = y[:, None] == np.arange(n_seen)
    known = np.zeros(own.shape, dtype=bool)
    tables = [np.zeros(own.shape, dtype=np.float32) for _ in alphas]
    fold = _folds(y, check_random_state(random_state))
    for part in range(_FOLDS):
        held, rest = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        if not (len(held) and len(rest)):
            continue
        known[held] = np.bincount(y[rest], minlength=n_seen) > 0
        left_out = take_rows(rows, held)
        for table, coef in zip(tables, machines(rest), strict=True):
            table[held] = to_numpy(left_out @ xp.matrix_transpose(move_like(coef, rows)))
    sigmoids = [platt_scaling(table.astype(np.float64), own, known) for table in tables]
    fitted = (own & known).any(axis=0) & (~own & known).any(axis=0)
    if fitted.any():
        # Classes that have no sigmoid of their own take the middle one.
        for numbers in itertools.chain.from_iterable(sigmoids):
            numbers[~fitted] = np.median(numbers[fitted])
    models = []
    for coef, sigmoid in zip(machines(np.arange(len(y))), sigmoids, strict=True):
        slope, offset = (move_like(numbers, coef) for numbers in sigmoid)
        weights = slope[:, None] * coef[:, :-1] / unit
        center = weights @ move_like(to_numpy(mean), coef)
        models.append((weights, slope * coef[:, -1] + offset - center))
    return models


def _folds(y: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.intp]:
    """The part that each sample is held out with; each class is spread over all of them."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.intp)
    # Neighbours are of one class: counting on from class to class keeps the parts even.
    fold[order] = np.arange(len(order)) % _FOLDS
    return fold


@inherit_docs
@saves(
    coef_=Saved("n_seen", "n_features"),
    intercept_=Saved("n_seen"),
    seen_signatures_=Saved("n_seen", "n_attributes"),
)
class ConSE(ZeroShotClassifier):
    """Average the signatures of the most probable seen classes; compare by the cosine.

    Parameters
    ----------
    n_top : int, default=10
        Number T of seen classes that are averaged, at most all.
    alpha : float, default=1e-4
        Penalty of the seen classes' softmax regression, in units of the features' variance.
    tol : float, default=1e-4
        Optimality gap of the regression, as a share of its objective and of what training gains.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes.
    intercept_ : array of shape (n_seen,)
        Their intercepts.
    seen_signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.

    Notes
    -----
    The original takes the probabilities of a network trained on the seen classes; here a softmax
    regression on fixed features gives them. Of seen classes that tie for the last place all count.
    The cosine does not depend on `signature_scale`.

    References
    ----------
    M. Norouzi, T. Mikolov, S. Bengio, Y. Singer, J. Shlens, A. Frome, G. S. Corrado and J. Dean,
    "Zero-shot learning by convex combination of semantic embeddings", ICLR 2014.
    """

    describes_each_alone = True
    score_function: ScoreFunction = "cosine"
    path_parameters: ClassVar[tuple[str, ...]] = ("alpha", "n_top")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_top": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
            "n_top": [1, 2, 3, 5, 10, 20, 30, 50, 100, 200],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-6, -2)],
            "n_top": [1, 3, 5, 10, 30],
        },
    }

    def __init__(
        self,
        n_top: int = 10,
        alpha: float = 1e-4,
        *,
        tol: float = 1e-4,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_top = n_top
        self.alpha = alpha
        self.tol = tol
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Penalties share a path of warm starts, and each solution serves every `n_top`."""
        for same_tol in group_by_params(variants, "tol"):
            groups = group_by_params(same_tol, "alpha")
            alphas = [group[0].alpha for group in groups]
            results = seen_path(training, alphas, tol=same_tol[0].tol)
            for group, result in zip(groups, results, strict=True):
                for variant in group:
                    variant.coef_, variant.intercept_ = result.coef, result.intercept
                    variant.seen_signatures_ = training.signatures
                    yield variant

    def embed(self, X: Array) -> Array:
        """Average the signatures of the most probable seen classes."""
        scores = linear_scores(X, self.coef_, self.intercept_)
        xp = compat.array_namespace(scores)
        n_top = min(self.n_top, scores.shape[1])
        ordered = xp.sort(scores, axis=1)
        shares = xp.exp(scores - ordered[:, -1:])
        shares = xp.where(scores >= ordered[:, -n_top][:, None], shares, xp.zeros_like(shares))
        shares = shares / xp.sum(shares, axis=1, keepdims=True)
        return shares @ move_like(self.seen_signatures_, shares)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Give the signature itself."""
        return signatures
