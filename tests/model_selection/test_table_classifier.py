"""Scaling and norm are chosen on held-out classes; classes and examples come as tables."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import (
    TablePreparation,
    ZeroShotDataset,
    make_zero_shot,
    read_signature_table,
    save_signature_table,
)
from zslearn.model_selection import TableChoices, TableClassifier, ZeroShotPipeline
from zslearn.signatures import (
    ClassGraph,
    attribute_report,
    attribute_signatures,
    scale_signatures,
    taxonomy_signatures,
)


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=12, n_unseen=4, n_features=10, n_attributes=6, random_state=0)


@pytest.fixture(scope="module")
def tables(data):
    """Columns in very different units, one of them in words, and classes in words, too."""
    units = 10.0 ** np.linspace(-3, 4, 10)
    made = []
    for X in (data.X_train, data.X_test_unseen):
        table = pd.DataFrame(X * units + 5 * units).add_prefix("sensor ")
        table["level"] = np.where(X[:, 0] > 0, "high", "low")
        made.append(table)
    classes = data.signatures.copy()
    classes.columns = [f"attribute {i}" for i in range(6)]
    classes["kind"] = np.where(classes.pop("attribute 0") > 0, "rock", "ore")
    return *made, classes


@pytest.fixture(scope="module")
def model(data, tables):
    return TableClassifier().fit(tables[0], data.y_train, signatures=tables[2])


def test_units_do_not_matter(data, tables, model):
    classes = data.unseen_classes
    clean = TableClassifier().fit(
        pd.DataFrame(data.X_train), data.y_train, signatures=data.signatures
    )
    expected = clean.score(data.X_test_unseen, data.y_test_unseen, classes=classes)
    found = model.score(tables[1], data.y_test_unseen, classes=classes)
    assert found > expected - 0.03
    unscaled = TableClassifier(scaling=None, row_norm="l2")
    unscaled.fit(tables[0], data.y_train, signatures=tables[2])
    assert found > unscaled.score(tables[1], data.y_test_unseen, classes=classes) + 0.1
    chosen, before = model.held_out_scores_
    assert chosen > before + 0.1
    text = model.summary()
    assert text.startswith("10 numbers, 1 category (2 columns); ")
    assert f"AUSUC on held-out classes {chosen:.3f} ({before:.3f} without" in text


def test_given_scaling_and_norm(data, tables):
    given = TableClassifier(ESZSL(), scaling="robust", row_norm=None, signature_scaling="range")
    given.fit(tables[0], data.y_train, signatures=tables[2])
    assert given.columns_.scaling == "robust"
    assert given.estimator_.feature_norm is None
    assert given.signature_table_.scalings == ("range",)
    scaled = scale_signatures(tables[2].drop(columns="kind"), "standard")
    for scaling, expected in (("range", ("range",)), (None, ()), ("auto", ("standard",))):
        other = TableClassifier(ESZSL(), scaling="robust", signature_scaling=scaling)
        other.fit(tables[0], data.y_train, signatures=scaled)
        assert other.signature_table_.scalings == expected
    few = np.isin(data.y_train, data.seen_classes[:3])
    options = {"signatures": tables[2]}
    untried = TableClassifier(ESZSL()).fit(tables[0][few], data.y_train[few], **options)
    assert np.isnan(untried.held_out_scores_).all()
    assert (untried.columns_.scaling, untried.estimator_.feature_norm) == ("standard", None)


def test_nothing_is_fitted_twice(data, tables):
    fits = []

    class Counting(ESZSL):
        def fit(self, X, y, *, signatures=None, sample_weight=None):
            fits.append((len(y), X.shape[1], float(X.sum()), self.feature_norm, signatures.attrs))
            return super().fit(X, y, signatures=signatures, sample_weight=sample_weight)

    given = TableClassifier(Counting(), scaling=None, row_norm="l2", signature_scaling=None)
    given.fit(tables[0], data.y_train, signatures=tables[2])
    assert len(fits) == 1
    assert np.isnan(given.held_out_scores_).all()
    assert "AUSUC" not in given.summary()
    TableClassifier(Counting(), scaling=None).fit(tables[0], data.y_train, signatures=tables[2])
    assert len(fits[1:]) == len({repr(fit) for fit in fits[1:]}) == 1 + 5 * 3


def test_classes_and_examples_from_tables(data, tables, model):
    unseen = data.unseen_classes
    X, new, classes = tables
    changed = TableClassifier().fit(X, data.y_train, signatures=classes.drop(index=unseen[:2]))
    later = classes.loc[unseen[:2]].assign(note="?")
    changed.add_classes(later.iloc[:, ::-1])
    options = {"classes": unseen}
    expected = model.decision_function(new, **options)
    np.testing.assert_allclose(changed.decision_function(new, **options), expected, rtol=1e-6)
    by_name = {"new one": classes.iloc[0].to_dict(), "other": classes.iloc[1].to_dict()}
    assert {"new one", "other"} <= set(changed.add_classes(by_name).classes_)
    with pytest.raises(ValueError, match="The class table: There are no columns 'kind'; the table"):
        changed.add_classes(classes.iloc[:1].drop(columns="kind").assign(z=1).set_axis(["x"]))
    few = np.arange(0, len(new), 10)
    changed.add_examples(new.iloc[few], data.y_test_unseen[few])
    found = changed.score(new, data.y_test_unseen, classes=unseen)
    assert found >= model.score(new, data.y_test_unseen, classes=unseen) - 0.05


def test_a_column_missing_in_all_new_rows_costs_little(data, tables, model):
    X, new, _ = tables
    unseen = data.unseen_classes
    without = TableClassifier().fit(X.drop(columns="sensor 3"), data.y_train, signatures=tables[2])
    found = model.score(new.assign(**{"sensor 3": np.nan}), data.y_test_unseen, classes=unseen)
    assert found > without.score(new, data.y_test_unseen, classes=unseen) - 0.1


def test_models_that_reject(data, tables):
    inner = NoneOfThese(CalibratedStacking(ESZSL(), bias=0.1, temperature=1.0))
    model = TableClassifier(inner, row_norm=None)
    model.fit(tables[0], data.y_train, signatures=tables[2])
    rejected = model.is_none(tables[1])
    assert (model.predict(tables[1])[rejected] == "none of these").all()
    assert not hasattr(TableClassifier(ESZSL()).fit(tables[0], data.y_train), "predict_rank")


def test_polars(data, tables):
    polars = pytest.importorskip("polars")
    X, classes = polars.from_pandas(tables[0]), tables[2].rename_axis("class").reset_index()
    model = TableClassifier(ESZSL()).fit(X, data.y_train, signatures=polars.from_pandas(classes))
    other = TableClassifier(ESZSL()).fit(tables[0], data.y_train, signatures=tables[2])
    assert (model.predict(polars.from_pandas(tables[1])) == other.predict(tables[1])).all()


def test_polars_tables_of_classes(data, tmp_path):
    polars = pytest.importorskip("polars")
    expected = data.signatures.rename(columns=str)
    table = polars.from_pandas(expected.rename_axis("class").reset_index())
    for found in (attribute_signatures(table), scale_signatures(table)):
        np.testing.assert_array_equal(found, expected)
        assert found.index.tolist() == expected.index.tolist()
    assert str(attribute_report(table)) == str(attribute_report(expected))
    written = save_signature_table(table, tmp_path / "classes.csv")
    np.testing.assert_allclose(read_signature_table(written), expected)
    splits, parts = data.splits, {"split": data.split, "name": "polars", "features": "made"}
    made = ZeroShotDataset(polars.DataFrame(data.X), data.y, table, splits, **parts)
    np.testing.assert_array_equal(made.X, data.X)
    assert made.signatures.index.tolist() == expected.index.tolist()
    pairs = polars.DataFrame({"child": ["cat", "dog"], "parent": ["pet", "pet"]})
    assert set(ClassGraph.from_tree(pairs).nodes) == {"cat", "dog", "pet"}
    ranks = polars.DataFrame({"class": ["cat", "dog"], "order": ["pet", "pet"], "size": ["s", "l"]})
    assert len(taxonomy_signatures(ranks).index) == 2


def test_arrays_of_features_with_words_about_classes(data, tables):
    """The class table alone becomes numbers."""
    X = data.X_train
    choice = TableChoices(X, data.y_train, tables[2]).choose(ESZSL())
    assert choice.columns is None
    assert choice.rows is X
    assert choice.signatures.columns.tolist()[-2:] == ["kind: ore", "kind: rock"]
    plain = TableChoices(data.X_train, data.y_train, data.signatures).choose(ESZSL())
    assert plain.attributes is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableClassifier(ESZSL()).fit(X, data.y_train, signatures=data.signatures)
        model.predict(data.X_test_unseen)


@pytest.mark.filterwarnings("ignore:X has feature names, but TableClassifier was fitted without")
def test_arrays_and_tables_of_the_same_numbers(data):
    """As for every estimator fitted without names, columns of a table are read in their order."""
    X = data.X_test_unseen
    model = TableClassifier(ESZSL()).fit(data.X_train, data.y_train, signatures=data.signatures)
    assert model.used_columns_ is None
    table = pd.DataFrame(X).add_prefix("sensor ")
    np.testing.assert_allclose(model.decision_function(table), model.decision_function(X))
    assert (model.predict(table) == model.predict(X)).all()
    with pytest.raises(ValueError, match="X has 9 features, but TableClassifier is expecting 10"):
        model.predict(table.iloc[:, 1:])


def test_columns_that_predictions_need(data, tables, model):
    fitted = TableClassifier(ESZSL()).fit(
        tables[0].assign(unit="mm"), data.y_train, signatures=tables[2]
    )
    assert [column.name for column in fitted.used_columns_] == list(tables[0])
    assert fitted.used_columns_[-1].levels == ("high", "low")
    assert not hasattr(TableClassifier(), "used_columns_")


def test_text_among_numbers_is_reported_once(data):
    table = pd.DataFrame(data.X_train).add_prefix("sensor ").astype({"sensor 0": str})
    table.loc[3, "sensor 0"] = "odd"
    with pytest.warns(UserWarning, match="'sensor 0' holds numbers except for 'odd'") as warned:
        model = TableClassifier(ESZSL()).fit(table, data.y_train, signatures=data.signatures)
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="'sensor 0' holds numbers except for 'odd'") as warned:
        model.predict(table)
    assert len(warned) == 1


def test_missing_values_of_arrays_are_medians(data):
    X, few = data.X_train.copy(), data.X_test_unseen.copy()
    X[::7, 3], few[:, 5] = np.nan, np.nan
    with pytest.warns(UserWarning, match="missing values, which the median of their column"):
        model = TableClassifier(ESZSL()).fit(X, data.y_train, signatures=data.signatures)
    filled = few.copy()
    filled[:, 5] = np.median(data.X_train[:, 5])
    np.testing.assert_allclose(model.decision_function(few), model.decision_function(filled))


def test_a_category_that_says_nothing_about_classes_is_dropped(data):
    rng = np.random.default_rng(3)
    classes = data.signatures.assign(**{f"junk {i}": rng.choice([*"abcd"], 16) for i in range(4)})
    table = pd.DataFrame(data.X_train).add_prefix("f")
    model = TableClassifier().fit(table, data.y_train, signatures=classes)
    reasons = {c.name: c.reason for c in model.attributes_.columns_ if c.kind == "dropped"}
    assert len(reasons) >= 2
    assert set(reasons.values()) == {"unrelated to the samples"}
    clean = TableClassifier().fit(table, data.y_train, signatures=data.signatures)
    new = pd.DataFrame(data.X_test_unseen).add_prefix("f")
    scores = [m.score(new, data.y_test_unseen, classes=data.unseen_classes) for m in (clean, model)]
    assert scores[1] > scores[0] - 0.1


def test_pairs_that_a_description_cannot_tell_apart():
    classes = pd.DataFrame(
        {"hard": [1, 0, 1, 0, 1], "light": [0, 1, 1, 1, 0], "blue": [0, 0, 0, 1, 0]},
        index=["quartz", "talc", "opal", "barite", "twin"],
    )
    report = attribute_report(classes, seen_classes=["quartz", "talc", "opal"])
    pairs = {frozenset(pair[:2]): pair.attributes for pair in report.indistinct}
    assert pairs == {frozenset({"talc", "barite"}): ["blue"], frozenset({"quartz", "twin"}): []}
    text = "'barite' and 'talc' (differ only in 'blue')"
    assert text in str(report) or "'talc' and 'barite' (differ only in 'blue')" in str(report)
    assert "(equal)" in str(report)
    assert [set(pair[:2]) for pair in attribute_report(classes).indistinct] == [{"quartz", "twin"}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not attribute_report(classes.drop(index="twin")).indistinct


def test_classes_that_are_described_in_words_alone_or_lack_numbers(data, tables):
    words = pd.DataFrame({"kind": tables[2]["kind"], "home": [*"abcdabcdabcdabcd"]})
    model = TableClassifier(ESZSL()).fit(tables[0], data.y_train, signatures=words)
    assert [c.name for c in model.attributes_.columns_ if c.outputs] == ["kind"]
    gaps = tables[2].copy()
    gaps.loc[data.unseen_classes[1], "attribute 2"] = np.nan
    with pytest.warns(
        UserWarning, match=f"lacks numbers of '{data.unseen_classes[1]}': the median"
    ):
        TableClassifier(ESZSL()).fit(tables[0], data.y_train, signatures=gaps)


def test_the_preparation_in_pipelines(data, tables):
    steps = [("columns", TablePreparation()), ("method", ESZSL())]
    other = Pipeline(steps).fit(tables[0], data.y_train, method__signatures=data.signatures)
    model = ZeroShotPipeline(steps)
    options = {"classes": data.unseen_classes}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(tables[0], data.y_train, signatures=data.signatures)
        predicted = model.predict(tables[1], **options)
        assert (predicted == model.predict_top_k(tables[1], 1, **options)[0][:, 0]).all()
    assert (predicted == other.predict(tables[1], **options)).all()
    assert (predicted == data.y_test_unseen).mean() > 0.5
