"""What the service says of features."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from service_tools import (
    client_of,
    reason,
)
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese, RankPredictor
from zslearn.model_selection import ZeroShotPipeline
from zslearn.persistence import load, save
from zslearn.serving import Recognizer, _recognizer, create_app
from zslearn.serving._batching import Batcher

pytest.importorskip("fastapi")
from zslearn.serving import _app


def test_predictions_are_those_of_the_model(client, model_path, problem, rows):
    model = load(model_path)
    found = client.post("/predict?top=3", json={"features": rows}).json()
    assert found["trial"] is None
    labels, scores = model.predict_top_k(problem.X_test_unseen[:5], 3)
    for prediction, names, values in zip(found["predictions"], labels, scores, strict=True):
        ranked = prediction["ranked"]
        assert [entry["class"] for entry in ranked] == names.tolist()
        np.testing.assert_allclose([entry["score"] for entry in ranked], values)
        seen = [entry["known_by"] == "seen" for entry in ranked]
        assert seen == np.isin(names, model.seen_classes_).tolist()
        assert prediction["features"] is None
    only = client.post("/predict?among=described&top=50", json={"features": rows}).json()
    assert {entry["class"] for entry in only["predictions"][0]["ranked"]} == set(
        problem.unseen_classes
    )


def test_odds_of_a_request_and_of_the_service(problem, tmp_path, rows, model_path):
    path = tmp_path / "calibrated.zsl"
    model = CalibratedStacking(ESZSL(), temperature="cv")
    save(model.fit(problem.X_train, problem.y_train, signatures=problem.signatures), path)
    here, there = problem.unseen_classes[:2]
    recognizer = Recognizer(path, prior={here: 1e9})
    with client_of(create_app(recognizer)) as client:
        for prior, best in ((None, here), ({there: 1e9}, there)):
            found = client.post("/predict", json={"features": rows, "prior": prior}).json()
            assert {p["ranked"][0]["class"] for p in found["predictions"]} == {best}
            assert all(p["ranked"][0]["probability"] > 0.9 for p in found["predictions"])
        for prior, status, why in (
            ({here: 0}, 422, "not a finite number above 0"),
            ({here: 10**400}, 422, "prior"),
            ({here: 2, f" {here}": 3}, 422, "a second time"),
            ({"cow": 2.0}, 404, "no class 'cow'"),
            ([1], 422, "prior"),
        ):
            assert why in reason(
                client.post("/predict", json={"features": rows, "prior": prior}), status
            )
    with pytest.raises(ValueError, match="no class 'cow'"):
        Recognizer(path, prior={"cow": 2.0})
    with pytest.raises(ValueError, match="not a finite number above 0"):
        Recognizer(path, prior={here: 10**400})
    with pytest.raises(ValueError, match="no probabilities"):
        Recognizer(model_path, prior={here: 2.0})


def test_candidates_within_taxa(model_path, problem, rows):
    labels = problem.signatures.index
    family = [f"family {i % 3}" for i in range(len(labels))]
    taxonomy = pd.DataFrame({"family": family}, index=labels)
    with client_of(create_app(Recognizer(model_path, taxonomy=taxonomy))) as client:

        def found(words):
            answer = client.post(f"/predict?top=50&{words}", json={"features": rows}).json()
            return {entry["class"] for entry in answer["predictions"][0]["ranked"]}

        of_family = set(labels[::3])
        assert found("within=family 0") == of_family
        assert found(f"within=family 0&within={labels[1]}") == of_family | {labels[1]}
        assert found("within=family 0&among=seen") == of_family & set(problem.seen_classes)
        for words, status, why in (
            ("within=famly 0", 404, "no class or taxon 'famly 0'. Did you mean 'family 0'"),
            (f"within={problem.seen_classes[0]}&among=described", 422, "described only within"),
        ):
            wrong = client.post(f"/predict?{words}", json={"features": rows})
            assert why in reason(wrong, status)


def test_a_class_that_is_also_a_taxon_is_among_its_candidates(model_path, problem, rows):
    labels = problem.signatures.index
    taxonomy = pd.DataFrame({"family": [labels[i % 3] for i in range(len(labels))]}, index=labels)
    with client_of(create_app(Recognizer(model_path, taxonomy=taxonomy))) as client:

        def found(word):
            answer = client.post(f"/predict?top=50&within={word}", json={"features": rows}).json()
            return {entry["class"] for entry in answer["predictions"][0]["ranked"]}

        assert found(labels[0]) == set(labels[::3])
        assert found(labels[3]) == {labels[3]}


@pytest.mark.parametrize("words", ["prior", "within"])
def test_many_names_are_refused_before_others_wait(problem, tmp_path, rows, monkeypatch, words):
    path, name = tmp_path / "calibrated.zsl", problem.seen_classes[0]
    model = CalibratedStacking(ESZSL(), temperature="cv")
    save(model.fit(problem.X_train, problem.y_train, signatures=problem.signatures), path)
    with client_of(create_app(path)) as client, monkeypatch.context() as patched:
        # Nothing of it comes to the thread that computes all predictions.
        patched.setattr(Batcher, "submit", None)
        spellings = [" " * i + name for i in range(20)]
        body = {"features": rows}
        if words == "prior":
            body["prior"] = dict.fromkeys(spellings, 2.0)
        within = spellings if words == "within" else []
        sent = client.post("/predict", json=body, params={"within": within})
        assert f"{words}: 20 " in reason(sent, 422)
        sent = client.post("/predict?within=nobody", json={"features": rows})
        assert "no class or taxon 'nobody'" in reason(sent, 404)


def test_names_are_looked_up_in_an_index(model_path, problem, monkeypatch):
    snapshot, composed, calls = Recognizer(model_path).snapshot, _recognizer.composed, []
    monkeypatch.setattr(_recognizer, "composed", lambda name: calls.append(name) or composed(name))
    name = problem.seen_classes[0]
    assert {snapshot.known(" " * i + name) for i in range(50)} == {name}
    assert len(calls) <= 50 + len(snapshot.label_of)


def test_names_of_a_wrapped_model_are_looked_up_in_an_index(problem, tmp_path, monkeypatch):
    model = CalibratedStacking(ESZSL(), cv=2)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    save(model, tmp_path / "model.zsl")
    snapshot, built, calls = Recognizer(tmp_path / "model.zsl").snapshot, model.class_scorer_, []
    scorer = property(lambda self: calls.append(1) or built)
    monkeypatch.setattr(CalibratedStacking, "class_scorer_", scorer)
    name = problem.seen_classes[0]
    assert {snapshot.known(" " * i + name) for i in range(50)} == {name}
    assert len(calls) <= 1


def test_an_application_is_started_again(model_path, rows):
    app = create_app(model_path)
    for _ in range(2):
        with client_of(app) as client:
            assert client.post("/predict", json={"features": rows}).status_code == 200


def test_explanations_and_features(client, rows):
    (found,) = client.post(
        "/predict?explain=true&features=true&among=described", json={"features": rows[:1]}
    ).json()["predictions"]
    assert found["features"] == rows[0]
    why = found["explanation"]
    assert why["predicted"]["label"] == found["ranked"][0]["class"]
    assert why["made_from"]


def test_what_calibrated_models_say(problem, tmp_path):
    path = tmp_path / "model.zsl"
    fitted = (problem.X_train, problem.y_train)
    both = RankPredictor(CalibratedStacking(ESZSL(), temperature="cv"), confidence=0.8)
    save(both.fit(*fitted, signatures=problem.signatures), path)
    body = {"features": problem.X_test_unseen[:2].tolist()}
    with client_of(create_app(path)) as client:
        found = client.post("/predict?top=16", json=body).json()["predictions"][0]
        assert sum(entry["probability"] for entry in found["ranked"]) == pytest.approx(1)
        assert found["surely"]["probability"] > 0
        assert client.post("/classes", json={"name": "x", "like": "class 01", "attributes": {}})
    none = NoneOfThese(ESZSL(), false_alarm_rate=0.5)
    save(none.fit(*fitted, signatures=problem.signatures), path)
    (tmp_path / "model.zsl.added.json").unlink()
    with client_of(create_app(path)) as client:
        body = {"features": problem.X_test_unseen.tolist()}
        found = client.post("/predict", json=body).json()["predictions"]
        said = [prediction["none_of_these"] for prediction in found]
        assert said == load(path).is_none(problem.X_test_unseen).tolist()
        assert True in said
        taken = {"name": "none of these", "like": "class 01", "attributes": {}}
        assert "already" in reason(client.post("/classes", json=taken), 409)


def test_numbers_as_labels(problem, tmp_path):
    path = tmp_path / "model.zsl"
    codes = {label: 10 * i for i, label in enumerate(problem.signatures.index)}
    signatures = problem.signatures.rename(index=codes)
    y = np.array([codes[label] for label in problem.y_train])
    from sklearn.preprocessing import StandardScaler

    steps = [("scale", StandardScaler()), ("method", ESZSL())]
    save(ZeroShotPipeline(steps).fit(problem.X_train, y, signatures=signatures), path)
    with client_of(create_app(path)) as client:
        assert client.get("/classes").json()["classes"][1]["name"] == "10"
        new = {"attributes": {}, "like": "10"}
        assert "numbers" in reason(client.post("/classes", json={"name": "x", **new}), 422)
        assert "already" in reason(client.post("/classes", json={"name": "010", **new}), 409)
        assert client.post("/classes", json={"name": "-7", **new}).status_code == 201
        # A number has one name, however it is written.
        assert client.post("/classes", json={"name": "0101", **new}).json()["name"] == "101"
        assert client.get("/classes/0101").json()["name"] == "101"
        assert client.delete("/classes/101").json() == {"removed": "101"}
        body = {"features": problem.X_test_unseen[:1].tolist(), "trial": new}
        assert client.post("/predict", json=body).json()["trial"] == "151"
        assert "18 digits" in reason(client.post("/classes", json={"name": "1" * 30, **new}), 422)
        assert client.post("/classes", json={"name": "9" * 18, **new}).status_code == 201
        # The next number would have too many digits.
        assert client.post("/predict", json=body).json()["trial"] == "1"
    assert "-7" in Recognizer(path).snapshot.label_of


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b'{"features": [[1, 2]]}', 422, "features[0] has 2 numbers; the model takes 20"),
        *(
            (b'{"features": [[' + b"0," * 19 + number + b"]]}", 422, why)
            for number, why in (
                (b"NaN", "finite"),
                (b"Infinity", "finite"),
                (b"1e999", "finite"),
                (b"1" + b"0" * 400, "finite"),
                (b'"1"', "valid number"),
                (b"true", "valid number"),
            )
        ),
        (b'{"features": ["' + b"0" * 20 + b'"]}', 422, "features[0] has no numbers"),
        (b'{"features": []}', 422, "at least 1"),
        (b'{"features": 1}', 422, "in a list"),
        (b"{}", 422, "features: Field required"),
        (b"[]", 422, "valid dictionary"),
        (b'{"features": [[1]], "x": 1}', 422, "x: Extra"),
        (b'{"features": [[1]]', 422, "JSON"),
        (b"", 422, "JSON"),
        (b'{"features": [["\xff\xfe"]]}', 422, "JSON"),
        (b"[" * 100_000, 422, "JSON"),
        (b'{"features": ' + b"[" * 100_000, 422, "JSON"),
    ],
)
def test_bodies_that_are_refused(client, body, status, why):
    response = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert why in reason(response, status)


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        # Lengths first, then one error: not one for each of the strings.
        ("predict", b'{"features": [[%s]]}', 422, "has 40000 numbers; the model takes 20"),
        ("predict", b'{"features": [%s]}', 413, "40000 rows; at most 64"),
        ("classes", b'{"name": "a", "attributes": [%s]}', 422, "40000 attributes were given"),
        ("classes", b'{"name": "a", "text": [%s]}', 422, "described by attributes, not by text"),
    ],
)
def test_very_many_values_are_refused_away_from_the_loop(
    client, monkeypatch, path, body, status, why
):
    """The loop answers others while a large body is read, checked and refused."""
    on_loop = []

    def watch(owner, name):
        function = getattr(owner, name)

        def watched(*arguments, **options):
            with suppress(RuntimeError):
                on_loop.append((name, asyncio.get_running_loop()))
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(_app, "_reason")
    watch(Recognizer, "checked_features")
    content = body % b",".join([b'""'] * 40_000)
    kind = {"content-type": "application/json"}
    assert why in reason(client.post(f"/{path}", content=content, headers=kind), status)
    assert not on_loop


def test_json_is_no_longer_than_its_numbers_need(client):
    kind = {"content-type": "application/json"}
    sent = client.post("/predict", content=b"[" + b'"",' * 2**19 + b"]", headers=kind)
    assert "longer than" in reason(sent, 413)
    # What is not asked for is refused by its first name.
    body = b"{" + b",".join(b'"%d": 0' % i for i in range(5000)) + b"}"
    assert "0: Extra" in reason(client.post("/classes", content=body, headers=kind), 422)


def test_features_beyond_all_measure(client, rows):
    assert "1e+15" in reason(client.post("/predict", json={"features": [[1e200] * 20]}), 422)
    assert client.post("/predict", json={"features": [[0.0] * 20]}).status_code == 200
    assert client.post("/predict", json={"features": [[1e-300] * 20]}).status_code == 200


def test_words_in_the_address(client, rows):
    body = {"features": rows}
    assert "top" in reason(client.post("/predict?top=0", json=body), 422)
    assert "top" in reason(client.post("/predict?top=1e9", json=body), 422)
    assert "among" in reason(client.post("/predict?among=some", json=body), 422)
    assert "nothing at this address" in reason(client.get("/../../etc/passwd"), 404)
    assert "other methods" in reason(client.put("/classes"), 405)
    assert "JSON" in reason(client.post("/predict", content=b"x"), 415)
    sent = client.post("/classes", content=b"{}", headers={"content-type": "text/plain"})
    assert "application/json" in reason(sent, 415)
