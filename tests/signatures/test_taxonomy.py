"""Taxonomies, and kinds of sentences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn import load, save
from zslearn._utils._messages import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import RankPredictor
from zslearn.datasets import make_zero_shot
from zslearn.metrics import per_class_accuracy, rank_accuracy
from zslearn.signatures import (
    SentenceKinds,
    classes_below,
    taxonomy_hierarchy,
    taxonomy_signatures,
)
from zslearn.synthesis import GaussianEXEM

BIRDS = pd.DataFrame(
    {
        "order": ["Charadriiformes", None, "Charadriiformes", "Passeriformes", None],
        "family": ["Laridae", None, "Alcidae", " ", "Icteridae"],
        "genus": ["Larus", "Larus", "Aethia", None, "Icterus"],
    },
    index=["herring gull", "ring-billed gull", "auklet", "some songbird", "oriole"],
)


def test_missing_ranks_are_filled_in_or_skipped():
    pairs = set(taxonomy_hierarchy(BIRDS).itertuples(index=False, name=None))
    assert ("ring-billed gull", "Larus") in pairs
    assert ("Laridae", "Charadriiformes") in pairs
    assert ("some songbird", "Passeriformes") in pairs
    assert not any(child == "Icteridae" for child, _ in pairs)


def test_order_of_rows_does_not_matter():
    rows = taxonomy_signatures(BIRDS.iloc[::-1]).views
    for rank, view in taxonomy_signatures(BIRDS).views.items():
        pd.testing.assert_frame_equal(rows[rank].loc[view.index, view.columns], view)


def test_rows_say_which_taxon():
    views = taxonomy_signatures(BIRDS).views
    assert list(views) == ["order", "family", "genus"]
    assert views["genus"].loc["ring-billed gull", "Larus"] == 1
    assert views["order"].loc["ring-billed gull", "Charadriiformes"] == 1
    assert not views["genus"].loc["some songbird"].any()


def test_columns_of_another_table():
    known = taxonomy_signatures(BIRDS)
    new = pd.DataFrame([["Passeriformes", "Corvidae", "Corvus"]], ["crow"], BIRDS.columns)
    views = taxonomy_signatures(new, like=known).views
    assert views["order"].loc["crow"].sum() == 1
    assert views["family"].columns.equals(known.views["family"].columns)
    assert not views["family"].loc["crow"].any()
    with pytest.raises(ValueError, match="no view 'tribe'"):
        taxonomy_signatures(pd.DataFrame({"tribe": ["a"]}, index=["b"]), like=known)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (BIRDS.assign(order=["a", "b", "c", "d", "e"]), "'Larus' is in more than one order"),
        (BIRDS.assign(family=["A", "B", "C", "D", "E"]), "'Larus' is in more than one family"),
        (pd.DataFrame({"a": ["x", "y"], "b": ["y", "x"]}, index=[1, 2]), "cycle"),
        (pd.DataFrame({"a": ["x", None]}, index=["p", "q"]), "nothing of 'q'"),
        (pd.DataFrame({"a": ["x", "x"]}, index=["p", "p"]), "more than one row of 'p'"),
        (pd.DataFrame([["x", "y"]], ["p"], ["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame(index=["p"]), "one column per rank"),
        ({"p": "x"}, "one column per rank"),
    ],
)
@pytest.mark.parametrize("make", [taxonomy_hierarchy, taxonomy_signatures])
def test_bad_taxonomies_are_named(make, table, message):
    with pytest.raises(ValueError, match=message):
        make(table)


def test_name_of_two_ranks_is_one_node():
    table = pd.DataFrame({"genus": ["Larus", "Larus"], "subgenus": ["Larus", "Ichthyaetus"]})
    pairs = taxonomy_hierarchy(table)
    assert pairs.to_numpy().tolist() == [[0, "Larus"], ["Ichthyaetus", "Larus"], [1, "Ichthyaetus"]]
    assert list(taxonomy_signatures(table).views) == ["genus", "subgenus"]


def test_classes_below_taxa():
    pairs = taxonomy_hierarchy(BIRDS)
    gulls = ["herring gull", "ring-billed gull"]
    assert classes_below(pairs, "Laridae") == gulls
    assert set(classes_below(pairs, "Charadriiformes")) == {*gulls, "auklet"}
    assert classes_below(pairs, ["Icterus", "auklet"]) == ["oriole", "auklet"]
    with pytest.raises(ValueError, match="no 'Larid'.*Laridae"):
        classes_below(pairs, "Larid")


CATS = pd.DataFrame(
    {"family": ["felidae", "felidae", "felidae", "canidae"]},
    index=["felidae", "lion", "lynx", "canidae"],
)


def test_a_class_that_is_also_a_taxon():
    pairs = taxonomy_hierarchy(CATS)
    assert pairs.dropna().to_numpy().tolist() == [["lion", "felidae"], ["lynx", "felidae"]]
    assert pairs[pairs["parent"].isna()]["child"].tolist() == ["canidae"]
    below = classes_below(pairs, "felidae", classes=CATS.index)
    assert sorted(below) == ["felidae", "lion", "lynx"]
    # No other class is of this taxon.
    assert classes_below(pairs, "canidae") == ["canidae"]


def test_ranks_of_a_class_that_is_also_a_taxon(tmp_path):
    data = make_zero_shot(
        n_seen=8, n_unseen=4, n_features=16, n_attributes=6, samples_per_class=8, random_state=0
    )
    labels = data.signatures.index
    # A family of all classes but one, which is a family of its own.
    family = pd.Series(labels[0], index=labels)
    family.iloc[-1] = labels[-1]
    hierarchy = taxonomy_hierarchy(pd.DataFrame({"family": family}))
    model = RankPredictor(ESZSL(), hierarchy, confidence=0.5, cv=3)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "m.zsl")
    for fitted in (model, load(tmp_path / "m.zsl")):
        nodes, depths, _ = fitted.predict_rank(data.X_test_unseen, confidence=0.999)
        # The root is above both families.
        assert set(nodes[depths == 0]) == {"(all classes)"}
        two = labels[[-2, -1]]
        nodes, depths, _ = fitted.predict_rank(data.X_test_unseen, classes=two, confidence=0.001)
        assert set(depths[nodes == two[0]]) == {2}
        assert set(depths[nodes == two[1]]) == {1}


def test_rank_accuracy_counts_the_right_taxon():
    true = ["herring gull", "herring gull", "auklet", "oriole"]
    predicted = ["ring-billed gull", "herring gull", "herring gull", "oriole"]
    ranks = BIRDS.copy()
    ranks.loc["ring-billed gull"] = ranks.loc["herring gull"]
    found = rank_accuracy(true, predicted, ranks)
    assert found["class"] == pytest.approx(per_class_accuracy(true, predicted))
    # The oriole has no order: it counts nowhere there.
    assert found.round(4).to_dict() == {
        "order": 1.0, "family": 0.6667, "genus": 0.6667, "class": 0.5,
    }  # fmt: skip
    with pytest.raises(ValueError, match="no row of 'emu'"):
        rank_accuracy(["emu"], ["oriole"], BIRDS)
    for name in ("order", "class"):
        with pytest.raises(ValueError, match=f"more than one column '{name}'"):
            rank_accuracy(true, predicted, ranks.rename(columns={"family": name}))


@pytest.mark.slow
def test_ranks_describe_classes_and_answers_come_at_a_rank():
    data = make_zero_shot(random_state=0)
    labels = data.signatures.index
    table = pd.DataFrame({"family": [f"f{i % 4}" for i in range(len(labels))]}, index=labels)
    table["genus"] = [f"g{i % 8}" for i in range(len(labels))]
    model = RankPredictor(GaussianEXEM(), taxonomy_hierarchy(table))
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    nodes, depths, _ = model.predict_rank(data.X_test_unseen)
    assert set(nodes[depths == 1]) <= set(table["family"])
    with pytest.warns(InputWarning, match="cannot be distinguished"):
        ranked = GaussianEXEM().fit(
            data.X_train, data.y_train, signatures=taxonomy_signatures(table)
        )
    assert len(ranked.predict(data.X_test_unseen)) == len(data.y_test_unseen)


def _sentences(rng, n_classes=6, n_sentences=9):
    """Three kinds of sentences, far apart, of which each class has its own share."""
    of_kind = rng.integers(0, 3, (n_classes, n_sentences))
    rows = np.eye(3)[of_kind] + 0.01 * rng.normal(size=(n_classes, n_sentences, 3))
    return of_kind, {f"c{c}": rows[c] for c in range(n_classes)}


def test_kinds_are_counted():
    of_kind, sentences = _sentences(np.random.default_rng(0))
    kinds = SentenceKinds(3).fit(sentences)
    order = kinds.centers_.argmax(axis=1)
    counts = np.expm1(kinds.transform(sentences) / kinds.rarity_).to_numpy()
    for c, own in enumerate(of_kind):
        np.testing.assert_allclose(counts[c], np.bincount(own, minlength=3)[order])


def test_sentences_as_a_table_and_new_classes():
    _, sentences = _sentences(np.random.default_rng(1))
    table = pd.concat({label: pd.DataFrame(rows) for label, rows in sentences.items()})
    kinds = SentenceKinds(3).fit(table)
    pd.testing.assert_frame_equal(kinds.transform(table), kinds.transform(sentences))
    new = kinds.transform({"new": sentences["c0"]})
    np.testing.assert_allclose(new.loc["new"], kinds.transform(table).loc["c0"])


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ({}, "no sentences"),
        ({"a": np.ones((2, 3)), "b": np.empty((0, 3))}, "no sentences of 'b'"),
        ([[1.0, 2.0]], "pool=None"),
        ({"a": [[np.nan, 1.0]]}, "NaN"),
    ],
)
def test_bad_sentences_are_named(sentences, message):
    with pytest.raises(ValueError, match=message):
        SentenceKinds().fit(sentences)


def test_other_encoder_is_named():
    kinds = SentenceKinds(1).fit({"a": np.ones((4, 3))})
    with pytest.raises(ValueError, match="the same encoder"):
        kinds.transform({"a": np.ones((4, 2))})


def test_spaces_around_a_taxon_make_no_other_taxon():
    ranks = pd.DataFrame({"family": ["Laridae ", "Laridae", " Laridae"]}, index=["a", "b", "c"])
    assert sorted(classes_below(taxonomy_hierarchy(ranks), "Laridae")) == ["a", "b", "c"]
