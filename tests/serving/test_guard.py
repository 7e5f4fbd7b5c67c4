"""Who may ask the service, and how much."""

from __future__ import annotations

import inspect
import re
import socket
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore
from types import SimpleNamespace

import numpy as np
import pytest

from service_tools import (
    client_of,
    get,
    post,
    reason,
    running,
)
from zslearn.serving import Limits, Recognizer, create_app, serve
from zslearn.serving._batching import Batcher, Job

pytest.importorskip("fastapi")
from zslearn.serving import _guard

TOKEN = "a-token-of-some-length"


def test_the_token(model_path, rows):
    with client_of(create_app(model_path, token=TOKEN), host="birds.example") as client:
        for path in ("/", "/page.js", "/health"):
            assert client.get(path).status_code == 200
        for path in ("/classes", "/metrics", "/about", "/classes/x", "/nowhere", "/openapi.json"):
            answer = client.get(path)
            assert "token" in reason(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        for wrong in (
            "Bearer",
            "Bearer x",
            f"Basic {TOKEN}",
            TOKEN,
            f"Bearer {TOKEN}x",
            "Bearer é",
        ):
            sent = client.get("/classes", headers={"authorization": wrong.encode("latin-1")})
            reason(sent, 401)
        right = {"authorization": f"bearer {TOKEN}"}
        assert client.get("/classes", headers=right).status_code == 200
        sent = client.post("/predict", json={"features": rows}, headers=right)
        assert sent.status_code == 200


def test_guesses_of_the_token_are_limited(model_path, monkeypatch):
    from starlette.testclient import TestClient

    if "client" not in inspect.signature(TestClient).parameters:
        pytest.skip("needs a version of Starlette whose test client has an address")
    now = [0.0]
    monkeypatch.setattr(_guard, "monotonic", lambda: now[0])
    monkeypatch.setattr(_guard, "_MAX_GUESSES", 2)
    app = create_app(model_path, token=TOKEN)
    client, other = (TestClient(app, client=(host, 1)) for host in ("10.0.0.1", "10.0.0.2"))
    right = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/classes").status_code == 401  # no guess
    for _ in range(2):
        assert client.get("/classes", headers={"authorization": "Bearer x"}).status_code == 401
    now[0] = 20.0
    refused = client.get("/classes", headers=right)
    assert "wrong tokens" in reason(refused, 429)
    assert refused.headers["retry-after"] == "40"
    assert client.get("/health").status_code == 200
    assert other.get("/classes", headers=right).status_code == 200
    now[0] = 60.0
    assert client.get("/classes", headers=right).status_code == 200
    # The addresses that are remembered have an end: the oldest is forgotten.
    monkeypatch.setattr(_guard, "_MAX_ADDRESSES", 3)
    for host, status in [("0", 401)] * 2 + [("0", 429)] + [(str(i), 401) for i in range(1, 4)]:
        asking = TestClient(app, client=(host, 1))
        sent = asking.get("/classes", headers={"authorization": "Bearer x"})
        assert sent.status_code == status
    assert TestClient(app, client=("0", 1)).get("/classes", headers=right).status_code == 200


def test_tokens_are_compared_in_constant_time(model_path, monkeypatch):
    import hmac

    calls = []
    monkeypatch.setattr(
        _guard.hmac, "compare_digest", lambda a, b: calls.append((a, b)) or hmac.compare_digest
    )
    with client_of(create_app(model_path, token=TOKEN)) as client:
        client.get("/classes", headers={"authorization": "Bearer short"})
    ((one, other),) = calls
    assert len(one) == len(other) == 32


def test_tokens_that_are_none(model_path):
    for token in ("", "short", "ä" * 20, "with a space in between"):
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
def test_other_names_of_this_machine_are_refused(client, host, status):
    assert client.get("/classes", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://[", "http://localhost:1"]
)
def test_pages_of_others_are_refused(client, origin):
    new = {"name": "new", "attributes": [1.0] * 8}
    sent = client.post("/classes", json=new, headers={"origin": origin})
    assert "other servers" in reason(sent, 403)
    own = client.post("/classes", json=new, headers={"origin": "http://localhost"})
    assert own.status_code == 201
    assert "access-control-allow-origin" not in own.headers


def test_headers_of_the_page(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    # Nothing of the page is inside the HTML, and nothing from elsewhere.
    assert not re.search(
        r"<script(?! src=\"page\.js\")|<style| style=| on\w+=|https?://", page.text
    )
    script = client.get("/page.js").text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


def test_limits_of_the_body(model_path):
    limits = Limits(body_bytes=1000)
    with client_of(create_app(Recognizer(model_path, limits=limits))) as client:
        kind = {"content-type": "application/json"}
        sent = client.post("/predict", content=b" " * 1001, headers=kind)
        assert "longer than 1000" in reason(sent, 413)

        def pieces():
            for _ in range(100):
                yield b" " * 100

        # Its length is not said.
        sent = client.post("/classes", content=pieces(), headers=kind)
        assert "longer than 1000" in reason(sent, 413)
        huge = {**kind, "content-length": "9" * 30}
        assert "longer than 1000" in reason(client.post("/predict", content=b"", headers=huge), 413)


def test_limits_of_the_batch(model_path, rows):
    with client_of(create_app(Recognizer(model_path, limits=Limits(batch=4)))) as client:
        sent = client.post("/predict", json={"features": rows})
        assert "5 rows; at most 4" in reason(sent, 413)


@pytest.fixture
def blocked(model_path):
    """A recognizer whose answers wait for an event, and the event of the first that begins."""
    recognizer, begun, go_on, sizes = Recognizer(model_path), Event(), Event(), []
    answer = recognizer.answer

    def slow(X, *arguments, **options):
        sizes.append(len(X))
        begun.set()
        go_on.wait(60)
        return answer(X, *arguments, **options)

    recognizer.answer = slow
    return SimpleNamespace(recognizer=recognizer, begun=begun, go_on=go_on, sizes=sizes)


def test_the_time_of_a_request(blocked, rows):
    blocked.recognizer.limits = Limits(seconds=0.5)
    with client_of(create_app(blocked.recognizer)) as client:
        sent = client.post("/predict", json={"features": rows})
        assert "within 0.5 seconds" in reason(sent, 503)
        assert sent.headers["retry-after"] == "1"
        blocked.go_on.set()


def test_requests_in_flight(blocked, rows):
    blocked.recognizer.limits = Limits(in_flight=1, seconds=60)
    body = {"features": rows}
    with running(create_app(blocked.recognizer)) as address, ThreadPoolExecutor(1) as pool:
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


def test_concurrent_requests_are_computed_together(blocked, model_path, problem, monkeypatch):
    all_wait, submit = Semaphore(0), Batcher.submit

    def counted(*arguments):
        done = submit(*arguments)
        all_wait.release()
        return done

    monkeypatch.setattr(Batcher, "submit", counted)
    alone = Recognizer(model_path)
    with running(create_app(blocked.recognizer)) as address, ThreadPoolExecutor(9) as pool:
        X = problem.X_test_unseen
        ask = [{"features": X[i : i + 2].tolist()} for i in range(9)]
        futures = [pool.submit(post, address + "predict?top=1", ask[0])]
        assert blocked.begun.wait(60)
        futures += [
            pool.submit(post, address + f"predict?top={1 + i % 3}", ask[i]) for i in range(1, 9)
        ]
        assert all(all_wait.acquire(timeout=60) for _ in range(9))
        blocked.go_on.set()
        found = [future.result(60)[1]["predictions"] for future in futures]
        assert b"zslearn_batch_rows" in get(address + "metrics")[1]
    assert blocked.sizes == [2, 16]
    for i, predictions in enumerate(found):
        expected = alone.answer(X[i : i + 2], alone.snapshot, top=1 + i % 3 if i else 1)
        for mine, other in zip(predictions, expected, strict=True):
            assert [e["class"] for e in mine["ranked"]] == [e["class"] for e in other["ranked"]]


def test_an_error_of_one_does_not_hurt_those_beside_it(model_path, problem):
    recognizer = Recognizer(model_path)
    batcher = Batcher(recognizer, observe=lambda n_rows: None)
    jobs = [Job(problem.X_test_unseen[:2]), Job(np.ones((1, 3))), Job(problem.X_test_unseen[2:3])]
    gone = Job(problem.X_test_unseen[:1])
    gone.done.cancel()
    batcher._compute([*jobs, gone])
    assert len(jobs[0].done.result()[0]) == 2
    assert jobs[1].done.exception() is not None
    assert len(jobs[2].done.result()[0]) == 1


def test_a_fault_shows_nothing(model_path, rows, monkeypatch, caplog):
    recognizer = Recognizer(model_path)

    def fail(*_, **__):
        raise RuntimeError("a secret")

    monkeypatch.setattr(recognizer, "answer", fail)
    with client_of(create_app(recognizer)) as client:
        why = reason(client.post("/predict", json={"features": rows}), 500)
        assert "secret" not in why
        assert "a secret" in caplog.text  # for the operator


def test_slow_senders_are_not_waited_for(model_path):
    recognizer = Recognizer(model_path, limits=Limits(seconds=0.5))
    with running(create_app(recognizer), recognizer.limits) as address:
        port = int(address.split(":")[2].strip("/"))
        heads = {
            b"GET /health HT": b"",  # the connection just ends
            b"": b"",
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{": b"HTTP/1.1 408",
        }
        for head, beginning in heads.items():
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(head)
                received = b""
                while piece := connection.recv(4096):
                    received += piece
                assert received.startswith(beginning)
                assert bool(received) == bool(beginning)


def test_who_does_not_read_is_dropped(model_path):
    """However much waits for it: a connection that is closed only would wait until all is read."""
    limits = Limits(seconds=0.1)
    with (
        running(create_app(Recognizer(model_path, limits=limits)), limits) as address,
        socket.socket() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", int(address.split(":")[2].strip("/"))))
        # More than the buffers in between hold, of answers and of requests.
        ask = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400_000
        with pytest.raises(ConnectionError):
            connection.sendall(ask)


def test_serving_leaves_the_filters_of_warnings(model_path, monkeypatch):
    monkeypatch.setattr("uvicorn.Server.run", lambda server: None)
    before = list(warnings.filters)
    serve(model_path)
    assert warnings.filters == before
