"""The base of all estimators: its fitted state, and predictions from a scorer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from zslearn._scoring._embedding import EmbeddedRows
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, is_dask, is_foreign, is_streamed, plain_tensor, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_near_misses, name_some, warn_once
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import numeric_columns, refuse_dates, refuse_text
from zslearn.base._streams import (
    check_block_labels,
    needs_rows,
    stream_samples,
    stream_scores,
    stream_top_k,
    whole_rows,
)
from zslearn.metrics import HitCounts, per_class_accuracy
from zslearn.signatures._table import is_among, label_array, sample_labels


@dataclass(frozen=True, eq=False)
class Fitted:
    """The immutable state of a fitted estimator, including its described classes.

    An estimator keeps one next to its hyper-parameters and exposes the attributes as its own. Every
    change builds a new value and replaces the old one as a whole, so that another thread sees
    either the state before the change or the state after it.
    """

    attributes: Mapping[str, Any]


# Locks the comparison and replacement of a reference, never a computation.
FITTED_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A forked process has no thread that could release the lock.
    os.register_at_fork(after_in_child=FITTED_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


#: Prefixes of the attributes that scikit-learn sets on any estimator.
_SKLEARN_PREFIXES = ("_sklearn_", "_skl_", "_metadata_request", "_parent_callback", "_callback")


def _is_fitted_attribute(name: str) -> bool:
    """Whether a name is that of a public fitted attribute."""
    return name.endswith("_") and name[0] != "_"


_Estimator = TypeVar("_Estimator")


def clone_with(estimator: _Estimator, setting: Mapping[str, Any]) -> _Estimator:
    """Clone an estimator and set hyper-parameters.

    Values are cloned as well, as in scikit-learn, so that no two settings share an estimator of the
    grid and the grid itself is not changed.
    """
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    variant: _Estimator = clone(estimator).set_params(**values)
    return variant


class _NeedsTemperature:
    """Make a method available only to estimators that have a temperature.

    Unlike scikit-learn's `available_if`, the error itself gives the reason, not just its cause.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.fn
        if not estimator._has_temperature():
            raise AttributeError(estimator._no_probabilities())
        return MethodType(self.fn, estimator)


@inherit_docs
@saves(
    n_features_in_=Saved(kind="int", least=1, counts="n_features", optional=True),
    feature_names_in_=Saved(kind=np.ndarray, optional=True),
    seen_classes_=Saved("n_seen", kind="label"),
)
class ZeroShotPredictor(ClassifierMixin, BaseEstimator):
    """Base of all estimators, which predict with their scorer.

    A fitted estimator has `class_scorer_` and `seen_classes_`. Each prediction reads the scorer
    once, so that changes made by another thread do not affect it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All described classes, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes that are described only by a signature, sorted.
    n_features_in_ : int
        Number of features of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if `X` had string names.
    class_scorer_ : ClassScorer
        The scorer behind all predictions; replaced as a whole when classes are described.
    """

    seen_classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    _fitted: Fitted

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            fitted = vars(self).get("_fitted")
            if fitted is not None and name in fitted.attributes:
                return fitted.attributes[name]
            if hasattr(type(self), name):
                # A property raised AttributeError: repeat its own message.
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        fitted = state.pop("_fitted", None)
        return state if fitted is None else {**state, **fitted.attributes}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        fitted = self._collect_fitted()
        if fitted.attributes:
            self._fitted = fitted
            for name in fitted.attributes:
                del self.__dict__[name]

    @property
    def class_scorer_(self) -> ClassScorer:
        """The scorer behind all predictions; subclasses define it."""
        raise AttributeError(f"{type(self).__name__} has no scorer: it is not fitted.")

    @property
    def classes_(self) -> NDArray[Any]:
        """All described classes, sorted."""
        return self.class_scorer_.labels

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """The classes that are described only by a signature, sorted."""
        classes = self.classes_
        return classes[~is_among(classes, self.seen_classes_)]

    def decision_function(self, X: Any, *, classes: Any = None) -> Array:
        """Score every sample against every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidate classes; by default all of `classes_`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Scores; higher is better, and columns follow `classes`. The array is of the library and
            on the device of `X`. With exactly two described classes and without `classes`,
            scikit-learn's binary convention holds: one score per sample, positive for
            `classes_[1]`.
        """
        scorer = self._checked_scorer()
        if is_streamed(X):
            return stream_scores(scorer, self._check_stream(X), classes)
        scores = scorer.scores(self._check_features(X), classes)
        if classes is None and len(scorer.labels) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Any, *, classes: Any = None, prior: Any = None) -> NDArray[Any]:
        """Predict the class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidate classes, for instance `unseen_classes_` for the conventional setting; by
            default all of `classes_`, which is the generalized setting.
        prior : mapping of label to float or Series, optional
            Prior odds of classes, such as how common each one is at a location: positive, up to a
            common factor, and 1 for classes that are not listed. Requires :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels. Among classes with identical parameters the first in `classes_` is
            predicted. Which of several classes is predicted whose scores differ only by rounding
            may depend on the processor and on the other samples.
        """
        scorer = self._checked_scorer().with_prior(prior)
        if is_streamed(X):
            return stream_top_k(scorer, self._check_stream(X), 1, classes)[0][:, 0]
        return scorer.top_k(self._check_features(X), 1, classes)[0][:, 0]

    def predict_top_k(
        self, X: Any, k: int = 5, *, classes: Any = None, proba: bool = False, prior: Any = None
    ) -> tuple[NDArray[Any], Array]:
        """Predict the `k` best classes of each sample, best first.

        The full matrix of samples by classes is never built.

        Parameters
        ----------
        k : int, default=5
            Number of classes per sample.
        proba : bool, default=False
            Whether to return the probabilities of `predict_proba`, which the estimator must have,
            instead of scores.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Class labels.
        scores : array of shape (n_samples, k)
            Scores of these classes, or their probabilities among all candidates, descending.
        """
        scorer = self._checked_scorer().with_prior(prior)
        if proba and not self._has_temperature():
            raise ValueError(self._no_probabilities())
        if is_streamed(X):
            return stream_top_k(scorer, self._check_stream(X), k, classes, proba=proba)
        return scorer.top_k(self._check_features(X), k, classes, proba=proba)

    @_NeedsTemperature
    def predict_proba(
        self, X: Any, *, classes: Any = None, prior: Any = None, independent: bool = False
    ) -> Array:
        r"""Predict class probabilities: the softmax of the scores at the estimator's temperature.

        Available with `temperature="cv"` in :class:`~zslearn.calibration.CalibratedStacking` and
        :class:`~zslearn.model_selection.ZeroShotSearchCV`, and in methods whose scores are log
        probabilities, such as :class:`~zslearn.synthesis.GaussianEXEM`.

        Parameters
        ----------
        independent : bool, default=False
            For images that may show several classes: return the probability of each class against
            an average rival, :math:`(n - 1) p_c / ((n - 1) p_c + 1 - p_c)` with n candidates, so
            that classes do not compete. The order of classes is unchanged.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns follow `classes`; rows sum to 1 unless `independent`. The array is of the
            library and on the device of `X`. The predicted class has the largest probability,
            unless scores are tied.
        """
        scorer = self._checked_scorer().with_prior(prior)
        if is_streamed(X):
            probabilities = stream_scores(
                scorer, self._check_stream(X), classes, probabilities=True
            )
        else:
            probabilities = scorer.probabilities(self._check_features(X), classes)
        if not independent:
            return probabilities
        odds = max(probabilities.shape[1] - 1, 1) * probabilities
        return odds / (odds + (1 - probabilities))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> float:
        """Return the per-class accuracy: the mean over the classes in `y` of their accuracies.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample within its class.

        Returns
        -------
        float
            Accuracy between 0 and 1.
        """
        state = self._snapshot()
        scorer = state._checked_scorer()
        if is_streamed(X):
            counts = state.count_hits(X, y, classes=classes, sample_weight=sample_weight)
            if classes is None:
                self._warn_of_generalized(counts.classes)
            return counts.per_class_accuracy()
        self._check_true_labels(to_numpy(y), scorer, classes)
        if sample_weight is not None and to_numpy(sample_weight).dtype.kind in "OSU":
            raise TypeError(
                "sample_weight must be numeric. Pass classes by keyword: score(X, y, classes=…)."
            )
        if classes is None:
            self._warn_of_generalized(to_numpy(y))
        predicted = state.predict(X, classes=classes)
        return float(per_class_accuracy(to_numpy(y), predicted, sample_weight=sample_weight))

    def count_hits(
        self, X: Any, y: Any, *, k: int = 1, classes: Any = None, sample_weight: Any = None
    ) -> HitCounts:
        """Count the samples whose true label is predicted at each rank.

        Counts of several batches can be added up. For a model that rejects samples, such as
        :class:`~zslearn.calibration.NoneOfThese`, a rejection is the first prediction.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or None
            True labels; None uses the labels of a FeatureBlocks.
        k : int, default=1
            Number of ranks.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample.

        Returns
        -------
        HitCounts
            Counts by class and rank.

        Examples
        --------
        >>> from zslearn.baselines import ESZSL
        >>> from zslearn.datasets import make_zero_shot
        >>> data = make_zero_shot(random_state=0)
        >>> model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> hits = model.count_hits(data.X_test_seen, data.y_test_seen, k=2)
        >>> round(hits.flat_hit_at_k(1), 2), round(hits.flat_hit_at_k(2), 2)
        (0.72, 0.88)
        """
        state = self._snapshot()
        if is_streamed(X):
            samples = stream_samples(self._check_stream(X), y, sample_weight)
            counts = samples.reduce(count_block, (state, k, classes))
        else:
            weights = None if sample_weight is None else to_numpy(sample_weight)
            counts = count_block(0, X, to_numpy(y), weights, (state, k, classes))
        if counts is None:
            raise ValueError("X has no rows, so there are no predictions to count.")
        self._check_true_labels(counts.classes, state._checked_scorer(), classes)
        return counts

    def fit_grid(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        settings: Sequence[Mapping[str, Any]],
        sample_weight: Any = None,
    ) -> Iterator[tuple[int, Self]]:
        """Fit one estimator per setting of the hyper-parameters; searches use this.

        Estimators are fitted lazily, one at a time. A method that shares work between settings
        chooses their order.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            Descriptions of the classes; see `fit`.
        settings : sequence of mappings
            Hyper-parameters by name; all others are those of this estimator.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights, for a method whose `fit` accepts them.

        Yields
        ------
        index : int
            Position in `settings`.
        estimator : zero-shot estimator
            The estimator fitted with that setting.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        for index, setting in enumerate(settings):
            model = clone_with(self, setting)
            yield index, model.fit(X, y, signatures=signatures, **weights)

    # The fitted state. A working copy has its attributes in `__dict__` until they are collected.

    def _copy(self) -> Self:
        """An estimator with the same hyper-parameters and the same fitted value."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _snapshot(self) -> Self:
        """A copy that changes made by other threads do not affect."""
        return self._copy()

    def _fresh_copy(self) -> Self:
        """An unfitted working copy."""
        fresh = self._copy()
        for name in vars(self):
            if name == "_fitted" or _is_fitted_attribute(name):
                delattr(fresh, name)
        return fresh

    def _with(self, **attributes: Any) -> Self:
        """A fitted copy with other attributes."""
        other = self._copy()
        other._fitted = Fitted({**other._fitted.attributes, **attributes})
        return other

    def _as_fitted(self) -> Self:
        """A fitted estimator with the attributes of this working copy."""
        fitted = self._copy()
        fitted._fitted = self._collect_fitted()
        for name in fitted._fitted.attributes.keys() & vars(fitted).keys():
            delattr(fitted, name)
        return fitted

    def _set_fitted(self, working: Self) -> Self:
        """Replace the fitted value by the attributes of a working copy."""
        self._fitted = working._collect_fitted(vars(self))
        for name in list(vars(self)):
            if name in self._fitted.attributes or _is_fitted_attribute(name):
                delattr(self, name)
        return self

    def _collect_fitted(self, before: Mapping[str, Any] | None = None) -> Fitted:
        """The fitted value with the attributes set on this working copy, except those of before."""
        before, own = before or {}, dict(vars(self))
        fitted = own.pop("_fitted", None)
        parameters = self._get_param_names()
        attributes = {
            name: value
            for name, value in own.items()
            if name not in parameters
            and not name.startswith(_SKLEARN_PREFIXES)
            and not (name in before and before[name] is value)
        }
        return Fitted(attributes if fitted is None else {**fitted.attributes, **attributes})

    def _change(self, change: Callable[[Self], Any]) -> Self:
        """Replace the fitted value by that of a changed working copy.

        `change` is called again if another thread has replaced the fitted value in the meantime.
        """
        check_is_fitted(self)
        while True:
            working = self._copy()
            before = working._fitted
            change(working)
            fitted = working._collect_fitted(vars(self))
            with FITTED_LOCK:
                if self._fitted is before:
                    self._fitted = fitted
                    return self

    # Probabilities, labels and features.

    def _has_temperature(self) -> bool:
        """Whether the estimator has probabilities."""
        return False

    def _no_probabilities(self) -> str:
        """Why the estimator has no probabilities, and how to get them."""
        name = type(self).__name__
        calibrated = f"{name}(…, temperature='cv')"
        if "temperature" not in self._get_param_names():
            calibrated = f"CalibratedStacking({name}(…), temperature='cv')"
        return (
            f"{name} has scores, not probabilities, which need a temperature estimated on held-out "
            f"classes. Fit {calibrated} to estimate it."
        )

    def _refuse_seen(self, labels: Any) -> None:
        """Refuse to remove classes with training images, on which the fitted model depends."""
        seen = set(self.seen_classes_.tolist())
        trained = [label for label in to_numpy(labels).tolist() if label in seen]
        if trained:
            raise ValueError(
                f"{type(self).__name__} was trained on samples of {name_some(trained)}: only "
                "classes without training samples can be removed. To exclude other classes, pass "
                "classes= when predicting, or fit without them."
            )

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # Grids call this several times per setting, and each call inspects a signature.
        return list(super()._get_param_names())

    def _check_true_labels(self, y: NDArray[Any], scorer: ClassScorer, classes: Any) -> None:
        """Refuse true labels that cannot be predicted."""
        candidates = scorer.labels if classes is None else to_numpy(classes)
        among = "classes_" if classes is None else "classes"
        known = set(candidates.tolist())
        outside = [label for label in dict.fromkeys(y.ravel().tolist()) if label not in known]
        if not outside:
            return
        near = name_near_misses(outside, candidates.tolist(), unknown_in="y", known_in=among)
        if near:
            advice = ""
        elif classes is not None:
            advice = " These samples can never be correct: drop them, or add their classes."
        elif not len(self.unseen_classes_):
            advice = (
                " The model describes no unseen classes: pass signatures= with a row for each of "
                "them to fit."
            )
        else:
            advice = " These samples can never be correct: drop them, or describe their classes."
        raise ValueError(
            f"y has labels that are not in {among}: {name_some(outside)}.{near}{advice}"
        )

    def _is_generalized(self) -> bool:
        """Whether the user chose the generalized setting."""
        return False

    def _warn_of_generalized(self, y: NDArray[Any]) -> None:
        """Warn once if images of unseen classes are scored against seen classes as well."""
        seen = set(self.seen_classes_.tolist())
        if not self._is_generalized() and y.size and seen.isdisjoint(y.ravel().tolist()):
            # Correct in the generalized setting, but rarely intended.
            warn_once(
                "score: y has only unseen classes, but the candidates include seen classes (the "
                "generalized setting). For the conventional setting, pass classes=, or "
                "scoring=unseen_accuracy_scorer to cross_val_score."
            )

    def _checked_scorer(self) -> ClassScorer:
        check_is_fitted(self)
        return self.class_scorer_

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check features, which keep their library, and labels, which become a NumPy array."""
        if is_streamed(X):
            raise needs_rows(self, X)
        if is_foreign(y):
            y = to_numpy(y)
        elif isinstance(y, (list, tuple)):
            y = sample_labels(y)
        if is_foreign(X) and y is not None:
            X = self._check_features(X, reset=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = _validated(self, X, y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity: every sample needs a label.")
        if y.dtype.kind == "O":
            labels = label_array(y, "y")
            # Strings remain objects; numbers and booleans get a proper dtype.
            y = y if labels.dtype.kind == "U" else labels
        check_classification_targets(y)
        return X, y

    def _check_stream(self, X: Any) -> Any:
        """Check the width of features that are read block by block."""
        X = whole_rows(X) if is_dask(X) else X
        self._check_width(X.shape[1])
        return X

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    def _check_features(self, X: Any, *, reset: bool = False) -> Any:
        """Check the shape of features; their values are checked block by block."""
        if isinstance(X, EmbeddedRows):
            X.X = self._check_features(X.X, reset=reset)
            return X
        if not is_foreign(X):
            return _validated(self, X, reset=reset)
        X = plain_tensor(X, "X")
        if len(X.shape) != 2:
            raise ValueError(f"Expected 2D array, got an array of {len(X.shape)} axes instead.")
        n_samples, n_features = X.shape
        if n_samples == 0 or n_features == 0:
            raise ValueError(
                f"X of shape {tuple(X.shape)} is empty: found 0 samples or 0 features."
            )
        if reset:
            self.n_features_in_ = n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            self._check_width(n_features)
        return X


def _validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate features as scikit-learn does; DataFrames may have yes/no columns."""
    if isinstance(X, (list, tuple)):
        # scikit-learn would turn dates into numbers.
        with suppress(ValueError):  # scikit-learn's error about rows of unequal length is clearer
            X = np.asarray(X)
    refuse_dates(X)
    check = partial(validate_data, estimator, ensure_all_finite=False, **options)
    try:
        return check(X, *y)
    except (TypeError, ValueError):
        if not (hasattr(X, "infer_objects") and hasattr(X, "columns")):
            raise
        numbers = numeric_columns(X, "X")
        refuse_text(numbers.infer_objects(), "X")
        if numbers is X:
            raise
    return check(numbers, *y)


def count_block(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> HitCounts | None:
    """Count the hits of one block of samples; None for an empty block."""
    estimator, k, classes = shared
    if not len(rows):
        return None
    top = top_labels(estimator, rows, k, classes)
    return HitCounts.of(check_block_labels(labels, len(rows)), top, sample_weight=weights)


def top_labels(estimator: Any, X: Any, k: int, classes: Any = None) -> NDArray[Any]:
    """The best classes of each row; the label of rejection comes first where a row is rejected."""
    top = to_numpy(estimator.predict_top_k(X, k, classes=classes)[0])
    if hasattr(estimator, "is_none"):
        best = estimator.predict(X, classes=classes)
        rejected = best != top[:, 0]
        top = top.astype(best.dtype)
        top[rejected] = np.column_stack([best, top[:, :-1]])[rejected]
    return top
