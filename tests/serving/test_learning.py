"""Corrections and pictures without labels that a service learns from."""

from __future__ import annotations

import json
import signal
import socket
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
from zslearn._utils._files import read_checked_json, write_checked_json
from zslearn._utils._messages import InputWarning
from zslearn.calibration import Adapted, CalibratedStacking, NoneOfThese
from zslearn.datasets import make_zero_shot
from zslearn.images import add_classes_to_file
from zslearn.model_selection import ZeroShotPipeline, ZeroShotSearchCV
from zslearn.persistence import load, save
from zslearn.serving import Limits, Recognizer, _recognizer, create_app
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import GaussianEXEM, _adaptation_trial

pytest.importorskip("fastapi")
from zslearn.serving import _app


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=20, n_unseen=5, n_features=16, n_attributes=6, samples_per_class=12, random_state=0
    )


@pytest.fixture(scope="module")
def fitted(data):
    return GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.fixture
def path(fitted, tmp_path):
    save(fitted, tmp_path / "model.zsl")
    return tmp_path / "model.zsl"


@pytest.fixture
def client(path):
    with client_of(create_app(path)) as client:
        yield client


def scores(client, X):
    found = client.post("/predict?top=50", json={"features": X.tolist()}).json()["predictions"]
    return [{entry["class"]: entry["score"] for entry in p["ranked"]} for p in found]


def give(client, X, name, status=201):
    sent = client.post(f"/examples?class={name}", json={"features": np.atleast_2d(X).tolist()})
    assert sent.status_code == status, sent.text
    return [entry["id"] for entry in sent.json()["examples"]] if status == 201 else sent


def as_32(X):
    return X.astype(np.float32).astype(np.float64)


def test_a_correction_is_add_examples_and_is_undone(client, path, data):
    about = client.get("/about").json()
    assert about["learns"]
    assert about["adapts"]
    X, name = data.X_test_unseen[:4], data.unseen_classes[1]
    before = scores(client, X)
    (key,) = give(client, X[0], name)
    model = load(path).add_examples(as_32(X[:1]), [name])
    expected = model.decision_function(X)
    for row, found in zip(expected, scores(client, X), strict=True):
        np.testing.assert_allclose([found[c] for c in model.classes_], row, rtol=1e-9)
    assert scores(client, X)[0][name] > before[0][name]
    listed = client.get("/examples").json()["examples"]
    assert listed == [{"id": key, "class": name, "image": "0"}]
    classes = {c["name"]: c["examples"] for c in client.get("/classes").json()["classes"]}
    assert classes[name] == 1
    assert sum(classes.values()) == 1
    assert client.delete(f"/examples/{key}").json() == {"removed": key}
    assert scores(client, X) == before
    assert "no correction" in reason(client.delete(f"/examples/{key}"), 404)


def test_the_order_of_corrections_does_not_matter(client, path, data):
    X = data.X_test_unseen[:6]
    keys = [give(client, x, data.y_test_unseen[i])[0] for i, x in enumerate(X)]
    client.delete(f"/examples/{keys[2]}")
    found = scores(client, X)
    other = Recognizer(path, added=path.parent / "other.json")
    for i in (5, 3, 0, 4, 1):
        other.add_examples(X[i : i + 1], data.y_test_unseen[i])
    for row, answer in zip(found, other.answer(X, other.snapshot, top=50), strict=True):
        for entry in answer["ranked"]:
            assert row[entry["class"]] == pytest.approx(entry["score"], rel=1e-9)


def test_corrections_are_there_again(path, data):
    X = data.X_test_unseen[:3]
    with client_of(create_app(path)) as client:
        new = {"name": "new", "attributes": data.signatures.mean().tolist()}
        assert client.post("/classes", json=new).status_code == 201
        body = {"features": X[:2].tolist(), "images": ["a.png", "b.png"]}
        assert client.post("/examples?class=new", json=body).status_code == 201
        client.post("/adapt", json={"features": data.X_test_unseen[:40].tolist()})
        kept, n = client.get("/examples").json(), client.get("/adapt").json()
        assert [entry["image"] for entry in kept["examples"]] == ["a.png", "b.png"]
        before = scores(client, X)
    with client_of(create_app(path)) as client:
        assert client.get("/examples").json() == kept
        assert client.get("/adapt").json() == n
        assert scores(client, X) == before
        # With a class its corrections go.
        assert client.delete("/classes/new").status_code == 200
        assert client.get("/examples").json() == {"examples": []}


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
    assert "another request was sent" in reason(correct("a", data.X_test_unseen[1:2].tolist()), 422)
    for wrong in ("", "a b", "x" * 201):
        assert "Idempotency-Key" in reason(correct(wrong), 422)
    # Refusals are answers, too, and what is undone stays undone.
    gone = {"idempotency-key": "c"}
    where = f"/examples/{first['examples'][0]['id']}"
    removed = client.delete(where, headers=gone).json()
    assert client.delete(where, headers=gone).json() == removed
    assert len(client.get("/examples").json()["examples"]) == 2
    new = {"name": name, "attributes": [1.0] * 6}
    for _ in range(2):
        reason(client.post("/classes", json=new, headers={"idempotency-key": "d"}), 409)


def test_requests_of_one_key_at_the_same_time_are_one_change(path, data):
    recognizer, begun, go_on = Recognizer(path), Event(), Event()
    add_examples, calls = recognizer.add_examples, []

    def slow(*arguments):
        calls.append(arguments)
        begun.set()
        go_on.wait(60)
        return add_examples(*arguments)

    recognizer.add_examples = slow
    body = json.dumps({"features": data.X_test_unseen[:1].tolist()}).encode()
    headers = {"content-type": "application/json", "idempotency-key": "a"}
    with running(create_app(recognizer)) as address, ThreadPoolExecutor(3) as pool:
        where = f"{address}examples?class={quote(data.unseen_classes[0])}"
        sent = [
            pool.submit(answered, urllib.request.Request(where, body, headers)) for _ in range(3)
        ]
        assert begun.wait(60)
        go_on.set()
        answers = [future.result(60)[:2] for future in sent]
    assert (
        answers
        == [(201, {"examples": [e.info() for e in recognizer.snapshot.examples.values()]})] * 3
    )
    assert len(calls) == 1


def test_the_trial_of_unlabelled_pictures_is_made_once(path, data, monkeypatch):
    """By the first adapt or preview, whatever is added, corrected and undone besides."""
    trials = []
    choose = _adaptation_trial.choose_weight
    counted = lambda folds: trials.append(1) or choose(folds)  # noqa: E731
    monkeypatch.setattr(_adaptation_trial, "choose_weight", counted)
    body = {"features": data.X_test_unseen.tolist()}
    correction = {"features": data.X_test_unseen[:1].tolist()}
    with client_of(create_app(path)) as client:
        new = {"name": "new", "attributes": data.signatures.mean().tolist()}
        assert client.post("/classes", json=new).status_code == 201
        assert trials == []
        for where in ("/adapt?preview=true", "/adapt", "/adapt?preview=true"):
            assert client.post(where, json=body).status_code == 200
        sent = client.post(f"/examples?class={data.unseen_classes[0]}", json=correction)
        assert sent.status_code == 201
        assert client.delete("/classes/new").status_code == 200
    assert trials == [1]


def test_corrections_of_a_class_that_the_model_file_has_by_now_stay(path, data, tmp_path):
    body = {"features": data.X_test_unseen[[0, 0]].tolist()}
    with client_of(create_app(path)) as client:
        new = {"name": "zebu", "attributes": data.signatures.mean().tolist()}
        assert client.post("/classes", json=new).status_code == 201
        kept = client.post("/examples?class=zebu", json=body).json()["examples"]
    add_classes_to_file(path, (data.signatures.iloc[:1] + 0.3).set_axis(["zebu"]))
    with client_of(create_app(path)) as client:
        assert client.get("/examples").json()["examples"] == kept
        assert not client.get("/classes/zebu").json()["added"]
        best = client.post("/predict?top=1", json=body).json()["predictions"]
        assert [p["ranked"][0]["class"] for p in best] == ["zebu"] * 2


def test_keys_that_are_kept_have_an_end(client, data, monkeypatch):
    monkeypatch.setattr(_app, "_MAX_KEYS", 2)
    body = {"features": data.X_test_unseen[:1].tolist()}
    for key in "abca":
        headers = {"idempotency-key": key}
        client.post(f"/examples?class={data.unseen_classes[0]}", json=body, headers=headers)
    assert len(client.get("/examples").json()["examples"]) == 4


def test_a_key_of_a_change_that_failed_may_be_tried_again(client, data, monkeypatch):
    new = {"name": "new", "attributes": data.signatures.mean().tolist()}

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(_recognizer, "write_checked_json", fail)
        reason(client.post("/classes", json=new, headers={"idempotency-key": "a"}), 507)
    sent = client.post("/classes", json=new, headers={"idempotency-key": "a"})
    assert sent.status_code == 201


def test_what_waits_too_long_is_not_begun(path, data):
    recognizer = Recognizer(path, limits=Limits(seconds=1.0))
    begun, go_on, add_examples = [], Event(), recognizer.add_examples

    def slow(X, name, images):
        begun.append(name)
        go_on.wait(60)
        return add_examples(X, name, images)

    recognizer.add_examples = slow
    first, second = data.unseen_classes[:2]
    body = {"features": data.X_test_unseen[:1].tolist()}
    with client_of(create_app(recognizer)) as client:

        def correct(name):
            headers = {"idempotency-key": f"key-of-{name.replace(' ', '-')}"}
            return client.post(f"/examples?class={name}", json=body, headers=headers)

        for name in (first, second):
            assert "within 1 seconds" in reason(correct(name), 503)
        go_on.set()
        # The first has begun: it is carried out, and repeated requests get its answer.
        answers = (correct(first) for _ in range(60))
        sent = next(answer for answer in answers if answer.status_code != 503)
        assert sent.status_code == 201
        assert client.get("/examples").json() == sent.json()
        assert begun == [first]


def test_adapt_refuses_before_it_reads_where_too_many_wait(path, data, monkeypatch):
    monkeypatch.setattr(_app, "_MAX_ADAPTING", 1)
    recognizer, begun, go_on = Recognizer(path), Event(), Event()
    adapt = recognizer.adapt

    def slow(X, **options):
        begun.set()
        go_on.wait(60)
        return adapt(X, **options)

    recognizer.adapt = slow
    body = {"features": data.X_test_unseen[:40].tolist()}
    with running(create_app(recognizer)) as address, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, address + "adapt?preview=true", body)
        assert begun.wait(60)
        # Of its body nothing is ever sent.
        port = int(address.split(":")[2].strip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(
                b"POST /adapt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1000000\r\n\r\n"
            )
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 5" in answer
        go_on.set()
        assert waiting.result(60)[0] == 200
        assert post(address + "adapt?preview=true", body)[0] == 200


def test_what_is_adapted_is_shown_first_and_undone(client, data):
    X = data.X_test_unseen
    body = {"features": X.tolist()}
    before = scores(client, X[:5])
    shown = client.post("/adapt?preview=true", json=body).json()
    assert shown["accepted"], shown["reason"]
    assert shown["n_images"] == len(X) == len(shown["answers"])
    assert shown["score_after"] >= shown["score_before"]
    assert scores(client, X[:5]) == before
    assert client.get("/adapt").json() == {"n_images": 0}
    done = client.post("/adapt", json=body).json()
    assert done == {**shown, "preview": False}
    after = scores(client, X)
    assert [max(row, key=row.get) for row in after] == [a["after"] for a in shown["answers"]]
    assert after[:5] != before
    # A class that is described later is predicted as well, and a trial keeps what was learned.
    new = {"name": "new", "attributes": data.signatures.mean().tolist()}
    assert client.post("/classes", json=new).status_code == 201
    trial = {"attributes": data.signatures.mean().tolist()}
    sent = {"features": X[:5].tolist(), "trial": trial}
    tried = client.post("/predict?top=50", json=sent).json()
    assert tried["same_as"] == "new"
    for row, prediction in zip(scores(client, X[:5]), tried["predictions"], strict=True):
        for entry in prediction["ranked"]:
            if entry["class"] != tried["trial"]:
                assert row[entry["class"]] == pytest.approx(entry["score"], rel=1e-9)
    client.delete("/classes/new")
    assert client.delete("/adapt").json() == {"n_images": 0}
    assert scores(client, X[:5]) == before
    assert "not adapted" in reason(client.delete("/adapt"), 404)


def test_what_would_not_help_is_refused(tmp_path):
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
    return CalibratedStacking(GaussianEXEM(), bias=0.1, temperature=1.0)


@pytest.mark.parametrize(
    ("make", "adapts"),
    [
        (lambda: ZeroShotSearchCV(GaussianEXEM(), {"alpha": [0.1]}, cv=2), True),
        (
            lambda: ZeroShotPipeline([("scale", StandardScaler()), ("method", GaussianEXEM())]),
            True,
        ),
        (stacked, True),
        (lambda: NoneOfThese(stacked()), False),
    ],
)
def test_wrapped_models_learn(data, tmp_path, make, adapts):
    model = make()
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    recognizer = Recognizer(tmp_path / "model.zsl")
    first, X = recognizer.snapshot, data.X_test_unseen[:3]
    name = data.unseen_classes[2]

    def score(snapshot):
        return snapshot.model.decision_function(X, classes=[name])[0, 0]

    (kept,) = recognizer.add_examples(X[:1], name)
    assert score(recognizer.snapshot) > score(first)
    assert score(first) == model.decision_function(X, classes=[name])[0, 0]
    assert recognizer.adapts == adapts
    if adapts:
        recognizer.adapt(data.X_test_unseen)
        recognizer.forget_adaptation()
    else:
        with pytest.raises(_recognizer.Refusal, match=f"What {type(model).__name__} promises"):
            recognizer.adapt(data.X_test_unseen)
    recognizer.remove_example(kept.id)
    assert score(recognizer.snapshot) == score(first)


def test_methods_that_do_not_learn_say_so(data, tmp_path):
    model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        about = client.get("/about").json()
        assert not about["learns"]
        assert not about["adapts"]
        X = data.X_test_unseen[:1]
        sent = give(client, X, data.unseen_classes[0], status=422)
        assert "EXEM does not learn from corrections" in reason(sent, 422)
        sent = client.post("/adapt", json={"features": X.tolist()})
        assert "EXEM does not learn from pictures without labels" in reason(sent, 422)
        assert client.get("/examples").json() == {"examples": []}


def test_classes_that_lack_a_view(data, tmp_path):
    first, second = data.signatures.iloc[:, :3], data.signatures.iloc[:, 3:]
    lacks = data.unseen_classes[0]
    signatures = MultiSignatures({"first": first, "second": second.drop(index=lacks)})
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        shown = client.get(f"/classes/{quote(lacks)}").json()
        assert shown["attributes"] == [*first.loc[lacks], None, None, None]
        ranges = [(a["low"], a["high"]) for a in client.get("/about").json()["attributes"]]
        rest = second.drop(index=lacks)
        assert ranges[3:] == list(zip(rest.min(), rest.max(), strict=True))
        give(client, data.X_test_unseen[0], lacks)


def test_other_methods_are_adapted_inside_a_wrapper(data, tmp_path):
    model = Adapted(EXEM()).fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, tmp_path / "model.zsl")
    recognizer = Recognizer(tmp_path / "model.zsl")
    assert recognizer.adapts
    assert not recognizer.learns
    shown = recognizer.adapt(data.X_test_unseen, preview=True)
    expected = model.adapt(data.X_test_unseen.astype(np.float32).astype(np.float64))
    assert shown["accepted"] == expected.adaptation_.accepted
    after = [answer["after"] for answer in shown["answers"]]
    assert after == expected.predict(data.X_test_unseen).tolist()


def test_corrections_that_are_refused(path, data):
    limits = Limits(examples=2, unlabelled=3)
    X, name = data.X_test_unseen, data.unseen_classes[0]
    with client_of(create_app(Recognizer(path, limits=limits))) as client:
        assert "no class 'x'" in reason(give(client, X[0], "x", status=404), 404)
        assert "class" in reason(client.post("/examples", json={"features": [[0.0] * 16]}), 422)
        sent = client.post(f"/examples?class={name}", json={"features": [[1.0]]})
        assert "takes 16" in reason(sent, 422)
        body = {"features": X[:1].tolist(), "images": ["a", "b"]}
        assert "2 names" in reason(client.post(f"/examples?class={name}", json=body), 422)
        assert "At most 2 corrections" in reason(give(client, X[:3], name, status=409), 409)
        give(client, X[:2], name)
        assert "there are 2" in reason(give(client, X[0], name, status=409), 409)
        sent = client.post("/adapt", json={"features": X[:4].tolist()})
        assert "at most 3" in reason(sent, 413)


def test_a_disk_that_fails_keeps_nothing(client, data, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/secret/place")

    before = scores(client, data.X_test_unseen[:2])
    monkeypatch.setattr(_recognizer, "write_checked_json", full)
    sent = give(client, data.X_test_unseen[0], data.unseen_classes[0], status=507)
    assert "The correction cannot be kept: No space left" in reason(sent, 507)
    sent = client.post("/adapt", json={"features": data.X_test_unseen.tolist()})
    assert "secret" not in reason(sent, 507)
    assert scores(client, data.X_test_unseen[:2]) == before


def test_what_is_kept_stays_readable(path, data, monkeypatch):
    monkeypatch.setattr(_recognizer, "MAX_BYTES", 6 * 16 * 2)
    recognizer = Recognizer(path)
    recognizer.add_examples(data.X_test_unseen[:2], data.unseen_classes[0])
    with pytest.raises(_recognizer.Refusal, match="would take more than") as caught:
        recognizer.add_examples(data.X_test_unseen[:1], data.unseen_classes[0])
    assert caught.value.status == 409


def test_a_file_of_corrections_that_is_not_whole(path, data):
    file = path.with_name("model.zsl.added.json")
    recognizer = Recognizer(path)
    recognizer.add_examples(data.X_test_unseen[:1], data.unseen_classes[0])
    recognizer.adapt(data.X_test_unseen)
    good = read_checked_json(file)
    entry = good["examples"][0]
    for bad in (
        {**good, "examples": [entry, entry]},
        {**good, "examples": {}},
        {**good, "examples": [{**entry, "class": "gone"}]},
        {**good, "examples": [{**entry, "id": 1}]},
        {**good, "examples": [{**entry, "features": "AAAA"}]},
        {**good, "examples": [{**entry, "features": "no base64"}]},
        {**good, "examples": [{**entry, "features": [1.0] * 16}]},
        {**good, "examples": [{**entry, "features": entry["features"][:-8] + "AADAfw=="}]},
        {**good, "unlabelled": ""},
        {**good, "unlabelled": 3},
        {**good, "features": "of another network"},
    ):
        write_checked_json(file, bad)
        with pytest.raises(ValueError, match=r"The added classes in .*added\.json"):
            Recognizer(path)
    write_checked_json(file, good)
    assert len(Recognizer(path).snapshot.examples) == 1
    # Files of before are read: they hold classes alone.
    write_checked_json(file, {k: good[k] for k in ("attributes", "classes")} | {"format": 2})
    assert not Recognizer(path).snapshot.examples
    # A method that does not learn has no use for corrections.
    write_checked_json(file, good)
    model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    save(model, path)
    with pytest.raises(ValueError, match="does not learn from corrections"):
        Recognizer(path)


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


def test_what_answers_at_the_edge(problem, tmp_path):
    """Models without descriptions are corrected, too; those without pictures have none to show."""
    with warnings.catch_warnings():
        # Said once in a process, maybe by another test.
        warnings.simplefilter("ignore", InputWarning)
        model = GaussianEXEM().fit(problem.X_train, problem.y_train)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        assert client.get("/about").json()["described_by"] == "nothing"
        give(client, problem.X_train[0], problem.y_train[1])
        assert "no training picture" in reason(client.get("/pictures/a.png"), 404)
    other = save_feature_model(problem, tmp_path / "other.zsl")
    with pytest.raises(NotADirectoryError, match="no folder of training pictures"):
        Recognizer(other, pictures=tmp_path / "none")
