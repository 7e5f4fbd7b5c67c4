"""Small models to serve, and a server in a thread."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

import zslearn
from small_images import COLORS, write_colors
from zslearn.baselines import ESZSL
from zslearn.images import (
    Description,
    describe_in_text,
    extract_features,
    fit_samples,
    save_fitted,
)
from zslearn.synthesis import GaussianEXEM

#: Colours with training images; no class has one of the others.
SEEN = ("red", "green", "blue", "yellow", "cyan")


def save_feature_model(problem, path: Path, **kept) -> Path:
    """A model that takes feature vectors."""
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    zslearn.save(model, path, **kept)
    return path


def save_color_model(folder: Path, *, in_words: bool = False, learns: bool = False) -> Path:
    """A model of colours that takes pictures; needs a stand-in of timm, or of open_clip."""
    images = write_colors(folder / "images", SEEN)
    network = "open_clip:ViT-T/colors" if in_words else "timm:tiny"
    features = extract_features(images, network, device="cpu")
    if in_words:
        said = {name: [f"a {name} picture"] for name in SEEN}
        description = describe_in_text(said, about_features=features.about)
    else:
        # 1 keeps black apart from what is not described.
        table = {name: [value / 255 for value in COLORS[name]] + [1.0] for name in SEEN}
        signatures = pd.DataFrame(table, index=["red", "green", "blue", "constant"]).T
        description = Description(signatures, {"kind": "table"})
    if learns:
        model = GaussianEXEM(unlabelled_weight=0.3)
        model.fit(features.X, features.y, signatures=description.signatures)
    else:
        model = fit_samples(features, description.signatures, "eszsl", tune=None)
    name = "Gaussian EXEM" if learns else "ESZSL"
    save_fitted(model, folder / "colors.zsl", features, description, method=name)
    return folder / "colors.zsl"


@contextmanager
def running(app):
    """The address of a server of the application, on this machine."""
    import uvicorn

    sockets = [socket.create_server(("127.0.0.1", 0))]
    port = sockets[0].getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


@contextmanager
def served(path):
    """A process that serves a model by the command line, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "zslearn", "serve", str(path), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 90
        while True:
            try:
                get(f"http://127.0.0.1:{port}/health")
                break
            except OSError:
                ended = process.poll() is not None or time.monotonic() > end
                assert not ended, (process.kill(), process.stderr.read())
                time.sleep(0.1)
        yield process, f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait(30)
        process.stderr.close()


def client_of(app, **headers):
    """A client that calls an application without a server."""
    from starlette.testclient import TestClient

    return TestClient(
        app, base_url="http://localhost", headers=headers, raise_server_exceptions=False
    )


def reason(response, status):
    """The reason of a refusal, which is JSON and shows nothing of the inside."""
    assert response.status_code == status, response.text
    content = response.json()
    assert content["status"] == status
    assert set(content) == {"status", "reason"}
    assert "Traceback" not in response.text
    assert 'File "' not in response.text
    return content["reason"]


def post(address, content):
    request = urllib.request.Request(
        address, json.dumps(content).encode(), {"content-type": "application/json"}
    )
    return answered(request)


def get(address):
    with urllib.request.urlopen(address, timeout=30) as response:
        return response.status, response.read(), dict(response.headers)


def answered(request):
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response), dict(response.headers)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), dict(error.headers)
