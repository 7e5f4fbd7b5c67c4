"""Access to the service, and its limits."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from service_tools import client_of, get, post, reason, running
from zslearn.baselines import ESZSL
from zslearn.persistence import load
from zslearn.serving import Limits, create_app, serve
from zslearn.serving._batching import Batcher

TOKEN = "a-token-of-some-length"


def test_the_token(model_path, rows):
    app = create_app(model_path, token=TOKEN)
    with client_of(app, host="birds.example") as client:
        for path in ("/", "/page.js", "/health"):
            assert client.get(path).status_code == 200
        for path in ("/classes", "/metrics", "/about", "/classes/x", "/nowhere", "/openapi.json"):
            answer = client.get(path)
            assert "token" in reason(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        basic, longer = f"Basic {TOKEN}", f"Bearer {TOKEN}x"
        for wrong in ("Bearer", "Bearer x", basic, TOKEN, longer, "Bearer é"):
            sent = client.get("/classes", headers={"authorization": wrong.encode("latin-1")})
            reason(sent, 401)
        right = {"authorization": f"bearer {TOKEN}"}
        assert client.get("/classes", headers=right).status_code == 200
        sent = client.post("/predict", json={"features": rows}, headers=right)
        assert sent.status_code == 200
        # Refused before the body is read.
        huge = {"content-type": "application/json", "content-length": "9" * 30}
        assert client.post("/predict", content=b"", headers=huge).status_code == 401


@pytest.mark.parametrize("token", ["", "short", "ä" * 20, "with a space in between"])
def test_weak_tokens_are_refused(model_path, token):
    with pytest.raises(ValueError, match="16 characters or more"):
        create_app(model_path, token=token)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "birds.example"])
def test_other_machines_need_a_token(model_path, host):
    with pytest.raises(ValueError, match="give a token"):
        serve(model_path, host=host)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_host_names(client, host, status):
    assert client.get("/classes", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://localhost:1"]
)
def test_pages_of_other_servers_are_refused(client, origin):
    new = {"name": "new", "attributes": [1.0] * 8}
    sent = client.post("/classes", json=new, headers={"origin": origin})
    assert "other servers" in reason(sent, 403)
    own = client.post("/classes", json=new, headers={"origin": "http://localhost"})
    assert own.status_code == 201
    assert "access-control-allow-origin" not in own.headers


def test_the_page_is_protected(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    # No inline code, and nothing from other servers.
    assert not re.search(
        r"<script(?! src=\"page\.js\")|<style| style=| on\w+=|https?://", page.text
    )
    script = client.get("/page.js").text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


def test_limits_of_body_and_batch(model_path, rows):
    with client_of(create_app(model_path, limits=Limits(body_bytes=3000, batch=4))) as client:
        kind = {"content-type": "application/json"}
        form = {"content-type": "multipart/form-data; boundary=x"}

        def pieces():
            for _ in range(100):
                yield b" " * 100

        for path, headers, body in (
            ("/predict", kind, b" " * 3001),
            # Without a length, and with an enormous one.
            ("/classes", kind, pieces()),
            ("/predict/images", form, pieces()),
            ("/predict", {**kind, "content-length": "9" * 30}, b""),
        ):
            sent = client.post(path, content=body, headers=headers)
            assert "limit of 3000 bytes" in reason(sent, 413)
            assert sent.headers["connection"] == "close"
        sent = client.post("/predict", json={"features": rows})
        assert "at most 4" in reason(sent, 422)
    # JSON takes many times its size in memory, and has a lower limit.
    with client_of(create_app(model_path)) as client:
        sent = client.post("/predict", content=b" " * 2**21, headers=kind)
        assert "longer than the limit" in reason(sent, 413)


@pytest.fixture
def blocked(model_path, monkeypatch):
    """Applications whose predictions block until `go_on`; `begun` is set by the first."""
    begun, go_on, sizes = Event(), Event(), []
    embed = ESZSL.embed

    def slow(self, X):
        sizes.append(len(X))
        begun.set()
        go_on.wait(60)
        return embed(self, X)

    def app(**limits):
        app = create_app(model_path, limits=Limits(**limits))
        # Patched late, since reading a model file tries the model.
        monkeypatch.setattr(ESZSL, "embed", slow)
        return app

    return SimpleNamespace(app=app, begun=begun, go_on=go_on, sizes=sizes)


def test_slow_predictions_time_out(blocked, rows):
    with client_of(blocked.app(seconds=0.5)) as client:
        sent = client.post("/predict", json={"features": rows})
        blocked.go_on.set()
        assert "within 0.5 seconds" in reason(sent, 503)
        assert sent.headers["retry-after"] == "1"


def test_slow_bodies_time_out(model_path):
    with running(create_app(model_path, limits=Limits(seconds=0.5))) as address:
        port = int(address.split(":")[2].strip("/"))
        head = (
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(head)
            received = b""
            while piece := connection.recv(4096):
                received += piece
        assert received.startswith(b"HTTP/1.1 408")


def test_the_number_of_concurrent_requests_is_limited(blocked, rows):
    body = {"features": rows}
    with running(blocked.app(in_flight=1, seconds=60)) as address, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, address + "predict", body)
        assert blocked.begun.wait(60)
        status, content, headers = post(address + "predict", body)
        assert status == 503
        assert "1 requests" in content["reason"]
        assert headers["retry-after"] == "1"
        assert get(address + "health")[0] == 200  # always
        blocked.go_on.set()
        assert waiting.result(60)[0] == 200
        assert post(address + "predict", body)[0] == 200


def test_concurrent_requests_share_a_batch(blocked, model_path, problem, monkeypatch):
    X = problem.X_test_unseen
    waiting, compute = [], Batcher.compute

    async def counted(self, job):
        waiting.append(job)
        return await compute(self, job)

    monkeypatch.setattr(Batcher, "compute", counted)
    with running(blocked.app()) as address, ThreadPoolExecutor(9) as pool:
        ask = [{"features": X[i : i + 2].tolist()} for i in range(9)]
        futures = [pool.submit(post, address + "predict?top=1", ask[0])]
        assert blocked.begun.wait(60)
        futures += [
            pool.submit(post, address + f"predict?top={1 + i % 3}", ask[i]) for i in range(1, 9)
        ]
        while len(waiting) < 9:
            time.sleep(0.01)
        blocked.go_on.set()
        found = [future.result(60)[1]["predictions"] for future in futures]
        assert b"zslearn_batch_rows_count 2.0" in get(address + "metrics")[1]
    assert blocked.sizes[0] == 2
    assert sum(blocked.sizes) == 18
    alone = load(model_path)
    for i, predictions in enumerate(found):
        labels, _ = alone.predict_top_k(X[i : i + 2], 1 + i % 3 if i else 1)
        ranked = [[entry["class"] for entry in p["ranked"]] for p in predictions]
        assert ranked == labels.tolist()


def test_an_error_only_affects_its_own_request(blocked, monkeypatch, caplog):
    app, embed = blocked.app(), ESZSL.embed

    def fail(self, X):
        if not X.any(axis=1).all():
            raise RuntimeError("a secret")
        return embed(self, X)

    monkeypatch.setattr(ESZSL, "embed", fail)
    bodies = [{"features": [[value] * 20]} for value in (1.0, 0.0, 2.0)]
    with running(app) as address, ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(post, address + "predict", bodies[0])]
        assert blocked.begun.wait(60)
        futures += [pool.submit(post, address + "predict", body) for body in bodies]
        while b"in_flight 5" not in get(address + "metrics")[1]:
            pass
        blocked.go_on.set()
        found = [future.result(60)[:2] for future in futures]
    assert [status for status, _ in found] == [200, 200, 500, 200]
    assert "secret" not in found[2][1]["reason"]
    assert "a secret" in caplog.text
