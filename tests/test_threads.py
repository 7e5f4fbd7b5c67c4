"""Models that change while other threads read them."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from zslearn._utils._processes import in_threads
from zslearn.baselines import ESZSL, GDA, GFZSL
from zslearn.calibration import CalibratedStacking, PredictionSets
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotPipeline
from zslearn.signatures import SignatureTable
from zslearn.synthesis import GaussianEXEM
from zslearn.synthesis._adaptation_trial import Trial

DATA = make_zero_shot(n_seen=20, n_unseen=6, random_state=0)
NEW = "a class without a signature"


def _changes(model):
    """Add a class by examples, then remove it: the embedding gains and loses a column."""
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


def test_a_scorer_is_immutable(changed_model):
    X, before = DATA.X_test_unseen, changed_model.class_scorer_
    expected = before.scores(X)
    for _ in _changes(changed_model):
        np.testing.assert_array_equal(before.scores(X), expected)


def test_predictions_and_copies_while_a_model_changes(changed_model):
    """Every prediction is that of the model before or after a change."""
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
        # Some changes, and some passes of both readers.
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
def test_adapting_reads_one_state(method, monkeypatch):
    """A class added while a model adapts is not in the adapted copy."""
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


def test_gains_are_read_while_a_model_adapts_for_the_first_time(monkeypatch):
    model = GaussianEXEM().fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    X, table = DATA.X_test_unseen, Trial.table
    model.adapt(X, classes=DATA.unseen_classes, accept=True)

    def adapt_to_all_and_read(trial):
        model.adapt(X, accept=True)
        return table(trial)

    monkeypatch.setattr(Trial, "table", adapt_to_all_and_read)
    assert list(model.unlabelled_gains_) == ["alone"]
    assert sorted(model.unlabelled_gains_) == ["all", "alone"]


def test_sets_read_one_state(monkeypatch):
    """A class added between two reads of the scorer is in neither of them."""
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


def test_a_pipeline_reads_one_state(monkeypatch):
    """A fit between two reads has no part in the scores."""
    fit = {"y": DATA.y_train, "signatures": DATA.signatures}
    model = ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())])
    X = DATA.X_test_unseen
    expected = model.fit(DATA.X_train, **fit).decision_function(X)
    scorer, n_reads = ESZSL.class_scorer_, []

    def read(self):
        n_reads.append(1)
        if len(n_reads) == 1:
            model.fit(3 * DATA.X_train + 5, **fit)
        return scorer.fget(self)

    monkeypatch.setattr(ESZSL, "class_scorer_", property(read))
    np.testing.assert_array_equal(model.decision_function(X), expected)
    assert not np.allclose(model.decision_function(X), expected)


def test_threads_have_the_settings_of_the_caller():
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        in_threads(np.square, [np.float32([1e30]), np.float32([1.0])], 2)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_threads_begin_nothing_after_an_error(error, monkeypatch):
    stopped, begun = threading.Event(), []

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            stopped.set()
            super().shutdown(wait)

    def work(number):
        begun.append(number)
        if number == 0:
            raise error
        stopped.wait()

    monkeypatch.setattr("zslearn._utils._processes.ThreadPoolExecutor", Pool)
    with pytest.raises(error):
        in_threads(work, range(50), 2)
    assert len(begun) <= 3


@pytest.mark.parametrize("method", [ESZSL(), GaussianEXEM()], ids=["ESZSL", "GaussianEXEM"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_classes_are_synthesised_in_threads(method, n_threads, monkeypatch, block_bytes):
    fit = {"X": DATA.X_train, "y": DATA.y_train, "signatures": DATA.signatures}
    expected = clone(method).fit(**fit).decision_function(DATA.X_test_unseen)
    used, synthesize = set(), type(method).synthesize

    def noted(self, signatures, labels=None):
        used.add(threading.get_ident())
        return synthesize(self, signatures, labels)

    monkeypatch.setattr(type(method), "synthesize", noted)
    monkeypatch.setattr("zslearn.base._classifier.blas_threads", lambda: n_threads)
    block_bytes(1000)
    found = clone(method).fit(**fit).decision_function(DATA.X_test_unseen)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert (len(used) > 1) == (n_threads > 1)
