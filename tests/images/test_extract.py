from __future__ import annotations

import contextlib
import os

import numpy as np
import pandas as pd
import pytest

from small_images import COLORS, open_clip, timm, write_colors, write_image  # noqa: F401
from zslearn.base import InputWarning
from zslearn.datasets import load_table
from zslearn.images import (
    PromptClassifier,
    _features,
    extract_features,
    load_backbone,
    load_features,
    text_features,
)

pytest.importorskip("torch")
pytest.importorskip("PIL")
pytestmark = pytest.mark.usefixtures("timm")


@pytest.fixture
def folder(tmp_path):
    return write_colors(tmp_path / "images")


def extract(images, **options):
    return extract_features(images, "timm:tiny", device="cpu", **options)


def test_features_do_not_depend_on_the_batch(folder):
    features = extract(folder, batch_size=5, workers=3)
    assert features.X.shape == (24, 12)
    assert features.X.dtype == np.float32
    assert features.names[:2] == ("blue/0.png", "blue/1.png")
    assert features.y.tolist() == sorted(features.y.tolist())
    for row in (0, 7, 23):
        alone = extract([folder / features.names[row]])
        np.testing.assert_allclose(alone.X[0], features.X[row], rtol=1e-5)
        assert alone.digests == (features.digests[row],)
    assert len(set(features.digests)) == 24


def test_the_record_of_features(folder):
    about = extract(folder).about
    assert about["backbone"] == "timm:tiny"
    assert about["preprocessing"]["interpolation"] == "bicubic"
    assert len(about["weights_sha256"]) == 64
    assert about["boxes"] is False
    assert set(about["versions"]) == {"zslearn", "torch", "pillow"}


def test_files_are_saved_without_pickles(folder, tmp_path):
    features = extract(folder, out=tmp_path / "f.npz")
    again = load_features(tmp_path / "f.npz")
    assert np.array_equal(again.X, features.X)
    assert again.y.tolist() == features.y.tolist()
    assert (again.names, again.digests, again.about) == (
        features.names,
        features.digests,
        features.about,
    )
    with np.load(tmp_path / "f.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"X", "y", "images", "digests", "about"}
        assert all(arrays[name].dtype.kind in "fUu" for name in arrays)
    assert not list(tmp_path.glob("*.parts"))


def test_load_table_reads_feature_files(folder, tmp_path):
    extract(folder, out=tmp_path / "f.npz")
    signatures = pd.DataFrame(COLORS, index=["r", "g", "b"]).T.astype(float)
    data = load_table(tmp_path / "f.npz", signatures=signatures, unseen_classes=["cyan"])
    assert data.X_test_unseen.shape == (4, 12)
    assert set(data.seen_classes) == set(COLORS) - {"cyan"}
    np.savez(tmp_path / "g.npz", X=np.eye(3))
    with pytest.raises(ValueError, match="an array has no column of labels"):
        load_table(tmp_path / "g.npz", signatures=signatures, unseen_classes=["cyan"])


def test_unreadable_images_are_skipped_and_listed(folder, tmp_path):
    (folder / "red" / "1.png").write_bytes(b"no image")
    (folder / "blue" / "0.png").write_bytes(b"")
    features = extract(folder, out=tmp_path / "f.npz", batch_size=4)
    assert dict(features.skipped) == {
        "blue/0.png": "the file is empty",
        "red/1.png": "not an image of a supported format",
    }
    assert len(features) == 22
    assert features.names.count("red/1.png") == 0
    assert load_features(tmp_path / "f.npz").skipped == features.skipped


def test_a_class_without_readable_images_is_reported(folder):
    for path in (folder / "red").iterdir():
        path.write_bytes(b"x")
    with pytest.warns(InputWarning, match="No image of 'red' can be read"):
        assert "red" not in extract(folder).y


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(_features, "PART_SIZE", 5)


def interrupted(folder, out, monkeypatch, after):
    """Interrupt an extraction after some images."""
    read, real = [], _features.read_bytes

    def stop(path):
        if len(read) >= after:
            raise KeyboardInterrupt
        read.append(path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(_features, "read_bytes", stop)
        with pytest.raises(KeyboardInterrupt):
            extract(folder, out=out, workers=1, batch_size=2)


def test_an_interruption_keeps_finished_parts(folder, tmp_path, monkeypatch, small_parts):
    out = tmp_path / "f.npz"
    whole = extract(folder, batch_size=2)
    interrupted(folder, out, monkeypatch, after=17)
    assert not out.exists()
    parts = tmp_path / "f.npz.parts"
    kept = sorted(parts.glob("part-*.npz"))
    assert len(kept) == 3
    # A damaged part is recomputed.
    kept[1].write_bytes(kept[1].read_bytes()[:-40])
    read, real = [], _features.read_bytes
    monkeypatch.setattr(_features, "read_bytes", lambda path: read.append(path) or real(path))
    messages = []
    features = extract(folder, out=out, batch_size=2, say=messages.append)
    rows = [whole.names.index(path.relative_to(folder).as_posix()) for path in read]
    assert sorted(rows) == [5, 6, 7, 8, 9, *range(15, 24)]
    assert messages == ["Resuming: 10 of 24 images are done"]
    assert np.array_equal(features.X, whole.X)
    assert features.digests == whole.digests
    assert not parts.exists()
    # A complete file is not recomputed.
    read.clear()
    again = extract(folder, out=out, batch_size=2)
    assert not read
    assert np.array_equal(again.X, whole.X)
    extract(folder, out=out, batch_size=2, resume=False)
    assert len(read) == 24


@pytest.mark.parametrize("change", ["image", "boxes", "backbone", "label"])
def test_parts_of_other_inputs_are_not_used(folder, tmp_path, monkeypatch, small_parts, change):
    out = tmp_path / "f.npz"
    interrupted(folder, out, monkeypatch, after=17)
    options = {}
    if change == "image":
        write_image(folder / "blue" / "0.png", COLORS["red"], seed=99)
        os.utime(folder / "blue" / "0.png", (1, 1))
    elif change == "label":
        (folder / "blue").rename(folder / "azure")
    elif change == "boxes":
        names = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*.png"))]
        rows = "".join(f"{name},2,2,8,8\n" for name in names)
        (tmp_path / "boxes.csv").write_text(f"path,x,y,width,height\n{rows}")
        options["boxes"] = tmp_path / "boxes.csv"
    messages = []
    name = "timm:tiny2" if change == "backbone" else "timm:tiny"
    features = extract_features(
        folder, name, device="cpu", out=out, say=messages.append, batch_size=2, **options
    )
    assert messages == []
    fresh = extract_features(folder, name, device="cpu", batch_size=2, **options)
    assert np.array_equal(features.X, fresh.X)


def test_images_are_cropped_to_boxes(tmp_path):
    from PIL import Image

    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[5:15, 20:30] = (255, 0, 0)
    Image.fromarray(pixels).save(tmp_path / "1.png")
    (tmp_path / "boxes.csv").write_text("path,x,y,width,height\n1.png,20,5,10,10\n")
    cut = extract(tmp_path, boxes=tmp_path / "boxes.csv")
    np.testing.assert_allclose(cut.X[0], np.repeat([1.0, -2.0, -1.0], 4), rtol=1e-5)
    assert cut.about["boxes"] is True


def test_invalid_feature_files(folder, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.npz"):
        load_features(tmp_path / "f.zsl")
    path = tmp_path / "f.npz"
    for arrays, message in (
        ({"Z": np.eye(2)}, "no numeric array 'X'"),
        ({"X": np.eye(2), "y": np.eye(2)}, "'y' has shape"),
        ({"X": np.eye(2), "images": np.array(["a"])}, "'images' has shape"),
        ({"X": np.eye(2), "about": np.frombuffer(b"[1", np.uint8)}, "not valid JSON"),
        ({"X": np.eye(2), "about": np.frombuffer(b"[]", np.uint8)}, "not a JSON object"),
        ({"X": np.array([[object()]])}, "cannot be read"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message):
            load_features(path)
    extract(folder, out=path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(data[: rng.integers(1, len(data))] if rng.random() < 0.3 else data)
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        with contextlib.suppress(ValueError):
            load_features(path)


def test_prompts_alone_recognise_colours(folder, open_clip):  # noqa: F811
    backbone = load_backbone("open_clip:ViT-T/colors", device="cpu")
    features = extract_features(folder, backbone)
    classes = text_features(list(COLORS), ["a {}.", "the color {}"], backbone=backbone)
    assert list(classes.index) == list(COLORS)
    model = PromptClassifier(classes)
    assert (model.predict(features.X) == features.y).mean() == 1
    top, scores = model.predict_top_k(features.X, 3, classes=["red", "blue", "cyan"])
    assert set(top.ravel()) == {"red", "blue", "cyan"}
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_allclose(model.predict_proba(features.X).sum(axis=1), 1)
    with pytest.raises(ValueError, match="pink"):
        model.predict(features.X, classes=["pink"])
    with pytest.raises(ValueError, match="is expecting 3 features"):
        model.predict(np.eye(7))
    # With several texts, the mean of scores rather than the score of the mean text.
    texts = {name: [f"the color {name}", f"a {name}."] for name in COLORS}
    apart = text_features(texts, "{}", backbone=backbone, pool=None)
    cosines = features.X / np.linalg.norm(features.X, axis=1, keepdims=True) @ apart.to_numpy().T
    means = pd.DataFrame(cosines.T, index=apart.index).groupby(level=0).mean()
    several = PromptClassifier(apart)
    assert several.classes_.tolist() == means.index.tolist()
    np.testing.assert_allclose(several.decision_function(features.X), means.to_numpy().T, atol=1e-6)
    with pytest.raises(ValueError, match="prompts must contain"):
        text_features(["red"], ["a colour"], backbone=backbone)
