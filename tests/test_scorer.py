"""The scorer of described classes, and rows embedded once for many scorers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer, identical_rows
from zslearn.base import InputWarning, ZeroShotClassifier
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.signatures import MultiSignatures, taxonomy_signatures
from zslearn.synthesis import EXEM

LABELS = np.array(["ant", "bee", "cat", "dog"])


def _identity(rows):
    return rows


def _scorer(**changes):
    rng = np.random.default_rng(0)
    return ClassScorer(LABELS, rng.standard_normal((4, 3)), Embedding(_identity), **changes)


def test_columns_follow_the_candidates():
    X = np.random.default_rng(1).standard_normal((5, 3))
    scorer = _scorer()
    whole = scorer.scores(X)
    np.testing.assert_allclose(whole, X @ scorer.parameters.T)
    np.testing.assert_allclose(scorer.scores(X, ["dog", "ant"]), whole[:, [3, 0]])


def test_class_biases_are_summed():
    X = np.random.default_rng(1).standard_normal((5, 3))
    scorer = _scorer(bias=np.array([0.5, 0.0, 0.0, 0.0]))
    lowered = scorer.with_class_bias(["ant", "dog"], 0.2).with_class_bias(["dog"], 0.1)
    np.testing.assert_allclose(lowered.bias, [0.3, 0.0, 0.0, -0.3])
    np.testing.assert_allclose(lowered.scores(X), scorer.scores(X) + np.array([-0.2, 0, 0, -0.3]))
    np.testing.assert_allclose(scorer.bias, [0.5, 0.0, 0.0, 0.0])


def test_a_prior_multiplies_probabilities():
    X = np.random.default_rng(1).standard_normal((5, 3))
    scorer = _scorer(bias=np.array([0.5, 0.0, 0.0, 0.0]), temperature=0.3)
    odds = np.array([1.0, 20.0, 1.0, 0.01])
    weighed = scorer.with_prior({"dog": 0.01, "bee": 20})
    expected = scorer.probabilities(X) * odds
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weighed.probabilities(X), expected)
    np.testing.assert_allclose(scorer.bias, [0.5, 0, 0, 0])
    assert scorer.with_prior(None) is scorer
    # A common factor changes nothing.
    other = scorer.with_prior(dict(zip(LABELS.tolist(), 7 * odds, strict=True)))
    np.testing.assert_allclose(other.probabilities(X), expected)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({}, "must map classes to their odds"),
        ([1, 2], "must map classes to their odds"),
        ({"cow": 1.0}, "prior names unknown classes: 'cow'"),
        (pd.Series([2.0, 3.0], index=["dog", "dog"]), "prior repeats 'dog'"),
        ({"ant": 0.0}, "odds of 'ant' are 0.0; .* omit it from classes="),
        ({"ant": 2, "bee": float("nan")}, "odds of 'bee' are nan"),
        ({"ant": "many"}, "odds of 'ant' are 'many'"),
        ({"ant": 2, "bee": "many"}, "odds of 'bee' are 'many'"),
        ({"ant": 10**400}, "odds of 'ant' are too large for a float; odds must be finite"),
    ],
)
def test_wrong_priors(prior, message):
    with pytest.raises(ValueError, match=message):
        _scorer(temperature=1.0).with_prior(prior)


def test_a_prior_needs_probabilities(problem):
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X, classes = problem.X_test_unseen, problem.unseen_classes
    with pytest.raises(ValueError, match="prior requires probabilities"):
        model.predict(X, prior={classes[0]: 2.0})
    model = CalibratedStacking(ESZSL(), temperature="cv")
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    prior = {classes[0]: 1e9}
    assert set(model.predict(X, classes=classes, prior=prior)) == {classes[0]}
    assert (model.predict_proba(X, classes=classes, prior=prior)[:, 0] > 0.9).all()
    labels, _ = model.predict_top_k(X, 2, classes=classes, prior=prior)
    assert (labels[:, 0] == classes[0]).all()


def test_lowered_classes_lose_ties():
    scorer = ClassScorer(LABELS, np.ones((4, 1)), Embedding(_identity))
    X = np.ones((1, 1))
    assert scorer.top_k(X, 4)[0].tolist() == [["ant", "bee", "cat", "dog"]]
    # Lowered by 0: only ties change.
    lowered = scorer.with_class_bias(["ant", "cat"], 0.0)
    assert lowered.top_k(X, 4)[0].tolist() == [["bee", "dog", "ant", "cat"]]
    assert lowered.top_k(X, 1, ["cat", "ant"])[0].tolist() == [["ant"]]
    twice = lowered.with_class_bias(["bee"], 0.0)
    assert twice.top_k(X, 4)[0].tolist() == [["dog", "ant", "cat", "bee"]]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_best_classes_agree_with_the_score_matrix(data):
    numbers = st.integers(-2, 2)
    parameters = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=4, max_size=4)),
        dtype=float,
    )
    X = np.array([data.draw(st.lists(numbers, min_size=2, max_size=2))], dtype=float)
    lowered = data.draw(st.sets(st.sampled_from(LABELS.tolist())))
    scorer = ClassScorer(LABELS, parameters, Embedding(_identity)).with_class_bias(
        list(lowered), 1.0
    )
    scores = scorer.scores(X)[0]
    order = sorted(range(4), key=lambda c: (-scores[c], LABELS[c] in lowered, c))
    assert scorer.top_k(X, 4)[0][0].tolist() == LABELS[order].tolist()


class Weighted(ZeroShotClassifier):
    """An embedding with an array and a number."""

    embedding_attributes = ("weights_", "power")

    def __init__(self, power=1, *, feature_norm="l2", signature_scale="seen"):
        self.power = power
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def embed(self, X):
        return X**self.power * self.weights_


class SharesNothing(Weighted):
    embedding_attributes = None


def _weighted(weights, cls=Weighted, **settings):
    model = cls(**settings)
    model.weights_ = weights
    return model


def test_rows_are_embedded_once_for_the_same_objects():
    X, weights = np.random.default_rng(0).standard_normal((4, 3)), np.arange(1.0, 4.0)
    rows = EmbeddedRows(X)
    latest = rows.embedded_by(_weighted(weights)._embedding())
    assert rows.embedded_by(_weighted(weights)._embedding()) is latest
    for other in (
        _weighted(weights, power=2),
        _weighted(weights, feature_norm=None),
        _weighted(weights.copy()),
        _weighted(weights, SharesNothing),
        _weighted(weights, SharesNothing),
    ):
        embedding = other._embedding()
        embedded = rows.embedded_by(embedding)
        assert embedded is not latest
        np.testing.assert_array_equal(embedded, embedding(X))
        latest = embedded
    # Plain functions are called every time.
    for function in (np.asarray, (2 * np.eye(3)).__matmul__, (3 * np.eye(3)).__matmul__):
        square = EmbeddedRows(np.eye(3))
        np.testing.assert_array_equal(square.embedded_by(Embedding(function)), function(np.eye(3)))


def test_a_wrapper_derives_its_scorer_from_the_inner_one(problem):
    model = CalibratedStacking(ESZSL(), bias=0.3)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    inner, outer = model.estimator_.class_scorer_, model.class_scorer_
    assert outer.parameters is inner.parameters
    seen = np.isin(outer.labels, model.seen_classes_)
    np.testing.assert_array_equal(outer.bias, np.where(seen, -0.3, 0.0))
    # Classes added to the inner estimator are known to the wrapper.
    model.estimator_.add_classes({"zz": problem.signatures.iloc[0]})
    assert "zz" in model.unseen_classes_


def _library(rows, library):
    if library == "numpy":
        return rows
    return pytest.importorskip("torch").from_numpy(rows)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_identical_classes_tie_alone_and_in_a_batch(library, data):
    """Identical classes have one score; the first is named first, in any batch."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    n_classes, width = data.draw(st.integers(2, 60)), data.draw(st.integers(1, 70))
    score = data.draw(st.sampled_from(["dot", "euclidean", "cosine"]))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    original = rng.integers(0, max(1, n_classes // 2), n_classes)
    parameters = rng.standard_normal((n_classes, width))[original]
    scorer = ClassScorer(np.arange(n_classes), parameters, Embedding(_identity), score)
    scorer = dataclasses.replace(scorer, same_as=identical_rows(parameters))
    lowered = rng.random(n_classes) < 0.3
    if lowered.any() and data.draw(st.booleans()):
        scorer = scorer.with_class_bias(np.flatnonzero(lowered), 0.25)
    else:
        lowered[:] = False
    candidates = rng.permutation(n_classes)[: data.draw(st.integers(1, n_classes))]
    k = data.draw(st.integers(1, len(candidates)))
    X = (parameters[:7] + 0.1 * rng.standard_normal((min(7, n_classes), width))).astype(dtype)
    together = scorer.top_k(_library(X, library), k, candidates)
    alone = [scorer.top_k(_library(X[i : i + 1], library), k, candidates)[0] for i in range(len(X))]
    columns = np.asarray(scorer.scores(_library(X, library), candidates))
    for row, (labels, values) in enumerate(zip(together[0], np.asarray(together[1]), strict=True)):
        assert (np.diff(values) <= 0).all()
        for found in (labels, alone[row][0]):
            assert len(set(found.tolist())) == k
            for label in found.tolist():
                same = (original == original[label]) & (lowered == lowered[label])
                twins = [c for c in np.flatnonzero(same).tolist() if c in set(candidates.tolist())]
                place = found.tolist().index(label)
                # Twins that come first in the order of labels are named just before it.
                before = twins[: twins.index(label)]
                assert found.tolist()[place - len(before) : place] == before
                among = [candidates.tolist().index(c) for c in twins]
                assert len(set(columns[row, among].tolist())) == 1


@pytest.mark.parametrize("make", [EXEM, ESZSL, lambda: CalibratedStacking(EXEM())])
def test_the_first_of_identical_classes_is_predicted(make, problem):
    first, second = problem.unseen_classes[:2]
    signatures = problem.signatures.copy()
    signatures.loc[second] = signatures.loc[first]
    with pytest.warns(InputWarning, match="cannot be distinguished"):
        model = make().fit(problem.X_train, problem.y_train, signatures=signatures)
    rows = problem.X_test_unseen.astype(np.float32)
    whole = model.predict(rows, classes=problem.unseen_classes)
    alone = [model.predict(row[None], classes=problem.unseen_classes)[0] for row in rows]
    assert max(first, second) not in set(whole.tolist()) | set(alone)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_classes_of_equal_ranks_are_ranked_like_all_classes(data):
    """They share one row of parameters, also beside classes that were added."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n = data.draw(st.integers(9, 40))
    genus = rng.integers(0, data.draw(st.integers(1, 4)), n)
    ranks = pd.DataFrame({"family": genus // 2, "genus": genus}).astype(str)
    ranks["family"], ranks["genus"] = "f" + ranks["family"], "g" + ranks["genus"]
    ranks.index = [f"class {i:02}" for i in rng.permutation(n)]
    seen = rng.choice(ranks.index, 3, replace=False)
    X, y = rng.standard_normal((12, 5)), np.repeat(seen, 4)
    views = taxonomy_signatures(ranks).views
    new = [label for label in ranks.index if label not in seen][:2]
    signatures = MultiSignatures({name: view.drop(new) for name, view in views.items()})
    model = ESZSL().fit(X, y, signatures=signatures)
    if data.draw(st.booleans()):
        model = CalibratedStacking(ESZSL(), bias=0.1).fit(X, y, signatures=signatures)
    if data.draw(st.booleans()):
        model.add_classes(MultiSignatures({name: view.loc[new] for name, view in views.items()}))
    candidates = model.classes_
    if data.draw(st.booleans()):
        candidates = rng.permutation(candidates)[: data.draw(st.integers(1, n - 2))]
    k = data.draw(st.integers(1, len(candidates)))
    rows = rng.standard_normal((4, 5))
    labels, scores = model.predict_top_k(rows, k, classes=candidates)
    ordered = np.sort(candidates)
    every = model.decision_function(rows, classes=ordered)
    np.testing.assert_allclose(scores, -np.sort(-every, axis=1)[:, :k], rtol=1e-12, atol=1e-12)
    for row, found in zip(every, labels, strict=True):
        assert len(set(found)) == k
        values = row[np.searchsorted(ordered, found)]
        assert (np.diff(values) <= 0).all()


@pytest.mark.filterwarnings("ignore:.*cannot be distinguished")
def test_tensors_that_several_classes_share():
    """Parameters in a library other than NumPy are gathered after a class is removed."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    labels = [f"class {i}" for i in range(12)]
    ranks = pd.DataFrame({"genus": [f"g{i // 4}" for i in range(12)]}, index=labels)
    X, y = rng.standard_normal((8, 5)), np.repeat(["class 0", "class 4"], 4)
    signatures = taxonomy_signatures(ranks, categorical=True)
    model = ESZSL().fit(torch.asarray(X), y, signatures=signatures)
    expected = model.decision_function(X, classes=labels[2:])
    model.remove_classes(["class 1"])
    scores = model.decision_function(X, classes=labels[2:])
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)
    assert np.asarray(model.class_scorer_.parameters).shape[0] == 11


def test_ties_between_groups_of_identical_classes_follow_the_labels():
    parameters = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    scorer = ClassScorer(LABELS[:3], parameters, Embedding(_identity), same_as=np.array([0, 1, 0]))
    assert scorer.top_k(np.array([[1.0, 1.0]]), 3)[0].tolist() == [["ant", "bee", "cat"]]


@pytest.mark.parametrize("bias", [None, np.zeros(5)])
def test_rows_without_a_distance_are_refused(bias):
    scorer = ClassScorer(np.arange(5), np.eye(5), Embedding(_identity), "euclidean", bias)
    rows = np.array([[np.nan, 0.0, 0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="Scores are NaN"):
        scorer.top_k(rows, 2)
    assert np.isnan(scorer.scores(rows)).all()
