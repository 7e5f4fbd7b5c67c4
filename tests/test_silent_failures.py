"""Mistakes that are easily overlooked are reported: what, where, and what was perhaps meant."""

from __future__ import annotations

import types
import unicodedata
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zslearn.base import InputWarning
from zslearn.baselines import ESZSL, GDA
from zslearn.calibration import (
    CalibratedStacking,
    NoneOfThese,
    PredictionSets,
    RankPredictor,
)
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.model_selection import (
    ClassKFold,
    ZeroShotPipeline,
    ZeroShotSearchCV,
    unseen_accuracy_scorer,
)
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import EXEM, GaussianEXEM

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


@pytest.fixture
def words():
    """Samples of six named numbers, and signatures of eight."""
    rng = np.random.RandomState(0)
    signatures = pd.DataFrame(
        rng.rand(8, 5), index=NUMBERS, columns=["round", "tall", "open", "dark", "odd"]
    )
    y = np.repeat(NUMBERS[:6], 10)
    X = signatures.loc[y].to_numpy() @ rng.rand(5, 7) + 0.01 * rng.randn(60, 7)
    return X, y, signatures


@pytest.fixture
def model(words):
    X, y, signatures = words
    return ESZSL().fit(X, y, signatures=signatures)


WRAPPERS = [
    ESZSL(),
    EXEM(),
    CalibratedStacking(ESZSL(), bias=0.1),
    ZeroShotSearchCV(ESZSL(), {"center": ["both"]}),
]


# Columns in another order

GAUSSIAN = GaussianEXEM()


@pytest.mark.parametrize(
    "estimator",
    [
        CalibratedStacking(GAUSSIAN, bias=0.1),
        CalibratedStacking(make_pipeline(StandardScaler(), GAUSSIAN), bias=0.1),
        NoneOfThese(GAUSSIAN, cv=2),
        PredictionSets(GAUSSIAN, coverage=0.5, cv=2),
        RankPredictor(GAUSSIAN, cv=2),
        ZeroShotSearchCV(GAUSSIAN, {"alpha": [0.1]}),
        GDA(GAUSSIAN),
        ZeroShotPipeline([("scale", StandardScaler()), ("method", GAUSSIAN)]),
        ZeroShotPipeline([("method", GAUSSIAN)]),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_wrappers_check_the_names_of_columns_wherever_they_take_samples(words, estimator):
    X, y, signatures = words
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    reordered = frame[list("gfedcba")]
    model = clone(estimator).fit(frame, y, signatures=signatures)
    verbs = [model.predict]
    if hasattr(model, "add_examples"):
        verbs.append(lambda rows: model.add_examples(rows, y))
    if not isinstance(model, (NoneOfThese, PredictionSets, RankPredictor)):
        verbs.append(lambda rows: model.adapt(rows, accept=True))
    assert len(verbs) > 1
    for verb in verbs:
        verb(frame)
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            verb(reordered)


# Labels and names of new classes

BEYOND = 10**30


@pytest.fixture
def learner(words):
    X, y, signatures = words
    return GaussianEXEM().fit(X, y, signatures=signatures)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["six", np.nan], "missing label, nan at position 1"),
        (["six", None], "missing label, None at position 1"),
        (["six", pd.NaT], "missing label, NaT at position 1"),
        (pd.Series(["six", None]), "missing label"),
        (["six", 1], "found int, str"),
        ([BEYOND, 1], "one 64-bit type"),
        (None, "got None"),
        ("ab", "got a str"),
        ({"six", "two"}, "got a set"),
        ((label for label in ["six", "two"]), "got a generator"),
        (np.array([["six", "two"]]), r"got shape \(1, 2\)"),
        (["six", " "], "named ' ', which is blank"),
        (["six", "\ud800"], r"'\\ud800', which contains invisible characters"),
        (["six", "a\x07"], "invisible characters"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: NoneOfThese(model, cv=2)])
def test_labels_of_examples_that_name_no_class(words, learner, labels, message, wrap):
    X, y, signatures = words
    model = wrap(learner)
    if model is not learner:
        model.fit(X, y, signatures=signatures)
    if isinstance(labels, types.GeneratorType):
        labels = (label for label in ["six", "two"])  # those of the first test are used up
    before = model.classes_.tolist()
    with pytest.raises(ValueError, match=message):
        model.add_examples(X[:2], labels)
    assert model.classes_.tolist() == before


@pytest.mark.parametrize("labels", [["a", np.nan], [BEYOND, 1], ["a", 1]])
@pytest.mark.parametrize("as_array", [False, True])
def test_labels_to_fit_that_name_no_class(words, labels, as_array):
    X = words[0]
    y = labels * (len(X) // 2)
    with pytest.raises(ValueError, match="missing|NaN|64-bit|found int, str"):
        ESZSL().fit(X, np.asarray(y, dtype=object) if as_array else y)


@pytest.mark.parametrize("name", ["", "\ud800", "a\x07", "\u3164"])
def test_names_that_nobody_can_read_are_refused_wherever_a_class_is_described(words, learner, name):
    X, _, signatures = words
    row = {name: signatures.iloc[0].to_numpy() + 0.1}
    with pytest.raises(ValueError, match="signatures has a class named"):
        learner.add_classes(row)
    with pytest.raises(ValueError, match="signatures has a class named"):
        learner.add_examples(X[:1], ["six"], signatures=row)
    assert name not in learner.classes_


def test_examples_are_given_in_memory(words, learner):
    X, y, signatures = words
    blocks = FeatureBlocks(X)
    pipeline = ZeroShotPipeline([("scale", StandardScaler()), ("method", GaussianEXEM())])
    for model in (
        learner,
        CalibratedStacking(GaussianEXEM(), bias=0.1).fit(X, y, signatures=signatures),
        pipeline.fit(X, y, signatures=signatures),
    ):
        with pytest.raises(TypeError, match="pass an array, not a FeatureBlocks"):
            model.add_examples(blocks, y)


@pytest.mark.parametrize("estimator", [*WRAPPERS, GDA(), NoneOfThese(ESZSL())])
def test_signatures_by_position_are_an_error_of_the_users_class(words, estimator):
    name = type(estimator).__name__
    with pytest.raises(TypeError, match=rf"^{name}.fit: too many .* fit\(X, y, signatures=…"):
        clone(estimator).fit(*words)


# Fitting without signatures


def test_the_first_fit_without_signatures_says_what_it_cannot_do(words, warn_again):
    X, y, signatures = words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ESZSL().fit(X, y, signatures=signatures)
    with pytest.warns(InputWarning, match="only classes with samples") as caught:
        CalibratedStacking(ESZSL()).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ESZSL().fit(X, y)
        EXEM().fit(X, y)


@pytest.mark.parametrize("estimator", WRAPPERS, ids=lambda e: type(e).__name__)
def test_labels_that_cannot_be_predicted_have_no_score(words, estimator):
    X, y, signatures = words
    fitted = clone(estimator).fit(X, y)
    strange = np.where(y == "one", "seven", y)
    with pytest.raises(ValueError, match="not in classes_: 'seven'.*signatures="):
        fitted.score(X, strange)
    fitted = clone(estimator).fit(X, y, signatures=signatures)
    assert 0 <= fitted.score(X, strange) <= 1
    with pytest.raises(ValueError, match="not in classes_: 'nine'.*describe their classes"):
        fitted.score(X, np.where(y == "one", "nine", y))
    with pytest.raises(ValueError, match="not in classes: 'one'.*add their classes"):
        fitted.score(X, y, classes=NUMBERS[1:])
    with pytest.raises(ValueError, match="classes_ has 'one', y has 'One'"):
        fitted.score(X, np.where(y == "one", "One", y))
    with pytest.raises(TypeError, match="classes by keyword"):
        fitted.score(X, y, NUMBERS)


def test_scoring_unseen_images_against_seen_classes_is_said_once(warn_again):
    data = make_zero_shot(random_state=0)
    options = {"cv": ClassKFold(3), "params": {"signatures": data.signatures}}
    with pytest.warns(InputWarning, match="unseen_accuracy_scorer") as caught:
        cross_val_score(ESZSL(), data.X_train, data.y_train, **options)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_val_score(ESZSL(), data.X_train, data.y_train, **options)
        warn_again()
        cross_val_score(
            ESZSL(), data.X_train, data.y_train, scoring=unseen_accuracy_scorer, **options
        )
        model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
        model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
        model.score(data.X_test_seen, data.y_test_seen)


def test_without_signatures_no_class_can_be_added(words):
    X, y, signatures = words
    fitted = ESZSL().fit(X, y)
    with pytest.raises(ValueError, match="fitted without signatures.*Fit again"):
        fitted.add_classes(signatures.loc[["seven"]])


# Labels that are nearly right

DECOMPOSED = unicodedata.normalize("NFD", "größe")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("Six", "signatures has 'six', y has 'Six'"),
        (" six", "signatures has 'six', y has ' six'"),
        ("sixx", "signatures has 'six', y has 'sixx'"),
    ],
)
def test_a_label_of_y_that_is_nearly_one_of_signatures(words, wrong, message):
    X, y, signatures = words
    with pytest.raises(ValueError, match=f"1 of the 6 classes.*{message}"):
        ESZSL().fit(X, np.where(y == "six", wrong, y), signatures=signatures)


def test_unicode_forms_are_shown_apart(words):
    X, y, signatures = words
    y = np.where(y == "six", "größe", y)
    signatures = signatures.rename(index={"six": DECOMPOSED})
    with pytest.raises(ValueError, match="no signature") as caught:
        ESZSL().fit(X, y, signatures=signatures)
    assert r"signatures has 'gro\u0308\xdfe', y has 'gr\xf6\xdfe'" in str(caught.value)


def test_a_candidate_that_is_nearly_a_class(model, words):
    X = words[0]
    with pytest.raises(ValueError, match="'Eight'. classes_ has 'eight', classes has 'Eight'"):
        model.predict(X, classes=["one", "Eight"])
    with pytest.raises(ValueError, match="labels are numbers, but those of classes_ are strings"):
        model.predict(X, classes=[1, 2])


def test_new_classes_that_look_like_known_ones(model, words):
    rows = words[2].iloc[:1]
    for label in ("eight ", "EIGHT"):
        with pytest.warns(InputWarning, match=f"'{label}' and 'eight'"):
            clone_of(model, words).add_classes(rows.rename(index={"one": label}))
    # Classes that differ only in case are not a mistake.
    letters = clone_of(model, words).add_classes(
        pd.DataFrame(np.eye(3, 5), ["A", "a", "b"], rows.columns)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        letters.add_classes(pd.DataFrame([[1, 2, 3, 4, 5]], ["B"], rows.columns))
    with pytest.raises(ValueError, match="already has the classes 'eight'"):
        model.add_classes(rows.rename(index={"one": "eight"}))


def clone_of(model, words):
    X, y, signatures = words
    return clone(model).fit(X, y, signatures=signatures)


def test_attributes_that_are_nearly_right(model, words):
    row = words[2].iloc[:1].rename(index={"one": "nine"})
    with pytest.raises(
        ValueError,
        match="has 'Tall', 'tall'. signatures given to fit has 'tall', the new "
        "signatures has 'Tall'",
    ):
        model.add_classes(row.rename(columns={"tall": "Tall"}))
    with pytest.raises(ValueError, match="have 4 attributes; .* fit have 5..*has 'tall'"):
        model.add_classes(row.drop(columns="tall"))


def test_views_whose_labels_are_nearly_the_same(words):
    X, y, signatures = words
    views = MultiSignatures({"a": signatures, "b": signatures.rename(index={"two": "Two"})})
    message = "only one of them has 'Two', 'two'.* view '[ab]' has '[tT]wo', the view '[ab]' has"
    with pytest.raises(ValueError, match=message):
        ESZSL().fit(X, y, signatures=views)


# Tables the wrong way


@pytest.mark.parametrize("estimator", WRAPPERS, ids=lambda e: type(e).__name__)
def test_a_transposed_table_is_recognised(words, estimator):
    X, y, signatures = words
    message = "signatures looks transposed: its columns are the classes; pass signatures.T"
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(X, y, signatures=signatures.T)
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(X, y, signatures={"round": signatures["round"]})


def test_labels_that_are_not_in_the_index(words):
    X, y, signatures = words
    with pytest.raises(ValueError, match="are row numbers; put the class labels into the"):
        ESZSL().fit(X, y, signatures=signatures.reset_index(drop=True))
    frame = pl.DataFrame({"Class": NUMBERS, "round": signatures["round"].tolist()})
    with pytest.raises(ValueError, match="Rename the column 'Class'"):
        ESZSL().fit(X, y, signatures=frame)


# The helper


def test_a_warning_is_located_where_the_library_was_called():
    """Also where the library calls itself through the standard library."""
    source = """
from contextlib import contextmanager
from zslearn._utils._messages import warn_user
@contextmanager
def inner():
    yield
    warn_user("odd")
def entry():
    with inner():
        pass
"""
    module = types.ModuleType("zslearn._made_up")
    exec(compile(source, "made_up.py", "exec"), vars(module))
    with pytest.warns(InputWarning, match="odd") as caught:
        module.entry()
    assert caught[0].filename == __file__
