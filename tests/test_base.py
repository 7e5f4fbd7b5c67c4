"""The contract: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer
from zslearn.base import InputWarning, ZeroShotClassifier, group_by_params, group_by_params_except
from zslearn.baselines import ESZSL, GDA, ConSE
from zslearn.calibration import CalibratedStacking
from zslearn.model_selection import ZeroShotPipeline
from zslearn.signatures import MultiSignatures, SignatureViews
from zslearn.signatures._views import side_by_side
from zslearn.synthesis import EXEM, SynC


class Prototypes(ZeroShotClassifier):
    """The smallest method there can be: least squares from signatures to class means."""

    score_function = "euclidean"

    def __init__(self, feature_norm="l2", signature_scale="seen"):
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, training):
        X, y = training.X, training.y
        means = np.stack([X[y == c].mean(axis=0) for c in range(training.n_seen)])
        signatures = side_by_side(training.signatures)
        self.map_ = np.linalg.lstsq(signatures, means, rcond=None)[0]

    def synthesize(self, signatures, labels=None):
        return side_by_side(signatures) @ self.map_


class Views(Prototypes):
    """A method that keeps the views apart."""

    keep_views = True

    def _fit(self, training):
        self.got_ = training.signatures
        super()._fit(training)


@pytest.fixture
def fitted(problem):
    return ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)


def test_a_method_without_its_verbs_says_so(problem):
    class Nothing(ZeroShotClassifier):
        feature_norm = "l2"
        signature_scale = "seen"

    with pytest.raises(TypeError, match="Nothing must define _fit"):
        Nothing().fit(problem.X_train, problem.y_train)


def test_parameters_that_are_not_finite_name_their_class(problem):
    class Broken(Prototypes):
        def synthesize(self, signatures, labels=None):
            out = super().synthesize(signatures)
            out[-1] = np.nan
            return out

    last = np.sort(problem.signatures.index)[-1]
    with pytest.raises(ValueError, match=f"Broken computed NaN.*'{last}'"):
        Broken().fit(problem.X_train, problem.y_train, signatures=problem.signatures)


# Labels and containers


def test_object_and_categorical_labels(problem):
    expected = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    expected = expected.predict(problem.X_test_unseen)
    everything = np.sort(problem.signatures.index)
    for y in (
        problem.y_train.astype(object),
        pd.Series(problem.y_train, dtype="string"),
        pd.Series(pd.Categorical(problem.y_train, categories=everything)),
        pl.Series(problem.y_train),
        problem.y_train.tolist(),
    ):
        model = ESZSL().fit(problem.X_train, y, signatures=problem.signatures)
        np.testing.assert_array_equal(model.predict(problem.X_test_unseen), expected)
        np.testing.assert_array_equal(model.unseen_classes_, np.sort(problem.unseen_classes))


def test_frames_and_mappings(problem):
    names = [f"feature {i}" for i in range(problem.X_train.shape[1])]
    expected = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    expected = expected.predict(problem.X_test_unseen)
    frame = problem.signatures
    with_labels = pl.DataFrame({"class": list(frame.index)}).hstack(
        pl.DataFrame(frame.to_numpy(), schema=[str(c) for c in frame.columns])
    )
    mapping = dict(zip(frame.index, frame.to_numpy(), strict=True))
    for make, signatures in (
        (lambda X: pd.DataFrame(X, columns=names), frame),
        (lambda X: pl.DataFrame(X, schema=names), with_labels),
        (lambda X: X.tolist(), mapping),
    ):
        model = ESZSL().fit(make(problem.X_train), problem.y_train, signatures=signatures)
        np.testing.assert_array_equal(model.predict(make(problem.X_test_unseen)), expected)
        if hasattr(model, "feature_names_in_"):
            assert list(model.feature_names_in_) == names
            with pytest.raises(ValueError, match="feature names"):
                model.predict(pd.DataFrame(problem.X_test_unseen, columns=names[::-1]))


def test_columns_of_text_among_features_are_named(problem):
    X = pd.DataFrame(problem.X_train).add_prefix("x").astype({"x0": object})
    model = Prototypes().fit(X, problem.y_train, signatures=problem.signatures)  # object, numbers
    message = r"^X: columns 'x1' are not numeric \('x1' has 'wood'\)\. Drop them, or encode them"
    with pytest.raises(ValueError, match=message):
        Prototypes().fit(X.assign(x1="wood"), problem.y_train, signatures=problem.signatures)
    with pytest.raises(ValueError, match=message):
        model.predict(X.assign(x1="wood"))


SECONDS = np.arange(8).reshape(4, 2).astype("datetime64[ms]")
DATES = pd.DataFrame(SECONDS, columns=["from", "to"])


@pytest.mark.parametrize(
    ("dates", "named"),
    [
        (SECONDS, r"array has dtype datetime64\[ms\]"),
        (np.full((4, 2), np.datetime64("NaT")), "array has dtype datetime64"),
        (SECONDS - SECONDS[0], r"array has dtype timedelta64\[ms\]"),
        ([list(row) for row in SECONDS], "array has dtype datetime64"),
        (DATES, "columns 'from', 'to' contain"),
        (DATES - DATES.iloc[0], "columns 'from', 'to' contain"),
        (DATES.assign(to=1.0), "columns 'from' contain"),
        (DATES.apply(lambda column: column.dt.tz_localize("Asia/Tokyo")), "columns 'from', 'to'"),
        (
            pl.DataFrame({"from": SECONDS[:, 0], "to": [1.0, 2.0, 3.0, 4.0]}),
            "columns 'from' contain",
        ),
    ],
)
def test_dates_are_no_features(dates, named):
    message = f"{named}.* dates or durations, not numbers"
    numbers = np.array([[1.0, 2.0], [2.0, 1.0], [0.5, 1.0], [1.0, 0.5]])
    with pytest.raises(ValueError, match=message):
        ESZSL().fit(dates, list("aabb"))
    with pytest.raises(ValueError, match=message):
        ESZSL().fit(numbers, list("aabb")).predict(dates)


def test_two_classes_follow_scikit_learn_unless_named(problem):
    keep = np.isin(problem.y_train, problem.seen_classes[:2])
    model = ESZSL().fit(problem.X_train[keep], problem.y_train[keep])
    X = problem.X_train[keep]
    flat = model.decision_function(X)
    both = model.decision_function(X, classes=model.classes_)
    assert flat.shape == (len(X),)
    assert both.shape == (len(X), 2)
    np.testing.assert_allclose(flat, both[:, 1] - both[:, 0])


def test_equal_classes_are_settled_by_their_order(problem):
    copy = problem.signatures.loc[[problem.unseen_classes[0]]]
    copy.index = ["zzz copy"]
    signatures = pd.concat([copy, problem.signatures])
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=signatures)
    pair = ["zzz copy", problem.unseen_classes[0]]
    predicted = model.predict(problem.X_test_unseen, classes=pair)
    scores = model.decision_function(problem.X_test_unseen, classes=pair)
    # Libraries multiply columns in different ways, so that equal ones may differ by rounding.
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], rtol=1e-9, atol=1e-12)
    equal = scores[:, 0] == scores[:, 1]
    assert set(predicted[equal]) <= {problem.unseen_classes[0]}
    # Small whole numbers are multiplied exactly.
    flat = ClassScorer(np.array(["a", "b", "c"]), np.array([[1.0, 2.0]] * 3), Embedding(np.copy))
    best, _ = flat.top_k(np.arange(10.0).reshape(5, 2), 1, ["c", "b"])
    assert set(best[:, 0]) == {"b"}


# Several views


def test_several_views(problem):
    frame = problem.signatures
    views = MultiSignatures(
        {"front": frame.iloc[:, :5], "back": frame.iloc[::-1, 5:]}, weights=[0.25, 0.75]
    )
    model = Views().fit(problem.X_train, problem.y_train, signatures=views)
    assert isinstance(model.got_, SignatureViews)
    assert model.got_.weights == (0.25, 0.75)
    assert len(model.got_) == len(problem.seen_classes)
    assert len(model.signature_scale_) == 2
    other = Prototypes().fit(problem.X_train, problem.y_train, signatures=views)
    X = problem.X_test_unseen
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X))
    assert other.score(X, problem.y_test_unseen, classes=other.unseen_classes_) > 0.4


# Refused arguments


def _numbered(problem):
    """The classes by number, seen ones first."""
    labels = [*np.sort(problem.seen_classes), *problem.unseen_classes]
    return {label: f"c{i:02d}" for i, label in enumerate(labels)}


def _frame(change):
    """A changed table of signatures of the numbered classes."""

    def changed(problem):
        names = _numbered(problem)
        return {"signatures": change(problem.signatures.loc[list(names)].rename(index=names))}

    return changed


def _with(value):
    def change(frame):
        frame = frame.astype(object)
        frame.iloc[3, 2] = value
        return frame

    return _frame(change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_frame(lambda f: f.iloc[7:]), "7 of the 12 classes in y have no .*'c04' and 2 more"),
        (_frame(lambda f: pd.concat([f, f.iloc[:1]])), "'c00' more than once"),
        (_with(np.nan), "NaN or infinity for 'c03'"),
        (_with(np.inf), "NaN or infinity for 'c03'"),
        (_frame(lambda f: f.reset_index(drop=True)), "are numbers, but those of y are strings"),
        (_frame(lambda f: {"a": [1.0], 2: [1.0]}), "all strings, all numbers or all booleans"),
        (_frame(lambda f: f.assign(of="wood")), r"'of' are not numeric \('of' has 'wood'\)"),
        (_frame(lambda f: {c: ["red"] for c in f.index}), "'c00' in signatures must contain"),
        (_frame(lambda f: f.iloc[:, :0]), "no attributes"),
        (_frame(lambda f: f.to_numpy()), "array of 16 rows, but y has samples of 12 classes"),
        (_frame(lambda f: f.set_axis(list("abcdefga"), axis=1)), "of the same name: 'a'"),
        (_frame(lambda f: {"a": f.iloc[0], "b": f.iloc[1].rename(str.upper)}), "the same index"),
        (_frame(lambda f: pl.DataFrame({"a": [1.0]})), "'class'"),
        (_frame(lambda f: {}), "empty"),
        (_frame(lambda f: {"a": [1.0], "b": [1.0, 2.0]}), "vectors of the same length"),
        (_frame(lambda f: SECONDS[:2]), "dates or durations, not numbers"),
        (_frame(lambda f: {"a": SECONDS[0]}), "dates or durations, not numbers"),
        (lambda p: {"y": ["only"] * len(p.y_train)}, "one class, 'only'.*at least two"),
        (lambda p: {"y": [10**30] * len(p.y_train)}, "labels of y include integers"),
    ],
)
def test_fit_refuses(problem, change, message):
    y = np.asarray([_numbered(problem)[label] for label in problem.y_train])
    samples = {"X": problem.X_train, "y": y, "signatures": problem.signatures} | change(problem)
    with pytest.raises(ValueError, match=message):
        ESZSL().fit(**samples)


@pytest.mark.parametrize(
    ("views", "weights", "message"),
    [
        (lambda f: {}, None, "at least one"),
        (lambda f: {"a": f}, [1, 2], "1 views need 1 weights"),
        (lambda f: {"a": f}, [-1.0], "non-negative"),
        (lambda f: {"a": f}, {"b": 1.0}, "the views are"),
        (lambda f: {"a": f, "b": f.iloc[1:]}, None, "every view"),
        (lambda f: {"a": f, "b": MultiSignatures({"x": f})}, None, "view 'b' is itself"),
        (lambda f: {"a": f, "b": f.reset_index(drop=True)}, None, "of the view 'a' are strings"),
        (lambda f: {"a": f, "b": f * np.nan}, None, "the view 'b' of signatures contains NaN"),
    ],
)
def test_views_that_are_refused(problem, views, weights, message):
    def fit():
        signatures = MultiSignatures(views(problem.signatures), weights)
        ESZSL().fit(problem.X_train, problem.y_train, signatures=signatures)

    with pytest.raises(ValueError, match=message):
        fit()


def test_unknown_empty_and_repeated_candidates(fitted, problem):
    X = problem.X_test_unseen
    for ask in (fitted.predict, fitted.decision_function, fitted.predict_top_k):
        with pytest.raises(ValueError, match="unknown classes: 'unicorn'"):
            ask(X, classes=[fitted.classes_[0], "unicorn"])
        with pytest.raises(ValueError, match="unknown classes: 1"):
            ask(X, classes=[1])
        with pytest.raises(ValueError, match="classes is empty"):
            ask(X, classes=[])
        with pytest.raises(ValueError, match="classes repeats"):
            ask(X, classes=[fitted.classes_[0]] * 2)
        with pytest.raises(ValueError, match="list of labels"):
            ask(X, classes="unicorn")


def test_describing_known_or_ill_fitting_classes_changes_nothing(fitted, problem):
    before = fitted.decision_function(problem.X_test_unseen)
    rows = problem.signatures.iloc[:2]
    with pytest.raises(ValueError, match="already has the classes"):
        fitted.add_classes(rows)
    new = rows.rename(index=lambda label: label + " new")
    with pytest.raises(ValueError, match="have 7 attributes; those given to fit have 8"):
        fitted.add_classes(new.iloc[:, :7])
    with pytest.raises(ValueError, match="other attributes"):
        fitted.add_classes(new.rename(columns=lambda c: f"{c}?"))
    with pytest.raises(ValueError, match="numbers, but those of the fitted classes are strings"):
        fitted.add_classes({1: rows.iloc[0].to_numpy()})
    with pytest.raises(ValueError, match="must name the class of each row"):
        fitted.add_classes(new.to_numpy())
    with pytest.raises(ValueError, match="NaN"):
        fitted.add_classes(new * np.nan)
    with pytest.raises(ValueError, match="signatures has no rows"):
        fitted.add_classes(new.iloc[:0])
    with pytest.raises(ValueError, match="like= requires values by attribute"):
        fitted.add_classes(new.iloc[:0], like=rows.index[0])
    np.testing.assert_array_equal(fitted.decision_function(problem.X_test_unseen), before)


def test_classes_by_attribute_or_like_another_one(fitted, problem):
    names, table = problem.signatures.columns.tolist(), problem.signatures
    known = table.iloc[0]
    fitted.add_classes({"by name": {name: known[name] + 1 for name in reversed(names)}})
    changed = {"one": {names[2]: 7}, "none": pd.Series({names[0]: 5.0}), "two": {names[1]: True}}
    fitted.add_classes(changed, like=known.name)
    fitted.add_classes(pd.DataFrame({names[3]: [9.0]}, index=["frame"]), like="by name")
    rows = fitted.signature_table_.as_user()
    np.testing.assert_array_equal(rows.loc["by name"], known + 1)
    np.testing.assert_array_equal(rows.loc["one"], known.where(known.index != names[2], 7))
    np.testing.assert_array_equal(rows.loc["none"], known.where(known.index != names[0], 5))
    np.testing.assert_array_equal(rows.loc["two"], known.where(known.index != names[1], 1))
    assert rows.loc["frame", names[3]] == 9
    assert rows.loc["frame", names[0]] == known.iloc[0] + 1


def test_ill_described_classes_by_attribute_change_nothing(fitted, problem):
    names, known = problem.signatures.columns.tolist(), problem.signatures.index[0]
    before = fitted.classes_.tolist()
    whole = dict.fromkeys(names, 1.0)
    frame = pd.DataFrame({names[0]: [1.0, 2.0]}, index=["a", "a"])
    for signatures, like, said in (
        ({"a": {names[0]: 1.0}}, None, f"'a' has no value for .* all {len(names)} .*like="),
        ({"a": {f"{names[0]} ": 1.0}}, known, f"the attribute '{names[0]} '.* mean {names[0]!r}"),
        ({"a": {names[0]: "much"}}, known, f"{names[0]!r} of 'a' must be a number; got 'much'"),
        ({"a": whole | {names[0]: np.nan}}, None, "NaN"),
        ({"a": whole}, f"{known}s", f"is not a class of the model.*{known!r}"),
        ({"a": list(whole.values())}, known, "like= requires values by attribute"),
        ({known: whole}, None, "already has the classes"),
        ({}, known, "like= requires values by attribute"),
        (frame, known, "more than once"),
    ):
        with pytest.raises(ValueError, match=said):
            fitted.add_classes(signatures, like=like)
    assert fitted.classes_.tolist() == before


def test_attributes_of_several_views_by_name(problem):
    table = problem.signatures
    views = MultiSignatures({"front": table.iloc[:, :5], "back": table.iloc[:, 5:]})
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=views)
    model.add_classes({"new": {f"back: {table.columns[5]}": 3.0}}, like=table.index[0])
    front, back = (view.loc["new"] for view in model.signature_table_.as_user().views.values())
    assert front.tolist() == table.iloc[0, :5].tolist()
    assert back.tolist() == [3.0, *table.iloc[0, 6:]]


def test_wrappers_refuse_to_remove_what_has_few_images(problem):
    few = problem.seen_classes[0]
    rows = np.flatnonzero(problem.y_train == few)[1:]
    X, y = np.delete(problem.X_train, rows, axis=0), np.delete(problem.y_train, rows)
    model = GDA(min_images=3).fit(X, y, signatures=problem.signatures)
    with pytest.raises(ValueError, match="GDA was trained on samples"):
        model.remove_classes([few])


# Features that are not finite


def test_non_finite_features_are_replaced_with_one_warning(problem):
    X = problem.X_train.copy()
    X[3, 1] = np.nan
    X[5, 2:4] = np.inf
    zeros = np.where(np.isfinite(X), X, 0.0)
    with pytest.warns(InputWarning, match="contains 3 NaN or infinite") as caught:
        model = ESZSL().fit(X, problem.y_train, signatures=problem.signatures)
    assert len(caught) == 1
    same = ESZSL().fit(zeros, problem.y_train, signatures=problem.signatures)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    with pytest.warns(InputWarning, match="contains 3") as caught:
        predicted = model.predict(X)
    assert len(caught) == 1
    np.testing.assert_array_equal(predicted, same.predict(zeros))


def test_without_feature_norm_non_finite_features_are_an_error(problem):
    model = ESZSL(feature_norm=None)
    X = problem.X_train.copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity, which feature_norm=None"):
        model.fit(X, problem.y_train, signatures=problem.signatures)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.predict(X)


# The scale of the signatures


def test_signature_scale(problem):
    X = problem.X_test_unseen
    frame = problem.signatures

    def fit(scale, signatures=frame):
        return ESZSL(signature_scale=scale).fit(
            problem.X_train, problem.y_train, signatures=signatures
        )

    seen, everything = fit("seen"), fit("all")
    assert seen.signature_scale_ != everything.signature_scale_
    given = fit(everything.signature_scale_[0])
    np.testing.assert_allclose(
        given.decision_function(X), everything.decision_function(X), rtol=1e-9, atol=1e-12
    )
    # The length of a signature does not count, with or without other classes described.
    np.testing.assert_allclose(
        fit("seen", frame * 7).decision_function(X), seen.decision_function(X)
    )
    with pytest.raises(ValueError, match="signature_scale"):
        fit("some")
    with pytest.raises(ValueError, match="signature_scale"):
        fit(-1.0)


# scikit-learn's machinery


def test_metadata_routing(problem):
    with sklearn.config_context(enable_metadata_routing=True):
        method = (
            ESZSL()
            .set_fit_request(signatures=True)
            .set_predict_request(classes=True)
            .set_score_request(classes=True)
        )
        signatures = problem.signatures
        pipe = make_pipeline(StandardScaler(), method)
        pipe.fit(problem.X_train, problem.y_train, signatures=signatures)
        unseen = list(problem.unseen_classes)
        predicted = pipe.predict(problem.X_test_unseen, classes=unseen)
        assert set(predicted) <= set(unseen)
        score = pipe.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen)
        within = [np.mean(predicted[problem.y_test_unseen == c] == c) for c in unseen]
        assert score == pytest.approx(np.mean(within))

        scores = cross_val_score(
            method,
            problem.X_train,
            problem.y_train,
            cv=3,
            params={"signatures": signatures, "classes": list(problem.seen_classes)},
        )
        assert scores.mean() > 0.5

        search = GridSearchCV(method, {"alpha_features": [0.1, 10.0]}, cv=3)
        search.fit(
            problem.X_train,
            problem.y_train,
            signatures=signatures,
            classes=list(problem.seen_classes),
        )
        assert set(search.best_estimator_.classes_) == set(signatures.index)
        assert search.best_score_ > 0.5


# Attributes and labels that do not match at once


def test_attributes_with_any_names_are_aligned(problem):
    X = problem.X_test_unseen
    frame = problem.signatures
    late = problem.unseen_classes[:1]
    for names in (range(10, 18), list("abcdefgh"), pd.MultiIndex.from_product([[1, 2], range(4)])):
        named = frame.set_axis(names, axis=1)
        whole = ESZSL().fit(problem.X_train, problem.y_train, signatures=named)
        for new in (
            named.loc[late].iloc[:, ::-1],
            {label: named.loc[label].iloc[::-1] for label in late},
        ):
            model = ESZSL().fit(problem.X_train, problem.y_train, signatures=named.drop(index=late))
            model.add_classes(new)
            np.testing.assert_allclose(
                model.decision_function(X), whole.decision_function(X), rtol=0, atol=1e-12
            )


def test_numbers_as_labels_keep_their_type(problem):
    order = {label: i for i, label in enumerate(np.sort(problem.signatures.index))}
    y = np.asarray([order[label] for label in problem.y_train])
    numbered = problem.signatures.rename(index=order)
    model = ESZSL().fit(problem.X_train, y, signatures=numbered.rename(index=float))
    assert model.classes_.dtype == y.dtype
    new = problem.signatures.iloc[0].to_numpy() + 0.1
    assert model.add_classes({99.0: new}).predict(problem.X_test_unseen).dtype == y.dtype
    for odd in (0.5, 2**63):
        with pytest.raises(ValueError, match="cannot be converted to int64"):
            model.add_classes({odd: new + 1})


def test_classes_that_nothing_tells_apart_are_named(problem):
    frame = problem.signatures.copy()
    frame.loc["copy"] = 2 * frame.loc[problem.unseen_classes[0]]
    with pytest.warns(InputWarning, match="cannot be distinguished.*'copy'"):
        ESZSL().fit(problem.X_train, problem.y_train, signatures=frame)
    # One attribute, all positive: after its length is taken out every class is the same.
    with pytest.warns(InputWarning, match="15 pairs of classes cannot be distinguished"):
        model = ESZSL().fit(
            problem.X_train, problem.y_train, signatures=np.abs(frame.iloc[:16, :1]) + 0.1
        )
    assert model.signature_scale_ == (1.0,)


def test_before_fit_and_after_a_failed_one(problem):
    from sklearn.exceptions import NotFittedError

    model = ESZSL()
    with pytest.raises(NotFittedError):
        model.predict(problem.X_train)
    with pytest.raises(ValueError, match="no signature"):
        model.fit(problem.X_train, problem.y_train, signatures={"x": [1.0, 2.0]})
    with pytest.raises(NotFittedError):
        model.predict(problem.X_train)
    with pytest.raises(ValueError, match="list of labels; got 3"):
        model.fit(problem.X_train, problem.y_train).predict(problem.X_train, classes=3)


def test_a_pipeline_takes_tensors(problem):
    torch = pytest.importorskip("torch")
    pipe = ZeroShotPipeline([("scale", StandardScaler()), ("zsl", ESZSL())])
    pipe.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    rows = torch.asarray(problem.X_test_unseen)
    scores = pipe.decision_function(rows)
    assert isinstance(scores, torch.Tensor)
    np.testing.assert_allclose(
        scores.numpy(), pipe.decision_function(problem.X_test_unseen), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(pipe.predict(rows), pipe.predict(problem.X_test_unseen))


def test_tensors_with_gradients_sparse_and_complex_ones(problem):
    torch = pytest.importorskip("torch")
    X = torch.asarray(problem.X_train, requires_grad=True)
    model = ESZSL().fit(X, problem.y_train, signatures=problem.signatures)
    assert not model.coef_.requires_grad
    assert not model.decision_function(X).requires_grad
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        model.predict(torch.asarray(problem.X_train).to_sparse())
    with pytest.raises(ValueError, match="Complex data not supported"):
        model.predict(torch.asarray(problem.X_train + 1j))


# One training for many settings


def test_training_carries_what_a_method_may_ask_for(problem):
    class Curious(Prototypes):
        def _fit(self, training):
            self.training_ = training
            super()._fit(training)

    model = Curious().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    training = model.training_
    np.testing.assert_array_equal(training.labels, problem.y_train)
    np.testing.assert_array_equal(training.classes, model.seen_classes_)
    np.testing.assert_array_equal(training.counts, np.bincount(training.y))
    assert training.table.labels.tolist() == model.classes_.tolist()
    every = training.all_signatures()
    np.testing.assert_array_equal(
        every[training.table.positions(training.classes)], training.signatures
    )
    part = training.subset(np.array([1, 4, 5]))
    np.testing.assert_array_equal(part.classes, training.classes[[1, 4, 5]])
    np.testing.assert_array_equal(np.unique(part.y), [0, 1, 2])
    kept = np.isin(problem.y_train, part.classes)
    np.testing.assert_array_equal(part.labels, problem.y_train[kept])
    np.testing.assert_array_equal(part.X, training.X[kept])
    np.testing.assert_array_equal(part.signatures, training.signatures[[1, 4, 5]])


def test_a_second_fit_forgets_the_first(problem):
    frame = pd.DataFrame(problem.X_train).rename(columns=str)
    model = ESZSL().fit(frame, problem.y_train, signatures=problem.signatures)
    assert hasattr(model, "feature_names_in_")
    model.extra_ = "of the first fit"
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "extra_")


def test_alike_compares_arrays_and_estimators_by_what_they_hold():
    metric = np.eye(3)
    same = [SynC(metric=metric), SynC(metric=metric.copy())]
    assert len(group_by_params(same, "metric")) == 1
    assert len(group_by_params([*same, SynC(metric=2 * metric)], "metric")) == 2
    inner = [EXEM(estimator=ESZSL(3.0)), EXEM(estimator=ESZSL(3.0)), EXEM(estimator=ESZSL(4.0))]
    assert [len(group) for group in group_by_params(inner, "estimator")] == [2, 1]
    assert len(group_by_params_except(inner, "estimator")) == 1
    chance = [SynC(random_state=np.random.RandomState(0)) for _ in range(2)]
    assert len(group_by_params(chance, "random_state")) == 2
    assert group_by_params_except([], "alpha") == []


def test_a_fit_that_nothing_would_call_is_refused():
    with pytest.raises(TypeError, match="Lost defines _fit, which ESZSL"):

        class Lost(ESZSL):
            def _fit(self, training):
                pass


def test_a_method_that_yields_nothing_says_so(problem):
    class Silent(ESZSL):
        @classmethod
        def _fit_many(cls, training, variants):
            yield from ()

    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    with pytest.raises(TypeError, match=r"Silent._fit_many must yield each variant once"):
        Silent().fit(**samples)
    with pytest.raises(TypeError, match=r"Silent._fit_many must yield each variant once"):
        list(Silent().fit_grid(**samples, settings=[{"center": None}, {"center": "both"}]))


class Pausing(Prototypes):
    """Takes so long to make classes that threads meet there."""

    def synthesize(self, signatures, labels=None):
        time.sleep(0.02)
        return super().synthesize(signatures, labels)


def test_threads_that_add_classes_lose_none(problem):
    model = Pausing().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    n_described = len(model.classes_)
    new = problem.signatures.iloc[:1] + 0.01

    def add(number):
        model.add_classes(new.set_axis([f"new {number}"]) + 0.001 * number)
        return len(model.predict_top_k(problem.X_test_unseen, 2)[0])

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(add, range(24))) == {len(problem.X_test_unseen)}
    assert len(model.classes_) == n_described + 24


class Waiting(Prototypes):
    """Makes the class "slow" when it is let."""

    begun, let = threading.Event(), threading.Event()

    def synthesize(self, signatures, labels=None):
        if "slow" in labels:
            self.begun.set()
            self.let.wait()
        return super().synthesize(signatures, labels)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_classes_are_added(problem):
    model = Waiting().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    new = problem.signatures.iloc[:1] + 0.01
    thread = threading.Thread(target=model.add_classes, args=(new.set_axis(["slow"]),))
    thread.start()
    model.begun.wait()
    child = os.fork()
    if child == 0:
        try:
            # It ends by force where it would wait for a thread that it does not have.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            model.add_classes(new.set_axis(["other"]))
            os._exit(0 if {"other"} == set(model.classes_) - set(problem.signatures.index) else 1)
        finally:
            os._exit(2)
    model.let.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert "slow" in model.classes_


def test_sample_weights_that_cannot_be(problem):
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    n_samples = len(problem.y_train)
    for wrong, message in [
        (np.ones(n_samples - 1), "one number per sample"),
        (np.full(n_samples, -1.0), "finite and non-negative"),
        (np.full(n_samples, np.nan), "finite and non-negative"),
        (np.zeros(n_samples), "zero for all samples"),
        (np.ones((n_samples, 1)), "one number per sample"),
    ]:
        with pytest.raises(ValueError, match=message):
            EXEM().fit(**samples, sample_weight=wrong)
    with pytest.raises(TypeError, match="must be numeric"):
        EXEM().fit(**samples, sample_weight=["much"] * n_samples)
    with pytest.raises(TypeError, match="sample_weight"):
        ConSE().fit(**samples, sample_weight=np.ones(n_samples))
    with pytest.raises(TypeError, match="ConSE does not support sample_weight"):
        EXEM(estimator=ConSE()).fit(**samples, sample_weight=np.full(n_samples, 2.0))


def test_a_class_that_weighs_nothing_is_not_seen(problem):
    left_out = problem.seen_classes[0]
    weights = (problem.y_train != left_out).astype(float)
    model = EXEM().fit(
        problem.X_train, problem.y_train, signatures=problem.signatures, sample_weight=weights
    )
    assert left_out in model.unseen_classes_
    assert left_out not in model.seen_classes_


def test_chunks_of_weighted_samples(problem):
    X, y, S = problem.X_train, problem.y_train, problem.signatures
    weights = np.random.default_rng(0).uniform(0.2, 3, len(y))
    whole = EXEM(n_components=5).fit(X, y, signatures=S, sample_weight=weights)
    chunks = EXEM(n_components=5)
    for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 3):
        chunks.partial_fit(X[rows], y[rows], signatures=S, sample_weight=weights[rows])
    np.testing.assert_allclose(
        chunks.decision_function(problem.X_test_unseen),
        whole.decision_function(problem.X_test_unseen),
        atol=1e-5,
    )
    plain = EXEM(n_components=5).fit(X, y, signatures=S)
    assert not np.allclose(plain.exemplars_, whole.exemplars_, atol=1e-4)


@pytest.mark.parametrize("kind", ["method", "wrapper", "pipeline", "wrapped pipeline"])
def test_a_copy_describes_other_classes(problem, kind):
    pipeline = ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())])
    model = {
        "method": ESZSL(),
        "wrapper": CalibratedStacking(ESZSL(), bias=0.3),
        "pipeline": pipeline,
        "wrapped pipeline": CalibratedStacking(pipeline, bias=0.3),
    }[kind].fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    before, X = model.decision_function(problem.X_test_unseen), problem.X_test_unseen
    removed = model.unseen_classes_[0]
    kept = model.classes_ != removed
    expected = model.classes_[kept]
    fewer = copy.copy(model).remove_classes([removed])
    assert fewer.classes_.tolist() == expected.tolist()
    np.testing.assert_allclose(fewer.decision_function(X), before[:, kept], rtol=1e-9, atol=1e-12)
    # The model itself is as it was.
    assert np.array_equal(model.decision_function(X), before)


class Kind(StrEnum):
    CAT = "cat"
    DOG = "dog"


@pytest.mark.parametrize(
    "labels",
    [
        [Kind.CAT, Kind.DOG],
        [np.str_("cat"), np.str_("dog")],
        [np.array("cat"), np.array("dog")],
        [["cat"], ["dog"]],
    ],
)
def test_labels_in_lists_of_any_scalars(labels):
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = ESZSL().fit(X, labels * 10, signatures={"cat": [1.0, 0.5], "dog": [0.2, 1.0]})
    assert model.classes_.tolist() == ["cat", "dog"]


@pytest.fixture
def small_tables(monkeypatch):
    """Tables of classes that are not merged even if they are small."""
    monkeypatch.setattr("zslearn.signatures._described._SMALL", 0)


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("make", [EXEM, GDA, lambda: CalibratedStacking(ESZSL(), bias=0.1)])
def test_any_sequence_of_changes_equals_one_fit(make, library, problem):
    rng = np.random.default_rng(0)
    seen, every = problem.signatures.index, problem.signatures
    more = pd.DataFrame(
        rng.standard_normal((60, every.shape[1])),
        index=[f"{'abc'[i % 3]} {i}" for i in rng.permutation(60)],
        columns=every.columns,
    )
    fit = {"X": problem.X_train, "y": problem.y_train}
    model = make().fit(**fit, signatures=every)
    present = list(seen)
    for step in range(40):
        if step % 4 < 3 and len(more.index.difference(present)):
            new = rng.permutation(more.index.difference(present))[: rng.integers(1, 6)]
            model.add_classes(more.loc[new])
            present += list(new)
        else:
            unseen = rng.permutation(model.unseen_classes_)[: rng.integers(1, 4)]
            model.remove_classes(unseen)
            present = [label for label in present if label not in set(unseen)]
    inner = getattr(model, "estimator_", model)
    assert len(inner._described.chunks) > 2
    assert any(len(removed) for removed in inner._described.tables.removed)
    both = pd.concat([every, more]).loc[present]
    whole = make().fit(**fit, signatures=both)
    np.testing.assert_array_equal(model.classes_, whole.classes_)
    pd.testing.assert_frame_equal(
        inner.signature_table_.as_user(),
        getattr(whole, "estimator_", whole).signature_table_.as_user(),
    )
    X = problem.X_test_unseen
    if library == "torch":
        X = pytest.importorskip("torch").asarray(X)
    for classes in (
        None,
        rng.permutation(whole.classes_)[:3],
        rng.permutation(whole.classes_)[:-2],
    ):
        np.testing.assert_array_equal(
            model.predict_top_k(X, 3, classes=classes)[0],
            whole.predict_top_k(X, 3, classes=classes)[0],
        )
        np.testing.assert_allclose(
            np.asarray(model.decision_function(X, classes=classes)),
            np.asarray(whole.decision_function(X, classes=classes)),
            rtol=1e-10,
            atol=1e-12,
        )
    with pytest.raises(ValueError, match="already has the classes"):
        model.add_classes(both.iloc[[-1]])
    gone = more.index.difference(present)[:1]
    model.add_classes(more.loc[gone])
    assert gone[0] in model.classes_


@pytest.mark.usefixtures("small_tables")
def test_changes_of_chunks_warn_as_a_whole_table_does(problem):
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    rows = problem.signatures
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.add_classes({"Émile  B": rows.iloc[0] + rows.iloc[1]})
        model.add_classes({"plain": rows.iloc[2] + rows.iloc[3]})
    with pytest.warns(InputWarning, match="look like existing ones but differ"):
        model.add_classes({"Plain ": rows.iloc[4] + rows.iloc[3]})
    with pytest.raises(ValueError, match="different code points"):
        model.add_classes({"E\u0301mile  B": rows.iloc[4] + rows.iloc[6]})
    with pytest.warns(InputWarning, match="1 pair of classes cannot be distinguished.*'plain'"):
        model.add_classes({"other": 2 * (rows.iloc[2] + rows.iloc[3])})
    model.remove_classes(["plain", "Plain ", "other"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.add_classes({"PLAIN": rows.iloc[2] + rows.iloc[3]})


def test_many_classes_are_kept_in_single_precision(problem, monkeypatch, block_bytes):
    signatures = problem.signatures.astype(np.float32)
    last = problem.unseen_classes[-1:]
    fit = {"X": problem.X_train, "y": problem.y_train, "signatures": signatures.drop(last)}
    few = EXEM().fit(**fit).add_classes(signatures.loc[last])
    monkeypatch.setattr("zslearn._scoring._blocks.MAX_DOUBLES", 10)
    monkeypatch.setattr("zslearn.base._classifier.MAX_DOUBLES", 10)
    # Classes are synthesized a few at a time.
    block_bytes(1000)
    many = EXEM().fit(**fit).add_classes(signatures.loc[last])
    X = problem.X_test_unseen.astype(np.float64)
    assert few.decision_function(X).dtype == np.float64
    for model, dtype in ((few, np.float64), (many, np.float32)):
        assert model.class_scorer_.parameters.dtype == dtype
        assert model.signature_table_.arrays[0].dtype == np.float32
    scores = many.decision_function(X)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, few.decision_function(X), rtol=1e-4)
    np.testing.assert_array_equal(many.predict(X), few.predict(X))
