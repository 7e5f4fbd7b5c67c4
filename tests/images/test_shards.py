"""Shards of images and features: whole files of predictions, whatever stops the work."""

from __future__ import annotations

import io
import os
import tarfile

import numpy as np
import pandas as pd
import pytest

from small_images import COLORS, timm, write_image  # noqa: F401
from zslearn import EXEM, BatchPredictor, save
from zslearn.images import load_backbone, predict_shards, read_image

pytest.importorskip("torch")
pytest.importorskip("PIL")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.usefixtures("timm")

SHARDS = 3
NAMES = list(COLORS)


def archive(path, files, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def images(tmp_path):
    """Bytes of pictures by name, six for each shard."""
    found = {}
    for shard in range(SHARDS):
        for number, name in enumerate(NAMES):
            path = write_image(tmp_path / "image.png", COLORS[name], seed=shard)
            found[f"{shard}/{number}"] = path.read_bytes()
    return found


@pytest.fixture
def shards(tmp_path, images):
    found = []
    for shard in range(SHARDS):
        files = {}
        for key, content in images.items():
            if key.startswith(f"{shard}/"):
                files |= {f"{key}.json": b"{}", f"{key}.PNG": content, f"{key}.cls": b"7"}
        found.append(archive(tmp_path / f"{shard}.tar", files))
    return found


@pytest.fixture
def model(tmp_path, images):
    """A file of a model of three colours that describes six."""
    network = load_backbone("timm:tiny", device="cpu")
    X = network.features(read_image(content) for content in images.values())
    y = np.array([NAMES[int(key[-1])] for key in images])
    seen = np.isin(y, NAMES[:3])
    table = pd.DataFrame.from_dict(COLORS, orient="index", dtype=float)
    fitted = EXEM().fit(X[seen], y[seen], signatures=table)
    save(fitted, tmp_path / "model.zsl", about={"features": network.about})
    return tmp_path / "model.zsl"


def predicted(predictor, images):
    """Labels and scores of pictures in memory."""
    table = pd.DataFrame(predictor({"__key__": list(images), "png": list(images.values())}))
    return table.set_index("__key__")


def check(found, expected):
    found = found.set_index("__key__").loc[expected.index]
    assert found["label_1"].tolist() == expected["label_1"].tolist()
    np.testing.assert_allclose(found["score_1"], expected["score_1"], rtol=1e-5)


def test_archives_become_tables(tmp_path, model, images, shards):
    predictor = BatchPredictor(model, "png", k=2, keep=["__key__", "cls"], device="cpu")
    out = predict_shards(predictor, shards, tmp_path / "out", batch_size=4)
    assert sorted(path.name for path in out.iterdir()) == ["0.parquet", "1.parquet", "2.parquet"]
    found = pd.read_parquet(out)
    assert found["cls"].tolist() == ["7"] * len(images)
    alone = BatchPredictor(model, "png", k=2, keep=["__key__"], device="cpu")
    check(found, predicted(alone, images))
    # Nothing is computed again, unless the shard or the columns change.
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    predict_shards(predictor, shards, out)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    archive(shards[1], {"x.png": images["0/0"], "x.cls": b"8"}, mode="a")
    predict_shards(predictor, shards, out)
    changed = [path.name for path in before if path.stat().st_mtime_ns != before[path]]
    assert changed == ["1.parquet"]
    assert len(pd.read_parquet(out / "1.parquet")) == 7
    predict_shards(alone, shards, out)
    assert "cls" not in pd.read_parquet(out)


def test_the_same_at_urls(tmp_path, model, images, shards):
    fsspec = pytest.importorskip("fsspec")
    urls = [f"memory://shards/in/{path.name}" for path in shards]
    for url, path in zip(urls, shards, strict=True):
        with fsspec.open(url, "wb") as file:
            file.write(path.read_bytes())
    predictor = BatchPredictor(model, "png", k=1, keep=["__key__"], device="cpu")
    out = predict_shards(predictor, urls, "memory://shards/out")
    assert out == "memory://shards/out"
    parts = [pd.read_parquet(f"{out}/{shard}.parquet") for shard in range(SHARDS)]
    check(pd.concat(parts), predicted(predictor, images))


def test_tables_of_images(tmp_path, model, images):
    table = pd.DataFrame({"__key__": list(images), "png": list(images.values())})
    table.to_parquet(tmp_path / "a.parquet", row_group_size=5)
    predictor = BatchPredictor(model, "png", k=1, keep=["__key__"], device="cpu")
    out = predict_shards(predictor, [tmp_path / "a.parquet"], tmp_path / "out", batch_size=4)
    check(pd.read_parquet(out), predicted(predictor, images))


def test_images_of_several_endings_and_without_one(tmp_path, model, images):
    first, *_ = images.values()
    files = {"a.b.c.png": first, "d/a.png": first, "e.jpg": first, "f.txt": b"", "g.png": b"no"}
    shard = archive(tmp_path / "x.tar", {"folder/": b"", "none": b"", **files})
    for column, labelled in [("b.c.png", [1, 0, 0, 0, 0]), ("png;jpg", [0, 1, 1, 0, 0])]:
        predictor = BatchPredictor(model, column, k=1, keep=["__key__"], device="cpu")
        found = pd.read_parquet(predict_shards(predictor, [shard], tmp_path / "out"))
        assert found["__key__"].tolist() == ["a", "d/a", "e", "f", "g"]
        assert found["label_1"].notna().tolist() == [bool(flag) for flag in labelled]


def test_hidden_files_and_files_that_occur_twice(tmp_path, model, images):
    one, other, *_ = images.values()
    files = {"._a.png": b"", "a.png": one, "a.jpg": other, "d/._b.jpg": b"", "d/b.jpg": one}
    shard = archive(tmp_path / "x.tar", files)
    predictor = BatchPredictor(model, "jpg;png", k=1, keep=["__key__"], device="cpu")
    found = pd.read_parquet(predict_shards(predictor, [shard], tmp_path / "out"))
    # The first ending of the column counts.
    alone = BatchPredictor(model, "png", k=1, keep=["__key__"], device="cpu")
    check(found, predicted(alone, {"a": other, "d/b": one}))
    with tarfile.open(shard, "a") as tar:
        member = tarfile.TarInfo("d/b.jpg")
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"it has 'd/b.jpg' twice"):
        predict_shards(predictor, [shard], tmp_path / "out")


def test_no_table_of_others_is_replaced(tmp_path, model, images, shards):
    table = pd.DataFrame({"__key__": list(images), "png": list(images.values())})
    table.to_parquet(tmp_path / "0.parquet")
    before = (tmp_path / "0.parquet").read_bytes()
    predictor = BatchPredictor(model, "png", k=1, device="cpu")
    # A shard itself, and what another program wrote beside one.
    for shard in (tmp_path / "0.parquet", shards[0]):
        for resume in (True, False):
            with pytest.raises(FileExistsError, match=r"0\.parquet .*choose another folder"):
                predict_shards(predictor, [shard], tmp_path, resume=resume)
    assert (tmp_path / "0.parquet").read_bytes() == before


def test_kept_columns_have_the_types_of_the_table(tmp_path, model, images):
    content = next(iter(images.values()))
    ids = [2**60 + 1, None, 3]
    columns = {"id": ids, "name": [None] * 3, "png": [content] * 3}
    types = {"id": pa.int64(), "name": pa.string(), "png": pa.binary()}
    parquet.write_table(pa.table(columns, pa.schema(types)), tmp_path / "a.parquet")
    predictor = BatchPredictor(model, "png", k=1, keep=["id", "name"], device="cpu")
    out = predict_shards(predictor, [tmp_path / "a.parquet"], tmp_path / "out", batch_size=2)
    found = parquet.read_table(out / "a.parquet")
    assert found["id"].to_pylist() == ids
    assert found.schema.field("name").type == pa.string()


def test_a_shard_without_readable_images_has_the_types_of_others(tmp_path, model, images):
    shards = [
        archive(tmp_path / "0.tar", {"a.png": b"no"}),
        archive(tmp_path / "1.tar", {"b.png": images["0/0"]}),
    ]
    predictor = BatchPredictor(model, "png", k=1, device="cpu")
    found = pd.read_parquet(predict_shards(predictor, shards, tmp_path / "out"))
    assert found["label_1"].isna().tolist() == [True, False]


@pytest.mark.parametrize("how", ["short", "half", "no end", "damaged", "empty", "column", "text"])
def test_a_bad_shard_does_not_stop_the_others(tmp_path, model, shards, how):
    content = bytearray(shards[1].read_bytes())
    n_used = len(bytes(content).rstrip(b"\0"))
    ends = {"short": 700, "half": n_used // 2, "no end": -(-n_used // 512) * 512, "empty": 0}
    if how in ends:
        shards[1].write_bytes(content[: ends[how]])
    elif how == "damaged":
        with tarfile.open(shards[1]) as tar:
            begin = tar.getmembers()[4].offset
        content[begin : begin + 512] = b"x" * 512
        shards[1].write_bytes(content)
    elif how == "column":
        archive(shards[1], {"a.txt": b"x", "a.cls": b"7"})
    else:
        archive(shards[1], {"a.cls": b"\xff", "a.png": b""})
    predictor = BatchPredictor(model, "png", k=1, keep=["cls"], device="cpu")
    with pytest.raises(ValueError, match=r"One shard could not be read.* .*1\.tar: ") as error:
        predict_shards(predictor, shards, tmp_path / "out")
    text = str(error.value)
    assert "0.tar" not in text
    assert "\n" not in text
    if how == "column":
        assert "no sample has 'png'; the files end in 'cls', 'txt'" in text
    elif how in ("no end", "damaged"):
        assert "incomplete" in text
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["0.parquet", "2.parquet"]


def test_a_shard_that_changes_while_it_is_read(tmp_path, model, shards, monkeypatch):
    predictor = BatchPredictor(model, "png", k=1, device="cpu")
    whole = shards[0].read_bytes()

    def features(self, values, network):
        shards[1].write_bytes(whole + bytes(10240))
        return original(self, values, network)

    original = BatchPredictor._features
    predict_shards(predictor, shards[:1], tmp_path / "out")
    monkeypatch.setattr(BatchPredictor, "_features", features)
    with pytest.raises(ValueError, match=r"1\.tar: the file changed while it was being read"):
        predict_shards(predictor, shards[1:2], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["0.parquet"]


def test_a_folder_that_cannot_be_written_is_an_error_at_once(tmp_path, model, shards):
    (tmp_path / "out").write_text("a file")
    predictor = BatchPredictor(model, "png", k=1, device="cpu")
    with pytest.raises(OSError, match="out"):
        predict_shards(predictor, shards, tmp_path / "out")


def test_bad_use(tmp_path, model, shards, images):
    predictor = BatchPredictor(model, "png", k=1, device="cpu")
    (tmp_path / "x").mkdir()
    other = archive(tmp_path / "x" / "0.tar", {})
    with pytest.raises(ValueError, match="Several shards are named '0'"):
        predict_shards(predictor, [*shards, other], tmp_path / "out")
    with pytest.raises(ValueError, match=r"0\.zip: a shard must be a \.tar or a \.parquet"):
        predict_shards(predictor, ["0.zip"], tmp_path / "out")
    table = pd.DataFrame({"jpg": list(images.values())})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet: The batch has no column 'png'.*'jpg'"):
        predict_shards(predictor, [tmp_path / "t.parquet"], tmp_path / "out")
    with pytest.raises(ValueError, match=r"2 shards could not be read.*none\.tar.*gone\.tar"):
        predict_shards(predictor, [tmp_path / "none.tar", "gone.tar"], tmp_path / "out")
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(ValueError, match=r"not a regular file.*pipe\.tar"):
        predict_shards(predictor, [tmp_path / "pipe.tar"], tmp_path / "out")
    # The model of the predictor before is in memory.
    other = tmp_path / "other.zsl"
    other.write_bytes(model.read_bytes())
    predictor = BatchPredictor(other, "png", k=1, device="cpu")
    other.write_bytes(b"other")
    with pytest.raises(ValueError, match="cannot be loaded"):
        predict_shards(predictor, shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()
