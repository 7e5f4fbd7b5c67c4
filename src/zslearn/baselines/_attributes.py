r"""DAP, IAP and ConSE: zero-shot prediction from probabilities of attributes or seen classes.

With binary signatures :math:`a^c`, DAP and IAP take attributes as independent given the image and
classes as equally probable:

.. math:: \log p(c | x) = \sum_m \log p(a_m^c | x) - \log p(a_m^c) + \text{const}
          = \sum_m a_m^c \left(\operatorname{logit} p(a_m | x) - \operatorname{logit} p(a_m)\right)
          + \text{const}(x).

`embed` computes the log-odds of the attributes minus those of the prior :math:`p(a_m)`, the share
of the seen classes that have the attribute; `synthesize` returns the binary signature, and the
score is their inner product. Products of hundreds of probabilities are thus avoided.

DAP, direct attribute prediction, trains one logistic regression per attribute,

.. math:: \min \frac{1}{N} \sum_n \log(1 + e^{f_{nm}}) - a_m^{y_n} f_{nm}
          + \frac{\alpha v}{2} \|w_m\|^2, \qquad f_{nm} = w_m^\top x_n + b_m,

with v the features' mean squared distance from their mean. IAP, indirect attribute prediction,
classifies among the seen classes first,

.. math:: p(a_m | x) = \sum_y p(a_m | y)\, p(y | x), \qquad p(a_m | y) \in \{0, 1\},

either by one softmax regression,

.. math:: \min \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

or by one linear support vector machine per class y, with :math:`s_{ny} = 1` for the samples of y
and −1 for others, on centred features,

.. math:: \min \frac{1}{N} \sum_n \max(0, 1 - s_{ny} f_{ny})^2
          + \frac{\alpha}{2} \left(v \|w_y\|^2 + b_y^2\right),

whose scores Platt's sigmoid turns into probabilities, :math:`p(y | x) = 1 / (1 + e^{-(A_y f_y +
B_y)})`. It is fitted to scores from stratified cross-validation; the final machines are trained on
all samples.

ConSE, convex combination of semantic embeddings, uses the softmax regression, too. An image is
embedded as the probability-weighted mean of the signatures of the T most probable seen classes,

.. math:: e(x) = \sum_{t=1}^T \frac{p(y_t | x)}{\sum_{s=1}^T p(y_s | x)}\, a_{y_t},

and compared with signatures by the cosine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._embedding import for_many_passes
from zslearn._solvers._logistic import LogisticResult, logistic_path, softmax_path
from zslearn._solvers._platt import platt_scaling, platt_targets
from zslearn._solvers.svm._multiclass import multiclass_svm_path
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
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

# Number of folds, over the seen classes or over the samples, for calibrating probabilities.
_N_FOLDS = 3

# The grid of the paper for methods that predict attributes.
_PAPER_GRID: dict[str, list[Any]] = {
    "calibration": [None, "targets", "classes"],
    "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
}

#: Coefficients and intercepts of linear models, in the array library of the training rows.
LinearModels = tuple[Array, Array]


def seen_path(
    training: Training, alphas: Sequence[float], *, tol: float, soften: bool = False
) -> list[LogisticResult]:
    """Fit a softmax regression of the seen classes for each penalty."""
    variance = mean_square_distance(training.rows) or 1.0
    return softmax_path(
        for_many_passes(training.rows),
        training.y,
        training.n_seen,
        alphas=[variance * alpha for alpha in alphas],
        tol=tol,
        pseudo_counts=2.0 if soften else 0.0,
    )


def linear_scores(X: Array, coef: Array, intercept: Array) -> Array:
    """W x + b: log-odds, or log-probabilities of a softmax up to a constant per row."""
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
@dataclass(eq=False, repr=False)
class AttributeClassifier(ZeroShotClassifier):
    """Base of methods that predict binary attributes.

    A subclass defines `_path`, which fits linear models for several penalties, and, if their scores
    are not the log-odds of the attributes, `_log_odds`.

    Parameters
    ----------
    tol : float, default=1e-4
        Relative optimality gap of the linear models.
    random_state : int, RandomState instance or None, default=0
        Seed of the assignment of classes or samples to folds.

    Attributes
    ----------
    attributes_ : ndarray of shape (n_varying,)
        Positions of the attributes that vary among the seen classes. Others are ignored.
    prior_ : ndarray of shape (n_varying,)
        Share of the seen classes that have the attribute.
    slope_, offset_ : ndarray of shape (n_varying,)
        Sigmoid of each attribute: the calibrated log-odds are slope · log-odds + offset.
    thresholds_ : ndarray of shape (n_attributes,)
        Normalised value above which an attribute is present: 0 for binary signatures, else the mean
        over the seen classes.
    """

    alpha: float = 1e-4
    _: KW_ONLY
    calibration: str | None = "targets"
    tol: float = 1e-4
    random_state: Any = 0

    synthesizes_independently = True
    keep_views: ClassVar[bool] = True
    path_parameters: ClassVar[tuple[str, ...]] = ("alpha",)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "calibration": [StrOptions({"classes", "targets"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """Linear models for several penalties; `soften` selects targets within (0, 1)."""
        raise NotImplementedError

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Log-odds of attributes, given the classes that have them; by default the scores."""
        return scores

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Fit all penalties along one warm-started path."""
        for variant in variants:
            variant._learn_attributes(training.signatures)
        # The linear models are trained on binary signatures.
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
        """Set the thresholds and select the attributes that vary among the seen classes."""
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
                f"lack, but none of the {has.shape[1]} attributes varies among them. Describe the "
                "classes by attributes that differ, or choose other thresholds with "
                "zslearn.signatures.binarize_signatures."
            )
        self._seen_binary = has[:, self.attributes_]
        self.prior_ = self._seen_binary.mean(axis=0)

    def _has(self, signatures: Signatures) -> NDArray[np.bool_]:
        """Whether each class has each attribute."""
        views = [
            view if kind is None else without_noise(view)
            for view, kind in zip(view_arrays(signatures), self._kinds, strict=True)
        ]
        return np.concatenate(views, axis=1) > self.thresholds_

    def _sigmoids(self, training: Training, alphas: Sequence[float]) -> list[tuple[Floats, Floats]]:
        """Slopes and offsets for each penalty, from log-odds of held-out classes."""
        n_seen, n_attributes = training.signatures.shape
        if self.calibration != "classes":
            return [(np.ones(n_attributes), np.zeros(n_attributes)) for _ in alphas]
        has = training.signatures[training.y]
        is_predicted = np.zeros(has.shape, dtype=bool)
        log_odds = [np.zeros(has.shape, dtype=np.float32) for _ in alphas]
        order = check_random_state(self.random_state).permutation(n_seen)
        for held_out in np.array_split(order, min(_N_FOLDS, n_seen)):
            others = training.subset(np.setdiff1d(order, held_out))
            # Attributes that do not vary among the other classes cannot be learned from them.
            columns = _varying(others.signatures)
            if not len(columns):
                continue
            others = replace(others, signatures=others.signatures[:, columns])
            # Log-odds are relative to the frequency of an attribute, which differs between the
            # other classes and all classes.
            shift = logit(has[:, columns].mean(axis=0))
            shift -= logit(others.signatures[others.y].mean(axis=0))
            rows = np.flatnonzero(np.isin(training.y, held_out))
            X, cells = training.take(rows), np.ix_(rows, columns)
            is_predicted[cells] = True
            models = self._path(others, alphas, soften=False)
            for table, model in zip(log_odds, models, strict=True):
                scores = linear_scores(X, *model)
                table[cells] = to_numpy(self._log_odds(scores, others.signatures)) + shift
        return [platt_scaling(table.astype(np.float64), has, is_predicted) for table in log_odds]

    def embed(self, X: Array) -> Array:
        """Compute the log-odds of each attribute minus those of its prior."""
        scores = linear_scores(X, self.coef_, self.intercept_)
        odds = self._log_odds(scores, self._seen_binary)
        offset = self.offset_ - logit(self.prior_)
        return odds * move_like(self.slope_, odds) + move_like(offset, odds)

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Floats:
        """Binarise the signatures of classes."""
        if labels is not None:
            for view, kind in zip(view_arrays(signatures), self._kinds, strict=True):
                refuse_mixed_signatures(view, kind, labels, type(self).__name__)
        return self._has(signatures)[:, self.attributes_].astype(np.float64)


def _varying(has: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Attributes that some classes have and others lack."""
    return np.flatnonzero(has.any(axis=0) & ~has.all(axis=0))


@inherit_docs
class DAP(AttributeClassifier):
    """Direct attribute prediction: predict attributes, then the class that has them.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the attributes' logistic regressions, in units of the features' variance.
    calibration : {"targets", "classes"} or None, default="targets"
        How to avoid overconfident probabilities. "targets": train on Platt's targets,
        (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2), instead of 1 and 0. "classes": fit Platt's sigmoid to the
        log-odds of held-out seen classes in three folds, so that attributes which do not transfer
        to other classes lose weight; three times as slow, and only useful with many seen classes.

    Attributes
    ----------
    coef_ : array of shape (n_varying, n_features)
        Coefficients of the attributes' regressions.
    intercept_ : array of shape (n_varying,)
        Their intercepts.

    See Also
    --------
    IAP : Predicts seen classes first and attributes from them.
    zslearn.signatures.binarize_signatures : Binary signatures with custom thresholds.

    Notes
    -----
    Binary signatures, of 0 and 1 or of −1 and 1, are used as they are. In others an attribute is
    present if its normalised value is above the mean over the seen classes. Classes with the same
    binary attributes have the same scores. Several views contribute equally per attribute: the
    weights of :class:`~zslearn.signatures.MultiSignatures` are ignored.

    The original has support vector machines with a sum of χ² kernels of several features, and Platt
    scaling on held-out samples; here logistic regressions are linear, and classes are held out,
    since attributes must transfer to other classes.

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
        "paper": _PAPER_GRID,
        "fast": {"alpha": [10.0 ** (k / 2) for k in range(-10, -3)]},
    }

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One regression per attribute; `soften` selects Platt's targets."""
        has = training.signatures
        targets = platt_targets(has, counts=training.counts) if soften else has
        variance = mean_square_distance(training.rows) or 1.0
        results = logistic_path(
            for_many_passes(training.rows),
            targets,
            codes=training.y,
            alphas=[variance * alpha for alpha in alphas],
            tol=self.tol,
        )
        return [(result.coef, result.intercept) for result in results]


@inherit_docs
@dataclass(eq=False, repr=False)
class IAP(AttributeClassifier):
    """Indirect attribute prediction: predict seen classes, their attributes, then the class.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the seen classes' classifiers, in units of the features' variance.
    probabilities : {"softmax", "platt"}, default="softmax"
        Probabilities of the seen classes: one softmax regression, or one linear support vector
        machine per class with Platt's sigmoid, which takes several times as long.
    calibration : {"targets", "classes"} or None, default="targets"
        How to avoid overconfident probabilities. "targets": train the softmax regression on
        softened targets, as if two more samples of each class were spread evenly over all classes.
        "classes": as for :class:`DAP`.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes' logits, or of their log-odds under the sigmoids.
    intercept_ : array of shape (n_seen,)
        Their intercepts.

    See Also
    --------
    DAP : Predicts attributes directly; explains how signatures are binarised.
    zslearn.signatures.binarize_signatures : Binary signatures with custom thresholds.

    Notes
    -----
    `calibration=None` is the method of the 2009 paper, which has a softmax regression without
    softened targets or sigmoids; `probabilities="platt"` is that of 2014, except that its machines
    have a sum of χ² kernels of several features and a hinge that is not squared. Probabilities are
    bounded from below by 1e-307 times the largest.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Learning to detect unseen object classes by
    between-class attribute transfer", CVPR 2009.

    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.
    """

    _: KW_ONLY
    probabilities: str = "softmax"

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": _PAPER_GRID,
        "fast": {
            "calibration": ["targets", "classes"],
            "alpha": [10.0**k for k in (-5.5, -5, -4.5, -4, -3, -2)],
        },
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeClassifier._parameter_constraints,
        "probabilities": [StrOptions({"softmax", "platt"})],
    }

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One softmax regression of the seen classes, or one machine per class."""
        if self.probabilities == "softmax":
            results = seen_path(training, alphas, tol=self.tol, soften=soften)
            return [(result.coef, result.intercept) for result in results]
        return _platt_path(training, alphas, tol=self.tol, random_state=self.random_state)

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Log of Σ p(y|x) over the classes with the attribute, minus that over the others."""
        xp = compat.array_namespace(scores)
        logs = xp.astype(scores, xp.float64)
        if self.probabilities == "platt":
            # log p = −log(1 + e^−f)
            logs = xp.clip(logs, max=0.0) - xp.log1p(xp.exp(-xp.abs(logs)))
        shares = xp.exp(logs - xp.max(logs, axis=1, keepdims=True))
        tiny = float(xp.finfo(xp.float64).smallest_normal)
        indicators = move_like(has.astype(np.float64), shares)
        present = xp.log(xp.clip(shares @ indicators, min=tiny))
        absent = xp.log(xp.clip(shares @ (1 - indicators), min=tiny))
        return xp.astype(present - absent, scores.dtype)


def _platt_path(
    training: Training, alphas: Sequence[float], *, tol: float, random_state: Any
) -> list[LinearModels]:
    """Train one machine per seen class and its sigmoid, for each penalty."""
    X, y, n_seen = training.X, training.y, training.n_seen
    xp = compat.array_namespace(X)
    mean, unit = xp.mean(X, axis=0), float(np.sqrt(mean_square_distance(X) or 1.0))
    centered = (X - mean[None, :]) / unit
    rows = xp.concat([centered, xp.ones_like(centered[:, :1])], axis=1)

    def machines(chosen: NDArray[np.intp]) -> list[Array]:
        # The solver also averages over the classes.
        per_class = [alpha / n_seen for alpha in alphas]
        results = multiclass_svm_path(
            take_rows(rows, chosen), y[chosen], alphas=per_class, n_classes=n_seen, tol=tol
        )
        return [result.coef for result in results]

    is_own = y[:, None] == np.arange(n_seen)
    is_predicted = np.zeros(is_own.shape, dtype=bool)
    scores = [np.zeros(is_own.shape, dtype=np.float32) for _ in alphas]
    folds = _stratified_folds(y, check_random_state(random_state))
    for number in range(_N_FOLDS):
        test, train = np.flatnonzero(folds == number), np.flatnonzero(folds != number)
        if not (len(test) and len(train)):
            continue
        is_predicted[test] = np.bincount(y[train], minlength=n_seen) > 0
        test_rows = take_rows(rows, test)
        for table, coef in zip(scores, machines(train), strict=True):
            table[test] = to_numpy(test_rows @ xp.matrix_transpose(move_like(coef, rows)))
    sigmoids = [platt_scaling(table.astype(np.float64), is_own, is_predicted) for table in scores]
    has_sigmoid = (is_own & is_predicted).any(axis=0) & (~is_own & is_predicted).any(axis=0)
    if has_sigmoid.any():
        # Other classes get the median slope and offset.
        for values in itertools.chain.from_iterable(sigmoids):
            values[~has_sigmoid] = np.median(values[has_sigmoid])
    models = []
    for coef, sigmoid in zip(machines(np.arange(len(y))), sigmoids, strict=True):
        slope, offset = (move_like(values, coef) for values in sigmoid)
        weights = slope[:, None] * coef[:, :-1] / unit
        center = weights @ move_like(to_numpy(mean), coef)
        models.append((weights, slope * coef[:, -1] + offset - center))
    return models


def _stratified_folds(y: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.intp]:
    """Random fold of each sample; every class is spread over all folds."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    folds = np.empty(len(order), dtype=np.intp)
    # Counting on from class to class keeps the folds equally large.
    folds[order] = np.arange(len(order)) % _N_FOLDS
    return folds


@inherit_docs
@saves(
    coef_=Saved("n_seen", "n_features"),
    intercept_=Saved("n_seen"),
    seen_signatures_=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class ConSE(ZeroShotClassifier):
    """Convex combination of the signatures of the most probable seen classes.

    Parameters
    ----------
    n_top : int, default=10
        Number T of seen classes to average.
    alpha : float, default=1e-4
        Penalty of the seen classes' softmax regression, in units of the features' variance.
    tol : float, default=1e-4
        Relative optimality gap of the regression.

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
    The original uses the probabilities of a network trained on the seen classes, here replaced by a
    softmax regression on fixed features. Seen classes that tie for the last place all contribute.
    `signature_scale` has no effect on the cosine.

    References
    ----------
    M. Norouzi, T. Mikolov, S. Bengio, Y. Singer, J. Shlens, A. Frome, G. S. Corrado and J. Dean,
    "Zero-shot learning by convex combination of semantic embeddings", ICLR 2014.
    """

    n_top: int = 10
    alpha: float = 1e-4
    _: KW_ONLY
    tol: float = 1e-4

    synthesizes_independently = True
    score_function = "cosine"
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
        "fast": {"alpha": [10.0**k for k in range(-6, -2)], "n_top": [1, 3, 5, 10, 30]},
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Fit all penalties along one warm-started path; each solution serves every `n_top`."""
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
        """Return the signatures."""
        return signatures
