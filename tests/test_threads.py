from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

from zslearn._scoring._blocks import top_k
from zslearn._utils._processes import (
    one_blas_thread,
)
from zslearn.baselines import GDA, GFZSL
from zslearn.calibration import CalibratedStacking, PredictionSets
from zslearn.datasets import make_zero_shot
from zslearn.signatures._table import SignatureTable
from zslearn.synthesis import GaussianEXEM


@pytest.mark.parametrize("score", ["dot", "euclidean"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_threads_change_no_list(score, biased, k, monkeypatch):
    """Whatever the threads and tiles, the compiled lists are those of a stable sort."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (700, 5)).astype(np.float64)
    P = rng.integers(-3, 4, (64, 5)).astype(np.float64)
    P -= P.mean(axis=0).round()
    bias = rng.integers(-2, 3, 64).astype(float) if biased else None
    monkeypatch.setattr("zslearn._scoring._blocks.WORTH_COMPILED", 1)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_ROWS", 16)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_CLASSES", 24)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("zslearn._scoring._blocks.blas_threads", lambda n=threads: n)
        found.append(top_k(X, P, k, score=score, bias=bias))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    if score == "dot":
        full = X @ P.T + (0 if bias is None else bias)
        order = np.argsort(-full, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found[0][0], order)
    else:
        distances = -np.linalg.norm(X[:, None] - P[None], axis=2) + (0 if bias is None else bias)
        best = -np.sort(-distances, axis=1)[:, :k]
        np.testing.assert_allclose(found[0][1], best, atol=1e-7)


def test_infinite_scores_are_listed(monkeypatch):
    """A bias of −∞ excludes a class until nothing else is left."""
    monkeypatch.setattr("zslearn._scoring._blocks.WORTH_COMPILED", 1)
    bias = np.array([0.0, -np.inf, 0.0, -np.inf])
    with one_blas_thread():
        indices, values = top_k(np.ones((2, 3)), np.ones((4, 3)), 4, bias=bias)
    np.testing.assert_array_equal(indices, [[0, 2, 1, 3]] * 2)
    assert np.isneginf(values[:, 2:]).all()
    with pytest.raises(ValueError, match="Scores are NaN"):
        top_k(np.full((1, 3), np.nan), np.ones((4, 3)), 2)


DATA = make_zero_shot(n_seen=20, n_unseen=6, random_state=0)
NEW = "a class without a signature"


def _changes(model):
    """A class gets its first examples and is removed: the embedding gains and loses a column."""
    model.add_examples(DATA.X_test_unseen[:3], [NEW] * 3)
    yield
    model.remove_classes([NEW])
    yield


MODELS = {
    "method": lambda: GaussianEXEM(unlabelled_weight=0.3),
    "calibrated": lambda: CalibratedStacking(GaussianEXEM(unlabelled_weight=0.3), cv=2),
    "images": lambda: GDA(GaussianEXEM(unlabelled_weight=0.3)),
}


@pytest.fixture(scope="module", params=MODELS)
def changed_model(request):
    model = MODELS[request.param]()
    return model.fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)


def test_a_scorer_stays_as_it_was_taken(changed_model):
    X, before = DATA.X_test_unseen, changed_model.class_scorer_
    expected = before.scores(X)
    for _ in _changes(changed_model):
        np.testing.assert_array_equal(before.scores(X), expected)


def test_predictions_and_copies_while_a_model_changes(changed_model):
    """Each answer is that of a whole state: before the change or after it."""
    X = DATA.X_test_unseen[:20]
    states = {len(changed_model.classes_): changed_model.decision_function(X)}
    for _ in _changes(changed_model):
        states[len(changed_model.classes_)] = changed_model.decision_function(X)
    failures, done, passes = [], threading.Event(), []

    def read():
        try:
            while not (done.is_set() and passes):
                passes.append(1)
                for reader in (
                    changed_model,
                    copy.deepcopy(changed_model),
                    pickle.loads(pickle.dumps(changed_model)),
                ):
                    scores = reader.decision_function(X)
                    np.testing.assert_allclose(scores, states[scores.shape[1]], atol=1e-9)
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        n_changes = 0
        # At least so many changes, and until both readers have been through several times.
        while n_changes < 15 or (len(passes) < 6 and not failures):
            n_changes += 1
            for _ in _changes(changed_model):
                pass
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not failures


@pytest.mark.parametrize("method", [GaussianEXEM(unlabelled_weight=0.3), GFZSL()])
def test_adapting_is_of_one_state(method, monkeypatch):
    """A class that is described while a model adapts is not in the adapted copy."""
    model = clone(method).fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    X = DATA.X_test_unseen
    expected = model.adapt(X, classes=DATA.unseen_classes).decision_function(X)
    prepare = SignatureTable.normalized
    n_calls = []

    def normalized(table, *args, **options):
        n_calls.append(1)
        if len(n_calls) == 1:
            model.add_classes({"a new class": DATA.signatures.iloc[0] + 0.1})
        return prepare(table, *args, **options)

    monkeypatch.setattr(SignatureTable, "normalized", normalized)
    adapted = model.adapt(X, classes=DATA.unseen_classes)
    assert "a new class" in model.classes_
    assert "a new class" not in adapted.classes_
    np.testing.assert_array_equal(adapted.decision_function(X), expected)


def test_sets_are_of_one_state(monkeypatch):
    """A class that is described between two reads of the scorer is in neither of them."""
    model = PredictionSets(GaussianEXEM(unlabelled_weight=0.3), cv=2)
    model.fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    X, y = DATA.X_test_seen, DATA.y_test_seen
    expected = model.coverage_report(X, y)
    inner, n_reads = model.estimator_, []
    scorer = GaussianEXEM.class_scorer_

    def read(self):
        n_reads.append(1)
        found = scorer.fget(self)
        if len(n_reads) == 1:
            inner.add_classes({"zz": DATA.signatures.iloc[0] + 0.1})
        return found

    monkeypatch.setattr(GaussianEXEM, "class_scorer_", property(read))
    assert model.coverage_report(X, y).equals(expected)
    assert "zz" in model.classes_
