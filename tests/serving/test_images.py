"""Images that are sent to the service."""

from __future__ import annotations

import io
import struct
import sys
import zlib

import pytest

from service_tools import (
    client_of,
    reason,
    save_color_model,
)
from small_images import COLORS, tiny_timm
from zslearn.serving import Limits, Recognizer, create_app

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def colors(tmp_path_factory):
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "timm", tiny_timm())
        path = save_color_model(tmp_path_factory.mktemp("colors"), in_words=False)
        recognizer = Recognizer(path, limits=Limits(pixels=10_000, batch=3))
        with client_of(create_app(recognizer)) as client:
            yield client


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
