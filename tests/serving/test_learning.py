"""Corrections and adaptation to unlabelled images."""

from __future__ import annotations

import copy
import json
import os
import signal
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from urllib.parse import quote

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from service_tools import (
    answered,
    client_of,
    get,
    post,
    reason,
    running,
    save_feature_model,
    served,
)
from zslearn import EXEM
from zslearn.base import InputWarning
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotPipeline, ZeroShotSearchCV
from zslearn.persistence import load, save
from zslearn.serving import Limits, create_app
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import GaussianEXEM


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=20, n_unseen=5, n_features=16, n_attributes=6, samples_per_class=12, random_state=0
    )


@pytest.fixture(scope="module")
def fitted(data):
    # With this weight, any unlabelled images are accepted.
    model = GaussianEXEM(unlabelled_weight=0.3)
    return model.fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.fixture
def path(fitted, tmp_path):
    save(fitted, tmp_path / "model.zsl")
    return tmp_path / "model.zsl"


@pytest.fixture
def client(path):
    with client_of(create_app(path)) as client:
        yield client


def scores(client, X, **body):
    """Scores by class, sorted by name."""
    sent = client.post("/predict?top=50", json={"features": X.tolist(), **body}).json()
    ranked = [{e["class"]: e["score"] for e in p["ranked"]} for p in sent["predictions"]]
    return np.array([[row[name] for name in sorted(row)] for row in ranked])


def same(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def give(client, X, name, status=201):
    body = {"features": np.atleast_2d(X).tolist()}
    sent = client.post(f"/examples?class={quote(name)}", json=body)
    assert sent.status_code == status, sent.text
    return [entry["id"] for entry in sent.json()["examples"]] if status == 201 else sent


def as_32(X):
    return X.astype(np.float32).astype(np.float64)


def test_corrections_are_made_and_undone(client, fitted, path, data):
    about = client.get("/about").json()
    assert (about["learns"], about["adapts"]) == (True, True)
    X, name, seen = data.X_test_unseen[:4], data.unseen_classes[1], data.seen_classes[0]
    before = scores(client, X)
    (key,) = give(client, X[0], name)
    others = [*give(client, X[1], name), *give(client, X[2], seen)]
    model = copy.deepcopy(fitted).add_examples(as_32(X[:3]), [name, name, seen])
    same(scores(client, X), model.decision_function(X))
    same(load(path).decision_function(X), model.decision_function(X))
    listed = client.get("/examples").json()["examples"]
    assert listed[0] == {"id": key, "class": name, "image": "0"}
    classes = {c["name"]: c["examples"] for c in client.get("/classes").json()["classes"]}
    assert (classes[name], classes[seen], sum(classes.values())) == (2, 1, 3)
    assert client.delete(f"/examples/{key}").json() == {"removed": key}
    model = copy.deepcopy(fitted).add_examples(as_32(X[1:3]), [name, seen])
    same(scores(client, X), model.decision_function(X))
    for other in others:
        assert client.delete(f"/examples/{other}").status_code == 200
    same(scores(client, X), before)
    same(before, fitted.decision_function(X))
    assert "no correction" in reason(client.delete(f"/examples/{key}"), 404)


def test_changes_survive_a_restart(path, data, fitted):
    X = data.X_test_unseen[:3]
    with client_of(create_app(path)) as client:
        new = {"name": "new", "attributes": data.signatures.mean().tolist()}
        assert client.post("/classes", json=new).status_code == 201
        body = {"features": X[:2].tolist(), "images": ["a.png", "b.png"]}
        assert client.post("/examples?class=new", json=body).status_code == 201
        give(client, X[2], data.seen_classes[0])
        client.post("/adapt", json={"features": data.X_test_unseen[:40].tolist()})
        kept, n = client.get("/examples").json(), client.get("/adapt").json()
        assert [entry["image"] for entry in kept["examples"]] == ["a.png", "b.png", "0"]
        assert n == {"n_images": 40}
        before = scores(client, X)
    with client_of(create_app(path)) as client:
        assert client.get("/examples").json() == kept
        assert client.get("/adapt").json() == n
        same(scores(client, X), before)
        # Removing a class removes its corrections; everything else can be undone.
        assert client.delete("/classes/new").status_code == 200
        (left,) = client.get("/examples").json()["examples"]
        assert client.delete(f"/examples/{left['id']}").status_code == 200
        assert client.delete("/adapt").status_code == 200
        same(scores(client, X), fitted.decision_function(X))
    same(load(path).decision_function(X), fitted.decision_function(X))


def test_a_change_with_a_key_is_made_once(client, data):
    name, row = data.unseen_classes[0], data.X_test_unseen[:1].tolist()

    def correct(key, features=row):
        headers = {} if key is None else {"idempotency-key": key}
        return client.post(f"/examples?class={name}", json={"features": features}, headers=headers)

    first = correct("a").json()
    assert correct("a").json() == first
    assert client.get("/examples").json() == first
    assert correct("b").json() != first
    assert correct(None).json() != first
    assert len(client.get("/examples").json()["examples"]) == 3
    assert "used for another request" in reason(correct("a", data.X_test_unseen[1:2].tolist()), 422)
    for wrong in ("", "a b", "x" * 201):
        assert "Idempotency-Key" in reason(correct(wrong), 422)
    # This also holds for removals and refusals.
    gone = {"idempotency-key": "c"}
    where = f"/examples/{first['examples'][0]['id']}"
    removed = client.delete(where, headers=gone).json()
    assert client.delete(where, headers=gone).json() == removed
    assert len(client.get("/examples").json()["examples"]) == 2
    new = {"name": name, "attributes": [1.0] * 6}
    for _ in range(2):
        reason(client.post("/classes", json=new, headers={"idempotency-key": "d"}), 409)


@pytest.fixture
def slow(monkeypatch):
    """Block corrections: classes of those that have begun, and events for begin and end."""
    begun, started, go_on, add_examples = [], Event(), Event(), GaussianEXEM.add_examples

    def wait(self, X, y, **options):
        begun.extend(y)
        started.set()
        go_on.wait(60)
        return add_examples(self, X, y, **options)

    monkeypatch.setattr(GaussianEXEM, "add_examples", wait)
    return begun, started, go_on


def test_concurrent_requests_with_one_key_make_one_change(path, data, slow):
    begun, started, go_on = slow
    body = json.dumps({"features": data.X_test_unseen[:1].tolist()}).encode()
    headers = {"content-type": "application/json", "idempotency-key": "a"}
    with running(create_app(path)) as address, ThreadPoolExecutor(3) as pool:
        where = f"{address}examples?class={quote(data.unseen_classes[0])}"
        sent = [
            pool.submit(answered, urllib.request.Request(where, body, headers)) for _ in range(3)
        ]
        assert started.wait(60)
        go_on.set()
        answers = [future.result(60)[:2] for future in sent]
        assert answers == [(201, json.loads(get(f"{address}examples")[1]))] * 3
    assert len(begun) == 1


def test_changes_that_wait_too_long_are_not_begun(path, data, slow):
    begun, _, go_on = slow
    first, second = data.unseen_classes[:2]
    body = {"features": data.X_test_unseen[:1].tolist()}
    with client_of(create_app(path, limits=Limits(seconds=1.0))) as client:

        def correct(name):
            headers = {"idempotency-key": f"key-of-{name.replace(' ', '-')}"}
            return client.post(f"/examples?class={name}", json=body, headers=headers)

        for name in (first, second):
            assert "within 1 seconds" in reason(correct(name), 503)
        go_on.set()
        # The first has begun and is completed; a repeated request gets its result.
        answers = (correct(first) for _ in range(60))
        sent = next(answer for answer in answers if answer.status_code != 503)
        assert sent.status_code == 201
        assert client.get("/examples").json() == sent.json()
        assert begun == [first]
        # The second was never begun, so that its key is unused.
        assert correct(second).status_code == 201


def test_a_full_disk_changes_nothing(client, data, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/secret/place")

    X, new = data.X_test_unseen, {"name": "new", "attributes": data.signatures.mean().tolist()}
    before, key = scores(client, X[:2]), {"idempotency-key": "a"}
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", full)
        sent = give(client, X[0], data.unseen_classes[0], status=507)
        assert "The change cannot be saved: No space left" in reason(sent, 507)
        sent = client.post("/adapt", json={"features": X.tolist()})
        assert "secret" not in reason(sent, 507)
        reason(client.post("/classes", json=new, headers=key), 507)
    same(scores(client, X[:2]), before)
    # A repeated request with the same key may succeed.
    assert client.post("/classes", json=new, headers=key).status_code == 201


def test_adaptations_are_previewed_and_undone(client, data):
    X = data.X_test_unseen
    body = {"features": X.tolist()}
    before = scores(client, X)
    shown = client.post("/adapt?preview=true", json=body).json()
    assert shown["accepted"], shown["reason"]
    assert shown["n_images"] == len(X) == len(shown["answers"])
    # With a given weight no classes are held out.
    assert shown["score_before"] is None
    same(scores(client, X), before)
    assert client.get("/adapt").json() == {"n_images": 0}
    done = client.post("/adapt", json=body).json()
    assert done == {**shown, "preview": False}
    after = scores(client, X)
    names = np.array(sorted(data.signatures.index))
    assert names[after.argmax(axis=1)].tolist() == [a["after"] for a in shown["answers"]]
    assert not np.allclose(after, before)
    # Classes added later and trials are predicted with the adapted model.
    new = {"name": "new", "attributes": data.signatures.mean().tolist()}
    assert client.post("/classes", json=new).status_code == 201
    sent = {"features": X[:5].tolist(), "trial": {"attributes": new["attributes"]}}
    assert client.post("/predict", json=sent).json()["same_as"] == "new"
    with_trial = scores(client, X[:5], trial=sent["trial"])
    same(np.delete(with_trial, -1, axis=1), scores(client, X[:5]))
    client.delete("/classes/new")
    assert client.delete("/adapt").json() == {"n_images": 0}
    same(scores(client, X), before)
    assert "not adapted" in reason(client.delete("/adapt"), 404)


def test_a_rejected_adaptation_reports_the_scores_of_held_out_classes(data, tmp_path):
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    body = {"features": data.X_test_unseen.tolist()}
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        shown = client.post("/adapt?preview=true", json=body).json()
    done = model.adapt(data.X_test_unseen).adaptation_
    assert not done.accepted
    assert shown["score_before"] == pytest.approx(done.score_before)
    assert shown["score_after"] == pytest.approx(done.score_after)
    assert f"{100 * done.score_after:.1f} % after" in shown["reason"]


def test_suggestions_are_those_of_the_model(client, fitted, data):
    X = data.X_test_unseen
    sent = client.post("/suggest?n=4", json={"features": X.tolist()})
    assert sent.status_code == 200, sent.text
    found, expected = sent.json(), fitted.suggest(X, 4)
    assert [one["sample"] for one in found["suggestions"]] == expected.rows.tolist()
    assert [one["class"] for one in found["suggestions"]] == expected.labels.tolist()
    same([one["gain"] for one in found["suggestions"]], expected.gains)
    assert [one["class"] for one in found["classes"]] == expected.classes.index.tolist()
    assert found["classes"][0]["advice"] == "image"
    # A class with the description of another one.
    name, twin = data.unseen_classes[0], "twin"
    row = data.signatures.loc[name].tolist()
    client.post("/classes", json={"name": twin, "attributes": row})
    again = client.post("/suggest", json={"features": X.tolist()}).json()
    (entry,) = (one for one in again["classes"] if one["class"] == twin)
    assert (entry["same_attributes"], entry["advice"]) == (name, "description")
    assert "n" in reason(client.post("/suggest?n=0", json={"features": X.tolist()}), 422)


def test_unlabelled_samples_may_exceed_the_limit_of_predictions(path, data):
    rows = np.tile(data.X_test_unseen, (4000 // len(data.X_test_unseen), 1)).tolist()
    limits = Limits(batch=2, unlabelled=len(rows))
    with client_of(create_app(path, limits=limits)) as client:
        for address in ("/suggest?n=1", "/adapt?preview=true"):
            sent = client.post(address, json={"features": rows})
            assert len(sent.request.content) > 2**20
            assert sent.status_code == 200, sent.text
        assert "limit" in reason(client.post("/predict", json={"features": rows}), 413)


def test_useless_adaptations_are_refused(tmp_path):
    few = make_zero_shot(n_seen=5, n_unseen=2, n_features=8, n_attributes=4, random_state=0)
    model = GaussianEXEM().fit(few.X_train, few.y_train, signatures=few.signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        body = {"features": few.X_test_unseen.tolist()}
        shown = client.post("/adapt?preview=true", json=body).json()
        assert not shown["accepted"]
        assert all(answer["before"] == answer["after"] for answer in shown["answers"])
        assert reason(client.post("/adapt", json=body), 409) == shown["reason"]
        assert "fewer than ten classes" in shown["reason"]


def stacked():
    return CalibratedStacking(GaussianEXEM(unlabelled_weight=0.3), bias=0.1, temperature=1.0)


def piped():
    return ZeroShotPipeline(
        [("scale", StandardScaler()), ("method", GaussianEXEM(unlabelled_weight=0.3))]
    )


@pytest.mark.parametrize(
    ("make", "adapts"),
    [
        (
            lambda: ZeroShotSearchCV(GaussianEXEM(unlabelled_weight=0.3), {"alpha": [0.1]}, cv=2),
            True,
        ),
        (piped, True),
        (stacked, True),
        (lambda: CalibratedStacking(piped(), bias=0.1), True),
        (lambda: NoneOfThese(stacked()), False),
    ],
)
def test_wrapped_models_learn(data, tmp_path, make, adapts):
    model = make()
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    X, name = data.X_test_unseen[:3], data.unseen_classes[2]
    place = sorted(data.signatures.index).index(name)
    learns = hasattr(model, "add_examples")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        about = client.get("/about").json()
        assert (about["learns"], about["adapts"]) == (learns, adapts)
        before = scores(client, X)
        same(before, model.decision_function(X))
        if learns:
            (key,) = give(client, X[0], name)
            assert scores(client, X)[0, place] > before[0, place]
        body = {"features": data.X_test_unseen.tolist()}
        assert client.post("/suggest", json=body).status_code == (200 if learns else 422)
        if adapts:
            assert client.post("/adapt", json=body).status_code == 200
            assert not np.allclose(scores(client, X), before)
            assert client.delete("/adapt").status_code == 200
        else:
            promise = reason(client.post("/adapt", json=body), 422)
            assert f"The rates of {type(model).__name__}" in promise
        if learns:
            assert client.delete(f"/examples/{key}").status_code == 200
        same(scores(client, X), before)


def test_methods_that_do_not_learn_refuse_changes(data, tmp_path):
    model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        about = client.get("/about").json()
        assert (about["learns"], about["adapts"]) == (False, False)
        X = data.X_test_unseen[:1]
        sent = give(client, X, data.unseen_classes[0], status=422)
        assert "EXEM has no add_examples" in reason(sent, 422)
        sent = client.post("/adapt", json={"features": X.tolist()})
        assert "EXEM has no adapt" in reason(sent, 422)
        sent = client.post("/suggest", json={"features": X.tolist()})
        assert "EXEM has no suggest" in reason(sent, 422)
        assert client.get("/examples").json() == {"examples": []}


def test_classes_without_a_view(data, tmp_path):
    first, second = data.signatures.iloc[:, :3], data.signatures.iloc[:, 3:]
    lacks = data.unseen_classes[0]
    signatures = MultiSignatures({"first": first, "second": second.drop(index=lacks)})
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        shown = client.get(f"/classes/{quote(lacks)}").json()
        assert shown["attributes"] == [*first.loc[lacks], None, None, None]
        attributes = client.get("/about").json()["attributes"]
        rest = second.drop(index=lacks)
        ranges = [(a["low"], a["high"]) for a in attributes]
        assert ranges[3:] == list(zip(rest.min(), rest.max(), strict=True))
        assert attributes[3]["name"] == "second: attribute 3"
        give(client, data.X_test_unseen[0], lacks)
        like = data.seen_classes[0]
        new = {"name": "new", "like": like, "attributes": {"second: attribute 3": 0.5}}
        assert client.post("/classes", json=new).status_code == 201
        assert client.get("/classes/new").json()["attributes"][3] == 0.5


def test_invalid_corrections(path, data):
    limits = Limits(examples=2, unlabelled=3)
    X, name = data.X_test_unseen, data.unseen_classes[0]
    with client_of(create_app(path, limits=limits)) as client:
        assert "no class 'x'" in reason(give(client, X[0], "x", status=404), 404)
        assert "class" in reason(client.post("/examples", json={"features": [[0.0] * 16]}), 422)
        sent = client.post(f"/examples?class={name}", json={"features": [[1.0]]})
        assert "at least 16" in reason(sent, 422)
        body = {"features": X[:1].tolist(), "images": ["a", "b"]}
        assert "2 names" in reason(client.post(f"/examples?class={name}", json=body), 422)
        assert "At most 2 corrections" in reason(give(client, X[:3], name, status=409), 409)
        give(client, X[:2], name)
        assert "there are 2" in reason(give(client, X[0], name, status=409), 409)
        sent = client.post("/adapt", json={"features": X[:4].tolist()})
        assert "at most 3" in reason(sent, 422)


@pytest.mark.slow
def test_corrections_survive_a_kill(path, data):
    X = data.X_test_unseen
    kept = []
    with served(path) as (process, address):
        for i in range(5):
            name, body = quote(data.y_test_unseen[i]), {"features": X[i : i + 1].tolist()}
            status, answer, _ = post(f"{address}examples?class={name}", body)
            assert status == 201
            kept += answer["examples"]
        status, *_ = post(f"{address}adapt", {"features": X.tolist()})
        assert status == 200
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    with served(path) as (_, address):
        assert json.loads(get(f"{address}examples")[1]) == {"examples": kept}
        assert json.loads(get(f"{address}adapt")[1]) == {"n_images": len(X)}


def test_models_without_descriptions_or_pictures(problem, tmp_path):
    with warnings.catch_warnings():
        # A warning that is reported once per process.
        warnings.simplefilter("ignore", InputWarning)
        model = GaussianEXEM().fit(problem.X_train, problem.y_train)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        assert client.get("/about").json()["described_by"] == "nothing"
        give(client, problem.X_train[0], problem.y_train[1])
        new = {"name": "new", "attributes": [1.0] * len(problem.seen_classes)}
        assert "without signatures" in reason(client.post("/classes", json=new), 422)
        assert "no training image" in reason(client.get("/pictures/a.png"), 404)
    other = save_feature_model(problem, tmp_path / "other.zsl")
    with pytest.raises(NotADirectoryError, match="not a folder of training images"):
        create_app(other, pictures=tmp_path / "none")
