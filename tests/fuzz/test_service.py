"""Requests that are damaged or mean harm.

What must hold in every case: an answer soon; JSON with a reason where it is refused, and nothing of
the inside; and a sound request is answered afterwards as before.
"""

from __future__ import annotations

import json
import warnings
from urllib.parse import quote

import numpy as np
import pytest

from fuzz.reader_worker import mutate
from service_tools import client_of, reason
from zslearn.persistence import save
from zslearn.serving import Limits, create_app
from zslearn.synthesis import GaussianEXEM

pytest.importorskip("fastapi")

#: What takes a body, then the others.
PATHS = (
    "/predict", "/classes", "/examples?class=class%2000", "/adapt", "/adapt?preview=true",
    "/predict/images", "/examples/images?class=class%2000", "/examples", "/examples/0",
    "/pictures/..%2fmodel.zsl", "/classes/class%2000",
    "/classes/..%2f..%2fetc", "/classes/%00", "/about", "/health", "/metrics", "/openapi.json",
    "/", "/page.js", "/../x", "//x", "/classes/" + "x" * 3000,
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")
TYPES = (
    "application/json", "application/json; charset=utf-16", "text/plain", "multipart/form-data",
    "multipart/form-data; boundary=b", "application/x-www-form-urlencoded", "", "\x00", "image/png",
)  # fmt: skip
#: Values that stand nowhere in a sound request, as JSON.
STRANGE = (
    "null", "true", "-1", "1e308", "1e999", "-1e-320", "NaN", "9" * 400, "9" * 5000, '""', '"a"',
    '"\\u0000"', '"\\ud800"', '"\\u001b[2J"', '"' + "x" * 5000 + '"', "[]", "{}", "[[]]", "[[[1]]]",
    '{"": 1}', "[" * 900 + "]" * 900, '"' + "e\\u0301" * 50 + '"', "[null]", '"<script>"',
    "1" * 400 + ".5",
)  # fmt: skip
QUERIES = (
    "", "top=3", "top=-1", "top=99999999999999999999", "top=x", "among=unseen", "among=",
    "among=%ff", "features=true", "explain=true", "explain=maybe", "top=1&top=2", "%00=%00",
    "a" * 4000,
)  # fmt: skip


@pytest.fixture
def service(tiny, tmp_path):
    model = GaussianEXEM(unlabelled_weight=0.1)
    model.fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
    save(model, tmp_path / "model.zsl")
    limits = Limits(body_bytes=2**18, added_classes=30, examples=30, seconds=10)
    return create_app(tmp_path / "model.zsl", limits=limits)


def sound_bodies(tiny):
    rows = tiny.X_test_unseen[:2].tolist()
    first = tiny.signatures.iloc[0]
    named = {str(name): float(value) for name, value in first.items()}
    return (
        {"features": rows},
        {"features": rows, "trial": {"attributes": first.tolist()}},
        {"name": "new", "attributes": named},
        {"name": "new", "attributes": {}, "like": str(tiny.signatures.index[1])},
        {"name": "new", "text": "a thing"},
    )


def random_body(rng, bodies):
    """The bytes of a request: a sound one with other values in it, or damaged."""
    content = json.loads(json.dumps(bodies[rng.integers(len(bodies))]))
    for _ in range(rng.integers(0, 3)):
        parent, key = content, str(rng.choice(sorted(content)))
        while isinstance(parent[key], (dict, list)) and parent[key] and rng.random() < 0.6:
            parent = parent[key]
            keys = sorted(parent) if isinstance(parent, dict) else range(len(parent))
            key = list(keys)[rng.integers(len(keys))]
        if rng.random() < 0.2 and isinstance(parent, dict):
            parent[str(rng.choice(["", "extra", "features", "\x1b[2J"]))] = "@@@"
        else:
            parent[key] = "@@@"
    text = json.dumps(content)
    while '"@@@"' in text:
        text = text.replace('"@@@"', STRANGE[rng.integers(len(STRANGE))], 1)
    data = text.encode("utf-16" if rng.random() < 0.05 else "utf-8", "surrogatepass")
    if rng.random() < 0.3:
        data = mutate(data, rng, text=True)
    if rng.random() < 0.1:
        data = b"--b\r\nContent-Disposition: form-data; name=images; filename=../x\r\n\r\n" + data
    return data[: 2**19]


def scores(client, body):
    """Scores of a sound request by class, up to rounding."""
    found = client.post("/predict", json=body).json()["predictions"]
    ranked = [(e["class"], e["score"]) for p in found for e in p["ranked"]]
    return {place: (name, pytest.approx(score)) for place, (name, score) in enumerate(ranked)}


def check_answer(response):
    assert response.status_code < 500, response.text[:300]
    assert 'File "' not in response.text
    assert "Traceback" not in response.text
    if response.status_code >= 400 and response.request.method != "HEAD":
        said = reason(response, response.status_code)
        assert said.isprintable()
        assert len(said) < 2000


@pytest.mark.slow
def test_damaged_requests(cases, tiny, service):
    bodies = sound_bodies(tiny)
    with client_of(service) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = scores(client, bodies[0])
        statuses = []
        for seed in cases(250):
            rng = np.random.default_rng(seed)
            usual = rng.random() < 0.7
            method = "POST" if usual else METHODS[rng.integers(len(METHODS))]
            path = PATHS[rng.integers(5)] if usual else PATHS[rng.integers(len(PATHS))]
            query = QUERIES[rng.integers(len(QUERIES))] if rng.random() < 0.3 else ""
            kind = TYPES[0] if usual else TYPES[rng.integers(len(TYPES))]
            response = client.request(
                method,
                f"{path}{'&' if '?' in path else '?'}{query}" if query else path,
                content=random_body(rng, bodies),
                headers={"content-type": kind},
            )
            check_answer(response)
            statuses.append(response.status_code)
            for entry in client.get("/classes").json()["classes"]:
                if entry["added"]:
                    client.delete(f"/classes/{quote(entry['name'], safe='')}")
            for example in client.get("/examples").json()["examples"]:
                client.delete(f"/examples/{example['id']}")
            client.delete("/adapt")
            assert scores(client, bodies[0]) == expected
        # Requests that are never refused, or always, would test nothing.
        assert len(statuses) < 50 or {200, 201, 422} <= set(statuses)
