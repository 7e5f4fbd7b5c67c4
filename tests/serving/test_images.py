"""Images that are sent to the service."""

from __future__ import annotations

import io
import shutil
import struct
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from service_tools import (
    client_of,
    reason,
    save_color_model,
)
from small_images import COLORS, tiny_timm
from zslearn.persistence import read_model, save
from zslearn.serving import Limits, Recognizer, _recognizer, create_app
from zslearn.serving._recognizer import Refusal

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "timm", tiny_timm())
        yield save_color_model(tmp_path_factory.mktemp("colors"), in_words=False)


@pytest.fixture(scope="module")
def colors(saved):
    recognizer = Recognizer(saved, limits=Limits(pixels=10_000, batch=3))
    with client_of(create_app(recognizer)) as client:
        yield client


@pytest.fixture
def color_model(saved, tmp_path):
    """The same, beside which classes of its own are kept."""
    return shutil.copy(saved, tmp_path / "model.zsl")


def png(color="red", **options):
    file = io.BytesIO()
    from PIL import Image

    Image.new("RGB", options.pop("size", (20, 20)), COLORS[color]).save(file, "PNG", **options)
    return file.getvalue()


def png_of_claimed_size(width, height):
    """A small file that claims to be a large picture."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 10_000_000, 9)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_images_are_recognised(colors, tmp_path):
    files = [("images", (f"../../{c}.png", png(c), "image/png")) for c in ("red", "green", "blue")]
    found = colors.post("/predict?features=true&explain=true", files=files).json()["predictions"]
    assert [p["ranked"][0]["class"] for p in found] == ["red", "green", "blue"]
    assert [p["image"] for p in found] == ["../../red.png", "../../green.png", "../../blue.png"]
    assert len(found[0]["features"]) == 12
    assert found[0]["explanation"]["pictures"][0]["label"] == "red"
    # The same by their features, and as the command line predicts.
    again = colors.post("/predict", json={"features": [p["features"] for p in found]}).json()
    for mine, other in zip(again["predictions"], found, strict=True):
        assert mine["ranked"] == other["ranked"]
    assert colors.get("/about").json()["takes_images"] is True


@pytest.mark.parametrize(
    ("data", "status", "why"),
    [
        (b"", 422, "empty"),
        (b"GIF89a", 422, "images[0] (x.png) cannot be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "known kind"),
        (b"PK\x03\x04" + b"\0" * 100, 422, "known kind"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", 422, "known kind"),
        (lambda: png()[:60], 422, "cannot be read"),
        (lambda: png()[:-30], 422, "cannot be read"),
        (lambda: png(size=(200, 51)), 422, "more than 10000"),
        (lambda: png_of_claimed_size(100_000, 100_000), 422, "pixels"),
        (lambda: png_of_claimed_size(2**31 - 1, 2**31 - 1), 422, "cannot be read"),
    ],
)
def test_images_that_are_refused(colors, data, status, why):
    data = data() if callable(data) else data
    sent = colors.post("/predict", files=[("images", ("x.png", data, "image/png"))])
    assert why in reason(sent, status)


class Blocked:
    """Takes the place of `Recognizer.pixels`: counts what begins, which ends when it may."""

    def __init__(self):
        self.begun, self.may_end = [], threading.Event()

    def __call__(self, data, where):
        self.begun.append(where)
        if b"broken" in data:
            raise Refusal(422, "broken")
        self.may_end.wait(30)
        raise Refusal(422, "ended")


def test_a_decoder_is_busy_until_it_ends(color_model, monkeypatch):
    """Whoever has gone: six requests that are answered in time do not make six threads."""
    recognizer = Recognizer(color_model, limits=Limits(seconds=0.1))
    pixels = Blocked()
    monkeypatch.setattr(recognizer, "pixels", pixels)
    with client_of(create_app(recognizer)) as client:
        for _ in range(6):
            sent = client.post("/predict", files=[("images", ("x.png", png(), "image/png"))])
            assert sent.status_code in (408, 503)
        pixels.may_end.set()
    assert len(pixels.begun) <= 4


def test_nothing_is_decoded_for_a_request_that_is_refused(color_model, monkeypatch):
    recognizer = Recognizer(color_model)
    pixels = Blocked()
    monkeypatch.setattr(recognizer, "pixels", pixels)
    files = [("images", (f"{i}.png", b"" if i else b"broken", "image/png")) for i in range(20)]
    with client_of(create_app(recognizer)) as client:
        assert "broken" in reason(client.post("/predict", files=files), 422)
        pixels.may_end.set()
        # Behind what the others have left to do.
        assert "ended" in reason(client.post("/predict", files=files[-1:]), 422)
    # Four at once, and one that took the place of the first before the others were given up.
    assert len(pixels.begun) <= 6


def test_images_share_the_memory(color_model, monkeypatch):
    """At the same time there are no more than fit, however many threads decode."""
    recognizer = Recognizer(color_model, limits=Limits(pixels=100))
    inside, most = [], []

    def watched(image):
        inside.append(image)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()

    monkeypatch.setattr(_recognizer, "decode_image", watched)
    network = SimpleNamespace(preprocessing=SimpleNamespace(pixels=lambda image: None))
    monkeypatch.setattr(recognizer, "image_network", lambda: network)
    # 8 bytes for each of 100 pixels, of 3200.
    data = png(size=(10, 10))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(recognizer.pixels, [data] * 40, ["x"] * 40))
    assert max(most) <= 4


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"", "multipart/form-data", "boundary"),
        (b"", "multipart/form-data; boundary=x", "no files"),
        (b"--x\r\n\r\nabc\r\n--x--", "multipart/form-data; boundary=x", "cannot be read"),
        (b"--y--", "multipart/form-data; boundary=x", "cannot be read"),
        (
            b'--x\r\nContent-Disposition: form-data; name="images"\r\n\r\nabc\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
            "Too many fields",
        ),
        (
            b'--x\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\nabc\r\n'
            b"--x--\r\n",
            "multipart/form-data; boundary=x",
            "field 'images'",
        ),
        (
            b'--x\r\nContent-Disposition: form-data; name="\xff\xfe"; filename="\xff"\r\n\r\na\r\n'
            b"--x--\r\n",
            "multipart/form-data; boundary=x; charset=nonsense",
            "field 'images'",
        ),
    ],
)
def test_forms_that_are_refused(colors, body, kind, why):
    sent = colors.post("/predict", content=body, headers={"content-type": kind})
    assert why in reason(sent, 422)


def test_too_many_images(colors):
    files = [("images", ("x.png", png(), "image/png"))] * 4
    assert "Too many files" in reason(colors.post("/predict", files=files), 422)


def test_images_to_a_model_of_features(client):
    sent = client.post("/predict", files=[("images", ("x.png", png(), "image/png"))])
    assert "takes feature vectors" in reason(sent, 415)


def test_large_files_stay_in_memory(colors, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    data = png() + b"\0" * 3_000_000
    sent = colors.post("/predict", files=[("images", ("x.png", data, "image/png"))])
    assert sent.status_code == 200


def test_training_pictures_are_shown_from_the_folder_alone(color_model, saved, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(saved.parent / "images", folder)
    file = read_model(color_model)
    names = file.about["training"]["images"]
    (tmp_path / "secret.png").write_bytes(png())
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "damaged.png").write_bytes(b"no picture")
    # A file may name what it likes.
    absolute = str(tmp_path / "secret.png")
    named = ["../secret.png", absolute, "link.png", "damaged.png", "\0", "red", 3]
    about = {**file.about, "training": {"images": [*names, *named], "labels": None}}
    save(file.model, color_model, about=about, extras=file.extras)
    recognizer = Recognizer(color_model, pictures=folder)
    with client_of(create_app(recognizer)) as client:
        about = client.get("/about").json()
        assert about["shows_pictures"]
        assert set(about["samples"]) <= {*names, "damaged.png"}
        shown = client.get(f"/pictures/{names[0]}")
        assert shown.headers["content-type"] == "image/jpeg"
        assert shown.content.startswith(b"\xff\xd8")
        for name in (*map(quote, map(str, named)), "..%2fsecret.png", "model.zsl", "nothing.png"):
            sent = client.get(f"/pictures/{name}")
            assert sent.status_code == 404, name
            assert sent.headers["content-type"] == "application/json"
    with client_of(create_app(Recognizer(color_model), token="x" * 16)) as client:
        assert client.get(f"/pictures/{names[0]}").status_code == 401


def test_a_repeated_picture_is_one_correction_whatever_its_batch(tmp_path, monkeypatch):
    """Features differ in their last digits between batches; what was sent does not."""
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())
    recognizer = Recognizer(save_color_model(tmp_path, learns=True))
    features, calls = recognizer.features, []

    def rounded_otherwise(pixels):
        calls.append(1)
        return features(pixels) * (1 + 1e-7 * len(calls))

    recognizer.features = rounded_otherwise
    picture = {"images": ("a.png", png("red"), "image/png")}
    with client_of(create_app(recognizer)) as client:
        first, second = (
            client.post("/examples?class=red", files=picture, headers={"idempotency-key": "a"})
            for _ in range(2)
        )
        assert first.status_code == second.status_code == 201
        assert first.json() == second.json()
        assert len(client.get("/examples").json()["examples"]) == 1
    assert len(calls) == 1


def test_pictures_correct_answers(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())
    path = save_color_model(tmp_path, learns=True)
    limits = Limits(batch=3, unlabelled=2)
    with client_of(create_app(Recognizer(path, limits=limits))) as client:
        files = [("images", (f"{c}.png", png(c), "image/png")) for c in ("magenta", "magenta")]
        made = client.post("/examples?class=blue", files=files)
        assert made.status_code == 201
        assert [e["image"] for e in made.json()["examples"]] == ["magenta.png"] * 2
        found = client.post("/predict?top=1", files=files).json()["predictions"]
        assert [p["ranked"][0]["examples"] for p in found] == [2, 2]
        assert client.post("/adapt", files=files).json()["n_images"] == 2
        sent = client.post("/adapt", files=files + files[:1])
        assert "3 pictures; at most 2" in reason(sent, 413)
