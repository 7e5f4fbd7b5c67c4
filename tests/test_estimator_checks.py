"""The shipped checks pass a sound method, and each finds what it is there to find."""

from __future__ import annotations

import itertools
import sys
from numbers import Real
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import AcceptsSampleWeight, ZeroShotClassifier, group_by_params, inherit_docs
from zslearn.base.checks import (
    check_zero_shot_estimator,
    parametrize_with_checks,
    zero_shot_checks,
)
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking

CHECKS = {check.__name__: check for check in zero_shot_checks(ESZSL())}
NUMPY_ONLY = {
    "check_torch": "takes NumPy arrays only",
    "check_array_api_strict": "takes NumPy arrays only",
}


@inherit_docs
class PredictedMeans(ZeroShotClassifier):
    """Least squares from signatures to class means; the nearest mean names a sample.

    Parameters
    ----------
    alpha : float, default=0.1
        Ridge.
    center : {"mean"} or None, default="mean"
        Whether the mean of the samples is taken from them.
    """

    score_function = "euclidean"
    embedding_attributes = ("mean_",)
    grids = {"fast": {"center": ["mean", None], "alpha": [0.01, 0.1, 1.0]}}  # noqa: RUF012
    _parameter_constraints = {  # noqa: RUF012
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "center": [StrOptions({"mean"}), None],
    }

    def __init__(self, alpha=0.1, *, center="mean", feature_norm="l2", signature_scale="seen"):
        self.alpha = alpha
        self.center = center
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training, variants):
        S = training.signatures
        for same in group_by_params(variants, "center"):
            mean = training.X.mean(axis=0) * (same[0].center == "mean")
            X = training.X - mean
            means = np.stack([X[training.y == c].mean(axis=0) for c in range(len(S))])
            for variant in same:
                variant.mean_ = mean
                gram = S.T @ S + variant.alpha * np.eye(S.shape[1])
                variant.coef_ = np.linalg.solve(gram, S.T @ means).astype(means.dtype)
                yield variant

    def embed(self, X):
        """Take the mean away."""
        return X - self.mean_

    def synthesize(self, signatures, labels=None):
        """Predict the mean of each class."""
        return signatures.astype(self.coef_.dtype) @ self.coef_


def test_a_sound_method_passes():
    results = check_zero_shot_estimator(PredictedMeans(), expected_failed_checks=NUMPY_ONLY)
    status = {result["check_name"]: result["status"] for result in results}
    assert set(status) == {check.__name__ for check in zero_shot_checks(PredictedMeans())}
    assert {name for name, value in status.items() if value == "xfail"} <= set(NUMPY_ONLY)
    skipped = {name for name, value in status.items() if value == "skipped"}
    optional = {"check_classes_are_independent", "check_n_jobs", "check_grid_with_a_generator"}
    assert skipped <= {*optional, *NUMPY_ONLY}


# Methods of an outside author.
@parametrize_with_checks([PredictedMeans(alpha=2.0)], expected_failed_checks=NUMPY_ONLY)
def test_three_lines(estimator, check):
    check(estimator)


class RoundsDifferently(PredictedMeans):
    """Each call leaves other rounding errors, as BLAS may."""

    n_calls = itertools.count()

    def synthesize(self, signatures, labels=None):
        """Predict the mean of each class, with an error of the last digits."""
        means = super().synthesize(signatures)
        return means * (1 + 1e-15 * (next(self.n_calls) % 5))


@pytest.mark.parametrize(
    "name",
    [
        "check_repeatable",
        "check_candidates",
        "check_top_k",
        "check_order_of_classes",
        "check_renamed_labels",
        "check_described_later",
        "check_described_by_name",
        "check_error_leaves_the_model",
        "check_small_blocks",
        "check_pickling",
        "check_saving",
        "check_grid_hands_out_separate_models",
    ],
)
def test_rounding_is_allowed(name):
    CHECKS[name](RoundsDifferently())


# Broken methods, each with what must find it, and words of the message.


class DependsOnBlocks(PredictedMeans):
    def embed(self, X):
        return X - X.mean(axis=0)


class WritesInEmbed(PredictedMeans):
    def embed(self, X):
        self.mean_ *= 1.01
        return super().embed(X)


class WritesToRows(PredictedMeans):
    def embed(self, X):
        X -= self.mean_
        return X


class WritesInSynthesize(PredictedMeans):
    def synthesize(self, signatures, labels=None):
        self.coef_ *= 1.01
        return super().synthesize(signatures)


class LearnsFromUnseen(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        for variant in super()._fit_many(training, variants):
            variant.coef_ = variant.coef_ + training.all_signatures().mean()
            yield variant


class LooksAtOthers(PredictedMeans):
    def synthesize(self, signatures, labels=None):
        return super().synthesize(signatures - signatures.mean(axis=0))


class ReadsLabels(PredictedMeans):
    def synthesize(self, signatures, labels=None):
        first = np.array([len(str(label)) for label in labels])
        return super().synthesize(signatures) + first[:, None]


class IsRandom(PredictedMeans):
    def synthesize(self, signatures, labels=None):
        parameters = super().synthesize(signatures)
        return parameters + 1e-8 * np.random.default_rng().standard_normal(parameters.shape)


class IsUpsideDown(PredictedMeans):
    def synthesize(self, signatures, labels=None):
        return -super().synthesize(signatures)


class TurnsToDouble(PredictedMeans):
    def embed(self, X):
        return super().embed(X).astype(np.float64)

    def synthesize(self, signatures, labels=None):
        return super().synthesize(signatures).astype(np.float64)


class CannotBePickled(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        for variant in super()._fit_many(training, variants):
            variant.function_ = lambda x: x
            yield variant


class LosesItsMean(PredictedMeans):
    def __getstate__(self):
        return {**super().__getstate__(), "mean_": 0.0}


class IgnoresAlpha(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        alpha = variants[0].alpha
        for variant in super()._fit_many(training, variants):
            variant.coef_ = variant.coef_ * (1 + (variant.alpha - alpha))
            yield variant


class ComparesClasses(PredictedMeans):
    synthesizes_independently = True

    def synthesize(self, signatures, labels=None):
        means = super().synthesize(signatures, labels)
        return means - means.mean(axis=0)


class LeavesOneOut(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        yield from super()._fit_many(training, variants[:1] if len(variants) > 1 else variants)


class YieldsTwice(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        for variant in super()._fit_many(training, variants):
            state = dict(vars(variant))
            yield variant
            if len(variants) > 1:
                vars(variant).update(state)
                yield variant


class SharesWhatItChanges(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        shared = np.zeros((training.signatures.shape[1], training.X.shape[1]))
        for variant in super()._fit_many(training, variants):
            shared[:] = variant.coef_
            variant.coef_ = shared
            yield variant

    def embed(self, X):
        return super().embed(X) + 1e-3 * self.coef_[0]


class KeepsModels(PredictedMeans):
    kept = []  # noqa: RUF012

    def synthesize(self, signatures, labels=None):
        self.kept.append(self)
        return super().synthesize(signatures)


class EmbedsByMoreThanItSays(PredictedMeans):
    def embed(self, X):
        return X - self.alpha


class ChecksNoParameter(PredictedMeans):
    _parameter_constraints = {  # noqa: RUF012
        **PredictedMeans._parameter_constraints,
        "alpha": [object],
    }


class LacksAConstraint(PredictedMeans):
    _parameter_constraints = ZeroShotClassifier._parameter_constraints


class HasAGridOfStrangers(PredictedMeans):
    grids = {"fast": {"beta": [1.0, 2.0]}}  # noqa: RUF012


class HasAGridOfWrongValues(PredictedMeans):
    grids = {"fast": {"alpha": [-1.0, 2.0]}}  # noqa: RUF012


class DocumentsNothing(PredictedMeans):
    """A method."""


class ChangesBeforeItFails(PredictedMeans):
    def fit(self, X, y, *, signatures=None):
        self.n_samples_ = len(X)
        return super().fit(X, y, signatures=signatures)


class NeedsEightAttributes(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        if training.signatures.shape[1] != 8:
            raise ValueError("eight attributes, please")
        yield from super()._fit_many(training, variants)


class NeedsTwelveClasses(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        if training.n_seen != 12:
            raise ValueError("twelve classes, please")
        yield from super()._fit_many(training, variants)


class NeedsOneView(PredictedMeans):
    keep_views = True

    @classmethod
    def _fit_many(cls, training, variants):
        if len(training.table.arrays) > 1:
            raise RuntimeError("one view, please")
        yield from super()._fit_many(training, variants)

    def synthesize(self, signatures, labels=None):
        return super().synthesize(signatures)


class CountsJobs(PredictedMeans):
    """A method.

    Parameters
    ----------
    alpha, center, n_jobs, random_state, feature_norm, signature_scale : object
        All.
    """

    _parameter_constraints = {  # noqa: RUF012
        **PredictedMeans._parameter_constraints,
        "n_jobs": [int, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        alpha=0.1,
        *,
        center="mean",
        n_jobs=None,
        random_state=0,
        feature_norm="l2",
        signature_scale="seen",
    ):
        super().__init__(
            alpha, center=center, feature_norm=feature_norm, signature_scale=signature_scale
        )
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def _fit_many(cls, training, variants):
        generator = variants[0].random_state
        for variant in super()._fit_many(training, variants):
            variant.coef_ = variant.coef_ * (variant.n_jobs or 1)
            if isinstance(generator, np.random.RandomState):
                variant.coef_ = variant.coef_ * generator.uniform()
            yield variant


class TurnsToNumpy(ESZSL):
    def decision_function(self, X, *, classes=None):
        return np.asarray(super().decision_function(X, classes=classes))


class IsNoClassifier(PredictedMeans):
    def predict(self, X, *, classes=None):
        return super().predict(X, classes=classes).tolist()


class NamesOutsiders(PredictedMeans):
    def predict(self, X, *, classes=None):
        return super().predict(X)


class NamesTwice(PredictedMeans):
    def predict_top_k(self, X, k=5, **options):
        labels, scores = super().predict_top_k(X, k, **options)
        labels[:, 1:] = labels[:, :1]
        return labels, scores


class MiscountsColumns(PredictedMeans):
    @classmethod
    def _fit_many(cls, training, variants):
        for variant in super()._fit_many(training, variants):
            variant.n_features_in_ = 1 + training.X.shape[1]
            yield variant


class FollowsTheTable(PredictedMeans):
    """Columns in the order in which a user described the classes."""

    def fit(self, X, y, *, signatures=None):
        super().fit(X, y, signatures=signatures)
        self.order_ = None if signatures is None else np.asarray(signatures.index)
        return self

    def decision_function(self, X, *, classes=None):
        return super().decision_function(X, classes=self.order_ if classes is None else classes)


class IgnoresWeights(AcceptsSampleWeight, PredictedMeans):
    """Takes weights and does not look at them."""


class RemovesAnything(ESZSL):
    def _refuse_seen(self, labels):
        pass


BROKEN = [
    (IgnoresWeights(), "check_sample_weight", "whole weights"),
    (DependsOnBlocks(), "check_small_blocks", "block by block"),
    (WritesInEmbed(), "check_predicting_changes_nothing", "mean_"),
    (WritesToRows(feature_norm=None), "check_predicting_changes_nothing", "X after predicting"),
    (WritesInSynthesize(), "check_predicting_changes_nothing", "coef_"),
    (LearnsFromUnseen(), "check_unused_class", "unseen ones are not described"),
    (LooksAtOthers(), "check_unused_class", "synthesize each class by itself"),
    (ReadsLabels(), "check_renamed_labels", "numbers in place of names"),
    (IsRandom(), "check_repeatable", "random_state"),
    (IsRandom(), "check_described_later", "after add_classes"),
    (RemovesAnything(), "check_described_by_name", "with training images"),
    (IsUpsideDown(), "check_better_than_chance", "accuracy among 4 unseen"),
    (TurnsToDouble(), "check_float32", "float64"),
    (CannotBePickled(), "check_pickling", "cannot be pickled"),
    (
        CannotBePickled(),
        "check_saving",
        "saved and loaded: CannotBePickled.function_ is the function",
    ),
    (LosesItsMean(), "check_saving", "decision_function after saving"),
    (ComparesClasses(), "check_classes_are_independent", "once no others are described"),
    (IgnoresAlpha(), "check_grid_equals_single_fits", "compared with a single fit"),
    (LeavesOneOut(), "check_grid_equals_single_fits", "yield each variant once"),
    (YieldsTwice(), "check_grid_equals_single_fits", "yield each variant once"),
    (SharesWhatItChanges(), "check_grid_hands_out_separate_models", "others were fitted"),
    (KeepsModels(), "check_grid_holds_one_model", "still held"),
    (EmbedsByMoreThanItSays(), "check_rows_embedded_once", "rows that settings share"),
    (ChecksNoParameter(), "check_wrong_parameters_are_named", "alpha"),
    (LacksAConstraint(), "check_wrong_parameters_are_named", "alpha"),
    (HasAGridOfStrangers(), "check_grid_is_valid", "beta"),
    (HasAGridOfWrongValues(), "check_grid_is_valid", "alpha"),
    (DocumentsNothing(), "check_documentation", "alpha"),
    (ChangesBeforeItFails(), "check_error_leaves_the_model", "n_samples_"),
    (NeedsEightAttributes(), "check_inside_exem", "eight attributes"),
    (NeedsTwelveClasses(), "check_inside_calibrated_stacking", "twelve classes"),
    (NeedsTwelveClasses(), "check_inside_search", "twelve classes"),
    (NeedsOneView(), "check_several_views", "one view"),
    (CountsJobs(), "check_n_jobs", "n_jobs=2"),
    (CountsJobs(), "check_grid_with_a_generator", "single fit"),
    (TurnsToNumpy(), "check_torch", "gives scores of ndarray"),
    (TurnsToNumpy(), "check_array_api_strict", "gives scores of ndarray"),
    (IsNoClassifier(), "check_scikit_learn", "of scikit-learn's checks"),
    (NamesOutsiders(), "check_candidates", "are no candidates"),
    (NamesTwice(), "check_top_k", "twice"),
    (MiscountsColumns(), "check_attributes_name_every_class", "n_features_in_"),
    (FollowsTheTable(), "check_order_of_classes", "shuffling"),
]


@pytest.mark.parametrize(
    ("estimator", "name", "message"),
    BROKEN,
    ids=[f"{type(estimator).__name__}-{name}" for estimator, name, _ in BROKEN],
)
def test_what_is_broken_is_found(estimator, name, message):
    if name in ("check_torch", "check_array_api_strict"):
        pytest.importorskip(name.removeprefix("check_"))
    with pytest.raises(Exception, match=message) as caught:
        CHECKS[name](estimator)
    assert not isinstance(caught.value, SkipTest)
    # The sound method passes the same check.
    if name not in NUMPY_ONLY and not isinstance(estimator, CountsJobs):
        CHECKS[name](PredictedMeans())


def test_every_check_has_something_to_find():
    names = {check.__name__ for check in zero_shot_checks(ESZSL())}
    assert names == {name for _, name, _ in BROKEN}


def test_every_check_says_what_must_hold():
    for check in zero_shot_checks(ESZSL()):
        assert len(check.__doc__.strip()) > 60


def test_expected_failures_of_scikit_learn_are_passed_on():
    failing = IsNoClassifier()
    check = list(zero_shot_checks(failing))[-1]
    with pytest.raises(AssertionError, match="scikit-learn's checks") as caught:
        check(failing)
    names = str(caught.value).split("checks ", 1)[1].split(" failed", 1)[0].split(", ")
    expected = dict.fromkeys(names, "a list is good enough")
    check = list(zero_shot_checks(failing, expected_failed_checks=expected))[-1]
    check(failing)


def test_expected_failures_are_marked_with_their_reason():
    mark = parametrize_with_checks(
        [
            ESZSL(),
            pytest.param(CalibratedStacking(ESZSL()), id="calibrated", marks=pytest.mark.slow),
        ],
        expected_failed_checks=lambda estimator: (
            {"check_top_k": "for want of time"} if isinstance(estimator, ESZSL) else {}
        ),
    ).mark
    names, parameters = mark.args
    assert tuple(names) == ("estimator", "check")
    by_id = {parameter.id: parameter for parameter in parameters}
    assert by_id["ESZSL()-check_top_k"].marks[0].kwargs == {"reason": "for want of time"}
    assert not by_id["ESZSL()-check_pickling"].marks
    assert [mark.name for mark in by_id["calibrated-check_top_k"].marks] == ["slow"]


def test_skipped_where_a_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_strict", None)
    with pytest.raises(SkipTest, match="needs array_api_strict"):
        CHECKS["check_array_api_strict"](ESZSL())


def test_exem_tells_how_to_nest_wrappers():
    CHECKS["check_inside_exem"](CalibratedStacking(ESZSL()))
