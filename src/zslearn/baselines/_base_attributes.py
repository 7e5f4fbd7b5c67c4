r"""What DAP and IAP share: binary attributes, their calibration, and the score of a class.

With binary signatures :math:`a^c`, attributes taken as independent given the image, and classes
taken as equally probable,

.. math:: \log p(c | x) = \sum_m \log p(a_m^c | x) - \log p(a_m^c) + \text{const}
          = \sum_m a_m^c \left(\operatorname{logit} p(a_m | x) - \operatorname{logit} p(a_m)\right)
          + \text{const}(x).

What is dropped on the right, :math:`\sum_m \log(1 - p(a_m | x)) - \log(1 - p(a_m))`, depends on the
image alone and shifts all its scores equally. So `embed` gives the log-odds of the attributes less
those of the prior, `synthesize` the binary signature, and the score is their inner product; no
product of hundreds of probabilities, which would underflow, is ever formed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._solvers._platt import platt_scaling
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._folds import class_folds
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._training import Training
from zslearn.base._variants import group_by_params_except
from zslearn.baselines._base_probabilities import linear_scores
from zslearn.signatures._attributes import (
    BinaryKind,
    binary_kind,
    mean_levels,
    refuse_mixed_signatures,
    without_noise,
)
from zslearn.signatures._views import Signatures, view_arrays

# Folds over the seen classes by which log-odds are calibrated.
_FOLDS = 3


#: Coefficients and intercepts of linear models, beside the training rows.
LinearModels = tuple[Array, Array]


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
        Which classes are held out together for `calibration="classes"`; whatever else is random in
        a method comes from it, too.

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

    @abstractmethod
    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """Linear models for several penalties; `soften` asks for targets within (0, 1)."""

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Log-odds of attributes, which classes have as `has` says; here the scores themselves."""
        return scores

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Penalties share a path of warm starts."""
        for variant in variants:
            variant._learn_attributes(training.signatures)
        # From here on the attributes of the classes take the place of their signatures.
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
            # Classes left out change how frequent an attribute is, against themselves: evidence is
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
