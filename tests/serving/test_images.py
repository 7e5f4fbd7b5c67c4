"""Images sent to the service."""

from __future__ import annotations

import io
import shutil
import sys
from urllib.parse import quote

import pandas as pd
import pytest

from service_tools import SEEN, client_of, reason, save_color_model
from small_images import COLORS, tiny_timm, write_colors
from zslearn.images import Backbone, Description, extract_features, fit_samples, save_fitted
from zslearn.persistence import read_model, save
from zslearn.serving import Limits, create_app


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "timm", tiny_timm())
        yield save_color_model(tmp_path_factory.mktemp("colors"), in_words=False)


@pytest.fixture(scope="module")
def colors(saved):
    with client_of(create_app(saved, limits=Limits(pixels=10_000, batch=3))) as client:
        yield client


@pytest.fixture
def color_model(saved, tmp_path):
    """A copy of the model, for tests that change it."""
    return shutil.copy(saved, tmp_path / "model.zsl")


def png(color="red", **options):
    file = io.BytesIO()
    from PIL import Image

    Image.new("RGB", options.pop("size", (20, 20)), COLORS[color]).save(file, "PNG", **options)
    return file.getvalue()


def test_images_are_recognised(colors, tmp_path):
    files = [("images", (f"../../{c}.png", png(c), "image/png")) for c in ("red", "green", "blue")]
    sent = colors.post("/predict/images?features=true&explain=true", files=files)
    found = sent.json()["predictions"]
    assert [p["ranked"][0]["class"] for p in found] == ["red", "green", "blue"]
    assert [p["image"] for p in found] == ["../../red.png", "../../green.png", "../../blue.png"]
    assert len(found[0]["features"]) == 12
    assert found[0]["explanation"]["pictures"][0]["label"] == "red"
    # Their features are ranked alike.
    again = colors.post("/predict", json={"features": [p["features"] for p in found]}).json()
    for mine, other in zip(again["predictions"], found, strict=True):
        assert mine["ranked"] == other["ranked"]
    assert colors.get("/about").json()["takes_images"] is True


def test_images_with_scaled_features(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())
    samples = extract_features(write_colors(tmp_path / "images", SEEN), "timm:tiny", device="cpu")
    table = {name: [value / 255 for value in COLORS[name]] for name in SEEN}
    description = Description(pd.DataFrame(table, index=["r", "g", "b"]).T, {"kind": "table"})
    options = {"tune": None, "feature_scaling": "standard"}
    model = fit_samples(samples, description.signatures, "eszsl", **options)
    path = tmp_path / "scaled.zsl"
    save_fitted(model, path, samples, description, method="ESZSL")
    with client_of(create_app(path)) as client:
        about = client.get("/about").json()
        assert (about["takes_images"], about["columns"], about["n_features"]) == (True, None, 12)
        files = [("images", ("x.png", png("green"), "image/png"))]
        (found,) = client.post("/predict/images?features=true", files=files).json()["predictions"]
        assert found["ranked"][0]["class"] == "green"
        (again,) = client.post("/predict", json={"features": [found["features"]]}).json()[
            "predictions"
        ]
        assert again["ranked"] == found["ranked"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: b"", "empty"),
        (lambda: b"GIF89a", "images[0] (x.png) cannot be read"),
        (lambda: png()[:-30], "cannot be read"),
        (lambda: png(size=(200, 51)), "more than the limit of 10000"),
    ],
)
def test_invalid_images(colors, data, why):
    sent = colors.post("/predict/images", files=[("images", ("x.png", data(), "image/png"))])
    assert why in reason(sent, 422)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"--x\r\n\r\nabc\r\n--x--", 400),
        (b"--y--", 400),
        (b'--x\r\nContent-Disposition: form-data; name="images"\r\n\r\nabc\r\n--x--\r\n', 422),
        (
            b'--x\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\nabc\r\n'
            b"--x--\r\n",
            422,
        ),
    ],
)
def test_invalid_forms(colors, body, status):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    reason(colors.post("/predict/images", content=body, headers=kind), status)
    reason(colors.post("/predict/images", content=body, headers={"content-type": "x/y"}), 422)


def test_too_many_images(colors):
    files = [("images", ("x.png", png(), "image/png"))] * 4
    assert "at most 3" in reason(colors.post("/predict/images", files=files), 422)


def test_models_without_a_known_network_refuse_images(client):
    sent = client.post("/predict/images", files=[("images", ("x.png", png(), "image/png"))])
    assert "accepts feature vectors" in reason(sent, 415)


def test_training_pictures_come_only_from_their_folder(color_model, saved, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(saved.parent / "images", folder)
    file = read_model(color_model)
    names = file.about["training"]["images"]
    (tmp_path / "secret.png").write_bytes(png())
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "damaged.png").write_bytes(b"no picture")
    # A model file may name anything.
    absolute = str(tmp_path / "secret.png")
    named = ["../secret.png", absolute, "link.png", "damaged.png", "\0", "red", 3]
    about = {**file.about, "training": {"images": [*names, *named], "labels": None}}
    save(file.model, color_model, about=about, extras=file.extras)
    with client_of(create_app(color_model, pictures=folder)) as client:
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
    with client_of(create_app(color_model, token="x" * 16)) as client:
        assert client.get(f"/pictures/{names[0]}").status_code == 401


def test_repeated_images_make_one_correction(tmp_path, monkeypatch):
    """Features depend, in their last digits, on the batch, so that pixels are compared."""
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())
    app = create_app(save_color_model(tmp_path, learns=True))
    features, calls = Backbone.features_of_pixels, []

    def rounded_otherwise(self, pixels):
        calls.append(1)
        return features(self, pixels) * (1 + 1e-7 * len(calls))

    monkeypatch.setattr(Backbone, "features_of_pixels", rounded_otherwise)
    picture = {"images": ("a.png", png("red"), "image/png")}
    with client_of(app) as client:
        where, key = "/examples/images?class=red", {"idempotency-key": "a"}
        first, second = (client.post(where, files=picture, headers=key) for _ in range(2))
        assert first.status_code == second.status_code == 201
        assert first.json() == second.json()
        assert len(client.get("/examples").json()["examples"]) == 1
    assert len(calls) == 1


def test_images_correct_answers(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "timm", tiny_timm())
    path = save_color_model(tmp_path, learns=True)
    with client_of(create_app(path, limits=Limits(batch=3, unlabelled=2))) as client:
        files = [("images", (f"{c}.png", png(c), "image/png")) for c in ("magenta", "magenta")]
        made = client.post("/examples/images?class=blue", files=files)
        assert made.status_code == 201
        assert [e["image"] for e in made.json()["examples"]] == ["magenta.png"] * 2
        found = client.post("/predict/images?top=1", files=files).json()["predictions"]
        assert [p["ranked"][0]["examples"] for p in found] == [2, 2]
        assert client.post("/adapt/images", files=files).json()["n_images"] == 2
        sent = client.post("/adapt/images", files=files + files[:1])
        assert "at most 2" in reason(sent, 422)
