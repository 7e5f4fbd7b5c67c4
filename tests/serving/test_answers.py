"""Predictions of the service."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from service_tools import client_of, reason
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese, RankPredictor
from zslearn.model_selection import ZeroShotPipeline
from zslearn.persistence import load, save
from zslearn.serving import create_app


def fitted(problem, model, path, **options):
    """Fit and save a model, and serve it."""
    save(model.fit(problem.X_train, problem.y_train, signatures=problem.signatures), path)
    return create_app(path, **options)


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


def test_prior_odds(problem, tmp_path, rows, model_path):
    path = tmp_path / "calibrated.zsl"
    here, there = problem.unseen_classes[:2]
    model = CalibratedStacking(ESZSL(), temperature="cv")
    with client_of(fitted(problem, model, path, prior={here: 1e9})) as client:
        for prior, best in ((None, here), ({there: 1e9}, there)):
            found = client.post("/predict", json={"features": rows, "prior": prior}).json()
            assert {p["ranked"][0]["class"] for p in found["predictions"]} == {best}
            assert all(p["ranked"][0]["probability"] > 0.9 for p in found["predictions"])
        for prior, status, why in (
            ({here: 0}, 422, "greater than 0"),
            ({here: 10**400}, 422, "prior"),
            ({here: 2, f" {here}": 3}, 422, "named twice"),
            ({"cow": 2.0}, 404, "no class 'cow'"),
            ([1], 422, "prior"),
            ({str(i): "x" for i in range(5000)}, 422, "5000 entries"),
        ):
            sent = client.post("/predict", json={"features": rows, "prior": prior})
            assert why in reason(sent, status)
    for odds, why in ({"cow": 2.0}, "no class 'cow'"), ({here: 10**400}, "positive and finite"):
        with pytest.raises(ValueError, match=why):
            create_app(path, prior=odds)
    with pytest.raises(ValueError, match="no probabilities"):
        create_app(model_path, prior={here: 2.0})


def test_candidates_within_taxa(model_path, problem, rows):
    labels = problem.signatures.index
    # The last family has the name of a class.
    family = [("family 0", "family 1", labels[1])[i % 3] for i in range(len(labels))]
    taxonomy = pd.DataFrame({"family": family}, index=labels)
    with client_of(create_app(model_path, taxonomy=taxonomy)) as client:

        def found(words):
            answer = client.post(f"/predict?top=50&{words}", json={"features": rows}).json()
            return {entry["class"] for entry in answer["predictions"][0]["ranked"]}

        of_family = set(labels[::3])
        assert found("within=family 0") == of_family
        assert found(f"within=family 0&within={labels[4]}") == of_family | {labels[4]}
        assert found("within=family 0&among=seen") == of_family & set(problem.seen_classes)
        assert found(f"within={labels[1]}") == {*labels[2::3], labels[1]}
        for words, status, why in (
            ("within=famly 0", 404, "no class or taxon 'famly 0'. Did you mean 'family 0'"),
            (
                f"within={problem.seen_classes[0]}&among=described",
                422,
                "without training images within",
            ),
        ):
            wrong = client.post(f"/predict?{words}", json={"features": rows})
            assert why in reason(wrong, status)


def test_an_application_can_be_restarted(model_path, rows):
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
    assert why["built_from"]


def test_answers_of_calibrated_models(problem, tmp_path):
    body = {"features": problem.X_test_unseen.tolist()[:60]}
    both = RankPredictor(CalibratedStacking(ESZSL(), temperature="cv"), confidence=0.8)
    with client_of(fitted(problem, both, tmp_path / "both.zsl")) as client:
        found = client.post("/predict?top=16", json=body).json()["predictions"][0]
        assert sum(entry["probability"] for entry in found["ranked"]) == pytest.approx(1)
        assert found["surely"]["probability"] > 0
    none = NoneOfThese(ESZSL(), false_alarm_rate=0.5)
    with client_of(fitted(problem, none, tmp_path / "none.zsl")) as client:
        found = client.post("/predict", json=body).json()["predictions"]
        said = [prediction["none_of_these"] for prediction in found]
        assert said == none.is_none(problem.X_test_unseen[:60]).tolist()
        assert True in said
        taken = {"name": "none of these", "like": "class 01", "attributes": {}}
        assert "rejected images" in reason(client.post("/classes", json=taken), 422)


def test_numbers_as_labels(problem, tmp_path):
    path = tmp_path / "model.zsl"
    codes = {label: 10 * i for i, label in enumerate(problem.signatures.index)}
    signatures = problem.signatures.rename(index=codes)
    y = np.array([codes[label] for label in problem.y_train])
    steps = [("scale", StandardScaler()), ("method", ESZSL())]
    save(ZeroShotPipeline(steps).fit(problem.X_train, y, signatures=signatures), path)
    new = {"attributes": {}, "like": "10"}
    with client_of(create_app(path)) as client:
        assert client.get("/classes").json()["classes"][1]["name"] == "10"
        for name in ("x", "1" * 30):
            refused = client.post("/classes", json={"name": name, **new})
            assert "numbers" in reason(refused, 422)
        assert "already" in reason(client.post("/classes", json={"name": "010", **new}), 409)
        assert client.post("/classes", json={"name": "-7", **new}).status_code == 201
        # 0101 and 101 are the same number.
        assert client.post("/classes", json={"name": "0101", **new}).json()["name"] == "101"
        assert client.get("/classes/0101").json()["name"] == "101"
        assert client.delete("/classes/101").json() == {"removed": "101"}
        assert client.post("/classes", json={"name": "9" * 18, **new}).status_code == 201
        body = {"features": problem.X_test_unseen[:1].tolist(), "trial": new}
        assert client.post("/predict", json=body).json()["trial"] == "1"
    assert -7 in load(path).classes_


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b'{"features": [[1, 2]]}', 422, "features.0: List should have at least 20 items"),
        *(
            (b'{"features": [[' + b"0," * 19 + number + b"]]}", 422, "features.0.19")
            for number in (
                b"NaN", b"Infinity", b"1e999", b"-1e200", b"1" + b"0" * 400, b'"1"', b"true",
            )
        ),
        (b'{"features": ["' + b"0" * 20 + b'"]}', 422, "features.0: Input should be a valid list"),
        (b'{"features": []}', 422, "at least 1"),
        (b'{"features": 1}', 422, "valid list"),
        (b'{"features": [[%s]]}' % b",".join([b'""'] * 40_000), 422, "features.0"),
        (b'{"features": [%s]}' % b",".join([b"[]"] * 40_000), 422, "features.0: List should"),
        (b'{"features": [%s]}' % b",".join([b"[" + b"0," * 19 + b"0]"] * 65), 422, "most 64"),
        (b"{}", 422, "features: Field required"),
        (b"[]", 422, "body: Input should be a valid dictionary"),
        (b"{" + b",".join(b'"%d": 0' % i for i in range(5000)) + b"}", 422, "no field '0'"),
        (b'{"features": [[1]]', 422, "JSON decode error"),
        (b"", 422, "body: Field required"),
        (b'{"features": [["\xff\xfe"]]}', 400, "parsing the body"),
        (b"[" * 100_000, 400, "parsing the body"),
    ],
)  # fmt: skip
def test_invalid_bodies(client, body, status, why):
    response = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert why in reason(response, status)


def test_small_and_zero_features(client):
    for value in (0.0, 1e-300):
        assert client.post("/predict", json={"features": [[value] * 20]}).status_code == 200


def test_invalid_addresses(client, rows):
    body = {"features": rows}
    for words in ("top=0", "top=1e9", "among=some"):
        where = words.partition("=")[0]
        assert where in reason(client.post(f"/predict?{words}", json=body), 422)
    assert "nothing at this address" in reason(client.get("/../../etc/passwd"), 404)
    assert "not allowed" in reason(client.put("/classes"), 405)
    # Browsers send other types across origins without a preflight request.
    for kind in ({}, {"content-type": "text/plain"}):
        sent = client.post("/classes", content=b'{"name": "x"}', headers=kind)
        assert "application/json" in reason(sent, 415)
