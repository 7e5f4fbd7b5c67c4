"""Bases of all estimators and of wrappers: predictions from a scorer, in memory or streamed."""

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
from zslearn.signatures._table import label_array, sample_labels


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an estimator has learned, its described classes included; never changed.

    An estimator holds one beside its hyper-parameters and shows the attributes as its own. Whatever
    changes an estimator makes another value and replaces this one as a whole, so that a reader in
    another thread sees the state before or the state after.
    """

    attributes: Mapping[str, Any]


# Held while a reference is compared and replaced, never while anything is computed.
FITTED_LOCK = threading.Lock()
if hasattr(os, "register_at_fork"):
    # In a forked process no thread is left to release it.
    os.register_at_fork(after_in_child=FITTED_LOCK._at_fork_reinit)  # type: ignore[attr-defined]


#: Beginnings of the names of attributes that scikit-learn sets on any estimator.
_OF_SKLEARN = ("_sklearn_", "_skl_", "_metadata_request", "_parent_callback", "_callback")


def _is_result(name: str) -> bool:
    """Whether a name is that of a public fitted attribute."""
    return name.endswith("_") and name[0] != "_"


_Estimator = TypeVar("_Estimator")


def clone_with(estimator: _Estimator, setting: Mapping[str, Any]) -> _Estimator:
    """A clone of an estimator under other hyper-parameters.

    Values are cloned, too, as in scikit-learn: estimators in a grid are shared by no two settings,
    and the grid stays as it was.
    """
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    variant: _Estimator = clone(estimator).set_params(**values)
    return variant


class _NeedsTemperature:
    """A method that is there where an estimator has a temperature.

    As scikit-learn's `available_if`, but the error itself says what is missing, not its cause.
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
    """Base of all estimators: predictions by their scorer.

    A fitted estimator has `class_scorer_` and `seen_classes_`. Everything below reads the scorer
    once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    class_scorer_ : ClassScorer
        What predictions work on; replaced as a whole when classes are described.
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
                # A property has failed: its own error says why.
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        fitted = state.pop("_fitted", None)
        return state if fitted is None else {**state, **fitted.attributes}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        found = self._found({})
        if found.attributes:
            self._fitted = found
            for name in found.attributes:
                del self.__dict__[name]

    @property
    def class_scorer_(self) -> ClassScorer:
        """What predictions work on; a subclass makes it."""
        raise AttributeError(f"{type(self).__name__} has no scorer: it is not fitted.")

    @property
    def classes_(self) -> NDArray[Any]:
        """Every described class, sorted."""
        return self.class_scorer_.labels

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """The classes known by their signature alone, sorted."""
        seen = set(self.seen_classes_.tolist())
        classes = self.classes_
        return classes[[label not in seen for label in classes.tolist()]]

    def decision_function(self, X: Any, *, classes: Any = None) -> Array:
        """Score every sample against every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The higher, the better; columns follow `classes`. In the namespace and on the device of
            `X`. Without `classes`, and with two classes described in all, scikit-learn's convention
            for two classes holds: one number per sample, positive for `classes_[1]`.
        """
        scorer = self._checked_scorer()
        if is_streamed(X):
            return stream_scores(scorer, self._check_stream(X), classes)
        scores = scorer.scores(self._check_features(X), classes)
        if classes is None and len(scorer.labels) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Any, *, classes: Any = None, prior: Any = None) -> NDArray[Any]:
        """Name the best class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates, for instance `unseen_classes_` in the conventional setting; by default
            every class in `classes_`, the generalized setting.
        prior : mapping of label to float, optional
            Odds of classes before the image is seen, such as how common each is at a place;
            positive, up to a common factor, 1 for those that are not named. Only for an estimator
            that has :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels. Of classes with identical parameters the first in `classes_` is named.
            Other classes whose scores differ by less than rounding are ties, too: which of them is
            named may depend on the processor and on the other samples.
        """
        return self.predict_top_k(X, 1, classes=classes, prior=prior)[0][:, 0]

    def predict_top_k(
        self,
        X: Any,
        k: int = 5,
        *,
        classes: Any = None,
        proba: bool = False,
        prior: Any = None,
    ) -> tuple[NDArray[Any], Array]:
        """Name the `k` best classes of each sample, best first.

        No matrix of all samples and classes is made.

        Parameters
        ----------
        k : int, default=5
            How many classes.
        proba : bool, default=False
            Whether to give probabilities in place of scores: those of `predict_proba`, which the
            estimator must have.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Class labels.
        scores : array of shape (n_samples, k)
            Their scores, or their probabilities among all candidates, descending.
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
        r"""Probabilities of the candidates: softmax of the scores at the estimator's temperature.

        Wrappers that find a temperature have it,
        :class:`~zslearn.calibration.CalibratedStacking` and
        :class:`~zslearn.model_selection.ZeroShotSearchCV` with `temperature="cv"`, and methods
        whose scores are log probabilities: :class:`~zslearn.synthesis.GaussianEXEM`.

        Parameters
        ----------
        independent : bool, default=False
            For images that may show several classes: the probability of each class against an
            average rival, :math:`(n - 1) p_c / ((n - 1) p_c + 1 - p_c)` with n candidates, so that
            one class does not make another less likely than not. The order stays.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns follow `classes`; rows sum to 1 unless `independent`. In the namespace and on
            the device of `X`. The largest of a row is that of the predicted class, unless scores
            are tied.
        """
        scorer = self._checked_scorer().with_prior(prior)
        if is_streamed(X):
            chances = stream_scores(scorer, self._check_stream(X), classes, probabilities=True)
        else:
            chances = scorer.probabilities(self._check_features(X), classes)
        if not independent:
            return chances
        odds = max(chances.shape[1] - 1, 1) * chances
        return odds / (odds + (1 - chances))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> float:
        """Per-class accuracy: the mean over the classes in `y` of the accuracy within each.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts within its class.

        Returns
        -------
        float
            Between 0 and 1.
        """
        state = self._snapshot()
        scorer = state._checked_scorer()
        if is_streamed(X):
            counts = self.count_hits(X, y, classes=classes, sample_weight=sample_weight)
            if classes is None:
                self._warn_of_generalized(counts.classes)
            return counts.per_class_accuracy()
        self._check_true_labels(to_numpy(y), scorer, classes)
        if sample_weight is not None and to_numpy(sample_weight).dtype.kind in "OSU":
            raise TypeError(
                "sample_weight must be numbers. classes= is a keyword: score(X, y, classes=…)."
            )
        if classes is None:
            self._warn_of_generalized(to_numpy(y))
        predicted = state.predict(X, classes=classes)
        return float(per_class_accuracy(to_numpy(y), predicted, sample_weight=sample_weight))

    def count_hits(
        self, X: Any, y: Any, *, k: int = 1, classes: Any = None, sample_weight: Any = None
    ) -> HitCounts:
        """Count at which rank the label of each sample is predicted.

        Counts of several parts of the samples add up. A model that rejects samples, such as
        :class:`~zslearn.calibration.NoneOfThese`, has that as its first guess.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or None
            True labels; None takes those of a FeatureBlocks.
        k : int, default=1
            How many ranks.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts.

        Returns
        -------
        HitCounts
            By class and rank.

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
            raise ValueError("There are no samples to count: X has no rows.")
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
        """Fit once for each setting of the hyper-parameters.

        A search calls this. Each estimator is fitted when it is asked for; a method may share work
        between settings and then chooses their order.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see `fit`.
        settings : sequence of mappings
            Hyper-parameters by name; those not named are as they are here.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts, for a method whose `fit` takes it.

        Yields
        ------
        index : int
            Position in `settings`.
        estimator : zero-shot estimator
            Fitted under that setting.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        for index, setting in enumerate(settings):
            model = clone_with(self, setting)
            yield index, model.fit(X, y, signatures=signatures, **weights)

    # How it is done.

    def _copy(self) -> Self:
        """Another estimator with the same hyper-parameters and the same fitted value."""
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        return other

    def _fresh_copy(self) -> Self:
        """A copy that has learned nothing, to learn with."""
        fresh = self._copy()
        for name in [name for name in vars(fresh) if name == "_fitted" or _is_result(name)]:
            delattr(fresh, name)
        return fresh

    def _snapshot(self) -> Self:
        """The estimator as it is now, whatever another thread does to it meanwhile."""
        return self._copy()

    def _with(self, **attributes: Any) -> Self:
        """A fitted copy with other attributes."""
        other = self._copy()
        other._fitted = Fitted({**other._fitted.attributes, **attributes})
        return other

    def _as_fitted(self) -> Self:
        """A fitted estimator of this copy, on which attributes were set."""
        settled = self._copy()
        settled._fitted = self._found({})
        for name in settled._fitted.attributes:
            settled.__dict__.pop(name, None)
        return settled

    def _set_fitted(self, learner: Self) -> Self:
        """Take over what a copy has learned: the attributes that were set on it."""
        self._fitted = learner._found(vars(self))
        for name in [*self._fitted.attributes, *filter(_is_result, vars(self))]:
            self.__dict__.pop(name, None)
        return self

    def _found(self, known: Mapping[str, Any]) -> Fitted:
        """What a copy has learned, or what it was changed to, beside what was known."""
        own = dict(vars(self))
        before = own.pop("_fitted", None)
        names = self._get_param_names()
        found = {
            name: value
            for name, value in own.items()
            if name not in names
            and not name.startswith(_OF_SKLEARN)
            and not (name in known and known[name] is value)
        }
        return Fitted(found if before is None else {**before.attributes, **found})

    def _change(self, change: Callable[[Self], Any]) -> Self:
        """Replace what is fitted by what `change` makes of a copy.

        It is called again where another thread has replaced the fitted value meanwhile.
        """
        check_is_fitted(self)
        while True:
            changed = self._copy()
            before = changed._fitted
            change(changed)
            found = changed._found(vars(self))
            with FITTED_LOCK:
                if self._fitted is before:
                    self._fitted = found
                    return self

    def _has_temperature(self) -> bool:
        """Whether there are probabilities; a wrapper says so."""
        return False

    def _no_probabilities(self) -> str:
        """Why there are none, and what gives them."""
        name = type(self).__name__
        how = f"fit {name}(…, temperature='cv')"
        if "temperature" not in self._get_param_names():
            how = f"fit CalibratedStacking({name}(…), temperature='cv')"
        return (
            f"{name} has scores, not probabilities: a temperature must be found first, on classes "
            f"left out of training. To have it, {how}."
        )

    def _refuse_seen(self, labels: Any) -> None:
        """Refuse to forget classes with training images: what was learned holds them."""
        seen = set(self.seen_classes_.tolist())
        learned = [label for label in to_numpy(labels).tolist() if label in seen]
        if learned:
            raise ValueError(
                f"{type(self).__name__} learned from images of {name_some(learned)}, and keeps "
                "what it learned: only classes without training images can be removed. To leave "
                "others out of the candidates give classes= when predicting, or fit without them."
            )

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # A grid asks several times for each of its settings, and each time a signature is read.
        return list(super()._get_param_names())

    def _check_true_labels(self, y: NDArray[Any], scorer: ClassScorer, classes: Any) -> None:
        """Refuse true labels that no prediction can name."""
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
            advice = " Such samples cannot be right; leave them out, or name their classes."
        elif not len(self.unseen_classes_):
            advice = (
                " No class without samples was described; give fit signatures= with a row for "
                "each of them."
            )
        else:
            advice = " Such samples cannot be right; leave them out, or describe their classes."
        raise ValueError(
            f"y holds labels that are not among {among}: {name_some(outside)}.{near}{advice}"
        )

    def _is_generalized(self) -> bool:
        """Whether the generalized setting was asked for."""
        return False

    def _warn_of_generalized(self, y: NDArray[Any]) -> None:
        """Say once that unseen images are scored against seen classes too."""
        seen = set(self.seen_classes_.tolist())
        if not self._is_generalized() and y.size and seen.isdisjoint(y.ravel().tolist()):
            # Right in the generalized setting; whoever leaves out classes rarely means it.
            warn_once(
                "score: every label is of an unseen class, and seen classes are among the "
                "candidates, which is the generalized setting. For the conventional one give "
                "classes=, or scoring=unseen_accuracy_scorer to cross_val_score."
            )

    def _checked_scorer(self) -> ClassScorer:
        check_is_fitted(self)
        return self.class_scorer_

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check features and labels; features keep their library, labels come to the host."""
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
            # Strings stay objects; numbers and booleans get their dtype.
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
        """Check the shape of features; what they hold is checked block by block."""
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
                f"X of shape {tuple(X.shape)} holds nothing: found 0 samples or features."
            )
        if reset:
            self.n_features_in_ = n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            self._check_width(n_features)
        return X


def _validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """What scikit-learn makes of features; a DataFrame may say yes and no, and text is named."""
    if isinstance(X, (list, tuple)):
        # scikit-learn would turn dates into numbers.
        with suppress(ValueError):  # rows of several lengths, of which it says more
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
    """Hits of one block, as :class:`StreamedSamples` adds them up."""
    estimator, k, classes = shared
    if not len(rows):
        return None
    top = top_labels(estimator, rows, k, classes)
    return HitCounts.of(check_block_labels(labels, len(rows)), top, sample_weight=weights)


def top_labels(estimator: Any, X: Any, k: int, classes: Any = None) -> NDArray[Any]:
    """The best classes of each row; where it is rejected, the label of that comes before them."""
    top = to_numpy(estimator.predict_top_k(X, k, classes=classes)[0])
    if hasattr(estimator, "is_none"):
        best = estimator.predict(X, classes=classes)
        rejected = best != top[:, 0]
        top = top.astype(best.dtype)
        top[rejected] = np.column_stack([best, top[:, :-1]])[rejected]
    return top
